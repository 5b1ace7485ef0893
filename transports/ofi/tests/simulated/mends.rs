//! Faults that were found, each by a world that is as small as it can be.

use crate::library::{count, wanted};
use crate::world::all;
use crate::{ALWAYS, Faults, go_wrong, turn};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_api::verbs::Access;
use weft_api::zero_copy::{Completed, LocalRun, MemoryRange, Outcome, Region, RemoteRun, Token};
use weft_api::{Bell, Pollable, Refused, Transport};
use weft_ofi::{Ofi, clock};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Two processes.
pub(crate) struct Two {
    pub(crate) ends: Vec<Ofi>,
}

pub(crate) const ME: usize = 0;
pub(crate) const PEER: usize = 1;

impl Two {
    /// They have not met.
    fn over(provider: &str) -> Two {
        let mut wanted = wanted(provider, None);
        wanted.address = (provider == "sockets").then_some(std::net::Ipv4Addr::LOCALHOST.into());
        wanted.between_nodes = provider != "sockets";
        Two { ends: all(2, &wanted).0 }
    }

    /// Both have heard of each other.
    pub(crate) fn met(provider: &str) -> Two {
        let mut two = Two::over(provider);
        for (from, to) in [(ME, PEER), (PEER, ME)] {
            two.ends[from].connect(PeerId(to as u32)).unwrap();
            let mut sent = false;
            two.until("they meet", |two| {
                sent = sent || two.send(from, 0).is_ok();
                two.take(to) == Some(0)
            });
        }
        two.until("all has left", |two| two.ends.iter().all(Transport::has_left));
        two
    }

    pub(crate) fn send(&mut self, from: usize, number: i32) -> Result<(), Refused> {
        let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number));
        self.ends[from].send_inline(PeerId(1 - from as u32), header, b"word")
    }

    /// The number of the next packet, which is taken.
    pub(crate) fn take(&mut self, at: usize) -> Option<i32> {
        let from = PeerId(1 - at as u32);
        let (header, _) = self.ends[at].peek(from)?;
        self.ends[at].advance(from);
        Some(header.tag().0)
    }

    /// Looks of all ends, enough for each to look at the time.
    pub(crate) fn round(&mut self) {
        for end in &mut self.ends {
            look(end);
            end.push_out();
        }
    }

    /// So much time passes, in which all look often.
    pub(crate) fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            clock::pass(Duration::from_millis(100));
            self.round();
        }
    }

    pub(crate) fn until(&mut self, what: &str, mut happens: impl FnMut(&mut Two) -> bool) {
        self.within(Duration::from_secs(3), what, &mut happens);
    }

    pub(crate) fn within(&mut self, time: Duration, what: &str, mut happens: impl FnMut(&mut Two) -> bool) {
        let begun = clock::passed();
        let mut pause = Duration::from_millis(2);
        while !happens(self) {
            assert!(clock::passed() - begun < time, "in vain for {time:?}: {what}");
            clock::pass(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
            self.round();
        }
    }

    pub(crate) fn is_gone(&self, at: usize) -> bool {
        self.ends[at].is_gone(PeerId(1 - at as u32))
    }
}

/// Looks until it looks at the time.
pub(crate) fn look(end: &mut Ofi) {
    for _ in 0..70 {
        end.progress();
    }
}

pub(crate) struct Memory {
    bytes: Vec<AtomicU8>,
    region: Region,
}

impl Memory {
    pub(crate) fn of(end: &mut Ofi, length: usize, byte: u8) -> Memory {
        let bytes: Vec<AtomicU8> = (0..length).map(|_| AtomicU8::new(byte)).collect();
        let range = MemoryRange { address: bytes.as_ptr() as u64, length: length as u64 };
        let region = end.register(range, Access::ALL).expect("a region");
        Memory { bytes, region }
    }

    pub(crate) fn here(&self, from: usize, length: usize) -> [LocalRun; 1] {
        let address = self.bytes.as_ptr() as u64 + from as u64;
        [LocalRun { address, length: length as u64, region: self.region.id }]
    }

    pub(crate) fn there(&self, from: usize, length: usize) -> [RemoteRun; 1] {
        [RemoteRun { memory: self.region.remote.plus(from as u64), length: length as u64 }]
    }

