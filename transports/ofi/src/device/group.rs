//! A process's end of a collective group: an endpoint of its own, whose address vector holds the members in the order of their
//! ranks and nobody else, so that a rank, a place in the vector and an address are one number for every provider, and groups
//! cannot be taken for each other. Its completion queue is its own, too: libfabric 1.17 leaves something of a closed endpoint
//! behind in a queue that others use, and touches it when asked whether one may sleep. So nobody can be woken by a group; who
//! waits for one naps. An event queue tells when all have joined. Closing it ends what it has begun.

use super::{Denied, Device, MemoryRegion, Object, begun, poll};
use crate::abilities::{Abilities, Answer, Question, Stage, element_number, operation_number};
use crate::sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use weft_api::offload::Joining;
use weft_types::{Error, ErrorClass, Result};

/// See the module.
pub(crate) struct GroupEndpoint {
    // In the order in which they are closed.
    group: Option<Object<fid_mc>>,
    set: Option<Object<fid_av_set>>,
    endpoint: Object<fid_ep>,
    completions: Object<fid_cq>,
    addresses: Object<fid_av>,
    events: Object<fid_eq>,
    /// Regions are bound to the endpoint.
    holds_regions: bool,
}

/// What the provider runs, as it says when it is asked for each.
pub(super) fn abilities(domain: &Object<fid_domain>) -> Abilities {
    // SAFETY: an open domain.
    let query = unsafe { (*(*domain.raw()).ops).query_collective };
    Abilities::ask(|Question { collective, operation, datatype }| {
        let mut attributes = fi_collective_attr {
            op: operation,
            datatype,
            datatype_attr: fi_atomic_attr { count: 0, size: 0 },
            max_members: 0,
            mode: 0,
        };
        // SAFETY: an open domain, and attributes that live as long as the call.
        let result = unsafe { query?(domain.raw(), collective, &mut attributes, 0) };
        (result == 0).then_some(Answer {
            count: attributes.datatype_attr.count as u64,
            members: attributes.max_members as u64,
        })
    })
}

impl Device {
    fn group_failed(&self, what: &str, number: i64) -> Error {
        let why = self.reason(number);
        Error::new(ErrorClass::OTHER, format!("{} cannot make a collective group: {what}: {why}", self.offer))
    }

