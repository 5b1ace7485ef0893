//! How the members of a communicator agree on memory for their cells: by messages, the least of what each says of it.

use super::{Agreement, Needed, OnNode, Without};
use crate::process::Process;
use std::cell::Cell;
use weft_boot::machine::{LiveSystem, allowed_cpus};
use weft_coll::{Call, Vector};
use weft_datatype::{Datatype, Memory, PredefinedOp};
use weft_engine::{Arguments, Begin, Operation, Reduction, RequestId, Rounds};
use weft_types::{Error, Handle, PeerId, Rank, Result, abi};

impl Process {
    /// Begins the agreement on memory, by messages: the least of what each member says of two blocks, where rank 0 says which
    /// they are, and the others 0 if they cannot reach them. The second one is that of nonblocking calls.
    ///
    /// # Errors
    /// As [`Process::start_collective`].
    pub fn agree_on_memory(&mut self, comm: Handle, needed: Needed) -> Result<Agreement> {
        let of = self.comms.get(comm)?;
        let (rank, size) = (of.rank.0, of.size);
        if let (Needed::Slots, OnNode::Ready(rounds) | OnNode::Ruled(rounds)) = (needed, &of.node.way) {
            // All have said so when they have agreed.
            let core = weft_place::topology::core_of(&LiveSystem, &allowed_cpus());
            rounds.cells_here().say_seat(core.map_or(0, |core| core as u32 + 1));
        }
        let blocks = match rank {
            _ if !self.engine.can_map_blocks() => [0; 2],
            0 if let Needed::Kept(request) = needed => self.take_to_keep(request, size),
            0 => {
                let cells = needed == Needed::Cells;
                let block = self.engine.take_block(size, !cells);
                [block, if cells && block != 0 { self.engine.take_block(size, false) } else { 0 }]
            }
            _ => [u64::MAX; 2],
        };
        let taken = if rank == 0 { blocks } else { [0; 2] };
        let begun = self.begin_agreement(comm, blocks);
        if begun.is_err() {
            taken
                .into_iter()
                .filter(|&taken| taken != 0)
                .for_each(|taken| self.engine.give_block_back(taken));
        }
        let (request, heard) = begun?;
        Ok(Agreement { comm, needed, request, heard, taken })
    }

    /// Says of two blocks what this member has to say; the request, and where its result comes.
    pub(super) fn begin_agreement(&mut self, comm: Handle, blocks: [u64; 2]) -> Result<(RequestId, Memory)> {
        let reduction = least()?;
        let (said, heard) =
            (Memory::scratch(&reduction.datatype, 2)?, Memory::scratch(&reduction.datatype, 2)?);
        said.recv_view(0, 0, 16).unpack(0, blocks.map(u64::to_ne_bytes).as_flattened());
        let call =
            Call::Allreduce { vector: Vector { count: 2, element: 8, commutative: true }, in_place: false };
        let arguments = Arguments::new(said, heard.clone());
        Ok((self.by_messages(comm, &call, arguments, Some(reduction))?, heard))
    }

    /// The agreement is over, well or not. The next calls of the communicator know what it came to, once
    /// [`Process::have_joined`] says so.
    pub fn agreed(&mut self, agreement: &Agreement, ended_well: bool) {
        let mut words = [[0; 8]; 2];
        if ended_well {
            agreement.heard.send_view(0, 0, 16).pack(0, words.as_flattened_mut());
        }
        let [block, later] = words.map(u64::from_ne_bytes);
        // Of an agreement that failed here the others may know the result.
        for unused in agreement.taken.into_iter().filter(|&taken| ended_well && taken != 0) {
            if ![block, later].contains(&unused) {
                self.engine.give_block_back(unused);
            }
        }
        if let Needed::Kept(request) = agreement.needed {
            self.agreed_to_keep(agreement.comm, request, [block, later]);
            return;
        }
        let Ok(of) = self.comms.get_mut(agreement.comm) else { return };
        let number = of.collectives.get();
        // The others may have heard of memory though this member did not, or cannot use it: what they do in it must fail.
        let alone = block != 0 || !ended_well;
        let lost = self.engine.lost_among(of.group.peers());
        let leave = |rounds: &mut Rounds| match lost {
            Some(lost) => rounds.leave_for_loss(lost),
            None => rounds.leave_for_memory(),
        };
        match (&mut of.node.way, agreement.needed) {
            (OnNode::Ready(rounds) | OnNode::Ruled(rounds), Needed::Slots) => {
                if block != 0 && self.engine.add_slots(block, rounds).is_ok() {
                    return;
                }
                of.node.slots = if alone { Without::Fail } else { Without::Messages };
                if alone && !matches!(rounds.begin(number), Ok(Begin::Over)) {
                    let _: Error = leave(rounds);
                }
            }
            (_, Needed::LaterSlots) => {
                let Some(stream) = &of.node.later else { return };
                if block != 0 && self.engine.add_slots_to(stream, block).is_ok() {
                    return;
                }
                of.node.later_slots = if alone { Without::Fail } else { Without::Messages };
                if alone {
                    let _: Error = leave(self.engine.rounds_of(stream));
                }
            }
            (way @ OnNode::Undecided, Needed::Cells) => {
                let peers: Vec<PeerId> = of.group.peers().collect();
                let mut join = |block: u64| {
                    let joined = (block != 0).then(|| self.engine.join_rounds(block, of.rank.0, &peers));
                    joined.and_then(Result::ok)
                };
                let (own, rounds) = (join(later), join(block));
                *way = OnNode::Never;
                if let Some(mut rounds) = rounds {
                    if let Some(mut own) = own {
                        own.cells().join_in(number);
                        of.node.later = Some(self.engine.open_stream(own, of.context.collective(), peers));
                    }
                    rounds.cells().join_in(number);
                    *way = OnNode::Joining(Box::new(rounds));
                }
            }
            _ => {}
        }
    }

    /// Whether it is known which way the calls of a communicator go; otherwise `missing` are the members that have not joined
    /// yet.
    pub fn have_joined(&mut self, comm: Handle, missing: &Cell<u64>) -> bool {
        let Ok(of) = self.comms.get_mut(comm) else { return true };
        let OnNode::Joining(rounds) = &mut of.node.way else { return true };
        let absent = rounds.cells_here().absent();
        if absent != 0 && !rounds.has_cause() {
            missing.set(absent);
            let lost = self.engine.lost_among(of.group.peers());
            let absent = || rounds.cells_here().absent();
            let left = || self.engine.left_among(of.context, absent, |rank| of.group.peer(Rank(rank)));
            let leave: &dyn Fn(&mut Rounds) -> Error = match (lost, lost.is_none().then(left).flatten()) {
                (Some(lost), _) => &move |rounds| rounds.leave_for_loss(lost),
                (None, Some(left)) => &move |rounds| rounds.leave_for_leaver(left),
                (None, None) => return false,
            };
            // Some may never have heard where the cells are. Who sees the cause of these may rely on that of the others.
            if let Some(stream) = &of.node.later {
                leave(self.engine.rounds_of(stream));
            }
            leave(rounds);
        }
        let OnNode::Joining(rounds) = std::mem::take(&mut of.node.way) else { unreachable!("just seen") };
        of.node.way = of.node.ready(rounds);
        true
    }
}

/// The least of unsigned 64-bit words.
pub(crate) fn least() -> Result<Reduction> {
    let word = Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"));
    let operation = Operation::Predefined(PredefinedOp::Min.kernel(&word)?);
    Ok(Reduction { datatype: word, operation, name: "MPI_MIN" })
}
