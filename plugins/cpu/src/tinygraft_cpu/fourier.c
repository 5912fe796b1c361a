/* Routines fft, rfft and irfft: rows transformed one by one, or short ones several at once, by fourier.h. */

#include <string.h>

#include "pool.h"
#include "routines.h"

enum { COMPLEX_ROWS, REAL_ROWS, TO_REAL_ROWS };
/* rows at once, if there are so many and they are as short as that: measured, see benchmarks/NOTES.md, 2026-11-24 */
enum { LANES = 16, LEAST_ROWS = 8, SHORT = 512 };

typedef struct {
    long rows, n;
    int kind, inverse, bytes;
    const void *circle, *in[2];
    void *out[2];
} fourier;

/* What a step reads and writes never overlaps. GCC forgets `restrict` where it inlines a function, and leaves what needs
   too many checks one by one. */
#if defined(__GNUC__) && !defined(__clang__)
#define NEIGHBOURS_ARE_APART _Pragma("GCC ivdep")
#else
#define NEIGHBOURS_ARE_APART
#endif

#define REAL float
#define NAME(x) x##_float
#include "fourier.h"
#undef REAL
#undef NAME
#undef STEP
#undef IN
#undef OUT
#undef FIRST
#define REAL double
#define NAME(x) x##_double
#include "fourier.h"

static void some(void *given, int part, int parts) {
    const fourier *job = given;
    if (job->bytes == 4) rows_float(job, part, parts);
    else rows_double(job, part, parts);
}

/* facts: the address of the cosines and then the sines of 2 pi k / n, rows, n, whether it is the inverse, which results
   are wanted, bytes of a number, threads */
static void run(void **buffers, const long long *facts, int kind) {
    fourier job = {.rows = facts[1], .n = facts[2], .kind = kind, .inverse = (int)facts[3], .bytes = (int)facts[5],
                   .circle = (const void *)(uintptr_t)facts[0]};
    int results = kind == TO_REAL_ROWS ? 1 : 2, parts = (int)facts[6];
    for (int i = 0; i < results; i++) job.out[i] = facts[4] >> i & 1 ? *buffers++ : 0;
    job.in[0] = buffers[0], job.in[1] = kind == REAL_ROWS ? 0 : buffers[1];
    tg_split(some, &job, parts < job.rows ? parts : (int)job.rows);
}

/* Results: real and imaginary parts; operands the same. */
void tg_fft(void **buffers, const long long *facts) { run(buffers, facts, COMPLEX_ROWS); }

/* Results: real and imaginary parts of the first n / 2 + 1 of real rows. */
void tg_rfft(void **buffers, const long long *facts) { run(buffers, facts, REAL_ROWS); }

/* Result: real rows of n; operands the real and imaginary parts of n / 2 + 1. */
void tg_irfft(void **buffers, const long long *facts) { run(buffers, facts, TO_REAL_ROWS); }
