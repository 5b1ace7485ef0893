//! The functions that are found by their names, under the library's own.

use crate::devices::{KINDS, OF_EACH, address, kind, lid, name};
use crate::extended::around_context;
use crate::objects::*;
use crate::posting::table;
use crate::sys::*;
use crate::world::{Queue as Told, Unit, misuse, number_of, world};
use libc::{c_char, c_int, c_uint, c_void, size_t};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{Pid, pipe2};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::zeroed;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::null_mut;
use weft_api::verbs::{Access, LocalKey, RegionKeys};

/// Completion queues have no more entries.
const MOST_ENTRIES: c_int = 1 << 16;
/// `IBV_ACCESS_OPTIONAL_RANGE`.
const OPTIONAL: c_uint = 0x3ff0_0000;

/// The library's way to say why there is no pointer.
pub(crate) fn fail<T>(why: c_int) -> *mut T {
    nix::errno::Errno::from_raw(why).set();
    null_mut()
}

/// What a device's objects are counted as.
const CONTEXT: usize = 0;
const DOMAIN: usize = 1;
const CHANNEL: usize = 2;
const QUEUE: usize = 3;
const RECEIVES: usize = 4;
pub(crate) const PAIR: usize = 5;
pub(crate) const WAY: usize = 6;
const REGION: usize = 7;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// As under kernels that copy pinned pages for children.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    2
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let all = KINDS.len() * OF_EACH;
    let list = (0..all).map(|at| {
        // SAFETY: numbers and texts, for which 0 is a value.
        let mut base: ibv_device = unsafe { zeroed() };
        for (place, byte) in base.name.iter_mut().zip(name(at).bytes()) {
            *place = byte as c_char;
        }
        base.node_type = 1; // A channel adapter.
        hand_out(Listed { base, at }).cast()
    });
    let list: Vec<*mut ibv_device> = list.chain([null_mut()]).collect();
    if !count.is_null() {
        // SAFETY: the program gives room for it.
        unsafe { *count = all as c_int };
    }
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: a list of ours has so many entries.
    let list = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, KINDS.len() * OF_EACH + 1)) };
    for &device in list.iter().filter(|device| !device.is_null()) {
        // SAFETY: made with the list.
        let _: Listed = unsafe { take_back(device.cast()) };
    }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: a device of the list.
    unsafe { (*device).name.as_ptr() }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: a device of the list.
    let at = unsafe { (*device.cast::<Listed>()).at };
    // SAFETY: numbers and pointers, for which 0 is a value.
    let context = ibv_context { ops: table(), cmd_fd: -1, async_fd: -1, ..unsafe { zeroed() } };
    let extended = if kind(at).extended { EXTENDED as *mut c_void } else { null_mut() };
    let context = ibv_context { abi_compat: extended, num_comp_vectors: 1, ..context };
    let mut world = world();
    world.contexts += 1;
    let number = world.contexts;
    world.unit(at).count(CONTEXT, true);
    let object = hand_out(Context { around: around_context(at, context), at, number });
    // SAFETY: it was just made.
    unsafe { &raw mut (*object).around.context }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: made by `ibv_open_device`, and given back by its owner.
    let object: Context = unsafe { take_back(outer(context)) };
    world().unit(object.at).count(CONTEXT, false);
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    let kind = kind(around(context).at);
    // SAFETY: numbers and a text, for which 0 is a value.
    let mut told: ibv_device_attr = unsafe { zeroed() };
    told.fw_ver[0] = b'1' as c_char;
    (told.max_qp, told.max_qp_wr, told.max_sge, told.max_sge_rd) = (1 << 16, 1 << 14, 4, 4);
    (told.max_cq, told.max_cqe, told.max_pd) = (1 << 16, MOST_ENTRIES, 1 << 16);
    told.max_mr = kind.most_regions.min(1 << 24) as c_int;
    (told.max_qp_rd_atom, told.max_qp_init_rd_atom, told.atomic_cap) = (16, 16, kind.atomics);
    (told.max_srq, told.max_srq_wr, told.max_srq_sge) = (1 << 16, 1 << 14, 4);
    (told.max_ah, told.phys_port_cnt) = (1 << 16, 1);
    // SAFETY: the program gives room for it.
    unsafe { *attr = told };
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    number: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    if number != 1 {
        return libc::EINVAL;
    }
    // SAFETY: numbers only.
    let mut told: ibv_port_attr = unsafe { zeroed() };
    told.state = kind(around(context).at).port_state;
    let (at, kind) = (around(context).at, kind(around(context).at));
    (told.max_mtu, told.active_mtu, told.gid_tbl_len, told.max_msg_sz) = (5, kind.mtu, 1, 1 << 30);
    // 100 Gb/s.
    (told.active_width, told.active_speed) = (2, 32);
    (told.lid, told.link_layer) = (lid(at), if kind.infiniband { 1 } else { 2 });
    // SAFETY: the program gives room for it.
    unsafe { *attr = told };
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    let mut world = world();
    let unit = world.unit(around(context).at);
    unit.count(DOMAIN, true);
    hand_out(Domain { base: ibv_pd { context, handle: unit.core.make_domain().0 } }).cast()
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int {
    // SAFETY: made by `ibv_alloc_pd`, and given back by its owner.
    let domain: Domain = unsafe { take_back(domain.cast()) };
    let mut world = world();
    let unit = world.unit(around(domain.base.context).at);
    if unit.users_of_domain.get(&domain.base.handle).is_some_and(|&users| users > 0) {
        misuse("a domain is given back that something belongs to");
    }
    unit.count(DOMAIN, false);
    0
}

