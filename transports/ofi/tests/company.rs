//! Packets that leave together: fewer messages, in order, and not before the owner says so only where it lets them wait.

mod world;

use weft_api::Transport;
use weft_ofi::Ofi;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};
use world::{all, wanted};

const PATIENCE: usize = 100_000;

fn header(number: usize) -> Header {
    Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number as i32))
}

fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 7 + at) as u8).collect()
}

/// Sends so many bytes, short ones inline, as the engine does.
fn send(from: &mut Ofi, number: usize, length: usize) {
    let bytes = payload(number, length);
    for _ in 0..PATIENCE {
        let sent = if length <= from.capabilities(PeerId(1)).max_inline {
            from.send_inline(PeerId(1), header(number), &bytes)
        } else {
            from.send_copy(PeerId(1), header(number), length, |place| place.copy_from_slice(&bytes))
        };
        match sent {
            Ok(()) => return,
            Err(_) => drop(from.progress()),
        }
    }
    panic!("packet {number} is refused for ever");
}

/// The next packets are these; the sender does nothing meanwhile.
fn receive(into: &mut Ofi, numbers: std::ops::Range<usize>, length: impl Fn(usize) -> usize) {
    for number in numbers {
        let mut turns = 0;
        while into.peek(PeerId(0)).is_none() {
            into.progress();
            into.push_out();
            turns += 1;
            assert!(turns < PATIENCE, "packet {number} has not come");
            std::thread::yield_now();
        }
        let (found, bytes) = into.peek(PeerId(0)).unwrap();
        assert_eq!(found, header(number));
        assert_eq!(bytes, payload(number, length(number)), "packet {number}");
        into.advance(PeerId(0));
    }
}

/// Two ends that know each other.
fn two() -> Option<Vec<Ofi>> {
    let wanted = wanted("tcp").or_else(|| wanted("tcp;ofi_rxm"))?;
    let (mut ends, _cards) = all(2, &wanted);
    ends[0].connect(PeerId(1)).unwrap();
    ends[1].connect(PeerId(0)).unwrap();
    let [one, other] = &mut ends[..] else { unreachable!("two ends") };
    one.push_out();
    let mut sent = false;
    for _ in 0..PATIENCE {
        // Refused until there is a connection.
        sent = sent || one.send_inline(PeerId(1), header(0), &payload(0, 8)).is_ok();
        one.progress();
        other.progress();
        if other.peek(PeerId(0)).is_some() {
            break;
        }
    }
    one.push_out();
    receive(other, 0..1, |_| 8);
    Some(ends)
}

#[test]
fn many_sends_in_a_row_leave_in_few_messages() {
    let Some(mut ends) = two() else { return };
    let [one, other] = &mut ends[..] else { unreachable!("two ends") };
    assert!(one.keep_company(true));
    let before = one.messages();
    assert!(!one.is_in_row());
    (1..41).for_each(|number| {
        send(one, number, 8);
        assert!(one.is_in_row(), "packet {number}");
    });
    assert!(one.messages() - before <= 4 + 3, "{} messages", one.messages() - before);
    one.push_out();
    assert!(!one.is_in_row());
    assert!(one.messages() - before <= 4 + 3, "{} messages", one.messages() - before);
    receive(other, 1..41, |_| 8);
}

#[test]
fn packets_of_all_lengths_keep_their_order() {
    let Some(mut ends) = two() else { return };
    let [one, other] = &mut ends[..] else { unreachable!("two ends") };
    one.keep_company(true);
    let longest = one.capabilities(PeerId(1)).max_copy;
    let length = move |number: usize| [8, 0, 1024, 8192, 193, longest, 8193][number * 5 % 7].min(longest);
    for first in (1..141).step_by(20) {
        (first..first + 20).for_each(|number| send(one, number, length(number)));
        one.push_out();
        for _ in 0..PATIENCE {
            // Long ones need the sender's help.
            one.progress();
            other.progress();
            if other.peek(PeerId(0)).is_some() {
                break;
            }
        }
        let helper = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(other, first..first + 20, length));
            while !receiver.is_finished() {
                one.progress();
                one.push_out();
            }
            receiver.join()
        });
        helper.unwrap();
    }
}

#[test]
fn the_first_of_a_row_leave_at_once() {
    let Some(mut ends) = two() else { return };
    let [one, other] = &mut ends[..] else { unreachable!("two ends") };
    one.keep_company(true);
    (1..4).for_each(|number| send(one, number, 8));
    receive(other, 1..4, |_| 8);
}

#[test]
fn outside_of_turns_nothing_waits_unless_the_owner_says_so() {
    let Some(mut ends) = two() else { return };
    let [one, other] = &mut ends[..] else { unreachable!("two ends") };
    (1..31).for_each(|number| send(one, number, 8));
    receive(other, 1..31, |_| 8);
}

#[test]
fn what_is_sent_in_a_turn_leaves_with_it() {
    let Some(mut ends) = two() else { return };
    let [one, other] = &mut ends[..] else { unreachable!("two ends") };
    one.progress();
    let before = one.messages();
    (1..31).for_each(|number| send(one, number, 8));
    assert_eq!(one.messages(), before);
    one.push_out();
    assert_eq!(one.messages(), before + 1);
    receive(other, 1..31, |_| 8);
}

#[test]
fn what_waits_has_not_left() {
    let Some(mut ends) = two() else { return };
    let one = &mut ends[0];
    one.progress();
    send(one, 1, 8);
    assert!(!one.has_left());
}

#[test]
fn what_waits_for_a_lost_peer_is_dropped() {
    let Some(mut ends) = two() else { return };
    let one = &mut ends[0];
    one.progress();
    send(one, 1, 8);
    let before = one.messages();
    one.give_up(PeerId(1));
    one.push_out();
    assert_eq!(one.messages(), before);
    assert!(one.has_left(), "nobody waits for it");
}

/// The library refuses until there is a connection, which takes until the peer looks. What is sent is refused as long: the owner's call does not end
/// before, and what was taken then arrives though the sender calls nothing more.
#[test]
fn what_was_taken_arrives_though_the_peer_looks_late() {
    let Some(wanted) = wanted("tcp").or_else(|| wanted("tcp;ofi_rxm")) else { return };
    for (late, count) in [(0, 1), (0, 20), (300, 1), (300, 20)] {
        let (mut ends, _cards) = all(2, &wanted);
        let [one, other] = &mut ends[..] else { unreachable!("two ends") };
        one.connect(PeerId(1)).unwrap();
        one.keep_company(true);
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(late));
                receive(other, 0..count, |_| 8);
            });
            for number in 0..count {
                while one.send_inline(PeerId(1), header(number), &payload(number, 8)).is_err() {
                    one.progress();
                    one.push_out();
                    std::thread::yield_now();
                }
            }
            one.push_out();
            looks.join().unwrap();
        });
    }
}
