//! An opened device: what everything else of it hangs on.

use crate::choice::Choice;
use crate::library::{Library, library};
use crate::measure::{self, Registration};
use crate::survey::Link;
use crate::sys::{
    EXTENDED, IBV_ATOMIC_GLOB, IBV_ATOMIC_NONE, IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_ATOMIC,
    IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV, IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SRQ_RECV,
    IBV_ODP_SUPPORT_WRITE, IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP, IBV_PORT_ACTIVE, IBV_QPT_RC,
    ibv_comp_channel, ibv_context, ibv_cq, ibv_device_attr, ibv_device_attr_ex, ibv_pd, ibv_port_attr,
    ibv_qp_cap, ibv_qp_init_attr, verbs_context_end,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::ffi::CStr;
use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use weft_api::verbs::HcaLimits;
use weft_types::{Error, ErrorClass, Result};

/// Most entries of a scatter or gather list that requests are built with.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// Share of a port's bandwidth, and bytes per second, that packets reach which both ends copy.
const COPIED: f64 = 0.65;
const COPY_BANDWIDTH: f64 = 6e9;

/// What was found out about a device, beside its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The version of its firmware.
    pub firmware: String,
    /// Whether its regions can follow the process's mappings (on-demand paging), for everything that is done with them here.
    pub on_demand: bool,
    /// What registering takes, where that is paid for each transfer, since regions do not follow mappings.
    pub registration: Option<Registration>,
    /// Whether the library passes the wish for relaxed ordering on: whether a device heeds it, it does not say.
    pub relaxed_ordering: bool,
    /// Bytes of the device's own memory that short messages are sent from.
    pub inner_memory: u64,
    /// Completion queues that all its users may have together.
    pub completion_queues: u32,
}

/// A device, its domain, its completion channel and its completion queues.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) library: &'static Library,
    raw: *mut ibv_context,
    domain: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    /// Made once, and destroyed with the context: bells arm them.
    queues: Mutex<Vec<*mut ibv_cq>>,
}

// SAFETY: the library's objects belong to the process, not to a thread, and its calls may be made by several threads at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// An error with the system's word for it.
pub(crate) fn failed(what: &str, errno: i32, remedy: &str) -> Error {
    let error = io::Error::from_raw_os_error(errno);
    Error::new(ErrorClass::OTHER, format!("{what}: {error}. {remedy}"))
}

pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl Context {
    /// Opens the chosen device, and says what it can do.
    ///
    /// # Errors
    /// What the library refused, and what to do about it.
    pub(crate) fn open(choice: &Choice) -> Result<(Context, HcaLimits, Facts)> {
        let library = library().map_err(|why| Error::new(ErrorClass::OTHER, why))?;
        let raw = open_by_name(library, &choice.device)?;
        let mut context =
            Context { library, raw, domain: null_mut(), channel: null_mut(), queues: Mutex::default() };
        let device = &choice.device;
        // SAFETY: the device is open.
        context.domain = unsafe { (library.ibv_alloc_pd)(raw) };
        if context.domain.is_null() {
            return Err(failed(
                &format!("{device} gives no protection domain"),
                errno(),
                "See weft-info for its limits",
            ));
        }
        // SAFETY: as above.
        context.channel = unsafe { (library.ibv_create_comp_channel)(raw) };
        if context.channel.is_null() {
            return Err(failed(
                &format!("{device} gives no completion channel"),
                errno(),
                "Are too many files open (ulimit -n)?",
            ));
        }
        let flags = fcntl(context.channel_fd(), FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
        flags
            .and_then(|flags| fcntl(context.channel_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)))
            .map_err(|error| {
                failed("the completion channel cannot be made to never wait", error as i32, "")
            })?;
        let (limits, facts) = context.ask(choice)?;
        Ok((context, limits, facts))
    }

    /// The domain of everything.
    pub(crate) fn domain(&self) -> *mut ibv_pd {
        self.domain
    }

    /// What becomes readable when an armed queue gets a completion.
    pub(crate) fn channel_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel was made by `open`, and lives as long as the context.
        let fd: RawFd = unsafe { (*self.channel).fd };
        // SAFETY: as above; nobody closes it before.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// A completion queue, which lives as long as the context.
    pub(crate) fn make_queue(&self, depth: u32) -> std::result::Result<*mut ibv_cq, i32> {
        let depth = i32::try_from(depth).map_err(|_| libc::EINVAL)?;
        // SAFETY: device and channel are open; completion vector 0 exists everywhere.
        let queue = unsafe { (self.library.ibv_create_cq)(self.raw, depth, null_mut(), self.channel, 0) };
        if queue.is_null() {
            return Err(errno());
        }
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
        Ok(queue)
    }

    /// Has every queue announce its next completion at the channel.
    pub(crate) fn arm(&self) {
        for &queue in self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // SAFETY: queues live as long as the context; the table of functions is filled by the device's driver.
            let armed = unsafe { (*(*queue).context).ops.req_notify_cq.map(|arm| arm(queue, 0)) };
            debug_assert_eq!(armed, Some(0), "a queue that cannot be armed");
        }
    }

    /// Takes what was announced. True when something was.
    pub(crate) fn take_announcements(&self) -> bool {
        let mut any = false;
        let (mut queue, mut nothing) = (null_mut(), null_mut());
        // SAFETY: the channel is open and never waits; what comes back is one of our queues, which takes the thanks for it.
        while unsafe { (self.library.ibv_get_cq_event)(self.channel, &mut queue, &mut nothing) } == 0 {
            // SAFETY: as above.
            unsafe { (self.library.ibv_ack_cq_events)(queue, 1) };
            any = true;
        }
        any
    }

    /// What the device can do.
    fn ask(&self, choice: &Choice) -> Result<(HcaLimits, Facts)> {
        let device = &choice.device;
        let refused = |what: &str, errno| {
            failed(&format!("{device} does not say {what}"), errno, "Is its driver loaded completely?")
        };
        // SAFETY: numbers only, for which 0 is a value.
        let (mut attr, mut port): (ibv_device_attr, ibv_port_attr) = unsafe { (zeroed(), zeroed()) };
        // SAFETY: the device is open, and the structure is the library's.
        let result = unsafe { (self.library.ibv_query_device)(self.raw, &mut attr) };
        if result != 0 {
            return Err(refused("what it can do", result));
        }
        // SAFETY: as above; the library fills what the first version of the structure had, which is all but its last member.
        let result = unsafe { (self.library.ibv_query_port)(self.raw, choice.port, &mut port) };
        if result != 0 {
            return Err(refused("the state of its port", result));
        }
        if port.state != IBV_PORT_ACTIVE {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!("port {} of {device} is not active any more: see ibv_devinfo", choice.port),
            ));
        }
        let on_demand = self.pages_on_demand();
        let (max_inline, max_segments) = self.probe_queue_pair(&attr, device)?;
        let at_least_0 = |number: i32| u32::try_from(number).unwrap_or(0);
        // What a device in software takes is not measured otherwise either: its figures are assumed, all of them.
        let registration = if on_demand { None } else { measure::registration(self) };
        let assumed = if choice.emulated { 5e-6 } else { 20e-6 };
        let measured = registration.filter(|_| !choice.emulated).map(Registration::seconds);
        let (fixed, per_byte) = measured.unwrap_or((assumed, 0.05e-9));
        let bandwidth = if choice.emulated { 1e9 } else { bytes_per_second(&port) };
        let by_bus = attr.atomic_cap != IBV_ATOMIC_NONE && self.changes_by_bus();
        let limits = HcaLimits {
            mtu: 128 << port.active_mtu.clamp(1, 5),
            max_message: port.max_msg_sz,
            max_inline,
            max_segments,
            max_send: at_least_0(attr.max_qp_wr),
            max_receive: at_least_0(attr.max_srq_wr),
            max_completions: at_least_0(attr.max_cqe),
            max_queue_pairs: at_least_0(attr.max_qp),
            // 128 requests of up to five units of 64 bytes, and a page of bookkeeping.
            queue_pair_bytes: 44 << 10,
            max_reads: attr.max_qp_rd_atom.min(attr.max_qp_init_rd_atom).clamp(0, 255) as u8,
            max_regions: at_least_0(attr.max_mr),
            max_registered: lockable(),
            follows_mappings: on_demand,
            atomics: attr.atomic_cap != IBV_ATOMIC_NONE,
            atomic_with_processors: attr.atomic_cap == IBV_ATOMIC_GLOB || by_bus,
            // Those of the bus have no order among themselves.
            atomics_in_order: !by_bus,
            works_in_calls: false,
            // A doorbell is a write across the bus, or a call of the kernel.
            chains: true,
            latency: if choice.emulated { 20e-6 } else { 1.5e-6 },
            bandwidth,
            // The copies bound it on fast cards.
            copied: (bandwidth * COPIED).min(COPY_BANDWIDTH),
            registration: fixed,
            registration_per_byte: per_byte,
        };
        // SAFETY: the field ends with 0, as all texts of the kernel.
        let firmware = unsafe { CStr::from_ptr(attr.fw_ver.as_ptr()) }.to_string_lossy().into_owned();
        let relaxed_ordering = self.library.ibv_reg_mr_iova2.is_some();
        let completion_queues = at_least_0(attr.max_cq);
        Ok((
            limits,
            Facts { firmware, on_demand, registration, relaxed_ordering, inner_memory: 0, completion_queues },
        ))
    }

    /// The library's larger structure around the context, where it has everything from the member at `from` on.
    pub(crate) fn around(&self, from: usize) -> Option<*const verbs_context_end> {
        // SAFETY: the context is open.
        if unsafe { (*self.raw).abi_compat } as usize != EXTENDED {
            return None;
        }
        // SAFETY: such contexts are inside the library's larger structure, whose end is declared in `sys`.
        let around =
            unsafe { self.raw.byte_sub(offset_of!(verbs_context_end, context)) }.cast::<verbs_context_end>();
        // SAFETY: `sz` stands in front of every such context.
        let there = unsafe { (*around).sz };
        (there >= size_of::<verbs_context_end>() - from).then_some(around.cast_const())
    }

    /// What devices say of themselves in the library's later structure; `None`: this one, or the library, does not.
    fn further_facts(&self) -> Option<ibv_device_attr_ex> {
        let around = self.around(offset_of!(verbs_context_end, query_device_ex))?;
        // SAFETY: the member is there.
        let ask = unsafe { (*around).query_device_ex }?;
        // SAFETY: numbers only.
        let mut attr: ibv_device_attr_ex = unsafe { zeroed() };
        // SAFETY: the device is open; no input means all defaults; it is told the size of the structure, and what it does not
        // know stays 0.
        let result = unsafe { ask(self.raw, std::ptr::null(), &mut attr, size_of::<ibv_device_attr_ex>()) };
        (result == 0).then_some(attr)
    }

    /// Whether regions may be of memory that is not there yet, or not any more, for all that connections do with them.
    fn pages_on_demand(&self) -> bool {
        let all = IBV_ODP_SUPPORT_SEND
            | IBV_ODP_SUPPORT_RECV
            | IBV_ODP_SUPPORT_WRITE
            | IBV_ODP_SUPPORT_READ
            | IBV_ODP_SUPPORT_ATOMIC
            | IBV_ODP_SUPPORT_SRQ_RECV;
        self.further_facts().is_some_and(|attr| {
            attr.odp_caps.general_caps & IBV_ODP_SUPPORT != 0 && attr.odp_caps.rc_odp_caps & all == all
        })
    }

    /// Whether the device adds to numbers of eight bytes, and swaps them, by the atomics of the bus, which are atomic towards
    /// processors, although it may call itself atomic alone (`IBV_ATOMIC_HCA`).
    fn changes_by_bus(&self) -> bool {
        self.further_facts().is_some_and(|attr| {
            let caps = attr.pci_atomic_caps;
            caps.fetch_add & caps.compare_swap & IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP != 0
        })
    }

    /// Bytes of the device's own memory, shared by all who use it.
    pub(crate) fn inner_memory(&self) -> u64 {
        self.further_facts().map_or(0, |attr| attr.max_dm_size)
    }

    /// The opened device.
    pub(crate) fn raw(&self) -> *mut ibv_context {
        self.raw
    }

    /// How many bytes a request may carry itself, and how many segments: devices say so only of a queue pair.
    fn probe_queue_pair(&self, attr: &ibv_device_attr, device: &str) -> Result<(u32, u32)> {
        let queue = self.make_probe_queue().map_err(|errno| {
            failed(
                &format!("{device} gives no completion queue"),
                errno,
                "See ulimit -l for memory that may be pinned",
            )
        })?;
        let segments = attr.max_sge.min(attr.max_sge_rd).clamp(1, MAX_SEGMENTS as i32) as u32;
        let mut found = Err(libc::EINVAL);
        for inline in [512, 256, 220, 128, 64, 0] {
            let cap = ibv_qp_cap {
                max_send_wr: 16,
                max_recv_wr: 1,
                max_send_sge: segments,
                max_recv_sge: 1,
                max_inline_data: inline,
            };
            let mut plan = ibv_qp_init_attr {
                qp_context: null_mut(),
                send_cq: queue,
                recv_cq: queue,
                srq: null_mut(),
                cap,
                qp_type: IBV_QPT_RC,
                sq_sig_all: 0,
            };
            // SAFETY: domain and queue are live; the library writes what it gave into the plan.
            let pair = unsafe { (self.library.ibv_create_qp)(self.domain, &mut plan) };
            if pair.is_null() {
                found = Err(errno());
                continue;
            }
            // SAFETY: it was just made, and nothing uses it.
            unsafe { (self.library.ibv_destroy_qp)(pair) };
            found = Ok((plan.cap.max_inline_data.min(512), plan.cap.max_send_sge.min(segments)));
            break;
        }
        // SAFETY: as above, and its only queue pair is gone.
        unsafe { (self.library.ibv_destroy_cq)(queue) };
        found.map_err(|errno| {
            failed(
                &format!("{device} makes no reliable connections"),
                errno,
                "EFA and some others do not; use WEFT_TRANSPORT=ofi with them. See also ulimit -l",
            )
        })
    }

    fn make_probe_queue(&self) -> std::result::Result<*mut ibv_cq, i32> {
        // SAFETY: the device is open; nobody wants to be told of this queue.
        let queue = unsafe { (self.library.ibv_create_cq)(self.raw, 16, null_mut(), null_mut(), 0) };
        if queue.is_null() { Err(errno()) } else { Ok(queue) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for queue in self.queues.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: the queue pairs that used it are gone: their owner holds the context.
            unsafe { (self.library.ibv_destroy_cq)(queue) };
        }
        if !self.channel.is_null() {
            // SAFETY: its queues are gone.
            unsafe { (self.library.ibv_destroy_comp_channel)(self.channel) };
        }
        if !self.domain.is_null() {
            // SAFETY: its regions and queue pairs are gone: their owner holds the context.
            unsafe { (self.library.ibv_dealloc_pd)(self.domain) };
        }
        // SAFETY: nothing of the device is left.
        unsafe { (self.library.ibv_close_device)(self.raw) };
    }
}

