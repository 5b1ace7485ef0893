//! Everything above the library's functions, over described devices: what the device of the kernel has, and what no device here has.
//! `examples/described` is the library. Runs on any machine.

mod common;

use common::described::{count, port};
use common::ends::Two;
use common::fabric::{Processes, open};
use common::Cards;
use weft_api::kit;
use weft_api::verbs::{Access, Hca, HcaRefusal, Service};
use weft_rdma::Rdma;
use weft_types::params::Choice as Setting;
use weft_verbs::{Choice, Verbs};

/// Places of the kinds in the library's table.
const SOFT: usize = 0;
const CARD: usize = 1;
const PARTLY: usize = 2;
const FEW: usize = 3;
const TIGHT: usize = 4;
const OLD: usize = 5;
const DOWN: usize = 6;
const LOOSE: usize = 8;

fn joined(choice: Choice, service: Service) -> Two<Verbs, Verbs> {
    let open = || Verbs::open(choice.clone()).unwrap();
    Two::new(open(), open(), service, ())
}

mod as_the_kernels {
    fn make(service: super::Service) -> Option<super::Two<super::Verbs, super::Verbs>> {
        Some(super::joined(super::port(super::SOFT, "soft0"), service))
    }
    crate::battery!(make);
}

mod as_a_card {
    fn make(service: super::Service) -> Option<super::Two<super::Verbs, super::Verbs>> {
        Some(super::joined(super::port(super::CARD, "card0"), service))
    }
    crate::battery!(make);
}

/// The kit; afterwards nothing of the device is left.
fn kit_over(kind: usize, name: &str, adjust: impl Fn(&mut Rdma<Verbs>), immortal: bool) {
    let choice = port(kind, name);
    kit::every_property(|processes| {
        let cards = Cards::default();
        let mut ends: Vec<_> = (0..processes).map(|process| open(&choice, process, cards.clone())).collect();
        ends.iter_mut().for_each(&adjust);
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes { ends, choice: choice.clone(), waits: false, immortal }
    });
    assert_eq!(count(name, "alive"), 0, "objects of {name} that were not given back");
}

#[test]
fn every_property_holds_as_with_the_kernels_device() {
    kit_over(SOFT, "soft1", |_| {}, false);
}

#[test]
fn every_property_holds_as_with_a_card() {
    kit_over(CARD, "card1", |_| {}, false);
    assert!(count("card1", "on_demand") > 0);
}

#[test]
fn every_property_holds_with_one_connection() {
    kit_over(CARD, "card2", |end| end.set_connections(1), true);
}

/// Records in memory, seen in order without a completion.
#[test]
fn every_property_holds_with_rings() {
    let rings = |end: &mut Rdma<Verbs>| {
        end.set_rings(Setting::On);
        end.set_ring_limits(2, 1);
    };
    kit_over(CARD, "card3", rings, false);
    kit_over(SOFT, "soft3", rings, false);
}

#[test]
fn every_property_holds_with_few_queue_pairs() {
    kit_over(TIGHT, "tight1", |_| {}, true);
}

#[test]
fn every_property_holds_with_an_old_driver() {
    kit_over(OLD, "old1", |_| {}, false);
}
