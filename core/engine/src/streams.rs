//! Nonblocking collectives of a communicator whose members share the node, by cells of their own.
//!
//! A *stream* is the calls of one communicator in the order in which they were started, which is the same at all members
//! (section 6.12), so that they may share one sequence of rounds. The first one goes on at every progress of the engine; the
//! others begin when those before them are over. Blocking collectives have other cells and wait for no stream.
//!
//! Nobody looks after a nonblocking call all the time: a member that goes back to its computation right after the start would
//! leave others asleep that were about to wait for it, if the rule held that he who sees a round whole wakes the others. So
//! every payload wakes those who sleep ([`weft_coll::rounds::Run::unattended`]).
//!
//! A persistent collective has a stream of its own, which keeps its one call: persistent ones may be started in another order
//! at every member (section 6.13), so they share no rounds with anything else. A start begins the call at the next round; it
//! allocates nothing.
//!
//! A lost member or calls that do not match end a stream at all members before the same call ([`Rounds::begin`]); those after
//! it go by messages.

use crate::engine::{Engine, State};
use crate::outlook::Running;
use crate::parting::{Partings, left_among};
use crate::peers::Peers;
use crate::rounds::{Begin, Rounds, RoundsCall};
use crate::transports::Transports;
use crate::types::RequestId;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use weft_api::Transport;
use weft_coll::rounds::Outcome;
use weft_types::{ContextId, Error, PeerId, Result};

/// Looks between two rounds of progress of everything else.
const PROGRESS_EVERY: u32 = 32;

/// The stream of a communicator, or of a persistent collective, which lives as long as this and its calls do.
#[derive(Debug)]
pub struct Stream {
    index: u32,
    _alive: Arc<()>,
}

/// All streams of an engine.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Vec<Option<Open>>,
    /// Those with calls under way.
    pub(crate) busy: Vec<u32>,
}

#[derive(Debug)]
struct Open {
    rounds: Rounds,
    context: ContextId,
    peers: Vec<PeerId>,
    calls: VecDeque<Pending>,
    alive: Weak<()>,
    /// Of a persistent collective.
    kept: Option<Kept>,
}

/// What a persistent collective does each time it is started.
#[derive(Debug)]
struct Kept {
    /// Its number among those of the communicator.
    sequence: u32,
    /// How often it was started.
    starts: u32,
    call: RoundsCall,
    /// While it is under way. The call stays where it is: to move what was just written would wait until the stores before it,
    /// into lines that others read, are through.
    request: Option<RequestId>,
}

/// A call that is not over; only the first one of a stream has begun.
#[derive(Debug)]
struct Pending {
    request: RequestId,
    number: u32,
    call: RoundsCall,
}

impl Open {
    fn is_over(&self) -> bool {
        !self.is_under_way() && self.alive.strong_count() == 0
    }

    fn is_under_way(&self) -> bool {
        !self.calls.is_empty() || self.kept.as_ref().is_some_and(|kept| kept.request.is_some())
    }

    /// The call that goes on at every progress.
    fn first(&self) -> Option<&RoundsCall> {
        match &self.kept {
            Some(kept) => Some(&kept.call).filter(|_| kept.request.is_some()),
            None => self.calls.front().map(|first| &first.call),
        }
    }

    /// The processes that a call waits for: those that the first call does, and then the others.
    fn awaited(&self) -> Vec<PeerId> {
        let missing = self.first().map_or(0, |first| first.missing(&self.rounds));
        let members = (0..).zip(&self.peers).filter(|(member, _)| missing >> member & 1 == 1);
        members.map(|(_, &peer)| peer).collect()
    }
}

/// What became of a call.
enum Stepped {
    Waits,
    Done,
    Failed(Error),
}

/// What a process knows of those that do not go on.
struct Losses<'a> {
    /// The processes of the job that are lost.
    gone: &'a [PeerId],
    /// Whether some are, or have ended MPI after a loss of their own.
    any: bool,
    partings: &'a Partings,
    peers: &'a Peers,
    fabric: &'a Transports,
}

