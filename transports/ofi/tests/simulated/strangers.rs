//! A directory that fails at first contact: nothing is dropped for it without a word.

use crate::mends::{ME, Memory, PEER, Two, look};
use crate::world::{Cards, all_with};
use crate::{library, turn};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use weft_api::offload::{Collective, GroupId, Joining, Offload, Outcome, Outline, Piece, Program, Whole};
use weft_api::zero_copy::{Completed, Outcome as Ended, Token};
use weft_api::{Bell, Pollable, Transport};
use weft_ofi::{OfiCard, OfiDirectory, clock};
use weft_types::{Error, PeerId, Result};

/// Fails as long as it is told to.
#[derive(Debug)]
struct Failing {
    cards: Cards,
    fails: Arc<AtomicBool>,
}

impl OfiDirectory for Failing {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        if self.fails.load(Relaxed) {
            return Err(Error::internal("the launcher gives no answer"));
        }
        self.cards.find(peer)
    }
}

/// Ends of which [`PEER`]'s directory fails.
fn ends(processes: usize, provider: &str) -> (Two, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let mut wanted = library::wanted(provider, None);
    wanted.offload = Some(true);
    if provider.starts_with("sockets") {
        wanted.address = Some(std::net::Ipv4Addr::LOCALHOST.into());
        wanted.between_nodes = false;
    }
    let (ends, _) = all_with(processes, &wanted, |process, cards| {
        let fails = Arc::clone(&fails);
        if process == PEER { Box::new(Failing { cards, fails }) } else { Box::new(cards) }
    });
    (Two { ends }, fails)
}

/// Sends so many packets to somebody who has never heard of the sender.
fn send(two: &mut Two, packets: i32) {
    two.ends[ME].connect(PeerId(1)).unwrap();
    for number in 0..packets {
        two.until("a packet leaves", |two| two.send(ME, number).is_ok());
    }
    two.round();
}

#[test]
fn first_packets_are_kept_while_their_sender_cannot_be_found() {
    let _turn = turn();
    for provider in ["efa", "mean", "sockets", "verbs;ofi_rxm"] {
        let (mut two, fails) = ends(2, provider);
        send(&mut two, 3);
        two.pass(Duration::from_secs(4));
        assert_eq!(two.take(PEER), None);
        fails.store(false, Relaxed);
        for number in 0..3 {
            two.until("the packets", |two| two.take(PEER) == Some(number));
        }
        two.until("an answer", |two| two.send(PEER, 9).is_ok());
        two.until("the answer", |two| two.take(ME) == Some(9));
        two.until("all has left", |two| two.ends.iter().all(Transport::has_left));
        assert!(two.ends.iter_mut().all(|end| end.lost().is_none() && end.slots_in_use() == 0));
    }
}

#[test]
fn who_cannot_be_found_for_long_is_lost_with_the_reason() {
    let _turn = turn();
    for provider in ["efa", "sockets"] {
        let (mut two, fails) = ends(2, provider);
        send(&mut two, 3);
        two.within(Duration::from_secs(15), "it is told", |two| two.ends[PEER].lost() == Some(PeerId(0)));
        let why = two.ends[PEER].why_unreachable(PeerId(0)).expect("a reason").text().to_owned();
        for part in ["process 0", "the launcher gives no answer", "See that"] {
            assert!(why.contains(part), "{why}");
        }
        assert_eq!((two.take(PEER), two.ends[PEER].slots_in_use()), (None, 0));
        // Its sender asks, and hears of it as soon as it can be answered.
        fails.store(false, Relaxed);
        two.within(Duration::from_secs(60), "the other end is told", |two| two.is_gone(ME));
        assert_eq!(two.ends[PEER].lost(), None, "it is named once");
    }
}

/// Nothing wakes whoever sleeps when the directory would answer.
#[test]
fn who_looks_for_somebody_sleeps_for_a_moment_only() {
    let _turn = turn();
    let (mut two, _) = ends(2, "verbs;ofi_rxm");
    send(&mut two, 1);
    let bell = two.ends[PEER].bell();
    bell.arm();
    look(&mut two.ends[PEER]);
    let limit = bell.limit(Duration::from_secs(60));
    bell.disarm();
    assert!(limit < Duration::from_secs(1));
}

