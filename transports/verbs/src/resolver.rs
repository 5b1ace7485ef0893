//! A thread that asks the connection manager for routes, and hands its answers over.
//!
//! The library's calls may take long (they open devices, and wait for the kernel), and no call of a device here waits. So
//! questions go to a thread of the device, which is there while there are some, and a moment longer. It waits for the manager's
//! events and for questions alike, has a bounded number of questions open, and tells of each one way or the other when its time
//! is up. Answers are laid down under a lock, and whoever sleeps is woken.
//!
//! What holds: every identifier of the library is destroyed after its events were given back, and the channel after the
//! identifiers. Should the library never return from a call, nobody waits for the thread, and whoever asked goes on by the
//! clock.

use crate::library::library;
use crate::manager::Manager;
use crate::route::Answer;
use crate::sys::cm::{
    RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR,
    RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, rdma_cm_event, rdma_cm_id,
    rdma_event_channel,
};
use libc::{c_int, c_void, sockaddr_storage};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weft_api::sleepers::Sleepers;

/// Questions that are open with the manager at a time: a subnet has one manager, which all processes of a job ask at the same
/// moment.
const MOST_OPEN: usize = 16;
/// How long an address is looked up before it is tried again. The kernel looks once more at the end of it: a neighbour that answers
/// before it has begun to listen is found only then.
const ADDRESS_TRY: Duration = Duration::from_millis(200);
/// How long a subnet's manager is waited for before it is asked again: the question may be lost.
const ROUTE_TRY: Duration = Duration::from_secs(1);
/// How long the manager is late before it is taken for silent.
const LATE: Duration = Duration::from_millis(100);
/// How long the thread stays without questions.
const IDLE: Duration = Duration::from_secs(2);
/// How long a device that is closed waits for the thread's end.
const FAREWELL: Duration = Duration::from_secs(1);

/// A way to be asked for.
#[derive(Clone)]
pub(crate) struct Question {
    /// By which the answer is known.
    pub(crate) number: u64,
    /// The own address and the peer's, and the port space that they are of.
    pub(crate) from: sockaddr_storage,
    pub(crate) to: sockaddr_storage,
    pub(crate) space: c_int,
    /// A traffic class that packets shall have, which the priority may follow from.
    pub(crate) traffic_class: Option<u8>,
    /// When it is given up.
    pub(crate) until: Instant,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The manager's record.
    Answered(Answer),
    /// There is no such way, or so it says.
    Failed(String),
    /// Time is up.
    Silent,
    /// It cannot be asked at all.
    Unusable(String),
}

/// The port that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) device: String,
    pub(crate) port: u8,
}

/// Asks, and has the answers; see the module.
#[derive(Debug)]
pub(crate) struct Resolver {
    manager: &'static Manager,
    place: Place,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Rung for new questions, and at the end.
    call: EventFd,
    /// Who waits for answers.
    sleepers: Arc<Sleepers>,
    over: Condvar,
}

#[derive(Default)]
struct State {
    questions: VecDeque<Question>,
    answers: Vec<(u64, Outcome)>,
    /// There is a thread.
    runs: bool,
    /// There shall be none any more.
    ends: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({} questions, runs: {}, ends: {})", self.questions.len(), self.runs, self.ends)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, number: u64, outcome: Outcome) {
        self.state().answers.push((number, outcome));
        self.sleepers.ring();
    }
}

impl Resolver {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(
        manager: &'static Manager,
        place: Place,
        sleepers: Arc<Sleepers>,
    ) -> io::Result<Resolver> {
        let call = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let shared = Shared { state: Mutex::default(), call, sleepers, over: Condvar::new() };
        Ok(Resolver { manager, place, shared: Arc::new(shared) })
    }

    /// Asks; the answer comes later, and rings.
    pub(crate) fn ask(&self, question: Question) {
        let number = question.number;
        let mut state = self.shared.state();
        state.questions.push_back(question);
        if !std::mem::replace(&mut state.runs, true)
            && let Err(error) = self.start()
        {
            state.runs = false;
            state.questions.clear();
            state.answers.push((number, Outcome::Unusable(format!("no thread to ask with: {error}"))));
        }
        drop(state);
        // It can only be full, and then it is readable.
        let _ = self.shared.call.write(1);
    }

    /// What has come.
    pub(crate) fn answers(&self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.shared.state().answers)
    }

    /// A thread that takes no signals, which are the program's.
    fn start(&self) -> io::Result<()> {
        let (manager, place, shared) = (self.manager, self.place.clone(), Arc::clone(&self.shared));
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let started = std::thread::Builder::new()
            .name("weft-routes".to_owned())
            .spawn(move || Asker::run(manager, &place, &shared));
        before.thread_set_mask()?;
        started.map(drop)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ends = true;
        let _ = self.shared.call.write(1);
        // One that hangs in the library is left behind: it owns what it uses.
        let _ = self.shared.over.wait_timeout_while(state, FAREWELL, |state| state.runs);
    }
}

