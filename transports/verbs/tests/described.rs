//! Everything above the library's functions, over described devices: what the device of the kernel has, and what no device here has.
//! `examples/described` is the library. Runs on any machine.

mod common;

use common::described::{count, kit_over, port};
use common::ends::Two;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use weft_api::verbs::{
    Access, CompletionStatus, Hca, HcaRefusal, LocalKey, RemoteAddress, Segment, Service, Work, WorkRequest,
};
use weft_rdma::Rdma;
use weft_types::params::Choice as Setting;
use weft_verbs::{Choice, Verbs};

fn joined(choice: Choice, service: Service) -> Two<Verbs, Verbs> {
    let open = || Verbs::open(choice.clone()).unwrap();
    Two::new(open(), open(), service, ())
}

mod as_the_kernels {
    fn make(service: super::Service) -> Option<super::Two<super::Verbs, super::Verbs>> {
        Some(super::joined(super::port("soft0"), service))
    }
    crate::battery!(make);
}

mod as_a_card {
    fn make(service: super::Service) -> Option<super::Two<super::Verbs, super::Verbs>> {
        Some(super::joined(super::port("card0"), service))
    }
    crate::battery!(make);
}

#[test]
fn every_property_holds_as_with_the_kernels_device() {
    kit_over("soft1", |_| {}, false);
}

#[test]
fn every_property_holds_as_with_a_card() {
    kit_over("card1", |_| {}, false);
    assert!(count("card1", "on_demand") > 0 && count("card1", "from_own_memory") > 0);
}

#[test]
fn every_property_holds_with_one_connection() {
    kit_over("card2", |end| end.set_connections(1), true);
}

/// Records in memory, seen in order without a completion.
#[test]
fn every_property_holds_with_rings() {
    let rings = |end: &mut Rdma<Verbs>| {
        end.set_rings(Setting::On);
        end.set_ring_limits(2, 1);
    };
    kit_over("card3", rings, false);
    kit_over("soft3", rings, false);
}

#[test]
fn every_property_holds_with_few_queue_pairs() {
    kit_over("tight1", |_| {}, true);
}

#[test]
fn every_property_holds_with_an_old_driver() {
    kit_over("old1", |_| {}, false);
}

/// A datagram that cannot be sent stops the send queue; its owner resumes, and the next ones leave.
#[test]
fn datagrams_leave_again_after_one_that_could_not() {
    for name in ["soft5", "card5"] {
        let mut two = joined(port(name), Service::Datagram);
        two.a.hca.open_queue_pair(two.a.pair, None).unwrap();
        two.b.hca.open_queue_pair(two.b.pair, None).unwrap();
        two.b.post_receive(0, 0, 8192);
        assert!(two.a.hca.resume_queue_pair(two.a.pair).is_err(), "it was not stopped");
        let (to, queue_pair) = (two.b.hca.address(), two.b.pair);
        let work = Work::Datagram { to, by: 0, queue_pair, qkey: common::ends::QKEY, immediate: None };
        let good = [two.a.segment(0, 8)];
        let bad = [Segment { key: LocalKey(!good[0].key.0), ..good[0] }];
        for (id, segment) in [(1, &bad), (2, &good)] {
            two.a.hca.post_send(two.a.pair, &WorkRequest::new(id, work, segment)).unwrap();
        }
        let ends = [two.of_a(), two.of_a()].map(|done| (done.id, done.status));
        assert_eq!(ends, [(1, CompletionStatus::LocalProtection), (2, CompletionStatus::Flushed)], "{name}");
        two.a.hca.resume_queue_pair(two.a.pair).unwrap();
        two.a.hca.post_send(two.a.pair, &WorkRequest::new(3, work, &good)).unwrap();
        assert_eq!((two.of_a().status, two.of_b().id), (CompletionStatus::Success, 0), "{name}");
    }
}

const PAGE: usize = 4096;

