//! Steps of a schedule on other ranks' memory: offers, puts, gets and the flags that end them.
//!
//! ```text
//! put   owner of the memory                     who writes
//!       Offer: registers; channel c ----------> Put: place
//!                                   <~~~~~~~~~~ writes
//!       Await: no bytes             <---------- channel c + 1, when they are visible
//!
//! get   owner                                   who reads
//!       Offer: registers; channel c ----------> Get: place
//!                                   ~~~~~~~~~~> reads
//!       Await: no bytes             <---------- channel c + 1, when they are here
//! ```
//!
//! Offers and flags are messages of the schedule, so lanes, losses and matching need nothing of their own. Their length says what they
//! are, so that the two ends need not agree beforehand whether a device reaches the memory: where none does (or the range is short,
//! lies in pieces or cannot be registered), an offer to write is one byte and the data come where the flag would, and of an offer
//! to read the data come in its place.
//!
//! A collective that is kept for many runs keeps what it has registered from its first run until it is freed, by the rules of the
//! registration cache: where a region means the pages that were there, or another had the room, the next run registers anew. So every
//! run tells the place again, which costs the message that says that the memory is free for it anyway.
//!
//! Where packets are handled after what was written before them (`Reach::ordered`), the flag follows a put that the device has in whole, and
//! does not wait for its end.
//!
//! The rule of `failure.rs` holds here as it does for sends and receives: an offer sends one message and its await takes one; a put and a
//! get take one and send one, whatever happens. What was offered is withdrawn before a failed run ends: a device does not let
//! anybody in any more, and nobody writes to memory that the program has back. A put that is refused for this goes as a message, which
//! nobody wants, and is no failure, as a send to a rank that failed is none. A get that is refused fails. Why it is
//! refused the owner says before it withdraws; where that word is lost on the way and sent again, the error may be of another class than
//! that of the other ranks.

use super::bound::Run;
use super::token;
use super::{Active, KeptRun};
use crate::engine::Engine;
use crate::types::{Completion, Envelope, RequestId, Selector, SendMode, Started};
use crate::zero_copy::Lease;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_api::zero_copy::{MemoryRange, RemoteMemory, TO_BE_READ, TO_BE_WRITTEN};
use weft_coll::{Access, Range, Step, StepId};
use weft_datatype::{RecvBuf, Scratch, SendBuf};
use weft_types::{Error, ErrorClass, PeerId, Rank, Result};
use weft_wire::RemotePlace;

/// Shortest range that is worth an offer; longer than any message that says something of one.
const LEAST: u64 = 4 << 10;

/// A put or a get under way.
#[derive(Debug)]
pub(super) struct Remote {
    step: StepId,
    stage: Stage,
    /// Where the offer of a put comes.
    words: Option<Arc<Scratch>>,
}

/// What a put or a get waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The offer.
    Offer,
    /// The device.
    Moving,
    /// What was copied is visible.
    Flushing,
    /// The flag, or the data in its place, has left.
    Flag,
    /// The device, behind whose writes the flag has left.
    Told,
}

/// What a schedule that is kept for many runs has registered between them, by the offer; `None`: it is freed. Touched only by who holds
/// the engine.
#[derive(Debug)]
pub(super) struct Lent(Mutex<Option<Vec<(StepId, Lease)>>>);

impl Default for Lent {
    fn default() -> Lent {
        Lent(Mutex::new(Some(Vec::new())))
    }
}

impl Lent {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<(StepId, Lease)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, step: StepId) -> Option<Lease> {
        let mut lent = self.lock();
        let lent = lent.as_mut()?;
        let at = lent.iter().position(|&(of, _)| of == step)?;
        Some(lent.swap_remove(at).1)
    }

    /// Whether the lease is kept: neither when it was freed meanwhile, nor when another run of the same has left one.
    fn keep(&self, step: StepId, lease: Lease) -> bool {
        let mut lent = self.lock();
        let Some(lent) = lent.as_mut().filter(|lent| lent.iter().all(|&(of, _)| of != step)) else {
            return false;
        };
        lent.push((step, lease));
        true
    }
}

