/* The routine `convolution`: see winograd_tiles.h for the algorithm.

   In double precision a result is taken where the bound of its rounding errors is not greater than that of a sum in
   single precision, else it is summed directly. By Cauchy and Schwarz the n * n products
   of a tile are at most |tile| |weights| (Frobenius norms, over all channels) times a factor of the transforms, which
   is below GROWTH_3 and GROWTH_5, so that the error is at most growth * (channels + STEPS) * 2**-53 of them; that of a
   direct sum is terms * 2**-24 of the sum of magnitudes, which is at least the magnitude of the result. Infinities and
   NaN make the comparison false. Without `exact` it computes in single precision and compares nothing. */

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "processor_level.h"
#include "routines.h"

enum {
    FILTERS = 32,   /* whose weights are transformed at once, at most */
    CHANNELS = 64,  /* of them */
    MOST = 8,       /* vectors of tiles of a block, at most */
    FEWEST = 4,     /* to which blocks are made smaller, so that threads end together */
    BLOCK = 8 << 20, /* bytes of the transformed tiles of a block */
    LANES_OF_COPY = 16, /* floats of the vectors by which rows are copied with AVX-512 */
    CHANNELS_AHEAD = 7, /* for which weights are fetched: rows of filters are too far apart to be streams */
    STEPS = 24,     /* roundings on the way from an element to its products and back */
    ALIGNED = 64,
};
/* given: the greatest row of |A'| (|G| |B'|), by Euclidean norms of the rows of G and B', squared for two axes */
#define GROWTH_3 381.0
#define GROWTH_5 742.0

typedef struct {
    const float *x, *w;
    float *y;
    long batch, groups, channels, filters, height, width, down, right, top, left; /* channels and filters of a group */
    long filter_step, channel_step;                                               /* of weights, in elements */
    long tiles_right, tiles, blocks, parts, part, lanes, at_once;
    double limit;
    int taps, turned, bytes, level;
    atomic_long next;
} convolution;

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int places __attribute__((vector_size(16)));

#ifdef __clang__
#define PICKED(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PICKED(a, b, i, j, k, l) __builtin_shuffle(a, b, (places){i, j, k, l})
#endif

/* Transpose four rows of four numbers. */
static inline __attribute__((always_inline)) void transpose(four *x) {
    four a = PICKED(x[0], x[1], 0, 4, 1, 5), b = PICKED(x[2], x[3], 0, 4, 1, 5);
    four c = PICKED(x[0], x[1], 2, 6, 3, 7), d = PICKED(x[2], x[3], 2, 6, 3, 7);
    x[0] = PICKED(a, b, 0, 1, 4, 5), x[1] = PICKED(a, b, 2, 3, 6, 7);
    x[2] = PICKED(c, d, 0, 1, 4, 5), x[3] = PICKED(c, d, 2, 3, 6, 7);
}

/* How many filters' weights are transformed at once: FILTERS where these and their products fill no more than three quarters of
   the second cache, else half as many. */
static long filters_of(const convolution *job, long tiles) {
    long cache = 0, n = job->taps + 3;
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return n * n * FILTERS * (CHANNELS + tiles) * job->bytes <= cache / 4 * 3 ? FILTERS : FILTERS / 2;
}

/* The elements from one matrix of `n` elements, a multiple of a vector, to the next: some more, since matrices that are a
   power of two of bytes apart share a few lines of the caches. */
static inline long apart(long n) { return n + 16; }

/* Tiles of one image that are a rectangle: the row and the column of its first result, how many tiles it has along each
   axis, which tile of the block is the first, and where what they read is copied to, in rows of `pitch`. */
typedef struct {
    long image, row, column, down, right, first, at, pitch;
} strip;

