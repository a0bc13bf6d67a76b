//! `backend`: the HTTP state backend on its own, and how OpenTofu is pointed at it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backend_server::{
    AccessRecord, Config, ConfigError, Credential, CredentialError, Keyring, Limits, Options,
    Rights, Server, TlsError, tls_of_files,
};
use cloud_store::{BucketState, CloudStore, DefaultChain};
use phase_engine::ExitCode;
use schemars::JsonSchema;
use secrets::{Secret, Source};
use serde::Serialize;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use state_backend::{Names, StateBackend};
use store::lock::Hold;
use store::{LocalStore, Store, Writer, layout};

use super::{Context, Told, telling};
use crate::args::{BackendEnv, BackendServe};
use crate::commands::served;
use crate::failure::Failure;
use crate::stream;

/// The number under which a served backend writes: a target's lock, which counts higher, is never its matter.
const FENCE: u64 = 1;
/// The name of the credential that is made where there is no configuration.
const MADE: &str = "rebuild";

/// The line that says where the server is; a file that holds it is what `--server` takes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Serving {
    /// The version of this format.
    schema: u32,
    /// Where it listens, as the beginning of an address; a state is at `/state/<path>` below it.
    address: String,
    /// The store, as it describes itself.
    store: String,
    /// Whether states are served for reading alone, because they belong to a target.
    read_only: bool,
    /// The name of the credential that was made; none where there is a configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    /// Its secret, which is shown here and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
}

/// Why there is nothing to serve.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("cannot read the configuration `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the configuration `{}` can't be used", path.display())]
    Config {
        path: PathBuf,
        #[source]
        source: ConfigError,
    },
    #[error("the secret of credential `{name}` can't be fetched")]
    Secret {
        name: String,
        #[source]
        source: secrets::FetchError,
    },
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("`{0}` is not this machine alone, and without a configuration there is no TLS")]
    NotLoopback(SocketAddr),
}

/// What the configuration comes to.
struct Settings {
    keyring: Keyring,
    tls: Option<Arc<rustls::ServerConfig>>,
    config: Config,
    listen: SocketAddr,
    made: Option<Secret>,
}

/// Serves until it is told to end.
pub(super) fn serve(context: &Context, asked: &BackendServe) -> Told {
    match try_serve(context, asked) {
        Ok(()) => Told::told_already(),
        Err(failure) => Told::failed(*failure),
    }
}

fn try_serve(context: &Context, asked: &BackendServe) -> Result<(), Box<Failure>> {
    let settings = settings(context, asked).map_err(|error| {
        let hint = match &error {
            ServeError::NotLoopback(_) => {
                "listen on 127.0.0.1, or name certificate, key and credentials in a file for `--config`"
            }
            _ => "nothing is served; the page on the state backend in the documentation has a configuration to start from",
        };
        Box::new(Failure::of(ExitCode::Unusable, &error).hint(hint))
    })?;
    let store = store_of(context, asked, &settings.config)?;
    let is_targets = store
        .get_start(&layout::target_json(), 1)
        .map_err(|error| {
            Box::new(
                Failure::of(ExitCode::Stopped, &error)
                    .hint("nothing is served; see that the store answers"),
            )
        })?;
    let (names, read_only) = match is_targets {
        Some(_) => (Names::Steps, true),
        None => (Names::Paths, false),
    };
    let identity = process::Identity::of_self()
        .map_err(|error| Box::new(Failure::of(ExitCode::Unusable, &error)))?;
    let writer = Writer {
        identity,
        user: context.machine.user.clone(),
        host: context.machine.host.clone(),
        run: None,
    };
    let backend = StateBackend::new(Arc::clone(&store), FENCE, writer, Arc::new(|| Hold::Held));
    // Before the first line is out, so that a signal which follows it is not lost.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| {
        Box::new(Failure::of(ExitCode::Failed, &error).hint("nothing is served"))
    })?;
    let is_tls = settings.tls.is_some();
    let options = Options {
        listen: settings.listen,
        tls: settings.tls,
        keyring: settings.keyring,
        read_only,
        open_metrics: settings.config.open_metrics,
        limits: Limits::from(settings.config.limits),
        log: Arc::new(log),
    };
    let server = Server::start(Arc::new(backend.named(names)), options).map_err(|error| {
        Box::new(
            Failure::of(ExitCode::Unusable, &error)
                .hint("choose another address with `--listen`; port 0 takes any that is free"),
        )
    })?;
    let scheme = if is_tls { "https" } else { "http" };
    let line = telling::document(&Serving {
        schema: 1,
        address: format!("{scheme}://{}", server.address()),
        store: store.describe(),
        read_only,
        username: settings.made.is_some().then(|| MADE.to_owned()),
        password: settings.made.map(|secret| secret.expose().to_owned()),
    });
    stream::out(&format!("{line}\n"));
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        reload(context, asked, &server, is_tls);
    }
    // A second signal ends at once what the first lets end in order.
    let handle = signals.handle();
    let impatient = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().any(|signal| signal != SIGHUP) {
                let _ = signal_hook::low_level::emulate_default_handler(SIGTERM);
            }
        });
    note(json!({ "event": "stopping" }));
    server.stop();
    handle.close();
    if let Ok(thread) = impatient {
        let _ = thread.join();
    }
    Ok(())
}

