/* The vector paths, from the plainest to the widest. Each defines its operations, then includes the template. */

static inline uint64_t load_unit(const uint8_t *from, int unit)
{
    uint64_t word = 0;
    memcpy(&word, from, (size_t)unit); /* little-endian: the low bytes */
    return word;
}

static inline uint64_t rotate32(uint64_t x) { return x << 32 | x >> 32; }

static inline uint64_t place_key(uint64_t place, uint64_t first, uint64_t second)
{
    uint64_t x = place + first;
    x = (x & 0xFFFFFFFFu) * 0x9E3779B1u + rotate32(x);
    x ^= second;
    return (x & 0xFFFFFFFFu) * 0x85EBCA77u + rotate32(x);
}

/* The digest's definition, one unit at a time, the last as far as it goes; see digest.py. */
static uint64_t hash_units(const uint8_t *from, int64_t bytes, uint64_t logical, const Key *key)
{
    uint64_t sum = 0, place = logical / (uint64_t)key->unit;
    for (int64_t i = 0; i < bytes; i += key->unit, place++) {
        const uint64_t x = place_key(place, key->first, key->second);
        const uint64_t m = load_unit(from + i, bytes - i < key->unit ? (int)(bytes - i) : key->unit);
        sum += (uint64_t)(uint32_t)(m + x) * (uint32_t)((m >> 32) + (x >> 32));
    }
    return sum;
}

/* The same where a unit isn't a word: few pairs cut words apart, and they pay for it. */
static uint64_t hash_pieces(const Block *b, const uint8_t *source, uint64_t logical, const Key *key)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < b->runs; j++)
            sum += hash_units(source + i * b->row_source + j * b->run_source, b->run,
                              logical + (uint64_t)(i * b->row_logical + j * b->run_logical), key);
    return sum;
}

/* Runs that continue each other, down a column or along a row, are one to a digest. */
static inline int continues(const Block *b, Block *out)
{
    if (b->rows > 1 && b->row_source == b->run && b->row_logical == b->run)
        *out = (Block){.rows = 1, .runs = b->runs, .run = b->rows * b->run, .run_source = b->run_source,
                       .run_logical = b->run_logical};
    else if (b->runs > 1 && b->run_source == b->run && b->run_logical == b->run)
        *out = (Block){.rows = 1, .runs = b->rows, .run = b->runs * b->run, .run_source = b->row_source,
                       .run_logical = b->row_logical};
    else
        return 0;
    return 1;
}

/* A block whose runs are pieces of units: `along` of them make units, `across` stand beside each other. */
typedef struct {
    int64_t along, along_source, across, across_source, across_logical;
} Joined;

static inline int joins(const Block *b, const Key *key, Joined *out)
{
    if (b->run >= key->unit)
        return 0;
    if (b->runs > 1 && b->run_logical == b->run)
        *out = (Joined){b->runs, b->run_source, b->rows, b->row_source, b->row_logical};
    else if (b->rows > 1 && b->row_logical == b->run)
        *out = (Joined){b->rows, b->row_source, b->runs, b->run_source, b->run_logical};
    else
        return 0;
    return 1;
}

/* A joined block unit by unit, but for its first `done_along` by `done_across` pieces. */
static uint64_t hash_joined(const Joined *j, int64_t piece, const uint8_t *source, uint64_t logical, const Key *key,
                            int64_t done_along, int64_t done_across)
{
    uint64_t sum = 0;
    const int64_t pieces = key->unit / piece;
    for (int64_t k = 0; k < j->across; k++)
        for (int64_t i = k < done_across ? done_along : 0; i < j->along; i += pieces) {
            uint64_t word = 0;
            for (int64_t e = 0; e < pieces && i + e < j->along; e++)
                word |= load_unit(source + (i + e) * j->along_source + k * j->across_source, (int)piece)
                        << (8 * piece * e);
            sum += hash_units((const uint8_t *)&word, key->unit, logical + (uint64_t)(i * piece + k * j->across_logical), key);
        }
    return sum;
}

/* True if a block is a matrix of elements, contiguous down its columns at the source and along its rows at the
 * destination, small enough for the stage. */
static inline int transposes(const Block *b)
{
    return b->run <= 8 && (b->run & (b->run - 1)) == 0 && b->row_source == b->run && b->run_destination == b->run &&
           b->rows * b->runs * b->run <= STAGE;
}

static int always(void) { return 1; }

