//! Time and requests of messages between two engines of this thread over the emulator: what its code costs, without waiting for
//! another core. `cargo run --profile fast -p weft-engine --example fabric_rate -- BYTES COUNT [read|write|stream] [MTU]`

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use weft_datatype::Scratch;
use weft_engine::{
    Directory, Engine, EngineConfig, Envelope, Fabric, PeerCard, Rendezvous, Selector, SendMode, Started,
    Transports,
};
use weft_rdma::Rdma;
use weft_softroce::Udp;
use weft_types::{ContextId, Error, PeerId, Rank, Result, Tag};

#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<Vec<PeerCard>>>);

impl Directory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        let cards = self.0.lock().map_err(|_| Error::internal("poisoned"))?;
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, other: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(other);
    let (bytes, count, mtu) = (number(0, 1 << 20), number(1, 100), number(3, 1500));
    let rendezvous = match words.get(2).map(String::as_str) {
        Some("read") => Rendezvous::Read,
        Some("write") => Rendezvous::Write,
        Some("stream") => Rendezvous::Stream,
        _ => Rendezvous::Auto,
    };
    let cards = Cards::default();
    let mut engines = [0, 1].map(|me| {
        let card = Udp::open(IpAddr::V4(Ipv4Addr::LOCALHOST), Some(0), mtu as u32).expect("a socket");
        let rdma = Rdma::open(card, PeerId(me), Box::new(cards.clone())).expect("a device");
        cards.0.lock().expect("not poisoned").push(rdma.card());
        let config = EngineConfig { rendezvous, ..EngineConfig::new(PeerId(me), 2) };
        Engine::new(config, Transports::over(Fabric::Softroce(rdma))).expect("an engine")
    });
    let (data, room) = (Scratch::new(bytes), Scratch::new(bytes));
    let context = ContextId(4);
    let mut best = f64::MAX;
    for round in 0..5 {
        let begun = Instant::now();
        for _ in 0..count {
            let selector =
                Selector { context, peer: Some(PeerId(0)), source: Some(Rank(0)), tag: Some(Tag(round)) };
            let receive = engines[1].recv(selector, room.recv_buf(0, bytes)).expect("a request");
            let envelope = Envelope { peer: PeerId(1), context, source: Rank(0), tag: Tag(round) };
            let sent = engines[0]
                .send(envelope, SendMode::Standard, data.send_buf(0, bytes))
                .expect("a living peer");
            while !engines[1].is_complete(receive)
                || matches!(sent, Started::Pending(request) if !engines[0].is_complete(request))
            {
                for engine in &mut engines {
                    engine.progress();
                }
            }
            assert_eq!(engines[1].take(receive).error, None);
            if let Started::Pending(request) = sent {
                assert_eq!(engines[0].take(request).error, None);
            }
        }
        best = best.min(begun.elapsed().as_secs_f64() / count as f64);
    }
    println!(
        "{bytes} bytes: {:.1} us, {:.0} MB/s, both ends in one thread",
        best * 1e6,
        bytes as f64 / best / 1e6
    );
}
