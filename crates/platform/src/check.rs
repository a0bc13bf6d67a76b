//! What only shows when both files and the root modules are seen together.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use phase_engine::{StepId, TargetName};

use crate::expr::{Expr, Located, Reference, dig};
use crate::fault::{Fault, TextFile};
use crate::model::{Platform, StepDef, StepKind};
use crate::module::RootModule;
use crate::near::{hint, near};
use crate::nodes::GIVEN_VARIABLES;
use crate::parse::target::{ParsedTarget, env_exprs, is_legal_key};
use crate::parse::{Outputs, Parsed, Sees, Use, UsePlace};
use crate::reader::Report;

/// Looks at every reference, fills in the inputs of tofu steps and finds what is left over.
///
/// Without a readable target file, only what needs none is looked at.
pub(crate) fn check(parsed: &mut Parsed, target: Option<&ParsedTarget>, report: &Report) {
    mentions(parsed, report);
    machines(parsed, report);
    let mut checker = Checker {
        parsed,
        target,
        report,
        read: BTreeSet::new(),
        tofu_secret: None,
    };
    let uses: Vec<&Use> = checker.parsed.uses.iter().collect();
    for each in uses {
        checker.walk(each, &checker.parsed.file.clone());
    }
    // What a workspace of another target refers to is there, and is not here.
    let own = |name: &TargetName| target.is_none_or(|target| target.target.name == *name);
    let uses: Vec<&Use> = checker
        .parsed
        .workspace_uses
        .iter()
        .filter(|(name, _)| own(name))
        .map(|(_, each)| each)
        .collect();
    for each in uses {
        checker.walk(each, &checker.parsed.file.clone());
    }
    let has_tofu = !checker.parsed.platform.workspaces.is_empty()
        || checker
            .parsed
            .platform
            .steps()
            .any(|step| matches!(step.kind, StepKind::Tofu(_)));
    if let Some(target) = target {
        let place = if has_tofu {
            UsePlace::TofuEnv
        } else {
            UsePlace::Private
        };
        let sees = Sees::NoStep("`[env]` is the same for every step, the first one included");
        checker.walk(
            &Use {
                exprs: env_exprs(&target.target),
                sees,
                place,
            },
            &target.file,
        );
    }
    if let Some(target) = target {
        let stores = std::iter::once(&target.target.store).chain(&target.target.archive);
        let exprs = stores
            .flat_map(crate::store_def::StoreDef::exprs)
            .cloned()
            .collect();
        let sees = Sees::NoStep("the store is opened before any step");
        let place = UsePlace::Private;
        checker.walk(&Use { exprs, sees, place }, &target.file);
    }
    let (mut read, tofu_secret) = (checker.read, checker.tofu_secret);
    let tofu_secret = tofu_secret
        .or_else(|| rendered_secret(parsed))
        .or_else(|| captured_secret(parsed, target));
    inputs(parsed, target, &mut read, report);
    if let Some(target) = target {
        crate::credentials::check(parsed, target, report);
        ways_in(parsed, target, report);
        left_over(parsed, target, &read, report);
        if let (Some((file, span, what)), false) = (tofu_secret, target.has_encryption) {
            let name = &target.target.name;
            report.push(
                file.fault(
                    span,
                    "reaches OpenTofu",
                    format!("{what} reaches OpenTofu, and the states of target `{name}` are not encrypted"),
                )
                .help(format!(
                    "add `[encryption]` with `passphrase = {{ env = \"REBUILD_PASSPHRASE\" }}` to {}",
                    target.file.path
                )),
            );
        }
    }
}

struct Checker<'a> {
    parsed: &'a Parsed,
    target: Option<&'a ParsedTarget>,
    report: &'a Report,
    /// Values of the target that something reads.
    read: BTreeSet<String>,
    /// The first place where a secret reaches OpenTofu, and what it is.
    tofu_secret: Option<(TextFile, Range<usize>, String)>,
}

