//! Operations that move data, and barriers.

use crate::case::{Case, THOUSANDS, UNTOUCHED, counts, few_steps, layouts, pattern, roots, sizes};
use crate::world::{Memory, Random, Sends, World, check_channels};
use weft_coll::registry::candidates;
use weft_coll::{Algorithm, Block, Buffer, Call, Group, Layout, Model, Schedule};

/// No reduction takes place.
fn never(_: &[u8], _: &mut [u8]) {
    unreachable!("nothing is reduced");
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_entered() {
    let mut random = Random(1);
    for size in sizes() {
        let layouts = layouts(size, &mut random).into_iter().chain([Layout::default()]);
        for model in layouts.map(|layout| Model { layout, ..Model::default() }) {
            let flat = model.layout.levels.is_empty();
            for algorithm in candidates(&Call::Barrier, Group { rank: 0, size }, &model) {
                if flat || algorithm.name == "levels" {
                    check_barrier(algorithm, size, &model, &mut random);
                }
            }
        }
    }
}

fn check_barrier(algorithm: &Algorithm, size: u32, model: &Model, random: &mut Random) {
    let schedules: Vec<Schedule> =
        (0..size).map(|rank| algorithm.build(&Call::Barrier, Group { rank, size }, model)).collect();
    check_channels(&schedules);
    let absent = random.below(u64::from(size)) as usize;
    for sends in [Sends::Eager, Sends::Synchronous] {
        let memories = vec![Memory::default(); size as usize];
        let mut world = World::new(&schedules, &memories, never, sends);
        if size > 1 {
            world.run_without(Some(absent), random);
            let left = (0..size as usize).find(|&rank| world.is_finished(rank));
            assert_eq!(
                left, None,
                "{algorithm:?}, {:?}: left although {absent} of {size} has not entered",
                model.layout
            );
        }
        world.finish(random);
    }
}

fn bcast_case(size: u32, root: u32, bytes: u64) -> Case<'static> {
    let data = pattern(root, 0, bytes);
    let memory = |rank| match rank == root {
        true => Memory::default().with(Buffer::Recv, data.clone()),
        false => Memory::default().with(Buffer::Recv, vec![UNTOUCHED; bytes as usize]),
    };
    Case {
        size,
        calls: vec![Call::Bcast { root, bytes }; size as usize],
        memories: (0..size).map(memory).collect(),
        expected: vec![Memory::default().with(Buffer::Recv, data.clone()); size as usize],
        operation: never,
    }
}

#[test]
fn everybody_gets_the_roots_broadcast() {
    let mut random = Random(2);
    for size in sizes() {
        for root in roots(size, &mut random) {
            for bytes in [0, 1 + random.below(50), 200 + random.below(300)] {
                bcast_case(size, root, bytes).check(&mut random);
            }
        }
    }
}

fn gather_case(size: u32, root: u32, bytes: u64, in_place: bool) -> Case<'static> {
    let all: Vec<u8> = (0..size).flat_map(|rank| pattern(rank, 0, bytes)).collect();
    let memory = |rank: u32| {
        let memory = Memory::default();
        if rank != root {
            return memory.with(Buffer::Send, pattern(rank, 0, bytes));
        }
        let mut recv = vec![UNTOUCHED; all.len()];
        if in_place {
            let at = (u64::from(rank) * bytes) as usize;
            recv[at..at + bytes as usize].copy_from_slice(&pattern(rank, 0, bytes));
            return memory.with(Buffer::Recv, recv);
        }
        memory.with(Buffer::Recv, recv).with(Buffer::Send, pattern(rank, 0, bytes))
    };
    let expected = |rank| match rank == root {
        true => Memory::default().with(Buffer::Recv, all.clone()),
        false => Memory::default().with(Buffer::Send, pattern(rank, 0, bytes)),
    };
    Case {
        size,
        calls: vec![Call::Gather { root, bytes, in_place }; size as usize],
        memories: (0..size).map(memory).collect(),
        expected: (0..size).map(expected).collect(),
        operation: never,
    }
}

#[test]
fn the_root_gathers_every_block_in_rank_order() {
    let mut random = Random(3);
    for size in sizes() {
        for root in roots(size, &mut random) {
            for bytes in counts(&mut random) {
                gather_case(size, root, bytes, random.below(2) == 1).check(&mut random);
            }
        }
    }
}

