//! Layouts from another process: whatever bytes are accepted are written again as they were read, stay inside what they say that
//! they reach, and can be packed and unpacked there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use weft_datatype::{Layout, RecvBuf, SendBuf};

const LARGEST: i64 = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Ok(layout) = Layout::from_bytes(bytes) else { return };
    assert_eq!(layout.to_bytes(bytes.len()).as_deref(), Some(bytes));
    let count = 1 + bytes.len() % 3;
    let Some((low, high)) = layout.reach(count) else { return };
    let small = high.checked_sub(low).is_some_and(|reach| reach <= LARGEST) && layout.size <= LARGEST as usize;
    if !small {
        return;
    }
    let layout = Arc::new(layout);
    let mut memory = vec![0x5a_u8; (high - low) as usize];
    let origin = memory.as_mut_ptr().wrapping_sub(low as usize);
    let mut packed = vec![0; count * layout.size];
    let cut = packed.len() * cut_at(count, bytes) / 256;
    // SAFETY: `memory` is what the elements reach, and nobody else uses it.
    unsafe {
        let from = SendBuf::typed(origin, count, &layout);
        from.pack(0, &mut packed[..cut]);
        from.pack(cut, &mut packed[cut..]);
        let mut to = RecvBuf::typed(origin, count, &layout);
        to.unpack(0, &packed[..cut]);
        to.unpack(cut, &packed[cut..]);
    }
});

/// Where to cut, in 256ths, as the bytes say.
fn cut_at(count: usize, bytes: &[u8]) -> usize {
    usize::from(bytes[bytes.len() / 2]).wrapping_add(count) % 256
}
