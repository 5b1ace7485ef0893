//! Describes a blocked call: in words for people, and as the processes it needs, from which the launcher finds deadlocks.
//!
//! Called when a call has been blocked for long, never on the way of a message. What is not known exactly is described as "may
//! go on at any time" (no needs), so that no description can make a job look more blocked than it is.

use crate::buffered::Content;
use crate::comm::Comm;
use crate::construct::Awaits;
use crate::partitioned::{Counterpart, PartsOutlook};
use crate::persistent::Operation;
use crate::process::Process;
use crate::request::{COLLECTIVE, Kind, Local};
use std::time::Duration;
use weft_boot::stall::{Blocked, Place, Ranks, Stall};
use weft_engine::{Engine, Outlook, RequestId, Running, Selector, SendMode, Stray};
use weft_types::{ContextId, Handle, PeerId, Rank, Tag};

/// What a blocked call waits for.
#[derive(Clone, Debug)]
pub enum Awaited {
    /// Something that is described nowhere.
    Something,
    /// A request; the call is the operation itself (`MPI_Recv`).
    Own(RequestId),
    /// These requests, all of them or any.
    Requests {
        /// As the program passed them.
        handles: Vec<Handle>,
        /// Whether all must end, or one is enough.
        all: bool,
    },
    /// A message to be probed for.
    Probe(Selector),
    /// A communicator being made: what the agreement under way waits for, and the parent.
    Construction(Awaits, Handle),
    /// Answers of these ranks of a window, from each; and, if so, the lock of the own window, which any member may hold.
    Window(Handle, Vec<u32>, bool),
    /// A collective of this communicator by shared memory, and the members that have to go on first, one bit each.
    Rounds(Handle, u64),
    /// Buffered messages to leave.
    Buffered(Vec<RequestId>),
    /// The end of everything under way on a communicator.
    OnComm(Handle),
    /// The end of everything under way in a session that no other process has to begin.
    OfSession(Handle),
    /// The end of everything under way.
    Quiet,
}

/// Requests listed one by one; of more, only the number is told.
const LISTED: usize = 4;
/// Requests looked at.
const TOLD: usize = 4096;
/// Stray messages listed.
const STRAYS: usize = 6;

/// From which time on it is told that a process has not answered yet.
const SILENCE: Duration = Duration::from_millis(500);

/// Words and needs of one thing.
#[derive(Default)]
struct Told {
    /// `receive`, `send`, ...
    verb: &'static str,
    /// `source=1, tag=2, MPI_COMM_WORLD`
    arguments: String,
    /// `tag 2`
    brief: String,
    /// As [`Blocked::needs`].
    needs: Vec<Ranks>,
    collective: Option<(Place, Ranks)>,
}

fn of_one(peer: PeerId) -> Ranks {
    Ranks::one(peer.0)
}

fn number_or_any(number: Option<u32>, any: &str) -> String {
    number.map_or_else(|| any.to_owned(), |number| number.to_string())
}

fn tag_text(tag: Option<Tag>) -> String {
    number_or_any(tag.map(|tag| tag.0 as u32), "MPI_ANY_TAG")
}

fn bytes_text(bytes: u64) -> String {
    format!("{bytes} byte{}", if bytes == 1 { "" } else { "s" })
}

impl Process {
    /// The communicator that uses a channel.
    fn comm_on(&self, context: ContextId) -> Option<&Comm> {
        self.comms.iter().find(|comm| {
            [comm.context, comm.context.collective(), comm.context.partitioned()].contains(&context)
        })
    }

    /// A name that is the same at all members.
    fn name_on(&self, context: ContextId) -> String {
        match self.comm_on(context) {
            Some(comm) if !comm.name.is_empty() => comm.display_name(),
            Some(comm) => {
                format!("an unnamed communicator of {} ranks (number {})", comm.size, comm.context.0 / 2)
            }
            None => format!("a communicator without handle (number {})", (context.0 & !(1 << 31)) / 2),
        }
    }

