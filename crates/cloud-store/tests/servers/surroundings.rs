//! Nothing is read from the environment: a child with other credentials, endpoint and proxy in its
//! environment asks the server that it was given, as who it was given.

use crate::canned::Canned;
use crate::world::{hasty, key, open, s3};
use process::{Ending, Exit, How, Invocation, Output, RealSpawner, Spawner as _};
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
