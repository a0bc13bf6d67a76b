//! How the engine's identifiers and statuses are spelled in JSON.
//!
//! Its types are not serializable; the modules here are named in `#[serde(with = "…")]`.

/// One value that is its text.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// A value that is its text, or none.
pub(crate) mod maybe {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

/// A list of values, each its text.
pub(crate) mod list {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts
            .iter()
            .map(|text| text.parse().map_err(D::Error::custom))
            .collect()
    }
}

/// Makes a module for a status of the engine: its word, and no other text.
macro_rules! status {
    ($module:ident, $status:ident) => {
        pub(crate) mod $module {
            use phase_engine::$status;
            use schemars::{Schema, SchemaGenerator, json_schema};
            use serde::{Deserialize, Deserializer, Serializer, de::Error};

            pub(crate) fn serialize<S: Serializer>(
                status: &$status,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(status.word())
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$status, D::Error> {
                let word = String::deserialize(deserializer)?;
                let found = $status::ALL.into_iter().find(|status| status.word() == word);
                found.ok_or_else(|| D::Error::custom(format!("`{word}` is no status")))
            }

            pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
                let words: Vec<&str> = $status::ALL.iter().map(|status| status.word()).collect();
                json_schema!({ "type": "string", "enum": words })
            }
        }
    };
}

status!(step_status, StepStatus);
status!(run_status, RunStatus);
