//! A cluster in memory, which fails in each way that one can.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::*;

/// How a machine takes its upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Takes {
    #[default]
    Well,
    /// It is back, and the command never ends.
    Hangs,
    /// Installed, and never started anew.
    NeverBoots,
    /// It comes back with what it had.
    RollsBack,
    /// The command fails, and nothing began.
    Refuses,
    /// The command fails as its connection was lost, and the machine is upgraded all the same.
    LosesTheLine,
    /// It never answers again.
    Dies,
}

#[derive(Debug, Clone)]
struct Node {
    version: String,
    boot: u32,
    takes: Takes,
    /// When it is back, in ticks; silent until then.
    back_at: u64,
    on_its_way: Option<(String, u32)>,
}

struct Fake {
    nodes: RefCell<BTreeMap<String, Node>>,
    ticks: Cell<u64>,
    calls: RefCell<Vec<String>>,
    noted: RefCell<Option<Journal>>,
    sick_until: Cell<u64>,
    stop_at: Cell<Option<u64>>,
}

struct FakeUpgrade<'f> {
    fake: &'f Fake,
    name: String,
    takes: Takes,
    ended: bool,
}

impl Upgrade for FakeUpgrade<'_> {
    fn ended(&mut self) -> Option<bool> {
        match self.takes {
            Takes::Hangs | Takes::Dies => self.ended.then_some(false),
            Takes::Refuses | Takes::LosesTheLine => Some(false),
            _ => Some(true),
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.fake.call(format!("end {}", self.name));
    }

    fn tail(&self) -> Vec<String> {
        vec!["the last line".to_owned()]
    }
}

impl Fake {
    fn new(takes: &[(&str, Takes)]) -> Self {
        let nodes = takes.iter().map(|(name, takes)| {
            let node = Node {
                version: "v1.11.1".to_owned(),
                boot: 1,
                takes: *takes,
                back_at: 0,
                on_its_way: None,
            };
            ((*name).to_owned(), node)
        });
        Self {
            nodes: RefCell::new(nodes.collect()),
            ticks: Cell::new(0),
            calls: RefCell::default(),
            noted: RefCell::default(),
            sick_until: Cell::new(0),
            stop_at: Cell::new(None),
        }
    }

    fn call(&self, call: String) {
        self.calls.borrow_mut().push(call);
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.borrow_mut())
    }

    fn given(&self) -> Given {
        let machines = self.nodes.borrow();
        let mut machines: Vec<Machine> = machines
            .keys()
            .map(|name| Machine {
                role: if name.starts_with('c') {
                    Role::ControlPlane
                } else {
                    Role::Worker
                },
                name: name.clone(),
                address: name.clone(),
            })
            .collect();
        machines.sort();
        Given {
            machines,
            wanted: "v1.11.2".parse().unwrap(),
            image: "image".to_owned(),
            n_patches: 0,
            limits: Limits {
                node: Duration::from_secs(40),
                health: Duration::from_secs(5),
                every: Duration::from_secs(1),
            },
            journal: self.noted.borrow().clone(),
        }
    }

    fn walk(&self) -> Result<Walked, WalkError> {
        walk(&self.given(), self)
    }

    fn versions(&self) -> Vec<String> {
        let nodes = self.nodes.borrow();
        nodes.values().map(|node| node.version.clone()).collect()
    }
}

impl Cluster for Fake {
    fn look(&self, machine: &Machine) -> Seen {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.get_mut(&machine.name).unwrap();
        if node.back_at > self.ticks.get() {
            return Seen::Silent;
        }
        if let Some((version, boot)) = node.on_its_way.take() {
            node.version = version;
            node.boot = boot;
        }
        Seen::Up {
            version: node.version.parse().unwrap(),
            boot_id: node.boot.to_string(),
        }
    }

    fn health(&self) -> Result<(), String> {
        self.call("health".to_owned());
        if self.sick_until.get() > self.ticks.get() {
            Err("one member has no leader".to_owned())
        } else {
            Ok(())
        }
    }

