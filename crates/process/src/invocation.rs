//! What to run: a program, its arguments, its directory, its whole environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// One call of a program; nothing is inherited unless it is named here.
#[derive(Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program: a path, or a bare name that is looked up in this invocation's own `PATH`.
    pub program: PathBuf,
    /// Its arguments, without the program's name. Never a secret: everyone can read them.
    pub args: Vec<OsString>,
    /// The directory that it runs in.
    pub cwd: PathBuf,
    /// Its environment, exactly: nothing is added to it.
    pub env: BTreeMap<OsString, OsString>,
    /// What it reads on stdin; `None` is an empty stdin.
    pub stdin: Option<Vec<u8>>,
}

impl Invocation {
    /// Names a program and its directory, with no arguments, no environment and an empty stdin.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            stdin: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets variables of the environment.
    #[must_use]
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.env
            .extend(variables.into_iter().map(|(n, v)| (n.into(), v.into())));
        self
    }

    /// The program's name and its first argument, for points at which a test may hurt.
    #[must_use]
    pub fn brief(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        let mut text = name.to_string_lossy().into_owned();
        if let Some(first) = self.args.first() {
            text.push(' ');
            text.push_str(&first.to_string_lossy());
        }
        fault::steady(&text)
    }

    /// Sets what the program reads on stdin.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }
}

/// Shows the names of variables and the size of stdin, never their values: those may be secret.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("stdin_bytes", &self.stdin.as_ref().map(Vec::len))
            .finish()
    }
}
