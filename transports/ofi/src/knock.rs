//! Whether anybody is at a TCP address: a connection is begun and dropped.
//!
//! Providers over TCP connect again, without an end and without a word, when the process at the other end has died: a send to
//! it is merely refused for now. But its kernel answers for it: nobody listens there any more. A process that computes is
//! answered for as well, so silence is no death.

use crate::clock;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long an answer is waited for: longer than a full list of unaccepted connections takes to be retried.
const PATIENCE: Duration = Duration::from_secs(30);

/// Milliseconds that the kernel of this host may take to answer a test.
const KERNEL: libc::c_int = 1000;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    Waiting,
    /// Somebody listens, or it cannot be known.
    Somebody,
    /// Nobody listens, or the host cannot be reached.
    Nobody,
}

/// A connection that was begun.
#[derive(Debug)]
pub(crate) struct Knock {
    socket: OwnedFd,
    begun: Instant,
    answer: Answer,
}

fn of_error(error: i32) -> Answer {
    match error {
        libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ETIMEDOUT | libc::ECONNRESET => {
            Answer::Nobody
        }
        libc::EINPROGRESS | libc::EINTR => Answer::Waiting,
        // Our own side's trouble: no descriptors, no ports.
        _ => Answer::Somebody,
    }
}

impl Knock {
    /// Begins to connect. `None`: there is no descriptor for it.
    pub(crate) fn at(address: SocketAddr) -> Option<Knock> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: plain numbers.
        let fd =
            unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return None;
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // Dropping it shall leave nothing behind in the kernel.
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the option's own structure and its length.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of::<libc::linger>() as libc::socklen_t,
            )
        };
        let result = match address.ip() {
            IpAddr::V4(ip) => {
                // SAFETY: zero is a value of every field.
                let mut place: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                place.sin_family = libc::AF_INET as libc::sa_family_t;
                place.sin_port = address.port().to_be();
                place.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
                // SAFETY: an address of the length that is given.
                unsafe {
                    libc::connect(
                        fd,
                        (&raw const place).cast(),
                        size_of::<libc::sockaddr_in>() as libc::socklen_t,
                    )
                }
            }
            IpAddr::V6(ip) => {
                // SAFETY: zero is a value of every field.
                let mut place: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                place.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                place.sin6_port = address.port().to_be();
                place.sin6_addr.s6_addr = ip.octets();
                // SAFETY: an address of the length that is given.
                unsafe {
                    libc::connect(
                        fd,
                        (&raw const place).cast(),
                        size_of::<libc::sockaddr_in6>() as libc::socklen_t,
                    )
                }
            }
        };
        let answer = if result == 0 {
            Answer::Somebody
        } else {
            of_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
        };
        Some(Knock { socket, begun: clock::now(), answer })
    }

    /// What is known now.
    pub(crate) fn look(&mut self) -> Answer {
        if self.answer != Answer::Waiting {
            return self.answer;
        }
        let mut list = [libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 }];
        // In a set time the kernel answers at once.
        let wait = if clock::is_set() { KERNEL } else { 0 };
        // SAFETY: a list of one entry.
        let ready = unsafe { libc::poll(list.as_mut_ptr(), 1, wait) };
        if ready > 0 {
            let mut error: libc::c_int = 0;
            let mut length = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: room for the number that this option answers.
            unsafe {
                libc::getsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_ERROR,
                    (&raw mut error).cast(),
                    &mut length,
                )
            };
            self.answer = if error == 0 { Answer::Somebody } else { of_error(error) };
        } else if clock::since(self.begun) > PATIENCE {
            self.answer = Answer::Nobody;
        }
        self.answer
    }
}

/// The address in a `sockaddr` of the internet.
pub(crate) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let ip: IpAddr = match family {
        libc::AF_INET => <[u8; 4]>::try_from(bytes.get(4..8)?).ok()?.into(),
        libc::AF_INET6 => <[u8; 16]>::try_from(bytes.get(8..24)?).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn ask(address: SocketAddr) -> Answer {
        let mut knock = Knock::at(address).expect("a descriptor");
        loop {
            match knock.look() {
                Answer::Waiting => std::thread::sleep(Duration::from_millis(1)),
                answer => return answer,
            }
        }
    }

    #[test]
    fn a_process_is_there_while_it_listens() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("skipped: no {address} here");
                continue;
            };
            let address = listener.local_addr().unwrap();
            assert_eq!(ask(address), Answer::Somebody, "it need not accept");
            drop(listener);
            assert_eq!(ask(address), Answer::Nobody);
        }
    }
}
