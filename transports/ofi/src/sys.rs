//! The part of libfabric's binary interface that is used here, at the level of symbol version `FABRIC_1.3`.
//!
//! Every declaration is made by a macro that also keeps its layout as data ([`LAYOUTS`], [`CONSTANTS`]); the test `headers`
//! compares that with what a C compiler says of the installed headers. Later versions of the library let structures grow at
//! their end only, so none is ever allocated here but those that the interface takes by value of their fields ([`fi_cq_attr`]
//! and such).
#![allow(
    non_camel_case_types,
    missing_docs,
    reason = "the names of the C interface; its manual says what they mean"
)]

use std::ffi::{c_char, c_int, c_void};

/// Layout of a declared structure: name, bytes, and the offset of every field.
pub type Layout = (&'static str, usize, &'static [(&'static str, usize)]);

macro_rules! structures {
    ($list:ident; $($name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name { $(pub $field: $type,)* }
        )*
        /// What is declared here, to be compared with the C headers.
        pub const $list: &[Layout] = &[
            $((
                stringify!($name),
                size_of::<$name>(),
                &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*],
            ),)*
        ];
    };
}

macro_rules! constants {
    ($list:ident; $($name:ident: $type:ty = $value:expr;)*) => {
        $(pub const $name: $type = $value;)*
        /// What is declared here, to be compared with the C headers.
        pub const $list: &[(&str, u64)] = &[$((stringify!($name), $name as u64),)*];
    };
}

/// An entry of a table that is not called from here.
type Unused = Option<unsafe extern "C" fn()>;
/// An optional text of the library.
type Text = *const c_char;

mod collective;
pub use collective::*;

structures! {
    LAYOUTS;
    fi_info {
        next: *mut fi_info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: usize,
        dest_addrlen: usize,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: *mut fid,
        tx_attr: *mut fi_tx_attr,
        rx_attr: *mut fi_rx_attr,
        ep_attr: *mut fi_ep_attr,
        domain_attr: *mut fi_domain_attr,
        fabric_attr: *mut fi_fabric_attr,
        nic: *mut fid_nic,
    }
    fi_tx_attr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: usize,
        size: usize,
        iov_limit: usize,
        rma_iov_limit: usize,
        tclass: u32,
    }
    fi_rx_attr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: usize,
        size: usize,
        iov_limit: usize,
    }
    fi_ep_attr {
        r#type: u32,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
        msg_prefix_size: usize,
        max_order_raw_size: usize,
        max_order_war_size: usize,
        max_order_waw_size: usize,
        mem_tag_format: u64,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        auth_key_size: usize,
        auth_key: *mut u8,
    }
    fi_domain_attr {
        domain: *mut fid_domain,
        name: *mut c_char,
        threading: u32,
        control_progress: u32,
        data_progress: u32,
        resource_mgmt: u32,
        av_type: u32,
        mr_mode: c_int,
        mr_key_size: usize,
        cq_data_size: usize,
        cq_cnt: usize,
        ep_cnt: usize,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize,
        max_ep_stx_ctx: usize,
        max_ep_srx_ctx: usize,
        cntr_cnt: usize,
        mr_iov_limit: usize,
        caps: u64,
        mode: u64,
        auth_key: *mut u8,
        auth_key_size: usize,
        max_err_data: usize,
        mr_cnt: usize,
        tclass: u32,
    }
    fi_fabric_attr {
        fabric: *mut fid_fabric,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }
    fi_pci_attr {
        domain_id: u16,
        bus_id: u8,
        device_id: u8,
        function_id: u8,
    }
    fi_bus_attr {
        bus_type: u32,
        attr: fi_pci_attr,
    }
    fi_link_attr {
        address: *mut c_char,
        mtu: usize,
        speed: usize,
        state: u32,
        network_type: *mut c_char,
    }
    fid {
        fclass: usize,
        context: *mut c_void,
        ops: *const fi_ops,
    }
    fi_ops {
        size: usize,
        close: Option<unsafe extern "C" fn(*mut fid) -> c_int>,
        bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
        control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
        ops_open: Unused,
        tostr: Unused,
        ops_set: Unused,
    }
    fid_nic {
        fid: fid,
        device_attr: *mut c_void,
        bus_attr: *mut fi_bus_attr,
        link_attr: *mut fi_link_attr,
        prov_attr: *mut c_void,
    }
    fid_fabric {
        fid: fid,
        ops: *const fi_ops_fabric,
        api_version: u32,
    }
    fi_ops_fabric {
        size: usize,
        domain: Option<
            unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
        >,
        passive_ep: Unused,
        eq_open: Option<
            unsafe extern "C" fn(*mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void) -> c_int,
        >,
        wait_open: Unused,
        trywait: Option<unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int>,
        domain2: Unused,
    }
    fid_domain {
        fid: fid,
        ops: *const fi_ops_domain,
        mr: *const fi_ops_mr,
    }
    fi_ops_domain {
        size: usize,
        av_open: Option<
            unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int,
        >,
        cq_open: Option<
            unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
        >,
        endpoint: Option<
            unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
        >,
        scalable_ep: Unused,
        cntr_open: Unused,
        poll_open: Unused,
        stx_ctx: Unused,
        srx_ctx: Unused,
        query_atomic: Unused,
        query_collective: Option<
            unsafe extern "C" fn(*mut fid_domain, u32, *mut fi_collective_attr, u64) -> c_int,
        >,
        endpoint2: Unused,
    }
    fi_ops_mr {
        size: usize,
        reg: Option<
            unsafe extern "C" fn(
                *mut fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut fid_mr, *mut c_void,
            ) -> c_int,
        >,
        regv: Unused,
        regattr: Unused,
    }
    fid_mr {
        fid: fid,
        mem_desc: *mut c_void,
        key: u64,
    }
    fi_av_attr {
        r#type: u32,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: Text,
        map_addr: *mut c_void,
        flags: u64,
    }
    fid_av {
        fid: fid,
        ops: *const fi_ops_av,
    }
    fi_ops_av {
        size: usize,
        insert: Option<
            unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
        >,
        insertsvc: Unused,
        insertsym: Unused,
        remove: Option<unsafe extern "C" fn(*mut fid_av, *mut u64, usize, u64) -> c_int>,
        lookup: Unused,
        straddr: Unused,
        av_set: Option<
            unsafe extern "C" fn(*mut fid_av, *mut fi_av_set_attr, *mut *mut fid_av_set, *mut c_void) -> c_int,
        >,
    }
    fi_cq_attr {
        size: usize,
        flags: u64,
        format: u32,
        wait_obj: u32,
        signaling_vector: c_int,
        wait_cond: u32,
        wait_set: *mut c_void,
    }
    fid_cq {
        fid: fid,
        ops: *const fi_ops_cq,
    }
    fi_ops_cq {
        size: usize,
        read: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize>,
        readfrom: Unused,
        readerr: Option<unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize>,
        sread: Unused,
        sreadfrom: Unused,
        signal: Unused,
        strerror: Option<
            unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
        >,
    }
    fi_cq_msg_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
    }
    fi_cq_err_entry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
    fid_ep {
        fid: fid,
        ops: *const fi_ops_ep,
        cm: *const fi_ops_cm,
        msg: *const fi_ops_msg,
        rma: *const fi_ops_rma,
        tagged: *const fi_ops_tagged,
        atomic: *const fi_ops_atomic,
        collective: *const fi_ops_collective,
    }
    fi_ops_ep {
        size: usize,
        cancel: Unused,
        getopt: Unused,
        setopt: Option<unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int>,
        tx_ctx: Unused,
        rx_ctx: Unused,
        rx_size_left: Unused,
        tx_size_left: Unused,
    }
    fi_ops_cm {
        size: usize,
        setname: Unused,
        getname: Option<unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int>,
        getpeer: Unused,
        connect: Unused,
        listen: Unused,
        accept: Unused,
        reject: Unused,
        shutdown: Unused,
        join: Option<
            unsafe extern "C" fn(*mut fid_ep, *const c_void, u64, *mut *mut fid_mc, *mut c_void) -> c_int,
        >,
    }
    fi_ops_msg {
        size: usize,
        recv: Option<
            unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        >,
        recvv: Unused,
        recvmsg: Unused,
        send: Option<
            unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        >,
        sendv: Unused,
        sendmsg: Unused,
        inject: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64) -> isize>,
        senddata: Unused,
        injectdata: Unused,
    }
    fi_ops_tagged {
        size: usize,
        recv: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
            ) -> isize,
        >,
        recvv: Unused,
        recvmsg: Unused,
        send: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *const c_void, usize, *mut c_void, u64, u64, *mut c_void,
            ) -> isize,
        >,
        sendv: Unused,
        sendmsg: Unused,
        inject: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, u64) -> isize>,
        senddata: Unused,
        injectdata: Unused,
    }
    fi_ops_rma {
        size: usize,
        read: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
            ) -> isize,
        >,
        readv: Unused,
        readmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
        write: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
            ) -> isize,
        >,
        writev: Unused,
        writemsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
        inject: Unused,
        writedata: Unused,
        injectdata: Unused,
    }
    fi_rma_iov {
        addr: u64,
        len: usize,
        key: u64,
    }
    fi_msg_rma {
        msg_iov: *const libc::iovec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: u64,
        rma_iov: *const fi_rma_iov,
        rma_iov_count: usize,
        context: *mut c_void,
        data: u64,
    }
    fi_ops_atomic {
        size: usize,
        write: Unused,
        writev: Unused,
        writemsg: Unused,
        inject: Unused,
        readwrite: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, u64, u64, u64, u32,
                u32, *mut c_void,
            ) -> isize,
        >,
        readwritev: Unused,
        readwritemsg: Unused,
        compwrite: Option<
            unsafe extern "C" fn(
                *mut fid_ep, *const c_void, usize, *mut c_void, *const c_void, *mut c_void, *mut c_void,
                *mut c_void, u64, u64, u64, u32, u32, *mut c_void,
            ) -> isize,
        >,
        compwritev: Unused,
        compwritemsg: Unused,
        writevalid: Unused,
        readwritevalid:
            Option<unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int>,
        compwritevalid:
            Option<unsafe extern "C" fn(*mut fid_ep, u32, u32, *mut usize) -> c_int>,
    }
    fi_context2 {
        internal: [*mut c_void; 8],
    }
}

