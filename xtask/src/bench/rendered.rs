//! Ten thousand resources: `rebuild render` reads their specs, renders, checks against the schemas and writes, beside
//! Python's own JSON over the same file and `tofu validate` of it.

use std::path::Path;

use anyhow::{Context, Result};

use super::median;
use super::meter::{Reading, measure};
use crate::sh::{Cmd, demand, print, write};
use crate::tools::Tools;

/// Specs of 1,250 networks, each with its group, subnet and rules, and as many buckets.
fn specs() -> String {
    let of = |n: usize| {
        format!(
            "kind: Network\nmetadata: {{ name: n{n} }}\nspec: {{ class: openstack, cidr: 10.0.0.0/16, ingress: [{{ protocol: tcp, from: 0.0.0.0/0, ports: 80 }}, {{ protocol: tcp, from: 0.0.0.0/0, ports: 443 }}, {{ protocol: icmp, from: 0.0.0.0/0 }}] }}\n---\nkind: Bucket\nmetadata: {{ name: b{n} }}\nspec: {{ class: openstack }}\n---\n"
        )
    };
    (0..1_250).map(of).collect()
}

const PLATFORM: &str = "[platform]\nname = \"big\"\n[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"machines\"\nnodes = \"nodes\"\n";
const PYTHON: &str = "import json, sys\nread = json.load(open(sys.argv[1]))\njson.dump(read, open(sys.argv[2], 'w'), indent=2)\n";

/// Measures and prints a table.
pub(super) fn run(here: &Path, tools: &Tools, rebuild: &Path, rounds: usize) -> Result<()> {
    let platform = here.join("big");
    std::fs::create_dir_all(platform.join("nodes")).context("cannot make a platform")?;
    write(&platform.join("rebuild.toml"), PLATFORM)?;
    write(&platform.join("nodes/all.yaml"), &specs())?;
    let python = demand(
        "python3",
        "its JSON is what is compared with",
        "install Python 3.9 or newer",
    )?;
    let module = platform.join("out/1/machines");
    let document = module.join("openstack.tf.json");
    let tofu = |args: &[&str]| {
        Cmd::new(&tools.tofu.path)
            .args(args.iter().copied())
            .env("TF_CLI_CONFIG_FILE", &tools.cli_config)
            .env("CHECKPOINT_DISABLE", "1")
            .current_dir(&module)
    };
    let mut readings: [Vec<Reading>; 3] = Default::default();
    for round in 0..rounds {
        // Each time everything is written anew.
        let _ = std::fs::remove_dir_all(platform.join("out"));
        let render = Cmd::new(rebuild)
            .args(["render", "--out", "out"])
            .current_dir(&platform);
        readings[0].push(measure(render)?);
        let rewrite = Cmd::new(&python)
            .args(["-c", PYTHON])
            .arg(&document)
            .arg(here.join("rewritten.json"));
        readings[1].push(measure(rewrite)?);
        if round == 0 {
            tofu(&["init", "-no-color"]).read()?;
            readings[2].push(measure(tofu(&["validate", "-no-color"]))?);
        }
    }
    print("\n10,000 resources; medians, seconds, MiB for the peak")?;
    for (name, readings) in ["rebuild render", "python json", "tofu validate"]
        .iter()
        .zip(&readings)
    {
        print(&format!(
            "{name:<15} {:>7.2} wall {:>7.2} own cpu {:>7.0} peak",
            median(readings, |r| r.wall),
            median(readings, |r| r.own),
            median(readings, |r| r.peak as f64) / 1024.0,
        ))?;
    }
    Ok(())
}
