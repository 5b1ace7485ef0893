//! The tool information interface (section 15.3), but for performance variables and events. Every call returns a code and runs no
//! error handler; the entries check nothing, so null pointers are dealt with here.

use std::ffi::{c_char, c_int, c_void};

use weft::tool_interface::{CATEGORIES, LEVELS, TEXT_ROOM, ToolInterface, Value, cvar_name, index_of, place};
use weft_types::params::{CHOICES, Kind, Parameters, SWITCH, TABLE};
use weft_types::{Error, ErrorClass, Result as Outcome, abi};

use super::environment::{bytes, write_string};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// Lends the interface to a call that needs it initialised.
pub(super) fn tools<R>(work: impl FnOnce(&mut ToolInterface) -> Outcome<R>) -> Outcome<R> {
    gate::always(|always| {
        always.tools.check()?;
        work(&mut always.tools)
    })
}

pub(super) fn refused(code: c_int, text: &str) -> Raised {
    Error::new(ErrorClass(code), text).into()
}

/// Writes through an OUT pointer unless it is null (section 15.3.3).
///
/// # Safety
/// The program passes null or the address of a variable.
pub(super) unsafe fn fill<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Fails for an OUT pointer that must not be null.
pub(super) fn needed<T>(to: *const T) -> Result<(), Raised> {
    match to.is_null() {
        true => Err(refused(abi::MPI_T_ERR_INVALID, "a null pointer")),
        false => Ok(()),
    }
}

/// Writes a string by the convention of section 15.3.3: as much as there is room for, and the length with the NUL.
///
/// # Safety
/// `length` is null or a variable; `to` is null or has as many characters as `*length` says.
pub(super) unsafe fn fill_string(text: &str, to: *mut c_char, length: *mut c_int) {
    if length.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let room = length.read();
        if !to.is_null() && room > 0 {
            write_string(text.as_bytes(), to, room as usize);
        }
        length.write(text.len() as c_int + 1);
    }
}

/// Whether MPI was started in this process, now or before: the parameters are fixed then.
fn parameters() -> Option<Parameters> {
    gate::started().then(|| {
        gate::from_any_thread();
        gate::with(|process| process.parameters.clone())
    })
}

/// `MPI_T_init_thread` (section 15.3.4). Calls from several threads at once are for programs whose MPI allows them too.
pub(crate) unsafe fn t_init_thread(required: c_int, provided: *mut c_int) -> Result<(), Raised> {
    gate::always(|always| always.tools.begin());
    let several = gate::phase() & gate::MULTIPLE != 0;
    let most = if several { abi::MPI_THREAD_MULTIPLE } else { abi::MPI_THREAD_SERIALIZED };
    // SAFETY: the program passes a variable.
    unsafe { fill(provided, required.clamp(abi::MPI_THREAD_SINGLE, most)) };
    Ok(())
}

/// `MPI_T_finalize` (section 15.3.4).
pub(crate) unsafe fn t_finalize() -> Result<(), Raised> {
    Ok(gate::always(|always| always.tools.end())?)
}

/// The enumerations: handle, name, items.
const ENUMS: [(u32, &str, &[&str]); 2] = [(16, "weft_choice", CHOICES), (17, "weft_switch", SWITCH)];

