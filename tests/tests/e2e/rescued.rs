//! States that an apply could not write: kept, rescued once, never forked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use store::{LocalStore, StateHeader, Store, Writer, layout, state_file};
use test_support::Ended;

use crate::gate::{Scene, memory_dirs_of, touch, wait_for};

/// Makes the states of phase 0 unwritable, and unreadable, until dropped: a file lies in their directory's place.
struct Obstacle {
    place: PathBuf,
    aside: PathBuf,
}

impl Obstacle {
    fn new(scene: &Scene) -> Self {
        let place = scene.drill.store().join("state/0");
        let aside = scene.drill.world.root().join("aside");
        if place.exists() {
            std::fs::rename(&place, &aside).expect("the states aside");
        }
        std::fs::create_dir_all(place.parent().expect("a parent")).expect("the states' directory");
        touch(&place);
        Self { place, aside }
    }
}

impl Drop for Obstacle {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.place);
        if self.aside.exists() {
            let _ = std::fs::rename(&self.aside, &self.place);
        }
    }
}

/// What holds whenever a state waits for its rescue: nothing goes on, and each command says the one way out.
fn expect_stopped(scene: &Scene, n_made: usize) {
    for args in [&["up", "--resume"][..], &["down"], &["preflight"]] {
        let stopped = scene.run(3, args);
        assert!(
            stopped.stderr.contains("going on would fork the state"),
            "{args:?}: {}",
            stopped.stderr
        );
        assert!(
            stopped.stderr.contains("errored.tfstate"),
            "{args:?}: {}",
            stopped.stderr
        );
    }
    assert_eq!(scene.gate.n_made(), n_made, "made again");
    assert_eq!(
        scene.drill.errored_states().len(),
        1,
        "the state that waits is gone"
    );
}

fn unwritable(scene: &Scene, args: &[&str], n_made: usize) {
    let started = if n_made == 1 {
        scene.start_creating(args)
    } else {
        scene.start_destroying(args)
    };
    let obstacle = Obstacle::new(scene);
    scene.gate.open();
    let failed = started.wait();
    failed.expect_code(1);
    assert!(
        failed.stderr.contains("errored.tfstate"),
        "{}",
        failed.stderr
    );
    assert_eq!(scene.drill.record()["status"], "failed");
    expect_stopped(scene, n_made);
    drop(obstacle);
    let resumed = scene.run(0, &["up", "--resume"]);
    assert!(
        resumed.stderr.contains("was brought to the store"),
        "{}",
        resumed.stderr
    );
    assert_eq!(scene.gate.n_made(), n_made, "made twice");
    scene.expect_built();
    scene.expect_down();
}

/// Cases L7, L8, E10: the state of a target's first apply can't be written.
#[test]
fn the_first_state_that_can_not_be_written_is_rescued() {
    unwritable(&Scene::clear(), &["up"], 1);
}

/// Cases L7, L8, E10: the same, encrypted.
#[test]
fn the_first_encrypted_state_that_can_not_be_written_is_rescued() {
    unwritable(&Scene::encrypted(), &["up"], 1);
}

/// Cases L7, L8, E10: the state of a later apply can't be written.
#[test]
fn a_later_encrypted_state_that_can_not_be_written_is_rescued() {
    let scene = Scene::encrypted();
    scene.run(0, &["up"]);
    scene.drill.write(
        "slow/main.tf",
        &scene.gate.module_and("  triggers_replace = 2"),
    );
    unwritable(&scene, &["up"], 2);
}

/// A backend in the place of a killed call's: it takes writes to the store and never answers them.
struct Mute {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Mute {
    fn start(scene: &Scene, port: u16) -> Self {
        let listener = wait_for("the killed call's port", || {
            TcpListener::bind(("127.0.0.1", port)).ok()
        });
        listener
            .set_nonblocking(true)
            .expect("a listener that can be stopped");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let store = LocalStore::open(scene.drill.store());
        let (never_sent, never) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _never_sent = never_sent;
            let mut n_written = 0;
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => n_written += usize::from(serve(stream, &store)),
                    Err(_) => drop(never.recv_timeout(Duration::from_millis(10))),
                }
            }
            n_written
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops it; says how many writes it took.
    fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("stopped once");
        thread.join().expect("a backend that ends")
    }
}

/// Serves one request; says whether it was a write.
fn serve(mut stream: TcpStream, store: &LocalStore) -> bool {
    stream.set_nonblocking(false).expect("a blocking stream");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a stream with an end");
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| {
                    line.strip_prefix("content-length:")?
                        .trim()
                        .parse::<usize>()
                        .ok()
                })
                .unwrap_or(0);
            if bytes.len() >= at + 4 + length {
                let body = &bytes[at + 4..];
                if head.starts_with("get ") {
                    let answer =
                        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    stream.write_all(answer).expect("an answer");
                }
                if !head.starts_with("post ") {
                    return false;
                }
                let writer = Writer {
                    identity: process::Identity::of_self().expect("an identity"),
                    user: "operator".into(),
                    host: "host".into(),
                    run: None,
                };
                let header = StateHeader::of(body, writer, 1).expect("a state");
                let key = layout::state("0/slow").expect("a key");
                // A second try is the same bytes, which are there already.
                let _ = store.put_if_absent(
                    &key,
                    &state_file::encode(&header, body).expect("a state file"),
                );
                return true;
            }
        }
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
            _ => return false,
        }
    }
}

