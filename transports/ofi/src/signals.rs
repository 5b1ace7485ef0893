//! Signal handlers, which belong to the program.
//!
//! What libfabric links with may install some when it is loaded: libinfinipath (PSM of old InfiniPath devices, which Debian's libfabric
//! links with) catches the signals of crashes, SIGINT and SIGTERM and calls `exit` there. A process that crashed would then seem to have
//! left by itself, with exit code 1 and no core file, and its exit functions would run amid whatever was interrupted.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The signals that were there before real-time ones, which no library takes for itself: 1 to 31 on Linux.
const SIGNALS: std::ops::Range<c_int> = 1..32;

/// How the process takes `signal`; `None` for a number that names none.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: asks only, into room of that type; filled in where the answer is 0.
    unsafe {
        (libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) == 0).then(|| found.assume_init())
    }
}

/// Runs `work` and then gives back every signal whose handler it has changed.
///
/// Not for a moment at which other threads install handlers: this runs once, when MPI is opened.
pub(crate) fn keeping<R>(work: impl FnOnce() -> R) -> R {
    let before: Vec<_> = SIGNALS.map(|signal| (signal, action(signal))).collect();
    let result = work();
    for (signal, before) in before {
        let (Some(before), Some(now)) = (before, action(signal)) else { continue };
        if now.sa_sigaction != before.sa_sigaction {
            // SAFETY: what the process had there a moment ago.
            unsafe { libc::sigaction(signal, &before, std::ptr::null_mut()) };
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn handler(_: c_int) {}

    fn install(signal: c_int) {
        // SAFETY: a handler that does nothing, for a signal that nobody here sends.
        unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    }

    #[test]
    fn a_handler_installed_meanwhile_is_gone_and_one_of_before_stays() {
        install(libc::SIGUSR1);
        let answer = keeping(|| {
            install(libc::SIGUSR2);
            7
        });
        assert_eq!(answer, 7);
        let of = |signal| action(signal).expect("a signal").sa_sigaction;
        assert_eq!(of(libc::SIGUSR2), libc::SIG_DFL);
        assert_eq!(of(libc::SIGUSR1), handler as *const () as libc::sighandler_t);
    }
}
