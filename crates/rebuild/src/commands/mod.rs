//! One command line, carried out: each command ends with something to tell, and one function tells it.

pub(crate) mod backend;
mod calls;
mod handoffs;
pub(crate) mod init;
pub(crate) mod providers;
mod sealed;
pub(crate) mod served;
mod state_source;
mod telling;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use phase_engine::ExitCode;
use run::RekeyOptions;
use run::api::{
    CheckOptions, DiscoverOptions, DownOptions, Machine, MendOptions, MigrateOptions,
    PreflightOptions, RenderOptions, Site, SuspectsOptions, UpOptions,
};
use run::stop::StopRequests;
use run::ui::Ui;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{
    self, BackendCommand, Cli, Command, Output, RunsCommand, StateCommand, StoreCommand,
};
use crate::failure::Failure;
use crate::signals;
use crate::stream::{self, Look, Terminals};
use crate::ui::{Human, Ndjson, Operator, Questions, Teller, Verbosity};

/// How a command ended, ready to be told in any format.
#[derive(Debug)]
pub(crate) struct Told {
    /// The document that `--output json` prints; without one, the failure is the document.
    pub(crate) document: Option<Value>,
    /// What people read on standard output.
    pub(crate) text: String,
    /// What went wrong.
    pub(crate) failure: Option<Failure>,
    /// The exit code.
    pub(crate) exit: ExitCode,
}

impl Told {
    /// A command that did what it was asked for.
    pub(crate) fn done(document: Value, text: String) -> Self {
        Self {
            document: Some(document),
            text,
            failure: None,
            exit: ExitCode::Done,
        }
    }

    /// A command that went on for as long as it was wanted, and told everything meanwhile.
    pub(crate) fn told_already() -> Self {
        Self::done(Value::Null, String::new())
    }

    /// A command that has nothing to tell but why it failed.
    pub(crate) fn failed(failure: Failure) -> Self {
        let exit = failure.exit;
        Self {
            document: None,
            text: String::new(),
            failure: Some(failure),
            exit,
        }
    }

    /// Writes it to the two streams.
    pub(crate) fn tell(&self, output: Output, err: Look) {
        self.tell_document(output);
        if let Some(failure) = &self.failure {
            stream::err(&failure.render(err));
        }
    }

    /// Writes what goes to standard output alone.
    pub(crate) fn tell_document(&self, output: Output) {
        if self.document == Some(Value::Null) {
            return;
        }
        let text = match output {
            Output::Human => self.text.clone(),
            Output::Json => format!("{:#}\n", self.document()),
            Output::Ndjson => format!("{}\n", self.last_event()),
        };
        if !text.is_empty() {
            stream::out(&text);
        }
    }

    fn document(&self) -> Value {
        match (&self.document, &self.failure) {
            (Some(document), _) => document.clone(),
            (None, Some(failure)) => telling::document(&Failed {
                schema: 1,
                error: failure.clone(),
            }),
            (None, None) => json!({ "schema": 1 }),
        }
    }

    /// The event that ends a stream of events.
    fn last_event(&self) -> Value {
        telling::document(&LastEvent::Ended {
            schema: 1,
            exit: self.exit.code(),
            document: self.document.clone(),
            error: self.failure.clone(),
        })
    }
}

/// The document of a command that has nothing to show but why it failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Failed {
    /// The version of this format.
    pub(crate) schema: u32,
    /// Why.
    pub(crate) error: Failure,
}

/// The event that ends a stream of events.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum LastEvent {
    /// The command has ended.
    Ended {
        /// The version of this format.
        schema: u32,
        /// What the process ends with.
        exit: u8,
        /// What `--output json` would have printed.
        #[serde(skip_serializing_if = "Option::is_none")]
        document: Option<Value>,
        /// Why it did not end well.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
}

/// Whom a command may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// A person, where there is one.
    People,
    /// Nobody.
    Nothing,
    /// Nobody, and the preflight report is the command's result.
    NothingForPreflight,
}