/// The other rank of a put or a get, the channel of its offer, the own range, and whether it writes.
fn parts(step: Step) -> Option<(u32, u16, Range, bool)> {
    match step {
        Step::Put { to, channel, from } => Some((to, channel, from, true)),
        Step::Get { from, channel, into } => Some((from, channel, into, false)),
        _ => None,
    }
}

/// Bytes that are expected where [`Engine::pay`] is to send something else: of a put's flag neither the data nor none.
pub(super) fn unlike_flag(bytes: u64, puts: bool) -> u64 {
    u64::from(puts && bytes == 1)
}

/// Whether an await ends well with a message of so many bytes.
pub(super) fn is_flag(access: Access, range: Range, got: u64) -> bool {
    match access {
        Access::Read => got == 0,
        Access::Write => got == range.bytes || got == 0 && range.bytes >= LEAST,
    }
}

fn wrong(step: Step, got: u64) -> Error {
    Error::new(
        ErrorClass::TRUNCATE,
        format!(
            "a collective operation got {got} bytes where {step:?} expects a word about memory: the ranks disagree about count, \
             datatype or root (section 6.1)"
        ),
    )
}

/// Whether a device has refused an operation on memory of a process that lives.
fn is_refusal(error: &Error) -> bool {
    error.class() == ErrorClass::RMA_RANGE
}

fn taken_back(step: Step) -> Error {
    Error::new(
        ErrorClass::TRUNCATE,
        format!(
            "a rank has taken back the memory that {step:?} reads: it has failed in the same collective operation"
        ),
    )
}

impl Engine {
    /// Starts an offer, a put, a get or an await.
    pub(super) fn start_remote(&mut self, slot: u32, step: StepId, active: &mut Active) -> Result<()> {
        match active.run.schedule.steps()[step as usize] {
            Step::Offer { to, channel, range, access } => {
                let peer = active.run.channel.peers.peer(Rank(to));
                let message = match (self.place_of_offer(active, peer, step, (range, access)), access) {
                    (Some(place), _) => {
                        let (words, mut bytes) = (Scratch::new(RemotePlace::BYTES), [0; RemotePlace::BYTES]);
                        place.put(&mut bytes);
                        words.recv_buf(0, RemotePlace::BYTES).unpack(0, &bytes);
                        words.send_buf(0, RemotePlace::BYTES)
                    }
                    (None, Access::Write) => Scratch::new(1).send_buf(0, 1),
                    (None, Access::Read) => active.readable(range),
                };
                self.send_of(slot, step, active, (to, channel), message)
            }
            Step::Await { from, channel, range, access } => {
                let room = match access {
                    Access::Write => active.writable(range),
                    Access::Read => RecvBuf::empty(),
                };
                self.recv_of(slot, step, active, (from, channel + 1), room)
            }
            Step::Put { to, channel, .. } => {
                let words = Scratch::new(RemotePlace::BYTES);
                let room = words.recv_buf(0, RemotePlace::BYTES);
                active.vectors.remote.push(Remote { step, stage: Stage::Offer, words: Some(words) });
                self.recv_of(slot, step, active, (to, channel), room)
            }
            Step::Get { from, channel, into } => {
                active.vectors.remote.push(Remote { step, stage: Stage::Offer, words: None });
                let room = active.writable(into);
                self.recv_of(slot, step, active, (from, channel), room)
            }
            _ => Err(Error::internal("a step on this rank's memory alone")),
        }
    }

    fn send_of(
        &mut self,
        slot: u32,
        step: StepId,
        active: &mut Active,
        (to, channel): (u32, u16),
        message: SendBuf,
    ) -> Result<()> {
        let run = &active.run;
        let envelope = Envelope {
            peer: run.channel.peers.peer(Rank(to)),
            context: run.channel.context,
            source: run.channel.rank,
            tag: run.tag(channel),
        };
        match self.send(envelope, SendMode::Standard, message)? {
            Started::Complete => self.finish_step(active, step),
            Started::Pending(request) => self.await_request(slot, step, active, request),
        }
        Ok(())
    }

