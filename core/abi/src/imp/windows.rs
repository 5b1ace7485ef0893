//! Windows: making, asking, freeing (section 12.2), their names, hints and error handlers.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use weft::attributes::Holder;
use weft::info::Info;
use weft::kinds;
use weft::window::{Extent, Flavor, Keep, Parts, UNEXPOSED};
use weft_coll::Call;
use weft_datatype::{Datatype, Memory};
use weft_engine::{Arguments, Changes, MemoryRange, RegionId, RemoteMemory, Wished};
use weft_types::{Error, ErrorClass, Handle, Rank, abi};

use super::collective_forms::check_making;
use super::environment::{bytes, write_string};
use super::shared_memory::{Allocation, Mapping, memory_file};
use super::{attributes, communicators, errors, point_to_point};
use crate::ctypes::*;
use crate::gate;
use crate::raise::{On, Raised};

/// What windows are aligned to: a cache line, and what any basic type needs.
const ALIGNMENT: usize = 64;
/// What segments that are not contiguous begin at.
const PAGE: usize = 4096;

/// Whether others may have devices change numbers in this process's part of a window; as long as the window lives.
const DEVICE_ATOMICS: &str = "weft_device_atomics";

/// The hints of section 12.2 and their defaults, and ours.
const HINTS: [(&str, &str); 9] = [
    (DEVICE_ATOMICS, "true"),
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
    ("mpi_assert_memory_alloc_kinds", ""),
];

fn accepted(hints: &Info) -> weft_types::Result<Info> {
    let mut kept = Info::default();
    for (key, _) in HINTS {
        // An assertion about memory that Weft does not know is ignored as a whole (section 11.4.3).
        let known = |value: &&str| match key {
            "mpi_assert_memory_alloc_kinds" => kinds::supports_all(value),
            DEVICE_ATOMICS => ["true", "false"].contains(value),
            _ => true,
        };
        if let Some(value) = hints.text(key).filter(known) {
            kept.set(key.as_bytes(), value.as_bytes())?;
        }
    }
    Ok(kept)
}

/// Bytes of a part that holds counters and locks rather than arrays.
const FEW: usize = 4096;

/// What others may have devices change in this process's part of so many bytes. Where a device is atomic among its own operations
/// alone, arrays that are accumulated cost the owner a request an element: that is for parts of few elements, and for who says that
/// elements are what counts (`mpi_accumulate_granularity`, section 12.2.1).
fn wished(hints: &Info, bytes: usize) -> Wished {
    let granularity = hints.text("mpi_accumulate_granularity").and_then(|text| text.trim().parse().ok());
    match hints.text(DEVICE_ATOMICS) {
        Some("false") => Wished::Nothing,
        None if bytes > FEW && !matches!(granularity, Some(1..=8_u64)) => Wished::WhereFree,
        _ => Wished::Everywhere,
    }
}

/// Everybody's words, by rank. Collective over the communicator.
fn exchange(comm: Handle, mine: &[u64]) -> Result<Vec<u64>, Raised> {
    let packed: Vec<u8> = mine.iter().flat_map(|word| word.to_le_bytes()).collect();
    let own = Memory::packed_scratch(packed.len());
    own.recv_view(0, 0, packed.len() as u64).unpack(0, &packed);
    let (request, room, total) = gate::with(|process| {
        let total = process.comms.get(comm)?.size as usize * packed.len();
        let room = Memory::packed_scratch(total);
        let call = Call::Allgather { bytes: packed.len() as u64, in_place: false };
        let request = process.start_collective(comm, &call, Arguments::new(own, room.clone()), None)?;
        Ok((request, room, total))
    })
    .map_err(|error: Error| Raised::from(error))?;
    if let Some(error) = point_to_point::complete("a call on a window", request).error {
        return Err(error.into());
    }
    let mut all = vec![0; total];
    room.send_view(0, 0, total as u64).pack(0, &mut all);
    Ok(all.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|byte| word[byte]))).collect())
}

