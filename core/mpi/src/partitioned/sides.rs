//! The sending side of a partitioned operation, and what both sides share.

use super::gathered::Gathering;
use super::refused;
use super::runs::Ready;
use super::terms::{Answer, Counterpart, Introduction, Partitions, PartsOutlook};
use crate::request::{Done, MpiStatus};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use weft_datatype::{Scratch, SendBuf};
use weft_engine::board::Board;
use weft_engine::{Engine, Envelope, LandingId, PartsOf, RequestId, SendMode, StageOut, Started};
use weft_types::{ContextId, Error, ErrorClass, Handle, PeerId, Rank, Result, Tag};

/// Most partitions of a send that travel as messages of their own (see the parent module).
pub(super) const FEW: u32 = 64;

/// Bytes of the longest partition that is short: longer ones leave in several packets, which a message does as well.
const SHORT: u64 = 8 << 10;

/// Bytes of the largest start that is put down whole in a stage, when it can also leave in one packet: the ring's slots go to
/// and fro, so that longer ones are faster there. Half a round trip by a stage and by packet, between near cores and distant
/// ones, in microseconds: 256 bytes .15/.16 and .50/.46, 512 bytes .16/.17 and .56/.47, 1 KiB .19/.19 and .65/.50.
pub(super) const WHOLE_BY_STAGE: u64 = 256;

/// How the data of one send travel; both sides find the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Every partition a message of its own, with a receive posted for it.
    Messages,
    /// As parts, into a landing of the receiver's engine.
    Parts,
    /// In messages for runs of partitions, each start granted by the receiver.
    Runs,
}

/// The way of `partitions` partitions of `bytes` bytes each, as the sender counts.
pub(super) fn way(partitions: u32, bytes: u64) -> Way {
    match bytes {
        1..=SHORT if partitions <= FEW => Way::Parts,
        1.. if partitions <= FEW => Way::Messages,
        _ => Way::Runs,
    }
}

/// The tag of a message that carries parts of `epoch` from partition `first` on, because they could not leave as parts.
fn tag_of_parts(epoch: u32, first: u32) -> Tag {
    Tag((epoch << 8 & 0x7fff_ff00 | first) as i32)
}

/// What [`tag_of_parts`] says: the first partition, if the epoch is that one.
pub(super) fn first_of_parts(tag: Tag, epoch: u32) -> Option<u32> {
    let first = tag.0 as u32 & 0xff;
    (tag == tag_of_parts(epoch, first)).then_some(first)
}

pub(super) fn already_active() -> Error {
    refused(ErrorClass::REQUEST, "the partitioned request is active; complete it before starting it again")
}

/// Messages of one side that the engine has under way.
#[derive(Debug, Default)]
pub(super) struct Moving {
    pub(super) requests: Vec<(RequestId, Range<u64>)>,
    /// Whether the side is in the list that is looked through at each progress.
    pub(super) watched: bool,
}

impl Moving {
    /// Whether the side must be put in the list of those that are looked at.
    #[inline(always)]
    pub(super) fn needs_watching(&mut self) -> bool {
        let fresh = !self.watched && !self.requests.is_empty();
        self.watched |= fresh;
        fresh
    }

    /// Takes the requests that have ended: calls `ended(bytes, error)` for each. (Whether some had, whether more will.)
    pub(super) fn sweep(
        &mut self,
        engine: &mut Engine,
        mut ended: impl FnMut(Range<u64>, Option<Error>),
    ) -> (bool, bool) {
        let before = self.requests.len();
        self.requests.retain(|(request, bytes)| {
            if !engine.is_complete(*request) {
                return true;
            }
            ended(bytes.clone(), engine.take(*request).error);
            false
        });
        self.watched = !self.requests.is_empty();
        (self.requests.len() != before, self.watched)
    }

    /// Ends them all: the other side is lost or has left.
    pub(super) fn give_up(&self, engine: &mut Engine, peer: PeerId) {
        for &(request, _) in &self.requests {
            engine.give_up(request, peer);
        }
    }
}

/// Puts a partition down.
#[inline]
fn put_down(stage: &mut StageOut, start: u32, partition: u32, partitions: &Partitions) {
    let (begin, bytes) = (u64::from(partition) * partitions.bytes, partitions.bytes);
    match partitions.memory.run(begin, bytes) {
        Some(data) => stage.put(start, partition, data),
        None => {
            let data = partitions.memory.send_view(0, begin, bytes);
            stage.put_with(start, partition, |out| data.pack(0, out));
        }
    }
}

