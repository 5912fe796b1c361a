/* One block of threads after another on this processor: each thread is a fiber, which runs until it waits or ends.

   What a GPU leaves open is made as bad as it may be: shared memory starts as NaN, the threads of a block go on in an
   order that is shuffled anew at each barrier, the blocks too. A barrier that not all threads reach, an access beyond
   the end of memory and a division trap end the launch, as a fault does. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "emulated.h"

enum { STACK = 256 << 10, PAGE = 4096 };
enum State { READY, AT_BARRIER, AT_WARP, ENDED };

#if defined(__x86_64__)
typedef struct { void *stack; } Fiber;
/* Push the registers that a function keeps, change stacks, pop those of the other fiber and return to it. */
void emulated_switch(void **from, void *to);
__asm__(".text\n.globl emulated_switch\n.type emulated_switch, @function\nemulated_switch:\n"
        "    push %rbx\n    push %rbp\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbp\n    pop %rbx\n    ret\n"
        ".size emulated_switch, .-emulated_switch\n");
#define SWITCH(from, to) emulated_switch(&(from)->stack, (to)->stack)
static void prepare(Fiber *fiber, char *end, void (*entry)(void)) {
    void **top = (void **)(end - 64);
    *--top = NULL;           /* where entry would return to: it never does */
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++) *--top = NULL;
    fiber->stack = top;
}
#else
#include <ucontext.h>
typedef struct { ucontext_t context; } Fiber;
#define SWITCH(from, to) swapcontext(&(from)->context, &(to)->context)
static void prepare(Fiber *fiber, char *end, void (*entry)(void)) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = end - STACK;
    fiber->context.uc_stack.ss_size = STACK;
    makecontext(&fiber->context, entry, 0);
}
#endif

static pthread_mutex_t one_kernel = PTHREAD_MUTEX_INITIALIZER; /* what is below serves one launch at a time */
static Fiber fibers[MOST_THREADS], scheduler;
static enum State states[MOST_THREADS];
static Address lanes[MOST_THREADS];
static char *stacks;
static int going; /* the thread that runs */
static const Launch *launch;
static Place place;
static uint64_t random_state = 88172645463325252u;
static sigjmp_buf fault;
static volatile sig_atomic_t in_kernel;
static pthread_t runner;

static unsigned random_below(unsigned n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % n;
}

static void order(int *numbers, int n) {
    int how = emulated_setting("EMULATED_ORDER", 2); /* 0 forwards, 1 backwards, 2 shuffled */
    for (int i = 0; i < n; i++) numbers[i] = how == 1 ? n - 1 - i : i;
    for (int i = n - 1; how == 2 && i > 0; i--) {
        int j = random_below(i + 1), kept = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = kept;
    }
}

#define W(i) w[i]
#define W8(i) W(i), W(i + 1), W(i + 2), W(i + 3), W(i + 4), W(i + 5), W(i + 6), W(i + 7)
#define W32(i) W8(i), W8(i + 8), W8(i + 16), W8(i + 24)
/* All arguments have 64 bits, and a C function does not mind those that it has no name for. */
static void call_kernel(void) {
    const Address *w = launch->words;
    void (*code)(Address, ...) = (void (*)(Address, ...))launch->function->code;
    int count = launch->function->count;
    if (count <= 8) ((void (*)(Address, Address, Address, Address, Address, Address, Address, Address))code)(W8(0));
    else if (count <= 32) code(W32(0));
    else code(W32(0), W32(32), W32(64), W32(96), W32(128));
}

