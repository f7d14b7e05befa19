/* The cursor as Python has it: made and checked in one go, posted from as far as a queue has room. */
#include "_verbs_walk.h"

PyDoc_STRVAR(post_doc,
             "post(queue, most) -> (posted, errno)\n\n"
             "Post as many of the next requests as the queue has room for, at most `most`, as chains. errno is 0, or\n"
             "what the provider said of the request after the last posted; calling again goes on with that one. EFAULT\n"
             "of ours: the next run is in memory that no key opens.");
static PyObject *cursor_post(Cursor *c, PyObject *args)
{
    Queue *queue;
    long long most;
    if (!PyArg_ParseTuple(args, "O!L", queue_type, &queue, &most))
        return NULL;
    if (c->max_sge > queue->max_sge || c->max_inline > queue->max_inline)
        return verbs_error(EINVAL);
    if (c->busy) {
        PyErr_SetString(PyExc_ValueError, "cursor: another thread posts from it");
        return NULL;
    }
    c->busy = 1;
    int64_t posted = 0;
    int error = 0, closed = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&queue->lock);
    closed = !queue->qp;
    while (!closed && !error && posted < most && !finished(c)) {
        int64_t room = queue_room(queue);
        if (room > most - posted)
            room = most - posted;
        if (room < 1)
            break;
        if (c->sent == c->filled && !c->outside)
            fill(c, room < c->chain ? room : c->chain);
        if (c->sent == c->filled) {
            error = EFAULT;
            break;
        }
        int64_t count = c->filled - c->sent;
        if (count > room)
            count = room;
        const int last = c->done && !c->has_immediate && c->sent + count == c->filled;
        const int64_t went = queue_post(queue, c->wr + c->sent, count, last, &error);
        c->sent += went;
        c->requests += (uint64_t)went;
        posted += went;
        if (went)
            c->last = queue->posted - 1;
    }
    pthread_mutex_unlock(&queue->lock);
    Py_END_ALLOW_THREADS
    c->busy = 0;
    if (closed)
        return verbs_closed("queue pair");
    return Py_BuildValue("Li", (long long)posted, error);
}

/* ---- making one ---- */

static const char *take_extents(Place *place, const Py_buffer *keys)
{
    const int64_t count = keys->len / 32;
    const uint64_t *words = keys->buf;
    if (keys->len % 32 || count < 1)
        return "keys: not one or more of offset, bytes, address and key";
    if (!(place->extents = calloc((size_t)count, sizeof *place->extents)))
        return "keys: no memory";
    uint64_t covered = 0;
    for (int64_t i = 0; i < count; i++, words += 4) {
        if (words[0] < covered || !words[1] || words[1] > UINT64_MAX - words[0] || words[1] > UINT64_MAX - words[2])
            return "keys: empty, out of order, overlapping, or beyond the address space";
        covered = words[0] + words[1];
        place->extents[i] = (Extent){words[0], covered, words[2] - words[0], (uint32_t)words[3]};
    }
    place->count = count;
    return NULL;
}

static const char *take_place(Place *place, unsigned long long nbytes, const Py_buffer *table, long long page,
                              const Py_buffer *keys)
{
    if (nbytes > INT64_MAX)
        return "memory: longer than the address space";
    if (!(place->table = malloc((size_t)table->len + 8)))
        return "table: no memory";
    memcpy(place->table, table->buf, (size_t)table->len);
    Py_buffer memory = {.buf = NULL, .len = (Py_ssize_t)nbytes}, ours = {.buf = place->table, .len = table->len};
    const char *why = make_side(&place->side, &memory, &ours, page);
    return why ? why : take_extents(place, keys);
}

static const char *check_programs(Cursor *c)
{
    const Side *source = c->reads ? &c->remote.side : &c->local.side;
    const Side *destination = c->reads ? &c->local.side : &c->remote.side;
    const char *why;
    Program p;
    for (const int64_t *w = c->words; w < c->end;)
        if ((why = read_program(&w, c->end, &p)) || (why = check_side(&p, source, 0)) ||
            (why = check_side(&p, destination, 1)))
            return why;
    return NULL;
}

static const char *make_arena(Cursor *c)
{
    if (c->max_sge < 1 || c->max_sge > 4096 || c->chain < 1 || c->chain > 65536 || c->max_message < 1)
        return "limits: pieces, chain and message must be at least 1";
    c->wr = calloc((size_t)c->chain, sizeof *c->wr);
    c->sge = calloc((size_t)(c->chain * c->max_sge), sizeof *c->sge);
    if (!c->wr || !c->sge)
        return "arena: no memory";
    for (int64_t i = 0; i < c->chain; i++) {
        c->wr[i].next = i + 1 < c->chain ? &c->wr[i + 1] : NULL;
        c->wr[i].sg_list = c->sge + i * c->max_sge;
        c->wr[i].opcode = c->reads ? HAWK_IBV_WR_RDMA_READ : HAWK_IBV_WR_RDMA_WRITE;
    }
    return NULL;
}

