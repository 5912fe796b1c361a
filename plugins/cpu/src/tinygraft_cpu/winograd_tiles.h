/* Convolutions of stride 1 by Winograd's algorithm, for one type of numbers and one kind of processor: the includer
   defines REAL, NAME(x), TARGET (an attribute), WIDTH (bytes of a vector), ROWS and VECTORS (what registers hold).

   A tile is 4 x 4 results of one image. For `taps` of 3 or 5 along an axis it reads n = 6 or 8 elements along that axis,
   whose polynomial is evaluated at n - 1 points and at infinity: tiles and weights are transformed, multiplied element by
   element, which is n * n matrix products over channels, and transformed back (Lavin and Gray, "Fast Algorithms for
   Convolutional Neural Networks", 2015). Points are 0, 1, -1, 2, -2 and for n = 8 also 1/2, -1/2.

   Neighbours in a vector are tiles. A block of tiles has its transformed channels in workspace; weights are transformed
   where they are needed, CHANNELS and FILTERS at a time, which are read again for each block. */

typedef REAL NAME(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));

typedef __typeof__((NAME(vector)){0} == (NAME(vector)){0}) NAME(signs); /* of a comparison: -1 or 0 */

#define LANES ((long)(WIDTH / sizeof(REAL)))
#define PART ((int)(LANES < 4 ? LANES : 4)) /* tiles that are transposed at once */
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Transform n elements of a tile, `step` apart, in place. */
INLINE void NAME(forward)(const int n, NAME(vector) *d, const int step) {
    NAME(vector) d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    if (n == 6) {
        NAME(vector) even = d4 - 4 * d2, odd = d3 - 4 * d1, far = d4 - d2, wide = 2 * (d3 - d1);
        d[0] = 4 * d[0] - 5 * d2 + d4;
        d[step] = even + odd;
        d[2 * step] = even - odd;
        d[3 * step] = far + wide;
        d[4 * step] = far - wide;
        d[5 * step] = 4 * d1 - 5 * d3 + d5;
        return;
    }
    NAME(vector) d6 = d[6 * step], d7 = d[7 * step];
    d[0] = (d6 - d[0]) + (REAL)5.25 * (d2 - d4);
    NAME(vector) even = d2 + d6 - (REAL)4.25 * d4, odd = d1 + d5 - (REAL)4.25 * d3;
    d[step] = even + odd;
    d[2 * step] = even - odd;
    even = (REAL)0.25 * d2 - (REAL)1.25 * d4 + d6, odd = (REAL)0.5 * d1 - (REAL)2.5 * d3 + 2 * d5;
    d[3 * step] = even + odd;
    d[4 * step] = even - odd;
    even = 4 * d2 - 5 * d4 + d6, odd = 2 * d1 - (REAL)2.5 * d3 + (REAL)0.5 * d5;
    d[5 * step] = even + odd;
    d[6 * step] = even - odd;
    d[7 * step] = (d7 - d1) + (REAL)5.25 * (d3 - d5);
}

/* Transform n products, `step` apart, to the four results of an axis. */
INLINE void NAME(back)(const int n, const NAME(vector) *m, const int step, NAME(vector) *y, const int to) {
    NAME(vector) even = m[step] + m[2 * step], odd = m[step] - m[2 * step];
    NAME(vector) even2 = m[3 * step] + m[4 * step], odd2 = m[3 * step] - m[4 * step];
    y[0] = m[0] + even + even2;
    y[to] = odd + 2 * odd2;
    y[2 * to] = even + 4 * even2;
    y[3 * to] = odd + 8 * odd2 + m[(n - 1) * step];
    if (n == 6) return;
    NAME(vector) even3 = m[5 * step] + m[6 * step], odd3 = m[5 * step] - m[6 * step];
    y[0] += even3;
    y[to] += (REAL)0.5 * odd3;
    y[2 * to] += (REAL)0.25 * even3;
    y[3 * to] += (REAL)0.125 * odd3;
}

typedef REAL NAME(filters)[ROWS];

