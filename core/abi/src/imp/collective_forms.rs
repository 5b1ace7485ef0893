//! The three forms of every collective: blocking, nonblocking, persistent (sections 6.12 and 6.13).

use weft::Process;
use weft::collective::Work;
use weft::rounds::Begun;
use weft::topology::neighborhood::Blocks;
use weft_coll::{Call, InterCall};
use weft_datatype::Memory;
use weft_engine::{Arguments, Reduction, RequestId};
use weft_types::{Handle, Result as Outcome};

use super::objects::Objects;
use super::partitioned::check_info;
use super::point_to_point::complete;
use super::{at_device, on_node};
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::snapshot::{self, Known};

/// Starts something and gives its request; the shape shared by the blocking and the nonblocking forms.
type Begin<'a> = &'a mut dyn FnMut(&mut Process) -> Outcome<RequestId>;

/// Starts, then waits.
pub(super) fn blocking(call: &'static str, start: Begin<'_>) -> Result<(), Raised> {
    loop {
        match gate::with(|process| process.by_rounds(|process| start(process)))? {
            Begun::Rounds(under_way) => return on_node::finish(call, under_way),
            Begun::Levels(under_way) => return on_node::finish_by_levels(call, under_way),
            Begun::AgreeOnLevels(comm) => on_node::agree_on_levels(call, comm)?,
            Begun::Agree(comm, needed) => on_node::agree(call, comm, needed)?,
            Begun::Join(comm) => at_device::join(call, comm)?,
            Begun::Messages(request) => {
                return match complete(call, request).error {
                    None => Ok(()),
                    Some(error) => Err(error.into()),
                };
            }
        }
    }
}

/// Starts, and gives the program the request.
///
/// # Safety
/// The entry has refused a null `request`.
pub(super) unsafe fn nonblocking(
    request: *mut MPI_Request,
    comm: MPI_Comm,
    start_in_lane: &mut dyn FnMut(&mut Known) -> Outcome<Handle>,
    start: Begin<'_>,
) -> Result<(), Raised> {
    let started = match in_lane(comm, start_in_lane) {
        Some(started) => started?,
        None => weft::lanes::request_handle(gate::with(|process| start(process))?),
    };
    // SAFETY: the caller's promise.
    unsafe { request.write(MPI_Request::from_raw(started.0)) };
    Ok(())
}

/// Starts where the communicator has a lane of its own; `None`: nothing was done, and the process is needed.
fn in_lane(comm: MPI_Comm, start: &mut dyn FnMut(&mut Known) -> Outcome<Handle>) -> Option<Outcome<Handle>> {
    if gate::phase() & gate::MULTIPLE == 0 || gate::shared().planner.is_none() {
        return None;
    }
    snapshot::lend(comm.handle(), start)
}

/// What becomes of a collective call once its arguments are understood.
pub(super) trait Form: Sized {
    /// What the program gets.
    type Made;
    /// Where it finds the objects of the call.
    type On: Objects;