/// Moves a call as far as it goes. Fails, and leaves the cells, when what it waits for may not come.
#[inline(always)]
fn step(
    call: &mut RoundsCall,
    rounds: &mut Rounds,
    (context, peers): (ContextId, &[PeerId]),
    losses: &Losses<'_>,
) -> Stepped {
    match call.step(rounds) {
        Outcome::Done => Stepped::Done,
        Outcome::Blocked if !losses.any && !rounds.has_cause() => Stepped::Waits,
        Outcome::Blocked => {
            // Whether it is waited for or not: those that are may have failed over this loss and gone on.
            if let Some(&lost) = peers.iter().find(|peer| losses.gone.contains(peer)) {
                return Stepped::Failed(rounds.leave_for_loss(lost));
            }
            let age = losses.partings.age(context);
            let has_left = |id| losses.peers.is_dead(id) || losses.fabric.farewell_of(id).ends(age);
            if let Some(left) = left_among(|| call.missing(rounds), |member| peers[member as usize], has_left)
            {
                return Stepped::Failed(rounds.leave_for_leaver(left));
            }
            let left = rounds.cells_here().gone();
            // What is missing after this will not come.
            match left & call.missing(rounds) {
                0 => Stepped::Waits,
                _ => Stepped::Failed(rounds.leave_too()),
            }
        }
        Outcome::Strayed(other) => Stepped::Failed(rounds.leave_for_mismatch(other)),
        Outcome::Unread(other) => Stepped::Failed(rounds.leave_unread(other)),
    }
}

impl Engine {
    /// Opens the stream of a communicator on cells that serve nothing else; `context`: its collective channel, `peers`: its
    /// members.
    pub fn open_stream(&mut self, rounds: Rounds, context: ContextId, peers: Vec<PeerId>) -> Stream {
        self.open(rounds, context, peers, None)
    }

    /// Opens the stream of a persistent collective, which starts with [`Engine::start_kept`]. `sequence`: its number among
    /// those of the communicator.
    pub fn keep_in_stream(
        &mut self,
        rounds: Rounds,
        context: ContextId,
        peers: Vec<PeerId>,
        (sequence, call): (u32, RoundsCall),
    ) -> Stream {
        let kept = Kept { sequence, starts: 0, call, request: None };
        self.open(rounds, context, peers, Some(kept))
    }

    fn open(&mut self, rounds: Rounds, context: ContextId, peers: Vec<PeerId>, kept: Option<Kept>) -> Stream {
        self.close_streams();
        let alive = Arc::new(());
        let (calls, held) = (VecDeque::new(), Arc::downgrade(&alive));
        let open = Open { rounds, context, peers, calls, alive: held, kept };
        let all = &mut self.state.streams.open;
        let index = match all.iter().position(Option::is_none) {
            Some(index) => {
                all[index] = Some(open);
                index
            }
            None => {
                all.push(Some(open));
                all.len() - 1
            }
        };
        Stream { index: index as u32, _alive: alive }
    }

    /// Closes the streams whose communicators are freed and whose calls are over, so that their cells can serve others.
    pub fn close_streams(&mut self) {
        let all = &mut self.state.streams.open;
        all.iter_mut().filter(|open| open.as_ref().is_some_and(Open::is_over)).for_each(|open| *open = None);
    }

    /// The cells of a stream: to look at, to add long payloads to, to leave.
    pub fn rounds_of(&mut self, stream: &Stream) -> &mut Rounds {
        let open = self.state.streams.open[stream.index as usize].as_mut();
        &mut open.expect("a stream that is alive is open").rounds
    }

    /// The same, only to look at.
    pub fn rounds_here(&self, stream: &Stream) -> &Rounds {
        let open = self.state.streams.open[stream.index as usize].as_ref();
        &open.expect("a stream that is alive is open").rounds
    }

