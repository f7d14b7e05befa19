/* A libibverbs of one process: an executable model of reliable queue pairs that moves real bytes.
 *
 * It is opened like the real library. It enforces what a device enforces (list lengths, queue depth, message
 * size, registrations with their access, windows, states, room in completion queues), works its send queues off
 * when somebody posts or polls, frees their places only when a completion is taken, and fails as it is told to.
 * Tests reach its `fake_*` functions and the knobs in `fake` through ctypes.
 */
#include "_ibv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
enum { DEVICES = 2, QPS = 256, KEYS = 4096, RING = 1 << 15, GIDS = 8 };
enum { LOC_LEN = 1, LOC_QP_OP = 2, LOC_PROT = 4, MW_BIND = 6, REM_ACCESS = 10, RETRY = 12, RNR = 13 };

/* What tests turn. */
API struct {
    int64_t max_sge, max_qp_wr, max_cqe, max_inline;
    uint64_t max_message, max_mr;
    int64_t mtu[DEVICES], port_state[DEVICES], windows;
    int64_t refuse_in, refuse_errno, refuse_style; /* post_send refuses the request after so many; -1: never */
    int64_t modify_state, modify_errno;            /* modify_qp to that state fails; -1: none */
    int64_t plain_errno, dmabuf_errno, odp_errno, odp;
    int64_t work; /* requests worked off by one poll */
    int64_t gone; /* the peer doesn't answer */
    int64_t dry;  /* move nothing: sizes alone count */
    int64_t vanished; /* the device is out of the machine */
    int64_t quiet; /* of what is flushed, only signalled requests complete */
} fake;

/* What tests ask. */
API struct {
    int64_t executed, most_outstanding, most_pieces, most_bytes, lost, calls, flushed, registered, open, bytes, empty, faults;
} fake_seen;

typedef struct {
    IbvSendWr wr;
    IbvSge *sge;
    uint8_t *inlined;
} Request;

typedef struct Cq Cq;
typedef struct {
    IbvQp qp;
    IbvQpCap cap;
    Cq *cq;
    Request *ring;
    uint64_t head, done, free; /* posted, worked off, places given back */
    uint64_t receives[RING];
    uint64_t receive_head, receive_tail;
    uint32_t peer, access;
    int used;
} Qp;

struct Cq {
    IbvCq cq;
    IbvWc *ring;
    uint64_t *frees; /* places of the send queue that taking this completion gives back */
    Qp **of;
    uint64_t head, tail;
    int armed;
};

/* A registration, or a bound window over one. */
typedef struct {
    uint32_t key, access;
    uint64_t start, end;
    Qp *only; /* a window's queue pair */
    int used;
} Opened;

static IbvDevice devices[DEVICES];
static Qp *qps[QPS];
static Opened opened[KEYS];
static uint32_t next_key = 0x1100, next_qpn = 17;
static IbvGidEntry gids[DEVICES][GIDS];

API void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    memset(&fake_seen, 0, sizeof fake_seen);
    fake.max_sge = 32, fake.max_qp_wr = 16384, fake.max_cqe = 32767, fake.max_inline = 64, fake.max_message = 8 << 20;
    fake.max_mr = UINT64_MAX, fake.windows = 64, fake.refuse_in = -1, fake.modify_state = -1, fake.work = 1 << 20;
    memset(gids, 0, sizeof gids);
    for (int i = 0; i < DEVICES; i++) {
        fake.mtu[i] = 5, fake.port_state[i] = 4;
        strcpy(devices[i].name, i ? "fakeb" : "fakea");
        for (int g = 0; g < 4; g++) {
            static const uint8_t local[16] = {0xfe, 0x80, [15] = 1};
            static const uint8_t mapped[16] = {[10] = 0xff, 0xff, 10, 9, 0, 1};
            memcpy(gids[i][g].gid.raw, g < 2 ? local : mapped, 16);
            gids[i][g].gid.raw[15] = (uint8_t)(1 + i);
            gids[i][g].gid_type = g % 2 ? 2 : 1;
        }
    }
}

