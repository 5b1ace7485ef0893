//! The virtual fabric has the properties of a transport.

use weft_api::kit::{self, Fabric};
use weft_sim::{SimConfig, SimFabric, SimPort};

struct Virtual {
    fabric: SimFabric,
    ends: Vec<SimPort>,
}

impl Fabric for Virtual {
    type Transport = SimPort;

    fn ends(&mut self) -> &mut [SimPort] {
        &mut self.ends
    }

    fn kill(&mut self, process: usize) -> bool {
        self.fabric.kill(process as u32);
        true
    }
}

#[test]
fn every_property_holds_whatever_is_refused_and_delayed() {
    for seed in 0..8 {
        let config = SimConfig { seed, full: 0.2, ..SimConfig::default() };
        kit::every_property(|processes| {
            let fabric = SimFabric::new(processes as u32, config.clone());
            let ends = (0..processes).map(|rank| fabric.port(rank as u32)).collect();
            Virtual { fabric, ends }
        });
    }
}
