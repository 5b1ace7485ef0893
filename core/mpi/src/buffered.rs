//! Buffered sends (section 3.6): the message is copied, so the call never waits for the receiver.
//!
//! The copy lies in memory of the library; the buffer the program attached bounds how much may be under way: the data and [`ENTRY`]
//! for each message. Its bytes are never touched. The model of section 3.6.1 wants contiguous room, up to `MPI_BSEND_OVERHEAD` for
//! each message, and frees in order of the sends only, so what fits there fits here.
//!
//! A message has left when this process knows so, and word that a receiver took one may still be on its way when it could be known from
//! a third process (a barrier). So who finds no room may ask the receivers of what is in the buffer ([`Process::ask_for_room`]): when
//! they have answered, what they had received before has left. Asking sends; who waits for the answers does so outside, and not for ever, since a
//! buffered send is local.

use crate::lanes::Lanes;
use crate::process::Process;
use crate::request::{Local, engine_handle};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_datatype::{Scratch, SendBuf};
use weft_engine::{Engine, Envelope, RequestId, SendMode, Started};
use weft_types::{Error, ErrorClass, Handle, Result};

/// Bytes that a message takes of the buffer beside its data. `MPI_BSEND_OVERHEAD` is only the most it may take, and 512 in the
/// standard ABI; buffers that were measured with another library's constant (96 to 128) serve here, too.
const ENTRY: u64 = 64;

/// A buffer attached at one level: its address as the program gave it, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Address, given back by detach.
    pub address: usize,
    /// Bytes; for automatic buffering meaningless.
    pub size: u64,
    /// `MPI_BUFFER_AUTOMATIC`: no bound.
    pub automatic: bool,
}

/// Whose buffer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// `MPI_Buffer_attach`
    Process,
    /// `MPI_Session_attach_buffer`
    Session(Handle),
    /// `MPI_Comm_attach_buffer`
    Comm(Handle),
}

/// Number of a buffered message, in the order of the sends; never repeated.
pub type Serial = u64;

/// Everything that was in one buffer at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    owner: Owner,
    last: Serial,
}

/// The buffers attached, and the messages under way in them.
#[derive(Debug, Default)]
pub struct Buffers {
    levels: Vec<Level>,
    /// Oldest first. Complete ones stay until a sweep.
    messages: VecDeque<Message>,
    last: Serial,
    /// Number of messages at which the next sweep is due, so that each is looked at a constant number of times.
    sweep_at: usize,
    /// The buffer that had no room for the last send, though it would have if it were empty, and the bytes needed.
    lacking: Option<(Owner, u64)>,
    lanes: Arc<Lanes>,
}

/// Receivers were asked what of a buffer they have received.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What was in the buffer.
    pub content: Content,
    needed: u64,
}

#[derive(Debug)]
struct Level {
    owner: Owner,
    attached: Attached,
    /// Bytes charged for messages that no sweep has found complete.
    used: u64,
}

#[derive(Debug)]
struct Message {
    serial: Serial,
    owner: Owner,
    request: RequestId,
    charged: u64,
    /// A request of the program waits to hear whether it was cancelled; it stays until then.
    watched: bool,
}

const SWEEP_AT_LEAST: usize = 64;

/// Whether a message has been transmitted, in whatever lane.
fn has_left(engine: &Engine, lanes: &Lanes, request: RequestId) -> bool {
    match request.lane() {
        0 => engine.is_complete(request),
        lane => lanes.at(lane).with(|inner| inner.engine.is_complete(request.local())),
    }
}

/// Lends the engine of a message.
fn lend<R>(
    engine: &mut Engine,
    lanes: &Lanes,
    request: RequestId,
    work: impl FnOnce(&mut Engine, RequestId) -> R,
) -> R {
    match request.lane() {
        0 => work(engine, request),
        lane => lanes.at(lane).with(|inner| work(&mut inner.engine, request.local())),
    }
}

