//! Lines against each other, against what they were before, and against `ssh-keygen -F`.

use std::collections::BTreeSet;
use std::time::Duration;

use process::{How, Invocation, RealSpawner, collect};
use proptest::prelude::*;

use super::*;

const KEYS: [&str; 3] = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPu6xmwrzS2RTiUad1NCeSK04+G1bU04pCcBi6mJd64m",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMpfPkvCmEpiJMoqyyEJeZ9xFLhkvnwvUoTqmQ35/mFF6Qw1rVm2JsouCzu3KBCOxU6SymFkRBOoNevJ+51XU98=",
];

fn key(number: usize) -> PublicKey {
    KEYS[number].parse().unwrap()
}

fn host(name: &str) -> HostPort {
    HostPort::new(name, 22)
}

fn text(known: &KnownHosts) -> String {
    String::from_utf8(known.to_bytes()).unwrap()
}

#[test]
fn a_key_is_pinned_once_and_other_lines_stay() {
    let before = "# héllo\n\nnot a line \u{1}\nweb2 ssh-rsa broken\nno-end";
    let mut known = KnownHosts::parse(before.as_bytes());
    known.pin(&host("web1"), &[key(0)]);
    known.pin(&host("web1"), &[key(0)]);
    assert_eq!(text(&known), format!("{before}\nweb1 {}\n", KEYS[0]));
}

/// Case H1: a new key replaces the old one for that host alone.
#[test]
fn a_replaced_host_leaves_the_lines_that_it_shared() {
    let before = format!(
        "  web1,10.0.0.1\t {k}  old comment\r\nWEB1 {k}\nweb1 {other}\n@revoked web1 {k}\n@cert-authority * {k}\n",
        k = KEYS[0],
        other = KEYS[2]
    );
    let mut known = KnownHosts::parse(before.as_bytes());
    known.replace(&host("web1"), &[key(1)]).unwrap();
    assert_eq!(
        text(&known),
        format!(
            "  10.0.0.1\t {k}  old comment\r\n@revoked web1 {k}\n@cert-authority * {k}\nweb1 {new}\n",
            k = KEYS[0],
            new = KEYS[1]
        )
    );
    assert_eq!(known.find(&host("10.0.0.1")).keys, [key(0)]);
}

#[test]
fn a_pattern_that_names_the_host_is_not_rewritten_but_told() {
    let before = format!("web*,!web9 {}\n", KEYS[0]);
    let mut known = KnownHosts::parse(before.as_bytes());
    let shared = known.replace(&host("web1"), &[key(1)]).unwrap_err();
    assert_eq!(shared.line, 1);
    assert_eq!(text(&known), before);
    known.replace(&host("web1"), &[key(0)]).unwrap();
    assert_eq!(text(&known), before, "it has that key already");
    known.forget(&host("web1"));
    assert_eq!(text(&known), before);
}

#[test]
fn verdicts_are_worst_first() {
    let known = KnownHosts::parse(
        format!(
            "web1 {}\n@revoked * {}\nweb2 {}\n",
            KEYS[0], KEYS[1], KEYS[1]
        )
        .as_bytes(),
    );
    assert_eq!(known.verdict(&host("web1"), &key(0)), Verdict::Known);
    assert_eq!(
        known.verdict(&host("web1"), &key(2)),
        Verdict::Changed {
            pinned: vec![key(0)]
        },
        "another type is another key"
    );
    assert_eq!(known.verdict(&host("web2"), &key(1)), Verdict::Revoked);
    assert_eq!(known.verdict(&host("web3"), &key(0)), Verdict::Unknown);
}

#[test]
fn one_authority_is_trusted_and_once() {
    let theirs = format!(
        "@cert-authority * {0}\n@cert-authority any,more {0}\n",
        KEYS[1]
    );
    let mut known = KnownHosts::parse(theirs.as_bytes());
    known.trust_only(&host("any"), Some(&key(2)));
    known.trust_only(&host("any"), Some(&key(0)));
    known.trust_only(&host("any"), Some(&key(0)));
    assert_eq!(
        text(&known),
        format!("{theirs}@cert-authority any {}\n", KEYS[0])
    );
    assert_eq!(
        known.find(&host("any")).authorities,
        [key(1), key(1), key(0)]
    );
    assert_eq!(known.verdict(&host("any"), &key(1)), Verdict::Unknown);
    known.trust_only(&host("any"), None);
    assert_eq!(text(&known), theirs);
}

fn ssh_keygen(dir: &std::path::Path, args: &[&str]) -> String {
    let program = [
        "/usr/bin/ssh-keygen",
        "/usr/local/bin/ssh-keygen",
        "/opt/homebrew/bin/ssh-keygen",
    ]
    .into_iter()
    .find(|path| std::path::Path::new(path).exists())
    .expect(
        "`ssh-keygen` is missing: install OpenSSH's client (Debian: `apt install openssh-client`)",
    );
    let call = Invocation::new(program, dir).args(args);
    let ended = collect(
        &RealSpawner::direct(),
        &call,
        &How::reader(),
        Duration::from_secs(60),
        &mut || false,
    )
    .unwrap();
    String::from_utf8(ended.stdout).unwrap()
}

