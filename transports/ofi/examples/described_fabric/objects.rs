//! Opening, binding and closing: the tables of fabrics, domains, address vectors, completion queues, regions and endpoints.

use crate::groups;
use crate::listing::{profile_of, socket_address};
use crate::motion;
use crate::profiles::{PROFILES, Profile};
use crate::transfer;
use crate::world::{End, Queue, Region, Vector, misuse, world};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use weft_ofi::sys::*;

/// `FI_KEY_NOTAVAIL`.
const NO_KEY: u64 = u64::MAX;
/// What the handles of an `FI_AV_MAP` differ from places of a table by.
const OPAQUE: u64 = 0x5a00_0000_7f00_0000;

const OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close),
    bind: None,
    control: None,
    ops_open: None,
    tostr: None,
    ops_set: None,
};
static PLAIN: Table<fi_ops> = Table(OPS);
static ENDPOINT: Table<fi_ops> = Table(fi_ops { bind: Some(bind), control: Some(enable), ..OPS });
static REGION: Table<fi_ops> = Table(fi_ops { bind: Some(bind_region), control: Some(enable_region), ..OPS });
static QUEUE: Table<fi_ops> = Table(fi_ops { control: Some(wait_object), ..OPS });
static OF_FABRIC: Table<fi_ops_fabric> = Table(fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(open_domain),
    passive_ep: None,
    eq_open: Some(groups::open_events),
    wait_open: None,
    trywait: Some(trywait),
    domain2: None,
});
static OF_DOMAIN: Table<fi_ops_domain> = Table(fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(open_vector),
    cq_open: Some(open_queue),
    endpoint: Some(open_endpoint),
    scalable_ep: None,
    cntr_open: None,
    poll_open: None,
    stx_ctx: None,
    srx_ctx: None,
    query_atomic: None,
    query_collective: Some(groups::query),
    endpoint2: None,
});
static OF_MEMORY: Table<fi_ops_mr> =
    Table(fi_ops_mr { size: size_of::<fi_ops_mr>(), reg: Some(register), regv: None, regattr: None });
static OF_VECTOR: Table<fi_ops_av> = Table(fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: None,
    insertsym: None,
    remove: Some(remove),
    lookup: None,
    straddr: None,
    av_set: Some(groups::make_set),
});
static OF_NAMES: Table<fi_ops_cm> = Table(fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: None,
    getname: Some(getname),
    getpeer: None,
    connect: None,
    listen: None,
    accept: None,
    reject: None,
    shutdown: None,
    join: Some(groups::join),
});

/// A table that programs read and nobody writes.
pub(crate) struct Table<T>(pub(crate) T);

// SAFETY: functions and numbers.
unsafe impl<T> Sync for Table<T> {}

fn with(table: &'static Table<fi_ops>) -> fid {
    fid { fclass: 0, context: null_mut(), ops: &table.0 }
}

/// An object that can be closed only.
pub(crate) fn base() -> fid {
    with(&PLAIN)
}

/// A new object for the program. It is never freed, so that whoever uses it after closing it is heard.
pub(crate) fn hand_out<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    world().close(object as usize);
    0
}

pub(crate) fn open_fabric(profile: usize) -> *mut fid_fabric {
    let made = hand_out(fid_fabric { fid: base(), ops: &OF_FABRIC.0, api_version: version(1, 17) });
    world().open(made as usize, "a fabric", profile, &[]);
    made
}

unsafe extern "C" fn open_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_domain,
    _context: *mut c_void,
) -> c_int {
    let made = hand_out(fid_domain { fid: base(), ops: &OF_DOMAIN.0, mr: &OF_MEMORY.0 });
    // SAFETY: a description of ours, and room for the answer.
    unsafe {
        world().open(made as usize, "a domain", profile_of(&*(*info).fabric_attr), &[fabric as usize]);
        *out = made;
    }
    0
}

