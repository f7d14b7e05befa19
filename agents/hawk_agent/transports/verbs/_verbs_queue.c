/* Queue pairs: made, connected, posted to, and their books. */
#include "_verbs.h"

/* ---- into and out of a completion queue's list ---- */

static int join(Completion *completion, Queue *queue)
{
    if (completion->count == completion->room) {
        const int64_t room = completion->room ? 2 * completion->room : 8;
        Queue **more = realloc(completion->queues, (size_t)room * sizeof *more);
        if (!more)
            return -1;
        completion->queues = more;
        completion->room = room;
    }
    queue->tag = completion->tag++ & 0x7fff;
    completion->queues[completion->count++] = queue;
    completion->reserved += queue->reserved;
    return 0;
}

static void leave(Completion *completion, const Queue *queue)
{
    for (int64_t i = 0; i < completion->count; i++) {
        if (completion->queues[i] != queue)
            continue;
        completion->queues[i] = completion->queues[--completion->count];
        completion->reserved -= queue->reserved;
        return;
    }
}

/* ---- life ---- */

static uint64_t interval_mask(int64_t depth)
{
    uint64_t interval = 1;
    while ((int64_t)(interval * 2) <= depth / 4)
        interval *= 2;
    return interval - 1;
}

static Queue *new_queue(PyTypeObject *type)
{
    Queue *self = verbs_new(type);
    if (!self)
        return NULL;
    pthread_mutex_init(&self->lock, NULL);
    self->first_failed = UINT64_MAX;
    return self;
}

PyDoc_STRVAR(queue_doc,
             "Queue(completion, depth, max_sge, receives, max_inline)\n\n"
             "A reliable queue pair. OSError ENOSPC when the completion queue couldn't hold all that this one and\n"
             "its neighbours may have in flight.");
static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    Completion *completion;
    unsigned int depth, max_sge, receives, max_inline;
    if (!PyArg_ParseTuple(args, "O!IIII", completion_type, &completion, &depth, &max_sge, &receives, &max_inline))
        return NULL;
    if (!completion->cq)
        return verbs_closed("completion queue");
    const int64_t reserved = (int64_t)depth + receives;
    if (completion->reserved + reserved > completion->cq->cqe)
        return verbs_error(ENOSPC);
    Context *context = completion->context;
    IbvQpInitAttr init = {
        .send_cq = completion->cq,
        .recv_cq = completion->cq,
        .cap = {depth, receives, max_sge, 1, max_inline},
        .qp_type = HAWK_IBV_QPT_RC,
    };
    Queue *self = new_queue(type);
    if (!self)
        return NULL;
    errno = 0;
    IbvQp *qp = context->library->call.create_qp(context->pd, &init);
    if (!qp) {
        const int error = errno;
        Py_DECREF((PyObject *)self);
        return verbs_error(error);
    }
    self->reserved = reserved;
    if (join(completion, self) < 0) {
        context->library->call.destroy_qp(qp);
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    Py_INCREF((PyObject *)context);
    Py_INCREF((PyObject *)completion);
    context->children++;
    self->context = context;
    self->completion = completion;
    self->qp = qp;
    self->depth = depth;
    self->max_sge = max_sge;
    self->max_inline = init.cap.max_inline_data;
    self->receives = receives;
    self->mask = interval_mask(depth);
    return (PyObject *)self;
}

/* Other threads find it closed already while the provider destroys it, which may take a minute. */
static int queue_end(Queue *self)
{
    if (!self->qp || !self->context)
        return 0;
    IbvQp *qp = self->qp;
    int error;
    self->qp = NULL;
    Py_BEGIN_ALLOW_THREADS
    error = as_errno(self->context->library->call.destroy_qp(qp));
    Py_END_ALLOW_THREADS
    if (error) {
        self->qp = qp;
        return error;
    }
    leave(self->completion, self);
    self->context->children--;
    return 0;
}

static void queue_dealloc(Queue *self)
{
    queue_end(self);
    pthread_mutex_destroy(&self->lock);
    Py_XDECREF((PyObject *)self->completion);
    Py_XDECREF((PyObject *)self->context);
    verbs_free(self);
}

/* The lock is held by a thread that posts, for as long as that takes; it holds no interpreter's lock then. */
static void lock_queue(Queue *self)
{
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->lock);
    Py_END_ALLOW_THREADS
}