/// Puts all partitions of a start down; `run`: their bytes, when they lie in one run.
#[inline(always)]
fn put_whole(stage: &mut StageOut, start: u32, partitions: &Partitions, run: Option<&[u8]>) {
    match run {
        Some(data) => stage.put_whole_run(start, data),
        None => pack_whole(stage, start, partitions),
    }
}

#[inline(never)]
fn pack_whole(stage: &mut StageOut, start: u32, partitions: &Partitions) {
    let data = partitions.memory.send_view(0, 0, partitions.total());
    stage.put_whole(start, |out| data.pack(0, out));
}

/// Sends all partitions, which do not lie in one run, in one packet. False: they did not leave.
#[inline(never)]
fn send_packed(engine: &mut Engine, parts: PartsOf, partitions: &Partitions) -> bool {
    let total = partitions.total();
    u64::from(engine.largest_part(parts.peer)) >= total
        && engine.send_part(parts, 0, &partitions.memory.send_view(0, 0, total))
}

/// The request of `MPI_Psend_init`.
#[derive(Debug)]
pub struct SendSide {
    partitions: Partitions,
    /// `None` for `MPI_PROC_NULL`.
    to: Option<Counterpart>,
    pub(crate) comm: Handle,
    active: bool,
    /// Epochs started, and epochs granted by the receiver, which may be one ahead.
    started: u64,
    granted: u64,
    /// The receiver's request or landing, once it is known.
    receiver: Handle,
    /// Where parts are put down, when the receiver is on this node.
    stage: Option<Box<StageOut>>,
    /// Partitions that are ready and not among those of `ready`, which is of an older start while there are such.
    pub(super) gathering: Gathering,
    ready: Ready,
    /// Whether everything of this epoch has been handed to the engine.
    handed_over: bool,
    moving: Moving,
    error: Option<Error>,
}

impl SendSide {
    /// An inactive send; `to` is `None` for `MPI_PROC_NULL`.
    pub fn new(partitions: Partitions, to: Option<Counterpart>, comm: Handle) -> SendSide {
        SendSide {
            ready: Ready::new(partitions.number),
            gathering: Gathering::new(partitions.number, partitions.total()),
            partitions,
            to,
            comm,
            active: false,
            started: 0,
            granted: 0,
            receiver: Handle(0),
            stage: None,
            handed_over: false,
            moving: Moving::default(),
            error: None,
        }
    }

    /// A send that is not done. While partitions are missing that the receive is ready for, the program has to mark them.
    pub(crate) fn outlook(&self) -> PartsOutlook {
        let of = self.partitions.number;
        let (words, needs) = match self.to {
            Some(_) if !self.is_granted() => (format!("{of} partitions, the receive is not started"), true),
            Some(_) if !self.handed_over => (format!("not all of {of} partitions are ready"), false),
            _ => (format!("{of} partitions on their way"), true),
        };
        PartsOutlook { other: self.to, words, needs }
    }

