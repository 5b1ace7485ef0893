//! Whatever message comes from an endpoint: its parts lie in it, one behind the other, and a prefix that is read is written the same.
//! Whatever card comes: one that is read is written so that it is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_ofi::OfiCard;
use weft_ofi::packet::{HEAD, PREFIX, Prefix, What, header_at, parts};

fuzz_target!(|bytes: &[u8]| {
    if let Some(prefix) = Prefix::parse(bytes) {
        assert_eq!(&prefix.emit()[..], &bytes[..PREFIX]);
        // Blindly found bytes seldom say that they are many.
        for what in [prefix.what, What::Many] {
            if what == What::Data && bytes.len() < HEAD {
                continue;
            }
            let mut end = PREFIX;
            for (at, length) in parts(bytes, what) {
                assert!(at >= end, "a part begins in another");
                let _ = header_at(bytes, at);
                end = at + (HEAD - PREFIX) + length;
                assert!(end <= bytes.len());
            }
        }
    }
    if let Some(card) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<OfiCard>().ok()) {
        assert_eq!(card.to_string().parse::<OfiCard>().ok(), Some(card));
    }
});
