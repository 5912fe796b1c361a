"""HIP's functions that are called, as C declares them, and what core calls them.

Types that are only passed on are void pointers, and addresses of a card are numbers of as many bits. All of them are in
ROCm 6.0 and newer; the names of fields are those of core's nodes.
"""

DECLARATIONS = """
typedef unsigned long long Address;

int hipInit(unsigned int flags);
int hipRuntimeGetVersion(int *version);
int hipDrvGetErrorName(int result, const char **text);
int hipDrvGetErrorString(int result, const char **text);

int hipGetDeviceCount(int *count);
int hipGetDevicePropertiesR0600(void *properties, int device);
int hipSetDevice(int device);
int hipGetDevice(int *device);
int hipDeviceSynchronize(void);
int hipDeviceEnablePeerAccess(int peer, unsigned int flags);
int hipDeviceCanAccessPeer(int *can, int device, int peer);

int hipMalloc(Address *address, size_t nbytes);
int hipFree(Address address);
int hipMemGetInfo(size_t *free, size_t *total);
int hipMallocAsync(Address *address, size_t nbytes, void *stream);
int hipFreeAsync(Address address, void *stream);
int hipDeviceGetDefaultMemPool(void **pool, int device);
int hipMemPoolSetAttribute(void *pool, int attribute, void *value);
int hipMemPoolGetAttribute(void *pool, int attribute, void *value);
typedef struct {
    int kind, number, allowed;
} PoolAccess;
int hipMemPoolSetAccess(void *pool, const PoolAccess *access, size_t count);
int hipMemPoolTrimTo(void *pool, size_t kept);
int hipHostMalloc(void **address, size_t nbytes, unsigned int flags);
int hipHostFree(void *address);
int hipPointerGetAttribute(void *value, int attribute, Address address);
int hipMemcpyHtoDAsync(Address target, const void *source, size_t nbytes, void *stream);
int hipMemcpyDtoHAsync(void *target, Address source, size_t nbytes, void *stream);
int hipMemcpyDtoDAsync(Address target, Address source, size_t nbytes, void *stream);
int hipMemcpyPeerAsync(Address target, int here, Address source, int there, size_t nbytes, void *stream);

int hipStreamCreateWithFlags(void **stream, unsigned int flags);
int hipStreamDestroy(void *stream);
int hipStreamSynchronize(void *stream);
int hipStreamWaitEvent(void *stream, void *event, unsigned int flags);
int hipEventCreateWithFlags(void **event, unsigned int flags);
int hipEventDestroy(void *event);
int hipEventRecord(void *event, void *stream);
int hipEventQuery(void *event);
int hipEventSynchronize(void *event);
int hipEventElapsedTime(float *milliseconds, void *start, void *end);

int hipModuleLoadData(void **module, const void *image);
int hipModuleUnload(void *module);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads_x,
                          unsigned int threads_y, unsigned int threads_z, unsigned int shared, void *stream,
                          void **arguments, void **extra);

typedef struct {
    unsigned int threads_x, threads_y, threads_z;
    void **extra;
    void *function;
    unsigned int x, y, z;
    void **arguments;
    unsigned int shared;
} KernelNode;
int hipGraphCreate(void **graph, unsigned int flags);
int hipGraphDestroy(void *graph);
int hipGraphAddKernelNode(void **node, void *graph, void *const *after, size_t count, const KernelNode *kernel);
int hipGraphAddMemcpyNode1D(void **node, void *graph, void *const *after, size_t count, Address target, Address source,
                            size_t nbytes, int kind);
int hipGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags);
int hipGraphExecDestroy(void *made);
int hipGraphExecKernelNodeSetParams(void *made, void *node, const KernelNode *kernel);
int hipGraphExecMemcpyNodeSetParams1D(void *made, void *node, Address target, Address source, size_t nbytes, int kind);
int hipGraphNodeSetEnabled(void *made, void *node, unsigned int is_enabled);
int hipGraphLaunch(void *made, void *stream);
"""

# given: what core calls the functions
NAMES = {
    "error_name": "hipDrvGetErrorName", "error_text": "hipDrvGetErrorString", "synchronize": "hipDeviceSynchronize",
    "alloc": "hipMalloc", "free": "hipFree", "alloc_async": "hipMallocAsync", "free_async": "hipFreeAsync",
    "room": "hipMemGetInfo", "alloc_host": "hipHostMalloc", "free_host": "hipHostFree",
    "default_pool": "hipDeviceGetDefaultMemPool", "pool_set": "hipMemPoolSetAttribute",
    "pool_get": "hipMemPoolGetAttribute", "pool_access": "hipMemPoolSetAccess", "pool_trim": "hipMemPoolTrimTo",
    "about_address": "hipPointerGetAttribute", "can_reach": "hipDeviceCanAccessPeer",
    "reach": "hipDeviceEnablePeerAccess", "copy_in": "hipMemcpyHtoDAsync", "copy_out": "hipMemcpyDtoHAsync",
    "copy": "hipMemcpyDtoDAsync", "copy_peer": "hipMemcpyPeerAsync", "stream_new": "hipStreamCreateWithFlags",
    "stream_free": "hipStreamDestroy", "stream_wait": "hipStreamSynchronize", "stream_follow": "hipStreamWaitEvent",
    "event_new": "hipEventCreateWithFlags", "event_free": "hipEventDestroy", "event_record": "hipEventRecord",
    "event_query": "hipEventQuery", "event_wait": "hipEventSynchronize", "event_elapsed": "hipEventElapsedTime",
    "module_load": "hipModuleLoadData", "module_free": "hipModuleUnload", "module_function": "hipModuleGetFunction",
    "launch": "hipModuleLaunchKernel", "graph_new": "hipGraphCreate", "graph_free": "hipGraphDestroy",
    "graph_add_kernel": "hipGraphAddKernelNode", "graph_add_copy": "hipGraphAddMemcpyNode1D",
    "graph_make": "hipGraphInstantiateWithFlags", "graph_end": "hipGraphExecDestroy",
    "graph_set_kernel": "hipGraphExecKernelNodeSetParams", "graph_set_copy": "hipGraphExecMemcpyNodeSetParams1D",
    "graph_enable": "hipGraphNodeSetEnabled", "graph_launch": "hipGraphLaunch",
}  # fmt: skip
# given: where hipDeviceProp_tR0600 has what is read of it (hip_runtime_api.h of ROCm 6.0; newer ones keep it)
PROPERTIES = 4096  # bytes, of which the structure takes 1472
NAME, UUID, SHARED, WAVE, THREADS, GRID, L2_CACHE, POOLS, ARCH = 0, 256, 296, 308, 320, 336, 616, 744, 1160
TEXT, ID = 256, 16  # bytes of a name, and of a UUID

NO_ROOM, NO_DEVICE, BAD_DEVICE = 2, 100, 101
WITHIN = 3  # of a copy: from a card's memory to a card's
# Results after which a card answers nothing but this result: what was computed is lost.
FAULTS = frozenset({214, 700, 702, 710, 719, 999})
REFUSED_IMAGES = frozenset({98, 200, 209, 218})
PASSED = FAULTS | {0, 4, 709}  # of a query: the work is over, or never will be; 4 and 709: HIP is being unloaded