    /// Tells the receiver which request this is.
    pub(super) fn introduce(&self, engine: &mut Engine, handle: Handle) -> Result<()> {
        let Some(to) = self.to else { return Ok(()) };
        let (partitions, total) = (self.partitions.number, self.partitions.total());
        let introduction = Introduction { sender: handle, partitions, total };
        let copy = Scratch::new(Introduction::BYTES);
        copy.recv_buf(0, Introduction::BYTES).unpack(0, &introduction.emit());
        let envelope =
            Envelope { peer: to.peer, context: to.context.partitioned(), source: to.source, tag: to.tag };
        let started = engine.send(envelope, SendMode::Standard, copy.send_buf(0, Introduction::BYTES))?;
        if let Started::Pending(request) = started {
            engine.tag_request(request, self.comm.0);
            engine.release(request);
        }
        Ok(())
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    pub(super) fn start(&mut self) -> Result<()> {
        if self.begins() { Ok(()) } else { Err(already_active()) }
    }

    /// Starts it. False: it is active, and nothing was done.
    #[inline(always)]
    pub(super) fn begins(&mut self) -> bool {
        if self.active {
            return false;
        }
        self.active = true;
        self.started += 1;
        self.handed_over = false;
        if !self.gathers() {
            self.gathering.end();
            self.ready.clear();
        }
        true
    }

    /// Begins to keep the partitions of this start together, if that is better. Whether it is.
    #[inline(always)]
    fn gathers(&mut self) -> bool {
        let Some(stage) = &self.stage else { return false };
        stage.is_awaited_whole()
            && self.error.is_none()
            && self.moving.requests.is_empty()
            && !self.ready.is_shared()
            && self.gathering.begin()
    }

    /// Partitions that were kept leave like others from now on.
    fn scatter(&mut self) {
        let Some((kept, gone)) = self.gathering.scatter() else { return };
        self.ready.clear();
        for index in (0..u64::BITS).filter(|&index| kept >> index & 1 == 1) {
            match gone {
                true => self.ready.mark_leaving(index),
                false => self.ready.mark(index),
            };
        }
    }

    /// Whoever makes progress comes by: what is kept leaves. Whether to come again.
    pub(super) fn publish(&mut self, engine: &mut Engine) -> bool {
        let (keeps, again) = self.gathering.visit();
        if keeps {
            self.flush_quietly(engine);
        }
        again
    }

    /// All partitions are ready, and were kept: they leave together.
    #[inline(always)]
    fn hand_over_whole(&mut self, engine: &mut Engine) {
        self.gathering.all_ready(Instant::now);
        let (start, total) = (self.started as u32, self.partitions.total());
        let run = self.partitions.memory.run(0, total);
        if total > WHOLE_BY_STAGE
            && let Some(to) = self.to
        {
            let parts = PartsOf { peer: to.peer, landing: LandingId(self.receiver.0), epoch: start };
            self.handed_over = match run {
                Some(data) => engine.send_part_run(parts, data),
                None => send_packed(engine, parts, &self.partitions),
            };
            if self.handed_over {
                return;
            }
        }
        if let Some(stage) = &mut self.stage
            && stage.has_room(start)
        {
            put_whole(stage, start, &self.partitions, run);
            self.handed_over = true;
            return;
        }
        self.disperse(engine);
    }

    /// All partitions are ready, and cannot leave together: they leave as others do.
    #[cold]
    #[inline(never)]
    fn disperse(&mut self, engine: &mut Engine) {
        self.gathering.end();
        self.ready.clear();
        (0..self.partitions.number).for_each(|index| {
            self.ready.mark(index);
        });
        self.flush_quietly(engine);
    }

    /// Marks partitions as ready: all of them or, with an error, none.
    pub(super) fn mark(&mut self, partitions: impl Iterator<Item = i32> + Clone) -> Result<()> {
        if !self.active {
            return Err(refused(
                ErrorClass::REQUEST,
                "the partitioned send is inactive; start it before marking partitions as ready",
            ));
        }
        self.scatter();
        for (done, partition) in partitions.clone().enumerate() {
            let marked = self.partitions.check(partition).and_then(|index| match self.ready.mark(index) {
                true => Ok(()),
                false => Err(refused(
                    ErrorClass::ARG,
                    format!(
                        "partition {partition} is marked as ready already; each is marked once per start"
                    ),
                )),
            });
            if let Err(error) = marked {
                partitions.take(done).for_each(|earlier| self.ready.unmark(earlier as u32));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The receiver's answer, and the word of its stage.
    pub(super) fn granted(&mut self, engine: &mut Engine, answer: Answer, stage: Option<u64>) {
        if let (Some(word), Some(to)) = (stage, self.to) {
            let (number, bytes) = (self.partitions.number, self.partitions.bytes);
            self.stage = engine.join_stage(to.peer, word, number, bytes).map(Box::new);
        }
        match answer {
            Answer::Granted(receiver) => self.receiver = receiver,
            Answer::Refused => {
                let bytes = self.partitions.total();
                self.error = Some(refused(
                    ErrorClass::ARG,
                    format!(
                        "this partitioned send has {bytes} bytes, the receive that it matches another number; both sides \
                         must describe the same number of bytes (section 4.2.1)"
                    ),
                ));
            }
        }
        self.granted += 1;
    }

    /// Marks the last partition of those that are kept, so that all leave. False: it is another one, and nothing was done.
    #[inline(always)]
    pub(super) fn ready_with_all(&mut self, engine: &mut Engine, index: u32) -> bool {
        let last = self.gathering.awaits_only(index);
        if last {
            self.hand_over_whole(engine);
        }
        last
    }

    /// Marks a partition as ready that is not the last of those that are kept, in the usual case: it is kept, or put down. False:
    /// nothing was done.
    #[inline(never)]
    pub(super) fn ready_by_itself(&mut self, engine: &mut Engine, index: u32) -> bool {
        self.gathering.time(Instant::now);
        if self.gathering.keeps(index) {
            return true;
        }
        if self.ready_with_all(engine, index) {
            return true;
        }
        let (Some(stage), start) = (&mut self.stage, self.started as u32) else { return false };
        if !self.active || self.error.is_some() || self.gathering.is_on() || !stage.has_room(start) {
            return false;
        }
        if !self.ready.mark_leaving(index) {
            return false;
        }
        put_down(stage, start, index, &self.partitions);
        self.handed_over = self.ready.is_full();
        if self.handed_over {
            self.gathering.all_ready(Instant::now);
        }
        true
    }

    /// Ends a start of which everything has left. False: nothing was done.
    #[inline(always)]
    pub(super) fn finish_at_once(&mut self) -> bool {
        let done = self.active && self.handed_over && self.error.is_none() && self.moving.requests.is_empty();
        if done {
            self.active = false;
            match self.gathering.is_on() {
                true => self.gathering.end(),
                false => self.ready.board().close(),
            }
        }
        done
    }

    /// Where threads mark partitions that do not hold the process.
    pub(super) fn board(&mut self) -> &Arc<Board> {
        self.scatter();
        self.ready.board()
    }

    /// Whether other threads may mark partitions there.
    pub(super) fn is_marked_by_others(&self) -> bool {
        self.ready.is_shared()
    }

    /// Whether threads have marked partitions there.
    pub(super) fn has_news(&self) -> bool {
        self.ready.board().has_news()
    }

    /// Sends what is ready and granted.
    pub(super) fn flush(&mut self, engine: &mut Engine) -> Result<()> {
        self.scatter();
        self.ready.collect();
        let Some(to) = self.to else {
            while self.ready.take_run().is_some() {}
            self.handed_over = self.ready.is_full();
            return Ok(());
        };
        if !self.active || !self.is_granted() || self.error.is_some() {
            return Ok(());
        }
        let bytes = self.partitions.bytes;
        match self.way() {
            Way::Parts => return self.flush_parts(engine, to),
            Way::Messages => return self.flush_few(engine, to),
            Way::Runs => {}
        }
        // Without bytes there is nothing to cut: one empty message says that everything is ready.
        if bytes == 0 && !self.ready.is_full() {
            return Ok(());
        }
        while let Some(run) = self.ready.take_run() {
            let range = u64::from(run.start) * bytes..u64::from(run.end) * bytes;
            let envelope = Envelope {
                peer: to.peer,
                context: ContextId::PARTITION_DATA,
                source: Rank(self.receiver.0),
                tag: Tag(run.start as i32),
            };
            let buffer = match bytes {
                0 => SendBuf::empty(),
                _ => self.partitions.memory.send_view(0, range.start, range.end - range.start),
            };
            self.send(engine, envelope, buffer, range)?;
        }
        self.handed_over = self.ready.is_full();
        Ok(())
    }

    fn way(&self) -> Way {
        way(self.partitions.number, self.partitions.bytes)
    }

    /// Whether the receiver allows the data of this epoch to leave.
    fn is_granted(&self) -> bool {
        match self.way() {
            Way::Parts | Way::Messages => self.granted > 0,
            Way::Runs => self.granted >= self.started,
        }
    }

    /// Sends what is ready as parts: neighbours that are ready at this moment in one packet.
    fn flush_parts(&mut self, engine: &mut Engine, to: Counterpart) -> Result<()> {
        let bytes = self.partitions.bytes;
        let parts =
            PartsOf { peer: to.peer, landing: LandingId(self.receiver.0), epoch: self.started as u32 };
        while let Some(Range { mut start, end }) = self.ready.take_run() {
            if let Some(stage) = &mut self.stage
                && stage.has_room(parts.epoch)
            {
                if end - start == self.partitions.number {
                    let run = self.partitions.memory.run(0, self.partitions.total());
                    put_whole(stage, parts.epoch, &self.partitions, run);
                    continue;
                }
                for partition in start..end {
                    put_down(stage, parts.epoch, partition, &self.partitions);
                }
                continue;
            }
            while start < end {
                let number = u64::from(engine.largest_part(to.peer)) / bytes;
                let next = start + (number.max(1)).min(u64::from(end - start)) as u32;
                let range = u64::from(start) * bytes..u64::from(next) * bytes;
                let data = self.partitions.memory.send_view(0, range.start, range.end - range.start);
                if number == 0 || !engine.send_part(parts, range.start, &data) {
                    // No room or no budget: a message waits in the engine for its turn.
                    let envelope = Envelope {
                        peer: to.peer,
                        context: ContextId::PARTITIONS,
                        source: Rank(self.receiver.0),
                        tag: tag_of_parts(parts.epoch, start),
                    };
                    self.send(engine, envelope, data, range)?;
                }
                start = next;
            }
        }
        self.handed_over = self.ready.is_full();
        if self.handed_over {
            self.gathering.all_ready(Instant::now);
        }
        Ok(())
    }

    /// Sends a message with these bytes of the whole.
    fn send(
        &mut self,
        engine: &mut Engine,
        envelope: Envelope,
        data: SendBuf,
        range: Range<u64>,
    ) -> Result<()> {
        match engine.send(envelope, SendMode::Standard, data) {
            Ok(Started::Complete) => Ok(()),
            Ok(Started::Pending(request)) => {
                self.moving.requests.push((request, range));
                Ok(())
            }
            Err(error) => {
                self.error = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Sends every ready partition as a message of its own.
    fn flush_few(&mut self, engine: &mut Engine, to: Counterpart) -> Result<()> {
        let bytes = self.partitions.bytes;
        while let Some(run) = self.ready.take_run() {
            for partition in run {
                let start = u64::from(partition) * bytes;
                let envelope = Envelope {
                    peer: to.peer,
                    context: ContextId::PARTITIONS,
                    source: Rank(self.receiver.0),
                    tag: Tag(partition as i32),
                };
                let data = self.partitions.memory.send_view(0, start, bytes);
                self.send(engine, envelope, data, start..start + bytes)?;
            }
        }
        self.handed_over = self.ready.is_full();
        Ok(())
    }

    /// As [`SendSide::flush`], outside any call that could report an error: it waits for the completing call.
    pub(super) fn flush_quietly(&mut self, engine: &mut Engine) {
        let reported_later = self.flush(engine);
        debug_assert!(reported_later.is_ok() || self.error.is_some(), "an error is kept");
    }

    #[inline(always)]
    pub(super) fn needs_watching(&mut self) -> bool {
        self.moving.needs_watching()
    }

    pub(super) fn sweep(&mut self, engine: &mut Engine) -> (bool, bool) {
        let error = &mut self.error;
        self.moving.sweep(engine, |_, failed| {
            if failed.is_some() {
                *error = failed;
            }
        })
    }

    /// Ends an epoch that waits for a receiver that is lost or has left.
    pub(super) fn mourn(&mut self, engine: &mut Engine) {
        let waits = !self.handed_over || !self.moving.requests.is_empty();
        if engine.losses() != 0
            && self.active
            && waits
            && let Some(to) = self.to
            && let Some(loss) = engine.loss_of(to.peer, to.context)
        {
            self.error.get_or_insert(loss);
            self.moving.give_up(engine, to.peer);
        }
    }

    /// Whether the buffer belongs to the program again.
    pub(crate) fn is_done(&self) -> bool {
        !self.active || ((self.handed_over || self.error.is_some()) && self.moving.requests.is_empty())
    }

    pub(crate) fn finish(&mut self) -> Done {
        let active = std::mem::replace(&mut self.active, false);
        self.gathering.end();
        self.ready.board().close();
        self.done(active)
    }

    pub(crate) fn peek(&self) -> Done {
        self.done(self.active)
    }

    fn done(&self, active: bool) -> Done {
        let error = self.error.clone().filter(|_| active);
        let status = if active { MpiStatus::NO_MESSAGE } else { MpiStatus::EMPTY };
        Done { error, comm: self.comm, keeps_handle: true, ..Done::new(status) }
    }
}
