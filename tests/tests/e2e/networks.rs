//! Machines as network namespaces: each with an address and a port 22 of its own, one behind another.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU8, Ordering};

/// Namespaces of one test; removed when dropped, and with them every link into them.
pub(crate) struct Networks {
    prefix: String,
    names: Vec<String>,
    block: [u8; 2],
}

impl Networks {
    /// None yet. Whether this machine can make any: it takes Linux, root and `ip`.
    pub(crate) fn new() -> Option<Self> {
        static N: AtomicU8 = AtomicU8::new(0);
        let pid = std::process::id();
        let n = N.fetch_add(1, Ordering::Relaxed);
        let networks = Self {
            prefix: format!("rb{}x{n}", pid % 100_000),
            names: Vec::new(),
            // Of a block that is private and seldom used.
            block: [200 + (pid % 50) as u8, (pid / 50 % 64) as u8 * 4 + n % 4],
        };
        let probe = format!("{}p", networks.prefix);
        let can = cfg!(target_os = "linux")
            && rustix::process::geteuid().is_root()
            && try_ip(&["netns", "add", &probe]);
        if can {
            ip(&["netns", "delete", &probe]);
        }
        can.then_some(networks)
    }

    fn address(&self, net: u8, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.block[0], self.block[1], net * 4 + host)
    }

    /// Makes a namespace with a link to this machine, or to another namespace, and returns its name and address.
    pub(crate) fn add(&mut self, behind: Option<&str>) -> (String, IpAddr) {
        let net = u8::try_from(self.names.len()).expect("a few namespaces");
        let name = format!("{}n{net}", self.prefix);
        let (outer, inner) = (
            format!("{}o{net}", self.prefix),
            format!("{}i{net}", self.prefix),
        );
        let (near, far) = (self.address(net, 1), self.address(net, 2));
        ip(&["netns", "add", &name]);
        self.names.push(name.clone());
        ip(&[
            "link", "add", &outer, "type", "veth", "peer", "name", &inner,
        ]);
        ip(&["link", "set", &inner, "netns", &name]);
        let here: Vec<&str> = match behind {
            Some(other) => {
                ip(&["link", "set", &outer, "netns", other]);
                vec!["-n", other]
            }
            None => Vec::new(),
        };
        let there = ["-n", name.as_str()];
        let near = format!("{near}/30");
        ip(&[&here[..], &["address", "add", &near, "dev", &outer]].concat());
        ip(&[&here[..], &["link", "set", &outer, "up"]].concat());
        let with_net = format!("{far}/30");
        ip(&[&there[..], &["address", "add", &with_net, "dev", &inner]].concat());
        ip(&[&there[..], &["link", "set", &inner, "up"]].concat());
        ip(&[&there[..], &["link", "set", "lo", "up"]].concat());
        (name, far.into())
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in self.names.iter().rev() {
            try_ip(&["netns", "delete", name]);
        }
    }
}

fn ip(args: &[&str]) {
    let ended = run_ip(args).expect("`ip`");
    assert!(
        ended.status.success(),
        "`ip {}` failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&ended.stderr)
    );
}

fn try_ip(args: &[&str]) -> bool {
    run_ip(args).is_ok_and(|ended| ended.status.success())
}

fn run_ip(args: &[&str]) -> std::io::Result<std::process::Output> {
    std::process::Command::new("ip").args(args).output()
}