fn scatter_case(size: u32, root: u32, bytes: u64, in_place: bool) -> Case<'static> {
    let all: Vec<u8> = (0..size).flat_map(|rank| pattern(rank, 0, bytes)).collect();
    let memory = |rank| {
        let recv = vec![UNTOUCHED; bytes as usize];
        match (rank == root, in_place) {
            (true, true) => Memory::default().with(Buffer::Send, all.clone()),
            (true, false) => Memory::default().with(Buffer::Send, all.clone()).with(Buffer::Recv, recv),
            (false, _) => Memory::default().with(Buffer::Recv, recv),
        }
    };
    let expected = |rank| match rank == root && in_place {
        true => Memory::default().with(Buffer::Send, all.clone()),
        false => Memory::default().with(Buffer::Recv, pattern(rank, 0, bytes)),
    };
    Case {
        size,
        calls: vec![Call::Scatter { root, bytes, in_place }; size as usize],
        memories: (0..size).map(memory).collect(),
        expected: (0..size).map(expected).collect(),
        operation: never,
    }
}

#[test]
fn every_rank_gets_its_block_of_the_roots_scatter() {
    let mut random = Random(4);
    for size in sizes() {
        for root in roots(size, &mut random) {
            for bytes in counts(&mut random) {
                scatter_case(size, root, bytes, random.below(2) == 1).check(&mut random);
            }
        }
    }
}

/// Blocks of random length in random order with gaps, and the memory they need.
fn scattered_blocks(lengths: &[u64], random: &mut Random) -> (Vec<Block>, usize) {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut blocks = vec![Block::default(); lengths.len()];
    let mut at = 0;
    for index in order {
        at += random.below(3) as i64;
        blocks[index] = Block { displacement: at, bytes: lengths[index] };
        at += lengths[index] as i64;
    }
    (blocks, at as usize + 2)
}

fn put(memory: &mut [u8], block: Block, data: &[u8]) {
    memory[block.displacement as usize..][..block.bytes as usize].copy_from_slice(data);
}

fn lengths(size: u32, random: &mut Random) -> Vec<u64> {
    (0..size).map(|_| random.below(4) * random.below(9)).collect()
}

#[test]
fn gatherv_and_scatterv_move_blocks_of_any_length_to_any_place() {
    let mut random = Random(5);
    for size in sizes() {
        for root in roots(size, &mut random) {
            let lengths = lengths(size, &mut random);
            let (blocks, room) = scattered_blocks(&lengths, &mut random);
            let in_place = random.below(2) == 1;
            let mut all = vec![UNTOUCHED; room];
            for rank in 0..size {
                put(&mut all, blocks[rank as usize], &pattern(rank, 0, lengths[rank as usize]));
            }
            let bytes = |rank: u32| lengths[rank as usize];
            let own = |rank: u32| pattern(rank, 0, bytes(rank));

            let gather = |rank| match rank == root {
                true => Call::Gatherv { root, bytes: 0, blocks: &blocks, in_place },
                false => Call::Gatherv { root, bytes: bytes(rank), blocks: &[], in_place: false },
            };
            let before = |rank: u32| {
                if rank != root {
                    return Memory::default().with(Buffer::Send, own(rank));
                }
                let mut recv = vec![UNTOUCHED; room];
                if in_place {
                    put(&mut recv, blocks[rank as usize], &own(rank));
                    return Memory::default().with(Buffer::Recv, recv);
                }
                Memory::default().with(Buffer::Recv, recv).with(Buffer::Send, own(rank))
            };
            let after = |rank| match rank == root {
                true => Memory::default().with(Buffer::Recv, all.clone()),
                false => Memory::default(),
            };
            Case {
                size,
                calls: (0..size).map(gather).collect(),
                memories: (0..size).map(before).collect(),
                expected: (0..size).map(after).collect(),
                operation: never,
            }
            .check(&mut random);

            let scatter = |rank| match rank == root {
                true => Call::Scatterv { root, bytes: 0, blocks: &blocks, in_place },
                false => Call::Scatterv { root, bytes: bytes(rank), blocks: &[], in_place: false },
            };
            let before = |rank| {
                let recv = vec![UNTOUCHED; bytes(rank) as usize];
                match (rank == root, in_place) {
                    (true, true) => Memory::default().with(Buffer::Send, all.clone()),
                    (true, false) => {
                        Memory::default().with(Buffer::Send, all.clone()).with(Buffer::Recv, recv)
                    }
                    (false, _) => Memory::default().with(Buffer::Recv, recv),
                }
            };
            let after = |rank| match rank == root && in_place {
                true => Memory::default().with(Buffer::Send, all.clone()),
                false => Memory::default().with(Buffer::Recv, own(rank)),
            };
            Case {
                size,
                calls: (0..size).map(scatter).collect(),
                memories: (0..size).map(before).collect(),
                expected: (0..size).map(after).collect(),
                operation: never,
            }
            .check(&mut random);
        }
    }
}

