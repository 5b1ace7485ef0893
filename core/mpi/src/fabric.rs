//! Which fabrics this process uses, and their opening.

mod alike;
mod cards;
mod differing;
mod mixed;
mod opener;
mod planned;

use cards::Cards;
pub(crate) use mixed::Texts;
use mixed::{ByLauncher, Mixed};
use opener::End;
pub(crate) use opener::Opener;
use planned::{Between, lacking, nearest, planned};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_boot::{Job, Launcher, LauncherKind, SharedLauncher, machine};
use weft_engine::{Fabric, Guide, Layers, NodeLocal, OfiCarrier, OfiWanted, RouteWish, Transports};
use weft_place::agreed::Road;
use weft_place::pairs::Between as Leading;
use weft_place::transport::{self, Facts, Rdma, Way, Wish};
use weft_types::params::{self, Chance, Choice, Parameters};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// How the processes of a job are reached.
#[derive(Clone, Debug)]
pub(crate) enum Ways {
    /// There are no others.
    Alone,
    /// All by shared memory.
    Shm,
    /// All by a fabric, also those of this node.
    Fabric(Between),
    /// Those of this node by shared memory, all others by a fabric.
    Both(Between),
}

/// What a machine has, as far as this process cares.
fn facts(job: &Job, parameters: &Parameters) -> Facts {
    let library_path = std::env::var("LD_LIBRARY_PATH").ok();
    Facts {
        cpus: job.binding.clone().unwrap_or_else(machine::allowed_cpus),
        eager_limit: u64::from(parameters.eager_limit),
        ..Facts::gather(&machine::LiveSystem, library_path.as_deref())
    }
}

impl Ways {
    /// In words: what leads where, why, and why not the others.
    pub(crate) fn explain(&self, job: &Job, parameters: &Parameters) -> String {
        let wish = Wish::from(parameters);
        // What is opened all the same although the plan would refuse it (a library in an unusual place) was asked for by name.
        let named = |way: Way| format!("{way} (WEFT_TRANSPORT asks for it)");
        let line = |route: std::result::Result<transport::Route, String>, way: Way| {
            route.map_or_else(|_| named(way), |route| route.line())
        };
        match self {
            Ways::Alone => "no transport is needed".to_owned(),
            Ways::Shm => {
                format!("all peers over {}", line(transport::mates(&facts(job, parameters), &wish), Way::Shm))
            }
            Ways::Fabric(between) | Ways::Both(between) if between.lacks.is_some() => {
                "no transport leads to other nodes".to_owned()
            }
            Ways::Fabric(between) => {
                let facts = facts(job, parameters);
                let route = match is_on_one_node(job) {
                    true => transport::mates(&facts, &wish),
                    false => transport::far(&facts, &wish),
                };
                format!("all peers over {}", line(route, between.way))
            }
            Ways::Both(between) => {
                let route = transport::far(&facts(job, parameters), &wish);
                format!("peers of this node over shm, all others over {}", line(route, between.way))
            }
        }
    }
}

/// Opens the transports that lead to the other processes of the job. Collective over the job where it needs a network.
///
/// # Errors
/// What could not be had, why, and what to do.
pub(crate) fn open(
    job: &mut Job,
    launcher: &SharedLauncher,
    parameters: &Parameters,
    ways: &Ways,
    oversubscribed: bool,
) -> Result<(Transports, Option<Opener>)> {
    let me = PeerId(job.rank);
    let between = match ways {
        Ways::Alone => return Ok((Transports::alone(), None)),
        Ways::Shm => {
            let layers = layers(job, parameters, ways)?;
            let node = node_local(job, parameters, oversubscribed)?;
            let transports = Transports::node_local(node)?;
            transports
                .agree(alike::word(&layers))
                .map_err(|first| alike::unlike(&layers, first, job.rank))?;
            return Ok((transports.wrapped(layers, me)?, None));
        }
        Ways::Fabric(between) | Ways::Both(between) => between,
    };
    let (fabric, opener, between) = fabric(job, launcher, parameters, between)?;
    // What all nodes take need not be what this one chose.
    let ways = &leading(job, &Wish::from(parameters), between);
    let layers = layers(job, parameters, ways)?;
    let node = match ways {
        Ways::Both(_) => Some(node_local(job, parameters, oversubscribed)?),
        // Who alone tells of a process that was never talked to.
        _ if job.launcher == LauncherKind::Weft => {
            // Nobody but the launcher rings there, who fences: senders' barriers are for nothing.
            Some(NodeLocal { single_copy: false, ..node_local(job, parameters, true)? })
        }
        _ => None,
    };
    let transports = match (ways, node) {
        (Ways::Both(_), Some(node)) => Transports::both(node, fabric)?,
        (_, Some(node)) => Transports::forced(node, fabric)?,
        (_, None) => Transports::over(fabric),
    };
    transports.agree(alike::word(&layers)).map_err(|first| alike::unlike(&layers, first, job.rank))?;
    Ok((transports.wrapped(layers, me)?, Some(opener)))
}