/// A question that the manager has.
struct Open {
    question: Question,
    id: *mut rdma_cm_id,
}

/// The thread.
struct Asker<'a> {
    manager: &'static Manager,
    place: &'a Place,
    shared: &'a Shared,
    channel: *mut rdma_event_channel,
    open: HashMap<u64, Open>,
}

/// The library's reason.
fn why(what: &str, errno: i32) -> Outcome {
    Outcome::Failed(format!("{what}: {}", io::Error::from_raw_os_error(errno.abs())))
}

fn last() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl Asker<'_> {
    fn run(manager: &'static Manager, place: &Place, shared: &Shared) {
        let mut asker = Asker { manager, place, shared, channel: null_mut(), open: HashMap::new() };
        let made = asker.make_channel();
        let work = |asker: &mut Asker<'_>| {
            while asker.turn() {}
        };
        let text = match made {
            Ok(()) => {
                work(&mut asker);
                None
            }
            Err(error) => Some(format!("the connection manager cannot be asked: {error}")),
        };
        asker.close();
        let mut state = shared.state();
        if let Some(text) = text {
            let questions: Vec<Question> = state.questions.drain(..).collect();
            let all = questions.iter().map(|question| (question.number, Outcome::Unusable(text.clone())));
            state.answers.extend(all);
        }
        // Nobody starts another before this, and nothing is asked between the last look and here: see `turn`.
        state.runs = false;
        shared.over.notify_all();
        drop(state);
        shared.sleepers.ring();
    }

    fn make_channel(&mut self) -> io::Result<()> {
        // SAFETY: no arguments; it opens the kernel's manager.
        self.channel = unsafe { (self.manager.rdma_create_event_channel)() };
        if self.channel.is_null() {
            return Err(io::Error::last_os_error());
        }
        let flags = OFlag::from_bits_retain(fcntl(self.events(), FcntlArg::F_GETFL)?);
        fcntl(self.events(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(())
    }

    /// What becomes readable with an event.
    fn events(&self) -> BorrowedFd<'static> {
        // SAFETY: the channel lives until `close`, and nobody uses this longer.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// Waits for something, and does it. `false`: it is over.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        let next = self.open.values().map(|open| open.question.until + LATE).min();
        let limit = next.map_or(IDLE, |until| until.saturating_duration_since(now));
        // A whole millisecond more than what is left, so that time is up then.
        let limit = PollTimeout::try_from(limit.as_millis() as u64 + 1).unwrap_or(PollTimeout::MAX);
        let mut ready = [
            PollFd::new(self.events(), PollFlags::POLLIN),
            PollFd::new(self.shared.call.as_fd(), PollFlags::POLLIN),
        ];
        let woken = poll(&mut ready, limit);
        let _ = self.shared.call.read();
        while let Some((number, outcome, again)) = self.take_event() {
            self.over(number, outcome, again);
        }
        self.expire();
        let mut state = self.shared.state();
        if state.ends {
            return false;
        }
        let mut asked = Vec::new();
        while self.open.len() + asked.len() < MOST_OPEN
            && let Some(question) = state.questions.pop_front()
        {
            asked.push(question);
        }
        if asked.is_empty() && self.open.is_empty() && woken == Ok(0) {
            // Under the lock: what is asked from now on finds no thread.
            state.runs = false;
            return false;
        }
        drop(state);
        for question in asked {
            let number = question.number;
            if let Err(outcome) = self.begin(question) {
                self.shared.answer(number, outcome);
            }
        }
        true
    }

    /// A question to the manager.
    fn begin(&mut self, mut question: Question) -> Result<(), Outcome> {
        let time = millis(&question, ADDRESS_TRY).ok_or(Outcome::Silent)?;
        let mut id = null_mut();
        let context = question.number as *mut c_void;
        // SAFETY: the channel is open; the identifier is written, and given back in `close_id`.
        if unsafe { (self.manager.rdma_create_id)(self.channel, &mut id, context, question.space) } != 0 {
            return Err(why("no identifier for a connection", last()));
        }
        if let Some(mut class) = question.traffic_class {
            // A manager that takes no wish says what it would say without.
            // SAFETY: the identifier is live; the option is a byte, which is copied.
            unsafe {
                (self.manager.rdma_set_option)(
                    id,
                    RDMA_OPTION_ID,
                    RDMA_OPTION_ID_TOS,
                    (&raw mut class).cast(),
                    1,
                )
            };
        }
        let (from, to) = ((&raw mut question.from).cast(), (&raw mut question.to).cast());
        // SAFETY: both are whole addresses of their family, which the library copies.
        if unsafe { (self.manager.rdma_resolve_addr)(id, from, to, time) } != 0 {
            let errno = last();
            self.close_id(id);
            return Err(why("the address is not looked up", errno));
        }
        self.open.insert(question.number, Open { question, id });
        Ok(())
    }

    /// The next event that ends a question, and whether it may be asked again; those in between are acted on.
    fn take_event(&mut self) -> Option<(u64, Outcome, bool)> {
        loop {
            let mut event: *mut rdma_cm_event = null_mut();
            // SAFETY: the channel is open and never waits.
            if unsafe { (self.manager.rdma_get_cm_event)(self.channel, &mut event) } != 0 {
                return None;
            }
            // SAFETY: an event of the library, which is ours until it is given back; its identifier is one of ours, which lives
            // as long as it is in the list.
            let (id, kind, status) = unsafe { ((*event).id, (*event).event, (*event).status) };
            // SAFETY: as above.
            let number = unsafe { (*id).context } as u64;
            // SAFETY: nothing of it is used any more.
            unsafe { (self.manager.rdma_ack_cm_event)(event) };
            let is_late = status.abs() == libc::ETIMEDOUT;
            let outcome = match kind {
                RDMA_CM_EVENT_ADDR_RESOLVED => self.address_is_known(number, id),
                RDMA_CM_EVENT_ROUTE_RESOLVED => Some(answer(id)),
                RDMA_CM_EVENT_ADDR_ERROR => Some(why("the network leads nowhere", status)),
                RDMA_CM_EVENT_ROUTE_ERROR if is_late => Some(Outcome::Silent),
                RDMA_CM_EVENT_ROUTE_ERROR => Some(why("there is no route", status)),
                other => Some(Outcome::Failed(format!("the connection manager says {other}"))),
            };
            if let Some(outcome) = outcome {
                return Some((number, outcome, is_late));
            }
        }
    }

    /// The address is known: it must be reached by the own port, whose route is asked for then.
    fn address_is_known(&mut self, number: u64, id: *mut rdma_cm_id) -> Option<Outcome> {
        // SAFETY: the identifier is ours and live; with this event it belongs to a device.
        let (verbs, port) = unsafe { ((*id).verbs, (*id).port_num) };
        if verbs.is_null() {
            return Some(Outcome::Failed("the network leads there by no RDMA device".to_owned()));
        }
        let library = library().ok()?;
        // SAFETY: the device of an opened context, whose name lasts as long as it.
        let name = unsafe { CStr::from_ptr((library.ibv_get_device_name)((*verbs).device)) };
        if name.to_bytes() != self.place.device.as_bytes() || port != self.place.port {
            return Some(Outcome::Failed(format!(
                "the network leads there by {} port {port}",
                name.to_string_lossy()
            )));
        }
        let Some(time) = self.open.get(&number).and_then(|open| millis(&open.question, ROUTE_TRY)) else {
            return Some(Outcome::Silent);
        };
        // SAFETY: the identifier is ours and live.
        match unsafe { (self.manager.rdma_resolve_route)(id, time) } {
            0 => None,
            _ => Some(why("there is no route", last())),
        }
    }

    /// A question is over, or is asked again as long as there is time.
    fn over(&mut self, number: u64, outcome: Outcome, again: bool) {
        let Some(Open { question, id }) = self.open.remove(&number) else { return };
        self.close_id(id);
        if !again || self.begin(question).is_err() {
            self.shared.answer(number, outcome);
        }
    }

    /// Gives up what has no time left.
    fn expire(&mut self) {
        let now = Instant::now();
        let late = self.open.iter().filter(|(_, open)| open.question.until + LATE <= now);
        let late: Vec<u64> = late.map(|(&number, _)| number).collect();
        for number in late {
            self.over(number, Outcome::Silent, false);
        }
    }

    fn close_id(&self, id: *mut rdma_cm_id) {
        // SAFETY: made by the library, with no event that was not given back, and nobody uses it any more.
        unsafe { (self.manager.rdma_destroy_id)(id) };
    }

    fn close(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            self.close_id(open.id);
        }
        if !self.channel.is_null() {
            // SAFETY: its identifiers are gone.
            unsafe { (self.manager.rdma_destroy_event_channel)(self.channel) };
        }
    }
}

/// How long a step may take, at most `most`; `None`: time is up.
fn millis(question: &Question, most: Duration) -> Option<c_int> {
    let left = question.until.saturating_duration_since(Instant::now()).min(most).as_millis();
    (left > 0).then_some(left as c_int)
}

/// The route of an identifier.
fn answer(id: *mut rdma_cm_id) -> Outcome {
    // SAFETY: the identifier is ours and live, and its route is resolved.
    let route = unsafe { &(*id).route };
    if route.num_paths < 1 || route.path_rec.is_null() {
        return Outcome::Failed("the connection manager has no record of the way".to_owned());
    }
    // SAFETY: so many records are there.
    let record = unsafe { &*route.path_rec };
    Outcome::Answered(Answer {
        destination_lid: u16::from_be(record.dlid),
        source_lid: u16::from_be(record.slid),
        flow_label: u32::from_be(record.flow_label),
        hop_limit: record.hop_limit,
        traffic_class: record.traffic_class,
        service_level: record.sl,
        mtu: record.mtu,
        rate: record.rate,
        lifetime: record.packet_life_time,
    })
}