fn allgather_case(size: u32, bytes: u64, in_place: bool) -> Case<'static> {
    let all: Vec<u8> = (0..size).flat_map(|rank| pattern(rank, 0, bytes)).collect();
    let memory = |rank: u32| {
        let mut recv = vec![UNTOUCHED; all.len()];
        if in_place {
            let at = (u64::from(rank) * bytes) as usize;
            recv[at..at + bytes as usize].copy_from_slice(&pattern(rank, 0, bytes));
            return Memory::default().with(Buffer::Recv, recv);
        }
        Memory::default().with(Buffer::Recv, recv).with(Buffer::Send, pattern(rank, 0, bytes))
    };
    Case {
        size,
        calls: vec![Call::Allgather { bytes, in_place }; size as usize],
        memories: (0..size).map(memory).collect(),
        expected: vec![Memory::default().with(Buffer::Recv, all.clone()); size as usize],
        operation: never,
    }
}

#[test]
fn everybody_gathers_all_blocks() {
    let mut random = Random(6);
    for size in sizes() {
        for bytes in counts(&mut random) {
            allgather_case(size, bytes, random.below(2) == 1).check(&mut random);
        }
    }
}

#[test]
fn allgatherv_puts_blocks_where_each_rank_wants_them() {
    let mut random = Random(7);
    for size in sizes().into_iter().filter(|&size| size < 200) {
        for (in_place, long) in [(false, false), (true, false), (false, true)] {
            let mut lengths = lengths(size, &mut random);
            if long {
                // Few of many have much, in several segments.
                let holders = [random.below(u64::from(size)), random.below(u64::from(size))];
                holders.iter().for_each(|&rank| lengths[rank as usize] = 65 + random.below(700));
            }
            // Counts are the same at all ranks, displacements need not be.
            let places: Vec<_> = (0..size).map(|_| scattered_blocks(&lengths, &mut random)).collect();
            let own = |rank: u32| pattern(rank, 0, lengths[rank as usize]);
            let memory = |rank: u32| {
                let (blocks, room) = &places[rank as usize];
                let mut recv = vec![UNTOUCHED; *room];
                if in_place {
                    put(&mut recv, blocks[rank as usize], &own(rank));
                    return Memory::default().with(Buffer::Recv, recv);
                }
                Memory::default().with(Buffer::Recv, recv).with(Buffer::Send, own(rank))
            };
            let expected = |rank: u32| {
                let (blocks, room) = &places[rank as usize];
                let mut recv = vec![UNTOUCHED; *room];
                (0..size).for_each(|from| put(&mut recv, blocks[from as usize], &own(from)));
                Memory::default().with(Buffer::Recv, recv)
            };
            Case {
                size,
                calls: places.iter().map(|(blocks, _)| Call::Allgatherv { blocks, in_place }).collect(),
                memories: (0..size).map(memory).collect(),
                expected: (0..size).map(expected).collect(),
                operation: never,
            }
            .check(&mut random);
        }
    }
}

#[test]
fn every_pair_exchanges_its_blocks() {
    let mut random = Random(8);
    for size in 1..=64 {
        for bytes in [0, 1 + random.below(20)] {
            let in_place = random.below(2) == 1;
            let row = |rank: u32| (0..size).flat_map(|to| pattern(rank, to, bytes)).collect::<Vec<u8>>();
            let memory = |rank| match in_place {
                true => Memory::default().with(Buffer::Recv, row(rank)),
                false => Memory::default()
                    .with(Buffer::Send, row(rank))
                    .with(Buffer::Recv, vec![UNTOUCHED; (u64::from(size) * bytes) as usize]),
            };
            let expected = |rank| {
                let column = (0..size).flat_map(|from| pattern(from, rank, bytes)).collect();
                Memory::default().with(Buffer::Recv, column)
            };
            Case {
                size,
                calls: vec![Call::Alltoall { bytes, in_place }; size as usize],
                memories: (0..size).map(memory).collect(),
                expected: (0..size).map(expected).collect(),
                operation: never,
            }
            .check(&mut random);
        }
    }
}

