//! Memory of the node segment that is given out at run time: blocks for the collectives of communicators.
//!
//! One process of a communicator takes a block and tells the others where it is; each gives its share back when it frees the
//! communicator, and the last one returns the block ([`crate::rounds`]). Blocks are powers of two of pages. Free ones of
//! a size are a stack; fresh ones come from the end of what was given out so far and are backed with memory then, so the
//! segment never holds more than was in use at one time. When the pool is used up, [`Pool::take`] says so, and
//! communicators that come later do without.
//!
//! # Memory ordering
//! The head of a stack is a number that changes with every push and pop, and the page of the first block (0: none). A link for
//! each page, apart from the blocks, names the next one. Who takes a block loads the head (Acquire), reads the link, and swaps
//! the head; when another taker was faster, the link may be of another time, but then the number has changed and the swap
//! fails. Who gives one back writes the link and swaps the head with Release, both being exchanges with Acquire and Release; so
//! the next owner sees all that the previous ones did. Between the fresh end and everybody else there is nothing to order but
//! the number itself. A give-back that the next one finds on top is part of the same release sequence (every change of the head
//! is an exchange), so who takes a block that lay below others sees its last owner, too. `tests/loom_pool.rs` checks [`pop`]
//! and [`push`].

use crate::layout::{Layout, PAGE, POOL_BYTES};
use crate::segment::no_room;
use crate::sys::{self, Mapping};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_types::{Error, ErrorClass};

/// Sizes of blocks: pages times 2^0 to 2^15.
const CLASSES: usize = 16;

/// Of fresh memory a block takes at most this part, unless it can do with nothing smaller.
const LARGEST_SHARE: u64 = 7;

/// Most pages a pool has.
const PAGES: usize = (POOL_BYTES / PAGE) as usize;

/// What the pool begins with.
#[repr(C, align(128))]
struct Head {
    /// Pages given out so far; 0 stands for those of this head.
    fresh: AtomicU32,
    _line: [u8; 124],
    /// By class: changes so far in the upper half, page of the first free block in the lower.
    free: [AtomicU64; CLASSES],
    /// By page: that of the free block below it in the stack.
    links: [AtomicU32; PAGES],
}

/// One stack of free blocks, so that the model checker can stand in.
pub trait Words {
    /// The head: changes so far in the upper half, page of the first free block in the lower (Acquire).
    fn head(&self) -> u64;
    /// Puts a new head in place of the one that was looked at (Acquire and Release), or answers what is there (Acquire). May fail
    /// without a reason.
    fn exchange(&self, head: u64, new: u64) -> Result<(), u64>;
    /// The link of a page: the page of the free block below it (relaxed).
    fn below(&self, page: u32) -> u32;
    /// Sets the link of a page (relaxed).
    fn set_below(&self, page: u32, below: u32);
}

/// Takes the first free block; `None` when there is none.
pub fn pop(words: &impl Words) -> Option<u32> {
    let mut head = words.head();
    while head as u32 != 0 {
        let page = head as u32;
        match words.exchange(head, changed(head) | u64::from(words.below(page))) {
            Ok(()) => return Some(page),
            Err(found) => head = found,
        }
    }
    None
}

/// Gives a block back.
pub fn push(words: &impl Words, page: u32) {
    let mut head = words.head();
    loop {
        words.set_below(page, head as u32);
        match words.exchange(head, changed(head) | u64::from(page)) {
            Ok(()) => return,
            Err(found) => head = found,
        }
    }
}

/// A block: its first page and its class, in one word that is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block(u64);

impl Block {
    fn new(page: u32, class: usize) -> Block {
        Block((class as u64) << 32 | u64::from(page))
    }

    /// As a word for a message to other processes of the node.
    pub fn word(self) -> u64 {
        self.0
    }

    fn page(self) -> u32 {
        self.0 as u32
    }

