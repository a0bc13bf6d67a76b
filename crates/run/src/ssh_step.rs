//! An `ssh` step: the hosts of an output are awaited, and their keys pinned.

use std::collections::BTreeMap;
use std::time::Instant;

use handoff::Limits;
use phase_engine::{Failure, StepId};
use platform::{SshStep, StepDef};
use record::Detail;
use serde_json::Value;

use crate::bench::Bench;
use crate::handoff_step::Act;
use crate::standing::Standing;

impl Bench<'_> {
    /// Awaits the hosts; says in a line what was done.
    pub(crate) fn await_hosts(
        &self,
        step: &StepId,
        def: &StepDef,
        ssh: &SshStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<(Detail, String), Failure> {
        let act = Act {
            step,
            log: self.log(step, "apply"),
            deadline: def.timeout.map(|timeout| Instant::now() + timeout),
        };
        let (fleet, is_sensitive) = self.fleet(step, &ssh.hosts, standing, values)?;
        let limits = Limits {
            deadline: ssh.timeout,
            ..Limits::default()
        };
        let (_, reached) = self.onboard(&act, &ssh.hosts, &fleet, standing, limits)?;
        let n = reached.len();
        let detail = self.pins_detail(&ssh.hosts, is_sensitive)?;
        Ok((
            detail,
            format!("{n} {} reached", if n == 1 { "host" } else { "hosts" }),
        ))
    }

    /// Looks whether every host is there, under its key.
    pub(crate) fn verify_ssh(
        &self,
        step: &StepId,
        ssh: &SshStep,
        standing: &Standing,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), Failure> {
        let act = Act {
            step,
            log: self.log(step, "verify"),
            deadline: None,
        };
        let (fleet, _) = self.fleet(step, &ssh.hosts, standing, values)?;
        self.look_at_hosts(&act, &ssh.hosts, &fleet, standing)?;
        Ok(())
    }
}
