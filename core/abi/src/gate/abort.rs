//! The end of the process, or of the job, in the middle of whatever threads do.

use weft_types::PeerId;

use super::GATE;
use crate::say::say;

/// Ends some processes of the job, this one among them, and never returns: the others go on where they have said that
/// they can (section 11.4.2); otherwise as [`abort`].
pub(crate) fn abort_ranks(code: i32, message: &str, ranks: &[u32]) -> ! {
    let _guard = GATE.shared.get().and_then(|shared| shared.lock.try_lock_now());
    // SAFETY: as in `abort`: the process ends here, and of it only the launcher's channel and the transports' word for
    // the others are touched, which are atomic operations on shared memory.
    if let Some(process) = unsafe { &mut *GATE.process.get() }
        && process.launcher.abort_ranks(code, message, ranks)
    {
        process.engine.declare_lost(ranks.iter().map(|&rank| PeerId(rank)));
        say(&format!("weft: {message}; the other processes go on"));
    }
    leave(code)
}

/// Ends the whole job with `code`; never returns. Called when nothing of this process can be trusted to work, so
/// it takes the launcher without the lock if need be.
pub(crate) fn abort(code: i32, message: &str) -> ! {
    let _guard = GATE.shared.get().and_then(|shared| shared.lock.try_lock_now());
    // SAFETY: the process ends here; if another thread is inside `with`, it is not waiting for us, and the launcher's
    // channel is the only part touched.
    if let Some(process) = unsafe { &mut *GATE.process.get() } {
        process.launcher.abort(code, message);
    }
    leave(code)
}

fn leave(code: i32) -> ! {
    // SAFETY: flushing all output streams of C and leaving; both may be called at any time.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(code)
    }
}
