/* The routine `direct_convolution`: sums of products of windows in any steps, in tiles of some filters by some results.

   A tile has DEEP vectors of filters and POSITIONS results in registers: each element of x is multiplied with the weights
   of as many filters, wherever in the image the next result's is, so that neither steps nor short rows cost
   anything. Each thread copies the images of a band of results with zeros around them, as many as its second cache has room
   for, and goes through the weights once: those of some filters and channels, transposed into the first cache, are
   multiplied with all that a band has of these channels. Sums of results by filters wait in the second cache for the
   channels that follow, and are transposed as they are stored. All products of a result are added one after
   another, in the order of the weights. */

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "bands.h"
#include "epilogue.h"
#include "processor_level.h"
#include "routines.h"

enum { POSITIONS = 6, WEIGHTS = 36 << 10 };

typedef struct {
    const float *x, *w;
    float *y;
    int *from;
    long batch, groups, channels, filters, height, width, tall, wide; /* channels and filters of a group */
    long down, right, top, left, rows, columns;                       /* steps, padding, results */
    long pitch, plane;                     /* elements from a row of a copy to the next, and from a channel to the next */
    long together, bands, blocks, tiles, parts; /* images of a block; bands of rows; all blocks; tiles, in parts */
    long at_once, packed, summed, room;    /* channels of which weights are packed; floats of weights, sums and all */
    int turned, level;
    epilogue after;
    atomic_long next;
} direct;

/* Weights in memory that are multiplied next: rows of `row` elements. */
typedef struct {
    const float *start;
    long rows, row, pitch;
} ahead;

/* Find those after the ones of `count` filters from `filter` on and channels from c on. */
static ahead weights_after(const direct *job, const float *w, long filter, long count, long c, long width) {
    long squared = job->tall * job->wide, channels = job->at_once;
    c += channels;
    if (c >= job->channels) c = 0, filter += count, count = width;
    if (c + channels > job->channels) channels = job->channels - c;
    if (filter + count > job->filters) count = job->filters - filter;
    if (count <= 0) return (ahead){w, 0, 0, 0};
    if (job->turned) return (ahead){w + (c * job->filters + filter) * squared, channels, count * squared, job->filters * squared};
    return (ahead){w + (filter * job->channels + c) * squared, count, channels * squared, job->channels * squared};
}

/* A result of turned weights without what is outside of the image: that has no products there. */
static float one_result(const direct *job, const float *x, const float *w, long y, long column) {
    long last = job->tall * job->wide - 1;
    float sum = 0;
    for (long c = 0; c < job->channels; c++, x += job->height * job->width, w += job->filters * (last + 1))
        for (long i = 0; i < job->tall; i++)
            for (long j = 0; j < job->wide; j++) {
                long down = y * job->down + i - job->top, right = column * job->right + j - job->left;
                if (down >= 0 && down < job->height && right >= 0 && right < job->width)
                    sum = fmaf(x[down * job->width + right], w[last - i * job->wide - j], sum);
            }
    return sum;
}

/* Compute results again whose windows go beyond an image: of turned weights of which one is not finite, since it is
   no product with a 0. */
static void borders_again(const direct *job, const band *b, long filter, long end) {
    for (long n = b->image; n < b->image + b->images; n++)
        for (long f = filter; f < end && f < job->filters; f++) {
            long of = n * job->groups + b->group, squared = job->tall * job->wide;
            const float *x = job->x + of * job->channels * job->height * job->width;
            const float *w = job->w + (b->group * job->channels * job->filters + f) * squared;
            for (long y = b->first; y < b->end; y++)
                for (long column = 0; column < job->columns; column++) {
                    long down = y * job->down - job->top, right = column * job->right - job->left;
                    long at = ((of * job->filters + f) * job->rows + y) * job->columns + column;
                    if (down < 0 || right < 0 || down + job->tall > job->height || right + job->wide > job->width)
                        job->y[at] = epilogue_one(&job->after, one_result(job, x, w, y, column),
                                                  b->group * job->filters + f, at);
                }
        }
}

#define POSITIONS_OF_TILES
#define LEVELLED(x, level) x##_##level
#define TILES "direct_tiles.h"
#include "tile_levels.h"

static void tasks(void *given, int number, int count) {
    direct *job = given;
    (void)number, (void)count;
    size_t bytes = (size_t)job->room * sizeof(float) + ALIGNED;
    void *memory = tg_workspace(bytes);
    float *work = aligned_floats(memory);
    for (long task; (task = atomic_fetch_add(&job->next, 1)) < job->blocks * job->parts;) {
        long part = task % job->parts;
        band b = band_of(task / job->parts, job->batch, job->groups, job->together, job->bands, job->rows);
        long first = tg_begin(job->tiles, (int)part, (int)job->parts);
        long last = tg_begin(job->tiles, (int)part + 1, (int)job->parts);
#ifdef SEVERAL_PROCESSORS
        if (job->level == 2) band_of_2(job, &b, first, last, work);
        else if (job->level == 1) band_of_1(job, &b, first, last, work);
        else
#endif
            band_of_0(job, &b, first, last, work);
    }
    tg_leave(memory, bytes);
}