#[test]
fn alltoallv_and_alltoallw_exchange_blocks_of_any_length() {
    let mut random = Random(9);
    for size in 1..=64 {
        for in_place in [false, true] {
            let n = size as usize;
            let seed = random.next();
            let length = |from: u64, to: u64| {
                // With MPI_IN_PLACE both directions of a pair are equally long (section 6.8).
                let (a, b) = if in_place { (from.min(to), from.max(to)) } else { (from, to) };
                Random(seed ^ (a << 32 | b)).below(6) * (a + b).min(2)
            };
            let lengths: Vec<Vec<u64>> =
                (0..n as u64).map(|from| (0..n as u64).map(|to| length(from, to)).collect()).collect();
            let column = |rank: u32| lengths.iter().map(|row| row[rank as usize]).collect::<Vec<u64>>();
            let block = |from: u32, to: u32| pattern(from, to, lengths[from as usize][to as usize]);
            let sends: Vec<_> = lengths.iter().map(|row| scattered_blocks(row, &mut random)).collect();
            let recvs: Vec<_> = (0..size).map(|rank| scattered_blocks(&column(rank), &mut random)).collect();
            let filled = |(blocks, room): &(Vec<Block>, usize), data: &dyn Fn(u32) -> Vec<u8>| {
                let mut memory = vec![UNTOUCHED; *room];
                (0..size).for_each(|peer| put(&mut memory, blocks[peer as usize], &data(peer)));
                memory
            };
            let call = |rank: usize| Call::Alltoallv { send: &sends[rank].0, recv: &recvs[rank].0, in_place };
            let memory = |rank: u32| {
                let (send, recv) = (&sends[rank as usize], &recvs[rank as usize]);
                match in_place {
                    true => Memory::default().with(Buffer::Recv, filled(recv, &|to| block(rank, to))),
                    false => Memory::default()
                        .with(Buffer::Send, filled(send, &|to| block(rank, to)))
                        .with(Buffer::Recv, vec![UNTOUCHED; recv.1]),
                }
            };
            let expected = |rank: u32| {
                Memory::default().with(Buffer::Recv, filled(&recvs[rank as usize], &|from| block(from, rank)))
            };
            Case {
                size,
                calls: (0..n).map(call).collect(),
                memories: (0..size).map(memory).collect(),
                expected: (0..size).map(expected).collect(),
                operation: never,
            }
            .check(&mut random);

            let columns: Vec<_> = (0..size).map(column).collect();
            let call = |rank: usize| Call::Alltoallw { send: &lengths[rank], recv: &columns[rank], in_place };
            let memory = |rank: u32| {
                (0..size).fold(Memory::default(), |memory, peer| match in_place {
                    true => memory.with(Buffer::RecvPeer(peer), block(rank, peer)),
                    false => memory
                        .with(Buffer::SendPeer(peer), block(rank, peer))
                        .with(Buffer::RecvPeer(peer), vec![UNTOUCHED; block(peer, rank).len()]),
                })
            };
            let expected = |rank: u32| {
                (0..size).fold(Memory::default(), |memory, peer| {
                    memory.with(Buffer::RecvPeer(peer), block(peer, rank))
                })
            };
            Case {
                size,
                calls: (0..n).map(call).collect(),
                memories: (0..size).map(memory).collect(),
                expected: (0..size).map(expected).collect(),
                operation: never,
            }
            .check(&mut random);
        }
    }
}

#[test]
fn barriers_and_broadcasts_of_thousands_of_ranks() {
    let mut random = Random(8);
    for size in THOUSANDS {
        let model = Model::default();
        for algorithm in candidates(&Call::Barrier, Group { rank: 0, size }, &model).filter(|&a| few_steps(a))
        {
            check_barrier(algorithm, size, &model, &mut random);
        }
        let root = random.below(u64::from(size)) as u32;
        bcast_case(size, root, 1 + random.below(150)).check_few_steps(&mut random);
    }
}

#[test]
fn blocks_of_thousands_of_ranks() {
    let mut random = Random(16);
    for size in THOUSANDS {
        let root = random.below(u64::from(size)) as u32;
        let bytes = 1 + random.below(9);
        for in_place in [false, true] {
            gather_case(size, root, bytes, in_place).check_few_steps(&mut random);
            scatter_case(size, root, bytes, in_place).check_few_steps(&mut random);
        }
        allgather_case(size, 1, random.below(2) == 1).check_few_steps(&mut random);
    }
}