unsafe extern "C" fn open_vector(
    domain: *mut fid_domain,
    attributes: *mut fi_av_attr,
    out: *mut *mut fid_av,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let place = world.look_up(domain as usize);
    let profile = &PROFILES[place];
    // SAFETY: attributes of the program.
    let kind = unsafe { (*attributes).r#type };
    if kind != if profile.table { FI_AV_TABLE } else { FI_AV_MAP } {
        return -libc::EINVAL;
    }
    let made = hand_out(fid_av { fid: base(), ops: &OF_VECTOR.0 });
    world.open(made as usize, "an address vector", place, &[domain as usize]);
    world.vectors.insert(made as usize, Vector::default());
    // SAFETY: room for the answer.
    unsafe { *out = made };
    0
}

unsafe extern "C" fn open_queue(
    domain: *mut fid_domain,
    attributes: *mut fi_cq_attr,
    out: *mut *mut fid_cq,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let place = world.look_up(domain as usize);
    let profile = &PROFILES[place];
    // SAFETY: attributes of the program.
    let wanted = unsafe { &*attributes };
    if wanted.wait_obj == FI_WAIT_FD && !profile.wait {
        return -FI_ENOSYS;
    }
    let wait = (wanted.wait_obj == FI_WAIT_FD)
        .then(|| EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).expect("a descriptor"));
    let made = hand_out(fid_cq { fid: with(&QUEUE), ops: &transfer::OF_QUEUE.0 });
    world.open(made as usize, "a completion queue", place, &[domain as usize]);
    let queue = Queue {
        size: wanted.size,
        entries: VecDeque::new(),
        held: Vec::new(),
        ends: Vec::new(),
        looks: 0,
        wait,
    };
    world.queues.insert(made as usize, queue);
    // SAFETY: room for the answer.
    unsafe { *out = made };
    0
}

unsafe extern "C" fn wait_object(queue: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    let world = world();
    world.look_up(queue as usize);
    match &world.queues[&(queue as usize)].wait {
        Some(wait) if command == FI_GETWAIT => {
            // SAFETY: the program gives room for a descriptor.
            unsafe { *argument.cast() = wait.as_raw_fd() };
            0
        }
        _ => -FI_ENOSYS,
    }
}

unsafe extern "C" fn trywait(fabric: *mut fid_fabric, list: *mut *mut fid, count: c_int) -> c_int {
    let world = world();
    world.look_up(fabric as usize);
    for at in 0..count as usize {
        // SAFETY: a list of so many objects.
        let queue = unsafe { *list.add(at) } as usize;
        if !world.profile(queue).wait {
            misuse("a queue without a wait object is asked whether one may sleep");
        }
        if motion::has_work(&world, queue) {
            return -FI_EAGAIN;
        }
        let wait = world.queues[&queue].wait.as_ref();
        // It may be down already.
        let _ = wait.expect("such queues have one").read();
    }
    0
}

unsafe extern "C" fn open_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let place = world.look_up(domain as usize);
    // SAFETY: a description of ours.
    let caps = unsafe { (*info).caps };
    let made = hand_out(fid_ep {
        fid: with(&ENDPOINT),
        ops: &transfer::OF_ENDPOINT.0,
        cm: &OF_NAMES.0,
        msg: &transfer::MESSAGES.0,
        rma: &transfer::MEMORY.0,
        tagged: &transfer::TAGS.0,
        atomic: &transfer::ATOMICS.0,
        collective: if caps & FI_COLLECTIVE != 0 { &groups::OF_GROUP.0 } else { std::ptr::null() },
    });
    world.open(made as usize, "an endpoint", place, &[domain as usize]);
    let number = world.fresh();
    let end = End {
        number,
        profile: place,
        domain: domain as usize,
        caps,
        vector: None,
        queue: None,
        enabled: false,
        sends: VecDeque::new(),
        receives: VecDeque::new(),
        inbox: VecDeque::new(),
        door: PROFILES[place].doors.then(door),
        callers: HashMap::new(),
        sending: 0,
        receiving: 0,
    };
    world.ends.insert(made as usize, end);
    // SAFETY: room for the answer.
    unsafe { *out = made };
    0
}

unsafe extern "C" fn bind(endpoint: *mut fid, other: *mut fid, _flags: u64) -> c_int {
    let (at, other) = (endpoint as usize, other as usize);
    let mut world = world();
    world.tie(at, other);
    let is_queue = world.queues.contains_key(&other);
    if world.groups.are_events(other) {
        world.groups.bind(at, other);
        return 0;
    }
    let end = world.ends.get_mut(&at).expect("an open endpoint");
    if end.enabled {
        misuse("an endpoint is bound after it was enabled");
    }
    if is_queue {
        end.queue = Some(other);
        world.queues.get_mut(&other).expect("a queue").ends.push(at);
    } else {
        end.vector = Some(other);
    }
    0
}

