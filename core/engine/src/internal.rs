//! The engine as the schedule executor (`schedule.rs`) sees it.
//!
//! A schedule's sends and receives are ordinary requests with a *token*: instead of being taken by a caller, such a
//! request is freed by the engine when it ends, and a [`Notice`] with its token is queued. The executor drains the
//! notices in [`Engine::progress`], steps its machines, and starts what became possible. The schedule as a
//! whole is one *plain* request that the user holds; the executor ends it with `complete_plain`.
//!
//! ```text
//! Engine::progress:   network -> requests end -> notices -> executor -> send / recv with a token, complete_plain
//! ```
//!
//! Rules: a token is given to a request right after it was made (`State::give_token`); one that has ended by then
//! still produces a notice. Tokens are the executor's own; any `u64` but 0. Nothing here runs user code.

use crate::engine::Engine;
use crate::types::{Completion, RequestId};
use std::num::NonZeroU64;
use weft_types::{Error, Result};

/// What the executor is to look at.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// A request with a token has ended: the token as given to `State::give_token`, and how.
    Ended(NonZeroU64, Completion),
    /// A process is known to be gone that was not before.
    Lost,
    /// A process has left, for good or from some communicators: what waits for it, or for anybody where nobody is left, ends.
    Parted,
    /// A run that failed still waits for somebody.
    Owed,
}

impl Engine {
    /// The next request with a token that ended, or loss.
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
