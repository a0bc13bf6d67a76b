//! Values that need not fit into memory: in memory while they are short, else in a file without a name.

use crate::Tag;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

/// A value that is longer, in bytes, goes to a file where the store has room for one.
const IN_MEMORY: usize = 256 * 1024;
/// How much of a value is held at once while it is copied or digested, in bytes.
pub const CHUNK: usize = 256 * 1024;

#[derive(Clone)]
enum Kept {
    Memory(Arc<Vec<u8>>),
    /// Never written again, so that what was read stays true.
    File(Arc<File>),
}

/// The bytes of a value, wherever they are; cheap to clone.
#[derive(Clone)]
pub struct Body {
    kept: Kept,
    start: u64,
    end: u64,
}

/// A value with the tag of the version that was read, for values that need not fit into memory.
#[derive(Debug, Clone)]
pub struct VersionedBody {
    /// The value.
    pub body: Body,
    /// The version that [`body`](Self::body) is.
    pub tag: Tag,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A state may hold secrets.
        f.debug_struct("Body")
            .field("n_bytes", &self.len())
            .finish_non_exhaustive()
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            start: 0,
            end: bytes.len() as u64,
            kept: Kept::Memory(Arc::new(bytes)),
        }
    }
}

impl Body {
    /// What a file holds, which nobody writes to any more.
    ///
    /// # Errors
    /// Where its length can't be told.
    pub fn of_file(file: File) -> io::Result<Self> {
        let end = file.metadata()?.len();
        Ok(Self {
            kept: Kept::File(Arc::new(file)),
            start: 0,
            end,
        })
    }

    /// Its length, in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What follows its first `n_bytes`.
    #[must_use]
    pub fn after(&self, n_bytes: u64) -> Self {
        Self {
            start: self.end.min(self.start.saturating_add(n_bytes)),
            ..self.clone()
        }
    }

    /// At most `n_bytes` from `offset` on; fewer only at its end.
    ///
    /// # Errors
    /// Where its file can't be read, or is shorter than it was.
    pub fn chunk(&self, offset: u64, n_bytes: usize) -> io::Result<Vec<u8>> {
        let from = self.end.min(self.start.saturating_add(offset));
        let n_bytes = usize::try_from(self.end - from).map_or(n_bytes, |left| left.min(n_bytes));
        match &self.kept {
            Kept::Memory(bytes) => {
                let from = usize::try_from(from).map_err(io::Error::other)?;
                Ok(bytes[from..from + n_bytes].to_vec())
            }
            Kept::File(file) => {
                let mut bytes = vec![0; n_bytes];
                file.read_exact_at(&mut bytes, from)?;
                Ok(bytes)
            }
        }
    }

    /// Reads it from its beginning.
    pub fn reader(&self) -> BodyReader<'_> {
        BodyReader {
            body: self,
            offset: 0,
        }
    }

    /// All of it, in memory.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        self.chunk(0, usize::try_from(self.len()).map_err(io::Error::other)?)
    }

    /// Hands it to `take`, part by part.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk), and what `take` fails with.
    pub fn each_chunk(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut offset = 0;
        while offset < self.len() {
            let chunk = self.chunk(offset, CHUNK)?;
            offset += chunk.len() as u64;
            take(&chunk)?;
        }
        Ok(())
    }

    /// The SHA-256 of `head` with all of it behind, in lower-case hexadecimal.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub fn sha256_after(&self, head: &[u8]) -> io::Result<String> {
        let mut hasher = Sha256::new_with_prefix(head);
        self.each_chunk(|chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        Ok(crate::hex(&hasher.finalize()))
    }

    /// Whether it is `head` with `tail` behind, byte for byte.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub fn is_joined(&self, head: &[u8], tail: &Self) -> io::Result<bool> {
        if self.len() != head.len() as u64 + tail.len() || self.chunk(0, head.len())? != head {
            return Ok(false);
        }
        let rest = self.after(head.len() as u64);
        let mut offset = 0;
        while offset < rest.len() {
            let chunk = rest.chunk(offset, CHUNK)?;
            if tail.chunk(offset, CHUNK)? != chunk {
                return Ok(false);
            }
            offset += chunk.len() as u64;
        }
        Ok(true)
    }
}

