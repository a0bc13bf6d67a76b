//! `init`: the plugin cache, lock files, stale data directories. The provider here is any program:
//! `init` checks a package's checksum and runs none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use process::files::write_atomically;
use tofu::{InitFailure, InitInputs, LockFile, LockPolicy, Package, Session, Slot};

use crate::world::*;

crate::tests![
    a_package_is_kept_and_needs_no_registry_again,
    eight_inits_with_a_cold_cache_are_right,
    a_surplus_entry_of_a_committed_lock_file_is_named,
    a_missing_entry_of_a_committed_lock_file_is_named,
    a_recorded_lock_file_keeps_its_versions,
    a_lock_file_from_another_platform_fits_the_kept_copy,
    a_data_directory_that_lost_its_provider_is_mended,
    a_registry_that_is_not_there_is_a_network_fault,
    downloaded_modules_travel_and_need_their_source_no_more,
    local_modules_need_nothing_packed,
    another_port_needs_no_init,
    a_data_directory_with_another_backend_is_refused,
];

const MAIN: &str = r#"
terraform {
  required_providers {
    thing = { source = "example.org/acme/thing" }
  }
}
"#;

fn platform() -> String {
    let arch = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let os = if cfg!(target_os = "macos") {
        "darwin"
    } else {
        "linux"
    };
    format!("{os}_{arch}")
}

/// A mirror with a provider, and the CLI configuration that names it.
fn mirror(dir: &Path, versions: &[&str]) -> PathBuf {
    for version in versions {
        let package = dir.join(format!(
            "mirror/example.org/acme/thing/{version}/{}",
            platform()
        ));
        fs::create_dir_all(&package).unwrap();
        let file = package.join(format!("terraform-provider-thing_v{version}"));
        write_atomically(&file, format!("#!/bin/sh\n# {version}\n").as_bytes(), 0o755).unwrap();
    }
    let config = dir.join("base.tfrc");
    let text = "provider_installation {\n  filesystem_mirror {\n    path = \"mirror\"\n  }\n}\n";
    write_atomically(&config, text.as_bytes(), 0o600).unwrap();
    config
}

fn thing(version: &str) -> Package {
    Package {
        address: "example.org/acme/thing".into(),
        version: version.into(),
        platform: platform(),
    }
}

fn a_package_is_kept_and_needs_no_registry_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let report = world.session(MAIN).init(false).unwrap();
    assert!(!report.was_warm);
    assert_eq!(report.providers, [thing("1.0.0")]);
    let kept = world
        .workshop
        .plugins()
        .path()
        .join(format!("example.org/acme/thing/1.0.0/{}", platform()));
    assert!(kept.symlink_metadata().unwrap().is_dir(), "a real copy");
    let lock = report.lock_file.unwrap();
    assert_eq!(
        LockFile::parse(&lock).unwrap().to_string().into_bytes(),
        lock,
        "OpenTofu's own form"
    );

    fs::remove_dir_all(dir.path().join("mirror")).unwrap();
    // The next call comes with the lock file: the same data directory is warm for it.
    let mut settings = world.settings(MAIN);
    settings.lock_file = LockPolicy::Exactly(lock.clone());
    let report = Session::open(settings.clone())
        .unwrap()
        .init(false)
        .unwrap();
    assert!(report.was_warm && report.lock_file.as_ref() == Some(&lock));
    // So does another machine's: only the cache has the provider now.
    settings.init_inputs = InitInputs::new([("x", b"another".as_slice())], []);
    let report = Session::open(settings).unwrap().init(false).unwrap();
    assert!(!report.was_warm);
    let link = report.data_dir.join(format!(
        "providers/example.org/acme/thing/1.0.0/{}",
        platform()
    ));
    assert_eq!(fs::read_link(link).unwrap(), kept);
}

fn eight_inits_with_a_cold_cache_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let settings: Vec<_> = (0..8)
        .map(|n| {
            let mut settings = world.settings(MAIN);
            settings.step = world.workshop.step(&format!("1a/s{n}").parse().unwrap());
            settings
                .step
                .place(
                    Slot::Tree,
                    "d",
                    &["root"],
                    [("root/main.tf", 0o600, MAIN.as_bytes())],
                )
                .unwrap();
            settings
        })
        .collect();
    std::thread::scope(|scope| {
        let inits: Vec<_> = settings
            .into_iter()
            .map(|settings| scope.spawn(|| Session::open(settings).unwrap().init(false).unwrap()))
            .collect();
        let locks: Vec<_> = inits
            .into_iter()
            .map(|init| init.join().unwrap().lock_file.unwrap())
            .collect();
        assert!(locks.windows(2).all(|pair| pair[0] == pair[1]));
    });
    let file = format!(
        "example.org/acme/thing/1.0.0/{}/terraform-provider-thing_v1.0.0",
        platform()
    );
    let file = world.workshop.plugins().path().join(file);
    assert_eq!(fs::read_to_string(&file).unwrap(), "#!/bin/sh\n# 1.0.0\n");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o100,
        0o100
    );
    assert_eq!(
        fs::read_dir(world.workshop.root().join("plugins-incoming"))
            .unwrap()
            .count(),
        0
    );
}

