//! The structures of `ib::abi` compared with the C headers, where these are installed (libibverbs-dev, librdmacm-dev).

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ib::abi;

/// Lines `name in C, number in Rust`.
struct LayoutTable(Vec<(String, usize)>);

impl LayoutTable {
    fn size(&mut self, c: &str, rust: usize) {
        self.0.push((format!("sizeof({c})"), rust));
    }

    fn offset(&mut self, c: &str, field: &str, rust: usize) {
        self.0.push((format!("offsetof({c}, {field})"), rust));
    }

    fn value(&mut self, c: &str, rust: usize) {
        self.0.push((c.to_owned(), rust));
    }
}

/// Every field of a structure that is called in Rust as it is in C.
macro_rules! fields {
    ($table:ident, $c:literal, $rust:ident: $($field:ident)*) => {
        $($table.offset($c, stringify!($field), offset_of!(abi::$rust, $field));)*
    };
}

fn table() -> LayoutTable {
    let mut t = LayoutTable(Vec::new());
    // Structures that we make, or whose arrays we make, are of the very same size. Of events only the first arm of a
    // union is known here.
    t.size("struct ibv_device_attr", size_of::<abi::IbvDeviceAttr>());
    t.size("struct ibv_port_attr", size_of::<abi::IbvPortAttr>());
    t.size("union ibv_gid", size_of::<abi::IbvGid>());
    t.size("struct ibv_wc", size_of::<abi::IbvWc>());
    t.size("struct ibv_sge", size_of::<abi::IbvSge>());
    t.size("struct ibv_send_wr", size_of::<abi::IbvSendWr>());
    t.size("struct ibv_recv_wr", size_of::<abi::IbvRecvWr>());
    t.size("struct ibv_srq_init_attr", size_of::<abi::IbvSrqInitAttr>());
    t.size("struct ibv_qp_init_attr", size_of::<abi::IbvQpInitAttr>());
    t.size("struct ibv_qp_attr", size_of::<abi::IbvQpAttr>());
    t.size("struct ibv_async_event", size_of::<abi::IbvAsyncEvent>());
    t.size("struct rdma_conn_param", size_of::<abi::RdmaConnParam>());
    t.size("struct ibv_context_ops", size_of::<abi::IbvContextOps>());
    t.size("struct rdma_route", size_of::<abi::RdmaRoute>());
    fields!(t, "struct ibv_device", IbvDevice: node_type transport_type name dev_name dev_path ibdev_path);
    fields!(t, "struct ibv_context_ops", IbvContextOps: poll_cq req_notify_cq post_srq_recv post_send);
    fields!(t, "struct ibv_context", IbvContext: device ops cmd_fd async_fd num_comp_vectors);
    fields!(t, "struct ibv_device_attr", IbvDeviceAttr: fw_ver node_guid max_mr_size vendor_id max_qp max_qp_wr max_sge max_cq max_cqe
        max_mr max_pd max_qp_rd_atom max_qp_init_rd_atom atomic_cap max_srq max_srq_wr max_pkeys phys_port_cnt);
    fields!(t, "struct ibv_port_attr", IbvPortAttr: state max_mtu active_mtu gid_tbl_len max_msg_sz pkey_tbl_len lid phys_state link_layer
        port_cap_flags2);
    fields!(t, "struct ibv_pd", IbvPd: context handle);
    fields!(t, "struct ibv_mr", IbvMr: context pd addr length handle lkey rkey);
    fields!(t, "struct ibv_comp_channel", IbvCompChannel: context fd);
    fields!(t, "struct ibv_cq", IbvCq: context channel cq_context handle cqe);
    fields!(t, "struct ibv_wc", IbvWc: wr_id status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags pkey_index slid sl);
    fields!(t, "struct ibv_sge", IbvSge: addr length lkey);
    fields!(t, "struct ibv_send_wr", IbvSendWr: wr_id next sg_list num_sge opcode send_flags imm_data);
    t.offset("struct ibv_send_wr", "wr.rdma.remote_addr", offset_of!(abi::IbvSendWr, remote_addr));
    t.offset("struct ibv_send_wr", "wr.rdma.rkey", offset_of!(abi::IbvSendWr, rkey));
    fields!(t, "struct ibv_recv_wr", IbvRecvWr: wr_id next sg_list num_sge);
    fields!(t, "struct ibv_srq", IbvSrq: context srq_context pd handle);
    fields!(t, "struct ibv_srq_init_attr", IbvSrqInitAttr: srq_context);
    t.offset("struct ibv_srq_init_attr", "attr.max_wr", offset_of!(abi::IbvSrqInitAttr, max_wr));
    t.offset("struct ibv_srq_init_attr", "attr.max_sge", offset_of!(abi::IbvSrqInitAttr, max_sge));
    fields!(t, "struct ibv_qp", IbvQp: context qp_context pd send_cq recv_cq srq handle qp_num state qp_type);
    fields!(t, "struct ibv_qp_cap", IbvQpCap: max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data);
    fields!(t, "struct ibv_qp_init_attr", IbvQpInitAttr: qp_context send_cq recv_cq srq cap qp_type sq_sig_all);
    fields!(t, "struct ibv_qp_attr", IbvQpAttr: qp_state cap ah_attr alt_ah_attr pkey_index timeout retry_cnt rnr_retry rate_limit);
    fields!(t, "struct ibv_ah_attr", IbvAhAttr: dlid sl port_num);
    fields!(t, "struct ibv_async_event", IbvAsyncEvent: element event_type);
    fields!(t, "struct rdma_event_channel", RdmaEventChannel: fd);
    fields!(t, "struct rdma_cm_id", RdmaCmId: verbs channel context qp route ps port_num);
    t.offset("struct rdma_route", "addr.src_storage", offset_of!(abi::RdmaRoute, src_addr));
    t.offset("struct rdma_route", "addr.dst_storage", offset_of!(abi::RdmaRoute, dst_addr));
    fields!(t, "struct rdma_conn_param", RdmaConnParam: private_data private_data_len responder_resources initiator_depth flow_control
        retry_count rnr_retry_count srq qp_num);
    fields!(t, "struct rdma_cm_event", RdmaCmEvent: id listen_id event status);
    t.offset("struct rdma_cm_event", "param.conn", offset_of!(abi::RdmaCmEvent, conn));
    // What rsockets take is of the system's; how their calls take it stands in `PROTOTYPES`.
    t.size("struct pollfd", size_of::<libc::pollfd>());
    t.size("struct msghdr", size_of::<libc::msghdr>());
    t.offset("struct msghdr", "msg_iov", offset_of!(libc::msghdr, msg_iov));
    t.offset("struct msghdr", "msg_iovlen", offset_of!(libc::msghdr, msg_iovlen));
    t.size("nfds_t", size_of::<libc::nfds_t>());
    t.size("socklen_t", size_of::<libc::socklen_t>());
    t
}

