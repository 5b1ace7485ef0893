//! [`Faulty`]: faults on purpose, round any transport.
//!
//! What a fault *is* at the seam, where packets are reliable and in order, and which mistake of an engine it brings to light:
//!
//! | fault | here | finds |
//! | --- | --- | --- |
//! | delay | a packet is shown late, and those of its sender behind it; other senders' overtake it, and so do ends of operations | who counts on an order between peers, or between packets and completions |
//! | loss | the same for the time of a retransmission: the sender goes silent, then all comes at once | timers, and buffers that bursts overrun |
//! | refusal | [`Refused::Full`], several times in a row, of packets and of operations | work that is forgotten when it is refused, spinning, credits lent twice |
//! | held endings | an operation is over, and its token comes later, after that of a later one | who frees or reads memory too soon, or counts on the order of tokens |
//! | denial | memory is not registered ([`Unregistered::Exhausted`]) or not read | ways round that were never taken |
//! | death | the ways between one process and all others die in the middle of traffic, each for itself: sends are refused, nothing more is shown, operations end in failure, the loss is told once | requests without an end |
//!
//! What no transport may do is not done here: a packet that were dropped for good, or came twice, would break the promise that the
//! engine builds on. Below the promise both happen to datagrams of the emulator (`weft_softroce::Faults`).
//!
//! *Replayable*: which packet, operation or registration a fault befalls depends on seed, process, peer and its number alone, not on
//! when it is looked at.

use super::endings::Endings;
use super::fronts::{Fronts, Losses};
use super::nap::{Due, Napping};
use super::{Clock, pass, plainly};
use crate::Random;
use std::cell::Cell;
use std::collections::BTreeMap;
use weft_api::verbs::Access;
use weft_api::zero_copy::{
    Atomic, Completed, LocalRun, MemoryRange, Region, RegionId, RemoteMemory, RemoteRun, Token, Unregistered,
    ZeroCopy,
};
use weft_api::{Capabilities, Refused, Transport};
use weft_types::params::FaultPlan;
use weft_types::{Error, ErrorClass, PeerId};
use weft_wire::Header;

/// How many faults there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Packets shown late.
    pub delays: u64,
    /// Packets that came by a retransmission.
    pub losses: u64,
    /// Calls refused.
    pub refusals: u64,
    /// Operations whose end was told late.
    pub held: u64,
    /// Memory not registered or not read.
    pub denials: u64,
    /// Peers to whom the way died.
    pub deaths: u64,
}

impl std::fmt::Display for Injected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Injected { delays, losses, refusals, held, denials, deaths } = self;
        write!(
            f,
            "{delays} packets late, {losses} lost and sent again, {refusals} calls refused, {held} endings held back, \
             {denials} times memory denied, {deaths} peers cut off"
        )
    }
}

/// What chance decides.
#[derive(Clone, Copy)]
enum Kind {
    Delay = 1,
    Loss,
    Refusal,
    Hold,
    Registration,
    Reading,
}

/// What is between this process and a peer.
#[derive(Debug, Default)]
struct Between {
    /// Packets and operations that were taken for it.
    begun: u64,
    /// How often the next one is refused yet; `None`: that is not decided.
    refusals: Option<u64>,
    /// Packets of it that were dropped after they were seen.
    seen: u64,
    dead: bool,
}

/// A transport to which faults happen; see the module.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    plan: FaultPlan,
    me: PeerId,
    /// Of seed, process and lane.
    salt: u64,
    clock: Clock,
    peers: BTreeMap<u32, Between>,
    fronts: Fronts,
    endings: Endings,
    ended: u64,
    registrations: u64,
    readings: u64,
    /// Those that happened here, and others.
    losses: Losses,
    due: Due,
    injected: Injected,
}

/// After a refusal that had no cause, somebody looks again that soon.
const ROOM_AGAIN: u64 = 50_000;

impl<T: Transport> Faulty<T> {
    /// Makes faults round the transport of process `me`; `lane`: of a process that has several.
    pub fn new(inner: T, plan: FaultPlan, me: PeerId, lane: u32, clock: Clock) -> Faulty<T> {
        let salt = Random::new(plan.seed ^ u64::from(me.0) << 32 ^ u64::from(lane) << 24).next();
        Faulty {
            inner,
            plan,
            me,
            salt,
            clock,
            peers: BTreeMap::new(),
            fronts: Fronts::default(),
            endings: Endings::default(),
            ended: 0,
            registrations: 0,
            readings: 0,
            losses: Losses::default(),
            due: Due::new(),
            injected: Injected::default(),
        }
    }

    /// The faults so far.
    pub const fn injected(&self) -> Injected {
        self.injected
    }

    /// What it does on purpose.
    pub const fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The transport below.
    pub const fn inner(&self) -> &T {
        &self.inner
    }

