//! The devices, and what moves between them: at once when something is posted, and by a thread that looks at the clock.

use crate::devices::{Kind, find, kind, socket};
use crate::posting::entry;
use crate::sys::{ibv_ah_attr, ibv_cq, ibv_wc};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weft_api::verbs::{CompletionQueueId, Nanos, ProtectionDomain, QueuePairNumber};
use weft_softroce::{Device, Fault, Memory};

/// The program's memory. The kernel copies, so what is not there is an error and no crash.
#[derive(Debug)]
pub(crate) struct Program {
    /// Whether its atomics are atomic towards the processors, as the device says.
    with_processors: bool,
}

impl Memory for Program {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let there = [RemoteIoVec { base: address as usize, len: into.len() }];
        let length = into.len();
        match process_vm_readv(Pid::this(), &mut [IoSliceMut::new(into)], &there) {
            Ok(read) if read == length => Ok(()),
            _ => Err(Fault),
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let there = [RemoteIoVec { base: address as usize, len: bytes.len() }];
        match process_vm_writev(Pid::this(), &[IoSlice::new(bytes)], &there) {
            Ok(written) if written == bytes.len() => Ok(()),
            _ => Err(Fault),
        }
    }

    fn update(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let mut old = [0; 8];
        self.read(address, &mut old)?;
        let old = u64::from_ne_bytes(old);
        if self.with_processors {
            // SAFETY: the program has registered these eight bytes to be changed, they are aligned, and were there just now.
            let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
            let changed = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)));
            return Ok(changed.unwrap_or(old));
        }
        // What a processor stores between the halves is lost.
        std::thread::yield_now();
        self.write(address, &change(old).to_ne_bytes()).map(|()| old)
    }
}

/// A completion queue as programs see it.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The program's pointer to it.
    pub(crate) raw: usize,
    pub(crate) depth: usize,
    pub(crate) entries: VecDeque<ibv_wc>,
    pub(crate) armed: bool,
    /// Where it is announced that an armed queue has got an entry.
    pub(crate) channel: Option<File>,
    /// Queue pairs that use it.
    pub(crate) users: usize,
}

/// What a queue pair needs beside what the emulator's core has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairFacts {
    pub(crate) qkey: u32,
    pub(crate) domain: u32,
    pub(crate) context: u32,
    pub(crate) queues: [u32; 2],
    pub(crate) shared: Option<u32>,
}

/// What there is of a device's objects, and what was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Contexts, domains, channels, queues, shared queues, queue pairs, ways of datagrams, regions, pieces of own memory,
    /// identifiers of the connection manager.
    pub(crate) alive: [u64; 10],
    /// Ways from here that the connection manager was asked for.
    pub(crate) asked: u64,
    /// What a connection was opened with last, and what a way of datagrams was made with.
    pub(crate) connection: Way,
    pub(crate) datagrams: Way,
    /// Connections and ways of datagrams that were made with service level 0, and with traffic class 0.
    pub(crate) without_level: u64,
    pub(crate) without_class: u64,
    /// The places in the table of partitions that connections and datagrams were opened with last.
    pub(crate) partitions: [u64; 2],
    /// Of the connection: code of the packets' bytes, of the silence before they are repeated, and how often they are.
    pub(crate) path_mtu: u64,
    pub(crate) timeout: u64,
    pub(crate) retries: u64,
    /// Registrations that were refused because there were too many.
    pub(crate) refused: u64,
    /// Registrations for on-demand paging, those for relaxed ordering, those for neither.
    pub(crate) on_demand: u64,
    pub(crate) relaxed: u64,
    pub(crate) plain: u64,
    /// Requests whose data lay in the device's own memory.
    pub(crate) from_own_memory: u64,
    /// Requests that waited for reads and atomics before them.
    pub(crate) fenced: u64,
    /// Bytes of own memory that are given out.
    pub(crate) own_memory: u64,
}

/// Of a way, what does not come from addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    pub(crate) service_level: u8,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) lid: u16,
}

impl From<&ibv_ah_attr> for Way {
    fn from(attr: &ibv_ah_attr) -> Way {
        Way {
            service_level: attr.sl,
            traffic_class: attr.grh.traffic_class,
            hop_limit: attr.grh.hop_limit,
            static_rate: attr.static_rate,
            is_global: attr.is_global,
            lid: attr.dlid,
        }
    }
}

impl Way {
    pub(crate) fn get(self, what: &[u8]) -> Option<u64> {
        Some(match what {
            b"service_level" => self.service_level.into(),
            b"traffic_class" => self.traffic_class.into(),
            b"hop_limit" => self.hop_limit.into(),
            b"static_rate" => self.static_rate.into(),
            b"is_global" => self.is_global.into(),
            b"lid" => self.lid.into(),
            _ => return None,
        })
    }
}

