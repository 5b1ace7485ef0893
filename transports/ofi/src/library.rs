//! libfabric itself: found and opened when it is first asked for, once in a process, and never closed.

use crate::signals;
use crate::sys::{self, fi_fabric_attr, fi_info, fid_fabric};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weft_types::{Error, ErrorClass, Result};

/// The interface that is asked for: what 1.17 offers, which 2.x offers too.
const WANTED: u32 = sys::version(1, 17);
/// The symbol version of the structures in [`sys`].
const LEVEL: &CStr = c"FABRIC_1.3";
const FILE: &CStr = c"libfabric.so.1";

/// The file in its place.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Has this process use another file in place of the system's libfabric, such as described devices. Its functions are found by their
/// names alone and must be of the versions that are asked of the system's. To be said before anything else is asked of this crate;
/// `false`: it was said before.
pub fn use_library(file: &Path) -> bool {
    OTHER.set(file.to_owned()).is_ok()
}

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;

/// The functions of the library that are no entries of its objects' tables.
pub(crate) struct Library {
    getinfo: GetInfo,
    pub(crate) freeinfo: unsafe extern "C" fn(*mut fi_info),
    dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub(crate) fabric: unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    version: u32,
    path: String,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "libfabric {}.{} ({})", self.version >> 16, self.version & 0xffff, self.path)
    }
}

/// Opens the library, or tells what was found before.
///
/// # Errors
/// It is not installed, or too old; what was looked for and the remedy.
pub(crate) fn library() -> Result<&'static Library> {
    static FOUND: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    FOUND.get_or_init(Library::open).as_ref().map_err(|text| Error::new(ErrorClass::OTHER, text.clone()))
}

/// Text of the dynamic linker's last error.
fn linker_error() -> String {
    // SAFETY: the text is valid until the next call of the linker by this thread; it is copied at once.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

impl Library {
    fn open() -> std::result::Result<Library, String> {
        let other = OTHER.get().map(|other| CString::new(other.as_os_str().as_bytes()));
        let other = other
            .transpose()
            .map_err(|_| "the name of the file in place of libfabric has a zero".to_owned())?;
        let file = other.as_deref().unwrap_or(FILE);
        // SAFETY: loading runs the constructors of libfabric and of what it links with, as for any program linked with it.
        let handle =
            signals::keeping(|| unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) });
        if handle.is_null() {
            return Err(format!(
                "libfabric cannot be opened ({}): install it (Debian: libfabric1), or put its folder on LD_LIBRARY_PATH",
                linker_error()
            ));
        }
        let symbol = |name: &CStr, level: &CStr| {
            // SAFETY: a handle that was just opened, and C strings.
            let found = unsafe {
                match other {
                    Some(_) => libc::dlsym(handle, name.as_ptr()),
                    None => libc::dlvsym(handle, name.as_ptr(), level.as_ptr()),
                }
            };
            if found.is_null() {
                Err(format!(
                    "libfabric has no {}@{}: 1.17 and later have it ({})",
                    name.to_string_lossy(),
                    level.to_string_lossy(),
                    linker_error()
                ))
            } else {
                Ok(found)
            }
        };
        // SAFETY: symbols of these names and versions are functions of these types (fabric.h of 1.17, compared by the test
        // `headers`).
        unsafe {
            let version: unsafe extern "C" fn() -> u32 =
                std::mem::transmute(symbol(c"fi_version", c"FABRIC_1.0")?);
            let mut place: libc::Dl_info = std::mem::zeroed();
            let known = libc::dladdr(version as *const c_void, &mut place) != 0 && !place.dli_fname.is_null();
            let file = if known { place.dli_fname } else { file.as_ptr() };
            let library = Library {
                getinfo: std::mem::transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo", LEVEL)?),
                freeinfo: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut fi_info)>(symbol(
                    c"fi_freeinfo",
                    LEVEL,
                )?),
                dupinfo: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
                >(symbol(c"fi_dupinfo", LEVEL)?),
                fabric: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
                >(symbol(c"fi_fabric", c"FABRIC_1.1")?),
                strerror: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(
                    symbol(c"fi_strerror", c"FABRIC_1.0")?,
                ),
                version: version(),
                path: CStr::from_ptr(file).to_string_lossy().into_owned(),
            };
            if library.version < WANTED {
                return Err(format!("{library} is too old: 1.17 or later is needed"));
            }
            Ok(library)
        }
    }

    /// What an error number of the library means (the negative results of its functions, made positive).
    pub(crate) fn reason(&self, number: i64) -> String {
        // SAFETY: answers a static text for every number.
        let text = unsafe { (self.strerror)(number.unsigned_abs() as c_int) };
        if text.is_null() {
            return format!("error {number}");
        }
        // SAFETY: a C string, as it is not null.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// An empty description to be filled in and asked with; freed on drop.
    pub(crate) fn blank(&'static self) -> Result<InfoList> {
        // SAFETY: null asks for an empty one with all its parts.
        let info = unsafe { (self.dupinfo)(std::ptr::null()) };
        if info.is_null() {
            return Err(Error::new(ErrorClass::NO_MEM, "libfabric has no memory for a description"));
        }
        Ok(InfoList { library: self, first: info })
    }

    /// What the library offers for `hints`; empty where there is nothing.
    pub(crate) fn offers(&'static self, hints: &InfoList) -> Result<InfoList> {
        let mut first = std::ptr::null_mut();
        // SAFETY: the hints were made by `blank` and their texts, where set, are C strings of the C allocator.
        let result =
            unsafe { (self.getinfo)(WANTED, std::ptr::null(), std::ptr::null(), 0, hints.first, &mut first) };
        match -result {
            0 => Ok(InfoList { library: self, first }),
            sys::FI_ENODATA => Ok(InfoList { library: self, first: std::ptr::null_mut() }),
            number => Err(Error::new(
                ErrorClass::OTHER,
                format!("{self} cannot say what it offers: {}", self.reason(i64::from(number))),
            )),
        }
    }
}

/// A list of descriptions that belongs to the library.
pub(crate) struct InfoList {
    library: &'static Library,
    first: *mut fi_info,
}

// SAFETY: the list is plain memory of the C allocator, used by its owner only.
unsafe impl Send for InfoList {}

impl InfoList {
    /// The descriptions in the library's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &fi_info> {
        // SAFETY: null or a valid element of the list, which lives as long as the borrow; so is every next one.
        std::iter::successors(unsafe { self.first.as_ref() }, |info| unsafe { info.next.as_ref() })
    }

    /// The first description, to be filled in.
    pub(crate) fn first(&mut self) -> *mut fi_info {
        self.first
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: it came from the library and is given back once.
            unsafe { (self.library.freeinfo)(self.first) }
        }
    }
}