    /// Does it.
    fn begin(
        self,
        process: &mut Self::On,
        comm: MPI_Comm,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<Self::Made>;

    /// A collective of chapter 6 on an intracommunicator.
    fn collective(
        self,
        process: &mut Self::On,
        comm: MPI_Comm,
        call: &Call<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<Self::Made> {
        self.begin(process, comm, &Work::Collective(call), arguments, reduction)
    }

    /// A collective of chapter 6 on an intercommunicator.
    fn inter(
        self,
        process: &mut Self::On,
        comm: MPI_Comm,
        call: &InterCall<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<Self::Made> {
        self.begin(process, comm, &Work::Inter(call), arguments, reduction)
    }

    /// A collective on neighbourhoods (sections 8.6 to 8.8).
    fn neighborhood(
        self,
        process: &mut Self::On,
        comm: MPI_Comm,
        (send, recv): (&Blocks<'_>, &Blocks<'_>),
        arguments: Arguments,
    ) -> Outcome<Self::Made> {
        self.begin(process, comm, &Work::Neighborhood(send, recv), arguments, None)
    }
}

/// It starts. Holds the procedure's name in lower case, without `MPI_`.
pub(super) struct Start(pub(super) &'static str);

/// It starts with the lock of its communicator's lane alone.
pub(super) struct StartInLane;

/// It becomes a persistent request.
pub(super) struct Keep;

/// It is checked before it becomes a persistent request (`WEFT_CHECK=collectives`).
pub(super) struct Check(pub(super) &'static str);

impl Form for Start {
    type Made = RequestId;
    type On = Process;

    fn begin(
        self,
        process: &mut Process,
        comm: MPI_Comm,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<RequestId> {
        if process.checks_collectives() {
            return process.start_checked(self.0, comm.handle(), work, arguments, reduction);
        }
        process.start_work(comm.handle(), work, arguments, reduction)
    }
}

impl Form for StartInLane {
    type Made = Handle;
    type On = Known;

    fn begin(
        self,
        known: &mut Known,
        _: MPI_Comm,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<Handle> {
        let (Some(planner), Some(lane)) = (&gate::shared().planner, known.lane) else {
            unreachable!("both were asked for before")
        };
        planner.start((&mut known.comm, lane), work, arguments, reduction)
    }
}

impl Form for Check {
    type Made = RequestId;
    type On = Process;

    fn begin(
        self,
        process: &mut Process,
        comm: MPI_Comm,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<RequestId> {
        process.start_check(self.0, comm.handle(), work, &arguments, reduction.as_ref())
    }
}

impl Form for Keep {
    type Made = Handle;
    type On = Process;

    fn begin(
        self,
        process: &mut Process,
        comm: MPI_Comm,
        work: &Work<'_>,
        arguments: Arguments,
        reduction: Option<Reduction>,
    ) -> Outcome<Handle> {
        process.keep_work(comm.handle(), work, arguments, reduction)
    }
}

/// Where collectives are checked, waits until all members of `comm` have said that they call the procedure `call`, which makes
/// a communicator or a window of it; nothing is done otherwise. Whether they agree about its arguments is not looked at.
///
/// # Errors
/// `MPI_ERR_OTHER` at all members where some call another collective procedure, with the names of two ranks and what they call.
pub(super) fn check_making(call: &'static str, comm: MPI_Comm) -> Result<(), Raised> {
    if !gate::with(|process| process.checks_collectives()) {
        return Ok(());
    }
    let procedure = call.trim_start_matches("MPI_");
    // Everybody comes, and nobody brings data.
    let work = Work::Collective(&Call::Barrier);
    blocking(call, &mut |process| {
        let nothing = Arguments::new(Memory::none(), Memory::none());
        process.start_check(procedure, comm.handle(), &work, &nothing, None)
    })
}

/// Makes a persistent request. `check` is done first where collectives are checked.
///
/// # Safety
/// The entry has refused a null `request`.
pub(super) unsafe fn persistent(
    call: &'static str,
    info: MPI_Info,
    request: *mut MPI_Request,
    check: Begin<'_>,
    keep: &mut dyn FnMut(&mut Process) -> Outcome<Handle>,
) -> Result<(), Raised> {
    gate::with(|_| check_info(info))?;
    if gate::with(|process| process.checks_collectives()) {
        blocking(call, check)?;
    }
    let kept = gate::with(|process| keep(process))?;
    on_node::agree_to_keep(call, kept)?;
    // SAFETY: the caller's promise.
    unsafe { request.write(MPI_Request::from_raw(kept.0)) };
    Ok(())
}

/// Makes the blocking, the nonblocking and the persistent form of an operation.
macro_rules! operations {
    ($($blocking:ident $nonblocking:ident $persistent:ident($($argument:ident: $ty:ty),*) $name:literal
        |$form:ident, $process:ident, $comm:ident| $start:expr;)*) => {$(
        #[doc = concat!("`MPI_", $name, "` (chapter 6; on neighbourhoods section 8.6).")]
        #[allow(unused_unsafe, reason = "a barrier has no memory to promise anything about")]
        pub(crate) unsafe fn $blocking($($argument: $ty),*) -> Result<(), Raised> {
            let work = &mut |$process: &mut Process| {
                let $form = Start(stringify!($blocking));
                // SAFETY: the program keeps the procedure's contract until this call returns.
                unsafe { $start }
            };
            blocking(concat!("MPI_", $name), work)
        }
        #[doc = concat!("The nonblocking form of `MPI_", $name, "` (section 6.12; on neighbourhoods section 8.7).")]
        #[allow(unused_unsafe, reason = "a barrier has no memory to promise anything about")]
        pub(crate) unsafe fn $nonblocking($($argument: $ty,)* request: *mut MPI_Request) -> Result<(), Raised> {
            let in_lane = &mut |$process: &mut Known| {
                let $form = StartInLane;
                // SAFETY: the program keeps the procedure's contract until the request is complete.
                unsafe { $start }
            };
            let work = &mut |$process: &mut Process| {
                let $form = Start(stringify!($nonblocking));
                // SAFETY: as above.
                unsafe { $start }
            };
            // SAFETY: the entry has refused a null request.
            unsafe { nonblocking(request, $comm, in_lane, work) }
        }
        #[doc = concat!("The persistent form of `MPI_", $name, "` (section 6.13; on neighbourhoods section 8.8).")]
        #[allow(unused_unsafe, reason = "a barrier has no memory to promise anything about")]
        pub(crate) unsafe fn $persistent(
            $($argument: $ty,)* info: MPI_Info, request: *mut MPI_Request
        ) -> Result<(), Raised> {
            let check = &mut |$process: &mut Process| {
                let $form = Check(stringify!($persistent));
                // SAFETY: nothing is read or written.
                unsafe { $start }
            };
            let work = &mut |$process: &mut Process| {
                let $form = Keep;
                // SAFETY: the program keeps the procedure's contract while a started request is under way.
                unsafe { $start }
            };
            // SAFETY: the entry has refused a null request.
            unsafe { persistent(concat!("MPI_", $name, "_init"), info, request, check, work) }
        }
    )*};
}

pub(super) use operations;
