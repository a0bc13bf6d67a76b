//! Names that are the same in every run.

/// From this many letters on, a word of digits and letters that holds a digit is taken for an id or a digest.
const LONG: usize = 12;

/// A name with its ids and digests replaced by `*`: `run/01J8….json` is `run/*.json`.
#[must_use]
pub fn steady(name: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric();
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = match rest.find(|letter| is_word(letter) != is_word(first)) {
            Some(end) => end,
            None => rest.len(),
        };
        let (word, behind) = rest.split_at(end);
        let is_id =
            word.len() >= LONG && is_word(first) && word.contains(|c: char| c.is_ascii_digit());
        text.push_str(if is_id { "*" } else { word });
        rest = behind;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::steady;

    #[test]
    fn ids_and_digests_are_the_same_in_every_run() {
        assert_eq!(steady("run/01J00000000000000000000000.json"), "run/*.json");
        assert_eq!(steady("bundle/0a1b2c3d4e5f6071"), "bundle/*");
        assert_eq!(steady("state/1a/edge@3"), "state/1a/edge@3");
        assert_eq!(
            steady("terraform_data.deployment"),
            "terraform_data.deployment"
        );
        assert_eq!(steady(""), "");
    }
}
