#define _GNU_SOURCE
#include "graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "function_table.h"
#include "runtime.h"

enum { MAX_GRAPHS = 512, MAX_NODES = 8192, MAX_DEPENDENCIES = 256 };

// hipGraphNodeType.
enum node_type { NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET, NODE_EMPTY = 5 };

// hipKernelNodeParams.
struct kernel_params {
    uint32_t block[3];
    void** extra;
    void* function;
    uint32_t grid[3];
    void** params;
    uint32_t dynamic_lds_bytes;
};
_Static_assert(sizeof(struct kernel_params) == 64, "hipKernelNodeParams");

struct node {
    void* handle;
    int type;
    bool is_on;            // as the program has it
    struct launch launch;  // of a kernel node, but for its arguments
};

static struct known_graph {
    const struct hip_table* table;
    void *exec, *graph;
    struct node* nodes;  // in an order that the edges allow
    size_t node_count;
    bool is_changed;    // the executable graph has parameters of its own
    bool is_put_off;    // the program has destroyed the graph
    bool is_gone;       // destroyed: its nodes cannot be asked any more
    bool is_divisible;  // all nodes can be switched
} g_graphs[MAX_GRAPHS];

// Where the search for a wanted node starts: behind the last one taken, of whichever graph, since
// programs make the same graph again and again.
static size_t g_next;

static pthread_mutex_t g_graph_lock = PTHREAD_MUTEX_INITIALIZER;

#define CALL(table, slot, type, ...) ((type)hip_slot_get(table, slot))(__VA_ARGS__)

static bool has(const struct hip_table* table, enum hip_slot slot) {
    return slot < table->count && hip_slot_get(table, slot) != NULL;
}

static struct known_graph* find_exec(const void* exec) {
    for (int i = 0; i < MAX_GRAPHS; ++i) {
        if (g_graphs[i].exec == exec && exec != NULL) {
            return &g_graphs[i];
        }
    }
    return NULL;
}

static bool get_kernel(const struct hip_table* table, void* node, struct kernel_params* params) {
    memset(params, 0, sizeof *params);
    return CALL(table, HIP_SLOT_GRAPH_KERNEL_NODE_GET_PARAMS,
                int (*)(void*, struct kernel_params*), node, params) == HIP_SUCCESS &&
           params->function != NULL;
}

static bool fill_launch(const struct hip_table* table, void* node, struct launch* launch) {
    struct kernel_params params;
    if (!get_kernel(table, node, &params)) {
        return false;
    }
    *launch = (struct launch){
        .table = table,
        .slot = HIP_SLOT_GRAPH_LAUNCH,
        .function = params.function,
        .grid = {params.grid[0], params.grid[1], params.grid[2]},
        .block = {params.block[0], params.block[1], params.block[2]},
        .dynamic_lds_bytes = params.dynamic_lds_bytes,
        .params = params.params,
        .extra = params.extra,
        .is_host_symbol = runtime_symbol_function(table, params.function) != NULL,
    };
    return true;
}

// Whether all that the node depends on stands in the first `placed` places.
static bool is_ready(const struct hip_table* table, const struct node* nodes, size_t placed,
                     void* node) {
    void* dependencies[MAX_DEPENDENCIES];
    size_t count = MAX_DEPENDENCIES;
    if (CALL(table, HIP_SLOT_GRAPH_NODE_GET_DEPENDENCIES, int (*)(void*, void**, size_t*), node,
             NULL, &count) != HIP_SUCCESS ||
        count > MAX_DEPENDENCIES ||
        (count != 0 && CALL(table, HIP_SLOT_GRAPH_NODE_GET_DEPENDENCIES,
                            int (*)(void*, void**, size_t*), node, dependencies,
                            &count) != HIP_SUCCESS)) {
        return false;
    }
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) {
        // Most edges lead to the node just placed.
        for (size_t j = placed; j > 0; --j) {
            if (nodes[j - 1].handle == dependencies[i]) {
                ++found;
                break;
            }
        }
    }
    return found == count;
}