fn enumeration(enumtype: MPI_T_enum) -> Result<(&'static str, &'static [&'static str]), Raised> {
    tools(|_| Ok(()))?;
    match ENUMS.iter().find(|(handle, ..)| *handle as usize == enumtype.raw()) {
        Some(&(_, name, items)) => Ok((name, items)),
        None => Err(refused(abi::MPI_T_ERR_INVALID, "no such enumeration")),
    }
}

fn enum_of(kind: Kind) -> MPI_T_enum {
    let found = ENUMS.iter().find(|(.., items)| kind == Kind::OneOf(items));
    MPI_T_enum::from_raw(found.map_or(abi::MPI_T_ENUM_NULL as u32, |&(handle, ..)| handle))
}

/// `MPI_T_enum_get_info` (section 15.3.5).
pub(crate) unsafe fn t_enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> Result<(), Raised> {
    let (own_name, items) = enumeration(enumtype)?;
    // SAFETY: the program keeps the convention of strings.
    unsafe {
        fill(num, items.len() as c_int);
        fill_string(own_name, name, name_len);
    }
    Ok(())
}

/// `MPI_T_enum_get_item` (section 15.3.5).
pub(crate) unsafe fn t_enum_get_item(
    enumtype: MPI_T_enum,
    index: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> Result<(), Raised> {
    let (_, items) = enumeration(enumtype)?;
    let item = place(index, items.len())?;
    // SAFETY: as above.
    unsafe {
        fill(value, item as c_int);
        fill_string(items[item], name, name_len);
    }
    Ok(())
}

/// Writes how many there are of something.
///
/// # Safety
/// The program passes null or a variable.
pub(super) unsafe fn fill_number(to: *mut c_int, count: usize) -> Result<(), Raised> {
    tools(|_| Ok(()))?;
    needed(to)?;
    // SAFETY: the caller's promise.
    unsafe { fill(to, count as c_int) };
    Ok(())
}

/// Writes the index of a name.
///
/// # Safety
/// The program passes null or a string, and null or a variable.
pub(super) unsafe fn fill_index<'a>(
    name: *const c_char,
    index: *mut c_int,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), Raised> {
    tools(|_| Ok(()))?;
    needed(name)?;
    needed(index)?;
    // SAFETY: the caller's promise.
    unsafe { fill(index, index_of(names, bytes(name))?) };
    Ok(())
}

/// `MPI_T_cvar_get_num` (section 15.3.6).
pub(crate) unsafe fn t_cvar_get_num(num_cvar: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a variable.
    unsafe { fill_number(num_cvar, TABLE.len()) }
}

fn datatype(kind: Kind) -> (u32, c_int) {
    match kind {
        Kind::Number32 => (abi::MPI_UINT32_T, 1),
        Kind::Number64 => (abi::MPI_UINT64_T, 1),
        Kind::OneOf(_) => (abi::MPI_INT, 1),
        Kind::Text => (abi::MPI_CHAR, TEXT_ROOM as c_int),
    }
}

/// `MPI_T_cvar_get_info` (section 15.3.6).
pub(crate) unsafe fn t_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype_out: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> Result<(), Raised> {
    let row = &TABLE[tools(|_| place(cvar_index, TABLE.len()))?];
    // SAFETY: the program keeps the convention of strings; other places are null or variables.
    unsafe {
        fill_string(&cvar_name(row), name, name_len);
        fill(verbosity, abi::MPI_T_VERBOSITY_USER_BASIC);
        fill(datatype_out, MPI_Datatype::from_raw(datatype(row.kind).0));
        fill(enumtype, enum_of(row.kind));
        fill_string(&format!("{} Values: {}.", row.meaning, row.form), desc, desc_len);
        fill(bind, abi::MPI_T_BIND_NO_OBJECT);
        fill(scope, abi::MPI_T_SCOPE_LOCAL);
    }
    Ok(())
}

/// `MPI_T_cvar_get_index` (section 15.3.6).
pub(crate) unsafe fn t_cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> Result<(), Raised> {
    let names: Vec<String> = TABLE.iter().map(cvar_name).collect();
    // SAFETY: the program passes a string and a variable.
    unsafe { fill_index(name, cvar_index, names.iter().map(String::as_str)) }
}

/// `MPI_T_cvar_handle_alloc` (section 15.3.6): no variable is bound to an object.
pub(crate) unsafe fn t_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_cvar_handle,
    count: *mut c_int,
) -> Result<(), Raised> {
    needed(handle)?;
    let opened = tools(|tools| tools.open_cvar(cvar_index))?;
    let kind = TABLE[tools(|tools| tools.cvar(opened))?].kind;
    // SAFETY: the program passes variables.
    unsafe {
        fill(handle, MPI_T_cvar_handle::from_raw(opened as u32));
        fill(count, datatype(kind).1);
    }
    Ok(())
}

/// `MPI_T_cvar_handle_free` (section 15.3.6).
pub(crate) unsafe fn t_cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> Result<(), Raised> {
    needed(handle)?;
    // SAFETY: the program passes a variable.
    unsafe {
        tools(|tools| tools.close_cvar(handle.read().raw()))?;
        fill(handle, MPI_T_cvar_handle::from_raw(abi::MPI_T_CVAR_HANDLE_NULL as u32));
    }
    Ok(())
}

/// `MPI_T_cvar_read` (section 15.3.6).
pub(crate) unsafe fn t_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> Result<(), Raised> {
    needed(buf)?;
    let started = parameters();
    let value = tools(|tools| tools.read_cvar(tools.cvar(handle.raw())?, started.as_ref()))?;
    // SAFETY: the program passes a buffer of the variable's datatype and count.
    unsafe {
        match value {
            Value::Number32(number) => buf.cast::<u32>().write_unaligned(number),
            Value::Number64(number) => buf.cast::<u64>().write_unaligned(number),
            Value::Item(item) => buf.cast::<c_int>().write_unaligned(item),
            Value::Text(text) => drop(write_string(text.as_bytes(), buf.cast(), TEXT_ROOM)),
        }
    }
    Ok(())
}

