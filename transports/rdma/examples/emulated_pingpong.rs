//! Half a round trip of messages between two hosts over the emulator, below everything of MPI: what a profile of the emulator
//! looks at.
//!
//! ```text
//! emulated_pingpong listen  OWN-ADDRESS THEIR-ADDRESS [BYTES] [CORE]
//! emulated_pingpong connect OWN-ADDRESS THEIR-ADDRESS [BYTES] [CORE]    measures and prints
//! ```
//! `WEFT_RINGS=yes` has the messages written into rings. `scripts/netns-hosts` makes two hosts. `benches/osu/socket.c` measures
//! a bare socket in the same way.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weft_api::verbs::{PortAddress, QueuePairNumber};
use weft_api::{Refused, Transport};
use weft_rdma::{Directory, PeerCard, RailCard, Rdma};
use weft_softroce::{Card, Udp};
use weft_types::params::Choice;
use weft_types::{ContextId, PeerId, Rank, Result, Tag};
use weft_wire::{Header, Kind};

const PORT: u16 = 4791;
const BATCH: u32 = 50;
const BATCHES: usize = 500;

/// Both know where the other is: the first queue pair of a fresh device has the number 16.
#[derive(Debug)]
struct Known([IpAddr; 2]);

impl Directory for Known {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        let address = SocketAddr::new(self.0[peer.0 as usize], PORT);
        let first = RailCard {
            addresses: vec![PortAddress::routable(address)],
            datagrams: QueuePairNumber(16),
            qkey: 0x5746_0000 | peer.0,
        };
        Ok(PeerCard { first, others: Vec::new() })
    }
}

fn send(end: &mut Rdma<Card<Udp>>, peer: PeerId, bytes: &[u8]) {
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
    let inline = bytes.len() <= end.capabilities(peer).max_inline;
    loop {
        let sent = match inline {
            true => end.send_inline(peer, header, bytes),
            false => end.send_copy(peer, header, bytes.len(), |room| room.copy_from_slice(bytes)),
        };
        match sent {
            Ok(()) => return,
            Err(Refused::Full) => end.progress(),
            Err(Refused::Dead) => panic!("the other end is gone"),
        };
    }
}

fn receive(end: &mut Rdma<Card<Udp>>, peer: PeerId) {
    while end.peek(peer).is_none() {
        end.progress();
    }
    end.advance(peer);
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, side, own, their, rest @ ..] = &words[..] else {
        panic!("usage: emulated_pingpong listen|connect OWN-ADDRESS THEIR-ADDRESS [BYTES] [CORE]");
    };
    let measures = side == "connect";
    let bytes = vec![7; rest.first().map_or(8, |word| word.parse().expect("a number of bytes"))];
    if let Some(core) = rest.get(1) {
        let mut set = CpuSet::new();
        set.set(core.parse().expect("a core")).expect("a core of this machine");
        sched_setaffinity(Pid::from_raw(0), &set).expect("the core");
    }
    let (own, their): (IpAddr, IpAddr) =
        (own.parse().expect("an address"), their.parse().expect("an address"));
    let (me, peer) = (PeerId(u32::from(!measures)), PeerId(u32::from(measures)));
    let addresses = if measures { [own, their] } else { [their, own] };
    let card = Udp::open(own, Some(PORT), 1500).expect("a socket");
    let mut end = Rdma::open(card, me, Box::new(Known(addresses))).expect("a device");
    if std::env::var("WEFT_RINGS").is_ok_and(|rings| rings == "yes") {
        end.set_rings(Choice::On);
    }
    if measures {
        // A question to a port that nobody has yet would be answered by the host: nobody is there.
        std::thread::sleep(Duration::from_millis(500));
        end.connect(peer).expect("a connection");
    }
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let begun = Instant::now();
        for _ in 0..BATCH {
            if measures {
                send(&mut end, peer, &bytes);
                receive(&mut end, peer);
            } else {
                receive(&mut end, peer);
                send(&mut end, peer, &bytes);
            }
        }
        batches.push(begun.elapsed() / BATCH / 2);
    }
    batches.sort();
    if measures {
        let by_ring = end.counts().records;
        println!(
            "{} bytes: {:?}, median {:?}, {by_ring} by a ring",
            bytes.len(),
            batches[BATCHES / 10],
            batches[BATCHES / 2]
        );
    }
    let begun = Instant::now();
    while !end.has_left() && begun.elapsed().as_secs() < 2 {
        end.progress();
    }
    end.rest();
}
