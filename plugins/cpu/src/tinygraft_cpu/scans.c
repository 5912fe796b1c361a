/* Running sums and products of rows, in the order of each row: float is added and multiplied in double (running.h). */

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "routines.h"

enum { TOGETHER = 8, LENGTH = 520, TILE = TOGETHER * LENGTH }; /* lines of a row, their elements: not 4096 bytes apart */
enum { ROWS = 4, MANY = 64 };                                  /* rows at once, and rows from which these are the lines */
enum { FEW = 1 << 13 };                                        /* elements that one thread computes before another is awake */

typedef struct {
    const void *x;
    void *y;
    long rows, n;
    int bytes, floats, multiplied, parts, many;
    void *totals;
    atomic_int unsafe;
} scan;

#define WITHOUT_WAIT 0
#define STORED float
#define KEPT double
#define NEUTRAL (-0.0)
#define OP +
#define SAFE(v) isfinite(v)
#define AGREE(a, b) (fabs((a) - (b)) <= 0x1p-40 * fabs(b)) /* assumed: a sum that comes near 0 at the end of a line is rare */
#define NAME(x) x##_of_sums_float
#include "running.h"
#undef STORED
#undef NAME
#define STORED double
#define NAME(x) x##_of_sums_double
#include "running.h"
#undef OP
#undef NEUTRAL
#undef SAFE
#undef STORED
#undef NAME

enum { LEAST = -1, GREATEST = 0 }; /* the product of a line is from 2**-520 to 2**520 */
#define LEAST LEAST
#define SAFE(v) (fabs(v) >= 0x1p-900 && fabs(v) <= 0x1p900)
#define NEUTRAL 1.0
#define OP *
#define STORED float
#define NAME(x) x##_of_products_float
#include "running.h"
#undef STORED
#undef NAME
#define STORED double
#define NAME(x) x##_of_products_double
#include "running.h"
#undef LEAST
#undef OP
#undef NEUTRAL
#undef SAFE
#undef STORED
#undef KEPT
#undef NAME

#undef WITHOUT_WAIT
#undef AGREE
#define WITHOUT_WAIT 1
#define AGREE(a, b) ((a) == (b))
#define STORED uint64_t
#define KEPT uint64_t
#define SAFE(v) 1
#define NEUTRAL 0
#define OP +
#define NAME(x) x##_of_sums_long
#include "running.h"
#undef WITHOUT_WAIT
#undef NEUTRAL
#undef OP
#undef NAME
#define WITHOUT_WAIT 0
#define NEUTRAL 1
#define OP *
#define NAME(x) x##_of_products_long
#include "running.h"

/* FUNCTION(…) for the kind of number of a job. */
#define BY_KIND(job, FUNCTION, ...) \
    do { \
        if ((job)->bytes == 4) ((job)->multiplied ? FUNCTION##_of_products_float : FUNCTION##_of_sums_float)(__VA_ARGS__); \
        else if ((job)->floats) ((job)->multiplied ? FUNCTION##_of_products_double : FUNCTION##_of_sums_double)(__VA_ARGS__); \
        else ((job)->multiplied ? FUNCTION##_of_products_long : FUNCTION##_of_sums_long)(__VA_ARGS__); \
    } while (0)

static void scan_part(void *given, int part, int parts) {
    scan *job = given;
    long together = job->many ? ROWS : 1; /* whole groups, so that each row is in the same one for any parts */
    long groups = (job->rows + together - 1) / together;
    long first = tg_begin(groups, part, parts) * together, end = tg_begin(groups, part + 1, parts) * together;
    if (end > job->rows) end = job->rows;
    BY_KIND(job, some, job, first, end);
}

/* Result: the running sums, or products, of each row. facts: rows, n, multiplied, bytes, whether floats, threads */
void tg_running(void **buffers, const long long *facts) {
    scan job = {.x = buffers[1], .y = buffers[0], .rows = facts[0], .n = facts[1], .bytes = (int)facts[3],
                .floats = (int)facts[4], .multiplied = (int)facts[2], .parts = (int)facts[5]};
    job.many = job.rows >= MANY || job.n < TILE;
    if (job.rows < job.parts && job.n >= 2 * TILE * job.parts) {
        long bytes = job.n * job.bytes;
        for (long row = 0; row < facts[0]; row++) {
            BY_KIND(&job, row_by_all, &job);
            job.x = (const char *)job.x + bytes, job.y = (char *)job.y + bytes;
        }
        return;
    }
    long parts = job.rows * job.n / FEW < facts[5] ? job.rows * job.n / FEW : facts[5];
    long most = job.many ? job.rows / ROWS : job.rows;
    tg_split(scan_part, &job, (int)(parts < most ? parts : most));
}
