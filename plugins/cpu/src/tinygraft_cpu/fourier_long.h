/* A long line as a matrix of n1 by n2 numbers, for one type and one kind of processor, in phases that threads divide. */

#include "fourier.h"

typedef struct {
    const REAL *re, *im; /* `im` is 0 for real numbers */
    REAL *matrix[2], *other[2], *to_re, *to_im;
    int pairs, to_pairs; /* numbers at `re` are pairs of real and imaginary parts; at `to_re` of imaginary and real ones */
    long n1, n2;
    NAME(circle) circle, first, second; /* for n of the row, n1 and n2 */
    const REAL *cosine, *sine;          /* of 2 pi j k / (n1 n2) at j * n2 + k */
} NAME(whole);

static NAME(whole) NAME(whole_of)(const fourier *job, long row, REAL *memory) {
    long n = job->n, n1 = job->n1, n2 = job->n2, m = n1 * n2;
    const REAL *turns = job->turns, *circle = job->circle;
    NAME(whole) w = {.n1 = n1, .n2 = n2, .circle = {circle, circle + n, n}, .first = {turns, turns + n1, n1},
                     .second = {turns + 2 * n1, turns + 2 * n1 + n2, n2},
                     .cosine = turns + 2 * (n1 + n2), .sine = turns + 2 * (n1 + n2) + m,
                     .matrix = {memory, memory + m}, .other = {memory + 2 * m, memory + 3 * m}};
    if (job->kind == COMPLEX_ROWS) {
        w.re = (const REAL *)job->in[job->inverse] + row * n, w.im = (const REAL *)job->in[!job->inverse] + row * n;
        w.to_re = (REAL *)job->out[job->inverse] + row * n, w.to_im = (REAL *)job->out[!job->inverse] + row * n;
    } else if (job->kind == REAL_ROWS) {
        w.re = (const REAL *)job->in[0] + row * n, w.pairs = n % 2 == 0;
        w.to_re = w.other[0], w.to_im = w.other[1];
    } else { /* the inverse: parts exchanged, and of an odd row one is the result and the other 0 */
        w.re = w.other[1], w.im = w.other[0], w.to_pairs = n % 2 == 0;
        w.to_re = w.to_pairs ? (REAL *)job->out[0] + row * n : w.other[0], w.to_im = (REAL *)job->out[0] + row * n;
    }
    return w;
}

/* Columns of the matrix, turned. */
TARGET static void NAME(first_half)(const NAME(whole) *w, int part, int parts) {
    long n1 = w->n1, n2 = w->n2, blocks = (n2 + LANES - 1) / LANES, end = tg_begin(blocks, part + 1, parts);
    NAME(room) room = NAME(enter)(n1);
    for (long block = tg_begin(blocks, part, parts); block < end; block++) {
        long column = block * LANES, count = n2 - column < LANES ? n2 - column : LANES;
        NAME(lines) from = NAME(packed)(room.b);
        if (count == LANES && w->im) from = (NAME(lines)){(REAL *)w->re + column, (REAL *)w->im + column, n2};
        else
            for (long j = 0; j < n1; j++) {
                long at = j * n2 + column;
                REAL *re = room.b + 2 * j * LANES, *im = re + LANES;
                if (count == LANES && w->pairs) {
                    V a = LOAD(w->re + 2 * at), b = LOAD(w->re + 2 * at + LANES);
                    STORE(re, SHUFFLED(a, b, NAME(indices), EVEN));
                    STORE(im, SHUFFLED(a, b, NAME(indices), ODD));
                } else
                    for (long i = 0; i < LANES; i++) {
                        long lane = at + (i < count ? i : count - 1);
                        re[i] = w->re[w->pairs ? 2 * lane : lane];
                        im[i] = w->pairs ? w->re[2 * lane + 1] : w->im ? w->im[lane] : 0;
                    }
            }
        const REAL *found = NAME(transform_in)(from, room, n1, w->first);
        for (long j = 0; j < n1; j++) {
            long at = j * n2 + column;
            const REAL *re = found + 2 * j * LANES, *im = re + LANES;
            if (count == LANES) {
                V u = LOAD(re), v = LOAD(im), c = LOAD(w->cosine + at), s = LOAD(w->sine + at);
                STORE(w->matrix[0] + at, u * c + v * s);
                STORE(w->matrix[1] + at, v * c - u * s);
            } else
                for (long i = 0; i < count; i++) {
                    w->matrix[0][at + i] = re[i] * w->cosine[at + i] + im[i] * w->sine[at + i];
                    w->matrix[1][at + i] = im[i] * w->cosine[at + i] - re[i] * w->sine[at + i];
                }
        }
    }
    tg_leave(room.memory, room.bytes);
}

