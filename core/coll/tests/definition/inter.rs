//! Every operation on intercommunicators of all small and some larger groups against its definition (section 6.2.3): what one
//! group gives the other gets; nothing else is touched.

use crate::case::{UNTOUCHED, pattern};
use crate::reductions::{join, operand};
use crate::world::{Memory, Operation, Random, Sends, World, check_channels};
use weft_coll::inter::rank_inter;
use weft_coll::{
    Block, Buffer, InterCall, Model, Root, Rules, Schedule, Sides, Vector, plan_inter, plan_inter_by,
    plan_inter_reproducible,
};

fn shapes() -> Vec<[u32; 2]> {
    let small = (1..=5).flat_map(|first| (1..=5).map(move |second| [first, second]));
    small.chain([[9, 3], [3, 9], [16, 9], [13, 13], [1, 12], [12, 1], [33, 40]]).collect()
}

/// A member: its side (0 is the first group) and its rank there.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Member {
    side: usize,
    rank: u32,
}

impl Member {
    fn number(self, shape: [u32; 2]) -> u32 {
        if self.side == 0 { self.rank } else { shape[0] + self.rank }
    }
}

fn members(shape: [u32; 2]) -> Vec<Member> {
    let of = |side: usize| (0..shape[side]).map(move |rank| Member { side, rank });
    of(0).chain(of(1)).collect()
}

/// What everybody calls, has and must have.
struct Case<'a> {
    shape: [u32; 2],
    call: &'a dyn Fn(Member) -> InterCall<'a>,
    before: &'a dyn Fn(Member) -> Memory,
    after: &'a dyn Fn(Member) -> Memory,
    operation: Operation,
}

fn never(_: &[u8], _: &mut [u8]) {
    unreachable!("nothing is reduced");
}

impl Case<'_> {
    fn check(&self, random: &mut Random) {
        let model = Model { segment: Some(64), window: Some(2), ..Model::default() };
        let everybody = members(self.shape);
        let ranked = |&member: &Member| {
            let all = rank_inter(&(self.call)(member), self.sides(member), &model);
            all.into_iter().map(|(algorithm, seconds)| (algorithm.name, seconds)).collect::<Vec<_>>()
        };
        let known = ranked(&everybody[0]);
        // Nothing that a member knows alone, and not on which side it is, decides.
        assert!(everybody.iter().all(|member| ranked(member) == known), "{:?}", (self.call)(everybody[0]));
        if known.is_empty() {
            self.check_by(&model, random, &|member| {
                plan_inter(&(self.call)(member), self.sides(member), &model)
            });
        }
        self.check_by(&model, random, &|member| {
            plan_inter_reproducible(&(self.call)(member), self.sides(member), &model)
        });
        for (name, _) in known {
            self.check_by(&model, random, &|member| {
                let call = (self.call)(member);
                let rules = Rules::parse(&format!("{} -> {name}", call.name()), "test").expect("a rule");
                plan_inter_by(&call, self.sides(member), &model, &[&rules])
            });
        }
    }

    fn sides(&self, member: Member) -> Sides {
        let (local, remote) = (self.shape[member.side], self.shape[1 - member.side]);
        Sides { rank: member.rank, local, remote, is_first: member.side == 0 }
    }

    fn check_by(&self, model: &Model, random: &mut Random, plan: &dyn Fn(Member) -> Schedule) {
        let everybody = members(self.shape);
        let schedules: Vec<Schedule> = everybody.iter().map(|&member| plan(member)).collect();
        check_channels(&schedules);
        let memories: Vec<Memory> = everybody.iter().map(|&member| (self.before)(member)).collect();
        for sends in [Sends::Eager, Sends::Synchronous] {
            let after = World::new(&schedules, &memories, self.operation, sends).finish(random);
            for (&member, after) in everybody.iter().zip(&after) {
                for (buffer, wanted) in (self.after)(member).0 {
                    let what = (self.call)(member);
                    assert_eq!(
                        after.0[&buffer], wanted,
                        "{:?} {member:?} {what:?} {sends:?} {model:?}",
                        self.shape
                    );
                }
            }
        }
    }
}

fn roots(shape: [u32; 2]) -> Vec<Member> {
    let last = |side: usize| Member { side, rank: shape[side] - 1 };
    vec![Member { side: 0, rank: 0 }, Member { side: 1, rank: 0 }, last(0), last(1)]
}

fn root_of(root: Member, member: Member) -> Root {
    match member.side == root.side {
        true if member == root => Root::Here,
        true => Root::Elsewhere,
        false => Root::Remote(root.rank),
    }
}