API void fake_set_gid(int device, int index, const uint8_t *raw, int type)
{
    memcpy(gids[device][index].gid.raw, raw, 16);
    gids[device][index].gid_type = (uint32_t)type;
}

static int of_device(const IbvContext *context) { return (int)(context->device - devices); }

/* ---- keys ---- */

static Opened *open_key(uint64_t start, uint64_t bytes, uint32_t access, Qp *only, uint32_t key)
{
    for (int i = 0; i < KEYS; i++)
        if (!opened[i].used) {
            opened[i] = (Opened){key, access, start, start + bytes, only, 1};
            return &opened[i];
        }
    return NULL;
}

static Opened *find_key(uint32_t key)
{
    for (int i = 0; i < KEYS; i++)
        if (opened[i].used && opened[i].key == key)
            return &opened[i];
    return NULL;
}

static int allowed(uint32_t key, uint64_t address, uint64_t bytes, uint32_t access, const Qp *qp)
{
    const Opened *o = find_key(key);
    return o && (o->access & access) == access && address >= o->start && bytes <= o->end - address &&
           address <= o->end && (!o->only || o->only == qp);
}

/* ---- completions ---- */

static void push(Cq *cq, Qp *qp, IbvWc wc, uint64_t free)
{
    if (cq->head - cq->tail >= (uint64_t)cq->cq.cqe) {
        fake_seen.lost++; /* in silence, as devices do */
        return;
    }
    wc.qp_num = qp->qp.qp_num;
    cq->ring[cq->head % RING] = wc;
    cq->frees[cq->head % RING] = free;
    cq->of[cq->head % RING] = qp;
    cq->head++;
    if (cq->armed) {
        cq->armed = 0;
        const uint64_t one = 1;
        if (write(cq->cq.channel->fd, &one, sizeof one) < 0)
            abort();
    }
}

static void flush_receives(Qp *qp)
{
    while (qp->receive_tail < qp->receive_head)
        push(qp->cq, qp, (IbvWc){.wr_id = qp->receives[qp->receive_tail++ % RING], .status = IBV_DONE_FLUSHED}, 0);
}

static void end_queue(Qp *qp)
{
    if (qp->qp.state != IBV_STATE_ERR)
        flush_receives(qp);
    qp->qp.state = IBV_STATE_ERR;
}

/* ---- working a send queue off ---- */

static Qp *peer_of(const Qp *qp)
{
    for (int i = 0; i < QPS && !fake.gone; i++)
        if (qps[i] && qps[i]->used && qps[i]->qp.qp_num == qp->peer)
            return qps[i];
    return NULL;
}

static int move_bytes(Request *r, const Qp *qp, const Qp *peer)
{
    const IbvSendWr *w = &r->wr;
    for (int i = 0; i < w->num_sge; i++)
        fake_seen.bytes += r->sge[i].length, fake_seen.empty += !r->sge[i].length;
    const int reads = w->opcode == IBV_OP_READ;
    uint64_t bytes = 0, at = w->wr.rdma.remote_addr;
    for (int i = 0; i < w->num_sge; i++) {
        bytes += r->sge[i].length;
        if (!fake.dry && !r->inlined && !allowed(r->sge[i].lkey, r->sge[i].addr, r->sge[i].length, reads ? IBV_ACCESS_LOCAL : 0, qp))
            return LOC_PROT;
    }
    if (bytes > fake.max_message)
        return LOC_LEN;
    if ((int64_t)bytes > fake_seen.most_bytes)
        fake_seen.most_bytes = (int64_t)bytes;
    if (fake.dry)
        return 0;
    const uint32_t need = reads ? IBV_ACCESS_READ : IBV_ACCESS_WRITE;
    if (bytes && (!(peer->access & need) || !allowed(w->wr.rdma.rkey, at, bytes, need, peer)))
        return REM_ACCESS;
    if (r->inlined)
        memcpy((void *)(uintptr_t)at, r->inlined, bytes);
    for (int i = 0; i < w->num_sge && !r->inlined; at += r->sge[i++].length) {
        void *here = (void *)(uintptr_t)r->sge[i].addr, *there = (void *)(uintptr_t)at;
        memcpy(reads ? here : there, reads ? there : here, r->sge[i].length);
    }
    return 0;
}

