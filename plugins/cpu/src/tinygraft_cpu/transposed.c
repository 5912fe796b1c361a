/* The routine `transposed_convolution`: what slides back over an image in steps, by phases and in tiles.

   Result o of an axis is element o + cut of what all windows add up to, to which element k of the window at i adds where
   i * stride + k = o + cut. So of the results of a phase, o = q * stride + r, each is a sum over the same elements k,
   every stride-th: a plain convolution in steps of 1, q of x by few elements. All phases read one copy of the
   image, with zeros around it and its rows one after another, at a distance that does not depend on the row: a row of
   columns goes on into the next one, and only the zeros between two rows are multiplied for nothing. Where rows are short
   there is a copy for each place in a row from which windows read, which has no zeros between rows.

   A tile has ROWS filters and VECTORS vectors of columns in registers, or, of vectors of 64 bytes and as many filters, vectors
   of filters: two of them and a part of a row of results, whose rows of the window outside of the image are left out, or, where
   rows are short, up to four and POSITIONS results of all images of a block (filter_tiles.h). Then no zeros between rows are
   multiplied. Other zeros around an image are multiplied as well, which changes nothing where weights are finite; where one is
   not, results at the borders are summed again without them. */

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "bands.h"
#include "depthwise.h"
#include "processor_level.h"
#include "routines.h"

enum { POSITIONS = 6, AT_ONCE = 144, FILTERS = 64, LEAST_FILTERS = 40, COPIED = 2, MOST_ROWS = 8, LEAST_TILES = 2, LEAST_ROWS = 4 };
/* results of a tile that are next to each other in a row, and terms after which their sums are put down */
enum { LEAST_ROW = 7, WIDEST_ROW = 14, ROWS_AT_ONCE = 256 };

/* An axis: of the window, steps, results that are cut off before the first, results, elements of x. The first element
   that a phase reads for result 0 at `least`, and how many more than one for each result; see `measure`. */
typedef struct {
    long window, stride, cut, results, size;
    long least, more, counts;
} axis;

typedef struct {
    const float *x, *w;
    float *y, *weights, *work;
    int *from, *start;
    long batch, groups, channels, filters, height, width; /* channels and filters of a group */
    axis down, right;
    long before, pitch, plane, apart; /* of planes and sums, in elements: see `lay_out` */
    long copies, each;                /* of a channel: how many, and elements from one to the next */
    long rows, tiles, of_tile;        /* filters of a tile, tiles of a group, weights of a tile */
    long bands, parts, together, blocks, room; /* of results, of tiles, images of a block, floats of work for each thread */
    int level, dense, deep; /* dense: without zeros between rows; deep: vectors of filters of a tile, 0 for vectors of columns */
    int by_rows;        /* whether tiles are parts of rows of results, of two vectors of filters */
    int own;            /* whether each thread has tiles of its own */
    atomic_int strange; /* whether a weight is not finite */
    atomic_long next;
} transposed;

/* How many results the phase r of an axis has, at which element of x its window begins to slide back, and how many
   elements of the window it has. */
static inline long phase_results(const axis *a, long r) { return (a->results - r + a->stride - 1) / a->stride; }
static inline long phase_start(const axis *a, long r) { return (r + a->cut) / a->stride; }
static inline long phase_terms(const axis *a, long r) {
    return (a->window - (r + a->cut) % a->stride + a->stride - 1) / a->stride;
}

#ifdef SEVERAL_PROCESSORS
#include <immintrin.h>
#endif
#define POSITIONS_OF_TILES
#define LEVELLED(x, level) x##_##level
#define TILES "transposed_tiles.h"
#include "tile_levels.h"

/* Pack the weights of tiles: (tile, phase down, phase right, channel, element down, element right, filter), with channels before
   the filter where tiles are parts of rows, so that rows of a window are one after another. Element k of the window is at
   start[k] of a tile, for each channel step[k] further. */
