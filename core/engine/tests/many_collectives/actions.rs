//! One operation of a program: what each member gives, and what it must have in the end by definition.

use crate::Comm;
use weft_coll::{Call, Group, InterCall, Model, Root, Schedule, Vector, plan, plan_inter};
use weft_datatype::{Datatype, Elements, Form, Memory};
use weft_engine::UserOperation;
use weft_types::abi;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
    Exscan,
    Message,
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) kind: Kind,
    pub(crate) comm: usize,
    /// Root, or sender of a message, by number.
    pub(crate) root: u32,
    /// Receiver of a message.
    pub(crate) to: u32,
    /// Ints in a block; pairs in a vector.
    pub(crate) count: u32,
    /// Whether a reduction uses an operation that does not commute.
    pub(crate) ordered: bool,
    pub(crate) persistent: bool,
}

pub(crate) const PRIME: i64 = 9973;

pub(crate) fn give(action: usize, round: u32, from: u32, to: u32, i: u32) -> i32 {
    let mixed = action as i64 * 7919 + i64::from(round) * 104_729 + i64::from(from) * 1009;
    ((mixed + i64::from(to) * 131 + i64::from(i) * 17 + 1) % PRIME) as i32
}

/// x -> a x + b, composed from the left.
pub(crate) fn compose(left: [i32; 2], right: [i32; 2]) -> [i32; 2] {
    let [a, b] = left.map(i64::from);
    let [c, d] = right.map(i64::from);
    [(c * a % PRIME) as i32, ((c * b + d) % PRIME) as i32]
}

#[derive(Debug)]
pub(crate) struct Compose;

impl UserOperation for Compose {
    fn apply(&self, left: Elements, into: Elements) {
        for i in 0..into.count() {
            let from = (left.address() + i * 8) as *const [i32; 2];
            let to = (into.address() + i * 8) as *mut [i32; 2];
            // SAFETY: the executor gives operands of the type of `pair`.
            unsafe { *to = compose(*from, *to) };
        }
    }
}

pub(crate) fn int() -> Datatype {
    Datatype::predefined(abi::MPI_INT).unwrap().into()
}

pub(crate) fn pair() -> Datatype {
    Datatype::contiguous(2, &int(), Form::Int).unwrap()
}

pub(crate) fn write(memory: &Memory, ints: &[i32]) {
    let bytes: Vec<u8> = ints.iter().flat_map(|value| value.to_ne_bytes()).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
}

pub(crate) fn content(memory: &Memory, ints: u32) -> Vec<i32> {
    let mut bytes = vec![0; 4 * ints as usize];
    memory.send_view(0, 0, bytes.len() as u64).pack(0, &mut bytes);
    bytes.chunks_exact(4).map(|chunk| i32::from_ne_bytes(chunk.try_into().unwrap())).collect()
}

/// What an operation is at one member: what it gives, and what it must have in the end (as far as it must have anything).
pub(crate) struct Part {
    pub(crate) schedule: Option<Schedule>,
    pub(crate) send: Vec<i32>,
    pub(crate) recv: Vec<i32>,
    pub(crate) wanted: Option<Vec<i32>>,
}

