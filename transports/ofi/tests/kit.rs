//! Libfabric's software providers have the properties of a transport. Which of them there are depends on the installed library;
//! each missing one is named.

mod world;

use weft_api::kit::{self, Fabric};
use weft_ofi::Ofi;
use weft_ofi::offer::Carrier;
use weft_ofi::select::Wanted;
use world::{Cards, all, open, wanted};

struct Processes {
    wanted: Wanted,
    cards: Cards,
    ends: Vec<Ofi>,
    mortal: bool,
    /// Somebody died: to notice takes time, not calls.
    slow: bool,
}

impl Processes {
    fn new(processes: usize, wanted: &Wanted, mortal: bool) -> Processes {
        let (ends, cards) = all(processes, wanted);
        Processes { wanted: wanted.clone(), cards, ends, mortal, slow: false }
    }
}

impl Fabric for Processes {
    type Transport = Ofi;

    fn ends(&mut self) -> &mut [Ofi] {
        &mut self.ends
    }

    fn idle(&mut self) {
        if self.slow {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        self.slow = true;
        // A stranger takes the dead one's place among the ends; nobody has its address.
        self.ends[process] = open(process, &self.wanted, &self.cards);
        self.mortal
    }
}

fn over(provider: &str, carrier: Carrier, mortal: bool) {
    let Some(wanted) = wanted(provider) else { return };
    let wanted = Wanted { carrier: Some(carrier), ..wanted };
    let alone = Processes::new(1, &wanted, false);
    assert_eq!(alone.ends[0].card().with_tags, carrier == Carrier::Tags);
    println!("{}\n{}", alone.ends[0].why(), alone.ends[0].collectives());
    assert!(alone.ends[0].collectives().starts_with("libfabric: the engine runs collectives: "));
    drop(alone);
    kit::every_property(|processes| Processes::new(processes, &wanted, mortal));
    for keeps_company in [false, true] {
        let mut fabric = Processes::new(2, &wanted, mortal);
        fabric.ends.iter_mut().for_each(|end| {
            end.keep_company(keeps_company);
        });
        kit::what_is_pushed_out_needs_no_other_look(&mut fabric);
    }
}

#[test]
fn tcp_below_rxm_has_every_property() {
    over("tcp;ofi_rxm", Carrier::Messages, true);
}

#[test]
fn tcp_alone_has_every_property() {
    over("tcp", Carrier::Messages, true);
}

/// What became `tcp` alone in 1.18, under the name that it has in 1.17.
#[test]
fn net_alone_has_every_property() {
    over("net", Carrier::Messages, true);
}

/// Where there is an adapter: the kernel's emulated one, in `scripts/rxe-vm`.
#[test]
fn verbs_below_rxm_has_every_property() {
    over("verbs;ofi_rxm", Carrier::Messages, false);
}

#[test]
fn shared_memory_has_every_property() {
    over("shm", Carrier::Messages, false);
}

#[test]
fn tcp_below_rxm_has_every_property_with_tags() {
    over("tcp;ofi_rxm", Carrier::Tags, true);
}

#[test]
fn tcp_alone_has_every_property_with_tags() {
    over("tcp", Carrier::Tags, true);
}

#[test]
fn net_alone_has_every_property_with_tags() {
    over("net", Carrier::Tags, true);
}

#[test]
fn shared_memory_has_every_property_with_tags() {
    over("shm", Carrier::Tags, false);
}
