//! The connection of a device with itself: what a process changes of its own memory meets what others change there.

use crate::common::{Air, Virtual, address, fabric_on, virtual_fabric};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_api::verbs::Access;
use weft_api::zero_copy::{Atomic, Completed, MemoryRange, Outcome, Region, RemoteMemory, Token};
use weft_api::{Refused, Transport};
use weft_sim::Random;
use weft_types::PeerId;

/// Words of process 0, registered there.
struct Words {
    words: Box<[AtomicU64]>,
    region: Region,
}

impl Words {
    fn new(fabric: &mut Virtual, count: usize) -> Words {
        let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let range = MemoryRange { address: words.as_ptr() as u64, length: 8 * count as u64 };
        let region = fabric.ends[0].register(range, Access::ALL).unwrap();
        Words { words, region }
    }

    fn at(&self, word: usize) -> RemoteMemory {
        self.region.remote.plus(8 * word as u64)
    }

    fn value(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }
}

/// Everything that ended at a process.
fn ended(fabric: &mut Virtual, process: usize) -> Vec<Completed> {
    std::iter::from_fn(|| fabric.ends[process].completed()).collect()
}

#[test]
fn own_changes_and_those_of_others_lose_nothing_of_each_other() {
    const EACH: u64 = 200;
    for seed in 0..12 {
        println!("seed {seed}");
        let mut fabric = virtual_fabric(2, seed, 0.05);
        let words = Words::new(&mut fabric, 1);
        fabric.ends[1].connect(PeerId(0)).unwrap();
        assert!(fabric.ends[0].changes_own());
        let mut random = Random::new(seed);
        let (mut begun, mut found) = ([0; 2], BTreeSet::new());
        while found.len() < 2 * EACH as usize {
            for (process, begun) in begun.iter_mut().enumerate() {
                let add = Atomic::FetchAdd(1);
                let token = Token(*begun);
                let end = &mut fabric.ends[process];
                if *begun < EACH
                    && match process {
                        0 => end.change_own(words.at(0), add, token),
                        _ => end.atomic(PeerId(0), words.at(0), add, token),
                    }
                    .is_ok()
                {
                    *begun += 1;
                }
                for done in ended(&mut fabric, process) {
                    let Outcome::Done(value) = done.outcome else { panic!("seed {seed}: a sum has failed") };
                    assert!(found.insert(value), "seed {seed}: {value} was found twice");
                }
            }
            fabric.random_round(&mut random);
        }
        assert_eq!(words.value(0), 2 * EACH, "seed {seed}");
        assert_eq!(fabric.ends[0].counts().own_connections, 1);
        assert_eq!(fabric.ends[0].held().numbers, 0, "every place is free again");
    }
}

/// One request each, which tells, and no more; they end in the order of the calls.
#[test]
fn a_change_is_one_request() {
    let mut fabric = virtual_fabric(1, 1, 0.0);
    let words = Words::new(&mut fabric, 2);
    let before = fabric.ends[0].counts();
    assert_eq!(before.own_connections, 0, "it is made when somebody asks for it");
    let changes = [
        (0, Atomic::FetchAdd(7)),
        (0, Atomic::CompareSwap { compare: 7, swap: 50 }),
        (0, Atomic::CompareSwap { compare: 7, swap: 9 }),
        (1, Atomic::FetchAdd(u64::MAX)),
        (0, Atomic::FetchAdd(0)),
    ];
    for (token, &(word, change)) in (0..).zip(&changes) {
        assert_eq!(fabric.ends[0].change_own(words.at(word), change, Token(token)), Ok(()));
    }
    let mut all = Vec::new();
    while all.len() < changes.len() {
        fabric.round();
        all.extend(ended(&mut fabric, 0));
    }
    let expected: Vec<Completed> = (0..)
        .zip([0, 7, 50, 0, 50])
        .map(|(token, found)| Completed { token: Token(token), outcome: Outcome::Done(found) })
        .collect();
    assert_eq!(all, expected);
    assert_eq!([words.value(0), words.value(1)], [50, u64::MAX]);
    let after = fabric.ends[0].counts();
    assert_eq!(after.requests - before.requests, changes.len() as u64);
    assert_eq!(after.doorbells - before.doorbells, changes.len() as u64);
    assert_eq!(after.own_connections, 1);
}

