/* Products of small matrices and the exponential, for one type of numbers and one kind of processor: the includer
   defines REAL, BITS (unsigned, as wide), NAME(x), TARGET (an attribute), WIDTH (bytes of a vector), TILE_ROWS and
   TILE_VECTORS (what the registers hold), and the numbers EXP_* of attention.c.

   Neighbours in memory are always queries or parts of a head, never reduced over: no sum is across a vector. */

typedef REAL NAME(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));

#define LANES ((long)(WIDTH / sizeof(REAL)))
#define INLINE static inline __attribute__((always_inline)) TARGET

/* c[m][n] (+)= the sum over k of a[m * am + k * ak] * b[k][n], for `rows` of m and `vectors` of n, which are constants
   where this is called. */
INLINE void NAME(tile)(const int rows, const int vectors, long terms, const REAL *a, long am, long ak, const REAL *b,
                       long ldb, REAL *c, long ldc, int add) {
    NAME(vector) sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++)
            sum[m][n] = add ? *(const NAME(vector) *)(c + m * ldc + n * LANES) : (NAME(vector)){0};
    for (long k = 0; k < terms; k++, a += ak, b += ldb) {
        NAME(vector) right[TILE_VECTORS];
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++) right[n] = *(const NAME(vector) *)(b + n * LANES);
#pragma GCC unroll 8
        for (int m = 0; m < rows; m++) {
            REAL left = a[m * am];
#pragma GCC unroll 8
            for (int n = 0; n < vectors; n++) sum[m][n] += left * right[n];
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++) *(NAME(vector) *)(c + m * ldc + n * LANES) = sum[m][n];
}

/* The same for any number of rows. */
INLINE void NAME(column)(const int vectors, long rows, long terms, const REAL *a, long am, long ak, const REAL *b,
                         long ldb, REAL *c, long ldc, int add) {
    long m = 0;
    for (; m + TILE_ROWS <= rows; m += TILE_ROWS)
        NAME(tile)(TILE_ROWS, vectors, terms, a + m * am, am, ak, b, ldb, c + m * ldc, ldc, add);
    if (m + 4 <= rows) {
        NAME(tile)(4, vectors, terms, a + m * am, am, ak, b, ldb, c + m * ldc, ldc, add);
        m += 4;
    }
    if (m + 2 <= rows) {
        NAME(tile)(2, vectors, terms, a + m * am, am, ak, b, ldb, c + m * ldc, ldc, add);
        m += 2;
    }
    if (m < rows) NAME(tile)(1, vectors, terms, a + m * am, am, ak, b, ldb, c + m * ldc, ldc, add);
}

/* The same for any number of vectors: c (rows, vectors * LANES) (+)= a (rows, terms) @ b (terms, vectors * LANES). */
TARGET static __attribute__((noinline)) void NAME(product)(long rows, long vectors, long terms, const REAL *a, long am,
                                                           long ak, const REAL *b, long ldb, REAL *c, long ldc,
                                                           int add) {
    long n = 0;
#if TILE_VECTORS >= 4
    for (; n + 4 <= vectors; n += 4)
        NAME(column)(4, rows, terms, a, am, ak, b + n * LANES, ldb, c + n * LANES, ldc, add);
#endif
    for (; n + 2 <= vectors; n += 2)
        NAME(column)(2, rows, terms, a, am, ak, b + n * LANES, ldb, c + n * LANES, ldc, add);
    if (n < vectors) NAME(column)(1, rows, terms, a, am, ak, b + n * LANES, ldb, c + n * LANES, ldc, add);
}

/* e to the power x, for x of at most about 0: within 1.1 units in the last place, 0 below EXP_LEAST, NaN for NaN. The
   power of two next to e to the x goes into the exponent, a polynomial has the rest. */
INLINE REAL NAME(power)(REAL x) {
    static const REAL terms[] = {EXP_TERMS};
    REAL shifted = x * (REAL)1.44269504088896340736 + EXP_MAGIC, whole = shifted - EXP_MAGIC;
    REAL rest = x - whole * EXP_HIGH - whole * EXP_LOW, sum = terms[EXP_DEGREE], scale;
#pragma GCC unroll 16
    for (int i = EXP_DEGREE - 1; i >= 0; i--) sum = sum * rest + terms[i];
    BITS bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << EXP_MANTISSA) + EXP_ONE;
    memcpy(&scale, &bits, sizeof scale);
    sum *= scale;
    return x < EXP_LEAST ? 0 : sum;
}