impl Buffers {
    /// None, of a process with these lanes.
    pub fn of(lanes: &Arc<Lanes>) -> Buffers {
        Buffers { lanes: Arc::clone(lanes), ..Buffers::default() }
    }

    fn level(&self, owner: Owner) -> Option<&Level> {
        self.levels.iter().find(|level| level.owner == owner)
    }

    fn level_mut(&mut self, owner: Owner) -> Option<&mut Level> {
        self.levels.iter_mut().find(|level| level.owner == owner)
    }

    /// Attaches a buffer.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when one is attached already, or when it has bytes but no address.
    pub fn attach(&mut self, owner: Owner, attached: Attached) -> Result<()> {
        if self.level(owner).is_some() {
            return Err(Error::new(
                ErrorClass::BUFFER,
                "a buffer is attached already; detach it before attaching another",
            ));
        }
        if attached.address == 0 && attached.size > 0 {
            return Err(Error::new(
                ErrorClass::BUFFER,
                format!("the buffer is a null pointer, but size is {}", attached.size),
            ));
        }
        self.levels.push(Level { owner, attached, used: 0 });
        Ok(())
    }

    /// What is in the buffer now; for detach and flush, which wait for that and no more.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when none is attached.
    pub fn content(&self, owner: Owner) -> Result<Content> {
        match self.level(owner) {
            Some(_) => Ok(Content { owner, last: self.last }),
            None => Err(Error::new(
                ErrorClass::BUFFER,
                "no buffer is attached, so there is none to detach or flush",
            )),
        }
    }

    /// Whether all of that has been transmitted.
    pub fn is_flushed(&self, engine: &Engine, content: Content) -> bool {
        self.messages
            .iter()
            .take_while(|message| message.serial <= content.last)
            .all(|message| message.owner != content.owner || has_left(engine, &self.lanes, message.request))
    }

    /// What of that has not been transmitted.
    pub fn awaited(&self, engine: &Engine, content: Content) -> Vec<RequestId> {
        let messages = self.messages.iter().take_while(|message| message.serial <= content.last);
        let awaited = messages.filter(|message| {
            message.owner == content.owner && !has_left(engine, &self.lanes, message.request)
        });
        awaited.map(|message| message.request).collect()
    }

    /// Takes a flushed buffer away.
    pub fn detach(&mut self, owner: Owner) -> Option<Attached> {
        let index = self.levels.iter().position(|level| level.owner == owner)?;
        for message in self.messages.iter_mut().filter(|message| message.owner == owner) {
            // The next buffer of this owner owes nothing for them.
            message.charged = 0;
        }
        Some(self.levels.swap_remove(index).attached)
    }

