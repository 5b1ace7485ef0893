//! A Slurm of this machine's own for a test: one controller and several node daemons, all on this host, in a folder that goes with them.

#![allow(dead_code, unreachable_pub, reason = "every test file that includes this one uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nodes that it has.
const NODES: u32 = 3;
/// Nothing here takes longer unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A running Slurm; it ends with this.
pub struct Slurm {
    folder: PathBuf,
}

impl Slurm {
    /// Starts one; `None`, with a printed reason, where that cannot be.
    pub fn start() -> Option<Slurm> {
        for program in ["munged", "slurmctld", "slurmd", "srun"] {
            if find(program).is_none() {
                println!(
                    "skipped: no {program} here (Debian: slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)"
                );
                return None;
            }
        }
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: a Slurm of the test's own is started by root only");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("weft-slurm-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let slurm = Slurm { folder };
        match slurm.run() {
            Ok(()) => Some(slurm),
            Err(why) => {
                println!("skipped: Slurm does not start here: {why}");
                None
            }
        }
    }

    /// Starts all of it, and waits until its nodes may be used.
    fn run(&self) -> Result<(), String> {
        let at = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        for node in 0..NODES {
            fs::create_dir_all(at(&format!("tmp-n{node}"))).expect("a folder");
        }
        let key: Vec<u8> = (0..=255).cycle().take(1024).collect();
        fs::write(at("key"), key).expect("a key");
        fs::set_permissions(at("key"), std::os::unix::fs::PermissionsExt::from_mode(0o400)).expect("a key");
        let host = nix::unistd::gethostname().map_err(|errno| errno.to_string())?;
        let host = host.to_string_lossy();
        let host = host.split('.').next().unwrap_or_default();
        // Other Slurms, and other runs of this test, have other ports.
        let port = 20_000 + (std::process::id() % 1000) * 10;
        fs::write(at("slurm.conf"), configuration(&self.folder, host, port)).expect("a configuration");
        let munged = [
            "--force".to_owned(),
            format!("--key-file={}", at("key")),
            format!("--socket={}", at("munge.sock")),
            format!("--pid-file={}", at("munged.pid")),
            format!("--log-file={}", at("munged.log")),
            format!("--seed-file={}", at("munged.seed")),
        ];
        self.daemon("munged", &munged.each_ref().map(String::as_str))?;
        self.daemon("slurmctld", &["-c"])?;
        for node in 0..NODES {
            self.daemon("slurmd", &["-N", &format!("n{node}")])?;
        }
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            let asked = self.command("sinfo").args(["-h", "-t", "idle", "-o", "%D"]).output();
            let asked = asked.map_err(|error| format!("sinfo: {error}"))?;
            if String::from_utf8_lossy(&asked.stdout).trim() == NODES.to_string() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err("its nodes stay away".to_owned())
    }

    /// Starts a daemon, which goes into the background.
    fn daemon(&self, program: &str, words: &[&str]) -> Result<(), String> {
        let mut command = self.command(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{program}: {status}")),
            Err(error) => Err(format!("{program}: {error}")),
        }
    }

    /// A program of Slurm's, with the configuration of this one.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    /// `srun`, which starts ranks by `mpi` on so many nodes.
    pub fn srun(&self, mpi: &str, nodes: u32, ranks: u32) -> Command {
        assert!(nodes <= NODES);
        let mut command = self.command("srun");
        command.args([format!("--mpi={mpi}"), format!("-N{nodes}"), format!("-n{ranks}")]);
        command
    }

    /// Whether it can start ranks by `mpi`.
    pub fn has(&self, mpi: &str) -> bool {
        let listed = self.command("srun").arg("--mpi=list").output().expect("srun");
        let listed = [listed.stdout, listed.stderr].concat();
        String::from_utf8_lossy(&listed).split_whitespace().any(|word| word == mpi)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let files = fs::read_dir(&self.folder).expect("the folder").filter_map(Result::ok);
        let pids: Vec<i32> = files
            .filter(|file| file.file_name().to_string_lossy().ends_with(".pid"))
            .filter_map(|file| fs::read_to_string(file.path()).ok()?.trim().parse().ok())
            .collect();
        let kill = |pid: i32, signal: Option<nix::sys::signal::Signal>| {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).is_ok()
        };
        for &pid in &pids {
            kill(pid, Some(nix::sys::signal::Signal::SIGTERM));
        }
        let begun = Instant::now();
        while pids.iter().any(|&pid| kill(pid, None)) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where a program is; daemons are not on everybody's path.
fn find(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.exists())
}

fn configuration(folder: &Path, host: &str, port: u32) -> String {
    let folder = folder.display();
    let last = NODES - 1;
    let (first_port, last_port) = (port + 1, port + NODES);
    format!(
        "ClusterName=weft\nSlurmctldHost={host}\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nCryptoType=crypto/munge\n\
         AuthInfo=socket={folder}/munge.sock\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\nSlurmctldLogFile={folder}/slurmctld.log\n\
         SlurmdLogFile={folder}/slurmd-%n.log\nSlurmctldPort={port}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
         SchedulerType=sched/builtin\nJobAcctGatherType=jobacct_gather/none\nSlurmdParameters=config_overrides\n\
         TmpFS={folder}/tmp-%n\n\
         NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] CPUs=8 RealMemory=1000\n\
         PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n"
    )
}
