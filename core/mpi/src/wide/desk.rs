//! How the lanes of processes find each other on a fabric: who asks whom, and who knows what. Pure; letters in, letters out.
//!
//! A lane's end on the fabric is opened when the first communicator needs it, long after the processes of the job have left
//! their addresses with the launcher. So whoever wants to reach a process in a lane for the first time asks it, by a letter in
//! lane 0, which says how the asker's own end of that lane is found. The answer may take until that process has opened the
//! lane, too: it does, when it makes the same communicator.
//!
//! Invariants:
//! * Nobody is written to whose own directory cannot answer. Letters and a lane's messages go different ways, and of the two a
//!   message may be first. So how a process is found ([`Desk::card`]) and whether it may be written to ([`Desk::is_known`]) are
//!   two things: its question tells the first, its answer the second, because whoever answers has had the question and knows
//!   how the asker is found. Two that want each other both ask.
//! * Of each lane and process there is one question and one answer at most. Memory is one card for each process talked to in a
//!   lane.

use crate::letters::Reader;
use std::collections::{HashMap, HashSet, VecDeque};
use weft_types::{PeerId, Result};

use crate::lanes::LANES;

/// How an end is found, in the fabric's own words; or why there is none.
pub(crate) type Card = std::result::Result<String, String>;

/// What processes write each other about lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    /// Tell me how your end of this lane is found; mine is found so.
    Ask(u32, String),
    /// Mine is found so, or cannot be opened.
    Answer(u32, Card),
}

const ASK: u8 = 1;
const ANSWER: u8 = 2;
const CANNOT: u8 = 3;

impl Letter {
    /// As it travels.
    pub(crate) fn emit(&self) -> Vec<u8> {
        let (code, lane, text) = match self {
            Letter::Ask(lane, card) => (ASK, lane, card),
            Letter::Answer(lane, Ok(card)) => (ANSWER, lane, card),
            Letter::Answer(lane, Err(why)) => (CANNOT, lane, why),
        };
        [&[code, *lane as u8], text.as_bytes()].concat()
    }

    /// What travelled.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` for bytes that are no such letter.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Letter> {
        let mut reader = Reader::new(bytes);
        let &[code, lane] = reader.bytes(2)? else { unreachable!("two bytes were asked for") };
        let broken = reader.broken();
        let Ok(text) = String::from_utf8(reader.rest().to_vec()) else { return Err(broken) };
        let lane = u32::from(lane);
        match code {
            _ if lane == 0 || lane >= LANES => Err(broken),
            ASK => Ok(Letter::Ask(lane, text)),
            ANSWER => Ok(Letter::Answer(lane, Ok(text))),
            CANNOT => Ok(Letter::Answer(lane, Err(text))),
            _ => Err(broken),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// How this process's own ends are found.
    own: [Option<Card>; LANES as usize],
    /// How others' are, as their questions and answers say.
    cards: HashMap<(u32, PeerId), Card>,
    /// Who has answered, or cannot: those may be written to, or it fails.
    answered: HashSet<(u32, PeerId)>,
    /// Who was asked and has not answered.
    asked: HashSet<(u32, PeerId)>,
    /// Who has asked: whoever does so again has its answer, or will.
    askers: HashSet<(u32, PeerId)>,
    /// Who has asked about a lane that is not open here.
    owed: Vec<(u32, PeerId)>,
    /// What is to be written.
    leaving: VecDeque<(PeerId, Letter)>,
}

impl Desk {
    /// Whether a process may be written to in a lane, or is known not to be reached; if neither it is asked.
    pub(crate) fn is_known(&mut self, lane: u32, peer: PeerId) -> bool {
        let answered = self.answered.contains(&(lane, peer));
        if !answered
            && let Some(Ok(own)) = &self.own[lane as usize]
            && self.asked.insert((lane, peer))
        {
            self.leaving.push_back((peer, Letter::Ask(lane, own.clone())));
        }
        answered
    }

    /// How a process is found in a lane. That it can be does not mean that it may be written to.
    pub(crate) fn card(&self, lane: u32, peer: PeerId) -> Option<&Card> {
        self.cards.get(&(lane, peer))
    }

    /// This process has opened its end of a lane, or cannot.
    pub(crate) fn opened(&mut self, lane: u32, card: Card) {
        for (_, peer) in self.owed.extract_if(.., |&mut (owed, _)| owed == lane) {
            self.leaving.push_back((peer, Letter::Answer(lane, card.clone())));
        }
        self.own[lane as usize] = Some(card);
    }

    /// Those that cannot be reached in a lane.
    pub(crate) fn unreachable(&self, lane: u32) -> impl Iterator<Item = PeerId> {
        let cards = self.cards.iter().filter(move |((of, _), card)| *of == lane && card.is_err());
        cards.map(|(&(_, peer), _)| peer)
    }

