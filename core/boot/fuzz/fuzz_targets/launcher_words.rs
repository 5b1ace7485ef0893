//! What a launcher says must never bring a rank down: the card, PMI-1 lines, PMI-2 frames, the process mapping. What is read
//! must be read alike after being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_boot::card::Card;
use weft_boot::pmi::wire1::{Command, LineBuffer};
use weft_boot::pmi::{mapping, wire2};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(card) = Card::parse(&text) {
        assert_eq!(Card::parse(&card.emit()), Ok(card));
    }
    if let Ok(command) = Command::parse(bytes) {
        assert_eq!(Command::parse(command.emit().as_bytes()), Ok(command));
    }
    let _ = wire2::parse(bytes);
    if let Some(header) = bytes.first_chunk() {
        let _ = wire2::body_length(header);
    }
    let _ = mapping::nodes(&text, 64);
    let mut lines = LineBuffer::default();
    for piece in bytes.chunks(7) {
        let _ = lines.push(piece);
        while lines.next_line().is_some() {}
    }
});
