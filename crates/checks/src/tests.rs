//! Every probe against a real server or program on this machine.

use std::cell::Cell;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use process::fake::NoSpawn;
use process::{Invocation, RealSpawner, Spawner};

use crate::test_servers::{
    DnsAnswer, HttpServer, closed_port, dns_server, hold, respond, speaks_first, tls_server,
};
use crate::{
    Came, DnsProbe, Failed, HttpMethod, HttpProbe, Probe, RecordKind, Residue, TcpProbe, await_ok,
    residue, run_once,
};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

fn once(probe: &Probe, timeout: Duration) -> Result<(), Came> {
    run_once(probe, timeout, &NoSpawn).map_err(|failure| {
        assert_eq!(failure.asked, probe.asked());
        failure.came
    })
}

fn http(probe: HttpProbe) -> Result<(), Came> {
    once(&Probe::Http(probe), LONG)
}

/// The deadline held, with room for a busy machine, and was waited for.
fn took_about(started: Instant, deadline: Duration) {
    let passed = started.elapsed();
    assert!(
        passed >= deadline - Duration::from_millis(20),
        "gave up after {passed:?}"
    );
    assert!(
        passed < deadline + Duration::from_secs(5),
        "held up for {passed:?}"
    );
}

#[test]
fn http_wants_the_status() {
    let server = HttpServer::always("204 No Content", "");
    let mut probe = HttpProbe::get(server.url("/healthz"));
    let Err(Came::Status {
        got,
        wanted,
        first_bytes,
    }) = http(probe.clone())
    else {
        panic!("204 is not 200");
    };
    assert_eq!((got, wanted, first_bytes.as_str()), (204, vec![200], ""));
    probe.status = vec![200, 204];
    assert_eq!(http(probe), Ok(()));
}

#[test]
fn http_shows_the_start_of_a_wrong_answer() {
    let server = HttpServer::always("503 Service Unavailable", "<h1>\nback soon</h1>");
    let came = http(HttpProbe::get(server.url("/"))).unwrap_err();
    assert_eq!(
        came.to_string(),
        "answered 503, not 200 (body begins `<h1> back soon</h1>`)"
    );
}

#[test]
fn http_wants_the_body() {
    let server = HttpServer::always("200 OK", "status: ok");
    let mut probe = HttpProbe::get(server.url("/"));
    probe.body_contains = Some("ok".into());
    assert_eq!(http(probe.clone()), Ok(()));
    probe.body_contains = Some("green".into());
    assert_eq!(
        http(probe),
        Err(Came::Body {
            status: 200,
            wanted: "green".into(),
            first_bytes: "status: ok".into()
        })
    );
}

#[test]
fn http_does_not_wait_for_the_end_of_a_body_that_already_holds_the_text() {
    let server = HttpServer::start(|_, _, stream| {
        use std::io::Write;
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nready and more"
        );
        hold(stream);
    });
    let mut probe = HttpProbe::get(server.url("/"));
    assert_eq!(http(probe.clone()), Ok(()), "no body is needed at all");
    probe.body_contains = Some("ready".into());
    assert_eq!(http(probe.clone()), Ok(()));
    probe.body_contains = Some("never".into());
    let started = Instant::now();
    let came = once(&Probe::Http(probe), SHORT).unwrap_err();
    assert_eq!(came, Came::TimedOut { after: SHORT });
    took_about(started, SHORT);
}

#[test]
fn http_sends_method_and_headers() {
    let server = HttpServer::start(|_, head, stream| {
        let right = head.starts_with("HEAD /x HTTP/1.1") && head.contains("x-key: hunter2");
        respond(
            stream,
            if right { "200 OK" } else { "400 Bad Request" },
            "",
            "",
        );
    });
    let mut probe = HttpProbe::get(server.url("/x"));
    probe.method = HttpMethod::Head;
    probe.headers = vec![("x-key".into(), "hunter2".into())];
    assert_eq!(http(probe), Ok(()));
}

#[test]
fn http_follows_a_redirect_only_when_asked() {
    let server = HttpServer::start(|_, head, stream| {
        if head.starts_with("GET /new ") {
            respond(stream, "200 OK", "", "");
        } else {
            respond(stream, "302 Found", "location: /new\r\n", "");
        }
    });
    let mut probe = HttpProbe::get(server.url("/old"));
    assert!(matches!(
        http(probe.clone()),
        Err(Came::Status { got: 302, .. })
    ));
    assert_eq!(server.n_requests(), 1);
    probe.status = vec![302];
    assert_eq!(
        http(probe.clone()),
        Ok(()),
        "the redirect itself may be the right answer"
    );
    probe.status = vec![200];
    probe.follow_redirects = true;
    assert_eq!(http(probe), Ok(()));
}

