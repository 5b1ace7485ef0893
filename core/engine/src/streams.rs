//! Nonblocking collectives of a communicator whose members share the node, by cells of their own.
//!
//! A *stream* is the calls of one communicator in the order in which they were started, which is the same at all members (section
//! 6.12), so that they may share one sequence of rounds. The first one goes on at every progress of the engine; the others begin when
//! those before them are over. Blocking collectives have other cells and wait for no stream.
//!
//! Nobody looks after a nonblocking call all the time: a member that goes back to its computation right after the start would leave
//! others asleep that were about to wait for it, if the rule held that he who sees a round whole wakes the others. So every
//! payload wakes those who sleep ([`weft_coll::rounds::Run::unattended`]).

use crate::engine::Engine;
use crate::rounds::{Rounds, RoundsCall};
use crate::types::RequestId;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use weft_coll::rounds::Outcome;
use weft_types::{Error, ErrorClass, PeerId, Result};

/// The stream of a communicator, which lives as long as this and its calls do.
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
    peers: Vec<PeerId>,
    calls: VecDeque<(RequestId, RoundsCall)>,
    alive: Weak<()>,
    /// Nothing can end here any more.
    broken: bool,
}

impl Open {
    fn is_over(&self) -> bool {
        self.calls.is_empty() && self.alive.strong_count() == 0
    }
}

impl Engine {
    /// Opens the stream of a communicator on cells that serve nothing else; `peers`: its members.
    pub fn open_stream(&mut self, rounds: Rounds, peers: Vec<PeerId>) -> Stream {
        let all = &mut self.state.streams.open;
        // The cells of communicators that were freed go back now.
        all.iter_mut().filter(|open| open.as_ref().is_some_and(Open::is_over)).for_each(|open| *open = None);
        let alive = Arc::new(());
        let open =
            Open { rounds, peers, calls: VecDeque::new(), alive: Arc::downgrade(&alive), broken: false };
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

    /// Starts a call in a stream: `call` makes it for the stream's cells. `None` when that made none, or a member is gone, so that
    /// the call goes by messages and finds out.
    ///
    /// # Errors
    /// All request slots are in use.
    pub fn start_in_stream(
        &mut self,
        stream: &Stream,
        call: impl FnOnce(&Rounds) -> Option<RoundsCall>,
    ) -> Result<Option<RequestId>> {
        let streams = &mut self.state.streams;
        let open = streams.open[stream.index as usize].as_mut().expect("a stream that is alive is open");
        if open.broken {
            return Ok(None);
        }
        let Some(call) = call(&open.rounds) else { return Ok(None) };
        let request = self.state.requests.insert_plain()?;
        if open.calls.is_empty() {
            streams.busy.push(stream.index);
        }
        open.calls.push_back((request, call));
        self.step_stream(stream.index);
        Ok(Some(request))
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

    fn step_stream(&mut self, index: u32) -> bool {
        let mut moved = false;
        loop {
            let streams = &mut self.state.streams;
            let open = streams.open[index as usize].as_mut().expect("a busy stream is open");
            let Some((request, call)) = open.calls.front_mut() else {
                streams.busy.retain(|&busy| busy != index);
                return moved;
            };
            match call.step(&mut open.rounds) {
                Outcome::Blocked => return moved,
                Outcome::Done => {
                    let request = *request;
                    open.calls.pop_front();
                    if let Some((_, next)) = open.calls.front_mut() {
                        next.begin(&open.rounds);
                    }
                    self.complete_plain(request, None);
                }
                Outcome::Strayed(other) => self.break_stream(index, &strayed(other)),
            }
            moved = true;
        }
    }

    /// All calls of a stream end with an error, and there will be no others.
    #[cold]
    fn break_stream(&mut self, index: u32, error: &Error) {
        let open = self.state.streams.open[index as usize].as_mut().expect("a broken stream is open");
        open.broken = true;
        let calls = std::mem::take(&mut open.calls);
        self.state.streams.busy.retain(|&busy| busy != index);
        for (request, _) in calls {
            self.complete_plain(request, Some(error.clone()));
        }
    }

    /// A process is gone: whatever waits for it will never end.
    #[cold]
    pub(crate) fn break_streams_with(&mut self, peer: PeerId, error: &Error) {
        for index in 0..self.state.streams.open.len() {
            let open = &self.state.streams.open[index];
            if open.as_ref().is_some_and(|open| open.peers.contains(&peer)) {
                self.break_stream(index as u32, error);
            }
        }
    }
}

/// The error of a call that does not match that of another member.
pub fn strayed(other: u32) -> Error {
    Error::new(
        ErrorClass::TRUNCATE,
        format!(
            "rank {other} is in another collective operation, or in one of another size or root: the ranks disagree about \
             operation, count, datatype or root (section 6.1)"
        ),
    )
}
