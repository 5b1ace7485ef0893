//! The device of the system does what `Hca` says, between two queue pairs of this process. Needs a device: see `common::port`.

mod common;

use std::time::{Duration, Instant};
use weft_api::Bell;
use weft_api::verbs::{
    Access, CompletedWork, Completion, CompletionQueueId, CompletionStatus, Data, DeviceBuffer, Hca,
    HcaRefusal, ProtectionDomain, QueuePairNumber, QueuePairPlan, QueuePairState, Remote, RemoteAddress,
    Segment, Sending, Service, SharedReceiveQueueId, Work, WorkRequest,
};
use weft_verbs::Verbs;

/// Longer than anything takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// One end of a connection, or of datagrams.
struct End {
    hca: Verbs,
    queue: CompletionQueueId,
    receives: SharedReceiveQueueId,
    pair: QueuePairNumber,
    buffer: DeviceBuffer,
}

const MAX_SEND: u32 = 16;

impl End {
    fn new(service: Service) -> Option<End> {
        let mut hca = Verbs::open(common::port()?).unwrap();
        let queue = hca.make_completion_queue(256).unwrap();
        let receives = hca.make_shared_receive_queue(64).unwrap();
        let pair = hca
            .make_queue_pair(QueuePairPlan {
                domain: ProtectionDomain(0),
                service,
                send_queue: queue,
                receive_queue: queue,
                shared_receive_queue: Some(receives),
                max_send: MAX_SEND,
                max_receive: 0,
                qkey: 0x1234,
            })
            .unwrap();
        let buffer = hca.allocate(1 << 20, Access::ALL).unwrap();
        Some(End { hca, queue, receives, pair, buffer })
    }

    fn segment(&self, offset: u64, length: u32) -> Segment {
        Segment { address: self.buffer.address + offset, length, key: self.buffer.keys.local }
    }

    fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: self.buffer.address + offset, key: self.buffer.keys.remote }
    }

    fn post_receive(&mut self, id: u64, offset: u64, length: u32) {
        let segment = [self.segment(offset, length)];
        self.hca.post_receive(self.receives, id, &segment).unwrap();
    }

    fn completion(&mut self) -> Completion {
        let begun = Instant::now();
        loop {
            if let Some(done) = self.hca.poll(self.queue) {
                return done;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing completes");
            std::thread::yield_now();
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.hca.bytes_mut(self.buffer.address + offset, bytes.len()).copy_from_slice(bytes);
    }

    fn read(&self, offset: u64, length: usize) -> &[u8] {
        self.hca.bytes(self.buffer.address + offset, length)
    }

    fn post(&mut self, id: u64, work: Work, segments: &[Segment]) {
        self.hca.post_send(self.pair, &WorkRequest::new(id, work, segments)).unwrap();
    }
}

fn join(a: &mut End, b: &mut End) {
    join_with(a, b, Access::ALL);
}

fn join_with(a: &mut End, b: &mut End, access: Access) {
    let sending =
        |first| Sending { first_packet: first, timeout: 14, retries: 7, not_ready_retries: 7, max_reads: 4 };
    let mtu = a.hca.limits().mtu;
    let remote = |of: &End, first| Remote {
        address: of.hca.address(),
        queue_pair: of.pair,
        first_packet: first,
        mtu,
        max_incoming_reads: 4,
        not_ready_code: 12,
        access,
    };
    let (to_a, to_b) = (remote(a, 0xff_fff0), remote(b, 77));
    a.hca.open_queue_pair(a.pair, Some((to_b, sending(0xff_fff0)))).unwrap();
    b.hca.open_queue_pair(b.pair, Some((to_a, sending(77)))).unwrap();
}

fn two() -> Option<(End, End)> {
    let mut a = End::new(Service::ReliableConnection)?;
    let mut b = End::new(Service::ReliableConnection)?;
    join(&mut a, &mut b);
    Some((a, b))
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

#[test]
fn messages_of_every_size_arrive() {
    let Some((mut a, mut b)) = two() else { return };
    println!("over {}: {:?}, {:?}", a.hca.choice().why, a.hca.limits(), a.hca.facts());
    for (number, length) in
        [0, 1, 7, 64, 1023, 1024, 1025, 4096, 4097, 70_000, 500_000].into_iter().enumerate()
    {
        let (number, bytes) = (number as u64, pattern(length, number as u8));
        b.post_receive(number, 0, 1 << 20);
        a.write(0, &bytes);
        let segment = [a.segment(0, length as u32)];
        a.post(100 + number, Work::Send { immediate: (length % 2 == 1).then_some(0xa1b2_c3d4) }, &segment);
        let got = b.completion();
        assert_eq!(
            (got.id, got.status, got.work),
            (number, CompletionStatus::Success, CompletedWork::Receive)
        );
        assert_eq!((got.bytes as usize, got.queue_pair), (length, b.pair));
        assert_eq!(got.immediate, (length % 2 == 1).then_some(0xa1b2_c3d4));
        assert!(b.read(0, length) == bytes, "content of {length} bytes");
        let sent = a.completion();
        assert_eq!(
            (sent.id, sent.status, sent.work),
            (100 + number, CompletionStatus::Success, CompletedWork::Send)
        );
    }
}

#[test]
fn several_parts_are_gathered_inline_or_not() {
    let Some((mut a, mut b)) = two() else { return };
    let limits = a.hca.limits();
    assert!(limits.max_inline >= 44, "room for a handshake: {}", limits.max_inline);
    b.post_receive(1, 0, 4096);
    b.post_receive(2, 8192, 4096);
    let parts: [&[u8]; 3] = [b"one ", b"", b"two"];
    let mut request = WorkRequest::new(5, Work::Send { immediate: None }, &[]);
    request.data = Data::Inline(&parts);
    a.hca.post_send(a.pair, &request).unwrap();
    a.write(0, b"abcdef");
    let segments = [a.segment(4, 2), a.segment(0, 3)];
    a.post(6, Work::Send { immediate: None }, &segments);
    assert_eq!((b.completion().bytes, b.completion().bytes), (7, 5));
    assert_eq!((b.read(0, 7), b.read(8192, 5)), (&b"one two"[..], &b"efabc"[..]));
    let too_long = vec![0; limits.max_inline as usize + 1];
    let parts = [&too_long[..]];
    request.data = Data::Inline(&parts);
    assert_eq!(a.hca.post_send(a.pair, &request), Err(HcaRefusal::Size));
}

#[test]
fn writes_reads_and_atomics_reach_the_other_memory() {
    let Some((mut a, mut b)) = two() else { return };
    let bytes = pattern(100_000, 3);
    a.write(0, &bytes);
    let (segment, to) = ([a.segment(0, 100_000)], b.remote(1000));
    a.post(1, Work::Write { to, immediate: None }, &segment);
    assert_eq!(a.completion().work, CompletedWork::Write);
    assert!(b.read(1000, 100_000) == bytes);

    b.post_receive(9, 0, 0);
    a.post(2, Work::Write { to, immediate: Some(42) }, &segment[..1]);
    let told = b.completion();
    assert_eq!((told.id, told.work, told.immediate), (9, CompletedWork::ReceiveWrite, Some(42)));
    assert_eq!(a.completion().id, 2);

    let segment = [a.segment(200_000, 100_000)];
    a.post(3, Work::Read { from: b.remote(1000) }, &segment);
    let read = a.completion();
    assert_eq!((read.work, read.bytes), (CompletedWork::Read, 100_000));
    assert!(a.read(200_000, 100_000) == bytes);

    if !a.hca.limits().atomics {
        return println!("skip: no atomics on this device");
    }
    b.write(512, &7_u64.to_ne_bytes());
    let (at, into) = (b.remote(512), [a.segment(0, 8)]);
    for (number, work, before, after) in [
        (4, Work::FetchAdd { at, add: 5 }, 7, 12),
        (5, Work::CompareSwap { at, compare: 12, swap: u64::MAX }, 12, u64::MAX),
        (6, Work::CompareSwap { at, compare: 12, swap: 1 }, u64::MAX, u64::MAX),
        (7, Work::FetchAdd { at, add: 2 }, u64::MAX, 1),
    ] {
        a.post(number, work, &into);
        let done = a.completion();
        assert_eq!((done.id, done.status), (number, CompletionStatus::Success));
        assert_eq!(a.read(0, 8), u64::to_ne_bytes(before), "what was there before request {number}");
        assert_eq!(b.read(512, 8), u64::to_ne_bytes(after), "what request {number} left");
    }
}

#[test]
fn a_wrong_key_fails_there_and_ends_the_connection_here() {
    let Some((mut a, mut b)) = two() else { return };
    let mut to = b.remote(0);
    to.key.0 ^= 0x55;
    let segment = [a.segment(0, 8)];
    a.post(1, Work::Write { to, immediate: None }, &segment);
    a.post(2, Work::Send { immediate: None }, &segment);
    let failed = a.completion();
    assert_eq!((failed.id, failed.status), (1, CompletionStatus::RemoteAccess));
    let flushed = a.completion();
    assert_eq!((flushed.id, flushed.status), (2, CompletionStatus::Flushed));
    assert_eq!(a.hca.state(a.pair), Some(QueuePairState::Error));
    a.post(3, Work::Send { immediate: None }, &segment);
    assert_eq!(a.completion().status, CompletionStatus::Flushed, "what comes later is flushed too");
    b.post_receive(1, 0, 8);
}

#[test]
fn rights_that_were_not_given_are_not_there() {
    let Some(mut a) = End::new(Service::ReliableConnection) else { return };
    let mut b = End::new(Service::ReliableConnection).unwrap();
    join_with(&mut a, &mut b, Access { local_write: true, remote_write: true, ..Access::default() });
    let segment = [a.segment(0, 8)];
    a.post(1, Work::Write { to: b.remote(0), immediate: None }, &segment);
    assert_eq!(a.completion().status, CompletionStatus::Success);
    a.post(2, Work::Read { from: b.remote(0) }, &segment);
    assert_ne!(a.completion().status, CompletionStatus::Success);
}

#[test]
fn requests_nobody_hears_of_give_their_room_back() {
    let Some((mut a, mut b)) = two() else { return };
    let segment = [a.segment(0, 8)];
    let to = b.remote(0);
    let begun = Instant::now();
    for number in 0..20 * u64::from(MAX_SEND) {
        let mut request = WorkRequest::new(number, Work::Write { to, immediate: None }, &segment);
        request.signaled = false;
        while let Err(refusal) = a.hca.post_send(a.pair, &request) {
            assert_eq!(refusal, HcaRefusal::Full);
            assert_eq!(a.hca.poll(a.queue), None, "nobody asked to hear of it");
            assert!(begun.elapsed() < PATIENCE, "no room comes back");
        }
    }
    a.write(0, b"the last");
    let last = WorkRequest::new(99, Work::Write { to, immediate: None }, &segment);
    while a.hca.post_send(a.pair, &last) == Err(HcaRefusal::Full) {
        assert_eq!(a.hca.poll(a.queue), None, "nobody asked to hear of it");
        assert!(begun.elapsed() < PATIENCE, "no room comes back");
    }
    assert_eq!(a.completion().id, 99);
    assert_eq!(b.read(0, 8), b"the last");
    b.hca.destroy_queue_pair(b.pair);
}

#[test]
fn a_chain_of_requests_is_one_post_and_arrives_in_order() {
    let Some((mut a, mut b)) = two() else { return };
    for number in 0..MAX_SEND {
        a.write(u64::from(number) * 8, &u64::from(number).to_ne_bytes());
        b.post_receive(u64::from(number), u64::from(number) * 8, 8);
    }
    let segments: Vec<[Segment; 1]> = (0..MAX_SEND).map(|n| [a.segment(u64::from(n) * 8, 8)]).collect();
    let requests: Vec<_> = segments
        .iter()
        .zip(0..)
        .map(|(segment, id)| WorkRequest {
            signaled: id == u64::from(MAX_SEND) - 1,
            ..WorkRequest::new(id, Work::Send { immediate: Some(id as u32) }, segment)
        })
        .collect();
    a.hca.post_sends(a.pair, &requests).unwrap();
    assert_eq!(a.hca.post_send(a.pair, &requests[0]), Err(HcaRefusal::Full));
    for number in 0..MAX_SEND {
        assert_eq!(b.completion().immediate, Some(number));
        assert_eq!(b.read(u64::from(number) * 8, 8), u64::from(number).to_ne_bytes());
    }
    assert_eq!(a.completion().id, u64::from(MAX_SEND) - 1, "one is heard of");
}

#[test]
fn datagrams_come_behind_forty_bytes() {
    let Some(mut a) = End::new(Service::Datagram) else { return };
    let mut b = End::new(Service::Datagram).unwrap();
    for end in [&mut a, &mut b] {
        end.hca.open_queue_pair(end.pair, None).unwrap();
        end.post_receive(1, 0, 4096);
    }
    let work = |queue_pair, to| Work::Datagram { to, queue_pair, qkey: 0x1234, immediate: Some(8) };
    let to_b = work(b.pair, b.hca.address());
    let parts = [&b"first contact"[..]];
    let begun = Instant::now();
    // They may be lost; this many hardly.
    let got = loop {
        let mut request = WorkRequest::new(1, to_b, &[]);
        request.data = Data::Inline(&parts);
        request.signaled = false;
        a.hca.post_send(a.pair, &request).unwrap();
        let sent = Instant::now();
        let mut got = None;
        while got.is_none() && sent.elapsed() < Duration::from_secs(2) {
            got = b.hca.poll(b.queue);
        }
        if let Some(got) = got {
            break got;
        }
        assert!(begun.elapsed() < PATIENCE, "no datagram arrives");
    };
    assert_eq!((got.status, got.bytes, got.immediate), (CompletionStatus::Success, 40 + 13, Some(8)));
    assert_eq!(b.read(40, 13), b"first contact");
    let segment = [a.segment(0, a.hca.limits().mtu)];
    let mut request = WorkRequest::new(2, to_b, &segment);
    request.signaled = true;
    a.hca.post_send(a.pair, &request).unwrap();
    assert_eq!(a.completion().id, 2, "a datagram is over when it has left");
}

#[test]
fn registered_memory_is_read_and_written_in_place() {
    let Some((mut a, mut b)) = two() else { return };
    let source = pattern(50_000, 9);
    let mut target = vec![0_u8; 50_000];
    let local = a.hca.register(source.as_ptr() as u64, source.len() as u64, Access::default()).unwrap();
    let access = Access { local_write: true, remote_write: true, ..Access::default() };
    let remote = b.hca.register(target.as_mut_ptr() as u64, target.len() as u64, access).unwrap();
    let segment = [Segment { address: source.as_ptr() as u64, length: 50_000, key: local.local }];
    let to = RemoteAddress { address: target.as_ptr() as u64, key: remote.remote };
    a.post(1, Work::Write { to, immediate: None }, &segment);
    assert_eq!(a.completion().status, CompletionStatus::Success);
    b.hca.deregister(remote);
    assert!(std::hint::black_box(&target) == &source);
    a.post(2, Work::Write { to, immediate: None }, &segment);
    assert_eq!(a.completion().status, CompletionStatus::RemoteAccess, "the region was given back");
    a.hca.deregister(local);
    assert_eq!(a.hca.register(1, 4096, Access::ALL), Err(HcaRefusal::Invalid), "nothing is mapped there");
    assert_eq!(a.hca.register(source.as_ptr() as u64, 0, Access::ALL), Err(HcaRefusal::Invalid));
}

#[test]
fn a_sleeper_is_woken_by_a_completion_and_by_a_call() {
    let Some((mut a, mut b)) = two() else { return };
    for number in 0..20 {
        b.post_receive(number, 0, 64);
        let bell = b.hca.bell();
        let (armed, is_armed) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            bell.arm();
            armed.send(()).unwrap();
            bell.sleep(PATIENCE);
        });
        // What comes before is found by a second look.
        is_armed.recv().unwrap();
        if number % 2 == 0 {
            let segment = [a.segment(0, 8)];
            a.post(number, Work::Send { immediate: None }, &segment);
            a.completion();
        }
        let begun = Instant::now();
        while !sleeper.is_finished() {
            if number % 2 == 1 {
                b.hca.bell().ring();
            }
            assert!(begun.elapsed() < PATIENCE / 2, "the sleeper {number} sleeps on");
            std::thread::yield_now();
        }
        sleeper.join().unwrap();
        while b.hca.poll(b.queue).is_some() {}
    }
}

#[test]
fn a_child_process_does_not_disturb_registered_memory() {
    let Some((mut a, mut b)) = two() else { return };
    b.post_receive(1, 0, 64);
    a.write(0, b"before the child");
    let mut child = std::process::Command::new("sleep").arg("3").spawn().unwrap();
    // Written after the fork: the device must see these pages, and we those it writes.
    a.write(0, b"after the child");
    let segment = [a.segment(0, 15)];
    a.post(1, Work::Send { immediate: None }, &segment);
    assert_eq!(b.completion().bytes, 15);
    assert_eq!(b.read(0, 15), b"after the child");
    child.kill().unwrap();
    child.wait().unwrap();
}
