//! `docs/schemas`, made from the types themselves so that the two can't part.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use crate::commands::providers::{ProvidersDocument, SchemaDocument};
use crate::commands::{Failed, LastEvent, backend::Serving, init::Initialized, served::Restored};
use crate::render::RunsDocument;

/// One line of `--output ndjson`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is needed")]
enum EventOfCall {
    /// Something happened.
    Notice(run::ui::Notice),
    /// The last line.
    Last(LastEvent),
}

/// Every published schema, by the name of its file.
pub(crate) fn files() -> BTreeMap<String, String> {
    let mut schemas: BTreeMap<&str, Schema> = record::json_schemas();
    schemas.insert("backend-serve", of::<Serving>());
    schemas.insert("state-list", of::<backend_server::StatesDocument>());
    schemas.insert("state-locks", of::<backend_server::LocksDocument>());
    schemas.insert("state-restore", of::<Restored>());
    schemas.insert("state-versions", of::<backend_server::VersionsDocument>());
    schemas.insert("check", of::<run::CheckReport>());
    schemas.insert("discover", of::<run::DiscoverReport>());
    schemas.insert("down-dry-run", of::<run::DryRun>());
    schemas.insert("error", of::<Failed>());
    schemas.insert("event", of::<EventOfCall>());
    schemas.insert("explain", of::<run::Explanation>());
    schemas.insert("init", of::<Initialized>());
    schemas.insert("jobs-list", of::<provision::JobsDocument>());
    schemas.insert("jobs-show", of::<provision::JobDocument>());
    schemas.insert("provision-down", of::<provision::ProvisionedDown>());
    schemas.insert(
        "provision-down-dry-run",
        of::<run::workspace::WorkspaceDryRun>(),
    );
    schemas.insert("provision-status", of::<provision::ProvisionStatus>());
    schemas.insert("plan", of::<run::PlanReport>());
    schemas.insert("preflight", of::<preflight::Report>());
    schemas.insert("providers", of::<ProvidersDocument>());
    schemas.insert("providers-schema", of::<SchemaDocument>());
    schemas.insert("render", of::<run::RenderReport>());
    schemas.insert("runs-list", of::<RunsDocument>());
    schemas.insert("secrets-list", of::<run::sealing::SecretsList>());
    schemas.insert("secrets-open", of::<run::sealing::SecretOpened>());
    schemas.insert("secrets-rekey", of::<run::sealing::SecretsRekeyed>());
    schemas.insert("secrets-seal", of::<run::sealing::SecretSealed>());
    schemas.insert("state-migrate", of::<run::Migrated>());
    schemas.insert("state-rekey", of::<run::Rekeyed>());
    schemas.insert("store-move", of::<run::StoreMove>());
    schemas.insert("suspects", of::<run::SuspectsReport>());
    schemas.insert("unlock", of::<run::Unlocked>());
    schemas
        .into_iter()
        .map(|(name, schema)| {
            let text = format!("{:#}\n", Value::from(schema));
            (format!("{name}.schema.json"), text)
        })
        .collect()
}

/// The schema of what is written, not of what would be read: a field that is always written is required.
fn of<T: JsonSchema>() -> Schema {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_serialize()).into_root_schema_for::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `__REBUILD_BLESS=1 cargo test --package rebuild` writes them anew.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a switch of this test, and files of the source tree"
    )]
    fn the_schemas_in_docs_are_those_of_the_types() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
        if std::env::var_os("__REBUILD_BLESS").is_some() {
            std::fs::create_dir_all(&dir).unwrap();
            for (name, text) in files() {
                std::fs::write(dir.join(name), text).unwrap();
            }
        }
        let mut kept = BTreeMap::new();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            kept.insert(name, std::fs::read_to_string(&path).unwrap());
        }
        assert!(
            kept == files(),
            "docs/schemas is stale: __REBUILD_BLESS=1 cargo test --package rebuild"
        );
    }
}
