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

/* ---- programs as Python encodes them: 7 head words, then 6 words a loop ---- */

static const char *read_program(const int64_t **words, const int64_t *end, Program *out)
{
    if (end - *words < 7)
        return "program: truncated";
    const int64_t *w = *words;
    *out = (Program){w[1], w[2], w[3], w[4], w[5], w[6], w[0], {{0}}};
    if (out->loops < 0 || out->loops > MAX_LOOPS || end - w - 7 < 6 * out->loops)
        return "program: a loop count that doesn't fit";
    for (int i = 1; i < 7; i++)
        if (w[i] < 0)
            return "program: a negative start";
    if (out->run < 1)
        return "program: an empty run";
    w += 7;
    for (int i = 0; i < out->loops; i++, w += 6) {
        out->loop[i] = (Loop){w[0], w[1], w[2], w[3], w[4], w[5]};
        if (w[0] < 1 || w[1] < 0 || w[2] < 0 || w[3] < 0 || w[4] < 0 || w[5] < 0)
            return "program: a loop with a negative step or no turns";
    }
    *words = w;
    return NULL;
}

/* One side of a program: a buffer with its block table. */
typedef struct {
    uint8_t *bytes;
    int64_t size;
    const int64_t *table;
    int64_t entries, page, highest; /* highest: the largest page number the table holds */
} Side;

static const char *make_side(Side *side, const Py_buffer *buffer, const Py_buffer *table, int64_t page)
{
    *side = (Side){buffer->buf, buffer->len, table->buf, table->len / 8, page, 0};
    if (table->len % 8 || (uintptr_t)table->buf % 8 || page < 0)
        return "table: not a table of 64-bit entries";
    for (int64_t i = 0; i < side->entries; i++) {
        if (side->table[i] < 0)
            return "table: a negative block";
        if (side->table[i] > side->highest)
            side->highest = side->table[i];
    }
    return NULL;
}

/* Whether every run of a program lies inside the side, for any values up to the table's highest. */
static const char *check_side(const Program *program, const Side *side, int destination)
{
    __int128 last = destination ? program->destination : program->source;
    __int128 entry = destination ? program->destination_entry : program->source_entry;
    __int128 bytes = program->run; /* each byte is written once, and read at most once for each table entry */
    const __int128 most = (__int128)side->size * (destination || side->entries < 1 ? 1 : side->entries);
    for (int i = 0; i < program->loops; i++) {
        const Loop *loop = &program->loop[i];
        last += (__int128)(loop->count - 1) * (destination ? loop->destination : loop->source);
        entry += (__int128)(loop->count - 1) * (destination ? loop->destination_step : loop->source_step);
        if (last > INT64_MAX || entry > INT64_MAX)
            return "program: it reaches beyond any buffer";
        if ((bytes *= loop->count) > most)
            return "program: it moves more than its buffer holds";
    }
    if (side->page ? entry >= side->entries : entry > 0)
        return "table: too short for the program";
    last += (__int128)side->highest * side->page + program->run;
    return last > side->size ? "buffer: too small for the program" : NULL;
}

/* ---- walking a program block by block ---- */

typedef struct {
    const Program *program;
    const Side *source, *destination;
    int outer; /* loops outside the block */
    int64_t turn[MAX_LOOPS];
    int64_t at_source, at_destination, logical, source_entry, destination_entry;
} Walk;

static int stepless(const Loop *loop) { return !loop->source_step && !loop->destination_step; }

/* Split a program into a block (at most its two inner loops) and the walk round it. */
static void start_walk(Walk *walk, Block *block, const Program *p, const Side *source, const Side *destination)
{
    *walk = (Walk){.program = p, .source = source, .destination = destination, .outer = (int)p->loops,
                   .at_source = p->source, .at_destination = p->destination, .logical = p->logical,
                   .source_entry = p->source_entry, .destination_entry = p->destination_entry};
    *block = (Block){.rows = 1, .runs = 1, .run = p->run, .run_source = p->run, .run_destination = p->run,
                     .run_logical = p->run};
    if (walk->outer && stepless(&p->loop[walk->outer - 1])) {
        const Loop *loop = &p->loop[--walk->outer];
        block->runs = loop->count;
        block->run_source = loop->source;
        block->run_destination = loop->destination;
        block->run_logical = loop->logical;
    }
    if (walk->outer && stepless(&p->loop[walk->outer - 1])) {
        const Loop *loop = &p->loop[--walk->outer];
        block->rows = loop->count;
        block->row_source = loop->source;
        block->row_destination = loop->destination;
        block->row_logical = loop->logical;
    }
}

static inline int64_t source_at(const Walk *w)
{
    return w->at_source + (w->source->page ? w->source->table[w->source_entry] * w->source->page : 0);
}

static inline int64_t destination_at(const Walk *w)
{
    return w->at_destination + (w->destination->page ? w->destination->table[w->destination_entry] * w->destination->page : 0);
}

