//! S3, on the gateway `versitygw` over a directory.

use crate::losing::Losing;
use crate::world::{ca_file, gateway, gateway_with_tls, hasty, key, open, s3};
use cloud_store::{BucketState, Deletes, Fault, Place, S3Credentials};
use secrets::Secret;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::Arc;
use store::{Store, contract};

const BUCKET: &str = "states";

#[test]
fn s3_holds_the_contract() {
    let server = gateway(&[BUCKET]);
    let n = Cell::new(0);
    contract::check(&|| {
        n.set(n.get() + 1);
        let prefix = format!("case-{}", n.get());
        Arc::new(open(&s3(server.address, BUCKET, &prefix)))
    });
}

#[test]
fn of_fifty_writers_on_one_key_exactly_one_wins_each_round() {
    let server = gateway(&[BUCKET]);
    let store = |prefix: &str| Arc::new(open(&s3(server.address, BUCKET, prefix)));
    contract::one_of_many_replaces(store("replace"), 50, 10);
    contract::one_of_many_creates(store("create"), 50, 5);
    contract::no_update_is_lost(store("count"), 20, 10);
}

#[test]
fn an_answer_that_is_lost_is_settled() {
    let server = gateway(&[BUCKET]);
    let proxy = Losing::before(server.address);
    let store = open(&s3(proxy.address, BUCKET, "live"));
    store.verify_conditions().unwrap();
    contract::lost_answers_are_settled(Arc::new(store), &|| proxy.lose_next());
    assert_eq!(proxy.n_lost(), 3, "every loss hit a write");
}

#[test]
fn keys_are_mapped_one_to_one_below_the_prefix() {
    let server = gateway(&[BUCKET]);
    let data = server.dir.path().join("data").join(BUCKET);
    let (one, other) = (
        open(&s3(server.address, BUCKET, "a/live")),
        open(&s3(server.address, BUCKET, "a/live2")),
    );
    let state = key("state/1a/edge@17");
    one.put_if_absent(&state, b"state").unwrap();
    assert_eq!(
        std::fs::read(data.join("a/live/state/1a/edge@17")).unwrap(),
        b"state"
    );
    assert_eq!(one.list("").unwrap(), std::slice::from_ref(&state));
    assert!(other.list("").unwrap().is_empty());
    assert_eq!(other.get(&state).unwrap(), None);
    // Without a prefix the whole bucket is the store.
    let all = open(&s3(server.address, BUCKET, ""));
    assert_eq!(
        all.list("a/live/").unwrap(),
        [key("a/live/state/1a/edge@17")]
    );
}

#[test]
fn more_keys_than_one_page_holds_are_listed_whole() {
    let server = gateway(&[BUCKET]);
    let store = open(&s3(server.address, BUCKET, "live"));
    store.verify_conditions().unwrap();
    let names: BTreeSet<String> = (0..1205).map(|n| format!("state/p/s@{n}")).collect();
    // Written into the gateway's directory: as many requests would only take time.
    let dir = server.dir.path().join("data").join(BUCKET).join("live");
    std::fs::create_dir_all(dir.join("state/p")).unwrap();
    for name in &names {
        #[expect(clippy::disallowed_methods, reason = "nothing can be cut here")]
        std::fs::write(dir.join(name), b"x").unwrap();
    }
    let listed = store.list("state/p/s@").unwrap();
    let listed: BTreeSet<String> = listed.iter().map(ToString::to_string).collect();
    assert_eq!(listed, names);
    assert_eq!(store.list("state/p/s@119").unwrap().len(), 11);
}

