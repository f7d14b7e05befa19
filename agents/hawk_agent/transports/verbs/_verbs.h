/* Shared by the extension's parts: the library's functions and the objects that Python holds. */
#ifndef HAWK_VERBS_H
#define HAWK_VERBS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "_ibv.h"

/* The functions of libibverbs that aren't run through a context's own table. */
typedef struct {
    IbvDevice **(*get_device_list)(int *count);
    void (*free_device_list)(IbvDevice **list);
    IbvContext *(*open_device)(IbvDevice *device);
    int (*close_device)(IbvContext *context);
    int (*get_async_event)(IbvContext *context, IbvAsyncEvent *event);
    void (*ack_async_event)(IbvAsyncEvent *event);
    int (*query_device)(IbvContext *context, IbvDeviceAttr *attr);
    int (*query_port)(IbvContext *context, uint8_t port, IbvPortAttr *attr);
    int (*query_gid_ex)(IbvContext *context, uint32_t port, uint32_t index, IbvGidEntry *entry, uint32_t flags,
                        size_t size);
    IbvPd *(*alloc_pd)(IbvContext *context);
    int (*dealloc_pd)(IbvPd *pd);
    IbvMr *(*reg_mr_iova2)(IbvPd *pd, void *address, size_t length, uint64_t iova, unsigned int access);
    IbvMr *(*reg_dmabuf_mr)(IbvPd *pd, uint64_t offset, size_t length, uint64_t iova, int descriptor, int access);
    int (*dereg_mr)(IbvMr *mr);
    IbvChannel *(*create_comp_channel)(IbvContext *context);
    int (*destroy_comp_channel)(IbvChannel *channel);
    IbvCq *(*create_cq)(IbvContext *context, int entries, void *cq_context, IbvChannel *channel, int vector);
    int (*destroy_cq)(IbvCq *cq);
    int (*get_cq_event)(IbvChannel *channel, IbvCq **cq, void **cq_context);
    void (*ack_cq_events)(IbvCq *cq, unsigned int events);
    IbvQp *(*create_qp)(IbvPd *pd, IbvQpInitAttr *attr);
    int (*modify_qp)(IbvQp *qp, IbvQpAttr *attr, int mask);
    int (*query_qp)(IbvQp *qp, IbvQpAttr *attr, int mask, IbvQpInitAttr *init);
    int (*destroy_qp)(IbvQp *qp);
    int (*fork_init)(void);
    int (*is_fork_initialized)(void);
} Functions;

typedef struct {
    PyObject_HEAD
    void *handle;
    Functions call;
} Library;

/* A device that was opened, with its protection domain. `children` keep it open. */
typedef struct {
    PyObject_HEAD
    Library *library;
    IbvContext *context;
    IbvPd *pd;
    int64_t children;
} Context;

typedef struct {
    PyObject_HEAD
    Context *context;
    IbvMr *mr;
} Memory;

typedef struct {
    PyObject_HEAD
    Context *context;
    IbvMw *mw;
    uint32_t rkey; /* of the last bind; the next one counts its lowest byte on */
} Window;

typedef struct Queue Queue;

/* A completion queue with its event channel, and the queue pairs that complete into it (borrowed). */
typedef struct {
    PyObject_HEAD
    Context *context;
    IbvChannel *channel;
    IbvCq *cq;
    Queue **queues;
    int64_t count, room, reserved;
    uint32_t tag;
} Completion;

/* A queue pair and its books: posted, retired and failed count send requests since it was made. */
struct Queue {
    PyObject_HEAD
    Context *context;
    Completion *completion;
    IbvQp *qp;
    pthread_mutex_t lock; /* held while requests are posted, so that their numbers are in order */
    uint32_t tag;
    int64_t depth, max_sge, max_inline, receives, reserved;
    uint64_t mask; /* one request in mask + 1 is signalled */
    uint64_t posted, offered, retired, failed; /* offered: posted, and what is being posted right now */
    uint64_t first_failed; /* the number of the first failed request, UINT64_MAX for none */
    int status;            /* its status */
    uint32_t vendor;
    uint64_t receives_posted, receives_done, strays;
    int receive_status, refill_error; /* the first receive that failed; why one couldn't be posted anew */
};

/* A request's id: one bit for receives, 15 bits of the queue's tag, 48 bits of its number. */
#define ID_RECEIVE ((uint64_t)1 << 63)
#define ID_TAG(tag) ((uint64_t)((tag) & 0x7fff) << 48)
#define ID_NUMBER (((uint64_t)1 << 48) - 1)

extern PyTypeObject *library_type, *context_type, *memory_type, *window_type, *completion_type, *queue_type,
    *cursor_type;

/* Number of a type's spec in its own file. */
extern PyType_Spec library_spec, context_spec, memory_spec, window_spec, completion_spec, queue_spec, cursor_spec;

void *verbs_new(PyTypeObject *type);
void verbs_free(void *self);
PyObject *verbs_error(int error);
PyObject *verbs_closed(const char *what);

/* A provider's return value as an errno: positive, -1 with errno set, or -errno. */
static inline int as_errno(int returned)
{
    if (returned == 0)
        return 0;
    if (returned > 0)
        return returned;
    return returned == -1 ? (errno ? errno : EIO) : -returned;
}

/* Post a chain of requests that stand side by side; the caller holds the lock and has seen that they fit.
 * Returns how many went; *error is 0 or why the next one didn't. */
int64_t queue_post(Queue *queue, IbvSendWr *first, int64_t count, int last_signalled, int *error);

/* Requests that may be posted now. */
static inline int64_t queue_room(const Queue *queue)
{
    const uint64_t retired = __atomic_load_n(&queue->retired, __ATOMIC_ACQUIRE);
    return queue->depth - (int64_t)(queue->posted - retired);
}

PyObject *noop_queue(PyObject *module, PyObject *args);

#endif
