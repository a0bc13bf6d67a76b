//! What `secrets` tells people: names and recipients, no values.

use run::sealing::{SecretSealed, SecretsList, SecretsRekeyed};

use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// `secrets seal`.
pub(crate) fn secret_sealed(sealed: &SecretSealed) -> String {
    let what = if sealed.replaced {
        "takes the place of the former value"
    } else {
        "is sealed"
    };
    format!(
        "{} {what} in {}, for {}\n",
        clean(&sealed.name),
        clean(&sealed.file),
        n_recipients(sealed.recipients.len())
    )
}

/// `secrets rekey`.
pub(crate) fn secrets_rekeyed(rekeyed: &SecretsRekeyed) -> String {
    let target = clean(&rekeyed.target);
    match rekeyed.names.len() {
        0 => format!("the envelope of {target} holds nothing\n"),
        n => format!(
            "the envelope of {target}: {} sealed anew, for {}; former recipients can still open what they \
             copied, so change the values that they must not know\n",
            counted(n, "secret is", "secrets are"),
            n_recipients(rekeyed.recipients.len())
        ),
    }
}

/// `secrets list`.
pub(crate) fn secrets_list(list: &SecretsList, look: Look) -> String {
    let target = clean(&list.target);
    if list.secrets.is_empty() {
        return format!(
            "the envelope of {target} holds nothing; `rebuild secrets seal NAME --target {target}` puts a value in\n"
        );
    }
    let mut text = format!("{}\n", clean(&list.directory));
    let rows: Vec<Vec<Cell>> = list
        .secrets
        .iter()
        .map(|secret| {
            let state = match (&secret.note, secret.current) {
                (Some(note), _) => Cell(note.clone(), Some(Tone::Warn)),
                (None, true) => Cell(of_recipients(secret.recipients.as_deref()), None),
                (None, false) => Cell(
                    format!(
                        "{}, not those of the target file",
                        of_recipients(secret.recipients.as_deref())
                    ),
                    Some(Tone::Warn),
                ),
            };
            vec![
                Cell::from(clean(&secret.name).into_owned()),
                Cell::from(secret.sealed_at.clone().unwrap_or_default()),
                state,
            ]
        })
        .collect();
    text.push_str(&table(&rows, "  ", look));
    text.push_str("recipients\n");
    for recipient in &list.recipients {
        text.push_str(&format!("  {}\n", clean(recipient)));
    }
    if list.secrets.iter().any(|secret| !secret.current) {
        text.push_str(&format!(
            "`rebuild secrets rekey --target {target}` seals all of them to these recipients\n"
        ));
    }
    text
}

fn of_recipients(recipients: Option<&[String]>) -> String {
    n_recipients(recipients.map_or(0, <[String]>::len))
}

fn n_recipients(n: usize) -> String {
    counted(n, "recipient", "recipients")
}

fn counted(n: usize, one: &str, many: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {many}")
    }
}

#[cfg(test)]
mod tests {
    use run::sealing::SecretListed;

    use super::*;

    #[test]
    fn a_list_tells_what_is_sealed_to_others_and_what_to_type() {
        let secret = |name: &str, current, note: Option<&str>| SecretListed {
            name: name.to_owned(),
            sealed_at: note.is_none().then(|| "2026-03-02T10:00:00Z".to_owned()),
            recipients: note.is_none().then(|| vec!["age1b".to_owned()]),
            current,
            note: note.map(str::to_owned),
        };
        let mut list = SecretsList {
            schema: 1,
            target: "live".to_owned(),
            directory: "targets/live.envelope".to_owned(),
            recipients: vec!["age1b".to_owned()],
            secrets: vec![secret("fleet-key", true, None), secret("a", false, None)],
        };
        assert_eq!(
            secrets_list(&list, Look::PLAIN),
            "targets/live.envelope\n  \
             fleet-key  2026-03-02T10:00:00Z  1 recipient\n  \
             a          2026-03-02T10:00:00Z  1 recipient, not those of the target file\n\
             recipients\n  age1b\n\
             `rebuild secrets rekey --target live` seals all of them to these recipients\n"
        );
        list.secrets.pop();
        assert!(!secrets_list(&list, Look::PLAIN).contains("rekey"));
    }
}
