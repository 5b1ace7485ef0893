//! Whole operations between simulated ranks: any cuts, any order of marking, any delay.

use super::*;
use crate::partitioned::{Counterpart, Partitions, ReceiveSide, SendSide};
use std::cell::RefCell;
use weft_datatype::Memory;
use weft_engine::world::World;
use weft_engine::{Envelope, SendMode, Started};
use weft_types::{PeerId, Tag};

const EPOCHS: u8 = 3;

fn bytes_of(epoch: u8, at: u64) -> u8 {
    (at as u8).wrapping_mul(7).wrapping_add(epoch.wrapping_mul(31))
}

fn set(memory: &Memory, range: std::ops::Range<u64>, value: impl Fn(u64) -> u8) {
    let data: Vec<u8> = range.clone().map(value).collect();
    memory.recv_view(0, range.start, range.end - range.start).unpack(0, &data);
}

fn read(memory: &Memory, bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    memory.send_view(0, 0, bytes).pack(0, &mut data);
    data
}

fn counterpart(peer: u32) -> Counterpart {
    Counterpart { peer: PeerId(peer), context: ContextId::WORLD, source: Rank(0), tag: Tag(4) }
}

/// Sends three epochs from rank 0 to `receiver` with the given cuts, marking in a random order.
fn transfer(seed: u64, receiver: u32, sends: u32, receives: u32, part: u64) {
    let mut world = World::new(receiver + 1).seed(seed).full(0.2).build();
    let total = u64::from(sends) * u64::from(receives) * part;
    let cut = |number: u32| Partitions {
        memory: Memory::packed_scratch(total as usize),
        number,
        bytes: total / u64::from(number),
    };
    let (from, into) = (cut(sends), cut(receives));
    let mut requests: Vec<Requests> = (0..=receiver).map(|_| Requests::default()).collect();
    let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
    let mut orders: Vec<Vec<i32>> = Vec::new();
    for _ in 0..EPOCHS {
        let mut order: Vec<i32> = (0..sends as i32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, world.random.below(last as u64 + 1) as usize);
        }
        orders.push(order);
    }
    let engine = &mut world.engines[0];
    let send = requests[0]
        .partitioned_send(engine, SendSide::new(from.clone(), Some(counterpart(receiver)), comm))
        .expect("room");
    let engine = &mut world.engines[receiver as usize];
    let receive = requests[receiver as usize]
        .partitioned_receive(engine, ReceiveSide::new(into.clone(), Some(counterpart(0)), comm))
        .expect("room");
    let requests = RefCell::new(requests);
    let (mut sender, mut getter) = (Side::new(), Side::new());
    world.run(400_000, |rank, engine| {
        let requests = &mut requests.borrow_mut()[rank as usize];
        requests.progress(engine);
        if rank == 0 {
            step_sender(&mut sender, requests, engine, send, &from, &orders);
        }
        if rank == receiver {
            step_receiver(&mut getter, requests, engine, receive, &into, seed);
        }
        (rank != 0 || sender.epoch == EPOCHS) && (rank != receiver || getter.epoch == EPOCHS)
    });
}

/// How far the program of one side is.
struct Side {
    epoch: u8,
    started: bool,
    marked: usize,
}

impl Side {
    fn new() -> Side {
        Side { epoch: 0, started: false, marked: 0 }
    }
}

fn step_sender(
    side: &mut Side,
    requests: &mut Requests,
    engine: &mut Engine,
    send: Handle,
    from: &Partitions,
    orders: &[Vec<i32>],
) {
    if side.epoch == EPOCHS {
        return;
    }
    let order = &orders[side.epoch as usize];
    if !side.started {
        requests.start_partitioned(engine, send).expect("partitioned").expect("inactive");
        (side.started, side.marked) = (true, 0);
    } else if let Some(&partition) = order.get(side.marked) {
        let epoch = side.epoch;
        let start = partition as u64 * from.bytes;
        set(&from.memory, start..start + from.bytes, |at| bytes_of(epoch, at));
        requests.ready(engine, send, std::iter::once(partition)).expect("not marked before");
        side.marked += 1;
    } else if requests.is_done(engine, send) {
        assert_eq!(requests.finish(engine, send).error, None);
        (side.epoch, side.started) = (side.epoch + 1, false);
        // Whatever is still under way must not come from here any more.
        set(&from.memory, 0..from.total(), |_| 0xdd);
    }
}

