//! What the standard says of one request: whether it is active, how it ends, and what a status tells of that.

use std::ffi::{c_int, c_void};

use weft_types::abi;

use super::calls::*;
use crate::ctypes::*;

/// What stands in every field of a status before a call.
pub(super) const MARK: c_int = 7_777_777;
/// Bytes of each buffer; of them a receive has [`ROOM`].
pub(super) const BYTES: usize = 40_000;
pub(super) const ROOM: usize = 20_000;
/// Looks after which what can end has ended: progress is made by every one (section 3.7.4).
const LOOKS: u32 = 50;

pub(super) fn byte() -> MPI_Datatype {
    MPI_Datatype::from_raw(abi::MPI_BYTE)
}

pub(super) fn null() -> MPI_Request {
    MPI_Request::from_raw(abi::MPI_REQUEST_NULL)
}

pub(super) fn no_comm() -> MPI_Comm {
    MPI_Comm::from_raw(abi::MPI_COMM_NULL)
}

pub(super) fn marked() -> MPI_Status {
    MPI_Status { source: MARK, tag: MARK, error: MARK, internal: [MARK; 5] }
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Synchronous,
    Receive,
    FromNobody,
    ToItself,
    Barrier,
    Duplicate,
    Generalized,
    SendParts,
    ReceiveParts,
}

/// Where a request is (section 3.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Null,
    Inactive,
    Active,
}

/// Whether an active request's operation can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Something must happen first.
    No,
    /// A send whose message nobody has received: the library's choice.
    May,
    /// Within some looks.
    Must,
    /// It was seen complete.
    Now,
}

/// What a status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Source, tag and bytes; of sends and collectives nothing is said.
    pub(super) message: Option<(c_int, c_int, c_int)>,
    pub(super) cancelled: bool,
}

pub(super) const EMPTY: Told =
    Told { message: Some((abi::MPI_ANY_SOURCE, abi::MPI_ANY_TAG, 0)), cancelled: false };

/// How often the functions of a generalized request were called, and what they answer.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pub(super) queried: u32,
    pub(super) freed: u32,
    pub(super) query_code: c_int,
    pub(super) free_code: c_int,
    pub(super) says: (c_int, c_int, c_int),
    pub(super) cancelled: bool,
}

impl Functions {
    /// The code of the call that completes it (section 13.2); a query function's is not lost where the free function has none.
    fn code(&self) -> c_int {
        if self.free_code != abi::MPI_SUCCESS { self.free_code } else { self.query_code }
    }
}

pub(super) unsafe extern "C" fn query(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: the state is a slot's functions, which live as long as the request; the status is the library's.
    unsafe {
        let functions = &mut *state.cast::<Functions>();
        functions.queried += 1;
        ((*status).source, (*status).tag) = (functions.says.0, functions.says.1);
        PMPI_Status_set_elements(status, byte(), functions.says.2);
        PMPI_Status_set_cancelled(status, c_int::from(functions.cancelled));
        functions.query_code
    }
}

pub(super) unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    // SAFETY: as in `query`.
    unsafe {
        let functions = &mut *state.cast::<Functions>();
        functions.freed += 1;
        functions.free_code
    }
}

pub(super) unsafe extern "C" fn cancel(_: *mut c_void, _: c_int) -> c_int {
    abi::MPI_SUCCESS
}

/// One request of a program.
pub(super) struct Slot {
    pub(super) request: MPI_Request,
    pub(super) kind: Kind,
    pub(super) persistent: bool,
    pub(super) comm: usize,
    pub(super) tag: c_int,
    pub(super) state: State,
    pub(super) ends: Ends,
    pub(super) told: Told,
    /// The operation's error: a class of the library, or a code of the program's function.
    pub(super) error: c_int,
    /// Looks that did not find what must end.
    looks: u32,
    /// The message of a completed send, or the other end of a partitioned operation, is still to be taken.
    pub(super) owes: bool,
    /// The other end of a partitioned operation.
    pub(super) other: MPI_Request,
    /// The communicator that the request makes.
    pub(super) made: MPI_Comm,
    pub(super) functions: Box<Functions>,
    pub(super) here: Vec<u8>,
    pub(super) there: Vec<u8>,
}

