//! `secrets`: how a value comes in without being shown, and how it is printed on purpose alone.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use phase_engine::ExitCode;
use run::sealing::{Desk, LONGEST, SecretOpened};
use run::stop::StopRequests;
use zeroize::{Zeroize as _, Zeroizing};

use super::{Asks, Context, Told, telling};
use crate::args::{Output, SecretsCommand, SecretsOpen, SecretsSeal};
use crate::failure::Failure;
use crate::prompt::{self, LONGEST_LINE, Reply};
use crate::render;
use crate::stream;

pub(super) fn run(context: &Context, command: &SecretsCommand) -> Told {
    let told = match command {
        // Obeys signals, so that a terminal never stays without its echo.
        SecretsCommand::Seal(asked) => {
            return context.operated(None, Asks::People, |stop, _| {
                seal(context, asked, stop).unwrap_or_else(|failure| Told::failed(*failure))
            });
        }
        SecretsCommand::Open(asked) => open(context, asked),
        SecretsCommand::Rekey(target) => desk(context, target).and_then(|desk| {
            let rekeyed = desk.rekey().map_err(|error| of_call(context, error))?;
            Ok(Told::done(
                telling::document(&rekeyed),
                render::secrets_rekeyed(&rekeyed),
            ))
        }),
        SecretsCommand::List(target) => desk(context, target).and_then(|desk| {
            let list = desk.list().map_err(|error| of_call(context, error))?;
            Ok(Told::done(
                telling::document(&list),
                render::secrets_list(&list, context.out),
            ))
        }),
    };
    told.unwrap_or_else(|failure| Told::failed(*failure))
}

fn of_call(context: &Context, error: run::CallError) -> Box<Failure> {
    Box::new(Failure::of_call(error, context.err))
}

fn desk(context: &Context, target: &crate::args::Target) -> Result<Desk, Box<Failure>> {
    Desk::open(&context.machine, &context.site(target)).map_err(|error| of_call(context, error))
}

fn seal(context: &Context, asked: &SecretsSeal, stop: &StopRequests) -> Result<Told, Box<Failure>> {
    let desk = desk(context, &asked.target)?;
    let key = desk
        .name(&asked.name)
        .map_err(|error| of_call(context, error))?;
    let mut value = match &asked.file {
        Some(file) => read(&context.machine.cwd.join(file))?,
        None if context.terminals.stdin => typed(context, &asked.name, stop)?,
        None => {
            limited(std::io::stdin().lock()).map_err(|error| unread("standard input", &error))?
        }
    };
    if !asked.exact {
        drop_newline(&mut value);
    }
    let sealed = desk
        .seal(&key, &value)
        .map_err(|error| of_call(context, error))?;
    Ok(Told::done(
        telling::document(&sealed),
        render::secret_sealed(&sealed),
    ))
}

fn read(file: &Path) -> Result<Zeroizing<Vec<u8>>, Box<Failure>> {
    std::fs::File::open(file)
        .and_then(limited)
        .map_err(|error| unread(&format!("`{}`", file.display()), &error))
}

/// One byte more than is sealed, so that what is longer is seen as such.
fn limited(from: impl std::io::Read) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let most = LONGEST + 1;
    // As much room as it may need: a buffer that moves leaves a copy behind.
    let mut value = Zeroizing::new(Vec::with_capacity(most + 1));
    from.take(most as u64).read_to_end(&mut value)?;
    Ok(value)
}

fn unread(what: &str, error: &std::io::Error) -> Box<Failure> {
    let mut failure = Failure::new(
        ExitCode::Unusable,
        format!("cannot read the value from {what}"),
    );
    failure.causes.push(error.to_string());
    Box::new(failure.hint("nothing was sealed"))
}

/// The same rule as for files and commands that a target file names.
fn drop_newline(value: &mut Vec<u8>) {
    if value.last() == Some(&b'\n') {
        value.pop();
        if value.last() == Some(&b'\r') {
            value.pop();
        }
    }
}

/// Asks twice, since nobody sees what was typed.
fn typed(
    context: &Context,
    name: &str,
    stop: &StopRequests,
) -> Result<Zeroizing<Vec<u8>>, Box<Failure>> {
    let declined = |why: &str| {
        let failure = Failure::new(ExitCode::Declined, why.to_owned());
        Box::new(failure.hint(format!(
            "nothing was sealed; a value can also come from a file or a program: `rebuild secrets seal {name} --target T --file FILE`, \
             and no line that is typed may be longer than {LONGEST_LINE} bytes"
        )))
    };
    if !context.terminals.stderr || context.is_ci || !prompt::is_in_foreground() {
        return Err(declined("nobody can be asked for the value"));
    }
    let ask = |question: String| match prompt::ask_hidden(&question, stop) {
        Reply::Line(line) => Ok(Zeroizing::new(line.into_bytes())),
        Reply::Declined => Err(declined("no value was typed")),
    };
    let first = ask(format!("value of `{name}` (not shown): "))?;
    let again = ask("the same again: ".to_owned())?;
    if first == again {
        Ok(first)
    } else {
        Err(declined("two different values were typed"))
    }
}

fn open(context: &Context, asked: &SecretsOpen) -> Result<Told, Box<Failure>> {
    let is_read = context.terminals.stdout;
    if !is_read && !asked.force {
        let failure = Failure::new(
            ExitCode::Declined,
            format!(
                "the value of `{}` would go into a file or a pipe",
                asked.name
            ),
        );
        return Err(Box::new(failure.hint(
            "nothing was opened; at a terminal it is shown, and `--force` prints it wherever it goes",
        )));
    }
    let desk = desk(context, &asked.target)?;
    let key = desk
        .name(&asked.name)
        .map_err(|error| of_call(context, error))?;
    let (value, sealed_by) = desk
        .open_one(&key)
        .map_err(|error| of_call(context, error))?;
    let text = std::str::from_utf8(&value).ok();
    if context.output != Output::Human {
        let document = SecretOpened {
            schema: 1,
            target: desk.target().to_owned(),
            name: key.to_string(),
            sealed_by,
            value: text.map(str::to_owned),
            base64: text.is_none().then(|| STANDARD.encode(&value)),
        };
        return Ok(Told::done(telling::document(&document), String::new()));
    }
    let is_shown = text.is_some_and(|text| stream::clean(text) == text);
    if is_read && !is_shown && !asked.force {
        let failure = Failure::new(
            ExitCode::Declined,
            format!("the value of `{key}` is no text that a terminal can show"),
        );
        return Err(Box::new(failure.hint(
            "send it into a file, or say that the terminal may get it as it is: `--force`",
        )));
    }
    let mut printed = value.to_vec();
    if is_read && printed.last() != Some(&b'\n') {
        printed.push(b'\n');
    }
    let is_written = stream::out_bytes(&printed);
    printed.zeroize();
    if is_written {
        return Ok(Told::told_already());
    }
    let failure = Failure::new(ExitCode::Failed, "the value could not be written");
    Err(Box::new(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_at_the_end_is_no_part_of_a_value() {
        for (given, expected) in [
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            ("\na", "\na"),
            ("", ""),
        ] {
            let mut value = given.as_bytes().to_vec();
            drop_newline(&mut value);
            assert_eq!(value, expected.as_bytes(), "{given:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_read_no_further() {
        let endless = std::io::repeat(b'x');
        assert_eq!(limited(endless).unwrap().len(), LONGEST + 1);
    }
}
