//! What must go wrong, goes wrong in the right way: bad keys, missing receives, dead peers, flushed requests.

mod common;

use common::*;
use weft_api::verbs::HcaRefusal as Refusal;
use weft_api::verbs::*;
use weft_softroce::Event;

fn pair(plan: &Plan) -> (Network, [End; 2]) {
    let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
    let ends = connect(&mut network, [0, 1], plan);
    (network, ends)
}

fn own(end: End, offset: u64, length: u32) -> [Segment; 1] {
    [Segment { address: BASE + offset, length, key: end.keys.local }]
}

fn write(to: u64, key: RemoteKey) -> Work {
    Work::Write { to: RemoteAddress { address: to, key }, immediate: None }
}

/// Connects two pairs that were made by hand, each named by its device.
fn join(network: &mut Network, ends: [(usize, QueuePairNumber); 2]) {
    for [(here, pair), (there, other)] in [ends, [ends[1], ends[0]]] {
        let remote = Remote {
            address: address(there).into(),
            by: 0,
            queue_pair: other,
            first_packet: 0,
            mtu: 256,
            max_incoming_reads: 1,
            not_ready_code: 1,
            access: Access::default(),
        };
        let device = &mut network.devices[here];
        device.initialise(pair).unwrap();
        device.ready_to_receive(pair, Some(remote)).unwrap();
        device.ready_to_send(pair, Some(Plan::default().sending)).unwrap();
    }
}

fn statuses(network: &mut Network, device: usize, queue: CompletionQueueId) -> Vec<(u64, CompletionStatus)> {
    std::iter::from_fn(|| network.devices[device].poll(queue)).map(|done| (done.id, done.status)).collect()
}

#[test]
fn a_bad_remote_key_fails_its_request_and_flushes_the_rest_on_both_sides() {
    let (mut network, [a, b]) = pair(&Plan::default());
    network.devices[1].post_receive(b.pair, 77, &own(b, 0, 8)).unwrap();
    let bad = RemoteKey(b.keys.remote.0 ^ 1);
    let device = &mut network.devices[0];
    device.post_send(a.pair, &WorkRequest::new(1, write(BASE, b.keys.remote), &own(a, 0, 8))).unwrap();
    device.post_send(a.pair, &WorkRequest::new(2, write(BASE, bad), &own(a, 0, 8))).unwrap();
    device.post_send(a.pair, &WorkRequest::new(3, write(BASE, b.keys.remote), &own(a, 0, 8))).unwrap();
    network.settle();
    use CompletionStatus::{Flushed, RemoteAccess, Success};
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, Success), (2, RemoteAccess), (3, Flushed)]);
    assert_eq!(statuses(&mut network, 1, b.receives), [(77, Flushed)]);
    for (device, end) in [(0, a), (1, b)] {
        assert_eq!(network.devices[device].state(end.pair), Some(QueuePairState::Error));
        assert_eq!(network.devices[device].event(), Some(Event::QueuePairFailed(end.pair)));
    }
    // What is posted now completes at once.
    network.devices[0].post_send(a.pair, &WorkRequest::new(4, write(BASE, bad), &own(a, 0, 8))).unwrap();
    assert_eq!(statuses(&mut network, 0, a.sends), [(4, Flushed)]);
}

#[test]
fn out_of_bounds_and_wrapping_addresses_are_refused() {
    for (address, length) in [(BASE - 1, 8), (BASE + (1 << 16) - 7, 8), (u64::MAX - 3, 8)] {
        let (mut network, [a, b]) = pair(&Plan::default());
        let request = WorkRequest::new(1, write(address, b.keys.remote), &[]);
        let segments = own(a, 0, length);
        network.devices[0]
            .post_send(a.pair, &WorkRequest { data: Data::Segments(&segments), ..request })
            .unwrap();
        network.settle();
        assert_eq!(statuses(&mut network, 0, a.sends), [(1, CompletionStatus::RemoteAccess)], "{address:#x}");
        assert!(network.devices[1].memory().0.iter().all(|&byte| byte == 0), "not a byte was touched");
    }
}

