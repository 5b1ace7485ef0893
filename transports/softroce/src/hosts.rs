//! Whether a host is there whose devices do not answer.
//!
//! An emulated device answers only while its program calls it, so its silence says nothing. The kernel of its host answers
//! always: a connection by TCP to some port of it is accepted or refused, and either says that the host is there. Each host is
//! asked when it is first sent to, so that one that answers nobody (a packet filter drops such questions) is known and believed
//! to be there; and again while packets to it are overdue. One that has answered and leaves [`MOST_UNANSWERED`] looks in a row
//! without an answer cannot be reached. The kernel itself learns that from its table of neighbours, and tells, but only up to a
//! minute later.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, getsockopt, setsockopt,
    socket, sockopt,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use weft_api::verbs::Nanos;

/// Looks until a host that used to answer is believed to be gone, and the time between two that count. The kernel repeats its
/// question in between, after a second and after three.
const MOST_UNANSWERED: u32 = 3;
const BETWEEN: Nanos = 700_000_000;

/// Where hosts are asked: at the port of RoCE, which filters that let our packets through are most likely to know. Nobody
/// listens there by TCP; if somebody does, nothing is said.
const PORT: u16 = crate::wire::UDP_PORT;

/// Most hosts that are remembered; of others, the kernel alone tells.
const MOST: usize = 1024;

/// Hosts that packets were sent to.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    known: Vec<Host>,
}

#[derive(Debug)]
struct Host {
    at: IpAddr,
    /// It has answered a question.
    answers: bool,
    /// Looks that count and found no answer, and when the last one was (many connections may lead to one host).
    unanswered: u32,
    looked: Nanos,
    question: Option<OwnedFd>,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Waiting,
    /// The host is there.
    There,
    /// The network says that it cannot be reached.
    Nowhere,
    /// It could not be asked.
    Unknown,
}

impl Hosts {
    /// Packets will be sent to a host: asks it, if it is new.
    pub(crate) fn meet(&mut self, at: IpAddr) {
        // This machine is there as long as we are.
        if at.is_loopback() || self.known.len() >= MOST || self.known.iter().any(|host| host.at == at) {
            return;
        }
        self.known.push(Host { at, answers: false, unanswered: 0, looked: 0, question: ask(at) });
    }

    /// Packets to a host are overdue: takes the answer to the last question, and asks again. Whether the host is gone.
    pub(crate) fn is_gone(&mut self, at: IpAddr, now: Nanos) -> bool {
        let Some(host) = self.known.iter_mut().find(|host| host.at == at) else { return false };
        if host.hear(host.question.as_ref().map_or(Answer::Unknown, look), now) {
            host.question = ask(at);
        }
        host.is_gone()
    }
}

impl Host {
    fn is_gone(&self) -> bool {
        self.answers && self.unanswered >= MOST_UNANSWERED
    }

    /// What became of the question under way; whether another shall be asked.
    fn hear(&mut self, answer: Answer, now: Nanos) -> bool {
        match answer {
            Answer::Waiting if now.saturating_sub(self.looked) < BETWEEN => return false,
            Answer::Waiting => self.unanswered += 1,
            Answer::Nowhere => self.unanswered = MOST_UNANSWERED,
            Answer::There => (self.answers, self.unanswered) = (true, 0),
            Answer::Unknown => self.unanswered = 0,
        }
        self.looked = now;
        // The kernel repeats a question ever more seldom: of one that is believed to be gone, it shall be known soon when it is
        // back.
        answer != Answer::Waiting || self.is_gone()
    }
}

/// Begins to connect. `None`: there is no descriptor for it.
fn ask(at: IpAddr) -> Option<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let question = socket(family, SockType::Stream, flags, SockProtocol::Tcp).ok()?;
    // Where somebody listens, nothing is left behind.
    let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&question, sockopt::Linger, &at_once).ok()?;
    // What is known at once is asked for by `look` like everything else.
    match connect(question.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(at, PORT))) {
        Ok(()) | Err(Errno::EINPROGRESS | Errno::EINTR | Errno::ECONNREFUSED) => Some(question),
        Err(_) => None,
    }
}

fn look(question: &OwnedFd) -> Answer {
    let mut list = [PollFd::new(question.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut list, PollTimeout::ZERO) {
        Ok(0) => Answer::Waiting,
        Ok(_) => match getsockopt(question, sockopt::SocketError).map(Errno::from_raw) {
            Ok(Errno::UnknownErrno | Errno::ECONNREFUSED | Errno::ECONNRESET) => Answer::There,
            Ok(Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::ETIMEDOUT) => Answer::Nowhere,
            _ => Answer::Unknown,
        },
        Err(_) => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    fn answered(question: Option<OwnedFd>) -> Answer {
        let question = question.expect("a socket");
        let begun = Instant::now();
        while look(&question) == Answer::Waiting && begun.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        look(&question)
    }

    #[test]
    fn a_host_where_nobody_listens_is_there() {
        assert_eq!(answered(ask(IpAddr::V4(Ipv4Addr::LOCALHOST))), Answer::There);
    }

    #[test]
    fn only_a_host_that_used_to_answer_is_gone_when_it_does_not() {
        let at = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
        let mut host = Host { at, answers: false, unanswered: 0, looked: 0, question: None };
        let mut now = 0;
        let mut hears = |host: &mut Host, answer, pause| {
            now += pause;
            let asks = host.hear(answer, now);
            (asks, host.is_gone())
        };
        for _ in 0..10 {
            assert_eq!(
                hears(&mut host, Answer::Waiting, BETWEEN),
                (false, false),
                "a filter may stand before it"
            );
        }
        assert_eq!(hears(&mut host, Answer::There, 1), (true, false));
        for _ in 0..10 {
            assert_eq!(hears(&mut host, Answer::Waiting, 1), (false, false), "many connections look at once");
        }
        assert_eq!(hears(&mut host, Answer::Waiting, BETWEEN), (false, false));
        assert_eq!(hears(&mut host, Answer::Waiting, BETWEEN), (false, false));
        assert_eq!(hears(&mut host, Answer::Waiting, BETWEEN), (true, true));
        assert_eq!(hears(&mut host, Answer::Waiting, 1), (false, true), "all connections are told");
        assert_eq!(hears(&mut host, Answer::There, BETWEEN), (true, false));
        assert_eq!(hears(&mut host, Answer::Nowhere, 1), (true, true), "the network says so");
        assert_eq!(hears(&mut host, Answer::Unknown, 1), (true, false), "our own trouble");
    }

    #[test]
    fn who_was_never_sent_to_and_this_machine_are_not_asked() {
        let mut hosts = Hosts::default();
        hosts.meet(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(hosts.known.is_empty());
        assert!(!hosts.is_gone(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 8)), 1));
    }
}
