/* What a kernel of the emulator and the scheduler that runs it know of each other.
   A kernel is C made of CUDA C or HIP C by compiler.c; the scheduler is fibers.c. */
#pragma once

typedef struct {
    unsigned x, y, z;
} Index;

/* Where a thread is; the scheduler changes it whenever another thread goes on. */
typedef struct {
    Index thread, block, threads, blocks;
    unsigned char *shared;     /* memory that the launch asked for */
    void (*wait)(int of_warp); /* until all threads of the block, or of the warp, are there */
    unsigned long long *lanes; /* a slot for each thread of a block, for exchanges in a warp */
    unsigned number, warp;     /* of the thread in its block; how many threads a warp (a wave) has */
} Place;
