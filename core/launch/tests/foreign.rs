//! Other launchers starting Weft's ranks, and Weft's mpiexec starting other libraries' ranks. What is not installed is
//! skipped with a word.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Outcome, mpiexec, probe, run};

/// Where peers installed from PyPI live: the `--cache` of `scripts/compare-peers`.
fn peers() -> PathBuf {
    std::env::var_os("WEFT_PEERS").map_or_else(PathBuf::new, PathBuf::from)
}

/// Hydras to be found here: MPICH's of several ages, Intel's.
fn hydras() -> Vec<PathBuf> {
    let of_peers = ["mpich4", "mpich5", "impi"].map(|name| peers().join(name).join("bin/mpiexec.hydra"));
    let candidates = of_peers.into_iter().chain([PathBuf::from("/usr/bin/mpiexec.hydra")]);
    let found: Vec<PathBuf> = candidates.filter(|path| path.exists()).collect();
    if found.is_empty() {
        println!("skipped: no mpiexec.hydra here (Debian: mpich; PyPI: mpich, impi-rt)");
    }
    found
}

fn under(hydra: &Path, ranks: u32, words: &str) -> Outcome {
    let mut command = Command::new(hydra);
    // Ranks of a test must not look like ranks of the job that runs the tests.
    command.args(["-n", &ranks.to_string()]).arg(probe()).args(words.split_whitespace());
    run(&mut command)
}

#[test]
fn hydra_starts_weft_ranks_by_pmi_1() {
    for hydra in hydras() {
        let outcome = under(&hydra, 3, "facts");
        assert_eq!(outcome.code, 0, "{}: {outcome:?}", hydra.display());
        for (rank, line) in outcome.sorted().iter().enumerate() {
            let expected = format!("rank={rank} size=3 local=[0, 1, 2] index={rank} ");
            assert!(line.starts_with(&expected) && line.contains("by=Pmi1"), "{}: {line}", hydra.display());
        }
        for words in ["share", "names"] {
            let outcome = under(&hydra, 4, words);
            assert_eq!(
                (outcome.code, outcome.out.lines().count()),
                (0, 4),
                "{}: {outcome:?}",
                hydra.display()
            );
        }
        let alone = under(&hydra, 1, "share");
        assert_eq!(alone.code, 0, "{}: {alone:?}", hydra.display());
    }
}

#[test]
fn hydra_starts_weft_ranks_by_pmi_2() {
    // Intel's Hydra agrees to PMI-2 and then crashes; it speaks PMI-1.
    for hydra in hydras().into_iter().filter(|path| !path.starts_with(peers().join("impi"))) {
        let outcome = under(&hydra, 3, "pmi2");
        assert_eq!((outcome.code, outcome.out.lines().count()), (0, 3), "{}: {outcome:?}", hydra.display());
    }
}

#[test]
fn hydra_passes_the_code_of_an_abort() {
    for hydra in hydras() {
        let outcome = under(&hydra, 2, "abort 21 1");
        assert_eq!(outcome.code, 21, "{}: {outcome:?}", hydra.display());
        assert!(outcome.err.contains("the probe was asked to"), "{}: {outcome:?}", hydra.display());
    }
}

const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\n", rank, size, sum);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && !strcmp(argv[1], "abort") && rank == 1) MPI_Abort(MPI_COMM_WORLD, 33);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"#;

/// MPICH's libraries, old and new, run under Weft's mpiexec: it speaks PMI-1 as Hydra does.
#[test]
fn mpich_programs_run_under_weft_mpiexec() {
    let of_peers = ["mpich4", "mpich5"]
        .map(|name| (peers().join(name).join("bin/mpicc"), peers().join(name).join("lib")));
    let candidates = of_peers.into_iter().chain([("/usr/bin/mpicc.mpich".into(), "/usr/lib".into())]);
    let folder = std::env::temp_dir().join(format!("weft-foreign-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("folder");
    let source = folder.join("hello.c");
    std::fs::write(&source, HELLO).expect("written");
    let mut tried = 0;
    for (compiler, libraries) in candidates.filter(|(compiler, _): &(PathBuf, PathBuf)| compiler.exists()) {
        tried += 1;
        let program = folder.join("hello");
        let compiled = run(Command::new(&compiler).arg(&source).arg("-o").arg(&program));
        assert_eq!(compiled.code, 0, "{compiled:?}");
        let outcome = run(mpiexec("-n 3").arg(&program).env("LD_LIBRARY_PATH", &libraries));
        assert_eq!(outcome.code, 0, "{}: {outcome:?}", compiler.display());
        let expected = ["rank 0 of 3, sum 3", "rank 1 of 3, sum 3", "rank 2 of 3, sum 3"];
        assert_eq!(outcome.sorted(), expected, "{}", compiler.display());
        let outcome = run(mpiexec("-n 2").arg(&program).arg("abort").env("LD_LIBRARY_PATH", &libraries));
        assert_eq!(outcome.code, 33, "{}: {outcome:?}", compiler.display());
        assert!(
            outcome.err.contains("ended the job with exit code 33"),
            "{}: {outcome:?}",
            compiler.display()
        );
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    if tried == 0 {
        println!("skipped: no MPICH compiler here (Debian: mpich; PyPI: mpich)");
    }
}

#[test]
fn launchers_weft_cannot_join_are_named() {
    let facts = |variables: &[(&str, &str)]| {
        let mut command = Command::new(probe());
        command.arg("facts").envs(variables.iter().copied());
        run(&mut command)
    };
    let table: [(&[(&str, &str)], &str); 5] = [
        // Whether there is a library or not.
        (&[("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "0")], "PMIx"),
        (&[("SLURM_STEP_NUM_TASKS", "4")], "srun --mpi=pmi2"),
        (&[("PMI_FD", "987")], "descriptor is closed"),
        (&[("PMI_FD", "1")], "PMI_FD"),
        (&[("PMI_PORT", "host:1")], "PMI_PORT"),
    ];
    for (variables, part) in table {
        let outcome = facts(variables);
        assert_eq!(outcome.code, 99, "{variables:?}: {outcome:?}");
        assert!(outcome.err.contains(part), "{variables:?}: {}", outcome.err);
    }
    assert_eq!(facts(&[("SLURM_STEP_NUM_TASKS", "1")]).code, 0);
}
