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

/* Which lanes are inside of x at the ends of a strip; all others have to be. */
#if WIDTH == 64
/* `before`: the last lane is that of the element before the first vector of x; the first and the last vector; `after`: the first
   element after the last one, in steps of 2 the other half of what the last vector of results is made of */
typedef struct {
    NAME(lanes) before, first, last, after;
} NAME(ends);
#else
/* 2 * j: the first vector and column j of the window, 2 * j + 1: the last vector; in steps of 2 a pair of columns, in the first half
   of what the first vector is made of, and in the second one of the last */
typedef struct {
    NAME(lanes) of[6];
} NAME(ends);
#endif

/* Columns of results, some vectors of them: x[row * width] is what the first column of the window meets for the first of them,
   `first` the row for the first row of results, which may be outside. w[j * 3 + i] is a weight. The last vector begins `last`
   elements after the first one, and `count` of its lanes are stored. */
typedef struct {
    const float *x, *w;
    float *y;
    const NAME(ends) *ends;
    long width, columns, height, first, rows, last, count;
} NAME(strip);

#define UNROLLED _Pragma("GCC unroll 9")
/* which of the sums that are live is that of the row of results that meets row i of the window, in turn k */
#define LIVE(k, i) (((k) - (i) + 2 * step * live) / step % live)

/* Add the products of vector v of x for columns j, j + 1, ... of the window in turn k. */
INLINE void NAME(add_products)(const int step, const int k, const int v, const int j, const int count, NAME(vector) *here,
                               const NAME(vector) *w, NAME(vector) (*sum)[4]) {
    const int live = step == 1 ? 3 : 2;
    UNROLLED for (int part = 0; part < count; part++)
        UNROLLED for (int i = 0; i < 3; i++)
            if ((k + i) % step == 0) sum[LIVE(k, i)][v] += w[(j + part) * 3 + i] * here[part];
}

#if WIDTH == 64
#define NEXT_TO(a, b, first) ((NAME(vector))_mm512_alignr_epi32((__m512i)(b), (__m512i)(a), first))

/* Add the products of a row of x. Each vector is loaded once, for the column in the middle; what the other two meet is in it and
   in the vector next to it: most vectors are in two lines of the cache, and loading them for each column takes three times
   as long as these steps between registers. */
INLINE void NAME(add_row)(const int vectors, const int step, const int k, long last, const float *x, const NAME(ends) *ends,
                          const NAME(vector) *w, NAME(vector) (*sum)[4]) {
    NAME(vector) all[10], here[3];
    x++, (void)last;
    UNROLLED for (int v = 0; v < vectors * step; v++) __builtin_prefetch(x + AHEAD + v * LANES);
    all[0] = MASKED(x - LANES, ends->before);
    UNROLLED for (int v = 0; v <= (vectors - 1) * step; v++) {
        const float *from = x + v * LANES;
        const int last_one = v == (vectors - 1) * step;
        all[v + 1] = v == 0 ? MASKED(from, ends->first) : last_one ? MASKED(from, ends->last) : GIVEN(from);
    }
    all[vectors * step + (step == 1)] = MASKED(x + (vectors * step - (step == 2)) * LANES, ends->after);
    UNROLLED for (int v = 0; v < vectors; v++) {
        if (step == 1) {
            here[0] = NEXT_TO(all[v], all[v + 1], LANES - 1);
            here[1] = all[v + 1];
            here[2] = NEXT_TO(all[v + 1], all[v + 2], 1);
        } else {
            here[1] = SHUFFLED(all[2 * v + 1], all[2 * v + 2], NAME(places), EVEN);
            here[2] = SHUFFLED(all[2 * v + 1], all[2 * v + 2], NAME(places), ODD);
            here[0] = NEXT_TO(all[0], here[2], LANES - 1);
            all[0] = here[2];
        }
        NAME(add_products)(step, k, v, 0, 3, here, w, sum);
    }
}
#else
/* Add the products of a row of x. Of a strip of several vectors only what is at its two ends may be outside. */
INLINE void NAME(add_row)(const int vectors, const int step, const int k, long last, const float *x, const NAME(ends) *all_ends,
                          const NAME(vector) *w, NAME(vector) (*sum)[4]) {
    const NAME(lanes) *inside = all_ends->of;
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
            NAME(add_products)(step, k, v, j, j + step > 3 ? 1 : step, here, w, sum);
        }
}
#endif

