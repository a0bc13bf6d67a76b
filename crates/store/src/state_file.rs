//! A state as the store keeps it: one JSON line of ours, then OpenTofu's bytes as they are.

use crate::Body;
use process::Identity;
use serde::{Deserialize, Serialize};
use std::io;

/// The version of the header that this code writes.
pub const SCHEMA: u32 = 1;
/// No header is longer; a first line that is, is none.
pub const MAX_HEADER: usize = 64 * 1024;

/// Who wrote a value: a call of `rebuild`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// The process.
    pub identity: Identity,
    /// The user's name.
    pub user: String,
    /// The machine's name.
    pub host: String,
    /// The run, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The line in front of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHeader {
    /// The version of this header's shape.
    pub schema: u32,
    /// Who wrote the state.
    pub writer: Writer,
    /// The number of the target's lock under which it was written, or taken over.
    pub fence: u64,
    /// The SHA-256 of OpenTofu's bytes, in hexadecimal.
    pub digest: String,
    /// The state's lineage; empty where OpenTofu has given it none yet.
    pub lineage: String,
    /// The state's serial, which counts within one lineage.
    pub serial: u64,
    /// The digest of the bytes that these were made of, where nothing but their key was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rekeyed_from: Option<String>,
}

/// What OpenTofu leaves readable of a state, encrypted or not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Meta {
    /// The lineage; empty in the `errored.tfstate` of a first apply.
    #[serde(default)]
    pub lineage: String,
    /// The serial.
    pub serial: u64,
}

/// Why bytes are not a state.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// There is no line of ours in front.
    #[error("the state has no header line")]
    NoHeader,
    /// The line is not what this code, or an older one, writes.
    #[error("the header line of the state can't be read")]
    Header(#[source] serde_json::Error),
    /// A later `rebuild` has written it.
    #[error(
        "the state has a header of schema {found}, and this `rebuild` knows up to {SCHEMA}: a newer one is needed"
    )]
    Newer {
        /// The schema that was found.
        found: u32,
    },
    /// The bytes are not those that were written.
    #[error("the state is damaged: its digest is `{found}`, written was `{written}`")]
    Damaged {
        /// What the header says.
        written: String,
        /// What the bytes give.
        found: String,
    },
    /// OpenTofu's bytes don't say which serial they are.
    #[error("these bytes are no OpenTofu state: there is no `serial` in them")]
    NotAState(#[source] serde_json::Error),
    /// The bytes could not be read where they are kept meanwhile.
    #[error("the bytes of the state can't be read")]
    Unreadable(#[source] io::Error),
}

/// Reads lineage and serial out of OpenTofu's bytes.
pub fn meta(bytes: &[u8]) -> Result<Meta, StateFileError> {
    serde_json::from_slice(bytes).map_err(StateFileError::NotAState)
}

/// Reads lineage and serial out of OpenTofu's bytes as they come.
pub fn meta_from(reader: impl io::Read) -> Result<Meta, StateFileError> {
    serde_json::from_reader(io::BufReader::new(reader)).map_err(|error| {
        if error.is_io() {
            StateFileError::Unreadable(error.into())
        } else {
            StateFileError::NotAState(error)
        }
    })
}

impl StateHeader {
    /// The header of OpenTofu's bytes, wherever they are.
    pub fn of_body(bytes: &Body, writer: Writer, fence: u64) -> Result<Self, StateFileError> {
        let Meta { lineage, serial } = meta_from(bytes.reader())?;
        let digest = bytes
            .sha256_after(b"")
            .map_err(StateFileError::Unreadable)?;
        Ok(Self {
            schema: SCHEMA,
            writer,
            fence,
            digest,
            lineage,
            serial,
            rekeyed_from: None,
        })
    }

    /// The header of OpenTofu's `bytes`.
    pub fn of(bytes: &[u8], writer: Writer, fence: u64) -> Result<Self, StateFileError> {
        let Meta { lineage, serial } = meta(bytes)?;
        let digest = crate::sha256_hex(bytes);
        Ok(Self {
            schema: SCHEMA,
            writer,
            fence,
            digest,
            lineage,
            serial,
            rekeyed_from: None,
        })
    }
}

/// A header as it stands in front of OpenTofu's bytes, its line end included.
pub fn line(header: &StateHeader) -> Result<Vec<u8>, StateFileError> {
    let mut line = serde_json::to_vec(header).map_err(StateFileError::Header)?;
    line.push(b'\n');
    Ok(line)
}

/// The header of a stored value, read from its first [`MAX_HEADER`] bytes or more; nothing is checked against
/// its digest. Gives its length as well, with the line end.
pub fn header_at_start(start: &[u8]) -> Result<(StateHeader, usize), StateFileError> {
    let (line, _) = split(start).ok_or(StateFileError::NoHeader)?;
    Ok((header(line)?, line.len() + 1))
}

/// [`decode`] for a value that need not fit into memory.
pub fn decode_body(body: &Body) -> Result<(StateHeader, Body), StateFileError> {
    let start = body
        .chunk(0, MAX_HEADER)
        .map_err(StateFileError::Unreadable)?;
    let (header, n_bytes) = header_at_start(&start)?;
    let bytes = body.after(n_bytes as u64);
    let found = bytes
        .sha256_after(b"")
        .map_err(StateFileError::Unreadable)?;
    if found != header.digest {
        return Err(StateFileError::Damaged {
            written: header.digest,
            found,
        });
    }
    Ok((header, bytes))
}

/// Joins a header and OpenTofu's bytes.
pub fn encode(header: &StateHeader, bytes: &[u8]) -> Result<Vec<u8>, StateFileError> {
    let mut body = line(header)?;
    body.extend_from_slice(bytes);
    Ok(body)
}

/// Parts a stored body into header and OpenTofu's bytes, which are checked against the digest.
pub fn decode(body: &[u8]) -> Result<(StateHeader, &[u8]), StateFileError> {
    let (line, bytes) = split(body).ok_or(StateFileError::NoHeader)?;
    let header = header(line)?;
    let found = crate::sha256_hex(bytes);
    if found != header.digest {
        return Err(StateFileError::Damaged {
            written: header.digest,
            found,
        });
    }
    Ok((header, bytes))
}

fn header(line: &[u8]) -> Result<StateHeader, StateFileError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    let Schema { schema } = serde_json::from_slice(line).map_err(StateFileError::Header)?;
    if schema > SCHEMA {
        return Err(StateFileError::Newer { found: schema });
    }
    serde_json::from_slice(line).map_err(StateFileError::Header)
}

