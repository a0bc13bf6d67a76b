//! Changes of bytes: bits, numbers, cuts, repeats, words of other inputs.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

/// Longer inputs are cut, in bytes: what is wrong shows in short ones as well.
const MAX_INPUT: usize = 64 * 1024;
/// Words that parsers have opinions about.
const WORDS: &[&[u8]] = &[
    b"",
    b"\0",
    b"\r\n\r\n",
    b"..",
    b"/",
    b"//",
    b"%2e%2e/",
    b"%",
    b"@",
    b"${",
    b"%{",
    b"\\u0000",
    b"\xff\xfe",
    b"-1",
    b"0",
    b"1e999",
    b"18446744073709551616",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"[[",
    b"\"",
    b"'",
    b"\"\"\"",
    b"Basic ",
    b"Bearer ",
    b"schema",
    b"serial",
    b"lineage",
    b"ID",
    b"Created",
    b"0001-01-01T00:00:00Z",
    b"\n",
    b"#",
    b"=",
];

/// Changes an input, once or a few times.
pub(crate) fn changed(corpus: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = corpus.choose(random).cloned().unwrap_or_default();
    for _ in 0..random.random_range(1..=6) {
        change(&mut bytes, corpus, random);
        bytes.truncate(MAX_INPUT);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut StdRng) {
    let at = random.random_range(0..=bytes.len());
    let to = random.random_range(at..=bytes.len());
    match random.random_range(0..9) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.random_range(0..8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.random();
            }
        }
        2 => bytes.truncate(at),
        3 => {
            bytes.drain(at..to);
        }
        4 => {
            let part = bytes[at..to].to_vec();
            for _ in 0..random.random_range(1..=8) {
                if bytes.len() < MAX_INPUT {
                    bytes.splice(at..at, part.iter().copied());
                }
            }
        }
        5 => {
            let word = WORDS.choose(random).copied().unwrap_or_default();
            bytes.splice(at..to, word.iter().copied());
        }
        6 => {
            let word = WORDS.choose(random).copied().unwrap_or_default();
            bytes.splice(at..at, word.iter().copied());
        }
        7 => {
            // The rest of another input.
            let other = corpus.choose(random).map_or(&[][..], Vec::as_slice);
            let from = random.random_range(0..=other.len());
            bytes.splice(at.., other[from..].iter().copied());
        }
        // Nesting, which recursion must bear.
        _ => {
            let deep = *[b'[', b'{', b'(', b'"', b'9']
                .choose(random)
                .unwrap_or(&b'[');
            let n = random.random_range(1..3000);
            bytes.splice(at..at, std::iter::repeat_n(deep, n));
        }
    }
}
