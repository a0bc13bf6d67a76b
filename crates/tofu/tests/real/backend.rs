//! The smallest HTTP backend that OpenTofu accepts, with faults to order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use secrets::Secret;
use tofu::Backend;

#[derive(Default)]
pub(crate) struct Held {
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) lock: Option<Vec<u8>>,
    pub(crate) refuses_writes: bool,
    pub(crate) requests: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct FakeBackend {
    held: Arc<Mutex<Held>>,
    pub(crate) port: u16,
}

impl FakeBackend {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let backend = Self {
            held: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let held = Arc::clone(&backend.held);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let held = Arc::clone(&held);
                std::thread::spawn(move || serve(stream, &held));
            }
        });
        backend
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    pub(crate) fn access(&self) -> Backend {
        access(self.port)
    }
}

pub(crate) fn access(port: u16) -> Backend {
    Backend {
        address: format!("http://127.0.0.1:{port}/state"),
        lock_address: format!("http://127.0.0.1:{port}/lock"),
        unlock_address: format!("http://127.0.0.1:{port}/lock"),
        username: "step".into(),
        password: Secret::new("the-password"),
    }
}

fn serve(mut stream: TcpStream, held: &Mutex<Held>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let (mut length, mut is_authorized) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_authorized |= lower.starts_with("authorization: basic ");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let method = first.split(' ').next().unwrap_or_default().to_owned();
    let mut held = held.lock().unwrap();
    held.requests.push(first.trim().to_owned());
    let (status, answer) = match method.as_str() {
        _ if !is_authorized => ("401 Unauthorized", Vec::new()),
        "GET" => match &held.state {
            Some(state) => ("200 OK", state.clone()),
            None => ("404 Not Found", Vec::new()),
        },
        "POST" if held.refuses_writes => ("400 Bad Request", Vec::new()),
        "POST" => {
            held.state = Some(body);
            ("200 OK", Vec::new())
        }
        "LOCK" => match &held.lock {
            Some(lock) => ("423 Locked", lock.clone()),
            None => {
                held.lock = Some(body);
                ("200 OK", Vec::new())
            }
        },
        "UNLOCK" => {
            held.lock = None;
            ("200 OK", Vec::new())
        }
        "DELETE" => {
            held.state = None;
            ("200 OK", Vec::new())
        }
        _ => ("405 Method Not Allowed", Vec::new()),
    };
    drop(held);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&answer);
}
