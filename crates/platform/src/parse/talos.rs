//! `talos` steps.

use std::time::Duration;

use phase_engine::StepId;

use super::step::mention;
use super::{Context, Sees, Use, UsePlace};
use crate::files::join;
use crate::model::{StepKind, TalosStep};
use crate::reader::Field;

/// How long one machine may take to come back, where nothing is said: an image is pulled and a machine started.
const NODE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How long the cluster may take to be healthy, where nothing is said.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long is waited between two looks, where nothing is said.
const EVERY: Duration = Duration::from_secs(5);

/// Reads a step of `talos = { … }`.
pub(super) fn talos(
    field: &Field<'_>,
    id: &StepId,
    position: usize,
    context: &mut Context<'_>,
) -> Option<StepKind> {
    let section = field.section("`talos`")?;
    let hosts = section
        .required("hosts")
        .and_then(|field| mention(&field, "hosts", id, position, context));
    let version = section
        .required("version")
        .and_then(|field| field.text_expr());
    let image = section.field("image").and_then(|field| field.text_expr());
    let talosconfig = section
        .field("talosconfig")
        .and_then(|field| field.text_expr());
    let patches = section
        .field("patches")
        .and_then(|field| field.items())
        .unwrap_or_default()
        .iter()
        .filter_map(|item| patch(item, context))
        .collect();
    let time = |key: &'static str, otherwise: Duration| {
        let Some(field) = section.field(key) else {
            return Some(otherwise);
        };
        let time = field.duration()?;
        if time.is_zero() {
            let message = format!("`{key}` must be longer than nothing");
            field.fault("no time at all", message, None);
        }
        (!time.is_zero()).then_some(time)
    };
    let node_timeout = time("node_timeout", NODE_TIMEOUT);
    let health_timeout = time("health_timeout", HEALTH_TIMEOUT);
    let every = time("every", EVERY);
    section.finish();
    let argv = version.iter().chain(&image).cloned().collect();
    for (exprs, place) in [
        (argv, UsePlace::Argv),
        (talosconfig.iter().cloned().collect(), UsePlace::Private),
    ] {
        context.parsed.uses.push(Use {
            exprs,
            sees: Sees::Before(position),
            place,
        });
    }
    Some(StepKind::Talos(TalosStep {
        hosts: hosts?,
        // Found out once all steps are known.
        is_before_hosts: false,
        version: version?,
        image,
        talosconfig,
        patches,
        node_timeout: node_timeout?,
        health_timeout: health_timeout?,
        every: every?,
    }))
}

/// Reads the path of a patch, which must be there.
fn patch(field: &Field<'_>, context: &Context<'_>) -> Option<String> {
    let text = field.string()?;
    let path = join("", &text);
    match path.as_ref().map(|path| context.files.read(path)) {
        Some(Ok(Some(_))) => return path,
        Some(Ok(None)) => {
            let message = format!("the platform has no file `{text}`");
            field.fault("no such file", message, None);
        }
        _ => field.fault(
            "outside of the platform",
            format!("`{text}` leads out of the platform directory"),
            None,
        ),
    }
    None
}
