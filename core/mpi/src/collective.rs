//! From a collective call to a running schedule (chapter 6): the plan, its cache, its number.

use crate::comm::Comm;
use crate::group::Group;
use crate::process::Process;
use crate::request::COLLECTIVE;
use std::sync::Arc;
use weft_coll::{Call, Model, Schedule};
use weft_engine::{Arguments, Channel, PeerMap, Reduction, RequestId, ScheduleRun};
use weft_types::{ContextId, Handle, PeerId, Rank, Result};

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

    /// Starts a collective on a communicator. Local (section 2.4.1).
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle, `MPI_ERR_NO_MEM`, `MPI_ERR_COUNT` as [`ScheduleRun::new`].
    pub fn start_collective(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        let model = self.model();
        let Comm { rank, size, group, context, collectives, plans, handle, lane, .. } =
            self.comms.get_mut(comm)?;
        let schedule = plans.get(call, weft_coll::Group { rank: rank.0, size: *size }, &model);
        let channel = Channel {
            context: context.collective(),
            rank: *rank,
            peers: Arc::clone(group) as Arc<dyn PeerMap>,
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

    /// Starts a collective of some processes that have no communicator of their own yet, on a parent's channel. Calls are told
    /// apart by `number`; those with one number run one after another.
    ///
    /// # Errors
    /// As [`Process::start_collective`].
    pub(crate) fn start_among(
        &mut self,
        group: &Arc<Group>,
        parent: ContextId,
        number: u32,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Result<RequestId> {
        let me = PeerId(self.job.rank);
        let rank = group.rank_of(me).expect("only members take part");
        let place = weft_coll::Group { rank: rank.0, size: group.size() };
        let schedule = Arc::new(weft_coll::plan(call, place, &self.model()));
        let channel = Channel {
            context: parent.collective(),
            rank,
            peers: Arc::clone(group) as Arc<dyn PeerMap>,
            sequence: number,
            persistent: true,
        };
        let run = ScheduleRun::new(schedule, arguments, reduction, channel)?;
        self.engine.start_schedule(run)
    }
}
