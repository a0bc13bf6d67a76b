//! The inventory, read by the real Ansible.

use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{How, Invocation, RealSpawner, collect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{HostName, Workspace};

fn fleet(hosts: &Value) -> Fleet {
    Fleet::new(vec![
        Workspace::parse("prod".parse().unwrap(), hosts).unwrap(),
    ])
    .unwrap()
}

/// Values that YAML or Ansible would like to take for something else.
fn odd_values() -> Value {
    json!([
        "a{{ 1+1 }}b", "{% raw %}", "{# note #}", "#jinja2: variable_start_string:'[['\n[[ 1 ]]", "x # y",
        "it's \"quoted\" \\ and \\n", "two\nlines\n", "\r\n\t", "héllo \u{1f600} \u{2028}\u{85}\u{7f}\u{feff}\u{1b}[31m",
        "007", "yes", "no", "on", "null", "~", "", " ", "1e3", "0x10", "1:30", "2026-12-01", "=", "<<", "!unsafe x",
        "- a", "a: b", "*x", "&x", "%x", "@x", "{}", "[]", "{{", "}}",
        7, -7, 1.5, 1e30, 1e-7, 9_007_199_254_740_993_i64, true, false, null, [], {},
        { "007": "yes", "k {{ 2 }}": ["{{ x }}"], "a: b": { "#": null } },
    ])
}

const PLAYBOOK: &str = "
- hosts: tf:prod
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: \"{{ {'odd': odd, 'host': ansible_host} | to_json }}\"
        dest: \"{{ out }}/{{ inventory_hostname }}.json\"
      delegate_to: localhost
";

struct Ansible {
    bin: PathBuf,
    dir: tempfile::TempDir,
}

impl Ansible {
    fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a test finds its tools by it")]
        let program = std::env::var_os("REBUILD_TEST_ANSIBLE").map(PathBuf::from).expect(
            "REBUILD_TEST_ANSIBLE names no `ansible-playbook`: run the tests by `cargo xtask test`, which installs one",
        );
        let bin = program.parent().expect("a program's directory").to_owned();
        Self {
            bin,
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.dir.path().join(name);
        process::files::write_atomically(&path, text.as_bytes(), mode).unwrap();
        path
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let python = self.bin.join("python3");
        let config = self.write("ansible.cfg", "[defaults]\n", 0o600);
        let call = Invocation::new(self.bin.join(program), self.dir.path())
            .args(args)
            .env("HOME", self.dir.path())
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("ANSIBLE_CONFIG", &config)
            .env("ANSIBLE_LOCALHOST_WARNING", "False")
            .env("ANSIBLE_PYTHON_INTERPRETER", python);
        let ended = collect(
            &RealSpawner::direct(),
            &call,
            &How::reader(),
            Duration::from_secs(300),
            &mut || false,
        )
        .unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        );
        assert!(ended.exit.is_success(), "{program} {args:?}:\n{text}");
        assert!(!text.contains("WARNING"), "{text}");
        text
    }

    fn values_by(&self, inventory: &Path) -> Value {
        let playbook = self.write("play.yml", PLAYBOOK, 0o600);
        let out = format!("out={}", self.dir.path().display());
        let texts = [inventory, &playbook].map(|path| path.to_str().unwrap().to_owned());
        self.run(
            "ansible-playbook",
            &["-i", &texts[0], "--limit", "tf:prod", "-e", &out, &texts[1]],
        );
        let written = std::fs::read(self.dir.path().join("web1.json")).unwrap();
        serde_json::from_slice(&written).unwrap()
    }
}

