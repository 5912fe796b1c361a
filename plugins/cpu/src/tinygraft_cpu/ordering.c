/* Routines that order: sort, topk and unique, by radix sort of pairs (key, index). */

#include <string.h>

#include "pool.h"
#include "routines.h"

#define KEY uint32_t
#define PAIR pair32
#define NAME(x) x##_32
#include "radix.h"
#undef KEY
#undef PAIR
#undef NAME
#define KEY uint64_t
#define PAIR pair64
#define NAME(x) x##_64
#include "radix.h"

enum { TOGETHER = 1 << 15 }; /* elements of a row from which several threads work on one */

/* The pairs of elements from `first` to before `end` of a row of any type, at pairs[0]. */
static inline __attribute__((always_inline)) void fill_any(void *pairs, const void *x, long first, long end, int bytes,
                                                           int kind, uint64_t nan_above, int descending) {
    uint64_t all = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1, flip = descending ? all : 0;
    for (long i = first; i < end; i++) {
        uint64_t key = tg_key(tg_raw(x, i, bytes), 8 * bytes, kind, nan_above) ^ flip;
        if (bytes == 8) ((pair64 *)pairs)[i - first] = (pair64){key, (uint64_t)i};
        else ((pair32 *)pairs)[i - first] = (pair32){(uint32_t)key, (uint32_t)i};
    }
}

/* CALL(bytes, kind) with both as constants, so that its loops are compiled for each. */
#define BY_TYPE(order, CALL)                                                                                           \
    switch ((order)->bytes * 4 + (order)->kind) {                                                                      \
    case 4 + UNSIGNED_KEY: CALL(1, UNSIGNED_KEY); break;                                                               \
    case 4 + SIGNED_KEY: CALL(1, SIGNED_KEY); break;                                                                   \
    case 8 + UNSIGNED_KEY: CALL(2, UNSIGNED_KEY); break;                                                               \
    case 8 + SIGNED_KEY: CALL(2, SIGNED_KEY); break;                                                                   \
    case 8 + FLOAT_KEY: CALL(2, FLOAT_KEY); break;                                                                     \
    case 16 + UNSIGNED_KEY: CALL(4, UNSIGNED_KEY); break;                                                              \
    case 16 + SIGNED_KEY: CALL(4, SIGNED_KEY); break;                                                                  \
    case 16 + FLOAT_KEY: CALL(4, FLOAT_KEY); break;                                                                    \
    case 32 + UNSIGNED_KEY: CALL(8, UNSIGNED_KEY); break;                                                              \
    case 32 + SIGNED_KEY: CALL(8, SIGNED_KEY); break;                                                                  \
    default: CALL(8, FLOAT_KEY);                                                                                       \
    }

static void fill(void *pairs, const void *x, long first, long end, const tg_order *order) {
#define FILL(bytes, kind) fill_any(pairs, x, first, end, bytes, kind, order->nan_above, order->descending)
    BY_TYPE(order, FILL)
#undef FILL
}

static size_t pair_bytes(const tg_order *order) { return order->bytes == 8 ? sizeof(pair64) : sizeof(pair32); }

static void *sort_pairs(void *a, void *b, long n, const tg_order *order, int parts) {
    if (order->bytes == 8) return sort_parts_64(a, b, n, 64, parts);
    return sort_parts_32(a, b, n, 8 * order->bytes, parts);
}

static uint64_t key_at(const void *pairs, long i, const tg_order *order) {
    return order->bytes == 8 ? ((const pair64 *)pairs)[i].key : ((const pair32 *)pairs)[i].key;
}

static long index_at(const void *pairs, long i, const tg_order *order) {
    return order->bytes == 8 ? (long)((const pair64 *)pairs)[i].at : (long)((const pair32 *)pairs)[i].at;
}

