/* The routine `depthwise_convolution`: each channel with a window of its own, forward and back, and in steps.

   What slides back is computed by phases: results o = q * phases + r of an axis are a plain sum over every phases-th
   element of the window (transposed.c). So a plane is some sums of windows over one copy of x with zeros around it, each
   column that is `step` apart in a row of its own, so that no vector is picked from two. Where rows of results fill
   vectors, a tile has several rows of them in registers, and each element that is loaded is multiplied with all elements of
   a column of the window that meet it. Where they are short, lanes are channels: planes are transposed as they are read
   and as they are stored, and rows outside of x are left out. Weights that are not finite are rare, and get
   one sum after another. */

#include "depthwise.h"

#include <math.h>
#include <string.h>

#include "bands.h"
#include "processor_level.h"
#include "routines.h"

enum { TALLEST = 7, WIDEST = 8, BAND = 6144, MOST_CHANNELS = 16, LISTED_PHASES = 2, LEAST_BAND = 16, BYTES_OF_STRIP = 256 };
/* how many floats ahead rows are fetched: a strip that skips what it has is no stream to the processor; on a Zen 5 512 to 2048
   are alike, and 76 us became 61 (8x96x56 in steps of 2, which the third cache holds) */
enum { AHEAD = 1024 };

/* A phase of an axis: how many results and elements of the window it has, which element of the window is multiplied
   with the first element of x, how far apart the next ones are, and the first element of x for result 0. */
typedef struct {
    long results, terms, first, apart, start;
} phase;

static phase phase_of(const tg_axis *a, int back, long r) {
    if (!back) return (phase){a->results, a->window, 0, 1, -a->cut};
    long first = (r + a->cut) % a->phases, terms = first < a->window ? (a->window - first - 1) / a->phases + 1 : 0;
    long results = r < a->results ? (a->results - r - 1) / a->phases + 1 : 0;
    return (phase){results, terms, first + (terms - 1) * a->phases, -a->phases, (r + a->cut) / a->phases - terms + 1};
}

typedef struct {
    const tg_depthwise *of;
    long origin_down, origin_right, needed; /* the first element that is read of each axis, how many of a row */
    long most_rows, more_rows;              /* results of a phase down, and elements of x that it reads more */
    long pitch, row;                        /* of a copy: from the part of a row to the next, and from a row to the next */
    long band, planes, taken;               /* results of a phase at once; channels of a task; floats of work */
    long sums, apart;                       /* of phases: floats, and from a row to the next */
    int narrow, direct, by_rows;
    long below, beside; /* from an element of the window to the next, of gradients of weights */
    phase down[LISTED_PHASES], right[LISTED_PHASES];
} plan;

static inline phase phase_down(const plan *p, long r) {
    return r < LISTED_PHASES ? p->down[r] : phase_of(&p->of->down, p->of->back, r);
}

static inline phase phase_right(const plan *p, long r) {
    return r < LISTED_PHASES ? p->right[r] : phase_of(&p->of->right, p->of->back, r);
}

/* One result by all its products, one after another. */
static float one_result(const tg_depthwise *d, const float *x, const float *w, long y, long at) {
    phase down = phase_of(&d->down, d->back, y % d->down.phases), right = phase_of(&d->right, d->back, at % d->right.phases);
    float sum = 0;
    y /= d->down.phases, at /= d->right.phases;
    for (long i = 0; i < down.terms; i++)
        for (long j = 0; j < right.terms; j++) {
            long row = y * d->down.step + down.start + i, column = at * d->right.step + right.start + j;
            int inside = row >= 0 && row < d->down.size && column >= 0 && column < d->right.size;
            if (inside || !d->back)
                sum = fmaf(inside ? x[row * d->right.size + column] : 0,
                           w[(down.first + i * down.apart) * d->right.window + right.first + j * right.apart], sum);
        }
    return sum;
}

static void one_after_another(const tg_depthwise *d, const float *x, const float *w, float *y) {
    for (long row = 0; row < d->down.results; row++)
        for (long column = 0; column < d->right.results; column++) *y++ = one_result(d, x, w, row, column);
}

#ifdef SEVERAL_PROCESSORS
#include <immintrin.h>
#endif
#define LEVELLED(x, level) x##_##level
#define TILES "depthwise_tiles.h"
#include "tile_levels.h"

