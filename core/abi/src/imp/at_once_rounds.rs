//! The short forms of collectives inside a node: one thread, a communicator that has its cells, a predefined datatype without
//! gaps. As in [`super::at_once`], whatever is wrong, rare or not yet agreed on is left to the full form.
//!
//! - *Tiny*: everything a member writes fits one cell, so the call is one round: write, wait for the others' stamps, read. When
//!   the others do not come at once, the script goes on where this stopped: it finds the own stamp in the cell.
//! - *Plain*: any length, by the script of `weft_coll::rounds`, straight between the program's memory and the slots.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use weft::Process;
use weft_coll::Group;
use weft_coll::rounds::{Operands, Outcome, Run, Script, Shape, block_of};
use weft_datatype::Kernel;
use weft_engine::{Cells, IN_CELL, Rounds, script};
use weft_types::abi;

use super::on_node::{self, PROGRESS_EVERY, Steps};
use super::point_to_point::LAST_ADDRESS_CONSTANT;
use crate::ctypes::*;
use crate::gate;
use crate::raise;

/// Everything was done.
const DONE: Option<c_int> = Some(abi::MPI_SUCCESS);

/// Bytes of `count` elements at `buf`; `None` for what is not plain.
#[inline(always)]
fn plain(process: &Process, buf: *const c_void, count: i64, datatype: MPI_Datatype) -> Option<usize> {
    // Unsigned, so that negative counts are large; the product of what passes cannot overflow.
    let small = (count as u64) < 1 << 40 && buf.addr() > LAST_ADDRESS_CONSTANT;
    if small { Some(process.types.plain_size(datatype.raw())? * count as usize) } else { None }
}

/// The cells of a communicator and the round to be, when there is room for it.
#[inline(always)]
fn cells(process: &mut Process, comm: MPI_Comm) -> Option<(&mut Cells, u64)> {
    let cells = process.comms.rounds(comm.raw())?.cells();
    let round = cells.next();
    if cells.has_room(round) { Some((cells, round)) } else { None }
}

/// Waits a little for the stamps of `of`; then the cells to read from.
#[inline(always)]
fn awaited(process: &mut Process, comm: MPI_Comm, round: u64, signature: u16, of: u64) -> Option<&mut Cells> {
    let spins = process.spins();
    let mut turn = 0;
    loop {
        let looked = process.comms.rounds(comm.raw())?.cells_here();
        loop {
            if looked.missing(round, signature, of) == 0 {
                return Some(process.comms.rounds(comm.raw())?.cells());
            }
            turn += 1;
            if turn >= spins {
                return None;
            }
            std::hint::spin_loop();
            if turn.is_multiple_of(PROGRESS_EVERY) {
                break;
            }
        }
        process.progress();
        if process.engine.has_callback() {
            return None;
        }
    }
}

/// The call is over: everything was read.
#[inline(always)]
fn end(process: &mut Process, comm: MPI_Comm, round: u64, heard_of_all: bool) -> Option<c_int> {
    let cells = process.comms.rounds(comm.raw())?.cells();
    if heard_of_all {
        cells.heard_of_all(round);
    }
    cells.end(round + 1);
    cells.wake(cells.others());
    process.comms.count_collective(comm.raw());
    DONE
}

/// Writes the own payload and shows it.
///
/// # Safety
/// `bytes` can be read at `from`.
#[inline(always)]
unsafe fn show(cells: &mut Cells, round: u64, signature: u16, from: *const c_void, bytes: usize) {
    let (room, _) = cells.room(round, false);
    // SAFETY: the caller's promise.
    unsafe { copy(from.cast(), &mut room[..bytes]) };
    cells.publish(round, signature);
    cells.fetch(round + 1);
}

/// As [`show`], of the blocks of `bytes` for each of the others.
///
/// # Safety
/// A block for each member can be read at `from`.
#[inline(always)]
unsafe fn show_to_others(cells: &mut Cells, round: u64, signature: u16, from: *const c_void, bytes: usize) {
    let (me, members) = (cells.me() as usize, cells.members() as usize);
    let (room, _) = cells.room(round, false);
    let (before, after) = room[..(members - 1) * bytes].split_at_mut(me * bytes);
    // SAFETY: the caller's promise.
    unsafe {
        copy(from.cast(), before);
        copy(from.cast::<u8>().add((me + 1) * bytes), after);
    }
    cells.publish(round, signature);
    cells.fetch(round + 1);
}

/// Copies; a word without a call.
///
/// # Safety
/// As many bytes can be read at `from`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: &mut [u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        if to.len() == 8 {
            to.as_mut_ptr().cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read());
        } else {
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
        }
    }
}

