//! What the cost formulas assume of the machine, and the time they add up from the rounds of an algorithm.
//!
//! The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman, 1995) with two additions: the ranks of a node share its
//! adapter, so that messages that leave a node at the same time follow one another there; and ranks that share cores
//! share their time.

use crate::call::Group;
use crate::layout::{Layout, Level, Partition};

/// What a message between two ranks takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Seconds from the start of a small send to its arrival.
    pub latency: f64,
    /// Seconds of work per message at either end.
    pub overhead: f64,
    /// Seconds per byte moved between two ranks.
    pub per_byte: f64,
    /// How much longer it takes a rank to send and receive a byte than to do one of both: 1 for a network, 2 in shared
    /// memory, where the same cores and caches do both.
    pub duplex: f64,
    /// Seconds for which a message occupies what its group shares (the adapter), at least.
    pub shared_per_message: f64,
    /// Seconds for which a byte occupies it.
    pub shared_per_byte: f64,
}

impl Link {
    /// Shared memory, fitted to `core/engine/examples/collectives.rs`.
    pub const MEMORY: Link = Link {
        latency: 0.15e-6,
        overhead: 0.06e-6,
        per_byte: 0.02e-9,
        duplex: 2.0,
        shared_per_message: 0.0,
        shared_per_byte: 0.0,
    };

    /// A 200 Gbit/s adapter through one or two switches: about what its vendors and users publish.
    pub const NETWORK: Link = Link {
        latency: 1.0e-6,
        overhead: 0.1e-6,
        per_byte: 0.08e-9,
        duplex: 1.0,
        shared_per_message: 0.01e-6,
        shared_per_byte: 0.04e-9,
    };

    /// TCP on 25 to 40 Gbit/s: what libfabric over the kernel's sockets takes between two network namespaces, with a latency as machines with a
    /// switch between them have. Processors move the bytes.
    pub const SOCKETS: Link = Link {
        latency: 5.0e-6,
        overhead: 3.5e-6,
        per_byte: 0.28e-9,
        duplex: 1.5,
        shared_per_message: 0.0,
        shared_per_byte: 0.14e-9,
    };

    /// The emulated adapter, an RDMA device in user space over UDP, likewise.
    pub const EMULATED: Link = Link {
        latency: 4.0e-6,
        overhead: 2.2e-6,
        per_byte: 0.85e-9,
        duplex: 1.8,
        shared_per_message: 0.0,
        shared_per_byte: 0.25e-9,
    };

    /// Seconds for which a processor is busy with a byte at either end: in shared memory it moves the bytes, an adapter
    /// moves them by itself.
    pub(crate) fn per_byte_of_processor(&self) -> f64 {
        if self.duplex > 1.0 { self.per_byte } else { 0.0 }
    }

    /// Seconds of one message of `bytes` at both ends and on the way, while `injectors` ranks of a group send one each.
    fn message(&self, bytes: f64, injectors: f64, ends: f64, moves: f64) -> f64 {
        let alone = bytes * self.per_byte * moves;
        let shared = injectors * (self.shared_per_message + bytes * self.shared_per_byte);
        self.latency + ends * self.overhead + alone.max(shared)
    }
}

impl Default for Link {
    fn default() -> Link {
        Link::MEMORY
    }
}

/// What the cost formulas assume of the machine. Must be the same at all ranks of a communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Between ranks of one innermost group of the layout: inside a node.
    pub inside: Link,
    /// The nodes, and what is between them.
    pub layout: Layout,
    /// Seconds per byte combined by a reduction.
    pub per_byte_reduced: f64,
    /// Seconds a wait costs when ranks share cores: sleeping, waking, switching.
    pub per_switch: f64,
    /// Ranks for each core, at the fullest node; above 1 waiting costs switches.
    pub ranks_per_core: f64,
    /// Bytes of a segment where a message is passed on in segments; `None`: those of which an algorithm's formula says the least time.
    pub segment: Option<u64>,
    /// Exchanges an all-to-all has under way at a time; `None`: those of which the formula says that more gain nothing.
    pub window: Option<usize>,
}

