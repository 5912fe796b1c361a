/* Attention for one type of numbers and one kind of processor, over attention_tiles.h.

   A block is some queries of one head, one beside the other: scores are stored as (key, query), results as (part of
   the head, query), so that the greatest score and the sum of a query are of one lane. Keys are read in steps of
   KEYS; the greatest score and the sum so far are corrected after each step (Milakov and Gimelshein, "Online normalizer
   calculation for softmax", 2018). Backward computes the scores anew and needs both (Dao and others, "FlashAttention", 2022, store the
   logarithm of the sum, added to the greatest score: a mask of -1e9 for all keys leaves nothing of it in a float). */

#include "attention_tiles.h"

#define QUERIES ((long)(256 / sizeof(REAL))) /* of a block */

/* What is computed for a block, and where its queries are. */
typedef struct {
    const attention *job;
    long head, first, count, width, limit; /* first row of the head, how many; lanes in use; keys that any row sees */
    long position[256 / sizeof(REAL)];     /* of the row among the queries, for causal */
    uint32_t element[256 / sizeof(REAL)];  /* of the row's first score among all scores, for dropout */
    long mask[256 / sizeof(REAL)];         /* of the row's first mask */
    long least;                            /* position */
} NAME(block);

/* Store the transposed rows, times `scale`: to[column][row]. Lanes without a row are 0. */
TARGET static void NAME(across)(REAL *restrict to, const REAL *restrict from, long rows, long width, long columns,
                                REAL scale) {
    for (long c = 0; c < columns; c++) {
        for (long r = 0; r < rows; r++) to[c * QUERIES + r] = from[r * columns + c] * scale;
        for (long r = rows; r < width; r++) to[c * QUERIES + r] = 0;
    }
}

/* Store rows times `scale`, of `padded` columns: those that are too many are 0, and so are rows up to `width`. */
TARGET static void NAME(along)(REAL *restrict to, const REAL *restrict from, long rows, long width, long columns,
                               long padded, REAL scale) {
    for (long r = 0; r < width; r++) {
        for (long c = 0; c < columns; c++) to[r * padded + c] = r < rows ? from[r * columns + c] * scale : 0;
        for (long c = columns; c < padded; c++) to[r * padded + c] = 0;
    }
}

static NAME(block) NAME(block_of)(const attention *job, long head, long number) {
    NAME(block) b = {.job = job, .head = head};
    if (job->queries >= QUERIES) { /* blocks do not go across groups */
        long each = (job->queries + QUERIES - 1) / QUERIES, group = number / each, at = number % each * QUERIES;
        b.first = group * job->queries + at;
        b.count = job->queries - at < QUERIES ? job->queries - at : QUERIES;
    } else {
        b.first = number * QUERIES;
        b.count = job->rows - b.first < QUERIES ? job->rows - b.first : QUERIES;
    }
    b.width = (b.count + LANES - 1) / LANES * LANES;
    b.least = job->queries;
    long greatest = 0, inner = job->heads, outer = head / inner, example = outer / job->batches;
    const long *step = job->mask_steps;
    for (long lane = 0; lane < QUERIES; lane++) {
        long row = b.first + (lane < b.count ? lane : b.count - 1);
        long group = row / job->queries, query = row % job->queries;
        b.position[lane] = query;
        if (query < b.least) b.least = query;
        if (query > greatest) greatest = query;
        b.element[lane] = (uint32_t)((head % (job->batches * inner) * job->rows + row) * job->keys);
        b.mask[lane] = example * step[0] + outer % job->batches * step[1] + head % inner * step[2] + group * step[3]
                       + query * step[4];
    }
    b.limit = job->causal && greatest + 1 < job->keys ? greatest + 1 : job->keys;
    return b;
}