/// Reads a [`Body`].
#[derive(Debug)]
pub struct BodyReader<'a> {
    body: &'a Body,
    offset: u64,
}

impl Read for BodyReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let chunk = self.body.chunk(self.offset, into.len().min(CHUNK))?;
        into[..chunk.len()].copy_from_slice(&chunk);
        self.offset += chunk.len() as u64;
        Ok(chunk.len())
    }
}

/// Takes a value in as it comes; see [`Store::body_writer`](crate::Store::body_writer).
#[derive(Debug)]
pub struct BodyWriter(Writing);

#[derive(Debug)]
enum Writing {
    Memory(Vec<u8>),
    Spilling(tempfile::SpooledTempFile),
}

impl BodyWriter {
    /// One that keeps everything in memory.
    pub fn in_memory() -> Self {
        Self(Writing::Memory(Vec::new()))
    }

    /// One that goes on in a file without a name in `dir` once the value is long.
    pub fn spilling_into(dir: &Path) -> Self {
        Self(Writing::Spilling(tempfile::spooled_tempfile_in(
            IN_MEMORY, dir,
        )))
    }

    /// What was written.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn finish(self) -> io::Result<Body> {
        match self.0 {
            Writing::Memory(bytes) => Ok(Body::from(bytes)),
            Writing::Spilling(file) => match file.into_inner() {
                tempfile::SpooledData::InMemory(cursor) => Ok(Body::from(cursor.into_inner())),
                tempfile::SpooledData::OnDisk(mut file) => {
                    file.rewind()?;
                    Body::of_file(file)
                }
            },
        }
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Writing::Memory(all) => all.write(bytes),
            Writing::Spilling(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Writing::Memory(all) => all.flush(),
            Writing::Spilling(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spilled(bytes: &[u8]) -> Body {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = BodyWriter::spilling_into(dir.path());
        writer.write_all(bytes).unwrap();
        let body = writer.finish().unwrap();
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the file has no name"
        );
        body
    }

    #[test]
    fn a_long_value_goes_to_a_file_and_comes_back_as_it_was() {
        let bytes: Vec<u8> = (0..3 * CHUNK as u32 + 7)
            .map(|n| n.to_le_bytes()[0])
            .collect();
        let body = spilled(&bytes);
        assert!(matches!(body.kept, Kept::File(_)));
        assert_eq!(body.to_vec().unwrap(), bytes);
        assert_eq!(body.after(5).to_vec().unwrap(), bytes[5..]);
        assert_eq!(
            body.after(3).sha256_after(b"head").unwrap(),
            crate::sha256_hex(&[b"head", &bytes[3..]].concat())
        );
        let mut read = Vec::new();
        body.after(1).reader().read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes[1..]);
        assert!(!format!("{body:?}").contains("[0"));
    }

    proptest! {
        #[test]
        fn parts_of_a_value_are_parts_of_its_bytes(
            bytes: Vec<u8>, skipped in 0..40_u64, offset in 0..40_u64, n_bytes in 0..40_usize,
        ) {
            let body = Body::from(bytes.clone()).after(skipped);
            let from = bytes.len().min((skipped + offset) as usize);
            let to = bytes.len().min(from + n_bytes);
            prop_assert_eq!(body.chunk(offset, n_bytes).unwrap(), &bytes[from..to]);
        }

        #[test]
        fn only_equal_values_are_equal(left: Vec<u8>, right: Vec<u8>, cut in 0..10_usize) {
            let cut = cut.min(left.len());
            let (head, tail) = left.split_at(cut);
            let tail = Body::from(tail.to_vec());
            prop_assert!(Body::from(left.clone()).is_joined(head, &tail).unwrap());
            prop_assert_eq!(Body::from(right.clone()).is_joined(head, &tail).unwrap(), left == right);
        }
    }
}