fn values(t: &mut LayoutTable) {
    for (c, rust) in [
        ("IBV_ACCESS_LOCAL_WRITE", abi::ACCESS_LOCAL_WRITE as u32),
        ("IBV_ACCESS_REMOTE_WRITE", abi::ACCESS_REMOTE_WRITE as u32),
        ("IBV_ACCESS_REMOTE_READ", abi::ACCESS_REMOTE_READ as u32),
        ("IBV_SEND_SIGNALED", abi::SEND_SIGNALED),
        ("IBV_SEND_INLINE", abi::SEND_INLINE),
        ("IBV_WR_RDMA_WRITE", abi::WR_RDMA_WRITE),
        ("IBV_WR_SEND", abi::WR_SEND),
        ("IBV_WR_RDMA_READ", abi::WR_RDMA_READ),
        ("IBV_WC_RDMA_WRITE", abi::WC_RDMA_WRITE),
        ("IBV_WC_RDMA_READ", abi::WC_RDMA_READ),
        ("IBV_WC_RECV", abi::WC_RECV),
        ("IBV_WC_WITH_IMM", abi::WC_FLAG_WITH_IMM),
        ("IBV_QPT_RC", abi::QPT_RC),
        ("IBV_TRANSPORT_IWARP", abi::TRANSPORT_IWARP as u32),
        ("IBV_QP_STATE", abi::QP_STATE as u32),
        ("IBV_QPS_RTR", 2),
        ("IBV_QPS_RTS", 3),
        ("IBV_QPS_ERR", abi::QPS_ERR),
        ("IBV_PORT_ACTIVE", 4),
        ("IBV_LINK_LAYER_ETHERNET", 2),
        ("IBV_WC_LOC_LEN_ERR", ib::WcStatus::LOCAL_LENGTH.number().into()),
        ("IBV_WC_LOC_PROT_ERR", ib::WcStatus::LOCAL_PROTECTION.number().into()),
        ("IBV_WC_WR_FLUSH_ERR", ib::WcStatus::WR_FLUSH.number().into()),
        ("IBV_WC_REM_INV_REQ_ERR", ib::WcStatus::REMOTE_INVALID.number().into()),
        ("IBV_WC_REM_ACCESS_ERR", ib::WcStatus::REMOTE_ACCESS.number().into()),
        ("IBV_WC_REM_OP_ERR", ib::WcStatus::REMOTE_OPERATION.number().into()),
        ("IBV_WC_RETRY_EXC_ERR", ib::WcStatus::RETRY_EXCEEDED.number().into()),
        ("IBV_WC_RNR_RETRY_EXC_ERR", ib::WcStatus::RNR_RETRY_EXCEEDED.number().into()),
        ("IBV_EVENT_QP_LAST_WQE_REACHED", 16),
        ("IBV_EVENT_QP_FATAL", 1),
        ("IBV_EVENT_COMM_EST", 4),
        ("IBV_EVENT_PATH_MIG", 6),
        ("IBV_EVENT_DEVICE_FATAL", 8),
        ("IBV_EVENT_PORT_ACTIVE", 9),
        ("IBV_EVENT_PORT_ERR", 10),
        ("RDMA_PS_TCP", abi::PS_TCP),
        ("RDMA_OPTION_ID", abi::OPTION_ID as u32),
        ("RDMA_OPTION_ID_REUSEADDR", abi::OPTION_ID_REUSEADDR as u32),
        ("RDMA_OPTION_ID_AFONLY", abi::OPTION_ID_AFONLY as u32),
        ("RDMA_OPTION_ID_ACK_TIMEOUT", abi::OPTION_ID_ACK_TIMEOUT as u32),
        ("RDMA_CM_EVENT_ADDR_RESOLVED", 0),
        ("RDMA_CM_EVENT_CONNECT_REQUEST", 4),
        ("RDMA_CM_EVENT_CONNECT_RESPONSE", 5),
        ("RDMA_CM_EVENT_UNREACHABLE", 7),
        ("RDMA_CM_EVENT_REJECTED", 8),
        ("RDMA_CM_EVENT_ESTABLISHED", 9),
        ("RDMA_CM_EVENT_DISCONNECTED", 10),
        ("RDMA_CM_EVENT_DEVICE_REMOVAL", 11),
    ] {
        t.value(c, rust as usize);
    }
}

