//! A server that gives one answer to everything, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
pub(crate) struct Request {
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Method and target.
    pub(crate) fn line(&self) -> (&str, &str) {
        let mut words = self.head.split(' ');
        (words.next().unwrap(), words.next().unwrap())
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let headers = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        headers
            .filter(|header| header.0.eq_ignore_ascii_case(name))
            .map(|header| header.1.trim().to_owned())
            .next()
    }
}

/// The server. It ends with the test's process.
pub(crate) struct Canned {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    /// Answers every request with `status` and `body`.
    pub(crate) fn new(status: &'static str, body: &'static str) -> Self {
        Self::answering(move |_| {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {status}\r\nETag: \"same\"\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            Some(text.into_bytes())
        })
    }

    /// Takes every request and never answers.
    pub(crate) fn silent() -> Self {
        Self::answering(|_| None)
    }

    /// Answers each request by itself.
    pub(crate) fn answering(
        answer: impl Fn(&Request) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&heads), Arc::new(answer));
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                kept.push(stream.try_clone().unwrap());
                std::thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        Self { address, heads }
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &(dyn Fn(&Request) -> Option<Vec<u8>> + Send + Sync),
) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            if line == "\r\n" {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(text) = lower.strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request = Request { head, body };
        let answered = answer(&request);
        seen.lock().unwrap().push(request.head);
        let Some(bytes) = answered else { continue };
        if writer.write_all(&bytes).is_err() {
            return;
        }
    }
}
