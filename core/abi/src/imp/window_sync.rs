//! Synchronisation of windows: fences, post and start, locks, flushes (section 12.5).

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};

use weft::Process;
use weft::window::{LockKind, Window};
use weft_engine::Engine;
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::windows::member_barrier;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// Checks the bits of an assertion; which bits a call takes is told by `allowed` (section 12.5.5).
fn check_assert(assert: c_int, allowed: c_int) -> Outcome<()> {
    if assert & !allowed == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::ASSERT,
        format!("assert is {assert}, which has bits that mean nothing to this call (section 12.5.5)"),
    ))
}

/// Lends the window and the engine.
fn with<R>(win: MPI_Win, work: impl FnOnce(&mut Window, &mut Engine) -> Outcome<R>) -> Outcome<R> {
    gate::with(|process| work(process.windows.get_mut(win.handle())?, &mut process.engine))
}

fn settled(process: &mut Process, win: MPI_Win, target: Option<u32>) -> Option<Outcome<()>> {
    match process.windows.get_mut(win.handle()) {
        Ok(window) if !window.is_settled(target) => None,
        Ok(window) => Some(window.take_error().map_or(Ok(()), Err)),
        Err(error) => Some(Err(error)),
    }
}

/// Waits until nothing is awaited of a target, or of any. What others stored is seen from here on.
fn settle(win: MPI_Win, target: Option<u32>) -> Result<(), Raised> {
    gate::wait_for("a call on a window", Awaited::Window(win, target), |process| {
        settled(process, win, target)
    })?;
    fence(Ordering::SeqCst);
    Ok(())
}

/// Runs what begins a lock, unlock or flush of a target, and waits until it is over; `None` is `MPI_PROC_NULL`, of whom nothing
/// is awaited.
fn with_target(
    win: MPI_Win,
    target: c_int,
    begin: impl FnOnce(&mut Window, &mut Engine, Option<u32>) -> Outcome<()>,
) -> Result<(), Raised> {
    let target = with(win, |window, engine| {
        let target = window.target(target)?;
        begin(window, engine, target)?;
        Ok(target)
    })?;
    target.map_or(Ok(()), |target| settle(win, Some(target)))
}

/// `MPI_Win_fence` (section 12.5.1).
pub(crate) unsafe fn win_fence(assert: c_int, win: MPI_Win) -> Result<(), Raised> {
    let allowed =
        abi::MPI_MODE_NOSTORE | abi::MPI_MODE_NOPUT | abi::MPI_MODE_NOPRECEDE | abi::MPI_MODE_NOSUCCEED;
    check_assert(assert, allowed)?;
    fence(Ordering::SeqCst);
    let comm = with(win, |window, engine| window.fence(engine).map(|()| window.comm))?;
    let settled = settle(win, None);
    // The others are not let down by an error here.
    member_barrier(comm)?;
    with(win, |window, _| {
        window.open_fence(assert & abi::MPI_MODE_NOSUCCEED == 0);
        Ok(())
    })?;
    fence(Ordering::SeqCst);
    settled
}

/// The ranks of a group in a window.
fn members(process: &Process, group: MPI_Group, win: MPI_Win) -> Outcome<BTreeSet<u32>> {
    let window = process.windows.get(win.handle())?;
    let group = process.group(group.handle())?;
    group
        .peers()
        .map(|peer| {
            window.group.rank_of(peer).map(|rank| rank.0).ok_or_else(|| {
                Error::new(
                    ErrorClass::GROUP,
                    format!("the group has processes that are not in {}", window.display_name()),
                )
            })
        })
        .collect()
}

/// `MPI_Win_post` (section 12.5.2).
pub(crate) unsafe fn win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<(), Raised> {
    check_assert(assert, abi::MPI_MODE_NOCHECK | abi::MPI_MODE_NOSTORE | abi::MPI_MODE_NOPUT)?;
    fence(Ordering::SeqCst);
    gate::with(|process| {
        let origins = members(process, group, win)?;
        process.windows.get_mut(win.handle())?.post(&mut process.engine, origins)
    })?;
    Ok(())
}

/// `MPI_Win_start` (section 12.5.2): returns when all targets have posted.
pub(crate) unsafe fn win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<(), Raised> {
    check_assert(assert, abi::MPI_MODE_NOCHECK)?;
    let targets = gate::with(|process| {
        let targets = members(process, group, win)?;
        process.windows.get_mut(win.handle())?.check_start()?;
        Ok(targets)
    })
    .map_err(|error: Error| Raised::from(error))?;
    gate::wait_for("MPI_Win_start", Awaited::Posts(win, &targets), |process| {
        match process.windows.get_mut(win.handle()) {
            Ok(window) => match window.try_start(&process.engine, &targets) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            },
            Err(error) => Some(Err(error)),
        }
    })?;
    Ok(())
}

