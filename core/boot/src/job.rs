//! The facts of a job as one of its processes knows them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_place::{CpuSet, LaneCore};
use weft_types::Result;

use crate::card::{self, Card, ProcessSet};
use crate::discover::own_command;
use crate::launcher::Launcher;
use crate::nodes::Nodes;
use crate::segment;

/// Who started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherKind {
    /// Nobody: a job of one.
    Singleton,
    /// Weft's own mpiexec.
    Weft,
    /// A launcher that speaks PMI-1 (Hydra, Intel's mpiexec, Flux).
    Pmi1,
    /// A launcher that speaks PMI-2 only (Slurm).
    Pmi2,
    /// A launcher that speaks PMIx (Slurm's `srun --mpi=pmix`, Open MPI's mpirun, prterun).
    Pmix,
}

/// Where the node's shared memory comes from.
#[derive(Debug)]
pub enum NodeSegment {
    /// Made by the launcher or the node's first rank, shared by all ranks of the node; length 0 until the first call
    /// of [`Job::node_segment`].
    Shared(OwnedFd),
    /// This process is alone on its node; made on demand.
    Private,
}

/// One process's knowledge of its job.
#[derive(Debug)]
pub struct Job {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Name of the job, the same in all its processes.
    pub job_id: String,
    /// MPI_APPNUM: which program of the command line this is; `None` when not started by a launcher.
    pub appnum: Option<i32>,
    /// MPI_UNIVERSE_SIZE, where the launcher tells it.
    pub universe_size: Option<i32>,
    /// The node of every rank, the same table at all processes.
    pub nodes: Arc<Nodes>,
    /// Ranks on this node, ascending; contains `rank`.
    pub local_ranks: Vec<u32>,
    /// Position of `rank` in `local_ranks`.
    pub local_index: u32,
    /// Cores this process and its node-mates may use together, at least 1. Fewer than `local_ranks.len()` means oversubscription:
    /// waiting ranks must sleep at once.
    pub cores: usize,
    /// CPUs this process is bound to by the launcher; `None` when it is not bound.
    pub binding: Option<CpuSet>,
    /// NUMA node of `binding`, when it lies in one.
    pub numa_node: Option<u32>,
    /// The RDMA device that the launcher chose for this process, where it did.
    pub rail: Option<String>,
    /// CPUs for the progress agent, which no rank of the node is bound to; `None`: it runs where the program does.
    pub agent: Option<CpuSet>,
    /// The core of each lane of this process, and then of further threads, all of them in `binding`; empty when nobody said how many
    /// threads it has.
    pub lanes: Vec<LaneCore>,
    /// CPUs of each of the local ranks, in their order, the same list at all of them; empty when none is restricted or nobody
    /// told. On a machine that is only described ([`crate::machine::hardware`]) these are CPUs of the description.
    pub local_cpus: Vec<CpuSet>,
    /// The node's shared memory; see [`Job::node_segment`].
    pub segment: NodeSegment,
    /// Who started this process.
    pub launcher: LauncherKind,
    /// Program and arguments as given to the launcher, or the process's own.
    pub command: Vec<String>,
    /// Number of processes asked for this program (MPI_INFO_ENV, key "maxprocs").
    pub maxprocs: Option<u32>,
    /// Working directory asked for (MPI_INFO_ENV, key "wdir").
    pub wdir: Option<String>,
    /// Initial error handler asked for: "mpi_errors_are_fatal", "mpi_errors_abort" or "mpi_errors_return", lower case
    /// (section 11.2.1).
    pub initial_errhandler: Option<String>,
    /// Memory allocation kinds asked for (section 11.4.3).
    pub memory_alloc_kinds: Option<String>,
    /// What else was asked for, by the keys of MPI_INFO_ENV: "soft", "host", "arch", "path", "file", "thread_level".
    pub asked: Vec<(String, String)>,
    /// Process sets the launcher made: of each program of the command line, and those that were named there.
    pub psets: Vec<ProcessSet>,
}

/// What was asked of a process when it was launched; see the fields of [`Job`] of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Number of processes asked for.
    pub maxprocs: Option<u32>,
    /// Working directory asked for.
    pub wdir: Option<String>,
    /// Initial error handler, lower case.
    pub initial_errhandler: Option<String>,
    /// Memory allocation kinds.
    pub memory_alloc_kinds: Option<String>,
    /// The other keys of MPI_INFO_ENV.
    pub asked: Vec<(String, String)>,
}

impl Requests {
    /// What can be known without joining the job, which is all of it under Weft's mpiexec: before initialisation (sections
    /// 10 and 11.2.1).
    pub fn before_joining() -> Requests {
        let card = std::env::var(card::VARIABLE).ok().and_then(|text| Card::parse(&text).ok());
        match card {
            None => Requests { command: own_command(), ..Requests::default() },
            Some(card) => Requests {
                command: card.command,
                maxprocs: Some(card.maxprocs),
                wdir: card.wdir,
                initial_errhandler: card.initial_errhandler.map(|name| name.to_ascii_lowercase()),
                memory_alloc_kinds: card.memory_alloc_kinds,
                asked: card.asked,
            },
        }
    }
}

impl Job {
    /// Finds out who this process is; to be called once, its answer kept until the process ends. Exchanges no message under
    /// Weft's mpiexec or alone; under PMI and PMIx it is collective over the job.
    ///
    /// Errors: class `MPI_ERR_OTHER` with what is wrong with the launcher's variables or channel and what to do.
    pub fn discover() -> Result<(Job, Box<dyn Launcher>)> {
        crate::discover::discover()
    }

    /// A number for this node: its lowest rank, which no other node has.
    pub fn node(&self) -> u32 {
        self.local_ranks.first().copied().unwrap_or(self.rank)
    }

    /// What was asked of this process when it was launched.
    pub fn requests(&self) -> Requests {
        Requests {
            command: self.command.clone(),
            maxprocs: self.maxprocs,
            wdir: self.wdir.clone(),
            initial_errhandler: self.initial_errhandler.clone(),
            memory_alloc_kinds: self.memory_alloc_kinds.clone(),
            asked: self.asked.clone(),
        }
    }

    /// Whether more ranks live on this node than cores may be used.
    pub fn is_oversubscribed(&self) -> bool {
        self.local_ranks.len() > self.cores
    }

    /// The node's shared memory, `bytes` long: the same memory in all ranks of the node, zero at first, gone when the last
    /// of them is. All ranks of the node must ask for the same length; calls may happen in any order and need no
    /// barrier between them.
    ///
    /// Errors: class `MPI_ERR_NO_MEM` with the call that failed and the remedy.
    pub fn node_segment(&mut self, bytes: u64) -> Result<File> {
        let memory = match &self.segment {
            NodeSegment::Shared(memory) => memory.try_clone(),
            NodeSegment::Private => return segment::create_memory(bytes).map(File::from),
        };
        let file = File::from(memory.map_err(|error| segment::refused("dup", bytes, &error))?);
        segment::set_length(&file, bytes)?;
        Ok(file)
    }
}
