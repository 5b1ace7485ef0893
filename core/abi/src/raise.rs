//! From an error inside an entry point to the error handler and the returned code (sections 2.8 and 9.3).
//!
//! The code of Weft's own errors is their class, because many programs compare a return value with `MPI_ERR_X`
//! directly. The sentence behind it is kept per thread, latest one first, and joins the class's words in
//! `MPI_Error_string`.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::OnceLock;

use weft::errhandler::Action;
use weft_types::{Error, ErrorClass, Handle, HandleKind, abi};

use crate::ctypes::{
    MPI_Comm, MPI_Comm_errhandler_function, MPI_Datatype, MPI_File, MPI_File_errhandler_function,
    MPI_Session, MPI_Session_errhandler_function, MPI_Win, MPI_Win_errhandler_function,
};
use crate::gate;
use crate::say::say;

/// The object whose error handler is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// None: the error goes to MPI_COMM_SELF's handler, or the initial one (section 2.8).
    Nothing,
    /// A communicator. A stale handle counts as nothing.
    Comm(Handle),
    /// A window. A stale handle counts as nothing.
    Win(Handle),
    /// A file, or none: then it goes to the default file error handler (section 14.7).
    File(Handle),
    /// A session. A stale handle counts as nothing.
    Session(Handle),
    /// The session that a group was derived from; a group of the World Model counts as nothing.
    Group(Handle),
    /// A session that does not exist yet, with the error handler it is to have (section 11.3.1).
    Opening(Handle),
}

/// An error on its way to a handler. One pointer wide, so that a result stays in a register.
pub(crate) struct Raised(Box<Inner>);

struct Inner {
    error: Error,
    on: On,
    /// What the procedure returns instead of the class: `MPI_ERR_IN_STATUS`, or the code a user's callback returned.
    code: Option<c_int>,
}

impl From<Error> for Raised {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Raised {
        Raised::new(error, On::Nothing)
    }
}

impl Raised {
    fn new(error: Error, on: On) -> Raised {
        Raised(Box::new(Inner { error, on, code: None }))
    }

    /// An error on the communicator or window of a request.
    #[cold]
    pub(crate) fn on_comm(comm: Handle, error: Error) -> Raised {
        let of_window = comm.kind_bits() == HandleKind::Win as u32;
        Raised::new(error, if of_window { On::Win(comm) } else { On::Comm(comm) })
    }

    /// The same error, raised on a communicator if on nothing else.
    #[cold]
    pub(crate) fn or_on_comm(self, comm: Handle) -> Raised {
        self.or_on(On::Comm(comm))
    }

    /// The same error, raised on an object if on nothing else.
    pub(crate) fn or_on(mut self, on: On) -> Raised {
        if self.0.on == On::Nothing {
            self.0.on = on;
        }
        self
    }

