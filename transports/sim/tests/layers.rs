//! The layers round the virtual fabric: every property holds through them, what they do happens, and what they keep is seen to be kept.

use weft_api::kit::{self, Fabric};
use weft_api::Transport;
use weft_sim::layers::{Clock, Faulty, Late};
use weft_sim::{SimConfig, SimFabric, SimPort};
use weft_types::PeerId;
use weft_types::params::{FaultPlan, LatencyModel};

struct Virtual<T> {
    fabric: SimFabric,
    ends: Vec<T>,
}

impl<T> Virtual<T> {
    fn new(processes: usize, config: SimConfig, wrap: impl Fn(SimPort, PeerId, Clock) -> T) -> Virtual<T> {
        let fabric = SimFabric::new(processes as u32, config);
        let end = |rank| wrap(fabric.port(rank), PeerId(rank), Clock::Virtual(fabric.clone()));
        let ends = (0..processes as u32).map(end).collect();
        Virtual { fabric, ends }
    }
}

impl<T: Transport> Fabric for Virtual<T> {
    type Transport = T;

    fn ends(&mut self) -> &mut [T] {
        &mut self.ends
    }

    fn kill(&mut self, process: usize) -> bool {
        self.fabric.kill(process as u32);
        true
    }
}

fn plan(text: &str) -> FaultPlan {
    FaultPlan::parse(text).expect("a plan")
}

#[test]
fn every_property_holds_through_faults() {
    for seed in 0..8 {
        let plan = plan(&format!("seed={seed},delay=0.3:200ns,loss=0.02:2us,refuse=0.2:5,hold=0.3:200ns"));
        kit::every_property(|processes| {
            Virtual::new(processes, SimConfig { seed, ..SimConfig::default() }, |port, me, clock| {
                Faulty::new(port, plan, me, 0, clock)
            })
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
