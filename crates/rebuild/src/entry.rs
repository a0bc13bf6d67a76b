//! From arguments to an exit code.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode as ProcessExit;
use std::sync::Arc;

use clap::FromArgMatches;
use phase_engine::ExitCode;
use process::RealSpawner;

use crate::args::{self, Cli, Color, Output};
use crate::commands::{self, Context, Told};
use crate::failure::Failure;
use crate::machine::Surroundings;
use crate::stream::{self, Look, Terminals};
use crate::ui::Verbosity;
use crate::{later, panic};

/// The name under which this program is started to become a child program.
const LAUNCH: &str = "__launch";
/// The name under which OpenTofu starts this program to ask for a key.
const KEY: &str = "__key";

/// Runs the program; `rest` are the arguments after its name.
pub(crate) fn main(name: OsString, rest: Vec<OsString>) -> ProcessExit {
    // These two are started many times in a run: nothing comes before them.
    match rest.split_first() {
        Some((first, rest)) if first == KEY => return key(rest),
        Some((first, rest)) if first == LAUNCH => {
            return process::launch::main(rest.iter().cloned());
        }
        _ => {}
    }
    let surroundings = match Surroundings::of_this_process() {
        Ok(surroundings) => surroundings,
        Err(error) => {
            let told = Told::failed(Failure::of(ExitCode::Unusable, &error));
            told.tell(
                args::output_asked(&rest),
                Look {
                    color: false,
                    unicode: false,
                },
            );
            return number(told.exit);
        }
    };
    if let Some(refused) = hurt(&surroundings) {
        return refused;
    }
    let terminals = Terminals::of_this_process();
    let early = Look::decide(Color::Auto, terminals.stderr, &surroundings);
    panic::install(early);
    let asked = args::output_asked(&rest);
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        called(name, rest, &surroundings, terminals)
    }));
    let exit = result.unwrap_or_else(|_| {
        // The hook has told it on standard error; a document must not be missing.
        if asked != Output::Human {
            Told::failed(panic::unexpected()).tell_document(asked);
        }
        ExitCode::Failed
    });
    number(exit)
}

/// Builds for tests can be told to fail at a point: `crates/fault` says how.
fn hurt(surroundings: &Surroundings) -> Option<ProcessExit> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let orders = surroundings.var(fault::VARIABLE)?.to_string_lossy();
    match orders.parse() {
        Ok(orders) => {
            fault::arm(orders);
            None
        }
        Err(error) => {
            stream::err(&format!("{}: {error}\n", fault::VARIABLE));
            Some(number(ExitCode::Unusable))
        }
    }
}

/// What time it is, unless a test has moved the clock.
fn now() -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    match fault::skew() {
        0 => now,
        seconds => now
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap_or(now),
    }
}

fn called(
    name: OsString,
    rest: Vec<OsString>,
    surroundings: &Surroundings,
    terminals: Terminals,
) -> ExitCode {
    let asked = args::output_asked(&rest);
    let early = Look::decide(Color::Auto, terminals.stderr, surroundings);
    let refuse = |failure| {
        let told = Told::failed(failure);
        told.tell(asked, early);
        told.exit
    };
    let words = std::iter::once(name).chain(rest);
    let matches = match args::command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, asked, terminals, early, surroundings),
    };
    if let Some(what) = later::asked(&matches) {
        return refuse(not_there_yet(&what));
    }
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, asked, terminals, early, surroundings),
    };
    let output = cli.global.output;
    let err = Look::decide(cli.global.color, terminals.stderr, surroundings);
    panic::install(err);
    match context(&cli, surroundings, terminals, err) {
        Ok(context) => {
            let told = commands::run(&context, cli);
            told.tell(output, err);
            told.exit
        }
        Err(failure) => refuse(*failure),
    }
}

