//! Performance variables (section 15.3.7), and the procedures of events (section 15.3.8), of which there are none.

use std::ffi::{c_char, c_int, c_void};

use weft::tool_interface::{LEVELS, place};
use weft_types::abi;

use super::tools::{fill, fill_index, fill_number, fill_string, needed, refused, tools};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;

/// `MPI_T_pvar_get_num` (section 15.3.7).
pub(crate) unsafe fn t_pvar_get_num(num_pvar: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a variable.
    unsafe { fill_number(num_pvar, LEVELS.len()) }
}

/// `MPI_T_pvar_get_info` (section 15.3.7).
pub(crate) unsafe fn t_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> Result<(), Raised> {
    let level = &LEVELS[tools(|_| place(pvar_index, LEVELS.len()))?];
    // SAFETY: the program keeps the convention of strings; other places are null or variables.
    unsafe {
        fill_string(level.name, name, name_len);
        fill(verbosity, abi::MPI_T_VERBOSITY_USER_DETAIL);
        fill(var_class, level.class());
        fill(datatype, MPI_Datatype::from_raw(abi::MPI_UNSIGNED_LONG_LONG));
        fill(enumtype, MPI_T_enum::from_raw(abi::MPI_T_ENUM_NULL as u32));
        fill_string(level.meaning, desc, desc_len);
        fill(bind, abi::MPI_T_BIND_NO_OBJECT);
        fill(readonly, 1);
        fill(continuous, 1);
        fill(atomic, 0);
    }
    Ok(())
}

/// `MPI_T_pvar_get_index` (section 15.3.7).
pub(crate) unsafe fn t_pvar_get_index(
    name: *const c_char,
    var_class: c_int,
    pvar_index: *mut c_int,
) -> Result<(), Raised> {
    // Variables of another class keep their places, under a name that no string has.
    let named = LEVELS.iter().map(|level| if level.class() == var_class { level.name } else { "\0" });
    // SAFETY: the program passes a string and a variable.
    unsafe { fill_index(name, pvar_index, named) }
}

/// `MPI_T_pvar_session_create` (section 15.3.7).
pub(crate) unsafe fn t_pvar_session_create(pe_session: *mut MPI_T_pvar_session) -> Result<(), Raised> {
    needed(pe_session)?;
    let session = tools(|tools| Ok(tools.open_session()))?;
    // SAFETY: the program passes a variable.
    unsafe { fill(pe_session, MPI_T_pvar_session::from_raw(session as u32)) };
    Ok(())
}

/// `MPI_T_pvar_session_free` (section 15.3.7).
pub(crate) unsafe fn t_pvar_session_free(pe_session: *mut MPI_T_pvar_session) -> Result<(), Raised> {
    needed(pe_session)?;
    // SAFETY: the program passes a variable.
    unsafe {
        tools(|tools| tools.close_session(pe_session.read().raw()))?;
        fill(pe_session, MPI_T_pvar_session::from_raw(abi::MPI_T_PVAR_SESSION_NULL as u32));
    }
    Ok(())
}

/// `MPI_T_pvar_handle_alloc` (section 15.3.7): no variable is bound to an object.
pub(crate) unsafe fn t_pvar_handle_alloc(
    pe_session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_pvar_handle,
    count: *mut c_int,
) -> Result<(), Raised> {
    needed(handle)?;
    let opened = tools(|tools| tools.open_pvar(pe_session.raw(), pvar_index))?;
    // SAFETY: the program passes variables.
    unsafe {
        fill(handle, MPI_T_pvar_handle::from_raw(opened as u32));
        fill(count, 1);
    }
    Ok(())
}

/// `MPI_T_pvar_handle_free` (section 15.3.7).
pub(crate) unsafe fn t_pvar_handle_free(
    pe_session: MPI_T_pvar_session,
    handle: *mut MPI_T_pvar_handle,
) -> Result<(), Raised> {
    needed(handle)?;
    // SAFETY: the program passes a variable.
    unsafe {
        tools(|tools| tools.close_pvar(pe_session.raw(), handle.read().raw()))?;
        fill(handle, MPI_T_pvar_handle::from_raw(abi::MPI_T_PVAR_HANDLE_NULL as u32));
    }
    Ok(())
}