    fn upgrade(&self, machine: &Machine) -> Result<Box<dyn Upgrade + '_>, String> {
        self.call(format!("upgrade {}", machine.name));
        let noted = self
            .noted
            .borrow()
            .as_ref()
            .map(|noted| noted.machine.clone());
        assert_eq!(
            noted.as_ref(),
            Some(&machine.name),
            "noted before it begins"
        );
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes.get_mut(&machine.name).unwrap();
        let new = ("v1.11.2".to_owned(), node.boot + 1);
        let back_at = self.ticks.get() + 3;
        match node.takes {
            Takes::Well | Takes::Hangs | Takes::LosesTheLine => {
                (node.back_at, node.on_its_way) = (back_at, Some(new));
            }
            Takes::RollsBack => {
                let old = (node.version.clone(), node.boot + 1);
                (node.back_at, node.on_its_way) = (back_at, Some(old));
            }
            Takes::NeverBoots | Takes::Refuses => {}
            Takes::Dies => node.back_at = u64::MAX,
        }
        Ok(Box::new(FakeUpgrade {
            fake: self,
            name: machine.name.clone(),
            takes: node.takes,
            ended: false,
        }))
    }

    fn patch(&self, machine: &Machine, n: usize) -> Result<(), String> {
        self.call(format!("patch {} {n}", machine.name));
        Ok(())
    }

    fn note(&self, journal: Option<&Journal>) -> Result<(), String> {
        *self.noted.borrow_mut() = journal.cloned();
        Ok(())
    }

    fn wait(&self, time: Duration) -> Result<(), Stopped> {
        self.ticks.set(self.ticks.get() + time.as_secs());
        match self.stop_at.get() {
            Some(at) if self.ticks.get() >= at => Err(Stopped),
            _ => Ok(()),
        }
    }

    fn passed(&self) -> Duration {
        Duration::from_secs(self.ticks.get())
    }

    fn tell(&self, _: &Machine, _: bool) {}
}

#[test]
fn control_plane_first_one_at_a_time_and_health_before_each() {
    let fake = Fake::new(&[
        ("w1", Takes::Well),
        ("c2", Takes::Well),
        ("c1", Takes::Well),
    ]);
    let mut given = fake.given();
    given.n_patches = 1;
    let walked = walk(&given, &fake).unwrap();
    assert_eq!(walked.upgraded, ["c1", "c2", "w1"]);
    assert_eq!(
        fake.calls(),
        [
            "health",
            "upgrade c1",
            "end c1",
            "health",
            "upgrade c2",
            "end c2",
            "health",
            "upgrade w1",
            "end w1",
            "health",
            // Case O6: the version first, and then what only the new one understands.
            "patch c1 0",
            "patch c2 0",
            "patch w1 0",
            "health"
        ]
    );
    assert_eq!(fake.noted.borrow().as_ref(), None);
    // A second time nothing is to do, and nothing is asked of the cluster.
    assert_eq!(fake.walk().unwrap().n_already, 3);
    assert_eq!(fake.calls(), [""; 0]);
}

/// Cases O1 and O2, a rollback, a refusal, a lost line and a dead machine.
#[test]
fn each_way_to_fail_is_told_and_no_next_machine_is_touched() {
    for (takes, expected) in [
        (Takes::Hangs, None),
        (Takes::LosesTheLine, None),
        (Takes::NeverBoots, Some("installed, not booted")),
        (Takes::RollsBack, Some("rolled back")),
        (Takes::Refuses, Some("refused")),
        (Takes::Dies, Some("did not come back in time")),
    ] {
        let fake = Fake::new(&[("c1", takes), ("c2", Takes::Well)]);
        let walked = fake.walk();
        match expected {
            None => {
                assert_eq!(walked.unwrap().upgraded, ["c1", "c2"], "{takes:?}");
                // The node's limit is 40, and nobody waited for it.
                assert!(fake.ticks.get() < 20, "{takes:?}");
            }
            Some(expected) => {
                let error = walked.unwrap_err();
                assert!(error.to_string().contains(expected), "{error}");
                assert!(matches!(error, WalkError::Failed { n_left: 1, .. }));
                assert!(!fake.calls().contains(&"upgrade c2".to_owned()));
                assert!(fake.ticks.get() <= 41, "{takes:?}");
                assert_eq!(fake.noted.borrow().as_ref(), None);
            }
        }
    }
}

/// Case O4: one sick member, and nothing begins.
#[test]
fn an_unhealthy_cluster_is_waited_for_and_then_left_alone() {
    let fake = Fake::new(&[("c1", Takes::Well)]);
    fake.sick_until.set(3);
    assert!(fake.walk().is_ok());
    let fake = Fake::new(&[("c1", Takes::Well)]);
    fake.sick_until.set(u64::MAX);
    let error = fake.walk().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("before machine `c1`") && text.contains("no leader"),
        "{text}"
    );
    assert!(!fake.calls().contains(&"upgrade c1".to_owned()));
}