#[test]
fn an_own_segment_outside_its_region_fails_after_what_was_posted_before() {
    let (mut network, [a, b]) = pair(&Plan::default());
    let device = &mut network.devices[0];
    device.post_send(a.pair, &WorkRequest::new(1, write(BASE, b.keys.remote), &own(a, 0, 8))).unwrap();
    let outside = own(a, 1 << 16, 8);
    device.post_send(a.pair, &WorkRequest::new(2, write(BASE, b.keys.remote), &outside)).unwrap();
    network.settle();
    use CompletionStatus::{LocalProtection, Success};
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, Success), (2, LocalProtection)]);
}

#[test]
fn a_message_longer_than_its_receive_is_an_error_on_both_sides() {
    let (mut network, [a, b]) = pair(&Plan::default());
    network.devices[1].post_receive(b.pair, 5, &own(b, 0, 1500)).unwrap();
    let send = Work::Send { immediate: None };
    network.devices[0].post_send(a.pair, &WorkRequest::new(1, send, &own(a, 0, 1501))).unwrap();
    network.settle();
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, CompletionStatus::RemoteInvalidRequest)]);
    assert_eq!(statuses(&mut network, 1, b.receives), [(5, CompletionStatus::LocalLength)]);
}

#[test]
fn without_a_receive_the_sender_waits_as_often_as_it_was_told() {
    let mut plan = Plan::default();
    plan.sending.not_ready_retries = 3;
    let (mut network, [a, _]) = pair(&plan);
    let send = Work::Send { immediate: None };
    network.devices[0].post_send(a.pair, &WorkRequest::new(1, send, &own(a, 0, 8))).unwrap();
    network.settle();
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, CompletionStatus::NotReadyRetriesExceeded)]);
    assert!(network.now >= 3 * 10_000, "three times ten microseconds: {}", network.now);
}

#[test]
fn a_late_receive_is_found() {
    let (mut network, [a, b]) = pair(&Plan::default());
    let send = Work::Send { immediate: Some(9) };
    network.devices[0].post_send(a.pair, &WorkRequest::new(1, send, &own(a, 0, 3000))).unwrap();
    while network.now < 200_000 {
        network.step();
    }
    network.devices[1].post_receive(b.pair, 5, &own(b, 0, 3000)).unwrap();
    network.settle();
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, CompletionStatus::Success)]);
    let done = network.devices[1].poll(b.receives).unwrap();
    assert_eq!((done.status, done.bytes, done.immediate), (CompletionStatus::Success, 3000, Some(9)));
}

#[test]
fn a_dead_peer_is_given_up_after_all_retries() {
    let (mut network, [a, b]) = pair(&Plan::default());
    network.dead.push(1);
    let device = &mut network.devices[0];
    device.post_send(a.pair, &WorkRequest::new(1, write(BASE, b.keys.remote), &own(a, 0, 8))).unwrap();
    device.post_send(a.pair, &WorkRequest::new(2, write(BASE, b.keys.remote), &own(a, 0, 8))).unwrap();
    network.settle();
    use CompletionStatus::{Flushed, RetriesExceeded};
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, RetriesExceeded), (2, Flushed)]);
    // 65 us eight times, doubled at most four times.
    assert!((500_000..10_000_000).contains(&network.now), "{}", network.now);
}

