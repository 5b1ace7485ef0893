//! The schedule: what one rank does in one collective operation, as a small graph of steps over named buffers.
//!
//! A [`Builder`] takes the steps in program order and finds by itself which of them must wait for which: two steps
//! that touch the same bytes, one of them writing, keep their order; all others may run at the same time. Steps
//! that must wait for a reason other than data (a barrier, a window of messages) are ordered by [`Builder::order`].

use crate::call::{Call, Group};
use crate::layout::Members;
use std::collections::BTreeMap;

/// Which memory a range lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// The send argument.
    Send,
    /// The receive argument; the only argument of a broadcast and of calls with `MPI_IN_PLACE`.
    Recv,
    /// The send argument for one peer, where each has its own datatype (`MPI_Alltoallw`).
    SendPeer(u32),
    /// The receive argument for one peer, where each has its own datatype.
    RecvPeer(u32),
    /// Memory of the library, by its index in [`Schedule::scratch`].
    Scratch(u32),
}

/// Packed bytes `start..start + bytes` of the elements that begin `displacement` bytes from the buffer's address.
///
/// Forwarding ranks handle packed bytes, so that a datatype may differ from rank to rank (section 6.1); one range
/// form serves whole arguments, blocks at displacements and parts of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The memory.
    pub buffer: Buffer,
    /// Bytes in memory from the buffer's address to the first element.
    pub displacement: i64,
    /// Packed bytes to skip.
    pub start: u64,
    /// Packed bytes.
    pub bytes: u64,
}

impl Range {
    /// Packed bytes of a buffer from its address on.
    pub const fn new(buffer: Buffer, start: u64, bytes: u64) -> Range {
        Range { buffer, displacement: 0, start, bytes }
    }

    /// `bytes` bytes from `offset` on inside this range.
    ///
    /// # Panics
    /// When they are not inside.
    #[must_use]
    pub fn part(self, offset: u64, bytes: u64) -> Range {
        assert!(offset + bytes <= self.bytes, "part {offset}+{bytes} of a range of {} bytes", self.bytes);
        Range { start: self.start + offset, bytes, ..self }
    }
}

/// One step. Ranks are those of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a range to a rank. Between two ranks no two messages of one schedule have the same channel.
    Send {
        /// Receiver.
        to: u32,
        /// Tells messages between the same two ranks apart; below [`CHANNELS`].
        channel: u16,
        /// Data.
        from: Range,
    },
    /// Receive a range from a rank.
    Recv {
        /// Sender.
        from: u32,
        /// As in the matching send.
        channel: u16,
        /// Room; the message has exactly this length.
        into: Range,
    },
    /// Copy between two ranges of the same packed length.
    Copy {
        /// Source.
        from: Range,
        /// Destination.
        into: Range,
    },
    /// `into = left op into`: `left` comes from lower ranks when the operation does not commute.
    Reduce {
        /// Left operand.
        left: Range,
        /// Right operand and result.
        into: Range,
    },
    /// Tell a rank where a range of this rank's lies, so that it puts into it or gets from it. From now until the
    /// [`Step::Await`] behind it the range is the other's.
    Offer {
        /// Who may.
        to: u32,
        /// As in the put or get and in the await. The offer takes this channel on its way there, the flag the next one on its way back.
        channel: u16,
        /// What is offered.
        range: Range,
        /// What for.
        access: Access,
    },
    /// Write a range to what a rank has offered on the channel, wait for the offer before, and raise its flag when the bytes are there.
    Put {
        /// Whose memory.
        to: u32,
        /// As in its offer.
        channel: u16,
        /// Data, as long as what is offered.
        from: Range,
    },
    /// Read what a rank has offered on the channel, wait for the offer before, and raise its flag when the bytes are here.
    Get {
        /// Whose memory.
        from: u32,
        /// As in its offer.
        channel: u16,
        /// Room, as long as what is offered.
        into: Range,
    },
    /// Wait for the flag that says that a rank has done with what was offered to it on the channel.
    Await {
        /// To whom it was offered.
        from: u32,
        /// As in the offer.
        channel: u16,
        /// What was offered.
        range: Range,
        /// What for.
        access: Access,
    },
}

/// What another rank does with memory that it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It gets all of it.
    Read,
    /// It puts all of it.
    Write,
}

