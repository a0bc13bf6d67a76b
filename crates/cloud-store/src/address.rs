//! A cloud store in one line: `s3://bucket/prefix?region=eu-1&endpoint=https://…`.

use crate::config::{
    Azure, AzureCredentials, Config, DefaultChain, Gcs, GcsCredentials, Place, S3, S3Credentials,
};
use crate::error::OpenError;
use std::collections::BTreeMap;
use std::path::PathBuf;
use url::Url;

/// What an address may begin with.
const SCHEMES: [&str; 3] = ["s3://", "gs://", "az://"];

impl Config {
    /// Whether a text is the address of a cloud store rather than a directory.
    pub fn is_address(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// Reads an address: `s3://BUCKET[/PREFIX]?region=…`, `gs://BUCKET[/PREFIX]`, `az://ACCOUNT/CONTAINER[/PREFIX]`.
    ///
    /// `endpoint`, `ca_file`, `proxy` and `plain_http=true` may be said of each, `path_style=true` of S3, and
    /// `anonymous=true` of Google's emulators. Credentials come from `chain` alone: an address holds none.
    ///
    /// # Errors
    /// Where it is no such address, or says what nobody knows.
    pub fn of_address(text: &str, chain: DefaultChain) -> Result<Self, OpenError> {
        let illegal = |why: &str| OpenError::Illegal {
            what: "address of a store",
            value: without_credentials(text),
            why: why.to_owned(),
        };
        let url = Url::parse(text).map_err(|error| illegal(&error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            return Err(illegal(
                "it holds no credentials and no port: those are the environment's and `endpoint`'s",
            ));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host
            .ok_or_else(|| illegal("it names no bucket"))?
            .to_owned();
        let mut said = BTreeMap::new();
        for (name, value) in url.query_pairs() {
            if said
                .insert(name.clone().into_owned(), value.into_owned())
                .is_some()
            {
                return Err(illegal(&format!("it says `{name}` twice")));
            }
        }
        let mut prefix = url.path().trim_matches('/').to_owned();
        let endpoint = said.remove("endpoint");
        let place = match url.scheme() {
            "s3" => Place::S3(S3 {
                bucket: host,
                region: said.remove("region").ok_or_else(|| {
                    illegal("it needs `?region=…`, which is part of every signature")
                })?,
                path_style: flag(&mut said, "path_style").map_err(|why| illegal(&why))?,
                endpoint,
                credentials: S3Credentials::DefaultChain(chain),
            }),
            "gs" => Place::Gcs(Gcs {
                bucket: host,
                endpoint,
                credentials: if flag(&mut said, "anonymous").map_err(|why| illegal(&why))? {
                    GcsCredentials::Anonymous
                } else {
                    GcsCredentials::DefaultChain(chain)
                },
            }),
            "az" => {
                let (container, rest) = prefix.split_once('/').unwrap_or((&prefix, ""));
                if container.is_empty() {
                    return Err(illegal("it names no container: `az://ACCOUNT/CONTAINER`"));
                }
                let (container, rest) = (container.to_owned(), rest.to_owned());
                prefix = rest;
                Place::Azure(Azure {
                    account: host,
                    container,
                    endpoint,
                    credentials: AzureCredentials::DefaultChain(chain),
                })
            }
            _ => {
                return Err(illegal(
                    "it begins with none of `s3://`, `gs://` and `az://`",
                ));
            }
        };
        let mut config = Self::new(place, prefix);
        config.ca_file = said.remove("ca_file").map(PathBuf::from);
        config.proxy = said.remove("proxy");
        config.plain_http = flag(&mut said, "plain_http").map_err(|why| illegal(&why))?;
        match said.keys().next() {
            None => Ok(config),
            Some(name) => Err(illegal(&format!("nobody knows what `{name}` is"))),
        }
    }
}

/// An address as it may be shown: nothing of what stands before an `@`, which may be a secret, nor of the query.
fn without_credentials(text: &str) -> String {
    let place = text.split('?').next().unwrap_or_default();
    match (place.split_once("://"), place.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        (None, Some(_)) => "…".to_owned(),
        (_, None) => place.to_owned(),
    }
}

fn flag(said: &mut BTreeMap<String, String>, name: &str) -> Result<bool, String> {
    match said.remove(name).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(format!("`{name}` is `true` or `false`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Config, OpenError> {
        Config::of_address(text, DefaultChain::default())
    }

    #[test]
    fn an_address_names_bucket_prefix_and_how_it_is_reached() {
        let config = of("s3://states/live/a?region=eu-1&endpoint=http://127.0.0.1:9000&path_style=true&ca_file=/ca.pem").unwrap();
        assert_eq!(config.prefix, "live/a");
        assert_eq!(config.ca_file, Some("/ca.pem".into()));
        let Place::S3(place) = config.place else {
            panic!("an S3 bucket");
        };
        assert_eq!(
            (&*place.bucket, &*place.region, place.path_style),
            ("states", "eu-1", true)
        );
        assert_eq!(place.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        let config = of("az://account/states/live").unwrap();
        assert_eq!(config.prefix, "live");
        assert!(
            matches!(config.place, Place::Azure(place) if place.account == "account" && place.container == "states")
        );
        let config = of("gs://states").unwrap();
        assert_eq!(config.prefix, "");
        assert!(matches!(config.place, Place::Gcs(place) if place.bucket == "states"));
    }

    #[test]
    fn an_address_that_says_too_much_or_too_little_is_refused() {
        for (text, why) in [
            ("s3://states", "region"),
            ("s3://?region=a", "bucket"),
            ("az://account", "container"),
            ("s3://states?region=a&region=b", "twice"),
            ("s3://states?region=a&colour=red", "colour"),
            ("s3://states?region=a&path_style=yes", "path_style"),
            ("s3://key:hunter2@states?region=a", "credentials"),
            ("ftp://states", "none of"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(Config::is_address("gs://a") && !Config::is_address("./s3"));
    }
}
