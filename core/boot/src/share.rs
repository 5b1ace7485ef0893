//! Finding node-mates and sharing memory with them when the launcher does not do it.
//!
//! The node's lowest rank makes a memfd; the others open it through `/proc/<pid>/fd/<n>`. All say in a second round whether
//! that worked. Where it did not for all (other PID namespace, /proc restricted) the leader makes a file in /dev/shm or /tmp,
//! whose name is gone again as soon as everybody has opened it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weft_place::CpuSet;
use weft_types::{Error, ErrorClass, Result};

use crate::job::NodeSegment;
use crate::launcher::Launcher;
use crate::machine::allowed_cpus;
use crate::nodes::Nodes;
use crate::pmi::wire1::encode_word;
use crate::segment::create_memory;

/// How long a rank waits for its leader's file, or the leader for its node-mates. They are all past the same fence, so
/// only a dead or stopped one makes it wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process's node, as it found it.
pub(crate) struct Mates {
    /// The node of every rank of the job.
    pub(crate) nodes: Nodes,
    /// Ranks on this node, ascending.
    pub(crate) ranks: Vec<u32>,
    /// CPUs they may use together.
    pub(crate) cpus: CpuSet,
    /// CPUs of each.
    pub(crate) each: Vec<CpuSet>,
    /// Their memory.
    pub(crate) segment: NodeSegment,
}

/// What each rank puts under its number.
#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    host: String,
    cpus: CpuSet,
    /// Process, descriptor and inode of its memory, when it may turn out the leader.
    memory: Option<(u32, i32, u64)>,
}

impl Greeting {
    fn emit(&self) -> String {
        let memory = self.memory.map(|(pid, fd, inode)| format!("{pid}.{fd}.{inode}")).unwrap_or_default();
        format!("{}:{}:{memory}", encode_word(&self.host), self.cpus)
    }

    fn parse(text: &str) -> Option<Greeting> {
        let mut parts = text.split(':');
        let (host, cpus, memory) = (parts.next()?, parts.next()?, parts.next()?);
        let mut numbers = memory.split('.');
        let memory = match memory {
            "" => None,
            _ => Some((
                numbers.next()?.parse().ok()?,
                numbers.next()?.parse().ok()?,
                numbers.next()?.parse().ok()?,
            )),
        };
        Some(Greeting { host: host.to_owned(), cpus: cpus.parse().ok()?, memory })
    }
}

/// Finds the ranks of this node and shares memory with them; collective over the job. `nodes`: the node of each rank, where
/// the launcher told it; otherwise ranks of the same boot and host name are taken as one node, which costs a look at every rank.
pub(crate) fn meet_mates(
    rank: u32,
    size: u32,
    job_id: &str,
    nodes: Option<Nodes>,
    launcher: &mut dyn Launcher,
) -> Result<Mates> {
    let candidates: Vec<u32> = match &nodes {
        Some(nodes) => (0..size).filter(|&other| nodes.node(other) == nodes.node(rank)).collect(),
        None => (0..size).collect(),
    };
    let may_lead = nodes.is_none() || candidates.first() == Some(&rank);
    let memory = match may_lead {
        true => Some(create_memory(0)?),
        false => None,
    };
    let host = host_identity();
    let greeting = Greeting {
        host: host.clone(),
        cpus: allowed_cpus(),
        memory: memory.as_ref().map(|fd| (std::process::id(), fd.as_raw_fd(), inode(fd))),
    };
    launcher.put(&key("c", rank), &greeting.emit())?;
    launcher.fence()?;

    let mut ranks = Vec::new();
    let mut cpus = CpuSet::new();
    let mut each = Vec::new();
    let mut leader = None;
    // Where the launcher does not tell: the hosts seen, and the number of each rank's.
    let (mut hosts, mut seen): (HashMap<String, u32>, Vec<u32>) = (HashMap::new(), Vec::new());
    for other in candidates {
        let text = launcher.get(other, &key("c", other))?.unwrap_or_default();
        let theirs = Greeting::parse(&text).ok_or_else(|| lost(other, &text))?;
        if nodes.is_none() {
            let is_here = theirs.host == encode_word(&host);
            let next = hosts.len() as u32;
            seen.push(*hosts.entry(theirs.host).or_insert(next));
            if !is_here {
                continue;
            }
        }
        leader = leader.or(Some((other, theirs.memory)));
        cpus = cpus.union(&theirs.cpus);
        each.push(theirs.cpus);
        ranks.push(other);
    }
    let (leader, address) = leader.ok_or_else(|| lost(rank, "nothing"))?;
    let opened = match memory.filter(|_| leader == rank) {
        Some(own) => Some(own),
        None => address.and_then(open_memory),
    };
    let segment = agree(rank, &ranks, job_id, opened, launcher)?;
    Ok(Mates { nodes: nodes.unwrap_or_else(|| Nodes::listed(&seen)), ranks, cpus, each, segment })
}

