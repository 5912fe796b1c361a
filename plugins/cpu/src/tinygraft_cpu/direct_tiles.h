/* Tiles of a direct convolution, for one kind of processor: see direct.c. */

typedef float NAME(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(float)), may_alias));
typedef int NAME(places) __attribute__((vector_size(WIDTH)));

#define LANES ((long)(WIDTH / sizeof(float)))
#define INLINE static inline __attribute__((always_inline)) TARGET
enum { NAME(deepest) = ROWS == 8 ? 4 : 2 }; /* vectors of filters of a tile: with 32 registers, or 16 */
#include "interleave.h"
#include "filter_tiles.h"

/* The same for tiles of all places, while the weights that come next are fetched: `rows` rows of some lines of the cache. */
INLINE void NAME(all_places)(const int deep, const direct *job, long count, long terms, const float *w, const float *x,
                             const int *place, float *sums, int first, const ahead *next) {
    long row = 0, lines = (next->row + LINE - 1) / LINE + 1, each = (next->rows + count - 1) / count;
    for (long i = 0; i < count; i++, place += POSITIONS, sums += POSITIONS * deep * LANES) {
        for (long end = row + each < next->rows ? row + each : next->rows; row < end; row++)
            for (long n = 0; n < lines; n++) __builtin_prefetch(next->start + row * next->pitch + n * LINE, 0, 2);
        NAME(multiply_filters)(deep, terms, w, x, job->from, place, sums, first, 0);
    }
}

TARGET static __attribute__((noinline)) void NAME(products)(int deep, const direct *job, long count, long terms,
                                                            const float *w, const float *x, const int *place,
                                                            float *sums, int first, const ahead *next) {
    switch (deep) {
    case 1: NAME(all_places)(1, job, count, terms, w, x, place, sums, first, next); break;
    case 2: NAME(all_places)(2, job, count, terms, w, x, place, sums, first, next); break;
#if ROWS == 8
    case 3: NAME(all_places)(3, job, count, terms, w, x, place, sums, first, next); break;
    default: NAME(all_places)(4, job, count, terms, w, x, place, sums, first, next);
#endif
    }
}

/* Pack weights of filters from `filter` on, of channels from `begin` to before `end`, as (term, filter), `deep` vectors. */
INLINE void NAME(pack)(const direct *job, const float *w, long filter, int deep, long begin, long end, float *to) {
    long squared = job->tall * job->wide, width = deep * LANES, terms = (end - begin) * squared;
    for (long v = 0; v < deep; v++) {
        long here = job->filters - filter - v * LANES;
        if (!job->turned) {
            const float *at = w + ((filter + v * LANES) * job->channels + begin) * squared;
            for (long k = 0; k < terms; k += LANES)
                NAME(turn)(at + k, job->channels * squared, here, terms - k, to + k * width + v * LANES, width);
            continue;
        }
        for (long c = begin; c < end; c++) {
            const float *at = w + (c * job->filters + filter + v * LANES) * squared;
            float *last = to + ((c - begin + 1) * squared - 1) * width + v * LANES;
            for (long k = 0; k < squared; k += LANES)
                NAME(turn)(at + k, squared, here, squared - k, last - k * width, -width);
        }
    }
}

/* Copy the rows that a band reads of one channel of an image, with zeros around it. */
INLINE void NAME(copy_plane)(const direct *job, const float *image, long first, long rows, float *plane) {
    long left = job->left < job->pitch ? job->left : job->pitch, width = job->width;
    if (left + width > job->pitch) width = job->pitch - left;
    for (long row = first; row < first + rows; row++, plane += job->pitch) {
        long k = 0;
        if (row >= 0 && row < job->height) {
            const float *from = image + row * job->width;
            for (; k < left; k++) plane[k] = 0;
            long i = 0;
            for (; i + LANES <= width; i += LANES) *(NAME(vector) *)(plane + left + i) = *(const NAME(vector) *)(from + i);
            if (i < width && width >= LANES) /* some once more */
                *(NAME(vector) *)(plane + left + width - LANES) = *(const NAME(vector) *)(from + width - LANES);
            else
                for (; i < width; i++) plane[left + i] = from[i];
            k = left + width;
        }
        for (; k < job->pitch; k++) plane[k] = 0;
    }
}

/* x[i] = x[i] `op` a vector `y` that may depend on i, for all of LANES vectors. */
#define FOR_EACH(y, result)                    \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) { \
        NAME(vector) a = x[i], b = y;          \
        x[i] = result;                         \
    }
#define WITH_EACH(y)                                                       \
    switch (step->op) {                                                    \
    case BY_ADD: FOR_EACH(y, a + b) break;                                 \
    case BY_SUB: FOR_EACH(y, a - b) break;                                 \
    case BY_MUL: FOR_EACH(y, a * b) break;                                 \
    default: FOR_EACH(y, NAME(greater)(a, b))                              \
    }