/* ---- portable: 64-bit words and no assumption but little-endian ---- */
static inline uint64_t portable_load(const void *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline void portable_store(void *p, uint64_t v) { memcpy(p, &v, 8); }
static inline uint64_t portable_gather2(const uint8_t *p, int64_t s)
{
    return load_unit(p, 2) | load_unit(p + s, 2) << 16 | load_unit(p + 2 * s, 2) << 32 | load_unit(p + 3 * s, 2) << 48;
}
static inline uint64_t portable_gather4(const uint8_t *p, int64_t s)
{
    return load_unit(p, 4) | load_unit(p + s, 4) << 32;
}
static inline uint64_t portable_add32(uint64_t a, uint64_t b)
{
    return (uint64_t)((uint32_t)(a >> 32) + (uint32_t)(b >> 32)) << 32 | (uint32_t)((uint32_t)a + (uint32_t)b);
}

#define PATH_NAME "portable"
#define NAME(x) x##_portable
#define HASH_VECTORS hash_runs_8_portable
#define TARGET
#define VBYTES 8
#define vec uint64_t
#define available_portable always
#define vload portable_load
#define vstore portable_store
#define vstream portable_store
#define gather2 portable_gather2
#define gather4 portable_gather4
#define add64(a, b) ((a) + (b))
#define add32 portable_add32
#define xor_(a, b) ((a) ^ (b))
#define mul32(a, b) ((uint64_t)(uint32_t)(a) * (uint32_t)(b))
#define high32(a) ((a) >> 32)
#define swap32 rotate32
#define splat64(x) ((uint64_t)(x))
#define sum64(a) (a)
#define PREFETCH(p) ((void)(p))
#define FENCE() ((void)0)
#include "_kernel_path.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* ---- SSE2: part of every x86-64 ---- */
static inline __m128i x86_gather8(const uint8_t *p, int64_t s)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), _mm_loadl_epi64((const __m128i *)(p + s)));
}
static inline __m128i x86_gather4(const uint8_t *p, int64_t s)
{
    return _mm_set_epi64x((int64_t)portable_gather4(p + 2 * s, s), (int64_t)portable_gather4(p, s));
}
static inline __m128i x86_gather2(const uint8_t *p, int64_t s)
{
    return _mm_set_epi64x((int64_t)portable_gather2(p + 4 * s, s), (int64_t)portable_gather2(p, s));
}
static inline uint64_t x86_sum64(__m128i v)
{
    return (uint64_t)_mm_cvtsi128_si64(v) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(v, v));
}

#define PATH_NAME "sse2"
#define NAME(x) x##_sse2
#define HASH_VECTORS hash_runs_16_sse2
#define TARGET
#define VBYTES 16
#define vec __m128i
#define available_sse2 always
#define vload(p) _mm_loadu_si128((const __m128i *)(p))
#define vstore(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define vstream(p, v) _mm_stream_si128((__m128i *)(p), v)
#define gather2 x86_gather2
#define gather4 x86_gather4
#define gather8 x86_gather8
#define add64 _mm_add_epi64
#define add32 _mm_add_epi32
#define xor_ _mm_xor_si128
#define mul32 _mm_mul_epu32
#define high32(a) _mm_srli_epi64(a, 32)
#define swap32(a) _mm_shuffle_epi32(a, 0xB1)
#define splat64(x) _mm_set1_epi64x((int64_t)(x))
#define sum64 x86_sum64
#define NARROW hash_portable
#define scatter16(p, s, v) _mm_storeu_si128((__m128i *)(p), v)
#define lo8 _mm_unpacklo_epi8
#define hi8 _mm_unpackhi_epi8
#define lo16 _mm_unpacklo_epi16
#define hi16 _mm_unpackhi_epi16
#define lo32 _mm_unpacklo_epi32
#define hi32 _mm_unpackhi_epi32
#define lo64 _mm_unpacklo_epi64
#define hi64 _mm_unpackhi_epi64
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define FENCE() _mm_sfence()
#include "_kernel_path.h"

