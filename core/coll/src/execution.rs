//! Running a schedule: which steps may start, given which are complete. Pure; whoever drives it does the steps.

use crate::schedule::{Schedule, StepId};

/// The state of one run of a schedule. It can be reset and used again without allocating.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    waits_for: Vec<u32>,
    ready: Vec<StepId>,
    /// Index of the first entry of `ready` that has not been handed out.
    head: usize,
    unfinished: usize,
}

impl Execution {
    /// A run of `schedule` that has done nothing yet.
    pub fn new(schedule: &Schedule) -> Execution {
        let mut execution = Execution::default();
        execution.reset(schedule);
        execution
    }

    /// Begins again, perhaps with another schedule.
    pub fn reset(&mut self, schedule: &Schedule) {
        self.waits_for.clear();
        self.waits_for.extend_from_slice(schedule.waits_for());
        self.ready.clear();
        self.head = 0;
        self.unfinished = schedule.steps().len();
        let first = (0..).zip(schedule.waits_for()).filter(|&(_, &waits)| waits == 0).map(|(step, _)| step);
        self.ready.extend(first);
    }

    /// The next step that may start; each is handed out once.
    pub fn next_ready(&mut self) -> Option<StepId> {
        let step = *self.ready.get(self.head)?;
        self.head += 1;
        if self.head == self.ready.len() {
            self.ready.clear();
            self.head = 0;
        }
        Some(step)
    }

    /// `step`, handed out before, is complete.
    pub fn completed(&mut self, schedule: &Schedule, step: StepId) {
        self.unfinished -= 1;
        for &next in schedule.successors(step) {
            let waits = &mut self.waits_for[next as usize];
            *waits -= 1;
            if *waits == 0 {
                self.ready.push(next);
            }
        }
    }

    /// The steps that were not handed out.
    pub fn not_started(&self) -> impl Iterator<Item = StepId> + '_ {
        let waiting = (0..).zip(&self.waits_for).filter(|&(_, &waits)| waits > 0).map(|(step, _)| step);
        waiting.chain(self.ready[self.head..].iter().copied())
    }

    /// Whether all steps are complete.
    pub fn is_finished(&self) -> bool {
        self.unfinished == 0
    }
}
