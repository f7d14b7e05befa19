/* The model below the fake libibverbs: queue pairs that move real bytes within a device's limits. */
#ifndef HAWK_FAKE_MODEL_H
#define HAWK_FAKE_MODEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mutexes that their owner may take again */
#endif
#include "_ibv.h"

#include <errno.h>
#include <pthread.h>
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
    int64_t held;  /* destroying a queue pair takes until this is 0, or five seconds */
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

/* Callers hold no interpreter's lock, so the model has one of its own: taken where it is entered. */
static pthread_mutex_t model = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t *lock_model(void)
{
    pthread_mutex_lock(&model);
    return &model;
}
static void unlock_model(pthread_mutex_t **locked) { pthread_mutex_unlock(*locked); }
#define ENTER __attribute__((cleanup(unlock_model))) pthread_mutex_t *locked = lock_model()

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
        push(qp->cq, qp,
             (IbvWc){.wr_id = qp->receives[qp->receive_tail++ % RING], .status = HAWK_IBV_WC_WR_FLUSH_ERR}, 0);
}

static void end_queue(Qp *qp)
{
    if (qp->qp.state != HAWK_IBV_QPS_ERR)
        flush_receives(qp);
    qp->qp.state = HAWK_IBV_QPS_ERR;
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
    const int reads = w->opcode == HAWK_IBV_WR_RDMA_READ;
    uint64_t bytes = 0, at = w->wr.rdma.remote_addr;
    for (int i = 0; i < w->num_sge; i++) {
        bytes += r->sge[i].length;
        if (!fake.dry && !r->inlined && !allowed(r->sge[i].lkey, r->sge[i].addr, r->sge[i].length,
                                                reads ? HAWK_IBV_ACCESS_LOCAL_WRITE : 0, qp))
            return LOC_PROT;
    }
    if (bytes > fake.max_message)
        return LOC_LEN;
    if ((int64_t)bytes > fake_seen.most_bytes)
        fake_seen.most_bytes = (int64_t)bytes;
    if (fake.dry)
        return 0;
    const uint32_t need = reads ? HAWK_IBV_ACCESS_REMOTE_READ : HAWK_IBV_ACCESS_REMOTE_WRITE;
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
    if (!under || !(under->access & HAWK_IBV_ACCESS_MW_BIND) || b->addr < under->start || b->addr + b->length > under->end)
        return MW_BIND;
    if ((r->wr.bind_mw.rkey & ~0xffu) != (r->wr.bind_mw.mw->handle & ~0xffu) || find_key(r->wr.bind_mw.rkey))
        return MW_BIND;
    return open_key(b->addr, b->length, b->mw_access_flags, qp, r->wr.bind_mw.rkey) ? 0 : MW_BIND;
}

static int execute(Request *r, Qp *qp)
{
    fake_seen.executed++;
    if (r->wr.opcode == HAWK_IBV_WR_BIND_MW)
        return bind_window(r, qp);
    if (r->wr.opcode == HAWK_IBV_WR_LOCAL_INV) {
        Opened *o = find_key(r->wr.imm_data);
        if (!o || o->only != qp)
            return MW_BIND;
        o->used = 0;
        return 0;
    }
    Qp *peer = peer_of(qp);
    if (!peer || (peer->qp.state != HAWK_IBV_QPS_RTR && peer->qp.state != HAWK_IBV_QPS_RTS) ||
        peer->peer != qp->qp.qp_num)
        return RETRY;
    if (r->wr.opcode == HAWK_IBV_WR_RDMA_WRITE_WITH_IMM && peer->receive_tail == peer->receive_head)
        return RNR;
    const int status = move_bytes(r, qp, peer);
    if (status == REM_ACCESS)
        end_queue(peer);
    if (status || r->wr.opcode != HAWK_IBV_WR_RDMA_WRITE_WITH_IMM)
        return status;
    uint32_t bytes = 0;
    for (int i = 0; i < r->wr.num_sge; i++)
        bytes += r->sge[i].length;
    push(peer->cq, peer,
         (IbvWc){.wr_id = peer->receives[peer->receive_tail++ % RING], .opcode = HAWK_IBV_WC_RECV_RDMA_WITH_IMM,
                 .byte_len = bytes,
                 .imm_data = r->wr.imm_data, .wc_flags = HAWK_IBV_WC_WITH_IMM},
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
        const int flushes = qp->qp.state == HAWK_IBV_QPS_ERR;
        const int status = flushes ? HAWK_IBV_WC_WR_FLUSH_ERR : execute(r, qp);
        fake_seen.flushed += flushes, fake_seen.faults += status && !flushes;
        if (status)
            end_queue(qp);
        qp->done++;
        if ((status && !(flushes && fake.quiet)) || r->wr.send_flags & HAWK_IBV_SEND_SIGNALED)
            push(qp->cq, qp, (IbvWc){.wr_id = r->wr.wr_id, .status = status, .vendor_err = status ? 0x51 : 0}, qp->done);
        drop_request(r);
    }
}

API void fake_work(int64_t most)
{
    ENTER;
    for (int i = 0; i < QPS; i++)
        if (qps[i] && qps[i]->used)
            work_off(qps[i], most);
}

static int poll_cq(IbvCq *given, int entries, IbvWc *wc)
{
    ENTER;
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
    ENTER;
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
    if (w->send_flags & HAWK_IBV_SEND_INLINE && bytes > qp->cap.max_inline_data)
        return EINVAL;
    r->wr = *w;
    r->sge = malloc((size_t)(w->num_sge + 1) * sizeof *r->sge);
    if (w->num_sge)
        memcpy(r->sge, w->sg_list, (size_t)w->num_sge * sizeof *r->sge);
    if (w->send_flags & HAWK_IBV_SEND_INLINE && !fake.dry) {
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
        if (qp->qp.state != HAWK_IBV_QPS_RTS && qp->qp.state != HAWK_IBV_QPS_ERR)
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
    ENTER;
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
    ENTER;
    Qp *qp = (Qp *)given;
    for (; wr; wr = wr->next) {
        *bad = wr;
        if (qp->qp.state == HAWK_IBV_QPS_RESET)
            return EINVAL;
        if (qp->receive_head - qp->receive_tail >= qp->cap.max_recv_wr)
            return ENOMEM;
        qp->receives[qp->receive_head++ % RING] = wr->wr_id;
    }
    if (qp->qp.state == HAWK_IBV_QPS_ERR)
        flush_receives(qp);
    return 0;
}

#endif
