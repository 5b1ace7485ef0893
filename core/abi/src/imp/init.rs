//! Initialisation, finalisation, abort and thread levels of the World Model (sections 11.2, 11.4, 11.6).

use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use weft::environment::Requests;
use weft_engine::LAST_WORDS;
use weft_types::{Error, ErrorClass, Handle, abi};

use super::attributes;
use crate::ctypes::*;
use crate::gate;
use crate::raise::Raised;
use crate::watch::Awaited;

/// Held while the World Model starts or ends.
static CHANGING: Mutex<()> = Mutex::new(());
/// The thread level the World Model was given.
static LEVEL: AtomicI32 = AtomicI32::new(abi::MPI_THREAD_SINGLE);

const LEVELS: [(c_int, &str); 4] = [
    (abi::MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"),
    (abi::MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"),
    (abi::MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"),
    (abi::MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"),
];

/// `MPI_Init` (section 11.2.1).
pub(crate) unsafe fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<(), Raised> {
    start_world(abi::MPI_THREAD_SINGLE).map(drop)
}

/// `MPI_Init_thread` (section 11.2.1): every level is granted.
pub(crate) unsafe fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> Result<(), Raised> {
    let Some(&(level, _)) = LEVELS.iter().find(|(level, _)| *level == required) else {
        return Err(Error::new(
            ErrorClass::ARG,
            format!("required is {required}; it must be one of MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED, _MULTIPLE"),
        )
        .into());
    };
    let level = start_world(level)?;
    // SAFETY: the entry has refused null.
    unsafe { provided.write(level) };
    Ok(())
}

/// The level asked for when the program was launched (section 11.2.1): no call gets less.
fn least_level(requests: &Requests) -> c_int {
    let asked = requests.asked.iter().find(|(key, _)| key == "thread_level").map(|(_, value)| value.as_str());
    LEVELS.iter().find(|(_, name)| asked == Some(name)).map_or(abi::MPI_THREAD_SINGLE, |&(level, _)| level)
}

/// Starts the World Model; the thread level it has.
fn start_world(level: c_int) -> Result<c_int, Raised> {
    let _changing = CHANGING.lock();
    if gate::phase() & gate::INITIALIZED != 0 {
        return Err(Error::new(
            ErrorClass::OTHER,
            "MPI was initialised before; MPI_Init or MPI_Init_thread is called once in the life of a process (section 11.2.1)",
        )
        .into());
    }
    let opening = gate::opening()?;
    gate::start()?;
    gate::set_main_thread();
    let requests = gate::with(|process| process.job.requests());
    let level = level.max(least_level(&requests));
    LEVEL.store(level, Ordering::Relaxed);
    let several = match level {
        abi::MPI_THREAD_MULTIPLE => gate::LOCKED | gate::MULTIPLE | gate::ANY_THREAD,
        // One at a time, but a session may open beside it.
        abi::MPI_THREAD_SERIALIZED => gate::LOCKED,
        _ => 0,
    };
    gate::change_phase(several, 0);
    gate::agent::prepare();
    gate::lane_threads::prepare();
    gate::with(|process| {
        process.start_world();
        if gate::phase() & gate::MULTIPLE != 0 {
            process.allow_lanes();
        }
    });
    let environment = weft::environment::information(&requests, &[]);
    gate::always(|always| always.environment = Some(environment));
    gate::change_phase(gate::WORLD | gate::INITIALIZED, 0);
    gate::keep_company();
    opening.done();
    crate::departure::watch();
    gate::agent::opened();
    Ok(level)
}

/// `MPI_Finalize` (section 11.2.2): attributes of MPI_COMM_SELF go first, with MPI still working; then everything under way
/// is brought to its end, here and at the others.
pub(crate) unsafe fn finalize() -> Result<(), Raised> {
    let _changing = CHANGING.lock();
    if gate::phase() & gate::WORLD == 0 {
        return Err(Error::new(
            ErrorClass::OTHER,
            "MPI_Finalize ends what MPI_Init began, but the World Model is not active",
        )
        .into());
    }
    attributes::delete_all(Handle(abi::MPI_COMM_SELF))?;
    let quiet = |process: &mut weft::Process| process.is_quiet().then_some(());
    gate::wait_for("MPI_Finalize", Awaited::Quiet, or_given_up(quiet));
    super::collective::last_barrier("MPI_Finalize")?;
    // A barrier that was given up because a process is gone never becomes quiet.
    let quiet =
        |process: &mut weft::Process| if process.engine.knows_losses() { Some(()) } else { quiet(process) };
    gate::wait_for("MPI_Finalize", Awaited::Quiet, quiet);
    crate::leftovers::note_traffic();
    gate::agent::closing();
    gate::with(|process| process.end_world())?;
    gate::change_phase(gate::FINALIZED, gate::WORLD);
    Ok(())
}

/// What a process that ends MPI waits for: `quiet`, but once somebody is lost no longer than for its last words, because the
/// others may have gone without taking what is sent to them.
pub(super) fn or_given_up(
    mut quiet: impl FnMut(&mut weft::Process) -> Option<()>,
) -> impl FnMut(&mut weft::Process) -> Option<()> {
    let mut begun = None;
    move |process| {
        quiet(process).or_else(|| {
            if !process.knows_losses() {
                return None;
            }
            let since = begun.get_or_insert_with(Instant::now).elapsed();
            (since >= LAST_WORDS || process.is_quiet_since(since)).then_some(())
        })
    }
}

/// `MPI_Initialized` (section 11.2.3).
pub(crate) unsafe fn initialized(flag: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { flag.write(c_int::from(gate::phase() & gate::INITIALIZED != 0)) };
    Ok(())
}

/// `MPI_Finalized` (section 11.2.3).
pub(crate) unsafe fn finalized(flag: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { flag.write(c_int::from(gate::phase() & gate::FINALIZED != 0)) };
    Ok(())
}

/// `MPI_Query_thread` (section 11.2.1).
pub(crate) unsafe fn query_thread(provided: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { provided.write(LEVEL.load(Ordering::Relaxed)) };
    Ok(())
}

/// `MPI_Is_thread_main` (section 11.2.1).
pub(crate) unsafe fn is_thread_main(flag: *mut c_int) -> Result<(), Raised> {
    // SAFETY: the entry has refused null.
    unsafe { flag.write(c_int::from(gate::is_main_thread())) };
    Ok(())
}

/// `MPI_Abort` (section 11.4.2): ends the processes of the communicator where the others can go on, otherwise the job;
/// `errorcode` becomes the exit code of mpiexec.
pub(crate) unsafe fn abort(comm: MPI_Comm, errorcode: c_int) -> Result<(), Raised> {
    let (rank, name) = gate::with(|process| {
        let name = process.comms.get(comm.handle()).map(|comm| comm.display_name());
        (process.job.rank, name.unwrap_or_else(|_| "an invalid communicator".to_owned()))
    });
    let text = format!("rank {rank} called MPI_Abort on {name} with error code {errorcode}");
    let code = if errorcode != 0 && errorcode & 0xff == 0 { 1 } else { errorcode & 0xff };
    match gate::with(|process| process.abort_scope(comm.handle())) {
        Some(ranks) => gate::abort_ranks(code, &text, &ranks),
        None => gate::abort(code, &text),
    }
}
