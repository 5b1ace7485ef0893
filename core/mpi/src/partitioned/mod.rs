//! Partitioned communication (chapter 4) over the engine's point-to-point.
//!
//! ```text
//! sender                                       receiver
//! MPI_Psend_init --- introduction ------------> receive posted by MPI_Precv_init     once, matched by (comm, tag, source)
//!                <-- grant -------------------- MPI_Start (or the introduction)      once per start
//! MPI_Pready     --- data, one message a run -> placed where the run belongs         as soon as granted
//! ```
//!
//! The introduction travels on a channel of the communicator that nothing else uses, so the engine's matching pairs
//! the init calls in their order. From then on both sides name each other by the number of the request: a grant is an
//! empty message whose *source* is the sender's request and whose *tag* is the receiver's; data carry the receiver's
//! request as source and the first partition (as the sender counts) as tag. Data leave only when granted, and a grant is
//! given only to a started receive, so an inactive buffer is never written to.
//!
//! A send of few partitions ([`sides::FEW`], by the sender's count) needs no grant but the first. When they are long, it tells
//! the receiver's request: every partition is a message of its own, named by the receiver's request and the partition, and each
//! start of the receive posts a receive for every one of them. So partitions travel and match as messages do, also before the
//! receive is started; they are exactly one for each receive, and in order, so that those of two starts cannot be confused.
//!
//! When they are short, the grant tells of a landing in the receiver's engine (`weft_engine::LandingId`): partitions leave as
//! packets of start number, offset and bytes, neighbours that are ready at one moment in one packet, and nothing is matched or
//! posted. Parts that find no room or no budget leave as messages with the same names in source and tag, which the started
//! receive asks for.
//!
//! Between processes of a node the grant also tells of a stage (`weft_engine::StageIn`), memory that both ends share: a
//! partition that is ready is put down there, which is one store of its bytes and a bit, and a receive that is waited for,
//! tested or asked looks there (`staged`). The sender may be some starts ahead; where the stage has no room for a start, its
//! partitions go as packets. As long as nobody asks for single partitions, those of a short send leave together (`gathered`), and
//! a mark is one bit, found without the table of requests (`marks`).
//!
//! With several threads, marking and looking take no lock ([`Board`]): a thread marks, announces, and sends by itself when
//! nobody holds the process; otherwise who holds it does so before it goes on ([`Requests::serve_marks`]).
//!
//! Nothing here waits: [`Requests::progress`] does what has become possible.

mod gathered;
mod marks;
mod receiving;
mod runs;
mod sides;
mod staged;
mod terms;
#[cfg(test)]
mod tests;

pub use receiving::ReceiveSide;
pub use sides::SendSide;
pub(crate) use terms::PartsOutlook;
pub use terms::{Counterpart, Partitions, check_introduction};
pub use weft_engine::board::Board;

use crate::request::{Kind, Local, MpiStatus, Requests};
use marks::Courses;
use std::sync::Arc;
use terms::Answer;
use weft_datatype::{RecvBuf, Scratch};
use weft_engine::{Engine, LandingId, MessageId, Next, RequestId, Selector, Status};
use weft_types::{ContextId, Error, ErrorClass, Handle, Rank, Result};

/// Looks for a packet between two looks at the stage.
const PACKETS: u32 = 8;

/// Which partitioned requests [`Requests::progress`] must look at.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Partitioned requests that exist.
    alive: usize,
    /// Started receives that have not met their sender.
    lonely: Vec<Handle>,
    /// Requests with messages of the engine under way.
    moving: Vec<Handle>,
    /// Whether they must be looked through although nothing has changed since: something was added.
    fresh: bool,
    /// What [`Engine::changes`] said when they were looked through last.
    seen: u32,
    /// Sends whose boards other threads know.
    marked_by_others: Vec<Handle>,
    /// Grants that are not here whole.
    grants: Vec<Grant>,
    /// Sends that keep partitions which are ready.
    gathering: Vec<Handle>,
    /// Where marks of partitions find the send that keeps them.
    courses: Courses,
    /// Whether a receive awaits what is put down in a stage, of which [`Engine::changes`] says nothing.
    staged: bool,
    /// Losses of processes that these requests know of.
    losses: u32,
}

impl Watched {
    /// A request has messages of the engine under way from now on.
    fn add(&mut self, handle: Handle) {
        self.moving.push(handle);
        self.fresh = true;
    }

    /// A send keeps partitions from now on.
    #[cold]
    fn list(&mut self, handle: Handle) {
        self.gathering.push(handle);
    }
}

