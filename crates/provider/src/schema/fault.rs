//! What is wrong with a document, and where.

use std::fmt;

/// A fault of a document against the schema of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFault {
    /// Where, such as `resource.oci_core_instance.workers.shape_config[0].ocpu`.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
    /// The right name that is nearest to the one that is written.
    pub nearest: Option<String>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No schema is known for the provider.
    UnknownProvider {
        /// Its local name.
        provider: String,
    },
    /// The provider has no such resource or data source, as far as its schema is known here.
    UnknownKind {
        /// The provider and its version.
        provider: String,
    },
    /// The pinned version has it not; another version has.
    NotInVersion {
        /// The pinned version.
        pinned: String,
        /// The version that has it.
        known_in: String,
    },
    /// There is no such argument or nested block.
    UnknownArgument,
    /// An argument that must be set is not.
    MissingRequired {
        /// Its name.
        name: String,
    },
    /// A value of another type belongs here.
    WrongType {
        /// What belongs here.
        expected: String,
        /// What is here.
        found: &'static str,
    },
    /// A nested block belongs here.
    BlockExpected,
    /// An argument belongs here, not a nested block.
    ArgumentExpected,
    /// There are too many of these blocks.
    TooManyBlocks {
        /// How many there are.
        n: u64,
        /// How many there may be.
        most: u64,
    },
    /// There are too few of these blocks.
    TooFewBlocks {
        /// The name of the block.
        name: String,
        /// How many there must be.
        least: u64,
    },
    /// Only the provider sets it.
    ReadOnly,
    /// It goes away.
    Deprecated,
    /// A secret is written out.
    SecretWrittenOut,
}

impl SchemaFault {
    pub(crate) fn new(path: &str, problem: Problem) -> Self {
        Self {
            path: path.to_owned(),
            problem,
            nearest: None,
        }
    }

    /// Returns whether OpenTofu would take the document all the same.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(self.problem, Problem::Deprecated)
    }
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.path)?;
        match &self.problem {
            Problem::UnknownProvider { provider } => {
                write!(f, "no schema is known for the provider `{provider}`")?;
            }
            Problem::UnknownKind { provider } => write!(f, "{provider} has no such thing")?,
            Problem::NotInVersion { pinned, known_in } => write!(
                f,
                "the pinned version {pinned} does not have it; version {known_in} does"
            )?,
            Problem::UnknownArgument => f.write_str("there is no such argument")?,
            Problem::MissingRequired { name } => write!(f, "`{name}` must be set")?,
            Problem::WrongType { expected, found } => {
                write!(f, "{expected} belongs here, and this is {found}")?;
            }
            Problem::BlockExpected => f.write_str("a nested block belongs here")?,
            Problem::ArgumentExpected => f.write_str("it is an argument, not a nested block")?,
            Problem::TooManyBlocks { n, most } => {
                write!(f, "there are {n} of these blocks; {most} is the most")?;
            }
            Problem::TooFewBlocks { name, least } => {
                write!(f, "there must be {least} or more of the block `{name}`")?;
            }
            Problem::ReadOnly => f.write_str("only the provider sets it")?,
            Problem::Deprecated => f.write_str("it goes away with a later version")?,
            Problem::SecretWrittenOut => {
                f.write_str("it is a secret and is written out; take it from a variable")?;
            }
        }
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}
