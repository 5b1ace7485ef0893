//! libpmix itself: found and opened when a PMIx launcher is to be met, once in a process, and never closed.

use crate::sys::{pmix_info, pmix_pdata, pmix_proc, pmix_value};
use libc::{c_char, c_int, size_t};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use std::ffi::CStr;
use std::sync::OnceLock;

/// The name since PMIx 2; those of 3, 4 and 5 can take each other's place, whatever the launcher was built with.
const NAME: &str = "libpmix.so.2";

/// A structure with the library's functions under their own names, and how they are found. Those behind `optional` may be missing.
macro_rules! functions {
    ($(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)* optional $(fn $maybe:ident($($given:ty),*) $(-> $got:ty)?;)*) => {
        /// The functions that are used.
        #[allow(non_snake_case, reason = "the names are those of the header")]
        pub(crate) struct Library {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($given),*) $(-> $got)?>,)*
        }

        impl Library {
            fn find(handle: &Handle) -> Result<Library, libloading::Error> {
                Ok(Library {
                    // SAFETY: the types are those of the header's declarations, which are the same in PMIx 3, 4 and 5.
                    $($name: unsafe { *handle.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    // SAFETY: as above.
                    $($maybe: unsafe { handle.get(concat!(stringify!($maybe), "\0").as_bytes()) }.ok().map(|found| *found),)*
                })
            }
        }
    };
}

functions! {
    fn PMIx_Init(*mut pmix_proc, *mut pmix_info, size_t) -> c_int;
    fn PMIx_Finalize(*const pmix_info, size_t) -> c_int;
    fn PMIx_Initialized() -> c_int;
    fn PMIx_Abort(c_int, *const c_char, *mut pmix_proc, size_t) -> c_int;
    fn PMIx_Put(u8, *const c_char, *mut pmix_value) -> c_int;
    fn PMIx_Commit() -> c_int;
    fn PMIx_Fence(*const pmix_proc, size_t, *const pmix_info, size_t) -> c_int;
    fn PMIx_Get(*const pmix_proc, *const c_char, *const pmix_info, size_t, *mut *mut pmix_value) -> c_int;
    fn PMIx_Publish(*const pmix_info, size_t) -> c_int;
    fn PMIx_Lookup(*mut pmix_pdata, size_t, *const pmix_info, size_t) -> c_int;
    fn PMIx_Unpublish(*mut *mut c_char, *const pmix_info, size_t) -> c_int;
    fn PMIx_Resolve_nodes(*const c_char, *mut *mut c_char) -> c_int;
    fn PMIx_Resolve_peers(*const c_char, *const c_char, *mut *mut pmix_proc, *mut size_t) -> c_int;
    fn PMIx_Error_string(c_int) -> *const c_char;
    fn PMIx_Get_version() -> *const c_char;
    optional
    // Since 4; a macro of the header before.
    fn PMIx_Value_destruct(*mut pmix_value);
}

impl Library {
    /// What a status of the library means, in its words.
    pub(crate) fn reason(&self, status: c_int) -> String {
        // SAFETY: answers a static text for every number.
        text(unsafe { (self.PMIx_Error_string)(status) }).unwrap_or_else(|| format!("status {status}"))
    }

    /// The library's name of itself.
    pub(crate) fn version(&self) -> String {
        // SAFETY: answers a static text at any time.
        let text = text(unsafe { (self.PMIx_Get_version)() }).unwrap_or_default();
        // "OpenPMIx 4.2.2 (PMIx Standard: 4.2, ...)"
        text.split(['(', ',']).next().unwrap_or_default().trim().to_owned()
    }
}

/// A text of the library's.
fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the callers' texts are null or static C strings.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The library, or why there is none and what to do. The first call loads it.
pub(crate) fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| load(NAME)).as_ref().map_err(String::as_str)
}

fn load(name: &str) -> Result<Library, String> {
    let why = |error: libloading::Error| {
        format!(
            "{name} cannot be used ({error}): install it (Debian: libpmix2, elsewhere pmix), or put the folder of the launcher's own \
             on LD_LIBRARY_PATH"
        )
    };
    // The library's plugins are linked with it and need none of its names made public.
    // SAFETY: its initialisers are those of an ordinary shared library.
    let handle = unsafe { Handle::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(why)?;
    let library = Library::find(&handle).map_err(why)?;
    std::mem::forget(handle);
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_is_named_with_the_remedy() {
        for name in ["libpmix-that-is-nowhere.so", "libc.so.6"] {
            let why = load(name).err().expect("no libpmix");
            assert!(why.contains(name) && why.contains("libpmix2"), "{why}");
        }
    }
}