static int bind_window(Request *r, Qp *qp)
{
    const IbvBindInfo *b = &r->wr.bind_mw.bind_info;
    const Opened *under = find_key(b->mr->lkey);
    if (!under || !(under->access & IBV_ACCESS_BIND) || b->addr < under->start || b->addr + b->length > under->end)
        return MW_BIND;
    if ((r->wr.bind_mw.rkey & ~0xffu) != (r->wr.bind_mw.mw->handle & ~0xffu) || find_key(r->wr.bind_mw.rkey))
        return MW_BIND;
    return open_key(b->addr, b->length, b->mw_access_flags, qp, r->wr.bind_mw.rkey) ? 0 : MW_BIND;
}

static int execute(Request *r, Qp *qp)
{
    fake_seen.executed++;
    if (r->wr.opcode == IBV_OP_BIND)
        return bind_window(r, qp);
    if (r->wr.opcode == IBV_OP_INVALIDATE) {
        Opened *o = find_key(r->wr.imm_data);
        if (!o || o->only != qp)
            return MW_BIND;
        o->used = 0;
        return 0;
    }
    Qp *peer = peer_of(qp);
    if (!peer || (peer->qp.state != IBV_STATE_RTR && peer->qp.state != IBV_STATE_RTS) ||
        peer->peer != qp->qp.qp_num)
        return RETRY;
    if (r->wr.opcode == IBV_OP_WRITE_IMM && peer->receive_tail == peer->receive_head)
        return RNR;
    const int status = move_bytes(r, qp, peer);
    if (status == REM_ACCESS)
        end_queue(peer);
    if (status || r->wr.opcode != IBV_OP_WRITE_IMM)
        return status;
    uint32_t bytes = 0;
    for (int i = 0; i < r->wr.num_sge; i++)
        bytes += r->sge[i].length;
    push(peer->cq, peer,
         (IbvWc){.wr_id = peer->receives[peer->receive_tail++ % RING], .opcode = IBV_DONE_RECEIVE_IMM, .byte_len = bytes,
                 .imm_data = r->wr.imm_data, .wc_flags = IBV_DONE_WITH_IMM},
         0);
    return 0;
}

static void drop_request(Request *r)
{
    free(r->sge);
    free(r->inlined);
    r->sge = NULL, r->inlined = NULL;
}

static void work_off(Qp *qp, int64_t most)
{
    for (; most > 0 && qp->done < qp->head; most--) {
        Request *r = &qp->ring[qp->done % RING];
        const int flushes = qp->qp.state == IBV_STATE_ERR;
        const int status = flushes ? IBV_DONE_FLUSHED : execute(r, qp);
        fake_seen.flushed += flushes, fake_seen.faults += status && !flushes;
        if (status)
            end_queue(qp);
        qp->done++;
        if ((status && !(flushes && fake.quiet)) || r->wr.send_flags & IBV_FLAG_SIGNALED)
            push(qp->cq, qp, (IbvWc){.wr_id = r->wr.wr_id, .status = status, .vendor_err = status ? 0x51 : 0}, qp->done);
        drop_request(r);
    }
}

API void fake_work(int64_t most)
{
    for (int i = 0; i < QPS; i++)
        if (qps[i] && qps[i]->used)
            work_off(qps[i], most);
}

