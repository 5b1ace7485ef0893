//! What programs post, and what they read of what has ended.

use crate::motion;
use crate::objects::Table;
use crate::profiles::{PROFILES, Progress};
use crate::world::{Entry, Local, Operation, Place, Receive, Remote, Work, misuse, world};
use std::ffi::{c_int, c_void};
use weft_ofi::select::REMOTE_MEMORY;
use weft_ofi::sys::*;

pub(crate) static OF_QUEUE: Table<fi_ops_cq> = Table(fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read_queue),
    readfrom: None,
    readerr: Some(read_error),
    sread: None,
    sreadfrom: None,
    signal: None,
    strerror: None,
});
pub(crate) static OF_ENDPOINT: Table<fi_ops_ep> = Table(fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: None,
    getopt: None,
    setopt: None,
    tx_ctx: None,
    rx_ctx: None,
    rx_size_left: None,
    tx_size_left: None,
});
pub(crate) static MESSAGES: Table<fi_ops_msg> = Table(fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv: Some(recv),
    recvv: None,
    recvmsg: None,
    send: Some(send),
    sendv: None,
    sendmsg: None,
    inject: Some(inject),
    senddata: None,
    injectdata: None,
});
pub(crate) static TAGS: Table<fi_ops_tagged> = Table(fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: Some(recv_tagged),
    recvv: None,
    recvmsg: None,
    send: Some(send_tagged),
    sendv: None,
    sendmsg: None,
    inject: Some(inject_tagged),
    senddata: None,
    injectdata: None,
});
pub(crate) static MEMORY: Table<fi_ops_rma> = Table(fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: None,
    readmsg: Some(read_message),
    write: None,
    writev: None,
    writemsg: Some(write_message),
    inject: None,
    writedata: None,
    injectdata: None,
});
pub(crate) static ATOMICS: Table<fi_ops_atomic> = Table(fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: None,
    writev: None,
    writemsg: None,
    inject: None,
    readwrite: Some(fetch),
    readwritev: None,
    readwritemsg: None,
    compwrite: Some(exchange),
    compwritev: None,
    compwritemsg: None,
    writevalid: None,
    readwritevalid: Some(is_sum),
    compwritevalid: Some(is_exchange),
});

fn local(at: *const c_void, bytes: usize, descriptor: *mut c_void, right: u64) -> Local {
    Local { at: at as usize, bytes, descriptor: descriptor as usize, right }
}

/// Takes an operation, or refuses it for now: there is no room, or no connection yet.
fn post(endpoint: *mut fid_ep, needs: u64, to: u64, context: *mut c_void, work: Work) -> isize {
    let mut world = world();
    let at = endpoint as usize;
    let place = world.look_up(at);
    let profile = &PROFILES[place];
    let end = &world.ends[&at];
    if !end.enabled {
        misuse("an endpoint is used before it was enabled");
    }
    if end.caps & needs != needs {
        misuse(format!("{:#x} is used, and was not asked for", needs & !end.caps));
    }
    let bytes: usize = match &work {
        Work::Copied { bytes, .. } if bytes.len() > profile.inject => {
            misuse(format!("{} bytes are injected, of at most {}", bytes.len(), profile.inject))
        }
        Work::Copied { bytes, .. } => bytes.len(),
        work => work.locals().iter().map(|local| local.bytes).sum(),
    };
    if bytes > profile.longest {
        misuse(format!("a message of {bytes} bytes, of at most {}", profile.longest));
    }
    work.locals().into_iter().for_each(|local| world.check(at, local));
    let number = world.resolve(at, to);
    let queue = world.ends[&at].queue.expect("an enabled endpoint has one");
    let (sending, receiving) = (world.ends[&at].sending, world.ends[&at].receiving);
    if let Some(refused) = world.refuses(place) {
        return refused;
    }
    let denied = world.faults.denied;
    if world.breaks(place, denied) {
        return -(world.nobody() as isize);
    }
    if sending >= profile.sends || sending + receiving >= world.queues[&queue].size {
        world.note(place, "full");
        return -(FI_EAGAIN as isize);
    }
    if profile.deaf && !world.numbers.contains_key(&number) || !motion::is_connected(&mut world, at, number) {
        world.note(place, "unconnected");
        return -(FI_EAGAIN as isize);
    }
    if !matches!(work, Work::Copied { .. }) {
        world.claim(at, context as usize);
    } else {
        world.note(place, "injected");
    }
    let rate = world.faults.late;
    let late = world.below(profile.late as usize + 1) as u32 + world.delay(rate);
    let end = world.ends.get_mut(&at).expect("looked up");
    end.sending += 1;
    end.sends.push_back(Operation { context: context as usize, to: number, work, late });
    if profile.progress == Progress::Leaving {
        motion::leave(&mut world, at);
    }
    0
}

