#include "hooks.h"

#include "launch.h"

typedef unsigned int uint;

typedef int (*module_launch)(void*, uint, uint, uint, uint, uint, uint, uint, void*, void**,
                             void**);
typedef int (*cooperative_launch)(void*, uint, uint, uint, uint, uint, uint, uint, void*, void**);
typedef int (*hcc_launch)(void*, uint, uint, uint, uint, uint, uint, size_t, void*, void**, void**,
                          void*, void*);
typedef int (*ext_launch)(void*, uint, uint, uint, uint, uint, uint, size_t, void*, void**, void**,
                          void*, void*, uint);

// HIP_LAUNCH_CONFIG of hipDrvLaunchKernelEx.
struct launch_config {
    uint grid[3], block[3];
    uint dynamic_lds_bytes;
    void* stream;
    void* attributes;
    uint attribute_count;
};
typedef int (*drv_launch)(const struct launch_config*, void*, void**, void**);
typedef int (*module_unload)(void*);

static module_launch g_module_launch;
static cooperative_launch g_cooperative_launch;
static hcc_launch g_hcc_launch;
static ext_launch g_ext_launch;
static drv_launch g_drv_launch;
static module_unload g_module_unload;

static int hook_module_launch(void* function, uint grid_x, uint grid_y, uint grid_z, uint block_x,
                              uint block_y, uint block_z, uint lds, void* stream, void** params,
                              void** extra) {
    struct capture_control* control = control_for(function);
    if (control != NULL) {
        const struct launch launch = {HIP_SLOT_MODULE_LAUNCH_KERNEL,
                                      function,
                                      {grid_x, grid_y, grid_z},
                                      {block_x, block_y, block_z},
                                      lds,
                                      stream,
                                      params,
                                      extra,
                                      false};
        if (launch_begin(control, &launch)) {
            const int result = g_module_launch(function, grid_x, grid_y, grid_z, block_x, block_y,
                                               block_z, lds, stream, params, extra);
            launch_captured(&launch, result);
            return result;
        }
    }
    return g_module_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, lds, stream,
                           params, extra);
}

static int hook_cooperative_launch(void* function, uint grid_x, uint grid_y, uint grid_z,
                                   uint block_x, uint block_y, uint block_z, uint lds, void* stream,
                                   void** params) {
    struct capture_control* control = control_for(function);
    if (control != NULL) {
        const struct launch launch = {HIP_SLOT_MODULE_LAUNCH_COOPERATIVE_KERNEL,
                                      function,
                                      {grid_x, grid_y, grid_z},
                                      {block_x, block_y, block_z},
                                      lds,
                                      stream,
                                      params,
                                      NULL,
                                      false};
        if (launch_begin(control, &launch)) {
            const int result = g_cooperative_launch(function, grid_x, grid_y, grid_z, block_x,
                                                    block_y, block_z, lds, stream, params);
            launch_captured(&launch, result);
            return result;
        }
    }
    return g_cooperative_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, lds,
                                stream, params);
}

static int hook_hcc_launch(void* function, uint size_x, uint size_y, uint size_z, uint block_x,
                           uint block_y, uint block_z, size_t lds, void* stream, void** params,
                           void** extra, void* start, void* stop) {
    struct capture_control* control = control_for(function);
    if (control != NULL) {
        const struct launch launch = {HIP_SLOT_HCC_MODULE_LAUNCH_KERNEL,
                                      function,
                                      {size_x, size_y, size_z},
                                      {block_x, block_y, block_z},
                                      lds,
                                      stream,
                                      params,
                                      extra,
                                      true};
        if (launch_begin(control, &launch)) {
            const int result = g_hcc_launch(function, size_x, size_y, size_z, block_x, block_y,
                                            block_z, lds, stream, params, extra, start, stop);
            launch_captured(&launch, result);
            return result;
        }
    }
    return g_hcc_launch(function, size_x, size_y, size_z, block_x, block_y, block_z, lds, stream,
                        params, extra, start, stop);
}

