//! What two joined devices of any kinds must do for each other; the first asks.

use super::ends::{MAX_SEND, QKEY, Two, pattern};
use std::time::{Duration, Instant};
use weft_api::verbs::{
    Access, CompletedWork, CompletionStatus, Data, Hca, HcaRefusal, NOBODY, Segment, Work, WorkRequest,
};

/// Makes a test of each: `$make` makes the two devices for a service, or says that there are none.
#[macro_export]
macro_rules! battery {
    ($make:path) => {
        $crate::battery! { $make;
            messages_of_every_size_arrive: ReliableConnection,
            messages_go_both_ways_at_once: ReliableConnection,
            several_parts_are_gathered_inline_or_not: ReliableConnection,
            writes_and_reads_reach_the_other_memory: ReliableConnection,
            atomics_answer_with_what_was_there: ReliableConnection,
            a_late_receive_is_waited_for: ReliableConnection,
            a_wrong_key_fails_there_and_ends_the_connection_here: ReliableConnection,
            rights_that_were_not_given_are_not_there: ReliableConnection,
            requests_nobody_hears_of_give_their_room_back: ReliableConnection,
            a_chain_of_requests_arrives_in_order: ReliableConnection,
            receive_requests_of_a_destroyed_pair_come_back: ReliableConnection,
            datagrams_come_behind_forty_bytes: Datagram,
        }
    };
    ($make:path; $($name:ident: $service:ident,)*) => {
        $(#[test]
        fn $name() {
            if let Some(mut two) = $make(weft_api::verbs::Service::$service) {
                $crate::common::battery::$name(&mut two);
            }
        })*
    };
}

pub fn messages_of_every_size_arrive<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    let sizes = [0, 1, 7, 64, 1023, 1024, 1025, 4096, 4097, 70_000, 500_000];
    for (number, length) in sizes.into_iter().enumerate() {
        let (number, bytes) = (number as u64, pattern(length, number as u8));
        two.b.post_receive(number, 0, 1 << 20);
        two.a.write(0, &bytes);
        let segment = [two.a.segment(0, length as u32)];
        let immediate = (length % 2 == 1).then_some(0xa1b2_c3d4);
        two.a.post(100 + number, Work::Send { immediate }, &segment);
        let got = two.of_b();
        assert_eq!(
            (got.id, got.status, got.work),
            (number, CompletionStatus::Success, CompletedWork::Receive)
        );
        assert_eq!((got.bytes as usize, got.queue_pair, got.immediate), (length, two.b.pair, immediate));
        assert!(two.b.read(0, length) == bytes, "content of {length} bytes");
        let sent = two.of_a();
        assert_eq!(
            (sent.id, sent.status, sent.work),
            (100 + number, CompletionStatus::Success, CompletedWork::Send)
        );
    }
}

pub fn messages_go_both_ways_at_once<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    const MESSAGES: u64 = 12;
    two.connect(Access::ALL);
    let length = |number: u64| 1 + (number * 2711 % 9000) as u32;
    for number in 0..MESSAGES {
        let offset = number * 10_000;
        two.a.post_receive(number, 500_000 + offset, 10_000);
        two.b.post_receive(number, 500_000 + offset, 10_000);
        two.a.write(offset, &pattern(length(number) as usize, number as u8));
        two.b.write(offset, &pattern(length(number) as usize, !number as u8));
    }
    for number in 0..MESSAGES {
        let (own, other) = (
            [two.a.segment(number * 10_000, length(number))],
            [two.b.segment(number * 10_000, length(number))],
        );
        two.a.post(100 + number, Work::Send { immediate: None }, &own);
        two.b.post(100 + number, Work::Send { immediate: None }, &other);
    }
    for side in 0..2 {
        let mut received = 0;
        for _ in 0..2 * MESSAGES {
            let done = if side == 0 { two.of_a() } else { two.of_b() };
            assert_eq!(done.status, CompletionStatus::Success);
            if done.work == CompletedWork::Receive {
                assert_eq!((done.id, done.bytes), (received, length(received)), "in order");
                received += 1;
            }
        }
        assert_eq!(received, MESSAGES);
    }
    for number in 0..MESSAGES {
        let (offset, bytes) = (500_000 + number * 10_000, length(number) as usize);
        assert!(two.a.read(offset, bytes) == pattern(bytes, !number as u8), "message {number} to the first");
        assert!(two.b.read(offset, bytes) == pattern(bytes, number as u8), "message {number} to the second");
    }
}

