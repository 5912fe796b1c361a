/* A driver for cards that are not there: devices and memory. Kernels are code for this processor (compiler.c).

   EMULATED_DEVICES (2), EMULATED_DRIVER (13000), EMULATED_CAPABILITY (80), EMULATED_MEMORY (MiB, 4096), EMULATED_TAKEN
   (1: another process has the cards) and EMULATED_POOLS (1) say what is there. Memory ends where 64 KiB cannot be
   touched, starts as NaN, and is gone when it is freed. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include "emulated.h"

enum { OF_HOST = 1, OF_CARD, OF_POOL, RELEASE_THRESHOLD = 4 };
#ifdef EMULATED_HIP
#define VISIBLE "HIP_VISIBLE_DEVICES"
enum { VERSION = 60442134 };
#else
#define VISIBLE "CUDA_VISIBLE_DEVICES"
enum { VERSION = 13000 };
unsigned emulated_warp(void) { return 32; }
#endif

enum { PAGE = 4096, GUARD = 64 << 10, ALIGNED = 256, MOST_COUNTS = 128 };
enum { THREADS = 1, SHARED = 8, GRID_X = 5, GRID_Y = 6, GRID_Z = 7, WARP = 10, UNITS = 16, L2 = 38, UNIFIED = 41, MAJOR = 75,
       MINOR = 76, SHARED_OPTIN = 97, POOLS = 115 };

typedef struct Block {
    struct Block *next;
    Address address;
    size_t nbytes, mapped;
    void *start;
    int device, kind; /* what emulated_kind_of says */
    Context *context; /* none of a pool's memory */
} Block;

pthread_mutex_t emulated_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t emulated_changed = PTHREAD_COND_INITIALIZER;
int emulated_is_started;

static int shown[MOST_DEVICES], shown_count, is_slice; /* the cards that the variable leaves, in its order */
static Block *blocks;
static size_t used[MOST_DEVICES];
static Address kept[MOST_DEVICES]; /* bytes of freed memory that each pool is to keep; 0 at first */
static struct { const char *what; long count; } counts[MOST_COUNTS];

int emulated_setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

/* How often something was done: for tests, which read it. */
void emulated_count(const char *what) {
    for (int i = 0; i < MOST_COUNTS; i++) {
        if (!counts[i].what) counts[i].what = what;
        if (!strcmp(counts[i].what, what)) {
            __atomic_add_fetch(&counts[i].count, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}
long emulated_counted(const char *what) {
    for (int i = 0; i < MOST_COUNTS && counts[i].what; i++)
        if (!strcmp(counts[i].what, what)) return counts[i].count;
    return 0;
}

/* Devices */

static void uuid_of(int device, unsigned char *uuid) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(0x10 * (device + 1) + i);
}
static int is_named(int device, const char *word) {
    char text[64], *end;
    unsigned char u[16];
    long number = strtol(word, &end, 10);
    if (end != word && !*end) return number == device;
    uuid_of(device, u);
    int n = snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-", u[0], u[1], u[2], u[3]);
    for (int i = 4; i < 16; i++) n += snprintf(text + n, sizeof text - n, i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
    return !strncasecmp(text, word, strlen(word)) || (is_slice && !strncasecmp(text + 4, word + 4, strlen(word + 4)));
}
static void look_at_variable(void) {
    int count = emulated_setting("EMULATED_DEVICES", 2);
    const char *visible = getenv(VISIBLE);
#ifdef EMULATED_HIP /* an empty one is as none, and CUDA's is read then */
    if (!visible || !*visible) visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible && !*visible) visible = NULL;
#endif
    shown_count = 0;
    if (count > MOST_DEVICES) {
        fprintf(stderr, "EMULATED_DEVICES=%d: there can be %d at most\n", count, MOST_DEVICES);
        abort();
    }
    if (!visible) {
        for (int i = 0; i < count; i++) shown[shown_count++] = i;
        return;
    }
    char words[256], *rest = words, *word;
    snprintf(words, sizeof words, "%s", visible);
    while ((word = strsep(&rest, ","))) {
        int i = 0;
        is_slice |= !strncmp(word, "MIG-", 4);
        while (i < count && !is_named(i, word)) i++;
        if (i == count || !*word) break; /* what comes after a wrong name is not shown either */
        shown[shown_count++] = i;
    }
}

int cuInit(unsigned flags) {
    (void)flags;
    look_at_variable();
    emulated_is_started = 1;
    return shown_count ? OK : NO_DEVICE;
}
int cuDriverGetVersion(int *version) {
    *version = emulated_setting("EMULATED_DRIVER", VERSION);
    return OK;
}
int emulated_card_count(void) { return shown_count; }
int cuDeviceGetCount(int *count) {
    *count = shown_count;
    return emulated_is_started ? OK : NOT_STARTED;
}
int cuDeviceGet(int *device, int ordinal) {
    if (ordinal < 0 || ordinal >= shown_count) return BAD_DEVICE;
    *device = ordinal;
    return OK;
}
int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, is_slice ? "Emulated GPU %d MIG 1g.5gb" : "Emulated GPU %d", shown[device]);
    return OK;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    uuid_of(shown[device], uuid);
    return OK;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }
int cuDeviceTotalMem_v2(size_t *nbytes, int device) {
    (void)device;
    *nbytes = (size_t)emulated_setting("EMULATED_MEMORY", 4096) << 20;
    return OK;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int capability = emulated_setting("EMULATED_CAPABILITY", 80);
    (void)device;
    switch (attribute) {
    case THREADS: *value = MOST_THREADS; break;
    case 2: case 3: *value = 1024; break;
    case 4: *value = 64; break;
    case GRID_X: *value = 0x7fffffff; break;
    case GRID_Y: case GRID_Z: *value = 65535; break;
    case SHARED: *value = DECLARED; break;
    case WARP: *value = 32; break;
    case UNITS: *value = 2; break;
    case L2: *value = 4 << 20; break;
    case UNIFIED: *value = 1; break;
    case MAJOR: *value = capability / 10; break;
    case MINOR: *value = capability % 10; break;
    case SHARED_OPTIN: *value = OPTIN; break;
    case POOLS: *value = emulated_setting("EMULATED_POOLS", 1); break;
    default: *value = 0;
    }
    return OK;
}
int cuDeviceComputeCapability(int *major, int *minor, int device) {
    cuDeviceGetAttribute(major, MAJOR, device);
    return cuDeviceGetAttribute(minor, MINOR, device);
}
int cuDeviceGetPCIBusId(char *text, int size, int device) {
    snprintf(text, size, "0000:%02x:00.0", device);
    return OK;
}
int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer;
    return OK;
}

/* Memory */

