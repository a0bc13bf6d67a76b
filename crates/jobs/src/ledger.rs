//! The file that keeps jobs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use process::files::{FileError, create_private_dir, create_private_file};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::job::{End, Job, JobId, JobStatus, Step, StepStatus, TransitionError};
use crate::schema;

/// How many jobs of one workspace that are over are kept.
const KEPT: u32 = 50;
/// The most that a write waits for another process's.
const PATIENCE: Duration = Duration::from_secs(30);

/// The jobs of a user on this machine.
#[derive(Debug)]
pub struct Ledger {
    db: Connection,
    path: PathBuf,
}

/// A job to be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// `provision`, `bootstrap`.
    pub kind: String,
    /// The platform.
    pub platform: String,
    /// The target.
    pub target: String,
    /// The workspace.
    pub workspace: String,
    /// The playbook.
    pub playbook: String,
    /// What whoever goes on with it needs to know besides. Never anything sensitive.
    pub spec: String,
    /// Its steps, in order.
    pub steps: Vec<NewStep>,
}

/// A step of a job to be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStep {
    /// Its name.
    pub name: String,
    /// Whether it only looks.
    pub looks: bool,
}

/// What there is to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The new job.
    New(Job),
    /// The job of that workspace that is not over: it goes on, and the new one was not written down.
    Unfinished(Job),
}

/// Something with the ledger did not work.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file could not be opened, read or written.
    #[error("cannot {doing} the ledger of jobs `{}`", path.display())]
    Sqlite {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: rusqlite::Error,
    },
    /// The directory or file could not be made.
    #[error("the ledger of jobs could not be made")]
    Make(#[source] FileError),
    /// A newer version wrote it.
    #[error("the ledger of jobs `{}` has the format {version}, and this version of rebuild reads {}", path.display(), schema::VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: i32,
    },
    /// There is no such job.
    #[error("there is no job `{0}`")]
    NoSuchJob(JobId),
    /// Somebody else runs it.
    #[error("job `{job}` is run by {holder}")]
    Held {
        /// The job.
        job: JobId,
        /// Who.
        holder: String,
    },
    /// Another job of that workspace is not over.
    #[error("job `{other}` of the same workspace is not over; it goes on, or is given up, first")]
    AnotherOpen {
        /// That job.
        other: JobId,
    },
    /// It may not happen to the job.
    #[error(transparent)]
    Transition(#[from] TransitionError),
}

