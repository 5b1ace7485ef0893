//! A job on several hosts.
//!
//! mpiexec (the *head*) starts one *agent* on each host by a command template (`ssh` by default) and speaks with it through the
//! agent's standard input and output, so no port is opened and nothing needs to find the way back. The agent starts, binds and
//! ends the ranks of its host; everything that is decided is decided at the head.
//!
//! ```text
//! head                                      agent (one for each host)
//! dealing   which rank goes to which host
//! head      PMI server, judge, output  <->  agent     processes, pipes, signals
//!                        frames: whole messages in both directions
//! ```
//!
//! What holds:
//! * An agent that loses its head ends its ranks: end of file on its input is enough. A killed agent leaves a keeper that does
//!   it.
//! * A head that loses an agent, or hears nothing of it for [`SILENCE`], names the host and ends the job on all others.
//! * Whatever waits is bounded: output stops being read while the head does not take it, input is sent in credit.

pub(crate) mod agent;
mod agents;
mod clocks;
pub(crate) mod dealing;
pub mod frames;
pub mod gather;
pub(crate) mod head;
mod local;
mod orders;
mod streams;
mod verdicts;
mod watching;

use std::time::Duration;

/// The word that makes mpiexec an agent.
pub(crate) const AGENT_WORD: &str = "--agent-of-mpiexec";

/// How often the head asks every agent whether it is there.
const PING: Duration = Duration::from_secs(2);

/// A host that has said nothing for so long is lost.
const SILENCE: Duration = Duration::from_secs(20);

/// Bytes of standard input on their way to rank 0 at most.
const INPUT_CREDIT: usize = 64 * 1024;
