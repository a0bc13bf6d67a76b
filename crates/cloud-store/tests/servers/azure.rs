//! Azure Blob Storage, on the emulator `azurite`.

use crate::losing::Losing;
use crate::world::{Server, free_address, key, open, program, start};
use cloud_store::{Azure, AzureCredentials, BucketState, Config, Deletes, Fault, Place};
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequestBody;
use process::Invocation;
use secrets::Secret;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use store::{Store as _, contract};

/// The account and the key that every emulator has.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const CONTAINER: &str = "states";

/// The emulator with one container.
fn azurite() -> Server {
    let dir = tempfile::tempdir().unwrap();
    let address = free_address();
    let call = Invocation::new(program("REBUILD_TEST_NODE"), dir.path())
        .arg(program("REBUILD_TEST_AZURITE"))
        .args(["--blobHost", "127.0.0.1", "--blobPort"])
        .arg(address.port().to_string())
        .args(["--inMemoryPersistence", "--silent"])
        .args(["--skipApiVersionCheck", "--disableTelemetry"]);
    let server = start(dir, address, call);
    let url = format!("http://{address}/{ACCOUNT}/{CONTAINER}?restype=container");
    let mut request = http::Request::put(url)
        .header("content-length", "0")
        .body(HttpRequestBody::empty())
        .unwrap();
    let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(KEY).unwrap());
    AzureAuthorizer::new(&credential, ACCOUNT)
        .try_authorize(&mut request)
        .unwrap();
    let (parts, _) = request.into_parts();
    let empty: &[u8] = b"";
    let made = ureq::Agent::new_with_defaults().run(http::Request::from_parts(parts, empty));
    assert_eq!(made.unwrap().status(), 201);
    server
}

fn config(address: SocketAddr, container: &str, key: &str, prefix: &str) -> Config {
    let place = Place::Azure(Azure {
        account: ACCOUNT.to_owned(),
        container: container.to_owned(),
        endpoint: Some(format!("http://{address}/{ACCOUNT}")),
        credentials: AzureCredentials::AccessKey(Secret::new(key)),
    });
    Config::new(place, prefix)
}

#[test]
fn azure_holds_the_contract() {
    let server = azurite();
    let n = Cell::new(0);
    contract::check(&|| {
        n.set(n.get() + 1);
        let prefix = format!("case-{}", n.get());
        Arc::new(open(&config(server.address, CONTAINER, KEY, &prefix)))
    });
    let store = |prefix: &str| Arc::new(open(&config(server.address, CONTAINER, KEY, prefix)));
    contract::one_of_many_replaces(store("replace"), 50, 10);
    contract::one_of_many_creates(store("create"), 50, 5);
    assert_eq!(
        store("probe").verify_conditions().unwrap(),
        Deletes::OneVersion
    );
}

#[test]
fn an_answer_that_is_lost_is_settled() {
    let server = azurite();
    let proxy = Losing::before(server.address);
    let store = open(&config(proxy.address, CONTAINER, KEY, "live"));
    store.verify_conditions().unwrap();
    contract::lost_answers_are_settled(Arc::new(store), &|| proxy.lose_next());
    assert_eq!(proxy.n_lost(), 3, "every loss hit a write");
}

#[test]
fn the_container_is_there_or_missing_and_a_wrong_key_is_neither() {
    let server = azurite();
    let at = |container: &str, key: &str| open(&config(server.address, container, key, "live"));
    assert_eq!(at(CONTAINER, KEY).bucket(), Ok(BucketState::Exists));
    let missing = at("no-such-container", KEY);
    assert_eq!(missing.bucket(), Ok(BucketState::Missing));
    assert!(missing.get(&key("target.json")).is_err());
    let wrong = at(CONTAINER, "d3Jvbmc=");
    let fault = wrong.bucket().unwrap_err();
    assert!(matches!(fault, Fault::Denied { .. }), "{fault}");
    assert!(wrong.get(&key("target.json")).is_err());
    // Azure drops a final dot, so two keys would be one.
    assert!(at(CONTAINER, KEY).get(&key("a.")).is_err());
}
