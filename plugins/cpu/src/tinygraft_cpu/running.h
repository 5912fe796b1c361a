/* Running sums or products of one kind of number. The includer defines STORED, the type in memory; KEPT, that between two
   elements; OP, and WITHOUT_WAIT, whether it takes one cycle; NEUTRAL, which combined with any number is that number;
   SAFE(v): whether nothing before it has been lost; AGREE(a, b), for what a line came to and what was taken for it; for products LEAST and GREATEST, exponents of numbers of which any LENGTH
   stay in range; and NAME(x).

   Each element waits for the one before it, so that several lines are computed side by side: rows, or parts of one row, each
   from what those before it combine to. These are combined in the order of the row, too: what is large and is taken away
   again soon takes nothing else with it. Where they are not SAFE, elements come one after another. Which it is does not depend
   on the number of threads. */

/* `n` elements of some lines, each `apart` from the one before it, from start[line] on; what is before the next one is left
   there. With y they are stored. */
static inline __attribute__((always_inline)) void NAME(side_by_side)(const int lines, const STORED *restrict x,
                                                                     STORED *restrict y, long n, long apart, KEPT *start) {
    KEPT a[TOGETHER];
#pragma GCC unroll 8
    for (int k = 0; k < lines; k++) a[k] = start[k];
    for (long i = 0; i < n; i++)
#pragma GCC unroll 8
        for (int k = 0; k < lines; k++) {
            a[k] = a[k] OP (KEPT)x[k * apart + i];
            if (y) y[k * apart + i] = (STORED)a[k];
        }
#pragma GCC unroll 8
    for (int k = 0; k < lines; k++) start[k] = a[k];
}

/* `n` elements one after another from `start` on; returns the last. */
static KEPT NAME(sequence)(const STORED *x, STORED *y, long n, KEPT start) {
    NAME(side_by_side)(1, x, y, n, n, &start);
    return start;
}

/* Many rows, from `first` to before `end`. */
static void NAME(rows)(const scan *job, long first, long end) {
    const STORED *x = job->x;
    STORED *y = job->y;
    long n = job->n;
    for (; first + ROWS <= end; first += ROWS) {
        KEPT start[ROWS] = {NEUTRAL, NEUTRAL, NEUTRAL, NEUTRAL};
        NAME(side_by_side)(ROWS, x + first * n, y + first * n, n, n, start);
    }
    for (; first < end; first++) NAME(sequence)(x + first * n, y + first * n, n, NEUTRAL);
}

#ifdef LEAST
/* Whether all elements of a tile have exponents from LEAST to GREATEST. */
FOR_EACH_PROCESSOR
static int NAME(in_range)(const STORED *x) {
    int64_t found = 0; /* below 0 where an element is outside */
    for (long i = 0; i < TILE; i++) {
        KEPT v = (KEPT)x[i];
        int64_t bits;
        memcpy(&bits, &v, sizeof bits);
        int64_t exponent = (bits >> 52 & 2047) - 1023;
        found |= (exponent - LEAST) | (GREATEST - exponent);
    }
    return found >= 0;
}
#endif

/* What the elements of each line of a tile combine to; returns whether they can be combined so. */
static int NAME(totals)(const STORED *x, KEPT *totals) {
#ifdef LEAST
    if (!NAME(in_range)(x)) return 0;
#endif
    for (int k = 0; k < TOGETHER; k++) totals[k] = NEUTRAL;
    NAME(side_by_side)(TOGETHER, x, 0, LENGTH, LENGTH, totals);
    return 1;
}

/* What is before each line of a tile, from start[0] on; returns whether all of it is SAFE. start[TOGETHER] is behind the last. */
static int NAME(starts)(KEPT *start, const KEPT *totals) {
    int safe = SAFE(start[0]);
    for (int line = 0; line < TOGETHER; line++) {
        start[line + 1] = start[line] OP totals[line];
        safe &= SAFE(start[line + 1]);
    }
    return safe;
}

