//! The constants of the standard ABI.

use crate::tsv::Table;
use crate::{Result, TableError};

/// What a constant is in C and in Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantKind {
    /// A predefined handle of that C type; `u32` in Rust.
    Handle(String),
    /// An MPI_T handle of that C type; `usize` in Rust.
    ToolHandle(String),
    /// An integer constant expression; `i32` in Rust.
    Int,
    /// A value of that C enumeration; `i32` in Rust.
    Enum(&'static str),
    /// An `MPI_Offset`; `i64` in Rust.
    Offset,
    /// An address of that C type, with its stars; `usize` in Rust.
    Pointer(String),
}

/// One constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// Its value in our header.
    pub value: i64,
    /// Its type.
    pub kind: ConstantKind,
    /// The group it belongs to, as the table calls it; constants of one group stand together in the header.
    pub group: String,
    /// The constant that has the same value under its main name.
    pub alias_of: Option<String>,
    /// Its meaning in MPI 4.1; none for what MPI 5.0 added.
    pub standard: Option<Standard>,
}

/// What the text of MPI 4.1 says about a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standard {
    /// Sections that define it.
    pub section: String,
    /// Its type in Fortran, `(none)` if it is not there.
    pub fortran_type: String,
    /// Remarks.
    pub notes: String,
}

/// Prefix of the two C enumerations of the tool interface.
const ENUMS: [(&str, &str); 2] =
    [("MPI_T_CB_REQUIRE_", "MPI_T_cb_safety"), ("MPI_T_SOURCE_", "MPI_T_source_order")];

/// The constants whose value is not the ABI table's, because they tell the version of the standard we implement.
const OURS: [(&str, i64); 2] = [("MPI_VERSION", 4), ("MPI_SUBVERSION", 1)];

impl Constant {
    /// Whether it can stand in a `case` label, an array bound and an `#if`.
    pub fn is_integer_expression(&self) -> bool {
        matches!(self.kind, ConstantKind::Int | ConstantKind::Enum(_))
    }
}

/// Reads the constants in the order of the ABI's table and compares them with those of MPI 4.1.
pub(crate) fn load(table: &Table, standard: &Table) -> Result<Vec<Constant>> {
    let mut constants = load_abi(table)?;
    for row in standard.rows() {
        let (name, c_type) = (row.get("name")?, row.get("c_type_or_value")?);
        let Some(constant) = constants.iter_mut().find(|constant| constant.name == name) else {
            // Types, variables, status fields, info keys and Fortran's own constants have no row in the ABI's table.
            let is_value =
                ["int constant expr", "pointer constant", "function", "void * const", "MPI_Offset constant"]
                    .iter()
                    .any(|value| c_type.starts_with(value));
            if name.starts_with("MPI_") && is_value {
                return Err(row.error(format!("{name} is not in abi-constants.tsv")));
            }
            continue;
        };
        let agrees = match &constant.kind {
            ConstantKind::Handle(ty) => c_type == ty || c_type == "matching handle type",
            ConstantKind::ToolHandle(ty) => c_type == ty,
            ConstantKind::Int => {
                c_type.starts_with("int constant expr") || c_type == "preprocessor int macro"
            }
            ConstantKind::Enum(ty) => c_type == *ty,
            ConstantKind::Offset => c_type == "MPI_Offset constant expr",
            ConstantKind::Pointer(_) => matches!(c_type, "function" | "void * const" | "pointer constant"),
        };
        if !agrees {
            return Err(
                row.error(format!("{name} is {c_type} here, but {:?} in abi-constants.tsv", constant.kind))
            );
        }
        constant.standard = Some(Standard {
            section: row.get("section")?.to_owned(),
            fortran_type: row.get("fortran_type")?.to_owned(),
            notes: row.get("notes")?.to_owned(),
        });
    }
    Ok(constants)
}

fn load_abi(table: &Table) -> Result<Vec<Constant>> {
    let mut constants: Vec<Constant> = Vec::new();
    for row in table.rows() {
        let name = row.get("name")?.to_owned();
        let value: i64 = row.get("value")?.parse().map_err(|_| row.error("the value is no integer"))?;
        let value = OURS.iter().find(|(ours, _)| *ours == name).map_or(value, |(_, value)| *value);
        let text = row.get("kind")?;
        let (group, alias_of) = match text.split_once("(alias of ") {
            Some((group, alias)) => (group, Some(alias.trim_end_matches(')').to_owned())),
            None => (text, None),
        };
        let kind = match group.split_once(':') {
            Some(("handle", ty)) => ConstantKind::Handle(ty.to_owned()),
            Some(("pointer", ty)) => ConstantKind::Pointer(ty.to_owned()),
            Some(("error_class", _)) => ConstantKind::Int,
            Some(_) => return Err(row.error(format!("unknown kind {text}"))),
            None => match group {
                "combiner" | "error_class" | "fortran_status" | "int" | "max_string_size" | "mode_bit"
                | "thread_level" | "version" => ConstantKind::Int,
                "mpi_t_int" => match ENUMS.iter().find(|(prefix, _)| name.starts_with(prefix)) {
                    Some((_, ty)) => ConstantKind::Enum(ty),
                    None => ConstantKind::Int,
                },
                "MPI_Offset" => ConstantKind::Offset,
                _ if group.starts_with("MPI_T_") => ConstantKind::ToolHandle(group.to_owned()),
                _ => return Err(row.error(format!("unknown kind {text}"))),
            },
        };
        if let Some(alias) = &alias_of {
            let main = constants.iter().find(|constant| constant.name == *alias);
            if main.is_none_or(|main| main.value != value || main.kind != kind) {
                return Err(row.error(format!("{name} is not the same as {alias}")));
            }
        }
        if constants.iter().any(|constant| constant.name == name) {
            return Err(row.error(format!("{name} is there twice")));
        }
        constants.push(Constant { name, value, kind, group: group.to_owned(), alias_of, standard: None });
    }
    if constants.is_empty() {
        return Err(TableError("abi-constants.tsv has no rows".to_owned()));
    }
    Ok(constants)
}