/* ---- AVX2 ---- */
#define AVX2 __attribute__((target("avx2")))
AVX2 static inline __m256i avx2_join(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
AVX2 static inline uint64_t avx2_sum64(__m256i v)
{
    return x86_sum64(_mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
AVX2 static inline void avx2_scatter16(uint8_t *p, int64_t s, __m256i v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(p + s), _mm256_extracti128_si256(v, 1));
}
static int available_avx2(void) { return __builtin_cpu_supports("avx2"); }

#define PATH_NAME "avx2"
#define NAME(x) x##_avx2
#define HASH_VECTORS hash_runs_32_avx2
#define TARGET AVX2
#define VBYTES 32
#define vec __m256i
#define vload(p) _mm256_loadu_si256((const __m256i *)(p))
#define vstore(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define vstream(p, v) _mm256_stream_si256((__m256i *)(p), v)
#define gather2(p, s) avx2_join(x86_gather2(p, s), x86_gather2((p) + 8 * (s), s))
#define gather4(p, s) avx2_join(x86_gather4(p, s), x86_gather4((p) + 4 * (s), s))
#define gather8(p, s) avx2_join(x86_gather8(p, s), x86_gather8((p) + 2 * (s), s))
#define gather16(p, s) avx2_join(_mm_loadu_si128((const __m128i *)(p)), _mm_loadu_si128((const __m128i *)((p) + (s))))
#define add64 _mm256_add_epi64
#define add32 _mm256_add_epi32
#define xor_ _mm256_xor_si256
#define mul32 _mm256_mul_epu32
#define high32(a) _mm256_srli_epi64(a, 32)
#define swap32(a) _mm256_shuffle_epi32(a, 0xB1)
#define splat64(x) _mm256_set1_epi64x((int64_t)(x))
#define sum64 avx2_sum64
#define NARROW hash_sse2
#define scatter16 avx2_scatter16
#define NARROW_TRANSPOSE(N) transpose_##N##_sse2
#define lo8 _mm256_unpacklo_epi8
#define hi8 _mm256_unpackhi_epi8
#define lo16 _mm256_unpacklo_epi16
#define hi16 _mm256_unpackhi_epi16
#define lo32 _mm256_unpacklo_epi32
#define hi32 _mm256_unpackhi_epi32
#define lo64 _mm256_unpacklo_epi64
#define hi64 _mm256_unpackhi_epi64
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define FENCE() _mm_sfence()
#include "_kernel_path.h"

/* ---- AVX-512: one store a cache line ---- */
#ifndef AVX512 /* the tests define it, with the intrinsics, to run this path on lesser processors */
#define AVX512 __attribute__((target("avx512f,avx512bw,avx2")))
#define AVX512_AVAILABLE() (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
#endif
AVX512 static inline __m512i avx512_join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
AVX512 static inline void avx512_scatter16(uint8_t *p, int64_t s, __m512i v)
{
    avx2_scatter16(p, s, _mm512_castsi512_si256(v));
    avx2_scatter16(p + 2 * s, s, _mm512_extracti64x4_epi64(v, 1));
}
static int available_avx512(void) { return AVX512_AVAILABLE(); }

#define AVX512_GATHER(N, HALF)                                                                     \
    AVX512 static inline __m512i avx512_gather##N(const uint8_t *p, int64_t s)                     \
    {                                                                                              \
        const uint8_t *q = p + (32 / N) * s;                                                       \
        return avx512_join(HALF(p, s), HALF(q, s));                                                \
    }
#define AVX512_HALF(F, K) avx2_join(F(p, s), F(p + (K) * s, s))
AVX512 static inline __m256i avx512_half2(const uint8_t *p, int64_t s) { return AVX512_HALF(x86_gather2, 8); }
AVX512 static inline __m256i avx512_half4(const uint8_t *p, int64_t s) { return AVX512_HALF(x86_gather4, 4); }
AVX512 static inline __m256i avx512_half8(const uint8_t *p, int64_t s) { return AVX512_HALF(x86_gather8, 2); }
AVX512 static inline __m256i avx512_half16(const uint8_t *p, int64_t s)
{
    return avx2_join(_mm_loadu_si128((const __m128i *)p), _mm_loadu_si128((const __m128i *)(p + s)));
}
AVX512 static inline __m256i avx512_half32(const uint8_t *p, int64_t s)
{
    (void)s;
    return _mm256_loadu_si256((const __m256i *)p);
}
AVX512_GATHER(2, avx512_half2)
AVX512_GATHER(4, avx512_half4)
AVX512_GATHER(8, avx512_half8)
AVX512_GATHER(16, avx512_half16)
AVX512_GATHER(32, avx512_half32)

#define PATH_NAME "avx512"
#define NAME(x) x##_avx512
#define HASH_VECTORS hash_runs_64_avx512
#define TARGET AVX512
#define VBYTES 64
#define vec __m512i
#define vload(p) _mm512_loadu_si512((const void *)(p))
#define vstore(p, v) _mm512_storeu_si512((void *)(p), v)
#define vstream(p, v) _mm512_stream_si512((void *)(p), v)
#define gather2 avx512_gather2
#define gather4 avx512_gather4
#define gather8 avx512_gather8
#define gather16 avx512_gather16
#define gather32 avx512_gather32
#define add64 _mm512_add_epi64
#define add32 _mm512_add_epi32
#define xor_ _mm512_xor_si512
#define mul32 _mm512_mul_epu32
#define high32(a) _mm512_srli_epi64(a, 32)
#define swap32(a) _mm512_shuffle_epi32(a, _MM_PERM_CDAB)
#define splat64(x) _mm512_set1_epi64((int64_t)(x))
#define sum64(a) avx2_sum64(_mm256_add_epi64(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1)))
#define NARROW hash_avx2
#define scatter16 avx512_scatter16
#define NARROW_TRANSPOSE(N) transpose_##N##_avx2
#define lo8 _mm512_unpacklo_epi8
#define hi8 _mm512_unpackhi_epi8
#define lo16 _mm512_unpacklo_epi16
#define hi16 _mm512_unpackhi_epi16
#define lo32 _mm512_unpacklo_epi32
#define hi32 _mm512_unpackhi_epi32
#define lo64 _mm512_unpacklo_epi64
#define hi64 _mm512_unpackhi_epi64
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define FENCE() _mm_sfence()
#include "_kernel_path.h"

#elif defined(__aarch64__)
#include <arm_neon.h>

/* ---- NEON: part of every 64-bit Arm ---- */
static inline uint64x2_t neon_load(const void *p) { return vreinterpretq_u64_u8(vld1q_u8((const uint8_t *)p)); }
static inline void neon_store(void *p, uint64x2_t v) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_u64(v)); }
static inline uint64x2_t neon_pair(uint64_t low, uint64_t high) { return vcombine_u64(vcreate_u64(low), vcreate_u64(high)); }

