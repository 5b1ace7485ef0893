//! What a simulated process consists of, and who runs next in it.

use std::collections::{BTreeMap, HashSet, VecDeque};

use weft_types::Handle;

/// What comes in a lane.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packet {
    /// It ends a request of this lane.
    Ends(Handle),
    /// Whoever takes it answers, and then the other side ends a request of another lane.
    Asks(u32, Handle),
    /// Nobody waits for it; it comes again and again as long as a request is asked for.
    Noise,
}

#[derive(Default)]
pub(super) struct Lane {
    pub(super) holder: Option<usize>,
    pub(super) queue: VecDeque<Packet>,
    pub(super) ended: HashSet<Handle>,
    pub(super) marked: HashSet<Handle>,
    pub(super) ended_watched: bool,
    pub(super) watchers: u32,
    pub(super) followers: u32,
    pub(super) attendants: u32,
    pub(super) calls: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Ready,
    /// For the lock of a lane.
    Awaits(u32),
    /// Until it is rung; or, if it leaves lanes to others, until nothing else happens.
    Asleep {
        leaves: bool,
    },
    /// Until what another thread says first.
    Held,
    /// Outside MPI, until somebody who blocks has taken the question of this request, or nobody blocks.
    Outside(Handle),
    Done,
}

pub(super) struct Thread {
    pub(super) state: State,
    /// The lane and the request that its call waits for.
    pub(super) awaits: Option<(u32, Handle)>,
    /// It is about to arm its bell.
    pub(super) arming: bool,
    /// The lanes that its bell is armed in, until it is rung.
    pub(super) armed: u32,
    pub(super) rung: bool,
}

pub(super) struct World {
    pub(super) random: u64,
    pub(super) running: usize,
    pub(super) threads: Vec<Thread>,
    pub(super) lanes: Vec<Lane>,
    /// What is on its way: steps until it is there, lane, packet.
    pub(super) flights: Vec<(u32, u32, Packet)>,
    /// Requests that were asked for and are not answered yet.
    pub(super) asked: HashSet<Handle>,
    /// Noise comes in this lane until that request is answered.
    pub(super) noise: Option<(u32, Handle)>,
    /// Threads that have given a lock back and are about to ring.
    pub(super) ringing: u32,
    /// What another thread of the program will end, with a lock.
    pub(super) locals: Vec<(u32, Handle)>,
    pub(super) locks: bool,
    /// Who has the process without a lock.
    pub(super) inside: bool,
    pub(super) next: u32,
    /// How seldom the others do something.
    pub(super) pace: u32,
    /// For how many steps a thread runs before another one does, on average.
    pub(super) run: u32,
    pub(super) steps: u32,
    /// Nobody can run, or nothing comes of it.
    pub(super) lost: Option<&'static str>,
    pub(super) met: BTreeMap<&'static str, u64>,
}

/// A thread that ends because the program is lost.
pub(super) struct Lost;

