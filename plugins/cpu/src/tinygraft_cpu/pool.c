/* The thread pool: one kernel at a time in chunks ("parts" in names), each run by whichever thread is free first.

   A launch stores its job and then the ticket: the job's number (upper 32 bits), how many chunks it has and the number
   of the next chunk to run (16 bits each). A thread claims a chunk by exchanging the whole ticket, so it never claims
   one of a job that is over, and a job does not change until all claimed chunks are done. The launching thread has the
   first chunk and claims others too: where a worker is slow to wake, only its help is lost. Workers spin for a while
   after a job, then sleep.

   What different threads write is in different cache lines, so a launch costs about two transfers of a line between
   processors: one to the workers (ticket and job), one back (finished). */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool.h"
#include "routines.h"

#define LINE 64 /* bytes of a cache line */
#define MOST_PARTS 1024
#define WORKER_STACK (4u << 20)
#define AWAKE 300000 /* nanoseconds, then a worker sleeps; Python needs 20 to 200 us from one launch to the next */
#define SPINS 32     /* from one look at the clock to the next: a pause takes 10 to 60 ns */
#define SMALL_COPY (256 << 10) /* bytes that one thread copies, in about 15 us; several launches cost more than they gain */
#define WAIT_SPINS 4000 /* then a launch that waits for its last chunks yields its processor */

typedef void (*kernel)(void **buffers, const long long *variables);

static struct {
    alignas(LINE) _Atomic uint64_t ticket;
    kernel code;
    void **buffers;
    const long long *variables;
    int count;   /* of variables */
    int scratch; /* bytes */
} job;

static struct {
    alignas(LINE) _Atomic uint64_t parts; /* that workers have finished, since the process started */
} finished;

static struct {
    alignas(LINE) atomic_int sleepers;
    atomic_int workers;
    atomic_flag busy;
} state = {.busy = ATOMIC_FLAG_INIT};

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Scratch memory of a thread, as large as the largest that a kernel needed on it; freed when the thread ends. */
static pthread_key_t room;
static pthread_once_t room_made = PTHREAD_ONCE_INIT;
static _Thread_local struct {
    void *start;
    size_t bytes;
} mine;

static void make_room(void) { pthread_key_create(&room, free); }

void *tg_room(size_t bytes) {
    if (mine.bytes < bytes) {
        pthread_once(&room_made, make_room);
        free(mine.start);
        if (posix_memalign(&mine.start, LINE, bytes)) {
            fprintf(stderr, "tinygraft: no memory for %zu bytes that a kernel works in\n", bytes);
            abort();
        }
        mine.bytes = bytes;
        pthread_setspecific(room, mine.start);
    }
    return mine.start;
}

/* Run one chunk. After its variables a kernel takes the chunk's number, how many there are, and its scratch memory. */
static void run_part(kernel code, void **buffers, const long long *variables, int count, int part, int parts,
                     int scratch) {
    long long values[count + 3];
    if (count) memcpy(values, variables, (size_t)count * sizeof *values);
    values[count] = part;
    values[count + 1] = parts;
    values[count + 2] = scratch ? (long long)(intptr_t)tg_room((size_t)scratch) : 0;
    code(buffers, values);
}

static uint64_t number_of(uint64_t now) { return now >> 32; }
static int parts_of(uint64_t now) { return (int)(now >> 16 & 0xffff); }
static int next_of(uint64_t now) { return (int)(now & 0xffff); }

static uint64_t read_ticket(void) { return atomic_load_explicit(&job.ticket, memory_order_acquire); }

