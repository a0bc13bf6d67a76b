//! The name under which a host's key is looked up.

use std::fmt;

/// A host with its port, in the form that the ssh client looks up: `host` for port 22, else `[host]:port`.
///
/// Names are lower case there, as the client makes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    name: String,
}

impl HostPort {
    /// The name of `host`, a DNS name or an address (IPv6 without brackets), at `port`.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        let host = host.to_lowercase();
        let name = match port {
            22 => host,
            port => format!("[{host}]:{port}"),
        };
        Self { name }
    }

    /// The name as it stands in the file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Tells whether a comma-separated list of patterns matches, as OpenSSH does: `*`, `?`, and `!` which
/// takes a name out again wherever it stands.
pub(crate) fn list_matches(patterns: &str, name: &str) -> bool {
    let mut is_in = false;
    for pattern in patterns.split(',') {
        let (is_negated, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if matches(pattern.to_ascii_lowercase().as_bytes(), name.as_bytes()) {
            if is_negated {
                return false;
            }
            is_in = true;
        }
    }
    is_in
}

/// One pattern with `*` and `?`. Linear in its memory: the last star alone is gone back to.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    in_name = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case H3: `[host]:port` for other ports, the plain form for 22.
    #[test]
    fn the_plain_form_is_for_port_22_alone() {
        assert_eq!(HostPort::new("Web1", 22).as_str(), "web1");
        assert_eq!(HostPort::new("web1", 2222).as_str(), "[web1]:2222");
        assert_eq!(HostPort::new("FE80::1", 22).as_str(), "fe80::1");
        assert_eq!(HostPort::new("::1", 2222).as_str(), "[::1]:2222");
    }

    #[test]
    fn patterns_match_as_openssh_has_them() {
        for (list, name, expected) in [
            ("web1", "web1", true),
            ("WEB1", "web1", true),
            ("web?", "web1", true),
            ("web?", "web12", false),
            ("*.example.org,!db.example.org", "web.example.org", true),
            ("*.example.org,!db.example.org", "db.example.org", false),
            ("!db.example.org,*.example.org", "db.example.org", false),
            ("!web1", "db", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("[web1]:2222", "[web1]:2222", true),
            ("[web1]:2222", "web1", false),
        ] {
            assert_eq!(list_matches(list, name), expected, "{list} {name}");
        }
    }
}