pub fn several_parts_are_gathered_inline_or_not<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    let limits = two.a.hca.limits();
    assert!(limits.max_inline >= 44, "room for a handshake: {}", limits.max_inline);
    two.b.post_receive(1, 0, 4096);
    two.b.post_receive(2, 8192, 4096);
    let parts: [&[u8]; 3] = [b"one ", b"", b"two"];
    let mut request = WorkRequest::new(5, Work::Send { immediate: None }, &[]);
    request.data = Data::Inline(&parts);
    two.a.hca.post_send(two.a.pair, &request).unwrap();
    two.a.write(0, b"abcdef");
    let segments = [two.a.segment(4, 2), two.a.segment(0, 3)];
    two.a.post(6, Work::Send { immediate: None }, &segments);
    assert_eq!((two.of_b().bytes, two.of_b().bytes), (7, 5));
    assert_eq!((two.of_a().id, two.of_a().id), (5, 6));
    assert_eq!((two.b.read(0, 7), two.b.read(8192, 5)), (&b"one two"[..], &b"efabc"[..]));
    let too_long = vec![0; limits.max_inline as usize + 1];
    let parts = [&too_long[..]];
    request.data = Data::Inline(&parts);
    assert_eq!(two.a.hca.post_send(two.a.pair, &request), Err(HcaRefusal::Size));
}

pub fn writes_and_reads_reach_the_other_memory<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    let bytes = pattern(100_000, 3);
    two.a.write(0, &bytes);
    let (segment, to) = ([two.a.segment(0, 100_000)], two.b.remote(1000));
    two.a.post(1, Work::Write { to, immediate: None }, &segment);
    assert_eq!(two.of_a().work, CompletedWork::Write);
    assert!(two.b.read(1000, 100_000) == bytes);

    two.b.post_receive(9, 0, 0);
    two.a.post(2, Work::Write { to, immediate: Some(42) }, &segment);
    let told = two.of_b();
    assert_eq!((told.id, told.work, told.immediate), (9, CompletedWork::ReceiveWrite, Some(42)));
    assert_eq!(two.of_a().id, 2);

    let segment = [two.a.segment(200_000, 100_000)];
    two.a.post(3, Work::Read { from: two.b.remote(1000) }, &segment);
    let read = two.of_a();
    assert_eq!((read.id, read.status, read.work), (3, CompletionStatus::Success, CompletedWork::Read));
    assert!(two.a.read(200_000, 100_000) == bytes);

    // What is posted behind a read and marked so sees its outcome.
    two.a.write(0, b"old");
    two.b.write(0, b"new");
    two.b.write(100, b"xyz");
    let here = [two.a.segment(0, 3)];
    two.a.post(4, Work::Read { from: two.b.remote(0) }, &here);
    let mut request = WorkRequest::new(5, Work::Write { to: two.b.remote(100), immediate: None }, &here);
    request.fence = true;
    two.a.hca.post_send(two.a.pair, &request).unwrap();
    assert_eq!((two.of_a().id, two.of_a().id), (4, 5));
    assert_eq!(two.b.read(100, 3), b"new");
}

