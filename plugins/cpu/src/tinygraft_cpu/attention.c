/* Routines attention and attention_backward: softmax(q @ k' * scale + mask) @ v and its gradients, by attention.h, whose
   memory grows with the length and not with its square.

   Heads that read the same keys and values are one: their queries are its rows. A task is a block of queries (forward) or
   a chunk of blocks of one head (backward); which tasks there are depends on the shapes alone, and so do results.
   Each is compiled for several processors, of which the best is chosen at run time. */

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "pool.h"
#include "processor_level.h"
#include "routines.h"

/* KEYS of one step and their scores stay in the first cache: measured 2026-11-24. CHUNKS: from this many heads on
   backward has a task for each; fewer are cut, and a chunk needs gradients of its own for all keys. */
enum { KEYS = 96, CHUNKS = 8, ALIGNED = 64 };

typedef struct {
    const void *q, *k, *v, *mask, *seed;   /* mask and seed may be 0 */
    void *out, *greatest, *sums;           /* of forward: values, and of each row the greatest score, the sum of powers */
    const void *value, *peaks, *totals, *slope; /* these as backward gets them, and the gradient of the values */
    void *for_q, *for_k, *for_v;           /* of backward; those that are not wanted are 0 */
    void *chunks_k, *chunks_v;             /* gradients of keys and values for each chunk */
    long examples, batches, heads, rows, queries, keys, size, parts;
    long mask_steps[6];                    /* of examples, batches, heads, groups, queries, keys; 0: of size 1 */
    double scale, kept;                    /* 1 / (1 - p) */
    uint32_t half, threshold;              /* of dropout */
    int causal, mask_is_bool, bytes, threads, level;
    long blocks, tasks, chunks;
    atomic_long next;
} attention;

/* Threefry 2x32 with 20 rounds, of rules/threefry.py. */
static inline __attribute__((always_inline)) void random_pair(uint32_t x0, uint32_t x1, uint64_t seed, uint32_t *first,
                                                              uint32_t *second) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t key[3] = {(uint32_t)seed, (uint32_t)(seed >> 32), 0};
    key[2] = key[0] ^ key[1] ^ 0x1bd11bda;
    x0 += key[0], x1 += key[1];
#pragma GCC unroll 5
    for (uint32_t i = 0; i < 5; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            int turn = turns[i & 1][j];
            x0 += x1;
            x1 = x0 ^ (x1 << turn | x1 >> (32 - turn));
        }
        x0 += key[(i + 1) % 3], x1 += key[(i + 2) % 3] + i + 1;
    }
    *first = x0, *second = x1;
}

#define PADDED(n) (((n) + (long)(64 / sizeof(REAL)) - 1) / (long)(64 / sizeof(REAL)) * (long)(64 / sizeof(REAL)))

#define REAL float
#define BITS uint32_t
#define EXP_TERMS                                                                                                      \
    1.0f, 1.0000000400388699736f, 0.5000000050018797119f, 0.16666405302634304496f, 0.041666340142225575983f,           \
        0.0083759682263114252871f, 0.0013942159833661435643f
#define EXP_DEGREE 6
#define EXP_MAGIC 12582912.0f
#define EXP_HIGH 0.693359375f
#define EXP_LOW -2.12194440e-4f
#define EXP_MANTISSA 23
#define EXP_ONE 0x3f800000u
#define EXP_LEAST -86.5f
#include "attention_levels.h"
#undef REAL
#undef BITS
#undef EXP_TERMS
#undef EXP_DEGREE
#undef EXP_MAGIC
#undef EXP_HIGH
#undef EXP_LOW
#undef EXP_MANTISSA
#undef EXP_ONE
#undef EXP_LEAST

#define REAL double
#define BITS uint64_t
#define EXP_TERMS                                                                                                      \
    1.0, 1.0, 0.50000000000000203099, 0.16666666666666682285, 0.041666666666473292202, 0.0083333333333184622646,       \
        0.0013888888956219214689, 0.00019841269893049545164, 0.000024801481344570322675, 2.7557237736740599929e-6,     \
        2.7634155490989483406e-7, 2.5111203257471138685e-8
