//! How long the messages are that the layer over message endpoints (rxm) copies at once. Longer ones it announces, and the receiver reads them:
//! two more messages each, where the kernel's sockets carry everything a copy is cheaper by far up to 32 KiB.

use crate::environment;
use crate::transport::LONGEST;
use std::path::Path;

/// By which the layer is told (fi_rxm(7)).
const VARIABLE: &str = "FI_OFI_RXM_BUFFER_SIZE";
/// What the layer takes without being told.
pub(crate) const UNTOLD: usize = 16 << 10;
/// Where the kernel shows adapters. Over those the layer registers as many buffers as the adapter has receives, so they stay short there.
const ADAPTERS: &str = "/sys/class/infiniband";

/// What the layer is told: a whole packet and a few pages' end.
fn size(has_adapters: bool) -> Option<usize> {
    (!has_adapters).then_some(LONGEST.next_multiple_of(4096))
}

/// Tells libfabric, which must not have been opened yet, unless the user has.
pub(crate) fn tell() {
    let has_adapters = std::fs::read_dir(Path::new(ADAPTERS)).is_ok_and(|mut list| list.next().is_some());
    if let Some(size) = size(has_adapters) {
        environment::tell(VARIABLE, &size.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::{UNTOLD, size};
    use crate::transport::LONGEST;

    #[test]
    fn a_whole_packet_fits_over_sockets_and_adapters_keep_their_buffers() {
        assert!(size(false).is_some_and(|told| told >= LONGEST && told > UNTOLD));
        assert_eq!(size(true), None);
    }
}