impl Checker<'_> {
    fn walk(&mut self, each: &Use, file: &TextFile) {
        for located in each.exprs.iter().flat_map(Expr::references) {
            let span = located.span.clone().unwrap_or(0..0);
            let fault = |label: &str, message: String| file.fault(span.clone(), label, message);
            let sensitive = match &located.reference {
                Reference::Target { name, path } => {
                    self.read.insert(name.clone());
                    self.value(located, name, path, &fault);
                    None
                }
                Reference::Secret { name } => {
                    self.secret(name, &fault);
                    Some(format!("secret `{name}`"))
                }
                Reference::Output { step, output, .. } => self.output(each, step, output, &fault),
            };
            let Some(what) = sensitive else { continue };
            match each.place {
                UsePlace::Argv => self.report.push(
                    fault("visible to every user", format!("{what} may not be an argument: every user of the machine can list those"))
                        .help("put it in `env`, or in a step's `stdin`"),
                ),
                UsePlace::Address => self.report.push(
                    fault("shown in messages", format!("{what} may not be part of what a check asks"))
                        .help("use an `exec` check with `env`"),
                ),
                UsePlace::TofuVars | UsePlace::TofuEnv => {
                    self.tofu_secret.get_or_insert_with(|| (file.clone(), span.clone(), what));
                }
                UsePlace::Private => {}
            }
        }
    }

    fn value(
        &self,
        located: &Located,
        name: &str,
        path: &[String],
        fault: &dyn Fn(&str, String) -> Fault,
    ) {
        let Some(target) = self.target.filter(|target| target.has_values) else {
            return;
        };
        let reference = &located.reference;
        match target.target.values.get(name) {
            Some(value) => {
                if let Err(part) = dig(value.clone(), path) {
                    self.report.push(fault(
                        "leads nowhere",
                        format!("`{reference}` leads nowhere: value `{name}` of target `{}` has no `{part}`", target.target.name),
                    ));
                }
            }
            // A value with a fault of its own is there.
            None if target.value_spans.contains_key(name) => {}
            None => {
                let message = format!("target `{}` has no value `{name}`", target.target.name);
                let help = hint(
                    name,
                    "values",
                    target.value_spans.keys().map(String::as_str),
                );
                let help = help.or_else(|| {
                    Some(format!(
                        "add `{name} = …` to `[values]` of {}",
                        target.file.path
                    ))
                });
                self.report
                    .push(fault("no such value", message).maybe_help(help));
            }
        }
    }

    fn secret(&self, name: &str, fault: &dyn Fn(&str, String) -> Fault) {
        let Some(target) = self.target.filter(|target| target.has_secrets) else {
            return;
        };
        match target.target.secrets.get(name) {
            Some(_) => {}
            None if target.secret_spans.contains_key(name) => {}
            None => {
                let message = format!("target `{}` has no secret `{name}`", target.target.name);
                let help = hint(
                    name,
                    "secrets",
                    target.secret_spans.keys().map(String::as_str),
                );
                let help =
                    help.or_else(|| Some(format!("add it to `[secrets]` of {}", target.file.path)));
                self.report
                    .push(fault("no such secret", message).maybe_help(help));
            }
        }
    }

    /// Looks at a reference to an output; returns what it is when it is known to be sensitive.
    fn output(
        &self,
        each: &Use,
        id: &StepId,
        output: &str,
        fault: &dyn Fn(&str, String) -> Fault,
    ) -> Option<String> {
        let end = match each.sees {
            Sees::Before(position) | Sees::UpToHere(position) => position,
            Sees::NoStep(reason) => {
                self.report.push(
                    fault(
                        "a step",
                        format!("`{id}` can't be referred to here: {reason}"),
                    )
                    .help("only `target` and `secret` may be referred to here"),
                );
                return None;
            }
        };
        let Some(position) = self.parsed.declared.iter().position(|step| step.id == *id) else {
            if self.parsed.has_unnamed {
                // It may be the one whose own name is at fault.
                return None;
            }
            self.report.push(
                fault("no such step", format!("there is no step `{id}`"))
                    .maybe_help(near_step(self.parsed, id)),
            );
            return None;
        };
        if position >= end {
            let message = match each.sees {
                Sees::Before(own) if own == position => format!("step `{id}` refers to itself"),
                _ => format!("step `{id}` comes later: its outputs are not known here"),
            };
            self.report.push(
                fault("not known yet", message).help("a step may only refer to steps before it"),
            );
            return None;
        }
        match &self.parsed.declared[position].outputs {
            Outputs::Unknown => None,
            Outputs::None => {
                self.report.push(
                    fault("no outputs", format!("step `{id}` has no outputs"))
                        .help("only `tofu` and `nodes` steps have outputs"),
                );
                None
            }
            Outputs::Of(module) => match module.outputs.get(output) {
                Some(found) => found
                    .sensitive
                    .then(|| format!("sensitive output `{output}` of step `{id}`")),
                None => {
                    let message = format!("step `{id}` has no output `{output}`");
                    let help = hint(output, "outputs", module.outputs.keys().map(String::as_str));
                    let help = help.or_else(|| {
                        Some(format!("root module `{}` declares no outputs", module.path))
                    });
                    self.report
                        .push(fault("no such output", message).maybe_help(help));
                    None
                }
            },
        }
    }
}

