//! The store itself: keys below a prefix, tags, and what the cloud's answers mean.

use crate::client::{Client, Condition};
use crate::config::{Config, Place};
use crate::error::{Fault, OpenError};
use crate::probe::{self, Deletes};
use crate::tombstone;
use crate::transport::{Answer, Outcome, Trail, wait_for};
use object_store::path::Path;
use std::sync::{Mutex, PoisonError};
use store::{Key, ReadError, Store, Tag, Versioned, WriteError};

/// How often a creation is tried that finds a key neither absent nor there.
const N_TRIES: usize = 3;

/// Whether the bucket or container is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketState {
    /// It is there, and its keys may be listed.
    Exists,
    /// The cloud's definite answer that it is not there.
    Missing,
}

/// A store in a bucket of S3 or Google Cloud Storage, or in a container of Azure Blob Storage.
///
/// Before its first write it tries on a key of its own whether the server honours conditions, and
/// refuses to be a store where it does not ([`Fault::ConditionIgnored`]).
pub struct CloudStore {
    client: Client,
    bucket: String,
    prefix: String,
    describe: String,
    is_azure: bool,
    deletes: Mutex<Option<Result<Deletes, Fault>>>,
}

/// How a write ended that did not fail.
pub(crate) enum Written {
    /// It is there, in this version.
    Done(Tag),
    /// The condition did not hold. Nothing was changed.
    Refused,
    /// The condition did not hold at the last try, but an earlier try may have landed.
    Unsure,
}

