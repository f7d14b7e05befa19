/* One vector path of the kernel. `_kernel.c` includes this file once a path, with these defined:
 *
 *   NAME(x)       x with the path's suffix          TARGET         the function attribute that allows its instructions
 *   VBYTES        bytes of a vector                 vec            its type
 *   vload/vstore  unaligned                         vstream(p, v)  past the caches; p is VBYTES-aligned
 *   gatherN(p,s)  a vector from pieces of N bytes that stand s bytes apart (N from 2 up to VBYTES / 2)
 *   loN hiN       two vectors interleaved by elements of N bits, each 16 bytes for themselves; scatter16(p,s,v)
 *                 a vector's 16 bytes each, s bytes apart: for transposing in registers; undefined at the plainest
 *   NARROW        the hash of the path below, for runs that aren't whole vectors, and NARROW_TRANSPOSE(N) its
 *                 transposition; undefined at the plainest
 *   HASH_VECTORS  hash_runs_N of this path where N is VBYTES
 *   add64 add32 xor_ mul32 high32 swap32 splat64 sum64      the digest's arithmetic on 64-bit lanes
 *   PREFETCH(p)   a hint                            FENCE()        orders streamed stores before later ones
 */

/* Every 64 bytes moved, one line of the next block is fetched: a steady trickle beats a burst. */
#define LINE 64
#define VECTORS (LINE / VBYTES)
#define FETCH()                                   \
    do {                                          \
        if (lines)                                \
            PREFETCH(ahead->base + *lines++);     \
    } while (0)

TARGET static inline void NAME(move)(uint8_t *to, const uint8_t *from, int64_t bytes, Ahead *ahead, int stream)
{
    const int32_t *lines = ahead->lines;
    const int aligned = stream && (uintptr_t)to % VBYTES == 0;
    int64_t i = 0;
    for (; i + LINE <= bytes; i += LINE) {
        FETCH();
        for (int v = 0; v < LINE; v += VBYTES)
            if (aligned)
                vstream(to + i + v, vload(from + i + v));
            else
                vstore(to + i + v, vload(from + i + v));
    }
    for (; i + VBYTES <= bytes; i += VBYTES)
        vstore(to + i, vload(from + i));
    memcpy(to + i, from + i, (size_t)(bytes - i));
    ahead->lines = lines;
}

/* A row whose runs stand side by side at the destination: whole vectors are put together from pieces. */
#define GATHER(N, PIECES_AT)                                                                           \
    TARGET static inline void NAME(gather_row_##N)(const Block *b, const uint8_t *from, uint8_t *to,   \
                                                   Ahead *ahead, int stream)                           \
    {                                                                                                  \
        enum { PIECES = VBYTES / N };                                                                  \
        const int64_t step = b->run_source, runs = b->runs;                                            \
        const int32_t *lines = ahead->lines;                                                           \
        int64_t i = 0;                                                                                 \
        for (; i + PIECES * VECTORS <= runs; i += PIECES * VECTORS) {                                  \
            FETCH();                                                                                   \
            for (int v = 0; v < VECTORS; v++, from += PIECES * step, to += VBYTES)                     \
                if (stream)                                                                            \
                    vstream(to, PIECES_AT(from, step));                                                \
                else                                                                                   \
                    vstore(to, PIECES_AT(from, step));                                                 \
        }                                                                                              \
        for (; i + PIECES <= runs; i += PIECES, from += PIECES * step, to += VBYTES)                   \
            vstore(to, PIECES_AT(from, step));                                                         \
        for (; i < runs; i++, from += step, to += N)                                                   \
            memcpy(to, from, N);                                                                       \
        ahead->lines = lines;                                                                          \
    }
#define WHOLE(p, s) vload(p)

GATHER(2, gather2)
GATHER(4, gather4)
#if VBYTES == 8
GATHER(8, WHOLE)
#else
GATHER(8, gather8)
#if VBYTES == 16
GATHER(16, WHOLE)
#else
GATHER(16, gather16)
#if VBYTES == 32
GATHER(32, WHOLE)
#else
GATHER(32, gather32)
#endif
#endif
#endif
#undef GATHER
#undef WHOLE