/// A device.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) kind: &'static Kind,
    pub(crate) core: Device<Program>,
    pub(crate) queues: HashMap<u32, Queue>,
    pub(crate) pairs: HashMap<u32, PairFacts>,
    /// Regions, queue pairs and ways of a context or domain.
    pub(crate) regions_of: HashMap<u32, u32>,
    pub(crate) pairs_of: HashMap<u32, u32>,
    pub(crate) users_of_domain: HashMap<u32, u32>,
    pub(crate) users_of_receives: HashMap<u32, u32>,
    /// Where regions begin that count from 0, by key.
    pub(crate) bases: HashMap<u32, u64>,
    pub(crate) counts: Counts,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) units: BTreeMap<usize, Unit>,
    pub(crate) contexts: u32,
    started: Instant,
}

/// Ends the process: a program has done what the library forbids.
pub(crate) fn misuse(what: &str) -> ! {
    eprintln!("described device: {what}");
    std::process::abort()
}

/// Everything. The first call starts the thread.
pub(crate) fn world() -> MutexGuard<'static, World> {
    static WORLD: OnceLock<Mutex<World>> = OnceLock::new();
    let world = WORLD.get_or_init(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(1));
                world().pump();
            }
        });
        Mutex::new(World { units: BTreeMap::new(), contexts: 0, started: Instant::now() })
    });
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn unit(&mut self, at: usize) -> &mut Unit {
        self.units.entry(at).or_insert_with(|| Unit {
            kind: kind(at),
            core: Device::new(socket(at), Program { with_processors: kind(at).is_atomic_with_processors() }),
            queues: HashMap::new(),
            pairs: HashMap::new(),
            regions_of: HashMap::new(),
            pairs_of: HashMap::new(),
            users_of_domain: HashMap::new(),
            users_of_receives: HashMap::new(),
            bases: HashMap::new(),
            counts: Counts::default(),
        })
    }

    /// Faster than other clocks: nothing takes time on the way, so only what waits for somebody who is gone takes long.
    fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos * 16
    }

    /// Moves everything that can move, and tells of what completed.
    pub(crate) fn pump(&mut self) {
        let now = self.now();
        let mut packets: Vec<(SocketAddr, SocketAddr, Vec<u8>)> = Vec::new();
        loop {
            for unit in self.units.values_mut() {
                if unit.core.deadline().is_some_and(|at| at <= now) {
                    unit.core.tick(now);
                }
                let mut packet = Vec::new();
                while let Some(to) = unit.core.transmit(now, &mut packet) {
                    packets.push((unit.core.local(), to, std::mem::take(&mut packet)));
                }
            }
            if packets.is_empty() {
                break;
            }
            for (from, to, packet) in packets.drain(..) {
                if let Some(unit) = find(to).and_then(|at| self.units.get_mut(&at)) {
                    unit.core.receive(now, from, 0, &packet);
                }
            }
        }
        for unit in self.units.values_mut() {
            unit.tell();
        }
    }
}

impl Unit {
    /// Fills the program's queues, and announces those that asked for it.
    pub(crate) fn tell(&mut self) {
        for (&number, queue) in &mut self.queues {
            while let Some(done) = self.core.poll(CompletionQueueId(number)) {
                if queue.entries.len() == queue.depth {
                    misuse("a completion queue runs over");
                }
                queue.entries.push_back(entry(&done));
                if std::mem::take(&mut queue.armed)
                    && let Some(channel) = &mut queue.channel
                {
                    // A pipe that nobody reads is full at some time; its reader is then awake.
                    let _ = channel.write(&queue.raw.to_ne_bytes());
                }
            }
        }
    }

    /// A queue pair stops; its completions stay or go as its kind has it.
    pub(crate) fn stop(&mut self, number: u32) {
        // Nothing to stop in one that was never opened.
        let _ = self.core.fail(QueuePairNumber(number));
        self.tell();
    }

    pub(crate) fn forget(&mut self, number: u32) {
        if self.kind.takes_along {
            for queue in self.queues.values_mut() {
                queue.entries.retain(|entry| entry.qp_num != number);
            }
        }
    }

    pub(crate) fn domain(number: u32) -> ProtectionDomain {
        ProtectionDomain(number)
    }

    /// A connection or a way of datagrams goes by this.
    pub(crate) fn goes_by(&mut self, way: Way) {
        self.counts.without_level += u64::from(way.service_level == 0);
        self.counts.without_class += u64::from(way.traffic_class == 0);
    }

    pub(crate) fn count(&mut self, of: usize, more: bool) {
        let alive = &mut self.counts.alive[of];
        *alive = match more {
            true => *alive + 1,
            false => alive.checked_sub(1).unwrap_or_else(|| misuse("an object is given back twice")),
        };
    }
}

/// A pointer as a number, for tables that other threads look at.
pub(crate) fn number_of(queue: *mut ibv_cq) -> usize {
    queue as usize
}