fn near_step(parsed: &Parsed, id: &StepId) -> Option<String> {
    let all: Vec<String> = parsed
        .declared
        .iter()
        .map(|step| step.id.to_string())
        .collect();
    let same_name = || {
        let mut others = parsed
            .declared
            .iter()
            .filter(|step| step.id.step == id.step);
        match (others.next(), others.next()) {
            (Some(only), None) => Some(format!("did you mean `{}`?", only.id)),
            _ => None,
        }
    };
    near(&id.to_string(), all.iter().map(String::as_str))
        .map(|right| format!("did you mean `{right}`?"))
        .or_else(same_name)
        .or_else(|| hint(&id.to_string(), "steps", all.iter().map(String::as_str)))
}

/// Looks at `after`, `contained_in` and `moved_from`.
fn mentions(parsed: &Parsed, report: &Report) {
    for mention in &parsed.mentions {
        let (key, to) = (mention.key, &mention.to);
        let fault =
            |label: &str, message: String| parsed.file.fault(mention.span.clone(), label, message);
        let found = parsed.declared.iter().position(|step| step.id == *to);
        if key == "moved_from" {
            if found.is_some() {
                let message = format!(
                    "`moved_from` of step `{}` names `{to}`, which is still there",
                    mention.of
                );
                report.push(fault("still there", message).help(
                    "it names the step that this one took the place of; take one of the two out",
                ));
            }
            continue;
        }
        match found {
            None if parsed.has_unnamed => {}
            None => report.push(
                fault(
                    "no such step",
                    format!("`{key}` names step `{to}`, which is not there"),
                )
                .maybe_help(near_step(parsed, to)),
            ),
            Some(position) if position == mention.position => {
                report.push(fault(
                    "itself",
                    format!("`{key}` of step `{to}` names the step itself"),
                ));
            }
            // What stands of it is upgraded before it is applied.
            Some(position) if position > mention.position && key == "hosts" => {}
            Some(position) if position > mention.position => report.push(
                fault(
                    "comes later",
                    format!("`{key}` names step `{to}`, which comes later"),
                )
                .help("the order of phases and steps is their order in rebuild.toml"),
            ),
            Some(_) => {}
        }
    }
}

/// Looks whether the target says how hosts are reached, where a step reaches some.
fn ways_in(parsed: &Parsed, target: &ParsedTarget, report: &Report) {
    if target.has_ssh {
        return;
    }
    let mut steps = parsed.platform.steps();
    let Some(step) = steps.find(|step| step.kind.hosts_output().is_some()) else {
        return;
    };
    let name = &target.target.name;
    report.push(
        parsed
            .file
            .fault(
                step.span.clone(),
                "reaches hosts",
                format!("step `{}` reaches hosts over SSH, and target `{name}` has no `[ssh]`", step.id),
            )
            .help(format!(
                "add `[ssh]` with `identity = {{ file = \"~/.ssh/fleet_ed25519\" }}` and `host_keys = \"declared\"` to {}",
                target.file.path
            )),
    );
}

