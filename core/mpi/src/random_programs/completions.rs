//! Calls that complete several requests in a random program (sections 3.7.5 and 3.7.6): which they take is what the list,
//! walked by the plain rule, says.

use super::{Open, Program, Thread};
use crate::request::{Generalized, Local};
use weft_types::{Handle, HandleKind, abi};

/// What is asked of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Any,
    Some,
    All,
}

/// An element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Null,
    /// An entry of the rank's list, by its number.
    Entry(u64),
    /// One end of a partitioned operation.
    Partitioned(Handle),
}

/// An element as it is now.
#[derive(Clone, Copy)]
struct Now {
    handle: Handle,
    active: bool,
    done: bool,
}

const NULL: Now = Now { handle: Handle(abi::MPI_REQUEST_NULL), active: false, done: true };

impl Program {
    /// A call of a completion family on some of what the rank has, of any lane: it blocks, only tests, or only looks.
    pub(super) fn call_completion(&mut self, rank: usize, thread: usize) {
        let list = self.list(rank);
        let form = [Form::Any, Form::Some, Form::All][self.below(3)];
        match self.below(6) {
            // Most threads shall not be blocked for good.
            0 => self.members[rank].threads[thread] = Thread::Completes(form, list),
            1..4 => drop(self.complete_several(rank, form, &list)),
            _ => drop(self.found(rank, form, &list)),
        }
    }

    /// Requests that nobody else waits for, each once, and null ones.
    fn list(&mut self, rank: usize) -> Vec<Listed> {
        let member = &self.members[rank];
        let waited_for = |listed: &Listed| {
            member.threads.iter().any(|thread| match thread {
                Thread::Waits(key) => *listed == Listed::Entry(*key),
                Thread::Completes(_, list) => list.contains(listed),
                _ => false,
            })
        };
        let entries = member.open.iter().filter(|(_, open)| !matches!(open, Open::Message(..)));
        let entries = entries.map(|(key, _)| Listed::Entry(*key));
        let ends = self.partitioned(rank).into_iter().map(|(handle, _)| Listed::Partitioned(handle));
        let mut all: Vec<Listed> = entries.chain(ends).filter(|listed| !waited_for(listed)).collect();
        // Those of one lane are a list of their own, half of the time.
        if self.below(2) == 0 {
            let lane = 1 + self.below(2) as u32;
            all.retain(|&listed| {
                let handle = self.now_of(rank, listed).handle;
                crate::completion::is_complete_send(handle) || in_lane(handle) == Some(lane)
            });
        }
        let mut list = Vec::new();
        let length = self.below(9);
        while list.len() < length {
            let listed = match self.below(4) {
                0 => Listed::Null,
                _ if all.is_empty() => Listed::Null,
                _ => all.swap_remove(self.below(all.len())),
            };
            list.push(listed);
        }
        list
    }

    /// What an element is now. What another call has completed meanwhile counts as null.
    fn now_of(&self, rank: usize, listed: Listed) -> Now {
        let member = &self.members[rank];
        let (handle, active) = match listed {
            Listed::Null => return NULL,
            Listed::Partitioned(handle) => {
                match self.partitioned(rank).into_iter().find(|(other, _)| *other == handle) {
                    Some(found) => found,
                    None => return NULL,
                }
            }
            Listed::Entry(key) => match member.open.iter().find(|(other, _)| *other == key) {
                None | Some((_, Open::Message(..))) => return NULL,
                Some((_, Open::Port(handle, _, _, at))) => (*handle, at.is_some()),
                Some((_, Open::Generalized(handle, told))) => {
                    return Now { handle: *handle, active: true, done: *told };
                }
                Some((_, Open::Send(handle, ..) | Open::Recv(handle, _) | Open::Flush(handle))) => {
                    (*handle, true)
                }
            },
        };
        Now { handle, active, done: !active || member.process.is_done(handle) }
    }

