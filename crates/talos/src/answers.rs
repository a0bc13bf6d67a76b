//! What `talosctl` prints, read.

use serde_json::Value;

use crate::version::Version;

/// Why an answer is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`talosctl {command}` printed no {what}")]
pub struct AnswerError {
    /// The command.
    pub command: &'static str,
    /// What was looked for.
    pub what: &'static str,
}

/// Reads the version of the machine out of what `version` prints: the first `Tag` after `Server`.
///
/// # Errors
/// There is none.
pub fn server_version(text: &str) -> Result<Version, AnswerError> {
    let server = text.split_once("Server:").map(|(_, server)| server);
    tag(server.unwrap_or_default()).ok_or(AnswerError {
        command: "version",
        what: "version of the machine",
    })
}

/// Reads the version of `talosctl` itself out of what `version --client` prints.
///
/// # Errors
/// There is none.
pub fn client_version(text: &str) -> Result<Version, AnswerError> {
    tag(text).ok_or(AnswerError {
        command: "version --client",
        what: "version",
    })
}

fn tag(text: &str) -> Option<Version> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Tag:"))
        .find_map(|tag| tag.trim().parse().ok())
}

/// Reads the kernel's boot id.
///
/// # Errors
/// There is none.
pub fn boot_id(text: &str) -> Result<String, AnswerError> {
    let id = text.trim();
    let legal = !id.is_empty() && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    legal.then(|| id.to_owned()).ok_or(AnswerError {
        command: "read",
        what: "boot id",
    })
}