/* Claim and run chunks of job number `number` until none are left. Returns how many. */
static uint64_t help(uint64_t number) {
    uint64_t taken = 0, now = read_ticket();
    while (number_of(now) == number && next_of(now) < parts_of(now)) {
        if (!atomic_compare_exchange_weak(&job.ticket, &now, now + 1)) continue;
        run_part(job.code, job.buffers, job.variables, job.count, next_of(now), parts_of(now), job.scratch);
        taken++;
        now = read_ticket();
    }
    return taken;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Wait for a job other than number `seen` for as long as a worker stays awake: waking one takes about 20 us. */
static void stay_awake(uint64_t seen) {
    int64_t end = now() + AWAKE;
    do
        for (int spins = 0; spins < SPINS; spins++) {
            if (number_of(read_ticket()) != seen) return;
            relax();
        }
    while (now() < end);
}

static void *work(void *first) {
    uint64_t seen = (uintptr_t)first;
    for (;;) {
        stay_awake(seen);
        if (number_of(read_ticket()) == seen) {
            pthread_mutex_lock(&door);
            atomic_fetch_add(&state.sleepers, 1);
            while (number_of(atomic_load(&job.ticket)) == seen) pthread_cond_wait(&bell, &door);
            atomic_fetch_sub(&state.sleepers, 1);
            pthread_mutex_unlock(&door);
        }
        seen = number_of(read_ticket());
        uint64_t taken = help(seen);
        if (taken) atomic_fetch_add_explicit(&finished.parts, taken, memory_order_release);
    }
    return 0;
}

/* A forked child has none of the workers, and its locks are in the state that the parent's other threads left. */
static void after_fork(void) {
    pthread_mutex_init(&door, 0);
    pthread_cond_init(&bell, 0);
    atomic_store(&state.workers, 0);
    atomic_store(&state.sleepers, 0);
    atomic_flag_clear(&state.busy);
}

static void prepare(void) { pthread_atfork(0, 0, after_fork); }

static void hire(int wanted) {
    pthread_attr_t attributes;
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t all, old;
    pthread_once(&prepared, prepare);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WORKER_STACK);
    sigfillset(&all); /* Python's threads handle signals; but a fault is raised in its own thread, and if it is blocked
                         there, the process ends without a message */
    for (int i = 0; i < (int)(sizeof faults / sizeof *faults); i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (atomic_load(&state.workers) < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, (void *)(uintptr_t)number_of(read_ticket()))) break;
        atomic_fetch_add(&state.workers, 1);
    }
    pthread_sigmask(SIG_SETMASK, &old, 0);
    pthread_attr_destroy(&attributes);
}

/* Return the version that extension.py compares, to refuse an extension that was built from other sources. */
int tg_abi(void) { return 12; }

/* Return how many workers exist. */
int tg_workers(void) { return atomic_load(&state.workers); }

/* Run a kernel in `parts` chunks and wait for it. Returns how many chunks it ran in: 1 where another thread uses the
   pool, since the pool has one job at a time. */
int tg_launch(uintptr_t code, uintptr_t *buffers, const long long *variables, int count, int parts, int scratch) {
    if (parts <= 1 || atomic_flag_test_and_set_explicit(&state.busy, memory_order_acquire)) {
        run_part((kernel)code, (void **)buffers, variables, count, 0, 1, scratch);
        return 1;
    }
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    if (atomic_load_explicit(&state.workers, memory_order_relaxed) < parts - 1) hire(parts - 1);
    job.code = (kernel)code;
    job.buffers = (void **)buffers;
    job.variables = variables;
    job.count = count;
    job.scratch = scratch;
    uint64_t before = atomic_load_explicit(&finished.parts, memory_order_relaxed);
    uint64_t number = (number_of(read_ticket()) + 1) & 0xffffffff;
    atomic_store(&job.ticket, number << 32 | (uint64_t)parts << 16 | 1);
    if (atomic_load(&state.sleepers)) {
        pthread_mutex_lock(&door);
        pthread_cond_broadcast(&bell);
        pthread_mutex_unlock(&door);
    }
    run_part((kernel)code, (void **)buffers, variables, count, 0, parts, scratch);
    uint64_t theirs = (uint64_t)parts - 1 - help(number);
    for (long spins = 0; atomic_load_explicit(&finished.parts, memory_order_acquire) - before < theirs; spins++) {
        if (spins < WAIT_SPINS) relax();
        else sched_yield();
    }
    atomic_flag_clear_explicit(&state.busy, memory_order_release);
    return parts;
}

/* A chunk of a copy, of whole cache lines but for the last. values: the bytes, then the chunk's number and how many. */
static void copy_part(void **buffers, const long long *values) {
    long long lines = (values[0] + LINE - 1) / LINE;
    long long first = lines * values[1] / values[2] * LINE, end = lines * (values[1] + 1) / values[2] * LINE;
    if (end > values[0]) end = values[0];
    memcpy((char *)buffers[0] + first, (const char *)buffers[1] + first, (size_t)(end - first));
}

/* Copy `bytes` to memory that does not overlap them. */
void tg_copy(uintptr_t target, uintptr_t source, long long bytes, int parts) {
    uintptr_t buffers[] = {target, source};
    tg_launch((uintptr_t)copy_part, buffers, &bytes, 1, bytes < SMALL_COPY ? 1 : parts, 0);
}