/* Transform `taps` weights of ROWS filters, `step` apart, to n. */
INLINE void NAME(weigh)(const int n, const NAME(filters) *g, const int step, NAME(filters) *u, const int to) {
    for (int r = 0; r < ROWS; r++) {
        if (n == 6) {
            REAL g0 = g[0][r], g1 = g[step][r], g2 = g[2 * step][r];
            REAL even = (g0 + g2) * (REAL)(-1.0 / 6), odd = g1 * (REAL)(-1.0 / 6);
            REAL even2 = g0 * (REAL)(1.0 / 24) + g2 * (REAL)(1.0 / 6), odd2 = g1 * (REAL)(1.0 / 12);
            u[0][r] = g0 * (REAL)0.25;
            u[to][r] = even + odd, u[2 * to][r] = even - odd;
            u[3 * to][r] = even2 + odd2, u[4 * to][r] = even2 - odd2;
            u[5 * to][r] = g2;
        } else {
            REAL g0 = g[0][r], g1 = g[step][r], g2 = g[2 * step][r], g3 = g[3 * step][r], g4 = g[4 * step][r];
            REAL even = (g0 + g2 + g4) * (REAL)(-2.0 / 9), odd = (g1 + g3) * (REAL)(-2.0 / 9);
            u[0][r] = -g0;
            u[to][r] = even + odd, u[2 * to][r] = even - odd;
            even = (g0 + 4 * g2 + 16 * g4) * (REAL)(1.0 / 90), odd = (2 * g1 + 8 * g3) * (REAL)(1.0 / 90);
            u[3 * to][r] = even + odd, u[4 * to][r] = even - odd;
            even = (16 * g0 + 4 * g2 + g4) * (REAL)(2.0 / 45), odd = (8 * g1 + 2 * g3) * (REAL)(2.0 / 45);
            u[5 * to][r] = even + odd, u[6 * to][r] = even - odd;
            u[7 * to][r] = g4;
        }
    }
}

/* m[row][vectors] (+)= the sum over terms of u[term][row] * v[term][vectors]. */
INLINE void NAME(multiply)(const int vectors, long terms, const REAL *u, const REAL *v, long pitch, REAL *m, long to,
                           int add) {
    NAME(vector) sum[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++)
            sum[r][i] = add ? *(const NAME(vector) *)(m + r * to + i * LANES) : (NAME(vector)){0};
    for (long k = 0; k < terms; k++, u += ROWS, v += pitch) {
        NAME(vector) right[VECTORS];
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) right[i] = *(const NAME(vector) *)(v + i * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
            for (int i = 0; i < vectors; i++) sum[r][i] += u[r] * right[i];
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int i = 0; i < vectors; i++) *(NAME(vector) *)(m + r * to + i * LANES) = sum[r][i];
}

TARGET static __attribute__((noinline)) void NAME(products)(long tiles, long terms, const REAL *u, const REAL *v,
                                                            REAL *m, int add) {
    long at = 0;
#if VECTORS >= 3
    for (; at + 3 * LANES <= tiles; at += 3 * LANES) NAME(multiply)(3, terms, u, v + at, tiles, m + at, tiles, add);
#endif
    for (; at + 2 * LANES <= tiles; at += 2 * LANES) NAME(multiply)(2, terms, u, v + at, tiles, m + at, tiles, add);
    for (; at < tiles; at += LANES) NAME(multiply)(1, terms, u, v + at, tiles, m + at, tiles, add);
}

#if WIDTH == 64
#define FIRST_LANES(count) ((count) <= 0 ? 0 : (count) < LANES_OF_COPY ? (1u << (count)) - 1 : 0xffff)
/* `copy_strips` by masks, a vector of columns at a time. The same rows of the next channel are fetched: they are no stream. */
INLINE void NAME(copy_rows)(int n, const convolution *job, const block *b, long channel, float *copies) {
    long next = channel + 1 < job->channels ? job->height * job->width : 0;
    for (long number = 0; number < b->strips; number++) {
        const strip *s = &b->strip[number];
        long plane = (s->image * job->groups + b->group) * job->channels + channel, y = s->row - job->top;
        long rows = 4 * s->down + n - 4, x = s->column - job->left, above = y < 0 ? -y : 0, below = job->height - y;
        if (below > rows) below = rows;
        for (long k = 0; k < s->pitch; k += LANES_OF_COPY) {
            float *to = copies + s->at + k;
            const float *from = job->x + (plane * job->height + y) * job->width + x + k;
            uint32_t before = FIRST_LANES(-x - k), there = FIRST_LANES(job->width - x - k);
            __mmask16 inside = (__mmask16)(there & ~before), stored = (__mmask16)FIRST_LANES(s->pitch - k);
            for (long i = 0; i < rows; i++, to += s->pitch, from += job->width) {
                int in_image = i >= above && i < below;
                if (in_image) __builtin_prefetch(from + next);
                _mm512_mask_storeu_ps(to, stored, in_image ? _mm512_maskz_loadu_ps(inside, from) : _mm512_setzero_ps());
            }
        }
    }
}
#endif