impl CloudStore {
    /// Makes the store. Nothing is asked of the cloud yet.
    ///
    /// # Errors
    ///
    /// Fails where a value can't be what it is to be, and where credentials have no usable form.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        if !config.prefix.is_empty()
            && let Err(error) = Key::new(config.prefix.as_str())
        {
            return Err(OpenError::Illegal {
                what: "prefix",
                value: config.prefix.clone(),
                why: error.why.to_owned(),
            });
        }
        let (bucket, endpoint) = match &config.place {
            Place::S3(place) => (format!("S3 bucket `{}`", place.bucket), &place.endpoint),
            Place::Gcs(place) => (format!("GCS bucket `{}`", place.bucket), &place.endpoint),
            Place::Azure(place) => (
                format!("Azure container `{}/{}`", place.account, place.container),
                &place.endpoint,
            ),
        };
        let bucket = match endpoint {
            Some(endpoint) => format!("{bucket} at `{endpoint}`"),
            None => bucket,
        };
        let describe = match config.prefix.as_str() {
            "" => bucket.clone(),
            prefix => format!("{bucket} below `{prefix}/`"),
        };
        Ok(Self {
            client: Client::open(config, &describe)?,
            bucket,
            prefix: config.prefix.clone(),
            describe,
            is_azure: matches!(config.place, Place::Azure(_)),
            deletes: Mutex::new(None),
        })
    }

    /// Asks whether the bucket or container is there.
    ///
    /// # Errors
    ///
    /// Anything but the cloud's own "there is no such bucket" is an error: a time-out, a denied
    /// access, a name that can't be resolved, a 404 of something that is no object store.
    pub fn bucket(&self) -> Result<BucketState, Fault> {
        let prefix = self.below("");
        let (page, trail) = wait_for(self.client.page(&prefix, None, Some(1)))?;
        match page {
            Ok(_) => Ok(BucketState::Exists),
            Err(error) => match self.fault(&error, &trail) {
                Fault::BucketMissing { .. } => Ok(BucketState::Missing),
                other => Err(other),
            },
        }
    }

    /// Tries, once in this store's life, whether the server honours conditions.
    ///
    /// Every write does it by itself. It writes, replaces and deletes a key that no [`Key`] can name.
    ///
    /// # Errors
    ///
    /// [`Fault::ConditionIgnored`] where it does not; other faults where that can't be told, and
    /// then it is tried again the next time.
    pub fn verify_conditions(&self) -> Result<Deletes, Fault> {
        let mut known = self.deletes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return known.clone();
        }
        let found = probe::conditions(self);
        if matches!(found, Ok(_) | Err(Fault::ConditionIgnored { .. })) {
            *known = Some(found.clone());
        }
        found
    }

    /// What stands in front of the text of a key.
    pub(crate) fn below(&self, text: &str) -> String {
        match self.prefix.as_str() {
            "" => text.to_owned(),
            prefix => format!("{prefix}/{text}"),
        }
    }

    fn path(&self, key: &Key) -> Result<Path, Fault> {
        if self.is_azure && key.segments().any(|segment| segment.ends_with('.')) {
            let why = "Azure drops a dot at the end of a part of a key";
            return Err(Fault::Unkeepable { why });
        }
        self.path_of(&self.below(key.as_str()))
    }

    /// The path of a whole text.
    pub(crate) fn path_of(&self, text: &str) -> Result<Path, Fault> {
        Path::parse(text).map_err(|error| Fault::Unexpected {
            answer: error.to_string(),
        })
    }

    /// Reads what is there, tombstones too.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<(Vec<u8>, Tag)>, Fault> {
        let (found, trail) = wait_for(self.client.get(path))?;
        match found {
            Ok(found) => Ok(Some(found)),
            Err(_) if self.says_no_such_key(&trail) => Ok(None),
            Err(error) => Err(self.fault(&error, &trail)),
        }
    }

    /// Writes under a condition.
    pub(crate) fn write(
        &self,
        path: &Path,
        body: &[u8],
        condition: Condition<'_>,
    ) -> Result<Written, Fault> {
        let creates = match &condition {
            Condition::Version(tag) if !self.client.is_tag(tag) => return Ok(Written::Refused),
            Condition::Version(_) => false,
            Condition::Absent => true,
        };
        let (done, trail) = wait_for(self.client.put(path, body.to_vec(), condition))?;
        match done {
            Ok(tag) => Ok(Written::Done(tag)),
            Err(_) if self.says_refused(&trail) => Ok(refused(&trail)),
            Err(_) if !creates && self.says_no_such_key(&trail) => Ok(refused(&trail)),
            Err(error) => Err(self.fault(&error, &trail)),
        }
    }

    /// Deletes one version by the server's own conditional delete; `false` where it refused.
    pub(crate) fn delete_version(&self, path: &Path, tag: &Tag) -> Result<bool, Fault> {
        if !self.client.is_tag(tag) {
            return Ok(false);
        }
        let (done, trail) = wait_for(self.client.delete(path, Some(tag)))?;
        match done {
            Ok(()) => Ok(true),
            Err(_) if self.says_refused(&trail) || self.says_no_such_key(&trail) => Ok(false),
            Err(error) => Err(self.fault(&error, &trail)),
        }
    }

    /// Deletes whatever is there: only for keys that nobody else uses.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), Fault> {
        let (done, trail) = wait_for(self.client.delete(path, None))?;
        match done {
            Ok(()) => Ok(()),
            Err(_) if self.says_no_such_key(&trail) => Ok(()),
            Err(error) => Err(self.fault(&error, &trail)),
        }
    }

    /// The last answer, where it was the store's own.
    fn last<'a>(&self, trail: &'a Trail) -> Option<&'a Answer> {
        match &trail.last {
            Some(Outcome::Answered(answer)) if answer.host == self.client.host => Some(answer),
            _ => None,
        }
    }

    /// Whether the store said that there is no such key. Its status alone is not enough: a 404 also
    /// comes from a bucket that is missing and from servers that are no store.
    fn says_no_such_key(&self, trail: &Trail) -> bool {
        self.last(trail).is_some_and(|answer| {
            answer.status == 404 && matches!(answer.code.as_str(), "NoSuchKey" | "BlobNotFound")
        })
    }

    /// Whether the store said that the condition did not hold.
    fn says_refused(&self, trail: &Trail) -> bool {
        self.last(trail).is_some_and(|answer| match answer.status {
            304 => true,
            // Azure has others with this status, about leases.
            412 => matches!(
                answer.code.as_str(),
                "" | "PreconditionFailed" | "ConditionNotMet" | "TargetConditionNotMet"
            ),
            409 => matches!(
                answer.code.as_str(),
                "ConditionalRequestConflict" | "BlobAlreadyExists"
            ),
            _ => false,
        })
    }

    /// What a failure means.
    fn fault(&self, error: &object_store::Error, trail: &Trail) -> Fault {
        match &trail.last {
            Some(Outcome::Failed { host, fault }) if *host == self.client.host => fault.clone(),
            Some(Outcome::Failed { host, fault }) => Fault::NoCredentials {
                host: host.clone(),
                why: fault.to_string(),
            },
            Some(Outcome::Answered(answer)) if answer.host != self.client.host => {
                Fault::NoCredentials {
                    host: answer.host.clone(),
                    why: answer.line(),
                }
            }
            Some(Outcome::Answered(answer)) => match (answer.status, answer.code.as_str()) {
                (404, "NoSuchBucket" | "ContainerNotFound") => Fault::BucketMissing {
                    bucket: self.bucket.clone(),
                },
                (401 | 403, _) => Fault::Denied {
                    answer: answer.line(),
                },
                _ => Fault::Unexpected {
                    answer: answer.line(),
                },
            },
            None => Fault::Unexpected {
                answer: error.to_string(),
            },
        }
    }

    fn conflict(&self, key: &Key) -> WriteError {
        WriteError::Conflict {
            store: self.describe.clone(),
            key: key.clone(),
        }
    }

    fn unwritten(&self, key: &Key, fault: Fault) -> WriteError {
        WriteError::Unreachable {
            store: self.describe.clone(),
            key: key.clone(),
            source: Box::new(fault),
        }
    }

    fn unlisted(&self, prefix: &str, fault: Fault) -> ReadError {
        ReadError::List {
            store: self.describe.clone(),
            prefix: prefix.to_owned(),
            source: Box::new(fault),
        }
    }

    /// A write of `body`, with doubt about earlier tries settled by what is there.
    fn put(
        &self,
        path: &Path,
        body: &[u8],
        condition: Condition<'_>,
    ) -> Result<Option<Tag>, Fault> {
        let written = match self.write(path, body, condition) {
            // A server that refuses by a request's head alone may close the connection under a long body, and its
            // answer is lost. What is there tells the same, where it is neither ours nor what was to be replaced.
            Err(fault @ Fault::BrokenOff { .. }) => {
                return match self.read(path) {
                    Ok(Some((found, tag))) if found != body && !condition.holds_for(&tag) => {
                        Ok(None)
                    }
                    _ => Err(fault),
                };
            }
            written => written?,
        };
        match written {
            Written::Done(tag) => Ok(Some(tag)),
            Written::Refused => Ok(None),
            Written::Unsure => match self.read(path)? {
                // It may be ours, or the same bytes of another writer: the caller must settle it.
                Some((found, _)) if found == body => Err(Fault::Unexpected {
                    answer: "the condition did not hold when the request was repeated".to_owned(),
                }),
                _ => Ok(None),
            },
        }
    }

    fn create(&self, path: &Path, body: &[u8]) -> Result<Option<Tag>, Fault> {
        for _ in 0..N_TRIES {
            if let Some(tag) = self.put(path, body, Condition::Absent)? {
                return Ok(Some(tag));
            }
            match self.read(path)? {
                Some((found, tag)) if tombstone::is(&found) => {
                    return self.put(path, body, Condition::Version(&tag));
                }
                Some(_) => return Ok(None),
                // It was deleted in between.
                None => {}
            }
        }
        Ok(None)
    }

    fn delete(&self, path: &Path, tag: &Tag) -> Result<bool, Fault> {
        match self.verify_conditions()? {
            Deletes::OneVersion => self.delete_version(path, tag),
            Deletes::ByTombstone => {
                let body = tombstone::new();
                Ok(self.put(path, &body, Condition::Version(tag))?.is_some())
            }
        }
    }

    fn keys(&self, text: &str) -> Result<Vec<Key>, Fault> {
        let begin = self.below("");
        let mut prefix = self.below(text);
        if self.is_azure {
            // `object_store` leaves out a blob whose whole name is the prefix: it may be a directory.
            prefix.pop();
        }
        let (mut keys, mut next) = (Vec::new(), None);
        loop {
            let (page, trail) = wait_for(self.client.page(&prefix, next.take(), None))?;
            let page = page.map_err(|error| self.fault(&error, &trail))?;
            for object in page.result.objects {
                // What is no key is not ours: probes, and what others put there.
                let path = object.location.as_ref();
                let Some(Ok(key)) = path.strip_prefix(&begin).map(Key::new) else {
                    continue;
                };
                let dead = object.size == tombstone::LENGTH
                    && !matches!(self.read(&object.location)?, Some((body, _)) if !tombstone::is(&body));
                if !dead && key.as_str().starts_with(text) {
                    keys.push(key);
                }
            }
            match page.page_token {
                Some(token) => next = Some(token),
                None => break,
            }
        }
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

impl Store for CloudStore {
    fn describe(&self) -> String {
        self.describe.clone()
    }

    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        let found = self.path(key).and_then(|path| self.read(&path));
        match found {
            Ok(Some((bytes, tag))) => {
                Ok((!tombstone::is(&bytes)).then_some(Versioned { bytes, tag }))
            }
            Ok(None) => Ok(None),
            Err(fault) => Err(ReadError::Unreachable {
                store: self.describe.clone(),
                key: key.clone(),
                source: Box::new(fault),
            }),
        }
    }

    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        let done = keepable(body)
            .and_then(|()| self.verify_conditions())
            .and_then(|_| self.create(&self.path(key)?, body));
        done.map_err(|fault| self.unwritten(key, fault))?
            .ok_or_else(|| self.conflict(key))
    }

    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        let done = keepable(body)
            .and_then(|()| self.verify_conditions())
            .and_then(|_| self.put(&self.path(key)?, body, Condition::Version(tag)));
        done.map_err(|fault| self.unwritten(key, fault))?
            .ok_or_else(|| self.conflict(key))
    }

    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        let done = self.path(key).and_then(|path| self.delete(&path, tag));
        match done {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.conflict(key)),
            Err(fault) => Err(self.unwritten(key, fault)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        self.keys(prefix)
            .map_err(|fault| self.unlisted(prefix, fault))
    }
}

fn refused(trail: &Trail) -> Written {
    if trail.was_unsure {
        Written::Unsure
    } else {
        Written::Refused
    }
}

fn keepable(body: &[u8]) -> Result<(), Fault> {
    if tombstone::is(body) {
        let why = "a value that begins as a tombstone does would read as absent";
        return Err(Fault::Unkeepable { why });
    }
    if body.len() as u64 > crate::MAX_VALUE {
        let why = "a value of more than 2 GiB could not be read again";
        return Err(Fault::Unkeepable { why });
    }
    Ok(())
}
