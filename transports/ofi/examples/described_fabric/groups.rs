//! Collectives of groups: who joins which, what each has handed in, and when a call has ended.
//!
//! A group is known by the ends that its members' vectors name, in the order of ranks. Members make their calls in one order, and each call moves
//! when its member looks at its queue. A member that is closed before it has handed in what others need leaves them without an end, or with an error.
//!
//! Forbidden is what fi_collective(3) forbids: a call before all have joined, members whose calls differ, more elements than were said to be taken.

use crate::motion;
use crate::objects::{Table, base, hand_out};
use crate::profiles::{PROFILES, Profile};
use crate::world::{Entry, Local, Place, World, misuse, world};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use weft_ofi::sys::*;

/// Looks that a member takes to join, at most.
const JOINING: usize = 20;

/// What a provider runs.
#[derive(Debug)]
pub(crate) struct Collectives {
    /// Whether it has reductions to a root.
    pub(crate) reduce: bool,
    /// Most bytes of a call.
    pub(crate) longest: usize,
    pub(crate) members: usize,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// What event queues tell: 0, or an error number.
    events: HashMap<usize, VecDeque<i32>>,
    /// Sets of members, by rank.
    sets: HashMap<usize, Vec<u64>>,
    /// By the members.
    gatherings: HashMap<Vec<u64>, Gathering>,
    /// By end.
    members: HashMap<usize, Member>,
}

#[derive(Debug)]
struct Gathering {
    joined: Vec<bool>,
    calls: Vec<Call>,
}

/// What all members must say alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    kind: u32,
    root: Option<u64>,
    count: usize,
    datatype: u32,
    operation: u32,
}

#[derive(Debug)]
struct Call {
    said: Said,
    /// By rank, what was handed in.
    operands: Vec<Option<Vec<u8>>>,
}

#[derive(Debug)]
struct Member {
    events: usize,
    of: Option<Joined>,
}

#[derive(Debug)]
struct Joined {
    /// The object of the program.
    group: usize,
    members: Vec<u64>,
    rank: usize,
    /// Looks until it is told that all have joined; `None`: it was.
    tells: Option<u32>,
    /// Joining fails.
    fails: bool,
    begun: usize,
    under_way: Option<UnderWay>,
}

/// A call that this member has made.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    call: usize,
    context: usize,
    result: Local,
    /// Looks until it moves.
    late: u32,
    /// Its connection has broken.
    fails: bool,
    /// What it needs will not come.
    in_vain: bool,
}

static OF_EVENTS: Table<fi_ops_eq> = Table(fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read_event),
    readerr: Some(read_failure),
    write: None,
    sread: None,
    strerror: None,
});
static OF_SET: Table<fi_ops_av_set> = Table(fi_ops_av_set {
    size: size_of::<fi_ops_av_set>(),
    set_union: None,
    intersect: None,
    diff: None,
    insert: None,
    remove: None,
    addr: Some(address_of_set),
});
pub(crate) static OF_GROUP: Table<fi_ops_collective> = Table(fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    barrier: Some(barrier),
    broadcast: Some(broadcast),
    alltoall: None,
    allreduce: Some(allreduce),
    allgather: None,
    reduce_scatter: None,
    reduce: Some(reduce),
    scatter: None,
    gather: None,
    msg: None,
    barrier2: None,
});

impl Groups {
    pub(crate) fn are_events(&self, at: usize) -> bool {
        self.events.contains_key(&at)
    }

    /// An event queue is bound to an end.
    pub(crate) fn bind(&mut self, end: usize, events: usize) {
        self.members.insert(end, Member { events, of: None });
    }

    pub(crate) fn has_events(&self, end: usize) -> bool {
        self.members.contains_key(&end)
    }

    /// An object is closed.
    pub(crate) fn close(&mut self, at: usize) {
        self.events.remove(&at);
        self.sets.remove(&at);
        self.members.remove(&at);
        for member in self.members.values_mut() {
            if member.of.as_ref().is_some_and(|of| of.group == at) {
                member.of = None;
            }
        }
    }
}