/// The program's memory.
///
/// # Safety
/// `bytes` can be written at `into`, and nobody else has a reference to them.
#[inline(always)]
unsafe fn result<'a>(into: *mut c_void, bytes: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(into.cast(), bytes) }
}

/// `MPI_Barrier`.
///
/// # Safety
/// As for every entry: the program keeps the procedure's contract. One thread calls and MPI is active, as
/// [`gate::is_active_alone`] said. The same holds for all functions here.
#[inline(always)]
pub(crate) unsafe fn barrier(comm: MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let (cells, round) = cells(process, comm)?;
    const SIGNATURE: u16 = Shape::Barrier.signature(0);
    let others = cells.others();
    cells.publish(round, SIGNATURE);
    cells.fetch(round + 1);
    if awaited(process, comm, round, SIGNATURE, others).is_some() {
        return end(process, comm, round, true);
    }
    let memory = Plain::new(std::ptr::null(), std::ptr::null_mut(), None, true);
    // SAFETY: a barrier touches no memory.
    unsafe { at_any_length("MPI_Barrier", process, comm, (Shape::Barrier, 0, 1), false, memory) }
}

/// `MPI_Bcast`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let bytes = plain(process, buffer, count, datatype)?;
    let root = root as u32;
    let shape = Shape::Bcast { root };
    let at_length = |process: &mut Process| {
        let memory = Plain::new(buffer, buffer, None, true);
        // SAFETY: the caller's promise.
        unsafe { at_any_length("MPI_Bcast", process, comm, (shape, bytes, 1), false, memory) }
    };
    if bytes > IN_CELL {
        return at_length(process);
    }
    let signature = shape.signature(bytes as u64);
    let (cells, round) = cells(process, comm)?;
    if root >= cells.members() {
        return None;
    }
    if root == cells.me() {
        // SAFETY: the caller's promise.
        unsafe { show(cells, round, signature, buffer, bytes) };
    } else {
        let late = cells.missing(round, signature, 1 << root) == 0;
        let Some(cells) = awaited(process, comm, round, signature, 1 << root) else {
            return at_length(process);
        };
        if late {
            // The root waits for nobody, so more of it may be there.
            cells.expect(1 << root, round + 1);
        }
        // SAFETY: the caller's promise.
        unsafe { copy(cells.payloads().get(root, round, false, bytes).as_ptr(), result(buffer, bytes)) };
    }
    end(process, comm, round, false)
}

/// What combines, when it is a predefined operation on a predefined type.
#[inline(always)]
fn kernel(process: &mut Process, op: MPI_Op, datatype: MPI_Datatype) -> Option<Kernel> {
    process.ops.plain_kernel(&process.types, op.handle(), datatype.handle())
}

/// Combines what all members have shown, `shown` bytes each, in the order of ranks; the own operand is at `own`, or if that is null in
/// the own cell.
///
/// # Safety
/// `own`, unless null, can be read as far as `into` is long.
#[inline(always)]
unsafe fn fold(cells: &Cells, round: u64, shown: usize, own: *const u8, kernel: Kernel, into: &mut [u8]) {
    let (payloads, bytes, me) = (cells.payloads(), into.len(), cells.me());
    let term = |member: u32| match member == me && !own.is_null() {
        // SAFETY: the caller's promise.
        true => unsafe { std::slice::from_raw_parts(own, bytes) },
        false => {
            // One vector for all, or a block for each of the others.
            let at = if shown == bytes { 0 } else { block_of(me, member) * bytes };
            &payloads.get(member, round, false, shown)[at..at + bytes]
        }
    };
    let mut member = cells.members() - 1;
    // SAFETY: a slice of that length.
    unsafe { copy(term(member).as_ptr(), into) };
    while member > 0 {
        member -= 1;
        kernel.apply(term(member), into);
    }
}

/// `MPI_Allreduce`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let bytes = plain(process, recvbuf, count, datatype)?;
    let (from, in_place) = contribution(sendbuf, recvbuf, bytes)?;
    let kernel = kernel(process, op, datatype)?;
    let at_length = |process: &mut Process| {
        let memory = Plain::new(from, recvbuf, Some(kernel), in_place);
        let call = (Shape::Allreduce, bytes, process.types.plain_size(datatype.raw())?);
        // SAFETY: the caller's promise.
        unsafe { at_any_length("MPI_Allreduce", process, comm, call, in_place, memory) }
    };
    if bytes > IN_CELL {
        return at_length(process);
    }
    let signature = Shape::Allreduce.signature(bytes as u64);
    let (cells, round) = cells(process, comm)?;
    let others = cells.others();
    // SAFETY: the caller's promise.
    unsafe { show(cells, round, signature, from, bytes) };
    let Some(cells) = awaited(process, comm, round, signature, others) else {
        return at_length(process);
    };
    // SAFETY: the caller's promise; in place the own operand is read from the cell.
    unsafe { fold(cells, round, bytes, std::ptr::null(), kernel, result(recvbuf, bytes)) };
    end(process, comm, round, true)
}

