//! Every shape of `weft_coll::rounds` with all members in one thread, in random order, against the definition.

mod cells;

use cells::{
    Arguments, Member, Node, Plan, arguments_in_order, block_bytes, in_two_phases, noise, per_block, shapes,
};
use proptest::prelude::*;
use weft_coll::Group;
use weft_coll::rounds::{
    BlockingRun, Cores, Outcome, Room, Run, Script, Shape, is_one_round, is_sooner_by_messages,
};

/// A member's call under way, its arguments and its result.
type Running = (BlockingRun, Arguments, Option<Vec<u8>>);

/// Several calls one after the other; members go on in random order, each as soon as it is done. The seed says also whether they share cores (odd)
/// and have blocks to exchange (no multiple of 3). Answers how many contributions were exchanged.
fn run_all(size: u32, slot: usize, calls: &[(usize, u32, usize, u64, bool)], seed: u64) -> usize {
    run_on(&vec![0; size as usize], true, slot, calls, seed).exchanged
}

/// What calls did.
struct Done {
    /// Contributions that were exchanged.
    exchanged: usize,
    /// Calls of members that went core by core.
    by_cores: usize,
    /// Bytes of exchanged blocks that went from core to core.
    crossed: u64,
}

/// The same of members with those seats; `known`: as they know.
fn run_on(
    seats: &[u32],
    known: bool,
    slot: usize,
    calls: &[(usize, u32, usize, u64, bool)],
    mut seed: u64,
) -> Done {
    let (size, cores) = (seats.len() as u32, if known { Cores::of(seats) } else { Cores::default() });
    // The order of cores by their first members, and of members in each.
    let first = |seat: u32| seats.iter().position(|&other| other == seat);
    let mut by_cores: Vec<usize> = (0..seats.len()).collect();
    by_cores.sort_by_key(|&member| (first(seats[member]), member));
    let in_order: Vec<usize> = (0..seats.len()).collect();
    let mut counted = 0;
    let (crowded, exchanges) = (seed % 2 == 1, size > 2 && !seed.is_multiple_of(3));
    let mut node = Node::new(size, slot);
    let plans: Vec<Plan> = calls
        .iter()
        .map(|&(shape, root, bytes, element, in_place)| {
            let shape = shapes(root % size)[shape % 9];
            let bytes = if shape == Shape::Barrier { 0 } else { bytes / element as usize * element as usize };
            let len = if per_block(shape) { bytes * size as usize } else { bytes };
            let inputs = (0..size).map(|_| (0..len).map(|_| noise(&mut seed) as u8).collect()).collect();
            (shape, bytes, element, inputs, in_place)
        })
        .collect();
    let block = if exchanges { block_bytes(slot, size as usize) } else { 0 };
    let in_two_phases = in_two_phases(slot, size as usize);
    // One of each core writes, where it is known which those are.
    let block_of_cores = if exchanges { block_bytes(slot, cores.count().max(1) as usize) } else { 0 };
    let room = Room { in_two_phases, block, block_of_cores, near: slot, cores, ..Room::alike(slot, crowded) };
    (node.crowded, node.seats) = (crowded, seats.to_vec());
    let mut at = vec![0; size as usize];
    let mut running: Vec<Option<Running>> = (0..size).map(|_| None).collect();
    let mut idle = 0;
    while at.iter().any(|&at| at < plans.len()) {
        let me = (noise(&mut seed) % u64::from(size)) as usize;
        let Some((shape, bytes, element, inputs, in_place)) = plans.get(at[me]) else { continue };
        let mut member = Member { node: &mut node, me: me as u32 };
        let (run, arguments, expected) = running[me].get_or_insert_with(|| {
            let group = Group { rank: me as u32, size };
            let in_place = *in_place
                && !matches!(shape, Shape::Gather { root } | Shape::Reduce { root } if *root != me as u32);
            let script = Script::new(*shape, group, *bytes as u64, *element, in_place, room);
            assert!(script.fits(room.most(size)));
            counted += usize::from(script.goes_by_cores());
            let order = if script.goes_by_cores() { &by_cores } else { &in_order };
            let (arguments, expected) = arguments_in_order(*shape, me, inputs, *bytes, in_place, order);
            let run = match script.goes_by_cores() {
                true => BlockingRun::begin(script, &mut member),
                // Nothing is contested here.
                false => BlockingRun::Payloads(Run::begin(script, &member)),
            };
            (run, arguments, expected)
        });
        match run.step(&mut member, arguments) {
            Outcome::Done => {
                if let Some(expected) = expected {
                    assert!(
                        arguments.recv.starts_with(expected),
                        "{shape:?} of {bytes} bytes at {me} of {size}"
                    );
                }
                running[me] = None;
                at[me] += 1;
                idle = 0;
            }
            Outcome::Blocked => {
                assert_ne!(run.missing(&member), 0);
                idle += 1;
                assert!(idle < 100_000, "nobody goes on: {at:?}");
            }
            outcome @ (Outcome::Strayed(_) | Outcome::Unread(_)) => panic!("{outcome:?}"),
        }
    }
    Done { exchanged: node.exchanged_in_all(), by_cores: counted, crossed: node.crossed() }
}

