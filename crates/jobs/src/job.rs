//! One job: its steps, what may happen to them, and what is left to do.

use std::fmt;

/// A job's id: the caller's to choose, so that ids sort by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub String);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Begun. Where nobody holds the job any more, it was cut.
    Started,
    /// Ended well.
    Succeeded,
    /// Ended in an error.
    Failed,
    /// Stopped by a signal.
    Interrupted,
}

impl StepStatus {
    /// Each status with the word for it in the file and on the screen.
    const WORDS: [(Self, &str); 5] = [
        (Self::Pending, "pending"),
        (Self::Started, "started"),
        (Self::Succeeded, "succeeded"),
        (Self::Failed, "failed"),
        (Self::Interrupted, "interrupted"),
    ];

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(status, _)| *status == self);
        found.map_or("", |(_, word)| word)
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(_, known)| *known == word)?;
        Some(found.0)
    }
}

/// One step of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its name, unlike any other of its job.
    pub name: String,
    /// Whether it only looks, and is done again before what comes after it.
    pub looks: bool,
    /// How far it is.
    pub status: StepStatus,
    /// How often it was begun.
    pub n_attempts: u32,
    /// When it was begun last.
    pub started_at: Option<String>,
    /// When it ended last.
    pub ended_at: Option<String>,
    /// What it left for those after it, as JSON. Never anything sensitive.
    pub outputs: Option<String>,
    /// What it failed with.
    pub error: Option<String>,
}

/// How a job is, by its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Nothing begun.
    Pending,
    /// A step has begun and not ended.
    Started,
    /// Between two steps.
    Paused,
    /// A step failed.
    Failed,
    /// A step was interrupted.
    Interrupted,
    /// Every step ended well.
    Succeeded,
    /// Given up by a person.
    Abandoned,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What kind of handoff: `provision`, `bootstrap`.
    pub kind: String,
    /// The platform.
    pub platform: String,
    /// The target.
    pub target: String,
    /// The workspace.
    pub workspace: String,
    /// The playbook.
    pub playbook: String,
    /// What whoever goes on with it needs to know besides, as the caller wrote it. Never anything sensitive.
    pub spec: String,
    /// When it was made.
    pub created_at: String,
    /// When and why a person gave it up.
    pub abandoned: Option<String>,
    /// Who runs it, as the caller names processes.
    pub holder: Option<String>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// What is to be done with a step now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It ended well.
    Skip,
    /// It ended well, and is looked at again: what it saw may have changed.
    LookAgain,
    /// It is to be done.
    Do,
    /// It was begun and cut: what it left behind is to be looked at, then it is done.
    DoAfterCut,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Well.
    Succeeded {
        /// What it left for those after it, as JSON.
        outputs: Option<String>,
    },
    /// In an error.
    Failed {
        /// What it said.
        error: String,
    },
    /// By a signal.
    Interrupted,
}

/// Something that may not happen to a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// It has no such step.
    #[error("job `{job}` has no step `{step}`; it has {}", steps.join(", "))]
    NoSuchStep {
        /// The job.
        job: JobId,
        /// The name that was asked for.
        step: String,
        /// The names that it has.
        steps: Vec<String>,
    },
    /// Another step comes first.
    #[error("step `{step}` of job `{job}` can't begin before `{first}` has ended well")]
    TooEarly {
        /// The job.
        job: JobId,
        /// The step.
        step: String,
        /// The one before it.
        first: String,
    },
    /// It ended well already.
    #[error("step `{step}` of job `{job}` has ended well and is not done again")]
    Done {
        /// The job.
        job: JobId,
        /// The step.
        step: String,
    },
    /// It was not begun.
    #[error("step `{step}` of job `{job}` ends and was not begun")]
    NotBegun {
        /// The job.
        job: JobId,
        /// The step.
        step: String,
    },
    /// Nothing is left to do.
    #[error("every step of job `{job}` has ended well; name the step to begin from")]
    NothingLeft {
        /// The job.
        job: JobId,
    },
    /// A person gave it up.
    #[error("job `{job}` was given up: {reason}")]
    Abandoned {
        /// The job.
        job: JobId,
        /// When and why.
        reason: String,
    },
}

