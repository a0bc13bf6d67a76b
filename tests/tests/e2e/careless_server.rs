//! A server that speaks S3 and knows nothing of conditions: it takes every write.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The server. It ends with the test's process.
pub(crate) struct Careless {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    written: Arc<Mutex<Vec<String>>>,
}

impl Careless {
    /// Starts it, with one empty bucket of any name.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&written);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let book = Arc::clone(&book);
                std::thread::spawn(move || serve(client, &book));
            }
        });
        Self { address, written }
    }

    /// The paths of everything that was written.
    pub(crate) fn written(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }
}

/// Answers one request and closes.
fn serve(mut client: TcpStream, book: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut first = String::new();
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 0) && line.trim() != "" {
        if first.is_empty() {
            first = line.clone();
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (status, more, answer) = match method {
        "PUT" => {
            book.lock().unwrap().push(path.to_owned());
            ("200 OK", "etag: \"1\"\r\n", "")
        }
        "DELETE" => ("204 No Content", "", ""),
        _ if path.contains("list-type") => (
            "200 OK",
            "",
            "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>",
        ),
        _ => ("404 Not Found", "", "<Error><Code>NoSuchKey</Code></Error>"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{more}content-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
    let _ = client.write_all(head.as_bytes());
}
