//! Tests of [`super`]: whole lives of jobs.

use super::*;
use proptest::prelude::*;

const SEGV: End = End::Signal { signal: 11, core: false };
const TERM: End = End::Signal { signal: 15, core: false };

fn job(size: usize, inside: bool) -> (Judge, Instant) {
    let mut judge = Judge::new(size);
    for rank in 0..size {
        if inside {
            judge.started(rank);
        }
    }
    (judge, Instant::now())
}

#[test]
fn a_death_is_told_to_ranks_that_all_go_on_and_ends_any_other_job() {
    let (mut judge, now) = job(3, true);
    judge.survives(0);
    judge.survives(1);
    assert_eq!(judge.ended(2, SEGV, now), Some(Order::Tell(2)));
    assert_eq!(judge.cause(), None);
    judge.finished(0);
    assert_eq!(judge.ended(0, End::Exit(0), now), None);
    judge.finished(1);
    judge.ended(1, End::Exit(0), now);
    assert_eq!((judge.exit_code(), judge.lost().len()), (139, 1));

    let (mut judge, now) = job(3, true);
    judge.survives(0);
    assert_eq!(judge.ended(2, SEGV, now), Some(Order::Terminate), "rank 1 cannot do without it");
    let (mut judge, now) = job(2, false);
    judge.survives(0);
    assert_eq!(judge.ended(1, SEGV, now), Some(Order::Terminate), "it never came to MPI");
    let (mut judge, now) = job(2, true);
    judge.survives(0);
    judge.interrupted(2);
    assert_eq!(judge.ended(1, TERM, now), Some(Order::Terminate), "the user ends the job");
}

#[test]
fn some_ranks_are_aborted_where_the_others_go_on() {
    let partial = |ranks: &[usize]| Partial { rank: 1, code: 9, message: None, ranks: ranks.to_vec() };
    let (mut judge, now) = job(4, true);
    judge.survives(0);
    assert_eq!(judge.abort_some(partial(&[1, 2]), now), None, "rank 3 cannot go on");
    judge.survives(3);
    assert_eq!(judge.abort_some(partial(&[]), now), None);
    assert_eq!(judge.abort_some(partial(&[0, 1, 2, 3]), now), None, "nobody would be left");
    assert_eq!(judge.abort_some(partial(&[1, 2]), now), Some(Order::TerminateDoomed));
    assert_eq!(judge.ended(1, End::Exit(9), now), None);
    assert_eq!(judge.doomed().collect::<Vec<_>>(), [2]);
    assert_eq!(judge.deadline(), Some(now + GRACE));
    assert_eq!(judge.tick(now + GRACE), Some(Order::KillDoomed));
    assert_eq!(judge.tick(now + GRACE), None);
    assert_eq!(judge.ended(2, TERM, now), None);
    for rank in [0, 3] {
        judge.finished(rank);
        assert_eq!(judge.ended(rank, End::Exit(0), now), None);
    }
    assert_eq!((judge.exit_code(), judge.cause()), (9, None));
}

#[test]
fn a_survivor_that_dies_ends_what_is_left() {
    let (mut judge, now) = job(3, true);
    judge.survives(0);
    judge.survives(1);
    let partial = Partial { rank: 2, code: 256, message: None, ranks: vec![2] };
    assert_eq!(judge.abort_some(partial, now), Some(Order::TerminateDoomed));
    assert_eq!(judge.exit_code(), 1);
    assert_eq!(judge.ended(0, SEGV, now), Some(Order::Terminate));
    assert_eq!(judge.exit_code(), 128 + 11);
}

#[test]
fn a_loss_that_cannot_be_told_ends_the_job_for_that_loss() {
    let (mut judge, now) = job(4, true);
    judge.survives(0);
    judge.survives(1);
    judge.survives(2);
    assert_eq!(judge.ended(3, SEGV, now), Some(Order::Tell(3)));
    assert_eq!(judge.ended(2, End::Signal { signal: 9, core: false }, now), Some(Order::Tell(2)));
    assert_eq!(judge.cannot_tell(3, now), Some(Order::Terminate));
    assert_eq!(judge.cannot_tell(3, now), None, "a second host says the same");
    assert!(matches!(judge.cause(), Some(Cause::Ended { rank: 3, end: SEGV, others: 2, .. })));
    let (mut judge, now) = job(2, true);
    judge.survives(0);
    let partial = Partial { rank: 1, code: 6, message: None, ranks: vec![1] };
    assert_eq!(judge.abort_some(partial, now), Some(Order::TerminateDoomed));
    assert_eq!(judge.cannot_tell(1, now), Some(Order::Terminate));
    assert!(matches!(judge.cause(), Some(Cause::Aborted { rank: 1, code: 6, .. })));
}

#[test]
fn what_depends_on_others_is_told() {
    let (mut judge, _) = job(3, true);
    assert!(judge.depends_on_others(0, SEGV) && judge.depends_on_others(0, End::Exit(0)));
    judge.finished(0);
    assert!(judge.depends_on_others(0, End::Exit(4)), "others may be dead that are taken for alive");
    judge.finished(1);
    judge.finished(2);
    assert!(!judge.depends_on_others(0, End::Exit(4)), "its code counts, and nobody is ended");
    assert!(judge.depends_on_others(0, SEGV));
    let (mut judge, now) = job(3, true);
    judge.ended(0, SEGV, now);
    assert!(!judge.depends_on_others(1, SEGV), "the job is being ended already");
    let (judge, _) = job(2, false);
    assert!(!judge.depends_on_others(0, End::Exit(0)) && judge.depends_on_others(0, End::Exit(1)));
}

