//! One-sided operations (section 12.3).

use std::ffi::{c_int, c_void};

use weft::Process;
use weft::request::{Local, engine_handle};
use weft::window::{Elements, Operation, Target};
use weft_datatype::{Class, Datatype, Memory, PredefinedOp};
use weft_engine::RequestId;
use weft_types::{Error, ErrorClass, Handle, Result as Outcome};

use super::point_to_point::{LAST_ADDRESS_CONSTANT, no_buffer};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// An origin or result argument.
type Data = (*mut c_void, i64, MPI_Datatype);

/// A target argument: rank, displacement, count, datatype.
type Place = (c_int, MPI_Aint, i64, MPI_Datatype);

unsafe fn read(address: *mut u8, datatype: &Datatype, span: (i64, i64)) -> Memory {
    // SAFETY: the caller's promise.
    unsafe { Memory::read(address, datatype, span) }
}

unsafe fn write(address: *mut u8, datatype: &Datatype, span: (i64, i64)) -> Memory {
    // SAFETY: the caller's promise.
    unsafe { Memory::write(address, datatype, span) }
}

/// The elements of an origin or result argument.
///
/// # Safety
/// The program keeps them as `make` asks until the operation is complete at the origin.
unsafe fn elements(
    process: &Process,
    (address, count, datatype): Data,
    make: unsafe fn(*mut u8, &Datatype, (i64, i64)) -> Memory,
) -> Outcome<(Elements, Datatype)> {
    let datatype = process.types.usable(datatype.handle())?.clone();
    let count = count as u64;
    let bytes = datatype.packed_bytes(count)?;
    if address.addr() <= LAST_ADDRESS_CONSTANT && bytes > 0 && datatype.is_contiguous() {
        return Err(no_buffer(address.addr(), bytes));
    }
    // SAFETY: the caller's promise.
    let memory = unsafe { make(address.cast(), &datatype, datatype.span(count)?) };
    if memory.is_writable() {
        datatype.check_distinct(count)?;
    }
    Ok((Elements { memory, bytes: bytes as u64 }, datatype))
}

/// The target of an operation; `None` for `MPI_PROC_NULL`.
fn target(process: &Process, win: MPI_Win, (rank, disp, count, datatype): Place) -> Outcome<Option<Target>> {
    let window = process.windows.get(win.handle())?;
    let Some(rank) = window.target(rank)? else { return Ok(None) };
    if disp < 0 && window.flavor != weft::window::Flavor::Dynamic {
        return Err(Error::new(
            ErrorClass::DISP,
            format!("target_disp is {disp}, but it must not be negative"),
        ));
    }
    let datatype = process.types.usable(datatype.handle())?.clone();
    Ok(Some(Target { rank, disp, count: count as u64, datatype }))
}

/// The predefined operation of an accumulating call; `fetching` ones may do nothing (section 12.3.4).
fn operation(op: MPI_Op, fetching: bool) -> Outcome<(PredefinedOp, u32)> {
    let value = op.handle().0;
    match PredefinedOp::from_abi(value) {
        Some(PredefinedOp::NoOp) if !fetching => Err(Error::new(
            ErrorClass::OP,
            "MPI_NO_OP is allowed in MPI_Get_accumulate, MPI_Rget_accumulate and MPI_Fetch_and_op only",
        )),
        Some(op) => Ok((op, value)),
        None => Err(Error::new(
            ErrorClass::OP,
            format!("op is {value:#x}; one-sided operations take the predefined ones only (section 12.3.4)"),
        )),
    }
}

/// Runs what starts an operation. `None`: the target is `MPI_PROC_NULL`.
fn start(work: impl FnOnce(&mut Process) -> Outcome<Option<Operation>>) -> Result<Option<Operation>, Raised> {
    Ok(gate::with(work)?)
}