#define EXP_DEGREE 11
#define EXP_MAGIC 6755399441055744.0
#define EXP_HIGH 6.93145751953125e-1
#define EXP_LOW 1.42860682030941723212e-6
#define EXP_MANTISSA 52
#define EXP_ONE 0x3ff0000000000000ull
#define EXP_LEAST -707.5
#include "attention_levels.h"

/* Call one of the functions that attention.h makes for each type and processor. */
#ifdef SEVERAL_PROCESSORS
#define FOR_TYPE(type, job, name, ...)                                                                                 \
    ((job)->level == 2   ? name##_##type##_2(__VA_ARGS__)                                                              \
     : (job)->level == 1 ? name##_##type##_1(__VA_ARGS__)                                                              \
                         : name##_##type##_0(__VA_ARGS__))
#else
#define FOR_TYPE(type, job, name, ...) name##_##type##_0(__VA_ARGS__)
#endif
#define CALL(job, name, ...)                                                                                           \
    ((job)->bytes == 4 ? FOR_TYPE(float, job, name, __VA_ARGS__) : FOR_TYPE(double, job, name, __VA_ARGS__))

static long padded(const attention *job, long n) {
    long lanes = ALIGNED / job->bytes;
    return (n + lanes - 1) / lanes * lanes;
}

static void *aligned(void *memory) { return (void *)(((uintptr_t)memory + ALIGNED - 1) & ~(uintptr_t)(ALIGNED - 1)); }

static void forward_tasks(void *given, int part, int parts) {
    attention *job = given;
    (void)part, (void)parts;
    size_t bytes = (size_t)(job->size + job->parts + 2 * KEYS) * 256 + ALIGNED;
    void *work = tg_workspace(bytes);
    /* the last blocks of causal attention have the most keys, and come first */
    for (long task; (task = atomic_fetch_add(&job->next, 1)) < job->tasks;) {
        long number = job->blocks - 1 - task % job->blocks;
        CALL(job, forward, job, task / job->blocks, number, aligned(work));
    }
    tg_leave(work, bytes);
}

static void backward_tasks(void *given, int part, int parts) {
    attention *job = given;
    (void)part, (void)parts;
    long all = padded(job, job->size) + padded(job, job->parts);
    size_t bytes = (size_t)(job->size * 2 + job->parts + all + 3 * KEYS) * 256 + ALIGNED;
    void *work = tg_workspace(bytes);
    for (long task; (task = atomic_fetch_add(&job->next, 1)) < job->tasks;) {
        size_t for_k = (size_t)(job->keys * padded(job, job->size) * job->bytes);
        size_t for_v = (size_t)(job->keys * padded(job, job->parts) * job->bytes);
        char *to_k = job->chunks_k ? (char *)job->chunks_k + for_k * task : 0;
        char *to_v = job->chunks_v ? (char *)job->chunks_v + for_v * task : 0;
        if (to_k) memset(to_k, 0, for_k);
        if (to_v) memset(to_v, 0, for_v);
        for (long number = task % job->chunks; number < job->blocks; number += job->chunks)
            CALL(job, backward, job, task / job->chunks, number, aligned(work), (void *)to_k, (void *)to_v);
    }
    tg_leave(work, bytes);
}

static void gather_tasks(void *given, int part, int parts) {
    attention *job = given;
    long heads = job->tasks / job->chunks;
    long wide[] = {job->size, job->parts};
    void *to[] = {job->for_k, job->for_v}, *from[] = {job->chunks_k, job->chunks_v};
    for (long head = tg_begin(heads, part, parts); head < tg_begin(heads, part + 1, parts); head++)
        for (int i = 0; i < 2; i++) {
            if (!to[i]) continue;
            size_t given_bytes = (size_t)(job->chunks * job->keys * padded(job, wide[i]) * job->bytes);
            char *rows = (char *)from[i] + (size_t)head * given_bytes;
            char *result = (char *)to[i] + (size_t)(head * job->keys * wide[i] * job->bytes);
            CALL(job, gather, (void *)result, (void *)rows, job->chunks, job->keys, wide[i]);
        }
}

/* facts: which results are wanted, bytes of a number, threads; examples, batches, heads, groups, queries, keys, size of
   a head, parts of a value; causal, the bits of scale and of 1 / (1 - p), the threshold of dropout (-1: none); the kind
   of mask (0 none, 1 bool, 2 numbers), and its six sizes; the kind of processor at most */
static attention job_of(const long long *facts) {
    attention job = {.bytes = (int)facts[1], .threads = (int)facts[2], .examples = facts[3], .batches = facts[4],
                     .heads = facts[5], .queries = facts[7], .keys = facts[8], .size = facts[9], .parts = facts[10],
                     .causal = (int)facts[11], 
                     .threshold = facts[14] < 0 ? 0 : (uint32_t)facts[14], .level = level_of_processor()};
    if (facts[22] < job.level) job.level = (int)facts[22];
    memcpy(&job.scale, &facts[12], sizeof job.scale);
    memcpy(&job.kept, &facts[13], sizeof job.kept);
    job.rows = facts[6] * job.queries;
    long scores = job.batches * job.heads * job.rows * job.keys, step = 1;
    job.half = (uint32_t)((scores + 1) / 2);
    job.mask_is_bool = facts[15] == 1;
    for (int axis = 5; axis >= 0 && facts[15]; axis--) {
        job.mask_steps[axis] = facts[16 + axis] > 1 ? step : 0;
        step *= facts[16 + axis];
    }
    long block = 256 / job.bytes;
    job.blocks = job.queries >= block ? facts[6] * ((job.queries + block - 1) / block) : (job.rows + block - 1) / block;
    return job;
}

static void operands_of(attention *job, void **buffers, const long long *facts) {
    job->q = *buffers++, job->k = *buffers++, job->v = *buffers++;
    if (facts[15]) job->mask = *buffers++;
    if (facts[14] >= 0) job->seed = *buffers++;
}

static void run(attention *job, tg_part function) {
    tg_split(function, job, job->threads < job->tasks ? job->threads : (int)job->tasks);
}

/* Results: the values, and of each row the greatest score and the sum of powers relative to it. */
void tg_attention(void **buffers, const long long *facts) {
    attention job = job_of(facts);
    if (facts[0] & 1) job.out = *buffers++;
    if (facts[0] & 2) job.greatest = *buffers++;
    if (facts[0] & 4) job.sums = *buffers++;
    operands_of(&job, buffers, facts);
    job.tasks = job.examples * job.batches * job.heads * job.blocks;
    run(&job, forward_tasks);
}

/* Results: the gradients of q, k and v. Operands: those of attention, its results, and the gradient of the first. */
void tg_attention_backward(void **buffers, const long long *facts) {
    attention job = job_of(facts);
    if (facts[0] & 1) job.for_q = *buffers++;
    if (facts[0] & 2) job.for_k = *buffers++;
    if (facts[0] & 4) job.for_v = *buffers++;
    operands_of(&job, buffers, facts);
    void **rest = buffers + 3 + (facts[15] != 0) + (facts[14] >= 0);
    job.value = rest[0], job.peaks = rest[1], job.totals = rest[2], job.slope = rest[3];
    long heads = job.examples * job.batches * job.heads;
    job.chunks = heads >= CHUNKS ? 1 : (CHUNKS + heads - 1) / heads;
    if (job.chunks > job.blocks) job.chunks = job.blocks;
    job.tasks = heads * job.chunks;
    /* without chunks and padding gradients are added up where they are returned */
    int room_k = job.for_k && (job.chunks > 1 || padded(&job, job.size) != job.size);
    int room_v = job.for_v && (job.chunks > 1 || padded(&job, job.parts) != job.parts);
    size_t rows = (size_t)(job.tasks * job.keys * job.bytes);
    job.chunks_k = room_k ? tg_take(rows * (size_t)padded(&job, job.size)) : job.for_k;
    job.chunks_v = room_v ? tg_take(rows * (size_t)padded(&job, job.parts)) : job.for_v;
    run(&job, backward_tasks);
    if (!room_k) job.for_k = 0;
    if (!room_v) job.for_v = 0;
    if (room_k || room_v) run(&job, gather_tasks);
    if (room_k) tg_give(job.chunks_k);
    if (room_v) tg_give(job.chunks_v);
}
