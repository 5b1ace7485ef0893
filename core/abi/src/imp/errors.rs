//! Error handlers, classes, codes and strings (sections 9.3 to 9.5).

use std::ffi::{c_char, c_int};

use weft::Process;
use weft::errhandler::{Action, Target};
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use super::environment::{bytes, write_string};
use crate::ctypes::*;
use crate::gate;
use crate::raise::{self, On, Raised};

unsafe fn create(target: Target, function: usize, errhandler: *mut MPI_Errhandler) -> Result<(), Raised> {
    if function < 4096 {
        return Err(Error::new(ErrorClass::ARG, "the error handler function is a null pointer").into());
    }
    let handle = gate::always(|always| always.errhandlers.create(target, function))?;
    // SAFETY: the entry has refused null.
    unsafe { errhandler.write(MPI_Errhandler::from_raw(handle.0)) };
    Ok(())
}

macro_rules! creators {
    ($($name:ident: $target:ident $function:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        pub(crate) unsafe fn $name(
            function: Callback<$function>,
            errhandler: *mut MPI_Errhandler,
        ) -> Result<(), Raised> {
            // SAFETY: the entry has refused null.
            unsafe { create(Target::$target, function.raw(), errhandler) }
        }
    )*};
}

creators! {
    comm_create_errhandler: Comm MPI_Comm_errhandler_function, "`MPI_Comm_create_errhandler` (section 9.3.1).";
    win_create_errhandler: Win MPI_Win_errhandler_function, "`MPI_Win_create_errhandler` (section 9.3.2).";
    file_create_errhandler: File MPI_File_errhandler_function, "`MPI_File_create_errhandler` (section 9.3.3).";
    session_create_errhandler: Session MPI_Session_errhandler_function, "`MPI_Session_create_errhandler` (section 9.3.4).";
}

/// Where the error handler of an object is kept, and what handlers may stand there.
///
/// # Errors
/// The class of the object for a bad handle. `MPI_FILE_NULL` stands for the default of files (section 14.7).
fn place(process: &mut Process, object: On) -> Outcome<(&mut Handle, Target)> {
    Ok(match object {
        On::Comm(comm) => (&mut process.comms.get_mut(comm)?.errhandler, Target::Comm),
        On::Win(win) => (&mut process.windows.get_mut(win)?.errhandler, Target::Win),
        On::Session(session) => (&mut process.sessions.get_mut(session)?.errhandler, Target::Session),
        On::File(Handle(abi::MPI_FILE_NULL)) => (&mut process.file_errhandler, Target::File),
        On::File(file) => {
            let text = format!(
                "fh is {:#x}, which is no open file; MPI_FILE_NULL stands for the default of files",
                file.0
            );
            return Err(Error::new(ErrorClass::FILE, text));
        }
        On::Nothing | On::Group(_) | On::Opening(_) => {
            unreachable!("these have no error handler of their own")
        }
    })
}

/// Attaches a handler; the reference to the old one goes. Both happen under the gate, so that no other thread sees a handler
/// that is gone.
fn attach(object: On, errhandler: MPI_Errhandler) -> Result<(), Raised> {
    gate::with(|process| {
        let (place, target) = place(process, object)?;
        let action = gate::always(|always| {
            always.errhandlers.attach(target, errhandler.handle())?;
            always.errhandlers.release(std::mem::replace(place, errhandler.handle()));
            Ok(always.errhandlers.action(errhandler.handle()))
        })?;
        if object == On::Comm(Handle(abi::MPI_COMM_WORLD))
            && matches!(action, Action::Return | Action::Call(_))
        {
            process.survive_losses();
        }
        Ok(())
    })
    .map_err(|error: Error| Raised::from(error).or_on(object))
}

/// Gives out a new reference to the handler attached, which the program frees.
unsafe fn attached(object: On, errhandler: *mut MPI_Errhandler) -> Result<(), Raised> {
    let handle = gate::with(|process| {
        let handle = *place(process, object)?.0;
        gate::always(|always| always.errhandlers.hand_out(handle));
        Ok(handle)
    })
    .map_err(|error: Error| Raised::from(error).or_on(object))?;
    // SAFETY: the entry has refused null.
    unsafe { errhandler.write(MPI_Errhandler::from_raw(handle.0)) };
    Ok(())
}

/// Calls the handler attached (section 9.5.2).
fn call(function: &'static str, object: On, errorcode: c_int) -> Result<(), Raised> {
    gate::with(|process| place(process, object).map(drop))?;
    gate::always(|always| always.codes.class(errorcode))?;
    raise::call_errhandler(function, object, errorcode);
    Ok(())
}

macro_rules! handlers_of {
    ($($kind:ident $handle:ident $section:literal: $set:ident $get:ident $call:ident $name:literal;)*) => {$(
        #[doc = concat!("`MPI_", stringify!($kind), "_set_errhandler` (section ", $section, ").")]
        pub(crate) unsafe fn $set(object: $handle, errhandler: MPI_Errhandler) -> Result<(), Raised> {
            attach(On::$kind(object.handle()), errhandler)
        }

        #[doc = concat!("`MPI_", stringify!($kind), "_get_errhandler` (section ", $section, ").")]
        pub(crate) unsafe fn $get(object: $handle, errhandler: *mut MPI_Errhandler) -> Result<(), Raised> {
            // SAFETY: the entry has refused null.
            unsafe { attached(On::$kind(object.handle()), errhandler) }
        }

        #[doc = concat!("`", $name, "` (section 9.5.2).")]
        pub(crate) fn $call(object: $handle, errorcode: c_int) -> Result<(), Raised> {
            call($name, On::$kind(object.handle()), errorcode)
        }
    )*};
}

