//! One C entry point: its Rust types, its argument checks, and how its arguments reach the implementation.

use std::fmt::Write;

use crate::model::{Argument, AtOnce, Check, Form, Model, Procedure};
use crate::prototype::CType;
use crate::{Result, TableError};

/// An argument of the implementation, and how the two C forms make it.
struct Passed {
    name: String,
    ty: String,
    from_int: String,
    from_large: String,
}

/// The Rust type of a C argument or result.
pub(super) fn rust_type(ty: &CType) -> String {
    let base = match ty.base.as_str() {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "double" => "f64",
        other => other,
    };
    if base.ends_with("_function") || base.ends_with("_function_c") {
        return format!("Callback<{base}>");
    }
    let mut text = base.to_owned();
    for length in ty.arrays.iter().skip(1).rev().flatten() {
        text = format!("[{text}; {length}]");
    }
    for level in 0..ty.pointers() {
        let kind = if level == 0 && ty.is_const { "const" } else { "mut" };
        text = format!("*{kind} {text}");
    }
    text
}

/// The name of the implementation in `crate::imp`.
fn imp_name(base: &str) -> String {
    base.trim_start_matches("MPI_").to_lowercase()
}

fn is_wide(ty: &CType) -> bool {
    matches!(ty.base.as_str(), "MPI_Count" | "MPI_Aint")
}

/// How the arguments of both forms reach the implementation they share.
fn passed(int: &Procedure, large: Option<&Procedure>) -> Result<Vec<Passed>> {
    let mut passed = Vec::new();
    for wide in &large.unwrap_or(int).arguments {
        let name = wide.parameter.name.clone();
        let narrow = int.arguments.iter().find(|argument| argument.parameter.name == name);
        passed.push(match narrow {
            Some(narrow) => join(name, &narrow.parameter.ty, &wide.parameter.ty, int)?,
            None => absent(name, wide, int)?,
        });
    }
    if let Some(argument) = int.arguments.iter().find(|a| passed.iter().all(|p| p.name != a.parameter.name)) {
        return Err(TableError(format!("{}_c has no argument {}", int.name(), argument.parameter.name)));
    }
    if int.width {
        passed.push(Passed {
            name: "width".to_owned(),
            ty: "Width".to_owned(),
            from_int: "Width::Int".to_owned(),
            from_large: "Width::Large".to_owned(),
        });
    }
    Ok(passed)
}

fn join(name: String, narrow: &CType, wide: &CType, procedure: &Procedure) -> Result<Passed> {
    let view = |ty: &str, int: &str, large: &str| Passed {
        ty: ty.to_owned(),
        from_int: format!("{int}({name})"),
        from_large: format!("{large}({name})"),
        name: name.clone(),
    };
    let plain =
        |ty: String| Passed { ty, from_int: name.clone(), from_large: name.clone(), name: name.clone() };
    let to_wide = is_wide(wide) && narrow.pointers() == wide.pointers() && narrow.is_const == wide.is_const;
    Ok(if rust_type(narrow) == rust_type(wide) {
        plain(rust_type(wide))
    } else if to_wide && is_wide(narrow) {
        plain(rust_type(&CType { base: "i64".to_owned(), ..wide.clone() }))
    } else if to_wide && wide.is_value() {
        Passed { from_int: format!("i64::from({name})"), ..plain("i64".to_owned()) }
    } else if to_wide && wide.pointers() == 1 && wide.is_const {
        view("IntArray", "IntArray::I32", "IntArray::I64")
    } else if to_wide && wide.pointers() == 1 {
        view("CountOut", "CountOut::I32", "CountOut::I64")
    } else if narrow.base == "MPI_User_function" {
        view("UserFunction", "UserFunction::Int", "UserFunction::Large")
    } else if narrow.base == "MPI_Datarep_conversion_function" {
        view("ConversionFunction", "ConversionFunction::Int", "ConversionFunction::Large")
    } else {
        return Err(TableError(format!(
            "no rule joins the types of {name} in the two forms of {}",
            procedure.name()
        )));
    })
}

