//! The short forms of collectives inside a node: a communicator that has its cells, a predefined datatype without gaps, and one
//! thread, or the one to which the process's lock is biased ([`Way`]). As in [`super::at_once`], whatever is wrong, rare or not yet agreed on is left to the full form.
//!
//! - *One round*: what a member writes fits one payload, so the call is: write, wait for the others' stamps, read. When the
//!   others do not come at once, the script goes on where this stopped: it finds the own stamp in the cell.
//! - *Any length*, by the script of `weft_coll::rounds`, straight between the program's memory and the slots ([`plain`]).

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use weft::Process;
use weft_coll::rounds::{
    Shape, block_of, is_contested, is_fetched, is_one_round, is_sooner_by_messages, others_in_turn,
};
use weft_datatype::Kernel;
use weft_engine::{Cells, IN_CELL, Sort, copy_past_caches, fetch};
use weft_types::abi;

use super::on_node::PROGRESS_EVERY;
use super::point_to_point::LAST_ADDRESS_CONSTANT;
use crate::ctypes::*;
use plain::{Call, Plain};
pub(crate) use scattering::{reduce_scatter, reduce_scatter_block};
pub(crate) use way::{Alone, Locked};
use way::{Held, Way};

mod plain;
mod scattering;
mod way;

/// Bytes of an own operand that are kept aside at a time; longer than any element.
const AT_A_TIME: usize = 4096;

/// Everything was done.
const DONE: Option<c_int> = Some(abi::MPI_SUCCESS);

/// Bytes of `count` elements at `buf`, and of one; `None` for what is not plain.
#[inline(always)]
fn plain(
    process: &Process,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
) -> Option<(usize, usize)> {
    // Unsigned, so that negative counts are large; the product of what passes cannot overflow.
    if count as u64 >= 1 << 40 || buf.addr() <= LAST_ADDRESS_CONSTANT {
        return None;
    }
    let element = process.types.plain_size(datatype.raw())?;
    Some((element * count as usize, element))
}

/// What combines, when it is a predefined operation on a predefined type.
#[inline(always)]
fn kernel(process: &mut Process, op: MPI_Op, datatype: MPI_Datatype) -> Option<Kernel> {
    process.ops.plain_kernel(&process.types, op.handle(), datatype.handle())
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

/// What this member does in the one round of a call.
struct Part {
    writes: bool,
    /// Whom it waits for, one bit each; 0: nobody.
    awaits: u64,
    /// Whether all wait for all.
    joins_all: bool,
    /// When those it waits for were there before it: rounds that they may have written meanwhile.
    expects: u64,
}

impl Part {
    /// All write and all read.
    #[inline(always)]
    fn of_all(cells: &Cells) -> Part {
        Part { writes: true, awaits: cells.others(), joins_all: true, expects: 0 }
    }
}

/// The payloads of one round.
struct Payloads<'a> {
    cells: &'a Cells,
    round: u64,
    long: bool,
    /// Bytes of each.
    len: usize,
}

impl Payloads<'_> {
    #[inline(always)]
    fn of(&self, member: u32) -> &[u8] {
        self.cells.payloads().get(member, self.round, self.long, self.len)
    }

    /// What a member wrote for this one, where each writes a block for each of the others.
    #[inline(always)]
    fn block_of(&self, member: u32, bytes: usize) -> &[u8] {
        &self.of(member)[block_of(self.cells.me(), member) * bytes..][..bytes]
    }
}

