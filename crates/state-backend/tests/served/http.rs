//! What a plain HTTP client is answered.

use crate::world::{STEP, World, lock_info, send, send_with, state, try_send};
use base64::Engine as _;
use md5::Digest as _;
use state_backend::{Demand, Fault, GrantOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use store::lock::Hold;

#[test]
fn a_state_is_locked_written_read_and_unlocked() {
    let world = World::new();
    let access = world.grant();
    assert_eq!(send(&access, "GET", "", b"").0, 404);
    assert_eq!(send(&access, "LOCK", "", &lock_info("me")).0, 200);
    assert_eq!(send(&access, "POST", "?ID=me", &state("l", 1, "a")).0, 200);
    assert_eq!(send(&access, "GET", "", b""), (200, state("l", 1, "a")));
    assert_eq!(send(&access, "POST", "?ID=me", &state("l", 2, "b")).0, 200);
    assert_eq!(send(&access, "UNLOCK", "", &lock_info("me")).0, 200);
    assert_eq!(send(&access, "GET", "", b""), (200, state("l", 2, "b")));
    assert!(world.server.take_refusals(STEP).is_empty());
}

/// L1, L5: answers get lost, so what is repeated succeeds; what is another's doesn't.
#[test]
fn a_repeated_lock_and_unlock_succeed() {
    let world = World::new();
    let access = world.grant();
    world.once("LOCK", Fault::After(502));
    assert_eq!(send(&access, "LOCK", "", &lock_info("me")).0, 502);
    assert_eq!(send(&access, "LOCK", "", &lock_info("me")).0, 200);
    world.once("UNLOCK", Fault::After(502));
    assert_eq!(send(&access, "UNLOCK", "", &lock_info("me")).0, 502);
    assert_eq!(send(&access, "UNLOCK", "", &lock_info("me")).0, 200);
    assert_eq!(send(&access, "UNLOCK", "", &lock_info("me")).0, 200);
    assert_eq!(send(&access, "UNLOCK", "", &lock_info("unknown")).0, 409);
    assert_eq!(send(&access, "UNLOCK", "?ID=unknown", b"").0, 409);
}

/// L2, L13: the holder's own lock info, whole; and nobody else releases it.
#[test]
fn another_is_refused_with_the_holders_lock_info() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    assert_eq!(
        send(&access, "LOCK", "", &lock_info("other")),
        (423, lock_info("me"))
    );
    assert_eq!(
        send(&access, "UNLOCK", "", &lock_info("other")),
        (409, lock_info("me"))
    );
    assert_eq!(send(&access, "LOCK", "", &lock_info("other")).0, 423);
    let refusals = world.server.take_refusals(STEP);
    assert_eq!(
        refusals
            .iter()
            .map(|refusal| refusal.status)
            .collect::<Vec<_>>(),
        [423, 409, 423]
    );
    assert!(world.server.take_refusals(STEP).is_empty());
}

/// L9: no write without the lock's own id.
#[test]
fn a_write_without_the_lock_is_refused() {
    let world = World::new();
    let access = world.grant();
    assert_eq!(send(&access, "POST", "", &state("l", 1, "a")).0, 409);
    send(&access, "LOCK", "", &lock_info("me"));
    assert_eq!(
        send(&access, "POST", "", &state("l", 1, "a")),
        (423, lock_info("me"))
    );
    assert_eq!(
        send(&access, "POST", "?ID=other", &state("l", 1, "a")),
        (423, lock_info("me"))
    );
    assert_eq!(send(&access, "DELETE", "", b"").0, 423);
    assert_eq!(world.state_bytes(), None);
}

/// L10, L11: older serials, other bytes of one serial, other lineages.
#[test]
fn what_does_not_follow_is_refused() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    let post = |body: &[u8]| send(&access, "POST", "?ID=me", body).0;
    assert_eq!(post(&state("l", 7, "a")), 200);
    assert_eq!(post(&state("l", 7, "a")), 200);
    for body in [
        state("l", 5, "a"),
        state("l", 7, "b"),
        state("m", 8, "a"),
        state("", 8, "a"),
    ] {
        assert_eq!(post(&body), 409);
    }
    for body in [&b""[..], b"[]", b"{\"serial\":8"] {
        assert_eq!(post(body), 400);
    }
    assert_eq!(world.state_bytes(), Some(state("l", 7, "a")));
    assert!(world.server.backend().versions(STEP).unwrap().is_empty());
}

