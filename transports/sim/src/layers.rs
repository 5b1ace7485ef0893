//! Layers that go round any transport: [`Faulty`] makes faults on purpose, [`Late`] adds the times of another network, [`Traced`]
//! writes down what passes.
//!
//! A layer is a [`Transport`] itself and keeps every promise of the seam: packets between two processes stay whole and in order, what
//! was put is visible before a later packet and after a flush, every token comes back once. What the seam leaves open is theirs: when
//! something comes, whose comes first, what is refused and how often.
//!
//! ```text
//! clock.rs    the time: the machine's, or a virtual fabric's     nap.rs      bells that wake when something is due
//! fronts.rs   packets that are there and not shown yet           endings.rs  ends of operations that are not told yet
//! ```
//!
//! * *What is held back stays where it is.* A packet that is not to be seen yet lies in the transport below, whose room is bounded and
//!   whose order is kept; nothing is copied.
//! * *The gone are read to the end.* When a process has died, has left or said farewell, what it sent is shown at once, and its loss
//!   is told after that.
//! * *Nobody sleeps too long.* Something that becomes due rings no bell, so the bell of a layer sleeps until then at most, and
//!   never longer than a millisecond.
//! * Only packets and operations pass here. Memory that processes share by themselves does not.

mod clock;
mod endings;
mod faults;
mod fronts;
mod latency;
mod nap;
mod trace;

pub use clock::Clock;
pub use faults::{Faulty, Injected};
pub use latency::Late;
pub use nap::Napping;
pub use trace::Traced;

use weft_api::Transport;
use weft_types::params::{FaultPlan, LatencyModel, PacketTrace};
use weft_types::{PeerId, Result};

/// All layers round one transport: the tracer sees what its owner sees, faults happen to what the slow network brings.
pub type Layered<T> = Traced<Faulty<Late<T>>>;

/// The bell of [`Layered`].
pub type LayeredBell<B> = Napping<Napping<B>>;

/// Hands calls through to the transport below, unchanged. Routes are left out on purpose: by its own number a peer is found in a
/// layer, and [`weft_api::Transport::send_now`] then takes the general way.
macro_rules! pass {
    ($($name:ident)*) => { $(pass!(@ $name);)* };
    (@ capabilities) => {
        fn capabilities(&self, peer: PeerId) -> Capabilities {
            self.inner.capabilities(peer)
        }
    };
    (@ connect) => {
        fn connect(&mut self, peer: PeerId) -> weft_types::Result<()> {
            self.inner.connect(peer)
        }
    };
    (@ peek) => {
        fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
            self.inner.peek(peer)
        }
    };
    (@ ready) => {
        fn ready(&mut self) -> Option<PeerId> {
            self.inner.ready()
        }
    };
    (@ is_gone) => {
        fn is_gone(&self, peer: PeerId) -> bool {
            self.inner.is_gone(peer)
        }
    };
    (@ departures) => {
        fn set_farewell(&mut self, farewell: weft_types::Farewell) {
            self.inner.set_farewell(farewell);
        }

        fn farewell_of(&self, peer: PeerId) -> weft_types::Farewell {
            self.inner.farewell_of(peer)
        }

        fn has_ended(&self, peer: PeerId) -> bool {
            self.inner.has_ended(peer)
        }

        fn has_left(&self) -> bool {
            self.inner.has_left()
        }

        fn has_rested(&self) -> bool {
            self.inner.has_rested()
        }

        fn declare_lost(&mut self, peer: PeerId) {
            self.inner.declare_lost(peer);
        }

        fn give_up(&mut self, peer: PeerId) {
            self.inner.give_up(peer);
        }

        fn unanswered(&self, peer: PeerId) -> Option<std::time::Duration> {
            self.inner.unanswered(peer)
        }
    };
    (@ rest) => {
        fn rest(&mut self) {
            self.inner.rest();
        }
    };
    (@ progress) => {
        fn progress(&mut self) -> bool {
            self.inner.progress()
        }
    };
    (@ push_out) => {
        fn push_out(&mut self) {
            self.inner.push_out();
        }
    };
    (@ lost) => {
        fn lost(&mut self) -> Option<PeerId> {
            self.inner.lost()
        }

        fn has_only_parted(&self) -> bool {
            self.inner.has_only_parted()
        }
    };
    (@ read_remote) => {
        fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> weft_types::Result<()> {
            self.inner.read_remote(peer, address, into)
        }

        fn read_remote_runs(
            &mut self,
            peer: PeerId,
            remote: &[(u64, usize)],
            local: &[&[std::cell::Cell<u8>]],
        ) -> weft_types::Result<()> {
            self.inner.read_remote_runs(peer, remote, local)
        }
    };
    (@ zero_copy) => {
        fn zero_copy(&self, peer: PeerId) -> Option<ZeroCopy> {
            self.inner.zero_copy(peer)
        }
    };
    (@ register) => {
        fn register(&mut self, memory: MemoryRange, access: Access) -> Result<Region, Unregistered> {
            self.inner.register(memory, access)
        }
    };
    (@ deregister) => {
        fn deregister(&mut self, region: RegionId) {
            self.inner.deregister(region);
        }
    };
}
pub(crate) use pass;

/// Calls `work` with `fill` as a plain reference. A layer below must not get a closure type of its own: in an enum of transports one of
/// which is a layered one of the same enum, there would be no end of types.
fn plainly<R>(fill: impl FnOnce(&mut [u8]), work: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> R) -> R {
    let mut fill = Some(fill);
    work(&mut |room| fill.take().expect("a packet is filled once")(room))
}

/// Which layers there shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    /// Faults on purpose.
    pub faults: Option<FaultPlan>,
    /// The times of another network.
    pub latency: Option<LatencyModel>,
    /// Where packets are written down.
    pub trace: Option<PacketTrace>,
}

impl Layers {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.faults.is_none() && self.latency.is_none() && self.trace.is_none()
    }

    /// Puts them round the transport of process `me`; `lane`: of a process that has several.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn wrap<T: Transport>(&self, inner: T, me: PeerId, lane: u32, clock: Clock) -> Result<Layered<T>> {
        let late = Late::new(inner, self.latency, me, clock.clone());
        let faulty = Faulty::new(late, self.faults.unwrap_or(FaultPlan::NONE), me, lane, clock.clone());
        Traced::new(faulty, self.trace.clone(), me, lane, clock)
    }
}
