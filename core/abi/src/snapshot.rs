//! What a thread remembers of communicators and datatypes, so that with MPI_THREAD_MULTIPLE it finds them without the
//! process's lock.
//!
//! Each thread keeps the last few it used, and drops them all when something of their kind was removed (one Acquire load
//! tells, see [`weft::comm::Changes`]). Nothing that a program can change in an object that lives is kept, but for the name of
//! a communicator in error texts.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use weft::comm::{Changes, Comm};
use weft::lanes::{Lane, Lanes};
use weft::partitioned::Board;
use weft::types::Types;
use weft_datatype::{Datatype, RecvBuf, SendBuf};
use weft_engine::bias::Mine;
use weft_types::{Handle, HandleKind, Result as Outcome};

use crate::ctypes::{MPI_Comm, MPI_Datatype};
use crate::gate;
use crate::imp::{LAST_ADDRESS_CONSTANT, receive_buffer, send_buffer};

/// Objects of each kind that a thread remembers; a power of two.
const KEPT: usize = 8;

/// A communicator that a thread remembers.
pub(crate) struct Known {
    /// What calls that only look need to know.
    pub(crate) comm: Comm,
    /// Its lane, unless that is lane 0.
    pub(crate) lane: Option<&'static Lane>,
}

/// What a thread remembers.
struct Kept {
    /// The count of changes when the memory was empty last.
    count: u64,
    comms: [Option<Box<Known>>; KEPT],
    types: [Option<(Handle, Datatype)>; KEPT],
    boards: [Option<(Handle, Arc<Board>)>; KEPT],
}

/// A thread as the library knows it, made when it first needs something remembered.
pub(crate) struct Here {
    /// The thread, for biased locks.
    pub(crate) mine: Mine,
    /// The lanes of the process.
    pub(crate) lanes: &'static Lanes,
    changes: &'static Changes,
    /// The predefined datatypes.
    pub(crate) predefined: &'static Types,
    kept: RefCell<Kept>,
}

/// The calling thread's [`Here`], null before it is made and after it is gone: a word without a destructor, so that a look is a
/// load.
///
/// In a shared library the usual thread-local variable costs a call each time, because the library might come late and with
/// much; eight bytes at a fixed distance from the thread pointer (the *initial exec* model) fit into what the C library keeps
/// free for libraries that come late.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod word {
    use super::Here;
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.weft_here,\"awT\",@nobits",
        ".globl weft_here",
        ".hidden weft_here",
        ".type weft_here,@object",
        ".size weft_here,8",
        ".p2align 3",
        "weft_here:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> *const Here {
        let word;
        // SAFETY: loads the calling thread's copy of the word defined above.
        unsafe {
            asm!(
                "mov {word}, qword ptr [rip + weft_here@GOTTPOFF]",
                "mov {word}, qword ptr fs:[{word}]",
                word = out(reg) word,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        word
    }

    pub(super) fn set(here: *const Here) {
        // SAFETY: stores into the calling thread's copy of the word defined above.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + weft_here@GOTTPOFF]",
                "mov qword ptr fs:[{place}], {here}",
                place = out(reg) _,
                here = in(reg) here,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// See above.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod word {
    use super::Here;
    use std::cell::Cell;

    thread_local! {
        static HERE: Cell<*const Here> = const { Cell::new(std::ptr::null()) };
    }

    #[inline(always)]
    pub(super) fn get() -> *const Here {
        HERE.get()
    }

    pub(super) fn set(here: *const Here) {
        HERE.set(here);
    }
}

/// Ends a thread's [`Here`] with the thread.
struct Leave(*mut Here);

impl Drop for Leave {
    fn drop(&mut self) {
        word::set(std::ptr::null());
        gate::count_thread(-1);
        // SAFETY: made by `Box::into_raw` in `make`, reached through the word of this thread only, which is null now; the
        // references that `here` gives out do not outlive a call, and no call is under way while a thread drops this.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Here {
    /// What the calling thread remembers, if it has ever remembered something.
    ///
    /// # Safety
    /// The reference does not outlive the call of the program.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>() -> Option<&'a Here> {
        // SAFETY: the word is null or points to what `make` made for this thread, until `Leave` sets it to null.
        unsafe { word::get().as_ref() }
    }

    /// As [`Here::get`], made if need be; `None` when the thread is about to end.
    ///
    /// # Safety
    /// As [`Here::get`].
    #[inline]
    pub(crate) unsafe fn get_or_make<'a>() -> Option<&'a Here> {
        // SAFETY: the caller's promise.
        unsafe { Here::get().or_else(|| Here::make()) }
    }

    /// # Safety
    /// As [`Here::get`].
    #[cold]
    #[inline(never)]
    unsafe fn make<'a>() -> Option<&'a Here> {
        // SAFETY: forgotten by what is attached to it below.
        let mine = unsafe { Mine::get()? };
        let shared = gate::shared();
        let here = Box::into_raw(Box::new(Here {
            mine,
            lanes: &shared.lanes,
            changes: &shared.changes,
            predefined: PREDEFINED.get_or_init(Types::default),
            kept: RefCell::new(Kept::new(0)),
        }));
        word::set(here);
        gate::count_thread(1);
        mine.attach(Box::new(Leave(here)));
        // SAFETY: as in `get`.
        unsafe { Here::get() }
    }

    /// A communicator that this thread remembers.
    #[inline(always)]
    pub(crate) fn known(&self, comm: MPI_Comm) -> Option<&Known> {
        // SAFETY: nothing that a call does while it uses this reference looks anything up: no borrow is mutable meanwhile.
        let kept = unsafe { self.kept.try_borrow_unguarded().ok()? };
        let known = kept.comms[comm.raw() % KEPT].as_deref()?;
        let fresh = known.comm.handle.0 as usize == comm.raw() && self.changes.count() == kept.count;
        fresh.then_some(known)
    }
}

/// The predefined datatypes, which never change.
static PREDEFINED: OnceLock<Types> = OnceLock::new();

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Types>();
};