/// The calls of rsockets, declared a second time as they are called here: a compiler refuses what differs from the
/// header.
const PROTOTYPES: &str = "
int rsocket(int, int, int);
int rbind(int, const struct sockaddr *, socklen_t);
int rlisten(int, int);
int raccept(int, struct sockaddr *, socklen_t *);
int rconnect(int, const struct sockaddr *, socklen_t);
int rshutdown(int, int);
int rclose(int);
ssize_t rrecv(int, void *, size_t, int);
ssize_t rsendmsg(int, const struct msghdr *, int);
int rpoll(struct pollfd *, nfds_t, int);
int rgetpeername(int, struct sockaddr *, socklen_t *);
int rgetsockname(int, struct sockaddr *, socklen_t *);
int rsetsockopt(int, int, int, const void *, socklen_t);
";

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let headers = ["/usr/include/infiniband/verbs.h", "/usr/include/rdma/rdma_cma.h", "/usr/include/rdma/rsocket.h"];
    if let Some(missing) = headers.iter().find(|path| !PathBuf::from(path).exists()) {
        assert!(std::env::var_os("LAB_MUST").is_none(), "{missing} is to be there");
        // Past the capture of tests that pass, so that it is seen.
        writeln!(std::io::stdout(), "SKIPPED: no {missing}; tests/lab/install brings it").expect("standard output");
        return;
    }
    let mut t = table();
    values(&mut t);
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n#include <rdma/rsocket.h>\n",
    );
    program.push_str(PROTOTYPES);
    program.push_str("int main(void) {\n");
    for (c, _) in &t.0 {
        writeln!(program, "printf(\"%zu\\n\", (size_t)({c}));").expect("a string");
    }
    program.push_str("return 0; }\n");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).expect("the target folder");
    let built =
        Command::new("cc").arg("-o").arg(&binary).arg(&source).stdin(Stdio::null()).output().expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&binary).output().expect("what was built");
    let numbers = String::from_utf8(ran.stdout).expect("numbers");
    let numbers: Vec<usize> = numbers.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(numbers.len(), t.0.len());
    let wrong: Vec<_> = t.0.iter().zip(&numbers).filter(|((_, rust), c)| rust != *c).collect();
    assert!(wrong.is_empty(), "what it is in C, here, and in the headers: {wrong:#?}");
}
