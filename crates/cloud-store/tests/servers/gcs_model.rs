//! A small Google Cloud Storage: one bucket, generations, conditions, listings in pages.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::canned::{Canned, Request};

/// The one bucket that there can be.
pub(crate) const BUCKET: &str = "states";
/// Fewer than the real one has, so that listings have several pages.
const PAGE: usize = 3;

/// The objects by their names, each with its generation, and the last generation.
#[derive(Default)]
pub(crate) struct Model {
    has_bucket: bool,
    objects: BTreeMap<String, (u64, Vec<u8>)>,
    last: u64,
}

impl Model {
    /// A cloud that has the bucket already; one by default has none.
    pub(crate) fn with_bucket() -> Self {
        Self {
            has_bucket: true,
            ..Self::default()
        }
    }

    /// Serves it.
    pub(crate) fn serve(self) -> Canned {
        let model = Mutex::new(self);
        Canned::answering(move |request| Some(model.lock().unwrap().answer(request)))
    }

    fn answer(&mut self, request: &Request) -> Vec<u8> {
        if request.header("authorization").as_deref() != Some("Bearer a-token") {
            return error("401 Unauthorized", "AuthenticationRequired");
        }
        let (method, target) = request.line();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decoded(path);
        let missing = || error("404 Not Found", "NoSuchBucket");
        let Some(rest) = path.strip_prefix(&format!("/{BUCKET}")) else {
            return missing();
        };
        let name = rest.strip_prefix('/').filter(|name| !name.is_empty());
        match (method, name) {
            // A bucket is made, and removed with all that is in it, as a provider would.
            ("PUT", None) => {
                self.has_bucket = true;
                return answer("200 OK", 0, b"");
            }
            ("DELETE", None) => {
                self.has_bucket = false;
                self.objects.clear();
                return answer("204 No Content", 0, b"");
            }
            _ if !self.has_bucket => return missing(),
            _ => {}
        }
        let Some(name) = name else {
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