/// What every command needs.
pub(crate) struct Context {
    pub(crate) machine: Machine,
    pub(crate) output: Output,
    pub(crate) platform: Option<PathBuf>,
    pub(crate) verbosity: Verbosity,
    pub(crate) out: Look,
    pub(crate) err: Look,
    pub(crate) terminals: Terminals,
    pub(crate) is_ci: bool,
}

impl Context {
    pub(super) fn site(&self, target: &args::Target) -> Site {
        Site {
            platform: self.platform.clone(),
            target: target.target.clone(),
        }
    }

    /// Runs something that tells as it goes on, may ask, and obeys signals.
    fn operated(
        &self,
        grace: Option<Duration>,
        asks: Asks,
        work: impl FnOnce(&Arc<StopRequests>, &Arc<dyn Ui>) -> Told,
    ) -> Told {
        let stop = Arc::new(StopRequests::new(grace));
        let teller = self.teller(asks);
        let says = Arc::clone(&teller);
        let listening = signals::listen(Arc::clone(&stop), move |level| {
            if let Some(sentence) = signals::sentence(level) {
                says.say(&format!("{sentence}\n"));
            }
        });
        if let Err(error) = listening {
            let mut failure = Failure::new(
                ExitCode::Failed,
                "cannot take signals, so nothing was begun",
            );
            failure.causes.push(error.to_string());
            return Told::failed(failure);
        }
        let told = work(&stop, &self.operator(&teller, &stop, asks));
        teller.end();
        told
    }

    fn operator(
        &self,
        teller: &Arc<dyn Teller>,
        stop: &Arc<StopRequests>,
        asks: Asks,
    ) -> Arc<dyn Ui> {
        Arc::new(Operator {
            teller: Arc::clone(teller),
            questions: self.questions(stop, asks),
        })
    }

    fn questions(&self, stop: &Arc<StopRequests>, asks: Asks) -> Questions {
        let allowed =
            self.terminals.stdin && self.terminals.stderr && !self.is_ci && asks == Asks::People;
        Questions {
            allowed,
            stop: Arc::clone(stop),
            look: self.err,
        }
    }

    /// Runs something that tells as it goes on, asks nothing, and that a signal may simply end.
    fn told_about(&self, work: impl FnOnce(&Arc<dyn Ui>) -> Told) -> Told {
        let teller = self.teller(Asks::Nothing);
        let nobody = Arc::new(StopRequests::new(None));
        let told = work(&self.operator(&teller, &nobody, Asks::Nothing));
        teller.end();
        told
    }

    fn teller(&self, asks: Asks) -> Arc<dyn Teller> {
        // The document of `--output json` comes at the end; what happens meanwhile is told all the same.
        if self.output == Output::Ndjson {
            return Arc::new(Ndjson::default());
        }
        let moves = self.terminals.stderr && !self.is_ci;
        Arc::new(Human::new(
            self.err,
            self.verbosity,
            moves,
            asks == Asks::NothingForPreflight,
        ))
    }
}