#[test]
fn all_ranks_finish() {
    let (mut judge, now) = job(2, true);
    for rank in 0..2 {
        judge.finished(rank);
        assert_eq!(judge.ended(rank, End::Exit(0), now), None);
    }
    assert!(judge.all_ended());
    assert_eq!((judge.exit_code(), judge.cause()), (0, None));
}

#[test]
fn a_crash_ends_the_job_with_its_signal() {
    let (mut judge, now) = job(3, true);
    assert_eq!(judge.ended(1, SEGV, now), Some(Order::Terminate));
    assert_eq!(judge.ended(0, TERM, now), None);
    assert_eq!(judge.tick(now), None);
    assert_eq!(judge.tick(now + GRACE), Some(Order::Kill));
    assert_eq!(judge.tick(now + 2 * GRACE), None, "once is enough");
    judge.ended(2, End::Signal { signal: 9, core: false }, now);
    assert_eq!(judge.exit_code(), 139);
    assert!(judge.also().is_empty());
}

#[test]
fn an_exit_inside_mpi_ends_the_job_even_with_code_0() {
    let (mut judge, now) = job(2, true);
    assert_eq!(judge.ended(0, End::Exit(0), now), Some(Order::Terminate));
    assert_eq!(judge.exit_code(), 1);
}

#[test]
fn an_exit_before_mpi_with_code_0_is_no_failure() {
    let (mut judge, now) = job(2, false);
    assert_eq!(judge.ended(0, End::Exit(0), now), None);
    assert_eq!(judge.ended(1, End::Exit(7), now), None, "nobody is left to be ended");
    assert_eq!(judge.exit_code(), 7);
}

#[test]
fn a_code_after_mpi_is_passed_on_and_ends_nobody() {
    let (mut judge, now) = job(3, true);
    judge.finished(2);
    assert_eq!(judge.ended(2, End::Exit(5), now), None);
    judge.finished(0);
    assert_eq!(judge.ended(0, End::Exit(6), now), None);
    judge.finished(1);
    judge.ended(1, End::Exit(0), now);
    assert_eq!((judge.exit_code(), judge.late_failure()), (5, Some((2, 5))));
}

#[test]
fn abort_gives_its_code_but_never_success() {
    for (code, expected) in [(3, 3), (0, 1), (256, 1), (-1, 255), (999, 231)] {
        let (mut judge, now) = job(2, true);
        assert_eq!(
            judge.condemn(Cause::Aborted { rank: 1, code, message: None }, now),
            Some(Order::Terminate)
        );
        assert_eq!(judge.ended(1, End::Exit(3), now), None);
        assert_eq!(judge.exit_code(), expected);
    }
}

#[test]
fn the_second_interrupt_kills() {
    let (mut judge, now) = job(2, true);
    assert_eq!(judge.interrupted(2), None);
    assert_eq!(judge.interrupted(2), Some(Order::Kill));
    judge.ended(0, End::Signal { signal: 9, core: false }, now);
    assert_eq!(judge.exit_code(), 130);
}

#[test]
fn ranks_that_end_by_a_passed_on_signal_were_interrupted() {
    let (mut judge, now) = job(2, true);
    judge.interrupted(15);
    assert_eq!(judge.ended(0, TERM, now), Some(Order::Terminate));
    assert_eq!(judge.exit_code(), 143);
    assert_eq!(judge.cause(), Some(&Cause::Interrupted { signal: 15 }));
}

#[test]
fn ranks_that_survive_an_interrupt_decide_themselves() {
    let (mut judge, now) = job(1, true);
    judge.interrupted(2);
    judge.finished(0);
    judge.ended(0, End::Exit(0), now);
    assert_eq!(judge.exit_code(), 0);
}

#[test]
fn a_second_crash_is_remembered() {
    let (mut judge, now) = job(3, true);
    judge.ended(1, SEGV, now);
    judge.ended(2, SEGV, now);
    assert_eq!(judge.also(), [(2, SEGV)]);
}

fn any_event() -> impl Strategy<Value = (u8, usize, i32)> {
    (0u8..6, 0usize..4, 0i32..40)
}

proptest! {
    /// Whatever happens: a job with a cause is killed at last, no order is given to nobody, and failure never looks like success.
    #[test]
    fn any_history_ends(events in prop::collection::vec(any_event(), 0..30)) {
        let (mut judge, mut now) = job(4, false);
        for (what, rank, number) in events {
            now += Duration::from_millis(100);
            let running_before = judge.running().count();
            let order = match what {
                0 => { judge.started(rank); None }
                1 => { judge.finished(rank); None }
                2 if judge.is_running(rank) => judge.ended(rank, End::Exit(number), now),
                3 if judge.is_running(rank) => judge.ended(rank, End::Signal { signal: number, core: false }, now),
                4 => judge.condemn(Cause::Aborted { rank, code: number, message: None }, now),
                _ => judge.tick(now),
            };
            prop_assert!(order.is_none() || running_before > 0);
        }
        if judge.cause().is_some() && !judge.all_ended() {
            prop_assert!(judge.was_killed() || judge.tick(now + GRACE) == Some(Order::Kill));
        }
        if judge.cause().is_some() {
            prop_assert!(judge.exit_code() != 0);
        }
    }
}