    /// The same error; when it is about one of the call's datatypes or counts, its text begins with that argument's name.
    ///
    /// Behind the entry points nobody knows how an argument is called, only which side of a call it belongs to. What the handles
    /// and numbers of that side themselves say is compared with the text, so that arguments which are not significant here, or
    /// right, are never blamed.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_argument(
        mut self,
        types: &[(&'static str, MPI_Datatype)],
        counts: &[(&'static str, i64)],
    ) -> Raised {
        let error = &self.0.error;
        let possible = |name: &str| error.side().is_none_or(|side| side.may_have(name));
        let named = match error.class() {
            ErrorClass::TYPE if gate::phase() & (gate::WORLD | gate::SESSION) != 0 => gate::with(|process| {
                let complains = |handle: Handle, text: &str| match process.types.usable(handle) {
                    Err(unusable) => unusable.text() == text,
                    Ok(datatype) => {
                        datatype.check_distinct(u64::MAX).is_err_and(|error| error.text() == text)
                    }
                };
                // Where both sides may have entries that overlap, the receiving one comes last.
                let wrong = |&&(name, of): &&(&str, MPI_Datatype)| {
                    possible(name) && complains(of.handle(), error.text())
                };
                types.iter().rev().find(wrong).map(|(name, _)| *name)
            }),
            ErrorClass::COUNT => {
                let found = counts
                    .iter()
                    .find(|&&(name, count)| possible(name) && error.text() == negative_count(count));
                found.map(|(name, _)| *name)
            }
            _ => None,
        };
        if let Some(name) = named {
            self.0.error = Error::new(error.class(), format!("{name}: {}", error.text()));
        }
        self
    }

    /// The procedure returns `code`.
    #[cold]
    pub(crate) fn returning(mut self, code: c_int) -> Raised {
        self.0.code = Some(code);
        self
    }

    /// The code that the procedure returns.
    pub(crate) fn code(&self) -> c_int {
        self.0.code.unwrap_or(self.0.error.class().code())
    }
}

/// What is said of a count that must not be negative.
pub(crate) fn negative_count(count: i64) -> String {
    format!("the count is {count}, but it must not be negative")
}

thread_local! {
    /// The latest error of this thread: its class and the sentence with the procedure's name.
    static LATEST: RefCell<Option<(c_int, String)>> = const { RefCell::new(None) };
}

/// The sentence of this thread's latest error, if it has that class.
pub(crate) fn latest_of(class: c_int) -> Option<String> {
    LATEST.with_borrow(|latest| latest.as_ref().filter(|(of, _)| *of == class).map(|(_, text)| text.clone()))
}

fn remember(class: c_int, text: String) {
    LATEST.set(Some((class, text)));
}

/// The return value of the entry point `function`.
#[inline(always)]
pub(crate) fn finish(function: &'static str, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raise(function, raised),
    }
}

/// The return value of the entry point `function`, whose errors without another object are raised on `comm`.
#[inline(always)]
pub(crate) fn finish_on_comm(function: &'static str, comm: MPI_Comm, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raise_on_comm(function, comm, raised),
    }
}

#[cold]
#[inline(never)]
fn raise_on_comm(function: &'static str, comm: MPI_Comm, raised: Raised) -> c_int {
    raise(function, raised.or_on_comm(comm.handle()))
}

/// The return value of the entry point `function`, whose errors without another object are raised on `win`.
#[inline(always)]
pub(crate) fn finish_on_win(function: &'static str, win: MPI_Win, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raise(function, raised.or_on(On::Win(win.handle()))),
    }
}

/// The return value of the entry point `function`, whose errors without another object are raised on `object`. For procedures
/// that no program calls often.
pub(crate) fn finish_on(function: &'static str, object: On, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raise(function, raised.or_on(object)),
    }
}

/// The return value of the `MPI_T_` entry point `function`: no error handler runs (section 15.3.10).
#[inline(always)]
pub(crate) fn finish_tool(_function: &'static str, result: Result<(), Raised>) -> c_int {
    match result {
        Ok(()) => abi::MPI_SUCCESS,
        Err(raised) => raised.0.error.class().code(),
    }
}

/// Runs the error handler that is due.
#[cold]
#[inline(never)]
pub(crate) fn raise(function: &'static str, raised: Raised) -> c_int {
    let Inner { error, on, code } = *raised.0;
    let class = error.class().code();
    let code = code.unwrap_or(class);
    remember(class, format!("{function}: {}", error.text()));
    // With MPI_ERR_IN_STATUS the handler is told the failing request's own code (section 9.3.1).
    let told = if code == abi::MPI_ERR_IN_STATUS { class } else { code };
    run_handler(function, on, &error, told);
    code
}

/// Calls a user's error handler on an object, as `MPI_Comm_call_errhandler` does; the predefined ones end processes or return.
pub(crate) fn call_errhandler(function: &'static str, on: On, code: c_int) {
    let class = gate::always(|always| always.codes.class(code)).unwrap_or(abi::MPI_ERR_UNKNOWN);
    let error =
        Error::new(ErrorClass(class), format!("the program called the error handler with code {code}"));
    run_handler(function, on, &error, code);
}

