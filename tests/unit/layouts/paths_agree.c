/* Every vector path of this machine against the portable one, on random blocks: bytes, guards and digests.
 * Needs neither Python nor the package, so that it runs under an emulator too. */
#include <stdio.h>
#include <stdlib.h>

#include "_kernel.h"

#include "_kernel_paths.h"

enum { SIZE = 1 << 16, ROUNDS = 4000 };

static uint64_t state = 88172645463325252u;

static int64_t draw(int64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (uint64_t)below);
}

/* Runs in rows or in columns, apart or side by side, in logical order along one loop or the other. */
static Block random_block(int64_t *logical)
{
    static const int64_t lengths[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 74, 96, 128, 256};
    Block b = {.rows = 1 + draw(40), .runs = 1 + draw(40), .run = lengths[draw(13)]};
    while (b.rows * b.runs * b.run > SIZE / 8)
        b.rows = (b.rows + 1) / 2, b.runs = (b.runs + 1) / 2;
    const int64_t gap = draw(2) * b.run;
    b.run_destination = b.run;
    b.row_destination = b.runs * b.run + draw(2) * 64;
    if (draw(2)) {
        b.row_source = b.run + gap;
        b.run_source = b.rows * b.row_source;
    } else {
        b.run_source = b.run + gap;
        b.row_source = b.runs * b.run_source;
    }
    const int64_t step = b.run < 8 ? b.run : (b.run + 7) / 8 * 8;
    if (draw(2)) {
        b.run_logical = step;
        b.row_logical = (b.runs * step + 7) / 8 * 8;
    } else {
        b.row_logical = step;
        b.run_logical = (b.rows * step + 7) / 8 * 8;
    }
    *logical = draw(1000) * 8;
    return b;
}

int main(void)
{
    static _Alignas(64) uint8_t source[SIZE], expected[SIZE], actual[SIZE];
    const Ahead none = {NULL, NULL};
    for (int i = 0; i < SIZE; i++)
        source[i] = (uint8_t)draw(256);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t logical;
        const Block b = random_block(&logical);
        const Key key = {(uint64_t)draw(INT64_MAX), (uint64_t)draw(INT64_MAX), 8};
        const int64_t shift = 64 + (draw(2) ? 0 : draw(64));
        const int stream = (int)draw(2);
        memset(expected, 7, SIZE);
        const uint64_t sum =
            PATHS[0]->copy_and_hash(&b, source, expected + shift, (uint64_t)logical, &key, none, stream);
        for (int p = 0; p < PATH_COUNT; p++) {
            if (!PATHS[p]->available())
                continue;
            memset(actual, 7, SIZE);
            PATHS[p]->copy(&b, source, actual + shift, none, stream);
            const int copied = !memcmp(actual, expected, SIZE);
            memset(actual, 7, SIZE);
            const uint64_t fused =
                PATHS[p]->copy_and_hash(&b, source, actual + shift, (uint64_t)logical, &key, none, stream);
            const uint64_t alone = PATHS[p]->hash(&b, source, (uint64_t)logical, &key);
            if (!copied || memcmp(actual, expected, SIZE) || fused != sum || alone != sum) {
                printf("%s differs: rows %d runs %d run %d\n", PATHS[p]->name, (int)b.rows, (int)b.runs, (int)b.run);
                return 1;
            }
        }
    }
    for (int p = 0; p < PATH_COUNT; p++)
        if (PATHS[p]->available())
            printf("%s ", PATHS[p]->name);
    puts("agree");
    return 0;
}
