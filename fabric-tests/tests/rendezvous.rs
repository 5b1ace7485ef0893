//! Messages that devices move: programs once more over the emulator, with all but the shortest messages announced, then read by
//! the receiver's device, written by the sender's, or streamed.

use std::path::Path;

use weft_fabric_tests::harness::{Toolchain, run_under};

#[track_caller]
fn run(program: &str, ranks: u32, way: &str) {
    // Another implementation has no such ways.
    if Toolchain::under_test().is_weft() {
        run_under(&Path::new("conformance").join(program), ranks, |job| {
            job.env("WEFT_TRANSPORT", "softroce").env("WEFT_RENDEZVOUS", way).env("WEFT_EAGER_LIMIT", "64")
        });
    }
}

macro_rules! ways {
    ($($name:ident: $program:literal, $ranks:literal;)*) => {$(
        mod $name {
            #[test]
            fn read() {
                super::run($program, $ranks, "read");
            }
            #[test]
            fn written() {
                super::run($program, $ranks, "write");
            }
            #[test]
            fn streamed() {
                super::run($program, $ranks, "stream");
            }
        }
    )*};
}

ways! {
    sizes: "ch03/sizes.c", 2;
    random_traffic: "ch03/random_traffic.c", 3;
    synchronous: "ch03/ssend.c", 2;
    probed: "ch03/mprobe.c", 2;
    cancelled: "ch03/cancel_send_modes.c", 2;
    gaps: "ch05/gaps.c", 2;
    every_path: "ch05/every_path.c", 2;
    partitioned: "ch04/derived_types.c", 2;
    one_sided: "ch12/derived.c", 2;
    all_to_all: "ch06/alltoall.c", 4;
}
