//! What must come of a random program: every message is received once and whole or cancelled, and in order.

use super::operations::{IDENTITY, read};
use super::{CONTEXTS, Open, Port, Program, ROOM, Thread};
use crate::request::{Done, MpiStatus};
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::SendMode;
use weft_types::{ErrorClass, Handle};

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
    /// Bytes of the room that the receive was given.
    pub(super) capacity: usize,
    pub(super) cancelled: bool,
    /// When its cancellation was asked for.
    pub(super) withdrawn: Option<u64>,
    /// Its message.
    pub(super) got: Option<Got>,
}

/// What a receive got.
pub(super) struct Got {
    from: u32,
    tag: i32,
    /// Its number. `None` while it is only known to be one of that sender with that tag: it is too short to say more.
    message: Option<usize>,
    /// What was received of it.
    data: Vec<u8>,
    /// Whether the receive was too short for it.
    truncated: bool,
    /// When that was seen.
    at: u64,
}

impl Received {
    pub(super) fn new(wanted: Wanted, room: &Arc<Scratch>, capacity: usize) -> Received {
        let room = Arc::clone(room);
        Received { wanted, room, capacity, cancelled: false, withdrawn: None, got: None }
    }

    /// Whether it may get this message of `sender`.
    pub(super) fn accepts(&self, sender: u32, sent: &Sent) -> bool {
        self.wanted.0 == sent.context
            && self.wanted.1.is_none_or(|source| source == sender)
            && self.wanted.2.is_none_or(|tag| tag == sent.tag)
    }
}

impl Program {
    /// The model hears that a receive has its message.
    pub(super) fn got(&mut self, rank: usize, number: usize, done: &Done) {
        let truncated = match &done.error {
            None => false,
            Some(error) => {
                assert_eq!(error.class(), ErrorClass::TRUNCATE, "{error}");
                self.meet("truncated receive");
                true
            }
        };
        let MpiStatus { source, tag, bytes, .. } = done.status;
        let recv = &self.members[rank].recvs[number];
        let kept = (bytes as usize).min(recv.capacity);
        assert!(truncated || bytes as usize == kept, "{bytes} bytes in room for {kept}");
        self.note(rank, number, source as u32, tag, kept, truncated);
    }

    /// A receive whose request was freed has its message, which tells its length by what it has changed.
    fn freed_got(&mut self, rank: usize, number: usize) {
        let recv = &self.members[rank].recvs[number];
        let (_, Some(source), Some(tag)) = recv.wanted else { unreachable!("only those are freed") };
        let data = read(&recv.room);
        let short = data.iter().take_while(|&&byte| byte != UNTOUCHED).count();
        let kept = match short < IDENTITY {
            true => short,
            false => {
                let (from, message) = identity(&data);
                self.members[from as usize].sends[message].data.len()
            }
        };
        self.note(rank, number, source, tag, kept, false);
    }

    /// A receive has `kept` bytes of a message.
    fn note(&mut self, rank: usize, number: usize, source: u32, tag: i32, kept: usize, truncated: bool) {
        let at = self.now;
        let recv = &mut self.members[rank].recvs[number];
        let mut data = read(&recv.room);
        assert!(data[kept..].iter().all(|&byte| byte == UNTOUCHED), "nothing beyond the message");
        data.truncate(kept);
        let (_, from, wanted_tag) = recv.wanted;
        assert!(from.is_none_or(|from| from == source) && wanted_tag.is_none_or(|wanted| wanted == tag));
        if kept < IDENTITY {
            recv.got = Some(Got { from: source, tag, message: None, data, truncated, at });
            if !truncated {
                self.meet(if kept == 0 { "empty message" } else { "short message" });
            }
            return;
        }
        let (from, message) = identity(&data);
        recv.got = Some(Got { from, tag, message: Some(message), data, truncated, at });
        assert_eq!((source, tag), (from, self.members[from as usize].sends[message].tag));
        self.is_of(rank, number, from, message);
    }

    /// The message of a receive is known: whether it is right.
    fn is_of(&mut self, rank: usize, number: usize, from: u32, message: usize) {
        let (recv, sent) = (&self.members[rank].recvs[number], &self.members[from as usize].sends[message]);
        assert!(recv.accepts(from, sent), "the receive asked for something else");
        assert_eq!((sent.to, sent.cancelled), (rank as u32, false));
        let got = recv.got.as_ref().expect("it has one");
        let kept = got.data.len();
        match got.truncated {
            true => assert!(kept == recv.capacity && kept < sent.data.len(), "it was not too long"),
            false => assert_eq!(kept, sent.data.len()),
        }
        assert!(got.data[..] == sent.data[..kept], "data of {kept} bytes");
        let sent = &mut self.members[from as usize].sends[message];
        assert_eq!(sent.got_by.replace(number), None, "received twice");
    }

    /// Messages of one sender with one tag of a channel are received in order: says which were those that were too short to say
    /// so themselves.
    fn tell_short_ones(&mut self) {
        for rank in 0..self.members.len() {
            for from in 0..self.members.len() {
                for (context, tag) in
                    (0..CONTEXTS.len()).flat_map(|context| (0..3).map(move |tag| (context, tag)))
                {
                    self.tell_short_ones_of(rank, from, context, tag);
                }
            }
        }
    }

