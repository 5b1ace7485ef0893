//! The tables as committed, and the files generated from them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use weft_bindings::{Check, Direction, Form, Kind, Model, emit};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn model() -> Model {
    Model::load(&root().join("core/bindings/table")).unwrap()
}

#[test]
fn committed_files_are_what_the_generator_makes() {
    for file in emit::all(&model(), &root()).unwrap() {
        let committed = std::fs::read_to_string(root().join(&file.path)).unwrap_or_default();
        assert!(
            committed == file.text,
            "{} is stale: run cargo run -p weft-bindings --bin weft-generate",
            file.path.display()
        );
    }
}

#[test]
fn the_table_has_every_procedure_of_the_standard_and_of_the_abi() {
    let model = model();
    let count = |test: fn(&Form) -> bool| model.procedures.iter().filter(|p| test(&p.form)).count();
    // 611 procedures of MPI 4.1 and 51 of its tool interface; 28 of the ABI chapter; two aliases for the stubs header.
    assert_eq!(model.procedures.len(), 611 + 51 + 28 + 2);
    assert_eq!(count(|form| matches!(form, Form::Int(_))), count(|form| matches!(form, Form::Large(_))));
    assert_eq!(count(|form| matches!(form, Form::Large(_))), 159);
    assert_eq!(count(|form| matches!(form, Form::Alias(_))), 2);
    let names: BTreeSet<_> = model.procedures.iter().map(|procedure| procedure.name()).collect();
    assert_eq!(names.len(), model.procedures.len());
}

#[test]
fn every_constant_that_mpi_4_1_has_in_c_is_in_the_header() {
    let header = std::fs::read_to_string(root().join("core/abi/include/mpi.h")).unwrap();
    let words: BTreeSet<&str> = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let table = std::fs::read_to_string(root().join("core/bindings/table/constants.tsv")).unwrap();
    let mut seen = 0;
    for line in table.lines() {
        let mut cells = line.split('\t');
        let (name, kind) = (cells.next().unwrap(), cells.next().unwrap());
        if name.starts_with("MPI_") && !kind.starts_with("Fortran") {
            assert!(words.contains(name), "{name} ({kind}) is missing");
            seen += 1;
        }
    }
    assert!(seen > 380, "only {seen} constants read");
    // What the ABI has beyond MPI 4.1: its version, LOGICAL types with a size, an error class, a type class.
    let model = model();
    let new = model.constants.iter().filter(|constant| constant.standard.is_none());
    assert_eq!(new.count(), 9);
}

#[test]
fn every_procedure_has_a_signature_for_its_implementation() {
    let model = model();
    for procedure in &model.procedures {
        emit::signature(&model, procedure).unwrap();
    }
    let signature = |name: &str| emit::signature(&model, model.procedure(name).unwrap()).unwrap();
    assert_eq!(
        signature("MPI_Isend_c").lines().last().unwrap(),
        "pub(crate) unsafe fn isend(buf: *const c_void, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, \
         comm: MPI_Comm, request: *mut MPI_Request) -> Result<(), Raised>"
    );
    assert_eq!(
        signature("MPI_Gatherv").lines().last().unwrap(),
        "pub(crate) unsafe fn gatherv(sendbuf: *const c_void, sendcount: i64, sendtype: MPI_Datatype, recvbuf: *mut c_void, \
         recvcounts: IntArray, displs: IntArray, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm) -> Result<(), Raised>"
    );
    assert_eq!(
        signature("MPI_Type_get_envelope").lines().last().unwrap(),
        "pub(crate) unsafe fn type_get_envelope(datatype: MPI_Datatype, num_integers: CountOut, num_addresses: CountOut, \
         num_large_counts: CountOut, num_datatypes: CountOut, combiner: *mut c_int) -> Result<(), Raised>"
    );
    assert!(signature("MPI_Wtime").ends_with("fn wtime() -> f64"));
    assert!(signature("MPI_Op_create_c").contains("user_fn: UserFunction"));
    assert!(
        signature("MPI_Type_vector").contains("stride: i64")
            && signature("MPI_Type_vector").contains("width: Width")
    );
}

#[test]
fn arguments_are_understood() {
    let model = model();
    let argument = |procedure: &str, name: &str| {
        let procedure = model.procedure(procedure).unwrap();
        procedure.arguments.iter().find(|argument| argument.parameter.name == name).unwrap().clone()
    };
    for (procedure, name, kind, direction, check) in [
        ("MPI_Send", "buf", Kind::Buffer, Direction::In, Check::None),
        ("MPI_Send", "count", Kind::Count, Direction::In, Check::NotNegative("COUNT".into())),
        ("MPI_Send", "dest", Kind::Rank, Direction::In, Check::None),
        ("MPI_Isend_c", "request", Kind::Handle, Direction::Out, Check::NotNull),
        ("MPI_Wait", "request", Kind::Handle, Direction::InOut, Check::NotNull),
        ("MPI_Wait", "status", Kind::Status, Direction::Out, Check::None),
        ("MPI_Waitall", "array_of_requests", Kind::Handle, Direction::InOut, Check::Array("count".into())),
        ("MPI_Waitall", "array_of_statuses", Kind::Status, Direction::Out, Check::None),
        ("MPI_Testsome", "array_of_indices", Kind::Integer, Direction::Out, Check::Array("incount".into())),
        ("MPI_Gather", "sendcount", Kind::Count, Direction::In, Check::None),
        ("MPI_Comm_free", "comm", Kind::Handle, Direction::InOut, Check::NotNull),
        ("MPI_Comm_split", "color", Kind::Integer, Direction::In, Check::None),
        ("MPI_Bcast", "root", Kind::Root, Direction::In, Check::None),
        ("MPI_Info_set", "key", Kind::Text, Direction::In, Check::Text("INFO_KEY".into())),
        ("MPI_Info_get_string", "value", Kind::Text, Direction::Out, Check::None),
        ("MPI_Init", "argv", Kind::Strings, Direction::InOut, Check::None),
        ("MPI_Comm_get_attr", "attribute_val", Kind::Pointer, Direction::Out, Check::NotNull),
        ("MPI_Comm_set_attr", "attribute_val", Kind::Pointer, Direction::In, Check::None),
        ("MPI_Topo_test", "status", Kind::Integer, Direction::Out, Check::NotNull),
        ("MPI_T_cvar_get_info", "name", Kind::Text, Direction::Out, Check::None),
    ] {
        let found = argument(procedure, name);
        assert_eq!(
            (found.kind, found.direction, &found.check),
            (kind, direction, &check),
            "{procedure} {name}"
        );
    }
    assert!(model.procedure("MPI_Info_get").unwrap().anytime);
    assert!(!model.procedure("MPI_Send").unwrap().anytime);
    assert_eq!(
        model.procedure("MPI_Attr_get").unwrap().deprecated.as_ref().unwrap().instead,
        "MPI_Comm_get_attr"
    );
}
