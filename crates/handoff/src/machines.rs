//! Which machines the pinned keys belong to: by this, and by nothing else, is a pin ever given up.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleet::{Fleet, Host, HostName, Jump};
use known_hosts::{HostPort, KnownHosts, KnownHostsError, KnownHostsFile, PublicKey};
use process::files::{FileError, create_private_dir, write_atomically};
use serde::{Deserialize, Serialize};

/// The file beside a target's known hosts that says whose keys are pinned there.
///
/// Hosts are kept by a key of the caller's, which says where their output comes from. One call at a time may
/// use it: the target's lock sees to that.
#[derive(Debug, Clone)]
pub struct Machines {
    path: PathBuf,
}

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MachinesError {
    /// It can't be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It is not as it was written.
    #[error("`{}` is damaged; remove it, and the known hosts beside it are taken as another machine's", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// It can't be written.
    #[error("cannot write down whose host keys are pinned")]
    Write(#[source] FileError),
    /// The pins themselves can't be changed.
    #[error("cannot change the known hosts")]
    KnownHosts(#[from] KnownHostsError),
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    schema: u32,
    hosts: BTreeMap<String, BTreeMap<String, Machine>>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    /// What the provider calls it; `None` where the output does not say.
    machine_id: Option<String>,
    /// Where it was onboarded, as the known hosts have it.
    places: Vec<(String, u16)>,
    /// Machines on the way to it that its output does not know, and whether it declares their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ways: Vec<(String, u16, bool)>,
    /// What is pinned of it; written for another machine of ours alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

/// Steps of one call may onboard hosts at once.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    fn of(host: &Host) -> Self {
        let places = host.addresses.iter();
        Self {
            machine_id: host.machine_id.clone(),
            places: places
                .map(|address| (address.as_str().to_owned(), host.port))
                .collect(),
            ways: match &host.jump {
                Some(Jump::Elsewhere { address, port, .. }) => {
                    let is_declared = !host.jump_host_keys.is_empty();
                    vec![(address.as_str().to_owned(), *port, is_declared)]
                }
                Some(Jump::Host(_)) | None => Vec::new(),
            },
            keys: Vec::new(),
        }
    }

    /// Another id is another machine. Without two ids nothing says so.
    fn is_other_than(&self, before: &Self) -> bool {
        matches!((&self.machine_id, &before.machine_id), (Some(now), Some(before)) if now != before)
    }

    fn host_ports(&self) -> impl Iterator<Item = HostPort> {
        self.places
            .iter()
            .map(|(address, port)| HostPort::new(address, *port))
    }

    /// What leads to it and is pinned because its output declares the keys. What a person pinned there is theirs.
    fn pinned_ways(&self) -> impl Iterator<Item = HostPort> {
        let ours = self.ways.iter().filter(|(_, _, is_declared)| *is_declared);
        ours.map(|(address, port, _)| HostPort::new(address, *port))
    }

    /// Everything that leads to it, itself among it.
    fn all_places(&self) -> impl Iterator<Item = HostPort> {
        let ways = self.ways.iter();
        let ways = ways.map(|(address, port, _)| HostPort::new(address, *port));
        self.host_ports().chain(ways)
    }
}

/// Takes back what these machines brought into the known hosts, but what others need.
fn take_back(known: &mut KnownHosts, gone: &[Machine], needed: &BTreeSet<HostPort>) {
    for machine in gone {
        for place in machine.all_places().filter(|place| !needed.contains(place)) {
            known.trust_only(&place, None);
        }
        let pinned = machine.host_ports().chain(machine.pinned_ways());
        for place in pinned.filter(|place| !needed.contains(place)) {
            known.forget(&place);
        }
    }
}

impl Machines {
    /// The file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Tells which hosts are other machines than those whose keys are pinned: those that nothing is known of, and
    /// those with another `machine_id`.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn replaced(&self, key: &str, fleet: &Fleet) -> Result<BTreeSet<HostName>, MachinesError> {
        let known = self.read()?;
        let own = known.hosts.get(key);
        let replaced = fleet.hosts().filter(|host| {
            let now = Machine::of(host);
            if let Some(before) = own.and_then(|hosts| hosts.get(host.name.as_str())) {
                return now.is_other_than(before);
            }
            // The same door under another name: what was pinned there holds as well.
            let elsewhere = known.hosts.values().flat_map(BTreeMap::values);
            let mut elsewhere =
                elsewhere.filter(|one| one.places.iter().any(|place| now.places.contains(place)));
            elsewhere.all(|before| now.is_other_than(before))
        });
        Ok(replaced.map(|host| host.name.clone()).collect())
    }

    /// Gives up the pins of machines that are others now, or are gone, and writes down which ones are pinned from now
    /// on. To be called before [`crate::Hands::reach`], which then needs to be told of none; says which were others.
    ///
    /// A kill at any instant of it leaves a pin too few at the most, never one of another machine.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub fn renew(
        &self,
        key: &str,
        known_hosts: &Path,
        fleet: &Fleet,
    ) -> Result<BTreeSet<HostName>, MachinesError> {
        let _alone = alone();
        let replaced = self.replaced(key, fleet)?;
        let before = self.read()?;
        let stays = |name: &str| {
            fleet
                .hosts()
                .any(|host| host.name.as_str() == name && !replaced.contains(&host.name))
        };
        // Of a machine that was made anew only its own pins go: whatever leads there is none of it.
        let now = fleet.hosts().filter(|host| replaced.contains(&host.name));
        let mut given_up: BTreeSet<HostPort> = now
            .flat_map(|host| Machine::of(host).host_ports().collect::<Vec<_>>())
            .collect();
        let own = before.hosts.get(key).into_iter().flatten();
        let gone = own.filter(|(name, _)| !stays(name));
        let gone: Vec<Machine> = gone.map(|(_, machine)| machine.clone()).collect();
        let kept = fleet.hosts().filter(|host| stays(host.name.as_str()));
        let mut needed: BTreeSet<HostPort> = kept
            .flat_map(|host| Machine::of(host).host_ports().collect::<Vec<_>>())
            .collect();
        given_up.retain(|place| !needed.contains(place));
        let others = before.hosts.iter().filter(|(of, _)| *of != key);
        let others = others.flat_map(|(_, hosts)| hosts.values());
        needed.extend(others.flat_map(Machine::all_places));
        for host in fleet.hosts() {
            let now = Machine::of(host);
            needed.extend(
                now.ways
                    .iter()
                    .map(|(address, port, _)| HostPort::new(address, *port)),
            );
        }
        KnownHostsFile::at(known_hosts).edit(|known| {
            for place in &given_up {
                known.forget(place);
            }
            take_back(known, &gone, &needed);
            Ok::<_, KnownHostsError>(())
        })?;
        self.remember(key, fleet)?;
        Ok(replaced)
    }

    /// Writes down that these are the machines whose keys are pinned from now on.
    ///
    /// # Errors
    /// When the file can't be read or written.
    pub fn remember(&self, key: &str, fleet: &Fleet) -> Result<(), MachinesError> {
        let hosts = fleet
            .hosts()
            .map(|host| (host.name.as_str().to_owned(), Machine::of(host)));
        let hosts = hosts.collect();
        self.edit(|document| {
            document.hosts.insert(key.to_owned(), hosts);
        })
    }

    /// Takes back the pins of the machines that were remembered, wherever they were onboarded, and forgets them.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub fn forget(&self, key: &str, known_hosts: &Path) -> Result<(), MachinesError> {
        let _alone = alone();
        let mut document = self.read()?;
        let Some(hosts) = document.hosts.remove(key) else {
            return Ok(());
        };
        // Where another output has the same door, its pin stays.
        let left: BTreeSet<HostPort> = document
            .hosts
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(Machine::all_places)
            .collect();
        let gone: Vec<Machine> = hosts.into_values().collect();
        KnownHostsFile::at(known_hosts).edit(|known| {
            take_back(known, &gone, &left);
            Ok::<_, KnownHostsError>(())
        })?;
        self.edit(|document| {
            document.hosts.remove(key);
        })
    }

    /// What another machine of ours needs to know these hosts again: ids, places, pinned public keys. No secret.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn snapshot(
        &self,
        key: &str,
        known_hosts: &Path,
    ) -> Result<serde_json::Value, MachinesError> {
        let mut hosts = self.read()?.hosts.remove(key).unwrap_or_default();
        let known = KnownHostsFile::at(known_hosts).read()?;
        for machine in hosts.values_mut() {
            let mut keys: Vec<String> = machine
                .host_ports()
                .flat_map(|place| known.find(&place).keys)
                .map(|key| key.to_string())
                .collect();
            keys.sort();
            keys.dedup();
            machine.keys = keys;
        }
        Ok(serde_json::to_value(hosts).unwrap_or_default())
    }

    /// Takes over what [`Machines::snapshot`] gave on another machine, for each host whose machine is the one that
    /// was onboarded there and is not known here. Says which.
    ///
    /// # Errors
    /// When a file can't be read or written, or when the snapshot is none.
    pub fn restore(
        &self,
        key: &str,
        known_hosts: &Path,
        snapshot: &serde_json::Value,
        fleet: &Fleet,
    ) -> Result<BTreeSet<HostName>, MachinesError> {
        let _alone = alone();
        let damaged = |source| MachinesError::Damaged {
            path: self.path.clone(),
            source,
        };
        let there: BTreeMap<String, Machine> =
            serde_json::from_value(snapshot.clone()).map_err(damaged)?;
        let mut here = self.read()?.hosts.remove(key).unwrap_or_default();
        let mut taken = BTreeSet::new();
        let mut pins: Vec<(HostPort, Vec<PublicKey>)> = Vec::new();
        for host in fleet.hosts() {
            let now = Machine::of(host);
            let name = host.name.as_str();
            let Some(known) = there
                .get(name)
                .filter(|one| one.machine_id == now.machine_id)
            else {
                continue;
            };
            if here.get(name).is_some_and(|one| !now.is_other_than(one)) {
                continue;
            }
            let keys: Vec<PublicKey> = known
                .keys
                .iter()
                .filter_map(|key| key.parse().ok())
                .collect();
            pins.extend(known.host_ports().map(|place| (place, keys.clone())));
            here.insert(
                name.to_owned(),
                Machine {
                    keys: Vec::new(),
                    ..known.clone()
                },
            );
            taken.insert(host.name.clone());
        }
        if taken.is_empty() {
            return Ok(taken);
        }
        KnownHostsFile::at(known_hosts).edit(|known| {
            for (place, keys) in &pins {
                known.forget(place);
                known.pin(place, keys);
            }
            Ok::<_, KnownHostsError>(())
        })?;
        self.edit(|document| {
            document.hosts.insert(key.to_owned(), here);
        })?;
        Ok(taken)
    }

    fn read(&self) -> Result<Document, MachinesError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| MachinesError::Damaged {
                path: self.path.clone(),
                source,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Document::default()),
            Err(source) => Err(MachinesError::Read {
                path: self.path.clone(),
                source,
            }),
        }
    }

    fn edit(&self, edit: impl FnOnce(&mut Document)) -> Result<(), MachinesError> {
        let mut document = self.read()?;
        edit(&mut document);
        document.schema = 1;
        if let Some(directory) = self.path.parent() {
            create_private_dir(directory).map_err(MachinesError::Write)?;
        }
        let bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
        write_atomically(&self.path, &bytes, 0o600).map_err(MachinesError::Write)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet_of;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    fn fleet(hosts: Value) -> Fleet {
        fleet_of("prod", &hosts).unwrap()
    }

    fn named(hosts: &BTreeSet<HostName>) -> Vec<&str> {
        hosts.iter().map(HostName::as_str).collect()
    }

    fn two(first: Value, second: Value) -> Fleet {
        fleet(
            json!({ "web1": { "address": "192.0.2.1", "machine_id": first }, "web2": { "address": "192.0.2.2", "machine_id": second } }),
        )
    }

    /// Case H1: another id is another machine; without two ids nothing says so.
    #[test]
    fn only_another_id_makes_another_machine() {
        let dir = tempfile::tempdir().unwrap();
        let machines = Machines::at(dir.path().join("own/machines.json"));
        let before = two(json!("i-1"), json!(null));
        assert_eq!(
            named(&machines.replaced("1c.hosts", &before).unwrap()),
            ["web1", "web2"],
            "nothing is known of them"
        );
        machines.remember("1c.hosts", &before).unwrap();
        for (first, second, expected) in [
            (json!("i-1"), json!(null), vec![]),
            (json!("i-2"), json!(null), vec!["web1"]),
            (json!(null), json!("i-9"), vec![]),
        ] {
            let now = two(first, second);
            assert_eq!(
                named(&machines.replaced("1c.hosts", &now).unwrap()),
                expected
            );
        }
        let same_door = fleet(json!({ "other": { "address": "192.0.2.2" } }));
        assert!(machines.replaced("2.more", &same_door).unwrap().is_empty());
    }

    /// Case H1: the pins of a replaced machine go, wherever it was; all others stay.
    #[test]
    fn pins_are_given_up_with_the_machine_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let known_hosts = dir.path().join("known_hosts");
        let machines = Machines::at(dir.path().join("machines.json"));
        machines
            .renew("k", &known_hosts, &two(json!("i-1"), json!("i-2")))
            .unwrap();
        let text = format!("192.0.2.1 {KEY}\n192.0.2.2 {KEY}\n");
        write_atomically(&known_hosts, text.as_bytes(), 0o600).unwrap();
        let moved = fleet(json!({
            "web1": { "address": "192.0.2.9", "machine_id": "i-3" },
            "web2": { "address": "192.0.2.2", "machine_id": "i-2" },
        }));
        let replaced = machines.renew("k", &known_hosts, &moved).unwrap();
        assert_eq!(named(&replaced), ["web1"]);
        let left = std::fs::read_to_string(&known_hosts).unwrap();
        assert_eq!(left, format!("192.0.2.2 {KEY}\n"));
        assert!(
            machines
                .renew("k", &known_hosts, &moved)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_is_forgotten_takes_its_pins_along_and_leaves_others() {
        let dir = tempfile::tempdir().unwrap();
        let known_hosts = dir.path().join("known_hosts");
        let machines = Machines::at(dir.path().join("machines.json"));
        let text =
            format!("# ours\n192.0.2.1 {KEY}\n192.0.2.2 {KEY}\nelsewhere.example.org {KEY}\n");
        write_atomically(&known_hosts, text.as_bytes(), 0o600).unwrap();
        machines
            .remember("1c.hosts", &two(json!("i-1"), json!("i-2")))
            .unwrap();
        machines.forget("1c.hosts", &known_hosts).unwrap();
        let left = std::fs::read_to_string(&known_hosts).unwrap();
        assert_eq!(left, format!("# ours\nelsewhere.example.org {KEY}\n"));
        machines.forget("1c.hosts", &known_hosts).unwrap();
    }

    /// A machine between that the output does not name goes with the last host behind it; what a person pinned stays.
    #[test]
    fn what_led_to_hosts_is_forgotten_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let known_hosts = dir.path().join("known_hosts");
        let machines = Machines::at(dir.path().join("machines.json"));
        let behind = |address: &str, key: Option<&str>| json!({ "address": address, "machine_id": address, "jump_host": "ops@192.0.2.9:2200", "jump_host_key": key });
        let door = format!("[192.0.2.9]:2200 {KEY}\n");
        let known = || std::fs::read_to_string(&known_hosts).unwrap();
        let two = fleet(
            json!({ "a": behind("192.0.2.1", Some(KEY)), "b": behind("192.0.2.2", Some(KEY)) }),
        );
        machines.renew("k", &known_hosts, &two).unwrap();
        let text = format!(
            "# ours\n@cert-authority 192.0.2.1 {KEY}\n@cert-authority [192.0.2.9]:2200 {KEY}\n@cert-authority * {KEY}\n{door}"
        );
        write_atomically(&known_hosts, text.as_bytes(), 0o600).unwrap();
        let one = fleet(json!({ "b": behind("192.0.2.2", Some(KEY)) }));
        machines.renew("k", &known_hosts, &one).unwrap();
        assert!(
            known().contains(&door) && !known().contains("192.0.2.1"),
            "{}",
            known()
        );
        machines.forget("k", &known_hosts).unwrap();
        assert_eq!(known(), format!("# ours\n@cert-authority * {KEY}\n"));

        let text = format!("# ours\n{door}");
        write_atomically(&known_hosts, text.as_bytes(), 0o600).unwrap();
        let theirs = fleet(json!({ "a": behind("192.0.2.1", None) }));
        machines.renew("k", &known_hosts, &theirs).unwrap();
        machines.forget("k", &known_hosts).unwrap();
        assert_eq!(known(), text);
    }

    #[test]
    fn another_machine_of_ours_takes_the_pins_over_once() {
        let dir = tempfile::tempdir().unwrap();
        let here = (
            dir.path().join("a/known_hosts"),
            Machines::at(dir.path().join("a/m.json")),
        );
        let there = (
            dir.path().join("b/known_hosts"),
            Machines::at(dir.path().join("b/m.json")),
        );
        let fleet = two(json!("i-1"), json!("i-2"));
        here.1.remember("k", &fleet).unwrap();
        KnownHostsFile::at(&here.0)
            .edit(|known| {
                known.pin(&HostPort::new("192.0.2.1", 22), &[KEY.parse().unwrap()]);
                Ok::<_, KnownHostsError>(())
            })
            .unwrap();
        let snapshot = here.1.snapshot("k", &here.0).unwrap();
        let restore = |snapshot| there.1.restore("k", &there.0, snapshot, &fleet).unwrap();
        assert_eq!(named(&restore(&snapshot)), ["web1", "web2"]);
        assert!(there.1.replaced("k", &fleet).unwrap().is_empty());
        let known = KnownHostsFile::at(&there.0).read().unwrap();
        assert_eq!(
            known.find(&HostPort::new("192.0.2.1", 22)).keys,
            [KEY.parse().unwrap()]
        );
        assert!(restore(&snapshot).is_empty(), "what is known here holds");
        // Made anew and onboarded here since: that machine has not heard of it.
        let anew = two(json!("i-3"), json!("i-2"));
        here.1.renew("k", &here.0, &anew).unwrap();
        let snapshot = here.1.snapshot("k", &here.0).unwrap();
        let taken = there.1.restore("k", &there.0, &snapshot, &anew).unwrap();
        assert_eq!(named(&taken), ["web1"]);
        let known = KnownHostsFile::at(&there.0).read().unwrap();
        assert!(known.find(&HostPort::new("192.0.2.1", 22)).keys.is_empty());
    }
}
