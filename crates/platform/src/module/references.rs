//! What expressions refer to, in the form in which OpenTofu's JSON plan lists references.

use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::visit::{Visit, visit_traversal};

/// Returns every reference below an expression, with each part of it that is one too: `data.box.a.id`
/// gives `data.box`, `data.box.a` and `data.box.a.id`. Indexes are left out.
pub(super) fn of_expression(expression: &Expression) -> Vec<String> {
    let mut found = References::default();
    found.visit_expr(expression);
    found.0
}

/// Returns the references of a value in JSON syntax, in which every text is a template.
pub(super) fn of_json(value: &serde_json::Value) -> Vec<String> {
    let mut found = References::default();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            // A text that is no template refers to nothing; OpenTofu says what is wrong with it.
            serde_json::Value::String(text) => {
                if let Ok(template) = hcl_edit::parser::parse_template(text) {
                    found.visit_template(&template);
                }
            }
            serde_json::Value::Array(items) => waiting.extend(items),
            serde_json::Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
    found.0
}

#[derive(Default)]
struct References(Vec<String>);

impl Visit for References {
    fn visit_traversal(&mut self, node: &Traversal) {
        if let Some(root) = node.expr.as_variable() {
            let mut reference = root.as_str().to_owned();
            for operator in &node.operators {
                match operator.value() {
                    TraversalOperator::GetAttr(name) => {
                        reference = format!("{reference}.{}", name.as_str());
                        self.0.push(reference.clone());
                    }
                    TraversalOperator::Index(_) | TraversalOperator::LegacyIndex(_) => {}
                    // What follows belongs to each element.
                    TraversalOperator::AttrSplat(_) | TraversalOperator::FullSplat(_) => break,
                }
            }
        }
        visit_traversal(self, node);
    }
}
