//! The layers round transports that move real bytes: shared memory, the emulator over UDP, libfabric's tcp. Every property holds through
//! all layers at once, the faults are there, and what is written down can be read.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use weft_api::Transport;
use weft_api::kit::{self, Fabric};
use weft_api::verbs::Access;
use weft_api::zero_copy::{LocalRun, MemoryRange, Outcome, RemoteRun, Token, Unregistered};
use weft_engine::{Injected, Layers};
use weft_ofi::select::Wanted;
use weft_ofi::{Ofi, OfiCard, OfiDirectory, offers};
use weft_rdma::{Directory, PeerCard, Rdma};
use weft_shm::{Config, Shm, Waking};
use weft_sim::layers::{Clock, Layered};
use weft_softroce::wire::{Opcode, Packet, icrc};
use weft_softroce::{Card, Udp, parse_ipv4};
use weft_types::params::{FaultPlan, LatencyModel, PacketTrace};
use weft_types::{Error, PeerId, Result};

/// Cards by process.
#[derive(Clone, Debug)]
struct Cards<C>(Arc<Mutex<Vec<C>>>);

impl<C> Default for Cards<C> {
    fn default() -> Cards<C> {
        Cards(Arc::default())
    }
}

impl<C: Clone> Cards<C> {
    fn of(&self, peer: PeerId) -> Result<C> {
        let cards = self.0.lock().unwrap();
        cards.get(peer.0 as usize).cloned().ok_or_else(|| Error::internal("no such process"))
    }
}

impl Directory for Cards<PeerCard> {
    fn find(&mut self, peer: PeerId) -> Result<PeerCard> {
        self.of(peer)
    }
}

impl OfiDirectory for Cards<OfiCard> {
    fn find(&mut self, peer: PeerId) -> Result<OfiCard> {
        self.of(peer)
    }
}

/// Processes whose ways die where the layer cuts them: as it is at both ends of a way.
struct Wrapped<T: Transport> {
    ends: Vec<Layered<T>>,
    /// Time passes between calls, and not with them.
    slow: bool,
    /// The faults of all that are gone.
    faults: Arc<Mutex<Injected>>,
}

impl<T: Transport> Drop for Wrapped<T> {
    fn drop(&mut self) {
        let mut all = self.faults.lock().unwrap_or_else(|error| error.into_inner());
        for one in self.injected() {
            all.delays += one.delays;
            all.losses += one.losses;
            all.refusals += one.refusals;
            all.held += one.held;
            all.deaths += one.deaths;
        }
    }
}

/// Every property holds, and of each fault there were some.
fn every_property<T: Transport>(layers: &Layers, mut ends: impl FnMut(usize) -> Vec<T>) {
    let faults = Arc::default();
    // Not of all: libfabric's tcp;ofi_rxm of 1.17 offers none.
    let has_operations = ends(2)[0].zero_copy(PeerId(1)).is_some_and(|can| can.get && can.put);
    kit::every_property(|processes| {
        let mut wrapped = Wrapped::new(ends(processes), layers);
        wrapped.faults = Arc::clone(&faults);
        wrapped
    });
    let Injected { delays, losses, refusals, held, deaths, .. } = *faults.lock().unwrap();
    println!("{}", faults.lock().unwrap());
    assert!(delays > 100 && losses > 10 && refusals > 100 && deaths > 10);
    assert!(held > 10 || !has_operations);
}

impl<T: Transport> Wrapped<T> {
    fn new(ends: impl IntoIterator<Item = T>, layers: &Layers) -> Wrapped<T> {
        let wrap = |(me, end)| layers.wrap(end, PeerId(me), 0, Clock::Machine).expect("layers");
        Wrapped { ends: (0..).zip(ends).map(wrap).collect(), slow: false, faults: Arc::default() }
    }

    fn injected(&self) -> Vec<Injected> {
        self.ends.iter().map(|end| end.inner().injected()).collect()
    }
}

impl<T: Transport> Fabric for Wrapped<T> {
    type Transport = Layered<T>;

    fn ends(&mut self) -> &mut [Layered<T>] {
        &mut self.ends
    }

