//! Collectives by rounds over real shared memory, one thread for each member: random sequences of calls, with waiting that really
//! sleeps, and communicators that come and go in one pool.

mod node;

use std::sync::mpsc;
use weft_coll::rounds::{Outcome, Readers, Shape};
use weft_datatype::{Datatype, Kernel, Memory, PredefinedOp};
use weft_engine::{Arguments, BlockingRoundsCall, Engine, Rounds, Waiter, needs_slots};
use weft_sim::Random;
use weft_types::{ErrorClass, PeerId, abi};

/// Member 0 takes memory and tells the others.
fn agree(engine: &mut Engine, me: u32, ranks: u32, slots: bool, post: &Post) -> u64 {
    if me > 0 {
        return post.1.recv().expect("told");
    }
    let block = engine.take_block(ranks, slots);
    assert_ne!(block, 0, "the pool is used up");
    post.0.iter().for_each(|to| to.send(block).expect("heard"));
    block
}

/// To the others at member 0, from there at the others.
type Post = (Vec<mpsc::Sender<u64>>, mpsc::Receiver<u64>);

fn finish(engine: &mut Engine, rounds: &mut Rounds, call: &mut BlockingRoundsCall, oversubscribed: bool) {
    let bell = engine.bell();
    let mut waiter = Waiter::new(oversubscribed, 2000);
    loop {
        match call.step(rounds) {
            Outcome::Done => return waiter.finish(&bell),
            // Nobody, when they came after the step.
            Outcome::Blocked => assert_eq!(call.missing(rounds) & !rounds.cells_here().others(), 0),
            Outcome::Strayed(other) => panic!("{other} strayed"),
            Outcome::Unread(other) => panic!("{other} cannot be read any more"),
        }
        waiter.pause(&bell);
    }
}

fn memory(values: &[u64]) -> Memory {
    let word = Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"));
    let memory = Memory::scratch(&word, values.len().max(1) as u64).expect("memory");
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    memory.recv_view(0, 0, bytes.len() as u64).unpack(0, &bytes);
    memory
}

fn values(memory: &Memory, count: usize) -> Vec<u64> {
    let mut bytes = vec![0; count * 8];
    memory.send_view(0, 0, bytes.len() as u64).pack(0, &mut bytes);
    bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight"))).collect()
}

fn kernel() -> Kernel {
    let word = Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"));
    PredefinedOp::Sum.kernel(&word).expect("defined")
}

fn value(call: u64, member: u32, at: usize) -> u64 {
    call.wrapping_mul(1_000_003) ^ u64::from(member) << 32 ^ at as u64
}

/// Words of the longest calls: many laps of every ring.
const LONGEST: u64 = 150_000;

