/* Tiles of a transposed convolution, for one kind of processor: see transposed.c. */

typedef float NAME(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(float)), may_alias));

enum { NAME(rows_of_tile) = ROWS };
#define LANES ((long)(WIDTH / sizeof(float)))
#define INLINE static inline __attribute__((always_inline)) TARGET

#if WIDTH == 64
#define FIRST_LANES(count) ((count) <= 0 ? 0 : (count) < LANES ? (1u << (count)) - 1 : 0xffff)
#endif

/* sums[row][column] of `vectors` vectors of columns: of x[from[k] + column] * w[k][row] over `terms` terms k. */
INLINE void NAME(multiply)(const int vectors, long terms, const float *w, const float *x, const int *from, float *sums,
                           long to) {
    NAME(vector) sum[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) sum[r][i] = (NAME(vector)){0};
    for (long k = 0; k < terms; k++, w += ROWS) {
        const float *at = x + from[k];
        NAME(vector) right[VECTORS];
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) right[i] = *(const NAME(vector) *)(at + i * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
            for (int i = 0; i < vectors; i++) sum[r][i] += w[r] * right[i];
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) *(NAME(vector) *)(sums + r * to + i * LANES) = sum[r][i];
}

/* The same of `columns` columns, in whole vectors. */
TARGET static __attribute__((noinline)) void NAME(products)(long columns, long terms, const float *w, const float *x,
                                                            const int *from, float *sums, long to) {
    long i = 0;
#if VECTORS >= 3
    for (; i + 2 * LANES < columns; i += 3 * LANES) NAME(multiply)(3, terms, w, x + i, from, sums + i, to);
#endif
    for (; i + LANES < columns; i += 2 * LANES) NAME(multiply)(2, terms, w, x + i, from, sums + i, to);
    for (; i < columns; i += LANES) NAME(multiply)(1, terms, w, x + i, from, sums + i, to);
}

/* Copy n floats. */
INLINE void NAME(copy)(float *restrict to, const float *restrict from, long n) {
    long i = 0;
    if (n < LANES) {
        for (; i < n; i++) to[i] = from[i];
        return;
    }
    for (; i + LANES <= n; i += LANES) *(NAME(vector) *)(to + i) = *(const NAME(vector) *)(from + i);
    if (i < n) *(NAME(vector) *)(to + n - LANES) = *(const NAME(vector) *)(from + n - LANES);
}

/* Copy the rows that a band reads of one channel, with zeros around them: once, or for each place in a row from which
   windows read, without zeros between rows. */
INLINE void NAME(copy_plane)(const transposed *job, const float *image, long first, long rows, float *planes) {
    for (long copy = 0; copy < job->copies; copy++) {
        float *plane = planes + copy * job->each;
        long shift = job->dense ? job->right.least + copy : 0, from = shift < 0 ? -shift : 0;
        long to = job->width - shift < job->pitch ? job->width - shift : job->pitch;
        for (long i = 0; i < job->before; i++) plane[i] = 0;
        plane += job->before;
#if WIDTH == 64
        const float *x = image + first * job->width + shift;
        for (long row = first; row < first + rows; row++, x += job->width, plane += job->pitch)
            for (long k = 0; k < job->pitch; k += LANES) { /* what is written beyond a row is written again with the next one */
                uint32_t inside = row >= 0 && row < job->height ? FIRST_LANES(to - k) & ~FIRST_LANES(from - k) : 0;
                __builtin_prefetch(x + k + job->height * job->width); /* of the next channel */
                *(NAME(vector) *)(plane + k) = (NAME(vector))_mm512_maskz_loadu_ps((__mmask16)inside, x + k);
            }
#else
        for (long row = first; row < first + rows; row++, plane += job->pitch) {
            long k = 0;
            if (row >= 0 && row < job->height && from < to) {
                for (; k < from; k++) plane[k] = 0;
                NAME(copy)(plane + from, image + row * job->width + shift + from, to - from);
                k = to;
            }
            for (; k < job->pitch; k++) plane[k] = 0;
        }
#endif
        for (long i = 0; i < job->before + LANES; i++) plane[i] = 0; /* what the last vector reads beyond */
    }
}

#include "interleave.h"
typedef int NAME(places) __attribute__((vector_size(WIDTH)));

/* Store a vector of even results and one of odd ones, in turns. */
INLINE void NAME(interleave)(float *to, const float *even, const float *odd) {
    NAME(vector) a = *(const NAME(vector) *)even, b = *(const NAME(vector) *)odd;
    *(NAME(vector) *)to = SHUFFLED(a, b, NAME(places), FIRST);
    *(NAME(vector) *)(to + LANES) = SHUFFLED(a, b, NAME(places), SECOND);
}

