//! Operations on the memory of others: which are under way, what they are to tell, and when. Pure.
//!
//! An operation has pieces, each one call of the library; it is over when all of them are. Puts also belong to an *epoch* of
//! their peer: a flush closes the epoch, and its token comes back when this one and those before it have no open puts. A lost
//! peer's operations fail, but only when their pieces have ended: until then the library may touch the memory that they name.
//! Abandoned ones are told at once; their pieces are forgotten when they end.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use weft_api::zero_copy::{Completed, Outcome, Token};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationId(u32);

#[derive(Debug)]
struct Operation {
    peer: u32,
    /// To be told, once.
    token: Option<Token>,
    /// Pieces that have not ended.
    pieces: u32,
    failed: bool,
    /// Its peer is gone: nobody waits for it.
    lost: bool,
    /// What an atomic found.
    found: u64,
    /// The epoch that a put belongs to.
    epoch: Option<u64>,
    /// Bytes that a read brings.
    reads: u64,
}

/// Puts between two flushes.
#[derive(Debug, Default)]
struct Epoch {
    open: u32,
    failed: bool,
    /// The flush that closed it.
    token: Option<Token>,
}

/// Epochs of one peer; the last one is open.
#[derive(Debug, Default)]
struct Epochs {
    /// Number of the first.
    first: u64,
    list: VecDeque<Epoch>,
}

/// All operations of a process.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    list: Vec<Operation>,
    free: Vec<u32>,
    epochs: HashMap<u32, Epochs>,
    completed: VecDeque<Completed>,
    /// Bytes of reads under way, by peer, where there are some.
    reading: HashMap<u32, u64>,
}