typedef struct {
    long group, tiles, used, strips, room; /* `used` of the tiles are there, the others fill up vectors; room: of copies */
    strip strip[MOST * 16];
    long from[MOST * 16], pitch[MOST * 16], to[MOST * 16]; /* of each tile: where it is copied to, and stored */
    int rows[MOST * 16], columns[MOST * 16];               /* of results that are stored */
    int whole[MOST];                                       /* of each vector of tiles: whether all 16 of each are */
} block;

#if defined(__GNUC__) && !defined(__clang__)
#define QUICK __attribute__((noinline, optimize("no-tree-loop-distribute-patterns"))) /* rows are too short for calls */
#else
#define QUICK __attribute__((noinline))
#endif

/* Copy what the tiles of a block read of a channel, with zeros around images. */
static QUICK void copy_strips(int n, const convolution *job, const block *b, long channel,
                                                              float *restrict copies) {
    for (long number = 0; number < b->strips; number++) {
        const strip *s = &b->strip[number];
        long plane = (s->image * job->groups + b->group) * job->channels + channel;
        const float *image = job->x + plane * job->height * job->width;
        long x = s->column - job->left, before = x < 0 ? -x : 0, after = job->width - x;
        if (before > s->pitch) before = s->pitch;
        if (after > s->pitch) after = s->pitch;
        for (long i = 0; i < 4 * s->down + n - 4; i++) {
            long y = s->row + i - job->top, k = 0;
            float *to = copies + s->at + i * s->pitch;
            if (y >= 0 && y < job->height) {
                const float *row = image + y * job->width + x;
                for (; k < before; k++) to[k] = 0;
                for (; k + 4 <= after; k += 4) *(four *)(to + k) = *(const four *)(row + k);
                for (; k < after; k++) to[k] = row[k];
            }
            for (; k % 4 && k < s->pitch; k++) to[k] = 0;
            for (; k < s->pitch; k += 4) *(four *)(to + k) = (four){0};
        }
    }
}

/* A result by a direct sum in double precision: that at (row, column) of a tile of a block. Weights are multiplied with the
   zeros around an image, which an infinite one shows; those that are turned have no products there. */
static __attribute__((noinline)) double one_result(const convolution *job, const block *b, const float *w, long filter,
                                                   long tile, long row, long column) {
    const strip *s = b->strip;
    while (tile >= s->first + s->down * s->right) s++;
    long plane = (s->image * job->groups + b->group) * job->channels, taps = job->taps, last = taps * taps - 1;
    row += s->row + (tile - s->first) / s->right * 4 - job->top;
    column += s->column + (tile - s->first) % s->right * 4 - job->left;
    double sum = 0;
    for (long c = 0; c < job->channels; c++) {
        const float *x = job->x + (plane + c) * job->height * job->width;
        const float *g = w + filter * job->filter_step + c * job->channel_step;
        for (long i = 0; i < taps; i++)
            for (long j = 0; j < taps; j++) {
                long at = i * taps + j;
                if (row + i >= 0 && row + i < job->height && column + j >= 0 && column + j < job->width)
                    sum += (double)x[(row + i) * job->width + column + j] * g[job->turned ? last - at : at];
                else if (!job->turned)
                    sum += 0.0 * g[at];
            }
    }
    return sum;
}

static const int all[16] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}; /* a comparison that holds */

#ifdef SEVERAL_PROCESSORS
#include <immintrin.h>
#endif
#define JOINED(x, type, level) x##_##type##_##level
#define NAMED(x, type, level) JOINED(x, type, level)
#define LEVELLED(x, level) NAMED(x, REAL, level)
#define TILES "winograd_tiles.h"
#define REAL double
#define GUARDED 1
#include "tile_levels.h"
#undef REAL
#undef GUARDED
#define REAL float
#define GUARDED 0
#include "tile_levels.h"
#undef REAL
#undef GUARDED

