/* One vector path of the kernel. `_kernel.c` includes this file once a path, with these defined:
 *
 *   NAME(x)       x with the path's suffix          TARGET         the function attribute that allows its instructions
 *   VBYTES        bytes of a vector                 vec            its type
 *   vload/vstore  unaligned                         vstream(p, v)  past the caches; p is VBYTES-aligned
 *   gatherN(p,s)  a vector from pieces of N bytes that stand s bytes apart (N from 2 up to VBYTES / 2)
 *   half hload hstore loN hiN   16 bytes, and two of them interleaved by elements of N bits, for transposing
 *                 in registers; undefined where there is no such thing
 *   halves(p, q)  a vector of half a vector at each, upper64(x) x in the lanes of the second: for runs of that
 *                 size; widenN(p) units of N bytes in 64-bit lanes, ramp64(x) 0, x, 2x ...: optional, both
 *   NARROW        the hash of the path below, for runs that aren't whole vectors; undefined at the plainest
 *   add64 add32 xor_ mul32 high32 swap32 splat64 iota sum64      the digest's arithmetic on 64-bit lanes
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

#ifdef half
/* What is left of a matrix where squares don't fit. */
TARGET static void NAME(elements)(const Block *b, const uint8_t *source, uint8_t *to)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->runs; j++)
            memcpy(to + i * b->row_destination + j * b->run_destination,
                   source + i * b->row_source + j * b->run_source, (size_t)b->run);
}

/* A matrix of elements, contiguous down its columns at the source and along its rows at the destination:
 * squares of 16 bytes are transposed in registers. Interleaving the upper with the lower half of a
 * square's lines, log2 of their number times over, transposes it. */