static int poll_cq(IbvCq *given, int entries, IbvWc *wc)
{
    Cq *cq = (Cq *)given;
    if (fake.vanished) {
        errno = EIO;
        return -1;
    }
    fake_work(fake.work);
    int n = 0;
    for (; n < entries && cq->tail < cq->head; n++, cq->tail++) {
        wc[n] = cq->ring[cq->tail % RING];
        if (cq->frees[cq->tail % RING] > cq->of[cq->tail % RING]->free)
            cq->of[cq->tail % RING]->free = cq->frees[cq->tail % RING];
    }
    return n;
}

static int req_notify_cq(IbvCq *cq, int solicited)
{
    (void)solicited;
    if (fake.vanished)
        return EIO;
    ((Cq *)cq)->armed = 1;
    fake_work(fake.work);
    return 0;
}

/* ---- posting ---- */

static int refuse(int error)
{
    if (fake.refuse_style == 0)
        return error;
    errno = error;
    return fake.refuse_style == 1 ? -1 : -error;
}

static int take_request(Qp *qp, const IbvSendWr *w)
{
    Request *r = &qp->ring[qp->head % RING];
    uint64_t bytes = 0;
    for (int i = 0; i < w->num_sge; i++)
        bytes += w->sg_list[i].length;
    if (w->send_flags & IBV_FLAG_INLINE && bytes > qp->cap.max_inline_data)
        return EINVAL;
    r->wr = *w;
    r->sge = malloc((size_t)(w->num_sge + 1) * sizeof *r->sge);
    if (w->num_sge)
        memcpy(r->sge, w->sg_list, (size_t)w->num_sge * sizeof *r->sge);
    if (w->send_flags & IBV_FLAG_INLINE && !fake.dry) {
        uint8_t *to = r->inlined = malloc(bytes + 1);
        for (int i = 0; i < w->num_sge; to += w->sg_list[i++].length)
            memcpy(to, (void *)(uintptr_t)w->sg_list[i].addr, w->sg_list[i].length);
    }
    qp->head++;
    return 0;
}

static int take_chain(Qp *qp, IbvSendWr *wr, IbvSendWr **bad)
{
    for (; wr; wr = wr->next) {
        *bad = wr;
        if (fake.refuse_in == 0) {
            fake.refuse_in = -1;
            return refuse((int)fake.refuse_errno);
        }
        if (qp->qp.state != IBV_STATE_RTS && qp->qp.state != IBV_STATE_ERR)
            return refuse(EINVAL);
        if (wr->num_sge > (int)qp->cap.max_send_sge)
            return refuse(EINVAL);
        if (qp->head - qp->free >= qp->cap.max_send_wr)
            return refuse(ENOMEM);
        const int error = take_request(qp, wr);
        if (error)
            return refuse(error);
        if (fake.refuse_in > 0)
            fake.refuse_in--;
        if ((int64_t)(qp->head - qp->free) > fake_seen.most_outstanding)
            fake_seen.most_outstanding = (int64_t)(qp->head - qp->free);
        if (wr->num_sge > fake_seen.most_pieces)
            fake_seen.most_pieces = wr->num_sge;
    }
    return 0;
}

static int post_send(IbvQp *qp, IbvSendWr *wr, IbvSendWr **bad)
{
    fake_seen.calls++;
    if (fake.vanished) {
        *bad = wr;
        return EIO;
    }
    const int answer = take_chain((Qp *)qp, wr, bad), error = errno;
    fake_work(fake.work); /* a device works by itself */
    errno = error;
    return answer;
}

static int post_recv(IbvQp *given, IbvRecvWr *wr, IbvRecvWr **bad)
{
    Qp *qp = (Qp *)given;
    for (; wr; wr = wr->next) {
        *bad = wr;
        if (qp->qp.state == IBV_STATE_RESET)
            return EINVAL;
        if (qp->receive_head - qp->receive_tail >= qp->cap.max_recv_wr)
            return ENOMEM;
        qp->receives[qp->receive_head++ % RING] = wr->wr_id;
    }
    if (qp->qp.state == IBV_STATE_ERR)
        flush_receives(qp);
    return 0;
}

