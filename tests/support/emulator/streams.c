/* Work of the emulated driver: streams that really run late, each in a thread of its own; events; copies; kernels.

   An idle stream begins what it is given up to EMULATED_LATE microseconds (60) after it was given, a blocking one five
   times as late, so that others overtake it; it takes host memory as it is then. The default stream and the blocking ones wait for each other, as the driver's legacy default stream does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "emulated.h"

enum { MOST_STREAMS = 4096 };
static Stream *streams[MOST_STREAMS];
static int stream_count;

double emulated_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void await(void) { pthread_cond_wait(&emulated_changed, &emulated_lock); }

/* Streams */

static int has_passed(const Need *need) { return need->stream->done >= need->number; }
static void *work(void *argument) {
    Stream *stream = argument;
    unsigned seed = (unsigned)(uintptr_t)stream;
    int late = emulated_setting("EMULATED_LATE", 60);
    pthread_mutex_lock(&emulated_lock);
    for (;;) {
        if (!stream->first) {
            while (!stream->first) await();
            pthread_mutex_unlock(&emulated_lock);
            if (late) usleep(stream->is_blocking ? 5 * late : rand_r(&seed) % late);
            pthread_mutex_lock(&emulated_lock);
        }
        Task *task = stream->first;
        for (int i = 0; i < task->count; i++)
            while (!has_passed(&task->needs[i])) await();
        int fault = stream->life.context->fault;
        pthread_mutex_unlock(&emulated_lock);
        double begun = emulated_now();
        if (!fault || task->run == NULL) fault = task->run ? task->run(task) : OK;
        stream->busy += emulated_now() - begun;
        pthread_mutex_lock(&emulated_lock);
        if (fault && !stream->life.context->fault) stream->life.context->fault = fault;
        stream->first = task->next;
        if (!stream->first) stream->last = NULL;
        stream->done++;
        free(task->needs);
        free(task);
        pthread_cond_broadcast(&emulated_changed);
    }
    return NULL;
}
static Stream *made(Context *context, Kind kind, int is_blocking) {
    Stream *stream = calloc(1, sizeof *stream);
    emulated_born(&stream->life, kind, context);
    stream->is_blocking = is_blocking;
    pthread_mutex_lock(&emulated_lock);
    streams[stream_count++] = stream;
    pthread_mutex_unlock(&emulated_lock);
    pthread_create(&stream->thread, NULL, work, stream);
    pthread_detach(stream->thread);
    return stream;
}
Stream *emulated_stream(void *handle, Context *context) {
    if ((uintptr_t)handle > 2) return emulated_lives(handle, STREAM) ? handle : NULL;
    if (!context->plain) context->plain = made(context, PLAIN_STREAM, 1);
    return context->plain;
}
Task *emulated_task(int (*run)(Task *)) {
    Task *task = calloc(1, sizeof *task);
    task->run = run;
    return task;
}
static void need(Task *task, Need what) {
    task->needs = realloc(task->needs, (task->count + 1) * sizeof(Need));
    task->needs[task->count++] = what;
}
long emulated_give(Stream *stream, Task *task) {
    pthread_mutex_lock(&emulated_lock);
    Stream *plain = stream->life.context->plain;
    for (int i = 0; i < stream_count; i++) {
        Stream *other = streams[i];
        int waits = stream == plain ? other->is_blocking : stream->is_blocking && other == plain;
        if (other != stream && other->life.context == stream->life.context && waits && other->done < other->given)
            need(task, (Need){other, other->given});
    }
    if (stream->last) stream->last->next = task;
    else stream->first = task;
    stream->last = task;
    long given = ++stream->given;
    pthread_cond_broadcast(&emulated_changed);
    pthread_mutex_unlock(&emulated_lock);
    return given;
}
void emulated_wait(Stream *stream) {
    pthread_mutex_lock(&emulated_lock);
    long until = stream->given;
    while (stream->done < until) await();
    pthread_mutex_unlock(&emulated_lock);
}
void emulated_wait_all(Context *context) {
    for (int i = 0; i < stream_count; i++)
        if (!context || streams[i]->life.context == context) emulated_wait(streams[i]);
}
int cuStreamCreate(Stream **stream, unsigned flags) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    if (stream_count == MOST_STREAMS) return NO_ROOM;
    *stream = made(context, STREAM, !(flags & 1));
    return OK;
}
int cuStreamDestroy_v2(Stream *stream) {
    if (!emulated_lives(stream, STREAM)) return BAD_HANDLE;
    emulated_wait(stream); /* its thread stays, with nothing to do */
    stream->life.kind = DESTROYED;
    return OK;
}
/* A stream that is used now, of the current context where it is launched on. */
static int found(Stream **stream, void *handle, Context *context, int is_own) {
    *stream = emulated_stream(handle, context);
    if (!*stream || (is_own && (*stream)->life.context != context)) return BAD_HANDLE;
    if (!(*stream)->is_captured) return OK;
    (*stream)->is_spoilt = 1; /* what is captured is not emulated, but that no work is to be mixed with it */
    return CAPTURING;
}
int cuStreamSynchronize(void *handle) {
    Context *context;
    Stream *stream;
    int result = emulated_usable(&context);
    if (!result) result = found(&stream, handle, context, 0);
    if (result) return result;
    emulated_wait(stream);
    return context->fault;
}
int cuStreamQuery(void *handle) {
    Context *context;
    Stream *stream;
    int result = emulated_usable(&context);
    if (!result) result = found(&stream, handle, context, 0);
    if (result) return result;
    return stream->done < stream->given ? NOT_READY : context->fault;
}
int cuStreamBeginCapture_v2(Stream *stream, int mode) {
    (void)mode;
    if (!emulated_lives(stream, STREAM) || stream->is_captured) return BAD_HANDLE;
    stream->is_captured = 1;
    stream->is_spoilt = 0;
    return OK;
}
int cuStreamEndCapture(Stream *stream, void **graph) {
    if (!emulated_lives(stream, STREAM) || !stream->is_captured) return BAD_HANDLE;
    stream->is_captured = 0;
    *graph = NULL;
    return stream->is_spoilt ? CAPTURE_ENDED : OK;
}
int emulated_capture(void) {
    int is_captured = 0;
    for (int i = 0; i < stream_count; i++)
        if (streams[i]->is_captured) is_captured = streams[i]->is_spoilt = 1;
    return is_captured;
}
int cuCtxSynchronize(void) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    emulated_wait_all(context);
    return context->fault;
}