    /// Buffers that were not detached, and whose they are.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&'static str, Attached)> {
        self.levels.iter().map(|level| {
            let owner = match level.owner {
                Owner::Process => "the process",
                Owner::Comm(_) => "a communicator",
                Owner::Session(_) => "a session",
            };
            (owner, level.attached)
        })
    }

    /// Asks the receivers of what is in the buffer; whether any was asked that has not been asked before.
    fn ask(&self, engine: &mut Engine, owner: Owner) -> bool {
        let (lanes, mut asked) = (&self.lanes, false);
        for message in self.messages.iter().filter(|message| message.owner == owner) {
            asked |= lend(engine, lanes, message.request, Engine::ask_about);
        }
        asked
    }

    /// Whether one of those has not answered.
    fn is_asking(&self, engine: &mut Engine, owner: Owner) -> bool {
        let mut messages = self.messages.iter().filter(|message| message.owner == owner);
        let open = |engine: &mut Engine, request| engine.is_asked_about(request);
        messages.any(|message| lend(engine, &self.lanes, message.request, open))
    }

    /// Whether every buffered message of the process has been transmitted; for finalisation.
    pub fn is_all_flushed(&mut self, engine: &mut Engine) -> bool {
        self.sweep(engine);
        self.messages.iter().all(|message| has_left(engine, &self.lanes, message.request))
    }

    /// Forgets the messages that have left.
    fn sweep(&mut self, engine: &mut Engine) {
        let (levels, lanes) = (&mut self.levels, &self.lanes);
        self.messages.retain_mut(|message| {
            if !has_left(engine, lanes, message.request) {
                return true;
            }
            if let Some(level) = levels.iter_mut().find(|level| level.owner == message.owner) {
                level.used -= std::mem::take(&mut message.charged);
            }
            if !message.watched {
                lend(engine, lanes, message.request, Engine::take);
            }
            message.watched
        });
        self.sweep_at = (2 * self.messages.len()).max(SWEEP_AT_LEAST);
    }

    fn find(&mut self, serial: Serial) -> Option<&mut Message> {
        let index = self.messages.binary_search_by_key(&serial, |message| message.serial).ok()?;
        self.messages.get_mut(index)
    }

    /// Marks a message for cancellation (section 3.8.4). False when it has left already.
    pub fn cancel(&mut self, engine: &mut Engine, serial: Serial) -> bool {
        let Some(message) = self.find(serial) else { return false };
        message.watched = true;
        let request = message.request;
        lend(engine, &self.lanes, request, Engine::cancel);
        true
    }

    /// Whether a message has left, or was cancelled.
    pub fn is_over(&self, engine: &Engine, serial: Serial) -> bool {
        match self.messages.binary_search_by_key(&serial, |message| message.serial) {
            Ok(index) => has_left(engine, &self.lanes, self.messages[index].request),
            Err(_) => true,
        }
    }

    /// Whether a message marked for cancellation was cancelled; known once it is over.
    pub fn was_cancelled(&self, engine: &Engine, serial: Serial) -> bool {
        let index = self.messages.binary_search_by_key(&serial, |message| message.serial);
        let message = index.ok().and_then(|index| {
            let request = self.messages[index].request;
            match request.lane() {
                0 => engine.peek(request),
                lane => self.lanes.at(lane).with(|inner| inner.engine.peek(request.local())),
            }
        });
        message.is_some_and(|completion| completion.status.cancelled)
    }

    /// Nobody asks any more what became of a message.
    pub fn forget(&mut self, serial: Serial) {
        if let Some(message) = self.find(serial) {
            message.watched = false;
        }
    }
}

impl Process {
    /// Sends a copy of the message. The request is complete from the start, and can be cancelled.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when the buffer that serves the communicator has no room for the message; errors of the send.
    pub fn buffered_send(&mut self, comm: Handle, to: Envelope, buffer: &SendBuf) -> Result<Handle> {
        let lane = self.comms.get(comm)?.lane;
        self.buffered_send_in(lane, comm, to, buffer)
    }

