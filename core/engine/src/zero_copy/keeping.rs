//! Whether registered memory is kept for the next message, by what the device can and what the kernel tells.

use super::cache::{Cache, Keeping, Watcher};
use super::{MOST_BYTES, MOST_REGIONS, ZeroCopies};
use std::sync::Arc;
use weft_api::zero_copy::{MemoryRange, ZeroCopy};
use weft_mappings::{Spot, Watch};

/// Most bytes that are kept of a device that pins pages: what the program unmaps stays there until the next look.
const MOST_PINNED: u64 = 1 << 30;

impl Watcher for Arc<Watch> {
    fn begin(&self, range: MemoryRange) -> Option<Spot> {
        Watch::begin(self, range.address, range.length)
    }

    fn is_good(&self, spot: Spot) -> bool {
        Watch::is_good(self, spot)
    }

    fn is_marked(&self, spot: Spot) -> bool {
        Watch::is_marked(self, spot)
    }

    fn changes(&self) -> u32 {
        Watch::changes(self)
    }

    fn end(&self, spot: Spot) {
        Watch::end(self, spot);
    }
}

/// Whether memory that a device pins can stay registered from one message to the next, where that is wanted (`WEFT_KEEP_REGISTERED`).
///
/// # Errors
/// Why not.
pub(crate) fn can_be_kept(wanted: bool) -> Result<(), String> {
    if !wanted {
        return Err("WEFT_KEEP_REGISTERED=no".to_owned());
    }
    if weft_verbs::is_kept_from_children() {
        return Err(
            "libibverbs keeps registered memory from child processes here, which would miss it for good"
                .to_owned(),
        );
    }
    weft_mappings::can_watch().map_err(|why| why.to_string())
}

impl ZeroCopies {
    /// Nothing under way. `keeps_pinned`: as [`crate::EngineConfig::keep_registered`].
    pub(crate) fn new(keeps_pinned: bool) -> ZeroCopies {
        ZeroCopies { keeps_pinned, ..ZeroCopies::default() }
    }

    /// The cache, one for the device if there is none yet.
    pub(super) fn cache(&mut self, can: &ZeroCopy) -> &mut Cache {
        let keeps_pinned = self.keeps_pinned;
        self.cache.get_or_insert_with(|| {
            let (regions, bytes) = (can.max_regions.min(MOST_REGIONS), can.max_registered.min(MOST_BYTES));
            if can.follows_mappings {
                return Cache::new(regions, bytes, Keeping::Always);
            }
            let watch = can_be_kept(keeps_pinned).ok().map(|()| weft_mappings::watch());
            match watch {
                Some(Ok(watch)) => {
                    Cache::new(regions, bytes.min(MOST_PINNED), Keeping::Watched(Box::new(watch)))
                }
                _ => Cache::new(regions, bytes, Keeping::Never),
            }
        })
    }
}
