/* The emulator inside: devices, contexts, streams, events, kernels, and the lock that all of them share.
   The functions of the driver are in cards.c (devices, memory), contexts.c (contexts, handles, refusals), streams.c
   (work) and graphs.c. They have CUDA's names;
   for HIP (EMULATED_HIP) hip.h gives them others, and hip.c has those that differ in more. */
#pragma once
#include <pthread.h>
#include <stddef.h>
#include "place.h"

enum { OK = 0, INVALID_VALUE = 1, NO_ROOM = 2, NOT_STARTED = 3, DEVICE_IN_USE = 46, NO_DEVICE = 100, BAD_DEVICE = 101,
       BAD_IMAGE = 200, BAD_CONTEXT = 201, OTHER_IMAGE = 209, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
       BAD_ADDRESS = 700, OUT_OF_RESOURCES = 701, PEER_ENABLED = 704, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
       CAPTURING = 900, CAPTURE_ENDED = 901 };
enum { MOST_DEVICES = 8, MOST_WORDS = 160, MOST_THREADS = 1024 };
#ifdef EMULATED_HIP
enum { DECLARED = 64 << 10, OPTIN = 64 << 10, OF_A_CARD = 224 }; /* the machine that ELF files for a card name */
#else
enum { DECLARED = 48 << 10, OPTIN = 99 << 10, OF_A_CARD = 190 };
#endif
#define EMULATED_TEXT(name) #name
#define EMULATED_NAME(name) EMULATED_TEXT(name) /* as a program calls it: of HIP its name there */

typedef unsigned long long Address;

typedef struct {
    int device, retained, fault; /* fault: the result that everything gives from now on */
    int age;                     /* how often it has ended: what was made in it before that is no more */
    struct Stream *plain;        /* its default stream */
} Context;

/* What the driver knows a handle by, first in all that has one. It is never freed: a handle that was destroyed, or that
   lived in a context that has ended, is refused as long as the process lives. */
typedef enum { DESTROYED, STREAM, PLAIN_STREAM, EVENT, MODULE, GRAPH, EXECUTABLE } Kind;
typedef struct Life {
    Kind kind;
    int age;
    Context *context;
    struct Life *before;
} Life;

typedef struct {
    Life life;
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
    Life life;
    struct Stream *at; /* where it was recorded last, as work of this number; NULL: never */
    long position, recorded, passed;
    double time;
} Event;

typedef struct Stream {
    Life life;
    int is_blocking;    /* it and the default stream wait for each other */
    int is_captured, is_spoilt; /* another library captures it; something was called that ends the capture */
    long given, done;
    struct Task *first, *last;
    pthread_t thread;
    double busy; /* seconds of its work */
} Stream;

/* Work of a stream, once what it needs has passed. */
typedef struct { Stream *stream; long number; } Need;
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

/* A copy of a graph. */
typedef struct {
    size_t source_x, source_y, source_z, source_level;
    int source_type;
    const void *source_host;
    Address source_device;
    void *source_array, *reserved0;
    size_t source_pitch, source_height, target_x, target_y, target_z, target_level;
    int target_type;
    void *target_host;
    Address target_device;
    void *target_array, *reserved1;
    size_t target_pitch, target_height, width, height, depth;
} CopyParams;

extern pthread_mutex_t emulated_lock;
extern pthread_cond_t emulated_changed; /* something has passed, or was given */
extern int emulated_is_started;
int emulated_card_count(void);
unsigned emulated_warp(void);

Context *emulated_current(void);
/* The current context, or the result that says why the calling function is refused. */
#define emulated_usable(context) emulated_usable_for(context, __func__)
int emulated_usable_for(Context **context, const char *function);
void emulated_born(Life *life, Kind kind, Context *context);
int emulated_lives(const void *handle, Kind kind); /* whether it is one, and was neither destroyed nor lost its context */
int emulated_capture(void); /* whether a stream is captured; then the capture is spoilt */
void emulated_count(const char *what);
int emulated_run(const Launch *launch); /* a result; writes why to standard error */
void emulated_release(Address address);
int emulated_setting(const char *name, int otherwise);
Stream *emulated_stream(void *handle, Context *context); /* NULL: it is no more */
int emulated_kind_of(Address address); /* 0: no memory, 1: of the host, 2: of a card, 3: of a pool of a card */
void emulated_free_all(Context *context);
Task *emulated_task(int (*run)(Task *));
long emulated_give(Stream *stream, Task *task); /* its number on the stream */
void emulated_wait(Stream *stream);
void emulated_wait_all(Context *context);
double emulated_now(void);
int emulated_launch_of(Launch *launch, Function *function, void **arguments, void **extra);
int emulated_check(const Launch *launch);