const fn everything_on(context: ContextId) -> Selector {
    Selector { context, peer: None, source: None, tag: None }
}

#[cold]
pub(crate) fn refused(class: ErrorClass, text: impl Into<String>) -> Error {
    Error::new(class, text)
}

impl Requests {
    /// Makes the request of `MPI_Psend_init` and introduces it to the receiver. Local.
    ///
    /// # Errors
    /// As [`Engine::send`] and [`crate::table::Table::insert`].
    pub fn partitioned_send(&mut self, engine: &mut Engine, side: SendSide) -> Result<Handle> {
        let handle = self.insert(Local::PartitionedSend(Box::new(side)))?;
        if let Local::PartitionedSend(side) = self.local(handle)
            && let Err(error) = side.introduce(engine, handle)
        {
            self.forget(handle);
            return Err(error);
        }
        self.watched.alive += 1;
        Ok(handle)
    }

    /// Makes the request of `MPI_Precv_init`. Local.
    ///
    /// # Errors
    /// As [`Engine::recv`] and [`crate::table::Table::insert`].
    pub fn partitioned_receive(&mut self, engine: &mut Engine, mut side: ReceiveSide) -> Result<Handle> {
        side.listen(engine)?;
        let handle = self.insert(Local::PartitionedReceive(Box::new(side)))?;
        self.watched.alive += 1;
        Ok(handle)
    }

    /// `MPI_Start` of a partitioned request; `None` when it is of another kind.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is active; errors of the engine's sends.
    pub(crate) fn start_partitioned(&mut self, engine: &mut Engine, handle: Handle) -> Option<Result<()>> {
        if self.start_partitioned_at_once(engine, handle) {
            return Some(Ok(()));
        }
        match self.local_mut(handle) {
            Local::PartitionedSend(side) => {
                let started = side.start().map(|()| side.mourn(engine));
                if side.gathering.needs_listing() {
                    self.watched.list(handle);
                }
                Some(started)
            }
            Local::PartitionedReceive(side) => {
                let started = side.start();
                if started.is_ok() && !side.meet(engine, handle) {
                    self.watched.lonely.push(handle);
                } else if side.needs_watching() {
                    self.watched.add(handle);
                }
                if let Local::PartitionedReceive(side) = self.local_mut(handle) {
                    side.mourn(engine);
                }
                Some(started)
            }
            _ => None,
        }
    }

    /// `MPI_Request_free` of a partitioned request; `None` when it is of another kind.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is active (section 4.2.1).
    pub(crate) fn free_partitioned(&mut self, engine: &mut Engine, handle: Handle) -> Option<Result<()>> {
        let active = match self.local_mut(handle) {
            Local::PartitionedSend(side) => side.is_active(),
            Local::PartitionedReceive(side) => side.is_active(),
            _ => return None,
        };
        if active {
            return Some(Err(refused(
                ErrorClass::REQUEST,
                "the partitioned request is active; complete it before freeing it (section 4.2.1)",
            )));
        }
        if let Local::PartitionedReceive(side) = self.local_mut(handle) {
            side.stop_listening(engine);
        }
        self.forget(handle);
        self.watched.courses.forget(handle);
        self.watched.alive -= 1;
        self.watched.marked_by_others.retain(|&other| other != handle);
        if engine.keeps_messages() {
            self.drop_strays(engine);
        }
        Some(Ok(()))
    }

    /// `MPI_Pready` and its kin: marks partitions of a started send and sends what may leave.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when the request is no active partitioned send, `MPI_ERR_ARG` for a partition that does not exist or
    /// is ready already; then none is marked. Errors of the engine's sends.
    pub fn ready(
        &mut self,
        engine: &mut Engine,
        handle: Handle,
        partitions: impl Iterator<Item = i32> + Clone,
    ) -> Result<()> {
        let Kind::Local(local) = self.kind(engine, handle)? else { return Err(no_partitioned_send()) };
        let Local::PartitionedSend(side) = self.local_mut(local) else { return Err(no_partitioned_send()) };
        let marked = side.mark(partitions);
        // Also when that failed: another thread may have marked some of them just now.
        let flushed = marked.and(side.flush(engine));
        if side.needs_watching() {
            self.watched.add(local);
        }
        flushed
    }