fn run_handler(function: &'static str, on: On, error: &Error, code: c_int) {
    let (on, errhandler) = handler_of(on);
    match gate::always(|always| always.errhandlers.action(errhandler)) {
        Action::Return => {}
        Action::Fatal => end(function, error, code, on, "MPI_ERRORS_ARE_FATAL"),
        Action::Abort => end(function, error, code, on, "MPI_ERRORS_ABORT"),
        Action::Call(address) => call_handler(function, on, address, error, code),
    }
}

/// The initial error handler (section 11.2.1).
fn initial_errhandler() -> Handle {
    static INITIAL: OnceLock<Handle> = OnceLock::new();
    *INITIAL.get_or_init(|| {
        let asked = weft::environment::Requests::before_joining().initial_errhandler;
        weft::environment::initial_errhandler(asked.as_deref())
    })
}

/// The object that counts in the end, and its error handler (section 9.3, figure 9.1).
fn handler_of(on: On) -> (On, Handle) {
    if let On::Opening(errhandler) = on {
        return (on, errhandler);
    }
    if gate::phase() & (gate::WORLD | gate::SESSION) == 0 {
        return (On::Nothing, initial_errhandler());
    }
    // Also calls that are always allowed fail.
    gate::from_any_thread();
    let found = gate::with(|process| {
        let session = |handle: Handle| {
            let session = process.sessions.get(handle).ok()?;
            Some((On::Session(handle), session.errhandler))
        };
        let own = match on {
            On::Comm(comm) => {
                process.comms.get(comm).ok().map(|comm| (On::Comm(comm.handle), comm.errhandler))
            }
            On::Win(win) => process.windows.get(win).ok().map(|win| (On::Win(win.handle), win.errhandler)),
            On::File(_) => Some((On::File(Handle(abi::MPI_FILE_NULL)), process.file_errhandler)),
            On::Session(handle) => session(handle),
            On::Group(group) => process.sessions.origin(group).and_then(session),
            On::Nothing | On::Opening(_) => None,
        };
        own.or_else(|| {
            let own = process.comms.get(Handle(abi::MPI_COMM_SELF)).ok()?;
            Some((On::Comm(own.handle), own.errhandler))
        })
    });
    found.unwrap_or_else(|| (On::Nothing, initial_errhandler()))
}

