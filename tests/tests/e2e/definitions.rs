//! Faults of the definitions: all at once, each with what would be right, before anything is touched.

use crate::drill::Drill;
use crate::published::conforms;

/// Cases N4, R6: a typo in an output, a variable or a key is an error with the near name; every fault is told at
/// once, with its file and line; nothing falls back to a default.
#[test]
fn every_typo_is_told_at_once_with_the_near_name() {
    let drill = Drill::of(
        r#"time_budgte = "60m"
[[phase]]
id = "1a"
title = "edge"
[[phase.step]]
name = "edge"
tofu = "edge"
[[phase]]
id = "1b"
title = "use"
[[phase.step]]
name = "use"
tofu = "use"
vars = { addres = "${step.1a.edge.adress}", zone = "${target.dns_zoen}" }
"#,
        &[
            ("edge", "output \"address\" { value = \"a\" }\n"),
            (
                "use",
                "variable \"address\" { default = \"wrong\" }\nvariable \"zone\" { default = \"wrong\" }\noutput \"a\" { value = [var.address, var.zone] }\n",
            ),
        ],
    );
    drill.write(
        "targets/drill.toml",
        "[values]\ndns_zone = \"lab.example\"\n",
    );
    for command in ["up", "preflight"] {
        let failed = drill.run(2, &[command, "--target", "drill"]);
        for wanted in [
            "time_budgte",
            "time_budget",
            "adress",
            "address",
            "addres",
            "dns_zoen",
            "dns_zone",
            "rebuild.toml:",
        ] {
            assert!(failed.stderr.contains(wanted), "`{wanted}`: {failed:?}");
        }
    }
    let document = drill.json(2, &["up", "--target", "drill"]);
    conforms("error", &document);
    let faults = document["error"]["faults"].as_array().expect("faults");
    assert!(faults.len() >= 4, "{document:#}");
    for fault in faults {
        assert!(
            fault["line"].as_u64().is_some_and(|line| line > 0) || fault["file"] != "rebuild.toml",
            "{fault:#}"
        );
    }
    assert!(!drill.store().exists());
}

/// Case R6: the order of phases is that of `rebuild.toml`, whatever their ids and directories are called.
#[test]
fn phases_go_in_the_order_of_the_file_and_back_in_reverse() {
    let mut phases = String::new();
    let log = test_support::World::new();
    let file = log.root().join("log");
    let mut modules = Vec::new();
    for (id, directory) in [("9", "a"), ("1", "z"), ("5", "m")] {
        phases.push_str(&format!(
            "[[phase]]\nid = \"{id}\"\ntitle = \"t\"\n[[phase.step]]\nname = \"s\"\ntofu = \"{directory}\"\n"
        ));
        modules.push((
            directory,
            format!(
                "resource \"terraform_data\" \"it\" {{\n  input = \"{id}\"\n  provisioner \"local-exec\" {{\n    command = \"echo +{id} >> {0}\"\n  }}\n  provisioner \"local-exec\" {{\n    when    = destroy\n    command = \"echo -${{self.input}} >> {0}\"\n  }}\n}}\n",
                file.display()
            ),
        ));
    }
    let modules: Vec<(&str, &str)> = modules
        .iter()
        .map(|(directory, text)| (*directory, text.as_str()))
        .collect();
    let drill = Drill::of(&phases, &modules);
    drill.up();
    drill.run(0, &["down", "--target", "drill"]);
    let order = std::fs::read_to_string(&file).expect("the log");
    assert_eq!(
        order.lines().collect::<Vec<_>>(),
        ["+9", "+1", "+5", "-5", "-1", "-9"]
    );
}
