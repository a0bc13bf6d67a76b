//! The near right name: what a mistyped word most likely meant.

pub(crate) use provider::near;

/// Says which word was meant, or else which words there are.
pub(crate) fn hint<'a>(
    word: &str,
    kind: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let mut all: Vec<&str> = candidates.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    if let Some(right) = near(word, all.iter().copied()) {
        return Some(format!("did you mean `{right}`?"));
    }
    let shown: Vec<String> = all
        .iter()
        .take(12)
        .map(|name| format!("`{name}`"))
        .collect();
    match (shown.len(), all.len()) {
        (0, _) => None,
        (1, 1) => Some(format!("there is only {}", shown.join(", "))),
        (n, total) if n < total => Some(format!(
            "{kind} here: {} and {} more",
            shown.join(", "),
            total - n
        )),
        _ => Some(format!("{kind} here: {}", shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_one_letter_finds_the_name() {
        assert_eq!(near("adress", ["name", "address"]), Some("address"));
        assert_eq!(near("dns-zone", ["dns_zone"]), Some("dns_zone"));
    }

    #[test]
    fn an_unlike_word_finds_nothing() {
        assert_eq!(near("zone", ["bucket", "id"]), None);
    }

    #[test]
    fn a_hint_lists_what_there_is() {
        assert_eq!(
            hint("zone", "outputs", ["bucket", "a"]).as_deref(),
            Some("outputs here: `a`, `bucket`")
        );
        assert_eq!(hint("zone", "outputs", []), None);
    }
}
