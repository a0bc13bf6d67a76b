//! The phases of a platform in order, and what of a phase may run at once.

use std::collections::BTreeSet;

use crate::{PhaseId, StepId};

/// Why phases and steps do not make a sequence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// Two phases with one id.
    #[error("phase `{phase}` is there twice")]
    PhaseTwice {
        /// The id that is not unique.
        phase: PhaseId,
    },
    /// Two steps with one id.
    #[error("step `{step}` is there twice")]
    StepTwice {
        /// The id that is not unique.
        step: StepId,
    },
    /// A step stands under a phase that its id does not name.
    #[error("step `{step}` stands in phase `{phase}`")]
    Misplaced {
        /// The step.
        step: StepId,
        /// The phase that holds it.
        phase: PhaseId,
    },
    /// A step refers to one that does not come before it.
    #[error("step `{step}` refers to `{to}`, which does not come before it")]
    NotBefore {
        /// The step that refers.
        step: StepId,
        /// The step that it refers to, or is contained in.
        to: StepId,
    },
    /// A phase other than the first is said to provide the state store.
    #[error("phase `{phase}` provides the state store, but it is not the first")]
    StateNotFirst {
        /// The phase.
        phase: PhaseId,
    },
    /// A phase comes after a canary.
    #[error("phase `{phase}` comes after canary phase `{canary}`")]
    AfterCanary {
        /// The phase that comes after.
        phase: PhaseId,
        /// The canary, which must be last.
        canary: PhaseId,
    },
}

/// What the engine knows of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepShape {
    /// The step's id.
    pub id: StepId,
    /// The steps that must have ended before it: references, `hosts` and `after`.
    pub refers_to: BTreeSet<StepId>,
    /// The step inside whose things this one lives.
    pub contained_in: Option<StepId>,
}

/// What the engine knows of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// The phase's id.
    pub id: PhaseId,
    /// A run is only finished when the canary, which comes last, is verified.
    pub canary: bool,
    /// The phase makes the store that the target's states live in.
    pub provides_state: bool,
    /// Steps that don't refer to each other run at once.
    pub parallel: bool,
    /// The steps, in order.
    pub steps: Vec<StepShape>,
}

impl Phase {
    /// Gives the ids of the steps, in order.
    pub fn step_ids(&self) -> Vec<StepId> {
        self.steps.iter().map(|step| step.id.clone()).collect()
    }

    /// Gives the steps of this phase that must have ended before the step may begin.
    ///
    /// Without `parallel` that is every step before it; with it, those that it refers to.
    pub fn waits_for(&self, step: &StepId) -> BTreeSet<StepId> {
        let before = self.steps.iter().take_while(|other| other.id != *step);
        let own = self.steps.iter().find(|other| other.id == *step);
        before
            .filter(|other| {
                !self.parallel || own.is_some_and(|own| own.refers_to.contains(&other.id))
            })
            .map(|other| other.id.clone())
            .collect()
    }
}

/// The phases of a platform, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    phases: Vec<Phase>,
}

impl Sequence {
    /// Makes a sequence of phases that hold together, or says why they don't.
    pub fn new(phases: Vec<Phase>) -> Result<Self, SequenceError> {
        let mut ids = BTreeSet::new();
        let mut before: BTreeSet<StepId> = BTreeSet::new();
        let mut canary: Option<&PhaseId> = None;
        for (index, phase) in phases.iter().enumerate() {
            if !ids.insert(&phase.id) {
                return Err(SequenceError::PhaseTwice {
                    phase: phase.id.clone(),
                });
            }
            if phase.provides_state && index > 0 {
                return Err(SequenceError::StateNotFirst {
                    phase: phase.id.clone(),
                });
            }
            match canary {
                Some(canary) if !phase.canary => {
                    return Err(SequenceError::AfterCanary {
                        phase: phase.id.clone(),
                        canary: canary.clone(),
                    });
                }
                _ if phase.canary => canary = Some(&phase.id),
                _ => {}
            }
            for step in &phase.steps {
                if step.id.phase != phase.id {
                    return Err(SequenceError::Misplaced {
                        step: step.id.clone(),
                        phase: phase.id.clone(),
                    });
                }
                let needs = step.refers_to.iter().chain(&step.contained_in);
                if let Some(to) = needs.into_iter().find(|to| !before.contains(to)) {
                    return Err(SequenceError::NotBefore {
                        step: step.id.clone(),
                        to: to.clone(),
                    });
                }
                if !before.insert(step.id.clone()) {
                    return Err(SequenceError::StepTwice {
                        step: step.id.clone(),
                    });
                }
            }
        }
        Ok(Self { phases })
    }

