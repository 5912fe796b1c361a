/* Depthwise convolutions of 3x3 in steps of 1 and 2 without a copy of x, for one kind of processor: see depthwise.c.

   Rows of x are read once, from the first to the last. Each is multiplied with all rows of the window, and the sums of the
   rows of results that it meets are in registers; a row of results is stored when the last of its rows has been added. Lanes
   beside x are left out of a load by masks, and rows above and below it by not being added. */

#if WIDTH == 64
typedef uint16_t NAME(lanes);
#define SET_LANE(k, set) (k |= (NAME(lanes))(1u << (set)))
#define WHOLE(k) ((k) == 0xffff)
#define MASKED(from, mask) ((NAME(vector))_mm512_maskz_loadu_ps(mask, from))
#else
typedef NAME(places) NAME(lanes);
#define SET_LANE(k, set) ((k)[set] = -1)
#define WHOLE(k) (_mm256_movemask_ps((__m256)(k)) == 0xff)
#define MASKED(from, mask) ((NAME(vector))_mm256_maskload_ps(from, (__m256i)(mask)))
#endif

/* Columns of results, some vectors of them: x[row * width] is what the first column of the window meets for the first of them,
   `first` the row for the first row of results, which may be outside. w[j * 3 + i] is a weight. inside[2 * j] are the lanes of
   x for the first vector and column j of the window, inside[2 * j + 1] those for the last one; in steps of 2 those of a pair of
   columns, in the first half of what the first vector is made of, and in the second one of the last. The last vector begins
   `last` elements after the first one, and `count` of its lanes are stored. */
typedef struct {
    const float *x, *w;
    float *y;
    const NAME(lanes) *inside;
    long width, columns, height, first, rows, last, count;
} NAME(strip);

#define UNROLLED _Pragma("GCC unroll 9")
/* which of the sums that are live is that of the row of results that meets row i of the window, in turn k */
#define LIVE(k, i) (((k) - (i) + 2 * step * live) / step % live)

/* Add the products of a row of x. Of a strip of several vectors only what is at its two ends may be outside. */
INLINE void NAME(add_row)(const int vectors, const int step, const int k, long last, const float *x, const NAME(lanes) *inside,
                          const NAME(vector) *w, NAME(vector) (*sum)[4]) {
    const int live = step == 1 ? 3 : 2;
    UNROLLED for (int j = 0; j < 3; j += step)
        UNROLLED for (int v = 0; v < vectors; v++) {
            const int begins = v == 0, ends = v + 1 == vectors;
            const float *from = x + j + (ends ? last : v * LANES) * step;
            NAME(vector) here[2];
            if (step == 1) here[0] = begins || ends ? MASKED(from, inside[2 * j + ends]) : GIVEN(from);
            else {
                NAME(vector) a = begins ? MASKED(from, inside[j]) : GIVEN(from);
                NAME(vector) b = ends ? MASKED(from + LANES, inside[j + 1]) : GIVEN(from + LANES);
                here[0] = SHUFFLED(a, b, NAME(places), EVEN);
                here[1] = SHUFFLED(a, b, NAME(places), ODD);
            }
            UNROLLED for (int part = 0; part < step && j + part < 3; part++) {
                LOADED_ONCE(here[part]);
                UNROLLED for (int i = 0; i < 3; i++)
                    if ((k + i) % step == 0) sum[LIVE(k, i)][v] += w[(j + part) * 3 + i] * here[part];
            }
        }
}

#define TURN(k)                                                                                                           \
    if ((k) < step * live) {                                                                                              \
        long row = s->first + at + (k), done = at + (k) - 2;                                                              \
        if (at + (k) >= total) return;                                                                                    \
        if (row >= 0 && row < s->height)                                                                                  \
            NAME(add_row)(vectors, step, k, s->last, s->x + row * s->width, inside, w, sum);                              \
        if ((k) % step == 0) {                                                                                            \
            if (done >= 0) {                                                                                              \
                float *to = s->y + done / step * s->columns;                                                              \
                UNROLLED for (int v = 0; v + 1 < vectors; v++) AT(to + v * LANES) = sum[LIVE(k, 2)][v];                   \
                NAME(store_part)(to + s->last, sum[LIVE(k, 2)][vectors - 1], s->count);                                   \
            }                                                                                                             \
            UNROLLED for (int v = 0; v < vectors; v++) sum[LIVE(k, 2)][v] = (NAME(vector)){0};                            \
        }                                                                                                                 \
    }

/* All rows of results of a strip. */
INLINE void NAME(slide)(const int vectors, const int step, const NAME(strip) *given) {
    const NAME(strip) own = *given, *s = &own; /* which no store of results changes */
    const int live = step == 1 ? 3 : 2;
    const long total = (s->rows - 1) * step + 3;
    NAME(vector) sum[3][4], w[9];
    NAME(lanes) inside[6];
    UNROLLED for (int j = 0; j < (step == 1 ? 6 : 4); j++) inside[j] = s->inside[j];
    UNROLLED for (int i = 0; i < live; i++)
        UNROLLED for (int v = 0; v < vectors; v++) sum[i][v] = (NAME(vector)){0};
    UNROLLED for (int i = 0; i < 9; i++) w[i] = s->w[i] - (NAME(vector)){0};
    for (long at = 0; at < total; at += step * live) {
        TURN(0) TURN(1) TURN(2) TURN(3)
    }
}

