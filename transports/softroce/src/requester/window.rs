//! How many packets may be under way: fewer after losses, more the longer there were none (first as fast as they arrive, then in steps).

use super::ACK_EVERY;

/// Packets in flight at least, however lossy the way is.
const LEAST: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    packets: u32,
    /// What it grows to.
    widest: u32,
    /// Nothing was lost yet: it grows fast.
    unhurt: bool,
    /// Acknowledged packets since it last grew.
    credit: u32,
}

impl Window {
    pub(super) const fn new(widest: u32) -> Window {
        Window { packets: widest / 4, widest, unhurt: true, credit: 0 }
    }

    #[inline]
    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    /// So many packets more are acknowledged.
    pub(super) fn grow(&mut self, packets: u32) {
        self.credit += packets;
        if self.credit >= self.packets {
            self.credit = 0;
            let slowly = if self.unhurt { self.widest } else { self.packets + ACK_EVERY };
            self.packets = (self.packets * 2).min(slowly).min(self.widest);
        }
    }

    /// Something was lost.
    pub(super) fn shrink(&mut self) {
        self.packets = (self.packets / 2).max(LEAST);
        (self.unhurt, self.credit) = (false, 0);
    }

    /// Nothing was heard for long: all may be lost.
    pub(super) const fn close(&mut self) {
        (self.packets, self.unhurt) = (LEAST, false);
    }
}