/* ---- the library ---- */

API IbvDevice **ibv_get_device_list(int *count)
{
    IbvDevice **list = calloc(DEVICES + 1, sizeof *list);
    for (int i = 0; i < DEVICES; i++)
        list[i] = &devices[i];
    if (count)
        *count = DEVICES;
    return list;
}

API void ibv_free_device_list(IbvDevice **list) { free(list); }

static IbvMw *alloc_mw(IbvPd *pd, int type)
{
    if (type != IBV_WINDOW_2 || fake.windows <= 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    IbvMw *mw = calloc(1, sizeof *mw);
    *mw = (IbvMw){pd->context, pd, next_key, next_key, type};
    next_key += 0x100;
    fake.windows--;
    fake_seen.open++;
    return mw;
}

static int dealloc_mw(IbvMw *mw)
{
    for (int i = 0; i < KEYS; i++)
        if (opened[i].used && opened[i].only && (opened[i].key & ~0xffu) == (mw->handle & ~0xffu))
            opened[i].used = 0;
    fake.windows++;
    fake_seen.open--;
    free(mw);
    return 0;
}

API IbvContext *ibv_open_device(IbvDevice *device)
{
    IbvContext *context = calloc(1, sizeof *context);
    context->device = device;
    context->async_fd = eventfd(0, EFD_CLOEXEC);
    context->ops.alloc_mw = alloc_mw, context->ops.dealloc_mw = dealloc_mw;
    context->ops.poll_cq = poll_cq, context->ops.req_notify_cq = req_notify_cq;
    context->ops.post_send = post_send, context->ops.post_recv = post_recv;
    fake_seen.open++;
    return context;
}

API int ibv_close_device(IbvContext *context)
{
    close(context->async_fd);
    free(context);
    fake_seen.open--;
    return 0;
}

API int ibv_get_async_event(IbvContext *context, IbvAsyncEvent *event)
{
    uint64_t what;
    if (read(context->async_fd, &what, sizeof what) < 0)
        return -1;
    event->event_type = (int)(what & 0xff);
    event->element.port_num = 1;
    return 0;
}

API void ibv_ack_async_event(IbvAsyncEvent *event) { (void)event; }

API int ibv_query_device(IbvContext *context, IbvDeviceAttr *attr)
{
    (void)context;
    memset(attr, 0, sizeof *attr);
    attr->max_sge = (int)fake.max_sge, attr->max_sge_rd = (int)fake.max_sge, attr->max_qp_wr = (int)fake.max_qp_wr;
    attr->max_cqe = (int)fake.max_cqe, attr->max_mr_size = fake.max_mr, attr->max_mr = KEYS, attr->max_mw = 1024;
    attr->max_qp_rd_atom = 16, attr->phys_port_cnt = 1, attr->device_cap_flags = fake.windows > 0 ? 1u << 24 : 0;
    return 0;
}

API int ibv_query_port(IbvContext *context, uint8_t port, IbvPortAttr *attr)
{
    const int d = of_device(context);
    if (port != 1)
        return EINVAL;
    attr->state = (int)fake.port_state[d], attr->active_mtu = (int)fake.mtu[d], attr->max_mtu = 5;
    attr->gid_tbl_len = GIDS, attr->max_msg_sz = (uint32_t)fake.max_message, attr->link_layer = 2;
    return 0;
}

API int _ibv_query_gid_ex(IbvContext *context, uint32_t port, uint32_t index, IbvGidEntry *entry, uint32_t flags,
                          size_t size)
{
    (void)flags;
    if (port != 1 || index >= GIDS || size != sizeof *entry)
        return EINVAL;
    *entry = gids[of_device(context)][index];
    static const uint8_t none[16];
    return memcmp(entry->gid.raw, none, 16) ? 0 : ENODATA;
}

API IbvPd *ibv_alloc_pd(IbvContext *context)
{
    IbvPd *pd = calloc(1, sizeof *pd);
    pd->context = context;
    fake_seen.open++;
    return pd;
}

API int ibv_dealloc_pd(IbvPd *pd)
{
    free(pd);
    fake_seen.open--;
    return 0;
}

static IbvMr *new_mr(IbvPd *pd, uint64_t address, size_t bytes, uint32_t access)
{
    const int error = access & IBV_ACCESS_ODP ? (int)fake.odp_errno : 0;
    const uint32_t writable = IBV_ACCESS_WRITE;
    errno = error ? error : bytes > fake.max_mr ? ENOMEM : access & writable && !(access & IBV_ACCESS_LOCAL) ? EINVAL : 0;
    if (errno)
        return NULL;
    if (!open_key(address, bytes, access, NULL, next_key)) {
        errno = ENOMEM;
        return NULL;
    }
    IbvMr *mr = calloc(1, sizeof *mr);
    *mr = (IbvMr){pd->context, pd, (void *)(uintptr_t)address, bytes, 0, next_key, next_key};
    next_key += 0x100;
    fake_seen.registered += (int64_t)bytes;
    fake_seen.open++;
    return mr;
}

API IbvMr *ibv_reg_mr_iova2(IbvPd *pd, void *address, size_t bytes, uint64_t iova, unsigned int access)
{
    (void)address;
    if ((errno = access & IBV_ACCESS_ODP ? 0 : (int)fake.plain_errno))
        return NULL;
    return new_mr(pd, iova, bytes, access);
}

API IbvMr *ibv_reg_dmabuf_mr(IbvPd *pd, uint64_t offset, size_t bytes, uint64_t iova, int descriptor, int access)
{
    (void)offset;
    if ((errno = descriptor < 0 ? EBADF : (int)fake.dmabuf_errno))
        return NULL;
    return new_mr(pd, iova, bytes, (uint32_t)access);
}

API int ibv_dereg_mr(IbvMr *mr)
{
    find_key(mr->lkey)->used = 0;
    fake_seen.registered -= (int64_t)mr->length;
    fake_seen.open--;
    free(mr);
    return 0;
}

API IbvChannel *ibv_create_comp_channel(IbvContext *context)
{
    IbvChannel *channel = calloc(1, sizeof *channel);
    *channel = (IbvChannel){context, eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE), 0};
    fake_seen.open++;
    return channel;
}