/* Rows of the matrix, whose transforms are columns of the result. */
TARGET static void NAME(second_half)(const NAME(whole) *w, int part, int parts) {
    long n1 = w->n1, n2 = w->n2, blocks = (n1 + LANES - 1) / LANES, end = tg_begin(blocks, part + 1, parts);
    NAME(room) room = NAME(enter)(n2);
    for (long block = tg_begin(blocks, part, parts); block < end; block++) {
        long row = block * LANES, count = n1 - row < LANES ? n1 - row : LANES;
        for (int i = 0; i < 2; i++)
            NAME(load_rows)(room.b + i * LANES, 2 * LANES, w->matrix[i] + row * n2, n2, count, n2);
        NAME(lines) from = NAME(packed)(room.b), to = {w->to_re + row, w->to_im + row, n1};
        if (count == LANES && !w->to_pairs) {
            NAME(transform)(from, to, room.a, room.b, n2, w->second);
            continue;
        }
        const REAL *found = NAME(transform_in)(from, room, n2, w->second);
        for (long k = 0; k < n2; k++) {
            const REAL *re = found + 2 * k * LANES, *im = re + LANES;
            long at = k * n1 + row;
            if (count == LANES) {
                V u = LOAD(im), v = LOAD(re);
                STORE(w->to_re + 2 * at, SHUFFLED(u, v, NAME(indices), FIRST));
                STORE(w->to_re + 2 * at + LANES, SHUFFLED(u, v, NAME(indices), SECOND));
            } else if (w->to_pairs)
                for (long i = 0; i < count; i++)
                    w->to_re[2 * (at + i)] = im[i], w->to_re[2 * (at + i) + 1] = re[i];
            else
                for (long i = 0; i < count; i++) w->to_re[at + i] = re[i], w->to_im[at + i] = im[i];
        }
    }
    tg_leave(room.memory, room.bytes);
}

/* The whole of what a line is given by its half, in w->other. */
TARGET static void NAME(before)(const fourier *job, long row, const NAME(whole) *w, int part, int parts) {
    long n = job->n, h = n / 2, given = h + 1, first = 1 + tg_begin(h, part, parts), end = 1 + tg_begin(h, part + 1, parts);
    const REAL *re = (const REAL *)job->in[0] + row * given, *im = (const REAL *)job->in[1] + row * given;
    REAL sign = job->inverse ? 1 : -1, *to_re = w->other[0], *to_im = w->other[1];
    if (n % 2 == 0) {
        NAME(join)(re, im, to_re, to_im, first, end < h ? end : h, h, sign, w->circle);
        if (!part) to_re[0] = re[0] + re[h], to_im[0] = re[0] - re[h];
        return;
    }
    for (long k = first; k < end; k++) {
        to_re[k] = to_re[n - k] = re[k];
        to_im[k] = sign * im[k], to_im[n - k] = -sign * im[k];
    }
    if (!part) to_re[0] = re[0], to_im[0] = 0;
}

/* The half of a real line's transform. */
TARGET static void NAME(after)(const fourier *job, long row, const NAME(whole) *w, int part, int parts) {
    long n = job->n, h = n / 2, wanted = h + 1, first = 1 + tg_begin(h, part, parts), end = 1 + tg_begin(h, part + 1, parts);
    REAL *re = (REAL *)job->out[0] + row * wanted, *im = (REAL *)job->out[1] + row * wanted;
    const REAL *ar = w->other[0], *ai = w->other[1];
    REAL sign = job->inverse ? -1 : 1;
    if (n % 2 == 0) {
        NAME(split)(ar, ai, re, im, first, end < h ? end : h, h, sign, w->circle);
        if (!part) re[0] = ar[0] + ai[0], re[h] = ar[0] - ai[0], im[0] = im[h] = 0;
        return;
    }
    for (long k = part ? first : 0; k < end; k++) re[k] = ar[k], im[k] = sign * ai[k];
}

TARGET static void NAME(phase)(const fourier *job, long row, int phase, REAL *memory, int part, int parts) {
    NAME(whole) w = NAME(whole_of)(job, row, memory);
    if (phase == 0 && job->kind == TO_REAL_ROWS) NAME(before)(job, row, &w, part, parts);
    if (phase == 1) NAME(first_half)(&w, part, parts);
    if (phase == 2) NAME(second_half)(&w, part, parts);
    if (phase == 3 && job->kind == REAL_ROWS) NAME(after)(job, row, &w, part, parts);
}

/* Part of a job: of one phase of a row, of whole rows one after the other, or of lines in lanes. */
TARGET static void NAME(some)(void *given, int part, int parts) {
    const fourier *job = given;
    if (job->memory) NAME(phase)(job, job->row, job->phase, job->memory, part, parts);
    else if (job->n1) {
        long end = tg_begin(job->rows, part + 1, parts);
        REAL *memory = tg_take(matrix_room(job));
        for (long row = tg_begin(job->rows, part, parts); row < end; row++)
            for (int phase = 0; phase < PHASES; phase++) NAME(phase)(job, row, phase, memory, 0, 1);
        tg_give(memory);
    } else if (job->inner > 1) NAME(columns)(job, part, parts);
    else NAME(rows)(job, part, parts);
}

#undef EACH_LANE