fn step_receiver(
    side: &mut Side,
    requests: &mut Requests,
    engine: &mut Engine,
    receive: Handle,
    into: &Partitions,
    seed: u64,
) {
    if side.epoch == EPOCHS {
        return;
    }
    let epoch = side.epoch;
    if !side.started {
        requests.start_partitioned(engine, receive).expect("partitioned").expect("inactive");
        side.started = true;
        return;
    }
    for partition in 0..into.number {
        if requests.arrived(engine, receive, partition as i32).expect("in range") {
            let start = u64::from(partition) * into.bytes;
            let all = read(&into.memory, into.total());
            let here = &all[start as usize..(start + into.bytes) as usize];
            assert!(here.iter().zip(start..).all(|(&byte, at)| byte == bytes_of(epoch, at)), "seed {seed}");
        }
    }
    if requests.is_done(engine, receive) {
        let done = requests.finish(engine, receive);
        assert_eq!((done.error, done.status.bytes), (None, into.total()));
        (side.epoch, side.started) = (epoch + 1, false);
        set(&into.memory, 0..into.total(), |_| 0xee);
    }
}

#[test]
fn any_cut_and_order_arrives_whole_and_never_early() {
    let cuts = [
        (1, 1, 10),
        (1, 7, 1),
        (7, 1, 1),
        (6, 4, 100),
        (4, 6, 3000),
        (64, 3, 1),
        (3, 5, 40_000),
        (65, 2, 3),
        (100, 7, 60),
    ];
    for (index, (sends, receives, part)) in cuts.into_iter().enumerate() {
        for seed in 0..6 {
            transfer(seed * 100 + index as u64, 1, sends, receives, part);
        }
    }
}

#[test]
fn a_process_may_send_to_itself() {
    for seed in 0..4 {
        transfer(seed, 0, 5, 3, 20_000);
    }
}

/// A thread without the lock marks on a board; who holds the process sends for it as long as the thread has the board and once
/// after it has let go, and then looks there no more. With the next board it is as before.
#[test]
fn marks_on_a_board_that_was_let_go_are_sent_and_nobody_looks_there_again() {
    let mut world = World::new(2).build();
    let mut requests = [Requests::default(), Requests::default()];
    let cut = || Partitions { memory: Memory::packed_scratch(40), number: 4, bytes: 10 };
    let (from, into) = (cut(), cut());
    let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
    let side = SendSide::new(from.clone(), Some(counterpart(1)), comm);
    let send = requests[0].partitioned_send(&mut world.engines[0], side).expect("room");
    let side = ReceiveSide::new(into.clone(), Some(counterpart(0)), comm);
    let receive = requests[1].partitioned_receive(&mut world.engines[1], side).expect("room");
    for epoch in 0..3 {
        set(&from.memory, 0..40, |at| bytes_of(epoch, at));
        for (rank, request) in [(0, send), (1, receive)] {
            let started = requests[rank].start_partitioned(&mut world.engines[rank], request);
            started.expect("partitioned").expect("inactive");
        }
        assert!(!requests[0].is_marked_by_others());
        let board = requests[0].board(send, true).expect("a send");
        assert!(board.mark([3, 0].into_iter()));
        requests[0].serve_marks(&mut world.engines[0]);
        assert!(requests[0].is_marked_by_others(), "a thread has the board");
        assert!(board.mark(std::iter::once(2)) && !board.mark(std::iter::once(3)));
        drop(board);
        requests[0].serve_marks(&mut world.engines[0]);
        assert!(!requests[0].is_marked_by_others(), "nobody has it any more");
        requests[0].ready(&mut world.engines[0], send, std::iter::once(1)).expect("not marked before");
        while !requests[0].is_done(&world.engines[0], send)
            || !requests[1].is_done(&world.engines[1], receive)
        {
            world.settle();
            for (requests, engine) in requests.iter_mut().zip(&mut world.engines) {
                requests.progress(engine);
            }
        }
        assert_eq!(requests[0].finish(&mut world.engines[0], send).error, None);
        assert_eq!(requests[1].finish(&mut world.engines[1], receive).error, None);
        assert!((0..).zip(read(&into.memory, 40)).all(|(at, byte)| byte == bytes_of(epoch, at)));
    }
}

