//! `docs/commands.md`, made from the command line itself so that the two can't part.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// The whole page.
pub(crate) fn page() -> String {
    let mut cli = crate::args::command().term_width(0);
    cli.build();
    let mut page = String::from(
        "# Commands\n\nMade from the program's own command line; `docs/exit-codes.md` says what each exit code \
         means.\n",
    );
    if let Some(about) = cli.get_about() {
        let _ = write!(page, "\n{about}.\n");
    }
    page.push_str("\n## Options of every command\n\n");
    options(
        &mut page,
        cli.get_arguments().filter(|arg| arg.is_global_set()),
    );
    walk(&mut page, &cli, "rebuild");
    page
}

fn walk(page: &mut String, parent: &Command, path: &str) {
    for command in parent
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            walk(page, command, &path);
            continue;
        }
        let _ = write!(page, "\n## `{path}`\n");
        if let Some(about) = command.get_about() {
            let _ = write!(page, "\n{about}.\n");
        }
        let usage = command.clone().render_usage().to_string();
        let _ = write!(
            page,
            "\n```text\n{}\n```\n",
            usage.trim_start_matches("Usage: ")
        );
        let own: Vec<_> = command
            .get_arguments()
            .filter(|arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help")
            .collect();
        if !own.is_empty() {
            page.push('\n');
            options(page, own);
        }
    }
}

fn options<'a>(page: &mut String, args: impl IntoIterator<Item = &'a Arg>) {
    page.push_str("| option | meaning |\n| --- | --- |\n");
    for arg in args {
        if arg.get_id() == "help" || arg.get_id() == "version" {
            continue;
        }
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        let choices: Vec<_> = arg
            .get_possible_values()
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        let mut meaning = help.replace('|', "\\|");
        if takes_value && !choices.is_empty() {
            let _ = write!(meaning, ": {}", choices.join(", "));
        }
        if takes_value && !defaults.is_empty() {
            let _ = write!(meaning, " (default: `{}`)", defaults.join(" "));
        }
        let _ = writeln!(page, "| `{}` | {meaning} |", spelled(arg, takes_value));
    }
}

fn spelled(arg: &Arg, takes_value: bool) -> String {
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    let Some(long) = arg.get_long() else {
        return names;
    };
    let short = arg
        .get_short()
        .map(|short| format!("-{short}, "))
        .unwrap_or_default();
    let value = if takes_value {
        format!(" {names}")
    } else {
        String::new()
    };
    format!("{short}--{long}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `__REBUILD_BLESS=1 cargo test --package rebuild` writes the page anew.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a switch of this test, and a file of the source tree"
    )]
    fn the_page_in_docs_is_what_the_program_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        if std::env::var_os("__REBUILD_BLESS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            kept,
            page(),
            "docs/commands.md is stale: __REBUILD_BLESS=1 cargo test --package rebuild"
        );
    }

    #[test]
    fn every_exit_code_is_on_its_page_with_its_meaning() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exit-codes.md");
        let page = std::fs::read_to_string(path).unwrap();
        for exit in phase_engine::ExitCode::ALL {
            let row = format!("| {} | {} |", exit.code(), exit.meaning());
            assert!(
                page.contains(&row),
                "docs/exit-codes.md lacks the row {row}"
            );
        }
    }

    #[test]
    fn what_is_not_there_yet_is_not_on_the_page() {
        let page = page();
        for absent in ["__launch", "rebuild serve"] {
            assert!(!page.contains(absent), "{absent}");
        }
        for present in [
            "## `rebuild runs show`",
            "## `rebuild jobs redrive`",
            "--first-build ID",
            "--forget PHASE.STEP",
        ] {
            assert!(page.contains(present), "{present}");
        }
    }
}
