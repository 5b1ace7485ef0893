//! Every algorithm of every operation against the definition of the operation, all ranks in one process: sizes 1 to 64
//! and some larger ones, all roots at small sizes, eager and synchronous sends, an operation that does not commute.
//! Covers of `musts.md`, chapter 6: zero counts, `MPI_IN_PLACE` of 6.5 to 6.11, operand order (6.9.1), identical results
//! (6.9.6), `v` displacements (6.5 to 6.8), the untouched buffer of Exscan's rank 0 (6.11).

mod case;
mod inter;
mod movement;
mod neighbor;
mod reductions;
mod same_bits;
mod world;