/* The greater of each pair; NaN where one is NaN. */
INLINE NAME(vector) NAME(greater)(NAME(vector) a, NAME(vector) b) {
    NAME(places) second = (b > a) | (b != b);
    return (NAME(vector))(((NAME(places))b & second) | ((NAME(places))a & ~second));
}

/* Do the steps of an epilogue with LANES results from y[at] on of as many filters, `apart` elements from each other, of
   which the first is `channel`. */
INLINE void NAME(finish)(const epilogue *all, float *y, long at, long apart, long channel) {
    NAME(vector) x[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) x[i] = *(const NAME(vector) *)(y + at + i * apart);
    for (long k = 0; k < all->count; k++) {
        const epilogue_step *step = all->steps + k;
        const float *of = step->operand;
        if (step->kind == OF_CHANNEL) {
            WITH_EACH(of[channel + i] - (NAME(vector)){0})
        } else if (step->kind == OF_ELEMENT) {
            WITH_EACH(*(const NAME(vector) *)(of + at + i * apart))
        } else {
            WITH_EACH(step->number - (NAME(vector)){0})
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) *(NAME(vector) *)(y + at + i * apart) = x[i];
}

/* Store the sums of the filters of a tile: (position, filter) of each image as (filter, position). */
INLINE void NAME(store)(const direct *job, const band *b, long filter, int deep, const float *sums) {
    long width = deep * LANES, here = (b->end - b->first) * job->columns, channel = b->group * job->filters + filter;
    for (long n = 0; n < b->images; n++, sums += here * width) {
        long of = ((b->image + n) * job->groups + b->group) * job->filters, area = job->rows * job->columns;
        for (long v = 0; v < width && filter + v < job->filters; v += LANES) {
            float *y = job->y + (of + filter + v) * area + b->first * job->columns;
            long filters = job->filters - filter - v < LANES ? job->filters - filter - v : LANES;
            for (long p = 0; p < here; p += LANES) {
                if (filters == LANES && here >= LANES) {
                    if (p + LANES > here) p = here - LANES; /* some once more */
                    NAME(turn)(sums + p * width + v, width, LANES, LANES, y + p, area);
                    if (job->after.count) NAME(finish)(&job->after, job->y, y + p - job->y, area, channel + v);
                } else
                    for (long f = 0; f < filters; f++)
                        for (long i = p; i < here && i < p + LANES; i++)
                            y[f * area + i] = epilogue_one(&job->after, sums[i * width + v + f], channel + v + f,
                                                           y + f * area + i - job->y);
            }
        }
    }
}

/* Compute the results of tiles of filters from `first` to before `last` for a band, in `work` (see lay_out). */
TARGET static __attribute__((noinline)) void NAME(band_of)(const direct *job, const band *b, long first, long last,
                                                           float *work) {
    long rows = b->end - b->first, taken = (rows - 1) * job->down + job->tall, area = job->height * job->width;
    long squared = job->tall * job->wide, every = job->channels * job->plane, count = 0;
    float *planes = work, *weights = planes + job->together * every, *sums = weights + job->packed;
    int *place = (int *)(sums + job->summed);
    for (long n = 0; n < b->images; n++) {
        const float *image = job->x + ((b->image + n) * job->groups + b->group) * job->channels * area;
        for (long c = 0; c < job->channels; c++)
            NAME(copy_plane)(job, image + c * area, b->first * job->down - job->top, taken, planes + n * every + c * job->plane);
        for (long y = 0; y < rows; y++)
            for (long x = 0; x < job->columns; x++)
                place[count++] = (int)(n * every + y * job->down * job->pitch + x * job->right);
    }
    for (; count % POSITIONS; count++) place[count] = place[count - 1];
    const float *w = job->w + b->group * job->channels * job->filters * squared;
    for (long tile = first; tile < last; tile++) {
        long filter = tile * NAME(deepest) * LANES, left = (job->filters - filter + LANES - 1) / LANES;
        int deep = left < NAME(deepest) ? (int)left : NAME(deepest);
        int strange = 0;
        for (long c = 0; c < job->channels; c += job->at_once) {
            long end = c + job->at_once < job->channels ? c + job->at_once : job->channels;
            NAME(pack)(job, w, filter, deep, c, end, weights);
            strange |= job->turned && tg_strange(weights, (end - c) * squared * deep * LANES);
            ahead next = weights_after(job, w, filter, deep * LANES, c, NAME(deepest) * LANES);
            NAME(products)(deep, job, count / POSITIONS, (end - c) * squared, weights, planes + c * job->plane, place, sums,
                           c == 0, &next);
        }
        NAME(store)(job, b, filter, deep, sums);
        if (strange) borders_again(job, b, filter, filter + deep * LANES);
    }
}

#undef FOR_EACH
#undef WITH_EACH
#undef LANES
#undef INLINE