#[test]
fn a_region_taken_back_in_the_middle_of_a_read_ends_it() {
    let (mut network, [a, b]) = pair(&Plan::default());
    let from = RemoteAddress { address: BASE, key: b.keys.remote };
    let read = WorkRequest::new(1, Work::Read { from }, &[]);
    let segments = own(a, 0, 60_000);
    network.devices[0].post_send(a.pair, &WorkRequest { data: Data::Segments(&segments), ..read }).unwrap();
    let mut request = Vec::new();
    network.devices[0].transmit(0, &mut request).expect("the read request");
    network.devices[1].receive(0, address(0), 0, &request);
    network.devices[1].deregister(b.keys.local).unwrap();
    network.settle();
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, CompletionStatus::RemoteAccess)]);
}

#[test]
fn misaligned_atomics_and_forbidden_posts_are_refused() {
    let (mut network, [a, b]) = pair(&Plan { max_send: 1, ..Plan::default() });
    let at = RemoteAddress { address: BASE + 4, key: b.keys.remote };
    let add = Work::FetchAdd { at, add: 1 };
    let device = &mut network.devices[0];
    assert_eq!(device.post_send(a.pair, &WorkRequest::new(1, add, &own(a, 0, 4))), Err(Refusal::Size));
    device.post_send(a.pair, &WorkRequest::new(1, add, &own(a, 0, 8))).unwrap();
    assert_eq!(device.post_send(a.pair, &WorkRequest::new(2, add, &own(a, 0, 8))), Err(Refusal::Full));
    assert_eq!(device.post_receive(QueuePairNumber(1), 0, &[]), Err(Refusal::Unknown));
    network.settle();
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, CompletionStatus::RemoteInvalidRequest)]);
}

#[test]
fn datagrams_arrive_behind_their_prefix_or_not_at_all() {
    let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
    let mut make = |device: usize, qkey| {
        let d = &mut network.devices[device];
        let domain = d.make_domain();
        let keys = d.register(domain, BASE, 1 << 16, Access::ALL).unwrap();
        let queue = d.make_completion_queue(16);
        let plan = QueuePairPlan {
            domain,
            service: Service::Datagram,
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: None,
            max_send: 16,
            max_receive: 16,
            qkey,
        };
        let pair = d.make_queue_pair(plan).unwrap();
        d.initialise(pair).unwrap();
        d.ready_to_receive(pair, None).unwrap();
        d.ready_to_send(pair, None).unwrap();
        End { device, pair, sends: queue, receives: queue, keys }
    };
    let (a, b) = (make(0, 1), make(1, 0x1234));
    network.devices[0].memory_mut().0[..5].copy_from_slice(b"hello");
    let to =
        |qkey| Work::Datagram { to: address(1).into(), by: 0, queue_pair: b.pair, qkey, immediate: Some(3) };
    let segments = own(a, 0, 5);
    for (id, qkey) in [(1, 0x1234), (2, 0x9999), (3, 0x1234)] {
        // The first finds no receive request and the second has the wrong key: both are lost, and complete.
        if id == 2 {
            network.settle();
            network.devices[1].post_receive(b.pair, 50, &own(b, 0, 45)).unwrap();
        }
        network.devices[0].post_send(a.pair, &WorkRequest::new(id, to(qkey), &segments)).unwrap();
    }
    network.settle();
    use CompletionStatus::Success;
    assert_eq!(statuses(&mut network, 0, a.sends), [(1, Success), (2, Success), (3, Success)]);
    let done = network.devices[1].poll(b.receives).unwrap();
    assert_eq!(
        (done.id, done.bytes, done.immediate, done.from),
        (50, 45, Some(3), Some((address(0).into(), a.pair)))
    );
    assert_eq!(&network.devices[1].memory().0[40..45], b"hello");
    assert_eq!(network.devices[1].memory().0[32..36], [10, 7, 0, 1], "the sender's address in the prefix");
    assert_eq!(network.devices[1].counters().no_receive, 1);
    assert_eq!(network.devices[1].counters().dropped, 1);
}

