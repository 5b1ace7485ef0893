//! Persistent collectives inside a node: each has cells of its own, on which its members agree when they initialize it
//! (initialization is collective and nonlocal, section 6.13), so that a start is only stores into them. What gains nothing by
//! that, finds no memory, or is too long, and what comes after the end of its cells, goes by messages, at all members.

use super::{Agreement, OnNode, kernel, told};
use crate::persistent::OnCells;
use crate::process::Process;
use crate::request::{Local, MpiStatus, engine_request};
use std::cell::Cell;
use weft_coll::Call;
use weft_coll::rounds::{Shape, Told};
use weft_datatype::Kernel;
use weft_engine::{Arguments, Begin, Ending, Reduction, RoundsCall, needs_slots_later, wanted_room};
use weft_types::{Handle, HandleKind, PeerId, Rank, Result};

/// A persistent collective before its members have agreed on memory.
#[derive(Debug)]
pub(crate) struct KeptCall {
    /// Shape, bytes of a block, bytes that stay together.
    what: (Shape, u64, u64),
    arguments: Arguments,
    kernel: Option<Kernel>,
    in_place: bool,
    /// What rules say of it.
    told: Told,
    /// Whether its payloads need memory beside the cells.
    is_long: bool,
    sequence: u32,
}

/// Whether cells are worth their memory. Measured from start to end of one call of two near members, by messages / by cells in
/// us: barrier .28 / .18, 8 bytes broadcast .28 / .20, reduce .33 / .23, allreduce .37 / .24, allgather .39 / .22. What is
/// longer than a cell and only moves data took longer (a broadcast of 8 KiB .61 / .68, of 64 KiB 2.6 / 2.9, an allgather of
/// 64 KiB 4.5 / 4.8), and so did a reduce between far members (8 KiB 1.6 / 2.2, 64 KiB 6.5 / 10).
fn pays(shape: Shape, is_long: bool) -> bool {
    !is_long || matches!(shape, Shape::Allreduce | Shape::ReduceScatter)
}

impl Process {
    /// What a persistent collective keeps that may go by cells; `None`: it goes by messages. The same at all members.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle; overlapping arguments.
    pub(crate) fn kept_call(
        &mut self,
        comm: Handle,
        call: &Call<'_>,
        arguments: &Arguments,
        reduction: Option<&Reduction>,
    ) -> Result<Option<KeptCall>> {
        let (Some((shape, bytes, element, in_place)), Some(kernel)) = (Shape::of(call), kernel(reduction))
        else {
            return Ok(None);
        };
        if self.comms.get(comm)?.lane != 0 || !self.may_have_cells(comm)? {
            return Ok(None);
        }
        let of = self.comms.get(comm)?;
        let mut room = wanted_room(of.size);
        if let Some(rules) = &of.node.rules {
            let place = weft_coll::Group { rank: of.rank.0, size: of.size };
            let Some(told) = told(rules, call, place, false, room, &self.model()) else { return Ok(None) };
            room.told = told;
        }
        let Some(is_long) = needs_slots_later((shape, bytes, element), of.size, room) else {
            return Ok(None);
        };
        if !pays(shape, is_long) {
            return Ok(None);
        }
        arguments.send.check_distinct(&arguments.recv)?;
        let (what, arguments) = ((shape, bytes, element), arguments.clone());
        let sequence = of.persistent_collectives;
        Ok(Some(KeptCall { what, arguments, kernel, in_place, told: room.told, is_long, sequence }))
    }

    /// The request of a persistent collective is there.
    pub(crate) fn keep_by_cells(&mut self, request: Handle, call: KeptCall) {
        if let Local::Persistent(persistent) = self.requests.local_mut(request) {
            persistent.cells = OnCells::Wanted(Box::new(call));
        }
    }

    /// Begins the agreement on the memory of a persistent collective that has just been made; `None`: it needs none.
    ///
    /// # Errors
    /// As [`Process::agree_on_memory`].
    pub fn agree_to_keep(&mut self, request: Handle) -> Result<Option<Agreement>> {
        let Local::Persistent(persistent) = self.requests.local(request) else { return Ok(None) };
        if !matches!(persistent.cells, OnCells::Wanted(_)) {
            return Ok(None);
        }
        let comm = persistent.comm;
        let of = self.comms.get_mut(comm)?;
        // Whoever has left the communicator's cells does not know of memory any more, and the others find that out here.
        let number = of.collectives.get();
        if let OnNode::Ready(rounds) | OnNode::Ruled(rounds) | OnNode::Wants(rounds) = &mut of.node.way
            && let Ok(Begin::Over) = rounds.begin(number)
        {
            of.node.way = OnNode::Never;
            self.forget_cells(request);
            return Ok(None);
        }
        self.agree_on_memory(comm, super::Needed::Kept(request)).map(Some)
    }