/* Add the mask to scores, or make them -inf where a mask of bool is false. `room` has the masks of one step. */
TARGET static void NAME(add_mask)(const NAME(block) *b, REAL *restrict s, REAL *restrict room, long first, long count) {
    const attention *job = b->job;
    const REAL *floats = job->mask;
    const uint8_t *bools = job->mask;
    long step = job->mask_steps[5], same = !job->mask_steps[3] && !job->mask_steps[4];
    for (long lane = 0; lane < (same ? 1 : b->width); lane++) {
        long at = b->mask[lane] + first * step;
        if (job->mask_is_bool)
            for (long j = 0; j < count; j++) room[j * QUERIES + lane] = bools[at + j * step];
        else
            for (long j = 0; j < count; j++) room[j * QUERIES + lane] = floats[at + j * step];
    }
    for (long j = 0; j < count; j++) {
        REAL *row = s + j * QUERIES, *mask = room + j * QUERIES;
        if (same)
            for (long lane = 1; lane < b->width; lane++) mask[lane] = mask[0];
        if (job->mask_is_bool)
            for (long lane = 0; lane < b->width; lane++) row[lane] = mask[lane] != 0 ? row[lane] : -(REAL)INFINITY;
        else
            for (long lane = 0; lane < b->width; lane++) row[lane] += mask[lane];
    }
}

/* Compute the scores of `count` keys from `first` on, masked. `across` are the queries of the block. */
TARGET static void NAME(scores)(const NAME(block) *b, REAL *restrict s, const REAL *across, REAL *room, long first,
                                long count) {
    const attention *job = b->job;
    const REAL *keys = (const REAL *)job->k + (b->head * job->keys + first) * job->size;
    NAME(product)(count, b->width / LANES, job->size, keys, job->size, 1, across, QUERIES, s, QUERIES, 0);
    if (job->mask) NAME(add_mask)(b, s, room, first, count);
    if (!job->causal || first + count - 1 <= b->least) return;
    int32_t position[256 / sizeof(REAL)];
    for (long lane = 0; lane < QUERIES; lane++) position[lane] = (int32_t)(b->position[lane] - first);
    for (int32_t j = 0; j < count; j++)
        for (long lane = 0; lane < b->width; lane++)
            s[j * QUERIES + lane] = j <= position[lane] ? s[j * QUERIES + lane] : -(REAL)INFINITY;
}

/* Multiply the probabilities of `count` keys by whether they are kept, which random bits decide as rand draws them. */
TARGET static void NAME(drop)(const NAME(block) *b, REAL *restrict p, long first, long count) {
    const attention *job = b->job;
    uint32_t half = job->half, threshold = job->threshold;
    const uint64_t seed = ((const uint64_t *)job->seed)[b->head / (job->heads * job->batches)];
    for (long j = 0; j < count; j++)
        for (long lane = 0; lane < b->width; lane++) {
            uint32_t at = b->element[lane] + (uint32_t)(first + j), second = at >= half, x0, x1;
            random_pair(second ? at - half : at, second ? at : at + half, seed, &x0, &x1);
            p[j * QUERIES + lane] = (second ? x1 : x0) >> 9 >= threshold ? p[j * QUERIES + lane] : 0;
        }
}

/* Correct the greatest scores, sums and results of a block for scores of `count` more keys, which become powers. */
TARGET static void NAME(soften)(REAL *restrict s, REAL *restrict greatest, REAL *restrict sum, REAL *restrict out,
                                long width, long count, long parts) {
    REAL before[256 / sizeof(REAL)], base[256 / sizeof(REAL)];
    int changed = 0;
    memcpy(before, greatest, sizeof before);
    for (long j = 0; j < count; j++)
        for (long lane = 0; lane < width; lane++)
            greatest[lane] = greatest[lane] < s[j * QUERIES + lane] ? s[j * QUERIES + lane] : greatest[lane];
    for (long lane = 0; lane < width; lane++) {
        base[lane] = greatest[lane] == -(REAL)INFINITY ? 0 : greatest[lane]; /* all masked: powers are 0, not NaN */
        changed |= before[lane] != greatest[lane];
    }
    if (changed) {
        for (long lane = 0; lane < width; lane++) {
            before[lane] = NAME(power)(before[lane] - base[lane]);
            sum[lane] *= before[lane];
        }
        for (long e = 0; e < parts; e++)
            for (long lane = 0; lane < width; lane++) out[e * QUERIES + lane] *= before[lane];
    }
    for (long j = 0; j < count; j++)
        for (long lane = 0; lane < width; lane++) {
            REAL power = NAME(power)(s[j * QUERIES + lane] - base[lane]);
            s[j * QUERIES + lane] = power;
            sum[lane] += power;
        }
}

