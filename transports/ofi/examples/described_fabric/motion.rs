//! What moves when somebody looks: messages from queue to queue, remote memory, connections.

use crate::groups;
use crate::profiles::PROFILES;
use crate::world::{Arrival, Entry, Local, Operation, Place, Receive, Remote, Work, World, misuse};
use std::collections::VecDeque;
use weft_ofi::sys::*;

/// Operations that leave, and things that are taken, in one look.
const AT_ONCE: usize = 8;
/// What is not the program's, and not null.
const FOREIGN: usize = 0xf0f0_f0f0;

/// Whether a look at a queue would do anything.
pub(crate) fn has_work(world: &World, queue: usize) -> bool {
    let queue = &world.queues[&queue];
    let busy = |at: &usize| {
        let end = &world.ends[at];
        !end.inbox.is_empty() || !end.sends.is_empty() || end.callers.values().any(|&looks| looks > 0)
    };
    !(queue.entries.is_empty() && queue.held.is_empty()) || queue.ends.iter().any(busy)
}

/// Whether an end may send to another one. If not, the connection is being made from now on: the other end must look.
pub(crate) fn is_connected(world: &mut World, from: usize, to: u64) -> bool {
    let looks = world.profile(from).connects;
    let own = world.ends[&from].number;
    // Whoever is not there any more is found out by what is sent.
    let Some(&target) = world.numbers.get(&to) else { return true };
    let end = world.ends.get_mut(&target).expect("an open end");
    let left = *end.callers.entry(own).or_insert(looks);
    let queue = end.queue;
    if left > 0 {
        world.ring(queue);
    }
    left == 0
}

/// Everything that the ends of a queue do when it is looked at.
pub(crate) fn look(world: &mut World, queue: usize) {
    world.show_held(queue);
    if world.queues[&queue].ends.iter().any(|at| world.ends[at].door.is_some()) {
        answer_at_the_doors(world, queue);
    }
    for at in world.queues[&queue].ends.clone() {
        let end = world.ends.get_mut(&at).expect("it is bound to the queue");
        end.callers.values_mut().for_each(|looks| *looks = looks.saturating_sub(1));
        end.sends.iter_mut().for_each(|operation| operation.late = operation.late.saturating_sub(1));
        leave(world, at);
        arrive(world, at);
        groups::advance(world, at);
    }
}

/// Whoever knocks need not wait: now and then the list of those who have is emptied.
fn answer_at_the_doors(world: &mut World, queue: usize) {
    let queue = world.queues.get_mut(&queue).expect("an open queue");
    queue.looks += 1;
    if queue.looks.is_multiple_of(64) {
        let doors = queue.ends.iter().filter_map(|at| world.ends[at].door.as_ref());
        doors.for_each(|door| while door.accept().is_ok() {});
    }
}

/// What is due leaves: in order, or each when it is due.
pub(crate) fn leave(world: &mut World, at: usize) {
    for _ in 0..AT_ONCE {
        let end = world.ends.get_mut(&at).expect("an open end");
        let due = end.sends.iter().position(|operation| operation.late == 0);
        let Some(due) = due.filter(|&due| due == 0 || !PROFILES[end.profile].ordered) else { return };
        let operation = end.sends.remove(due).expect("it is there");
        if due > 0 {
            let profile = end.profile;
            world.note(profile, "reordered");
        }
        go(world, at, operation);
    }
}

fn go(world: &mut World, at: usize, operation: Operation) {
    let profile = world.profile(at);
    operation.work.locals().into_iter().for_each(|local| world.check(at, local));
    let Some(&target) = world.numbers.get(&operation.to) else {
        if profile.deaf {
            world.note(world.ends[&at].profile, "orphans");
            return world.orphans.push((at, operation));
        }
        let error = world.nobody();
        return finish(world, at, &operation, error);
    };
    let place = world.ends[&at].profile;
    if world.breaks(place, world.faults.broken) {
        let error = world.nobody();
        return finish(world, at, &operation, error);
    }
    let is_message = matches!(operation.work, Work::Message { .. } | Work::Copied { .. });
    if is_message && world.breaks(place, world.faults.vanished) {
        return finish(world, at, &operation, 0);
    }
    let message = match &operation.work {
        Work::Message { from, tag } => Some((bytes_of(*from), *tag)),
        Work::Copied { bytes, tag } => Some((bytes.clone(), *tag)),
        _ => None,
    };
    let queue = world.ends[&target].queue;
    match message {
        Some((bytes, tag)) => {
            let inbox = &mut world.ends.get_mut(&target).expect("an open end").inbox;
            inbox.push_back(Arrival::Message { bytes, tag });
            finish(world, at, &operation, 0);
        }
        None if profile.software => {
            let inbox = &mut world.ends.get_mut(&target).expect("an open end").inbox;
            inbox.push_back(Arrival::Request { from: at, operation });
        }
        None => {
            let error = execute(world, target, &operation.work);
            finish(world, at, &operation, error);
        }
    }
    world.ring(queue);
}

