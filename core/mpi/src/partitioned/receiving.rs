//! The receiving side of a partitioned operation.

use super::refused;
use super::runs::Arrived;
use super::sides::{Moving, WHOLE_BY_STAGE, Way, already_active, first_of_parts, way};

use super::staged::Staged;
use super::terms::{Answer, Counterpart, Introduction, Partitions, PartsOutlook};
use crate::request::{Done, MpiStatus};
use std::ops::Range;
use std::sync::Arc;
use weft_datatype::{RecvBuf, Scratch, SendBuf};
use weft_engine::board::Board;
use weft_engine::{Engine, Envelope, LandingId, Next, RequestId, Selector, SendMode, Started, Status};
use weft_types::{ContextId, Error, ErrorClass, Handle, PeerId, Rank, Result, Tag};

/// Where a receive is with its sender.
#[derive(Debug)]
enum Meeting {
    /// The introduction is awaited.
    Listening { request: RequestId, room: Arc<Scratch> },
    /// The sender is known: its request, its partitions' bytes and number, how they travel, and whether it knows this request.
    Met { sender: Handle, partition: u64, number: u32, way: Way, knows: bool },
    /// The sender has other ideas of the number of bytes, or is gone.
    Failed,
    /// `MPI_PROC_NULL`.
    Nobody,
}

/// The request of `MPI_Precv_init`.
#[derive(Debug)]
pub struct ReceiveSide {
    partitions: Partitions,
    /// `None` for `MPI_PROC_NULL`.
    from: Option<Counterpart>,
    pub(crate) comm: Handle,
    active: bool,
    /// Epochs started.
    started: u64,
    meeting: Meeting,
    /// Where parts land, once the sender is known to send such.
    landing: Option<LandingId>,
    /// The start for which that was opened last.
    opened: u64,
    /// Where the sender puts them down, when it is on this node.
    stage: Option<Box<Staged>>,
    arrived: Arrived,
    /// Whether the empty message has come that stands for all partitions of no bytes.
    empty_here: bool,
    moving: Moving,
    error: Option<Error>,
}

impl ReceiveSide {
    /// An inactive receive; `from` is `None` for `MPI_PROC_NULL`.
    pub fn new(partitions: Partitions, from: Option<Counterpart>, comm: Handle) -> ReceiveSide {
        ReceiveSide {
            arrived: Arrived::new(partitions.number, partitions.bytes),
            partitions,
            from,
            comm,
            active: false,
            started: 0,
            meeting: Meeting::Nobody,
            landing: None,
            opened: 0,
            stage: None,
            empty_here: false,
            moving: Moving::default(),
            error: None,
        }
    }

    /// A receive that is not done.
    pub(crate) fn outlook(&self) -> PartsOutlook {
        let words = format!("{} partitions", self.partitions.number);
        PartsOutlook { other: self.from, words, needs: true }
    }

    /// Waits for the sender's introduction.
    pub(super) fn listen(&mut self, engine: &mut Engine) -> Result<()> {
        let Some(from) = self.from else { return Ok(()) };
        let room = Scratch::new(Introduction::BYTES);
        let selector = Selector {
            context: from.context.partitioned(),
            peer: Some(from.peer),
            source: Some(from.source),
            tag: Some(from.tag),
        };
        let request = engine.recv(selector, room.recv_buf(0, Introduction::BYTES))?;
        engine.tag_request(request, self.comm.0);
        self.meeting = Meeting::Listening { request, room };
        Ok(())
    }

