//! librdmacm's functions, found by their names: a connection manager whose answers are a line of the table of devices.
//!
//! An identifier belongs to the device of its own address from `rdma_resolve_addr` on, and is counted there.

use crate::devices::{Kind, Manager, Record, by_gid, find, kind, lid, name};
use crate::library::fail;
use crate::objects::{Listed, hand_out, take_back};
use crate::sys::cm::*;
use crate::sys::{ibv_context, ibv_gid};
use crate::world::{misuse, world};
use libc::{c_char, c_int, c_void, size_t, sockaddr};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Identifiers of a device.
const IDENTIFIER: usize = 9;
/// How long a late manager takes.
const LATE: Duration = Duration::from_millis(40);

/// An identifier of a program.
struct Known {
    channel: usize,
    /// The device of its own address, and the peer's.
    at: Option<(usize, usize)>,
    traffic_class: Option<u8>,
    /// Events that were taken and not given back.
    taken: u32,
}

struct Channel {
    write: File,
    /// Identifier, kind, status.
    events: VecDeque<(usize, c_int, c_int)>,
}

/// Everything, by the program's pointers.
#[derive(Default)]
struct All {
    channels: HashMap<usize, Channel>,
    ids: HashMap<usize, Known>,
}

/// Locked before the devices, where both are.
fn all() -> MutexGuard<'static, All> {
    static ALL: OnceLock<Mutex<All>> = OnceLock::new();
    ALL.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl All {
    fn known(&mut self, id: *mut rdma_cm_id) -> &mut Known {
        self.ids.get_mut(&(id as usize)).unwrap_or_else(|| misuse("an identifier is used that is gone"))
    }

    /// Tells of something, unless its identifier is gone.
    fn tell(&mut self, id: usize, event: c_int, status: c_int) {
        let Some(known) = self.ids.get(&id) else { return };
        if let Some(channel) = self.channels.get_mut(&known.channel) {
            channel.events.push_back((id, event, status));
            let _ = channel.write.write(&[0]);
        }
    }
}

