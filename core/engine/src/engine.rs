//! The engine itself: see the contract in `README.md`.

use crate::transports::{EngineBell, Transports};
use crate::types::*;
use weft_datatype::{RecvBuf, SendBuf};
use weft_types::{Error, ErrorClass, Result};

/// One engine per process (or per simulated rank). No lock, no static, no unsafe; nothing in it blocks.
#[derive(Debug)]
pub struct Engine {
    _config: EngineConfig,
    _transports: Transports,
}

fn missing<T>() -> Result<T> {
    Err(Error::new(ErrorClass::UNSUPPORTED_OPERATION, "this build of the engine moves no messages yet"))
}

#[allow(missing_docs, clippy::unused_self, reason = "the shape for the neighbours; the next commit fills it")]
impl Engine {
    /// An engine over `transports`.
    ///
    /// # Errors
    /// Resources exhausted, with what ran out and the remedy.
    pub fn new(config: EngineConfig, transports: Transports) -> Result<Engine> {
        Ok(Engine { _config: config, _transports: transports })
    }

    pub fn send(&mut self, _to: Envelope, _mode: SendMode, _buffer: SendBuf) -> Result<Started> {
        missing()
    }

    pub fn recv(&mut self, _from: Selector, _buffer: RecvBuf) -> Result<RequestId> {
        missing()
    }

    pub fn try_recv(&mut self, _from: Selector, _buffer: &mut RecvBuf) -> Option<Completion> {
        None
    }

    pub fn iprobe(&mut self, _from: Selector) -> Option<Status> {
        None
    }

    pub fn improbe(&mut self, _from: Selector) -> Option<(MessageId, Status)> {
        None
    }

    pub fn imrecv(&mut self, _message: MessageId, _buffer: RecvBuf) -> Result<RequestId> {
        missing()
    }

    pub fn message_exists(&self, _message: MessageId) -> bool {
        false
    }

    pub fn is_complete(&self, _request: RequestId) -> bool {
        false
    }

    /// How a complete request ended, without freeing it (`MPI_Request_get_status`).
    pub fn peek(&self, _request: RequestId) -> Option<Completion> {
        None
    }

    pub fn take(&mut self, _request: RequestId) -> Completion {
        unreachable!("no request was handed out")
    }

    pub fn cancel(&mut self, _request: RequestId) {}

    pub fn release(&mut self, _request: RequestId) {}

    pub fn tag_request(&mut self, _request: RequestId, _owner: u32) {}

    pub fn owner(&self, _request: RequestId) -> u32 {
        0
    }

    pub fn exists(&self, _request: RequestId) -> bool {
        false
    }

    pub fn progress(&mut self) -> bool {
        false
    }

    pub fn bell(&self) -> EngineBell {
        EngineBell::Alone
    }

    pub fn is_quiet(&self) -> bool {
        true
    }
}
