//! What the plan counts on, and what is said where it cannot be had. Pure.

use super::mixed::Mixed;
use weft_place::agreed::Road;
use weft_place::devices::{self, Device};
use weft_place::transport::{self, Facts, Way};
use weft_types::params::{self, Parameters};

const _: () =
    assert!(devices::MOST_RAILS == weft_engine::MOST_RAILS, "what is planned can be opened, and no more");

/// What leads from node to node.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    pub(super) way: Way,
    /// What was hoped for and is not so.
    pub(super) downgrade: Option<String>,
    /// The RDMA devices that shall carry the messages, by the plan; empty where none is counted on.
    pub(super) planned: Vec<String>,
    /// Of these the one that is nearest to this process, as far as that is known without a launcher that says so.
    pub(super) rail: Option<String>,
    /// Whether devices must carry the messages.
    pub(super) needs_device: bool,
    /// The roads between nodes that this one has, the chosen one first; empty where all are on one node.
    pub(super) roads: Vec<Road>,
    /// Whether it is none of this node's choice but what all nodes have: then `rail` counts, whatever the launcher chose.
    pub(super) is_agreed: bool,
    /// The roads toward each kind of nodes, where one does not do for all.
    pub(super) mixed: Option<Mixed>,
    /// Why this node cannot have what was asked for at all; the job ends when its nodes have met, so that it is said which have it.
    pub(super) lacks: Option<String>,
}

impl Between {
    /// Of a node that lacks what was asked for.
    pub(super) fn nothing(why: String) -> Between {
        Between {
            // Nothing is opened.
            way: Way::Softroce,
            downgrade: None,
            planned: Vec::new(),
            rail: None,
            needs_device: true,
            roads: Vec::new(),
            is_agreed: false,
            mixed: None,
            lacks: Some(why),
        }
    }

    /// What is to be said of what was opened, unasked: the plan counted on a device, and what could be opened drives none.
    /// `chosen`: what was, and why.
    pub(super) fn fallen(&self, drives_a_device: bool, chosen: &str) -> Option<String> {
        let planned = match &self.planned[..] {
            [] => return None,
            _ if drives_a_device => return None,
            [device] => format!("the RDMA device {device}"),
            devices => format!("the RDMA devices {}", devices.join(" and ")),
        };
        let remedy = match self.way {
            Way::Ofi => {
                "fi_info shows what libfabric has: is its provider for the device installed, and its file in /dev there?"
            }
            _ => "weft-doctor looks for reasons",
        };
        Some(format!(
            "{planned} should carry messages between nodes over {}, but what could be opened drives no such device: {chosen}. {remedy} \
             (WEFT_RDMA=require makes this an error)",
            self.way
        ))
    }
}

/// The RDMA devices that a route counts on. Who names a provider of libfabric counts on that, whatever it drives.
pub(super) fn planned(route: Option<transport::Route>, parameters: &Parameters) -> Vec<String> {
    let names_provider = parameters.ofi_provider != params::Provider::Auto;
    let route = route.filter(|route| route.rdma && !(route.way == Way::Ofi && names_provider));
    route.map_or_else(Vec::new, |route| route.rails)
}

/// The device of libfabric's for a process that no launcher has given one, by its number among those of its node: those that are
/// bound to nothing share them evenly. Of verbs' devices their transport finds the nearest itself.
pub(super) fn nearest(route: &transport::Route, facts: &Facts, local_index: u32) -> Option<String> {
    let is_first = |device: &&Device| Some(&device.name) == route.rails.first();
    let first = facts.devices.iter().find(is_first).filter(|_| route.way == Way::Ofi)?;
    let alike: Vec<Device> = facts
        .devices
        .iter()
        .filter(|device| device.speech == first.speech && device.pci.is_some() == first.pci.is_some())
        .cloned()
        .collect();
    devices::assign_names(&alike, &vec![facts.cpus.clone(); local_index as usize + 1]).pop()?
}