fn absent(name: String, wide: &Argument, procedure: &Procedure) -> Result<Passed> {
    let Some(value) = wide.absent.clone() else {
        return Err(TableError(format!(
            "facts.tsv: {} has no argument {name} in its int form; say what is passed (fact absent)",
            procedure.name()
        )));
    };
    let ty = &wide.parameter.ty;
    Ok(if value.starts_with("CountOut") {
        Passed {
            ty: "CountOut".to_owned(),
            from_int: value,
            from_large: format!("CountOut::I64({name})"),
            name,
        }
    } else {
        let ty = if ty.is_value() { "i64".to_owned() } else { rust_type(ty) };
        Passed { ty, from_int: value, from_large: name.clone(), name }
    })
}

/// The base procedure and its large-count form.
fn forms<'a>(model: &'a Model, procedure: &'a Procedure) -> Result<(&'a Procedure, Option<&'a Procedure>)> {
    let find = |name: &str| model.procedure(name).ok_or_else(|| TableError(format!("no procedure {name}")));
    Ok(match &procedure.form {
        Form::Only => (procedure, None),
        Form::Int(large) => (procedure, Some(find(large)?)),
        Form::Large(int) => (find(int)?, Some(procedure)),
        Form::Alias(main) => (find(main)?, None),
    })
}

/// The Rust function that implements a procedure: what a developer writes in `core/abi/src/imp/`.
pub fn signature(model: &Model, procedure: &Procedure) -> Result<String> {
    let (int, large) = forms(model, procedure)?;
    let arguments: Vec<String> =
        passed(int, large)?.iter().map(|argument| format!("{}: {}", argument.name, argument.ty)).collect();
    let result = match int.returns_code() {
        true => "Result<(), Raised>".to_owned(),
        false => rust_type(&int.prototype.result),
    };
    Ok(format!(
        "/// `{}` (section {}).\npub(crate) unsafe fn {}({}) -> {result}",
        int.name(),
        int.section,
        imp_name(int.name()),
        arguments.join(", ")
    ))
}