    /// The same, to work with.
    pub const fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    fn is_dead(&self, peer: PeerId) -> bool {
        self.peers.get(&peer.0).is_some_and(|between| between.dead)
    }

    /// Whether a packet or operation may be tried now.
    fn admit(&mut self, peer: PeerId) -> Result<(), Refused> {
        let (salt, refuse) = (self.salt, self.plan.refuse);
        let between = self.peers.entry(peer.0).or_default();
        if between.dead {
            return Err(Refused::Dead);
        }
        let number = between.begun;
        let left = between.refusals.get_or_insert_with(|| {
            if draw(salt, Kind::Refusal, peer, number).chance(refuse.of) { refuse.what } else { 0 }
        });
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        self.injected.refusals += 1;
        self.due.at(self.clock.now() + ROOM_AGAIN);
        Err(Refused::Full)
    }

    /// Tries a packet or an operation.
    fn tried(
        &mut self,
        peer: PeerId,
        call: impl FnOnce(&mut T) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        self.admit(peer)?;
        call(&mut self.inner)?;
        let between = self.peers.entry(peer.0).or_default();
        between.begun += 1;
        between.refusals = None;
        self.wear(peer);
        Ok(())
    }

    /// One more packet has gone between this process and `peer`: the way may be worn out.
    fn wear(&mut self, peer: PeerId) {
        let Some((rank, after)) = self.plan.dead else { return };
        let between = self.peers.entry(peer.0).or_default();
        let concerned = peer.0 == rank || self.me.0 == rank;
        if concerned && between.begun + between.seen >= after.max(1) {
            self.cut(peer);
        }
    }

    /// The way to and from `peer` dies now. A packet that was seen stays until it is dropped; what else is there or comes is not shown.
    pub fn cut(&mut self, peer: PeerId) {
        let between = self.peers.entry(peer.0).or_default();
        if !std::mem::replace(&mut between.dead, true) {
            self.injected.deaths += 1;
            self.inner.give_up(peer);
            self.losses.add(peer);
        }
    }

    /// Whether a packet of `peer` is to be seen.
    fn is_shown(&mut self, peer: PeerId) -> bool {
        let Faulty { inner, plan, salt, clock, peers, fronts, due, injected, .. } = self;
        show(&mut Sight { plan, salt: *salt, now: clock.now(), peers, due, injected }, fronts, inner, peer)
    }
}

/// What it takes to decide when a packet is seen.
struct Sight<'a> {
    plan: &'a FaultPlan,
    salt: u64,
    now: u64,
    peers: &'a BTreeMap<u32, Between>,
    due: &'a Due,
    injected: &'a mut Injected,
}

fn show<T: Transport>(sight: &mut Sight<'_>, fronts: &mut Fronts, below: &mut T, peer: PeerId) -> bool {
    let between = sight.peers.get(&peer.0);
    if between.is_some_and(|between| between.dead) {
        if fronts.is_seen(peer) {
            return true;
        }
        // What still comes from there is for nobody.
        while below.peek(peer).is_some() {
            below.advance(peer);
        }
        return false;
    }
    let number = between.map_or(0, |between| between.seen);
    let Sight { plan, salt, now, due, injected, .. } = sight;
    fronts.is_shown(below, peer, *now, due, |_, _| {
        if draw(*salt, Kind::Loss, peer, number).chance(plan.loss.of) {
            injected.losses += 1;
            return *now + plan.loss.what;
        }
        let mut draw = draw(*salt, Kind::Delay, peer, number);
        if !draw.chance(plan.delay.of) {
            return *now;
        }
        injected.delays += 1;
        *now + 1 + draw.below(plan.delay.what)
    })
}

/// What chance says of something of this number.
fn draw(salt: u64, kind: Kind, peer: PeerId, number: u64) -> Random {
    let of_kind = Random::new(salt ^ (kind as u64) << 56 ^ u64::from(peer.0)).next();
    Random::new(of_kind.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95)))
}

impl<T: Transport> Transport for Faulty<T> {
    type Bell = Napping<T::Bell>;

    pass! { capabilities connect departures rest push_out zero_copy deregister }

    fn send_inline(&mut self, peer: PeerId, header: Header, payload: &[u8]) -> Result<(), Refused> {
        self.tried(peer, |below| below.send_inline(peer, header, payload))
    }

