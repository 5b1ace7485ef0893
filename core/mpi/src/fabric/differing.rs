//! A job whose nodes differ: what this process says of its node, and what it makes of what the others say.
//!
//! Each process opens what its node would choose, and the first of each node says the node's roads ([`weft_place::agreed`]) in the fence
//! before which all say how they are reached. Where nodes turn out to have chosen differently, all take the best road that every node has,
//! or, where some would give up a device for sockets by that, a road for each two kinds of nodes ([`weft_place::pairs`], [`super::mixed`]), and
//! say anew how they are reached; where none gave way, nothing more is exchanged.

use super::planned::{Between, nearest, planned};
use weft_boot::{Job, NodeKinds};
use weft_place::agreed::{self, Agreed, Kind, Road};
use weft_place::pairs::{self, Between as Leading};
use weft_place::transport::{Facts, Rdma, Way, Wish};
use weft_types::params::Parameters;
use weft_types::{Error, ErrorClass, Result};

/// The roads of this process's node, the chosen one first; those of a transport that was asked for by name are there even where the plan
/// would refuse it, as its library may be in an unusual place.
pub(super) fn roads(job: &Job, facts: &Facts, wish: &Wish) -> Vec<Road> {
    let mut roads = agreed::roads(facts, wish);
    if let Some(forced) = wish.forced.filter(|_| roads.is_empty()) {
        let of_name = |road: &Road| road.way() == forced && (forced != Way::Ofi || *road == Road::Libfabric);
        roads = Road::ALL.into_iter().filter(of_name).collect();
    }
    // The launcher may have chosen a device of another kind for this process.
    let device = facts.devices.iter().find(|device| Some(&device.name) == job.rail.as_ref());
    if let (Some(device), Some(first)) = (device, roads.first().copied()) {
        roads.sort_by_key(|road| !(road.way() == first.way() && road.takes(device)));
    }
    roads
}

/// What leads between nodes over this road.
pub(super) fn between(
    road: Road,
    roads: &[Road],
    job: &Job,
    facts: &Facts,
    parameters: &Parameters,
) -> Between {
    let wish = Wish::from(parameters);
    let route = agreed::over(road, facts, &wish).ok();
    let own = facts.devices.iter().find(|device| Some(&device.name) == job.rail.as_ref());
    let rail = match &route {
        _ if road.way() == Way::Softroce => None,
        _ if own.is_some_and(|device| road.takes(device)) => job.rail.clone(),
        Some(route) if road.way() == Way::Ofi => nearest(route, facts, job.local_index),
        Some(route) => route.rails.first().cloned(),
        None => None,
    };
    Between {
        way: road.way(),
        downgrade: None,
        planned: planned(route, parameters),
        rail,
        needs_device: wish.rdma == Rdma::Require,
        roads: roads.to_vec(),
        is_agreed: true,
        mixed: None,
        lacks: None,
    }
}

/// What a node says that has no road.
const NO_ROAD: &str = "-";

/// What the first process of a node says of it; the others say nothing. `host`: its name.
pub(super) fn said(job: &Job, roads: &[Road], host: &str) -> Option<String> {
    let word = if roads.is_empty() { NO_ROAD.to_owned() } else { agreed::word(roads) };
    (job.local_index == 0).then(|| NodeKinds::said(&word, host, job.rank))
}

/// What the nodes of the job take; `None` where all said the same.
///
/// # Errors
/// They have nothing in common, or this process cannot use what they have.
pub(super) fn agree(kinds: &NodeKinds, roads: &[Road], wish: &Wish, rank: u32) -> Result<Option<Leading>> {
    if !kinds.differ() {
        return Ok(None);
    }
    let failed = |why: String| Error::new(ErrorClass::OTHER, why);
    let kinds: Vec<Kind> =
        kinds.all().iter().map(|kind| Kind::read(&kind.word, kind.to_string(), kind.nodes)).collect();
    let between = pairs::between(&kinds, wish).map_err(failed)?;
    if let Leading::One(agreed) = &between
        && !roads.contains(&agreed.road)
    {
        let own = roads.iter().map(Road::to_string).collect::<Vec<_>>().join(" or ");
        return Err(failed(format!(
            "the nodes of this job take {} between them, and process {rank} can use {own} alone, unlike the first process of its node: \
             give all processes of a node the same environment (WEFT_TRANSPORT, WEFT_RDMA, LD_LIBRARY_PATH)",
            agreed.road
        )));
    }
    Ok(Some(between))
}

