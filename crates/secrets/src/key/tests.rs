//! Tests of the target's key.

use proptest::prelude::*;

use super::*;
use crate::secret::Secret;

fn passphrase() -> Secret {
    Secret::new("sixteen characters")
}

fn created() -> (KeyFile, TargetKey) {
    KeyFile::create(&passphrase(), Stretching::FOR_TESTS).unwrap()
}

#[test]
fn a_key_file_gives_the_same_key_for_the_same_passphrase() {
    let (file, key) = created();
    let read = KeyFile::from_json(&file.to_json().unwrap()).unwrap();
    assert_eq!(read, file);
    let again = read.open(Some(&passphrase())).unwrap();
    assert_eq!(again.state_key(), key.state_key());
    assert_eq!(again.id(), key.id());
    assert_eq!(again.digest("x").unwrap(), key.digest("x").unwrap());
    assert_eq!(
        again.open(&key.seal(b"bundle", "c").unwrap(), "c").unwrap(),
        b"bundle"
    );
}

#[test]
fn two_targets_with_one_passphrase_have_two_keys() {
    let ((_, one), (_, other)) = (created(), created());
    assert_ne!(one.state_key(), other.state_key());
    assert_ne!(one.digest("x").unwrap(), other.digest("x").unwrap());
    let sealed = one.seal(b"bundle", "c").unwrap();
    assert_eq!(other.open(&sealed, "c"), Err(OpenError::OtherKey));
}

#[test]
fn a_wrong_added_dropped_or_short_passphrase_is_told() {
    let (with, _) = created();
    let without = KeyFile::without_passphrase(Stretching::FOR_TESTS).unwrap();
    let other = Secret::new("sixteen characters, others");
    let short = Secret::new("ünfzehn zeichen");
    assert!(matches!(with.open(Some(&other)), Err(KeyError::Wrong)));
    assert!(matches!(with.open(None), Err(KeyError::Dropped)));
    assert!(matches!(without.open(Some(&other)), Err(KeyError::Added)));
    assert!(matches!(
        with.open(Some(&short)),
        Err(KeyError::TooShort { n_chars: 15 })
    ));
    let error = KeyFile::create(&short, Stretching::FOR_TESTS).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the passphrase has 15 characters, and needs 16 at least"
    );
}

#[test]
fn the_published_form_is_stable() {
    let (mut file, _) = created();
    file.salt = "c2FsdA==".into();
    file.verifier = Some("dmVyaWZpZXI=".into());
    let shown: serde_json::Value = serde_json::from_slice(&file.to_json().unwrap()).unwrap();
    let expected = serde_json::json!({
        "schema": 1,
        "mode": "passphrase",
        "salt": "c2FsdA==",
        "stretching": {"algorithm": "argon2id", "memory_kib": 8, "passes": 1, "lanes": 1},
        "verifier": "dmVyaWZpZXI=",
    });
    assert_eq!(shown, expected);
}

/// Whoever reads a state without this program computes this; `docs` tell how.
#[test]
fn the_key_schedule_is_stable() {
    let file = KeyFile {
        schema: 1,
        mode: KeyMode::Passphrase,
        salt: "MDEyMzQ1Njc4OWFiY2RlZg==".into(),
        stretching: Stretching::FOR_TESTS,
        verifier: Some(VERIFIER.into()),
        state_mode: None,
        former: None,
    };
    let key = file.open(Some(&passphrase())).unwrap();
    let state_key: String = key
        .state_key()
        .unwrap()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(state_key, STATE_KEY);
}

// Computed with another implementation: the reference library's Argon2id, and HKDF written by hand.
const VERIFIER: &str = "upetH2D+o3n9C5moVdu7GB1HVUAX3/B/sdXPaHsOV14=";
const STATE_KEY: &str = "ccd96b15222f87a4f3ed6bff67ecbde213a8bdeafa5ff90a44ff6c8e5fb9db27";

