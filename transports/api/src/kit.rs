//! The properties that every transport must have, as one suite that each runs in its tests.
//!
//! A test describes its fabric by [`Fabric`] and calls the properties, most simply all of them by [`every_property`]. A
//! property panics with what it saw. All of them work over fabrics that delay, refuse, and lose packets underneath.

pub mod one_sided;
pub mod teardown;

use crate::shares::Part;
use crate::{Refused, Transport};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

/// Some processes and what lies between them.
pub trait Fabric {
    /// Their ends.
    type Transport: Transport;
    /// The end of every process, by its number.
    fn ends(&mut self) -> &mut [Self::Transport];
    /// Lets time pass where nothing moves by itself.
    fn idle(&mut self) {}
    /// Kills a process. False: this fabric cannot.
    fn kill(&mut self, process: usize) -> bool {
        let _ = process;
        false
    }
}

/// Rounds after which a fabric that shows nothing is taken to be stuck.
const PATIENCE: usize = 200_000;

/// Runs all properties; `make` makes a fresh fabric of so many processes.
pub fn every_property<F: Fabric>(mut make: impl FnMut(usize) -> F) {
    every_size_arrives(&mut make(2));
    a_full_way_refuses_and_opens_again(&mut make(2));
    a_packet_stays_until_it_is_dropped(&mut make(2));
    all_talk_to_all(&mut make(5));
    both_may_begin_at_once(&mut make(2));
    parts_are_seen_by_whom_they_are_for(&mut make(3));
    a_dead_process_is_told_once(&mut make(3));
    one_sided::gets_and_puts_move_every_byte(&mut make(2));
    one_sided::what_was_put_is_visible_after_a_flush(&mut make(2));
    one_sided::atomics_lose_nothing(&mut make(3));
    one_sided::what_was_taken_back_is_not_touched(&mut make(3));
    one_sided::every_token_comes_back_from_the_dead(&mut make(2));
    teardown::all_may_go_in_the_middle(&mut make);
    teardown::the_others_go_on_when_one_goes_in_the_middle(&mut make);
}

fn header(number: u32) -> Header {
    Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number as i32))
}

fn content(number: u32, length: usize) -> impl Iterator<Item = u8> {
    (0..length as u32).map(move |at| (number.wrapping_mul(31) ^ at.wrapping_mul(7) ^ at >> 8) as u8)
}

fn round<F: Fabric>(fabric: &mut F) {
    for end in fabric.ends() {
        end.progress();
    }
    fabric.idle();
}

fn connect<F: Fabric>(fabric: &mut F, from: usize, to: usize) {
    fabric.ends()[from].connect(PeerId(to as u32)).expect("a connection");
}

/// Offers a packet once.
fn offer<F: Fabric>(
    fabric: &mut F,
    from: usize,
    to: usize,
    number: u32,
    length: usize,
) -> Result<(), Refused> {
    let end = &mut fabric.ends()[from];
    let peer = PeerId(to as u32);
    let bytes: Vec<u8> = content(number, length).collect();
    if length <= end.capabilities(peer).max_inline {
        end.send_inline(peer, header(number), &bytes)
    } else {
        end.send_copy(peer, header(number), length, |place| place.copy_from_slice(&bytes))
    }
}

/// Takes the next packet from a process, if there is one, and compares it.
fn take<F: Fabric>(fabric: &mut F, at: usize, from: usize, number: u32, length: usize) -> bool {
    let end = &mut fabric.ends()[at];
    let peer = PeerId(from as u32);
    let Some((seen, payload)) = end.peek(peer) else { return false };
    assert_eq!(seen, header(number), "packets of one process come in order");
    assert_eq!(payload.len(), length, "length of packet {number}");
    assert!(content(number, length).eq(payload.iter().copied()), "content of packet {number}");
    end.advance(peer);
    true
}

/// Every size around every limit arrives whole, in order, by either flavour.
pub fn every_size_arrives<F: Fabric>(fabric: &mut F) {
    connect(fabric, 0, 1);
    let limits = fabric.ends()[0].capabilities(PeerId(1));
    let mut sizes: Vec<usize> = (0..=64).collect();
    for limit in [limits.max_inline, 128, 256, 512, 1024, 2048, 4096, limits.max_copy] {
        sizes.extend([limit.saturating_sub(17), limit.saturating_sub(1), limit, limit + 1, limit + 17]);
    }
    sizes.retain(|&size| size <= limits.max_copy);
    let (mut sent, mut taken, mut rounds) = (0, 0, 0);
    while taken < sizes.len() {
        if sent < sizes.len() && offer(fabric, 0, 1, sent as u32, sizes[sent]) == Ok(()) {
            sent += 1;
        }
        if taken < sent && take(fabric, 1, 0, taken as u32, sizes[taken]) {
            (taken, rounds) = (taken + 1, 0);
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "packet {taken} of {} bytes does not arrive", sizes[taken]);
        round(fabric);
    }
    assert!(fabric.ends()[1].peek(PeerId(0)).is_none(), "nothing came that was not sent");
}

