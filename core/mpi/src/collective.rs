//! From a collective call to a running schedule (chapter 6): the plan, its cache, its number.

use crate::comm::{Comm, Everyone};
use crate::group::Group;
use crate::process::Process;
use crate::request::{COLLECTIVE, Operation};
use std::sync::Arc;
use weft_coll::{Call, Model, Schedule};
use weft_engine::{Arguments, Channel, PeerMap, Reduction, RequestId, ScheduleRun};
use weft_types::{Error, ErrorClass, Handle, PeerId, Rank, Result};

impl PeerMap for Group {
    #[inline]
    fn peer(&self, rank: Rank) -> PeerId {
        Group::peer(self, rank)
    }
}

/// Schedules that a communicator keeps for the next call of the same kind.
#[derive(Debug, Default)]
pub struct Plans {
    kept: Vec<(Call<'static>, Arc<Schedule>)>,
    oldest: usize,
}

/// Programs repeat few different calls; a plan costs microseconds, a kept one a comparison.
const KEPT: usize = 16;

impl Plans {
    /// The schedule of a call, made or found.
    fn get(&mut self, call: &Call<'_>, group: weft_coll::Group, model: &Model) -> Arc<Schedule> {
        let Some(call) = without_arrays(call) else {
            return Arc::new(weft_coll::plan(call, group, model));
        };
        if let Some((_, schedule)) = self.kept.iter().find(|(kept, _)| *kept == call) {
            return Arc::clone(schedule);
        }
        let schedule = Arc::new(weft_coll::plan(&call, group, model));
        let entry = (call, Arc::clone(&schedule));
        if self.kept.len() < KEPT {
            self.kept.push(entry);
        } else {
            self.kept[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % KEPT;
        }
        schedule
    }
}

/// The call, when it has no arrays that a key would have to own.
fn without_arrays(call: &Call<'_>) -> Option<Call<'static>> {
    Some(match *call {
        Call::Barrier => Call::Barrier,
        Call::Bcast { root, bytes } => Call::Bcast { root, bytes },
        Call::Gather { root, bytes, in_place } => Call::Gather { root, bytes, in_place },
        Call::Scatter { root, bytes, in_place } => Call::Scatter { root, bytes, in_place },
        Call::Allgather { bytes, in_place } => Call::Allgather { bytes, in_place },
        Call::Alltoall { bytes, in_place } => Call::Alltoall { bytes, in_place },
        Call::Reduce { root, vector, in_place } => Call::Reduce { root, vector, in_place },
        Call::Allreduce { vector, in_place } => Call::Allreduce { vector, in_place },
        Call::Scan { vector, in_place } => Call::Scan { vector, in_place },
        Call::Exscan { vector, in_place } => Call::Exscan { vector, in_place },
        Call::Gatherv { .. }
        | Call::Scatterv { .. }
        | Call::Allgatherv { .. }
        | Call::Alltoallv { .. }
        | Call::Alltoallw { .. }
        | Call::ReduceScatter { .. } => return None,
    })
}

impl Process {
    /// What the cost formulas assume of this machine; the same at all ranks, because the launcher tells all the same.
    pub(crate) fn model(&self) -> Model {
        let ranks = self.job.local_ranks.len() as f64;
        Model { ranks_per_core: ranks / self.job.cores.max(1) as f64, ..Model::default() }
    }

    /// Starts a collective on an intracommunicator. Local (section 2.4.1).
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle, `MPI_ERR_UNSUPPORTED_OPERATION` for an intercommunicator, `MPI_ERR_NO_MEM`,
    /// `MPI_ERR_COUNT` as [`ScheduleRun::new`].
    pub fn start_collective(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        if *call != Call::Barrier {
            self.comms.get(comm)?.check_collective()?;
        }
        self.start_on_everyone(comm, call, arguments, reduction)
    }

    /// Starts a collective over all processes of a communicator, both groups of an intercommunicator. Local.
    ///
    /// # Errors
    /// As [`Process::start_collective`].
    pub fn start_on_everyone(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        let model = self.model();
        let comm = self.comms.get_mut(comm)?;
        let everyone = comm.everyone();
        let group = weft_coll::Group { rank: everyone.place.0, size: everyone.size };
        let schedule = comm.plans.get(call, group, &model);
        let run = comm.bind(everyone, schedule, arguments, reduction, Numbers::Once)?;
        let (owner, lane) = (comm.handle.0 | COLLECTIVE, comm.lane);
        self.start_run(run, owner, lane)
    }

    /// Keeps a collective on an intracommunicator as a persistent request (section 6.13).
    ///
    /// # Errors
    /// As [`Process::start_collective`] and [`Process::keep_run`].
    pub fn keep_collective(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<Handle> {
        let model = self.model();
        let of = self.comms.get_mut(comm)?;
        if *call != Call::Barrier {
            of.check_collective()?;
        }
        let everyone = of.everyone();
        let group = weft_coll::Group { rank: everyone.place.0, size: everyone.size };
        let schedule = of.plans.get(call, group, &model);
        let run = of.bind(everyone, schedule, arguments, reduction, Numbers::Persistent)?;
        self.keep_run(run, comm)
    }

    /// Makes a persistent request of a run. Its number is that of no other request alive: numbers come round again, and an early
    /// request may still be started at any time.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` when the number is in use, as [`crate::table::Table::insert`].
    pub(crate) fn keep_run(&mut self, run: ScheduleRun, comm: Handle) -> Result<Handle> {
        let of = self.comms.get(comm)?;
        if of.persistent_collectives > weft_coll::SEQUENCES && self.requests.keeps_number(comm, &run) {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "{} persistent collective operations were made on {} since one that is not freed yet; make new ones on a \
                     duplicate of it (MPI_Comm_dup)",
                    weft_coll::SEQUENCES,
                    of.display_name()
                ),
            ));
        }
        self.persistent(Operation::Collective(run.keep()), comm)
    }