    /// Gives the phases, in order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Finds a phase.
    pub fn phase(&self, id: &PhaseId) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.id == *id)
    }

    /// Finds a step.
    pub fn step(&self, id: &StepId) -> Option<&StepShape> {
        self.steps().find(|step| step.id == *id)
    }

    /// Gives every step, in order.
    pub fn steps(&self) -> impl Iterator<Item = &StepShape> {
        self.phases.iter().flat_map(|phase| &phase.steps)
    }

    /// Gives a step's place among all steps.
    pub fn position(&self, id: &StepId) -> Option<usize> {
        self.steps().position(|step| step.id == *id)
    }

    /// Gives the first phase, which goes last in a teardown.
    pub fn first(&self) -> Option<&PhaseId> {
        self.phases.first().map(|phase| &phase.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str, refers_to: &[&str]) -> StepShape {
        StepShape {
            id: id.parse().unwrap(),
            refers_to: refers_to.iter().map(|id| id.parse().unwrap()).collect(),
            contained_in: None,
        }
    }

    fn phase(id: &str, parallel: bool, steps: Vec<StepShape>) -> Phase {
        Phase {
            id: id.parse().unwrap(),
            canary: false,
            provides_state: false,
            parallel,
            steps,
        }
    }

    fn waits(phase: &Phase) -> Vec<String> {
        let line = |step: &StepShape| {
            let for_what: Vec<_> = phase
                .waits_for(&step.id)
                .iter()
                .map(ToString::to_string)
                .collect();
            format!("{}: {}", step.id, for_what.join(" "))
        };
        phase.steps.iter().map(line).collect()
    }

    #[test]
    fn steps_run_in_order() {
        let phase = phase(
            "1",
            false,
            vec![step("1.b", &[]), step("1.a", &[]), step("1.c", &[])],
        );
        assert_eq!(waits(&phase), ["1.b: ", "1.a: 1.b", "1.c: 1.a 1.b"]);
    }

    #[test]
    fn a_parallel_phase_runs_at_once_what_does_not_refer_to_each_other() {
        let phase = phase(
            "1",
            true,
            vec![
                step("1.a", &["0.x"]),
                step("1.b", &["1.a"]),
                step("1.c", &["1.b", "0.x"]),
            ],
        );
        assert_eq!(waits(&phase), ["1.a: ", "1.b: 1.a", "1.c: 1.b"]);
    }

    #[test]
    fn a_step_may_only_refer_to_steps_before_it() {
        let make = |steps| Sequence::new(vec![phase("1", true, steps)]);
        assert!(make(vec![step("1.a", &[]), step("1.b", &["1.a"])]).is_ok());
        let wrong = make(vec![step("1.a", &["1.b"]), step("1.b", &[])]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "step `1.a` refers to `1.b`, which does not come before it"
        );
        assert!(make(vec![step("1.a", &["1.a"])]).is_err());
        let mut inside = step("1.a", &[]);
        inside.contained_in = Some("1.z".parse().unwrap());
        assert!(make(vec![inside]).is_err());
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let twice = Sequence::new(vec![phase("1", false, vec![]), phase("1", false, vec![])]);
        assert!(matches!(twice, Err(SequenceError::PhaseTwice { .. })));
        let twice = Sequence::new(vec![phase(
            "1",
            false,
            vec![step("1.a", &[]), step("1.a", &[])],
        )]);
        assert!(matches!(twice, Err(SequenceError::StepTwice { .. })));
        let misplaced = Sequence::new(vec![phase("1", false, vec![step("2.a", &[])])]);
        assert!(matches!(misplaced, Err(SequenceError::Misplaced { .. })));
        let mut late = phase("1", false, vec![]);
        late.provides_state = true;
        let late = Sequence::new(vec![phase("0", false, vec![]), late]);
        assert!(matches!(late, Err(SequenceError::StateNotFirst { .. })));
    }

    #[test]
    fn the_canary_is_last() {
        let mut canary = phase("4", false, vec![]);
        canary.canary = true;
        assert!(Sequence::new(vec![phase("3", false, vec![]), canary.clone()]).is_ok());
        let wrong = Sequence::new(vec![canary, phase("3", false, vec![])]).unwrap_err();
        assert_eq!(wrong.to_string(), "phase `3` comes after canary phase `4`");
    }

    #[test]
    fn a_sequence_is_asked_by_id() {
        let sequence = Sequence::new(vec![
            phase("0", false, vec![step("0.a", &[])]),
            phase("1", false, vec![step("1.b", &["0.a"])]),
        ])
        .unwrap();
        assert_eq!(sequence.first().unwrap().as_str(), "0");
        assert_eq!(sequence.position(&"1.b".parse().unwrap()), Some(1));
        assert_eq!(sequence.position(&"1.x".parse().unwrap()), None);
        assert!(sequence.step(&"0.a".parse().unwrap()).is_some());
        let ids = sequence.phase(&"1".parse().unwrap()).unwrap().step_ids();
        assert_eq!(ids, ["1.b".parse().unwrap()]);
        assert!(Sequence::default().first().is_none());
    }
}
