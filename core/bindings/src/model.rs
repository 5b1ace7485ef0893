//! Every MPI procedure with its typed arguments: what all generated files are made from.

use std::collections::BTreeSet;
use std::path::Path;

use crate::constants::{self, Constant};
use crate::facts::Facts;
use crate::prototype::{CType, Parameter, Prototype};
use crate::sources::{self, Source};
use crate::tsv::Table;
use crate::{Result, TableError};

/// The whole table.
#[derive(Clone, Debug)]
pub struct Model {
    /// All procedures with a C binding, by section and name.
    pub procedures: Vec<Procedure>,
    /// The typedefs of user functions, by name.
    pub callbacks: Vec<Callback>,
    /// The constants of the standard ABI, in the order of its table.
    pub constants: Vec<Constant>,
}

/// The typedef of a user function.
#[derive(Clone, Debug)]
pub struct Callback {
    /// Its prototype, under the name of the typedef.
    pub prototype: Prototype,
    /// Section of the standard.
    pub section: String,
    /// An older name of the same type.
    pub older_name: Option<String>,
}

/// When an entry point asks a short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// At every thread level; with threads the form for lanes.
    Always,
    /// As [`AtOnce::Always`]; for one thread it calls nothing and saves nothing, so that it stands in the entry point.
    Leaf,
    /// Below `MPI_THREAD_SERIALIZED`.
    Alone,
    /// At every thread level; the form is told how it reaches the process.
    Rounds,
}

/// One procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// The right C prototype, whose name is the procedure's.
    pub prototype: Prototype,
    /// Chapter of the standard; 20 is the ABI chapter of MPI 5.0.
    pub chapter: u32,
    /// Section number, such as `3.2.1`.
    pub section: String,
    /// Section title.
    pub title: String,
    /// Its relation to other procedures.
    pub form: Form,
    /// Deprecation, if any.
    pub deprecated: Option<Deprecation>,
    /// The arguments in order, as many as the prototype has parameters.
    pub arguments: Vec<Argument>,
    /// Callable before initialisation and after finalisation (section 11.4.1).
    pub anytime: bool,
    /// The implementation is told which form was called.
    pub width: bool,
    /// The entry point first asks a short form of the implementation, which may have the whole answer.
    pub at_once: Option<AtOnce>,
    /// Name in the `mpi_f08` module, with remarks.
    pub fortran_2008: String,
    /// Name in the `mpi` module and `mpif.h`, with remarks.
    pub fortran: String,
    /// Stages, completeness, locality and blocking as table A.2 of the standard gives them.
    pub semantics: String,
    /// Whether core/abi implements it.
    pub implemented: bool,
}

/// How a procedure is related to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// It stands alone.
    Only,
    /// It has a twin with `MPI_Count` arguments, of that name.
    Int(String),
    /// It is that twin of the procedure of that name.
    Large(String),
    /// It is another name of that procedure.
    Alias(String),
}

/// Since when, and what to use instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// Version of MPI, such as `2.0`.
    pub since: String,
    /// The procedure to use instead.
    pub instead: String,
}

/// An argument of a procedure.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Name and C type.
    pub parameter: Parameter,
    /// What it means.
    pub kind: Kind,
    /// Which way the data goes.
    pub direction: Direction,
    /// The argument that holds the length of this array.
    pub length: Option<String>,
    /// A null pointer has a meaning.
    pub nullable: bool,
    /// What the entry point checks.
    pub check: Check,
    /// What the implementation gets when the `int` form lacks this argument, in Rust.
    pub absent: Option<String>,
}

/// Which way an argument carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read by MPI.
    In,
    /// Written by MPI.
    Out,
    /// Both.
    InOut,
}

/// What an argument means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A handle or an array of handles.
    Handle,
    /// One or more statuses.
    Status,
    /// A number of elements of a datatype.
    Count,
    /// The length of an array argument or of memory.
    Length,
    /// A displacement in elements or bytes.
    Displacement,
    /// A rank in a communicator or group.
    Rank,
    /// The root of a collective.
    Root,
    /// A message tag.
    Tag,
    /// A truth value.
    Flag,
    /// An attribute key.
    Keyval,
    /// Memory that holds a message or window.
    Buffer,
    /// A pointer that only the user understands, or through which MPI returns an address.
    Pointer,
    /// A C string.
    Text,
    /// Arrays of strings: `argv` and the like.
    Strings,
    /// A user function.
    Function,
    /// An address or extent in bytes.
    Address,
    /// A position or size in a file.
    Offset,
    /// A Fortran INTEGER or status.
    Fortran,
    /// Any other integer or enumeration.
    Integer,
}

/// The check of an argument that the entry point makes before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// None here; the implementation checks.
    None,
    /// A result goes through this pointer.
    NotNull,
    /// A negative value raises this class.
    NotNegative(String),
    /// A null string raises this class.
    Text(String),
    /// Not null when that other argument is positive.
    Array(String),
}

