/* The routine `convolution_weights`: gradients of a convolution's weights, in tiles of some filters by some elements of windows.

   Each weight is a sum over all results of all images: of the gradient of a result times the element of x that the weight is
   multiplied with there. A tile has vectors of filters and POSITIONS weights of each in registers (filter_tiles.h), as one of
   a direct convolution has results: gradients of a few results are transposed into the first cache, and serve all weights of
   some channels, wherever these read x. So neither steps, gaps nor short rows cost anything. Sums over such
   results are added to what there is, in the second cache, and transposed in the end. Which results are summed first follows
   from sizes alone, so that sums have the same bits for any number of threads, which divide weights. */

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "bands.h"
#include "depthwise.h"
#include "processor_level.h"
#include "routines.h"

enum { POSITIONS = 6, AT_ONCE = 144, LEAST_WEIGHTS = 48 };

typedef struct {
    const float *x, *g;
    float *y;
    long batch, groups, channels, filters, height, width, rows, columns; /* channels and filters of a group; results */
    long top, left, down, right, below, beside, tall, wide;              /* padding, steps, gaps and sizes of windows */
    long images, lines, places; /* results of a band: of how many images, rows and columns of these */
    long chunk, part;           /* of these at once: rows and columns */
    long pitch, plane;          /* elements from a row of a copy to the next, and from a channel to the next */
    long tiles, deep, parts, weights, most; /* of filters, in vectors; of weights; all of a filter; of a part */
    long copied, packed, summed, taken;
    int level;
    atomic_long next;
} gradient;

#define POSITIONS_OF_TILES
#define LEVELLED(x, level) x##_##level
#define TILES "weights_tiles.h"
#include "tile_levels.h"

static void tasks(void *given, int number, int count) {
    gradient *job = given;
    (void)number, (void)count;
    size_t bytes = (size_t)job->taken * sizeof(float) + ALIGNED;
    void *memory = tg_workspace(bytes);
    float *work = aligned_floats(memory);
    for (long task; (task = atomic_fetch_add(&job->next, 1)) < job->groups * job->tiles * job->parts;) {
        long part = task % job->parts, tile = task / job->parts % job->tiles, group = task / job->parts / job->tiles;
        /* whole tiles, but for the last one */
        long tiles = (job->weights + POSITIONS - 1) / POSITIONS;
        long begin = tg_begin(tiles, (int)part, (int)job->parts) * POSITIONS;
        long end = tg_begin(tiles, (int)part + 1, (int)job->parts) * POSITIONS;
        if (end > job->weights) end = job->weights;
#ifdef SEVERAL_PROCESSORS
        if (job->level == 2) weights_of_2(job, group, tile, begin, end, work);
        else if (job->level == 1) weights_of_1(job, group, tile, begin, end, work);
        else
#endif
            weights_of_0(job, group, tile, begin, end, work);
    }
    tg_leave(memory, bytes);
}

/* Divide the weights of a filter into parts, so that sums stay in the second cache and threads end together. */
static void divide(gradient *job, long threads, long width, long cache) {
    long most = cache / 4 / width / POSITIONS * POSITIONS, tiles = job->groups * job->tiles;
    if (most < POSITIONS) most = POSITIONS;
    job->parts = (job->weights + most - 1) / most;
    for (long more = job->parts; more < job->parts + threads && job->weights / more >= LEAST_WEIGHTS; more++)
        if (tiles * more % threads == 0 || tiles * more >= 8 * threads) {
            job->parts = more;
            break;
        }
    job->most = ((job->weights + POSITIONS - 1) / POSITIONS + job->parts - 1) / job->parts * POSITIONS;
}

/* facts: threads; batch, groups, channels and filters of a group, height, width, rows and columns of results, padding above and to
   the left, steps down and to the right, and between elements of a window, rows and columns of windows; the kind of
   processor at most; examples. Operands: x (batch, groups, channels, height, width), gradients (batch, groups, filters, rows,
   columns). Result: (groups, filters, channels, window). */