#[test]
fn a_shared_receive_queue_serves_many_and_tells_when_it_runs_low() {
    let mut network = Network::new(3, 1 << 16, 1, Faults::NONE);
    let shared = network.devices[0].make_shared_receive_queue(8);
    let domain = network.devices[0].make_domain();
    let keys = network.devices[0].register(domain, BASE, 1 << 16, Access::ALL).unwrap();
    let queue = network.devices[0].make_completion_queue(16);
    let mut senders = Vec::new();
    for device in 1..3 {
        let plan = QueuePairPlan {
            domain,
            service: Service::ReliableConnection,
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: Some(shared),
            max_send: 4,
            max_receive: 0,
            qkey: 0,
        };
        let receiver = network.devices[0].make_queue_pair(plan).unwrap();
        let d = &mut network.devices[device];
        let domain = d.make_domain();
        let own_keys = d.register(domain, BASE, 1 << 16, Access::ALL).unwrap();
        let own_queue = d.make_completion_queue(16);
        let plan = QueuePairPlan {
            domain,
            send_queue: own_queue,
            receive_queue: own_queue,
            shared_receive_queue: None,
            ..plan
        };
        let sender = d.make_queue_pair(plan).unwrap();
        join(&mut network, [(0, receiver), (device, sender)]);
        senders.push((device, sender, own_keys));
    }
    network.devices[0].set_limit(shared, 2).unwrap();
    for id in 0..3 {
        let segment = [Segment { address: BASE + id * 1000, length: 1000, key: keys.local }];
        network.devices[0].post_shared_receive(shared, id, &segment).unwrap();
    }
    for &(device, pair, keys) in &senders {
        let segment = [Segment { address: BASE, length: 600, key: keys.local }];
        let send = WorkRequest::new(1, Work::Send { immediate: None }, &segment);
        network.devices[device].post_send(pair, &send).unwrap();
    }
    network.settle();
    let mut got = statuses(&mut network, 0, queue);
    got.sort_by_key(|entry| entry.0);
    assert_eq!(got, [(0, CompletionStatus::Success), (1, CompletionStatus::Success)]);
    assert_eq!(network.devices[0].event(), Some(Event::LimitReached(shared)));
    assert_eq!(network.devices[0].event(), None, "told once");
    assert_eq!(network.devices[0].shared_receives_left(shared), 1);
}

/// Of a message that has arrived and was not looked at, and of one that has arrived in part.
#[test]
fn receive_requests_of_a_destroyed_pair_come_back() {
    let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
    let [a, b] = connect(&mut network, [0, 1], &Plan::default());
    let device = &mut network.devices[1];
    let shared = device.make_shared_receive_queue(8);
    let plan = QueuePairPlan {
        domain: ProtectionDomain(1),
        service: Service::ReliableConnection,
        send_queue: b.sends,
        receive_queue: b.receives,
        shared_receive_queue: Some(shared),
        max_send: 4,
        max_receive: 0,
        qkey: 0,
    };
    let receiver = device.make_queue_pair(plan).unwrap();
    for id in 0..3 {
        let segment = [Segment { address: BASE + id * 4096, length: 4096, key: b.keys.local }];
        device.post_shared_receive(shared, id, &segment).unwrap();
    }
    let sender = network.devices[0]
        .make_queue_pair(QueuePairPlan {
            send_queue: a.sends,
            receive_queue: a.receives,
            shared_receive_queue: None,
            ..plan
        })
        .unwrap();
    join(&mut network, [(0, sender), (1, receiver)]);
    let send = |id| WorkRequest::new(id, Work::Send { immediate: None }, &[]);
    network.devices[0].post_send(sender, &send(1)).unwrap();
    network.settle();
    let long = own(a, 0, 4096);
    network.devices[0].post_send(sender, &WorkRequest { data: Data::Segments(&long), ..send(2) }).unwrap();
    while network.devices[1].shared_receives_left(shared) == 2 {
        network.step();
    }
    network.devices[1].destroy_queue_pair(receiver).unwrap();
    let back: Vec<_> = std::iter::from_fn(|| network.devices[1].poll(b.receives))
        .map(|done| (done.id, done.status, done.queue_pair))
        .collect();
    assert_eq!(back, [(0, CompletionStatus::Flushed, NOBODY), (1, CompletionStatus::Flushed, NOBODY)]);
}

