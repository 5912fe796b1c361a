/* Steps of a Fourier transform on vectors, for one type and one kind of processor (tile_levels.h): each lane of a vector
   is a line of its own, so that every number of a line is one load, one butterfly for all lanes, and one store.

   Stockham's order of steps (Cochran and others, "What is the fast Fourier transform?", 1967) needs no reordering: a
   step of radix r reads from one place, turns, and writes to another one. */

typedef REAL NAME(vector) __attribute__((vector_size(WIDTH)));
typedef REAL NAME(loose) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));

#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#define LANES (WIDTH / (long)sizeof(REAL))
#define LOAD(p) ((NAME(vector)) * (const NAME(loose) *)(p))
#define STORE(p, x) (*(NAME(loose) *)(p) = (x))
#define SPLAT(x) ((x) - (NAME(vector)){0})

/* Where number e of the lines is: at re + e * step and im + e * step. */
typedef struct {
    REAL *re, *im;
    long step;
} NAME(lines);

typedef struct {
    const REAL *cosine, *sine; /* of 2 pi k / size, k below size */
    long size;
} NAME(circle);

/* b[p * radix + k] = (the sum of a[p + j m] times the turn by -j k / radix) times the turn by -p k / n, for p below m and
   each of `few` numbers that earlier steps have brought together. For p = 0 there is no turn. */
