//! The profiling interface, section 15.2: every procedure can be replaced, and its PMPI_ name still works.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{compiler, folder, include, library, link, model, program, source, succeed};

fn shared_object(name: &str, text: &Path) -> PathBuf {
    let out = folder("bin").join(name);
    succeed(Command::new("cc").args(["-shared", "-fPIC", "-I"]).arg(include()).arg(text).arg("-o").arg(&out));
    out
}

#[test]
fn a_preloaded_library_intercepts_every_procedure() {
    let names: Vec<&str> = model().procedures.iter().map(|procedure| procedure.name()).collect();
    let (mut tool, mut calls) = (String::from("#include <stdio.h>\n"), String::new());
    for (index, name) in names.iter().enumerate() {
        let _ = writeln!(tool, "static int hit{index};\nint {name}(void) {{ hit{index}++; return 0; }}");
        let _ = writeln!(calls, "extern int {name}(void);");
    }
    tool.push_str("__attribute__((destructor)) static void report(void) {\n");
    calls.push_str("int main(void) {\n");
    for (index, name) in names.iter().enumerate() {
        let _ = writeln!(tool, "if (hit{index} != 1) puts(\"{name}\");");
        let _ = writeln!(calls, "{name}();");
    }
    tool.push_str("puts(\"done\"); }\n");
    calls.push_str("return 0; }\n");
    let folder = folder("interception");
    let tool = shared_object("libtool.so", &source(&folder, "tool.c", &tool));
    let program = link("calls", &source(&folder, "calls.c", &calls));
    assert_eq!(succeed(Command::new(program).env("LD_PRELOAD", tool)), "done\n");
}

#[test]
fn a_wrapper_reaches_the_library_by_the_pmpi_name() {
    let text = "#include <mpi.h>\n\
        int MPI_Get_version(int *version, int *subversion) {\n\
        int result = PMPI_Get_version(version, subversion); *version += 100; return result; }\n";
    let wrapper = shared_object("libwrapper.so", &source(&folder("interception"), "wrapper.c", text));
    let program = program("version");
    assert!(succeed(&mut Command::new(&program)).starts_with("version 4.1\n"));
    assert!(succeed(Command::new(&program).env("LD_PRELOAD", wrapper)).starts_with("version 104.1\n"));
}

#[test]
fn a_program_linked_with_the_static_library_may_define_names_itself() {
    let text = "#include <mpi.h>\n#include <stdio.h>\n\
        double MPI_Wtime(void) { return 1.5; }\n\
        int main(void) { int v, s; MPI_Get_version(&v, &s);\n\
        printf(\"%g %d %d.%d\\n\", MPI_Wtime(), PMPI_Wtime() > 0, v, s); return 0; }\n";
    let source = source(&folder("interception"), "own.c", text);
    let out = folder("bin").join("own");
    let archive = library().join("libmpi_abi.a");
    succeed(
        compiler("cc")
            .arg(&source)
            .arg(&archive)
            .args(["-o".as_ref(), out.as_os_str()])
            .args(["-lm", "-ldl"]),
    );
    assert_eq!(succeed(&mut Command::new(out)), "1.5 1 4.1\n");
}
