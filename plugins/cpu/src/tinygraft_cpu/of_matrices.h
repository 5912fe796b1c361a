/* det, lstsq and matrix_exp: a part of matrices.c. */

/* Degrees q * r of the series of e^x, and the greatest norms for which the remainder is below half a unit in the last
   place, of float and of double: the (q r + 1)-th root of (q r + 1)! times that. */
typedef struct {
    int q, r;
    double most[2];
} degree;
static const degree degrees[] = {{2, 2, {.093, .0016}}, {3, 2, {.31, .017}}, {3, 3, {.85, .11}}, {4, 3, {1.5, .33}},
                                 {4, 4, {2.6, .82}},    {5, 4, {4.0, 1.5}},  {0, 0, {0, 0}}};

static double inverse_factorial(int k) {
    double found = 1;
    for (int i = 2; i <= k; i++) found *= i; /* exact up to 22! */
    return 1 / found;
}

/* what singular values are bounded by, of what 40 rounds find; how far off the first bounds of a condition may be */
#define CLOSE 1.1
#define LOOSE 64

#undef NUMBER
#undef NAME
#define NUMBER float
#define NAME(x) x##_single
#include "exponential.h"
#include "least_squares.h"
#undef NUMBER
#undef NAME
#define NUMBER double
#define NAME(x) x##_double
#include "exponential.h"
#include "least_squares.h"

static void exponential(const matrices *job, long number) {
    size_t at = (size_t)number * job->n * job->n * job->bytes;
    const void *a = job->a + at;
    void *out = job->out[0] + at;
    if (job->bytes == 4) exponential_single(job->function[0], a, out, job->n);
    else exponential_double(job->function[0], a, out, job->n);
}

void tg_matrix_exp(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    for_each(&job, exponential);
}

/* lstsq: the solution and the rank; `option` are the columns of B, the fact behind the others the bits of rcond. */

static void least_squares(const matrices *job, long number) {
    int m = job->m, n = job->n, k = job->option, parts = job->set_threads ? job->threads : 1, rank;
    const void *a = job->a + (size_t)number * m * n * job->bytes, *b = job->b + (size_t)number * m * k * job->bytes;
    size_t of_solution = (size_t)n * k * job->bytes;
    void *own = job->out[0] ? 0 : tg_take(of_solution), *to = own ? own : job->out[0] + number * of_solution;
    if (job->bytes == 4) rank = least_squares_single(job->function, a, b, to, m, n, k, job->rcond, parts);
    else rank = least_squares_double(job->function, a, b, to, m, n, k, job->rcond, parts);
    if (job->out[1]) ((int *)job->out[1])[number] = rank;
    tg_give(own);
}

void tg_lstsq(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 2);
    job.b = buffers[__builtin_popcount((unsigned)job.wanted) + 1];
    memcpy(&job.rcond, facts + 13, sizeof job.rcond);
    for_each(&job, least_squares);
}

/* det: the determinant, its sign and the logarithm of its magnitude, from the LU decomposition of the transposed one. */

static void determinant(const matrices *job, long number) {
    int n = job->n, info = 0, little = n <= LITTLE;
    size_t size = (size_t)n * n * job->bytes, all = size + (size_t)n * sizeof(int);
    char *factors = tg_workspace(all);
    int *pivots = (int *)(factors + size);
    memcpy(factors, job->a + number * size, size);
    if (little) factor(factors, n, n, pivots, job->bytes);
    else ((getrf)job->function[0])(&n, &n, factors, &n, pivots, &info);
    double product = 1, sign = 1, logarithm = 0;
    for (int i = 0; i < n; i++) {
        double pivot = get(factors, (long)i * n + i, job->bytes);
        if (pivots[i] != i + !little) product = -product, sign = -sign; /* LAPACK counts from 1 */
        product *= pivot;
        sign *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;
        logarithm += log(fabs(pivot));
    }
    double found[] = {product, sign + 0.0, logarithm};
    for (int i = 0; i < 3; i++)
        if (job->out[i]) set(job->out[i], number, job->bytes, found[i]);
    tg_leave(factors, all);
}

void tg_det(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 3);
    if (job.n <= LITTLE) for_each_little(&job, determinant);
    else for_each(&job, determinant);
}
