//! PMIx clients: libpmix, opened at run time.
//!
//! [`Client`] is this process as a rank of a PMIx launcher (Slurm's `srun --mpi=pmix`, Open MPI's `mpirun`, `prterun`): the facts of its
//! job, a key-value store with fences, the name service, the end of the job. What the facts mean for a job of Weft, `weft-boot` knows.
//! Nothing is opened and no thread started before [`Client::join`].

mod client;
mod library;
mod sys;

pub use client::{Aborter, Client, Fact, Failure, Refusal, Value, version};

/// Longest key and longest name of a service, in bytes.
pub const MAX_KEY: usize = sys::PMIX_MAX_KEYLEN;