#[test]
fn a_newer_or_damaged_file_is_told_whatever_its_shape() {
    let read = |text: &str| KeyFile::from_json(text.as_bytes()).unwrap_err();
    assert!(matches!(
        read(r#"{"schema": 2, "keys": []}"#),
        KeyError::Newer { schema: 2 }
    ));
    assert!(matches!(read(r#"{"schema": 1}"#), KeyError::Unreadable(_)));
    assert!(matches!(read("{"), KeyError::Unreadable(_)));

    let (good, _) = created();
    let open = |change: fn(&mut KeyFile)| {
        let mut file = good.clone();
        change(&mut file);
        file.open(Some(&passphrase())).unwrap_err()
    };
    assert!(matches!(open(|f| f.schema = 2), KeyError::Newer { .. }));
    assert!(matches!(
        open(|f| f.salt = "short".into()),
        KeyError::Damaged { .. }
    ));
    assert!(matches!(
        open(|f| f.verifier = None),
        KeyError::Damaged { .. }
    ));
    assert!(matches!(
        open(|f| f.stretching.memory_kib = u32::MAX),
        KeyError::Damaged { .. }
    ));
    assert!(matches!(
        open(|f| f.stretching.passes = 0),
        KeyError::Damaged { .. }
    ));
    // Cheaper than it was made: nobody can make a weak key of the right passphrase.
    assert!(matches!(
        open(|f| f.stretching.memory_kib += 8),
        KeyError::Wrong
    ));
}

#[test]
fn without_a_passphrase_bytes_stay_as_they_are_and_digests_are_stretched() {
    let file = KeyFile::without_passphrase(Stretching::FOR_TESTS).unwrap();
    let key = file.open(None).unwrap();
    assert!(!key.is_encrypting());
    assert_eq!((key.state_key(), key.id()), (None, None));
    assert_eq!(key.seal(b"bundle", "c").unwrap(), b"bundle");
    assert_eq!(key.open(b"bundle", "c").unwrap(), b"bundle");
    let digest = key.digest("value").unwrap();
    assert!(digest.starts_with("argon2id:"), "{digest}");
    assert_eq!(digest, file.open(None).unwrap().digest("value").unwrap());
    assert_ne!(digest, key.digest("value2").unwrap());
    let other = KeyFile::without_passphrase(Stretching::FOR_TESTS)
        .unwrap()
        .open(None)
        .unwrap();
    assert_ne!(
        digest,
        other.digest("value").unwrap(),
        "another target's salt"
    );
    assert!(key.digest("").is_ok());
}

#[test]
fn sealed_and_open_bytes_are_never_mistaken_for_each_other() {
    let (_, with) = created();
    let without = KeyFile::without_passphrase(Stretching::FOR_TESTS)
        .unwrap()
        .open(None)
        .unwrap();
    assert_eq!(with.open(b"open bytes", "c"), Err(OpenError::NotSealed));
    assert_eq!(
        without.open(&with.seal(b"x", "c").unwrap(), "c"),
        Err(OpenError::Sealed)
    );
}

#[test]
fn digests_are_keyed_and_tell_values_apart() {
    let (_, key) = created();
    let digest = key.digest("value").unwrap();
    assert!(
        digest.starts_with("hmac-sha256:") && digest.len() == 12 + 64,
        "{digest}"
    );
    assert_eq!(digest, key.digest("value").unwrap());
    assert_ne!(digest, key.digest("values").unwrap());
}

#[test]
fn a_key_shows_only_its_public_id() {
    let (_, key) = created();
    let shown = format!("{key:?}");
    assert_eq!(
        shown,
        format!("TargetKey {{ id: Some(\"{}\"), .. }}", key.id().unwrap())
    );
}

#[test]
fn the_default_cost_is_one_that_argon2_takes() {
    let (file, _) = KeyFile::create(&passphrase(), Stretching::DEFAULT).unwrap();
    assert!(file.open(Some(&passphrase())).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_sealed_opens_only_whole_and_as_what_it_is(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, key) = created();
        let sealed = key.seal(&bytes, "bundle/1").unwrap();
        prop_assert_ne!(&sealed, &key.seal(&bytes, "bundle/1").unwrap(), "the nonce is random");
        prop_assert_eq!(key.open(&sealed, "bundle/1").unwrap(), bytes);
        prop_assert_eq!(key.open(&sealed, "bundle/2"), Err(OpenError::Damaged));
        let mut damaged = sealed.clone();
        damaged[at.index(sealed.len())] ^= 1 << bit;
        prop_assert!(key.open(&damaged, "bundle/1").is_err());
        prop_assert!(key.open(&sealed[..cut.index(sealed.len())], "bundle/1").is_err());
    }
}
