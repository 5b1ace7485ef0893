use super::*;
use ReceivePlan::{SingleCopy, Stream};

/// A machine on which a message of so many bytes takes so long.
struct Machine {
    paces: Paces,
    now: u64,
    read: fn(u64) -> u64,
    stream: fn(u64) -> u64,
    /// From the end of a message of a window that was read to the begin of the next.
    between: u64,
}

impl Machine {
    fn new(read: fn(u64) -> u64, stream: fn(u64) -> u64) -> Machine {
        Machine { paces: Paces::default(), now: 1000, read, stream, between: 0 }
    }

    /// One message after another, with a pause in which the other side has its turn.
    fn alone(&mut self, bytes: u64, prior: ReceivePlan) -> ReceivePlan {
        let plan = self.paces.begin(bytes, prior, None, self.now);
        self.now += if plan == SingleCopy { (self.read)(bytes) } else { (self.stream)(bytes) };
        self.paces.end(plan, bytes, self.now);
        self.now += 5000;
        plan
    }

    /// A window of messages: what is read is read at once when it is announced, streams all begin and then end in order.
    fn window(&mut self, bytes: u64, count: usize, prior: ReceivePlan) -> Vec<ReceivePlan> {
        let (mut plans, mut open) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let plan = self.paces.begin(bytes, prior, None, self.now);
            plans.push(plan);
            self.now += 100;
            if plan == SingleCopy {
                self.now += (self.read)(bytes);
                self.paces.end(plan, bytes, self.now);
                self.now += self.between;
            } else {
                open.push(plan);
            }
        }
        for plan in open {
            self.now += (self.stream)(bytes);
            self.paces.end(plan, bytes, self.now);
        }
        self.now += 3000;
        plans
    }
}

fn share(plans: &[ReceivePlan], of: ReceivePlan) -> f64 {
    plans.iter().filter(|&&plan| plan == of).count() as f64 / plans.len() as f64
}

#[test]
fn the_faster_way_is_found_whatever_the_model_says() {
    for prior in [SingleCopy, Stream] {
        let mut machine = Machine::new(|bytes| 600 + bytes / 25, |bytes| 300 + bytes / 17);
        let first: Vec<_> = (0..20).map(|_| machine.alone(256 << 10, prior)).collect();
        assert_eq!(first[0], prior, "it begins with what the model says");
        let later: Vec<_> = (0..5000).map(|_| machine.alone(256 << 10, prior)).collect();
        assert!(share(&later, SingleCopy) > 0.99, "{}", share(&later, SingleCopy));
        assert!(share(&later, SingleCopy) < 1.0, "the other way is never looked at again");
    }
}

#[test]
fn of_long_messages_fewer_take_the_slower_way() {
    for (bytes, most) in [(256 << 10, 176), (2 << 20, 44), (64 << 20, 44)] {
        let mut machine = Machine::new(|bytes| 600 + bytes / 25, |bytes| 300 + bytes / 9);
        let first: Vec<_> = (0..100).flat_map(|_| machine.window(bytes, 4, Stream)).collect();
        let streams = first.iter().filter(|&&plan| plan == Stream).count();
        assert!(streams <= most, "{streams} of {bytes} bytes streamed");
    }
}

#[test]
fn each_length_has_its_own_way() {
    // Reading has a price of its own, and long messages find no room in a cache.
    let read = |bytes: u64| if bytes > 2 << 20 { bytes / 8 } else { 6000 + bytes / 25 };
    let mut machine = Machine::new(read, |bytes| 300 + bytes / 15);
    for (bytes, best) in [(64 << 10, Stream), (1 << 20, SingleCopy), (4 << 20, Stream), (16 << 20, Stream)] {
        (0..40).for_each(|_| {
            machine.alone(bytes, Stream);
        });
        let plans: Vec<_> = (0..100).map(|_| machine.alone(bytes, Stream)).collect();
        assert!(share(&plans, best) > 0.9, "{bytes}: {plans:?}");
    }
}

#[test]
fn bursts_and_single_messages_are_kept_apart() {
    // Alone a stream is faster; of many the core that reads is the only one at work, and both are with a stream.
    let mut machine = Machine::new(|bytes| 600 + bytes / 20, |bytes| bytes / 30);
    (0..100).for_each(|_| {
        machine.alone(256 << 10, Stream);
    });
    machine.stream = |bytes| bytes / 10;
    (0..100).for_each(|_| {
        machine.window(256 << 10, 32, Stream);
    });
    let window: Vec<_> = (0..20).flat_map(|_| machine.window(256 << 10, 32, Stream)).collect();
    assert!(share(&window, SingleCopy) > 0.9, "{}", share(&window, SingleCopy));
    machine.stream = |bytes| bytes / 30;
    // The first of them are still taken for a burst.
    (0..2).for_each(|_| {
        machine.alone(256 << 10, Stream);
    });
    let alone: Vec<_> = (0..50).map(|_| machine.alone(256 << 10, Stream)).collect();
    assert!(share(&alone, Stream) > 0.9, "{alone:?}");
}

#[test]
fn windows_find_the_faster_way_and_say_from_where_on_it_pays_to_announce() {
    let mut machine = Machine::new(|bytes| 300 + bytes / 28, |bytes| bytes / 18);
    assert_eq!(machine.paces.announced_from(), 0, "nothing is known");
    (0..200).for_each(|_| {
        machine.window(128 << 10, 64, Stream);
    });
    let from = machine.paces.announced_from();
    assert!((32 << 10..64 << 10).contains(&from), "{from}");
    let mut machine = Machine::new(|bytes| 300 + bytes / 10, |bytes| bytes / 30);
    (0..200).for_each(|_| {
        machine.window(128 << 10, 64, Stream);
    });
    assert_eq!(machine.paces.announced_from(), 0, "streams are faster");
}

