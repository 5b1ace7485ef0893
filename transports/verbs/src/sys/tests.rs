//! Our structures and numbers are those of the installed header: a C program prints the header's, and each is compared.

use super::cm::*;
use super::*;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// What the header says of `expression`, and what we do.
struct Fact {
    expression: String,
    ours: u64,
}

macro_rules! facts {
    ($list:ident; $($what:tt $name:ident { $($field:ident $(. $inner:ident)*),* })*) => {
        $(
            if stringify!($what) == "all" {
                $list.push(Fact { expression: format!("sizeof(struct {})", stringify!($name)), ours: size_of::<$name>() as u64 });
                $list.push(Fact { expression: format!("_Alignof(struct {})", stringify!($name)), ours: align_of::<$name>() as u64 });
            }
            $($list.push(Fact {
                expression: concat!("offsetof(struct ", stringify!($name), ", ", stringify!($field) $(, ".", stringify!($inner))*, ")").to_owned(),
                ours: std::mem::offset_of!($name, $field $(. $inner)*) as u64,
            });)*
        )*
    };
}

macro_rules! numbers {
    ($list:ident; $($name:ident)*) => {
        $($list.push(Fact { expression: stringify!($name).to_owned(), ours: $name as u64 });)*
    };
}

fn facts() -> Vec<Fact> {
    let mut list = Vec::new();
    facts! { list;
        all ibv_device { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        all ibv_device_attr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr,
            device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
            max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp,
            max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr,
            max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt
        }
        some ibv_device_attr_ex { orig_attr, comp_mask, odp_caps, max_dm_size, pci_atomic_caps }
        all ibv_pci_atomic_caps { fetch_add, swap, compare_swap }
        all ibv_alloc_dm_attr { length, log_align_req, comp_mask }
        all ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle }
        all ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid,
            sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer,
            flags, port_cap_flags2
        }
        all ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits
        }
        all ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        all ibv_pd { context, handle }
        some ibv_cq { context, channel, cq_context, handle, cqe }
        some ibv_srq { context }
        some ibv_qp { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type }
        all ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        all ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        all ibv_srq_attr { max_wr, max_sge, srq_limit }
        all ibv_srq_init_attr { srq_context, attr }
        all ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        all ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        all ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr,
            alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic,
            min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit
        }
        all ibv_sge { addr, length, lkey }
        all ibv_send_wr {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr, wr.rdma.remote_addr, wr.rdma.rkey,
            wr.atomic.remote_addr, wr.atomic.compare_add, wr.atomic.swap, wr.atomic.rkey, wr.ud.ah, wr.ud.remote_qpn,
            wr.ud.remote_qkey, qp_type
        }
        all ibv_recv_wr { wr_id, next, sg_list, num_sge }
        all ibv_comp_channel { context, fd, refcnt }
        all ibv_context_ops { poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv }
        all ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
    }
    numbers! { list;
        IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_LOC_QP_OP_ERR IBV_WC_LOC_PROT_ERR IBV_WC_WR_FLUSH_ERR IBV_WC_LOC_ACCESS_ERR
        IBV_WC_REM_INV_REQ_ERR IBV_WC_REM_ACCESS_ERR IBV_WC_RETRY_EXC_ERR IBV_WC_RNR_RETRY_EXC_ERR IBV_WC_REM_INV_RD_REQ_ERR
        IBV_WC_FATAL_ERR IBV_WC_RESP_TIMEOUT_ERR IBV_WC_GENERAL_ERR
        IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ IBV_WC_COMP_SWAP IBV_WC_FETCH_ADD IBV_WC_RECV_RDMA_WITH_IMM
        IBV_WC_WITH_IMM
        IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND IBV_WR_SEND_WITH_IMM IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP
        IBV_WR_ATOMIC_FETCH_AND_ADD
        IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED IBV_SEND_INLINE
        IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_ATOMIC IBV_ACCESS_ZERO_BASED IBV_ACCESS_ON_DEMAND
        IBV_ACCESS_RELAXED_ORDERING
        IBV_QPT_RC IBV_QPT_UD IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQE IBV_QPS_ERR
        IBV_QP_STATE IBV_QP_CUR_STATE IBV_QP_ACCESS_FLAGS IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_QKEY IBV_QP_AV IBV_QP_PATH_MTU IBV_QP_TIMEOUT
        IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC IBV_QP_MIN_RNR_TIMER IBV_QP_SQ_PSN
        IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_DEST_QPN
        IBV_PORT_ACTIVE IBV_ATOMIC_NONE IBV_ATOMIC_GLOB IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP
        IBV_ODP_SUPPORT IBV_ODP_SUPPORT_SEND IBV_ODP_SUPPORT_RECV IBV_ODP_SUPPORT_WRITE IBV_ODP_SUPPORT_READ IBV_ODP_SUPPORT_ATOMIC
        IBV_ODP_SUPPORT_SRQ_RECV IBV_FORK_DISABLED
    }
    // What has another name, or none, in the header.
    let mut other = |expression: &str, ours: usize| {
        list.push(Fact { expression: expression.to_owned(), ours: ours as u64 });
    };
    other("sizeof(union ibv_gid)", size_of::<ibv_gid>());
    other("_Alignof(union ibv_gid)", align_of::<ibv_gid>());
    other("sizeof(struct ibv_odp_caps)", size_of::<ibv_odp_caps>());
    other(
        "offsetof(struct ibv_odp_caps, per_transport_caps.rc_odp_caps)",
        std::mem::offset_of!(ibv_odp_caps, rc_odp_caps),
    );
    // From its end, since it grows at its beginning.
    macro_rules! from_the_end {
        ($($field:ident)*) => {
            $(other(
                concat!("sizeof(struct verbs_context) - offsetof(struct verbs_context, ", stringify!($field), ")"),
                size_of::<verbs_context_end>() - std::mem::offset_of!(verbs_context_end, $field),
            );)*
        };
    }
    from_the_end! { reg_dm_mr alloc_dm free_dm query_device_ex sz context }
    other("(unsigned long)__VERBS_ABI_IS_EXTENDED", EXTENDED);
    list
}