    /// A letter has come. The lane that it is about, in which somebody may wait for it.
    pub(crate) fn heard(&mut self, from: PeerId, letter: Letter) -> u32 {
        match letter {
            Letter::Ask(lane, card) => {
                if self.askers.insert((lane, from)) {
                    match &self.own[lane as usize] {
                        Some(own) => self.leaving.push_back((from, Letter::Answer(lane, own.clone()))),
                        None => self.owed.push((lane, from)),
                    }
                }
                self.cards.entry((lane, from)).or_insert(Ok(card));
                lane
            }
            Letter::Answer(lane, card) => {
                self.settle(lane, from, card);
                lane
            }
        }
    }

    /// A letter could not be written. The lane that it was about.
    pub(crate) fn failed(&mut self, to: PeerId, letter: &Letter, why: String) -> u32 {
        let (Letter::Ask(lane, _) | Letter::Answer(lane, _)) = *letter;
        self.settle(lane, to, Err(why));
        lane
    }

    /// Nothing more is waited for. That a process cannot be reached holds whatever else it has said.
    fn settle(&mut self, lane: u32, peer: PeerId, card: Card) {
        self.asked.remove(&(lane, peer));
        self.answered.insert((lane, peer));
        match card {
            Ok(_) => drop(self.cards.entry((lane, peer)).or_insert(card)),
            Err(_) => drop(self.cards.insert((lane, peer), card)),
        }
    }

