//! Messages to one process that calls begin one after the other, before a call ends anything: a program that does so waits for all of them, and
//! not for the first.
//!
//! Then the longer ones of them are better read by their receiver, where several reads cost as much as one
//! ([`weft_api::zero_copy::ZeroCopy::read_in_row`]), although each alone would be there sooner if it were sent. Known only where calls that end
//! something say so ([`crate::Engine::keep_company`]).

use crate::engine::State;
use weft_datatype::SendBuf;
use weft_types::PeerId;

/// Messages in a row that are sent: a program that exchanges one or two waits for each.
const SENT: u32 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Whether calls that end something end the row.
    is_watched: bool,
    to: Option<PeerId>,
    messages: u32,
}

impl Row {
    /// Says whether calls that end something end rows.
    pub(crate) fn watch(&mut self, watch: bool) {
        *self = Row { is_watched: watch, ..Row::default() };
    }

    /// Whether calls that end something end rows.
    #[inline(always)]
    pub(crate) const fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Whether a message was counted since the last row ended.
    pub(crate) const fn has_begun(&self) -> bool {
        self.messages != 0
    }

    /// The next message begins a new row.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.messages = 0;
    }

    /// One more message to a process. Whether it follows enough others.
    fn goes_on(&mut self, to: PeerId) -> bool {
        if self.to.replace(to) != Some(to) {
            self.messages = 0;
        }
        self.messages += 1;
        self.is_watched && self.messages > SENT
    }
}

impl State {
    /// Whether a message that begins now is better read by its receiver, though it could be sent.
    pub(crate) fn is_read_in_row(&mut self, index: u32, buffer: &SendBuf) -> bool {
        let peer = self.peers.at(index);
        let Some(means) = peer.means.as_ref().filter(|means| means.plan.read) else { return false };
        buffer.len() as u64 >= means.can.read_in_row
            && buffer.contiguous_address().is_some()
            && self.row.goes_on(peer.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_to_one_process_and_ends_with_what_ends_anything() {
        let mut row = Row::default();
        let begins = |row: &mut Row, to: u32| row.goes_on(PeerId(to));
        assert!((0..10).all(|_| !begins(&mut row, 1)), "nobody says when a row ends");
        row.watch(true);
        assert_eq!([1, 1, 1, 1].map(|to| begins(&mut row, to)), [false, false, true, true]);
        assert_eq!([2, 1, 1, 1].map(|to| begins(&mut row, to)), [false, false, false, true]);
        row.end();
        assert_eq!([1, 1, 1].map(|to| begins(&mut row, to)), [false, false, true]);
        row.watch(false);
        assert!((0..10).all(|_| !begins(&mut row, 1)));
    }
}
