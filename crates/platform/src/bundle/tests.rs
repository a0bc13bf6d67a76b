//! Bundles: what is packed, that it comes back, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use process::RealSpawner;
use proptest::prelude::*;

use super::*;

fn file(path: &str, text: &str) -> BundleFile {
    BundleFile {
        path: path.to_owned(),
        mode: 0o644,
        bytes: text.as_bytes().to_vec(),
    }
}

fn put(root: &Path, path: &str, text: &str) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    process::files::write_atomically(&full, text.as_bytes(), 0o644).unwrap();
}

fn paths(bundle: &Bundle) -> Vec<&str> {
    bundle
        .files()
        .iter()
        .map(|file| file.path.as_str())
        .collect()
}

fn platform() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "rebuild.toml", "[platform]\n");
    put(dir.path(), "targets/drill.toml", "[values]\n");
    put(dir.path(), ".gitignore", "*.tfstate\n/deleted\n");
    put(dir.path(), "phases/0/.terraform.lock.hcl", "# lock\n");
    put(dir.path(), "phases/0/terraform.tfstate", "{}");
    put(dir.path(), "phases/0/.terraform/modules/x", "x");
    put(dir.path(), "bin/run", "#!/bin/sh\n");
    fs::set_permissions(
        dir.path().join("bin/run"),
        fs::Permissions::from_mode(0o775),
    )
    .unwrap();
    dir
}

const PACKED: [&str; 4] = [
    ".gitignore",
    "bin/run",
    "phases/0/.terraform.lock.hcl",
    "rebuild.toml",
];

/// Calls the real git with an environment of its own.
struct Repository {
    env: BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    spawner: RealSpawner,
}

impl Repository {
    fn init(at: &Path) -> Self {
        let path = std::env::vars_os()
            .find(|(name, _)| name == "PATH")
            .map(|(_, value)| value)
            .unwrap();
        let mut env = BTreeMap::from([
            ("PATH".into(), path),
            ("HOME".into(), at.join(".git").into_os_string()),
        ]);
        for who in ["AUTHOR", "COMMITTER"] {
            env.insert(format!("GIT_{who}_NAME").into(), "a".into());
            env.insert(format!("GIT_{who}_EMAIL").into(), "a@b".into());
        }
        let repository = Self {
            env,
            spawner: RealSpawner::direct(),
        };
        repository.run(at, &["init", "-q"]);
        repository
    }

    fn run(&self, at: &Path, args: &[&str]) {
        let git = process::find_program(
            Path::new("git"),
            self.env
                .get(std::ffi::OsStr::new("PATH"))
                .map(|path| path.as_os_str()),
            at,
        )
        .unwrap();
        let mut call = process::Invocation::new(git, at).args(args.iter().copied());
        call.env = self.env.clone();
        let ended = process::collect(
            &self.spawner,
            &call,
            &process::How::reader(),
            std::time::Duration::from_secs(60),
            &mut || false,
        )
        .unwrap();
        assert!(
            ended.exit.is_success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }

    fn git(&self) -> Git<'_> {
        Git::find(&self.spawner, &self.env)
    }
}

#[test]
fn without_git_the_same_files_are_packed() {
    let dir = platform();
    let bundle = Bundle::pack(dir.path(), &NoGit).unwrap();
    assert_eq!(paths(&bundle), PACKED);
    assert_eq!(bundle.file("bin/run").unwrap().mode, 0o755);
    assert_eq!(bundle.file("rebuild.toml").unwrap().mode, 0o644);
}

#[test]
fn git_says_what_it_would_commit() {
    let dir = platform();
    let repository = Repository::init(dir.path());
    put(dir.path(), "gone", "x");
    repository.run(dir.path(), &["add", "--", "gone", "rebuild.toml"]);
    fs::remove_file(dir.path().join("gone")).unwrap();
    let bundle = Bundle::pack(dir.path(), &repository.git()).unwrap();
    assert_eq!(paths(&bundle), PACKED);
    assert_eq!(bundle, Bundle::pack(dir.path(), &NoGit).unwrap());
}

#[test]
fn a_platform_that_an_outer_repository_ignores_is_packed_all_the_same() {
    let outer = tempfile::tempdir().unwrap();
    let repository = Repository::init(outer.path());
    put(outer.path(), ".gitignore", "lab/\n");
    put(outer.path(), "lab/rebuild.toml", "");
    let bundle = Bundle::pack(&outer.path().join("lab"), &repository.git()).unwrap();
    assert_eq!(paths(&bundle), ["rebuild.toml"]);
}

#[test]
fn git_tells_the_commit_and_whether_all_is_committed() {
    let dir = platform();
    let repository = Repository::init(dir.path());
    assert_eq!(repository.git().state(dir.path()).unwrap(), None);
    repository.run(dir.path(), &["add", "."]);
    repository.run(dir.path(), &["commit", "-qm", "x"]);
    let clean = repository.git().state(dir.path()).unwrap().unwrap();
    assert!(!clean.dirty && clean.commit.len() == 40);
    put(dir.path(), "new", "x");
    assert!(repository.git().state(dir.path()).unwrap().unwrap().dirty);
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(repository.git().files(elsewhere.path()).unwrap(), None);
}

#[test]
fn links_are_resolved_to_what_they_lead_to() {
    let dir = platform();
    symlink("../rebuild.toml", dir.path().join("phases/copy")).unwrap();
    symlink("0", dir.path().join("phases/1")).unwrap();
    let bundle = Bundle::pack(dir.path(), &NoGit).unwrap();
    assert_eq!(bundle.file("phases/copy").unwrap().bytes, b"[platform]\n");
    assert_eq!(
        bundle.file("phases/1/.terraform.lock.hcl").unwrap().bytes,
        b"# lock\n"
    );
    assert!(
        bundle.file("phases/1/terraform.tfstate").is_none(),
        "what is ignored stays ignored"
    );
}

