/* Registered memory and type-2 memory windows. */
#include "_verbs.h"

static PyObject *closed_device(void) { return verbs_closed("device"); }

PyDoc_STRVAR(memory_doc,
             "Memory(context, address, nbytes, access, dmabuf_fd=-1, offset=0)\n\n"
             "Memory of this process registered with a device, or nbytes of a dma-buf from offset on, which requests\n"
             "then name by addresses from `address` on.");
static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    Context *context;
    unsigned long long address, nbytes, offset = 0;
    unsigned int access;
    int descriptor = -1;
    if (!PyArg_ParseTuple(args, "O!KKI|iK", context_type, &context, &address, &nbytes, &access, &descriptor, &offset))
        return NULL;
    if (!context->context)
        return closed_device();
    Memory *self = verbs_new(type);
    if (!self)
        return NULL;
    const Functions *call = &context->library->call;
    IbvPd *pd = context->pd;
    IbvMr *mr;
    int error;
    context->children++; /* keeps the device open while the lock isn't held */
    Py_BEGIN_ALLOW_THREADS
    errno = 0;
    mr = descriptor < 0 ? call->reg_mr_iova2(pd, (void *)(uintptr_t)address, nbytes, address, access)
                        : call->reg_dmabuf_mr(pd, offset, nbytes, address, descriptor, (int)access);
    error = errno;
    Py_END_ALLOW_THREADS
    if (!mr) {
        context->children--;
        Py_DECREF((PyObject *)self);
        return verbs_error(error);
    }
    Py_INCREF((PyObject *)context);
    self->context = context;
    self->mr = mr;
    return (PyObject *)self;
}

static int memory_end(Memory *self)
{
    if (!self->mr)
        return 0;
    IbvMr *mr = self->mr;
    int error;
    self->mr = NULL; /* closed for others while the pages are given back, which takes long for many */
    Py_BEGIN_ALLOW_THREADS
    error = as_errno(self->context->library->call.dereg_mr(mr));
    Py_END_ALLOW_THREADS
    if (error)
        self->mr = mr;
    else
        self->context->children--;
    return error;
}

static void memory_dealloc(Memory *self)
{
    memory_end(self);
    Py_XDECREF((PyObject *)self->context);
    verbs_free(self);
}

PyDoc_STRVAR(memory_close_doc, "close()\n\nDeregister. OSError EBUSY while a window is bound to it.");
static PyObject *memory_close(Memory *self, PyObject *unused)
{
    (void)unused;
    const int error = memory_end(self);
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

static PyObject *memory_lkey(Memory *self, void *unused)
{
    (void)unused;
    return self->mr ? PyLong_FromUnsignedLong(self->mr->lkey) : verbs_closed("memory");
}

static PyObject *memory_rkey(Memory *self, void *unused)
{
    (void)unused;
    return self->mr ? PyLong_FromUnsignedLong(self->mr->rkey) : verbs_closed("memory");
}

static PyMethodDef memory_methods[] = {
    {"close", (PyCFunction)memory_close, METH_NOARGS, memory_close_doc},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef memory_getset[] = {
    {"lkey", (getter)memory_lkey, NULL, "What local requests name it by.", NULL},
    {"rkey", (getter)memory_rkey, NULL, "What a peer's requests name it by: a secret.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot memory_slots[] = {
    {Py_tp_new, memory_new},       {Py_tp_dealloc, memory_dealloc}, {Py_tp_methods, memory_methods},
    {Py_tp_getset, memory_getset}, {Py_tp_doc, (void *)memory_doc}, {0, NULL},
};
PyType_Spec memory_spec = {"hawk_agent.transports.verbs._verbs.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT,
                           memory_slots};

/* ---- windows ---- */

PyDoc_STRVAR(window_doc, "Window(context)\n\nA type-2 memory window, not bound yet.");
static PyObject *window_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    Context *context;
    if (!PyArg_ParseTuple(args, "O!", context_type, &context))
        return NULL;
    if (!context->context)
        return closed_device();
    if (!context->context->ops.alloc_mw)
        return verbs_error(EOPNOTSUPP);
    errno = 0;
    IbvMw *mw = context->context->ops.alloc_mw(context->pd, HAWK_IBV_MW_TYPE_2);
    if (!mw)
        return verbs_error(errno);
    Window *self = verbs_new(type);
    if (!self) {
        context->context->ops.dealloc_mw(mw);
        return NULL;
    }
    Py_INCREF((PyObject *)context);
    self->context = context;
    self->mw = mw;
    self->rkey = mw->rkey;
    context->children++;
    return (PyObject *)self;
}

static int window_end(Window *self)
{
    if (!self->mw)
        return 0;
    IbvMw *mw = self->mw;
    int error;
    self->mw = NULL;
    Py_BEGIN_ALLOW_THREADS
    error = as_errno(self->context->context->ops.dealloc_mw(mw));
    Py_END_ALLOW_THREADS
    if (error)
        self->mw = mw;
    else
        self->context->children--;
    return error;
}

static void window_dealloc(Window *self)
{
    window_end(self);
    Py_XDECREF((PyObject *)self->context);
    verbs_free(self);
}

PyDoc_STRVAR(window_close_doc, "close()\n\nGive the window back; its key opens nothing any more.");
static PyObject *window_close(Window *self, PyObject *unused)
{
    (void)unused;
    const int error = window_end(self);
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

static PyObject *window_rkey(Window *self, void *unused)
{
    (void)unused;
    return self->mw ? PyLong_FromUnsignedLong(self->rkey) : verbs_closed("window");
}

static PyMethodDef window_methods[] = {
    {"close", (PyCFunction)window_close, METH_NOARGS, window_close_doc},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef window_getset[] = {
    {"rkey", (getter)window_rkey, NULL, "The key of the last bind: a secret.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot window_slots[] = {
    {Py_tp_new, window_new},       {Py_tp_dealloc, window_dealloc}, {Py_tp_methods, window_methods},
    {Py_tp_getset, window_getset}, {Py_tp_doc, (void *)window_doc}, {0, NULL},
};
PyType_Spec window_spec = {"hawk_agent.transports.verbs._verbs.Window", sizeof(Window), 0, Py_TPFLAGS_DEFAULT,
                           window_slots};