/* The elements of a tile, from what is before each line; returns whether each line came to what is before the next one. */
static int NAME(tile)(const STORED *x, STORED *y, const KEPT *start) {
    KEPT came[TOGETHER];
    for (int line = 0; line < TOGETHER; line++) came[line] = start[line];
    NAME(side_by_side)(TOGETHER, x, y, LENGTH, LENGTH, came);
    for (int line = 0; line < TOGETHER; line++)
        if (!(AGREE(came[line], start[line + 1]))) return 0;
    return 1;
}

/* One row by one thread: a tile is read twice, the second time from the first cache. */
static void NAME(row)(const STORED *x, STORED *y, long n) {
    KEPT totals[TOGETHER], start[TOGETHER + 1] = {NEUTRAL};
    long i = 0;
    for (; !WITHOUT_WAIT && i + TILE <= n; i += TILE) {
        int safe = SAFE(start[0]) && NAME(totals)(x + i, totals) && NAME(starts)(start, totals);
        if (safe && NAME(tile)(x + i, y + i, start)) start[0] = start[TOGETHER];
        else start[0] = NAME(sequence)(x + i, y + i, TILE, start[0]);
    }
    NAME(sequence)(x + i, y + i, n - i, start[0]);
}

static void NAME(totals_part)(void *given, int part, int parts) {
    scan *job = given;
    const STORED *x = job->x;
    KEPT *totals = job->totals;
    long end = tg_begin(job->n / TILE, part + 1, parts);
    for (long tile = tg_begin(job->n / TILE, part, parts); tile < end; tile++)
        if (!NAME(totals)(x + tile * TILE, totals + tile * (TOGETHER + 1) + 1)) atomic_store(&job->unsafe, 1);
}

/* `totals` has what is before each tile, and then the totals of its lines. */
static void NAME(tiles_part)(void *given, int part, int parts) {
    scan *job = given;
    const STORED *x = job->x;
    STORED *y = job->y;
    long end = tg_begin(job->n / TILE, part + 1, parts);
    for (long tile = tg_begin(job->n / TILE, part, parts); tile < end; tile++) {
        KEPT *totals = (KEPT *)job->totals + tile * (TOGETHER + 1), start[TOGETHER + 1] = {totals[0]};
        NAME(starts)(start, totals + 1);
        if (!NAME(tile)(x + tile * TILE, y + tile * TILE, start)) atomic_store(&job->unsafe, 1);
    }
}

/* One row by all threads, or by one where that would not be as exact; its last elements come after all tiles. */
static void NAME(row_by_all)(scan *job) {
    long tiles = job->n / TILE;
    const STORED *x = job->x;
    STORED *y = job->y;
    job->totals = tg_take((size_t)(tiles * (TOGETHER + 1)) * sizeof(KEPT));
    atomic_store(&job->unsafe, 0);
    tg_split(NAME(totals_part), job, job->parts);
    KEPT start[TOGETHER + 1] = {NEUTRAL};
    int safe = !atomic_load(&job->unsafe);
    for (long tile = 0; safe && tile < tiles; tile++, start[0] = start[TOGETHER]) {
        KEPT *totals = (KEPT *)job->totals + tile * (TOGETHER + 1);
        totals[0] = start[0];
        safe = NAME(starts)(start, totals + 1);
    }
    if (safe) tg_split(NAME(tiles_part), job, job->parts);
    if (safe && !atomic_load(&job->unsafe)) NAME(sequence)(x + tiles * TILE, y + tiles * TILE, job->n - tiles * TILE, start[0]);
    else NAME(row)(x, y, job->n);
    tg_give(job->totals);
}

/* Rows from `first` to before `end` by one thread. */
static void NAME(some)(const scan *job, long first, long end) {
    if (job->many) NAME(rows)(job, first, end);
    else
        for (; first < end; first++)
            NAME(row)((const STORED *)job->x + first * job->n, (STORED *)job->y + first * job->n, job->n);
}