fn take(endpoint: *mut fid_ep, needs: u64, room: Local, tag: Option<u64>, context: *mut c_void) -> isize {
    let mut world = world();
    let at = endpoint as usize;
    let place = world.look_up(at);
    let profile = &PROFILES[place];
    let end = &world.ends[&at];
    if !end.enabled || end.caps & needs != needs {
        misuse("receives are posted to an endpoint that is not enabled or has none of the kind");
    }
    world.check(at, room);
    let (sending, receiving) = (world.ends[&at].sending, world.ends[&at].receiving);
    let queue = world.ends[&at].queue.expect("an enabled endpoint has one");
    if let Some(refused) = world.refuses(place) {
        return refused;
    }
    if receiving >= profile.receives || sending + receiving >= world.queues[&queue].size {
        return -(FI_EAGAIN as isize);
    }
    world.claim(at, context as usize);
    let end = world.ends.get_mut(&at).expect("looked up");
    end.receiving += 1;
    end.receives.push_back(Receive { context: context as usize, room, tag });
    0
}

/// Bytes of the program, copied at once.
///
/// # Safety
/// So many bytes are there.
unsafe fn copied(from: *const c_void, bytes: usize) -> Vec<u8> {
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec()
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    room: *mut c_void,
    bytes: usize,
    descriptor: *mut c_void,
    _from: u64,
    context: *mut c_void,
) -> isize {
    take(endpoint, FI_MSG | FI_RECV, local(room, bytes, descriptor, FI_RECV), None, context)
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    message: *const c_void,
    bytes: usize,
    descriptor: *mut c_void,
    to: u64,
    context: *mut c_void,
) -> isize {
    let from = local(message, bytes, descriptor, FI_SEND);
    post(endpoint, FI_MSG | FI_SEND, to, context, Work::Message { from, tag: None })
}

unsafe extern "C" fn inject(endpoint: *mut fid_ep, message: *const c_void, bytes: usize, to: u64) -> isize {
    // SAFETY: the program's message.
    let bytes = unsafe { copied(message, bytes) };
    post(endpoint, FI_MSG | FI_SEND, to, std::ptr::null_mut(), Work::Copied { bytes, tag: None })
}

unsafe extern "C" fn recv_tagged(
    endpoint: *mut fid_ep,
    room: *mut c_void,
    bytes: usize,
    descriptor: *mut c_void,
    _from: u64,
    tag: u64,
    _ignored: u64,
    context: *mut c_void,
) -> isize {
    take(endpoint, FI_TAGGED | FI_RECV, local(room, bytes, descriptor, FI_RECV), Some(tag), context)
}

unsafe extern "C" fn send_tagged(
    endpoint: *mut fid_ep,
    message: *const c_void,
    bytes: usize,
    descriptor: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let from = local(message, bytes, descriptor, FI_SEND);
    post(endpoint, FI_TAGGED | FI_SEND, to, context, Work::Message { from, tag: Some(tag) })
}

unsafe extern "C" fn inject_tagged(
    endpoint: *mut fid_ep,
    message: *const c_void,
    bytes: usize,
    to: u64,
    tag: u64,
) -> isize {
    // SAFETY: the program's message.
    let bytes = unsafe { copied(message, bytes) };
    post(endpoint, FI_TAGGED | FI_SEND, to, std::ptr::null_mut(), Work::Copied { bytes, tag: Some(tag) })
}

unsafe extern "C" fn read(
    endpoint: *mut fid_ep,
    room: *mut c_void,
    bytes: usize,
    descriptor: *mut c_void,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let parts = vec![(local(room, bytes, descriptor, FI_READ), Remote { address, key })];
    post(endpoint, REMOTE_MEMORY, from, context, Work::Read(parts))
}

/// The parts of a description, which go together one by one.
///
/// # Safety
/// As the library has it.
unsafe fn parts(message: &fi_msg_rma, right: u64) -> Vec<(Local, Remote)> {
    if message.iov_count != message.rma_iov_count || message.iov_count > 4 {
        misuse("a request has other runs of memory here than there, or too many");
    }
    // SAFETY: lists of as many entries as the program says.
    let (here, there, descriptors) = unsafe {
        (
            std::slice::from_raw_parts(message.msg_iov, message.iov_count),
            std::slice::from_raw_parts(message.rma_iov, message.iov_count),
            std::slice::from_raw_parts(message.desc, message.iov_count),
        )
    };
    let part = |at: usize| {
        if here[at].iov_len != there[at].len {
            misuse("a run has another length here than there");
        }
        let room = local(here[at].iov_base, here[at].iov_len, descriptors[at], right);
        (room, Remote { address: there[at].addr, key: there[at].key })
    };
    (0..here.len()).map(part).collect()
}

