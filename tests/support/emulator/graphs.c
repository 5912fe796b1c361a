/* Graphs of the emulated driver: launched as one piece of work, in which the nodes run in a shuffled order that their
   dependencies allow: one that is missing shows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "emulated.h"

enum { IS_KERNEL = 1, IS_COPY = 2 };

typedef struct Node {
    int kind, is_enabled, number;
    int *after, after_count; /* the numbers of the nodes that come before it */
    Launch launch;
    void *target;
    const void *source;
    size_t nbytes;
} Node;
typedef struct { Life life; Node **nodes; int count; } Graph;
typedef struct { Life life; Node *nodes; int count; } Made;

#ifdef EMULATED_HIP
typedef struct {
    unsigned threads[3];
    void **extra;
    Function *function;
    unsigned grid[3];
    void **arguments;
    unsigned shared;
} KernelParams;
#else
typedef struct {
    Function *function;
    unsigned grid[3], threads[3], shared;
    void **arguments, **extra;
    void *kernel;
    Context *context;
} KernelParams;
#endif

int cuGraphCreate(Graph **graph, unsigned flags) {
    Context *context;
    int result = emulated_usable(&context);
    (void)flags;
    if (result) return result;
    *graph = calloc(1, sizeof **graph);
    emulated_born(&(*graph)->life, GRAPH, context);
    return OK;
}
int cuGraphDestroy(Graph *graph) {
    if (!emulated_lives(graph, GRAPH)) return BAD_HANDLE;
    graph->life.kind = DESTROYED;
    for (int i = 0; i < graph->count; i++) graph->nodes[i]->kind = 0; /* cuda.h: updates need the nodes of the graph */
    emulated_count("source graph destroyed");
    return OK;
}
static int is_node(const Made *made, const Node *node, int kind) {
    return node->kind == kind && made->nodes[node->number].kind == kind;
}
static int set_kernel(Node *node, const KernelParams *p) {
    Launch launch = {.shared = p->shared};
    memcpy(launch.grid, p->grid, sizeof launch.grid);
    memcpy(launch.threads, p->threads, sizeof launch.threads);
    if (!emulated_lives(p->function->module, MODULE)) return BAD_HANDLE;
    int result = emulated_launch_of(&launch, p->function, p->arguments, p->extra);
    if (!result) result = emulated_check(&launch);
    if (!result) node->launch = launch;
    return result;
}
static int kind_of(const void *memory) { return emulated_kind_of((Address)(uintptr_t)memory); }
static int set_copy(Node *node, const CopyParams *p) {
    if (p->source_type != 2 || p->target_type != 2 || p->height != 1 || p->depth != 1 || !p->width) return INVALID_VALUE;
    node->target = (void *)(uintptr_t)p->target_device;
    node->source = (const void *)(uintptr_t)p->source_device;
    node->nbytes = p->width;
    return OK;
}
static int add(Node **made, Graph *graph, Node *const *after, size_t count, Node node) {
    if (!emulated_lives(graph, GRAPH)) return BAD_HANDLE;
    *made = malloc(sizeof node);
    node.is_enabled = 1;
    node.number = graph->count;
    node.after = calloc(count + 1, sizeof(int));
    node.after_count = (int)count;
    for (size_t i = 0; i < count; i++) {
        node.after[i] = after[i]->number;
        if (after[i]->number >= graph->count || graph->nodes[after[i]->number] != after[i]) return INVALID_VALUE;
    }
    **made = node;
    graph->nodes = realloc(graph->nodes, (graph->count + 1) * sizeof(Node *));
    graph->nodes[graph->count++] = *made;
    return OK;
}
int cuGraphAddKernelNode_v2(Node **made, Graph *graph, Node *const *after, size_t count, const KernelParams *params) {
    Node node = {.kind = IS_KERNEL};
    int result = set_kernel(&node, params);
    return result ? result : add(made, graph, after, count, node);
}
int cuGraphAddMemcpyNode(Node **made, Graph *graph, Node *const *after, size_t count, const CopyParams *params,
                         Context *context) {
    Node node = {.kind = IS_COPY};
    int result = set_copy(&node, params);
    (void)context;
    return result ? result : add(made, graph, after, count, node);
}
int cuGraphInstantiateWithFlags(Made **made, Graph *graph, unsigned long long flags) {
    Context *context;
    int result = emulated_usable(&context);
    (void)flags;
    if (result) return result;
    if (!emulated_lives(graph, GRAPH)) return BAD_HANDLE;
    *made = calloc(1, sizeof **made);
    emulated_born(&(*made)->life, EXECUTABLE, context);
    (*made)->nodes = calloc(graph->count + 1, sizeof(Node));
    (*made)->count = graph->count;
    for (int i = 0; i < graph->count; i++) (*made)->nodes[i] = *graph->nodes[i];
    emulated_count("graph");
    return OK;
}
int cuGraphExecDestroy(Made *made) {
    if (!emulated_lives(made, EXECUTABLE)) return BAD_HANDLE;
    made->life.kind = DESTROYED;
    free(made->nodes);
    emulated_count("graph destroyed");
    return OK;
}
static int is_usable(const Made *made, const char *function) {
    Context *context;
    int result = emulated_usable_for(&context, function);
    return result ? result : emulated_lives(made, EXECUTABLE) ? OK : BAD_HANDLE;
}
int cuGraphExecKernelNodeSetParams_v2(Made *made, Node *node, const KernelParams *params) {
    int result = is_usable(made, __func__);
    if (result) return result;
    Node *mine = &made->nodes[node->number];
    if (!is_node(made, node, IS_KERNEL) || mine->launch.function != params->function) return INVALID_VALUE;
    emulated_count("node update");
    return set_kernel(mine, params);
}
int cuGraphExecMemcpyNodeSetParams(Made *made, Node *node, const CopyParams *params, Context *context) {
    int result = is_usable(made, __func__);
    (void)context;
    if (result) return result;
    if (!is_node(made, node, IS_COPY)) return INVALID_VALUE;
    Node *mine = &made->nodes[node->number], changed = *mine;
    if ((result = set_copy(&changed, params))) return result;
    /* cuda.h: from the same contexts as the original; memory of a pool has none */
    if (kind_of(changed.target) != kind_of(mine->target) || kind_of(changed.source) != kind_of(mine->source))
        return INVALID_VALUE;
    emulated_count("node update");
    *mine = changed;
    return OK;
}
int cuGraphNodeSetEnabled(Made *made, Node *node, unsigned is_enabled) {
    int result = is_usable(made, __func__);
    if (result) return result;
    if (!node->kind) return INVALID_VALUE;
    made->nodes[node->number].is_enabled = (int)is_enabled;
    return OK;
}
static int run_node(const Node *node) {
    if (!node->is_enabled) return OK;
    if (node->kind == IS_KERNEL) return emulated_run(&node->launch);
    memmove(node->target, node->source, node->nbytes);
    return OK;
}
static int is_ready(const Node *node, const char *has_run) {
    for (int i = 0; i < node->after_count; i++)
        if (!has_run[node->after[i]]) return 0;
    return !has_run[node->number];
}
static int run_graph(Task *task) {
    static unsigned seed = 1;
    int result = OK, count = task->node_count;
    char *has_run = calloc(count + 1, 1);
    for (int left = count; left && !result; left--) {
        int number = rand_r(&seed) % count;
        while (!is_ready(&task->nodes[number], has_run)) number = (number + 1) % count;
        result = run_node(&task->nodes[number]);
        has_run[number] = 1;
    }
    free(has_run);
    free(task->nodes);
    return result;
}
int cuGraphLaunch(Made *made, void *handle) {
    Context *context;
    int result = emulated_usable(&context);
    if (result) return result;
    Stream *stream = emulated_stream(handle, context);
    if (!emulated_lives(made, EXECUTABLE) || !stream || stream->life.context != context) return BAD_HANDLE;
    if (made->life.context != context) return BAD_CONTEXT;
    for (int i = 0; i < made->count; i++)
        if (made->nodes[i].kind == IS_KERNEL && !emulated_lives(made->nodes[i].launch.function->module, MODULE))
            return BAD_HANDLE;
    Task *task = emulated_task(run_graph);
    task->node_count = made->count;
    task->nodes = malloc((made->count + 1) * sizeof(Node));
    memcpy(task->nodes, made->nodes, made->count * sizeof(Node));
    emulated_count("graph launch");
    emulated_give(stream, task);
    return OK;
}