#[test]
fn an_inactive_receive_is_never_written_to() {
    let mut world = World::new(2).build();
    let mut requests = [Requests::default(), Requests::default()];
    let cut = || Partitions { memory: Memory::packed_scratch(100), number: 2, bytes: 50 };
    let (from, into) = (cut(), cut());
    let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
    let send = requests[0]
        .partitioned_send(&mut world.engines[0], SendSide::new(from.clone(), Some(counterpart(1)), comm))
        .expect("room");
    let receive = requests[1]
        .partitioned_receive(
            &mut world.engines[1],
            ReceiveSide::new(into.clone(), Some(counterpart(0)), comm),
        )
        .expect("room");
    set(&from.memory, 0..100, |_| 5);
    requests[0].start_partitioned(&mut world.engines[0], send).expect("partitioned").expect("inactive");
    requests[0].ready(&mut world.engines[0], send, 0..2).expect("once");
    let settle = |requests: &mut [Requests; 2], world: &mut World| {
        for _ in 0..20 {
            world.settle();
            for (requests, engine) in requests.iter_mut().zip(&mut world.engines) {
                requests.progress(engine);
            }
        }
    };
    settle(&mut requests, &mut world);
    assert_eq!(read(&into.memory, 100), [0; 100]);
    assert!(!requests[0].is_done(&world.engines[0], send), "nothing was granted");
    requests[1].start_partitioned(&mut world.engines[1], receive).expect("partitioned").expect("inactive");
    settle(&mut requests, &mut world);
    assert_eq!(read(&into.memory, 100), [5; 100]);
    assert!(requests[0].is_done(&world.engines[0], send) && requests[1].is_done(&world.engines[1], receive));
}

/// Whoever waits for the other side of a partitioned operation when that dies, or starts to wait afterwards, ends with
/// `MPI_ERR_PROC_ABORTED`: before the two have met, before the grant, and in the middle of the data.
#[test]
fn partitioned_requests_end_when_the_other_side_dies() {
    for seed in 0..200 {
        let mut world = World::new(2).seed(seed).full(0.2).build();
        let cut = Partitions { memory: Memory::packed_scratch(40_000), number: 8, bytes: 5000 };
        let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
        let mut requests = [Requests::default(), Requests::default()];
        let mut handles = [Handle(0); 2];
        let victim = (seed % 2) as usize;
        // The victim's program stops after some steps; the survivor's goes on to the end of its epoch.
        let steps = world.random.below(8);
        for (rank, handle) in handles.iter_mut().enumerate() {
            if rank == victim && steps == 0 {
                continue;
            }
            let engine = &mut world.engines[rank];
            *handle = if rank == 0 {
                let side = SendSide::new(cut.clone(), Some(counterpart(1)), comm);
                requests[0].partitioned_send(engine, side).expect("alive")
            } else {
                let side = ReceiveSide::new(cut.clone(), Some(counterpart(0)), comm);
                requests[1].partitioned_receive(engine, side).expect("alive")
            };
        }
        let act = |requests: &mut Requests, engine: &mut Engine, handle: Handle, rank: usize, step: u64| {
            if step == 1 {
                requests.start_partitioned(engine, handle).expect("partitioned").expect("inactive");
            } else if rank == 0 && (2..10).contains(&step) {
                // The peer may be gone by now, which this call may say.
                let _ = requests.ready(engine, handle, std::iter::once(step as i32 - 2));
            }
        };
        let pause = world.random.below(60);
        for step in 1..steps {
            act(&mut requests[victim], &mut world.engines[victim], handles[victim], victim, step);
            for _ in 0..pause {
                world.step();
                for (requests, engine) in requests.iter_mut().zip(&mut world.engines) {
                    requests.progress(engine);
                }
            }
        }
        let survivor = 1 - victim;
        let early = world.random.chance(0.5);
        if early {
            act(&mut requests[survivor], &mut world.engines[survivor], handles[survivor], survivor, 1);
        }
        world.kill(victim as u32);
        for step in u64::from(early) + 1..10 {
            world.step();
            act(&mut requests[survivor], &mut world.engines[survivor], handles[survivor], survivor, step);
        }
        world.settle();
        let (requests, engine) = (&mut requests[survivor], &mut world.engines[survivor]);
        for _ in 0..4 {
            requests.progress(engine);
        }
        assert!(
            requests.is_done(engine, handles[survivor]),
            "seed {seed}: rank {survivor} waits for the dead"
        );
        let error = requests.finish(engine, handles[survivor]).error.map(|error| error.class());
        assert!(error.is_none() || error == Some(ErrorClass::PROC_ABORTED), "seed {seed}");
        assert!(survivor == 0 || error.is_some(), "seed {seed}: not all partitions were ever marked");
    }
}

