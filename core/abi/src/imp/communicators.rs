//! Communicators: asking, naming, constructing, freeing (chapter 7, sections 7.4 and 7.8).

use std::cell::RefCell;
use std::ffi::{c_char, c_int};

use weft::Process;
use weft::attributes::Holder;
use weft::comm::{ASSERTED_KINDS, COLLECTIVES, HINTS, REPRODUCIBLE};
use weft::construct::Construction;
use weft::info::Info;
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::collective_forms::check_making;
use super::environment::{bytes, write_string};
use super::{attributes, errors};

use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot;
use crate::watch::Awaited;

/// Asks a communicator for a number; with locks what the thread remembers of it.
#[inline(always)]
pub(super) unsafe fn ask(
    comm: MPI_Comm,
    answer: *mut c_int,
    question: impl Fn(&weft::comm::Comm) -> c_int,
) -> Result<(), Raised> {
    // SAFETY: the entry has checked the phase.
    let value = match unsafe { gate::alone() } {
        Some(mut alone) => alone.process().comms.get(comm.handle()).map(question)?,
        None => snapshot::comm(comm.handle(), |comm| Ok(question(comm)))?,
    };
    // SAFETY: the entry has refused null.
    unsafe { answer.write(value) };
    Ok(())
}

/// `MPI_Comm_rank` (section 7.4.1).
#[inline(always)]
pub(crate) unsafe fn comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { ask(comm, rank, self::rank) }
}

/// `MPI_Comm_size` (section 7.4.1).
#[inline(always)]
pub(crate) unsafe fn comm_size(comm: MPI_Comm, size: *mut c_int) -> Result<(), Raised> {
    // SAFETY: as above.
    unsafe { ask(comm, size, self::size) }
}

/// The rank of this process.
#[inline(always)]
pub(super) fn rank(comm: &weft::comm::Comm) -> c_int {
    comm.rank.0 as c_int
}

/// The number of processes of this one's group.
#[inline(always)]
pub(super) fn size(comm: &weft::comm::Comm) -> c_int {
    match &comm.inter {
        None => comm.size as c_int,
        Some(inter) => inter.local().size() as c_int,
    }
}

/// `MPI_Comm_get_parent` (section 11.8.1): no process here was spawned.
pub(crate) unsafe fn comm_get_parent(parent: *mut MPI_Comm) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { parent.write(MPI_Comm::from_raw(abi::MPI_COMM_NULL)) };
    Ok(())
}

/// `MPI_Comm_compare` (section 7.4.1).
pub(crate) unsafe fn comm_compare(
    comm1: MPI_Comm,
    comm2: MPI_Comm,
    result: *mut c_int,
) -> Result<(), Raised> {
    let compared = gate::with(|process| {
        let (first, second) = (process.comms.get(comm1.handle())?, process.comms.get(comm2.handle())?);
        Ok(first.compare(second))
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { result.write(compared as c_int) };
    Ok(())
}

/// `MPI_Comm_set_name` (section 7.8).
pub(crate) unsafe fn comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(comm_name) };
    let kept = &name[..name.len().min(abi::MPI_MAX_OBJECT_NAME as usize - 1)];
    gate::with(|process| process.comms.get_mut(comm.handle()).map(|comm| comm.name = kept.into()))?;
    Ok(())
}

