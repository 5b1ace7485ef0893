//! The device of the system does what `Hca` says. Needs a device: see `common::port`.

mod common;

use common::ends::{PATIENCE, Two, pattern};
use std::time::Instant;
use weft_api::Bell;
use weft_api::verbs::{
    Access, CompletionStatus, Hca, HcaRefusal, QueuePairState, RemoteAddress, Segment, Service, Work,
};
use weft_verbs::Verbs;

/// Two openings of the device, which reach each other inside of it.
fn make(service: Service) -> Option<Two<Verbs, Verbs>> {
    let choice = common::port()?;
    let open = || Verbs::open(choice.clone()).unwrap();
    Some(Two::new(open(), open(), service, ()))
}

fn connected() -> Option<Two<Verbs, Verbs>> {
    let mut two = make(Service::ReliableConnection)?;
    two.connect(Access::ALL);
    Some(two)
}

crate::battery!(make);

#[test]
fn the_device_says_what_it_is() {
    let Some(choice) = common::port() else { return };
    let device = Verbs::open(choice).unwrap();
    let limits = device.limits();
    println!("{}: {limits:?}, {:?}", device.choice().why, device.facts());
    assert!(limits.mtu >= 256 && limits.mtu <= 4096 && limits.mtu.is_power_of_two());
    assert!(limits.max_message >= 1 << 20 && limits.max_send >= 64 && limits.max_completions >= 1024);
    assert!(limits.max_reads > 0 && limits.max_segments > 0 && limits.bandwidth > 1e6);
    assert_eq!(limits.follows_mappings, device.facts().on_demand);
    // Pinning a page takes time on every machine.
    let measured = device.facts().registration;
    assert_eq!(measured.is_none(), limits.follows_mappings, "{measured:?}");
    assert!(measured.is_none_or(|measured| measured.nanoseconds > 0), "{measured:?}");
}

#[test]
fn failures_show_in_the_state() {
    let Some(mut two) = connected() else { return };
    assert_eq!(two.a.hca.state(two.a.pair), Some(QueuePairState::ReadyToSend));
    let mut to = two.b.remote(0);
    to.key.0 ^= 0x55;
    let segment = [two.a.segment(0, 8)];
    two.a.post(1, Work::Write { to, immediate: None }, &segment);
    assert_eq!(two.of_a().status, CompletionStatus::RemoteAccess);
    assert_eq!(two.a.hca.state(two.a.pair), Some(QueuePairState::Error));
    two.a.hca.destroy_queue_pair(two.a.pair);
    assert_eq!(two.a.hca.state(two.a.pair), None);
    let request = weft_api::verbs::WorkRequest::new(2, Work::Send { immediate: None }, &segment);
    assert_eq!(two.a.hca.post_send(two.a.pair, &request), Err(HcaRefusal::Unknown));
}

#[test]
fn registered_memory_is_read_and_written_in_place() {
    let Some(mut two) = connected() else { return };
    let source = pattern(50_000, 9);
    let mut target = vec![0_u8; 50_000];
    let local = two.a.hca.register(source.as_ptr() as u64, source.len() as u64, Access::default()).unwrap();
    let access = Access { local_write: true, remote_write: true, ..Access::default() };
    let remote = two.b.hca.register(target.as_mut_ptr() as u64, target.len() as u64, access).unwrap();
    let segment = [Segment { address: source.as_ptr() as u64, length: 50_000, key: local.local }];
    let to = RemoteAddress { address: target.as_ptr() as u64, key: remote.remote };
    two.a.post(1, Work::Write { to, immediate: None }, &segment);
    assert_eq!(two.of_a().status, CompletionStatus::Success);
    two.b.hca.deregister(remote);
    assert!(std::hint::black_box(&target) == &source);
    two.a.post(2, Work::Write { to, immediate: None }, &segment);
    assert_eq!(two.of_a().status, CompletionStatus::RemoteAccess, "the region was given back");
    two.a.hca.deregister(local);
    assert_eq!(two.a.hca.register(1, 4096, Access::ALL), Err(HcaRefusal::Invalid), "nothing is mapped there");
    assert_eq!(two.a.hca.register(source.as_ptr() as u64, 0, Access::ALL), Err(HcaRefusal::Invalid));
}

#[test]
fn a_sleeper_is_woken_by_a_completion_and_by_a_call() {
    let Some(mut two) = connected() else { return };
    for number in 0..20 {
        two.b.post_receive(number, 0, 64);
        let bell = two.b.hca.bell();
        let (armed, is_armed) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            bell.arm();
            armed.send(()).unwrap();
            bell.sleep(PATIENCE);
        });
        // What comes before is found by a second look.
        is_armed.recv().unwrap();
        if number % 2 == 0 {
            let segment = [two.a.segment(0, 8)];
            two.a.post(number, Work::Send { immediate: None }, &segment);
            two.of_a();
        }
        let begun = Instant::now();
        while !sleeper.is_finished() {
            if number % 2 == 1 {
                two.b.hca.bell().ring();
            }
            assert!(begun.elapsed() < PATIENCE / 2, "the sleeper {number} sleeps on");
            std::thread::yield_now();
        }
        sleeper.join().unwrap();
        while two.b.hca.poll(two.b.queue).is_some() {}
    }
}

#[test]
fn all_who_sleep_are_woken() {
    let Some(mut two) = connected() else { return };
    two.b.post_receive(1, 0, 64);
    let (armed, is_armed) = std::sync::mpsc::channel();
    let sleepers: Vec<_> = (0..4)
        .map(|_| {
            let (bell, armed) = (two.b.hca.bell(), armed.clone());
            std::thread::spawn(move || {
                bell.arm();
                armed.send(()).unwrap();
                let begun = Instant::now();
                bell.sleep(PATIENCE);
                begun.elapsed() < PATIENCE / 2
            })
        })
        .collect();
    for _ in 0..4 {
        is_armed.recv().unwrap();
    }
    let segment = [two.a.segment(0, 8)];
    two.a.post(1, Work::Send { immediate: None }, &segment);
    for sleeper in sleepers {
        assert!(sleeper.join().unwrap(), "one announcement is for all");
    }
}

#[test]
fn a_child_process_does_not_disturb_registered_memory() {
    let Some(mut two) = connected() else { return };
    two.b.post_receive(1, 0, 64);
    two.a.write(0, b"before the child");
    let mut child = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    // Written after the fork: the device must see these pages, and we those it writes.
    two.a.write(0, b"after the child");
    let segment = [two.a.segment(0, 15)];
    two.a.post(1, Work::Send { immediate: None }, &segment);
    assert_eq!(two.of_b().bytes, 15);
    assert_eq!(two.b.read(0, 15), b"after the child");
    child.kill().unwrap();
    child.wait().unwrap();
}
