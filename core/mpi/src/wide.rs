//! Lanes that reach other nodes: each has an end of its own on the fabric.
//!
//! Ends are opened one by one, when the first communicator of a lane needs one. How others' ends of the same lane are found is
//! asked by letters in lane 0 ([`desk`]), which whoever progresses the process writes and takes in; the lanes' engines ask the
//! desk from under their own locks. So the desk has a lock of its own, the innermost of all: nothing but a bell is rung under
//! it.
//!
//! # Who wakes whom
//! A wish for a letter is left at the desk, and lane 0 is rung: the thread that sleeps for it armed its bell before its last
//! look, which locked the desk. Either that look came first, and the desk's lock hands the armed bell on to whoever leaves the
//! wish and then rings; or it found the wish. It is the same with an answer and the threads that sleep in its lane.

mod desk;

pub use desk::check_lane_letters;

use crate::context::open_lane;
use crate::fabric::{Opener, Texts};
use crate::lanes::LANES;
use crate::process::Process;
use desk::{Desk, Letter};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_engine::{Contacts, Engine, EngineBell, Near, Wide};
use weft_types::{Error, ErrorClass, Farewell, PeerId, Result};

/// What a process needs for lanes that reach other nodes.
#[derive(Debug)]
pub(crate) struct WideLanes {
    opener: Opener,
    counter: Counter,
    /// Whether one was opened, or was tried to be.
    begun: bool,
    /// Losses that lane 0 knows of and has told the others.
    told: usize,
    /// The same of farewells.
    parted: BTreeMap<PeerId, Farewell>,
    /// Lane 0's count of losses at the last look for those.
    losses: u32,
}

/// The desk, and who is woken by what lies there.
#[derive(Clone, Debug)]
struct Counter(Arc<Mutex<(Desk, EngineBell)>>);

impl Counter {
    fn lock(&self) -> MutexGuard<'_, (Desk, EngineBell)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One lane's view of the desk.
#[derive(Clone, Debug)]
struct LaneContacts {
    counter: Counter,
    lane: u32,
}

impl Contacts for LaneContacts {
    fn is_known(&self, peer: PeerId) -> bool {
        let (desk, bell) = &mut *self.counter.lock();
        let known = desk.is_known(self.lane, peer);
        // Once: who waits asks again and again.
        if !known && desk.has_letters() {
            bell.ring(0);
        }
        known
    }
}

impl Texts for LaneContacts {
    fn text(&self, peer: PeerId) -> Result<String> {
        let failed = |why: String| Error::new(ErrorClass::OTHER, why);
        match self.counter.lock().0.card(self.lane, peer) {
            Some(Ok(card)) => Ok(card.clone()),
            Some(Err(why)) => {
                Err(failed(format!("process {} cannot be reached in lane {}: {why}", peer.0, self.lane)))
            }
            None => Err(failed(format!(
                "process {} has not told yet how its lane {} is found",
                peer.0, self.lane
            ))),
        }
    }
}

impl WideLanes {
    pub(crate) fn new(opener: Opener, engine: &Engine) -> WideLanes {
        let counter = Counter(Arc::new(Mutex::new((Desk::default(), engine.bell()))));
        WideLanes { opener, counter, begun: false, told: 0, parted: BTreeMap::new(), losses: 0 }
    }

    /// What carries the messages of such lanes.
    pub(crate) fn way(&self) -> String {
        self.opener.way()
    }

