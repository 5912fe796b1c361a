/* Running sums and products of rows.

   Each element of a row waits for the one before it, so that LINES rows are computed side by side: one row alone takes
   4 cycles an element. The order is that of the row, and float is added and multiplied in double. */

#include "routines.h"

enum { LINES = 4, FEW = 1 << 13 /* elements that one thread computes before another is awake */ };

typedef struct {
    const void *x;
    void *y;
    long rows, n;
    int bytes, floats, multiplied;
} scan;

/* `rows` rows of `n` elements, from x to y: STORED in memory, KEPT between two elements. */
#define SCAN(NAME, STORED, KEPT, OP)                                                         \
    static void NAME(const STORED *restrict x, STORED *restrict y, long rows, long n) {      \
        long row = 0;                                                                        \
        for (; row + LINES <= rows; row += LINES, x += LINES * n, y += LINES * n) {          \
            const STORED *restrict x1 = x + n, *restrict x2 = x1 + n, *restrict x3 = x2 + n; \
            STORED *restrict y1 = y + n, *restrict y2 = y1 + n, *restrict y3 = y2 + n;       \
            KEPT a = x[0], b = x1[0], c = x2[0], d = x3[0];                                  \
            y[0] = x[0], y1[0] = x1[0], y2[0] = x2[0], y3[0] = x3[0];                        \
            for (long i = 1; i < n; i++) {                                                   \
                y[i] = (STORED)(a = a OP (KEPT)x[i]);                                        \
                y1[i] = (STORED)(b = b OP (KEPT)x1[i]);                                      \
                y2[i] = (STORED)(c = c OP (KEPT)x2[i]);                                      \
                y3[i] = (STORED)(d = d OP (KEPT)x3[i]);                                      \
            }                                                                                \
        }                                                                                    \
        for (; row < rows; row++, x += n, y += n) {                                          \
            KEPT a = y[0] = x[0];                                                            \
            for (long i = 1; i < n; i++) y[i] = (STORED)(a = a OP (KEPT)x[i]);               \
        }                                                                                    \
    }

SCAN(sums_float, float, double, +)
SCAN(sums_double, double, double, +)
SCAN(sums_long, uint64_t, uint64_t, +)
SCAN(products_float, float, double, *)
SCAN(products_double, double, double, *)
SCAN(products_long, uint64_t, uint64_t, *)

static void scan_part(void *given, int part, int parts) {
    scan *job = given;
    long groups = (job->rows + LINES - 1) / LINES; /* whole groups, so that each row is in the same one for any parts */
    long first = tg_begin(groups, part, parts) * LINES, end = tg_begin(groups, part + 1, parts) * LINES;
    if (end > job->rows) end = job->rows;
    const char *x = (const char *)job->x + first * job->n * job->bytes;
    char *y = (char *)job->y + first * job->n * job->bytes;
    long rows = end - first, n = job->n;
    if (job->bytes == 4) (job->multiplied ? products_float : sums_float)((const void *)x, (void *)y, rows, n);
    else if (job->floats) (job->multiplied ? products_double : sums_double)((const void *)x, (void *)y, rows, n);
    else (job->multiplied ? products_long : sums_long)((const void *)x, (void *)y, rows, n);
}

/* Result: the running sums, or products, of each row. facts: rows, n, multiplied, bytes, whether floats, threads */
void tg_running(void **buffers, const long long *facts) {
    scan job = {buffers[1], buffers[0], facts[0], facts[1], (int)facts[3], (int)facts[4], (int)facts[2]};
    long parts = job.rows * job.n / FEW < facts[5] ? job.rows * job.n / FEW : facts[5];
    if (parts > job.rows / LINES) parts = job.rows / LINES;
    tg_split(scan_part, &job, (int)parts);
}