fn a_surplus_entry_of_a_committed_lock_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let lock = world.session(MAIN).init(false).unwrap().lock_file.unwrap();
    let mut lock = LockFile::parse(&lock).unwrap();
    let entry = lock.entries["example.org/acme/thing"].clone();
    lock.entries.insert("example.org/acme/old".into(), entry);
    let mut settings = world.settings(MAIN);
    settings.lock_file = LockPolicy::Exactly(lock.to_string().into_bytes());
    let error = Session::open(settings).unwrap().init(false).unwrap_err();
    let failure = error.init_failure().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(
        *failure,
        InitFailure::LockFile {
            surplus: vec!["example.org/acme/old".into()],
            missing: vec![]
        },
        "{error}"
    );
    assert!(error.to_string().contains("example.org/acme/old"));
}

fn a_missing_entry_of_a_committed_lock_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let mut settings = world.settings(MAIN);
    settings.lock_file = LockPolicy::Exactly(LockFile::default().to_string().into_bytes());
    let error = Session::open(settings).unwrap().init(false).unwrap_err();
    assert_eq!(
        error.init_failure(),
        Some(&InitFailure::LockFile {
            surplus: vec![],
            missing: vec!["example.org/acme/thing".into()]
        }),
        "{error}"
    );
}

fn a_recorded_lock_file_keeps_its_versions() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let lock = world.session(MAIN).init(false).unwrap().lock_file.unwrap();
    mirror(dir.path(), &["1.1.0"]);
    let mut settings = world.settings(MAIN);
    settings.init_inputs = InitInputs::new([("x", b"another".as_slice())], []);
    settings.lock_file = LockPolicy::Recorded(lock.clone());
    let session = Session::open(settings).unwrap();
    assert_eq!(session.init(false).unwrap().providers, [thing("1.0.0")]);
    let report = session.init(true).unwrap();
    assert!(
        report.providers.contains(&thing("1.1.0")),
        "{:?}",
        report.providers
    );
    let now = LockFile::parse(&report.lock_file.unwrap()).unwrap();
    assert_eq!(now.entries["example.org/acme/thing"].version, "1.1.0");
    // What was applied before still has its own directory; what is applied now has one too.
    for (lock, version, is_warm) in [
        (lock, "1.0.0", true),
        (now.to_string().into_bytes(), "1.1.0", true),
    ] {
        let mut settings = world.settings(MAIN);
        settings.init_inputs = InitInputs::new([("x", b"another".as_slice())], []);
        settings.lock_file = LockPolicy::Exactly(lock.clone());
        let report = Session::open(settings).unwrap().init(false).unwrap();
        assert_eq!(
            (report.was_warm, report.providers),
            (is_warm, vec![thing(version)])
        );
        assert_eq!(report.lock_file, Some(lock));
    }
}

fn a_lock_file_from_another_platform_fits_the_kept_copy() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let lock = world.session(MAIN).init(false).unwrap().lock_file.unwrap();
    // As if the package had been proven by the archive's checksum, which a kept copy cannot show.
    let approvals = world.workshop.root().join("plugin-approvals");
    let approval = fs::read_dir(&approvals)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read_to_string(&approval).unwrap();
    let archive = format!("zh:{}", "a".repeat(64));
    write_atomically(
        &approval,
        text.replace("\"hashes\":[", &format!("\"hashes\":[\"{archive}\","))
            .as_bytes(),
        0o600,
    )
    .unwrap();
    let mut foreign = LockFile::parse(&lock).unwrap();
    let entry = foreign.entries.get_mut("example.org/acme/thing").unwrap();
    entry.hashes = [
        archive,
        "h1:Zm9yZWlnbmZvcmVpZ25mb3JlaWduZm9yZWlnbmZvcmU=".to_owned(),
    ]
    .into();
    let mut settings = world.settings(MAIN);
    settings.init_inputs = InitInputs::new([("x", b"another".as_slice())], []);
    settings.lock_file = LockPolicy::Exactly(foreign.to_string().into_bytes());
    Session::open(settings.clone())
        .unwrap()
        .init(false)
        .unwrap();
    // Without that proof it is refused.
    fs::remove_file(&approval).unwrap();
    settings.init_inputs = InitInputs::new([("x", b"one more".as_slice())], []);
    Session::open(settings).unwrap().init(false).unwrap_err();
}

fn a_data_directory_that_lost_its_provider_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_cli_config(Some(&mirror(dir.path(), &["1.0.0"])));
    let session = world.session(MAIN);
    let report = session.init(false).unwrap();
    fs::remove_dir_all(report.data_dir.join("providers")).unwrap();
    let validation = world.session(MAIN).validate();
    // The provider is no program that speaks the protocol; what matters is that `init` ran again.
    assert!(report.data_dir.join("providers").is_dir(), "{validation:?}");
}

