//! What is offered: descriptions as `fi_getinfo(3)` has them, and the functions that are found by their names.

use crate::objects;
use crate::profiles::{PROFILES, Profile, Progress};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::Ipv4Addr;
use std::ptr::{null, null_mut};
use weft_ofi::sys::*;

/// Every description of ours with all its parts, which go together.
#[repr(C)]
struct Listed {
    info: fi_info,
    tx: fi_tx_attr,
    rx: fi_rx_attr,
    ep: fi_ep_attr,
    domain: fi_domain_attr,
    fabric: fi_fabric_attr,
    address: [u8; 16],
}

/// Texts and a list belong to whoever asked, and are given back by [`fi_freeinfo`]; their parts lie in one piece.
fn blank() -> *mut fi_info {
    // SAFETY: numbers and pointers, for which 0 is a value.
    let listed = Box::into_raw(Box::new(unsafe { std::mem::zeroed::<Listed>() }));
    // SAFETY: just made; nobody else knows it.
    unsafe {
        let it = &mut *listed;
        (it.info.tx_attr, it.info.rx_attr) = (&raw mut it.tx, &raw mut it.rx);
        (it.info.ep_attr, it.info.domain_attr) = (&raw mut it.ep, &raw mut it.domain);
        it.info.fabric_attr = &raw mut it.fabric;
    }
    listed.cast()
}

/// A text that [`fi_freeinfo`] frees, as it frees those of the program.
fn text(of: &str) -> *mut c_char {
    let of = CString::new(of).expect("no zeroes in names");
    // SAFETY: a C string.
    unsafe { libc::strdup(of.as_ptr()) }
}

/// A card of 100 Gbit/s on the bus.
fn card() -> *mut fid_nic {
    let fid = fid { fclass: 0, context: null_mut(), ops: null() };
    let attr = fi_pci_attr { domain_id: 0, bus_id: 1, device_id: 0, function_id: 0 };
    let bus = Box::leak(Box::new(fi_bus_attr { bus_type: FI_BUS_PCI, attr }));
    let link = Box::leak(Box::new(fi_link_attr {
        address: null_mut(),
        mtu: 4096,
        speed: 100_000_000_000,
        state: FI_LINK_UP,
        network_type: null_mut(),
    }));
    let nic = fid_nic {
        fid,
        device_attr: null_mut(),
        bus_attr: &raw mut *bus,
        link_attr: &raw mut *link,
        prov_attr: null_mut(),
    };
    Box::leak(Box::new(nic))
}