#[test]
fn every_shape_at_every_size_gives_what_the_definition_says() {
    for size in (2..=16).chain([33, 63]) {
        for shape in 0..9 {
            for bytes in [0, 1, 8, 100, 113, 600, 5000, 70_000] {
                if bytes * size as usize > 150_000 || size > 16 && bytes > 600 {
                    continue;
                }
                let root = (bytes as u32 + size) % size;
                for seed in [7, 8] {
                    let calls = [(shape, root, bytes, 1, false), (shape, 0, bytes, 1, true)];
                    run_all(size, 8192, &calls, seed + 2 * bytes as u64);
                }
            }
        }
    }
}

#[test]
fn long_calls_of_members_that_share_cores_give_what_the_definition_says() {
    let shape = |shape: Shape| {
        shapes(0)
            .iter()
            .position(|&one| std::mem::discriminant(&one) == std::mem::discriminant(&shape))
            .expect("a shape")
    };
    let [all, root, exchange] = [Shape::Allreduce, Shape::Reduce { root: 0 }, Shape::Alltoall].map(shape);
    for size in [3, 4, 5] {
        // Several pieces of exchanged blocks, a call after another, in place and not, to one root and to others.
        for seed in [7, 13] {
            let calls = [
                (root, 1, 800_000, 8, false),
                (all, 0, 300_000, 8, true),
                (root, 2, 800_008, 8, true),
                (root, 2, 800_000, 8, false),
                (exchange, 0, 40_000, 8, false),
                (all, 0, 300_000, 4, false),
                (exchange, 0, 40_001, 1, true),
            ];
            assert!(run_all(size, 64 << 10, &calls, seed) > 40 * size as usize, "by exchanged blocks");
        }
    }
}

#[test]
fn what_members_of_one_core_have_is_combined_there() {
    let cores = [
        &[1, 1, 1, 2][..],
        &[1, 2, 1, 2],
        &[3, 1, 1, 1, 3],
        &[1, 2, 3, 1, 2, 3, 1, 2, 3],
        &[1, 1, 1, 2, 2, 2],
        &[1, 2, 1, 2, 1, 2, 1, 2],
        &[1, 1, 1, 1, 1, 1, 1, 2],
        &[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 1],
    ];
    for (seats, seed) in cores.into_iter().flat_map(|seats| [7, 11, 13].map(|seed| (seats, seed))) {
        let size = seats.len();
        // One piece and several, one call after another, of all shapes, in place and not, to one root and to others.
        let calls: Vec<_> = [40_000, 66_000, 70_001, 90_000, 300_000]
            .iter()
            .enumerate()
            .flat_map(|(turn, &bytes)| {
                let element = [1, 8, 24, 4, 16][turn];
                let others = [4, 5, 6].map(|shape| (shape, turn as u32, bytes / 8, element, turn % 2 == 1));
                let alone = [(7, 0, bytes, element, false), (7, 0, bytes, 8, true)];
                alone.into_iter().chain(others).chain([(7, 0, bytes / 2, 4, turn % 2 == 0)])
            })
            .collect();
        let counted = run_on(seats, true, 64 << 10, &calls, seed).by_cores;
        assert!(counted >= 8 * size, "{seats:?}: {counted} calls went core by core");
    }
}

