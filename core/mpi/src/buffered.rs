//! Buffered sends (section 3.6): the message is copied, so the call never waits for the receiver.
//!
//! The copy lies in memory of the library; the buffer the program attached bounds how much may be under way, counted as the
//! standard's model counts it (data plus `MPI_BSEND_OVERHEAD` for each message). Its bytes are never touched.

use crate::process::Process;
use weft_datatype::{Scratch, SendBuf};
use weft_engine::{Engine, Envelope, RequestId, SendMode, Started};
use weft_types::{Error, ErrorClass, Handle, Result, abi};

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

/// The buffers attached, and the messages under way in them.
#[derive(Debug, Default)]
pub struct Buffers {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    owner: Owner,
    attached: Attached,
    under_way: Vec<(RequestId, u64)>,
}

/// Whose buffer it is: the process's, or a communicator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// `MPI_Buffer_attach`
    Process,
    /// `MPI_Comm_attach_buffer`
    Comm(Handle),
}

impl Buffers {
    fn level(&mut self, owner: Owner) -> Option<&mut Level> {
        self.levels.iter_mut().find(|level| level.owner == owner)
    }

    /// Attaches a buffer.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when one is attached already.
    pub fn attach(&mut self, owner: Owner, attached: Attached) -> Result<()> {
        if self.level(owner).is_some() {
            return Err(Error::new(
                ErrorClass::BUFFER,
                "a buffer is attached already; detach it before attaching another",
            ));
        }
        self.levels.push(Level { owner, attached, under_way: Vec::new() });
        Ok(())
    }

    /// Whether a buffer is attached.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when none is.
    pub fn check_attached(&mut self, owner: Owner) -> Result<()> {
        match self.level(owner) {
            Some(_) => Ok(()),
            None => Err(Error::new(
                ErrorClass::BUFFER,
                "no buffer is attached, so there is none to detach or flush",
            )),
        }
    }

    /// Whether every message of the buffer is on its way out; for detach and flush, which wait for that.
    pub fn is_flushed(&mut self, engine: &mut Engine, owner: Owner) -> bool {
        self.level(owner).is_none_or(|level| {
            level.sweep(engine);
            level.under_way.is_empty()
        })
    }

    /// The messages of the buffer that have not left yet.
    pub fn under_way(&mut self, owner: Owner) -> Vec<RequestId> {
        self.level(owner).map_or_else(Vec::new, |level| level.under_way.iter().map(|&(id, _)| id).collect())
    }

    /// Takes a flushed buffer away.
    pub fn detach(&mut self, owner: Owner) -> Option<Attached> {
        let index = self.levels.iter().position(|level| level.owner == owner)?;
        Some(self.levels.swap_remove(index).attached)
    }

    /// Buffers that were not detached, and whose they are.
    pub(crate) fn left(&self) -> impl Iterator<Item = (&'static str, Attached)> {
        self.levels.iter().map(|level| {
            let owner = match level.owner {
                Owner::Process => "the process",
                Owner::Comm(_) => "a communicator",
            };
            (owner, level.attached)
        })
    }

    /// All levels in use, for finalisation.
    pub fn is_all_flushed(&mut self, engine: &mut Engine) -> bool {
        self.levels.iter_mut().all(|level| {
            level.sweep(engine);
            level.under_way.is_empty()
        })
    }
}

impl Level {
    /// Forgets the messages that have left.
    fn sweep(&mut self, engine: &mut Engine) {
        self.under_way.retain(|&(request, _)| {
            if engine.is_complete(request) {
                engine.take(request);
                return false;
            }
            true
        });
    }
}

impl Process {
    /// Sends a copy of the message.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when the attached buffer has no room for it.
    pub fn buffered_send(&mut self, comm: Handle, to: Envelope, buffer: &SendBuf) -> Result<()> {
        let bytes = buffer.len();
        let needed = bytes as u64 + abi::MPI_BSEND_OVERHEAD as u64;
        let owner = match self.buffers.level(Owner::Comm(comm)) {
            Some(_) => Owner::Comm(comm),
            None => Owner::Process,
        };
        let Some(level) = self.buffers.level(owner) else {
            return Err(full(needed, 0, 0));
        };
        level.sweep(&mut self.engine);
        let used: u64 = level.under_way.iter().map(|&(_, bytes)| bytes).sum();
        let attached = level.attached;
        if !attached.automatic && needed > attached.size.saturating_sub(used) {
            return Err(full(needed, attached.size, used));
        }
        let copy = Scratch::new(bytes);
        let mut room = copy.recv_buf(0, bytes);
        if let Some(room) = room.as_mut_slice() {
            buffer.pack(0, room);
        }
        if let Started::Pending(request) =
            self.engine.send(to, SendMode::Standard, copy.send_buf(0, bytes))?
        {
            level.under_way.push((request, needed));
        }
        Ok(())
    }
}

#[cold]
fn full(needed: u64, size: u64, used: u64) -> Error {
    Error::new(
        ErrorClass::BUFFER,
        format!(
            "the message needs {needed} bytes of buffer (data and MPI_BSEND_OVERHEAD), but of the {size} bytes attached {used} \
             are in use; attach a larger buffer with MPI_Buffer_attach, or MPI_BUFFER_AUTOMATIC"
        ),
    )
}