/// The description of a provider to whoever asked for these capabilities; 0: for all.
fn describe(profile: &Profile, caps: u64) -> *mut fi_info {
    let info = blank();
    // SAFETY: a description of ours, with all its parts, which nobody else knows.
    let it = unsafe { &mut *info.cast::<Listed>() };
    it.info.caps = if caps == 0 { profile.caps } else { caps };
    it.info.mode = profile.mode;
    it.info.addr_format = profile.addr_format;
    if profile.addr_format == FI_SOCKADDR_IN {
        it.address = socket_address(0);
        (it.info.src_addr, it.info.src_addrlen) = (it.address.as_mut_ptr().cast(), it.address.len());
    }
    it.info.nic = if profile.doors { null_mut() } else { card() };
    let order = if profile.ordered { FI_ORDER_SAS } else { 0 };
    let order = order | if profile.writes_first { FI_ORDER_SAW } else { 0 };
    (it.tx.msg_order, it.rx.msg_order) = (order, order);
    (it.tx.inject_size, it.tx.size, it.rx.size) = (profile.inject, profile.sends, profile.receives);
    (it.tx.iov_limit, it.tx.rma_iov_limit, it.rx.iov_limit) = (4, 4, 4);
    (it.ep.r#type, it.ep.protocol, it.ep.max_msg_size) = (FI_EP_RDM, profile.protocol, profile.longest);
    (it.ep.tx_ctx_cnt, it.ep.rx_ctx_cnt) = (1, 1);
    it.domain.name = text(profile.domain);
    (it.domain.threading, it.domain.resource_mgmt) = (FI_THREAD_DOMAIN, FI_RM_ENABLED);
    (it.domain.control_progress, it.domain.data_progress) = (FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL);
    debug_assert!(matches!(profile.progress, Progress::Manual | Progress::Leaving));
    it.domain.av_type = if profile.table { FI_AV_TABLE } else { FI_AV_MAP };
    (it.domain.mr_mode, it.domain.mr_key_size) = (profile.mr_mode, profile.key_bytes);
    (it.domain.ep_cnt, it.domain.cq_cnt, it.domain.max_ep_tx_ctx, it.domain.max_ep_rx_ctx) = (256, 256, 1, 1);
    (it.domain.mr_iov_limit, it.domain.mr_cnt) = (1, 1 << 16);
    (it.fabric.name, it.fabric.prov_name) = (text("described"), text(profile.name));
    (it.fabric.prov_version, it.fabric.api_version) = (version(1, 0), version(1, 17));
    info
}

/// The address of an end in the internet's form; its number is where nothing else is.
pub(crate) fn socket_address(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&Ipv4Addr::LOCALHOST.octets());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Whether a provider is what was asked for.
fn fits(profile: &Profile, hints: &fi_info) -> bool {
    let needs = if profile.mr_mode & FI_MR_SCALABLE != 0 { 0 } else { profile.mr_mode };
    // SAFETY: hints have all their parts, as `fi_dupinfo` makes them; texts are C strings or null.
    let (kind, memory, flags, name) = unsafe {
        let name = (*hints.fabric_attr).prov_name;
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes());
        ((*hints.ep_attr).r#type, (*hints.domain_attr).mr_mode, (*hints.tx_attr).op_flags, name)
    };
    hints.caps & !profile.caps == 0
        && profile.mode & !hints.mode == 0
        && needs & !memory == 0
        && (kind == 0 || kind == FI_EP_RDM)
        && (hints.addr_format == 0 || hints.addr_format == profile.addr_format)
        && (flags & FI_DELIVERY_COMPLETE == 0 || profile.delivery)
        && name.is_none_or(|name| name == profile.name.as_bytes())
}

/// The provider of a description.
pub(crate) fn profile_of(fabric: &fi_fabric_attr) -> usize {
    // SAFETY: a description of ours names its provider.
    let name = unsafe { CStr::from_ptr(fabric.prov_name) }.to_string_lossy();
    crate::profiles::named(&name)
}

/// Version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn fi_version() -> u32 {
    version(1, 17)
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_getinfo(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const fi_info,
    list: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the program gives hints of `fi_dupinfo`.
    let hints = unsafe { &*hints };
    let mut first: *mut fi_info = null_mut();
    for profile in PROFILES.iter().rev().filter(|profile| fits(profile, hints)) {
        let info = describe(profile, hints.caps);
        // SAFETY: just made.
        unsafe { (*info).next = first };
        first = info;
    }
    // SAFETY: the program gives room for it.
    unsafe { *list = first };
    if first.is_null() { -FI_ENODATA } else { 0 }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_dupinfo(info: *const fi_info) -> *mut fi_info {
    assert!(info.is_null(), "only empty descriptions are asked for");
    blank()
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_freeinfo(mut info: *mut fi_info) {
    while !info.is_null() {
        // SAFETY: made by `blank`, and given back once; its texts are of the C allocator.
        unsafe {
            let listed = Box::from_raw(info.cast::<Listed>());
            info = listed.info.next;
            for text in [listed.domain.name, listed.fabric.name, listed.fabric.prov_name] {
                libc::free(text.cast());
            }
        }
    }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_strerror(number: c_int) -> *const c_char {
    // SAFETY: the C library answers a text for every number, which stays until the thread asks again.
    unsafe { libc::strerror(number) }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_fabric(
    attributes: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: a description of ours, and room for the answer.
    unsafe { *fabric = objects::open_fabric(profile_of(&*attributes)) };
    0
}