/// Number of channels between two ranks in one schedule.
pub const CHANNELS: u32 = 1 << 11;

/// Index of a step.
pub type StepId = u32;

/// Memory a schedule needs beside the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchNeed {
    /// Packed bytes.
    pub bytes: u64,
    /// Whether it must have the memory layout of the reduction's datatype (operands) or is plain bytes.
    pub elements: bool,
}

/// What one rank does: steps, and which must be complete before which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
    /// Number of steps each one waits for.
    waits_for: Vec<u32>,
    /// `successors[first_successor[i]..first_successor[i + 1]]` wait for step `i`.
    first_successor: Vec<u32>,
    successors: Vec<StepId>,
    scratch: Vec<ScratchNeed>,
    reduces: bool,
    outline: Option<Outline>,
}

/// What all members know alike of the collective that a schedule is their part of: by this a device may be asked whether it
/// runs the schedules of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The collective.
    pub collective: Collective,
    /// Number of members.
    pub ranks: u32,
    /// Packed bytes of the message or vector; no member's part has a longer message.
    pub bytes: u64,
}

/// The collectives that have an [`Outline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast` from this rank.
    Bcast(u32),
    /// `MPI_Reduce` to this rank.
    Reduce(u32),
    /// `MPI_Allreduce`.
    Allreduce,
}

impl Outline {
    fn of(call: &Call<'_>, group: Group) -> Option<Outline> {
        let (collective, bytes) = match *call {
            Call::Barrier => (Collective::Barrier, 0),
            Call::Bcast { root, bytes } => (Collective::Bcast(root), bytes),
            Call::Reduce { root, vector, .. } => (Collective::Reduce(root), vector.bytes()),
            Call::Allreduce { vector, .. } => (Collective::Allreduce, vector.bytes()),
            _ => return None,
        };
        Some(Outline { collective, ranks: group.size, bytes })
    }
}

impl Schedule {
    /// What all members know of the collective; `None` where they know different things, or it is not told.
    pub fn outline(&self) -> Option<&Outline> {
        self.outline.as_ref()
    }

    /// The same schedule, as this member's part of a call on a communicator.
    #[must_use]
    pub(crate) fn of(self, call: &Call<'_>, group: Group) -> Schedule {
        // No device has steps on others' memory.
        let remote = |step: &Step| matches!(step, Step::Offer { .. } | Step::Put { .. } | Step::Get { .. });
        let outline = if self.steps.iter().any(remote) { None } else { Outline::of(call, group) };
        Schedule { outline, ..self }
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let numbers = [&self.waits_for, &self.first_successor, &self.successors];
        size_of_val(&*self.steps)
            + numbers.iter().map(|numbers| size_of_val(&***numbers)).sum::<usize>()
            + size_of_val(&*self.scratch)
    }

    /// The steps, by [`StepId`].
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many steps each one waits for.
    pub fn waits_for(&self) -> &[u32] {
        &self.waits_for
    }

    /// The steps that wait for `step`.
    pub fn successors(&self, step: StepId) -> &[StepId] {
        let step = step as usize;
        &self.successors[self.first_successor[step] as usize..self.first_successor[step + 1] as usize]
    }

    /// The scratch memory it needs.
    pub fn scratch(&self) -> &[ScratchNeed] {
        &self.scratch
    }

    /// Whether any step is a reduction.
    pub fn reduces(&self) -> bool {
        self.reduces
    }