impl Ledger {
    /// Opens the file, or makes it, for this user alone.
    ///
    /// # Errors
    /// When it can't be made or opened, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError::Sqlite {
            doing: "open",
            path: path.to_owned(),
            source,
        };
        if let Some(directory) = path.parent() {
            create_private_dir(directory).map_err(LedgerError::Make)?;
        }
        // Made before SQLite does, so that it is nobody else's for no moment.
        match create_private_file(path) {
            Ok(_) => {}
            Err(FileError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(LedgerError::Make(error)),
        }
        let mut db = Connection::open(path).map_err(failed)?;
        db.busy_timeout(PATIENCE).map_err(failed)?;
        if let Some(version) = schema::prepare(&mut db).map_err(failed)? {
            return Err(LedgerError::Newer {
                path: path.to_owned(),
                version,
            });
        }
        Ok(Self {
            db,
            path: path.to_owned(),
        })
    }

    /// Writes a new job down, or finds the one of its workspace that is not over. With a new one the oldest of its
    /// workspace that are over are forgotten: fifty of them stay.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn open_job(&mut self, new: NewJob, now: &str) -> Result<Opened, LedgerError> {
        self.change(|change| {
            let open: Option<String> = change
                .query_row(
                    "SELECT id FROM job WHERE platform = ?1 AND target = ?2 AND workspace = ?3 AND is_open = 1",
                    params![new.platform, new.target, new.workspace],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(id) = open {
                return Ok(read(change, &JobId(id))?.map(Opened::Unfinished));
            }
            let steps = new.steps.into_iter().map(|step| Step {
                name: step.name,
                looks: step.looks,
                status: StepStatus::Pending,
                n_attempts: 0,
                started_at: None,
                ended_at: None,
                outputs: None,
                error: None,
            });
            let job = Job {
                id: new.id,
                kind: new.kind,
                platform: new.platform,
                target: new.target,
                workspace: new.workspace,
                playbook: new.playbook,
                spec: new.spec,
                created_at: now.to_owned(),
                abandoned: None,
                holder: None,
                steps: steps.collect(),
            };
            change.execute(
                "INSERT INTO job (id, kind, platform, target, workspace, playbook, spec, created_at, is_open) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)",
                params![job.id.0, job.kind, job.platform, job.target, job.workspace, job.playbook, job.spec, job.created_at],
            )?;
            write(change, &job)?;
            change.execute(
                "DELETE FROM job WHERE id IN (SELECT id FROM job WHERE platform = ?1 AND target = ?2 AND workspace = ?3 AND is_open = 0 ORDER BY created_at DESC, id DESC LIMIT -1 OFFSET ?4)",
                params![job.platform, job.target, job.workspace, KEPT],
            )?;
            Ok(Some(Opened::New(job)))
        })?
        .ok_or_else(|| self.failed("read", rusqlite::Error::QueryReturnedNoRows))
    }

    /// All jobs, the newest first.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn list(&self) -> Result<Vec<Job>, LedgerError> {
        let listed = (|| {
            let mut query = self
                .db
                .prepare("SELECT id FROM job ORDER BY created_at DESC, id DESC")?;
            let ids = query.query_map([], |row| row.get(0).map(JobId))?;
            let ids: Vec<JobId> = ids.collect::<rusqlite::Result<_>>()?;
            let jobs = ids.iter().filter_map(|id| read(&self.db, id).transpose());
            jobs.collect::<rusqlite::Result<Vec<Job>>>()
        })();
        listed.map_err(|source| self.failed("read", source))
    }

    /// One job.
    ///
    /// # Errors
    /// When there is none of this id, or the file can't be read.
    pub fn show(&self, id: &JobId) -> Result<Job, LedgerError> {
        read(&self.db, id)
            .map_err(|source| self.failed("read", source))?
            .ok_or_else(|| LedgerError::NoSuchJob(id.clone()))
    }

    /// The jobs of one workspace, the newest first.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn of_workspace(
        &self,
        platform: &str,
        target: &str,
        workspace: &str,
    ) -> Result<Vec<Job>, LedgerError> {
        let mut jobs = self.list()?;
        jobs.retain(|job| {
            job.platform == platform && job.target == target && job.workspace == workspace
        });
        Ok(jobs)
    }

    /// Writes down anew what whoever goes on with a job needs to know. The holder alone may.
    ///
    /// # Errors
    /// When somebody else holds the job.
    pub fn respecify(&mut self, id: &JobId, holder: &str, spec: &str) -> Result<Job, LedgerError> {
        self.alter(id, |job| {
            is_held_by(job, holder)?;
            job.spec = spec.to_owned();
            Ok(())
        })
    }

    /// Takes a job to run it. Whoever held it before must be dead, as `is_dead` says.
    ///
    /// # Errors
    /// When somebody alive holds it.
    pub fn take(
        &mut self,
        id: &JobId,
        holder: &str,
        is_dead: impl FnOnce(&str) -> bool,
    ) -> Result<Job, LedgerError> {
        self.alter(id, |job| {
            if let Some(other) = job.holder.as_deref().filter(|other| *other != holder)
                && !is_dead(other)
            {
                return Err(LedgerError::Held {
                    job: job.id.clone(),
                    holder: other.to_owned(),
                });
            }
            job.holder = Some(holder.to_owned());
            Ok(())
        })
    }

    /// Gives a job back; one that another took meanwhile stays that one's.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn give_back(&mut self, id: &JobId, holder: &str) -> Result<Job, LedgerError> {
        self.alter(id, |job| {
            if job.holder.as_deref() == Some(holder) {
                job.holder = None;
            }
            Ok(())
        })
    }

    /// Writes down that a step begins. The holder alone may.
    ///
    /// # Errors
    /// When the step may not begin, or somebody else holds the job.
    pub fn begin(
        &mut self,
        id: &JobId,
        holder: &str,
        step: &str,
        now: &str,
    ) -> Result<Job, LedgerError> {
        let begun = self.alter(id, |job| {
            is_held_by(job, holder)?;
            Ok(job.begin(step, now)?)
        });
        let _ = fault::point("job.begin.after", || step.to_owned());
        begun
    }

    /// Writes down how a step ended. The holder alone may.
    ///
    /// # Errors
    /// When it was not begun, or somebody else holds the job.
    pub fn end(
        &mut self,
        id: &JobId,
        holder: &str,
        step: &str,
        end: End,
        now: &str,
    ) -> Result<Job, LedgerError> {
        let _ = fault::point("job.end.before", || step.to_owned());
        let ended = self.alter(id, |job| {
            is_held_by(job, holder)?;
            Ok(job.end(step, end, now)?)
        });
        let _ = fault::point("job.end.after", || step.to_owned());
        ended
    }

    /// Makes a job go on from a step, or from where it stopped.
    ///
    /// # Errors
    /// When it can't begin there, when somebody alive holds it, or when another job of its workspace is not over.
    pub fn redrive(
        &mut self,
        id: &JobId,
        from: Option<&str>,
        is_dead: impl FnOnce(&str) -> bool,
    ) -> Result<Job, LedgerError> {
        self.alter(id, |job| {
            is_free(job, is_dead)?;
            Ok(job.redrive(from)?)
        })
    }

    /// Gives a job up: it is over, and a new one of its workspace may begin.
    ///
    /// # Errors
    /// When somebody alive holds it.
    pub fn abandon(
        &mut self,
        id: &JobId,
        reason: &str,
        is_dead: impl FnOnce(&str) -> bool,
    ) -> Result<Job, LedgerError> {
        self.alter(id, |job| {
            is_free(job, is_dead)?;
            job.abandoned = Some(reason.to_owned());
            Ok(())
        })
    }

    /// Reads a job, alters it and writes it, all or nothing.
    fn alter(
        &mut self,
        id: &JobId,
        alter: impl FnOnce(&mut Job) -> Result<(), LedgerError>,
    ) -> Result<Job, LedgerError> {
        self.change(|change| {
            let Some(mut job) = read(change, id)? else {
                return Ok(Err(LedgerError::NoSuchJob(id.clone())));
            };
            if let Err(error) = alter(&mut job) {
                return Ok(Err(error));
            }
            let other: Option<String> = change
                .query_row(
                    "SELECT id FROM job WHERE platform = ?1 AND target = ?2 AND workspace = ?3 AND is_open = 1 AND id <> ?4",
                    params![job.platform, job.target, job.workspace, job.id.0],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(other) = other.filter(|_| is_open(&job)) {
                return Ok(Err(LedgerError::AnotherOpen { other: JobId(other) }));
            }
            write(change, &job)?;
            Ok(Ok(job))
        })?
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        let path = self.path.clone();
        let changed = (|| {
            // Taken for writing at once: two readers that both want to write would refuse each other.
            let transaction = self
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })();
        changed.map_err(|source| LedgerError::Sqlite {
            doing: "write",
            path,
            source,
        })
    }

    fn failed(&self, doing: &'static str, source: rusqlite::Error) -> LedgerError {
        LedgerError::Sqlite {
            doing,
            path: self.path.clone(),
            source,
        }
    }
}

