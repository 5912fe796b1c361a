/* Gradients of the weights of depthwise convolutions, for one kind of processor: see depthwise.c. Lanes are columns of results, or
   channels where rows of results are short. `d->w` are the gradients of results, `d->y` those of weights. */

/* Where sums are: g[row * columns + k] is multiplied with x[(row * step + i * below) * of_row + of[j] + k], and added to
   totals[i * wide + j], k in lanes of vectors of which some are left out. */
typedef struct {
    const float *x, *g;
    float *totals;
    const int *of;
    long of_row, below, step, columns, rows, wide;
    uint32_t lanes[2];
} NAME(slopes);

/* Add the products of some rows: each row of x is loaded once for all elements of a column of the window. */
INLINE void NAME(add_rows)(const int tall, const int wide, const int vectors, const int rows, const int step,
                           const NAME(slopes) *s, const float *x, const float *g, const int *of, NAME(vector) (*sum)[3][2]) {
    NAME(vector) given[4][2];
#pragma GCC unroll 4
    for (int o = 0; o < rows; o++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) given[o][v] = NAME(load_lanes)(g + o * s->columns + v * LANES, s->lanes[v]);
#pragma GCC unroll 3
    for (int j = 0; j < wide; j++)
#pragma GCC unroll 16
        for (int r = 0; r < (rows - 1) * step + tall; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                NAME(vector) here = NAME(load_lanes)(x + r * (rows == 1 ? s->below : 1) * s->of_row + of[j] + v * LANES,
                                                     s->lanes[v]);
                LOADED_ONCE(here);
#pragma GCC unroll 4
                for (int o = 0; o < rows; o++)
                    if (r >= o * step && r - o * step < tall) sum[r - o * step][j][v] += given[o][v] * here;
            }
}

INLINE void NAME(add_slopes)(const int tall, const int wide, const int vectors, const int step, const NAME(slopes) *s) {
    for (long j = 0; j < s->wide; j += wide) {
        NAME(vector) sum[7][3][2];
        long row = 0;
#pragma GCC unroll 8
        for (int i = 0; i < tall; i++)
#pragma GCC unroll 3
            for (int k = 0; k < wide; k++) sum[i][k][0] = sum[i][k][1] = (NAME(vector)){0};
        if (step)
            for (; row + 4 <= s->rows; row += 4)
                NAME(add_rows)(tall, wide, vectors, 4, step, s, s->x + row * step * s->of_row, s->g + row * s->columns,
                               s->of + j, sum);
        for (; row < s->rows; row++)
            NAME(add_rows)(tall, wide, vectors, 1, 1, s, s->x + row * s->step * s->of_row, s->g + row * s->columns, s->of + j, sum);
#pragma GCC unroll 8
        for (int i = 0; i < tall; i++)
#pragma GCC unroll 3
            for (int k = 0; k < wide; k++) {
                if (vectors == 2) sum[i][k][0] += sum[i][k][1];
                AT(s->totals + (i * s->wide + j + k) * LANES) += sum[i][k][0];
            }
    }
}

#define ONE(tall, wide, vectors, step) \
    TARGET static __attribute__((noinline)) void NAME(slopes_##tall##wide##step)(const NAME(slopes) *s) { \
        NAME(add_slopes)(tall, wide, vectors, step, s); \
    }
#define EACH(step) \
    ONE(1, 1, 2, step) ONE(2, 1, 2, step) ONE(3, 1, 2, step) ONE(4, 1, 2, step) ONE(5, 1, 2, step) ONE(6, 1, 2, step) \
    ONE(7, 1, 2, step) ONE(3, 3, 1, step)
