//! Programs that answer as they were told.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::world::write_file;

/// What a fake exits with when it gets a call that nobody told it about.
pub const UNSCRIPTED: i32 = 97;

/// A shell script in a world's `bin` that answers scripted calls and writes down every call that it gets.
#[derive(Debug)]
pub struct FakeProgram {
    path: PathBuf,
    log: PathBuf,
    answers: Vec<(Vec<String>, String)>,
}

impl FakeProgram {
    pub(crate) fn new(bin: &Path, name: &str) -> Self {
        let fake = Self {
            path: bin.join(name),
            log: bin.join(format!(".{name}.calls")),
            answers: Vec::new(),
        };
        fake.write();
        fake
    }

    /// Answers calls whose arguments begin with `args`: prints `stdout` and exits. The first match counts.
    #[must_use]
    pub fn answers(self, args: &[&str], stdout: &str, code: i32) -> Self {
        let n = self.answers.len();
        let file = self.path.with_file_name(format!(
            ".{}.answer-{n}",
            self.path.file_name().unwrap_or_default().to_string_lossy()
        ));
        write_file(&file, stdout);
        self.runs(
            args,
            &format!("cat {}; exit {code}", quote(&file.to_string_lossy())),
        )
    }

    /// Runs a piece of shell for calls whose arguments begin with `args`. The first match counts.
    #[must_use]
    pub fn runs(mut self, args: &[&str], shell: &str) -> Self {
        self.answers.push((
            args.iter().map(|&arg| arg.to_owned()).collect(),
            shell.to_owned(),
        ));
        self.write();
        self
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The arguments of each call so far, in order.
    ///
    /// # Panics
    /// When the log is there and can't be read.
    #[must_use]
    pub fn calls(&self) -> Vec<Vec<String>> {
        if !self.log.exists() {
            return Vec::new();
        }
        let text = std::fs::read_to_string(&self.log).expect("a readable log of calls");
        text.split_terminator("\x01\n")
            .map(|call| call.split_terminator('\0').map(str::to_owned).collect())
            .collect()
    }

    fn write(&self) {
        let mut script = String::from("#!/bin/sh\n");
        // One write, so that calls in parallel do not mix.
        script.push_str(&format!(
            "{{ [ $# -eq 0 ] || printf '%s\\0' \"$@\"; printf '\\001\\n'; }} >> {}\n",
            quote(&self.log.to_string_lossy())
        ));
        for (args, shell) in &self.answers {
            let tests: Vec<_> = args
                .iter()
                .enumerate()
                .map(|(i, arg)| format!(" && [ \"${{{}}}\" = {} ]", i + 1, quote(arg)))
                .collect();
            script.push_str(&format!(
                "if [ $# -ge {} ]{}; then\n{shell}\nexit\nfi\n",
                args.len(),
                tests.concat()
            ));
        }
        script.push_str(&format!(
            "echo \"unscripted call: $0 $*\" >&2\nexit {UNSCRIPTED}\n"
        ));
        write_file(&self.path, &script);
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o755))
            .expect("an executable fake");
    }
}

pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    #[test]
    fn a_fake_answers_what_it_was_told_and_logs_every_call() {
        let world = World::new();
        let fake = world
            .fake_program("tool")
            .answers(&["plan", "it's"], "50% done\n", 2)
            .runs(&["sleep"], "echo slept");
        let said = world
            .command(fake.path())
            .args(["plan", "it's", "a\nb"])
            .run();
        assert_eq!((said.code(), &*said.stdout), (Some(2), "50% done\n"));
        world.command(fake.path()).arg("sleep").run().expect_code(0);
        let refused = world.command(fake.path()).run();
        assert_eq!(refused.code(), Some(UNSCRIPTED));
        assert!(refused.stderr.contains("unscripted call"));
        assert_eq!(
            fake.calls(),
            [vec!["plan", "it's", "a\nb"], vec!["sleep"], vec![]]
        );
    }
}
