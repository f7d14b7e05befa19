/* The cursor: walks a nest's programs and turns their runs into chains of writes or reads.
 *
 * A write gathers local pieces into one contiguous remote range, a read scatters one remote range into local
 * pieces; so a request goes on as long as the remote side does, and is cut where its list is full, where the
 * device's longest message ends, and where a registration ends, and nowhere else. The cursor fills a bounded
 * arena and posts it as chains, as far as the queue has room; it keeps its place in between. What it holds
 * doesn't depend on how much it moves. Everything is checked when it is made: no program leaves its memory.
 */
#ifndef HAWK_VERBS_WALK_H
#define HAWK_VERBS_WALK_H

#include "_verbs.h"

#include "../../layouts/_kernel.h"

#include "../../layouts/_kernel_program.h"

/* One stretch of memory under one key: offsets in its side, and what requests add to an offset. */
typedef struct {
    uint64_t start, end, shift;
    uint32_t key;
} Extent;

/* One side: its block table and its keys. */
typedef struct {
    Side side;
    int64_t *table; /* our own copy: the caller's may change */
    Extent *extents;
    int64_t count, at;
} Place;

typedef struct {
    PyObject_HEAD
    int64_t *words, *next, *end;
    Place local, remote;
    int reads; /* the remote side is the source */
    int has_immediate;
    uint32_t immediate;
    int64_t max_sge, max_inline, chain;
    uint64_t max_message;

    /* where it stands: a program, a row of it, a run of the row, bytes of the run */
    Program program;
    int outer; /* loops that are walked turn by turn; the one inside, if any, is a row */
    int64_t turn[MAX_LOOPS];
    int64_t local_at, remote_at, local_entry, remote_entry;
    int64_t in_row, in_run;
    int done, busy, outside; /* outside: it came to memory that no key opens */

    /* the arena: `filled` requests of which those before `sent` are posted; `open` may take more pieces */
    IbvSendWr *wr;
    IbvSge *sge;
    int64_t filled, sent;
    IbvSendWr *open;
    uint64_t expect, bytes;

    uint64_t requests, pieces, moved, last;
} Cursor;

/* ---- places ---- */