    fn send_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        header: Header,
        len: usize,
        fill: F,
    ) -> Result<(), Refused> {
        plainly(fill, |fill| self.tried(peer, |below| below.send_copy(peer, header, len, fill)))
    }

    fn peek(&mut self, peer: PeerId) -> Option<(Header, &[u8])> {
        if self.is_shown(peer) { self.inner.peek(peer) } else { None }
    }

    fn advance(&mut self, peer: PeerId) {
        self.inner.advance(peer);
        self.fronts.advance(peer);
        self.peers.entry(peer.0).or_default().seen += 1;
        self.wear(peer);
    }

    fn ready(&mut self) -> Option<PeerId> {
        let Faulty { inner, plan, salt, clock, peers, fronts, due, injected, .. } = self;
        let mut sight = Sight { plan, salt: *salt, now: clock.now(), peers, due, injected };
        fronts.ready(inner, |fronts, below, peer| show(&mut sight, fronts, below, peer))
    }

    fn progress(&mut self) -> bool {
        self.due.clear();
        self.inner.progress()
    }

    fn is_gone(&self, peer: PeerId) -> bool {
        self.is_dead(peer) || self.inner.is_gone(peer)
    }

    fn lost(&mut self) -> Option<PeerId> {
        let Faulty { inner, fronts, peers, losses, .. } = self;
        let is_dead = |peer: PeerId| peers.get(&peer.0).is_some_and(|between| between.dead);
        losses.next(inner, fronts, is_dead)
    }

    fn has_only_parted(&self) -> bool {
        self.losses.only_parted()
    }

    fn read_remote(&mut self, peer: PeerId, address: u64, into: &mut [u8]) -> weft_types::Result<()> {
        self.may_read(peer)?;
        self.inner.read_remote(peer, address, into)
    }

    fn read_remote_runs(
        &mut self,
        peer: PeerId,
        remote: &[(u64, usize)],
        local: &[&[Cell<u8>]],
    ) -> weft_types::Result<()> {
        self.may_read(peer)?;
        self.inner.read_remote_runs(peer, remote, local)
    }

    fn register(&mut self, memory: MemoryRange, access: Access) -> Result<Region, Unregistered> {
        self.registrations += 1;
        if draw(self.salt, Kind::Registration, self.me, self.registrations).chance(self.plan.deny) {
            self.injected.denials += 1;
            return Err(Unregistered::Exhausted);
        }
        self.inner.register(memory, access)
    }

    fn get(
        &mut self,
        peer: PeerId,
        from: &[RemoteRun],
        into: &[LocalRun],
        token: Token,
    ) -> Result<(), Refused> {
        self.tried(peer, |below| below.get(peer, from, into, token))
    }

    fn put(
        &mut self,
        peer: PeerId,
        from: &[LocalRun],
        to: &[RemoteRun],
        token: Option<Token>,
    ) -> Result<(), Refused> {
        self.tried(peer, |below| below.put(peer, from, to, token))
    }

    fn put_copy<F: FnOnce(&mut [u8])>(
        &mut self,
        peer: PeerId,
        length: usize,
        fill: F,
        to: RemoteMemory,
        token: Option<Token>,
    ) -> Result<(), Refused> {
        plainly(fill, |fill| self.tried(peer, |below| below.put_copy(peer, length, fill, to, token)))
    }

    fn atomic(
        &mut self,
        peer: PeerId,
        at: RemoteMemory,
        operation: Atomic,
        token: Token,
    ) -> Result<(), Refused> {
        self.tried(peer, |below| below.atomic(peer, at, operation, token))
    }

    fn changes_own(&mut self) -> bool {
        self.inner.changes_own()
    }

    fn change_own(&mut self, at: RemoteMemory, operation: Atomic, token: Token) -> Result<(), Refused> {
        // No network is between, so no way wears out.
        let me = self.me;
        self.admit(me)?;
        self.inner.change_own(at, operation, token)?;
        let between = self.peers.entry(me.0).or_default();
        between.begun += 1;
        between.refusals = None;
        Ok(())
    }

    fn flush(&mut self, peer: PeerId, token: Token) -> Result<(), Refused> {
        self.tried(peer, |below| below.flush(peer, token))
    }

    fn completed(&mut self) -> Option<Completed> {
        let hold = self.plan.hold;
        let now = self.clock.now();
        while let Some(done) = self.inner.completed() {
            self.ended += 1;
            let mut draw = draw(self.salt, Kind::Hold, self.me, self.ended);
            let held = draw.chance(hold.of);
            self.injected.held += u64::from(held);
            self.endings.push(if held { now + 1 + draw.below(hold.what) } else { now }, done);
        }
        self.endings.pop(now, &self.due)
    }

    fn bell(&self) -> Napping<T::Bell> {
        Napping::new(self.inner.bell(), self.due.clone(), self.clock.clone())
    }
}

impl<T: Transport> Faulty<T> {
    fn may_read(&mut self, peer: PeerId) -> weft_types::Result<()> {
        self.readings += 1;
        let denied = draw(self.salt, Kind::Reading, peer, self.readings).chance(self.plan.deny);
        self.injected.denials += u64::from(denied);
        if denied || self.is_dead(peer) {
            return Err(Error::new(
                ErrorClass::ACCESS,
                format!("reading the memory of process {} was denied on purpose (WEFT_FAULTS)", peer.0),
            ));
        }
        Ok(())
    }
}