/// Carries out a command.
pub(crate) fn run(context: &Context, cli: Cli) -> Told {
    match cli.command {
        Command::Init(init) => init::run(&context.machine.cwd, &init.dir),
        Command::Up(up) => run_up(context, up),
        Command::Down(down) => run_down(context, down),
        Command::Preflight(preflight) => {
            let site = context.site(&preflight.target);
            let options = PreflightOptions {
                first_build: preflight.first_build,
                jobs: jobs(preflight.jobs),
                prune: preflight.prune.map(Into::into),
                without_drill: preflight.without_drill.is_some(),
            };
            context.operated(
                preflight.stop.grace,
                Asks::NothingForPreflight,
                |stop, ui| calls::preflight(context, &site, &options, stop, ui),
            )
        }
        Command::Plan(plan) => {
            let site = context.site(&plan.target);
            let detailed = plan.detailed_exitcode;
            context.operated(plan.stop.grace, Asks::Nothing, |stop, ui| {
                calls::plan(context, &site, detailed, stop, ui)
            })
        }
        Command::Check(check) => {
            let options = CheckOptions {
                fix: check.fix,
                require_tflint: check.require_tflint,
            };
            context.operated(None, Asks::Nothing, |stop, ui| {
                calls::check(context, &options, stop, ui)
            })
        }
        Command::Status(status) => calls::status(context, &context.site(&status.target)),
        Command::Explain(explain) => calls::explain(context, &context.site(&explain.target)),
        Command::Runs(runs) => match runs.command {
            RunsCommand::List(target) => calls::runs_list(context, &context.site(&target)),
            RunsCommand::Show(show) => {
                calls::runs_show(context, &context.site(&show.target), &show.id)
            }
        },
        Command::Suspects(suspects) => {
            let site = context.site(&suspects.target);
            let options = SuspectsOptions {
                imports: suspects.import,
                gone: suspects.gone,
                lost_host: suspects.lost_host,
                workspace: suspects.workspace,
            };
            context.operated(suspects.stop.grace, Asks::Nothing, |stop, ui| {
                calls::suspects(context, &site, &options, stop, ui)
            })
        }
        Command::Repair(repair) => {
            let site = context.site(&repair.target);
            let options = MendOptions {
                phase: repair.phase,
                allow_destroy: repair.allow_destroy,
                replace: repair.replace,
                keep: repair.keep,
                reason: None,
            };
            context.operated(repair.stop.grace, Asks::People, |stop, ui| {
                calls::repair(context, &site, &options, stop, ui)
            })
        }
        Command::Accept(accept) => {
            let site = context.site(&accept.target);
            let options = MendOptions {
                phase: accept.phase,
                allow_destroy: accept.allow_destroy,
                reason: Some(accept.reason),
                ..MendOptions::default()
            };
            context.operated(accept.stop.grace, Asks::People, |stop, ui| {
                calls::accept(context, &site, &options, stop, ui)
            })
        }
        Command::State(state) => match state.command {
            StateCommand::Migrate(migrate) => {
                let site = context.site(&migrate.target);
                let options = MigrateOptions {
                    step: migrate.step,
                    back: migrate.back,
                    workspace: migrate.workspace,
                    backend_config: migrate.backend_config,
                };
                context.operated(migrate.stop.grace, Asks::Nothing, |stop, ui| {
                    calls::migrate(context, &site, &options, stop, ui)
                })
            }
            StateCommand::Rekey(rekey) => {
                let site = context.site(&rekey.target);
                let options = RekeyOptions {
                    former_env: rekey.former_env,
                    former_file: rekey.former_file,
                };
                context.operated(None, Asks::Nothing, |stop, ui| {
                    calls::rekey(context, &site, &options, stop, ui)
                })
            }
            StateCommand::List(list) => served::list(context, &list.of, list.under.as_deref()),
            StateCommand::Versions(asked) => served::versions(context, &asked.of, &asked.path),
            StateCommand::Pull(pull) => served::pull(context, &pull),
            StateCommand::Restore(restore) => served::restore(context, &restore),
            StateCommand::Locks(asked) => served::locks(context, &asked),
        },
        Command::Backend(backend) => match backend.command {
            BackendCommand::Serve(serve) => backend::serve(context, &serve),
            BackendCommand::Env(env) => backend::env(context, &env),
        },
        Command::Store(store) => {
            let StoreCommand::Move(moved) = store.command;
            let site = context.site(&moved.target);
            context.told_about(|ui| calls::store_move(context, &site, &moved.to, ui))
        }
        Command::Unlock(unlock) => {
            let site = context.site(&unlock.target);
            context.told_about(|ui| calls::unlock(context, &site, unlock.to.as_deref(), ui))
        }
        Command::Provision(asked) => handoffs::provision(context, asked),
        Command::Bootstrap(asked) => handoffs::bootstrap(context, asked),
        Command::Jobs(asked) => handoffs::jobs(context, asked),
        Command::Inventory(asked) => handoffs::inventory(context, &asked),
        Command::Render(render) => {
            let options = RenderOptions {
                target: render.target,
                out: render.out,
                check: render.check,
            };
            calls::render(context, &options)
        }
        Command::Providers(providers) => providers::run(context, providers.command),
        Command::Secrets(secrets) => sealed::run(context, &secrets.command),
        Command::Discover(discover) => {
            let options = DiscoverOptions {
                networks: discover.networks,
                write: discover.write.zip(discover.group),
                accept: discover.accept,
            };
            context.operated(None, Asks::People, |stop, ui| {
                let questions = context.questions(stop, Asks::People);
                calls::discover(context, &options, stop, ui, &questions)
            })
        }
    }
}