/// Makes the request of an operation; those begun with one need a passive-target epoch (section 12.3.5).
unsafe fn requested(
    win: MPI_Win,
    request: *mut MPI_Request,
    start: impl FnOnce() -> Result<Option<Operation>, Raised>,
) -> Result<(), Raised> {
    gate::with(|process| process.windows.get(win.handle())?.flush_local(None))?;
    let handle: Handle = match start()? {
        Some(operation) if !operation.is_done() => {
            gate::with(|process| process.requests.insert(Local::OneSided(operation, win.handle())))?
        }
        _ => engine_handle(RequestId::COMPLETE),
    };
    // SAFETY: the entry has refused null.
    unsafe { request.write(MPI_Request::from_raw(handle.0)) };
    Ok(())
}

unsafe fn start_put(origin: Data, place: Place, win: MPI_Win) -> Result<Option<Operation>, Raised> {
    start(|process| {
        let Some(to) = target(process, win, place)? else { return Ok(None) };
        to.datatype.check_distinct(to.count)?;
        // SAFETY: the program's data stay until the operation is complete here.
        let (from, _) = unsafe { elements(process, origin, read)? };
        process.windows.get_mut(win.handle())?.put(&mut process.engine, &from, &to).map(Some)
    })
}

unsafe fn start_get(origin: Data, place: Place, win: MPI_Win) -> Result<Option<Operation>, Raised> {
    start(|process| {
        let Some(of) = target(process, win, place)? else { return Ok(None) };
        // SAFETY: the program leaves the memory alone until the operation is complete here.
        let (into, _) = unsafe { elements(process, origin, write)? };
        process.windows.get_mut(win.handle())?.get(&mut process.engine, &into, &of).map(Some)
    })
}