fn element_bytes(datatype: u32) -> usize {
    match datatype {
        FI_UINT8 => 1,
        FI_INT32 => 4,
        FI_DOUBLE => 8,
        _ => 0,
    }
}

/// Whether a provider has such a reduction.
fn combines(operation: u32, datatype: u32) -> bool {
    [FI_SUM, FI_MAX].contains(&operation) && [FI_INT32, FI_DOUBLE].contains(&datatype)
}

/// The most elements of a call; `None`: there is no such collective.
fn most(profile: &Profile, collective: u32, operation: u32, datatype: u32) -> Option<usize> {
    let Collectives { reduce, longest, .. } = profile.collectives?;
    match collective {
        FI_BARRIER => Some(0),
        FI_BROADCAST if datatype == FI_UINT8 => Some(*longest),
        FI_REDUCE if !reduce => None,
        FI_REDUCE | FI_ALLREDUCE if combines(operation, datatype) => Some(longest / element_bytes(datatype)),
        _ => None,
    }
}

pub(crate) unsafe extern "C" fn query(
    domain: *mut fid_domain,
    collective: u32,
    attributes: *mut fi_collective_attr,
    _flags: u64,
) -> c_int {
    let world = world();
    let profile = world.profile(domain as usize);
    // SAFETY: the program gives a question with room for the answer.
    let attributes = unsafe { &mut *attributes };
    let Some(most) = most(profile, collective, attributes.op, attributes.datatype) else {
        return -libc::EOPNOTSUPP;
    };
    attributes.datatype_attr.count = most;
    attributes.max_members = profile.collectives.expect("it has some").members;
    0
}

pub(crate) unsafe extern "C" fn open_events(
    fabric: *mut fid_fabric,
    _attributes: *mut fi_eq_attr,
    out: *mut *mut fid_eq,
    _context: *mut c_void,
) -> c_int {
    let made = hand_out(fid_eq { fid: base(), ops: &OF_EVENTS.0 });
    let mut world = world();
    let place = world.look_up(fabric as usize);
    world.open(made as usize, "an event queue", place, &[fabric as usize]);
    world.groups.events.insert(made as usize, VecDeque::new());
    // SAFETY: room for the answer.
    unsafe { *out = made };
    0
}

pub(crate) unsafe extern "C" fn make_set(
    vector: *mut fid_av,
    attributes: *mut fi_av_set_attr,
    out: *mut *mut fid_av_set,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let place = world.look_up(vector as usize);
    // SAFETY: attributes of the program.
    let wanted = unsafe { &*attributes };
    let places = &world.vectors[&(vector as usize)].places;
    let numbers: Option<Vec<u64>> = (wanted.start_addr..=wanted.end_addr)
        .step_by(wanted.stride as usize)
        .map(|place| places.get(&place).map(|&(number, _)| number))
        .collect();
    let Some(numbers) = numbers else { misuse("a set names addresses that are not in its vector") };
    let made = hand_out(fid_av_set { fid: base(), ops: &OF_SET.0 });
    world.open(made as usize, "a set of addresses", place, &[vector as usize]);
    world.groups.sets.insert(made as usize, numbers);
    // SAFETY: room for the answer.
    unsafe { *out = made };
    0
}

unsafe extern "C" fn address_of_set(set: *mut fid_av_set, out: *mut u64) -> c_int {
    world().look_up(set as usize);
    // SAFETY: room for the answer.
    unsafe { *out = set as u64 };
    0
}

