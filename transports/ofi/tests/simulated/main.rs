//! Worlds in virtual time over the described providers: what takes seconds there takes none here, so that time-outs are reached in every
//! second world ([`weft_ofi::clock`]).
//!
//! `mends.rs`, `strangers.rs`: faults that were found and mended, one by one. `people.rs`, `program.rs` and `groups.rs`: many worlds by seed. `WEFT_SEEDS=5000` runs more
//! of them, `WEFT_SEED=n` one alone.

mod groups;
#[path = "../library/mod.rs"]
mod library;
mod mends;
mod people;
mod program;
mod strangers;
#[path = "../world/mod.rs"]
mod world;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As `examples/described_fabric/faults.rs` has it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Faults {
    pub(crate) again: u32,
    pub(crate) storm: u32,
    pub(crate) no_memory: u32,
    pub(crate) held: u32,
    pub(crate) few: u32,
    pub(crate) late: u32,
    pub(crate) no_place: u32,
    pub(crate) broken: u32,
    pub(crate) vanished: u32,
    pub(crate) denied: u32,
    pub(crate) no_removal: u32,
    pub(crate) unjoined: u32,
}

/// What must have gone wrong now and then, as the library counts it.
const FAULTS: [&str; 9] =
    ["refused", "storms", "unregistered", "unplaced", "held", "reordered", "failed", "broken", "not removed"];

/// Every call, or nothing.
const ALWAYS: u32 = 1000;

pub(crate) fn go_wrong(seed: u64, faults: Faults) {
    type Set = unsafe extern "C" fn(u64, *const Faults);
    // SAFETY: a function of this type, and rates that are there.
    unsafe {
        std::mem::transmute::<NonNull<c_void>, Set>(library::function(c"described_fabric_faults"))(
            seed,
            &raw const faults,
        );
    }
}

/// The time, the faults and what is counted are those of all ends in this process: one world at a time has them.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    weft_ofi::clock::set(Duration::from_micros(10));
    go_wrong(0, Faults::default());
    turn
}

#[test]
fn nothing_is_lost_or_left_however_long_it_takes() {
    let _turn = turn();
    let seeds = weft_sim::seeds(160);
    let worlds = seeds.end - seeds.start;
    let (mut deaths, mut ends, mut time) = (0, 0, Duration::ZERO);
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| program::world_of(seed))) {
            Ok((died, ended, passed)) => {
                deaths += u64::from(died);
                ends += u64::from(ended);
                time += passed;
            }
            Err(panic) => {
                let provider = program::PROVIDERS[seed as usize % program::PROVIDERS.len()];
                eprintln!("over {provider}: WEFT_SEED={seed} repeats it");
                resume_unwind(panic);
            }
        }
    }
    let told = |what| program::PROVIDERS.iter().map(|provider| library::count(provider, what)).sum::<u64>();
    let faults = FAULTS.map(|what| (what, told(what)));
    println!("{worlds} worlds in {time:?}, deaths in {deaths}, ends in order in {ends}: {faults:?}");
    let enough = |count: u64| count > worlds / 20;
    assert!(
        worlds < 100 || enough(deaths) && enough(ends) && faults.iter().all(|&(_, count)| count > 0),
        "this shows nothing"
    );
}
