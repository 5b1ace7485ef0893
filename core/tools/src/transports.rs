//! Which transports lead where on this machine, and why not the others (`weft-info --explain transports`).

use crate::single_copy;
use std::net::IpAddr;
use weft_boot::machine::{LiveSystem, allowed_cpus, host_address};
use weft_coll::Link;
use weft_engine::{Directory, Fabric, OfiCard, OfiDirectory, OfiWanted, PeerCard, RouteWish};
use weft_place::agreed;
use weft_place::transport::{self, Facts, Way, Wish};
use weft_types::params::{self, Choice, Parameters};
use weft_types::{Error, ErrorClass, PeerId};

/// What this machine has.
fn facts(parameters: &Parameters, library_path: Option<&str>) -> Facts {
    Facts {
        cpus: allowed_cpus(),
        eager_limit: u64::from(parameters.eager_limit),
        single_copy: Some(parameters.single_copy != Choice::Off && single_copy::probe().is_ok()),
        ..Facts::gather(&LiveSystem, library_path)
    }
}

/// The parameters that count here.
pub(crate) fn parameters(variable: &impl Fn(&str) -> Option<String>) -> weft_types::Result<Parameters> {
    let names = [
        "WEFT_TRANSPORT",
        "WEFT_RDMA",
        "WEFT_SINGLE_COPY",
        "WEFT_EAGER_LIMIT",
        "WEFT_LANES",
        "WEFT_ROUTES",
        "WEFT_SERVICE_LEVEL",
        "WEFT_TRAFFIC_CLASS",
        "WEFT_PARTITION",
        "WEFT_RAILS",
        "WEFT_RENDEZVOUS",
        "WEFT_KEEP_REGISTERED",
        "WEFT_OFI_PROVIDER",
        "WEFT_OFI_TAGS",
        "WEFT_LINK_MTU",
        "WEFT_CONNECTIONS",
        "WEFT_RINGS",
    ];
    let set = names.iter().filter_map(|name| Some(((*name).to_owned(), variable(name)?)));
    Ok(Parameters::from_environment(set)?.0)
}

/// For ranks of this node and of others: the transport, its rails and protocols, and why not the others.
///
/// # Errors
/// A parameter that cannot be read, or what was asked for and cannot be had.
pub fn text(variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let parameters = parameters(&variable).map_err(|error| error.text().to_owned())?;
    let facts = facts(&parameters, variable("LD_LIBRARY_PATH").as_deref());
    let wish = Wish::from(&parameters);
    let mut plan = transport::plan(&facts, &wish)?;
    let mut opened = String::new();
    if let Ok(route) = &mut plan.far {
        // What a device does with messages, and which devices a library finds, they say when they are open.
        match open(route, &parameters) {
            Ok(fabric) => {
                route.protocols = fabric.protocols(
                    parameters.rendezvous.into(),
                    parameters.eager_limit,
                    parameters.keep_registered,
                );
                opened = fabric
                    .why(parameters.keep_registered)
                    .map_or_else(String::new, |why| format!("opened here  {why}\n"));
                if route.rdma && !fabric.drives_a_device() {
                    opened += "note: what could be opened drives no such RDMA device as was planned; a job says so, and with WEFT_RDMA=require it ends\n";
                }
            }
            Err(error) => {
                opened = format!("not to be opened here: {}\n", error.text());
            }
        }
    }
    if plan.mates.way != Way::Shm
        && let Ok(route) = plan.far.as_ref().map(|route| route.protocols.clone())
    {
        // One transport was asked for, for all.
        plan.mates.protocols = route;
    }
    let mut text = plan.explain();
    let roads: Vec<String> = agreed::roads(&facts, &wish).iter().map(ToString::to_string).collect();
    if !roads.is_empty() {
        text.push_str(&format!(
            "where nodes differ          this one has {}: each two kinds of nodes take the first that both have, unless one device's does for all\n",
            roads.join(", ")
        ));
    }
    text.push_str(&opened);
    let ports = weft_engine::rdma_ports(host_address(), parameters.partition.0);
    for port in &ports {
        text.push_str(&format!("RDMA port {port}\n"));
    }
    if !ports.is_empty() {
        text.push_str(&format!("RDMA routes {}\n", weft_engine::rdma_routes()));
    }
    let lanes = weft::lanes::number(parameters.lanes, facts.cpus.len(), 1, 0);
    text.push_str(&format!(
        "threads (MPI_THREAD_MULTIPLE)  {lanes} lanes for the communicators of a process alone on its node (WEFT_LANES), each with an end of its own on what leads to other nodes\n"
    ));
    Ok(text)
}

/// Where nobody is found: what is opened here is looked at, and talks to nobody.
#[derive(Debug)]
struct Nobody;

impl Nobody {
    fn none<T>(peer: PeerId) -> weft_types::Result<T> {
        Err(Error::new(ErrorClass::OTHER, format!("there is no process {} here", peer.0)))
    }
}

impl Directory for Nobody {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<PeerCard> {
        Nobody::none(peer)
    }
}

impl OfiDirectory for Nobody {
    fn find(&mut self, peer: PeerId) -> weft_types::Result<OfiCard> {
        Nobody::none(peer)
    }
}

