/* lu, solve and inverse of little matrices, without LAPACK: a part of matrices.c. */

#define NUMBER float
#define NAME(x) x##_single
#include "little.h"
#undef NUMBER
#undef NAME
#define NUMBER double
#define NAME(x) x##_double
#include "little.h"

enum { LITTLE = 12 }; /* rows and columns up to which LAPACK is not called for an LU */

static int is_little(const matrices *job) { return job->m <= LITTLE && job->n <= LITTLE; }

/* What calls no function of LAPACK needs no setting of it. */
static void for_each_little(const matrices *job, one function) {
    every all = {job, function};
    tg_split(some, &all, job->threads < job->count ? job->threads : (int)job->count);
}

static void factor(void *a, int m, int n, int *pivots, int bytes) {
    if (bytes == 4) factor_single(a, m, n, pivots);
    else factor_double(a, m, n, pivots);
}

static void substitute(const void *a, int m, const int *pivots, void *b, int k, int bytes) {
    if (bytes == 4) solve_single(a, m, pivots, b, k);
    else solve_double(a, m, pivots, b, k);
}

static void little_lu(const matrices *job, long number) {
    int m = job->m, n = job->n, least = m < n ? m : n, pivots[LITTLE];
    size_t size = (size_t)m * n * job->bytes;
    double room[LITTLE * LITTLE];
    void *a = job->out[0] ? job->out[0] + number * size : (char *)room;
    memcpy(a, job->a + number * size, size);
    factor(a, m, n, pivots, job->bytes);
    if (job->out[1]) memcpy(job->out[1] + number * least * sizeof(int), pivots, (size_t)least * sizeof(int));
    if (job->out[2]) order_of((int *)job->out[2] + number * m, pivots, m, least);
}

static void little_solve(const matrices *job, long number) {
    int m = job->m, k = job->n, pivots[LITTLE];
    size_t size = (size_t)m * m * job->bytes, side = (size_t)m * k * job->bytes;
    double factors[LITTLE * LITTLE];
    memcpy(factors, job->a + number * size, size);
    memcpy(job->out[0] + number * side, job->b + number * side, side);
    factor(factors, m, m, pivots, job->bytes);
    substitute(factors, m, pivots, job->out[0] + number * side, k, job->bytes);
}

static void little_inverse(const matrices *job, long number) {
    int m = job->m, pivots[LITTLE];
    size_t size = (size_t)m * m * job->bytes;
    double factors[LITTLE * LITTLE];
    void *out = job->out[0] + number * size;
    memcpy(factors, job->a + number * size, size);
    fill(out, (long)m * m, job->bytes, 0);
    for (long i = 0; i < m; i++) set(out, i * m + i, job->bytes, 1);
    factor(factors, m, m, pivots, job->bytes);
    substitute(factors, m, pivots, out, m, job->bytes);
}
