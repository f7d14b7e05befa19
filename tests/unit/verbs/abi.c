/* The engine's declarations of libibverbs' ABI against the real header: compiling this is the test. */
#include "_ibv.h"

#include <infiniband/verbs.h>

#define SAME_SIZE(ours, real) _Static_assert(sizeof(ours) == sizeof(struct real), #real ": size")
#define SAME(ours, a, real, b)                                                                                         \
    _Static_assert(offsetof(ours, a) == offsetof(struct real, b) &&                                                    \
                       sizeof(((ours *)0)->a) == sizeof(((struct real *)0)->b),                                        \
                   #real "." #b)
#define FIELD(ours, real, field) SAME(ours, field, real, field)
#define VALUE(real) _Static_assert((unsigned)(HAWK_##real) == (unsigned)(real), #real)

SAME_SIZE(IbvSge, ibv_sge);
FIELD(IbvSge, ibv_sge, addr);
FIELD(IbvSge, ibv_sge, length);
FIELD(IbvSge, ibv_sge, lkey);

SAME_SIZE(IbvSendWr, ibv_send_wr);
FIELD(IbvSendWr, ibv_send_wr, wr_id);
FIELD(IbvSendWr, ibv_send_wr, next);
FIELD(IbvSendWr, ibv_send_wr, sg_list);
FIELD(IbvSendWr, ibv_send_wr, num_sge);
FIELD(IbvSendWr, ibv_send_wr, opcode);
FIELD(IbvSendWr, ibv_send_wr, send_flags);
FIELD(IbvSendWr, ibv_send_wr, imm_data);
SAME(IbvSendWr, imm_data, ibv_send_wr, invalidate_rkey);
FIELD(IbvSendWr, ibv_send_wr, wr.rdma.remote_addr);
FIELD(IbvSendWr, ibv_send_wr, wr.rdma.rkey);
FIELD(IbvSendWr, ibv_send_wr, wr.atomic.rkey);
FIELD(IbvSendWr, ibv_send_wr, bind_mw.mw);
FIELD(IbvSendWr, ibv_send_wr, bind_mw.rkey);
FIELD(IbvSendWr, ibv_send_wr, bind_mw.bind_info.mr);
FIELD(IbvSendWr, ibv_send_wr, bind_mw.bind_info.addr);
FIELD(IbvSendWr, ibv_send_wr, bind_mw.bind_info.length);
FIELD(IbvSendWr, ibv_send_wr, bind_mw.bind_info.mw_access_flags);

SAME_SIZE(IbvRecvWr, ibv_recv_wr);
FIELD(IbvRecvWr, ibv_recv_wr, num_sge);

SAME_SIZE(IbvWc, ibv_wc);
FIELD(IbvWc, ibv_wc, wr_id);
FIELD(IbvWc, ibv_wc, status);
FIELD(IbvWc, ibv_wc, opcode);
FIELD(IbvWc, ibv_wc, vendor_err);
FIELD(IbvWc, ibv_wc, byte_len);
FIELD(IbvWc, ibv_wc, imm_data);
FIELD(IbvWc, ibv_wc, qp_num);
FIELD(IbvWc, ibv_wc, wc_flags);
FIELD(IbvWc, ibv_wc, dlid_path_bits);

SAME_SIZE(IbvDeviceAttr, ibv_device_attr);
FIELD(IbvDeviceAttr, ibv_device_attr, max_mr_size);
FIELD(IbvDeviceAttr, ibv_device_attr, max_qp_wr);
FIELD(IbvDeviceAttr, ibv_device_attr, device_cap_flags);
FIELD(IbvDeviceAttr, ibv_device_attr, max_sge);
FIELD(IbvDeviceAttr, ibv_device_attr, max_sge_rd);
FIELD(IbvDeviceAttr, ibv_device_attr, max_cqe);
FIELD(IbvDeviceAttr, ibv_device_attr, max_mr);
FIELD(IbvDeviceAttr, ibv_device_attr, max_qp_rd_atom);
FIELD(IbvDeviceAttr, ibv_device_attr, max_qp_init_rd_atom);
FIELD(IbvDeviceAttr, ibv_device_attr, atomic_cap);
FIELD(IbvDeviceAttr, ibv_device_attr, max_mw);
FIELD(IbvDeviceAttr, ibv_device_attr, phys_port_cnt);

FIELD(IbvDeviceAttrEx, ibv_device_attr_ex, comp_mask);
SAME(IbvDeviceAttrEx, general_caps, ibv_device_attr_ex, odp_caps.general_caps);
SAME(IbvDeviceAttrEx, rc_odp_caps, ibv_device_attr_ex, odp_caps.per_transport_caps.rc_odp_caps);

SAME_SIZE(IbvPortAttr, ibv_port_attr);
FIELD(IbvPortAttr, ibv_port_attr, state);
FIELD(IbvPortAttr, ibv_port_attr, active_mtu);
FIELD(IbvPortAttr, ibv_port_attr, gid_tbl_len);
FIELD(IbvPortAttr, ibv_port_attr, max_msg_sz);
FIELD(IbvPortAttr, ibv_port_attr, lid);
FIELD(IbvPortAttr, ibv_port_attr, link_layer);
FIELD(IbvPortAttr, ibv_port_attr, port_cap_flags2);

SAME_SIZE(IbvGidEntry, ibv_gid_entry);
FIELD(IbvGidEntry, ibv_gid_entry, gid_index);
FIELD(IbvGidEntry, ibv_gid_entry, gid_type);
FIELD(IbvGidEntry, ibv_gid_entry, ndev_ifindex);

SAME_SIZE(IbvDevice, ibv_device);
FIELD(IbvDevice, ibv_device, name);
FIELD(IbvDevice, ibv_device, ibdev_path);
SAME_SIZE(IbvPd, ibv_pd);
SAME_SIZE(IbvMr, ibv_mr);
FIELD(IbvMr, ibv_mr, lkey);
FIELD(IbvMr, ibv_mr, rkey);
SAME_SIZE(IbvMw, ibv_mw);
FIELD(IbvMw, ibv_mw, rkey);
FIELD(IbvMw, ibv_mw, type);
SAME_SIZE(IbvQpCap, ibv_qp_cap);
FIELD(IbvQpCap, ibv_qp_cap, max_inline_data);
SAME_SIZE(IbvQpInitAttr, ibv_qp_init_attr);
FIELD(IbvQpInitAttr, ibv_qp_init_attr, cap);
FIELD(IbvQpInitAttr, ibv_qp_init_attr, qp_type);
FIELD(IbvQpInitAttr, ibv_qp_init_attr, sq_sig_all);
SAME_SIZE(IbvAhAttr, ibv_ah_attr);
FIELD(IbvAhAttr, ibv_ah_attr, grh.sgid_index);
FIELD(IbvAhAttr, ibv_ah_attr, grh.traffic_class);
FIELD(IbvAhAttr, ibv_ah_attr, is_global);
FIELD(IbvAhAttr, ibv_ah_attr, port_num);
SAME_SIZE(IbvQpAttr, ibv_qp_attr);
FIELD(IbvQpAttr, ibv_qp_attr, qp_state);
FIELD(IbvQpAttr, ibv_qp_attr, path_mtu);
FIELD(IbvQpAttr, ibv_qp_attr, rq_psn);
FIELD(IbvQpAttr, ibv_qp_attr, dest_qp_num);
FIELD(IbvQpAttr, ibv_qp_attr, qp_access_flags);
FIELD(IbvQpAttr, ibv_qp_attr, ah_attr);
FIELD(IbvQpAttr, ibv_qp_attr, max_rd_atomic);
FIELD(IbvQpAttr, ibv_qp_attr, min_rnr_timer);
FIELD(IbvQpAttr, ibv_qp_attr, port_num);
FIELD(IbvQpAttr, ibv_qp_attr, timeout);
FIELD(IbvQpAttr, ibv_qp_attr, retry_cnt);
FIELD(IbvQpAttr, ibv_qp_attr, rnr_retry);
FIELD(IbvQpAttr, ibv_qp_attr, rate_limit);
SAME_SIZE(IbvQp, ibv_qp);
FIELD(IbvQp, ibv_qp, qp_num);
FIELD(IbvQp, ibv_qp, state);
SAME_SIZE(IbvChannel, ibv_comp_channel);
FIELD(IbvChannel, ibv_comp_channel, fd);
SAME_SIZE(IbvCq, ibv_cq);
FIELD(IbvCq, ibv_cq, cqe);
SAME_SIZE(IbvAsyncEvent, ibv_async_event);
FIELD(IbvAsyncEvent, ibv_async_event, event_type);
SAME_SIZE(IbvOps, ibv_context_ops);
FIELD(IbvOps, ibv_context_ops, alloc_mw);
FIELD(IbvOps, ibv_context_ops, dealloc_mw);
FIELD(IbvOps, ibv_context_ops, poll_cq);
FIELD(IbvOps, ibv_context_ops, req_notify_cq);
FIELD(IbvOps, ibv_context_ops, post_send);
FIELD(IbvOps, ibv_context_ops, post_recv);
SAME_SIZE(IbvContext, ibv_context);
FIELD(IbvContext, ibv_context, ops);
FIELD(IbvContext, ibv_context, async_fd);
FIELD(IbvContext, ibv_context, abi_compat);

#define FROM_END(type, context, field) (offsetof(type, context) - offsetof(type, field))
_Static_assert(FROM_END(IbvExtended, context, query_device_ex) ==
                   FROM_END(struct verbs_context, context, query_device_ex),
               "verbs_context.query_device_ex");
_Static_assert(FROM_END(IbvExtended, context, size) == FROM_END(struct verbs_context, context, sz), "verbs_context.sz");

VALUE(IBV_ACCESS_LOCAL_WRITE);
VALUE(IBV_ACCESS_REMOTE_WRITE);
VALUE(IBV_ACCESS_REMOTE_READ);
VALUE(IBV_ACCESS_MW_BIND);
VALUE(IBV_ACCESS_ON_DEMAND);
VALUE(IBV_ACCESS_HUGETLB);
VALUE(IBV_ACCESS_RELAXED_ORDERING);
VALUE(IBV_QPS_INIT);
VALUE(IBV_QPS_RTR);
VALUE(IBV_QPS_RTS);
VALUE(IBV_QPS_ERR);
VALUE(IBV_QPT_RC);
VALUE(IBV_MW_TYPE_2);
VALUE(IBV_WR_RDMA_WRITE);
VALUE(IBV_WR_RDMA_WRITE_WITH_IMM);
VALUE(IBV_WR_RDMA_READ);
VALUE(IBV_WR_LOCAL_INV);
VALUE(IBV_WR_BIND_MW);
VALUE(IBV_SEND_FENCE);
VALUE(IBV_SEND_SIGNALED);
VALUE(IBV_SEND_SOLICITED);
VALUE(IBV_SEND_INLINE);
VALUE(IBV_WC_SUCCESS);
VALUE(IBV_WC_WR_FLUSH_ERR);
VALUE(IBV_WC_RECV);
VALUE(IBV_WC_RECV_RDMA_WITH_IMM);
VALUE(IBV_WC_WITH_IMM);
VALUE(IBV_GID_TYPE_ROCE_V2);
VALUE(IBV_ODP_SUPPORT);
VALUE(IBV_ODP_SUPPORT_WRITE);
VALUE(IBV_ODP_SUPPORT_READ);
VALUE(IBV_QP_STATE);
VALUE(IBV_QP_ACCESS_FLAGS);
VALUE(IBV_QP_PKEY_INDEX);
VALUE(IBV_QP_PORT);
VALUE(IBV_QP_AV);
VALUE(IBV_QP_PATH_MTU);
VALUE(IBV_QP_TIMEOUT);
VALUE(IBV_QP_RETRY_CNT);
VALUE(IBV_QP_RNR_RETRY);
VALUE(IBV_QP_RQ_PSN);
VALUE(IBV_QP_MAX_QP_RD_ATOMIC);
VALUE(IBV_QP_MIN_RNR_TIMER);
VALUE(IBV_QP_SQ_PSN);
VALUE(IBV_QP_MAX_DEST_RD_ATOMIC);
VALUE(IBV_QP_DEST_QPN);
