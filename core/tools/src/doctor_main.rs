//! `weft-doctor`: says what on this machine would make jobs slow or fail, and what to do about it.
#![forbid(unsafe_code)]

use clap::Parser;
use weft_boot::machine::LiveSystem;
use weft_tools::doctor::{Machine, code, examine, text};

/// Looks at this machine before a job does: what would be slow or fail, and the remedy.
///
/// It checks shared memory (/dev/shm, memfd), whether one process may read another's memory (ptrace, seccomp), locked memory
/// (ulimit -l), open files, cores, fork, huge pages, RDMA devices with their ports and the addresses of RoCE ports, the
/// optional libraries, what devices, control groups and the kernel's sockets allow against the ranks of the node, what becomes of
/// registered memory, and which transport would lead to other nodes as WEFT_TRANSPORT and WEFT_RDMA ask for. With --peer it
/// also tries to reach other hosts, from each address that messages would come from. Nothing is changed.
///
/// FAILS: a job, or what it asks for, will fail. slow: it works, slower than it could. note: worth knowing.
///
/// Run it where the ranks run: inside the container, under the batch system (srun weft-doctor, mpiexec --hosts a,b weft-doctor).
#[derive(Parser)]
#[command(
    name = "weft-doctor",
    version,
    after_help = "The exit code is 1 when something would fail, else 0."
)]
struct Arguments {
    /// Ranks that shall run on this node; as many as cores if not given.
    #[arg(long)]
    ranks: Option<u32>,
    /// Hosts that this one shall reach, by name or address, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "HOST")]
    peer: Vec<String>,
    /// Show also what is well.
    #[arg(long, short)]
    all: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let ranks = arguments.ranks.unwrap_or_else(cores).max(1);
    let findings = examine(&Machine::gather(&LiveSystem, ranks, &arguments.peer));
    print!("{}", text(&findings, arguments.all));
    std::process::exit(code(&findings));
}