impl Default for Model {
    /// Shared memory on one node, a core for every rank.
    fn default() -> Model {
        Model {
            inside: Link::MEMORY,
            layout: Layout::default(),
            per_byte_reduced: 0.02e-9,
            per_switch: 1.5e-6,
            ranks_per_core: 1.0,
            segment: None,
            window: None,
        }
    }
}

/// Lengths of segments among which the formulas choose, longest first.
pub(crate) const SEGMENTS: [u64; 12] = [
    2 << 20,
    1 << 20,
    512 << 10,
    256 << 10,
    128 << 10,
    64 << 10,
    32 << 10,
    16 << 10,
    8 << 10,
    4 << 10,
    2 << 10,
    1 << 10,
];

/// Fewest and most exchanges of an all-to-all under way at a time, unless a rule says otherwise.
const WINDOWS: (usize, usize) = (8, 256);

impl Model {
    /// Bytes of a segment, for formulas and builders.
    pub(crate) fn segment(&self) -> u64 {
        self.segment.unwrap_or(SEGMENTS[6])
    }

    /// What an exchange of `bytes` with one of all ranks occupies a rank or its adapter for, and for how long it is under way.
    fn far_exchange(&self, size: u32, bytes: f64) -> (f64, f64) {
        let (link, _) = self.slowest(size / 2, None, size);
        let fullest = self.layout.levels.first().map_or(1, |level| level.groups.fullest(size));
        // Whom it waits for may have to come to its core first.
        let turn = if self.ranks_per_core > 1.0 { self.ranks_per_core * self.per_switch } else { 0.0 };
        let way = link.latency + bytes * link.per_byte + turn;
        (far(link, 1.0, f64::from(fullest), bytes), way)
    }

    /// Exchanges of `bytes` that each of `size` ranks has under way at a time. So many that one is awaited no longer than the others take, and four times
    /// that, since ranks are not in step: more would take memory of the receivers for nothing.
    pub(crate) fn window(&self, size: u32, bytes: f64) -> usize {
        self.window.unwrap_or_else(|| {
            let (busy, way) = self.far_exchange(size, bytes);
            let least = (way / busy.max(1e-12)).min(64.0).ceil() as usize + 1;
            (4 * least).next_power_of_two().clamp(WINDOWS.0, WINDOWS.1)
        })
    }

    /// Waits, one after another, of as many exchanges: the first, and what a window is too short to hide.
    pub(crate) fn batches(&self, size: u32, bytes: f64) -> f64 {
        let (busy, way) = self.far_exchange(size, bytes);
        let window = self.window(size, bytes) as f64;
        let bare = ((way - (window - 1.0) * busy) / way.max(1e-12)).clamp(0.0, 1.0);
        1.0 + bare * (f64::from(size) / window - 1.0).max(0.0)
    }

    /// Bytes of the shortest segment there may be: what is not longer has no segments.
    pub(crate) fn shortest(&self) -> u64 {
        self.segment.unwrap_or(SEGMENTS[SEGMENTS.len() - 1])
    }

    /// Nodes cut out of the ranks by `nodes`, joined by a network.
    pub fn cluster(nodes: Partition) -> Model {
        let level = Level { groups: nodes, link: Link::NETWORK };
        Model { layout: Layout { levels: vec![level] }, ..Model::default() }
    }

    /// Nodes on which `size` ranks live: the groups of the outermost level.
    pub fn nodes(&self, size: u32) -> u32 {
        self.layout.levels.first().map_or(1, |level| level.groups.groups(size))
    }

    /// The link between two ranks.
    pub fn link(&self, a: u32, b: u32) -> &Link {
        let apart = self.layout.levels.iter().find(|level| level.groups.group(a) != level.groups.group(b));
        apart.map_or(&self.inside, |level| &level.link)
    }

