//! What a file in OpenTofu's native syntax declares.

use std::ops::Range;

use hcl_edit::Span;
use hcl_edit::expr::{Expression, FuncCall, Object, ObjectKey, Traversal, TraversalOperator};
use hcl_edit::structure::{Block, Body};
use hcl_edit::visit::{Visit, visit_func_call, visit_traversal};

use super::{
    Declared, DeclaredBackend, DeclaredCall, DeclaredOutput, DeclaredVariable, FILE_MAKERS,
    ProviderRequirement, SyntaxError, is_in_tree, references,
};

/// Reads a `.tf` or `.tofu` file.
pub(crate) fn read(text: &str) -> Result<Declared, SyntaxError> {
    let body = parse(text)?;
    let mut declared = Declared::default();
    for block in body.blocks() {
        match block.ident.as_str() {
            "variable" => declared.variables.extend(variable(block, text)),
            "output" => declared
                .outputs
                .extend(label(block).map(|name| DeclaredOutput {
                    name,
                    sensitive: flag(&block.body, "sensitive"),
                })),
            "module" => declared.calls.extend(label(block).map(|name| {
                DeclaredCall {
                    name,
                    source: string(&block.body, "source"),
                    span: block
                        .body
                        .get_attribute("source")
                        .and_then(|attribute| attribute.value.span())
                        .unwrap_or_else(|| header(block)),
                }
            })),
            "terraform" => terraform(block, &mut declared),
            "locals" => declared.locals.extend(block.body.attributes().map(|local| {
                let name = local.key.as_str().to_owned();
                (name, references::of_expression(&local.value))
            })),
            "resource" => declared.made_files.extend(made_file(block, text)),
            _ => {}
        }
    }
    let mut unsteady = Unsteady::default();
    unsteady.visit_body(&body);
    declared.unsteady = unsteady.found;
    Ok(declared)
}

/// Returns the names that a `.tfvars` file sets.
pub(crate) fn names(text: &str) -> Result<Vec<String>, SyntaxError> {
    Ok(parse(text)?
        .attributes()
        .map(|attribute| attribute.key.as_str().to_owned())
        .collect())
}

fn parse(text: &str) -> Result<Body, SyntaxError> {
    hcl_edit::parser::parse_body(text).map_err(|error| {
        let at = error.location().offset().min(text.len());
        let rest = text.get(at..).unwrap_or("");
        let word = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len())
            .max(1);
        SyntaxError {
            span: at..at + word,
            message: error.message().to_owned(),
        }
    })
}

fn label(block: &Block) -> Option<String> {
    block.labels.first().map(|label| label.as_str().to_owned())
}

/// Returns the bytes of a block's first line: its word and labels.
fn header(block: &Block) -> Range<usize> {
    let start = block.ident.span().map_or(0, |span| span.start);
    let end = block
        .labels
        .last()
        .and_then(|label| match label {
            hcl_edit::structure::BlockLabel::Ident(ident) => ident.span(),
            hcl_edit::structure::BlockLabel::String(text) => text.span(),
        })
        .or_else(|| block.ident.span())
        .map_or(start, |span| span.end);
    start..end
}

fn value<'a>(body: &'a Body, key: &str) -> Option<&'a Expression> {
    body.get_attribute(key).map(|attribute| &attribute.value)
}

fn string(body: &Body, key: &str) -> Option<String> {
    value(body, key)?.as_str().map(str::to_owned)
}

/// Reads a flag; one that is no plain `true` or `false` counts as set.
fn flag(body: &Body, key: &str) -> Option<bool> {
    value(body, key).map(|value| value.as_bool().unwrap_or(true))
}

fn variable(block: &Block, text: &str) -> Option<DeclaredVariable> {
    Some(DeclaredVariable {
        name: label(block)?,
        has_default: block.body.has_attribute("default"),
        sensitive: flag(&block.body, "sensitive"),
        type_text: value(&block.body, "type")
            .and_then(Expression::span)
            .and_then(|span| text.get(span))
            .map(|text| text.trim().to_owned()),
        span: header(block),
    })
}

/// The file that a resource makes in the module's tree.
fn made_file(block: &Block, text: &str) -> Option<(String, Range<usize>)> {
    let kind = label(block).filter(|kind| FILE_MAKERS.contains(&kind.as_str()))?;
    let name = block.labels.get(1)?.as_str();
    let span = value(&block.body, "filename")?.span()?;
    is_in_tree(text.get(span.clone())?.trim()).then(|| (format!("{kind}.{name}"), span))
}

fn terraform(block: &Block, declared: &mut Declared) {
    for inner in block.body.blocks() {
        match inner.ident.as_str() {
            "backend" => {
                let kind = label(inner).unwrap_or_default();
                declared.backends.push(DeclaredBackend {
                    what: format!("backend \"{kind}\""),
                    harmless: kind == "http" && inner.body.is_empty(),
                    settings: inner
                        .body
                        .attributes()
                        .map(|attribute| {
                            let value = attribute.value.as_str().map(str::to_owned);
                            (attribute.key.as_str().to_owned(), value)
                        })
                        .collect(),
                    span: header(inner),
                });
            }
            "cloud" => declared.backends.push(DeclaredBackend {
                what: "cloud".to_owned(),
                harmless: false,
                settings: Default::default(),
                span: header(inner),
            }),
            "required_providers" => {
                for attribute in inner.body.attributes() {
                    let requirement = match &attribute.value {
                        Expression::Object(object) => ProviderRequirement {
                            source: member(object, "source"),
                            version: member(object, "version"),
                        },
                        other => ProviderRequirement {
                            source: None,
                            version: other.as_str().map(str::to_owned),
                        },
                    };
                    declared
                        .providers
                        .push((attribute.key.as_str().to_owned(), requirement));
                }
            }
            _ => {}
        }
    }
}

fn member(object: &Object, key: &str) -> Option<String> {
    object.iter().find_map(|(name, value)| {
        let same = match name {
            ObjectKey::Ident(ident) => ident.as_str() == key,
            ObjectKey::Expression(expr) => expr.as_str() == Some(key),
        };
        same.then(|| value.expr().as_str().map(str::to_owned))
            .flatten()
    })
}

/// Finds uses of `path.cwd` and `abspath()`.
#[derive(Default)]
struct Unsteady {
    found: Vec<(&'static str, Range<usize>)>,
}

impl Visit for Unsteady {
    fn visit_traversal(&mut self, node: &Traversal) {
        let is_path = node
            .expr
            .as_variable()
            .is_some_and(|name| name.as_str() == "path");
        if let (true, Some(operator)) = (is_path, node.operators.first())
            && let TraversalOperator::GetAttr(name) = operator.value()
            && name.as_str() == "cwd"
        {
            self.found.push(("path.cwd", node.span().unwrap_or(0..0)));
        }
        visit_traversal(self, node);
    }

    fn visit_func_call(&mut self, node: &FuncCall) {
        if !node.name.is_namespaced() && node.name.name.as_str() == "abspath" {
            self.found.push((
                "abspath()",
                node.name
                    .name
                    .span()
                    .or_else(|| node.span())
                    .unwrap_or(0..0),
            ));
        }
        visit_func_call(self, node);
    }
}