fn a_registry_that_is_not_there_is_a_network_fault() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("base.tfrc");
    // A network mirror on a port where nobody listens.
    let text =
        "provider_installation {\n  network_mirror {\n    url = \"https://127.0.0.1:1/\"\n  }\n}\n";
    write_atomically(&config, text.as_bytes(), 0o600).unwrap();
    let world = World::with_cli_config(Some(&config));
    let session = world
        .session(MAIN)
        .with_init_pauses(vec![std::time::Duration::from_millis(1); 2]);
    let error = session.init(false).unwrap_err();
    let logs = fs::read_dir(world.workshop.logs(&"1a/edge".parse().unwrap()))
        .unwrap()
        .count();
    assert_eq!(logs, 3, "tried three times");
    assert_eq!(error.init_failure(), Some(&InitFailure::Network), "{error}");
}

const WITH_MODULE: &str =
    "module \"far\" {\n  source = \"@SOURCE@\"\n}\noutput \"o\" { value = module.far.o }\n";

fn downloaded_modules_travel_and_need_their_source_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("far");
    fs::create_dir(&source).unwrap();
    write_atomically(
        &source.join("main.tf"),
        b"output \"o\" { value = 7 }\n",
        0o600,
    )
    .unwrap();
    let main = WITH_MODULE.replace("@SOURCE@", source.to_str().unwrap());
    let world = World::new();
    let session = world.session(&main);
    let files = session.downloaded_modules().unwrap();
    assert!(
        files.iter().any(|file| file.path == "far/main.tf"),
        "{files:?}"
    );
    let list = files
        .iter()
        .find(|file| file.path == "modules.json")
        .unwrap();
    assert!(!String::from_utf8_lossy(&list.bytes).contains(world.dir.path().to_str().unwrap()));
    fs::remove_dir_all(&source).unwrap();

    let other = World::new();
    other.session(&main).init(false).unwrap_err();
    let other = World::new();
    let session = Session::open(other.settings(&main))
        .unwrap()
        .with_downloaded_modules(files.clone());
    let applied = session.apply(tofu::ApplyWhat::Direct).unwrap();
    assert_eq!(applied.outcome.outputs["o"].value, Some(7.into()));

    // A working directory that moves takes its modules along.
    let moved = other.dir.path().join("moved");
    fs::rename(other.workshop.root(), &moved).unwrap();
    let mut there = World::new();
    there.workshop = tofu::Workshop::open(&moved, None).unwrap();
    let session = Session::open(there.settings(&main))
        .unwrap()
        .with_downloaded_modules(files);
    let report = session.init(false).unwrap();
    assert!(!report.was_warm && report.data_dir.starts_with(&moved));
    assert!(session.validate().unwrap().is_empty());
}

fn local_modules_need_nothing_packed() {
    let world = World::new();
    let files = [
        (
            "root/main.tf",
            "module \"near\" {\n  source = \"../modules/near\"\n}\n",
        ),
        ("modules/near/main.tf", "output \"o\" { value = 1 }\n"),
    ];
    let session = Session::open(world.settings_of(&files)).unwrap();
    assert!(session.downloaded_modules().unwrap().is_empty());
    // The tree beside shares the data directory.
    let mut settings = world.settings_of(&files);
    settings.slot = Slot::Beside;
    let bytes = files
        .iter()
        .map(|(path, text)| (*path, 0o600, text.as_bytes()));
    settings
        .step
        .place(Slot::Beside, "beside", &["root"], bytes)
        .unwrap();
    let beside = Session::open(settings).unwrap();
    assert!(beside.init(false).unwrap().was_warm);
    assert!(beside.validate().unwrap().is_empty());
}

fn a_data_directory_with_another_backend_is_refused() {
    let world = World::new();
    let report = world.session("").init(false).unwrap();
    let file = report.data_dir.join("terraform.tfstate");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"http\""), "{text}");
    let local = text.replace("\"type\": \"http\"", "\"type\": \"local\"");
    assert_ne!(text, local);
    write_atomically(&file, local.as_bytes(), 0o600).unwrap();
    fs::remove_file(report.data_dir.join("rebuild-warm")).unwrap();
    let error = world.session("").init(false).unwrap_err();
    assert_eq!(
        error.init_failure(),
        Some(&InitFailure::Backend {
            found: Some("local".into())
        }),
        "nothing is migrated: {error}"
    );
}

fn another_port_needs_no_init() {
    let mut world = World::new();
    let main = "resource \"terraform_data\" \"a\" {}\n";
    world.session(main).apply(tofu::ApplyWhat::Direct).unwrap();
    let state = world.backend.held().state.clone();
    world.backend = crate::backend::FakeBackend::start();
    assert!(
        world.session(main).state_pull().unwrap().is_none(),
        "nothing there yet"
    );
    world.backend.held().state = state;
    let session = world.session(main);
    assert!(session.init(false).unwrap().was_warm);
    let plan = session
        .plan(tofu::PlanMode::Normal, &tofu::PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.real_changes().count(), 0);
    let logs = fs::read_dir(world.workshop.logs(&"1a/edge".parse().unwrap())).unwrap();
    let n_inits = logs
        .filter(|log| {
            log.as_ref()
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .contains("init")
        })
        .count();
    assert_eq!(n_inits, 1);
}
