//! The completion families called with random arrays, and what they return against the model (sections 3.7.3, 3.7.5, 3.7.6).

use std::ffi::c_int;
use std::time::Duration;

use weft_types::abi;

use super::Program;
use super::calls::*;
use super::model::EMPTY;
use super::model::{Ends, MARK, Slot, check, check_code, marked, null};
use crate::ctypes::*;

/// How many requests of the array a call reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    One,
    Any,
    All,
    Some,
}

/// What a call does with those it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Wait,
    Test,
    Show,
}

/// A call: the requests it lists, and what it returned.
struct Call {
    family: Family,
    manner: Manner,
    /// The slot of each element; `None` is a null handle.
    listed: Vec<Option<usize>>,
    requests: Vec<MPI_Request>,
    statuses: Vec<MPI_Status>,
    ignored: bool,
    code: c_int,
    flag: c_int,
    index: c_int,
    outcount: c_int,
    indices: Vec<c_int>,
}

impl Call {
    /// Makes the call.
    fn make(&mut self) -> c_int {
        let count = self.requests.len() as c_int;
        let requests = self.requests.as_mut_ptr();
        let statuses = if self.ignored { std::ptr::null_mut() } else { self.statuses.as_mut_ptr() };
        let (flag, index) = (&raw mut self.flag, &raw mut self.index);
        let (outcount, indices) = (&raw mut self.outcount, self.indices.as_mut_ptr());
        // SAFETY: arrays of the lengths that the procedures ask for; a single one has an element at least.
        unsafe {
            match (self.family, self.manner) {
                (Family::One, Manner::Wait) => PMPI_Wait(requests, statuses),
                (Family::One, Manner::Test) => PMPI_Test(requests, flag, statuses),
                (Family::One, Manner::Show) => PMPI_Request_get_status(*requests, flag, statuses),
                (Family::Any, Manner::Wait) => PMPI_Waitany(count, requests, index, statuses),
                (Family::Any, Manner::Test) => PMPI_Testany(count, requests, index, flag, statuses),
                (Family::Any, Manner::Show) => {
                    PMPI_Request_get_status_any(count, requests, index, flag, statuses)
                }
                (Family::All, Manner::Wait) => PMPI_Waitall(count, requests, statuses),
                (Family::All, Manner::Test) => PMPI_Testall(count, requests, flag, statuses),
                (Family::All, Manner::Show) => PMPI_Request_get_status_all(count, requests, flag, statuses),
                (Family::Some, Manner::Wait) => PMPI_Waitsome(count, requests, outcount, indices, statuses),
                (Family::Some, Manner::Test) => PMPI_Testsome(count, requests, outcount, indices, statuses),
                (Family::Some, Manner::Show) => {
                    PMPI_Request_get_status_some(count, requests, outcount, indices, statuses)
                }
            }
        }
    }

    /// The elements that the call says are complete, in the order of their statuses; `None`: it says that none is active.
    fn reported(&self) -> Option<Vec<usize>> {
        let flag = if self.manner == Manner::Wait { 1 } else { self.flag };
        assert!(self.family == Family::Some || flag == 0 || flag == 1, "flag is {flag}");
        let length = self.listed.len();
        match self.family {
            Family::One | Family::All => Some(if flag == 1 { (0..length).collect() } else { Vec::new() }),
            Family::Any if self.index == abi::MPI_UNDEFINED => (flag == 0).then(Vec::new),
            Family::Any => {
                assert_eq!(flag, 1, "index {} without the flag", self.index);
                Some(vec![usize::try_from(self.index).expect("an index")])
            }
            Family::Some if self.outcount == abi::MPI_UNDEFINED => None,
            Family::Some => {
                let number = usize::try_from(self.outcount).expect("a number of requests");
                assert!(number <= length, "outcount {number} of {length}");
                let beyond = self.indices[number..].iter().all(|&index| index == MARK);
                assert!(beyond, "indices are written behind outcount {number}: {:?}", self.indices);
                let found: Vec<usize> = self.indices[..number]
                    .iter()
                    .map(|&index| usize::try_from(index).expect("an index"))
                    .collect();
                let mut sorted = found.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), number, "an index twice: {found:?}");
                Some(found)
            }
        }
    }

    /// Checks the codes of those that were reported.
    fn check_codes(&self, expected: &[(c_int, bool)]) {
        let failed = expected.iter().any(|&(code, _)| code != abi::MPI_SUCCESS);
        if matches!(self.family, Family::One | Family::Any) {
            let code = expected.first().map_or(abi::MPI_SUCCESS, |&(code, _)| code);
            return check_code(self.code, code, "the code of the call");
        }
        let code = if failed { abi::MPI_ERR_IN_STATUS } else { abi::MPI_SUCCESS };
        check_code(self.code, code, "the code of a call with statuses");
        if self.ignored {
            return;
        }
        for (place, (&(code, is_empty), status)) in expected.iter().zip(&self.statuses).enumerate() {
            if failed {
                check_code(status.error, code, &format!("the error field of status {place}"));
            } else {
                let kept = status.error == MARK || is_empty && status.error == abi::MPI_SUCCESS;
                assert!(kept, "the error field of status {place} became {} without an error", status.error);
            }
        }
    }
}

