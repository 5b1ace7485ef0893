//! The engine as the schedule executor (`schedule.rs`) sees it.
//!
//! A schedule's sends and receives are ordinary requests with a *token*: instead of being taken by a caller, such a
//! request is freed by the engine when it ends, and a [`Notice`] with its token is queued. The executor drains the
//! notices in [`Engine::progress`], steps its machines, and starts what became possible. The schedule as a
//! whole is one *plain* request that the user holds; the executor ends it with `complete_plain`.
//!
//! ```text
//! Engine::progress:   network -> requests end -> notices -> executor -> start_send / start_recv / complete_plain
//! ```
//!
//! Rules: tokens are the executor's own (for instance `run << 32 | step`); any `u64` but 0. A send that is complete
//! at once, or a receive that finds its message, still produces a notice, so that the executor has one path. Both
//! may only be called with buffers that live until the notice. Nothing here runs user code.

use crate::engine::Engine;
use crate::types::{Completion, Envelope, RequestId, Selector, SendMode, Started, Status};
use std::num::NonZeroU64;
use weft_datatype::{RecvBuf, SendBuf};
use weft_types::{Error, Result};

/// A request with a token has ended.
#[allow(dead_code, reason = "read by schedule.rs")]
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    /// As given to `start_send` or `start_recv`.
    pub(crate) token: NonZeroU64,
    /// How it ended.
    pub(crate) completion: Completion,
}

#[allow(dead_code, reason = "called by schedule.rs")]
impl Engine {
    /// Starts a standard send for the executor.
    ///
    /// # Errors
    /// As [`Engine::send`]; then there is no notice.
    pub(crate) fn start_send(&mut self, to: Envelope, buffer: SendBuf, token: NonZeroU64) -> Result<()> {
        match self.send(to, SendMode::Standard, buffer)? {
            Started::Complete => {
                let completion = Completion { status: Status::of_send(), error: None };
                self.state.notices.push_back(Notice { token, completion });
            }
            Started::Pending(request) => self.state.give_token(request.slot(), token),
        }
        Ok(())
    }

    /// Starts a receive for the executor.
    ///
    /// # Errors
    /// As [`Engine::recv`]; then there is no notice.
    pub(crate) fn start_recv(&mut self, from: Selector, buffer: RecvBuf, token: NonZeroU64) -> Result<()> {
        let request = self.recv(from, buffer)?;
        self.state.give_token(request.slot(), token);
        Ok(())
    }

    /// The next request with a token that ended.
    pub(crate) fn pop_notice(&mut self) -> Option<Notice> {
        self.state.notices.pop_front()
    }

    /// A request that nothing but [`Engine::complete_plain`] ends: the handle of a whole schedule.
    ///
    /// # Errors
    /// All request slots are in use.
    pub(crate) fn new_plain(&mut self) -> Result<RequestId> {
        self.state.requests.insert_plain()
    }

    /// Ends a request made by [`Engine::new_plain`].
    pub(crate) fn complete_plain(&mut self, request: RequestId, error: Option<Error>) {
        self.state.finish(request.slot(), error);
    }
}
