/* Fourier transforms of rows, for one type: the includer defines REAL and NAME(x).

   Stockham's order of steps (Cochran and others, "What is the fast Fourier transform?", 1967) needs no reordering: a
   step of radix r reads from one buffer, turns, and writes to the other one. A row stays in the first cache meanwhile.
   Loops are over neighbours: in the first step over p, whose turns are therefore in a table of their own, later over
   the numbers that earlier steps have brought together. */

typedef struct {
    REAL *re, *im;
} NAME(line);

typedef struct {
    const REAL *cosine, *sine; /* of 2 pi k / size, k below size */
    long size;
    REAL *first; /* room for the turns of the first step: cosines, then sines */
} NAME(circle);

/* b[k] = (the sum of a[j] times the turn by -j k / radix) times the turn c[k], for `count` neighbours and k below
   radix; a[j] are `far` numbers from each other, those of b `by_k`, and a neighbour's `by_q`. All neighbours have the
   same turns where `turn_q` is 0. */
#define STEP(RADIX, BODY)                                                                                              \
    static inline __attribute__((always_inline)) void NAME(core##RADIX)(                                               \
        const REAL *restrict ar, const REAL *restrict ai, REAL *restrict br, REAL *restrict bi, long count, long far,  \
        long by_k, long by_q, const REAL *restrict c, const REAL *restrict s, long turn_k, long turn_q) {              \
        NEIGHBOURS_ARE_APART                                                                                           \
        for (long q = 0; q < count; q++) {                                                                             \
            BODY                                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    FOR_EACH_PROCESSOR static void NAME(step##RADIX)(NAME(line) from, NAME(line) to, long n, long few,                 \
                                                     NAME(circle) circle) {                                            \
        long m = n / RADIX, stride = circle.size / n;                                                                  \
        if (few == 1) {                                                                                                \
            REAL *c = circle.first, *s = c + RADIX * m;                                                                \
            NAME(core##RADIX)(from.re, from.im, to.re, to.im, m, m, 1, RADIX, c, s, m, 1);                             \
            return;                                                                                                    \
        }                                                                                                              \
        for (long p = 0; p < m; p++) {                                                                                 \
            REAL c[RADIX], s[RADIX];                                                                                   \
            for (long k = 0; k < RADIX; k++) c[k] = circle.cosine[p * k * stride], s[k] = -circle.sine[p * k * stride];\
            long at = p * few, to_at = p * RADIX * few;                                                                \
            NAME(core##RADIX)(from.re + at, from.im + at, to.re + to_at, to.im + to_at, few, m * few, few, 1, c, s, 1, \
                              0);                                                                                      \
        }                                                                                                              \
    }

#define IN(j, x, y) REAL x = ar[(j) * far + q], y = ai[(j) * far + q];
#define OUT(k, x, y)                                                                                                   \
    {                                                                                                                  \
        REAL u = (x), v = (y), tc = c[(k) * turn_k + q * turn_q], ts = s[(k) * turn_k + q * turn_q];                   \
        br[(k) * by_k + q * by_q] = u * tc - v * ts;                                                                   \
        bi[(k) * by_k + q * by_q] = u * ts + v * tc;                                                                   \
    }
#define FIRST(x, y)                                                                                                    \
    {                                                                                                                  \
        br[q * by_q] = (x);                                                                                            \
        bi[q * by_q] = (y);                                                                                            \
    }

/* clang-format off */
STEP(2, IN(0, r0, i0) IN(1, r1, i1) FIRST(r0 + r1, i0 + i1) OUT(1, r0 - r1, i0 - i1))

STEP(3, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2)
     REAL sr = r1 + r2; REAL si = i1 + i2;
     REAL hr = r0 - (REAL)0.5 * sr; REAL hi = i0 - (REAL)0.5 * si;
     REAL dr = (REAL)0.86602540378443864676 * (r1 - r2); REAL di = (REAL)0.86602540378443864676 * (i1 - i2);
     FIRST(r0 + sr, i0 + si) OUT(1, hr + di, hi - dr) OUT(2, hr - di, hi + dr))

STEP(4, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2) IN(3, r3, i3)
     REAL ar0 = r0 + r2; REAL ai0 = i0 + i2; REAL ar1 = r0 - r2; REAL ai1 = i0 - i2;
     REAL ar2 = r1 + r3; REAL ai2 = i1 + i3; REAL ar3 = r1 - r3; REAL ai3 = i1 - i3;
     FIRST(ar0 + ar2, ai0 + ai2) OUT(1, ar1 + ai3, ai1 - ar3) OUT(2, ar0 - ar2, ai0 - ai2) OUT(3, ar1 - ai3, ai1 + ar3))

STEP(5, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2) IN(3, r3, i3) IN(4, r4, i4)
     const REAL c1 = (REAL)0.30901699437494742410; const REAL c2 = (REAL)-0.80901699437494742410;
     const REAL s1 = (REAL)0.95105651629515357212; const REAL s2 = (REAL)0.58778525229247312917;
     REAL sr1 = r1 + r4; REAL si1 = i1 + i4; REAL sr2 = r2 + r3; REAL si2 = i2 + i3;
     REAL dr1 = r1 - r4; REAL di1 = i1 - i4; REAL dr2 = r2 - r3; REAL di2 = i2 - i3;
     REAL hr1 = r0 + c1 * sr1 + c2 * sr2; REAL hi1 = i0 + c1 * si1 + c2 * si2;
     REAL hr2 = r0 + c2 * sr1 + c1 * sr2; REAL hi2 = i0 + c2 * si1 + c1 * si2;
     REAL tr1 = s1 * dr1 + s2 * dr2; REAL ti1 = s1 * di1 + s2 * di2;
     REAL tr2 = s2 * dr1 - s1 * dr2; REAL ti2 = s2 * di1 - s1 * di2;
     FIRST(r0 + sr1 + sr2, i0 + si1 + si2) OUT(1, hr1 + ti1, hi1 - tr1) OUT(2, hr2 + ti2, hi2 - tr2)
     OUT(3, hr2 - ti2, hi2 + tr2) OUT(4, hr1 - ti1, hi1 + tr1))