/// Runs a call in one round, or if it needs more, or the others are not there soon, by its script. `shown`: bytes of a payload;
/// `write` is told for whom it is best written past the caches, one bit each; `meanwhile`: what is to be done between writing and reading.
///
/// # Safety
/// That of [`plain::at_any_length`].
#[inline(always)]
unsafe fn run(
    mut held: impl Held,
    comm: MPI_Comm,
    call: Call,
    shown: usize,
    part: impl FnOnce(&Cells) -> Part,
    write: impl FnOnce(&mut [u8], u64),
    meanwhile: impl FnOnce(),
    read: impl FnOnce(Payloads<'_>),
) -> Option<c_int> {
    let spins = held.spins();
    let process = held.process();
    let (cells, number) = process.comms.numbered_rounds(comm.raw())?;
    if is_sooner_by_messages(call.shape, cells.members(), call.bytes as u64) || !cells.begin(number) {
        // Or members have left.
        return None;
    }
    let (round, long) = (cells.next(), shown > IN_CELL);
    let Part { writes, awaits, joins_all, expects } = part(cells);
    // Who waits for nobody writes alone.
    let sort = match (joins_all, awaits) {
        (true, _) => Sort::Exchanged,
        (false, 0) => Sort::Alone,
        (false, _) => Sort::Single,
    };
    if long && !(cells.has_slots() && is_short(call.shape, call.bytes as u64, call.in_place, cells))
        || !cells.has_room(round, if long { shown } else { 0 }, sort)
    {
        held.leave(false);
        // SAFETY: the caller's promise.
        return unsafe { plain::at_any_length(comm, call) };
    }
    let signature = call.shape.signature(call.bytes as u64);
    if writes {
        if shown > 0 {
            let writing = cells.begin_writing(shown, sort);
            let past = cells.past(writing);
            write(&mut cells.room(round, long, shown, writing.sort(sort)).0[..shown], past);
            cells.has_written(writing);
        }
        cells.publish(round, signature);
        cells.fetch(round + 1);
    }
    meanwhile();
    if awaits != 0 {
        let there = expects > 0 && cells.missing(round, signature, awaits) == 0;
        let Some(cells) = awaited(process, spins, comm, round, signature, awaits) else {
            held.leave(true);
            // SAFETY: the caller's promise.
            return unsafe { plain::at_any_length(comm, call) };
        };
        if there {
            for ahead in 1..=expects {
                cells.expect(awaits, round + ahead);
            }
        }
        read(Payloads { cells, round, long, len: shown });
    }
    let cells = process.comms.rounds(comm.raw())?.cells();
    if joins_all {
        cells.heard_of_all(round);
    }
    cells.end(round + 1);
    cells.wake(cells.others());
    process.comms.count_collective(comm.raw());
    held.leave(awaits != 0);
    DONE
}

/// Whether a call with long payloads is over in one round of them, and goes no other way.
#[inline(never)]
fn is_short(shape: Shape, bytes: u64, in_place: bool, cells: &Cells) -> bool {
    let members = cells.members();
    is_one_round(shape, members, bytes, cells.attended_slot_bytes(), cells.block_bytes())
        && !is_contested(shape, members, bytes, in_place, cells.is_crowded())
}

/// Waits a little for the stamps of `of`; then the cells to read from.
#[inline(always)]
fn awaited(
    process: &mut Process,
    spins: u32,
    comm: MPI_Comm,
    round: u64,
    signature: u16,
    of: u64,
) -> Option<&mut Cells> {
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

/// Writes a payload; `past`: past the caches.
///
/// # Safety
/// As many bytes can be read at `from`.
#[inline(always)]
unsafe fn show(from: *const u8, room: &mut [u8], past: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if past {
            copy_past_caches(std::slice::from_raw_parts(from, room.len()), room);
        } else {
            copy(from, room);
        }
    }
}

/// Writes the blocks of `bytes` for each of the others.
///
/// # Safety
/// A block for each member can be read at `from`.
#[inline(always)]
unsafe fn show_to_others(me: u32, from: *const c_void, bytes: usize, room: &mut [u8], past: u64) {
    let (before, after) = room.split_at_mut(me as usize * bytes);
    let block = |member: u32| from.cast::<u8>().wrapping_add(member as usize * bytes);
    if past == 0 {
        // SAFETY: the caller's promise.
        return unsafe {
            show(block(0), before, false);
            show(block(me + 1), after, false);
        };
    }
    let members = (0..me).chain(me + 1..);
    for (member, room) in members.zip(before.chunks_mut(bytes).chain(after.chunks_mut(bytes))) {
        // SAFETY: the caller's promise.
        unsafe { show(block(member), room, past >> member & 1 == 1) };
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

/// Combines the terms of all members in the order of ranks, with the loops that scripts use.
#[inline(always)]
fn fold<'a>(cells: &Cells, kernel: Kernel, term: impl Fn(u32) -> &'a [u8], into: &mut [u8]) {
    let (me, members) = (cells.me(), cells.members());
    let last = members - 1;
    if is_fetched(members, into.len(), cells.is_crowded()) {
        others_in_turn(me, members).for_each(|member| fetch(term(member)));
    }
    kernel.apply_apart(term(last - 1), term(last), into);
    for member in (0..last - 1).rev() {
        kernel.apply(term(member), into);
    }
}

/// `MPI_Barrier`.
///
/// # Safety
/// As for every entry: the program keeps the procedure's contract, and `way` was made by what its kind says. The same holds for
/// all functions here.
#[inline(always)]
pub(crate) unsafe fn barrier(way: impl Way, comm: MPI_Comm) -> Option<c_int> {
    let memory = Plain::new(std::ptr::null(), std::ptr::null_mut(), None, true);
    let call =
        Call { name: "MPI_Barrier", shape: Shape::Barrier, bytes: 0, element: 1, in_place: false, memory };
    // SAFETY: a barrier touches no memory.
    unsafe { run(way.enter()?, comm, call, 0, Part::of_all, |_, _| {}, || {}, |_| {}) }
}

/// `MPI_Bcast`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn bcast(
    way: impl Way,
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let mut held = way.enter()?;
    let process = held.process();
    let (bytes, _) = plain(process, buffer, count, datatype)?;
    let (root, me) = (root as u32, seat(process, comm, root)?);
    let memory = Plain::new(buffer, buffer, None, true);
    let shape = Shape::Bcast { root };
    let call = Call { name: "MPI_Bcast", shape, bytes, element: 1, in_place: false, memory };
    let part = |_: &Cells| match me == root {
        true => Part { writes: true, awaits: 0, joins_all: false, expects: 0 },
        // The root waits for nobody.
        false => Part { writes: false, awaits: 1 << root, joins_all: false, expects: 1 },
    };
    // SAFETY: the caller's promise, in all closures.
    unsafe {
        run(
            held,
            comm,
            call,
            bytes,
            part,
            |room, past| show(buffer.cast(), room, past != 0),
            || {},
            |payloads| copy(payloads.of(root).as_ptr(), result(buffer, bytes)),
        )
    }
}

/// The own rank, when the communicator has cells and the root is a member.
#[inline(always)]
fn seat(process: &mut Process, comm: MPI_Comm, root: c_int) -> Option<u32> {
    let cells = process.comms.rounds(comm.raw())?.cells_here();
    ((root as u32) < cells.members()).then_some(cells.me())
}

/// `MPI_Allreduce`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn allreduce(
    way: impl Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<c_int> {
    let mut held = way.enter()?;
    let process = held.process();
    let (bytes, element) = plain(process, recvbuf, count, datatype)?;
    let (from, in_place) = contribution(sendbuf, recvbuf, bytes)?;
    let kernel = kernel(process, op, datatype)?;
    let memory = Plain::new(from, recvbuf, Some(kernel), in_place);
    let call = Call { name: "MPI_Allreduce", shape: Shape::Allreduce, bytes, element, in_place, memory };
    // SAFETY: the caller's promise, in all closures; in place the own operand lies in the result and is read from the payload.
    unsafe {
        run(
            held,
            comm,
            call,
            bytes,
            Part::of_all,
            |room, past| show(from.cast(), room, past != 0),
            || {},
            |payloads| {
                let (members, me) = (payloads.cells.members(), payloads.cells.me());
                if in_place && members == 2 {
                    return combine_with(
                        payloads.of(1 - me),
                        me == 0,
                        kernel,
                        element,
                        result(recvbuf, bytes),
                    );
                }
                let own = || std::slice::from_raw_parts(from.cast(), bytes);
                let term = |member| if member == me && !in_place { own() } else { payloads.of(member) };
                fold(payloads.cells, kernel, term, result(recvbuf, bytes));
            },
        )
    }
}

/// Combines the own operand in `into`, `first` in the order of ranks, with that of the only other member, with the loops of [`fold`]. The own
/// payload holds it too, but its lines are where the other one reads them.
#[inline(never)]
fn combine_with(other: &[u8], first: bool, kernel: Kernel, element: usize, into: &mut [u8]) {
    let mut room = [const { MaybeUninit::<u8>::uninit() }; AT_A_TIME];
    let at_a_time = AT_A_TIME / element * element;
    for (other, into) in other.chunks(at_a_time).zip(into.chunks_mut(at_a_time)) {
        // SAFETY: a chunk has at most as many bytes as the room, and they are written before they are lent.
        let own = unsafe {
            std::ptr::copy_nonoverlapping(into.as_ptr(), room.as_mut_ptr().cast(), into.len());
            std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), into.len())
        };
        let (left, right) = if first { (own, other) } else { (other, own) };
        kernel.apply_apart(left, right, into);
    }
}