    /// The request is being freed. An introduction that has not come is still taken, so that the init calls that follow match
    /// as they should.
    pub(super) fn stop_listening(&mut self, engine: &mut Engine) {
        if let Meeting::Listening { request, .. } = self.meeting {
            engine.release(request);
            self.meeting = Meeting::Failed;
        }
        if let Some(landing) = self.landing.take() {
            engine.end_landing(landing);
        }
        self.stage = None;
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    pub(super) fn start(&mut self) -> Result<()> {
        if self.begins() { Ok(()) } else { Err(already_active()) }
    }

    /// Starts it. False: it is active, and nothing was done.
    #[inline(always)]
    fn begins(&mut self) -> bool {
        if self.active {
            return false;
        }
        self.active = true;
        self.started += 1;
        self.arrived.clear();
        self.empty_here = false;
        if let Some(stage) = &mut self.stage {
            stage.begin(self.started as u32);
        }
        true
    }

    /// Starts again a receive whose sender knows its stage. False: nothing was done.
    #[inline(always)]
    pub(super) fn starts_at_once(&mut self, engine: &mut Engine) -> bool {
        let (Some(landing), false) = (self.landing, self.active || engine.losses() != 0) else {
            return false;
        };
        if self.stage.is_none() || self.error.is_some() || !self.begins() {
            return false;
        }
        // Where all usually comes by the stage, the landing is opened when it is looked at.
        if !self.comes_by_stage() {
            self.open(engine, landing);
        }
        true
    }

    /// Lets parts of this start land.
    #[inline(never)]
    fn open(&mut self, engine: &mut Engine, landing: LandingId) {
        self.opened = self.started;
        engine.open_landing(landing, self.started as u32);
    }

    /// Grants the epoch when the sender is known. False while it is not.
    pub(super) fn meet(&mut self, engine: &mut Engine, handle: Handle) -> bool {
        if let Meeting::Listening { request, room } = &self.meeting {
            if !engine.is_complete(*request) {
                return false;
            }
            let mut bytes = [0; Introduction::BYTES];
            room.send_buf(0, Introduction::BYTES).pack(0, &mut bytes);
            let ended = engine.take(*request);
            // Of fewer bytes the rest is no word of the sender's.
            let whole = ended.status.bytes == Introduction::BYTES as u64;
            self.meeting = match (ended.error, Introduction::parse(&bytes).filter(|_| whole)) {
                (None, Some(introduction)) => self.judge(engine, introduction),
                (error, _) => {
                    self.error = Some(error.unwrap_or_else(|| {
                        Error::new(
                            ErrorClass::INTERN,
                            "the sender of a partitioned message introduced itself with words that are none: do all processes \
                             run the same version of Weft?",
                        )
                    }));
                    Meeting::Failed
                }
            };
        }
        if let Meeting::Met { sender, number, way, knows, .. } = &mut self.meeting {
            let (sender, number, way, knew) = (*sender, *number, *way, std::mem::replace(knows, true));
            match way {
                Way::Runs => self.answer(engine, sender, Answer::Granted(handle), None),
                Way::Messages => {
                    if !knew {
                        self.answer(engine, sender, Answer::Granted(handle), None);
                    }
                    self.post(engine, handle, number);
                }
                Way::Parts => self.land(engine, sender),
            }
        }
        true
    }

    /// Opens the landing for this epoch; the sender is told of it the first time.
    fn land(&mut self, engine: &mut Engine, sender: Handle) {
        let Some(from) = self.from else { return };
        let landing = match self.landing {
            Some(landing) => landing,
            None => {
                let room = self.partitions.memory.recv_view(0, 0, self.partitions.total());
                match engine.make_landing(from.peer, room) {
                    Ok(landing) => {
                        self.landing = Some(landing);
                        let word = self.set_the_stage(engine, from.peer);
                        self.answer(engine, sender, Answer::Granted(Handle(landing.0)), word);
                        landing
                    }
                    Err(error) => {
                        self.error = Some(error);
                        return self.answer(engine, sender, Answer::Refused, None);
                    }
                }
            }
        };
        self.open(engine, landing);
        self.look_at_landing(engine);
    }

    /// Makes a stage, if there can be one; its word.
    fn set_the_stage(&mut self, engine: &mut Engine, peer: PeerId) -> Option<u64> {
        let Meeting::Met { partition, number, .. } = self.meeting else { return None };
        let mut stage = Staged::new(engine.make_stage(peer, number, partition)?, partition);
        stage.begin(self.started as u32);
        let word = stage.word();
        self.stage = Some(Box::new(stage));
        Some(word)
    }

    /// Takes what was put down; `all`: also behind partitions that are not here. Whether there was anything.
    #[inline(always)]
    fn look_at_stage(&mut self, all: bool) -> bool {
        // What has come as a packet leaves nothing to look for: every group would be a line of its own.
        let awaits = self.active && self.arrived.left() != 0;
        let (Some(stage), true) = (&mut self.stage, awaits) else { return false };
        stage.take(all, &self.partitions, &mut self.arrived)
    }

    /// As [`ReceiveSide::look_at_stage`], everything.
    pub(super) fn look_closely(&mut self) {
        self.ask();
        self.look_at_stage(true);
        self.publish();
    }

    /// Whether the partitions most likely come by the stage, not as packets.
    #[inline(always)]
    pub(super) fn comes_by_stage(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| {
            stage.has_room() && (!stage.is_awaited_whole() || self.partitions.total() <= WHOLE_BY_STAGE)
        })
    }

