//! Pure protocol core: matching, the choice of protocol, eager budgets.
//!
//! No clock, no system call, no pointer into user memory: facts go in, decisions come out (see `README.md`).
#![forbid(unsafe_code)]

pub mod announce;
mod chains;
pub mod choice;
pub mod credit;
pub mod paces;
pub mod pattern;
pub mod posted;
pub mod rendezvous;
pub mod rows;
pub mod turns;
pub mod unexpected;

pub use announce::{AnnounceCredit, AnnounceLedger, AnnounceWindow, announcements};
pub use choice::Gaps;
pub use choice::{
    ReceivePlan, SendLimits, SendPlan, piece, piece_with_gaps, plan_receive, plan_send, single_with_gaps,
};
pub use credit::{EAGER_MOST, ReceiveLedger, SendWindow, charge, sender_budget};
pub use paces::Paces;
pub use pattern::{Key, Pattern};
pub use posted::Posted;
pub use rendezvous::{Rendezvous, RendezvousCosts, RendezvousPlan};
pub use rows::Rows;
pub use turns::Turns;
pub use unexpected::Unexpected;

/// An entry of a matching table, until it is taken or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(pub u32);
