//! The route to a peer, asked of a described connection manager: what of its answer goes into connections and datagrams, and what
//! happens without one. Runs on any machine.

mod common;

use common::Cards;
use common::described::{count, kit_over, port};
use common::ends::{PATIENCE, Two};
use std::time::Instant;
use weft_api::Transport;
use weft_api::verbs::{DeviceAddress, Hca, Route, Service, Work};
use weft_rdma::Rdma;
use weft_types::params::Routes;
use weft_types::{ContextId, PeerId, Rank, Tag};
use weft_verbs::{Partition, RouteWish, Verbs};
use weft_wire::{Header, Kind};

const NOTHING: RouteWish = RouteWish { ask: Routes::Auto, service_level: None, traffic_class: None };

/// A process on each of these devices.
fn ends(devices: &[&str], wish: RouteWish) -> Vec<Rdma<Verbs>> {
    let cards = Cards::default();
    let open = |(process, name): (u32, &&str)| {
        let device = Verbs::open_with(port(name), wish).unwrap();
        Rdma::open(device, PeerId(process), Box::new(cards.clone())).unwrap()
    };
    let ends: Vec<_> = (0..).zip(devices).map(open).collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    ends
}

/// A message from one to another, which arrives. How many turns that took.
fn message(ends: &mut [Rdma<Verbs>], from: usize, to: usize) -> u64 {
    let header = Header::new(Kind::Eager, ContextId(8), Rank(1), Tag(7));
    let (begun, mut turns, mut sent) = (Instant::now(), 0, false);
    let (sender, receiver) = (PeerId(from as u32), PeerId(to as u32));
    ends[from].connect(receiver).unwrap();
    while ends[to].peek(sender).is_none() {
        sent = sent || ends[from].send_copy(receiver, header, 3_000, |room| room.fill(9)).is_ok();
        ends.iter_mut().for_each(|end| _ = end.progress());
        turns += 1;
        assert!(begun.elapsed() < PATIENCE, "the message never arrives");
        std::thread::yield_now();
    }
    let (head, payload) = ends[to].peek(sender).unwrap();
    assert_eq!((head, payload.len(), payload[2_999]), (header, 3_000, 9));
    ends[to].advance(sender);
    turns
}

/// What connections and datagrams of a device got last: service level, traffic class, hops.
fn way(device: &str) -> [[u64; 3]; 2] {
    ["", "datagrams_"].map(|of| {
        ["service_level", "traffic_class", "hop_limit"].map(|what| count(device, &format!("{of}{what}")))
    })
}