    /// Goes on with a persistent collective that is under way by cells, as long as it is likely to end soon. Nothing for other
    /// requests.
    #[inline]
    pub fn spin_kept(&mut self, request: Handle) {
        if request.kind_bits() != HandleKind::LocalRequest as u32 {
            return;
        }
        let spins = self.spins();
        if let Some(Local::Persistent(persistent)) = self.requests.find_local_mut(request)
            && let OnCells::Yes(stream) = &persistent.cells
        {
            self.engine.spin_kept(stream, spins);
        }
    }

    /// Completes a persistent collective that goes by cells and ends soon; `None`: it is none, or has not ended well yet.
    #[inline]
    pub fn finish_kept_at_once(&mut self, request: Handle) -> Option<MpiStatus> {
        self.spin_kept(request);
        let Some(Local::Persistent(persistent)) = self.requests.find_local_mut(request) else { return None };
        let OnCells::Yes(_) = &persistent.cells else { return None };
        let under_way = engine_request(persistent.active()?);
        if self.engine.ending(under_way) != Ending::Well {
            return None;
        }
        persistent.end();
        Some(self.engine.take_well(under_way).into())
    }

    fn forget_cells(&mut self, request: Handle) {
        if let Some(Local::Persistent(persistent)) = self.requests.find_local_mut(request) {
            persistent.cells = OnCells::No;
        }
    }

    /// Takes the memory, for rank 0 to tell to the others: cells, and the room for long payloads. Zeroes when there is none.
    pub(super) fn take_to_keep(&mut self, request: Handle, size: u32) -> [u64; 2] {
        let Local::Persistent(persistent) = self.requests.local(request) else { return [0; 2] };
        let OnCells::Wanted(call) = &persistent.cells else { return [0; 2] };
        let cells = self.engine.take_block(size, false);
        if cells == 0 || !call.is_long {
            return [cells, 0];
        }
        let room = self.engine.take_block_for(size, call.what);
        if room == 0 {
            self.engine.give_block_back(cells);
            return [0; 2];
        }
        [cells, room]
    }

    /// The agreement is over: all members have heard the same, or one was lost.
    pub(super) fn agreed_to_keep(&mut self, comm: Handle, request: Handle, [cells, room]: [u64; 2]) {
        let Some(Local::Persistent(persistent)) = self.requests.find_local_mut(request) else { return };
        let OnCells::Wanted(call) = std::mem::take(&mut persistent.cells) else { return };
        let Ok(of) = self.comms.get(comm) else { return };
        if cells == 0 || call.is_long && room == 0 {
            return;
        }
        let peers: Vec<PeerId> = of.group.peers().collect();
        let Ok(mut rounds) = self.engine.join_rounds(cells, of.rank.0, &peers) else { return };
        let KeptCall { what, arguments, kernel, in_place, told, is_long, sequence } = *call;
        let has_room = !is_long || self.engine.add_slots(room, &mut rounds).is_ok();
        let kept = RoundsCall::unattended_as_told(&rounds, what, arguments, kernel, in_place, told)
            .expect("what fits was asked before");
        rounds.cells().join_in(0);
        if !has_room {
            // What the others begin there must fail.
            rounds.leave_for_memory();
        }
        let stream = self.engine.keep_in_stream(rounds, of.context.collective(), peers, (sequence, kept));
        persistent.cells = OnCells::Yes(stream);
    }

    /// Whether it is known how a persistent collective goes; otherwise `missing` are the members that have not joined its cells
    /// yet.
    pub fn have_joined_to_keep(&mut self, request: Handle, missing: &Cell<u64>) -> bool {
        let Some(Local::Persistent(persistent)) = self.requests.find_local_mut(request) else { return true };
        let OnCells::Yes(stream) = &persistent.cells else { return true };
        let Ok(of) = self.comms.get(persistent.comm) else { return true };
        let rounds = self.engine.rounds_of(stream);
        let absent = rounds.cells_here().absent();
        if absent == 0 || rounds.has_cause() {
            return true;
        }
        missing.set(absent);
        // Some may never have heard where the cells are.
        if let Some(lost) = self.engine.lost_among(of.group.peers()) {
            self.engine.rounds_of(stream).leave_for_loss(lost);
            return true;
        }
        let absent = || self.engine.rounds_here(stream).cells_here().absent();
        let Some(left) = self.engine.left_among(of.context, absent, |rank| of.group.peer(Rank(rank))) else {
            return false;
        };
        self.engine.rounds_of(stream).leave_for_leaver(left);
        true
    }
}
