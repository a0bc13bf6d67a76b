//! Commands and options that a later version will have: recognised, refused with one sentence, never shown.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// Commands of later versions.
const COMMANDS: &[&str] = &[
    "backend",
    "provision",
    "bootstrap",
    "jobs",
    "serve",
    "inventory",
    "explain",
    "secrets",
];

/// Options of later versions, each with the commands that will have it.
const OPTIONS: &[(&str, &[&str])] = &[("upgrade", &["up"])];

/// Adds them to a command line, hidden.
pub(crate) fn add_to(cli: Command) -> Command {
    let cli = cli.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let options = OPTIONS
            .iter()
            .filter(|(_, commands)| commands.contains(&&*name));
        options.fold(command, |command, &(option, _)| {
            let arg = Arg::new(option).long(option).hide(true);
            command.arg(arg.action(ArgAction::SetTrue))
        })
    });
    COMMANDS.iter().fold(cli, |cli, &name| {
        let rest = Arg::new("rest")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(clap::value_parser!(std::ffi::OsString));
        cli.subcommand(
            Command::new(name)
                .hide(true)
                .disable_help_flag(true)
                .arg(rest),
        )
    })
}

/// Names what was asked for and is not there yet.
pub(crate) fn asked(matches: &ArgMatches) -> Option<String> {
    let (name, inner) = matches.subcommand()?;
    if COMMANDS.contains(&name) {
        return Some(name.to_owned());
    }
    let here = OPTIONS
        .iter()
        .filter(|(_, commands)| commands.contains(&name));
    let found = here.map(|&(option, _)| option).find(|&option| {
        inner.value_source(option) == Some(clap::parser::ValueSource::CommandLine)
    })?;
    Some(format!("{name} --{found}"))
}
