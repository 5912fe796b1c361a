/* Routines on matrices, by LAPACK's functions, whose addresses are among the facts (lapack.py finds them).

   LAPACK has columns one after another, we have rows: to it our matrix is the transposed one. Where the factors of that
   do as well nothing is moved; else a matrix is transposed on the way. A matrix that cannot be factored gives what the
   kernels give for it, inf and NaN.

   LAPACK's BLAS has threads of its own, which are slower than one thread for all but products (and not the same bits):
   it is asked to use one, where there is a function for that, and each thread of the pool has some matrices. */

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "pool.h"
#include "routines.h"

/* rows up to which BLAS has no use for several threads; beyond, one matrix gains from them where most of the work is
   products. Rows of a tile that is transposed */
enum { SMALL = 96, TILE = 16 };

/* facts: four addresses, how many matrices, rows, columns, an option, which results are wanted, bytes of a number,
   threads, the address of a function that sets the threads of BLAS and returns how many it had (or 0), and whether most
   of the work is products */
typedef struct {
    uintptr_t function[4];
    long count;
    int m, n, option, wanted, bytes, threads;
    const char *a, *b;
    char *out[3];
    int room; /* numbers of workspace, where LAPACK was asked */
    uintptr_t set_threads;
    int products;
    double rcond; /* of lstsq */
} matrices;

typedef void (*one)(const matrices *job, long number);
typedef struct {
    const matrices *job;
    one function;
} every;

static matrices job_of(void **buffers, const long long *facts, int results) {
    matrices job = {{(uintptr_t)facts[0], (uintptr_t)facts[1], (uintptr_t)facts[2], (uintptr_t)facts[3]}};
    job.count = facts[4], job.m = (int)facts[5], job.n = (int)facts[6], job.option = (int)facts[7];
    job.wanted = (int)facts[8], job.bytes = (int)facts[9], job.threads = (int)facts[10];
    job.set_threads = (uintptr_t)facts[11], job.products = (int)facts[12];
    for (int i = 0; i < results; i++)
        if (job.wanted >> i & 1) job.out[i] = *buffers++;
    job.a = buffers[0];
    return job;
}

static void some(void *given, int part, int parts) {
    every *all = given;
    long end = tg_begin(all->job->count, part + 1, parts);
    for (long i = tg_begin(all->job->count, part, parts); i < end; i++) all->function(all->job, i);
}

/* The threads of BLAS are a setting of the process: of several callers the first sets it, and the last sets it back. */
static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER;
static int callers, before;

static void begin_alone(uintptr_t set_threads) {
    pthread_mutex_lock(&setting);
    if (!callers++) before = ((int (*)(int))set_threads)(1);
    pthread_mutex_unlock(&setting);
}

static void end_alone(uintptr_t set_threads) {
    pthread_mutex_lock(&setting);
    if (!--callers) ((int (*)(int))set_threads)(before);
    pthread_mutex_unlock(&setting);
}

static void for_each(const matrices *job, one function) {
    every all = {job, function};
    int small = job->m <= SMALL && job->n <= SMALL;
    int alone = job->set_threads && !(job->products && !small && job->count < job->threads);
    int parts = alone || small ? job->threads : 1;
    if (alone) begin_alone(job->set_threads);
    tg_split(some, &all, parts < job->count ? parts : (int)job->count);
    if (alone) end_alone(job->set_threads);
}

static double get(const void *x, long i, int bytes) {
    return bytes == 4 ? ((const float *)x)[i] : ((const double *)x)[i];
}

static void set(void *x, long i, int bytes, double value) {
    if (bytes == 4) ((float *)x)[i] = (float)value;
    else ((double *)x)[i] = value;
}

static void fill(void *x, long count, int bytes, double value) {
    if (x)
        for (long i = 0; i < count; i++) set(x, i, bytes, value);
}

static int is_finite(const void *x, long count, int bytes) {
    double sum = 0; /* 0 times what is not finite is NaN */
    for (long i = 0; i < count; i++) sum += 0 * get(x, i, bytes);
    return sum == 0;
}