constants! {
    CONSTANTS;
    FI_MSG: u64 = 1 << 1;
    FI_RMA: u64 = 1 << 2;
    FI_TAGGED: u64 = 1 << 3;
    FI_ATOMIC: u64 = 1 << 4;
    FI_COLLECTIVE: u64 = 1 << 6;
    FI_READ: u64 = 1 << 8;
    FI_WRITE: u64 = 1 << 9;
    FI_RECV: u64 = 1 << 10;
    FI_SEND: u64 = 1 << 11;
    FI_TRANSMIT: u64 = 1 << 11;
    FI_REMOTE_READ: u64 = 1 << 12;
    FI_REMOTE_WRITE: u64 = 1 << 13;
    FI_TRIGGER: u64 = 1 << 20;
    FI_DELIVERY_COMPLETE: u64 = 1 << 28;
    FI_LOCAL_COMM: u64 = 1 << 51;
    FI_REMOTE_COMM: u64 = 1 << 52;
    FI_CONTEXT: u64 = 1 << 59;
    FI_CONTEXT2: u64 = 1 << 52;
    FI_MSG_PREFIX: u64 = 1 << 58;
    FI_ASYNC_IOV: u64 = 1 << 57;
    FI_RX_CQ_DATA: u64 = 1 << 56;
    FI_LOCAL_MR: u64 = 1 << 55;
    FI_NOTIFY_FLAGS_ONLY: u64 = 1 << 54;
    FI_RESTRICTED_COMP: u64 = 1 << 53;
    FI_BUFFERED_RECV: u64 = 1 << 51;
    FI_MR_BASIC: c_int = 1 << 0;
    FI_MR_SCALABLE: c_int = 1 << 1;
    FI_MR_LOCAL: c_int = 1 << 2;
    FI_MR_RAW: c_int = 1 << 3;
    FI_MR_VIRT_ADDR: c_int = 1 << 4;
    FI_MR_ALLOCATED: c_int = 1 << 5;
    FI_MR_PROV_KEY: c_int = 1 << 6;
    FI_MR_MMU_NOTIFY: c_int = 1 << 7;
    FI_MR_RMA_EVENT: c_int = 1 << 8;
    FI_MR_ENDPOINT: c_int = 1 << 9;
    FI_MR_HMEM: c_int = 1 << 10;
    FI_MR_COLLECTIVE: c_int = 1 << 11;
    FI_ORDER_RAR: u64 = 1 << 0;
    FI_ORDER_RAW: u64 = 1 << 1;
    FI_ORDER_WAW: u64 = 1 << 4;
    FI_ORDER_SAW: u64 = 1 << 7;
    FI_ORDER_SAS: u64 = 1 << 8;
    FI_EP_RDM: u32 = 3;
    FI_PROTO_RXM: u32 = 11;
    FI_PROTO_RXD: u32 = 12;
    FI_PROTO_RXM_TCP: u32 = 22;
    FI_PROTO_XNET: u32 = 25;
    FI_SOCKADDR: u32 = 1;
    FI_SOCKADDR_IN: u32 = 2;
    FI_SOCKADDR_IN6: u32 = 3;
    FI_SOCKADDR_IB: u32 = 4;
    FI_ADDR_IB_UD: u32 = 11;
    FI_ADDR_PSMX2: u32 = 10;
    FI_ADDR_STR: u32 = 9;
    FI_ADDR_EFA: u32 = 12;
    FI_ADDR_OPX: u32 = 14;
    FI_ADDR_CXI: u32 = 15;
    FI_AV_MAP: u32 = 1;
    FI_AV_TABLE: u32 = 2;
    FI_PROGRESS_AUTO: u32 = 1;
    FI_PROGRESS_MANUAL: u32 = 2;
    FI_THREAD_SAFE: u32 = 1;
    FI_THREAD_DOMAIN: u32 = 3;
    FI_RM_DISABLED: u32 = 1;
    FI_RM_ENABLED: u32 = 2;
    FI_BUS_PCI: u32 = 1;
    FI_LINK_DOWN: u32 = 1;
    FI_LINK_UP: u32 = 2;
    FI_WAIT_NONE: u32 = 0;
    FI_WAIT_FD: u32 = 3;
    FI_CQ_FORMAT_MSG: u32 = 2;
    FI_GETWAIT: c_int = 5;
    FI_ENABLE: c_int = 6;
    FI_UINT32: u32 = 5;
    FI_UINT64: u32 = 7;
    FI_SUM: u32 = 2;
    FI_CSWAP: u32 = 12;
    FI_ATOMIC_WRITE: u32 = 11;
    FI_EAGAIN: c_int = libc::EAGAIN;
    FI_ENODATA: c_int = libc::ENODATA;
    FI_ENOSYS: c_int = libc::ENOSYS;
    FI_EAVAIL: c_int = 259;
    FI_ECANCELED: c_int = libc::ECANCELED;
}

/// `FI_ADDR_UNSPEC`: from anybody.
pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

/// `FI_VERSION`.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}
