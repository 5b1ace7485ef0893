//! What a flight keeps, retires, settles and repeats.

use super::*;
use weft_api::verbs::LocalKey;
use weft_sim::Random;

const NONE: Data<'_> = Data::Segments(&[]);

#[test]
fn one_completion_tells_of_all_before_it() {
    let mut flight = Flight::default();
    let mut signals = 0;
    for slot in 0..40 {
        let signaled = flight.must_signal();
        signals += u32::from(signaled);
        assert_eq!(flight.next(), u64::from(slot));
        flight.push(Holds::Slot(slot), signaled, Deed::Message, &NONE);
    }
    assert_eq!(signals, 2, "two of 40");
    assert!(flight.is_open(), "nothing tells of the last eight");
    for slot in 0..16 {
        assert_eq!(flight.retire(15), Some((Holds::Slot(slot), slot == 15)));
    }
    assert_eq!(flight.retire(15), None);
    assert_eq!((flight.len(), flight.next()), (24, 40));
    assert!(!flight.join(Token(3)), "the newest is not signalled");
    flight.push(Holds::Nothing, true, Deed::Nothing, &NONE);
    assert!(!flight.is_open() && flight.join(Token(3)) && !flight.join(Token(4)));
    let all: Vec<_> = std::iter::from_fn(|| flight.retire(40)).collect();
    assert_eq!((all.len(), all[24]), (25, (Holds::Token(Token(3)), true)));
    assert!(flight.is_empty());
}

/// What the readme says of the memory of a connection that is in use.
#[test]
fn a_ring_grows_with_a_burst_and_goes_when_all_is_quiet() {
    let mut flight = Flight::default();
    let ring = |flight: &Flight| size_of_val(&*flight.requests);
    flight.push(Holds::Nothing, true, Deed::Message, &NONE);
    let first = ring(&flight);
    (1..crate::transport::MOST_POSTED).for_each(|_| flight.push(Holds::Nothing, true, Deed::Message, &NONE));
    let most = ring(&flight);
    flight.shrink();
    assert_eq!(ring(&flight), most, "something is under way");
    while flight.retire_oldest().is_some() {}
    flight.allow(64);
    assert!(flight.message([0; 2], &[], None).is_some());
    flight.shrink();
    assert!(ring(&flight) == 0 && flight.message([0; 2], &[], None).is_none());
    flight.push(Holds::Slot(3), true, Deed::Message, &NONE);
    assert_eq!((flight.retire_oldest(), ring(&flight)), (Some(Holds::Slot(3)), first), "it goes on");
    let said = format!("{first} bytes from the first request on, {most} after a long burst");
    assert!(include_str!("../../README.md").contains(&said), "the readme should say: {said}");
}

/// Two messages, a write, a read, a message, an atomic, a write, a closing one.
fn mixed() -> Flight {
    let at = |address| RemoteMemory { address, key: 1 };
    let here = [Segment { address: 7, length: 9, key: LocalKey(3) }];
    let mut flight = Flight { messages: u32::MAX, ..Flight::default() };
    let long = [5; 100];
    flight.push(Holds::Nothing, false, Deed::Message, &Data::Inline(&[&[1; 16], &[2; 8]]));
    flight.push(Holds::Nothing, false, Deed::Message, &Data::Inline(&[&long]));
    flight.push(Holds::Token(Token(1)), true, Deed::Write(at(100)), &Data::Segments(&here));
    flight.push(Holds::Token(Token(2)), true, Deed::Read(at(200)), &Data::Segments(&here));
    flight.push(Holds::Slot(4), false, Deed::Message, &Data::Inline(&[&[6; 50]]));
    flight.push(Holds::Found(1, Token(3)), true, Deed::Atomic, &Data::Segments(&here));
    flight.push(Holds::Nothing, false, Deed::Write(at(300)), &Data::Inline(&[&[8; 60]]));
    flight.push(Holds::Nothing, true, Deed::Nothing, &NONE);
    flight
}

