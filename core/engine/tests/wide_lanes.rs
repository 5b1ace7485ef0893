//! Lanes with ends of their own on a fabric, over the emulated one on the loopback: what is to be sent before it is known how a
//! process is reached, lanes of one node that come to reach others, deaths that another lane has found out, and sleep on the
//! fabrics of several lanes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_api::Bell;
use weft_datatype::Scratch;
use weft_engine::{
    Completion, Contacts, Directory, Engine, EngineConfig, Envelope, Fabric, NodeLocal, PeerCard, RequestId,
    Selector, SendMode, Started, Transports, Wide,
};
use weft_types::{ContextId, Error, ErrorClass, Farewell, PeerId, Rank, Result, Tag};

const CONTEXT: ContextId = ContextId(4);
/// Longer than anything here takes, and no measure of anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The cards of one lane's ends, and whether they may be told.
#[derive(Clone, Debug, Default)]
struct Lane {
    cards: Arc<Mutex<HashMap<u32, String>>>,
    told: Arc<AtomicBool>,
}

impl Directory for Lane {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        assert!(self.told.load(Ordering::Relaxed), "nobody is looked up who is not known");
        let cards = self.cards.lock().unwrap();
        cards.get(&peer.0).ok_or_else(|| Error::internal("no card"))?.parse()
    }
}

impl Contacts for Lane {
    fn is_known(&self, _: PeerId) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}

impl Lane {
    fn told() -> Lane {
        Lane { told: Arc::new(AtomicBool::new(true)), ..Lane::default() }
    }

    fn open(&self, me: u32) -> Fabric {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (fabric, card) =
            Fabric::softroce(PeerId(me), address, 1, None, 0, Box::new(self.clone())).unwrap();
        self.cards.lock().unwrap().insert(me, card);
        fabric
    }

    fn wide(&self, me: u32) -> Wide {
        Wide { fabric: self.open(me), contacts: Arc::new(self.clone()) }
    }
}

/// Where two processes are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// On one node, and the fabric is forced.
    Forced,
    /// Each on a node of its own.
    Apart,
}

/// Lane 0 of two processes.
fn processes(place: Place) -> [Engine; 2] {
    let (lane, together) = (Lane::told(), weft_shm::create().unwrap());
    [0, 1].map(|me| {
        let fabric = lane.open(me);
        let (segment, local_index, peers) = match place {
            Place::Forced => (together.try_clone().unwrap(), me, vec![PeerId(0), PeerId(1)]),
            Place::Apart => (weft_shm::create().unwrap(), 0, vec![PeerId(me)]),
        };
        let node = NodeLocal { segment, local_index, peers, single_copy: false, oversubscribed: true };
        let ways = match place {
            Place::Forced => Transports::forced(node, fabric),
            Place::Apart => Transports::both(node, fabric),
        };
        Engine::new(EngineConfig::new(PeerId(me), 2), ways.unwrap()).unwrap()
    })
}

/// The two ends of lane 1.
fn lanes(processes: &[Engine; 2], lane: &Lane) -> [Engine; 2] {
    [0, 1].map(|me| processes[me as usize].open_lane(1, Some(lane.wide(me))).unwrap())
}

fn send(from: &mut Engine, to: u32, data: &Arc<Scratch>, mode: SendMode) -> Started {
    let source = Rank(from.config().me.0);
    let envelope = Envelope { peer: PeerId(to), context: CONTEXT, source, tag: Tag(1) };
    from.send(envelope, mode, data.send_buf(0, data.len())).unwrap()
}

fn receive(at: &mut Engine, from: u32, room: &Arc<Scratch>) -> RequestId {
    let selector =
        Selector { context: CONTEXT, peer: Some(PeerId(from)), source: Some(Rank(from)), tag: Some(Tag(1)) };
    at.recv(selector, room.recv_buf(0, room.len())).unwrap()
}

fn move_on(engine: &mut Engine) {
    engine.progress();
}

/// Moves both until a request of one of them has ended.
fn end(engines: &mut [Engine; 2], of: usize, request: RequestId) -> Completion {
    let begun = Instant::now();
    while !engines[of].is_complete(request) {
        assert!(begun.elapsed() < PATIENCE, "it never ends");
        engines.iter_mut().for_each(move_on);
    }
    engines[of].take(request)
}