PyDoc_STRVAR(cursor_doc,
             "Cursor(programs, reads, local, remote, max_sge, max_message, max_inline, chain, immediate)\n\n"
             "A walk over programs. local and remote are (bytes, block table, page, keys), keys 64-bit words in fours:\n"
             "offset, bytes, address, key. immediate is None or 32 bits in host order, sent with the last write.");
static PyObject *cursor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    Py_buffer programs, tables[2], keys[2];
    unsigned long long nbytes[2], message;
    long long page[2], max_sge, max_inline, chain;
    int reads;
    PyObject *immediate;
    if (!PyArg_ParseTuple(args, "y*p(Ky*Ly*)(Ky*Ly*)LKLLO", &programs, &reads, &nbytes[0], &tables[0], &page[0],
                          &keys[0], &nbytes[1], &tables[1], &page[1], &keys[1], &max_sge, &message, &max_inline, &chain,
                          &immediate))
        return NULL;
    Cursor *self = verbs_new(type);
    const char *why = NULL;
    if (self) {
        self->reads = reads;
        self->max_sge = max_sge;
        self->max_inline = max_inline;
        self->chain = chain;
        self->max_message = message > (1ull << 31) ? 1ull << 31 : message;
        if (immediate != Py_None) {
            const unsigned long value = PyLong_AsUnsignedLong(immediate);
            self->has_immediate = 1;
            self->immediate = __builtin_bswap32((uint32_t)value);
            if (value > UINT32_MAX || reads)
                why = reads ? "immediate: a read carries none" : "immediate: more than 32 bits";
        }
        if (!(self->words = malloc((size_t)programs.len + 8)))
            why = "programs: no memory";
        else {
            memcpy(self->words, programs.buf, (size_t)programs.len);
            self->next = self->words;
            self->end = self->words + programs.len / 8;
        }
        if (!why && !(why = take_place(&self->local, nbytes[0], &tables[0], page[0], &keys[0])) &&
            !(why = take_place(&self->remote, nbytes[1], &tables[1], page[1], &keys[1])) &&
            !(why = check_programs(self)) && !(why = make_arena(self)))
            next_program(self);
    }
    PyBuffer_Release(&programs);
    for (int i = 0; i < 2; i++) {
        PyBuffer_Release(&tables[i]);
        PyBuffer_Release(&keys[i]);
    }
    if (self && (why || PyErr_Occurred())) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, why);
        Py_DECREF((PyObject *)self);
        self = NULL;
    }
    return (PyObject *)self;
}

static void cursor_dealloc(Cursor *self)
{
    free(self->words);
    free(self->wr);
    free(self->sge);
    free(self->local.table);
    free(self->local.extents);
    free(self->remote.table);
    free(self->remote.extents);
    verbs_free(self);
}

static PyMethodDef cursor_methods[] = {
    {"post", (PyCFunction)cursor_post, METH_VARARGS, post_doc},
    {NULL, NULL, 0, NULL},
};

static PyObject *cursor_done(Cursor *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(finished(self));
}

#define COUNT(name)                                                                                                    \
    static PyObject *cursor_##name(Cursor *self, void *unused)                                                         \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        return PyLong_FromUnsignedLongLong(self->name);                                                                \
    }
COUNT(requests)
COUNT(pieces)
COUNT(moved)
COUNT(last)

static PyObject *cursor_held(Cursor *self, void *unused)
{
    (void)unused;
    const Place *near = &self->local, *far = &self->remote;
    const size_t request = sizeof *self->wr + (size_t)self->max_sge * sizeof *self->sge;
    const size_t words = (size_t)(self->end - self->words + near->side.entries + far->side.entries);
    const size_t extents = (size_t)(near->count + far->count) * sizeof *near->extents;
    return PyLong_FromSize_t(sizeof *self + (size_t)self->chain * request + 8 * words + extents);
}

static PyGetSetDef cursor_getset[] = {
    {"done", (getter)cursor_done, NULL, "Whether everything is posted.", NULL},
    {"requests", (getter)cursor_requests, NULL, "Requests posted so far.", NULL},
    {"pieces", (getter)cursor_pieces, NULL, "Pieces built so far.", NULL},
    {"nbytes", (getter)cursor_moved, NULL, "Bytes of the requests built so far.", NULL},
    {"last", (getter)cursor_last, NULL, "The number of the last request posted.", NULL},
    {"held", (getter)cursor_held, NULL, "Bytes of memory that it holds.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot cursor_slots[] = {
    {Py_tp_new, cursor_new},       {Py_tp_dealloc, cursor_dealloc}, {Py_tp_methods, cursor_methods},
    {Py_tp_getset, cursor_getset}, {Py_tp_doc, (void *)cursor_doc}, {0, NULL},
};
PyType_Spec cursor_spec = {"hawk_agent.transports.verbs._verbs.Cursor", sizeof(Cursor), 0, Py_TPFLAGS_DEFAULT,
                           cursor_slots};