pub fn atomics_answer_with_what_was_there<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    if !two.a.hca.limits().atomics || !two.b.hca.limits().atomics {
        return println!("skip: no atomics on this device");
    }
    two.b.write(512, &7_u64.to_ne_bytes());
    let (at, into) = (two.b.remote(512), [two.a.segment(0, 8)]);
    for (number, work, before, after) in [
        (4, Work::FetchAdd { at, add: 5 }, 7, 12),
        (5, Work::CompareSwap { at, compare: 12, swap: u64::MAX }, 12, u64::MAX),
        (6, Work::CompareSwap { at, compare: 12, swap: 1 }, u64::MAX, u64::MAX),
        (7, Work::FetchAdd { at, add: 2 }, u64::MAX, 1),
    ] {
        two.a.post(number, work, &into);
        let done = two.of_a();
        assert_eq!((done.id, done.status), (number, CompletionStatus::Success));
        assert_eq!(two.a.read(0, 8), u64::to_ne_bytes(before), "what was there before request {number}");
        assert_eq!(two.b.read(512, 8), u64::to_ne_bytes(after), "what request {number} left");
    }
    // More than may be under way at a time.
    for number in 0..u64::from(MAX_SEND) {
        let into = [two.a.segment(1024 + 8 * number, 8)];
        two.a.post(number, Work::FetchAdd { at, add: 1 }, &into);
    }
    for number in 0..u64::from(MAX_SEND) {
        let done = two.of_a();
        assert_eq!(
            (done.id, done.status, done.work),
            (number, CompletionStatus::Success, CompletedWork::FetchAdd)
        );
        assert_eq!(two.a.read(1024 + 8 * number, 8), (1 + number).to_ne_bytes());
    }
}

pub fn a_late_receive_is_waited_for<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    two.a.write(0, b"patience");
    let segment = [two.a.segment(0, 8)];
    two.a.post(1, Work::Send { immediate: None }, &segment);
    // Long enough for an answer that nobody is ready, and for some repetitions.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        two.progress();
        assert_eq!((two.a.hca.poll(two.a.queue), two.b.hca.poll(two.b.queue)), (None, None));
    }
    two.b.post_receive(7, 0, 64);
    assert_eq!((two.of_b().id, two.of_a().id), (7, 1));
    assert_eq!(two.b.read(0, 8), b"patience");
}

pub fn a_wrong_key_fails_there_and_ends_the_connection_here<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    let mut to = two.b.remote(0);
    to.key.0 ^= 0x55;
    let segment = [two.a.segment(0, 8)];
    two.a.post(1, Work::Write { to, immediate: None }, &segment);
    two.a.post(2, Work::Send { immediate: None }, &segment);
    let failed = two.of_a();
    assert_eq!((failed.id, failed.status), (1, CompletionStatus::RemoteAccess));
    let flushed = two.of_a();
    assert_eq!((flushed.id, flushed.status), (2, CompletionStatus::Flushed));
    two.a.post(3, Work::Send { immediate: None }, &segment);
    assert_eq!(two.of_a().status, CompletionStatus::Flushed, "what comes later is flushed too");
}

pub fn rights_that_were_not_given_are_not_there<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access { local_write: true, remote_write: true, ..Access::default() });
    let segment = [two.a.segment(0, 8)];
    two.a.post(1, Work::Write { to: two.b.remote(0), immediate: None }, &segment);
    assert_eq!(two.of_a().status, CompletionStatus::Success);
    two.a.post(2, Work::Read { from: two.b.remote(0) }, &segment);
    assert_ne!(two.of_a().status, CompletionStatus::Success);
}

pub fn requests_nobody_hears_of_give_their_room_back<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    let segment = [two.a.segment(0, 8)];
    let to = two.b.remote(0);
    let post = |two: &mut Two<A, B, G>, request: &WorkRequest<'_>| {
        two.until("room", |two| match two.a.hca.post_send(two.a.pair, request) {
            Ok(()) => Some(()),
            Err(refusal) => {
                assert_eq!(refusal, HcaRefusal::Full);
                assert_eq!(two.a.hca.poll(two.a.queue), None, "nobody asked to hear of it");
                None
            }
        });
    };
    for number in 0..20 * u64::from(MAX_SEND) {
        let mut request = WorkRequest::new(number, Work::Write { to, immediate: None }, &segment);
        request.signaled = false;
        post(two, &request);
    }
    let last = [two.a.segment(8, 8)];
    two.a.write(8, b"the last");
    post(two, &WorkRequest::new(99, Work::Write { to, immediate: None }, &last));
    assert_eq!(two.of_a().id, 99);
    assert_eq!(two.b.read(0, 8), b"the last");
}

