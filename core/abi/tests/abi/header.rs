//! mpi.h for C and C++ compilers.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use weft_bindings::{Constant, ConstantKind};

use crate::harness::{compiler, folder, installed, model, root, run, source, succeed};

const WARNINGS: [&str; 5] = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];

fn compilers(names: [&'static str; 2]) -> impl Iterator<Item = &'static str> {
    names.into_iter().filter(|name| installed(name))
}

#[test]
fn the_header_compiles_without_a_warning_in_every_dialect() {
    let folder = folder("header");
    // Twice, because it must guard itself; after the system headers a program is likely to have, too.
    let text = "#include <mpi.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <mpi.h>\n\
        int main(void) { return MPI_SUCCESS; }\n";
    let c = source(&folder, "empty.c", text);
    let cxx = source(&folder, "empty.cc", text);
    for name in compilers(["gcc", "clang"]) {
        for dialect in ["c99", "c11", "c17", "gnu99"] {
            let extra = ["-Wstrict-prototypes", "-Wshadow"];
            succeed(compiler(name).args(WARNINGS).args(extra).arg(format!("-std={dialect}")).arg(&c));
        }
    }
    for name in compilers(["g++", "clang++"]) {
        for dialect in ["c++98", "c++11", "c++17", "c++20"] {
            succeed(compiler(name).args(WARNINGS).arg("-Wshadow").arg(format!("-std={dialect}")).arg(&cxx));
        }
    }
}

#[test]
fn every_identifier_is_in_the_name_space_of_mpi() {
    let text = source(&folder("header"), "names.c", "#include <mpi.h>\n");
    let declared = succeed(compiler("cc").args(["-E", "-P"]).arg(&text));
    let before = source(&folder("header"), "before.c", "#include <stdint.h>\n");
    let before = succeed(compiler("cc").args(["-E", "-P"]).arg(&before));
    let own: Vec<&str> =
        declared.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
    assert!(own.len() > 1000, "only {} lines of our own", own.len());
    // Names that a declaration gives to the program: before a parenthesis, after typedef, in an enumeration.
    for line in own {
        let text = line.trim();
        let name = text.split('(').next().unwrap_or("").rsplit([' ', '*']).next().unwrap_or("");
        let function = text.contains('(') && !text.starts_with("typedef") && !text.contains("__attribute__");
        assert!(!function || name.starts_with("MPI_") || name.starts_with("PMPI_"), "{line}");
    }
    let macros = |text: &Path| succeed(compiler("cc").args(["-E", "-dM"]).arg(text));
    let empty = source(&folder("header"), "stdint.c", "#include <stdint.h>\n");
    let known = macros(&empty);
    for line in macros(&text).lines().filter(|line| !known.lines().any(|other| other == *line)) {
        let name = line.split([' ', '(']).nth(1).unwrap_or("");
        assert!(name.starts_with("MPI_") || name == "MPIX_TYPECLASS_LOGICAL", "{line}");
    }
}

#[test]
fn deprecated_procedures_warn_unless_switched_off() {
    let text = "#include <mpi.h>\nint f(int *k);\nint f(int *k) { return MPI_Keyval_free(k) + PMPI_Keyval_free(k); }\n";
    let text = source(&folder("header"), "deprecated.c", text);
    for name in compilers(["gcc", "clang"]) {
        let output = run(compiler(name).args(WARNINGS).arg(&text));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && stderr.contains("deprecated since MPI 2.0, use MPI_Comm_free_keyval"),
            "{stderr}"
        );
        for switch in
            ["WEFT_NO_DEPRECATION_WARNINGS", "MPI_NO_DEPRECATION_WARNINGS", "MPI_SUPPRESS_DEPRECATED"]
        {
            succeed(compiler(name).args(WARNINGS).arg(format!("-D{switch}")).arg(&text));
        }
    }
}

/// The C type of a constant.
fn c_type(constant: &Constant) -> &str {
    match &constant.kind {
        ConstantKind::Handle(ty) | ConstantKind::ToolHandle(ty) | ConstantKind::Pointer(ty) => ty,
        ConstantKind::Int => "int",
        ConstantKind::Enum(ty) => ty,
        ConstantKind::Offset => "MPI_Offset",
    }
}

/// A program that uses every constant as its kind promises and prints it: name, value as an integer.
fn constants_program() -> String {
    let (mut uses, mut prints) = (String::from("#include <mpi.h>\n#include <stdio.h>\n"), String::new());
    for (index, constant) in model().constants.iter().enumerate() {
        let (name, ty) = (&constant.name, c_type(constant));
        let _ = writeln!(uses, "static {ty} static{index} = {name};");
        if constant.is_integer_expression() {
            let _ = writeln!(
                uses,
                "static int label{index}(int x) {{ switch (x) {{ case {name}: return 1; default: return 0; }} }}"
            );
            let _ = writeln!(uses, "static char array{index}[{name} < 0 ? 1 : {name} + 1];");
            let _ = writeln!(uses, "enum {{ enumerator{index} = {name} }};");
            let _ = writeln!(
                prints,
                "if (!label{index}((int)static{index}) || sizeof array{index} < 1 || enumerator{index} != (int){name}) return 1;"
            );
        }
        if constant.kind == ConstantKind::Int {
            let _ = writeln!(uses, "#if {name} != {}\n#error {name}\n#endif", constant.value);
        }
        let _ = writeln!(prints, "printf(\"{name} %ld\\n\", (long)static{index});");
    }
    format!("{uses}int main(void) {{\n{prints}return 0;\n}}\n")
}

#[test]
fn every_constant_has_its_abi_value_and_works_where_its_kind_must() {
    let folder = folder("header");
    let mut expected: Vec<(String, String)> = Vec::new();
    let table = std::fs::read_to_string(root().join("core/bindings/table/abi-constants.tsv")).unwrap();
    for line in table.lines().skip(1) {
        let mut cells = line.split('\t');
        let (name, value) = (cells.next().unwrap(), cells.next().unwrap());
        let value = match name {
            "MPI_VERSION" => "4",
            "MPI_SUBVERSION" => "1",
            _ => value,
        };
        expected.push((name.to_owned(), value.to_owned()));
    }
    assert_eq!(expected.len(), 365);
    let text = constants_program();
    for (name, file, dialect) in [("gcc", "constants.c", "c99"), ("g++", "constants.cc", "c++98")] {
        let text = source(&folder, file, &text);
        let out = folder.join(format!("constants-{name}"));
        let mut command = compiler(name);
        command.args(["-Wall", "-Wextra", "-Werror", "-Wno-unused"]).arg(format!("-std={dialect}"));
        succeed(command.arg(&text).arg("-o").arg(&out));
        let printed = succeed(&mut Command::new(out));
        let printed: Vec<(String, String)> = printed
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(printed, expected);
    }
}

#[test]
fn types_have_the_sizes_of_the_abi() {
    let text = "#include <mpi.h>\n#include <stddef.h>\n\
        struct pair { char c; MPI_Status s; };\n\
        #define IS(what) typedef char check[(what) ? 1 : -1]\n\
        void f(void); void f(void) {\n\
        { IS(sizeof(MPI_Status) == 32); } { IS(sizeof(MPI_F08_status) == 32); }\n\
        { IS(offsetof(struct pair, s) == sizeof(int)); }\n\
        { IS(offsetof(MPI_Status, MPI_SOURCE) == 0); } { IS(offsetof(MPI_Status, MPI_TAG) == 4); }\n\
        { IS(offsetof(MPI_Status, MPI_ERROR) == 8); } { IS(MPI_F_STATUS_SIZE * sizeof(MPI_Fint) == 32); }\n\
        { IS(sizeof(MPI_Aint) == sizeof(void *)); } { IS((MPI_Aint)-1 < 0); }\n\
        { IS(sizeof(MPI_Offset) == 8); } { IS(sizeof(MPI_Count) == 8); } { IS(sizeof(MPI_Fint) == sizeof(int)); }\n\
        { IS(sizeof(MPI_Comm) == sizeof(void *)); } { IS(sizeof(MPI_T_enum) == sizeof(void *)); }\n\
        { IS(sizeof(MPI_T_cb_safety) == sizeof(int)); }\n}\n";
    let folder = folder("header");
    let (c, cxx) = (source(&folder, "sizes.c", text), source(&folder, "sizes.cc", text));
    succeed(compiler("gcc").args(["-fsyntax-only", "-std=c99"]).arg(c));
    succeed(compiler("g++").args(["-fsyntax-only", "-std=c++98"]).arg(cxx));
}

#[test]
fn callbacks_and_predefined_callbacks_have_the_types_their_users_expect() {
    let text = "#include <mpi.h>\n\
        static void op(void *in, void *inout, int *len, MPI_Datatype *type) { (void)in; (void)inout; (void)len; (void)type; }\n\
        static void handler(MPI_Comm *comm, int *code, ...) { (void)comm; (void)code; }\n\
        int use(MPI_Comm comm, MPI_Info info, int *keyval, MPI_Op *newop, MPI_Errhandler *errhandler);\n\
        int use(MPI_Comm comm, MPI_Info info, int *keyval, MPI_Op *newop, MPI_Errhandler *errhandler) {\n\
        const int weights[1] = {1}; char **argv = MPI_ARGV_NULL; MPI_Comm child;\n\
        (void)weights;\n\
        MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0);\n\
        MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, keyval, 0);\n\
        MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, keyval, 0);\n\
        MPI_Register_datarep(\"mine\", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, 0, 0);\n\
        MPI_Op_create(op, 1, newop); MPI_Comm_create_errhandler(handler, errhandler);\n\
        MPI_Comm_spawn(\"x\", argv, 1, info, 0, comm, &child, MPI_ERRCODES_IGNORE);\n\
        MPI_Dist_graph_create(comm, 0, 0, 0, 0, MPI_UNWEIGHTED, info, 0, &child);\n\
        MPI_Send(MPI_BOTTOM, 0, MPI_INT, MPI_PROC_NULL, 0, comm);\n\
        return MPI_Recv(MPI_BOTTOM, 0, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE); }\n";
    let folder = folder("header");
    let (c, cxx) = (source(&folder, "callbacks.c", text), source(&folder, "callbacks.cc", text));
    succeed(compiler("gcc").args(WARNINGS).arg("-std=c99").arg(c));
    succeed(compiler("g++").args(WARNINGS).arg("-std=c++98").arg(cxx));
}

#[test]
fn constants_that_stand_for_arrays_and_buffers_pass_without_a_warning_when_optimising() {
    let text = "#include <mpi.h>\n\
        int f(MPI_Comm c, int *b, MPI_Comm *n, MPI_Request *r);\n\
        int f(MPI_Comm c, int *b, MPI_Comm *n, MPI_Request *r) {\n\
        int flag, count, indices[2];\n\
        MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 1, MPI_INT, 0, c);\n\
        MPI_Dist_graph_create(c, 1, b, b, b, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, n);\n\
        MPI_Dist_graph_create_adjacent(c, 1, b, MPI_UNWEIGHTED, 1, b, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, n);\n\
        MPI_Dist_graph_neighbors(c, 1, b, MPI_UNWEIGHTED, 1, b, MPI_UNWEIGHTED);\n\
        MPI_Comm_spawn(\"x\", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, c, n, MPI_ERRCODES_IGNORE);\n\
        MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);\n\
        MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);\n\
        MPI_Testsome(2, r, &count, indices, MPI_STATUSES_IGNORE);\n\
        return MPI_Waitall(2, r, MPI_STATUSES_IGNORE) + MPI_Send(MPI_BOTTOM, 1, MPI_INT, 0, 0, c); }\n";
    let folder = folder("header");
    let (c, cxx) = (source(&folder, "sentinels.c", text), source(&folder, "sentinels.cc", text));
    let flags = ["-O3", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", "/dev/null"];
    for name in compilers(["gcc", "clang"]) {
        succeed(compiler(name).args(flags).arg("-std=c99").arg(&c));
    }
    for name in compilers(["g++", "clang++"]) {
        succeed(compiler(name).args(flags).arg("-std=c++11").arg(&cxx));
    }
}