/* Store the elements and the indices of sorted pairs. Zeros and NaN are read from `x`: their keys have not all bits. */
static inline __attribute__((always_inline)) void store_any(const void *pairs, const void *x, void *values,
                                                            int32_t *indices, long first, long end, int bytes, int kind,
                                                            int descending) {
    uint64_t all = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1, flip = descending ? all : 0;
    uint64_t zero = 1ull << (8 * bytes - 1);
    for (long i = first; i < end; i++) {
        uint64_t key = (bytes == 8 ? ((const pair64 *)pairs)[i].key : ((const pair32 *)pairs)[i].key) ^ flip;
        long at = bytes == 8 ? (long)((const pair64 *)pairs)[i].at : (long)((const pair32 *)pairs)[i].at;
        if (values) {
            int several = kind == FLOAT_KEY && (key == zero || key == all);
            tg_put(values, i, bytes, several ? tg_raw(x, at, bytes) : tg_bits(key, 8 * bytes, kind));
        }
        if (indices) indices[i] = (int32_t)at;
    }
}

static void store(const void *pairs, const void *x, void *values, int32_t *indices, long first, long end,
                  const tg_order *order) {
#define STORE(bytes, kind) store_any(pairs, x, values, indices, first, end, bytes, kind, order->descending)
    BY_TYPE(order, STORE)
#undef STORE
}

/* What all threads of a routine read: `rows` rows of `n` elements, of which `k` are wanted. */
typedef struct {
    const char *x;
    char *values;
    int32_t *indices, *count, *inverse, *counts;
    long rows, n, k;
    tg_order order;
    int parts;
    char *a, *b; /* the pairs of one row that all threads work on, and room for as many */
    void *sorted;
} tg_job;

/* facts: rows, n, k, bytes, kind, nan_above, descending, which results are wanted (as bits), threads */
static tg_job job_of(void **buffers, const long long *facts, void ***results, int count) {
    tg_job job = {.rows = facts[0], .n = facts[1], .k = facts[2], .parts = (int)facts[8]};
    job.order = (tg_order){(int)facts[3], (int)facts[4], (int)facts[6], (uint64_t)facts[5]};
    int given = 0;
    for (int i = 0; i < count; i++) *results[i] = facts[7] >> i & 1 ? buffers[given++] : 0;
    job.x = buffers[given];
    if (job.parts < 1) job.parts = 1;
    return job;
}

static void fill_part(void *given, int part, int parts) {
    tg_job *job = given;
    long first = tg_begin(job->n, part, parts);
    fill(job->a + first * pair_bytes(&job->order), job->x, first, tg_begin(job->n, part + 1, parts), &job->order);
}

static void store_part(void *given, int part, int parts) {
    tg_job *job = given;
    store(job->sorted, job->x, job->values, job->indices, tg_begin(job->k, part, parts),
          tg_begin(job->k, part + 1, parts), &job->order);
}

/* Sort one row with all threads into job->sorted; the caller gives back job->a, which has room for job->b too. */
static void sort_row(tg_job *job) {
    size_t size = (size_t)job->n * pair_bytes(&job->order);
    job->a = tg_take(2 * size);
    job->b = job->a + size;
    tg_split(fill_part, job, job->parts);
    job->sorted = sort_pairs(job->a, job->b, job->n, &job->order, job->parts);
}

/* Whole rows, each by one thread. */
static void sort_rows(void *given, int part, int parts) {
    tg_job *job = given;
    long end = tg_begin(job->rows, part + 1, parts);
    size_t size = (size_t)job->n * pair_bytes(&job->order);
    char *a = tg_workspace(2 * size);
    for (long row = tg_begin(job->rows, part, parts); row < end; row++) {
        const char *x = job->x + row * job->n * job->order.bytes;
        fill(a, x, 0, job->n, &job->order);
        void *sorted = sort_pairs(a, a + size, job->n, &job->order, 1);
        store(sorted, x, job->values ? job->values + row * job->k * job->order.bytes : 0,
              job->indices ? job->indices + row * job->k : 0, 0, job->k, &job->order);
    }
    tg_leave(a, 2 * size);
}