    fn idle(&mut self) {
        if self.slow {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    fn kill(&mut self, process: usize) -> bool {
        self.slow = true;
        for other in (0..self.ends.len()).filter(|&other| other != process) {
            self.ends[other].inner_mut().cut(PeerId(process as u32));
            self.ends[process].inner_mut().cut(PeerId(other as u32));
        }
        true
    }
}

/// A folder that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weft-layers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn trace(&self) -> PacketTrace {
        PacketTrace::parse(&format!("{},snap=80,most=4M", self.0.join("packets-%r.pcap").display())).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn layers(seed: u64, folder: &Folder) -> Layers {
    let faults = format!("seed={seed},delay=0.2:20us,loss=0.01:200us,refuse=0.2:6,hold=0.3:30us");
    Layers {
        faults: FaultPlan::parse(&faults),
        latency: LatencyModel::parse("3us,gap=50ns,bandwidth=10G"),
        trace: Some(folder.trace()),
    }
}

fn shm(processes: usize) -> Vec<Shm> {
    let file: File = weft_shm::create().expect("a memory file");
    let attach = |local: usize| {
        let (file, peers) = (file.try_clone().unwrap(), (0..processes as u32).map(PeerId).collect());
        let waking = Waking::Fence;
        Shm::attach(Config { file, local: local as u32, peers, single_copy: true, waking }).expect("attached")
    };
    (0..processes).map(attach).collect()
}

fn emulated(processes: usize) -> Vec<Rdma<Card<Udp>>> {
    let cards = Cards::<PeerCard>::default();
    let open = |process: usize| {
        let card = Udp::open(Ipv4Addr::LOCALHOST.into(), Some(0), 65536).unwrap();
        Rdma::open(card, PeerId(process as u32), Box::new(cards.clone())).unwrap()
    };
    let ends: Vec<_> = (0..processes).map(open).collect();
    *cards.0.lock().unwrap() = ends.iter().map(Rdma::card).collect();
    ends
}

/// Says that a test does nothing, where `ci/lib.sh` counts it.
fn skip(test: &str, why: &str) {
    use std::io::Write;
    println!("skipped: {why}");
    if let Some(path) = std::env::var_os("WEFT_TEST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{test}: {why}\n").as_bytes()).unwrap();
    }
}

fn libfabric(processes: usize) -> Option<Vec<Ofi>> {
    const PROVIDER: &str = "tcp;ofi_rxm";
    if !offers().is_ok_and(|(offers, _)| offers.iter().any(|offer| offer.provider == PROVIDER)) {
        return None;
    }
    let wanted = Wanted {
        between_nodes: false,
        address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        provider: Some(PROVIDER.into()),
        rail: None,
        carrier: None,
        processes: None,
        job: None,
        offload: None,
    };
    let cards = Cards::<OfiCard>::default();
    let open = |process: usize| {
        Ofi::open(PeerId(process as u32), &wanted, Box::new(cards.clone())).expect("an endpoint")
    };
    let ends: Vec<Ofi> = (0..processes).map(open).collect();
    *cards.0.lock().unwrap() = ends.iter().map(|end| end.card().clone()).collect();
    Some(ends)
}

#[test]
fn every_property_holds_round_shared_memory() {
    let folder = Folder::new("shm");
    for seed in 0..2 {
        every_property(&layers(seed, &folder), shm);
    }
}

#[test]
fn every_property_holds_round_the_emulator() {
    let folder = Folder::new("softroce");
    every_property(&layers(1, &folder), emulated);
}

#[test]
fn every_property_holds_round_libfabric() {
    let folder = Folder::new("ofi");
    if libfabric(1).is_none() {
        return skip("every_property_holds_round_libfabric", "no libfabric with tcp;ofi_rxm here");
    }
    every_property(&layers(2, &folder), |processes| libfabric(processes).expect("as before"));
}

/// Without faults and times a layer keeps nothing back.
#[test]
fn what_is_pushed_out_leaves_through_a_tracer() {
    let folder = Folder::new("pushed");
    let layers = Layers { trace: Some(folder.trace()), ..Layers::default() };
    kit::what_is_pushed_out_needs_no_other_look(&mut Wrapped::new(shm(2), &layers));
    kit::what_is_pushed_out_needs_no_other_look(&mut Wrapped::new(emulated(2), &layers));
}