#[test]
fn a_delete_moves_the_state_to_its_versions() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    send(&access, "POST", "?ID=me", &state("l", 7, "a"));
    assert_eq!(send(&access, "DELETE", "?ID=me", b"").0, 200);
    assert_eq!(send(&access, "DELETE", "?ID=me", b"").0, 200);
    assert_eq!(send(&access, "GET", "", b"").0, 404);
    assert_eq!(world.server.backend().versions(STEP).unwrap()[0].serial, 7);
}

#[test]
fn a_body_that_was_changed_on_its_way_is_refused() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    let md5 =
        |body: &[u8]| base64::engine::general_purpose::STANDARD.encode(md5::Md5::digest(body));
    let post = |body: &[u8], md5: &str| {
        send_with(&access, "POST", "?ID=me", body, &[("content-md5", md5)]).0
    };
    let body = state("l", 1, "a");
    assert_eq!(post(&body, &md5(&state("l", 1, "b"))), 400);
    assert_eq!(post(&body, "no base64!"), 400);
    assert_eq!(world.state_bytes(), None);
    assert_eq!(post(&body, &md5(&body)), 200);
}

/// 404, 204 and an empty 200 mean "no state" to OpenTofu.
#[test]
fn a_state_that_must_be_there_is_never_answered_as_none() {
    let world = World::new();
    let must_exist = Some(Demand {
        lineage: "l".into(),
        serial: 2,
    });
    let demanding = world.server.grant(
        STEP,
        GrantOptions {
            must_exist,
            read_only: false,
        },
    );
    let (status, body) = send(&demanding, "GET", "", b"");
    assert_eq!(status, 409);
    assert!(String::from_utf8_lossy(&body).contains("is lost"));
    send(&demanding, "LOCK", "", &lock_info("me"));
    send(&demanding, "POST", "?ID=me", &state("m", 2, "a"));
    assert_eq!(send(&demanding, "GET", "", b"").0, 409);
    assert_eq!(send(&world.grant(), "GET", "", b"").0, 200);
}

#[test]
fn a_damaged_state_is_never_answered_as_none() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    send(&access, "POST", "?ID=me", &state("l", 1, "a"));
    let path = world.dir.path().join("store/state").join(STEP);
    process::files::write_atomically(&path, b"", 0o600).unwrap();
    assert_eq!(send(&access, "GET", "", b"").0, 422);
}

#[test]
fn a_credential_opens_one_state_and_only_as_granted() {
    let world = World::new();
    let access = world.grant();
    let other = world.server.grant("1a/dns", GrantOptions::default());
    let reader = world.server.grant(
        STEP,
        GrantOptions {
            must_exist: None,
            read_only: true,
        },
    );
    let mut crossed = access.clone();
    crossed.address = other.address.clone();
    assert_eq!(send(&crossed, "GET", "", b"").0, 403);
    assert_eq!(send(&crossed, "LOCK", "", &lock_info("me")).0, 403);
    assert_eq!(send(&access, "GET", "/../dns", b"").0, 403);
    assert_eq!(send(&access, "PUT", "", b"x").0, 405);
    assert_eq!(send(&reader, "GET", "", b"").0, 404);
    for method in ["POST", "DELETE", "LOCK", "UNLOCK"] {
        assert_eq!(
            send(&reader, method, "?ID=me", &lock_info("me")).0,
            403,
            "{method}"
        );
    }
    let mut wrong = access.clone();
    wrong.password.pop();
    assert_eq!(send(&wrong, "GET", "", b"").0, 401);
    wrong.password = other.password.clone();
    assert_eq!(send(&wrong, "GET", "", b"").0, 401);
    world.server.revoke(&access);
    assert_eq!(send(&access, "GET", "", b"").0, 401);
    assert_eq!(send(&other, "GET", "", b"").0, 404);
}