    /// `MPI_Start` of a partitioned request in the usual case, by the only thread. False: nothing was done.
    #[inline(always)]
    pub(crate) fn start_partitioned_at_once(&mut self, engine: &mut Engine, handle: Handle) -> bool {
        if engine.losses() != 0 {
            return false;
        }
        match self.locals.find_mut(handle) {
            Some(Local::PartitionedSend(side)) => {
                let started = side.begins();
                if side.gathering.needs_listing() {
                    self.watched.list(handle);
                }
                started
            }
            Some(Local::PartitionedReceive(side)) => {
                let started = side.starts_at_once(engine);
                if started {
                    self.watched.staged |= side.awaits_stage();
                    if side.needs_watching() {
                        self.watched.add(handle);
                    }
                }
                started
            }
            _ => false,
        }
    }

    /// `MPI_Pready` of one partition that is kept with others, by the only thread that is here; `request`: the number that the
    /// program passed. False: nothing was done, and [`Requests::ready_rarely`] may do it.
    #[inline(always)]
    pub fn keep_ready(&mut self, request: usize, partition: i32) -> bool {
        self.watched.courses.keeps(request, partition as u32)
    }

    /// `MPI_Pready` of one partition in the usual case, by the only thread that is here. False: nothing was done.
    #[inline(never)]
    pub fn ready_rarely(&mut self, engine: &mut Engine, handle: Handle, partition: i32) -> bool {
        let index = partition as u32;
        let Some(Local::PartitionedSend(side)) = self.locals.find_mut(handle) else { return false };
        let done = side.ready_with_all(engine, index) || {
            let done = side.ready_by_itself(engine, index);
            if side.gathering.keeps_only(index) {
                self.watched.courses.learn(handle, side.gathering.marks());
            }
            done
        };
        if side.needs_watching() {
            self.watched.add(handle);
        }
        done
    }

    /// Completes a partitioned request that is done, by the only thread: its status. `None`: it is another one, not done, or
    /// failed.
    #[inline(always)]
    pub fn finish_partitioned_at_once(&mut self, handle: Handle) -> Option<MpiStatus> {
        match self.locals.find_mut(handle)? {
            Local::PartitionedSend(side) => side.finish_at_once().then_some(MpiStatus::NO_MESSAGE),
            Local::PartitionedReceive(side) => side.finish_at_once(),
            _ => None,
        }
    }

