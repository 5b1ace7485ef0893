//! What programs have opened, and what they have under way. One lock around everything; objects that were closed are remembered, so that
//! whoever uses them afterwards is told.

use crate::faults::Faults;
use crate::groups::Groups;
use crate::motion;
use crate::profiles::{PROFILES, Profile};
use nix::sys::eventfd::EventFd;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use weft_ofi::sys::*;

/// That of the faults; 0: there are none. Tests count their seeds from 0, so it is one more.
pub(crate) static SEED: AtomicU64 = AtomicU64::new(0);

/// Ends the process: what the program did is forbidden.
pub(crate) fn misuse(what: impl Display) -> ! {
    // ORDERING: a word for this message.
    let seed = SEED.load(Ordering::Relaxed);
    eprintln!(
        "described fabric: {what}{}",
        if seed > 0 { format!(" (WEFT_SEED={})", seed - 1) } else { String::new() }
    );
    std::process::abort()
}

/// An object of the program, by its address.
#[derive(Debug)]
struct Thing {
    what: &'static str,
    profile: usize,
    /// What it uses.
    uses: Vec<usize>,
    /// Open objects that use it.
    users: usize,
    open: bool,
}

#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) domain: usize,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) rights: u64,
    pub(crate) key: u64,
    /// Where regions belong to one.
    pub(crate) endpoint: Option<usize>,
    pub(crate) enabled: bool,
}

/// Something that is told by a completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) context: usize,
    pub(crate) bytes: usize,
    pub(crate) error: i32,
    pub(crate) end: usize,
    /// Of which queue of its end it takes a place until it is read.
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Sends,
    Receives,
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) size: usize,
    pub(crate) entries: VecDeque<Entry>,
    /// Those that are told after so many looks.
    pub(crate) held: Vec<(u32, Entry)>,
    pub(crate) ends: Vec<usize>,
    /// How often it was looked at.
    pub(crate) looks: u32,
    /// Readable when there is something to look at.
    pub(crate) wait: Option<EventFd>,
}

/// An address vector: numbers of ends, and whether they were taken out.
#[derive(Debug, Default)]
pub(crate) struct Vector {
    pub(crate) places: HashMap<u64, (u64, bool)>,
}

/// Memory of the program that an operation works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    pub(crate) descriptor: usize,
    /// What its region must allow.
    pub(crate) right: u64,
}

/// Memory of another process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) key: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Message {
        from: Local,
        tag: Option<u64>,
    },
    /// One that was copied at once, and has no context.
    Copied {
        bytes: Vec<u8>,
        tag: Option<u64>,
    },
    Read(Vec<(Local, Remote)>),
    Write(Vec<(Local, Remote)>),
    Atomic {
        operand: Local,
        compared: Option<Local>,
        found: Local,
        at: Remote,
    },
}

impl Work {
    pub(crate) fn locals(&self) -> Vec<Local> {
        match self {
            Work::Message { from, .. } => vec![*from],
            Work::Copied { .. } => Vec::new(),
            Work::Read(parts) | Work::Write(parts) => parts.iter().map(|part| part.0).collect(),
            Work::Atomic { operand, compared, found, .. } => {
                [Some(*operand), *compared, Some(*found)].into_iter().flatten().collect()
            }
        }
    }
}

/// An operation under way.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) context: usize,
    /// Number of the end that it concerns.
    pub(crate) to: u64,
    pub(crate) work: Work,
    /// Looks until it moves.
    pub(crate) late: u32,
}

#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) context: usize,
    pub(crate) room: Local,
    pub(crate) tag: Option<u64>,
}

/// What has come to an end.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message {
        bytes: Vec<u8>,
        tag: Option<u64>,
    },
    /// An end of this address wants something of the memory here.
    Request {
        from: usize,
        operation: Operation,
    },
}

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) number: u64,
    pub(crate) profile: usize,
    pub(crate) domain: usize,
    pub(crate) caps: u64,
    pub(crate) vector: Option<usize>,
    pub(crate) queue: Option<usize>,
    pub(crate) enabled: bool,
    pub(crate) sends: VecDeque<Operation>,
    pub(crate) receives: VecDeque<Receive>,
    pub(crate) inbox: VecDeque<Arrival>,
    /// Where a provider over sockets listens.
    pub(crate) door: Option<TcpListener>,
    /// Ends that want a connection, and how often this one must look until there is one.
    pub(crate) callers: HashMap<u64, u32>,
    /// Places of its queues that are taken.
    pub(crate) sending: usize,
    pub(crate) receiving: usize,
}

