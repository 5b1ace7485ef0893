//! Random programs of requests, with the completion families called on random arrays of them, against a plain model of what
//! the standard says of each (sections 3.7.3, 3.7.5, 3.7.6, 3.9, 4.2, 13.2).
//!
//! One process talks to itself through the entry points that C programs link, so whatever lies between them and the engine is
//! on the way. The program decides when an operation can end: it sends what a receive waits for, receives what a synchronous
//! send waits for, marks partitions, completes generalized requests. So the model knows of every request whether it cannot,
//! may or must have ended, and what its status, its error and its handle are then. Two levels of threads, each in a process
//! of its own; in the second one requests are of several lanes, and two threads take turns, or one waits for what the other ends.
//! `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many, `WEFT_PROGRAMS_OF_REQUESTS=n` if nothing is said of seeds.

mod calls;
mod completion;
mod model;

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use calls::*;
use model::{BYTES, Ends, Functions, Kind, MARK, ROOM, Slot, State, byte, no_comm, null};
use weft_types::{HandleKind, abi};

use crate::ctypes::*;

/// Partitions of a partitioned operation, and bytes of each.
const PARTS: (c_int, MPI_Count) = (3, 1000);

/// What is the same for all programs.
struct Stage {
    comms: Vec<MPI_Comm>,
    /// Error codes of the program's own.
    codes: [c_int; 2],
    second: Option<Second>,
}

struct Program<'a> {
    comms: &'a [MPI_Comm],
    codes: [c_int; 2],
    second: Option<&'a Second>,
    /// Whether the second thread is in a call.
    waits: bool,
    random: u64,
    slots: Vec<Slot>,
    met: BTreeMap<&'static str, u64>,
    /// The last call, for the message of a failure.
    told: String,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last call: {}", self.told);
        }
    }
}