/// Where the own contribution lies, and whether that is the receive argument; `None` for arguments that overlap.
#[inline(always)]
fn contribution(sendbuf: *const c_void, recvbuf: *mut c_void, bytes: usize) -> Option<(*const c_void, bool)> {
    if sendbuf.addr() == abi::MPI_IN_PLACE {
        return Some((recvbuf, true));
    }
    apart(sendbuf, bytes, recvbuf, bytes).then_some((sendbuf, false))
}

/// Whether two arguments do not overlap and the first is no constant.
#[inline(always)]
fn apart(sendbuf: *const c_void, sent: usize, recvbuf: *mut c_void, received: usize) -> bool {
    let (a, b) = (sendbuf.addr(), recvbuf.addr());
    a > LAST_ADDRESS_CONSTANT && (a.wrapping_add(sent) <= b || b.wrapping_add(received) <= a)
}

/// `MPI_Reduce`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let bytes = plain(process, sendbuf, count, datatype)?;
    let kernel = kernel(process, op, datatype)?;
    let root = root as u32;
    let (cells, round) = cells(process, comm)?;
    let at_root = root == cells.me();
    if root >= cells.members()
        || at_root && (recvbuf.addr() <= LAST_ADDRESS_CONSTANT || !apart(sendbuf, bytes, recvbuf, bytes))
    {
        return None;
    }
    let shape = Shape::Reduce { root };
    let at_length = |process: &mut Process| {
        let memory = Plain::new(sendbuf, recvbuf, Some(kernel), false);
        let call = (shape, bytes, process.types.plain_size(datatype.raw())?);
        // SAFETY: the caller's promise.
        unsafe { at_any_length("MPI_Reduce", process, comm, call, false, memory) }
    };
    if bytes > IN_CELL {
        return at_length(process);
    }
    let signature = shape.signature(bytes as u64);
    if at_root {
        let others = cells.others();
        let late = cells.missing(round, signature, others) == 0;
        let Some(cells) = awaited(process, comm, round, signature, others) else {
            return at_length(process);
        };
        if late {
            // The others do not wait for the root, so more of theirs may be there.
            cells.expect(others, round + 1);
            cells.expect(others, round + 2);
        }
        // SAFETY: the caller's promise.
        unsafe { fold(cells, round, bytes, sendbuf.cast(), kernel, result(recvbuf, bytes)) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { show(cells, round, signature, sendbuf, bytes) };
    }
    end(process, comm, round, false)
}

/// `MPI_Allgather`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let bytes = plain(process, sendbuf, sendcount, sendtype)?;
    let (cells, round) = cells(process, comm)?;
    let (members, me, others) = (cells.members(), cells.me(), cells.others());
    let received = plain(process, recvbuf, recvcount, recvtype)?;
    if received != bytes || !apart(sendbuf, bytes, recvbuf, bytes * members as usize) {
        return None;
    }
    let at_length = |process: &mut Process| {
        let memory = Plain::new(sendbuf, recvbuf, None, false);
        let call = (Shape::Allgather, bytes, 1);
        // SAFETY: the caller's promise.
        unsafe { at_any_length("MPI_Allgather", process, comm, call, false, memory) }
    };
    if bytes > IN_CELL {
        return at_length(process);
    }
    let signature = Shape::Allgather.signature(bytes as u64);
    // SAFETY: the caller's promise, here and below.
    let all = unsafe {
        show(process.comms.rounds(comm.raw())?.cells(), round, signature, sendbuf, bytes);
        result(recvbuf, bytes * members as usize)
    };
    let Some(cells) = awaited(process, comm, round, signature, others) else {
        return at_length(process);
    };
    let payloads = cells.payloads();
    for member in 0..members {
        let from = match member == me {
            true => sendbuf.cast(),
            false => payloads.get(member, round, false, bytes).as_ptr(),
        };
        // SAFETY: as above.
        unsafe { copy(from, &mut all[member as usize * bytes..][..bytes]) };
    }
    end(process, comm, round, true)
}

