//! The ranks of one host, as its agent starts and ends them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};
use weft_boot::card::{self, Card};
use weft_boot::machine::{LiveSystem, allowed_cpus, usable};
use weft_boot::segment;
use weft_place::{CpuSet, Placement, Topology, agents, devices, lanes, policy};

use super::frames::{Orders, Program, RankOrder};
use crate::machine;
use crate::plan;
use crate::resolve::{self, Unstartable};
use crate::run::kernel_set;
use crate::spawn::{self, Keeper, Preparation};

/// One rank that runs here, or did.
pub(super) struct LocalRank {
    /// Its rank in the job.
    pub(super) rank: u32,
    pub(super) pid: Pid,
    /// Our end of its control channel, until it is closed.
    pub(super) channel: Option<OwnedFd>,
    /// Bytes for it that found no room.
    pub(super) unsent: Vec<u8>,
    /// Its standard output and error, until they end.
    pub(super) pipes: [Option<File>; 2],
    /// Its standard input, if it is rank 0's.
    pub(super) input: Option<File>,
    pub(super) ended: bool,
}

/// Where the ranks of this host run.
pub(super) struct Places {
    placements: Vec<Placement>,
    rails: Vec<Option<String>>,
    agents: Vec<Option<CpuSet>>,
    each: Vec<CpuSet>,
    cores: usize,
    /// Lines of `--report-bindings`.
    pub(super) lines: Vec<String>,
}

impl Places {
    /// Errors: words of the command line that mean nothing, in words.
    pub(super) fn choose(orders: &Orders) -> Result<Places, String> {
        let [bind_to, map_by] = &orders.placing;
        let bind_to = Some(bind_to).filter(|word| !word.is_empty()).map(|word| word.parse()).transpose()?;
        let map_by = Some(map_by).filter(|word| !word.is_empty()).map(|word| word.parse()).transpose()?;
        let threads = |rank: &RankOrder| {
            orders.programs.get(rank.program as usize).map_or(0, |program| program.threads)
        };
        let threads: Vec<u32> = orders.ranks.iter().map(threads).collect();
        let (bind_to, map_by) = lanes::complete(&threads, bind_to, map_by);
        let allowed = allowed_cpus();
        let count = orders.ranks.len();
        let devices = devices::read(&LiveSystem);
        if bind_to == policy::BindTo::None && !orders.report_bindings {
            let rails = devices::assign_names(&devices, &vec![allowed.clone(); count]);
            let placements = vec![policy::unbound(); count];
            return Ok(Places {
                placements,
                rails,
                agents: vec![None; count],
                each: Vec::new(),
                cores: usable(&allowed),
                lines: Vec::new(),
            });
        }
        let topology = Topology::read(&LiveSystem, &allowed);
        let placements = lanes::place(&topology, &devices, &threads, bind_to, map_by);
        let rails = policy::rails(&devices, &topology, &placements);
        let agents = agents::agents(&topology, &placements);
        let lines = match orders.report_bindings {
            true => orders
                .ranks
                .iter()
                .zip(placements.iter().zip(rails.iter().zip(&agents)))
                .map(|(order, (place, (rail, agent)))| {
                    let program = orders.programs.get(order.program as usize);
                    let set = |(name, _): &&(OsString, OsString)| name == plan::RAILS;
                    let value = program.and_then(|program| program.environment.iter().find(set));
                    let wanted = plan::rails_wanted(value.map(|(_, value)| value.as_os_str()));
                    let cpus = place.cpus.as_ref().unwrap_or(&allowed);
                    let rails = devices::rails_of(&devices, rail.as_deref(), cpus, wanted);
                    let line = policy::report(&topology, order.rank as usize, place, &rails, agent.as_ref());
                    format!("{}: {line}", orders.host)
                })
                .collect(),
            false => Vec::new(),
        };
        let each: Option<Vec<CpuSet>> = placements.iter().map(|place| place.cpus.clone()).collect();
        let used: CpuSet = placements
            .iter()
            .flat_map(|place| place.cpus.as_ref().unwrap_or(&allowed).iter().copied())
            .collect();
        Ok(Places { placements, rails, agents, each: each.unwrap_or_default(), cores: usable(&used), lines })
    }
}

/// What all ranks of the host share.
pub(super) struct Common {
    pub(super) memory: Arc<OwnedFd>,
    pub(super) keeper: Keeper,
    /// Blocked signals as the agent found them.
    pub(super) mask: SigSet,
    open_files: Option<(u64, u64)>,
}

impl Common {
    /// Must be called while the agent has one thread.
    pub(super) fn prepare(ranks: usize, mask: SigSet) -> io::Result<Common> {
        let needed = 5 * ranks as u64 + 32;
        let open_files = machine::open_files(needed).map_err(|allowed| {
            io::Error::other(format!(
                "{ranks} ranks need {needed} open files in the agent, {allowed} are allowed (ulimit -n)"
            ))
        })?;
        let memory = segment::create_memory(0).map_err(|error| io::Error::other(error.text().to_owned()))?;
        Ok(Common { memory: Arc::new(memory), keeper: Keeper::start()?, mask, open_files })
    }
}

