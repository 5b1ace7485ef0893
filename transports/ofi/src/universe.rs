//! How many processes a job has, which providers ask for: the layer over message endpoints makes its completion queue so long that each of
//! them has room in it, by libfabric's own guess (256) longer than some adapters have queues (the kernel's emulated one: 32767 entries).

use std::ffi::CString;

/// By which libfabric is told, for all its providers (fabric(7)).
const VARIABLE: &str = "FI_UNIVERSE_SIZE";
/// What libfabric takes without being told. A queue is never longer than with it, as an adapter may not have longer ones.
const UNTOLD: u32 = 256;
/// Room for processes that a job finds later.
const LEAST: u32 = 16;

/// What a job of so many processes is told to have: twice as many, since both ends of a pair may begin a connection at the same time.
fn size(processes: u32) -> u32 {
    processes.saturating_mul(2).clamp(LEAST, UNTOLD)
}

/// Tells libfabric, which must not have been opened yet, unless the user has.
pub(crate) fn tell(processes: u32) {
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let name = CString::new(VARIABLE).expect("letters");
    let value = CString::new(size(processes).to_string()).expect("digits");
    // SAFETY: two C strings, which are copied. Another thread that reads the environment by a pointer at this very moment would be at
    // risk: this runs once, when MPI is opened.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 0) };
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn small_jobs_need_little_and_large_ones_get_what_they_had() {
        assert_eq!([1, 2, 8, 9, 100, 128, 129, u32::MAX].map(size), [16, 16, 16, 18, 200, 256, 256, 256]);
    }
}