    fn recv_of(
        &mut self,
        slot: u32,
        step: StepId,
        active: &mut Active,
        (from, channel): (u32, u16),
        mut room: RecvBuf,
    ) -> Result<()> {
        let run = &active.run;
        let selector = Selector {
            context: run.channel.context,
            peer: Some(run.channel.peers.peer(Rank(from))),
            source: Some(Rank(from)),
            tag: Some(run.tag(channel)),
        };
        if let Some(completion) = self.try_recv(selector, &mut room) {
            self.step_ended(slot, step, active, completion);
            return Ok(());
        }
        let request = self.recv(selector, room)?;
        self.await_request(slot, step, active, request);
        Ok(())
    }

    fn await_request(&mut self, slot: u32, step: StepId, active: &mut Active, request: RequestId) {
        active.vectors.pending.push((step, request));
        self.state.give_token(request.slot(), token(slot, step));
    }

    fn finish_step(&mut self, active: &mut Active, step: StepId) {
        active.vectors.remote.retain(|remote| remote.step != step);
        if active.error.is_none() {
            active.vectors.execution.completed(&active.run.schedule, step);
        }
    }

    /// Registers what is offered, or finds it registered by an earlier run. `None`: it goes by messages.
    fn place_of_offer(
        &mut self,
        active: &mut Active,
        peer: PeerId,
        step: StepId,
        (range, access): (Range, Access),
    ) -> Option<RemotePlace> {
        if range.bytes < LEAST {
            return None;
        }
        let reach = self.reach(peer)?;
        let (can, address, rights) = match access {
            Access::Read => (reach.get, active.readable(range).contiguous_address(), TO_BE_READ),
            Access::Write => {
                let room = active.writable(range).as_mut_slice().map(|room| room.as_ptr() as u64);
                (reach.put, room, TO_BE_WRITTEN)
            }
        };
        let memory = MemoryRange { address: address.filter(|_| can)?, length: range.bytes };
        let before = match &active.run {
            Run::Kept(bound) => bound.lent.take(step),
            _ => None,
        };
        let lease = match before.and_then(|lease| self.lend_again(lease)) {
            // Scratch memory may be other memory this time.
            Some(lease) if lease.begins_at() == memory.address => lease,
            other => {
                other.into_iter().for_each(|lease| self.take_back_lent(lease));
                self.lend(memory, rights, peer)?
            }
        };
        active.vectors.lent.push((step, lease));
        self.state.schedules.offered += 1;
        Some(RemotePlace { address: lease.region.remote.address, key: lease.region.remote.key })
    }

    /// How often collectives have offered memory to other ranks' devices so far.
    pub fn offers_of_collectives(&self) -> u64 {
        self.state.schedules.offered
    }

    /// What the run has offered is the program's again: kept for the next run if there may be one and this one has not failed. Otherwise
    /// nobody gets at it any more, nor at what earlier runs have left.
    pub(super) fn end_offers(&mut self, active: &mut Active) {
        if active.vectors.lent.is_empty() && active.error.is_none() {
            return;
        }
        let mut lent = std::mem::take(&mut active.vectors.lent);
        let kept = match &active.run {
            Run::Kept(bound) => Some(&bound.lent),
            _ => None,
        };
        for &(step, _) in &lent {
            // Whom a get will be refused hears before why, unless the word is lost on the way and sent again.
            if let Step::Offer { to, access: Access::Read, .. } = active.run.schedule.steps()[step as usize]
                && active.error.is_some()
            {
                let peer = active.run.channel.peers.peer(Rank(to));
                if !self.state.is_dead(peer) && !self.state.has_left(peer, active.run.channel.context) {
                    self.tell_loss(active, peer);
                }
            }
        }
        for (step, lease) in lent.drain(..) {
            if active.error.is_none() && kept.is_some_and(|kept| kept.keep(step, lease)) {
                self.rest_lent(lease);
            } else {
                self.take_back_lent(lease);
            }
        }
        active.vectors.lent = lent;
        if let Some(kept) = kept
            && active.error.is_some()
        {
            let left = kept.lock().as_mut().map(std::mem::take).unwrap_or_default();
            left.into_iter().for_each(|(_, lease)| self.take_back_lent(lease));
        }
    }

