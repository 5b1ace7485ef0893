//! How the members of a communicator leave its cells together.
//!
//! Cells end before their communicator when a member is lost, or when the members' calls do not match. One member finds that
//! out, at some call of its own, while others are some calls ahead or behind and may not look at anything for long. From some
//! call on all must go another way, and it must be the same call at all of them. Calls are numbered alike at all members.
//!
//! - Before it does anything in the cells for a call, a member says that it has *begun* it, and then looks whether there is a
//!   *cause* to leave.
//! - Who finds a cause sets it, unless another did, and its bit in *gone*: it writes nothing more, and whoever waits for it
//!   leaves in its turn.
//! - The cells *end* before the first call that nobody had begun by then. Every member that sees the cause when it
//!   begins a call finds that number out, and the first that says it decides.
//!
//! So every call below the end was begun in the cells, and ends there, well or with the cause; calls from the end on go another
//! way at all members. Nobody waits for anybody to agree.
//!
//! # Memory ordering
//! Beginning and finding the end are Dekker's pattern: a beginner stores `begun`, passes the light barrier and loads `cause`; a
//! finder, for whom the cause is set, passes the heavy barrier and loads all `begun` (see [`crate::bell`] for the barriers). So
//! of a member's call either the finder sees that it was begun, and the end lies behind it; or the member sees the cause before
//! it does anything for the call, and asks for the end itself. The finder need not be who set the cause: it has seen it, and
//! the barrier orders that, too. Who sees the cause takes back that it has begun before it asks, so that it does not push the
//! end on; when another finder saw it meanwhile, the end lies behind that call, and the member begins it after all. `gone` is
//! set with Release after the member's last stamp and loaded with Acquire before stamps are looked at again: who misses a stamp
//! then will miss it for ever.
//!
//! `tests/loom_rounds.rs` checks that no call goes one way at one member and the other way at another.

/// The words of the protocol, so that the model checker can stand in.
pub trait Words {
    /// Says that this member has begun all calls below that number (relaxed).
    fn set_begun(&self, calls: u32);
    /// The calls that a member has begun (relaxed).
    fn begun(&self, member: u32) -> u32;
    /// Orders a store before a load of what others store before their heavy barrier.
    fn light_barrier(&self);
    /// Makes all members pass a full barrier.
    fn heavy_barrier(&self);
    /// Why the members leave; 0: they do not (Acquire).
    fn cause(&self) -> u64;
    /// Sets the cause, unless there is one (Acquire and Release).
    fn set_cause(&self, cause: u64);
    /// The end as [`end`] keeps it; 0: not known (Acquire).
    fn end(&self) -> u64;
    /// Sets the end, unless it is known; what it is then (Acquire and Release).
    fn set_end(&self, end: u64) -> u64;
    /// Those that have left, one bit each (Acquire).
    fn gone(&self) -> u64;
    /// Adds this member to them (Release).
    fn go(&self);
}

/// Begins the call of that number; false when there is a cause to leave: then [`may_still_begin`] has the answer.
#[inline]
pub fn begin(words: &impl Words, number: u32) -> bool {
    words.set_begun(number.wrapping_add(1));
    words.light_barrier();
    words.cause() == 0
}

/// Whether a call goes by the cells though there is a cause to leave. Only for a call for which nothing was done yet.
#[cold]
pub fn may_still_begin(words: &impl Words, members: u32, number: u32) -> bool {
    words.set_begun(number);
    let before_end = (end(words, members).wrapping_sub(number) as i32) > 0;
    if before_end {
        words.set_begun(number.wrapping_add(1));
    }
    before_end
}

/// The first call that goes another way. Numbers wrap; members are never half of them apart.
fn end(words: &impl Words, members: u32) -> u32 {
    const KNOWN: u64 = 1 << 32;
    let known = words.end();
    if known != 0 {
        return known as u32;
    }
    words.heavy_barrier();
    let later = |one: u32, other: u32| if (other.wrapping_sub(one) as i32) > 0 { other } else { one };
    let begun = (0..members).map(|member| words.begun(member)).reduce(later).unwrap_or(0);
    words.set_end(KNOWN | u64::from(begun)) as u32
}