pub fn a_chain_of_requests_arrives_in_order<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    for number in 0..MAX_SEND {
        two.a.write(u64::from(number) * 8, &u64::from(number).to_ne_bytes());
        two.b.post_receive(u64::from(number), u64::from(number) * 8, 8);
    }
    let segments: Vec<[Segment; 1]> = (0..MAX_SEND).map(|n| [two.a.segment(u64::from(n) * 8, 8)]).collect();
    let requests: Vec<_> = segments
        .iter()
        .zip(0..)
        .map(|(segment, id)| WorkRequest {
            signaled: id == u64::from(MAX_SEND) - 1,
            ..WorkRequest::new(id, Work::Send { immediate: Some(id as u32) }, segment)
        })
        .collect();
    two.a.hca.post_sends(two.a.pair, &requests).unwrap();
    assert_eq!(two.a.hca.post_send(two.a.pair, &requests[0]), Err(HcaRefusal::Full));
    for number in 0..MAX_SEND {
        assert_eq!(two.of_b().immediate, Some(number));
        assert_eq!(two.b.read(u64::from(number) * 8, 8), u64::from(number).to_ne_bytes());
    }
    assert_eq!(two.of_a().id, u64::from(MAX_SEND) - 1, "one is heard of");
}

pub fn datagrams_come_behind_forty_bytes<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.a.hca.open_queue_pair(two.a.pair, None).unwrap();
    two.b.hca.open_queue_pair(two.b.pair, None).unwrap();
    for number in 0..8 {
        two.b.post_receive(number, number * 8192, 8192);
    }
    let work = Work::Datagram {
        to: two.b.hca.address(),
        by: 0,
        queue_pair: two.b.pair,
        qkey: QKEY,
        immediate: Some(8),
    };
    let parts = [&b"first contact"[..]];
    let mut request = WorkRequest::new(1, work, &[]);
    request.data = Data::Inline(&parts);
    request.signaled = false;
    let mut posted = Instant::now() - Duration::from_secs(10);
    // They may be lost; so it is said again.
    let got = two.until("a datagram", |two| {
        if posted.elapsed() > Duration::from_secs(2) {
            two.a.hca.post_send(two.a.pair, &request).unwrap();
            posted = Instant::now();
        }
        two.b.hca.poll(two.b.queue)
    });
    assert_eq!((got.status, got.bytes, got.immediate), (CompletionStatus::Success, 40 + 13, Some(8)));
    assert_eq!(two.b.read(got.id * 8192 + 40, 13), b"first contact");
    let largest = two.a.hca.limits().mtu.min(two.b.hca.limits().mtu);
    two.a.write(0, &pattern(largest as usize, 5));
    let segment = [two.a.segment(0, largest)];
    let request = WorkRequest::new(2, work, &segment);
    two.a.hca.post_send(two.a.pair, &request).unwrap();
    assert_eq!(two.of_a().id, 2, "a datagram is over when it has left");
}

/// The requests of a shared queue belong to their owner, not to the connections that use them up.
pub fn receive_requests_of_a_destroyed_pair_come_back<A: Hca, B: Hca, G>(two: &mut Two<A, B, G>) {
    two.connect(Access::ALL);
    for number in 0..3 {
        two.b.post_receive(number, number * 100, 100);
        let segment = [two.a.segment(0, 50)];
        two.a.post(10 + number, Work::Send { immediate: None }, &segment);
        assert_eq!(two.of_a().status, CompletionStatus::Success);
    }
    two.b.post(7, Work::Send { immediate: None }, &[]);
    two.b.hca.destroy_queue_pair(two.b.pair);
    for number in 0..3 {
        let done = two.of_b();
        assert_eq!(
            (done.id, done.work, done.status, done.queue_pair),
            (number, CompletedWork::Receive, CompletionStatus::Flushed, NOBODY)
        );
    }
    for _ in 0..20 {
        two.progress();
        assert_eq!(two.b.hca.poll(two.b.queue), None, "what it sent is nobody's business any more");
    }
}