impl Model {
    /// Reads and joins the tables of a directory.
    pub fn load(directory: &Path) -> Result<Model> {
        let read = |file: &str| Table::read(directory, file);
        let (api, abi, exceptions) = (read("api.tsv")?, read("abi-functions.tsv")?, read("exceptions.tsv")?);
        let facts_table = read("facts.tsv")?;
        let facts = Facts::load(&facts_table)?;
        let mut implemented = load_implemented(&read("implemented.tsv")?)?;
        let sources = sources::join(&api, &abi, &exceptions)?;
        let mut procedures = Vec::new();
        for (name, source) in &sources {
            let base = name.strip_suffix("_c").filter(|base| sources.contains_key(*base));
            let has_large =
                |name: &str| sources.get(&format!("{name}_c")).is_some_and(|s| s.alias_of.is_none());
            let form = match (&source.alias_of, base) {
                (Some(main), _) => Form::Alias(main.clone()),
                (None, Some(base)) => Form::Large(base.to_owned()),
                (None, None) if has_large(name) => Form::Int(format!("{name}_c")),
                (None, None) => Form::Only,
            };
            let base = base.unwrap_or(name);
            procedures.push(procedure(source, form, base, &facts, implemented.contains(base))?);
        }
        facts.all_used()?;
        implemented.retain(|name| !sources.contains_key(name));
        if let Some(name) = implemented.first() {
            return Err(TableError(format!("implemented.tsv: there is no procedure {name}")));
        }
        procedures
            .sort_by(|a, b| (section_key(&a.section), a.name()).cmp(&(section_key(&b.section), b.name())));
        let constants = constants::load(&read("abi-constants.tsv")?, &read("constants.tsv")?)?;
        Ok(Model { procedures, callbacks: callbacks(&api)?, constants })
    }

    /// The procedure of that name.
    pub fn procedure(&self, name: &str) -> Option<&Procedure> {
        self.procedures.iter().find(|procedure| procedure.name() == name)
    }
}

impl Procedure {
    /// The C name.
    pub fn name(&self) -> &str {
        &self.prototype.name
    }

    /// The name without a large-count suffix.
    pub fn base(&self) -> &str {
        match &self.form {
            Form::Only | Form::Int(_) => self.name(),
            Form::Large(base) | Form::Alias(base) => base,
        }
    }

    /// Whether it belongs to the tool interface: no gate, no error handlers.
    pub fn is_tool(&self) -> bool {
        self.name().starts_with("MPI_T_")
    }

    /// Whether it returns an error code.
    pub fn returns_code(&self) -> bool {
        let result = &self.prototype.result;
        let conversion = self.name().ends_with("_toint");
        result.base == "int" && result.is_value() && !conversion
    }
}

