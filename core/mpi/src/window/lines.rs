//! What the owner's device does for the owner ([`super::changing`]), and what waits for that: the messages of one origin behind its
//! own accumulating operation, in their order, and what this process does to its own window. Those of others go on.
//!
//! So operations of one origin are executed in its order (section 12.7.2), an answer, the end of a lock or of an epoch is told when
//! everything before it is done, and nobody waits for the device but who has asked for it.

use super::Window;
use super::changing::{Changing, Try};
use super::message::Message;
use super::origin::Operation;
use super::target::copy_of;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_datatype::{RecvBuf, Scratch};
use weft_engine::{Engine, RemoteMemory, RequestId, Started};
use weft_types::{Error, Result};

/// Elements of one operation that the device has at a time.
const DEPTH: usize = 16;

/// What one origin waits for here.
#[derive(Debug, Default)]
pub(super) struct Line {
    at_work: Option<Box<Work>>,
    behind: VecDeque<Behind>,
}

/// Something that waits until what is before it is done.
#[derive(Debug)]
pub(super) enum Behind {
    /// A message.
    Message(Arc<Scratch>),
    /// An operation for the device.
    Changes(Box<Work>),
    /// This process lets its own lock go.
    Unlock,
    /// An access epoch of this process to itself is over.
    Complete,
}

/// Who is told when an operation is over.
#[derive(Debug)]
pub(super) enum End {
    /// Its origin, by what answers a later message.
    Later,
    /// Its origin, with what the elements were before: the number of the message.
    Back(u32),
    /// This process: an operation, and room for what the elements were before, if that is wanted.
    Own(Operation, Option<RecvBuf>),
}

/// An operation under way.
#[derive(Debug)]
pub(super) struct Work {
    changing: Changing,
    end: End,
    /// What the device has, the oldest first; what each finds goes to a word of the room in turn.
    under_way: VecDeque<(Try, RequestId, usize)>,
    room: Arc<Scratch>,
    begun: usize,
    failed: Option<Error>,
}

impl Work {
    fn new(changing: Changing, end: End) -> Work {
        let room = Scratch::new(DEPTH * 8);
        Work { changing, end, under_way: VecDeque::new(), room, begun: 0, failed: None }
    }

    /// Takes what the device has done, and gives it more; true when something moved.
    fn drive(&mut self, engine: &mut Engine, window: RemoteMemory) -> bool {
        let mut moved = false;
        while let Some(&(done, request, place)) = self.under_way.front()
            && engine.is_complete(request)
        {
            self.under_way.pop_front();
            moved = true;
            let error = engine.take(request).error;
            let mut found = [0; 8];
            self.room.send_buf(place, 8).pack(0, &mut found);
            let result = error.map_or_else(|| self.changing.found(done, u64::from_ne_bytes(found)), Err);
            self.note(result);
        }
        while self.under_way.len() < DEPTH && self.failed.is_none() {
            let begun = self.begin(engine, window);
            if let Ok(false) = begun {
                break;
            }
            moved = true;
            self.note(begun.map(drop));
        }
        moved
    }

    /// Has the device begin with another element. False: there is none now.
    fn begin(&mut self, engine: &mut Engine, window: RemoteMemory) -> Result<bool> {
        let Some(next) = self.changing.next()? else { return Ok(false) };
        let place = self.begun % DEPTH * 8;
        let at = window.plus(next.place as u64);
        match engine.change_own(at, next.change, self.room.recv_buf(place, 8))? {
            Started::Pending(request) => {
                self.under_way.push_back((next, request, place));
                self.begun += 1;
                Ok(true)
            }
            Started::Complete => Err(Error::internal("a device has answered before it was asked")),
        }
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}

impl Window {
    /// Whether something of an origin, or of this process itself, is not over.
    pub(super) fn is_in_line(&self, origin: u32) -> bool {
        self.incoming.lines.contains_key(&origin)
    }

