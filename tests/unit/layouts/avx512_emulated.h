/* The AVX-512 operations that the kernel uses, in plain vectors, so that its widest path can be tested on
 * processors without them. Included before the kernel by test_sanitizers.py; the product never sees it.
 * Values are unions of two 256-bit halves, so the compiler needs AVX2 and no more. */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AVX512 __attribute__((target("avx2")))
#define AVX512_AVAILABLE() 1
#define EMULATED AVX512 static inline

typedef struct {
    __m256i low, high;
} wide;

#define __m512i wide

EMULATED wide wide_load(const void *p)
{
    const __m256i *v = p;
    return (wide){_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
EMULATED void wide_store(void *p, wide v)
{
    __m256i *to = p;
    _mm256_storeu_si256(to, v.low);
    _mm256_storeu_si256(to + 1, v.high);
}
EMULATED void wide_stream(void *p, wide v)
{
    if ((uintptr_t)p % 64) /* the instruction faults there */
        abort();
    wide_store(p, v);
}
EMULATED wide wide_splat(int64_t x) { return (wide){_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)}; }
#define BOTH(name, op)                                                                             \
    EMULATED wide name(wide a, wide b) { return (wide){op(a.low, b.low), op(a.high, b.high)}; }
BOTH(wide_add64, _mm256_add_epi64)
BOTH(wide_add32, _mm256_add_epi32)
BOTH(wide_xor, _mm256_xor_si256)
BOTH(wide_mul32, _mm256_mul_epu32)
#define UNPACK(name) BOTH(wide_##name, _mm256_##name)
UNPACK(unpacklo_epi8)
UNPACK(unpackhi_epi8)
UNPACK(unpacklo_epi16)
UNPACK(unpackhi_epi16)
UNPACK(unpacklo_epi32)
UNPACK(unpackhi_epi32)
UNPACK(unpacklo_epi64)
UNPACK(unpackhi_epi64)
EMULATED wide wide_high32(wide a) { return (wide){_mm256_srli_epi64(a.low, 32), _mm256_srli_epi64(a.high, 32)}; }
EMULATED wide wide_swap32(wide a)
{
    return (wide){_mm256_shuffle_epi32(a.low, 0xB1), _mm256_shuffle_epi32(a.high, 0xB1)};
}
EMULATED wide wide_low(__m256i a) { return (wide){a, a}; }
EMULATED wide wide_insert(wide a, __m256i b) { return (wide){a.low, b}; }

#define _mm512_loadu_si512 wide_load
#define _mm512_storeu_si512 wide_store
#define _mm512_stream_si512 wide_stream
#define _mm512_set1_epi64 wide_splat
#define _mm512_add_epi64 wide_add64
#define _mm512_add_epi32 wide_add32
#define _mm512_xor_si512 wide_xor
#define _mm512_mul_epu32 wide_mul32
#define _mm512_srli_epi64(a, n) wide_high32(a)
#define _mm512_shuffle_epi32(a, n) wide_swap32(a)
#define _mm512_castsi256_si512 wide_low
#define _mm512_castsi512_si256(a) ((a).low)
#define _mm512_extracti64x4_epi64(a, n) ((a).high)
#define _mm512_unpacklo_epi8 wide_unpacklo_epi8
#define _mm512_unpackhi_epi8 wide_unpackhi_epi8
#define _mm512_unpacklo_epi16 wide_unpacklo_epi16
#define _mm512_unpackhi_epi16 wide_unpackhi_epi16
#define _mm512_unpacklo_epi32 wide_unpacklo_epi32
#define _mm512_unpackhi_epi32 wide_unpackhi_epi32
#define _mm512_unpacklo_epi64 wide_unpacklo_epi64
#define _mm512_unpackhi_epi64 wide_unpackhi_epi64
#define _mm512_inserti64x4(a, b, n) wide_insert(a, b)
