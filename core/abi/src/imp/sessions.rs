//! Sessions (section 11.3) and communicators made from their groups (section 7.4.2).

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};

use weft::buffered::Owner;
use weft::errhandler::Target;
use weft::info::Info;
use weft::kinds;
use weft::session::Session;
use weft_types::{Error, ErrorClass, Handle, Result as Outcome, abi};

use super::communicators::construct_with_info;
use super::environment::{bytes, write_string};
use super::init::or_given_up;
use super::{errors, info};
use crate::ctypes::*;
use crate::gate;
use crate::raise::{On, Raised};
use crate::watch::Awaited;

/// The thread levels by name (section 11.3.1).
const LEVELS: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];

/// Held while sessions open and close.
static CHANGING: Mutex<()> = Mutex::new(());

/// Fails unless the session is open.
fn check(session: MPI_Session) -> Outcome<()> {
    gate::with(|process| process.sessions.get(session.handle()).map(drop))
}

/// `MPI_Session_init` (section 11.3.1): local; several threads may use a session unless it asks for less.
pub(crate) unsafe fn session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> Result<(), Raised> {
    let _changing = CHANGING.lock();
    // A handler that cannot be attached cannot be told either.
    gate::always(|always| always.errhandlers.attach(Target::Session, errhandler.handle()))?;
    let handle = open(info, errhandler).map_err(|error| {
        // The program still holds the handler, which is called now.
        errors::let_go(errhandler.handle());
        Raised::from(error).or_on(On::Opening(errhandler.handle()))
    })?;
    crate::departure::watch();
    // SAFETY: the entry has refused null.
    unsafe { session.write(MPI_Session::from_raw(handle.0)) };
    Ok(())
}

fn open(info: MPI_Info, errhandler: MPI_Errhandler) -> Outcome<Handle> {
    let hints = gate::always(|always| always.hints(info.handle()))?;
    let asked = hints.text("thread_level").map(str::trim);
    let thread_level = LEVELS.into_iter().find(|level| asked == Some(level)).unwrap_or("MPI_THREAD_MULTIPLE");
    let opening = gate::opening()?;
    gate::start()?;
    // Threads with sessions of their own may call at the same time, also where each session is used by one thread only.
    if thread_level != "MPI_THREAD_SINGLE" {
        let by_name = if asked == Some("MPI_THREAD_MULTIPLE") { gate::ANY_THREAD } else { 0 };
        gate::change_phase(gate::LOCKED | gate::MULTIPLE | by_name, 0);
    }
    gate::agent::prepare();
    gate::lane_threads::prepare();
    let handle = gate::with(|process| {
        process.goes_on();
        if gate::phase() & gate::MULTIPLE != 0 {
            process.allow_lanes();
        }
        let asked = hints.text("mpi_memory_alloc_kinds").or(process.job.memory_alloc_kinds.as_deref());
        let memory_kinds = kinds::granted(asked);
        process.sessions.open(Session { errhandler: errhandler.handle(), thread_level, memory_kinds })
    })?;
    gate::change_phase(gate::SESSION, 0);
    gate::keep_company();
    opening.done();
    gate::agent::opened();
    Ok(handle)
}