/// More than there is room for is refused until some have ended, and nothing stays behind.
#[test]
fn what_finds_no_room_is_refused() {
    let mut fabric = virtual_fabric(1, 1, 0.0);
    let words = Words::new(&mut fabric, 1);
    let mut begun = 0;
    while fabric.ends[0].change_own(words.at(0), Atomic::FetchAdd(1), Token(begun)).is_ok() {
        begun += 1;
    }
    assert!((16..=256).contains(&begun), "{begun}");
    assert_eq!(fabric.ends[0].held().requests as u64, begun);
    let mut all = 0;
    while all < begun {
        fabric.round();
        all += ended(&mut fabric, 0).len() as u64;
    }
    assert_eq!((words.value(0), fabric.ends[0].held().requests), (begun, 0));
}

/// A request for memory that may not be touched fails alone: those before it were done, and those behind it are, by the next
/// connection, in their order.
#[test]
fn a_change_of_forbidden_memory_fails_alone() {
    let mut fabric = fabric_on(Air::quiet(), 1, 1);
    let words = Words::new(&mut fabric, 1);
    let gone = Words::new(&mut fabric, 1);
    fabric.ends[0].deregister(gone.region.id);
    let mut all = Vec::new();
    for number in 0..60 {
        let at = if number % 20 == 7 { gone.at(0) } else { words.at(0) };
        while fabric.ends[0].change_own(at, Atomic::FetchAdd(1), Token(number)) == Err(Refused::Full) {
            fabric.round();
            all.extend(ended(&mut fabric, 0));
        }
    }
    while all.len() < 60 {
        fabric.round();
        all.extend(ended(&mut fabric, 0));
    }
    let mut sum = 0;
    for (number, done) in (0..).zip(&all) {
        let outcome = match number % 20 {
            7 => Outcome::Failed,
            _ => Outcome::Done(sum),
        };
        assert_eq!(*done, Completed { token: Token(number), outcome });
        sum += u64::from(number % 20 != 7);
    }
    assert_eq!((words.value(0), gone.value(0)), (57, 0));
    assert_eq!(fabric.ends[0].counts().own_connections, 4);
    assert_eq!(fabric.ends[0].held().numbers, 0);
}

/// The connection is lost in the midst, at a random moment: what it had told of was done once, what it had not told of fails and was
/// done once or not at all, and the next connection goes on.
#[test]
fn a_lost_connection_fails_what_it_had_not_told_of_and_is_made_anew() {
    let mut lost = 0;
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut fabric = fabric_on(Air::bad(seed), 1, 1);
        let words = Words::new(&mut fabric, 64);
        let here = address(0);
        let cut_at = random.below(40);
        // Each word gets one sum, so that what was done shows.
        let (mut begun, mut all): (u64, Vec<Completed>) = (0, Vec::new());
        while (all.len() as u64) < 64 {
            if begun < 64 && random.chance(0.4) {
                let at = words.at(begun as usize);
                begun += u64::from(fabric.ends[0].change_own(at, Atomic::FetchAdd(1), Token(begun)).is_ok());
            }
            if begun == cut_at {
                fabric.air.borrow_mut().cut.insert((here, here));
            }
            fabric.round();
            all.extend(ended(&mut fabric, 0));
            if all.iter().any(|done| done.outcome == Outcome::Failed) {
                fabric.air.borrow_mut().cut.clear();
            }
        }
        assert!((0..).zip(&all).all(|(number, done)| done.token == Token(number)), "seed {seed}: in order");
        for (word, done) in all.iter().enumerate() {
            match done.outcome {
                Outcome::Done(found) => assert_eq!((found, words.value(word)), (0, 1), "seed {seed}"),
                Outcome::Failed => {
                    lost += 1;
                    assert!(words.value(word) <= 1, "seed {seed}: done twice");
                }
            }
        }
        // It goes on, by the next one where the first was lost.
        let value = words.value(0);
        assert_eq!(fabric.ends[0].change_own(words.at(0), Atomic::FetchAdd(1), Token(64)), Ok(()));
        let last = loop {
            fabric.round();
            if let Some(done) = fabric.ends[0].completed() {
                break done;
            }
        };
        assert_eq!(last, Completed { token: Token(64), outcome: Outcome::Done(value) }, "seed {seed}");
        let failed = all.iter().any(|done| done.outcome == Outcome::Failed);
        assert_eq!(fabric.ends[0].counts().own_connections, 1 + u64::from(failed), "seed {seed}");
        assert_eq!(fabric.ends[0].held().numbers, 0, "seed {seed}");
    }
    assert!(lost > 40, "{lost} of all were under way when the connection was lost");
}