/* Transform all channels of a block of `tiles` tiles, a multiple of LANES: v[element][channel][tile]. `copies` has room
   for what tiles read of a channel; squares[tile] is the sum of squares of all that it reads. */
INLINE void NAME(read_block)(const int n, const convolution *job, const block *b, float *restrict copies,
                             REAL *restrict v, REAL *restrict squares) {
    long tiles = b->tiles, plane = apart(job->channels * tiles);
    memset(copies, 0, (size_t)(8 * n) * sizeof *copies);
    memset(squares, 0, (size_t)tiles * sizeof *squares);
    for (long c = 0; c < job->channels; c++) {
#if WIDTH == 64
        NAME(copy_rows)(n, job, b, c, copies);
#else
        copy_strips(n, job, b, c, copies);
#endif
        for (long t = 0; t < tiles; t += LANES) {
            float x[8 * 8][WIDTH / sizeof(REAL)] __attribute__((aligned(64)));
            NAME(vector) d[8 * 8];
            for (int l = 0; l < (int)LANES; l += PART)
#pragma GCC unroll 8
                for (int i = 0; i < n; i++)
#pragma GCC unroll 2
                    for (int half = 0; half < n; half += 4) {
                        four f[4] = {{0}};
#pragma GCC unroll 4
                        for (int k = 0; k < PART; k++) {
                            long at = t + l + k;
                            f[k] = *(const four *)(copies + b->from[at] + i * b->pitch[at] + half);
                        }
                        transpose(f);
                        for (int j = 0; j < (n == 6 && half ? 2 : 4); j++)
                            memcpy(&x[i * n + half + j][l], &f[j], PART * sizeof(float));
                    }
            NAME(vector) square[4] = {{0}}; /* four sums, so that none waits for the one before */
#pragma GCC unroll 64
            for (int i = 0; i < n * n; i++) {
                for (int l = 0; l < (int)LANES; l++) d[i][l] = x[i][l];
                square[i % 4] += d[i] * d[i];
            }
#if GUARDED
            *(NAME(vector) *)(squares + t) += square[0] + square[1] + (square[2] + square[3]);
#endif
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) NAME(forward)(n, d + i, n);
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) {
                NAME(forward)(n, d + i * n, 1);
#pragma GCC unroll 8
                for (int j = 0; j < n; j++) *(NAME(vector) *)(v + (i * n + j) * plane + c * tiles + t) = d[i * n + j];
            }
        }
    }
}

/* g[i][row] is weight i of ROWS filters, or of those that are there; from the last to the first where they are turned. */
INLINE void NAME(load_filters)(const int count, const convolution *job, const float *w, long there, NAME(filters) *g) {
    int i = 0;
#if GUARDED && WIDTH == 64
    for (; i + 8 <= count; i += 8) { /* rows of eight are transposed in registers */
        __m256 row[8], other[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) {
            const float *from = w + r * job->filter_step + (job->turned ? count - 8 - i : i);
            __builtin_prefetch(from + CHANNELS_AHEAD * job->channel_step);
            row[r] = r < there ? _mm256_loadu_ps(from) : _mm256_setzero_ps();
        }
#pragma GCC unroll 3
        for (int step = 0; step < 3; step++) {
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                __m256 low = _mm256_unpacklo_ps(row[k], row[k + 4]), high = _mm256_unpackhi_ps(row[k], row[k + 4]);
                other[2 * k] = _mm256_permute2f128_ps(low, high, 0x20);
                other[2 * k + 1] = _mm256_permute2f128_ps(low, high, 0x31);
            }
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) row[k] = other[k];
        }
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) *(NAME(vector) *)g[i + (job->turned ? 7 - k : k)] = (NAME(vector))_mm512_cvtps_pd(row[k]);
    }
#endif
    for (; i < count; i++)
        for (int r = 0; r < ROWS; r++)
            g[i][r] = r < there ? w[r * job->filter_step + (job->turned ? count - 1 - i : i)] : 0;
}

