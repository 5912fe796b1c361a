/* The replay of a captured list of launches: one call runs all of them, or as many as fit into the given time. */

#include <time.h>

#include "pool.h"

#ifdef CLOCK_MONOTONIC_COARSE
#define CLOCK CLOCK_MONOTONIC_COARSE /* a tick of some milliseconds is fine enough, and reading it takes 5 ns */
#else
#define CLOCK CLOCK_MONOTONIC
#endif

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Run steps from number `next` on until the list or the time is over, at least one. Returns the number of the step that
   comes next. One thread at a time may replay a list, since the list has one array of buffers and one of variables. */
int tg_replay(const tg_graph *graph, int next, long long nanoseconds) {
    long long end = now() + nanoseconds;
    uintptr_t *buffers = graph->buffers;
    long long *variables = graph->variables;
    for (int i = 0; i < graph->all_places; i++) buffers[i] = graph->memory[graph->places[i]];
    for (int i = 0; i < graph->all_names; i++) variables[i] = graph->values[graph->names[i]];
    for (int i = 0; i < graph->count; i++) {
        const tg_step *step = &graph->steps[i];
        if (i >= next) {
            if (step->facts) tg_launch(step->code, buffers, step->facts, step->count, 1, 0);
            else if (step->code) tg_launch(step->code, buffers, variables, step->variables, step->parts, step->scratch);
            else if (step->bytes) tg_copy(buffers[0], buffers[1], step->bytes, step->parts);
            if (now() >= end && i + 1 < graph->count) return i + 1;
        }
        buffers += step->buffers;
        variables += step->variables;
    }
    return graph->count;
}

static void nothing(void **buffers, const long long *variables) { (void)buffers, (void)variables; }

/* The address of a kernel that does nothing, to measure what a launch costs. */
uintptr_t tg_nothing(void) { return (uintptr_t)nothing; }
