//! How a process learns which rings to it are in use, and that another one has died.
//!
//! Each process has a bitmap with one bit for every sender, and a count of changes. A sender that is about to use a ring for the
//! first time sets its bit, then adds one to the count ([`announce`]). The receiver compares the count with what it was at its
//! last look, which is one load of a line that hardly ever changes, and goes through the bitmap when it differs ([`take_in`]). A
//! death is announced in the same way, but that the receiver then looks at the states of all.
//!
//! # Memory ordering
//! Bit and count are added to with Release and loaded with Acquire. The receiver loads the count *before* the bits: who sees the
//! count of an announcement sees its bit (and the state, of a death), and one that comes after the load changes the count that
//! was remembered, so that it is seen at the next look. There is nothing else to hand over: a fresh ring is zeroes.
//! A receiver that sleeps is rung: by the first packet ([`crate::bell`]), or by whoever announces a death, after a fence.
//!
//! `tests/loom_arrivals.rs` checks it.

/// Bitmap and count of one receiver, so that the loom model can stand in.
pub trait Inbox {
    /// Sets bits of a word of the bitmap (Release).
    fn set(&self, word: usize, bits: u64);
    /// A word of the bitmap (Acquire).
    fn bits(&self, word: usize) -> u64;
    /// Adds one to the count (Release).
    fn add(&self);
    /// The count (Acquire).
    fn count(&self) -> u32;
}

/// Announces that the ring from local rank `sender` is in use.
pub fn announce(inbox: &impl Inbox, sender: u32) {
    inbox.set(sender as usize / 64, 1 << (sender % 64));
    inbox.add();
}

/// Shows all senders of a bitmap of `words` words; answers the count to compare with at the next look.
pub fn take_in(inbox: &impl Inbox, words: u32, mut show: impl FnMut(u32)) -> u32 {
    let seen = inbox.count();
    for word in 0..words {
        let mut bits = inbox.bits(word as usize);
        while bits != 0 {
            show(word * 64 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    seen
}
