//! Sessions (section 11.3) and communicators made from their groups (section 7.4.2).

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};

use weft::errhandler::Target;
use weft::info::Info;
use weft::process::Session;
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::communicators::construct;
use super::environment::{bytes, write_string};
use super::{errors, info};
use crate::ctypes::*;
use crate::gate;
use crate::raise::{self, On, Raised};
use crate::watch::Awaited;

/// Held while sessions open and close.
static CHANGING: Mutex<()> = Mutex::new(());

/// The process sets every process knows (section 11.3.2).
const SETS: [&[u8]; 2] = [b"mpi://WORLD", b"mpi://SELF"];

/// What a session says about itself, with its error handler for errors on the way.
fn find(session: MPI_Session) -> Outcome<Session> {
    gate::with(|process| process.sessions.get(session.handle()).cloned())
}

/// Errors of a call are raised on its session.
fn on(session: MPI_Session) -> impl Fn(Error) -> Raised {
    move |error| match find(session) {
        Ok(found) => Raised::on_session(session, found.errhandler, error),
        Err(_) => error.into(),
    }
}

/// `MPI_Session_init` (section 11.3.1): local; several threads may use a session unless it asks for less.
pub(crate) unsafe fn session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> Result<(), Raised> {
    let _changing = CHANGING.lock();
    let hints = gate::always(|always| always.hints(info.handle()))?;
    let thread_level = match hints.text("thread_level") {
        Some("MPI_THREAD_SINGLE") => "MPI_THREAD_SINGLE",
        Some("MPI_THREAD_FUNNELED") => "MPI_THREAD_FUNNELED",
        Some("MPI_THREAD_SERIALIZED") => "MPI_THREAD_SERIALIZED",
        _ => "MPI_THREAD_MULTIPLE",
    };
    gate::always(|always| always.errhandlers.attach(Target::Session, errhandler.handle()))?;
    gate::start()?;
    if thread_level == "MPI_THREAD_MULTIPLE" {
        gate::change_phase(gate::MULTIPLE, 0);
    }
    let made = Session { errhandler: errhandler.handle(), thread_level };
    let handle = gate::with(|process| {
        process.goes_on();
        process.sessions.insert(made)
    })?;
    gate::change_phase(gate::SESSION, 0);
    crate::departure::watch();
    // SAFETY: the entry has refused null.
    unsafe { session.write(MPI_Session::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Session_finalize` (section 11.3.1): what is under way is completed first.
pub(crate) unsafe fn session_finalize(session: *mut MPI_Session) -> Result<(), Raised> {
    let _changing = CHANGING.lock();
    // SAFETY: the entry has refused null.
    let handle = unsafe { session.read() };
    find(handle)?;
    gate::wait_for("MPI_Session_finalize", Awaited::Quiet, |process| {
        (process.buffers.is_all_flushed(&mut process.engine) && process.engine.is_quiet()).then_some(())
    });
    let (closed, is_last) = gate::with(|process| {
        let closed = process.sessions.remove(handle.handle())?;
        let is_last = process.sessions.is_empty();
        if is_last && gate::phase() & (gate::INITIALIZED) == 0 {
            process.say_goodbye()?;
        }
        Ok((closed, is_last))
    })
    .map_err(|error: Error| Raised::from(error))?;
    errors::let_go(closed.errhandler);
    if is_last {
        if gate::phase() & gate::WORLD == 0 {
            crate::leftovers::report();
        }
        gate::change_phase(0, gate::SESSION);
    }
    // SAFETY: as above.
    unsafe { session.write(MPI_Session::from_raw(abi::MPI_SESSION_NULL)) };
    Ok(())
}

/// `MPI_Session_get_num_psets` (section 11.3.3).
pub(crate) unsafe fn session_get_num_psets(
    session: MPI_Session,
    _info: MPI_Info,
    npset_names: *mut c_int,
) -> Result<(), Raised> {
    find(session)?;
    // SAFETY: the entry has refused null.
    unsafe { npset_names.write(SETS.len() as c_int) };
    Ok(())
}

/// `MPI_Session_get_nth_pset` (section 11.3.3); the length counts the NUL.
pub(crate) unsafe fn session_get_nth_pset(
    session: MPI_Session,
    _info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> Result<(), Raised> {
    find(session)?;
    let name = usize::try_from(n).ok().and_then(|n| SETS.get(n)).ok_or_else(|| {
        let text = format!("n is {n}; the process sets are numbered 0 to {}", SETS.len() - 1);
        on(session)(Error::new(ErrorClass::ARG, text))
    })?;
    // SAFETY: the entry has refused a null length; the buffer has as many characters as the length says.
    unsafe {
        let room = pset_len.read();
        if room > 0 {
            write_string(name, pset_name, room as usize);
        }
        pset_len.write(name.len() as c_int + 1);
    }
    Ok(())
}

/// `MPI_Session_get_info` (section 11.3.3).
pub(crate) unsafe fn session_get_info(session: MPI_Session, info_used: *mut MPI_Info) -> Result<(), Raised> {
    let found = find(session)?;
    let kinds = gate::with(|process| process.job.memory_alloc_kinds.clone());
    let mut content = Info::default();
    content.set(b"thread_level", found.thread_level.as_bytes())?;
    content.set(b"mpi_memory_alloc_kinds", kinds.as_deref().unwrap_or("mpi,system").as_bytes())?;
    // SAFETY: the entry has refused null.
    unsafe { info::give(info_used, content) }
}

/// `MPI_Session_get_pset_info` (section 11.3.3).
pub(crate) unsafe fn session_get_pset_info(
    session: MPI_Session,
    pset_name: *const c_char,
    info: *mut MPI_Info,
) -> Result<(), Raised> {
    find(session)?;
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(pset_name) };
    let Some(group) = gate::with(|process| process.process_set(name)) else {
        let text = format!("there is no process set {:?}", String::from_utf8_lossy(name));
        return Err(on(session)(Error::new(ErrorClass::ARG, text)));
    };
    let mut content = Info::default();
    content.set(b"mpi_size", group.size().to_string().as_bytes())?;
    // SAFETY: the entry has refused null.
    unsafe { super::info::give(info, content) }
}

/// `MPI_Group_from_session_pset` (section 7.3.2); an unknown name gives `MPI_GROUP_NULL`.
pub(crate) unsafe fn group_from_session_pset(
    session: MPI_Session,
    pset_name: *const c_char,
    newgroup: *mut MPI_Group,
) -> Result<(), Raised> {
    find(session)?;
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(pset_name) };
    let handle = gate::with(|process| match process.process_set(name) {
        Some(group) => process.name_group(Arc::new(group)).map(|handle| handle.0),
        None => Ok(abi::MPI_GROUP_NULL),
    })
    .map_err(on(session))?;
    // SAFETY: the entry has refused null.
    unsafe { newgroup.write(MPI_Group::from_raw(handle)) };
    Ok(())
}

/// `MPI_Session_set_errhandler` (section 9.3.4).
pub(crate) fn session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) -> Result<(), Raised> {
    find(session)?;
    gate::always(|always| always.errhandlers.attach(Target::Session, errhandler.handle()))
        .map_err(on(session))?;
    let old = gate::with(|process| {
        let session = process.sessions.get_mut(session.handle())?;
        Ok(std::mem::replace(&mut session.errhandler, errhandler.handle()))
    })
    .map_err(|error: Error| Raised::from(error))?;
    errors::let_go(old);
    Ok(())
}

/// `MPI_Session_get_errhandler` (section 9.3.4).
pub(crate) unsafe fn session_get_errhandler(
    session: MPI_Session,
    errhandler: *mut MPI_Errhandler,
) -> Result<(), Raised> {
    let found = find(session)?.errhandler;
    errors::inherit(found);
    // SAFETY: the entry has refused null.
    unsafe { errhandler.write(MPI_Errhandler::from_raw(found.0)) };
    Ok(())
}

/// `MPI_Session_call_errhandler` (section 9.5.2).
pub(crate) fn session_call_errhandler(session: MPI_Session, errorcode: c_int) -> Result<(), Raised> {
    if gate::phase() & (gate::WORLD | gate::SESSION) == 0 {
        return Err(Error::new(ErrorClass::SESSION, "there is no open session").into());
    }
    let errhandler = find(session)?.errhandler;
    raise::call_errhandler("MPI_Session_call_errhandler", On::Session(session, errhandler), errorcode);
    Ok(())
}

/// A number for a string tag: all members make the same one. Two tags that collide are served one after the other.
fn number_of(stringtag: &[u8]) -> u32 {
    // FNV-1a.
    stringtag.iter().fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// `MPI_Comm_create_from_group` (section 7.4.2).
pub(crate) unsafe fn comm_create_from_group(
    group: MPI_Group,
    stringtag: *const c_char,
    _info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let number = number_of(unsafe { bytes(stringtag) });
    gate::always(|always| always.errhandlers.attach(Target::Comm, errhandler.handle()))?;
    let nobody = MPI_Comm::from_raw(abi::MPI_COMM_NULL);
    // SAFETY: the entry has refused null.
    let made = unsafe {
        construct(nobody, newcomm, |process| {
            let group = process.group(group.handle())?;
            process.create_from_group(&group, number, errhandler.handle())
        })
    };
    // The communicator counts its own reference.
    errors::let_go(errhandler.handle());
    made
}
