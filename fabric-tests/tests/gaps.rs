//! Messages with gaps on each of their ways: the programs about derived types once more, with all but the shortest messages
//! announced, read by the receiver from layout to layout, or streamed.

use std::path::Path;

use weft_fabric_tests::harness::{Toolchain, run_under};

#[track_caller]
fn run(program: &str, ranks: u32, ways: &[(&str, &str)]) {
    // Another implementation has no such ways.
    if Toolchain::under_test().is_weft() {
        run_under(&Path::new("conformance").join(program), ranks, |job| {
            ways.iter().fold(job, |job, (name, value)| job.env(*name, *value))
        });
    }
}

macro_rules! ways {
    ($($name:ident: $program:literal, $ranks:literal;)*) => {$(
        mod $name {
            #[test]
            fn read() {
                super::run($program, $ranks, &[("WEFT_GAPS", "read"), ("WEFT_EAGER_LIMIT", "64")]);
            }
            #[test]
            fn streamed() {
                super::run($program, $ranks, &[("WEFT_GAPS", "stream"), ("WEFT_EAGER_LIMIT", "64")]);
            }
            #[test]
            fn chosen_on_shared_cores() {
                super::run($program, $ranks, &[("WEFT_OVERSUBSCRIBED", "yes"), ("WEFT_EAGER_LIMIT", "1K")]);
            }
            #[test]
            fn where_no_memory_can_be_read() {
                super::run($program, $ranks, &[("WEFT_GAPS", "read"), ("WEFT_SINGLE_COPY", "no")]);
            }
        }
    )*};
}

ways! {
    gaps: "ch05/gaps.c", 2;
    random_types: "ch05/random_types.c", 2;
    every_path: "ch05/every_path.c", 2;
    examples: "ch05/examples.c", 3;
    partitioned: "ch04/derived_types.c", 2;
    one_sided: "ch12/derived.c", 2;
    neighborhood: "ch08/neighbor_graph.c", 2;
}
