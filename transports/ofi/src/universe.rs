//! How many processes a job has, which providers ask for: the layer over message endpoints makes its completion queue so long
//! that each of them has room in it, by libfabric's own guess (256) longer than some adapters have queues (the kernel's
//! emulated one: 32767 entries).

use crate::environment;

/// By which libfabric is told, for all its providers (fabric(7)).
const VARIABLE: &str = "FI_UNIVERSE_SIZE";
/// What libfabric takes without being told. A queue is never longer than with it, as an adapter may not have longer ones.
const UNTOLD: u32 = 256;
/// Room for processes that a job finds later.
const LEAST: u32 = 16;

/// What a job of so many processes is told to have: twice as many, since both ends of a pair may begin a connection at the same
/// time.
fn size(processes: u32) -> u32 {
    processes.saturating_mul(2).clamp(LEAST, UNTOLD)
}

/// Tells libfabric, which must not have been opened yet, unless the user has.
pub(crate) fn tell(processes: u32) {
    environment::tell(VARIABLE, &size(processes).to_string());
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn small_jobs_need_little_and_large_ones_get_what_they_had() {
        assert_eq!([1, 2, 8, 9, 100, 128, 129, u32::MAX].map(size), [16, 16, 16, 18, 200, 256, 256, 256]);
    }
}
