//! Collectives that the provider runs in groups of processes: [`Offload`] for [`Ofi`].
//!
//! In a group one collective runs at a time, in the order in which they are handed over, so that all members make the
//! provider's calls in one order, also where a collective takes two of them. What it works on is memory of ours
//! ([`crate::slots`]).
//!
//! # Ends
//! fi_collective(3) promises no end where a member is lost. So a group that has something under way watches the next member in
//! the order of ranks (it is asked when it is silent, as all peers are: [`crate::contact`]); whoever finds a member gone ends
//! the group, what was and will be handed over in it, by closing its endpoint, and tells all the others, who do the same. Who
//! has left the group, having got all that it wanted, watches nobody for those who have not; so who waits long watches more and
//! more of them, in the end all. A call that the provider fails waits for such news a while; without them the group ends with
//! what the provider said, at all members, too.

use crate::abilities::{Stage, Stages};
use crate::clock;
use crate::contact::STUCK;
use crate::device::Denied;
use crate::packet::What;
use crate::slots::Half;
use crate::transport::Ofi;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_api::offload::{
    CARD, Collective, Finished, GroupId, Joining, Offload, Outcome, Outline, Program, Refusal, Whole,
};
use weft_types::{Error, ErrorClass, PeerId, Result};

/// Groups at a time: each has an endpoint of the provider's.
const MOST_GROUPS: usize = 64;
/// How long the others may take to join: they all wait in the same call.
const JOINING: Duration = Duration::from_secs(20);
/// Most of that which passes from one look to the next: who computes meanwhile does not see who joins.
const UNSEEN: Duration = Duration::from_secs(1);
/// How long it is waited for news of a loss after the provider has failed a call.
const NEWS: Duration = Duration::from_secs(5);
/// How long a group's endpoint stays open after its communicator is gone: what it sent may still be on its way to members that
/// are slower.
const LINGER: Duration = Duration::from_secs(2);
/// How long a collective is under way until twice as many members are watched.
const LONG: Duration = Duration::from_secs(4);

/// All groups of this process.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// By place.
    list: Vec<Option<Group>>,
    finished: VecDeque<Finished>,
    /// What members are to be told.
    tell: VecDeque<News>,
    /// Of that, what is for members that cannot be found now.
    unfound: Vec<News>,
    /// Groups of which a member has said that they failed there, before they were joined here, and when.
    failed_early: Vec<(PeerId, u32, Instant)>,
    /// Some group joins, runs something or is about to close.
    active: bool,
}

/// Who is told what with which number, and since when.
type News = (PeerId, What, u32, Instant);

/// A group.
#[derive(Debug)]
struct Group {
    /// As all members know it.
    name: u32,
    /// By rank.
    members: Vec<PeerId>,
    state: State,
    /// Handed over and not begun.
    queue: VecDeque<(Arc<Program>, u64)>,
    running: Option<Running>,
    /// So many of the next members are watched.
    watched: u32,
    /// Since when what is under way is, or more members are watched because of it.
    waits_since: Instant,
    /// There is no memory for the next one.
    starved: Option<Patience>,
    /// Nothing more is handed over.
    left: Option<Instant>,
}

/// How long something has been waited for, in time in which it could be seen.
#[derive(Clone, Copy, Debug)]
struct Patience {
    waited: Duration,
    last_look: Instant,
}

impl Patience {
    fn begin() -> Patience {
        Patience { waited: Duration::ZERO, last_look: clock::now() }
    }

    /// Looks: whether it has been waited for so long.
    fn is_over(&mut self, most: Duration) -> bool {
        self.waited += clock::since(self.last_look).min(UNSEEN);
        self.last_look = clock::now();
        self.waited >= most
    }
}

#[derive(Debug)]
enum State {
    Opened,
    Joining(Patience),
    Joined,
    /// Its endpoint is closed.
    Ended(End),
}

/// Why a group has ended.
#[derive(Clone, Debug)]
enum End {
    Lost(PeerId),
    Failed(String),
}

/// The collective under way.
#[derive(Debug)]
struct Running {
    program: Arc<Program>,
    token: u64,
    /// The call under way, or to be made.
    stage: Stage,
    then: Option<Stage>,
    begun: bool,
    /// The provider has failed it.
    failed: Option<(Patience, i64)>,
}

