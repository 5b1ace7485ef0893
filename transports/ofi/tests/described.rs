//! The paths that devices take which no test machine has: over described providers, after their manuals, which end the process when
//! something is done that these forbid. `examples/described_fabric` is the library.

mod library;
mod world;

use library::{count, wanted};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU8;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Access;
use weft_api::zero_copy::{LocalRun, MemoryRange, RemoteRun, TO_BE_READ, Token};
use weft_api::{Bell, Pollable, Transport};
use weft_ofi::offer::Carrier;
use weft_ofi::select::Wanted;
use weft_ofi::{Ofi, OfiBell};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};
use world::{Cards, all, open};

struct Processes {
    wanted: Wanted,
    cards: Cards,
    ends: Vec<Ofi>,
    /// Somebody died: to notice takes time, not calls.
    slow: bool,
}

impl Processes {
    fn new(processes: usize, wanted: &Wanted) -> Processes {
        let (ends, cards) = all(processes, wanted);
        Processes { wanted: wanted.clone(), cards, ends, slow: false }
    }
}

impl Fabric for Processes {
    type Transport = Ofi;

    fn ends(&mut self) -> &mut [Ofi] {
        &mut self.ends
    }

    fn idle(&mut self) {
        if self.slow {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        // A stranger takes the dead one's place among the ends; nobody has its address.
        self.ends[process] = open(process, &self.wanted, &self.cards);
        self.slow = self.wanted.provider.as_deref() == Some("psm2");
        true
    }
}

/// What is open is counted for each provider: one test at a time has it.
fn turn(provider: &str) -> MutexGuard<'static, ()> {
    static TURNS: Mutex<BTreeMap<String, &'static Mutex<()>>> = Mutex::new(BTreeMap::new());
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let own: &'static Mutex<()> =
        turns.entry(provider.to_owned()).or_insert_with(|| Box::leak(Box::default()));
    drop(turns);
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kit by both carriers, where there are both; afterwards nothing is left open.
fn over(provider: &str) {
    let _turn = turn(provider);
    for carrier in [None, Some(Carrier::Tags)] {
        let wanted = wanted(provider, carrier);
        println!("{}", Processes::new(1, &wanted).ends[0].why());
        kit::every_property(|processes| Processes::new(processes, &wanted));
    }
    assert_eq!(count(provider, "alive"), 0, "objects of {provider} that were not closed");
}

#[test]
fn contexts_of_eight_words_and_memory_by_offsets_as_with_opx() {
    over("opx");
    assert!(count("opx", "contexts") > 0 && count("opx", "regions") > 0);
}

#[test]
fn contexts_of_four_words_and_manual_progress_as_with_psm2() {
    over("psm2");
    for what in ["contexts", "unconnected", "orphans"] {
        assert!(count("psm2", what) > 0, "{what}");
    }
}

#[test]
fn regions_of_an_endpoint_as_with_cxi() {
    over("cxi");
    let _turn = turn("cxi");
    // A device sends what was posted, whatever the program does afterwards.
    kit::what_is_pushed_out_needs_no_other_look(&mut Processes::new(2, &wanted("cxi", None)));
    assert!(count("cxi", "enabled") > 0 && count("cxi", "enabled") == count("cxi", "regions"));
}

#[test]
fn keys_that_are_known_late_as_with_cxi() {
    over("cxi;keys");
    assert!(count("cxi;keys", "enabled") > 0 && count("cxi;keys", "widest key") > u64::from(u32::MAX));
}

#[test]
fn descriptors_and_keys_of_the_device_as_with_efa() {
    over("efa");
    assert!(count("efa", "regions") > 0);
}

#[test]
fn connections_at_the_first_message_as_with_verbs() {
    over("verbs;ofi_rxm");
    assert!(count("verbs;ofi_rxm", "unconnected") > 0 && count("verbs;ofi_rxm", "injected") > 0);
}

#[test]
fn messages_in_any_order() {
    over("unordered");
    assert!(count("unordered", "reordered") > 0);
}

#[test]
fn nothing_but_tags() {
    over("tags");
}

#[test]
fn everything_that_is_hard_at_once() {
    over("mean");
    for what in ["contexts", "enabled", "unconnected", "full", "reordered"] {
        assert!(count("mean", what) > 0, "{what}");
    }
    assert!(count("mean", "widest key") <= u64::from(u16::MAX));
}

fn pair(provider: &str) -> Processes {
    let mut fabric = Processes::new(2, &wanted(provider, None));
    for (me, peer) in [(0, 1), (1, 0)] {
        fabric.ends[me].connect(PeerId(peer)).unwrap();
    }
    // Until there is a connection everything is refused.
    let (mut sent, mut rounds) = (false, 0);
    while fabric.ends[1].peek(PeerId(0)).is_none() {
        sent = sent || send(&mut fabric, b"word");
        rounds += 1;
        assert!(rounds < 100_000, "{provider}: no connection");
        fabric.ends.iter_mut().for_each(|end| {
            end.progress();
        });
    }
    fabric
}

fn send(fabric: &mut Processes, payload: &[u8]) -> bool {
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(0));
    fabric.ends[0].send_inline(PeerId(1), header, payload).is_ok()
}