thread_local! {
    /// Error handlers of the program that run in this thread, one inside the other.
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// A handler whose own calls fail on the same object calls itself for ever; before the stack ends, the job does.
const DEEPEST: u32 = 100;

fn call_handler(function: &'static str, on: On, address: usize, error: &Error, mut code: c_int) {
    if NESTED.get() == DEEPEST {
        let text = format!(
            "an error handler of the program made calls that failed on the same object, {DEEPEST} levels deep; the latest: {}",
            error.text()
        );
        end(function, &Error::new(error.class(), text), code, on, "of the program has no end and so");
    }
    NESTED.set(NESTED.get() + 1);
    match on {
        On::Session(handle) => {
            let mut session = MPI_Session::from_raw(handle.0);
            // SAFETY: the address came from MPI_Session_create_errhandler.
            let handler = unsafe { std::mem::transmute::<usize, MPI_Session_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.4 says.
            unsafe { handler(&raw mut session, &raw mut code) };
        }
        On::Opening(_) => {
            let mut session = MPI_Session::from_raw(abi::MPI_SESSION_NULL);
            // SAFETY: as above.
            let handler = unsafe { std::mem::transmute::<usize, MPI_Session_errhandler_function>(address) };
            // SAFETY: as above.
            unsafe { handler(&raw mut session, &raw mut code) };
        }
        On::Win(win) => {
            let mut win = MPI_Win::from_raw(win.0);
            // SAFETY: the address came from MPI_Win_create_errhandler.
            let handler = unsafe { std::mem::transmute::<usize, MPI_Win_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.2 says.
            unsafe { handler(&raw mut win, &raw mut code) };
        }
        On::File(file) => {
            let mut file = MPI_File::from_raw(file.0);
            // SAFETY: the address came from MPI_File_create_errhandler.
            let handler = unsafe { std::mem::transmute::<usize, MPI_File_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.3 says.
            unsafe { handler(&raw mut file, &raw mut code) };
        }
        On::Comm(_) | On::Group(_) | On::Nothing => {
            let handle = if let On::Comm(comm) = on { comm } else { Handle(abi::MPI_COMM_SELF) };
            let mut comm = MPI_Comm::from_raw(handle.0);
            // SAFETY: the address came from MPI_Comm_create_errhandler.
            let handler = unsafe { std::mem::transmute::<usize, MPI_Comm_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.1 says.
            unsafe { handler(&raw mut comm, &raw mut code) };
        }
    }
    NESTED.set(NESTED.get() - 1);
}

/// Whom MPI_ERRORS_ABORT ends: the processes of the object, of a session or no object this one (section 9.3).
fn scope(on: On) -> Option<Vec<u32>> {
    if gate::phase() & (gate::WORLD | gate::SESSION) == 0 {
        return None;
    }
    gate::with(|process| match on {
        On::Comm(comm) => process.abort_scope(comm),
        On::Win(win) => {
            let win = process.windows.get(win).ok()?;
            process.some_ranks(&win.group)
        }
        // No file of a group can exist without MPI-IO; MPI_FILE_NULL is everybody's own.
        On::File(_) | On::Nothing | On::Session(_) | On::Opening(_) | On::Group(_) => {
            Some(vec![process.job.rank]).filter(|_| process.job.size > 1)
        }
    })
}

/// Prints one screen and ends the job, or what the handler `MPI_ERRORS_ABORT` is about.
#[cold]
fn end(function: &'static str, error: &Error, code: c_int, on: On, handler: &str) -> ! {
    let class = error.class();
    let who = match gate::identity() {
        Some((rank, size)) => format!("rank {rank} of {size}"),
        None => "a process outside initialised MPI".to_owned(),
    };
    let object = match on {
        On::Nothing => "no object, where the initial error handler".to_owned(),
        On::Session(_) | On::Opening(_) | On::Group(_) => "a session, whose error handler".to_owned(),
        On::File(_) => "MPI_FILE_NULL, whose error handler".to_owned(),
        On::Win(win) => gate::with(|process| {
            let name = process.windows.get(win).map(|win| win.display_name());
            format!("{}, whose error handler", name.unwrap_or_else(|_| "a window".to_owned()))
        }),
        On::Comm(comm) => gate::with(|process| {
            let name = process.comms.get(comm).map(|comm| comm.display_name());
            format!("{}, whose error handler", name.unwrap_or_else(|_| "a communicator".to_owned()))
        }),
    };
    let scope = if handler == "MPI_ERRORS_ABORT" { scope(on) } else { None };
    let victims = if scope.is_some() { "the processes it is about" } else { "the job" };
    let meaning = weft::codes::standard_text(class.code()).unwrap_or("error class of the program");
    say(&format!(
        "weft: {function} failed on {who} (process {})\n  \
           class    {class:?} ({}): {meaning}\n  \
           reason   {}\n  \
           raised   on {object} {handler} ends {victims}\n  \
           remedy   correct the call, or attach MPI_ERRORS_RETURN to handle the error in the program",
        std::process::id(),
        class.code(),
        error.text()
    ));
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    let message = format!("{function} failed on {who}: {class:?}: {}", error.text());
    match scope {
        Some(ranks) => gate::abort_ranks(status, &message, &ranks),
        None => gate::abort(status, &message),
    }
}

/// Raises the error of a procedure that Weft does not have yet.
#[cold]
#[inline(never)]
pub(crate) fn unsupported(function: &'static str) -> c_int {
    let of_files = function.starts_with("MPI_File_");
    let on = if of_files { On::File(Handle(abi::MPI_FILE_NULL)) } else { On::Nothing };
    let text = "this procedure is not implemented in Weft yet";
    raise(function, Raised::new(Error::new(ErrorClass::UNSUPPORTED_OPERATION, text), on))
}