fn untouched(bytes: u64) -> Vec<u8> {
    vec![UNTOUCHED; bytes as usize]
}

const ROOM: u64 = 4096;

/// Receive memory with blocks in it.
fn received(blocks: impl IntoIterator<Item = (Block, Vec<u8>)>) -> Memory {
    let mut room = untouched(ROOM);
    for (block, bytes) in blocks {
        let at = block.displacement as usize;
        room[at..at + block.bytes as usize].copy_from_slice(&bytes);
    }
    Memory::default().with(Buffer::Recv, room)
}

/// Blocks of different lengths in reverse order, with gaps.
fn scattered(number: u32, length: impl Fn(u32) -> u64) -> Vec<Block> {
    (0..number)
        .map(|rank| Block { displacement: i64::from(number - 1 - rank) * 20, bytes: length(rank) })
        .collect()
}

fn in_order(number: u32, bytes: u64) -> Vec<Block> {
    (0..number).map(|rank| Block { displacement: i64::from(rank) * bytes as i64, bytes }).collect()
}

/// Memory that holds for each block what goes to that member.
fn to_send(shape: [u32; 2], from: Member, blocks: &[Block]) -> Memory {
    let mut room = untouched(ROOM);
    for (rank, block) in (0..).zip(blocks) {
        let to = Member { side: 1 - from.side, rank };
        let at = block.displacement as usize;
        room[at..at + block.bytes as usize].copy_from_slice(&given(shape, from, to, block.bytes));
    }
    Memory::default().with(Buffer::Send, room)
}

fn given(shape: [u32; 2], from: Member, to: Member, bytes: u64) -> Vec<u8> {
    pattern(from.number(shape), to.number(shape), bytes)
}

#[test]
fn the_root_gives_to_and_takes_from_the_other_group_only() {
    let mut random = Random(31);
    for shape in shapes() {
        for root in roots(shape) {
            let others = shape[1 - root.side];
            let everyone = Member { side: 0, rank: 0 };
            for bytes in [0, 5] {
                let message = || given(shape, root, everyone, bytes);
                let holds = |member: Member, has: bool| match has {
                    true => Memory::default().with(Buffer::Recv, message()),
                    false => Memory::default()
                        .with(Buffer::Recv, untouched(bytes))
                        .with(Buffer::Scratch(1 << 20), vec![member.side as u8]),
                };
                Case {
                    shape,
                    call: &|member| InterCall::Bcast { root: root_of(root, member), bytes },
                    before: &|member| holds(member, member == root),
                    after: &|member| holds(member, member == root || member.side != root.side),
                    operation: never,
                }
                .check(&mut random);

                for varying in [false, true] {
                    let length = |rank: u32| if varying { (bytes + u64::from(rank)) % 7 } else { bytes };
                    let places = match varying {
                        true => scattered(others, length),
                        false => in_order(others, bytes),
                    };
                    let own = |member: Member| length(member.rank);
                    let sender = |member: Member| {
                        let block = Block { displacement: 0, bytes: own(member) };
                        let mut room = untouched(ROOM);
                        room[..block.bytes as usize].copy_from_slice(&given(
                            shape,
                            member,
                            root,
                            block.bytes,
                        ));
                        Memory::default().with(Buffer::Send, room)
                    };
                    let gathered = |member: Member| match member == root {
                        true => received((0..).zip(&places).map(|(rank, &place)| {
                            let from = Member { side: 1 - root.side, rank };
                            (place, given(shape, from, root, place.bytes))
                        })),
                        false => received([]),
                    };
                    Case {
                        shape,
                        call: &|member| match varying {
                            true => InterCall::Gatherv {
                                root: root_of(root, member),
                                bytes: own(member),
                                blocks: &places,
                            },
                            false => InterCall::Gather { root: root_of(root, member), bytes },
                        },
                        before: &|member| {
                            let Memory(mut all) = sender(member);
                            all.extend(received([]).0);
                            Memory(all)
                        },
                        after: &gathered,
                        operation: never,
                    }
                    .check(&mut random);
                    Case {
                        shape,
                        call: &|member| match varying {
                            true => InterCall::Scatterv {
                                root: root_of(root, member),
                                bytes: own(member),
                                blocks: &places,
                            },
                            false => InterCall::Scatter { root: root_of(root, member), bytes },
                        },
                        before: &|member| {
                            let Memory(mut all) = match member == root {
                                true => to_send(shape, root, &places),
                                false => Memory::default(),
                            };
                            all.extend(received([]).0);
                            Memory(all)
                        },
                        after: &|member| match member.side == root.side {
                            true => received([]),
                            false => received([(
                                Block { displacement: 0, bytes: own(member) },
                                given(shape, root, member, own(member)),
                            )]),
                        },
                        operation: never,
                    }
                    .check(&mut random);
                }
            }
        }
    }
}