#undef STEP
#undef IN
#undef OUT
#undef ALONE
#undef V
#define STEP(RADIX, BODY)                                                                                              \
    TARGET static inline __attribute__((always_inline)) void NAME(core##RADIX)(                                        \
        NAME(lines) from, NAME(lines) to, long few, long far, const NAME(vector) *c, const NAME(vector) *s,            \
        int turned) {                                                                                                  \
        for (long q = 0; q < few; q++) {                                                                               \
            const REAL *ar = from.re + q * from.step, *ai = from.im + q * from.step;                                   \
            REAL *br = to.re + q * to.step, *bi = to.im + q * to.step;                                                 \
            long by_k = few * to.step;                                                                                 \
            BODY                                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void NAME(step##RADIX)(NAME(lines) from, NAME(lines) to, long n, long few, NAME(circle) circle) {    \
        long m = n / RADIX, stride = circle.size / n, far = m * few * from.step;                                       \
        NAME(vector) c[RADIX], s[RADIX];                                                                               \
        NAME(core##RADIX)(from, to, few, far, c, s, 0);                                                                \
        for (long p = 1; p < m; p++) {                                                                                 \
            for (long k = 1; k < RADIX; k++)                                                                           \
                c[k] = SPLAT(circle.cosine[p * k * stride]), s[k] = SPLAT(circle.sine[p * k * stride]);                \
            from.re += few * from.step, from.im += few * from.step;                                                    \
            to.re += RADIX * few * to.step, to.im += RADIX * few * to.step;                                            \
            NAME(core##RADIX)(from, to, few, far, c, s, 1);                                                            \
        }                                                                                                              \
    }

#define IN(j, x, y) NAME(vector) x = LOAD(ar + (j) * far), y = LOAD(ai + (j) * far);
#define OUT(k, x, y)                                                                                                   \
    {                                                                                                                  \
        NAME(vector) u = (x), v = (y);                                                                                 \
        STORE(br + (k) * by_k, turned ? u * c[k] + v * s[k] : u);                                                      \
        STORE(bi + (k) * by_k, turned ? v * c[k] - u * s[k] : v);                                                      \
    }
#define ALONE(x, y)                                                                                                    \
    {                                                                                                                  \
        STORE(br, x);                                                                                                  \
        STORE(bi, y);                                                                                                  \
    }
#define V NAME(vector)

/* clang-format off */
STEP(2, IN(0, r0, i0) IN(1, r1, i1) ALONE(r0 + r1, i0 + i1) OUT(1, r0 - r1, i0 - i1))

STEP(3, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2)
     V sr = r1 + r2; V si = i1 + i2;
     V hr = r0 - (REAL)0.5 * sr; V hi = i0 - (REAL)0.5 * si;
     V dr = (REAL)0.86602540378443864676 * (r1 - r2); V di = (REAL)0.86602540378443864676 * (i1 - i2);
     ALONE(r0 + sr, i0 + si) OUT(1, hr + di, hi - dr) OUT(2, hr - di, hi + dr))

STEP(4, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2) IN(3, r3, i3)
     V ar0 = r0 + r2; V ai0 = i0 + i2; V ar1 = r0 - r2; V ai1 = i0 - i2;
     V ar2 = r1 + r3; V ai2 = i1 + i3; V ar3 = r1 - r3; V ai3 = i1 - i3;
     ALONE(ar0 + ar2, ai0 + ai2) OUT(1, ar1 + ai3, ai1 - ar3) OUT(2, ar0 - ar2, ai0 - ai2) OUT(3, ar1 - ai3, ai1 + ar3))

STEP(5, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2) IN(3, r3, i3) IN(4, r4, i4)
     const REAL c1 = (REAL)0.30901699437494742410; const REAL c2 = (REAL)-0.80901699437494742410;
     const REAL s1 = (REAL)0.95105651629515357212; const REAL s2 = (REAL)0.58778525229247312917;
     V sr1 = r1 + r4; V si1 = i1 + i4; V sr2 = r2 + r3; V si2 = i2 + i3;
     V dr1 = r1 - r4; V di1 = i1 - i4; V dr2 = r2 - r3; V di2 = i2 - i3;
     V hr1 = r0 + c1 * sr1 + c2 * sr2; V hi1 = i0 + c1 * si1 + c2 * si2;
     V hr2 = r0 + c2 * sr1 + c1 * sr2; V hi2 = i0 + c2 * si1 + c1 * si2;
     V tr1 = s1 * dr1 + s2 * dr2; V ti1 = s1 * di1 + s2 * di2;
     V tr2 = s2 * dr1 - s1 * dr2; V ti2 = s2 * di1 - s1 * di2;
     ALONE(r0 + sr1 + sr2, i0 + si1 + si2) OUT(1, hr1 + ti1, hi1 - tr1) OUT(2, hr2 + ti2, hi2 - tr2)
     OUT(3, hr2 - ti2, hi2 + tr2) OUT(4, hr1 - ti1, hi1 + tr1))

STEP(8, IN(0, r0, i0) IN(1, r1, i1) IN(2, r2, i2) IN(3, r3, i3) IN(4, r4, i4) IN(5, r5, i5) IN(6, r6, i6) IN(7, r7, i7)
     const REAL h = (REAL)0.70710678118654752440;
     V er0 = r0 + r4; V ei0 = i0 + i4; V er1 = r0 - r4; V ei1 = i0 - i4;
     V er2 = r2 + r6; V ei2 = i2 + i6; V er3 = r2 - r6; V ei3 = i2 - i6;
     V gr0 = r1 + r5; V gi0 = i1 + i5; V gr1 = r1 - r5; V gi1 = i1 - i5;
     V gr2 = r3 + r7; V gi2 = i3 + i7; V gr3 = r3 - r7; V gi3 = i3 - i7;
     V xr0 = er0 + er2; V xi0 = ei0 + ei2; V xr2 = er0 - er2; V xi2 = ei0 - ei2;
     V xr1 = er1 + ei3; V xi1 = ei1 - er3; V xr3 = er1 - ei3; V xi3 = ei1 + er3;
     V yr0 = gr0 + gr2; V yi0 = gi0 + gi2; V yr2 = gi0 - gi2; V yi2 = gr2 - gr0;
     V tr1 = gr1 + gi3; V ti1 = gi1 - gr3; V tr3 = gr1 - gi3; V ti3 = gi1 + gr3;
     V yr1 = h * (tr1 + ti1); V yi1 = h * (ti1 - tr1); V yr3 = h * (ti3 - tr3); V yi3 = -h * (tr3 + ti3);
     ALONE(xr0 + yr0, xi0 + yi0) OUT(1, xr1 + yr1, xi1 + yi1) OUT(2, xr2 + yr2, xi2 + yi2) OUT(3, xr3 + yr3, xi3 + yi3)
     OUT(4, xr0 - yr0, xi0 - yi0) OUT(5, xr1 - yr1, xi1 - yi1) OUT(6, xr2 - yr2, xi2 - yi2)
     OUT(7, xr3 - yr3, xi3 - yi3))
/* clang-format on */

/* Any radix: sums of all products. */
TARGET static void NAME(step_any)(NAME(lines) from, NAME(lines) to, long n, long few, NAME(circle) circle, long radix) {
    long m = n / radix, stride = circle.size / n, own = circle.size / radix, far = m * few * from.step;
    for (long p = 0; p < m; p++)
        for (long k = 0; k < radix; k++) {
            REAL pc = circle.cosine[p * k * stride], ps = circle.sine[p * k * stride];
            for (long q = 0; q < few; q++) {
                long at = (p * few + q) * from.step, to_at = ((p * radix + k) * few + q) * to.step;
                V u = LOAD(from.re + at), v = LOAD(from.im + at);
                for (long j = 1, turn = k; j < radix; j++, turn += k, turn -= turn < radix ? 0 : radix) {
                    REAL c = circle.cosine[turn * own], s = circle.sine[turn * own];
                    V x = LOAD(from.re + at + j * far), y = LOAD(from.im + at + j * far);
                    u += x * c + y * s;
                    v += y * c - x * s;
                }
                STORE(to.re + to_at, u * pc + v * ps);
                STORE(to.im + to_at, v * pc - u * ps);
            }
        }
}

static long NAME(radix)(long n) {
    long radix = n % 8 == 0 && n != 16 ? 8 : n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
    while (n % radix) radix += 2;
    return radix;
}

/* Vectors that follow each other, a real and an imaginary part in turns: room for 2 n of them. */
static inline NAME(lines) NAME(packed)(REAL *room) { return (NAME(lines)){room, room + LANES, 2 * LANES}; }

/* Transform LANES lines of n numbers from `from` to `to`; `a` and `b` are room for as many, of which `from` may be the
   second, and `to` none. circle.size is a multiple of n. */
TARGET static void NAME(transform)(NAME(lines) from, NAME(lines) to, REAL *a, REAL *b, long n, NAME(circle) circle) {
    if (n == 1) {
        V u = LOAD(from.re), v = LOAD(from.im);
        STORE(to.re, u);
        STORE(to.im, v);
    }
    for (long few = 1; n > 1;) {
        long radix = NAME(radix)(n);
        NAME(lines) next = radix == n ? to : NAME(packed)(a);
        if (radix == 8) NAME(step8)(from, next, n, few, circle);
        else if (radix == 4) NAME(step4)(from, next, n, few, circle);
        else if (radix == 2) NAME(step2)(from, next, n, few, circle);
        else if (radix == 3) NAME(step3)(from, next, n, few, circle);
        else if (radix == 5) NAME(step5)(from, next, n, few, circle);
        else NAME(step_any)(from, next, n, few, circle, radix);
        n /= radix, few *= radix, from = next;
        REAL *swap = a;
        a = b, b = swap;
    }
}