pub(crate) unsafe extern "C" fn join(
    endpoint: *mut fid_ep,
    address: *const c_void,
    flags: u64,
    out: *mut *mut fid_mc,
    _context: *mut c_void,
) -> c_int {
    let mut world = world();
    let at = endpoint as usize;
    let place = world.look_up(at);
    // SAFETY: what `FI_COLLECTIVE` says of the address.
    let address = unsafe { &*address.cast::<fi_collective_addr>() };
    let set = address.set as usize;
    world.look_up(set);
    let members = world.groups.sets[&set].clone();
    let number = world.ends[&at].number;
    let Some(rank) = members.iter().position(|&member| member == number) else {
        misuse("an end joins a group that it is not in")
    };
    let joined_before = world.groups.members.get(&at).is_none_or(|member| member.of.is_some());
    if flags & FI_COLLECTIVE == 0 || address.coll_addr != set as u64 || joined_before {
        misuse("an end joins a group without events, twice, or not for collectives");
    }
    let rate = world.faults.unjoined;
    if world.breaks(place, rate) {
        return -world.nobody();
    }
    let fails = world.breaks(place, rate);
    let made = hand_out(fid_mc { fid: base(), fi_addr: 0 });
    // SAFETY: just made, and room for the answer.
    unsafe {
        (*made).fi_addr = made as u64;
        *out = made;
    }
    world.open(made as usize, "a group", place, &[at, set]);
    let tells = Some(world.below(JOINING) as u32);
    let new = || Gathering { joined: vec![false; members.len()], calls: Vec::new() };
    world.groups.gatherings.entry(members.clone()).or_insert_with(new).joined[rank] = true;
    let joined = Joined { group: made as usize, members, rank, tells, fails, begun: 0, under_way: None };
    world.groups.members.get_mut(&at).expect("it has events").of = Some(joined);
    0
}

unsafe extern "C" fn read_event(
    queue: *mut fid_eq,
    event: *mut u32,
    out: *mut c_void,
    bytes: usize,
    _flags: u64,
) -> isize {
    let mut world = world();
    world.look_up(queue as usize);
    let events = world.groups.events.get_mut(&(queue as usize)).expect("an open queue");
    match events.front() {
        None => -(FI_EAGAIN as isize),
        Some(0) if bytes >= size_of::<fi_eq_entry>() => {
            events.pop_front();
            // SAFETY: the program gives room for both.
            unsafe {
                *event = FI_JOIN_COMPLETE;
                out.cast::<fi_eq_entry>().write(fi_eq_entry {
                    fid: null_mut(),
                    context: null_mut(),
                    data: 0,
                });
            }
            size_of::<fi_eq_entry>() as isize
        }
        Some(0) => misuse("an event is read into too little room"),
        Some(_) => -(FI_EAVAIL as isize),
    }
}

unsafe extern "C" fn read_failure(queue: *mut fid_eq, out: *mut fi_eq_err_entry, _flags: u64) -> isize {
    let mut world = world();
    world.look_up(queue as usize);
    let events = world.groups.events.get_mut(&(queue as usize)).expect("an open queue");
    let Some(error) = events.front().copied().filter(|&error| error != 0) else {
        return -(FI_EAGAIN as isize);
    };
    events.pop_front();
    // SAFETY: the program gives room for one.
    unsafe { (*out).err = error };
    1
}

/// A member hands in its part of a call.
fn begin(
    endpoint: *mut fid_ep,
    group: u64,
    said: Said,
    operand: Option<Local>,
    result: Local,
    context: *mut c_void,
) -> isize {
    let mut world = world();
    let at = endpoint as usize;
    let place = world.look_up(at);
    let profile = &PROFILES[place];
    world.look_up(group as usize);
    if world.ends[&at].caps & FI_COLLECTIVE == 0 {
        misuse("a collective is begun at an end that was not opened for any");
    }
    let of = world.groups.members.get(&at).and_then(|member| member.of.as_ref());
    let Some(of) = of.filter(|of| of.group as u64 == group && of.tells.is_none()) else {
        misuse("a collective is begun before all have joined")
    };
    let (rank, call, members, busy) = (of.rank, of.begun, of.members.clone(), of.under_way.is_some());
    if most(profile, said.kind, said.operation, said.datatype).is_none_or(|most| said.count > most) {
        misuse(format!("a collective that was not said to be there: {said:?}"));
    }
    [operand, Some(result)].into_iter().flatten().for_each(|local| world.check(at, local));
    if let Some(refused) = world.refuses(place) {
        return refused;
    }
    let denied = world.faults.denied;
    if world.breaks(place, denied) {
        return -(world.nobody() as isize);
    }
    if busy {
        return -(FI_EAGAIN as isize);
    }
    let bytes = operand.map_or(Vec::new(), motion::bytes_of);
    let calls = &mut world.groups.gatherings.get_mut(&members).expect("it has joined").calls;
    if calls.len() == call {
        calls.push(Call { said, operands: vec![None; members.len()] });
    }
    if calls[call].said != said {
        misuse(format!("members make different calls: {:?} and {said:?}", calls[call].said));
    }
    let (late, breaks) = (world.faults.late, world.faults.broken);
    let late = world.below(4) as u32 + world.delay(late);
    let fails = world.breaks(place, breaks);
    // What is on its way when a connection breaks may have arrived, or not.
    if !fails || world.below(2) == 0 {
        let calls = &mut world.groups.gatherings.get_mut(&members).expect("it has joined").calls;
        calls[call].operands[rank] = Some(bytes);
    }
    world.claim(at, context as usize);
    world.note(place, "collectives");
    world.ends.get_mut(&at).expect("an open end").sending += 1;
    let of = world.groups.members.get_mut(&at).and_then(|member| member.of.as_mut()).expect("just seen");
    of.begun += 1;
    of.under_way = Some(UnderWay { call, context: context as usize, result, late, fails, in_vain: false });
    0
}

