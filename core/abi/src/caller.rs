//! Which MPI procedure the calling thread is in, and where the program called it; found by walking the stack, for messages
//! about calls that are blocked.

use std::ffi::{CStr, c_int, c_void};

/// What the stack says.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// `MPI_Recv`
    pub(crate) procedure: Option<String>,
    /// `solver(exchange+0x42)`, or `solver(+0x1234)` for `addr2line -e solver 0x1234`.
    pub(crate) place: String,
}

/// One return address: file, its load address, and the symbol if it has one.
struct Frame {
    file: String,
    base: usize,
    symbol: Option<(String, usize)>,
    address: usize,
}

const DEPTH: usize = 48;

/// Walks this thread's stack out of the library.
pub(crate) fn of_mpi() -> Caller {
    let mut addresses = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: the array has DEPTH places.
    let count = unsafe { libc::backtrace(addresses.as_mut_ptr(), DEPTH as c_int) }.clamp(0, DEPTH as c_int);
    // A return address belongs to the instruction before it.
    let frames =
        addresses[..count as usize].iter().filter_map(|address| frame(address.addr().wrapping_sub(1)));
    // An entry point may have jumped to its full form, and is not on the stack then: everything of this library is below the
    // program's call all the same. Linked into the program, the library cannot be told from it.
    let own = base_of(of_mpi as *const () as usize);
    // SAFETY: getauxval takes any number.
    let is_library = own.is_some() && own != base_of(unsafe { libc::getauxval(libc::AT_ENTRY) } as usize);
    let mut caller = Caller::default();
    for frame in frames {
        let procedure = frame.symbol.as_ref().map(|(name, _)| name.strip_prefix('P').unwrap_or(name));
        match procedure.filter(|name| name.starts_with("MPI_")) {
            // Wrappers of profiling tools lie around ours; the outermost is the program's call.
            Some(name) => caller.procedure = Some(name.to_owned()),
            None if is_library && Some(frame.base) == own => {}
            None if is_library || caller.procedure.is_some() => {
                caller.place = frame.text();
                break;
            }
            None => {}
        }
    }
    caller
}

/// Where the object that holds an address is loaded.
fn base_of(address: usize) -> Option<usize> {
    frame(address).map(|frame| frame.base)
}

fn frame(address: usize) -> Option<Frame> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: dladdr takes any address and writes `info` only.
    if unsafe { libc::dladdr(std::ptr::without_provenance(address), &raw mut info) } == 0 {
        return None;
    }
    let text = |pointer: *const std::ffi::c_char| {
        // SAFETY: dladdr gives null or a string of a loaded object, and none is unloaded while its code is on this stack.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
    };
    let path = text(info.dli_fname)?;
    let file = path.rsplit('/').next().unwrap_or(&path).to_owned();
    let symbol = text(info.dli_sname).map(|name| (name, info.dli_saddr.addr()));
    Some(Frame { file, base: info.dli_fbase.addr(), symbol, address })
}

impl Frame {
    fn text(&self) -> String {
        match &self.symbol {
            Some((name, start)) => format!("{}({name}+{:#x})", self.file, self.address - start),
            None => format!("{}(+{:#x})", self.file, self.address - self.base),
        }
    }
}
