//! What goes wrong is told apart, and nothing but the cloud's own word means "not there".

use crate::canned::Canned;
use crate::world::{free_address, hasty, key, open, s3};
use cloud_store::{BucketState, CloudStore, Config, Fault, OpenError, Place};
use std::error::Error as _;
use std::time::{Duration, Instant};
use store::{Store as _, Tag};

const NO_BUCKET: &str = "<Error><Code>NoSuchBucket</Code><Message>no bucket</Message></Error>";
const NO_KEY: &str = "<Error><Code>NoSuchKey</Code><Message>no key</Message></Error>";
const DENIED: &str = "<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>";

fn at(server: &Canned) -> CloudStore {
    open(&hasty(s3(server.address, "states", "live")))
}

/// The fault of a read, which must be one.
fn read_fault(store: &CloudStore) -> Fault {
    let error = store.get(&key("run/head.json")).unwrap_err();
    error.source().unwrap().downcast_ref().cloned().unwrap()
}

/// What every part of the store says of a server: the probe of the bucket, a read, a list, a write.
fn faults(store: &CloudStore) -> Vec<Fault> {
    let listed = store.list("state/").unwrap_err();
    let written = store.put_if_absent(&key("lock.json"), b"x").unwrap_err();
    assert!(!written.is_conflict());
    vec![
        store.bucket().unwrap_err(),
        read_fault(store),
        listed.source().unwrap().downcast_ref().cloned().unwrap(),
        written.source().unwrap().downcast_ref().cloned().unwrap(),
    ]
}

#[test]
fn only_the_clouds_own_word_means_that_a_bucket_is_missing() {
    let store = at(&Canned::new("404 Not Found", NO_BUCKET));
    assert_eq!(store.bucket(), Ok(BucketState::Missing));
    // A key of a bucket that is missing is not an absent key.
    assert!(matches!(read_fault(&store), Fault::BucketMissing { .. }));

    let store = at(&Canned::new("404 Not Found", "<html>no such page</html>"));
    for fault in faults(&store) {
        assert!(matches!(fault, Fault::Unexpected { .. }), "{fault}");
    }
    let store = at(&Canned::new("404 Not Found", NO_KEY));
    assert!(matches!(store.bucket(), Err(Fault::Unexpected { .. })));
    assert_eq!(store.get(&key("a")).unwrap(), None);
}

#[test]
fn denied_access_is_never_absence() {
    for status in ["403 Forbidden", "401 Unauthorized"] {
        let store = at(&Canned::new(status, DENIED));
        for fault in faults(&store) {
            assert!(matches!(fault, Fault::Denied { .. }), "{fault}");
            assert!(fault.to_string().contains("AccessDenied not yours"));
        }
    }
}

#[test]
fn a_server_that_never_answers_is_a_time_out_and_writes_to_it_are_sent_once() {
    let server = Canned::silent();
    let store = at(&server);
    let begun = Instant::now();
    assert!(matches!(store.bucket(), Err(Fault::TimedOut { .. })));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let before = server.heads().len();
    let error = store.put_if_absent(&key("lock.json"), b"x").unwrap_err();
    assert!(!error.is_conflict());
    let puts = server.heads()[before..]
        .iter()
        .filter(|head| head.starts_with("PUT"))
        .count();
    assert_eq!(puts, 1, "a write that may have landed is not repeated");
}

#[test]
fn a_name_that_means_nothing_and_a_port_where_nobody_listens_are_told_apart() {
    let mut config = hasty(s3(free_address(), "states", ""));
    let store = open(&config);
    for fault in faults(&store) {
        assert!(matches!(fault, Fault::NoConnection { .. }), "{fault}");
    }
    config.plain_http = true;
    let Place::S3(place) = &mut config.place else {
        panic!("made as S3")
    };
    place.endpoint = Some("http://store.invalid:9".to_owned());
    for fault in faults(&open(&config)) {
        let told = "the name `store.invalid` can't be resolved";
        assert_eq!(fault.to_string(), told);
    }
}