static void pack(void *given, int number, int count) {
    transposed *job = given;
    long squared = job->down.window * job->right.window, rows = job->rows, all = job->groups * job->tiles;
    const int *start = job->start, *step = start + squared;
    int strange = 0;
    long begin = tg_begin(all, number, count), end = tg_begin(all, number + 1, count);
    for (long tile = begin; tile < end; tile++)
        if (job->filters % rows && tile % job->tiles == job->tiles - 1)
            memset(job->weights + tile * job->of_tile, 0, (size_t)job->of_tile * sizeof(float));
    for (long c = 0; c < job->channels; c++)
        for (long tile = begin; tile < end; tile++) {
            long filter = tile % job->tiles * rows, group = tile / job->tiles;
            long here = job->filters - filter < rows ? job->filters - filter : rows;
            const float *w = job->w + ((group * job->channels + c) * job->filters + filter) * squared;
            float *packed = job->weights + tile * job->of_tile;
            strange |= tg_strange(w, here * squared);
#ifdef SEVERAL_PROCESSORS
            if (job->deep) {
                pack_filters_2(job, w, here, c, packed);
                continue;
            }
#endif
            for (long k = 0; k < squared; k++) {
                float *to = packed + start[k] + c * step[k];
                if (here == 8)
                    for (long r = 0; r < 8; r++) to[r] = w[r * squared + k];
                else
                    for (long r = 0; r < here; r++) to[r] = w[r * squared + k];
            }
        }
    if (strange) atomic_store(&job->strange, 1);
}

/* Find where `pack` puts elements of a window, and which element of a plane is multiplied with each of its weights. */
static void list_places(transposed *job) {
    const axis *down = &job->down, *right = &job->right;
    long squared = down->window * right->window, base = 0;
    int *from = job->from;
    for (long i = 0; i < down->stride; i++)
        for (long j = 0; j < right->stride; j++) {
            long above = phase_terms(down, i), beside = phase_terms(right, j), terms = above * beside;
            for (long k = 0; k < terms; k++) {
                long y = k / beside * down->stride + (i + down->cut) % down->stride;
                long at = y * right->window + k % beside * right->stride + (j + right->cut) % right->stride;
                job->start[at] = (int)((base + (job->by_rows ? k * job->channels : k)) * job->rows);
                job->start[squared + at] = (int)((job->by_rows ? 1 : terms) * job->rows);
            }
            base += job->channels * terms;
            for (long t = 0; t < job->channels * terms; t++) {
                long k = job->by_rows ? t / job->channels : t % terms, c = job->by_rows ? t % job->channels : t / terms;
                long row = phase_start(down, i) - k / beside - down->least;
                long column = phase_start(right, j) - k % beside;
                column = job->dense ? (column - right->least) * job->each : job->before + column;
                *from++ = (int)(c * job->plane + row * job->pitch + column);
            }
        }
}

/* Find how far phases of an axis reach. */
static void measure(axis *a) {
    a->counts = (a->results + a->stride - 1) / a->stride;
    long most = 0;
    for (long r = 0; r < a->stride; r++) {
        long begin = phase_start(a, r), terms = phase_terms(a, r);
        if (begin > most) most = begin;
        if (r == 0 || begin - (terms > 0 ? terms - 1 : 0) < a->least) a->least = begin - (terms > 0 ? terms - 1 : 0);
    }
    a->more = most - a->least;
}

/* One result without what is outside of the image. */
static float one_result(const transposed *job, const band *b, long filter, long y, long x) {
    const axis *down = &job->down, *right = &job->right;
    float sum = 0;
    for (long c = 0; c < job->channels; c++) {
        long of = b->group * job->channels + c;
        const float *image = job->x + (b->image * job->groups * job->channels + of) * job->height * job->width;
        const float *w = job->w + (of * job->filters + filter) * down->window * right->window;
        for (long i = (y + down->cut) % down->stride; i < down->window; i += down->stride)
            for (long j = (x + right->cut) % right->stride; j < right->window; j += right->stride) {
                long row = (y + down->cut - i) / down->stride, column = (x + right->cut - j) / right->stride;
                if (y + down->cut >= i && row < job->height && x + right->cut >= j && column < job->width)
                    sum = fmaf(image[row * job->width + column], w[i * right->window + j], sum);
            }
    }
    return sum;
}

/* Whether result o of an axis has a term outside of the image. */
static int leaves(const axis *a, long o) {
    long r = o % a->stride, end = o / a->stride + phase_start(a, r), terms = phase_terms(a, r);
    return terms > 0 && (end - (terms - 1) < 0 || end >= a->size);
}

static void borders_again(const transposed *job, const band *b, long first, long last) {
    const axis *down = &job->down, *right = &job->right;
    long of = (b->image * job->groups + b->group) * job->filters;
    long end = b->end * down->stride < down->results ? b->end * down->stride : down->results;
    for (long filter = first * job->rows; filter < last * job->rows && filter < job->filters; filter++)
        for (long y = b->first * down->stride; y < end; y++)
            for (long x = 0; x < right->results; x++)
                if (leaves(down, y) || leaves(right, x))
                    job->y[((of + filter) * down->results + y) * right->results + x] = one_result(job, b, filter, y, x);
}