/* Store the transposed of `rows` by `columns` numbers, of rows that begin `step` numbers after each other. */
static void transpose(void *to, const void *from, long rows, long columns, long step, int bytes) {
    for (long r = 0; r < rows; r += TILE)
        for (long c = 0; c < columns; c += TILE)
            for (long j = c; j < columns && j < c + TILE; j++) {
                long end = r + TILE < rows ? r + TILE : rows;
                if (bytes == 4)
                    for (long i = r; i < end; i++)
                        ((uint32_t *)to)[j * rows + i] = ((const uint32_t *)from)[i * step + j];
                else
                    for (long i = r; i < end; i++)
                        ((uint64_t *)to)[j * rows + i] = ((const uint64_t *)from)[i * step + j];
            }
}

/* The order of `m` rows after `count` swaps. */
static void order_of(int *order, const int *pivots, int m, int count) {
    for (int i = 0; i < m; i++) order[i] = i;
    for (int i = 0; i < count; i++) {
        int other = pivots[i], here = order[i];
        order[i] = order[other], order[other] = here;
    }
}

#include "little_matrices.h"

/* cholesky: the lower triangle. Where LAPACK stops, the steps that the kernels take give the numbers before it and NaN
   after it. */

typedef void (*potrf)(char *, int *, void *, int *, int *);

static void cholesky_by_steps(void *a, long n, int bytes) {
    for (long k = 0; k < n; k++) {
        double root = sqrt(get(a, k * n + k, bytes));
        if (bytes == 4) root = (float)root;
        set(a, k * n + k, bytes, root);
        for (long i = k + 1; i < n; i++) set(a, i * n + k, bytes, get(a, i * n + k, bytes) / root);
        for (long i = k + 1; i < n; i++)
            for (long j = k + 1; j <= i; j++)
                set(a, i * n + j, bytes,
                    get(a, i * n + j, bytes) - get(a, i * n + k, bytes) * get(a, j * n + k, bytes));
    }
}

static void cholesky(const matrices *job, long number) {
    int n = job->n, info = 0;
    size_t size = (size_t)n * n * job->bytes;
    char *out = job->out[0] + number * size;
    memcpy(out, job->a + number * size, size);
    ((potrf)job->function[0])("U", &n, out, &n, &info); /* the upper triangle of the transposed matrix */
    if (info) {
        memcpy(out, job->a + number * size, size);
        cholesky_by_steps(out, n, job->bytes);
    }
    for (long i = 0; i < n; i++) memset(out + (i * n + i + 1) * job->bytes, 0, (size_t)(n - 1 - i) * job->bytes);
}

void tg_cholesky(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    for_each(&job, cholesky);
}

/* lu: L and U in one matrix, the row that each step swapped up, and the order of rows. */

typedef void (*getrf)(int *, int *, void *, int *, int *, int *);

static void lu(const matrices *job, long number) {
    int m = job->m, n = job->n, info = 0, least = m < n ? m : n;
    size_t size = (size_t)m * n * job->bytes;
    size_t all = size + (size_t)(least + m) * sizeof(int);
    char *columns = tg_workspace(all);
    int *pivots = (int *)(columns + size), *order = pivots + least;
    transpose(columns, job->a + number * size, m, n, n, job->bytes);
    ((getrf)job->function[0])(&m, &n, columns, &m, pivots, &info);
    if (job->out[0]) transpose(job->out[0] + number * size, columns, n, m, m, job->bytes);
    for (int i = 0; i < least; i++) pivots[i]--; /* LAPACK counts from 1 */
    order_of(order, pivots, m, least);
    if (job->out[1]) memcpy(job->out[1] + number * least * sizeof(int), pivots, (size_t)least * sizeof(int));
    if (job->out[2]) memcpy(job->out[2] + number * m * sizeof(int), order, (size_t)m * sizeof(int));
    tg_leave(columns, all);
}

void tg_lu(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 3);
    if (is_little(&job)) for_each_little(&job, little_lu);
    else for_each(&job, lu);
}