    /// `7`, or `2 (rank 7 of MPI_COMM_WORLD)` where the numbers differ.
    fn rank_text(&self, rank: Option<Rank>, peer: Option<PeerId>) -> String {
        match (rank, peer) {
            (Some(rank), Some(peer)) if rank.0 != peer.0 => {
                format!("{} (rank {} of MPI_COMM_WORLD)", rank.0, peer.0)
            }
            (Some(rank), _) => rank.0.to_string(),
            (None, _) => "MPI_ANY_SOURCE".to_owned(),
        }
    }

    /// The rank of who is sent to.
    fn dest_text(&self, context: ContextId, peer: PeerId) -> String {
        let rank = self.comm_on(context).and_then(|comm| comm.group.rank_of(peer));
        self.rank_text(Some(rank.unwrap_or(Rank(peer.0))), Some(peer))
    }

    fn members(&self, context: ContextId) -> Option<Ranks> {
        self.comm_on(context).map(|comm| comm.processes().map(|peer| peer.0).collect())
    }

    fn tell_selector(&self, from: Selector, room: Option<u64>) -> Told {
        let room = room.map_or_else(String::new, |bytes| format!(", room for {}", bytes_text(bytes)));
        let senders = match from.peer {
            Some(peer) => Some(of_one(peer)),
            None => self.members(from.context),
        };
        Told {
            verb: "receive",
            arguments: format!(
                "source={}, tag={}, {}{room}",
                self.rank_text(from.source, from.peer),
                tag_text(from.tag),
                self.name_on(from.context)
            ),
            brief: format!("tag {}", tag_text(from.tag)),
            // Without the communicator nobody knows who may send.
            needs: senders.into_iter().collect(),
            collective: None,
        }
    }

    fn tell_collective(&self, running: &Running) -> Told {
        let place = Place { channel: running.context.0, number: running.number };
        let needs = match running.goes_on {
            true => Vec::new(),
            false => running.peers.iter().map(|&peer| of_one(peer)).collect(),
        };
        let members = self.members(running.context);
        let collective = members.filter(|_| !running.persistent).map(|members| (place, members));
        let which = match running.persistent {
            true => String::new(),
            false => format!(", collective operation {} there", running.number.wrapping_add(1)),
        };
        let arguments = format!("{}{which}", self.name_on(running.context));
        Told { verb: "collective", arguments, brief: String::new(), needs, collective }
    }

    fn tell_rounds(&self, comm: Handle, missing: u64) -> Told {
        let Ok(of) = self.comms.get(comm) else { return Told::default() };
        let context = of.context.collective();
        // It was counted when it began.
        let number = of.collectives.get().wrapping_sub(1);
        let place = Place { channel: context.0, number };
        Told {
            verb: "collective",
            arguments: format!(
                "{}, collective operation {} there",
                self.name_on(context),
                number.wrapping_add(1)
            ),
            brief: String::new(),
            needs: self.awaited_in_rounds(comm, missing).into_iter().map(of_one).collect(),
            collective: self.members(context).map(|members| (place, members)),
        }
    }

    fn tell_agreement(&self, awaits: Awaits) -> Told {
        match awaits {
            Awaits::Agreement(request) => self.tell_engine(request),
            Awaits::Process(peer) => Told { needs: vec![of_one(peer)], ..Told::default() },
        }
    }

    fn tell_engine(&self, request: RequestId) -> Told {
        let outlook = |engine: &Engine, request| match engine.exists(request) {
            true => engine.outlook(request),
            false => Outlook::Ready,
        };
        let outlook = match request.lane() {
            0 => outlook(&self.engine, request),
            lane => self.lanes.at(lane).with(|inner| outlook(&inner.engine, request.local())),
        };
        let peers = match &outlook {
            Outlook::Receive { from, .. } => from.peer.into_iter().collect(),
            Outlook::Send { peer, .. } => vec![*peer],
            Outlook::Collective(running) => running.peers.clone(),
            Outlook::Ready | Outlook::Arriving { .. } => Vec::new(),
        };
        let mut told = self.tell_outlook(outlook);
        self.tell_silence(&peers, &mut told);
        told
    }

