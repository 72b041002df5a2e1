#include "hooks.h"

#include <string.h>

#include "graph.h"
#include "launch.h"

typedef unsigned int uint;

struct dim3 {
    uint x, y, z;
};

// hipLaunchAttribute.
struct launch_attribute {
    int id, padding;
    union {
        char bytes[64];
        int cooperative;
    } value;
};
enum { ATTRIBUTE_COOPERATIVE = 2, MAX_ATTRIBUTES = 64 };

// HIP_LAUNCH_CONFIG of hipDrvLaunchKernelEx.
struct drv_config {
    uint grid[3], block[3];
    uint dynamic_lds_bytes;
    void* stream;
    const struct launch_attribute* attributes;
    uint attribute_count;
};

// hipLaunchConfig_t of hipLaunchKernelExC.
struct symbol_launch_config {
    struct dim3 grid, block;
    size_t dynamic_lds_bytes;
    void* stream;
    const struct launch_attribute* attributes;
    uint attribute_count;
};

typedef int (*module_launch)(void*, uint, uint, uint, uint, uint, uint, uint, void*, void**,
                             void**);
typedef int (*module_cooperative)(void*, uint, uint, uint, uint, uint, uint, uint, void*, void**);
typedef int (*hcc_launch)(void*, uint, uint, uint, uint, uint, uint, size_t, void*, void**, void**,
                          void*, void*);
typedef int (*ext_launch)(void*, uint, uint, uint, uint, uint, uint, size_t, void*, void**, void**,
                          void*, void*, uint);
typedef int (*drv_launch)(const struct drv_config*, void*, void**, void**);
typedef int (*symbol_launch)(const void*, struct dim3, struct dim3, void**, size_t, void*);
typedef int (*symbol_cooperative)(const void*, struct dim3, struct dim3, void**, uint, void*);
typedef int (*symbol_ext)(const void*, struct dim3, struct dim3, void**, size_t, void*, void*,
                          void*, int);
typedef int (*symbol_config)(const struct symbol_launch_config*, const void*, void**);
typedef int (*configure_call)(struct dim3, struct dim3, size_t, void*);
typedef int (*setup_argument)(const void*, size_t, size_t);
typedef int (*launch_by_pointer)(const void*);
typedef int (*module_unload)(void*);
typedef int (*graph_instantiate)(void**, void*, void**, char*, size_t);
typedef int (*graph_instantiate_flags)(void**, void*, unsigned long long);
typedef int (*graph_instantiate_params)(void**, void*, void*);
typedef int (*graph_exec_destroy)(void*);
typedef int (*graph_update)(void*, void*, void**, void*);
typedef int (*graph_set_kernel)(void*, void*, const void*);

enum {
    MODULE_LAUNCH,
    MODULE_COOPERATIVE,
    HCC_LAUNCH,
    EXT_LAUNCH,
    DRV_LAUNCH,
    SYMBOL_LAUNCH,
    SYMBOL_LAUNCH_SPT,
    SYMBOL_COOPERATIVE,
    SYMBOL_COOPERATIVE_SPT,
    SYMBOL_EXT,
    SYMBOL_CONFIG,
    CONFIGURE_CALL,
    SETUP_ARGUMENT,
    LAUNCH_BY_POINTER,
    MODULE_UNLOAD,
    LIBRARY_UNLOAD,
    GRAPH_LAUNCH,
    GRAPH_LAUNCH_SPT,
    GRAPH_INSTANTIATE,
    GRAPH_INSTANTIATE_FLAGS,
    GRAPH_INSTANTIATE_PARAMS,
    GRAPH_EXEC_DESTROY,
    GRAPH_DESTROY,
    GRAPH_UPDATE,
    GRAPH_SET_KERNEL,
    HOOK_COUNT,
};

static struct hook {
    enum hip_slot slot;
    void* function;
    void* original;
    bool is_in;
} g_hooks[MAX_COPIES][HOOK_COUNT];

// What this thread's next hipLaunchByPtr will use.
static _Thread_local struct configured_call {
    struct dim3 grid, block;
    size_t lds;
    void* stream;
    size_t argument_bytes;
    bool is_valid;
    uint8_t arguments[MAX_KERNARG_BYTES];
} t_call;

static void note_argument(const void* argument, size_t size, size_t offset) {
    if (offset > MAX_KERNARG_BYTES || size > MAX_KERNARG_BYTES - offset || argument == NULL) {
        t_call.is_valid = false;
        return;
    }
    memcpy(t_call.arguments + offset, argument, size);
    if (offset + size > t_call.argument_bytes) {
        t_call.argument_bytes = offset + size;
    }
}

static bool asks_cooperative(const struct launch_attribute* attributes, uint count) {
    for (uint i = 0; attributes != NULL && i < count && i < MAX_ATTRIBUTES; ++i) {
        if (attributes[i].id == ATTRIBUTE_COOPERATIVE && attributes[i].value.cooperative != 0) {
            return true;
        }
    }
    return false;
}

#define COPY 0
#include "hook_functions.inc"
#define COPY 1
#include "hook_functions.inc"
#define COPY 2
#include "hook_functions.inc"
#define COPY 3
#include "hook_functions.inc"

static void (*const kFill[MAX_COPIES])(struct hook*) = {hook_fill_0, hook_fill_1, hook_fill_2,
                                                        hook_fill_3};

int hooks_insert(void) {
    int count = 0;
    for (int copy = 0; copy < g_table_count; ++copy) {
        kFill[copy](g_hooks[copy]);
        for (int i = 0; i < HOOK_COUNT; ++i) {
            struct hook* hook = &g_hooks[copy][i];
            if (!hook->is_in && hip_table_has(&g_tables[copy], hook->slot)) {
                hip_slot_swap(&g_tables[copy], hook->slot, hook->function, &hook->original);
                hook->is_in = true;
            }
            count += hook->is_in;
        }
    }
    return count;
}

// The originals are kept: a thread may still be inside a hook. A hook that somebody else has hooked
// stays in: it is part of their chain, and swapping it in again would close the chain to a ring.
int hooks_remove(void) {
    int foreign = 0;
    for (int copy = 0; copy < g_table_count; ++copy) {
        for (int i = 0; i < HOOK_COUNT; ++i) {
            struct hook* hook = &g_hooks[copy][i];
            if (hook->is_in) {
                hook->is_in = hip_slot_restore(&g_tables[copy], hook->slot, hook->function,
                                               hook->original) != 0;
                foreign += hook->is_in;
            }
        }
    }
    return foreign;
}
