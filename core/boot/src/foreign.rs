//! Joining a job that another launcher started: over PMI-1 or PMI-2 here, over PMIx in [`crate::pmix`].
//!
//! Such launchers tell rank, size and (mostly) the node of each rank, but make no shared memory. So each process puts a
//! greeting into the key-value space (its host, its CPUs, and for a possible leader a memfd), one fence later reads those of
//! its node-mates, and opens the leader's memory.

use std::env;
use std::sync::Arc;

use weft_place::Topology;
use weft_types::{Error, ErrorClass, Result};

use crate::discover::own_command;
use crate::job::{Job, LauncherKind, NodeSegment};
use crate::launcher::Launcher;
use crate::machine::{LiveSystem, allowed_cpus, usable};
use crate::nodes::Nodes;
use crate::pmi::channel::LauncherSocket;
use crate::pmi::{client1, client2};
use crate::share;

/// What a launcher said before any exchange between processes.
pub(crate) struct Said {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) job_id: String,
    pub(crate) appnum: Option<i32>,
    pub(crate) universe_size: Option<i32>,
    /// The node of each rank.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) kind: LauncherKind,
}

/// Joins through `channel`, by PMI-1 or, where the server wants it, PMI-2. Collective over the job.
pub(crate) fn join(channel: LauncherSocket) -> Result<(Job, Box<dyn Launcher>)> {
    let number = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| env::var(name).ok());
        texts.filter_map(|text| text.trim().parse::<u32>().ok()).next()
    };
    let rank = number(&["PMI_RANK", "PMI_ID", "SLURM_PROCID"]);
    let size = number(&["PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]);
    join_as(channel, rank, size, &env::var("PMI_JOBID").unwrap_or_default())
}

fn join_as(
    channel: LauncherSocket,
    rank: Option<u32>,
    size: Option<u32>,
    job: &str,
) -> Result<(Job, Box<dyn Launcher>)> {
    match client1::Client::greet(channel)? {
        Some((client, facts)) => {
            let (Some(rank), Some(size)) = (rank, size) else {
                return Err(Error::new(
                    ErrorClass::OTHER,
                    "the launcher set PMI_FD but neither PMI_RANK nor PMI_SIZE; unset PMI_FD to run without a launcher",
                ));
            };
            let said = Said {
                rank,
                size,
                job_id: facts.kvs,
                appnum: facts.appnum,
                universe_size: facts.universe_size,
                nodes: facts.mapping.and_then(|text| Nodes::parse(&text, size)),
                kind: LauncherKind::Pmi1,
            };
            meet(said, Box::new(client))
        }
        None => {
            let (client, facts) = client2::Client::greet(channel, rank.unwrap_or_default(), job)?;
            let said = Said {
                rank: facts.rank,
                size: facts.size,
                job_id: facts.job,
                appnum: facts.appnum,
                universe_size: facts.universe_size,
                nodes: facts.mapping.and_then(|text| Nodes::parse(&text, facts.size)),
                kind: LauncherKind::Pmi2,
            };
            meet(said, Box::new(client))
        }
    }
}

/// Meets the others of the job, after which everything of it is known; collective over it.
pub(crate) fn meet(said: Said, mut launcher: Box<dyn Launcher>) -> Result<(Job, Box<dyn Launcher>)> {
    if said.rank >= said.size {
        return Err(Error::new(
            ErrorClass::OTHER,
            format!("the launcher says rank {} of {}: ranks run from 0", said.rank, said.size),
        ));
    }
    let mates = match said.size {
        1 => share::Mates {
            nodes: Nodes::one(1),
            ranks: vec![0],
            cpus: allowed_cpus(),
            each: vec![allowed_cpus()],
            segment: NodeSegment::Private,
        },
        size => share::meet_mates(said.rank, size, &said.job_id, said.nodes, launcher.as_mut())?,
    };
    let own = allowed_cpus();
    let bound = own.len() < mates.cpus.len();
    let job = Job {
        rank: said.rank,
        size: said.size,
        job_id: said.job_id,
        appnum: said.appnum,
        universe_size: said.universe_size,
        nodes: Arc::new(mates.nodes),
        local_index: mates.ranks.iter().position(|&rank| rank == said.rank).unwrap_or_default() as u32,
        local_ranks: mates.ranks,
        cores: usable(&mates.cpus),
        numa_node: Topology::read(&LiveSystem, &own).numa_node(&own).filter(|_| bound),
        binding: Some(own).filter(|_| bound),
        rail: None,
        agent: None,
        lanes: Vec::new(),
        // Where all may go everywhere there is nothing to tell.
        local_cpus: match mates.each.iter().all(|cpus| *cpus == mates.cpus) {
            true => Vec::new(),
            false => mates.each,
        },
        segment: mates.segment,
        launcher: said.kind,
        command: own_command(),
        maxprocs: None,
        wdir: None,
        initial_errhandler: None,
        memory_alloc_kinds: None,
        asked: Vec::new(),
        psets: Vec::new(),
    };
    Ok((job, launcher))
}

#[cfg(test)]
#[path = "foreign_tests.rs"]
mod tests;