    fn tell_outlook(&self, outlook: Outlook) -> Told {
        match outlook {
            Outlook::Ready => Told::default(),
            Outlook::Receive { from, room } => self.tell_selector(from, Some(room)),
            Outlook::Arriving { peer, context, source, tag, bytes } => Told {
                verb: "receive (data on the way)",
                arguments: format!(
                    "source={}, tag={}, {}, {}",
                    self.rank_text(Some(source), Some(peer)),
                    tag.0,
                    self.name_on(context),
                    bytes_text(bytes)
                ),
                brief: format!("tag {}", tag.0),
                needs: vec![of_one(peer)],
                collective: None,
            },
            Outlook::Send { peer, context, tag, bytes, synchronous } => Told {
                verb: if synchronous { "synchronous send" } else { "send" },
                arguments: format!(
                    "dest={}, tag={}, {}, {}",
                    self.dest_text(context, peer),
                    tag.0,
                    self.name_on(context),
                    bytes_text(bytes)
                ),
                brief: format!("tag {}", tag.0),
                needs: vec![of_one(peer)],
                collective: None,
            },
            Outlook::Collective(running) => self.tell_collective(&running),
        }
    }

    /// Adds to what is told of something that needs these processes that one of them was never heard. The network may be
    /// mended, so nothing is certain then.
    fn tell_silence(&self, peers: &[PeerId], told: &mut Told) {
        let silent = |&&peer: &&PeerId| self.engine.unanswered(peer).is_some_and(|time| time >= SILENCE);
        if let Some(peer) = peers.iter().find(silent) {
            told.arguments.push_str(&format!(
                "; rank {} of MPI_COMM_WORLD has not answered over the network yet: either it has not called MPI since MPI_Init, or a packet \
                 filter drops what is sent to it (weft-doctor --peer HOST tries the way)",
                peer.0
            ));
            told.needs.clear();
        }
    }

    fn tell_request(&self, handle: Handle) -> Told {
        let Ok(Kind::Local(local)) = self.requests.kind(&self.engine, handle) else {
            return match self.requests.kind(&self.engine, handle) {
                Ok(Kind::Engine(id) | Kind::Lane(id)) => self.tell_engine(id),
                _ => Told::default(),
            };
        };
        let unknown = |verb| Told { verb, ..Told::default() };
        match self.requests.local(local) {
            Local::Persistent(persistent) => {
                let told = persistent.active().map(|inner| self.tell_request(inner)).unwrap_or_default();
                match (&persistent.operation, told.verb) {
                    _ if persistent.active().is_none() => unknown("inactive persistent request"),
                    (_, "") => told,
                    (Operation::Collective(_), _) => Told { verb: "persistent collective", ..told },
                    (Operation::Receive(..), _) => Told { verb: "persistent receive", ..told },
                    (Operation::Send(_, SendMode::Synchronous, _), _) => {
                        Told { verb: "persistent synchronous send", ..told }
                    }
                    _ => Told { verb: "persistent send", ..told },
                }
            }
            &Local::Pair { send, receive, .. } => {
                let (send, receive) = (self.tell_request(send), self.tell_request(receive));
                join("sendrecv", [receive, send])
            }
            // Another thread completes it, and then nothing is certain anyway; or nobody does while this process is blocked.
            Local::Generalized(_) => Told {
                verb: "generalized request, which the program completes",
                needs: vec![Ranks::one(self.job.rank)],
                ..Told::default()
            },
            Local::Construction(making) => match making.construction.as_ref() {
                Some(construction) => {
                    let told = self.tell_agreement(construction.awaits());
                    Told { verb: "communicator being made", ..told }
                }
                None => Told::default(),
            },
            Local::PartitionedSend(side) => self.tell_partitioned(true, side.outlook()),
            Local::PartitionedReceive(side) => self.tell_partitioned(false, side.outlook()),
            Local::Flush(content) => self.tell_flush(*content),
            Local::OneSided(..) => unknown("one-sided operation"),
            _ => unknown("request"),
        }
    }