    /// Opens an endpoint for a group of so many members. Also gives its address.
    ///
    /// # Errors
    /// What the provider refused.
    pub(crate) fn open_group(&mut self, members: usize) -> Result<(GroupEndpoint, Vec<u8>)> {
        let info = self.info;
        let failed = |what: &str, number: i32| self.group_failed(what, i64::from(number));
        // SAFETY: the calls are those of the manual (fi_eq(3), fi_av(3), fi_endpoint(3)): fabric and domain are open, the
        // description lives in the device's list, and the attributes live as long as the calls.
        let group = unsafe {
            let tables = &*(*self.domain.raw()).ops;
            let (mut events, mut result) = (null_mut(), -FI_ENOSYS);
            let mut attributes = fi_eq_attr {
                size: 8,
                flags: 0,
                wait_obj: FI_WAIT_NONE,
                signaling_vector: 0,
                wait_set: null_mut(),
            };
            if let Some(open) = (*(*self.fabric.raw()).ops).eq_open {
                result = open(self.fabric.raw(), &mut attributes, &mut events, null_mut());
            }
            let events =
                Object::new(events).filter(|_| result == 0).ok_or_else(|| failed("event queue", result))?;
            let mut attributes = fi_av_attr {
                r#type: FI_AV_TABLE,
                rx_ctx_bits: 0,
                count: members,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            let mut addresses = null_mut();
            result = match tables.av_open {
                Some(open) => open(self.domain.raw(), &mut attributes, &mut addresses, null_mut()),
                None => -FI_ENOSYS,
            };
            let addresses = Object::new(addresses)
                .filter(|_| result == 0)
                .ok_or_else(|| failed("address vector", result))?;
            let mut attributes = fi_cq_attr {
                size: 256,
                flags: 0,
                format: FI_CQ_FORMAT_MSG,
                wait_obj: FI_WAIT_NONE,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: null_mut(),
            };
            let mut completions = null_mut();
            result = match tables.cq_open {
                Some(open) => open(self.domain.raw(), &mut attributes, &mut completions, null_mut()),
                None => -FI_ENOSYS,
            };
            let completions = Object::new(completions)
                .filter(|_| result == 0)
                .ok_or_else(|| failed("completion queue", result))?;
            (*info).caps |= FI_COLLECTIVE;
            let mut endpoint = null_mut();
            result = match tables.endpoint {
                Some(open) => open(self.domain.raw(), info, &mut endpoint, null_mut()),
                None => -FI_ENOSYS,
            };
            (*info).caps &= !FI_COLLECTIVE;
            let endpoint =
                Object::new(endpoint).filter(|_| result == 0).ok_or_else(|| failed("endpoint", result))?;
            for result in [
                endpoint.bind(addresses.fid(), 0),
                endpoint.bind(completions.fid(), FI_TRANSMIT | FI_RECV),
                endpoint.bind(events.fid(), 0),
                endpoint.control(FI_ENABLE, null_mut()),
            ] {
                if result != 0 {
                    return Err(failed("endpoint", result));
                }
            }
            let holds_regions = self.offer.mr_mode & FI_MR_ENDPOINT != 0;
            GroupEndpoint { group: None, set: None, endpoint, completions, addresses, events, holds_regions }
        };
        let name = self.name_of(&group.endpoint)?;
        Ok((group, name))
    }

    /// Begins to join a group of these addresses, in the order of ranks; they are of this provider.
    ///
    /// # Errors
    /// What the provider refused.
    pub(crate) fn join_group(&mut self, group: &mut GroupEndpoint, cards: &[&[u8]]) -> Result<()> {
        for (rank, card) in cards.iter().enumerate() {
            let mut place = FI_ADDR_UNSPEC;
            // SAFETY: an open address vector and an address of this provider, by contract.
            let inserted = unsafe {
                match (*(*group.addresses.raw()).ops).insert {
                    Some(insert) => {
                        insert(group.addresses.raw(), card.as_ptr().cast(), 1, &mut place, 0, null_mut())
                    }
                    None => -FI_ENOSYS,
                }
            };
            if inserted != 1 || place != rank as u64 {
                return Err(self.group_failed("address of a member", i64::from(inserted.min(0))));
            }
        }
        let mut attributes = fi_av_set_attr {
            count: cards.len(),
            start_addr: 0,
            end_addr: cards.len() as u64 - 1,
            stride: 1,
            comm_key_size: 0,
            comm_key: null_mut(),
            flags: 0,
        };
        let mut set = null_mut();
        // SAFETY: an open address vector, and attributes that live as long as the call.
        let result = unsafe {
            match (*(*group.addresses.raw()).ops).av_set {
                Some(make) => make(group.addresses.raw(), &mut attributes, &mut set, null_mut()),
                None => -FI_ENOSYS,
            }
        };
        // SAFETY: null or a set that was just made.
        let set = unsafe { Object::new(set) }
            .filter(|_| result == 0)
            .ok_or_else(|| self.group_failed("set of members", i64::from(result)))?;
        let mut of_set = 0;
        // SAFETY: an open set.
        let result = unsafe {
            match (*(*set.raw()).ops).addr {
                Some(addr) => addr(set.raw(), &mut of_set),
                None => -FI_ENOSYS,
            }
        };
        if result != 0 {
            return Err(self.group_failed("address of the set", i64::from(result)));
        }
        let address = fi_collective_addr { set: set.raw(), coll_addr: of_set };
        let mut joined = null_mut();
        // SAFETY: an enabled endpoint with an event queue, and an address that lives as long as the call; the set stays open as
        // long as the group.
        let result = unsafe {
            match (*(*group.endpoint.raw()).cm).join {
                Some(join) => join(
                    group.endpoint.raw(),
                    (&raw const address).cast(),
                    FI_COLLECTIVE,
                    &mut joined,
                    null_mut(),
                ),
                None => -FI_ENOSYS,
            }
        };
        group.set = Some(set);
        // SAFETY: null or a group that was just made.
        group.group = unsafe { Object::new(joined) }.filter(|_| result == 0);
        match group.group {
            Some(_) => Ok(()),
            None => Err(self.group_failed("joining", i64::from(result))),
        }
    }

    /// Looks whether all have joined. The provider works when completions are looked for.
    pub(crate) fn has_joined(&mut self, group: &mut GroupEndpoint) -> Joining {
        let mut event = 0;
        let mut entry = fi_eq_entry { fid: null_mut(), context: null_mut(), data: 0 };
        // SAFETY: an open event queue, and room for an entry of the size that is given.
        let count = unsafe {
            match (*(*group.events.raw()).ops).read {
                Some(read) => {
                    read(group.events.raw(), &mut event, (&raw mut entry).cast(), size_of::<fi_eq_entry>(), 0)
                }
                None => -FI_ENOSYS as isize,
            }
        };
        match count {
            1.. if event == FI_JOIN_COMPLETE => Joining::Joined,
            count if count >= 0 || count == -FI_EAGAIN as isize => Joining::Waiting,
            count => {
                // SAFETY: zero is a value of every field: no buffer for details.
                let mut failure: fi_eq_err_entry = unsafe { std::mem::zeroed() };
                // SAFETY: an open event queue.
                let told = unsafe {
                    match (*(*group.events.raw()).ops).readerr {
                        Some(readerr) => readerr(group.events.raw(), &mut failure, 0),
                        None => 0,
                    }
                };
                Joining::Failed(self.reason(if told > 0 { i64::from(failure.err) } else { count as i64 }))
            }
        }
    }

    /// Registers memory for operations of a group where memory must be.
    ///
    /// # Safety
    /// As [`Device::register`]; and the region is dropped before the group's endpoint.
    pub(crate) unsafe fn register_for_group(
        &mut self,
        group: &GroupEndpoint,
        address: *mut u8,
        bytes: usize,
    ) -> Result<Option<MemoryRegion>> {
        if !self.registers_locally() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.register_at(Some(&group.endpoint), address, bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE)
        }
        .map(Some)
    }
}

