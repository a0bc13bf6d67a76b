//! Tests of directories in memory.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A place in memory that no other test sweeps.
fn place() -> MemoryDir {
    MemoryDir::create("test").unwrap()
}

/// The identity of nobody any more.
fn dead() -> Identity {
    let mut identity = Identity::of_self().unwrap();
    identity.start_time -= 1;
    identity
}

#[test]
fn files_lie_in_memory_for_this_user_alone_and_go_with_the_directory() {
    let dir = MemoryDir::create("values").unwrap();
    assert!(is_memory(dir.path()));
    assert_eq!(mode_of(dir.path()), 0o700);
    let file = dir.write("values.tfvars.json", b"{}").unwrap();
    assert_eq!(mode_of(&file), 0o600);
    assert_eq!(std::fs::read(&file).unwrap(), b"{}");
    std::fs::create_dir(dir.path().join("inner")).unwrap();
    let path = dir.path().to_owned();
    drop(dir);
    assert!(!path.exists());
}

#[test]
fn a_file_tells_whose_it_is() {
    let dir = MemoryDir::create("values").unwrap();
    let file = dir.write("output", b"").unwrap();
    let me = Identity::of_self().unwrap();
    assert_eq!(MemoryDir::owner_of(&file), Some(me));
    assert_eq!(MemoryDir::owner_of(Path::new("/dev/null")), None);
    assert_eq!(MemoryDir::owner_of(Path::new("/")), None);
}

#[test]
fn a_place_on_a_disk_is_refused() {
    // The build directory; where even that is in memory, `/proc` is at least no tmpfs.
    let on_disk = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    for place in [
        on_disk.as_path(),
        Path::new("/proc"),
        Path::new("/no/such/place"),
    ] {
        if place == on_disk && is_memory(place) {
            continue;
        }
        let error = MemoryDir::create_in(place, "values").unwrap_err();
        assert!(
            matches!(&error, MemoryError::NotMemory { path } if path == place),
            "{error}"
        );
        assert!(error.to_string().contains("must not lie on a disk"));
    }
}

#[test]
fn a_link_into_a_disk_is_seen_through() {
    let place = place();
    let link = place.path().join("link");
    std::os::unix::fs::symlink("/proc", &link).unwrap();
    assert!(matches!(
        MemoryDir::create_in(&link, "x"),
        Err(MemoryError::NotMemory { .. })
    ));
}

#[test]
fn names_stay_inside() {
    let dir = place();
    for name in ["", ".", "..", "a/b", "../x", "/etc/x", OWNER] {
        assert!(
            matches!(dir.write(name, b""), Err(MemoryError::BadName { .. })),
            "{name}"
        );
    }
    assert!(matches!(
        MemoryDir::create("a/b"),
        Err(MemoryError::BadName { .. })
    ));
}

#[test]
fn a_kept_directory_stays_and_can_be_taken_over() {
    let dir = MemoryDir::create("kept").unwrap();
    dir.keep();
    let path = dir.path().to_owned();
    drop(dir);
    dead().write_marker(&path.join(OWNER)).unwrap();
    let dir = MemoryDir::at(&path).unwrap();
    let owner = Identity::read_marker(&path.join(OWNER)).unwrap();
    assert_eq!(
        owner,
        Some(Identity::of_self().unwrap()),
        "a sweep spares it now"
    );
    dir.remove().unwrap();
    assert!(!path.exists());
    assert!(MemoryDir::at(&path).is_err());
    assert!(matches!(
        MemoryDir::at("/dev/shm"),
        Err(MemoryError::NotOurs { .. })
    ));
}

#[test]
fn a_sweep_takes_what_the_proven_dead_left_and_nothing_else() {
    let place = place();
    let made = |owner: Option<Identity>| {
        let dir = MemoryDir::create_in(place.path(), "swept").unwrap();
        dir.keep();
        let marker = dir.path().join(OWNER);
        match owner {
            Some(owner) => owner.write_marker(&marker).unwrap(),
            None => std::fs::remove_file(&marker).unwrap(),
        }
        dir.path().to_owned()
    };
    let mut elsewhere = dead();
    elsewhere.pid_namespace.push('x');
    let living = made(Some(Identity::of_self().unwrap()));
    let of_another_namespace = made(Some(elsewhere));
    let of_the_dead = made(Some(dead()));
    let still_needed = made(Some(dead()));
    let ownerless = made(None);
    let ownerless_with_files = made(None);
    std::fs::File::create(ownerless_with_files.join("file")).unwrap();
    let not_ours = place.path().join("somebody-elses");
    std::fs::create_dir(&not_ours).unwrap();
    let link = place.path().join("rebuild-link");
    std::os::unix::fs::symlink(&of_the_dead, &link).unwrap();

    let mut removed = sweep_in(place.path(), &|path, _| path == still_needed).unwrap();
    removed.sort();
    let mut expected = [of_the_dead, ownerless];
    expected.sort();
    assert_eq!(removed, expected);
    for path in [
        &living,
        &of_another_namespace,
        &still_needed,
        &ownerless_with_files,
        &not_ours,
    ] {
        assert!(path.exists(), "{}", path.display());
    }
    assert!(link.symlink_metadata().is_ok());
}

#[test]
fn a_damaged_owner_is_told_and_the_others_are_swept_all_the_same() {
    let place = place();
    let path_of = |owner: &[u8]| {
        let dir = MemoryDir::create_in(place.path(), "swept").unwrap();
        dir.keep();
        write_passing(&dir.path().join(OWNER), owner, 0o600).unwrap();
        dir.path().to_owned()
    };
    let damaged = path_of(b"{");
    let swept = path_of(&serde_json::to_vec(&dead()).unwrap());
    let error = sweep_in(place.path(), &|_, _| false).unwrap_err();
    assert!(matches!(error, MemoryError::Owner { path, .. } if path == damaged));
    assert!(damaged.exists() && !swept.exists());
}