/// What member `from` of one group has for `to` of the other, in bytes; one direction may be empty.
fn length(from: Member, to: Member, empty: Option<usize>) -> u64 {
    if empty == Some(from.side) { 0 } else { u64::from(from.rank * 3 + to.rank + from.side as u32) % 6 }
}

#[test]
fn everybody_gives_to_everybody_of_the_other_group() {
    let mut random = Random(32);
    for shape in shapes() {
        for empty in [None, Some(0), Some(1)] {
            // Bytes of each side's blocks where they are all alike.
            let even = |side: usize| if empty == Some(side) { 0 } else { 4 + 2 * side as u64 };
            let first_of = |side: usize| Member { side, rank: 0 };
            let other = |member: Member| 1 - member.side;
            // Allgather: everybody of the other group gets the same block.
            let own = |member: Member, bytes: u64| given(shape, member, first_of(other(member)), bytes);
            let with_room = |memory: Memory| {
                let Memory(mut all) = memory;
                all.extend(received([]).0);
                Memory(all)
            };
            for varying in [false, true] {
                let sent = |member: Member| match varying {
                    true => length(member, first_of(other(member)), empty),
                    false => even(member.side),
                };
                let places: [Vec<Block>; 2] = std::array::from_fn(|side| {
                    let from = |rank| Member { side: 1 - side, rank };
                    match varying {
                        true => scattered(shape[1 - side], |rank| sent(from(rank))),
                        false => in_order(shape[1 - side], even(1 - side)),
                    }
                });
                Case {
                    shape,
                    call: &|member| match varying {
                        true => InterCall::Allgatherv { sent: sent(member), blocks: &places[member.side] },
                        false => InterCall::Allgather { sent: sent(member), received: even(other(member)) },
                    },
                    before: &|member| {
                        let bytes = own(member, sent(member));
                        with_room(Memory::default().with(Buffer::Send, bytes))
                    },
                    after: &|member| {
                        received((0..).zip(&places[member.side]).map(|(rank, &place)| {
                            let from = Member { side: other(member), rank };
                            (place, own(from, place.bytes))
                        }))
                    },
                    operation: never,
                }
                .check(&mut random);
            }
            // Alltoall in its three forms.
            let members_of = |side: usize| (0..shape[side]).map(move |rank| Member { side, rank });
            let outgoing = |member: Member| {
                let to: Vec<Member> = members_of(other(member)).collect();
                scattered(shape[other(member)], |rank| length(member, to[rank as usize], empty))
            };
            let incoming = |member: Member| {
                let from: Vec<Member> = members_of(other(member)).collect();
                scattered(shape[other(member)], |rank| length(from[rank as usize], member, empty))
            };
            let number = |member: Member| member.number(shape) as usize;
            let all_outgoing: Vec<Vec<Block>> = members(shape).into_iter().map(outgoing).collect();
            let all_incoming: Vec<Vec<Block>> = members(shape).into_iter().map(incoming).collect();
            let arrived = |member: Member, places: &[Block]| {
                received((0..).zip(places.to_vec()).map(|(rank, place)| {
                    let from = Member { side: other(member), rank };
                    (place, given(shape, from, member, place.bytes))
                }))
            };
            Case {
                shape,
                call: &|member| InterCall::Alltoallv {
                    send: &all_outgoing[number(member)],
                    recv: &all_incoming[number(member)],
                },
                before: &|member| with_room(to_send(shape, member, &all_outgoing[number(member)])),
                after: &|member| arrived(member, &all_incoming[number(member)]),
                operation: never,
            }
            .check(&mut random);
            Case {
                shape,
                call: &|member| InterCall::Alltoall {
                    sent: even(member.side),
                    received: even(other(member)),
                },
                before: &|member| {
                    with_room(to_send(shape, member, &in_order(shape[other(member)], even(member.side))))
                },
                after: &|member| arrived(member, &in_order(shape[other(member)], even(other(member)))),
                operation: never,
            }
            .check(&mut random);
            let lengths = |blocks: &[Vec<Block>]| -> Vec<Vec<u64>> {
                blocks.iter().map(|blocks| blocks.iter().map(|block| block.bytes).collect()).collect()
            };
            let (out_bytes, in_bytes) = (lengths(&all_outgoing), lengths(&all_incoming));
            let per_peer = |member: Member, bytes: &[u64], coming: bool| {
                let mut memory = Memory::default();
                for (rank, &bytes) in (0..).zip(bytes) {
                    let peer = Member { side: other(member), rank };
                    memory = match coming {
                        true => memory.with(Buffer::RecvPeer(rank), given(shape, peer, member, bytes)),
                        false => memory
                            .with(Buffer::SendPeer(rank), given(shape, member, peer, bytes))
                            .with(Buffer::RecvPeer(rank), untouched(in_bytes[number(member)][rank as usize])),
                    };
                }
                memory
            };
            Case {
                shape,
                call: &|member| InterCall::Alltoallw {
                    send: &out_bytes[number(member)],
                    recv: &in_bytes[number(member)],
                },
                before: &|member| per_peer(member, &out_bytes[number(member)], false),
                after: &|member| per_peer(member, &in_bytes[number(member)], true),
                operation: never,
            }
            .check(&mut random);
        }
    }
}

