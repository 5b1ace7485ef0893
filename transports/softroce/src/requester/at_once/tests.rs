use super::*;
use crate::arena::Arena;
use crate::card::Card;
use crate::way::{Arrival, Wire};
use crate::wire::{Aeth, Syndrome};
use std::time::Duration;
use weft_api::Bell;
use weft_api::verbs::{
    Access, CompletionQueueId, Hca, ProtectionDomain, QueuePairPlan, Remote, RemoteAddress, RemoteKey,
    Sending, Service, WorkRequest,
};
use weft_sim::{Random, seeds, worlds};

const HERE: &str = "10.0.0.1:4791";
const THERE: &str = "10.0.0.2:4791";

/// A device with one connection, and its completion queue.
fn device(first_packet: u32, max_send: u32) -> (Device<Arena>, QueuePairNumber, CompletionQueueId) {
    let mut device = Device::new(HERE.parse().unwrap(), Arena::default());
    // Silence ends nothing.
    device.wait_for_the_silent(true);
    let domain = device.make_domain();
    let queue = device.make_completion_queue(1 << 10);
    let number = device.make_queue_pair(plan(domain, queue, max_send)).unwrap();
    device.initialise(number).unwrap();
    device.ready_to_receive(number, Some(remote())).unwrap();
    device.ready_to_send(number, Some(sending(first_packet))).unwrap();
    (device, number, queue)
}

fn remote() -> Remote {
    let there: SocketAddr = THERE.parse().unwrap();
    Remote {
        address: there.into(),
        by: 0,
        queue_pair: QueuePairNumber(77),
        first_packet: 0,
        mtu: 256,
        max_incoming_reads: 1,
        not_ready_code: 1,
        access: Access::default(),
    }
}

fn sending(first_packet: u32) -> Sending {
    Sending { first_packet, timeout: 8, retries: 7, not_ready_retries: 7, max_reads: 1 }
}

fn plan(domain: ProtectionDomain, queue: CompletionQueueId, max_send: u32) -> QueuePairPlan {
    QueuePairPlan {
        domain,
        service: Service::ReliableConnection,
        send_queue: queue,
        receive_queue: queue,
        shared_receive_queue: None,
        max_send,
        max_receive: 1,
        qkey: 0,
    }
}

/// All packets that may leave now.
fn leaving(device: &mut Device<Arena>, now: Nanos) -> Vec<Vec<u8>> {
    let mut datagram = Vec::new();
    std::iter::from_fn(|| device.transmit(now, &mut datagram).map(|_| datagram.clone())).collect()
}

fn short<'a>(random: &mut Random, number: QueuePairNumber, id: u64, bytes: &'a mut [u8]) -> Short<'a> {
    let immediate = (random.below(4) == 0).then_some(0x1234_5678);
    let to = RemoteAddress { address: 0x10_0000 + id, key: RemoteKey(id as u32) };
    let work = if random.below(2) == 0 { Work::Send { immediate } } else { Work::Write { to, immediate } };
    let length = random.below(80) as usize;
    bytes.iter_mut().zip(0..).for_each(|(byte, at)| *byte = (id + at) as u8);
    Short { number, id, work, bytes: &bytes[..length], signaled: random.below(8) == 0 }
}

