//! From an error inside an entry point to the error handler and the returned code (sections 2.8 and 9.3).
//!
//! The code of Weft's own errors is their class, because many programs compare a return value with `MPI_ERR_X`
//! directly. The sentence behind it is kept per thread, latest one first, and joins the class's words in
//! `MPI_Error_string`.

use std::cell::RefCell;
use std::ffi::c_int;

use weft::errhandler::Action;
use weft_types::{Error, ErrorClass, Handle, HandleKind, abi};

use crate::ctypes::{
    MPI_Comm, MPI_Comm_errhandler_function, MPI_Session, MPI_Session_errhandler_function, MPI_Win,
    MPI_Win_errhandler_function,
};
use crate::gate;

/// The object whose error handler is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// None: the error goes to MPI_COMM_SELF's handler, or the initial one (section 2.8).
    Nothing,
    /// A communicator. A stale handle counts as nothing.
    Comm(Handle),
    /// A window. A stale handle counts as nothing.
    Win(Handle),
    /// A session with this error handler.
    Session(MPI_Session, Handle),
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

    /// An error on a session with that error handler.
    #[cold]
    pub(crate) fn on_session(session: MPI_Session, errhandler: Handle, error: Error) -> Raised {
        Raised::new(error, On::Session(session, errhandler))
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

/// The return value of the `MPI_T_` entry point `function`: no error handler runs (section 15.3.10).
#[inline(always)]
#[allow(dead_code, reason = "called by generated code once an MPI_T procedure is implemented")]
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
    let (on, errhandler) = handler_of(on);
    match gate::always(|always| always.errhandlers.action(errhandler)) {
        Action::Return => {}
        Action::Fatal => end(function, &error, told, on, "MPI_ERRORS_ARE_FATAL"),
        Action::Abort => end(function, &error, told, on, "MPI_ERRORS_ABORT"),
        Action::Call(address) => call_handler(on, address, told),
    }
    code
}

/// Calls a user's error handler on an object, as `MPI_Comm_call_errhandler` does; the predefined ones end the job or return.
pub(crate) fn call_errhandler(function: &'static str, on: On, code: c_int) {
    let (on, errhandler) = handler_of(on);
    let class = gate::always(|always| always.codes.class(code)).unwrap_or(abi::MPI_ERR_UNKNOWN);
    let error =
        Error::new(ErrorClass(class), format!("the program called the error handler with code {code}"));
    match gate::always(|always| always.errhandlers.action(errhandler)) {
        Action::Return => {}
        Action::Fatal => end(function, &error, code, on, "MPI_ERRORS_ARE_FATAL"),
        Action::Abort => end(function, &error, code, on, "MPI_ERRORS_ABORT"),
        Action::Call(address) => call_handler(on, address, code),
    }
}

/// The object that counts in the end, and its error handler.
fn handler_of(on: On) -> (On, Handle) {
    if let On::Session(_, errhandler) = on {
        return (on, errhandler);
    }
    let phase = gate::phase();
    if phase & (gate::WORLD | gate::SESSION) == 0 {
        return (On::Nothing, Handle(abi::MPI_ERRORS_ARE_FATAL));
    }
    gate::with(|process| {
        if let On::Comm(comm) = on
            && let Ok(comm) = process.comms.get(comm)
        {
            return (On::Comm(comm.handle), comm.errhandler);
        }
        if let On::Win(win) = on
            && let Ok(win) = process.windows.get(win)
        {
            return (On::Win(win.handle), win.errhandler);
        }
        match process.comms.get(Handle(abi::MPI_COMM_SELF)) {
            Ok(own) => (On::Comm(own.handle), own.errhandler),
            Err(_) => (On::Nothing, process.initial_errhandler),
        }
    })
}

fn call_handler(on: On, address: usize, mut code: c_int) {
    match on {
        On::Session(mut session, _) => {
            // SAFETY: the address came from MPI_Session_create_errhandler.
            let function = unsafe { std::mem::transmute::<usize, MPI_Session_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.4 says.
            unsafe { function(&raw mut session, &raw mut code) };
        }
        On::Win(win) => {
            let mut win = MPI_Win::from_raw(win.0);
            // SAFETY: the address came from MPI_Win_create_errhandler.
            let function = unsafe { std::mem::transmute::<usize, MPI_Win_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.2 says.
            unsafe { function(&raw mut win, &raw mut code) };
        }
        On::Comm(_) | On::Nothing => {
            let handle = if let On::Comm(comm) = on { comm } else { Handle(abi::MPI_COMM_SELF) };
            let mut comm = MPI_Comm::from_raw(handle.0);
            // SAFETY: the address came from MPI_Comm_create_errhandler.
            let function = unsafe { std::mem::transmute::<usize, MPI_Comm_errhandler_function>(address) };
            // SAFETY: the program's function, called as section 9.3.1 says.
            unsafe { function(&raw mut comm, &raw mut code) };
        }
    }
}

/// Prints one screen and ends the job.
#[cold]
fn end(function: &'static str, error: &Error, code: c_int, on: On, handler: &str) -> ! {
    let class = error.class();
    let who = match gate::identity() {
        Some((rank, size)) => format!("rank {rank} of {size}"),
        None => "a process outside initialised MPI".to_owned(),
    };
    let object = match on {
        On::Nothing => "no object; the initial error handler".to_owned(),
        On::Session(..) => "a session".to_owned(),
        On::Win(win) => gate::with(|process| {
            process.windows.get(win).map_or_else(|_| "a window".to_owned(), |win| win.display_name())
        }),
        On::Comm(comm) => gate::with(|process| {
            process.comms.get(comm).map_or_else(|_| "a communicator".to_owned(), |comm| comm.display_name())
        }),
    };
    let meaning = weft::codes::standard_text(class.code()).unwrap_or("error class of the program");
    eprintln!(
        "weft: {function} failed on {who} (process {})\n  \
           class    {class:?} ({}): {meaning}\n  \
           reason   {}\n  \
           raised   on {object}, whose error handler {handler} ends the job\n  \
           remedy   correct the call, or attach MPI_ERRORS_RETURN to handle the error in the program",
        std::process::id(),
        class.code(),
        error.text()
    );
    let status = if code & 0xff == 0 { 1 } else { code & 0xff };
    gate::abort(status, &format!("{function} failed on {who}: {class:?}: {}", error.text()))
}

/// Raises the error of a procedure that Weft does not have yet.
#[cold]
#[inline(never)]
pub(crate) fn unsupported(function: &'static str) -> c_int {
    raise(
        function,
        Error::new(ErrorClass::UNSUPPORTED_OPERATION, "this procedure is not implemented in Weft yet").into(),
    )
}

/// The same for `MPI_T_` procedures, which only return a code.
#[cold]
#[inline(never)]
pub(crate) fn unsupported_tool(_function: &'static str) -> c_int {
    abi::MPI_T_ERR_NOT_SUPPORTED
}