    fn tell_partitioned(&self, sends: bool, outlook: PartsOutlook) -> Told {
        let PartsOutlook { other, words, needs } = outlook;
        let verb = if sends { "partitioned send" } else { "partitioned receive" };
        let Some(Counterpart { peer, context, source, tag }) = other else {
            return Told { verb, arguments: words, ..Told::default() };
        };
        let whom = match sends {
            true => format!("dest={}", self.dest_text(context, peer)),
            false => format!("source={}", self.rank_text(Some(source), Some(peer))),
        };
        Told {
            verb,
            arguments: format!("{whom}, tag={}, {}, {words}", tag.0, self.name_on(context)),
            brief: format!("tag {}", tag.0),
            needs: needs.then(|| of_one(peer)).into_iter().collect(),
            collective: None,
        }
    }

    /// A request that ends when all that was in a buffer has left.
    fn tell_flush(&self, content: Content) -> Told {
        let awaited = self.requests.buffers.awaited(&self.engine, content);
        let told = join("flush", awaited.iter().take(LISTED).map(|&request| self.tell_engine(request)));
        let number = awaited.len();
        Told { arguments: format!("{number} buffered messages must end first, {}", told.arguments), ..told }
    }

    /// Describes a call that is blocked since `since` (nanoseconds of [`weft_boot::stall::now`]).
    pub fn describe(&self, call: &str, awaited: &Awaited, since: u64) -> Blocked {
        let blocked = |told: Told| Blocked {
            call: call.to_owned(),
            what: match told.arguments.is_empty() {
                true => String::new(),
                false => format!("({})", told.arguments),
            },
            brief: told.brief,
            needs: told.needs,
            collective: told.collective,
            since,
            ..Blocked::default()
        };
        match awaited {
            Awaited::Something => blocked(Told::default()),
            // What it waits for is the meeting of all, and that is all there is to say.
            Awaited::Own(request) if call == "MPI_Finalize" => {
                blocked(Told { arguments: String::new(), ..self.tell_engine(*request) })
            }
            Awaited::Own(request) => blocked(self.tell_engine(*request)),
            Awaited::Requests { handles, all } => {
                let told = self.tell_requests(handles, *all);
                Blocked { call: call.to_owned(), since, ..told }
            }
            Awaited::Probe(from) => blocked(self.tell_selector(*from, None)),
            Awaited::Construction(awaits, parent) => {
                let told = self.tell_agreement(*awaits);
                match self.comms.get(*parent) {
                    Ok(comm) => {
                        blocked(Told { arguments: format!("from {}", self.name_on(comm.context)), ..told })
                    }
                    // Others may yet begin a session and join, also those that have ended MPI.
                    Err(_) => Blocked {
                        again: true,
                        ..blocked(Told {
                            arguments: "from a group".to_owned(),
                            needs: told.needs,
                            ..Told::default()
                        })
                    },
                }
            }
            Awaited::Window(window, ranks, own_lock) => blocked(self.tell_window(*window, ranks, *own_lock)),
            Awaited::Rounds(comm, missing) => blocked(self.tell_rounds(*comm, *missing)),
            Awaited::Buffered(sends) => self.tell_all(sends, "buffered messages", &blocked),
            Awaited::OnComm(comm) => self.tell_all(&self.open_on(*comm), "operations on it", &blocked),
            Awaited::OfSession(session) => {
                let ours = |engine: &Engine, request: &RequestId| {
                    self.sessions.origin(Handle(engine.owner(*request) & !COLLECTIVE)) == Some(*session)
                };
                let unfinished = self.of_all_engines(|engine| {
                    engine.unfinished().into_iter().filter(|request| ours(engine, request)).collect()
                });
                self.tell_all(&unfinished, "operations of the session", &blocked)
            }
            Awaited::Quiet => {
                let unfinished = self.of_all_engines(Engine::unfinished);
                self.tell_all(&unfinished, "operations under way", &blocked)
            }
        }
    }