#[test]
fn nothing_is_upgraded_while_one_machine_says_no_version_or_a_newer_one() {
    let fake = Fake::new(&[("c1", Takes::Well), ("w1", Takes::Well)]);
    fake.nodes.borrow_mut().get_mut("w1").unwrap().back_at = u64::MAX;
    let error = fake.walk().unwrap_err();
    assert!(matches!(error, WalkError::Unknown { machine } if machine == "w1"));
    fake.nodes.borrow_mut().get_mut("w1").unwrap().back_at = 0;
    fake.nodes.borrow_mut().get_mut("w1").unwrap().version = "v1.12.0".to_owned();
    assert!(matches!(fake.walk().unwrap_err(), WalkError::Newer { .. }));
    assert_eq!(fake.versions()[0], "v1.11.1");
}

/// Case O7: cut in the wait, and the next call finds what the machine has become.
#[test]
fn a_cut_walk_goes_on_at_the_machine_that_it_was_at_and_upgrades_none_twice() {
    // Every instant of a whole walk.
    let whole = Fake::new(&[
        ("c1", Takes::Well),
        ("c2", Takes::Well),
        ("w1", Takes::Well),
    ]);
    whole.walk().unwrap();
    for cut in 1..=whole.ticks.get() {
        let fake = Fake::new(&[
            ("c1", Takes::Well),
            ("c2", Takes::Well),
            ("w1", Takes::Well),
        ]);
        fake.stop_at.set(Some(cut));
        assert_eq!(fake.walk(), Err(WalkError::Stopped), "{cut}");
        fake.stop_at.set(None);
        fake.walk().unwrap();
        let upgrades: Vec<String> = fake
            .calls()
            .into_iter()
            .filter(|call| call.starts_with("upgrade"))
            .collect();
        assert_eq!(
            upgrades,
            ["upgrade c1", "upgrade c2", "upgrade w1"],
            "{cut}"
        );
        assert_eq!(fake.versions(), ["v1.11.2"; 3]);
    }
}

#[test]
fn a_machine_that_was_noted_and_never_begun_is_upgraded_and_one_that_rolled_back_is_told() {
    let journal = Journal {
        machine: "c1".to_owned(),
        wanted: "v1.11.2".to_owned(),
        version: "v1.11.1".to_owned(),
        boot_id: "1".to_owned(),
    };
    let fake = Fake::new(&[("c1", Takes::Well)]);
    *fake.noted.borrow_mut() = Some(journal.clone());
    assert_eq!(fake.walk().unwrap().upgraded, ["c1"]);
    assert_eq!(
        fake.calls()
            .iter()
            .filter(|call| *call == "upgrade c1")
            .count(),
        1
    );
    let fake = Fake::new(&[("c1", Takes::Well)]);
    *fake.noted.borrow_mut() = Some(journal.clone());
    fake.nodes.borrow_mut().get_mut("c1").unwrap().boot = 2;
    let error = fake.walk().unwrap_err();
    assert!(error.to_string().contains("rolled back"), "{error}");
    // A note of a machine that is gone, or of another version, says nothing.
    let gone = Journal {
        machine: "x".to_owned(),
        ..journal
    };
    let fake = Fake::new(&[("c1", Takes::Well)]);
    *fake.noted.borrow_mut() = Some(gone);
    assert_eq!(fake.walk().unwrap().upgraded, ["c1"]);
}

#[test]
fn what_does_not_run_the_version_is_named() {
    let fake = Fake::new(&[("c1", Takes::Well), ("w1", Takes::Well)]);
    fake.nodes.borrow_mut().get_mut("c1").unwrap().version = "v1.11.2".to_owned();
    let given = fake.given();
    assert_eq!(
        verify(&given, &fake),
        ["machine `w1` runs v1.11.1, and not v1.11.2"]
    );
    fake.nodes.borrow_mut().get_mut("c1").unwrap().back_at = u64::MAX;
    assert_eq!(verify(&given, &fake).len(), 2);
}

#[test]
fn no_machines_are_nothing_to_do() {
    let fake = Fake::new(&[]);
    assert_eq!(fake.walk(), Ok(Walked::default()));
}
