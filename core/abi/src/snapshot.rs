//! What a thread remembers of communicators and datatypes, so that with MPI_THREAD_MULTIPLE it finds them without the
//! process's lock.
//!
//! Each thread keeps the last few it used, and drops them all when something of their kind was removed (one Acquire load
//! tells, see [`weft::comm::Changes`]). Nothing that a program can change in an object that lives is kept, but for the name of
//! a communicator in error texts.

use std::cell::RefCell;
use std::sync::OnceLock;

use weft::comm::Comm;
use weft::lanes::Lane;
use weft::types::Types;
use weft_datatype::{Datatype, RecvBuf, SendBuf};
use weft_types::{Handle, Result as Outcome};

use crate::ctypes::MPI_Datatype;
use crate::gate;
use crate::imp::{LAST_ADDRESS_CONSTANT, receive_buffer, send_buffer};

/// Objects of each kind that a thread remembers; a power of two.
const KEPT: usize = 8;

struct Known {
    comm: Comm,
    /// Its lane, unless that is lane 0.
    lane: Option<&'static Lane>,
}

struct Kept {
    /// The count of changes when the memory was empty last.
    count: u64,
    comms: [Option<Box<Known>>; KEPT],
    types: [Option<(Handle, Datatype)>; KEPT],
}

thread_local! {
    static KEPT_HERE: RefCell<Kept> =
        const { RefCell::new(Kept { count: 0, comms: [const { None }; KEPT], types: [const { None }; KEPT] }) };
}

/// The predefined datatypes, which never change.
static PREDEFINED: OnceLock<Types> = OnceLock::new();

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Types>();
};

impl Kept {
    /// Forgets everything when something was removed since the last call.
    #[inline]
    fn refresh(&mut self) {
        let count = gate::shared().changes.count();
        if count != self.count {
            self.comms = [const { None }; KEPT];
            self.types = [const { None }; KEPT];
            self.count = count;
        }
    }

    #[inline]
    fn comm(&mut self, handle: Handle) -> Outcome<&Comm> {
        self.refresh();
        let place = handle.0 as usize % KEPT;
        if self.comms[place].as_ref().is_none_or(|known| known.comm.handle != handle) {
            // The count was read before the object, so a removal in between is noticed next time.
            let found = gate::with(|process| process.comms.get(handle).map(Comm::snapshot))?;
            let lane = gate::shared().lanes.get(found.lane);
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

/// Lends the communicator of a handle. `work` does not look anything up itself.
///
/// # Errors
/// `MPI_ERR_COMM`.
#[inline(never)]
pub(crate) fn comm<R>(handle: Handle, work: impl FnOnce(&Comm) -> Outcome<R>) -> Outcome<R> {
    KEPT_HERE.with_borrow_mut(|kept| work(kept.comm(handle)?))
}

/// Lends a communicator that this thread remembers and that lives in a lane of its own; `None` for all others.
#[inline]
pub(crate) fn known<R>(handle: Handle, work: impl FnOnce(&Comm, &'static Lane) -> Option<R>) -> Option<R> {
    KEPT_HERE.with_borrow_mut(|kept| {
        kept.refresh();
        let known = kept.comms[handle.0 as usize % KEPT].as_ref()?;
        if known.comm.handle == handle { work(&known.comm, known.lane?) } else { None }
    })
}

/// Lends a datatype that can be used in communication.
fn datatype<R>(handle: Handle, work: impl FnOnce(&Datatype) -> Outcome<R>) -> Outcome<R> {
    KEPT_HERE.with_borrow_mut(|kept| {
        kept.refresh();
        work(kept.datatype(handle)?)
    })
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