/// A page of zeroes at an address, or anywhere.
fn page(at: usize) -> usize {
    let (flags, length) = (MapFlags::MAP_PRIVATE, NonZeroUsize::new(PAGE).unwrap());
    let flags = if at == 0 { flags } else { flags | MapFlags::MAP_FIXED_NOREPLACE };
    // SAFETY: a new mapping, in place of nothing.
    let start = unsafe {
        mmap_anonymous(NonZeroUsize::new(at), length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags)
    };
    start.unwrap().as_ptr() as usize
}

fn unmap(at: usize) {
    // SAFETY: a page of `page`, to which there is no reference.
    unsafe { munmap(std::ptr::NonNull::new(at as *mut _).unwrap(), PAGE) }.unwrap();
}

/// Regions of the program are paged on demand, may be of memory that is not there, and follow what is mapped there next; buffers of
/// our own are neither that nor written in any order.
#[test]
fn regions_follow_their_mappings_where_the_device_pages_on_demand() {
    let mut two = joined(port("card4"), Service::ReliableConnection);
    two.connect(Access::ALL);
    assert!(two.a.hca.facts().on_demand && two.a.hca.limits().follows_mappings);
    assert_eq!(two.a.hca.facts().registration, None, "a region is paid for once");
    assert_eq!(two.a.hca.facts().completion_queues, 1 << 16);
    let asked = || ["on_demand", "relaxed", "plain"].map(|what| count("card4", what));
    assert_eq!(asked(), [0, 0, 2], "the buffers of both ends");
    let at = page(0);
    let keys = two.b.hca.register(at as u64, PAGE as u64, Access::ALL).unwrap();
    assert_eq!(asked(), [1, 1, 2]);
    let to = RemoteAddress { address: at as u64, key: keys.remote };
    two.a.write(0, b"first");
    let segment = [two.a.segment(0, 5)];
    for round in 0..2 {
        if round == 1 {
            unmap(at);
            assert_eq!(page(at), at);
        }
        // SAFETY: the page is there; the device writes it between the calls only.
        let byte = |offset: usize| unsafe { std::ptr::read_volatile((at + offset) as *const u8) };
        assert_eq!(byte(0), 0);
        two.a.post(round, Work::Write { to, immediate: None }, &segment);
        assert_eq!(two.of_a().status, CompletionStatus::Success);
        assert_eq!([byte(0), byte(4)], *b"ft");
    }
    unmap(at);
    let gone = two.b.hca.register(at as u64, PAGE as u64, Access::ALL).unwrap();
    two.a.post(2, Work::Write { to, immediate: None }, &segment);
    assert_ne!(two.of_a().status, CompletionStatus::Success, "nothing is there");
    two.b.hca.deregister(keys);
    two.b.hca.deregister(gone);
}

/// A device that cannot page for everything is not asked to, and one that knows no relaxed ordering is not disturbed by the wish.
#[test]
fn nothing_is_asked_for_that_a_device_does_not_offer() {
    for (name, relaxed) in [("partly0", 1), ("soft4", 0), ("old4", 0)] {
        let mut device = Verbs::open(port(name)).unwrap();
        assert!(!device.facts().on_demand && !device.limits().follows_mappings, "{name}");
        let measured = device.facts().registration.expect("what is paid for each transfer is measured");
        let told = device.limits().registration;
        let expected = if device.choice().emulated { 5e-6 } else { f64::from(measured.nanoseconds) * 1e-9 };
        assert!((told - expected).abs() < 1e-12, "{name}: {told}, of {measured:?}");
        assert_eq!(device.facts().inner_memory, 0);
        let at = page(0) as u64;
        let keys = device.register(at, PAGE as u64, Access::ALL).unwrap();
        assert_eq!((count(name, "on_demand"), count(name, "relaxed")), (0, relaxed), "{name}");
        device.deregister(keys);
        unmap(at as usize);
        assert_eq!(device.register(at, PAGE as u64, Access::ALL), Err(HcaRefusal::Invalid), "{name}");
    }
}