impl Group {
    /// The members that `me` watches, if that many.
    fn after(&self, me: PeerId, watched: u32) -> impl Iterator<Item = PeerId> {
        let own = self.members.iter().position(|&peer| peer == me);
        let others = own.map(|own| self.members.iter().cycle().skip(own + 1).take(self.members.len() - 1));
        others.into_iter().flatten().copied().take(watched as usize)
    }

    /// Whether it waits for the others.
    fn waits(&self) -> bool {
        matches!(self.state, State::Joining(_)) || self.running.is_some() || !self.queue.is_empty()
    }
}

impl Running {
    fn whole(&self) -> Whole {
        self.program.whole.expect("a program of a group names it")
    }
}

impl End {
    fn outcome(&self) -> Outcome {
        match self {
            End::Lost(peer) => Outcome::Lost(*peer),
            End::Failed(why) => Outcome::Failed(Error::new(ErrorClass::OTHER, why.clone())),
        }
    }
}

impl Groups {
    fn get(&mut self, place: u32) -> Option<&mut Group> {
        self.list.get_mut(place as usize)?.as_mut()
    }

    fn at(&mut self, group: GroupId) -> &mut Group {
        self.get(group.0).expect("a group that was opened and not left")
    }

    /// Whether a sleeper would miss what it has to do: nothing wakes it then.
    pub(crate) fn are_silent(&self) -> bool {
        self.active || !self.tell.is_empty()
    }

    /// Whether something has ended that the engine has not heard of.
    pub(crate) fn have_news(&self) -> bool {
        !self.finished.is_empty()
    }

    fn finish(&mut self, token: u64, outcome: Outcome) {
        self.finished.push_back(Finished { token, outcome });
    }
}

impl Ofi {
    /// Goes on with everything in groups. True when something moved.
    pub(crate) fn progress_groups(&mut self) -> bool {
        if !self.groups.active && self.groups.tell.is_empty() {
            return false;
        }
        let mut moved = self.tell_members();
        let mut active = false;
        for place in 0..self.groups.list.len() as u32 {
            moved |= self.go_on_in(place);
            active |= self.groups.get(place).is_some_and(|group| group.waits() || group.left.is_some());
        }
        self.groups.active = active;
        moved
    }

    fn go_on_in(&mut self, place: u32) -> bool {
        let Some(group) = self.groups.get(place) else { return false };
        match group.state {
            State::Joining(mut patience) => {
                let is_over = patience.is_over(JOINING);
                group.state = State::Joining(patience);
                self.slots.poll_group(place);
                let joined = match self.slots.has_joined(place) {
                    Joining::Waiting if !is_over => return false,
                    Joining::Waiting => Joining::Failed(format!("not all have joined in {JOINING:?}")),
                    other => other,
                };
                match joined {
                    Joining::Failed(why) => self.end_group(place, End::Failed(why), true),
                    _ => self.groups.get(place).expect("just seen").state = State::Joined,
                }
                true
            }
            State::Joined => self.look_in(place) | self.run_in(place) | self.close_left(place),
            State::Opened | State::Ended(_) => self.close_left(place),
        }
    }

    /// Makes the calls that can be made now. True when something moved.
    fn run_in(&mut self, place: u32) -> bool {
        let mut moved = false;
        loop {
            let group = self.groups.get(place).expect("the caller has looked");
            if let Some(running) = &mut group.running {
                if let Some((patience, number)) = &mut running.failed {
                    if !patience.is_over(NEWS) {
                        return moved;
                    }
                    let number = *number;
                    let why = self.slots.device_ref().reason(number);
                    let why = format!("the provider failed a collective that was handed to it: {why}");
                    self.end_group(place, End::Failed(why), true);
                    return true;
                }
                if running.begun {
                    return moved;
                }
                let stage = running.stage;
                let begun = self.slots.begin_in_group(place, stage);
                let group = self.groups.get(place).expect("it was there");
                let running = group.running.as_mut().expect("it was there");
                match begun {
                    Ok(()) => running.begun = true,
                    Err(Denied::Again) => return moved,
                    Err(Denied::Failed(number)) => {
                        running.failed = Some((Patience::begin(), number));
                        // As when it fails later.
                        self.suspect(place);
                    }
                }
                moved = true;
            } else {
                let Some((program, token)) = group.queue.front().cloned() else { return moved };
                if let Err(error) = self.prepare(place, program, token) {
                    // Memory that cannot be had for a moment may be had later.
                    let group = self.groups.get(place).expect("it was there");
                    if !group.starved.get_or_insert_with(Patience::begin).is_over(NEWS) {
                        return moved;
                    }
                    self.end_group(place, End::Failed(error.text().to_owned()), true);
                    return true;
                }
                moved = true;
            }
        }
    }