impl Program<'_> {
    /// A random array: some of the slots in any order, null handles between them; at times of one communicator alone.
    fn list(&mut self, family: Family) -> Vec<Option<usize>> {
        let mut rest: Vec<usize> = (0..self.slots.len()).collect();
        if self.below(2) == 0 {
            let comm = self.below(self.comms.len());
            rest.retain(|&slot| self.slots[slot].comm == comm && self.slots[slot].request != null());
        }
        let length = match family {
            Family::One => 1,
            _ => self.below(rest.len() + 3),
        };
        let mut listed = Vec::new();
        while listed.len() < length {
            let is_null = rest.is_empty() || self.below(8) == 0;
            listed.push(if is_null {
                None
            } else {
                let at = self.below(rest.len());
                Some(rest.swap_remove(at))
            });
        }
        listed
    }

    /// One call of the families, checked.
    pub(super) fn complete(&mut self) {
        let family = [Family::One, Family::Any, Family::All, Family::Some][self.below(4)];
        let listed = self.list(family);
        self.complete_listed(family, listed);
    }

    /// As [`Self::complete`], of this array.
    fn complete_listed(&mut self, family: Family, listed: Vec<Option<usize>>) {
        let active: Vec<usize> =
            listed.iter().flatten().copied().filter(|&slot| self.slots[slot].is_active()).collect();
        let ready = active.iter().filter(|&&slot| self.slots[slot].must_end()).count();
        let may_wait = match family {
            Family::One | Family::All => ready == active.len(),
            Family::Any | Family::Some => ready > 0 || active.is_empty(),
        };
        let ended_meanwhile = self.second.filter(|_| !may_wait && self.below(3) == 0);
        let manner = match self.below(5) {
            _ if ended_meanwhile.is_some() => Manner::Wait,
            0 | 1 if may_wait => Manner::Wait,
            0..4 => Manner::Test,
            _ => Manner::Show,
        };
        let requests: Vec<_> =
            listed.iter().map(|slot| slot.map_or(null(), |slot| self.slots[slot].request)).collect();
        let length = listed.len();
        let mut call = Call {
            family,
            manner,
            listed,
            requests: requests.clone(),
            statuses: vec![marked(); length.max(1)],
            ignored: self.below(4) == 0,
            code: MARK,
            flag: MARK,
            index: MARK,
            outcount: MARK,
            indices: vec![MARK; length],
        };
        self.told = format!(
            "{family:?} {manner:?} of {:?}",
            call.listed.iter().map(|slot| slot.map(|slot| self.slots[slot].words())).collect::<Vec<_>>()
        );
        if let Some(second) = ended_meanwhile {
            call.code = second.call(|| call.make(), || self.end_while_waited_for(family, &active));
            return self.check_call(&call, &requests, &active);
        }
        if length > 0 && self.below(30) == 0 {
            return self.refuse(call);
        }
        call.code = self.call(|| call.make());
        self.check_call(&call, &requests, &active);
    }

    /// Ends what a call of the second thread waits for, or will: all, or one of them.
    fn end_while_waited_for(&mut self, family: Family, active: &[usize]) {
        self.meet("blocked waits");
        self.waits = true;
        // At times the other thread is asleep by then.
        let pause = [0, 0, 20, 1000][self.below(4)];
        std::thread::sleep(Duration::from_micros(pause));
        match family {
            Family::One | Family::All => active.iter().for_each(|&slot| self.end(slot)),
            Family::Any | Family::Some => {
                let slot = active[self.below(active.len())];
                self.end(slot);
            }
        }
        self.waits = false;
    }

    /// Has the call made with a handle that names nothing: it says so and leaves all requests as they are.
    fn refuse(&mut self, mut call: Call) {
        let wrong = self.below(call.requests.len());
        call.requests[wrong] = MPI_Request::from_raw(abi::MPI_COMM_WORLD);
        let before = call.requests.clone();
        call.code = self.call(|| call.make());
        check_code(call.code, abi::MPI_ERR_REQUEST, "a handle that names no request");
        assert_eq!(call.requests, before, "a refused call changes no handle");
        for &slot in call.listed.iter().flatten() {
            if !self.slots[slot].is_active() {
                continue;
            }
            let functions = &self.slots[slot].functions;
            assert_eq!((functions.queried, functions.freed), (0, 0), "a refused call completes nothing");
        }
        self.meet("handles of nothing");
    }

    fn check_call(&mut self, call: &Call, before: &[MPI_Request], active: &[usize]) {
        self.meet(match call.manner {
            Manner::Wait => "waits",
            Manner::Test => "tests",
            Manner::Show => "shows",
        });
        let taken = call.manner != Manner::Show;
        let reported = call.reported();
        if active.is_empty() && matches!(call.family, Family::Any | Family::Some) {
            assert_eq!(reported, None, "none is active");
        }
        let none = reported.is_none();
        assert!(!none || active.is_empty(), "it says that none is active");
        let reported = reported.unwrap_or_default();
        if call.manner == Manner::Wait && !active.is_empty() {
            assert!(!reported.is_empty(), "a wait reports something");
        }
        let mut expected = Vec::new();
        let statuses = if call.ignored { &[][..] } else { &call.statuses[..] };
        for (place, &index) in reported.iter().enumerate() {
            let status = statuses.get(place);
            match call.listed.get(index).expect("an index of the array").map(|slot| &mut self.slots[slot]) {
                Some(slot) if slot.is_active() => {
                    slot.reported(taken);
                    count_functions(slot, taken);
                    let code = slot.expected(taken);
                    expected.push((code, false));
                    if let Some(status) = status {
                        slot.check(status);
                    }
                    if code != abi::MPI_SUCCESS {
                        self.meet("errors");
                    }
                }
                _ => {
                    let alone = matches!(call.family, Family::One | Family::All);
                    assert!(alone, "element {index} is not active but reported");
                    expected.push((abi::MPI_SUCCESS, true));
                    if let Some(status) = status {
                        check(&EMPTY, status, "an element that is not active");
                    }
                }
            }
        }
        call.check_codes(&expected);
        if none
            && call.family == Family::Any
            && let Some(status) = statuses.first()
        {
            check(&EMPTY, status, "a call without active requests");
        }
        if call.family == Family::Some {
            let beyond = statuses.iter().skip(reported.len()).all(|status| *status == marked());
            assert!(beyond, "statuses are written behind those reported");
        }
        self.check_rest(call, before, &reported);
    }

    /// The handles: null, kept or as they were; and those that the call could have reported.
    fn check_rest(&mut self, call: &Call, before: &[MPI_Request], reported: &[usize]) {
        for (index, listed) in call.listed.iter().enumerate() {
            let Some(slot) = *listed else {
                assert_eq!(call.requests[index], null(), "a null handle changed");
                continue;
            };
            let slot = &mut self.slots[slot];
            if slot.state == super::model::State::Null {
                assert_eq!(call.requests[index], null(), "the handle of {}", slot.words());
            } else {
                assert_eq!(call.requests[index], before[index], "the handle of {}", slot.words());
            }
            slot.request = call.requests[index];
            let free_to_report = match call.family {
                Family::Some => true,
                Family::One | Family::Any => reported.is_empty(),
                Family::All => false,
            };
            if free_to_report && !reported.contains(&index) {
                slot.passed_over();
            }
        }
        // "All" that is not all: if everything must end, then some look finds it.
        let all_ready = call.listed.iter().flatten().all(|&slot| {
            let slot = &self.slots[slot];
            !slot.is_active() || slot.must_end()
        });
        if call.family == Family::All && reported.len() < call.listed.len() && all_ready {
            let now = call.listed.iter().flatten().all(|&slot| {
                let slot = &self.slots[slot];
                !slot.is_active() || slot.ends == Ends::Now
            });
            assert!(!now, "all are complete and the flag is not set");
            self.meet("all not yet");
            for &slot in call.listed.iter().flatten() {
                if self.slots[slot].ends == Ends::Must {
                    self.slots[slot].passed_over();
                }
            }
        }
    }

    /// Ends and completes all that is active.
    pub(super) fn wind_up(&mut self) {
        for slot in 0..self.slots.len() {
            self.end(slot);
        }
        for _ in 0..200 {
            let listed: Vec<_> = (0..self.slots.len()).map(Some).collect();
            let family = [Family::All, Family::Any, Family::Some][self.below(3)];
            self.complete_listed(family, listed);
            if !self.slots.iter().any(Slot::is_active) {
                break;
            }
        }
        assert!(!self.slots.iter().any(Slot::is_active), "something never ends");
        (0..self.slots.len()).for_each(|slot| self.forget(slot));
        self.check_empty();
    }
}

/// The functions of a generalized request are called once for each report, and the free function when it is over.
fn count_functions(slot: &mut Slot, taken: bool) {
    if slot.kind == super::model::Kind::Generalized {
        let functions = &mut slot.functions;
        assert_eq!(
            (functions.queried, functions.freed),
            (1, u32::from(taken)),
            "calls of query and free functions"
        );
        functions.queried = 0;
    }
}