fn repeated(flight: &mut Flight) -> Vec<(u64, Deed, usize, bool)> {
    let mut all = Vec::new();
    let taken = flight.repeat(|id, _, deed, data, signaled| {
        let bytes = match data {
            Data::Inline(parts) => parts.iter().map(|part| part.len()).sum(),
            Data::Segments(segments) => segments.len(),
        };
        all.push((id, deed, bytes, signaled));
        Ok::<(), ()>(())
    });
    assert_eq!(taken, Ok(()));
    all
}

#[test]
fn what_the_peer_has_seen_is_not_repeated() {
    let send = Deed::Message;
    let at = |address| RemoteMemory { address, key: 1 };
    let (read, write) = (Deed::Read(at(200)), |address| Deed::Write(at(address)));
    // None of the three messages has arrived: the count is as it was.
    let mut flight = mixed();
    let over = flight.settle(u32::MAX).unwrap();
    assert_eq!(over, [(Holds::Found(1, Token(3)), false), (Holds::Nothing, true)]);
    assert_eq!(
        repeated(&mut flight),
        [
            (2, send, 24, false),
            (3, send, 100, false),
            (4, write(100), 1, true),
            (5, read, 1, true),
            (6, send, 50, false),
            (7, write(300), 60, true),
        ]
    );
    assert_eq!((flight.next(), flight.is_open()), (8, false));
    // All three: the first write is there, the read is not here.
    let mut flight = mixed();
    let over = flight.settle(2).unwrap();
    assert_eq!((over.len(), over[2]), (6, (Holds::Token(Token(1)), true)));
    assert_eq!(repeated(&mut flight), [(6, read, 1, true), (7, write(300), 60, true)]);
    assert_eq!(flight.retire(7), Some((Holds::Token(Token(2)), false)));
    assert_eq!(flight.retire(7), Some((Holds::Nothing, true)));
    assert!(flight.is_empty() && flight.bytes.is_empty());
    // Four were never sent, nor were fewer received than were acknowledged.
    assert!(mixed().settle(3).is_none() && mixed().settle(u32::MAX - 1).is_none());
}