/* Results of one block of bands, of the filters of one part of the tiles. */
static void block_of(const transposed *job, long block, long part, float *work) {
    /* its rows are those of a phase: results q * stride + r of all r, q from `first` to before `end` */
    band b = band_of(block, job->batch, job->groups, job->together, job->bands, job->down.counts);
    long first = tg_begin(job->tiles, (int)part, (int)job->parts);
    long last = tg_begin(job->tiles, (int)part + 1, (int)job->parts);
#ifdef SEVERAL_PROCESSORS
    if (job->level == 2 && job->deep) filters_of_2(job, &b, first, last, work);
    else if (job->level == 2) band_of_2(job, &b, first, last, work);
    else if (job->level == 1) band_of_1(job, &b, first, last, work);
    else
#endif
        band_of_0(job, &b, first, last, work);
    for (long end = b.image + b.images; job->strange && b.image < end; b.image++) borders_again(job, &b, first, last);
}

static void tasks(void *given, int number, int count) {
    transposed *job = given;
    float *work = job->work + number * job->room;
    if (job->own) { /* of the tiles that this thread has packed */
        long end = tg_begin(job->parts, number + 1, count);
        for (long part = tg_begin(job->parts, number, count); part < end; part++)
            for (long block = 0; block < job->blocks; block++) block_of(job, block, part, work);
        return;
    }
    for (long task; (task = atomic_fetch_add(&job->next, 1)) < job->blocks * job->parts;)
        block_of(job, task / job->parts, task % job->parts, work);
}

/* Lay out planes and sums for `bands` bands; returns the floats of work that a thread needs. */
static long lay_out(transposed *job, long bands) {
    long rows = (job->down.counts + bands - 1) / bands;
    job->bands = bands;
    job->each = job->before + (rows + job->down.more + 1) * job->pitch + LINE;
    job->plane = distance(job->copies * job->each);
    job->apart = distance(rows * job->pitch + LINE);
    if (job->deep) {
        long positions = job->together * rows * job->right.counts + POSITIONS;
        job->apart = distance((positions + LINE) * job->rows); /* and what is read beyond a short row */
        job->room = job->together * job->channels * job->plane + job->down.stride * job->right.stride * job->apart;
        return job->room += distance(positions);
    }
    job->room = job->together * job->channels * job->plane + job->down.stride * job->right.stride * MOST_ROWS * job->apart;
    return job->room += distance(job->right.results + 2 * LINE);
}

/* Divide the results into bands, so that what a band reads is in the second cache, or images into blocks that read weights
   together, where these are large; and tiles into parts, or results into more bands, so that threads end together. */
static void divide(transposed *job, long threads) {
    long cache = 0, bands = 1, most = job->down.counts / LEAST_ROWS, bytes = (long)sizeof(float);
#ifdef _SC_LEVEL2_CACHE_SIZE
    cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    if (cache <= 0) cache = 1 << 20;
    job->together = 1;
    while (bands < most && lay_out(job, bands) * bytes > cache / 2) bands++;
    lay_out(job, bands);
    int large = job->tiles * job->of_tile * bytes > cache / 4;
    if (bands == 1 && (large || job->deep)) {
        long results = job->down.stride * job->right.stride * job->down.counts * job->right.counts * job->rows;
        long image = (job->channels * job->plane + (job->deep ? results : 0)) * bytes, room = cache / 2 / image;
        if (!large && room > job->batch / (2 * threads)) room = job->batch / (2 * threads);
        if (room < 1) room = 1;
        long blocks = (job->batch + room - 1) / room;
        job->together = (job->batch + blocks - 1) / blocks;
    }
    long blocks = (job->batch + job->together - 1) / job->together * job->groups;
    job->parts = 1;
    while (blocks * bands * job->parts % threads && blocks * bands * job->parts < 4 * threads
           && job->tiles / (job->parts + 1) >= LEAST_TILES)
        job->parts++;
    if (blocks * bands * job->parts % threads) {
        job->parts = 1;
        for (long more = bands; job->together == 1 && more <= most && more < bands + threads; more++)
            if (blocks * more % threads == 0) {
                bands = more;
                break;
            }
    }
    lay_out(job, bands);
    job->blocks = blocks * bands;
    /* a line of packed weights that both write and read would go from one cache to the other */
    job->own = large && threads > 1 && job->groups == 1 && job->tiles % threads == 0;
    if (job->own) job->parts = threads;
}