impl Job {
    /// How it is.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        let has = |status| self.steps.iter().any(|step| step.status == status);
        let all = |status| self.steps.iter().all(|step| step.status == status);
        if self.abandoned.is_some() {
            JobStatus::Abandoned
        } else if all(StepStatus::Succeeded) {
            JobStatus::Succeeded
        } else if has(StepStatus::Started) {
            JobStatus::Started
        } else if has(StepStatus::Failed) {
            JobStatus::Failed
        } else if has(StepStatus::Interrupted) {
            JobStatus::Interrupted
        } else if all(StepStatus::Pending) {
            JobStatus::Pending
        } else {
            JobStatus::Paused
        }
    }

    /// The step at which it goes on: the first that has not ended well.
    #[must_use]
    pub fn resume_point(&self) -> Option<&Step> {
        self.steps
            .iter()
            .find(|step| step.status != StepStatus::Succeeded)
    }

    /// What is to be done now, step by step.
    #[must_use]
    pub fn plan(&self) -> Vec<(&Step, Act)> {
        let is_over = self.resume_point().is_none();
        let act = |step: &Step| match step.status {
            StepStatus::Succeeded if step.looks && !is_over => Act::LookAgain,
            StepStatus::Succeeded => Act::Skip,
            StepStatus::Started => Act::DoAfterCut,
            StepStatus::Pending | StepStatus::Failed | StepStatus::Interrupted => Act::Do,
        };
        self.steps.iter().map(|step| (step, act(step))).collect()
    }

    /// Begins a step: the one at which the job goes on.
    ///
    /// # Errors
    /// When another comes first, when it has ended well, or when the job was given up.
    pub fn begin(&mut self, name: &str, now: &str) -> Result<(), TransitionError> {
        self.is_not_abandoned()?;
        let at = self.position(name)?;
        if self.steps[at].status == StepStatus::Succeeded {
            return Err(TransitionError::Done {
                job: self.id.clone(),
                step: name.to_owned(),
            });
        }
        let before = self.steps[..at]
            .iter()
            .find(|step| step.status != StepStatus::Succeeded);
        if let Some(first) = before {
            return Err(TransitionError::TooEarly {
                job: self.id.clone(),
                step: name.to_owned(),
                first: first.name.clone(),
            });
        }
        let step = &mut self.steps[at];
        step.status = StepStatus::Started;
        step.n_attempts = step.n_attempts.saturating_add(1);
        step.started_at = Some(now.to_owned());
        step.ended_at = None;
        step.error = None;
        step.outputs = None;
        Ok(())
    }

    /// Ends a step that was begun.
    ///
    /// # Errors
    /// When it was not.
    pub fn end(&mut self, name: &str, end: End, now: &str) -> Result<(), TransitionError> {
        let at = self.position(name)?;
        let step = &mut self.steps[at];
        if step.status != StepStatus::Started {
            return Err(TransitionError::NotBegun {
                job: self.id.clone(),
                step: name.to_owned(),
            });
        }
        step.ended_at = Some(now.to_owned());
        match end {
            End::Succeeded { outputs } => {
                step.status = StepStatus::Succeeded;
                step.outputs = outputs;
            }
            End::Failed { error } => {
                step.status = StepStatus::Failed;
                step.error = Some(error);
            }
            End::Interrupted => step.status = StepStatus::Interrupted,
        }
        Ok(())
    }

    /// Makes it go on from a step, which and all after it are done again; without a name, from where it stopped.
    ///
    /// # Errors
    /// When a step before it has not ended well, when nothing is left and no step is named, or when the job
    /// was given up.
    pub fn redrive(&mut self, from: Option<&str>) -> Result<(), TransitionError> {
        self.is_not_abandoned()?;
        let stopped_at = self
            .steps
            .iter()
            .position(|step| step.status != StepStatus::Succeeded);
        let at = match (from, stopped_at) {
            (Some(name), stopped_at) => {
                let at = self.position(name)?;
                if let Some(first) = stopped_at.filter(|first| *first < at) {
                    return Err(TransitionError::TooEarly {
                        job: self.id.clone(),
                        step: name.to_owned(),
                        first: self.steps[first].name.clone(),
                    });
                }
                at
            }
            (None, Some(at)) => at,
            (None, None) => {
                return Err(TransitionError::NothingLeft {
                    job: self.id.clone(),
                });
            }
        };
        for step in &mut self.steps[at..] {
            // What was cut stays known as such: somebody has to look at what it left behind.
            if step.status != StepStatus::Started {
                step.status = StepStatus::Pending;
            }
        }
        Ok(())
    }

    fn is_not_abandoned(&self) -> Result<(), TransitionError> {
        match &self.abandoned {
            Some(reason) => Err(TransitionError::Abandoned {
                job: self.id.clone(),
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    fn position(&self, name: &str) -> Result<usize, TransitionError> {
        let found = self.steps.iter().position(|step| step.name == name);
        found.ok_or_else(|| TransitionError::NoSuchStep {
            job: self.id.clone(),
            step: name.to_owned(),
            steps: self
                .steps
                .iter()
                .map(|step| format!("`{}`", step.name))
                .collect(),
        })
    }
}
