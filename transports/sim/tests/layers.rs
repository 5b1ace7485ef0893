//! The layers round the virtual fabric: every property holds through them, what they are there for happens and can be repeated, and a
//! layer that broke a promise would be found out.

mod broken;

use broken::{Breach, Broken};
use std::panic::{AssertUnwindSafe, catch_unwind};
use weft_api::kit::{self, Fabric};
use weft_api::{Refused, Transport};
use weft_sim::layers::{Clock, Faulty, Injected, Late, Layers};
use weft_sim::{SimConfig, SimFabric, SimPort};
use weft_types::params::{FaultPlan, LatencyModel};
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_wire::{Header, Kind};

struct Virtual<T> {
    fabric: SimFabric,
    ends: Vec<T>,
    kill: fn(&SimFabric, &mut [T], usize),
}

impl<T> Virtual<T> {
    fn new(processes: usize, config: SimConfig, wrap: impl Fn(SimPort, PeerId, Clock) -> T) -> Virtual<T> {
        let fabric = SimFabric::new(processes as u32, config);
        let end = |rank| wrap(fabric.port(rank), PeerId(rank), Clock::Virtual(fabric.clone()));
        let ends = (0..processes as u32).map(end).collect();
        Virtual { fabric, ends, kill: |fabric, _, process| fabric.kill(process as u32) }
    }
}

impl<T: Transport> Fabric for Virtual<T> {
    type Transport = T;

    fn ends(&mut self) -> &mut [T] {
        &mut self.ends
    }

    fn kill(&mut self, process: usize) -> bool {
        (self.kill)(&self.fabric, &mut self.ends, process);
        true
    }
}

fn faulty(processes: usize, seed: u64, plan: &str) -> Virtual<Faulty<SimPort>> {
    let plan = FaultPlan::parse(&format!("seed={seed},{plan}")).expect("a plan");
    Virtual::new(processes, SimConfig { seed, ..SimConfig::default() }, |port, me, clock| {
        Faulty::new(port, plan, me, 0, clock)
    })
}

const BAD: &str = "delay=0.3:200ns,loss=0.02:2us,refuse=0.2:5,hold=0.3:200ns";

#[test]
fn every_property_holds_through_faults() {
    for seed in 0..8 {
        kit::every_property(|processes| faulty(processes, seed, BAD));
    }
}

/// The death that the layer makes is like any other.
#[test]
fn every_property_holds_when_ways_are_cut() {
    for seed in 0..4 {
        kit::every_property(|processes| {
            let mut fabric = faulty(processes, seed, BAD);
            fabric.kill = |_, ends, process| {
                let all = 0..ends.len();
                all.clone().filter(|&other| other != process).for_each(|other| {
                    ends[other].cut(PeerId(process as u32));
                    ends[process].cut(PeerId(other as u32));
                });
            };
            fabric
        });
    }
}

#[test]
fn every_property_holds_with_the_times_of_another_network() {
    for model in ["300ns,gap=5ns,bandwidth=10G", "2us", "0ns,gap=40ns,node=2"] {
        let model = LatencyModel::parse(model);
        kit::every_property(|processes| {
            Virtual::new(processes, SimConfig::default(), |port, me, clock| Late::new(port, model, me, clock))
        });
    }
}

#[test]
fn every_property_holds_through_all_layers() {
    let layers = Layers {
        faults: FaultPlan::parse(BAD),
        latency: LatencyModel::parse("100ns,bandwidth=40G,node=2"),
        trace: None,
    };
    kit::every_property(|processes| {
        Virtual::new(processes, SimConfig::default(), |port, me, clock| {
            layers.wrap(port, me, 0, clock).expect("no file")
        })
    });
}

fn header(number: u32) -> Header {
    Header::new(Kind::Eager, ContextId(8), Rank(0), Tag(number as i32))
}

/// Sends so many packets from 0 to 1 and takes them. Returns when each was seen.
fn talk<T: Transport>(fabric: &mut Virtual<T>, packets: u32) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut sent = 0;
    for _ in 0..1_000_000 {
        if sent < packets && fabric.ends[0].send_inline(PeerId(1), header(sent), b"word") == Ok(()) {
            sent += 1;
        }
        if let Some((found, payload)) = fabric.ends[1].peek(PeerId(0)) {
            assert_eq!((found, payload), (header(seen.len() as u32), &b"word"[..]));
            fabric.ends[1].advance(PeerId(0));
            seen.push(fabric.fabric.now());
        }
        if seen.len() == packets as usize {
            return seen;
        }
        fabric.ends.iter_mut().for_each(|end| {
            end.progress();
        });
    }
    panic!("{} of {packets} packets came", seen.len());
}

