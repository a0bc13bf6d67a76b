//! What may exist in no state, and what was settled.

use run::{SettledHow, SuspectsReport};

use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// The whole list.
pub(crate) fn suspects(report: &SuspectsReport, look: Look) -> String {
    let mut text = String::new();
    for settled in &report.settled {
        let what = match &settled.address {
            Some(address) => format!("{address} of step {}", settled.step),
            None => format!("step {}", settled.step),
        };
        let (word, tone) = match settled.how {
            SettledHow::Imported => ("imported", Tone::Good),
            SettledHow::Gone => ("gone", Tone::Good),
        };
        text.push_str(&format!("{}: {}\n", look.paint(tone, word), clean(&what)));
    }
    if report.suspects.is_empty() {
        text.push_str(&format!("{}: nothing is suspected\n", report.target));
    } else {
        text.push_str(&format!("{}: may exist in no state\n", report.target));
        let rows: Vec<Vec<Cell>> = report
            .suspects
            .iter()
            .map(|suspect| {
                let mut what = suspect
                    .address
                    .clone()
                    .unwrap_or_else(|| "anything that it makes".to_owned());
                if let Some(id) = &suspect.id {
                    what.push_str(&format!(" (id {id})"));
                }
                if let Some(was) = &suspect.was {
                    what.push_str(&format!(" in the place of {was}"));
                }
                vec![
                    Cell(clean(&what).into_owned(), Some(Tone::Warn)),
                    clean(&format!("step {}", suspect.step)).into_owned().into(),
                    clean(suspect.provider.as_deref().unwrap_or_default())
                        .into_owned()
                        .into(),
                    clean(suspect.host.as_deref().unwrap_or_default())
                        .into_owned()
                        .into(),
                    format!("since {}", suspect.since).into(),
                ]
            })
            .collect();
        text.push_str(&table(&rows, "  ", look));
    }
    if !report.next.is_empty() {
        text.push_str("next\n");
        for command in &report.next {
            text.push_str(&format!("  {}\n", clean(command)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use run::SuspectShown;

    use super::*;

    #[test]
    fn a_step_of_which_nothing_is_known_is_told_as_that() {
        let shown = |address: Option<&str>| SuspectShown {
            step: "1a.edge".to_owned(),
            address: address.map(str::to_owned),
            provider: address.map(|_| "test".to_owned()),
            id: address.map(|_| "i-7".to_owned()),
            was: address.map(|_| "i-2".to_owned()),
            host: Some("bench".to_owned()),
            since: "2026-03-02T10:00:00Z".to_owned(),
            run: "01JQ0000000000000000000001".to_owned(),
        };
        let report = SuspectsReport {
            schema: 1,
            target: "drill".to_owned(),
            suspects: vec![shown(Some("test_object.a")), shown(None)],
            settled: Vec::new(),
            next: vec!["rebuild suspects --target drill --gone 1a.edge".to_owned()],
        };
        assert_eq!(
            suspects(&report, Look::PLAIN),
            "drill: may exist in no state\n  \
             test_object.a (id i-7) in the place of i-2  step 1a.edge  test  bench  since 2026-03-02T10:00:00Z\n  \
             anything that it makes                      step 1a.edge        bench  since 2026-03-02T10:00:00Z\n\
             next\n  rebuild suspects --target drill --gone 1a.edge\n"
        );
    }
}
