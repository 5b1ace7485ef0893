//! What must come of a random program: every message is received once and whole or cancelled, and in order.

use super::operations::read;
use super::{Open, Port, Program, Thread};
use crate::request::MpiStatus;
use std::sync::Arc;
use weft_datatype::Scratch;

#[derive(Default)]
pub(super) struct Sent {
    pub(super) to: u32,
    pub(super) tag: i32,
    pub(super) context: usize,
    pub(super) data: Vec<u8>,
    pub(super) cancelled: bool,
    /// Whether its cancellation was asked for.
    pub(super) withdrawn: bool,
    /// Whether it may complete only when a receive has matched it (section 3.4).
    pub(super) synchronous: bool,
    /// Receive at the destination that got it.
    pub(super) got_by: Option<usize>,
}

/// What a receive or probe asks for: channel, source, tag.
pub(super) type Wanted = (usize, Option<u32>, Option<i32>);

pub(super) struct Received {
    pub(super) wanted: Wanted,
    pub(super) room: Arc<Scratch>,
    pub(super) cancelled: bool,
    /// Whether its cancellation was asked for.
    pub(super) withdrawn: bool,
    /// Sender and number of its message.
    pub(super) got: Option<(u32, usize)>,
}

impl Received {
    /// Whether it may get this message of `sender`.
    pub(super) fn accepts(&self, sender: u32, sent: &Sent) -> bool {
        self.wanted.0 == sent.context
            && self.wanted.1.is_none_or(|source| source == sender)
            && self.wanted.2.is_none_or(|tag| tag == sent.tag)
    }
}

impl Program {
    /// The model hears that a receive has its message.
    pub(super) fn got(&mut self, rank: usize, number: usize, status: MpiStatus) {
        let recv = &mut self.members[rank].recvs[number];
        let data = read(&recv.room);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| data[at + byte]));
        let (from, message) = (word(0), word(4) as usize);
        recv.got = Some((from, message));
        let (recv, sent) = (&self.members[rank].recvs[number], &self.members[from as usize].sends[message]);
        assert!(recv.accepts(from, sent), "the receive asked for something else");
        let context = recv.wanted.0;
        let sent = &mut self.members[from as usize].sends[message];
        assert_eq!((sent.to, sent.context, sent.cancelled), (rank as u32, context, false));
        assert_eq!(
            (status.source, status.tag, status.bytes),
            (from as i32, sent.tag, sent.data.len() as u64)
        );
        assert_eq!(sent.got_by.replace(number), None, "received twice");
        let length = sent.data.len();
        assert!(data[..length] == sent.data[..], "data of {length} bytes");
        assert!(data[length..].iter().all(|&byte| byte == 0), "nothing beyond the message");
    }

    /// A send has completed, uncancelled.
    pub(super) fn left(&mut self, rank: usize, number: usize) {
        let sent = &self.members[rank].sends[number];
        if !sent.synchronous {
            return;
        }
        // Which one it is shows only when that receive completes.
        let candidate =
            |recv: &Received| recv.got.is_none() && !recv.cancelled && recv.accepts(rank as u32, sent);
        let matched = sent.got_by.is_some() || self.members[sent.to as usize].recvs.iter().any(candidate);
        assert!(matched, "a synchronous send has completed and no receive can have matched it");
        self.meet("synchronous send");
    }

    /// Everything that can move moves, and what is complete is completed.
    pub(super) fn settle(&mut self) {
        let mut calm = 0;
        for _ in 0..200_000 {
            let rank = self.below(self.members.len());
            let moved = self.members[rank].process.progress();
            let mut ended = false;
            if !moved {
                for index in (0..self.members[rank].open.len()).rev() {
                    ended |= self.complete(rank, index);
                }
                ended |= self.complete_pairs(rank);
            }
            calm = if moved || ended { 0 } else { calm + 1 };
            if calm > 150 + 60 * self.members.len() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Whoever waits is helped: receives that got nothing are cancelled, messages that nobody took are received.
    pub(super) fn wind_up(&mut self) {
        self.settle();
        self.even_pairs();
        for rank in 0..self.members.len() {
            // A probe that nobody answered ends with the thread.
            self.members[rank].threads.fill_with(|| Thread::Free);
            for index in (0..self.members[rank].open.len()).rev() {
                match self.members[rank].open[index].1 {
                    Open::Message(..) => self.take_message(rank, index),
                    Open::Recv(..) | Open::Port(_, _, Port::Recv(_), _) => self.cancel(rank, index),
                    _ => {}
                }
            }
        }
        self.settle();
        for rank in 0..self.members.len() {
            for context in 0..2 {
                let sends = self.members.iter().flat_map(|member| &member.sends);
                let missing = sends
                    .filter(|sent| (sent.to, sent.context) == (rank as u32, context))
                    .filter(|sent| !sent.cancelled && sent.got_by.is_none())
                    .count();
                for _ in 0..missing {
                    self.receive(rank, (context, None, None), None);
                }
            }
        }
        self.settle();
        self.free_pairs();
        for member in &mut self.members {
            for (_, open) in std::mem::take(&mut member.open) {
                match open {
                    Open::Port(handle, _, _, None) => {
                        assert_eq!(member.process.free_request(handle).expect("inactive"), None);
                    }
                    Open::Port(_, _, _, Some(number)) | Open::Send(_, number, _) | Open::Recv(_, number) => {
                        panic!("operation {number} of rank {} does not end", member.process.job.rank)
                    }
                    Open::Message(..) | Open::Flush(_) => panic!("a message or flush was forgotten"),
                }
            }
            let process = &mut member.process;
            assert!(process.requests.buffers.is_all_flushed(&mut process.engine));
            assert!(process.engine.is_quiet(), "nothing is left under way");
            assert!(member.sends.iter().all(|sent| sent.cancelled != sent.got_by.is_some()));
        }
    }

    /// Section 3.5: of two messages of one sender that fit the same receive the older one is taken; of two receives that
    /// fit the same message the older one takes it.
    pub(super) fn check_order(&self) {
        for (rank, member) in self.members.iter().enumerate() {
            for (sender, other) in self.members.iter().enumerate() {
                let accepts = |recv: &Received, sent: &Sent| recv.accepts(sender as u32, sent);
                let sent: Vec<&Sent> =
                    other.sends.iter().filter(|sent| sent.to == rank as u32 && !sent.cancelled).collect();
                for (newer, late) in sent.iter().enumerate() {
                    let Some(by) = late.got_by else { continue };
                    for early in &sent[..newer] {
                        let overtaken =
                            accepts(&member.recvs[by], early) && early.got_by.is_none_or(|other| other > by);
                        assert!(!overtaken, "rank {rank}: a message of {sender} overtook an older one");
                    }
                    for (older, recv) in member.recvs[..by].iter().enumerate() {
                        let Some((from, got)) = recv.got else { continue };
                        let later = from == sender as u32
                            && accepts(recv, late)
                            && got > member.recvs[by].got.map_or(usize::MAX, |(_, got)| got);
                        assert!(!later, "rank {rank}: receive {older} was passed over");
                    }
                }
            }
        }
    }
}