/* Go to the next block; 0 when there is none. */
static inline int next_block(Walk *w)
{
    for (int i = w->outer - 1; i >= 0; i--) {
        const Loop *loop = &w->program->loop[i];
        const int64_t turns = ++w->turn[i] < loop->count ? 1 : 1 - loop->count;
        w->at_source += turns * loop->source;
        w->at_destination += turns * loop->destination;
        w->logical += turns * loop->logical;
        w->source_entry += turns * loop->source_step;
        w->destination_entry += turns * loop->destination_step;
        if (turns > 0)
            return 1;
        w->turn[i] = 0;
    }
    return 0;
}

/* ---- fetching ahead: the lines of the next group of blocks, one for each line written ---- */

#define LINES_MOST 1024

/* How many loops outside the block join its group: as many as make what is read dense and still small.
 * Pages of tokens interleave the heads: one head is 256 bytes here and there, all heads are the page. */
static int group_loops(const Walk *walk, const Block *block)
{
    int64_t bytes = block->rows * block->runs * block->run;
    int64_t span = (block->rows - 1) * block->row_source + (block->runs - 1) * block->run_source + block->run;
    int joined = 0;
    for (int i = walk->outer - 1; i >= 0 && stepless(&walk->program->loop[i]); i--) {
        const Loop *loop = &walk->program->loop[i];
        if (loop->count > LINES_MOST * 64 / bytes || loop->source > INT32_MAX / loop->count)
            break;
        bytes *= loop->count;
        span += (loop->count - 1) * loop->source;
        if (span <= 2 * bytes)
            joined = walk->outer - i;
    }
    return joined;
}

typedef struct { int64_t count, step; } Span;

static int wider(const void *a, const void *b)
{
    const int64_t x = ((const Span *)a)->step, y = ((const Span *)b)->step;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* List a group's lines relative to its start, lowest first; 0 if they are too many or too far apart. */
static int group_lines(const Walk *walk, const Block *block, int joined, int32_t lines[LINES_MOST])
{
    Span spans[MAX_LOOPS + 2] = {{block->rows, block->row_source}, {block->runs, block->run_source}};
    int count = 0, loops = 2;
    for (int i = 0; i < joined; i++) {
        const Loop *loop = &walk->program->loop[walk->outer - 1 - i];
        spans[loops++] = (Span){loop->count, loop->source};
    }
    int64_t bytes = block->run, span = block->run;
    for (int i = 0; i < loops; i++) {
        if (bytes > LINES_MOST * 64 / spans[i].count || spans[i].step > INT32_MAX / 2 / spans[i].count)
            return 0;
        bytes *= spans[i].count;
        span += (spans[i].count - 1) * spans[i].step;
    }
    if (span > INT32_MAX)
        return 0;
    qsort(spans, (size_t)loops, sizeof *spans, wider);
    int64_t turn[MAX_LOOPS + 2] = {0}, last = -1;
    for (int64_t start = 0, more = 1; more;) {
        for (int64_t at = start, end = start + block->run; at < end; at = (at | 63) + 1)
            if (at >> 6 > last && count < LINES_MOST)
                lines[count++] = (int32_t)((last = at >> 6) << 6);
        more = 0;
        for (int i = loops - 1; i >= 0 && !more; i--) {
            more = ++turn[i] < spans[i].count;
            start += more ? spans[i].step : -spans[i].step * (spans[i].count - 1);
            if (!more)
                turn[i] = 0;
        }
    }
    for (; count < LINES_MOST; count++) /* one is fetched for each line written: never run off the list */
        lines[count] = 0;
    return 1;
}

#define NEAR_BYTES 8192

/* Hash what was just read while it is in the first-level cache: a large block goes piece by piece. */
static uint64_t copy_and_hash(const Path *path, const Block *block, const uint8_t *from, uint8_t *to, uint64_t logical,
                              const Key *key, Ahead ahead, int stream)
{
    if (block->rows * block->runs * block->run <= NEAR_BYTES) {
        path->copy(block, from, to, ahead, stream);
        return path->hash(block, from, logical, key);
    }
    const int64_t most = block->run < NEAR_BYTES ? NEAR_BYTES / block->run : 1;
    uint64_t sum = 0;
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t j = 0; j < block->runs; j += most) {
            Block piece = *block;
            piece.rows = 1;
            piece.runs = block->runs - j < most ? block->runs - j : most;
            const uint8_t *start = from + i * block->row_source + j * block->run_source;
            path->copy(&piece, start, to + i * block->row_destination + j * block->run_destination, ahead, stream);
            sum += path->hash(&piece, start, logical + (uint64_t)(i * block->row_logical + j * block->run_logical), key);
            if (ahead.lines)
                ahead.lines += piece.runs * piece.run / 64;
        }
    return sum;
}

