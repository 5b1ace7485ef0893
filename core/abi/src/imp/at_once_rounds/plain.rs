//! Collectives inside a node of any length, by their script, on plain arguments: predefined datatypes without gaps.

use std::ffi::{c_int, c_void};

use weft::rounds::Steps;
use weft_coll::Group;
use weft_coll::rounds::{BlockingRun, Operands, Outcome, Readable, Script, Shape, Target, Term};
use weft_datatype::Kernel;
use weft_engine::{IN_CELL, Rounds, copy_past_caches, script};

use crate::ctypes::*;
use crate::gate;
use crate::imp::on_node;
use crate::raise;

/// A plain call.
pub(super) struct Call {
    /// The procedure's name.
    pub name: &'static str,
    pub shape: Shape,
    /// Bytes of a block, as [`Script::new`] wants them.
    pub bytes: usize,
    /// Bytes that stay together.
    pub element: usize,
    /// What this member contributes lies where its result will.
    pub in_place: bool,
    pub memory: Plain,
}

/// The program's memory of a plain call.
pub(super) struct Plain {
    /// What this member contributes.
    from: *const u8,
    into: *mut u8,
    kernel: Option<Kernel>,
    /// What it contributes to itself is where it belongs already.
    keeps: bool,
}

impl Plain {
    /// Contribution, result, operation, and whether the own contribution is where it belongs already.
    #[inline(always)]
    pub(super) fn new(from: *const c_void, into: *mut c_void, kernel: Option<Kernel>, keeps: bool) -> Plain {
        Plain { from: from.cast(), into: into.cast(), kernel, keeps }
    }
}

/// A plain call under way.
struct PlainCall {
    rounds: Box<Rounds>,
    run: BlockingRun,
    memory: Plain,
}

/// Runs a call of any length to its end, from where a short form stopped if it did; `None` where there are no slots yet, or an
/// element does not fit one.
///
/// # Safety
/// MPI is active, and the calling thread has not entered the gate. The program's memory is as the procedure wants it: what the shape reads can be read at
/// `from`, what it writes can be written at `into`, and the two are the same or apart. No reference to the process is used after
/// this call has begun.
#[inline(never)]
pub(super) unsafe fn at_any_length(comm: MPI_Comm, call: Call) -> Option<c_int> {
    // The process is let go of before the wait, which enters the gate.
    let (rounds, run) = gate::with(|process| {
        let rounds = process.comms.rounds(comm.raw())?;
        let (cells, room) = (rounds.cells_here(), rounds.room());
        let group = Group { rank: cells.me(), size: cells.members() };
        if root(call.shape) >= group.size {
            return None;
        }
        let what = (call.shape, call.bytes as u64, call.element as u64);
        let script: Script = script(what, group, call.in_place, room)?;
        if script.payload() > IN_CELL as u64 && !cells.has_slots() {
            return None;
        }
        let mut rounds = process.comms.lend_rounds(comm.raw())?;
        let run = BlockingRun::begin(script, &mut *rounds);
        Some((rounds, run))
    })?;
    let mut under_way = PlainCall { rounds, run, memory: call.memory };
    let ended = on_node::drive(call.name, comm.handle(), &mut under_way);
    gate::with(|process| process.comms.return_rounds(comm.raw(), under_way.rounds));
    Some(raise::finish_on_comm(call.name, comm, ended))
}

/// The root of a call; 0 where there is none.
fn root(shape: Shape) -> u32 {
    match shape {
        Shape::Bcast { root } | Shape::Gather { root } | Shape::Scatter { root } | Shape::Reduce { root } => {
            root
        }
        _ => 0,
    }
}

impl Steps for PlainCall {
    #[inline]
    fn step(&mut self) -> Outcome {
        self.run.step(&mut *self.rounds, &mut self.memory)
    }

    fn missing(&self) -> u64 {
        self.run.missing(&*self.rounds)
    }

    fn rounds(&mut self) -> &mut Rounds {
        &mut self.rounds
    }

    fn makes_way(&self, behind_too: bool) -> bool {
        self.rounds.cells_here().makes_way(self.missing(), behind_too)
    }
}

impl Plain {
    #[inline]
    fn kernel(&self) -> Kernel {
        self.kernel.expect("a reduction has an operation")
    }

    /// The bytes of an operand.
    #[inline]
    fn term<'a>(&self, term: Term<'a>, len: usize) -> &'a [u8] {
        match term {
            Term::Written(bytes) => &bytes[..len],
            // SAFETY: scripts read inside the contribution, which `at_any_length` was promised; where it lies in the result, they
            // name it only as an operand of what goes elsewhere.
            Term::Own(at) => unsafe { std::slice::from_raw_parts(self.from.add(at as usize), len) },
        }
    }

    /// A part of the result.
    #[inline]
    fn part(&mut self, at: u64, len: usize) -> &mut [u8] {
        // SAFETY: scripts write inside the result, which `at_any_length` was promised; no other reference to it lives.
        unsafe { std::slice::from_raw_parts_mut(self.into.add(at as usize), len) }
    }
}

impl Readable for Plain {
    #[inline]
    fn given_at(&self, at: u64, _: usize) -> Option<u64> {
        Some(self.from.expose_provenance() as u64 + at)
    }

    #[inline]
    fn result_at(&self, at: u64, _: usize) -> Option<u64> {
        Some(self.into.expose_provenance() as u64 + at)
    }

    #[inline]
    fn receive(&mut self, at: u64, len: usize, read: impl FnOnce(&mut [u8]) -> bool) -> bool {
        read(self.part(at, len))
    }
}

impl Operands for Plain {
    #[inline]
    fn take(&self, at: u64, to: &mut [u8], past: bool) {
        // SAFETY: scripts read inside the contribution, which `at_any_length` was promised; `to` lies in shared memory.
        let from = unsafe { std::slice::from_raw_parts(self.from.add(at as usize), to.len()) };
        if past { copy_past_caches(from, to) } else { to.copy_from_slice(from) }
    }

    #[inline]
    fn give(&mut self, at: u64, from: &[u8]) {
        self.part(at, from.len()).copy_from_slice(from);
    }

    #[inline]
    fn put(&self, from: &[u8], to: &mut [u8]) {
        copy_past_caches(from, to);
    }

    #[inline]
    fn keep(&mut self, from: u64, at: u64, len: usize) {
        if !self.keeps {
            // SAFETY: as in `take`; contribution and result are apart unless this member keeps what it has.
            unsafe {
                std::ptr::copy_nonoverlapping(self.from.add(from as usize), self.into.add(at as usize), len)
            };
        }
    }

    #[inline]
    fn combine(&mut self, left: Term<'_>, into: Target<'_>) {
        let kernel = self.kernel();
        match into {
            Target::Result(at, len) => {
                let left = self.term(left, len);
                kernel.apply(left, self.part(at, len));
            }
            Target::Payload(room) => kernel.apply(self.term(left, room.len()), room),
        }
    }

    #[inline]
    fn combine_two(&mut self, left: Term<'_>, right: Term<'_>, into: Target<'_>) {
        let kernel = self.kernel();
        match into {
            Target::Result(at, len) => {
                let (left, right) = (self.term(left, len), self.term(right, len));
                kernel.apply_apart(left, right, self.part(at, len));
            }
            Target::Payload(room) => {
                kernel.apply_apart(self.term(left, room.len()), self.term(right, room.len()), room);
            }
        }
    }
}
