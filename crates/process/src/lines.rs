//! Bytes into lines: any length, any bytes.

/// Collects bytes and gives them back line by line, without the newline.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where the line that comes next begins.
    start: usize,
    /// Up to where no newline was found.
    scanned: usize,
}

impl Lines {
    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next whole line.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let Some(at) = self.bytes[self.scanned..].iter().position(|b| *b == b'\n') else {
            self.scanned = self.bytes.len();
            return None;
        };
        let end = self.scanned + at;
        let line = self.bytes[self.start..end].to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        if self.start == self.bytes.len() && self.bytes.capacity() > 1 << 20 {
            *self = Self::default();
        }
        Some(line)
    }

    /// Takes what is left: a last line without newline.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.bytes[self.start..].to_vec();
        *self = Self::default();
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_arrive(
            chunks in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..20), 0..20),
        ) {
            let whole: Vec<u8> = chunks.concat();
            let mut expected: Vec<Vec<u8>> = whole.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for chunk in &chunks {
                lines.push(chunk);
                while let Some(line) = lines.take() {
                    got.push(line);
                }
            }
            got.extend(lines.rest());
            prop_assert_eq!(got, expected);
        }
    }
}