/// A loss that somebody tells of is one also where nothing else is known of the lost.
#[test]
fn a_loss_of_somebody_who_cannot_be_found_is_heard() {
    let _turn = turn();
    let (mut two, fails) = ends(3, "efa");
    fails.store(false, Relaxed);
    send(&mut two, 1);
    two.until("the packet", |two| two.take(PEER) == Some(0));
    fails.store(true, Relaxed);
    two.ends[ME].declare_lost(PeerId(2));
    two.until("the loss", |two| two.ends[PEER].lost() == Some(PeerId(2)));
}

/// All members join a group.
fn join(two: &mut Two) -> Vec<GroupId> {
    let size = two.ends.len() as u32;
    let members: Vec<PeerId> = (0..size).map(PeerId).collect();
    let opened: Vec<_> = two.ends.iter_mut().map(|end| end.open_group(size).unwrap()).collect();
    let cards: Vec<&[u8]> = opened.iter().map(|(_, card)| &card[..]).collect();
    for (end, (group, _)) in two.ends.iter_mut().zip(&opened) {
        end.join_group(*group, 7, &members, &cards).unwrap();
    }
    let groups: Vec<GroupId> = opened.into_iter().map(|(group, _)| group).collect();
    two.until("all have joined", |two| {
        two.ends.iter_mut().zip(&groups).all(|(end, group)| end.joined(*group) == Joining::Joined)
    });
    groups
}

/// The member that a member watches could not be found when it began to wait.
#[test]
fn a_member_that_could_not_be_found_is_missed_later() {
    let _turn = turn();
    let (mut two, fails) = ends(2, "cxi");
    let groups = join(&mut two);
    two.ends.remove(ME);
    let nothing = Piece { address: 0, bytes: 0 };
    let whole = Some(Whole { group: groups[PEER], operand: nothing, result: nothing });
    let outline = Outline { collective: Collective::Barrier, ranks: 2, bytes: 0, arithmetic: None };
    let program =
        Program { outline, whole, steps: Vec::new(), waits_for: Vec::new(), successors: Vec::new() };
    two.ends[0].hand_over(&Arc::new(program), 1);
    two.pass(Duration::from_secs(2));
    fails.store(false, Relaxed);
    two.within(Duration::from_secs(30), "it is missed", |two| {
        two.ends[0].finished().is_some_and(|finished| finished.outcome == Outcome::Lost(PeerId(0)))
    });
}

/// The provider keeps an address for ever, and what it has under way there: in the end that is told as failed.
#[test]
fn operations_that_the_library_never_ends_are_told_in_the_end() {
    let _turn = turn();
    let mut two = Two::met("sockets");
    let there = Memory::of(&mut two.ends[PEER], 5000, 7);
    let here = Memory::of(&mut two.ends[ME], 5000, 0);
    crate::go_wrong(
        1,
        crate::Faults { late: crate::ALWAYS, no_removal: crate::ALWAYS, ..Default::default() },
    );
    two.ends[ME].get(PeerId(1), &there.there(0, 5000), &here.here(0, 5000), Token(1)).unwrap();
    two.ends[ME].put(PeerId(1), &here.here(0, 5000), &there.there(0, 5000), None).unwrap();
    two.ends[ME].flush(PeerId(1), Token(2)).unwrap();
    two.ends.truncate(1);
    let begun = clock::passed();
    let mut told = Vec::new();
    two.within(Duration::from_secs(90), "they are told", |two| {
        told.extend(std::iter::from_fn(|| two.ends[ME].completed()));
        told.len() == 2
    });
    assert!(
        clock::passed() - begun > Duration::from_secs(20),
        "this shows nothing: the library has ended them"
    );
    told.sort_by_key(|done| done.token.0);
    assert_eq!(told, [1, 2].map(|token| Completed { token: Token(token), outcome: Ended::Failed }));
    two.pass(Duration::from_secs(5));
    assert_eq!(two.ends[ME].completed(), None, "each is told once");
}