#[test]
fn what_goes_from_core_to_core_is_one_sum_for_each_and_its_result() {
    let bytes = 96_000;
    for (seats, cores) in [
        (&[1, 2, 1, 2, 1, 2, 1, 2][..], 2),
        (&[1, 2, 3, 1, 2, 3, 1, 2, 3], 3),
        (&[1, 1, 1, 2], 2),
        (&[1, 2, 1, 2], 2),
    ] {
        let crossed = |known| run_on(seats, known, 64 << 10, &[(7, 0, bytes, 8, false)], 7).crossed;
        let (members, bytes) = (seats.len() as u64, bytes as u64);
        // Contributions of each member to all of other cores, and results back.
        let pairs: u64 =
            (0..seats.len()).map(|one| seats.iter().filter(|&&seat| seat != seats[one]).count() as u64).sum();
        assert_eq!(crossed(false), 2 * pairs * bytes / members, "{seats:?}");
        assert_eq!(crossed(true), 2 * (cores - 1) * bytes, "{seats:?}");
    }
}

#[test]
fn only_medium_broadcasts_to_one_other_go_by_messages() {
    for shape in shapes(1) {
        for members in 2..5 {
            let goes = |bytes| is_sooner_by_messages(shape, members, bytes);
            let to_one = members == 2 && matches!(shape, Shape::Bcast { .. });
            assert!([0, 8, 64 << 10, 1 << 20, u64::MAX].into_iter().all(|bytes| !goes(bytes)), "{shape:?}");
            assert!(
                [(64 << 10) + 1, 256 << 10, (1 << 20) - 1].into_iter().all(|bytes| goes(bytes) == to_one)
            );
        }
    }
}

#[test]
fn what_short_forms_do_in_one_round_scripts_do_so_too() {
    let mut alike = 0;
    for (size, shape) in (2..=63).flat_map(|size| (0..9).map(move |shape| (size, shape))) {
        let cores = Cores::of(&(0..size).map(|member| member % 2 + 1).collect::<Vec<_>>());
        for slot in [3584, 14528, 29120, 65536] {
            // Every length where a cut can begin, some beyond.
            for bytes in
                (0..16_500).step_by(if size <= 8 { 1 } else { 7 }).chain((16_500..20_000).step_by(72))
            {
                let shape = shapes(0)[shape];
                for (crowded, element) in [(false, 1), (true, 1), (false, 8), (true, 24)] {
                    let group = Group { rank: 0, size };
                    let bytes = bytes / element * element;
                    // Exchanged block by block or not.
                    for block in [0, slot / size as usize / 64 * 64] {
                        let room = Room {
                            block,
                            block_of_cores: block,
                            near: slot,
                            cores,
                            ..Room::alike(slot, crowded)
                        };
                        let script = Script::new(shape, group, bytes, element, false, room);
                        let short = is_one_round(shape, size, bytes, slot, block);
                        assert!(
                            !short || script.is_one_round(),
                            "{shape:?} of {bytes} bytes, {size} members"
                        );
                        alike += u32::from(short);
                    }
                }
            }
        }
    }
    assert!(alike > 10_000, "{alike}");
}

#[test]
fn what_one_of_two_writes_and_the_other_reads_goes_in_short_pieces_where_these_are_faster() {
    let rounds = |shape, members, kib: u64| {
        let group = Group { rank: 0, size: members };
        Script::new(shape, group, kib << 10, 8, false, Room::alike(64 << 10, false)).rounds()
    };
    for shape in [Shape::Bcast { root: 1 }, Shape::Reduce { root: 1 }, Shape::Gather { root: 1 }] {
        assert_eq!([32, 63, 64, 128, 256].map(|kib| rounds(shape, 2, kib)), [2, 2, 4, 8, 4], "{shape:?}");
    }
    assert_eq!([32, 64, 128].map(|kib| rounds(Shape::Scatter { root: 1 }, 2, kib)), [2, 2, 2]);
    assert_eq!(
        [64, 128].map(|kib| rounds(Shape::Allgather, 2, kib)),
        [1, 2],
        "both write, and then both read"
    );
}