    fn class(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// The pool of a node segment, mapped.
#[derive(Debug)]
pub struct Pool {
    mapping: Mapping,
    file: Arc<File>,
    offset: u64,
    page: u64,
}

impl Pool {
    /// Maps the pool and backs its head.
    pub(crate) fn open(file: &Arc<File>, layout: &Layout) -> weft_types::Result<Pool> {
        let (offset, page) = (layout.pool(), sys::page_bytes());
        let head = size_of::<Head>() as u64;
        sys::allocate(file, offset, head)
            .map_err(|error| no_room(&error, head, format_args!("the collectives of this node")))?;
        let mapping = Mapping::new(file, offset, POOL_BYTES).map_err(|error| {
            Error::new(
                ErrorClass::NO_MEM,
                format!("cannot map {POOL_BYTES} bytes of the shared-memory segment for collectives: {error}; is the address \
                         space of the process limited (ulimit -v)?"),
            )
        })?;
        Ok(Pool { mapping, file: Arc::clone(file), offset, page })
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping begins with the head and lives as long as `self`; all fields are atomics, any bytes are valid.
        unsafe { &*self.mapping.base().cast::<Head>() }
    }

    /// The link of a page.
    ///
    /// # Panics
    /// When there is no such page: the segment is damaged.
    fn link(&self, page: u32) -> &AtomicU32 {
        let link = self.head().links.get(page as usize);
        link.expect("the shared-memory segment is damaged: a free block lies outside the pool")
    }

    /// Pages of the head.
    fn first(&self) -> u32 {
        (size_of::<Head>() as u64).div_ceil(self.page) as u32
    }

    /// Where a block begins in the mapping.
    ///
    /// # Panics
    /// When it is not inside: the segment is damaged.
    fn inside(&self, page: u32, class: usize) -> usize {
        let at = u64::from(page) * self.page;
        assert!(
            page >= self.first() && class < CLASSES && at + (self.page << class) <= POOL_BYTES,
            "the shared-memory segment is damaged: a block lies outside the pool"
        );
        at as usize
    }

    /// A block of at least `bytes` bytes of any content; `None` when the pool is used up.
    pub fn take(&self, bytes: u64) -> Option<Block> {
        let class = self.class(bytes);
        match pop(&self.stack(class)?) {
            Some(page) => Some(Block::new(page, class)),
            None => self.take_fresh(1 << class, class),
        }
    }

    /// A block of between `least` and `wanted` bytes: fresh memory is given out in shares of what is left, so that whoever
    /// comes later finds some, too. `None` when the pool is used up.
    pub fn take_share(&self, wanted: u64, least: u64) -> Option<Block> {
        let sizes = std::iter::successors(Some(wanted), |&bytes| Some(bytes / 2));
        for bytes in sizes.take_while(|&bytes| bytes >= least) {
            let class = self.class(bytes);
            if let Some(page) = pop(&self.stack(class)?) {
                return Some(Block::new(page, class));
            }
            let fits = self.page << class <= self.fresh_bytes() / LARGEST_SHARE;
            // Where the node is short of memory a smaller one may still be backed.
            if fits && let Some(block) = self.take(bytes) {
                return Some(block);
            }
        }
        self.take(least)
    }

    /// Bytes that were never given out.
    fn fresh_bytes(&self) -> u64 {
        let first = self.head().fresh.load(Ordering::Relaxed).max(self.first());
        POOL_BYTES.saturating_sub(u64::from(first) * self.page)
    }

    /// The class of blocks of at least `bytes` bytes.
    fn class(&self, bytes: u64) -> usize {
        bytes.div_ceil(self.page).max(1).next_power_of_two().trailing_zeros() as usize
    }

    /// Bytes of a block.
    pub(crate) fn bytes(&self, block: Block) -> u64 {
        self.page << block.class()
    }

    #[cold]
    fn take_fresh(&self, pages: u32, class: usize) -> Option<Block> {
        let all = (POOL_BYTES / self.page) as u32;
        let mut fresh = self.head().fresh.load(Ordering::Relaxed);
        loop {
            let first = fresh.max(self.first());
            let end = first.checked_add(pages).filter(|&end| end <= all)?;
            match self.head().fresh.compare_exchange_weak(fresh, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let offset = self.offset + u64::from(first) * self.page;
                    // Pages that cannot be backed are left alone for good.
                    sys::back(&self.file, offset, u64::from(pages) * self.page).ok()?;
                    return Some(Block::new(first, class));
                }
                Err(found) => fresh = found,
            }
        }
    }

    /// Takes back a block that nobody uses any more.
    pub(crate) fn give_back(&self, block: Block) {
        self.inside(block.page(), block.class());
        push(&self.stack(block.class()).expect("the class was checked"), block.page());
    }

    /// Takes back a block that this process took and that nobody joined.
    pub fn give_back_unused(&self, word: u64) {
        if let Some(block) = self.block(word, 0) {
            self.give_back(block);
        }
    }

    /// The free blocks of a class.
    fn stack(&self, class: usize) -> Option<Stack<'_>> {
        Some(Stack { head: self.head().free.get(class)?, pool: self })
    }

    /// A block from the word of another process, when it lies in the pool and has `bytes` bytes.
    pub fn block(&self, word: u64, bytes: u64) -> Option<Block> {
        let block = Block(word);
        let room = self.page.checked_shl(block.class() as u32).filter(|_| block.class() < CLASSES)?;
        let end = (u64::from(block.page()) * self.page).checked_add(room)?;
        (block.page() >= self.first() && end <= POOL_BYTES && bytes <= room).then_some(block)
    }

    /// The first byte of a block.
    pub(crate) fn at(&self, block: Block) -> *mut u8 {
        let at = self.inside(block.page(), block.class());
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.mapping.base().add(at) }
    }
}

/// The free blocks of one class.
struct Stack<'a> {
    head: &'a AtomicU64,
    pool: &'a Pool,
}

