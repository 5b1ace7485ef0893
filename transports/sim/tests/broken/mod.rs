//! A layer that breaks a promise of the seam.

use std::collections::VecDeque;
use weft_api::{Capabilities, Refused, Transport};
use weft_sim::{SimBell, SimPort};
use weft_types::{PeerId, Result};
use weft_wire::Header;

/// What it breaks, now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// None.
    Nothing,
    /// A packet does not come.
    Loses,
    /// It comes twice.
    Doubles,
    /// The next one of its sender comes first.
    Reorders,
    /// A byte is another one.
    Changes,
    /// What was shown is not shown again.
    Hides,
    /// A death is told twice.
    Repeats,
    /// What is refused was sent all the same.
    Lies,
}

impl Breach {
    pub(crate) const ALL: [Breach; 8] = [
        Breach::Nothing,
        Breach::Loses,
        Breach::Doubles,
        Breach::Reorders,
        Breach::Changes,
        Breach::Hides,
        Breach::Repeats,
        Breach::Lies,
    ];
}

#[derive(Debug)]
pub(crate) struct Broken {
    inner: SimPort,
    breach: Breach,
    /// By peer: packets that were taken from below.
    taken: Vec<VecDeque<(Header, Vec<u8>)>>,
    looks: u32,
    sent: u32,
    again: Option<PeerId>,
}

impl Broken {
    pub(crate) fn new(inner: SimPort, breach: Breach) -> Broken {
        Broken { inner, breach, taken: vec![VecDeque::new(); 8], looks: 0, sent: 0, again: None }
    }

    /// Takes what is below, two packets at most, and spoils every tenth.
    fn fetch(&mut self, peer: PeerId) {
        let waiting = &mut self.taken[peer.0 as usize];
        while waiting.len() < 2
            && let Some((header, payload)) = self.inner.peek(peer)
        {
            let mut payload = payload.to_vec();
            self.inner.advance(peer);
            self.looks += 1;
            let spoilt = self.looks.is_multiple_of(10);
            match self.breach {
                Breach::Loses if spoilt => continue,
                Breach::Changes if spoilt && !payload.is_empty() => payload[0] ^= 1,
                Breach::Doubles if spoilt => waiting.push_back((header, payload.clone())),
                _ => {}
            }
            waiting.push_back((header, payload));
            if self.breach == Breach::Reorders && spoilt && waiting.len() == 2 {
                waiting.swap(0, 1);
            }
        }
    }

    fn refuses(&mut self) -> bool {
        self.sent += 1;
        self.breach == Breach::Lies && self.sent.is_multiple_of(10)
    }
}

impl Transport for Broken {
    type Bell = SimBell;

    fn capabilities(&self, peer: PeerId) -> Capabilities {
        self.inner.capabilities(peer)
    }

    fn connect(&mut self, peer: PeerId) -> Result<()> {
        self.inner.connect(peer)
    }

    fn send_inline(
        &mut self,
        peer: PeerId,
        header: Header,
        payload: &[u8],
    ) -> std::result::Result<(), Refused> {
        self.inner.send_inline(peer, header, payload)?;
        if self.refuses() { Err(Refused::Full) } else { Ok(()) }
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> std::result::Result<(), Refused> {
        self.inner.send_copy(peer, header, len, fill)
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        self.fetch(peer);
        let hides = self.breach == Breach::Hides && self.looks.is_multiple_of(3);
        self.looks += u32::from(self.breach == Breach::Hides);
        let (header, payload) = self.taken[peer.0 as usize].front().filter(|_| !hides)?;
        Some((*header, payload))
    }

    fn advance(&mut self, peer: PeerId) {
        self.taken[peer.0 as usize].pop_front();
    }

    fn ready(&mut self) -> Option<PeerId> {
        (0..8).find(|&peer| !self.taken[peer].is_empty()).map(|peer| PeerId(peer as u32)).or_else(|| {
            let peer = self.inner.ready()?;
            self.fetch(peer);
            (!self.taken[peer.0 as usize].is_empty()).then_some(peer)
        })
    }

    fn progress(&mut self) -> bool {
        self.inner.progress()
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        self.inner.is_gone(peer)
    }

    fn lost(&mut self) -> Option<PeerId> {
        if let Some(peer) = self.again.take() {
            return Some(peer);
        }
        let peer = self.inner.lost()?;
        self.again = (self.breach == Breach::Repeats).then_some(peer);
        Some(peer)
    }

    fn bell(&self) -> SimBell {
        self.inner.bell()
    }
}