fn member(me: u32, ranks: u32, oversubscribed: bool, seed: u64, mut engine: Engine, post: Post) {
    let peers: Vec<PeerId> = (0..ranks).map(PeerId).collect();
    let (size, sum) = (ranks as usize, kernel());
    let mut random = Random::new(seed);
    for communicator in 0..3 {
        let block = agree(&mut engine, me, ranks, false, &post);
        let mut rounds = engine.join_rounds(block, me, &peers).expect("joined");
        // Several of one core, and one or two of others, as all know before there are slots.
        rounds.cells_here().say_seat(u32::from(me == 1) + 1);
        let barrier = (Shape::Barrier, 0, 1);
        let arguments = Arguments::new(Memory::none(), Memory::none());
        let mut call = BlockingRoundsCall::new(&mut rounds, barrier, arguments, None, false).expect("fits");
        finish(&mut engine, &mut rounds, &mut call, oversubscribed);
        for number in 0..120_u64 {
            let (kind, root) = (random.below(9), random.below(u64::from(ranks)) as u32);
            let most = match random.below(40) {
                0 => LONGEST,
                length => [3, 40, 700, 9000][length as usize % 4],
            };
            // These have a block for each member.
            let most = if kind > 4 { most / u64::from(ranks) + 2 } else { most };
            let count = random.below(most) as usize;
            let (shape, bytes) = match kind {
                0 => (Shape::Barrier, 0),
                1 => (Shape::Bcast { root }, count as u64 * 8),
                2 => (Shape::Allreduce, count as u64 * 8),
                3 => (Shape::Allgather, count as u64 * 8),
                4 => (Shape::Reduce { root }, count as u64 * 8),
                5 => (Shape::Scatter { root }, count as u64 * 8),
                6 => (Shape::Gather { root }, count as u64 * 8),
                7 => (Shape::Alltoall, count as u64 * 8),
                _ => (Shape::ReduceScatter, count as u64 * 8),
            };
            if needs_slots(shape, ranks, bytes, 8).expect("fits") && !rounds.cells_here().has_slots() {
                let block = agree(&mut engine, me, ranks, true, &post);
                engine.add_slots(block, &mut rounds).expect("added");
            }
            // What a member contributes, in all and for one member.
            let given = match shape {
                Shape::Scatter { .. } | Shape::Alltoall | Shape::ReduceScatter => count * size,
                _ => count,
            };
            let of = |member: u32| (0..given).map(|at| value(number, member, at)).collect::<Vec<u64>>();
            let block = |member: u32, to: u32| of(member)[to as usize * count..][..count].to_vec();
            let (mine, room) = (memory(&of(me)), memory(&vec![0; count * size]));
            let arguments = match shape {
                Shape::Bcast { .. } => Arguments::new(Memory::none(), if me == root { mine } else { room }),
                _ => Arguments::new(mine, room),
            };
            let result = arguments.recv.clone();
            let mut call =
                BlockingRoundsCall::new(&mut rounds, (shape, bytes, 8), arguments, Some(sum), false)
                    .expect("fits");
            finish(&mut engine, &mut rounds, &mut call, oversubscribed);
            let summed = || {
                (0..given)
                    .map(|at| (0..ranks).map(|member| value(number, member, at)).fold(0, u64::wrapping_add))
            };
            let what = format!(
                "{shape:?} of {count} words, call {number} of communicator {communicator}, seed {seed}"
            );
            match shape {
                Shape::Bcast { root } => assert!(values(&result, count) == of(root), "{what}"),
                Shape::Allreduce => assert!(values(&result, count) == summed().collect::<Vec<_>>(), "{what}"),
                Shape::Reduce { root } if root == me => {
                    assert!(values(&result, count) == summed().collect::<Vec<_>>(), "{what}");
                }
                Shape::Scatter { root } => assert!(values(&result, count) == block(root, me), "{what}"),
                Shape::Alltoall => {
                    let all: Vec<u64> = (0..ranks).flat_map(|from| block(from, me)).collect();
                    assert!(values(&result, count * size) == all, "{what}");
                }
                Shape::ReduceScatter => {
                    let all: Vec<u64> = summed().collect();
                    assert!(values(&result, count) == all[me as usize * count..][..count], "{what}");
                }
                Shape::Gather { root } if root != me => {}
                Shape::Allgather | Shape::Gather { .. } => {
                    let all: Vec<u64> = (0..ranks).flat_map(of).collect();
                    assert!(values(&result, count * size) == all, "{what}");
                }
                _ => {}
            }
        }
    }
}

