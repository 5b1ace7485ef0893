//! Partitioned communication (chapter 4).
//!
//! With MPI_THREAD_MULTIPLE, a thread to which the process's lock is biased marks with it. For others, marking and testing take
//! no lock (`weft::partitioned::Board`): who marks sends too when nobody holds the gate's lock, and leaves it to the holder
//! otherwise. The first look of a thread at a request, and what goes wrong, take the lock.

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::partitioned::{Counterpart, Partitions, ReceiveSide, SendSide};
use weft_datatype::{Datatype, Memory};
use weft_types::{Error, ErrorClass, Handle, PeerId, Rank, Result as Outcome, Tag, abi};

use super::at_once_parts;
use super::point_to_point::no_buffer;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot;

/// What both init calls say about their data.
struct Data {
    address: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: MPI_Datatype,
}

/// How a buffer argument becomes [`Memory`]: address, element type, range of bytes.
type MakeMemory = unsafe fn(*mut u8, &Datatype, (i64, i64)) -> Memory;

impl Data {
    /// # Safety
    /// The program keeps the data as `make` asks while the request is active.
    unsafe fn partitions(&self, process: &Process, make: MakeMemory) -> Outcome<Partitions> {
        let number = u32::try_from(self.partitions).unwrap_or(0);
        if number == 0 {
            return Err(Error::new(
                ErrorClass::ARG,
                format!("partitions is {}; a partitioned operation has at least 1", self.partitions),
            ));
        }
        let count = u64::try_from(self.count).map_err(|_| {
            Error::new(ErrorClass::COUNT, format!("count is {}, but it must not be negative", self.count))
        })?;
        let datatype = process.types.usable(self.datatype.handle())?;
        let elements = count.checked_mul(u64::from(number)).ok_or_else(|| {
            Error::new(
                ErrorClass::COUNT,
                format!("{number} partitions of {count} elements do not fit 64 bits"),
            )
        })?;
        let total = datatype.packed_bytes(elements)?;
        if self.address.addr() <= super::point_to_point::LAST_ADDRESS_CONSTANT
            && total > 0
            && datatype.is_contiguous()
        {
            return Err(no_buffer(self.address.addr(), total));
        }
        let span = datatype.span(elements)?;
        // SAFETY: the caller's promise: these are the elements of all partitions, back to back (section 4.2.3).
        let memory = unsafe { make(self.address.cast(), datatype, span) };
        if memory.is_writable() {
            datatype.check_distinct(elements)?;
        }
        Ok(Partitions { memory, number, bytes: datatype.packed_bytes(count)? as u64 })
    }
}

unsafe fn read(address: *mut u8, datatype: &Datatype, span: (i64, i64)) -> Memory {
    // SAFETY: the caller's promise.
    unsafe { Memory::read(address, datatype, span) }
}

/// The process of a rank argument, which is not a wildcard; `None` for `MPI_PROC_NULL`.
fn peer(comm: &weft::comm::Comm, argument: &str, rank: c_int, tag: c_int) -> Outcome<Option<(PeerId, Tag)>> {
    let found = match u32::try_from(rank) {
        Ok(index) if index < comm.size => Some(comm.group.peer(Rank(index))),
        _ if rank == abi::MPI_PROC_NULL => None,
        _ => {
            return Err(Error::new(
                ErrorClass::RANK,
                format!(
                    "{argument} is {rank}; {} has the ranks 0 to {} (also allowed: MPI_PROC_NULL; partitioned operations \
                     have no wildcards)",
                    comm.display_name(),
                    comm.size - 1
                ),
            ));
        }
    };
    if tag < 0 {
        return Err(Error::new(
            ErrorClass::TAG,
            format!("tag is {tag}; tags are 0 to {} (partitioned operations have no wildcards)", i32::MAX),
        ));
    }
    Ok(found.map(|peer| (peer, Tag(tag))))
}

/// The info argument is accepted; no keys are known.
pub(super) fn check_info(info: MPI_Info) -> Outcome<()> {
    gate::always(|always| always.hints(info.handle()).map(drop))
}