    /// Opens the end of a lane. What fails may be tried again: nobody asks for a lane before all its members have said that they
    /// have opened it.
    fn open(&mut self, lane: u32) -> Result<Wide> {
        self.begun = true;
        let contacts = LaneContacts { counter: self.counter.clone(), lane };
        let (fabric, card) = self.opener.open(contacts.clone())?;
        self.counter.lock().0.opened(lane, Ok(card));
        Ok(Wide { fabric, contacts: Arc::new(contacts) })
    }
}

impl Process {
    /// Opens a lane unless it is open; with `wide` it reaches other nodes from now on.
    ///
    /// # Errors
    /// Its memory, or its end on the fabric, cannot be had.
    pub(crate) fn open_lane(&mut self, lane: u32, wide: bool) -> Result<()> {
        if lane == 0 || self.lanes.get(lane).is_some_and(|open| !wide || open.is_wide()) {
            return Ok(());
        }
        // Its rings, pools and tables are near the core of its thread, whoever opens it.
        let _near = Near::node(crate::lanes::node(&self.job.lanes, lane));
        let end = match self.wide.as_mut().filter(|_| wide) {
            Some(lanes) => Some(lanes.open(lane)?),
            None => None,
        };
        match (self.lanes.get(lane), end) {
            (Some(open), Some(end)) => open.widen(end),
            (Some(_), None) => {}
            (None, end) => self.lanes.open(lane, &self.engine, end)?,
        }
        self.contexts.open |= open_lane(lane, self.lanes.at(lane).is_wide());
        if let Some(lanes) = self.wide.as_ref().filter(|_| wide) {
            // What the others were told before this one was there.
            let (open, gone) = (self.lanes.at(lane), &self.engine.gone()[..lanes.told]);
            gone.iter().for_each(|&peer| open.hear_gone(peer, &self.engine));
            lanes.parted.iter().for_each(|(&peer, &farewell)| open.hear_parted(peer, farewell));
            let unreachable: Vec<PeerId> = lanes.counter.lock().0.unreachable(lane).collect();
            unreachable.into_iter().for_each(|peer| open.hear_lost(peer));
            self.engine.bell().ring(lane);
        }
        Ok(())
    }

    /// Says, once, that communicators of a lane have to share lane 0, because this process cannot open its end of it.
    #[cold]
    pub(crate) fn tell_lane_shared(&mut self, lane: u32, error: &Error) {
        if !std::mem::replace(&mut self.told_lane_shared, true) {
            eprintln!(
                "weft: rank {} cannot open lane {lane} for its threads, and communicators that would use it share the first lane: {error}",
                self.job.rank
            );
        }
    }

    /// Writes and takes in letters about lanes, and tells them of losses and farewells. Whether there was anything.
    pub(crate) fn progress_wide(&mut self) -> bool {
        let Some(wide) = self.wide.as_mut().filter(|wide| wide.begun) else { return false };
        let mut moved = false;
        let mut news = 0_u32;
        for (from, body) in self.letters.about_lanes(&mut self.engine) {
            moved = true;
            // What is no letter is dropped: nobody waits for it.
            if let Ok(letter) = Letter::parse(&body) {
                let is_refusal = matches!(letter, Letter::Answer(_, Err(_)));
                let lane = wide.counter.lock().0.heard(from, letter);
                news |= 1 << lane;
                // Of a lane that is not open here it is remembered.
                if is_refusal && let Some(lane) = self.lanes.get(lane) {
                    lane.hear_lost(from);
                }
            }
        }
        loop {
            // Not in the loop's head, whose lock would last as long as the body.
            let next = wide.counter.lock().0.next();
            let Some((to, letter)) = next else { break };
            moved = true;
            if let Err(error) = self.letters.send_about_lanes(&mut self.engine, to, &letter.emit()) {
                let lane = wide.counter.lock().0.failed(to, &letter, error.to_string());
                news |= 1 << lane;
                if let Some(lane) = self.lanes.get(lane) {
                    lane.hear_lost(to);
                }
            }
        }
        let gone = self.engine.gone();
        if gone.len() > wide.told {
            for &peer in &gone[wide.told..] {
                self.lanes.iter().for_each(|(_, lane)| lane.hear_gone(peer, &self.engine));
            }
            wide.told = gone.len();
            news = u32::MAX;
        }
        if self.engine.losses() != wide.losses {
            wide.losses = self.engine.losses();
            for (peer, farewell) in self.engine.farewells() {
                if wide.parted.insert(peer, farewell) != Some(farewell) {
                    self.lanes.iter().for_each(|(_, lane)| lane.hear_parted(peer, farewell));
                    news = u32::MAX;
                }
            }
        }
        if news != 0 {
            let bell = self.engine.bell();
            (1..LANES).filter(|lane| news >> lane & 1 != 0).for_each(|lane| bell.ring(lane));
        }
        moved
    }
}