/// The second round: all have the leader's memory, or all take a file. Every rank of the job takes part in the fence.
fn agree(
    rank: u32,
    ranks: &[u32],
    job_id: &str,
    opened: Option<OwnedFd>,
    launcher: &mut dyn Launcher,
) -> Result<NodeSegment> {
    launcher.put(&key("v", rank), if opened.is_some() { "yes" } else { "no" })?;
    launcher.fence()?;
    let mut all = true;
    for &other in ranks {
        all &= launcher.get(other, &key("v", other))?.as_deref() == Some("yes");
    }
    match opened {
        Some(memory) if all => Ok(NodeSegment::Shared(memory)),
        _ => {
            let leader = ranks.first().copied().unwrap_or(rank);
            let index = ranks.iter().position(|&other| other == rank).unwrap_or_default();
            let job: String =
                job_id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let file = through_file(&folders(), &format!("weft-{job}-{leader}"), index, ranks.len());
            file.map(|file| NodeSegment::Shared(file.into()))
        }
    }
}

/// Opens the memory of another process of this node, if it is the one that was announced.
fn open_memory((pid, fd, announced): (u32, i32, u64)) -> Option<OwnedFd> {
    let file = File::options().read(true).write(true).open(format!("/proc/{pid}/fd/{fd}")).ok()?;
    let memory = OwnedFd::from(file);
    (inode(&memory) == announced).then_some(memory)
}

fn inode(memory: &OwnedFd) -> u64 {
    let file = memory.try_clone().map(File::from);
    file.and_then(|file| file.metadata()).map_or(0, |facts| facts.ino())
}

/// Where a file may be made, the roomier first.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/dev/shm"), PathBuf::from("/tmp")];
    let room = |path: &PathBuf| {
        nix::sys::statvfs::statvfs(path).map_or(0, |space| space.blocks_available() * space.fragment_size())
    };
    // A roomy /dev/shm is memory and stays first; a tiny one (64 MiB in many containers) yields to a larger disk.
    if room(&folders[0]) < 256 << 20 && room(&folders[1]) > room(&folders[0]) {
        folders.reverse();
    }
    folders
}

