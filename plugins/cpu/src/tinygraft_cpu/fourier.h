/* Fourier transforms of lines, for one type and one kind of processor: the includer defines REAL, ELEMENT (its bytes), NAME
   and TARGET. Lines are lanes of vectors (fourier_steps.h): columns as they are in memory, rows after a transposition.

   A long line, or one that has no others beside it, is a matrix of n1 by n2 numbers: its columns are transformed, turned,
   and then its rows, whose transforms are columns of the result (Bailey, "FFTs in external or hierarchical memory", 1990). */

#include "fourier_steps.h"
#include "interleave.h"

typedef INTEGER NAME(indices) __attribute__((vector_size(WIDTH)));

#define EACH_LANE _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)

/* Transpose LANES vectors, by interleaving the halves of them as often as LANES has bits. */
TARGET static inline __attribute__((always_inline)) void NAME(transpose)(V *x) {
    V y[LANES];
#pragma GCC unroll 4
    for (int step = 1; step < LANES; step *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = SHUFFLED(x[i], x[i + LANES / 2], NAME(indices), FIRST);
            y[2 * i + 1] = SHUFFLED(x[i], x[i + LANES / 2], NAME(indices), SECOND);
        }
        EACH_LANE x[i] = y[i];
    }
}

/* Number k of `count` rows at x, `pitch` apart, to the vector at to + k * by, for k below n. Lanes without a row have the
   last one once more. */
TARGET static void NAME(load_rows)(REAL *to, long by, const REAL *x, long pitch, long count, long n) {
    if (n < LANES) {
        for (long k = 0; k < n; k++)
            for (long i = 0; i < LANES; i++) to[k * by + i] = x[(i < count ? i : count - 1) * pitch + k];
        return;
    }
    for (long at = 0; at < n; at += LANES) {
        long k = at + LANES <= n ? at : n - LANES;
        V all[LANES];
        EACH_LANE all[i] = LOAD(x + (i < count ? i : count - 1) * pitch + k);
        NAME(transpose)(all);
        EACH_LANE STORE(to + (k + i) * by, all[i]);
    }
}

/* The other way. */
TARGET static void NAME(store_rows)(const REAL *from, long by, REAL *y, long pitch, long count, long n) {
    if (n < LANES) {
        for (long k = 0; k < n; k++)
            for (long i = 0; i < count; i++) y[i * pitch + k] = from[k * by + i];
        return;
    }
    for (long at = 0; at < n; at += LANES) {
        long k = at + LANES <= n ? at : n - LANES;
        V all[LANES];
        EACH_LANE all[i] = LOAD(from + (k + i) * by);
        NAME(transpose)(all);
        EACH_LANE if (i < count) STORE(y + i * pitch + k, all[i]);
    }
}

/* A real row of even length: pairs of neighbours are complex numbers, and the transforms of the even and the odd ones
   follow from theirs (Press and others, "Numerical recipes", 12.3). */

TARGET static void NAME(split_lanes)(NAME(lines) z, NAME(lines) to, long h, REAL sign, NAME(circle) circle) {
    const REAL half = (REAL)0.5;
    V r0 = LOAD(z.re), i0 = LOAD(z.im), none = {0};
    for (long k = 1; k < h; k++) {
        REAL c = circle.cosine[k], s = circle.sine[k];
        V ar = LOAD(z.re + k * z.step), ai = LOAD(z.im + k * z.step);
        V br = LOAD(z.re + (h - k) * z.step), bi = LOAD(z.im + (h - k) * z.step);
        V er = half * (ar + br), ei = half * (ai - bi), or = half * (ai + bi), oi = half * (br - ar);
        STORE(to.re + k * to.step, er + (or * c + oi * s));
        STORE(to.im + k * to.step, sign * (ei + (oi * c - or * s)));
    }
    STORE(to.re, r0 + i0);
    STORE(to.re + h * to.step, r0 - i0);
    STORE(to.im, none);
    STORE(to.im + h * to.step, none);
}

TARGET static void NAME(join_lanes)(NAME(lines) from, NAME(lines) to, long h, REAL sign, NAME(circle) circle) {
    for (long k = 1; k < h; k++) {
        REAL c = circle.cosine[k], s = circle.sine[k];
        V ar = LOAD(from.re + k * from.step), ai = LOAD(from.im + k * from.step);
        V br = LOAD(from.re + (h - k) * from.step), bi = LOAD(from.im + (h - k) * from.step);
        V er = ar + br, ei = sign * (ai - bi), dr = ar - br, di = sign * (ai + bi);
        STORE(to.re + k * to.step, er - (dr * s + di * c));
        STORE(to.im + k * to.step, ei + (dr * c - di * s));
    }
    V first = LOAD(from.re), last = LOAD(from.re + h * from.step);
    STORE(to.re, first + last);
    STORE(to.im, first - last);
}

