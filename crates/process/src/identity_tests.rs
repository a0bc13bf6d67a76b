//! Tests of who a process is.

use super::*;

#[test]
fn this_process_is_alive_and_its_identity_survives_a_marker() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("marker");
    assert_eq!(Identity::read_marker(&path).unwrap(), None);
    let me = Identity::of_self().unwrap();
    me.write_marker(&path).unwrap();
    assert_eq!(Identity::read_marker(&path).unwrap(), Some(me.clone()));
    assert_eq!(me.liveness(), Liveness::Alive);
    assert_eq!(me.pid, std::process::id());
}

#[test]
fn a_damaged_marker_is_an_error_and_not_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("marker");
    write_passing(&path, b"{\"pid\":", 0o600).unwrap();
    assert!(matches!(
        Identity::read_marker(&path),
        Err(IdentityError::Damaged { .. })
    ));
}

#[test]
fn a_pid_that_is_anothers_by_now_is_dead() {
    let mut earlier = Identity::of_self().unwrap();
    earlier.start_time -= 1;
    assert_eq!(earlier.liveness(), Liveness::Dead);
}

#[test]
fn another_boot_or_machine_or_namespace_proves_nothing() {
    let me = Identity::of_self().unwrap();
    let other = |change: fn(&mut Identity)| {
        let mut identity = me.clone();
        change(&mut identity);
        identity.liveness()
    };
    assert_eq!(other(|i| i.boot_id.push('x')), Liveness::OtherBoot);
    assert_eq!(other(|i| i.machine_id.push('x')), Liveness::OtherMachine);
    assert_eq!(other(|i| i.pid_namespace.push('x')), Liveness::OtherMachine);
    // A clone in another namespace and another boot is told by its boot first.
    assert_eq!(
        other(|i| (i.pid, i.boot_id) = (1, String::new())),
        Liveness::OtherBoot
    );
}

#[test]
fn waiting_for_what_cannot_be_seen_from_here_ends_at_once() {
    let mut elsewhere = Identity::of_self().unwrap();
    elsewhere.boot_id = "another".into();
    let waited = wait_until_dead(&elsewhere, &mut || panic!("never asked"));
    assert_eq!(waited, Waited::Unseen(Liveness::OtherBoot));
}

#[test]
fn waiting_for_the_living_ends_when_the_caller_says_so() {
    let me = Identity::of_self().unwrap();
    let mut n_asked = 0;
    let waited = wait_until_dead(&me, &mut || {
        n_asked += 1;
        n_asked < 3
    });
    assert_eq!((waited, n_asked), (Waited::GaveUp, 3));
}

#[cfg(target_os = "linux")]
#[test]
fn a_programs_name_may_look_like_fields() {
    let text = b"812 (evil) R 1 ) Z 1 77 812 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 0 0\n";
    let stat = system::parse_stat(text).unwrap();
    assert_eq!(
        stat,
        Stat {
            is_dead: true,
            group: 77,
            start_time: 4711
        }
    );
    assert_eq!(system::parse_stat(b"812 (cut) S 1"), None);
}
