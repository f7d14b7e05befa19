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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* the kernel's own part has uses for all of it */
#include "../../layouts/_kernel_program.h"
#pragma GCC diagnostic pop

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

/* A loop as the cursor walks it: which turn it is in, and what a turn moves on either side. */
typedef struct {
    int64_t turn, count, local, remote, local_entries, remote_entries;
} Turns;

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
    Turns loop[MAX_LOOPS]; /* walked turn by turn, outermost first; the program's innermost loop is the row */
    int loops;
    int64_t run, row, row_local, row_remote;
    int64_t local_at, remote_at, local_entry, remote_entry;
    const Extent *here, *there; /* the stretches that hold all of the program; NULL where it isn't in one */
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

/* ---- requests ---- */

static void close_request(Cursor *c)
{
    if (!c->open)
        return;
    c->open->send_flags = !c->reads && c->bytes && c->bytes <= (uint64_t)c->max_inline ? HAWK_IBV_SEND_INLINE : 0;
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

/* True if the open request can take `length` more bytes that begin at a remote address. */
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
    while (c->in_run < c->run) {
        const uint64_t from = local + (uint64_t)c->in_run, to = remote + (uint64_t)c->in_run;
        const Extent *here = extent_of(&c->local, from), *there = extent_of(&c->remote, to);
        if (!here || !there)
            return !(c->outside = 1);
        uint64_t length = (uint64_t)(c->run - c->in_run);
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

/* So many pieces of one length, one step apart. */
static inline void list_pieces(IbvSge *sge, int64_t count, uint64_t from, uint64_t step, uint32_t length, uint32_t lkey)
{
    const struct {
        uint32_t length, lkey;
    } rest = {length, lkey};
    for (int64_t i = 0; i < count; i++, from += step) {
        sge[i].addr = from;
        memcpy(&sge[i].length, &rest, sizeof rest); /* one store for both */
    }
}

/* Runs of a row that stand in one registration on either side: the path that has to be fast. */
static inline int whole_runs(Cursor *c, int64_t most, uint64_t local, uint32_t lkey, uint64_t remote, uint32_t rkey)
{
    const uint64_t run = (uint64_t)c->run, step = (uint64_t)c->row_local;
    for (int64_t at = c->in_row; at < c->row;) {
        const uint64_t from = local + (uint64_t)at * step;
        if (!piece(c, most, from, lkey, remote + (uint64_t)(at * c->row_remote), rkey, run)) {
            c->in_row = at;
            return 0;
        }
        at++;
        if (c->row_remote != c->run)
            continue;
        int64_t more = c->row - at;
        if (more > c->max_sge - c->open->num_sge)
            more = c->max_sge - c->open->num_sge;
        if (c->bytes + (uint64_t)more * run > c->max_message)
            more = (int64_t)((c->max_message - c->bytes) / run);
        list_pieces(c->open->sg_list + c->open->num_sge, more, from + step, step, (uint32_t)run, lkey);
        c->open->num_sge += (int)more;
        c->pieces += (uint64_t)more;
        c->bytes += (uint64_t)more * run;
        c->expect += (uint64_t)more * run;
        at += more;
    }
    c->in_row = 0;
    return 1;
}

/* A row whose registrations have to be looked up, and may end inside it. */
static int looked_up_runs(Cursor *c, int64_t most, uint64_t local, uint64_t remote)
{
    const Extent *here = extent_of(&c->local, local), *there = extent_of(&c->remote, remote);
    if (here && there && local + (uint64_t)((c->row - 1) * c->row_local + c->run) <= here->end &&
        remote + (uint64_t)((c->row - 1) * c->row_remote + c->run) <= there->end && (uint64_t)c->run <= c->max_message)
        return whole_runs(c, most, local + here->shift, here->key, remote + there->shift, there->key);
    for (; c->in_row < c->row; c->in_row++)
        if (!cut_run(c, most, local + (uint64_t)(c->in_row * c->row_local),
                     remote + (uint64_t)(c->in_row * c->row_remote)))
            return 0;
    c->in_row = 0;
    return 1;
}

/* The row, from where it stopped. 0 when the arena is full, or where no key opens the memory. */
static inline int walk_row(Cursor *c, int64_t most)
{
    if (c->here && c->there)
        return whole_runs(c, most, (uint64_t)c->local_at + c->here->shift, c->here->key,
                          (uint64_t)c->remote_at + c->there->shift, c->there->key);
    return looked_up_runs(c, most, offset_of(&c->local, c->local_at, c->local_entry),
                          offset_of(&c->remote, c->remote_at, c->remote_entry));
}

/* ---- the walk ---- */

/* The stretch that holds bytes [first, last), if one does and no block table moves them about. */
static const Extent *whole_extent(Place *place, uint64_t first, uint64_t last)
{
    const Extent *e = place->side.page ? NULL : extent_of(place, first);
    return e && last <= e->end ? e : NULL;
}

static void next_program(Cursor *c)
{
    const int64_t *words = c->next;
    if (words >= c->end) {
        c->done = 1;
        return;
    }
    Program p;
    read_program(&words, c->end, &p);
    c->next = (int64_t *)words;
    c->local_at = c->reads ? p.destination : p.source;
    c->remote_at = c->reads ? p.source : p.destination;
    c->local_entry = c->reads ? p.destination_entry : p.source_entry;
    c->remote_entry = c->reads ? p.source_entry : p.destination_entry;
    int64_t local_end = c->local_at + p.run, remote_end = c->remote_at + p.run;
    for (int i = 0; i < p.loops; i++) {
        const Loop *l = &p.loop[i];
        c->loop[i] = c->reads ? (Turns){0, l->count, l->destination, l->source, l->destination_step, l->source_step}
                              : (Turns){0, l->count, l->source, l->destination, l->source_step, l->destination_step};
        local_end += (l->count - 1) * c->loop[i].local;
        remote_end += (l->count - 1) * c->loop[i].remote;
    }
    c->loops = (int)p.loops;
    c->run = p.run;
    c->row = 1, c->row_local = c->row_remote = 0;
    const Turns *inner = p.loops ? &c->loop[p.loops - 1] : NULL;
    if (inner && !inner->local_entries && !inner->remote_entries) {
        c->row = inner->count, c->row_local = inner->local, c->row_remote = inner->remote;
        c->loops--;
    }
    const int fits = (uint64_t)p.run <= c->max_message;
    c->here = fits ? whole_extent(&c->local, (uint64_t)c->local_at, (uint64_t)local_end) : NULL;
    c->there = fits ? whole_extent(&c->remote, (uint64_t)c->remote_at, (uint64_t)remote_end) : NULL;
}

static inline void turn(Cursor *c, const Turns *loop, int64_t turns)
{
    c->local_at += turns * loop->local;
    c->remote_at += turns * loop->remote;
    c->local_entry += turns * loop->local_entries;
    c->remote_entry += turns * loop->remote_entries;
}

static inline void next_row(Cursor *c)
{
    for (int i = c->loops - 1; i >= 0; i--) {
        Turns *loop = &c->loop[i];
        if (++loop->turn < loop->count) {
            turn(c, loop, 1);
            return;
        }
        loop->turn = 0;
        turn(c, loop, 1 - loop->count);
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
        last->opcode = HAWK_IBV_WR_RDMA_WRITE_WITH_IMM;
        last->imm_data = c->immediate;
        c->has_immediate = 0;
    }
}

static inline int finished(const Cursor *c) { return c->done && c->sent == c->filled && !c->has_immediate; }

#endif