/// Returns once every member of the communicator has called it.
pub(super) fn member_barrier(comm: Handle) -> Result<(), Raised> {
    let arguments = Arguments::new(Memory::none(), Memory::none());
    let request = gate::with(|process| process.start_collective(comm, &Call::Barrier, arguments, None))?;
    match point_to_point::complete("a call on a window", request).error {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// A window in the making: it has a communicator of its own.
struct Making {
    comm: Handle,
    hints: Info,
    size: usize,
    unit: i64,
}

impl Making {
    /// Checks the arguments and makes the communicator. Collective.
    fn begin(size: i64, unit: i64, info: MPI_Info, parent: MPI_Comm) -> Result<Making, Raised> {
        let Ok(size) = usize::try_from(size) else {
            let text = format!("size is {size}, but it must not be negative");
            return Err(Error::new(ErrorClass::SIZE, text).into());
        };
        if !(1..=i64::from(i32::MAX)).contains(&unit) {
            let text = format!("disp_unit is {unit}; it must be positive and an int");
            return Err(Error::new(ErrorClass::DISP, text).into());
        }
        let hints = accepted(&gate::always(|always| always.hints(info.handle()))?)?;
        let mut own = MPI_Comm::from_raw(abi::MPI_COMM_NULL);
        // SAFETY: our own variable.
        unsafe {
            communicators::construct(parent, &raw mut own, |process| {
                process.comms.get(parent.handle())?.check_intra("a window")?;
                process.duplicate(parent.handle(), Vec::new()).map(Some)
            })?;
        }
        Ok(Making { comm: own.handle(), hints, size, unit })
    }

    /// Tells everybody's extent; an error of any member is an error of all.
    fn extents(&self, mine: Result<(), Error>) -> Result<Vec<Extent>, Raised> {
        let failed = u64::from(mine.is_err());
        let all = exchange(self.comm, &[self.size as u64, self.unit as u64, failed])?;
        mine?;
        if let Some(rank) = all.chunks_exact(3).position(|words| words[2] != 0) {
            let text = format!("rank {rank} has no memory for its part of the window");
            return Err(Error::new(ErrorClass::NO_MEM, text).into());
        }
        Ok(all.chunks_exact(3).map(|words| Extent::new(words[0], words[1] as u32)).collect())
    }

    /// Exposes this process's memory to devices and tells everybody's extent and place; an error of any member is an error of
    /// all. Whoever cannot register its memory is reached by messages.
    fn expose(&self, mine: Result<&Memory, Error>) -> Result<(Vec<Extent>, Places), Raised> {
        let wished = wished(&self.hints, self.size);
        let exposed = mine.as_ref().ok().and_then(|memory| {
            gate::with(|process| {
                let comm = process.comms.get(self.comm)?;
                let (rank, group) = (comm.rank, Arc::clone(&comm.group));
                let others = (0..group.size()).filter(|&other| other != rank.0);
                let range = MemoryRange { address: memory.address() as u64, length: self.size as u64 };
                let peers = others.map(|other| group.peer(Rank(other)));
                Ok::<_, Error>(process.engine.expose(range, peers, wished))
            })
            .ok()?
        });
        let place = exposed.map_or(UNEXPOSED, |(region, _)| region.remote);
        let changes = exposed.map_or(Changes::None, |(_, changes)| changes);
        // Whether it has failed, and what others may have its device change.
        let word = u64::from(mine.is_err()) | (changes as u64) << 1;
        let words = [self.size as u64, self.unit as u64, word, place.address, place.key];
        let told = exchange(self.comm, &words).and_then(|all| {
            mine?;
            match all.chunks_exact(5).position(|words| words[2] & 1 != 0) {
                None => Ok(all),
                Some(rank) => {
                    let text = format!("rank {rank} has no memory for its part of the window");
                    Err(Error::new(ErrorClass::NO_MEM, text).into())
                }
            }
        });
        let exposed = exposed.map(|(region, _)| region.id);
        let all = told.inspect_err(|_| {
            if let Some(region) = exposed {
                gate::with(|process| process.engine.withdraw(region));
            }
        })?;
        let extent = |words: &[u64]| Extent {
            size: words[0],
            unit: words[1] as u32,
            changes: Changes::from_word(words[2] >> 1),
        };
        let extents = all.chunks_exact(5).map(extent).collect();
        let mut places: Vec<RemoteMemory> =
            all.chunks_exact(5).map(|words| RemoteMemory { address: words[3], key: words[4] }).collect();
        if places.iter().all(|&place| place == UNEXPOSED) {
            places = Vec::new();
        }
        Ok((extents, Places { places, exposed }))
    }

    fn finish(
        self,
        flavor: Flavor,
        memory: Memory,
        (extents, mapped, places): (Vec<Extent>, Vec<Memory>, Places),
        keep: Option<Box<dyn Keep>>,
    ) -> Result<MPI_Win, Raised> {
        let handle = gate::with(|process| {
            let comm = process.comms.get(self.comm);
            let made = comm.map(|comm| (comm.context, comm.rank, Arc::clone(&comm.group))).and_then(
                |(context, rank, group)| {
                    process.windows.insert(Parts {
                        comm: self.comm,
                        context,
                        rank,
                        group,
                        flavor,
                        memory,
                        extents,
                        mapped,
                        places: places.places,
                        exposed: places.exposed,
                        keep,
                        hints: self.hints,
                    })
                },
            );
            if made.is_err()
                && let Some(region) = places.exposed
            {
                process.engine.withdraw(region);
            }
            let handle = made?;
            process.cache.open_window(handle, Arc::clone(&process.windows.get(handle)?.facts));
            Ok(handle)
        })
        .map_err(|error: Error| Raised::from(error))?;
        // No message about the window comes before everybody has it.
        member_barrier(self.comm)?;
        Ok(MPI_Win::from_raw(handle.0))
    }
}

/// The members' memory as devices know it.
#[derive(Default)]
struct Places {
    places: Vec<RemoteMemory>,
    exposed: Option<RegionId>,
}

/// Bytes at an address, exposed in a window.
///
/// # Safety
/// The memory may be read and written until the window is freed.
unsafe fn exposed(address: *mut u8, bytes: usize) -> Memory {
    let byte = Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("MPI_BYTE is predefined"));
    // SAFETY: the caller's promise.
    unsafe { Memory::write(address, &byte, (0, bytes as i64)) }
}

/// `MPI_Win_create` (section 12.2.1).
pub(crate) unsafe fn win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<(), Raised> {
    check_making("MPI_Win_create", comm)?;
    let making = Making::begin(size, disp_unit, info, comm)?;
    // SAFETY: the program's memory stays until the window is freed.
    let memory = unsafe { exposed(base.cast(), making.size) };
    let (extents, places) = making.expose(match base.is_null() && size > 0 {
        true => Err(Error::new(ErrorClass::BASE, format!("base is a null pointer, but size is {size}"))),
        false => Ok(&memory),
    })?;
    let made = making.finish(Flavor::Create, memory, (extents, Vec::new(), places), None)?;
    // SAFETY: the entry has refused a null `win`.
    unsafe { win.write(made) };
    Ok(())
}

/// `MPI_Win_allocate` (section 12.2.2).
pub(crate) unsafe fn win_allocate(
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<(), Raised> {
    check_making("MPI_Win_allocate", comm)?;
    let making = Making::begin(size, disp_unit, info, comm)?;
    let wished = gate::always(|always| always.hints(info.handle()))?
        .text("mpi_minimum_memory_alignment")
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|wished| wished.is_power_of_two())
        .unwrap_or(1);
    let extents = making.extents(Ok(()))?;
    // Inside a node the members reach each other's memory, unless somebody asks for more than pages can give, or shared memory
    // is not to be used.
    let one_node = gate::with(|process| {
        let comm = process.comms.get(making.comm)?;
        Ok::<_, Error>(process.engine.are_here(comm.group.peers()))
    })
    .map_err(|error: Error| Raised::from(error))?;
    let modest = exchange(making.comm, &[u64::from(wished > PAGE)])?.iter().all(|&large| large == 0);
    if one_node
        && modest
        && extents.len() > 1
        && let Ok(segments) = Segments::share(making.comm, &extents, true)
    {
        // SAFETY: the entry has refused null.
        return unsafe { segments.into_window(making, Flavor::Allocate, extents, baseptr, win) };
    }
    let (mine, allocation) = match Allocation::new(making.size, wished.max(ALIGNMENT)) {
        Ok(allocation) => (Ok(()), Some(allocation)),
        Err(error) => (Err(error), None),
    };
    let address = allocation.as_ref().map_or(std::ptr::null_mut(), Allocation::address);
    // SAFETY: the memory lives as long as the window keeps it.
    let memory = unsafe { exposed(address, making.size) };
    let (extents, places) = making.expose(mine.map(|()| &memory))?;
    let keep = allocation.map(|allocation| Box::new(allocation) as Box<dyn Keep>);
    let made = making.finish(Flavor::Allocate, memory, (extents, Vec::new(), places), keep)?;
    // SAFETY: the entry has refused null.
    unsafe {
        win.write(made);
        baseptr.cast::<*mut u8>().write(address);
    }
    Ok(())
}

/// `MPI_Win_allocate_shared` (section 12.2.3): one memory file, mapped by all.
pub(crate) unsafe fn win_allocate_shared(
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<(), Raised> {
    check_making("MPI_Win_allocate_shared", comm)?;
    let making = Making::begin(size, disp_unit, info, comm)?;
    let extents = making.extents(Ok(()))?;
    // Without the hint one segment begins where the one before ends.
    let apart = making.hints.text("alloc_shared_noncontig") == Some("true");
    let segments = Segments::share(making.comm, &extents, apart)?;
    // SAFETY: the entry has refused null.
    unsafe { segments.into_window(making, Flavor::Shared, extents, baseptr, win) }
}

/// The memory of all members, one after another in one mapping.
struct Segments {
    mapping: Mapping,
    addresses: Vec<*mut u8>,
}

impl Segments {
    /// Makes and maps the memory. Collective; it fails for all if for one.
    fn share(comm: Handle, extents: &[Extent], apart: bool) -> Result<Segments, Raised> {
        let mut total = 0;
        let starts: Vec<usize> = extents
            .iter()
            .map(|extent| {
                let start = total;
                total += extent.size as usize;
                total = if apart { total.next_multiple_of(PAGE) } else { total };
                start
            })
            .collect();
        let mapping = share(comm, total)?;
        let addresses = starts.iter().map(|&start| mapping.address().wrapping_add(start)).collect();
        Ok(Segments { mapping, addresses })
    }

    /// Makes the window and tells the program where its own segment is.
    ///
    /// # Safety
    /// `baseptr` is the address of a pointer and `win` that of a handle.
    unsafe fn into_window(
        self,
        making: Making,
        flavor: Flavor,
        extents: Vec<Extent>,
        baseptr: *mut c_void,
        win: *mut MPI_Win,
    ) -> Result<(), Raised> {
        let rank = gate::with(|process| process.comms.get(making.comm).map(|comm| comm.rank.0 as usize))?;
        let parts = self.addresses.iter().zip(&extents);
        // SAFETY: the memory lives as long as the window keeps the mapping.
        let expose = |(&address, extent): (_, &Extent)| unsafe { exposed(address, extent.size as usize) };
        let mapped: Vec<Memory> = parts.map(expose).collect();
        let memory = mapped[rank].clone();
        let keep: Option<Box<dyn Keep>> = Some(Box::new(self.mapping));
        let made = making.finish(flavor, memory, (extents, mapped, Places::default()), keep)?;
        // SAFETY: the caller's promise.
        unsafe {
            win.write(made);
            baseptr.cast::<*mut u8>().write(self.addresses[rank]);
        }
        Ok(())
    }
}

/// Memory that all members map. Collective; it fails for all if for one.
fn share(comm: Handle, bytes: usize) -> Result<Mapping, Raised> {
    let first = gate::with(|process| process.comms.get(comm).map(|comm| comm.rank.0 == 0))?;
    let file: Option<weft_types::Result<OwnedFd>> = first.then(|| memory_file(bytes));
    let words = match &file {
        Some(Ok(file)) => [u64::from(std::process::id()), file.as_raw_fd() as u64],
        _ => [0, 0],
    };
    let told = exchange(comm, &words)?;
    let mapping = match (file.as_ref(), told[0]) {
        (Some(Err(error)), _) => Err(error.clone()),
        (_, 0) => {
            Err(Error::new(ErrorClass::RMA_SHARED, "rank 0 could not make the memory of the shared window"))
        }
        _ => Mapping::of(told[0], told[1], bytes),
    };
    // Everybody has it mapped before the first descriptor is closed.
    let failures = exchange(comm, &[u64::from(mapping.is_err())])?;
    let mapping = mapping?;
    match failures.iter().position(|&failed| failed != 0) {
        Some(rank) => {
            let text = format!("rank {rank} could not map the memory of the shared window");
            Err(Error::new(ErrorClass::RMA_SHARED, text).into())
        }
        None => Ok(mapping),
    }
}

/// `MPI_Win_shared_query` (section 12.2.3).
pub(crate) unsafe fn win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: CountOut,
    baseptr: *mut c_void,
) -> Result<(), Raised> {
    let (extent, address) = gate::with(|process| {
        let window = process.windows.get(win.handle())?;
        if window.flavor == Flavor::Dynamic {
            return Err(Error::new(
                ErrorClass::RMA_FLAVOR,
                "a window of MPI_Win_create_dynamic has no shared memory that could be asked for",
            ));
        }
        let target = match window.target(rank)? {
            Some(target) => target,
            // MPI_PROC_NULL: the lowest rank of the node that has memory.
            None => window.extents.iter().position(|extent| extent.size != 0).unwrap_or(0) as u32,
        };
        let extent = window.extents[target as usize];
        Ok(match window.address_of(target) {
            Some(address) if extent.size > 0 => (extent, address),
            _ => (Extent { size: 0, ..extent }, 0),
        })
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null; `baseptr` is the address of a pointer.
    unsafe {
        size.write(extent.size as i64);
        disp_unit.set(extent.unit as i64);
        baseptr.cast::<*mut c_void>().write(std::ptr::with_exposed_provenance_mut(address));
    }
    Ok(())
}

/// `MPI_Win_create_dynamic` (section 12.2.4).
pub(crate) unsafe fn win_create_dynamic(
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<(), Raised> {
    check_making("MPI_Win_create_dynamic", comm)?;
    let making = Making::begin(0, 1, info, comm)?;
    let made =
        making.finish(Flavor::Dynamic, Memory::none(), (Vec::new(), Vec::new(), Places::default()), None)?;
    // SAFETY: the entry has refused null.
    unsafe { win.write(made) };
    Ok(())
}

/// `MPI_Win_attach` (section 12.2.4).
pub(crate) unsafe fn win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> Result<(), Raised> {
    let Ok(bytes) = usize::try_from(size) else {
        return Err(
            Error::new(ErrorClass::SIZE, format!("size is {size}, but it must not be negative")).into()
        );
    };
    // SAFETY: the program's memory stays until it is detached.
    let memory = unsafe { exposed(base.cast(), bytes) };
    base.expose_provenance();
    Ok(gate::with(|process| process.windows.get_mut(win.handle())?.attach(memory, bytes as u64))?)
}

/// `MPI_Win_detach` (section 12.2.4).
pub(crate) unsafe fn win_detach(win: MPI_Win, base: *const c_void) -> Result<(), Raised> {
    Ok(gate::with(|process| process.windows.get_mut(win.handle())?.detach(base.addr() as u64))?)
}

/// `MPI_Win_free` (section 12.2.5).
pub(crate) unsafe fn win_free(win: *mut MPI_Win) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    let handle = unsafe { win.read() }.handle();
    let on_window = |raised: Raised| raised.or_on(On::Win(handle));
    let comm = gate::with(|process| {
        let window = process.windows.get(handle)?;
        window.check_free()?;
        Ok(window.comm)
    })
    .map_err(|error: Error| on_window(error.into()))?;
    attributes::delete_all_of(Holder::Win, handle).map_err(on_window)?;
    member_barrier(comm).map_err(on_window)?;
    let errhandlers = gate::with(|process| {
        let mut window = process.windows.remove(handle)?;
        process.cache.close_window(handle);
        window.withdraw(&mut process.engine);
        Ok([window.errhandler, process.free_comm(comm)?.errhandler])
    })
    .map_err(|error: Error| Raised::from(error))?;
    errhandlers.into_iter().for_each(errors::let_go);
    // SAFETY: as above.
    unsafe { win.write(MPI_Win::from_raw(abi::MPI_WIN_NULL)) };
    Ok(())
}

/// `MPI_Win_get_group` (section 12.2.6).
pub(crate) unsafe fn win_get_group(win: MPI_Win, group: *mut MPI_Group) -> Result<(), Raised> {
    let named = gate::with(|process| {
        let window = process.windows.get(win.handle())?;
        let (members, comm) = (Arc::clone(&window.group), window.comm);
        let named = process.name_group(members)?;
        process.sessions.inherit(named, comm);
        Ok(named)
    })
    .map_err(|error: Error| Raised::from(error))?;
    // SAFETY: the entry has refused null.
    unsafe { group.write(MPI_Group::from_raw(named.0)) };
    Ok(())
}

/// `MPI_Win_set_info` (section 12.2.7).
pub(crate) unsafe fn win_set_info(win: MPI_Win, info: MPI_Info) -> Result<(), Raised> {
    let hints = accepted(&gate::always(|always| always.hints(info.handle()))?)?;
    gate::with(|process| {
        let window = process.windows.get_mut(win.handle())?;
        // Everybody has heard when the window was made what devices may change.
        for (key, value) in hints.pairs().filter(|&(key, _)| key != DEVICE_ATOMICS.as_bytes()) {
            window.hints.set(key, value)?;
        }
        Ok(())
    })
    .map_err(|error: Error| error.into())
}

/// `MPI_Win_get_info` (section 12.2.7): every supported hint with its value.
pub(crate) unsafe fn win_get_info(win: MPI_Win, info_used: *mut MPI_Info) -> Result<(), Raised> {
    let content = gate::with(|process| {
        let window = process.windows.get(win.handle())?;
        let kinds = process.memory_kinds(window.comm);
        let mut content = Info::default();
        for (key, default) in HINTS {
            let value = match key {
                DEVICE_ATOMICS if window.changes() == Changes::None => "false",
                _ => window.hints.text(key).unwrap_or(default),
            };
            if !value.is_empty() {
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

/// `MPI_Win_set_name` (section 7.8).
pub(crate) unsafe fn win_set_name(win: MPI_Win, win_name: *const c_char) -> Result<(), Raised> {
    // SAFETY: the program passes a string; the entry has refused null.
    let name = unsafe { bytes(win_name) };
    let kept = &name[..name.len().min(abi::MPI_MAX_OBJECT_NAME as usize - 1)];
    gate::with(|process| process.windows.get_mut(win.handle()).map(|win| win.name = kept.into()))?;
    Ok(())
}

/// `MPI_Win_get_name` (section 7.8).
pub(crate) unsafe fn win_get_name(
    win: MPI_Win,
    win_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<(), Raised> {
    let found = match win.handle().0 {
        abi::MPI_WIN_NULL => b"MPI_WIN_NULL"[..].into(),
        _ => gate::with(|process| process.windows.get(win.handle()).map(|win| win.name.clone()))?,
    };
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_OBJECT_NAME characters.
    unsafe { resultlen.write(write_string(&found, win_name, abi::MPI_MAX_OBJECT_NAME as usize) as c_int) };
    Ok(())
}