impl Slot {
    pub(super) fn new(tag: c_int) -> Slot {
        Slot {
            request: null(),
            kind: Kind::Send,
            persistent: false,
            comm: 0,
            tag,
            state: State::Null,
            ends: Ends::No,
            told: EMPTY,
            error: abi::MPI_SUCCESS,
            looks: 0,
            owes: false,
            other: null(),
            made: no_comm(),
            functions: Box::default(),
            here: vec![0; BYTES],
            there: vec![0; BYTES],
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    pub(super) fn must_end(&self) -> bool {
        matches!(self.ends, Ends::Must | Ends::Now)
    }

    /// The operation has begun.
    pub(super) fn begins(&mut self) {
        (self.state, self.ends, self.error, self.looks) = (State::Active, Ends::No, abi::MPI_SUCCESS, 0);
        self.told = Told { message: None, cancelled: false };
        match self.kind {
            Kind::Send => (self.ends, self.owes) = (Ends::May, true),
            Kind::FromNobody => {
                self.ends = Ends::Must;
                self.told.message = Some((abi::MPI_PROC_NULL, abi::MPI_ANY_TAG, 0));
            }
            Kind::ToItself => {
                self.ends = Ends::Must;
                self.told.message = Some((0, self.tag, 100));
            }
            Kind::Barrier | Kind::Duplicate => self.ends = Ends::Must,
            Kind::Generalized => {
                self.told = Told { message: Some(self.functions.says), cancelled: self.functions.cancelled };
            }
            Kind::Synchronous | Kind::Receive | Kind::SendParts | Kind::ReceiveParts => {}
        }
    }

    /// The operation ends with the next looks.
    pub(super) fn will_end(&mut self) {
        if self.ends != Ends::Now {
            self.ends = Ends::Must;
        }
    }

    /// A call that was free to report it did not.
    pub(super) fn passed_over(&mut self) {
        if !self.is_active() {
            return;
        }
        assert!(self.ends != Ends::Now, "{} was complete before and is not any more", self.words());
        if self.ends == Ends::Must {
            self.looks += 1;
            assert!(self.looks < LOOKS, "{} starves", self.words());
        }
    }

    /// A call says that the operation has completed; `taken` when that call is to deallocate or inactivate it.
    pub(super) fn reported(&mut self, taken: bool) {
        assert!(self.is_active(), "{} is not active but reported", self.words());
        assert!(self.ends != Ends::No, "{} cannot have ended", self.words());
        self.ends = Ends::Now;
        if taken {
            let has_made = self.kind != Kind::Duplicate || self.made != no_comm();
            assert!(has_made, "no communicator from {}", self.words());
            self.state = if self.persistent { State::Inactive } else { State::Null };
        }
    }

    /// The error code of a call that completes or shows it: of shown ones the free function has no say.
    pub(super) fn expected(&self, taken: bool) -> c_int {
        match self.kind {
            Kind::Generalized if taken => self.functions.code(),
            Kind::Generalized => self.functions.query_code,
            _ => self.error,
        }
    }

    /// Checks what the status says of the request, which has ended so; the error field apart.
    pub(super) fn check(&self, status: &MPI_Status) {
        check(&self.told, status, &self.words());
    }

    pub(super) fn words(&self) -> String {
        format!(
            "{:?} (persistent: {}, tag {}, {:?}, ends {:?})",
            self.kind, self.persistent, self.tag, self.state, self.ends
        )
    }
}

/// Checks a status but for its error field.
pub(super) fn check(told: &Told, status: &MPI_Status, whose: &str) {
    let (mut count, mut cancelled) = (MARK, MARK);
    // SAFETY: a status that a call has filled.
    unsafe {
        PMPI_Test_cancelled(status, &raw mut cancelled);
        PMPI_Get_count(status, byte(), &raw mut count);
    }
    assert_eq!(cancelled, c_int::from(told.cancelled), "cancelled? {whose}");
    if let Some(message) = told.message {
        assert_eq!((status.source, status.tag, count), message, "source, tag and count of {whose}");
    }
}

/// Checks a code: `expected` is a class of the library's errors, or a code of the program's.
pub(super) fn check_code(code: c_int, expected: c_int, whose: &str) {
    let mut class = MARK;
    // SAFETY: our own integer.
    unsafe { PMPI_Error_class(code, &raw mut class) };
    assert!(
        code == expected || class == expected,
        "code {code} (class {class}) instead of {expected}: {whose}"
    );
}
