//! Targets for what hosts, playbooks and holders of keys hand us.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::OnceLock;

use age::secrecy::ExposeSecret as _;
use ansible::{Event, Tally};
use envelope::{Expected, Identities, KeyName, Label, Recipients};
use fleet::{Fleet, Workspace};
use known_hosts::{HostPort, KnownHosts, PublicKey, Verdict};
use secrets::Secret;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

/// Lines of `known_hosts`: what is not ours stays byte for byte, what we pin is known, what we forget is not.
pub(crate) fn known_hosts(bytes: &[u8]) {
    let mut known = KnownHosts::parse(bytes);
    assert_eq!(known.to_bytes(), bytes);
    let key: PublicKey = KEY.parse().expect("the key is spelled out here");
    let host = HostPort::new("pinned.by.the.fuzzer", 2222);
    let before = known.verdict(&host, &key);
    known.pin(&host, std::slice::from_ref(&key));
    assert!(known.to_bytes().starts_with(bytes));
    let after = known.verdict(&host, &key);
    assert_eq!(
        matches!(after, Verdict::Revoked),
        matches!(before, Verdict::Revoked)
    );
    assert!(matches!(after, Verdict::Known | Verdict::Revoked));
    let again = KnownHosts::parse(&known.to_bytes());
    assert_eq!(again.verdict(&host, &key), after);
    let _ = known.replace(&host, &[key]);
    known.forget(&host);
    for name in ["web1.example.org", "192.0.2.7", "::1"] {
        for port in [22, 2222] {
            let _ = known.find(&HostPort::new(name, port));
        }
    }
}

/// The output `hosts`: what is taken makes an inventory that is one document.
pub(crate) fn hosts(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice(bytes) else {
        return;
    };
    let name = "prod".parse().expect("a name");
    let Ok(workspace) = Workspace::parse(name, &value) else {
        return;
    };
    let Ok(fleet) = Fleet::new(vec![workspace]) else {
        return;
    };
    assert!(!fleet.inventory().is_empty());
    let list = fleet.list();
    let text = list.to_string();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON"),
        list
    );
    for host in fleet.hosts() {
        assert!(fleet.host(&host.name).is_some());
    }
    let _ = (
        fleet.graph(),
        fleet.limit("tf:prod"),
        fleet.limit("all:!web"),
    );
}

/// Lines that Ansible and our plugin print: a run that reached nobody is never done.
pub(crate) fn ansible_events(bytes: &[u8]) {
    let mut tally = Tally::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(event) = Event::read(line) {
            tally.add(&event);
        }
    }
    let nobody = BTreeSet::from(["a host that no line can name \u{1}".to_owned()]);
    for code in [0, 1, 2, 4, 6, 250] {
        let verdict = tally.judge(process::Exit::Code(code), &nobody);
        assert!(!matches!(verdict, ansible::Verdict::Done { .. }));
    }
}

/// The key that envelopes are sealed to here.
fn identity() -> &'static age::x25519::Identity {
    static IDENTITY: OnceLock<age::x25519::Identity> = OnceLock::new();
    IDENTITY.get_or_init(age::x25519::Identity::generate)
}

/// An envelope, and what lies in one that somebody sealed to us: nothing opens but what says whose it is.
pub(crate) fn envelope(bytes: &[u8]) {
    let key: KeyName = "fleet-key".parse().expect("a name");
    let expected = Expected {
        target: "live",
        run: None,
        key: &key,
    };
    let text = Secret::new(identity().to_string().expose_secret());
    let identities = Identities::parse(&text).expect("a key");
    // As it lies on a disk.
    assert!(envelope::open(bytes, expected, &identities).is_err());
    // As what somebody sealed who knows our public key.
    let recipient = identity().to_public();
    let sealed = sealed(&recipient, bytes).expect("memory takes it");
    if let Ok(opened) = envelope::open(&sealed, expected, &identities) {
        let recipients = Recipients::parse([recipient.to_string()]).expect("a recipient");
        let label = Label {
            target: "live".to_owned(),
            run: opened.run.clone(),
            key: key.clone(),
        };
        let again = envelope::seal(&label, opened.expose(), &recipients, "2026-01-02T03:04:05Z")
            .expect("it is sealed");
        let again = envelope::open(&again, expected, &identities).expect("it is ours");
        assert_eq!(
            (again.run.as_str(), again.expose()),
            (opened.run.as_str(), opened.expose())
        );
    }
}

fn sealed(recipient: &age::x25519::Recipient, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let all = std::iter::once(recipient as &dyn age::Recipient);
    let encryptor = age::Encryptor::with_recipients(all).map_err(std::io::Error::other)?;
    let mut sealed = Vec::new();
    let mut writer = encryptor.wrap_output(&mut sealed)?;
    writer.write_all(bytes)?;
    writer.finish()?;
    Ok(sealed)
}
