//! Blocking collectives inside a node, by flags in shared memory (`weft::rounds`): how they wait, and their short forms.

use std::cell::RefCell;

use weft::Process;
use weft::rounds::UnderWay;
use weft_coll::rounds::Outcome;
use weft_types::{Error, Handle};

use super::point_to_point::complete;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// Looks between two rounds of progress of everything else.
const PROGRESS_EVERY: u32 = 32;
/// Where ranks share cores: times that a waiting rank gives its core away before it sleeps.
const YIELDS: u32 = 200;
/// Where ranks share cores: looks before a core is given away though nobody who is waited for was seen on it.
const LOOKS: u32 = 100;

/// Agrees with the other members on memory for rounds.
pub(super) fn agree(call: &'static str, comm: Handle, slots: bool) -> Result<(), Raised> {
    let (request, word) = gate::with(|process| process.agree_on_memory(comm, slots))?;
    match complete(call, request).error {
        None => Ok(gate::with(|process| process.agreed(comm, slots, &word))?),
        Some(error) => Err(error.into()),
    }
}

/// Brings a call to its end.
pub(super) fn finish(call: &'static str, under_way: UnderWay) -> Result<(), Raised> {
    let under_way = RefCell::new(under_way);
    let outcome = go_on(&mut under_way.borrow_mut());
    match outcome {
        Outcome::Done => {}
        Outcome::Strayed(other) => {
            return Err(gate::with(|process| process.mismatch_in_rounds(&under_way.borrow(), other)).into());
        }
        Outcome::Blocked => {
            gate::wait_for(call, Awaited::Rounds(&under_way), |process| look(process, &under_way))?;
        }
    }
    gate::with(|process| process.end_rounds(&mut under_way.borrow_mut()));
    Ok(())
}

/// One look of a call that waits for long.
fn look(process: &mut Process, under_way: &RefCell<UnderWay>) -> Option<Result<(), Error>> {
    let outcome = under_way.borrow_mut().step();
    match outcome {
        Outcome::Done => Some(Ok(())),
        Outcome::Blocked => process.loss_in_rounds(&under_way.borrow()).map(Err),
        Outcome::Strayed(other) => Some(Err(process.mismatch_in_rounds(&under_way.borrow(), other))),
    }
}

/// Goes on as long as others are likely to come soon.
fn go_on(under_way: &mut UnderWay) -> Outcome {
    let spins = gate::spins();
    if spins <= 1 {
        return go_on_in_turns(under_way);
    }
    for turn in 1..spins {
        match under_way.step() {
            Outcome::Blocked => {}
            outcome => return outcome,
        }
        if turn.is_multiple_of(PROGRESS_EVERY) && !progress() {
            break;
        }
        std::hint::spin_loop();
    }
    Outcome::Blocked
}

/// As [`go_on`] where ranks share cores: who waits for a rank of its own core makes way at once; otherwise the others run
/// now, on other cores, and a change of ranks here would cost more than they need.
fn go_on_in_turns(under_way: &mut UnderWay) -> Outcome {
    let mut looks = 0;
    for turn in 1..YIELDS {
        loop {
            match under_way.step() {
                Outcome::Blocked => {}
                outcome => return outcome,
            }
            looks += 1;
            if looks > LOOKS || under_way.shares_processor() {
                break;
            }
            std::hint::spin_loop();
        }
        looks = 0;
        if turn.is_multiple_of(4) && !progress() {
            break;
        }
        std::thread::yield_now();
    }
    Outcome::Blocked
}

/// Moves everything else of the process a little; false when that needs more than a short way can do.
fn progress() -> bool {
    // SAFETY: the call under way has passed its phase check, and the reference is not kept.
    match unsafe { gate::alone() } {
        Some(process) => {
            process.progress();
            !process.engine.has_callback()
        }
        // With several threads others may look after it; if not, the long way does.
        None => true,
    }
}