PyDoc_STRVAR(queue_close_doc, "close()\n\nDestroy it. What is in flight then completes nowhere.");
static PyObject *queue_close(Queue *self, PyObject *unused)
{
    (void)unused;
    lock_queue(self);
    const int error = queue_end(self);
    pthread_mutex_unlock(&self->lock);
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

/* ---- states ---- */

static PyObject *modify(Queue *self, IbvQpAttr *attr, int mask)
{
    if (!self->qp || !self->context)
        return verbs_closed("queue pair");
    int error;
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    error = as_errno(self->context->library->call.modify_qp(self->qp, attr, mask | HAWK_IBV_QP_STATE));
    Py_END_ALLOW_THREADS
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(to_init_doc, "to_init(port, pkey_index, access)");
static PyObject *queue_to_init(Queue *self, PyObject *args)
{
    IbvQpAttr a = {.qp_state = HAWK_IBV_QPS_INIT};
    if (!PyArg_ParseTuple(args, "bHI", &a.port_num, &a.pkey_index, &a.qp_access_flags))
        return NULL;
    return modify(self, &a, HAWK_IBV_QP_PKEY_INDEX | HAWK_IBV_QP_PORT | HAWK_IBV_QP_ACCESS_FLAGS);
}

PyDoc_STRVAR(to_rtr_doc, "to_rtr(port, mtu, peer_number, peer_psn, peer_gid, gid_index, hop_limit, traffic_class,\n"
                         "       peer_reads, rnr_timer, peer_lid)");
static PyObject *queue_to_rtr(Queue *self, PyObject *args)
{
    IbvQpAttr a = {.qp_state = HAWK_IBV_QPS_RTR};
    const char *gid;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "biIIy#bbbbbH", &a.ah_attr.port_num, &a.path_mtu, &a.dest_qp_num, &a.rq_psn, &gid,
                          &length, &a.ah_attr.grh.sgid_index, &a.ah_attr.grh.hop_limit,
                          &a.ah_attr.grh.traffic_class, &a.max_dest_rd_atomic, &a.min_rnr_timer, &a.ah_attr.dlid))
        return NULL;
    if (length != 16)
        return verbs_error(EINVAL);
    memcpy(a.ah_attr.grh.dgid.raw, gid, 16);
    a.ah_attr.is_global = 1;
    return modify(self, &a,
                  HAWK_IBV_QP_AV | HAWK_IBV_QP_PATH_MTU | HAWK_IBV_QP_DEST_QPN | HAWK_IBV_QP_RQ_PSN |
                      HAWK_IBV_QP_MAX_DEST_RD_ATOMIC | HAWK_IBV_QP_MIN_RNR_TIMER);
}

PyDoc_STRVAR(to_rts_doc, "to_rts(timeout, retries, rnr_retries, psn, reads)");
static PyObject *queue_to_rts(Queue *self, PyObject *args)
{
    IbvQpAttr a = {.qp_state = HAWK_IBV_QPS_RTS};
    if (!PyArg_ParseTuple(args, "bbbIb", &a.timeout, &a.retry_cnt, &a.rnr_retry, &a.sq_psn, &a.max_rd_atomic))
        return NULL;
    return modify(self, &a,
                  HAWK_IBV_QP_TIMEOUT | HAWK_IBV_QP_RETRY_CNT | HAWK_IBV_QP_RNR_RETRY | HAWK_IBV_QP_SQ_PSN |
                      HAWK_IBV_QP_MAX_QP_RD_ATOMIC);
}

PyDoc_STRVAR(to_error_doc, "to_error()\n\nEnd all access through it: what is in flight is flushed.");
static PyObject *queue_to_error(Queue *self, PyObject *unused)
{
    (void)unused;
    IbvQpAttr a = {.qp_state = HAWK_IBV_QPS_ERR};
    return modify(self, &a, 0);
}

PyDoc_STRVAR(to_reset_doc, "to_reset() -> requests that were in flight and are written off as failed");
static PyObject *queue_to_reset(Queue *self, PyObject *unused)
{
    (void)unused;
    IbvQpAttr a = {.qp_state = HAWK_IBV_QPS_RESET};
    lock_queue(self);
    PyObject *done = modify(self, &a, 0);
    const uint64_t lost = self->posted - self->retired;
    if (done) {
        self->failed += lost;
        self->retired = self->posted;
        self->first_failed = UINT64_MAX;
        self->receives_done = self->receives_posted;
        self->receive_status = self->refill_error = 0;
    }
    pthread_mutex_unlock(&self->lock);
    Py_XDECREF(done);
    return done ? PyLong_FromUnsignedLongLong(lost) : NULL;
}

PyDoc_STRVAR(state_doc, "state() -> its state now: 0 RESET, 1 INIT, 2 RTR, 3 RTS, 4 SQD, 5 SQE, 6 ERR");
static PyObject *queue_state(Queue *self, PyObject *unused)
{
    (void)unused;
    if (!self->qp || !self->context)
        return verbs_closed("queue pair");
    IbvQpAttr attr;
    IbvQpInitAttr init;
    memset(&attr, 0, sizeof attr);
    const int error = as_errno(self->context->library->call.query_qp(self->qp, &attr, HAWK_IBV_QP_STATE, &init));
    return error ? verbs_error(error) : PyLong_FromLong(attr.qp_state);
}

