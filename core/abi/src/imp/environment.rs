//! The surroundings: names, memory, profiling control (sections 9.1.2, 9.2, 15.2.4), and small tools for other modules.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;

use weft_datatype::Datatype;
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot;

/// Looks a datatype up and asks it something; with several threads without a lock, unless the calling thread meets it for the
/// first time or it is not committed. `ask` looks nothing else up.
pub(super) fn datatype<R>(handle: MPI_Datatype, ask: impl FnOnce(&Datatype) -> Outcome<R>) -> Outcome<R> {
    match gate::phase() & gate::LOCKED {
        0 => gate::with(|process| ask(process.types.get(handle.handle())?)),
        _ => snapshot::ask(handle.handle(), ask),
    }
}

/// The bytes of a string argument, without the NUL.
///
/// # Safety
/// The program passes a string; the entry has refused null.
pub(super) unsafe fn bytes<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_bytes()
}

/// Writes as much of `text` as fits `room` characters, and the NUL behind it. Returns the length written.
///
/// # Safety
/// The program passes a buffer of `room` characters, at least 1.
pub(super) unsafe fn write_string(text: &[u8], to: *mut c_char, room: usize) -> usize {
    let length = text.len().min(room - 1);
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), length);
        to.add(length).write(0);
    }
    length
}

/// `MPI_Get_processor_name` (section 9.1.2).
pub(crate) unsafe fn get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> Result<(), Raised> {
    let mut host = [0_u8; abi::MPI_MAX_PROCESSOR_NAME as usize];
    // SAFETY: the buffer has the length given, and one byte is kept for the NUL.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let length = host.iter().position(|&byte| byte == 0).unwrap_or(host.len() - 1);
    // SAFETY: the entry has refused null; the buffer has MPI_MAX_PROCESSOR_NAME characters.
    unsafe {
        let written = write_string(&host[..length], name, host.len());
        resultlen.write(written as c_int);
    }
    Ok(())
}

/// What `MPI_Alloc_mem` handed out and `MPI_Free_mem` has not taken back.
static ALLOCATED: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);

/// Pages begin here, and no datatype wants more.
const DEFAULT_ALIGNMENT: usize = 64;

/// `MPI_Alloc_mem` (section 9.2).
pub(crate) unsafe fn alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) -> Result<(), Raised> {
    let Ok(size) = usize::try_from(size) else {
        return Err(
            Error::new(ErrorClass::ARG, format!("size is {size}, but it must not be negative")).into()
        );
    };
    let hints = gate::always(|always| always.hints(info.handle()))?;
    let wished =
        hints.text("mpi_minimum_memory_alignment").and_then(|text| text.trim().parse::<usize>().ok());
    let alignment = wished.filter(|wished| wished.is_power_of_two()).unwrap_or(1).max(DEFAULT_ALIGNMENT);
    let mut memory = std::ptr::null_mut();
    // SAFETY: `memory` is writable; the alignment is a power of two and a multiple of a pointer's size.
    let failed = unsafe { libc::posix_memalign(&raw mut memory, alignment, size.max(1)) };
    if failed != 0 {
        return Err(Error::new(
            ErrorClass::NO_MEM,
            format!("{size} bytes aligned to {alignment} cannot be had from the system"),
        )
        .into());
    }
    let mut allocated = ALLOCATED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    allocated.get_or_insert_with(HashMap::new).insert(memory.expose_provenance(), size);
    // SAFETY: the entry has refused null; `baseptr` is the address of a pointer.
    unsafe { baseptr.cast::<*mut c_void>().write(memory) };
    Ok(())
}

/// `MPI_Free_mem` (section 9.2).
pub(crate) unsafe fn free_mem(base: *mut c_void) -> Result<(), Raised> {
    if base.is_null() {
        // mpi4py and others free what an allocation of no bytes gave elsewhere.
        return Ok(());
    }
    let mut allocated = ALLOCATED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if allocated.as_mut().and_then(|allocated| allocated.remove(&base.addr())).is_none() {
        return Err(Error::new(
            ErrorClass::BASE,
            format!("base is {base:?}, which MPI_Alloc_mem did not hand out or which was freed before"),
        )
        .into());
    }
    // SAFETY: it came from posix_memalign and is freed once.
    unsafe { libc::free(base) };
    Ok(())
}

/// Bytes of each piece of memory of MPI_Alloc_mem that was not freed.
pub(crate) fn allocated() -> Vec<usize> {
    let allocated = ALLOCATED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    allocated.as_ref().map_or_else(Vec::new, |allocated| allocated.values().copied().collect())
}

/// `MPI_Pcontrol` (section 15.2.4): for profiling libraries; the library itself does nothing.
pub(crate) fn pcontrol(_level: c_int) -> Result<(), Raised> {
    Ok(())
}
