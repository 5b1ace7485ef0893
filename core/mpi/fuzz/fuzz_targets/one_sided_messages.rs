//! Whatever an origin asks of a target: the message is refused, or what it does stays in the window (see `check_message`). Blindly
//! found numbers are seldom near a window, so the same bytes are also read as small ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft::window::check_message;

/// The fields of a message's head: four of four bytes, five of eight.
const FIELDS: [usize; 9] = [4, 4, 4, 4, 8, 8, 8, 8, 8];

fuzz_target!(|bytes: &[u8]| {
    check_message(bytes);
    let Some((small, rest)) = bytes.split_at_checked(FIELDS.len()) else { return };
    let mut message = Vec::new();
    for (length, &byte) in FIELDS.into_iter().zip(small) {
        message.extend(&i64::from(byte as i8).to_le_bytes()[..length]);
    }
    // The number of runs, with the bounds in front of them, and the runs.
    let runs = u64::from(small[8] % 5);
    let at = message.len() - 8;
    message[at..].copy_from_slice(&runs.to_le_bytes());
    let (pairs, data) = rest.split_at(rest.len().min(2 * runs as usize));
    message.extend(pairs.iter().flat_map(|&byte| i64::from(byte as i8).to_le_bytes()));
    message.extend(data);
    check_message(&message);
});
