//! Time, messages, bytes and memory of constructions at many ranks, by running every rank's part of the real agreement and split
//! against a model of a network, in one process. The table is kept in `scale.txt`: a change is a difference there.
//! `WEFT_UPDATE=1 cargo test -p weft scale` writes it anew.
//!
//! The model (LogGP with one message at a time at each end): 1 us on the way, 0.3 us of work for a message at either end,
//! 0.08 ns a byte on the wire (100 Gbit/s), and 2 ns for each member that a process writes down.

use super::sweep::{Members, Sweep};
use super::table::Entry;
use crate::comm::Comm;
use crate::context::{Proposal, ROOM, WELL};
use crate::group::Group;
use std::fmt::Write as _;
use weft_coll::{Call, Group as Place, Link, Model, Vector, rank_algorithms};
use weft_types::{Age, PeerId};

const LATENCY: f64 = 1e-6;
const OVERHEAD: f64 = 0.3e-6;
const PER_BYTE: f64 = 0.08e-9;
const PER_MEMBER: f64 = 2e-9;
/// Header of the transport, length and name of the construction.
const LETTER: usize = 16 + 4 + 9;

/// What one process did.
#[derive(Clone, Debug, Default)]
struct Costs {
    sent: u64,
    bytes: u64,
    /// Bytes of colors and keys held at most.
    held: usize,
    done: f64,
}

/// Runs the sweeps of all processes. Children of a process have greater numbers, so that one pass up and one pass down see every
/// letter after it was sent.
fn run(mut sweeps: Vec<Sweep>) -> (Vec<Costs>, Vec<Option<Members>>) {
    let count = sweeps.len();
    let mut costs = vec![Costs::default(); count];
    let mut arriving: Vec<Vec<(u32, f64, Vec<u8>)>> = vec![Vec::new(); count];
    let mut members = vec![None; count];
    let mut pass = |places: &mut dyn Iterator<Item = usize>| {
        for place in places {
            let sweep = &mut sweeps[place];
            loop {
                // The top turns round with the colors of all.
                let all = if place == 0 && sweep.held() > 0 { count * size_of::<Entry>() } else { 0 };
                costs[place].held = costs[place].held.max(sweep.held()).max(all);
                for (to, letter) in sweep.leaving() {
                    let cost = &mut costs[place];
                    let bytes = letter.len() + LETTER;
                    cost.sent += 1;
                    cost.bytes += bytes as u64;
                    cost.done += OVERHEAD;
                    let arrival = cost.done + LATENCY + bytes as f64 * PER_BYTE;
                    arriving[to as usize].push((place as u32, arrival, letter));
                }
                let Some(from) = sweep.next() else { break };
                let letters = &mut arriving[place];
                let Some(next) = letters.iter().position(|&(sender, ..)| sender == from) else { break };
                let (_, arrival, letter) = letters.swap_remove(next);
                let before = sweep.held();
                sweep.hear(&letter).expect("a letter");
                let members = sweep.held().saturating_sub(before) / size_of::<Entry>();
                costs[place].done = costs[place].done.max(arrival) + OVERHEAD + members as f64 * PER_MEMBER;
            }
            if let Some(outcome) = sweep.outcome() {
                let own = outcome.members.as_ref().map_or(0, |m| m.first.size() + m.second.size());
                costs[place].done += f64::from(own) * PER_MEMBER;
                members[place] = outcome.members;
            }
        }
    };
    pass(&mut (0..count).rev());
    pass(&mut (0..count));
    (costs, members)
}

fn proposal() -> Proposal {
    Proposal { mask: [u64::MAX; 8], flags: WELL | ROOM, open: 0, age: Age::WORLD }
}

fn row(text: &mut String, name: &str, ranks: u32, costs: &[Costs], group_bytes: usize) {
    let most = |of: fn(&Costs) -> f64| costs.iter().map(of).fold(0.0, f64::max);
    let total: f64 = costs.iter().map(|cost| cost.bytes as f64).sum();
    writeln!(
        text,
        "{name:<34} {ranks:>7} {:>5} {:>9} {:>9.0} {:>9} {:>9} {:>9.1}",
        most(|cost| cost.sent as f64),
        most(|cost| cost.bytes as f64),
        total / costs.len() as f64,
        most(|cost| cost.held as f64),
        group_bytes,
        most(|cost| cost.done) * 1e6,
    )
    .expect("strings take everything");
}

/// The processes that really pick their groups out of what they hear: all would be 10^10 steps where groups are large. Letters
/// are the same.
fn looks(place: u32, ranks: u32) -> bool {
    place.is_multiple_of(997) || place == ranks / 2 || place == ranks - 1
}