// Brings the nodes into an order that their edges allow; false where that fails.
static bool sort_nodes(const struct hip_table* table, struct node* nodes, size_t count) {
    for (size_t placed = 0; placed < count; ++placed) {
        size_t next = placed;
        while (next < count && !is_ready(table, nodes, placed, nodes[next].handle)) {
            ++next;
        }
        if (next == count) {
            return false;
        }
        const struct node moved = nodes[next];
        memmove(&nodes[placed + 1], &nodes[placed], (next - placed) * sizeof moved);
        nodes[placed] = moved;
    }
    return true;
}

static void read_nodes(struct known_graph* known) {
    static void* handles[MAX_NODES];
    const struct hip_table* table = known->table;
    size_t count = MAX_NODES;
    if (!has(table, HIP_SLOT_GRAPH_GET_NODES) || !has(table, HIP_SLOT_GRAPH_NODE_GET_TYPE) ||
        !has(table, HIP_SLOT_GRAPH_KERNEL_NODE_GET_PARAMS) ||
        !has(table, HIP_SLOT_GRAPH_NODE_GET_DEPENDENCIES) ||
        CALL(table, HIP_SLOT_GRAPH_GET_NODES, int (*)(void*, void**, size_t*), known->graph,
             handles, &count) != HIP_SUCCESS ||
        count > MAX_NODES) {
        return;
    }
    known->nodes = calloc(count + 1, sizeof *known->nodes);
    known->is_divisible =
        known->nodes != NULL && has(table, HIP_SLOT_GRAPH_NODE_SET_ENABLED) &&
        has(table, HIP_SLOT_GRAPH_NODE_GET_ENABLED);
    for (size_t i = 0; known->nodes != NULL && i < count; ++i) {
        struct node* node = &known->nodes[known->node_count++];
        node->handle = handles[i];
        if (CALL(table, HIP_SLOT_GRAPH_NODE_GET_TYPE, int (*)(void*, int*), handles[i],
                 &node->type) != HIP_SUCCESS ||
            (node->type == NODE_KERNEL && !fill_launch(table, handles[i], &node->launch))) {
            node->type = -1;
        }
        known->is_divisible &= node->type == NODE_KERNEL || node->type == NODE_MEMCPY ||
                               node->type == NODE_MEMSET || node->type == NODE_EMPTY;
    }
    known->is_divisible =
        known->is_divisible && sort_nodes(table, known->nodes, known->node_count);
    int kernels = 0;
    for (size_t i = 0; i < known->node_count; ++i) {
        known->nodes[i].launch.graph_node = known->nodes[i].type == NODE_KERNEL ? ++kernels : 0;
    }
}

static void forget(struct known_graph* known) {
    const struct known_graph old = *known;
    memset(known, 0, sizeof *known);
    free(old.nodes);
    if (old.is_put_off) {
        // Through the slot: by then it is the program's again, or our hook passes it on.
        CALL(old.table, HIP_SLOT_GRAPH_DESTROY, int (*)(void*), old.graph);
    }
}

void graph_note(const struct hip_table* table, void* exec, void* graph) {
    struct capture_control* control = atomic_load(&g_control);
    struct runtime_scope scope;
    if (exec == NULL || control == NULL || control_state_of(control) == STATE_CLOSED ||
        !runtime_enter(table, &scope)) {
        return;
    }
    pthread_mutex_lock(&g_graph_lock);
    for (int i = 0; i < MAX_GRAPHS; ++i) {
        if (g_graphs[i].exec == NULL) {
            g_graphs[i] = (struct known_graph){.table = table, .exec = exec, .graph = graph};
            read_nodes(&g_graphs[i]);
            break;
        }
    }
    pthread_mutex_unlock(&g_graph_lock);
    runtime_leave(table, &scope);
}