#[test]
fn http_goes_through_the_proxy_that_is_given_but_never_to_loopback() {
    let proxy = HttpServer::start(|_, head, stream| {
        // An absolute address in the request line, or CONNECT: both are a proxy's.
        let through =
            head.starts_with("GET http://nowhere.invalid/") || head.starts_with("CONNECT");
        respond(
            stream,
            if through { "200 OK" } else { "400 Bad Request" },
            "",
            "proxied",
        );
    });
    let direct = HttpServer::always("200 OK", "direct");
    let mut probe = HttpProbe::get(direct.url("/"));
    probe.proxies.http = Some(proxy.url(""));
    probe.body_contains = Some("direct".into());
    assert_eq!(http(probe), Ok(()));
    assert_eq!(proxy.n_requests(), 0);
    let mut probe = HttpProbe::get("http://nowhere.invalid/");
    probe.proxies.http = Some(proxy.url(""));
    let _ = once(&Probe::Http(probe), Duration::from_secs(2));
    assert_eq!(proxy.n_requests(), 1);
}

#[test]
fn http_tells_its_failures_apart() {
    let refused = HttpProbe::get(format!("http://{}/", closed_port()));
    assert_eq!(http(refused), Err(Came::Refused));
    let garbage = HttpServer::start(|_, _, stream| {
        use std::io::Write;
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n");
    });
    assert!(matches!(
        http(HttpProbe::get(garbage.url("/"))),
        Err(Came::Broken { .. })
    ));
    let tls = HttpProbe::get(format!("https://{}/", speaks_first()));
    let came = http(tls).unwrap_err();
    assert!(matches!(came, Came::Tls { .. }), "{came:?}");
    for (url, ca_file) in [
        ("http://", None),
        ("not an address", None),
        ("ftp://127.0.0.1/", None),
        ("https://127.0.0.1/", Some("/nowhere/ca.pem")),
    ] {
        let mut probe = HttpProbe::get(url);
        probe.ca_file = ca_file.map(Into::into);
        let came = http(probe).unwrap_err();
        assert!(matches!(came, Came::Unaskable { .. }), "{url}: {came:?}");
    }
}

#[test]
fn https_trusts_the_named_authority_and_nobody_else() {
    let server = tls_server();
    for host in ["localhost", "127.0.0.1"] {
        let mut probe = HttpProbe::get(format!("https://{host}:{}/", server.port()));
        let came = http(probe.clone()).unwrap_err();
        assert!(
            matches!(&came, Came::Tls { reason } if reason.contains("UnknownIssuer")),
            "{came:?}"
        );
        probe.ca_file = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ca.pem"));
        assert_eq!(http(probe), Ok(()), "{host}");
    }
    let mut probe = HttpProbe::get(format!("https://127.0.0.2:{}/", server.port()));
    probe.ca_file = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ca.pem"));
    let came = http(probe).unwrap_err();
    assert!(matches!(came, Came::Refused | Came::Tls { .. }), "{came:?}");
}

#[test]
fn a_certificate_file_without_certificate_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    process::files::write_atomically(&path, b"nothing in here\n", 0o600).unwrap();
    let mut probe = HttpProbe::get("https://127.0.0.1/");
    probe.ca_file = Some(path);
    let came = http(probe).unwrap_err();
    assert!(came.to_string().contains("holds no certificate"), "{came}");
}

#[test]
fn http_ends_at_its_deadline_whatever_the_server_does() {
    let silent = HttpServer::start(|_, _, stream| hold(stream));
    let started = Instant::now();
    let came = once(&Probe::Http(HttpProbe::get(silent.url("/"))), SHORT).unwrap_err();
    assert_eq!(came, Came::TimedOut { after: SHORT });
    took_about(started, SHORT);
}

#[test]
fn tcp_wants_a_listener() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for address in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        assert_eq!(once(&Probe::Tcp(TcpProbe { address }), LONG), Ok(()));
    }
    let address = closed_port().to_string();
    assert_eq!(
        once(&Probe::Tcp(TcpProbe { address }), LONG),
        Err(Came::Refused)
    );
    for address in ["127.0.0.1", "127.0.0.1:http", ":", ""] {
        let came = once(
            &Probe::Tcp(TcpProbe {
                address: address.into(),
            }),
            LONG,
        )
        .unwrap_err();
        assert!(!came.may_pass_later(), "{address}: {came:?}");
    }
    let probe = TcpProbe {
        address: "no such host.invalid:1".into(),
    };
    let came = once(&Probe::Tcp(probe), LONG).unwrap_err();
    assert!(matches!(came, Came::Unresolved { .. }), "{came:?}");
}

fn dns(
    kind: RecordKind,
    expect: &[&str],
    answer: DnsAnswer,
    timeout: Duration,
) -> Result<(), Came> {
    let probe = DnsProbe {
        name: "edge.example.org".into(),
        kind,
        expect: expect.iter().map(|value| (*value).to_owned()).collect(),
        server: Some(dns_server(answer)),
    };
    once(&Probe::Dns(probe), timeout)
}