/// Makes the connection, by a message from the second to the first, and waits until nothing is under way.
fn first_words(ends: &mut [Engine; 2]) {
    let room = filled(8, 0);
    let request = receive(&mut ends[0], 1, &room);
    let _ = send(&mut ends[1], 0, &filled(8, 1), SendMode::Standard);
    assert_eq!(end(ends, 0, request).error, None);
    while !ends[1].is_quiet() {
        ends.iter_mut().for_each(move_on);
    }
}

fn filled(bytes: usize, with: u8) -> Arc<Scratch> {
    let scratch = Scratch::new(bytes);
    scratch.recv_buf(0, bytes).unpack(0, &vec![with; bytes]);
    scratch
}

fn is_filled(scratch: &Arc<Scratch>, with: u8) -> bool {
    let mut bytes = vec![0; scratch.len()];
    scratch.send_buf(0, scratch.len()).pack(0, &mut bytes);
    bytes.iter().all(|&byte| byte == with)
}

#[test]
fn what_is_sent_to_a_process_that_is_not_known_leaves_in_order_once_it_is() {
    for place in [Place::Forced, Place::Apart] {
        let (lane, processes) = (Lane::default(), processes(place));
        let mut ends = lanes(&processes, &lane);
        let sizes = [8, 40_000, 0, 300_000, 200, 70_000];
        let mut sent = Vec::new();
        for (number, bytes) in sizes.into_iter().enumerate() {
            let mode = if number % 2 == 0 { SendMode::Standard } else { SendMode::Synchronous };
            let data = filled(bytes, number as u8);
            let Started::Pending(request) = send(&mut ends[0], 1, &data, mode) else {
                panic!("nothing can have left")
            };
            sent.push((request, data));
        }
        for _ in 0..1000 {
            ends.iter_mut().for_each(move_on);
        }
        assert!(!ends[0].is_quiet(), "what waits is under way");
        assert!(sent.iter().all(|&(request, _)| !ends[0].is_complete(request)));
        lane.told.store(true, Ordering::Relaxed);
        for (number, bytes) in sizes.into_iter().enumerate() {
            let room = filled(bytes, 0xff);
            let request = receive(&mut ends[1], 0, &room);
            let got = end(&mut ends, 1, request);
            assert_eq!((got.error, got.status.bytes), (None, bytes as u64));
            assert!(is_filled(&room, number as u8), "message {number} of {bytes} bytes");
        }
        for (request, _data) in sent {
            assert_eq!(end(&mut ends, 0, request).error, None);
        }
    }
}

#[test]
fn a_lane_of_one_node_comes_to_reach_others_with_what_is_under_way() {
    let (lane, processes) = (Lane::told(), processes(Place::Apart));
    let mut ends = [0, 1].map(|me| processes[me].open_lane(1, None).unwrap());
    assert!(ends.iter().all(|end| !end.takes_wide()));
    let room = filled(24, 0);
    let own = receive(&mut ends[0], 0, &room);
    for (me, end) in (0..).zip(&mut ends) {
        end.widen(lane.wide(me));
        assert!(end.takes_wide());
    }
    let far = filled(100_000, 0);
    let request = receive(&mut ends[1], 0, &far);
    let data = filled(100_000, 5);
    let sent = send(&mut ends[0], 1, &data, SendMode::Standard);
    assert_eq!(end(&mut ends, 1, request).error, None);
    assert!(is_filled(&far, 5));
    if let Started::Pending(sent) = sent {
        assert_eq!(end(&mut ends, 0, sent).error, None);
    }
    assert!(!ends[0].is_complete(own));
    let _ = send(&mut ends[0], 0, &filled(24, 7), SendMode::Standard);
    assert_eq!(end(&mut ends, 0, own).error, None);
    assert!(is_filled(&room, 7));
}

/// Process 1 sends its last message, which is on its way when this returns.
fn leave_a_last_word(ends: &mut [Engine; 2]) {
    let _ = send(&mut ends[1], 0, &filled(8, 2), SendMode::Standard);
    while !ends[1].is_quiet() {
        ends.iter_mut().for_each(move_on);
    }
}