static uint64_t run_copy(const Path *path, const Program *p, const Side *source, const Side *destination,
                         const Key *key, int stream)
{
    Walk walk;
    Block block;
    int32_t lines[LINES_MOST];
    uint64_t sum = 0;
    start_walk(&walk, &block, p, source, destination);
    const int joined = group_loops(&walk, &block);
    int64_t group = 1; /* blocks */
    for (int i = 0; i < joined; i++)
        group *= p->loop[walk.outer - 1 - i].count;
    Walk scout = walk; /* goes from group to group, one ahead */
    scout.outer -= joined;
    Ahead ahead = {NULL, stream && scout.outer && group_lines(&walk, &block, joined, lines) ? lines : NULL};
    const int64_t each = block.rows * block.runs * block.run / 64;
    int64_t here = 0;
    do {
        const uint8_t *from = source->bytes + source_at(&walk);
        if (ahead.lines) {
            if (here == 0 && next_block(&scout))
                ahead.base = source->bytes + source_at(&scout);
            else if (here == 0)
                ahead.lines = NULL;
            else
                ahead.lines = lines + here * each;
        }
        uint8_t *to = destination->bytes + destination_at(&walk);
        if (key)
            sum += copy_and_hash(path, &block, from, to, (uint64_t)walk.logical, key, ahead, stream);
        else
            path->copy(&block, from, to, ahead, stream);
        here = here + 1 < group ? here + 1 : 0;
        if (ahead.lines && here == 0)
            ahead.lines = lines;
    } while (next_block(&walk));
    return sum;
}

static void run_fill(const Program *p, const Side *side)
{
    Walk walk;
    Block block;
    start_walk(&walk, &block, p, side, side);
    do {
        uint8_t *to = side->bytes + destination_at(&walk);
        for (int64_t i = 0; i < block.rows; i++)
            for (int64_t j = 0; j < block.runs; j++)
                memset(to + i * block.row_destination + j * block.run_destination, 0, (size_t)block.run);
    } while (next_block(&walk));
}

static int64_t count_blocks(const Walk *walk)
{
    int64_t blocks = 1;
    for (int i = 0; i < walk->outer; i++)
        blocks *= walk->program->loop[i].count;
    return blocks;
}

/* Go to a block by its number, from the walk's first one. */
static void seek_block(Walk *walk, int64_t number)
{
    for (int i = walk->outer - 1; i >= 0; i--) {
        const Loop *loop = &walk->program->loop[i];
        const int64_t turn = number % loop->count;
        number /= loop->count;
        walk->turn[i] = turn;
        walk->at_source += turn * loop->source;
        walk->at_destination += turn * loop->destination;
        walk->logical += turn * loop->logical;
        walk->source_entry += turn * loop->source_step;
        walk->destination_entry += turn * loop->destination_step;
    }
}

/* The block to take from a group of `every` neighbours. */
static int64_t pick(const Sample *sample, int64_t group, uint64_t program, int64_t blocks)
{
    const uint64_t chance = place_key((uint64_t)group + (program << 40), sample->first, sample->second) >> 32;
    const int64_t start = group * sample->every, offset = (int64_t)(chance % (uint64_t)sample->every);
    return offset < blocks - start ? start + offset : blocks - 1;
}

static uint64_t hash_here(const Path *path, const Walk *walk, const Block *block, const Side *side, int destination,
                          const Key *key)
{
    const int64_t at = destination ? destination_at(walk) : source_at(walk);
    return path->hash(block, side->bytes + at, (uint64_t)walk->logical, key);
}

static uint64_t run_hash(const Path *path, const Program *p, uint64_t number, const Side *side, int destination,
                         const Key *key, const Sample *sample)
{
    Walk first;
    Block block;
    uint64_t sum = 0;
    start_walk(&first, &block, p, side, side);
    if (destination) {
        block.run_source = block.run_destination;
        block.row_source = block.row_destination;
    }
    if (sample->every == 1) {
        Walk walk = first;
        do
            sum += hash_here(path, &walk, &block, side, destination, key);
        while (next_block(&walk));
        return sum;
    }
    int32_t lines[LINES_MOST];
    const int fetch = group_lines(&first, &block, 0, lines) ? (int)((block.rows * block.runs * block.run + 63) / 64) : 0;
    const int64_t blocks = count_blocks(&first);
    for (int64_t group = 0; group < 1 + (blocks - 1) / sample->every; group++) {
        Walk walk = first;
        seek_block(&walk, pick(sample, group, number, blocks));
        const uint8_t *from = side->bytes + (destination ? destination_at(&walk) : source_at(&walk));
        for (int i = 0; i < fetch; i++) /* out of the blue: ask for all its lines at once */
            __builtin_prefetch(from + lines[i]);
        sum += hash_here(path, &walk, &block, side, destination, key);
    }
    return sum;
}

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

/* The unit must divide every run and place, or a vector would take part of one. */
static const char *check_units(const Program *p, const Key *key)
{
    int64_t odd = p->run | p->logical;
    for (int i = 0; i < p->loops; i++)
        odd |= p->loop[i].logical;
    return odd % key->unit ? "unit: it doesn't divide the program's runs" : NULL;
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
                sum += run_copy(path, &p, &source, &destination, unit ? &key : NULL, stream);
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