#[test]
fn dns_wants_the_records() {
    let both = DnsAnswer::Records(vec![(1, vec![192, 0, 2, 1]), (1, vec![192, 0, 2, 2])]);
    assert_eq!(dns(RecordKind::A, &[], both.clone(), LONG), Ok(()));
    assert_eq!(
        dns(RecordKind::A, &["192.0.2.2"], both.clone(), LONG),
        Ok(())
    );
    let Err(Came::Records { got, missing }) =
        dns(RecordKind::A, &["192.0.2.1", "192.0.2.9"], both, LONG)
    else {
        panic!("one address is missing");
    };
    assert_eq!(missing, ["192.0.2.9"]);
    assert_eq!(got.len(), 2);
    let text = DnsAnswer::Records(vec![(16, b"\x03v=1\x04;k=2".to_vec())]);
    assert_eq!(dns(RecordKind::Txt, &["v=1;k=2"], text, LONG), Ok(()));
    let mut target = vec![0, 10];
    target.extend(b"\x04mail\x07example\x03org\x00");
    let mail = DnsAnswer::Records(vec![(15, target)]);
    assert_eq!(
        dns(RecordKind::Mx, &["10 mail.example.org"], mail, LONG),
        Ok(())
    );
}

#[test]
fn dns_tells_its_failures_apart() {
    for (answer, came) in [
        (DnsAnswer::Code(3), Came::NoSuchName),
        (DnsAnswer::Code(0), Came::NoRecord),
        (
            DnsAnswer::Code(5),
            Came::DnsError {
                code: "Query Refused".into(),
            },
        ),
    ] {
        assert_eq!(dns(RecordKind::A, &[], answer, LONG), Err(came));
    }
    let started = Instant::now();
    let came = dns(RecordKind::A, &[], DnsAnswer::Silence, SHORT).unwrap_err();
    assert_eq!(came, Came::TimedOut { after: SHORT });
    took_about(started, SHORT);
    let probe = DnsProbe {
        name: "..".into(),
        kind: RecordKind::A,
        expect: Vec::new(),
        server: Some(closed_port()),
    };
    let came = once(&Probe::Dns(probe), LONG).unwrap_err();
    assert!(matches!(came, Came::Unaskable { .. }), "{came:?}");
}

fn sh(script: &str) -> Invocation {
    Invocation::new("/bin/sh", "/")
        .args(["-c", script])
        .env("PATH", "/usr/bin:/bin")
}

fn spawner() -> impl Spawner {
    RealSpawner::direct()
}

fn exec(script: &str, timeout: Duration) -> Result<(), Came> {
    run_once(&Probe::Exec(sh(script)), timeout, &spawner()).map_err(|failure| failure.came)
}

#[test]
fn exec_wants_exit_code_0() {
    assert_eq!(exec("echo fine; echo really >&2", LONG), Ok(()));
    let Err(Came::Exited {
        code: 3,
        last_lines,
    }) = exec("for n in $(seq 30); do echo line $n; done; exit 3", LONG)
    else {
        panic!("3 is not 0");
    };
    assert_eq!(last_lines.len(), 20);
    assert_eq!(last_lines[19], "line 30");
    assert!(matches!(
        exec("kill -9 $$", LONG),
        Err(Came::Signalled { signal: 9, .. })
    ));
    let missing = Probe::Exec(Invocation::new("/nowhere/probe", "/"));
    let came = run_once(&missing, LONG, &spawner()).unwrap_err().came;
    assert!(
        matches!(&came, Came::NotRun { reason } if reason.contains("/nowhere/probe")),
        "{came}"
    );
}

#[test]
fn exec_that_hangs_is_killed_with_all_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("pid");
    let started = Instant::now();
    let script = format!(
        "sleep 1000 & echo $! > {}; echo waiting; wait",
        pid_file.display()
    );
    let Err(Came::Hung { after, last_lines }) = exec(&script, Duration::from_secs(1)) else {
        panic!("it hangs");
    };
    assert_eq!(
        (after, last_lines.as_slice()),
        (Duration::from_secs(1), &["waiting".to_owned()][..])
    );
    took_about(started, Duration::from_secs(1));
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let gone = process::wait::until(Instant::now() + LONG, Duration::from_millis(10), || {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
        // A zombie that its new parent has not reaped yet is dead all the same.
        stat.map_or(true, |stat| stat.contains(") Z "))
            .then_some(())
    });
    assert!(gone.is_some(), "the grandchild {pid} lives on");
}