/* Lay out work for `bands` bands of `together` images; returns the floats of it that are read again and again. */
static long lay_out(direct *job, long bands, long together, long width) {
    long rows = (job->rows + bands - 1) / bands;
    job->bands = bands, job->together = together;
    job->plane = distance(((rows - 1) * job->down + job->tall) * job->pitch);
    long positions = together * rows * job->columns + POSITIONS;
    job->summed = distance(positions * width);
    job->room = together * job->channels * job->plane + job->packed + job->summed + distance(positions);
    return job->room - job->packed;
}

static void divide(direct *job, long threads, long width) {
    long cache = 0, bands = 1, together = 1;
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    if (cache <= 0) cache = 1 << 20;
    cache = cache / 4 * 3 / (long)sizeof(float);
    while (bands < job->rows && lay_out(job, bands, 1, width) > cache) bands++;
    if (bands == 1)
        while (together < job->batch && lay_out(job, 1, together + 1, width) <= cache) together++;
    job->parts = 1;
    for (;; bands++) {
        long blocks = (job->batch + together - 1) / together;
        together = (job->batch + blocks - 1) / blocks; /* as many in each */
        job->blocks = (job->batch + together - 1) / together * job->groups * bands;
        if (job->blocks % threads == 0 || job->blocks >= 8 * threads) break;
        job->parts = threads;
        if (job->tiles % threads == 0 || job->tiles >= 4 * threads) break;
        job->parts = 1;
        if (together > 1) {
            together--, bands--;
            continue;
        }
        if (bands >= job->rows) break;
    }
    lay_out(job, bands, together, width);
}

/* facts: threads; batch, groups, channels and filters of a group, height, width, rows and columns of the window, steps down
   and to the right, padding above and to the left, rows and columns of results; whether weights are turned: (group,
   channel, filter) and from the last element of the window to the first; the kind of processor at most; examples; how many
   steps its epilogue has, and these (epilogue.h). Operands: x (batch, groups, channels, height, width), weights (group, filter,
   channel, window), and those of steps. Result: (batch, groups, filters, rows, columns). */
void tg_direct_convolution(void **buffers, const long long *facts) {
    direct given = {.y = buffers[0], .x = buffers[1], .w = buffers[2], .batch = facts[1], .groups = facts[2],
                    .channels = facts[3], .filters = facts[4], .height = facts[5], .width = facts[6], .tall = facts[7],
                    .wide = facts[8], .down = facts[9], .right = facts[10], .top = facts[11], .left = facts[12],
                    .rows = facts[13], .columns = facts[14], .turned = (int)facts[15], .level = level_of_processor(),
                    .after = epilogue_of(facts + 19, (long)facts[18], buffers + 3)};
    direct *job = &given;
    long threads = (long)facts[0], squared = job->tall * job->wide;
    if (facts[16] < job->level) job->level = (int)facts[16];
    long lanes = job->level == 2 ? 16 : job->level == 1 ? 8 : 4, width = lanes * (job->level ? 2 * job->level : deepest_0);
    job->tiles = (job->filters + width - 1) / width;
    if (job->filters < width) width = (job->filters + lanes - 1) / lanes * lanes;
    job->pitch = (job->columns - 1) * job->right + job->wide;
    job->at_once = WEIGHTS / (squared * width * (long)sizeof(float));
    if (job->at_once < 1) job->at_once = 1;
    if (job->at_once > job->channels) job->at_once = job->channels;
    job->packed = distance((job->at_once * squared + lanes) * width);
    divide(job, threads, width);
    size_t bytes = (size_t)(job->channels * squared) * sizeof(int);
    void *memory = tg_take(bytes);
    job->from = memory;
    for (long c = 0, n = 0; c < job->channels; c++)
        for (long i = 0; i < job->tall; i++)
            for (long j = 0; j < job->wide; j++) job->from[n++] = (int)(c * job->plane + i * job->pitch + j);
    long all = job->blocks * job->parts;
    for (long example = 0; example < facts[17]; example++) {
        atomic_store(&job->next, 0);
        tg_split(tasks, job, (int)(threads < all ? threads : all));
        job->x += job->batch * job->groups * job->channels * job->height * job->width;
        job->w += job->groups * job->channels * job->filters * squared;
        job->y += job->batch * job->groups * job->filters * job->rows * job->columns;
        epilogue_next(&job->after, job->groups * job->filters,
                      job->batch * job->groups * job->filters * job->rows * job->columns);
    }
    tg_give(memory);
}
