//! Hands schedules to the transport's device where it runs them (`weft_api::offload`): lowering, start, end.
//!
//! Whether a collective is handed over is decided from what all its members know alike, so that all of them do. What differs
//! from rank to rank is made alike here: an argument with gaps is packed before and unpacked after, so that a device sees plain
//! memory only. Scratch memory belongs to the lowered form; a persistent collective keeps the form with its memory.

use super::bound::{Bound, Run};
use super::{Active, Operation, Reduction};
use crate::engine::Engine;
use crate::transports::Transports;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_api::offload::{
    self, Arithmetic, Element, Finished, GroupId, Joining, Offload, Outcome, Outline, Piece, Program,
    Refusal, Whole,
};
use weft_coll::{Buffer, Collective, Range, Step};
use weft_datatype::{Kind, Memory, PredefinedOp, ScratchPool};
use weft_ofi::Ofi;
use weft_types::{Error, PeerId, Rank, Result};

/// What the device gets, and the memory it works on.
#[derive(Debug)]
pub(super) struct Lowered {
    program: Arc<Program>,
    scratch: Vec<Memory>,
    staged: Vec<Staged>,
}

/// An argument with gaps, and its packed form that the device sees.
#[derive(Debug)]
struct Staged {
    argument: Memory,
    packed: Memory,
    bytes: u64,
    /// Packed bytes that the schedule writes: first, number.
    written: Vec<(u64, u64)>,
}

impl Transports {
    fn ofi(&self) -> Option<&Ofi> {
        match self {
            Transports::Fabric(fabric) => fabric.fabric.libfabric(),
            Transports::Both(both) => both.fabric().libfabric(),
            // Collectives of a device would pass the layers by.
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) | Transports::Wrapped(_) => None,
        }
    }

    fn ofi_mut(&mut self) -> Option<&mut Ofi> {
        match self {
            Transports::Fabric(fabric) => fabric.fabric.libfabric_mut(),
            Transports::Both(both) => both.fabric_mut().libfabric_mut(),
            // Collectives of a device would pass the layers by.
            Transports::Alone(_) | Transports::Shm(_) | Transports::Sim(_) | Transports::Wrapped(_) => None,
        }
    }
}

impl Offload for Transports {
    fn can_run(
        &self,
        outline: &Outline,
        group: Option<GroupId>,
        member: &dyn Fn(u32) -> PeerId,
    ) -> std::result::Result<(), Refusal> {
        match (self, self.ofi()) {
            (Transports::Sim(port), _) => port.can_run(outline, group, member),
            (_, Some(ofi)) => ofi.can_run(outline, group, member),
            _ => Err(Refusal::NoEngine),
        }
    }

    fn hand_over(&mut self, program: &Arc<Program>, token: u64) {
        if let Transports::Sim(port) = self {
            return port.hand_over(program, token);
        }
        self.ofi_mut().expect("only transports that run programs accept them").hand_over(program, token);
    }

    fn finished(&mut self) -> Option<Finished> {
        match self {
            Transports::Sim(port) => port.finished(),
            other => other.ofi_mut()?.finished(),
        }
    }

    fn give_up_on(&mut self, peer: PeerId) {
        match self {
            Transports::Sim(port) => port.give_up_on(peer),
            other => {
                if let Some(ofi) = other.ofi_mut() {
                    ofi.give_up_on(peer);
                }
            }
        }
    }

    fn offers_groups(&self, members: u32) -> Option<u64> {
        self.ofi()?.offers_groups(members)
    }

    fn open_group(&mut self, members: u32) -> Result<(GroupId, Vec<u8>)> {
        self.with_groups()?.open_group(members)
    }

    fn join_group(&mut self, group: GroupId, name: u32, members: &[PeerId], cards: &[&[u8]]) -> Result<()> {
        self.with_groups()?.join_group(group, name, members, cards)
    }

    fn joined(&mut self, group: GroupId) -> Joining {
        match self.with_groups() {
            Ok(ofi) => ofi.joined(group),
            Err(error) => Joining::Failed(error.text().to_owned()),
        }
    }

    fn leave_group(&mut self, group: GroupId) {
        if let Ok(ofi) = self.with_groups() {
            ofi.leave_group(group);
        }
    }
}

impl Transports {
    fn with_groups(&mut self) -> Result<&mut Ofi> {
        self.ofi_mut().ok_or_else(|| Error::internal("a group was asked of a transport that knows none"))
    }
}