/* Store a row of results: element q of phase r of `sums`, which are `apart`, is result q * stride + r. */
INLINE void NAME(store_row)(const transposed *job, const float *sums, long apart, float *restrict row,
                            float *restrict y) {
    long stride = job->right.stride, columns = job->right.results;
    if (stride == 1) {
        NAME(copy)(y, sums, columns);
        return;
    }
    if (stride == 2) {
        long pairs = columns / 2;
        float *to = pairs < LANES ? row : y;
        for (long q = 0, last = pairs < LANES ? 0 : pairs - LANES;; q = q + LANES < last ? q + LANES : last) {
            NAME(interleave)(to + 2 * q, sums + q, sums + apart + q);
            if (q == last) break;
        }
        if (pairs < LANES) NAME(copy)(y, row, 2 * pairs);
        if (columns % 2) y[columns - 1] = sums[pairs];
        return;
    }
    for (long phase = 0; phase < stride; phase++)
        for (long q = 0; q * stride + phase < columns; q++) row[q * stride + phase] = sums[phase * apart + q];
    NAME(copy)(y, row, columns);
}

/* Copy the rows that a band reads of all its images and channels, with zeros around them, to `planes`. */
TARGET static void NAME(copy_planes)(const transposed *job, const band *b, float *planes) {
    const axis *down = &job->down;
    long area = job->height * job->width, channels = job->channels;
    for (long n = 0; n < b->images; n++) {
        const float *image = job->x + ((b->image + n) * job->groups + b->group) * channels * area;
        for (long c = 0; c < channels; c++)
            NAME(copy_plane)(job, image + c * area, b->first + down->least, b->end - b->first + down->more,
                             planes + (n * channels + c) * job->plane);
    }
}

/* Compute the results of the filters of some tiles for a band, in `work` (see lay_out). */
TARGET static __attribute__((noinline)) void NAME(band_of)(const transposed *job, const band *b, long first, long last,
                                                           float *work) {
    const axis *down = &job->down, *right = &job->right;
    long pitch = job->pitch, rows = b->end - b->first, apart = job->apart;
    long every = job->channels * job->plane, end = b->end * down->stride;
    if (end > down->results) end = down->results;
    float *planes = work, *sums = planes + job->together * every, *row = sums + down->stride * right->stride * ROWS * apart;
    NAME(copy_planes)(job, b, planes);
    for (long tile = first; tile < last; tile++)
        for (long n = 0; n < b->images; n++) {
            const float *w = job->weights + (b->group * job->tiles + tile) * job->of_tile;
            const int *from = job->from;
            for (long i = 0; i < down->stride; i++)
                for (long j = 0; j < right->stride; j++) {
                    long last_row = phase_results(down, i) < b->end ? phase_results(down, i) : b->end;
                    long terms = job->channels * phase_terms(down, i) * phase_terms(right, j);
                    long columns = (last_row - b->first - 1) * pitch + phase_results(right, j);
                    if (last_row > b->first && phase_results(right, j) > 0)
                        NAME(products)(columns, terms, w, planes + n * every, from,
                                       sums + (i * right->stride + j) * ROWS * apart, apart);
                    w += terms * ROWS, from += terms;
                }
            float *y = job->y + ((b->image + n) * job->groups + b->group) * job->filters * down->results * right->results;
            for (long r = 0; r < ROWS && tile * ROWS + r < job->filters; r++)
                for (long q = 0, o = b->first * down->stride; q < rows; q++)
                    for (long i = 0; i < down->stride && o < end; i++, o++)
                        NAME(store_row)(job, sums + (i * right->stride * ROWS + r) * apart + q * pitch, ROWS * apart, row,
                                        y + ((tile * ROWS + r) * down->results + o) * right->results);
        }
}

#if WIDTH == 64
#include "filter_tiles.h"

/* sums[position][filter] of `width` results next to each other in a row and of two vectors of filters: see `multiply_filters`. */
INLINE void NAME(multiply_row)(const int width, long terms, const float *w, const float *x, const int *from, float *sums,
                               int first) {
    NAME(vector) sum[WIDEST_ROW][2];
#pragma GCC unroll 14
    for (int p = 0; p < width; p++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) sum[p][v] = first ? (NAME(vector)){0} : *(const NAME(vector) *)(sums + (2 * p + v) * LANES);
    for (long k = 0; k < terms; k++, w += 2 * LANES) {
        NAME(vector) a = *(const NAME(vector) *)w, b = *(const NAME(vector) *)(w + LANES);
        const float *at = x + from[k];
#pragma GCC unroll 14
        for (int p = 0; p < width; p++) sum[p][0] += at[p] * a, sum[p][1] += at[p] * b;
    }
#pragma GCC unroll 14
    for (int p = 0; p < width; p++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) *(NAME(vector) *)(sums + (2 * p + v) * LANES) = sum[p][v];
}