API int ibv_destroy_comp_channel(IbvChannel *channel)
{
    close(channel->fd);
    free(channel);
    fake_seen.open--;
    return 0;
}

API IbvCq *ibv_create_cq(IbvContext *context, int entries, void *cq_context, IbvChannel *channel, int vector)
{
    (void)vector;
    Cq *cq = calloc(1, sizeof *cq);
    cq->cq = (IbvCq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
    cq->ring = calloc(RING, sizeof *cq->ring);
    cq->frees = calloc(RING, sizeof *cq->frees);
    cq->of = calloc(RING, sizeof *cq->of);
    channel->refcnt++;
    fake_seen.open++;
    return &cq->cq;
}

API int ibv_destroy_cq(IbvCq *given)
{
    Cq *cq = (Cq *)given;
    for (int i = 0; i < QPS; i++)
        if (qps[i] && qps[i]->used && qps[i]->cq == cq)
            return EBUSY;
    free(cq->ring);
    free(cq->frees);
    free(cq->of);
    free(cq);
    fake_seen.open--;
    return 0;
}

API int ibv_get_cq_event(IbvChannel *channel, IbvCq **cq, void **cq_context)
{
    uint64_t one;
    *cq = NULL, *cq_context = NULL;
    return read(channel->fd, &one, sizeof one) < 0 ? -1 : 0;
}

API void ibv_ack_cq_events(IbvCq *cq, unsigned int events) { (void)cq, (void)events; }

API IbvQp *ibv_create_qp(IbvPd *pd, IbvQpInitAttr *init)
{
    int at = 0;
    while (at < QPS && qps[at] && qps[at]->used)
        at++;
    const IbvQpCap *cap = &init->cap;
    if (at == QPS || cap->max_send_sge > fake.max_sge || cap->max_send_wr > fake.max_qp_wr || init->qp_type != IBV_TYPE_RC ||
        cap->max_inline_data > fake.max_inline) {
        errno = at == QPS ? ENOMEM : EINVAL;
        return NULL;
    }
    if (!qps[at])
        qps[at] = calloc(1, sizeof **qps); /* kept: completions may still name it */
    Qp *qp = qps[at];
    free(qp->ring);
    memset(qp, 0, sizeof *qp);
    qp->qp = (IbvQp){.context = pd->context, .pd = pd, .send_cq = init->send_cq, .recv_cq = init->recv_cq,
                     .qp_num = next_qpn++, .qp_type = init->qp_type};
    qp->cap = *cap;
    qp->cq = (Cq *)init->send_cq;
    qp->ring = calloc(RING, sizeof *qp->ring);
    qp->used = 1;
    fake_seen.open++;
    return &qp->qp;
}

API int ibv_modify_qp(IbvQp *given, IbvQpAttr *attr, int mask)
{
    Qp *qp = (Qp *)given;
    static const int NEEDS[] = {
        IBV_SET_STATE, IBV_SET_STATE | IBV_SET_PKEY | IBV_SET_PORT | IBV_SET_ACCESS,
        IBV_SET_STATE | IBV_SET_PATH | IBV_SET_MTU | IBV_SET_PEER | IBV_SET_RQ_PSN | IBV_SET_PEER_READS | IBV_SET_RNR_TIMER,
        IBV_SET_STATE | IBV_SET_TIMEOUT | IBV_SET_RETRY | IBV_SET_RNR_RETRY | IBV_SET_SQ_PSN | IBV_SET_READS,
    };
    const int to = attr->qp_state;
    if (fake.modify_state == to)
        return (int)fake.modify_errno;
    if (to >= IBV_STATE_INIT && to <= IBV_STATE_RTS && (mask != NEEDS[to] || qp->qp.state != to - 1))
        return EINVAL;
    if (to == IBV_STATE_INIT)
        qp->access = attr->qp_access_flags;
    if (to == IBV_STATE_RTR) {
        if (attr->path_mtu > fake.mtu[of_device(given->context)] || !attr->min_rnr_timer)
            return EINVAL;
        qp->peer = attr->dest_qp_num;
    }
    if (to == IBV_STATE_RTS && (attr->retry_cnt > 6 || attr->rnr_retry > 6 || !attr->timeout))
        return EINVAL; /* would wait for ever */
    if (to == IBV_STATE_ERR)
        end_queue(qp);
    if (to == IBV_STATE_RESET) {
        while (qp->done < qp->head)
            drop_request(&qp->ring[qp->done++ % RING]);
        qp->free = qp->head;
        qp->receive_tail = qp->receive_head;
    }
    qp->qp.state = to;
    return 0;
}

API int ibv_query_qp(IbvQp *qp, IbvQpAttr *attr, int mask, IbvQpInitAttr *init)
{
    (void)mask, (void)init;
    attr->qp_state = qp->state;
    return 0;
}

API int ibv_destroy_qp(IbvQp *given)
{
    Qp *qp = (Qp *)given;
    while (qp->done < qp->head)
        drop_request(&qp->ring[qp->done++ % RING]);
    qp->used = 0;
    fake_seen.open--;
    return 0;
}

API int ibv_fork_init(void) { return 0; }
API int ibv_is_fork_initialized(void) { return 2; }