unsafe extern "C" fn read_message(endpoint: *mut fid_ep, message: *const fi_msg_rma, _flags: u64) -> isize {
    // SAFETY: the program's description.
    let (message, parts) = unsafe { (&*message, parts(&*message, FI_READ)) };
    post(endpoint, REMOTE_MEMORY, message.addr, message.context, Work::Read(parts))
}

unsafe extern "C" fn write_message(endpoint: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize {
    if flags & FI_DELIVERY_COMPLETE != 0 && !world().profile(endpoint as usize).delivery {
        misuse("a write shall tell when it is visible, which it cannot");
    }
    // SAFETY: the program's description.
    let (message, parts) = unsafe { (&*message, parts(&*message, FI_WRITE)) };
    post(endpoint, REMOTE_MEMORY, message.addr, message.context, Work::Write(parts))
}

unsafe extern "C" fn fetch(
    endpoint: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    found: *mut c_void,
    found_descriptor: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> isize {
    if (count, datatype, operation) != (1, FI_UINT64, FI_SUM) {
        misuse("an atomic operation that was not said to be there");
    }
    let operand = local(operand, 8, descriptor, FI_WRITE);
    let found = local(found, 8, found_descriptor, FI_READ);
    let work = Work::Atomic { operand, compared: None, found, at: Remote { address, key } };
    post(endpoint, FI_ATOMIC, to, context, work)
}

unsafe extern "C" fn exchange(
    endpoint: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    compared: *const c_void,
    compared_descriptor: *mut c_void,
    found: *mut c_void,
    found_descriptor: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> isize {
    if (count, datatype, operation) != (1, FI_UINT64, FI_CSWAP) {
        misuse("an atomic operation that was not said to be there");
    }
    let operand = local(operand, 8, descriptor, FI_WRITE);
    let compared = Some(local(compared, 8, compared_descriptor, FI_WRITE));
    let found = local(found, 8, found_descriptor, FI_READ);
    let work = Work::Atomic { operand, compared, found, at: Remote { address, key } };
    post(endpoint, FI_ATOMIC, to, context, work)
}

fn valid(endpoint: *mut fid_ep, asked: (u32, u32), have: u32, count: *mut usize) -> c_int {
    world().look_up(endpoint as usize);
    if asked != (FI_UINT64, have) {
        return -libc::EOPNOTSUPP;
    }
    // SAFETY: the program gives room for it.
    unsafe { *count = 1 };
    0
}

unsafe extern "C" fn is_sum(
    endpoint: *mut fid_ep,
    datatype: u32,
    operation: u32,
    count: *mut usize,
) -> c_int {
    valid(endpoint, (datatype, operation), FI_SUM, count)
}

unsafe extern "C" fn is_exchange(
    endpoint: *mut fid_ep,
    datatype: u32,
    operation: u32,
    count: *mut usize,
) -> c_int {
    valid(endpoint, (datatype, operation), FI_CSWAP, count)
}

/// The next entry of a queue, if it is of this kind.
fn next(queue: usize, failed: bool) -> Option<Entry> {
    let mut world = world();
    let entries = &mut world.queues.get_mut(&queue)?.entries;
    entries.front().filter(|entry| (entry.error != 0) == failed)?;
    let entry = entries.pop_front()?;
    if let Some(end) = world.ends.get_mut(&entry.end) {
        match entry.place {
            Place::Sends => end.sending -= 1,
            Place::Receives => end.receiving -= 1,
            Place::Nowhere => {}
        }
    }
    Some(entry)
}

unsafe extern "C" fn read_queue(queue: *mut fid_cq, out: *mut c_void, count: usize) -> isize {
    let at = queue as usize;
    let count = {
        let mut world = world();
        world.look_up(at);
        motion::look(&mut world, at);
        world.portion(count)
    };
    let mut told = 0;
    while told < count
        && let Some(entry) = next(at, false)
    {
        let entry = fi_cq_msg_entry { op_context: entry.context as *mut c_void, flags: 0, len: entry.bytes };
        // SAFETY: the program gives room for so many.
        unsafe { out.cast::<fi_cq_msg_entry>().add(told).write(entry) };
        told += 1;
    }
    if told > 0 {
        told as isize
    } else if world().queues[&at].entries.is_empty() {
        -(FI_EAGAIN as isize)
    } else {
        -(FI_EAVAIL as isize)
    }
}

unsafe extern "C" fn read_error(queue: *mut fid_cq, out: *mut fi_cq_err_entry, _flags: u64) -> isize {
    world().look_up(queue as usize);
    let Some(entry) = next(queue as usize, true) else { return -(FI_EAGAIN as isize) };
    // SAFETY: the program gives room for one.
    unsafe {
        (*out).op_context = entry.context as *mut c_void;
        (*out).err = entry.error;
    }
    1
}