#[test]
fn a_full_completion_queue_is_an_event() {
    let mut network = Network::new(2, 1 << 16, 1, Faults::NONE);
    let [a, b] = connect(&mut network, [0, 1], &Plan::default());
    let tiny = network.devices[0].make_completion_queue(1);
    let plan = QueuePairPlan {
        domain: ProtectionDomain(1),
        service: Service::ReliableConnection,
        send_queue: tiny,
        receive_queue: tiny,
        shared_receive_queue: None,
        max_send: 4,
        max_receive: 4,
        qkey: 0,
    };
    let pair = network.devices[0].make_queue_pair(plan).unwrap();
    network.devices[0].fail(pair).unwrap();
    for id in 0..2 {
        network.devices[0].post_receive(pair, id, &[]).unwrap();
    }
    assert_eq!(network.devices[0].event(), Some(Event::QueuePairFailed(pair)));
    assert_eq!(network.devices[0].event(), Some(Event::Overrun(tiny)));
    assert_ne!(a.pair, pair);
    assert_ne!(b.pair.0, 0);
}

/// A read of many packets is asked for in parts, which nobody sees: it completes once, with every byte, whatever is lost.
#[test]
fn a_long_read_completes_once_over_a_bad_network() {
    const LENGTH: usize = 70_001;
    for seed in 0..8 {
        let faults = Faults { loss: 0.03, doubling: 0.03, damage: 0.01, delay: 9_000 };
        let mut network = Network::new(2, 1 << 18, seed, faults);
        let [a, b] = connect(&mut network, [0, 1], &Plan::default());
        let content: Vec<u8> = (0..LENGTH as u64).map(|at| (at.wrapping_mul(seed + 3) >> 3) as u8).collect();
        network.devices[1].memory_mut().0[..LENGTH].copy_from_slice(&content);
        let from = RemoteAddress { address: BASE, key: b.keys.remote };
        for (id, signaled) in [(1, true), (2, false), (3, true)] {
            let segments = own(a, 0, LENGTH as u32);
            let request = WorkRequest::new(id, Work::Read { from }, &segments);
            network.devices[0].post_send(a.pair, &WorkRequest { signaled, ..request }).unwrap();
        }
        network.settle();
        let success = |id| (id, CompletionStatus::Success);
        assert_eq!(statuses(&mut network, 0, a.sends), [success(1), success(3)], "seed {seed}");
        assert!(network.devices[0].memory().0[..LENGTH] == content, "seed {seed}");
    }
}

/// Memory that was unmapped under its region ends requests with an error, at either end, and each request once.
#[test]
fn memory_that_is_gone_is_an_error() {
    use CompletionStatus::{Flushed, LocalProtection, RemoteOperation};
    let local = |end: End| own(end, 0, 40_000);
    for (work, gone, status) in [
        ("read", 1, RemoteOperation),
        ("read", 0, LocalProtection),
        ("write", 1, RemoteOperation),
        ("write", 0, LocalProtection),
    ] {
        let (mut network, [a, b]) = pair(&Plan::default());
        network.devices[gone].memory_mut().0.truncate(20_000);
        let there = RemoteAddress { address: BASE, key: b.keys.remote };
        let work = match work {
            "read" => Work::Read { from: there },
            _ => Work::Write { to: there, immediate: None },
        };
        for id in [1, 2] {
            network.devices[0].post_send(a.pair, &WorkRequest::new(id, work, &local(a))).unwrap();
        }
        network.settle();
        assert_eq!(statuses(&mut network, 0, a.sends), [(1, status), (2, Flushed)], "{work:?} {gone}");
    }
}
