//! Whether a sender that may be asleep is woken to copy its part of a long message.
//!
//! Where its core is its own, it is awake after some ten microseconds, while its receiver reads the front. Where another program computes there
//! meanwhile, it may take milliseconds, in which the receiver could have read all. Nobody says which it is, so the receiver takes the time for
//! which it waits when it has read the front: after a sender that was late it reads the next messages alone, the more the more often that was so.
//! Time is handed in, so all of this is pure.

/// Nanoseconds that a sender may be late when the front is read, and bytes that it writes meanwhile in a nanosecond, on a machine that is slow.
const LATE: u64 = 50_000;
const PACE: u64 = 4;
/// Messages that are read alone after a sender that was late, and how often that number doubles.
const ALONE: u32 = 8;
const DOUBLINGS: u8 = 8;

/// What is known of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Naps {
    /// Messages still to be read alone.
    alone: u32,
    /// How often in a row it was late.
    late: u8,
    /// When the front was read whose sender is waited for, and how long that may take; 0: it is not.
    since: u64,
    allowed: u64,
}

impl Naps {
    /// Whether it is woken for the next message. Once for a message.
    pub fn wakes(&mut self) -> bool {
        if self.alone > 0 {
            self.alone -= 1;
            return false;
        }
        self.since = 0;
        true
    }

    /// The front is read at `now`, and its part of so many bytes is not here.
    pub fn waits(&mut self, bytes: u64, now: u64) {
        (self.since, self.allowed) = (now.max(1), LATE + bytes / PACE);
    }

    /// Its part is here at `now`.
    pub fn has_come(&mut self, now: u64) {
        let is_late = self.since != 0 && now.saturating_sub(self.since) > self.allowed;
        self.since = 0;
        self.late = if is_late { (self.late + 1).min(DOUBLINGS) } else { 0 };
        if is_late {
            self.alone = ALONE << (self.late - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    /// Messages of `count` for which the sender is woken that comes so long after the front is read, if it is not before.
    fn woken(naps: &mut Naps, count: u32, after: Option<u64>) -> u32 {
        let mut woken = 0;
        for message in 0..u64::from(count) {
            let now = 1_000_000 * message;
            if naps.wakes() {
                woken += 1;
                if let Some(after) = after {
                    naps.waits(BYTES, now);
                    naps.has_come(now + after);
                } else {
                    naps.has_come(now);
                }
            }
        }
        woken
    }

    #[test]
    fn who_comes_in_time_is_always_woken_and_who_is_late_ever_more_seldom() {
        let mut naps = Naps::default();
        assert_eq!(woken(&mut naps, 1000, None), 1000);
        assert_eq!(woken(&mut naps, 1000, Some(LATE)), 1000);
        // 1, 8 alone, 1, 16 alone, ...
        assert_eq!(woken(&mut naps, 1 + 8 + 1 + 16 + 1 + 32, Some(5_000_000)), 3);
        assert!(woken(&mut naps, 100_000, Some(5_000_000)) < 110);
        // Once it is in time again, it is woken from then on.
        let most = ALONE << (DOUBLINGS - 1);
        assert!(woken(&mut naps, most + 1000, Some(0)) >= 1000);
        assert_eq!(woken(&mut naps, 100, None), 100);
    }
}
