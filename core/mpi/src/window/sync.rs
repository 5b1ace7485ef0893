//! Epochs: which operations are allowed when, and what ends them (section 12.5).

use super::lines::Behind;
use super::lock::{LockKind, Waiting};
use super::message::{Kind, Message};
use super::{Window, take_one};
use std::collections::{BTreeMap, BTreeSet};
use weft_engine::Engine;
use weft_types::{Error, ErrorClass, Rank, Result};

/// The epochs that are open at this process.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    fence: Fence,
    /// Targets of the access epoch of `MPI_Win_start`.
    started: Option<BTreeSet<u32>>,
    /// Origins of the exposure epoch of `MPI_Win_post`.
    posted: Option<BTreeSet<u32>>,
    /// Locks held or asked for; `None` as kind stands for `MPI_MODE_NOCHECK`, where nobody is asked.
    locked: BTreeMap<u32, Option<LockKind>>,
    /// `MPI_Win_lock` of `MPI_PROC_NULL`, who has no window: operations on it are no operations, but the epoch is one.
    nobody: bool,
    /// `MPI_Win_lock_all`; the inner value tells whether locks were asked for.
    all: Option<bool>,
    /// Whether the lock of the own window was asked for.
    own: bool,
    /// What was found out last about targets, as long as no epoch begins or ends.
    found: Found,
}

/// The targets that are known to be allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Nothing,
    One(u32),
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fence {
    /// No fence, or the last said that nothing follows.
    #[default]
    Closed,
    /// A fence was called; whether operations followed.
    Open { used: bool },
}

#[cold]
fn out_of_order(text: impl Into<String>) -> Error {
    Error::new(ErrorClass::RMA_SYNC, text)
}

impl Epochs {
    /// Checks that an operation on a target is allowed now.
    pub(super) fn check_access(&mut self, target: u32) -> Result<()> {
        self.look(target)?;
        let everybody = self.all.is_some() || self.fence == (Fence::Open { used: true });
        self.found = if everybody { Found::All } else { Found::One(target) };
        Ok(())
    }

    /// Whether an operation on a target is known to be allowed now; `false` says nothing.
    #[inline(always)]
    pub(super) fn surely_allows(&self, target: u32) -> bool {
        match self.found {
            Found::All => true,
            Found::One(one) => one == target,
            Found::Nothing => false,
        }
    }

    fn look(&mut self, target: u32) -> Result<()> {
        if self.all.is_some() || self.locked.contains_key(&target) {
            return Ok(());
        }
        if let Some(started) = &self.started {
            return match started.contains(&target) {
                true => Ok(()),
                false => Err(out_of_order(format!(
                    "target {target} is not in the group that MPI_Win_start began the access epoch with"
                ))),
            };
        }
        if let Fence::Open { used } = &mut self.fence {
            *used = true;
            return Ok(());
        }
        Err(out_of_order(format!(
            "no access epoch to target {target} is open; begin one with MPI_Win_fence, MPI_Win_start, MPI_Win_lock or \
             MPI_Win_lock_all"
        )))
    }

    /// Checks that a passive-target epoch to the target (or any, for `None`) is open.
    fn check_passive(&self, target: Option<u32>) -> Result<()> {
        let open = self.all.is_some()
            || match target {
                Some(target) => self.locked.contains_key(&target),
                None => !self.locked.is_empty() || self.nobody,
            };
        if open {
            return Ok(());
        }
        Err(out_of_order(
            "the call needs a passive-target epoch; begin one with MPI_Win_lock or MPI_Win_lock_all (section 12.5.4)",
        ))
    }

    /// Checks that no access epoch is open that excludes another kind; an unused fence epoch gives way.
    fn begin_other(&mut self, what: &str) -> Result<()> {
        if self.started.is_some() {
            return Err(out_of_order(format!("{what} inside an access epoch of MPI_Win_start")));
        }
        if self.fence == (Fence::Open { used: true }) {
            return Err(out_of_order(format!(
                "{what} inside an epoch of MPI_Win_fence with operations; end it with another fence first"
            )));
        }
        self.fence = Fence::Closed;
        self.found = Found::Nothing;
        Ok(())
    }