/// `MPI_Reduce`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn reduce(
    way: impl Way,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    let mut held = way.enter()?;
    let process = held.process();
    let (bytes, element) = plain(process, sendbuf, count, datatype)?;
    let kernel = kernel(process, op, datatype)?;
    let (root, me) = (root as u32, seat(process, comm, root)?);
    if me == root && (recvbuf.addr() <= LAST_ADDRESS_CONSTANT || !apart(sendbuf, bytes, recvbuf, bytes)) {
        return None;
    }
    let memory = Plain::new(sendbuf, recvbuf, Some(kernel), false);
    let shape = Shape::Reduce { root };
    let call = Call { name: "MPI_Reduce", shape, bytes, element, in_place: false, memory };
    let part = |cells: &Cells| match me == root {
        // The others do not wait for the root.
        true => Part { writes: false, awaits: cells.others(), joins_all: false, expects: 2 },
        false => Part { writes: true, awaits: 0, joins_all: false, expects: 0 },
    };
    // SAFETY: the caller's promise, in all closures.
    unsafe {
        run(
            held,
            comm,
            call,
            bytes,
            part,
            |room, past| show(sendbuf.cast(), room, past >> root & 1 == 1),
            || {},
            |payloads| {
                let own = std::slice::from_raw_parts(sendbuf.cast(), bytes);
                let term = |member| if member == me { own } else { payloads.of(member) };
                fold(payloads.cells, kernel, term, result(recvbuf, bytes));
            },
        )
    }
}