    fn is_all(&self, byte: u8) -> bool {
        self.bytes.iter().all(|cell| cell.load(Relaxed) == byte)
    }
}

/// The provider ends the process that asks for more in one message than it takes.
#[test]
fn reads_in_one_request_are_together_no_longer_than_a_message() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    let there = Memory::of(&mut two.ends[PEER], 20_000, 7);
    let here = Memory::of(&mut two.ends[ME], 20_000, 0);
    two.ends[ME].progress();
    for at in 0..4 {
        let (from, into) = (there.there(at * 5000, 5000), here.here(at * 5000, 5000));
        two.ends[ME].get(PeerId(1), &from, &into, Token(at as u64)).unwrap();
    }
    two.ends[ME].push_out();
    let mut ended = 0;
    two.until("the reads", |two| {
        ended += std::iter::from_fn(|| two.ends[ME].completed()).count();
        ended == 4
    });
    assert!(here.is_all(7));
}

#[test]
fn a_question_that_the_library_refused_is_asked_again_soon() {
    let _turn = turn();
    let mut two = Two::met("efa");
    two.ends.truncate(1);
    go_wrong(1, Faults { again: ALWAYS, ..Faults::default() });
    two.pass(Duration::from_millis(2500));
    assert!(!two.is_gone(ME), "nobody can have asked");
    go_wrong(1, Faults::default());
    two.within(Duration::from_secs(1), "the death is noticed", |two| two.is_gone(ME));
}

/// Whoever hears of somebody for the first time needs a place for its address, which the library may refuse for now.
#[test]
fn first_packets_are_kept_while_the_library_has_no_place_for_their_sender() {
    let _turn = turn();
    for provider in ["efa", "mean", "verbs;ofi_rxm"] {
        let mut two = Two::over(provider);
        two.ends[ME].connect(PeerId(1)).unwrap();
        let mut sent = false;
        two.until("a packet leaves", |two| {
            sent = sent || two.send(ME, 5).is_ok();
            sent
        });
        go_wrong(1, Faults { no_place: ALWAYS, ..Faults::default() });
        two.pass(Duration::from_secs(1));
        go_wrong(1, Faults::default());
        two.until("the packet", |two| two.take(PEER) == Some(5));
        two.until("an answer", |two| two.send(PEER, 6).is_ok());
        two.until("the answer", |two| two.take(ME) == Some(6));
    }
}

/// And whoever calls first, too.
#[test]
fn connecting_waits_for_a_place() {
    let _turn = turn();
    let mut two = Two::over("efa");
    go_wrong(1, Faults { no_place: ALWAYS, ..Faults::default() });
    two.ends[ME].connect(PeerId(1)).unwrap();
    assert_eq!(two.send(ME, 1), Err(Refused::Full));
    go_wrong(1, Faults::default());
    two.until("a packet leaves", |two| two.send(ME, 1).is_ok());
    two.until("the packet", |two| two.take(PEER) == Some(1));
}

/// Something goes wrong with the next packet of a process.
fn one_goes_wrong(two: &mut Two, from: usize, faults: Faults) {
    go_wrong(1, faults);
    two.send(from, 1).unwrap();
    look(&mut two.ends[from]);
    go_wrong(0, Faults::default());
}

/// Providers with order and without: what never comes is a loss for both.
#[test]
fn a_packet_that_never_comes_is_a_loss() {
    let _turn = turn();
    for (provider, talks) in [("efa", false), ("unordered", false), ("unordered", true), ("mean", true)] {
        let mut two = Two::met(provider);
        one_goes_wrong(&mut two, ME, Faults { vanished: ALWAYS, ..Faults::default() });
        let mut sent = 0;
        two.within(Duration::from_secs(60), "both are told", |two| {
            // Somebody who goes on is never silent.
            sent += i32::from(talks && two.send(PEER, sent).is_ok());
            while two.take(ME).is_some() {}
            two.is_gone(ME) && two.is_gone(PEER)
        });
        let lost = |end: &mut Ofi| std::iter::from_fn(|| end.lost()).collect::<Vec<_>>();
        assert_eq!([ME, PEER].map(|at| lost(&mut two.ends[at])), [vec![PeerId(1)], vec![PeerId(0)]]);
        assert_eq!(two.take(PEER), None, "{provider}");
    }
}