/// What is said where fewer devices were opened than were asked for.
pub(super) fn lacking(wanted: u32, way: Way, rails: &[String]) -> String {
    let why = match way {
        Way::Ofi => "libfabric's providers share messages out among devices by themselves, where they can",
        _ => "there is no other port of the same kind that can be used (weft-info --explain transports)",
    };
    format!("WEFT_RAILS={wanted}, but messages go by {} alone: {why}", rails.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_place::devices::Speech;
    use weft_place::transport::Wish;

    /// A fall is said where the plan counted on a device, whoever asked for it and how; who wants sockets hears nothing.
    #[test]
    fn a_fall_from_a_planned_device_to_sockets_is_said() {
        let route = |way, rdma, rails: &[&str]| transport::Route {
            way,
            why: String::new(),
            rails: rails.iter().map(|&rail| rail.to_owned()).collect(),
            rdma,
            protocols: Vec::new(),
            others: Vec::new(),
            downgrade: None,
        };
        let parameters = |provider: &str| {
            let set = [("WEFT_OFI_PROVIDER".to_owned(), provider.to_owned())];
            Parameters::from_environment(set).expect("a provider").0
        };
        let between = |route: Option<transport::Route>, provider| Between {
            way: route.as_ref().map_or(Way::Ofi, |route| route.way),
            downgrade: None,
            planned: planned(route, &parameters(provider)),
            rail: None,
            needs_device: false,
            roads: Vec::new(),
            is_agreed: false,
            mixed: None,
            lacks: None,
        };
        let sockets = "libfabric: tcp on eth0: over the kernel's sockets or memory";
        let slingshot = || Some(route(Way::Ofi, true, &["cxi0"]));
        let told = between(slingshot(), "auto").fallen(false, sockets).expect("said");
        for words in ["RDMA device cxi0", "over ofi", sockets, "fi_info", "WEFT_RDMA=require"] {
            assert!(told.contains(words), "{words} is missing in {told}");
        }
        assert!(!told.contains('\n'), "one line");
        assert_eq!(between(slingshot(), "auto").fallen(true, "libfabric: cxi on cxi0"), None);
        assert_eq!(between(slingshot(), "tcp").fallen(false, sockets), None, "tcp was asked for");
        let verbs = between(Some(route(Way::Verbs, true, &["mlx5_0", "mlx5_1"])), "tcp");
        assert!(verbs.fallen(false, "rxe0 port 1").is_some_and(|told| told.contains("mlx5_0 and mlx5_1")));
        for none in [Some(route(Way::Ofi, false, &["the host's network"])), None] {
            assert_eq!(between(none, "auto").fallen(false, sockets), None, "no device was there");
        }
    }

    #[test]
    fn processes_that_no_launcher_gave_a_device_take_the_nearest_or_share_them() {
        let adapter = |name: &str, speech, cpus: &str| Device {
            name: name.to_owned(),
            speech,
            pci: Some("0000:c1:00.0".to_owned()),
            numa_node: None,
            cpus: cpus.parse().expect("a list"),
            rate: Some(200),
            active_ports: 1,
            ports: String::new(),
        };
        let mut facts = Facts {
            devices: vec![
                adapter("mlx5_0", Speech::Iwarp, "0-15"),
                adapter("cxi0", Speech::Slingshot, "0-15"),
                adapter("cxi1", Speech::Slingshot, "16-31"),
            ],
            libfabric: Some("/usr/lib/libfabric.so.1".to_owned()),
            ..Facts::default()
        };
        let mut rail = |cpus: &str, local_index| {
            facts.cpus = cpus.parse().expect("a list");
            let route = transport::far(&facts, &Wish::default()).expect("a route");
            nearest(&route, &facts, local_index)
        };
        for (cpus, local_index, name) in [
            ("0-3", 5, "cxi0"),
            ("20", 0, "cxi1"),
            ("0-31", 0, "cxi0"),
            ("0-31", 1, "cxi1"),
            ("0-31", 2, "cxi0"),
        ] {
            assert_eq!(rail(cpus, local_index).as_deref(), Some(name), "{cpus}, {local_index}");
        }
        let sockets = transport::far(&Facts::default(), &Wish::default()).expect("a route");
        assert_eq!(nearest(&sockets, &Facts::default(), 0), None);
    }

    #[test]
    fn a_rail_that_is_not_there_is_said() {
        let told = lacking(2, Way::Verbs, &["mlx5_0 port 1".to_owned()]);
        assert!(told.contains("WEFT_RAILS=2") && told.contains("mlx5_0 port 1 alone"), "{told}");
        assert!(lacking(2, Way::Ofi, &["cxi0".to_owned()]).contains("libfabric"));
    }
}