/// `MPI_Alltoall`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let bytes = plain(process, sendbuf, sendcount, sendtype)?;
    let (cells, round) = cells(process, comm)?;
    let (members, me, others) = (cells.members(), cells.me(), cells.others());
    let received = plain(process, recvbuf, recvcount, recvtype)?;
    let (whole, shown) = (bytes * members as usize, bytes * (members as usize - 1));
    if received != bytes || !apart(sendbuf, whole, recvbuf, whole) {
        return None;
    }
    let at_length = |process: &mut Process| {
        let memory = Plain::new(sendbuf, recvbuf, None, false);
        let call = (Shape::Alltoall, bytes, 1);
        // SAFETY: the caller's promise.
        unsafe { at_any_length("MPI_Alltoall", process, comm, call, false, memory) }
    };
    if shown > IN_CELL {
        return at_length(process);
    }
    let signature = Shape::Alltoall.signature(bytes as u64);
    // SAFETY: the caller's promise, here and below.
    let all = unsafe {
        let cells = process.comms.rounds(comm.raw())?.cells();
        show_to_others(cells, round, signature, sendbuf, bytes);
        result(recvbuf, whole)
    };
    let Some(cells) = awaited(process, comm, round, signature, others) else {
        return at_length(process);
    };
    let (payloads, own) = (cells.payloads(), me as usize * bytes);
    for member in 0..members {
        let from = match member == me {
            true => sendbuf.cast::<u8>().wrapping_add(own),
            false => {
                payloads.get(member, round, false, shown)[block_of(me, member) * bytes..][..bytes].as_ptr()
            }
        };
        // SAFETY: as above.
        unsafe { copy(from, &mut all[member as usize * bytes..][..bytes]) };
    }
    end(process, comm, round, true)
}

/// `MPI_Reduce_scatter_block`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's promise; the reference is not used after this call.
    let process = unsafe { gate::process_alone() };
    let bytes = plain(process, recvbuf, recvcount, datatype)?;
    let kernel = kernel(process, op, datatype)?;
    let (cells, round) = cells(process, comm)?;
    let (me, others) = (cells.me() as usize, cells.others());
    let (whole, shown) = (bytes * cells.members() as usize, bytes * (cells.members() as usize - 1));
    if !apart(sendbuf, whole, recvbuf, bytes) {
        return None;
    }
    let at_length = |process: &mut Process| {
        let memory = Plain::new(sendbuf, recvbuf, Some(kernel), false);
        let call = (Shape::ReduceScatter, bytes, process.types.plain_size(datatype.raw())?);
        // SAFETY: the caller's promise.
        unsafe { at_any_length("MPI_Reduce_scatter_block", process, comm, call, false, memory) }
    };
    if shown > IN_CELL {
        return at_length(process);
    }
    let signature = Shape::ReduceScatter.signature(bytes as u64);
    // SAFETY: the caller's promise.
    unsafe { show_to_others(cells, round, signature, sendbuf, bytes) };
    let Some(cells) = awaited(process, comm, round, signature, others) else {
        return at_length(process);
    };
    let own = sendbuf.cast::<u8>().wrapping_add(me * bytes);
    // SAFETY: the caller's promise.
    unsafe { fold(cells, round, shown, own, kernel, result(recvbuf, bytes)) };
    end(process, comm, round, true)
}

/// The program's memory of a plain call.
struct Plain {
    /// What this member contributes.
    from: *const u8,
    into: *mut u8,
    kernel: Option<Kernel>,
    /// What it contributes to itself is where it belongs already.
    keeps: bool,
    /// Where what others wrote is fetched to.
    near: MaybeUninit<[u8; FETCH]>,
}

/// What others wrote is fetched in copies of this length before it is combined.
const FETCH: usize = 4096;
/// Shorter payloads are combined where they are.
const LEAST_FETCH: usize = 2048;

impl Plain {
    /// Contribution, result, operation, and whether the own contribution is where it belongs already.
    #[inline(always)]
    fn new(from: *const c_void, into: *mut c_void, kernel: Option<Kernel>, keeps: bool) -> Plain {
        Plain { from: from.cast(), into: into.cast(), kernel, keeps, near: MaybeUninit::uninit() }
    }
}

/// A plain call under way.
struct PlainCall {
    rounds: Box<Rounds>,
    run: Run,
    memory: Plain,
}

