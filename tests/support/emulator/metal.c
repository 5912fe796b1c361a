/* Metal's GPU on this processor: memory that ends at a page that cannot be touched, and launches by fibers.c.

   Subnormal numbers are taken for 0 while a kernel runs, as the GPU may, unless EMULATED_SUBNORMALS is 1. The rest of
   the emulated Metal is Python
   (pyobjc/Metal.py). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "emulated.h"

enum { PAGE = 4096, ALIGNED = 256, FLUSHED = 0x8040 };

int emulated_setting(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}
unsigned emulated_warp(void) { return 32; }

static size_t pages(size_t nbytes) { return (nbytes + ALIGNED + PAGE - 1) / PAGE * PAGE; }

/* Memory of NaN bytes; NULL where there is none. */
void *emulated_metal_alloc(size_t nbytes) {
    size_t size = pages(nbytes);
    char *room = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return NULL;
    mprotect(room + size, PAGE, PROT_NONE);
    if (size <= 1 << 20) memset(room, 0xff, size);
    return room + size - (nbytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}
void emulated_metal_free(void *memory, size_t nbytes) {
    size_t size = pages(nbytes);
    munmap((char *)memory + (nbytes + ALIGNED - 1) / ALIGNED * ALIGNED - size, size + PAGE);
}

/* Run a kernel, whose arguments are one array of pointers: a result of fibers.c, 0 where it ended as it should. */
int emulated_metal_run(const char *name, void *code, void (*begin)(Place *, char **, char **), int waits, void **arguments,
                       const unsigned *grid, const unsigned *threads) {
    Function function = {.name = name, .code = code, .begin = begin, .count = 1, .waits = waits};
    Launch launch = {.function = &function, .words = {(Address)arguments}};
    memcpy(launch.grid, grid, sizeof launch.grid);
    memcpy(launch.threads, threads, sizeof launch.threads);
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();
    if (!emulated_setting("EMULATED_SUBNORMALS", 0)) __builtin_ia32_ldmxcsr(before | FLUSHED);
#endif
    int result = emulated_run(&launch);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before);
#endif
    return result;
}