fn run_up(context: &Context, up: args::Up) -> Told {
    let site = context.site(&up.target);
    let asks = if up.no_pause {
        Asks::Nothing
    } else {
        Asks::People
    };
    let options = UpOptions {
        resume: up.resume,
        through: up.through,
        pause: up.pause,
        no_pause: up.no_pause,
        allow_destroy: up.allow_destroy,
        replace: up.replace,
        keep: up.keep,
        upgrade: up.upgrade,
        lost_host: up.lost_host,
        first_build: up.first_build,
        jobs: jobs(up.jobs),
        prune: up.prune.map(Into::into),
        without_drill: up.without_drill,
    };
    context.operated(up.stop.grace, asks, |stop, ui| {
        calls::up(context, &site, &options, stop, ui)
    })
}

fn run_down(context: &Context, down: args::Down) -> Told {
    let target = match down_target(&down) {
        Ok(target) => target,
        Err(failure) => return Told::failed(*failure),
    };
    let site = Site {
        platform: context.platform.clone(),
        target,
    };
    let options = DownOptions {
        confirm: down.confirm,
        dry_run: down.dry_run,
        lost_host: down.lost_host,
        forget: down.forget,
        reason: down.reason,
    };
    context.operated(down.stop.grace, Asks::People, |stop, ui| {
        calls::down(context, &site, &options, stop, ui)
    })
}

/// How many steps at once; 0 leaves it to the machine.
fn jobs(asked: Option<u16>) -> usize {
    asked.map_or(0, usize::from)
}

/// The target of `down`, which `--confirm` alone may name and must never contradict.
fn down_target(down: &args::Down) -> Result<String, Box<Failure>> {
    let refused = |message: String, hint| {
        Err(Box::new(
            Failure::new(ExitCode::Unusable, message).hint(hint),
        ))
    };
    match (&down.target, &down.confirm) {
        (Some(target), Some(confirm)) if target != confirm => refused(
            format!("`--confirm {confirm}` does not match `--target {target}`"),
            "nothing was touched; type the same name twice, or `--confirm` alone",
        ),
        (Some(target), _) | (None, Some(target)) => Ok(target.clone()),
        (None, None) => refused(
            "`down` names no target".to_owned(),
            "add `--target NAME`; there is no default",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_document_where_there_is_no_other() {
        let failed = Told::failed(Failure::new(ExitCode::Locked, "locked").hint("wait"));
        assert_eq!(
            failed.document(),
            json!({ "schema": 1, "error": { "message": "locked", "causes": [], "hint": "wait", "exit": 4 } })
        );
        let both = Told {
            document: Some(json!({ "schema": 1, "id": "x" })),
            ..failed
        };
        assert_eq!(both.document(), json!({ "schema": 1, "id": "x" }));
        let last = both.last_event();
        assert_eq!(
            (&last["event"], &last["exit"], &last["document"]["id"]),
            (&json!("ended"), &json!(4), &json!("x"))
        );
        assert_eq!(last["error"]["message"], "locked");
    }
}
