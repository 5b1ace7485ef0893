//! Communicators and collectives of the programs, and which seeds are run.

use std::sync::Arc;
use weft_coll::registry::candidates;
use weft_coll::{Call, Group, Model, Vector};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{Arguments, Channel, Operation, PeerMap, Reduction, ScheduleRun};
use weft_types::{ContextId, PeerId, Rank, abi};

/// A communicator: its processes in the order of their ranks.
#[derive(Clone, Debug)]
pub(crate) struct Comm {
    pub(crate) context: ContextId,
    pub(crate) members: Vec<u32>,
}

impl PeerMap for Comm {
    fn peer(&self, rank: Rank) -> PeerId {
        PeerId(self.members[rank.0 as usize])
    }

    fn contains(&self, process: PeerId) -> bool {
        self.members.contains(&process.0)
    }
}

/// One collective of the program, the same at all members.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) comm: usize,
    pub(crate) kind: u64,
    pub(crate) count: u64,
    /// Which of the algorithms that can do it.
    pub(crate) algorithm: u64,
    /// The persistent collective that it starts.
    pub(crate) persistent: Option<usize>,
}

/// Kinds of collectives.
pub(crate) const KINDS: u64 = 5;

impl Action {
    fn call(&self) -> Call<'static> {
        let vector = Vector { count: self.count, element: 4, commutative: true };
        match self.kind {
            0 => Call::Barrier,
            1 => Call::Bcast { root: 0, bytes: 4 * self.count },
            2 => Call::Reduce { root: 0, vector, in_place: false },
            3 => Call::Allreduce { vector, in_place: false },
            _ => Call::Allgather { bytes: 4 * self.count, in_place: false },
        }
    }

    /// The run at one rank; `sequence`: its number on the communicator.
    pub(crate) fn bind(&self, comm: &Comm, rank: u32, sequence: u32) -> ScheduleRun {
        let int: Datatype = Datatype::predefined(abi::MPI_INT).unwrap().into();
        let size = comm.members.len() as u32;
        let (call, model) = (self.call(), Model { segment: Some(1000), window: Some(2), ..Model::default() });
        let able: Vec<_> = candidates(&call, Group { rank: 0, size }, &Model::default()).collect();
        let algorithm = able[self.algorithm as usize % able.len()];
        let schedule = algorithm.build(&call, Group { rank, size }, &model);
        let blocks = if self.kind == 4 { u64::from(size) } else { 1 };
        let memory = |count| Memory::scratch(&int, count).unwrap();
        let arguments = Arguments::new(memory(self.count), memory(blocks * self.count));
        let kernel = PredefinedOp::Sum.kernel(&int).unwrap();
        let reduction =
            Reduction { datatype: int, operation: Operation::Predefined(kernel), name: "MPI_SUM" };
        let channel = Channel {
            context: comm.context,
            rank: Rank(rank),
            peers: Arc::new(comm.clone()),
            sequence,
            persistent: self.persistent.is_some(),
            group: None,
        };
        ScheduleRun::new(Arc::new(schedule), arguments, Some(reduction), channel).unwrap()
    }
}

/// The seeds to run, and whether they are all that are run usually or more.
pub(crate) fn seeds(usually: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("WEFT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WEFT_SEEDS").unwrap_or(usually),
    }
}