/// The error of a process whose node lacks what was asked for, for the reason `why`; of the others those are named that do not.
pub(super) fn lacking(kinds: &NodeKinds, wish: &Wish, rank: u32, why: &str) -> Error {
    let others =
        agree(kinds, &[], wish, rank).err().map_or_else(String::new, |error| format!(". {}", error.text()));
    Error::new(ErrorClass::OTHER, format!("{why}{others}"))
}

/// What is told of it, once.
pub(super) fn told(agreed: &Agreed) -> Option<String> {
    let why = agreed.why.as_ref()?;
    let remedy = if agreed.is_fall { " (WEFT_RDMA=require makes this an error)" } else { "" };
    Some(format!("the nodes of this job differ, and all take {} between them: {why}{remedy}", agreed.road))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(said: &[(&str, &str)]) -> NodeKinds {
        let mut kinds = NodeKinds::default();
        (0..).zip(said).for_each(|(rank, (word, host))| kinds.add(&NodeKinds::said(word, host, rank)));
        kinds
    }

    #[test]
    fn a_node_that_lacks_what_is_required_names_those_that_do_not() {
        let wish = Wish { rdma: Rdma::Require, ..Wish::default() };
        let lacking = |said: &[(&str, &str)]| lacking(&kinds(said), &wish, 1, "no device").text().to_owned();
        let told = lacking(&[("i", "a"), (NO_ROAD, "b")]);
        for part in
            ["no device. ", "a (rank 0): verbs over InfiniBand", "b (rank 1): nothing", "WEFT_RDMA=prefer"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(lacking(&[(NO_ROAD, "a"), (NO_ROAD, "b")]), "no device", "all are alike");
    }

    #[test]
    fn nodes_that_differ_take_what_all_have_and_say_so() {
        let own = [Road::InfiniBand, Road::Softroce];
        let agree = |said: &[(&str, &str)]| agree(&kinds(said), &own, &Wish::default(), 3);
        assert_eq!(agree(&[("iu", "a"), ("iu", "b")]).expect("alike"), None);
        let Ok(Some(Leading::One(agreed))) = agree(&[("iu", "a"), ("u", "b"), ("u", "c")]) else {
            panic!("one node with a device has nobody to reach by it");
        };
        assert!(agreed.is_changed && agreed.road == Road::Softroce);
        let told = told(&agreed).expect("something");
        for part in [
            "all take softroce",
            "b (rank 1), c (rank 2) cannot use verbs over InfiniBand, which a (rank 0) can",
            "WEFT_RDMA=require",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let Ok(Some(Leading::Pairs(pairs))) = agree(&[("iu", "a"), ("u", "b"), ("iu", "c")]) else {
            panic!("two nodes with a device reach each other by it");
        };
        assert_eq!(pairs.roads(), own);
        for part in ["among a (rank 0), c (rank 2)", "b (rank 1) cannot use verbs over InfiniBand"] {
            assert!(pairs.told().contains(part), "{part}: {}", pairs.told());
        }
        let unlike = agree(&[("ru", "a"), ("r", "b")]).expect_err("not this process");
        assert!(unlike.text().contains("process 3") && unlike.text().contains("verbs over RoCE"), "{unlike}");
        let nothing = agree(&[("i", "a"), ("u", "b")]).expect_err("nothing in common");
        assert!(
            nothing.text().contains("a (rank 0): verbs over InfiniBand")
                && nothing.text().contains("b (rank 1): softroce"),
            "{nothing}"
        );
    }
}