    fn is_locked(&self) -> bool {
        self.all.is_some() || !self.locked.is_empty() || self.nobody
    }

    /// Whether the own window's lock was asked for and must be had before going on.
    pub(super) fn waits_for_own_lock(&self) -> bool {
        self.own
    }
}

/// Does something for every target: one that is gone does not keep the others from it. The first failure is told.
fn of_all(targets: impl IntoIterator<Item = u32>, each: impl FnMut(u32) -> Result<()>) -> Result<()> {
    targets.into_iter().map(each).fold(Ok(()), Result::and)
}

impl Window {
    /// Asks every target with unconfirmed operations (or the one given) to confirm them.
    fn confirm(&mut self, engine: &mut Engine, target: Option<u32>) -> Result<()> {
        let due = match target {
            Some(target) => self.outgoing.dirty.take(&target).into_iter().collect(),
            None => std::mem::take(&mut self.outgoing.dirty),
        };
        let asked = of_all(due, |target| {
            self.outgoing.unanswered.remove(&target);
            self.ask(engine, target, Kind::Flush, 0)
        });
        asked.and(self.flush_devices(engine, target))
    }

    /// `MPI_Win_fence`, first half: nothing of this process is under way once the window is settled. A barrier of the members
    /// and [`Window::open_fence`] follow.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` inside an epoch of another kind; errors of the engine.
    pub fn fence(&mut self, engine: &mut Engine) -> Result<()> {
        if self.epochs.is_locked() || self.epochs.started.is_some() || self.epochs.posted.is_some() {
            return Err(out_of_order(
                "MPI_Win_fence inside an epoch that another call began; end that epoch first",
            ));
        }
        self.end_access();
        self.confirm(engine, None)
    }

    /// No operation is known to be allowed any more.
    fn end_access(&mut self) {
        self.epochs.found = Found::Nothing;
        self.outgoing.unflushed.forget_ready();
    }

    /// `MPI_Win_fence`, last part: whether operations may follow.
    pub fn open_fence(&mut self, open: bool) {
        self.end_access();
        self.epochs.fence = if open { Fence::Open { used: false } } else { Fence::Closed };
    }

    /// `MPI_Win_flush`, `MPI_Win_flush_all` (section 12.5.4): done once the target, or the window, is settled.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` outside passive-target epochs; errors of the engine.
    pub fn flush(&mut self, engine: &mut Engine, target: Option<u32>) -> Result<()> {
        self.epochs.check_passive(target)?;
        self.confirm(engine, target)
    }

    /// `MPI_Win_flush_local` and its kin: checks the epoch; done once the target, or the window, is settled.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` outside passive-target epochs.
    pub fn flush_local(&self, target: Option<u32>) -> Result<()> {
        self.epochs.check_passive(target)
    }

    /// `MPI_Win_lock` (section 12.5.3): held once the target is settled. `None` as kind is `MPI_MODE_NOCHECK`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` inside an epoch that excludes it; errors of the engine.
    pub fn lock(&mut self, engine: &mut Engine, target: u32, kind: Option<LockKind>) -> Result<()> {
        if self.epochs.all.is_some() || self.epochs.locked.contains_key(&target) {
            return Err(out_of_order(format!("target {target} is locked by this process already")));
        }
        self.epochs.begin_other("MPI_Win_lock")?;
        if let Some(kind) = kind {
            self.ask_lock(engine, target, kind)?;
        }
        self.epochs.locked.insert(target, kind);
        Ok(())
    }

    /// `MPI_Win_lock` of `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// As [`Window::lock`].
    pub fn lock_nobody(&mut self) -> Result<()> {
        if self.epochs.all.is_some() || self.epochs.nobody {
            return Err(out_of_order("MPI_PROC_NULL is locked by this process already"));
        }
        self.epochs.begin_other("MPI_Win_lock")?;
        self.epochs.nobody = true;
        Ok(())
    }

