//! Declarations of `fi_collective.h`, and of the event queue that tells of joined groups.

use super::{Layout, Unused, fid, fid_ep};
use std::ffi::{c_int, c_void};

structures! {
    COLLECTIVE_LAYOUTS;
    fi_eq_attr {
        size: usize,
        flags: u64,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_set: *mut c_void,
    }
    fid_eq {
        fid: fid,
        ops: *const fi_ops_eq,
    }
    fi_ops_eq {
        size: usize,
        read: Option<unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize>,
        readerr: Option<unsafe extern "C" fn(*mut fid_eq, *mut fi_eq_err_entry, u64) -> isize>,
        write: Unused,
        sread: Unused,
        strerror: Unused,
    }
    fi_eq_entry {
        fid: *mut fid,
        context: *mut c_void,
        data: u64,
    }
    fi_eq_err_entry {
        fid: *mut fid,
        context: *mut c_void,
        data: u64,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
    fi_av_set_attr {
        count: usize,
        start_addr: u64,
        end_addr: u64,
        stride: u64,
        comm_key_size: usize,
        comm_key: *mut u8,
        flags: u64,
    }
    fid_av_set {
        fid: fid,
        ops: *const fi_ops_av_set,
    }
    fi_ops_av_set {
        size: usize,
        set_union: Unused,
        intersect: Unused,
        diff: Unused,
        insert: Unused,
        remove: Unused,
        addr: Option<unsafe extern "C" fn(*mut fid_av_set, *mut u64) -> c_int>,
    }
    fid_mc {
        fid: fid,
        fi_addr: u64,
    }
    fi_collective_addr {
        set: *const fid_av_set,
        coll_addr: u64,
    }
    fi_atomic_attr {
        count: usize,
        size: usize,
    }
    fi_collective_attr {
        op: u32,
        datatype: u32,
        datatype_attr: fi_atomic_attr,
        max_members: usize,
        mode: u64,
    }
    fi_ops_collective {
        size: usize,
        barrier: Option<unsafe extern "C" fn(*mut fid_ep, u64, *mut c_void) -> isize>,
        broadcast: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *mut c_void, usize, *mut c_void, u64, u64, u32, u64, *mut c_void,
            ) -> isize,
        >,
        alltoall: Unused,
        allreduce: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, u64, u32, u32, u64,
                *mut c_void,
            ) -> isize,
        >,
        allgather: Unused,
        reduce_scatter: Unused,
        reduce: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, u64, u64, u32, u32,
                u64, *mut c_void,
            ) -> isize,
        >,
        scatter: Unused,
        gather: Unused,
        msg: Unused,
        barrier2: Unused,
    }
}

constants! {
    COLLECTIVE_CONSTANTS;
    FI_JOIN_COMPLETE: u32 = 6;
    FI_BARRIER: u32 = 0;
    FI_BROADCAST: u32 = 1;
    FI_ALLREDUCE: u32 = 3;
    FI_REDUCE: u32 = 6;
    FI_INT8: u32 = 0;
    FI_UINT8: u32 = 1;
    FI_INT16: u32 = 2;
    FI_UINT16: u32 = 3;
    FI_INT32: u32 = 4;
    FI_INT64: u32 = 6;
    FI_FLOAT: u32 = 8;
    FI_DOUBLE: u32 = 9;
    FI_VOID: u32 = 256;
    FI_MIN: u32 = 0;
    FI_MAX: u32 = 1;
    FI_PROD: u32 = 3;
    FI_LOR: u32 = 4;
    FI_LAND: u32 = 5;
    FI_BOR: u32 = 6;
    FI_BAND: u32 = 7;
    FI_LXOR: u32 = 8;
    FI_BXOR: u32 = 9;
}