STEP(8, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2) IN(3, r3, i3) IN(4, r4, i4) IN(5, r5, i5) IN(6, r6, i6) IN(7, r7, i7)
     const REAL h = (REAL)0.70710678118654752440;
     REAL er0 = r0 + r4; REAL ei0 = i0 + i4; REAL er1 = r0 - r4; REAL ei1 = i0 - i4;
     REAL er2 = r2 + r6; REAL ei2 = i2 + i6; REAL er3 = r2 - r6; REAL ei3 = i2 - i6;
     REAL gr0 = r1 + r5; REAL gi0 = i1 + i5; REAL gr1 = r1 - r5; REAL gi1 = i1 - i5;
     REAL gr2 = r3 + r7; REAL gi2 = i3 + i7; REAL gr3 = r3 - r7; REAL gi3 = i3 - i7;
     REAL xr0 = er0 + er2; REAL xi0 = ei0 + ei2; REAL xr2 = er0 - er2; REAL xi2 = ei0 - ei2;
     REAL xr1 = er1 + ei3; REAL xi1 = ei1 - er3; REAL xr3 = er1 - ei3; REAL xi3 = ei1 + er3;
     REAL yr0 = gr0 + gr2; REAL yi0 = gi0 + gi2; REAL yr2 = gi0 - gi2; REAL yi2 = gr2 - gr0;
     REAL tr1 = gr1 + gi3; REAL ti1 = gi1 - gr3; REAL tr3 = gr1 - gi3; REAL ti3 = gi1 + gr3;
     REAL yr1 = h * (tr1 + ti1); REAL yi1 = h * (ti1 - tr1); REAL yr3 = h * (ti3 - tr3); REAL yi3 = -h * (tr3 + ti3);
     FIRST(xr0 + yr0, xi0 + yi0) OUT(1, xr1 + yr1, xi1 + yi1) OUT(2, xr2 + yr2, xi2 + yi2) OUT(3, xr3 + yr3, xi3 + yi3)
     OUT(4, xr0 - yr0, xi0 - yi0) OUT(5, xr1 - yr1, xi1 - yi1) OUT(6, xr2 - yr2, xi2 - yi2)
     OUT(7, xr3 - yr3, xi3 - yi3))
/* clang-format on */