/* Compute the results of a block, and of each row the greatest score and the sum. */
TARGET static void NAME(forward)(const attention *job, long head, long number, void *work) {
    NAME(block) b = NAME(block_of)(job, head, number);
    long size = job->size, parts = job->parts;
    REAL *across = work, *s = across + size * QUERIES, *room = s + KEYS * QUERIES, *out = room + KEYS * QUERIES;
    REAL greatest[256 / sizeof(REAL)], sum[256 / sizeof(REAL)] = {0};
    for (long lane = 0; lane < QUERIES; lane++) greatest[lane] = -(REAL)INFINITY;
    memset(out, 0, (size_t)(parts * QUERIES) * sizeof(REAL));
    long row = head * job->rows + b.first;
    NAME(across)(across, (const REAL *)job->q + row * size, b.count, b.width, size, (REAL)job->scale);
    for (long first = 0; first < b.limit; first += KEYS) {
        long count = b.limit - first < KEYS ? b.limit - first : KEYS;
        NAME(scores)(&b, s, across, room, first, count);
        NAME(soften)(s, greatest, sum, out, b.width, count, first ? parts : 0);
        if (job->seed) NAME(drop)(&b, s, first, count);
        const REAL *values = (const REAL *)job->v + (head * job->keys + first) * parts;
        NAME(product)(parts, b.width / LANES, count, values, 1, parts, s, QUERIES, out, QUERIES, 1);
    }
    for (long r = 0; r < b.count; r++) {
        REAL by = sum[r] == 0 ? 0 : (REAL)job->kept / sum[r]; /* a row that sees no key is 0 */
        if (job->greatest) ((REAL *)job->greatest)[row + r] = greatest[r];
        if (job->sums) ((REAL *)job->sums)[row + r] = sum[r];
        if (job->out)
            for (long e = 0; e < parts; e++) ((REAL *)job->out)[(row + r) * parts + e] = out[e * QUERIES + r] * by;
    }
}

/* Turn scores into probabilities, and their gradients `g` into those of scores, for `count` keys. `base` is the greatest
   score of each query, `by` one divided by its sum. */
TARGET static void NAME(slopes)(const NAME(block) *b, REAL *restrict s, REAL *restrict g, REAL *restrict room,
                                const REAL *restrict base, const REAL *restrict by, const REAL *restrict delta,
                                long first, long count) {
    for (long j = 0; j < count; j++)
        for (long lane = 0; lane < b->width; lane++)
            s[j * QUERIES + lane] = NAME(power)(s[j * QUERIES + lane] - base[lane]) * by[lane];
    if (!b->job->seed) {
        for (long j = 0; j < count; j++)
            for (long lane = 0; lane < b->width; lane++)
                g[j * QUERIES + lane] = s[j * QUERIES + lane] * (g[j * QUERIES + lane] - delta[lane]);
        return;
    }
    REAL kept = (REAL)b->job->kept;
    for (long j = 0; j < count; j++)
        for (long lane = 0; lane < b->width; lane++) room[j * QUERIES + lane] = kept;
    NAME(drop)(b, room, first, count);
    for (long j = 0; j < count; j++)
        for (long lane = 0; lane < b->width; lane++) {
            long at = j * QUERIES + lane;
            g[at] = s[at] * (room[at] * g[at] - delta[lane]);
            s[at] *= room[at];
        }
}