impl Engine {
    /// As [`Offload::offers_groups`].
    pub fn offers_groups(&self, members: u32) -> Option<u64> {
        self.fabric.offers_groups(members)
    }

    /// As [`Offload::open_group`].
    ///
    /// # Errors
    /// As there.
    pub fn open_group(&mut self, members: u32) -> Result<(GroupId, Vec<u8>)> {
        self.fabric.open_group(members)
    }

    /// As [`Offload::join_group`].
    ///
    /// # Errors
    /// As there.
    pub fn join_group(
        &mut self,
        group: GroupId,
        name: u32,
        members: &[PeerId],
        cards: &[&[u8]],
    ) -> Result<()> {
        self.fabric.join_group(group, name, members, cards)
    }

    /// As [`Offload::joined`].
    pub fn joined_group(&mut self, group: GroupId) -> Joining {
        self.fabric.joined(group)
    }

    /// As [`Offload::leave_group`].
    pub fn leave_group(&mut self, group: GroupId) {
        self.fabric.leave_group(group);
    }

    /// Whether groups of processes may be had of the fabric at all: the same at all processes of a job, whatever their devices
    /// offer.
    pub fn may_offer_groups(&self) -> bool {
        self.fabric.ofi().is_some()
    }
}

impl Engine {
    /// Whether the transport's device would run this collective; the same at all its members.
    ///
    /// # Errors
    /// Why the processor runs it.
    pub fn can_offload(&self, run: &super::ScheduleRun) -> std::result::Result<(), Refusal> {
        self.ask_device(&run.run).map(drop)
    }

    /// Whether a run of a kept collective would be handed over; see [`Engine::can_offload`].
    ///
    /// # Errors
    /// As there.
    fn ask_device(&self, run: &Bound) -> std::result::Result<Outline, Refusal> {
        let outline = run.schedule.outline().ok_or(Refusal::NotOffloadable)?;
        let arithmetic = match (outline.collective, &run.reduction) {
            (Collective::Reduce(_) | Collective::Allreduce, Some(reduction)) => Some(arithmetic(reduction)?),
            _ => None,
        };
        let collective = match outline.collective {
            Collective::Barrier => offload::Collective::Barrier,
            Collective::Bcast(root) => offload::Collective::Bcast(root),
            Collective::Reduce(root) => offload::Collective::Reduce(root),
            Collective::Allreduce => offload::Collective::Allreduce,
        };
        let outline = Outline { collective, ranks: outline.ranks, bytes: outline.bytes, arithmetic };
        let group = run.channel.group;
        if group.is_some() && run.channel.persistent {
            return Err(Refusal::AnyOrder);
        }
        self.fabric.can_run(&outline, group, &|rank| run.channel.peers.peer(Rank(rank)))?;
        Ok(outline)
    }

    /// The device's form of a run; `None` when the processor runs it.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` when scratch memory does not fit 64 bits.
    pub(super) fn lower(&mut self, run: &Run) -> Result<Option<Arc<Lowered>>> {
        let in_group = run.channel.group.is_some();
        if !in_group && !matches!(self.fabric, Transports::Sim(_)) {
            return Ok(None);
        }
        let Ok(outline) = self.ask_device(run) else { return Ok(None) };
        if let Some(lowered) = run.lowered.get() {
            return Ok(Some(Arc::clone(lowered)));
        }
        let pool = &mut self.state.schedules.pool;
        let lowered = Arc::new(match run.channel.group {
            Some(group) => Lowered::whole(run, outline, group, pool),
            None => Lowered::new(run, outline, pool)?,
        });
        Ok(Some(Arc::clone(run.lowered.get_or_init(|| lowered))))
    }

    /// Starts the device's form of a run.
    pub(super) fn hand_over(&mut self, slot: u32, mut active: Box<Active>, lowered: &Lowered) {
        active.handed_over = true;
        lowered.stage();
        self.fabric.hand_over(&lowered.program, u64::from(slot));
        self.state.schedules.handed_over += 1;
        self.state.schedules.ever_handed_over += 1;
        self.state.schedules.active[slot as usize] = Some(active);
    }

    /// Collectives handed to the device so far.
    pub fn collectives_handed_over(&self) -> u64 {
        self.state.schedules.ever_handed_over
    }

    /// Whether the device has anything of ours.
    #[inline]
    pub(crate) fn awaits_device(&self) -> bool {
        self.state.schedules.handed_over > 0
    }