#[test]
fn each_fault_happens_as_often_as_it_was_asked_for_and_can_be_repeated() {
    let run = |seed| {
        let mut fabric = faulty(2, seed, "delay=0.25:50ns,loss=0.05:500ns,refuse=0.1:4,deny=0.5");
        let times = talk(&mut fabric, 2_000);
        let mut there = 7_u64;
        let address = &raw mut there as u64;
        let read = (0..200).filter(|_| fabric.ends[1].read_remote(PeerId(0), address, &mut [0; 8]).is_ok());
        let read = read.count() as u64;
        let [sender, receiver] = [0, 1].map(|end: usize| fabric.ends[end].injected());
        assert_eq!(sender, Injected { refusals: sender.refusals, ..Injected::default() });
        assert_eq!(read + receiver.denials, 200);
        (times, sender.refusals, receiver)
    };
    let (times, refusals, receiver) = run(3);
    assert!((600..1_000).contains(&refusals), "{refusals} of 800");
    assert!((400..600).contains(&receiver.delays), "{} of 500 but for the lost", receiver.delays);
    assert!((60..140).contains(&receiver.losses), "{} of 100", receiver.losses);
    assert!((60..140).contains(&receiver.denials), "{} of 100", receiver.denials);
    assert_eq!(run(3), (times.clone(), refusals, receiver), "the same seed");
    assert_ne!(run(4).0, times, "another seed");
}

/// The delays of one sender are not those of another: who sent last may be seen first.
#[test]
fn packets_of_different_senders_overtake_each_other() {
    let mut fabric = faulty(3, 5, "delay=0.5:400ns");
    let mut overtaken = 0;
    for number in 0..200 {
        for from in [1, 2] {
            while fabric.ends[from].send_inline(PeerId(0), header(number), &[]).is_err() {
                fabric.ends[0].progress();
            }
            // The second one leaves when the first has arrived below.
            (0..30).for_each(|_| {
                fabric.ends[0].progress();
            });
        }
        let mut seen = Vec::new();
        while seen.len() < 2 {
            fabric.ends[0].progress();
            if let Some(from) = fabric.ends[0].ready() {
                fabric.ends[0].advance(from);
                seen.push(from.0);
            }
        }
        overtaken += u32::from(seen == [2, 1]);
    }
    assert!(overtaken > 20, "{overtaken} of 200");
}

#[test]
fn a_way_dies_after_its_packets_at_both_ends_and_no_other_does() {
    let mut fabric = faulty(3, 1, "dead=1:10");
    let mut told = vec![Vec::new(); 3];
    for number in 0..200 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            let dead = [from, to].contains(&1) && number >= 100;
            let sent = fabric.ends[from].send_inline(PeerId(to as u32), header(number), &[]);
            assert!(!dead || sent != Ok(()), "packet {number} from {from} to {to}: {sent:?}");
            if fabric.ends[to].peek(PeerId(from as u32)).is_some() {
                fabric.ends[to].advance(PeerId(from as u32));
            }
        }
        for (end, told) in fabric.ends.iter_mut().zip(&mut told) {
            end.progress();
            told.extend(end.lost());
        }
    }
    assert_eq!((&told[0], &told[2]), (&vec![PeerId(1)], &vec![PeerId(1)]));
    told[1].sort_unstable();
    assert_eq!(told[1], [PeerId(0), PeerId(2)], "itself is cut off from all");
    assert_eq!(fabric.ends[0].send_inline(PeerId(1), header(0), &[]), Err(Refused::Dead));
    assert!(fabric.ends[0].is_gone(PeerId(1)) && !fabric.ends[0].is_gone(PeerId(2)));
    assert_eq!(fabric.ends.iter().map(|end| end.injected().deaths).collect::<Vec<_>>(), [1, 2, 1]);
}

/// Nothing is seen before its time, and a long way holds many packets: it is slow, not narrow.
#[test]
fn packets_take_their_time_side_by_side() {
    let model = LatencyModel::parse("1000ns,gap=10ns,bandwidth=1G");
    let config = SimConfig { delay: 0, depth: 64, ..SimConfig::default() };
    let mut fabric = Virtual::new(2, config, |port, me, clock| Late::new(port, model, me, clock));
    let begun = fabric.fabric.now();
    let seen = talk(&mut fabric, 50);
    // Four bytes at a byte a nanosecond, and ten from one departure to the next.
    let arrives = |number: u64| begun + 1_004 + 10 * number;
    for (number, &seen) in seen.iter().enumerate() {
        let due = arrives(number as u64);
        assert!(seen >= due && seen <= due + 70, "packet {number} at {seen}, due {due}");
    }
    assert_eq!(fabric.ends[1].waited(), 50);
    let can = fabric.ends[0].capabilities(PeerId(1));
    assert!(!can.single_copy && can.copy_bandwidth <= 1e9 && can.latency >= 1e-6, "{can:?}");
}

#[test]
fn neighbours_on_a_node_stay_near() {
    let model = LatencyModel::parse("100us,node=2");
    let config = SimConfig { delay: 0, ..SimConfig::default() };
    let mut fabric = Virtual::new(2, config, |port, me, clock| Late::new(port, model, me, clock));
    talk(&mut fabric, 50);
    assert!(fabric.fabric.now() < 10_000 && fabric.ends[1].waited() == 0);
    assert!(fabric.ends[0].capabilities(PeerId(1)).single_copy);
}

/// What the suite is there for: layers that lose, double, reorder, change or show packets too soon do not pass.
#[test]
fn a_layer_that_broke_a_promise_would_be_found_out() {
    for breach in Breach::ALL {
        let found = catch_unwind(AssertUnwindSafe(|| {
            kit::every_property(|processes| {
                let config = SimConfig { depth: 64, ..SimConfig::default() };
                Virtual::new(processes, config, |port, _, _| Broken::new(port, breach))
            });
        }));
        assert_eq!(found.is_err(), breach != Breach::Nothing, "{breach:?}");
    }
}
