/* A libibverbs of one process: an executable model of reliable queue pairs that moves real bytes.
 *
 * It is opened like the real library. It enforces what a device enforces (list lengths, queue depth, message
 * size, registrations with their access, windows, states, room in completion queues), works its send queues off
 * when somebody posts or polls, frees their places only when a completion is taken, and fails as it is told to.
 * Tests reach its `fake_*` functions and the knobs in `fake` through ctypes.
 */
#include "fake_model.h"


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
    ENTER;
    if (type != HAWK_IBV_MW_TYPE_2 || fake.windows <= 0) {
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
    ENTER;
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
    ENTER;
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
    ENTER;
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
    ENTER;
    IbvPd *pd = calloc(1, sizeof *pd);
    pd->context = context;
    fake_seen.open++;
    return pd;
}

API int ibv_dealloc_pd(IbvPd *pd)
{
    ENTER;
    free(pd);
    fake_seen.open--;
    return 0;
}

static IbvMr *new_mr(IbvPd *pd, uint64_t address, size_t bytes, uint32_t access)
{
    ENTER;
    const int error = access & HAWK_IBV_ACCESS_ON_DEMAND ? (int)fake.odp_errno : 0;
    const uint32_t writable = HAWK_IBV_ACCESS_REMOTE_WRITE;
    const int unwritable = access & writable && !(access & HAWK_IBV_ACCESS_LOCAL_WRITE);
    errno = error ? error : bytes > fake.max_mr ? ENOMEM : unwritable ? EINVAL : 0;
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
    if ((errno = access & HAWK_IBV_ACCESS_ON_DEMAND ? 0 : (int)fake.plain_errno))
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
    ENTER;
    find_key(mr->lkey)->used = 0;
    fake_seen.registered -= (int64_t)mr->length;
    fake_seen.open--;
    free(mr);
    return 0;
}

API IbvChannel *ibv_create_comp_channel(IbvContext *context)
{
    ENTER;
    IbvChannel *channel = calloc(1, sizeof *channel);
    *channel = (IbvChannel){context, eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE), 0};
    fake_seen.open++;
    return channel;
}

API int ibv_destroy_comp_channel(IbvChannel *channel)
{
    ENTER;
    close(channel->fd);
    free(channel);
    fake_seen.open--;
    return 0;
}

API IbvCq *ibv_create_cq(IbvContext *context, int entries, void *cq_context, IbvChannel *channel, int vector)
{
    ENTER;
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
    ENTER;
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
    ENTER;
    int at = 0;
    while (at < QPS && qps[at] && qps[at]->used)
        at++;
    const IbvQpCap *cap = &init->cap;
    if (at == QPS || cap->max_send_sge > fake.max_sge || cap->max_send_wr > fake.max_qp_wr ||
        init->qp_type != HAWK_IBV_QPT_RC ||
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
    ENTER;
    Qp *qp = (Qp *)given;
    static const int NEEDS[] = {
        HAWK_IBV_QP_STATE, HAWK_IBV_QP_STATE | HAWK_IBV_QP_PKEY_INDEX | HAWK_IBV_QP_PORT | HAWK_IBV_QP_ACCESS_FLAGS,
        HAWK_IBV_QP_STATE | HAWK_IBV_QP_AV | HAWK_IBV_QP_PATH_MTU | HAWK_IBV_QP_DEST_QPN | HAWK_IBV_QP_RQ_PSN |
            HAWK_IBV_QP_MAX_DEST_RD_ATOMIC | HAWK_IBV_QP_MIN_RNR_TIMER,
        HAWK_IBV_QP_STATE | HAWK_IBV_QP_TIMEOUT | HAWK_IBV_QP_RETRY_CNT | HAWK_IBV_QP_RNR_RETRY |
            HAWK_IBV_QP_SQ_PSN | HAWK_IBV_QP_MAX_QP_RD_ATOMIC,
    };
    const int to = attr->qp_state;
    if (fake.modify_state == to)
        return (int)fake.modify_errno;
    if (to >= HAWK_IBV_QPS_INIT && to <= HAWK_IBV_QPS_RTS && (mask != NEEDS[to] || qp->qp.state != to - 1))
        return EINVAL;
    if (to == HAWK_IBV_QPS_INIT)
        qp->access = attr->qp_access_flags;
    if (to == HAWK_IBV_QPS_RTR) {
        if (attr->path_mtu > fake.mtu[of_device(given->context)] || !attr->min_rnr_timer)
            return EINVAL;
        qp->peer = attr->dest_qp_num;
    }
    if (to == HAWK_IBV_QPS_RTS && (attr->retry_cnt > 6 || attr->rnr_retry > 6 || !attr->timeout))
        return EINVAL; /* would wait for ever */
    if (to == HAWK_IBV_QPS_ERR)
        end_queue(qp);
    if (to == HAWK_IBV_QPS_RESET) {
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
    for (int i = 0; i < 5000 && __atomic_load_n(&fake.held, __ATOMIC_ACQUIRE); i++)
        usleep(1000);
    ENTER;
    Qp *qp = (Qp *)given;
    for (int i = 0; i < KEYS; i++) /* SoftRoCE waits a minute for them */
        if (opened[i].used && opened[i].only == qp)
            return EBUSY;
    while (qp->done < qp->head)
        drop_request(&qp->ring[qp->done++ % RING]);
    qp->used = 0;
    fake_seen.open--;
    return 0;
}

API int ibv_fork_init(void) { return 0; }
API int ibv_is_fork_initialized(void) { return 2; }