/// A message fails at its sender, and the peer lives and waits.
#[test]
fn who_is_lost_at_one_end_hears_of_it() {
    let _turn = turn();
    for provider in ["efa", "psm2", "mean", "sockets"] {
        let mut two = Two::met(provider);
        go_wrong(1, Faults { broken: ALWAYS, ..Faults::default() });
        two.until("a message fails", |two| {
            let _ = two.send(ME, 1);
            two.is_gone(ME)
        });
        go_wrong(0, Faults::default());
        assert!(!two.is_gone(PEER), "{provider}: nobody has told it");
        // It is found lost also when it asks long afterwards, when its address is no more in the other's vector.
        for process in [ME, PEER] {
            look(&mut two.ends[process]);
        }
        two.within(Duration::from_secs(5), "the other end is told", |two| two.is_gone(PEER));
    }
}

/// The same after the lost one's address was taken out.
#[test]
fn who_is_lost_for_long_hears_of_it() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    two.ends[ME].give_up(PeerId(1));
    for _ in 0..100 {
        clock::pass(Duration::from_millis(100));
        look(&mut two.ends[ME]);
    }
    assert!(!two.is_gone(PEER));
    two.until("it asks", |two| {
        let _ = two.send(PEER, 1);
        two.is_gone(PEER)
    });
    two.pass(Duration::from_secs(10));
    assert_eq!(count("sockets", "under way"), 0);
}

/// The provider refuses what goes to the dead, and never ends what it took.
#[test]
fn what_the_dead_were_sent_gives_its_places_back() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    go_wrong(1, Faults { late: ALWAYS, ..Faults::default() });
    while two.send(ME, 1).is_ok() && two.ends[ME].messages() < 12 {}
    two.ends.truncate(1);
    go_wrong(0, Faults::default());
    two.within(Duration::from_secs(12), "it is found gone", |two| two.is_gone(ME));
    assert!(count("sockets", "orphans") > 0 && count("sockets", "under way") > 0, "this shows nothing");
    two.pass(Duration::from_secs(7));
    assert_eq!(count("sockets", "under way"), 0, "places of the queue that are kept for ever");
}

/// Packets come after the puts that were begun before them, where that is promised.
#[test]
fn no_packet_passes_a_put_that_waits() {
    let _turn = turn();
    for (provider, in_turn) in [("sockets", false), ("sockets", true)] {
        let mut two = Two::met(provider);
        assert!(two.ends[ME].zero_copy(PeerId(1)).unwrap().put_before_send);
        // More pieces than the queue has places.
        const BYTES: usize = 9000 * 40;
        let there = Memory::of(&mut two.ends[PEER], BYTES, 0);
        let here = Memory::of(&mut two.ends[ME], BYTES, 9);
        if in_turn {
            two.ends[ME].progress();
        }
        two.ends[ME].put(PeerId(1), &here.here(0, BYTES), &there.there(0, BYTES), Some(Token(1))).unwrap();
        let mut sent = two.send(ME, 3).is_ok();
        two.ends[ME].push_out();
        two.until("the packet", |two| {
            sent = sent || two.send(ME, 3).is_ok();
            let come = two.take(PEER) == Some(3);
            assert!(!come || there.is_all(9), "it has passed the put");
            come
        });
        two.until("the end", |two| {
            two.ends[ME].completed() == Some(Completed { token: Token(1), outcome: Outcome::Done(0) })
        });
    }
}

/// An address that the provider keeps for now is taken out later.
#[test]
fn an_address_that_cannot_be_taken_out_now_is_later() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    go_wrong(1, Faults { late: ALWAYS, no_removal: ALWAYS, ..Faults::default() });
    while two.send(ME, 1).is_ok() && two.ends[ME].messages() < 12 {}
    two.ends.truncate(1);
    go_wrong(1, Faults { no_removal: ALWAYS, ..Faults::default() });
    two.within(Duration::from_secs(12), "it is found gone", |two| two.is_gone(ME));
    two.pass(Duration::from_secs(10));
    assert!(count("sockets", "under way") > 0, "this shows nothing");
    go_wrong(0, Faults::default());
    two.pass(Duration::from_secs(2));
    assert_eq!(count("sockets", "under way"), 0, "places of the queue that are kept for ever");
}