/* Channels from `block * planes` on of some images, in turn: windows are packed once for all of these. */
static void tasks(void *given, int number, int count) {
    const plan *p = given;
    const tg_depthwise *d = p->of;
    long blocks = (d->channels + p->planes - 1) / p->planes, end = tg_begin(blocks * d->batch, number + 1, count);
    size_t bytes = (size_t)p->taken * sizeof(float) + ALIGNED;
    void *memory = tg_workspace(bytes);
    float *work = aligned_floats(memory);
    memset(work, 0, (size_t)p->taken * sizeof(float));
    for (long task = tg_begin(blocks * d->batch, number, count); task < end;) {
        long block = task / d->batch, image = task % d->batch, images = d->batch - image;
        if (images > end - task) images = end - task;
#ifdef SEVERAL_PROCESSORS
        if (d->level == 2) planes_of_2(p, block, image, images, work);
        else if (d->level == 1) planes_of_1(p, block, image, images, work);
        else
#endif
            planes_of_0(p, block, image, images, work);
        task += images;
    }
    tg_leave(memory, bytes);
}

/* Find which elements of x all phases of an axis read for their first result: sets the first of them, returns how many. */
static long reach(const tg_axis *a, int back, long *origin) {
    long end = 0, found = 0;
    *origin = 0;
    for (long r = 0; r < a->phases; r++) {
        phase one = phase_of(a, back, r);
        if (one.terms <= 0 || one.results <= 0) continue;
        if (!found || one.start < *origin) *origin = one.start;
        if (!found || one.start + one.terms > end) end = one.start + one.terms;
        found = 1;
    }
    return end - *origin;
}

void tg_depthwise_planes(const tg_depthwise *given, long examples) {
    tg_depthwise one = *given, *d = &one;
    plan made = {.of = d}, *p = &made;
    if (d->level > level_of_processor()) d->level = level_of_processor();
    long lanes = d->level == 2 ? 16 : d->level == 1 ? 8 : 4, area = d->right.results * d->down.results;
    long squared = d->down.window * d->right.window, columns = (d->right.results - 1) / d->right.phases + 1;
    p->most_rows = (d->down.results - 1) / d->down.phases + 1;
    for (long r = 0; r < LISTED_PHASES; r++) {
        if (r < d->down.phases) p->down[r] = phase_of(&d->down, d->back, r);
        if (r < d->right.phases) p->right[r] = phase_of(&d->right, d->back, r);
    }
    p->more_rows = reach(&d->down, d->back, &p->origin_down);
    p->needed = (columns - 1) * d->right.step + reach(&d->right, d->back, &p->origin_right);
    p->narrow = columns <= WIDEST && 2 * columns <= lanes && d->down.size * d->right.size >= lanes && area >= lanes
                && d->channels >= lanes;
    long step = d->down.step, vectors = (columns + lanes - 1) / lanes;
    p->by_rows = !p->narrow && d->level && d->down.phases == 1 && d->right.phases == 1 && d->down.window == 3
                 && d->right.window == 3 && step == d->right.step && step <= 2;
    if (!p->narrow) {
        p->planes = MOST_CHANNELS;
        while (p->planes > 1 && (d->channels + p->planes - 1) / p->planes * d->batch < 8 * d->threads) p->planes /= 2;
    }
    if (p->by_rows) {
        p->band = BAND / (d->right.size * step) < LEAST_BAND ? LEAST_BAND : BAND / (d->right.size * step);
        if (vectors <= 4) p->band = p->most_rows; /* one strip */
        p->taken = distance(p->planes * squared) + distance(6 * vectors * lanes);
        p->taken += distance(vectors * BYTES_OF_STRIP / (long)sizeof(float));
    } else if (p->narrow) {
        p->planes = lanes;
        p->row = p->needed;
        p->taken = distance(squared * lanes) + distance((d->down.size * p->row + 1) * lanes) + distance(area * lanes);
        p->taken += distance(d->down.size * d->right.size);
    } else {
        p->direct = d->down.phases == 1 && d->right.phases == 1 && d->down.window <= TALLEST;
        p->pitch = (p->needed + d->right.step - 1) / d->right.step;
        if (d->right.step <= 2) p->pitch = (p->pitch + lanes - 1) / lanes * lanes; /* of rows that are whole vectors */
        p->row = p->pitch * d->right.step;
        p->band = p->most_rows;
        if (p->row * ((p->most_rows - 1) * d->down.step + p->more_rows) > BAND) { /* in the first cache, with rows of tiles */
            p->band = (BAND / (p->row ? p->row : 1) - p->more_rows) / d->down.step / TALLEST * TALLEST;
            if (p->band < TALLEST) p->band = TALLEST;
            if (p->band > p->most_rows) p->band = p->most_rows;
        }
        p->apart = (columns + lanes - 1) / lanes * lanes;
        p->sums = p->direct ? 0 : d->down.phases * d->right.phases * p->band * p->apart;
        long rows = (p->band - 1) * d->down.step + p->more_rows;
        p->taken = distance(p->planes * squared) + distance((rows + 1) * p->row + 4 * lanes + d->right.window);
        p->taken += distance(p->sums + lanes) + distance(d->right.window);
        p->taken += distance(p->row / lanes + 1) + distance(d->right.results + 4 * lanes);
    }
    long all = (d->channels + p->planes - 1) / p->planes * d->batch, threads = d->threads < all ? d->threads : all;
    for (long example = 0; example < examples; example++) {
        tg_split(tasks, p, (int)threads);
        d->x += d->batch * d->channels * d->down.size * d->right.size;
        d->w += d->channels * squared;
        d->y += d->batch * d->channels * area;
        epilogue_next(&d->after, d->channels, d->batch * d->channels * area);
    }
}

