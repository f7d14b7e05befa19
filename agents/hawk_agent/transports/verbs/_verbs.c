/* libibverbs for the engine: opened at run time, its objects owned here, its hot path without Python.
 *
 * This file: the module, the library, devices. _verbs_memory.c: registrations and windows. _verbs_queue.c:
 * completion queues and queue pairs. _verbs_cursor.c: the walk over a nest that builds and posts requests.
 * Errors of the library are OSError with its errno; Python's side of the package says what they mean.
 */
#include "_verbs.h"

#include <dlfcn.h>

PyTypeObject *library_type, *context_type, *memory_type, *window_type, *completion_type, *queue_type, *cursor_type;

void *verbs_new(PyTypeObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

void verbs_free(void *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *verbs_error(int error)
{
    errno = error ? error : EIO;
    return PyErr_SetFromErrno(PyExc_OSError);
}

PyObject *verbs_closed(const char *what)
{
    PyErr_Format(PyExc_ValueError, "%s: closed", what);
    return NULL;
}

/* ---- the library ---- */

typedef struct {
    const char *name;
    size_t at;
} Symbol;

#define SYMBOL(name) {"ibv_" #name, offsetof(Functions, name)}
static const Symbol SYMBOLS[] = {
    SYMBOL(get_device_list), SYMBOL(free_device_list), SYMBOL(open_device), SYMBOL(close_device),
    SYMBOL(get_async_event), SYMBOL(ack_async_event), SYMBOL(query_device), SYMBOL(query_port),
    {"_ibv_query_gid_ex", offsetof(Functions, query_gid_ex)}, SYMBOL(alloc_pd), SYMBOL(dealloc_pd),
    SYMBOL(reg_mr_iova2), SYMBOL(reg_dmabuf_mr), SYMBOL(dereg_mr), SYMBOL(create_comp_channel),
    SYMBOL(destroy_comp_channel), SYMBOL(create_cq), SYMBOL(destroy_cq), SYMBOL(get_cq_event),
    SYMBOL(ack_cq_events), SYMBOL(create_qp), SYMBOL(modify_qp), SYMBOL(query_qp), SYMBOL(destroy_qp),
    SYMBOL(fork_init), SYMBOL(is_fork_initialized),
};

PyDoc_STRVAR(library_doc, "Library(path)\n\nlibibverbs, opened; OSError says what is missing.");
static PyObject *library_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    const char *path;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    Library *self = verbs_new(type);
    if (!self)
        return NULL;
    if (!(self->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        PyErr_SetString(PyExc_OSError, dlerror());
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *found = dlsym(self->handle, SYMBOLS[i].name);
        if (!found) {
            PyErr_Format(PyExc_OSError, "%s has no %s; it is older than rdma-core 34", path, SYMBOLS[i].name);
            Py_DECREF((PyObject *)self);
            return NULL;
        }
        memcpy((char *)&self->call + SYMBOLS[i].at, &found, sizeof found);
    }
    return (PyObject *)self;
}

/* The library stays loaded: its providers have threads and fork handlers that nothing can take back. */
static void library_dealloc(Library *self) { verbs_free(self); }

PyDoc_STRVAR(devices_doc, "devices() -> list of the names of the devices that are there now");
static PyObject *library_devices(Library *self, PyObject *unused)
{
    (void)unused;
    int count = 0;
    IbvDevice **list = self->call.get_device_list(&count);
    if (!list)
        return verbs_error(errno);
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < count; i++) {
        PyObject *name = PyUnicode_FromString(list[i]->name);
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    self->call.free_device_list(list);
    return names;
}

PyDoc_STRVAR(fork_init_doc, "fork_init() -> errno, 0 when the library keeps registered pages out of children");
static PyObject *library_fork_init(Library *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(as_errno(self->call.fork_init()));
}

PyDoc_STRVAR(fork_status_doc, "fork_status() -> 0 disabled, 1 enabled, 2 not needed: the kernel copies for children");
static PyObject *library_fork_status(Library *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(self->call.is_fork_initialized());
}

static PyMethodDef library_methods[] = {
    {"devices", (PyCFunction)library_devices, METH_NOARGS, devices_doc},
    {"fork_init", (PyCFunction)library_fork_init, METH_NOARGS, fork_init_doc},
    {"fork_status", (PyCFunction)library_fork_status, METH_NOARGS, fork_status_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot library_slots[] = {
    {Py_tp_new, library_new}, {Py_tp_dealloc, library_dealloc}, {Py_tp_methods, library_methods},
    {Py_tp_doc, (void *)library_doc}, {0, NULL},
};
PyType_Spec library_spec = {"hawk_agent.transports.verbs._verbs.Library", sizeof(Library), 0,
                            Py_TPFLAGS_DEFAULT, library_slots};

/* ---- a device ---- */

PyDoc_STRVAR(context_doc, "Context(library, name)\n\nA device, opened, with a protection domain.");
static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    Library *library;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!s", library_type, &library, &name))
        return NULL;
    int count = 0, error = ENODEV;
    IbvDevice **list = library->call.get_device_list(&count);
    if (!list)
        return verbs_error(errno);
    IbvContext *context = NULL;
    for (int i = 0; i < count && !context; i++) {
        if (strcmp(list[i]->name, name))
            continue;
        errno = 0;
        context = library->call.open_device(list[i]);
        error = errno;
    }
    library->call.free_device_list(list);
    if (!context)
        return verbs_error(error);
    IbvPd *pd = library->call.alloc_pd(context);
    Context *self = pd ? verbs_new(type) : NULL;
    if (!self) {
        error = errno;
        if (pd)
            library->call.dealloc_pd(pd);
        library->call.close_device(context);
        return PyErr_Occurred() ? NULL : verbs_error(error);
    }
    Py_INCREF((PyObject *)library);
    self->library = library;
    self->context = context;
    self->pd = pd;
    return (PyObject *)self;
}

static int context_end(Context *self)
{
    int error = 0, found;
    if (!self->context)
        return 0;
    if ((found = as_errno(self->library->call.dealloc_pd(self->pd))))
        error = found;
    if ((found = as_errno(self->library->call.close_device(self->context))) && !error)
        error = found;
    self->context = NULL;
    self->pd = NULL;
    return error;
}

static void context_dealloc(Context *self)
{
    if (self->library)
        context_end(self);
    Py_XDECREF((PyObject *)self->library);
    verbs_free(self);
}

PyDoc_STRVAR(context_close_doc, "close()\n\nClose it; ValueError while memory or queues of it are open.");
static PyObject *context_close(Context *self, PyObject *unused)
{
    (void)unused;
    if (self->children) {
        PyErr_Format(PyExc_ValueError, "device: %lld of its objects are open; close them first",
                     (long long)self->children);
        return NULL;
    }
    const int error = context_end(self);
    if (error)
        return verbs_error(error);
    Py_RETURN_NONE;
}

/* On-demand paging over a reliable connection, by the extended query; 0 where it can't be asked. */
static unsigned int odp_of(IbvContext *context)
{
    if (context->abi_compat != HAWK_VERBS_ABI_IS_EXTENDED)
        return 0;
    IbvExtended *extended = (IbvExtended *)((char *)context - offsetof(IbvExtended, context));
    IbvDeviceAttrEx attr;
    memset(&attr, 0, sizeof attr);
    if (extended->size < sizeof *extended || !extended->query_device_ex)
        return 0;
    if (extended->query_device_ex(context, NULL, &attr, sizeof attr))
        return 0;
    return attr.general_caps & HAWK_IBV_ODP_SUPPORT ? attr.rc_odp_caps : 0;
}

PyDoc_STRVAR(limits_doc, "limits() -> dict of the device's limits, under the names of ibv_device_attr");
static PyObject *context_limits(Context *self, PyObject *unused)
{
    (void)unused;
    if (!self->context)
        return verbs_closed("device");
    IbvDeviceAttr a;
    memset(&a, 0, sizeof a);
    const int error = as_errno(self->library->call.query_device(self->context, &a));
    if (error)
        return verbs_error(error);
    return Py_BuildValue("{sK si si si si si si si sI si sI}", "max_mr_size", (unsigned long long)a.max_mr_size,
                         "max_qp_wr", a.max_qp_wr, "max_sge", a.max_sge, "max_sge_rd", a.max_sge_rd, "max_cqe",
                         a.max_cqe, "max_mr", a.max_mr, "max_mw", a.max_mw, "max_qp_rd_atom", a.max_qp_rd_atom,
                         "device_cap_flags", a.device_cap_flags, "ports", (int)a.phys_port_cnt, "odp",
                         odp_of(self->context));
}

PyDoc_STRVAR(port_doc, "port(number) -> dict of the port's attributes, under the names of ibv_port_attr");
static PyObject *context_port(Context *self, PyObject *args)
{
    unsigned char number;
    if (!PyArg_ParseTuple(args, "b", &number))
        return NULL;
    if (!self->context)
        return verbs_closed("device");
    IbvPortAttr a;
    memset(&a, 0, sizeof a); /* an old library fills the first part only */
    const int error = as_errno(self->library->call.query_port(self->context, number, &a));
    if (error)
        return verbs_error(error);
    return Py_BuildValue("{si si si sI si si}", "state", a.state, "active_mtu", a.active_mtu, "gid_tbl_len",
                         a.gid_tbl_len, "max_msg_sz", a.max_msg_sz, "lid", (int)a.lid, "link_layer",
                         (int)a.link_layer);
}

PyDoc_STRVAR(gid_doc, "gid(port, index) -> (16 bytes, type: 0 IB, 1 RoCE v1, 2 RoCE v2, interface index)");
static PyObject *context_gid(Context *self, PyObject *args)
{
    unsigned int port, index;
    if (!PyArg_ParseTuple(args, "II", &port, &index))
        return NULL;
    if (!self->context)
        return verbs_closed("device");
    IbvGidEntry entry;
    memset(&entry, 0, sizeof entry);
    const int error = as_errno(self->library->call.query_gid_ex(self->context, port, index, &entry, 0, sizeof entry));
    if (error)
        return verbs_error(error);
    return Py_BuildValue("y#II", (const char *)entry.gid.raw, (Py_ssize_t)16, entry.gid_type, entry.ndev_ifindex);
}

PyDoc_STRVAR(async_event_doc, "async_event() -> (type, port) of the next event of the device, read from async_fd");
static PyObject *context_async_event(Context *self, PyObject *unused)
{
    (void)unused;
    if (!self->context)
        return verbs_closed("device");
    IbvAsyncEvent event;
    memset(&event, 0, sizeof event);
    errno = 0;
    const int error = as_errno(self->library->call.get_async_event(self->context, &event));
    if (error)
        return verbs_error(error);
    const int of_port = event.event_type >= 9 && event.event_type <= 18 && event.event_type != 14 &&
                        event.event_type != 15 && event.event_type != 16;
    PyObject *found = Py_BuildValue("ii", event.event_type, of_port ? event.element.port_num : 0);
    self->library->call.ack_async_event(&event);
    return found;
}

static PyObject *context_async_fd(Context *self, void *unused)
{
    (void)unused;
    return self->context ? PyLong_FromLong(self->context->async_fd) : verbs_closed("device");
}

static PyMethodDef context_methods[] = {
    {"close", (PyCFunction)context_close, METH_NOARGS, context_close_doc},
    {"limits", (PyCFunction)context_limits, METH_NOARGS, limits_doc},
    {"port", (PyCFunction)context_port, METH_VARARGS, port_doc},
    {"gid", (PyCFunction)context_gid, METH_VARARGS, gid_doc},
    {"async_event", (PyCFunction)context_async_event, METH_NOARGS, async_event_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef context_getset[] = {
    {"async_fd", (getter)context_async_fd, NULL, "Readable when an event of the device waits.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot context_slots[] = {
    {Py_tp_new, context_new},         {Py_tp_dealloc, context_dealloc},   {Py_tp_methods, context_methods},
    {Py_tp_getset, context_getset},   {Py_tp_doc, (void *)context_doc},   {0, NULL},
};
PyType_Spec context_spec = {"hawk_agent.transports.verbs._verbs.Context", sizeof(Context), 0, Py_TPFLAGS_DEFAULT,
                            context_slots};

/* ---- the module ---- */

static int add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec, const char *name)
{
    if (!*type && !(*type = (PyTypeObject *)PyType_FromSpec(spec)))
        return -1;
    return PyModule_AddObjectRef(module, name, (PyObject *)*type);
}

static int module_exec(PyObject *module)
{
    return add_type(module, &library_type, &library_spec, "Library") ||
                   add_type(module, &context_type, &context_spec, "Context") ||
                   add_type(module, &memory_type, &memory_spec, "Memory") ||
                   add_type(module, &window_type, &window_spec, "Window") ||
                   add_type(module, &completion_type, &completion_spec, "Completion") ||
                   add_type(module, &queue_type, &queue_spec, "Queue") ||
                   add_type(module, &cursor_type, &cursor_spec, "Cursor")
               ? -1
               : 0;
}

PyDoc_STRVAR(noop_doc, "noop_queue(depth, max_sge, inline) -> Queue\n\n"
                       "A queue whose provider takes every request and does nothing: what building and posting costs.");

static PyMethodDef methods[] = {
    {"noop_queue", noop_queue, METH_VARARGS, noop_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_verbs", "libibverbs for hawk_agent.transports.verbs.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__verbs(void) { return PyModuleDef_Init(&module); }