unsafe fn start_accumulate(
    origin: Data,
    result: Option<Data>,
    place: Place,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<Option<Operation>, Raised> {
    start(|process| {
        let op = operation(op, result.is_some())?;
        let Some(to) = target(process, win, place)? else { return Ok(None) };
        to.datatype.check_distinct(to.count)?;
        // SAFETY: the program keeps its side until the operation is complete here.
        let (from, result) = unsafe {
            let from = match op.0 {
                PredefinedOp::NoOp => None,
                _ => Some(elements(process, origin, read)?),
            };
            (from, result.map(|result| elements(process, result, write)).transpose()?)
        };
        let from = from.as_ref().map(|(from, datatype)| (from, datatype));
        let result = result.as_ref().map(|(result, _)| result);
        process
            .windows
            .get_mut(win.handle())?
            .accumulate(&mut process.engine, from, result, &to, op)
            .map(Some)
    })
}

macro_rules! operations {
    ($($name:ident $requested:ident ($($argument:ident: $type:ty),*) $doc:literal => $start:expr;)*) => {$(
        #[doc = concat!("`MPI_", $doc, "` (section 12.3).")]
        pub(crate) unsafe fn $name($($argument: $type,)* win: MPI_Win) -> Result<(), Raised> {
            let start: fn($($type,)* MPI_Win) -> Result<Option<Operation>, Raised> = $start;
            start($($argument,)* win).map(drop)
        }

        #[doc = concat!("`MPI_R", $doc, "` with a request (section 12.3.5).")]
        pub(crate) unsafe fn $requested(
            $($argument: $type,)*
            win: MPI_Win,
            request: *mut MPI_Request,
        ) -> Result<(), Raised> {
            let start: fn($($type,)* MPI_Win) -> Result<Option<Operation>, Raised> = $start;
            // SAFETY: the entry has refused null.
            unsafe { requested(win, request, || start($($argument,)* win)) }
        }
    )*};
}

operations! {
    put rput (
        origin: *const c_void, origin_count: i64, origin_type: MPI_Datatype,
        rank: c_int, disp: MPI_Aint, count: i64, datatype: MPI_Datatype
    ) "put" => |origin, origin_count, origin_type, rank, disp, count, datatype, win| {
        // SAFETY: as for every entry: the program keeps the procedure's contract.
        unsafe { start_put((origin.cast_mut(), origin_count, origin_type), (rank, disp, count, datatype), win) }
    };
    get rget (
        origin: *mut c_void, origin_count: i64, origin_type: MPI_Datatype,
        rank: c_int, disp: MPI_Aint, count: i64, datatype: MPI_Datatype
    ) "get" => |origin, origin_count, origin_type, rank, disp, count, datatype, win| {
        // SAFETY: as above.
        unsafe { start_get((origin, origin_count, origin_type), (rank, disp, count, datatype), win) }
    };
    accumulate raccumulate (
        origin: *const c_void, origin_count: i64, origin_type: MPI_Datatype,
        rank: c_int, disp: MPI_Aint, count: i64, datatype: MPI_Datatype, op: MPI_Op
    ) "accumulate" => |origin, origin_count, origin_type, rank, disp, count, datatype, op, win| {
        let origin = (origin.cast_mut(), origin_count, origin_type);
        // SAFETY: as above.
        unsafe { start_accumulate(origin, None, (rank, disp, count, datatype), op, win) }
    };
    get_accumulate rget_accumulate (
        origin: *const c_void, origin_count: i64, origin_type: MPI_Datatype,
        result: *mut c_void, result_count: i64, result_type: MPI_Datatype,
        rank: c_int, disp: MPI_Aint, count: i64, datatype: MPI_Datatype, op: MPI_Op
    ) "get_accumulate" => |origin, origin_count, origin_type, result, result_count, result_type, rank, disp, count, datatype, op, win| {
        let origin = (origin.cast_mut(), origin_count, origin_type);
        let result = Some((result, result_count, result_type));
        // SAFETY: as above.
        unsafe { start_accumulate(origin, result, (rank, disp, count, datatype), op, win) }
    };
}

fn predefined_only(datatype: MPI_Datatype, allowed: fn(Class) -> bool, rule: &str) -> Outcome<()> {
    gate::with(|process| {
        let datatype = process.types.usable(datatype.handle())?;
        match datatype.as_predefined() {
            Some(predefined) if allowed(predefined.class()) => Ok(()),
            Some(predefined) => Err(Error::new(
                ErrorClass::TYPE,
                format!("{} is not allowed here: {rule}", predefined.name()),
            )),
            None => {
                Err(Error::new(ErrorClass::TYPE, format!("a derived datatype is not allowed here: {rule}")))
            }
        }
    })
}

/// `MPI_Fetch_and_op` (section 12.3.4).
pub(crate) unsafe fn fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<(), Raised> {
    predefined_only(datatype, |_| true, "MPI_Fetch_and_op takes predefined datatypes (section 12.3.4)")?;
    let origin = (origin.cast_mut(), 1, datatype);
    // SAFETY: as for every entry: the program keeps the procedure's contract.
    unsafe {
        start_accumulate(origin, Some((result, 1, datatype)), (rank, disp, 1, datatype), op, win).map(drop)
    }
}

/// `MPI_Compare_and_swap` (section 12.3.4).
pub(crate) unsafe fn compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    win: MPI_Win,
) -> Result<(), Raised> {
    predefined_only(
        datatype,
        |class| {
            matches!(
                class,
                Class::CInteger | Class::FortranInteger | Class::Logical | Class::MultiLanguage | Class::Byte
            )
        },
        "MPI_Compare_and_swap takes integer, logical, multi-language types and MPI_BYTE (section 12.3.4)",
    )?;
    start(|process| {
        let Some(to) = target(process, win, (rank, disp, 1, datatype))? else { return Ok(None) };
        // SAFETY: the program keeps its side until the operation is complete here.
        let (new, compare, result) = unsafe {
            (
                elements(process, (origin.cast_mut(), 1, datatype), read)?.0,
                elements(process, (compare.cast_mut(), 1, datatype), read)?.0,
                elements(process, (result, 1, datatype), write)?.0,
            )
        };
        let window = process.windows.get_mut(win.handle())?;
        window.compare_and_swap(&mut process.engine, (&compare, &new), &result, &to).map(Some)
    })
    .map(drop)
}
