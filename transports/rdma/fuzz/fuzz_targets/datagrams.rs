//! Whatever datagram comes: a question or a letter that is read is written the same, and a conversation that is handed such, with
//! what its own program does in between, holds no more than it may. Whatever card comes: one that is read is written so that it is read the same, and its addresses have
//! ways to each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_api::verbs::{MOST_WAYS, ways};
use weft_rdma::{KeyWord, PeerCard, check_conversation, check_letter, handshake::Hello, ring::Word};

fuzz_target!(|bytes: &[u8]| {
    if let Some(hello) = Hello::parse(bytes) {
        assert_eq!(&hello.emit()[..], bytes);
    }
    if let Some(word) = KeyWord::parse(bytes) {
        assert_eq!(&word.emit()[..], bytes);
    }
    check_letter(bytes);
    check_conversation(bytes);
    if let Some(word) = Word::parse(bytes) {
        assert_eq!(&word.emit()[..], bytes);
    }
    if let Some(card) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<PeerCard>().ok()) {
        assert_eq!(card.to_string().parse::<PeerCard>().ok(), Some(card.clone()));
        let other = card.others.first().unwrap_or(&card.first);
        let ways = ways(&card.first.addresses, &other.addresses);
        assert!((1..=MOST_WAYS).contains(&ways.len()));
        for way in ways {
            let ends =
                (card.first.addresses.get(way.first as usize), other.addresses.get(way.second as usize));
            assert!(matches!(ends, (Some(_), Some(_))));
        }
    }
});