/// Whatever is posted in whichever way: the flight is the list of it, what is repeated is what was not over, byte for byte, and
/// of sixteen in a row one tells.
#[test]
fn a_flight_is_the_list_of_what_was_posted() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut flight = Flight::default();
        let mut list: VecDeque<(u64, Deed, Vec<u8>)> = VecDeque::new();
        let (mut completed, mut silent, mut quick, mut chains) = (0_u32, 0, 0, 0);
        for step in 0..400_u64 {
            let to = RemoteMemory { address: step, key: seed };
            let mut some = |most: u64| {
                let length = random.below(most + 1) as usize;
                (0..length).map(|_| random.below(256) as u8).collect::<Vec<u8>>()
            };
            let next = flight.next();
            let (message, write) = (some((FEW - HEADER_BYTES) as u64), some(FEW as u64));
            let long = some(200);
            match random.below(7) {
                0 | 1 => {
                    let header = [step, !step];
                    let mut all: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
                    all.extend(&message);
                    let tells = flight.must_signal().then_some(64);
                    if let Some((id, bytes)) = flight.message(header, &message, tells) {
                        assert_eq!((id, bytes), (next, &*all), "seed {seed}");
                        flight.posted(tells.is_some());
                        list.push_back((id, Deed::Message, all));
                        (silent, quick) = (if tells.is_some() { 0 } else { silent + 1 }, quick + 1);
                    }
                }
                2 => {
                    let tells = flight.must_signal().then_some(64);
                    if let Some((id, bytes)) = flight.write(&write, to, tells) {
                        assert_eq!((id, bytes), (next, &*write), "seed {seed}");
                        flight.posted(tells.is_some());
                        list.push_back((id, Deed::Write(to), write));
                        silent = if tells.is_some() { 0 } else { silent + 1 };
                    }
                }
                3 if flight.len() < 100 => {
                    let signaled = flight.must_signal() || random.chance(0.2);
                    let deed = if random.chance(0.5) { Deed::Message } else { Deed::Write(to) };
                    flight.push(Holds::Nothing, signaled, deed, &Data::Inline(&[&message, &long]));
                    list.push_back((next, deed, [message, long].concat()));
                    silent = if signaled { 0 } else { silent + 1 };
                    flight.allow(64);
                }
                4 if flight.len() < 100 => {
                    flight.begin_chain();
                    let most = random.below(20);
                    let mut count = 0;
                    while count < most && flight.keep_back(&write, to) {
                        list.push_back((flight.next() - 1, Deed::Write(to), write.clone()));
                        (silent, count) = (silent + 1, count + 1);
                    }
                    if count > 0 && count < most {
                        let signaled = flight.must_signal();
                        flight.keep_last(&write, to);
                        list.push_back((flight.next() - 1, Deed::Write(to), write));
                        (silent, count) = (if signaled { 0 } else { silent + 1 }, count + 1);
                    }
                    let chain: Vec<_> =
                        flight.chain().map(|(id, deed, bytes, _)| (id, deed, bytes.to_vec())).collect();
                    assert!(chain.iter().eq(list.range(list.len() - count as usize..)), "seed {seed}");
                    assert!(count <= SIGNAL_EVERY.into(), "seed {seed}");
                    flight.chain_posted();
                    flight.allow(64);
                    chains += u32::from(count > 1);
                }
                5 if !list.is_empty() => {
                    let id = list[random.below(list.len() as u64) as usize].0;
                    while let Some((_, last)) = flight.retire(id) {
                        let (gone, deed, _) = list.pop_front().unwrap();
                        assert_eq!(last, gone == id, "seed {seed}");
                        completed = completed.wrapping_add(u32::from(deed == Deed::Message));
                    }
                    silent = silent.min(list.len() as u32);
                }
                6 if random.chance(0.1) => {
                    let messages = list.iter().filter(|it| it.1 == Deed::Message).count() as u64;
                    let arrived = random.below(messages + 1) as usize;
                    let mut seen = list.iter().enumerate().filter(|it| it.1.1 == Deed::Message);
                    let over = arrived.checked_sub(1).map_or(0, |last| 1 + seen.nth(last).unwrap().0);
                    completed = completed.wrapping_add(arrived as u32);
                    assert_eq!(flight.settle(completed).unwrap().len(), over, "seed {seed}");
                    list.drain(..over);
                    let mut again = VecDeque::new();
                    flight
                        .repeat(|id, _, deed, data, _| {
                            let bytes = match data {
                                Data::Inline(parts) => parts.concat(),
                                Data::Segments(segments) => {
                                    assert!(segments.is_empty(), "seed {seed}");
                                    Vec::new()
                                }
                            };
                            again.push_back((id, deed, bytes));
                            Ok::<(), ()>(())
                        })
                        .unwrap();
                    assert_eq!(again, list, "seed {seed}");
                    silent = 0;
                    flight.allow(64);
                }
                _ => {}
            }
            assert!(silent < SIGNAL_EVERY, "nothing tells of {silent} (seed {seed})");
            let ids = list.front().map_or(flight.next(), |it| it.0)..flight.next();
            assert!(list.iter().map(|it| it.0).eq(ids) && flight.len() == list.len(), "seed {seed}");
        }
        assert!(quick > 0 && chains > 0, "this shows nothing (seed {seed})");
    }
}

/// A word of the connection's own (of rings, say) is meant for it alone. Somebody may wait for what was posted until then; the next
/// connection tells of it by an empty write, since there is nowhere that those bytes could be written to.
#[test]
fn a_word_that_somebody_waits_behind_is_repeated_as_an_empty_write() {
    let mut flight = Flight::default();
    flight.push(Holds::Nothing, true, Deed::Nothing, &Data::Inline(&[&[9; 24]]));
    assert!(flight.join(Token(6)), "it tells");
    flight.push(Holds::Slot(2), true, Deed::Message, &Data::Inline(&[&[5; 30]]));
    assert_eq!(flight.settle(0), Some(Vec::new()));
    assert_eq!(repeated(&mut flight), [(0, Deed::Nothing, 0, true), (1, Deed::Message, 30, true)]);
}