/* facts: threads; batch, groups, channels and filters of a group, height, width, rows and columns of the window, steps
   down and to the right, rows and columns that are cut off before the first result, rows and columns of results; the kind
   of processor at most; examples. Operands: x (batch, groups, channels, height, width), weights (group, channel, filter,
   window). Result: (batch, groups, filters, rows, columns). */
void tg_transposed_convolution(void **buffers, const long long *facts) {
    transposed given = {.y = buffers[0], .x = buffers[1], .w = buffers[2], .batch = facts[1], .groups = facts[2],
                        .channels = facts[3], .filters = facts[4], .height = facts[5], .width = facts[6],
                        .down = {facts[7], facts[9], facts[11], facts[13], facts[5], 0, 0, 0},
                        .right = {facts[8], facts[10], facts[12], facts[14], facts[6], 0, 0, 0},
                        .level = level_of_processor()};
    transposed *job = &given;
    axis *down = &job->down, *right = &job->right;
    long threads = (long)facts[0], squared = down->window * right->window;
    if (facts[15] < job->level) job->level = (int)facts[15];
    if (job->channels == 1 && job->filters == 1) {
        tg_depthwise d = {.y = job->y, .x = job->x, .w = job->w, .batch = job->batch, .channels = job->groups,
                          .threads = threads, .back = 1, .level = job->level,
                          .down = {down->window, down->size, down->results, 1, down->stride, down->cut},
                          .right = {right->window, right->size, right->results, 1, right->stride, right->cut}};
        tg_depthwise_planes(&d, facts[16]);
        return;
    }
    job->rows = job->level == 2 ? 8 : job->level == 1 ? 4 : rows_of_tile_0;
    if (job->level == 2 && job->filters >= LEAST_FILTERS) {
        long vectors = (job->filters + LINE - 1) / LINE, tiles = (vectors * LINE + FILTERS - 1) / FILTERS;
        job->by_rows = vectors % 2 == 0 && right->results / right->stride >= LEAST_ROW;
        job->deep = job->by_rows ? 2 : (int)((vectors + tiles - 1) / tiles), job->rows = job->deep * LINE;
    }
    measure(down), measure(right);
    job->before = right->least < 0 ? -right->least : 0;
    long after = right->counts + right->least + right->more - right->size; /* that is read beyond a row */
    job->pitch = right->size + (after > job->before ? after : job->before);
    job->copies = 1;
    long lanes = job->level == 2 ? 16 : job->level == 1 ? 8 : 4, rows = down->counts;
    long vectors = ((rows - 1) * job->pitch + right->counts + lanes - 1) / lanes;
    long dense = (rows * right->counts + lanes - 1) / lanes;
    /* vectors that are saved, of all that are multiplied with an element, beside the cycles of more copies of it */
    if (!job->deep && (vectors - dense) * job->filters * squared > COPIED * vectors * right->more * lanes)
        job->dense = 1, job->copies = right->more + 1, job->before = 0, job->pitch = right->counts;
    job->tiles = (job->filters + job->rows - 1) / job->rows;
    job->of_tile = job->channels * squared * job->rows;
    divide(job, threads);
    long packed = distance(job->groups * job->tiles * job->of_tile), listed = distance(job->channels * squared + 2 * squared);
    long all = job->blocks * job->parts;
    if (threads > all) threads = all;
    size_t bytes = (size_t)(packed + listed + threads * distance(job->room)) * sizeof(float) + ALIGNED;
    void *memory = tg_workspace(bytes);
    job->weights = aligned_floats(memory);
    job->from = (int *)(job->weights + packed);
    job->start = job->from + job->channels * squared;
    job->work = job->weights + packed + listed;
    job->room = distance(job->room);
    list_places(job);
    for (long example = 0; example < facts[16]; example++) {
        atomic_store(&job->next, 0), atomic_store(&job->strange, 0);
        tg_split(pack, job, (int)(threads < job->groups * job->tiles ? threads : job->groups * job->tiles));
        tg_split(tasks, job, (int)threads);
        job->x += job->batch * job->groups * job->channels * job->height * job->width;
        job->w += job->groups * job->channels * job->filters * squared;
        job->y += job->batch * job->groups * job->filters * down->results * right->results;
    }
    tg_leave(memory, bytes);
}
