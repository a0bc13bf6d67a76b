//! Nothing is read from the environment: a child with other credentials, endpoint and proxy in its
//! environment asks the server that it was given, as who it was given.

use crate::canned::Canned;
use crate::world::{hasty, key, open, s3};
use cloud_store::{Config, DefaultChain, Fault, Place, S3Credentials};
use process::{Ending, Exit, How, Invocation, Output, RealSpawner, Spawner as _};
use secrets::Secret;
use std::error::Error as _;
use store::Store as _;

/// Says to the child where its server is; without it the child's test does nothing.
const CHILD: &str = "__REBUILD_TEST_ENDPOINT";

#[test]
#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn a_child_with_a_misleading_environment() {
    let Ok(address) = std::env::var(CHILD) else {
        return;
    };
    let store = open(&hasty(s3(address.parse().unwrap(), "states", "live")));
    assert_eq!(store.get(&key("lock.json")).unwrap(), None);
}

#[test]
fn the_environment_says_nothing_to_a_store() {
    let no_key = "<Error><Code>NoSuchKey</Code></Error>";
    let server = Canned::new("404 Not Found", no_key);
    let dir = tempfile::tempdir().unwrap();
    let mut call = Invocation::new(std::env::current_exe().unwrap(), dir.path())
        .args([
            "--exact",
            "surroundings::a_child_with_a_misleading_environment",
        ])
        .env(CHILD, server.address.to_string());
    for (name, value) in [
        ("AWS_ACCESS_KEY_ID", "misleading"),
        ("AWS_SECRET_ACCESS_KEY", "misleading"),
        ("AWS_SESSION_TOKEN", "misleading"),
        ("AWS_REGION", "misleading-1"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9"),
        ("HTTP_PROXY", "http://127.0.0.1:9"),
        ("http_proxy", "http://127.0.0.1:9"),
        ("ALL_PROXY", "http://127.0.0.1:9"),
    ] {
        call = call.env(name, value);
    }
    let how = How {
        ending: Ending::WithUs,
        output: Output::Captured,
        marker: None,
    };
    let mut child = RealSpawner::direct().start(&call, &how).unwrap();
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
    let heads = server.heads();
    assert_eq!(heads.len(), 1);
    assert!(
        heads[0].starts_with("GET /states/live/lock.json "),
        "{heads:?}"
    );
    assert!(heads[0].contains("Credential=tester/"), "{heads:?}");
    assert!(!heads[0].contains("misleading"), "{heads:?}");
}

/// A configuration with S3's own chain and what it may look into.
fn chain(server: &Canned, variables: &[(&str, &str)]) -> Config {
    let mut config = hasty(s3(server.address, "states", "live"));
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
        .collect();
    if let Place::S3(place) = &mut config.place {
        place.credentials = S3Credentials::DefaultChain(DefaultChain { variables });
    }
    config
}

#[test]
fn the_chain_looks_into_the_variables_that_it_is_given() {
    let server = Canned::new("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>");
    let config = chain(
        &server,
        &[
            ("AWS_ACCESS_KEY_ID", "handed-in"),
            ("AWS_SECRET_ACCESS_KEY", "a-secret-for-tests"),
            ("AWS_SESSION_TOKEN", "a-token"),
            // Where the store is comes from the definitions alone.
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
            ("AWS_REGION", "misleading-1"),
            ("AWS_SKIP_SIGNATURE", "true"),
        ],
    );
    assert_eq!(open(&config).get(&key("lock.json")).unwrap(), None);
    let head = &server.heads()[0];
    assert!(head.contains("Credential=handed-in/"), "{head}");
    assert!(head.contains("/us-east-1/s3/"), "{head}");
    assert!(head.contains("x-amz-security-token: a-token"), "{head}");
}

#[test]
fn no_credentials_from_the_chain_is_a_fault_of_its_own() {
    let server = Canned::new("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>");
    // The chain's server stands under another name of this machine than the store's.
    let uri = format!("http://localhost:{}/credentials", server.address.port());
    let token = tempfile::NamedTempFile::new().unwrap();
    let config = chain(
        &server,
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri),
            (
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                token.path().to_str().unwrap(),
            ),
        ],
    );
    let store = open(&config);
    // Also a 404 of the chain's server says nothing about the bucket.
    let fault = store.bucket().unwrap_err();
    assert!(matches!(fault, Fault::NoCredentials { .. }), "{fault}");
    let error = store.get(&key("lock.json")).unwrap_err();
    let fault: &Fault = error.source().unwrap().downcast_ref().unwrap();
    assert!(matches!(fault, Fault::NoCredentials { .. }), "{fault}");
}
