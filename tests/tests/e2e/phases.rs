//! What phases are made of: exec steps, parallel steps, checks, time-outs.

use crate::stage::Stage;

fn phase(id: &str, rest: &str) -> String {
    format!("[[phase]]\nid = \"{id}\"\ntitle = \"title of {id}\"\n{rest}")
}

/// Exec and tofu steps go in the order of the file, each with its verify after the applies of the phase.
#[test]
fn steps_of_all_kinds_go_in_order() {
    let stage = Stage::empty();
    let exec = |name: &str| format!("[[phase.step]]\nname = \"{name}\"\n{}", stage.exec(name));
    let tofu = stage.phase("1", "s");
    stage.define(&[phase("0", &(exec("b") + &exec("a"))), tofu, exec("last")].concat());
    stage.up();
    assert_eq!(
        stage.book(),
        [
            "create b",
            "create a",
            "verify b",
            "verify a",
            "create 1-s",
            "create last",
            "verify last"
        ]
    );
    stage.down_to(0, &[]);
    assert_eq!(
        stage.book(),
        ["destroy last", "destroy 1-s", "destroy a", "destroy b"]
    );
}

/// Steps of a parallel phase run at once; what refers to another one, or comes `after` it, waits.
#[test]
fn steps_of_a_parallel_phase_overlap() {
    let stage = Stage::empty();
    let root = stage.world.root().display().to_string();
    // Each waits until the other has begun: one after the other they would never end.
    let meet = |own: &str, other: &str| {
        format!(
            "[[phase.step]]\nname = \"{own}\"\nexec = {{ apply = [\"sh\", \"-c\", \"touch {root}/{own}; n=0; while ! test -e {root}/{other}; do n=$((n+1)); test $n -lt 600 || exit 1; sleep 0.1; done; echo met {own} >> {root}/book\"], verify = [\"true\"], teardown = [] }}\n"
        )
    };
    let after = format!(
        "[[phase.step]]\nname = \"late\"\nafter = [\"one\", \"two\"]\n{}",
        stage.exec("late")
    );
    stage.module("0-first", "");
    stage.module("0-taker", "variable \"from\" {}\n");
    let tofu = "[[phase.step]]\nname = \"first\"\ntofu = \"0-first\"\n[[phase.step]]\nname = \"taker\"\ntofu = \"0-taker\"\nvars = { from = \"${step.0.first.name}\" }\n";
    let text = phase(
        "0",
        &format!(
            "parallel = true\n{after}{}{}{tofu}",
            meet("one", "two"),
            meet("two", "one")
        ),
    );
    // `after` names what comes before: put `late` behind.
    let text = text.replace(&after, "") + &after;
    stage.define(&text);
    let outcome = stage
        .rebuild(&["up", "--target", "drill", "--no-pause", "--jobs", "4"])
        .run();
    outcome.expect_code(0);
    let book = stage.book();
    let at = |what: &str| {
        book.iter()
            .position(|line| line == what)
            .unwrap_or_else(|| panic!("{what}: {book:?}"))
    };
    assert!(
        at("met one") < at("create late") && at("met two") < at("create late"),
        "{book:?}"
    );
    assert!(at("create 0-first") < at("create 0-taker"), "{book:?}");
    stage.json(0, &["preflight", "--target", "drill"]);
    stage.forget_book();
    stage.down_to(0, &[]);
    assert_eq!(
        stage.book(),
        ["destroy late", "destroy 0-taker", "destroy 0-first"]
    );
}

/// Two that fail at once are both told and recorded.
#[test]
fn two_failures_of_a_parallel_phase_are_both_recorded() {
    let stage = Stage::empty();
    let root = stage.world.root().display().to_string();
    let fails = |own: &str, other: &str| {
        format!(
            "[[phase.step]]\nname = \"{own}\"\nexec = {{ apply = [\"sh\", \"-c\", \"touch {root}/{own}; n=0; while ! test -e {root}/{other}; do n=$((n+1)); test $n -lt 600 || exit 1; sleep 0.1; done; exit 7\"], verify = [\"true\"], teardown = [] }}\n"
        )
    };
    stage.define(&phase(
        "0",
        &format!(
            "parallel = true\n{}{}",
            fails("one", "two"),
            fails("two", "one")
        ),
    ));
    stage.run(1, &["up", "--target", "drill", "--no-pause", "--jobs", "2"]);
    assert_eq!(stage.step("0.one")["status"], "failed");
    assert_eq!(stage.step("0.two")["status"], "failed");
}

