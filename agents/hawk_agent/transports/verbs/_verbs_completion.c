/* Completion queues: polled in batches, their events told by a descriptor, every request accounted for. */
#include "_verbs.h"

#include <arpa/inet.h>

#define BATCH 64

PyDoc_STRVAR(completion_doc, "Completion(context, entries)\n\nA completion queue with an event channel of its own.");
static PyObject *completion_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    Context *context;
    int entries;
    if (!PyArg_ParseTuple(args, "O!i", context_type, &context, &entries))
        return NULL;
    if (!context->context)
        return verbs_closed("device");
    const Functions *call = &context->library->call;
    errno = 0;
    IbvChannel *channel = call->create_comp_channel(context->context);
    if (!channel)
        return verbs_error(errno);
    errno = 0;
    IbvCq *cq = call->create_cq(context->context, entries, NULL, channel, 0);
    int error = errno;
    Completion *self = cq ? verbs_new(type) : NULL;
    if (!self) {
        if (cq)
            call->destroy_cq(cq);
        call->destroy_comp_channel(channel);
        return PyErr_Occurred() ? NULL : verbs_error(error);
    }
    Py_INCREF((PyObject *)context);
    context->children++;
    self->context = context;
    self->channel = channel;
    self->cq = cq;
    return (PyObject *)self;
}

static int completion_end(Completion *self)
{
    if (!self->cq)
        return 0;
    const Functions *call = &self->context->library->call;
    int error = as_errno(call->destroy_cq(self->cq));
    if (error)
        return error;
    self->cq = NULL;
    error = as_errno(call->destroy_comp_channel(self->channel));
    self->channel = NULL;
    self->context->children--;
    return error;
}

static void completion_dealloc(Completion *self)
{
    completion_end(self);
    free(self->queues);
    Py_XDECREF((PyObject *)self->context);
    verbs_free(self);
}

