//! From a request line to what is asked for.

use http::Uri;
use percent_encoding::percent_decode_str;

/// The longest address that is read, in bytes.
const MAX_ADDRESS: usize = 4096;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Whether the server is well.
    Health,
    /// Counters for Prometheus.
    Metrics,
    /// The states and locks.
    States,
    /// The earlier versions of one state.
    Versions {
        /// Its path.
        path: String,
    },
    /// One state.
    State {
        /// Its path.
        path: String,
        /// `?ID=`: the lock under which is written.
        id: Option<String>,
        /// `?version=`: an earlier version.
        version: Option<String>,
        /// `?restore=`: what is written goes back, and may bring this lineage along.
        restores: Option<String>,
    },
}

/// Why an address asks for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There is no such place.
    #[error("there is nothing here: a state is at `/state/<path>`")]
    Nothing,
    /// It is longer than any that is meant.
    #[error("the address is longer than {MAX_ADDRESS} bytes")]
    Long,
    /// A value of the query is no text, or is there twice.
    #[error("the query of the address can't be read")]
    Query,
}

/// Reads an address.
///
/// # Errors
/// Where it names nothing.
pub fn route(uri: &Uri) -> Result<Route, RouteError> {
    if uri.path().len() + uri.query().map_or(0, str::len) > MAX_ADDRESS {
        return Err(RouteError::Long);
    }
    match uri.path() {
        "/health" => return Ok(Route::Health),
        "/metrics" => return Ok(Route::Metrics),
        "/states" => return Ok(Route::States),
        _ => {}
    }
    // Whether it is a path of a state is for the store's keys to say; no `%` is one.
    if let Some(path) = uri.path().strip_prefix("/versions/") {
        return Ok(Route::Versions {
            path: path.to_owned(),
        });
    }
    let path = uri.path().strip_prefix("/state/");
    let path = path.ok_or(RouteError::Nothing)?.to_owned();
    let query = uri.query().unwrap_or_default();
    Ok(Route::State {
        path,
        id: value(query, "ID")?,
        version: value(query, "version")?,
        restores: value(query, "restore")?,
    })
}

fn value(query: &str, wanted: &str) -> Result<Option<String>, RouteError> {
    let mut found = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, _)| *name == wanted)
        .map(|(_, value)| value);
    let Some(value) = found.next() else {
        return Ok(None);
    };
    if found.next().is_some() {
        return Err(RouteError::Query);
    }
    let text = percent_decode_str(value).decode_utf8();
    text.map(|text| Some(text.into_owned()))
        .map_err(|_| RouteError::Query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Route, RouteError> {
        route(&text.parse().unwrap())
    }

    fn state(path: &str, id: Option<&str>) -> Result<Route, RouteError> {
        Ok(Route::State {
            path: path.to_owned(),
            id: id.map(ToOwned::to_owned),
            version: None,
            restores: None,
        })
    }

    #[test]
    fn addresses_name_what_they_say() {
        assert_eq!(of("/health"), Ok(Route::Health));
        assert_eq!(of("/state/a/b?ID=x%2Dy"), state("a/b", Some("x-y")));
        assert_eq!(of("/state/a?id=x&noise"), state("a", None));
        assert_eq!(of("/state/"), state("", None));
        assert_eq!(of("/states/"), Err(RouteError::Nothing));
        assert_eq!(of("/"), Err(RouteError::Nothing));
        assert_eq!(of("/state/a?ID=x&ID=y"), Err(RouteError::Query));
        assert_eq!(of("/state/a?ID=%ff"), Err(RouteError::Query));
        assert_eq!(
            of(&format!("/state/{}", "a".repeat(5000))),
            Err(RouteError::Long)
        );
    }

    proptest! {
        #[test]
        fn no_address_makes_it_panic(text in "/[ -~]{0,60}") {
            if let Ok(uri) = text.parse() {
                let _ = route(&uri);
            }
        }
    }
}