#[test]
fn a_group_gets_the_reduction_of_the_other_in_rank_order() {
    let mut random = Random(33);
    for shape in shapes() {
        for blocks in [0, 1, 3] {
            // As many elements as both groups can share out evenly.
            let count = blocks * u64::from(shape[0] * shape[1]);
            let vector = Vector { count, element: 12, commutative: false };
            let index = |side: usize, i: u64| i as u32 + 100_000 * side as u32;
            let elements = |side: usize, low: u32, high: u32, from: u64, to: u64| -> Vec<u8> {
                (from..to).flat_map(|i| operand(index(side, i), low, high)).collect()
            };
            let before = |member: Member| {
                let own = elements(member.side, member.rank, member.rank + 1, 0, count);
                Memory::default().with(Buffer::Send, own).with(Buffer::Recv, untouched(12 * count))
            };
            let result = |member: Member, from: u64, to: u64| {
                let side = 1 - member.side;
                let mut bytes = elements(side, 0, shape[side], from, to);
                bytes.resize(12 * count as usize, UNTOUCHED);
                Memory::default().with(Buffer::Recv, bytes)
            };
            let (before, operation): (&dyn Fn(Member) -> Memory, Operation) = (&before, join);
            let after = |member: Member| result(member, 0, count);
            let call = |_: Member| InterCall::Allreduce { vector };
            Case { shape, call: &call, before, after: &after, operation }.check(&mut random);
            for root in roots(shape) {
                let call = |member: Member| InterCall::Reduce { root: root_of(root, member), vector };
                let after = |member: Member| match member == root {
                    true => result(member, 0, count),
                    false => result(member, 0, 0),
                };
                Case { shape, call: &call, before, after: &after, operation }.check(&mut random);
            }
            // Equal parts, and all for the last but what the first gets.
            for equal in [true, false] {
                let counts: [Vec<u64>; 2] = std::array::from_fn(|side| {
                    let size = u64::from(shape[side]);
                    let mut counts = vec![if equal { count / size } else { 0 }; size as usize];
                    counts[0] = counts[0].min(count);
                    let given: u64 = counts[..size as usize - 1].iter().sum();
                    counts[size as usize - 1] = count - given;
                    counts
                });
                let call = |member: Member| InterCall::ReduceScatter { counts: &counts[member.side], vector };
                let after = |member: Member| {
                    let counts = &counts[member.side];
                    let from: u64 = counts[..member.rank as usize].iter().sum();
                    result(member, from, from + counts[member.rank as usize])
                };
                Case { shape, call: &call, before, after: &after, operation }.check(&mut random);
            }
        }
    }
}

#[test]
fn nobody_leaves_a_barrier_before_the_other_group_has_entered() {
    let mut random = Random(34);
    for shape in shapes() {
        let everybody = members(shape);
        let schedules: Vec<Schedule> = everybody
            .iter()
            .map(|member| {
                let (local, remote) = (shape[member.side], shape[1 - member.side]);
                let sides = Sides { rank: member.rank, local, remote, is_first: member.side == 0 };
                plan_inter(&InterCall::Barrier, sides, &Model::default())
            })
            .collect();
        let memories = vec![Memory::default(); everybody.len()];
        let absent = random.below(everybody.len() as u64) as usize;
        let mut world = World::new(&schedules, &memories, never, Sends::Eager);
        world.run_without(Some(absent), &mut random);
        for (number, member) in everybody.iter().enumerate() {
            assert!(
                member.side == everybody[absent].side || !world.is_finished(number),
                "{shape:?} {member:?}"
            );
        }
        world.finish(&mut random);
    }
}
