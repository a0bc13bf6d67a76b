//! What providers of `nodes` steps must know, and a target's environment does not say.

use provider::ProviderName;

use crate::fault::Fault;
use crate::model::{StepDef, StepKind, TofuStep};
use crate::parse::Parsed;
use crate::parse::target::ParsedTarget;
use crate::reader::Report;

/// Warns of credentials that a target lacks. No more than that: a provider may find them where nobody here can look.
pub(crate) fn check(parsed: &Parsed, target: &ParsedTarget, report: &Report) {
    for step in parsed.platform.steps() {
        let StepKind::Tofu(tofu) = &step.kind else {
            continue;
        };
        if tofu.nodes.is_none() {
            continue;
        }
        for name in tofu.module.providers.keys() {
            if let Some(provider) = ProviderName::named(name)
                && !is_configured(parsed, tofu, name)
            {
                lacking(step, provider, target, report);
            }
        }
    }
}

fn lacking(step: &StepDef, provider: ProviderName, target: &ParsedTarget, report: &Report) {
    let own = &target.target;
    let is_set = |variable: &str| own.env.contains_key(variable) || step.env.contains_key(variable);
    for missing in provider.missing(is_set) {
        let message = format!(
            "provider `{provider}` of step `{}` must know {}, and the environment of target `{}` does not say",
            step.id, missing.credential.what, own.name
        );
        let variables = missing.variables.join("`, `");
        report.push(
            Fault::of_file(&target.file.path, message)
                .help(format!(
                    "add `{variables}` to `[env]` of {}",
                    target.file.path
                ))
                .warning(),
        );
    }
}

/// Whether secrets that the step reads itself configure the provider.
fn is_configured(parsed: &Parsed, tofu: &TofuStep, name: &str) -> bool {
    let path = format!("{}/{name}.tf.json", tofu.root);
    let bytes = parsed.platform.rendered.get(&path);
    let document = bytes.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok());
    // A region alone says nothing of who calls.
    document.is_some_and(|document| {
        document["provider"][name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_object)
            .flat_map(serde_json::Map::keys)
            .any(|argument| argument != "region")
    })
}
