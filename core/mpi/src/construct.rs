//! Communicator construction (section 7.4.2) as something that is polled: blocking and nonblocking forms are the same.
//!
//! ```text
//! split only: exchange (color, key)  ->  agree on a channel (one allreduce of 64 bytes, see `context`)  ->  communicator
//! ```

use crate::attributes::Attribute;
use crate::comm::Comm;
use crate::context::{Mask, Search, WORDS};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;
use crate::request::{Local, Making};
use crate::topology::Topology;
use std::sync::Arc;
use weft_coll::{Call, Vector};
use weft_datatype::PredefinedOp;
use weft_datatype::{Datatype, Memory};
use weft_engine::{Arguments, Operation, Reduction, RequestId};
use weft_types::{ContextId, Error, ErrorClass, Handle, PeerId, Rank, Result, abi};

/// A construction under way.
#[derive(Debug)]
pub struct Construction {
    parent: Handle,
    /// Parent's channel and handler as they were at the call: the parent may be freed meanwhile.
    parent_context: ContextId,
    errhandler: Handle,
    /// Who takes part in the agreement, when it is not everybody in the parent.
    among: Option<(Arc<Group>, u32)>,
    stage: Stage,
    /// The members of the new communicator; `None` when this process gets none.
    members: Option<Arc<Group>>,
    search: Search,
    attributes: Vec<Attribute>,
    /// Hints for the new communicator; set before the first poll.
    pub hints: Info,
    /// The virtual topology of the new communicator; set before the first poll.
    pub topology: Option<Arc<Topology>>,
}

#[derive(Debug)]
enum Stage {
    /// The colors and keys are being exchanged.
    Exchanging { request: RequestId, room: Memory, color: Option<i32> },
    /// A channel is being agreed on.
    Agreeing { request: RequestId, mask: Memory },
}

const MASK_BYTES: u64 = (WORDS * 8) as u64;

impl Process {
    /// Begins `MPI_Comm_dup`. `attributes` are those the copy functions gave.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle; exhausted resources.
    pub fn duplicate(&mut self, parent: Handle, attributes: Vec<Attribute>) -> Result<Construction> {
        let comm = self.comms.get(parent)?;
        let (members, topology) = (Arc::clone(&comm.group), comm.topology.clone());
        let construction = self.construct(parent, Some(members), None, attributes)?;
        Ok(Construction { topology, ..construction })
    }

    /// Begins `MPI_Comm_split`; `color` is `None` for `MPI_UNDEFINED`.
    ///
    /// # Errors
    /// As [`Process::duplicate`].
    pub fn split(&mut self, parent: Handle, color: Option<i32>, key: i32) -> Result<Construction> {
        let comm = self.comms.get(parent)?;
        let room = Memory::packed_scratch(comm.size as usize * 9);
        let mut mine = [0_u8; 9];
        mine[0] = u8::from(color.is_some());
        mine[1..5].copy_from_slice(&color.unwrap_or(0).to_le_bytes());
        mine[5..9].copy_from_slice(&key.to_le_bytes());
        let own = Memory::packed_scratch(9);
        own.recv_view(0, 0, 9).unpack(0, &mine);
        let (parent_context, errhandler) = (comm.context, comm.errhandler);
        let search = Search::new(comm.context_hint, seed(parent_context, comm.collectives));
        let call = Call::Allgather { bytes: 9, in_place: false };
        let request = self.start_collective(parent, &call, Arguments::new(own, room.clone()), None)?;
        Ok(Construction {
            parent,
            parent_context,
            errhandler,
            among: None,
            stage: Stage::Exchanging { request, room, color },
            members: None,
            search,
            attributes: Vec::new(),
            hints: Info::default(),
            topology: None,
        })
    }

    /// Begins `MPI_Comm_create`: `group` is a part of the parent's.
    ///
    /// # Errors
    /// As [`Process::duplicate`]; `MPI_ERR_GROUP` when the group is no part.
    pub fn create(&mut self, parent: Handle, group: &Arc<Group>) -> Result<Construction> {
        self.check_part(parent, group)?;
        let me = PeerId(self.job.rank);
        let members = group.rank_of(me).map(|_| Arc::clone(group));
        self.construct(parent, members, None, Vec::new())
    }

    /// Begins `MPI_Comm_create_group`; only members of `group` call it. `None` when this process is no member.
    ///
    /// # Errors
    /// As [`Process::create`]; `MPI_ERR_TAG` for a negative tag.
    pub fn create_group(
        &mut self,
        parent: Handle,
        group: &Arc<Group>,
        tag: i32,
    ) -> Result<Option<Construction>> {
        let Ok(number) = u32::try_from(tag) else {
            return Err(Error::new(
                ErrorClass::TAG,
                format!("tag is {tag}; tags are 0 to {} (MPI_TAG_UB)", i32::MAX),
            ));
        };
        self.check_part(parent, group)?;
        if group.rank_of(PeerId(self.job.rank)).is_none() {
            return Ok(None);
        }
        let among = Some((Arc::clone(group), number));
        self.construct(parent, Some(Arc::clone(group)), among, Vec::new()).map(Some)
    }

