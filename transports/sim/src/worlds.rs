//! Worlds of one seed each, for tests: how many, on all processors, and the seed of the one that failed.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Which seeds a test runs: `WEFT_SEED` alone, or `WEFT_SEEDS` many, or `usually` times `WEFT_WORLDS` (1; more in CI).
///
/// # Panics
/// If one of the variables is no number.
#[must_use]
pub fn seeds(usually: u64) -> Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
    };
    match number("WEFT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WEFT_SEEDS").unwrap_or_else(|| usually * number("WEFT_WORLDS").unwrap_or(1)),
    }
}

/// Runs the world of each seed, several at a time, and returns what they gave in the order of the seeds.
///
/// # Panics
/// As the first world that did, after its seed was printed; the others are not begun any more.
pub fn worlds<T: Send>(seeds: Range<u64>, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let one = || {
        let mut mine = Vec::new();
        loop {
            // ORDERING: the number alone is shared; what the worlds gave goes by the end of the thread.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return mine;
            }
            match catch_unwind(AssertUnwindSafe(|| run(seed))) {
                Ok(gave) => mine.push((seed, gave)),
                Err(panic) => {
                    eprintln!("failing seed: {seed} (WEFT_SEED={seed} repeats it)");
                    next.store(seeds.end, Ordering::Relaxed);
                    resume_unwind(panic);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let mut all = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(seeds.end - seeds.start)).map(|_| scope.spawn(one)).collect();
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ends.into_iter().flat_map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    all.sort_unstable_by_key(|&(seed, _)| seed);
    all.into_iter().map(|(_, gave)| gave).collect()
}

#[cfg(test)]
mod tests {
    use super::worlds;

    #[test]
    fn every_seed_has_its_world_and_gives_in_order() {
        assert_eq!(worlds(3..40, |seed| seed * 2), (3..40).map(|seed| seed * 2).collect::<Vec<_>>());
        assert_eq!(worlds(5..5, |seed| seed), []);
    }

    #[test]
    #[should_panic(expected = "world 7 is wrong")]
    fn a_world_that_fails_fails_the_test() {
        worlds(0..100, |seed| assert!(seed != 7, "world {seed} is wrong"));
    }
}
