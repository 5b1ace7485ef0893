//! A schedule bound to memory and to a communicator's channel: what a run is made of, of this run alone or of many.

use super::offload::Lowered;
use super::remote::Lent;
use super::{Arguments, Channel, Reduction};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use weft_coll::Schedule;
use weft_datatype::{Memory, ScratchPool};
use weft_types::{Error, Result, Tag};

/// A schedule bound to memory and communicator, ready to start.
#[derive(Debug)]
pub struct ScheduleRun {
    pub(super) run: Run,
    pub(super) then: Option<Box<dyn Then>>,
}

/// A schedule bound for many runs: what a persistent collective keeps. Starting it builds nothing.
#[derive(Clone, Debug)]
pub struct KeptRun(pub(super) Arc<Bound>);

/// What follows on a run that ended well, under the same request.
pub trait Then: Send + std::fmt::Debug {
    /// The next run; `None` when the collective is over. Called while the engine is held.
    ///
    /// # Errors
    /// What becomes the request's error.
    fn next(self: Box<Self>) -> Result<Option<ScheduleRun>>;
}

/// What a run is made of.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) schedule: Arc<Schedule>,
    pub(super) arguments: Arguments,
    pub(super) reduction: Option<Reduction>,
    pub(super) channel: Channel,
    /// What the device runs, once it was handed over.
    pub(super) lowered: OnceLock<Arc<Lowered>>,
    /// What is registered for others between the runs.
    pub(super) lent: Lent,
}

/// A bound schedule, of this run alone or of many.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most runs are their own, and a start takes no memory")]
pub(super) enum Run {
    Own(Bound),
    Kept(Arc<Bound>),
    /// Of a run that is over.
    Over,
}

impl Deref for Run {
    type Target = Bound;

    #[inline]
    fn deref(&self) -> &Bound {
        match self {
            Run::Own(bound) => bound,
            Run::Kept(bound) => bound,
            Run::Over => unreachable!("a run that is over has no steps left"),
        }
    }
}

impl ScheduleRun {
    /// Binds a schedule.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when send and receive argument are the same memory, `MPI_ERR_INTERN` when the schedule reduces
    /// and there is no `reduction`.
    pub fn new(
        schedule: Arc<Schedule>,
        arguments: Arguments,
        reduction: Option<Reduction>,
        channel: Channel,
    ) -> Result<ScheduleRun> {
        if reduction.is_none() && schedule.reduces() {
            return Err(Error::internal("a schedule that reduces was bound without an operation"));
        }
        arguments.send.check_distinct(&arguments.recv)?;
        Ok(ScheduleRun {
            run: Run::Own(Bound {
                schedule,
                arguments,
                reduction,
                channel,
                lowered: OnceLock::new(),
                lent: Lent::default(),
            }),
            then: None,
        })
    }

    /// Where its messages travel.
    pub fn channel(&self) -> &Channel {
        &self.run.channel
    }

    /// Lets something follow.
    #[must_use]
    pub fn then(self, then: Box<dyn Then>) -> ScheduleRun {
        ScheduleRun { then: Some(then), ..self }
    }

    /// Keeps the binding for many runs; nothing follows on these.
    pub fn keep(self) -> KeptRun {
        KeptRun(match self.run {
            Run::Own(bound) => Arc::new(bound),
            Run::Kept(bound) => bound,
            Run::Over => unreachable!("nobody holds a run that is over"),
        })
    }
}

impl KeptRun {
    /// Where its messages travel.
    pub fn channel(&self) -> &Channel {
        &self.0.channel
    }

    /// One run.
    pub fn run(&self) -> ScheduleRun {
        ScheduleRun { run: Run::Kept(Arc::clone(&self.0)), then: None }
    }
}

impl Bound {
    /// The scratch memory of one execution.
    pub(super) fn scratch(&self, pool: &mut ScratchPool, scratch: &mut Vec<Memory>) -> Result<()> {
        for need in self.schedule.scratch() {
            scratch.push(match (need.elements, &self.reduction) {
                (true, Some(reduction)) => {
                    let size = reduction.datatype.element_bytes().max(1) as u64;
                    pool.elements(&reduction.datatype, need.bytes / size)?
                }
                _ => pool.packed(need.bytes as usize),
            });
        }
        Ok(())
    }

    pub(super) fn tag(&self, channel: u16) -> Tag {
        self.channel.tag(channel)
    }
}