/// A program may register memory as often as it likes, also where keys are short.
#[test]
fn keys_of_two_bytes_come_again_when_all_were_used() {
    let _turn = turn("mean");
    let wanted = wanted("mean", None);
    let mut end = Processes::new(1, &wanted).ends.remove(0);
    let memory = [0_u64; 8];
    let range = MemoryRange { address: memory.as_ptr() as u64, length: 64 };
    let kept = end.register(range, TO_BE_READ).unwrap();
    for _ in 0..70_000 {
        let region = end.register(range, TO_BE_READ).unwrap();
        assert_ne!(region.remote.key, kept.remote.key, "another region's");
        end.deregister(region.id);
    }
}

/// Requests on memory that wait for places do not keep messages from theirs.
#[test]
fn messages_leave_whatever_waits() {
    let _turn = turn("mean");
    let mut fabric = pair("mean");
    let memory: Vec<AtomicU8> = (0..1 << 20).map(|_| AtomicU8::new(0)).collect();
    let range = MemoryRange { address: memory.as_ptr() as u64, length: memory.len() as u64 };
    let there = fabric.ends[1].register(range, Access::ALL).unwrap();
    let here = fabric.ends[0].register(range, Access::ALL).unwrap();
    let from = [RemoteRun { memory: there.remote, length: range.length }];
    let into = [LocalRun { address: range.address, length: range.length, region: here.id }];
    assert_eq!(fabric.ends[0].get(PeerId(1), &from, &into, Token(1)), Ok(()), "in hundreds of pieces");
    for _ in 0..20 {
        assert!(send(&mut fabric, b"word"), "the pieces take all places");
        fabric.ends.iter_mut().for_each(|end| {
            end.progress();
        });
    }
}

const LONG: Duration = Duration::from_secs(60);

/// Who waits sleeps until the provider wakes him where it can, and a moment where it cannot.
#[test]
fn sleepers_are_woken_or_nap() {
    let _turns = ["verbs;ofi_rxm", "psm2"].map(turn);
    let mut fabric = pair("verbs;ofi_rxm");
    fabric.ends[1].advance(PeerId(0));
    let mut rounds = 0;
    let bell = fabric.ends[1].bell();
    bell.arm();
    while bell.limit(LONG) < LONG {
        fabric.ends.iter_mut().for_each(|end| {
            end.progress();
        });
        rounds += 1;
        assert!(rounds < 10_000, "nothing is under way, and nobody may sleep");
    }
    assert!(!is_readable(&bell), "nothing has come");
    assert!(send(&mut fabric, b"word"));
    // The provider may refuse it a few times.
    rounds = 0;
    while !is_readable(&bell) {
        fabric.ends[0].progress();
        rounds += 1;
        assert!(rounds < 10_000, "the message wakes nobody");
    }
    bell.disarm();

    let mut fabric = pair("psm2");
    let bell = fabric.ends[1].bell();
    bell.arm();
    fabric.ends[1].progress();
    assert!(bell.limit(LONG) < Duration::from_millis(10), "nobody would wake it");
    bell.disarm();
}

fn is_readable(bell: &OfiBell) -> bool {
    let mut list = Vec::new();
    bell.descriptors(&mut list);
    let mut polled: Vec<PollFd<'_>> = list.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    poll(&mut polled, PollTimeout::ZERO).unwrap() > 0
}
