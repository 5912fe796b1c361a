/* Contexts of the emulated driver, the primary ones of its cards and others; the handles that live in them; and what it
   refuses: a handle that is destroyed, calls that a capture forbids, calls that a test wants refused. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "emulated.h"

enum { MOST_REFUSALS = 32 };

static Context contexts[MOST_DEVICES];
static __thread Context *current[16];
static __thread int depth;
static Life *lives; /* the last one that was born */
static struct { char function[64]; int before, count, result; } refusals[MOST_REFUSALS];

/* Handles */

void emulated_born(Life *life, Kind kind, Context *context) {
    pthread_mutex_lock(&emulated_lock);
    *life = (Life){kind, context->age, context, lives};
    lives = life;
    pthread_mutex_unlock(&emulated_lock);
}
int emulated_lives(const void *handle, Kind kind) {
    const Life *life = handle;
    return life && life->kind == kind && life->age == life->context->age;
}
/* How many there are of a kind: for tests, which read it. */
long emulated_living(const char *what) {
    static const char *const names[] = {"", "stream", "", "event", "module", "graph", "executable"};
    long count = 0;
    pthread_mutex_lock(&emulated_lock);
    for (const Life *life = lives; life; life = life->before)
        count += emulated_lives(life, life->kind) && !strcmp(names[life->kind], what);
    pthread_mutex_unlock(&emulated_lock);
    return count;
}

/* Refusals */

/* Let a function give a result: the first calls from now on as ever, then so many that are refused. */
void emulated_refuse(const char *function, int before, int count, int result) {
    int i = 0;
    while (i < MOST_REFUSALS - 1 && refusals[i].function[0] && strcmp(refusals[i].function, function)) i++;
    strncpy(refusals[i].function, function, sizeof refusals[i].function - 1);
    refusals[i].before = before, refusals[i].count = count, refusals[i].result = result;
}
static int refusal(const char *function) {
    for (int i = 0; i < MOST_REFUSALS && refusals[i].function[0]; i++) {
        if (strcmp(refusals[i].function, function) || !refusals[i].count) continue;
        if (refusals[i].before-- > 0) return OK;
        refusals[i].before = 0;
        refusals[i].count--;
        emulated_count(refusals[i].function);
        return refusals[i].result;
    }
    return OK;
}
/* What the driver calls unsafe while any stream is captured, in whichever thread: that is the mode of a capture that
   names none. Memory of a pool is work of a stream, and is not among it. */
static int is_unsafe(const char *function) {
    static const char *const names[] = {EMULATED_NAME(cuMemAlloc_v2), EMULATED_NAME(cuMemFree_v2),
                                        EMULATED_NAME(cuMemHostAlloc), EMULATED_NAME(cuEventQuery),
                                        EMULATED_NAME(cuStreamQuery), EMULATED_NAME(cuCtxSynchronize),
                                        EMULATED_NAME(cuModuleLoadData)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(function, names[i])) return 1;
    return 0;
}
int emulated_usable_for(Context **context, const char *function) {
    *context = emulated_current();
    if (!emulated_is_started) return NOT_STARTED;
    if (!*context || !(*context)->retained) return BAD_CONTEXT;
    if ((*context)->fault) return (*context)->fault;
    if (is_unsafe(function) && emulated_capture()) return CAPTURING;
    return refusal(function);
}

/* Contexts */

#ifdef EMULATED_HIP
static int shown_first(void) {
    if (!emulated_is_started || !emulated_card_count()) return 0;
    contexts[0].retained = 1;
    return 1;
}
#endif

static void end(Context *context) {
    emulated_wait_all(context);
    context->age++; /* with all that lives in it */
    context->plain = NULL;
    emulated_free_all(context);
}
int cuDevicePrimaryCtxRetain(Context **context, int device) {
    if (emulated_setting("EMULATED_TAKEN", 0)) return DEVICE_IN_USE;
    if (device < 0 || device >= emulated_card_count()) return BAD_DEVICE;
    pthread_mutex_lock(&emulated_lock);
    *context = &contexts[device];
    (*context)->device = device;
    (*context)->retained++;
    pthread_mutex_unlock(&emulated_lock);
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    Context *context = &contexts[device];
    if (context->retained <= 0) return BAD_CONTEXT;
    if (context->retained == 1) end(context);
    context->retained--;
    return OK;
}
int cuCtxCreate_v2(Context **context, unsigned flags, int device) {
    (void)flags;
    if (device < 0 || device >= emulated_card_count()) return BAD_DEVICE;
    *context = calloc(1, sizeof **context);
    (*context)->device = device;
    (*context)->retained = 1;
    current[++depth] = *context;
    return OK;
}
int cuCtxDestroy_v2(Context *context) {
    if (!context || !context->retained) return BAD_CONTEXT;
    end(context);
    context->retained = 0;
    if (emulated_current() == context && depth) current[depth--] = NULL;
    return OK;
}
#ifdef EMULATED_HIP
Context *emulated_current(void) { /* every thread begins with the first card */
    if (!depth && !current[0] && shown_first()) current[0] = &contexts[0];
    return current[depth];
}
#else
Context *emulated_current(void) { return depth ? current[depth] : current[0]; }
#endif
int cuCtxGetCurrent(Context **context) {
    *context = emulated_current();
    return OK;
}
int cuCtxSetCurrent(Context *context) {
    current[depth] = context;
    return OK;
}
int cuCtxPushCurrent_v2(Context *context) {
    if (!context || !context->retained) return BAD_CONTEXT;
    current[++depth] = context;
    return OK;
}
int cuCtxPopCurrent_v2(Context **context) {
    if (context) *context = emulated_current();
    if (depth) current[depth--] = NULL;
    else current[0] = NULL;
    return OK;
}
int cuCtxGetDevice(int *device) {
    Context *context;
    int result = emulated_usable(&context);
    if (context) *device = context->device;
    return result;
}
int cuCtxDetach(Context *context) { return context->retained > 0 ? OK : BAD_CONTEXT; } /* pycuda's, when it ends */
int cuCtxGetApiVersion(Context *context, unsigned *version) {
    (void)context;
    *version = 3020;
    return OK;
}
int cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
    static int is_enabled[MOST_DEVICES][MOST_DEVICES];
    Context *context;
    int result = emulated_usable(&context);
    (void)flags;
    if (result) return result;
    if (is_enabled[context->device][peer->device]++) return PEER_ENABLED;
    return OK;
}
