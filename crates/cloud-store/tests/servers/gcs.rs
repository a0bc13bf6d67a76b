//! Google Cloud Storage, on a small server of our own that follows the documentation of its XML
//! interface: `docs/stores.md` says why the emulator that there is can't be used.

use crate::canned::{Canned, Request};
use crate::losing::Losing;
use crate::world::{key, open};
use cloud_store::{BucketState, Config, Deletes, Gcs, GcsCredentials, Place};
use secrets::Secret;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use store::{Store as _, contract};

const BUCKET: &str = "states";
/// Fewer than the real one has, so that listings have several pages.
const PAGE: usize = 3;

/// The objects by their names, each with its generation, and the last generation.
#[derive(Default)]
struct Model {
    objects: BTreeMap<String, (u64, Vec<u8>)>,
    last: u64,
}

fn server() -> Canned {
    let model = Mutex::new(Model::default());
    Canned::answering(move |request| Some(model.lock().unwrap().answer(request)))
}

impl Model {
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        if request.header("authorization").as_deref() != Some("Bearer a-token") {
            return error("401 Unauthorized", "AuthenticationRequired");
        }
        let (method, target) = request.line();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decoded(path);
        let Some(rest) = path.strip_prefix(&format!("/{BUCKET}")) else {
            return error("404 Not Found", "NoSuchBucket");
        };
        let Some(name) = rest.strip_prefix('/') else {
            return self.list(query);
        };
        let wanted = request.header("x-goog-if-generation-match");
        let wanted: Option<u64> = wanted.map(|text| text.parse().unwrap());
        let there = self.objects.get(name).map_or(0, |object| object.0);
        match method {
            _ if wanted.is_some_and(|wanted| wanted != there) => {
                error("412 Precondition Failed", "PreconditionFailed")
            }
            "PUT" => {
                self.last += 1;
                let object = (self.last, request.body.clone());
                self.objects.insert(name.to_owned(), object);
                answer("200 OK", self.last, b"")
            }
            "GET" => match self.objects.get(name) {
                Some((generation, body)) => answer("200 OK", *generation, body),
                None => error("404 Not Found", "NoSuchKey"),
            },
            "DELETE" => match self.objects.remove(name) {
                Some((generation, _)) => answer("204 No Content", generation, b""),
                None => error("404 Not Found", "NoSuchKey"),
            },
            other => panic!("unexpected {other}"),
        }
    }

    fn list(&self, query: &str) -> Vec<u8> {
        let part = |name: &str| {
            let mut parts = query.split('&').filter_map(|part| part.split_once('='));
            parts
                .find(|part| part.0 == name)
                .map(|part| decoded(part.1))
        };
        let prefix = part("prefix").unwrap_or_default();
        let after = part("continuation-token").unwrap_or_default();
        let all = self.objects.iter();
        let found: Vec<_> = all
            .filter(|(name, _)| name.starts_with(&prefix) && **name > after)
            .collect();
        let mut xml = "<ListBucketResult>".to_owned();
        for (name, (generation, body)) in found.iter().take(PAGE) {
            xml += &format!(
                "<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                 <Size>{}</Size><ETag>\"{generation}\"</ETag></Contents>",
                body.len()
            );
        }
        if found.len() > PAGE {
            xml += &format!(
                "<NextContinuationToken>{}</NextContinuationToken>",
                found[PAGE - 1].0
            );
        }
        answer("200 OK", 0, (xml + "</ListBucketResult>").as_bytes())
    }
}

fn answer(status: &str, generation: u64, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nx-goog-generation: {generation}\r\nETag: \"{generation}\"\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn error(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<Error><Code>{code}</Code></Error>");
    answer(status, 0, body.as_bytes())
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let code = u8::from_str_radix(&part[..2], 16).unwrap();
        out.push(char::from(code));
        out += &part[2..];
    }
    out
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
