//! What processes tell each other before they talk: letters about lanes, whatever they ask and answer, and the introductions of
//! partitioned sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft::check_lane_letters;
use weft::partitioned::check_introduction;

fuzz_target!(|bytes: &[u8]| {
    check_lane_letters(bytes);
    check_introduction(bytes);
});