/// Runs a call of any length to its end, from where a tiny form stopped if it did; `None` where there are no slots yet, or an element
/// does not fit one.
///
/// # Safety
/// The program's memory is as the procedure wants it: what the shape reads can be read at `from`, what it writes can be written at
/// `into`, and the two are the same or apart.
#[inline(never)]
unsafe fn at_any_length(
    name: &'static str,
    process: &mut Process,
    comm: MPI_Comm,
    (shape, bytes, element): (Shape, usize, usize),
    in_place: bool,
    memory: Plain,
) -> Option<c_int> {
    let cells = process.comms.rounds(comm.raw())?.cells_here();
    let group = Group { rank: cells.me(), size: cells.members() };
    let root = match shape {
        Shape::Bcast { root } | Shape::Gather { root } | Shape::Scatter { root } | Shape::Reduce { root } => {
            root
        }
        _ => 0,
    };
    if root >= group.size {
        return None;
    }
    let script: Script = script((shape, bytes as u64, element as u64), group, in_place)?;
    if script.payload() > IN_CELL as u64 && !cells.has_slots() {
        return None;
    }
    let rounds = process.comms.lend_rounds(comm.raw())?;
    let run = Run::begin(script, &*rounds);
    let mut call = PlainCall { rounds, run, memory };
    // The process is not used any more: waiting enters the gate.
    let ended = on_node::drive(name, comm.handle(), &mut call);
    if ended.is_ok() {
        gate::with(|process| process.comms.return_rounds(comm.raw(), call.rounds));
    }
    Some(raise::finish_on_comm(name, comm, ended))
}

impl Steps for PlainCall {
    #[inline]
    fn step(&mut self) -> Outcome {
        self.run.step(&mut *self.rounds, &mut self.memory)
    }

    fn missing(&self) -> u64 {
        self.run.missing(&*self.rounds)
    }

    fn shares_processor(&self) -> bool {
        self.rounds.cells_here().shares_processor(self.missing())
    }
}

impl Plain {
    #[inline]
    fn kernel(&self) -> Kernel {
        self.kernel.expect("a reduction has an operation")
    }

    /// A part of the result.
    #[inline]
    fn part(&mut self, at: u64, len: usize) -> &mut [u8] {
        // SAFETY: scripts write inside the result, which `at_any_length` was promised; no other reference to it lives.
        unsafe { std::slice::from_raw_parts_mut(self.into.add(at as usize), len) }
    }
}

impl Operands for Plain {
    #[inline]
    fn take(&self, at: u64, to: &mut [u8]) {
        // SAFETY: scripts read inside the contribution, which `at_any_length` was promised; `to` lies in shared memory.
        unsafe { std::ptr::copy_nonoverlapping(self.from.add(at as usize), to.as_mut_ptr(), to.len()) };
    }

    #[inline]
    fn give(&mut self, at: u64, from: &[u8]) {
        self.part(at, from.len()).copy_from_slice(from);
    }

    #[inline]
    fn keep(&mut self, from: u64, at: u64, len: usize) {
        if !self.keeps {
            // SAFETY: as in `take`; contribution and result are apart unless this member keeps what it has.
            unsafe {
                std::ptr::copy_nonoverlapping(self.from.add(from as usize), self.into.add(at as usize), len)
            };
        }
    }

    #[inline]
    fn combine(&mut self, left: &[u8], at: u64) {
        self.kernel().apply(left, self.part(at, left.len()));
    }

    #[inline]
    fn combine_own(&mut self, at: u64, len: usize) {
        // SAFETY: as in `take`; only where contribution and result are apart.
        let left = unsafe { std::slice::from_raw_parts(self.from.add(at as usize), len) };
        self.kernel().apply(left, self.part(at, len));
    }

    fn combine_far(&mut self, left: &[u8], at: u64) {
        let into = std::ptr::from_mut(self.part(at, left.len()));
        // SAFETY: the result is the program's memory, apart from `self`.
        self.combine_apart_far(left, unsafe { &mut *into });
    }

    fn combine_apart_far(&mut self, left: &[u8], into: &mut [u8]) {
        if left.len() < LEAST_FETCH {
            return self.combine_apart(left, into);
        }
        for (left, into) in left.chunks(FETCH).zip(into.chunks_mut(FETCH)) {
            let near = self.near.as_mut_ptr().cast::<u8>();
            // SAFETY: `near` has room for a chunk, which is written before it is read.
            let near = unsafe {
                std::ptr::copy_nonoverlapping(left.as_ptr(), near, left.len());
                std::slice::from_raw_parts(near, left.len())
            };
            self.kernel().apply(near, into);
        }
    }

    #[inline]
    fn combine_with_own(&self, at: u64, into: &mut [u8]) {
        // SAFETY: as in `take`; `into` is no memory of the program.
        let own = unsafe { std::slice::from_raw_parts(self.from.add(at as usize), into.len()) };
        self.kernel().apply(own, into);
    }

    #[inline]
    fn combine_apart(&self, left: &[u8], into: &mut [u8]) {
        self.kernel().apply(left, into);
    }
}
