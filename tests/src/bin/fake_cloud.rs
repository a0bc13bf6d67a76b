//! A small cloud for tests, and its command line.
//!
//! `fake_cloud serve DIR` keeps objects in directories below DIR and answers over HTTP; it prints its address. An object
//! is the file `NAME.json` of its directory, and `calls` beside it is the journal: `create NAME`, `again NAME` for what
//! was there already, `delete NAME`. The provider of `tools/provider-test` keeps its objects in the same form, so one
//! directory can hold what both made.
//!
//! `fake_cloud make|has|remove URL NAME` and `fake_cloud left URL BEGINNING` ask it: the last prints what is there.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for tests"
)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);

/// One change at a time, so that the journal and the objects agree.
static CHANGES: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["serve", dir] => serve(Path::new(dir)),
        ["make", url, name] => ask("PUT", url, name).map(|(status, _)| status < 300),
        ["has", url, name] => ask("GET", url, name).map(|(status, _)| status == 200),
        ["remove", url, name] => {
            ask("DELETE", url, name).map(|(status, _)| status < 300 || status == 404)
        }
        ["left", url, beginning] => ask("GET", url, "").map(|(status, text)| {
            for name in text.lines().filter(|name| name.starts_with(beginning)) {
                println!("{name}");
            }
            status == 200
        }),
        _ => {
            eprintln!("serve DIR, make|has|remove URL NAME, left URL BEGINNING");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(dir: &Path) -> std::io::Result<bool> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    for stream in listener.incoming() {
        let (stream, dir) = (stream?, dir.to_owned());
        std::thread::spawn(move || {
            // Whoever asked may be dead by now.
            let _ = answer(&dir, stream);
        });
    }
    Ok(true)
}

fn answer(dir: &Path, stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
    }
    let mut words = first.split_whitespace();
    let (verb, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (status, text) = match path.trim_start_matches('/').split_once('/') {
        Some((place, name)) if !path.contains("..") => act(&dir.join(place), verb, name)?,
        _ => (404, String::new()),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} So\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn act(place: &Path, verb: &str, name: &str) -> std::io::Result<(u16, String)> {
    let _one = CHANGES.lock();
    let object = place.join(format!("{name}.json"));
    let is_there = object.exists();
    Ok(match (verb, name) {
        ("GET", "") => (200, listed(place)),
        ("GET", _) => (if is_there { 200 } else { 404 }, String::new()),
        ("PUT", _) if is_there => {
            note(place, "again", name)?;
            (200, String::new())
        }
        ("PUT", _) => {
            std::fs::create_dir_all(place)?;
            note(place, "create", name)?;
            let half = place.join(format!(".{name}.half"));
            File::create(&half)?.write_all(b"{}\n")?;
            std::fs::rename(half, object)?;
            (201, String::new())
        }
        ("DELETE", _) if is_there => {
            std::fs::remove_file(object)?;
            note(place, "delete", name)?;
            (200, String::new())
        }
        ("DELETE", _) => (404, String::new()),
        _ => (405, String::new()),
    })
}

fn listed(place: &Path) -> String {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(".json")?;
        (!name.starts_with('.')).then(|| format!("{name}\n"))
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.concat()
}

fn note(place: &Path, what: &str, name: &str) -> std::io::Result<()> {
    let journal: PathBuf = place.join("calls");
    let mut file = OpenOptions::new().append(true).create(true).open(journal)?;
    file.write_all(format!("{what} {name}\n").as_bytes())
}

/// Asks the cloud at `http://HOST:PORT/PLACE`.
fn ask(verb: &str, url: &str, name: &str) -> std::io::Result<(u16, String)> {
    let wrong = || std::io::Error::other(format!("`{url}` is no http://HOST:PORT/PLACE"));
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (address, place) = rest.split_once('/').ok_or_else(wrong)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{verb} /{place}/{name} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok());
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned())
        .unwrap_or_default();
    status
        .map(|status| (status, body))
        .ok_or_else(|| std::io::Error::other("the cloud gave no answer"))
}