static void set_place(int i) {
    const unsigned *n = launch->threads;
    place.number = going = i;
    place.thread = (Index){i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
}

static void fiber_entry(void) {
    call_kernel();
    states[going] = ENDED;
    for (;;) SWITCH(&fibers[going], &scheduler);
}

static void wait_here(int of_warp) {
    int me = going;
    states[me] = of_warp ? AT_WARP : AT_BARRIER;
    SWITCH(&fibers[me], &scheduler);
}

static int in_state(enum State state, int first, int end) {
    int found = 0;
    for (int i = first; i < end; i++) found += states[i] == state;
    return found;
}

static void go_on(int first, int end) {
    for (int i = first; i < end; i++) states[i] = READY;
}

/* Let every warp go on of which all threads that have not ended wait; whether there was one. */
static int release_warps(int n) {
    int found = 0, warp = place.warp;
    for (int first = 0; first < n; first += warp) {
        int end = first + warp < n ? first + warp : n;
        int waiting = in_state(AT_WARP, first, end);
        if (waiting && waiting + in_state(ENDED, first, end) == end - first) {
            for (int i = first; i < end; i++) states[i] = states[i] == AT_WARP ? READY : states[i];
            found = 1;
        }
    }
    return found;
}

static int run_block_of_fibers(int n) {
    static int turn[MOST_THREADS];
    for (int i = 0; i < n; i++) {
        prepare(&fibers[i], stacks + (size_t)(i + 1) * STACK, fiber_entry);
        states[i] = READY;
    }
    for (;;) {
        order(turn, n);
        for (int k = 0; k < n; k++) {
            if (states[turn[k]] != READY) continue;
            set_place(turn[k]);
            SWITCH(&scheduler, &fibers[turn[k]]);
        }
        int ended = in_state(ENDED, 0, n), waiting = in_state(AT_BARRIER, 0, n);
        if (ended == n) return OK;
        if (waiting == n) {
            go_on(0, n);
        } else if (!release_warps(n)) {
            fprintf(stderr, "emulated kernel %s, block (%u, %u, %u): of %d threads %d wait at a barrier, %d have ended\n",
                    launch->function->name, place.block.x, place.block.y, place.block.z, n, waiting, ended);
            return LAUNCH_FAILED;
        }
    }
}

static int run_block_in_turn(int n) {
    static int turn[MOST_THREADS];
    order(turn, n);
    for (int k = 0; k < n; k++) {
        set_place(turn[k]);
        call_kernel();
    }
    return OK;
}

static int run_blocks(void) {
    char *first, *last;
    launch->function->begin(&place, &first, &last);
    int n = (int)(launch->threads[0] * launch->threads[1] * launch->threads[2]);
    const unsigned *grid = launch->grid;
    Address blocks = (Address)grid[0] * grid[1] * grid[2], start = random_below(blocks > 4096 ? 4096 : (unsigned)blocks);
    for (Address b = 0; b < blocks; b++) {
        Address i = (b + start) % blocks;
        place.block = (Index){i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]};
        if (last > first) memset(first, 0xff, last - first);
        if (launch->shared) memset(place.shared, 0xff, launch->shared);
        int result = launch->function->waits ? run_block_of_fibers(n) : run_block_in_turn(n);
        if (result) return result;
    }
    return OK;
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    if (in_kernel && pthread_equal(pthread_self(), runner)) {
        fprintf(stderr, "emulated kernel %s: %s at %p, block (%u, %u, %u), thread %u\n", launch->function->name,
                strsignal(signal_number), info->si_addr, place.block.x, place.block.y, place.block.z, place.number);
        siglongjmp(fault, 1);
    }
    signal(signal_number, SIG_DFL); /* somebody else's: it happens again, and ends the process */
}

/* Memory that ends where what the launch asked for ends; as much again behind it cannot be touched. */
static unsigned char *dynamic_memory(unsigned nbytes) {
    static unsigned char *room;
    size_t size = (OPTIN + 2 * PAGE) / PAGE * PAGE;
    if (!room) {
        room = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(room + size, size, PROT_NONE);
    }
    return room + size - (nbytes + 15) / 16 * 16;
}

int emulated_run(const Launch *wanted) {
    struct sigaction mine = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER}, before[3];
    const int signals[3] = {SIGSEGV, SIGBUS, SIGFPE};
    pthread_mutex_lock(&one_kernel);
    if (!stacks)
        stacks = mmap(NULL, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    launch = wanted;
    runner = pthread_self();
    place = (Place){.threads = {wanted->threads[0], wanted->threads[1], wanted->threads[2]},
                    .blocks = {wanted->grid[0], wanted->grid[1], wanted->grid[2]},
                    .shared = dynamic_memory(wanted->shared), .wait = wait_here, .lanes = lanes,
                    .warp = emulated_warp()};
    for (int i = 0; i < 3; i++) sigaction(signals[i], &mine, &before[i]);
    int result = BAD_ADDRESS;
    if (!sigsetjmp(fault, 1)) {
        in_kernel = 1;
        result = run_blocks();
    }
    in_kernel = 0;
    for (int i = 0; i < 3; i++) sigaction(signals[i], &before[i], NULL);
    pthread_mutex_unlock(&one_kernel);
    return result;
}
