//! A target whose states are in a container of Azure's emulator.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use process::{Ending, How, Invocation, Output, RealSpawner, Running, Spawner};

use crate::drill::{Drill, tool};

/// The key that every emulator has.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const PASSPHRASE: &str = "a passphrase of more than sixteen";

/// Makes the container `states`, as its owner would.
const MAKE: &str = r#"
import base64, datetime, hashlib, hmac, sys, urllib.request
endpoint, key = sys.argv[1:]
account = "devstoreaccount1"
date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{account}/{account}/states\nrestype:container"
mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
headers = {
    "x-ms-date": date,
    "x-ms-version": "2021-08-06",
    "content-length": "0",
    "authorization": f"SharedKey {account}:{base64.b64encode(mac).decode()}",
}
request = urllib.request.Request(f"{endpoint}/states?restype=container", method="PUT", headers=headers)
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)
"#;

struct Azurite {
    running: Box<dyn Running>,
    endpoint: String,
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.running.kill_group();
        let _ = self.running.wait();
    }
}

fn azurite(drill: &Drill) -> Azurite {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let call = Invocation::new(tool("REBUILD_TEST_NODE"), drill.world.root())
        .arg(tool("REBUILD_TEST_AZURITE"))
        .args(["--blobHost", "127.0.0.1", "--blobPort"])
        .arg(address.port().to_string())
        .args(["--inMemoryPersistence", "--silent"])
        .args(["--skipApiVersionCheck", "--disableTelemetry"]);
    let how = How {
        ending: Ending::WithUs,
        output: Output::Captured,
        marker: None,
    };
    let running = RealSpawner::direct().start(&call, &how).unwrap();
    let azurite = Azurite {
        running,
        endpoint: format!("http://{address}/devstoreaccount1"),
    };
    let deadline = Instant::now() + Duration::from_secs(90);
    process::wait::until(deadline, Duration::from_millis(50), || {
        TcpStream::connect(address).ok()
    })
    .expect("the emulator takes connections");
    azurite
}

#[test]
fn a_target_is_built_and_torn_down_in_a_container() {
    let drill = Drill::of(
        "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"it\"\ntofu = \"one\"\n",
        &[(
            "one",
            "resource \"terraform_data\" \"it\" { input = \"one\" }\n",
        )],
    );
    let azurite = azurite(&drill);
    drill.write(
        "targets/drill.toml",
        &format!(
            "[store]\nazure = {{ account = \"devstoreaccount1\", container = \"states\", prefix = \"drill\", endpoint = \"{}\", \
             access_key = \"${{secret.azure}}\" }}\n[encryption]\npassphrase = {{ env = \"PASS\" }}\n[secrets]\nazure = {{ env = \"KEY\" }}\n",
            azurite.endpoint
        ),
    );
    let run = |code: i32, args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--target", "drill"]);
        let command = drill.rebuild(&all).env("PASS", PASSPHRASE).env("KEY", KEY);
        let outcome = command.run();
        outcome.expect_code(code);
        outcome
    };
    let missing = run(3, &["up", "--no-pause"]);
    assert!(
        missing.stderr.contains("does not exist"),
        "{}",
        missing.stderr
    );
    drill
        .world
        .command("python3")
        .args(["-c", MAKE, &azurite.endpoint, KEY])
        .run()
        .expect_code(0);
    run(0, &["up", "--no-pause"]);
    run(0, &["preflight"]);
    let status = run(0, &["status", "--output", "json"]);
    assert!(status.stdout.contains("\"finished\""), "{}", status.stdout);
    run(0, &["down"]);
    let status = run(0, &["status", "--output", "json"]);
    assert!(status.stdout.contains("\"empty\""), "{}", status.stdout);
}