impl Program<'_> {
    /// A number below `bound` (splitmix64).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    /// Makes a call in one of the threads.
    fn call(&mut self, call: impl FnOnce() -> c_int) -> c_int {
        let second = self.second;
        match second {
            Some(second) if !self.waits && self.below(2) == 0 => second.call(call, || ()),
            _ => call(),
        }
    }

    fn succeed(&mut self, what: &str, call: impl FnOnce() -> c_int) {
        assert_eq!(self.call(call), abi::MPI_SUCCESS, "{what}");
    }

    /// Makes a request in a place where none is.
    fn make(&mut self, at: usize) {
        self.forget(at);
        let (kind, name) = [
            (Kind::Send, "sends"),
            (Kind::Synchronous, "synchronous sends"),
            (Kind::Receive, "receives"),
            (Kind::FromNobody, "receives from nobody"),
            (Kind::ToItself, "sendrecvs"),
            (Kind::Barrier, "barriers"),
            (Kind::Duplicate, "communicators"),
            (Kind::Generalized, "generalized requests"),
            (Kind::SendParts, "partitioned sends"),
            (Kind::ReceiveParts, "partitioned receives"),
        ][self.below(10)];
        self.meet(name);
        let comm = self.below(self.comms.len());
        let on = self.comms[comm];
        let size = [0, 8, 3000, ROOM][self.below(4)] as c_int;
        let persistent = match kind {
            Kind::SendParts | Kind::ReceiveParts => true,
            Kind::Generalized | Kind::ToItself | Kind::Duplicate => false,
            _ => self.below(2) == 0,
        };
        let functions = Functions {
            query_code: [abi::MPI_SUCCESS, abi::MPI_SUCCESS, self.codes[0]][self.below(3)],
            free_code: [abi::MPI_SUCCESS, abi::MPI_SUCCESS, self.codes[1]][self.below(3)],
            says: (self.below(5) as c_int, self.below(5) as c_int, self.below(5) as c_int),
            cancelled: self.below(4) == 0,
            ..Functions::default()
        };
        let slot = &mut self.slots[at];
        (slot.kind, slot.persistent, slot.comm) = (kind, persistent, comm);
        *slot.functions = functions;
        let (tag, request, other) = (slot.tag, &raw mut slot.request, &raw mut slot.other);
        let (here, there) = (slot.here.as_mut_ptr().cast(), slot.there.as_mut_ptr().cast());
        let made = &raw mut slot.made;
        let state = (&raw mut *slot.functions).cast();
        let info = MPI_Info::from_raw(abi::MPI_INFO_NULL);
        let room = ROOM as c_int;
        // SAFETY: the slot's memory lives as long as its request, and nobody else touches it.
        self.succeed(name, || unsafe {
            match (kind, persistent) {
                (Kind::Send, false) => PMPI_Isend(here, size, byte(), 0, tag, on, request),
                (Kind::Send, true) => PMPI_Send_init(here, size, byte(), 0, tag, on, request),
                (Kind::Synchronous, false) => PMPI_Issend(here, size, byte(), 0, tag, on, request),
                (Kind::Synchronous, true) => PMPI_Ssend_init(here, size, byte(), 0, tag, on, request),
                (Kind::Receive, false) => PMPI_Irecv(here, room, byte(), 0, tag, on, request),
                (Kind::Receive, true) => PMPI_Recv_init(here, room, byte(), 0, tag, on, request),
                (Kind::FromNobody, false) => {
                    PMPI_Irecv(here, room, byte(), abi::MPI_PROC_NULL, tag, on, request)
                }
                (Kind::FromNobody, true) => {
                    PMPI_Recv_init(here, room, byte(), abi::MPI_PROC_NULL, tag, on, request)
                }
                (Kind::ToItself, _) => {
                    PMPI_Isendrecv(here, 100, byte(), 0, tag, there, room, byte(), 0, tag, on, request)
                }
                (Kind::Duplicate, _) => PMPI_Comm_idup(on, made, request),
                (Kind::Barrier, false) => PMPI_Ibarrier(on, request),
                (Kind::Barrier, true) => PMPI_Barrier_init(on, info, request),
                (Kind::Generalized, _) => {
                    PMPI_Grequest_start(model::query, model::free, model::cancel, state, request)
                }
                (Kind::SendParts, _) => {
                    PMPI_Psend_init(here, PARTS.0, PARTS.1, byte(), 0, tag, on, info, request)
                        .max(PMPI_Precv_init(there, PARTS.0, PARTS.1, byte(), 0, tag, on, info, other))
                }
                (Kind::ReceiveParts, _) => {
                    PMPI_Psend_init(there, PARTS.0, PARTS.1, byte(), 0, tag, on, info, other)
                        .max(PMPI_Precv_init(here, PARTS.0, PARTS.1, byte(), 0, tag, on, info, request))
                }
            }
        });
        let slot = &mut self.slots[at];
        if persistent {
            slot.state = State::Inactive
        } else {
            slot.begins()
        }
        if slot.request.handle().kind_bits() == HandleKind::LaneRequest as u32 {
            self.meet("requests of a lane");
        }
    }

    /// Starts a persistent request.
    fn start(&mut self, at: usize) {
        self.settle(at);
        let slot = &mut self.slots[at];
        let parted = matches!(slot.kind, Kind::SendParts | Kind::ReceiveParts);
        let (request, other) = (&raw mut slot.request, &raw mut slot.other);
        // SAFETY: the slot's requests, which are inactive.
        self.succeed("MPI_Start", || unsafe { PMPI_Start(request) });
        if parted {
            // SAFETY: as above.
            self.succeed("MPI_Start of the other end", || unsafe { PMPI_Start(other) });
        }
        self.slots[at].begins();
        self.slots[at].owes |= parted;
        self.meet("starts");
    }

    /// Does what the operation waits for.
    fn end(&mut self, at: usize) {
        let slot = &self.slots[at];
        if !slot.is_active() || slot.must_end() {
            return;
        }
        match slot.kind {
            Kind::Send | Kind::Synchronous => {
                self.slots[at].owes = true;
                self.settle(at);
            }
            Kind::Receive => self.send_to(at),
            Kind::Generalized => {
                let request = slot.request;
                // SAFETY: an active generalized request.
                self.succeed("MPI_Grequest_complete", || unsafe { PMPI_Grequest_complete(request) });
                // Nothing is left to be moved; only a call that goes on beside it may have looked before.
                if !self.waits {
                    self.slots[at].ends = Ends::Now;
                }
            }
            Kind::SendParts | Kind::ReceiveParts => {
                let sends = slot.kind == Kind::SendParts;
                let request = if sends { slot.request } else { slot.other };
                let mut order: Vec<c_int> = (0..PARTS.0).collect();
                let turn = self.below(order.len());
                order.rotate_left(turn);
                for part in order {
                    // SAFETY: an active partitioned send.
                    self.succeed("MPI_Pready", || unsafe { PMPI_Pready(part, request) });
                }
                if !sends {
                    let bytes = PARTS.0 * PARTS.1 as c_int;
                    self.slots[at].told.message = Some((0, self.slots[at].tag, bytes));
                }
                self.settle(at);
            }
            Kind::FromNobody | Kind::ToItself | Kind::Barrier | Kind::Duplicate => {}
        }
        self.slots[at].will_end();
    }

    /// Sends what a receive waits for: at times too much.
    fn send_to(&mut self, at: usize) {
        let size = [0, 8, 3000, ROOM, ROOM + 1, BYTES][self.below(6)];
        let slot = &mut self.slots[at];
        let (from, tag, on) = (slot.there.as_ptr().cast(), slot.tag, self.comms[slot.comm]);
        slot.told.message = Some((0, tag, size as c_int));
        if size > ROOM {
            slot.error = abi::MPI_ERR_TRUNCATE;
            // What is told of a message that did not fit is the library's choice.
            slot.told.message = None;
        }
        // SAFETY: the slot's memory.
        self.succeed("MPI_Send", || unsafe { PMPI_Send(from, size as c_int, byte(), 0, tag, on) });
    }

    /// Takes the message of a send, or completes the other end of a partitioned operation.
    fn settle(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if !std::mem::take(&mut slot.owes) {
            return;
        }
        let (to, tag, on) = (slot.there.as_mut_ptr().cast(), slot.tag, self.comms[slot.comm]);
        let other = &raw mut slot.other;
        let ignored = std::ptr::null_mut();
        match slot.kind {
            Kind::SendParts | Kind::ReceiveParts => {
                // SAFETY: the slot's other request.
                self.succeed("MPI_Wait of the other end", || unsafe { PMPI_Wait(other, ignored) });
            }
            // SAFETY: the slot's memory.
            _ => self.succeed("MPI_Recv", || unsafe {
                PMPI_Recv(to, BYTES as c_int, byte(), 0, tag, on, ignored)
            }),
        }
    }

    /// Cancels a receive for which nothing was sent, or a generalized request, which does not care.
    fn cancel(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if slot.ends != Ends::No || !slot.is_active() || slot.kind != Kind::Receive {
            return;
        }
        let request = &raw mut slot.request;
        slot.told.cancelled = true;
        slot.will_end();
        // SAFETY: an active request.
        self.succeed("MPI_Cancel", || unsafe { PMPI_Cancel(request) });
        self.meet("cancelled receives");
    }

    /// Frees a request that is not active.
    fn forget(&mut self, at: usize) {
        self.settle(at);
        let slot = &mut self.slots[at];
        let handles = [&raw mut slot.request, &raw mut slot.other];
        for handle in handles {
            // SAFETY: the slot's requests, of which none is active.
            unsafe {
                if *handle != null() {
                    self.succeed("MPI_Request_free", || PMPI_Request_free(handle));
                    assert_eq!(*handle, null());
                }
            }
        }
        self.slots[at].state = State::Null;
        let made = &raw mut self.slots[at].made;
        // SAFETY: the communicator that the slot's request has made, which nobody uses.
        unsafe {
            if *made != no_comm() {
                self.succeed("MPI_Comm_free", || PMPI_Comm_free(made));
            }
        }
    }

    /// No message is left over.
    fn check_empty(&mut self) {
        for &comm in self.comms {
            let mut flag = MARK;
            let place = &raw mut flag;
            // SAFETY: our own flag; the status is ignored.
            self.succeed("MPI_Iprobe", || unsafe {
                PMPI_Iprobe(abi::MPI_ANY_SOURCE, abi::MPI_ANY_TAG, comm, place, std::ptr::null_mut())
            });
            assert_eq!(flag, 0, "a message is left over");
        }
    }

    fn act(&mut self) {
        let at = self.below(self.slots.len());
        match (self.below(10), self.slots[at].state) {
            (0..4, State::Null) => self.make(at),
            (0..4, State::Inactive) => self.start(at),
            (0..3, State::Active) => self.end(at),
            (3, State::Active) => self.cancel(at),
            (4, State::Inactive) => self.forget(at),
            _ => self.complete(),
        }
    }
}

