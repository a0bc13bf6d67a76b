//! What every spec has around it: kind, name, labels.

use std::collections::BTreeMap;

use super::fault::SpecFault;
use super::kinds::{Cluster, NodeGroup};
use super::located::Located;
use super::network_kinds::{Bucket, Network, Secret};
use super::parse::Format;
use super::project::Project;
use super::table::{Faults, Table};

/// One thing that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Its name; unique among those of its kind.
    pub name: String,
    /// Labels of the platform's own.
    pub labels: BTreeMap<String, String>,
    /// What it is.
    pub wanted: Wanted,
    /// The file and the line that it begins in.
    pub origin: (String, Option<usize>),
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// A Kubernetes cluster by Talos.
    Cluster(Cluster),
    /// Machines that are alike.
    NodeGroup(NodeGroup),
    /// A network.
    Network(Network),
    /// A bucket of an object store.
    Bucket(Bucket),
    /// A secret of Bitwarden's.
    Secret(Secret),
    /// A project of GitLab's.
    Project(Project),
}

impl Wanted {
    /// Returns the word for it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cluster(_) => "Cluster",
            Self::NodeGroup(_) => "NodeGroup",
            Self::Network(_) => "Network",
            Self::Bucket(_) => "Bucket",
            Self::Secret(_) => "Secret",
            Self::Project(_) => "Project",
        }
    }
}

const KINDS: [&str; 6] = [
    "Cluster",
    "NodeGroup",
    "Network",
    "Bucket",
    "Secret",
    "Project",
];

/// All that is wanted of one root module, in the order of kinds and names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Specs {
    pub(crate) all: Vec<Spec>,
}

impl Specs {
    /// Reads specs from files: pairs of a name and a text. The order of the files does not matter.
    ///
    /// # Errors
    /// Returns every fault of every file.
    pub fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Vec<SpecFault>> {
        let mut specs = Self::default();
        let mut faults = Vec::new();
        for (file, text) in files {
            let Some(format) = Format::of(file) else {
                let mut unknown = Faults::of(file);
                let help = "specs are `.toml`, `.yaml`, `.yml` or `.json` files";
                unknown.add(None, "", "its format is not known", Some(help.to_owned()));
                faults.append(&mut unknown.all);
                continue;
            };
            match format.read(file, text) {
                Err(fault) => faults.push(fault),
                Ok(all) => {
                    let mut of_file = Faults::of(file);
                    for located in &all {
                        specs.all.extend(spec(file, located, &mut of_file));
                    }
                    faults.append(&mut of_file.all);
                }
            }
        }
        specs
            .all
            .sort_by(|a, b| (a.wanted.kind(), &a.name).cmp(&(b.wanted.kind(), &b.name)));
        for pair in specs.all.windows(2) {
            if pair[0].wanted.kind() == pair[1].wanted.kind() && pair[0].name == pair[1].name {
                let (file, line) = pair[1].origin.clone();
                let mut twice = Faults::of(&file);
                let path = format!("{} {}", pair[1].wanted.kind(), pair[1].name);
                let first = match pair[0].origin.1 {
                    Some(line) => format!("the other is at {}:{line}", pair[0].origin.0),
                    None => format!("the other is in {}", pair[0].origin.0),
                };
                twice.add(line, &path, "there are two of this name", Some(first));
                faults.append(&mut twice.all);
            }
        }
        if faults.is_empty() {
            Ok(specs)
        } else {
            Err(faults)
        }
    }

    /// Returns what is wanted.
    #[must_use]
    pub fn all(&self) -> &[Spec] {
        &self.all
    }
}

fn spec(file: &str, located: &Located, faults: &mut Faults) -> Option<Spec> {
    let n_before = faults.all.len();
    let mut envelope = Table::of("", located, faults);
    let kind = envelope.word("kind", &KINDS.map(|kind| (kind, kind)), faults);
    if kind.is_none() && faults.all.len() == n_before {
        envelope.missing("kind", faults);
    }
    let metadata = envelope.take("metadata");
    let mut name = String::new();
    let mut labels = BTreeMap::new();
    match metadata {
        None => envelope.missing("metadata.name", faults),
        Some(metadata) => {
            let mut metadata = Table::of("metadata", metadata, faults);
            name = metadata.required_text("name", faults);
            labels = metadata.map("labels", faults);
            metadata.done(faults);
        }
    }
    let empty = Located {
        line: located.line,
        data: super::located::Data::Null,
    };
    let body = envelope.take("spec").unwrap_or(&empty);
    envelope.done(faults);
    let kind = kind?;
    let path = format!("{kind} {name}: spec");
    let mut body = Table::of(&path, body, faults);
    let wanted = match kind {
        "Cluster" => Wanted::Cluster(Cluster::read(&mut body, faults)),
        "NodeGroup" => Wanted::NodeGroup(NodeGroup::read(&mut body, faults)?),
        "Network" => Wanted::Network(Network::read(&mut body, faults)?),
        "Bucket" => Wanted::Bucket(Bucket::read(&mut body, faults)?),
        "Secret" => Wanted::Secret(Secret::read(&mut body, faults)?),
        _ => Wanted::Project(Project::read(&mut body, faults)),
    };
    body.done(faults);
    (faults.all.len() == n_before).then(|| Spec {
        name,
        labels,
        wanted,
        origin: (file.to_owned(), located.line),
    })
}
