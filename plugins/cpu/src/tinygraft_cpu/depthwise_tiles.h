/* Tiles of depthwise convolutions, for one kind of processor: see depthwise.c. */

typedef float NAME(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(float)), may_alias));
typedef int NAME(places) __attribute__((vector_size(WIDTH)));

#define LANES ((long)(WIDTH / sizeof(float)))
#define INLINE static inline __attribute__((always_inline)) TARGET
#define AT(p) (*(NAME(vector) *)(p))
#define GIVEN(p) (*(const NAME(vector) *)(p))
/* of 16 registers 7 have sums, as many as two multipliers keep waiting, and up to 7 the weights of a column */
enum { NAME(tile_rows) = ROWS == 8 || WIDTH == 32 ? 7 : 4, NAME(tile_vectors) = ROWS == 8 ? 2 : 1 };
/* GCC would load an element again for each product, and vectors that cross a line of the cache take two turns */
#if WIDTH == 64
#define LOADED_ONCE(x) __asm__("" : "+v"(x))
#else
#define LOADED_ONCE(x)
#endif
#include "interleave.h"
#include "filter_tiles.h"

/* Store the first `count` lanes. */
INLINE void NAME(store_part)(float *to, NAME(vector) x, long count) {
#if WIDTH == 64
    _mm512_mask_storeu_ps(to, (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1), (__m512)x);
#else
    if (count >= LANES) AT(to) = x;
    else
        for (long i = 0; i < count; i++) to[i] = ((const float *)&x)[i];
#endif
}

/* Load the lanes of which `lanes` has a bit, and zeros for all others. */
INLINE NAME(vector) NAME(load_lanes)(const float *from, uint32_t lanes) {
#if WIDTH == 64
    return (NAME(vector))_mm512_maskz_loadu_ps((__mmask16)lanes, from);
#else
    if (lanes == (1u << LANES) - 1) return GIVEN(from);
    float found[LANES];
    for (long i = 0; i < LANES; i++) found[i] = lanes >> i & 1 ? from[i] : 0;
    return GIVEN(found);
#endif
}

/* The greater of each pair; NaN where one is NaN. */
INLINE NAME(vector) NAME(greater)(NAME(vector) a, NAME(vector) b) {
    NAME(places) second = (b > a) | (b != b);
    return (NAME(vector))(((NAME(places))b & second) | ((NAME(places))a & ~second));
}

/* Do the steps of the epilogue with results y[0] to before y[count] of a channel: elements from `place` on of all results.
   They are still in the first cache. */
#define WITH_EACH(y_of_vector, y_of_one, result, result_of_one) \
    for (; k + LANES <= count; k += LANES) {                   \
        NAME(vector) a = GIVEN(y + k), b = y_of_vector;        \
        AT(y + k) = result;                                    \
    }                                                          \
    for (; k < count; k++) {                                   \
        float a = y[k], b = y_of_one;                          \
        y[k] = result_of_one;                                  \
    }
#define BY_EACH_OP(y_of_vector, y_of_one)                                                                  \
    switch (step->op) {                                                                                    \
    case BY_ADD: WITH_EACH(y_of_vector, y_of_one, a + b, a + b) break;                                     \
    case BY_SUB: WITH_EACH(y_of_vector, y_of_one, a - b, a - b) break;                                     \
    case BY_MUL: WITH_EACH(y_of_vector, y_of_one, a * b, a * b) break;                                     \
    default: WITH_EACH(y_of_vector, y_of_one, NAME(greater)(a, b), b > a || b != b ? b : a)                \
    }
TARGET static __attribute__((noinline)) void NAME(finish)(const epilogue *all, float *y, long count, long channel, long place) {
    for (long i = 0; i < all->count; i++) {
        const epilogue_step *step = all->steps + i;
        long k = 0;
        if (step->kind == OF_ELEMENT) {
            const float *of = step->operand + place;
            BY_EACH_OP(GIVEN(of + k), of[k])
        } else {
            float one = step->kind == A_NUMBER ? step->number : step->operand[channel];
            BY_EACH_OP(one - (NAME(vector)){0}, one)
        }
    }
}