/// Opens what a route to other nodes leads over, as a process of a job does.
fn open(route: &transport::Route, parameters: &Parameters) -> weft_types::Result<Fabric> {
    let (me, address): (PeerId, IpAddr) = (PeerId(0), host_address());
    let rail = Some(route.rails[0].as_str()).filter(|_| route.way != Way::Softroce);
    let mut fabric = match route.way {
        Way::Verbs => {
            let routes = RouteWish {
                ask: parameters.routes,
                service_level: parameters.service_level.0,
                traffic_class: parameters.traffic_class.0,
            };
            Fabric::verbs(
                me,
                (Some(address), parameters.partition.0),
                rail,
                parameters.rails,
                routes,
                Box::new(Nobody),
            )?
            .0
        }
        Way::Ofi => {
            let wanted = OfiWanted {
                between_nodes: true,
                address: Some(address),
                provider: match &parameters.ofi_provider {
                    params::Provider::Auto => None,
                    params::Provider::Named(name) => Some(name.clone()),
                },
                rail: rail.map(str::to_owned),
                carrier: match parameters.ofi_tags {
                    Choice::Auto => None,
                    Choice::On => Some(weft_engine::OfiCarrier::Tags),
                    Choice::Off => Some(weft_engine::OfiCarrier::Messages),
                },
                ..OfiWanted::default()
            };
            Fabric::ofi(me, &wanted, Box::new(Nobody))?.0
        }
        Way::Softroce | Way::Shm => {
            Fabric::softroce(me, address, parameters.rails, None, parameters.link_mtu, Box::new(Nobody))?.0
        }
    };
    fabric.set_connections(parameters.connections);
    fabric.set_rings(parameters.rings);
    Ok(fabric)
}

/// What a message to another node takes over what was asked for, where no adapter carries it. Unless it was asked for, questions are about a
/// cluster, whatever the machine is on which they are asked.
pub(crate) fn link(variable: &impl Fn(&str) -> Option<String>) -> Option<Link> {
    let parameters = parameters(variable).ok()?;
    match Wish::from(&parameters).forced? {
        Way::Softroce => Some(Link::EMULATED),
        Way::Ofi if Facts::gather(&LiveSystem, None).devices.is_empty() => Some(Link::SOCKETS),
        Way::Shm | Way::Verbs | Way::Ofi => None,
    }
}

/// What leads to other nodes, in a line.
pub(crate) fn far(variable: &impl Fn(&str) -> Option<String>) -> String {
    let found = parameters(variable).map_err(|error| error.text().to_owned()).and_then(|parameters| {
        let facts = Facts::gather(&LiveSystem, variable("LD_LIBRARY_PATH").as_deref());
        transport::far(&facts, &Wish::from(&parameters))
    });
    found.map_or_else(
        |why| why,
        |route| format!("{}: {} (weft-info --explain transports)", route.way, route.why),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_peers_are_explained() {
        let text = text(|_| None).expect("a plan");
        for word in [
            "where nodes differ          this one has ",
            "to ranks of this node",
            "to ranks of other nodes",
            "not verbs",
            "rails",
            "messages",
        ] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
    }

    /// The borders are those of the transport that was opened: what the engine does, by the same function.
    #[test]
    fn borders_are_those_of_what_was_opened() {
        let with = |settings: &'static [(&str, &str)]| {
            let set = move |name: &str| {
                let found = settings.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            text(set).expect("a plan")
        };
        let read = with(&[
            ("WEFT_TRANSPORT", "softroce"),
            ("WEFT_RENDEZVOUS", "read"),
            ("WEFT_EAGER_LIMIT", "4K"),
            ("WEFT_RAILS", "2"),
        ]);
        for words in [
            "rails        the host's network, another socket of it",
            "up to 4 KiB: copied into registered memory",
            "longer: announced, then read by the receiver",
            "opened here  softroce: packets of up to",
            "; 2 rails, an emulated device and another",
            "registered memory is kept for later messages",
        ] {
            assert!(read.contains(words), "{words} is missing in\n{read}");
        }
        let streamed = with(&[("WEFT_TRANSPORT", "softroce"), ("WEFT_RENDEZVOUS", "stream")]);
        assert!(streamed.contains("copied packet by packet (WEFT_RENDEZVOUS=stream)"), "{streamed}");
    }

    #[test]
    fn the_lanes_of_threads_are_told() {
        let set = |name: &str| (name == "WEFT_LANES").then(|| "3".to_owned());
        assert!(text(set).expect("a plan").contains("3 lanes"));
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        let set = |name: &str| (name == "WEFT_TRANSPORT").then(|| "moon".to_owned());
        assert!(text(set).expect_err("no such transport").contains("WEFT_TRANSPORT"));
        let verbs = |name: &str| (name == "WEFT_TRANSPORT").then(|| "verbs".to_owned());
        if LiveSystem.list("/sys/class/infiniband").is_empty() {
            assert!(text(verbs).expect_err("no device here").contains("no RDMA device"));
        }
    }

    #[test]
    fn shared_memory_alone_leads_to_this_node_only() {
        let shm = |name: &str| (name == "WEFT_TRANSPORT").then(|| "shm".to_owned());
        let text = text(shm).expect("this node can be reached");
        assert!(text.contains("to ranks of this node       shm"), "{text}");
        assert!(text.contains("to ranks of other nodes     none: WEFT_TRANSPORT=shm"), "{text}");
    }

    use weft_place::System;
}
