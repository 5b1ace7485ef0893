//! What ranks say must never bring mpiexec down. The first byte of each piece says which rank speaks and how much.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_launch::pmi_server::Server;

fuzz_target!(|bytes: &[u8]| {
    let mut server = Server::new("job", &[0, 0, 1], 3);
    let mut actions = Vec::new();
    let mut rest = bytes;
    while let Some((&head, tail)) = rest.split_first() {
        let length = usize::from(head >> 2).min(tail.len());
        server.receive(usize::from(head & 3) % 3, &tail[..length], &mut actions);
        rest = &tail[length..];
    }
});