/* Transform weights: u[element][group of ROWS filters][channel][row] of `count` channels from `first` on. The squares of
   each filter are added to its sum. */
INLINE void NAME(read_weights)(const int n, const convolution *job, const float *w, long filter, long groups,
                               long first, long count, REAL *restrict u, REAL *restrict squares) {
    const int taps = n - 3;
    for (long group = 0; group < groups; group++)
        for (long c = 0; c < count; c++) {
            NAME(filters) g[5 * 5] __attribute__((aligned(64))), half[8 * 5] __attribute__((aligned(64)));
            long at = filter + group * ROWS, there = job->filters - at;
            NAME(load_filters)(taps * taps, job, w + (first + c) * job->channel_step + at * job->filter_step, there, g);
#if GUARDED
            for (int i = 0; i < taps * taps; i++)
                for (int r = 0; r < ROWS; r++) squares[group * ROWS + r] += g[i][r] * g[i][r];
#else
            (void)squares;
#endif
            for (int j = 0; j < taps; j++) NAME(weigh)(n, (const NAME(filters) *)g + j, taps, half + j, taps);
            for (int i = 0; i < n; i++) {
                NAME(filters) whole[8] __attribute__((aligned(64)));
                NAME(weigh)(n, (const NAME(filters) *)half + i * taps, 1, whole, 1);
                for (int j = 0; j < n; j++) {
                    REAL *to = u + (i * n + j) * apart(groups * count * ROWS) + (group * count + c) * ROWS;
                    for (int r = 0; r < ROWS; r++) to[r] = whole[j][r];
                }
            }
        }
}

/* Store for each result of each tile whether it is one: inside[result][tile] is 1 or 0. */
INLINE void NAME(find_inside)(const block *b, REAL *restrict inside) {
    for (int i = 0; i < 16; i++)
        for (long t = 0; t < b->tiles; t++) inside[i * b->tiles + t] = i / 4 < b->rows[t] && i % 4 < b->columns[t];
}

#if GUARDED
/* Whether the squares of all results that are inside are at least `least`, and this is a number. */
INLINE int NAME(all_good)(const NAME(vector) *y, NAME(vector) least, const REAL *inside, long tiles) {
#if WIDTH == 64
    __mmask8 good = _mm512_cmp_pd_mask((__m512d)least, (__m512d)least, _CMP_EQ_OQ);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        NAME(vector) bound = least * *(const NAME(vector) *)(inside + i * tiles);
        good = _mm512_mask_cmp_pd_mask(good, (__m512d)(y[i] * y[i]), (__m512d)bound, _CMP_GE_OQ);
    }
    return good == 0xff;
#else
    NAME(signs) good = least == least;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) good &= y[i] * y[i] >= least * *(const NAME(vector) *)(inside + i * tiles);
    return !memcmp(&good, all, sizeof good);
#endif
}
#endif

#if GUARDED && WIDTH == 64
/* Store 8 tiles that are inside with all of their results: each has a place in `to`, rows are `right` elements apart. */
INLINE void NAME(store_whole)(const NAME(vector) *y, const long *to, float *results, long right) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256 r[4], pair[4], row[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) r[j] = _mm512_cvtpd_ps((__m512d)y[i * 4 + j]);
        pair[0] = _mm256_unpacklo_ps(r[0], r[1]), pair[1] = _mm256_unpackhi_ps(r[0], r[1]);
        pair[2] = _mm256_unpacklo_ps(r[2], r[3]), pair[3] = _mm256_unpackhi_ps(r[2], r[3]);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) { /* tile k in the lower half, tile 4 + k in the upper one */
            __m256d even = (__m256d)pair[k / 2], odd = (__m256d)pair[2 + k / 2];
            row[k] = (__m256)(k % 2 ? _mm256_unpackhi_pd(even, odd) : _mm256_unpacklo_pd(even, odd));
            _mm_storeu_ps(results + to[k] + i * right, _mm256_castps256_ps128(row[k]));
            _mm_storeu_ps(results + to[4 + k] + i * right, _mm256_extractf128_ps(row[k], 1));
        }
    }
}
#endif

