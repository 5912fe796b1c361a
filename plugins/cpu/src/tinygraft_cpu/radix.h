/* Stable radix sort of pairs (key, index), written once for each width: the includer defines KEY, PAIR and NAME(x).

   Least significant digit first; a digit that all keys share is skipped. `parts` threads count and move chunks of the
   pairs; each chunk's pairs of a digit go behind those of earlier chunks, so the order is that of one thread. */

typedef struct {
    KEY key;
    KEY at;
} PAIR;

/* FEW: pairs up to which all keys are compared with each other, measured: see NOTES.md, 2026-12-01, rows with a remainder */
enum { NAME(WIDE) = 11, NAME(NARROW) = 8, NAME(FEW) = 96, NAME(SHORT) = 3000 };
#define LANES (64 / (long)sizeof(KEY))

typedef KEY NAME(lanes) __attribute__((vector_size(64)));

/* Put a few pairs in order at b: each one behind those with lesser keys, and those before it with the same one. No branch
   depends on a key. */
FOR_EACH_PROCESSOR
static void NAME(rank)(const PAIR *a, PAIR *b, long n) {
    KEY keys[NAME(FEW)];
    NAME(lanes) place;
    for (long i = 0; i < n; i++) keys[i] = a[i].key;
    for (long j = 0; j < LANES; j++) place[j] = (KEY)j;
    for (long block = 0; block < n; block += LANES) {
        NAME(lanes) own = {0}, rank = {0};
        long here = n - block < LANES ? n - block : LANES;
        for (long j = 0; j < here; j++) own[j] = keys[block + j];
        for (long i = 0; i < block; i++) rank -= (NAME(lanes))(own >= keys[i]);
        for (long i = block; i < block + here; i++)
            rank -= (NAME(lanes))(own > keys[i]) | ((NAME(lanes))(own == keys[i]) & (NAME(lanes))(place > (KEY)(i - block)));
        for (long i = block + here; i < n; i++) rank -= (NAME(lanes))(own > keys[i]);
        for (long j = 0; j < here; j++) b[rank[j]] = a[block + j];
    }
}

/* Sort in one thread; returns where the sorted pairs are, `a` or `b`. */
static PAIR *NAME(sort)(PAIR *a, PAIR *b, long n, int bits) {
    if (n <= NAME(FEW)) {
        NAME(rank)(a, b, n);
        return b;
    }
    int digit = n < NAME(SHORT) ? NAME(NARROW) : NAME(WIDE), passes = (bits + digit - 1) / digit;
    KEY mask = ((KEY)1 << digit) - 1;
    uint32_t counts[8][1 << NAME(WIDE)];
    int used[8], uses = 0;
    KEY varied = 0;
    for (long i = 1; i < n; i++) varied |= a[i].key ^ a[0].key;
    for (int p = 0; p < passes; p++)
        if (varied >> (p * digit) & mask) used[uses++] = p * digit;
    for (int p = 0; p < uses; p++) memset(counts[p], 0, sizeof(uint32_t) << digit);
    for (long i = 0; i < n; i++) {
        KEY key = a[i].key;
        for (int p = 0; p < uses; p++) counts[p][key >> used[p] & mask]++;
    }
    for (int p = 0; p < uses; p++) {
        uint32_t *count = counts[p], before = 0;
        for (KEY d = 0; d <= mask; d++) {
            uint32_t here = count[d];
            count[d] = before;
            before += here;
        }
        for (long i = 0; i < n; i++) b[count[a[i].key >> used[p] & mask]++] = a[i];
        PAIR *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

typedef struct {
    PAIR *a, *b;
    long n;
    int shift;
    int parts;
    uint32_t *counts; /* for each part, for each digit */
    KEY *varied;      /* for each part, the bits in which its keys differ from the first of all */
} NAME(job);

static void NAME(vary)(void *given, int part, int parts) {
    NAME(job) *job = given;
    for (int p = part; p < job->parts; p += parts) {
        KEY varied = 0, first = job->a[0].key;
        long end = tg_begin(job->n, p + 1, job->parts);
        for (long i = tg_begin(job->n, p, job->parts); i < end; i++) varied |= job->a[i].key ^ first;
        job->varied[p] = varied;
    }
}

static void NAME(count)(void *given, int part, int parts) {
    NAME(job) *job = given;
    for (int p = part; p < job->parts; p += parts) {
        uint32_t *count = job->counts + ((size_t)p << NAME(WIDE));
        memset(count, 0, sizeof(uint32_t) << NAME(WIDE));
        long end = tg_begin(job->n, p + 1, job->parts);
        for (long i = tg_begin(job->n, p, job->parts); i < end; i++)
            count[job->a[i].key >> job->shift & ((1 << NAME(WIDE)) - 1)]++;
    }
}

static void NAME(move)(void *given, int part, int parts) {
    NAME(job) *job = given;
    for (int p = part; p < job->parts; p += parts) {
        uint32_t *count = job->counts + ((size_t)p << NAME(WIDE));
        long end = tg_begin(job->n, p + 1, job->parts);
        for (long i = tg_begin(job->n, p, job->parts); i < end; i++)
            job->b[count[job->a[i].key >> job->shift & ((1 << NAME(WIDE)) - 1)]++] = job->a[i];
    }
}

/* The same with several threads. */
static PAIR *NAME(sort_parts)(PAIR *a, PAIR *b, long n, int bits, int parts) {
    if (parts < 2) return NAME(sort)(a, b, n, bits);
    KEY each[1024], varied = 0;
    if (parts > 1024) parts = 1024;
    NAME(job) job = {a, b, n, 0, parts, tg_take(((size_t)parts << NAME(WIDE)) * sizeof(uint32_t)), each};
    tg_split(NAME(vary), &job, parts);
    for (int p = 0; p < parts; p++) varied |= each[p];
    for (; job.shift < bits; job.shift += NAME(WIDE)) {
        if (!(varied >> job.shift & ((1 << NAME(WIDE)) - 1))) continue;
        tg_split(NAME(count), &job, parts);
        uint32_t before = 0;
        for (int d = 0; d < 1 << NAME(WIDE); d++) {
            for (int p = 0; p < parts; p++) {
                uint32_t *count = job.counts + ((size_t)p << NAME(WIDE)) + d, here = *count;
                *count = before;
                before += here;
            }
        }
        tg_split(NAME(move), &job, parts);
        PAIR *swap = job.a;
        job.a = job.b;
        job.b = swap;
    }
    tg_give(job.counts);
    return job.a;
}
#undef LANES
