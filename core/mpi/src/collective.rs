//! From a collective call to a running schedule (chapter 6): the plan, its cache, its number.

use crate::comm::{Comm, Everyone};
use crate::group::Group;
use crate::process::Process;
use crate::request::COLLECTIVE;
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
        // On several nodes each knows its own cores only, and ranks that choose different algorithms wait for ever.
        let alone = self.job.local_ranks.len() == self.job.size as usize;
        let ranks_per_core = if alone { ranks / self.job.cores.max(1) as f64 } else { 1.0 };
        Model { ranks_per_core, ..Model::default() }
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
        self.comms.get(comm)?.check_collective()?;
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
        let Everyone { peers, place, size } = comm.everyone();
        let Comm { context, collectives, plans, handle, lane, .. } = comm;
        let schedule = plans.get(call, weft_coll::Group { rank: place.0, size }, &model);
        let channel = Channel {
            context: context.collective(),
            rank: place,
            peers,
            sequence: *collectives,
            persistent: false,
        };
        let (owner, lane) = (handle.0 | COLLECTIVE, *lane);
        let run = ScheduleRun::new(schedule, arguments, reduction, channel)?;
        *collectives = collectives.wrapping_add(1);
        self.on_lane(lane, |engine| {
            let request = engine.start_schedule(run)?;
            engine.tag_request(request, owner);
            Ok(request.in_lane(lane))
        })
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