/* ---- posting ---- */

int64_t queue_post(Queue *queue, IbvSendWr *first, int64_t count, int last_signalled, int *error)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t number = queue->posted + (uint64_t)i;
        const int signalled = !((number + 1) & queue->mask) || (last_signalled && i == count - 1);
        first[i].wr_id = ID_TAG(queue->tag) | (number & ID_NUMBER);
        first[i].send_flags &= ~(unsigned)HAWK_IBV_SEND_SIGNALED;
        first[i].send_flags |= signalled ? HAWK_IBV_SEND_SIGNALED : 0;
    }
    IbvSendWr *bad = first, *after = first[count - 1].next;
    first[count - 1].next = NULL;
    __atomic_store_n(&queue->offered, queue->posted + (uint64_t)count, __ATOMIC_RELEASE);
    errno = 0;
    *error = as_errno(queue->qp->context->ops.post_send(queue->qp, first, &bad));
    first[count - 1].next = after;
    int64_t went = count;
    if (*error) {
        went = bad ? bad - first : 0;
        if (went < 0 || went >= count) { /* no request of ours: nothing can be said of any of them */
            went = 0;
            *error = EBADMSG;
        }
    }
    queue->posted += (uint64_t)went;
    __atomic_store_n(&queue->offered, queue->posted, __ATOMIC_RELEASE);
    if (!queue->context) /* the provider that does nothing has done it */
        queue->retired = queue->posted;
    return went;
}

PyDoc_STRVAR(receive_doc, "receive(count)\n\nPost so many receives without a buffer: each takes one immediate.");
static PyObject *queue_receive(Queue *self, PyObject *args)
{
    int count;
    if (!PyArg_ParseTuple(args, "i", &count))
        return NULL;
    if (!self->qp || !self->context)
        return verbs_closed("queue pair");
    for (int i = 0; i < count; i++) {
        IbvRecvWr wr = {.wr_id = ID_RECEIVE | ID_TAG(self->tag)}, *bad = NULL;
        errno = 0;
        const int error = as_errno(self->qp->context->ops.post_recv(self->qp, &wr, &bad));
        if (error)
            return verbs_error(error);
        self->receives_posted++;
    }
    Py_RETURN_NONE;
}

/* Post one request, always signalled; returns its number. */
static PyObject *post_one(Queue *self, IbvSendWr *wr)
{
    if (!self->qp || !self->context)
        return verbs_closed("queue pair");
    int error = 0;
    lock_queue(self);
    if (queue_room(self) < 1)
        error = EAGAIN;
    else
        queue_post(self, wr, 1, 1, &error);
    const uint64_t number = self->posted - 1;
    pthread_mutex_unlock(&self->lock);
    return error ? verbs_error(error) : PyLong_FromUnsignedLongLong(number);
}

PyDoc_STRVAR(bind_doc,
             "bind(window, memory, address, nbytes, access) -> the request's number\n\n"
             "Open a window of registered memory to this queue pair's peer, under the key that Window.rkey is then.\n"
             "OSError EAGAIN when the queue is full.");
static PyObject *queue_bind(Queue *self, PyObject *args)
{
    Window *window;
    Memory *memory;
    unsigned long long address, nbytes;
    unsigned int access;
    if (!PyArg_ParseTuple(args, "O!O!KKI", window_type, &window, memory_type, &memory, &address, &nbytes, &access))
        return NULL;
    if (!window->mw || !memory->mr)
        return verbs_closed(window->mw ? "memory" : "window");
    const uint32_t rkey = (window->rkey & ~0xffu) | ((window->rkey + 1) & 0xff);
    IbvSendWr wr = {.opcode = HAWK_IBV_WR_BIND_MW};
    wr.bind_mw.mw = window->mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = (IbvBindInfo){memory->mr, address, nbytes, access};
    PyObject *number = post_one(self, &wr);
    if (number)
        window->rkey = rkey;
    return number;
}

PyDoc_STRVAR(invalidate_doc, "invalidate(window) -> the request's number\n\nClose a window, for good once it completes.");
static PyObject *queue_invalidate(Queue *self, PyObject *args)
{
    Window *window;
    if (!PyArg_ParseTuple(args, "O!", window_type, &window))
        return NULL;
    if (!window->mw)
        return verbs_closed("window");
    IbvSendWr wr = {.opcode = HAWK_IBV_WR_LOCAL_INV, .imm_data = window->rkey};
    return post_one(self, &wr);
}

PyDoc_STRVAR(mark_doc, "mark() -> the request's number\n\n"
                       "Post a write of nothing: in ERR it is flushed, after all that was posted before it.");