/* The same on numbers that follow each other, for k from `first` to before `end`, of which the first is not 0. */
TARGET static void NAME(split)(const REAL *restrict ar, const REAL *restrict ai, REAL *restrict re, REAL *restrict im,
                               long first, long end, long h, REAL sign, NAME(circle) circle) {
    const REAL *restrict c = circle.cosine, *restrict s = circle.sine;
    const REAL half = (REAL)0.5;
    NEIGHBOURS_ARE_APART
    for (long k = first; k < end; k++) {
        REAL er = half * (ar[k] + ar[h - k]), ei = half * (ai[k] - ai[h - k]);
        REAL or = half * (ai[k] + ai[h - k]), oi = half * (ar[h - k] - ar[k]);
        re[k] = er + (or * c[k] + oi * s[k]);
        im[k] = sign * (ei + (oi * c[k] - or * s[k]));
    }
}

TARGET static void NAME(join)(const REAL *restrict re, const REAL *restrict im, REAL *restrict tr, REAL *restrict ti,
                              long first, long end, long h, REAL sign, NAME(circle) circle) {
    const REAL *restrict c = circle.cosine, *restrict s = circle.sine;
    NEIGHBOURS_ARE_APART
    for (long k = first; k < end; k++) {
        REAL er = re[k] + re[h - k], ei = sign * (im[k] - im[h - k]);
        REAL dr = re[k] - re[h - k], di = sign * (im[k] + im[h - k]);
        tr[k] = er - (dr * s[k] + di * c[k]);
        ti[k] = ei + (dr * c[k] - di * s[k]);
    }
}

/* Room for the vectors of LANES lines of n numbers, twice. */
typedef struct {
    REAL *memory, *a, *b;
    long bytes;
} NAME(room);

TARGET static NAME(room) NAME(enter)(long n) {
    long one = 2 * (n + 1) * LANES;
    NAME(room) room = {.bytes = (2 * one + LANES) * (long)sizeof(REAL)};
    room.memory = tg_workspace(room.bytes);
    room.a = (REAL *)(((uintptr_t)room.memory + WIDTH - 1) & -(uintptr_t)WIDTH), room.b = room.a + one;
    return room;
}

/* Which of both the last step does not read, where the first one may read room.b. */
static REAL *NAME(free_room)(NAME(room) room, long n) {
    int odd = n == 1;
    for (; n > 1; n /= NAME(radix)(n)) odd = !odd;
    return odd ? room.a : room.b;
}

/* Transform to room.a or room.b; returns which. Lines at room.b are overwritten. */
TARGET static REAL *NAME(transform_in)(NAME(lines) from, NAME(room) room, long n, NAME(circle) circle) {
    REAL *to = NAME(free_room)(room, n);
    NAME(transform)(from, NAME(packed)(to), room.a, room.b, n, circle);
    return to;
}

/* Lines that are columns: numbers `inner` apart. The inverse is the transform with real and imaginary parts exchanged. */
TARGET static void NAME(columns)(const fourier *job, int part, int parts) {
    long n = job->n, inner = job->inner, blocks = (inner + LANES - 1) / LANES;
    long end = tg_begin(job->rows * blocks, part + 1, parts);
    NAME(room) room = NAME(enter)(n);
    NAME(circle) circle = {job->circle, (const REAL *)job->circle + n, n};
    for (long unit = tg_begin(job->rows * blocks, part, parts); unit < end; unit++) {
        long column = unit % blocks * LANES, at = unit / blocks * n * inner + column, count = inner - column;
        NAME(lines) from = {(REAL *)job->in[job->inverse] + at, (REAL *)job->in[!job->inverse] + at, inner};
        NAME(lines) to = {(REAL *)job->out[job->inverse] + at, (REAL *)job->out[!job->inverse] + at, inner};
        if (count >= LANES) {
            NAME(transform)(from, to, room.a, room.b, n, circle);
            continue;
        }
        for (long k = 0; k < n; k++)
            for (long i = 0; i < LANES; i++) {
                long lane = k * inner + (i < count ? i : count - 1);
                room.b[2 * k * LANES + i] = from.re[lane], room.b[(2 * k + 1) * LANES + i] = from.im[lane];
            }
        const REAL *found = NAME(transform_in)(NAME(packed)(room.b), room, n, circle);
        for (long k = 0; k < n; k++)
            for (long i = 0; i < count; i++) {
                to.re[k * inner + i] = found[2 * k * LANES + i];
                to.im[k * inner + i] = found[(2 * k + 1) * LANES + i];
            }
    }
    tg_leave(room.memory, room.bytes);
}

