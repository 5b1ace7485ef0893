//! Messages over the device of the system have the properties of a transport. Needs a device: see `common::port`.

mod common;

use common::Cards;
use weft_api::kit::{self, Fabric};
use weft_rdma::Rdma;
use weft_types::PeerId;
use weft_verbs::Verbs;

struct Processes(Vec<Rdma<Verbs>>);

impl Fabric for Processes {
    type Transport = Rdma<Verbs>;

    fn ends(&mut self) -> &mut [Rdma<Verbs>] {
        &mut self.0
    }

    fn idle(&mut self) {
        // The kernel's device needs a processor too.
        std::thread::yield_now();
    }
}

#[test]
fn every_property_holds_over_the_device() {
    let Some(choice) = common::port() else { return };
    kit::every_property(|processes| {
        let cards = Cards::default();
        let ends: Vec<_> = (0..processes)
            .map(|process| {
                let device = Verbs::open(choice.clone()).unwrap();
                Rdma::open(device, PeerId(process as u32), Box::new(cards.clone())).unwrap()
            })
            .collect();
        *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
        Processes(ends)
    });
}
