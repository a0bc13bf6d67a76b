//! Rows whose columns stand below each other.

use crate::stream::{Look, Tone};

/// One cell: its text, and what colour it gets once its column's width is known.
pub(super) struct Cell(pub(super) String, pub(super) Option<Tone>);

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self(text, None)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self(text.to_owned(), None)
    }
}

/// Sets rows below each other, each line begun with `indent` and ended, nothing at its end.
pub(super) fn table(rows: &[Vec<Cell>], indent: &str, look: Look) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|Cell(text, _)| text.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<_> = (0..n_columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(indent);
        let last = row
            .iter()
            .rposition(|Cell(text, _)| !text.is_empty())
            .unwrap_or_default();
        for (i, (Cell(cell, tone), width)) in row.iter().zip(&widths).enumerate().take(last + 1) {
            let padded = if i == last {
                cell.clone()
            } else {
                format!("{cell:<width$}  ")
            };
            line.push_str(&match tone {
                // Only the word is painted, not the white space after it.
                Some(tone) => padded.replacen(cell, &look.paint(*tone, cell), 1),
                None => padded,
            });
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}