/// The numbers of a section, for sorting.
fn section_key(section: &str) -> Vec<u32> {
    section.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

fn load_implemented(table: &Table) -> Result<BTreeSet<String>> {
    let mut names: Vec<String> = Vec::new();
    for row in table.rows() {
        let name = row.get("name")?.to_owned();
        if names.last().is_some_and(|last| *last >= name) {
            return Err(row.error(format!("{name} is not in alphabetical order, or there twice")));
        }
        names.push(name);
    }
    Ok(names.into_iter().collect())
}

fn callbacks(api: &Table) -> Result<Vec<Callback>> {
    let mut callbacks: Vec<Callback> = Vec::new();
    for row in api.rows() {
        if row.get("kind")? != "callback typedef" {
            continue;
        }
        let (name, text) = (row.get("name")?, row.get("c_prototype")?);
        if let Some(main) = text.strip_prefix("typedef alias of ") {
            let main = callbacks.iter_mut().find(|callback| callback.prototype.name == main);
            main.ok_or_else(|| row.error("the typedef it is an alias of must come first"))?.older_name =
                Some(name.to_owned());
            continue;
        }
        let prototype = Prototype::parse(text).map_err(|error| row.error(error))?;
        let section = row.get("section")?.split(' ').next().unwrap_or("").to_owned();
        callbacks.push(Callback { prototype, section, older_name: None });
    }
    Ok(callbacks)
}

fn procedure(
    source: &Source<'_>,
    form: Form,
    base: &str,
    facts: &Facts<'_>,
    implemented: bool,
) -> Result<Procedure> {
    let prototype = source.prototype.clone();
    let cell = |column: &str| source.api.map_or(Ok(""), |row| row.get(column));
    let (section, title) = match (source.api, &source.alias_of) {
        (Some(row), _) => row.get("section")?.split_once(' ').ok_or_else(|| row.error("no section title"))?,
        (None, Some(_)) => ("4.2.1", "Communication Initialization and Starting with Partitioning"),
        (None, None) => ("20", "Application Binary Interface (MPI 5.0)"),
    };
    let chapter = section.split('.').next().and_then(|number| number.parse().ok());
    let chapter = chapter.ok_or_else(|| TableError(format!("{base}: no chapter in section {section}")))?;
    let deprecated = match cell("deprecated_removed")?.strip_prefix("deprecated ") {
        None => None,
        Some(text) => Some(Deprecation {
            since: text.split(' ').next().unwrap_or("").to_owned(),
            instead: facts
                .get(base, "-", "replacement")
                .ok_or_else(|| TableError(format!("facts.tsv: {base} is deprecated; add its replacement")))?
                .to_owned(),
        }),
    };
    let mut arguments = Vec::new();
    for parameter in &prototype.parameters {
        arguments.push(argument(base, parameter, &prototype, facts)?);
    }
    Ok(Procedure {
        chapter,
        section: section.to_owned(),
        title: title.to_owned(),
        form,
        deprecated,
        arguments,
        anytime: facts.get(base, "-", "anytime").is_some(),
        width: facts.get(base, "-", "width").is_some(),
        at_once: facts.get(base, "-", "at-once").map(|value| match value {
            "alone" => AtOnce::Alone,
            "leaf" => AtOnce::Leaf,
            "rounds" => AtOnce::Rounds,
            _ => AtOnce::Always,
        }),
        fortran_2008: cell("f08_interface")?.to_owned(),
        fortran: cell("mpi_mpif.h_interface")?.to_owned(),
        semantics: cell("a2_semantics")?.to_owned(),
        implemented,
        prototype,
    })
}

fn argument(base: &str, parameter: &Parameter, prototype: &Prototype, facts: &Facts<'_>) -> Result<Argument> {
    let (name, ty) = (parameter.name.as_str(), &parameter.ty);
    let kind = kind(name, ty);
    let direction = match facts.get(base, name, "direction") {
        _ if ty.is_value() || ty.is_const => Direction::In,
        Some("in") => Direction::In,
        Some("inout") => Direction::InOut,
        Some("out") => Direction::Out,
        Some(other) => return Err(TableError(format!("facts.tsv: {base} {name}: no direction {other}"))),
        None if matches!(kind, Kind::Function) => Direction::In,
        None => Direction::Out,
    };
    let length = facts.get(base, name, "length").filter(|_| ty.pointers() > 0).map(str::to_owned);
    if let Some(length) = &length
        && !prototype.parameters.iter().any(|other| other.name == *length)
    {
        return Err(TableError(format!("facts.tsv: {} has no argument {length}", prototype.name)));
    }
    let nullable =
        facts.last(base, name, &["nullable", "checked"]).is_some_and(|(fact, _)| fact == "nullable");
    let negative = facts.get(base, name, "not-negative");
    let class = facts.get(base, name, "class");
    let explicit = facts.last(base, name, &["unchecked", "checked"]).map(|(fact, _)| fact);
    let tool = prototype.name.starts_with("MPI_T_");
    let check = match (kind, &length) {
        _ if tool || explicit == Some("unchecked") => Check::None,
        (Kind::Text, _) if !nullable => Check::Text(class.unwrap_or("ARG").to_owned()),
        (_, Some(length)) => {
            if nullable {
                Check::None
            } else {
                Check::Array(length.clone())
            }
        }
        (Kind::Buffer | Kind::Pointer, _) if explicit == Some("checked") => Check::NotNull,
        (Kind::Buffer | Kind::Pointer | Kind::Function | Kind::Strings | Kind::Status, _) => Check::None,
        _ if ty.is_value() => negative.map_or(Check::None, |class| Check::NotNegative(class.to_owned())),
        _ if !ty.arrays.is_empty() || ty.is_const || nullable => Check::None,
        _ => Check::NotNull,
    };
    let absent = facts.get(base, name, "absent").map(str::to_owned);
    Ok(Argument { parameter: parameter.clone(), kind, direction, length, nullable, check, absent })
}

fn kind(name: &str, ty: &CType) -> Kind {
    match ty.base.as_str() {
        "MPI_Status" | "MPI_F08_status" => Kind::Status,
        "MPI_Fint" => Kind::Fortran,
        "MPI_Aint" if name.contains("disp") => Kind::Displacement,
        "MPI_Aint" => Kind::Address,
        "MPI_Offset" => Kind::Offset,
        "char" if ty.pointers() == 1 => Kind::Text,
        "char" => Kind::Strings,
        "void" => match name {
            "attribute_val" | "extra_state" | "user_data" | "obj_handle" | "baseptr" | "buffer_addr" => {
                Kind::Pointer
            }
            _ => Kind::Buffer,
        },
        "int" | "MPI_Count" => match name {
            "tag" | "sendtag" | "recvtag" => Kind::Tag,
            "root" => Kind::Root,
            "dest" | "source" | "rank" | "target_rank" | "local_leader" | "remote_leader" => Kind::Rank,
            "flag" | "reorder" | "commute" => Kind::Flag,
            "displs" | "sdispls" | "rdispls" | "array_of_displacements" => Kind::Displacement,
            _ if name.ends_with("keyval") => Kind::Keyval,
            _ if name.ends_with("count") || name.ends_with("counts") => Kind::Count,
            "n" | "ndims" | "nnodes" | "length" | "size" | "indegree" | "outdegree" => Kind::Length,
            _ if name.starts_with("max") || name.ends_with("len") || name.ends_with("size") => Kind::Length,
            _ => Kind::Integer,
        },
        base if base.ends_with("_function") || base.ends_with("_function_c") => Kind::Function,
        "MPI_T_cb_safety" | "MPI_T_source_order" => Kind::Integer,
        _ => Kind::Handle,
    }
}
