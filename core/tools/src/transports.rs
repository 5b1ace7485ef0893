//! Which transports lead where on this machine, and why not the others (`weft-info --explain transports`).

use crate::single_copy;
use weft_boot::machine::{LiveSystem, allowed_cpus};
use weft_coll::Link;
use weft_place::transport::{self, Facts, Way, Wish};
use weft_types::params::{Choice, Parameters};

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
    let mut text = transport::plan(&facts, &Wish::from(&parameters))?.explain();
    let ports = weft_engine::rdma_ports(weft_boot::machine::host_address(), parameters.partition.0);
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
        for word in ["to ranks of this node", "to ranks of other nodes", "not verbs", "rails", "messages"] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
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
