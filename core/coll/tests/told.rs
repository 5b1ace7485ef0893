//! Calls inside a node that go the way a rule names, where that can be, or none that a rule forbids, against the definition; and what is told of them.

mod cells;

use cells::{
    Arguments, Member, Node, arguments_in_order, block_bytes, in_two_phases, noise, per_block, shapes,
};
use weft_coll::Group;
use weft_coll::rounds::{
    BlockingRun, Cores, NodeCall, Outcome, Room, Script, Shape, Standing, Told, Way, all_ways,
    goes_by_messages, rank_on_node,
};

const SLOT: usize = 8192;

/// What members with those seats have to write to; none of 0: each has a core of its own.
fn room(seats: &[u32], told: Told) -> Room {
    let (size, crowded) = (seats.len(), !seats.contains(&0));
    let in_two_phases = in_two_phases(SLOT, size);
    let block = if crowded && size > 2 { block_bytes(SLOT, size) } else { 0 };
    let cores = Cores::of(seats);
    let block_of_cores = if block > 0 { block_bytes(SLOT, cores.count().max(1) as usize) } else { 0 };
    Room { in_two_phases, block, block_of_cores, near: SLOT, cores, told, ..Room::alike(SLOT, crowded) }
}

/// One call at all members, in random order; whether somebody read another's memory.
fn run(seats: &[u32], (shape, bytes, in_place): (Shape, usize, bool), room: Room, seed: &mut u64) -> bool {
    let size = seats.len() as u32;
    let first = |seat: u32| seats.iter().position(|&other| other == seat);
    let in_order: Vec<usize> = (0..seats.len()).collect();
    let mut by_cores = in_order.clone();
    by_cores.sort_by_key(|&member| (first(seats[member]), member));
    let len = if per_block(shape) { bytes * seats.len() } else { bytes };
    let inputs: Vec<Vec<u8>> = (0..size).map(|_| (0..len).map(|_| noise(seed) as u8).collect()).collect();
    let mut node = Node::new(size, SLOT);
    (node.crowded, node.seats) = (room.crowded, seats.to_vec());
    let mut running: Vec<Option<(BlockingRun, Option<Vec<u8>>)>> = (0..size).map(|_| None).collect();
    let (mut done, mut idle) = (vec![false; seats.len()], 0);
    while done.contains(&false) {
        let me = (noise(seed) % u64::from(size)) as usize;
        if done[me] {
            continue;
        }
        let mut member = Member { node: &mut node, me: me as u32 };
        let (run, expected) = running[me].get_or_insert_with(|| {
            let of_root =
                matches!(shape, Shape::Gather { root } | Shape::Reduce { root } if root != me as u32);
            let in_place = in_place && !of_root;
            let script = Script::new(shape, Group { rank: me as u32, size }, bytes as u64, 8, in_place, room);
            assert!(script.fits(room.most(size)), "{shape:?} of {bytes} bytes");
            let order = if script.way() == Way::ByCores { &by_cores } else { &in_order };
            let (arguments, expected) = arguments_in_order(shape, me, &inputs, bytes, in_place, order);
            member.node.memories[me].arguments = arguments;
            (BlockingRun::begin(script, &mut member), expected)
        });
        let mut arguments: Arguments = std::mem::take(&mut member.node.memories[me].arguments);
        let outcome = run.step(&mut member, &mut arguments);
        let right = expected.as_ref().is_none_or(|expected| arguments.recv.starts_with(expected));
        member.node.memories[me].arguments = arguments;
        match outcome {
            Outcome::Done => {
                assert!(right, "{shape:?} of {bytes} bytes at {me} of {seats:?}, told {:?}", room.told);
                (done[me], idle) = (true, 0);
            }
            Outcome::Blocked => {
                idle += 1;
                assert!(
                    idle < 100_000,
                    "nobody goes on: {shape:?}, {bytes} bytes, {seats:?}, {:?}",
                    room.told
                );
            }
            outcome => panic!("{outcome:?}"),
        }
    }
    node.memories.iter().any(|memory| memory.read > 0)
}

fn call(shape: Shape, bytes: usize, in_place: bool, room: Room, members: usize) -> NodeCall {
    NodeCall {
        shape,
        members: members as u32,
        bytes: bytes as u64,
        element: 8,
        in_place,
        blocking: true,
        room,
    }
}

/// Members on cores of their own, sharing cores evenly, and unevenly.
fn nodes() -> Vec<Vec<u32>> {
    let mut nodes: Vec<Vec<u32>> = (2..=9).map(|size| vec![0; size]).collect();
    nodes.extend((2..=9).map(|size| (0..size).map(|member| 1 + member % 2).collect()));
    nodes.extend([
        vec![1, 1, 1, 2],
        vec![3, 3, 1, 2, 2, 1, 3],
        vec![1; 5],
        (0..16).map(|m| 1 + m / 4).collect(),
    ]);
    nodes
}