static int hook_ext_launch(void* function, uint size_x, uint size_y, uint size_z, uint block_x,
                           uint block_y, uint block_z, size_t lds, void* stream, void** params,
                           void** extra, void* start, void* stop, uint flags) {
    struct capture_control* control = control_for(function);
    if (control != NULL) {
        const struct launch launch = {HIP_SLOT_EXT_MODULE_LAUNCH_KERNEL,
                                      function,
                                      {size_x, size_y, size_z},
                                      {block_x, block_y, block_z},
                                      lds,
                                      stream,
                                      params,
                                      extra,
                                      true};
        if (launch_begin(control, &launch)) {
            const int result =
                g_ext_launch(function, size_x, size_y, size_z, block_x, block_y, block_z, lds,
                             stream, params, extra, start, stop, flags);
            launch_captured(&launch, result);
            return result;
        }
    }
    return g_ext_launch(function, size_x, size_y, size_z, block_x, block_y, block_z, lds, stream,
                        params, extra, start, stop, flags);
}

static int hook_drv_launch(const struct launch_config* config, void* function, void** params,
                           void** extra) {
    struct capture_control* control = control_for(function);
    if (control != NULL && config != NULL) {
        const struct launch launch = {HIP_SLOT_DRV_LAUNCH_KERNEL_EX,
                                      function,
                                      {config->grid[0], config->grid[1], config->grid[2]},
                                      {config->block[0], config->block[1], config->block[2]},
                                      config->dynamic_lds_bytes,
                                      config->stream,
                                      params,
                                      extra,
                                      false};
        if (launch_begin(control, &launch)) {
            const int result = g_drv_launch(config, function, params, extra);
            launch_captured(&launch, result);
            return result;
        }
    }
    return g_drv_launch(config, function, params, extra);
}

static int hook_module_unload(void* module) {
    launch_forget_functions();
    const int result = g_module_unload(module);
    launch_forget_functions();  // a launch on another thread may have asked meanwhile
    return result;
}

static struct {
    enum hip_slot slot;
    void* hook;
    void** original;
    bool is_in;
} g_hooks[] = {
    {HIP_SLOT_MODULE_LAUNCH_KERNEL, (void*)hook_module_launch, (void**)&g_module_launch, false},
    {HIP_SLOT_MODULE_LAUNCH_COOPERATIVE_KERNEL, (void*)hook_cooperative_launch,
     (void**)&g_cooperative_launch, false},
    {HIP_SLOT_HCC_MODULE_LAUNCH_KERNEL, (void*)hook_hcc_launch, (void**)&g_hcc_launch, false},
    {HIP_SLOT_EXT_MODULE_LAUNCH_KERNEL, (void*)hook_ext_launch, (void**)&g_ext_launch, false},
    {HIP_SLOT_DRV_LAUNCH_KERNEL_EX, (void*)hook_drv_launch, (void**)&g_drv_launch, false},
    {HIP_SLOT_MODULE_UNLOAD, (void*)hook_module_unload, (void**)&g_module_unload, false},
};

enum { HOOK_COUNT = sizeof g_hooks / sizeof g_hooks[0] };

int hooks_insert(const struct hip_table* table) {
    int count = 0;
    for (int i = 0; i < HOOK_COUNT; ++i) {
        if (!g_hooks[i].is_in && hip_table_has(table, g_hooks[i].slot)) {
            hip_slot_swap(table, g_hooks[i].slot, g_hooks[i].hook, g_hooks[i].original);
            g_hooks[i].is_in = true;
        }
        count += g_hooks[i].is_in;
    }
    return count;
}

// The originals are kept: a thread may still be inside a hook. A hook that somebody else has hooked
// stays in: it is part of their chain, and swapping it in again would close the chain to a ring.
int hooks_remove(const struct hip_table* table) {
    int foreign = 0;
    for (int i = 0; i < HOOK_COUNT; ++i) {
        if (g_hooks[i].is_in) {
            g_hooks[i].is_in = hip_slot_restore(table, g_hooks[i].slot, g_hooks[i].hook,
                                                *g_hooks[i].original) != 0;
            foreign += g_hooks[i].is_in;
        }
    }
    return foreign;
}