unsafe extern "C" fn barrier(endpoint: *mut fid_ep, group: u64, context: *mut c_void) -> isize {
    let said = Said { kind: FI_BARRIER, root: None, count: 0, datatype: FI_VOID, operation: 0 };
    begin(endpoint, group, said, None, local(null_mut(), 0, null_mut(), 0), context)
}

unsafe extern "C" fn broadcast(
    endpoint: *mut fid_ep,
    room: *mut c_void,
    count: usize,
    descriptor: *mut c_void,
    group: u64,
    root: u64,
    datatype: u32,
    _flags: u64,
    context: *mut c_void,
) -> isize {
    let said = Said { kind: FI_BROADCAST, root: Some(root), count, datatype, operation: 0 };
    let bytes = count * element_bytes(datatype);
    let operand = local(room, bytes, descriptor, FI_SEND);
    begin(endpoint, group, said, Some(operand), local(room, bytes, descriptor, FI_RECV), context)
}

unsafe extern "C" fn allreduce(
    endpoint: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    result: *mut c_void,
    result_descriptor: *mut c_void,
    group: u64,
    datatype: u32,
    operation: u32,
    _flags: u64,
    context: *mut c_void,
) -> isize {
    let said = Said { kind: FI_ALLREDUCE, root: None, count, datatype, operation };
    let bytes = count * element_bytes(datatype);
    let operand = local(operand, bytes, descriptor, FI_SEND);
    begin(endpoint, group, said, Some(operand), local(result, bytes, result_descriptor, FI_RECV), context)
}

unsafe extern "C" fn reduce(
    endpoint: *mut fid_ep,
    operand: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    result: *mut c_void,
    result_descriptor: *mut c_void,
    group: u64,
    root: u64,
    datatype: u32,
    operation: u32,
    _flags: u64,
    context: *mut c_void,
) -> isize {
    let said = Said { kind: FI_REDUCE, root: Some(root), count, datatype, operation };
    let bytes = count * element_bytes(datatype);
    let operand = local(operand, bytes, descriptor, FI_SEND);
    begin(endpoint, group, said, Some(operand), local(result, bytes, result_descriptor, FI_RECV), context)
}

fn local(at: *const c_void, bytes: usize, descriptor: *mut c_void, right: u64) -> Local {
    Local { at: at as usize, bytes, descriptor: descriptor as usize, right }
}

