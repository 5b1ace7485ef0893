//! Room for packets in the kernel: what a device's socket asks for, and what it gets.

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, UdpSocket};

/// Bytes the kernel shall hold for us; it may hold fewer.
pub(crate) const SOCKET_BUFFER: usize = 8 << 20;

/// Asks for room in the kernel. What is not granted costs retransmissions, not correctness.
pub(crate) fn widen(socket: &UdpSocket) {
    if setsockopt(socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &SOCKET_BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::SndBuf, &SOCKET_BUFFER);
    }
}

/// What the kernel gives a device's socket, as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBuffers {
    /// Bytes that are asked for, of either kind.
    pub wanted: usize,
    /// Bytes for what arrives.
    pub receive: usize,
    /// Bytes for what leaves.
    pub send: usize,
}

impl SocketBuffers {
    /// Opens a socket as devices do, and looks.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn granted(address: IpAddr) -> io::Result<SocketBuffers> {
        let socket = UdpSocket::bind((address, 0))?;
        widen(&socket);
        Ok(SocketBuffers {
            wanted: SOCKET_BUFFER,
            receive: getsockopt(&socket, sockopt::RcvBuf)?,
            send: getsockopt(&socket, sockopt::SndBuf)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_is_granted_is_what_a_device_has() {
        let granted = SocketBuffers::granted(Ipv4Addr::LOCALHOST.into()).expect("a socket");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let before = getsockopt(&socket, sockopt::RcvBuf).expect("a number");
        widen(&socket);
        let now = [getsockopt(&socket, sockopt::RcvBuf), getsockopt(&socket, sockopt::SndBuf)];
        assert_eq!(now.map(|number| number.expect("a number")), [granted.receive, granted.send]);
        assert!(granted.receive >= before && granted.wanted == SOCKET_BUFFER);
    }
}
