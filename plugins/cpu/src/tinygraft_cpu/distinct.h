/* unique of integers that lie close together: a part of ordering.c.

   No sort: a table has a place for each number from the least to the greatest of a row. Each thread stores in a table
   of its own where the numbers of its chunk are first, and how often they occur. */

enum { PLACES = 2 }; /* of a table for each element of the row, at most: a longer one takes as long as a sort */

typedef struct {
    tg_job *job;
    uint64_t *ends; /* of each chunk the least and the greatest key */
    uint64_t least;
    long places;
    int tables;
    int32_t *firsts; /* by table and place: the first index, -1 for none; later, in the first table, which it is */
    int32_t *counts; /* 0 where no counts are wanted */
} distinct;

#define ENDS(bytes, kind)                                            \
    for (long i = first; i < end; i++) {                             \
        uint64_t key = tg_key(tg_raw(x, i, bytes), 8 * bytes, kind, 0); \
        least = key < least ? key : least;                           \
        greatest = key > greatest ? key : greatest;                  \
    }
FOR_EACH_PROCESSOR
static void find_ends(const void *x, long first, long end, const tg_order *order, uint64_t *ends) {
    uint64_t least = ~0ull, greatest = 0;
    BY_TYPE(order, ENDS)
    ends[0] = least, ends[1] = greatest;
}
#undef ENDS

static void ends_part(void *given, int part, int parts) {
    distinct *all = given;
    tg_job *job = all->job;
    for (int p = part; p < job->parts; p += parts)
        find_ends(job->x, tg_begin(job->n, p, job->parts), tg_begin(job->n, p + 1, job->parts), &job->order,
                  all->ends + 2 * p);
}

/* From the last element on, so that what stays is the first index. */
#define MARK(bytes, kind)                                                              \
    for (long i = end - 1; i >= first; i--) {                                          \
        uint64_t at = tg_key(tg_raw(x, i, bytes), 8 * bytes, kind, 0) - all->least;    \
        firsts[at] = (int32_t)i;                                                       \
        if (counts) counts[at]++;                                                      \
    }
static void mark_part(void *given, int part, int parts) {
    distinct *all = given;
    const tg_job *job = all->job;
    const void *x = job->x;
    for (int p = part; p < all->tables; p += parts) {
        int32_t *firsts = all->firsts + p * all->places, *counts = all->counts ? all->counts + p * all->places : 0;
        memset(firsts, 0xff, (size_t)all->places * sizeof *firsts);
        if (counts) memset(counts, 0, (size_t)all->places * sizeof *counts);
        long first = tg_begin(job->n, p, all->tables), end = tg_begin(job->n, p + 1, all->tables);
        BY_TYPE(&job->order, MARK)
    }
}
#undef MARK

#define INVERSE(bytes, kind)                                                                                  \
    for (long i = first; i < end; i++)                                                                        \
        job->inverse[i] = all->firsts[tg_key(tg_raw(x, i, bytes), 8 * bytes, kind, 0) - all->least];
static void inverse_part(void *given, int part, int parts) {
    distinct *all = given;
    const tg_job *job = all->job;
    const void *x = job->x;
    long first = tg_begin(job->n, part, parts), end = tg_begin(job->n, part + 1, parts);
    BY_TYPE(&job->order, INVERSE)
}
#undef INVERSE

/* Store the results of each number that occurs, and which it is in the first table. Returns how many there are. */
static long store_distinct(distinct *all) {
    const tg_job *job = all->job;
    long run = 0;
    for (long at = 0; at < all->places; at++) {
        int32_t first = -1, count = 0;
        for (int p = all->tables - 1; p >= 0; p--) {
            int32_t here = all->firsts[p * all->places + at];
            if (here >= 0) first = here;
            if (all->counts) count += all->counts[p * all->places + at];
        }
        if (first < 0) continue;
        all->firsts[at] = (int32_t)run;
        uint64_t bits = tg_bits(all->least + (uint64_t)at, 8 * job->order.bytes, job->order.kind);
        if (job->values) tg_put(job->values, run, job->order.bytes, bits);
        if (job->counts) job->counts[run] = count;
        if (job->indices) job->indices[run] = first;
        run++;
    }
    return run;
}

/* The results of one row, or -1 where its numbers are not close together. */
static long distinct_close(tg_job *job) {
    if (job->order.kind == FLOAT_KEY) return -1;
    uint64_t ends[2 * 64], least = ~0ull, greatest = 0;
    if (job->parts > 64) job->parts = 64;
    distinct all = {.job = job, .ends = ends};
    tg_split(ends_part, &all, job->parts);
    for (int p = 0; p < job->parts; p++) {
        least = ends[2 * p] < least ? ends[2 * p] : least;
        greatest = ends[2 * p + 1] > greatest ? ends[2 * p + 1] : greatest;
    }
    if (greatest - least >= (uint64_t)job->n * PLACES) return -1;
    all.least = least, all.places = (long)(greatest - least) + 1;
    long most = job->n * PLACES / all.places; /* tables, so that all of them are no longer than one may be */
    all.tables = job->parts < most ? job->parts : (int)most;
    size_t size = (size_t)all.tables * all.places * sizeof(int32_t);
    all.firsts = tg_take(size * (job->counts ? 2 : 1));
    if (job->counts) all.counts = all.firsts + all.tables * all.places;
    tg_split(mark_part, &all, all.tables);
    long found = store_distinct(&all);
    if (job->inverse) tg_split(inverse_part, &all, job->parts);
    tg_give(all.firsts);
    return found;
}