    /// The same steps with other ranks: those of a larger communicator, for a schedule of some of its ranks.
    #[must_use]
    pub fn with_ranks(mut self, name: impl Fn(u32) -> u32) -> Schedule {
        self.outline = None;
        for step in &mut self.steps {
            match step {
                Step::Send { to: rank, .. }
                | Step::Recv { from: rank, .. }
                | Step::Offer { to: rank, .. }
                | Step::Put { to: rank, .. }
                | Step::Get { from: rank, .. }
                | Step::Await { from: rank, .. } => *rank = name(*rank),
                Step::Copy { .. } | Step::Reduce { .. } => {}
            }
        }
        self
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Collects steps in program order.
#[derive(Debug, Default)]
pub struct Builder {
    steps: Vec<Step>,
    /// (earlier, later)
    edges: Vec<(StepId, StepId)>,
    scratch: Vec<ScratchNeed>,
    /// Accesses that later ones may conflict with, by where they begin.
    accesses: BTreeMap<Place, Touch>,
    /// Bytes of the longest of them.
    longest: u64,
    /// What is added to ranks.
    first_rank: u32,
    /// Whom ranks and the receive argument stand for at the moment.
    frame: Option<Frame>,
}

/// Lets a part of a schedule be written as if its members were all ranks and its bytes the whole receive argument.
#[derive(Clone, Debug)]
struct Frame {
    members: Members,
    /// Added to the start of ranges of the receive argument.
    offset: u64,
    /// The memory that stands for the receive argument.
    recv: Buffer,
    /// Added to channels of messages.
    first_channel: u32,
}

/// Buffer, displacement, first byte; and the step, since several may begin at one byte.
type Place = (Buffer, i64, u64, StepId);

#[derive(Debug)]
struct Touch {
    end: u64,
    writes: bool,
}

impl Builder {
    /// An empty schedule.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Plain scratch of `bytes` bytes.
    pub fn packed_scratch(&mut self, bytes: u64) -> Range {
        self.new_scratch(bytes, false)
    }

    /// Scratch for operands of a reduction: `bytes` packed bytes of whole elements.
    pub fn operand_scratch(&mut self, bytes: u64) -> Range {
        self.new_scratch(bytes, true)
    }

    /// Adds what `write` writes, in which rank `i` is member `i` of `members` and the receive argument begins at byte
    /// `offset`.
    pub(crate) fn among(&mut self, members: &Members, offset: u64, write: impl FnOnce(&mut Builder)) {
        self.inside(Frame { members: members.clone(), offset, recv: Buffer::Recv, first_channel: 0 }, write);
    }

    /// Adds what `write` writes as an operation of `members`, into `into` instead of the receive argument if that is given. Its channels count
    /// from `first_channel`: with [`CHANNELS`] its messages come after all that went before between the same two.
    pub(crate) fn as_stage(
        &mut self,
        members: &Members,
        into: Option<Range>,
        first_channel: u32,
        write: impl FnOnce(&mut Builder),
    ) {
        let into = into.unwrap_or(Range::new(Buffer::Recv, 0, 0));
        let frame = Frame { members: members.clone(), offset: into.start, recv: into.buffer, first_channel };
        self.inside(frame, write);
    }

    fn inside(&mut self, frame: Frame, write: impl FnOnce(&mut Builder)) {
        let outer = self.frame.replace(frame);
        debug_assert!(outer.is_none(), "frames do not nest");
        write(self);
        self.frame = outer;
    }

    fn absolute(&self, rank: u32) -> u32 {
        self.frame.as_ref().map_or(self.first_rank + rank, |frame| frame.members.rank(rank))
    }

    fn placed(&self, range: Range) -> Range {
        match &self.frame {
            Some(frame) if range.buffer == Buffer::Recv => {
                Range { buffer: frame.recv, start: range.start + frame.offset, ..range }
            }
            _ => range,
        }
    }

    fn new_scratch(&mut self, bytes: u64, elements: bool) -> Range {
        self.scratch.push(ScratchNeed { bytes, elements });
        Range::new(Buffer::Scratch(self.scratch.len() as u32 - 1), 0, bytes)
    }

    /// From now on rank 0 of the steps is rank `first` of the communicator.
    pub fn count_ranks_from(&mut self, first: u32) {
        self.first_rank = first;
    }

    /// Sends `from` to rank `to`.
    pub fn send(&mut self, to: u32, from: Range) -> StepId {
        self.send_on(0, to, from)
    }

    /// Sends on one of several channels to the same rank. Channels from [`CHANNELS`] on use the earlier ones again, after
    /// the messages there.
    pub fn send_on(&mut self, channel: u32, to: u32, from: Range) -> StepId {
        let (to, from) = (self.absolute(to), self.placed(from));
        let (channel, earlier) = self.channel(
            channel,
            |step, channel| matches!(*step, Step::Send { to: t, channel: c, .. } if t == to && c == channel),
        );
        let step = self.push(Step::Send { to, channel, from }, &[(from, false)]);
        earlier.iter().for_each(|&earlier| self.order(earlier, step));
        step
    }

    /// Receives `into` from rank `from`.
    pub fn recv(&mut self, from: u32, into: Range) -> StepId {
        self.recv_on(0, from, into)
    }

    /// Receives on one of several channels from the same rank, as in [`Builder::send_on`].
    pub fn recv_on(&mut self, channel: u32, from: u32, into: Range) -> StepId {
        let (from, into) = (self.absolute(from), self.placed(into));
        let (channel, earlier) = self.channel(channel, |step, channel| {
            matches!(*step, Step::Recv { from: f, channel: c, .. } if f == from && c == channel)
        });
        let step = self.push(Step::Recv { from, channel, into }, &[(into, true)]);
        earlier.iter().for_each(|&earlier| self.order(earlier, step));
        step
    }

    /// The channel on the wire, and the step that used it last when the number has wrapped.
    fn channel(&self, channel: u32, same: impl Fn(&Step, u16) -> bool) -> (u16, Option<StepId>) {
        let channel = channel + self.frame.as_ref().map_or(0, |frame| frame.first_channel);
        let wire = (channel % CHANNELS) as u16;
        let earlier =
            (channel >= CHANNELS).then(|| self.steps.iter().rposition(|step| same(step, wire))).flatten();
        (wire, earlier.map(|step| step as StepId))
    }

    /// Copies; nothing when the range is empty or both are the same.
    pub fn copy(&mut self, from: Range, into: Range) {
        debug_assert_eq!(from.bytes, into.bytes);
        if from.bytes > 0 && from != into {
            let (from, into) = (self.placed(from), self.placed(into));
            self.push(Step::Copy { from, into }, &[(from, false), (into, true)]);
        }
    }

    /// `into = left op into`; nothing when the range is empty.
    pub fn reduce(&mut self, left: Range, into: Range) {
        debug_assert_eq!(left.bytes, into.bytes);
        if into.bytes > 0 {
            let (left, into) = (self.placed(left), self.placed(into));
            self.push(Step::Reduce { left, into }, &[(left, false), (into, true)]);
        }
    }

    /// Lets rank `to` put into `range` on a channel, and waits until it has: the steps of the offer and of the wait. Channels as in
    /// [`Builder::send_on`], of which an offer takes two, from an even one on.
    pub fn offer_to_write(&mut self, channel: u16, to: u32, range: Range) -> (StepId, StepId) {
        self.offer(channel, to, range, Access::Write)
    }

    /// Lets rank `to` get `range` on a channel, and waits until it has.
    pub fn offer_to_read(&mut self, channel: u16, to: u32, range: Range) -> (StepId, StepId) {
        self.offer(channel, to, range, Access::Read)
    }

    fn offer(&mut self, channel: u16, to: u32, range: Range, access: Access) -> (StepId, StepId) {
        debug_assert!(u32::from(channel) < CHANNELS && channel.is_multiple_of(2));
        let (to, range) = (self.absolute(to), self.placed(range));
        let writes = access == Access::Write;
        let offer = self.push(Step::Offer { to, channel, range, access }, &[(range, writes)]);
        let wait = self.push(Step::Await { from: to, channel, range, access }, &[(range, writes)]);
        // Of an empty range, and of one that is only read, nothing else says so.
        self.order(offer, wait);
        (offer, wait)
    }

    /// Puts `from` into what rank `to` offers on a channel.
    pub fn put(&mut self, channel: u16, to: u32, from: Range) -> StepId {
        debug_assert!(u32::from(channel) < CHANNELS && channel.is_multiple_of(2));
        let (to, from) = (self.absolute(to), self.placed(from));
        self.push(Step::Put { to, channel, from }, &[(from, false)])
    }

    /// Gets `into` from what rank `from` offers on a channel.
    pub fn get(&mut self, channel: u16, from: u32, into: Range) -> StepId {
        debug_assert!(u32::from(channel) < CHANNELS && channel.is_multiple_of(2));
        let (from, into) = (self.absolute(from), self.placed(into));
        self.push(Step::Get { from, channel, into }, &[(into, true)])
    }

    /// Lets `later` wait for `earlier` though they share no data.
    pub fn order(&mut self, earlier: StepId, later: StepId) {
        debug_assert!(earlier < later);
        self.edges.push((earlier, later));
    }

    fn push(&mut self, step: Step, touched: &[(Range, bool)]) -> StepId {
        let id = self.steps.len() as StepId;
        self.steps.push(step);
        let touched = touched.iter().filter(|(range, _)| range.bytes > 0);
        for &(Range { buffer, displacement, start, bytes }, writes) in touched.clone() {
            let end = start + bytes;
            let place = |start: u64| (buffer, displacement, start, 0);
            let near = self.accesses.range(place(start.saturating_sub(self.longest))..place(end));
            let mut covered = Vec::new();
            for (&earlier, access) in
                near.filter(|(_, access)| access.end > start && (writes || access.writes))
            {
                self.edges.push((earlier.3, id));
                // What a write covers need not be remembered: whoever conflicts with it conflicts with the write.
                if writes && earlier.2 >= start && access.end <= end {
                    covered.push(earlier);
                }
            }
            for earlier in covered {
                self.accesses.remove(&earlier);
            }
        }
        for &(Range { buffer, displacement, start, bytes }, writes) in touched {
            let access = Touch { end: start + bytes, writes };
            self.accesses.insert((buffer, displacement, start, id), access);
            self.longest = self.longest.max(bytes);
        }
        id
    }

    /// The finished schedule.
    pub fn finish(mut self) -> Schedule {
        let count = self.steps.len();
        self.edges.sort_unstable();
        self.edges.dedup();
        let mut waits_for = vec![0; count];
        let mut first_successor = vec![0; count + 1];
        for &(earlier, later) in &self.edges {
            waits_for[later as usize] += 1;
            first_successor[earlier as usize + 1] += 1;
        }
        for i in 0..count {
            first_successor[i + 1] += first_successor[i];
        }
        let successors = self.edges.iter().map(|&(_, later)| later).collect();
        let reduces = self.steps.iter().any(|step| matches!(step, Step::Reduce { .. }));
        let outline = None;
        let Builder { steps, scratch, .. } = self;
        Schedule { steps, waits_for, first_successor, successors, scratch, reduces, outline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_on_the_same_bytes_keep_their_order_and_others_do_not_wait() {
        let mut b = Builder::new();
        let user = Range::new(Buffer::Recv, 0, 8);
        let received = b.recv(1, user);
        let other = b.recv(2, Range::new(Buffer::Recv, 8, 8));
        let sent = b.send(3, user);
        let reused = b.recv_on(1, 1, user.part(0, 4));
        let schedule = b.finish();
        assert_eq!(schedule.waits_for(), [0, 0, 1, 2]);
        assert_eq!(schedule.successors(received), [sent, reused]);
        assert_eq!(schedule.successors(sent), [reused]);
        assert!(schedule.successors(other).is_empty());
    }

    #[test]
    fn what_is_offered_is_the_others_until_its_flag_is_raised() {
        let mut b = Builder::new();
        let (first, second) = (Range::new(Buffer::Recv, 0, 8), Range::new(Buffer::Recv, 8, 8));
        let received = b.recv(3, first);
        let (offer, wait) = b.offer_to_write(0, 1, first);
        let used = b.send(2, first.part(4, 4));
        let (shown, seen) = b.offer_to_read(2, 1, second);
        let read_too = b.send(2, second);
        let overwritten = b.get(0, 4, second);
        let schedule = b.finish();
        assert_eq!(schedule.successors(received), [offer]);
        assert_eq!(schedule.successors(offer), [wait]);
        assert_eq!(schedule.successors(wait), [used]);
        assert_eq!(schedule.successors(shown), [seen, overwritten]);
        assert_eq!(schedule.successors(seen), [overwritten]);
        assert_eq!(
            schedule.successors(read_too),
            [overwritten],
            "who only reads need not wait for the other reader"
        );
    }

    #[test]
    fn a_covering_write_takes_the_place_of_what_it_covers() {
        let mut b = Builder::new();
        let whole = Range::new(Buffer::Scratch(0), 0, 16);
        b.recv(1, whole.part(0, 8));
        b.recv(2, whole.part(8, 8));
        b.recv(3, whole);
        b.send(4, whole.part(4, 8));
        assert_eq!(b.finish().waits_for(), [0, 0, 2, 1]);
    }
}
