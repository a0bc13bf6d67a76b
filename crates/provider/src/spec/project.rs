//! Projects of GitLab's.

use super::located::{Data, Located};
use super::table::{Faults, Table};

/// A project.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// Its whole path, with the groups it is in.
    pub path: String,
    /// Whether those groups are made too; otherwise they stand already.
    pub create_groups: bool,
    /// Who sees it.
    pub visibility: &'static str,
    /// The branch that files go to.
    pub default_branch: String,
    /// What its pipelines know.
    pub variables: Vec<Variable>,
    /// Who may fetch from it.
    pub deploy_tokens: Vec<DeployToken>,
    /// Branches that not everybody writes to.
    pub protected_branches: Vec<ProtectedBranch>,
    /// Files in its repository.
    pub files: Vec<ProjectFile>,
}

/// Something that pipelines know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub key: String,
    /// Where its value comes from.
    pub source: VariableSource,
    /// Whether GitLab hides it in logs.
    pub masked: bool,
    /// Whether only protected branches know it.
    pub protected: bool,
    /// Whether jobs find it as a file.
    pub is_file: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableSource {
    /// It is written in the spec.
    Literal(String),
    /// A variable of the root module.
    Input(String),
    /// A field of a `Secret`.
    Secret {
        /// The name of the spec.
        name: String,
        /// The field.
        field: String,
    },
    /// The kubeconfig of a `Cluster`, in base64: GitLab masks no value of several lines.
    Kubeconfig(String),
}

/// Someone who may fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployToken {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
}

/// A branch that not everybody writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedBranch {
    /// The branch.
    pub branch: String,
    /// Who pushes to it.
    pub push: &'static str,
    /// Who merges into it.
    pub merge: &'static str,
}

/// A file in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Its path.
    pub path: String,
    /// What is in it.
    pub content: String,
}

const LEVELS: [(&str, &str); 3] = [
    ("no one", "no one"),
    ("developer", "developer"),
    ("maintainer", "maintainer"),
];

impl Project {
    pub(super) fn read(body: &mut Table<'_>, faults: &mut Faults) -> Self {
        let line = body.line;
        let path = body.required_text("path", faults);
        if !path.is_empty() {
            check_path(line, &body.at("path"), &path, faults);
        }
        let visibilities = [
            ("private", "private"),
            ("internal", "internal"),
            ("public", "public"),
        ];
        let project = Self {
            path,
            create_groups: body.flag("createGroups", faults).unwrap_or(false),
            visibility: body
                .word("visibility", &visibilities, faults)
                .unwrap_or("private"),
            default_branch: body
                .text("defaultBranch", faults)
                .unwrap_or_else(|| "main".to_owned()),
            variables: each(body, "variables", faults, variable),
            deploy_tokens: each(body, "deployTokens", faults, token),
            protected_branches: each(body, "protectedBranches", faults, branch),
            files: each(body, "files", faults, file),
        };
        twice(
            body,
            "variables",
            project.variables.iter().map(|variable| &variable.key),
            faults,
        );
        twice(
            body,
            "deployTokens",
            project.deploy_tokens.iter().map(|token| &token.name),
            faults,
        );
        twice(
            body,
            "protectedBranches",
            project
                .protected_branches
                .iter()
                .map(|branch| &branch.branch),
            faults,
        );
        twice(
            body,
            "files",
            project.files.iter().map(|file| &file.path),
            faults,
        );
        project
    }
}

fn check_path(line: Option<usize>, at: &str, path: &str, faults: &mut Faults) {
    let is_legal = |part: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !part.is_empty() && !part.starts_with(['-', '.']) && part.chars().all(inner)
    };
    if !path.contains('/') || !path.split('/').all(is_legal) {
        let help = "such as `group/project`".to_owned();
        faults.add(
            line,
            at,
            format!("`{path}` is no path of a project in a group"),
            Some(help),
        );
    }
}

