//! Letters: messages between processes that build a communicator together and have no channel of their own for it
//! (section 7.4.2: "messages arriving in a context that has not yet been allocated at the receiver").
//!
//! A letter is addressed by a *key* of any length, which names the construction: kind, parent's channel, the user's tag or
//! string tag, exactly and in full. So constructions that run at once never see each other's letters, whatever tags the user
//! chose. All letters travel on one channel of their own, [`ContextId::LETTERS`]; whoever waits for one takes in all that have
//! arrived and keeps those of others. Between two processes, letters with one key arrive in the order they were sent.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weft_datatype::Scratch;
use weft_engine::{Engine, Envelope, MessageId, RequestId, Selector, SendMode, Started};
use weft_types::{ContextId, Error, ErrorClass, PeerId, Rank, Result, Tag};

/// What a letter is about; the same at sender and receiver.
pub(crate) type Key = Arc<[u8]>;

/// Letters that have arrived and letters under way, of one process.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    arriving: VecDeque<Arriving>,
    kept: HashMap<(PeerId, Key), VecDeque<Box<[u8]>>>,
    /// Those about lanes, from whomever.
    about_lanes: Vec<(PeerId, Box<[u8]>)>,
    /// The engine's count of changes at the last look for those: as long as it stays the same nothing has come.
    looked: Option<u32>,
    numbers: u64,
}

#[derive(Debug)]
struct Arriving {
    from: PeerId,
    request: RequestId,
    room: Arc<Scratch>,
}

/// What letters about lanes are named by ([`crate::wide`]): no kind of construction has that number.
const LANES: &[u8] = b"L";

const EVERYTHING: Selector = Selector { context: ContextId::LETTERS, peer: None, source: None, tag: None };

impl Letters {
    /// Sends a letter. Local.
    ///
    /// # Errors
    /// As [`Engine::send`].
    pub(crate) fn send(engine: &mut Engine, to: PeerId, key: &Key, body: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(4 + key.len() + body.len());
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(body);
        let source = Rank(engine.config().me.0);
        let envelope = Envelope { peer: to, context: ContextId::LETTERS, source, tag: Tag(0) };
        let copy = Scratch::new(bytes.len());
        copy.recv_buf(0, bytes.len()).unpack(0, &bytes);
        if let Started::Pending(request) =
            engine.send(envelope, SendMode::Standard, copy.send_buf(0, bytes.len()))?
        {
            engine.release(request);
        }
        Ok(())
    }

    /// Sends a letter about lanes. Local.
    ///
    /// # Errors
    /// As [`Engine::send`].
    pub(crate) fn send_about_lanes(&self, engine: &mut Engine, to: PeerId, body: &[u8]) -> Result<()> {
        Letters::send(engine, to, &LANES.into(), body)
    }

    /// The letters about lanes that have arrived.
    pub(crate) fn about_lanes(&mut self, engine: &mut Engine) -> Vec<(PeerId, Box<[u8]>)> {
        let changes = engine.changes();
        if self.looked.replace(changes) != Some(changes) {
            // Of what breaks off, and of what is no letter, whoever waits for it is told by others.
            let _ = self.collect(engine);
        }
        std::mem::take(&mut self.about_lanes)
    }

    /// A number that this process gives once.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The next letter from `from` with that key, if it has arrived.
    ///
    /// # Errors
    /// `MPI_ERR_PROC_ABORTED` when the sender is gone, `MPI_ERR_INTERN` for bytes that are no letter; errors of the engine.
    pub(crate) fn take(&mut self, engine: &mut Engine, from: PeerId, key: &Key) -> Result<Option<Box<[u8]>>> {
        self.collect(engine)?;
        let place = (from, Arc::clone(key));
        if let Some(queue) = self.kept.get_mut(&place) {
            let letter = queue.pop_front();
            if queue.is_empty() {
                self.kept.remove(&place);
            }
            return Ok(letter);
        }
        let arrives = self.arriving.iter().any(|arriving| arriving.from == from);
        match engine.is_lost(from) && !arrives {
            true => Err(Error::new(
                ErrorClass::PROC_ABORTED,
                format!("process {} ended while a communicator was being made with it", from.0),
            )),
            false => Ok(None),
        }
    }

    /// Takes in what has arrived. What is broken, or breaks off, does not keep back what lies behind it: its error comes last.
    fn collect(&mut self, engine: &mut Engine) -> Result<()> {
        let mut end = Ok(());
        while let Some((message, status)) = engine.improbe(EVERYTHING) {
            end = end.and(self.receive(engine, message, PeerId(status.source.0), status.bytes as usize));
        }
        // In order of arrival, so that letters of one sender keep theirs.
        while let Some(first) = self.arriving.front()
            && engine.is_complete(first.request)
        {
            let Some(arrived) = self.arriving.pop_front() else { break };
            end = end.and(self.open(engine, arrived));
        }
        end
    }

    fn open(&mut self, engine: &mut Engine, Arriving { from, request, room }: Arriving) -> Result<()> {
        if let Some(error) = engine.take(request).error {
            return Err(error);
        }
        let mut bytes = vec![0; room.len()];
        room.send_buf(0, room.len()).pack(0, &mut bytes);
        let mut reader = Reader::new(&bytes);
        let length = reader.number()? as usize;
        let key = reader.bytes(length)?;
        match key == LANES {
            true => self.about_lanes.push((from, reader.rest().into())),
            false => self.kept.entry((from, key.into())).or_default().push_back(reader.rest().into()),
        }
        Ok(())
    }

    fn receive(&mut self, engine: &mut Engine, message: MessageId, from: PeerId, bytes: usize) -> Result<()> {
        let room = Scratch::new(bytes);
        let request = engine.imrecv(message, room.recv_buf(0, bytes))?;
        self.arriving.push_back(Arriving { from, request, room });
        Ok(())
    }
}

/// Takes numbers off the front of bytes that came from another process.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `MPI_ERR_INTERN` when there are fewer.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(|| self.broken())?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    pub(crate) fn number(&mut self) -> Result<u32> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes(std::array::from_fn(|byte| bytes[byte])))
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    pub(crate) fn word(&mut self) -> Result<u64> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte])))
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The error for bytes that make no sense.
    #[cold]
    pub(crate) fn broken(&self) -> Error {
        Error::internal(
            "a process sent a letter that is none: do all processes run the same version of Weft?",
        )
    }
}