#define TRANSPOSE(N, ROUNDS, LOW, HIGH)                                                                            \
    TARGET static void NAME(transpose_##N)(const Block *b, const uint8_t *source, uint8_t *to)                     \
    {                                                                                                              \
        enum { EDGE = 16 / N };                                                                                    \
        const int64_t rows = b->rows / EDGE * EDGE, runs = b->runs / EDGE * EDGE;                                  \
        for (int64_t j = 0; j < runs; j += EDGE)                                                                   \
            for (int64_t i = 0; i < rows; i += EDGE) {                                                             \
                const uint8_t *from = source + j * b->run_source + i * N;                                          \
                uint8_t *at = to + i * b->row_destination + j * N;                                                 \
                half a[EDGE], mixed[EDGE];                                                                         \
                for (int k = 0; k < EDGE; k++)                                                                     \
                    a[k] = hload(from + k * b->run_source);                                                        \
                for (int round = 0; round < ROUNDS; round++) {                                                     \
                    for (int k = 0; k < EDGE / 2; k++) {                                                           \
                        mixed[2 * k] = LOW(a[k], a[k + EDGE / 2]);                                                 \
                        mixed[2 * k + 1] = HIGH(a[k], a[k + EDGE / 2]);                                            \
                    }                                                                                              \
                    for (int k = 0; k < EDGE; k++)                                                                 \
                        a[k] = mixed[k];                                                                           \
                }                                                                                                  \
                for (int k = 0; k < EDGE; k++)                                                                     \
                    hstore(at + k * b->row_destination, a[k]);                                                     \
            }                                                                                                      \
        Block rest = *b;                                                                                           \
        rest.rows -= rows;                                                                                         \
        NAME(elements)(&rest, source + rows * b->row_source, to + rows * b->row_destination);                 \
        rest.rows = rows;                                                                                          \
        rest.runs -= runs;                                                                                         \
        NAME(elements)(&rest, source + runs * b->run_source, to + runs * b->run_destination);                 \
    }
TRANSPOSE(1, 4, lo8, hi8)
TRANSPOSE(2, 3, lo16, hi16)
TRANSPOSE(4, 2, lo32, hi32)
TRANSPOSE(8, 1, lo64, hi64)
#undef TRANSPOSE

/* Transposed into the nearest cache, and from there in whole lines. */
TARGET static void NAME(copy_transposed)(const Block *b, const uint8_t *source, uint8_t *destination, Ahead *ahead,
                                         int stream)
{
    _Alignas(LINE) uint8_t stage[STAGE];
    Block packed = *b;
    packed.row_destination = b->runs * b->run;
    switch (b->run) {
    case 1: NAME(transpose_1)(&packed, source, stage); break;
    case 2: NAME(transpose_2)(&packed, source, stage); break;
    case 4: NAME(transpose_4)(&packed, source, stage); break;
    default: NAME(transpose_8)(&packed, source, stage); break;
    }
    for (int64_t i = 0; i < b->rows; i++)
        NAME(move)(destination + i * b->row_destination, stage + i * packed.row_destination, packed.row_destination,
                   ahead, stream);
}
#endif


TARGET static void NAME(copy)(const Block *b, const uint8_t *source, uint8_t *destination, Ahead ahead, int stream)
{
#ifdef half
    if (transposes(b)) {
        NAME(copy_transposed)(b, source, destination, &ahead, stream);
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

TARGET static inline vec NAME(place)(uint64_t logical, const Key *key)
{
    return add64(splat64(logical / 8 + key->first), iota());
}

#ifdef widen2
/* Single elements that stand side by side, each a unit of its own: transposed layouts. */
TARGET static uint64_t NAME(hash_elements)(const Block *b, const uint8_t *source, uint64_t logical, const Key *key)
{
    enum { LANES = VBYTES / 8 };
    const int down = b->row_source == b->run;
    const int64_t outer = down ? b->runs : b->rows, inner = down ? b->rows : b->runs;
    const int64_t far = down ? b->run_source : b->row_source;
    const uint64_t far_logical = (uint64_t)(down ? b->run_logical : b->row_logical);
    const uint64_t near_logical = (uint64_t)(down ? b->row_logical : b->run_logical);
    const uint64_t unit = (uint64_t)key->unit, each = near_logical / unit;
    const vec second = splat64(key->second);
    vec sum = splat64(0);
    uint64_t rest = 0;
    for (int64_t i = 0; i < outer; i++) {
        const uint8_t *from = source + i * far;
        const uint64_t at = logical + (uint64_t)i * far_logical;
        vec place = add64(splat64(at / unit + key->first), ramp64(each));
        int64_t k = 0;
        for (; k + LANES <= inner; k += LANES) {
            const uint8_t *here = from + k * b->run;
            const vec units = unit == 1 ? widen1(here) : unit == 2 ? widen2(here) : widen4(here);
            sum = add64(sum, NAME(term)(units, place, second));
            place = add64(place, splat64(LANES * each));
        }
        for (; k < inner; k++)
            rest += hash_units(from + k * b->run, b->run, at + (uint64_t)k * near_logical, key);
    }
    return rest + sum64(sum);
}
#endif

TARGET static uint64_t NAME(hash)(const Block *b, const uint8_t *source, uint64_t logical, const Key *key)
{
#ifdef widen2
    if (b->run == key->unit && b->run < 8 && (b->row_source == b->run || b->run_source == b->run))
        return NAME(hash_elements)(b, source, logical, key);
#endif
#ifdef NARROW
    if (b->run % VBYTES)
        return NARROW(b, source, logical, key);
#endif
    const int64_t vectors = key->unit == 8 ? b->run / VBYTES * VBYTES : 0;
    const vec second = splat64(key->second), step = splat64((uint64_t)b->run_logical / 8);
    vec sum = splat64(0);
    uint64_t rest = 0;
    for (int64_t i = 0; i < b->rows; i++) {
        const uint8_t *from = source + i * b->row_source;
        uint64_t at = logical + (uint64_t)(i * b->row_logical);
        vec start = NAME(place)(at, key);
        for (int64_t j = 0; j < b->runs; j++, from += b->run_source, at += (uint64_t)b->run_logical) {
            vec place = start;
            for (int64_t k = 0; k < vectors; k += VBYTES) {
                sum = add64(sum, NAME(term)(vload(from + k), place, second));
                place = add64(place, splat64(VBYTES / 8));
            }
            start = add64(start, step);
            if (vectors < b->run)
                rest += hash_units(from + vectors, b->run - vectors, at + (uint64_t)vectors, key);
        }
    }
    return rest + sum64(sum);
}

#ifdef halves
#define TWO(b) ((b)->run == VBYTES / 2 && (b)->run_destination == VBYTES / 2 && (b)->runs % 2 == 0 ? 2 : 1)
#define PAIR(p, q) halves(p, q)
/* The second half of the lanes belongs to the next run. */
#define PAIR_PLACES(start, b) add64(start, upper64((uint64_t)(b)->run_logical / 8 - VBYTES / 16))
#else
#define TWO(b) 1
#define PAIR(p, q) vload(p)
#define PAIR_PLACES(start, b) (start)
#endif

/* ---- both at once: the digest's arithmetic runs while the stores wait for memory ---- */

/* Runs of half a vector (two = 2), of one, or of whole lines; `run` is the block's, known where it is called. */
TARGET static inline __attribute__((always_inline)) uint64_t
NAME(fused)(const Block *b, const uint8_t *source, uint8_t *destination, uint64_t logical, const Key *key, Ahead ahead,
            const int two, const int64_t run)
{
    const vec second = splat64(key->second), step = splat64((uint64_t)(two * b->run_logical) / 8);
    const int32_t *lines = ahead.lines;
    vec sum = splat64(0);
    int64_t written = 0;
    for (int64_t i = 0; i < b->rows; i++) {
        const uint8_t *from = source + i * b->row_source;
        uint8_t *to = destination + i * b->row_destination;
        vec start = NAME(place)(logical + (uint64_t)(i * b->row_logical), key);
        if (two == 2)
            start = PAIR_PLACES(start, b);
        for (int64_t j = 0; j < b->runs; j += two, from += two * b->run_source, to += two * b->run_destination) {
            vec place = start;
            for (int64_t k = 0; k < two * run; k += VBYTES, written += VBYTES) {
                if (lines && written % LINE == 0)
                    PREFETCH(ahead.base + *lines++);
                const vec units = two == 2 ? PAIR(from, from + b->run_source) : vload(from + k);
                vstream(to + k, units);
                sum = add64(sum, NAME(term)(units, place, second));
                place = add64(place, splat64(VBYTES / 8));
            }
            start = add64(start, step);
        }
    }
    return sum64(sum);
}

TARGET static uint64_t NAME(copy_and_hash)(const Block *b, const uint8_t *source, uint8_t *destination,
                                           uint64_t logical, const Key *key, Ahead ahead, int stream)
{
    const int two = TWO(b), one = b->run == VBYTES && b->run_destination == VBYTES;
    const uint64_t steps = (uint64_t)b->row_destination | (uint64_t)(two * b->run_destination);
    const int aligned = ((uintptr_t)destination | steps) % VBYTES == 0;
    if (stream && key->unit == 8 && aligned) {
        if (two == 2)
            return NAME(fused)(b, source, destination, logical, key, ahead, 2, VBYTES / 2);
        if (one)
            return NAME(fused)(b, source, destination, logical, key, ahead, 1, VBYTES);
        if (b->run % LINE == 0)
            return NAME(fused)(b, source, destination, logical, key, ahead, 1, b->run);
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
#undef half
#undef hload
#undef hstore
#undef lo8
#undef hi8
#undef lo16
#undef hi16
#undef lo32
#undef hi32
#undef lo64
#undef hi64
#undef NARROW
#undef TWO
#undef PAIR
#undef PAIR_PLACES
#undef halves
#undef upper64
#undef widen1
#undef widen2
#undef widen4
#undef ramp64
#undef add64
#undef add32
#undef xor_
#undef mul32
#undef high32
#undef swap32
#undef splat64
#undef iota
#undef sum64
#undef PREFETCH
#undef FENCE
#undef LINE
#undef VECTORS
#undef FETCH
#undef PATH_NAME