impl Kept {
    fn new(count: u64) -> Kept {
        Kept {
            count,
            comms: [const { None }; KEPT],
            types: [const { None }; KEPT],
            boards: [const { None }; KEPT],
        }
    }

    /// Forgets everything when something was removed since the last call.
    #[inline]
    fn refresh(&mut self, count: u64) {
        if count != self.count {
            *self = Kept::new(count);
        }
    }

    #[inline]
    fn comm(&mut self, handle: Handle) -> Outcome<&Comm> {
        let place = handle.0 as usize % KEPT;
        if self.comms[place].as_ref().is_none_or(|known| known.comm.handle != handle) {
            // The count was read before the object, so a removal in between is noticed next time.
            let found = gate::with(|process| process.comms.get(handle).map(Comm::snapshot))?;
            let lane = gate::shared().lanes.get(found.lane);
            if lane.is_some() {
                gate::lane_threads::settle(found.lane);
            }
            self.comms[place] = Some(Box::new(Known { comm: found, lane }));
        }
        match &self.comms[place] {
            Some(known) => Ok(&known.comm),
            None => unreachable!("it was put there just now"),
        }
    }

    /// A datatype that can be used in communication.
    fn datatype(&mut self, handle: Handle) -> Outcome<&Datatype> {
        let place = handle.0 as usize % KEPT;
        if self.types[place].as_ref().is_none_or(|(kept, _)| *kept != handle) {
            let found = gate::with(|process| process.types.usable(handle).cloned())?;
            self.types[place] = Some((handle, found));
        }
        match &self.types[place] {
            Some((_, datatype)) => Ok(datatype),
            None => unreachable!("it was put there just now"),
        }
    }
}

/// Lends what this thread remembers, up to date.
fn kept<R>(work: impl FnOnce(&mut Kept) -> Outcome<R>) -> Outcome<R> {
    // SAFETY: used in this function only.
    match unsafe { Here::get_or_make() } {
        Some(here) => {
            let mut kept = here.kept.borrow_mut();
            kept.refresh(here.changes.count());
            work(&mut kept)
        }
        // A thread that is about to end remembers nothing.
        None => work(&mut Kept::new(0)),
    }
}

/// Lends the communicator of a handle. `work` does not look anything up itself.
///
/// # Errors
/// `MPI_ERR_COMM`.
#[inline(never)]
pub(crate) fn comm<R>(handle: Handle, work: impl FnOnce(&Comm) -> Outcome<R>) -> Outcome<R> {
    kept(|kept| work(kept.comm(handle)?))
}

/// Lends a communicator in a lane of its own, to begin something there; `None` when it is in lane 0 or names none, and from a
/// thread that is about to end. `work` may look up other objects than communicators.
pub(crate) fn lend<R>(handle: Handle, work: impl FnOnce(&mut Known) -> R) -> Option<R> {
    // SAFETY: used in this function only.
    let here = unsafe { Here::get_or_make()? };
    let place = handle.0 as usize % KEPT;
    let (mut known, count) = {
        let mut kept = here.kept.borrow_mut();
        kept.refresh(here.changes.count());
        if kept.comm(handle).ok()?.lane == 0 {
            return None;
        }
        (kept.comms[place].take()?, kept.count)
    };
    let result = work(&mut known);
    let mut kept = here.kept.borrow_mut();
    if kept.count == count {
        kept.comms[place] = Some(known);
    }
    Some(result)
}