#define TURN(k)                                                                                                           \
    if ((k) < step * live) {                                                                                              \
        long row = s->first + at + (k), done = at + (k) - 2;                                                              \
        if (at + (k) >= total) return;                                                                                    \
        if (row >= 0 && row < s->height)                                                                                  \
            NAME(add_row)(vectors, step, k, s->last, s->x + row * s->width, &ends, w, sum);                               \
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
    NAME(ends) ends = *s->ends;
#if WIDTH == 64 /* registers: GCC would move each of them there from memory for each row, which takes turns of a multiplier */
    __asm__("" : "+Yk"(ends.before), "+Yk"(ends.first), "+Yk"(ends.last), "+Yk"(ends.after));
#endif
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

/* Which lanes of a vector of elements of a row, `first` and those behind it, are inside of x. */
INLINE NAME(lanes) NAME(lanes_from)(const plan *p, long first) {
    NAME(lanes) found = {0};
    for (long k = 0; k < LANES; k++)
        if (first + k >= 0 && first + k < p->of->right.size) SET_LANE(found, k);
    return found;
}

/* The first element that meets the middle of the window for the first result of vector v. */
INLINE long NAME(middle_of)(const plan *p, long v) {
    return v * LANES * p->of->right.step + phase_right(p, 0).start + 1;
}

/* Return how many vectors a strip from vector v on may have, up to `most`: all that is not at its ends is inside of x. Sets
   what is at the ends. */
#if WIDTH == 64
INLINE long NAME(ends_of)(const plan *p, long v, long most, NAME(ends) *ends) {
    long step = p->of->right.step, middle = NAME(middle_of)(p, v);
    for (long k = 1; k < most * step - 1; k++)
        if (!WHOLE(NAME(lanes_from)(p, middle + k * LANES))) {
            most = k < step ? 1 : k / step + 1; /* it is at the end */
            break;
        }
    long last = middle + (most - 1) * step * LANES;
    ends->before = NAME(lanes_from)(p, middle - LANES) & 1 << (LANES - 1);
    ends->first = NAME(lanes_from)(p, middle);
    ends->last = NAME(lanes_from)(p, last);
    ends->after = NAME(lanes_from)(p, last + LANES) & (step == 1 ? 1 : 0xffff);
    return most;
}
#else
/* The same for column j of the window, or part `half` of a pair of columns, where the last vector of a row ends with it. */
INLINE NAME(lanes) NAME(lanes_of)(const plan *p, long v, long j, long half) {
    const tg_axis *a = &p->of->right;
    long first = v * LANES + LANES > a->results && a->results > LANES ? a->results - LANES : v * LANES;
    return NAME(lanes_from)(p, first * a->step + half * LANES + j + phase_right(p, 0).start);
}

INLINE long NAME(ends_of)(const plan *p, long v, long most, NAME(ends) *ends) {
    long step = p->of->right.step;
    for (long j = 0; j < 3 && most > 1; j += step)
        for (long k = 1; k < most * step - 1; k++)
            if (!WHOLE(NAME(lanes_of)(p, v + k / step, j, k % step))) {
                most = k < step ? 1 : k / step + (step == 1); /* it is at the end */
                break;
            }
    for (long j = 0; j < 3; j += step) {
        ends->of[j / step * 2] = NAME(lanes_of)(p, v, j, 0);
        ends->of[j / step * 2 + 1] = NAME(lanes_of)(p, v + most - 1, j, step - 1);
    }
    return most;
}
#endif

/* A strip, where it begins, and what computes it. */
typedef struct {
    NAME(strip) all;
    long from;
    void (*function)(const NAME(strip) *);
} NAME(known_strip);

/* Divide rows of results into strips, and list what is inside of x at their ends. Returns how many there are, up to
   one for each vector. */
INLINE long NAME(list_strips)(const plan *p, NAME(ends) *ends, NAME(known_strip) *strips) {
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
    for (long v = 0; v < all; count++, ends++) {
        long vectors = all - v < MOST ? all - v : MOST;
        if (all - v == MOST + 1 && MOST > 2) vectors--; /* no strip of one vector, whose sums wait for each other */
        vectors = NAME(ends_of)(p, v, vectors, ends);
        strips[count] = (NAME(known_strip)){
            .all = {.ends = ends, .width = d->right.size, .columns = columns, .height = d->down.size,
                    .count = columns < LANES ? columns : LANES},
            .from = v * LANES, .function = known[step - 1][vectors - 1]};
        long last = (v + vectors - 1) * LANES;
#if WIDTH == 64
        if (last + LANES > columns) strips[count].all.count = columns - last;
#else
        if (last + LANES > columns && columns > LANES) last = columns - LANES; /* some results once more */
#endif
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
#undef NEXT_TO
#undef UNROLLED
#undef LIVE
#undef TURN
#undef SLIDE