/// A context that the library has.
#[derive(Debug)]
struct Claim {
    bytes: usize,
    stamp: u64,
    end: usize,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    things: HashMap<usize, Thing>,
    pub(crate) regions: HashMap<usize, Region>,
    pub(crate) queues: HashMap<usize, Queue>,
    pub(crate) vectors: HashMap<usize, Vector>,
    pub(crate) ends: HashMap<usize, End>,
    pub(crate) groups: Groups,
    /// Open ends by number.
    pub(crate) numbers: HashMap<u64, usize>,
    /// What was for ends that were closed, of providers that do not tell: by the end that has it under way.
    pub(crate) orphans: Vec<(usize, Operation)>,
    contexts: BTreeMap<usize, Claim>,
    counts: Vec<BTreeMap<&'static str, u64>>,
    stamp: u64,
    chance: u64,
    pub(crate) seed: u64,
    pub(crate) faults: Faults,
    /// Calls that are still refused.
    pub(crate) storm: usize,
}

pub(crate) fn world() -> MutexGuard<'static, World> {
    static WORLD: OnceLock<Mutex<World>> = OnceLock::new();
    WORLD.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A number that was not given out before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// A number below `bound`, by chance that is the same in every run of one thread.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.chance = self.chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.chance >> 33) as usize % bound.max(1)
    }

    pub(crate) fn go_wrong(&mut self, seed: u64, faults: Faults) {
        (self.seed, self.faults, self.storm) = (seed, faults, 0);
        self.chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    pub(crate) fn note(&mut self, profile: usize, what: &'static str) {
        self.counts.resize_with(PROFILES.len(), BTreeMap::new);
        *self.counts[profile].entry(what).or_default() += 1;
    }

    /// The largest of what was noted.
    pub(crate) fn note_most(&mut self, profile: usize, what: &'static str, value: u64) {
        self.counts.resize_with(PROFILES.len(), BTreeMap::new);
        let most = self.counts[profile].entry(what).or_default();
        *most = value.max(*most);
    }

    pub(crate) fn count(&self, profile: usize, what: &str) -> u64 {
        if what == "alive" {
            return self.things.values().filter(|thing| thing.open && thing.profile == profile).count()
                as u64;
        }
        let of_profile = |at: &usize| self.things[at].profile == profile;
        match what {
            // Of the program: memory that only this process uses is that of slots.
            "reachable" => {
                let reachable = |(at, region): &(&usize, &Region)| {
                    of_profile(at) && region.rights & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0
                };
                return self.regions.iter().filter(reachable).count() as u64;
            }
            // Ends of groups: each has a queue of events.
            "groups" => {
                let events = self.things.values().filter(|thing| thing.open && thing.profile == profile);
                return events.filter(|thing| thing.what == "an event queue").count() as u64;
            }
            // Sends and requests whose end was not read.
            "under way" => {
                let ends = self.ends.iter().filter(|(at, _)| of_profile(at));
                return ends.map(|(_, end)| end.sending as u64).sum();
            }
            _ => {}
        }
        self.counts.get(profile).and_then(|counts| counts.get(what)).copied().unwrap_or(0)
    }

    pub(crate) fn open(&mut self, at: usize, what: &'static str, profile: usize, uses: &[usize]) {
        self.things.insert(at, Thing { what, profile, uses: Vec::new(), users: 0, open: true });
        uses.iter().for_each(|&used| self.tie(at, used));
    }

    /// An object uses another one, which must stay open as long.
    pub(crate) fn tie(&mut self, at: usize, used: usize) {
        self.look_up(used);
        self.look_up(at);
        self.things.get_mut(&used).expect("looked up").users += 1;
        self.things.get_mut(&at).expect("looked up").uses.push(used);
    }

    /// The provider of an object, which must be open.
    pub(crate) fn look_up(&self, at: usize) -> usize {
        match self.things.get(&at) {
            None => misuse(format!("an object at {at:#x} that was never opened is used")),
            Some(thing) if !thing.open => misuse(format!("{} is used after it was closed", thing.what)),
            Some(thing) => thing.profile,
        }
    }

    pub(crate) fn profile(&self, at: usize) -> &'static Profile {
        &PROFILES[self.look_up(at)]
    }

    pub(crate) fn close(&mut self, at: usize) {
        self.look_up(at);
        let thing = self.things.get_mut(&at).expect("looked up");
        if thing.users > 0 {
            misuse(format!("{} is closed while {} open objects use it", thing.what, thing.users));
        }
        thing.open = false;
        for used in std::mem::take(&mut thing.uses) {
            self.things.get_mut(&used).expect("it was tied").users -= 1;
        }
        self.groups.close(at);
        self.regions.remove(&at);
        self.queues.remove(&at);
        self.vectors.remove(&at);
        if let Some(end) = self.ends.remove(&at) {
            self.numbers.remove(&end.number);
            self.orphans.retain(|(from, _)| *from != at);
            motion::leave_behind(self, end.number, end.inbox);
            if let Some(queue) = end.queue.and_then(|queue| self.queues.get_mut(&queue)) {
                queue.ends.retain(|&other| other != at);
                // What had ended is discarded, as a provider may.
                queue.entries.retain(|entry| entry.end != at);
                queue.held.retain(|(_, entry)| entry.end != at);
            }
            let left: Vec<usize> = self
                .contexts
                .iter()
                .filter(|(_, claim)| claim.end == at)
                .map(|(&context, _)| context)
                .collect();
            left.into_iter().for_each(|context| self.give_up(context));
        }
    }

    /// What an operation is known by belongs to the provider until its end.
    pub(crate) fn claim(&mut self, end: usize, context: usize) {
        let mode = self.profile(end).mode;
        let bytes = match mode {
            mode if mode & FI_CONTEXT2 != 0 => size_of::<fi_context2>(),
            mode if mode & FI_CONTEXT != 0 => size_of::<fi_context2>() / 2,
            _ => return,
        };
        if context == 0 {
            misuse("an operation has no context");
        }
        let before = self.contexts.range(..context + bytes).next_back();
        if before.is_some_and(|(&start, claim)| start + claim.bytes > context) {
            misuse("a context is used again before its operation has ended");
        }
        let stamp = self.fresh();
        for word in 0..bytes / 8 {
            // SAFETY: the program gives the provider so many bytes there (`FI_CONTEXT`, `FI_CONTEXT2`).
            unsafe { (context as *mut u64).add(word).write_unaligned(stamp) };
        }
        self.contexts.insert(context, Claim { bytes, stamp, end });
        self.note(self.look_up(end), "contexts");
    }

    /// The program gets a context back.
    pub(crate) fn give_up(&mut self, context: usize) {
        let Some(Claim { bytes, stamp, .. }) = self.contexts.remove(&context) else { return };
        // SAFETY: as in `claim`; it is still the provider's.
        let intact =
            (0..bytes / 8).all(|word| unsafe { (context as *const u64).add(word).read_unaligned() } == stamp);
        if !intact {
            misuse("a context was touched before its operation has ended");
        }
    }

    /// Ends the process where an operation of an end may not use this memory.
    pub(crate) fn check(&self, end: usize, local: Local) {
        let profile = self.profile(end);
        if profile.mr_mode & FI_MR_LOCAL == 0 || local.bytes == 0 {
            return;
        }
        let Some(region) = self.regions.get(&local.descriptor) else {
            misuse(format!("{} bytes are used without the descriptor of an open region", local.bytes))
        };
        if region.domain != self.ends[&end].domain {
            misuse("a region of another domain is used");
        }
        self.check_enabled(profile, region);
        if profile.mr_mode & FI_MR_ENDPOINT != 0 && region.endpoint != Some(end) {
            misuse("a region of another endpoint is used");
        }
        if local.at < region.start || local.at + local.bytes > region.start + region.bytes {
            misuse("a descriptor is given with memory outside of its region");
        }
        if region.rights & local.right != local.right {
            misuse(format!(
                "a region is used for {:#x}, and was registered for {:#x}",
                local.right, region.rights
            ));
        }
    }

    pub(crate) fn check_enabled(&self, profile: &Profile, region: &Region) {
        if profile.mr_mode & FI_MR_ENDPOINT != 0 && !region.enabled {
            misuse("a region is used before it was bound to an endpoint and enabled");
        }
    }

    /// The number behind a place of an end's address vector.
    pub(crate) fn resolve(&self, end: usize, place: u64) -> u64 {
        let vector = self.ends[&end].vector.expect("an enabled endpoint has one");
        match self.vectors[&vector].places.get(&place) {
            None => misuse(format!("{place:#x} is no address of the endpoint's vector")),
            Some((_, true)) => misuse("an address is used after it was removed"),
            Some(&(number, false)) => number,
        }
    }

    /// Whoever sleeps on a queue is woken.
    pub(crate) fn ring(&self, queue: Option<usize>) {
        let queue = queue.and_then(|queue| self.queues.get(&queue));
        if let Some(wait) = queue.and_then(|queue| queue.wait.as_ref()) {
            wait.write(1).expect("a counter that is far from its end");
        }
    }
}
