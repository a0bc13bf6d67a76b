//! Machines that a platform makes, awaits over SSH and configures: real servers, the real Ansible, the real OpenTofu.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use test_support::{Outcome, SshLab, SshServer, login_name};

use crate::drill::{Drill, tool};

pub(crate) const UP: [&str; 4] = ["up", "--target", "drill", "--no-pause"];
pub(crate) const RESUME: [&str; 5] = ["up", "--target", "drill", "--no-pause", "--resume"];

/// Sees that a call said each of these.
pub(crate) fn told(outcome: &Outcome, lines: &[&str]) {
    for line in lines {
        assert!(
            outcome.stderr.contains(line),
            "no {line:?} in {}",
            outcome.stderr
        );
    }
}

/// A platform of one phase: machines, an `ssh` step and an `ansible` step; and the servers that are its machines.
pub(crate) struct Farm {
    /// The platform.
    pub(crate) drill: Drill,
    /// The keys.
    pub(crate) lab: SshLab,
    /// The servers, by the names of their hosts.
    pub(crate) servers: Vec<(String, SshServer)>,
    /// What the output says of each host besides where it is.
    more: Map<String, Value>,
    generations: Map<String, Value>,
    keys: Map<String, Value>,
}

/// Makes a file for as long as it is configured; says in check mode what it would do.
pub(crate) const WRITES: &str = "- hosts: tf:machines
  gather_facts: false
  tasks:
    - name: writes a file
      ansible.builtin.copy: {content: 'made', dest: '{{ place }}/{{ inventory_hostname }}.made'}
";

