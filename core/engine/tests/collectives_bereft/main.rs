//! A process dies in the middle of a program of collectives on several communicators, nonblocking and persistent ones, and the
//! survivors go on as they like: each skips some, all or none of the later calls on communicators that had the dead one, and
//! ends. Whatever a survivor has begun ends: with the error of the loss where the dead one was a member, well where it was not.
//! Here all are told of the death, as MPI's launcher does; `collectives_deaths.rs` has worlds in which only partners hear of
//! it.
//!
//! `WEFT_SEED=n` replays one seed; `WEFT_SEEDS=n` runs that many.

mod partings;
mod program;

use program::{Action, Comm, KINDS, seeds};
use weft_engine::world::World;
use weft_engine::{Engine, KeptRun, RequestId};
use weft_sim::Random;
use weft_types::{ContextId, ErrorClass, Farewell};

/// The program, which process dies, and how eager its survivors are to give up.
#[derive(Debug)]
struct Plan {
    comms: Vec<Comm>,
    actions: Vec<Action>,
    dies: u32,
    /// Calls under way at a time.
    window: usize,
}

impl Plan {
    fn new(random: &mut Random, size: u32) -> Plan {
        let dies = random.below(u64::from(size)) as u32;
        let mut comms = vec![Comm { context: ContextId::WORLD.collective(), members: (0..size).collect() }];
        for context in [8, 16, 24] {
            let mut members: Vec<u32> = (0..size).filter(|_| random.below(3) > 0).collect();
            if random.below(3) == 0 {
                members.retain(|&member| member != dies);
            }
            if members.len() > 1 {
                comms.push(Comm { context: ContextId(context).collective(), members });
            }
        }
        let mut actions: Vec<Action> = Vec::new();
        for at in 0..12 + random.below(12) as usize {
            let again = actions.iter().rposition(|action| action.persistent.is_some());
            let action = match again.filter(|_| random.below(3) == 0) {
                Some(first) => actions[first].clone(),
                None => Action {
                    comm: random.below(comms.len() as u64) as usize,
                    kind: random.below(KINDS),
                    count: [0, 1, 50, 3_000, 40_000][random.below(5) as usize],
                    algorithm: random.below(64),
                    persistent: (random.below(3) == 0).then_some(at),
                },
            };
            actions.push(action);
        }
        Plan { comms, actions, dies, window: 1 + random.below(3) as usize }
    }

    fn has_lost(&self, action: &Action) -> bool {
        self.comms[action.comm].members.contains(&self.dies)
    }
}

/// How far one process is.
struct Member {
    me: u32,
    random: Random,
    next: usize,
    under_way: Vec<(usize, RequestId)>,
    kept: Vec<(usize, KeptRun)>,
    failed: bool,
    /// Of 4 calls with the dead one, so many are skipped once one has failed.
    skips: u64,
    /// Looks since the program's end.
    rest: u32,
}

impl Member {
    fn new(me: u32, random: &mut Random) -> Member {
        let own = Random::new(random.below(u64::MAX));
        let skips = [0, 2, 4, 4][random.below(4) as usize];
        Member {
            me,
            random: own,
            next: 0,
            under_way: Vec::new(),
            kept: Vec::new(),
            failed: false,
            skips,
            rest: 0,
        }
    }

    /// Does what can be done now; whether the process has come to its end.
    fn step(&mut self, plan: &Plan, engine: &mut Engine) -> bool {
        self.under_way.retain(|&(at, request)| {
            if !engine.is_complete(request) {
                return true;
            }
            if let Some(error) = engine.take(request).error {
                let what = format!("rank {}, action {at}: {error}", self.me);
                assert!(plan.has_lost(&plan.actions[at]), "{what}");
                assert_eq!(error.class(), ErrorClass::PROC_ABORTED, "{what}");
                self.failed = true;
            }
            false
        });
        while self.next < plan.actions.len() && self.under_way.len() < plan.window {
            let (at, action) = (self.next, &plan.actions[self.next]);
            // A persistent collective is not started again before it is over.
            let same = |&&(other, _): &&(usize, RequestId)| {
                action.persistent.is_some() && plan.actions[other].persistent == action.persistent
            };
            if self.under_way.iter().find(same).is_some() {
                break;
            }
            self.next += 1;
            let comm = &plan.comms[action.comm];
            let Some(rank) = comm.members.iter().position(|&member| member == self.me) else { continue };
            if self.failed && plan.has_lost(action) && self.random.below(4) < self.skips {
                continue;
            }
            let run = match action.persistent {
                None => action.bind(comm, rank as u32, at as u32),
                Some(first) => {
                    let kept = self.kept.iter().find(|kept| kept.0 == first).map(|kept| kept.1.clone());
                    let kept = kept.unwrap_or_else(|| action.bind(comm, rank as u32, first as u32).keep());
                    self.kept.push((first, kept.clone()));
                    kept.run()
                }
            };
            self.under_way.push((at, engine.start_schedule(run).unwrap()));
        }
        if self.next < plan.actions.len() || !self.under_way.is_empty() {
            return false;
        }
        // As MPI_Finalize does: a process that knows of losses need not become quiet.
        if self.rest == 0 && engine.knows_losses() {
            engine.farewell(Farewell { life: 1, world: true });
        }
        self.rest += 1;
        engine.is_quiet() || engine.knows_losses() && self.rest > 5000
    }
}

/// One world; whether the death met anybody in a collective, and whether somebody ended while others had calls with the dead
/// under way.
fn one(seed: u64) -> (bool, bool) {
    let mut random = Random::new(seed);
    let size = 3 + random.below(5) as u32;
    let plan = Plan::new(&mut random, size);
    let mut world = World::new(size).seed(seed).full(0.1).build();
    let mut members: Vec<Member> = (0..size).map(|me| Member::new(me, &mut random)).collect();
    let mut ended = vec![false; size as usize];
    let (death, mut left_alone) = (random.below(150 * u64::from(size)), false);
    for step in 0..1_000_000_u64 {
        if step == death && !ended[plan.dies as usize] {
            world.kill(plan.dies);
        }
        if (0..size).all(|rank| ended[rank as usize] || !world.is_alive(rank)) {
            return (members.iter().any(|member| member.failed), left_alone);
        }
        let rank = random.below(u64::from(size)) as usize;
        // Who has ended does nothing any more.
        if ended[rank] || !world.is_alive(rank as u32) {
            continue;
        }
        world.engines[rank].progress();
        ended[rank] = members[rank].step(&plan, &mut world.engines[rank]);
        if ended[rank] {
            world.fabric().leave(rank as u32);
        }
        let waits = |other: usize| other != rank && !ended[other] && !members[other].under_way.is_empty();
        left_alone |= ended[rank] && members[rank].failed && (0..size as usize).any(waits);
    }
    for member in members.iter().filter(|member| !ended[member.me as usize]) {
        println!("rank {} waits for actions {:?}", member.me, member.under_way);
    }
    panic!("seed {seed} does not come to its end: {ended:?}, {plan:?}");
}

#[test]
fn survivors_end_whatever_they_and_others_go_on_with() {
    let (mut met, mut alone) = (0, 0);
    let seeds = seeds(300);
    let number = seeds.end - seeds.start;
    for seed in seeds {
        let (has_met, was_alone) = one(seed);
        met += u64::from(has_met);
        alone += u64::from(was_alone);
    }
    println!(
        "{met} of {number} deaths met collectives, in {alone} worlds a survivor ended before others had theirs over"
    );
    assert!(
        number < 100 || (met > number / 3 && alone > number / 20),
        "{met} and {alone} of {number} are too few"
    );
}
