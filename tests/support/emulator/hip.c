/* What HIP has otherwise than CUDA's driver: cards that are current by their number, their properties, copies of graphs,
   the words of results. EMULATED_ARCH (gfx942:sramecc+:xnack-) is what a card calls its code; of gfx9 a wave has 64
   threads, else 32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulated.h"

int cuDevicePrimaryCtxRetain(Context **context, int device);
int cuCtxGetCurrent(Context **context);
int cuCtxSetCurrent(Context *context);
int cuCtxEnablePeerAccess(Context *peer, unsigned flags);
int cuMemcpyPeerAsync(Address target, Context *here, Address source, Context *there, size_t n, void *s);
int cuGraphAddMemcpyNode(void **made, void *graph, void *const *after, size_t count, const CopyParams *params, Context *c);
int cuGraphExecMemcpyNodeSetParams(void *made, void *node, const CopyParams *params, Context *context);
int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device);

static const char *arch(void) {
    const char *text = getenv("EMULATED_ARCH");
    return text && *text ? text : "gfx942:sramecc+:xnack-";
}
unsigned emulated_warp(void) { return strncmp(arch(), "gfx9", 4) ? 32 : 64; }

/* Cards */

static Context *primary(int device) {
    static Context *opened[MOST_DEVICES];
    if (!opened[device]) cuDevicePrimaryCtxRetain(&opened[device], device);
    return opened[device];
}
int hipSetDevice(int device) {
    if (!emulated_is_started) return NOT_STARTED;
    if (device < 0 || device >= emulated_card_count()) return BAD_DEVICE;
    return cuCtxSetCurrent(primary(device));
}
int hipGetDevice(int *device) {
    Context *context;
    if (!emulated_is_started) return NOT_STARTED;
    cuCtxGetCurrent(&context);
    *device = context ? context->device : 0;
    return OK;
}
int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    if (peer < 0 || peer >= emulated_card_count()) return BAD_DEVICE;
    return cuCtxEnablePeerAccess(primary(peer), flags);
}
/* Where hipDeviceProp_tR0600 of hip_runtime_api.h (ROCm 6.0 and later) has what a plugin asks for. */
enum { UUID = 256, MEMORY = 288, SHARED = 296, WARP = 308, THREADS = 320, GRID = 336, L2 = 616, OPTIN_AT = 696, POOLS = 744,
       ARCH = 1160, PROPERTIES = 1472 };
static void put_int(char *at, int value) { memcpy(at, &value, sizeof value); }
static void put_size(char *at, size_t value) { memcpy(at, &value, sizeof value); }
int hipGetDevicePropertiesR0600(char *found, int device) {
    unsigned char uuid[16];
    char text[32];
    if (device < 0 || device >= emulated_card_count()) return BAD_DEVICE;
    memset(found, 0, PROPERTIES);
    cuDeviceGetName(found, 256, device);
    cuDeviceGetUuid_v2(uuid, device);
    for (int i = 0; i < 8; i++) snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    memcpy(found + UUID, text, 16); /* letters, as ROCm's tools show them behind GPU- */
    put_size(found + MEMORY, (size_t)emulated_setting("EMULATED_MEMORY", 4096) << 20);
    put_size(found + SHARED, DECLARED);
    put_size(found + OPTIN_AT, DECLARED);
    put_int(found + WARP, (int)emulated_warp());
    put_int(found + THREADS, MOST_THREADS);
    put_int(found + GRID, 0x7fffffff);
    put_int(found + GRID + 4, 65535);
    put_int(found + GRID + 8, 65535);
    put_int(found + L2, 4 << 20);
    put_int(found + POOLS, emulated_setting("EMULATED_POOLS", 1));
    strncpy(found + ARCH, arch(), 255);
    return OK;
}

/* Copies */

int hipMemcpyPeerAsync(Address target, int here, Address source, int there, size_t nbytes, void *stream) {
    if (here < 0 || there < 0 || here >= emulated_card_count() || there >= emulated_card_count()) return BAD_DEVICE;
    return cuMemcpyPeerAsync(target, primary(here), source, primary(there), nbytes, stream);
}
static int params_of(CopyParams *params, Address target, Address source, size_t nbytes, int kind) {
    if (kind != 3 || target == source) return INVALID_VALUE; /* within a card */
    *params = (CopyParams){.source_type = 2, .target_type = 2, .source_device = source, .target_device = target,
                           .width = nbytes, .height = 1, .depth = 1};
    return OK;
}
int hipGraphAddMemcpyNode1D(void **made, void *graph, void *const *after, size_t count, Address target, Address source,
                            size_t nbytes, int kind) {
    CopyParams params;
    int result = params_of(&params, target, source, nbytes, kind);
    return result ? result : cuGraphAddMemcpyNode(made, graph, after, count, &params, NULL);
}
int hipGraphExecMemcpyNodeSetParams1D(void *made, void *node, Address target, Address source, size_t nbytes, int kind) {
    CopyParams params;
    Context *context;
    int result = emulated_usable(&context);
    if (!result) result = params_of(&params, target, source, nbytes, kind);
    return result ? result : cuGraphExecMemcpyNodeSetParams(made, node, &params, NULL);
}

/* Errors */

static const struct { int result; const char *name, *text; } results[] = {
    {OK, "hipSuccess", "no error"},
    {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {NO_ROOM, "hipErrorOutOfMemory", "out of memory"},
    {NOT_STARTED, "hipErrorNotInitialized", "initialization error"},
    {NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {BAD_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {BAD_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {BAD_CONTEXT, "hipErrorInvalidContext", "invalid device context"},
    {OTHER_IMAGE, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {BAD_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {NOT_READY, "hipErrorNotReady", "device not ready"},
    {BAD_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {OUT_OF_RESOURCES, "hipErrorLaunchOutOfResources", "out of resources"},
    {PEER_ENABLED, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {LAUNCH_FAILED, "hipErrorLaunchFailure", "unspecified launch failure"},
    {NOT_SUPPORTED, "hipErrorNotSupported", "operation not supported"},
    {CAPTURING, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {CAPTURE_ENDED, "hipErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
};
static int say(int result, const char **text, int is_name) {
    *text = NULL;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) *text = is_name ? results[i].name : results[i].text;
    return *text ? OK : INVALID_VALUE;
}
int hipDrvGetErrorName(int result, const char **text) { return say(result, text, 1); }
int hipDrvGetErrorString(int result, const char **text) { return say(result, text, 0); }