/* Call one of the functions that winograd_tiles.h makes for each type and processor. */
#ifdef SEVERAL_PROCESSORS
#define FOR_LEVEL(type, taps, ...)                                                                                     \
    (job->level == 2   ? block_of_##taps##_##type##_2(__VA_ARGS__)                                                     \
     : job->level == 1 ? block_of_##taps##_##type##_1(__VA_ARGS__)                                                     \
                       : block_of_##taps##_##type##_0(__VA_ARGS__))
#else
#define FOR_LEVEL(type, taps, ...) block_of_##taps##_##type##_0(__VA_ARGS__)
#endif

/* Which tiles a block has, `lanes` after `lanes`; in which block a tile is changes nothing in it. */
static void make_block(const convolution *job, long number, block *b) {
    long vectors = (job->tiles + job->lanes - 1) / job->lanes, n = job->taps + 3;
    long of_group = number % job->blocks, begin = vectors * of_group / job->blocks * job->lanes;
    long end = vectors * (of_group + 1) / job->blocks * job->lanes;
    b->group = number / job->blocks, b->tiles = end - begin, b->strips = 0;
    b->used = (end < job->tiles ? end : job->tiles) - begin;
    b->room = 8 * n; /* zeros, which tiles that are not there read */
    long each = job->tiles / job->batch, across = job->tiles_right;
    for (long tile = begin, last = begin + b->used; tile < last;) {
        long of_image = tile % each, column = of_image % across, right = across - column, down = 1, left = last - tile;
        if (right > left) right = left;
        if (right == across) { /* whole rows are one strip, down to the end of the image */
            down = left / across < (each - of_image) / across ? left / across : (each - of_image) / across;
        }
        strip *s = &b->strip[b->strips++];
        *s = (strip){tile / each, of_image / across * 4, column * 4, down, right, tile - begin, b->room, 4 * right + 4};
        b->room += (4 * down + n - 4) * s->pitch;
        for (long i = 0; i < down * right; i++, tile++) {
            long at = tile - begin, row = s->row + i / right * 4, start = s->column + i % right * 4;
            long plane = (s->image * job->groups + b->group) * job->filters;
            b->from[at] = s->at + i / right * 4 * s->pitch + i % right * 4, b->pitch[at] = s->pitch;
            b->to[at] = (plane * job->down + row) * job->right + start;
            b->rows[at] = (int)(job->down - row < 4 ? job->down - row : 4);
            b->columns[at] = (int)(job->right - start < 4 ? job->right - start : 4);
        }
    }
    for (long at = b->used; at < b->tiles; at++) b->from[at] = 0, b->pitch[at] = 8, b->rows[at] = b->columns[at] = 0;
    for (long v = 0; v < b->tiles / job->lanes; v++) {
        b->whole[v] = 1;
        for (long at = v * job->lanes; at < (v + 1) * job->lanes; at++) b->whole[v] &= b->rows[at] == 4 && b->columns[at] == 4;
    }
}

static size_t work_bytes(const convolution *job) {
    size_t n = (size_t)job->taps + 3, vectors = (size_t)((job->tiles + job->lanes - 1) / job->lanes);
    size_t tiles = (vectors + (size_t)job->blocks - 1) / (size_t)job->blocks * (size_t)job->lanes;
    size_t elements = n * n * ((size_t)job->channels * tiles + FILTERS * (CHANNELS + tiles) + 3 * 16) + 17 * tiles;
    /* a tile that is its own strip has a copy of n rows of 8; the least of two strips is that tall */
    return elements * (size_t)job->bytes + 8 * n * (tiles + 1) * sizeof(float) + ALIGNED;
}

static void tasks(void *given, int number, int count) {
    convolution *job = given;
    (void)number, (void)count;
    size_t bytes = work_bytes(job);
    void *memory = tg_workspace(bytes);
    char *work = (char *)(((uintptr_t)memory + ALIGNED - 1) & ~(uintptr_t)(ALIGNED - 1));
    block b;
    for (long task; (task = atomic_fetch_add(&job->next, 1)) < job->groups * job->blocks * job->parts;) {
        make_block(job, task / job->parts, &b);
        long first = task % job->parts * job->part, last = first + job->part;
        if (last > job->filters) last = job->filters;
        const float *w = job->w + b.group * (job->turned ? job->channels * job->channel_step : job->filters * job->filter_step);
        if (job->bytes == 8 && job->taps == 3)
            FOR_LEVEL(double, 3, job, &b, w, first, last, work);
        else if (job->bytes == 8)
            FOR_LEVEL(double, 5, job, &b, w, first, last, work);
        else if (job->taps == 3)
            FOR_LEVEL(float, 3, job, &b, w, first, last, work);
        else
            FOR_LEVEL(float, 5, job, &b, w, first, last, work);
    }
    tg_leave(memory, bytes);
}

/* facts: whether it is exact; threads; batch, groups, channels and filters of a group, height, width, taps, rows and
   columns of results, padding above and to the left; whether weights are turned: (group, channel, filter) and from the
   last tap to the first; the kind of processor at most; examples. Operands: x (batch, groups, channels, height, width), weights
   (group, filter, channel, taps, taps). Result: (batch, groups, filters, rows, columns). */
void tg_convolution(void **buffers, const long long *facts) {
    convolution given = {.y = buffers[0], .x = buffers[1], .w = buffers[2], .bytes = facts[0] ? 8 : 4, .batch = facts[2],
                         .groups = facts[3], .channels = facts[4], .filters = facts[5], .height = facts[6],
                         .width = facts[7], .taps = (int)facts[8], .down = facts[9], .right = facts[10],
                         .top = facts[11], .left = facts[12], .turned = (int)facts[13], .level = level_of_processor()};
    convolution *job = &given;
    long threads = (long)facts[1], squared = job->taps * job->taps, n = job->taps + 3;
    if (facts[14] < job->level) job->level = (int)facts[14];
    job->filter_step = job->turned ? squared : squared * job->channels;
    job->channel_step = job->turned ? squared * job->filters : squared;
    double growth = (job->taps == 3 ? GROWTH_3 : GROWTH_5) * (double)(job->channels + STEPS);
    growth *= 0x1p-29 / (double)(squared * job->channels);
    job->limit = growth * growth;
    job->tiles_right = (job->right + 3) / 4;
    job->tiles = job->batch * ((job->down + 3) / 4) * job->tiles_right;
    job->lanes = (job->level == 2 ? 64 : job->level == 1 ? 32 : 16) / job->bytes;
    long vectors = (job->tiles + job->lanes - 1) / job->lanes, each = n * n * job->channels * job->lanes * job->bytes;
    long most = BLOCK / each < 1 ? 1 : BLOCK / each > MOST ? MOST : BLOCK / each;
    job->blocks = (vectors + most - 1) / most;
    long wanted = (job->blocks * job->groups + threads - 1) / threads * threads; /* so that all end at once */
    if (job->groups == 1 && wanted <= vectors && (vectors + wanted - 1) / wanted >= FEWEST) job->blocks = wanted;
    job->parts = 1;
    while (job->parts < threads && job->blocks * job->groups * job->parts % threads
           && job->blocks * job->groups * job->parts < 4 * threads)
        job->parts++;
    long filters = job->at_once = filters_of(job, (vectors + job->blocks - 1) / job->blocks * job->lanes);
    job->part = ((job->filters + job->parts - 1) / job->parts + filters - 1) / filters * filters;
    job->parts = (job->filters + job->part - 1) / job->part;
    long all = job->groups * job->blocks * job->parts;
    for (long example = 0; example < facts[15]; example++) {
        atomic_store(&job->next, 0);
        tg_split(tasks, job, (int)(threads < all ? threads : all));
        job->x += job->batch * job->groups * job->channels * job->height * job->width;
        job->w += job->groups * job->filters * job->channels * squared;
        job->y += job->batch * job->groups * job->filters * job->down * job->right;
    }
}
