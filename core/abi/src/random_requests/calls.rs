//! The entry points as a C program links them, and the threads that call them one after the other.

use std::ffi::{c_char, c_int, c_void};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::ctypes::*;

macro_rules! entries {
    ($($entry:ident($($argument:ty),*);)*) => {
        unsafe extern "C" {
            $(pub(super) fn $entry($(_: $argument),*) -> c_int;)*
        }
    };
}

entries! {
    PMPI_Init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    PMPI_Finalize();
    PMPI_Comm_dup(MPI_Comm, *mut MPI_Comm);
    PMPI_Comm_idup(MPI_Comm, *mut MPI_Comm, *mut MPI_Request);
    PMPI_Comm_free(*mut MPI_Comm);
    PMPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler);
    PMPI_Add_error_code(c_int, *mut c_int);
    PMPI_Error_class(c_int, *mut c_int);
    PMPI_Isend(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
    PMPI_Issend(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
    PMPI_Irecv(*mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
    PMPI_Send_init(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
    PMPI_Ssend_init(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
    PMPI_Recv_init(*mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Request);
    PMPI_Psend_init(
        *const c_void, c_int, MPI_Count, MPI_Datatype, c_int, c_int, MPI_Comm, MPI_Info, *mut MPI_Request
    );
    PMPI_Precv_init(
        *mut c_void, c_int, MPI_Count, MPI_Datatype, c_int, c_int, MPI_Comm, MPI_Info, *mut MPI_Request
    );
    PMPI_Isendrecv(
        *const c_void, c_int, MPI_Datatype, c_int, c_int, *mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm,
        *mut MPI_Request
    );
    PMPI_Ibarrier(MPI_Comm, *mut MPI_Request);
    PMPI_Barrier_init(MPI_Comm, MPI_Info, *mut MPI_Request);
    PMPI_Send(*const c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm);
    PMPI_Recv(*mut c_void, c_int, MPI_Datatype, c_int, c_int, MPI_Comm, *mut MPI_Status);
    PMPI_Iprobe(c_int, c_int, MPI_Comm, *mut c_int, *mut MPI_Status);
    PMPI_Start(*mut MPI_Request);
    PMPI_Pready(c_int, MPI_Request);
    PMPI_Cancel(*mut MPI_Request);
    PMPI_Request_free(*mut MPI_Request);
    PMPI_Grequest_start(
        MPI_Grequest_query_function, MPI_Grequest_free_function, MPI_Grequest_cancel_function, *mut c_void,
        *mut MPI_Request
    );
    PMPI_Grequest_complete(MPI_Request);
    PMPI_Status_set_elements(*mut MPI_Status, MPI_Datatype, c_int);
    PMPI_Status_set_cancelled(*mut MPI_Status, c_int);
    PMPI_Get_count(*const MPI_Status, MPI_Datatype, *mut c_int);
    PMPI_Test_cancelled(*const MPI_Status, *mut c_int);
    PMPI_Wait(*mut MPI_Request, *mut MPI_Status);
    PMPI_Test(*mut MPI_Request, *mut c_int, *mut MPI_Status);
    PMPI_Waitany(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status);
    PMPI_Testany(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status);
    PMPI_Waitall(c_int, *mut MPI_Request, *mut MPI_Status);
    PMPI_Testall(c_int, *mut MPI_Request, *mut c_int, *mut MPI_Status);
    PMPI_Waitsome(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status);
    PMPI_Testsome(c_int, *mut MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status);
    PMPI_Request_get_status(MPI_Request, *mut c_int, *mut MPI_Status);
    PMPI_Request_get_status_any(c_int, *const MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status);
    PMPI_Request_get_status_all(c_int, *const MPI_Request, *mut c_int, *mut MPI_Status);
    PMPI_Request_get_status_some(c_int, *const MPI_Request, *mut c_int, *mut c_int, *mut MPI_Status);
}

type Work = Box<dyn FnOnce() + Send>;

/// A second thread, which makes calls for the first one while that waits: an interleaving, always the same for a seed.
pub(super) struct Second {
    work: Sender<Work>,
    done: Receiver<()>,
}

/// Arguments that the first thread lends the second one.
struct Lent<T>(T);

// SAFETY: the first thread waits until the second is done with them.
unsafe impl<T> Send for Lent<T> {}

impl Second {
    pub(super) fn start() -> Second {
        let (work, works) = channel::<Work>();
        let (ended, done) = channel();
        std::thread::spawn(move || {
            for work in works {
                work();
                if ended.send(()).is_err() {
                    return;
                }
            }
        });
        Second { work, done }
    }

    /// Makes a call there and does something here meanwhile, then waits for the call's end.
    pub(super) fn call(&self, call: impl FnOnce() -> c_int, meanwhile: impl FnOnce()) -> c_int {
        let mut code = 0;
        let mut lent = Lent((Some(call), &raw mut code));
        let place = Lent(&raw mut lent);
        let work: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            let place = place;
            // SAFETY: the first thread keeps it until it hears that this is over.
            let Lent((call, code)) = unsafe { &mut *place.0 };
            let call = call.take().expect("made once");
            // SAFETY: as above.
            unsafe { code.write(call()) };
        });
        // SAFETY: only the lifetime changes, and the work is over before this returns; what panics ends the process.
        let work = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Work>(work) };
        let ends = EndsWithPanic;
        self.work.send(work).expect("the second thread lives");
        meanwhile();
        self.done.recv().expect("the call ends");
        std::mem::forget(ends);
        code
    }
}

/// Ends the process when it is dropped: the other thread works with what is dropped after it.
struct EndsWithPanic;

impl Drop for EndsWithPanic {
    fn drop(&mut self) {
        std::process::exit(1);
    }
}
