//! Projects of GitLab's. What is rendered is what versions 18 and 19 of the provider have both.

use tf_json::{Body, Expression, Meta, Output, Reference, Resource, Value};

use super::bitwarden;
use super::context::{Context, joined};
use crate::ProviderName::Gitlab;
use crate::spec::{Project, Spec, VariableSource, Wanted};

/// Renders a project.
pub(crate) fn project(context: &mut Context<'_>, spec: &Spec, project: &Project) {
    let label = context.label(spec);
    let Some((groups, name)) = project.path.rsplit_once('/') else {
        return;
    };
    let namespace = group(context, spec, groups, project.create_groups);
    let has_branches = !project.files.is_empty() || !project.protected_branches.is_empty();
    let body = Body::new()
        .set("name", name)
        .set("path", name)
        .set("namespace_id", namespace.attribute("id"))
        .set("visibility_level", project.visibility)
        .set("default_branch", &project.default_branch)
        // An empty repository has no branch to protect or write to.
        .set("initialize_with_readme", has_branches);
    let meta = Meta::default();
    context.resource(
        spec,
        Gitlab,
        "gitlab_project",
        &label,
        Resource { body, meta },
    );
    let id = Reference::resource("gitlab_project", &label).attribute("id");
    for variable in &project.variables {
        let Some(value) = value_of(context, spec, &variable.source) else {
            continue;
        };
        let body = Body::new()
            .set("project", &id)
            .set("key", &variable.key)
            .set("value", value)
            .set("masked", variable.masked)
            .set("protected", variable.protected)
            // A `$` in it is no reference to another variable.
            .set("raw", true)
            .set(
                "variable_type",
                if variable.is_file { "file" } else { "env_var" },
            );
        let name = joined(&label, &variable.key);
        let meta = Meta::default();
        context.resource(
            spec,
            Gitlab,
            "gitlab_project_variable",
            name,
            Resource { body, meta },
        );
    }
    for token in &project.deploy_tokens {
        let kind = "gitlab_project_deploy_token";
        let name = joined(&label, &token.name);
        let body = Body::new()
            .set("project", &id)
            .set("name", &token.name)
            .set("scopes", token.scopes.clone());
        let meta = Meta::default();
        context.resource(spec, Gitlab, kind, &name, Resource { body, meta });
        let value = Reference::resource(kind, &name).attribute("token");
        let output = Output::new(value).sensitive();
        let result = context.shared.add_output(
            joined(&tf_json::Identifier::of("deploy_token"), name.as_str()),
            output,
        );
        context.note(spec, result);
    }
    for branch in &project.protected_branches {
        let body = Body::new()
            .set("project", &id)
            .set("branch", &branch.branch)
            .set("push_access_level", branch.push)
            .set("merge_access_level", branch.merge)
            .set("allow_force_push", false);
        let name = joined(&label, &branch.branch);
        let meta = Meta::default();
        context.resource(
            spec,
            Gitlab,
            "gitlab_branch_protection",
            name,
            Resource { body, meta },
        );
    }
    for file in &project.files {
        let body = Body::new()
            .set("project", &id)
            .set("branch", &project.default_branch)
            .set("file_path", &file.path)
            .set("content", &file.content)
            .set("encoding", "text")
            .set("commit_message", format!("{}: rendered", file.path))
            .set("overwrite_on_create", true);
        let name = joined(&label, &file.path);
        let meta = Meta::default();
        context.resource(
            spec,
            Gitlab,
            "gitlab_repository_file",
            name,
            Resource { body, meta },
        );
    }
}

/// Returns the group of a path, rendering it, and those it is in, where nobody did yet.
fn group(context: &mut Context<'_>, spec: &Spec, path: &str, create: bool) -> Reference {
    if let Some(known) = context.gitlab_groups.get(path) {
        return known.clone();
    }
    let (parent, name) = match path.rsplit_once('/') {
        Some((parent, name)) => (Some(parent), name),
        None => (None, path),
    };
    let label = super::labels::label(path).unwrap_or_else(|| "_".into());
    let reference = if create {
        let parent = parent.map(|parent| group(context, spec, parent, create).attribute("id"));
        let body = Body::new()
            .set("name", name)
            .set("path", name)
            .set_some("parent_id", parent);
        let meta = Meta::default();
        context.resource(
            spec,
            Gitlab,
            "gitlab_group",
            &label,
            Resource { body, meta },
        );
        Reference::resource("gitlab_group", &label)
    } else {
        let body = Body::new().set("full_path", path);
        let meta = Meta::default();
        context.data(
            spec,
            Gitlab,
            "gitlab_group",
            &label,
            Resource { body, meta },
        );
        Reference::data("gitlab_group", &label)
    };
    context
        .gitlab_groups
        .insert(path.to_owned(), reference.clone());
    reference
}

fn value_of(context: &mut Context<'_>, spec: &Spec, source: &VariableSource) -> Option<Value> {
    match source {
        VariableSource::Literal(text) => Some(text.into()),
        VariableSource::Input(name) => match tf_json::Identifier::new(name.as_str()) {
            Ok(variable) => {
                context.inputs.insert(name.clone());
                context.secret_inputs.insert(name.clone());
                Some(Reference::variable(variable).into())
            }
            Err(error) => {
                context.fault(spec, error.to_string(), None);
                None
            }
        },
        VariableSource::Secret { name, field } => {
            let found = context.find("Secret", name);
            let fields = found.and_then(|found| match &found.wanted {
                Wanted::Secret(secret) => Some(&secret.fields),
                _ => None,
            });
            if fields.is_none_or(|fields| !fields.contains(field)) {
                let message = match fields {
                    None => format!("there is no secret `{name}`"),
                    Some(_) => format!("the secret `{name}` gives out no field `{field}`"),
                };
                let help = fields.map(|_| format!("add `{field}` to its `fields`"));
                context.fault(spec, message, help);
                return None;
            }
            let label = context.label_of("Secret", name)?;
            let local = Reference::local(bitwarden::local(&label));
            Some(local.key(field.as_str()).into())
        }
        VariableSource::Kubeconfig(name) => {
            let label = context.label_of("Cluster", name);
            let label = label.filter(|label| context.kubeconfigs.contains(label));
            let Some(label) = label else {
                let message = format!("there is no cluster `{name}` with a control plane");
                context.fault(spec, message, None);
                return None;
            };
            let raw =
                Reference::resource("talos_cluster_kubeconfig", &label).attribute("kubeconfig_raw");
            // GitLab masks no value of several lines.
            Some(Expression::call("base64encode", [raw.into()]).into())
        }
    }
}