/// The first step that is rendered to hold secrets in its state: a cluster's own, or what is read from Bitwarden.
fn rendered_secret(parsed: &Parsed) -> Option<(TextFile, Range<usize>, String)> {
    let holds_secrets = |step: &&StepDef| match &step.kind {
        StepKind::Tofu(tofu) if tofu.nodes.is_some() => {
            let mut outputs = tofu.module.outputs.values();
            outputs.any(|output| output.sensitive)
                || tofu.module.providers.contains_key("bitwarden")
        }
        _ => false,
    };
    let step = parsed.platform.steps().find(holds_secrets)?;
    let what = format!("a secret of step `{}`", step.id);
    Some((parsed.file.clone(), step.span.clone(), what))
}

/// The first workspace of the target that is given captured secrets.
fn captured_secret(
    parsed: &Parsed,
    target: Option<&ParsedTarget>,
) -> Option<(TextFile, Range<usize>, String)> {
    let name = &target?.target.name;
    let mut workspaces = parsed.platform.workspaces.iter();
    let found =
        workspaces.find(|workspace| workspace.target == *name && !workspace.captured.is_empty())?;
    let what = format!("what workspace `{}` captures", found.name());
    Some((parsed.file.clone(), found.step().span.clone(), what))
}

/// Looks at where `talos` steps have their machines from.
fn machines(parsed: &mut Parsed, report: &Report) {
    let position = |id: &StepId| parsed.declared.iter().position(|step| step.id == *id);
    // Pairs of a step that upgrades and a later one whose machines it upgrades.
    let mut upgraded = Vec::new();
    for step in parsed.platform.phases.iter().flat_map(|phase| &phase.steps) {
        let StepKind::Talos(talos) = &step.kind else {
            continue;
        };
        let Some(at) = position(&talos.hosts) else {
            continue;
        };
        let mut wanted = vec!["hosts"];
        if talos.talosconfig.is_none() {
            wanted.push("talosconfig");
        }
        let lacks: Vec<&str> = match &parsed.declared[at].outputs {
            Outputs::Unknown => Vec::new(),
            Outputs::None => wanted,
            Outputs::Of(module) => wanted
                .into_iter()
                .filter(|name| !module.outputs.contains_key(*name))
                .collect(),
        };
        for name in lacks {
            let span = parsed.mentions.iter().find(|mention| mention.of == step.id);
            let span = span.map_or(step.span.clone(), |mention| mention.span.clone());
            let message = format!("step `{}` has no output `{name}`", talos.hosts);
            let help = match name {
                "talosconfig" => "give the client configuration by `talosconfig`",
                _ => "name a `nodes` step, or a `tofu` step with an output `hosts`",
            };
            report.push(
                parsed
                    .file
                    .fault(span, "no such output", message)
                    .help(help),
            );
        }
        if position(&step.id).is_some_and(|own| own < at) {
            upgraded.push((step.id.clone(), talos.hosts.clone()));
        }
    }
    for step in parsed
        .platform
        .phases
        .iter_mut()
        .flat_map(|phase| &mut phase.steps)
    {
        if let StepKind::Talos(talos) = &mut step.kind {
            talos.is_before_hosts = upgraded.iter().any(|(upgrade, _)| *upgrade == step.id);
        }
        let before = upgraded.iter().filter(|(_, hosts)| *hosts == step.id);
        step.after
            .extend(before.map(|(upgrade, _)| upgrade.clone()));
    }
}

