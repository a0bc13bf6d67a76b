//! Secrets, read by Bitwarden's provider when tofu applies.

use tf_json::{Body, Expression, Identifier, Meta, Reference, Resource};

use super::context::{Context, joined};
use crate::ProviderName::Bitwarden;
use crate::spec::{From, Secret, Spec};

/// Returns the name of the local value that holds a secret's fields.
pub(super) fn local(label: &Identifier) -> Identifier {
    joined(&Identifier::of("secret"), label.as_str())
}

/// Renders a secret.
pub(crate) fn secret(context: &mut Context<'_>, spec: &Spec, secret: &Secret) {
    let label = context.label(spec);
    let (kind, id) = match &secret.from {
        From::Login(id) => ("bitwarden_item_login", id),
        From::Note(id) => ("bitwarden_item_secure_note", id),
        From::SshKey(id) => ("bitwarden_item_ssh_key", id),
        From::Secret(id) => ("bitwarden_secret", id),
    };
    let data = Resource {
        body: Body::new().set("id", id),
        meta: Meta::default(),
    };
    context.data(spec, Bitwarden, kind, &label, data);
    let item = Reference::data(kind, &label);
    let mut fields = Vec::new();
    for field in &secret.fields {
        let own = secret.from.own_fields().iter().find(|own| *own == field);
        let value = match own {
            Some(own) => Ok(item.clone().attribute(*own).into()),
            None => custom(&item, field),
        };
        match value {
            Ok(value) => fields.push((field.as_str(), value)),
            Err(error) => context.note(spec, Err(error)),
        }
    }
    // The provider does not mark the value of a secret.
    let value = Expression::call("sensitive", [Expression::object(fields)]);
    let name = local(&label);
    let result = context.document(Bitwarden).add_local(name.clone(), value);
    context.note(spec, result);
    if let Some((provider, arguments)) = &secret.provider {
        if crate::ProviderName::named(provider).is_none() {
            let known = crate::ProviderName::ALL.map(crate::ProviderName::as_str);
            let near = crate::near::near(provider, known);
            let help = near.map(|name| format!("did you mean `{name}`?"));
            context.fault(spec, format!("there is no provider `{provider}`"), help);
        }
        for (argument, field) in arguments {
            let value = Reference::local(&name).key(field.as_str());
            let of = context.configurations.entry(provider.clone()).or_default();
            if of.insert(argument.clone(), value.into()).is_some() {
                let message = format!("another secret sets `{argument}` of `{provider}` too");
                context.fault(spec, message, None);
            }
        }
    }
}

/// Returns a field that a person added to an item.
fn custom(item: &Reference, field: &str) -> Result<Expression, tf_json::BuildError> {
    let name = Expression::string(field);
    Expression::raw(format!(
        "[for field in {item}.field : try(coalesce(field.hidden, field.text), \"\") if field.name == {name}][0]"
    ))
}
