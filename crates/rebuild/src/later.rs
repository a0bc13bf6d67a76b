//! Commands that a later version will have: recognised, refused with one sentence, never shown.

use clap::{Arg, ArgMatches, Command};

/// Commands of later versions.
const COMMANDS: &[&str] = &["serve"];

/// Adds them to a command line, hidden.
pub(crate) fn add_to(cli: Command) -> Command {
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
    let (name, _) = matches.subcommand()?;
    COMMANDS.contains(&name).then(|| name.to_owned())
}
