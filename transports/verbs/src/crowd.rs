//! How full completion queues may get.

/// How many completions may still come, and how many find room.
///
/// Requests that nobody wants to hear of count as well: when their queue pair fails, each of them says so.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Send requests under way, of all queue pairs.
    pub(crate) posted: u32,
    /// Entries of all completion queues, less the receive requests that they must also hold.
    pub(crate) room: u32,
}

/// Requests that may be posted after a look at [`Hca::is_crowded`](weft_api::verbs::Hca::is_crowded).
const AFTER_A_LOOK: u32 = 256;

impl Crowd {
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        // A device with few entries must be usable too.
        self.posted + AFTER_A_LOOK.min(self.room / 2) > self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_always_find_room() {
        for room in [1, 2, 100, 511, 512, 513, 32_768] {
            let mut crowd = Crowd { posted: 0, room };
            assert!(!crowd.is_crowded(), "nothing is under way, of {room}");
            while !crowd.is_crowded() {
                crowd.posted += 1;
            }
            let more = AFTER_A_LOOK.min(room / 2);
            assert!(crowd.posted - 1 + more <= room, "what is posted after a look has room, of {room}");
        }
    }
}
