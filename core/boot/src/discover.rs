//! Which source speaks for this process: Weft's card, PMI, PMIx, or nobody.

use std::env;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_types::{Error, ErrorClass, Result};

use crate::card::{Card, NODE_FD_VARIABLE, VARIABLE};
use crate::foreign;
use crate::job::{Job, LauncherKind, NodeSegment};
use crate::launcher::{Alone, Launcher};
use crate::machine;
use crate::nodes::Nodes;
use crate::pmi::channel::LauncherSocket;
use crate::pmi::client1;
use crate::pmix;
use crate::segment::claim_place;

pub(crate) fn discover() -> Result<(Job, Box<dyn Launcher>)> {
    if let Ok(text) = env::var(VARIABLE) {
        return from_card(Card::parse(&text)?);
    }
    if let Some(socket) = launcher_socket()? {
        return foreign::join(socket);
    }
    if pmix::is_here() {
        only_once()?;
        return match pmix::claim_place() {
            Some(place) => pmix::join(place),
            // A rank started this program as its child, with the environment of the rank: it is no rank itself.
            None => Ok(alone()),
        };
    }
    refuse_silent_singletons()?;
    Ok(alone())
}

/// A process nobody launched, or one that only inherited a rank's environment.
fn alone() -> (Job, Box<dyn Launcher>) {
    let job = Job {
        rank: 0,
        size: 1,
        job_id: format!("singleton-{}", std::process::id()),
        appnum: None,
        universe_size: None,
        nodes: Arc::new(Nodes::one(1)),
        local_ranks: vec![0],
        local_index: 0,
        cores: machine::usable(&machine::allowed_cpus()),
        binding: None,
        numa_node: None,
        rail: None,
        agent: None,
        lanes: Vec::new(),
        local_cpus: Vec::new(),
        segment: NodeSegment::Private,
        launcher: LauncherKind::Singleton,
        command: own_command(),
        maxprocs: None,
        wdir: None,
        initial_errhandler: None,
        memory_alloc_kinds: None,
        asked: Vec::new(),
        psets: Vec::new(),
    };
    (job, Box::new(Alone::default()))
}

fn from_card(card: Card) -> Result<(Job, Box<dyn Launcher>)> {
    let local_index = card.local_ranks.iter().position(|&rank| rank == card.rank).unwrap_or_default() as u32;
    let segment = inherited_segment(card.segment_inode)?;
    only_once()?;
    let ours = claim_place(&segment, local_index).map_err(|error| unusable_segment(&error.to_string()))?;
    if !ours {
        // A rank started this program as its child, with the environment of the rank: it is no rank itself.
        return Ok(alone());
    }
    let Some(socket) = launcher_socket()? else {
        return Err(Error::new(
            ErrorClass::OTHER,
            format!("{VARIABLE} is set but PMI_FD is not: unset both, or start the program with mpiexec"),
        ));
    };
    let launcher = client1::Client::meet_weft(socket, &card.job_id)?;
    let job = Job {
        rank: card.rank,
        size: card.size,
        job_id: card.job_id,
        appnum: Some(card.appnum),
        universe_size: card.universe_size,
        nodes: Arc::new(card.nodes),
        local_ranks: card.local_ranks,
        local_index,
        cores: card.cores,
        binding: card.binding,
        numa_node: card.numa_node,
        rail: card.rail,
        agent: card.agent,
        lanes: card.lanes,
        local_cpus: card.local_cpus,
        segment: NodeSegment::Shared(segment.into()),
        launcher: LauncherKind::Weft,
        command: card.command,
        maxprocs: Some(card.maxprocs),
        wdir: card.wdir,
        initial_errhandler: card.initial_errhandler.map(|name| name.to_ascii_lowercase()),
        memory_alloc_kinds: card.memory_alloc_kinds,
        asked: card.asked,
        psets: card.psets,
    };
    Ok((job, Box::new(launcher)))
}

/// The second description of this process would look like another process's.
fn only_once() -> Result<()> {
    static DISCOVERED: AtomicBool = AtomicBool::new(false);
    match DISCOVERED.swap(true, Ordering::Relaxed) {
        true => Err(Error::internal("a process asked a second time who it is")),
        false => Ok(()),
    }
}

/// Opens the memory the launcher left in the descriptor it named. Going through /proc gives a description of our own, closed
/// at exec, without trusting the number.
fn inherited_segment(inode: u64) -> Result<File> {
    let number = env::var(NODE_FD_VARIABLE).unwrap_or_default();
    let path = format!("/proc/self/fd/{number}");
    // Looked at before it is opened: opening somebody else's pipe could wait for ever.
    let unusable = |error: std::io::Error| unusable_segment(&format!("{path}: {error}"));
    if std::fs::metadata(&path).map_err(unusable)?.ino() != inode {
        return Err(unusable_segment(&format!("{path} is something else now")));
    }
    File::options().read(true).write(true).open(&path).map_err(unusable)
}

fn unusable_segment(why: &str) -> Error {
    Error::new(
        ErrorClass::OTHER,
        format!(
            "the shared memory that mpiexec made for this node cannot be opened ({NODE_FD_VARIABLE}): {why}. Either something \
             between mpiexec and this program closed its descriptors (sudo, ssh, Python's subprocess without \
             close_fds=False), or a rank started this program as an independent one: then unset {VARIABLE}"
        ),
    )
}

/// The socket named by `PMI_FD`; `None` when there is none.
fn launcher_socket() -> Result<Option<LauncherSocket>> {
    match env::var("PMI_FD") {
        Ok(text) => match text.trim().parse::<u16>() {
            Ok(number) => Ok(Some(LauncherSocket::new(i32::from(number)))),
            Err(_) => Err(Error::new(
                ErrorClass::OTHER,
                format!(
                    "PMI_FD={text:?}, set by the launcher, is no descriptor number; unset it to run without a launcher"
                ),
            )),
        },
        Err(_) if env::var_os("PMI_PORT").is_some() => Err(Error::new(
            ErrorClass::OTHER,
            "the launcher wants to be reached through a port (PMI_PORT), which Weft does not do; start the program with Weft's \
             mpiexec, or let Hydra use PMI_FD (mpiexec.hydra without -pmi-port)",
        )),
        Err(_) => Ok(None),
    }
}

/// A launcher Weft cannot talk to would start N jobs of one process each, and every one would compute the same: refuse.
fn refuse_silent_singletons() -> Result<()> {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    if number("SLURM_STEP_NUM_TASKS").is_some_and(|tasks| tasks > 1) {
        return Err(Error::new(
            ErrorClass::OTHER,
            "srun started several tasks of this program without a way to find each other; start it with srun --mpi=pmi2 or --mpi=pmix. To run \
             each alone, unset SLURM_STEP_NUM_TASKS",
        ));
    }
    Ok(())
}

pub(crate) fn own_command() -> Vec<String> {
    env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}