/// What came before its turn from somebody who is lost holds no slot for ever.
#[test]
fn packets_whose_turn_never_comes_are_given_up() {
    let _turn = turn();
    let mut two = Two::met("efa");
    one_goes_wrong(&mut two, ME, Faults { vanished: ALWAYS, ..Faults::default() });
    for number in 2..5 {
        two.until("a packet leaves", |two| two.send(ME, number).is_ok());
    }
    two.within(Duration::from_secs(20), "it is a loss", |two| two.is_gone(PEER));
    assert!(two.ends[PEER].slots_in_use() > 0, "this shows nothing");
    two.pass(Duration::from_secs(7));
    assert_eq!(two.ends[PEER].slots_in_use(), 0);
}

/// Whoever sends to somebody who has ended finds it gone, and not lost.
fn is_no_loss(two: &mut Two) {
    two.ends.truncate(1);
    two.until("it is found gone", |two| {
        let _ = two.send(ME, 1);
        two.is_gone(ME)
    });
    assert_eq!(two.ends[ME].lost(), None, "who has ended MPI is not lost");
}

/// The library refuses what a process says last: it says it again, for half a second.
#[test]
fn a_last_word_that_is_refused_is_said_again() {
    let _turn = turn();
    for provider in ["efa", "narrow", "opx"] {
        let mut two = Two::met(provider);
        go_wrong(1, Faults { again: ALWAYS, ..Faults::default() });
        two.ends[PEER].rest();
        assert!(!two.ends[PEER].has_rested(), "{provider}: nobody has heard of it");
        go_wrong(0, Faults::default());
        two.until("it has rested", |two| two.ends[PEER].has_rested());
        two.round();
        is_no_loss(&mut two);
    }
    let mut two = Two::met("efa");
    go_wrong(1, Faults { again: ALWAYS, ..Faults::default() });
    two.ends[PEER].rest();
    two.within(Duration::from_secs(1), "it has said so often enough", |two| two.ends[PEER].has_rested());
}

/// Also by somebody who looked once, and then computed for long.
#[test]
fn a_last_word_is_read_however_seldom_its_receiver_looks() {
    let _turn = turn();
    let mut two = Two::met("efa");
    two.ends[PEER].rest();
    while !two.ends[PEER].has_rested() {
        two.ends[PEER].progress();
    }
    two.ends.truncate(1);
    // The failure is told at once, what has come a while later.
    two.send(ME, 1).unwrap();
    go_wrong(3, Faults { held: ALWAYS, few: ALWAYS, ..Faults::default() });
    let mut looks = 0;
    while !two.is_gone(ME) {
        two.ends[ME].progress();
        clock::pass(Duration::from_secs(2));
        looks += 1;
        assert!(looks < 1000, "in vain");
    }
    assert_eq!(two.ends[ME].lost(), None, "who has ended MPI is not lost");
}

/// No provider here says in which order completions are told.
#[test]
fn what_was_said_before_the_last_word_and_is_seen_after_it_does_not_undo_it() {
    let _turn = turn();
    for seed in 1..20 {
        let mut two = Two::met("efa");
        go_wrong(seed, Faults { held: ALWAYS, ..Faults::default() });
        two.until("a packet leaves", |two| two.send(PEER, 4).is_ok());
        two.ends[PEER].rest();
        two.until("it has rested", |two| two.ends[PEER].has_rested());
        two.round();
        go_wrong(0, Faults::default());
        is_no_loss(&mut two);
    }
}

/// Whoever was never reached is told if there is a connection at once, and not waited for.
#[test]
fn who_ends_waits_for_no_first_connection() {
    let _turn = turn();
    let mut two = Two::over("verbs;ofi_rxm");
    two.ends[ME].connect(PeerId(1)).unwrap();
    two.ends[ME].rest();
    assert!(two.ends[ME].has_rested());
}

