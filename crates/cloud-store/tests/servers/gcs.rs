//! Google Cloud Storage, on a small server of our own that follows the documentation of its XML
//! interface: `docs/stores.md` says why the emulator that there is can't be used.

use crate::canned::Canned;
use crate::gcs_model::{BUCKET, Model};
use crate::losing::Losing;
use crate::world::{key, open};
use cloud_store::{BucketState, Config, Deletes, Gcs, GcsCredentials, Place};
use secrets::Secret;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use store::{Store as _, contract};

fn server() -> Canned {
    Model::with_bucket().serve()
}

fn config(address: SocketAddr, bucket: &str, token: &str, prefix: &str) -> Config {
    let place = Place::Gcs(Gcs {
        bucket: bucket.to_owned(),
        endpoint: Some(format!("http://{address}")),
        credentials: GcsCredentials::AccessToken(Secret::new(token)),
    });
    Config::new(place, prefix)
}

#[test]
fn gcs_holds_the_contract() {
    let server = server();
    let n = Cell::new(0);
    contract::check(&|| {
        n.set(n.get() + 1);
        let prefix = format!("case-{}", n.get());
        Arc::new(open(&config(server.address, BUCKET, "a-token", &prefix)))
    });
    let store = |prefix: &str| Arc::new(open(&config(server.address, BUCKET, "a-token", prefix)));
    contract::one_of_many_replaces(store("replace"), 50, 10);
    contract::one_of_many_creates(store("create"), 50, 5);
    assert_eq!(
        store("probe").verify_conditions().unwrap(),
        Deletes::OneVersion
    );
}

#[test]
fn an_answer_that_is_lost_is_settled() {
    let server = server();
    let proxy = Losing::before(server.address);
    let store = open(&config(proxy.address, BUCKET, "a-token", "live"));
    store.verify_conditions().unwrap();
    contract::lost_answers_are_settled(Arc::new(store), &|| proxy.lose_next());
    assert_eq!(proxy.n_lost(), 3, "every loss hit a write");
}

#[test]
fn the_bucket_is_there_or_missing_and_a_wrong_token_is_neither() {
    let server = server();
    let at = |bucket: &str, token: &str| open(&config(server.address, bucket, token, "live"));
    assert_eq!(at(BUCKET, "a-token").bucket(), Ok(BucketState::Exists));
    assert_eq!(at("other", "a-token").bucket(), Ok(BucketState::Missing));
    assert!(at(BUCKET, "wrong").bucket().is_err());
    assert!(at(BUCKET, "wrong").get(&key("target.json")).is_err());
}