/// The layers that go round what carries messages; what of it is done on purpose is told.
///
/// # Errors
/// Faults are asked for that nothing here can make.
fn layers(job: &Job, parameters: &Parameters, ways: &Ways) -> Result<Layers> {
    if matches!(ways, Ways::Alone) {
        return Ok(Layers::default());
    }
    let by_datagrams = is_by_datagrams(ways);
    let mut faults = parameters.faults;
    if let Some(plan) = &mut faults {
        if !by_datagrams && plan.double + plan.overtake > 0.0 {
            return Err(Error::new(
                ErrorClass::OTHER,
                "WEFT_FAULTS: double and overtake happen to datagrams, which only WEFT_TRANSPORT=softroce sends itself; other \
                 transports bring packets once and in order (delay and loss act on them)",
            ));
        }
        if job.rank == 0 {
            eprintln!("weft: faults happen on purpose (WEFT_FAULTS={})", plan.text());
        }
        if by_datagrams {
            plan.loss = Chance { of: 0.0, ..plan.loss };
        }
    }
    Ok(Layers { faults, latency: parameters.latency, trace: parameters.trace_packets.clone() })
}

/// Whether a device emulated here sends datagrams, which can be lost, doubled and overtaken.
fn is_by_datagrams(ways: &Ways) -> bool {
    let (Ways::Fabric(between) | Ways::Both(between)) = ways else { return false };
    match &between.mixed {
        Some(mixed) => mixed.is_by_datagrams(),
        None => between.way == Way::Softroce,
    }
}

fn node_local(job: &mut Job, parameters: &Parameters, oversubscribed: bool) -> Result<NodeLocal> {
    let mates = job.local_ranks.len() as u32;
    Ok(NodeLocal {
        segment: job.node_segment(Transports::segment_bytes(mates))?,
        local_index: job.local_index,
        peers: job.local_ranks.iter().map(|&rank| PeerId(rank)).collect(),
        single_copy: parameters.single_copy != Choice::Off,
        oversubscribed,
    })
}

fn is_on_one_node(job: &Job) -> bool {
    job.local_ranks.len() == job.size as usize
}