/// The short way sends what the general one sends and leaves the device as that leaves it, whatever came between: answers, requests to
/// go back, silence, full queues.
fn run(seed: u64) {
    let mut random = Random::new(seed);
    // Numbers wrap.
    let first = (random.below(64) as u32).wrapping_sub(32) & 0x00ff_ffff;
    let max_send = 8 + random.below(56) as u32;
    let (mut general, number, queue) = device(first, max_send);
    let (mut quick, _, _) = device(first, max_send);
    let (mut now, mut at_once) = (0, 0);
    for id in 0..200 {
        now += random.below(3_000);
        general.tick(now);
        quick.tick(now);
        assert_eq!(leaving(&mut quick, now), leaving(&mut general, now), "step {id}");
        match random.below(8) {
            0..3 => {
                // An answer to any of the last packets, or a wish for one of them.
                let psn = general.queue_pairs[&number.0].requester.as_ref().unwrap().next;
                let psn = psn.minus(1 + random.below(3) as u32);
                let syndrome = match random.below(6) {
                    0 => Syndrome::Sequence,
                    1 => Syndrome::NotReady(1),
                    _ => Syndrome::UNCOUNTED,
                };
                let mut packet = Packet::new(Opcode::ACKNOWLEDGE, number.0, psn);
                packet.aeth = Some(Aeth { syndrome, msn: 0 });
                let (mut datagram, from) = (Vec::new(), THERE.parse().unwrap());
                packet.emit(&mut datagram);
                crate::wire::icrc::seal(
                    Flow { source: from, destination: HERE.parse().unwrap() },
                    &mut datagram,
                );
                general.receive(now, from, 0, &datagram);
                quick.receive(now, from, 0, &datagram);
            }
            3 => now += random.below(400_000),
            _ => {
                let mut bytes = [0; 80];
                let short = short(&mut random, number, id, &mut bytes);
                let data = [short.bytes];
                let request = WorkRequest::new(id, short.work, &[]);
                let data = weft_api::verbs::Data::Inline(&data);
                let request = WorkRequest { data, signaled: short.signaled, ..request };
                let posted = general.post_send(number, &request);
                let ours = leaving(&mut general, now);
                let mut datagram = Vec::new();
                let local = quick.local;
                let theirs = match quick.send_at_once(&short, || now, &mut datagram, |_| local) {
                    Some(to) => {
                        assert_eq!((to, posted), (THERE.parse().unwrap(), Ok(())));
                        at_once += 1;
                        vec![datagram]
                    }
                    None => {
                        assert_eq!(quick.post_send(number, &request), posted);
                        leaving(&mut quick, now)
                    }
                };
                assert_eq!(theirs, ours, "request {id}");
            }
        }
        assert_eq!(leaving(&mut quick, now), leaving(&mut general, now), "step {id}");
        while let Some(done) = general.poll(queue) {
            assert_eq!(quick.poll(queue), Some(done));
        }
        assert_eq!(format!("{quick:?}"), format!("{general:?}"), "step {id}");
    }
    assert!(at_once > 10, "only {at_once} requests left at once");
}

#[test]
fn the_short_way_does_what_the_general_one_does() {
    worlds(seeds(300), run);
}

/// A wire that keeps what is sent until it is flushed.
#[derive(Default)]
struct Keeping {
    kept: usize,
    left: usize,
}

#[derive(Clone)]
struct Silent;

impl Bell for Silent {
    fn arm(&self) {}
    fn sleep(&self, _: Duration) {}
    fn disarm(&self) {}
}

impl Wire for Keeping {
    type Bell = Silent;

    fn now(&self) -> Nanos {
        0
    }

    fn send(&mut self, _: SocketAddr, _: &mut Vec<u8>) -> bool {
        self.kept += 1;
        true
    }

    fn flush(&mut self) -> bool {
        self.left += std::mem::take(&mut self.kept);
        true
    }

    fn receive<'a>(&'a mut self, _: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        None
    }

    fn bell(&self) -> Silent {
        Silent
    }

    fn mtu(&self) -> u32 {
        256
    }
}

/// What a call has posted has left when it returns, whether datagrams leave alone or together.
#[test]
fn what_is_sent_at_once_is_not_kept_by_the_wire() {
    let mut card = Card::new(HERE.parse().unwrap(), Keeping::default());
    let queue = card.make_completion_queue(8).unwrap();
    let number = card.make_queue_pair(plan(ProtectionDomain(0), queue, 8)).unwrap();
    card.open_queue_pair(number, Some((remote(), sending(0)))).unwrap();
    for sent in 1..=4 {
        card.send_few(number, sent, b"12345678", false).unwrap();
        let wire = card.wire();
        assert_eq!((wire.left as u64, wire.kept), (sent, 0));
    }
}
