//! Packets from another process: whatever is accepted is written again as it was read, and says no more than there is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::{Announce, Announced, Cts, Header, RemotePlace, SmallPacket, SyncPrefix};

fuzz_target!(|bytes: &[u8]| {
    let Some((words, payload)) = bytes.split_at_checked(Header::BYTES) else { return };
    let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"));
    envelope(Header::from_words([word(0), word(8)]), payload);
    if let Some((announce, data)) = Announce::parse(payload) {
        assert!(u64::from(announce.lead) <= announce.length && data.len() <= announce.lead as usize);
        let mut packet = vec![0; Announce::packet(data.len())];
        announce.put(&mut packet).copy_from_slice(data);
        assert_eq!(packet.len(), payload.len());
        assert_eq!(packet[..Announce::BYTES], payload[..Announce::BYTES]);
        assert!(packet.ends_with(data));
    }
    if let Some((announce, stamp)) = Announce::parse_stamped(payload) {
        assert_eq!(&announce.stamped(stamp)[..], payload);
    }
    if let Some((announce, announced)) = Announced::parse(payload) {
        assert!((announced.slot as usize) < Announced::SLOTS && announced.program.len() <= Announced::LONGEST);
        let mut packet = vec![0; payload.len()];
        let (front, back) = packet.split_at_mut(Announce::BYTES);
        front.copy_from_slice(&announce.emit());
        announced.put(back);
        assert_eq!(packet, payload);
    }
    if let Some((front, place)) = RemotePlace::parse(payload) {
        let mut packet = [front, &[0; RemotePlace::BYTES]].concat();
        place.put(&mut packet);
        assert_eq!(packet, payload);
    }
    if let Some((prefix, data)) = SyncPrefix::parse(payload) {
        assert_eq!([&prefix.emit(), data].concat(), payload);
    }
    if let Some(cts) = Cts::parse(payload) {
        assert_eq!(cts.emit(), payload);
    }
});

/// An envelope keeps what it is not asked to change, and is shown whatever its bytes.
fn envelope(header: Header, payload: &[u8]) {
    assert_eq!(Header::from_words(header.words()), header);
    assert!(!format!("{header:?}").is_empty());
    let flagged = header.with_flags(!header.flags());
    assert_eq!((flagged.kind(), flagged.id(), flagged.value()), (header.kind(), header.id(), header.value()));
    if let Some(kind) = header.kind() {
        assert_eq!(header.with_kind(kind), header);
    }
    if payload.len() <= Announce::BYTES {
        assert_eq!(SmallPacket::new(header, payload).payload(), payload);
    }
}