#if VBYTES <= 16
/* Runs of two to four vectors: a line at a time all the same. */
TARGET static inline void NAME(gather_row_32)(const Block *b, const uint8_t *from, uint8_t *to, Ahead *ahead, int stream)
{
    const int64_t step = b->run_source, runs = b->runs;
    const int32_t *lines = ahead->lines;
    int64_t i = 0;
    for (; stream && i + 2 <= runs; i += 2, from += 2 * step, to += LINE) {
        FETCH();
        for (int v = 0; v < 32; v += VBYTES) {
            vstream(to + v, vload(from + v));
            vstream(to + 32 + v, vload(from + step + v));
        }
    }
    for (; i < runs; i++, from += step, to += 32)
        memcpy(to, from, 32);
    ahead->lines = lines;
}
#endif

/* Runs of whole lines: rows of 32x32 tiles, tokens of a head. */
TARGET static inline void NAME(stream_lines)(const Block *b, const uint8_t *from, uint8_t *to, Ahead *ahead)
{
    const int32_t *lines = ahead->lines;
    for (int64_t i = 0; i < b->runs; i++, from += b->run_source)
        for (int64_t at = 0; at < b->run; at += LINE, to += LINE) {
            FETCH();
            for (int v = 0; v < LINE; v += VBYTES)
                vstream(to + v, vload(from + at + v));
        }
    ahead->lines = lines;
}

TARGET static inline void NAME(row)(const Block *b, const uint8_t *from, uint8_t *to, Ahead *ahead, int stream)
{
    if (b->run_destination == b->run) {
        const int aligned = stream && (uintptr_t)to % VBYTES == 0;
        switch (b->run) {
        case 2: NAME(gather_row_2)(b, from, to, ahead, aligned); return;
        case 4: NAME(gather_row_4)(b, from, to, ahead, aligned); return;
        case 8: NAME(gather_row_8)(b, from, to, ahead, aligned); return;
#if VBYTES >= 16
        case 16: NAME(gather_row_16)(b, from, to, ahead, aligned); return;
#endif
        case 32: NAME(gather_row_32)(b, from, to, ahead, aligned); return;
        default: break;
        }
        if (aligned && b->run % LINE == 0) {
            NAME(stream_lines)(b, from, to, ahead);
            return;
        }
    }
    for (int64_t i = 0; i < b->runs; i++)
        NAME(move)(to + i * b->run_destination, from + i * b->run_source, b->run, ahead, stream);
}

#ifdef lo16
/* The rest of a matrix, where squares don't fit. */
TARGET static void NAME(elements)(const Block *b, const uint8_t *source, uint8_t *to)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->runs; j++)
            memcpy(to + i * b->row_destination + j * b->run_destination,
                   source + i * b->row_source + j * b->run_source, (size_t)b->run);
}

/* A matrix of elements, contiguous down its columns at the source and along its rows at the destination:
 * squares of 16 bytes, as many as a vector is wide, are transposed in registers. Interleaving the upper with the
 * lower half of a square's lines, log2 of their number times over, transposes it. */