    /// Begins `MPI_Comm_create_from_group`: no parent; `number` follows from the string tag. `None` when this process is no
    /// member.
    ///
    /// # Errors
    /// Exhausted resources.
    pub fn create_from_group(
        &mut self,
        group: &Arc<Group>,
        number: u32,
        errhandler: Handle,
    ) -> Result<Option<Construction>> {
        if group.rank_of(PeerId(self.job.rank)).is_none() {
            return Ok(None);
        }
        // Nothing but such agreements travels between processes on this channel: MPI_COMM_SELF has one member.
        let parent_context = ContextId::SELF;
        let among = Some((Arc::clone(group), number));
        let mut search = Search::new(0, seed(parent_context, number));
        let parent = Handle(abi::MPI_COMM_NULL);
        let stage = self.agree(parent, parent_context, among.as_ref(), &mut search)?;
        let (members, attributes) = (Some(Arc::clone(group)), Vec::new());
        Ok(Some(Construction {
            parent,
            parent_context,
            errhandler,
            among,
            stage,
            members,
            search,
            attributes,
            hints: Info::default(),
            topology: None,
        }))
    }

    fn check_part(&self, parent: Handle, group: &Group) -> Result<()> {
        let comm = self.comms.get(parent)?;
        if group.difference(&comm.group).size() > 0 {
            return Err(Error::new(
                ErrorClass::GROUP,
                format!("the group has processes that are not in {}", comm.display_name()),
            ));
        }
        Ok(())
    }

    fn construct(
        &mut self,
        parent: Handle,
        members: Option<Arc<Group>>,
        among: Option<(Arc<Group>, u32)>,
        attributes: Vec<Attribute>,
    ) -> Result<Construction> {
        let comm = self.comms.get(parent)?;
        let (parent_context, errhandler) = (comm.context, comm.errhandler);
        let number = among.as_ref().map_or(comm.collectives, |(_, number)| !number);
        let mut search = Search::new(comm.context_hint, seed(parent_context, number));
        let stage = self.agree(parent, parent_context, among.as_ref(), &mut search)?;
        Ok(Construction {
            parent,
            parent_context,
            errhandler,
            among,
            stage,
            members,
            search,
            attributes,
            hints: Info::default(),
            topology: None,
        })
    }

    /// Starts one round of agreement.
    fn agree(
        &mut self,
        parent: Handle,
        parent_context: ContextId,
        among: Option<&(Arc<Group>, u32)>,
        search: &mut Search,
    ) -> Result<Stage> {
        self.reuse_retired();
        let word = Datatype::from(Datatype::predefined(abi::MPI_UINT64_T).expect("predefined"));
        let mask = Memory::scratch(&word, WORDS as u64)?;
        let proposal: Vec<u8> =
            self.contexts.propose(search).iter().flat_map(|word| word.to_le_bytes()).collect();
        mask.recv_view(0, 0, MASK_BYTES).unpack(0, &proposal);
        let operation = Operation::Predefined(PredefinedOp::Band.kernel(&word)?);
        let reduction = Some(Reduction { datatype: word, operation });
        let vector = Vector { count: WORDS as u64, element: 8, commutative: true };
        let call = Call::Allreduce { vector, in_place: true };
        let arguments = Arguments::new(Memory::none(), mask.clone());
        let request = match among {
            None => self.start_collective(parent, &call, arguments, reduction)?,
            Some((group, number)) => {
                self.start_among(group, parent_context, *number, &call, arguments, reduction)?
            }
        };
        Ok(Stage::Agreeing { request, mask })
    }

    /// Gives the channels of freed communicators back once no traffic uses them.
    fn reuse_retired(&mut self) {
        let engine = &mut self.engine;
        let contexts = &mut self.contexts;
        self.retired.retain(|&(context, handle)| {
            let any = |context| weft_engine::Selector { context, peer: None, source: None, tag: None };
            let in_use = engine.owns_any(handle.0)
                || engine.iprobe(any(context)).is_some()
                || engine.iprobe(any(context.collective())).is_some()
                || engine.iprobe(any(context.partitioned())).is_some();
            if !in_use {
                contexts.release(context);
            }
            in_use
        });
    }

    /// Frees a communicator whose attributes are gone: operations under way continue (section 7.4.3).
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for a bad handle or a predefined communicator.
    pub fn free_comm(&mut self, handle: Handle) -> Result<Comm> {
        let comm = self.comms.remove(handle)?;
        self.retired.push((comm.context, handle));
        Ok(comm)
    }
}

