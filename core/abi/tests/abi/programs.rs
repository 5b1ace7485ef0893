//! Golden C programs that need no initialised MPI.

use std::process::Command;

use crate::harness::{folder, link, model, program, run, source, succeed};

#[test]
fn versions_agree_at_compile_time_and_run_time() {
    let text = succeed(&mut Command::new(program("version")));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["version 4.1", "abi 1.0"]);
    assert!(lines[2].starts_with("library Weft "), "{text}");
}

#[test]
fn handles_and_statuses_convert_both_ways() {
    succeed(&mut Command::new(program("conversions")));
}

#[test]
fn a_missing_procedure_raises_an_error_that_names_it() {
    let missing = model().procedures.iter().find(|procedure| !procedure.implemented && !procedure.is_tool());
    let Some(missing) = missing else {
        return;
    };
    let name = missing.name();
    let text = format!("extern int {name}(void);\nint main(void) {{ {name}(); return 0; }}\n");
    let program = link("missing", &source(&folder("programs"), "missing.c", &text));
    let output = run(&mut Command::new(program));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains(name) && stderr.contains("MPI_ERR_UNSUPPORTED_OPERATION"), "{stderr}");
}

#[test]
fn a_missing_tool_procedure_returns_its_error_code() {
    let missing = model().procedures.iter().find(|procedure| !procedure.implemented && procedure.is_tool());
    let Some(missing) = missing else {
        return;
    };
    let name = missing.name();
    let text = format!("extern int {name}(void);\nint main(void) {{ return {name}() != 1004; }}\n");
    succeed(&mut Command::new(link("missing-tool", &source(&folder("programs"), "missing-tool.c", &text))));
}

#[test]
fn a_null_result_pointer_is_refused_with_argument_and_rule() {
    let text = "#include <mpi.h>\nint main(void) { int v; MPI_Get_version(&v, (int *)0); return 0; }\n";
    let program = link("null", &source(&folder("programs"), "null.c", text));
    let output = run(&mut Command::new(program));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for part in ["MPI_Get_version", "MPI_ERR_ARG", "subversion", "null pointer"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
}