TARGET static void NAME(complex_rows)(const fourier *job, long row, long count, NAME(room) room, NAME(circle) circle) {
    long n = job->n, at = row * n;
    NAME(load_rows)(room.b, 2 * LANES, (const REAL *)job->in[job->inverse] + at, n, count, n);
    NAME(load_rows)(room.b + LANES, 2 * LANES, (const REAL *)job->in[!job->inverse] + at, n, count, n);
    const REAL *found = NAME(transform_in)(NAME(packed)(room.b), room, n, circle);
    NAME(store_rows)(found, 2 * LANES, (REAL *)job->out[job->inverse] + at, n, count, n);
    NAME(store_rows)(found + LANES, 2 * LANES, (REAL *)job->out[!job->inverse] + at, n, count, n);
}

TARGET static void NAME(real_rows)(const fourier *job, long row, long count, NAME(room) room, NAME(circle) circle) {
    long n = job->n, h = n / 2, wanted = h + 1;
    const REAL *x = (const REAL *)job->in[0] + row * n;
    REAL sign = job->inverse ? -1 : 1, *found;
    if (n % 2) {
        NAME(load_rows)(room.b, 2 * LANES, x, n, count, n);
        for (long k = 0; k < n; k++) STORE(room.b + (2 * k + 1) * LANES, (V){0});
        found = NAME(transform_in)(NAME(packed)(room.b), room, n, circle);
        for (long k = 0; k < wanted; k++) {
            REAL *im = found + (2 * k + 1) * LANES;
            STORE(im, sign * LOAD(im));
        }
    } else {
        NAME(load_rows)(room.b, LANES, x, n, count, n);
        REAL *z = NAME(transform_in)(NAME(packed)(room.b), room, h, circle);
        found = z == room.a ? room.b : room.a;
        NAME(split_lanes)(NAME(packed)(z), NAME(packed)(found), h, sign, circle);
    }
    for (int i = 0; i < 2; i++)
        NAME(store_rows)(found + i * LANES, 2 * LANES, (REAL *)job->out[i] + row * wanted, wanted, count, wanted);
}

TARGET static void NAME(to_real_rows)(const fourier *job, long row, long count, NAME(room) room, NAME(circle) circle) {
    long n = job->n, h = n / 2, given = h + 1;
    REAL sign = job->inverse ? 1 : -1;
    REAL *first = n % 2 ? room.b : room.a;
    NAME(load_rows)(first, 2 * LANES, (const REAL *)job->in[0] + row * given, given, count, given);
    NAME(load_rows)(first + LANES, 2 * LANES, (const REAL *)job->in[1] + row * given, given, count, given);
    if (n % 2) {
        STORE(first + LANES, (V){0});
        for (long k = 1; k <= h; k++) {
            V re = LOAD(first + 2 * k * LANES), im = sign * LOAD(first + (2 * k + 1) * LANES);
            STORE(first + (2 * k + 1) * LANES, im);
            STORE(first + 2 * (n - k) * LANES, re);
            STORE(first + (2 * (n - k) + 1) * LANES, -im);
        }
    } else NAME(join_lanes)(NAME(packed)(room.a), NAME(packed)(room.b), h, sign, circle);
    /* the inverse: parts exchanged, so that the even numbers of a row, or all of an odd one, are first in each pair */
    NAME(lines) from = {room.b + LANES, room.b, 2 * LANES};
    long length = n % 2 ? n : h;
    REAL *found = NAME(free_room)(room, length);
    NAME(transform)(from, (NAME(lines)){found + LANES, found, 2 * LANES}, room.a, room.b, length, circle);
    NAME(store_rows)(found, n % 2 ? 2 * LANES : LANES, (REAL *)job->out[0] + row * n, n, count, n);
}

TARGET static void NAME(rows)(const fourier *job, int part, int parts) {
    long n = job->n, groups = (job->rows + LANES - 1) / LANES, end = tg_begin(groups, part + 1, parts);
    NAME(room) room = NAME(enter)(n);
    NAME(circle) circle = {job->circle, (const REAL *)job->circle + n, n};
    for (long group = tg_begin(groups, part, parts); group < end; group++) {
        long row = group * LANES, count = job->rows - row < LANES ? job->rows - row : LANES;
        if (job->kind == COMPLEX_ROWS) NAME(complex_rows)(job, row, count, room, circle);
        else if (job->kind == REAL_ROWS) NAME(real_rows)(job, row, count, room, circle);
        else NAME(to_real_rows)(job, row, count, room, circle);
    }
    tg_leave(room.memory, room.bytes);
}
