//! A `talos` step: the machines of another step are upgraded, one at a time, by `talosctl`.

use std::collections::BTreeMap;
use std::path::Path;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{Expr, Located, Part, Platform, Reference, StepDef, TalosStep};
use serde_json::Value;
use talos::{Client, Given, Journal, Limits, Version, WalkError, Walked};

use crate::bench::Bench;
use crate::library::Source;
use crate::resolve;
use crate::standing::Standing;
use crate::talos_cluster::{Talosctl, TalosctlCluster};

/// The program, where `[tools]` names none.
const PROGRAM: &str = "talosctl";
/// What an upgrade is at, in the step's directory.
const JOURNAL: &str = "talos.json";

/// What a talos step works on.
struct Work<'b, 'm> {
    given: Given,
    cluster: TalosctlCluster<'b, 'm>,
}

impl<'m> Bench<'m> {
    /// Looks for `talosctl`, and whether it is of the version that `[tools]` demands.
    pub(crate) fn demand_talosctl(&self, platform: &Platform) -> Result<(), Failure> {
        let tool = platform.tools.get(PROGRAM);
        let argv = talosctl(platform);
        let cwd = self.workshop.tmp();
        let program = Talosctl::new(self, self.env.clone(), cwd, argv.clone());
        let said = program.read(&["version".into(), "--client".into()]).map_err(|why| {
            Failure::new(ExitCode::Unusable, format!("`{}` can't be used", argv[0]))
                .because(why)
                .hint("install talosctl, or name it in `[tools] talosctl = { command = […] }`; nothing was touched")
        })?;
        let Some(demanded) = tool.and_then(|tool| tool.version.as_ref()) else {
            return Ok(());
        };
        let fits = talos::client_version(&said).ok().and_then(|version| {
            semver::Version::parse(version.to_string().trim_start_matches('v')).ok()
        });
        match fits {
            Some(version) if demanded.matches(&version) => Ok(()),
            Some(version) => Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "`{}` is version {version}, and `[tools] talosctl` demands `{demanded}`",
                    argv[0]
                ),
            )
            .hint("install a version that fits; nothing was touched")),
            None => Err(Failure::new(
                ExitCode::Unusable,
                format!("`{} version --client` printed no version", argv[0]),
            )),
        }
    }

    /// Upgrades what does not run the version; says in a line what was done.
    pub(crate) fn upgrade_talos(
        &self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        talos: &TalosStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<String, Failure> {
        let Some(work) = self.talos_work(step, source, def, talos, standing, values, "apply")?
        else {
            return Ok("no machines yet".to_owned());
        };
        let walked = talos::walk(&work.given, &work.cluster);
        let Walked {
            upgraded,
            n_already,
        } = walked.map_err(|error| self.walk_failure(step, &error, &work))?;
        Ok(match upgraded.len() {
            0 => format!("{n_already} at {} already", work.given.wanted),
            n => format!("{n} upgraded to {}", work.given.wanted),
        })
    }

    /// Looks whether every machine runs the version; nothing is changed.
    pub(crate) fn verify_talos(
        &self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        talos: &TalosStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), Failure> {
        let Some(work) = self.talos_work(step, source, def, talos, standing, values, "verify")?
        else {
            return Ok(());
        };
        let wrong = talos::verify(&work.given, &work.cluster);
        if wrong.is_empty() {
            return Ok(());
        }
        let mut failure = Failure::failed(format!("verify of step `{step}` failed"));
        for what in wrong.into_iter().chain(work.cluster.last_words()) {
            failure = failure.because(self.masked(&what));
        }
        Err(failure.log(self.log(step, "verify")))
    }

    /// What a talos step works on; nothing where its machines are not made yet.
    #[expect(clippy::too_many_arguments, reason = "each is a fact of its own")]
    fn talos_work<'b>(
        &'b self,
        step: &StepId,
        source: &Source,
        def: &StepDef,
        talos: &TalosStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
        act: &str,
    ) -> Result<Option<Work<'b, 'm>>, Failure> {
        let made = standing.get(&talos.hosts);
        if made.as_ref().and_then(|entry| entry.as_applied()).is_none() && talos.is_before_hosts {
            return Ok(None);
        }
        let output = |name: &str| {
            Expr::Text(vec![Part::Reference(Located {
                reference: Reference::Output {
                    step: talos.hosts.clone(),
                    output: name.to_owned(),
                    path: Vec::new(),
                },
                span: None,
            })])
        };
        let hosts = output("hosts");
        let config = talos
            .talosconfig
            .clone()
            .unwrap_or_else(|| output("talosconfig"));
        let needed = [&hosts, &config].into_iter().chain(def.exprs());
        self.need_outputs(needed, standing)?;
        let scope = self.scope(values);
        let machines = talos::machines(&resolve::value(step, "`hosts`", &hosts, &scope)?.value)
            .map_err(|error| Failure::of(ExitCode::Failed, &error))?;
        if machines.is_empty() {
            return Ok(None);
        }
        let config = resolve::value(step, "`talosconfig`", &config, &scope)?;
        self.mask_value(&format!("{step}.talosconfig"), &config.value);
        let text = |expr: &Expr, what: &str| -> Result<String, Failure> {
            Ok(resolve::value(step, what, expr, &scope)?.into_text())
        };
        let wanted: Version = text(&talos.version, "`version`")?
            .parse()
            .map_err(|error| Failure::of(ExitCode::Failed, &error as &dyn std::error::Error))?;
        let image = match &talos.image {
            Some(image) => text(image, "`image`")?,
            None => wanted.installer(),
        };
        let dir = self.step_dir(step)?;
        self.place(&dir, tofu::Slot::Tree, source, &[])?;
        let tree = dir.tree(tofu::Slot::Tree);
        let n = self
            .n_files
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let talosconfig = self
            .memory
            .write(&format!("talosconfig-{n}"), config.into_text().as_bytes())
            .map_err(|error| Failure::of(ExitCode::Failed, &error))?;
        let env = self.env_of(&format!("step `{step}`"), &def.env, &scope)?;
        let journal = dir.path().join(JOURNAL);
        let given = Given {
            wanted,
            image: image.clone(),
            n_patches: talos.patches.len(),
            limits: Limits {
                node: talos.node_timeout,
                health: talos.health_timeout,
                every: talos.every,
            },
            journal: read_journal(&journal),
            machines: machines.clone(),
        };
        let program = Talosctl::new(self, env, tree.clone(), talosctl(&source.platform))
            .logging(self.log(step, act));
        let cluster = TalosctlCluster::new(
            program,
            Client::of(talosconfig, &machines),
            machines,
            image,
            given.limits,
            talos.patches.iter().map(|patch| tree.join(patch)).collect(),
        )
        .changing(step.clone(), dir, journal, def.timeout);
        Ok(Some(Work { given, cluster }))
    }

    fn walk_failure(&self, step: &StepId, error: &WalkError, work: &Work<'_, '_>) -> Failure {
        let log = self.log(step, "apply");
        if *error == WalkError::Stopped {
            return match work.cluster.over_time() {
                Some(limit) => Failure::failed(format!(
                    "step `{step}` did not end within its `timeout` of {} s",
                    limit.as_secs()
                )),
                None => Failure::new(
                    ExitCode::Interrupted,
                    format!("step `{step}` was interrupted; the next call goes on at the machine it was at"),
                ),
            }
            .log(log);
        }
        let mut failure = Failure::failed(format!("apply of step `{step}` failed"))
            .because(self.masked(&error.to_string()));
        if let WalkError::Failed { tail, n_left, .. } = error {
            if *n_left > 0 {
                failure = failure.because(format!(
                    "{n_left} more {} left as they were",
                    if *n_left == 1 {
                        "machine is"
                    } else {
                        "machines are"
                    }
                ));
            }
            if !tail.is_empty() {
                failure = failure.because(tail.join("\n"));
            }
        }
        for words in work.cluster.last_words() {
            failure = failure.because(words);
        }
        let target = self.target.name.as_str();
        failure.log(log).hint(crate::up::Walk::Up.ways_on(target))
    }
}

/// Program and first arguments of `talosctl`.
fn talosctl(platform: &Platform) -> Vec<String> {
    let named = platform
        .tools
        .get(PROGRAM)
        .and_then(|tool| tool.command.clone());
    named.unwrap_or_else(|| vec![PROGRAM.to_owned()])
}

/// What an earlier call was at. What can't be read says nothing: the machines themselves do.
fn read_journal(path: &Path) -> Option<Journal> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
