//! Groups of a world's processes, which run collectives through the provider, made as the engine makes them: all open, show their cards and join; where
//! one cannot, nobody uses it.

use crate::people::{State, World, byte};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use weft_api::offload::{
    Arithmetic, Collective, Element, GroupId, Joining, Offload, Operation, Outcome, Outline, Piece, Program,
    Whole,
};
use weft_types::PeerId;

/// Groups at a time, and collectives of a member in one.
const MOST_GROUPS: usize = 3;
const MOST_CALLS: usize = 4;

pub(crate) struct Group {
    /// By rank.
    members: Vec<usize>,
    parts: Vec<Part>,
    /// In the order in which all hand them over.
    calls: Vec<Outline>,
    /// A member could not join, or died before it had.
    broken: bool,
    /// No other collectives follow.
    ends: bool,
}

/// A member.
struct Part {
    id: GroupId,
    card: Vec<u8>,
    step: Step,
    handed: Vec<Handed>,
    /// So many of these have ended.
    ended: usize,
    /// All that follow end as this did.
    last: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Opened,
    Joining,
    Joined,
    /// It knows that the group will not be.
    Apart,
    Left,
}

/// What a member works on.
struct Handed {
    operand: Vec<AtomicU8>,
    result: Vec<AtomicU8>,
}

const NOTHING: Piece = Piece { address: 0, bytes: 0 };

fn piece(memory: &[AtomicU8]) -> Piece {
    Piece { address: memory.as_ptr() as u64, bytes: memory.len() as u64 }
}

fn bytes_of(memory: &[AtomicU8]) -> Vec<u8> {
    memory.iter().map(|cell| cell.load(Relaxed)).collect()
}

/// What a member brings to a collective.
fn operand(group: usize, call: usize, rank: usize, outline: &Outline) -> Vec<u8> {
    let stamp = (group * 1000 + call * 10 + rank) as u64 + 1;
    let number = |at: usize| i32::from(byte(stamp, at)) - 100;
    let elements = outline.bytes as usize;
    match outline.arithmetic.map(|arithmetic| arithmetic.element) {
        None => (0..elements).map(|at| byte(stamp, at)).collect(),
        Some(Element::Float(_)) => {
            // Of very different size, so that the order of additions is seen.
            let value =
                |at| (f64::from(number(at)) + 0.1) * 10_f64.powi((rank as i32 * 7 + at as i32) % 30 - 15);
            (0..elements / 8).flat_map(|at| value(at).to_ne_bytes()).collect()
        }
        Some(_) => (0..elements / 4).flat_map(|at| number(at).to_ne_bytes()).collect(),
    }
}

/// Whether `found` is what the operands of all make, up to the last bits of a sum.
fn is_result(outline: &Outline, operands: &[Vec<u8>], found: &[u8]) -> bool {
    let Some(Arithmetic { operation, element }) = outline.arithmetic else { return true };
    if let Element::Float(_) = element {
        let values = |bytes: &[u8]| -> Vec<f64> {
            bytes.as_chunks().0.iter().map(|&bytes| f64::from_ne_bytes(bytes)).collect()
        };
        let all: Vec<Vec<f64>> = operands.iter().map(|bytes| values(bytes)).collect();
        return values(found).into_iter().enumerate().all(|(at, found)| {
            let each = all.iter().map(|values| values[at]);
            let size: f64 = each.clone().map(f64::abs).sum();
            match operation {
                Operation::Sum => (found - each.sum::<f64>()).abs() <= size * 1e-12,
                _ => found == each.fold(f64::NEG_INFINITY, f64::max),
            }
        });
    }
    let numbers = |bytes: &[u8]| -> Vec<i32> {
        bytes.as_chunks().0.iter().map(|&bytes| i32::from_ne_bytes(bytes)).collect()
    };
    let all: Vec<Vec<i32>> = operands.iter().map(|bytes| numbers(bytes)).collect();
    numbers(found).into_iter().enumerate().all(|(at, found)| {
        let each = all.iter().map(|numbers| numbers[at]);
        found == if operation == Operation::Sum { each.sum() } else { each.max().expect("there are members") }
    })
}

