//! What a launcher says must never bring a rank down: the card, PMI-1 lines, PMI-2 frames, the process mapping, the ranks on
//! each node that PMIx tells. What is read
//! must be read alike after being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_boot::Nodes;
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
    let listed = mapping::nodes(&text, 64);
    if let Some(kept) = Nodes::parse(&text, 64) {
        assert_eq!(Ok((0..64).map(|rank| kept.node(rank)).collect::<Vec<u32>>()), listed);
    }
    let ranks: Vec<Vec<u32>> = bytes
        .split(|&byte| byte == 0)
        .map(|node| node.iter().map(|&rank| u32::from(rank) - 1).collect())
        .collect();
    let size = ranks.iter().map(|node| node.len() as u32).sum();
    if let Some(nodes) = Nodes::by_their_ranks(ranks.iter().map(Vec::as_slice), size) {
        for (node, ranks) in (0..).zip(&ranks) {
            assert!(ranks.iter().all(|&rank| nodes.node(rank) == node));
        }
    }
    let mut lines = LineBuffer::default();
    for piece in bytes.chunks(7) {
        let _ = lines.push(piece);
        while lines.next_line().is_some() {}
    }
});