/// Starts rank number `index` of the host.
///
/// Errors: why not, and the shell's code for it.
pub(super) fn start(
    orders: &Orders,
    index: usize,
    places: &Places,
    common: &Common,
) -> Result<LocalRank, Unstartable> {
    let order = &orders.ranks[index];
    let program = &orders.programs[order.program as usize];
    let wdir = Path::new(&program.wdir);
    let refuse = |why: String| Unstartable { why, code: 1 };
    if program.asked_for_wdir && !wdir.is_dir() {
        return Err(refuse(format!("there is no folder {} (-wdir)", wdir.display())));
    }
    // Where mpiexec was called need not exist on every host.
    let here = if wdir.is_dir() { wdir } else { Path::new("/") };
    let path =
        program.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let search: Vec<&OsStr> = program.path.as_deref().into_iter().chain(path).collect();
    let executable = resolve::find(&program.program, here, Path::new(&program.current), &search)?;
    let card = complete_card(order, index, places, common).map_err(refuse)?;
    run(program, order, index, here, &executable, &card, places, common)
        .map_err(|error| resolve::explain(&executable, &error))
}

/// What this host knows better than the head.
fn complete_card(order: &RankOrder, index: usize, places: &Places, common: &Common) -> Result<Card, String> {
    let mut card = Card::parse(&order.card).map_err(|error| error.text().to_owned())?;
    let place = &places.placements[index];
    card.cores = places.cores;
    card.binding = place.cpus.clone();
    card.numa_node = place.numa_node;
    card.rail.clone_from(&places.rails[index]);
    card.agent.clone_from(&places.agents[index]);
    card.lanes.clone_from(&place.lanes);
    card.local_cpus = places.each.clone();
    let facts = nix::sys::stat::fstat(common.memory.as_ref()).map_err(|errno| errno.to_string())?;
    card.segment_inode = facts.st_ino;
    Ok(card)
}

fn run(
    program: &Program,
    order: &RankOrder,
    index: usize,
    wdir: &Path,
    executable: &Path,
    card: &Card,
    places: &Places,
    common: &Common,
) -> io::Result<LocalRank> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    let pipe = || -> io::Result<(File, OwnedFd)> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((reader.into(), writer))
    };
    let ((output, output_end), (error, error_end)) = (pipe()?, pipe()?);
    let mut command = Command::new(executable);
    let variables: [(&str, OsString); 7] = [
        (card::VARIABLE, card.emit().into()),
        (card::NODE_FD_VARIABLE, common.memory.as_raw_fd().to_string().into()),
        ("PMI_FD", theirs.as_raw_fd().to_string().into()),
        ("PMI_RANK", order.rank.to_string().into()),
        ("PMI_SIZE", card.size.to_string().into()),
        ("MPI_LOCALRANKID", index.to_string().into()),
        ("MPI_LOCALNRANKS", card.local_ranks.len().to_string().into()),
    ];
    command
        .arg0(&program.program)
        .args(&program.arguments)
        .current_dir(wdir)
        .env_clear()
        .envs(program.environment.iter().cloned())
        .envs(variables)
        .stdout(Stdio::from(output_end))
        .stderr(Stdio::from(error_end));
    let mut input = None;
    if order.rank == 0 {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        command.stdin(Stdio::from(reader));
        input = Some(writer.into());
    } else {
        command.stdin(Stdio::null());
    }
    let affinity = places.placements[index].cpus.as_ref().map(kernel_set).transpose()?;
    spawn::prepare(
        &mut command,
        Preparation {
            channel: theirs,
            memory: common.memory.clone(),
            keeper: common.keeper.socket(),
            affinity,
            mask: common.mask,
            open_files: common.open_files,
        },
    );
    let child = command.spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    let pipes = [Some(output), Some(error)];
    Ok(LocalRank {
        rank: order.rank,
        pid,
        channel: Some(ours),
        unsent: Vec::new(),
        pipes,
        input,
        ended: false,
    })
}

/// How long the end waits for processes that ranks left behind to disappear after SIGKILL.
const SWEEP: Duration = Duration::from_millis(500);

/// Ends everything that the ranks are or left behind, and takes their numbers back.
pub(super) fn end_all(ranks: &[LocalRank]) {
    for rank in ranks {
        // The group exists at least until its first process is reaped.
        let _ = killpg(rank.pid, Signal::SIGKILL);
    }
    for rank in ranks {
        let _ = waitpid(rank.pid, None);
    }
    let deadline = Instant::now() + SWEEP;
    while ranks.iter().any(|rank| killpg(rank.pid, None).is_ok()) && Instant::now() < deadline {
        if let Ok(WaitStatus::StillAlive) | Err(_) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