/// Shares one file among `count` processes; this one is number `index`, number 0 makes the file. Each follower leaves one byte
/// at its number; when all are there the leader removes name and bytes.
fn through_file(folders: &[PathBuf], name: &str, index: usize, count: usize) -> Result<File> {
    let failed = |what: &str, path: &Path, error: &io::Error| {
        Error::new(
            ErrorClass::NO_MEM,
            format!("the ranks of this node cannot share memory through {}: {what}: {error}", path.display()),
        )
    };
    let deadline = Instant::now() + PATIENCE;
    if index > 0 {
        let (file, path) = wait_for(deadline, || {
            folders
                .iter()
                .map(|folder| folder.join(name))
                .find_map(|path| open_own(&path).map(|file| (file, path)))
        })
        .ok_or_else(|| {
            let path = folders.first().map(|folder| folder.join(name)).unwrap_or_default();
            failed("waiting for the first rank's file", &path, &io::ErrorKind::TimedOut.into())
        })?;
        file.write_all_at(b"1", index as u64).map_err(|error| failed("write", &path, &error))?;
        return Ok(file);
    }
    let mut last = None;
    for path in folders.iter().map(|folder| folder.join(name)) {
        // A file of that name can only be left from a dead job: the job's name is unique among living ones.
        let _ = fs::remove_file(&path);
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                let everybody = wait_for(deadline, || {
                    let mut marks = vec![0; count];
                    let read = file.read_at(&mut marks, 0).unwrap_or(0);
                    (read == count && marks.iter().skip(1).all(|&mark| mark == b'1')).then_some(())
                });
                let removed = fs::remove_file(&path);
                everybody.ok_or_else(|| {
                    failed("waiting for the others", &path, &io::ErrorKind::TimedOut.into())
                })?;
                removed.and_then(|()| file.set_len(0)).map_err(|error| failed("clean up", &path, &error))?;
                return Ok(file);
            }
            Err(error) => last = Some(failed("create", &path, &error)),
        }
    }
    Err(last.unwrap_or_else(|| failed("create", Path::new("/dev/shm"), &io::ErrorKind::NotFound.into())))
}

/// Opens the leader's file if it is there and belongs to this user (others could have put a trap there).
fn open_own(path: &Path) -> Option<File> {
    let file = File::options().read(true).write(true).custom_flags(nix::libc::O_NOFOLLOW).open(path).ok()?;
    let owner = file.metadata().ok()?.uid();
    (owner == nix::unistd::geteuid().as_raw()).then_some(file)
}

fn wait_for<T>(deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn key(what: &str, rank: u32) -> String {
    format!("weft-{what}-{rank}")
}

fn lost(rank: u32, text: &str) -> Error {
    Error::new(
        ErrorClass::OTHER,
        format!(
            "the greeting of rank {rank} did not come through the launcher (got {text:?}); is it running the same version of Weft?"
        ),
    )
}

/// What tells one node from another: its boot and its host name (containers of one machine have different names).
fn host_identity() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = nix::unistd::gethostname().unwrap_or_default();
    format!("{}/{}", boot.trim(), name.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_greeting_is_read_as_it_was_written(
            host in "[a-z0-9/-]{1,20}",
            cpus in prop::collection::vec(0usize..99, 0..5),
            memory in prop::option::of((1u32..99999, 0i32..999, any::<u64>())),
        ) {
            let greeting = Greeting { host, cpus: cpus.into_iter().collect(), memory };
            prop_assert_eq!(Greeting::parse(&greeting.emit()), Some(greeting));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = Greeting::parse(&text);
        }
    }

    #[test]
    fn a_file_is_shared_and_leaves_no_name() {
        let name = format!("weft-test-{}", std::process::id());
        let folders = [PathBuf::from("/nowhere"), std::env::temp_dir()];
        let files: Vec<File> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|index| {
                    let (folders, name) = (&folders, &name);
                    scope.spawn(move || through_file(folders, name, index, 3).expect("shared"))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(!folders[1].join(&name).exists());
        files[2].write_all_at(b"hello", 100).expect("write");
        let mut seen = [0; 5];
        files[0].read_exact_at(&mut seen, 100).expect("read");
        assert_eq!(&seen, b"hello");
        let mut start = [9; 100];
        files[1].read_exact_at(&mut start, 0).expect("read");
        assert!(start.iter().all(|&byte| byte == 0), "the marks are wiped");
    }

    #[test]
    fn a_folder_that_refuses_is_named() {
        let error = through_file(&[PathBuf::from("/nowhere")], "weft-x", 0, 1).expect_err("no such folder");
        assert!(error.text().contains("/nowhere/weft-x"), "{error}");
    }
}
