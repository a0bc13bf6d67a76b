//! Typed commands to arguments, without IO.

use std::ffi::OsString;
use std::path::PathBuf;

/// What kind of plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanMode {
    /// What the configuration asks for.
    #[default]
    Normal,
    /// The state is brought to the world; nothing else changes.
    RefreshOnly,
    /// Everything goes.
    Destroy,
}

/// Choices of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOptions {
    /// Whether the objects are read before planning.
    pub refresh: bool,
    /// Whether the state is locked.
    pub lock: bool,
    /// Addresses to replace.
    pub replace: Vec<String>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            refresh: true,
            lock: true,
            replace: Vec::new(),
        }
    }
}

/// One `tofu` command with its choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Init {
        upgrade: bool,
        read_only_lock_file: bool,
        backend: bool,
    },
    Validate,
    Plan {
        mode: PlanMode,
        options: PlanOptions,
        out: PathBuf,
    },
    Show {
        plan: PathBuf,
    },
    ApplySaved {
        plan: PathBuf,
    },
    ApplyDirect {
        destroy: bool,
        refresh: bool,
    },
    Output,
    StatePull,
    StatePush,
    Untaint {
        address: String,
    },
    Import {
        address: String,
        id: String,
    },
}

impl Command {
    /// The command's name, for logs and errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Init { .. } => "init",
            Self::Validate => "validate",
            Self::Plan { .. } => "plan",
            Self::Show { .. } => "show",
            Self::ApplyDirect { destroy: true, .. } => "destroy",
            Self::ApplySaved { .. } | Self::ApplyDirect { .. } => "apply",
            Self::Output => "output",
            Self::StatePull => "state pull",
            Self::StatePush => "state push",
            Self::Untaint { .. } => "untaint",
            Self::Import { .. } => "import",
        }
    }

    /// Whether it changes objects or the state: such a command outlives us.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self,
            Self::ApplySaved { .. }
                | Self::ApplyDirect { .. }
                | Self::StatePush
                | Self::Untaint { .. }
                | Self::Import { .. }
        )
    }

    /// Whether its output is the `-json` event stream.
    pub(crate) fn streams(&self) -> bool {
        matches!(
            self,
            Self::Init { .. }
                | Self::Plan { .. }
                | Self::ApplySaved { .. }
                | Self::ApplyDirect { .. }
                | Self::Import { .. }
        )
    }

    /// The arguments.
    pub(crate) fn arguments(
        &self,
        var_file: Option<&std::path::Path>,
        parallelism: Option<u16>,
    ) -> Vec<OsString> {
        let mut args = Arguments(Vec::new());
        match self {
            Self::Init {
                upgrade,
                read_only_lock_file,
                backend,
            } => {
                args.add(["init", "-json", "-no-color", "-input=false"]);
                args.when(*upgrade, "-upgrade");
                args.when(*read_only_lock_file, "-lockfile=readonly");
                args.when(!backend, "-backend=false");
                args.path("-var-file=", var_file);
            }
            Self::Validate => {
                args.add(["validate", "-json", "-no-color"]);
                args.path("-var-file=", var_file);
            }
            Self::Plan { mode, options, out } => {
                args.add([
                    "plan",
                    "-json",
                    "-no-color",
                    "-input=false",
                    "-lock-timeout=0s",
                ]);
                match mode {
                    PlanMode::Normal => {}
                    PlanMode::RefreshOnly => args.add(["-refresh-only"]),
                    PlanMode::Destroy => args.add(["-destroy"]),
                }
                args.when(!options.refresh, "-refresh=false");
                args.when(!options.lock, "-lock=false");
                for address in &options.replace {
                    args.0.push(format!("-replace={address}").into());
                }
                args.path("-out=", Some(out));
                args.path("-var-file=", var_file);
                args.parallelism(parallelism);
            }
            Self::Show { plan } => {
                args.add(["show", "-json", "-no-color"]);
                args.path("-var-file=", var_file);
                args.0.push(plan.into());
            }
            Self::ApplySaved { plan } => {
                args.add([
                    "apply",
                    "-json",
                    "-no-color",
                    "-input=false",
                    "-auto-approve",
                    "-lock-timeout=0s",
                ]);
                args.path("-var-file=", var_file);
                args.parallelism(parallelism);
                args.0.push(plan.into());
            }
            Self::ApplyDirect { destroy, refresh } => {
                args.add([
                    "apply",
                    "-json",
                    "-no-color",
                    "-input=false",
                    "-auto-approve",
                    "-lock-timeout=0s",
                ]);
                args.when(*destroy, "-destroy");
                args.when(!refresh, "-refresh=false");
                args.path("-var-file=", var_file);
                args.parallelism(parallelism);
            }
            Self::Output => {
                args.add(["output", "-json", "-no-color"]);
                args.path("-var-file=", var_file);
            }
            Self::StatePull => {
                args.add(["state", "pull"]);
                args.path("-var-file=", var_file);
            }
            Self::StatePush => {
                args.add(["state", "push", "-lock-timeout=0s"]);
                args.path("-var-file=", var_file);
                args.add(["-"]);
            }
            Self::Untaint { address } => {
                args.add(["untaint", "-no-color", "-lock-timeout=0s"]);
                args.path("-var-file=", var_file);
                args.0.push(address.into());
            }
            Self::Import { address, id } => {
                args.add([
                    "import",
                    "-json",
                    "-no-color",
                    "-input=false",
                    "-lock-timeout=0s",
                ]);
                args.path("-var-file=", var_file);
                args.parallelism(parallelism);
                // What follows the first word that is no option is none either, whatever it begins with.
                args.0.push(address.into());
                args.0.push(id.into());
            }
        }
        args.0
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn when(&mut self, yes: bool, word: &str) {
        if yes {
            self.0.push(word.into());
        }
    }

    fn path(&mut self, option: &str, path: Option<&std::path::Path>) {
        if let Some(path) = path {
            let mut word = OsString::from(option);
            word.push(path);
            self.0.push(word);
        }
    }

    fn parallelism(&mut self, n: Option<u16>) {
        if let Some(n) = n {
            self.0.push(format!("-parallelism={n}").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[track_caller]
    fn check(command: &Command, var_file: bool, parallelism: Option<u16>, expect: &str) {
        let words = command.arguments(var_file.then_some(Path::new("/m/v.json")), parallelism);
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn init_at_defaults_and_with_everything() {
        check(
            &Command::Init {
                upgrade: false,
                read_only_lock_file: false,
                backend: true,
            },
            false,
            None,
            "init -json -no-color -input=false",
        );
        check(
            &Command::Init {
                upgrade: true,
                read_only_lock_file: true,
                backend: false,
            },
            true,
            Some(3),
            "init -json -no-color -input=false -upgrade -lockfile=readonly -backend=false -var-file=/m/v.json",
        );
    }

    #[test]
    fn plan_at_defaults_and_with_everything() {
        let out = PathBuf::from("/m/plan");
        check(
            &Command::Plan {
                mode: PlanMode::Normal,
                options: PlanOptions::default(),
                out: out.clone(),
            },
            false,
            None,
            "plan -json -no-color -input=false -lock-timeout=0s -out=/m/plan",
        );
        check(
            &Command::Plan {
                mode: PlanMode::RefreshOnly,
                options: PlanOptions {
                    refresh: false,
                    lock: false,
                    replace: vec!["a.b[\"x y\"]".into(), "c.d".into()],
                },
                out: out.clone(),
            },
            true,
            Some(1),
            "plan -json -no-color -input=false -lock-timeout=0s -refresh-only -refresh=false -lock=false -replace=a.b[\"x y\"] -replace=c.d -out=/m/plan -var-file=/m/v.json -parallelism=1",
        );
        check(
            &Command::Plan {
                mode: PlanMode::Destroy,
                options: PlanOptions::default(),
                out,
            },
            true,
            None,
            "plan -json -no-color -input=false -lock-timeout=0s -destroy -out=/m/plan -var-file=/m/v.json",
        );
    }

    #[test]
    fn apply_at_defaults_and_with_everything() {
        check(
            &Command::ApplySaved {
                plan: "/m/plan".into(),
            },
            false,
            None,
            "apply -json -no-color -input=false -auto-approve -lock-timeout=0s /m/plan",
        );
        check(
            &Command::ApplySaved {
                plan: "/m/plan".into(),
            },
            true,
            Some(2),
            "apply -json -no-color -input=false -auto-approve -lock-timeout=0s -var-file=/m/v.json -parallelism=2 /m/plan",
        );
        check(
            &Command::ApplyDirect {
                destroy: false,
                refresh: true,
            },
            false,
            None,
            "apply -json -no-color -input=false -auto-approve -lock-timeout=0s",
        );
        check(
            &Command::ApplyDirect {
                destroy: true,
                refresh: false,
            },
            true,
            Some(1),
            "apply -json -no-color -input=false -auto-approve -lock-timeout=0s -destroy -refresh=false -var-file=/m/v.json -parallelism=1",
        );
    }

    #[test]
    fn the_others() {
        check(&Command::Validate, false, None, "validate -json -no-color");
        check(
            &Command::Show {
                plan: "/m/p".into(),
            },
            true,
            None,
            "show -json -no-color -var-file=/m/v.json /m/p",
        );
        check(&Command::Output, false, None, "output -json -no-color");
        check(&Command::StatePull, false, None, "state pull");
        check(
            &Command::StatePush,
            true,
            None,
            "state push -lock-timeout=0s -var-file=/m/v.json -",
        );
        check(
            &Command::Untaint {
                address: "a.b".into(),
            },
            false,
            None,
            "untaint -no-color -lock-timeout=0s a.b",
        );
        check(
            &Command::Import {
                address: "a.b[\"x=y\"]".into(),
                id: "-1".into(),
            },
            true,
            Some(2),
            "import -json -no-color -input=false -lock-timeout=0s -var-file=/m/v.json -parallelism=2 a.b[\"x=y\"] -1",
        );
    }

    #[test]
    fn only_what_changes_something_outlives_us() {
        let changes = [
            Command::ApplySaved { plan: "p".into() },
            Command::ApplyDirect {
                destroy: true,
                refresh: true,
            },
            Command::StatePush,
            Command::Untaint {
                address: "a".into(),
            },
            Command::Import {
                address: "a".into(),
                id: "i".into(),
            },
        ];
        assert!(changes.iter().all(Command::changes));
        let reads = [
            Command::Init {
                upgrade: true,
                read_only_lock_file: false,
                backend: true,
            },
            Command::Validate,
            Command::Plan {
                mode: PlanMode::Normal,
                options: PlanOptions::default(),
                out: "p".into(),
            },
            Command::Show { plan: "p".into() },
            Command::Output,
            Command::StatePull,
        ];
        assert!(!reads.iter().any(Command::changes));
    }
}