#[test]
fn members_that_share_cores_exchange_blocks_where_that_is_faster() {
    let script = |shape, members, kib: u64, block| {
        let room = Room { block, ..Room::alike(300 << 10, true) };
        Script::new(shape, Group { rank: 0, size: members }, kib << 10, 8, false, room)
    };
    let rounds = |shape, members, kib, block| script(shape, members, kib, block).rounds();
    let (all, root) = (Shape::Allreduce, Shape::Reduce { root: 1 });
    // Contributions and results: sooner for all than without, later to a root, where all but the root have done when they have written.
    assert_eq!([16, 32, 64].map(|kib| rounds(all, 4, kib, 128 << 10)), [1, 2, 2]);
    assert_eq!([16, 32, 64].map(|kib| rounds(all, 4, kib, 0)), [1, 1, 2]);
    assert_eq!([64, 128, 256, 512].map(|kib| rounds(root, 4, kib, 128 << 10)), [1, 1, 1, 2]);
    assert_eq!([32, 64].map(|kib| rounds(root, 4, kib, 0)), [1, 2]);
    // A piece is as long as the blocks are.
    assert_eq!([128, 256].map(|kib| rounds(Shape::Alltoall, 4, kib, 128 << 10)), [1, 2]);
    // So long ones are exchanged, too, but for what is the same for all.
    assert_eq!([8, 1].map(|mib| rounds(Shape::ReduceScatter, 4, mib << 10, 128 << 10)), [82, 8]);
    // Of many members pieces are shorter, where there are several.
    assert_eq!([64, 512, 1024].map(|kib| rounds(Shape::Alltoall, 8, kib, 64 << 10)), [1, 16, 32]);
    assert_eq!([512, 1024].map(|kib| rounds(Shape::Allgather, 4, kib, 128 << 10)), [4, 4]);
    // Short forms leave to scripts what is exchanged.
    let short = |kib: u64, block| is_one_round(Shape::Alltoall, 3, kib << 10, 300 << 10, block);
    assert_eq!([5, 7].map(|kib| (short(kib, 0), short(kib, 128 << 10))), [(true, true), (true, false)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Members run ahead of each other as far as the cells allow, from one call into the next.
    #[test]
    fn sequences_of_calls_do_not_mix(
        size in 2_u32..=9,
        slot in prop::sample::select(vec![1024_usize, 4096, 16384]),
        calls in prop::collection::vec((0_usize..9, 0_u32..16, 0_usize..9000, prop::sample::select(vec![1_u64, 4, 8, 16]), any::<bool>()), 1..12),
        seed in 1_u64..,
    ) {
        run_all(size, slot, &calls, seed);
    }

    /// The same where it is known who shares a core with whom.
    #[test]
    fn calls_core_by_core_do_not_mix_with_others(
        seats in prop::collection::vec(1_u32..4, 3..=9),
        slot in prop::sample::select(vec![4096_usize, 16384, 32768]),
        calls in prop::collection::vec((0_usize..9, 0_u32..16, 0_usize..70_000, prop::sample::select(vec![1_u64, 4, 8, 16]), any::<bool>()), 1..10),
        seed in 1_u64..,
    ) {
        run_on(&seats, true, slot, &calls, seed | 1);
    }
}

#[test]
fn calls_that_do_not_match_are_noticed() {
    let mut node = Node::new(2, 1024);
    let begin = |node: &mut Node, me: u32, bytes: u64| {
        let room = Room::alike(1024, false);
        let script = Script::new(Shape::Allreduce, Group { rank: me, size: 2 }, bytes, 8, false, room);
        let mut member = Member { node, me };
        let mut run = Run::begin(script, &member);
        let mut arguments = Arguments { send: Some(vec![0; bytes as usize]), recv: vec![0; bytes as usize] };
        run.step(&mut member, &mut arguments)
    };
    assert_eq!(begin(&mut node, 0, 8), Outcome::Blocked);
    assert_eq!(begin(&mut node, 1, 16), Outcome::Strayed(0));
}