/* solve and inverse: of the transposed matrix LAPACK solves the transposed system. `n` are the columns of B. */

typedef void (*getrs)(char *, int *, int *, void *, int *, int *, void *, int *, int *);
typedef void (*getri)(int *, void *, int *, int *, void *, int *, int *);

static void solve(const matrices *job, long number) {
    int m = job->m, k = job->n, info = 0;
    size_t size = (size_t)m * m * job->bytes, side = (size_t)m * k * job->bytes;
    size_t all = size + side + (size_t)m * sizeof(int);
    char *factors = tg_workspace(all), *columns = factors + size;
    int *pivots = (int *)(columns + side);
    memcpy(factors, job->a + number * size, size);
    transpose(columns, job->b + number * side, m, k, k, job->bytes);
    ((getrf)job->function[0])(&m, &m, factors, &m, pivots, &info);
    ((getrs)job->function[1])("T", &m, &k, factors, &m, pivots, columns, &m, &info);
    transpose(job->out[0] + number * side, columns, k, m, m, job->bytes);
    tg_leave(factors, all);
}

void tg_solve(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    job.b = buffers[2];
    if (is_little(&job)) for_each_little(&job, little_solve);
    else for_each(&job, solve);
}

static void inverse(const matrices *job, long number) {
    int m = job->m, info = 0, room = m * 64;
    size_t size = (size_t)m * m * job->bytes;
    size_t all = (size_t)room * job->bytes + (size_t)m * sizeof(int);
    char *work = tg_workspace(all), *out = job->out[0] + number * size;
    int *pivots = (int *)(work + (size_t)room * job->bytes);
    memcpy(out, job->a + number * size, size);
    ((getrf)job->function[0])(&m, &m, out, &m, pivots, &info);
    if (info) { /* a pivot is 0: solved against the identity, which divides by it */
        char *factors = tg_take(size);
        memcpy(factors, out, size);
        fill(out, (long)m * m, job->bytes, 0);
        for (long i = 0; i < m; i++) set(out, i * m + i, job->bytes, 1);
        ((getrs)job->function[1])("N", &m, &m, factors, &m, pivots, out, &m, &info);
        tg_give(factors);
    } else {
        ((getri)job->function[2])(&m, out, &m, pivots, work, &room, &info);
    }
    tg_leave(work, all);
}

void tg_inverse(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    if (job.m <= LITTLE) for_each_little(&job, little_inverse);
    else for_each(&job, inverse);
}

/* triangular: to LAPACK the transposed triangle is right of the transposed sides, which are solved in place. Bits of
   `option`: whether the triangle is the upper one, and whether it has ones on its diagonal. */

typedef void (*trsm)(char *, char *, char *, char *, int *, int *, void *, void *, int *, void *, int *);
typedef void (*trsv)(char *, char *, char *, int *, void *, int *, void *, int *);

static void triangular(const matrices *job, long number) {
    int m = job->m, k = job->n, next = 1;
    size_t size = (size_t)m * m * job->bytes, side = (size_t)m * k * job->bytes;
    char *triangle = job->option & 1 ? "L" : "U", *diagonal = job->option & 2 ? "U" : "N";
    char *a = (char *)job->a + number * size, *x = job->out[0] + number * side;
    float single = 1;
    double whole = 1;
    memcpy(x, job->b + number * side, side);
    if (k == 1) ((trsv)job->function[1])(triangle, "T", diagonal, &m, a, &m, x, &next);
    else
        ((trsm)job->function[0])("R", triangle, "N", diagonal, &k, &m, job->bytes == 4 ? (void *)&single : &whole, a,
                                 &m, x, &k);
}

void tg_triangular(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    job.b = buffers[2];
    for_each(&job, triangular);
}

/* qr: Q of `option` columns, and R of as many rows. */

/* columns that are factored together; those of a block behind them, or more; rows or reflections that are few */
enum { PANEL = 32, COLUMNS = 64, FEW_ROWS = 16 };

/* Columns of a block: eight blocks, or fewer of COLUMNS. */
static int block_of(int columns) { return columns > 8 * COLUMNS ? (columns + 7) / 8 : COLUMNS; }