/// The ways of this process. What leads between nodes is the same at all processes of a job whose nodes are alike.
///
/// # Errors
/// What was asked for cannot be had, with the reasons and the remedy.
pub(crate) fn choose(job: &Job, parameters: &Parameters) -> Result<Ways> {
    let wish = Wish::from(parameters);
    match wish.forced {
        _ if job.size == 1 => return Ok(Ways::Alone),
        None | Some(Way::Shm) if is_on_one_node(job) => return Ok(Ways::Shm),
        Some(Way::Shm) => {
            return Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "WEFT_TRANSPORT=shm, but of the {} processes of the job only {} are on this node; unset it, or start all on one node",
                    job.size,
                    job.local_ranks.len()
                ),
            ));
        }
        _ => {}
    }
    let needs_device = wish.rdma == Rdma::Require;
    let roads = |facts: &Facts| match is_on_one_node(job) {
        true => Vec::new(),
        false => differing::roads(job, facts, &wish),
    };
    let (is_agreed, mixed, lacks) = (false, None, None);
    let between = match wish.forced {
        // What cannot be had is told best by whoever tries to open it.
        Some(way @ Way::Softroce) if wish.rdma == Rdma::Auto => {
            // It counts on no device, so the machine need not be looked at.
            let roads = roads(&Facts::default());
            Between {
                way,
                downgrade: None,
                planned: Vec::new(),
                rail: None,
                needs_device,
                roads,
                is_agreed,
                mixed,
                lacks,
            }
        }
        Some(way) if wish.rdma == Rdma::Auto => {
            let facts = facts(job, parameters);
            let route = transport::far(&facts, &wish).ok();
            let rail = route.as_ref().and_then(|route| nearest(route, &facts, job.local_index));
            let (planned, roads) = (planned(route, parameters), roads(&facts));
            Between { way, downgrade: None, planned, rail, needs_device, roads, is_agreed, mixed, lacks }
        }
        _ => {
            let facts = facts(job, parameters);
            let route = match transport::far(&facts, &wish) {
                Ok(route) => route,
                Err(why) if is_on_one_node(job) => return Err(Error::new(ErrorClass::OTHER, why)),
                Err(why) => {
                    let why = format!("host {} (rank {}): {why}", machine::host_name(), job.rank);
                    return Ok(leading(job, &wish, Between::nothing(why)));
                }
            };
            let (way, downgrade) = (route.way, route.downgrade.clone());
            let rail = nearest(&route, &facts, job.local_index);
            let (planned, roads) = (planned(Some(route), parameters), roads(&facts));
            Between { way, downgrade, planned, rail, needs_device, roads, is_agreed, mixed, lacks }
        }
    };
    Ok(leading(job, &wish, between))
}

/// The ways of this process, where `between` leads from node to node.
fn leading(job: &Job, wish: &Wish, between: Between) -> Ways {
    // Weft's agents tell of deaths through the memory of the node, also a process that is alone there.
    let has_node = job.local_ranks.len() > 1 || job.launcher == LauncherKind::Weft;
    // What was asked for all peers and fell to something else binds those of this node to nothing.
    let is_forced = wish.forced == Some(between.way) && between.mixed.is_none();
    if !is_forced && has_node { Ways::Both(between) } else { Ways::Fabric(between) }
}