impl Farm {
    /// A farm of servers that run, each on a port of 127.0.0.1.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self::at(
            &names
                .iter()
                .map(|name| (*name, "127.0.0.1"))
                .collect::<Vec<_>>(),
        )
    }

    /// A farm of servers that run, each at its loopback address.
    pub(crate) fn at(places: &[(&str, &str)]) -> Self {
        let lab = SshLab::new();
        let servers = places.iter().map(|(name, address)| {
            let mut server = lab.server(name, address);
            // The boot of the machine that runs the tests is not what is awaited.
            server.program("cloud-init", "echo status: done");
            server.start();
            ((*name).to_owned(), server)
        });
        let servers = servers.collect();
        Self::with(lab, servers)
    }

    /// A farm of these servers.
    pub(crate) fn with(lab: SshLab, servers: Vec<(String, SshServer)>) -> Self {
        let farm = Self {
            drill: Drill::empty(),
            lab,
            servers,
            more: Map::new(),
            generations: Map::new(),
            keys: Map::new(),
        };
        std::fs::create_dir_all(farm.place()).expect("a directory");
        farm.drill.write(
            "machines/main.tf",
            &format!(
                "locals {{ machines = jsondecode(file(\"${{path.module}}/machines.json\")) }}
resource \"terraform_data\" \"machine\" {{
  for_each         = {{ for name, machine in local.machines : name => machine.generation }}
  triggers_replace = each.value
  provisioner \"local-exec\" {{ command = \"echo ${{each.key}} >> {made}; n=0; while [ -e {made}.hold ]; do n=$((n+1)); [ $n -lt 1800 ] || exit 9; sleep 0.05; done\" }}
}}
output \"hosts\" {{
  value = {{ for name, machine in local.machines : name => merge(machine.host, {{ machine_id = terraform_data.machine[name].id }}) }}
}}
",
                made = farm.made_file().display()
            ),
        );
        farm.machines();
        farm.target("declared", "");
        farm.playbook(WRITES);
        farm.steps("", "");
        farm
    }

    /// Where playbooks may leave something.
    pub(crate) fn place(&self) -> PathBuf {
        self.drill.world.root().join("place")
    }

    fn made_file(&self) -> PathBuf {
        self.drill.world.root().join("made")
    }

    /// From now on a machine that is made is not done before [`Farm::release`].
    pub(crate) fn hold(&self) {
        crate::gate::touch(&self.made_file().with_extension("hold"));
    }

    /// Lets machines be done.
    pub(crate) fn release(&self) {
        std::fs::remove_file(self.made_file().with_extension("hold")).expect("it was held");
    }

    /// Which machines were made so far, one entry for each time.
    pub(crate) fn made(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.made_file()).unwrap_or_default();
        let mut made: Vec<String> = text.lines().map(str::to_owned).collect();
        made.sort();
        made
    }

    /// Writes the target: how host keys are known, and more sections.
    pub(crate) fn target(&self, host_keys: &str, more: &str) {
        self.drill.write(
            "targets/drill.toml",
            &format!(
                "[ssh]\nidentity = {{ file = \"{}\" }}\nhost_keys = \"{host_keys}\"\n{more}",
                self.lab.identity().display()
            ),
        );
    }

    /// Writes `rebuild.toml`, with more keys in the two steps' tables.
    pub(crate) fn steps(&self, ssh: &str, ansible: &str) {
        let ansible = format!(
            "[[phase.step]]\nname = \"configure\"\nansible = {{ playbook = \"playbooks/node.yml\", hosts = \"hosts\", vars = {{ place = \"{}\" }}{ansible} }}\n",
            self.place().display()
        );
        self.phases(&format!(
            "[[phase.step]]\nname = \"reach\"\nssh = {{ hosts = \"hosts\"{ssh} }}\n{ansible}"
        ));
    }

    /// Writes `rebuild.toml`: the machines, and an `ssh` step with this time-out.
    pub(crate) fn awaited(&self, timeout: &str) {
        self.phases(&format!(
            "[[phase.step]]\nname = \"reach\"\nssh = {{ hosts = \"hosts\", timeout = \"{timeout}\" }}\n"
        ));
    }

    /// Writes `rebuild.toml`: the machines, and then these steps.
    pub(crate) fn phases(&self, steps: &str) {
        self.drill.write(
            "rebuild.toml",
            &format!(
                "[platform]\nname = \"lab\"\n[tools]\nansible = {{ command = [\"{}\"], version = \">=2.15\" }}\n[[phase]]\nid = \"1\"\ntitle = \"metal\"\n[[phase.step]]\nname = \"machines\"\ntofu = \"machines\"\n{steps}",
                tool("REBUILD_TEST_ANSIBLE").display()
            ),
        );
    }

    /// Writes the playbook.
    pub(crate) fn playbook(&self, text: &str) {
        self.drill.write("playbooks/node.yml", text);
    }

    /// Has the output say more of every host from now on.
    pub(crate) fn say(&mut self, more: Value) {
        let Value::Object(more) = more else {
            panic!("an object")
        };
        self.more = more;
        self.machines();
    }

    /// Makes a host's machine anew at the next apply, with this host key.
    pub(crate) fn replace(&mut self, name: &str, key: &str) {
        self.keys.insert(name.to_owned(), key.into());
        let n = self
            .generations
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or(0);
        self.generations.insert(name.to_owned(), (n + 1).into());
        self.machines();
    }

    /// Writes what there is of machines, with the keys of now.
    pub(crate) fn machines(&self) {
        let machines = self.servers.iter().map(|(name, server)| {
            let mut host = self.host(server);
            host.extend(self.more.clone());
            if let Some(key) = self.keys.get(name) {
                host.insert("host_key".to_owned(), key.clone());
            }
            let generation = self
                .generations
                .get(name)
                .and_then(Value::as_u64)
                .unwrap_or(0);
            (
                name.clone(),
                json!({ "generation": generation, "host": host }),
            )
        });
        let machines = Value::Object(machines.collect());
        self.drill
            .write("machines/machines.json", &machines.to_string());
    }

    /// Writes which machines there are, each as one generation of a host that is said as given.
    pub(crate) fn machines_as(&self, hosts: &Map<String, Value>) {
        let machines = hosts
            .iter()
            .map(|(name, host)| (name.clone(), json!({ "generation": 0, "host": host })));
        let machines = Value::Object(machines.collect());
        self.drill
            .write("machines/machines.json", &machines.to_string());
    }

    /// What the output says of a server.
    pub(crate) fn host(&self, server: &SshServer) -> Map<String, Value> {
        let host = json!({
            "address": server.address.to_string(), "port": server.port, "user": login_name(), "host_key": server.host_key(),
        });
        match host {
            Value::Object(host) => host,
            _ => Map::new(),
        }
    }

    /// The server of a host.
    pub(crate) fn server(&mut self, name: &str) -> &mut SshServer {
        let found = self.servers.iter_mut().find(|(of, _)| of == name);
        &mut found.expect("a server of that name").1
    }

    /// Gives a host's server another key, as another machine has.
    pub(crate) fn new_key(&mut self, name: &str) {
        let found = self.servers.iter_mut().find(|(of, _)| of == name);
        let server = &mut found.expect("a server of that name").1;
        server.stop();
        server.new_host_key(&self.lab);
        server.start();
    }

    /// The target's own known hosts.
    pub(crate) fn known_hosts(&self) -> String {
        let path = self.own().join("known_hosts");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Where the target's keys lie.
    pub(crate) fn own(&self) -> PathBuf {
        self.drill
            .world
            .state_home()
            .join("rebuild/targets/lab/drill/ssh")
    }
}