/// The numbers of the lines that `ssh-keygen -F` says are about a host.
fn lines_by_ssh_keygen(dir: &std::path::Path, host: &HostPort) -> BTreeSet<usize> {
    let told = ssh_keygen(dir, &["-F", host.as_str(), "-f", "known_hosts"]);
    told.lines()
        .filter(|line| line.starts_with('#'))
        .filter_map(|line| {
            let (_, after) = line.split_once(" found: line ")?;
            after.split(' ').next()?.parse().ok()
        })
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own file: half of it harms nobody"
)]
fn write(path: &std::path::Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

/// Names that often meet: the same few parts.
fn a_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "web1",
        "web2",
        "WEB1",
        "10.0.0.1",
        "::1",
        "web1.example.org",
    ])
    .prop_map(str::to_owned)
}

fn a_host() -> impl Strategy<Value = HostPort> {
    (a_name(), prop::sample::select(vec![22, 2222]))
        .prop_map(|(name, port)| HostPort::new(&name, port))
}

fn a_line() -> impl Strategy<Value = String> {
    let pattern = prop_oneof![
        a_host().prop_map(|host| host.to_string()),
        prop::sample::select(vec![
            "web*", "!web1", "web?", "[web1]:*", "*", "!*.org", "WEB2"
        ])
        .prop_map(str::to_owned),
    ];
    let marker = prop::sample::select(vec!["", "", "", "@cert-authority ", "@revoked\t"]);
    let entry = (
        marker,
        prop::collection::vec(pattern, 1..4),
        0..3usize,
        prop::sample::select(vec!["", " comment", "\tops@x  y", "\r"]),
    )
        .prop_map(|(marker, patterns, key, end)| {
            format!("{marker}{} {}{end}", patterns.join(","), KEYS[key])
        });
    prop_oneof![
        6 => entry,
        1 => prop::sample::select(vec!["", "# web1", "web1", "web1 ssh-ed25519", "@wrong web1 x y", "\t", "é"])
            .prop_map(str::to_owned),
    ]
}

fn a_file() -> impl Strategy<Value = String> {
    (prop::collection::vec(a_line(), 0..6), any::<bool>()).prop_map(|(lines, has_end)| {
        let mut text = lines.join("\n");
        if has_end && !text.is_empty() {
            text.push('\n');
        }
        text
    })
}

proptest! {
    #[test]
    fn what_is_read_is_written_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(KnownHosts::parse(&bytes).to_bytes(), bytes);
    }

    #[test]
    fn replacing_gives_one_host_its_key_and_no_other_host_another(
        file in a_file(), of in a_host(), other in a_host(), new in 0..3usize,
    ) {
        let before = KnownHosts::parse(file.as_bytes());
        let mut after = before.clone();
        if after.replace(&of, &[key(new)]).is_err() {
            prop_assert_eq!(after, before);
            return Ok(());
        }
        let found = after.find(&of);
        prop_assert!(!found.keys.is_empty() && found.keys.iter().all(|pinned| *pinned == key(new)));
        let (was, is) = (before.find(&other), after.find(&other));
        if of != other {
            prop_assert_eq!(&was.keys, &is.keys);
        }
        prop_assert_eq!(was.revoked, is.revoked);
        prop_assert_eq!(was.authorities, is.authorities);
        let again = KnownHosts::parse(&after.to_bytes());
        prop_assert_eq!(&again, &after);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_lines_about_a_host_are_those_that_ssh_keygen_finds(file in a_file(), of in a_host()) {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("known_hosts"), file.as_bytes());
        let ours: BTreeSet<usize> = KnownHosts::parse(file.as_bytes()).find(&of).lines.into_iter().collect();
        prop_assert_eq!(ours, lines_by_ssh_keygen(dir.path(), &of), "{}", file);
    }
}

/// Case H3: hashed lines are found under `[host]:port`, and replaced.
#[test]
fn hashed_lines_are_found_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let plain = format!(
        "[web1]:2222 {}\nweb1 {}\n10.0.0.1 {}\n",
        KEYS[0], KEYS[1], KEYS[0]
    );
    write(&dir.path().join("known_hosts"), plain.as_bytes());
    ssh_keygen(dir.path(), &["-H", "-f", "known_hosts"]);
    let hashed = std::fs::read(dir.path().join("known_hosts")).unwrap();
    assert!(hashed.starts_with(b"|1|"), "ssh-keygen hides every name");
    let mut known = KnownHosts::parse(&hashed);
    let odd = HostPort::new("WEB1", 2222);
    assert_eq!(known.find(&odd).keys, [key(0)]);
    assert_eq!(known.find(&host("web1")).keys, [key(1)]);
    known.replace(&odd, &[key(2)]).unwrap();
    assert_eq!(known.find(&odd).keys, [key(2)]);
    assert_eq!(known.find(&host("web1")).keys, [key(1)]);
    let others: Vec<&[u8]> = hashed
        .split_inclusive(|byte| *byte == b'\n')
        .skip(1)
        .collect();
    assert!(
        known.to_bytes().starts_with(&others.concat()),
        "byte for byte"
    );
}