fn each<T>(
    body: &mut Table<'_>,
    key: &'static str,
    faults: &mut Faults,
    read: impl Fn(&mut Table<'_>, &mut Faults) -> T,
) -> Vec<T> {
    let at = body.at(key);
    let items = body.list(key, faults);
    let read = |(index, item): (usize, &Located)| {
        let mut table = Table::of(&format!("{at}[{index}]"), item, faults);
        let value = read(&mut table, faults);
        table.done(faults);
        value
    };
    items.iter().enumerate().map(read).collect()
}

fn twice<'a>(
    body: &Table<'_>,
    key: &str,
    names: impl Iterator<Item = &'a String>,
    faults: &mut Faults,
) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            faults.add(
                body.line,
                &body.at(key),
                format!("`{name}` is there twice"),
                None,
            );
        }
    }
}

fn variable(table: &mut Table<'_>, faults: &mut Faults) -> Variable {
    let key = table.required_text("key", faults);
    if !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        faults.add(
            table.line,
            &table.at("key"),
            "letters, digits and `_` belong here",
            None,
        );
    }
    let literal = table.text("value", faults).map(VariableSource::Literal);
    let input = table.text("variable", faults).map(VariableSource::Input);
    let kubeconfig = table
        .text("kubeconfigOf", faults)
        .map(VariableSource::Kubeconfig);
    let at = table.at("secret");
    let secret = table.take("secret").map(|value| {
        let mut secret = Table::of(&at, value, faults);
        let source = VariableSource::Secret {
            name: secret.required_text("name", faults),
            field: secret.required_text("field", faults),
        };
        secret.done(faults);
        source
    });
    let sources: Vec<VariableSource> = [literal, input, secret, kubeconfig]
        .into_iter()
        .flatten()
        .collect();
    if sources.len() != 1 {
        let message = "one of `value`, `variable`, `secret` and `kubeconfigOf` must be set";
        faults.add(table.line, &table.path, message, None);
    }
    let source = sources
        .into_iter()
        .next()
        .unwrap_or_else(|| VariableSource::Literal(String::new()));
    let masked = table.flag("masked", faults);
    if masked == Some(true) && matches!(source, VariableSource::Literal(_)) {
        let help = "take it from `variable` or `secret`".to_owned();
        faults.add(
            table.line,
            &table.at("value"),
            "a masked value is not written out",
            Some(help),
        );
    }
    Variable {
        key,
        // What is no literal is a secret until someone says otherwise.
        masked: masked.unwrap_or(!matches!(source, VariableSource::Literal(_))),
        source,
        protected: table.flag("protected", faults).unwrap_or(false),
        is_file: table.flag("file", faults).unwrap_or(false),
    }
}

fn token(table: &mut Table<'_>, faults: &mut Faults) -> DeployToken {
    const SCOPES: [&str; 6] = [
        "read_repository",
        "read_registry",
        "write_registry",
        "read_package_registry",
        "write_package_registry",
        "read_virtual_registry",
    ];
    let token = DeployToken {
        name: table.required_text("name", faults),
        scopes: table.texts("scopes", faults),
    };
    if token.scopes.is_empty() {
        table.missing("scopes", faults);
    }
    for scope in token
        .scopes
        .iter()
        .filter(|scope| !SCOPES.contains(&scope.as_str()))
    {
        let help = crate::near::near(scope, SCOPES).map(|right| format!("did you mean `{right}`?"));
        faults.add(
            table.line,
            &table.at("scopes"),
            format!("there is no scope `{scope}`"),
            help,
        );
    }
    token
}

fn branch(table: &mut Table<'_>, faults: &mut Faults) -> ProtectedBranch {
    ProtectedBranch {
        branch: table.required_text("branch", faults),
        push: table.word("push", &LEVELS, faults).unwrap_or("maintainer"),
        merge: table.word("merge", &LEVELS, faults).unwrap_or("maintainer"),
    }
}

fn file(table: &mut Table<'_>, faults: &mut Faults) -> ProjectFile {
    let path = table.required_text("path", faults);
    let content = match table.take("content").map(|value| (value.line, &value.data)) {
        Some((_, Data::Text(text))) => text.clone(),
        other => {
            let line = other.map_or(table.line, |(line, _)| line);
            faults.add(line, &table.at("content"), "a text belongs here", None);
            String::new()
        }
    };
    ProjectFile { path, content }
}