/// What has come is taken: in order, or as it happens. A message without a receive waits.
fn arrive(world: &mut World, at: usize) {
    for _ in 0..AT_ONCE {
        let end = &world.ends[&at];
        let (waiting, profile) = (end.inbox.len(), end.profile);
        if waiting == 0 {
            return;
        }
        let pick = if PROFILES[profile].ordered { 0 } else { world.below(waiting) };
        if pick > 0 {
            world.note(profile, "reordered");
        }
        let end = world.ends.get_mut(&at).expect("an open end");
        let arrival = end.inbox.remove(pick).expect("it is there");
        match arrival {
            Arrival::Request { from, operation } if world.ends.contains_key(&from) => {
                operation.work.locals().into_iter().for_each(|local| world.check(from, local));
                let error = execute(world, at, &operation.work);
                finish(world, from, &operation, error);
            }
            // Whoever wanted it is gone, with the memory.
            Arrival::Request { .. } => {}
            Arrival::Message { bytes, tag } => {
                let end = world.ends.get_mut(&at).expect("an open end");
                let place = end.receives.iter().position(|receive| receive.tag == tag);
                let Some(Receive { context, room, .. }) = place.and_then(|place| end.receives.remove(place))
                else {
                    end.inbox.insert(pick, Arrival::Message { bytes, tag });
                    return;
                };
                if bytes.len() > room.bytes {
                    misuse(format!("a message of {} bytes meets a receive of {}", bytes.len(), room.bytes));
                }
                world.check(at, room);
                put(room.at, &bytes);
                world.give_up(context);
                tell(world, Entry { context, bytes: bytes.len(), error: 0, end: at, place: Place::Receives });
            }
        }
    }
}

pub(crate) fn tell(world: &mut World, entry: Entry) {
    let queue = world.ends[&entry.end].queue.expect("an enabled endpoint has one");
    let looks = world.delay(world.faults.held);
    if looks > 0 {
        let held = &mut world.queues.get_mut(&queue).expect("it is open as long as the endpoint").held;
        held.push((looks, entry));
        world.note(world.ends[&entry.end].profile, "held");
    } else {
        world.show(queue, entry);
    }
    let entries = &world.queues[&queue];
    if entries.entries.len() + entries.held.len() > entries.size {
        misuse("a completion queue runs over");
    }
    world.ring(Some(queue));
}

/// An operation has ended.
fn finish(world: &mut World, at: usize, operation: &Operation, error: i32) {
    if error != 0 {
        world.note(world.ends[&at].profile, "failed");
    }
    let Operation { mut context, .. } = *operation;
    let mut place = Place::Sends;
    if matches!(operation.work, Work::Copied { .. }) {
        world.ends.get_mut(&at).expect("an open end").sending -= 1;
        if error == 0 {
            return;
        }
        context = if world.profile(at).foreign { FOREIGN } else { 0 };
        place = Place::Nowhere;
    } else {
        world.give_up(context);
    }
    tell(world, Entry { context, bytes: 0, error, end: at, place });
}

/// An end was closed with this in its inbox. Whoever made a request is told that it failed, or never.
pub(crate) fn leave_behind(world: &mut World, number: u64, inbox: VecDeque<Arrival>) {
    for arrival in inbox {
        let Arrival::Request { from, operation } = arrival else { continue };
        debug_assert_eq!(operation.to, number);
        if !world.ends.contains_key(&from) {
            continue;
        }
        if world.profile(from).silent {
            world.note(world.ends[&from].profile, "orphans");
            world.orphans.push((from, operation));
        } else {
            let error = world.nobody();
            finish(world, from, &operation, error);
        }
    }
}