/* Transform the products of a filter back and store its results; m[element][filters of a block][tile]. */
INLINE void NAME(write_block)(const int n, const convolution *job, const block *b, const float *w, long filter,
                              const REAL *m, long plane, const REAL *restrict squares,
                              const REAL *restrict inside, REAL weights) {
    long tiles = b->tiles;
    float *results = job->y + filter * job->down * job->right;
    const REAL limit = (REAL)(weights * job->limit);
    for (long t = 0; t < tiles; t += LANES) {
        NAME(vector) half[4 * 8], e[8], y[4 * 4];
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) {
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) e[i] = *(const NAME(vector) *)(m + (i * n + j) * plane + t);
            NAME(back)(n, e, 1, half + j, n);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) NAME(back)(n, half + i * n, 1, y + i * 4, 1);
#if GUARDED
        NAME(vector) least = limit * *(const NAME(vector) *)(squares + t);
        if (!NAME(all_good)(y, least, inside + t, tiles))
            for (int l = 0; l < (int)LANES && t + l < b->used; l++)
                for (int i = 0; i < 16; i++)
                    if (inside[i * tiles + t + l] != 0 && !(y[i][l] * y[i][l] >= least[l]))
                        y[i][l] = (REAL)one_result(job, b, w, filter, t + l, i / 4, i % 4);
#else
        (void)squares, (void)limit, (void)w, (void)inside;
#endif
#if GUARDED && WIDTH == 64
        if (b->whole[t / LANES]) {
            NAME(store_whole)(y, b->to + t, results, job->right);
            continue;
        }
#endif
        REAL wide[4 * 4][WIDTH / sizeof(REAL)] __attribute__((aligned(64)));
        float x[4 * 4][WIDTH / sizeof(REAL)] __attribute__((aligned(64)));
        memcpy(wide, y, sizeof wide);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            for (int l = 0; l < (int)LANES; l++) x[i][l] = (float)wide[i][l];
        for (int l = 0; l < (int)LANES; l += PART)
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                four f[4] = {{0}};
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++) memcpy(&f[j], &x[i * 4 + j][l], PART * sizeof(float));
                transpose(f);
#pragma GCC unroll 4
                for (int k = 0; k < PART; k++) {
                    long at = t + l + k;
                    float *to = results + b->to[at] + i * job->right;
                    if (i >= b->rows[at]) continue;
                    if (b->columns[at] == 4)
                        *(four *)to = f[k];
                    else
                        for (int j = 0; j < b->columns[at]; j++) to[j] = f[k][j];
                }
            }
    }
}

/* Compute the results of some filters for a block of tiles, in `work` (see work_bytes). */
INLINE void NAME(block_of)(const int n, const convolution *job, const block *b, const float *w, long first, long last,
                           char *work) {
    const long most = job->at_once;
    long tiles = b->tiles, plane = apart(job->channels * tiles), to = apart(most * tiles);
    REAL *v = (REAL *)work, *u = v + n * n * plane, *m = u + n * n * apart(most * CHANNELS);
    REAL *squares = m + n * n * to, *inside = squares + tiles, weights[FILTERS];
    float *copies = (float *)(inside + 16 * tiles);
    NAME(find_inside)(b, inside);
    NAME(read_block)(n, job, b, copies, v, squares);
    for (long filter = first; filter < last; filter += most) {
        long here = last - filter < most ? last - filter : most, groups = (here + ROWS - 1) / ROWS;
        memset(weights, 0, sizeof weights);
        for (long c = 0; c < job->channels; c += CHANNELS) {
            long count = job->channels - c < CHANNELS ? job->channels - c : CHANNELS;
            NAME(read_weights)(n, job, w, filter, groups, c, count, u, weights);
            for (int e = 0; e < n * n; e++)
                for (long group = 0; group < groups; group++)
                    NAME(products)(tiles, count, u + e * apart(groups * count * ROWS) + group * count * ROWS, v + e * plane + c * tiles,
                                   m + e * to + group * ROWS * tiles, c > 0);
        }
        for (long f = 0; f < here; f++)
            NAME(write_block)(n, job, b, w, filter + f, m + f * tiles, to, squares, inside, weights[f]);
    }
}

TARGET static __attribute__((noinline)) void NAME(block_of_3)(const convolution *job, const block *b, const float *w,
                                                              long first, long last, char *work) {
    NAME(block_of)(6, job, b, w, first, last, work);
}

TARGET static __attribute__((noinline)) void NAME(block_of_5)(const convolution *job, const block *b, const float *w,
                                                              long first, long last, char *work) {
    NAME(block_of)(8, job, b, w, first, last, work);
}

#undef FIRST_LANES
#undef LANES
#undef PART
#undef INLINE