    /// Adds the memory for long payloads of a stream that one member took.
    ///
    /// # Errors
    /// As [`Engine::join_rounds`].
    pub fn add_slots_to(&mut self, stream: &Stream, block: u64) -> Result<()> {
        let members = self.rounds_of(stream).cells_here().members();
        let block = self.slots(block, members)?;
        self.rounds_of(stream).cells().add_slots(block);
        Ok(())
    }

    /// Starts the communicator's call of that number in a stream: `call` makes it for the stream's cells, or none where memory
    /// is missing that others have: then this member leaves. `None` when the stream has ended: this call and those after it go
    /// by messages.
    ///
    /// # Errors
    /// All request slots are in use.
    pub fn start_in_stream(
        &mut self,
        stream: &Stream,
        number: u32,
        call: impl FnOnce(&Rounds) -> Option<RoundsCall>,
    ) -> Result<Option<RequestId>> {
        let state = &mut self.state;
        let open =
            state.streams.open[stream.index as usize].as_mut().expect("a stream that is alive is open");
        let call = call(&open.rounds);
        // First what may fail: a call that was begun is one that others wait for.
        let request = state.requests.insert_plain()?;
        let begun = match (open.rounds.begin(number), call) {
            (Ok(Begin::Over), _) => None,
            (Ok(Begin::Cells), Some(call)) => Some(Ok(call)),
            (Ok(Begin::Cells), None) => Some(Err(open.rounds.leave_for_memory())),
            (Err(error), _) => Some(Err(error)),
        };
        let call = match begun {
            None => {
                self.complete_plain(request, None);
                self.take(request);
                return Ok(None);
            }
            Some(Err(error)) => {
                self.complete_plain(request, Some(error));
                return Ok(Some(request));
            }
            Some(Ok(call)) => call,
        };
        if open.calls.is_empty() {
            state.streams.busy.push(stream.index);
        }
        open.calls.push_back(Pending { request, number, call });
        self.step_stream(stream.index);
        Ok(Some(request))
    }

    /// Starts the persistent collective of a stream, which is not under way. `None` when the stream has ended: this start and
    /// those after it go by messages.
    ///
    /// # Errors
    /// All request slots are in use.
    pub fn start_kept(&mut self, stream: &Stream) -> Result<Option<RequestId>> {
        let state = &mut self.state;
        let open =
            state.streams.open[stream.index as usize].as_mut().expect("a stream that is alive is open");
        let kept = open.kept.as_mut().expect("the stream of a persistent collective");
        // First what may fail, as above.
        let request = state.requests.insert_plain()?;
        let number = kept.starts;
        match open.rounds.begin(number) {
            Ok(Begin::Cells) => {}
            Ok(Begin::Over) => {
                self.complete_plain(request, None);
                self.take(request);
                return Ok(None);
            }
            Err(error) => {
                kept.starts = number.wrapping_add(1);
                self.complete_plain(request, Some(error));
                return Ok(Some(request));
            }
        }
        kept.starts = number.wrapping_add(1);
        kept.call.begin_again(&open.rounds);
        assert!(
            kept.request.replace(request).is_none(),
            "who starts a persistent collective has completed it"
        );
        state.streams.busy.push(stream.index);
        self.step_kept(stream.index);
        Ok(Some(request))
    }