    pub(crate) fn start_run(&mut self, run: ScheduleRun, owner: u32, lane: u32) -> Result<RequestId> {
        self.on_lane(lane, |engine| {
            let request = engine.start_schedule(run)?;
            engine.tag_request(request, owner);
            Ok(request.in_lane(lane))
        })
    }
}

/// From which of a communicator's two counters a collective takes its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Of collectives that run once.
    Once,
    /// Of persistent ones, which may be started in any order.
    Persistent,
}

impl Comm {
    /// Binds a schedule to memory and to the communicator's next number.
    ///
    /// # Errors
    /// As [`ScheduleRun::new`].
    pub(crate) fn bind(
        &mut self,
        everyone: Everyone,
        schedule: Arc<Schedule>,
        arguments: Arguments,
        reduction: Option<Reduction>,
        numbers: Numbers,
    ) -> Result<ScheduleRun> {
        let persistent = numbers == Numbers::Persistent;
        let sequence = if persistent { self.persistent_collectives } else { self.collectives };
        let Everyone { peers, place, .. } = everyone;
        let context = self.context.collective();
        let channel = Channel { context, rank: place, peers, sequence, persistent };
        let run = ScheduleRun::new(schedule, arguments, reduction, channel)?;
        match numbers {
            Numbers::Once => self.collectives = sequence.wrapping_add(1),
            Numbers::Persistent => self.persistent_collectives = sequence.wrapping_add(1),
        }
        Ok(run)
    }
}

impl Comm {
    /// Refuses an intercommunicator.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub fn check_collective(&self) -> Result<()> {
        match self.inter {
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorClass::UNSUPPORTED_OPERATION,
                format!(
                    "{} is an intercommunicator, on which this version of Weft has no collective operation but MPI_Barrier; merge its groups \
                     (MPI_Intercomm_merge) or use point-to-point messages",
                    self.display_name()
                ),
            )),
        }
    }
}
