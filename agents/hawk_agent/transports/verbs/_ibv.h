/* The stable ABI of libibverbs.so.1, as far as the engine uses it.
 *
 * Declared here so that one wheel builds without rdma-core's headers and runs wherever its library is, which
 * is opened at run time. Field names and order are those of the library's public structures; a test compiles
 * this file beside the real header and compares every size, offset and value.
 */
#ifndef HAWK_IBV_H
#define HAWK_IBV_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HAWK_IBV_ACCESS_LOCAL_WRITE = 1, HAWK_IBV_ACCESS_REMOTE_WRITE = 2, HAWK_IBV_ACCESS_REMOTE_READ = 4,
    HAWK_IBV_ACCESS_MW_BIND = 16, HAWK_IBV_ACCESS_ON_DEMAND = 64, HAWK_IBV_ACCESS_HUGETLB = 128,
    HAWK_IBV_ACCESS_RELAXED_ORDERING = 1 << 20
};
enum {
    HAWK_IBV_QPS_RESET, HAWK_IBV_QPS_INIT, HAWK_IBV_QPS_RTR, HAWK_IBV_QPS_RTS, HAWK_IBV_QPS_SQD, HAWK_IBV_QPS_SQE,
    HAWK_IBV_QPS_ERR
};
enum { HAWK_IBV_QPT_RC = 2 };
enum { HAWK_IBV_MW_TYPE_2 = 2 };
enum {
    HAWK_IBV_WR_RDMA_WRITE = 0, HAWK_IBV_WR_RDMA_WRITE_WITH_IMM = 1, HAWK_IBV_WR_RDMA_READ = 4,
    HAWK_IBV_WR_LOCAL_INV = 7, HAWK_IBV_WR_BIND_MW = 8
};
enum { HAWK_IBV_SEND_FENCE = 1, HAWK_IBV_SEND_SIGNALED = 2, HAWK_IBV_SEND_SOLICITED = 4, HAWK_IBV_SEND_INLINE = 8 };
enum { HAWK_IBV_WC_SUCCESS = 0, HAWK_IBV_WC_WR_FLUSH_ERR = 5 };
enum { HAWK_IBV_WC_RECV = 128, HAWK_IBV_WC_RECV_RDMA_WITH_IMM = 129 };
enum { HAWK_IBV_WC_WITH_IMM = 2 };
enum { HAWK_IBV_GID_TYPE_ROCE_V2 = 2 };
enum { HAWK_IBV_ODP_SUPPORT = 1, HAWK_IBV_ODP_SUPPORT_WRITE = 4, HAWK_IBV_ODP_SUPPORT_READ = 8 };
enum {
    HAWK_IBV_QP_STATE = 1, HAWK_IBV_QP_ACCESS_FLAGS = 1 << 3, HAWK_IBV_QP_PKEY_INDEX = 1 << 4, HAWK_IBV_QP_PORT = 1
    << 5, HAWK_IBV_QP_AV = 1 << 7, HAWK_IBV_QP_PATH_MTU = 1 << 8, HAWK_IBV_QP_TIMEOUT = 1 << 9,
    HAWK_IBV_QP_RETRY_CNT = 1 << 10, HAWK_IBV_QP_RNR_RETRY = 1 << 11, HAWK_IBV_QP_RQ_PSN = 1 << 12,
    HAWK_IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13, HAWK_IBV_QP_MIN_RNR_TIMER = 1 << 15, HAWK_IBV_QP_SQ_PSN = 1 << 16,
    HAWK_IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17, HAWK_IBV_QP_DEST_QPN = 1 << 20
};

typedef union {
    uint8_t raw[16];
    struct {
        uint64_t subnet_prefix, interface_id;
    } global;
} IbvGid;

typedef struct {
    IbvGid gid;
    uint32_t gid_index, port_num, gid_type, ndev_ifindex;
} IbvGidEntry;

typedef struct {
    char fw_ver[64];
    uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
    uint32_t vendor_id, vendor_part_id, hw_ver;
    int max_qp, max_qp_wr;
    unsigned int device_cap_flags;
    int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
        max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp,
        max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr,
        max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay, phys_port_cnt;
} IbvDeviceAttr;

/* The head of the extended attributes: what the engine reads of them. A provider fills no more than it is told. */
typedef struct {
    IbvDeviceAttr orig_attr;
    uint32_t comp_mask;
    uint64_t general_caps; /* of on-demand paging, from here on */
    uint32_t rc_odp_caps, uc_odp_caps, ud_odp_caps;
} IbvDeviceAttrEx;

typedef struct {
    int state, max_mtu, active_mtu, gid_tbl_len;
    uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
    uint16_t pkey_tbl_len, lid, sm_lid;
    uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer,
        flags;
    uint16_t port_cap_flags2;
} IbvPortAttr;

typedef struct IbvContext IbvContext;
typedef struct IbvQp IbvQp;
typedef struct IbvCq IbvCq;