#define NEON_ZIP(N)                                                                                                \
    static inline uint64x2_t neon_lo##N(uint64x2_t a, uint64x2_t b)                                                \
    {                                                                                                              \
        return vreinterpretq_u64_u##N(vzip1q_u##N(vreinterpretq_u##N##_u64(a), vreinterpretq_u##N##_u64(b)));      \
    }                                                                                                              \
    static inline uint64x2_t neon_hi##N(uint64x2_t a, uint64x2_t b)                                                \
    {                                                                                                              \
        return vreinterpretq_u64_u##N(vzip2q_u##N(vreinterpretq_u##N##_u64(a), vreinterpretq_u##N##_u64(b)));      \
    }
NEON_ZIP(8)
NEON_ZIP(16)
NEON_ZIP(32)

#define PATH_NAME "neon"
#define NAME(x) x##_neon
#define HASH_VECTORS hash_runs_16_neon
#define TARGET
#define VBYTES 16
#define vec uint64x2_t
#define available_neon always
#define vload neon_load
#define vstore neon_store
#define vstream neon_store
#define gather2(p, s) neon_pair(portable_gather2(p, s), portable_gather2((p) + 4 * (s), s))
#define gather4(p, s) neon_pair(portable_gather4(p, s), portable_gather4((p) + 2 * (s), s))
#define gather8(p, s) neon_pair(portable_load(p), portable_load((p) + (s)))
#define add64 vaddq_u64
#define add32(a, b) vreinterpretq_u64_u32(vaddq_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b)))
#define xor_ veorq_u64
#define mul32(a, b) vmull_u32(vmovn_u64(a), vmovn_u64(b))
#define high32(a) vshrq_n_u64(a, 32)
#define swap32(a) vreinterpretq_u64_u32(vrev64q_u32(vreinterpretq_u32_u64(a)))
#define splat64(x) vdupq_n_u64((uint64_t)(x))
#define sum64 vaddvq_u64
#define NARROW hash_portable
#define scatter16(p, s, v) neon_store(p, v)
#define lo8 neon_lo8
#define hi8 neon_hi8
#define lo16 neon_lo16
#define hi16 neon_hi16
#define lo32 neon_lo32
#define hi32 neon_hi32
#define lo64 vzip1q_u64
#define hi64 vzip2q_u64
#define PREFETCH(p) __builtin_prefetch(p)
#define FENCE() __sync_synchronize()
#include "_kernel_path.h"
#endif

static const Path *const PATHS[] = {
    &path_portable,
#if defined(__x86_64__)
    &path_sse2, &path_avx2, &path_avx512,
#elif defined(__aarch64__)
    &path_neon,
#endif
};
#define PATH_COUNT ((int)(sizeof PATHS / sizeof *PATHS))
