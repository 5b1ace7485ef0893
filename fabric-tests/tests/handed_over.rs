//! Collectives that libfabric's provider runs (`FI_COLLECTIVE`), over the software provider that has them: the same results,
//! the same errors, and said which way they go. Without libfabric, or that provider, the tests are skipped and say so.

use std::path::Path;
use std::sync::OnceLock;

use weft_fabric_tests::harness::{Ended, Job, Outcome, Toolchain, build, root, run_under, skip};

const OVER_PROVIDER: [(&str, &str); 3] =
    [("WEFT_TRANSPORT", "ofi"), ("WEFT_OFI_PROVIDER", "tcp;ofi_rxm"), ("WEFT_OFFLOAD", "yes")];

/// A job of programs that begin, meet and end.
fn told(settings: &[(&str, &str)]) -> Outcome {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join("conformance/ch06/barrier.c"), &[]);
    let job = Job::new(tools, 2, &program).env("WEFT_VERBOSE", "2");
    settings.iter().fold(job, |job, &(name, value)| job.env(name, value)).run()
}

/// Why the provider cannot be tried here; nothing where it is there and has collectives. Where it is, a job that hands them
/// over ends well.
fn obstacle() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let without = told(&[OVER_PROVIDER[0], OVER_PROVIDER[1], ("WEFT_OFFLOAD", "no")]);
        if without.ended != Ended::Code(0) {
            return Some(format!("libfabric's tcp;ofi_rxm is not here: {}", without.stderr.trim_end()));
        }
        let with = told(&OVER_PROVIDER);
        assert_eq!(with.ended, Ended::Code(0), "with collectives by the provider: {}", with.stderr);
        let offered = with.stderr.contains("libfabric: the provider runs collectives");
        (!offered).then(|| format!("this tcp;ofi_rxm has no collectives: {}", with.stderr.trim_end()))
    });
    found.as_deref()
}

/// Whether the provider can be tried; a skip, once in a test, where it cannot.
fn is_offered() -> bool {
    obstacle().map(skip).is_none()
}

/// Runs a program over the provider, on so many ranks.
fn over_provider(program: &str, ranks: &[u32]) {
    for &ranks in ranks {
        let with = |job: Job| OVER_PROVIDER.iter().fold(job, |job, &(name, value)| job.env(name, value));
        let _ = run_under(Path::new(program), ranks, with);
    }
}

#[test]
fn the_four_collectives_go_to_the_provider_and_nothing_else_does() {
    if is_offered() {
        over_provider("device/handed_over.c", &[2, 3, 5]);
    }
}

#[test]
fn a_process_that_dies_ends_what_was_handed_over() {
    if is_offered() {
        over_provider("quality/survivors_collectives.c", &[3]);
    }
}

#[test]
fn a_process_that_dies_while_a_group_is_joined_keeps_nobody() {
    if !is_offered() {
        return;
    }
    for (ranks, moment) in [(3, "300"), (4, "600")] {
        let with = |job: Job| {
            OVER_PROVIDER.iter().fold(job, |job, &(name, value)| job.env(name, value)).env("DIES_AT", moment)
        };
        let _ = run_under(Path::new("device/joined_by_the_dying.c"), ranks, with);
    }
}

#[test]
fn programs_of_chapter_six_get_the_same_results() {
    if !is_offered() {
        return;
    }
    for program in
        ["every", "overlapping", "nonblocking", "same_result", "isolation", "barrier_separates", "user_op"]
    {
        over_provider(&format!("conformance/ch06/{program}.c"), &[3]);
    }
}

#[test]
fn it_is_said_who_runs_collectives_and_why() {
    if !is_offered() {
        return;
    }
    let outcome = told(&OVER_PROVIDER);
    outcome.demand(
        outcome.stderr.contains("MPI_COMM_WORLD: its 2 members have joined a group of the fabric's provider"),
        "the communicator's way must be told",
    );
    for (offload, why) in [("auto", "WEFT_OFFLOAD=yes takes it"), ("no", "WEFT_OFFLOAD=no")] {
        let mut settings = OVER_PROVIDER;
        settings[2].1 = offload;
        let outcome = told(&settings);
        outcome.demand(outcome.stderr.contains(why), "the reason must be told");
        outcome.demand(!outcome.stderr.contains("have joined a group"), "no group was asked for");
    }
    let silent = [OVER_PROVIDER[0], ("WEFT_OFI_PROVIDER", "shm"), OVER_PROVIDER[2]];
    let outcome = told(&silent);
    // Without that provider there is nothing to be seen.
    if outcome.ended == Ended::Code(0) {
        outcome.demand(
            outcome.stderr.contains("MPI_COMM_WORLD: its collectives stay with the engine")
                && outcome.stderr.contains("offers neither them"),
            "why there is no group must be told",
        );
    }
}
