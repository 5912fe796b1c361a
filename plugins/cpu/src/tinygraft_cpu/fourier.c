/* Routines fft, rfft and irfft of lines, by fourier.h: short ones several at once, long ones as matrices. */

#include <string.h>

#include "pool.h"
#include "processor_level.h"
#include "routines.h"

enum { COMPLEX_ROWS, REAL_ROWS, TO_REAL_ROWS, PHASES = 4 };

typedef struct {
    long rows, n, inner; /* lines are `inner` columns of each of `rows` matrices with n rows */
    int kind, inverse, bytes, phase;
    long n1, n2, row; /* n1 is 0 where lines are no matrices */
    const void *circle, *turns, *in[2];
    void *out[2], *memory;
} fourier;

/* Room for the matrix, and for as many numbers again where it is not all of a transform. */
static size_t matrix_room(const fourier *job) {
    return (job->kind == COMPLEX_ROWS ? 2 : 4) * (size_t)(job->n1 * job->n2) * job->bytes;
}

/* What a loop reads and writes never overlaps. GCC forgets `restrict` where it inlines a function, and leaves what needs
   too many checks one by one. */
#if defined(__GNUC__) && !defined(__clang__)
#define NEIGHBOURS_ARE_APART _Pragma("GCC ivdep")
#else
#define NEIGHBOURS_ARE_APART
#endif

#define TILES "fourier_long.h"
#define REAL float
#define INTEGER int32_t
#define ELEMENT 4
#define LEVELLED(x, level) x##_float_##level
#include "tile_levels.h"
#undef REAL
#undef INTEGER
#undef ELEMENT
#undef LEVELLED
#define REAL double
#define INTEGER int64_t
#define ELEMENT 8
#define LEVELLED(x, level) x##_double_##level
#include "tile_levels.h"

/* facts: the addresses of the cosines and then the sines of 2 pi k / n, and of those that matrices need (routines.py), rows,
   n, columns, n1 and n2 of such a matrix, whether it is the inverse, which results are wanted, bytes of a number, threads, the
   kind of processor at most */
static void run(void **buffers, const long long *facts, int kind) {
    fourier job = {.circle = (const void *)(uintptr_t)facts[0], .turns = (const void *)(uintptr_t)facts[1],
                   .rows = facts[2], .n = facts[3], .inner = facts[4], .n1 = facts[5], .n2 = facts[6],
                   .kind = kind, .inverse = (int)facts[7], .bytes = (int)facts[9]};
    int results = kind == TO_REAL_ROWS ? 1 : 2, parts = (int)facts[10], level = level_of_processor();
    if (level > facts[11]) level = (int)facts[11];
    tg_part some = job.bytes == 4 ? some_float_0 : some_double_0;
#ifdef SEVERAL_PROCESSORS
    if (level == 2) some = job.bytes == 4 ? some_float_2 : some_double_2;
    if (level == 1) some = job.bytes == 4 ? some_float_1 : some_double_1;
#endif
    long line = kind == REAL_ROWS ? job.n / 2 + 1 : job.n;
    void *unwanted = 0;
    for (int i = 0; i < results; i++) {
        if (facts[8] >> i & 1) job.out[i] = *buffers++;
        else job.out[i] = unwanted = tg_take((size_t)(job.rows * line * job.inner) * job.bytes);
    }
    job.in[0] = buffers[0], job.in[1] = kind == REAL_ROWS ? 0 : buffers[1];
    if (job.n1 && job.rows < parts) { /* all threads work on one line */
        job.memory = tg_take(matrix_room(&job));
        for (job.row = 0; job.row < job.rows; job.row++)
            for (job.phase = 0; job.phase < PHASES; job.phase++) tg_split(some, &job, parts);
        tg_give(job.memory);
    } else {
        long units = job.rows * job.inner;
        tg_split(some, &job, parts < units ? parts : (int)units);
    }
    tg_give(unwanted);
}

/* Results: real and imaginary parts; operands the same. */
void tg_fft(void **buffers, const long long *facts) { run(buffers, facts, COMPLEX_ROWS); }

/* Results: real and imaginary parts of the first n / 2 + 1 of real rows. */
void tg_rfft(void **buffers, const long long *facts) { run(buffers, facts, REAL_ROWS); }

/* Result: real rows of n; operands the real and imaginary parts of n / 2 + 1. */
void tg_irfft(void **buffers, const long long *facts) { run(buffers, facts, TO_REAL_ROWS); }
