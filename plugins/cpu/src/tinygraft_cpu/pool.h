/* What the extension gives to Python: pool.c runs one kernel in parts, replay.c a list of them. */

#ifndef TINYGRAFT_POOL_H
#define TINYGRAFT_POOL_H

#include <stdint.h>

/* One launch of a captured list. A kernel takes its buffers and variables from the next places and names of the list. */
typedef struct {
    uintptr_t code;  /* of the kernel; 0 copies bytes from its second buffer to its first */
    long long bytes; /* to copy */
    int buffers;     /* how many it takes */
    int variables;
    int parts;
    int scratch; /* bytes of memory of its own that each part needs */
} tg_step;

/* A captured list: where everything is now (memory, values), and which of it each step takes (places, names). */
typedef struct {
    const tg_step *steps;
    int count;
    const uintptr_t *memory;
    const int *places;
    int all_places;       /* how many places all steps have together */
    uintptr_t *buffers;   /* room for one address per place */
    const long long *values;
    const int *names;
    int all_names;
    long long *variables; /* room for one value per name */
} tg_graph;

int tg_launch(uintptr_t code, uintptr_t *buffers, const long long *variables, int count, int parts, int scratch);
int tg_abi(void); /* counted up with each change of what is declared here */
int tg_workers(void);
int tg_replay(const tg_graph *graph, int next, long long nanoseconds);
uintptr_t tg_nothing(void);

#endif