/// `MPI_Comm_get_name` (section 7.8).
pub(crate) unsafe fn comm_get_name(
    comm: MPI_Comm,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<(), Raised> {
    let found = match comm.handle().0 {
        abi::MPI_COMM_NULL => b"MPI_COMM_NULL"[..].into(),
        _ => gate::with(|process| process.comms.get(comm.handle()).map(|comm| comm.name.clone()))?,
    };
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_OBJECT_NAME characters.
    unsafe { resultlen.write(write_string(&found, comm_name, abi::MPI_MAX_OBJECT_NAME as usize) as c_int) };
    Ok(())
}

/// As [`construct`], with hints for the new communicator.
pub(super) unsafe fn construct_with_info(
    parent: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    begin: impl FnOnce(&mut Process) -> Outcome<Option<Construction>>,
) -> Result<(), Raised> {
    let hints = gate::always(|always| always.hints(info.handle()))?;
    // SAFETY: the caller's promise.
    unsafe {
        construct(parent, newcomm, |process| {
            Ok(begin(process)?.map(|construction| construction.with_hints(hints)))
        })
    }
}

/// A string tag (section 7.4.2).
///
/// # Safety
/// The program passes a string.
pub(super) unsafe fn stringtag<'a>(tag: *const c_char) -> Outcome<&'a [u8]> {
    // SAFETY: the caller's promise.
    let tag = unsafe { bytes(tag) };
    match tag.len() < abi::MPI_MAX_STRINGTAG_LEN as usize {
        true => Ok(tag),
        false => Err(Error::new(
            ErrorClass::ARG,
            format!(
                "stringtag has {} characters; at most {} are allowed (MPI_MAX_STRINGTAG_LEN - 1)",
                tag.len(),
                abi::MPI_MAX_STRINGTAG_LEN - 1
            ),
        )),
    }
}

/// Runs a construction to its end and names the result, `MPI_COMM_NULL` when this process gets none.
pub(super) unsafe fn construct(
    parent: MPI_Comm,
    newcomm: *mut MPI_Comm,
    begin: impl FnOnce(&mut Process) -> Outcome<Option<Construction>>,
) -> Result<(), Raised> {
    // The handler that the communicator will have is held from the beginning: another thread may take it off the parent.
    let begun = gate::with(|process| {
        let construction = begin(process)?;
        construction.iter().for_each(|construction| errors::inherit(construction.errhandler()));
        Ok(construction)
    });
    let Some(construction) = begun.map_err(|error: Error| Raised::from(error))? else {
        // SAFETY: the entry has refused null.
        unsafe { newcomm.write(MPI_Comm::from_raw(abi::MPI_COMM_NULL)) };
        return Ok(());
    };
    let inherited = construction.errhandler();
    let construction = RefCell::new(construction);
    let awaited = Awaited::Construction(&construction, parent.handle());
    let made = gate::wait_for("making a communicator", awaited, |process| {
        construction.borrow_mut().poll(process).transpose()
    });
    if !matches!(made, Ok(Some(_))) {
        errors::let_go(inherited);
    }
    let made = made.map_err(|error| Raised::on_comm(parent.handle(), error))?;
    // SAFETY: as above.
    unsafe { newcomm.write(MPI_Comm::from_raw(made.map_or(abi::MPI_COMM_NULL, |comm| comm.0))) };
    Ok(())
}

/// `MPI_Comm_dup` (section 7.4.2).
pub(crate) unsafe fn comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { duplicate("MPI_Comm_dup", comm, MPI_Info::from_raw(abi::MPI_INFO_NULL), newcomm) }
}

/// `MPI_Comm_dup_with_info` (section 7.4.2).
pub(crate) unsafe fn comm_dup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { duplicate("MPI_Comm_dup_with_info", comm, info, newcomm) }
}

/// The procedure `call`: a duplicate with the hints of `info`.
///
/// # Safety
/// `newcomm` can be written.
unsafe fn duplicate(
    call: &'static str,
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    gate::always(|always| always.hints(info.handle()).map(|_| ()))?;
    check_making(call, comm)?;
    let copied = match attributes::copies(Holder::Comm, comm.handle()) {
        Ok(copied) => copied,
        Err(raised) => {
            // The others wait for this process; they fail with it. Its own error says more than theirs.
            // SAFETY: the entry has refused null.
            let _ = unsafe {
                construct(comm, newcomm, |process| process.duplicate_in_vain(comm.handle(), true).map(Some))
            };
            return Err(raised);
        }
    };
    // SAFETY: as above.
    unsafe {
        construct_with_info(comm, info, newcomm, |process| process.duplicate(comm.handle(), copied).map(Some))
    }
}

/// `MPI_Comm_idup` (section 7.4.2).
pub(crate) unsafe fn comm_idup(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    // SAFETY: the arguments are this procedure's.
    unsafe { comm_idup_with_info(comm, MPI_Info::from_raw(abi::MPI_INFO_NULL), newcomm, request) }
}

/// `MPI_Comm_idup_with_info` (section 7.4.2): attributes are copied as they are now; the handle comes with completion.
pub(crate) unsafe fn comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    let hints = gate::always(|always| always.hints(info.handle()))?;
    let copied = match attributes::copies(Holder::Comm, comm.handle()) {
        Ok(copied) => copied,
        Err(raised) => {
            let _ = gate::with(|process| {
                let construction = process.duplicate_in_vain(comm.handle(), false)?;
                process.build(construction, comm.handle(), 0)
            });
            return Err(raised);
        }
    };
    let (handle, errhandler) = gate::with(|process| {
        let construction = process.duplicate_nonblocking(comm.handle(), copied)?.with_hints(hints);
        let errhandler = process.comms.get(comm.handle())?.errhandler;
        Ok((process.build(construction, comm.handle(), newcomm.expose_provenance())?, errhandler))
    })
    .map_err(|error: Error| Raised::from(error))?;
    errors::inherit(errhandler);
    // SAFETY: the entry has refused null.
    unsafe {
        newcomm.write(MPI_Comm::from_raw(abi::MPI_COMM_NULL));
        request.write(MPI_Request::from_raw(handle.0));
    }
    Ok(())
}

