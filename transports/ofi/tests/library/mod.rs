//! The described providers in place of libfabric.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;
use weft_ofi::offer::Carrier;
use weft_ofi::select::Wanted;
use weft_ofi::use_library;

type Count = unsafe extern "C" fn(*const c_char, *const c_char) -> u64;

/// Where cargo puts the library: beside the folder of this program.
fn file() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let file = own.parent().unwrap().with_file_name("examples").join("libdescribed_fabric.so");
    assert!(
        file.exists(),
        "no {}: cargo test -p weft-ofi builds it, or --example described_fabric",
        file.display()
    );
    file
}

/// A function of the library beside those of libfabric, which stays as long as the program.
pub(crate) fn function(name: &CStr) -> NonNull<c_void> {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let handle = *LIBRARY.get_or_init(|| {
        assert!(use_library(&file()), "before anything is asked of the system's library");
        let path = CString::new(file().to_str().unwrap()).unwrap();
        // SAFETY: a library of ours, whose initialisers are those of Rust, and which stays.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        // SAFETY: the text of the last error, where there was one.
        assert!(!handle.is_null(), "{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
        handle as usize
    });
    // SAFETY: an open library.
    NonNull::new(unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) })
        .expect("it has such a function")
}

/// What the library counts of a provider.
pub(crate) fn count(provider: &str, what: &str) -> u64 {
    let (provider, what) = (CString::new(provider).unwrap(), CString::new(what).unwrap());
    // SAFETY: a function of this type; both texts end with 0.
    unsafe {
        std::mem::transmute::<NonNull<c_void>, Count>(function(c"described_fabric_count"))(
            provider.as_ptr(),
            what.as_ptr(),
        )
    }
}

/// What to ask for to get this provider.
pub(crate) fn wanted(provider: &str, carrier: Option<Carrier>) -> Wanted {
    // Opens the library.
    assert_eq!(count(provider, "nothing"), 0);
    Wanted { between_nodes: true, provider: Some(provider.into()), carrier, ..Wanted::default() }
}