/* The stretch that an offset is in, or NULL where no key opens it. */
static inline const Extent *extent_of(Place *place, uint64_t offset)
{
    const Extent *e = &place->extents[place->at];
    if (offset >= e->start && offset < e->end)
        return e;
    int64_t low = 0, high = place->count - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (place->extents[middle].start <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    place->at = low;
    e = &place->extents[low];
    return offset >= e->start && offset < e->end ? e : NULL;
}

static inline uint64_t offset_of(const Place *place, int64_t at, int64_t entry)
{
    return (uint64_t)(at + (place->side.page ? place->side.table[entry] * place->side.page : 0));
}

/* The steps of a loop on the local and on the remote side. */
static inline int64_t local_step(const Cursor *c, const Loop *l) { return c->reads ? l->destination : l->source; }
static inline int64_t remote_step(const Cursor *c, const Loop *l) { return c->reads ? l->source : l->destination; }
static inline int64_t local_entries(const Cursor *c, const Loop *l)
{
    return c->reads ? l->destination_step : l->source_step;
}
static inline int64_t remote_entries(const Cursor *c, const Loop *l)
{
    return c->reads ? l->source_step : l->destination_step;
}

/* ---- requests ---- */

static void close_request(Cursor *c)
{
    if (!c->open)
        return;
    c->open->send_flags = !c->reads && c->bytes && c->bytes <= (uint64_t)c->max_inline ? IBV_FLAG_INLINE : 0;
    c->moved += c->bytes;
    c->open = NULL;
}

static int open_request(Cursor *c, int64_t most, uint64_t remote, uint32_t rkey)
{
    close_request(c);
    if (c->filled == most)
        return 0;
    IbvSendWr *wr = &c->wr[c->filled++];
    wr->num_sge = 0;
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = rkey;
    c->open = wr;
    c->bytes = 0;
    return 1;
}

/* Whether the open request can take `length` more bytes that begin at a remote address. */
static inline int goes_on(const Cursor *c, uint64_t remote, uint32_t rkey, uint64_t length)
{
    return c->open && remote == c->expect && rkey == c->open->wr.rdma.rkey && c->bytes + length <= c->max_message;
}

/* Lengthen the last piece if this one goes on where it ends. */
static inline int lengthen(Cursor *c, uint64_t local, uint32_t lkey, uint64_t length)
{
    if (!c->open->num_sge)
        return 0;
    IbvSge *last = &c->open->sg_list[c->open->num_sge - 1];
    if (last->addr + last->length != local || last->lkey != lkey)
        return 0;
    last->length += (uint32_t)length; /* a message is 2**31 bytes at most */
    return 1;
}

/* One piece, inside one registration on either side and no longer than a message. 0 when the arena is full. */
static int piece(Cursor *c, int64_t most, uint64_t local, uint32_t lkey, uint64_t remote, uint32_t rkey, uint64_t length)
{
    const int on = goes_on(c, remote, rkey, length);
    if (!on || !lengthen(c, local, lkey, length)) {
        if ((!on || c->open->num_sge == c->max_sge) && !open_request(c, most, remote, rkey))
            return 0;
        c->open->sg_list[c->open->num_sge++] = (IbvSge){local, (uint32_t)length, lkey};
        c->pieces++;
    }
    c->bytes += length;
    c->expect = remote + length;
    return 1;
}

/* A run that may be cut, by registrations or by the longest message; offsets, not addresses. */
static int cut_run(Cursor *c, int64_t most, uint64_t local, uint64_t remote)
{
    while (c->in_run < c->program.run) {
        const uint64_t from = local + (uint64_t)c->in_run, to = remote + (uint64_t)c->in_run;
        const Extent *here = extent_of(&c->local, from), *there = extent_of(&c->remote, to);
        if (!here || !there)
            return !(c->outside = 1);
        uint64_t length = (uint64_t)(c->program.run - c->in_run);
        if (length > here->end - from)
            length = here->end - from;
        if (length > there->end - to)
            length = there->end - to;
        if (length > c->max_message)
            length = c->max_message;
        if (!piece(c, most, from + here->shift, here->key, to + there->shift, there->key, length))
            return 0;
        c->in_run += (int64_t)length;
    }
    c->in_run = 0;
    return 1;
}

/* Runs of a row that stand in one registration on either side: the path that has to be fast. */
static int whole_runs(Cursor *c, int64_t most, uint64_t local, uint64_t remote, int64_t local_step_,
                      int64_t remote_step_, int64_t count, uint32_t lkey, uint32_t rkey)
{
    const uint64_t run = (uint64_t)c->program.run;
    while (c->in_row < count) {
        uint64_t from = local + (uint64_t)(c->in_row * local_step_);
        const uint64_t to = remote + (uint64_t)(c->in_row * remote_step_);
        if (!piece(c, most, from, lkey, to, rkey, run))
            return 0;
        c->in_row++;
        if (remote_step_ != (int64_t)run)
            continue;
        int64_t more = count - c->in_row, free = c->max_sge - c->open->num_sge;
        if (more > free)
            more = free;
        if (c->bytes + (uint64_t)more * run > c->max_message)
            more = (int64_t)((c->max_message - c->bytes) / run);
        IbvSge *sge = c->open->sg_list + c->open->num_sge;
        for (int64_t i = 0; i < more; i++) {
            from += (uint64_t)local_step_;
            sge[i].addr = from;
            sge[i].length = (uint32_t)run;
            sge[i].lkey = lkey;
        }
        c->open->num_sge += (int)more;
        c->pieces += (uint64_t)more;
        c->bytes += (uint64_t)more * run;
        c->expect += (uint64_t)more * run;
        c->in_row += more;
    }
    return 1;
}

/* The row, from where it stopped. 0 when the arena is full. */
static int walk_row(Cursor *c, int64_t most)
{
    const Program *p = &c->program;
    const Loop *row = c->outer < p->loops ? &p->loop[c->outer] : NULL;
    const int64_t count = row ? row->count : 1, ls = row ? local_step(c, row) : 0, rs = row ? remote_step(c, row) : 0;
    const uint64_t local = offset_of(&c->local, c->local_at, c->local_entry);
    const uint64_t remote = offset_of(&c->remote, c->remote_at, c->remote_entry);
    const Extent *here = extent_of(&c->local, local), *there = extent_of(&c->remote, remote);
    if (!here || !there)
        return !(c->outside = 1);
    if (local + (uint64_t)((count - 1) * ls + p->run) <= here->end &&
        remote + (uint64_t)((count - 1) * rs + p->run) <= there->end && (uint64_t)p->run <= c->max_message) {
        if (!whole_runs(c, most, local + here->shift, remote + there->shift, ls, rs, count, here->key, there->key))
            return 0;
    } else {
        for (; c->in_row < count; c->in_row++)
            if (!cut_run(c, most, local + (uint64_t)(c->in_row * ls), remote + (uint64_t)(c->in_row * rs)))
                return 0;
    }
    c->in_row = 0;
    return 1;
}

/* ---- the walk ---- */

static void next_program(Cursor *c)
{
    const int64_t *words = c->next;
    if (words >= c->end) {
        c->done = 1;
        return;
    }
    read_program(&words, c->end, &c->program);
    c->next = (int64_t *)words;
    const Program *p = &c->program;
    c->local_at = c->reads ? p->destination : p->source;
    c->remote_at = c->reads ? p->source : p->destination;
    c->local_entry = c->reads ? p->destination_entry : p->source_entry;
    c->remote_entry = c->reads ? p->source_entry : p->destination_entry;
    c->outer = (int)p->loops;
    if (p->loops && !p->loop[p->loops - 1].source_step && !p->loop[p->loops - 1].destination_step)
        c->outer--;
    memset(c->turn, 0, sizeof c->turn);
}

static void move(Cursor *c, const Loop *loop, int64_t turns)
{
    c->local_at += turns * local_step(c, loop);
    c->remote_at += turns * remote_step(c, loop);
    c->local_entry += turns * local_entries(c, loop);
    c->remote_entry += turns * remote_entries(c, loop);
}

static void next_row(Cursor *c)
{
    for (int i = c->outer - 1; i >= 0; i--) {
        const Loop *loop = &c->program.loop[i];
        if (++c->turn[i] < loop->count) {
            move(c, loop, 1);
            return;
        }
        c->turn[i] = 0;
        move(c, loop, 1 - loop->count);
    }
    next_program(c);
}

/* Fill the arena with at most `most` requests, all closed when it returns. */
static void fill(Cursor *c, int64_t most)
{
    c->filled = c->sent = 0;
    if (c->done) { /* nothing moves, but the peer is told */
        open_request(c, most, c->remote.extents[0].start + c->remote.extents[0].shift, c->remote.extents[0].key);
    }
    while (!c->done && walk_row(c, most))
        next_row(c);
    close_request(c);
    if (c->done && c->has_immediate && c->filled) {
        IbvSendWr *last = &c->wr[c->filled - 1];
        last->opcode = IBV_OP_WRITE_IMM;
        last->imm_data = c->immediate;
        c->has_immediate = 0;
    }
}

static inline int finished(const Cursor *c) { return c->done && c->sent == c->filled && !c->has_immediate; }

#endif
