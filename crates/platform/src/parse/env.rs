//! Variables of an environment: `X = "value"` and `X = { from = "X" }`.

use std::collections::BTreeMap;

use crate::model::EnvValue;
use crate::reader::{Field, Section};

/// Reads a table of variables; names that would steer OpenTofu are refused.
pub(crate) fn variables(section: &Section<'_>) -> BTreeMap<String, EnvValue> {
    section
        .fields()
        .into_iter()
        .filter_map(|field| {
            let legal = legal_name(&field);
            let value = value(&field)?;
            legal.then(|| (field.name.clone(), value))
        })
        .collect()
}

fn value(field: &Field<'_>) -> Option<EnvValue> {
    if !field.is_table() {
        return field.text_expr().map(EnvValue::Value);
    }
    let section = field.section(&format!("`{}`", field.name))?;
    let from = section.required("from").and_then(|from| {
        let name = from.string()?;
        is_variable(&name).then_some(name).or_else(|| {
            from.fault(
                "no name of a variable",
                format!("`{}` takes its value from no legal name", field.name),
                None,
            );
            None
        })
    });
    section.finish();
    from.map(EnvValue::From)
}

/// Returns whether a text can be the name of an environment's variable.
pub(crate) fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
}

fn legal_name(field: &Field<'_>) -> bool {
    let name = field.name.as_str();
    let fault = |label: &str, message: String, help: Option<String>| {
        field
            .doc()
            .fault(field.key_span.clone(), label, message, help);
        false
    };
    if !is_variable(name) {
        return fault(
            "no legal name",
            format!("`{name}` can't be the name of a variable"),
            None,
        );
    }
    // Credentials of registries; they steer nothing.
    if !name.starts_with("TF_") || name.starts_with("TF_TOKEN_") {
        return true;
    }
    let help = match name {
        "TF_LOG" | "TF_LOG_CORE" | "TF_LOG_PROVIDER" | "TF_LOG_PATH" => {
            "OpenTofu's trace holds values that are to stay secret, so no step gets it".to_owned()
        }
        "TF_CLI_CONFIG_FILE" | "TF_PLUGIN_CACHE_DIR" => {
            "name a configuration with `[tools] tofu = { cli_config = \"FILE\" }` in rebuild.toml"
                .to_owned()
        }
        "TF_ENCRYPTION" => "use `[encryption]` of the target".to_owned(),
        "TF_CLI_ARGS" => "use `parallelism`, `destroy_refresh` or `timeout` of a step".to_owned(),
        "TF_WORKSPACE" => {
            "there is one state for each step and target; another place is another target"
                .to_owned()
        }
        _ => match name.strip_prefix("TF_VAR_") {
            Some(variable) => {
                format!(
                    "write `{variable} = …` in `[values]` of the target, or in `vars` of the step"
                )
            }
            None if name.starts_with("TF_CLI_ARGS_") => {
                "use `parallelism`, `destroy_refresh` or `timeout` of a step".to_owned()
            }
            None if name.starts_with("TF_HTTP_") => {
                "the state backend is the target's store".to_owned()
            }
            None => "take it out: it is set for each call".to_owned(),
        },
    };
    fault(
        "steers OpenTofu",
        format!("`{name}` would steer OpenTofu behind the back of a run"),
        Some(help),
    )
}
