//! Records, their tails, and what both ends know of places.

use super::*;
use std::collections::VecDeque;
use weft_sim::Random;

proptest::proptest! {
    #[test]
    fn what_is_read_was_written(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 24..=24), kind in 1_u8..4) {
        let mut bytes = bytes;
        bytes[0] = kind;
        bytes[1] &= 1;
        bytes[20..].fill(0);
        if let Some(word) = Word::parse(&bytes) {
            proptest::prop_assert_eq!(&word.emit()[..], &bytes[..]);
        }
    }
}

#[test]
fn words_come_back() {
    let to = RemoteAddress { address: 1 << 62, key: RemoteKey(u32::MAX) };
    let give = Word::Give { to, places: 64, place_bytes: 512, told: true };
    for word in [give, Word::TakeBack, Word::Returned] {
        assert_eq!(Word::parse(&word.emit()), Some(word));
        assert_eq!(Word::parse(&word.emit()[1..]), None);
    }
    let changed = |place: usize, byte: u8| {
        let mut bytes = give.emit();
        bytes[place] = byte;
        Word::parse(&bytes)
    };
    assert_eq!(changed(2, 63), None, "places that are no power of two");
    assert_eq!(changed(4, 1), None, "places that end at no word");
    assert_eq!(changed(8, 4), None, "a ring that begins at no word");
    let high = RemoteAddress { address: u64::MAX - 7, ..to };
    assert_eq!(Word::parse(&Word::Give { to: high, places: 64, place_bytes: 512, told: false }.emit()), None);
}

/// The device has stored the record up to some byte, in order of addresses, where the record of the lap before still stands: it
/// counts from the last byte on and not before, in every lap, the wrapping ones too.
#[test]
fn a_record_counts_when_its_last_byte_is_there() {
    let tail =
        |record: u32, length: u16, number: u16| Tail { lap: lap(record, PLACES), length, taken: 9, number };
    for record in [0, 64, 255 * 64, 256 * 64, 65_534 * 64, 65_535 * 64, 65_536 * 64, u32::MAX - 63] {
        let old = match record {
            0 => [0; 8],
            _ => tail(record.wrapping_sub(64), 100, 7).emit(),
        };
        let new = tail(record, 24, 7).emit();
        let own = Incoming { seen: record, taken: record, ..Incoming::new(0, false, 0) };
        for stored in 0..=TAIL_BYTES {
            let mut word = old;
            word[..stored].copy_from_slice(&new[..stored]);
            let seen = own.is_next(u64::from_le_bytes(word), 7);
            // The high byte of the lap may be that of the lap before: then nothing is missing without it.
            let complete = word == new;
            assert_eq!(seen.is_some(), complete, "{stored} bytes of record {record}");
            assert!(seen.is_none_or(|seen| seen == tail(record, 24, 7)));
        }
        assert!(own.is_next(u64::from_le_bytes(new), 6).is_none(), "a send is before it");
    }
}

/// Two ends and a ring between them, with words of what was taken that are late and out of order: no place is written that was
/// not taken, everything is taken in order, and in the end all places are free. Numbers wrap.
#[test]
fn no_place_is_written_before_it_is_taken() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let start = u32::MAX - random.below(500) as u32;
        let give = Word::Give {
            to: RemoteAddress { address: 0, key: RemoteKey(1) },
            places: PLACES,
            place_bytes: PLACE_BYTES,
            told: false,
        };
        let mut next = 5;
        let mut out = Outgoing::new(give, start).unwrap();
        // As if it had been written to for long.
        let before = start / u32::from(PLACES) * u32::from(PLACES);
        (out.written, out.taken) = (before, before);
        let mut own = Incoming { seen: before, taken: before, said: before, ..Incoming::new(0, false, 0) };
        let old = Tail { lap: lap(before, PLACES).wrapping_sub(1), length: 16, taken: 0, number: 0 };
        let mut memory = vec![u64::from_le_bytes(old.emit()); usize::from(PLACES)];
        let mut held: VecDeque<u16> = VecDeque::new();
        let mut sends: VecDeque<u32> = VecDeque::new();
        let mut words: Vec<u16> = Vec::new();
        let (mut sent, mut received, mut by_ring) = (start, start, 0);
        for _ in 0..5_000 {
            match random.below(5) {
                0 | 1 => {
                    let length = 16 + random.below(400) as usize;
                    if random.chance(0.05) {
                        next += 1; // A put: the next message is sent.
                    }
                    match out.place(length, next, 1024, 0) {
                        Some((to, tail)) => {
                            let place = ((to.address + length as u64) / u64::from(PLACE_BYTES)) as u16;
                            assert!(!held.contains(&place), "a place that was not taken (seed {seed})");
                            let tail = u64::from_le_bytes(tail);
                            assert_eq!(usize::from(Tail::of(tail).length), length);
                            memory[usize::from(place)] = tail;
                            out.wrote();
                            by_ring += 1;
                        }
                        None => sends.push_back(sent),
                    }
                    next += 1;
                    out.sent(next);
                    sent = sent.wrapping_add(1);
                }
                2 => {
                    while let Some(at) = own.next()
                        && own.is_next(memory[at as usize / usize::from(PLACE_BYTES)], received).is_some()
                    {
                        held.push_back(own.saw());
                        received = received.wrapping_add(1);
                    }
                    if let Some(&number) = sends.front() {
                        assert_eq!(number, received, "a record was left behind a send (seed {seed})");
                        sends.pop_front();
                        received = received.wrapping_add(1);
                    }
                }
                3 => {
                    let gave_back = held.pop_front().is_some();
                    if gave_back && (own.took() || random.chance(0.1)) {
                        words.push(own.taken());
                        own.has_said();
                    }
                }
                _ if !words.is_empty() => {
                    let some = random.below(words.len() as u64) as usize;
                    out.heard(words.swap_remove(some));
                }
                _ => {}
            }
        }
        assert!(by_ring > 300, "this shows nothing (seed {seed})");
    }
}
