//! Messages that calls begin one after the other: over the kernel's sockets the first are sent and the others read by their receiver; where each
//! is followed by the end of something, or nobody says when a call ends anything, all are sent.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_datatype::{Datatype, Memory};
use weft_engine::{
    Engine, EngineConfig, Envelope, Fabric, OfiCard, OfiDirectory, OfiWanted, RequestId, Selector, SendMode,
    Started, Transports,
};
use weft_ofi::select::REMOTE_MEMORY;
use weft_ofi::sys::FI_REMOTE_COMM;
use weft_ofi::{Ofi, offers};
use weft_types::{ContextId, Error, PeerId, Rank, Result, Tag, abi};

const CONTEXT: ContextId = ContextId(4);
/// Bytes of a message: more than what leaves together, less than what is announced anyway.
const BYTES: u64 = 20_000;
const MESSAGES: u64 = 6;

#[derive(Clone, Debug, Default)]
struct Cards(Arc<Mutex<Vec<OfiCard>>>);

impl OfiDirectory for Cards {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

/// An address of this machine at which libfabric's sockets reach others, too: inside a node they read nobody's memory.
fn address() -> Option<IpAddr> {
    let (offers, _) = offers().ok()?;
    let sockets =
        offers.iter().filter(|offer| offer.pays_calls() && offer.can(FI_REMOTE_COMM | REMOTE_MEMORY));
    sockets.filter_map(|offer| offer.ip).find(IpAddr::is_ipv4)
}

/// Two engines that have heard of each other; `None`, with a word, where libfabric or a network is not.
fn engines() -> Option<[Engine; 2]> {
    let Some(address) = address() else {
        println!("skipped: no libfabric, or no address but those of this node");
        return None;
    };
    let cards = Cards::default();
    let wanted = OfiWanted { address: Some(address), ..OfiWanted::default() };
    let mut all = Vec::new();
    for me in 0..2 {
        let ofi = Ofi::open(PeerId(me), &wanted, Box::new(cards.clone())).expect("an endpoint");
        cards.0.lock().unwrap().push(ofi.card().clone());
        let config = EngineConfig::new(PeerId(me), 2);
        all.push(Engine::new(config, Transports::over(Fabric::Ofi(ofi))).expect("an engine"));
    }
    let mut all: [Engine; 2] = all.try_into().expect("two");
    exchange(&mut all, 1, |_| {});
    Some(all)
}

fn memory(with: impl Fn(u64) -> u8) -> Memory {
    let memory = Memory::packed_scratch((BYTES * MESSAGES) as usize);
    let bytes: Vec<u8> = (0..BYTES * MESSAGES).map(with).collect();
    memory.recv_view(0, 0, BYTES * MESSAGES).unpack(0, &bytes);
    memory
}

fn image(memory: &Memory) -> Vec<u8> {
    let mut all = vec![0; (BYTES * MESSAGES) as usize];
    memory.send_view(0, 0, BYTES * MESSAGES).pack(0, &mut all);
    all
}

/// So many messages, with `after` behind each: how many of them could not leave at once.
fn exchange(engines: &mut [Engine; 2], messages: u64, after: impl Fn(&mut Engine)) -> usize {
    let byte = Datatype::from(Datatype::predefined(abi::MPI_BYTE).expect("predefined"));
    let data = memory(|at| (at * 7 + at / BYTES) as u8).retyped(&byte);
    let room =
        memory(|at| if at < BYTES * messages { 0 } else { (at * 7 + at / BYTES) as u8 }).retyped(&byte);
    let [sender, receiver] = engines;
    let receives: Vec<RequestId> = (0..messages)
        .map(|number| {
            let (source, tag) = (Some(Rank(0)), Some(Tag(number as i32)));
            let selector = Selector { context: CONTEXT, peer: Some(PeerId(0)), source, tag };
            receiver.recv(selector, room.recv_view((number * BYTES) as i64, 0, BYTES)).unwrap()
        })
        .collect();
    let mut pending = Vec::new();
    for number in 0..messages {
        let tag = Tag(number as i32);
        let envelope = Envelope { peer: PeerId(1), context: CONTEXT, source: Rank(0), tag };
        let view = data.send_view((number * BYTES) as i64, 0, BYTES);
        match sender.send(envelope, SendMode::Standard, view).unwrap() {
            Started::Complete => {}
            Started::Pending(request) => pending.push(request),
        }
        after(sender);
    }
    let begun = Instant::now();
    while !pending.iter().all(|&request| sender.is_complete(request))
        || !receives.iter().all(|&request| receiver.is_complete(request))
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "messages are stuck");
        sender.progress();
        receiver.progress();
    }
    pending.iter().for_each(|&request| assert_eq!(sender.take(request).error, None));
    receives.iter().for_each(|&request| assert_eq!(receiver.take(request).error, None));
    assert!(image(&room) == image(&data), "every byte is in its place");
    pending.len()
}

#[test]
fn the_first_of_a_row_are_sent_and_the_others_read() {
    let Some(mut engines) = engines() else { return };
    let registered = |engines: &[Engine; 2]| engines[0].registrations().iter().sum::<u64>();
    let before = registered(&engines);
    assert_eq!(exchange(&mut engines, MESSAGES, |_| {}), 0, "nobody says when a call ends anything");
    assert!(engines[0].keep_company(true), "sockets gain by company");
    assert_eq!(exchange(&mut engines, MESSAGES, Engine::push_out), 0, "each is the first");
    assert_eq!(registered(&engines), before);
    assert_eq!(exchange(&mut engines, MESSAGES, |_| {}), MESSAGES as usize - 2);
    assert!(registered(&engines) > before, "their memory is named to the receiver");
    assert_eq!(exchange(&mut engines, 2, |_| {}), 0, "what ended has ended the row");
}