#undef NUMBER
#undef NAME
#define NUMBER float
#define NAME(x) x##_single
#define LARGE 1e15
#include "householder.h"
#include "symmetric.h"
#undef NUMBER
#undef NAME
#undef LARGE
#define NUMBER double
#define NAME(x) x##_double
#define LARGE 1e140
#include "householder.h"
#include "symmetric.h"
#undef LARGE

static void qr(const matrices *job, long number) {
    int m = job->m, n = job->n, k = job->option, parts = job->set_threads ? job->threads : 1;
    const char *a = job->a + (size_t)number * m * n * job->bytes;
    char *q = job->out[0] ? job->out[0] + (size_t)number * m * k * job->bytes : 0;
    char *r = job->out[1] ? job->out[1] + (size_t)number * k * n * job->bytes : 0;
    if (job->bytes == 4) q_and_r_single(job->function[0], (const void *)a, (void *)q, (void *)r, m, n, k, parts);
    else q_and_r_double(job->function[0], (const void *)a, (void *)q, (void *)r, m, n, k, parts);
}

void tg_qr(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 2);
    for_each(&job, qr);
}

/* eigh: eigenvalues, and eigenvectors as columns, of symmetric matrices; the upper triangle is read if `option`. The
   vectors are always computed: LAPACK's values without them differ in their last bits, and a gradient compares values
   of one call with those of another (the greatest of them, with all). svd does the same. eigvalsh and svdvals, which
   have no vectors, are routines of their own, so that theirs are always those without. */

typedef void (*syevd)(char *, char *, int *, void *, int *, void *, void *, int *, int *, int *, int *);

/* Bytes of a matrix that the second cache has room for beside all that a step reads, and rows below which LAPACK takes as
   long (measured: benchmarks/NOTES.md, 2026-11-30). */
enum { IN_CACHE = 5 << 18, FEWEST = 16 };

/* By LAPACK alone. */
static int eigen_by_lapack(const matrices *job, const char *x, char *values, char *vectors, int with_vectors) {
    int n = job->n, info = 0, bytes = job->bytes, whole = 3 + 5 * n, room = 1 + 6 * n + 2 * n * n + 64 * n;
    size_t size = (size_t)n * n * bytes, all = size + (size_t)room * bytes + (size_t)whole * sizeof(int);
    char *a = tg_workspace(all), *work = a + size;
    memcpy(a, x, size);
    ((syevd)job->function[0])(with_vectors ? "V" : "N", job->option ? "L" : "U", &n, a, &n, values, work, &room,
                              (int *)(work + (size_t)room * bytes), &whole, &info);
    if (vectors) transpose(vectors, a, n, n, n, bytes);
    tg_leave(a, all);
    return info;
}

static void eigen(const matrices *job, long number, int with_vectors) {
    int n = job->n, info = 0, bytes = job->bytes, parts = job->set_threads ? job->threads : 1;
    size_t size = (size_t)n * n * bytes, line = (size_t)n * bytes;
    const char *x = job->a + number * size;
    char *own = job->out[0] ? 0 : tg_take(line), *values = own ? own : job->out[0] + number * line;
    char *vectors = job->out[1] ? job->out[1] + number * size : 0;
    for (long i = 0; i < n; i++) /* what is read of each row */
        info |= job->option ? !is_finite(x + (i * n + i) * bytes, n - i, bytes) : !is_finite(x + i * n * bytes, i + 1, bytes);
    if (info) {
    } else if (n < FEWEST || size > IN_CACHE) info = eigen_by_lapack(job, x, values, vectors, with_vectors);
    else if (bytes == 4)
        info = eigen_single(job->function, (const void *)x, (void *)values, (void *)vectors, n, job->option, with_vectors,
                            parts);
    else
        info = eigen_double(job->function, (const void *)x, (void *)values, (void *)vectors, n, job->option, with_vectors,
                            parts);
    if (info) {
        fill(values, n, bytes, NAN);
        fill(vectors, (long)n * n, bytes, NAN);
    }
    tg_give(own);
}

