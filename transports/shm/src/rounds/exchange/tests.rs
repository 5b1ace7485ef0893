//! Who writes and reads which block, all members in one thread.

use super::*;

/// Bytes of a place.
const PLACE: usize = 64 * LINE;

/// One member: its count of places, the round that it does next, and rounds it has finished.
struct Member {
    places: Places,
    written: u64,
    read: u64,
}

/// What the calls write, round by round: a contribution, or the result of one; the root, where there is one.
#[derive(Clone, Copy)]
struct Round {
    made_of: Option<u64>,
    until: u64,
    root: Option<u32>,
    has_results: bool,
    /// Only members 0 and 1 write blocks, for one another, and all read the results.
    is_shared: bool,
    /// It goes where the contribution before lay.
    stays: bool,
}

impl Round {
    /// For whom a member writes.
    fn writes(self, me: u32, other: u32) -> bool {
        match self.root.filter(|_| self.made_of.is_some()) {
            _ if self.is_shared => me + other == 1,
            root => root.is_none_or(|root| root == other),
        }
    }

    /// What a member reads: of whom, and for whom that is.
    fn reads(self, me: u32, members: u32) -> Vec<(u32, u32)> {
        let others = (0..members).filter(|&other| other != me);
        match self.is_shared {
            // Who wrote a result has it.
            true if self.made_of.is_some() => {
                [(0, 1), (1, 0)].into_iter().filter(|pair| pair.0 != me).collect()
            }
            true if me > 1 => Vec::new(),
            true => vec![(1 - me, me)],
            false => others.map(|other| (other, me)).collect(),
        }
    }

    /// How many read what a member writes for one.
    fn readers(self, members: u32) -> u32 {
        if self.is_shared && self.made_of.is_some() { members - 1 } else { 1 }
    }

    fn at(self, me: u32, members: u32) -> Exchanged {
        let others = ((1_u64 << members) - 1) & !(1 << me);
        let returned = match self.root {
            _ if !self.has_results => 0,
            None => others,
            Some(root) if root == me => others,
            Some(root) => 1 << root,
        };
        let one_way = self.root.filter(|&root| root != me).map_or(0, |root| 1 << root);
        let Round { made_of, until, .. } = self;
        let writers = if self.is_shared { 0b11 } else { (1 << members) - 1 };
        let Round { is_shared, stays, .. } = self;
        Exchanged { read: 0, until, made_of, returned, one_way, is_shared, writers, stays }
    }
}

/// Calls of all kinds one after the other: exchanges, reductions of all and to a root, each of one to three pieces.
fn rounds(members: u32, random: &mut impl FnMut() -> u64) -> Vec<Round> {
    let mut all = Vec::new();
    for _ in 0..300 {
        let (kind, pieces) = (random() % 4, random() % 3 + 1);
        let is_shared = kind == 3;
        let root = (kind == 2).then(|| (random() % u64::from(members)) as u32);
        let first = all.len() as u64;
        let parts_of = |piece: u64| first + (2 * piece).saturating_sub(1);
        let results_of =
            |piece: u64| first + if piece == pieces - 1 { 2 * pieces - 1 } else { 2 * piece + 2 };
        if kind == 0 {
            let plain = |round| Round {
                made_of: None,
                until: first + round,
                root: None,
                has_results: false,
                is_shared: false,
                stays: round == 0,
            };
            all.extend((0..pieces).map(plain));
            continue;
        }
        let mut call = vec![None; 2 * pieces as usize];
        for piece in 0..pieces {
            let (parts, until) = (parts_of(piece), results_of(piece));
            let stays = piece == 0 && kind == 1;
            call[(parts - first) as usize] =
                Some(Round { made_of: None, until, root, has_results: true, is_shared, stays });
            call[(until - first) as usize] =
                Some(Round { made_of: Some(parts), until, root, has_results: true, is_shared, stays: false });
        }
        all.extend(call.into_iter().map(|round| round.expect("every round is of one piece")));
    }
    all
}