    /// The slowest link in use when every rank sends to the one `distance` further on (within its `window`), and how many
    /// messages leave one of its groups then.
    fn slowest(&self, distance: u32, window: Option<u32>, size: u32) -> (&Link, f64) {
        for level in &self.layout.levels {
            let crossing = level.groups.crossing(distance, window, size);
            if crossing > 0.0 {
                return (&level.link, crossing);
            }
        }
        (&self.inside, 1.0)
    }
}

/// The time of an algorithm, added up round by round.
///
/// With a core for each rank the longest path decides. Otherwise the work and the waits of the ranks that share a core
/// add up, and decide if that is longer.
#[derive(Clone, Debug)]
pub struct Estimate<'m> {
    model: &'m Model,
    size: u32,
    path: f64,
    messages: f64,
    moved: f64,
    waits: f64,
}

impl<'m> Estimate<'m> {
    /// Nothing so far.
    pub(crate) fn new(model: &'m Model, group: Group) -> Estimate<'m> {
        Estimate { model, size: group.size, path: 0.0, messages: 0.0, moved: 0.0, waits: 0.0 }
    }

    fn ranks(&self) -> f64 {
        f64::from(self.size)
    }

    /// Every rank sends `bytes` to the one `distance` further on and receives as many, `times` times, one after another.
    pub(crate) fn exchange(&mut self, times: f64, distance: u32, bytes: f64) {
        self.exchange_in(None, times, distance, bytes);
    }

    /// The same with the rank whose number differs by the bit `distance`.
    pub(crate) fn exchange_bit(&mut self, times: f64, distance: u32, bytes: f64) {
        self.exchange_in(distance.checked_mul(2), times, distance, bytes);
    }

    fn exchange_in(&mut self, window: Option<u32>, times: f64, distance: u32, bytes: f64) {
        if self.size < 2 {
            return;
        }
        let (link, injectors) = self.model.slowest(distance, window, self.size);
        self.path += times * link.message(bytes, injectors, 2.0, link.duplex);
        self.count(times * self.ranks(), times * self.ranks() * bytes, times * self.ranks());
    }

    /// Every rank sends `bytes` to each of `others` others, at multiples of `distance`, all at once; those of a `window`
    /// to one another.
    pub(crate) fn exchange_many(&mut self, others: u32, distance: u32, window: Option<u32>, bytes: f64) {
        if self.size < 2 || others == 0 {
            return;
        }
        let (link, injectors) = self.model.slowest(distance.saturating_mul(others), window, self.size);
        let others = f64::from(others);
        let alone = bytes * (link.per_byte + (others - 1.0) * link.per_byte_of_processor()) * link.duplex;
        let shared = others * injectors * (link.shared_per_message + bytes * link.shared_per_byte);
        // What has come is received while the last is under way.
        let work = (link.latency + (others + 1.0) * link.overhead).max(2.0 * others * link.overhead);
        self.path += work + alone.max(shared);
        self.count(others * self.ranks(), others * self.ranks() * bytes, self.ranks());
    }

    /// All pairs exchange `bytes`, `batches` waits one after another.
    pub(crate) fn all_pairs(&mut self, batches: f64, bytes: f64) {
        let n = self.ranks();
        if self.size < 2 {
            return;
        }
        let mut path = 0.0;
        let mut inner = n;
        for level in &self.model.layout.levels {
            let fullest = f64::from(level.groups.fullest(self.size));
            path += far(&level.link, (inner - fullest).max(0.0), fullest, bytes);
            inner = inner.min(fullest);
        }
        path += far(&self.model.inside, inner - 1.0, 1.0, bytes);
        let (link, _) = self.model.slowest(self.size / 2, None, self.size);
        self.path += path + batches * link.latency;
        self.count(n * (n - 1.0), n * (n - 1.0) * bytes, n * batches);
    }

    /// One level of a tree: a parent exchanges `bytes`, in one direction, with `children` ranks at multiples of `distance`.
    pub(crate) fn fan(&mut self, children: u32, distance: u32, bytes: f64) {
        if self.size < 2 || children == 0 {
            return;
        }
        let (link, injectors) = self.model.slowest(
            distance.saturating_mul(children),
            distance.checked_mul(children + 1),
            self.size,
        );
        let families = (self.ranks() / f64::from(distance) / f64::from(children + 1)).ceil();
        let children = f64::from(children);
        // One rank in so many sends at this level of the tree.
        let sharing = (injectors / f64::from(distance)).max(1.0) * children;
        let alone =
            (children - 1.0) * (link.overhead + bytes * link.per_byte_of_processor()) + bytes * link.per_byte;
        let each = link.shared_per_message + bytes * link.shared_per_byte;
        // The last one is on its way when all others have passed the adapter.
        let shared = (sharing - 1.0) * each + each.max(bytes * link.per_byte);
        self.path += link.latency + 2.0 * link.overhead + alone.max(shared);
        self.count(families * children, families * children * bytes, 0.0);
    }

    /// As [`Estimate::fan`], where the time that the one rank needs for what it takes counts, too: it passes it on.
    pub(crate) fn hand(&mut self, children: u32, distance: u32, bytes: f64) {
        self.fan(children, distance, bytes);
        if self.size > 1 {
            let window = distance.checked_mul(children + 1);
            let (link, _) = self.model.slowest(distance.saturating_mul(children), window, self.size);
            self.path += f64::from(children) * bytes * link.per_byte_of_processor() * (link.duplex - 1.0);
        }
    }

    /// As [`Estimate::exchange_bit`]. Where processors move the bytes to the adapter, what goes through it follows after that.
    pub(crate) fn halve(&mut self, times: f64, distance: u32, bytes: f64) {
        self.exchange_through(distance.checked_mul(2), times, distance, bytes);
    }

    /// As [`Estimate::exchange`], likewise.
    pub(crate) fn exchange_through_adapter(&mut self, times: f64, distance: u32, bytes: f64) {
        self.exchange_through(None, times, distance, bytes);
    }

    fn exchange_through(&mut self, window: Option<u32>, times: f64, distance: u32, bytes: f64) {
        self.exchange_in(window, times, distance, bytes);
        if self.size > 1 {
            let (link, injectors) = self.model.slowest(distance, window, self.size);
            if link.per_byte_of_processor() > 0.0 {
                self.path += times * injectors * bytes * link.shared_per_byte;
            }
            let others = self.sharers() - 1.0;
            self.path += times * others * bytes * link.per_byte_of_processor() * link.duplex;
        }
    }

    /// Every rank sends `bytes` to the one `distance` further on, in `times` rounds, and combines `combined` of what it takes in each. What
    /// a round sends came rounds before: they overlap, but for the way of one message.
    pub(crate) fn overlapping(&mut self, times: f64, distance: u32, bytes: f64, combined: f64) {
        if self.size < 2 {
            return;
        }
        let (link, injectors) = self.model.slowest(distance, None, self.size);
        let combining = combined * self.model.per_byte_reduced;
        let through = if link.per_byte_of_processor() > 0.0 { bytes * link.shared_per_byte } else { 0.0 };
        let way = link.message(bytes, injectors, 2.0, link.duplex) + injectors * through + combining;
        let shared = injectors * (link.shared_per_message + bytes * link.shared_per_byte);
        self.path += way + times * self.sharers() * (each(link, bytes, 0.0).max(shared) + combining);
        self.count(times * self.ranks(), times * self.ranks() * bytes, times * self.ranks());
    }

    /// One rank exchanges a message of `bytes` with each of the others, in one direction, at once.
    pub(crate) fn with_all(&mut self, bytes: f64) {
        let n = self.ranks();
        if self.size < 2 {
            return;
        }
        let mut inner = n;
        for level in &self.model.layout.levels {
            let fullest = f64::from(level.groups.fullest(self.size));
            let outside = (inner - fullest).max(0.0);
            let link = &level.link;
            let shared = outside * (link.shared_per_message + bytes * link.shared_per_byte);
            // The last message's bytes are those below.
            let alone =
                outside * link.overhead + (outside - 1.0).max(0.0) * bytes * link.per_byte_of_processor();
            self.path += alone.max(shared) + if outside > 0.0 { bytes * link.per_byte } else { 0.0 };
            inner = inner.min(fullest);
        }
        let inside = &self.model.inside;
        let alone = (inner - 1.0) * (inside.overhead + bytes * inside.per_byte);
        let shared = (inner - 1.0) * (inside.shared_per_message + bytes * inside.shared_per_byte);
        self.path += alone.max(shared);
        let (link, _) = self.model.slowest(self.size / 2, None, self.size);
        self.path += link.latency + link.overhead;
        self.count(n - 1.0, (n - 1.0) * bytes, 0.0);
    }

    /// `segments` pieces of `bytes` follow one another along all ranks in order.
    pub(crate) fn chain(&mut self, segments: f64, bytes: f64) {
        self.along(segments, bytes, 0.0, |_| 1.0);
    }

    /// The same, with each piece combined at every rank before it is passed on. A rank that shares its core with the next has
    /// done with all pieces before that one goes on: no two overlap then.
    pub(crate) fn combining_chain(&mut self, segments: f64, bytes: f64) {
        let combining = bytes * self.model.per_byte_reduced;
        if self.sharers() > 1.0 {
            self.along(1.0, segments * bytes, segments * combining, |link| link.duplex);
            let further = segments - 1.0;
            return self.count((self.ranks() - 1.0) * further, 0.0, self.ranks() * further);
        }
        self.along(segments, bytes, combining, |link| link.duplex);
    }

    fn along(&mut self, segments: f64, bytes: f64, combining: f64, moves: impl Fn(&Link) -> f64) {
        if self.size < 2 {
            return;
        }
        let n = self.ranks();
        let mut hops = n - 1.0;
        let mut slowest = 0.0_f64;
        for level in &self.model.layout.levels {
            let across = match &level.groups {
                groups if groups.is_contiguous() => f64::from(groups.groups(self.size)) - 1.0,
                _ => n - 1.0,
            };
            let across = across.min(hops);
            if across > 0.0 {
                self.path += across * (level.link.message(bytes, 1.0, 2.0, moves(&level.link)) + combining);
                slowest = slowest.max(each(&level.link, bytes, combining));
                hops -= across;
            }
        }
        if hops > 0.0 {
            let inside = &self.model.inside;
            self.path += hops * (inside.message(bytes, 1.0, 2.0, moves(inside)) + combining);
            slowest = slowest.max(each(inside, bytes, combining));
        }
        self.path += (segments - 1.0) * slowest;
        self.count((n - 1.0) * segments, (n - 1.0) * segments * bytes, n * segments);
    }

    /// Every rank passes on what it got, `bytes` at a time, until all have gone round.
    pub(crate) fn ring(&mut self, bytes: f64) {
        self.around(1.0, bytes, 0.0, |_| 1.0);
    }

    /// The same in `segments` pieces of `bytes`, with `combined` bytes of each combined on the way.
    pub(crate) fn ring_in(&mut self, segments: f64, bytes: f64, combined: f64) {
        // Processors that move bytes to an adapter have moved a piece before it goes through that.
        let through = |link: &Link| {
            if link.per_byte_of_processor() > 0.0 { link.shared_per_byte / link.per_byte } else { 0.0 }
        };
        self.around(segments, bytes, combined, |link| link.duplex + through(link));
    }

    fn around(&mut self, segments: f64, bytes: f64, combined: f64, moves: impl Fn(&Link) -> f64) {
        if self.size < 2 {
            return;
        }
        let n = self.ranks();
        let mut hops = n - 1.0;
        let combining = combined * self.model.per_byte_reduced;
        let sharers = if combined > 0.0 || segments > 1.0 { self.sharers() } else { 1.0 };
        let rounds = sharers * segments * hops;
        let mut busy = 0.0_f64;
        // What one round has in pieces follows the first of them.
        let round = |link: &Link, moves: f64| {
            let first = link.message(bytes, 1.0, 2.0, moves) + combining;
            if segments > 1.0 { first.max(segments * each(link, bytes, combining)) } else { first }
        };
        let mut path = 0.0;
        for level in &self.model.layout.levels {
            // The ranks on both sides of a border wait for no other messages than these.
            let groups = f64::from(level.groups.groups(self.size));
            let across = if level.groups.is_contiguous() { groups.min(hops) } else { hops };
            path += across * round(&level.link, moves(&level.link));
            if across > 0.0 && (combined > 0.0 || segments > 1.0) {
                busy = busy.max(rounds * each(&level.link, bytes, combining));
            }
            hops -= across;
        }
        path += hops * round(&self.model.inside, self.model.inside.duplex);
        if hops > 0.0 {
            busy = busy.max(rounds * each(&self.model.inside, bytes, combining));
        }
        self.path += path.max(busy);
        let messages = n * (n - 1.0) * segments;
        self.count(messages, messages * bytes, messages);
    }

    /// A rank on the longest path combines, or copies, `bytes`.
    pub(crate) fn combine(&mut self, bytes: f64) {
        self.path += bytes * self.model.per_byte_reduced;
    }

    /// All ranks combine, or copy, `bytes`, one after the other where they share a core.
    pub(crate) fn all_combine(&mut self, bytes: f64) {
        self.combine(self.sharers() * bytes);
    }

    /// Ranks that share a core.
    fn sharers(&self) -> f64 {
        self.model.ranks_per_core.max(1.0)
    }

    /// Waits of all ranks together that no round counts.
    pub(crate) fn waits(&mut self, waits: f64) {
        self.waits += waits;
    }

    /// Work on the longest path, in seconds.
    pub(crate) fn work(&mut self, seconds: f64) {
        self.path += seconds;
    }

    /// Another algorithm, run by `copies` groups of ranks at the same time.
    pub(crate) fn within(&mut self, copies: f64, part: &Estimate<'_>) {
        self.path += part.path;
        self.count(copies * part.messages, copies * part.moved, copies * part.waits);
    }

    /// Messages, bytes and waits of all ranks together.
    pub(crate) fn count(&mut self, messages: f64, moved: f64, waits: f64) {
        self.messages += messages;
        self.moved += moved;
        self.waits += waits;
    }

    /// The same time, by a model of the same machine.
    pub(crate) fn by<'n>(&self, model: &'n Model) -> Estimate<'n> {
        let &Estimate { size, path, messages, moved, waits, .. } = self;
        Estimate { model, size, path, messages, moved, waits }
    }

    /// Messages of all ranks together.
    pub fn messages(&self) -> f64 {
        self.messages
    }

    /// The time, in seconds.
    pub fn seconds(&self) -> f64 {
        let Model { ranks_per_core, inside, per_switch, .. } = self.model;
        if *ranks_per_core <= 1.0 {
            return self.path;
        }
        let cores = self.ranks() / ranks_per_core;
        let work =
            self.messages * 2.0 * inside.overhead + self.moved * inside.per_byte + self.waits * per_switch;
        self.path.max(work / cores.max(1.0))
    }
}

/// `peers` exchanges of `bytes` over a link at once, from each of `injectors` ranks of a group.
fn far(link: &Link, peers: f64, injectors: f64, bytes: f64) -> f64 {
    let alone = 2.0 * link.overhead + bytes * link.per_byte_of_processor() * link.duplex;
    let shared = injectors * (link.shared_per_message + bytes * link.shared_per_byte);
    peers * alone.max(shared)
}

/// What a rank, or its adapter, is busy with for each piece that it takes from one rank, combines and gives to the next.
fn each(link: &Link, bytes: f64, combining: f64) -> f64 {
    let work = 2.0 * link.overhead + bytes * link.per_byte_of_processor() * link.duplex + combining;
    work.max(bytes * link.shared_per_byte)
}