EACH(0) EACH(1) EACH(2)
#define LISTED(s) \
    {NAME(slopes_11##s), NAME(slopes_21##s), NAME(slopes_31##s), NAME(slopes_41##s), NAME(slopes_51##s), NAME(slopes_61##s), \
     NAME(slopes_71##s), NAME(slopes_33##s)}

/* Add the products of a plane to totals, vectors of lanes that are columns. */
TARGET static __attribute__((noinline)) void NAME(plane_slopes)(const plan *p, NAME(slopes) s, const float *g) {
    static void (*const known[3][TALLEST + 1])(const NAME(slopes) *) = {LISTED(0), LISTED(1), LISTED(2)};
    const tg_depthwise *d = p->of;
    long tall = d->down.window, columns = d->right.results, kind = s.step <= 2 && s.below == 1 ? s.step : 0;
    const float *x = s.x;
    float *totals = s.totals;
    for (long part = 0; part < tall; part += TALLEST) {
        long here = tall - part < TALLEST ? tall - part : TALLEST, three = here == 3 && s.wide % 3 == 0;
        long width = (three ? 1 : 2) * LANES;
        s.totals = totals + part * s.wide * LANES;
        for (long k = 0; k < columns; k += width) {
            for (long v = 0; v < 2; v++) {
                long left = columns - k - v * LANES;
                s.lanes[v] = left >= LANES ? (1u << LANES) - 1 : left > 0 ? (1u << left) - 1 : 0;
            }
            s.g = g + k, s.x = x + part * s.below * s.of_row + k;
            known[kind][three ? TALLEST : here - 1](&s);
        }
    }
}

/* The same in lanes that are channels, for `tall` by `wide` elements of a window, which are `below` and `beside` apart. */
INLINE void NAME(lanes_slopes)(const int tall, const int wide, const plan *p, const float *x, const float *g, long below,
                               long beside, long every, float *totals) {
    const tg_depthwise *d = p->of;
    NAME(vector) sum[3][8];
#pragma GCC unroll 3
    for (int i = 0; i < tall; i++)
#pragma GCC unroll 8
        for (int j = 0; j < wide; j++) sum[i][j] = GIVEN(totals + (i * every + j) * LANES);
    for (long row = 0; row < d->down.results; row++)
        for (long k = 0; k < d->right.results; k++, g += LANES) {
            const float *at = x + (row * d->down.step * p->row + k * d->right.step) * LANES;
            NAME(vector) given = GIVEN(g);
#pragma GCC unroll 3
            for (int i = 0; i < tall; i++)
#pragma GCC unroll 8
                for (int j = 0; j < wide; j++) sum[i][j] += given * GIVEN(at + (i * below * p->row + j * beside) * LANES);
        }
#pragma GCC unroll 3
    for (int i = 0; i < tall; i++)
#pragma GCC unroll 8
        for (int j = 0; j < wide; j++) AT(totals + (i * every + j) * LANES) = sum[i][j];
}

TARGET static __attribute__((noinline)) void NAME(block_slopes)(const plan *p, const float *x, const float *g, float *totals) {
    long tall = p->of->down.window, wide = p->of->right.window, below = p->below, beside = p->beside;
    if (tall == 3 && wide == 3) {
        NAME(lanes_slopes)(3, 3, p, x, g, below, beside, wide, totals);
        return;
    }
    for (long i = 0; i < tall; i++)
        for (long j = 0; j < wide; j += 8) {
            const float *at = x + (i * below * p->row + j * beside) * LANES;
            float *to = totals + (i * wide + j) * LANES;
            switch (wide - j) {
#define CASE(n) \
    case n: NAME(lanes_slopes)(1, n, p, at, g, below, beside, wide, to); break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
            default: NAME(lanes_slopes)(1, 8, p, at, g, below, beside, wide, to);
            }
        }
#undef CASE
}

/* Gradients of the weights of a block of channels, in `work`. */
TARGET static __attribute__((noinline)) void NAME(weights_of)(const plan *p, long block, float *work) {
    const tg_depthwise *d = p->of;
    long channel = block * p->planes, count = d->channels - channel < p->planes ? d->channels - channel : p->planes;
    long squared = d->down.window * d->right.window, area = d->down.size * d->right.size, high = p->most_rows;
    long results = d->down.results * d->right.results;
    float *totals = work, *copy = totals + distance(squared * LANES), *y = d->y + channel * squared;
    memset(totals, 0, (size_t)(squared * LANES) * sizeof(float));
    if (p->narrow) {
        float *turned = copy + distance((high * p->row + 1) * LANES);
        int *place = (int *)(turned + distance(results * LANES)), *plain = place + distance(area);
        for (long row = 0, k = 0; row < d->down.size; row++)
            for (long x = 0; x < d->right.size; x++) { /* what no window reads is put behind all others */
                long down = row + d->down.cut, right = x + d->right.cut;
                place[k++] = (int)((down < high && right < p->row ? down * p->row + right : high * p->row) * LANES);
            }
        for (long k = 0; k < results; k++) plain[k] = (int)(k * LANES);
        for (long n = 0; n < d->batch; n++) {
            NAME(planes_to_lanes)(d->x + (n * d->channels + channel) * area, area, count, place, copy);
            NAME(planes_to_lanes)(d->w + (n * d->channels + channel) * results, results, count, plain, turned);
            NAME(block_slopes)(p, copy, turned, totals);
        }
        for (long c = 0; c < count; c++)
            for (long k = 0; k < squared; k++) y[c * squared + k] = totals[k * LANES + c];
        return;
    }
    int *of = (int *)(copy + distance((high + 1) * p->row + 4 * LANES));
    uint32_t *inside = (uint32_t *)(of + distance(d->right.window));
    for (long j = 0; j < d->right.window; j++)
        of[j] = (int)(j * p->beside % d->right.step * p->pitch + j * p->beside / d->right.step);
    NAME(list_inside)(p, inside);
    NAME(slopes) s = {.x = copy, .totals = totals, .of = of, .of_row = p->row, .below = p->below, .step = d->down.step,
                      .columns = d->right.results, .rows = d->down.results, .wide = d->right.window};
    for (long n = 0; n < d->batch; n++) {
        NAME(copy_rows)(p, d->x + (n * d->channels + channel) * area, -d->down.cut, high, inside, copy);
        NAME(plane_slopes)(p, s, d->w + (n * d->channels + channel) * results);
    }
    for (long k = 0; k < squared; k++) {
        float sum = 0;
        for (long i = 0; i < LANES; i++) sum += totals[k * LANES + i];
        y[k] = sum;
    }
}

#undef ONE
#undef EACH
#undef LISTED