/// Parts a stored body after its first line.
pub(crate) fn split(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body
        .iter()
        .take(MAX_HEADER)
        .position(|byte| *byte == b'\n')?;
    Some((&body[..end], &body[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn writer() -> Writer {
        Writer {
            identity: Identity::of_self().unwrap(),
            user: "ann".into(),
            host: "lab".into(),
            run: None,
        }
    }

    const STATE: &[u8] = b"{\"version\":4,\"serial\":3,\"lineage\":\"l\",\n\"x\":1}\n";

    #[test]
    fn bytes_come_back_as_they_were() {
        let header = StateHeader::of(STATE, writer(), 7).unwrap();
        assert_eq!(
            (header.serial, header.lineage.as_str(), header.fence),
            (3, "l", 7)
        );
        let body = encode(&header, STATE).unwrap();
        let (read, bytes) = decode(&body).unwrap();
        assert_eq!(read, header);
        assert_eq!(bytes, STATE);
    }

    #[test]
    fn an_encrypted_state_shows_lineage_and_serial() {
        let meta =
            meta(br#"{"serial":9,"lineage":"x","meta":{},"encrypted_data":"AA=="}"#).unwrap();
        assert_eq!(
            meta,
            Meta {
                lineage: "x".into(),
                serial: 9
            }
        );
    }

    #[test]
    fn what_is_no_state_is_refused() {
        for bytes in [
            &b""[..],
            b"[]",
            b"{}",
            b"{\"serial\":-1}",
            b"{\"serial\":\"3\"}",
            b"{\"serial\":3",
        ] {
            assert!(matches!(
                StateHeader::of(bytes, writer(), 1),
                Err(StateFileError::NotAState(_))
            ));
        }
    }

    #[test]
    fn damage_and_newer_schemas_are_told() {
        let mut body = encode(&StateHeader::of(STATE, writer(), 7).unwrap(), STATE).unwrap();
        *body.last_mut().unwrap() = b' ';
        assert!(matches!(decode(&body), Err(StateFileError::Damaged { .. })));
        assert!(matches!(
            decode(b"{\"schema\":2}\n{}"),
            Err(StateFileError::Newer { found: 2 })
        ));
        assert!(matches!(
            decode(b"{\"schema\":1}\n{}"),
            Err(StateFileError::Header(_))
        ));
        assert!(matches!(
            decode(b"{\"serial\":1}"),
            Err(StateFileError::NoHeader)
        ));
    }

    proptest! {
        #[test]
        fn no_body_makes_decode_panic(body: Vec<u8>) {
            let _ = decode(&body);
        }

        #[test]
        fn any_bytes_survive(tail: Vec<u8>, fence: u64) {
            let mut header = StateHeader::of(STATE, writer(), fence).unwrap();
            header.digest = crate::sha256_hex(&tail);
            let body = encode(&header, &tail).unwrap();
            let (_, bytes) = decode(&body).unwrap();
            prop_assert_eq!(bytes, &tail[..]);
        }
    }
}
