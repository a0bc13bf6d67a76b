//! `--output ndjson`: each notice as one line of JSON on standard output.

use std::sync::Mutex;

use run::ui::Notice;

use super::Teller;
use crate::stream;

/// Writes events as they happen.
#[derive(Default)]
pub(crate) struct Ndjson {
    /// Held for the length of one line, so that lines of several threads do not mix.
    line: Mutex<()>,
}

impl Teller for Ndjson {
    fn tell(&self, notice: &Notice) {
        let _line = self.line.lock();
        // A notice holds nothing that JSON can't; were it otherwise, the call must go on all the same.
        if let Ok(mut text) = serde_json::to_string(notice) {
            text.push('\n');
            stream::out(&text);
        }
    }

    fn say(&self, text: &str) {
        stream::err(text);
    }

    fn aside(&self, print: &mut dyn FnMut()) {
        let _line = self.line.lock();
        print();
    }

    fn end(&self) {}
}