fn refuse(why: c_int) -> c_int {
    let _: *mut c_void = fail(why);
    -1
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    let Ok((read, write)) = pipe2(OFlag::O_CLOEXEC) else { return fail(libc::EMFILE) };
    let raw = hand_out(rdma_event_channel { fd: read.into_raw_fd() });
    all().channels.insert(raw as usize, Channel { write: File::from(write), events: VecDeque::new() });
    raw
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    let mut all = all();
    if all.ids.values().any(|known| known.channel == channel as usize) {
        misuse("a channel is given back that an identifier belongs to");
    }
    if all.channels.remove(&(channel as usize)).is_none() {
        misuse("a channel is given back twice");
    }
    // SAFETY: made by `rdma_create_event_channel`, and given back by its owner, once.
    let channel = unsafe { take_back(channel) };
    // SAFETY: the channel owned it.
    drop(unsafe { OwnedFd::from_raw_fd(channel.fd) });
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    space: c_int,
) -> c_int {
    // SAFETY: numbers and pointers, for which 0 is a value.
    let empty: rdma_cm_id = unsafe { zeroed() };
    let raw = hand_out(rdma_cm_id { channel, context, ps: space, ..empty });
    let known = Known { channel: channel as usize, at: None, traffic_class: None, taken: 0 };
    all().ids.insert(raw as usize, known);
    // SAFETY: the program gives room for it.
    unsafe { *id = raw };
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(raw: *mut rdma_cm_id) -> c_int {
    let mut all = all();
    let Some(known) = all.ids.remove(&(raw as usize)) else { misuse("an identifier is given back twice") };
    if known.taken > 0 {
        misuse("an identifier is given back before its events: the library would wait for ever");
    }
    if let Some(channel) = all.channels.get_mut(&known.channel) {
        channel.events.retain(|&(id, ..)| id != raw as usize);
    }
    if let Some((at, _)) = known.at {
        world().unit(at).count(IDENTIFIER, false);
    }
    // SAFETY: made by `rdma_create_id`, and given back by its owner, once.
    let id = unsafe { take_back(raw) };
    if !id.verbs.is_null() {
        // SAFETY: both were made by `belongs_to`, for this identifier.
        unsafe {
            let context: ibv_context = take_back(id.verbs);
            let _: Listed = take_back(context.device.cast());
        }
    }
    if !id.route.path_rec.is_null() {
        // SAFETY: made by `rdma_resolve_route`, for this identifier.
        let _: ibv_sa_path_rec = unsafe { take_back(id.route.path_rec) };
    }
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: size_t,
) -> c_int {
    if (level, option, length) != (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1) {
        return refuse(libc::ENOSYS);
    }
    // SAFETY: the program's own byte.
    all().known(id).traffic_class = Some(unsafe { *value.cast::<u8>() });
    0
}

/// The device of an address.
///
/// # Safety
/// It is a whole one of its family.
unsafe fn device_of(name: *const sockaddr) -> Option<usize> {
    // SAFETY: the caller's promise, here and below.
    match c_int::from(unsafe { (*name).sa_family }) {
        libc::AF_INET => {
            // SAFETY: as above.
            let name = unsafe { &*name.cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            find(SocketAddr::new(IpAddr::V4(address), 4791)).filter(|&at| !kind(at).infiniband)
        }
        AF_IB => {
            // SAFETY: as above.
            let name = unsafe { &*name.cast::<sockaddr_ib>() };
            by_gid(name.sib_addr).filter(|_| name.sib_pkey == u16::MAX)
        }
        _ => None,
    }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    from: *mut sockaddr,
    to: *mut sockaddr,
    time: c_int,
) -> c_int {
    // SAFETY: the program's own addresses.
    let (Some(at), Some(there)) = (unsafe { device_of(from) }, unsafe { device_of(to) }) else {
        return refuse(libc::EADDRNOTAVAIL);
    };
    // SAFETY: an identifier that the program has.
    let space = unsafe { (*id).ps };
    if time <= 0 || (space == RDMA_PS_IB) != kind(at).infiniband {
        return refuse(libc::EINVAL);
    }
    let mut all = all();
    let known = all.known(id);
    if known.at.is_some() {
        misuse("an identifier is used for a second address");
    }
    known.at = Some((at, there));
    let unit_is = {
        let mut world = world();
        let unit = world.unit(at);
        unit.count(IDENTIFIER, true);
        unit.counts.asked += 1;
        unit.kind
    };
    let Kind { manager, .. } = unit_is;
    match manager {
        Manager::Mute => {}
        Manager::Nowhere => all.tell(id as usize, RDMA_CM_EVENT_ADDR_ERROR, -libc::ENETUNREACH),
        Manager::Elsewhere => {
            // SAFETY: an identifier that the program has.
            unsafe { belongs_to(id, 0) };
            all.tell(id as usize, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        }
        Manager::Roadless | Manager::Says(_) | Manager::Late(_) | Manager::Counts(_) => {
            // SAFETY: as above.
            unsafe { belongs_to(id, at) };
            all.tell(id as usize, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        }
    }
    0
}

/// The identifier's device.
///
/// # Safety
/// The identifier is live, and belongs to none.
unsafe fn belongs_to(id: *mut rdma_cm_id, at: usize) {
    // SAFETY: numbers, texts and pointers, for which 0 is a value.
    let (mut listed, context): (Listed, ibv_context) = unsafe { (zeroed(), zeroed()) };
    for (place, byte) in listed.base.name.iter_mut().zip(name(at).bytes()) {
        *place = byte as c_char;
    }
    let device = hand_out(listed).cast();
    // SAFETY: the caller's promise.
    unsafe { ((*id).verbs, (*id).port_num) = (hand_out(ibv_context { device, ..context }), 1) };
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, time: c_int) -> c_int {
    let mut all = all();
    let known = all.known(id);
    let Some((at, there)) = known.at.filter(|_| time > 0) else { return refuse(libc::EINVAL) };
    let traffic_class = known.traffic_class;
    let asked = world().unit(at).counts.asked;
    let record = match kind(at).manager {
        Manager::Says(record) | Manager::Late(record) => record,
        Manager::Counts(record) => Record { service_level: asked as u8, ..record },
        _ => {
            all.tell(id as usize, RDMA_CM_EVENT_ROUTE_ERROR, -libc::EINVAL);
            return 0;
        }
    };
    let gid = ibv_gid { raw: [0; 16] };
    let record = ibv_sa_path_rec {
        dgid: gid,
        sgid: gid,
        dlid: lid(there).to_be(),
        slid: lid(at).to_be(),
        raw_traffic: 0,
        flow_label: 0,
        hop_limit: record.hop_limit,
        traffic_class: traffic_class.unwrap_or(record.traffic_class),
        reversible: 1,
        numb_path: 1,
        pkey: u16::MAX,
        sl: record.service_level,
        mtu_selector: 2,
        mtu: record.mtu,
        rate_selector: 2,
        rate: record.rate,
        packet_life_time_selector: 2,
        packet_life_time: record.lifetime,
        preference: 0,
    };
    // SAFETY: an identifier that the program has, without a route.
    unsafe { ((*id).route.path_rec, (*id).route.num_paths) = (hand_out(record), 1) };
    let id = id as usize;
    if matches!(kind(at).manager, Manager::Late(_)) {
        std::thread::spawn(move || {
            std::thread::sleep(LATE);
            self::all().tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
        });
    } else {
        all.tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    }
    0
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    // SAFETY: the program names a channel that it has, which owns the descriptor.
    let end = unsafe { BorrowedFd::borrow_raw((*channel).fd) };
    loop {
        // As many bytes as there were events; those of identifiers that are gone lead to none.
        match nix::unistd::read(end, &mut [0]) {
            Ok(1) => {}
            Err(error) => return refuse(error as c_int),
            Ok(_) => return refuse(libc::EBADF),
        }
        let mut all = all();
        let found = all.channels.get_mut(&(channel as usize)).and_then(|channel| channel.events.pop_front());
        let Some((id, kind, status)) = found else { continue };
        all.known(id as *mut rdma_cm_id).taken += 1;
        // SAFETY: numbers and pointers, for which 0 is a value.
        let empty: rdma_cm_event = unsafe { zeroed() };
        let told =
            rdma_cm_event { id: id as *mut rdma_cm_id, listen_id: null_mut(), event: kind, status, ..empty };
        // SAFETY: the program gives room for it.
        unsafe { *event = hand_out(told) };
        return 0;
    }
}

/// # Safety
/// As the library has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    // SAFETY: made by `rdma_get_cm_event`, and given back by its owner.
    let event = unsafe { take_back(event) };
    all().known(event.id).taken -= 1;
    0
}