/// The same where the other side says farewell at any moment and does nothing more; in each of the ways that data takes.
#[test]
fn partitioned_requests_end_when_the_other_side_says_farewell() {
    let mut failed = [0; 2];
    for seed in 0..300 {
        let copies = seed % 4 < 2;
        let mut world = World::new(2).seed(seed).full(0.2).fabric(|sim| sim.single_copy = copies).build();
        let (number, bytes) = [(8, 5000), (8, 200_000), (100, 5000)][(seed % 3) as usize];
        let cut = Partitions {
            memory: Memory::packed_scratch(number * bytes),
            number: number as u32,
            bytes: bytes as u64,
        };
        let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
        let mut requests = [Requests::default(), Requests::default()];
        let [first, second] = &mut world.engines[..] else { unreachable!("two ranks") };
        let to = SendSide::new(cut.clone(), Some(counterpart(1)), comm);
        let from = ReceiveSide::new(cut.clone(), Some(counterpart(0)), comm);
        let handles = [
            requests[0].partitioned_send(first, to).expect("room"),
            requests[1].partitioned_receive(second, from).expect("room"),
        ];
        let leaver = (seed % 2) as usize;
        let stays = 1 - leaver;
        // Each begins at its time; the sender marks its partitions one by one, and some of them never if it is to leave.
        let begins = [world.random.below(60), world.random.below(60)];
        let leaves = world.random.below(250);
        let marks = if leaver == 0 { number - 1 } else { number } as u64;
        let pace = 1 + world.random.below(3);
        for step in 0..600 {
            if step == leaves {
                let engine = &mut world.engines[leaver];
                for _ in 0..200 {
                    engine.push_last_words(std::time::Duration::ZERO);
                }
                let farewell = weft_types::Farewell { life: 0, world: true };
                engine.farewell(farewell);
                // Also who was never met hears of it.
                engine.part(farewell);
            }
            for rank in [0, 1] {
                let (requests, engine, handle) =
                    (&mut requests[rank], &mut world.engines[rank], handles[rank]);
                let has_left = rank == leaver && step >= leaves;
                if !has_left && step == begins[rank] {
                    requests.start_partitioned(engine, handle).expect("partitioned").expect("inactive");
                }
                let at = step.wrapping_sub(begins[rank] + 1);
                if !has_left && rank == 0 && step > begins[0] && at % pace == 0 && at / pace < marks {
                    // The peer may have left by now, which this call may say.
                    let _ = requests.ready(engine, handle, std::iter::once((at / pace) as i32));
                }
                if !has_left {
                    requests.progress(engine);
                } else if step < leaves + 300 {
                    engine.push_last_words(std::time::Duration::ZERO);
                }
                if !has_left {
                    engine.progress();
                }
            }
        }
        world.settle();
        let (requests, engine) = (&mut requests[stays], &mut world.engines[stays]);
        for _ in 0..4 {
            requests.progress(engine);
        }
        assert!(requests.is_done(engine, handles[stays]), "seed {seed}: rank {stays} waits for who has left");
        let error = requests.finish(engine, handles[stays]).error.map(|error| error.class());
        assert!(error.is_none() || error == Some(ErrorClass::PROC_ABORTED), "seed {seed}: {error:?}");
        assert!(stays == 0 || error.is_some(), "seed {seed}: not all partitions were ever marked");
        failed[stays] += u32::from(error.is_some());
        assert!(!engine.is_lost(PeerId(leaver as u32)), "seed {seed}: who has left is taken for gone");
    }
    assert!(failed.iter().all(|&failed| failed > 20), "{failed:?}");
}

/// A sender and a receiver of 64 short partitions, so many that three starts are more than the budget of a sender.
struct Pair {
    world: World,
    requests: [Requests; 2],
    handles: [Handle; 2],
    from: Partitions,
    into: Partitions,
}