/// `MPI_Win_complete` (section 12.5.2).
pub(crate) unsafe fn win_complete(win: MPI_Win) -> Result<(), Raised> {
    with(win, |window, engine| window.complete(engine))?;
    settle(win, None)
}

/// `MPI_Win_wait` (section 12.5.2).
pub(crate) unsafe fn win_wait(win: MPI_Win) -> Result<(), Raised> {
    gate::wait_for("MPI_Win_wait", Awaited::Completes(win), |process| {
        let window = process.windows.get_mut(win.handle());
        let over = window.and_then(|window| window.try_end_exposure(&process.engine));
        match over {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    })?;
    fence(Ordering::SeqCst);
    Ok(())
}

/// `MPI_Win_test` (section 12.5.2).
pub(crate) unsafe fn win_test(win: MPI_Win, flag: *mut c_int) -> Result<(), Raised> {
    let over =
        gate::poll(|process| process.windows.get_mut(win.handle())?.try_end_exposure(&process.engine))?;
    fence(Ordering::SeqCst);
    // SAFETY: the entry has refused null.
    unsafe { flag.write(c_int::from(over)) };
    Ok(())
}

/// `MPI_Win_lock` (section 12.5.3): returns when the lock is held.
pub(crate) unsafe fn win_lock(
    lock_type: c_int,
    target: c_int,
    assert: c_int,
    win: MPI_Win,
) -> Result<(), Raised> {
    let kind = match lock_type {
        abi::MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
        abi::MPI_LOCK_SHARED => LockKind::Shared,
        _ => {
            return Err(Error::new(
                ErrorClass::LOCKTYPE,
                format!("lock_type is {lock_type}; it must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED"),
            )
            .into());
        }
    };
    check_assert(assert, abi::MPI_MODE_NOCHECK)?;
    let kind = (assert & abi::MPI_MODE_NOCHECK == 0).then_some(kind);
    with_target(win, target, |window, engine, target| match target {
        Some(target) => window.lock(engine, target, kind),
        None => window.lock_nobody(),
    })
}

/// `MPI_Win_lock_all` (section 12.5.3).
pub(crate) unsafe fn win_lock_all(assert: c_int, win: MPI_Win) -> Result<(), Raised> {
    check_assert(assert, abi::MPI_MODE_NOCHECK)?;
    with(win, |window, engine| window.lock_all(engine, assert & abi::MPI_MODE_NOCHECK == 0))?;
    settle(win, None)
}

/// `MPI_Win_unlock` (section 12.5.3).
pub(crate) unsafe fn win_unlock(target: c_int, win: MPI_Win) -> Result<(), Raised> {
    fence(Ordering::SeqCst);
    with_target(win, target, |window, engine, target| match target {
        Some(target) => window.unlock(engine, target),
        None => window.unlock_nobody(),
    })
}

/// `MPI_Win_unlock_all` (section 12.5.3).
pub(crate) unsafe fn win_unlock_all(win: MPI_Win) -> Result<(), Raised> {
    fence(Ordering::SeqCst);
    with(win, |window, engine| window.unlock_all(engine))?;
    settle(win, None)
}

/// `MPI_Win_flush` (section 12.5.4).
pub(crate) unsafe fn win_flush(target: c_int, win: MPI_Win) -> Result<(), Raised> {
    with_target(win, target, |window, engine, target| match target {
        Some(_) => window.flush(engine, target),
        None => window.flush_local(None),
    })
}

/// `MPI_Win_flush_all` (section 12.5.4).
pub(crate) unsafe fn win_flush_all(win: MPI_Win) -> Result<(), Raised> {
    with(win, |window, engine| window.flush(engine, None))?;
    settle(win, None)
}

/// `MPI_Win_flush_local` (section 12.5.4).
pub(crate) unsafe fn win_flush_local(target: c_int, win: MPI_Win) -> Result<(), Raised> {
    with_target(win, target, |window, _, target| window.flush_local(target))
}

/// `MPI_Win_flush_local_all` (section 12.5.4).
pub(crate) unsafe fn win_flush_local_all(win: MPI_Win) -> Result<(), Raised> {
    with(win, |window, _| window.flush_local(None))?;
    settle(win, None)
}

/// `MPI_Win_sync` (section 12.5.4). It makes progress too, so that a process that polls its memory with it is served.
pub(crate) unsafe fn win_sync(win: MPI_Win) -> Result<(), Raised> {
    with(win, |window, _| window.flush_local(None))?;
    fence(Ordering::SeqCst);
    gate::poll(|_| ());
    fence(Ordering::SeqCst);
    Ok(())
}