unsafe extern "C" fn enable(endpoint: *mut fid, command: c_int, _argument: *mut c_void) -> c_int {
    let at = endpoint as usize;
    let mut world = world();
    world.look_up(at);
    let has_events = world.groups.has_events(at);
    let end = world.ends.get_mut(&at).expect("an open endpoint");
    if end.caps & FI_COLLECTIVE != 0 && !has_events {
        misuse("an endpoint for collectives is enabled without an event queue");
    }
    if command != FI_ENABLE || end.vector.is_none() || end.queue.is_none() {
        misuse("an endpoint is enabled without a queue and an address vector");
    }
    end.enabled = true;
    let number = end.number;
    world.numbers.insert(number, at);
    0
}

/// Where a provider over the kernel's sockets listens.
fn door() -> TcpListener {
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of this host");
    door.set_nonblocking(true).expect("it need not wait");
    door
}

/// Bytes of an address, by its form. The number of the end is in the last eight of them.
fn address_bytes(profile: &Profile) -> usize {
    match profile.addr_format {
        FI_ADDR_CXI => 8,
        FI_ADDR_EFA => 32,
        _ => 16,
    }
}

fn address(profile: &Profile, number: u64) -> Vec<u8> {
    if profile.addr_format == FI_ADDR_STR {
        return format!("described://{number}\0").into_bytes();
    }
    if profile.addr_format == FI_SOCKADDR_IN {
        return socket_address(number).to_vec();
    }
    let mut bytes = vec![0xee; address_bytes(profile)];
    let start = bytes.len() - 8;
    bytes[start..].copy_from_slice(&number.to_le_bytes());
    bytes
}

unsafe extern "C" fn getname(endpoint: *mut fid, out: *mut c_void, length: *mut usize) -> c_int {
    let world = world();
    let profile = world.profile(endpoint as usize);
    let end = &world.ends[&(endpoint as usize)];
    if !end.enabled {
        misuse("an endpoint is asked for its address before it was enabled");
    }
    let mut bytes = address(profile, end.number);
    if let Some(door) = &end.door {
        let port = door.local_addr().expect("it listens").port();
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
    }
    // SAFETY: room of the length that is given, which is looked at first.
    unsafe {
        let room = std::mem::replace(&mut *length, bytes.len());
        if room < bytes.len() {
            return -libc::ENOSPC;
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), bytes.len());
    }
    0
}

unsafe extern "C" fn insert(
    vector: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    out: *mut u64,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let place = world.look_up(vector as usize);
    let profile = &PROFILES[place];
    if count != 1 {
        misuse("addresses are inserted one by one");
    }
    // SAFETY: an address of this provider, as `getname` told it.
    let bytes = unsafe {
        let length = if profile.addr_format == FI_ADDR_STR {
            libc::strlen(addresses.cast()) + 1
        } else {
            address_bytes(profile)
        };
        std::slice::from_raw_parts(addresses.cast::<u8>(), length)
    };
    let number = if profile.addr_format == FI_ADDR_STR {
        let text = std::str::from_utf8(&bytes[..bytes.len() - 1]).ok();
        text.and_then(|text| text.strip_prefix("described://")?.parse().ok())
    } else {
        Some(u64::from_le_bytes(bytes[bytes.len() - 8..].try_into().expect("eight bytes")))
    };
    let Some(number) = number else { return 0 };
    if world.lacks_place(place) {
        return [-FI_EAGAIN, -libc::ENOMEM][world.below(2)];
    }
    let vector = world.vectors.get_mut(&(vector as usize)).expect("an open address vector");
    let place = vector.places.len() as u64 ^ if profile.table { 0 } else { OPAQUE };
    vector.places.insert(place, (number, false));
    // SAFETY: room for the answer.
    unsafe { *out = place };
    1
}