#[test]
fn a_block_is_written_by_one_and_only_when_the_other_has_read_it() {
    for members in [3_u32, 4, 5, 8, 16] {
        for seed in 1..6_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let rounds = rounds(members, &mut random);
            let mut all: Vec<Member> =
                (0..members).map(|_| Member { places: Places::default(), written: 0, read: 0 }).collect();
            // By ring and place in it: its bytes, the last round there, who wrote it, for whom, and how many have to read it yet.
            let mut blocks = std::collections::HashMap::<(u32, usize), (usize, u64, u32, u32, u32)>::new();
            // By round and writer: the place.
            let mut said = std::collections::HashMap::new();
            let (mut came_back, mut went_on) = (0, 0);
            while all.iter().any(|member| member.read < rounds.len() as u64) {
                let me = (random() % u64::from(members)) as u32;
                let others: Vec<u32> = (0..members).filter(|&other| other != me).collect();
                let bits = others.iter().fold(0_u64, |bits, other| bits | 1 << other);
                // Of a result nobody needs the contributions any more.
                let slowest = others.iter().map(|&other| all[other as usize].read).min().unwrap_or(0);
                let Member { written, read, .. } = all[me as usize];
                if written < rounds.len() as u64 && random() & 1 == 0 {
                    let round = rounds[written as usize];
                    let what = round.at(me, members);
                    if round.is_shared && me > 1 {
                        // It writes nothing, and counts all the same.
                        if what.made_of.is_none() {
                            all[me as usize].places.begin(written, what, bits);
                        }
                        all[me as usize].written += 1;
                        continue;
                    }
                    let places = &mut all[me as usize].places;
                    let waits =
                        what.made_of.is_none() && (places.unread(what) > read || places.lent(what) > slowest);
                    // All contributions are there before a result is made of them.
                    let waits = waits
                        || written >= slowest + CELLS
                        || what.made_of.is_some_and(|parts| read <= parts);
                    if waits {
                        continue;
                    }
                    let place = places.begin(written, what, bits);
                    assert_eq!(Place::of(place.word()), place);
                    said.insert((written, me), place);
                    for &other in others.iter().filter(|&&other| round.writes(me, other)) {
                        let (ring, at, len) = place.given(me, other, PLACE);
                        let meets =
                            |&((old_ring, old), &(old_len, ..)): &(&(u32, usize), &(usize, _, _, _, _))| {
                                *old_ring == ring && *old < at + len && at < old + old_len
                            };
                        let met: Vec<_> =
                            blocks.iter().filter(meets).map(|(&at, &block)| (at, block)).collect();
                        for (old, (old_len, round, writer, reader, left)) in met {
                            assert!(left == 0, "{members} members, seed {seed}: round {round} by {writer}");
                            blocks.remove(&old);
                            // Unless it was divided otherwise before.
                            if (old, old_len) == ((ring, at), len) {
                                assert!([writer, reader].contains(&me) && [writer, reader].contains(&other));
                                if reader == me { came_back += 1 } else { went_on += 1 }
                            }
                        }
                        blocks.insert((ring, at), (len, written, me, other, round.readers(members)));
                    }
                    all[me as usize].written += 1;
                } else if read < written {
                    let round = rounds[read as usize];
                    // Who gets no result waits for nobody's.
                    let is_mine = round.made_of.is_none() || round.root.is_none_or(|root| root == me);
                    if is_mine && others.iter().any(|&other| all[other as usize].written <= read) {
                        continue;
                    }
                    for (other, to) in round.reads(me, members).into_iter().filter(|_| is_mine) {
                        let (ring, at, _) = said[&(read, other)].given(other, to, PLACE);
                        let (_, found, writer, reader, left) =
                            blocks.get_mut(&(ring, at)).expect("what was written");
                        assert_eq!((*found, *writer, *reader), (read, other, to), "seed {seed}");
                        *left -= 1;
                    }
                    all[me as usize].read += 1;
                }
            }
            assert!(came_back > 8 * went_on, "{came_back} blocks written by their readers, {went_on} not");
        }
    }
}

#[test]
fn blocks_fit_their_part_and_do_not_begin_at_one_place_of_the_caches() {
    for members in 2..=16 {
        for part in [64 << 10, 256 << 10, 1 << 20] {
            let place = place_bytes(part);
            let block = block_bytes(place, members);
            assert!(
                place * PLACES <= part && block * (members - 1) <= place && block / LINE % 2 == 1,
                "{members} of {part}: {block}"
            );
            // Round numbers of bytes fit a block, though no stride is one.
            let place = place_bytes(part_bytes(part));
            let block = block_bytes(place, members);
            assert!(
                block >= part.min(MOST - SPARE) / (members - 1) / LINE * LINE,
                "{members} of {part}: {block}"
            );
        }
    }
    assert_eq!(block_bytes(2048, 16), LINE);
    assert_eq!([block_bytes(1024, 16), block_bytes(4096, 1)], [0, 0], "none");
}

#[test]
fn a_call_begins_where_the_one_before_ended_and_its_pieces_take_turns() {
    let mut places = Places::default();
    let mut numbers = |pieces: u64, first: u64| {
        (first..first + pieces)
            .map(|round| {
                let stays = round == first;
                let what = Exchanged {
                    read: round,
                    until: round,
                    made_of: None,
                    returned: 0,
                    one_way: 0,
                    is_shared: false,
                    writers: 0b111,
                    stays,
                };
                places.begin(round, what, 0b110).number
            })
            .collect::<Vec<_>>()
    };
    let calls = [numbers(1, 0), numbers(1, 1), numbers(3, 2), numbers(2, 5), numbers(1, 7)];
    let [one, again, three, two, last] = calls;
    assert_eq!((one[0], again[0]), (three[0], three[0]), "one place");
    assert!(three[0] != three[1] && three[0] == three[2]);
    assert!(two[0] == three[2] && two[1] != two[0] && last[0] == two[1]);
}

#[test]
fn a_place_that_is_divided_otherwise_waits_for_all() {
    let what = |round, writers| Exchanged {
        read: round,
        until: round,
        made_of: None,
        returned: 0,
        one_way: 0,
        is_shared: false,
        writers,
        stays: true,
    };
    let mut places = Places::default();
    places.begin(0, what(0, 0b111), 0b110);
    assert_eq!([0b111, 0b011].map(|writers| places.lent(what(1, writers))), [0, 1]);
}