/// The two operands of a group's operation: as long as the stage says, and the descriptor of their region where there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    pub(crate) operand: *mut u8,
    pub(crate) result: *mut u8,
    pub(crate) descriptor: *mut c_void,
}

impl GroupEndpoint {
    /// Whether regions must be closed before it is.
    pub(crate) fn holds_regions(&self) -> bool {
        self.holds_regions
    }

    /// Lets the provider work, and looks whether the call with this context has ended: 0, or the error number.
    pub(crate) fn poll(&mut self, context: *const c_void) -> Option<i64> {
        let mut ended = None;
        // What a provider shows that is not ours is of no concern.
        poll(&self.completions, |one| {
            if one.error != 0 || std::ptr::eq(one.context, context) {
                ended = Some(one.error);
            }
        });
        ended
    }

    /// Begins one call. A broadcast is of the result.
    ///
    /// # Safety
    /// Operands and context stay valid and untouched until the operation has ended or the endpoint is dropped; the context
    /// until the device is.
    pub(crate) unsafe fn begin(
        &mut self,
        stage: Stage,
        Operands { operand, result, descriptor }: Operands,
        context: *mut c_void,
    ) -> std::result::Result<(), Denied> {
        let Some(group) = &self.group else { return Err(Denied::Failed(i64::from(FI_ENOSYS))) };
        let endpoint = self.endpoint.raw();
        // SAFETY: an open group; an enabled endpoint, which has the table if it was opened with the capability; the rest by
        // contract.
        begun(unsafe {
            let address = (*group.raw()).fi_addr;
            let absent = -FI_ENOSYS as isize;
            let Some(table) = (*endpoint).collective.as_ref() else {
                return Err(Denied::Failed(i64::from(FI_ENOSYS)));
            };
            match stage {
                Stage::Barrier => table.barrier.map_or(absent, |call| call(endpoint, address, context)),
                Stage::Broadcast { root, bytes } => table.broadcast.map_or(absent, |call| {
                    let room = result.cast();
                    let root = u64::from(root);
                    call(endpoint, room, bytes as usize, descriptor, address, root, FI_UINT8, 0, context)
                }),
                Stage::Reduce { root, count, arithmetic } => {
                    let (count, root) = (count as usize, u64::from(root));
                    let operation = operation_number(arithmetic.operation);
                    let (operand, result) = (operand.cast_const().cast(), result.cast());
                    match (table.reduce, element_number(arithmetic.element)) {
                        (Some(call), Some(datatype)) => call(
                            endpoint, operand, count, descriptor, result, descriptor, address, root,
                            datatype, operation, 0, context,
                        ),
                        _ => absent,
                    }
                }
                Stage::Allreduce { count, arithmetic } => {
                    let operation = operation_number(arithmetic.operation);
                    let (operand, result) = (operand.cast_const().cast(), result.cast());
                    match (table.allreduce, element_number(arithmetic.element)) {
                        (Some(call), Some(datatype)) => call(
                            endpoint,
                            operand,
                            count as usize,
                            descriptor,
                            result,
                            descriptor,
                            address,
                            datatype,
                            operation,
                            0,
                            context,
                        ),
                        _ => absent,
                    }
                }
            }
        })
    }
}