#define OF_WIDTH(width) \
    TARGET static __attribute__((noinline)) void NAME(row_of_##width)(long terms, const float *w, const float *x, \
                                                                      const int *from, float *sums, int first) { \
        NAME(multiply_row)(width, terms, w, x, from, sums, first); \
    }
OF_WIDTH(7) OF_WIDTH(8) OF_WIDTH(9) OF_WIDTH(10) OF_WIDTH(11) OF_WIDTH(12) OF_WIDTH(13) OF_WIDTH(14)

/* The sums of phase (i, j) of a band, of which each position has two vectors: rows are divided into parts of about one width. Rows of
   the window that are outside of the image are left out. */
INLINE void NAME(phase_of_rows)(const transposed *job, const band *b, long i, long j, const float *w, const float *x,
                                const int *from, float *sums) {
    static void (*const known[])(long, const float *, const float *, const int *, float *, int) = {
        NAME(row_of_7), NAME(row_of_8), NAME(row_of_9), NAME(row_of_10),
        NAME(row_of_11), NAME(row_of_12), NAME(row_of_13), NAME(row_of_14)};
    const axis *down = &job->down, *right = &job->right;
    long columns = phase_results(right, j), parts = (columns + WIDEST_ROW - 1) / WIDEST_ROW;
    long above = phase_terms(down, i), each = job->channels * phase_terms(right, j), start = phase_start(down, i);
    long end = phase_results(down, i) < b->end ? phase_results(down, i) : b->end, every = job->channels * job->plane;
    long rows = b->end - b->first;
    for (long k = 0; k == 0 || k < above * each; k += ROWS_AT_ONCE)
        for (long n = 0; n < b->images; n++)
            for (long q = b->first; q < end; q++) {
                long y = q - b->first, least = q + start - job->height + 1, most = q + start + 1; /* of rows of the window */
                long begin = least > 0 ? least * each : 0, stop = (most < above ? most : above) * each;
                int first = k <= begin;
                if (begin < k) begin = k;
                if (stop > k + ROWS_AT_ONCE) stop = k + ROWS_AT_ONCE;
                if (begin >= stop && k) continue;
                if (begin >= stop) begin = stop = 0, first = 1; /* there may be none at all */
                for (long part = 0; part < parts; part++) {
                    long column = part * columns / parts, width = (part + 1) * columns / parts - column;
                    known[width - LEAST_ROW](stop - begin, w + begin * job->rows, x + n * every + y * job->pitch + column,
                                             from + begin, sums + ((n * rows + y) * right->counts + column) * job->rows, first);
                }
            }
}

/* sums[position][filter] of a phase over `terms` terms, of which some are multiplied with all positions at once. */
TARGET static __attribute__((noinline)) void NAME(phase_of_filters)(int deep, long tiles, long terms, const float *w,
                                                                    const float *x, const int *from, const int *place,
                                                                    float *sums) {
    for (long k = 0; k == 0 || k < terms; k += AT_ONCE) {
        long here = terms - k < AT_ONCE ? terms - k : AT_ONCE;
#define EACH(deep) \
    for (long i = 0; i < tiles; i++) \
        NAME(multiply_filters)(deep, here, w + k * deep * LANES, x, from + k, place + i * POSITIONS, \
                               sums + i * POSITIONS * deep * LANES, k == 0, 0)
        switch (deep) {
        case 1: EACH(1); break;
        case 2: EACH(2); break;
        case 3: EACH(3); break;
        default: EACH(4);
        }
#undef EACH
    }
}

/* Load LANES results of a row, from x on, of LANES filters each: of one phase, or in turns of two or more. */
INLINE void NAME(load_results)(const transposed *job, const float *sums, long apart, long x, NAME(vector) *all) {
    long stride = job->right.stride, rows = job->rows, phase = x % stride, at = x / stride;
    const float *even = sums + phase * apart + at * rows;
    if (stride == 1) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) all[i] = *(const NAME(vector) *)(even + i * rows);
    } else if (stride == 2) {
        const float *odd = phase ? sums + (at + 1) * rows : even + apart;
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            all[2 * i] = *(const NAME(vector) *)(even + i * rows);
            all[2 * i + 1] = *(const NAME(vector) *)(odd + i * rows);
        }
    } else
        for (int i = 0; i < LANES; i++) {
            all[i] = *(const NAME(vector) *)(sums + phase * apart + at * rows);
            if (++phase == stride) phase = 0, at++;
        }
}

