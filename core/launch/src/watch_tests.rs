//! When the watch speaks and what it says.

use super::*;
use weft_boot::stall::{Blocked, Ranks};

const SECOND: u64 = 1_000_000_000;

fn receive(source: u32, tag: i32, since: u64) -> Stall {
    let call = Blocked {
        call: "MPI_Recv".to_owned(),
        what: format!("(source={source}, tag={tag}, MPI_COMM_WORLD, room for 4 bytes)"),
        brief: format!("tag {tag}"),
        place: "solver(exchange+0x42)".to_owned(),
        since: since * SECOND,
        needs: vec![Ranks::one(source)],
        ..Blocked::default()
    };
    Stall { from: since * SECOND, until: 40 * SECOND, calls: vec![call], ..Stall::default() }
}

fn barrier(waits_for: u32, size: u32) -> Stall {
    let place = Place { channel: 1, number: 16 };
    let call = Blocked {
        call: "MPI_Barrier".to_owned(),
        what: "(MPI_COMM_WORLD, collective operation 17 there)".to_owned(),
        since: 5 * SECOND,
        needs: vec![Ranks::one(waits_for)],
        collective: Some((place, (0..size).collect())),
        ..Blocked::default()
    };
    let begun = vec![Place { channel: 1, number: 17 }];
    Stall { from: 5 * SECOND, until: 40 * SECOND, calls: vec![call], begun, ..Stall::default() }
}

fn running(_: usize) -> Outside {
    Outside::Running
}

/// What is said when the news have been gathered.
fn said(watch: &mut Watch, now: Instant) -> Option<Word> {
    watch.tick(now + GATHER, 45 * SECOND, &running)
}

#[test]
fn a_deadlock_is_told_with_states_cycle_absentees_and_strays() {
    let now = Instant::now();
    let mut watch = Watch::new(8, None, false);
    for rank in 0..6 {
        watch.stalled(rank, barrier(6, 8), now);
    }
    let mut last = receive(0, 3, 10);
    last.strays = vec!["a message with tag 8 from rank 0 of MPI_COMM_WORLD (40 bytes)".to_owned()];
    watch.stalled(6, last, now);
    let Some(Word::Show { text, deadlock }) = said(&mut watch, now) else { panic!("nothing was said") };
    assert!(deadlock);
    let expected = "\
deadlock: ranks 0-6 can never go on
ranks 0-5: MPI_Barrier(MPI_COMM_WORLD, collective operation 17 there) for 40 s
rank 6: MPI_Recv(source=0, tag=3, MPI_COMM_WORLD, room for 4 bytes), called at solver(exchange+0x42) for 35 s
rank 7: not blocked: computing, or polling (MPI_Test, MPI_Iprobe)
cycle: 0 waits for 6 (MPI_Barrier), 6 waits for 0 (MPI_Recv tag 3)
MPI_Barrier: rank 6 has not entered it
rank 6 has not received a message with tag 8 from rank 0 of MPI_COMM_WORLD (40 bytes)
";
    assert_eq!(text, expected);
}

#[test]
fn unasked_it_says_nothing_of_jobs_that_may_live_and_each_deadlock_once() {
    let now = Instant::now();
    let mut watch = Watch::new(3, None, false);
    watch.stalled(0, receive(1, 5, 1), now);
    assert_eq!(said(&mut watch, now), None);
    assert_eq!(watch.deadline(), None, "nothing to look at until somebody speaks");
    watch.stalled(1, receive(0, 7, 1), now);
    assert!(matches!(said(&mut watch, now), Some(Word::Show { deadlock: true, .. })));
    let later = now + Duration::from_secs(3600);
    watch.stalled(0, receive(1, 5, 1), later);
    assert_eq!(said(&mut watch, later), None, "the same again");
    watch.stalled(2, receive(0, 9, 1), later);
    assert!(matches!(said(&mut watch, later), Some(Word::Show { deadlock: true, .. })), "it has grown");
}

#[test]
fn asked_it_shows_who_waits_and_the_same_ever_more_seldom() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let mut watch = Watch::new(2, Some(second), false);
    let mut shown = 0;
    for turn in 0..1000 {
        let at = now + second * turn;
        watch.stalled(0, receive(1, 5, 1), at);
        if let Some(Word::Show { text, deadlock }) = said(&mut watch, at) {
            assert!(!deadlock && text.starts_with("rank 0 is blocked in MPI (this may be right"), "{text}");
            shown += 1;
        }
    }
    assert!((8..=12).contains(&shown), "{shown} times in 1000 s");
}

#[test]
fn a_deadlock_may_end_the_job() {
    let now = Instant::now();
    let mut watch = Watch::new(2, None, true);
    watch.stalled(0, receive(1, 5, 1), now);
    assert_eq!(said(&mut watch, now), None);
    watch.gone(1, 2 * SECOND, now);
    let Some(Word::End(text)) = said(&mut watch, now) else { panic!("it must end") };
    assert!(text.starts_with("deadlock: rank 0 waits for what can never come\n"), "{text}");
    assert!(text.contains("rank 1: has ended MPI"), "{text}");
    assert!(
        text.contains("certain, because rank 0 waits for 1 (MPI_Recv tag 5), which has ended MPI"),
        "{text}"
    );
}

#[test]
fn a_rank_that_goes_on_is_blocked_no_more() {
    let now = Instant::now();
    let mut watch = Watch::new(2, Some(Duration::from_secs(1)), false);
    watch.stalled(0, receive(1, 5, 1), now);
    watch.stalled(0, Stall::default(), now);
    assert_eq!(said(&mut watch, now), None);
    assert_eq!(watch.summary(45 * SECOND, &running), "");
}

#[test]
fn different_collectives_that_meet_are_told() {
    let now = Instant::now();
    let mut watch = Watch::new(2, None, false);
    watch.stalled(0, barrier(1, 2), now);
    let mut other = barrier(0, 2);
    other.calls[0].call = "MPI_Bcast".to_owned();
    watch.stalled(1, other, now);
    let Some(Word::Show { text, .. }) = said(&mut watch, now) else { panic!("nothing was said") };
    let line = "different collective operations meet as one: MPI_Barrier on rank 0, MPI_Bcast on rank 1";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_thousand_ranks_fit_one_screen() {
    let now = Instant::now();
    let mut watch = Watch::new(1000, None, false);
    for rank in 0..1000 {
        let mut stall = receive((rank as u32 + 1) % 1000, 5, 1);
        stall.calls[0].lines = vec!["receive(source=1)".to_owned(); 8];
        stall.strays = vec![format!("a message from rank {rank}"); 8];
        watch.stalled(rank, stall, now);
    }
    let Some(Word::Show { text, .. }) = said(&mut watch, now) else { panic!("nothing was said") };
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.contains("ranks 0-999: MPI_Recv (arguments differ), called at solver(exchange+0x42) for 44 s"),
        "{text}"
    );
}

#[test]
fn whoever_stands_outside_mpi_is_told_from_whom_it_waits_for() {
    let now = Instant::now();
    let mut watch = Watch::new(3, Some(Duration::from_secs(1)), false);
    watch.stalled(0, receive(1, 5, 1), now);
    let outside = |rank| if rank == 1 { Outside::Stopped } else { Outside::Sleeping };
    let Some(Word::Show { text, .. }) = watch.tick(now + GATHER, 45 * SECOND, &outside) else {
        panic!("nothing was said")
    };
    assert!(text.contains("rank 1: stopped, by a signal or a debugger\n"), "{text}");
    assert!(text.contains("rank 2: not blocked in MPI: sleeps"), "{text}");
}
