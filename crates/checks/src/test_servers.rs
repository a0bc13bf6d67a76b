//! Small servers on loopback, each on a port of its own, for as long as the test process lives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An HTTP server that answers request number n (from 1) with what `answer` writes; it hands over the
/// request's head.
pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    n_requests: Arc<AtomicUsize>,
}

impl HttpServer {
    pub(crate) fn start(
        answer: impl Fn(usize, &str, &mut TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let n_requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&n_requests);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let n = count.fetch_add(1, Ordering::SeqCst) + 1;
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    let head = read_head(&mut stream);
                    answer(n, &head, &mut stream);
                });
            }
        });
        Self {
            address,
            n_requests,
        }
    }

    /// A server that always gives the same answer.
    pub(crate) fn always(status: &'static str, body: &'static str) -> Self {
        Self::start(move |_, _, stream| respond(stream, status, "", body))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn n_requests(&self) -> usize {
        self.n_requests.load(Ordering::SeqCst)
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Writes one whole answer. A client that has gone away is no concern of the server's.
pub(crate) fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let n = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {n}\r\nconnection: close\r\n{headers}\r\n{body}"
    );
}

/// Holds a connection open, silently, until the client is gone.
pub(crate) fn hold(stream: &mut TcpStream) {
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|n| n > 0) {}
}

/// A server that speaks before it is asked, and not TLS.
pub(crate) fn speaks_first() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"220 mail.example.org ESMTP\r\n");
            hold(&mut stream);
        }
    });
    address
}

/// A TLS server named `localhost` and `127.0.0.1`, with a certificate of `fixtures/ca.pem`, that
/// answers 200.
pub(crate) fn tls_server() -> SocketAddr {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = CertificateDer::from_pem_slice(include_bytes!("../fixtures/server.pem"));
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../fixtures/server-key.pem"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.unwrap()], key.unwrap())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = rustls::Stream::new(&mut connection, &mut stream);
            // A client that trusts us not goes away in the middle.
            let _ =
                tls.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let mut byte = [0];
            while tls.read(&mut byte).is_ok_and(|n| n > 0) {}
        }
    });
    address
}

/// A port on which nobody listens.
pub(crate) fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// What the DNS server says.
#[derive(Clone)]
pub(crate) enum DnsAnswer {
    /// Records: type number and data.
    Records(Vec<(u16, Vec<u8>)>),
    /// A response code and no record.
    Code(u8),
    /// Nothing at all.
    Silence,
}

/// A DNS server over UDP that gives the same answer to every query.
pub(crate) fn dns_server(answer: DnsAnswer) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        loop {
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            if let Some(reply) = dns_reply(&buffer[..n], &answer) {
                socket.send_to(&reply, from).unwrap();
            }
        }
    });
    address
}

/// Copies id and question, and adds the records with a pointer to the question's name.
fn dns_reply(query: &[u8], answer: &DnsAnswer) -> Option<Vec<u8>> {
    let (code, records) = match answer {
        DnsAnswer::Silence => return None,
        DnsAnswer::Code(code) => (*code, &[][..]),
        DnsAnswer::Records(records) => (0, &records[..]),
    };
    let mut end = 12;
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    let question = &query[12..end + 5];
    let n_answers = u8::try_from(records.len()).unwrap();
    let mut reply = query[..2].to_vec();
    // A response, authoritative, recursion available.
    reply.extend([0x85, 0x80 | code, 0, 1, 0, n_answers, 0, 0, 0, 0]);
    reply.extend(question);
    for (kind, data) in records {
        reply.extend([0xc0, 12]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 60]);
        reply.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        reply.extend(data);
    }
    Some(reply)
}