/// What a member's look moves: its joining, and its call.
pub(crate) fn advance(world: &mut World, at: usize) {
    let Some(of) = world.groups.members.get_mut(&at).and_then(|member| member.of.as_mut()) else { return };
    if let Some(looks) = &mut of.tells {
        *looks = looks.saturating_sub(1);
        let over = *looks == 0;
        let all = world.groups.gatherings[&of.members].joined.iter().all(|&joined| joined);
        if over && (all || of.fails) {
            let error = if of.fails { libc::ECONNREFUSED } else { 0 };
            let member = world.groups.members.get_mut(&at).expect("just seen");
            member.of.as_mut().expect("just seen").tells = if error == 0 { None } else { Some(u32::MAX) };
            world.groups.events.get_mut(&member.events).expect("it is bound").push_back(error);
        }
        return;
    }
    let Some(under) = &mut of.under_way else { return };
    if under.late > 0 {
        under.late -= 1;
        return;
    }
    let (under, rank, members) = (*under, of.rank, of.members.clone());
    let Call { said, operands } = &world.groups.gatherings[&members].calls[under.call];
    let needed: Vec<usize> = match (said.kind, said.root) {
        (FI_BROADCAST, Some(root)) => vec![root as usize],
        (FI_REDUCE, Some(root)) if root as usize != rank => vec![rank],
        _ => (0..members.len()).collect(),
    };
    let missing = needed.iter().find(|&&rank| operands[rank].is_none());
    let outcome = match missing {
        _ if under.fails => Err(None),
        Some(&missing) if !world.numbers.contains_key(&members[missing]) => Err(Some(missing)),
        Some(_) => return,
        None => Ok(result_of(*said, operands, rank)),
    };
    let error = match outcome {
        Ok(result) => {
            world.check(at, under.result);
            motion::put(under.result.at, &result);
            0
        }
        Err(Some(_)) => {
            // Nobody promises an end.
            if under.in_vain || world.profile(at).silent || world.below(2) == 0 {
                waits_in_vain(world, at);
                return;
            }
            world.nobody()
        }
        Err(None) => world.nobody(),
    };
    let of = world.groups.members.get_mut(&at).and_then(|member| member.of.as_mut()).expect("just seen");
    of.under_way = None;
    if error != 0 {
        world.note(world.ends[&at].profile, "failed");
    }
    world.give_up(under.context);
    motion::tell(world, Entry { context: under.context, bytes: 0, error, end: at, place: Place::Sends });
}

fn waits_in_vain(world: &mut World, at: usize) {
    let of = world.groups.members.get_mut(&at).and_then(|member| member.of.as_mut());
    of.and_then(|of| of.under_way.as_mut()).expect("just seen").in_vain = true;
}

/// What a member gets.
fn result_of(said: Said, operands: &[Option<Vec<u8>>], rank: usize) -> Vec<u8> {
    match (said.kind, said.root) {
        (FI_BROADCAST, Some(root)) => operands[root as usize].clone().expect("it is there"),
        (FI_REDUCE, Some(root)) if root as usize != rank => Vec::new(),
        (FI_REDUCE | FI_ALLREDUCE, _) => {
            // Every member begins with its own, so that the last bits of sums differ.
            let mut turn = (0..operands.len()).map(|step| (rank + step) % operands.len());
            let operand = |rank: usize| operands[rank].as_deref().expect("it is there");
            let first = operand(turn.next().expect("there are members")).to_vec();
            turn.fold(first, |result, rank| combined(said, &result, operand(rank)))
        }
        _ => Vec::new(),
    }
}

fn combined(said: Said, left: &[u8], right: &[u8]) -> Vec<u8> {
    fn each<const N: usize>(left: &[u8], right: &[u8], of: impl Fn([u8; N], [u8; N]) -> [u8; N]) -> Vec<u8> {
        let (left, right) = (left.as_chunks().0.iter(), right.as_chunks().0.iter());
        left.zip(right).flat_map(|(&left, &right)| of(left, right)).collect()
    }
    let of_numbers = |left, right| {
        let (left, right) = (i32::from_ne_bytes(left), i32::from_ne_bytes(right));
        if said.operation == FI_SUM { left.wrapping_add(right) } else { left.max(right) }.to_ne_bytes()
    };
    let of_floats = |left, right| {
        let (left, right) = (f64::from_ne_bytes(left), f64::from_ne_bytes(right));
        if said.operation == FI_SUM { left + right } else { left.max(right) }.to_ne_bytes()
    };
    if said.datatype == FI_INT32 { each(left, right, of_numbers) } else { each(left, right, of_floats) }
}