/* Compute the gradient of a block's queries, and add to those of keys and values (rows of padded length). */
TARGET static void NAME(backward)(const attention *job, long head, long number, void *work, REAL *for_k, REAL *for_v) {
    NAME(block) b = NAME(block_of)(job, head, number);
    long size = job->size, parts = job->parts, sizes = PADDED(size), all = PADDED(parts), row = head * job->rows + b.first;
    REAL *across = work, *s = across + size * QUERIES, *room = s + KEYS * QUERIES, *g = room + KEYS * QUERIES;
    REAL *slope = g + KEYS * QUERIES, *along = slope + parts * QUERIES, *slope_along = along + sizes * QUERIES;
    REAL *for_q = slope_along + all * QUERIES, base[256 / sizeof(REAL)], by[256 / sizeof(REAL)];
    REAL delta[256 / sizeof(REAL)];
    const REAL *q = (const REAL *)job->q + row * size, *slopes = (const REAL *)job->slope + row * parts;
    const REAL *out = (const REAL *)job->value + row * parts;
    NAME(across)(across, q, b.count, b.width, size, (REAL)job->scale);
    NAME(across)(slope, slopes, b.count, b.width, parts, 1);
    NAME(along)(along, q, b.count, b.width, size, sizes, (REAL)job->scale);
    NAME(along)(slope_along, slopes, b.count, b.width, parts, all, 1);
    memset(for_q, 0, (size_t)(size * QUERIES) * sizeof(REAL));
    for (long r = 0; r < QUERIES; r++) {
        REAL sum = r < b.count ? ((const REAL *)job->totals)[row + r] : 0;
        base[r] = sum == 0 ? (REAL)INFINITY : ((const REAL *)job->peaks)[row + r]; /* no key, no row: powers are 0 */
        by[r] = sum == 0 ? 0 : 1 / sum;
        delta[r] = 0;
        for (long e = 0; e < parts && r < b.count; e++) delta[r] += slopes[r * parts + e] * out[r * parts + e];
    }
    for (long first = 0; first < b.limit; first += KEYS) {
        long count = b.limit - first < KEYS ? b.limit - first : KEYS, at = head * job->keys + first;
        const REAL *keys = (const REAL *)job->k + at * size, *values = (const REAL *)job->v + at * parts;
        NAME(scores)(&b, s, across, room, first, count);
        NAME(product)(count, b.width / LANES, parts, values, parts, 1, slope, QUERIES, g, QUERIES, 0);
        NAME(slopes)(&b, s, g, room, base, by, delta, first, count);
        if (job->for_v)
            NAME(product)(count, all / LANES, b.width, s, QUERIES, 1, slope_along, all, for_v + first * all, all, 1);
        if (job->for_k)
            NAME(product)(count, sizes / LANES, b.width, g, QUERIES, 1, along, sizes, for_k + first * sizes, sizes, 1);
        if (job->for_q)
            NAME(product)(size, b.width / LANES, count, keys, 1, size, g, QUERIES, for_q, QUERIES, 1);
    }
    for (long r = 0; job->for_q && r < b.count; r++)
        for (long d = 0; d < size; d++)
            ((REAL *)job->for_q)[(row + r) * size + d] = for_q[d * QUERIES + r] * (REAL)job->scale;
}

/* Add up what the chunks of a head found for its keys or values, from rows of padded length. */
TARGET static void NAME(gather)(REAL *restrict to, const REAL *restrict from, long chunks, long keys, long size) {
    long padded = PADDED(size);
    for (long j = 0; j < keys; j++)
        for (long d = 0; d < size; d++) {
            REAL sum = from[j * padded + d];
            for (long chunk = 1; chunk < chunks; chunk++) sum += from[(chunk * keys + j) * padded + d];
            to[j * size + d] = sum;
        }
}