    /// Whether there are letters to be written.
    pub(crate) fn has_letters(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The next letter to be written.
    pub(crate) fn next(&mut self) -> Option<(PeerId, Letter)> {
        self.leaving.pop_front()
    }
}

/// What a fuzzer calls with what another process wrote: a letter that is read is written the same, and a desk that hears any number of
/// them keeps one card and one debt of each lane and process, and gives one answer. The first byte of each piece says how long the
/// next letter is, or that a lane opens or a process is wanted.
///
/// # Panics
/// When that is not so.
pub fn check_lane_letters(bytes: &[u8]) {
    const PEERS: u32 = 3;
    if let Ok(letter) = Letter::parse(bytes) {
        assert_eq!(letter.emit(), bytes);
    }
    let mut desk = Desk::default();
    let mut said = HashSet::new();
    let mut rest = bytes;
    while let Some((&step, behind)) = rest.split_first() {
        let (lane, peer) = (1 + u32::from(step) % (LANES - 1), PeerId(u32::from(step) % PEERS));
        rest = match step >> 6 {
            0 => {
                desk.opened(lane, if step & 1 == 0 { Ok("here".to_owned()) } else { Err("no".to_owned()) });
                behind
            }
            1 => {
                let known = desk.is_known(lane, peer);
                assert!(!known || desk.card(lane, peer).is_some());
                behind
            }
            _ => {
                let (letter, behind) = behind.split_at(usize::from(step & 0x1f).min(behind.len()));
                if let Ok(letter) = Letter::parse(letter) {
                    assert!((1..LANES).contains(&desk.heard(peer, letter)));
                }
                behind
            }
        };
        while let Some((to, letter)) = desk.next() {
            let (Letter::Ask(lane, _) | Letter::Answer(lane, _)) = letter;
            let asks = matches!(letter, Letter::Ask(..));
            assert!(said.insert((asks, to, lane)), "one question and one answer");
        }
        let most = (LANES * PEERS) as usize;
        assert!(desk.owed.len() <= most && desk.cards.len() <= most && desk.askers.len() <= most);
        assert!(!desk.has_letters());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Processes that open lanes and want each other at any time, and letters that arrive in any order among different pairs.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Open(usize, u32, bool),
        Want(usize, usize, u32),
        Deliver(usize),
    }

    const PROCESSES: usize = 4;

    fn card(process: usize, lane: u32) -> String {
        format!("{process}/{lane}")
    }

    fn step() -> impl Strategy<Value = Step> {
        let process = || 0..PROCESSES;
        let lane = || 1_u32..3;
        prop_oneof![
            (process(), lane(), prop::bool::weighted(0.9))
                .prop_map(|(at, lane, well)| Step::Open(at, lane, well)),
            (process(), process(), lane()).prop_map(|(at, to, lane)| Step::Want(at, to, lane)),
            any::<usize>().prop_map(Step::Deliver),
        ]
    }

    struct World {
        desks: [Desk; PROCESSES],
        /// One queue for each pair, in order.
        flying: Vec<(usize, usize, VecDeque<Letter>)>,
        written: HashSet<(usize, usize, Vec<u8>)>,
    }

    impl World {
        fn collect(&mut self) {
            for from in 0..PROCESSES {
                while let Some((PeerId(to), letter)) = self.desks[from].next() {
                    let to = to as usize;
                    assert!(self.written.insert((from, to, letter.emit())), "nothing is written twice");
                    let letter = Letter::parse(&letter.emit()).expect("as it was written");
                    match self.flying.iter_mut().find(|(a, b, _)| (*a, *b) == (from, to)) {
                        Some((.., queue)) => queue.push_back(letter),
                        None => self.flying.push((from, to, VecDeque::from([letter]))),
                    }
                }
            }
        }

        fn deliver(&mut self, choice: usize) -> bool {
            self.flying.retain(|(.., queue)| !queue.is_empty());
            if self.flying.is_empty() {
                return false;
            }
            let at = choice % self.flying.len();
            let (from, to, queue) = &mut self.flying[at];
            let letter = queue.pop_front().expect("kept because it is not empty");
            if let Letter::Answer(lane, Ok(_)) = letter {
                let known = self.desks[*from].cards.get(&(lane, PeerId(*to as u32)));
                assert_eq!(known, Some(&Ok(card(*to, lane))), "who tells how it is found knows the asker");
            }
            self.desks[*to].heard(PeerId(*from as u32), letter);
            self.collect();
            true
        }

        /// Whoever may be written to can answer.
        fn check(&mut self) {
            for (at, to, lane) in (0..PROCESSES * PROCESSES * 2).map(|n| (n / 8, n / 2 % 4, 1 + n as u32 % 2))
            {
                let peer = PeerId(to as u32);
                if self.desks[at].answered.contains(&(lane, peer))
                    && self.desks[at].card(lane, peer).is_some_and(Card::is_ok)
                {
                    let known = self.desks[to].card(lane, PeerId(at as u32));
                    assert_eq!(known, Some(&Ok(card(at, lane))), "{to} is written to by {at} and knows it");
                }
            }
        }
    }

    #[test]
    fn who_cannot_be_written_to_is_known_for_it_in_that_lane() {
        let mut desk = Desk::default();
        desk.opened(1, Ok(card(0, 1)));
        assert!(!desk.is_known(1, PeerId(1)));
        let (to, ask) = desk.next().expect("it asks");
        assert_eq!(desk.failed(to, &ask, "it is gone".to_owned()), 1);
        assert!(desk.is_known(1, PeerId(1)));
        assert_eq!(desk.card(1, PeerId(1)), Some(&Err("it is gone".to_owned())));
        assert_eq!(desk.unreachable(1).collect::<Vec<_>>(), [PeerId(1)]);
        assert_eq!(desk.unreachable(2).count(), 0);
        assert!(!desk.is_known(1, PeerId(2)) && desk.has_letters(), "others are asked");
    }

    proptest! {
        #[test]
        fn whoever_is_wanted_is_found_once_both_have_opened_the_lane(steps in prop::collection::vec(step(), 0..200)) {
            let mut world = World { desks: Default::default(), flying: Vec::new(), written: HashSet::new() };
            let mut wants = HashSet::new();
            let open = |world: &mut World, at: usize, lane, well: bool| {
                if world.desks[at].own[lane as usize].is_none() {
                    let own = if well { Ok(card(at, lane)) } else { Err("no descriptor".to_owned()) };
                    world.desks[at].opened(lane, own);
                }
            };
            for step in steps {
                match step {
                    Step::Open(at, lane, well) => open(&mut world, at, lane, well),
                    // Only an open lane has an engine that wants anything.
                    Step::Want(at, to, lane) if at != to && world.desks[at].own[lane as usize].as_ref().is_some_and(Card::is_ok) => {
                        world.desks[at].is_known(lane, PeerId(to as u32));
                        wants.insert((at, to, lane));
                    }
                    Step::Want(..) => {}
                    Step::Deliver(choice) => drop(world.deliver(choice)),
                }
                world.collect();
                world.check();
            }
            for at in 0..PROCESSES {
                (1..3).for_each(|lane| open(&mut world, at, lane, true));
            }
            world.collect();
            while world.deliver(0) {
                world.check();
            }
            for (at, to, lane) in wants {
                let theirs = world.desks[to].own[lane as usize].as_ref().expect("all are open").clone();
                prop_assert!(world.desks[at].is_known(lane, PeerId(to as u32)));
                prop_assert_eq!(world.desks[at].card(lane, PeerId(to as u32)), Some(&theirs));
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            if let Ok(letter) = Letter::parse(&bytes) {
                prop_assert_eq!(letter.emit(), bytes);
            }
        }
    }

    #[test]
    fn who_asks_again_is_answered_once() {
        let mut desk = Desk::default();
        let ask = |peer: u32| (PeerId(peer), Letter::Ask(1, card(peer as usize, 1)));
        for (from, letter) in [ask(1), ask(1), ask(2)] {
            assert_eq!(desk.heard(from, letter), 1);
        }
        assert_eq!(desk.owed.len(), 2);
        desk.opened(1, Ok("here".to_owned()));
        let (again, new) = (ask(2), ask(3));
        desk.heard(again.0, again.1);
        desk.heard(new.0, new.1);
        let answered: Vec<u32> = std::iter::from_fn(|| desk.next()).map(|(to, _)| to.0).collect();
        assert_eq!(answered, [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_answered_once(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            check_lane_letters(&bytes);
        }
    }
}