/// `MPI_Allgather`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn allgather(
    way: impl Way,
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<c_int> {
    let mut held = way.enter()?;
    let process = held.process();
    let (bytes, _) = plain(process, sendbuf, sendcount, sendtype)?;
    let (received, _) = plain(process, recvbuf, recvcount, recvtype)?;
    let cells = process.comms.rounds(comm.raw())?.cells_here();
    let (members, me) = (cells.members(), cells.me());
    if received != bytes || !apart(sendbuf, bytes, recvbuf, bytes * members as usize) {
        return None;
    }
    let memory = Plain::new(sendbuf, recvbuf, None, false);
    let call =
        Call { name: "MPI_Allgather", shape: Shape::Allgather, bytes, element: 1, in_place: false, memory };
    let place = |member: u32| recvbuf.wrapping_byte_add(member as usize * bytes);
    // SAFETY: the caller's promise, in all closures.
    unsafe {
        run(
            held,
            comm,
            call,
            bytes,
            Part::of_all,
            |room, past| show(sendbuf.cast(), room, past != 0),
            || copy(sendbuf.cast(), result(place(me), bytes)),
            |payloads| {
                for member in others_in_turn(me, members) {
                    copy(payloads.of(member).as_ptr(), result(place(member), bytes));
                }
            },
        )
    }
}

/// `MPI_Alltoall`.
///
/// # Safety
/// See [`barrier`].
#[inline(always)]
pub(crate) unsafe fn alltoall(
    way: impl Way,
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<c_int> {
    let mut held = way.enter()?;
    let process = held.process();
    let (bytes, _) = plain(process, sendbuf, sendcount, sendtype)?;
    let (received, _) = plain(process, recvbuf, recvcount, recvtype)?;
    let cells = process.comms.rounds(comm.raw())?.cells_here();
    let (members, me) = (cells.members(), cells.me());
    let whole = bytes * members as usize;
    if received != bytes || !apart(sendbuf, whole, recvbuf, whole) {
        return None;
    }
    let memory = Plain::new(sendbuf, recvbuf, None, false);
    let call =
        Call { name: "MPI_Alltoall", shape: Shape::Alltoall, bytes, element: 1, in_place: false, memory };
    let place = |member: u32| recvbuf.wrapping_byte_add(member as usize * bytes);
    // SAFETY: the caller's promise, in all closures.
    unsafe {
        run(
            held,
            comm,
            call,
            whole - bytes,
            Part::of_all,
            |room, past| show_to_others(me, sendbuf, bytes, room, past),
            || copy(sendbuf.cast::<u8>().add(me as usize * bytes), result(place(me), bytes)),
            |payloads| {
                for member in others_in_turn(me, members) {
                    copy(payloads.block_of(member, bytes).as_ptr(), result(place(member), bytes));
                }
            },
        )
    }
}