    /// A collective that was kept for many runs is not started any more: what it has registered is given back, now or when the run
    /// under way has ended. In the engine that ran it.
    pub fn free_kept(&mut self, kept: &KeptRun) {
        let left = kept.0.lent.lock().take().unwrap_or_default();
        left.into_iter().for_each(|(_, lease)| self.take_back_lent(lease));
    }

    /// As [`Engine::pay`], of a step whose request was taken back: of a put or a get that may be the flag, behind an offer that was
    /// taken.
    pub(super) fn pay_for_cancelled(&mut self, active: &Active, step: StepId) {
        let remote = active.vectors.remote.iter().find(|remote| remote.step == step);
        match remote {
            Some(Remote { stage: Stage::Told, .. }) => {}
            Some(remote) if remote.stage != Stage::Offer => self.pay_flag(active, step),
            _ => self.pay(active, step),
        }
    }

    /// A request of a step has ended.
    pub(super) fn step_ended(
        &mut self,
        slot: u32,
        step: StepId,
        active: &mut Active,
        completion: Completion,
    ) {
        let Some(at) = active.vectors.remote.iter().position(|remote| remote.step == step) else {
            return active.ended(step, completion);
        };
        let stage = active.vectors.remote[at].stage;
        if completion.status.cancelled {
            // Nothing came, and the caller pays.
            active.vectors.remote.swap_remove(at);
            return;
        }
        let what = active.run.schedule.steps()[step as usize];
        let puts = matches!(what, Step::Put { .. });
        let outcome = match completion.error.clone() {
            Some(error) if is_refusal(&error) && active.error.is_none() && stage == Stage::Told => {
                self.finish_step(active, step);
                return;
            }
            // Whoever fails takes back what it has offered. As with a send, that is no error of who had the data for it.
            Some(error) if is_refusal(&error) && active.error.is_none() && puts => {
                self.send_instead(slot, step, active).map(|()| true)
            }
            Some(error) if is_refusal(&error) => Err(taken_back(what)),
            Some(error) => Err(error),
            None if active.error.is_some() => Ok(false),
            None => self.go_on_remote(slot, step, active, stage, completion.status.bytes).map(|()| true),
        };
        if let Ok(true) = outcome {
            return;
        }
        // The other waits for a word, unless it has left.
        let now = active.vectors.remote.iter().position(|remote| remote.step == step);
        let owes = now.is_some_and(|at| {
            !matches!(active.vectors.remote.swap_remove(at).stage, Stage::Flag | Stage::Told)
        });
        if let Err(error) = outcome {
            active.error.get_or_insert(error);
        }
        if owes {
            self.pay_flag(active, step);
        }
    }