    fn tell_short_ones_of(&mut self, rank: usize, from: usize, context: usize, tag: i32) {
        let of = |sent: &Sent| (sent.to, sent.context, sent.tag) == (rank as u32, context, tag);
        let sends = self.members[from].sends.iter().enumerate();
        let sent: Vec<usize> =
            sends.filter(|(_, sent)| of(sent) && !sent.cancelled).map(|(number, _)| number).collect();
        let recvs = self.members[rank].recvs.iter().enumerate().filter_map(|(number, recv)| {
            let got = recv.got.as_ref().filter(|_| recv.wanted.0 == context)?;
            ((got.from as usize, got.tag) == (from, tag)).then_some((number, got.message))
        });
        let recvs: Vec<_> = recvs.collect();
        assert_eq!(recvs.len(), sent.len(), "rank {rank}: messages of {from} with tag {tag}");
        for ((number, said), message) in recvs.into_iter().zip(sent) {
            assert_eq!(
                said.unwrap_or(message),
                message,
                "rank {rank}: receive {number} got another message of {from} with tag {tag} than its turn was"
            );
            if said.is_none() {
                self.members[rank].recvs[number].got.as_mut().expect("just seen").message = Some(message);
                self.is_of(rank, number, from as u32, message);
            }
        }
    }

    /// Messages of this kind that came to a rank and were too short to say which they are.
    pub(super) fn untold(&self, rank: usize, (context, source, tag): Wanted) -> usize {
        let of_channel = self.members[rank].recvs.iter().filter(|recv| recv.wanted.0 == context);
        let got = of_channel.filter_map(|recv| recv.got.as_ref()).filter(|got| got.message.is_none());
        got.filter(|got| {
            source.is_none_or(|source| source == got.from) && tag.is_none_or(|tag| tag == got.tag)
        })
        .count()
    }

    /// Looks whether receives whose requests were freed have ended.
    pub(super) fn look_after_freed(&mut self, rank: usize) -> bool {
        let member = &mut self.members[rank];
        let (ended, open): (Vec<_>, Vec<_>) = std::mem::take(&mut member.freed_recvs)
            .into_iter()
            .partition(|&(handle, _)| member.process.requests.kind(&member.process.engine, handle).is_err());
        member.freed_recvs = open;
        let some = !ended.is_empty();
        ended.into_iter().for_each(|(_, number): (Handle, usize)| self.freed_got(rank, number));
        some
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
        let recvs = &self.members[sent.to as usize].recvs;
        let untold = |recv: &Received| {
            let got = recv.got.as_ref().filter(|_| recv.wanted.0 == sent.context);
            got.is_some_and(|got| got.message.is_none() && (got.from, got.tag) == (rank as u32, sent.tag))
        };
        let matched = sent.got_by.is_some() || recvs.iter().any(candidate) || recvs.iter().any(untold);
        assert!(matched, "a synchronous send has completed and no receive can have matched it");
        self.meet("synchronous send");
    }

    /// Everything that can move moves, and what is complete is completed.
    pub(super) fn settle(&mut self) {
        let mut calm = 0;
        for _ in 0..200_000 {
            let rank = self.below(self.members.len());
            let moved = self.move_on(rank, None);
            let mut ended = false;
            if !moved {
                for index in (0..self.members[rank].open.len()).rev() {
                    ended |= self.complete(rank, index);
                }
                ended |= self.complete_pairs(rank) | self.look_after_freed(rank);
            }
            self.now += 1;
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
                    Open::Generalized(..) => self.tell_generalized(rank, index),
                    Open::Recv(..) | Open::Port(_, _, Port::Recv(_), _) => self.cancel(rank, index),
                    _ => {}
                }
            }
        }
        self.settle();
        // Nobody can cancel those: they get what they asked for.
        for rank in 0..self.members.len() {
            for (_, number) in self.members[rank].freed_recvs.clone() {
                let (context, source, tag) = self.members[rank].recvs[number].wanted;
                let (from, tag) = (source.expect("of one source"), tag.expect("with one tag"));
                let message = self.message_to(from as usize, context, rank as u32, tag);
                self.send_message(from as usize, message, SendMode::Standard);
            }
        }
        self.settle();
        for rank in 0..self.members.len() {
            for context in 0..CONTEXTS.len() {
                let sends = self.members.iter().flat_map(|member| &member.sends);
                let missing = sends
                    .filter(|sent| (sent.to, sent.context) == (rank as u32, context))
                    .filter(|sent| !sent.cancelled && sent.got_by.is_none())
                    .count();
                for _ in self.untold(rank, (context, None, None))..missing {
                    self.post(rank, (context, None, None), ROOM);
                }
            }
        }
        self.settle();
        self.tell_short_ones();
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
                    Open::Message(..) | Open::Flush(_) | Open::Generalized(..) => {
                        panic!("a message, flush or generalized request was forgotten")
                    }
                }
            }
            let process = &mut member.process;
            assert!(process.is_quiet(), "nothing is left under way");
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
                        let number = |recv: &Received| recv.got.as_ref().and_then(|got| got.message);
                        let Some(got) = &recv.got else {
                            // It was there until its cancellation was asked for, and the younger one had its message by then.
                            let seen = member.recvs[by].got.as_ref().map_or(u64::MAX, |got| got.at);
                            let passed =
                                accepts(recv, late) && recv.withdrawn.is_none_or(|when| seen <= when);
                            assert!(!passed, "rank {rank}: receive {older} was passed over and got nothing");
                            continue;
                        };
                        let later = got.from == sender as u32
                            && accepts(recv, late)
                            && got.message > number(&member.recvs[by]);
                        assert!(!later, "rank {rank}: receive {older} was passed over");
                    }
                }
            }
        }
    }
}

/// What the room of a receive holds before a message comes.
pub(super) const UNTOUCHED: u8 = 0xEE;

/// Who sent a message, and its number there.
fn identity(data: &[u8]) -> (u32, usize) {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| data[at + byte]));
    (word(0), word(4) as usize)
}