    /// Something of an origin comes after everything that it waits for.
    pub(super) fn wait_in_line(&mut self, engine: &mut Engine, origin: u32, behind: Behind) {
        self.incoming.lines.entry(origin).or_default().behind.push_back(behind);
        self.go_on(engine, origin);
    }

    /// What an accumulating message asks for, with nothing of its origin before it, is the device's: it begins in the next round.
    pub(super) fn change_in_line(&mut self, origin: u32, changing: Changing, end: End) {
        self.incoming.lines.entry(origin).or_default().at_work = Some(Box::new(Work::new(changing, end)));
    }

    /// Moves everything that waits for the device; true when something moved.
    pub(super) fn tend_lines(&mut self, engine: &mut Engine) -> bool {
        if self.incoming.lines.is_empty() {
            return false;
        }
        let origins: Vec<u32> = self.incoming.lines.keys().copied().collect();
        origins.into_iter().fold(false, |moved, origin| self.go_on(engine, origin) | moved)
    }

    /// Moves what is first, and what follows it as long as nothing waits.
    fn go_on(&mut self, engine: &mut Engine, origin: u32) -> bool {
        let (mut moved, window) = (false, self.own_place());
        while let Some(line) = self.incoming.lines.get_mut(&origin) {
            if let Some(mut work) = line.at_work.take() {
                moved |= work.drive(engine, window);
                if !work.under_way.is_empty() {
                    line.at_work = Some(work);
                    return moved;
                }
                self.over(engine, origin, *work);
                continue;
            }
            moved = true;
            match line.behind.pop_front() {
                Some(Behind::Changes(work)) => line.at_work = Some(work),
                Some(Behind::Message(room)) => self.read(engine, origin, &room),
                Some(Behind::Unlock) => self.release_own_lock(engine),
                Some(Behind::Complete) => *self.incoming.completes.entry(origin).or_default() += 1,
                None => drop(self.incoming.lines.remove(&origin)),
            }
        }
        moved
    }

    /// An operation is over.
    fn over(&mut self, engine: &mut Engine, origin: u32, work: Work) {
        let Work { changing, end, failed, .. } = work;
        match (end, failed) {
            (End::Later, Some(error)) => self.incoming.failures.push((origin, error.class())),
            (End::Later, None) => {}
            // Too few of them tell the origin.
            (End::Back(id), Some(_)) => self.send_back(engine, origin, id, copy_of(&[])),
            (End::Back(id), None) => self.send_back(engine, origin, id, copy_of(&changing.into_old())),
            (End::Own(operation, room), failed) => {
                match (room, failed) {
                    (_, Some(error)) => self.outgoing.fail(&operation, error),
                    (Some(mut room), None) => room.unpack(0, &changing.into_old()),
                    (None, None) => {}
                }
                operation.left.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Executes an accumulating message of this process to itself; what the elements were before goes to `room`, now or when the
    /// operation is done.
    pub(super) fn execute_own(
        &mut self,
        engine: &mut Engine,
        message: &Message<'_>,
        room: Option<RecvBuf>,
        operation: &Operation,
    ) -> Result<()> {
        if let Some(changing) = self.exposure.for_device(message)? {
            operation.left.fetch_add(1, Ordering::Relaxed);
            let work = Work::new(changing, End::Own(Arc::clone(operation), room));
            self.wait_in_line(engine, self.rank.0, Behind::Changes(Box::new(work)));
            return Ok(());
        }
        let old = self.exposure.execute(message)?;
        if let Some(mut room) = room {
            room.unpack(0, &old);
        }
        Ok(())
    }

    /// Lets go of what the device was asked for, before the window goes.
    pub(super) fn release_lines(&mut self, engine: &mut Engine) {
        for work in std::mem::take(&mut self.incoming.lines).into_values().filter_map(|line| line.at_work) {
            work.under_way.into_iter().for_each(|(_, request, _)| engine.release(request));
        }
    }
}