    /// Ends the runs that the device has ended. True when there were any.
    pub(crate) fn take_from_device(&mut self) -> bool {
        let mut moved = false;
        while let Some(Finished { token, outcome }) = self.fabric.finished() {
            moved = true;
            self.state.schedules.handed_over -= 1;
            let slot = token as u32;
            let mut active = self.take_active(slot);
            active.handed_over = false;
            let lowered = active.run.lowered.get().expect("it was handed over");
            match outcome {
                Outcome::Done => lowered.unstage(),
                Outcome::Lost(peer) => active.error = Some(self.state.lost(peer)),
                Outcome::Failed(error) => active.error = Some(error),
            }
            if let Run::Own(bound) = &mut active.run
                && let Some(lowered) = bound.lowered.take().and_then(Arc::into_inner)
            {
                lowered.recycle(&mut self.state.schedules.pool);
            }
            self.conclude(slot, active);
        }
        moved
    }
}

/// What a device must be able to do for a reduction.
fn arithmetic(reduction: &Reduction) -> std::result::Result<Arithmetic, Refusal> {
    let Operation::Predefined(kernel) = &reduction.operation else { return Err(Refusal::UserOperation) };
    let (operation, kind) = kernel.meaning().ok_or(Refusal::UnknownArithmetic)?;
    let operation = match operation {
        PredefinedOp::Sum => offload::Operation::Sum,
        PredefinedOp::Prod => offload::Operation::Prod,
        PredefinedOp::Max => offload::Operation::Max,
        PredefinedOp::Min => offload::Operation::Min,
        PredefinedOp::Land => offload::Operation::Land,
        PredefinedOp::Lor => offload::Operation::Lor,
        PredefinedOp::Lxor => offload::Operation::Lxor,
        PredefinedOp::Band => offload::Operation::Band,
        PredefinedOp::Bor => offload::Operation::Bor,
        PredefinedOp::Bxor => offload::Operation::Bxor,
        PredefinedOp::Maxloc | PredefinedOp::Minloc | PredefinedOp::Replace | PredefinedOp::NoOp => {
            return Err(Refusal::UnknownArithmetic);
        }
    };
    let element = match kind {
        Kind::I8 => Element::Signed(1),
        Kind::I16 => Element::Signed(2),
        Kind::I32 => Element::Signed(4),
        Kind::I64 => Element::Signed(8),
        Kind::I128 => Element::Signed(16),
        Kind::U8 => Element::Unsigned(1),
        Kind::U16 => Element::Unsigned(2),
        Kind::U32 => Element::Unsigned(4),
        Kind::U64 => Element::Unsigned(8),
        Kind::F32 => Element::Float(4),
        Kind::F64 => Element::Float(8),
        _ => return Err(Refusal::UnknownArithmetic),
    };
    Ok(Arithmetic { operation, element })
}

/// Schedules with steps on others' memory have no outline (`weft_coll::Schedule::outline`).
fn not_asked() -> ! {
    unreachable!("no device is asked about a schedule without an outline")
}

/// The range that a step reads (or, of a receive, none) and the one it writes.
fn touched(step: &Step) -> [Option<(Range, bool)>; 2] {
    match *step {
        Step::Send { from, .. } => [Some((from, false)), None],
        Step::Recv { into, .. } => [Some((into, true)), None],
        Step::Copy { from, into } => [Some((from, false)), Some((into, true))],
        Step::Reduce { left, into } => [Some((left, false)), Some((into, true))],
        Step::Offer { .. } | Step::Put { .. } | Step::Get { .. } | Step::Await { .. } => not_asked(),
    }
}

impl Lowered {
    fn new(run: &Bound, outline: Outline, pool: &mut ScratchPool) -> Result<Lowered> {
        let mut scratch = Vec::new();
        run.scratch(pool, &mut scratch)?;
        let mut places = Places { run, scratch: &scratch, staged: BTreeMap::new() };
        let schedule = &run.schedule;
        for (range, writes) in schedule.steps().iter().flat_map(touched).flatten() {
            places.touch(range, writes, pool);
        }
        let steps = schedule.steps().iter().map(|step| places.lower(step)).collect();
        let successors =
            (0..schedule.steps().len() as u32).map(|step| schedule.successors(step).to_vec()).collect();
        let waits_for = schedule.waits_for().to_vec();
        let staged = places.staged.into_values().collect();
        let program = Arc::new(Program { outline, whole: None, steps, waits_for, successors });
        Ok(Lowered { program, scratch, staged })
    }

