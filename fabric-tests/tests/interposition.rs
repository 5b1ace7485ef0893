//! A profiling library that is preloaded intercepts every procedure, and nothing but the program's own calls (section 15.2).
//!
//! The profiling library is made here: one stub of two instructions for every `PMPI_` name that the library under test exports,
//! which counts and jumps to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use weft_fabric_tests::harness::{Ended, Job, Toolchain, build, root, scratch};

/// What is in a program or library, by `nm -D`.
fn symbols(path: &Path, kind: &str) -> Vec<String> {
    let output = Command::new("nm").arg("-D").arg(kind).arg(path).output().expect("binutils are installed");
    assert!(output.status.success(), "nm {}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// The library that a program is linked with.
fn library_of(program: &Path) -> PathBuf {
    let output = Command::new("ldd").arg(program).output().expect("ldd is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("libmpi"))
        .expect("the program needs an MPI library");
    PathBuf::from(line.split_whitespace().nth(2).expect("ldd prints the path behind the arrow"))
}

/// The counting library, and how many procedures it intercepts.
fn counter(program: &Path) -> &'static (PathBuf, usize) {
    static MADE: OnceLock<(PathBuf, usize)> = OnceLock::new();
    MADE.get_or_init(|| {
        let library = library_of(program);
        let names: Vec<String> = symbols(&library, "--defined-only")
            .into_iter()
            .filter_map(|name| name.strip_prefix("PMPI_").map(str::to_owned))
            .collect();
        let folder = scratch().join(format!("interposition-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the target folder can be written");
        let mut stubs = String::from(".text\n");
        let mut table = String::from("const char *const names[] = {\n");
        for (index, name) in names.iter().enumerate() {
            let _ = writeln!(
                stubs,
                ".globl MPI_{name}\n.type MPI_{name},@function\nMPI_{name}:\n lock incl counts+{}(%rip)\n jmp PMPI_{name}@PLT",
                4 * index
            );
            let _ = writeln!(table, "\"MPI_{name}\",");
        }
        stubs.push_str(".section .note.GNU-stack,\"\",@progbits\n");
        let _ = write!(
            table,
            "}};\n__attribute__((visibility(\"hidden\"))) unsigned counts[{}];\n\
             #include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
             __attribute__((destructor)) static void say(void)\n{{\n\
             char path[4096];\nconst char *folder = getenv(\"COUNTS\");\nif (!folder) return;\n\
             snprintf(path, sizeof path, \"%s.%d\", folder, (int)getpid());\n\
             FILE *file = NULL;\n\
             for (int i = 0; i < {}; i++)\n if (counts[i]) {{\n  if (!file) file = fopen(path, \"w\");\n\
             if (file) fprintf(file, \"%s %u\\n\", names[i], counts[i]);\n }}\n\
             if (file) fclose(file);\n}}\n",
            names.len(),
            names.len()
        );
        let (assembly, c, shared) = (folder.join("stubs.S"), folder.join("table.c"), folder.join("count.so"));
        fs::write(&assembly, stubs).expect("a fresh folder can be written");
        fs::write(&c, table).expect("a fresh folder can be written");
        let output = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shared).args([&assembly, &c, &library]).output();
        let output = output.expect("a C compiler is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (shared, names.len())
    })
}

/// Runs a conformance program with every procedure intercepted; gives the calls of all ranks.
fn counted(relative: &str, ranks: u32) -> BTreeMap<String, u64> {
    let tools = Toolchain::under_test();
    let program = build(tools, &root().join(relative), &[]);
    let (shared, _) = counter(&program);
    let prefix = shared.with_file_name(format!("{}-{ranks}", relative.replace('/', "-")));
    let folder = shared.parent().expect("the library lies in a folder");
    let ours =
        |entry: &fs::DirEntry| entry.path().to_string_lossy().starts_with(&*format!("{}.", prefix.display()));
    // The launcher is not an MPI program: env puts the variable into the ranks only.
    let preload = format!("LD_PRELOAD={}", shared.display());
    let counts = format!("COUNTS={}", prefix.display());
    let command = ["env".as_ref(), preload.as_ref(), counts.as_ref(), program.as_os_str()];
    let outcome = Job::under(tools, &["-n", &ranks.to_string()], &command).run();
    outcome.demand(outcome.ended == Ended::Code(0), "the program must work under a profiling library");
    outcome.demand_passes(ranks);
    let mut calls = BTreeMap::new();
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the folder is there").flatten().filter(ours) {
        files += 1;
        for line in fs::read_to_string(entry.path()).expect("a readable file").lines() {
            let (name, count) = line.split_once(' ').expect("name and count");
            *calls.entry(name.to_owned()).or_insert(0) += count.parse::<u64>().expect("a number");
        }
        let _ = fs::remove_file(entry.path());
    }
    assert_eq!(files, ranks, "each rank must have written its counts");
    calls
}

/// Every intercepted name must be one that the program itself refers to: the library calls none.
fn only_the_program_calls(relative: &str, ranks: u32) {
    let program = build(Toolchain::under_test(), &root().join(relative), &[]);
    let referred = symbols(&program, "--undefined-only");
    let calls = counted(relative, ranks);
    assert!(calls.contains_key("MPI_Init") || calls.contains_key("MPI_Init_thread"), "{calls:?}");
    for (name, count) in &calls {
        assert!(
            referred.contains(name),
            "{name} was called {count} times, though {relative} does not refer to it"
        );
    }
}

#[test]
fn every_procedure_has_an_interceptable_name() {
    let program = build(Toolchain::under_test(), &root().join("conformance/ch11/init.c"), &[]);
    let library = library_of(&program);
    let defined = symbols(&library, "--defined-only");
    let missing: Vec<_> = defined
        .iter()
        .filter_map(|name| name.strip_prefix("PMPI_"))
        .filter(|name| !defined.contains(&format!("MPI_{name}")))
        .collect();
    assert!(missing.is_empty(), "PMPI names without MPI twin: {missing:?}");
    let (_, intercepted) = counter(&program);
    assert!(*intercepted >= 430, "only {intercepted} procedures");
}

#[test]
fn calls_are_counted_exactly() {
    let calls = counted("conformance/ch11/init.c", 2);
    for name in ["MPI_Init", "MPI_Finalize", "MPI_Comm_rank", "MPI_Comm_size"] {
        assert_eq!(calls.get(name), Some(&2), "{name} in {calls:?}");
    }
    assert_eq!(calls.get("MPI_Comm_set_errhandler"), Some(&4));
}

#[test]
fn messages_call_nothing_else() {
    only_the_program_calls("conformance/ch03/send_modes.c", 2);
    only_the_program_calls("conformance/ch03/sendrecv.c", 2);
    only_the_program_calls("conformance/ch03/wait_families.c", 2);
}

#[test]
fn collectives_call_nothing_else() {
    only_the_program_calls("conformance/ch06/reduce_family.c", 3);
    only_the_program_calls("conformance/ch06/sequences.c", 3);
}

#[test]
fn communicators_and_finalize_call_nothing_else() {
    only_the_program_calls("conformance/ch07/comm_dup.c", 2);
    only_the_program_calls("conformance/ch07/comm_split.c", 3);
    only_the_program_calls("conformance/ch11/finalize_attributes.c", 2);
}
