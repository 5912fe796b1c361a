"""The driver's functions that are called, as C declares them, and what core calls them.

Types that are only passed on are void pointers. Versioned names (_v2) are those that cuda.h gives programs built today;
all are there from CUDA 12.0 on.
"""

DECLARATIONS = """
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream, *CUevent, *CUmodule, *CUfunction, *CUmemoryPool;
typedef void *CUgraph, *CUgraphNode, *CUgraphExec;

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int result, const char **text);
int cuGetErrorString(int result, const char **text);

int cuDeviceGetCount(int *count);
int cuDeviceGet(CUdevice *device, int ordinal);
int cuDeviceGetName(char *name, int size, CUdevice device);
int cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device);
int cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
int cuDevicePrimaryCtxRelease_v2(CUdevice device);
int cuCtxGetCurrent(CUcontext *context);
int cuCtxSetCurrent(CUcontext context);
int cuCtxPushCurrent_v2(CUcontext context);
int cuCtxPopCurrent_v2(CUcontext *context);
int cuCtxSynchronize(void);
int cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
int cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);

int cuMemAlloc_v2(CUdeviceptr *address, size_t nbytes);
int cuMemFree_v2(CUdeviceptr address);
int cuMemGetInfo_v2(size_t *free, size_t *total);
int cuMemAllocAsync(CUdeviceptr *address, size_t nbytes, CUstream stream);
int cuMemFreeAsync(CUdeviceptr address, CUstream stream);
int cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
int cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
int cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
typedef struct {
    int kind, number, allowed;
} PoolAccess;
int cuMemPoolSetAccess(CUmemoryPool pool, const PoolAccess *access, size_t count);
int cuMemPoolTrimTo(CUmemoryPool pool, size_t kept);
int cuMemHostAlloc(void **address, size_t nbytes, unsigned int flags);
int cuMemFreeHost(void *address);
int cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address);
int cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t nbytes, CUstream stream);
int cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t nbytes, CUstream stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t nbytes, CUstream stream);
int cuMemcpyPeerAsync(CUdeviceptr target, CUcontext here, CUdeviceptr source, CUcontext there, size_t nbytes,
                      CUstream stream);

int cuStreamCreate(CUstream *stream, unsigned int flags);
int cuStreamDestroy_v2(CUstream stream);
int cuStreamSynchronize(CUstream stream);
int cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
int cuEventCreate(CUevent *event, unsigned int flags);
int cuEventDestroy_v2(CUevent event);
int cuEventRecord(CUevent event, CUstream stream);
int cuEventQuery(CUevent event);
int cuEventSynchronize(CUevent event);
int cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

int cuModuleLoadData(CUmodule *module, const void *image);
int cuModuleUnload(CUmodule module);
int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
int cuFuncSetAttribute(CUfunction function, int attribute, int value);
int cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads_x,
                   unsigned int threads_y, unsigned int threads_z, unsigned int shared, CUstream stream,
                   void **arguments, void **extra);

typedef struct {
    CUfunction function;
    unsigned int x, y, z, threads_x, threads_y, threads_z, shared;
    void **arguments, **extra;
    void *kernel;
    CUcontext context;
} KernelNode;
typedef struct {
    size_t source_x, source_y, source_z, source_level;
    int source_type;
    const void *source_host;
    CUdeviceptr source_device;
    void *source_array, *reserved0;
    size_t source_pitch, source_height, target_x, target_y, target_z, target_level;
    int target_type;
    void *target_host;
    CUdeviceptr target_device;
    void *target_array, *reserved1;
    size_t target_pitch, target_height, width, height, depth;
} CopyNode;
int cuGraphCreate(CUgraph *graph, unsigned int flags);
int cuGraphDestroy(CUgraph graph);
int cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                            const KernelNode *kernel);
int cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CopyNode *copy,
                         CUcontext context);
int cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long flags);
int cuGraphExecDestroy(CUgraphExec made);
int cuGraphExecKernelNodeSetParams_v2(CUgraphExec made, CUgraphNode node, const KernelNode *kernel);
int cuGraphExecMemcpyNodeSetParams(CUgraphExec made, CUgraphNode node, const CopyNode *copy, CUcontext context);
int cuGraphNodeSetEnabled(CUgraphExec made, CUgraphNode node, unsigned int is_enabled);
int cuGraphLaunch(CUgraphExec made, CUstream stream);
"""

# given: what core calls the functions
NAMES = {
    "error_name": "cuGetErrorName", "error_text": "cuGetErrorString", "synchronize": "cuCtxSynchronize",
    "alloc": "cuMemAlloc_v2", "free": "cuMemFree_v2", "alloc_async": "cuMemAllocAsync", "free_async": "cuMemFreeAsync",
    "room": "cuMemGetInfo_v2", "alloc_host": "cuMemHostAlloc", "free_host": "cuMemFreeHost",
    "default_pool": "cuDeviceGetDefaultMemPool", "pool_set": "cuMemPoolSetAttribute",
    "pool_get": "cuMemPoolGetAttribute", "pool_access": "cuMemPoolSetAccess", "pool_trim": "cuMemPoolTrimTo",
    "about_address": "cuPointerGetAttribute", "can_reach": "cuDeviceCanAccessPeer", "reach": "cuCtxEnablePeerAccess",
    "copy_in": "cuMemcpyHtoDAsync_v2", "copy_out": "cuMemcpyDtoHAsync_v2", "copy": "cuMemcpyDtoDAsync_v2",
    "copy_peer": "cuMemcpyPeerAsync", "stream_new": "cuStreamCreate", "stream_free": "cuStreamDestroy_v2",
    "stream_wait": "cuStreamSynchronize", "stream_follow": "cuStreamWaitEvent", "event_new": "cuEventCreate",
    "event_free": "cuEventDestroy_v2", "event_record": "cuEventRecord", "event_query": "cuEventQuery",
    "event_wait": "cuEventSynchronize", "event_elapsed": "cuEventElapsedTime", "module_load": "cuModuleLoadData",
    "module_free": "cuModuleUnload", "module_function": "cuModuleGetFunction", "function_set": "cuFuncSetAttribute",
    "launch": "cuLaunchKernel", "graph_new": "cuGraphCreate", "graph_free": "cuGraphDestroy",
    "graph_add_kernel": "cuGraphAddKernelNode_v2", "graph_add_copy": "cuGraphAddMemcpyNode",
    "graph_make": "cuGraphInstantiateWithFlags", "graph_end": "cuGraphExecDestroy",
    "graph_set_kernel": "cuGraphExecKernelNodeSetParams_v2", "graph_set_copy": "cuGraphExecMemcpyNodeSetParams",
    "graph_enable": "cuGraphNodeSetEnabled", "graph_launch": "cuGraphLaunch",
}  # fmt: skip
# given: numbers of cuda.h
MAX_THREADS, GRID_X, GRID_Y, GRID_Z, L2_CACHE, MAJOR, MINOR, SHARED_OPTIN, POOLS = 1, 5, 6, 7, 38, 75, 76, 97, 115
IS_DEVICE = 2  # of a copy: memory of a device
POINTER_CONTEXT = 1

OUT_OF_MEMORY, NO_DEVICE, IN_USE = 2, 100, 46
# Results after which a context answers nothing but this result: what was computed is lost.
FAULTS = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999})
REFUSED_IMAGES = frozenset({200, 209, 222})
AT_EXIT = frozenset({4, 709})  # the driver is being unloaded, and everything with it
PASSED = FAULTS | AT_EXIT | {0}  # of a query: the work is over, or never will be