    /// Looks some `turns` times into the stage of a receive, or for packets of its sender. `None`: it is another request, not
    /// done, or failed, or something else has come that progress takes.
    pub fn spin_partitioned(&mut self, engine: &mut Engine, handle: Handle, turns: u32) -> Option<MpiStatus> {
        let Some(Local::PartitionedReceive(side)) = self.find_local_mut(handle) else { return None };
        if !side.comes_by_stage() {
            // The stage is looked at now and then: the sender may have put single partitions there.
            for _ in 0..turns.div_ceil(PACKETS) {
                let next = side.await_packet(engine, PACKETS);
                let done = side.finish_at_once();
                if done.is_some() || next == Next::Other {
                    return done;
                }
            }
            return None;
        }
        for _ in 0..turns {
            if let Some(done) = side.finish_at_once() {
                return Some(done);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Whether that is a receive whose partitions have been told where to go.
    pub fn is_expected_in_parts(&self, handle: Handle) -> bool {
        matches!(self.locals.find(handle), Some(Local::PartitionedReceive(side)) if side.has_stage())
    }

    /// The board of a partitioned request, for threads that do not hold the process; `None` when it is of another kind.
    /// `to_mark`: for marks of a send, otherwise for looks at a receive.
    pub fn board(&mut self, handle: Handle, to_mark: bool) -> Option<Arc<Board>> {
        match self.find_local_mut(handle)? {
            Local::PartitionedSend(side) if to_mark => {
                let board = Arc::clone(side.board());
                if !self.watched.marked_by_others.contains(&handle) {
                    self.watched.marked_by_others.push(handle);
                }
                Some(board)
            }
            Local::PartitionedReceive(side) if !to_mark => Some(Arc::clone(side.board())),
            _ => None,
        }
    }

    /// Whether other threads may mark partitions of a send: whoever gives the process back then looks whether they did.
    #[inline]
    pub fn is_marked_by_others(&self) -> bool {
        !self.watched.marked_by_others.is_empty()
    }

    /// Sends what other threads have marked. Errors wait for the completing call.
    pub fn serve_marks(&mut self, engine: &mut Engine) {
        let mut sends = std::mem::take(&mut self.watched.marked_by_others);
        sends.retain(|&handle| {
            let Some(Local::PartitionedSend(side)) = self.find_local_mut(handle) else { return false };
            // Asked first: what a thread marked that has let go of the board meanwhile is seen below. Whoever wants the board
            // again asks for it ([`Requests::board`]).
            let shared = side.is_marked_by_others();
            if side.has_news() {
                side.flush_quietly(engine);
                if side.needs_watching() {
                    self.watched.add(handle);
                }
            }
            shared
        });
        self.watched.marked_by_others = sends;
    }

    /// `MPI_Parrived`, without progress. Null and inactive requests have arrived (section 4.2.2).
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when the request is no partitioned receive, `MPI_ERR_ARG` for a partition that does not exist.
    pub fn arrived(&mut self, engine: &Engine, handle: Handle, partition: i32) -> Result<bool> {
        match self.kind(engine, handle)? {
            Kind::Null => return Ok(true),
            Kind::Local(local) => {
                if let Local::PartitionedReceive(side) = self.local_mut(local) {
                    side.look_closely();
                    return side.arrived(partition);
                }
            }
            Kind::CompleteSend | Kind::Engine(_) | Kind::Lane(_) => {}
        }
        Err(refused(
            ErrorClass::REQUEST,
            "the request is not a partitioned receive; MPI_Parrived takes only those of MPI_Precv_init",
        ))
    }

    /// Does what has become possible for partitioned requests; true when something happened.
    #[inline]
    pub fn progress(&mut self, engine: &mut Engine) -> bool {
        let watched = &self.watched;
        let due = watched.alive != 0
            && (watched.fresh
                || watched.staged
                || watched.seen != engine.changes()
                || !watched.gathering.is_empty());
        due && self.progress_partitioned(engine)
    }

    #[inline(never)]
    fn progress_partitioned(&mut self, engine: &mut Engine) -> bool {
        self.watched.fresh = false;
        self.watched.seen = engine.changes();
        let mut moved = self.meet_senders(engine);
        if !self.watched.gathering.is_empty() {
            self.publish(engine);
        }
        if engine.keeps_messages() {
            moved |= self.take_messages(engine);
        }
        if !self.watched.grants.is_empty() {
            self.take_grants(engine);
        }
        moved |= self.sweep(engine);
        if engine.losses() != self.watched.losses {
            self.watched.losses = engine.losses();
            self.mourn(engine);
        }
        moved
    }

    /// Takes grants, and messages of runs.
    fn take_messages(&mut self, engine: &mut Engine) -> bool {
        let mut moved = false;
        while let Some((message, status)) = engine.improbe(everything_on(ContextId::PARTITION_GRANTS)) {
            moved = true;
            self.watched.grants.extend(Grant::receive(engine, message, status));
        }
        while let Some((message, status)) = engine.improbe(everything_on(ContextId::PARTITION_DATA)) {
            moved = true;
            let buffer = self.room(status).unwrap_or_else(RecvBuf::empty);
            if let Ok(request) = engine.imrecv(message, buffer) {
                self.expect(engine, request, status);
            }
        }
        moved | self.drop_strays(engine)
    }

    /// Takes the grants that are here.
    fn take_grants(&mut self, engine: &mut Engine) {
        for grant in std::mem::take(&mut self.watched.grants) {
            if engine.is_complete(grant.request) {
                let stage = grant.word(engine);
                self.granted(engine, grant.sender, grant.answer, stage);
            } else {
                self.watched.grants.push(grant);
                self.watched.fresh = true;
            }
        }
    }

    /// Drops partitions that came as messages for receives that were freed before they were started for them: nobody else would
    /// take them, and they would keep their sender's budget. One that is awaited hides those behind it until it is received.
    fn drop_strays(&mut self, engine: &mut Engine) -> bool {
        let mut moved = false;
        while let Some(status) = engine.iprobe(everything_on(ContextId::PARTITIONS)) {
            let name = status.source.0;
            // Landings are numbers below those of handles.
            let awaited = match Handle(name).kind_bits() {
                0 => engine.landing_exists(LandingId(name)),
                _ => self.find_local_mut(Handle(name)).is_some(),
            };
            if awaited {
                break;
            }
            let Some((message, _)) = engine.improbe(everything_on(ContextId::PARTITIONS)) else { break };
            if let Ok(request) = engine.imrecv(message, RecvBuf::empty()) {
                engine.release(request);
            }
            moved = true;
        }
        moved
    }

    /// Processes were lost: what waits for one of them waits no longer.
    #[cold]
    fn mourn(&mut self, engine: &mut Engine) {
        for (_, local) in self.locals.iter_mut() {
            match local {
                Local::PartitionedSend(side) => side.mourn(engine),
                Local::PartitionedReceive(side) => side.mourn(engine),
                _ => {}
            }
        }
    }

    /// Grants the started receives whose introduction has come.
    fn meet_senders(&mut self, engine: &mut Engine) -> bool {
        let mut lonely = std::mem::take(&mut self.watched.lonely);
        let before = lonely.len();
        lonely.retain(|&handle| {
            let Some(Local::PartitionedReceive(side)) = self.find_local_mut(handle) else { return false };
            let met = side.meet(engine, handle);
            side.publish();
            if side.needs_watching() {
                self.watched.add(handle);
            }
            !met
        });
        let moved = lonely.len() != before;
        self.watched.lonely = lonely;
        moved
    }

    fn granted(&mut self, engine: &mut Engine, sender: Rank, answer: Answer, stage: Option<u64>) {
        let handle = Handle(sender.0);
        // A grant for a request that was freed is for nobody.
        let Some(Local::PartitionedSend(side)) = self.find_local_mut(handle) else {
            return stage.into_iter().for_each(|word| engine.refuse_stage(word));
        };
        side.granted(engine, answer, stage);
        side.flush_quietly(engine);
        if side.needs_watching() {
            self.watched.add(handle);
        }
    }

    /// Where data go; `None` when the request is gone or they do not fit it, which no right sender causes.
    fn room(&mut self, status: Status) -> Option<RecvBuf> {
        match self.find_local_mut(Handle(status.source.0)) {
            Some(Local::PartitionedReceive(side)) => side.room(status),
            _ => None,
        }
    }

    fn expect(&mut self, engine: &mut Engine, request: RequestId, status: Status) {
        let handle = Handle(status.source.0);
        let Some(Local::PartitionedReceive(side)) = self.find_local_mut(handle) else {
            return engine.release(request);
        };
        side.expect(request, status);
        if side.needs_watching() {
            self.watched.add(handle);
        }
    }

    /// Sends partitions that are kept.
    fn publish(&mut self, engine: &mut Engine) {
        let mut gathering = std::mem::take(&mut self.watched.gathering);
        gathering.retain(|&handle| {
            let Some(Local::PartitionedSend(side)) = self.find_local_mut(handle) else { return false };
            let again = side.publish(engine);
            if side.needs_watching() {
                self.watched.add(handle);
            }
            again
        });
        self.watched.gathering = gathering;
    }

    /// Takes the engine's requests that have ended.
    fn sweep(&mut self, engine: &mut Engine) -> bool {
        let mut moving = std::mem::take(&mut self.watched.moving);
        let (mut moved, mut staged) = (false, false);
        moving.retain(|&handle| {
            let (some, more) = match self.find_local_mut(handle) {
                Some(Local::PartitionedSend(side)) => side.sweep(engine),
                Some(Local::PartitionedReceive(side)) => {
                    let swept = side.sweep(engine);
                    staged |= side.awaits_stage();
                    swept
                }
                _ => (false, false),
            };
            moved |= some;
            more
        });
        self.watched.moving = moving;
        self.watched.staged = staged;
        moved
    }
}

/// A grant whose bytes are on their way: the word of a stage. Where the receiver is out of budget they come after the envelope.
#[derive(Debug)]
struct Grant {
    /// The sender's request.
    sender: Rank,
    answer: Answer,
    request: RequestId,
    room: Arc<Scratch>,
}

impl Grant {
    /// Receives a grant; `None` when somebody has received it, which nobody does.
    fn receive(engine: &mut Engine, message: MessageId, status: Status) -> Option<Grant> {
        let room = Scratch::new(size_of::<u64>());
        let request = engine.imrecv(message, room.recv_buf(0, size_of::<u64>())).ok()?;
        Some(Grant { sender: status.source, answer: Answer::from_tag(status.tag), request, room })
    }

    /// The word of the stage of a grant that is here, when it has one.
    fn word(&self, engine: &mut Engine) -> Option<u64> {
        let mut word = [0; size_of::<u64>()];
        let done = engine.take(self.request);
        self.room.send_buf(0, word.len()).pack(0, &mut word);
        (done.error.is_none() && done.status.bytes == word.len() as u64).then(|| u64::from_le_bytes(word))
    }
}

#[cold]
fn no_partitioned_send() -> Error {
    refused(
        ErrorClass::REQUEST,
        "the request is not a partitioned send; only those of MPI_Psend_init have partitions to mark",
    )
}