fn split_row(text: &mut String, name: &str, ranks: u32, entry: impl Fn(u32) -> (i32, i32)) {
    let sweeps = (0..ranks).map(|place| {
        let (color, key) = entry(place);
        let mut sweep = Sweep::split(place, ranks, ranks, Entry { color, key }, proposal());
        if !looks(place, ranks) {
            sweep.lose_interest();
        }
        sweep
    });
    let (costs, members) = run(sweeps.collect());
    let world = Group::world(ranks);
    // The checks of the definition are in `sweep`; here a look at one group, and at the largest in memory.
    let group_of = |members: &Option<Members>| members.as_ref().map(|m| m.processes(&world, &Group::EMPTY).0);
    for rank in [0, ranks / 2, ranks - 1] {
        let (color, _) = entry(rank);
        let size = (0..ranks).filter(|&rank| entry(rank).0 == color).count() as u32;
        let made = group_of(&members[rank as usize]);
        assert_eq!(made.as_ref().map_or(0, Group::size), if color < 0 { 0 } else { size });
        assert!(made.is_none_or(|made| made.rank_of(PeerId(rank)).is_some()));
    }
    let largest = members.iter().filter_map(group_of).map(|group| group.heap_bytes()).max().unwrap_or(0);
    row(text, name, ranks, &costs, largest);
}

/// Every call of the pattern `dup` (dup, create, merge, a window): one allreduce of a proposal, chosen by the cost model.
fn duplicate_row(text: &mut String, ranks: u32) {
    let inside =
        Link { latency: LATENCY, overhead: OVERHEAD, per_byte: PER_BYTE, duplex: 1.0, ..Link::MEMORY };
    let model = Model { inside, ..Model::default() };
    let vector = Vector { count: Proposal::WORDS as u64, element: 8, commutative: true };
    let call = Call::Allreduce { vector, in_place: true };
    let place = Place { rank: 0, size: ranks };
    let (algorithm, seconds) = rank_algorithms(&call, place, &model)[0];
    let each = algorithm.messages(&call, place, &model) / f64::from(ranks);
    let bytes = each * (Proposal::BYTES + 16) as f64;
    let name = format!("dup ({})", algorithm.name);
    writeln!(
        text,
        "{name:<34} {ranks:>7} {:>5.0} {bytes:>9.0} {bytes:>9.0} {:>9} {:>9} {:>9.1}",
        each.ceil(),
        0,
        0,
        seconds * 1e6
    )
    .expect("strings take everything");
}

#[test]
fn the_table_of_times_and_bytes_is_as_kept() {
    let mut text = String::from(
        "construction                         ranks  sent bytes max bytes avg  held max group mem   time us\n",
    );
    for ranks in [1_000, 100_000] {
        duplicate_row(&mut text, ranks);
        let whole = run((0..ranks).map(|place| Sweep::agree(place, ranks, proposal())).collect());
        row(&mut text, "create_group, everybody", ranks, &whole.0, 0);
        split_row(&mut text, "split, rank / 50", ranks, |rank| (rank as i32 / 50, rank as i32));
        let scattered = |rank: u32| (rank.wrapping_mul(2_654_435_761) >> 8) as i32;
        let in_fifties = |rank: u32| (scattered(rank) % (ranks as i32 / 50), 0);
        split_row(&mut text, "split, scattered in 50s", ranks, in_fifties);
        if ranks > 1_000 {
            continue;
        }
        split_row(&mut text, "split, rank % 50", ranks, |rank| (rank as i32 % 50, rank as i32));
        split_row(&mut text, "split, every 50th", ranks, |rank| (i32::from(rank % 50 == 0) - 1, 0));
        split_row(&mut text, "split, everybody backwards", ranks, |rank| (0, -(rank as i32)));
        // Everybody gets the whole list: at 100,000 ranks 40 GB in all, as much as the new communicator's groups take.
        split_row(&mut text, "split, everybody in random order", ranks, |rank| (0, scattered(rank)));
    }
    // 32 bytes of it are the ways to four ranks (`comm::routes`).
    assert!(
        size_of::<Comm>() <= 248 && size_of::<Group>() <= 32,
        "a communicator takes {} bytes beside its group's heap, a group {}",
        size_of::<Comm>(),
        size_of::<Group>()
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/construct/scale.txt");
    if std::env::var_os("WEFT_UPDATE").is_some() {
        std::fs::write(path, &text).expect("the table can be written");
    }
    assert_eq!(text, include_str!("scale.txt"), "the table has changed: WEFT_UPDATE=1 writes it anew");
}