static PyObject *queue_mark(Queue *self, PyObject *unused)
{
    (void)unused;
    IbvSendWr wr = {.opcode = HAWK_IBV_WR_RDMA_WRITE};
    return post_one(self, &wr);
}

static PyMethodDef queue_methods[] = {
    {"close", (PyCFunction)queue_close, METH_NOARGS, queue_close_doc},
    {"to_init", (PyCFunction)queue_to_init, METH_VARARGS, to_init_doc},
    {"to_rtr", (PyCFunction)queue_to_rtr, METH_VARARGS, to_rtr_doc},
    {"to_rts", (PyCFunction)queue_to_rts, METH_VARARGS, to_rts_doc},
    {"to_error", (PyCFunction)queue_to_error, METH_NOARGS, to_error_doc},
    {"to_reset", (PyCFunction)queue_to_reset, METH_NOARGS, to_reset_doc},
    {"state", (PyCFunction)queue_state, METH_NOARGS, state_doc},
    {"receive", (PyCFunction)queue_receive, METH_VARARGS, receive_doc},
    {"bind", (PyCFunction)queue_bind, METH_VARARGS, bind_doc},
    {"invalidate", (PyCFunction)queue_invalidate, METH_VARARGS, invalidate_doc},
    {"mark", (PyCFunction)queue_mark, METH_NOARGS, mark_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- books ---- */

#define NUMBER(name, value)                                                                                            \
    static PyObject *queue_##name(Queue *self, void *unused)                                                           \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        return PyLong_FromUnsignedLongLong((unsigned long long)(value));                                               \
    }
NUMBER(number, self->qp ? self->qp->qp_num : 0)
NUMBER(get_tag, self->tag)
NUMBER(posted, self->posted)
NUMBER(retired, self->retired)
NUMBER(failed, self->failed)
NUMBER(get_strays, self->strays)
NUMBER(waiting, self->receives_posted - self->receives_done)
NUMBER(inline_bytes, self->max_inline)
NUMBER(get_receive_status, self->receive_status)
NUMBER(refill, self->refill_error)

static PyObject *queue_failure(Queue *self, void *unused)
{
    (void)unused;
    if (self->first_failed == UINT64_MAX)
        Py_RETURN_NONE;
    return Py_BuildValue("KiI", (unsigned long long)self->first_failed, self->status, self->vendor);
}

static PyGetSetDef queue_getset[] = {
    {"number", (getter)queue_number, NULL, "The queue pair's number.", NULL},
    {"tag", (getter)queue_get_tag, NULL, "What its completion queue calls it.", NULL},
    {"posted", (getter)queue_posted, NULL, "Send requests posted since it was made.", NULL},
    {"retired", (getter)queue_retired, NULL, "Those that ended, well or not.", NULL},
    {"failed", (getter)queue_failed, NULL, "Those that ended otherwise than well.", NULL},
    {"failure", (getter)queue_failure, NULL, "(number, status, vendor's code) of the first failed request, or None.",
     NULL},
    {"strays", (getter)queue_get_strays, NULL, "Completions of requests that had been written off.", NULL},
    {"receives", (getter)queue_waiting, NULL, "Receives that wait.", NULL},
    {"max_inline", (getter)queue_inline_bytes, NULL, "Bytes that a request may carry inline.", NULL},
    {"receive_status", (getter)queue_get_receive_status, NULL, "The status of the first failed receive, or 0.", NULL},
    {"refill_error", (getter)queue_refill, NULL, "Why a receive couldn't be posted anew; 0 when all were.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot queue_slots[] = {
    {Py_tp_new, queue_new},       {Py_tp_dealloc, queue_dealloc}, {Py_tp_methods, queue_methods},
    {Py_tp_getset, queue_getset}, {Py_tp_doc, (void *)queue_doc}, {0, NULL},
};
PyType_Spec queue_spec = {"hawk_agent.transports.verbs._verbs.Queue", sizeof(Queue), 0, Py_TPFLAGS_DEFAULT,
                          queue_slots};

/* ---- a provider that does nothing ---- */

static IbvContext noop_context;
static IbvQp noop_qp = {.context = &noop_context};

static int noop_send(IbvQp *qp, IbvSendWr *wr, IbvSendWr **bad)
{
    (void)qp;
    (void)wr;
    (void)bad;
    return 0;
}

PyObject *noop_queue(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int depth, max_sge, max_inline;
    if (!PyArg_ParseTuple(args, "III", &depth, &max_sge, &max_inline))
        return NULL;
    Queue *self = new_queue(queue_type);
    if (!self)
        return NULL;
    noop_context.ops.post_send = noop_send;
    self->qp = &noop_qp;
    self->depth = depth;
    self->max_sge = max_sge;
    self->max_inline = max_inline;
    self->mask = interval_mask(depth);
    return (PyObject *)self;
}