fn open_by_name(library: &Library, name: &str) -> Result<*mut ibv_context> {
    let mut count = 0;
    // SAFETY: the count is written to; the list is checked and given back below.
    let list = unsafe { (library.ibv_get_device_list)(&mut count) };
    if list.is_null() {
        return Err(failed("libibverbs finds no RDMA devices", errno(), "Is the module ib_uverbs loaded?"));
    }
    let mut result =
        Err(Error::new(ErrorClass::OTHER, format!("the RDMA device {name} is gone: see ibv_devices")));
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has that many devices.
        let device = unsafe { *list.add(at) };
        // SAFETY: names end with 0 and last as long as the list.
        if unsafe { CStr::from_ptr((library.ibv_get_device_name)(device)) }.to_bytes() == name.as_bytes() {
            // SAFETY: the device is of the list; an open one holds it.
            let context = unsafe { (library.ibv_open_device)(device) };
            result = if context.is_null() {
                Err(failed(
                    &format!("the RDMA device {name} cannot be opened"),
                    errno(),
                    "May this user open the files in /dev/infiniband (in a container: are they there)?",
                ))
            } else {
                Ok(context)
            };
            break;
        }
    }
    // SAFETY: it came from the library, and nothing of it is used any more.
    unsafe { (library.ibv_free_device_list)(list) };
    result
}

/// How many bytes this process may pin: registered memory counts.
fn lockable() -> u64 {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let privileged = std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .is_some_and(|capabilities| capabilities & CAP_IPC_LOCK != 0);
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if !privileged && soft != RLIM_INFINITY => soft,
        _ => u64::MAX,
    }
}

/// The speed of a port from its codes (InfiniBand Architecture Specification 1.7, section 14.2.5.6).
fn bytes_per_second(port: &ibv_port_attr) -> f64 {
    let gigabits = match port.active_speed {
        1 => 2.5,
        2 => 5.0,
        4 | 8 => 10.0,
        16 => 14.0,
        32 => 25.0,
        64 => 50.0,
        _ => 100.0,
    };
    let lanes = match port.active_width {
        1 => 1.0,
        4 => 8.0,
        8 => 12.0,
        16 => 2.0,
        _ => 4.0,
    };
    gigabits * lanes * 1e9 / 8.0
}

impl Link {
    /// Whether packets carry global routing headers always.
    pub(crate) const fn is_global(self) -> bool {
        matches!(self, Link::Ethernet)
    }
}