#[test]
fn retries_have_an_end() {
    let server = Canned::new("503 Slow Down", "<Error><Code>SlowDown</Code></Error>");
    let store = at(&server);
    let fault = read_fault(&store);
    assert!(matches!(&fault, Fault::Unexpected { answer } if answer == "503 SlowDown"));
    assert_eq!(server.heads().len(), 3, "one try and two retries");
}

#[test]
fn a_server_that_ignores_conditions_is_refused_before_the_first_write() {
    let server = Canned::new("200 OK", "");
    let store = at(&server);
    for _ in 0..2 {
        let error = store.put_if_absent(&key("lock.json"), b"x").unwrap_err();
        let fault: &Fault = error.source().unwrap().downcast_ref().unwrap();
        assert!(matches!(fault, Fault::ConditionIgnored { .. }), "{fault}");
        let error = store
            .put_if_match(&key("lock.json"), b"x", &Tag::new("\"same\""))
            .unwrap_err();
        assert!(!error.is_conflict());
    }
    let heads = server.heads();
    let touched = heads.iter().any(|head| head.contains("lock.json"));
    assert!(!touched, "only the probe's own key is written: {heads:?}");
}

#[test]
fn a_condition_that_failed_at_a_repeated_write_is_no_conflict_while_our_bytes_are_there() {
    // The first try lands and is answered by 500; the second meets it.
    let n = std::sync::atomic::AtomicUsize::new(0);
    let server = Canned::answering(move |request| {
        let (method, target) = request.line();
        let answer = |status: &str, body: &str| {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {status}\r\nETag: \"1\"\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            Some(text.into_bytes())
        };
        let refused = "<Error><Code>PreconditionFailed</Code></Error>";
        if method == "GET" {
            return answer("200 OK", "mine");
        }
        if target.contains("/.probe-") {
            let fresh = method == "PUT" && {
                let at = n.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                at == 0 || at == 2
            };
            return match fresh {
                true => answer("200 OK", ""),
                false if method == "DELETE" => answer("200 OK", ""),
                false => answer("412 Precondition Failed", refused),
            };
        }
        match n.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            4 => answer("500 Internal Server Error", ""),
            _ => answer("412 Precondition Failed", refused),
        }
    });
    let store = at(&server);
    let error = store.put_if_absent(&key("lock.json"), b"mine").unwrap_err();
    assert!(!error.is_conflict(), "{error}");
}

#[test]
fn what_can_not_be_a_store_is_refused_at_once() {
    let fine = s3(free_address(), "states", "live");
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = fine.clone();
        change(&mut config);
        match CloudStore::open(&config) {
            Err(OpenError::Illegal { what, .. }) => what,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was taken"),
        }
    };
    let place = |change: fn(&mut cloud_store::S3)| {
        move |config: &mut Config| match &mut config.place {
            Place::S3(place) => change(place),
            _ => panic!("made as S3"),
        }
    };
    assert_eq!(refused(&|config| config.prefix = "../x".into()), "prefix");
    assert_eq!(refused(&|config| config.prefix = "x/".into()), "prefix");
    assert_eq!(refused(&place(|s3| s3.bucket = "a/b".into())), "bucket");
    assert_eq!(refused(&place(|s3| s3.region = "e u".into())), "region");
    let endpoint = place(|s3| s3.endpoint = Some("ftp://host".into()));
    assert_eq!(refused(&endpoint), "endpoint");
    // States may not go over a network in the clear unless that was said.
    let endpoint = place(|s3| s3.endpoint = Some("http://store.example".into()));
    assert_eq!(refused(&endpoint), "endpoint");
    let mut config = fine.clone();
    config.ca_file = Some("/nowhere/ca.pem".into());
    let error = CloudStore::open(&config).err().unwrap();
    assert!(matches!(error, OpenError::CaFile { .. }));
}