#[test]
fn links_that_lead_out_nowhere_or_round_are_refused() {
    let dir = platform();
    let link = dir.path().join("link");
    symlink("../../etc/passwd", &link).unwrap();
    assert!(matches!(
        Bundle::pack(dir.path(), &NoGit).unwrap_err(),
        BundleError::Outside { .. } | BundleError::Dangling { .. }
    ));
    for (to, wanted) in [
        ("/etc/hostname", "Outside"),
        ("/etc", "Outside"),
        ("nothing", "Dangling"),
        (".", "LinkLoop"),
        ("link", "Io"),
    ] {
        fs::remove_file(&link).unwrap();
        symlink(to, &link).unwrap();
        let error = Bundle::pack(dir.path(), &NoGit).unwrap_err();
        assert!(format!("{error:?}").starts_with(wanted), "{to}: {error:?}");
    }
}

#[test]
fn links_of_two_directories_into_each_other_end() {
    let dir = platform();
    fs::create_dir_all(dir.path().join("a")).unwrap();
    fs::create_dir_all(dir.path().join("b")).unwrap();
    symlink("../b", dir.path().join("a/b")).unwrap();
    symlink("../a", dir.path().join("b/a")).unwrap();
    assert!(matches!(
        Bundle::pack(dir.path(), &NoGit),
        Err(BundleError::LinkLoop { .. })
    ));
}

#[test]
fn time_owner_and_order_do_not_change_the_digest() {
    let one = Bundle::from_files(vec![file("b", "2"), file("a", "1")]).unwrap();
    let two = Bundle::from_files(vec![
        file("a", "1"),
        BundleFile {
            mode: 0o600,
            ..file("b", "2")
        },
    ])
    .unwrap();
    assert_eq!(one.digest(), two.digest());
    assert_eq!(one.to_archive().unwrap(), two.to_archive().unwrap());
    let other = Bundle::from_files(vec![
        file("a", "1"),
        BundleFile {
            mode: 0o700,
            ..file("b", "2")
        },
    ])
    .unwrap();
    assert_ne!(one.digest(), other.digest());
}

#[test]
fn definitions_are_read_from_a_bundle() {
    let bundle = Bundle::from_files(vec![file("a/b/c", "x"), file("rebuild.toml", "y")]).unwrap();
    assert_eq!(
        bundle.read("a/b/../b/c").unwrap().as_deref(),
        Some(b"x".as_slice())
    );
    assert_eq!(
        bundle.entries("a").unwrap().unwrap(),
        [Entry {
            name: "b".into(),
            is_dir: true
        }]
    );
    assert!(bundle.read("../x").is_err());
}

/// Packs entries as anybody could, with no check.
fn raw(entries: &[(&str, tar::EntryType)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(0);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
    }
    zstd::stream::encode_all(builder.into_inner().unwrap().as_slice(), 3).unwrap()
}

#[test]
fn hostile_archives_are_refused() {
    use tar::EntryType::{Directory, Fifo, Link, Regular, Symlink};
    for (entries, what) in [
        (vec![("/etc/passwd", Regular)], "absolute"),
        (vec![("../x", Regular)], "above"),
        (vec![("a/../../x", Regular)], "above, hidden"),
        (vec![("a//b", Regular)], "empty part"),
        (vec![(".git/hooks/x", Regular)], "git"),
        (vec![("a", Symlink)], "link"),
        (vec![("a", Link)], "hard link"),
        (vec![("a", Fifo)], "pipe"),
        (vec![("a", Directory)], "directory"),
        (vec![("a", Regular), ("a", Regular)], "twice"),
        (vec![("a", Regular), ("a/b", Regular)], "file and directory"),
        (vec![("b", Regular), ("a", Regular)], "order"),
    ] {
        assert!(Bundle::from_archive(&raw(&entries)).is_err(), "{what}");
    }
    assert!(Bundle::from_archive(b"not zstd").is_err());
    assert!(Bundle::from_archive(b"").is_err());
}

#[test]
fn an_archive_that_unpacks_without_end_is_refused() {
    let zeros = zstd::stream::encode_all(std::io::repeat(0).take(MAX_BYTES * 2), 1).unwrap();
    assert!(zeros.len() < 1_000_000);
    assert!(matches!(
        Bundle::from_archive(&zeros),
        Err(BundleError::TooLarge { .. })
    ));
}

#[test]
fn an_archive_with_something_behind_it_is_refused() {
    let bundle = Bundle::from_files(vec![file("a", "1")]).unwrap();
    let mut plain = archive::tar(bundle.files()).unwrap();
    plain.extend([b'x'; 512]);
    let archive = zstd::stream::encode_all(plain.as_slice(), 3).unwrap();
    assert!(matches!(
        Bundle::from_archive(&archive),
        Err(BundleError::Damaged { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_bundle_comes_back_as_it_was(
        files in prop::collection::btree_map("[a-zé]{1,60}(/[a-z.]{1,2}x){0,3}", (any::<bool>(), prop::collection::vec(any::<u8>(), 0..600)), 0..12)
    ) {
        let files: Vec<BundleFile> = files
            .into_iter()
            .map(|(path, (exec, bytes))| BundleFile { path, mode: if exec { 0o755 } else { 0o644 }, bytes })
            .collect();
        if let Ok(bundle) = Bundle::from_files(files) {
            prop_assert_eq!(Bundle::from_archive(&bundle.to_archive().unwrap()).unwrap(), bundle);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Bundle::from_archive(&bytes);
        let _ = Bundle::from_archive(&zstd::stream::encode_all(bytes.as_slice(), 1).unwrap());
    }
}
