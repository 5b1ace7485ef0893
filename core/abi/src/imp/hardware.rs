//! Splitting by hardware (section 7.4.2) and asking for it (section 9.1.2).

use std::ffi::c_int;

use weft::info::Info;
use weft::topology::split_type::{self, Made, RESOURCE_KEY};
use weft_types::{Error, abi};

use super::collective_forms::check_making;
use super::info::give;
use super::topologies::{Gate, hand_out};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// `MPI_Comm_split_type` (section 7.4.2).
pub(crate) unsafe fn comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<(), Raised> {
    let hints = gate::always(|always| always.hints(info.handle()))?;
    let criterion = split_type::criterion(split_type, &hints)?;
    check_making("MPI_Comm_split_type", comm)?;
    let made = split_type::split(&Gate("MPI_Comm_split_type"), comm.handle(), split_type, &criterion, key);
    if let Ok(Some(Made { resource: Some(resource), .. })) = &made
        && info.handle().0 != abi::MPI_INFO_NULL
    {
        gate::always(|always| {
            always.info_mut(info.handle())?.set(RESOURCE_KEY.as_bytes(), resource.uri().as_bytes())
        })?;
    }
    // SAFETY: the entry has refused null.
    unsafe { hand_out(comm, newcomm, made.map(|made| made.map(|made| made.comm))) }
}

/// `MPI_Get_hw_resource_info` (section 9.1.2): every kind of part this machine has, and whether the process is restricted to one
/// of the kind.
pub(crate) unsafe fn get_hw_resource_info(hw_info: *mut MPI_Info) -> Result<(), Raised> {
    let content = gate::with(|process| {
        let mut content = Info::default();
        let cpus = process.present_cpus();
        if let Some(machine) = process.hardware() {
            for resource in machine.parts.resources() {
                let restricted = machine.parts.part_of(resource, &cpus).is_some();
                let value: &[u8] = if restricted { b"true" } else { b"false" };
                content.set(resource.uri().as_bytes(), value)?;
            }
        }
        Ok(content)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { give(hw_info, content) }
}