impl World<'_> {
    /// The groups that a process is in and has not left: place and rank.
    fn groups_of(&self, me: usize) -> Vec<(usize, usize)> {
        let rank = |group: &Group| group.members.iter().position(|&member| member == me);
        let places = self.groups.iter().enumerate().filter_map(|(place, group)| Some((place, rank(group)?)));
        places.filter(|&(place, rank)| self.groups[place].parts[rank].step != Step::Left).collect()
    }

    /// Whether it may end: it has left all groups, and got what it handed over.
    pub(crate) fn is_in_no_group(&self, me: usize) -> bool {
        self.groups_of(me).is_empty() && self.collectives[me].is_empty()
    }

    /// Some processes open a group.
    pub(crate) fn gather(&mut self, me: usize) {
        let mut members: Vec<usize> = self.open_ends();
        members.retain(|&other| self.states[other] == State::Lives);
        members.retain(|&other| other == me || self.random.chance(0.7));
        // Ranks in any order.
        for at in (1..members.len()).rev() {
            let other = self.below(at + 1);
            members.swap(at, other);
        }
        let many = self.open_ends().iter().any(|&other| self.groups_of(other).len() >= MOST_GROUPS);
        if members.len() < 2 || many {
            return;
        }
        let size = members.len() as u32;
        let offered: Vec<Option<u64>> =
            members.iter().map(|&member| self.end(member).offers_groups(size)).collect();
        assert!(offered.iter().all(|&digest| digest == offered[0] && digest.is_some()), "{offered:?}");
        let opened = |member: &usize| {
            let (id, card) = self.end(*member).open_group(size).expect("an end of a group");
            Part { id, card, step: Step::Opened, handed: Vec::new(), ended: 0, last: None }
        };
        let parts = members.iter().map(opened).collect();
        self.groups.push(Group { members, parts, calls: Vec::new(), broken: false, ends: false });
    }

    /// A process does what is next in one of its groups, or in all of them so that they end.
    pub(crate) fn go_on_in_groups(&mut self, me: usize, to_end: bool) {
        let mut places = self.groups_of(me);
        if !to_end && !places.is_empty() {
            let one = self.below(places.len());
            places = vec![places[one]];
        }
        for (place, rank) in places {
            self.groups[place].ends |= to_end || self.random.chance(0.1);
            self.go_on_in(me, place, rank);
        }
    }

    fn go_on_in(&mut self, me: usize, place: usize, rank: usize) {
        let Part { id, step, .. } = self.groups[place].parts[rank];
        match step {
            Step::Opened => {
                let group = &self.groups[place];
                let cards: Vec<Vec<u8>> = group.parts.iter().map(|part| part.card.clone()).collect();
                let cards: Vec<&[u8]> = cards.iter().map(|card| &card[..]).collect();
                let members: Vec<PeerId> =
                    group.members.iter().map(|&member| PeerId(member as u32)).collect();
                let joins = self.end(me).join_group(id, place as u32, &members, &cards);
                if let Err(error) = &joins {
                    assert!(self.plan.refuses_joins(), "{me} cannot join: {}", error.text());
                }
                self.is_at(place, rank, if joins.is_ok() { Step::Joining } else { Step::Apart });
            }
            Step::Joining => match self.end(me).joined(id) {
                Joining::Waiting => {}
                Joining::Joined => self.is_at(place, rank, Step::Joined),
                Joining::Failed(why) => {
                    let group = &self.groups[place];
                    let lost = group.members.iter().any(|&other| other != me && self.may_lose(me, other));
                    assert!(lost || self.plan.refuses_joins(), "{me} could not join: {why}");
                    self.is_at(place, rank, Step::Apart);
                }
            },
            Step::Apart => self.leave(me, place, rank),
            Step::Joined => {
                let group = &self.groups[place];
                // What they tell each other of their joining, which tells of a death, too.
                let mut agreed = true;
                let mut broken = group.broken;
                for (part, &member) in group.parts.iter().zip(&group.members) {
                    let knows = [Step::Joined, Step::Left, Step::Apart].contains(&part.step);
                    agreed &= knows || self.is_away(member);
                    broken |= !knows && self.is_away(member);
                }
                if broken {
                    self.groups[place].broken = true;
                    self.leave(me, place, rank);
                } else if agreed {
                    self.next_call(me, place, rank);
                }
            }
            Step::Left => {}
        }
    }

    fn is_at(&mut self, place: usize, rank: usize, step: Step) {
        self.moved = true;
        self.groups[place].broken |= step == Step::Apart;
        self.groups[place].parts[rank].step = step;
    }

    fn leave(&mut self, me: usize, place: usize, rank: usize) {
        let id = self.groups[place].parts[rank].id;
        self.end(me).leave_group(id);
        self.is_at(place, rank, Step::Left);
    }

    /// Hands over the next collective, or leaves after the last one.
    fn next_call(&mut self, me: usize, place: usize, rank: usize) {
        let Group { parts, calls, ends, .. } = &self.groups[place];
        let part = &parts[rank];
        let call = part.handed.len();
        if call == calls.len() {
            if *ends {
                return self.leave(me, place, rank);
            }
            let (id, size) = (part.id, parts.len());
            let outline = self.outline(size);
            if self.end(me).can_run(&outline, Some(id), &|rank| PeerId(rank)).is_err() {
                return;
            }
            self.groups[place].calls.push(outline);
        } else if call - part.ended >= MOST_CALLS {
            return;
        }
        let Group { parts, calls, .. } = &mut self.groups[place];
        let outline = calls[call];
        let part = &mut parts[rank];
        let given = operand(place, call, rank, &outline);
        let (gives, gets) = match outline.collective {
            Collective::Barrier => (false, false),
            Collective::Bcast(root) => (rank == root as usize, rank != root as usize),
            Collective::Reduce(root) => (true, rank == root as usize),
            Collective::Allreduce => (true, true),
        };
        let result = if gets { given.iter().map(|_| AtomicU8::new(0x5a)).collect() } else { Vec::new() };
        let operand = if gives { given.into_iter().map(AtomicU8::new).collect() } else { Vec::new() };
        let handed = Handed { operand, result };
        let of = |there: bool, memory| if there { piece(memory) } else { NOTHING };
        let (operand, result) = (of(gives, &handed.operand), of(gets, &handed.result));
        let whole = Some(Whole { group: part.id, operand, result });
        part.handed.push(handed);
        let token = self.next;
        self.next += 1;
        self.collectives[me].insert(token, (place, rank, call));
        let program =
            Program { outline, whole, steps: Vec::new(), waits_for: Vec::new(), successors: Vec::new() };
        self.end(me).hand_over(&Arc::new(program), token);
        self.moved = true;
    }

    fn outline(&mut self, size: usize) -> Outline {
        let root = self.below(size) as u32;
        let kinds =
            [Collective::Barrier, Collective::Bcast(root), Collective::Reduce(root), Collective::Allreduce];
        let collective = kinds[self.below(4)];
        let operation = if self.random.chance(0.5) { Operation::Sum } else { Operation::Max };
        let element = if self.random.chance(0.5) { Element::Float(8) } else { Element::Signed(4) };
        let count = [1, 2, 3, 8, 30][self.below(5)];
        let (bytes, arithmetic) = match collective {
            Collective::Barrier => (0, None),
            Collective::Bcast(_) => (count, None),
            _ => (count * u64::from(element.bytes()), Some(Arithmetic { operation, element })),
        };
        Outline { collective, ranks: size as u32, bytes, arithmetic }
    }

    /// What is told to have ended has, in order.
    pub(crate) fn hear_of_collectives(&mut self, me: usize) {
        while let Some(finished) = self.end(me).finished() {
            self.moved = true;
            let ended = self.collectives[me].remove(&finished.token);
            let (place, rank, call) = ended.expect("it is told once, of what was handed over");
            let part = &mut self.groups[place].parts[rank];
            assert_eq!(part.ended, call, "one after the other");
            part.ended += 1;
            if let Some(last) = &part.last {
                assert_eq!(*last, finished.outcome, "the group has ended");
            }
            let Group { members, parts, calls, .. } = &self.groups[place];
            match &finished.outcome {
                Outcome::Done => self.check_collective((place, rank, call), &calls[call]),
                Outcome::Lost(PeerId(lost)) => {
                    let lost = *lost as usize;
                    assert!(lost != me && members.contains(&lost), "{me} misses {lost} in {members:?}");
                    assert!(self.may_lose(me, lost), "{me} misses {lost}, which {:?}", self.states[lost]);
                }
                Outcome::Failed(error) => {
                    // The provider may fail it before it is known who died.
                    let lost = members.iter().any(|&other| other != me && self.may_lose(me, other));
                    assert!(
                        lost || self.plan.fails_collectives(),
                        "a collective of {me} fails: {}",
                        error.text()
                    );
                }
            }
            debug_assert!(parts[rank].ended <= parts[rank].handed.len());
            if finished.outcome != Outcome::Done {
                self.groups[place].parts[rank].last = Some(finished.outcome);
            }
        }
    }

    /// A collective that is done: those that it needs have handed it over, and it is what it should be.
    fn check_collective(&self, (place, rank, call): (usize, usize, usize), outline: &Outline) {
        let parts = &self.groups[place].parts;
        let has = |rank: usize| parts[rank].handed.len() > call;
        let needed: Vec<usize> = match outline.collective {
            Collective::Bcast(root) => vec![root as usize],
            Collective::Reduce(root) if root as usize != rank => Vec::new(),
            _ => (0..parts.len()).collect(),
        };
        assert!(needed.iter().all(|&rank| has(rank)), "{outline:?} is over too early at rank {rank}");
        let Handed { operand: given, result } = &parts[rank].handed[call];
        let operands: Vec<Vec<u8>> =
            (0..parts.len()).map(|rank| operand(place, call, rank, outline)).collect();
        assert!(
            given.is_empty() || bytes_of(given) == operands[rank],
            "{outline:?} has written to its operand"
        );
        if result.is_empty() {
            return;
        }
        let found = bytes_of(result);
        if let Collective::Bcast(root) = outline.collective {
            assert_eq!(found, operands[root as usize], "{outline:?} at rank {rank}");
        }
        assert!(is_result(outline, &operands, &found), "{outline:?} at rank {rank}: {found:?}");
        if outline.collective == Collective::Allreduce {
            let others = parts.iter().filter(|part| part.ended > call && part.last.is_none());
            let same = |part: &Part| bytes_of(&part.handed[call].result) == found;
            assert!(others.into_iter().all(same), "{outline:?}: not the same bits at all");
        }
    }

    /// What of groups is not over; `None`: all is.
    pub(crate) fn open_group(&self) -> Option<&'static str> {
        let open = self.open_ends();
        if open.iter().any(|&me| !self.collectives[me].is_empty()) {
            return Some("collectives that do not end");
        }
        if open.iter().any(|&me| !self.groups_of(me).is_empty()) {
            return Some("groups that are not joined or left");
        }
        (crate::library::count(self.plan.provider, "groups") > 0).then_some("groups that do not close")
    }
}
