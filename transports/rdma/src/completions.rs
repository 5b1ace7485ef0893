//! What the device tells: messages that have arrived, requests that are over.

use crate::flight::Holds;
use crate::handshake::Hello;
use crate::keys::KeyWord;
use crate::peers::{Arrived, State};
use crate::ring::Word;
use crate::transport::{HEADER_BYTES, Rdma};
use weft_api::verbs::{CompletedWork, Completion, CompletionStatus, Hca, Nanos};

/// A received datagram has 40 bytes in front.
const DATAGRAM_PREFIX: usize = 40;

impl<H: Hca> Rdma<H> {
    /// Takes a completion in. Whether it is news: a question answered, a datagram that changes nothing, or unsignalled sends
    /// heard of, are none to whoever waits.
    pub(crate) fn completed_work(&mut self, rail: u8, done: Completion, now: Nanos) -> bool {
        self.counts.completions += 1;
        let received = matches!(done.work, CompletedWork::Receive | CompletedWork::ReceiveWrite);
        let own = &mut self.rails[usize::from(rail)];
        own.posted_receives -= u32::from(received);
        if done.queue_pair == own.card.datagrams {
            if !received && done.id > 0 {
                own.give_letter_back(done.id as u32 - 1);
            }
            if !received && !matches!(done.status, CompletionStatus::Success | CompletionStatus::Flushed) {
                // It has stopped the queue. Where that does not go on, what is asked for in vain ends in time.
                let _ = own.hca.resume_queue_pair(own.card.datagrams);
            }
            return received && self.datagram(rail, done, now);
        }
        let mut news = received || done.status != CompletionStatus::Success;
        let index = self.peers.of_pair(rail, done.queue_pair);
        if received {
            let slot = done.id as u32;
            let good = done.status == CompletionStatus::Success && done.bytes as usize >= HEADER_BYTES;
            let success = done.status == CompletionStatus::Success;
            if let Some(index) = index.filter(|_| success) {
                // Records that were written before it are there, and come first.
                self.drain(index, now);
                if let State::Answered { .. } = self.peers.at(index).state {
                    self.is_ready(index);
                }
            }
            match index {
                Some(index) if success && done.work == CompletedWork::ReceiveWrite => {
                    self.repost(rail, slot);
                    self.written(index, &done, now);
                }
                Some(index) if success && done.immediate == Some(Word::MARK) => {
                    let own = &self.rails[usize::from(rail)];
                    let word = own.hca.bytes(own.receive_slots.address(0, slot), done.bytes as usize);
                    let word = Word::parse(word);
                    self.repost(rail, slot);
                    self.word_came(index, word, now);
                }
                Some(index) if good => {
                    let peer = self.peers.at_mut(index);
                    peer.resting = false;
                    peer.heard = now;
                    if !peer.is_new() {
                        self.counts.repeats += 1;
                        self.repost(rail, slot);
                        return false;
                    }
                    peer.inbox.push_back(Arrived::Slot { rail, slot: slot as u16, bytes: done.bytes });
                    if !std::mem::replace(&mut peer.listed, true) {
                        self.ready.push_back(index);
                    }
                    self.may_give_ring(index, now);
                }
                _ => self.repost(rail, slot),
            }
        } else if let Some(index) = index
            && done.status == CompletionStatus::Success
        {
            self.peers.at_mut(index).heard = now;
            while let Some((holds, _)) = self.peers.at_mut(index).flight.retire(done.id) {
                news |= !matches!(holds, Holds::Question);
                self.give_back(rail, holds, true);
            }
        } else if index.is_none() {
            return self.own_completed(&done);
        }
        if done.status != CompletionStatus::Success
            && let Some(index) = index
        {
            self.failed(index, done, received);
        }
        news
    }

    /// A datagram came. Whether it opened a connection, which may have been waited for.
    fn datagram(&mut self, rail: u8, done: Completion, now: Nanos) -> bool {
        let slot = done.id as u32;
        let own = &mut self.rails[usize::from(rail)];
        let address = own.receive_slots.address(0, slot) + DATAGRAM_PREFIX as u64;
        let length = (done.bytes as usize).saturating_sub(DATAGRAM_PREFIX);
        if done.status != CompletionStatus::Success {
            self.repost(rail, slot);
            return false;
        }
        let bytes = own.hca.bytes(address, length);
        if let Some(word) = KeyWord::parse(bytes) {
            self.repost(rail, slot);
            return self.key_word_came(word);
        }
        let Some(hello) = Hello::parse(bytes) else {
            let mut piece = std::mem::take(&mut self.wide.piece);
            piece.clear();
            piece.extend_from_slice(bytes);
            self.repost(rail, slot);
            let news = self.letter_came(rail, &piece, now);
            self.wide.piece = piece;
            return news;
        };
        self.repost(rail, slot);
        let is_open = |rdma: &Self| {
            let open = |state| matches!(state, State::Open { .. } | State::Datagrams);
            rdma.peers.get(hello.from).is_some_and(|peer| open(peer.state))
        };
        let was_open = is_open(self);
        self.greeted(rail, hello);
        !was_open && is_open(self)
    }

    /// A receive slot can be used again.
    pub(crate) fn repost(&mut self, rail: u8, slot: u32) {
        let doorbells = self.rails[usize::from(rail)].repost(slot);
        self.counts.receive_doorbells += doorbells;
        self.counts.receives += 1;
    }
}
