//! The near right name: what a mistyped word most likely meant.

/// Returns the candidate nearest to `word`, if one is near enough to be a likely slip.
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(word);
    let bound = (wanted.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&wanted, &fold(candidate)),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

fn fold(word: &str) -> String {
    word.chars()
        .map(|c| {
            if c == '-' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
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
}
