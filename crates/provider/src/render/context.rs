//! What the provider modules share while they render.

use std::collections::{BTreeMap, BTreeSet};

use tf_json::{
    BuildError, Document, Expression, Identifier, IgnoreChanges, Lifecycle, Meta, Reference,
    Resource, Template, Value,
};

use super::labels::{Labels, labels};
use crate::ProviderName;
use crate::spec::{Cluster, NodeGroup, Spec, SpecFault, Specs, Wanted};

/// Everything rendered so far.
pub(crate) struct Context<'a> {
    pub(crate) specs: &'a Specs,
    labels: Labels,
    documents: BTreeMap<ProviderName, Document>,
    /// What the providers share.
    pub(crate) shared: Document,
    /// Local values of machines, each a map of hosts.
    pub(crate) hosts: Vec<Identifier>,
    /// Labels of the clusters, for the outputs.
    pub(crate) clusters: Vec<Identifier>,
    /// Those of them that give out a kubeconfig.
    pub(crate) kubeconfigs: BTreeSet<Identifier>,
    /// Groups of GitLab's that are rendered already, by path.
    pub(crate) gitlab_groups: BTreeMap<String, Reference>,
    /// Variables that the caller must set.
    pub(crate) inputs: BTreeSet<String>,
    /// Those of them that are secrets.
    pub(crate) secret_inputs: BTreeSet<String>,
    /// Oracle's regions that specs name, and the spec that does.
    pub(crate) regions: BTreeMap<String, &'a Spec>,
    /// Arguments of providers that are set from secrets.
    pub(crate) configurations: BTreeMap<String, BTreeMap<String, Expression>>,
    pub(crate) faults: Vec<SpecFault>,
}