/// One program.
fn run(stage: &Stage, seed: u64) -> BTreeMap<&'static str, u64> {
    let mut program = Program {
        comms: &stage.comms,
        codes: stage.codes,
        second: stage.second.as_ref(),
        waits: false,
        random: seed,
        slots: Vec::new(),
        met: BTreeMap::new(),
        told: String::new(),
    };
    let slots = 1 + program.below(9);
    program.slots = (0..slots).map(|tag| Slot::new(tag as c_int)).collect();
    for _ in 0..40 + program.below(200) {
        program.act();
    }
    program.wind_up();
    std::mem::take(&mut program.met)
}

const LEVEL: &str = "WEFT_LEVEL_OF_REQUESTS";

/// How to see the failure of a seed again.
fn replay(seed: u64) -> String {
    format!("WEFT_SEED={seed} cargo test -p weft-abi --lib random_requests")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// What some of a hundred programs must have met, so that no kind of request or call is left out unnoticed.
const KINDS: [&str; 17] = [
    "barriers",
    "cancelled receives",
    "communicators",
    "errors",
    "handles of nothing",
    "generalized requests",
    "partitioned receives",
    "partitioned sends",
    "receives",
    "receives from nobody",
    "sendrecvs",
    "sends",
    "shows",
    "starts",
    "synchronous sends",
    "tests",
    "waits",
];

/// The program that the tests below start, with one level of threads: a process has one.
#[test]
#[ignore = "a process of its own, which the other tests start"]
fn programs_of_one_level() {
    let Ok(level) = std::env::var(LEVEL) else { return };
    let several = level == "several";
    let required = if several { abi::MPI_THREAD_MULTIPLE } else { abi::MPI_THREAD_SINGLE };
    let mut provided = MARK;
    let mut comms = vec![MPI_Comm::from_raw(abi::MPI_COMM_WORLD), MPI_Comm::from_raw(abi::MPI_COMM_SELF)];
    let mut codes = [0; 2];
    // SAFETY: our own variables; the calls are in the order that the standard asks for.
    unsafe {
        let nothing = std::ptr::null_mut();
        assert_eq!(PMPI_Init_thread(nothing, nothing.cast(), required, &raw mut provided), abi::MPI_SUCCESS);
        for comm in comms.clone() {
            PMPI_Comm_set_errhandler(comm, MPI_Errhandler::from_raw(abi::MPI_ERRORS_RETURN));
        }
        for _ in 0..2 {
            let mut made = comms[0];
            assert_eq!(PMPI_Comm_dup(comms[0], &raw mut made), abi::MPI_SUCCESS);
            comms.push(made);
        }
        for code in &mut codes {
            assert_eq!(PMPI_Add_error_code(abi::MPI_ERR_OTHER, code), abi::MPI_SUCCESS);
        }
    }
    assert!(provided >= required);
    let stage = Stage { comms, codes, second: several.then(Second::start) };
    let one = number("WEFT_SEED");
    let asked = number("WEFT_SEEDS").or(number("WEFT_PROGRAMS_OF_REQUESTS")).unwrap_or(300);
    let seeds = one.map_or(0..asked, |seed| seed..seed + 1);
    let count = seeds.end - seeds.start;
    let mut met = BTreeMap::<&str, u64>::new();
    watch();
    // In the place of the library's own, which ends the job.
    std::panic::set_hook(Box::new(|panic| {
        let seed = NOW.load(Ordering::Relaxed);
        eprintln!("{panic}\nThe program of seed {seed} failed; this replays it: {}", replay(seed));
    }));
    for seed in seeds {
        NOW.store(seed, Ordering::Relaxed);
        for (what, count) in run(&stage, seed) {
            *met.entry(what).or_default() += count;
        }
    }
    println!("{count} programs ({level}) met {met:?}");
    let all = KINDS.iter().all(|kind| met.contains_key(kind));
    assert!(count < 100 || several == met.contains_key("requests of a lane"), "{level} met {met:?}");
    assert!(count < 100 || several == met.contains_key("blocked waits"), "{level} met {met:?}");
    assert!(count < 100 || all, "of {KINDS:?} they met {met:?}");
    // SAFETY: nothing is under way, and these are the communicators made above.
    unsafe {
        for mut comm in stage.comms.iter().skip(2).copied() {
            assert_eq!(PMPI_Comm_free(&raw mut comm), abi::MPI_SUCCESS);
        }
        assert_eq!(PMPI_Finalize(), abi::MPI_SUCCESS);
    }
}

/// The seed that runs.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Ends the process when a seed hangs, and says which.
fn watch() {
    std::thread::spawn(|| {
        loop {
            let before = NOW.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(60));
            if NOW.load(Ordering::Relaxed) == before {
                eprintln!("the program of seed {before} hangs; this replays it: {}", replay(before));
                std::process::exit(1);
            }
        }
    });
}

/// Runs the programs in a process of that level.
fn start_level(level: &str) {
    let program = std::env::current_exe().expect("this program's path");
    let output = Command::new(program)
        .args([
            "--exact",
            "random_requests::programs_of_one_level",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(LEVEL, level)
        .output()
        .expect("it starts");
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    println!("{told}");
}

#[test]
fn random_arrays_of_requests_complete_as_the_model_says() {
    start_level("one");
}

#[test]
fn random_arrays_of_requests_of_several_lanes_and_threads_complete_as_the_model_says() {
    start_level("several");
}