void graph_note_change(void* exec) {
    pthread_mutex_lock(&g_graph_lock);
    struct known_graph* known = find_exec(exec);
    if (known != NULL) {
        known->is_changed = true;
    }
    pthread_mutex_unlock(&g_graph_lock);
}

// The lock is not held over the call of the runtime: it would come back through our hook.
static bool take(const void* exec, struct known_graph* taken) {
    pthread_mutex_lock(&g_graph_lock);
    struct known_graph* known = find_exec(exec);
    if (known != NULL) {
        *taken = *known;
        memset(known, 0, sizeof *known);
    }
    pthread_mutex_unlock(&g_graph_lock);
    return known != NULL;
}

void graph_forget(void* exec) {
    struct known_graph known;
    if (take(exec, &known)) {
        forget(&known);
    }
}

int graph_destroy(void* graph, graph_destroy_function original) {
    const struct capture_control* control = atomic_load(&g_control);
    const bool is_needed = control != NULL && control->takes_graphs &&
                           control_state_of(control) != STATE_CLOSED;
    bool is_put_off = false;
    pthread_mutex_lock(&g_graph_lock);
    for (int i = 0; i < MAX_GRAPHS; ++i) {
        struct known_graph* known = &g_graphs[i];
        if (known->exec != NULL && known->graph == graph && !known->is_gone) {
            is_put_off |= known->is_put_off = is_needed && known->is_divisible && !is_put_off;
            known->is_gone = !is_needed;
        }
    }
    pthread_mutex_unlock(&g_graph_lock);
    return is_put_off ? HIP_SUCCESS : original(graph);
}

void graph_close(void) {
    for (int i = 0; i < MAX_GRAPHS; ++i) {
        struct known_graph known;
        pthread_mutex_lock(&g_graph_lock);
        known = g_graphs[i];
        memset(&g_graphs[i], 0, sizeof known);
        pthread_mutex_unlock(&g_graph_lock);
        if (known.exec != NULL) {
            forget(&known);
        }
    }
}

void graph_drop(void) {
    pthread_mutex_init(&g_graph_lock, NULL);
    memset(g_graphs, 0, sizeof g_graphs);
}

static void count_nodes(struct capture_control* control, const struct known_graph* known) {
    for (size_t i = 0; i < known->node_count; ++i) {
        enum verdict verdict;
        if (known->nodes[i].type != NODE_KERNEL) {
            continue;
        }
        const int index = launch_find_function(control, &known->nodes[i].launch, &verdict);
        if (index >= 0) {
            const uint64_t at = control->functions[index].statistics % MAX_NAMES;
            __atomic_fetch_add(&control->statistics[at].graph_launches, 1, __ATOMIC_RELAXED);
        }
    }
}

static bool set_enabled(const struct known_graph* known, size_t from, size_t to, bool is_on) {
    bool is_done = true;
    for (size_t i = from; i < to; ++i) {
        if (known->nodes[i].is_on && known->nodes[i].type != NODE_EMPTY) {
            is_done &= CALL(known->table, HIP_SLOT_GRAPH_NODE_SET_ENABLED,
                            int (*)(void*, void*, unsigned), known->exec, known->nodes[i].handle,
                            is_on) == HIP_SUCCESS;
        }
    }
    return is_done;
}

static bool read_enabled(struct known_graph* known) {
    for (size_t i = 0; i < known->node_count; ++i) {
        unsigned is_on = 1;
        if (known->nodes[i].type != NODE_EMPTY &&
            CALL(known->table, HIP_SLOT_GRAPH_NODE_GET_ENABLED, int (*)(void*, void*, unsigned*),
                 known->exec, known->nodes[i].handle, &is_on) != HIP_SUCCESS) {
            return false;
        }
        known->nodes[i].is_on = is_on != 0;
    }
    return true;
}