impl Words for Stack<'_> {
    fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    fn exchange(&self, head: u64, new: u64) -> Result<(), u64> {
        self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    fn below(&self, page: u32) -> u32 {
        self.pool.link(page).load(Ordering::Relaxed)
    }

    fn set_below(&self, page: u32, below: u32) {
        self.pool.link(page).store(below, Ordering::Relaxed);
    }
}

/// The number of changes of a stack's head, one more.
fn changed(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rounds;

    fn pool() -> Pool {
        let layout = Layout::new(2, sys::page_bytes());
        let file = Arc::new(sys::memory_file().expect("a memory file"));
        file.set_len(layout.total_bytes()).expect("sized");
        Pool::open(&file, &layout).expect("mapped")
    }

    #[test]
    fn blocks_are_apart_and_come_again_when_given_back() {
        let pool = pool();
        let sizes = [1, 4096, 4097, 100_000, 1 << 20];
        let blocks: Vec<Block> = sizes.iter().map(|&bytes| pool.take(bytes).expect("room")).collect();
        let mut ends: Vec<(usize, usize)> = blocks
            .iter()
            .zip(sizes)
            .map(|(&block, bytes)| {
                assert_eq!(pool.block(block.word(), bytes), Some(block));
                (pool.at(block).addr(), pool.at(block).addr() + bytes as usize)
            })
            .collect();
        ends.sort_unstable();
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        pool.give_back(blocks[3]);
        assert_eq!(pool.take(100_000), Some(blocks[3]));
        assert_ne!(pool.take(100_000), Some(blocks[3]));
    }

    #[test]
    fn a_used_up_pool_says_so_and_goes_on_when_something_comes_back() {
        let pool = pool();
        let eighth = POOL_BYTES / 8;
        let blocks: Vec<Block> = std::iter::from_fn(|| pool.take(eighth)).collect();
        assert_eq!(blocks.len(), 7, "all but for the head");
        pool.give_back(blocks[2]);
        assert_eq!(pool.take(eighth), Some(blocks[2]));
        assert_eq!(pool.take(1 << 40), None);
    }

    #[test]
    fn many_find_a_share_of_the_pool() {
        let pool = pool();
        let (wanted, least) = (POOL_BYTES / 16, POOL_BYTES / 512);
        let blocks: Vec<Block> = (0..45).map(|_| pool.take_share(wanted, least).expect("room")).collect();
        let sizes: Vec<u64> = blocks.iter().map(|&block| pool.bytes(block)).collect();
        assert!(
            sizes.is_sorted_by(|one, next| one >= next) && sizes[0] == wanted && sizes[44] == least,
            "{sizes:?}"
        );
        pool.give_back(blocks[0]);
        assert_eq!(pool.take_share(wanted, least), Some(blocks[0]), "what came back is as good as new");
    }

    #[test]
    #[cfg_attr(miri, ignore = "the pool is small there")]
    fn the_first_communicators_of_eight_that_share_cores_have_the_longest_rings() {
        let pool = pool();
        let bytes = [4, 8, 8].map(|members| {
            let block = Rounds::take_slots(&pool, members, true).expect("room");
            pool.bytes(block) / u64::from(members)
        });
        assert_eq!(bytes, [2 << 20, 2 << 20, 1 << 20]);
    }

    #[test]
    fn where_no_fresh_memory_can_be_backed_a_smaller_free_block_serves() {
        let mut pool = pool();
        let (wanted, least) = (POOL_BYTES / 16, POOL_BYTES / 512);
        let free = pool.take(least).expect("room");
        pool.give_back(free);
        pool.file = Arc::new(File::open("/dev/null").expect("a file that cannot be written"));
        assert_eq!(pool.take_share(wanted, least), Some(free));
        assert_eq!(pool.take_share(wanted, least), None);
    }

    #[test]
    fn words_of_others_are_checked() {
        let pool = pool();
        for word in [0, 1 << 32, u64::MAX, (POOL_BYTES / pool.page) | 1 << 32, 40 << 32 | 1] {
            assert_eq!(pool.block(word, 1), None, "{word:#x}");
        }
        assert_eq!(pool.block(100, 4097 * 16), None, "too small");
    }

    #[test]
    fn threads_that_take_and_give_back_never_share_a_block() {
        let pool = pool();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let pool = &pool;
                scope.spawn(move || {
                    for turn in 0..if cfg!(miri) { 20 } else { 2000_u64 } {
                        let block = pool.take(4096 << (turn % 3)).expect("room");
                        // SAFETY: the block is ours; the second word is nobody's but the owner's.
                        let word = unsafe { &*pool.at(block).add(8).cast::<AtomicU64>() };
                        word.store(thread << 32 | turn, Ordering::Relaxed);
                        std::hint::spin_loop();
                        assert_eq!(word.load(Ordering::Relaxed), thread << 32 | turn);
                        pool.give_back(block);
                    }
                });
            }
        });
        assert!(pool.head().fresh.load(Ordering::Relaxed) <= pool.first() + 4 * 7);
    }
}