#define TRANSPOSE(N, ROUNDS, LOW, HIGH)                                                                            \
    TARGET static void NAME(transpose_##N)(const Block *b, const uint8_t *source, uint8_t *to)                     \
    {                                                                                                              \
        enum { EDGE = 16 / N };                                                                                    \
        const int64_t rows = b->rows / (VBYTES / N) * (VBYTES / N), runs = b->runs / EDGE * EDGE;                  \
        for (int64_t j = 0; j < runs; j += EDGE)                                                                   \
            for (int64_t i = 0; i < rows; i += VBYTES / N) {                                                       \
                const uint8_t *from = source + j * b->run_source + i * N;                                          \
                uint8_t *at = to + i * b->row_destination + j * N;                                                 \
                vec a[EDGE], mixed[EDGE];                                                                          \
                for (int k = 0; k < EDGE; k++)                                                                     \
                    a[k] = vload(from + k * b->run_source);                                                        \
                for (int round = 0; round < ROUNDS; round++) {                                                     \
                    for (int k = 0; k < EDGE / 2; k++) {                                                           \
                        mixed[2 * k] = LOW(a[k], a[k + EDGE / 2]);                                                 \
                        mixed[2 * k + 1] = HIGH(a[k], a[k + EDGE / 2]);                                            \
                    }                                                                                              \
                    for (int k = 0; k < EDGE; k++)                                                                 \
                        a[k] = mixed[k];                                                                           \
                }                                                                                                  \
                for (int k = 0; k < EDGE; k++)                                                                     \
                    scatter16(at + k * b->row_destination, EDGE * b->row_destination, a[k]);                       \
            }                                                                                                      \
        Block rest = *b;                                                                                           \
        rest.rows -= rows;                                                                                         \
        NARROW_TRANSPOSE(N)(&rest, source + rows * b->row_source, to + rows * b->row_destination);                 \
        rest.rows = rows;                                                                                          \
        rest.runs -= runs;                                                                                         \
        NAME(elements)(&rest, source + runs * b->run_source, to + runs * b->run_destination);                      \
    }
#if VBYTES == 16
#define NARROW_TRANSPOSE(N) NAME(elements)
#endif
TRANSPOSE(1, 4, lo8, hi8)
TRANSPOSE(2, 3, lo16, hi16)
TRANSPOSE(4, 2, lo32, hi32)
TRANSPOSE(8, 1, lo64, hi64)
#undef TRANSPOSE
#undef NARROW_TRANSPOSE

TARGET static uint64_t NAME(hash)(const Block *b, const uint8_t *source, uint64_t logical, const Key *key);

/* Transposed into the nearest cache, and from there in whole lines; with a key, hashed meanwhile. */
TARGET static uint64_t NAME(copy_transposed)(const Block *b, const uint8_t *source, uint8_t *destination,
                                             uint64_t logical, const Key *key, Ahead *ahead, int stream)
{
    enum { SLICE = 16 }; /* lines hashed at a time: whole units */
    _Alignas(LINE) uint8_t stage[STAGE];
    Block packed = *b;
    packed.row_destination = b->runs * b->run;
    switch (b->run) {
    case 1: NAME(transpose_1)(&packed, source, stage); break;
    case 2: NAME(transpose_2)(&packed, source, stage); break;
    case 4: NAME(transpose_4)(&packed, source, stage); break;
    default: NAME(transpose_8)(&packed, source, stage); break;
    }
    /* Units stand along the stage's rows, or along the source's lines: where their pieces are side by side. */
    const int staged = b->run_logical == b->run;
    const int64_t lines = staged ? b->rows : b->runs;
    Block slice = *b;
    if (staged)
        slice = (Block){.rows = 1, .run = packed.row_destination, .run_source = packed.row_destination,
                        .run_logical = b->row_logical};
    uint64_t sum = 0;
    int64_t hashed = 0;
    for (int64_t i = 0; i < b->rows; i++) {
        NAME(move)(destination + i * b->row_destination, stage + i * packed.row_destination, packed.row_destination,
                   ahead, stream);
        const int64_t due = i + 1 < b->rows ? (i + 1) * lines / b->rows / SLICE * SLICE : lines;
        if (key && due > hashed) {
            slice.runs = due - hashed;
            sum += NAME(hash)(&slice, (staged ? stage : source) + hashed * slice.run_source,
                              logical + (uint64_t)(hashed * slice.run_logical), key);
            hashed = due;
        }
    }
    return sum;
}
#endif

TARGET static void NAME(copy)(const Block *b, const uint8_t *source, uint8_t *destination, Ahead ahead, int stream)
{
#ifdef lo16
    if (transposes(b)) {
        NAME(copy_transposed)(b, source, destination, 0, NULL, &ahead, stream);
        return;
    }
#endif
    for (int64_t i = 0; i < b->rows; i++)
        NAME(row)(b, source + i * b->row_source, destination + i * b->row_destination, &ahead, stream);
}

/* ---- the digest; `place` is where a vector's units stand, plus the key's first word ---- */

TARGET static inline vec NAME(term)(vec units, vec place, vec second)
{
    vec x = xor_(add64(mul32(place, splat64(0x9E3779B1u)), swap32(place)), second);
    x = add64(mul32(x, splat64(0x85EBCA77u)), swap32(x));
    x = add32(units, x);
    return mul32(x, high32(x));
}

/* The places of a vector's units, relative to its first: pieces of `units` units that stand `step` places apart. */
TARGET static inline vec NAME(ramp)(int64_t units, uint64_t step)
{
    uint64_t lanes[VBYTES / 8];
    for (int64_t i = 0; i < VBYTES / 8; i++)
        lanes[i] = (uint64_t)(i % units) + (uint64_t)(i / units) * step;
    return vload(lanes);
}

/* Hash runs, and copy them past the caches on the way where `copies`: the arithmetic runs while stores wait for
 * memory. Vectors are put together from pieces of N bytes, or run along the runs where N is VBYTES. */
#define HASH_RUNS(N, PIECES_AT)                                                                                    \
    TARGET static inline __attribute__((always_inline)) uint64_t NAME(hash_runs_##N)(                              \
        const Block *b, const uint8_t *source, uint8_t *destination, uint64_t logical, const Key *key, Ahead ahead, \
        const int copies)                                                                                          \
    {                                                                                                              \
        enum { PIECES = VBYTES / N };                                                                              \
        const int64_t length = N < VBYTES ? VBYTES : b->run / VBYTES * VBYTES, runs = b->runs / PIECES * PIECES;   \
        const uint64_t step = (uint64_t)b->run_logical / 8;                                                        \
        const vec second = splat64(key->second), ramp = NAME(ramp)(N / 8, step);                                   \
        const vec next = splat64(PIECES * step), along = splat64(VBYTES / 8);                                      \
        const int32_t *lines = ahead.lines;                                                                        \
        vec sum = splat64(0);                                                                                      \
        uint64_t rest = 0;                                                                                         \
        int64_t written = 0;                                                                                       \
        for (int64_t i = 0; i < b->rows; i++) {                                                                    \
            const uint8_t *from = source + i * b->row_source;                                                      \
            uint8_t *to = destination + i * b->row_destination;                                                    \
            uint64_t at = logical + (uint64_t)(i * b->row_logical);                                                \
            vec start = add64(splat64(at / 8 + key->first), ramp);                                                 \
            for (int64_t j = 0; j < runs; j += PIECES) {                                                           \
                vec place = start;                                                                                 \
                for (int64_t k = 0; k < length; k += VBYTES, written += VBYTES) {                                  \
                    if (copies && lines && written % LINE == 0)                                                    \
                        PREFETCH(ahead.base + *lines++);                                                           \
                    const vec units = PIECES_AT(from + k, b->run_source);                                          \
                    if (copies)                                                                                    \
                        vstream(to + k, units);                                                                    \
                    sum = add64(sum, NAME(term)(units, place, second));                                            \
                    place = add64(place, along);                                                                   \
                }                                                                                                  \
                if (N == VBYTES && length < b->run)                                                                \
                    rest += hash_units(from + length, b->run - length, at + (uint64_t)length, key);                \
                start = add64(start, next);                                                                        \
                from += PIECES * b->run_source;                                                                    \
                to += PIECES * b->run_destination;                                                                 \
                at += PIECES * (uint64_t)b->run_logical;                                                           \
            }                                                                                                      \
            for (int64_t j = runs; j < b->runs; j++, from += b->run_source, to += b->run_destination) {            \
                if (copies)                                                                                        \
                    memcpy(to, from, N);                                                                           \
                rest += hash_units(from, N, at, key);                                                              \
                at += (uint64_t)b->run_logical;                                                                    \
            }                                                                                                      \
        }                                                                                                          \
        return rest + sum64(sum);                                                                                  \
    }
#define WHOLE(p, s) vload(p)
#if VBYTES > 8
HASH_RUNS(8, gather8)
#endif
#if VBYTES > 16
HASH_RUNS(16, gather16)
#endif
#if VBYTES > 32
HASH_RUNS(32, gather32)
#endif
#if VBYTES == 8
HASH_RUNS(8, WHOLE)
#elif VBYTES == 16
HASH_RUNS(16, WHOLE)
#elif VBYTES == 32
HASH_RUNS(32, WHOLE)
#else
HASH_RUNS(64, WHOLE)
#endif
#undef HASH_RUNS
#undef WHOLE

#ifdef lo16
/* Units whose pieces of N bytes stand a line each, neighbours of other units beside them: transposed in registers, as
 * `transpose` does, a vector holds two units in each 16 bytes. */
#define HASH_ACROSS(N, ROUNDS, LOW, HIGH)                                                                          \
    TARGET static uint64_t NAME(hash_across_##N)(const Joined *j, const uint8_t *source, uint64_t logical,         \
                                                 const Key *key)                                                   \
    {                                                                                                              \
        enum { EDGE = 8 / N, SQUARE = 16 / N };                                                                    \
        const uint64_t step = (uint64_t)j->across_logical / 8;                                                     \
        const int64_t whole = j->along / EDGE * EDGE, across = j->across / (VBYTES / N) * (VBYTES / N);            \
        const vec second = splat64(key->second), two = splat64(2 * step);                                          \
        const vec skip = splat64((VBYTES / 16 - 1) * SQUARE * step);                                               \
        uint64_t lanes[VBYTES / 8];                                                                                \
        for (uint64_t i = 0; i < VBYTES / 8; i++)                                                                  \
            lanes[i] = (i / 2 * SQUARE + i % 2) * step;                                                            \
        const vec ramp = vload(lanes);                                                                             \
        vec sum = splat64(0);                                                                                      \
        for (int64_t i = 0; i < whole; i += EDGE) {                                                                \
            const uint8_t *from = source + i * j->along_source;                                                    \
            vec place = add64(splat64((logical + (uint64_t)(i * N)) / 8 + key->first), ramp);                      \
            for (int64_t k = 0; k < across; k += VBYTES / N, from += VBYTES) {                                     \
                vec a[EDGE], mixed[EDGE];                                                                          \
                for (int e = 0; e < EDGE; e++)                                                                     \
                    a[e] = vload(from + e * j->along_source);                                                      \
                for (int round = 0; round < ROUNDS; round++) {                                                     \
                    for (int e = 0; e < EDGE / 2; e++) {                                                           \
                        mixed[2 * e] = LOW(a[e], a[e + EDGE / 2]);                                                 \
                        mixed[2 * e + 1] = HIGH(a[e], a[e + EDGE / 2]);                                            \
                    }                                                                                              \
                    for (int e = 0; e < EDGE; e++)                                                                 \
                        a[e] = mixed[e];                                                                           \
                }                                                                                                  \
                for (int e = 0; e < EDGE; e++) {                                                                   \
                    sum = add64(sum, NAME(term)(a[e], place, second));                                             \
                    place = add64(place, two);                                                                     \
                }                                                                                                  \
                place = add64(place, skip);                                                                        \
            }                                                                                                      \
        }                                                                                                          \
        return sum64(sum) + hash_joined(j, N, source, logical, key, whole, across);                                \
    }
HASH_ACROSS(1, 3, lo8, hi8)
HASH_ACROSS(2, 2, lo16, hi16)
HASH_ACROSS(4, 1, lo32, hi32)
#undef HASH_ACROSS
#endif

TARGET static uint64_t NAME(hash)(const Block *b, const uint8_t *source, uint64_t logical, const Key *key)
{
    Block whole;
    Joined j;
    if (continues(b, &whole))
        return NAME(hash)(&whole, source, logical, key);
    if (joins(b, key, &j)) {
#ifdef lo16
        if (key->unit == 8 && j.across_source == b->run)
            return b->run == 1   ? NAME(hash_across_1)(&j, source, logical, key)
                   : b->run == 2 ? NAME(hash_across_2)(&j, source, logical, key)
                                 : NAME(hash_across_4)(&j, source, logical, key);
#endif
        return hash_joined(&j, b->run, source, logical, key, 0, 0);
    }
    if (key->unit != 8)
        return hash_pieces(b, source, logical, key);
    const Ahead none = {NULL, NULL};
    switch (b->run) {
#if VBYTES > 8
    case 8: return NAME(hash_runs_8)(b, source, NULL, logical, key, none, 0);
#endif
#if VBYTES > 16
    case 16: return NAME(hash_runs_16)(b, source, NULL, logical, key, none, 0);
#endif
#if VBYTES > 32
    case 32: return NAME(hash_runs_32)(b, source, NULL, logical, key, none, 0);
#endif
    default: break;
    }
#ifdef NARROW
    if (b->run % VBYTES)
        return NARROW(b, source, logical, key);
#endif
    return HASH_VECTORS(b, source, NULL, logical, key, none, 0);
}

TARGET static uint64_t NAME(copy_and_hash)(const Block *b, const uint8_t *source, uint8_t *destination,
                                           uint64_t logical, const Key *key, Ahead ahead, int stream)
{
#ifdef lo16
    if (transposes(b))
        return NAME(copy_transposed)(b, source, destination, logical, key, &ahead, stream);
#endif
    const int64_t pieces = b->run < VBYTES ? VBYTES / b->run : 1;
    const uint64_t steps = (uint64_t)b->row_destination | (uint64_t)(pieces * b->run_destination);
    const int aligned = ((uintptr_t)destination | steps) % VBYTES == 0;
    if (stream && key->unit == 8 && aligned && (b->run_destination == b->run || pieces == 1)) {
        switch (b->run) {
#if VBYTES > 8
        case 8: return NAME(hash_runs_8)(b, source, destination, logical, key, ahead, 1);
#endif
#if VBYTES > 16
        case 16: return NAME(hash_runs_16)(b, source, destination, logical, key, ahead, 1);
#endif
#if VBYTES > 32
        case 32: return NAME(hash_runs_32)(b, source, destination, logical, key, ahead, 1);
#endif
        default: break;
        }
        if (b->run == VBYTES || b->run % LINE == 0)
            return HASH_VECTORS(b, source, destination, logical, key, ahead, 1);
    }
    NAME(copy)(b, source, destination, ahead, stream);
    return NAME(hash)(b, source, logical, key);
}

TARGET static void NAME(plain)(const uint8_t *source, uint8_t *destination, size_t bytes, int stream)
{
    size_t i = 0;
    if (stream) {
        for (; i < bytes && (uintptr_t)(destination + i) % VBYTES; i++)
            destination[i] = source[i];
        for (; i + 4 * VBYTES <= bytes; i += 4 * VBYTES) {
            vec a = vload(source + i), b = vload(source + i + VBYTES);
            vec c = vload(source + i + 2 * VBYTES), d = vload(source + i + 3 * VBYTES);
            vstream(destination + i, a);
            vstream(destination + i + VBYTES, b);
            vstream(destination + i + 2 * VBYTES, c);
            vstream(destination + i + 3 * VBYTES, d);
        }
    }
    memcpy(destination + i, source + i, bytes - i);
}

static void NAME(fence)(void) { FENCE(); }

static const Path NAME(path) = {
    PATH_NAME, NAME(available), NAME(copy), NAME(copy_and_hash), NAME(hash), NAME(plain), NAME(fence),
};

#undef NAME
#undef TARGET
#undef VBYTES
#undef vec
#undef vload
#undef vstore
#undef vstream
#undef gather2
#undef gather4
#undef gather8
#undef gather16
#undef gather32
#undef scatter16
#undef lo8
#undef hi8
#undef lo16
#undef hi16
#undef lo32
#undef hi32
#undef lo64
#undef hi64
#undef NARROW
#undef HASH_VECTORS
#undef add64
#undef add32
#undef xor_
#undef mul32
#undef high32
#undef swap32
#undef splat64
#undef sum64
#undef PREFETCH
#undef FENCE
#undef LINE
#undef VECTORS
#undef FETCH
#undef PATH_NAME