impl Pair {
    fn new() -> Pair {
        let mut world = World::new(2).build();
        let mut requests = [Requests::default(), Requests::default()];
        let cut = || Partitions { memory: Memory::packed_scratch(64 << 13), number: 64, bytes: 1 << 13 };
        let (from, into) = (cut(), cut());
        let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
        let sender = SendSide::new(from.clone(), Some(counterpart(1)), comm);
        let receiver = ReceiveSide::new(into.clone(), Some(counterpart(0)), comm);
        let handles = [
            requests[0].partitioned_send(&mut world.engines[0], sender).expect("room"),
            requests[1].partitioned_receive(&mut world.engines[1], receiver).expect("room"),
        ];
        Pair { world, requests, handles, from, into }
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.world.settle();
            for (requests, engine) in self.requests.iter_mut().zip(&mut self.world.engines) {
                requests.progress(engine);
            }
        }
    }

    fn start(&mut self, rank: usize) {
        let (requests, engine) = (&mut self.requests[rank], &mut self.world.engines[rank]);
        requests.start_partitioned(engine, self.handles[rank]).expect("partitioned").expect("inactive");
    }

    fn send(&mut self, epoch: u8) {
        self.start(0);
        set(&self.from.memory, 0..64 << 13, |at| bytes_of(epoch, at));
        self.requests[0].ready(&mut self.world.engines[0], self.handles[0], 0..64).expect("once");
        self.settle();
    }

    fn is_done(&self, rank: usize) -> bool {
        self.requests[rank].is_done(&self.world.engines[rank], self.handles[rank])
    }

    fn finish(&mut self, rank: usize) {
        assert!(self.is_done(rank), "rank {rank} is not done");
        assert_eq!(self.requests[rank].finish(&mut self.world.engines[rank], self.handles[rank]).error, None);
    }

    /// Has the receiver take the first epoch; then the sender sends until what it sends can no longer leave as parts.
    fn exhaust(&mut self) -> u8 {
        self.start(1);
        self.send(0);
        self.finish(0);
        self.finish(1);
        for epoch in 1..10 {
            self.send(epoch);
            if self.world.engines[1].levels().unexpected > 0 {
                return epoch;
            }
            self.finish(0);
        }
        panic!("a budget of 1 MiB holds 5 MiB");
    }
}

#[test]
fn parts_beyond_the_budget_come_as_messages_and_belong_to_their_start() {
    let mut pair = Pair::new();
    let last = pair.exhaust();
    for epoch in 1..=last {
        pair.start(1);
        pair.settle();
        pair.finish(1);
        assert!((0..).zip(read(&pair.into.memory, 64 << 13)).all(|(at, byte)| byte == bytes_of(epoch, at)));
    }
    pair.finish(0);
}

#[test]
fn what_a_freed_receive_does_not_take_is_dropped_and_its_sender_goes_on() {
    let mut pair = Pair::new();
    pair.exhaust();
    let (requests, engine) = (&mut pair.requests[1], &mut pair.world.engines[1]);
    requests.free_partitioned(engine, pair.handles[1]).expect("partitioned").expect("inactive");
    pair.settle();
    assert_eq!(pair.world.engines[1].levels().unexpected, 0);
    pair.finish(0);
    pair.send(1);
    pair.finish(0);
}

/// A sender whose introduction is none: the receive ends with an error, whatever the number of bytes that it agrees on.
#[test]
fn an_introduction_that_is_none_ends_the_receive() {
    let partitions = |number: u32| Partitions {
        memory: Memory::packed_scratch(40),
        number,
        bytes: 40 / u64::from(number),
    };
    let introduction =
        |partitions: u32| terms::Introduction { sender: Handle(1), partitions, total: 40 }.emit();
    for nonsense in [&introduction(0)[..], &introduction(3), &introduction(4)[..15], &[]] {
        let mut world = World::new(2).build();
        let mut requests = Requests::default();
        let comm = Handle(weft_types::abi::MPI_COMM_WORLD);
        let from = counterpart(1);
        let side = ReceiveSide::new(partitions(4), Some(from), comm);
        let receive = requests.partitioned_receive(&mut world.engines[0], side).expect("room");
        let started = requests.start_partitioned(&mut world.engines[0], receive);
        started.expect("partitioned").expect("inactive");
        let envelope = Envelope {
            peer: PeerId(0),
            context: from.context.partitioned(),
            source: from.source,
            tag: from.tag,
        };
        let copy = Scratch::new(nonsense.len());
        copy.recv_buf(0, nonsense.len()).unpack(0, nonsense);
        let data = copy.send_buf(0, nonsense.len());
        if let Started::Pending(request) =
            world.engines[1].send(envelope, SendMode::Standard, data).expect("alive")
        {
            world.engines[1].release(request);
        }
        for _ in 0..4 {
            world.settle();
            requests.progress(&mut world.engines[0]);
        }
        assert!(requests.is_done(&world.engines[0], receive), "it would wait for ever: {nonsense:?}");
        let error = requests.finish(&mut world.engines[0], receive).error.expect("no partitions came");
        assert_eq!(error.class(), ErrorClass::INTERN);
    }
}