/// `MPI_T_cvar_write` (section 15.3.6).
pub(crate) unsafe fn t_cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> Result<(), Raised> {
    needed(buf)?;
    let started = gate::started();
    let index = tools(|tools| tools.cvar(handle.raw()))?;
    // SAFETY: the program passes a buffer of the variable's datatype and count.
    let value = unsafe {
        match TABLE[index].kind {
            Kind::Number32 => Value::Number32(buf.cast::<u32>().read_unaligned()),
            Kind::Number64 => Value::Number64(buf.cast::<u64>().read_unaligned()),
            Kind::OneOf(_) => Value::Item(buf.cast::<c_int>().read_unaligned()),
            Kind::Text => Value::Text(String::from_utf8_lossy(bytes(buf.cast())).into_owned()),
        }
    };
    Ok(tools(|tools| tools.write_cvar(index, value, started))?)
}

/// `MPI_T_category_get_num` (section 15.3.9).
pub(crate) unsafe fn t_category_get_num(num_cat: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a variable.
    unsafe { fill_number(num_cat, CATEGORIES.len()) }
}

/// The variables and parts of a category, as indices.
struct Members {
    name: &'static str,
    meaning: &'static str,
    cvars: Vec<c_int>,
    pvars: Vec<c_int>,
    parts: Vec<c_int>,
}

fn category(index: c_int) -> Outcome<Members> {
    let category = &CATEGORIES[tools(|_| place(index, CATEGORIES.len()))?];
    let all = |any: bool, count: usize| if any { (0..count as c_int).collect() } else { Vec::new() };
    Ok(Members {
        name: category.name,
        meaning: category.meaning,
        cvars: all(category.parameters, TABLE.len()),
        pvars: all(category.levels, LEVELS.len()),
        parts: category.parts.to_vec(),
    })
}

/// `MPI_T_category_get_info` (section 15.3.9).
pub(crate) unsafe fn t_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> Result<(), Raised> {
    let members = category(cat_index)?;
    // SAFETY: the program keeps the convention of strings; other places are null or variables.
    unsafe {
        fill_string(members.name, name, name_len);
        fill_string(members.meaning, desc, desc_len);
        fill(num_cvars, members.cvars.len() as c_int);
        fill(num_pvars, members.pvars.len() as c_int);
        fill(num_categories, members.parts.len() as c_int);
    }
    Ok(())
}

/// `MPI_T_category_get_num_events` (section 15.3.9): there are no events.
pub(crate) unsafe fn t_category_get_num_events(
    cat_index: c_int,
    num_events: *mut c_int,
) -> Result<(), Raised> {
    category(cat_index)?;
    // SAFETY: the program passes a variable.
    unsafe { fill_number(num_events, 0) }
}

/// `MPI_T_category_get_index` (section 15.3.9).
pub(crate) unsafe fn t_category_get_index(name: *const c_char, cat_index: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a string and a variable.
    unsafe { fill_index(name, cat_index, CATEGORIES.iter().map(|category| category.name)) }
}

/// Writes the first `len` indices.
unsafe fn list(found: &[c_int], len: c_int, indices: *mut c_int) -> Result<(), Raised> {
    let room = usize::try_from(len).unwrap_or_default();
    if room > 0 {
        needed(indices)?;
    }
    for (at, &index) in found.iter().take(room).enumerate() {
        // SAFETY: the program passes an array of `len` elements.
        unsafe { indices.add(at).write(index) };
    }
    Ok(())
}

macro_rules! lists {
    ($($name:ident $field:ident $procedure:literal;)*) => {$(
        #[doc = concat!("`", $procedure, "` (section 15.3.9).")]
        pub(crate) unsafe fn $name(cat_index: c_int, len: c_int, indices: *mut c_int) -> Result<(), Raised> {
            // SAFETY: the program passes an array of `len` elements.
            unsafe { list(&category(cat_index)?.$field, len, indices) }
        }
    )*};
}

lists! {
    t_category_get_cvars cvars "MPI_T_category_get_cvars";
    t_category_get_pvars pvars "MPI_T_category_get_pvars";
    t_category_get_categories parts "MPI_T_category_get_categories";
}

/// `MPI_T_category_get_events` (section 15.3.9): there are none.
pub(crate) unsafe fn t_category_get_events(
    cat_index: c_int,
    _len: c_int,
    _indices: *mut c_int,
) -> Result<(), Raised> {
    category(cat_index)?;
    Ok(())
}

/// `MPI_T_category_changed` (section 15.3.9): they never change.
pub(crate) unsafe fn t_category_changed(update_number: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a variable.
    unsafe { fill_number(update_number, 0) }
}
