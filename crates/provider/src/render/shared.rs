//! What the providers share: versions, variables, outputs.

use std::collections::{BTreeMap, BTreeSet};

use tf_json::{Body, Expression, Identifier, Output, Reference, RequiredProvider, Value, Variable};

use super::context::Context;
use super::rendered::{Rendered, SHARED, file_of};
use crate::ProviderName;
use crate::schema::Schemas;
use crate::spec::{Machine, SpecFault, Wanted};

/// Adds what the providers share and writes everything.
pub(crate) fn finish(
    mut context: Context<'_>,
    still_in_state: &BTreeSet<ProviderName>,
) -> Result<Rendered, Vec<SpecFault>> {
    configurations(&mut context);
    regions(&mut context);
    outputs(&mut context);
    let inputs = std::mem::take(&mut context.inputs);
    let secret_inputs = std::mem::take(&mut context.secret_inputs);
    for name in &inputs {
        let variable = Variable {
            kind: Expression::raw("string").ok(),
            sensitive: secret_inputs.contains(name),
            nullable: Some(false),
            ..Variable::default()
        };
        if let Ok(name) = Identifier::new(name.as_str()) {
            // The names are a set, so none is there yet.
            let _ = context.shared.add_variable(name, variable);
        }
    }
    let providers = context.providers();
    for provider in providers.union(still_in_state) {
        context.shared.settings.required_providers.insert(
            provider.as_str().into(),
            RequiredProvider {
                source: provider.source().to_owned(),
                version: Some(provider.range().to_owned()),
            },
        );
    }
    if !context.faults.is_empty() {
        return Err(context.faults);
    }
    let plan_is_secret = context.specs.all().iter().any(|spec| match &spec.wanted {
        Wanted::NodeGroup(group) => !matches!(group.machines, Machine::Metal(_)),
        Wanted::Secret(_) => true,
        _ => false,
    });
    let mocks = super::mocks::mocks(context.specs, &providers);
    let has_checks = !context.kubeconfigs.is_empty();
    let shared = context.shared.to_bytes();
    let mut files = BTreeMap::from([(SHARED.to_owned(), shared)]);
    for (provider, document) in context.into_documents() {
        files.insert(file_of(provider), document.to_bytes());
    }
    Ok(Rendered {
        files,
        parallelism: providers.contains(&ProviderName::Bitwarden).then_some(1),
        providers,
        inputs,
        secret_inputs,
        plan_is_secret,
        has_checks,
        mocks,
    })
}

/// Sets arguments of providers from secrets.
fn configurations(context: &mut Context<'_>) {
    for (name, arguments) in std::mem::take(&mut context.configurations) {
        let Some(provider) = ProviderName::named(&name) else {
            continue;
        };
        if !context.providers().contains(&provider) {
            continue;
        }
        let known = Schemas::shipped().pinned(&name);
        let mut body = Body::new();
        for (argument, value) in arguments {
            let is_known = known
                .is_some_and(|schema| schema.provider_config.attributes.contains_key(&argument));
            match Identifier::new(argument.as_str()) {
                Ok(argument) if is_known => body = body.set(argument, value),
                _ => {
                    let spec = context.specs.all().iter().find(|spec| {
                        matches!(&spec.wanted, Wanted::Secret(secret) if secret.provider.as_ref().is_some_and(|(of, arguments)| *of == name && arguments.contains_key(&argument)))
                    });
                    if let Some(spec) = spec {
                        let message = format!("the provider `{name}` takes no `{argument}`");
                        context.fault(spec, message, None);
                    }
                }
            }
        }
        let region = (provider == ProviderName::Oci)
            .then(|| context.regions.keys().next().cloned())
            .flatten();
        let body = body.set_some("region", region);
        let result = context
            .document(provider)
            .add_provider(provider.as_str(), None, body);
        debug_assert!(result.is_ok(), "a provider is configured once");
    }
}

/// One root module is in one of Oracle's regions: an object whose region's configuration is gone can't be
/// destroyed any more.
fn regions(context: &mut Context<'_>) {
    let regions = context.regions.clone();
    let mut all = regions.iter();
    let Some((first, _)) = all.next() else {
        return;
    };
    for (region, spec) in all {
        let message = format!("it is in the region `{region}`, and others are in `{first}`");
        let help = "give each region a root module of its own".to_owned();
        context.fault(spec, message, Some(help));
    }
    let body = Body::new().set("region", first);
    // Where there is one already, secrets configured it, and with the region.
    let _ = context
        .document(ProviderName::Oci)
        .add_provider("oci", None, body);
}

fn outputs(context: &mut Context<'_>) {
    if context.specs.all().is_empty() {
        return;
    }
    let hosts = context
        .hosts
        .iter()
        .map(|name| Reference::local(name).into());
    let hosts: Vec<Expression> = hosts.collect();
    let hosts = if hosts.is_empty() {
        Value::Object(BTreeMap::new())
    } else {
        Expression::call("merge", hosts).into()
    };
    let is_only = context.clusters.len() == 1;
    let mut outputs = vec![("hosts".to_owned(), Output::new(hosts))];
    for label in &context.clusters {
        let client =
            Reference::resource("talos_machine_secrets", label).attribute("client_configuration");
        let kubeconfig =
            Reference::resource("talos_cluster_kubeconfig", label).attribute("kubeconfig_raw");
        let talosconfig =
            Reference::data("talos_client_configuration", label).attribute("talos_config");
        let mut of_cluster = vec![
            ("client_configuration", client),
            ("talosconfig", talosconfig),
        ];
        if context.kubeconfigs.contains(label) {
            of_cluster.push(("kubeconfig", kubeconfig));
        }
        for (name, value) in of_cluster {
            let name = if is_only {
                name.to_owned()
            } else {
                format!("{name}_{label}")
            };
            outputs.push((name, Output::new(value).sensitive()));
        }
    }
    for (name, output) in outputs {
        if let Ok(name) = Identifier::new(name) {
            // Names of labels that differ differ.
            let _ = context.shared.add_output(name, output);
        }
    }
}
