//! Whatever message comes: its prefix is read as it would be written, and the packets in it lie inside, one behind another, each
//! with a whole head.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_ofi::packet::{GRAIN, HEAD, PREFIX, Prefix, What, header_bytes, header_of, joined};

fuzz_target!(|bytes: &[u8]| {
    if let Some(prefix) = Prefix::parse(bytes) {
        assert_eq!(&prefix.emit()[..15], &bytes[..15]);
        if prefix.what == What::Data {
            assert_eq!(&header_bytes(header_of(bytes))[..], &bytes[PREFIX..HEAD]);
        }
    }
    let mut end = PREFIX;
    for place in joined(bytes) {
        assert!(
            place.start >= end
                && place.start < end + GRAIN
                && place.len() >= HEAD
                && place.end <= bytes.len()
        );
        let packet = &bytes[place.clone()];
        assert_eq!(&header_bytes(header_of(packet))[..], &packet[PREFIX..HEAD]);
        end = place.end;
    }
});