/// A receiver that takes nothing makes the way refuse, with bounded memory; when it takes, everything arrives in order.
pub fn a_full_way_refuses_and_opens_again<F: Fabric>(fabric: &mut F) {
    connect(fabric, 0, 1);
    let length = fabric.ends()[0].capabilities(PeerId(1)).max_copy / 2;
    let (mut sent, mut refusals, mut rounds) = (0_u32, 0, 0);
    while refusals < 300 {
        match offer(fabric, 0, 1, sent, length) {
            Ok(()) => (sent, refusals) = (sent + 1, 0),
            // Before the first packet the connection is being made.
            Err(Refused::Full) => refusals += u32::from(sent > 0),
            Err(Refused::Dead) => panic!("the receiver is alive"),
        }
        assert!(
            (sent as usize).saturating_mul(length) < 1 << 28,
            "the way takes everything and holds it somewhere"
        );
        rounds += 1;
        assert!(sent > 0 || rounds < PATIENCE, "a way that refuses everything");
        round(fabric);
    }
    let goal = sent + 50;
    let (mut taken, mut rounds) = (0, 0);
    while taken < goal {
        if sent < goal && offer(fabric, 0, 1, sent, length) == Ok(()) {
            sent += 1;
        }
        if take(fabric, 1, 0, taken, length) {
            (taken, rounds) = (taken + 1, 0);
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "packet {taken} of {goal} does not arrive");
        round(fabric);
    }
}

/// Looking does not change what is seen, whatever else happens.
pub fn a_packet_stays_until_it_is_dropped<F: Fabric>(fabric: &mut F) {
    connect(fabric, 0, 1);
    let (mut sent, mut rounds) = (0, 0);
    while fabric.ends()[1].peek(PeerId(0)).is_none() || sent < 3 {
        if sent < 3 && offer(fabric, 0, 1, sent, 100).is_ok() {
            sent += 1;
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "nothing arrives");
        round(fabric);
    }
    for _ in 0..100 {
        let (seen, payload) = fabric.ends()[1].peek(PeerId(0)).expect("it is still there");
        assert_eq!((seen, payload.len()), (header(0), 100));
        assert_eq!(fabric.ends()[1].ready(), Some(PeerId(0)), "it is still announced");
        round(fabric);
    }
}

/// What was pushed out arrives while its sender does not look again: packets of a turn, and such as were sent between turns. Only for ways that
/// lose nothing, as nobody is there to send a packet once more; so not among [`every_property`].
pub fn what_is_pushed_out_needs_no_other_look<F: Fabric>(fabric: &mut F) {
    const PACKETS: u32 = 12;
    connect(fabric, 0, 1);
    connect(fabric, 1, 0);
    let (mut next, mut rounds) = (0, 0);
    // The first ones make the connection.
    for (from, to) in [(0, 1), (1, 0)] {
        while offer(fabric, from, to, next, 8) != Ok(()) {
            round(fabric);
        }
        while !take(fabric, to, from, next, 8) {
            rounds += 1;
            assert!(rounds < PATIENCE, "no connection from {from} to {to}");
            round(fabric);
        }
    }
    (0..1000).for_each(|_| round(fabric));
    let length = |number: u32| (number as usize * 53) % 300;
    for in_turn in [true, false, true] {
        if in_turn {
            fabric.ends()[0].progress();
        }
        for number in next + 1..=next + PACKETS {
            assert_eq!(offer(fabric, 0, 1, number, length(number)), Ok(()), "a dozen short packets");
        }
        fabric.ends()[0].push_out();
        for number in next + 1..=next + PACKETS {
            let mut rounds = 0;
            while !take(fabric, 1, 0, number, length(number)) {
                rounds += 1;
                assert!(rounds < PATIENCE, "packet {number} stays where it is (in a turn: {in_turn})");
                fabric.ends()[1].progress();
                fabric.idle();
            }
        }
        next += PACKETS;
        (0..1000).for_each(|_| round(fabric));
    }
}

/// Everybody sends to everybody and takes whatever is announced: nobody is forgotten.
pub fn all_talk_to_all<F: Fabric>(fabric: &mut F) {
    const MESSAGES: u32 = 40;
    let processes = fabric.ends().len();
    let mut sent = vec![vec![0; processes]; processes];
    let mut taken = vec![vec![0; processes]; processes];
    for from in 0..processes {
        for to in (0..processes).filter(|&to| to != from) {
            connect(fabric, from, to);
        }
    }
    let length = |number: u32| (number as usize * 97) % 900;
    let (mut left, mut rounds) = (processes * (processes - 1) * MESSAGES as usize, 0);
    while left > 0 {
        for me in 0..processes {
            for peer in (0..processes).filter(|&peer| peer != me) {
                let next: u32 = sent[me][peer];
                if next < MESSAGES && offer(fabric, me, peer, next, length(next)) == Ok(()) {
                    sent[me][peer] += 1;
                }
            }
            if let Some(from) = fabric.ends()[me].ready() {
                let next = taken[me][from.0 as usize];
                assert!(take(fabric, me, from.0 as usize, next, length(next)), "what is announced is there");
                taken[me][from.0 as usize] += 1;
                (left, rounds) = (left - 1, 0);
            }
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "{left} messages do not arrive");
        round(fabric);
    }
    for end in fabric.ends() {
        assert_eq!(end.ready(), None, "nothing is left over");
    }
}

