//! RDMA devices of the system through libibverbs: InfiniBand, RoCE, and the kernel's soft-RoCE.
//!
//! The library is opened at run time: programs start where there is none, and are told so when they ask for a device. What is
//! called for every message goes through the table in the device's context, as the header's inline functions do.
//!
//! ```text
//! sys.rs        the header's structures and numbers, compared with it by a test     library.rs   the library's functions
//! survey.rs     devices, ports, addresses and locality, as the system's files say   choice.rs    which of them, and why (pure)
//! context.rs    an opened device and its limits                                     memory.rs    buffers and regions
//! verbs.rs      the device as an `Hca`                                              pairs.rs     queue pairs and their queues
//! completions.rs what completed                                                     requests.rs  work requests as the library wants them
//! bell.rs       sleeping until something completes                                   inner.rs     memory inside of the device
//! route.rs      what belongs to the packets to a peer (pure)                        routes.rs    which routes are known and asked
//! crowd.rs      how full completion queues may get                                 functions.rs tables of functions by their names
//! manager.rs    the connection manager's library (librdmacm), which may be missing  resolver.rs  a thread that asks it
//! measure.rs    what registering takes
//! ```
//!
//! What holds:
//! * Every object of the library is destroyed once, after all that use it ([`Verbs`] owns them; bells share the context).
//! * Requests that nobody wants to hear of are signaled now and then all the same, and heard by nobody: a device gives room in
//!   a send queue back with completions only.
//! * A process may fork: the kernel copies pinned pages for the child, or the library keeps them from it.

#[macro_use]
mod functions;

mod bell;
mod choice;
mod completions;
mod context;
mod crowd;
mod inner;
mod library;
mod manager;
mod measure;
mod memory;
mod pairs;
mod requests;
mod resolver;
mod route;
mod routes;
mod survey;
mod sys;
mod verbs;

pub use bell::VerbsBell;
pub use choice::{Choice, OwnGid, Wish, choose};
pub use context::Facts;
pub use library::{is_kept_from_children, use_library};
pub use manager::{no_manager, use_manager};
pub use measure::Registration;
pub use route::RouteWish;
pub use survey::{Gid, GidKind, Link, Locality, Partition, Port, own_numa_node, survey, survey_at};
pub use verbs::Verbs;