    /// As [`Process::buffered_send`], of a communicator in `lane` that may be freed by now.
    pub(crate) fn buffered_send_in(
        &mut self,
        lane: u32,
        comm: Handle,
        to: Envelope,
        buffer: &SendBuf,
    ) -> Result<Handle> {
        let bytes = buffer.len();
        let needed = bytes as u64 + ENTRY;
        let owner = self.buffer_of(comm);
        self.requests.buffers.lacking = None;
        if let Err(full) = self.check_room(owner, needed) {
            // What the receivers took meanwhile makes room; nobody may have looked since, in whatever lane the messages are.
            let messages = self.requests.buffers.messages.iter().filter(|message| message.owner == owner);
            let mut lanes: Vec<u32> = messages.map(|message| message.request.lane()).collect();
            lanes.push(lane);
            lanes.sort_unstable();
            lanes.dedup();
            lanes.retain(|&lane| lane != 0);
            for _ in 0..64 {
                let elsewhere =
                    lanes.iter().fold(false, |moved, &lane| self.on_lane(lane, Engine::progress) | moved);
                if !self.progress() && !elsewhere {
                    break;
                }
            }
            self.requests.buffers.sweep(&mut self.engine);
            if self.check_room(owner, needed).is_err() {
                let level = self.requests.buffers.level(owner);
                let fits = level.is_some_and(|level| needed <= level.attached.size);
                self.requests.buffers.lacking = fits.then_some((owner, needed));
                return Err(full);
            }
        }
        let copy = Scratch::new(bytes);
        let mut room = copy.recv_buf(0, bytes);
        if let Some(room) = room.as_mut_slice() {
            buffer.pack(0, room);
        }
        let copy = copy.send_buf(0, bytes);
        let started = self.on_lane(lane, |engine| {
            let started = engine.send(to, SendMode::Standard, copy)?;
            if let Started::Pending(request) = started {
                engine.tag_request(request, comm.0);
                // The program has no call that could return its error.
                engine.tell_failure_of(request);
            }
            Ok(started)
        })?;
        let complete = engine_handle(RequestId::COMPLETE);
        let Started::Pending(request) = started else { return Ok(complete) };
        let request = request.in_lane(lane);
        let buffers = &mut self.requests.buffers;
        buffers.last += 1;
        let serial = buffers.last;
        buffers.messages.push_back(Message { serial, owner, request, charged: needed, watched: false });
        if let Some(level) = buffers.level_mut(owner) {
            level.used += needed;
        }
        if buffers.messages.len() >= buffers.sweep_at.max(SWEEP_AT_LEAST) {
            buffers.sweep(&mut self.engine);
        }
        // Without room for a request of its own the send is as complete, but cannot be cancelled.
        Ok(self.requests.insert(Local::Buffered { serial, cancelling: false }).unwrap_or(complete))
    }

    /// The last buffered send found no room: asks the receivers of what is in the buffer what they have received. `None` where
    /// nothing came of it: the message is larger than the buffer, or all were asked before and have not answered.
    pub fn ask_for_room(&mut self) -> Option<Question> {
        let (owner, needed) = self.requests.buffers.lacking.take()?;
        let content = self.requests.buffers.content(owner).ok()?;
        let asked = self.requests.buffers.ask(&mut self.engine, owner);
        asked.then_some(Question { content, needed })
    }

    /// Whether there is room now, or all receivers have answered. No progress.
    pub fn is_answered(&mut self, question: &Question) -> bool {
        let owner = question.content.owner;
        self.requests.buffers.sweep(&mut self.engine);
        self.check_room(owner, question.needed).is_ok()
            || !self.requests.buffers.is_asking(&mut self.engine, owner)
    }

    /// The one buffer that serves a communicator at this moment: its own, else its session's, else the process's.
    fn buffer_of(&self, comm: Handle) -> Owner {
        let session = || self.sessions.origin(comm).map(Owner::Session);
        let attached = |owner: &Owner| self.requests.buffers.level(*owner).is_some();
        Some(Owner::Comm(comm))
            .filter(attached)
            .or_else(|| session().filter(attached))
            .unwrap_or(Owner::Process)
    }

    fn check_room(&self, owner: Owner, needed: u64) -> Result<()> {
        let Some(level) = self.requests.buffers.level(owner) else { return Err(full(needed, 0, 0)) };
        let Attached { size, automatic, .. } = level.attached;
        if automatic || needed <= size.saturating_sub(level.used) {
            return Ok(());
        }
        Err(full(needed, size, level.used))
    }
}

#[cfg(test)]
mod tests;

#[cold]
fn full(needed: u64, size: u64, used: u64) -> Error {
    Error::new(
        ErrorClass::BUFFER,
        format!(
            "the message needs {needed} bytes of buffer, but of the {size} bytes attached {used} are in use; attach a larger buffer with \
             MPI_Buffer_attach (MPI_BSEND_OVERHEAD for each message and its data), or MPI_BUFFER_AUTOMATIC"
        ),
    )
}