/// As many of the same long call as it takes to try both ways and to take one of them, with contributions that change.
fn long_calls(me: u32, ranks: u32, read: bool, mut engine: Engine, post: Post) {
    let peers: Vec<PeerId> = (0..ranks).map(PeerId).collect();
    let block = agree(&mut engine, me, ranks, false, &post);
    let mut rounds = engine.join_rounds(block, me, &peers).expect("joined");
    assert_eq!(rounds.can_read(), read);
    let block = agree(&mut engine, me, ranks, true, &post);
    engine.add_slots(block, &mut rounds).expect("added");
    let (size, count) = (ranks as usize, 10_000);
    for call in 0..60_u64 {
        let given = |member: u32| (0..count * size).map(|at| value(call, member, at)).collect::<Vec<u64>>();
        let in_place = call % 8 >= 4;
        let (mine, room) = (memory(&given(me)), memory(&vec![0; count * size]));
        let shape =
            [Shape::Alltoall, Shape::Allreduce, Shape::ReduceScatter, Shape::Allgather][call as usize % 4];
        let in_place = in_place && matches!(shape, Shape::Allreduce | Shape::ReduceScatter);
        let arguments = Arguments::new(mine.clone(), if in_place { mine } else { room });
        let result = arguments.recv.clone();
        let what = (shape, count as u64 * 8, 8);
        let mut under_way =
            BlockingRoundsCall::new(&mut rounds, what, arguments, Some(kernel()), in_place).expect("fits");
        finish(&mut engine, &mut rounds, &mut under_way, false);
        let all: Vec<Vec<u64>> = (0..ranks).map(given).collect();
        let summed: Vec<u64> =
            (0..count * size).map(|at| all.iter().map(|of| of[at]).fold(0, u64::wrapping_add)).collect();
        let begin = me as usize * count;
        let expected: Vec<u64> = match shape {
            Shape::Alltoall => all.iter().flat_map(|of| of[begin..begin + count].to_vec()).collect(),
            Shape::Allgather => all.iter().flat_map(|of| of[..count].to_vec()).collect(),
            Shape::Allreduce => summed[..count].to_vec(),
            _ => summed[begin..begin + count].to_vec(),
        };
        assert!(values(&result, expected.len()) == expected, "{shape:?}, call {call}, in place: {in_place}");
    }
}

#[test]
fn long_calls_go_either_way_of_members_that_can_read_one_another_and_of_others() {
    for (ranks, read) in [(2, true), (3, true), (4, true), (3, false)] {
        on_threads(node::engines_that(read, ranks, false), |me, engine, post| {
            long_calls(me, ranks, read, engine, post)
        });
    }
}

fn run(ranks: u32, oversubscribed: bool) {
    let seed = u64::from(ranks) * 77;
    on_threads(node::engines(ranks, oversubscribed), |me, engine, post| {
        member(me, ranks, oversubscribed, seed, engine, post);
    });
}

/// Runs a member on each engine, with the way to tell one another of memory.
fn on_threads(engines: Vec<Engine>, member: impl Fn(u32, Engine, Post) + Sync) {
    let (senders, receivers): (Vec<_>, Vec<_>) = engines.iter().map(|_| mpsc::channel()).unzip();
    let mut posts: Vec<Post> = receivers.into_iter().map(|receiver| (Vec::new(), receiver)).collect();
    posts[0].0 = senders[1..].to_vec();
    std::thread::scope(|scope| {
        for ((me, engine), post) in (0..).zip(engines).zip(posts) {
            let member = &member;
            scope.spawn(move || member(me, engine, post));
        }
    });
}

#[test]
fn members_with_cores_of_their_own() {
    run(2, false);
}

#[test]
fn members_that_sleep_at_once() {
    for ranks in [2, 3, 5, 8, 20] {
        run(ranks, true);
    }
}

#[test]
fn who_cannot_read_another_any_more_says_so_and_all_leave_for_that() {
    let mut engines = node::engines_that(true, 3, false);
    let peers: Vec<PeerId> = (0..3).map(PeerId).collect();
    let block = engines[0].take_block(3, false);
    let mut all: Vec<Rounds> = (0..)
        .zip(&mut engines)
        .map(|(me, engine)| engine.join_rounds(block, me, &peers).expect("joined"))
        .collect();
    let error = all[1].leave_unread(2);
    assert_eq!(error.class(), ErrorClass::ACCESS);
    assert!(error.to_string().contains("rank 1 cannot read the memory of rank 2"), "{error}");
    let heard = all[0].leave_too();
    assert_eq!((heard.class(), heard.to_string()), (error.class(), error.to_string()));
}
