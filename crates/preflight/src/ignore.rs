//! Exceptions from drift: which ones match, which ones have ended.

use jiff::civil::Date;

use crate::facts::IgnoreDrift;

impl IgnoreDrift {
    /// Whether its last day has passed.
    pub fn has_ended(&self, today: Date) -> bool {
        self.until.is_some_and(|until| until < today)
    }

    /// Whether it names this attribute of this resource instance.
    pub fn names(&self, address: &str, attribute: &str) -> bool {
        let Some(named) = self.attribute.as_deref() else {
            return false;
        };
        same_object(&self.address, address) && at_or_below(named, attribute)
    }

    /// Whether it names this output.
    pub fn names_output(&self, name: &str) -> bool {
        self.address.strip_prefix("output.") == Some(name)
    }
}

/// Whether `named` is this instance, or its resource without any index, or the beginning of its address with a `*`.
fn same_object(named: &str, address: &str) -> bool {
    match named.strip_suffix('*') {
        Some(beginning) => address.starts_with(beginning),
        None => named == address || named == without_indices(address),
    }
}

/// An address without its `count` and `for_each` keys.
pub(crate) fn without_indices(address: &str) -> String {
    let mut bare = String::new();
    let mut quoted = false;
    let mut inside = false;
    let mut letters = address.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted => {
                letters.next();
            }
            '"' if inside => quoted = !quoted,
            '[' if !inside => inside = true,
            ']' if inside && !quoted => inside = false,
            _ if inside => {}
            letter => bare.push(letter),
        }
    }
    bare
}

/// Whether `path` is `named` or lies inside it.
fn at_or_below(named: &str, path: &str) -> bool {
    match path.strip_prefix(named) {
        Some(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(address: &str, attribute: Option<&str>) -> IgnoreDrift {
        IgnoreDrift {
            address: address.into(),
            attribute: attribute.map(str::to_owned),
            reason: "because".into(),
            until: None,
        }
    }

    #[test]
    fn a_rule_names_an_instance_or_all_instances_of_a_resource() {
        for (named, address, same) in [
            ("a.b", "a.b", true),
            ("a.b[0]", "a.b[0]", true),
            ("a.b", "a.b[0]", true),
            ("a.b", r#"a.b["x.y[1]"]"#, true),
            ("a.b", r#"a.b["q\"]z"]"#, true),
            ("a.b[0]", "a.b[1]", false),
            ("module.m.a.b", r#"module.m["k"].a.b[3]"#, true),
            ("module.m[0].a.b", "module.m[0].a.b[3]", false),
            ("a.bc", "a.b", false),
            ("a_*", "a_b.c[0]", true),
            ("a_*", "ab.c", false),
        ] {
            assert_eq!(
                rule(named, Some("t")).names(address, "t"),
                same,
                "{named} {address}"
            );
        }
    }

    #[test]
    fn a_rule_names_an_attribute_and_what_lies_below_it() {
        for (named, path, matches) in [
            ("tags", "tags", true),
            ("tags", "tags.owner", true),
            ("rules", "rules[0].port", true),
            ("rules[0]", "rules[0].port", true),
            ("tags", "tags_all", false),
            ("tags.owner", "tags", false),
        ] {
            assert_eq!(
                rule("a.b", Some(named)).names("a.b", path),
                matches,
                "{named} {path}"
            );
        }
        assert!(
            !rule("a.b", None).names("a.b", "tags"),
            "a whole object is never ignored"
        );
    }

    #[test]
    fn an_output_is_named_as_a_whole() {
        assert!(rule("output.ip", None).names_output("ip"));
        assert!(!rule("output.ip", None).names_output("ip2"));
        assert!(!rule("ip", None).names_output("ip"));
    }

    proptest::proptest! {
        /// Keys may hold anything, brackets and quotes too.
        #[test]
        fn an_instance_is_named_by_its_resource_whatever_its_key(key in ".*", n in 0_u32..) {
            let quoted = serde_json::to_string(&key).unwrap();
            let address = format!("module.m[{quoted}].box.a[{n}]");
            proptest::prop_assert_eq!(without_indices(&address), "module.m.box.a");
            proptest::prop_assert!(rule("module.m.box.a", Some("x")).names(&address, "x"));
        }

        #[test]
        fn any_text_is_read_as_an_address(text in ".*") {
            let bare = without_indices(&text);
            proptest::prop_assert_eq!(without_indices(&bare), bare);
        }
    }

    #[test]
    fn a_rule_counts_on_its_last_day() {
        let until: Date = "2027-03-31".parse().unwrap();
        let rule = IgnoreDrift {
            until: Some(until),
            ..rule("a.b", None)
        };
        assert!(!rule.has_ended(until));
        assert!(rule.has_ended(until.tomorrow().unwrap()));
        assert!(
            !IgnoreDrift {
                until: None,
                ..rule
            }
            .has_ended(until)
        );
    }
}
