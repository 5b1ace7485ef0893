//! What leads between each two kinds of nodes of a job: a pure function of the words that its nodes say ([`crate::agreed`]).
//!
//! As long as one good road joins all, it is the only one ([`agree`]). Where that would make nodes with devices give them up for those that
//! have none, each two kinds of nodes take the first road that both have, and nodes of one kind their own choice: a node without InfiniBand
//! then keeps nobody else from it.
//!
//! ```text
//! kinds      iu (3 nodes)   u (1 node)          what a process opens      of iu: i and u, of u: u
//! iu         i              u                   where memory is reached   iu to iu by i; between iu and u, messages alone
//! u          u              -
//! ```
//!
//! A node of one kind has devices that a node of another lacks; that two nodes have the same ones in another order makes no difference, so a
//! kind is known by the *set* of its roads ([`Kind::name`]).
//!
//! *Registered memory* has one key, that of one device, so each process registers with the first of its transports alone:
//! [`Pairs::reaches_memory`] says for which pairs both ends mean the same one. To all others messages are copied, and operations on windows
//! are executed by the target.

use std::fmt::Write as _;

use crate::agreed::{self, Agreed, Kind, Road, agree};
use crate::transport::Wish;

/// What leads between two kinds of nodes, or between those of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The kinds, by their numbers; the lower one first.
    pub kinds: (usize, usize),
    /// The road.
    pub road: Road,
    /// Whether a device of one side gives way to the kernel's sockets: to be said unasked.
    pub is_fall: bool,
}

/// The roads of a job in which one does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    kinds: Vec<Kind>,
    pairs: Vec<Pair>,
}

/// What leads between the nodes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Between {
    /// One road between all.
    One(Agreed),
    /// A road for each two kinds.
    Pairs(Pairs),
}

/// Decides for all kinds of nodes of a job, whatever their order is.
///
/// # Errors
/// Two kinds have no road in common: which nodes have which, and the remedy.
pub fn between(kinds: &[Kind], wish: &Wish) -> Result<Between, String> {
    let one = agree(kinds, wish);
    let is_good = |agreed: &Agreed| agreed.why.is_none() || agreed.road.is_hardware();
    if let Ok(agreed) = &one
        && is_good(agreed)
    {
        return one.map(Between::One);
    }
    let pairs = Pairs::of(kinds, wish)?;
    match pairs.pairs.iter().all(|pair| pair.road == pairs.pairs[0].road) {
        true => one.map(Between::One),
        false => Ok(Between::Pairs(pairs)),
    }
}

impl Kind {
    /// By what it is known: its roads, in an order that is the same everywhere.
    pub fn name(&self) -> String {
        name(&self.roads)
    }
}

/// The name of the kind of a node that has these roads.
pub fn name(roads: &[Road]) -> String {
    let all: Vec<Road> = Road::ALL.into_iter().filter(|road| roads.contains(road)).collect();
    agreed::word(&all)
}

impl Pairs {
    fn of(said: &[Kind], wish: &Wish) -> Result<Pairs, String> {
        let mut said: Vec<&Kind> = said.iter().collect();
        said.sort_by(|a, b| (a.name(), &a.roads, &a.nodes).cmp(&(b.name(), &b.roads, &b.nodes)));
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in said {
            match kinds.last_mut().filter(|last| last.name() == kind.name()) {
                // Where the choices of such nodes differ, the order of all roads decides.
                Some(last) => {
                    if last.roads.first() != kind.roads.first() {
                        last.roads.sort();
                    }
                    last.nodes = format!("{}, {}", last.nodes, kind.nodes);
                    last.count += kind.count;
                }
                None => kinds.push(kind.clone()),
            }
        }
        let mut pairs = Vec::new();
        for (a, one) in kinds.iter().enumerate() {
            for (b, other) in kinds.iter().enumerate().skip(a) {
                if a == b && one.count < 2 {
                    continue;
                }
                // Two kinds, or two nodes of one: what leads between them is what leads between all nodes of a job of these.
                let agreed = agree(&[one.clone(), other.clone()], wish)?;
                pairs.push(Pair { kinds: (a, b), road: agreed.road, is_fall: agreed.is_fall });
            }
        }
        Ok(Pairs { kinds, pairs })
    }

    /// The kinds of nodes, by number.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The number of the kind with this name.
    pub fn kind(&self, name: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.name() == name)
    }

    /// What leads between nodes of these kinds; `None` where both are the kind of one node.
    pub fn road(&self, a: usize, b: usize) -> Option<Road> {
        let kinds = (a.min(b), a.max(b));
        self.pairs.iter().find(|pair| pair.kinds == kinds).map(|pair| pair.road)
    }

    /// The roads that a process of a kind opens. The first carries its registered memory: that to its own kind, of one node the best.
    pub fn opened(&self, kind: usize) -> Vec<Road> {
        let mut roads: Vec<Road> = (0..self.kinds.len()).filter_map(|other| self.road(kind, other)).collect();
        roads.sort();
        roads.dedup();
        if let Some(own) = self.road(kind, kind) {
            roads.sort_by_key(|road| *road != own);
        }
        roads
    }

    /// Whether a process of one kind reads and writes registered memory of one of another by the device: both register with that of the road
    /// between them.
    pub fn reaches_memory(&self, a: usize, b: usize) -> bool {
        let first = |kind| self.opened(kind).first().copied();
        self.road(a, b).is_some_and(|road| first(a) == Some(road) && first(b) == Some(road))
    }

    /// All roads of the job.
    pub fn roads(&self) -> Vec<Road> {
        let mut roads: Vec<Road> = self.pairs.iter().map(|pair| pair.road).collect();
        roads.sort();
        roads.dedup();
        roads
    }

    /// Whether devices gave way to the kernel's sockets somewhere: to be said unasked.
    pub fn is_fall(&self) -> bool {
        self.pairs.iter().any(|pair| pair.is_fall)
    }

    /// What is told of it, in a line: which nodes each road joins, and why not a better one.
    pub fn told(&self) -> String {
        let mut text = "the nodes of this job differ".to_owned();
        for (place, Pair { kinds: (a, b), road, is_fall }) in self.pairs.iter().enumerate() {
            let (one, other) = (&self.kinds[*a], &self.kinds[*b]);
            let between = match a == b {
                true => format!("among {}", one.nodes),
                false => format!("between {} and {}", one.nodes, other.nodes),
            };
            let _ = write!(text, "{} {road} leads {between}", if place == 0 { ":" } else { ";" });
            let lacks = |have: &Kind, lack: &Kind| {
                let given_up = have.roads.first().filter(|road| !lack.roads.contains(road))?;
                Some(format!("{} cannot use {given_up}", lack.nodes))
            };
            let why: Vec<String> = [(one, other), (other, one)]
                .into_iter()
                .filter_map(|(have, lack)| lacks(have, lack))
                .collect();
            if !why.is_empty() {
                let remedy = if *is_fall { "; WEFT_RDMA=require makes this an error" } else { "" };
                let _ = write!(text, " ({}{remedy})", why.join(", "));
            }
        }
        text
    }
}

#[cfg(test)]
#[path = "pairs_tests.rs"]
mod tests;