    /// What is under way on a communicator, whether or not somebody will ask for it. A partitioned receive that has not met its
    /// sender is nothing of the kind: the request may stay so for ever (section 3.9).
    pub fn open_on(&self, comm: Handle) -> Vec<RequestId> {
        let introductions = self.comms.find(comm).map(|comm| comm.context.partitioned());
        let is_open = |engine: &Engine, request: &RequestId| Some(engine.channel(*request)) != introductions;
        self.of_all_engines(|engine| {
            engine.open_of(comm.0).into_iter().filter(|request| is_open(engine, request)).collect()
        })
    }

    /// Requests of all lanes.
    fn of_all_engines(&self, which: impl Fn(&Engine) -> Vec<RequestId>) -> Vec<RequestId> {
        let mut requests = which(&self.engine);
        for (number, lane) in self.lanes.iter() {
            let there = lane.with(|inner| which(&inner.engine));
            requests.extend(there.into_iter().map(|request| request.in_lane(number)));
        }
        requests
    }

    /// Several requests of the engine that must all end.
    fn tell_all(&self, requests: &[RequestId], noun: &str, blocked: &dyn Fn(Told) -> Blocked) -> Blocked {
        let parts: Vec<Told> = requests.iter().take(64).map(|&request| self.tell_engine(request)).collect();
        let lines =
            parts.iter().take(LISTED).map(|told| format!("{}({})", told.verb, told.arguments)).collect();
        let told = join("", parts);
        let arguments = format!("{} {noun} must end first", requests.len());
        Blocked { lines, ..blocked(Told { arguments, ..told }) }
    }

    fn tell_window(&self, handle: Handle, ranks: &[u32], own_lock: bool) -> Told {
        let Ok(window) = self.windows.get(handle) else { return Told::default() };
        let mut needs: Vec<Ranks> = ranks.iter().map(|&rank| of_one(window.group.peer(Rank(rank)))).collect();
        let name = match window.name.is_empty() {
            true => format!("an unnamed window of {} ranks", window.group.size()),
            false => window.display_name(),
        };
        let waits: Ranks = ranks.iter().copied().collect();
        let mut arguments = name;
        if !ranks.is_empty() {
            arguments
                .push_str(&format!(", waits for rank{} {waits}", if ranks.len() == 1 { "" } else { "s" }));
        }
        if own_lock {
            arguments.push_str(", waits for whoever holds this rank's own lock");
            needs.push(window.group.peers().map(|peer| peer.0).collect());
        }
        Told { verb: "window", arguments, needs, ..Told::default() }
    }

    fn tell_requests(&self, handles: &[Handle], all: bool) -> Blocked {
        let active = |handle: &Handle| self.requests.is_active(&self.engine, *handle).unwrap_or(false);
        let pending: Vec<Handle> =
            handles.iter().copied().filter(active).filter(|&handle| !self.is_done(handle)).collect();
        let told: Vec<Told> = pending.iter().take(TOLD).map(|&handle| self.tell_request(handle)).collect();
        let word = |told: &Told| match told.arguments.is_empty() {
            true => told.verb.to_owned(),
            false => format!("{}({})", told.verb, told.arguments),
        };
        let mut lines: Vec<String> = told.iter().take(LISTED).map(word).collect();
        if pending.len() > LISTED {
            lines.push(format!("and {} more", pending.len() - LISTED));
        }
        let collective = told.first().and_then(|first| first.collective.clone()).filter(|_| told.len() == 1);
        let brief = told.first().map_or_else(String::new, |first| first.brief.clone());
        let needs = match all {
            true => told.iter().flat_map(|told| told.needs.iter().cloned()).collect(),
            false if pending.len() > TOLD => Vec::new(),
            false => any_of(&told).into_iter().collect(),
        };
        let mut blocked = Blocked { needs: distinct(needs), collective, brief, ..Blocked::default() };
        match (handles.len(), lines.len()) {
            (1, 1) => blocked.what = format!(": {}", lines[0]),
            _ => {
                let done = handles.len() - pending.len();
                blocked.what = format!(": {done} of {} complete", handles.len());
                blocked.lines = lines;
            }
        }
        blocked
    }