static void sort_all(tg_job *job) {
    if (job->n < TOGETHER || job->parts < 2 || job->rows >= 2 * job->parts) {
        tg_split(sort_rows, job, job->rows < job->parts ? (int)job->rows : job->parts);
        return;
    }
    for (long row = 0; row < job->rows; row++) {
        sort_row(job);
        tg_split(store_part, job, job->parts);
        tg_give(job->a);
        job->x += job->n * job->order.bytes;
        if (job->values) job->values += job->k * job->order.bytes;
        if (job->indices) job->indices += job->k;
    }
}

/* Results: the elements of each row in order, and their indices. */
void tg_sort(void **buffers, const long long *facts) {
    void *values, *indices;
    tg_job job = job_of(buffers, facts, (void **[]){&values, &indices}, 2);
    job.values = values, job.indices = indices, job.k = job.n;
    sort_all(&job);
}

/* topk: one pass over a row. A pair is kept if its key is below that of the last of the k that are in front so far;
   when there is no more room, those kept are sorted, and all but the first k dropped. Keys are inverted for the
   greatest, so that the wanted ones are the least. */

#define BLOCK 64 /* elements that are compared together */
#define GROUP 16 /* elements that are looked at one by one where one of them comes in */
#define IN_ORDER 32 /* k up to which those kept are always in order: a sort of 300 takes longer than all of a short row */

/* Put a pair among `count` pairs in order, behind those with the same key. */
static inline __attribute__((always_inline)) void put_in_order(void *pairs, long count, uint64_t key, long at,
                                                               int bytes) {
    if (bytes == 8) {
        pair64 *p = pairs;
        for (; count > 0 && p[count - 1].key > key; count--) p[count] = p[count - 1];
        p[count] = (pair64){key, (uint64_t)at};
    } else {
        pair32 *p = pairs;
        for (; count > 0 && p[count - 1].key > key; count--) p[count] = p[count - 1];
        p[count] = (pair32){(uint32_t)key, (uint32_t)at};
    }
}

/* Whether one of `count` elements from number i on has a key below `bound`. Floats are compared as such, in vectors. */
static inline __attribute__((always_inline)) int any_below(const void *x, long i, int count, uint64_t bound,
                                                           const tg_order *order, int bytes, int kind, uint64_t flip) {
    int any = 0;
    if (bytes == 4 && kind == FLOAT_KEY) {
        uint32_t bits = (uint32_t)tg_bits(bound ^ flip, 32, FLOAT_KEY);
        const float *f = (const float *)x + i;
        float last;
        memcpy(&last, &bits, sizeof last);
        if ((bound ^ flip) == 0xffffffffu) { /* the last is NaN: nothing comes before one that is in front */
            if (!flip)
                for (int j = 0; j < count; j++) any |= f[j] == f[j];
        } else if (flip) {
            for (int j = 0; j < count; j++) any |= !(f[j] <= last);
        } else {
            for (int j = 0; j < count; j++) any |= f[j] < last;
        }
        return any;
    }
    for (int j = 0; j < count; j++)
        any |= (tg_key(tg_raw(x, i + j, bytes), 8 * bytes, kind, order->nan_above) ^ flip) < bound;
    return any;
}

