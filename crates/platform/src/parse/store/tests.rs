//! What `[store]` may say, and what is underlined where it says something else.

use super::*;
use crate::fault::{Fault, TextFile};
use crate::reader::{Doc, Report};

fn read(text: &str) -> (StoreDef, Vec<Fault>) {
    let report = Report::default();
    let doc = Doc::new(TextFile::new("targets/live.toml", text), &report);
    let document = doc.parse().unwrap();
    let def = store(&doc.root(&document));
    (def, report.take())
}

fn cloud(text: &str) -> CloudDef {
    match read(text) {
        (StoreDef::Cloud(def), faults) if faults.is_empty() => *def,
        other => panic!("{other:?}"),
    }
}

#[test]
fn s3_is_read_with_all_that_it_may_have() {
    let def = cloud(
        "s3 = { bucket = \"homelab-state\", region = \"eu-1\", endpoint = \"https://s3.example:9000\", prefix = \"live/\", \
         path_style = false, ca_file = \"ca.pem\", timeout = \"5s\", proxy = \"http://proxy:3128\", \
         access_key_id = \"AK\", secret_access_key = \"${secret.s3}\" }",
    );
    assert_eq!(def.prefix, "live", "a slash at the end is the same prefix");
    assert_eq!(def.endpoint.as_deref(), Some("https://s3.example:9000"));
    assert_eq!(def.ca_file.as_deref(), Some("ca.pem"));
    assert_eq!(def.timeout, Some(std::time::Duration::from_secs(5)));
    let CloudPlace::S3 {
        bucket,
        region,
        path_style,
        credentials: Some(_),
    } = &def.place
    else {
        panic!("{def:?}")
    };
    assert_eq!(
        (bucket.as_str(), region.as_str(), *path_style),
        ("homelab-state", "eu-1", false)
    );
    let secrets = StoreDef::Cloud(Box::new(def)).exprs().len();
    assert_eq!(secrets, 2);
}

#[test]
fn what_is_left_out_is_what_most_servers_want() {
    let own = cloud("s3 = { bucket = \"b\", endpoint = \"http://127.0.0.1:9000\" }");
    assert!(
        matches!(own.place, CloudPlace::S3 { path_style: true, credentials: None, ref region, .. } if region == "us-east-1")
    );
    let amazons = cloud("s3 = { bucket = \"b\", region = \"eu-central-1\" }");
    assert!(matches!(
        amazons.place,
        CloudPlace::S3 {
            path_style: false,
            ..
        }
    ));
    let gcs = cloud("gcs = { bucket = \"b\" }");
    assert!(matches!(
        gcs.place,
        CloudPlace::Gcs {
            credentials: GcsCredentialsDef::Chain,
            ..
        }
    ));
    let azure = cloud(
        "azure = { account = \"a\", container = \"c\", tenant_id = \"t\", client_id = \"i\", client_secret = \"${secret.x}\" }",
    );
    assert!(matches!(
        azure.place,
        CloudPlace::Azure {
            credentials: AzureCredentialsDef::ClientSecret { .. },
            ..
        }
    ));
    assert_eq!(read("").0, StoreDef::Local { dir: None });
}

/// Case N4: each fault with the text that is at fault.
#[test]
fn what_is_wrong_is_underlined() {
    for (text, underlined, says) in [
        (
            "s3 = { region = \"eu-1\" }",
            "{ region = \"eu-1\" }",
            "has no `bucket`",
        ),
        (
            "s3 = { bucket = \"b\" }",
            "{ bucket = \"b\" }",
            "has no `region`",
        ),
        (
            "s3 = { bucket = \"b\", regoin = \"x\" }",
            "regoin",
            "`regoin` is no key",
        ),
        (
            "s3 = { bucket = \"a b\", region = \"x\" }",
            "\"a b\"",
            "can't be the name",
        ),
        (
            "s3 = { bucket = \"${target.x}\", region = \"x\" }",
            "\"${target.x}\"",
            "can't be the name",
        ),
        (
            "s3 = { bucket = \"b\", region = \"x\", prefix = \"/live\" }",
            "\"/live\"",
            "in front of keys",
        ),
        (
            "s3 = { bucket = \"b\", region = \"x\", prefix = \"a/../b\" }",
            "\"a/../b\"",
            "in front of keys",
        ),
        (
            "s3 = { bucket = \"b\", endpoint = \"s3.example\" }",
            "\"s3.example\"",
            "begins with `https://`",
        ),
        (
            "s3 = { bucket = \"b\", endpoint = \"http://s3.example\" }",
            "\"http://s3.example\"",
            "in the clear",
        ),
        (
            "s3 = { bucket = \"b\", endpoint = \"https://me:pw@s3.example\" }",
            "\"https://me:pw@s3.example\"",
            "HOST:PORT",
        ),
        (
            "s3 = { bucket = \"b\", region = \"x\", access_key_id = \"AK\" }",
            "access_key_id",
            "without `secret_access_key`",
        ),
        (
            "s3 = { bucket = \"b\", region = \"x\", access_key_id = \"AK\", secret_access_key = \"open\" }",
            "\"open\"",
            "must come from `[secrets]`",
        ),
        (
            "gcs = { bucket = \"b\", access_token = \"${target.x}\" }",
            "\"${target.x}\"",
            "must come from `[secrets]`",
        ),
        (
            "gcs = { bucket = \"b\", anonymous = true, access_token = \"${secret.x}\" }",
            "anonymous",
            "both say who we are",
        ),
        (
            "azure = { account = \"a\", container = \"c\", client_id = \"x\" }",
            "client_id",
            "without `client_secret`",
        ),
        ("local = { dir = \"store\" }", "\"store\"", "absolute path"),
        ("s4 = { bucket = \"b\" }", "s4", "`s4` is no key"),
    ] {
        let (_, faults) = read(text);
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        let fault = &faults[0];
        assert_eq!(
            &fault.source_text()[fault.span.clone().unwrap()],
            underlined,
            "{text}"
        );
        assert!(fault.message.contains(says), "{text}: {}", fault.message);
    }
    let (_, faults) = read("local = {}\ns3 = { bucket = \"b\", region = \"x\" }");
    assert_eq!(faults.len(), 1);
    assert!(faults[0].message.contains("two stores"));
}

#[test]
fn plain_http_goes_to_this_machine_or_where_it_is_allowed() {
    for endpoint in [
        "http://localhost:1",
        "http://[::1]:1",
        "http://x.localhost",
        "http://127.3.2.1",
    ] {
        cloud(&format!(
            "s3 = {{ bucket = \"b\", endpoint = \"{endpoint}\" }}"
        ));
    }
    let far = "s3 = { bucket = \"b\", endpoint = \"http://s3.example\", plain_http = true }";
    assert!(cloud(far).plain_http);
}