/// Works out what each tofu step gives its root module, and what is missing or too much.
fn inputs(
    parsed: &mut Parsed,
    target: Option<&ParsedTarget>,
    read: &mut BTreeSet<String>,
    report: &Report,
) {
    let (file, spans) = (parsed.file.clone(), std::mem::take(&mut parsed.var_spans));
    let vars_unknown = std::mem::take(&mut parsed.vars_unknown);
    let Platform {
        phases, workspaces, ..
    } = &mut parsed.platform;
    let steps = phases
        .iter_mut()
        .flat_map(|phase| &mut phase.steps)
        .map(|step| (step, target, [].as_slice()));
    let of_workspaces = workspaces.iter_mut().flat_map(|workspace| {
        let own = target.filter(|target| target.target.name == workspace.target);
        let captured = workspace.captured.as_slice();
        let steps = workspace.phase.steps.iter_mut();
        steps.map(move |step| (step, own, captured))
    });
    for (step, target, captured) in steps.chain(of_workspaces) {
        let StepDef {
            id,
            kind: StepKind::Tofu(tofu),
            ..
        } = step
        else {
            continue;
        };
        let module = Arc::clone(&tofu.module);
        for name in module.variables.keys() {
            if target.is_some_and(|target| target.value_spans.contains_key(name))
                && !tofu.vars.contains_key(name)
            {
                tofu.inputs.insert(name.clone(), Expr::target(name));
                read.insert(name.clone());
            }
        }
        if module.incomplete {
            // What can't be read may declare or use anything.
            read.extend(tofu.vars.keys().cloned());
            continue;
        }
        let mut given: BTreeSet<&str> = tofu.inputs.keys().map(String::as_str).collect();
        // A value with a fault of its own is given all the same.
        let named = spans
            .keys()
            .filter(|(step, _)| step == id)
            .map(|(_, name)| name.as_str());
        given.extend(named);
        for name in given.clone() {
            if module.variables.contains_key(name) {
                continue;
            }
            let unset = module
                .variables
                .keys()
                .map(String::as_str)
                .filter(|known| !given.contains(known));
            let right = near(name, unset);
            let span = spans
                .get(&(id.clone(), name.to_owned()))
                .cloned()
                .unwrap_or(0..0);
            let message = format!("root module `{}` has no variable `{name}`", module.path);
            let help = hint(
                name,
                "variables",
                module.variables.keys().map(String::as_str),
            );
            let help = help.or_else(|| {
                Some(format!(
                    "root module `{}` declares no variables",
                    module.path
                ))
            });
            report.push(
                file.fault(span, "no such variable", message)
                    .maybe_help(help),
            );
            given.extend(right);
        }
        given.extend(module.set_by_tfvars.iter().map(String::as_str));
        given.extend(captured.iter().map(String::as_str));
        if tofu.nodes.is_some() {
            given.extend(GIVEN_VARIABLES);
        }
        if !vars_unknown.contains(id) {
            unset(id, &module, &given, target, report);
        }
    }
}

/// Reports the variables that nothing gives a value.
fn unset(
    id: &StepId,
    module: &RootModule,
    given: &BTreeSet<&str>,
    target: Option<&ParsedTarget>,
    report: &Report,
) {
    // Without the target's values nobody knows what they would have given.
    let Some(target) = target.filter(|target| target.has_values) else {
        return;
    };
    for (name, variable) in &module.variables {
        if variable.has_default || given.contains(name.as_str()) {
            continue;
        }
        let values = target.value_spans.keys().map(String::as_str);
        let help = match near(name, values) {
            Some(right) => format!("value `{right}` of {} has a name like it", target.file.path),
            None => format!(
                "add `{name} = …` to `[values]` of {}, or to `vars` of the step, or give the variable a default",
                target.file.path
            ),
        };
        let message = format!("variable `{name}` of step `{id}` has no value and no default");
        let place = &variable.place;
        report.push(
            place
                .file
                .fault(place.span.clone(), "nothing sets it", message)
                .help(help),
        );
    }
}

/// Reports values of the target that nothing reads.
fn left_over(parsed: &Parsed, target: &ParsedTarget, read: &BTreeSet<String>, report: &Report) {
    // The step that can't be read yet may be the one that reads it.
    let incomplete = parsed
        .declared
        .iter()
        .any(|step| matches!(step.outputs, Outputs::Unknown));
    let incomplete = incomplete || parsed.workspaces_unknown;
    if incomplete || parsed.declared.is_empty() || !parsed.vars_unknown.is_empty() {
        return;
    }
    for (name, span) in &target.value_spans {
        if read.contains(name) || !is_legal_key(name) {
            continue;
        }
        let variables = parsed.platform.steps().flat_map(|step| match &step.kind {
            StepKind::Tofu(tofu) => tofu.module.variables.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        });
        let unread = variables.filter(|variable| !target.value_spans.contains_key(*variable));
        let help = match near(name, unread) {
            Some(right) => {
                format!("did you mean `{right}`, a variable that a root module declares?")
            }
            None => format!("take it out, or refer to it with `${{target.{name}}}`"),
        };
        report.push(
            target
                .file
                .fault(
                    span.clone(),
                    "nothing reads it",
                    format!("no phase reads value `{name}`"),
                )
                .help(help),
        );
    }
}