static inline __attribute__((always_inline)) long select_any(char *pairs, char *room, const void *x, long first,
                                                             long end, long k, long most, const tg_order *order,
                                                             int bytes, int kind) {
    uint64_t nan_above = order->nan_above;
    uint64_t all = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1, flip = order->descending ? all : 0, bound = all;
    long kept = 0;
    int full = 0; /* whether k are kept, so that only what is below `bound` comes in */
    for (long i = first; i < end; i += BLOCK) {
        long stop = end - i < BLOCK ? end : i + BLOCK;
        int whole = full && stop == i + BLOCK;
        if (whole && !any_below(x, i, BLOCK, bound, order, bytes, kind, flip)) continue;
        for (long j = i; j < stop; j++) {
            if (whole && !((j - i) % GROUP) && !any_below(x, j, GROUP, bound, order, bytes, kind, flip)) {
                j += GROUP - 1;
                continue;
            }
            if (full && !any_below(x, j, 1, bound, order, bytes, kind, flip)) continue;
            uint64_t key = tg_key(tg_raw(x, j, bytes), 8 * bytes, kind, nan_above) ^ flip;
            if (k <= IN_ORDER) {
                put_in_order(pairs, full ? k - 1 : kept++, key, j, bytes);
                if (kept == k) full = 1, bound = key_at(pairs, k - 1, order);
                continue;
            }
            if (bytes == 8) ((pair64 *)pairs)[kept++] = (pair64){key, (uint64_t)j};
            else ((pair32 *)pairs)[kept++] = (pair32){(uint32_t)key, (uint32_t)j};
        }
        if (k > IN_ORDER && kept + BLOCK > most) {
            void *sorted = sort_pairs(pairs, room, kept, order, 1);
            kept = kept < k ? kept : k;
            if (sorted != pairs) memcpy(pairs, sorted, (size_t)kept * pair_bytes(order));
            if (kept == k) full = 1, bound = key_at(pairs, k - 1, order);
        }
    }
    if (k <= IN_ORDER) return kept;
    void *sorted = sort_pairs(pairs, room, kept, order, 1);
    kept = kept < k ? kept : k;
    if (sorted != pairs) memcpy(pairs, sorted, (size_t)kept * pair_bytes(order));
    return kept;
}

FOR_EACH_PROCESSOR static long select_f32(char *pairs, char *room, const void *x, long first, long end, long k,
                                          long most, const tg_order *order) {
    return select_any(pairs, room, x, first, end, k, most, order, 4, FLOAT_KEY);
}

static long choose(char *pairs, char *room, const void *x, long first, long end, long k, long most,
                   const tg_order *order) {
    long kept = 0;
    if (order->bytes == 4 && order->kind == FLOAT_KEY)
        return select_f32(pairs, room, x, first, end, k, most, order);
#define SELECT(bytes, kind) kept = select_any(pairs, room, x, first, end, k, most, order, bytes, kind)
    BY_TYPE(order, SELECT)
#undef SELECT
    return kept;
}

static long most_kept(const tg_job *job) { return 2 * job->k + 4 * BLOCK; }

static void topk_rows(void *given, int part, int parts) {
    tg_job *job = given;
    long end = tg_begin(job->rows, part + 1, parts), most = most_kept(job);
    size_t size = (size_t)most * pair_bytes(&job->order);
    char *pairs = tg_workspace(2 * size);
    for (long row = tg_begin(job->rows, part, parts); row < end; row++) {
        const char *x = job->x + row * job->n * job->order.bytes;
        choose(pairs, pairs + size, x, 0, job->n, job->k, most, &job->order);
        store(pairs, x, job->values ? job->values + row * job->k * job->order.bytes : 0,
              job->indices ? job->indices + row * job->k : 0, 0, job->k, &job->order);
    }
    tg_leave(pairs, 2 * size);
}

/* A chunk of one row: its first k at job->a, as many for each chunk; counts of them in job->counts. */
static void topk_part(void *given, int part, int parts) {
    tg_job *job = given;
    long most = most_kept(job);
    size_t size = (size_t)most * pair_bytes(&job->order);
    for (int p = part; p < job->parts; p += parts) {
        char *pairs = tg_workspace(2 * size);
        long kept = choose(pairs, pairs + size, job->x, tg_begin(job->n, p, job->parts),
                           tg_begin(job->n, p + 1, job->parts), job->k, most, &job->order);
        memcpy(job->a + (size_t)p * job->k * pair_bytes(&job->order), pairs, (size_t)kept * pair_bytes(&job->order));
        job->counts[p] = (int32_t)kept;
        tg_leave(pairs, 2 * size);
    }
}