// A kernel node that is to be captured, or `node_count`; each in its turn.
static size_t find_wanted(struct capture_control* control, const struct known_graph* known) {
    for (size_t step = 0; step < known->node_count; ++step) {
        const size_t i = (g_next + step) % known->node_count;
        enum verdict verdict = VERDICT_UNWANTED;
        if (known->nodes[i].type == NODE_KERNEL && known->nodes[i].is_on &&
            launch_find_function(control, &known->nodes[i].launch, &verdict) >= 0 &&
            verdict != VERDICT_UNWANTED) {
            return i;
        }
    }
    return known->node_count;
}

static int first_error(int one, int other) {
    return one != HIP_SUCCESS ? one : other;
}

// The nodes from `at` on are switched off.
static int launch_divided(struct capture_control* control, struct known_graph* known, size_t at,
                          void* stream, graph_launch_function original) {
    const size_t count = known->node_count;
    int result = HIP_SUCCESS;
    if (at != 0) {
        result = original(known->exec, stream);
        set_enabled(known, 0, at, false);
    }
    set_enabled(known, at, at + 1, true);
    struct launch launch;
    struct runtime_scope scope;
    const bool is_entered = runtime_enter(known->table, &scope);
    const bool is_filled =
        is_entered && fill_launch(known->table, known->nodes[at].handle, &launch);
    if (is_entered) {
        runtime_leave(known->table, &scope);
    }
    launch.graph_node = known->nodes[at].launch.graph_node;
    launch.stream = stream;
    const bool is_held =
        is_filled && result == HIP_SUCCESS && launch_begin(control, &launch);
    const int own = original(known->exec, stream);
    if (is_held) {
        launch_end(&launch, own);
        g_next = at + 1;
    }
    result = first_error(result, own);
    set_enabled(known, at, at + 1, false);
    if (at + 1 < count) {
        set_enabled(known, at + 1, count, true);
        result = first_error(result, original(known->exec, stream));
    }
    set_enabled(known, 0, count, true);
    return result;
}

int graph_launch(const struct hip_table* table, void* exec, void* stream, enum hip_slot slot,
                 graph_launch_function original) {
    struct capture_control* control = atomic_load(&g_control);
    const enum control_state state = control == NULL ? STATE_CLOSED : control_state_of(control);
    struct runtime_scope scope;
    if ((state != STATE_ARMED && state != STATE_COUNTING) || !runtime_enter(table, &scope)) {
        return original(exec, stream);
    }
    void* own_stream =
        slot == HIP_SLOT_GRAPH_LAUNCH_SPT && stream == NULL ? STREAM_PER_THREAD : stream;
    const bool is_capturing = runtime_is_stream_capturing(table, own_stream);
    pthread_mutex_lock(&g_graph_lock);
    struct known_graph* known = find_exec(exec);
    __atomic_fetch_add(&control->graph_launches, 1, __ATOMIC_RELAXED);
    bool is_divided = false;
    size_t wanted = 0;
    if (known == NULL) {
        __atomic_fetch_add(&control->unknown_graph_launches, 1, __ATOMIC_RELAXED);
    } else {
        count_nodes(control, known);
        is_divided = state == STATE_ARMED && control->takes_graphs && known->is_divisible &&
                     !known->is_changed && !known->is_gone && !is_capturing && read_enabled(known);
        wanted = is_divided ? find_wanted(control, known) : 0;
        is_divided = is_divided && wanted < known->node_count;
        if (is_divided && !set_enabled(known, wanted, known->node_count, false)) {
            set_enabled(known, wanted, known->node_count, true);
            is_divided = false;
        }
    }
    runtime_leave(table, &scope);
    int result;
    if (is_divided) {
        result = launch_divided(control, known, wanted, stream, original);
        pthread_mutex_unlock(&g_graph_lock);
    } else {
        pthread_mutex_unlock(&g_graph_lock);
        result = original(exec, stream);
    }
    return result;
}
