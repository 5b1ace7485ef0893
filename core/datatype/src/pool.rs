//! Scratch memory that is used again: a repeated collective neither allocates nor touches fresh pages.

use crate::buffer::{Extra, Scratch};
use crate::memory::Memory;
use crate::object::Datatype;
use std::sync::Arc;
use weft_types::Result;

/// Blocks and bytes kept for later use at most.
const MOST_BLOCKS: usize = 32;
const MOST_BYTES: usize = 4 << 20;

/// Keeps scratch memory between uses; bounded. What a block held before is still in it.
#[derive(Debug, Default)]
pub struct ScratchPool {
    free: Vec<Arc<Extra>>,
    bytes: usize,
}

impl ScratchPool {
    /// Memory in the layout of `count` elements of `datatype`.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` when these do not fit 64 bits.
    pub fn elements(&mut self, datatype: &Datatype, count: u64) -> Result<Memory> {
        Memory::elements_in(datatype, count, |bytes| self.take(bytes))
    }

    /// Memory for `bytes` packed bytes.
    pub fn packed(&mut self, bytes: usize) -> Memory {
        Memory::packed_in(bytes, self.take(bytes))
    }

    /// Takes memory back, if nothing else refers to it and there is room.
    pub fn recycle(&mut self, memory: Memory) {
        let Some(block) = memory.into_block() else { return };
        let bytes = block.scratch_bytes();
        if Arc::strong_count(&block) == 1 && self.free.len() < MOST_BLOCKS && self.bytes + bytes <= MOST_BYTES
        {
            self.bytes += bytes;
            self.free.push(block);
        }
    }

    fn take(&mut self, bytes: usize) -> Arc<Extra> {
        // Not much larger than asked for, so that small needs do not use up the large blocks.
        let most = bytes.max(64).saturating_mul(4);
        match self.free.iter().rposition(|block| (bytes..=most).contains(&block.scratch_bytes())) {
            Some(index) => {
                let block = self.free.swap_remove(index);
                self.bytes -= block.scratch_bytes();
                block
            }
            None => Extra::keeping(&Scratch::new(bytes.max(64))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_nobody_refers_to_is_used_again() {
        let mut pool = ScratchPool::default();
        let first = pool.packed(1000);
        let pending = first.send_view(0, 0, 10);
        pool.recycle(first.clone());
        drop(first);
        assert_eq!(pool.bytes, 0, "a view still refers to it");
        drop(pending);
        let second = pool.packed(1000);
        let address_of_second = second.address();
        pool.recycle(second);
        assert_eq!(pool.packed(900).address(), address_of_second);
        assert_eq!((pool.bytes, pool.free.len()), (0, 0));
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut pool = ScratchPool::default();
        let all: Vec<Memory> = (0..20).map(|_| pool.packed(1 << 18)).collect();
        all.into_iter().for_each(|memory| pool.recycle(memory));
        assert!(pool.bytes <= MOST_BYTES && pool.free.len() <= MOST_BLOCKS);
        pool.recycle(Memory::packed_scratch(8 << 20));
        assert!(pool.bytes <= MOST_BYTES);
    }
}