#[test]
fn await_asks_until_it_passes() {
    let server = HttpServer::start(|n, _, stream| {
        respond(stream, if n < 3 { "503 Not Yet" } else { "200 OK" }, "", "");
    });
    let probe = Probe::Http(HttpProbe::get(server.url("/")));
    let passed = await_ok(&probe, LONG, Duration::from_millis(10), &|| false, &NoSpawn).unwrap();
    assert_eq!(passed.attempts, 3);
    assert_eq!(server.n_requests(), 3);
    assert!(passed.seconds >= 0.02);
}

#[test]
fn await_ends_with_what_came_last() {
    let server = HttpServer::start(|n, _, stream| {
        respond(
            stream,
            if n == 1 { "500 Down" } else { "503 Not Yet" },
            "",
            "",
        );
    });
    let probe = Probe::Http(HttpProbe::get(server.url("/")));
    let within = Duration::from_millis(400);
    let started = Instant::now();
    let failed = await_ok(
        &probe,
        within,
        Duration::from_millis(50),
        &|| false,
        &NoSpawn,
    )
    .unwrap_err();
    took_about(started, within);
    assert!(failed.attempts > 1);
    assert!(
        matches!(failed.last.came, Came::Status { got: 503, .. }),
        "{failed:?}"
    );
    assert!(
        failed.to_string().starts_with("did not pass in "),
        "{failed}"
    );
}

#[test]
fn await_asks_once_even_without_time_and_never_again_what_cannot_be_asked() {
    let server = HttpServer::always("200 OK", "");
    let probe = Probe::Http(HttpProbe::get(server.url("/")));
    let every = Duration::from_millis(1);
    assert_eq!(
        await_ok(&probe, Duration::ZERO, every, &|| false, &NoSpawn)
            .unwrap()
            .attempts,
        1
    );
    let probe = Probe::Tcp(TcpProbe {
        address: "127.0.0.1".into(),
    });
    let failed = await_ok(&probe, LONG, every, &|| false, &NoSpawn).unwrap_err();
    assert_eq!(failed.attempts, 1);
}

#[test]
fn await_heeds_a_stop_before_between_and_within_attempts() {
    let probe = Probe::Tcp(TcpProbe {
        address: closed_port().to_string(),
    });
    let Failed { attempts, last, .. } =
        await_ok(&probe, LONG, LONG, &|| true, &NoSpawn).unwrap_err();
    assert_eq!((attempts, last.came), (0, Came::Stopped));
    let n_looks = Cell::new(0);
    let third_look = || {
        n_looks.set(n_looks.get() + 1);
        n_looks.get() > 2
    };
    let started = Instant::now();
    let failed = await_ok(&probe, LONG, LONG, &third_look, &NoSpawn).unwrap_err();
    assert_eq!((failed.attempts, failed.last.came), (1, Came::Refused));
    let first_look = Cell::new(true);
    let later = || !first_look.replace(false);
    let hangs = Probe::Exec(sh("sleep 1000"));
    let failed = await_ok(&hangs, LONG, LONG, &later, &spawner()).unwrap_err();
    assert_eq!((failed.attempts, failed.last.came), (1, Came::Stopped));
    assert!(started.elapsed() < LONG);
}

fn left(script: &str, within: Duration) -> Residue {
    residue(
        &sh(script),
        within,
        Duration::from_millis(20),
        &|| false,
        &spawner(),
    )
}

/// Case T7: what is left after a teardown is never success.
#[test]
fn residue_is_silent_only_without_a_word_and_with_code_0() {
    assert!(left("exit 0", LONG).is_silent());
    assert!(
        left("echo; echo '  '", LONG).is_silent(),
        "blank lines name nothing"
    );
    let Residue::Left { lines, n_lines } = left("seq 50", SHORT) else {
        panic!("50 lines are something");
    };
    assert_eq!((lines.len(), n_lines, lines[19].as_str()), (20, 50, "50"));
    assert_eq!(
        left("echo machine-7 >&2", SHORT),
        Residue::Left {
            lines: vec!["machine-7".into()],
            n_lines: 1
        }
    );
    let Residue::Failed(failure) = left("exit 4", SHORT) else {
        panic!("a probe that fails proves nothing");
    };
    assert!(matches!(failure.came, Came::Exited { code: 4, .. }));
}

#[test]
fn residue_is_asked_again_until_what_is_left_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("n");
    let script = format!(
        "echo x >> {0}; test $(wc -l < {0}) -gt 2 || echo machine",
        file.display()
    );
    let Residue::Silent { attempts, .. } = left(&script, LONG) else {
        panic!("the third time it is silent");
    };
    assert_eq!(attempts, 3);
}

#[test]
fn residue_that_is_stopped_proves_nothing() {
    let found = residue(&sh("exit 0"), LONG, LONG, &|| true, &spawner());
    assert!(matches!(found, Residue::Failed(failure) if failure.came == Came::Stopped));
}
