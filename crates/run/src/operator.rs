//! The engine's operator: the person or job at the other end of the call.

use std::sync::Arc;

use phase_engine::{AfterFailure, Answer, Operator, PhaseFailure, PhaseSummary, Stop};
use record::{RecordView, Time};

use crate::bench::Bench;
use crate::library::Source;
use crate::stop::StopLevel;
use crate::ui::{self, Checkpoint, Notice};

/// Asks and tells through the call's `Ui`.
pub(crate) struct Watch<'b, 'm> {
    pub(crate) bench: &'b Bench<'m>,
    pub(crate) today: Option<Arc<Source>>,
    pub(crate) view: RecordView,
}

impl Watch<'_, '_> {
    fn checkpoint_of(&self, summary: &PhaseSummary) -> Checkpoint {
        let record = self.view.get();
        let phase = record
            .as_ref()
            .and_then(|record| record.phase(&summary.phase));
        let now = Time::from((self.bench.machine.now)());
        let title = self
            .today
            .as_ref()
            .and_then(|today| today.platform.phase(&summary.phase))
            .map(|phase| phase.title.clone())
            .unwrap_or_default();
        let made = phase
            .map(|phase| {
                phase
                    .made
                    .iter()
                    .flat_map(|(action, types)| {
                        types
                            .iter()
                            .map(move |(kind, n)| format!("{n} {kind} {}", ui::done(action)))
                    })
                    .collect()
            })
            .unwrap_or_default();
        Checkpoint {
            phase: summary.phase.to_string(),
            title,
            made,
            phase_seconds: phase.map_or(0.0, |phase| phase.apply_seconds + phase.verify_seconds),
            run_seconds: record
                .as_ref()
                .map_or(0.0, |record| now.seconds_since(record.first_start)),
            budget_left_seconds: record.as_ref().and_then(|record| record.budget_left(now)),
            next: summary.next.as_ref().map(ToString::to_string),
        }
    }
}

impl Operator for Watch<'_, '_> {
    fn stop(&self) -> Stop {
        match self.bench.stop.level() {
            StopLevel::None => Stop::None,
            StopLevel::AfterPhase => Stop::AfterPhase,
            StopLevel::Gentle | StopLevel::Interrupt | StopLevel::Kill => Stop::Gentle,
        }
    }

    fn summary(&mut self, summary: &PhaseSummary) {
        self.bench.ui.tell(&Notice::Verified {
            summary: self.checkpoint_of(summary),
        });
    }

    fn checkpoint(&mut self, summary: &PhaseSummary) -> Answer {
        match self.bench.ui.at_checkpoint(&self.checkpoint_of(summary)) {
            ui::Answer::Continue => Answer::Continue,
            ui::Answer::Pause => Answer::Pause,
            ui::Answer::TearDown => Answer::TearDown,
        }
    }

    fn failed(&mut self, failures: &[PhaseFailure]) -> AfterFailure {
        let target = &self.bench.target;
        // Nobody can decide on a teardown without knowing what went wrong.
        for PhaseFailure { failure, .. } in failures {
            let mut lines = vec![failure.what.clone()];
            lines.extend(
                failure
                    .causes
                    .iter()
                    .map(|cause| format!("caused by: {cause}")),
            );
            lines.extend(
                failure
                    .log
                    .iter()
                    .map(|log| format!("log: {}", log.display())),
            );
            self.bench.ui.tell(&Notice::Warning {
                message: lines.join("\n"),
                hint: None,
            });
        }
        if self
            .bench
            .ui
            .tear_down_after_failure(target.name.as_str(), target.protected)
        {
            AfterFailure::TearDown
        } else {
            AfterFailure::Leave
        }
    }
}