/// Puts, gets, flushes and registrations between two processes.
#[test]
fn operations_are_refused_held_back_and_denied() {
    let folder = Folder::new("counts");
    let mut layers = layers(3, &folder);
    layers.faults = FaultPlan::parse("seed=3,refuse=0.3:3,hold=0.5:300us,deny=0.5");
    let mut fabric = Wrapped::new(emulated(2), &layers);
    let bytes: Vec<std::sync::atomic::AtomicU8> = (0..8_192).map(|_| 7.into()).collect();
    let range = MemoryRange { address: bytes.as_ptr() as u64, length: 8_192 };
    let mut denied = 0;
    let [here, there] = [0, 1].map(|end: usize| {
        loop {
            match fabric.ends[end].register(range, Access::ALL) {
                Ok(region) => return region,
                Err(why) => assert_eq!(why, Unregistered::Exhausted),
            }
            denied += 1;
            assert!(denied < 100, "each second one is granted");
        }
    });
    fabric.ends[0].connect(PeerId(1)).unwrap();
    let (mut told, mut open) = (Vec::new(), 0);
    for number in 0..300 {
        let into = [LocalRun { address: range.address, length: 64, region: here.id }];
        let from = [RemoteRun { memory: there.remote.plus(4_096), length: 64 }];
        let begun = match number % 3 {
            0 => fabric.ends[0].get(PeerId(1), &from, &into, Token(number)),
            1 => fabric.ends[0].put(PeerId(1), &into, &from, Some(Token(number))),
            _ => fabric.ends[0].flush(PeerId(1), Token(number)),
        };
        open += usize::from(begun.is_ok());
        fabric.ends.iter_mut().for_each(|end| {
            end.progress();
        });
        told.extend(std::iter::from_fn(|| fabric.ends[0].completed()));
    }
    while told.len() < open {
        fabric.ends.iter_mut().for_each(|end| {
            end.progress();
        });
        told.extend(std::iter::from_fn(|| fabric.ends[0].completed()));
    }
    assert!(told.iter().all(|done| done.outcome == Outcome::Done(0)), "{told:?}");
    let injected = &fabric.injected()[0];
    assert!(injected.refusals > 10 && injected.held > 10, "{injected}");
    assert!(told.windows(2).any(|pair| pair[0].token.0 > pair[1].token.0), "an earlier one is told later");
    // A registration that was denied costs nothing else: of 40 some are granted.
    let granted = (0..40).filter(|_| fabric.ends[0].register(range, Access::ALL).is_ok()).count();
    assert!((5..36).contains(&granted), "{granted} of 40");
    assert!(fabric.injected()[0].denials > 0);
    drop(fabric);

    // What the file of process 0 says of it.
    let mut seen = BTreeMap::new();
    read_packets(&folder.trace().file(0), |packet, _| *seen.entry(packet.opcode.byte()).or_insert(0) += 1);
    let of = |opcode: Opcode| seen.get(&opcode.byte()).copied().unwrap_or(0);
    assert_eq!(of(Opcode::READ_REQUEST) + of(Opcode::WRITE_ONLY), open, "{seen:?}");
    assert_eq!(of(Opcode::READ_RESPONSE_ONLY) + of(Opcode::ACKNOWLEDGE), open, "{seen:?}");
}

/// Reads a capture: each packet that is there as a whole has the invariant CRC of its addresses.
fn read_packets(file: &str, mut each: impl FnMut(&Packet<'_>, bool)) {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(word(0), 0xa1b2_3c4d);
    let mut at = 24;
    while at < bytes.len() {
        let (kept, whole) = (word(at + 8), word(at + 12));
        let record = &bytes[at + 16..at + 16 + kept];
        at += 16 + kept;
        assert!(kept <= whole && kept < 250, "{kept} of {whole} bytes kept");
        let datagram = &record[28..];
        if kept == whole {
            let received = parse_ipv4(record).expect("a datagram");
            assert_eq!(received.datagram, datagram);
            let to = Ipv4Addr::new(record[16], record[17], record[18], record[19]);
            let flow = icrc::Flow { source: received.from, destination: (to, received.port).into() };
            let packet = icrc::open(flow, 0, datagram).expect("the right CRC");
            each(&Packet::parse(packet).expect("a packet"), true);
        } else {
            each(&Packet::parse(datagram).expect("headers"), false);
        }
    }
}

/// Every packet stands in the files of both, once, and short ones whole.
#[test]
fn packets_are_written_down_at_both_ends() {
    let folder = Folder::new("trace");
    let layers = Layers { trace: Some(folder.trace()), ..Layers::default() };
    let mut fabric = Wrapped::new(shm(2), &layers);
    kit::every_size_arrives(&mut fabric);
    drop(fabric);
    let mut lists = Vec::new();
    for rank in 0..2 {
        let mut list = Vec::new();
        read_packets(&folder.trace().file(rank), |packet, whole| {
            assert_eq!((packet.opcode, packet.to), (Opcode::SEND_ONLY, 256 + 1));
            list.push((packet.psn, whole, packet.payload[..packet.payload.len().min(80)].to_vec()));
        });
        lists.push(list);
    }
    assert_eq!(lists[0], lists[1]);
    assert!(lists[0].len() > 64 && lists[0].iter().filter(|(_, whole, _)| *whole).count() >= 60);
}

#[test]
fn a_file_is_no_longer_than_it_may_be_and_one_that_cannot_be_made_is_told() {
    let folder = Folder::new("bounds");
    let trace = PacketTrace { most: 10_000, ..folder.trace() };
    let layers = Layers { trace: Some(trace.clone()), ..Layers::default() };
    let mut fabric = Wrapped::new(shm(2), &layers);
    kit::every_size_arrives(&mut fabric);
    drop(fabric);
    let length = std::fs::metadata(trace.file(0)).unwrap().len();
    assert!((9_000..10_300).contains(&length), "{length}");
    let nowhere = PacketTrace { path: "/nonexistent/%r.pcap".to_owned(), ..trace };
    let layers = Layers { trace: Some(nowhere), ..Layers::default() };
    let end = shm(1).remove(0);
    let error = layers.wrap(end, PeerId(0), 0, Clock::Machine).expect_err("no such folder");
    assert!(
        error.text().contains("/nonexistent/0.pcap") && error.text().contains("WEFT_TRACE_PACKETS"),
        "{error}"
    );
}