    /// Goes on with a persistent collective as long as the others are likely to come soon, and with everything else now and then.
    pub fn spin_kept(&mut self, stream: &Stream, turns: u32) {
        for turn in 1..turns {
            let open = self.state.streams.open[stream.index as usize].as_ref();
            if !open.is_some_and(Open::is_under_way) || self.step_kept(stream.index) {
                return;
            }
            if turn.is_multiple_of(PROGRESS_EVERY) {
                self.progress();
                if self.has_callback() {
                    return;
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Moves all streams as far as they go without waiting. True when a call has ended.
    pub(crate) fn step_streams(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(&index) = self.state.streams.busy.get(at) {
            moved |= self.step_stream(index);
            // A stream that has no calls left made way for another.
            at += usize::from(self.state.streams.busy.get(at) == Some(&index));
        }
        moved
    }

    /// Moves a persistent collective as far as it goes. True when it has ended.
    fn step_kept(&mut self, index: u32) -> bool {
        let State { streams, gone, any_dead, partings, peers: met, .. } = &mut self.state;
        let any = *any_dead || !gone.is_empty() || !partings.is_empty();
        let losses = Losses { gone, any, partings, peers: met, fabric: &self.fabric };
        let Streams { open, busy } = streams;
        let place = &mut open[index as usize];
        let Some(Open { rounds, context, peers, kept: Some(kept), .. }) = place else {
            unreachable!("the stream of a persistent collective is open while it is under way")
        };
        let error = match step(&mut kept.call, rounds, (*context, peers), &losses) {
            Stepped::Waits => return false,
            Stepped::Done => None,
            Stepped::Failed(error) => Some(error),
        };
        let request = kept.request.take();
        match busy.last() {
            Some(&last) if last == index => drop(busy.pop()),
            _ => busy.retain(|&busy| busy != index),
        }
        if place.as_ref().is_some_and(Open::is_over) {
            *place = None;
        }
        if let Some(request) = request {
            self.complete_plain(request, error);
        }
        true
    }

    fn step_stream(&mut self, index: u32) -> bool {
        if self.state.streams.open[index as usize].as_ref().is_some_and(|open| open.kept.is_some()) {
            return self.step_kept(index);
        }
        let mut moved = false;
        loop {
            let State { streams, gone, any_dead, partings, peers: met, .. } = &mut self.state;
            let any = *any_dead || !gone.is_empty() || !partings.is_empty();
            let losses = Losses { gone, any, partings, peers: met, fabric: &self.fabric };
            let Streams { open, busy } = streams;
            let place = &mut open[index as usize];
            let open = place.as_mut().expect("a busy stream is open");
            let Open { rounds, context, peers, calls, .. } = open;
            let Some(first) = calls.front_mut() else {
                busy.retain(|&busy| busy != index);
                if open.is_over() {
                    *place = None;
                }
                return moved;
            };
            let failed = match step(&mut first.call, rounds, (*context, peers), &losses) {
                Stepped::Waits => return moved,
                Stepped::Done => {
                    let request = first.request;
                    calls.pop_front();
                    if let Some(next) = calls.front_mut() {
                        next.call.begin(rounds);
                    }
                    self.complete_plain(request, None);
                    moved = true;
                    continue;
                }
                Stepped::Failed(error) => error,
            };
            moved = true;
            // All that were begun fail: this member does nothing in the cells any more.
            for pending in std::mem::take(calls) {
                self.complete_plain(pending.request, Some(failed.clone()));
            }
        }
    }

    /// Every collective under way in a stream and its request.
    pub(crate) fn running_in_streams(&self) -> impl Iterator<Item = (RequestId, Running)> + '_ {
        let streams = &self.state.streams;
        let busy = streams.busy.iter().filter_map(|&index| streams.open[index as usize].as_ref());
        busy.flat_map(|open| {
            let awaited = open.awaited();
            let kept = open.kept.as_ref().and_then(|kept| Some((kept.request?, kept.sequence, true)));
            let once = open.calls.iter().map(|pending| (pending.request, pending.number, false));
            kept.into_iter().chain(once).map(move |(request, number, persistent)| {
                let running = Running {
                    context: open.context,
                    number,
                    persistent,
                    peers: awaited.clone(),
                    // What it waits for has come since it was looked at.
                    goes_on: awaited.is_empty(),
                };
                (request, running)
            })
        })
    }
}