static void eigh(const matrices *job, long number) { eigen(job, number, 1); }

static void eigvalsh(const matrices *job, long number) { eigen(job, number, 0); }

void tg_eigvalsh(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    for_each(&job, eigvalsh);
}

void tg_eigh(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 2);
    for_each(&job, eigh);
}

/* svd: U, S and V', U and V' square if `option`. The transposed matrix is V S U', so that LAPACK's two sides are ours,
   exchanged, with rows where it has columns. */

typedef void (*gesdd)(char *, int *, int *, void *, int *, void *, void *, int *, void *, int *, void *, int *, int *,
                      int *);

/* Numbers of workspace that gesdd asks for. */
static int room_of_svd(const matrices *job, char *vectors, int right, int left) {
    int m = job->m, n = job->n, room = -1, info = 0, integer = 0;
    double wanted = 0, none = 0;
    ((gesdd)job->function[0])(vectors, &n, &m, &none, &n, &none, &none, &right, &none, &left, &wanted, &room, &integer,
                              &info);
    return (int)(get(&wanted, 0, job->bytes) * 1.01) + 1;
}

static void svd(const matrices *job, long number) {
    int m = job->m, n = job->n, least = m < n ? m : n, info = 0, bytes = job->bytes, room = job->room;
    int left = job->option ? m : least, right = job->option ? n : least; /* columns of U, rows of V' */
    size_t size = (size_t)m * n * bytes, of_u = (size_t)m * left * bytes, of_v = (size_t)right * n * bytes;
    size_t all = size + (size_t)(least + room) * bytes + of_u + of_v + 8 * least * sizeof(int);
    char *a = tg_workspace(all), *values = a + size, *work = values + (size_t)least * bytes;
    char *unwanted = work + (size_t)room * bytes;
    int *integers = (int *)(unwanted + of_u + of_v);
    char *u = job->out[0] ? job->out[0] + number * of_u : unwanted;
    char *v = job->out[2] ? job->out[2] + number * of_v : unwanted + of_u;
    memcpy(a, job->a + number * size, size);
    info = !is_finite(a, (long)m * n, bytes);
    if (!info)
        ((gesdd)job->function[0])(job->option ? "A" : "S", &n, &m, a, &n, values, v, &n, u, &left, work, &room,
                                  integers, &info);
    if (info) {
        fill(values, least, bytes, NAN);
        if (job->out[0]) fill(u, (long)m * left, bytes, NAN);
        if (job->out[2]) fill(v, (long)right * n, bytes, NAN);
    }
    if (job->out[1]) memcpy(job->out[1] + (size_t)number * least * bytes, values, (size_t)least * bytes);
    tg_leave(a, all);
}

void tg_svd(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 3);
    int least = job.m < job.n ? job.m : job.n;
    job.room = room_of_svd(&job, job.option ? "A" : "S", job.n, job.option ? job.m : least);
    for_each(&job, svd);
}

static void svdvals(const matrices *job, long number) {
    int m = job->m, n = job->n, least = m < n ? m : n, info = 0, bytes = job->bytes, room = job->room, one = 1;
    size_t size = (size_t)m * n * bytes, all = size + (size_t)room * bytes + 8 * least * sizeof(int);
    char *a = tg_workspace(all), *work = a + size, *values = job->out[0] + (size_t)number * least * bytes;
    double none = 0;
    memcpy(a, job->a + number * size, size);
    info = !is_finite(a, (long)m * n, bytes);
    if (!info)
        ((gesdd)job->function[0])("N", &n, &m, a, &n, values, &none, &one, &none, &one, work, &room,
                                  (int *)(work + (size_t)room * bytes), &info);
    if (info) fill(values, least, bytes, NAN);
    tg_leave(a, all);
}

void tg_svdvals(void **buffers, const long long *facts) {
    matrices job = job_of(buffers, facts, 1);
    job.room = room_of_svd(&job, "N", 1, 1);
    for_each(&job, svdvals);
}

#include "of_matrices.h"