    /// Makes the next program the one that runs, with its operand in the group's room.
    fn prepare(&mut self, place: u32, program: Arc<Program>, token: u64) -> Result<()> {
        let outline = program.outline;
        let abilities = self.slots.device_ref().abilities();
        let Stages { first, then } =
            abilities.and_then(|abilities| abilities.stages(&outline).ok()).expect("`can_run` said so");
        let whole = program.whole.expect("a program of a group names it");
        let room = [Some(first), then].into_iter().flatten().map(|stage| match stage {
            Stage::Broadcast { bytes, .. } => bytes,
            _ => outline.bytes,
        });
        let room = room.max().unwrap_or(0) as usize;
        // A barrier touches nothing, but there is always room.
        let is_barrier = matches!(outline.collective, Collective::Barrier);
        self.slots.make_room(place, if is_barrier { 0 } else { room })?;
        let group = self.groups.get(place).expect("the caller has looked");
        group.queue.pop_front();
        (group.waits_since, group.starved) = (clock::now(), None);
        group.running = Some(Running { program, token, stage: first, then, begun: false, failed: None });
        if is_barrier {
            return Ok(());
        }
        let half = if matches!(first, Stage::Broadcast { .. }) { Half::Result } else { Half::Operand };
        self.slots.bring(place, half, whole.operand);
        Ok(())
    }

    /// Lets the provider work on the call under way. True when it has ended.
    fn look_in(&mut self, place: u32) -> bool {
        let waits = |running: &Running| running.begun && running.failed.is_none();
        let under_way = self.groups.get(place).and_then(|group| group.running.as_ref()).is_some_and(waits);
        match if under_way { self.slots.poll_group(place) } else { None } {
            Some(error) => {
                self.ended_in_group(place, error);
                true
            }
            None => false,
        }
    }

    /// A call in a group has ended.
    fn ended_in_group(&mut self, place: u32, error: i64) {
        let Some(group) = self.groups.get(place) else { return };
        let Some(running) = &mut group.running else { return };
        if error != 0 {
            running.failed = Some((Patience::begin(), error));
            self.suspect(place);
            return;
        }
        if let Some(then) = running.then.take() {
            (running.stage, running.begun) = (then, false);
        } else {
            let running = group.running.take().expect("just seen");
            self.slots.fetch(place, running.whole().result);
            self.slots.trim_room(place);
            self.groups.finish(running.token, Outcome::Done);
        }
    }

    /// Ends a group with all that is under way in it; the others are told where they do not know.
    fn end_group(&mut self, place: u32, end: End, tell: bool) {
        let group = self.groups.get(place).expect("the caller has looked");
        if matches!(group.state, State::Ended(_)) {
            return;
        }
        let running = group.running.take().map(|running| running.token);
        let waiting = std::mem::take(&mut group.queue);
        group.state = State::Ended(end.clone());
        let (name, members) = (group.name, group.members.clone());
        self.slots.close_group(place);
        for token in running.into_iter().chain(waiting.into_iter().map(|(_, token)| token)) {
            self.groups.finish(token, end.outcome());
        }
        if tell {
            let (me, now) = (self.me, clock::now());
            let (what, number) = match end {
                End::Lost(peer) => (What::Lost, peer.0),
                End::Failed(_) => (What::Broken, name),
            };
            let others = members.into_iter().filter(|&peer| peer != me && End::is_not(&end, peer));
            self.groups.tell.extend(others.map(|peer| (peer, what, number, now)));
        }
        self.groups.active = true;
    }

    /// A process is gone: the groups that it was in end. With `found`, the others may not know yet; whoever watches it tells
    /// them in any case.
    pub(crate) fn lost_in_groups(&mut self, lost: PeerId, found: bool) {
        let me = self.me;
        for place in 0..self.groups.list.len() as u32 {
            let Some(group) = self.groups.get(place) else { continue };
            if let Some(rank) = group.members.iter().position(|&peer| peer == lost) {
                let watched = group.after(me, group.watched.max(1)).any(|peer| peer == group.members[rank]);
                self.end_group(place, End::Lost(lost), found || watched);
            }
        }
    }