static void weights_tasks(void *given, int number, int count) {
    const plan *p = given;
    long blocks = (p->of->channels + p->planes - 1) / p->planes, end = tg_begin(blocks, number + 1, count);
    size_t bytes = (size_t)p->taken * sizeof(float) + ALIGNED;
    void *memory = tg_workspace(bytes);
    float *work = aligned_floats(memory);
    memset(work, 0, (size_t)p->taken * sizeof(float));
    for (long block = tg_begin(blocks, number, count); block < end; block++)
#ifdef SEVERAL_PROCESSORS
        if (p->of->level == 2) weights_of_2(p, block, work);
        else if (p->of->level == 1) weights_of_1(p, block, work);
        else
#endif
            weights_of_0(p, block, work);
    tg_leave(memory, bytes);
}

/* Gradients of weights, y (channel, window), of those of results in place of weights, (batch, channels, rows, columns): of a
   window whose elements are `below` and `beside` apart. */
void tg_depthwise_weights(const tg_depthwise *given, long below, long beside, long examples) {
    tg_depthwise one = *given, *d = &one;
    plan made = {.of = d, .below = below, .beside = beside, .origin_right = -d->right.cut}, *p = &made;
    long lanes = d->level == 2 ? 16 : d->level == 1 ? 8 : 4, squared = d->down.window * d->right.window;
    long area = d->down.size * d->right.size, results = d->down.results * d->right.results;
    long high = p->most_rows = (d->down.results - 1) * d->down.step + (d->down.window - 1) * below + 1;
    p->needed = (d->right.results - 1) * d->right.step + (d->right.window - 1) * beside + 1;
    p->narrow = d->right.results <= WIDEST && 2 * d->right.results <= lanes && area >= lanes && results >= lanes
                && d->channels >= lanes;
    p->planes = p->narrow ? lanes : 1;
    p->taken = distance(squared * lanes);
    if (p->narrow) {
        p->row = p->needed;
        p->taken += distance((high * p->row + 1) * lanes) + distance(results * lanes) + distance(area) + distance(results);
    } else {
        p->pitch = (p->needed + d->right.step - 1) / d->right.step;
        if (d->right.step <= 2) p->pitch = (p->pitch + lanes - 1) / lanes * lanes;
        p->row = p->pitch * d->right.step;
        p->taken += distance((high + 1) * p->row + 4 * lanes) + distance(d->right.window) + distance(p->row / lanes + 1);
    }
    long blocks = (d->channels + p->planes - 1) / p->planes, threads = d->threads < blocks ? d->threads : blocks;
    for (long example = 0; example < examples; example++) {
        tg_split(weights_tasks, p, (int)threads);
        d->x += d->batch * d->channels * area;
        d->w += d->batch * d->channels * results;
        d->y += d->channels * squared;
    }
}

/* facts: threads; batch, channels, height, width, rows and columns of the window, steps down and to the right, padding above and
   to the left, rows and columns of results, whether weights are turned, from the last element of the window to the
   first; the kind of processor at most; examples; how many steps its epilogue has, and these (epilogue.h). Operands: x (batch,
   channels, height, width), weights (channel, window), and those of steps. Result: (batch, channels, rows, columns). */
void tg_depthwise_convolution(void **buffers, const long long *facts) {
    int back = (int)facts[13];
    tg_depthwise d = {.y = buffers[0], .x = buffers[1], .w = buffers[2], .threads = facts[0], .batch = facts[1],
                      .channels = facts[2], .back = back, .level = (int)facts[14],
                      .after = epilogue_of(facts + 17, (long)facts[16], buffers + 3),
                      .down = {facts[5], facts[3], facts[11], facts[7], 1, facts[9]},
                      .right = {facts[6], facts[4], facts[12], facts[8], 1, facts[10]}};
    if (back) d.down.cut = d.down.window - 1 - d.down.cut, d.right.cut = d.right.window - 1 - d.right.cut;
    tg_depthwise_planes(&d, facts[15]);
}