impl World {
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % u64::from(bound.max(1))) as u32
    }

    pub(super) fn met(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    /// Who runs next; `None`: nobody is left.
    pub(super) fn choose(&mut self) -> Option<usize> {
        self.steps += 1;
        if self.steps > 400_000 {
            self.lost = self.lost.or(Some("nothing comes of it"));
        }
        if self.lost.is_some() {
            // Everybody ends.
            return (0..self.threads.len()).find(|&at| self.threads[at].state != State::Done);
        }
        loop {
            let ready: Vec<usize> = (0..self.threads.len()).filter(|&at| self.can_run(at)).collect();
            if !ready.is_empty() {
                if ready.contains(&self.running) && self.below(self.run) != 0 {
                    return Some(self.running);
                }
                // The others take their time, so that threads get to sleep.
                let others = usize::from(ready.last() == Some(&(self.threads.len() - 1)));
                let among = &ready[..ready.len() - others];
                let ready = if among.is_empty() || self.below(self.pace) == 0 { &ready[..] } else { among };
                let at = ready[self.below(ready.len() as u32) as usize];
                return Some(at);
            }
            if self.threads.iter().all(|thread| thread.state == State::Done) {
                return None;
            }
            self.take_over();
            if self.lost.is_some() {
                return self.choose();
            }
        }
    }

    pub(super) fn can_run(&self, at: usize) -> bool {
        match self.threads[at].state {
            State::Ready => true,
            State::Awaits(lane) => self.lanes[lane as usize].holder.is_none(),
            State::Outside(request) => {
                !self.asked.contains(&request) || self.threads.iter().all(|thread| thread.awaits.is_none())
            }
            _ => false,
        }
    }

    /// Nobody can run: time goes on until somebody wakes who leaves lanes to others. What he himself waits for he has left to nobody.
    pub(super) fn take_over(&mut self) {
        let is_here = |thread: &Thread| {
            thread.awaits.is_some_and(|(lane, request)| {
                let lane = &self.lanes[lane as usize];
                let ends = |packet: &Packet| matches!(packet, Packet::Ends(ended) if *ended == request);
                lane.ended.contains(&request) || lane.queue.iter().any(ends)
            })
        };
        let asleep = |thread: &Thread| matches!(thread.state, State::Asleep { .. });
        if self.threads.iter().any(|thread| asleep(thread) && is_here(thread)) {
            self.lost = Some("somebody sleeps, and what he waits for is here");
            return;
        }
        let leaving = |at: &usize| self.threads[*at].state == State::Asleep { leaves: true };
        let leaving: Vec<usize> = (0..self.threads.len()).filter(leaving).collect();
        if leaving.is_empty() {
            self.lost = Some("everybody sleeps, and nobody will be woken");
            return;
        }
        let at = leaving[self.below(leaving.len() as u32) as usize];
        self.threads[at].state = State::Ready;
        self.met("takes over");
    }

    /// Whoever gives a lock back has rung by now for what ended under it.
    pub(super) fn look_for_forgotten(&mut self) {
        let ended = |(lane, request): (u32, Handle)| {
            let lane = &self.lanes[lane as usize];
            lane.holder.is_none() && lane.ended.contains(&request)
        };
        let asleep = |thread: &Thread| matches!(thread.state, State::Asleep { .. });
        let mut threads = self.threads.iter();
        if self.ringing == 0 && threads.any(|thread| asleep(thread) && thread.awaits.is_some_and(ended)) {
            self.lost = self.lost.or(Some("somebody sleeps, and what he waits for has ended"));
        }
    }

    /// Whether a thread is outside MPI until it is answered.
    pub(super) fn is_anyone_outside(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread.state, State::Outside(_)))
    }

    /// Why the world is not as it was before all calls, once they are over.
    pub(super) fn leftovers(&self) -> Option<&'static str> {
        let lanes = || self.lanes.iter();
        if self.threads.iter().any(|thread| thread.armed != 0) {
            Some("a bell stays armed that nobody sleeps on")
        } else if lanes().any(|lane| lane.watchers + lane.followers != 0) {
            Some("a call that is over stays among those who watch or follow")
        } else if lanes().any(|lane| lane.attendants != 0) {
            Some("a call that is over stays among those who attend a lane")
        } else {
            None
        }
    }

    pub(super) fn ring(&mut self, lane: u32) {
        for thread in &mut self.threads {
            if thread.armed >> lane & 1 != 0 {
                (thread.armed, thread.rung) = (0, true);
                if matches!(thread.state, State::Asleep { .. }) {
                    thread.state = State::Ready;
                }
            }
        }
    }

    pub(super) fn is_anyone_armed(&self, lane: u32) -> bool {
        self.threads.iter().any(|thread| thread.armed >> lane & 1 != 0)
    }

    pub(super) fn end(&mut self, lane: u32, request: Handle) {
        let lane = &mut self.lanes[lane as usize];
        lane.ended.insert(request);
        lane.ended_watched |= lane.marked.remove(&request);
    }
}