/// Lends a datatype, committed or not.
///
/// # Errors
/// `MPI_ERR_TYPE`; what `ask` fails with.
pub(crate) fn ask<R>(handle: Handle, ask: impl FnOnce(&Datatype) -> Outcome<R>) -> Outcome<R> {
    if handle.kind_bits() != HandleKind::Datatype as u32 {
        return ask(PREDEFINED.get_or_init(Types::default).get(handle)?);
    }
    // What is not committed may be later, so it is not remembered.
    let mut ask = Some(ask);
    let asked = kept(|kept| match kept.datatype(handle) {
        Ok(datatype) => Ok(ask.take().map(|ask| ask(datatype))),
        Err(_) => Ok(None),
    })?;
    match (asked, ask) {
        (Some(answer), _) => answer,
        (None, ask) => gate::with(|process| {
            let datatype = process.types.get(handle)?;
            ask.map_or_else(|| unreachable!("nobody was asked"), |ask| ask(datatype))
        }),
    }
}

/// Lends the board of a partitioned request ([`weft::request::Requests::board`]); `None` when it has none. The first look of a
/// thread at a request takes the process's lock, later ones do not.
pub(crate) fn board<R>(handle: Handle, to_mark: bool, work: impl FnOnce(&Board) -> R) -> Option<R> {
    let work = |kept: &mut Kept| {
        let place = handle.0 as usize % KEPT;
        if !matches!(&kept.boards[place], Some((known, _)) if *known == handle) {
            let board = gate::with(|process| process.requests.board(handle, to_mark));
            kept.boards[place] = board.map(|board| (handle, board));
        }
        Ok(kept.boards[place].as_ref().map(|(_, board)| work(board)))
    };
    kept(work).ok().flatten()
}

/// Lets go of the board of a partitioned request: the calling thread has the lock of the process to itself now and marks with
/// it. As long as a thread keeps a board, the sending side must look there for marks and cannot keep partitions together.
pub(crate) fn forget_board(here: &Here, handle: Handle) {
    let place = handle.0 as usize % KEPT;
    // A borrow that somebody has up the stack is none of a call that marks.
    if let Ok(mut kept) = here.kept.try_borrow_mut()
        && matches!(&kept.boards[place], Some((known, _)) if *known == handle)
    {
        kept.boards[place] = None;
    }
}

/// Lends a datatype that can be used in communication.
///
/// # Errors
/// `MPI_ERR_TYPE`.
pub(crate) fn datatype<R>(handle: Handle, work: impl FnOnce(&Datatype) -> Outcome<R>) -> Outcome<R> {
    kept(|kept| work(kept.datatype(handle)?))
}

/// Bytes of `count` elements when they are one gap-free run of a predefined type.
#[inline]
pub(crate) fn plain_bytes(handle: Handle, count: i64) -> Option<usize> {
    PREDEFINED.get_or_init(Types::default).plain_bytes(handle, count)
}

/// The buffer of a send argument.
///
/// # Errors
/// `MPI_ERR_TYPE`, `MPI_ERR_BUFFER`.
///
/// # Safety
/// The program keeps the data as they are until the send is complete.
#[inline]
pub(crate) unsafe fn sent(buf: *const std::ffi::c_void, count: i64, of: MPI_Datatype) -> Outcome<SendBuf> {
    match plain_bytes(of.handle(), count) {
        Some(bytes) if buf.addr() > LAST_ADDRESS_CONSTANT => {
            // SAFETY: the caller's promise.
            Ok(unsafe { SendBuf::contiguous(buf.cast(), bytes) })
        }
        // SAFETY: as above.
        _ => datatype(of.handle(), |datatype| unsafe { send_buffer(datatype, buf, count) }),
    }
}

/// The buffer of a receive argument.
///
/// # Errors
/// `MPI_ERR_TYPE`, `MPI_ERR_BUFFER`.
///
/// # Safety
/// The program leaves the memory alone until the receive is complete.
#[inline]
pub(crate) unsafe fn received(buf: *mut std::ffi::c_void, count: i64, of: MPI_Datatype) -> Outcome<RecvBuf> {
    match plain_bytes(of.handle(), count) {
        Some(bytes) if buf.addr() > LAST_ADDRESS_CONSTANT => {
            // SAFETY: the caller's promise.
            Ok(unsafe { RecvBuf::contiguous(buf.cast(), bytes) })
        }
        // SAFETY: as above.
        _ => datatype(of.handle(), |datatype| unsafe { receive_buffer(datatype, buf, count) }),
    }
}