    /// The stall of this process with its blocked calls.
    pub fn stall(&self, from: u64, until: u64, calls: Vec<Blocked>, others: bool) -> Stall {
        let mut reacts = self.engine.reacts_to();
        for (_, lane) in self.lanes.iter() {
            let there = lane.with(|inner| inner.engine.reacts_to());
            reacts = reacts.zip(there).map(|(all, there)| [all, there].concat());
        }
        // What another node has not acknowledged is on its way, and may wake somebody there.
        let acts_alone = reacts.is_none() || !self.engine.has_left();
        let sets = reacts.unwrap_or_default().into_iter().map(|set| set.iter().map(|peer| peer.0).collect());
        let acts_on = distinct(sets.chain(self.windows.reacts_to()).collect());
        let begun = self
            .comms
            .iter()
            .map(|comm| Place { channel: comm.context.collective().0, number: comm.collectives.get() });
        let begun: Vec<Place> = begun.filter(|place| place.number > 0).collect();
        Stall { from, until, calls, others: others || acts_alone, acts_on, strays: self.tell_strays(), begun }
    }

    /// A request in words.
    pub(crate) fn phrase(&self, handle: Handle) -> String {
        let told = self.tell_request(handle);
        match (told.verb, told.arguments.is_empty()) {
            ("", _) => "complete, or not started, and neither waited for nor freed".to_owned(),
            (verb, true) => verb.to_owned(),
            (verb, false) => format!("{verb}({})", told.arguments),
        }
    }

    /// Whether a request of the engine is a send or receive of the program itself.
    pub(crate) fn is_ordinary(&self, request: RequestId) -> bool {
        let context = match request.lane() {
            0 => self.engine.channel(request),
            lane => self.lanes.at(lane).with(|inner| inner.engine.channel(request.local())),
        };
        self.comms.iter().any(|comm| comm.context == context)
    }

    /// Every message that nobody has asked for, in words.
    pub(crate) fn tell_all_strays(&self) -> impl Iterator<Item = String> + '_ {
        let mut strays: Vec<Stray> = self.engine.strays().collect();
        for (_, lane) in self.lanes.iter() {
            strays.extend(lane.with(|inner| inner.engine.strays().collect::<Vec<Stray>>()));
        }
        strays.into_iter().filter_map(|stray| {
            let comm = self.comms.iter().find(|comm| comm.context == stray.context)?;
            Some(format!(
                "a message with tag {} from rank {} of {} ({})",
                stray.tag.0,
                stray.source.0,
                self.name_on(comm.context),
                bytes_text(stray.bytes)
            ))
        })
    }

    fn tell_strays(&self) -> Vec<String> {
        let all: Vec<String> = self.tell_all_strays().take(10_000).collect();
        let mut told: Vec<String> = Vec::new();
        for stray in &all {
            if told.len() < STRAYS && !told.contains(stray) {
                told.push(stray.clone());
            }
        }
        told
    }
}

/// One description of several things that must all end.
fn join(verb: &'static str, parts: impl IntoIterator<Item = Told>) -> Told {
    let mut joined = Told { verb, ..Told::default() };
    for part in parts.into_iter().filter(|part| !part.verb.is_empty()) {
        if !joined.arguments.is_empty() {
            joined.arguments.push_str(" and ");
        }
        joined.arguments.push_str(&format!("{}: {}", part.verb, part.arguments));
        joined.needs.extend(part.needs);
        joined.brief = part.brief;
    }
    joined
}

/// Who may end any of these; `None` when that is not known of one.
fn any_of(told: &[Told]) -> Option<Ranks> {
    if told.iter().any(|one| one.needs.is_empty()) {
        return None;
    }
    Some(told.iter().flat_map(|one| one.needs.iter().flat_map(Ranks::iter)).collect())
}

fn distinct(mut sets: Vec<Ranks>) -> Vec<Ranks> {
    sets.sort();
    sets.dedup();
    sets
}
