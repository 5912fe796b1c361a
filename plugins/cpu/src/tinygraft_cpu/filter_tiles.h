/* What routines share whose lanes are filters or channels, for one kind of processor: products in tiles of POSITIONS results,
   and vectors transposed. LANES, INLINE, vector and places are those of the header that includes this one. */

#ifdef POSITIONS_OF_TILES
/* sums[position][filter] += x[from[k] + place[position]] * w[k][filter] over `terms` terms k; from 0 if it is the first.
   What there is comes before all terms, or after their sum if it is `late`. */
INLINE void NAME(multiply_filters)(const int deep, long terms, const float *restrict w, const float *restrict x, const int *from,
                           const int *place, float *restrict sums, int first, const int late) {
    NAME(vector) sum[POSITIONS][4];
    const float *at[POSITIONS];
#pragma GCC unroll 8
    for (int p = 0; p < POSITIONS; p++) at[p] = x + place[p];
    if (first || late) {
#pragma GCC unroll 8
        for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 8
            for (int v = 0; v < deep; v++) sum[p][v] = (NAME(vector)){0};
    } else {
#pragma GCC unroll 8
        for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 8
            for (int v = 0; v < deep; v++) sum[p][v] = *(const NAME(vector) *)(sums + (p * deep + v) * LANES);
    }
    for (long k = 0; k < terms; k++, w += deep * LANES) {
        long here = from[k];
        NAME(vector) weight[4];
#pragma GCC unroll 8
        for (int v = 0; v < deep; v++) weight[v] = *(const NAME(vector) *)(w + v * LANES);
#pragma GCC unroll 8
        for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 8
            for (int v = 0; v < deep; v++) sum[p][v] += at[p][here] * weight[v];
    }
    if (late && !first)
#pragma GCC unroll 8
        for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 8
            for (int v = 0; v < deep; v++) sum[p][v] += *(const NAME(vector) *)(sums + (p * deep + v) * LANES);
#pragma GCC unroll 8
    for (int p = 0; p < POSITIONS; p++)
#pragma GCC unroll 8
        for (int v = 0; v < deep; v++) *(NAME(vector) *)(sums + (p * deep + v) * LANES) = sum[p][v];
}
#endif

#if WIDTH == 64
#include <immintrin.h>
/* Transpose 16 vectors of 16: pairs of rows, then pairs of these are interleaved in each quarter, and quarters are gathered. All 64
   steps leave lanes in their quarter or move whole quarters: two in a cycle of a Zen 5, where one that picks any lanes
   takes a cycle (12.0 and 5.4 ns in all). */
INLINE void NAME(transpose)(NAME(vector) *x) {
    __m512 pairs[LANES], fours[LANES]; /* fours[4 * k + j]: in quarter q column 4 * q + j of rows 4 * k to 4 * k + 3 */
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        pairs[i] = _mm512_unpacklo_ps((__m512)x[i], (__m512)x[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_ps((__m512)x[i], (__m512)x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4)
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            __m512d a = (__m512d)pairs[i + half], b = (__m512d)pairs[i + 2 + half];
            fours[i + 2 * half] = (__m512)_mm512_unpacklo_pd(a, b);
            fours[i + 2 * half + 1] = (__m512)_mm512_unpackhi_pd(a, b);
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        enum { EVEN_QUARTERS = 0x88, ODD_QUARTERS = 0xdd };
        __m512 upper_even = _mm512_shuffle_f32x4(fours[j], fours[4 + j], EVEN_QUARTERS);
        __m512 upper_odd = _mm512_shuffle_f32x4(fours[j], fours[4 + j], ODD_QUARTERS);
        __m512 lower_even = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], EVEN_QUARTERS);
        __m512 lower_odd = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], ODD_QUARTERS);
        x[j] = (NAME(vector))_mm512_shuffle_f32x4(upper_even, lower_even, EVEN_QUARTERS);
        x[4 + j] = (NAME(vector))_mm512_shuffle_f32x4(upper_odd, lower_odd, EVEN_QUARTERS);
        x[8 + j] = (NAME(vector))_mm512_shuffle_f32x4(upper_even, lower_even, ODD_QUARTERS);
        x[12 + j] = (NAME(vector))_mm512_shuffle_f32x4(upper_odd, lower_odd, ODD_QUARTERS);
    }
}
#else
/* Transpose LANES vectors, by interleaving the halves of them as often as LANES has bits. */
INLINE void NAME(transpose)(NAME(vector) *x) {
    NAME(vector) y[LANES];
#pragma GCC unroll 4
    for (int step = 1; step < LANES; step *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = SHUFFLED(x[i], x[i + LANES / 2], NAME(places), FIRST);
            y[2 * i + 1] = SHUFFLED(x[i], x[i + LANES / 2], NAME(places), SECOND);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}
#endif

/* to[j * apart] has element j of `rows` rows at x, `pitch` apart; of columns up to LANES, of which `columns` are there. Each
   row of results is a vector, filled up with zeros. */
INLINE void NAME(turn)(const float *x, long pitch, long rows, long columns, float *to, long apart) {
    NAME(vector) all[LANES];
    if (rows >= LANES && columns >= LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) all[i] = *(const NAME(vector) *)(x + i * pitch);
    } else
        for (int i = 0; i < LANES; i++) {
            float row[LANES];
            for (long j = 0; j < LANES; j++) row[j] = i < rows && j < columns ? x[i * pitch + j] : 0;
            all[i] = *(const NAME(vector) *)row;
        }
    NAME(transpose)(all);
    if (columns >= LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) *(NAME(vector) *)(to + i * apart) = all[i];
    } else
        for (long i = 0; i < columns; i++) *(NAME(vector) *)(to + i * apart) = all[i];
}
