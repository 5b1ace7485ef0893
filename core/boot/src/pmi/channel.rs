//! The socket to the launcher.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use weft_types::{Error, ErrorClass, Result};

/// The descriptor `PMI_FD`, inherited from the launcher. It is used by number and never closed: it belongs to the process's
/// environment.
#[derive(Clone, Copy, Debug)]
pub struct LauncherSocket(RawFd);

impl LauncherSocket {
    /// The socket with this number.
    pub fn new(number: RawFd) -> LauncherSocket {
        LauncherSocket(number)
    }

    fn failed(&self, what: &str, errno: Errno) -> Error {
        let why = match errno {
            Errno::EBADF => {
                "the descriptor is closed: something between the launcher and this program closed it, or this program was \
                 started by a rank of another job and inherited its environment (then unset PMI_FD and WEFT_JOB)"
            }
            Errno::ENOTSOCK => "the descriptor is no socket; unset PMI_FD to run without a launcher",
            Errno::EPIPE | Errno::ECONNRESET => "the launcher has ended",
            _ => "unexpected",
        };
        let number = self.0;
        Error::new(ErrorClass::OTHER, format!("cannot {what} the launcher (PMI_FD={number}): {errno}; {why}"))
    }
}

impl LauncherSocket {
    /// Sends all of `bytes`.
    pub fn send_all(&self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match send(self.0, rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(self.failed("write to", errno)),
            }
        }
        Ok(())
    }

    /// As [`LauncherSocket::receive`], but 0 when nothing comes within `limit`. For the last words of a process that ends
    /// anyway: it looks again every millisecond.
    pub fn receive_within(&self, bytes: &mut [u8], limit: Duration) -> Result<usize> {
        let end = Instant::now() + limit;
        loop {
            match recv(self.0, bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(self.failed("read from", Errno::ECONNRESET)),
                Ok(count) => return Ok(count),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                Err(Errno::EAGAIN) => return Ok(0),
                Err(errno) => return Err(self.failed("read from", errno)),
            }
        }
    }

    /// Sends `bytes` unless the launcher does not read and there is no room for them; false when nothing was sent.
    pub fn send_if_room(&self, bytes: &[u8]) -> bool {
        match send(self.0, bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            // A short line goes whole or not at all; the rest of a long one must follow.
            Ok(sent) => self.send_all(&bytes[sent..]).is_ok(),
            Err(_) => false,
        }
    }

    /// Waits for bytes and puts them at the start of `bytes`; their number is at least 1.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize> {
        loop {
            match recv(self.0, bytes, MsgFlags::empty()) {
                Ok(0) => return Err(self.failed("read from", Errno::ECONNRESET)),
                Ok(count) => return Ok(count),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(self.failed("read from", errno)),
            }
        }
    }
}