/// Two processes that begin to talk to each other at the same moment understand each other.
pub fn both_may_begin_at_once<F: Fabric>(fabric: &mut F) {
    connect(fabric, 0, 1);
    connect(fabric, 1, 0);
    let (mut sent, mut taken) = ([0; 2], [0; 2]);
    let mut rounds = 0;
    while taken != [20; 2] {
        for me in 0..2 {
            if sent[me] < 20 && offer(fabric, me, 1 - me, sent[me], 64) == Ok(()) {
                sent[me] += 1;
            }
            if take(fabric, me, 1 - me, taken[me], 64) {
                taken[me] += 1;
            }
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "stuck at {taken:?} of 20");
        round(fabric);
    }
}

/// Where there are tables of parts ([`crate::shares`]), both ends of a way have the same one, and each way has its own.
pub fn parts_are_seen_by_whom_they_are_for<F: Fabric>(fabric: &mut F) {
    let pairs: Vec<(usize, usize)> =
        (0..3).flat_map(|from| (0..3).map(move |to| (from, to))).filter(|(from, to)| from != to).collect();
    for &(from, to) in &pairs {
        connect(fabric, from, to);
        let (mut sent, mut rounds) = (false, 0);
        while !take(fabric, to, from, 0, 8) {
            sent = sent || offer(fabric, from, to, 0, 8) == Ok(());
            rounds += 1;
            assert!(rounds < PATIENCE, "nothing arrives from {from} at {to}");
            round(fabric);
        }
    }
    let part = |from: usize, to: usize| Part { send: (3 * from + to) as u32, from: 1, length: 2, address: 3 };
    for &(from, to) in &pairs {
        if let Some(table) = fabric.ends()[to].shares_of(PeerId(from as u32)) {
            table.lay_out(from, 1, part(from, to));
        }
    }
    for &(from, to) in &pairs {
        let laid_out = fabric.ends()[to].shares_of(PeerId(from as u32)).is_some();
        let table = fabric.ends()[from].shares_for(PeerId(to as u32));
        assert_eq!(table.is_some(), laid_out, "both have one, or none has");
        let taken = table.map(|table| (table.take(), table.take()));
        assert_eq!(taken, laid_out.then(|| (Some((from, part(from, to))), None)), "from {from} to {to}");
    }
}

/// The others learn of a death once, and refuse to send; what had arrived stays, and so do the living.
pub fn a_dead_process_is_told_once<F: Fabric>(fabric: &mut F) {
    for peer in [1, 2] {
        connect(fabric, 0, peer);
        connect(fabric, peer, 0);
    }
    let mut rounds = 0;
    let mut sent = [false; 3];
    while fabric.ends()[0].peek(PeerId(1)).is_none() || fabric.ends()[0].peek(PeerId(2)).is_none() {
        for from in [1, 2] {
            sent[from] = sent[from] || offer(fabric, from, 0, 0, 10).is_ok();
        }
        rounds += 1;
        assert!(rounds < PATIENCE, "nothing arrives");
        round(fabric);
    }
    if !fabric.kill(1) {
        return;
    }
    let (mut told, mut rounds) = (Vec::new(), 0);
    while told.is_empty() {
        // Some transports find out when they try.
        let _ = offer(fabric, 0, 1, 1, 10);
        told.extend(fabric.ends()[0].lost());
        rounds += 1;
        assert!(rounds < PATIENCE, "nobody notices the death");
        round(fabric);
    }
    for _ in 0..200 {
        told.extend(fabric.ends()[0].lost());
        round(fabric);
    }
    assert_eq!(told, [PeerId(1)], "each death is told once, and of the dead only");
    assert_eq!(offer(fabric, 0, 1, 2, 10), Err(Refused::Dead));
    assert!(fabric.ends()[0].is_gone(PeerId(1)) && !fabric.ends()[0].is_gone(PeerId(2)));
    assert!(take(fabric, 0, 1, 0, 10), "what had arrived stays readable");
    assert!(take(fabric, 0, 2, 0, 10));
    while offer(fabric, 0, 2, 7, 10) != Ok(()) {
        round(fabric);
    }
    let mut rounds = 0;
    while !take(fabric, 2, 0, 7, 10) {
        rounds += 1;
        assert!(rounds < PATIENCE, "the living do not hear each other");
        round(fabric);
    }
}
