//! Blocking collectives inside a node, by flags in shared memory (`weft::rounds`): how they wait.

use std::cell::Cell;

use weft::Process;
use weft::rounds::{ByLevels, Needed, Next, Steps, UnderWay};
use weft_coll::rounds::Outcome;
use weft_types::{Error, Handle};

use super::point_to_point::complete;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// Looks between two rounds of progress of everything else.
pub(super) const PROGRESS_EVERY: u32 = 32;
/// Where ranks share cores: times that a waiting rank gives its core away before it thinks of sleeping.
const YIELDS: u32 = 200;
/// Where ranks share cores: looks before a core is given away though nobody who could go on was seen on it.
const LOOKS: u32 = 100;

/// Agrees with the other members on memory for rounds, and waits until all have joined.
pub(super) fn agree(call: &'static str, comm: Handle, needed: Needed) -> Result<(), Raised> {
    let agreement = gate::with(|process| process.agree_on_memory(comm, needed))?;
    let ended_well = complete(call, agreement.request).error.is_none();
    gate::with(|process| process.agreed(&agreement, ended_well));
    let missing = Cell::new(0);
    gate::wait_for(call, Awaited::Rounds(comm, &missing), |process| {
        process.have_joined(comm, &missing).then_some(())
    });
    Ok(())
}

/// Agrees with the other members on memory for a persistent collective, and waits until all have joined.
pub(super) fn agree_to_keep(call: &'static str, request: Handle) -> Result<(), Raised> {
    let begun = gate::with(|process| {
        process.agree_to_keep(request).inspect_err(|_| drop(process.free_request(request)))
    })?;
    let Some(agreement) = begun else { return Ok(()) };
    let ended_well = complete(call, agreement.request).error.is_none();
    gate::with(|process| process.agreed(&agreement, ended_well));
    let missing = Cell::new(0);
    gate::wait_for(call, Awaited::Rounds(agreement.comm, &missing), |process| {
        process.have_joined_to_keep(request, &missing).then_some(())
    });
    Ok(())
}

/// Brings a call to its end.
pub(super) fn finish(call: &'static str, mut under_way: UnderWay) -> Result<(), Raised> {
    let ended = drive(call, under_way.comm, &mut under_way);
    gate::with(|process| process.end_rounds(under_way));
    ended
}

/// Agrees with the other members of each node on memory for their cells, and with all on whether they have them.
pub(super) fn agree_on_levels(call: &'static str, comm: Handle) -> Result<(), Raised> {
    let mut making = gate::with(|process| process.begin_levels(comm))?;
    while let Some(request) = making.request() {
        let ended_well = complete(call, request).error.is_none();
        gate::with(|process| process.go_on_with_levels(&mut making, ended_well));
    }
    Ok(())
}

/// Brings a call by levels to its end, part by part.
pub(super) fn finish_by_levels(call: &'static str, mut under_way: ByLevels) -> Result<(), Raised> {
    let mut ended = Ok(());
    loop {
        let comm = under_way.comm;
        ended = match gate::with(|process| process.next_by_levels(&mut under_way, ended)) {
            Next::Cells => wait_for(call, comm, &mut under_way),
            Next::Messages(request) => complete(call, request).error.map_or(Ok(()), Err),
            Next::Over => return Ok(gate::with(|process| process.end_by_levels(under_way))?),
        };
    }
}

/// Waits for a call on `comm` to end at this member. When it fails, this member has left the cells.
pub(super) fn drive(call: &'static str, comm: Handle, steps: &mut impl Steps) -> Result<(), Raised> {
    Ok(wait_for(call, comm, steps)?)
}

fn wait_for(call: &'static str, comm: Handle, steps: &mut impl Steps) -> Result<(), Error> {
    match go_on(steps) {
        Outcome::Done => return Ok(()),
        Outcome::Strayed(other) => return Err(steps.rounds().leave_for_mismatch(other)),
        Outcome::Unread(other) => return Err(steps.rounds().leave_unread(other)),
        Outcome::Blocked => {}
    }
    let missing = Cell::new(0);
    gate::wait_for(call, Awaited::Rounds(comm, &missing), |process| look(process, comm, steps, &missing))
}

/// One look of a call that waits for long.
fn look(
    process: &mut Process,
    comm: Handle,
    steps: &mut impl Steps,
    missing: &Cell<u64>,
) -> Option<Result<(), Error>> {
    match steps.step() {
        Outcome::Done => Some(Ok(())),
        Outcome::Strayed(other) => Some(Err(steps.rounds().leave_for_mismatch(other))),
        Outcome::Unread(other) => Some(Err(steps.rounds().leave_unread(other))),
        Outcome::Blocked => {
            missing.set(steps.missing());
            process.hopeless_in_rounds(comm, steps).map(Err)
        }
    }
}

/// Goes on as long as others are likely to come soon.
fn go_on(steps: &mut impl Steps) -> Outcome {
    let spins = gate::spins();
    if spins <= 1 {
        return go_on_in_turns(steps);
    }
    for turn in 1..spins {
        match steps.step() {
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

/// As [`go_on`] where ranks share cores: who waits makes way at once for a rank of its own core that it waits for, or that is behind
/// it and has something to read (looked for once a turn). Otherwise those who can go on run now, on other cores, and a change of
/// ranks here would cost more than they need.
fn go_on_in_turns(steps: &mut impl Steps) -> Outcome {
    for turn in 1..=weft_engine::yields(YIELDS) {
        for look in 0..LOOKS {
            match steps.step() {
                Outcome::Blocked => {}
                outcome => return outcome,
            }
            if steps.makes_way(look == 0) {
                break;
            }
            std::hint::spin_loop();
        }
        if turn.is_multiple_of(4) && !progress() {
            break;
        }
        std::thread::yield_now();
    }
    Outcome::Blocked
}

/// Moves everything else of the process a little; false when that needs more than a short way can do.
fn progress() -> bool {
    // SAFETY: the call under way has passed its phase check, and has not the process.
    match unsafe { gate::alone() } {
        Some(mut alone) => {
            let process = alone.process();
            process.progress();
            !process.engine.has_callback()
        }
        // With several threads others may look after it; if not, the long way does.
        None => true,
    }
}
