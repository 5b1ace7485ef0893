//! What a run that fails owes to the others.
//!
//! A process that is lost is known at once only to those that exchange messages with it; the others wait for *their* partners,
//! which have failed. So a run that fails because of a loss sends, in place of every message that it still owes, one of a
//! wrong length, over which the receiver fails in its turn: none where some bytes are expected, one byte where none are.

use super::Active;
use crate::engine::Engine;
use crate::types::{Envelope, SendMode, Started};
use weft_coll::Step;
use weft_datatype::{Scratch, SendBuf};
use weft_types::{ErrorClass, PeerId, Rank};

impl Engine {
    /// Why the run really failed: a wrong length where a process was lost comes from somebody who failed before.
    pub(super) fn explain_failure(&self, active: &mut Active) {
        if let Some(error) = &active.error
            && error.class() == ErrorClass::TRUNCATE
            && let Some(lost) = self.state.any_lost()
        {
            active.error = Some(crate::engine::State::gone(lost));
        }
    }

    /// Sends what makes the others fail, too.
    pub(super) fn fail_others(&mut self, active: &Active) {
        if active.error.as_ref().is_none_or(|error| error.class() != ErrorClass::PROC_ABORTED) {
            return;
        }
        let run = &active.run;
        let unsent = active.vectors.execution.not_started();
        let unsent = unsent.chain(active.vectors.pending.iter().map(|&(step, _)| step));
        for step in unsent {
            let Step::Send { to, channel, from } = run.schedule.steps()[step as usize] else { continue };
            let peer: PeerId = run.channel.peers.peer(Rank(to));
            if peer == self.state.config.me || self.state.is_dead(peer) {
                continue;
            }
            let envelope = Envelope {
                peer,
                context: run.channel.context,
                source: run.channel.rank,
                tag: run.tag(channel),
            };
            let wrong = if from.bytes == 0 { Scratch::new(1).send_buf(0, 1) } else { SendBuf::empty() };
            // Whoever cannot be reached needs to be told nothing.
            if let Ok(Started::Pending(request)) = self.send(envelope, SendMode::Standard, wrong) {
                self.release(request);
            }
        }
    }
}
