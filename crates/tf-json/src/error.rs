//! Why a document can't be built, or read back.

/// Why a document can't be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// OpenTofu takes letters, digits, `_` and `-`, not beginning with a digit or `-`.
    #[error("`{name}` is no legal name in OpenTofu")]
    IllegalName {
        /// What was given.
        name: String,
    },
    /// Two things of one document have the same address.
    #[error("`{address}` is defined twice")]
    Twice {
        /// The address.
        address: String,
    },
    /// A meta-argument was set as if it were an argument.
    #[error("`{name}` in `{address}` is a meta-argument and is set apart")]
    Reserved {
        /// The address of the block.
        address: String,
        /// The argument.
        name: String,
    },
    /// A text that is no whole expression or reference.
    #[error("`{text}` is no expression: {reason}")]
    NoExpression {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Why a document can't be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no JSON.
    #[error("the document is no JSON")]
    Json(#[source] serde_json::Error),
    /// Something has another form than OpenTofu's JSON syntax gives it.
    #[error("`{path}`: {message}")]
    Form {
        /// Where in the document.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// A name, an expression or an address in it is not legal.
    #[error("`{path}` is not legal")]
    Build {
        /// Where in the document.
        path: String,
        /// Why.
        #[source]
        source: BuildError,
    },
}

impl ReadError {
    pub(crate) fn form(path: &str, message: impl Into<String>) -> Self {
        Self::Form {
            path: path.to_owned(),
            message: message.into(),
        }
    }
}