typedef struct {
    void *never_used[2];
    int node_type, transport_type;
    char name[64], dev_name[64], dev_path[256], ibdev_path[256];
} IbvDevice;

typedef struct {
    IbvContext *context;
    uint32_t handle;
} IbvPd;

typedef struct {
    IbvContext *context;
    IbvPd *pd;
    void *addr;
    size_t length;
    uint32_t handle, lkey, rkey;
} IbvMr;

typedef struct {
    IbvContext *context;
    IbvPd *pd;
    uint32_t rkey, handle;
    int type;
} IbvMw;

typedef struct {
    IbvMr *mr;
    uint64_t addr, length;
    unsigned int mw_access_flags;
} IbvBindInfo;

typedef struct {
    uint64_t addr;
    uint32_t length, lkey;
} IbvSge;

typedef struct IbvSendWr {
    uint64_t wr_id;
    struct IbvSendWr *next;
    IbvSge *sg_list;
    int num_sge, opcode;
    unsigned int send_flags;
    uint32_t imm_data; /* in network byte order; or the rkey to invalidate */
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        struct {
            uint64_t remote_addr, compare_add, swap;
            uint32_t rkey;
        } atomic;
    } wr;
    uint32_t remote_srqn;
    struct {
        IbvMw *mw;
        uint32_t rkey;
        IbvBindInfo bind_info;
    } bind_mw;
} IbvSendWr;

typedef struct IbvRecvWr {
    uint64_t wr_id;
    struct IbvRecvWr *next;
    IbvSge *sg_list;
    int num_sge;
} IbvRecvWr;

typedef struct {
    uint64_t wr_id;
    int status, opcode;
    uint32_t vendor_err, byte_len, imm_data, qp_num, src_qp;
    unsigned int wc_flags;
    uint16_t pkey_index, slid;
    uint8_t sl, dlid_path_bits;
} IbvWc;

typedef struct {
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
} IbvQpCap;

typedef struct {
    void *qp_context;
    IbvCq *send_cq, *recv_cq;
    void *srq;
    IbvQpCap cap;
    int qp_type, sq_sig_all;
} IbvQpInitAttr;

typedef struct {
    struct {
        IbvGid dgid;
        uint32_t flow_label;
        uint8_t sgid_index, hop_limit, traffic_class;
    } grh;
    uint16_t dlid;
    uint8_t sl, src_path_bits, static_rate, is_global, port_num;
} IbvAhAttr;

typedef struct {
    int qp_state, cur_qp_state, path_mtu, path_mig_state;
    uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
    unsigned int qp_access_flags;
    IbvQpCap cap;
    IbvAhAttr ah_attr, alt_ah_attr;
    uint16_t pkey_index, alt_pkey_index;
    uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
        retry_cnt, rnr_retry, alt_port_num, alt_timeout;
    uint32_t rate_limit;
} IbvQpAttr;

struct IbvQp {
    IbvContext *context;
    void *qp_context;
    IbvPd *pd;
    IbvCq *send_cq, *recv_cq;
    void *srq;
    uint32_t handle, qp_num;
    int state, qp_type;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

typedef struct {
    IbvContext *context;
    int fd, refcnt;
} IbvChannel;

struct IbvCq {
    IbvContext *context;
    IbvChannel *channel;
    void *cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed, async_events_completed;
};

typedef struct {
    union {
        void *object;
        int port_num;
    } element;
    int event_type;
} IbvAsyncEvent;

/* The operations that a provider carries out without a call into the library; the entries between are unused. */
typedef struct {
    void *before_mw[7];
    IbvMw *(*alloc_mw)(IbvPd *pd, int type);
    void *bind_mw;
    int (*dealloc_mw)(IbvMw *mw);
    void *create_cq;
    int (*poll_cq)(IbvCq *cq, int entries, IbvWc *wc);
    int (*req_notify_cq)(IbvCq *cq, int solicited_only);
    void *between[12];
    int (*post_send)(IbvQp *qp, IbvSendWr *wr, IbvSendWr **bad_wr);
    int (*post_recv)(IbvQp *qp, IbvRecvWr *wr, IbvRecvWr **bad_wr);
    void *after[5];
} IbvOps;

struct IbvContext {
    IbvDevice *device;
    IbvOps ops;
    int cmd_fd, async_fd, num_comp_vectors;
    pthread_mutex_t mutex;
    void *abi_compat; /* HAWK_VERBS_ABI_IS_EXTENDED: the context stands at the end of an IbvExtended */
};

#define HAWK_VERBS_ABI_IS_EXTENDED ((void *)UINTPTR_MAX)

/* The end of the extended context, which grows at its head; `size` counts all of it. */
typedef struct {
    int (*query_device_ex)(IbvContext *context, const void *input, IbvDeviceAttrEx *attr, size_t size);
    void *unused[10];
    uint64_t placeholder;
    size_t size;
    IbvContext context;
} IbvExtended;

#endif