void tg_convolution_weights(void **buffers, const long long *facts) {
    gradient given = {.y = buffers[0], .x = buffers[1], .g = buffers[2], .batch = facts[1], .groups = facts[2],
                      .channels = facts[3], .filters = facts[4], .height = facts[5], .width = facts[6], .rows = facts[7],
                      .columns = facts[8], .top = facts[9], .left = facts[10], .down = facts[11], .right = facts[12],
                      .below = facts[13], .beside = facts[14], .tall = facts[15], .wide = facts[16],
                      .level = level_of_processor()};
    gradient *job = &given;
    long threads = (long)facts[0], area = job->rows * job->columns, cache = 0;
    if (facts[17] < job->level) job->level = (int)facts[17];
    if (job->channels == 1 && job->filters == 1) {
        tg_depthwise d = {.y = job->y, .x = job->x, .w = job->g, .batch = job->batch, .channels = job->groups,
                          .threads = threads, .level = job->level,
                          .down = {job->tall, job->height, job->rows, job->down, 1, job->top},
                          .right = {job->wide, job->width, job->columns, job->right, 1, job->left}};
        tg_depthwise_weights(&d, job->below, job->beside, facts[18]);
        return;
    }
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    cache = (cache <= 0 ? 1 << 20 : cache) / (long)sizeof(float);
    long lanes = job->level == 2 ? 16 : job->level == 1 ? 8 : 4, width = lanes * (job->level ? 2 * job->level : deepest_0);
    job->tiles = (job->filters + width - 1) / width;
    job->deep = ((job->filters + lanes - 1) / lanes + job->tiles - 1) / job->tiles;
    width = job->deep * lanes;
    job->weights = job->channels * job->tall * job->wide;
    divide(job, threads, width, cache);
    /* results at once: some images, or rows of one, or a part of a row */
    job->images = area < AT_ONCE ? AT_ONCE / area : 1;
    if (job->images > job->batch) job->images = job->batch;
    job->chunk = job->images > 1 ? job->rows : AT_ONCE / job->columns < 1 ? 1 : AT_ONCE / job->columns;
    if (job->chunk > job->rows) job->chunk = job->rows;
    job->part = job->columns < AT_ONCE || job->images > 1 ? job->columns : AT_ONCE;
    long squared = job->tall * job->wide, channels = (job->most + squared - 2) / squared + 1;
    if (channels > job->channels) channels = job->channels;
    long high = (job->tall - 1) * job->below + 1, broad = (job->wide - 1) * job->beside + 1;
    job->lines = job->chunk, job->places = job->columns;
    while (job->part < job->columns && job->places > 2 * job->part
           && channels * high * ((job->places - 1) * job->right + broad) > cache / 4)
        job->places = (job->places / 2 + job->part - 1) / job->part * job->part;
    job->pitch = (job->places - 1) * job->right + broad;
    if (job->places == job->columns && job->images == 1)
        while (job->lines < job->rows
               && channels * ((job->lines + job->chunk - 1) * job->down + high) * job->pitch < cache / 4)
            job->lines += job->chunk;
    job->plane = distance(((job->lines - 1) * job->down + high) * job->pitch);
    long positions = job->images * job->lines * job->places;
    job->copied = distance(job->images * channels * job->plane);
    job->packed = distance((job->images > 1 ? positions : job->chunk * job->part) * width + lanes * width);
    job->summed = distance((job->most + POSITIONS) * width);
    job->taken = job->copied + job->packed + job->summed + distance(positions) + distance(job->most + POSITIONS);
    long all = job->groups * job->tiles * job->parts;
    for (long example = 0; example < facts[18]; example++) {
        atomic_store(&job->next, 0);
        tg_split(tasks, job, (int)(threads < all ? threads : all));
        job->x += job->batch * job->groups * job->channels * job->height * job->width;
        job->g += job->batch * job->groups * job->filters * area;
        job->y += job->groups * job->filters * job->weights;
    }
}