/// It has come, and something that goes there fails before it is read.
#[test]
fn a_last_word_is_read_before_a_loss_is_told() {
    let _turn = turn();
    for provider in ["efa", "mean", "opx"] {
        let mut two = Two::met(provider);
        two.ends[PEER].rest();
        while !two.ends[PEER].has_rested() {
            two.ends[PEER].progress();
        }
        is_no_loss(&mut two);
    }
}

/// The provider takes what goes to somebody who has ended, and keeps it.
#[test]
fn what_goes_to_the_ended_gives_its_places_back() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    two.ends[PEER].rest();
    two.until("all is said", |two| two.ends[PEER].has_rested());
    // On its way when the other end closes.
    go_wrong(1, Faults { late: ALWAYS, ..Faults::default() });
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(1));
    two.until("it leaves", |two| two.ends[ME].send_copy(PeerId(1), header, 700, |room| room.fill(1)).is_ok());
    two.ends.truncate(1);
    go_wrong(0, Faults::default());
    two.pass(Duration::from_secs(9));
    assert_eq!(count("sockets", "under way"), 0);
    assert_eq!(two.ends[ME].lost(), None);
}

/// So does a request for its memory.
#[test]
fn what_is_asked_of_the_ended_ends() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    let there = Memory::of(&mut two.ends[PEER], 5000, 7);
    let here = Memory::of(&mut two.ends[ME], 5000, 0);
    two.ends[PEER].rest();
    two.until("all is said", |two| two.ends[PEER].has_rested());
    two.ends[ME].get(PeerId(1), &there.there(0, 5000), &here.here(0, 5000), Token(1)).unwrap();
    two.ends.truncate(1);
    two.within(Duration::from_secs(9), "it has failed", |two| {
        two.ends[ME].completed() == Some(Completed { token: Token(1), outcome: Outcome::Failed })
    });
}

/// Nobody wakes those who sleep when the library would take what it has refused.
#[test]
fn whose_news_are_refused_sleeps_for_a_moment_only() {
    let _turn = turn();
    let long = Duration::from_secs(60);
    let mut two = Two::met("narrow");
    let bell = two.ends[PEER].bell();
    let sleeps = |two: &mut Two| {
        bell.arm();
        look(&mut two.ends[PEER]);
        let limit = bell.limit(long);
        bell.disarm();
        limit
    };
    assert_eq!(sleeps(&mut two), long, "nothing goes on");
    for number in 0..32 {
        two.until("a packet leaves", |two| two.send(ME, number).is_ok());
    }
    two.round();
    go_wrong(1, Faults { again: ALWAYS, ..Faults::default() });
    while two.take(PEER).is_some() {
        two.round();
    }
    assert!(sleeps(&mut two) < long, "news are due");
}

/// Neither when it would take receives again.
#[test]
fn whose_receives_are_refused_sleeps_for_a_moment_only() {
    let _turn = turn();
    let mut two = Two::met("narrow");
    // As many as it has receives for.
    for number in 0..2 {
        two.send(ME, number).unwrap();
    }
    go_wrong(1, Faults { again: ALWAYS, ..Faults::default() });
    let bell = two.ends[PEER].bell();
    two.round();
    bell.arm();
    look(&mut two.ends[PEER]);
    let limit = bell.limit(Duration::from_secs(60));
    bell.disarm();
    assert!(limit > Duration::ZERO, "this shows nothing: something has come");
    assert!(limit < Duration::from_secs(1), "nothing can come");
}

/// What the library refuses of the word that somebody is lost is said again soon, not only when he asks again.
#[test]
fn a_loss_that_cannot_be_told_now_is_told_soon() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    two.ends[ME].give_up(PeerId(1));
    // Its address leaves the vector.
    for _ in 0..100 {
        clock::pass(Duration::from_millis(100));
        look(&mut two.ends[ME]);
    }
    go_wrong(1, Faults { no_place: ALWAYS, ..Faults::default() });
    // It asks, and the next time two seconds later.
    two.round();
    two.round();
    assert!(!two.is_gone(PEER));
    go_wrong(0, Faults::default());
    two.within(Duration::from_secs(1), "the other end is told", |two| two.is_gone(PEER));
}