    /// A member says that the provider has failed a group there.
    pub(crate) fn broken_elsewhere(&mut self, member: PeerId, name: u32) {
        let mut is_known = false;
        for place in 0..self.groups.list.len() as u32 {
            let concerned = self
                .groups
                .get(place)
                .is_some_and(|group| group.name == name && group.members.contains(&member));
            if concerned {
                is_known = true;
                self.end_group(place, End::elsewhere(member), false);
            }
        }
        if !is_known {
            let now = clock::now();
            let fresh =
                |&(.., since): &(PeerId, u32, Instant)| now.saturating_duration_since(since) < JOINING;
            self.groups.failed_early.retain(fresh);
            self.groups.failed_early.push((member, name, now));
        }
    }

    /// Tells members of ended groups what they must know. True when somebody was told.
    fn tell_members(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..self.groups.tell.len() {
            let Some(news) = self.groups.tell.pop_front() else { break };
            let (peer, what, number, _) = news;
            let Ok(at) = self.introduce(peer) else {
                self.groups.unfound.push(news);
                continue;
            };
            if self.peers[at as usize].gone {
                continue;
            }
            if self.say(at, self.prefix(at, what), Some(PeerId(number))) {
                moved = true;
            } else {
                self.groups.tell.push_back(news);
            }
        }
        moved
    }

    /// Closes a group that was left long enough ago.
    fn close_left(&mut self, place: u32) -> bool {
        let Some(group) = self.groups.get(place) else { return false };
        let over = group.running.is_none() && group.queue.is_empty();
        let unused = !matches!(group.state, State::Joined);
        if !(over && group.left.is_some_and(|since| unused || clock::since(since) >= LINGER)) {
            return false;
        }
        self.groups.list[place as usize] = None;
        self.slots.release_group(place);
        true
    }

    /// Looks after the next members, so many, while something is under way.
    fn watch(&mut self, place: u32, count: u32) {
        let me = self.me;
        let group = self.groups.get(place).expect("the caller has looked");
        let more: Vec<PeerId> = group.after(me, count).skip(group.watched as usize).collect();
        for next in more {
            // Who cannot be found now is looked for when more are watched.
            let Ok(number) = self.introduce(next) else { return };
            // The first word makes this process known there, too: otherwise its end would be told to others only, and taken for
            // a loss here.
            self.news_are_due(number);
            self.groups.get(place).expect("it was there").watched += 1;
        }
    }

    /// Perhaps a member is gone: the questions find out who.
    fn suspect(&mut self, place: u32) {
        self.watch(place, u32::MAX);
        self.doubt_everybody();
    }

    /// What has been under way for long has more members watched.
    pub(crate) fn watch_more(&mut self, now: Instant) {
        // Those who could not be found are looked for again.
        let fresh = |&(.., since): &News| now.saturating_duration_since(since) < JOINING;
        let unfound = std::mem::take(&mut self.groups.unfound);
        self.groups.tell.extend(unfound.into_iter().filter(fresh));
        for place in 0..self.groups.list.len() as u32 {
            let Some(group) = self.groups.list[place as usize].as_ref() else { continue };
            if group.waits() && now.saturating_duration_since(group.waits_since) >= JOINING {
                // Who has ended MPI has done his part before, or could not say that he has not.
                let is_over = |id: &&PeerId| {
                    let peer = self.numbers.get(&id.0).map(|&number| &self.peers[number as usize]);
                    peer.is_some_and(|peer| peer.gone || peer.resting)
                };
                if let Some(ended) = group.members.iter().find(is_over) {
                    let why =
                        format!("process {} has ended MPI, and a collective with it does not end", ended.0);
                    self.end_group(place, End::Failed(why), true);
                    continue;
                }
            }
            let Some(group) = self.groups.get(place) else { continue };
            let all = group.watched as usize + 1 >= group.members.len();
            if group.waits() && !all && now.saturating_duration_since(group.waits_since) >= LONG {
                group.waits_since = now;
                let count = group.watched.saturating_mul(2).max(1);
                self.watch(place, count);
            }
        }
    }

    /// Everybody is asked soon whether he is there.
    pub(crate) fn doubt_everybody(&mut self) {
        let now = clock::now();
        let long_ago = now.checked_sub(crate::contact::SILENCE).unwrap_or(now);
        for peer in self.peers.iter_mut().filter(|peer| !peer.gone) {
            (peer.ask_at, peer.heard, peer.suspected) = (now, long_ago, true);
        }
        self.next_round = now;
    }
}

impl End {
    /// It has failed at another member.
    fn elsewhere(member: PeerId) -> End {
        End::Failed(format!(
            "the provider failed a group, or a collective that was handed to it, at process {}",
            member.0
        ))
    }

