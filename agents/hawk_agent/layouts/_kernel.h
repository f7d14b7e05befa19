/* Shared by the kernel's parts: a nest's programs in memory, and the paths that run them. */
#ifndef HAWK_KERNEL_H
#define HAWK_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAX_LOOPS 24 /* six axes of four levels */
#define STAGE 8192   /* bytes transposed before they are written: a quarter of the smallest nearest cache */

typedef struct {
    int64_t count;
    int64_t source, destination, logical;    /* bytes a step */
    int64_t source_step, destination_step;   /* block-table entries a step */
} Loop;

typedef struct {
    int64_t source, destination, logical;    /* bytes before the first run */
    int64_t source_entry, destination_entry; /* block-table entries before it */
    int64_t run;                             /* contiguous bytes */
    int64_t loops;
    Loop loop[MAX_LOOPS];                    /* outermost first */
} Program;

/* The two loops round a run: `rows` rows of `runs` runs each. */
typedef struct {
    int64_t rows, runs, run;
    int64_t row_source, row_destination, row_logical;
    int64_t run_source, run_destination, run_logical;
} Block;

/* Prefetched while a block moves: the next block's cache lines, in the order of their addresses. */
typedef struct {
    const uint8_t *base;
    const int32_t *lines; /* one for each 64 bytes of a block; NULL fetches nothing */
} Ahead;

typedef struct {
    uint64_t first, second; /* the key's two words */
    int unit;               /* bytes hashed at a time: 1, 2, 4 or 8 */
} Key;

/* One block of every `every`, chosen by a key of its own; every = 1 takes them all. */
typedef struct {
    uint64_t first, second;
    int64_t every;
} Sample;

typedef struct {
    const char *name;
    int (*available)(void);
    void (*copy)(const Block *block, const uint8_t *source, uint8_t *destination, Ahead ahead, int stream);
    /* The same, and the digest of what was read. */
    uint64_t (*copy_and_hash)(const Block *block, const uint8_t *source, uint8_t *destination, uint64_t logical,
                              const Key *key, Ahead ahead, int stream);
    /* The digest of one block read at `source` whose first byte is the `logical`th. */
    uint64_t (*hash)(const Block *block, const uint8_t *source, uint64_t logical, const Key *key);
    void (*plain)(const uint8_t *source, uint8_t *destination, size_t bytes, int stream);
    void (*fence)(void);
} Path;

#endif
