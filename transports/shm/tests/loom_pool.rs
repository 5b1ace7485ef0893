//! The pool's stacks of free blocks under loom: a block has one owner at a time, its next owner sees what the last one wrote, none is
//! lost. `RUSTFLAGS="--cfg loom" cargo test -p weft-shm --release --test loom_pool`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use weft_shm::pool::{Words, pop, push};

const PAGES: usize = 3;

/// Pages 1 to 3 are blocks of one size.
struct Model {
    head: AtomicU64,
    below: [AtomicU32; PAGES + 1],
    /// What the owner of a block writes; loom reports two owners, and an owner that does not see the last one.
    content: [UnsafeCell<u32>; PAGES + 1],
}

impl Words for Model {
    fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }
    fn exchange(&self, head: u64, new: u64) -> Result<(), u64> {
        self.head.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
    fn below(&self, page: u32) -> u32 {
        self.below[page as usize].load(Ordering::Relaxed)
    }
    fn set_below(&self, page: u32, below: u32) {
        self.below[page as usize].store(below, Ordering::Relaxed);
    }
}

impl Model {
    /// With `free` blocks given back already.
    fn new(free: u32) -> Arc<Model> {
        let model = Model {
            head: AtomicU64::new(0),
            below: std::array::from_fn(|_| AtomicU32::new(0)),
            content: std::array::from_fn(|_| UnsafeCell::new(0)),
        };
        (1..=free).for_each(|page| push(&model, page));
        Arc::new(model)
    }

    /// The owner uses its block.
    fn touch(&self, page: u32) {
        // SAFETY: the owner alone; loom reports everything else.
        self.content[page as usize].with_mut(|content| unsafe { *content += 1 });
    }

    /// The free blocks, once nobody takes any more.
    fn rest(&self) -> Vec<u32> {
        let mut rest: Vec<u32> = std::iter::from_fn(|| pop(self)).collect();
        rest.iter().for_each(|&page| self.touch(page));
        rest.sort_unstable();
        rest
    }
}

/// Two take and give back at the same time; what each had is used by whoever has it next.
#[test]
fn a_block_has_one_owner_who_sees_the_last_one() {
    loom::model(|| {
        let model = Model::new(2);
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                let page = pop(&*other).expect("two blocks for two");
                other.touch(page);
                push(&*other, page);
            }
        });
        let page = pop(&*model).expect("two blocks for two");
        model.touch(page);
        push(&*model, page);
        thread.join().expect("no panic");
        assert_eq!(model.rest(), [1, 2]);
    });
}

/// The head is the same block again while the one below it has changed: without the number of changes the swap would succeed, and a
/// block that is in use would be free.
#[test]
fn a_head_that_came_back_is_another() {
    loom::model(|| {
        let model = Model::new(3);
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let first = pop(&*other).expect("three for two");
            let second = pop(&*other).expect("three for two");
            other.touch(first);
            other.touch(second);
            push(&*other, first);
            // The second one stays in use.
            second
        });
        let mine = pop(&*model).expect("three for two");
        model.touch(mine);
        let theirs = thread.join().expect("no panic");
        assert_ne!(mine, theirs);
        let mut all = model.rest();
        all.extend([mine, theirs]);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}