/// The port of the backend that the process at the gate talks to.
fn port_of(scene: &Scene) -> u16 {
    let path = format!("/proc/{}/environ", scene.gate.group().as_raw_pid());
    let environment = std::fs::read(path).expect("the environment of tofu");
    let address = environment
        .split(|byte| *byte == 0)
        .find_map(|line| line.strip_prefix(b"TF_HTTP_ADDRESS=http://127.0.0.1:"))
        .expect("the address of the backend");
    let address = String::from_utf8_lossy(address);
    address
        .split('/')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port")
}

/// Cases L1, L7, L10: a write came through and its answers were lost. The `errored.tfstate` has the same serial and is
/// encrypted anew: other bytes that say the same are no fork.
#[test]
fn a_write_that_came_through_and_was_never_answered_is_no_fork() {
    for scene in [Scene::encrypted(), Scene::clear()] {
        let started = scene.start_creating(&["up"]);
        let port = port_of(&scene);
        started.signal(Signal::KILL);
        assert_eq!(started.wait().ended, Ended::Signal(9));
        let mute = Mute::start(&scene, port);
        scene.gate.open();
        wait_for("the state that could not be written", || {
            (scene.drill.errored_states().len() == 1).then_some(())
        });
        assert!(mute.stop() >= 1, "nothing was written");
        assert_eq!(scene.drill.states(), ["0/slow"]);
        scene.run(0, &["up", "--resume"]);
        assert_eq!(scene.gate.n_made(), 1, "made twice");
        scene.expect_built();
        scene.expect_down();
    }
}

/// Cases L8, L10, L11: what the store has and what was rescued differ with one serial: a fork, at which all stops.
#[test]
fn another_state_of_the_same_serial_is_a_fork() {
    let scene = Scene::encrypted();
    scene.run(0, &["up"]);
    let root = wait_for("the step's tree", || {
        scene
            .drill
            .world
            .files_with(&scene.drill.work(), b"zzzz-no")
            .is_empty()
            .then_some(())?;
        let place = scene
            .drill
            .world
            .files_with(&scene.drill.work(), b"terraform_data\" \"slow");
        place.into_iter().find(|path| path.ends_with("main.tf"))
    });
    // What phase 1 has, under the lineage and serial of phase 0: another state.
    let read = |step: &str| {
        let text = std::fs::read(scene.drill.store().join("state").join(step)).expect("a state");
        let (_, bytes) = state_file::decode(&text).expect("a state file");
        serde_json::from_slice::<serde_json::Value>(bytes).expect("JSON")
    };
    let (stored, mut foreign) = (read("0/slow"), read("1/next"));
    for part in ["lineage", "serial"] {
        foreign[part] = stored[part].clone();
    }
    let errored = root.with_file_name("errored.tfstate");
    let mut file = std::fs::File::create(&errored).expect("a file");
    file.write_all(foreign.to_string().as_bytes())
        .expect("a state that waits");
    for args in [&["up"][..], &["down"], &["preflight"]] {
        let stopped = scene.run(3, args);
        assert!(
            stopped.stderr.contains("going on would fork the state"),
            "{args:?}: {}",
            stopped.stderr
        );
    }
    assert!(errored.exists());
}

/// Case N2: what a killed call keeps in memory stays for its living child, whoever sweeps, and is gone afterwards.
#[test]
fn the_memory_of_a_living_child_is_kept_and_then_swept() {
    let scene = Scene::encrypted();
    let started = scene.start_creating(&["up"]);
    let pid = started.pid();
    started.signal(Signal::KILL);
    assert_eq!(started.wait().ended, Ended::Signal(9));
    let before = memory_dirs_of(pid);
    assert!(before.len() >= 2, "its key and its output: {before:?}");
    // Another target's call sweeps what the dead left.
    let other = Scene::clear();
    other.run(0, &["up"]);
    assert_eq!(memory_dirs_of(pid), before, "swept under a living child");
    scene.gate.open();
    scene.run(0, &["up", "--resume"]);
    assert_eq!(memory_dirs_of(pid), Vec::<PathBuf>::new());
    scene.expect_built();
}

/// Cases R4, N2: what a killed child told stays until its own target's next call has read it; its secrets do not.
#[test]
fn the_last_words_of_a_killed_child_are_not_swept_by_another_target() {
    let scene = Scene::encrypted();
    let started = scene.start_creating(&["up"]);
    let (pid, group) = (started.pid(), scene.gate.group());
    started.signal(Signal::KILL);
    rustix::process::kill_process_group(group, Signal::KILL).expect("kill tofu");
    assert_eq!(started.wait().ended, Ended::Signal(9));
    crate::gate::await_group_gone(group);
    let other = Scene::clear();
    other.run(0, &["up"]);
    let kept = memory_dirs_of(pid);
    assert_eq!(
        kept.len(),
        1,
        "only the output that nobody has read: {kept:?}"
    );
    let mut names: Vec<_> = std::fs::read_dir(&kept[0])
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[1].starts_with("output-apply"), "{names:?}");
    let stopped = scene.run(3, &["up", "--resume"]);
    assert!(
        stopped
            .stderr
            .contains("`terraform_data.slow` of step `0.slow`"),
        "{}",
        stopped.stderr
    );
    assert_eq!(memory_dirs_of(pid), Vec::<PathBuf>::new());
}
