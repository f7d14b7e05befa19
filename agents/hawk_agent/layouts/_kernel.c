/* The compiled engine: runs the programs of a nest, hashes what they move, and checks both first.
 *
 * Everything is checked before the first byte moves: every program stays inside its buffers and its
 * block tables whatever the tables hold, or nothing runs and ValueError says why. The interpreter's
 * lock is released while bytes move. numpy's engine (fallback.py) gives the same bytes and digests.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "_kernel.h"

#include "_kernel_paths.h"
#include "_kernel_program.h"
#include "_kernel_run.h"
#include "_kernel_stream.h"

/* ---- the Python side ---- */

static const Path *find_path(const char *name)
{
    for (int i = PATH_COUNT - 1; i >= 0; i--)
        if (PATHS[i]->available() && (!*name || !strcmp(name, PATHS[i]->name)))
            return PATHS[i];
    PyErr_Format(PyExc_ValueError, "path: '%s' isn't available on this machine", name);
    return NULL;
}

static PyObject *refuse(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

static const char *check_key(const Key *key)
{
    const int u = key->unit;
    return u == 1 || u == 2 || u == 4 || u == 8 ? NULL : "unit: not 1, 2, 4 or 8 bytes";
}

/* Units begin where programs and their steps do. Runs shorter than one divide it, and one of the block's two loops
 * joins them. */
static const char *check_units(const Program *p, const Key *key)
{
    int64_t odd = p->logical;
    int joined = 0;
    for (int i = 0; i < p->loops; i++) {
        const Loop *loop = &p->loop[i];
        if (loop->count < 2)
            continue;
        if (p->run < key->unit && loop->logical == p->run && !joined++) {
            if (key->unit % p->run || !in_block(p, i))
                return "unit: its pieces aren't joined";
        } else {
            odd |= loop->logical;
        }
    }
    return odd % key->unit ? "unit: it doesn't divide the program's places" : NULL;
}

PyDoc_STRVAR(paths_doc, "paths() -> tuple of the paths this machine can run, plainest first");
static PyObject *py_paths(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < PATH_COUNT; i++) {
        if (!PATHS[i]->available())
            continue;
        PyObject *name = PyUnicode_FromString(PATHS[i]->name);
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    return tuple;
}

PyDoc_STRVAR(copy_doc,
             "copy(path, programs, source, destination, source_table, destination_table, source_page,\n"
             "     destination_page, stream, key) -> digest\n\n"
             "Run programs; key is None or (first, second, unit). stream writes past the caches.");
static PyObject *py_copy(PyObject *self, PyObject *args)
{
    (void)self;
    const char *name, *why = NULL;
    Py_buffer programs, in, out, in_table, out_table;
    long long in_page, out_page;
    int stream;
    unsigned long long first = 0, second = 0;
    int unit = 0;
    if (!PyArg_ParseTuple(args, "sy*y*w*y*y*LLp(KKi)", &name, &programs, &in, &out, &in_table, &out_table, &in_page,
                          &out_page, &stream, &first, &second, &unit))
        return NULL;
    const Key key = {first, second, unit};
    const Path *path = find_path(name);
    uint64_t sum = 0;
    Side source, destination;
    if (path && !(why = make_side(&source, &in, &in_table, in_page)) &&
        !(why = make_side(&destination, &out, &out_table, out_page)) && !(why = unit ? check_key(&key) : NULL)) {
        const int64_t *begin = programs.buf, *end = begin + programs.len / 8;
        Program p;
        for (const int64_t *w = begin; w < end && !why;) {
            if ((why = read_program(&w, end, &p)) || (why = check_side(&p, &source, 0)) ||
                (why = check_side(&p, &destination, 1)) || (why = unit ? check_units(&p, &key) : NULL))
                break;
        }
        if (!why) {
            Py_BEGIN_ALLOW_THREADS
            for (const int64_t *w = begin; w < end;) {
                read_program(&w, end, &p);
                sum += run_copy(path, &p, &source, &destination, unit ? &key : NULL, stream, 1);
            }
            if (stream)
                path->fence();
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&programs);
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    PyBuffer_Release(&in_table);
    PyBuffer_Release(&out_table);
    if (!path)
        return NULL;
    return why ? refuse(why) : PyLong_FromUnsignedLongLong(sum);
}

PyDoc_STRVAR(part_doc,
             "part(path, programs, source, destination, source_table, destination_table, source_page,\n"
             "     destination_page, start, stop, packing, stream)\n\n"
             "Move bytes [start, stop) of the programs' stream: packing, to a destination that holds them alone;\n"
             "else from a source that does.");
static PyObject *py_part(PyObject *self, PyObject *args)
{
    (void)self;
    const char *name, *why = NULL;
    Py_buffer programs, in, out, in_table, out_table;
    long long in_page, out_page, start, stop;
    int packing, past;
    if (!PyArg_ParseTuple(args, "sy*y*w*y*y*LLLLpp", &name, &programs, &in, &out, &in_table, &out_table, &in_page,
                          &out_page, &start, &stop, &packing, &past))
        return NULL;
    const Path *path = find_path(name);
    Side source, destination;
    if (start < 0 || stop < start)
        why = "range: not one";
    else if (path && !(why = make_side(&source, &in, &in_table, in_page)) &&
             !(why = make_side(&destination, &out, &out_table, out_page))) {
        const int64_t *begin = programs.buf, *end = begin + programs.len / 8;
        Part part = {path, &source, &destination, packing, 0, past, 0, NULL};
        if (!(why = take_part(&part, begin, end, start, stop))) {
            Py_BEGIN_ALLOW_THREADS
            part.moving = 1;
            take_part(&part, begin, end, start, stop);
            if (past)
                path->fence();
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&programs);
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    PyBuffer_Release(&in_table);
    PyBuffer_Release(&out_table);
    if (!path)
        return NULL;
    if (why)
        return refuse(why);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(fill_doc, "fill(programs, destination, table, page)\n\nWrite zeros where programs point.");
static PyObject *py_fill(PyObject *self, PyObject *args)
{
    (void)self;
    const char *why = NULL;
    Py_buffer programs, out, table;
    long long page;
    if (!PyArg_ParseTuple(args, "y*w*y*L", &programs, &out, &table, &page))
        return NULL;
    Side side;
    if (!(why = make_side(&side, &out, &table, page))) {
        const int64_t *begin = programs.buf, *end = begin + programs.len / 8;
        Program p;
        for (const int64_t *w = begin; w < end && !why;)
            if (!(why = read_program(&w, end, &p)))
                why = check_side(&p, &side, 1);
        if (!why) {
            Py_BEGIN_ALLOW_THREADS
            for (const int64_t *w = begin; w < end;) {
                read_program(&w, end, &p);
                run_fill(&p, &side);
            }
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&programs);
    PyBuffer_Release(&out);
    PyBuffer_Release(&table);
    if (why)
        return refuse(why);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(digest_doc,
             "digest(path, programs, buffer, table, page, destination, key, sample) -> int\n\n"
             "The digest of what programs read, or (destination true) write; key is (first, second, unit),\n"
             "sample is (first, second, every): one block of every so many.");
static PyObject *py_digest(PyObject *self, PyObject *args)
{
    (void)self;
    const char *name, *why = NULL;
    Py_buffer programs, in, table;
    long long page;
    int destination, unit;
    unsigned long long first, second, chance, luck;
    long long every;
    if (!PyArg_ParseTuple(args, "sy*y*y*Lp(KKi)(KKL)", &name, &programs, &in, &table, &page, &destination, &first,
                          &second, &unit, &chance, &luck, &every))
        return NULL;
    const Key key = {first, second, unit};
    const Sample sample = {chance, luck, every};
    const Path *path = find_path(name);
    uint64_t sum = 0;
    Side side;
    if (every < 1)
        why = "sample: not a positive number";
    else if (path && !(why = make_side(&side, &in, &table, page)) && !(why = check_key(&key))) {
        const int64_t *begin = programs.buf, *end = begin + programs.len / 8;
        Program p;
        for (const int64_t *w = begin; w < end && !why;)
            if (!(why = read_program(&w, end, &p)) && !(why = check_side(&p, &side, destination)))
                why = check_units(&p, &key);
        if (!why) {
            Py_BEGIN_ALLOW_THREADS
            uint64_t number = 0;
            for (const int64_t *w = begin; w < end; number++) {
                read_program(&w, end, &p);
                sum += run_hash(path, &p, number, &side, destination, &key, &sample);
            }
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&programs);
    PyBuffer_Release(&in);
    PyBuffer_Release(&table);
    if (!path)
        return NULL;
    return why ? refuse(why) : PyLong_FromUnsignedLongLong(sum);
}

PyDoc_STRVAR(plain_doc,
             "plain(path, source, destination, stream)\n\n"
             "Copy without translating: memcpy, or stores past the caches. What translation is measured against.");
static PyObject *py_plain(PyObject *self, PyObject *args)
{
    (void)self;
    const char *name;
    Py_buffer in, out;
    int stream;
    if (!PyArg_ParseTuple(args, "sy*w*p", &name, &in, &out, &stream))
        return NULL;
    const Path *path = find_path(name);
    const int fits = in.len <= out.len;
    if (path && fits) {
        Py_BEGIN_ALLOW_THREADS
        path->plain(in.buf, out.buf, (size_t)in.len, stream);
        if (stream)
            path->fence();
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    if (!path)
        return NULL;
    if (!fits)
        return refuse("destination: smaller than the source");
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"paths", py_paths, METH_NOARGS, paths_doc},
    {"copy", py_copy, METH_VARARGS, copy_doc},
    {"part", py_part, METH_VARARGS, part_doc},
    {"fill", py_fill, METH_VARARGS, fill_doc},
    {"digest", py_digest, METH_VARARGS, digest_doc},
    {"plain", py_plain, METH_VARARGS, plain_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernel", "The compiled engine of hawk_agent.layouts.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module); }