/* Any radix: sums of all products. */
FOR_EACH_PROCESSOR static void NAME(step_any)(NAME(line) from, NAME(line) to, long n, long few, NAME(circle) circle,
                                              long radix) {
    long m = n / radix, stride = circle.size / n, own = circle.size / radix, far = m * few;
    for (long p = 0; p < m; p++)
        for (long k = 0; k < radix; k++) {
            REAL *restrict br = to.re + (p * radix + k) * few, *restrict bi = to.im + (p * radix + k) * few;
            for (long q = 0; q < few; q++) br[q] = bi[q] = 0;
            for (long j = 0; j < radix; j++) {
                long turn = j * k % radix * own;
                REAL c = circle.cosine[turn], s = -circle.sine[turn];
                const REAL *restrict ar = from.re + p * few + j * far, *restrict ai = from.im + p * few + j * far;
                for (long q = 0; q < few; q++) {
                    br[q] += ar[q] * c - ai[q] * s;
                    bi[q] += ar[q] * s + ai[q] * c;
                }
            }
            REAL c = circle.cosine[p * k * stride], s = -circle.sine[p * k * stride];
            for (long q = 0; q < few; q++) {
                REAL u = br[q], v = bi[q];
                br[q] = u * c - v * s;
                bi[q] = u * s + v * c;
            }
        }
}

static long NAME(radix)(long n) {
    long radix = n % 8 == 0 && n != 16 ? 8 : n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
    while (n % radix) radix += 2;
    return radix;
}

/* Fill the turns of the first step of transforms of n. */
static void NAME(prepare)(NAME(circle) circle, long n) {
    if (n < 2) return;
    long radix = NAME(radix)(n), m = n / radix, stride = circle.size / n;
    for (long k = 0; k < radix; k++)
        for (long p = 0, turn = 0; p < m; p++, turn += k * stride) {
            circle.first[k * m + p] = circle.cosine[turn];
            circle.first[(radix + k) * m + p] = -circle.sine[turn];
        }
}

/* Transform n numbers; returns where they are, `a` or `b`. circle.size is a multiple of n. Or as many rows of n as `few`,
   whose numbers of the same place are neighbours. */
static NAME(line) NAME(transform)(NAME(line) a, NAME(line) b, long n, NAME(circle) circle, long few) {
    while (n > 1) {
        long radix = NAME(radix)(n);
        if (radix == 8) NAME(step8)(a, b, n, few, circle);
        else if (radix == 4) NAME(step4)(a, b, n, few, circle);
        else if (radix == 2) NAME(step2)(a, b, n, few, circle);
        else if (radix == 3) NAME(step3)(a, b, n, few, circle);
        else if (radix == 5) NAME(step5)(a, b, n, few, circle);
        else NAME(step_any)(a, b, n, few, circle, radix);
        n /= radix, few *= radix;
        NAME(line) swap = a;
        a = b, b = swap;
    }
    return a;
}

/* A complex row. The inverse is the transform with real and imaginary parts exchanged. */
static void NAME(complex_row)(const fourier *job, long row, NAME(line) a, NAME(line) b, NAME(circle) circle) {
    long n = job->n, size = n * (long)sizeof(REAL);
    memcpy(a.re, (const REAL *)job->in[job->inverse] + row * n, size);
    memcpy(a.im, (const REAL *)job->in[!job->inverse] + row * n, size);
    NAME(line) found = NAME(transform)(a, b, n, circle, 1);
    if (job->out[0]) memcpy((REAL *)job->out[0] + row * n, job->inverse ? found.im : found.re, size);
    if (job->out[1]) memcpy((REAL *)job->out[1] + row * n, job->inverse ? found.re : found.im, size);
}

/* A real row to the half of its transform. Of even length: pairs of neighbours are complex numbers, and the transforms
   of the even and the odd ones follow from theirs (Press and others, "Numerical recipes", 12.3). */
FOR_EACH_PROCESSOR static void NAME(pairs)(const REAL *restrict x, REAL *restrict re, REAL *restrict im, long h) {
    for (long k = 0; k < h; k++) re[k] = x[2 * k], im[k] = x[2 * k + 1];
}

FOR_EACH_PROCESSOR static void NAME(split)(NAME(line) z, REAL *restrict re, REAL *restrict im, long h, REAL sign,
                                           NAME(circle) circle) {
    const REAL *restrict ar = z.re, *restrict ai = z.im, *restrict c = circle.cosine, *restrict s = circle.sine;
    const REAL half = (REAL)0.5;
    for (long k = 1; k < h; k++) {
        REAL er = half * (ar[k] + ar[h - k]), ei = half * (ai[k] - ai[h - k]);
        REAL or = half * (ai[k] + ai[h - k]), oi = half * (ar[h - k] - ar[k]);
        re[k] = er + (or * c[k] + oi * s[k]);
        im[k] = sign * (ei + (oi * c[k] - or * s[k]));
    }
    re[0] = ar[0] + ai[0], re[h] = ar[0] - ai[0];
    im[0] = im[h] = sign * 0;
}