/// `MPI_T_pvar_read` (section 15.3.7). Outside MPI nothing is held.
pub(crate) unsafe fn t_pvar_read(
    pe_session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> Result<(), Raised> {
    needed(buf)?;
    let level = tools(|tools| tools.pvar(pe_session.raw(), handle.raw()))?;
    gate::from_any_thread();
    let active = gate::phase() & (gate::WORLD | gate::SESSION) != 0;
    let value = if active { gate::with(|process| (level.of)(process)) } else { 0 };
    // SAFETY: the program passes room for one unsigned long long.
    unsafe { buf.cast::<u64>().write_unaligned(value) };
    Ok(())
}

macro_rules! changes {
    ($($name:ident($($extra:ident: $ty:ty)?) $refusal:ident $procedure:literal;)*) => {$(
        #[doc = concat!("`", $procedure, "` (section 15.3.7): every variable is continuous and can only be read.")]
        pub(crate) unsafe fn $name(
            pe_session: MPI_T_pvar_session,
            handle: MPI_T_pvar_handle,
            $($extra: $ty,)?
        ) -> Result<(), Raised> {
            Ok(tools(|tools| tools.change_pvar(pe_session.raw(), handle.raw(), abi::$refusal))?)
        }
    )*};
}

changes! {
    t_pvar_start() MPI_T_ERR_PVAR_NO_STARTSTOP "MPI_T_pvar_start";
    t_pvar_stop() MPI_T_ERR_PVAR_NO_STARTSTOP "MPI_T_pvar_stop";
    t_pvar_reset() MPI_T_ERR_PVAR_NO_WRITE "MPI_T_pvar_reset";
}

macro_rules! refusals {
    ($($name:ident($buf:ident: $ty:ty) $refusal:ident $procedure:literal;)*) => {$(
        #[doc = concat!("`", $procedure, "` (section 15.3.7): for one variable, and every variable can only be read.")]
        pub(crate) unsafe fn $name(
            pe_session: MPI_T_pvar_session,
            handle: MPI_T_pvar_handle,
            _: $ty,
        ) -> Result<(), Raised> {
            tools(|tools| tools.pvar(pe_session.raw(), handle.raw()))?;
            Err(refused(abi::$refusal, "the performance variable can only be read"))
        }
    )*};
}

refusals! {
    t_pvar_write(buf: *const c_void) MPI_T_ERR_PVAR_NO_WRITE "MPI_T_pvar_write";
    t_pvar_readreset(buf: *mut c_void) MPI_T_ERR_PVAR_NO_ATOMIC "MPI_T_pvar_readreset";
}

/// `MPI_T_event_get_num` (section 15.3.8).
pub(crate) unsafe fn t_event_get_num(num_events: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a variable.
    unsafe { fill_number(num_events, 0) }
}

/// `MPI_T_source_get_num` (section 15.3.8).
pub(crate) unsafe fn t_source_get_num(num_sources: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a variable.
    unsafe { fill_number(num_sources, 0) }
}

/// `MPI_T_event_get_index` (section 15.3.8).
pub(crate) unsafe fn t_event_get_index(name: *const c_char, event_index: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the program passes a string and a variable.
    unsafe { fill_index(name, event_index, []) }
}

macro_rules! nothing_there {
    ($($name:ident($($ty:ty),*) $code:ident $procedure:literal;)*) => {$(
        #[doc = concat!("`", $procedure, "` (section 15.3.8): there are no sources and no events, so its argument names none.")]
        #[allow(clippy::too_many_arguments, reason = "as the standard has it")]
        pub(crate) unsafe fn $name($(_: $ty),*) -> Result<(), Raised> {
            tools(|_| Ok(()))?;
            Err(refused(abi::$code, "there are no sources and no events"))
        }
    )*};
}

nothing_there! {
    t_source_get_info(c_int, *mut c_char, *mut c_int, *mut c_char, *mut c_int, *mut MPI_T_source_order, *mut MPI_Count, *mut MPI_Count, *mut MPI_Info) MPI_T_ERR_INVALID_INDEX "MPI_T_source_get_info";
    t_source_get_timestamp(c_int, *mut MPI_Count) MPI_T_ERR_INVALID_INDEX "MPI_T_source_get_timestamp";
    t_event_get_info(c_int, *mut c_char, *mut c_int, *mut c_int, *mut MPI_Datatype, *mut MPI_Aint, *mut c_int, *mut MPI_T_enum, *mut MPI_Info, *mut c_char, *mut c_int, *mut c_int) MPI_T_ERR_INVALID_INDEX "MPI_T_event_get_info";
    t_event_handle_alloc(c_int, *mut c_void, MPI_Info, *mut MPI_T_event_registration) MPI_T_ERR_INVALID_INDEX "MPI_T_event_handle_alloc";
    t_event_handle_set_info(MPI_T_event_registration, MPI_Info) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_handle_set_info";
    t_event_handle_get_info(MPI_T_event_registration, *mut MPI_Info) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_handle_get_info";
    t_event_register_callback(MPI_T_event_registration, MPI_T_cb_safety, MPI_Info, *mut c_void, Callback<MPI_T_event_cb_function>) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_register_callback";
    t_event_callback_set_info(MPI_T_event_registration, MPI_T_cb_safety, MPI_Info) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_callback_set_info";
    t_event_callback_get_info(MPI_T_event_registration, MPI_T_cb_safety, *mut MPI_Info) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_callback_get_info";
    t_event_handle_free(MPI_T_event_registration, *mut c_void, Callback<MPI_T_event_free_cb_function>) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_handle_free";
    t_event_set_dropped_handler(MPI_T_event_registration, Callback<MPI_T_event_dropped_cb_function>) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_set_dropped_handler";
    t_event_read(MPI_T_event_instance, c_int, *mut c_void) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_read";
    t_event_copy(MPI_T_event_instance, *mut c_void) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_copy";
    t_event_get_timestamp(MPI_T_event_instance, *mut MPI_Count) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_get_timestamp";
    t_event_get_source(MPI_T_event_instance, *mut c_int) MPI_T_ERR_INVALID_HANDLE "MPI_T_event_get_source";
}