/* The same for results of which those from y on are a part, if there are steps. */
INLINE void NAME(finish_part)(const tg_depthwise *d, float *y, long count, long channel) {
    if (d->after.count) NAME(finish)(&d->after, y, count, channel, y - d->y);
}

/* Where a tile is: x[i * row + of[j]] is element (i, j) of the window for the first result of a row, that of the second
   vector `second` further; w[j * tall + i] its weight. Results are `apart`, of `count` lanes in the only or last vector;
   they are added to what there is if `more`. */
typedef struct {
    const float *x, *w;
    float *to;
    const int *of;
    long row, wide, second, apart, count, step;
    int more;
} NAME(tile);

INLINE void NAME(multiply)(const int tall, const int rows, const int vectors, const int step, const NAME(tile) *t) {
    NAME(vector) sum[7][2];
    long row = t->row, apart = t->apart, second = t->second;
#pragma GCC unroll 8
    for (int o = 0; o < rows; o++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[o][v] = (NAME(vector)){0};
    if (t->more) /* then results are rows of whole vectors */
#pragma GCC unroll 8
        for (int o = 0; o < rows; o++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[o][v] = GIVEN(t->to + o * apart + v * second);
    const float *w = t->w;
    for (long j = 0; j < t->wide; j++, w += tall) {
        const float *x = t->x + t->of[j];
#pragma GCC unroll 32
        for (int r = 0; r < (rows - 1) * step + tall; r++) {
            NAME(vector) here[2];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                here[v] = GIVEN(x + r * row + v * second);
                LOADED_ONCE(here[v]);
            }
#pragma GCC unroll 8
            for (int o = 0; o < rows; o++)
                if (r >= o * step && r - o * step < tall)
#pragma GCC unroll 2
                    for (int v = 0; v < vectors; v++) sum[o][v] += w[r - o * step] * here[v];
        }
    }
#pragma GCC unroll 8
    for (int o = 0; o < rows; o++) {
        if (vectors == 2) {
            AT(t->to + o * apart) = sum[o][0];
            AT(t->to + o * apart + second) = sum[o][1];
        } else NAME(store_part)(t->to + o * apart, sum[o][0], t->count);
    }
}

#define ONE(tall, rows, vectors, step) \
    TARGET static __attribute__((noinline)) void NAME(multiply_##tall##rows##vectors##step)(const NAME(tile) *t) { \
        NAME(multiply)(tall, rows == 1 ? 1 : NAME(tile_rows), vectors, step, t); \
    }
#if ROWS == 8
#define OF_TALL(tall) \
    ONE(tall, 1, 1, 1) ONE(tall, 1, 2, 1) ONE(tall, 7, 1, 1) ONE(tall, 7, 2, 1) ONE(tall, 7, 1, 2) ONE(tall, 7, 2, 2)
#define LISTED(t) \
    {{NAME(multiply_##t##111), NAME(multiply_##t##121)}, {NAME(multiply_##t##711), NAME(multiply_##t##721)}, \
     {NAME(multiply_##t##712), NAME(multiply_##t##722)}}
#else
#define OF_TALL(tall) ONE(tall, 1, 1, 1) ONE(tall, 7, 1, 1) ONE(tall, 7, 1, 2)
#define LISTED(t) {{NAME(multiply_##t##111), 0}, {NAME(multiply_##t##711), 0}, {NAME(multiply_##t##712), 0}}
#endif
OF_TALL(1) OF_TALL(2) OF_TALL(3) OF_TALL(4) OF_TALL(5) OF_TALL(6) OF_TALL(7)

/* Sums of a window of `tall` rows over rows and columns of results. */
TARGET static void NAME(sums_of)(NAME(tile) t, long tall, long rows, long columns, int whole) {
    static void (*const known[TALLEST][3][2])(const NAME(tile) *) = {LISTED(1), LISTED(2), LISTED(3), LISTED(4),
                                                                     LISTED(5), LISTED(6), LISTED(7)};
    long step = t.step, many = NAME(tile_rows), kind = step > 2 || rows < many ? 0 : step;
    if (kind == 0) many = 1;
    const float *x = t.x;
    float *to = t.to;
    for (long row = 0; row < rows; row += many) {
        if (row + many > rows) row = rows - many; /* some once more */
        if (t.more && row % many) {               /* but none is added twice */
            kind = 0, row = (rows / many) * many, many = 1;
        }
        for (long column = 0; column < columns;) {
            long left = columns - column, vectors = 1;
            t.second = 0, t.count = left;
            if (whole) t.count = LANES;
            if (left > LANES && NAME(tile_vectors) == 2) {
                vectors = 2, t.second = whole || left >= 2 * LANES ? LANES : left - LANES;
            } else if (left < LANES && columns > LANES && !whole) column = columns - LANES, t.count = LANES;
            t.x = x + row * step * t.row + column, t.to = to + row * t.apart + column;
            known[tall - 1][kind][vectors - 1](&t);
            column += t.second + LANES;
        }
    }
}

/* The same of one row of results by one row of the window: parts of it are the rows of a tile, whose sums do not wait for each
   other. */
TARGET static void NAME(sums_of_row)(NAME(tile) t, long columns) {
    long many = NAME(tile_rows), part = columns / many / LANES * LANES, done = many * part;
    if (part) {
        t.row = t.apart = part, t.step = 1;
        NAME(sums_of)(t, 1, many, part, 0);
    }
    t.x += done, t.to += done;
    if (columns > done) NAME(sums_of)(t, 1, 1, columns - done, 0);
}

/* Note which elements of a row of a copy are inside of x, a bit each, LANES in a number. */
INLINE void NAME(list_inside)(const plan *p, uint32_t *inside) {
    memset(inside, 0, (size_t)(p->row / LANES + 1) * sizeof *inside);
    for (long k = 0; k < p->row; k++)
        if (k + p->origin_right >= 0 && k + p->origin_right < p->of->right.size && k < p->needed)
            inside[k / LANES] |= 1u << k % LANES;
}

/* Copy the rows of x that a band reads, with zeros around, each in the parts of every step-th element. `inside` has a bit for
   each element of a copy that is inside of x. */
INLINE void NAME(copy_rows)(const plan *p, const float *x, long first, long rows, const uint32_t *inside, float *to) {
    const tg_depthwise *d = p->of;
    long width = d->right.size, step = d->right.step, pitch = p->pitch, row_of = p->row, height = d->down.size;
    for (long row = first; row < first + rows; row++, to += row_of) {
        if (row < 0 || row >= height) {
            memset(to, 0, (size_t)row_of * sizeof(float));
            continue;
        }
        const float *from = x + row * width + p->origin_right;
        if (step == 1)
            for (long k = 0; k < row_of; k += LANES) AT(to + k) = NAME(load_lanes)(from + k, inside[k / LANES]);
        else if (step == 2)
            for (long i = 0; i < pitch; i += LANES) {
                NAME(vector) a = NAME(load_lanes)(from + 2 * i, inside[2 * i / LANES]);
                NAME(vector) b = NAME(load_lanes)(from + 2 * i + LANES, inside[2 * i / LANES + 1]);
                AT(to + i) = SHUFFLED(a, b, NAME(places), EVEN);
                AT(to + pitch + i) = SHUFFLED(a, b, NAME(places), ODD);
            }
        else
            for (long part = 0; part < step; part++)
                for (long i = 0; i < pitch; i++) {
                    long k = i * step + part;
                    to[part * pitch + i] = inside[k / LANES] >> k % LANES & 1 ? from[k] : 0;
                }
    }
}

/* Store a row of results whose phases are in rows of sums, `apart`: result q * phases + r. */
INLINE void NAME(store_phases)(const float *sums, long apart, long phases, long columns, float *line, float *y) {
    if (phases == 1) {
        long k = 0;
        for (; k + LANES <= columns; k += LANES) AT(y + k) = GIVEN(sums + k);
        NAME(store_part)(y + k, GIVEN(sums + k), columns - k);
        return;
    }
    if (phases == 2) {
        long q = 0;
        for (; 2 * (q + LANES) <= columns; q += LANES) {
            NAME(vector) a = GIVEN(sums + q), b = GIVEN(sums + apart + q);
            AT(y + 2 * q) = SHUFFLED(a, b, NAME(places), FIRST);
            AT(y + 2 * q + LANES) = SHUFFLED(a, b, NAME(places), SECOND);
        }
        if (2 * q < columns) {
            NAME(vector) a = GIVEN(sums + q), b = GIVEN(sums + apart + q);
            NAME(store_part)(y + 2 * q, SHUFFLED(a, b, NAME(places), FIRST), columns - 2 * q);
            if (columns - 2 * q > LANES)
                NAME(store_part)(y + 2 * q + LANES, SHUFFLED(a, b, NAME(places), SECOND), columns - 2 * q - LANES);
        }
        return;
    }
    for (long r = 0; r < phases; r++)
        for (long q = 0; q * phases + r < columns; q++) line[q * phases + r] = sums[r * apart + q];
    memcpy(y, line, (size_t)columns * sizeof(float));
}

/* Pack the window of a channel, by phases: (phase down, phase right, column, row). */
INLINE void NAME(pack_window)(const plan *p, const float *w, float *to) {
    const tg_depthwise *d = p->of;
    for (long a = 0; a < d->down.phases; a++)
        for (long b = 0; b < d->right.phases; b++) {
            phase down = phase_down(p, a), right = phase_right(p, b);
            /* parts of a window that is taller than tiles are one after another */
            for (long part = 0; part < down.terms; part += TALLEST)
                for (long j = 0; j < right.terms; j++)
                    for (long i = part; i < part + TALLEST && i < down.terms; i++)
                        *to++ = w[(down.first + i * down.apart) * d->right.window + right.first + j * right.apart];
        }
}

/* Results of a channel of one image, by rows of vectors. */
INLINE void NAME(plane)(const plan *p, const float *x, const float *windows, float *y, long channel, float *copy, float *sums,
                        float *line, const int *of, const uint32_t *inside) {
    const tg_depthwise *d = p->of;
    long columns = d->right.results, phases = d->down.phases, across = d->right.phases;
    for (long begin = 0; begin < p->most_rows; begin += p->band) {
        long end = begin + p->band < p->most_rows ? begin + p->band : p->most_rows;
        NAME(copy_rows)(p, x, begin * d->down.step + p->origin_down, (end - begin - 1) * d->down.step + p->more_rows, inside, copy);
        const float *w = windows;
        for (long a = 0; a < phases; a++) {
            phase down = phase_down(p, a);
            long last = end < down.results ? end : down.results;
            for (long b = 0; b < across; b++) {
                phase right = phase_right(p, b);
                float *to = p->direct ? y + begin * columns : sums + (a * across + b) * p->band * p->apart;
                NAME(tile) t = {.to = to, .of = of, .row = p->row, .wide = right.terms, .step = d->down.step,
                                .apart = p->direct ? columns : p->apart};
                int none = down.terms <= 0 || right.terms <= 0;
                if (none && !p->direct) memset(to, 0, (size_t)(p->band * p->apart) * sizeof(float));
                for (long part = 0; !none && part < down.terms; part += TALLEST) {
                    long tall = down.terms - part < TALLEST ? down.terms - part : TALLEST;
                    t.x = copy + (down.start - p->origin_down + part) * p->row + right.start - p->origin_right;
                    t.w = w, t.more = part > 0;
                    if (p->direct && tall == 1 && last - begin == 1) NAME(sums_of_row)(t, right.results);
                    else if (last > begin && right.results > 0)
                        NAME(sums_of)(t, tall, last - begin, right.results, !p->direct);
                    w += tall * right.terms;
                }
            }
        }
        if (p->direct) {
            NAME(finish_part)(d, y + begin * columns, (end - begin) * columns, channel);
            continue;
        }
        for (long q = begin; q < end; q++)
            for (long a = 0; a < phases && q * phases + a < d->down.results; a++)
                NAME(store_phases)(sums + (a * across * p->band + q - begin) * p->apart, p->band * p->apart, across, columns,
                                   line, y + (q * phases + a) * columns);
        long first = begin * phases, last = end * phases < d->down.results ? end * phases : d->down.results;
        NAME(finish_part)(d, y + first * columns, (last - first) * columns, channel);
    }
}

#if WIDTH >= 32
#include "depthwise_rows.h"
#endif

/* to[place[k]] has elements k of `count` planes at x, `area` apart, as a vector. */
INLINE void NAME(planes_to_lanes)(const float *x, long area, long count, const int *place, float *to) {
    for (long k = 0; k < area; k += LANES) {
        NAME(vector) all[LANES];
        if (k + LANES > area) k = area - LANES; /* some once more */
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) all[i] = GIVEN(x + (i < count ? i : count - 1) * area + k);
        NAME(transpose)(all);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) AT(to + place[k + i]) = all[i];
    }
}

INLINE void NAME(lanes_to_planes)(const float *x, long area, long count, float *y) {
    for (long k = 0; k < area; k += LANES) {
        NAME(vector) all[LANES];
        if (k + LANES > area) k = area - LANES;
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) all[i] = GIVEN(x + (k + i) * LANES);
        NAME(transpose)(all);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (i < count) AT(y + i * area + k) = all[i];
    }
}

/* `count` results of a row in lanes that are channels: `step` vectors of x apart, their results `apart` floats. */
INLINE void NAME(row_of_lanes)(const int count, const float *x, long row, long step, const float *w, long tall, long wide,
                               long every, float *to, long apart) {
    NAME(vector) sum[WIDEST];
#pragma GCC unroll 8
    for (int q = 0; q < count; q++) sum[q] = (NAME(vector)){0};
    for (long i = 0; i < tall; i++, x += row * LANES, w += every * LANES)
        for (long j = 0; j < wide; j++) {
            NAME(vector) weight = GIVEN(w + j * LANES);
#pragma GCC unroll 8
            for (int q = 0; q < count; q++) sum[q] += weight * GIVEN(x + (j + q * step) * LANES);
        }
#pragma GCC unroll 8
    for (int q = 0; q < count; q++) AT(to + q * apart) = sum[q];
}

TARGET static __attribute__((noinline)) void NAME(some_of_lanes)(long count, const float *x, long row, long step,
                                                                 const float *w, long tall, long wide, float *to,
                                                                 long apart) {
    switch (count) {
#define CASE(n) \
    case n: NAME(row_of_lanes)(n, x, row, step, w, tall, wide, wide, to, apart); break;
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
    default: NAME(row_of_lanes)(8, x, row, step, w, tall, wide, wide, to, apart);
    }
#undef CASE
}

/* Results of LANES channels of one image, of which `count` are there. */
INLINE void NAME(planes_in_lanes)(const plan *p, const float *x, const float *windows, float *y, long count, float *copy,
                                  float *sums, const int *place) {
    const tg_depthwise *d = p->of;
    long columns = d->right.results, height = d->down.size;
    NAME(planes_to_lanes)(x, height * d->right.size, count, place, copy);
    for (long a = 0; a < d->down.phases; a++)
        for (long b = 0; b < d->right.phases; b++) {
            phase down = phase_down(p, a), right = phase_right(p, b);
            long wide = right.terms > 0 ? right.terms : 0;
            for (long q = 0; q < down.results && right.results > 0; q++) {
                long first = q * d->down.step + down.start, skip = first < 0 ? -first : 0, tall = down.terms;
                if (first + tall > height) tall = height - first;
                tall = tall > skip ? tall - skip : 0;
                if (!tall) first = skip = 0;
                NAME(some_of_lanes)(right.results,
                                    copy + ((first + skip) * p->row + (wide ? right.start - p->origin_right : 0)) * LANES,
                                    p->row, d->right.step, windows + skip * wide * LANES, tall, wide,
                                    sums + ((q * d->down.phases + a) * columns + b) * LANES, d->right.phases * LANES);
            }
            if (down.terms > 0) windows += down.terms * wide * LANES;
        }
    NAME(lanes_to_planes)(sums, d->down.results * columns, count, y);
}

/* Results of a block of channels, of `images` images from `image` on, in `work`. */
TARGET static __attribute__((noinline)) void NAME(planes_of)(const plan *p, long block, long image, long images,
                                                             float *work) {
    const tg_depthwise *d = p->of;
    long channel = block * p->planes, count = d->channels - channel < p->planes ? d->channels - channel : p->planes;
    long squared = d->down.window * d->right.window, area = d->down.size * d->right.size;
    long results = d->down.results * d->right.results;
    const float *w = d->w + channel * squared;
    float *windows = work, *copy = work + distance((p->narrow ? LANES : p->planes) * squared);
    int strange = tg_strange(w, count * squared);
    if (p->narrow) {
        float *sums = copy + distance((d->down.size * p->row + 1) * LANES), *to = windows;
        int *place = (int *)(sums + distance(results * LANES));
        for (long y = 0, k = 0; y < d->down.size; y++)
            for (long x = 0; x < d->right.size; x++) {
                long at = x - p->origin_right; /* what no window reads is put behind all others */
                place[k++] = (int)((at < 0 || at >= p->row ? d->down.size * p->row : y * p->row + at) * LANES);
            }
        for (long a = 0; a < d->down.phases; a++)
            for (long b = 0; b < d->right.phases; b++) {
                phase down = phase_down(p, a), right = phase_right(p, b);
                for (long i = 0; i < down.terms; i++)
                    for (long j = 0; j < right.terms; j++)
                        for (long c = 0; c < LANES; c++)
                            *to++ = w[(c < count ? c : count - 1) * squared
                                      + (down.first + i * down.apart) * d->right.window + right.first + j * right.apart];
            }
        for (long n = image; n < image + images && !strange; n++) {
            float *y = d->y + (n * d->channels + channel) * results;
            NAME(planes_in_lanes)(p, d->x + (n * d->channels + channel) * area, windows, y, count, copy, sums, place);
            for (long c = 0; c < count; c++) NAME(finish_part)(d, y + c * results, results, channel + c);
        }
#if WIDTH >= 32
    } else if (p->by_rows) {
        long vectors = (d->right.results + LANES - 1) / LANES;
        NAME(known_strip) *strips = (NAME(known_strip) *)(copy + distance(6 * vectors * LANES));
        long strip_count = NAME(list_strips)(p, (NAME(ends) *)copy, strips);
        for (long c = 0; c < count; c++) NAME(pack_window)(p, w + c * squared, windows + c * squared);
        for (long n = image; n < image + images && !strange; n++)
            for (long c = 0; c < count; c++)
                NAME(plane_by_rows)(p, d->x + (n * d->channels + channel + c) * area, windows + c * squared,
                                    d->y + (n * d->channels + channel + c) * results, channel + c, strips, strip_count);
#endif
    } else {
        long rows = (p->band - 1) * d->down.step + p->more_rows;
        float *sums = copy + distance((rows + 1) * p->row + 4 * LANES + d->right.window);
        float *line = sums + distance(p->sums + LANES);
        int *of = (int *)(line + distance(d->right.results + 4 * LANES));
        uint32_t *inside = (uint32_t *)(of + distance(d->right.window));
        NAME(list_inside)(p, inside);
        for (long j = 0; j < d->right.window; j++) of[j] = (int)(j % d->right.step * p->pitch + j / d->right.step);
        for (long c = 0; c < count; c++) NAME(pack_window)(p, w + c * squared, windows + c * squared);
        for (long n = image; n < image + images && !strange; n++)
            for (long c = 0; c < count; c++)
                NAME(plane)(p, d->x + (n * d->channels + channel + c) * area, windows + c * squared,
                            d->y + (n * d->channels + channel + c) * results, channel + c, copy, sums, line, of, inside);
    }
    for (long n = image; n < image + images && strange; n++)
        for (long c = 0; c < count; c++) {
            float *y = d->y + (n * d->channels + channel + c) * results;
            one_after_another(d, d->x + (n * d->channels + channel + c) * area, w + c * squared, y);
            NAME(finish_part)(d, y, results, channel + c);
        }
}

#undef ONE
#undef OF_TALL
#undef WITH_EACH
#undef BY_EACH_OP
#undef LISTED
#include "depthwise_slopes.h"
#undef LANES
#undef INLINE
#undef AT
#undef LOADED_ONCE
#undef GIVEN
