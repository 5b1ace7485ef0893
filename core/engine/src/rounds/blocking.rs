//! Blocking collectives by rounds, in which members may read one another's memory (`weft_coll::rounds`, by reading).

use super::{Bound, Rounds, RoundsCall};
use crate::schedule::Arguments;
use std::sync::OnceLock;
use std::time::Instant;
use weft_coll::rounds::{BlockingRun, Contest, Desk, Outcome, Readable, Readers, Room, Shape, Told};
use weft_datatype::Kernel;

impl Readers for Rounds {
    fn is_crowded(&self) -> bool {
        self.cells.is_crowded()
    }

    fn contest(&mut self) -> &mut Contest {
        &mut self.contest
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn can_read(&self) -> bool {
        self.readers.is_some()
    }

    fn expose(&mut self, bytes: &[u8]) -> u64 {
        bytes.as_ptr() as usize as u64
    }

    fn copy_from(&mut self, member: u32, address: u64, into: &mut [u8]) -> bool {
        self.readers.as_ref().is_some_and(|readers| readers.read(member, address, into))
    }

    fn now(&self) -> u64 {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

impl Readable for Bound {
    fn given_at(&self, at: u64, len: usize) -> Option<u64> {
        self.contribution().run(at, len as u64).map(|bytes| bytes.as_ptr() as usize as u64)
    }

    fn result_at(&self, at: u64, len: usize) -> Option<u64> {
        self.arguments.recv.run(at, len as u64).map(|bytes| bytes.as_ptr() as usize as u64)
    }

    fn receive(&mut self, at: u64, len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> bool {
        self.arguments.recv.recv_view(0, at, len as u64).as_mut_slice().is_some_and(read)
    }
}

/// One blocking collective call of this process, under way by rounds.
#[derive(Debug)]
pub struct BlockingRoundsCall {
    run: BlockingRun,
    bound: Bound,
}

impl BlockingRoundsCall {
    /// Cuts a call for these cells; `None` when an element does not fit a slot. `what`: also its bytes, and those that stay together.
    pub fn new(
        rounds: &mut Rounds,
        what: (Shape, u64, u64),
        arguments: Arguments,
        kernel: Option<Kernel>,
        in_place: bool,
    ) -> Option<BlockingRoundsCall> {
        BlockingRoundsCall::as_told(rounds, what, arguments, kernel, in_place, Told::default())
    }

    /// The same of a call of which rules say something.
    pub fn as_told(
        rounds: &mut Rounds,
        what: (Shape, u64, u64),
        arguments: Arguments,
        kernel: Option<Kernel>,
        in_place: bool,
        told: Told,
    ) -> Option<BlockingRoundsCall> {
        let room = Room { told, ..rounds.room() };
        let (script, bound) = RoundsCall::bind(rounds, room, what, arguments, kernel, in_place)?;
        Some(BlockingRoundsCall { run: BlockingRun::begin(script, rounds), bound })
    }

    /// Goes as far as it can without waiting.
    #[inline]
    pub fn step(&mut self, rounds: &mut Rounds) -> Outcome {
        self.run.step(rounds, &mut self.bound)
    }

    /// The members that it waits for, one bit each.
    pub fn missing(&self, rounds: &Rounds) -> u64 {
        self.run.missing(rounds)
    }
}
