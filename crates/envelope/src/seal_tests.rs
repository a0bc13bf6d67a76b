//! Sealing and opening, by both kinds of keys and with every byte damaged.

use age::secrecy::ExposeSecret as _;
use proptest::prelude::*;
use test_support::SshLab;

use super::*;
use crate::{IdentityError, RecipientError};

const NOW: &str = "2026-03-02T10:00:00Z";

fn label() -> Label {
    Label {
        target: "live".to_owned(),
        run: "job-1".to_owned(),
        key: "fleet-key".parse().unwrap(),
    }
}

fn expected(label: &Label) -> Expected<'_> {
    Expected {
        target: &label.target,
        run: Some(&label.run),
        key: &label.key,
    }
}

fn x25519() -> (String, Identities) {
    let identity = age::x25519::Identity::generate();
    let text = format!("# made today\n{}\n", identity.to_string().expose_secret());
    (
        identity.to_public().to_string(),
        Identities::parse(&Secret::new(text)).unwrap(),
    )
}

#[test]
fn each_recipient_opens_by_its_own_kind_of_key() {
    let lab = SshLab::new();
    let ssh_public = lab.make_key("fleet");
    let ssh_private = std::fs::read_to_string(lab.dir().join("fleet")).unwrap();
    let (age_public, age_private) = x25519();
    let recipients = Recipients::parse([age_public, ssh_public]).unwrap();
    let label = label();
    let sealed = seal(&label, b"value", &recipients, NOW).unwrap();
    for identities in [
        age_private,
        Identities::parse(&Secret::new(ssh_private)).unwrap(),
    ] {
        assert_eq!(
            open(&sealed, expected(&label), &identities)
                .unwrap()
                .expose(),
            b"value"
        );
    }
    let (_, stranger) = x25519();
    let refused = open(&sealed, expected(&label), &stranger).unwrap_err();
    assert!(
        matches!(refused, OpenError::NoMatchingKey { .. }),
        "{refused}"
    );
}

#[test]
fn keys_that_can_not_be_used_are_told_and_never_shown() {
    assert_eq!(
        Recipients::parse::<&str>([]).unwrap_err(),
        RecipientError::None
    );
    assert!(matches!(
        Recipients::parse(["age1nonsense"]),
        Err(RecipientError::Unreadable(_))
    ));
    for wrong in [
        "",
        "# nothing",
        "hunter2",
        "AGE-SECRET-KEY-1QQ",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nx",
    ] {
        let error = Identities::parse(&Secret::new(wrong)).unwrap_err();
        assert_eq!(error, IdentityError::Unreadable, "{wrong}");
        assert!(!error.to_string().contains("hunter2"));
    }
    for wrong in ["", ".x", "a/b", "..", "a b", "-x"] {
        assert!(wrong.parse::<crate::KeyName>().is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is cut off or changed, it is refused; what is whole is what was sealed.
    #[test]
    fn a_damaged_file_is_never_opened(
        value in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), bit in 0..8u8, is_cut in any::<bool>(),
    ) {
        let (public, private) = x25519();
        let label = label();
        let sealed = seal(&label, &value, &Recipients::parse([public]).unwrap(), NOW).unwrap();
        let opened = open(&sealed, expected(&label), &private).unwrap();
        prop_assert_eq!(opened.expose(), value.as_slice());
        let at = at.index(sealed.len());
        let damaged = if is_cut {
            sealed[..at].to_vec()
        } else {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1 << bit;
            damaged
        };
        prop_assert!(open(&damaged, expected(&label), &private).is_err());
    }
}