#[test]
fn a_request_without_a_credential_is_refused_whatever_it_asks() {
    let world = World::new();
    for path in ["/", "/state/1a/edge", "/nothing"] {
        let mut stream = TcpStream::connect(world.server.address()).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
}

#[test]
fn a_lock_that_opentofu_could_not_show_is_refused() {
    let world = World::new();
    let access = world.grant();
    for body in [
        &b""[..],
        b"{}",
        b"{\"ID\":\"x\",\"Created\":\"yesterday\"}",
        b"{\"ID\":7}",
    ] {
        assert_eq!(send(&access, "LOCK", "", body).0, 400);
        assert_eq!(world.server.backend().lock_of(STEP).unwrap(), None);
    }
}

#[test]
fn a_lost_target_lock_is_a_conflict_and_an_unsure_one_is_worth_a_repetition() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    for (hold, status) in [(Hold::Unsure, 503), (Hold::Lost, 409)] {
        *world.hold.lock().unwrap() = hold;
        assert_eq!(
            send(&access, "POST", "?ID=me", &state("l", 1, "a")).0,
            status
        );
        assert_eq!(send(&access, "UNLOCK", "", &lock_info("me")).0, status);
        let (lock_status, body) = send(&access, "LOCK", "", &lock_info("other"));
        assert_eq!(lock_status, status);
        if hold == Hold::Lost {
            let shown: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(
                shown["Info"].as_str().unwrap().contains("taken by another"),
                "{shown}"
            );
        }
    }
    assert_eq!(world.state_bytes(), None);
}

#[test]
fn states_far_above_two_megabytes_are_taken_and_too_big_ones_are_not() {
    let world = World::with_max_body(12 * 1024 * 1024);
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    let big = state("l", 1, &"x".repeat(8 * 1024 * 1024));
    assert_eq!(send(&access, "POST", "?ID=me", &big).0, 200);
    assert!(send(&access, "GET", "", b"") == (200, big));
    let too_big = state("l", 2, &"x".repeat(13 * 1024 * 1024));
    // The answer comes before the body is sent, so a client may see no more than a broken pipe.
    let refused = try_send(&access, "POST", "?ID=me", &too_big, &[]);
    assert!(refused.is_err() || refused.is_ok_and(|(status, _)| status == 413));
    assert_eq!(
        world
            .server
            .backend()
            .read_state(STEP)
            .unwrap()
            .unwrap()
            .header
            .serial,
        1
    );
}

#[test]
fn a_body_that_is_cut_is_no_write() {
    let world = World::new();
    let access = world.grant();
    send(&access, "LOCK", "", &lock_info("me"));
    let credential = base64::engine::general_purpose::STANDARD
        .encode(format!("{}:{}", access.username, access.password));
    let body = state("l", 1, "a");
    let mut stream = TcpStream::connect(world.server.address()).unwrap();
    write!(
        stream,
        "POST /state/{STEP}?ID=me HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credential}\r\nContent-Length: {}\r\n\r\n",
        body.len() + 10
    )
    .unwrap();
    stream.write_all(&body).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert_eq!(world.state_bytes(), None);
}

/// Nagle's algorithm and delayed acknowledgements cost 40 ms a request.
#[test]
fn small_requests_on_one_connection_are_answered_at_once() {
    let world = World::new();
    let access = world.grant();
    let credential = base64::engine::general_purpose::STANDARD
        .encode(format!("{}:{}", access.username, access.password));
    let mut stream = TcpStream::connect(world.server.address()).unwrap();
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let begun = Instant::now();
        write!(
            stream,
            "GET /state/{STEP} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credential}\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut part = [0; 1024];
            let n_read = stream.read(&mut part).unwrap();
            answer.extend_from_slice(&part[..n_read]);
        }
        fastest = fastest.min(begun.elapsed());
    }
    assert!(fastest < Duration::from_millis(30), "{fastest:?}");
}

#[test]
fn a_stopped_server_has_ended_what_was_under_way() {
    let world = World::new();
    let access = world.grant();
    let idle = TcpStream::connect(world.server.address()).unwrap();
    send(&access, "LOCK", "", &lock_info("me"));
    let address = world.server.address();
    let begun = Instant::now();
    world.server.stop();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(TcpStream::connect(address).is_err());
    drop(idle);
}