    /// `MPI_Win_unlock` of `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// As [`Window::unlock`].
    pub fn unlock_nobody(&mut self) -> Result<()> {
        self.end_access();
        if std::mem::take(&mut self.epochs.nobody) {
            return Ok(());
        }
        Err(out_of_order("MPI_PROC_NULL is not locked by MPI_Win_lock of this process"))
    }

    fn ask_lock(&mut self, engine: &mut Engine, target: u32, kind: LockKind) -> Result<()> {
        if target != self.rank.0 {
            return self.ask(engine, target, Kind::Lock, u32::from(kind == LockKind::Exclusive));
        }
        self.epochs.own = true;
        self.incoming.lock.ask(Waiting { origin: target, kind, id: 0 });
        self.grant_locks(engine);
        Ok(())
    }

    fn release_lock(&mut self, engine: &mut Engine, target: u32) -> Result<()> {
        if target != self.rank.0 {
            self.outgoing.dirty.remove(&target);
            self.outgoing.unanswered.remove(&target);
            self.settle_device_before_message(engine, target)?;
            return self.ask(engine, target, Kind::Unlock, 0);
        }
        self.epochs.own = false;
        match self.is_in_line(target) {
            true => self.wait_in_line(engine, target, Behind::Unlock),
            false => self.release_own_lock(engine),
        }
        Ok(())
    }

    /// Everything that this process did to its own window under its lock is done.
    pub(super) fn release_own_lock(&mut self, engine: &mut Engine) {
        self.incoming.own_lock = false;
        self.incoming.lock.release(self.rank.0);
        self.grant_locks(engine);
    }

    /// `MPI_Win_unlock`: over once the target is settled.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` when the target is not locked; errors of the engine.
    pub fn unlock(&mut self, engine: &mut Engine, target: u32) -> Result<()> {
        self.end_access();
        match self.epochs.locked.remove(&target) {
            Some(Some(_)) => self.release_lock(engine, target),
            Some(None) => self.confirm(engine, Some(target)),
            None => {
                Err(out_of_order(format!("target {target} is not locked by MPI_Win_lock of this process")))
            }
        }
    }

    /// `MPI_Win_lock_all`: held once the window is settled. `ask` is false for `MPI_MODE_NOCHECK`.
    ///
    /// # Errors
    /// As [`Window::lock`].
    pub fn lock_all(&mut self, engine: &mut Engine, ask: bool) -> Result<()> {
        if self.epochs.is_locked() {
            return Err(out_of_order("MPI_Win_lock_all while this process holds locks of the window"));
        }
        self.epochs.begin_other("MPI_Win_lock_all")?;
        if ask {
            (0..self.group.size()).try_for_each(|target| self.ask_lock(engine, target, LockKind::Shared))?;
        }
        self.epochs.all = Some(ask);
        Ok(())
    }

    /// `MPI_Win_unlock_all`: over once the window is settled.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without `MPI_Win_lock_all`; errors of the engine.
    pub fn unlock_all(&mut self, engine: &mut Engine) -> Result<()> {
        self.end_access();
        match self.epochs.all.take() {
            Some(true) => of_all(0..self.group.size(), |target| self.release_lock(engine, target)),
            Some(false) => self.confirm(engine, None),
            None => Err(out_of_order("MPI_Win_unlock_all without MPI_Win_lock_all")),
        }
    }

    /// `MPI_Win_post` (section 12.5.2). Local.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` when an exposure epoch is open; errors of the engine.
    pub fn post(&mut self, engine: &mut Engine, origins: BTreeSet<u32>) -> Result<()> {
        if self.epochs.posted.is_some() {
            return Err(out_of_order(
                "MPI_Win_post while an exposure epoch is open; end it with MPI_Win_wait",
            ));
        }
        for &origin in &origins {
            if origin == self.rank.0 {
                *self.incoming.posts.entry(origin).or_default() += 1;
            } else {
                self.tell(engine, origin, &Message::bare(Kind::Post, 0, 0))?;
            }
        }
        self.epochs.posted = Some(origins);
        Ok(())
    }