/// Reads what is wrong with members of etcd out of what `etcd status` prints: a member with errors, one that is still
/// learning, or fewer members than there should be.
///
/// The columns are found by their titles: later versions of `talosctl` print more of them.
///
/// # Errors
/// It is no table of members.
pub fn etcd_faults(text: &str, n_members: usize) -> Result<Vec<String>, AnswerError> {
    let no_table = AnswerError {
        command: "etcd status",
        what: "table of members",
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next().ok_or(no_table.clone())?;
    let (Some(learner), Some(errors)) = (header.find("LEARNER"), header.find("ERRORS")) else {
        return Err(no_table);
    };
    let mut faults = Vec::new();
    let mut n_found = 0;
    for line in lines {
        n_found += 1;
        let member = line.split_whitespace().next().unwrap_or_default();
        let at = |from: usize| line.get(from..).unwrap_or_default().trim();
        if at(learner).starts_with("true") {
            faults.push(format!("the member on {member} is still learning"));
        }
        if !at(errors).is_empty() {
            faults.push(format!("the member on {member} says: {}", at(errors)));
        }
    }
    if n_found < n_members {
        faults.push(format!("{n_found} of {n_members} members answered"));
    }
    Ok(faults)
}

/// Reads the names of disks that Talos can be installed on.
#[must_use]
pub fn disks(text: &str) -> Vec<String> {
    documents(text)
        .iter()
        .filter(|disk| disk["spec"]["readonly"] != true && disk["spec"]["cdrom"] != true)
        .filter_map(|disk| {
            disk["spec"]["dev_path"]
                .as_str()
                .map(str::to_owned)
                .or_else(|| Some(format!("/dev/{}", disk["metadata"]["id"].as_str()?)))
        })
        .filter(|path| !path.starts_with("/dev/loop"))
        .collect()
}

/// Reads the names of network interfaces that are hardware and up.
#[must_use]
pub fn links(text: &str) -> Vec<String> {
    documents(text)
        .iter()
        .filter(|link| {
            link["spec"]["type"] == "ether"
                && link["spec"]["operationalState"] == "up"
                && link["spec"]["kind"].as_str().unwrap_or_default().is_empty()
        })
        .filter_map(|link| link["metadata"]["id"].as_str().map(str::to_owned))
        .collect()
}

/// Several JSON documents, one after the other.
fn documents(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .map_while(Result::ok)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VERSION: &str = "Client:\n\tTag:         v1.12.0\n\tSHA:         undefined\nServer:\n\tNODE:        10.0.0.1\n\tTag:         v1.11.2\n\tSHA:         aa11\n\tBuilt:       \n\tGo version:  go1.24.6\n\tOS/Arch:     linux/amd64\n\tEnabled:     RBAC\n";

    #[test]
    fn the_version_is_the_machines_and_not_the_programs() {
        assert_eq!(server_version(VERSION).unwrap().to_string(), "v1.11.2");
        assert_eq!(client_version(VERSION).unwrap().to_string(), "v1.12.0");
        // A machine that does not answer leaves the program's own version alone.
        let only_client = "Client:\n\tTag:         v1.12.0\nServer:\n";
        assert!(server_version(only_client).is_err());
    }

    #[test]
    fn a_boot_id_is_one_and_nothing_else() {
        let id = "0f1c7ab0-6e35-4c29-9f10-7f5d3f9a8f10";
        assert_eq!(boot_id(&format!("{id}\n")).unwrap(), id);
        assert!(boot_id("").is_err());
        assert!(boot_id("error: no such file").is_err());
    }

    #[test]
    fn a_sick_member_is_found_whatever_columns_there_are() {
        let table = |learner: &str, errors: &str| {
            format!(
                "NODE       MEMBER             DB SIZE   IN USE            LEADER   RAFT INDEX   LEARNER   ERRORS\n\
                 10.0.0.1   aa00000000000001   25 MB     9.1 MB (36.00%)   aa01     103          false     \n\
                 10.0.0.2   aa00000000000002   25 MB     9.1 MB (36.00%)   aa01     103          {learner:<10}{errors}\n"
            )
        };
        let none: [&str; 0] = [];
        assert_eq!(etcd_faults(&table("false", ""), 2).unwrap(), none);
        assert!(etcd_faults(&table("true", ""), 2).unwrap()[0].contains("learning"));
        let sick = etcd_faults(&table("false", "etcdserver: no leader"), 2).unwrap();
        assert_eq!(sick, ["the member on 10.0.0.2 says: etcdserver: no leader"]);
        assert_eq!(
            etcd_faults(&table("false", ""), 3).unwrap(),
            ["2 of 3 members answered"]
        );
        assert!(etcd_faults("rpc error\n", 1).is_err());
        assert!(etcd_faults("", 1).is_err());
    }

    #[test]
    fn disks_and_interfaces_are_those_that_a_machine_can_be_given() {
        let disks_text = r#"{"node":"10.0.0.9","metadata":{"id":"loop0"},"spec":{"dev_path":"/dev/loop0","readonly":true}}
{"node":"10.0.0.9","metadata":{"id":"nvme0n1"},"spec":{"dev_path":"/dev/nvme0n1","size":1}}
{"node":"10.0.0.9","metadata":{"id":"sda"},"spec":{}}
{"node":"10.0.0.9","metadata":{"id":"sr0"},"spec":{"dev_path":"/dev/sr0","cdrom":true}}"#;
        assert_eq!(disks(disks_text), ["/dev/nvme0n1", "/dev/sda"]);
        let links_text = r#"{"metadata":{"id":"lo"},"spec":{"type":"loopback","operationalState":"unknown"}}
{"metadata":{"id":"enp1s0"},"spec":{"type":"ether","kind":"","operationalState":"up"}}
{"metadata":{"id":"enp2s0"},"spec":{"type":"ether","kind":"","operationalState":"down"}}
{"metadata":{"id":"dummy0"},"spec":{"type":"ether","kind":"dummy","operationalState":"up"}}"#;
        assert_eq!(links(links_text), ["enp1s0"]);
        assert!(disks("no JSON").is_empty());
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange_to_be_read(text in ".{0,400}", n in 0_usize..5) {
            let _ = (server_version(&text), client_version(&text), boot_id(&text));
            let _ = (etcd_faults(&text, n), disks(&text), links(&text));
            let table = format!("NODE LEARNER ERRORS\n{text}");
            prop_assert!(etcd_faults(&table, n).is_ok());
        }
    }
}