/// `MPI_Comm_split` (section 7.4.2).
pub(crate) unsafe fn comm_split(
    comm: MPI_Comm,
    color: c_int,
    key: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    let color = match color {
        abi::MPI_UNDEFINED => None,
        0.. => Some(color),
        _ => {
            let text = format!("color is {color}; it must be 0 or more, or MPI_UNDEFINED");
            return Err(Error::new(ErrorClass::ARG, text).into());
        }
    };
    check_making("MPI_Comm_split", comm)?;
    // SAFETY: the entry has refused null.
    unsafe { construct(comm, newcomm, |process| process.split(comm.handle(), color, key).map(Some)) }
}

/// `MPI_Comm_create` (section 7.4.2).
pub(crate) unsafe fn comm_create(
    comm: MPI_Comm,
    group: MPI_Group,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    check_making("MPI_Comm_create", comm)?;
    // SAFETY: the entry has refused null.
    unsafe {
        construct(comm, newcomm, |process| {
            process.check_same_origin(comm.handle(), group.handle())?;
            let group = process.group(group.handle())?;
            process.create(comm.handle(), &group).map(Some)
        })
    }
}

/// `MPI_Comm_create_group` (section 7.4.2).
pub(crate) unsafe fn comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe {
        construct(comm, newcomm, |process| {
            process.check_same_origin(comm.handle(), group.handle())?;
            let group = process.group(group.handle())?;
            process.create_group(comm.handle(), &group, tag)
        })
    }
}

/// `MPI_Comm_free` (section 7.4.3): delete functions first, then the handle; operations under way continue.
pub(crate) unsafe fn comm_free(comm: *mut MPI_Comm) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { comm.read() }.handle();
    let on_it = |raised: Raised| raised.or_on_comm(handle);
    gate::with(|process| process.comms.check_removable(handle)).map_err(|error| on_it(error.into()))?;
    attributes::delete_all(handle).map_err(on_it)?;
    let freed = gate::with(|process| process.free_comm(handle)).map_err(|error| on_it(error.into()))?;
    errors::let_go(freed.errhandler);
    // SAFETY: as above.
    unsafe { comm.write(MPI_Comm::from_raw(abi::MPI_COMM_NULL)) };
    Ok(())
}

/// `MPI_Comm_disconnect` (section 11.10.4): as freeing, once everything under way on it is complete.
pub(crate) unsafe fn comm_disconnect(comm: *mut MPI_Comm) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { comm.read() };
    let raised = |error: Error| Raised::on_comm(handle.handle(), error);
    gate::with(|process| process.comms.check_removable(handle.handle())).map_err(raised)?;
    super::collective::barrier_of_everyone("MPI_Comm_disconnect", handle.handle())
        .map_err(|error| Raised::or_on_comm(error, handle.handle()))?;
    gate::wait_for("MPI_Comm_disconnect", Awaited::OnComm(handle.handle()), |process| {
        process.open_on(handle.handle()).is_empty().then_some(())
    });
    // SAFETY: the argument is this procedure's.
    unsafe { comm_free(comm) }
}

/// `MPI_Comm_set_info` (section 7.4.4).
pub(crate) unsafe fn comm_set_info(comm: MPI_Comm, info: MPI_Info) -> Result<(), Raised> {
    let hints = gate::always(|always| always.hints(info.handle()))?;
    gate::with(|process| {
        if process.comms.get_mut(comm.handle())?.accept_hints(&hints)? {
            process.comms.changes.add();
        }
        Ok(())
    })
}

/// `MPI_Comm_get_info` (section 7.4.4): every supported hint with its value.
pub(crate) unsafe fn comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) -> Result<(), Raised> {
    let content = gate::with(|process| {
        let kinds = process.memory_kinds(comm.handle());
        let comm = process.comms.get(comm.handle())?;
        let mut content = Info::default();
        for key in HINTS {
            content.set(key.as_bytes(), comm.hints.text(key).unwrap_or("false").as_bytes())?;
        }
        for key in [ASSERTED_KINDS, REPRODUCIBLE, COLLECTIVES] {
            if let Some(value) = comm.hints.text(key) {
                content.set(key.as_bytes(), value.as_bytes())?;
            }
        }
        content.set(b"mpi_memory_alloc_kinds", kinds.as_bytes())?;
        Ok(content)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { super::info::give(info_used, content) }
}