/// The Rust text of the entry point of an implemented procedure.
pub(super) fn emit(model: &Model, procedure: &Procedure) -> Result<String> {
    let (int, large) = forms(model, procedure)?;
    let is_large = matches!(procedure.form, Form::Large(_));
    let arguments: Vec<String> = passed(int, large)?
        .into_iter()
        .map(|argument| if is_large { argument.from_large } else { argument.from_int })
        .collect();
    let name = procedure.name();
    let parameters: Vec<String> = procedure
        .prototype
        .parameters
        .iter()
        .map(|parameter| format!("{}: {}", parameter.name, rust_type(&parameter.ty)))
        .collect();
    let call = format!("imp::{}({})", imp_name(int.name()), arguments.join(", "));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let result = rust_type(&procedure.prototype.result);
    let _ = writeln!(
        text,
        "/// `{name}` ({} {}).\n#[unsafe(no_mangle)]\nunsafe extern \"C\" fn P{name}({}) -> {result} {{",
        procedure.section,
        procedure.title,
        parameters.join(", "),
    );
    if procedure.at_once.is_some() {
        // The rest is a function of its own with the same arguments, so that the short way saves no registers.
        let _ = writeln!(
            text,
            "#[inline(never)]\nunsafe extern \"C\" fn in_full({}) -> {result} {{",
            parameters.join(", ")
        );
    }
    if procedure.returns_code() {
        let mut checks = String::new();
        if !procedure.anytime && !procedure.is_tool() {
            checks.push_str("gate::check_active()?;\n");
        }
        for argument in &procedure.arguments {
            checks.push_str(&check(argument, procedure));
        }
        // An error without another object belongs to the communicator or the window of the call (section 9.3).
        let object = |base: &str| {
            let named =
                |argument: &&Argument| argument.parameter.ty.base == base && argument.parameter.ty.is_value();
            procedure.arguments.iter().find(named).map(|argument| &argument.parameter.name)
        };
        // Errors of files without a file go to the default file error handler (section 14.7); groups stand for the session
        // they were derived from.
        let of_files = name.starts_with("MPI_File_") && !name.ends_with("_create_errhandler")
            || name.starts_with("MPI_Register_datarep");
        let on = |kind: &str, object: &str| {
            format!("finish_on(\"{name}\", raise::On::{kind}({object}.handle()), call())")
        };
        let result = format!("call(){}", naming(procedure));
        let finish = match (object("MPI_Comm"), object("MPI_Win")) {
            _ if procedure.is_tool() => format!("finish_tool(\"{name}\", call())"),
            _ if of_files => {
                on("File", object("MPI_File").map_or("MPI_File::from_raw(abi::MPI_FILE_NULL)", |file| file))
            }
            (Some(comm), _) => format!("finish_on_comm(\"{name}\", {comm}, {result})"),
            (None, Some(win)) => format!("finish_on_win(\"{name}\", {win}, {result})"),
            (None, None) => match (object("MPI_Session"), object("MPI_Group")) {
                (Some(session), _) => on("Session", session),
                (None, Some(group)) => on("Group", group),
                (None, None) => format!("finish(\"{name}\", {result})"),
            },
        };
        let block = unsafe_block("", &call);
        let _ = writeln!(text, "let call = || {{\n{checks}{block}\n}};");
        let _ = match ends_work(procedure) {
            true => writeln!(text, "let code = raise::{finish};\ngate::push_out();\ncode"),
            false => writeln!(text, "raise::{finish}"),
        };
    } else {
        let _ = writeln!(text, "{}", unsafe_block("", &call));
    }
    if let Some(at_once_where) = procedure.at_once {
        let names: Vec<&str> = procedure.prototype.parameters.iter().map(|p| p.name.as_str()).collect();
        let names = names.join(", ");
        // All have the same arguments, so nothing is saved and moved on the way to them: the entry point is a question and a jump.
        let mut way = |name: &str, form: &str, first: &str| {
            let inline = if at_once_where == AtOnce::Leaf && name == "alone" { "always" } else { "never" };
            // Short forms with locks are not taken where messages wait for company. What goes by rounds is sent by no fabric, but what was
            // begun before it may be.
            let push_out = if name == "alone" && ends_work(procedure) { "gate::push_out();\n" } else { "" };
            let short = format!("imp::{form}::{}({first}{})", imp_name(int.name()), arguments.join(", "));
            let _ = writeln!(
                text,
                "}}\n#[inline({inline})]\nunsafe extern \"C\" fn {name}({}) -> {result} {{\n{};\nif let Some(code) = answer {{\n{push_out}return code;\n}}\n{}",
                parameters.join(", "),
                unsafe_block("let answer = ", &short),
                unsafe_block("", &format!("in_full({names})")),
            );
        };
        let with_threads = match at_once_where {
            AtOnce::Alone => "in_full",
            AtOnce::Always | AtOnce::Leaf | AtOnce::Rounds => "with_threads",
        };
        match at_once_where {
            AtOnce::Alone => {}
            AtOnce::Always | AtOnce::Leaf => way(with_threads, "at_once_lanes", ""),
            AtOnce::Rounds => way(with_threads, "at_once_rounds", "imp::at_once_rounds::Locked, "),
        }
        match at_once_where {
            AtOnce::Alone | AtOnce::Always | AtOnce::Leaf => way("alone", "at_once", ""),
            AtOnce::Rounds => way("alone", "at_once_rounds", "imp::at_once_rounds::Alone::new(), "),
        }
        // Arguments beyond the sixth lie in memory, where the compiler leaves them only for one call that is the last thing done.
        let last = if procedure.prototype.parameters.len() > 6 {
            let choice =
                format!("let way = if gate::is_active_alone() {{ alone }} else {{ {with_threads} }};");
            format!("{choice}\n{}", unsafe_block("", &format!("way({names})")))
        } else {
            let elsewhere = unsafe_block("return ", &format!("{with_threads}({names})"));
            format!(
                "if !gate::is_active_alone() {{\n{elsewhere};\n}}\n{}",
                unsafe_block("", &format!("alone({names})"))
            )
        };
        let _ = writeln!(text, "}}\n{last}");
    }
    text.push_str("}\n");
    Ok(text)
}

