//! Progress: what moves when the program calls, and when a look may end early.

use crate::engine::Engine;
use weft_api::Transport;

impl Engine {
    /// Moves everything of this process that can move without waiting. True when something did.
    #[inline]
    pub fn progress(&mut self) -> bool {
        !self.is_idle() && self.move_all()
    }

    /// Whether it can be seen at a glance that nothing can move.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        let state = &self.state;
        state.busy.is_empty()
            && state.reading.is_empty()
            && state.notices.is_empty()
            && state.streams.busy.is_empty()
            && state.lenders.is_empty()
            && self.fabric.is_idle()
    }

    /// Counts (and wraps) whenever packets were taken or requests may have ended in another way: as long as it stays the same,
    /// what was not complete is not complete, and no message has come that a probe would find.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.state.changes
    }

    #[inline(never)]
    fn move_all(&mut self) -> bool {
        let moved = self.fabric.progress();
        if !moved && self.fabric.is_fabric() && !self.has_rest() {
            self.push_out();
            return false;
        }
        self.move_rest(moved)
    }

    /// Whether [`Engine::move_rest`] has anything to do when the transports moved nothing. Asked over fabrics alone; out of line, so that
    /// shared memory keeps its registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_rest(&self) -> bool {
        let state = &self.state;
        !(state.busy.is_empty()
            && state.reading.is_empty()
            && state.notices.is_empty()
            && state.streams.busy.is_empty()
            && state.lenders.is_empty()
            && state.owing.is_empty())
            || state.zero_copies.is_active()
            || self.awaits_device()
            || self.fabric.has_brought()
    }

    /// Moves all that the transports do not move by themselves. `moved`: whether they did move something.
    #[inline]
    pub(crate) fn move_rest(&mut self, mut moved: bool) -> bool {
        moved |= self.take_packets();
        if !(self.state.busy.is_empty() && self.state.reading.is_empty()) {
            moved |= self.push_all();
        }
        if self.state.zero_copies.is_active() {
            moved |= self.progress_zero_copies();
        }
        if let Some(peer) = self.fabric.lost() {
            self.lose(peer);
            moved = true;
        }
        if self.awaits_device() {
            moved |= self.take_from_device();
        }
        let state = &self.state;
        if state.notices.len() | state.streams.busy.len() | state.lenders.len() != 0 {
            moved = self.move_others(moved);
        }
        self.push_out();
        self.state.changes = self.state.changes.wrapping_add(u32::from(moved));
        moved
    }

    /// Moves schedules, streams and, when nothing else has moved, what is lent. Out of line, for a call that finds nothing of them.
    #[inline(never)]
    fn move_others(&mut self, mut moved: bool) -> bool {
        if !self.state.notices.is_empty() {
            moved |= self.notice_schedules();
        }
        if !self.state.streams.busy.is_empty() {
            moved |= self.step_streams();
        }
        if !moved && !self.state.lenders.is_empty() {
            moved = self.copy_part();
        }
        moved
    }

    /// What earlier calls sent leaves now, also where it waits for company; see [`Engine::keep_company`].
    pub fn push_out(&mut self) {
        self.state.row.end();
        self.fabric.push_out();
    }

    /// Whether messages of several calls may wait for each other where a transport gains by that, until [`Engine::push_out`] or
    /// progress. Whether there is such a transport.
    pub fn keep_company(&mut self, keep: bool) -> bool {
        let keeps = self.fabric.keep_company(keep);
        self.state.row.watch(keeps);
        keeps
    }

    /// Whether [`Engine::keep_company`] was asked for and there is such a transport.
    #[inline(always)]
    pub fn keeps_company(&self) -> bool {
        self.state.row.is_watched()
    }

    /// Whether anything was sent since the last [`Engine::push_out`] or progress that keeps what follows waiting, or waits itself.
    #[cold]
    pub fn is_in_row(&self) -> bool {
        self.state.row.has_begun() || self.fabric.is_in_row()
    }
}
