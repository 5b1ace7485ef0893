//! The library's functions, found once for the process.

use crate::sys::{
    IBV_FORK_DISABLED, ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_device,
    ibv_device_attr, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_srq,
    ibv_srq_init_attr,
};
use libc::{c_char, c_int, c_uint, c_void, size_t};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "libibverbs.so.1";

/// The file in its place.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Has this process use another file in place of the system's libibverbs, such as a described device. To be said before anything
/// else is asked of this crate; `false`: it was said before.
pub fn use_library(file: &Path) -> bool {
    OTHER.set(file.to_owned()).is_ok()
}

functions! {
    /// The functions that are used, under the library's names.
    Library:
    fn ibv_get_device_list(*mut c_int) -> *mut *mut ibv_device;
    fn ibv_free_device_list(*mut *mut ibv_device);
    fn ibv_get_device_name(*mut ibv_device) -> *const c_char;
    fn ibv_open_device(*mut ibv_device) -> *mut ibv_context;
    fn ibv_close_device(*mut ibv_context) -> c_int;
    fn ibv_query_device(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    fn ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    fn ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd;
    fn ibv_dealloc_pd(*mut ibv_pd) -> c_int;
    fn ibv_reg_mr(*mut ibv_pd, *mut c_void, size_t, c_int) -> *mut ibv_mr;
    fn ibv_dereg_mr(*mut ibv_mr) -> c_int;
    fn ibv_create_comp_channel(*mut ibv_context) -> *mut ibv_comp_channel;
    fn ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int;
    fn ibv_create_cq(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    fn ibv_destroy_cq(*mut ibv_cq) -> c_int;
    fn ibv_get_cq_event(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    fn ibv_ack_cq_events(*mut ibv_cq, c_uint);
    fn ibv_create_srq(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    fn ibv_destroy_srq(*mut ibv_srq) -> c_int;
    fn ibv_create_qp(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    fn ibv_modify_qp(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    fn ibv_destroy_qp(*mut ibv_qp) -> c_int;
    fn ibv_create_ah(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    fn ibv_destroy_ah(*mut ibv_ah) -> c_int;
    fn ibv_fork_init() -> c_int;
    optional
    // Since 1.8: takes wishes that a device may leave unfulfilled.
    fn ibv_reg_mr_iova2(*mut ibv_pd, *mut c_void, size_t, u64, c_uint) -> *mut ibv_mr;
    // Since 1.14: what a queue pair that is ready to send promises of the order in which bytes of a request are seen.
    fn ibv_query_qp_data_in_order(*mut ibv_qp, c_int, u32) -> c_int;
    // Since 1.13.
    fn ibv_is_fork_initialized() -> c_int;
}

/// The library, or why there is none. The first call loads it and makes it safe to fork; it stays until the process ends, since
/// the drivers that it loads in turn cannot be unloaded.
pub(crate) fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(String::as_str)
}

/// Set with the library, before any memory is registered.
static KEPT_FROM_CHILDREN: AtomicBool = AtomicBool::new(false);

/// Whether memory is missing in child processes that were made while it was registered. Known when a device is open.
pub fn is_kept_from_children() -> bool {
    KEPT_FROM_CHILDREN.load(Ordering::Relaxed)
}

fn load() -> Result<Library, String> {
    let file = OTHER.get().map_or(Path::new(NAME), PathBuf::as_path);
    let why = |error: libloading::Error| {
        format!(
            "{} cannot be used ({error}): install rdma-core's libibverbs (Debian: libibverbs1 ibverbs-providers)",
            file.display()
        )
    };
    // SAFETY: its initialisers are those of an ordinary shared library.
    let handle = unsafe { Handle::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(why)?;
    let library = Library::find(&handle).map_err(why)?;
    std::mem::forget(handle);
    // Kernels from 5.12 on copy pinned pages for a child; under older ones the library must keep them from it, before anything
    // else.
    let forked = match library.ibv_is_fork_initialized {
        // SAFETY: no arguments, and no state but the library's own.
        Some(state) => unsafe { state() },
        None => IBV_FORK_DISABLED,
    };
    if forked == IBV_FORK_DISABLED {
        KEPT_FROM_CHILDREN.store(true, Ordering::Relaxed);
        // SAFETY: nothing of the library has been used yet. Where it fails, children must not touch registered memory, as on
        // every system without the means.
        unsafe { (library.ibv_fork_init)() };
    }
    Ok(library)
}