#define SLIDE(vectors, step)                                                                              \
    TARGET static __attribute__((noinline)) void NAME(slide_##vectors##step)(const NAME(strip) *s) {      \
        NAME(slide)(vectors, step, s);                                                                    \
    }
SLIDE(1, 1) SLIDE(2, 1) SLIDE(1, 2) SLIDE(2, 2)
#if WIDTH == 64
SLIDE(3, 1) SLIDE(4, 1) SLIDE(3, 2) SLIDE(4, 2)
#endif

/* Which lanes of vector v are inside of x, for column j of the window, or part `half` of those for a pair of columns. */
INLINE NAME(lanes) NAME(lanes_of)(const plan *p, long v, long j, long half) {
    const tg_axis *a = &p->of->right;
    NAME(lanes) found = {0};
    long first = v * LANES + LANES > a->results && a->results > LANES ? a->results - LANES : v * LANES;
    for (long k = 0; k < LANES; k++) {
        long x = first * a->step + half * LANES + k + j + phase_right(p, 0).start;
        if (x >= 0 && x < a->size) SET_LANE(found, k);
    }
    return found;
}

/* Return how many vectors a strip from vector v on may have, up to `most`: all that is not at its ends is inside of x. Sets
   what is at the ends. */
INLINE long NAME(ends_of)(const plan *p, long v, long most, NAME(lanes) *ends) {
    long step = p->of->right.step;
    for (long j = 0; j < 3 && most > 1; j += step)
        for (long k = 1; k < most * step - 1; k++)
            if (!WHOLE(NAME(lanes_of)(p, v + k / step, j, k % step))) {
                most = k < step ? 1 : k / step + (step == 1); /* it is at the end */
                break;
            }
    for (long j = 0; j < 3; j += step) {
        ends[j / step * 2] = NAME(lanes_of)(p, v, j, 0);
        ends[j / step * 2 + 1] = NAME(lanes_of)(p, v + most - 1, j, step - 1);
    }
    return most;
}

/* A strip, where it begins, and what computes it. */
typedef struct {
    NAME(strip) all;
    long from;
    void (*function)(const NAME(strip) *);
} NAME(known_strip);

/* Divide rows of results into strips, and list what is inside of x at their ends, 6 of each. Returns how many there are, up to
   one for each vector. */
INLINE long NAME(list_strips)(const plan *p, NAME(lanes) *ends, NAME(known_strip) *strips) {
#if WIDTH == 64
    enum { MOST = 4 };
    static void (*const known[2][MOST])(const NAME(strip) *) = {
        {NAME(slide_11), NAME(slide_21), NAME(slide_31), NAME(slide_41)},
        {NAME(slide_12), NAME(slide_22), NAME(slide_32), NAME(slide_42)}};
#else
    enum { MOST = 2 };
    static void (*const known[2][MOST])(const NAME(strip) *) = {{NAME(slide_11), NAME(slide_21)},
                                                                {NAME(slide_12), NAME(slide_22)}};
#endif
    const tg_depthwise *d = p->of;
    long step = d->down.step, columns = d->right.results, all = (columns + LANES - 1) / LANES, count = 0;
    for (long v = 0; v < all; count++, ends += 6) {
        long vectors = all - v < MOST ? all - v : MOST;
        if (all - v == MOST + 1 && MOST > 2) vectors--; /* no strip of one vector, whose sums wait for each other */
        vectors = NAME(ends_of)(p, v, vectors, ends);
        strips[count] = (NAME(known_strip)){
            .all = {.inside = ends, .width = d->right.size, .columns = columns, .height = d->down.size,
                    .count = columns < LANES ? columns : LANES},
            .from = v * LANES, .function = known[step - 1][vectors - 1]};
        long last = (v + vectors) * LANES > columns && columns > LANES ? columns - LANES : (v + vectors - 1) * LANES;
        strips[count].all.last = last - v * LANES;
        v += vectors;
    }
    return count;
}

/* Results of a channel of one image, by rows of x. */
INLINE void NAME(plane_by_rows)(const plan *p, const float *x, const float *windows, float *y, long channel,
                                const NAME(known_strip) *strips, long count) {
    const tg_depthwise *d = p->of;
    for (long begin = 0; begin < d->down.results; begin += p->band) {
        long rows = d->down.results - begin < p->band ? d->down.results - begin : p->band;
        for (long k = 0; k < count; k++) {
            NAME(strip) s = strips[k].all;
            s.w = windows;
            s.rows = rows;
            s.first = begin * d->down.step + phase_down(p, 0).start;
            s.x = x + strips[k].from * d->right.step + phase_right(p, 0).start, s.y = y + begin * d->right.results + strips[k].from;
            strips[k].function(&s);
        }
        NAME(finish_part)(d, y + begin * d->right.results, rows * d->right.results, channel);
    }
}

#undef SET_LANE
#undef WHOLE
#undef MASKED
#undef UNROLLED
#undef LIVE
#undef TURN
#undef SLIDE