/// Reads the configuration anew: credentials and certificate. One that can't be used changes nothing.
fn reload(context: &Context, asked: &BackendServe, server: &Server, is_tls: bool) {
    if asked.config.is_none() {
        return;
    }
    match settings(context, asked) {
        Ok(new) if new.tls.is_some() == is_tls => {
            server.replace(new.keyring, new.tls);
            note(json!({ "event": "reloaded" }));
        }
        Ok(_) => note(json!({
            "event": "not reloaded",
            "why": "`[tls]` came or went: that needs another start",
        })),
        Err(error) => {
            let failure = Failure::of(ExitCode::Unusable, &error);
            let why = std::iter::once(failure.message).chain(failure.causes);
            note(json!({ "event": "not reloaded", "why": why.collect::<Vec<_>>().join(": ") }));
        }
    }
}

fn log(record: &AccessRecord) {
    if let Ok(line) = serde_json::to_string(record) {
        stream::err(&format!("{line}\n"));
    }
}

fn note(event: serde_json::Value) {
    stream::err(&format!("{event}\n"));
}

fn settings(context: &Context, asked: &BackendServe) -> Result<Settings, ServeError> {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let Some(path) = &asked.config else {
        let listen = asked.listen.unwrap_or(default);
        if !listen.ip().is_loopback() {
            return Err(ServeError::NotLoopback(listen));
        }
        let secret = Secret::new(format!(
            "{:032x}{:032x}",
            rand::random::<u128>(),
            rand::random::<u128>()
        ));
        let credential = Credential::of_secret(MADE, &secret, Rights::everything())?;
        return Ok(Settings {
            keyring: Keyring::of([credential])?,
            tls: None,
            config: Config::default(),
            listen,
            made: Some(secret),
        });
    };
    let path = context.machine.cwd.join(path);
    let text = std::fs::read_to_string(&path).map_err(|source| ServeError::Unreadable {
        path: path.clone(),
        source,
    })?;
    let wrong = |source| ServeError::Config {
        path: path.clone(),
        source,
    };
    let config = Config::parse(&text).map_err(wrong)?;
    let listen = asked.listen.or(config.listen).unwrap_or(default);
    config.may_listen(listen).map_err(wrong)?;
    let beside = path.parent().unwrap_or(Path::new("/"));
    let tls = config
        .tls
        .as_ref()
        .map(|tls| tls_of_files(&beside.join(&tls.certificate), &beside.join(&tls.key)));
    let mut credentials = Vec::new();
    for credential in &config.credentials {
        let (name, rights) = (&credential.name, credential.rights());
        credentials.push(match (&credential.secret, &credential.sha256) {
            (Some(source), _) => {
                let machine = &context.machine;
                let fetched = Source::from(source.clone()).fetch(
                    &machine.env,
                    &machine.home,
                    beside,
                    &*machine.spawner,
                );
                let secret = fetched.map_err(|source| ServeError::Secret {
                    name: name.clone(),
                    source,
                })?;
                Credential::of_secret(name, &secret, rights)?
            }
            (None, digest) => {
                Credential::of_digest(name, digest.as_deref().unwrap_or_default(), rights)?
            }
        });
    }
    Ok(Settings {
        keyring: Keyring::of(credentials)?,
        tls: tls.transpose()?,
        listen,
        config,
        made: None,
    })
}