PyDoc_STRVAR(completion_close_doc, "close()\n\nDestroy it; OSError EBUSY while a queue pair completes into it.");
static PyObject *completion_close(Completion *self, PyObject *unused)
{
    (void)unused;
    const int error = completion_end(self);
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(arm_doc, "arm()\n\nAsk for an event at the next completion. Poll once more afterwards.");
static PyObject *completion_arm(Completion *self, PyObject *unused)
{
    (void)unused;
    if (!self->cq)
        return verbs_closed("completion queue");
    const int error = as_errno(self->cq->context->ops.req_notify_cq(self->cq, 0));
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(wake_doc, "wake() -> whether an event was there, which it takes. The descriptor mustn't block.");
static PyObject *completion_wake(Completion *self, PyObject *unused)
{
    (void)unused;
    if (!self->cq)
        return verbs_closed("completion queue");
    IbvCq *cq;
    void *cq_context;
    errno = 0;
    if (self->context->library->call.get_cq_event(self->channel, &cq, &cq_context)) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
            Py_RETURN_FALSE;
        return verbs_error(errno);
    }
    self->context->library->call.ack_cq_events(cq, 1);
    Py_RETURN_TRUE;
}

static Queue *find_queue(const Completion *self, uint64_t id)
{
    for (int64_t i = 0; i < self->count; i++)
        if (ID_TAG(self->queues[i]->tag) == (id & ID_TAG(0x7fff)))
            return self->queues[i];
    return NULL;
}

/* A provider says of a request that it is done: so are all before it, which weren't signalled. */
static void account(Queue *queue, uint64_t number, const IbvWc *wc)
{
    if (number < queue->retired || number >= __atomic_load_n(&queue->offered, __ATOMIC_ACQUIRE)) {
        queue->strays++; /* of before a reset */
        return;
    }
    const uint64_t before = number - queue->retired;
    if (queue->first_failed != UINT64_MAX)
        queue->failed += before; /* a failed queue completes nothing: these were flushed without a word */
    if (wc->status != HAWK_IBV_WC_SUCCESS) {
        queue->failed++;
        if (queue->first_failed == UINT64_MAX) {
            queue->first_failed = number;
            queue->status = wc->status;
            queue->vendor = wc->vendor_err;
        }
    }
    __atomic_store_n(&queue->retired, number + 1, __ATOMIC_RELEASE);
}

/* A receive is done: note its immediate, and post another at once, whoever consumes them. */
static int received(Queue *queue, const IbvWc *wc, PyObject *found)
{
    queue->receives_done++;
    if (wc->status != HAWK_IBV_WC_SUCCESS) {
        if (!queue->receive_status)
            queue->receive_status = wc->status;
        return 0;
    }
    IbvRecvWr wr = {.wr_id = ID_RECEIVE | ID_TAG(queue->tag)}, *bad = NULL;
    const int error = as_errno(queue->qp->context->ops.post_recv(queue->qp, &wr, &bad));
    if (error)
        queue->refill_error = error;
    else
        queue->receives_posted++;
    if (!(wc->wc_flags & HAWK_IBV_WC_WITH_IMM))
        return 0;
    PyObject *one = Py_BuildValue("III", queue->tag, (unsigned int)ntohl(wc->imm_data), wc->byte_len);
    const int failed = !one || PyList_Append(found, one) < 0;
    Py_XDECREF(one);
    return failed ? -1 : 0;
}

PyDoc_STRVAR(poll_doc,
             "poll(limit) -> (completions taken, [(tag of the queue, immediate in host order, bytes), ...])\n\n"
             "Take at most so many completions: send requests are written off in their queue's books, receives are\n"
             "posted anew, and the immediates that arrived come back.");
static PyObject *completion_poll(Completion *self, PyObject *args)
{
    int limit;
    if (!PyArg_ParseTuple(args, "i", &limit))
        return NULL;
    if (!self->cq)
        return verbs_closed("completion queue");
    PyObject *found = PyList_New(0);
    IbvWc wc[BATCH];
    int taken = 0, failed = !found;
    while (taken < limit && !failed) {
        const int asked = limit - taken < BATCH ? limit - taken : BATCH;
        errno = 0;
        const int n = self->cq->context->ops.poll_cq(self->cq, asked, wc);
        if (n < 0) {
            verbs_error(as_errno(n));
            failed = 1;
            break;
        }
        for (int i = 0; i < n; i++) { /* all of them, even if a list can't grow */
            Queue *queue = find_queue(self, wc[i].wr_id);
            if (!queue)
                continue; /* of a queue that is closed */
            if (wc[i].wr_id & ID_RECEIVE)
                failed |= received(queue, &wc[i], found) < 0;
            else
                account(queue, wc[i].wr_id & ID_NUMBER, &wc[i]);
        }
        taken += n;
        if (n < asked)
            break;
    }
    PyObject *answer = failed ? NULL : Py_BuildValue("iO", taken, found);
    Py_XDECREF(found);
    return answer;
}

static PyObject *completion_fd(Completion *self, void *unused)
{
    (void)unused;
    return self->channel ? PyLong_FromLong(self->channel->fd) : verbs_closed("completion queue");
}

static PyObject *completion_entries(Completion *self, void *unused)
{
    (void)unused;
    return self->cq ? PyLong_FromLong(self->cq->cqe) : verbs_closed("completion queue");
}

static PyObject *completion_reserved(Completion *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->reserved);
}

static PyMethodDef completion_methods[] = {
    {"close", (PyCFunction)completion_close, METH_NOARGS, completion_close_doc},
    {"arm", (PyCFunction)completion_arm, METH_NOARGS, arm_doc},
    {"wake", (PyCFunction)completion_wake, METH_NOARGS, wake_doc},
    {"poll", (PyCFunction)completion_poll, METH_VARARGS, poll_doc},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef completion_getset[] = {
    {"fd", (getter)completion_fd, NULL, "Descriptor that is readable when an event waits.", NULL},
    {"entries", (getter)completion_entries, NULL, "Completions that it holds.", NULL},
    {"reserved", (getter)completion_reserved, NULL, "Completions that its queue pairs may have at once.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot completion_slots[] = {
    {Py_tp_new, completion_new},       {Py_tp_dealloc, completion_dealloc}, {Py_tp_methods, completion_methods},
    {Py_tp_getset, completion_getset}, {Py_tp_doc, (void *)completion_doc}, {0, NULL},
};
PyType_Spec completion_spec = {"hawk_agent.transports.verbs._verbs.Completion", sizeof(Completion), 0,
                               Py_TPFLAGS_DEFAULT, completion_slots};