    /// Whether the sender knows a stage of this receive.
    pub(super) fn has_stage(&self) -> bool {
        self.stage.is_some()
    }

    /// The program asks for single partitions.
    fn ask(&mut self) {
        if let Some(stage) = &mut self.stage {
            stage.ask();
        }
    }

    /// Whether parts are awaited in a stage, which no progress of the engine tells of.
    #[inline(always)]
    pub(super) fn awaits_stage(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.has_room()) && !self.is_done()
    }

    /// Ends a start of which everything is here. Its status; `None`: nothing was ended.
    #[inline(always)]
    pub(super) fn finish_at_once(&mut self) -> Option<MpiStatus> {
        self.look_at_stage(false);
        if self.arrived.left() != 0
            || !self.active
            || self.error.is_some()
            || !self.moving.requests.is_empty()
        {
            return None;
        }
        let (Some(stage), Some(from)) = (&mut self.stage, self.from) else { return None };
        stage.give_back();
        self.active = false;
        self.arrived.close();
        let bytes = self.partitions.total();
        Some(MpiStatus { source: from.source.0 as i32, tag: from.tag.0, bytes, cancelled: false })
    }

    /// Looks up to `turns` times whether a part comes as a packet next, and takes note of it.
    #[inline]
    pub(super) fn await_packet(&mut self, engine: &mut Engine, turns: u32) -> Next {
        let Some(landing) = self.landing.filter(|_| self.opened == self.started) else { return Next::Other };
        let next = engine.await_part(landing, turns);
        match next {
            Next::Whole => self.arrived.add_all(),
            Next::Part => {
                self.note_landed(engine, landing);
            }
            Next::Nothing | Next::Other => {}
        }
        next
    }

    /// Takes note of the parts that have landed. Whether there were any.
    fn note_landed(&mut self, engine: &mut Engine, landing: LandingId) -> bool {
        let (arrived, stage, mut some) = (&mut self.arrived, &mut self.stage, false);
        engine.landed(landing, |range| {
            if let Some(stage) = stage {
                stage.came_otherwise(&range);
            }
            arrived.add(range);
            some = true;
        });
        some
    }

    /// Takes note of the parts that have landed, and receives those that came as messages. Whether there were any.
    fn look_at_landing(&mut self, engine: &mut Engine) -> bool {
        let (Some(landing), true) = (self.landing, self.active) else { return false };
        if self.opened != self.started {
            self.open(engine, landing);
        }
        let mut some = self.look_at_stage(self.arrived.is_shared());
        some |= self.note_landed(engine, landing);
        if !engine.keeps_messages() {
            return some;
        }
        let selector = Selector {
            context: ContextId::PARTITIONS,
            peer: self.from.map(|from| from.peer),
            source: Some(Rank(landing.0)),
            tag: None,
        };
        while let Some(status) = engine.iprobe(selector) {
            let Some(range) = self.range_of_parts(status) else { break };
            let Some((message, _)) = engine.improbe(selector) else { break };
            let room = self.partitions.memory.recv_view(0, range.start, range.end - range.start);
            match engine.imrecv(message, room) {
                Ok(request) => self.moving.requests.push((request, range)),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
            some = true;
        }
        some
    }

    /// The bytes of the whole that a message brings that parts became; `None` when they are of another epoch.
    fn range_of_parts(&self, status: Status) -> Option<Range<u64>> {
        let Meeting::Met { partition, .. } = self.meeting else { return None };
        let start = u64::from(first_of_parts(status.tag, self.started as u32)?) * partition;
        let end = start.checked_add(status.bytes)?;
        (end <= self.partitions.total()).then_some(start..end)
    }

    /// Posts a receive for each of the sender's `few` partitions.
    fn post(&mut self, engine: &mut Engine, handle: Handle, few: u32) {
        let (Some(from), Meeting::Met { partition, .. }) = (self.from, &self.meeting) else { return };
        let bytes = *partition;
        for index in 0..few {
            let start = u64::from(index) * bytes;
            let selector = Selector {
                context: ContextId::PARTITIONS,
                peer: Some(from.peer),
                source: Some(Rank(handle.0)),
                tag: Some(Tag(index as i32)),
            };
            match engine.recv(selector, self.partitions.memory.recv_view(0, start, bytes)) {
                Ok(request) => self.moving.requests.push((request, start..start + bytes)),
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
    }

    fn judge(&mut self, engine: &mut Engine, introduction: Introduction) -> Meeting {
        let (theirs, ours) = (introduction.total, self.partitions.total());
        if theirs == ours {
            let partition = theirs / u64::from(introduction.partitions);
            let number = introduction.partitions;
            let way = way(number, partition);
            return Meeting::Met { sender: introduction.sender, partition, number, way, knows: false };
        }
        self.error = Some(refused(
            if theirs > ours { ErrorClass::TRUNCATE } else { ErrorClass::ARG },
            format!(
                "this partitioned receive has {ours} bytes, the send that it matches {theirs}; both sides must describe the same \
                 number of bytes (section 4.2.1)"
            ),
        ));
        self.answer(engine, introduction.sender, Answer::Refused, None);
        Meeting::Failed
    }

    /// Answers the sender; `stage`: the word of ours.
    fn answer(&mut self, engine: &mut Engine, sender: Handle, answer: Answer, stage: Option<u64>) {
        let Some(from) = self.from else { return };
        let envelope = Envelope {
            peer: from.peer,
            context: ContextId::PARTITION_GRANTS,
            source: Rank(sender.0),
            tag: answer.tag(),
        };
        let data = stage.map_or_else(SendBuf::empty, |word| {
            let copy = Scratch::new(8);
            copy.recv_buf(0, 8).unpack(0, &word.to_le_bytes());
            copy.send_buf(0, 8)
        });
        match engine.send(envelope, SendMode::Standard, data) {
            Ok(Started::Complete) => {}
            Ok(Started::Pending(request)) => engine.release(request),
            Err(error) => {
                self.error = Some(error);
                self.meeting = Meeting::Failed;
            }
        }
    }

    /// The bytes of the whole that a data message brings; `None` when it makes no sense.
    fn range(&self, status: Status) -> Option<Range<u64>> {
        let Meeting::Met { partition, .. } = self.meeting else { return None };
        let start = u64::from(status.tag.0 as u32).checked_mul(partition)?;
        let end = start.checked_add(status.bytes)?;
        (self.active && end <= self.partitions.total()).then_some(start..end)
    }

    pub(super) fn room(&self, status: Status) -> Option<RecvBuf> {
        let range = self.range(status)?;
        Some(self.partitions.memory.recv_view(0, range.start, range.end - range.start))
    }

    /// Notes the receive of a data message.
    pub(super) fn expect(&mut self, request: RequestId, status: Status) {
        let range = self.range(status).unwrap_or(0..0);
        self.moving.requests.push((request, range));
    }

    #[inline(always)]
    pub(super) fn needs_watching(&mut self) -> bool {
        let fresh = !self.moving.watched && self.landing.is_some() && !self.is_done();
        self.moving.watched |= fresh;
        fresh || self.moving.needs_watching()
    }

    pub(super) fn sweep(&mut self, engine: &mut Engine) -> (bool, bool) {
        let landed = self.look_at_landing(engine);
        let (arrived, empty_here, error) = (&mut self.arrived, &mut self.empty_here, &mut self.error);
        let stage = &mut self.stage;
        let swept = self.moving.sweep(engine, |bytes, failed| {
            if failed.is_some() {
                *error = failed;
                return;
            }
            *empty_here |= bytes.is_empty();
            if let Some(stage) = stage {
                stage.came_otherwise(&bytes);
            }
            arrived.add(bytes);
        });
        self.publish();
        self.moving.watched |= self.landing.is_some() && !self.is_done();
        (swept.0 || landed, self.moving.watched)
    }

    /// Tells threads that do not hold the process when nothing more will arrive. After every change of what
    /// [`ReceiveSide::is_done`] says, or they would ask for ever.
    pub(super) fn publish(&self) {
        if self.is_done() {
            self.arrived.close();
        }
    }

    /// Where threads look that do not hold the process.
    pub(super) fn board(&mut self) -> &Arc<Board> {
        self.ask();
        let open = !self.is_done();
        self.arrived.board(open)
    }

    /// Ends an epoch that waits for a sender that is lost or has left.
    pub(super) fn mourn(&mut self, engine: &mut Engine) {
        if engine.losses() == 0 {
            return self.publish();
        }
        // What it put down before it died counts.
        self.look_at_stage(true);
        let waits = !self.all_is_here() || !self.moving.requests.is_empty();
        if self.active
            && waits
            && let Some(from) = self.from
            && let Some(loss) = engine.loss_of(from.peer, from.context)
        {
            self.error.get_or_insert(loss);
            self.moving.give_up(engine, from.peer);
        }
        self.publish();
    }

    fn all_is_here(&self) -> bool {
        match self.partitions.bytes {
            0 => self.empty_here,
            _ => self.arrived.left() == 0,
        }
    }

    /// Whether everything is in the buffer, or never will be.
    pub(crate) fn is_done(&self) -> bool {
        let complete = matches!(self.meeting, Meeting::Nobody) || self.error.is_some() || self.all_is_here();
        !self.active || (complete && self.moving.requests.is_empty())
    }

    /// Whether a partition is in the buffer; of inactive requests every one is (section 4.2.2).
    pub(super) fn arrived(&self, partition: i32) -> Result<bool> {
        let index = self.partitions.check(partition)?;
        Ok(self.is_done()
            || if self.partitions.bytes == 0 { self.empty_here } else { self.arrived.has(index) })
    }

    fn status(&self) -> MpiStatus {
        match self.from {
            Some(from) if self.active => MpiStatus {
                source: from.source.0 as i32,
                tag: from.tag.0,
                bytes: self.partitions.total() - self.arrived.left(),
                cancelled: false,
            },
            None if self.active => MpiStatus::PROC_NULL,
            _ => MpiStatus::EMPTY,
        }
    }

    pub(crate) fn finish(&mut self) -> Done {
        let status = self.status();
        self.arrived.close();
        if let Some(stage) = &mut self.stage {
            stage.give_back();
        }
        let error = if std::mem::replace(&mut self.active, false) { self.error.clone() } else { None };
        Done { error, comm: self.comm, keeps_handle: true, ..Done::new(status) }
    }

    pub(crate) fn peek(&self) -> Done {
        let error = self.error.clone().filter(|_| self.active);
        Done { error, comm: self.comm, keeps_handle: true, ..Done::new(self.status()) }
    }
}
