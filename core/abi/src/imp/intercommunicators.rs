//! Intercommunicators: asking and constructing (section 7.6).

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use weft::errhandler::Target;
use weft_types::{Error, abi};

use super::collective_forms::check_making;
use super::communicators::{ask, construct, construct_with_info, stringtag};
use super::errors;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot;

/// `MPI_Comm_test_inter` (section 7.6.1).
pub(crate) unsafe fn comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { ask(comm, flag, |comm| c_int::from(comm.inter.is_some())) }
}

/// `MPI_Comm_remote_size` (section 7.6.1).
pub(crate) unsafe fn comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> Result<(), Raised> {
    let found = match gate::phase() & gate::LOCKED {
        0 => gate::with(|process| {
            process.comms.get(comm.handle())?.inter().map(|inter| inter.remote().size())
        })?,
        _ => snapshot::comm(comm.handle(), |comm| comm.inter().map(|inter| inter.remote().size()))?,
    };
    // SAFETY: the entry has refused null.
    unsafe { size.write(found as c_int) };
    Ok(())
}

/// `MPI_Comm_remote_group` (section 7.6.1).
pub(crate) unsafe fn comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<(), Raised> {
    let named = gate::with(|process| {
        let remote = Arc::clone(process.comms.get(comm.handle())?.inter()?.remote());
        let named = process.name_group(remote)?;
        process.sessions.inherit(named, comm.handle());
        Ok(named)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { group.write(MPI_Group::from_raw(named.0)) };
    Ok(())
}

/// `MPI_Intercomm_create` (section 7.6.2).
pub(crate) unsafe fn intercomm_create(
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    check_making("MPI_Intercomm_create", local_comm)?;
    let peer = (peer_comm.handle(), remote_leader);
    // SAFETY: the entry has refused null.
    unsafe {
        construct(local_comm, newintercomm, |process| {
            process.meet(local_comm.handle(), local_leader, peer, tag).map(Some)
        })
    }
}

/// `MPI_Intercomm_create_from_groups` (section 7.6.2).
pub(crate) unsafe fn intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    tag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let tag = unsafe { stringtag(tag)? };
    gate::always(|always| always.errhandlers.attach(Target::Comm, errhandler.handle()))?;
    // SAFETY: the entry has refused null.
    let made = unsafe {
        construct_with_info(MPI_Comm::from_raw(abi::MPI_COMM_NULL), info, newintercomm, |process| {
            let local = process.group(local_group.handle())?;
            let remote = |process: &weft::Process| Ok((process.group(remote_group.handle())?, remote_leader));
            process.meet_from_groups(&local, local_leader, remote, tag, errhandler.handle())
        })
    };
    // The communicator counts its own reference.
    errors::let_go(errhandler.handle());
    made?;
    // SAFETY: as above.
    let comm = unsafe { newintercomm.read() }.handle();
    gate::with(|process| process.sessions.inherit(comm, local_group.handle()));
    Ok(())
}

/// `MPI_Intercomm_merge` (section 7.6.2).
pub(crate) unsafe fn intercomm_merge(
    intercomm: MPI_Comm,
    high: c_int,
    newintracomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    check_making("MPI_Intercomm_merge", intercomm)?;
    // SAFETY: the entry has refused null.
    unsafe {
        construct(intercomm, newintracomm, |process| process.merge(intercomm.handle(), high != 0).map(Some))
    }
}