    fn is_not(end: &End, peer: PeerId) -> bool {
        !matches!(end, End::Lost(lost) if *lost == peer)
    }
}

impl Offload for Ofi {
    fn can_run(
        &self,
        outline: &Outline,
        group: Option<GroupId>,
        _member: &dyn Fn(u32) -> PeerId,
    ) -> std::result::Result<(), Refusal> {
        let abilities = self.slots.device_ref().abilities().ok_or(Refusal::NoEngine)?;
        // A group that has ended is still the group: what is handed over in it ends with the reason.
        group.ok_or(Refusal::NoGroup)?;
        abilities.stages(outline).map(drop)
    }

    fn hand_over(&mut self, program: &Arc<Program>, token: u64) {
        let whole = program.whole.expect("a program of a group names it");
        let group = self.groups.at(whole.group);
        if let State::Ended(end) = &group.state {
            let outcome = end.outcome();
            return self.groups.finish(token, outcome);
        }
        group.queue.push_back((Arc::clone(program), token));
        self.groups.active = true;
        self.go_on();
        self.watch(whole.group.0, 1);
        self.run_in(whole.group.0);
    }

    fn finished(&mut self) -> Option<Finished> {
        self.groups.finished.pop_front()
    }

    fn give_up_on(&mut self, peer: PeerId) {
        self.lost_in_groups(peer, false);
    }

    fn offers_groups(&self, members: u32) -> Option<u64> {
        let device = self.slots.device_ref();
        let abilities = device.abilities().filter(|abilities| abilities.allows(members))?;
        let room = self.groups.list.iter().flatten().count() < MOST_GROUPS;
        room.then(|| abilities.digest(&device.offer().provider))
    }

    fn open_group(&mut self, members: u32) -> Result<(GroupId, Vec<u8>)> {
        let (place, name) = self.slots.open_group(members as usize)?;
        if name.len() > CARD {
            self.slots.release_group(place);
            return Err(Error::new(
                ErrorClass::OTHER,
                format!("an address of {} bytes is too long for a card of {CARD}", name.len()),
            ));
        }
        let list = &mut self.groups.list;
        if list.len() <= place as usize {
            list.resize_with(place as usize + 1, || None);
        }
        list[place as usize] = Some(Group {
            name: 0,
            members: Vec::new(),
            state: State::Opened,
            queue: VecDeque::new(),
            running: None,
            watched: 0,
            waits_since: clock::now(),
            starved: None,
            left: None,
        });
        Ok((GroupId(place), name))
    }

    fn join_group(&mut self, group: GroupId, name: u32, members: &[PeerId], cards: &[&[u8]]) -> Result<()> {
        let joins = self.slots.join_group(group.0, cards);
        let of = self.groups.at(group);
        (of.name, of.members) = (name, members.to_vec());
        if let Err(error) = joins {
            // Otherwise the others would wait as long as it may take.
            self.end_group(group.0, End::Failed(error.text().to_owned()), true);
            return Err(error);
        }
        of.waits_since = clock::now();
        of.state = State::Joining(Patience::begin());
        self.groups.active = true;
        self.next_round = self.next_round.min(clock::now() + STUCK / 2);
        self.watch(group.0, 1);
        // Who was lost before is told of no more.
        let is_gone = |id: &&PeerId| {
            let number = self.numbers.get(&id.0);
            number.is_some_and(|&number| self.peers[number as usize].gone)
        };
        if let Some(&gone) = members.iter().find(is_gone) {
            self.end_group(group.0, End::Lost(gone), true);
        }
        let is_of = |&(member, of, _): &(PeerId, u32, Instant)| of == name && members.contains(&member);
        let failed: Vec<_> = self.groups.failed_early.extract_if(.., |early| is_of(early)).collect();
        if let Some(&(member, ..)) = failed.first() {
            self.end_group(group.0, End::elsewhere(member), false);
        }
        Ok(())
    }

    fn joined(&mut self, group: GroupId) -> Joining {
        match &self.groups.at(group).state {
            State::Opened | State::Joining(_) => Joining::Waiting,
            State::Joined => Joining::Joined,
            State::Ended(End::Failed(why)) => Joining::Failed(why.clone()),
            State::Ended(End::Lost(peer)) => Joining::Failed(format!("process {} is gone", peer.0)),
        }
    }

    fn leave_group(&mut self, group: GroupId) {
        self.groups.at(group).left = Some(clock::now());
        self.groups.active = true;
    }
}
