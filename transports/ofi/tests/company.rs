//! Small packets that leave together: fewer messages, the same packets in the same order, and none that waits for ever.

mod world;

use weft_api::{Refused, Transport};
use weft_ofi::Ofi;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};
use world::{all, wanted};

/// Packets of every burst.
const BURST: u32 = 200;
/// Looks for something before it is missed.
const PATIENCE: u32 = 1_000_000;

/// The payload of a packet: mostly some bytes, now and then more than waits for company, or more than is copied at once.
fn payload(number: u32) -> Vec<u8> {
    let length = match number % 37 {
        5 => 1024,
        17 => 1500,
        29 => 5000,
        other => other * 11 % 200,
    };
    (0..length).map(|at| (number * 31 + at) as u8).collect()
}

fn send(from: &mut Ofi, to: u32, number: u32) -> Result<(), Refused> {
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(number as i32));
    let bytes = payload(number);
    // Both ways of sending, mixed.
    if bytes.len() <= from.capabilities(PeerId(to)).max_inline && !number.is_multiple_of(3) {
        return from.send_inline(PeerId(to), header, &bytes);
    }
    from.send_copy(PeerId(to), header, bytes.len(), |place| place.copy_from_slice(&bytes))
}

/// Takes what is there, which must be the packets from number `next` on.
fn take(at: &mut Ofi, from: u32, next: &mut u32) {
    while let Some((header, bytes)) = at.peek(PeerId(from)) {
        assert_eq!(header.tag(), Tag(*next as i32));
        assert_eq!(bytes, payload(*next), "packet {next}");
        at.advance(PeerId(from));
        *next += 1;
    }
}

fn over(provider: &str) {
    let Some(wanted) = wanted(provider) else { return };
    let (mut ends, _cards) = all(2, &wanted);
    let [here, there] = &mut ends[..] else { unreachable!("two ends") };
    here.connect(PeerId(1)).unwrap();
    there.connect(PeerId(0)).unwrap();
    let (mut sent, mut taken, mut looks) = (0, 0, 0);
    for burst in 1..=20 {
        while sent < burst * BURST {
            match send(here, 1, sent) {
                Ok(()) => sent += 1,
                Err(Refused::Full) => {
                    here.progress();
                    there.progress();
                    take(there, 0, &mut taken);
                }
                Err(Refused::Dead) => panic!("the other end is alive"),
            }
            looks += 1;
            assert!(looks < PATIENCE, "packet {sent} is never taken");
        }
        // Nobody sends any more: what waits for company leaves by looks alone.
        while taken < sent {
            here.progress();
            there.progress();
            take(there, 0, &mut taken);
            looks += 1;
            assert!(looks < PATIENCE, "packet {taken} never comes");
        }
    }
    while !here.has_left() {
        here.progress();
        there.progress();
    }
    println!("{provider}: {} messages for {sent} packets", here.messages());
    // Some are too long for company; of the others many share a message.
    let limit = u64::from(sent) / 3;
    assert!(here.messages() < limit, "{} messages for {sent} packets", here.messages());
    // One at a time, each is a message of its own and comes without another look by the sender.
    for _ in 0..100 {
        here.progress();
        let before = here.messages();
        while send(here, 1, sent) == Err(Refused::Full) {
            here.progress();
            there.progress();
        }
        assert_eq!(here.messages(), before + 1);
        sent += 1;
        for look in 0.. {
            there.progress();
            take(there, 0, &mut taken);
            if taken == sent {
                break;
            }
            assert!(look < PATIENCE, "packet {taken} never comes");
        }
    }
}

#[test]
fn packets_that_leave_together_come_in_order_by_tcp_below_rxm() {
    over("tcp;ofi_rxm");
}

#[test]
fn packets_that_leave_together_come_in_order_by_tcp_alone() {
    over("tcp");
}

#[test]
fn packets_that_leave_together_come_in_order_by_shared_memory() {
    over("shm");
}