/// Process 0 receives that, and nothing after it.
fn hear_the_last_word_and_no_more(ends: &mut [Engine; 2]) {
    let (last, never) = (filled(8, 0), filled(8, 0));
    let last_word = receive(&mut ends[0], 1, &last);
    let silence = receive(&mut ends[0], 1, &never);
    assert_eq!(end(ends, 0, last_word).error, None);
    assert!(is_filled(&last, 2));
    let error = end(ends, 0, silence).error.expect("nobody is left to send");
    assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
}

#[test]
fn a_death_that_another_lane_has_found_out_ends_what_waits_after_what_was_sent() {
    for place in [Place::Forced, Place::Apart] {
        let (lane, processes) = (Lane::told(), processes(place));
        let mut ends = lanes(&processes, &lane);
        first_words(&mut ends);
        leave_a_last_word(&mut ends);
        ends[0].hear_lost(PeerId(1));
        hear_the_last_word_and_no_more(&mut ends);
    }
    // Also of one that is not known how to reach: what waits for that ends.
    let (lane, processes) = (Lane::default(), processes(Place::Forced));
    let mut ends = lanes(&processes, &lane);
    let Started::Pending(waits) = send(&mut ends[0], 1, &filled(8, 1), SendMode::Standard) else {
        panic!("nothing can have left")
    };
    ends[0].hear_lost(PeerId(1));
    let error = end(&mut ends, 0, waits).error.expect("nobody is left to receive");
    assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
    let begun = Instant::now();
    while !ends[0].is_quiet() {
        assert!(begun.elapsed() < PATIENCE, "it keeps something for the dead");
        ends[0].progress();
    }
}

#[test]
fn a_farewell_that_another_lane_has_heard_ends_what_waits_after_what_was_sent() {
    let world = Farewell { life: 0, world: true };
    let processes = processes(Place::Apart);
    let lane = Lane::told();
    let mut ends = lanes(&processes, &lane);
    first_words(&mut ends);
    leave_a_last_word(&mut ends);
    // Of communicators younger than what is over nothing ends.
    ends[0].hear_parted(PeerId(1), Farewell { life: 1, world: false });
    ends[0].hear_parted(PeerId(1), world);
    hear_the_last_word_and_no_more(&mut ends);
    assert!(ends[0].gone().is_empty(), "it lives");
    assert_eq!(ends[0].farewells().collect::<Vec<_>>(), [(PeerId(1), Farewell { life: 1, world: true })]);
    // Also of one that was never met, and is not known how to reach.
    let lane = Lane::default();
    let mut ends = lanes(&processes, &lane);
    let room = filled(8, 0);
    let silence = receive(&mut ends[0], 1, &room);
    let Started::Pending(waits) = send(&mut ends[0], 1, &filled(8, 1), SendMode::Standard) else {
        panic!("nothing can have left")
    };
    ends[0].hear_parted(PeerId(1), world);
    for request in [silence, waits] {
        let error = end(&mut ends, 0, request).error.expect("it takes and sends nothing");
        assert_eq!(error.class(), ErrorClass::PROC_ABORTED);
    }
}

#[test]
fn who_sleeps_on_lane_0s_bell_hears_the_fabrics_of_the_lanes_that_it_listens_to() {
    for place in [Place::Forced, Place::Apart] {
        let (lane, processes) = (Lane::told(), processes(place));
        let mut ends = lanes(&processes, &lane);
        first_words(&mut ends);
        let room = filled(8, 0);
        let [mut first, mut second] = ends;
        let request = receive(&mut first, 1, &room);
        let (bell, heard) = (processes[0].bell(), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                let _ = send(&mut second, 0, &filled(8, 9), SendMode::Standard);
                while !heard.load(Ordering::Relaxed) {
                    second.progress();
                }
            });
            let begun = Instant::now();
            while !first.is_complete(request) {
                bell.listen(0b10);
                bell.listen_to(&first.bell());
                bell.arm();
                if first.progress() || first.is_complete(request) {
                    bell.disarm();
                } else {
                    bell.sleep(PATIENCE);
                }
                assert!(begun.elapsed() < PATIENCE, "nobody rang");
            }
            heard.store(true, Ordering::Relaxed);
        });
        assert!(is_filled(&room, 9));
    }
}