fn facts_of_the_manager() -> Vec<Fact> {
    let mut list = Vec::new();
    facts! { list;
        all rdma_event_channel { fd }
        all sockaddr_ib { sib_family, sib_pkey, sib_flowinfo, sib_addr, sib_sid, sib_sid_mask, sib_scope_id }
        all rdma_ib_addr { sgid, dgid, pkey }
        all rdma_addr { src_storage, dst_storage, addr }
        all ibv_sa_path_rec {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible, numb_path, pkey, sl, mtu_selector, mtu,
            rate_selector, rate, packet_life_time_selector, packet_life_time, preference
        }
        all rdma_route { addr, path_rec, num_paths }
        all rdma_cm_id {
            verbs, channel, context, qp, route, ps, port_num, event, send_cq_channel, send_cq, recv_cq_channel, recv_cq, srq, pd, qp_type
        }
        all rdma_ud_param { private_data, private_data_len, ah_attr, qp_num, qkey }
        all rdma_cm_event { id, listen_id, event, status, param }
    }
    numbers! { list;
        AF_IB RDMA_PS_TCP RDMA_PS_IB RDMA_CM_EVENT_ADDR_RESOLVED RDMA_CM_EVENT_ADDR_ERROR RDMA_CM_EVENT_ROUTE_RESOLVED
        RDMA_CM_EVENT_ROUTE_ERROR RDMA_OPTION_ID RDMA_OPTION_ID_TOS
    }
    list
}

#[test]
fn every_field_and_number_is_that_of_the_installed_header() {
    compare("verbs", &["infiniband/verbs.h"], "libibverbs-dev", &facts());
}

#[test]
fn every_field_and_number_of_the_manager_is_that_of_the_installed_headers() {
    compare("cma", &["rdma/rdma_cma.h", "infiniband/ib.h"], "librdmacm-dev", &facts_of_the_manager());
}

/// Compares with what a C program says of these headers, of a package of Debian; says so where there are none.
fn compare(name: &str, headers: &[&str], package: &str, facts: &[Fact]) {
    let folder = std::env::temp_dir().join(format!("weft-{name}-header-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let clean_up = |text: &str| {
        let _ = std::fs::remove_dir_all(&folder);
        println!("skip: {text}");
    };
    let found = Command::new("cc")
        .arg("-E")
        .args(headers.iter().flat_map(|header| ["-include", header]))
        .args(["-xc", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => {}
        Ok(_) => {
            return clean_up(&format!("no {} to compare with (Debian: {package})", headers.join(" and ")));
        }
        Err(error) => return clean_up(&format!("no C compiler to read {} with: {error}", headers[0])),
    }
    let mut program = String::from("#include <stdio.h>\n#include <stddef.h>\n");
    for header in headers {
        writeln!(program, "#include <{header}>").unwrap();
    }
    program.push_str("int main(void) {\n");
    for fact in facts {
        writeln!(program, "    printf(\"%lu\\n\", (unsigned long)({}));", fact.expression).unwrap();
    }
    program.push_str("    return 0;\n}\n");
    std::fs::write(folder.join("header.c"), program).unwrap();
    let built =
        Command::new("cc").current_dir(&folder).args(["-w", "-o", "header", "header.c"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(folder.join("header")).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let theirs: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(theirs.len(), facts.len());
    let wrong: Vec<String> = facts
        .iter()
        .zip(theirs)
        .filter(|(fact, theirs)| fact.ours != *theirs)
        .map(|(fact, theirs)| format!("{}: the header says {theirs}, we {}", fact.expression, fact.ours))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} fields, sizes and numbers compared", facts.len());
}