static int take(Address *address, size_t nbytes, Context *context, int kind) {
    int device = context->device, is_host = kind == OF_HOST;
    size_t limit = (size_t)emulated_setting("EMULATED_MEMORY", 4096) << 20, mapped = (nbytes + PAGE - 1) / PAGE * PAGE;
    if (!nbytes) return INVALID_VALUE;
    pthread_mutex_lock(&emulated_lock);
    char *start = MAP_FAILED;
    if (nbytes <= limit && (is_host || used[device] + nbytes <= limit))
        start = mmap(NULL, mapped + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Block *block = start == MAP_FAILED ? NULL : malloc(sizeof *block);
    if (block) {
        mprotect(start + mapped, GUARD, PROT_NONE);
        char *first = start + (mapped - nbytes) / ALIGNED * ALIGNED; /* so that little lies between its end and the page */
        if (nbytes <= (16 << 20)) memset(start, 0xff, mapped);
        *block = (Block){blocks, (Address)(uintptr_t)first, nbytes, mapped + GUARD, start, device, kind, context};
        blocks = block;
        *address = block->address;
        if (!is_host) used[device] += nbytes;
    }
    pthread_mutex_unlock(&emulated_lock);
    return block ? OK : NO_ROOM;
}
static Block *find(Address address, int whole) {
    for (Block *b = blocks; b; b = b->next)
        if (whole ? b->address == address : address >= b->address && address < b->address + b->nbytes) return b;
    return NULL;
}
static int give(Address address) {
    pthread_mutex_lock(&emulated_lock);
    Block *block = find(address, 1), **link = &blocks;
    if (block) {
        while (*link != block) link = &(*link)->next;
        *link = block->next;
        if (block->kind != OF_HOST) used[block->device] -= block->nbytes;
        munmap(block->start, block->mapped);
        free(block);
    }
    pthread_mutex_unlock(&emulated_lock);
    return block ? OK : INVALID_VALUE;
}
void emulated_release(Address address) { give(address); }
void emulated_free_all(Context *context) {
    for (Block *block = blocks, *next; block; block = next) {
        next = block->next;
        if (block->context == context) give(block->address);
    }
}
int emulated_kind_of(Address address) {
    pthread_mutex_lock(&emulated_lock);
    Block *block = find(address, 0);
    int kind = block ? block->kind : 0;
    pthread_mutex_unlock(&emulated_lock);
    return kind;
}

int cuMemAlloc_v2(Address *address, size_t nbytes) {
    Context *context;
    int result = emulated_usable(&context);
    emulated_count("alloc");
    return result ? result : take(address, nbytes, context, OF_CARD);
}
int cuMemFree_v2(Address address) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    emulated_wait_all(NULL);
    return give(address);
}
int cuMemAllocAsync(Address *address, size_t nbytes, void *stream) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    emulated_count("alloc");
    return emulated_stream(stream, context) ? take(address, nbytes, context, OF_POOL) : BAD_HANDLE;
}
static int run_free(Task *task) { return give(task->address); }
int cuMemFreeAsync(Address address, void *stream) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    if (!emulated_stream(stream, context)) return BAD_HANDLE;
    Task *task = emulated_task(run_free);
    task->address = address;
    emulated_give(emulated_stream(stream, context), task);
    return OK;
}
int cuDeviceGetDefaultMemPool(void **pool, int device) {
    *pool = &kept[device];
    return OK;
}
int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
    if (attribute == RELEASE_THRESHOLD) *(Address *)pool = *(Address *)value;
    return OK;
}
int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    if (attribute == RELEASE_THRESHOLD) *(Address *)value = *(Address *)pool;
    return OK;
}
int cuMemPoolSetAccess(void *pool, const int *access, size_t count) {
    (void)pool;
    emulated_count("pool access");
    return count == 1 && access[0] == 1 && access[1] < shown_count && access[2] == 3 ? OK : INVALID_VALUE;
}
int cuMemPoolTrimTo(void *pool, size_t kept) {
    (void)pool, (void)kept;
    emulated_count("trim");
    return OK;
}
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    cuDeviceTotalMem_v2(total, context->device);
    *left = *total - used[context->device];
    return OK;
}
int cuMemHostAlloc(void **address, size_t nbytes, unsigned flags) {
    Address found;
    Context *context;
    int result = emulated_usable(&context);
    (void)flags;
    if (!result) result = take(&found, nbytes, context, OF_HOST);
    if (!result) *address = (void *)(uintptr_t)found;
    return result;
}
int cuMemAllocHost_v2(void **address, size_t nbytes) { return cuMemHostAlloc(address, nbytes, 0); }
int cuMemFreeHost(void *address) { return give((Address)(uintptr_t)address); }
int cuMemHostGetDevicePointer_v2(Address *device, void *host, unsigned flags) {
    (void)flags;
    *device = (Address)(uintptr_t)host;
    return OK;
}
int cuMemGetAddressRange_v2(Address *base, size_t *size, Address address) {
    pthread_mutex_lock(&emulated_lock);
    Block *block = find(address, 0);
    if (block && base) *base = block->address;
    if (block && size) *size = block->nbytes;
    pthread_mutex_unlock(&emulated_lock);
    return block ? OK : NOT_FOUND;
}
int cuPointerGetAttribute(void *value, int attribute, Address address) {
    pthread_mutex_lock(&emulated_lock);
    Block *block = find(address, 0);
    int result = block ? OK : INVALID_VALUE;
    if (block && attribute == 1) *(Context **)value = block->kind == OF_POOL ? NULL : block->context;
    else if (block && attribute == 2) *(unsigned *)value = block->kind == OF_HOST ? 1 : 2;
    else if (block && attribute == 9) *(int *)value = block->device;
    else if (block) result = NOT_SUPPORTED;
    pthread_mutex_unlock(&emulated_lock);
    return result;
}

/* Errors */

#ifndef EMULATED_HIP
static const struct { int result; const char *name, *text; } results[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {NO_ROOM, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_STARTED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEVICE_IN_USE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {BAD_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {BAD_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {BAD_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {OTHER_IMAGE, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {BAD_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {BAD_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {PEER_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURING, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_ENDED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};
static int say(int result, const char **text, int is_name) {
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) {
            *text = is_name ? results[i].name : results[i].text;
            return OK;
        }
    *text = NULL;
    return INVALID_VALUE;
}
int cuGetErrorName(int result, const char **text) { return say(result, text, 1); }
int cuGetErrorString(int result, const char **text) { return say(result, text, 0); }
#endif