#[test]
fn a_subnet_managers_route_goes_into_connections_and_datagrams() {
    let mut ends = ends(&["subnet0", "subnet0"], NOTHING);
    message(&mut ends, 0, 1);
    assert_eq!(way("subnet0"), [[3, 0, 64]; 2]);
    assert_eq!(count("subnet0", "path_mtu"), 4, "2048 bytes, where the port can 4096");
    assert_eq!(
        (count("subnet0", "timeout"), count("subnet0", "retries")),
        (18, 6),
        "twice 537 ms, seven times"
    );
    assert_eq!((count("subnet0", "is_global"), count("subnet0", "lid")), (0, count("subnet0", "own_lid")));
    assert_eq!(count("subnet0", "static_rate"), 7, "40 Gb/s, of 100");
    let text = ends[0].way(PeerId(1)).unwrap();
    for part in ["service level 3", "2048 bytes", "as the connection manager says"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(count("subnet0", "asked"), 2, "each process has asked once");
    drop(ends);
    assert_eq!(count("subnet0", "alive"), 0);
}

/// The way there and the way back have their own levels; packets are as small as the narrower of both wants.
#[test]
fn each_end_goes_by_its_own_route_and_both_by_the_smaller_packets() {
    let mut ends = ends(&["subnet1", "narrow1"], NOTHING);
    message(&mut ends, 0, 1);
    message(&mut ends, 1, 0);
    let of = |what| [count("subnet1", what), count("narrow1", what)];
    assert_eq!(of("service_level"), [3, 1]);
    assert_eq!(of("path_mtu"), [2, 2], "512 bytes");
    assert_eq!(
        (of("is_global"), of("traffic_class"), of("hop_limit")[1]),
        ([0, 1], [0, 9], 7),
        "a router is asked"
    );
    assert_eq!(of("lid"), [count("narrow1", "own_lid"), count("subnet1", "own_lid")]);
}

#[test]
fn an_administrators_class_is_taken_and_one_set_by_hand_counts_more() {
    let mut set = ends(&["classy0", "classy0"], NOTHING);
    message(&mut set, 0, 1);
    assert_eq!(way("classy0"), [[3, 104, 12]; 2]);
    let wish = RouteWish { traffic_class: Some(32), service_level: Some(5), ..NOTHING };
    let mut by_hand = ends(&["classy1", "classy1"], wish);
    message(&mut by_hand, 0, 1);
    assert_eq!(way("classy1"), [[5, 32, 12]; 2]);
    assert!(by_hand[0].hca().routes().contains("service level 5 and traffic class 32"));
}

#[test]
fn nobody_is_asked_where_routes_are_off() {
    let mut ends = ends(&["subnet2", "subnet2"], RouteWish { ask: Routes::Off, ..NOTHING });
    message(&mut ends, 0, 1);
    assert_eq!((count("subnet2", "asked"), way("subnet2")), (0, [[0, 0, 64]; 2]));
    assert_eq!((count("subnet2", "path_mtu"), count("subnet2", "timeout")), (5, 14));
    assert!(ends[0].hca().routes().contains("WEFT_ROUTES=no"));
}

/// Calls never wait for a manager, and one that is silent is asked once.
#[test]
fn a_manager_that_never_answers_is_left_for_the_defaults() {
    let mut ends = ends(&["mute0", "soft20", "soft21"], NOTHING);
    let turns = message(&mut ends, 0, 1);
    assert!(turns > 100, "{turns} turns while it was asked");
    assert_eq!(way("mute0"), [[0, 0, 64]; 2]);
    assert!(
        ends[0].way(PeerId(1)).unwrap().contains("without a route: the connection manager has not answered")
    );
    message(&mut ends, 0, 2);
    assert_eq!(count("mute0", "asked"), 1, "nor would it answer for the second peer");
    drop(ends);
    assert_eq!(count("mute0", "alive"), 0);
}

/// Eight seconds of a silent subnet manager are not waited for where there is another way.
#[test]
fn another_rail_is_tried_while_a_manager_is_silent() {
    let cards = Cards::default();
    let open = |process| {
        let devices = ["unmanaged0", "subnet8"].map(|name| Verbs::open(port(name)).unwrap());
        Rdma::open_rails(devices.into(), PeerId(process), Box::new(cards.clone())).unwrap()
    };
    let mut ends: Vec<_> = (0..2).map(open).collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    message(&mut ends, 0, 1);
    let text = ends[0].way(PeerId(1)).unwrap();
    assert!(text.contains("rail 2 of 2") && text.contains("service level 3"), "{text}");
    assert!(ends[0].counts().moves > 0);
    let first = ends[0].hca();
    let waits = first.route_text(first.address(), 0).unwrap();
    assert_eq!(
        waits, "the connection manager is asked for the route",
        "the first rail's has not run out of time yet"
    );
    drop(ends);
    assert_eq!(count("unmanaged0", "alive"), 0);
}

#[test]
fn without_a_route_the_defaults_are_used_and_the_reason_is_told() {
    for (name, level, why) in [
        ("nowhere0", 0, "Network is unreachable"),
        ("elsewhere0", 0, "leads there by soft0 port 1"),
        ("roadless0", 0, "there is no route"),
        ("roadless1", 4, "there is no route"),
    ] {
        let wish = RouteWish { service_level: (level > 0).then_some(level as u8), ..NOTHING };
        let mut ends = ends(&[name, name], wish);
        message(&mut ends, 0, 1);
        assert_eq!(way(name), [[level, 0, 64]; 2], "{name}");
        let text = ends[0].way(PeerId(1)).unwrap();
        assert!(text.contains("without a route") && text.contains(why), "{name}: {text}");
        drop(ends);
        assert_eq!(count(name, "alive"), 0, "{name}");
    }
}

#[test]
fn where_routes_are_required_a_way_without_one_is_not_used() {
    let require = RouteWish { ask: Routes::Require, ..NOTHING };
    let mut with = ends(&["subnet3", "subnet3"], require);
    message(&mut with, 0, 1);
    for name in ["nowhere1", "mute1", "roadless2"] {
        // Whoever asks; and whoever is asked by a process that has a route.
        let other = if name == "roadless2" { "subnet4" } else { "soft22" };
        for asker in [0, 1] {
            let mut ends = ends(&[name, other], require);
            ends[asker].connect(PeerId(1 - asker as u32)).unwrap();
            let begun = Instant::now();
            while ends[0].lost() != Some(PeerId(1)) {
                ends.iter_mut().for_each(|end| _ = end.progress());
                assert!(begun.elapsed() < PATIENCE, "{name}: nobody is lost");
                std::thread::yield_now();
            }
        }
        assert_eq!(count(name, "alive"), 0, "{name}");
    }
}

/// As after a failure: the manager may lead elsewhere by then, and datagrams get a new way too.
#[test]
fn a_route_is_asked_for_again_when_a_connection_failed() {
    let open = || Verbs::open(port("counted0")).unwrap();
    let mut two = Two::new(open(), open(), Service::Datagram, ());
    two.a.hca.open_queue_pair(two.a.pair, None).unwrap();
    two.b.hca.open_queue_pair(two.b.pair, None).unwrap();
    let to = two.b.hca.address();
    for round in 1..4 {
        if round > 1 {
            two.a.hca.renew_route(to, 0);
        }
        let mut asked = 0;
        while two.a.hca.route(to, 0) == Route::Asked {
            asked += 1;
            std::thread::yield_now();
        }
        assert!(asked > 0 || round > 1, "nobody waits for the first answer in the call");
        assert_eq!(two.a.hca.route(to, 0), Route::Known { mtu: 2048 });
        two.b.post_receive(round, 0, 100);
        let (queue_pair, qkey) = (two.b.pair, common::ends::QKEY);
        let segment = [two.a.segment(0, 8)];
        two.a.post(round, Work::Datagram { to, by: 0, queue_pair, qkey, immediate: None }, &segment);
        // Behind what a global header would take.
        assert_eq!((two.of_a().id, two.of_b().bytes), (round, 48));
        assert_eq!(count("counted0", "datagrams_service_level"), round);
    }
    // On Ethernet the kernel looks at the way whenever a queue pair is opened.
    let mut ethernet = Verbs::open(port("classy2")).unwrap();
    let to: DeviceAddress = ethernet.address();
    while ethernet.route(to, 0) == Route::Asked {}
    ethernet.renew_route(to, 0);
    assert_eq!(ethernet.route(to, 0), Route::Known { mtu: 1024 });
    assert_eq!(count("classy2", "asked"), 1);
}

#[test]
fn levels_that_ethernet_does_not_have_are_refused() {
    let wish = RouteWish { service_level: Some(9), ..NOTHING };
    let error = Verbs::open_with(port("soft23"), wish).unwrap_err().to_string();
    assert!(error.contains("WEFT_SERVICE_LEVEL is 9") && error.contains("0 to 7"), "{error}");
    Verbs::open_with(port("subnet5"), wish).unwrap();
    assert_eq!(count("soft23", "alive") + count("subnet5", "alive"), 0);
}

#[test]
fn every_property_holds_in_a_subnet() {
    kit_over("subnet6", |_| {}, false);
    assert_eq!((count("subnet6", "asked") > 0, count("subnet6", "without_level")), (true, 0));
}

#[test]
fn every_property_holds_in_a_subnet_with_one_connection() {
    kit_over("subnet7", |end| end.set_connections(1), true);
    assert_eq!(count("subnet7", "without_level"), 0);
}

/// Each question and each answer waits for its route.
#[test]
fn every_property_holds_with_a_late_manager() {
    kit_over("late0", |_| {}, false);
    assert_eq!(way("late0")[0][1], 4);
    assert_eq!(count("late0", "without_class"), 0, "nothing goes by the defaults before the answer");
}

/// What stands in the table of partitions at the chosen place, for connections and for datagrams.
#[test]
fn queue_pairs_are_in_the_chosen_partition() {
    let cards = Cards::default();
    let open = |(process, name)| {
        let mut port = port(name);
        port.partition = Partition { index: 5, key: 0x8001 };
        let device = Verbs::open_with(port, NOTHING).unwrap();
        Rdma::open(device, PeerId(process), Box::new(cards.clone())).unwrap()
    };
    let mut ends: Vec<_> = (0..).zip(["soft16", "soft17"]).map(open).collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    message(&mut ends, 0, 1);
    for device in ["soft16", "soft17"] {
        assert_eq!((count(device, "partition"), count(device, "datagrams_partition")), (5, 5), "{device}");
    }
}