static void NAME(real_row)(const fourier *job, long row, NAME(line) a, NAME(line) b, NAME(circle) circle) {
    long n = job->n, h = n / 2, wanted = h + 1;
    const REAL *x = (const REAL *)job->in[0] + row * n;
    REAL sign = job->inverse ? -1 : 1, *re = job->out[0], *im = job->out[1];
    if (n % 2) {
        memcpy(a.re, x, n * sizeof(REAL));
        memset(a.im, 0, n * sizeof(REAL));
        NAME(line) found = NAME(transform)(a, b, n, circle, 1);
        if (re) memcpy(re + row * wanted, found.re, wanted * sizeof(REAL));
        for (long k = 0; im && k < wanted; k++) im[row * wanted + k] = sign * found.im[k];
        return;
    }
    NAME(pairs)(x, a.re, a.im, h);
    NAME(line) z = NAME(transform)(a, b, h, circle, 1), other = z.re == a.re ? b : a;
    NAME(split)(z, re ? re + row * wanted : other.re, im ? im + row * wanted : other.im, h, sign, circle);
}

/* The half of a transform whose other half mirrors it to a real row of n: the steps of real_row backwards. */
FOR_EACH_PROCESSOR static void NAME(join)(const REAL *restrict re, const REAL *restrict im, NAME(line) to, long h,
                                          REAL sign, NAME(circle) circle) {
    const REAL *restrict c = circle.cosine, *restrict s = circle.sine;
    REAL *restrict tr = to.re, *restrict ti = to.im;
    for (long k = 1; k < h; k++) {
        REAL er = re[k] + re[h - k], ei = sign * (im[k] - im[h - k]);
        REAL dr = re[k] - re[h - k], di = sign * (im[k] + im[h - k]);
        tr[k] = er - (dr * s[k] + di * c[k]);
        ti[k] = ei + (dr * c[k] - di * s[k]);
    }
    tr[0] = re[0] + re[h], ti[0] = re[0] - re[h];
}

FOR_EACH_PROCESSOR static void NAME(unpair)(const REAL *restrict re, const REAL *restrict im, REAL *restrict x,
                                            long h) {
    for (long k = 0; k < h; k++) x[2 * k] = re[k], x[2 * k + 1] = im[k];
}

static void NAME(to_real_row)(const fourier *job, long row, NAME(line) a, NAME(line) b, NAME(circle) circle) {
    long n = job->n, h = n / 2, given = h + 1;
    const REAL *re = (const REAL *)job->in[0] + row * given, *im = (const REAL *)job->in[1] + row * given;
    REAL *out = (REAL *)job->out[0] + row * n, sign = job->inverse ? 1 : -1;
    NAME(line) swapped = {a.im, a.re}, other = {b.im, b.re}; /* the inverse */
    if (n % 2) {
        a.re[0] = re[0], a.im[0] = 0;
        for (long k = 1; k <= h; k++) {
            a.re[k] = a.re[n - k] = re[k];
            a.im[k] = sign * im[k], a.im[n - k] = -sign * im[k];
        }
        memcpy(out, NAME(transform)(swapped, other, n, circle, 1).im, n * sizeof(REAL));
        return;
    }
    NAME(join)(re, im, a, h, sign, circle);
    NAME(line) found = NAME(transform)(swapped, other, h, circle, 1);
    NAME(unpair)(found.im, found.re, out, h);
}

/* LANES rows at once, numbers of the same place beside each other: for short rows, whose later steps would have few
   neighbours. From number `row` on, `count` of them; the other lanes are 0. */

static void NAME(to_lanes)(REAL *restrict to, const REAL *restrict from, long count, long n, long step, long row) {
    if (count < LANES) memset(to, 0, n * LANES * sizeof(REAL));
    for (long lane = 0; lane + 4 <= count; lane += 4) {
        const REAL *first = from + lane * row, *second = first + row, *third = second + row, *fourth = third + row;
        REAL *at = to + lane;
        for (long k = 0; k < n; k++, at += LANES) {
            REAL x = first[k * step], y = second[k * step], z = third[k * step], w = fourth[k * step];
            at[0] = x, at[1] = y, at[2] = z, at[3] = w;
        }
    }
    for (long lane = count / 4 * 4; lane < count; lane++)
        for (long k = 0; k < n; k++) to[k * LANES + lane] = from[lane * row + k * step];
}

