/* Splitting routines over the pool, their workspace, the table of their names, and histogram. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "routines.h"

void tg_sort(void **buffers, const long long *facts);
void tg_topk(void **buffers, const long long *facts);
void tg_unique(void **buffers, const long long *facts);
void tg_fft(void **buffers, const long long *facts);
void tg_rfft(void **buffers, const long long *facts);
void tg_irfft(void **buffers, const long long *facts);
void tg_running(void **buffers, const long long *facts);
void tg_cholesky(void **buffers, const long long *facts);
void tg_lu(void **buffers, const long long *facts);
void tg_det(void **buffers, const long long *facts);
void tg_lstsq(void **buffers, const long long *facts);
void tg_matrix_exp(void **buffers, const long long *facts);
void tg_solve(void **buffers, const long long *facts);
void tg_inverse(void **buffers, const long long *facts);
void tg_qr(void **buffers, const long long *facts);
void tg_eigh(void **buffers, const long long *facts);
void tg_eigvalsh(void **buffers, const long long *facts);
void tg_svd(void **buffers, const long long *facts);
void tg_svdvals(void **buffers, const long long *facts);
void tg_triangular(void **buffers, const long long *facts);
void tg_attention(void **buffers, const long long *facts);
void tg_attention_backward(void **buffers, const long long *facts);
void tg_convolution(void **buffers, const long long *facts);
void tg_direct_convolution(void **buffers, const long long *facts);
void tg_transposed_convolution(void **buffers, const long long *facts);
void tg_depthwise_convolution(void **buffers, const long long *facts);
void tg_convolution_weights(void **buffers, const long long *facts);

static void run_split(void **buffers, const long long *variables) {
    tg_part function = (tg_part)buffers[1];
    function(buffers[0], (int)variables[0], (int)variables[1]);
}

void tg_split(tg_part function, void *job, int parts) {
    uintptr_t buffers[2] = {(uintptr_t)job, (uintptr_t)function};
    if (parts <= 1) function(job, 0, 1);
    else tg_launch((uintptr_t)run_split, buffers, 0, 0, parts, 0);
}

void *tg_take(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) return memory;
    fprintf(stderr, "tinygraft: no memory for %zu bytes that a routine works in\n", bytes);
    abort();
}

void tg_give(void *memory) { free(memory); }

/* histogram: int32_t counts of int32_t or int64_t numbers. */

typedef struct {
    const char *x;
    int32_t *counts;
    uint32_t *own; /* the counts of each part of a row */
    long rows, n, bins;
    int bytes, parts;
} histogram;

static void count_into(uint32_t *counts, const char *x, long first, long end, long bins, int bytes) {
    if (bytes == 4) {
        const uint32_t *index = (const uint32_t *)x;
        for (long i = first; i < end; i++)
            if (index[i] < (uint64_t)bins) counts[index[i]]++;
    } else {
        const uint64_t *index = (const uint64_t *)x;
        for (long i = first; i < end; i++)
            if (index[i] < (uint64_t)bins) counts[index[i]]++;
    }
}

static void count_rows(void *given, int part, int parts) {
    histogram *job = given;
    long end = tg_begin(job->rows, part + 1, parts);
    for (long row = tg_begin(job->rows, part, parts); row < end; row++) {
        uint32_t *counts = (uint32_t *)job->counts + row * job->bins;
        memset(counts, 0, (size_t)job->bins * sizeof *counts);
        count_into(counts, job->x + row * job->n * job->bytes, 0, job->n, job->bins, job->bytes);
    }
}

enum { LISTS = 4 }; /* of counts, of neighbouring elements: equal ones would wait for each other's sum */

static void count_part(void *given, int part, int parts) {
    histogram *job = given;
    for (int p = part; p < job->parts; p += parts) {
        uint32_t *own = job->own + (size_t)p * LISTS * job->bins;
        memset(own, 0, LISTS * (size_t)job->bins * sizeof *own);
        long first = tg_begin(job->n, p, job->parts), end = tg_begin(job->n, p + 1, job->parts), i = first;
        uint64_t bins = (uint64_t)job->bins;
        if (job->bytes == 4) {
            const uint32_t *x = (const uint32_t *)job->x;
            for (; i + LISTS <= end; i += LISTS)
                for (int j = 0; j < LISTS; j++)
                    if (x[i + j] < bins) own[j * bins + x[i + j]]++;
        }
        count_into(own, job->x, i, end, job->bins, job->bytes);
    }
}

/* Result: how often each number below `bins` occurs. facts: rows, n, bins, bytes, threads */
static void tg_histogram(void **buffers, const long long *facts) {
    histogram job = {buffers[1], buffers[0], 0, facts[0], facts[1], facts[2], (int)facts[3], (int)facts[4]};
    if (job.rows > 1 || job.n < 1 << 14 || job.bins * LISTS > job.n) {
        tg_split(count_rows, &job, job.rows < job.parts ? (int)job.rows : job.parts);
        return;
    }
    if (job.parts < 1) job.parts = 1;
    job.own = tg_take((size_t)job.parts * LISTS * job.bins * sizeof *job.own);
    tg_split(count_part, &job, job.parts);
    memset(job.counts, 0, (size_t)job.bins * sizeof *job.counts);
    for (long list = 0; list < (long)job.parts * LISTS; list++)
        for (long bin = 0; bin < job.bins; bin++) job.counts[bin] += (int32_t)job.own[list * job.bins + bin];
    tg_give(job.own);
}

/* The address of a routine by name, 0 for an unknown one. */
uintptr_t tg_routine(const char *name) {
    static const struct {
        const char *name;
        void (*code)(void **, const long long *);
    } known[] = {{"sort", tg_sort}, {"topk", tg_topk}, {"unique", tg_unique}, {"histogram", tg_histogram},
                 {"cholesky", tg_cholesky}, {"lu", tg_lu}, {"solve", tg_solve}, {"inverse", tg_inverse},
                 {"qr", tg_qr}, {"eigh", tg_eigh}, {"svd", tg_svd}, {"fft", tg_fft},
                 {"eigvalsh", tg_eigvalsh}, {"svdvals", tg_svdvals}, {"triangular", tg_triangular},
                 {"det", tg_det}, {"lstsq", tg_lstsq}, {"matrix_exp", tg_matrix_exp},
                 {"rfft", tg_rfft}, {"irfft", tg_irfft}, {"running", tg_running}, {"attention", tg_attention},
                 {"attention_backward", tg_attention_backward}, {"convolution", tg_convolution},
                 {"direct_convolution", tg_direct_convolution}, {"transposed_convolution", tg_transposed_convolution},
                 {"depthwise_convolution", tg_depthwise_convolution}, {"convolution_weights", tg_convolution_weights}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return (uintptr_t)known[i].code;
    return 0;
}