#[test]
fn the_bucket_is_there_or_missing_and_a_wrong_key_is_neither() {
    let server = gateway(&[BUCKET]);
    let there = s3(server.address, BUCKET, "live");
    assert_eq!(open(&there).bucket(), Ok(BucketState::Exists));
    let missing = open(&s3(server.address, "no-such-bucket", "live"));
    assert_eq!(missing.bucket(), Ok(BucketState::Missing));
    let error = missing.get(&key("target.json")).unwrap_err();
    let fault: &Fault = error.source().unwrap().downcast_ref().unwrap();
    assert!(matches!(fault, Fault::BucketMissing { .. }), "{fault}");
    let error = missing
        .put_if_absent(&key("target.json"), b"x")
        .unwrap_err();
    assert!(!error.is_conflict());

    let mut wrong = there;
    if let Place::S3(place) = &mut wrong.place {
        place.credentials = S3Credentials::Keys {
            access_key_id: "tester".to_owned(),
            secret_access_key: Secret::new("another-secret-for-tests"),
            session_token: None,
        };
    }
    let store = open(&wrong);
    let fault = store.bucket().unwrap_err();
    assert!(matches!(fault, Fault::Denied { .. }), "{fault}");
    assert!(store.get(&key("target.json")).is_err());
    assert!(store.list("").is_err());
    assert!(!format!("{fault} {wrong:?}").contains("another-secret"));
}

#[test]
fn a_deleted_key_is_absent_also_where_the_server_can_not_delete_one_version() {
    let server = gateway(&[BUCKET]);
    let store = open(&s3(server.address, BUCKET, "live"));
    // The gateway answers a second conditional delete of one version with success.
    assert_eq!(store.verify_conditions().unwrap(), Deletes::ByTombstone);
    let dir = server.dir.path().join("data").join(BUCKET).join("live");
    let left = std::fs::read_dir(&dir).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the probe leaves nothing");

    let lock = key("lock.json");
    let tag = store.put_if_absent(&lock, b"1").unwrap();
    store.delete_if_match(&lock, &tag).unwrap();
    let dead = std::fs::read(dir.join("lock.json")).unwrap();
    assert!(dead.starts_with(b"rebuild:tombstone:"));
    assert_eq!(store.get(&lock).unwrap(), None);
    assert!(store.list("").unwrap().is_empty());
    // Another value of that length is a value, and one that would read as absent is refused.
    let alike = vec![b'x'; dead.len()];
    store.put_if_absent(&key("alike"), &alike).unwrap();
    assert_eq!(store.list("").unwrap(), [key("alike")]);
    assert!(
        !store
            .put_if_absent(&key("dead"), &dead)
            .unwrap_err()
            .is_conflict()
    );
    // The next creation takes the tombstone's place.
    store.put_if_absent(&lock, b"2").unwrap();
    assert!(store.put_if_absent(&lock, b"3").unwrap_err().is_conflict());
    assert_eq!(store.get(&lock).unwrap().unwrap().bytes, b"2");
    // Of many that create what a tombstone stands for, one wins.
    contract::one_of_many_creates(Arc::new(store), 20, 3);
}

#[test]
fn a_server_of_another_authority_is_trusted_by_its_ca_file_alone() {
    let server = gateway_with_tls(&[BUCKET]);
    let mut config = hasty(s3(server.address, BUCKET, "live"));
    if let Place::S3(place) = &mut config.place {
        place.endpoint = Some(format!("https://{}", server.address));
    }
    let fault = open(&config).bucket().unwrap_err();
    assert!(matches!(fault, Fault::NoConnection { .. }), "{fault}");
    assert!(
        fault.to_string().contains(&format!("`{}`", server.address)),
        "{fault}"
    );
    config.ca_file = Some(ca_file());
    let store = open(&config);
    assert_eq!(store.bucket(), Ok(BucketState::Exists));
    let tag = store.put_if_absent(&key("lock.json"), b"1").unwrap();
    store.put_if_match(&key("lock.json"), b"2", &tag).unwrap();
}

#[test]
fn an_endpoint_without_tls_that_is_asked_for_it_is_told() {
    let server = gateway(&[BUCKET]);
    let mut config = hasty(s3(server.address, BUCKET, "live"));
    if let Place::S3(place) = &mut config.place {
        place.endpoint = Some(format!("https://{}", server.address));
    }
    let fault = open(&config).bucket().unwrap_err().to_string();
    let expected = format!(
        "no connection to `{}`: it does not speak TLS; an endpoint without it begins with `http://`",
        server.address
    );
    assert_eq!(fault, expected);
}