/// Returns a fault of a spec.
pub(crate) fn fault(spec: &Spec, message: impl Into<String>, help: Option<String>) -> SpecFault {
    SpecFault {
        file: spec.origin.0.clone(),
        line: spec.origin.1,
        path: format!("{} {}", spec.wanted.kind(), spec.name),
        message: message.into(),
        help,
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(specs: &'a Specs) -> Result<Self, Vec<SpecFault>> {
        Ok(Self {
            specs,
            labels: labels(specs)?,
            documents: BTreeMap::new(),
            shared: Document::new(),
            hosts: Vec::new(),
            clusters: Vec::new(),
            kubeconfigs: BTreeSet::new(),
            gitlab_groups: BTreeMap::new(),
            inputs: BTreeSet::new(),
            secret_inputs: BTreeSet::new(),
            regions: BTreeMap::new(),
            configurations: BTreeMap::new(),
            faults: Vec::new(),
        })
    }

    /// Returns the document of a provider.
    pub(crate) fn document(&mut self, provider: ProviderName) -> &mut Document {
        self.documents.entry(provider).or_default()
    }

    pub(crate) fn into_documents(self) -> BTreeMap<ProviderName, Document> {
        self.documents
    }

    /// Returns the providers that are used.
    pub(crate) fn providers(&self) -> BTreeSet<ProviderName> {
        self.documents.keys().copied().collect()
    }

    pub(crate) fn label(&self, spec: &Spec) -> Identifier {
        self.label_of(spec.wanted.kind(), &spec.name)
            .expect("every spec was labelled before anything was rendered")
    }

    pub(crate) fn label_of(&self, kind: &'static str, name: &str) -> Option<Identifier> {
        self.labels.get(&(kind, name.to_owned())).cloned()
    }

    /// Returns the spec of a kind and name.
    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&'a Spec> {
        self.specs
            .all()
            .iter()
            .find(|spec| spec.wanted.kind() == kind && spec.name == name)
    }

    pub(crate) fn fault(&mut self, spec: &Spec, message: impl Into<String>, help: Option<String>) {
        self.faults.push(fault(spec, message, help));
    }

    /// Notes what could not be added to a document: two things with one address, mostly.
    pub(crate) fn note(&mut self, spec: &Spec, result: Result<(), BuildError>) {
        if let Err(error) = result {
            let help = "another spec makes the same thing: rename one of them".to_owned();
            self.fault(spec, error.to_string(), Some(help));
        }
    }

    /// Adds a resource.
    pub(crate) fn resource(
        &mut self,
        spec: &Spec,
        provider: ProviderName,
        kind: &'static str,
        label: impl Into<Identifier>,
        resource: Resource,
    ) {
        let result = self.document(provider).add_resource(kind, label, resource);
        self.note(spec, result);
    }

    /// Adds a data source.
    pub(crate) fn data(
        &mut self,
        spec: &Spec,
        provider: ProviderName,
        kind: &'static str,
        label: impl Into<Identifier>,
        data: Resource,
    ) {
        let result = self.document(provider).add_data(kind, label, data);
        self.note(spec, result);
    }

    /// Returns the clusters of the specs.
    pub(crate) fn all_clusters(&self) -> Vec<(&'a Spec, &'a Cluster)> {
        let clusters = self.specs.all().iter();
        clusters
            .filter_map(|spec| match &spec.wanted {
                Wanted::Cluster(cluster) => Some((spec, cluster)),
                _ => None,
            })
            .collect()
    }

    /// Returns the cluster that a group belongs to: the one it names, or the only one.
    pub(crate) fn cluster_of(
        &mut self,
        spec: &Spec,
        group: &NodeGroup,
    ) -> Option<(&'a Spec, &'a Cluster)> {
        let clusters = self.all_clusters();
        match &group.cluster {
            Some(name) => {
                let found = clusters.iter().find(|(cluster, _)| cluster.name == *name);
                if found.is_none() {
                    self.fault(spec, format!("there is no cluster `{name}`"), None);
                }
                found.copied()
            }
            None if clusters.len() > 1 => {
                let help = Some("set `cluster`".to_owned());
                self.fault(spec, "there are several clusters to belong to", help);
                None
            }
            None => clusters.first().copied(),
        }
    }

    /// Returns the groups of a cluster, in the order of their names.
    pub(crate) fn groups_of(&self, cluster: &Spec) -> Vec<(&'a Spec, &'a NodeGroup)> {
        let is_only = self.all_clusters().len() == 1;
        let groups = self.specs.all().iter();
        groups
            .filter_map(|spec| match &spec.wanted {
                Wanted::NodeGroup(group) => Some((spec, group)),
                _ => None,
            })
            .filter(|(_, group)| match &group.cluster {
                Some(name) => *name == cluster.name,
                None => is_only,
            })
            .collect()
    }

    /// Returns the tags of a machine or network, by which it is found again.
    pub(crate) fn tags(&mut self, spec: &Spec) -> Value {
        let mut tags: BTreeMap<Template, Value> = BTreeMap::new();
        for (key, value) in &spec.labels {
            tags.insert(key.as_str().into(), value.into());
        }
        tags.insert("group".into(), spec.name.as_str().into());
        for name in ["platform", "run", "target"] {
            self.inputs.insert(name.to_owned());
            tags.insert(name.into(), Reference::variable(name).into());
        }
        Value::Object(tags)
    }

    /// Adds the local value that lists the machines of a group, each with its address.
    pub(crate) fn add_hosts(
        &mut self,
        spec: &Spec,
        group: &NodeGroup,
        provider: ProviderName,
        hosts: Hosts<'_>,
    ) {
        let label = self.label(spec);
        let role = Expression::string(group.role.as_str());
        let groups = Expression::list([Expression::string(label.as_str()), role.clone()]);
        let attributes = Expression::object([
            ("ansible_host", hosts.address),
            ("groups", groups),
            ("provider", Expression::string(hosts.provider)),
            ("role", role),
        ]);
        let text = format!(
            "{{ for {} in {} : {} => {attributes} }}",
            hosts.each, hosts.of, hosts.name
        );
        let name = Identifier::new(format!("hosts_{label}")).expect("a label makes a name");
        let result = Expression::raw(text)
            .and_then(|hosts| self.document(provider).add_local(name.clone(), hosts));
        self.note(spec, result);
        self.hosts.push(name);
    }
}

/// The machines of a group, as an expression goes through them.
pub(crate) struct Hosts<'e> {
    /// What each one is called, such as `index, machine`.
    pub(crate) each: &'static str,
    /// All of them.
    pub(crate) of: Expression,
    /// The name of one.
    pub(crate) name: Expression,
    /// Its address.
    pub(crate) address: Expression,
    /// Who made it.
    pub(crate) provider: &'e str,
}

/// Returns `NAME-INDEX`, evaluated.
pub(crate) fn numbered(name: &str, index: &'static str) -> Template {
    let index = index
        .split('.')
        .fold(None, |reference: Option<Reference>, part| {
            Some(match reference {
                None => Reference::name(part),
                Some(reference) => reference.attribute(part),
            })
        });
    let template = Template::literal(format!("{name}-"));
    match index {
        Some(index) => template.expression(index),
        None => template,
    }
}

/// Returns meta-arguments that look away from these arguments.
pub(crate) fn ignoring(references: impl IntoIterator<Item = Reference>) -> Meta {
    Meta {
        lifecycle: Lifecycle {
            ignore_changes: IgnoreChanges::These(references.into_iter().collect()),
            ..Lifecycle::default()
        },
        ..Meta::default()
    }
}

/// Returns a name made of two.
pub(crate) fn joined(first: &Identifier, second: &str) -> Identifier {
    let second = super::labels::label(second);
    let second = second.as_ref().map_or("_", Identifier::as_str);
    Identifier::new(format!("{first}_{second}")).expect("two labels make a name")
}