fn is_held_by(job: &Job, holder: &str) -> Result<(), LedgerError> {
    if job.holder.as_deref() == Some(holder) {
        return Ok(());
    }
    Err(LedgerError::Held {
        job: job.id.clone(),
        holder: job.holder.clone().unwrap_or_else(|| "nobody".to_owned()),
    })
}

fn is_free(job: &Job, is_dead: impl FnOnce(&str) -> bool) -> Result<(), LedgerError> {
    match &job.holder {
        Some(holder) if !is_dead(holder) => Err(LedgerError::Held {
            job: job.id.clone(),
            holder: holder.clone(),
        }),
        _ => Ok(()),
    }
}

/// A job that nobody gave up and that has something left to do.
fn is_open(job: &Job) -> bool {
    !matches!(job.status(), JobStatus::Succeeded | JobStatus::Abandoned)
}

fn read(db: &Connection, id: &JobId) -> rusqlite::Result<Option<Job>> {
    let job = db
        .query_row(
            "SELECT kind, target, workspace, playbook, created_at, abandoned, holder, platform, spec FROM job WHERE id = ?1",
            params![id.0],
            |row| {
                Ok(Job {
                    id: id.clone(),
                    kind: row.get(0)?,
                    target: row.get(1)?,
                    workspace: row.get(2)?,
                    playbook: row.get(3)?,
                    created_at: row.get(4)?,
                    abandoned: row.get(5)?,
                    holder: row.get(6)?,
                    platform: row.get(7)?,
                    spec: row.get(8)?,
                    steps: Vec::new(),
                })
            },
        )
        .optional()?;
    let Some(mut job) = job else { return Ok(None) };
    let mut query = db.prepare(
        "SELECT name, looks, status, n_attempts, started_at, ended_at, outputs, error FROM step WHERE job = ?1 ORDER BY position",
    )?;
    let steps = query.query_map(params![id.0], |row| {
        let word: String = row.get(2)?;
        let status = StepStatus::parse(&word).ok_or_else(|| {
            let error = format!("`{word}` is no status of a step");
            rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, error.into())
        })?;
        Ok(Step {
            name: row.get(0)?,
            looks: row.get(1)?,
            status,
            n_attempts: row.get(3)?,
            started_at: row.get(4)?,
            ended_at: row.get(5)?,
            outputs: row.get(6)?,
            error: row.get(7)?,
        })
    })?;
    job.steps = steps.collect::<rusqlite::Result<_>>()?;
    Ok(Some(job))
}

fn write(change: &Transaction<'_>, job: &Job) -> rusqlite::Result<()> {
    change.execute(
        "UPDATE job SET abandoned = ?2, holder = ?3, is_open = ?4, spec = ?5 WHERE id = ?1",
        params![job.id.0, job.abandoned, job.holder, is_open(job), job.spec],
    )?;
    let mut put = change.prepare(
        "INSERT OR REPLACE INTO step (job, position, name, looks, status, n_attempts, started_at, ended_at, outputs, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for (position, step) in (0_i64..).zip(&job.steps) {
        put.execute(params![
            job.id.0,
            position,
            step.name,
            step.looks,
            step.status.as_str(),
            step.n_attempts,
            step.started_at,
            step.ended_at,
            step.outputs,
            step.error,
        ])?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
