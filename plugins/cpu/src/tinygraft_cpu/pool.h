/* The functions of the extension: pool.c runs one kernel in chunks ("parts" in names), replay.c a list of kernels,
   routines.c and ordering.c what has routines of its own, such as sort. */

#ifndef TINYGRAFT_POOL_H
#define TINYGRAFT_POOL_H

#include <stdint.h>

/* One launch of a captured list. A kernel has the next `buffers` of the list's places, and the next `variables` of its
   names. */
typedef struct {
    uintptr_t code;  /* of the kernel; 0 copies bytes from its second buffer to its first, in at most `parts` chunks */
    long long bytes; /* to copy */
    int buffers;     /* how many it takes */
    int variables;
    int parts;
    int scratch; /* bytes of scratch memory that each chunk needs */
    int count;   /* of facts */
    const long long *facts; /* of a routine, in place of variables; else 0 */
} tg_step;

/* A captured list: the addresses of buffers by place and the values of variables by name (memory, values), and the
   places and names of all steps, one step after another. */
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
void tg_copy(uintptr_t target, uintptr_t source, long long bytes, int parts); /* in at most `parts` chunks */
int tg_abi(void); /* increased with each change of what is declared here, and of what a routine is given */
int tg_workers(void);
int tg_replay(const tg_graph *graph, int next, long long nanoseconds);
uintptr_t tg_nothing(void);
uintptr_t tg_routine(const char *name);

#endif