    /// The indices that a call finds, after it was compared with what the rule says; `None` when it has to wait.
    fn found(&mut self, rank: usize, form: Form, list: &[Listed]) -> Option<Vec<usize>> {
        let now: Vec<Now> = list.iter().map(|&listed| self.now_of(rank, listed)).collect();
        let handles: Vec<Handle> = now.iter().map(|now| now.handle).collect();
        let process = &self.members[rank].process;
        let (requests, engine) = (&process.requests, &process.engine);
        let is_active = |handle: &Handle| requests.is_active(engine, *handle).expect("no stale ones");
        let active = now.iter().filter(|now| now.active).count();
        assert_eq!(
            handles.iter().filter(|handle| is_active(handle)).count(),
            active,
            "active ones of {list:?}"
        );
        let ready: Vec<usize> =
            (0..now.len()).filter(|&index| now[index].active && now[index].done).collect();
        let one_lane = one_lane(&handles);
        let (expected, found) = match (form, one_lane) {
            // MPI_UNDEFINED.
            _ if active == 0 => (Some(Vec::new()), Some(Vec::new())),
            (Form::Any, lane) => {
                let found = match lane {
                    Some(lane) => process.lanes.at(lane).look(|inner| inner.first_ended(&handles)),
                    None => requests.first_done(engine, &handles),
                };
                (ready.first().map(|&first| vec![first]), found.map(|found| vec![found]))
            }
            (Form::Some, lane) => {
                let found = match lane {
                    Some(lane) => process.lanes.at(lane).look(|inner| inner.some_ended(&handles)),
                    None => requests.some_done(engine, &handles),
                };
                ((!ready.is_empty()).then_some(ready), found)
            }
            (Form::All, lane) => {
                let mut from = 0;
                let all = match lane {
                    Some(lane) => process.lanes.at(lane).look(|inner| inner.all_ended(&handles, &mut from)),
                    None => requests.all_done(engine, &handles, &mut from),
                };
                let first = now.iter().position(|now| !now.done);
                assert_eq!(from, first.unwrap_or(now.len()), "how far all of {list:?} are done");
                (first.is_none().then_some(ready.clone()), all.then_some(ready))
            }
        };
        assert_eq!(found, expected, "rank {rank}: {form:?} of {list:?}");
        let lanes: std::collections::BTreeSet<_> =
            handles.iter().filter_map(|&handle| in_lane(handle)).collect();
        if active == 0 {
            self.meet("list without active ones");
        } else if one_lane.is_some() {
            self.meet("list of one lane");
        } else if lanes.len() > 1 {
            self.meet("list of several lanes");
        }
        found
    }

    /// Completes what a call finds; false when it has to wait.
    pub(super) fn complete_several(&mut self, rank: usize, form: Form, list: &[Listed]) -> bool {
        let Some(found) = self.found(rank, form, list) else { return false };
        for index in found {
            let ended = match list[index] {
                Listed::Null => false,
                Listed::Partitioned(handle) => self.complete_partitioned(rank, handle),
                Listed::Entry(key) => {
                    let place = self.members[rank].open.iter().position(|(other, _)| *other == key);
                    place.is_some_and(|place| self.complete(rank, place))
                }
            };
            assert!(ended, "rank {rank}: element {index} of {list:?} was found and has not ended");
        }
        true
    }

    /// `MPI_Grequest_start` (section 13.2).
    pub(super) fn new_generalized(&mut self, rank: usize) {
        let functions =
            Generalized { query: 1, free: 2, cancel: 3, extra_state: 4, complete: false, released: false };
        let handle = self.members[rank].process.requests.insert(Local::Generalized(functions)).expect("room");
        self.keep(rank, Open::Generalized(handle, false));
    }

    /// `MPI_Grequest_complete`.
    pub(super) fn tell_generalized(&mut self, rank: usize, index: usize) {
        let member = &mut self.members[rank];
        if let Some((_, Open::Generalized(handle, told @ false))) = member.open.get_mut(index) {
            assert_eq!(member.process.complete_generalized(*handle).expect("not before"), None);
            *told = true;
        }
    }

    /// Completes a generalized request if it was told to be complete.
    pub(super) fn complete_generalized(&mut self, rank: usize, index: usize) -> bool {
        let member = &mut self.members[rank];
        let Open::Generalized(handle, told) = member.open[index].1 else { return false };
        assert_eq!(member.process.is_done(handle), told, "a generalized request is done when it was told so");
        if !told {
            return false;
        }
        let done = member.process.finish(handle);
        assert!(done.generalized.is_some_and(|functions| functions.query == 1 && functions.complete));
        member.open.remove(index);
        self.meet("generalized request");
        true
    }
}

fn in_lane(handle: Handle) -> Option<u32> {
    (handle.kind_bits() == HandleKind::LaneRequest as u32).then(|| crate::lanes::lane_of(handle))
}

/// The one lane of which all are that are neither null nor complete sends; `None` also without any.
fn one_lane(handles: &[Handle]) -> Option<u32> {
    let beside = |&&handle: &&Handle| {
        handle.0 != abi::MPI_REQUEST_NULL && !crate::completion::is_complete_send(handle)
    };
    let mut lanes = handles.iter().filter(beside).map(|&handle| in_lane(handle));
    let first = lanes.next()??;
    lanes.all(|lane| lane == Some(first)).then_some(first)
}