    /// The form for a device that runs the collective as a whole: the operands instead of the steps.
    fn whole(run: &Bound, outline: Outline, group: GroupId, pool: &mut ScratchPool) -> Lowered {
        let me = run.channel.rank.0;
        let range = |buffer| Range::new(buffer, 0, outline.bytes);
        let reads_send = || {
            let ranges = run.schedule.steps().iter().flat_map(touched).flatten();
            // Otherwise the operand is in place.
            ranges.into_iter().any(|(range, _)| range.buffer == Buffer::Send)
        };
        let operand = || Some(range(if reads_send() { Buffer::Send } else { Buffer::Recv }));
        let (operand, result) = match outline.collective {
            offload::Collective::Barrier => (None, None),
            offload::Collective::Bcast(root) if root == me => (Some(range(Buffer::Recv)), None),
            offload::Collective::Bcast(_) => (None, Some(range(Buffer::Recv))),
            offload::Collective::Reduce(root) => (operand(), (root == me).then(|| range(Buffer::Recv))),
            offload::Collective::Allreduce => (operand(), Some(range(Buffer::Recv))),
        };
        let mut places = Places { run, scratch: &[], staged: BTreeMap::new() };
        for (range, writes) in [(operand, false), (result, true)] {
            range.into_iter().for_each(|range| places.touch(range, writes, pool));
        }
        let piece = |range: Option<Range>, writes| {
            range.map_or(Piece { address: 0, bytes: 0 }, |range| places.piece(range, writes))
        };
        let whole = Some(Whole { group, operand: piece(operand, false), result: piece(result, true) });
        let staged = places.staged.into_values().collect();
        let (steps, waits_for, successors) = (Vec::new(), Vec::new(), Vec::new());
        let program = Arc::new(Program { outline, whole, steps, waits_for, successors });
        Lowered { program, scratch: Vec::new(), staged }
    }

    /// Packs what has gaps.
    fn stage(&self) {
        for Staged { argument, packed, bytes, .. } in &self.staged {
            weft_datatype::memory::copy(
                &argument.send_view(0, 0, *bytes),
                &mut packed.recv_view(0, 0, *bytes),
            );
        }
    }

    /// Unpacks what was written.
    fn unstage(&self) {
        for Staged { argument, packed, written, .. } in &self.staged {
            for &(start, bytes) in written {
                let mut into = argument.recv_view(0, start, bytes);
                weft_datatype::memory::copy(&packed.send_view(0, start, bytes), &mut into);
            }
        }
    }

    fn recycle(self, pool: &mut ScratchPool) {
        let packed = self.staged.into_iter().map(|staged| staged.packed);
        self.scratch.into_iter().chain(packed).for_each(|memory| pool.recycle(memory));
    }
}

/// Where the ranges of a schedule lie.
struct Places<'a> {
    run: &'a Bound,
    scratch: &'a [Memory],
    staged: BTreeMap<Buffer, Staged>,
}