/* Store a row of results of LANES filters, or of those that there are: `sums` has (phase, position, filter), the phases of
   columns `apart`. Beyond a short row there are numbers that are not used. */
INLINE void NAME(store_filters)(const transposed *job, const float *sums, long apart, long filters, float *y, long area) {
    long columns = job->right.results;
    for (long x = 0; x < columns; x += LANES) {
        NAME(vector) all[LANES];
        if (x + LANES > columns && columns >= LANES) x = columns - LANES; /* some once more */
        NAME(load_results)(job, sums, apart, x, all);
        NAME(transpose)(all);
        if (filters == LANES && columns >= LANES) {
#pragma GCC unroll 16
            for (int f = 0; f < LANES; f++) *(NAME(vector) *)(y + f * area + x) = all[f];
            continue;
        }
        __mmask16 here = columns >= LANES ? 0xffff : (__mmask16)((1u << columns) - 1);
        for (long f = 0; f < filters; f++) _mm512_mask_storeu_ps(y + f * area + x, here, (__m512)all[f]);
    }
}

/* Pack the weights of a channel for a tile, `here` of its filters; see `pack`. */
TARGET static __attribute__((noinline)) void NAME(pack_filters)(const transposed *job, const float *w, long here, long c,
                                                                float *packed) {
    long squared = job->down.window * job->right.window;
    const int *start = job->start, *step = start + squared;
    for (long v = 0; v < job->rows; v += LANES)
        for (long k = 0; k < squared; k += LANES) {
            NAME(vector) all[LANES];
            long left = squared - k < LANES ? squared - k : LANES;
            __mmask16 there = (__mmask16)((1u << left) - 1);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                all[i] = (NAME(vector))_mm512_maskz_loadu_ps(v + i < here ? there : 0, w + (v + i) * squared + k);
            NAME(transpose)(all);
            for (long i = 0; i < left; i++)
                *(NAME(vector) *)(packed + start[k + i] + c * step[k + i] + v) = all[i];
        }
}

/* Compute the results of some tiles for a band, whose lanes are filters, in `work` (see lay_out). */
TARGET static __attribute__((noinline)) void NAME(filters_of)(const transposed *job, const band *b, long first, long last,
                                                              float *work) {
    const axis *down = &job->down, *right = &job->right;
    long rows = b->end - b->first, apart = job->apart, counts = right->counts;
    long every = job->channels * job->plane, end = b->end * down->stride, count = 0, area = down->results * right->results;
    if (end > down->results) end = down->results;
    float *planes = work, *sums = planes + job->together * every;
    int *place = (int *)(sums + down->stride * right->stride * apart);
    for (long n = 0; n < b->images; n++)
        for (long y = 0; y < rows; y++)
            for (long x = 0; x < counts; x++) place[count++] = (int)(n * every + y * job->pitch + x);
    for (; count % POSITIONS; count++) place[count] = place[count - 1];
    NAME(copy_planes)(job, b, planes);
    for (long tile = first; tile < last; tile++) {
        const float *w = job->weights + (b->group * job->tiles + tile) * job->of_tile;
        const int *from = job->from;
        for (long i = 0; i < down->stride; i++)
            for (long j = 0; j < right->stride; j++) {
                long terms = job->channels * phase_terms(down, i) * phase_terms(right, j);
                if (job->by_rows) NAME(phase_of_rows)(job, b, i, j, w, planes, from, sums + (i * right->stride + j) * apart);
                else NAME(phase_of_filters)(job->deep, count / POSITIONS, terms, w, planes, from, place,
                                       sums + (i * right->stride + j) * apart);
                w += terms * job->rows, from += terms;
            }
        for (long n = 0; n < b->images; n++)
            for (long v = 0; v < job->rows; v += LANES) {
                long filter = tile * job->rows + v, filters = job->filters - filter < LANES ? job->filters - filter : LANES;
                float *y = job->y + (((b->image + n) * job->groups + b->group) * job->filters + filter) * area;
                const float *of = sums + n * rows * counts * job->rows + v;
                for (long q = 0, o = b->first * down->stride; filters > 0 && q < rows; q++)
                    for (long i = 0; i < down->stride && o < end; i++, o++)
                        NAME(store_filters)(job, of + i * right->stride * apart + q * counts * job->rows, apart, filters,
                                            y + o * right->results, area);
            }
    }
}
#endif

#undef FIRST_LANES
#undef LANES
#undef INLINE