/// Opens the fabric and tells the others how this process is reached; where nodes differ, the one that all of them have, or one toward each
/// kind of nodes. Also returns what leads between nodes then.
fn fabric(
    job: &Job,
    launcher: &SharedLauncher,
    parameters: &Parameters,
    between: &Between,
) -> Result<(Fabric, Opener, Between)> {
    if job.rank == 0
        && let Some(downgrade) = &between.downgrade
    {
        eprintln!("weft: {downgrade}");
    }
    let wish = Wish::from(parameters);
    let over = |road: Road, roads: &[Road]| {
        differing::between(road, roads, job, &facts(job, parameters), parameters)
    };
    let mut between = between.clone();
    if let Some(why) = &between.lacks {
        let said = differing::said(job, &[], &machine::host_name());
        let kinds = launcher.clone().fence_of_nodes(&job.nodes, job.rank, said.as_deref())?;
        return Err(differing::lacking(&kinds, &wish, job.rank, why));
    }
    let mut cards = Cards {
        launcher: launcher.clone(),
        way: between.way,
        rank: job.rank,
        latency: parameters.latency,
        round: Arc::default(),
    };
    let mut opened = loop {
        match (open_one(job, parameters, &between, &cards), &between.roads[..]) {
            // What should be used may be replaced, which is said, by the next best of this node.
            (Err(error), [first, rest @ ..]) if wish.rdma == Rdma::Prefer && !rest.is_empty() => {
                if job.local_index == 0 {
                    let why = error.text();
                    eprintln!(
                        "weft: host {} (rank {}): {first} cannot be had: {why}",
                        machine::host_name(),
                        job.rank
                    );
                }
                between = over(rest[0], rest);
                cards.way = between.way;
            }
            (opened, _) => break opened?,
        }
    };
    let mut launcher = launcher.clone();
    opened.tell(&mut launcher, &cards)?;
    if between.roads.is_empty() {
        launcher.fence()?;
    } else {
        let said = differing::said(job, &between.roads, &machine::host_name());
        let kinds = launcher.fence_of_nodes(&job.nodes, job.rank, said.as_deref())?;
        let agreed = differing::agree(&kinds, &between.roads, &wish, job.rank)?;
        let (told, is_fall) = match &agreed {
            Some(Leading::One(agreed)) => (differing::told(agreed), agreed.is_fall),
            Some(Leading::Pairs(pairs)) => (Some(pairs.told()), pairs.is_fall()),
            None => (None, false),
        };
        if (parameters.verbose > 0 || is_fall)
            && job.rank == 0
            && let Some(told) = told
        {
            eprintln!("weft: {told}");
        }
        match agreed {
            Some(Leading::One(agreed)) if agreed.is_changed => {
                cards.round.store(1, Ordering::Relaxed);
                if between.roads.first() != Some(&agreed.road) {
                    between = over(agreed.road, &between.roads);
                    cards.way = between.way;
                    opened = open_one(job, parameters, &between, &cards)?;
                }
                opened.tell(&mut launcher, &cards)?;
                launcher.fence()?;
            }
            Some(Leading::Pairs(pairs)) => {
                let mixed = Mixed::new(pairs, &between.roads, job.rank)?;
                return several(job, launcher, parameters, (between, cards, opened), mixed);
            }
            _ => {}
        }
    }
    if cards.latency.is_some() {
        cards.text(PeerId((job.rank + 1) % job.size))?;
    }
    let opener = Opener { ends: vec![opened.end], guide: None };
    Ok((opened.fabric, opener, between))
}

/// Opens what this process needs toward each kind of nodes beside what is open, and tells the others how it is reached by each.
fn several(
    job: &Job,
    mut launcher: SharedLauncher,
    parameters: &Parameters,
    (between, cards, opened): (Between, Cards, Opened),
    mixed: Mixed,
) -> Result<(Fabric, Opener, Between)> {
    let chosen = between.roads.first().copied();
    let mut kept = Some((cards, opened, between.clone()));
    let (mut ways, mut ends, mut directories, mut first) = (Vec::new(), Vec::new(), Vec::new(), None);
    for &road in &mixed.roads {
        let letter = u32::from(road.letter());
        let (cards, opened, between) = match kept.take_if(|_| chosen == Some(road)) {
            Some(kept) => {
                kept.0.round.store(letter, Ordering::Relaxed);
                kept
            }
            None => {
                let between =
                    differing::between(road, &between.roads, job, &facts(job, parameters), parameters);
                let cards = Cards {
                    launcher: launcher.clone(),
                    way: between.way,
                    rank: job.rank,
                    latency: parameters.latency,
                    round: Arc::new(letter.into()),
                };
                let opened = open_one(job, parameters, &between, &cards)?;
                (cards, opened, between)
            }
        };
        opened.tell(&mut launcher, &cards)?;
        directories.push(cards);
        ways.push(opened.fabric);
        ends.push((Some(road), opened.end.1));
        first.get_or_insert(between);
    }
    // What was opened and leads nowhere closes here.
    drop(kept);
    mixed.tell(&mut launcher, job.rank)?;
    launcher.fence()?;
    let mut guide = ByLauncher { mixed: mixed.clone(), launcher };
    let next = PeerId((job.rank + 1) % job.size);
    // On this very node there may be no road.
    if parameters.latency.is_some()
        && let Ok(lead) = guide.find(next)
    {
        directories[lead.way].text(next)?;
    }
    let fabric = Fabric::several(ways, Box::new(guide.clone()), mixed.carrier());
    let between = Between { mixed: Some(mixed), ..first.unwrap_or(between) };
    Ok((fabric, Opener { ends, guide: Some(guide) }, between))
}

/// An open end on a fabric.
struct Opened {
    fabric: Fabric,
    /// How others find it.
    card: String,
    /// What opens more of them.
    end: (Option<Road>, End),
}

