/* Parts of a nest by their place in its stream: the runs one after the other, in the order of the programs. */

typedef struct {
    const Path *path;
    const Side *source, *destination;
    int packing;      /* the destination is the stream's piece; else the source is */
    int moving;       /* or only checking */
    int stream;       /* past the caches */
    int64_t at;       /* bytes of the piece that are done */
    const char *why;  /* what is wrong with it */
} Part;

static void advance(Program *p, const Loop *loop, int64_t steps)
{
    p->source += steps * loop->source;
    p->destination += steps * loop->destination;
    p->source_entry += steps * loop->source_step;
    p->destination_entry += steps * loop->destination_step;
}

/* Which loop is inside which doesn't matter to a box; forwards in the destination is fastest. */
static void write_forwards(Program *box)
{
    for (int i = 1; i < box->loops; i++) {
        const Loop loop = box->loop[i];
        int j = i;
        for (; j > 0 && box->loop[j - 1].destination < loop.destination && stepless(&loop) &&
               stepless(&box->loop[j - 1]);
             j--)
            box->loop[j] = box->loop[j - 1];
        box->loop[j] = loop;
    }
}

/* Run a box of the program, with its stream's side laid out as the stream is. */
static void take_box(Part *part, Program box)
{
    int64_t step = box.run;
    *(part->packing ? &box.destination : &box.source) = part->at;
    *(part->packing ? &box.destination_entry : &box.source_entry) = 0;
    for (int i = (int)box.loops - 1; i >= 0; i--) {
        Loop *loop = &box.loop[i];
        *(part->packing ? &loop->destination : &loop->source) = step;
        *(part->packing ? &loop->destination_step : &loop->source_step) = 0;
        step *= loop->count;
    }
    part->at += step;
    write_forwards(&box);
    if (!part->moving) {
        if (!part->why && !(part->why = check_side(&box, part->source, 0)))
            part->why = check_side(&box, part->destination, 1);
        return;
    }
    run_copy(part->path, &box, part->source, part->destination, NULL, part->stream, part->packing);
}

static Program without_outer(const Program *p)
{
    Program body = *p;
    body.loops--;
    memmove(body.loop, body.loop + 1, (size_t)body.loops * sizeof *body.loop);
    return body;
}

/* Runs `first` to `first + count` of a program, as the fewest boxes. */
static void take_runs(Part *part, const Program *p, int64_t first, int64_t count)
{
    if (count <= 0)
        return;
    if (!p->loops) {
        take_box(part, *p);
        return;
    }
    const Loop outer = p->loop[0];
    Program body = without_outer(p);
    const int64_t each = program_bytes(&body) / body.run, skip = first % each;
    advance(&body, &outer, first / each);
    if (skip) {
        const int64_t head = each - skip < count ? each - skip : count;
        take_runs(part, &body, skip, head);
        advance(&body, &outer, 1);
        count -= head;
    }
    const int64_t whole = count / each;
    if (whole > 1) {
        Program box = *p;
        box.source = body.source;
        box.destination = body.destination;
        box.source_entry = body.source_entry;
        box.destination_entry = body.destination_entry;
        box.loop[0].count = whole;
        take_box(part, box);
    } else if (whole) {
        take_box(part, body);
    }
    advance(&body, &outer, whole);
    take_runs(part, &body, 0, count % each);
}

/* Bytes [low, high) of a program's share of the stream; a cut may stand inside a run. */
static void take_bytes(Part *part, const Program *p, int64_t low, int64_t high)
{
    while (low < high) {
        const int64_t first = low / p->run, skip = low % p->run;
        int64_t take = (high - low) / p->run * p->run;
        if (skip || !take) {
            Program piece = *p;
            take = p->run - skip < high - low ? p->run - skip : high - low;
            piece.source += skip;
            piece.destination += skip;
            piece.run = take;
            for (int64_t rest = first, i = piece.loops - 1; i >= 0; rest /= piece.loop[i--].count)
                advance(&piece, &piece.loop[i], rest % piece.loop[i].count);
            piece.loops = 0;
            take_box(part, piece);
        } else {
            take_runs(part, p, first, take / p->run);
        }
        low += take;
    }
}

/* Check or move bytes [start, stop) of the stream of all programs. */
static const char *take_part(Part *part, const int64_t *words, const int64_t *end, int64_t start, int64_t stop)
{
    Program p;
    int64_t base = 0;
    part->at = 0;
    while (words < end && base < stop) {
        const char *why = read_program(&words, end, &p);
        if (!why)
            why = part->packing ? check_side(&p, part->source, 0) : check_side(&p, part->destination, 1);
        const int64_t bytes = why ? 0 : program_bytes(&p);
        if (why || bytes < 0 || bytes > INT64_MAX - base)
            return why ? why : "program: it moves more than a number holds";
        const int64_t low = start > base ? start - base : 0, high = stop - base < bytes ? stop - base : bytes;
        take_bytes(part, &p, low, high);
        base += bytes;
    }
    return part->why ? part->why : part->at == stop - start ? NULL : "range: it leaves the stream";
}