/// `MPI_Session_finalize` (section 11.3.1): what is under way in the session is completed first. Nothing is waited for that
/// another process has to begin, so processes may close their sessions in any order.
pub(crate) unsafe fn session_finalize(session: *mut MPI_Session) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { session.read() }.handle();
    gate::with(|process| process.sessions.get(handle).map(drop))?;
    let quiet = |process: &mut weft::Process| process.is_session_quiet(handle, false).then_some(());
    gate::wait_for("MPI_Session_finalize", Awaited::OfSession(handle), or_given_up(quiet));
    let changing = CHANGING.lock();
    let others =
        |process: &weft::Process| process.sessions.others(handle) || gate::phase() & gate::WORLD != 0;
    if !gate::with(|process| others(process)) {
        let quiet = |process: &mut weft::Process| process.is_session_quiet(handle, true).then_some(());
        gate::wait_for("MPI_Session_finalize", Awaited::Quiet, or_given_up(quiet));
    }
    gate::agent::closing();
    let closed = gate::with(|process| {
        let closed = process.sessions.close(handle)?;
        // Its buffer is the program's again.
        process.requests.buffers.detach(Owner::Session(handle));
        if process.sessions.is_empty() {
            if gate::phase() & gate::WORLD == 0 {
                process.rest();
            }
            if gate::phase() & gate::INITIALIZED == 0 {
                process.say_goodbye()?;
            }
            gate::change_phase(0, gate::SESSION);
        }
        Ok(closed)
    })
    .map_err(|error: Error| Raised::from(error))?;
    drop(changing);
    errors::let_go(closed.errhandler);
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
    let number = gate::with(|process| {
        process.sessions.get(session.handle())?;
        Ok(process.process_sets().len())
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { npset_names.write(number as c_int) };
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
    let name = gate::with(|process| {
        process.sessions.get(session.handle())?;
        let names = process.process_sets();
        let name = usize::try_from(n).ok().and_then(|n| names.get(n));
        name.map(|name| name.as_bytes().to_vec()).ok_or_else(|| {
            let text = format!("n is {n}; the process sets are numbered 0 to {}", names.len() - 1);
            Error::new(ErrorClass::ARG, text)
        })
    })?;
    // SAFETY: the entry has refused a null length; the buffer has as many characters as the length says.
    unsafe {
        let room = pset_len.read();
        if room > 0 && pset_name.is_null() {
            let text =
                format!("pset_name is a null pointer, but pset_len promises room for {room} characters");
            return Err(Error::new(ErrorClass::ARG, text).into());
        }
        if room > 0 {
            write_string(&name, pset_name, room as usize);
        }
        pset_len.write(name.len() as c_int + 1);
    }
    Ok(())
}

/// `MPI_Session_get_info` (section 11.3.3).
pub(crate) unsafe fn session_get_info(session: MPI_Session, info_used: *mut MPI_Info) -> Result<(), Raised> {
    let found = gate::with(|process| process.sessions.get(session.handle()).cloned())?;
    let mut content = Info::default();
    content.set(b"thread_level", found.thread_level.as_bytes())?;
    content.set(b"mpi_memory_alloc_kinds", found.memory_kinds.as_bytes())?;
    // SAFETY: the entry has refused null.
    unsafe { info::give(info_used, content) }
}

/// `MPI_Session_get_pset_info` (section 11.3.3).
pub(crate) unsafe fn session_get_pset_info(
    session: MPI_Session,
    pset_name: *const c_char,
    info: *mut MPI_Info,
) -> Result<(), Raised> {
    check(session)?;
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(pset_name) };
    let Some(group) = gate::with(|process| process.process_set(name)) else {
        let text = format!("there is no process set {:?}", String::from_utf8_lossy(name));
        return Err(Error::new(ErrorClass::ARG, text).into());
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
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(pset_name) };
    let handle = gate::with(|process| {
        process.sessions.get(session.handle())?;
        let Some(group) = process.process_set(name) else { return Ok(abi::MPI_GROUP_NULL) };
        let handle = process.name_group(Arc::new(group))?;
        process.sessions.set_origin(handle, session.handle());
        Ok(handle.0)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { newgroup.write(MPI_Group::from_raw(handle)) };
    Ok(())
}

/// `MPI_Comm_create_from_group` (section 7.4.2).
pub(crate) unsafe fn comm_create_from_group(
    group: MPI_Group,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let tag = unsafe { super::communicators::stringtag(stringtag)? };
    gate::always(|always| always.errhandlers.attach(Target::Comm, errhandler.handle()))?;
    let nobody = MPI_Comm::from_raw(abi::MPI_COMM_NULL);
    // SAFETY: the entry has refused null.
    let made = unsafe {
        construct_with_info(nobody, info, newcomm, |process| {
            let group = process.group(group.handle())?;
            Ok(process.create_from_group(&group, tag, errhandler.handle()))
        })
    };
    // The communicator counts its own reference.
    errors::let_go(errhandler.handle());
    made?;
    // SAFETY: as above.
    let comm = unsafe { newcomm.read() }.handle();
    gate::with(|process| process.sessions.inherit(comm, group.handle()));
    Ok(())
}