impl Opened {
    /// Leaves with the launcher how this process is reached.
    fn tell(&self, launcher: &mut SharedLauncher, cards: &Cards) -> Result<()> {
        let alike = alike::suffix(&cards.latency);
        let key = cards::key(cards.rank, cards.round.load(Ordering::Relaxed));
        launcher.put(&key, &format!("{}:{}{alike}:{}", cards.way, Fabric::version(), self.card))
    }
}

/// Opens what leads `between` nodes, and says what became of it.
fn open_one(job: &Job, parameters: &Parameters, between: &Between, cards: &Cards) -> Result<Opened> {
    let directory = Box::new(cards.clone());
    let on_one_node = is_on_one_node(job);
    let mut end = End {
        me: PeerId(job.rank),
        way: between.way,
        address: if on_one_node { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { machine::host_address() },
        on_one_node,
        rail: match between.is_agreed {
            true => between.rail.clone(),
            false => job.rail.clone().or_else(|| between.rail.clone()),
        },
        rails: parameters.rails,
        connections: parameters.connections,
        rings: parameters.rings,
        frames: parameters.frames,
        link_mtu: parameters.link_mtu,
        routes: RouteWish {
            ask: parameters.routes,
            service_level: parameters.service_level.0,
            traffic_class: parameters.traffic_class.0,
        },
        partition: parameters.partition.0,
        faults: parameters.faults,
        provider: match &parameters.ofi_provider {
            params::Provider::Auto => None,
            params::Provider::Named(name) => Some(name.clone()),
        },
        carrier: match parameters.ofi_tags {
            params::Choice::Auto => None,
            params::Choice::On => Some(OfiCarrier::Tags),
            params::Choice::Off => Some(OfiCarrier::Messages),
        },
    };
    let (fabric, card) = match between.way {
        Way::Ofi => {
            let wanted = OfiWanted {
                processes: Some(job.size),
                job: Some(job.job_id.clone()),
                offload: match parameters.offload {
                    params::Choice::Auto => None,
                    params::Choice::On => Some(true),
                    params::Choice::Off => Some(false),
                },
                ..end.wanted()
            };
            Fabric::ofi(end.me, &wanted, directory)?
        }
        _ => end.open_rdma(directory)?,
    };
    end.provider = fabric.provider().or(end.provider);
    if between.needs_device && !fabric.drives_a_device() {
        let chosen = fabric.why(parameters.keep_registered).unwrap_or_default();
        let chosen = chosen.lines().next().unwrap_or_default();
        return Err(Error::new(
            ErrorClass::OTHER,
            format!(
                "WEFT_RDMA=require, but what could be opened is no RDMA device: {chosen}. WEFT_RDMA=prefer allows it \
                 (weft-info --explain transports)"
            ),
        ));
    }
    let why = fabric.why(parameters.keep_registered).unwrap_or_default();
    let mut why = why.lines();
    let chosen = why.next().unwrap_or_default();
    if job.rank == 0 {
        let rails = fabric.rails().len();
        if let Some(fallen) = between.fallen(fabric.drives_a_device(), chosen) {
            eprintln!("weft: {fallen}");
        }
        if rails < parameters.rails as usize {
            eprintln!("weft: {}", lacking(parameters.rails, between.way, &fabric.rails()));
        }
    }
    if parameters.verbose > u32::from(job.rank != 0) {
        let protocols = fabric.protocols(
            parameters.rendezvous.into(),
            parameters.eager_limit,
            parameters.keep_registered,
        );
        eprintln!("weft: {chosen}; messages {}", protocols.join("; "));
        // Of the rest, which may be long, whoever asks for more hears.
        match parameters.verbose {
            0 | 1 => fabric
                .registered_memory(parameters.keep_registered)
                .iter()
                .for_each(|line| eprintln!("weft:   {line}")),
            _ => why.for_each(|line| eprintln!("weft: {line}")),
        }
    }
    Ok(Opened { fabric, card, end: (None, end) })
}
