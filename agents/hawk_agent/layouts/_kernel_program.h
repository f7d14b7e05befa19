/* Programs as Python encodes them, buffers with their block tables, and the check that one stays inside the other. */

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

/* The bytes of a program, or -1 if they don't fit a number. */
static inline int64_t program_bytes(const Program *p)
{
    __int128 bytes = p->run;
    for (int i = 0; i < p->loops; i++)
        if ((bytes *= p->loop[i].count) > INT64_MAX)
            return -1;
    return (int64_t)bytes;
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

/* True if every run of a program lies inside the side, for any values up to the table's highest. */
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