    /// The next stage of a put or a get, as far as it goes without waiting.
    fn go_on_remote(
        &mut self,
        slot: u32,
        step: StepId,
        active: &mut Active,
        stage: Stage,
        bytes: u64,
    ) -> Result<()> {
        let what = active.run.schedule.steps()[step as usize];
        let Some((other, channel, mine, puts)) = parts(what) else {
            return Err(Error::internal("a step that is neither a put nor a get"));
        };
        let peer = active.run.channel.peers.peer(Rank(other));
        let flag = (other, channel + 1);
        let (mut stage, mut message) = (stage, SendBuf::empty());
        // What was awaited is visible at its end.
        let mut copied = false;
        loop {
            let started = match stage {
                Stage::Offer if puts && bytes == 1 => {
                    message = active.readable(mine);
                    None
                }
                Stage::Offer if !puts && bytes == mine.bytes => None,
                Stage::Offer if bytes == RemotePlace::BYTES as u64 && mine.bytes >= LEAST => {
                    let there = self.place_offered(active, step, mine)?;
                    let started = if puts {
                        self.put_exposed(peer, active.readable(mine), there)?
                    } else {
                        self.prepare_gets(peer);
                        self.get_exposed(peer, active.writable(mine), there)?
                    };
                    Some((Stage::Moving, started))
                }
                Stage::Offer => return Err(wrong(what, bytes)),
                // A put that was copied at once is visible behind a flush, or to who handles a packet that was sent later.
                Stage::Moving if copied && puts && !self.reach(peer).is_some_and(|reach| reach.ordered) => {
                    Some((Stage::Flushing, self.flush_exposed(peer)?))
                }
                Stage::Moving | Stage::Flushing => None,
                Stage::Flag | Stage::Told => {
                    self.finish_step(active, step);
                    return Ok(());
                }
            };
            let Some((next, started)) = started else { break };
            self.enter_stage(active, step, next);
            match started {
                Started::Complete => (stage, copied) = (next, true),
                Started::Pending(request) => {
                    self.await_request(slot, step, active, request);
                    let ordered = puts && next == Stage::Moving && self.is_posted(request);
                    return match ordered && self.reach(peer).is_some_and(|reach| reach.ordered) {
                        true => self.tell_behind(step, active, flag),
                        false => Ok(()),
                    };
                }
            }
        }
        self.enter_stage(active, step, Stage::Flag);
        let sent = self.send_of(slot, step, active, flag, message);
        if sent.is_err() {
            self.enter_stage(active, step, stage);
        }
        sent
    }

    /// Sends the flag of a put that the device has in whole, where packets are handled after what was written before them. The step ends
    /// with the put.
    fn tell_behind(&mut self, step: StepId, active: &mut Active, (to, channel): (u32, u16)) -> Result<()> {
        let run = &active.run;
        let envelope = Envelope {
            peer: run.channel.peers.peer(Rank(to)),
            context: run.channel.context,
            source: run.channel.rank,
            tag: run.tag(channel),
        };
        // It has no bytes, so nobody needs to wait until it has left.
        if let Started::Pending(request) = self.send(envelope, SendMode::Standard, SendBuf::empty())? {
            self.release(request);
        }
        self.enter_stage(active, step, Stage::Told);
        Ok(())
    }

    /// The device does not let a put in any more: the data go as a message, which the owner drops.
    fn send_instead(&mut self, slot: u32, step: StepId, active: &mut Active) -> Result<()> {
        let what = active.run.schedule.steps()[step as usize];
        let Some((other, channel, mine, _)) = parts(what) else {
            return Err(Error::internal("a step that is neither a put nor a get"));
        };
        self.enter_stage(active, step, Stage::Flag);
        let message = active.readable(mine);
        let sent = self.send_of(slot, step, active, (other, channel + 1), message);
        if sent.is_err() {
            self.enter_stage(active, step, Stage::Moving);
        }
        sent
    }

    fn enter_stage(&mut self, active: &mut Active, step: StepId, stage: Stage) {
        let remote = active.vectors.remote.iter_mut().find(|remote| remote.step == step);
        remote.expect("a put or a get is known from its start to its end").stage = stage;
    }

    fn place_offered(&mut self, active: &Active, step: StepId, mine: Range) -> Result<RemoteMemory> {
        let mut bytes = [0; RemotePlace::BYTES];
        let remote = active.vectors.remote.iter().find(|remote| remote.step == step);
        match remote.and_then(|remote| remote.words.as_ref()) {
            Some(words) => words.send_buf(0, RemotePlace::BYTES).pack(0, &mut bytes),
            // Of a get it came where the data shall lie.
            None => active.readable(mine.part(0, RemotePlace::BYTES as u64)).pack(0, &mut bytes),
        }
        let (_, place) =
            RemotePlace::parse(&bytes).ok_or_else(|| Error::internal("a place has its length"))?;
        Ok(RemoteMemory { address: place.address, key: place.key })
    }
}