static void NAME(from_lanes)(REAL *restrict to, const REAL *restrict from, long count, long n, long step, long row) {
    for (long lane = 0; lane + 4 <= count; lane += 4) {
        REAL *first = to + lane * row, *second = first + row, *third = second + row, *fourth = third + row;
        const REAL *at = from + lane;
        for (long k = 0; k < n; k++, at += LANES)
            first[k * step] = at[0], second[k * step] = at[1], third[k * step] = at[2], fourth[k * step] = at[3];
    }
    for (long lane = count / 4 * 4; lane < count; lane++)
        for (long k = 0; k < n; k++) to[lane * row + k * step] = from[k * LANES + lane];
}

FOR_EACH_PROCESSOR static void NAME(split_lanes)(NAME(line) z, NAME(line) to, long h, REAL sign, NAME(circle) circle) {
    const REAL *restrict ar = z.re, *restrict ai = z.im;
    REAL *restrict br = to.re, *restrict bi = to.im;
    const REAL half = (REAL)0.5;
    for (long k = 1; k < h; k++) {
        REAL c = circle.cosine[k], s = circle.sine[k];
        for (long q = k * LANES, w = (h - k) * LANES; q < (k + 1) * LANES; q++, w++) {
            REAL er = half * (ar[q] + ar[w]), ei = half * (ai[q] - ai[w]);
            REAL or = half * (ai[q] + ai[w]), oi = half * (ar[w] - ar[q]);
            br[q] = er + (or * c + oi * s);
            bi[q] = sign * (ei + (oi * c - or * s));
        }
    }
    for (long q = 0, w = h * LANES; q < LANES; q++, w++) {
        br[q] = ar[q] + ai[q], br[w] = ar[q] - ai[q];
        bi[q] = bi[w] = sign * 0;
    }
}

FOR_EACH_PROCESSOR static void NAME(join_lanes)(NAME(line) from, NAME(line) to, long h, REAL sign,
                                                NAME(circle) circle) {
    const REAL *restrict re = from.re, *restrict im = from.im;
    REAL *restrict tr = to.re, *restrict ti = to.im;
    for (long k = 1; k < h; k++) {
        REAL c = circle.cosine[k], s = circle.sine[k];
        for (long q = k * LANES, w = (h - k) * LANES; q < (k + 1) * LANES; q++, w++) {
            REAL er = re[q] + re[w], ei = sign * (im[q] - im[w]), dr = re[q] - re[w], di = sign * (im[q] + im[w]);
            tr[q] = er - (dr * s + di * c);
            ti[q] = ei + (dr * c - di * s);
        }
    }
    for (long q = 0, w = h * LANES; q < LANES; q++, w++) tr[q] = re[q] + re[w], ti[q] = re[q] - re[w];
}

static void NAME(complex_lanes)(const fourier *job, long row, long count, NAME(line) a, NAME(line) b,
                                NAME(circle) circle) {
    long n = job->n;
    NAME(to_lanes)(a.re, (const REAL *)job->in[job->inverse] + row * n, count, n, 1, n);
    NAME(to_lanes)(a.im, (const REAL *)job->in[!job->inverse] + row * n, count, n, 1, n);
    NAME(line) found = NAME(transform)(a, b, n, circle, LANES);
    for (int i = 0; i < 2; i++)
        if (job->out[i])
            NAME(from_lanes)((REAL *)job->out[i] + row * n, job->inverse == i ? found.re : found.im, count, n, 1, n);
}

static void NAME(real_lanes)(const fourier *job, long row, long count, NAME(line) a, NAME(line) b,
                             NAME(circle) circle) {
    long n = job->n, h = n / 2, wanted = h + 1;
    const REAL *x = (const REAL *)job->in[0] + row * n;
    REAL sign = job->inverse ? -1 : 1;
    NAME(line) found;
    if (n % 2) {
        NAME(to_lanes)(a.re, x, count, n, 1, n);
        memset(a.im, 0, n * LANES * sizeof(REAL));
        found = NAME(transform)(a, b, n, circle, LANES);
        for (long k = 0; k < wanted * LANES; k++) found.im[k] *= sign;
    } else {
        NAME(to_lanes)(a.re, x, count, h, 2, n);
        NAME(to_lanes)(a.im, x + 1, count, h, 2, n);
        NAME(line) z = NAME(transform)(a, b, h, circle, LANES);
        found = z.re == a.re ? b : a;
        NAME(split_lanes)(z, found, h, sign, circle);
    }
    for (int i = 0; i < 2; i++)
        if (job->out[i])
            NAME(from_lanes)((REAL *)job->out[i] + row * wanted, i ? found.im : found.re, count, wanted, 1, wanted);
}

