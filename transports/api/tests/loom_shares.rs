//! The table of parts under loom: each part is copied by exactly one of the two, whole, and what was taken back or copied makes room for another
//! one. `RUSTFLAGS="--cfg loom" cargo test -p weft-api --release --test loom_shares`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use weft_api::shares::{Part, Shares};

fn part(number: u64) -> Part {
    Part { send: number as u32, from: number + 10, length: number + 20, address: number + 30 }
}

/// The receiver's table, and what the sender has said of each place: the number that it has copied.
struct World {
    table: Shares,
    said: [AtomicU32; 2],
}

impl World {
    fn copy_one(&self) -> bool {
        let Some((place, taken)) = self.table.take() else { return false };
        assert_eq!(taken, part(u64::from(taken.send)), "a part that is none");
        assert_eq!(self.said[place].load(Ordering::Relaxed), 0, "not heard of the last one");
        self.said[place].store(taken.send, Ordering::Release);
        true
    }
}

#[test]
fn each_part_is_copied_once() {
    loom::model(|| {
        let world =
            Arc::new(World { table: Shares::default(), said: [AtomicU32::new(0), AtomicU32::new(0)] });
        let sender = {
            let world = Arc::clone(&world);
            thread::spawn(move || (0..2).filter(|_| world.copy_one()).count())
        };
        let (mut copied, mut heard) = (0, 0);
        world.table.lay_out(0, 1, part(1));
        world.table.lay_out(1, 2, part(2));
        // The last one first, as the receiver comes to it.
        let mut taken = [false; 2];
        for (place, number) in [(1, 2), (0, 1)] {
            match world.table.take_back(place, number) {
                true => copied += 1,
                false => taken[place] = true,
            }
        }
        // A place is used again when its part was taken back, or when it is heard that it is copied.
        let said = world.said[0].load(Ordering::Acquire);
        if !taken[0] || said == 1 {
            if said == 1 {
                world.said[0].store(0, Ordering::Relaxed);
                (heard, taken[0]) = (1, false);
            }
            world.table.lay_out(0, 3, part(3));
            match world.table.take_back(0, 3) {
                true => copied += 1,
                false => taken[0] = true,
            }
        }
        let laid = copied + heard + taken.iter().filter(|&&taken| taken).count();
        let by_sender = sender.join().unwrap();
        assert_eq!(copied + by_sender, laid);
        assert_eq!(world.table.left(), 0);
        for (place, taken) in taken.into_iter().enumerate() {
            assert_eq!(world.said[place].load(Ordering::Acquire) != 0, taken, "place {place}");
        }
    });
}