unsafe extern "C" fn remove(vector: *mut fid_av, places: *mut u64, count: usize, _flags: u64) -> c_int {
    let mut world = world();
    let profile = world.look_up(vector as usize);
    let refused = world.faults.no_removal;
    if world.happens(refused) {
        world.note(profile, "not removed");
        return -libc::EBUSY;
    }
    for at in 0..count {
        // SAFETY: a list of so many.
        let place = unsafe { *places.add(at) };
        let entry =
            world.vectors.get_mut(&(vector as usize)).and_then(|vector| vector.places.get_mut(&place));
        let Some((number, removed)) = entry else { misuse("an address is removed that is not there") };
        if std::mem::replace(removed, true) {
            misuse("an address is removed twice");
        }
        let number = *number;
        motion::cancel(&mut world, vector as usize, number);
    }
    0
}

/// Whether all of it is mapped.
fn is_mapped(start: usize, bytes: usize) -> bool {
    let first = start & !4095;
    let pages = (start + bytes - first).div_ceil(4096);
    let mut told = vec![0_u8; pages];
    // SAFETY: a question only; room for an answer for each page.
    unsafe { libc::mincore(first as *mut c_void, pages * 4096, told.as_mut_ptr()) == 0 }
}

unsafe extern "C" fn register(
    domain: *mut fid,
    start: *const c_void,
    bytes: usize,
    rights: u64,
    offset: u64,
    wanted: u64,
    flags: u64,
    out: *mut *mut fid_mr,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let domain = domain as usize;
    let place = world.look_up(domain);
    let profile = &PROFILES[place];
    let start = start as usize;
    if offset != 0 || flags != 0 || bytes == 0 {
        misuse("a region has an offset, flags or no bytes");
    }
    if world.lacks_memory(place) {
        return -libc::ENOMEM;
    }
    if profile.mr_mode & FI_MR_ALLOCATED != 0 && !is_mapped(start, bytes) {
        return -libc::EFAULT;
    }
    let own = profile.mr_mode & FI_MR_PROV_KEY != 0;
    let widest = if profile.key_bytes < 8 { (1 << (8 * profile.key_bytes)) - 1 } else { u64::MAX };
    let key = if own {
        // Any that is not in use: with all its bytes, and never twice.
        world.fresh().wrapping_mul(0x9e37_79b9_7f4a_7c15) & widest
    } else {
        wanted
    };
    if key > widest {
        misuse(format!("key {key:#x} is asked for, and keys have {} bytes", profile.key_bytes));
    }
    if world.regions.values().any(|region| region.domain == domain && region.key == key) {
        if !own {
            misuse(format!("key {key:#x} is asked for while another region has it"));
        }
        return -libc::EAGAIN;
    }
    let bound = profile.mr_mode & FI_MR_ENDPOINT != 0;
    let made = hand_out(fid_mr {
        fid: with(&REGION),
        mem_desc: null_mut(),
        key: if own && bound { NO_KEY } else { key },
    });
    // SAFETY: just made, and room for the answer.
    unsafe {
        (*made).mem_desc = made.cast();
        *out = made;
    }
    world.open(made as usize, "a region", place, &[domain]);
    let region = Region { domain, start, bytes, rights, key, endpoint: None, enabled: !bound };
    world.regions.insert(made as usize, region);
    world.note(place, "regions");
    world.note_most(place, "widest key", key);
    0
}

unsafe extern "C" fn bind_region(region: *mut fid, endpoint: *mut fid, flags: u64) -> c_int {
    let mut world = world();
    let (at, endpoint) = (region as usize, endpoint as usize);
    let place = world.look_up(at);
    if world.lacks_memory(place) {
        return -libc::ENOMEM;
    }
    world.tie(at, endpoint);
    if flags != 0 || !world.ends.contains_key(&endpoint) {
        misuse("a region is bound to something that is no endpoint");
    }
    world.regions.get_mut(&at).expect("an open region").endpoint = Some(endpoint);
    0
}

unsafe extern "C" fn enable_region(region: *mut fid, command: c_int, _argument: *mut c_void) -> c_int {
    let mut world = world();
    let at = region as usize;
    let place = world.look_up(at);
    let entry = world.regions.get_mut(&at).expect("an open region");
    if command != FI_ENABLE || entry.endpoint.is_none() {
        misuse("a region is enabled before it was bound to an endpoint");
    }
    if world.lacks_memory(place) {
        return -libc::ENOMEM;
    }
    let entry = world.regions.get_mut(&at).expect("an open region");
    entry.enabled = true;
    // SAFETY: an open region of ours.
    unsafe { (*region.cast::<fid_mr>()).key = entry.key };
    world.note(place, "enabled");
    0
}