fn context(
    cli: &Cli,
    surroundings: &Surroundings,
    terminals: Terminals,
    err: Look,
) -> Result<Context, Box<Failure>> {
    let launcher = vec![surroundings.exe.clone().into_os_string(), LAUNCH.into()];
    let spawner = Arc::new(RealSpawner::new(launcher));
    let machine = surroundings
        .machine(spawner, Arc::new(now))
        .map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
    Ok(Context {
        machine,
        output: cli.global.output,
        platform: cli.global.platform.clone(),
        verbosity: if cli.global.verbose > 0 {
            Verbosity::Verbose
        } else {
            Verbosity::Normal
        },
        out: Look::decide(cli.global.color, terminals.stdout, surroundings),
        err,
        terminals,
        is_ci: surroundings.is_ci(),
    })
}

/// Tells what clap has to say: help and version on standard output, faults of the command line as ours.
fn usage(
    error: &clap::Error,
    asked: Output,
    terminals: Terminals,
    err: Look,
    surroundings: &Surroundings,
) -> ExitCode {
    let rendered = error.render();
    if !error.use_stderr() {
        let out = Look::decide(Color::Auto, terminals.stdout, surroundings);
        stream::out(&if out.color {
            rendered.ansi().to_string()
        } else {
            rendered.to_string()
        });
        return ExitCode::Done;
    }
    stream::err(&if err.color {
        rendered.ansi().to_string()
    } else {
        rendered.to_string()
    });
    if asked != Output::Human {
        Told::failed(usage_failure(&rendered.to_string())).tell_document(asked);
    }
    ExitCode::Unusable
}

/// The first paragraph of what clap says is the fault, the rest is help.
fn usage_failure(rendered: &str) -> Failure {
    let first: Vec<&str> = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let first = first.join(" ");
    let message = first
        .strip_prefix("error: ")
        .unwrap_or("no command was given");
    Failure::new(ExitCode::Unusable, message).hint("`rebuild --help` lists commands and options")
}

fn not_there_yet(what: &str) -> Failure {
    Failure::new(
        ExitCode::Unusable,
        format!("`{what}` is not there yet: a later version of `rebuild` will have it"),
    )
    .hint("nothing was touched; `rebuild --help` lists what there is")
}

/// Answers OpenTofu's question for a key from a file.
fn key(args: &[OsString]) -> ProcessExit {
    match answer_key(args) {
        Ok(()) => ProcessExit::SUCCESS,
        Err(error) => {
            stream::err(&Failure::of(ExitCode::Failed, &error).render(Look {
                color: false,
                unicode: false,
            }));
            number(ExitCode::Failed)
        }
    }
}

/// Why OpenTofu got no key.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("`__key` takes files and names of keys, and is for OpenTofu alone")]
    Usage,
    #[error("cannot read the key")]
    Unreadable(#[source] std::io::Error),
    #[error("cannot give OpenTofu its key")]
    Unanswered(#[source] tofu::encryption::AnswerError),
}

fn answer_key(args: &[OsString]) -> Result<(), KeyError> {
    use tofu::encryption::{Ask, Keys};
    let (ask, args) = match args.split_first() {
        Some((first, rest)) if first == "passphrase" => (Ask::Passphrase, rest),
        _ => (Ask::Key, args),
    };
    let (file, name, former) = match args {
        [file] => (file, None, None),
        [file, name] => (file, Some(name), None),
        [file, name, former] => (file, Some(name), Some(former)),
        _ => return Err(KeyError::Usage),
    };
    let read = |file: &OsString| {
        std::fs::read(file)
            .map(zeroize::Zeroizing::new)
            .map_err(KeyError::Unreadable)
    };
    let (today, former) = (read(file)?, former.map(read).transpose()?);
    let name = name
        .map(|name| name.to_str().ok_or(KeyError::Usage))
        .transpose()?;
    let keys = Keys {
        today: &today,
        name,
        former: former.as_ref().map(|key| key.as_slice()),
    };
    let (from, to) = (std::io::stdin().lock(), std::io::stdout().lock());
    tofu::encryption::answer_of(from, to, ask, keys).map_err(KeyError::Unanswered)
}

fn number(exit: ExitCode) -> ProcessExit {
    ProcessExit::from(exit.code())
}
