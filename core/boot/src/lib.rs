//! Who am I and who are the others: singleton, the Weft launcher, PMI-1, PMI-2, PMIx.
//!
//! [`Job::discover`] answers from the first source that speaks:
//!
//! 1. Weft's own `mpiexec`: everything is in the variable `WEFT_JOB` ([`card`]); no message is exchanged.
//! 2. A launcher that speaks PMI-1 or PMI-2 over the descriptor `PMI_FD` (Hydra, Intel's mpiexec, Slurm).
//! 3. A launcher that speaks PMIx, through libpmix (`srun --mpi=pmix`, Open MPI's mpirun, prterun).
//! 4. Nobody: the process is the only one of its job.
//!
//! The crate knows nothing of the engine; it hands out facts ([`Job`]), the node's shared memory
//! ([`Job::node_segment`]) and a way to talk to the launcher ([`Launcher`]).
#![forbid(unsafe_code)]

pub mod card;
mod discover;
mod foreign;
pub mod job;
pub mod kinds;
pub mod launcher;
pub mod machine;
mod nodes;
pub mod pmi;
mod pmix;
pub mod segment;
pub mod settings;
mod share;
pub mod stall;

pub use card::ProcessSet;
pub use job::{Job, LauncherKind, NodeSegment, Requests};
pub use kinds::{NodeKind, NodeKinds};
pub use launcher::{Aborter, Launcher, SharedLauncher};
pub use nodes::Nodes;