/* Events */

static int run_record(Task *task) {
    pthread_mutex_lock(&emulated_lock);
    Event *event = task->record.event;
    if (event->passed < task->record.number) { /* not one that was recorded before the last that has passed */
        event->passed = task->record.number;
        event->time = task->record.stream->busy; /* the card's clock stands while the card is idle */
    }
    pthread_mutex_unlock(&emulated_lock);
    return OK;
}
int cuEventCreate(Event **event, unsigned flags) {
    Context *context;
    int result = emulated_usable(&context);
    (void)flags;
    if (result) return result;
    *event = calloc(1, sizeof **event);
    emulated_born(&(*event)->life, EVENT, context);
    emulated_count("event");
    return OK;
}
int cuEventDestroy_v2(Event *event) {
    if (!emulated_lives(event, EVENT)) return BAD_HANDLE;
    event->life.kind = DESTROYED; /* a stream may still have it */
    return OK;
}
int cuEventRecord(Event *event, void *handle) {
    Context *context;
    Stream *stream;
    int result = emulated_usable(&context);
    if (!result) result = found(&stream, handle, context, 0);
    if (result) return result;
    if (!emulated_lives(event, EVENT) || event->life.context != stream->life.context) return BAD_HANDLE;
    Task *task = emulated_task(run_record);
    task->record.event = event;
    task->record.stream = stream;
    pthread_mutex_lock(&emulated_lock);
    task->record.number = ++event->recorded;
    pthread_mutex_unlock(&emulated_lock);
    long position = emulated_give(stream, task);
    pthread_mutex_lock(&emulated_lock);
    event->at = stream;
    event->position = position;
    pthread_mutex_unlock(&emulated_lock);
    return OK;
}
/* A stream that has failed runs nothing more, so its events would never pass. */
static int state_of(Event *event, int fault) { return event->passed >= event->recorded ? OK : fault ? fault : NOT_READY; }
int cuEventQuery(Event *event) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    return emulated_lives(event, EVENT) ? state_of(event, context->fault) : BAD_HANDLE;
}
int cuEventSynchronize(Event *event) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    if (!emulated_lives(event, EVENT)) return BAD_HANDLE;
    pthread_mutex_lock(&emulated_lock);
    while ((result = state_of(event, context->fault)) == NOT_READY) await();
    pthread_mutex_unlock(&emulated_lock);
    return context->fault ? context->fault : result;
}
int cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    if (!emulated_lives(start, EVENT) || !emulated_lives(end, EVENT)) return BAD_HANDLE;
    if (!start->recorded || !end->recorded) return BAD_HANDLE;
    if (start->passed < start->recorded || end->passed < end->recorded) return NOT_READY;
    *milliseconds = (float)((end->time - start->time) * 1e3);
    return OK;
}
int cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) { return cuEventElapsedTime(milliseconds, start, end); }
int cuStreamWaitEvent(void *handle, Event *event, unsigned flags) {
    Context *context;
    Stream *stream;
    int result = emulated_usable(&context);
    (void)flags;
    if (!result) result = found(&stream, handle, context, 0);
    if (result) return result;
    if (!emulated_lives(event, EVENT)) return BAD_HANDLE;
    Task *task = emulated_task(NULL);
    pthread_mutex_lock(&emulated_lock);
    /* what the event stands for now: that it is recorded again changes nothing for this wait */
    if (event->at) need(task, (Need){event->at, event->position});
    pthread_mutex_unlock(&emulated_lock);
    emulated_give(stream, task);
    return OK;
}

