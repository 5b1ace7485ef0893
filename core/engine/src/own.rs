//! Messages of this process to itself: no transport, the same matching.

use crate::arrive::truncated;
use crate::engine::{Engine, State};
use crate::messages::Place;
use crate::requests::{Buffer, Phase};
use crate::types::{SendMode, Started};
use weft_datatype::{RecvBuf, SendBuf};
use weft_proto::{EAGER_MOST, Key, charge};
use weft_types::Result;
use weft_wire::Header;

impl Engine {
    /// A send to this very process. Short messages without a receive are kept as from anybody else; others wait in
    /// the user's buffer.
    pub(crate) fn send_to_self(
        &mut self,
        header: Header,
        mode: SendMode,
        buffer: SendBuf,
    ) -> Result<Started> {
        let state = &mut self.state;
        state.changes = state.changes.wrapping_add(1);
        if let Some(slot) = state.posted.take(Key::of(header)) {
            state.deliver_own(slot, header, &buffer);
            return Ok(Started::Complete);
        }
        let (me, length) = (state.config.me, buffer.len());
        let kept = mode != SendMode::Synchronous
            && length <= state.config.eager_limit.min(EAGER_MOST) as usize
            && charge(length as u32) <= state.config.eager_budget_per_sender - state.own_held;
        if kept {
            let charged = charge(length as u32);
            state.own_held += charged;
            let slot = state.messages.insert(Place::Held, me, header, length as u64, length as u32, &[]);
            let message = state.messages.at_mut(slot);
            message.charged = charged;
            message.data.resize(length, 0);
            buffer.pack(0, &mut message.data);
            let entry = state.unexpected.insert(Key::of(header), slot);
            state.messages.at_mut(slot).entry = Some(entry);
            return Ok(Started::Complete);
        }
        let request = state.requests.insert(Phase::Own, me, header, Buffer::Send(buffer))?;
        let slot = state.messages.insert(Place::Own, me, header, length as u64, 0, &[]);
        state.messages.at_mut(slot).remote = request;
        state.requests.at_mut(request).remote = slot;
        let entry = state.unexpected.insert(Key::of(header), slot);
        state.messages.at_mut(slot).entry = Some(entry);
        Ok(Started::Pending(state.requests.id(request)))
    }

    /// A receive of a message that waits in the buffer of one of our own sends.
    pub(crate) fn receive_own(&mut self, slot: u32, message: u32) {
        let state = &mut self.state;
        state.changes = state.changes.wrapping_add(1);
        let found = state.messages.at(message);
        let (sender, header) = (found.remote, found.header);
        state.messages.remove(message);
        if let Buffer::Send(buffer) = std::mem::take(&mut state.requests.at_mut(sender).buffer) {
            state.deliver_own(slot, header, &buffer);
        }
        state.finish(sender, None);
    }
}

impl State {
    fn deliver_own(&mut self, slot: u32, header: Header, from: &SendBuf) {
        let request = self.requests.at_mut(slot);
        request.header = header;
        request.peer = self.config.me;
        let to = request.recv_buf();
        let (length, capacity) = (from.len(), to.len());
        copy(from, to, length.min(capacity));
        request.wanted = length.min(capacity) as u64;
        let error = (length > capacity).then(|| truncated(header, length as u64, capacity as u64));
        self.finish(slot, error);
    }
}

/// Copies the first `bytes` packed bytes.
fn copy(from: &SendBuf, to: &mut RecvBuf, bytes: usize) {
    if let Some(slice) = from.as_slice() {
        return to.unpack(0, &slice[..bytes]);
    }
    if let Some(slice) = to.as_mut_slice() {
        return from.pack(0, &mut slice[..bytes]);
    }
    let mut piece = [0; 4096];
    let mut done = 0;
    while done < bytes {
        let len = (bytes - done).min(piece.len());
        from.pack(done, &mut piece[..len]);
        to.unpack(done, &piece[..len]);
        done += len;
    }
}