    /// Checks that `MPI_Win_start` may begin an access epoch.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` inside another access epoch.
    pub fn check_start(&mut self) -> Result<()> {
        if self.epochs.is_locked() {
            return Err(out_of_order("MPI_Win_start while this process holds locks of the window"));
        }
        self.epochs.begin_other("MPI_Win_start")
    }

    /// Begins the access epoch of `MPI_Win_start` if all targets have opened their exposure epochs.
    ///
    /// # Errors
    /// `MPI_ERR_PROC_ABORTED` when one that has not is gone.
    pub fn try_start(&mut self, engine: &Engine, targets: &BTreeSet<u32>) -> Result<bool> {
        if let Some(waiting) = targets.iter().find(|&target| !self.incoming.posts.contains_key(target)) {
            return self.still_waits_for(engine, *waiting);
        }
        targets.iter().for_each(|&target| take_one(&mut self.incoming.posts, target));
        self.epochs.started = Some(targets.clone());
        Ok(true)
    }

    /// Not yet, unless the process is lost.
    fn still_waits_for(&self, engine: &Engine, rank: u32) -> Result<bool> {
        engine.loss_of(self.group.peer(Rank(rank)), self.context).map_or(Ok(false), Err)
    }

    /// The targets of `MPI_Win_start` that have not posted.
    pub fn not_posted(&self, targets: &BTreeSet<u32>) -> Vec<u32> {
        targets.iter().copied().filter(|target| !self.incoming.posts.contains_key(target)).collect()
    }

    /// The origins of `MPI_Win_wait` that have not completed.
    pub fn not_completed(&self) -> Vec<u32> {
        let origins = self.epochs.posted.iter().flatten().copied();
        origins.filter(|origin| !self.incoming.completes.contains_key(origin)).collect()
    }

    /// `MPI_Win_complete`: over once the window is settled.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without `MPI_Win_start`; errors of the engine.
    pub fn complete(&mut self, engine: &mut Engine) -> Result<()> {
        self.end_access();
        let Some(targets) = self.epochs.started.take() else {
            return Err(out_of_order("MPI_Win_complete without MPI_Win_start"));
        };
        of_all(targets, |target| {
            if target == self.rank.0 {
                match self.is_in_line(target) {
                    true => self.wait_in_line(engine, target, Behind::Complete),
                    false => *self.incoming.completes.entry(target).or_default() += 1,
                }
                return Ok(());
            }
            // Executed after everything else, so the target knows that all is there.
            if self.outgoing.dirty.remove(&target) {
                self.outgoing.unanswered.insert(target);
            }
            self.settle_device_before_message(engine, target)?;
            self.tell(engine, target, &Message::bare(Kind::Complete, 0, 0))
        })
    }

    /// `MPI_Win_test`: ends the exposure epoch if all its origins have completed.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without `MPI_Win_post`; `MPI_ERR_PROC_ABORTED` when an origin that has not completed is gone, which
    /// ends the epoch.
    pub fn try_end_exposure(&mut self, engine: &Engine) -> Result<bool> {
        let Some(origins) = &self.epochs.posted else {
            return Err(out_of_order("MPI_Win_wait or MPI_Win_test without MPI_Win_post"));
        };
        if let Some(waiting) = origins.iter().find(|&origin| !self.incoming.completes.contains_key(origin)) {
            let result = self.still_waits_for(engine, *waiting);
            if result.is_err() {
                self.epochs.posted = None;
            }
            return result;
        }
        let origins = self.epochs.posted.take().unwrap_or_default();
        origins.into_iter().for_each(|origin| take_one(&mut self.incoming.completes, origin));
        Ok(true)
    }

    /// Checks that no epoch is open, for `MPI_Win_free`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`.
    pub fn check_free(&self) -> Result<()> {
        if self.epochs.is_locked() || self.epochs.started.is_some() || self.epochs.posted.is_some() {
            return Err(out_of_order("MPI_Win_free while an epoch of the window is open; end it first"));
        }
        Ok(())
    }
}