handlers_of! {
    Comm MPI_Comm "9.3.1": comm_set_errhandler comm_get_errhandler comm_call_errhandler "MPI_Comm_call_errhandler";
    Win MPI_Win "9.3.2": win_set_errhandler win_get_errhandler win_call_errhandler "MPI_Win_call_errhandler";
    File MPI_File "9.3.3": file_set_errhandler file_get_errhandler file_call_errhandler "MPI_File_call_errhandler";
    Session MPI_Session "9.3.4": session_set_errhandler session_get_errhandler in_session "MPI_Session_call_errhandler";
}

/// `MPI_Session_call_errhandler` (section 9.5.2): callable at any time (section 11.4.1), so without an open session too.
pub(crate) fn session_call_errhandler(session: MPI_Session, errorcode: c_int) -> Result<(), Raised> {
    if gate::phase() & (gate::WORLD | gate::SESSION) == 0 {
        return Err(Error::new(ErrorClass::SESSION, "no session is open").into());
    }
    gate::from_any_thread();
    in_session(session, errorcode)
}

/// `MPI_Errhandler_free` (section 9.3.5).
pub(crate) unsafe fn errhandler_free(errhandler: *mut MPI_Errhandler) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { errhandler.read() }.handle();
    gate::always(|always| always.errhandlers.free(handle))?;
    // SAFETY: as above.
    unsafe { errhandler.write(MPI_Errhandler::from_raw(abi::MPI_ERRHANDLER_NULL)) };
    Ok(())
}

/// Writes a number that a question about codes gave.
unsafe fn answer(
    to: *mut c_int,
    ask: impl FnOnce(&mut weft::codes::Codes) -> Outcome<i32>,
) -> Result<(), Raised> {
    let value = gate::always(|always| ask(&mut always.codes))?;
    // SAFETY: the entry has refused null.
    unsafe { to.write(value) };
    Ok(())
}

/// `MPI_Error_class` (section 9.4).
pub(crate) unsafe fn error_class(errorcode: c_int, errorclass: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { answer(errorclass, |codes| codes.class(errorcode)) }
}

/// `MPI_Error_string` (section 9.4): the words of the code, and what went wrong when this thread got it last.
pub(crate) unsafe fn error_string(
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> Result<(), Raised> {
    let mut text = gate::always(|always| always.codes.text(errorcode))?;
    // What the program has added has exactly the text that the program gave it (section 9.5.1).
    let ours = errorcode <= abi::MPI_ERR_LASTCODE;
    if let Some(latest) = ours.then(|| raise::latest_of(errorcode)).flatten() {
        text.extend_from_slice(b"; ");
        text.extend_from_slice(latest.as_bytes());
    }
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_ERROR_STRING characters.
    unsafe { resultlen.write(write_string(&text, string, abi::MPI_MAX_ERROR_STRING as usize) as c_int) };
    Ok(())
}

/// `MPI_Add_error_class` (section 9.5.1).
pub(crate) unsafe fn add_error_class(errorclass: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { answer(errorclass, weft::codes::Codes::add_class) }
}

/// `MPI_Add_error_code` (section 9.5.1).
pub(crate) unsafe fn add_error_code(errorclass: c_int, errorcode: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { answer(errorcode, |codes| codes.add_code(errorclass)) }
}

/// `MPI_Add_error_string` (section 9.5.1).
pub(crate) unsafe fn add_error_string(errorcode: c_int, string: *const c_char) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let text = unsafe { bytes(string) };
    Ok(gate::always(|always| always.codes.add_string(errorcode, text))?)
}

/// `MPI_Remove_error_class` (section 9.5.1).
pub(crate) fn remove_error_class(errorclass: c_int) -> Result<(), Raised> {
    Ok(gate::always(|always| always.codes.remove_class(errorclass))?)
}

/// `MPI_Remove_error_code` (section 9.5.1).
pub(crate) fn remove_error_code(errorcode: c_int) -> Result<(), Raised> {
    Ok(gate::always(|always| always.codes.remove_code(errorcode))?)
}

/// `MPI_Remove_error_string` (section 9.5.1).
pub(crate) fn remove_error_string(errorcode: c_int) -> Result<(), Raised> {
    Ok(gate::always(|always| always.codes.remove_string(errorcode))?)
}

/// One reference more to the handler a new communicator inherits.
pub(super) fn inherit(errhandler: Handle) {
    gate::always(|always| always.errhandlers.retain(errhandler));
}

/// One reference less to the handler of an object that is gone.
pub(super) fn let_go(errhandler: Handle) {
    gate::always(|always| always.errhandlers.release(errhandler));
}
