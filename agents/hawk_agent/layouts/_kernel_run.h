/* Running a program: the walk from block to block, what is fetched ahead, copying, filling and hashing. */

/* ---- walking a program block by block ---- */

typedef struct {
    const Program *program;
    const Side *source, *destination;
    int outer; /* loops outside the block */
    int64_t turn[MAX_LOOPS];
    int64_t at_source, at_destination, logical, source_entry, destination_entry;
} Walk;

static int stepless(const Loop *loop) { return !loop->source_step && !loop->destination_step; }

/* True if a loop is one of the block's, as `start_walk` takes them. */
static int in_block(const Program *p, int loop)
{
    for (int i = loop; i < (int)p->loops; i++)
        if (!stepless(&p->loop[i]))
            return 0;
    return loop >= p->loops - 2;
}

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

/* ---- fetching ahead: the lines of the next block, one for each line written ---- */

#define LINES_MOST 1024
#define DISTANCE 8192 /* bytes: nearer comes too late, farther has left the nearest cache when its turn comes */
#define FETCH_FROM (64 << 10) /* bytes: to fetch less isn't worth the list */

typedef struct { int64_t count, step; } Span;

static int wider(const void *a, const void *b)
{
    const int64_t x = ((const Span *)a)->step, y = ((const Span *)b)->step;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* List a block's lines relative to its start, lowest first; 0 if they are too many or too far apart. */
static int block_lines(const Block *block, int32_t lines[LINES_MOST])
{
    enum { LOOPS = 2 };
    Span spans[LOOPS] = {{block->rows, block->row_source}, {block->runs, block->run_source}};
    int count = 0;
    int64_t bytes = block->run, span = block->run;
    for (int i = 0; i < LOOPS; i++) {
        if (bytes > LINES_MOST * 64 / spans[i].count || spans[i].step > INT32_MAX / 2 / spans[i].count)
            return 0;
        bytes *= spans[i].count;
        span += (spans[i].count - 1) * spans[i].step;
    }
    if (span > INT32_MAX)
        return 0;
    qsort(spans, LOOPS, sizeof *spans, wider);
    int64_t turn[LOOPS] = {0}, last = -1;
    for (int64_t start = 0, more = 1; more;) {
        for (int64_t at = start, end = start + block->run; at < end; at = (at | 63) + 1)
            if (at >> 6 > last && count < LINES_MOST)
                lines[count++] = (int32_t)((last = at >> 6) << 6);
        more = 0;
        for (int i = LOOPS - 1; i >= 0 && !more; i--) {
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
    Joined joined;
    if (block->rows * block->runs * block->run <= NEAR_BYTES || joins(block, key, &joined))
        return path->copy_and_hash(block, from, to, logical, key, ahead, stream);
    const int64_t most = block->run < NEAR_BYTES ? NEAR_BYTES / block->run : 1;
    uint64_t sum = 0;
    for (int64_t i = 0; i < block->rows; i++)
        for (int64_t j = 0; j < block->runs; j += most) {
            Block piece = *block;
            piece.rows = 1;
            piece.runs = block->runs - j < most ? block->runs - j : most;
            const uint8_t *start = from + i * block->row_source + j * block->run_source;
            sum += path->copy_and_hash(&piece, start, to + i * block->row_destination + j * block->run_destination,
                                       logical + (uint64_t)(i * block->row_logical + j * block->run_logical), key, ahead,
                                       stream);
            if (ahead.lines)
                ahead.lines += piece.runs * piece.run / 64;
        }
    return sum;
}

/* The walk that goes ahead of a copy, and says what to fetch meanwhile. */
typedef struct {
    Walk walk;
    int going;
    int32_t lines[LINES_MOST];
} Scout;

static void start_scout(Scout *scout, const Walk *walk, const Block *block)
{
    scout->walk = *walk;
    scout->going = walk->outer && block_lines(block, scout->lines);
    for (int64_t far = DISTANCE / (block->rows * block->runs * block->run); far > 1 && scout->going; far--)
        scout->going = next_block(&scout->walk);
}

/* Prefetched while the next block moves. */
static Ahead look_ahead(Scout *scout)
{
    if (!scout->going || !(scout->going = next_block(&scout->walk)))
        return (Ahead){NULL, NULL};
    return (Ahead){scout->walk.source->bytes + source_at(&scout->walk), scout->lines};
}

/* Run a program; `cold` says that the source isn't in the caches. */
static uint64_t run_copy(const Path *path, const Program *p, const Side *source, const Side *destination,
                         const Key *key, int stream, int cold)
{
    Walk walk;
    Block block;
    Scout scout;
    uint64_t sum = 0;
    start_walk(&walk, &block, p, source, destination);
    const int fetch = cold && program_bytes(p) >= FETCH_FROM;
    if (fetch)
        start_scout(&scout, &walk, &block);
    do {
        const uint8_t *from = source->bytes + source_at(&walk);
        uint8_t *to = destination->bytes + destination_at(&walk);
        const Ahead ahead = fetch ? look_ahead(&scout) : (Ahead){NULL, NULL};
        if (key)
            sum += copy_and_hash(path, &block, from, to, (uint64_t)walk.logical, key, ahead, stream);
        else
            path->copy(&block, from, to, ahead, stream);
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
    const int fetch = block_lines(&block, lines) ? (int)((block.rows * block.runs * block.run + 63) / 64) : 0;
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
