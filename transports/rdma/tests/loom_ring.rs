//! A ring under loom: a device that stores a record byte by byte, in the order of addresses, beside a processor that looks for
//! it and says what it has taken. Whoever sees the expected lap sees the whole record, and no place is written to before the
//! last look at it. `RUSTFLAGS="--cfg loom" cargo test -p weft-rdma --release --test loom_ring`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use weft_rdma::ring::{Tail, lap};

const PLACES: u16 = 2;
/// The lap before is 0x00ff, this one 0x0100: both bytes change.
const FIRST: u32 = 255 * PLACES as u32;
const RECORDS: u32 = 3;

#[derive(Default)]
struct Place {
    payload: AtomicU64,
    tail: AtomicU64,
}

fn tail(record: u32, lap: u16) -> u64 {
    u64::from_le_bytes(Tail { lap, length: 24, taken: 0, number: record as u16 }.emit())
}

#[test]
fn who_sees_the_lap_sees_the_record() {
    loom::model(|| {
        let places: Arc<[Place; PLACES as usize]> = Arc::default();
        for (place, record) in places.iter().zip(FIRST - u32::from(PLACES)..) {
            place.tail.store(tail(record, lap(record, PLACES)), Ordering::Relaxed);
        }
        let taken = Arc::new(AtomicU32::new(FIRST));
        let device = thread::spawn({
            let (places, taken) = (places.clone(), taken.clone());
            move || {
                for record in FIRST..FIRST + RECORDS {
                    // The sender's credit. Its request is posted after that, and the device writes after it was posted.
                    while record - taken.load(Ordering::Acquire) >= u32::from(PLACES) {
                        thread::yield_now();
                    }
                    let place = &places[(record % u32::from(PLACES)) as usize];
                    place.payload.store(record.into(), Ordering::Relaxed);
                    let whole = tail(record, lap(record, PLACES));
                    // All bytes but the last one: the promise is that each is seen after those before it.
                    let old = place.tail.load(Ordering::Relaxed);
                    place.tail.store(whole & (u64::MAX >> 8) | old & !(u64::MAX >> 8), Ordering::Release);
                    place.tail.store(whole, Ordering::Release);
                }
            }
        });
        for record in FIRST..FIRST + RECORDS {
            let place = &places[(record % u32::from(PLACES)) as usize];
            while Tail::of(place.tail.load(Ordering::Acquire)).lap != lap(record, PLACES) {
                thread::yield_now();
            }
            assert_eq!(Tail::of(place.tail.load(Ordering::Relaxed)).number, record as u16);
            assert_eq!(place.payload.load(Ordering::Relaxed), u64::from(record), "bytes before the last one");
            // After the last look.
            taken.store(record + 1, Ordering::Release);
        }
        device.join().unwrap();
    });
}