impl Process {
    /// Lets a construction go on by itself, as part of all progress; gives its request.
    ///
    /// # Errors
    /// As [`crate::table::Table::insert`].
    pub fn build(&mut self, construction: Construction, parent: Handle, place: usize) -> Result<Handle> {
        let making = Making { construction: Some(construction), outcome: Ok(None), parent, place };
        let request = self.requests.insert(Local::Construction(Box::new(making)))?;
        self.building.push(request);
        Ok(request)
    }

    /// Takes every construction under way as far as it goes.
    #[cold]
    #[inline(never)]
    pub(crate) fn progress_constructions(&mut self) {
        for request in std::mem::take(&mut self.building) {
            let Local::Construction(making) = self.requests.local_mut(request) else { continue };
            let Some(mut construction) = making.construction.take() else { continue };
            let outcome = construction.poll(self);
            let Local::Construction(making) = self.requests.local_mut(request) else { continue };
            match outcome.transpose() {
                None => {
                    making.construction = Some(construction);
                    self.building.push(request);
                }
                Some(outcome) => making.outcome = outcome,
            }
        }
    }
}

impl Construction {
    /// The collective that it waits for, to be described.
    pub fn request(&self) -> RequestId {
        match self.stage {
            Stage::Exchanging { request, .. } | Stage::Agreeing { request, .. } => request,
        }
    }

    /// Goes on as far as possible without waiting. `None`: not done yet; otherwise the new communicator, or none for this
    /// process. Not to be called again after that.
    ///
    /// # Errors
    /// What went wrong on the way; the construction is over.
    pub fn poll(&mut self, process: &mut Process) -> Result<Option<Option<Handle>>> {
        loop {
            let request = self.request();
            if !process.engine.is_complete(request) {
                return Ok(None);
            }
            if let Some(error) = process.engine.take(request).error {
                process.contexts.abandon(std::mem::replace(&mut self.search, Search::new(0, 0)));
                return Err(error);
            }
            let agreed = match &self.stage {
                Stage::Exchanging { room, color, .. } => {
                    self.members = members_of_color(process, self.parent, room, *color)?;
                    None
                }
                Stage::Agreeing { mask, .. } => {
                    let agreed = read_mask(mask);
                    process.contexts.answer(&mut self.search, &agreed)
                }
            };
            if let Some((context, hint)) = agreed {
                return self.finish(process, context, hint).map(Some);
            }
            self.stage =
                process.agree(self.parent, self.parent_context, self.among.as_ref(), &mut self.search)?;
        }
    }

    fn finish(&mut self, process: &mut Process, context: ContextId, hint: u32) -> Result<Option<Handle>> {
        if self.among.is_none()
            && let Ok(parent) = process.comms.get_mut(self.parent)
        {
            parent.context_hint = hint;
        }
        let Some(group) = self.members.take() else {
            process.contexts.release(context);
            return Ok(None);
        };
        let rank = group.rank_of(PeerId(process.job.rank)).unwrap_or(Rank(0));
        let mut comm = Comm::new(context, rank, group, self.errhandler);
        comm.accept_hints(&self.hints)?;
        comm.topology = self.topology.take();
        for attribute in self.attributes.drain(..) {
            process.keys.put(&mut comm.attributes, attribute);
        }
        let made = process.comms.insert(comm)?;
        process.inherit_session(made, self.parent);
        Ok(Some(made))
    }
}

/// What all participants of a construction know, and no other construction under way has: the channel it runs on and its
/// number there.
fn seed(context: ContextId, number: u32) -> u64 {
    u64::from(context.0) << 32 | u64::from(number)
}

fn read_mask(mask: &Memory) -> Mask {
    let mut bytes = [0_u8; WORDS * 8];
    mask.send_view(0, 0, MASK_BYTES).pack(0, &mut bytes);
    std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|byte| bytes[word * 8 + byte])))
}

/// Those who gave the same color, by key and then by rank (section 7.4.2).
fn members_of_color(
    process: &Process,
    parent: Handle,
    room: &Memory,
    color: Option<i32>,
) -> Result<Option<Arc<Group>>> {
    let Some(color) = color else { return Ok(None) };
    let group = &process.comms.get(parent)?.group;
    let mut bytes = vec![0_u8; group.size() as usize * 9];
    room.send_view(0, 0, bytes.len() as u64).pack(0, &mut bytes);
    let number = |bytes: &[u8]| i32::from_le_bytes(std::array::from_fn(|byte| bytes[byte]));
    let mut members: Vec<(i32, u32)> = bytes
        .chunks_exact(9)
        .zip(0..)
        .filter(|(entry, _)| entry[0] == 1 && number(&entry[1..5]) == color)
        .map(|(entry, rank)| (number(&entry[5..9]), rank))
        .collect();
    members.sort_unstable();
    let peers = members.into_iter().map(|(_, rank)| group.peer(Rank(rank))).collect();
    Ok(Some(Arc::new(Group::from_peers(peers))))
}