/// Checks of a phase: http, tcp, dns and exec, tried until they pass or their time is over.
#[test]
fn checks_are_tried_within_their_time() {
    let stage = Stage::empty();
    let root = stage.world.root().display().to_string();
    // A server that is not up at once, and not whole at first: it says 503 twice.
    stage.write(
        "server.py",
        "import http.server, os, sys\n\
         root = sys.argv[1]\n\
         class H(http.server.BaseHTTPRequestHandler):\n\
         \x20   n = 0\n\
         \x20   def do_GET(self):\n\
         \x20       H.n += 1\n\
         \x20       self.send_response(503 if H.n < 3 else 200)\n\
         \x20       self.end_headers()\n\
         \x20       self.wfile.write(b'all is well')\n\
         \x20   def log_message(self, *a): pass\n\
         s = http.server.HTTPServer(('127.0.0.1', 0), H)\n\
         open(root + '/port.new', 'w').write(str(s.server_port))\n\
         os.rename(root + '/port.new', root + '/port')\n\
         s.serve_forever()\n",
    );
    let port = free_port();
    let server = std::fs::read_to_string(stage.dir().join("server.py")).unwrap();
    stage.write(
        "server.py",
        &server.replace("('127.0.0.1', 0)", &format!("('127.0.0.1', {port})")),
    );
    let step = format!(
        "[[phase.step]]\nname = \"server\"\nexec = {{ apply = [\"sh\", \"-c\", \"setsid python3 server.py {root} > /dev/null 2>&1 & echo $! > {root}/pid\"], verify = [\"true\"], teardown = [\"sh\", \"-c\", \"kill $(cat {root}/pid)\"] }}\n"
    );
    let checks = |status: u16, within: &str| {
        format!(
            "[[phase.check]]\nname = \"answers\"\nhttp = {{ url = \"http://127.0.0.1:{port}/\", status = {status}, body_contains = \"well\" }}\nwithin = \"{within}\"\nevery = \"100ms\"\n\
             [[phase.check]]\nname = \"listens\"\ntcp = {{ address = \"127.0.0.1:{port}\" }}\nevery = \"100ms\"\n\
             [[phase.check]]\nname = \"says so\"\nexec = [\"test\", \"-e\", \"{root}/port\"]\nevery = \"100ms\"\n"
        )
    };
    stage.define(&phase("0", &(step.clone() + &checks(200, "1m"))));
    let said = stage.up_to(0, &["-v"]);
    assert!(
        said.contains("check answers: ok") && said.contains("check says so: ok"),
        "{said}"
    );
    // A standing platform whose server is gone does not pass preflight.
    let pid = std::fs::read_to_string(format!("{root}/pid")).unwrap();
    stage
        .world
        .command("kill")
        .arg(pid.trim())
        .run()
        .expect_code(0);
    let said = stage.run(3, &["preflight", "--target", "drill"]);
    assert!(
        said.stdout.contains("answers") || said.stderr.contains("answers"),
        "{said:?}"
    );
    stage
        .world
        .command("sh")
        .args([
            "-c",
            &format!(
                "cd {}; setsid python3 server.py {root} > /dev/null 2>&1 & echo $! > {root}/pid",
                stage.dir().display()
            ),
        ])
        .run()
        .expect_code(0);
    // One that never passes fails the phase when its time is over, with what came last.
    stage.define(&phase("0", &(step + &checks(418, "1s"))));
    let said = stage.up_to(1, &[]);
    assert!(
        said.contains("check `answers` of phase `0`") && said.contains("418"),
        "{said}"
    );
    assert_eq!(stage.record()["status"], "failed");
    assert_eq!(stage.phases(), ["0 failed"]);
    stage.down_to(0, &[]);
}

/// A dns check asks the server that it names.
#[test]
fn a_dns_check_asks_its_server() {
    let stage = Stage::empty();
    let server = NameServer::start();
    let check = |address: &str| {
        format!(
            "[[phase.check]]\nname = \"resolves\"\ndns = {{ name = \"edge.example.org\", type = \"A\", expect = [\"{address}\"], server = \"{}\" }}\nwithin = \"2s\"\nevery = \"100ms\"\n",
            server.address
        )
    };
    stage.define(&(stage.phase("0", "s") + &check("192.0.2.7")));
    stage.up();
    stage.define(&(stage.phase("0", "s") + &check("192.0.2.8")));
    let said = stage.up_to(1, &[]);
    assert!(
        said.contains("resolves") && said.contains("192.0.2.7"),
        "{said}"
    );
}

/// `timeout` on a step ends it, and says so.
#[test]
fn a_step_over_its_time_ends() {
    let stage = Stage::empty();
    let step = "[[phase.step]]\nname = \"s\"\ntimeout = \"1s\"\nexec = { apply = [\"sleep\", \"600\"], verify = [\"true\"], teardown = [] }\n";
    stage.define(&phase("0", step));
    let said = stage.up_to(1, &[]);
    assert!(said.contains("1s") || said.contains("1 s"), "{said}");
    assert_eq!(stage.step("0.s")["status"], "failed");
    stage.down_to(0, &[]);
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Answers every question of type A with 192.0.2.7 (RFC 1035, section 4).
struct NameServer {
    address: std::net::SocketAddr,
}

impl NameServer {
    fn start() -> Self {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0_u8; 512];
            while let Ok((n, from)) = socket.recv_from(&mut bytes) {
                // The question ends four bytes after its name's empty label.
                let end = 12 + bytes[12..n].iter().position(|byte| *byte == 0).unwrap() + 5;
                let mut answer = bytes[..end].to_vec();
                answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
                socket.send_to(&answer, from).unwrap();
            }
        });
        Self { address }
    }
}