static void NAME(to_real_lanes)(const fourier *job, long row, long count, NAME(line) a, NAME(line) b,
                                NAME(circle) circle) {
    long n = job->n, h = n / 2, given = h + 1;
    REAL *out = (REAL *)job->out[0] + row * n, sign = job->inverse ? 1 : -1;
    NAME(line) swapped = {a.im, a.re}, other = {b.im, b.re}; /* the inverse */
    NAME(line) from = n % 2 ? a : b;
    NAME(to_lanes)(from.re, (const REAL *)job->in[0] + row * given, count, given, 1, given);
    NAME(to_lanes)(from.im, (const REAL *)job->in[1] + row * given, count, given, 1, given);
    if (n % 2) {
        for (long k = 0; k <= h; k++)
            for (long q = k * LANES, w = (n - k) * LANES; q < (k + 1) * LANES; q++, w++) {
                a.im[q] = k ? sign * a.im[q] : 0;
                if (k) a.re[w] = a.re[q], a.im[w] = -a.im[q];
            }
        NAME(from_lanes)(out, NAME(transform)(swapped, other, n, circle, LANES).im, count, n, 1, n);
        return;
    }
    NAME(join_lanes)(b, a, h, sign, circle);
    NAME(line) found = NAME(transform)(swapped, other, h, circle, LANES);
    NAME(from_lanes)(out, found.im, count, h, 2, n);
    NAME(from_lanes)(out + 1, found.re, count, h, 2, n);
}

static void NAME(rows_in_lanes)(const fourier *job, int part, int parts) {
    long n = job->n, room = (n + 1) * LANES, all = 4 * room * (long)sizeof(REAL);
    long groups = (job->rows + LANES - 1) / LANES, end = tg_begin(groups, part + 1, parts);
    REAL *memory = tg_workspace(all);
    NAME(line) a = {memory, memory + room}, b = {memory + 2 * room, memory + 3 * room};
    NAME(circle) circle = {job->circle, (const REAL *)job->circle + n, n, 0};
    for (long group = tg_begin(groups, part, parts); group < end; group++) {
        long row = group * LANES, count = job->rows - row < LANES ? job->rows - row : LANES;
        if (job->kind == COMPLEX_ROWS) NAME(complex_lanes)(job, row, count, a, b, circle);
        else if (job->kind == REAL_ROWS) NAME(real_lanes)(job, row, count, a, b, circle);
        else NAME(to_real_lanes)(job, row, count, a, b, circle);
    }
    tg_leave(memory, all);
}

static void NAME(rows)(const fourier *job, int part, int parts) {
    int steps_of_8 = job->n >= 64 && !(job->n & (job->n - 1)); /* a power of 2 has neighbours enough */
    if (job->rows >= LEAST_ROWS && job->n <= SHORT && !steps_of_8) {
        NAME(rows_in_lanes)(job, part, parts);
        return;
    }
    long n = job->n, room = n + 16, all = 6 * room * (long)sizeof(REAL);
    REAL *memory = tg_workspace(all);
    NAME(line) a = {memory, memory + room}, b = {memory + 2 * room, memory + 3 * room};
    NAME(circle) circle = {job->circle, (const REAL *)job->circle + n, n, memory + 4 * room};
    NAME(prepare)(circle, job->kind == COMPLEX_ROWS || n % 2 ? n : n / 2);
    long end = tg_begin(job->rows, part + 1, parts);
    for (long row = tg_begin(job->rows, part, parts); row < end; row++) {
        if (job->kind == COMPLEX_ROWS) NAME(complex_row)(job, row, a, b, circle);
        else if (job->kind == REAL_ROWS) NAME(real_row)(job, row, a, b, circle);
        else NAME(to_real_row)(job, row, a, b, circle);
    }
    tg_leave(memory, all);
}