impl Action {
    pub(crate) fn part(&self, index: usize, round: u32, comm: &Comm, number: u32, model: &Model) -> Part {
        let size = comm.members.len() as u32;
        let sides = comm.sides(number);
        let givers = comm.givers(number);
        let (count, kind) = (self.count, self.kind);
        let to_one = |from: u32, to: u32| (0..count).map(move |i| give(index, round, from, to, i));
        // A vector of pairs.
        let vector_of = |from: u32, pairs: u32| -> Vec<i32> {
            (0..2 * pairs).map(|i| give(index, round, from, 0, i)).collect()
        };
        let reduced = |from: &[u32], pairs: u32| -> Vec<i32> {
            let mut all = vector_of(from[0], pairs);
            for &next in &from[1..] {
                let next = vector_of(next, pairs);
                for (all, next) in all.chunks_exact_mut(2).zip(next.chunks_exact(2)) {
                    let (left, right) = ([all[0], all[1]], [next[0], next[1]]);
                    let both = match self.ordered {
                        true => compose(left, right),
                        false => [left[0] + right[0], left[1] + right[1]],
                    };
                    all.copy_from_slice(&both);
                }
            }
            all
        };
        let bytes = 4 * u64::from(count);
        let vector = |pairs: u32| Vector { count: u64::from(pairs), element: 8, commutative: !self.ordered };
        let group = Group { rank: number, size };
        let in_place = false;
        let at_root = number == self.root;
        // On an intercommunicator: whether the root's data come here, whether it takes from here.
        let root_is_remote = givers.contains(&self.root);
        let root = match sides {
            _ if at_root => Root::Here,
            Some(sides) if root_is_remote => {
                Root::Remote(if sides.is_first { self.root - sides.local } else { self.root })
            }
            _ => Root::Elsewhere,
        };
        let intra = |call: Call<'_>| Some(plan(&call, group, model));
        let inter = |call: InterCall<'_>| Some(plan_inter(&call, sides.expect("two groups"), model));
        let is_inter = sides.is_some();
        let part = |schedule, send: Vec<i32>, room: usize, wanted| Part {
            schedule,
            send,
            recv: vec![-1; room],
            wanted,
        };
        let others: Vec<u32> = if is_inter { givers.clone() } else { (0..size).collect() };
        let everybodys = |to: u32| -> Vec<i32> { givers.iter().flat_map(|&from| to_one(from, to)).collect() };
        let to_all = || -> Vec<i32> { others.iter().flat_map(|&to| to_one(number, to)).collect() };
        match kind {
            Kind::Barrier if is_inter => part(inter(InterCall::Barrier), Vec::new(), 0, None),
            Kind::Barrier => part(intra(Call::Barrier), Vec::new(), 0, None),
            Kind::Bcast => {
                let data: Vec<i32> = to_one(self.root, 0).collect();
                let schedule = match is_inter {
                    true => inter(InterCall::Bcast { root, bytes }),
                    false => intra(Call::Bcast { root: self.root, bytes }),
                };
                let gets = !is_inter || root_is_remote;
                let before = if at_root { data.clone() } else { vec![-1; count as usize] };
                let wanted = if gets || at_root { data } else { before.clone() };
                Part { schedule, send: Vec::new(), recv: before, wanted: Some(wanted) }
            }
            Kind::Gather => {
                let schedule = match is_inter {
                    true => inter(InterCall::Gather { root, bytes }),
                    false => intra(Call::Gather { root: self.root, bytes, in_place }),
                };
                let wanted = at_root.then(|| everybodys(0));
                part(schedule, to_one(number, 0).collect(), others.len() * count as usize, wanted)
            }
            Kind::Scatter => {
                let schedule = match is_inter {
                    true => inter(InterCall::Scatter { root, bytes }),
                    false => intra(Call::Scatter { root: self.root, bytes, in_place }),
                };
                let gets = !is_inter || root_is_remote;
                let wanted = gets.then(|| to_one(self.root, number).collect());
                part(schedule, to_all(), count as usize, wanted)
            }
            Kind::Allgather => {
                let schedule = match is_inter {
                    true => inter(InterCall::Allgather { sent: bytes, received: bytes }),
                    false => intra(Call::Allgather { bytes, in_place }),
                };
                let room = others.len() * count as usize;
                part(schedule, to_one(number, 0).collect(), room, Some(everybodys(0)))
            }
            Kind::Alltoall => {
                let schedule = match is_inter {
                    true => inter(InterCall::Alltoall { sent: bytes, received: bytes }),
                    false => intra(Call::Alltoall { bytes, in_place }),
                };
                part(schedule, to_all(), others.len() * count as usize, Some(everybodys(number)))
            }
            Kind::Reduce => {
                let vector = vector(count);
                let schedule = match is_inter {
                    true => inter(InterCall::Reduce { root, vector }),
                    false => intra(Call::Reduce { root: self.root, vector, in_place }),
                };
                let wanted = at_root.then(|| reduced(&givers, count));
                part(schedule, vector_of(number, count), 2 * count as usize, wanted)
            }
            Kind::Allreduce => {
                let vector = vector(count);
                let schedule = match is_inter {
                    true => inter(InterCall::Allreduce { vector }),
                    false => intra(Call::Allreduce { vector, in_place }),
                };
                part(schedule, vector_of(number, count), 2 * count as usize, Some(reduced(&givers, count)))
            }
            Kind::ReduceScatter => {
                // The same total in both groups.
                let (own, pairs) = match sides {
                    Some(sides) => (sides.rank, count * sides.local * sides.remote),
                    None => (number, count * size),
                };
                let members = sides.map_or(size, |sides| sides.local);
                let each = pairs / members;
                let counts = vec![u64::from(each); members as usize];
                let vector = vector(pairs);
                let schedule = match is_inter {
                    true => inter(InterCall::ReduceScatter { counts: &counts, vector }),
                    false => intra(Call::ReduceScatter { counts: &counts, vector, in_place }),
                };
                let all = reduced(&givers, pairs);
                let wanted = all[(2 * own * each) as usize..(2 * (own + 1) * each) as usize].to_vec();
                part(schedule, vector_of(number, pairs), 2 * each as usize, Some(wanted))
            }
            Kind::Scan | Kind::Exscan => {
                let vector = vector(count);
                let (call, last) = match kind {
                    Kind::Scan => (Call::Scan { vector, in_place }, number + 1),
                    _ => (Call::Exscan { vector, in_place }, number),
                };
                let before: Vec<u32> = (0..last).collect();
                let wanted = (last > 0).then(|| reduced(&before, count));
                part(intra(call), vector_of(number, count), 2 * count as usize, wanted)
            }
            Kind::Message => {
                let data: Vec<i32> = to_one(self.root, self.to).collect();
                let wanted = (number == self.to).then(|| data.clone());
                part(None, data, count as usize, wanted)
            }
        }
    }
}

pub(crate) fn memory(ints: &[i32], of: &Datatype) -> Memory {
    let memory = Memory::scratch(of, ints.len() as u64 * 4 / of.element_bytes() as u64).unwrap();
    write(&memory, ints);
    memory
}