/* One row by all threads: the first k of each chunk, in the order of chunks, sorted again. */
static void topk_row(tg_job *job) {
    size_t pair = pair_bytes(&job->order), size = (size_t)job->parts * job->k * pair;
    int32_t kept[1024];
    job->parts = job->parts < 1024 ? job->parts : 1024;
    job->a = tg_take(2 * size);
    job->counts = kept;
    tg_split(topk_part, job, job->parts);
    long all = 0;
    for (int p = 0; p < job->parts; p++) {
        memmove(job->a + all * pair, job->a + (size_t)p * job->k * pair, (size_t)kept[p] * pair);
        all += kept[p];
    }
    void *sorted = sort_pairs(job->a, job->a + size, all, &job->order, 1);
    store(sorted, job->x, job->values, job->indices, 0, job->k, &job->order);
    tg_give(job->a);
}

/* Results: the first k of each row in order, and their indices. */
void tg_topk(void **buffers, const long long *facts) {
    void *values, *indices;
    tg_job job = job_of(buffers, facts, (void **[]){&values, &indices}, 2);
    job.values = values, job.indices = indices;
    if (job.k > job.n / 8) {
        sort_all(&job);
    } else if (job.rows == 1 && job.parts > 1 && job.n >= 2 * TOGETHER) {
        topk_row(&job);
    } else {
        tg_split(topk_rows, &job, job.rows < job.parts ? (int)job.rows : job.parts);
    }
}

#include "distinct.h"

/* The results of one row by its sorted pairs; returns how many there are. The key of NaN equals no key. */
static long distinct_sorted(tg_job *job) {
    int bytes = job->order.bytes, is_float = job->order.kind == FLOAT_KEY;
    uint64_t nan = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1, before = 0;
    long begun = 0, run = -1;
    sort_row(job);
    for (long i = 0; i < job->n; i++) {
        uint64_t key = key_at(job->sorted, i, &job->order);
        long at = index_at(job->sorted, i, &job->order);
        if (!i || key != before || (is_float && key == nan)) {
            if (job->counts && run >= 0) job->counts[run] = (int32_t)(i - begun);
            begun = i, run++;
            if (job->indices) job->indices[run] = (int32_t)at;
            if (job->values) tg_put(job->values, run, bytes, tg_raw(job->x, at, bytes));
        }
        if (job->inverse) job->inverse[at] = (int32_t)run;
        before = key;
    }
    if (job->counts) job->counts[run] = (int32_t)(job->n - begun);
    tg_give(job->a);
    return run + 1;
}

/* Results: the distinct elements of each row in order, how many there are, for each element which of them it is, how
   often each occurs, and where it is first. */
void tg_unique(void **buffers, const long long *facts) {
    void *values, *count, *inverse, *counts, *firsts;
    tg_job job = job_of(buffers, facts, (void **[]){&values, &count, &inverse, &counts, &firsts}, 5);
    job.values = values, job.inverse = inverse, job.counts = counts, job.indices = firsts;
    long n = job.n, bytes = job.order.bytes;
    if (n < TOGETHER) job.parts = 1;
    for (long row = 0; row < job.rows; row++) {
        long found = distinct_close(&job);
        if (found < 0) found = distinct_sorted(&job);
        if (count) ((int32_t *)count)[row] = (int32_t)found;
        size_t rest = (size_t)(n - found);
        if (job.values) memset(job.values + found * bytes, 0, rest * bytes), job.values += n * bytes;
        if (job.counts) memset(job.counts + found, 0, rest * sizeof(int32_t)), job.counts += n;
        if (job.indices) memset(job.indices + found, 0, rest * sizeof(int32_t)), job.indices += n;
        if (job.inverse) job.inverse += n;
        job.x += n * bytes;
    }
}