impl Operations {
    /// An operation of so many pieces begins; `put` where a flush waits for it.
    pub(crate) fn begin(&mut self, peer: u32, token: Option<Token>, pieces: u32, put: bool) -> OperationId {
        let epoch = put.then(|| {
            let epochs = self.epochs.entry(peer).or_default();
            if epochs.list.is_empty() {
                epochs.list.push_back(Epoch::default());
            }
            epochs.list.back_mut().expect("there is one").open += 1;
            epochs.first + epochs.list.len() as u64 - 1
        });
        let operation =
            Operation { peer, token, pieces, failed: false, lost: false, found: 0, epoch, reads: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                self.list[id as usize] = operation;
                id
            }
            None => {
                self.list.push(operation);
                self.list.len() as u32 - 1
            }
        };
        if pieces == 0 {
            self.over(id);
        }
        OperationId(id)
    }

    /// An operation that has just begun brings so many bytes.
    pub(crate) fn reads(&mut self, id: OperationId, bytes: u64) {
        let operation = &mut self.list[id.0 as usize];
        if operation.pieces > 0 {
            operation.reads = bytes;
            *self.reading.entry(operation.peer).or_default() += bytes;
        }
    }

    /// Bytes of reads from a peer that are under way.
    pub(crate) fn reading(&self, peer: u32) -> u64 {
        self.reading.get(&peer).copied().unwrap_or(0)
    }

    /// An operation that was begun and could not be: it never was.
    pub(crate) fn undo(&mut self, id: OperationId) {
        let operation = &mut self.list[id.0 as usize];
        operation.token = None;
        operation.pieces = 0;
        self.over(id.0);
    }

    /// A piece has ended.
    pub(crate) fn piece_ended(&mut self, id: OperationId, good: bool, found: u64) {
        let operation = &mut self.list[id.0 as usize];
        operation.failed |= !good;
        operation.found = found;
        operation.pieces -= 1;
        if operation.pieces == 0 {
            self.over(id.0);
        }
    }

    fn over(&mut self, id: u32) {
        let operation = &mut self.list[id as usize];
        let outcome = if operation.failed { Outcome::Failed } else { Outcome::Done(operation.found) };
        self.completed.extend(operation.token.take().map(|token| Completed { token, outcome }));
        let (peer, epoch, failed) = (operation.peer, operation.epoch.take(), operation.failed);
        let reads = std::mem::take(&mut operation.reads);
        if reads > 0
            && let Some(reading) = self.reading.get_mut(&peer)
        {
            *reading -= reads;
        }
        self.free.push(id);
        if let Some(number) = epoch
            && let Some(epochs) = self.epochs.get_mut(&peer)
            && let Some(place) = number.checked_sub(epochs.first)
            && let Some(epoch) = epochs.list.get_mut(place as usize)
        {
            epoch.open -= 1;
            epoch.failed |= failed;
            self.close(peer);
        }
    }

    /// Tells the flushes of a peer that have nothing more to wait for.
    fn close(&mut self, peer: u32) {
        let Some(epochs) = self.epochs.get_mut(&peer) else { return };
        while let Some(epoch) = epochs.list.front()
            && epoch.open == 0
            && let Some(token) = epoch.token
        {
            let outcome = if epoch.failed { Outcome::Failed } else { Outcome::Done(0) };
            self.completed.push_back(Completed { token, outcome });
            epochs.list.pop_front();
            epochs.first += 1;
        }
    }

    /// The token comes back when all puts to the peer so far are over.
    pub(crate) fn flush(&mut self, peer: u32, token: Token) {
        let epochs = self.epochs.entry(peer).or_default();
        if epochs.list.is_empty() {
            epochs.list.push_back(Epoch::default());
        }
        let last = epochs.list.back_mut().expect("there is one");
        last.token = Some(token);
        // What comes now belongs to the next one.
        epochs.list.push_back(Epoch::default());
        self.close(peer);
    }

    fn open_with(&mut self, peer: u32) -> impl Iterator<Item = &mut Operation> {
        self.list.iter_mut().filter(move |operation| operation.peer == peer && operation.pieces > 0)
    }

    /// A peer is gone: everything with it has failed, and is told when its pieces have ended. Whether there is something to
    /// wait for.
    pub(crate) fn lose(&mut self, peer: u32) -> bool {
        let mut open = false;
        for operation in self.open_with(peer) {
            (operation.failed, operation.lost, open) = (true, true, true);
        }
        let epochs = self.epochs.get_mut(&peer).into_iter().flat_map(|epochs| &mut epochs.list);
        epochs.for_each(|epoch| epoch.failed = true);
        open
    }

    /// Whether pieces of a peer's operations have not ended.
    pub(crate) fn is_open(&mut self, peer: u32) -> bool {
        self.open_with(peer).next().is_some()
    }

    /// The rest of a lost peer's operations is not waited for any more: all of it is told.
    pub(crate) fn abandon(&mut self, peer: u32) {
        let mut tokens = Vec::new();
        for operation in self.open_with(peer) {
            operation.epoch = None;
            tokens.extend(operation.token.take());
        }
        self.completed.extend(tokens.into_iter().map(|token| Completed { token, outcome: Outcome::Failed }));
        let flushes = self.epochs.remove(&peer).into_iter().flat_map(|epochs| epochs.list);
        let tokens = flushes.filter_map(|epoch| epoch.token);
        self.completed.extend(tokens.map(|token| Completed { token, outcome: Outcome::Failed }));
    }

    /// Whether something is under way with the living.
    pub(crate) fn is_busy(&self) -> bool {
        self.list.iter().any(|operation| operation.pieces > 0 && !operation.lost)
    }

    /// The next one that is over.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Whatever ends when: every token comes back once, a flush's after all puts before it, and a loss tells everything.
        #[test]
        fn every_token_comes_back_once(steps in prop::collection::vec((0_u32..5, 0_u32..3, 0_usize..100), 1..300)) {
            let mut operations = Operations::default();
            let mut pieces: Vec<(OperationId, u32, u64)> = Vec::new();
            let mut open: BTreeMap<u64, (u32, bool, Vec<u64>)> = BTreeMap::new();
            let mut next = 0_u64;
            let mut reads = std::collections::BTreeSet::new();
            let (mut lost, mut abandoned) = ([false; 3], [false; 3]);
            let mut flushed: Vec<u64>;
            for (kind, peer, choice) in steps {
                if lost[peer as usize] && kind != 3 {
                    continue;
                }
                match kind {
                    0 | 1 => {
                        let count = (choice % 4) as u32;
                        let put = kind == 0;
                        let id = operations.begin(peer, Some(Token(next)), count, put);
                        pieces.extend((0..count).map(|_| (id, peer, next)));
                        if !put {
                            operations.reads(id, 1 << 20 | next);
                            reads.insert(next);
                        }
                        open.insert(next, (peer, put, Vec::new()));
                        next += 1;
                    }
                    2 => {
                        flushed = open.iter().filter(|(_, entry)| entry.0 == peer && entry.1).map(|(&token, _)| token).collect();
                        operations.flush(peer, Token(next));
                        open.insert(next, (peer, false, flushed));
                        next += 1;
                    }
                    3 => {
                        if !pieces.is_empty() {
                            let (id, _, _) = pieces.swap_remove(choice % pieces.len());
                            operations.piece_ended(id, true, 0);
                        }
                    }
                    _ => {
                        if choice < 20 {
                            lost[peer as usize] = true;
                            let open = operations.lose(peer);
                            prop_assert_eq!(open, pieces.iter().any(|&(_, other, _)| other == peer));
                        }
                        if choice < 10 {
                            operations.abandon(peer);
                            abandoned[peer as usize] = true;
                        }
                    }
                }
                while let Some(done) = operations.next() {
                    let (peer, _, before) = open.remove(&done.token.0).expect("a token that was open");
                    if lost[peer as usize] && !abandoned[peer as usize] {
                        prop_assert!(pieces.iter().all(|&(_, _, token)| token != done.token.0), "told while the library has it");
                    }
                    if done.outcome != Outcome::Failed {
                        prop_assert!(before.iter().all(|token| !open.contains_key(token)), "a flush before its puts");
                        prop_assert!(!lost[peer as usize]);
                    }
                }
                for peer in 0..3 {
                    let under_way: BTreeMap<u64, u64> = pieces.iter().filter(|(_, other, token)| *other == peer && reads.contains(token))
                        .map(|&(_, _, token)| (token, 1 << 20 | token)).collect();
                    prop_assert_eq!(operations.reading(peer), under_way.values().sum::<u64>());
                }
                prop_assert!(open.values().all(|entry| !abandoned[entry.0 as usize]), "nothing is waited for");
            }
            for (id, _, _) in pieces {
                operations.piece_ended(id, true, 0);
            }
            while let Some(done) = operations.next() {
                prop_assert!(open.remove(&done.token.0).is_some());
            }
            prop_assert!(open.is_empty() && !operations.is_busy());
        }
    }
}