/// Case A4: values arrive as they were in the output, by the document and by the script, and `tf:prod` is the
/// workspace in `hosts:` and `--limit`. Case H8: Ansible is given the address that answered.
#[test]
fn values_arrive_in_ansible_as_they_were_in_the_output() {
    let ansible = Ansible::new();
    let fleet = fleet(&json!({
        "web1": { "addresses": ["192.0.2.1", "2001:db8::1"], "odd": odd_values(), "groups": ["web"] },
    }))
    .reached("web1".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let expected = json!({ "odd": odd_values(), "host": "2001:db8::1" });

    let document = ansible.write("hosts.yml", &fleet.inventory(), 0o600);
    assert_eq!(ansible.values_by(&document), expected, "by the document");

    let script = format!(
        "#!/bin/sh\ncat <<'END-OF-LIST'\n{}\nEND-OF-LIST\n",
        fleet.list()
    );
    let script = ansible.write("hosts", &script, 0o700);
    assert_eq!(ansible.values_by(&script), expected, "by the script");
}

#[test]
fn both_forms_have_the_same_groups() {
    let fleet = fleet(&json!({
        "web1": { "address": "192.0.2.1", "groups": ["web", "eu"] },
        "db1": { "address": "192.0.2.2", "port": 2222, "user": "admin" },
    }));
    let list = fleet.list();
    for (group, hosts) in [
        ("web", json!(["web1"])),
        ("tf", json!(["db1", "web1"])),
        ("prod", json!(["db1", "web1"])),
    ] {
        assert_eq!(list[group]["hosts"], hosts, "{group}");
    }
    assert_eq!(
        fleet.inventory(),
        r#"all:
  hosts:
    "web1": {"address": "192.0.2.1", "ansible_host": "192.0.2.1"}
    "db1": {"address": "192.0.2.2", "port": 2222, "user": "admin", "ansible_host": "192.0.2.2", "ansible_port": 2222, "ansible_user": "admin"}
  children:
    "eu": {"hosts": {"web1": {}}}
    "prod": {"hosts": {"db1": {}, "web1": {}}}
    "tf": {"hosts": {"db1": {}, "web1": {}}}
    "web": {"hosts": {"web1": {}}}
"#
    );
    let name = |text: &str| text.parse::<HostName>().unwrap();
    assert_eq!(
        fleet.host(&name("db1")).unwrap(),
        list["_meta"]["hostvars"]["db1"]
    );
    assert_eq!(fleet.host(&name("db2")), None);
    assert_eq!(
        fleet.graph(),
        "prod\n├─ eu\n│  └─ web1  192.0.2.1\n├─ web\n│  └─ web1  192.0.2.1\n└─ db1  admin@192.0.2.2 port 2222\n"
    );
}

#[test]
fn with_several_workspaces_there_is_no_group_tf() {
    let workspace = |name: &str| {
        let hosts = json!({ format!("{name}-1"): { "address": "192.0.2.1" } });
        Workspace::parse(name.parse().unwrap(), &hosts).unwrap()
    };
    let fleet = Fleet::new(vec![workspace("prod"), workspace("stage")]).unwrap();
    assert!(!fleet.inventory().contains("\"tf\""));
    assert_eq!(fleet.list().get("tf"), None);
    let twice = Fleet::new(vec![workspace("prod"), workspace("prod")]);
    assert!(matches!(twice, Err(crate::FleetError::Twice(_))));
}

proptest! {
    /// What is quoted holds nothing that YAML 1.1 does not print, and JSON's own texts stay what they are.
    #[test]
    fn a_quoted_text_is_one_line_that_yaml_prints(text in any::<String>()) {
        let quoted = quoted(&text);
        let is_printed = |char: char| {
            matches!(char, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
                && !matches!(char, '\u{2028}' | '\u{2029}' | '\u{feff}')
        };
        prop_assert!(quoted.chars().all(is_printed), "{}", quoted);
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
        prop_assert_eq!(unquoted(inside), text);
    }
}

/// Reads the escapes back.
fn unquoted(text: &str) -> String {
    let mut chars = text.chars();
    let mut plain = String::new();
    while let Some(char) = chars.next() {
        assert_ne!(char, '"', "a quote must be escaped");
        if char != '\\' {
            plain.push(char);
            continue;
        }
        let n_digits = match chars.next().unwrap() {
            'n' => {
                plain.push('\n');
                continue;
            }
            same @ ('"' | '\\') => {
                plain.push(same);
                continue;
            }
            'x' => 2,
            'u' => 4,
            'U' => 8,
            other => panic!("unknown escape {other}"),
        };
        let digits: String = chars.by_ref().take(n_digits).collect();
        plain.push(char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap());
    }
    plain
}