#[test]
fn every_way_that_can_be_is_gone_when_it_is_told_and_gives_what_the_definition_says() {
    let mut seed = 5;
    let mut gone = [0; 5];
    for seats in nodes() {
        for shape in (0..9).map(|shape| shapes(seats.len() as u32 - 1)[shape]) {
            for bytes in [0, 8, 64, 136, 4096, 20_000] {
                for entry in all_ways().iter().filter(|entry| entry.way != Way::Messages) {
                    for (in_place, piece) in [(false, None), (true, None), (false, Some(1000))] {
                        let room = room(&seats, Told::default().to_go(entry.way, piece));
                        if !entry.can(&call(shape, bytes, in_place, room, seats.len())) {
                            continue;
                        }
                        let bytes = if shape == Shape::Barrier { 0 } else { bytes };
                        let script = Script::new(
                            shape,
                            Group { rank: 0, size: seats.len() as u32 },
                            bytes as u64,
                            8,
                            in_place,
                            room,
                        );
                        let read = run(&seats, (shape, bytes, in_place), room, &mut seed);
                        let way = if read { Way::Reading } else { script.way() };
                        assert_eq!(way, entry.way, "{shape:?} of {bytes} bytes, {seats:?}");
                        gone[way as usize] += 1;
                    }
                }
            }
        }
    }
    assert!(gone.iter().all(|&calls| calls > 50), "{gone:?}");
}

#[test]
fn a_way_that_is_forbidden_is_not_gone() {
    let mut seed = 9;
    for seats in [vec![0; 4], vec![1, 1, 1, 2, 2, 2], vec![1, 2]] {
        for shape in (0..9).map(|shape| shapes(0)[shape]) {
            for bytes in [8, 40_000] {
                let taken = |told| {
                    let room = room(&seats, told);
                    let group = Group { rank: 0, size: seats.len() as u32 };
                    Script::new(shape, group, bytes as u64, 8, false, room).way()
                };
                let mut told = Told::default();
                for _ in 0..4 {
                    let way = taken(told);
                    told = told.not_to_go(way);
                    let call = call(shape, bytes, false, room(&seats, told), seats.len());
                    if goes_by_messages(&call) {
                        break;
                    }
                    assert_ne!(taken(told), way);
                    if shape != Shape::Barrier {
                        run(&seats, (shape, bytes, false), room(&seats, told), &mut seed);
                    }
                }
            }
        }
    }
}

#[test]
fn where_all_ways_are_forbidden_calls_go_by_messages() {
    let all = |told: Told, way: &weft_coll::rounds::NodeAlgorithm| told.not_to_go(way.way);
    let told = all_ways().iter().filter(|entry| entry.way != Way::Messages).fold(Told::default(), all);
    assert!(goes_by_messages(&call(Shape::Allreduce, 800, false, room(&[0, 0, 0], told), 3)));
    let but_cells = Told::default().not_to_go(Way::TwoPhases).not_to_go(Way::Reading);
    assert!(!goes_by_messages(&call(Shape::Allreduce, 100_000, false, room(&[0, 0, 0], but_cells), 3)));
    let bcast =
        |told| goes_by_messages(&call(Shape::Bcast { root: 0 }, 100_000, false, room(&[0, 0], told), 2));
    assert!(bcast(Told::default()), "a broadcast to one other is sooner so");
    assert!(!bcast(Told::default().not_to_go(Way::Messages)));
    assert!(!bcast(Told::default().to_go(Way::Flat, None)));
}

#[test]
fn the_ranking_says_what_becomes_of_each_way() {
    let seats: Vec<u32> = (0..8).map(|member| 1 + member / 4).collect();
    let standings = |bytes, told| -> Vec<(Way, Standing)> {
        let ranked = rank_on_node(&call(Shape::Allreduce, bytes, false, room(&seats, told), 8));
        ranked.iter().map(|ranked| (ranked.algorithm.way, ranked.standing)).collect()
    };
    let usual = standings(64 << 10, Told::default());
    assert_eq!(usual[0], (Way::ByCores, Standing::Taken), "{usual:?}");
    assert!(usual.contains(&(Way::Reading, Standing::DoesNotPay)), "{usual:?}");
    assert!(usual.contains(&(Way::Exchanged, Standing::Slower)), "{usual:?}");
    let barred = standings(64 << 10, Told::default().not_to_go(Way::ByCores));
    assert_eq!(barred[0], (Way::Exchanged, Standing::Taken), "{barred:?}");
    assert!(barred.contains(&(Way::ByCores, Standing::Barred)), "{barred:?}");
    assert_eq!(
        standings(64 << 10, Told::default().to_go(Way::Reading, None))[0],
        (Way::Reading, Standing::Taken)
    );
    assert_eq!(standings(8, Told::default())[0], (Way::Flat, Standing::Taken));
    assert!(standings(8, Told::default()).contains(&(Way::ByCores, Standing::Cannot)));
}
