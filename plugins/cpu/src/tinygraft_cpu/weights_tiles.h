/* Tiles of the gradient of a convolution's weights, for one kind of processor: see weights.c. */

typedef float NAME(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(float)), may_alias));
typedef int NAME(places) __attribute__((vector_size(WIDTH)));

#define LANES ((long)(WIDTH / sizeof(float)))
#define INLINE static inline __attribute__((always_inline)) TARGET
enum { NAME(deepest) = ROWS == 8 ? 4 : 2 }; /* vectors of filters of a tile: with 32 registers, or 16 */
#include "interleave.h"
#include "filter_tiles.h"

TARGET static __attribute__((noinline)) void NAME(products)(int deep, long tiles, long terms, const float *g,
                                                            const float *x, const int *from, const int *place,
                                                            float *sums, int first) {
#define EACH(deep) \
    for (long i = 0; i < tiles; i++) \
        NAME(multiply_filters)(deep, terms, g, x, from, place + i * POSITIONS, sums + i * POSITIONS * deep * LANES, first, 1)
    switch (deep) {
    case 1: EACH(1); break;
    case 2: EACH(2); break;
#if ROWS == 8
    case 3: EACH(3); break;
    default: EACH(4);
#endif
    }
#undef EACH
}

/* Copy `columns` elements of rows of one channel from (first, column) on, which may be outside of it, where there are zeros. */
INLINE void NAME(copy_part)(const gradient *job, const float *image, long first, long rows, long column, long columns,
                            float *to) {
    long begin = column < 0 ? -column : 0, end = job->width - column < columns ? job->width - column : columns;
    if (begin > columns) begin = columns;
    if (end < begin) end = begin;
    for (long row = first; row < first + rows; row++, to += job->pitch) {
        long k = 0;
        if (row >= 0 && row < job->height) {
            const float *from = image + row * job->width + column;
            for (; k < begin; k++) to[k] = 0;
            for (; k + LANES <= end; k += LANES) *(NAME(vector) *)(to + k) = *(const NAME(vector) *)(from + k);
            if (k < end && end - begin >= LANES) /* some once more */
                *(NAME(vector) *)(to + end - LANES) = *(const NAME(vector) *)(from + end - LANES);
            else
                for (; k < end; k++) to[k] = from[k];
            k = end;
        }
        for (; k < columns; k++) to[k] = 0;
    }
}

/* Pack gradients of `terms` results, one after another in memory, as (result, filter), `deep` vectors. */
INLINE void NAME(pack)(const gradient *job, const float *g, long filter, int deep, long terms, float *to) {
    long width = deep * LANES, area = job->rows * job->columns;
    for (long v = 0; v < deep; v++) {
        const float *at = g + (filter + v * LANES) * area;
        for (long k = 0; k < terms; k += LANES)
            NAME(turn)(at + k, area, job->filters - filter - v * LANES, terms - k, to + k * width + v * LANES, width);
    }
}

/* Compute the weights from `begin` to before `end` of a tile of filters, in `work`. */
TARGET static __attribute__((noinline)) void NAME(weights_of)(const gradient *job, long group, long tile, long begin,
                                                              long end, float *work) {
    if (tile * job->deep * LANES >= job->filters) return;
    float *packed = work + job->copied, *sums = packed + job->packed;
    int *from = (int *)(sums + job->summed), *place = from + distance(job->images * job->lines * job->places);
    long squared = job->tall * job->wide, area = job->rows * job->columns, c = begin / squared;
    long channels = (end - 1) / squared + 1 - c, every = channels * job->plane;
    long filter = tile * job->deep * LANES, left = (job->filters - filter + LANES - 1) / LANES;
    int deep = (int)(left < job->deep ? left : job->deep), first = 1;
    long width = deep * LANES, count = 0;
    for (long n = 0, k = 0; n < job->images; n++)
        for (long y = 0; y < job->lines; y++)
            for (long x = 0; x < job->places; x++)
                from[k++] = (int)(n * every + y * job->down * job->pitch + x * job->right);
    for (long k = begin; k < end; k++)
        place[count++] = (int)((k / squared - c) * job->plane + k % squared / job->wide * job->below * job->pitch
                               + k % job->wide * job->beside);
    for (; count % POSITIONS; count++) place[count] = place[count - 1];
    for (long n = 0; n < job->batch; n += job->images)
        for (long row = 0; row < job->rows; row += job->lines)
            for (long column = 0; column < job->columns; column += job->places) {
                long images = job->batch - n < job->images ? job->batch - n : job->images;
                long lines = job->rows - row < job->lines ? job->rows - row : job->lines;
                long places = job->columns - column < job->places ? job->columns - column : job->places;
                for (long i = 0; i < images; i++)
                    for (long at = 0; at < channels; at++)
                        NAME(copy_part)(job, job->x + (((n + i) * job->groups + group) * job->channels + c + at) * job->height * job->width,
                                        row * job->down - job->top, (lines - 1) * job->down + (job->tall - 1) * job->below + 1,
                                        column * job->right - job->left,
                                        (places - 1) * job->right + (job->wide - 1) * job->beside + 1,
                                        work + i * every + at * job->plane);
                const float *g = job->g + (n * job->groups + group) * job->filters * area;
                if (job->images > 1) {
                    for (long i = 0; i < images; i++)
                        NAME(pack)(job, g + i * job->groups * job->filters * area, filter, deep, area, packed + i * area * width);
                    NAME(products)(deep, count / POSITIONS, images * area, packed, work, from, place, sums, first);
                    first = 0;
                    continue;
                }
                for (long y = 0; y < lines; y += job->chunk)
                    for (long x = 0; x < places; x += job->part) {
                        long tall = lines - y < job->chunk ? lines - y : job->chunk;
                        long terms = tall * (places - x < job->part ? places - x : job->part);
                        NAME(pack)(job, g + (row + y) * job->columns + column + x, filter, deep, terms, packed);
                        NAME(products)(deep, count / POSITIONS, terms, packed, work, from + y * job->places + x, place, sums,
                                       first);
                        first = 0;
                    }
            }
    float *y = job->y + (group * job->filters + filter) * job->weights + begin;
    for (long v = 0; v < width && filter + v < job->filters; v += LANES, y += LANES * job->weights) {
        long filters = job->filters - filter - v < LANES ? job->filters - filter - v : LANES;
        for (long k = 0; k < end - begin; k += LANES) {
            if (filters == LANES && end - begin >= LANES) {
                if (k + LANES > end - begin) k = end - begin - LANES; /* some once more */
                NAME(turn)(sums + k * width + v, width, LANES, LANES, y + k, job->weights);
            } else
                for (long f = 0; f < filters; f++)
                    for (long i = k; i < end - begin && i < k + LANES; i++) y[f * job->weights + i] = sums[i * width + v + f];
        }
    }
}

#undef LANES
#undef INLINE
