//! A process whose card cannot be had when its first message comes: what waits for it ends with the directory's reason.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_datatype::{Datatype, Memory};
use weft_engine::{
    Engine, EngineConfig, Envelope, Fabric, OfiCard, OfiDirectory, OfiWanted, Selector, SendMode, Transports,
};
use weft_ofi::{Ofi, clock, offers};
use weft_types::{ContextId, Error, ErrorClass, PeerId, Rank, Result, Tag, abi};

const CONTEXT: ContextId = ContextId(4);

#[derive(Clone, Debug, Default)]
struct Cards {
    cards: Arc<Mutex<Vec<OfiCard>>>,
    fails: bool,
}

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        let card = self.cards.lock().unwrap().get(peer.0 as usize).cloned();
        card.filter(|_| !self.fails).ok_or_else(|| Error::internal("the launcher gives no answer"))
    }
}

#[test]
fn a_receive_from_somebody_who_cannot_be_found_ends_with_the_reason() {
    let here = Some(Ipv4Addr::LOCALHOST.into());
    if !offers().is_ok_and(|(offers, _)| offers.iter().any(|offer| offer.ip == here)) {
        println!("skipped: no libfabric that reaches this node's own address");
        return;
    }
    // Seconds pass when it is said.
    clock::set(Duration::from_micros(1));
    let cards = Cards::default();
    let wanted = OfiWanted { address: here, ..OfiWanted::default() };
    let mut engines = [0, 1].map(|me| {
        let directory = Cards { fails: me == 1, ..cards.clone() };
        let ofi = Ofi::open(PeerId(me), &wanted, Box::new(directory)).expect("an endpoint");
        cards.cards.lock().unwrap().push(ofi.card().clone());
        Engine::new(EngineConfig::new(PeerId(me), 2), Transports::over(Fabric::Ofi(ofi))).expect("an engine")
    });
    let byte = Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("predefined"));
    let [sent, room] = [(); 2].map(|()| Memory::packed_scratch(8).retyped(&byte));
    let [sender, receiver] = &mut engines;
    let selector =
        Selector { context: CONTEXT, peer: Some(PeerId(0)), source: Some(Rank(0)), tag: Some(Tag(1)) };
    let request = receiver.recv(selector, room.recv_view(0, 0, 8)).unwrap();
    let envelope = Envelope { peer: PeerId(1), context: CONTEXT, source: Rank(0), tag: Tag(1) };
    let _ = sender.send(envelope, SendMode::Standard, sent.send_view(0, 0, 8)).unwrap();
    let begun = Instant::now();
    while !receiver.is_complete(request) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the receive does not end");
        sender.progress();
        receiver.progress();
        clock::pass(Duration::from_millis(2));
        std::thread::yield_now();
    }
    let error = receiver.take(request).error.expect("nothing was received");
    assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
    for part in ["process 0", "the launcher gives no answer", "See that the launcher lives"] {
        assert!(error.text().contains(part), "{}", error.text());
    }
}