/// The calls that begin an operation on a window.
const ONE_SIDED: [&str; 10] = [
    "MPI_Put",
    "MPI_Get",
    "MPI_Accumulate",
    "MPI_Get_accumulate",
    "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",
    "MPI_Rput",
    "MPI_Rget",
    "MPI_Raccumulate",
    "MPI_Rget_accumulate",
];

/// Whether a program may compute for long after this call as if what it sent before had left: all calls that communicate but
/// those that only begin something, after which another call must come. Others that wait do so through `gate::wait_for`.
fn ends_work(procedure: &Procedure) -> bool {
    let name = procedure.name();
    let base = name.strip_suffix("_c").unwrap_or(name);
    let communicates = ["3.", "4.", "6.", "12."].iter().any(|chapter| procedure.section.starts_with(chapter))
        || base.starts_with("MPI_Neighbor_");
    let begins = base.starts_with("MPI_I") && !matches!(base, "MPI_Iprobe" | "MPI_Improbe")
        || base.starts_with("MPI_Start")
        || base.ends_with("_init")
        || base.starts_with("MPI_Pready")
        || ONE_SIDED.contains(&base);
    communicates && !begins && procedure.returns_code()
}

/// What makes an error about one of the datatypes or counts name the argument, for procedures with datatypes.
fn naming(procedure: &Procedure) -> String {
    let list = |keep: &dyn Fn(&Argument) -> bool, value: &dyn Fn(&str) -> String| {
        let kept = procedure.arguments.iter().filter(|argument| keep(argument));
        let pairs: Vec<String> = kept
            .map(|argument| format!("(\"{}\", {})", argument.parameter.name, value(&argument.parameter.name)))
            .collect();
        pairs.join(", ")
    };
    let types = list(
        &|argument| argument.parameter.ty.base == "MPI_Datatype" && argument.parameter.ty.is_value(),
        &str::to_owned,
    );
    if types.is_empty() {
        return String::new();
    }
    let is_count = |argument: &Argument| {
        let ty = &argument.parameter.ty;
        argument.parameter.name.ends_with("count")
            && ty.is_value()
            && argument.check == Check::None
            && matches!(ty.base.as_str(), "int" | "MPI_Count")
    };
    let counts = list(&is_count, &|name| match procedure.name().ends_with("_c") {
        true => name.to_owned(),
        false => format!("i64::from({name})"),
    });
    format!(".map_err(|raised| raised.of_argument(&[{types}], &[{counts}]))")
}

/// A call of the implementation, with the line that says who answers for it.
fn unsafe_block(before: &str, call: &str) -> String {
    // SAFETY: (of the text) an entry point hands on the arguments it was given, for which the program answers.
    format!("// SAFETY: the program keeps the contract of the procedure.\n{before}unsafe {{ {call} }}")
}

/// The lines that check one argument.
fn check(argument: &Argument, procedure: &Procedure) -> String {
    let name = &argument.parameter.name;
    let wide = |name: &str| {
        let parameter = procedure.prototype.parameters.iter().find(|parameter| parameter.name == name);
        match parameter.is_some_and(|parameter| parameter.ty.base == "int") {
            true => format!("i64::from({name})"),
            false => name.to_owned(),
        }
    };
    match &argument.check {
        Check::None => String::new(),
        Check::NotNull => format!("args::out(\"{name}\", {name})?;\n"),
        Check::NotNegative(class) => {
            format!("args::not_negative(ErrorClass::{class}, \"{name}\", {})?;\n", wide(name))
        }
        Check::Text(class) => format!("args::string(ErrorClass::{class}, \"{name}\", {name})?;\n"),
        Check::Array(length) => format!("args::array(\"{name}\", {name}.is_null(), {})?;\n", wide(length)),
    }
}