fn store_of(
    context: &Context,
    asked: &BackendServe,
    config: &Config,
) -> Result<Arc<dyn Store>, Box<Failure>> {
    let cwd = &context.machine.cwd;
    let (text, beside) = match (&asked.store, &config.store, &asked.config) {
        (Some(text), _, _) => (text, cwd.clone()),
        (None, Some(text), Some(file)) => {
            let file = cwd.join(file);
            (text, file.parent().unwrap_or(Path::new("/")).to_owned())
        }
        (None, _, _) => {
            return Err(Box::new(
                Failure::new(ExitCode::Unusable, "there is no store to serve states from")
                    .hint("add `--store DIR`, or `store` to the configuration"),
            ));
        }
    };
    if !cloud_store::Config::is_address(text) {
        // A slip in an address must not become a directory of its name.
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(Box::new(
                Failure::new(
                    ExitCode::Unusable,
                    format!("`{scheme}://` is no store that can be served from"),
                )
                .hint("a store is a directory, or `s3://`, `gs://` or `az://`; nothing is served"),
            ));
        }
        return Ok(Arc::new(LocalStore::open(beside.join(text))));
    }
    let chain = DefaultChain {
        variables: context
            .machine
            .env
            .iter()
            .filter_map(|(name, value)| {
                let (name, value) = (name.to_str()?, value.to_str()?);
                Some((name.to_owned(), Secret::new(value)))
            })
            .collect(),
    };
    let unusable = |error| {
        Box::new(
            Failure::of(ExitCode::Unusable, &error)
                .hint("nothing is served; `docs/stores.md` has the form of a store's address"),
        )
    };
    if let Some(mib) = config.limits.state_mib
        && u64::from(mib) * 1024 * 1024 > cloud_store::MAX_VALUE
    {
        let most = cloud_store::MAX_VALUE / 1024 / 1024;
        return Err(Box::new(
            Failure::new(
                ExitCode::Unusable,
                format!("`state_mib` of `[limits]` is {mib}, and a state in a bucket can have {most} at most"),
            )
            .hint(format!(
                "let `state_mib` be {most} or less, or serve from a directory; nothing is served"
            )),
        ));
    }
    let config = cloud_store::Config::of_address(text, chain).map_err(unusable)?;
    let store = CloudStore::open(&config).map_err(unusable)?;
    let stopped = |failure: Failure| {
        Box::new(failure.hint("nothing is served; see that the store is there and answers"))
    };
    match store.bucket() {
        Ok(BucketState::Exists) => Ok(Arc::new(store)),
        Ok(BucketState::Missing) => Err(stopped(Failure::new(
            ExitCode::Stopped,
            format!("{} does not exist", store.describe()),
        ))),
        Err(fault) => {
            let mut failure = Failure::of(ExitCode::Stopped, &fault);
            failure
                .causes
                .insert(0, std::mem::take(&mut failure.message));
            failure.message = format!("cannot reach {}", store.describe());
            Err(Box::new(failure.hint(
                "nothing is served; see that the store answers, and that the environment holds credentials for it (`AWS_…`, `GOOGLE_…`, \
                 `AZURE_…`: docs/stores.md)",
            )))
        }
    }
}

/// Says how OpenTofu is pointed at a state.
pub(super) fn env(context: &Context, asked: &BackendEnv) -> Told {
    let (client, place) = match served::client(context, &asked.served) {
        Ok(found) => found,
        Err(failure) => return Told::failed(*failure),
    };
    let address = client.address_of(&asked.path);
    if let Err(error) = Names::Paths.check(&asked.path) {
        return Told::failed(
            Failure::of(ExitCode::Unusable, &error).hint("a path looks like `team/app/prod`"),
        );
    }
    let (username, password) = served::basic(&place.login);
    let mut variables = vec![
        ("TF_HTTP_ADDRESS", address.clone()),
        ("TF_HTTP_LOCK_ADDRESS", address.clone()),
        ("TF_HTTP_UNLOCK_ADDRESS", address.clone()),
        ("TF_HTTP_USERNAME", username),
        ("TF_HTTP_PASSWORD", password.expose().to_owned()),
    ];
    if let Some(file) = &place.ca_file {
        match std::fs::read_to_string(file) {
            Ok(pem) => variables.push(("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", pem)),
            Err(error) => return Told::failed(Failure::of(ExitCode::Unusable, &error)),
        }
    }
    let text = if asked.hcl {
        format!(
            "terraform {{\n  backend \"http\" {{\n    address        = \"{address}\"\n    lock_address   = \"{address}\"\n    \
             unlock_address = \"{address}\"\n  }}\n}}\n"
        )
    } else {
        variables
            .iter()
            .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
            .collect()
    };
    let variables: serde_json::Map<_, _> = variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    Told::done(json!({ "schema": 1, "env": variables }), text)
}

/// A value as a POSIX shell takes it literally.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_value_as_it_is() {
        assert_eq!(quoted("a b$c"), "'a b$c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
