/* The emulator inside: devices, contexts, streams, events, kernels, and the lock that all of them share.
   The functions of the driver are in libcuda.c (devices, memory), streams.c (work) and graphs.c. */
#pragma once
#include <pthread.h>
#include <stddef.h>
#include "place.h"

enum { OK = 0, INVALID_VALUE = 1, NO_ROOM = 2, NOT_STARTED = 3, DEVICE_IN_USE = 46, NO_DEVICE = 100, BAD_DEVICE = 101,
       BAD_IMAGE = 200, BAD_CONTEXT = 201, OTHER_IMAGE = 209, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
       BAD_ADDRESS = 700, OUT_OF_RESOURCES = 701, PEER_ENABLED = 704, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801 };
enum { MOST_WORDS = 160, MOST_THREADS = 1024, DECLARED = 48 << 10, OPTIN = 99 << 10 };

typedef unsigned long long Address;

typedef struct {
    int device, retained, fault; /* fault: the result that everything gives from now on */
} Context;

typedef struct {
    int of_device;
    Context *context;
    void *library;
} Module;

typedef struct {
    Module *module;
    const char *name;
    void *code;
    void (*begin)(Place *, char **, char **);
    int count, waits, bound; /* arguments, whether there is a barrier, the most threads of a block */
    unsigned declared, most_shared;
} Function;

typedef struct {
    Function *function;
    unsigned grid[3], threads[3], shared;
    Address words[MOST_WORDS];
} Launch;

typedef struct {
    long recorded, passed;
    double time;
} Event;

typedef struct Stream {
    Context *context;
    int is_blocking; /* it and the default stream wait for each other */
    long given, done;
    struct Task *first, *last;
    pthread_t thread;
    double busy; /* seconds of its work */
} Stream;

/* Work of a stream, once what it needs has passed. */
typedef struct { Stream *stream; Event *event; long number; } Need;
typedef struct Task {
    struct Task *next;
    int (*run)(struct Task *); /* a result of the driver */
    Need *needs;
    int count;
    union {
        Launch *launches;
        struct { void *target; const void *source; size_t nbytes; } copy;
        struct { void *target; size_t count; unsigned value; int size; } fill;
        struct { Event *event; long number; Stream *stream; } record;
        Address address;
    };
    struct Node *nodes;
    int node_count;
} Task;

extern pthread_mutex_t emulated_lock;
extern pthread_cond_t emulated_changed; /* something has passed, or was given */
extern int emulated_is_started;

Context *emulated_current(void);
int emulated_usable(Context **context); /* the current context, or the result that says why there is none */
void emulated_count(const char *what);
int emulated_run(const Launch *launch); /* a result; writes why to standard error */
void emulated_release(Address address);
int emulated_setting(const char *name, int otherwise);
Stream *emulated_stream(void *handle, Context *context);
Task *emulated_task(int (*run)(Task *));
void emulated_give(Stream *stream, Task *task);
void emulated_wait(Stream *stream);
void emulated_wait_all(Context *context);
double emulated_now(void);
int emulated_launch_of(Launch *launch, Function *function, void **arguments, void **extra);
int emulated_check(const Launch *launch);