/// `MPI_Psend_init` (section 4.2.1).
pub(crate) unsafe fn psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    check_info(info)?;
    let data = Data { address: buf.cast_mut(), partitions, count, datatype };
    let handle: Handle = gate::with(|process| {
        let comm = process.comms.get(comm.handle())?;
        let to = peer(comm, "dest", dest, tag)?.map(|(peer, tag)| Counterpart {
            peer,
            context: comm.context,
            source: comm.rank,
            tag,
        });
        let handle = comm.handle;
        // SAFETY: the program leaves ready partitions alone until the send is complete.
        let side = SendSide::new(unsafe { data.partitions(process, read)? }, to, handle);
        process.requests.partitioned_send(&mut process.engine, side)
    })?;
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

/// `MPI_Precv_init` (section 4.2.1).
pub(crate) unsafe fn precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<(), Raised> {
    check_info(info)?;
    let data = Data { address: buf, partitions, count, datatype };
    let handle: Handle = gate::with(|process| {
        let comm = process.comms.get(comm.handle())?;
        let from = peer(comm, "source", source, tag)?.map(|(peer, tag)| Counterpart {
            peer,
            context: comm.context,
            source: Rank(source as u32),
            tag,
        });
        let handle = comm.handle;
        // SAFETY: the program leaves the buffer alone while the receive is active, but for partitions that have arrived.
        let side = ReceiveSide::new(unsafe { data.partitions(process, Memory::write)? }, from, handle);
        process.requests.partitioned_receive(&mut process.engine, side)
    })?;
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

fn ready(request: MPI_Request, partitions: impl Iterator<Item = c_int> + Clone) -> Result<(), Raised> {
    if gate::phase() & gate::LOCKED != 0
        && let Some(marked) = at_once_parts::ready_alone(request, partitions.clone())
    {
        return Ok(marked?);
    }
    if gate::phase() & gate::LOCKED != 0
        && snapshot::board(request.handle(), true, |board| board.mark(partitions.clone())) == Some(true)
    {
        gate::announce_marks();
        return Ok(());
    }
    Ok(gate::with(|process| process.requests.ready(&mut process.engine, request.handle(), partitions))?)
}

/// `MPI_Pready` (section 4.2.1).
pub(crate) fn pready(partition: c_int, request: MPI_Request) -> Result<(), Raised> {
    ready(request, std::iter::once(partition))
}

/// `MPI_Pready_range` (section 4.2.1): both ends included.
pub(crate) fn pready_range(low: c_int, high: c_int, request: MPI_Request) -> Result<(), Raised> {
    if low > high {
        return Err(Error::new(
            ErrorClass::ARG,
            format!("partition_low is {low} and partition_high {high}; the range goes upwards and includes both ends"),
        )
        .into());
    }
    ready(request, low..=high)
}

/// `MPI_Pready_list` (section 4.2.1).
pub(crate) unsafe fn pready_list(
    length: c_int,
    partitions: *const c_int,
    request: MPI_Request,
) -> Result<(), Raised> {
    let partitions: &[c_int] = match length {
        // SAFETY: the program passes `length` numbers; the entry has refused a null array of positive length.
        1.. => unsafe { std::slice::from_raw_parts(partitions, length as usize) },
        _ => &[],
    };
    ready(request, partitions.iter().copied())
}

/// `MPI_Parrived` (section 4.2.2).
pub(crate) unsafe fn parrived(
    request: MPI_Request,
    partition: c_int,
    flag: *mut c_int,
) -> Result<(), Raised> {
    if gate::phase() & gate::LOCKED != 0 {
        let look = || snapshot::board(request.handle(), false, |board| board.arrived(partition)).flatten();
        if let Some(mut here) = look() {
            if !here {
                // Every test moves everything of the process (section 2.9), unless others do so just now.
                gate::progress_lanes(0);
                gate::progress_process();
                here = look().unwrap_or(here);
            }
            // SAFETY: the entry has refused null.
            unsafe { flag.write(c_int::from(here)) };
            return Ok(());
        }
    }
    let look = |process: &mut Process| process.requests.arrived(&process.engine, request.handle(), partition);
    let here = match gate::with(look)? {
        true => true,
        false => gate::poll(look)?,
    };
    // SAFETY: the entry has refused null.
    unsafe { flag.write(c_int::from(here)) };
    Ok(())
}
