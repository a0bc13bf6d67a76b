//! What a `down` would tear down, in order.

use run::DryRun;

use crate::stream::{Look, Tone, clean};

/// A line a step, below it every resource in its state.
pub(crate) fn dry_run(dry: &DryRun, look: Look) -> String {
    let target = clean(&dry.target);
    let notes: String = dry
        .notes
        .iter()
        .map(|note| format!("note: {}\n", clean(note)))
        .collect();
    if dry.steps.is_empty() {
        return format!("nothing stands in {target}\n{notes}");
    }
    let mut text = format!("`rebuild down --target {target}` would tear down, in this order:\n");
    for step in &dry.steps {
        text.push_str(&format!(
            "  {}\n",
            look.paint(Tone::Strong, &clean(&step.step))
        ));
        for address in &step.addresses {
            text.push_str(&format!("    {}\n", clean(address)));
        }
    }
    text.push_str(&notes);
    text.push_str("nothing was touched\n");
    text
}