/// Nothing is under way any more to an address that was taken out of a vector.
pub(crate) fn cancel(world: &mut World, vector: usize, number: u64) {
    let of_vector: Vec<usize> =
        world.ends.iter().filter(|(_, end)| end.vector == Some(vector)).map(|(&at, _)| at).collect();
    for at in of_vector {
        let sends = std::mem::take(&mut world.ends.get_mut(&at).expect("an open end").sends);
        let (gone, stay): (Vec<_>, Vec<_>) = sends.into_iter().partition(|operation| operation.to == number);
        world.ends.get_mut(&at).expect("an open end").sends = stay.into();
        gone.iter().for_each(|operation| finish(world, at, operation, FI_ECANCELED));
        let orphans = std::mem::take(&mut world.orphans);
        for (from, operation) in orphans {
            if from == at && operation.to == number {
                finish(world, at, &operation, FI_ECANCELED);
            } else {
                world.orphans.push((from, operation));
            }
        }
        let Some(&target) = world.numbers.get(&number) else { continue };
        let inbox = std::mem::take(&mut world.ends.get_mut(&target).expect("an open end").inbox);
        for arrival in inbox {
            match arrival {
                Arrival::Request { from, operation } if from == at => {
                    finish(world, at, &operation, FI_ECANCELED);
                }
                arrival => world.ends.get_mut(&target).expect("an open end").inbox.push_back(arrival),
            }
        }
    }
}

/// Does to the memory of an end what another one wants. The error number, or 0.
fn execute(world: &mut World, target: usize, work: &Work) -> i32 {
    let found = match work {
        Work::Read(parts) => parts.iter().try_for_each(|&(room, there)| {
            let from = find(world, target, there, room.bytes, FI_REMOTE_READ)?;
            put(room.at, &bytes_of(Local { at: from, ..room }));
            Ok(())
        }),
        Work::Write(parts) => parts.iter().try_for_each(|&(source, there)| {
            let to = find(world, target, there, source.bytes, FI_REMOTE_WRITE)?;
            put(to, &bytes_of(source));
            Ok(())
        }),
        Work::Atomic { operand, compared, found, at } => {
            let rights = FI_REMOTE_READ | FI_REMOTE_WRITE;
            find(world, target, *at, 8, rights).map(|there| {
                let number = |at| u64::from_ne_bytes(bytes_of(at).try_into().expect("eight bytes"));
                let old = number(Local { at: there, ..*operand });
                let new = match compared {
                    None => old.wrapping_add(number(*operand)),
                    Some(compared) if number(*compared) == old => number(*operand),
                    Some(_) => old,
                };
                put(there, &new.to_ne_bytes());
                put(found.at, &old.to_ne_bytes());
            })
        }
        Work::Message { .. } | Work::Copied { .. } => unreachable!("messages are no requests"),
    };
    found.err().unwrap_or(0)
}

/// Where the memory is that a key and an address name.
fn find(world: &World, target: usize, there: Remote, bytes: usize, rights: u64) -> Result<usize, i32> {
    let profile = world.profile(target);
    let domain = world.ends[&target].domain;
    let region = world.regions.values().find(|region| region.domain == domain && region.key == there.key);
    let region = region.ok_or(libc::EACCES)?;
    world.check_enabled(profile, region);
    let bound = profile.mr_mode & FI_MR_ENDPOINT != 0;
    if bound && region.endpoint != Some(target) || region.rights & rights != rights {
        return Err(libc::EACCES);
    }
    let start = if profile.mr_mode & FI_MR_VIRT_ADDR != 0 { region.start as u64 } else { 0 };
    let offset = there.address.checked_sub(start).ok_or(libc::EACCES)? as usize;
    if offset.checked_add(bytes).is_none_or(|end| end > region.bytes) {
        return Err(libc::EACCES);
    }
    Ok(region.start + offset)
}

pub(crate) fn bytes_of(local: Local) -> Vec<u8> {
    // SAFETY: memory of an operation or a region, which the program leaves there as long as they are open.
    unsafe { std::slice::from_raw_parts(local.at as *const u8, local.bytes) }.to_vec()
}

pub(crate) fn put(at: usize, bytes: &[u8]) {
    // SAFETY: as in `bytes_of`; there are so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
}