/* Copies */

static int run_copy(Task *task) {
    memmove(task->copy.target, task->copy.source, task->copy.nbytes);
    return OK;
}
static int copy(Address target, Address source, size_t nbytes, void *handle, int waits) {
    Context *context;
    Stream *stream;
    int result = emulated_usable(&context);
    if (!result) result = found(&stream, handle, context, 0);
    if (result) return result;
    Task *task = emulated_task(run_copy);
    task->copy.target = (void *)(uintptr_t)target;
    task->copy.source = (const void *)(uintptr_t)source;
    task->copy.nbytes = nbytes;
    emulated_count("copy");
    emulated_give(stream, task);
    if (waits) emulated_wait(stream);
    return waits ? context->fault : OK;
}
#define AS(pointer) (Address)(uintptr_t)(pointer)
int cuMemcpyHtoDAsync_v2(Address target, const void *source, size_t n, void *s) { return copy(target, AS(source), n, s, 0); }
int cuMemcpyDtoHAsync_v2(void *target, Address source, size_t n, void *s) { return copy(AS(target), source, n, s, 0); }
int cuMemcpyDtoDAsync_v2(Address target, Address source, size_t n, void *s) { return copy(target, source, n, s, 0); }
int cuMemcpyHtoD_v2(Address target, const void *source, size_t n) { return copy(target, AS(source), n, NULL, 1); }
int cuMemcpyDtoH_v2(void *target, Address source, size_t n) { return copy(AS(target), source, n, NULL, 1); }
int cuMemcpyDtoD_v2(Address target, Address source, size_t n) { return copy(target, source, n, NULL, 1); }
int cuMemcpyPeerAsync(Address target, Context *here, Address source, Context *there, size_t n, void *s) {
    (void)here, (void)there;
    emulated_count("peer copy");
    return copy(target, source, n, s, 0);
}

/* Kernels */

