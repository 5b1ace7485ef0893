//! A model of `src/words.rs`, the launcher's list that only grows: its stores and loads in their order, over loom's atomics (those of the
//! list itself lie in a segment). A rank that sees a word counted reads it whole, and each once, in order.
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_words`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

const MOST: usize = 2;

#[derive(Default)]
struct Words {
    count: AtomicU32,
    words: [[AtomicU64; 2]; MOST],
}

impl Words {
    fn push(&self, word: [u64; 2]) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let Some(place) = self.words.get(count as usize) else { return false };
        for (half, value) in place.iter().zip(word) {
            half.store(value, Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
        true
    }

    fn after(&self, seen: u32) -> (Vec<[u64; 2]>, u32) {
        let count = self.count.load(Ordering::Acquire);
        let fresh = self.words[..count as usize].iter().skip(seen as usize);
        (fresh.map(|place| [0, 1].map(|half| place[half].load(Ordering::Relaxed))).collect(), count)
    }
}

#[test]
fn what_is_counted_is_read_whole_once_and_in_order() {
    loom::model(|| {
        let list = Arc::new(Words::default());
        let launcher = {
            let list = Arc::clone(&list);
            thread::spawn(move || assert!(list.push([1, 2]) && list.push([3, 4]) && !list.push([5, 6])))
        };
        let ranks: Vec<_> = (0..2)
            .map(|_| {
                let list = Arc::clone(&list);
                move || {
                    let (mut heard, seen) = list.after(0);
                    let (more, seen) = list.after(seen);
                    heard.extend(more);
                    assert_eq!(heard, [[1, 2], [3, 4]][..seen as usize]);
                }
            })
            .collect();
        let [first, second] = ranks.try_into().unwrap_or_else(|_| unreachable!("two were made"));
        let first = thread::spawn(first);
        second();
        first.join().unwrap();
        launcher.join().unwrap();
        assert_eq!(list.after(0).1, 2);
    });
}
