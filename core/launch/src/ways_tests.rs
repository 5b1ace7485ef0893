use super::*;
use proptest::prelude::*;

const PATIENCE: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_secs(2);

/// Says it for one side or both every two seconds; the steps with their times.
fn say(ways: &mut Ways, now: &mut Instant, turns: u32, who: &[(usize, usize)]) -> Vec<(u32, Step)> {
    let mut steps = Vec::new();
    for turn in 0..turns {
        for &(rank, about) in who {
            steps.extend(ways.in_vain(rank, &[about], PATIENCE, *now).into_iter().map(|step| (turn, step)));
        }
        *now += PERIOD;
    }
    steps
}

#[test]
fn two_that_both_look_in_vain_are_cut_after_their_patience_and_not_before() {
    let (mut ways, mut now) = (Ways::default(), Instant::now());
    let asked = say(&mut ways, &mut now, 5, &[(3, 1)]);
    assert_eq!(asked, [(0, Step::Ask { rank: 1, about: 3 })]);
    let steps = say(&mut ways, &mut now, 100, &[(3, 1), (1, 3)]);
    assert_eq!(steps, [(15, Step::Cut { one: 1, other: 3, time: PATIENCE })]);
}

#[test]
fn one_that_says_nothing_is_waited_for_as_long_as_it_takes() {
    let (mut ways, mut now) = (Ways::default(), Instant::now());
    // An hour: the other computes, is stopped, or has not begun.
    assert_eq!(say(&mut ways, &mut now, 1800, &[(0, 1)]).len(), 1);
    // It looks now and then, and never long enough.
    for _ in 0..100 {
        assert_eq!(say(&mut ways, &mut now, 14, &[(0, 1), (1, 0)]), []);
        assert_eq!(say(&mut ways, &mut now, 5, &[(0, 1)]), []);
    }
}

#[test]
fn a_pause_of_either_begins_anew_and_asks_again() {
    let (mut ways, mut now) = (Ways::default(), Instant::now());
    say(&mut ways, &mut now, 14, &[(0, 1), (1, 0)]);
    now += PAUSE;
    let steps = say(&mut ways, &mut now, 100, &[(0, 1), (1, 0)]);
    assert_eq!(steps[0], (0, Step::Ask { rank: 1, about: 0 }));
    assert!(matches!(steps[1..], [(15..=16, Step::Cut { .. })]), "{steps:?}");
}

#[test]
fn a_rank_that_computes_again_and_again_is_told_of_each_a_few_times() {
    let (mut ways, mut now) = (Ways::default(), Instant::now());
    let mut asked = 0;
    for _ in 0..1000 {
        asked += say(&mut ways, &mut now, 2, &[(0, 1)]).len();
        now += 2 * PAUSE;
    }
    assert_eq!(asked, usize::from(MOST_ASKED));
    // The other way round it is another question, and what is certain is said all the same.
    assert_eq!(say(&mut ways, &mut now, 1, &[(1, 0)]), [(0, Step::Ask { rank: 0, about: 1 })]);
    let steps = say(&mut ways, &mut now, 100, &[(0, 1), (1, 0)]);
    assert!(matches!(steps[..], [(_, Step::Cut { one: 0, other: 1, .. })]), "{steps:?}");
}

#[test]
fn words_that_were_held_up_prove_nothing() {
    let (mut ways, begun) = (Ways::default(), Instant::now());
    let late = begun + 10 * PATIENCE;
    for _ in 0..100 {
        for (rank, about) in [(0, 1), (1, 0)] {
            let steps = ways.in_vain(rank, &[about], PATIENCE, late);
            assert!(steps.iter().all(|step| matches!(step, Step::Ask { .. })), "{steps:?}");
        }
    }
    // No patience at all is still three words of each.
    let mut ways = Ways::default();
    let cut = (0..).find(|turn| {
        let now = begun + *turn * PERIOD;
        let steps = [ways.in_vain(0, &[1], Duration::ZERO, now), ways.in_vain(1, &[0], Duration::ZERO, now)];
        steps.concat().iter().any(|step| matches!(step, Step::Cut { .. }))
    });
    assert_eq!(cut, Some(3));
}

#[test]
fn the_user_is_told_once_of_two_hosts_and_of_a_few() {
    let mut ways = Ways::default();
    assert_eq!(
        [[0, 1], [1, 0], [1, 1], [0, 1]].map(|hosts| ways.is_to_be_told(hosts)),
        [true, false, true, false]
    );
    assert_eq!((0..100).filter(|&host| ways.is_to_be_told([host, 200])).count(), MOST_TOLD - 2);
}

#[test]
fn who_is_gone_is_forgotten_and_one_verdict_is_given() {
    let (mut ways, mut now) = (Ways::default(), Instant::now());
    say(&mut ways, &mut now, 14, &[(0, 1), (1, 0), (2, 0)]);
    ways.gone(1);
    let steps = say(&mut ways, &mut now, 100, &[(0, 2), (2, 0)]);
    assert_eq!(steps.len(), 1);
    assert!(matches!(steps[0].1, Step::Cut { one: 0, other: 2, .. }));
    assert_eq!(ways.pairs.len(), 1);
}

proptest! {
    /// A world of two that look at some times and not at others, over a network that passes or does not: the verdict is never
    /// given while it passes, and comes when both look long enough where it does not.
    #[test]
    fn a_network_that_passes_is_never_called_cut(seed: u64, passes: bool, spells in prop::collection::vec((1u32..60, any::<[bool; 2]>()), 1..40)) {
        let (mut ways, mut now) = (Ways::default(), Instant::now());
        let (mut met, mut both, mut longest, mut since_both) = (false, 0u32, 0u32, 0u32);
        let mut cut = None;
        for (turns, looks) in spells {
            for turn in 0..turns {
                // Who looks asks and answers; both must look for anything to pass.
                met |= passes && looks[0] && looks[1];
                both = if looks[0] && looks[1] { both + 1 } else { 0 };
                longest = longest.max(both);
                since_both = if both > 0 { 0 } else { since_both + 1 };
                for (rank, looks) in looks.into_iter().enumerate() {
                    // Words take up to a second, in any order.
                    let late = Duration::from_millis(seed.rotate_left(turn + 7 * rank as u32) % 1000);
                    if looks && !met {
                        let steps = ways.in_vain(rank, &[1 - rank], PATIENCE, now + late);
                        if steps.iter().any(|step| matches!(step, Step::Cut { .. })) {
                            prop_assert!(cut.is_none(), "one verdict");
                            cut = Some(since_both);
                        }
                    }
                }
                now += PERIOD;
            }
        }
        prop_assert!(!(passes && cut.is_some()), "it passes (seed {seed})");
        if let Some(since_both) = cut {
            prop_assert!(since_both <= 4, "nobody is called unreachable who has not looked for {since_both} turns");
        } else if !passes {
            prop_assert!(longest < 20, "both looked for {longest} turns (seed {seed})");
        }
    }
}