impl Places<'_> {
    fn memory(&self, buffer: Buffer) -> &Memory {
        let arguments = &self.run.arguments;
        match buffer {
            Buffer::Send => &arguments.send,
            Buffer::Recv => &arguments.recv,
            Buffer::SendPeer(peer) => &arguments.send_peers[peer as usize],
            Buffer::RecvPeer(peer) => &arguments.recv_peers[peer as usize],
            Buffer::Scratch(index) => &self.scratch[index as usize],
        }
    }

    /// Takes note of a range in memory with gaps.
    fn touch(&mut self, range: Range, writes: bool, pool: &mut ScratchPool) {
        let memory = self.memory(range.buffer);
        if range.bytes == 0 || memory.datatype().is_contiguous() {
            return;
        }
        assert_eq!(range.displacement, 0, "collectives with an outline have no displacements");
        let memory = memory.clone();
        let staged = self.staged.entry(range.buffer).or_insert_with(|| Staged {
            argument: memory,
            packed: Memory::none(),
            bytes: 0,
            written: Vec::new(),
        });
        let end = range.start + range.bytes;
        if end > staged.bytes {
            staged.bytes = end;
            let smaller = std::mem::replace(&mut staged.packed, pool.packed(end as usize));
            pool.recycle(smaller);
        }
        if writes && !staged.written.contains(&(range.start, range.bytes)) {
            staged.written.push((range.start, range.bytes));
        }
    }

    fn piece(&self, range: Range, writes: bool) -> Piece {
        if range.bytes == 0 {
            return Piece { address: 0, bytes: 0 };
        }
        let memory =
            self.staged.get(&range.buffer).map_or(self.memory(range.buffer), |staged| &staged.packed);
        // The view is looked at for its checks only: that the range lies in what the program gave.
        if writes {
            drop(memory.recv_view(range.displacement, range.start, range.bytes));
        } else {
            drop(memory.send_view(range.displacement, range.start, range.bytes));
        }
        let address = memory.address() as u64;
        let address = address.wrapping_add_signed(range.displacement).wrapping_add(range.start);
        Piece { address, bytes: range.bytes }
    }

    fn lower(&self, step: &Step) -> offload::Step {
        let channel = &self.run.channel;
        let peer = |rank: u32| channel.peers.peer(Rank(rank));
        let key = |number: u16| u64::from(channel.context.0) << 32 | u64::from(self.run.tag(number).0 as u32);
        match *step {
            Step::Send { to, channel, from } => {
                offload::Step::Send { to: peer(to), key: key(channel), from: self.piece(from, false) }
            }
            Step::Recv { from, channel, into } => {
                offload::Step::Recv { from: peer(from), key: key(channel), into: self.piece(into, true) }
            }
            Step::Copy { from, into } => {
                offload::Step::Copy { from: self.piece(from, false), into: self.piece(into, true) }
            }
            Step::Reduce { left, into } => {
                offload::Step::Reduce { left: self.piece(left, false), into: self.piece(into, true) }
            }
            Step::Offer { .. } | Step::Put { .. } | Step::Get { .. } | Step::Await { .. } => not_asked(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::schedule::{Arguments, Channel, KeptRun, PeerMap, ScheduleRun};
    use crate::world::World;
    use std::sync::Arc;
    use weft_coll::{Call, Group, Model, plan};
    use weft_datatype::{Datatype, Memory};
    use weft_types::{ContextId, PeerId, Rank, abi};

    #[derive(Debug)]
    struct Identity;

    impl PeerMap for Identity {
        fn peer(&self, rank: Rank) -> PeerId {
            PeerId(rank.0)
        }
        fn contains(&self, _: PeerId) -> bool {
            true
        }
    }

    #[test]
    fn a_persistent_collective_keeps_what_the_device_gets() {
        let byte: Datatype = Datatype::predefined(abi::MPI_BYTE).unwrap().into();
        let mut world =
            World::new(3).seed(1).fabric(|fabric| fabric.device = Some(Default::default())).build();
        let rooms: Vec<Memory> = (0..3).map(|_| Memory::scratch(&byte, 100).unwrap()).collect();
        let kept: Vec<KeptRun> = (0..3)
            .map(|rank| {
                let call = Call::Bcast { root: 1, bytes: 100 };
                let schedule = Arc::new(plan(&call, Group { rank, size: 3 }, &Model::default()));
                let context = ContextId::WORLD.collective();
                let peers = Arc::new(Identity);
                let channel =
                    Channel { context, rank: Rank(rank), peers, sequence: 0, persistent: true, group: None };
                let arguments = Arguments::new(Memory::none(), rooms[rank as usize].clone());
                ScheduleRun::new(schedule, arguments, None, channel).unwrap().keep()
            })
            .collect();
        let mut forms = Vec::new();
        for round in 0..3_u8 {
            rooms[1].recv_view(0, 0, 100).unpack(0, &[round; 100]);
            let engines = world.engines.iter_mut();
            let requests: Vec<_> =
                engines.zip(&kept).map(|(engine, kept)| engine.start_schedule(kept.run()).unwrap()).collect();
            world.run(100_000, |rank, engine| engine.is_complete(requests[rank as usize]));
            for rank in 0..3 {
                assert_eq!(world.engines[rank].take(requests[rank]).error, None);
                let mut got = [9; 100];
                rooms[rank].send_view(0, 0, 100).pack(0, &mut got);
                assert_eq!(got, [round; 100]);
            }
            let form = |kept: &KeptRun| Arc::as_ptr(&kept.0.lowered.get().expect("handed over").program);
            forms.push(kept.iter().map(form).collect::<Vec<_>>());
        }
        assert!(forms.iter().all(|form| *form == forms[0]), "made once");
        assert!(world.fabric().devices_are_empty());
    }
}
