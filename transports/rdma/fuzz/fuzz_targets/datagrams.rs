//! Whatever datagram comes: a question or a letter that is read is written the same, and a conversation that is handed it holds no more
//! than it may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_rdma::{check_letter, handshake::Hello};

fuzz_target!(|bytes: &[u8]| {
    if let Some(hello) = Hello::parse(bytes) {
        assert_eq!(&hello.emit()[..], bytes);
    }
    check_letter(bytes);
});
