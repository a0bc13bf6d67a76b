//! The plan guard: what a plan would lose, and whether anybody agreed to that; pure.

use std::collections::BTreeSet;

/// One planned change, as far as the guard looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// The resource instance.
    pub(crate) address: String,
    /// OpenTofu's word: `create`, `update`, `replace`, `delete`, `forget`, …
    pub(crate) action: String,
    /// An apply that was cut marked it for replacement; what an apply that failed by itself marked is no loss.
    pub(crate) tainted: bool,
}

impl Planned {
    fn is_lost(&self) -> bool {
        matches!(self.action.as_str(), "delete" | "replace")
    }
}

/// What a step's plan may lose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The target's name, where it is protected.
    pub(crate) protected: Option<String>,
    /// The most objects that a plan of this phase may destroy or replace.
    pub(crate) max_destroy: Option<u32>,
    /// `--allow-destroy` names the phase.
    pub(crate) allowed: bool,
    /// Addresses that `--replace` names.
    pub(crate) replace: BTreeSet<String>,
}

/// What the guard says to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is lost that nobody agreed to.
    Pass,
    /// Somebody must agree first.
    Stop {
        /// Why.
        why: String,
        /// What would be lost.
        addresses: Vec<String>,
    },
}

/// Judges a plan.
pub(crate) fn judge(plan: &[Planned], rules: &Rules) -> Verdict {
    let lost: Vec<&Planned> = plan.iter().filter(|change| change.is_lost()).collect();
    let stop = |why: String, addresses: Vec<String>| Verdict::Stop { why, addresses };
    let tainted: Vec<String> = lost
        .iter()
        .filter(|change| change.tainted && !rules.replace.contains(&change.address))
        .map(|change| change.address.clone())
        .collect();
    if !tainted.is_empty() {
        let why = format!(
            "what an interrupt tainted would be replaced: {}",
            list(&tainted)
        );
        return stop(why, tainted);
    }
    let unagreed: Vec<String> = lost
        .iter()
        .filter(|change| !rules.replace.contains(&change.address))
        .map(|change| change.address.clone())
        .collect();
    if let (Some(target), false, false) = (&rules.protected, rules.allowed, unagreed.is_empty()) {
        let why = format!(
            "its plan destroys or replaces {}, and target `{target}` is protected",
            list(&unagreed)
        );
        return stop(why, unagreed);
    }
    match rules.max_destroy {
        Some(max) if unagreed.len() > max as usize && !rules.allowed => {
            let why = format!(
                "its plan destroys or replaces {} objects, and the phase allows {max}: {}",
                unagreed.len(),
                list(&unagreed)
            );
            stop(why, unagreed)
        }
        _ => Verdict::Pass,
    }
}

fn list(addresses: &[String]) -> String {
    addresses
        .iter()
        .map(|address| format!("`{address}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(address: &str, action: &str) -> Planned {
        Planned {
            address: address.to_owned(),
            action: action.to_owned(),
            tainted: false,
        }
    }

    fn stops(plan: &[Planned], rules: &Rules) -> Option<Vec<String>> {
        match judge(plan, rules) {
            Verdict::Pass => None,
            Verdict::Stop { addresses, .. } => Some(addresses),
        }
    }

    fn protected() -> Rules {
        Rules {
            protected: Some("live".to_owned()),
            ..Rules::default()
        }
    }

    #[test]
    fn on_a_protected_target_every_loss_stops_and_nothing_else() {
        for (action, lost) in [
            ("create", false),
            ("update", false),
            ("read", false),
            ("noop", false),
            ("move", false),
            ("import", false),
            ("forget", false),
            ("delete", true),
            ("replace", true),
        ] {
            let plan = [change("a", action)];
            assert_eq!(stops(&plan, &protected()).is_some(), lost, "{action}");
            assert_eq!(stops(&plan, &Rules::default()), None, "{action}");
            let allowed = Rules {
                allowed: true,
                ..protected()
            };
            assert_eq!(stops(&plan, &allowed), None, "{action}");
        }
    }

    #[test]
    fn what_was_tainted_stops_on_every_target_until_its_address_is_named() {
        let tainted = Planned {
            tainted: true,
            ..change("a", "replace")
        };
        let plan = [tainted, change("b", "create")];
        assert_eq!(stops(&plan, &Rules::default()), Some(vec!["a".to_owned()]));
        let allowed = Rules {
            allowed: true,
            ..Rules::default()
        };
        assert!(stops(&plan, &allowed).is_some(), "a phase names no address");
        let named = Rules {
            replace: BTreeSet::from(["a".to_owned()]),
            ..protected()
        };
        assert_eq!(stops(&plan, &named), None);
    }

    #[test]
    fn a_phase_bounds_what_one_plan_may_lose() {
        let bounded = Rules {
            max_destroy: Some(1),
            ..Rules::default()
        };
        let plan = [change("a", "delete"), change("b", "replace")];
        assert_eq!(stops(&plan[..1], &bounded), None);
        assert_eq!(stops(&plan, &bounded).map(|lost| lost.len()), Some(2));
        let none = Rules {
            max_destroy: Some(0),
            ..Rules::default()
        };
        assert!(stops(&plan[..1], &none).is_some());
    }
}