pub(crate) fn access_of(flags: c_uint) -> Access {
    Access {
        local_write: flags & IBV_ACCESS_LOCAL_WRITE != 0,
        remote_write: flags & IBV_ACCESS_REMOTE_WRITE != 0,
        remote_read: flags & IBV_ACCESS_REMOTE_READ != 0,
        remote_atomic: flags & IBV_ACCESS_REMOTE_ATOMIC != 0,
    }
}

/// A region as the program sees it.
pub(crate) fn plain_region(
    unit: &mut Unit,
    (context, pd): (*mut ibv_context, *mut ibv_pd),
    (addr, length): (u64, size_t),
    keys: RegionKeys,
) -> *mut ibv_mr {
    // SAFETY: the program names a domain that it has.
    *unit.users_of_domain.entry(unsafe { (*pd).handle }).or_default() += 1;
    unit.count(REGION, true);
    let (lkey, rkey) = (keys.local.0, keys.remote.0);
    hand_out(Region {
        base: ibv_mr { context, pd, addr: addr as *mut c_void, length, handle: 0, lkey, rkey },
    })
    .cast()
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    iova: u64,
    flags: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the program names a domain that it has.
    let (context, number) = unsafe { ((*domain).context, (*domain).handle) };
    let object = around(context);
    let kind = kind(object.at);
    // Wishes that a driver does not know are left out by the library.
    let flags = if kind.relaxed { flags } else { flags & !OPTIONAL };
    let on_demand = flags & IBV_ACCESS_ON_DEMAND != 0;
    let mut byte = [0];
    let mut there = |at: u64| {
        let range = [RemoteIoVec { base: at as usize, len: 1 }];
        process_vm_readv(Pid::this(), &mut [IoSliceMut::new(&mut byte)], &range) == Ok(1)
    };
    if iova != address as u64 || on_demand && kind.on_demand == 0 {
        return fail(libc::EINVAL);
    }
    let is_there = on_demand || there(iova) && there(iova + length as u64 - 1);
    if !is_there {
        return fail(libc::EFAULT);
    }
    let mut world = world();
    let unit = world.unit(object.at);
    let count = unit.regions_of.entry(object.number).or_default();
    if *count >= kind.most_regions {
        unit.counts.refused += 1;
        return fail(libc::ENOMEM);
    }
    *count += 1;
    let Ok(keys) = unit.core.register(Unit::domain(number), iova, length as u64, access_of(flags)) else {
        return fail(libc::EINVAL);
    };
    let counts = &mut unit.counts;
    counts.on_demand += u64::from(on_demand);
    counts.relaxed += u64::from(flags & IBV_ACCESS_RELAXED_ORDERING != 0);
    counts.plain += u64::from(flags & (IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_ON_DEMAND) == 0);
    plain_region(unit, (context, domain), (iova, length), keys)
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    flags: c_int,
) -> *mut ibv_mr {
    // SAFETY: the same arguments.
    unsafe { ibv_reg_mr_iova2(domain, address, length, address as u64, flags as c_uint) }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(region: *mut ibv_mr) -> c_int {
    // SAFETY: made by one of the registrations, and given back by its owner.
    let Region { base } = unsafe { take_back(region.cast()) };
    let object = around(base.context);
    let mut world = world();
    let unit = world.unit(object.at);
    if unit.bases.remove(&base.lkey).is_none() {
        *unit.regions_of.entry(object.number).or_default() -= 1;
    }
    // SAFETY: a domain goes after its regions.
    *unit.users_of_domain.entry(unsafe { (*base.pd).handle }).or_default() -= 1;
    if unit.core.deregister(LocalKey(base.lkey)).is_err() {
        misuse("a region is given back twice");
    }
    unit.count(REGION, false);
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let Ok((read, write)) = pipe2(OFlag::O_CLOEXEC) else { return fail(libc::EMFILE) };
    // Who announces never waits.
    let _ = fcntl(&write, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
    world().unit(around(context).at).count(CHANNEL, true);
    // The header has a place for one of the ends; the other is where it has a count.
    hand_out(ibv_comp_channel { context, fd: read.into_raw_fd(), refcnt: write.into_raw_fd() })
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: made by `ibv_create_comp_channel`, and given back by its owner.
    let channel = unsafe { take_back(channel) };
    world().unit(around(channel.context).at).count(CHANNEL, false);
    for end in [channel.fd, channel.refcnt] {
        // SAFETY: the channel owned both.
        drop(unsafe { OwnedFd::from_raw_fd(end) });
    }
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    depth: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    if !(1..=MOST_ENTRIES).contains(&depth) || vector != 0 {
        return fail(libc::EINVAL);
    }
    let announce = || {
        // SAFETY: the program names a channel that it has, which owns the descriptor.
        let end = unsafe { std::os::fd::BorrowedFd::borrow_raw((*channel).refcnt) };
        end.try_clone_to_owned().ok().map(File::from)
    };
    let announce = if channel.is_null() { None } else { announce() };
    let mut world = world();
    let unit = world.unit(around(context).at);
    unit.count(QUEUE, true);
    // Nothing stays in the core's own queue.
    let number = unit.core.make_completion_queue(u32::MAX).0;
    let raw =
        hand_out(Queue { base: ibv_cq { context, channel, cq_context, handle: number, cqe: depth } }).cast();
    let told = Told {
        raw: number_of(raw),
        depth: depth as usize,
        entries: VecDeque::new(),
        armed: false,
        channel: announce,
        users: 0,
    };
    unit.queues.insert(number, told);
    raw
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(queue: *mut ibv_cq) -> c_int {
    // SAFETY: made by `ibv_create_cq`, and given back by its owner.
    let Queue { base } = unsafe { take_back(queue.cast()) };
    let mut world = world();
    let unit = world.unit(around(base.context).at);
    match unit.queues.remove(&base.handle) {
        Some(told) if told.users == 0 => unit.count(QUEUE, false),
        _ => misuse("a completion queue is given back that a queue pair uses"),
    }
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let mut word = [0; 8];
    // SAFETY: the program names a channel that it has, which owns the descriptor.
    let end = unsafe { std::os::fd::BorrowedFd::borrow_raw((*channel).fd) };
    if nix::unistd::read(end, &mut word) != Ok(8) {
        return -1;
    }
    let raw = usize::from_ne_bytes(word) as *mut ibv_cq;
    // SAFETY: the program gives room for both; it destroys a queue after its events.
    unsafe { (*queue, *cq_context) = (raw, (*raw).cq_context) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_cq_events(_: *mut ibv_cq, _: c_uint) {}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(domain: *mut ibv_pd, plan: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the program's own structures.
    let (context, depth) = unsafe { ((*domain).context, (*plan).attr.max_wr) };
    let mut world = world();
    let unit = world.unit(around(context).at);
    unit.count(RECEIVES, true);
    let number = unit.core.make_shared_receive_queue(depth).0;
    hand_out(Receives { base: ibv_srq { context }, number }).cast()
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(queue: *mut ibv_srq) -> c_int {
    // SAFETY: made by `ibv_create_srq`, and given back by its owner.
    let queue: Receives = unsafe { take_back(queue.cast()) };
    let mut world = world();
    let unit = world.unit(around(queue.base.context).at);
    if unit.users_of_receives.get(&queue.number).is_some_and(|&users| users > 0) {
        misuse("a shared receive queue is given back that a queue pair uses");
    }
    unit.count(RECEIVES, false);
    0
}

/// For tests: a count of a device, by the name that it has in [`crate::world::Counts`]; of `alive`, their sum. `address`: its
/// address, of IPv4; `own_lid`: its local identifier, 0 on Ethernet. What belongs to the way that a connection was opened by last
/// has its name in [`crate::world::Way`], with `datagrams_` in front that of datagrams.
///
/// # Safety
/// Both texts end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn described_count(device: *const c_char, what: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let (device, what) = unsafe { (CStr::from_ptr(device), CStr::from_ptr(what)) };
    let at = (0..KINDS.len() * OF_EACH).find(|&at| name(at).as_bytes() == device.to_bytes());
    let at = at.unwrap_or_else(|| misuse("there is no such device"));
    let mut world = world();
    let counts = world.unit(at).counts;
    match what.to_bytes() {
        b"alive" => counts.alive.iter().sum(),
        b"refused" => counts.refused,
        b"on_demand" => counts.on_demand,
        b"relaxed" => counts.relaxed,
        b"plain" => counts.plain,
        b"from_own_memory" => counts.from_own_memory,
        b"fenced" => counts.fenced,
        b"own_memory" => counts.own_memory,
        b"address" => u64::from(address(at).to_bits()),
        b"own_lid" => u64::from(lid(at)),
        b"asked" => counts.asked,
        b"without_level" => counts.without_level,
        b"without_class" => counts.without_class,
        b"partition" => counts.partitions[0],
        b"datagrams_partition" => counts.partitions[1],
        b"path_mtu" => counts.path_mtu,
        b"timeout" => counts.timeout,
        b"retries" => counts.retries,
        other => {
            let found = match other.strip_prefix(b"datagrams_") {
                Some(other) => counts.datagrams.get(other),
                None => counts.connection.get(other),
            };
            found.unwrap_or_else(|| misuse("there is no such count"))
        }
    }
}