int cuModuleLoadData(Module **module, const void *image) {
    const Elf64_Ehdr *head = image;
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG)) return BAD_IMAGE;
    if (head->e_machine == OF_A_CARD || head->e_type != ET_DYN) return OTHER_IMAGE; /* for a card that is there */
    size_t size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    char path[] = "/tmp/emulated-kernel-XXXXXX"; /* the loader tells libraries apart by their names */
    int file = mkstemp(path);
    void *library = write(file, image, size) == (ssize_t)size ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    close(file);
    unlink(path);
    if (!library) return BAD_IMAGE;
    *module = calloc(1, sizeof **module);
    emulated_born(&(*module)->life, MODULE, context);
    (*module)->library = library;
    emulated_count("module");
    return OK;
}
int cuModuleLoadDataEx(Module **module, const void *image, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}
int cuModuleUnload(Module *module) {
    if (!emulated_lives(module, MODULE)) return BAD_HANDLE;
    emulated_wait_all(module->life.context);
    module->life.kind = DESTROYED;
    dlclose(module->library);
    emulated_count("unload");
    return OK;
}
static void *symbol(Module *module, const char *prefix, const char *name) {
    char text[512];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    return dlsym(module->library, text);
}
int cuModuleGetFunction(Function **function, Module *module, const char *name) {
    char *first, *last;
    Place nowhere = {0};
    if (!emulated_lives(module, MODULE)) return BAD_HANDLE;
    int *facts = symbol(module, "emulated_facts_", name);
    if (!facts) return NOT_FOUND;
    *function = calloc(1, sizeof **function);
    **function = (Function){module, strdup(name), symbol(module, "", name), dlsym(module->library, "emulated_begin"),
                            facts[0], facts[1], facts[2], 0, 0};
    (*function)->begin(&nowhere, &first, &last);
    (*function)->declared = (unsigned)(last - first);
    (*function)->most_shared = DECLARED;
    return (*function)->declared > DECLARED ? BAD_IMAGE : OK;
}
int cuFuncSetAttribute(Function *function, int attribute, int value) {
    if (!emulated_lives(function->module, MODULE)) return BAD_HANDLE;
    if (attribute != 8) return OK;
    if (value < 0 || value + function->declared > OPTIN) return INVALID_VALUE;
    function->most_shared = value;
    return OK;
}
int cuFuncGetAttribute(int *value, int attribute, Function *function) {
    if (!emulated_lives(function->module, MODULE)) return BAD_HANDLE;
    *value = attribute == 0 ? function->bound : attribute == 1 ? (int)function->declared : 0;
    return OK;
}
int emulated_check(const Launch *l) {
    Address threads = (Address)l->threads[0] * l->threads[1] * l->threads[2];
    if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !threads || threads > MOST_THREADS) return INVALID_VALUE;
    if (l->grid[0] > 0x7fffffffu || l->grid[1] > 65535 || l->grid[2] > 65535) return INVALID_VALUE;
#ifdef EMULATED_HIP
    for (int i = 0; i < 3; i++) /* the hardware counts threads, and not blocks */
        if ((Address)l->grid[i] * l->threads[i] > 0xffffffffu) return INVALID_VALUE;
#endif
    if (l->shared && l->shared + (l->shared > DECLARED ? 0 : l->function->declared) > l->function->most_shared) return INVALID_VALUE;
    return l->function->bound && threads > (Address)l->function->bound ? OUT_OF_RESOURCES : OK;
}
/* The arguments of a launch: pointers to them, or one buffer with all of them. */
int emulated_launch_of(Launch *launch, Function *function, void **arguments, void **extra) {
    launch->function = function;
    if (arguments) {
        for (int i = 0; i < function->count; i++) launch->words[i] = *(Address *)arguments[i];
        return OK;
    }
    const Address *buffer = NULL;
    size_t size = 0;
    for (int i = 0; extra && extra[i]; i += 2) {
        if (extra[i] == (void *)1) buffer = extra[i + 1];
        else if (extra[i] == (void *)2) size = *(size_t *)extra[i + 1];
    }
    if (size < function->count * sizeof(Address)) return INVALID_VALUE;
    if (size) memcpy(launch->words, buffer, function->count * sizeof(Address));
    return OK;
}
static int run_kernel(Task *task) {
    int result = emulated_run(task->launches);
    free(task->launches);
    return result;
}
int cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                   unsigned threads_z, unsigned shared, void *handle, void **arguments, void **extra) {
    Context *context;
    Stream *stream;
    int result = emulated_usable(&context);
    if (!result) result = found(&stream, handle, context, 1);
    if (result) return result;
    if (!emulated_lives(function->module, MODULE)) return BAD_HANDLE;
    if (function->module->life.context != context) return BAD_CONTEXT;
    Launch *launch = calloc(1, sizeof *launch);
    *launch = (Launch){.grid = {x, y, z}, .threads = {threads_x, threads_y, threads_z}, .shared = shared};
    if ((result = emulated_launch_of(launch, function, arguments, extra)) || (result = emulated_check(launch))) {
        free(launch);
        return result;
    }
    emulated_count("launch");
    Task *task = emulated_task(run_kernel);
    task->launches = launch;
    emulated_give(stream, task);
    return OK;
}