#[test]
fn windows_that_look_alone_when_they_are_read_find_the_faster_way() {
    let mut machine = Machine::new(|bytes| 300 + bytes / 20, |bytes| bytes / 10);
    machine.between = 3000;
    (0..50).for_each(|_| {
        machine.window(128 << 10, 64, Stream);
    });
    let plans: Vec<_> = (0..20).flat_map(|_| machine.window(128 << 10, 64, Stream)).collect();
    assert!(share(&plans, SingleCopy) > 0.8, "{}", share(&plans, SingleCopy));
}

#[test]
fn a_machine_that_changes_is_noticed() {
    let mut machine = Machine::new(|bytes| 600 + bytes / 25, |bytes| bytes / 17);
    (0..3000).for_each(|_| {
        machine.alone(1 << 20, Stream);
    });
    machine.read = |bytes| 600 + bytes / 8;
    (0..3000).for_each(|_| {
        machine.alone(1 << 20, Stream);
    });
    let plans: Vec<_> = (0..100).map(|_| machine.alone(1 << 20, Stream)).collect();
    assert!(share(&plans, Stream) > 0.9, "{plans:?}");
}

#[test]
fn a_way_that_is_fast_only_in_a_row_is_found() {
    let mut machine = Machine::new(|_| 0, |_| 0);
    let (mut last, mut plans) = (Stream, Vec::new());
    for _ in 0..600 {
        machine.stream = |bytes| bytes / 12;
        machine.read = if last == SingleCopy { |bytes| bytes / 20 } else { |bytes| bytes / 8 };
        last = machine.alone(1 << 20, Stream);
        plans.push(last);
    }
    assert!(share(&plans[500..], SingleCopy) > 0.9, "{plans:?}");
}

#[test]
fn one_late_sender_changes_nothing() {
    let mut machine = Machine::new(|bytes| 600 + bytes / 25, |bytes| bytes / 17);
    (0..100).for_each(|_| {
        machine.alone(1 << 20, Stream);
    });
    machine.read = |_| 50_000_000;
    machine.alone(1 << 20, Stream);
    machine.read = |bytes| 600 + bytes / 25;
    let plans: Vec<_> = (0..100).map(|_| machine.alone(1 << 20, Stream)).collect();
    assert!(share(&plans, SingleCopy) > 0.9, "{plans:?}");
}

#[test]
fn what_fails_or_mixes_says_nothing() {
    let mut paces = Paces::default();
    let plan = paces.begin(1 << 20, SingleCopy, None, 10);
    paces.give_up(plan);
    assert!(paces.burst.is_none() && paces.under_way == [0, 0]);
    // Two classes at the same time.
    let (a, b) = (paces.begin(1 << 20, Stream, None, 100), paces.begin(128 << 10, Stream, None, 110));
    paces.end(b, 128 << 10, 5000);
    paces.end(a, 1 << 20, 9000);
    paces.begin(1 << 20, Stream, None, 100_000);
    assert!(paces.contests.iter().flatten().all(|contest| contest.run.is_none_or(|run| run.timed == 0)));
}

/// The way of a message in each of two directions at a time, in windows of 16. Two streams are faster than two reads, but a stream beside a read is the slowest of all.
/// The second machine has known for long that reading is faster when nothing comes back.
fn exchanged(windows: usize, follows: bool) -> Vec<[ReceivePlan; 2]> {
    let mut second = Machine::new(|_| 6_000, |_| 9_000);
    (0..200).for_each(|_| drop(second.window(128 << 10, 16, SingleCopy)));
    let (mut paces, mut now, mut seen, mut all) =
        ([Paces::default(), second.paces], second.now, None, Vec::new());
    for _ in 0..windows {
        let first = paces[0].begin(128 << 10, SingleCopy, None, now);
        let plans = [first, paces[1].begin(128 << 10, SingleCopy, seen.filter(|_| follows), now)];
        seen = Some(first);
        let takes = |mine, others| match (mine, others) {
            (SingleCopy, SingleCopy) => 12_000,
            (Stream, Stream) => 8_000,
            (SingleCopy, Stream) => 11_000,
            (Stream, SingleCopy) => 30_000,
        };
        let each = [takes(plans[0], plans[1]), takes(plans[1], plans[0])];
        for ((paces, plan), each) in paces.iter_mut().zip(plans).zip(each) {
            for message in 1..16 {
                paces.end(plan, 128 << 10, now + message * each);
                paces.begin(128 << 10, SingleCopy, Some(plan), now + message * each);
            }
            paces.end(plan, 128 << 10, now + 16 * each);
        }
        now += 16 * each[0].max(each[1]) + 10_000;
        all.push(plans);
    }
    all
}

#[test]
fn who_follows_lets_both_find_the_way_that_is_faster_for_both() {
    let streamed = |all: &[[ReceivePlan; 2]]| {
        let late = &all[all.len() / 2..];
        late.iter().filter(|plans| **plans == [Stream; 2]).count() as f64 / late.len() as f64
    };
    let (together, apart) = (streamed(&exchanged(1000, true)), streamed(&exchanged(1000, false)));
    assert!(together > 0.9, "{together:.2}");
    assert!(apart < 0.5, "otherwise nothing is shown: {apart:.2}");
}
