//! Why a cloud store gave no answer, or can't be used.

use std::time::Duration;

/// Why a store can't be opened from its configuration. Nothing has been asked of the cloud yet.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A value is not what it should be.
    #[error("`{value}` is no {what}: {why}")]
    Illegal {
        /// What it was to be.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The credentials are not of the form that the cloud's have, or none were given.
    #[error("the credentials for {store} can't be used: {why}")]
    Credentials {
        /// The store.
        store: String,
        /// What is wrong; never the credentials.
        why: String,
    },
    /// The file of certificates can't be used.
    #[error("cannot use the certificates in `{file}`")]
    CaFile {
        /// The file.
        file: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a cloud said, or that it said nothing: the source of the errors of a [`store::Store`] that
/// is a [`CloudStore`](crate::CloudStore). Whoever needs to tell them apart downcasts to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The cloud's definite answer that there is no such bucket or container.
    #[error("{bucket} does not exist")]
    BucketMissing {
        /// The bucket or container.
        bucket: String,
    },
    /// 401 or 403: the credentials are wrong or have no right to it.
    #[error("access is denied: {answer}")]
    Denied {
        /// Status, code and message.
        answer: String,
    },
    /// No credentials were to be had from the chain.
    #[error("no credentials could be had from `{host}`: {why}")]
    NoCredentials {
        /// Who was asked.
        host: String,
        /// What was said.
        why: String,
    },
    /// The host's name means nothing.
    #[error("the name `{host}` can't be resolved")]
    UnknownHost {
        /// The host.
        host: String,
    },
    /// No connection came about.
    #[error("no connection to `{host}`: {why}")]
    NoConnection {
        /// The host.
        host: String,
        /// The network's word.
        why: String,
    },
    /// No answer in time.
    #[error("`{host}` gave no answer within {within:?}")]
    TimedOut {
        /// The host.
        host: String,
        /// The time that one try has.
        within: Duration,
    },
    /// The connection broke off; a write may have landed.
    #[error("the connection to `{host}` broke off: {why}")]
    BrokenOff {
        /// The host.
        host: String,
        /// The network's word.
        why: String,
    },
    /// An answer that means neither yes nor no.
    #[error("unexpected answer: {answer}")]
    Unexpected {
        /// Status, code and message, or what could not be read of it.
        answer: String,
    },
    /// The store ignores a condition, so that two writers would both believe to have won.
    #[error(
        "the server ignores the condition of {what}, so locks would not hold: it can't be a store"
    )]
    ConditionIgnored {
        /// The request whose condition was ignored.
        what: &'static str,
    },
    /// The key or value is one that this store can't keep.
    #[error("{why}")]
    Unkeepable {
        /// Why not.
        why: &'static str,
    },
}