/// What there is no key or no memory for is `Exhausted`, which whoever keeps regions takes for a wish to give some back.
#[test]
fn a_device_without_further_regions_says_so_and_takes_the_next_one() {
    let mut device = Verbs::open(port("few0")).unwrap();
    assert_eq!(device.limits().max_regions, 12);
    let bytes = [0_u8; 100];
    let (at, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
    let mut keys: Vec<_> = (0..12).map(|_| device.register(at, length, Access::default()).unwrap()).collect();
    for _ in 0..3 {
        assert_eq!(device.register(at, length, Access::default()), Err(HcaRefusal::Exhausted));
        assert_eq!(device.allocate(4096, Access::default()), Err(HcaRefusal::Exhausted));
        device.deregister(keys.remove(0));
        keys.push(device.register(at, length, Access::default()).unwrap());
    }
    assert_eq!(count("few0", "refused"), 6);
    drop(device);
    assert_eq!(count("few0", "alive"), 0);
}

#[test]
fn short_messages_are_sent_from_the_devices_memory() {
    let mut two = joined(port("little0"), Service::ReliableConnection);
    two.connect(Access::ALL);
    let bytes = |two: &Two<Verbs, Verbs>| [&two.a, &two.b].map(|end| end.hca.facts().inner_memory);
    assert_eq!(bytes(&two), [2048, 0], "who comes first has it; the other does without");
    two.a.write(0, &common::ends::pattern(4096, 5));
    let mut inside = 0;
    for (number, (length, two_parts)) in
        [(1, false), (700, false), (1023, true), (1024, false), (1025, false), (0, false)]
            .into_iter()
            .enumerate()
    {
        let number = number as u64;
        two.b.post_receive(number, 0, 4096);
        let parts =
            [two.a.segment(3, length / 2), two.a.segment(3 + u64::from(length / 2), length - length / 2)];
        let whole = [two.a.segment(3, length)];
        let segments = if two_parts { &parts[..] } else { &whole[..] };
        two.a.post(number, Work::Send { immediate: None }, segments);
        assert_eq!((two.of_b().bytes, two.of_a().status), (length, CompletionStatus::Success));
        assert_eq!(two.b.read(0, length as usize), two.a.read(3, length as usize), "{length} bytes");
        inside += u64::from((1..=1024).contains(&length));
        assert_eq!(count("little0", "from_own_memory"), inside, "{length} bytes");
    }
    // Two pieces: the third request is sent from its buffer, as long as the others are under way.
    for number in 0..4 {
        two.a.post(number, Work::Send { immediate: None }, &[two.a.segment(number * 100, 100)]);
    }
    assert_eq!(count("little0", "from_own_memory"), inside + 2);
    for number in 0..4 {
        two.b.post_receive(number, number * 100, 100);
    }
    for number in 0..4 {
        assert_eq!((two.of_b().id, two.of_a().id), (number, number));
    }
    assert_eq!(two.b.read(0, 400), two.a.read(0, 400));
    // Those of a queue pair that fails come back too.
    let mut to = two.b.remote(0);
    to.key.0 ^= 1;
    for number in 0..3 {
        two.a.post(number, Work::Write { to, immediate: None }, &[two.a.segment(0, 100)]);
    }
    for _ in 0..3 {
        assert_ne!(two.of_a().status, CompletionStatus::Success);
    }
    two.a.hca.destroy_queue_pair(two.a.pair);
    let common::ends::Two { a, b, .. } = two;
    drop((a, b));
    assert_eq!(count("little0", "alive"), 0);
}

#[test]
fn what_cannot_be_used_is_refused_with_a_reason() {
    let why = |choice: Choice| Verbs::open(choice).unwrap_err().to_string();
    assert!(why(port("down0")).contains("port 1 of down0 is not active any more"));
    assert!(why(port("loose0")).contains("loose0 makes no reliable connections"));
    let missing = Choice { device: "none0".to_owned(), ..port("soft5") };
    assert!(why(missing).contains("none0 is gone"));
    for name in ["down0", "loose0", "soft5"] {
        assert_eq!(count(name, "alive"), 0, "{name}");
    }
}
