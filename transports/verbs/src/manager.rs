//! The connection manager's library (librdmacm), found once for the process, and why it cannot be asked where it cannot.

use crate::sys::cm::{rdma_cm_event, rdma_cm_id, rdma_event_channel};
use libc::{c_int, c_void, size_t, sockaddr};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const NAME: &str = "librdmacm.so.1";
/// What the library talks to the kernel by.
const DEVICE: &str = "/dev/infiniband/rdma_cm";

/// The file in its place.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Has this process use another file in place of the system's librdmacm. To be said before anything else is asked of this crate;
/// `false`: it was said before.
pub fn use_manager(file: &Path) -> bool {
    OTHER.set(file.to_owned()).is_ok()
}

functions! {
    /// The functions that are used, under the library's names.
    Manager:
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_destroy_event_channel(*mut rdma_event_channel);
    fn rdma_create_id(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_int) -> c_int;
    fn rdma_destroy_id(*mut rdma_cm_id) -> c_int;
    fn rdma_resolve_addr(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    fn rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int;
    fn rdma_get_cm_event(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
    fn rdma_ack_cm_event(*mut rdma_cm_event) -> c_int;
    fn rdma_set_option(*mut rdma_cm_id, c_int, c_int, *mut c_void, size_t) -> c_int;
    optional
}

/// The library, or why nobody can be asked. The first call loads it; it stays until the process ends.
pub(crate) fn manager() -> Result<&'static Manager, &'static str> {
    static MANAGER: OnceLock<Result<Manager, String>> = OnceLock::new();
    MANAGER.get_or_init(load).as_ref().map_err(String::as_str)
}

/// Why the connection manager cannot be asked for routes on this host; `None`: it can, as far as nobody has tried.
pub fn no_manager() -> Option<&'static str> {
    manager().err()
}

fn load() -> Result<Manager, String> {
    let other = OTHER.get();
    let file = other.map_or(Path::new(NAME), PathBuf::as_path);
    let why = |error: libloading::Error| {
        format!("{} cannot be used ({error}): install it (Debian: librdmacm1)", file.display())
    };
    // Without it the library prints to standard error.
    if other.is_none() && !Path::new(DEVICE).exists() {
        return Err(format!("{DEVICE} is not there (modprobe rdma_ucm; containers must be given the file)"));
    }
    // SAFETY: its initialisers are those of an ordinary shared library.
    let handle = unsafe { Handle::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(why)?;
    let manager = Manager::find(&handle).map_err(why)?;
    std::mem::forget(handle);
    Ok(manager)
}
