#define _GNU_SOURCE
#include "hip_table.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "memory_map.h"

// A function is decoded from this many bytes at most.
enum { THUNK_BYTES = 512, MAX_SLOTS = 4096 };

static const struct {
    enum hip_slot slot;
    const char* name;
} kNames[] = {
    {HIP_SLOT_CONFIGURE_CALL, "hipConfigureCall"},
    {HIP_SLOT_EVENT_CREATE, "hipEventCreate"},
    {HIP_SLOT_EVENT_DESTROY, "hipEventDestroy"},
    {HIP_SLOT_EVENT_ELAPSED_TIME, "hipEventElapsedTime"},
    {HIP_SLOT_EVENT_QUERY, "hipEventQuery"},
    {HIP_SLOT_EVENT_RECORD, "hipEventRecord"},
    {HIP_SLOT_EXT_LAUNCH_KERNEL, "hipExtLaunchKernel"},
    {HIP_SLOT_FREE, "hipFree"},
    {HIP_SLOT_FUNC_GET_ATTRIBUTE, "hipFuncGetAttribute"},
    {HIP_SLOT_GET_DEVICE, "hipGetDevice"},
    {HIP_SLOT_GET_LAST_ERROR, "hipGetLastError"},
    {HIP_SLOT_GRAPH_DESTROY, "hipGraphDestroy"},
    {HIP_SLOT_GRAPH_EXEC_DESTROY, "hipGraphExecDestroy"},
    {HIP_SLOT_GRAPH_EXEC_KERNEL_NODE_SET_PARAMS, "hipGraphExecKernelNodeSetParams"},
    {HIP_SLOT_GRAPH_EXEC_UPDATE, "hipGraphExecUpdate"},
    {HIP_SLOT_GRAPH_GET_NODES, "hipGraphGetNodes"},
    {HIP_SLOT_GRAPH_INSTANTIATE, "hipGraphInstantiate"},
    {HIP_SLOT_GRAPH_INSTANTIATE_WITH_FLAGS, "hipGraphInstantiateWithFlags"},
    {HIP_SLOT_GRAPH_KERNEL_NODE_GET_PARAMS, "hipGraphKernelNodeGetParams"},
    {HIP_SLOT_GRAPH_LAUNCH, "hipGraphLaunch"},
    {HIP_SLOT_GRAPH_NODE_GET_DEPENDENCIES, "hipGraphNodeGetDependencies"},
    {HIP_SLOT_GRAPH_NODE_GET_ENABLED, "hipGraphNodeGetEnabled"},
    {HIP_SLOT_GRAPH_NODE_GET_TYPE, "hipGraphNodeGetType"},
    {HIP_SLOT_GRAPH_NODE_SET_ENABLED, "hipGraphNodeSetEnabled"},
    {HIP_SLOT_HOST_REGISTER, "hipHostRegister"},
    {HIP_SLOT_HOST_UNREGISTER, "hipHostUnregister"},
    {HIP_SLOT_KERNEL_NAME_REF, "hipKernelNameRef"},
    {HIP_SLOT_KERNEL_NAME_REF_BY_PTR, "hipKernelNameRefByPtr"},
    {HIP_SLOT_LAUNCH_BY_PTR, "hipLaunchByPtr"},
    {HIP_SLOT_LAUNCH_COOPERATIVE_KERNEL, "hipLaunchCooperativeKernel"},
    {HIP_SLOT_LAUNCH_KERNEL, "hipLaunchKernel"},
    {HIP_SLOT_MALLOC, "hipMalloc"},
    {HIP_SLOT_MEM_GET_ADDRESS_RANGE, "hipMemGetAddressRange"},
    {HIP_SLOT_MEM_RANGE_GET_ATTRIBUTE, "hipMemRangeGetAttribute"},
    {HIP_SLOT_MEM_RELEASE, "hipMemRelease"},
    {HIP_SLOT_MEM_RETAIN_ALLOCATION_HANDLE, "hipMemRetainAllocationHandle"},
    {HIP_SLOT_MEMCPY, "hipMemcpy"},
    {HIP_SLOT_MEMCPY_ASYNC, "hipMemcpyAsync"},
    {HIP_SLOT_MODULE_GET_FUNCTION, "hipModuleGetFunction"},
    {HIP_SLOT_MODULE_LAUNCH_COOPERATIVE_KERNEL, "hipModuleLaunchCooperativeKernel"},
    {HIP_SLOT_MODULE_LAUNCH_KERNEL, "hipModuleLaunchKernel"},
    {HIP_SLOT_MODULE_LOAD, "hipModuleLoad"},
    {HIP_SLOT_MODULE_LOAD_DATA, "hipModuleLoadData"},
    {HIP_SLOT_MODULE_LOAD_DATA_EX, "hipModuleLoadDataEx"},
    {HIP_SLOT_MODULE_UNLOAD, "hipModuleUnload"},
    {HIP_SLOT_PEEK_AT_LAST_ERROR, "hipPeekAtLastError"},
    {HIP_SLOT_POINTER_GET_ATTRIBUTES, "hipPointerGetAttributes"},
    {HIP_SLOT_SETUP_ARGUMENT, "hipSetupArgument"},
    {HIP_SLOT_STREAM_IS_CAPTURING, "hipStreamIsCapturing"},
    {HIP_SLOT_STREAM_SYNCHRONIZE, "hipStreamSynchronize"},
    {HIP_SLOT_THREAD_EXCHANGE_STREAM_CAPTURE_MODE, "hipThreadExchangeStreamCaptureMode"},
    {HIP_SLOT_EXT_MODULE_LAUNCH_KERNEL, "hipExtModuleLaunchKernel"},
    {HIP_SLOT_HCC_MODULE_LAUNCH_KERNEL, "hipHccModuleLaunchKernel"},
    {HIP_SLOT_LAUNCH_COOPERATIVE_KERNEL_SPT, "hipLaunchCooperativeKernel_spt"},
    {HIP_SLOT_LAUNCH_KERNEL_SPT, "hipLaunchKernel_spt"},
    {HIP_SLOT_GRAPH_LAUNCH_SPT, "hipGraphLaunch_spt"},
    {HIP_SLOT_GRAPH_INSTANTIATE_WITH_PARAMS, "hipGraphInstantiateWithParams"},
    {HIP_SLOT_GET_FUNC_BY_SYMBOL, "hipGetFuncBySymbol"},
    {HIP_SLOT_LAUNCH_KERNEL_EX_C, "hipLaunchKernelExC"},
    {HIP_SLOT_DRV_LAUNCH_KERNEL_EX, "hipDrvLaunchKernelEx"},
    {HIP_SLOT_MODULE_LOAD_FAT_BINARY, "hipModuleLoadFatBinary"},
    {HIP_SLOT_LIBRARY_UNLOAD, "hipLibraryUnload"},
};

// Functions every libamdhip64 has; spread over the table, so that a shifted layout cannot pass.
static const enum hip_slot kWitnesses[] = {
    HIP_SLOT_FREE,   HIP_SLOT_MALLOC,           HIP_SLOT_MEM_GET_ADDRESS_RANGE,
    HIP_SLOT_MEMCPY, HIP_SLOT_MODULE_LOAD_DATA, HIP_SLOT_MODULE_LAUNCH_KERNEL,
};

static int fail(char* error, size_t bytes, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, bytes, format, arguments);
    va_end(arguments);
    return -1;
}

const char* hip_slot_name(enum hip_slot slot) {
    for (size_t i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
        if (kNames[i].slot == slot) {
            return kNames[i].name;
        }
    }
    return NULL;
}

// Decodes the exported function, reading no byte outside its mapping.
static int decode_export(void* library, enum hip_slot slot, struct hip_thunk* thunk) {
    const uint8_t* code = dlsym(library, hip_slot_name(slot));
    struct mapping mapping;
    if (code == NULL || !mapping_find((uintptr_t)code, &mapping) || !mapping.is_readable ||
        !mapping.is_executable) {
        return -1;
    }
    const size_t room = mapping.end - (uintptr_t)code;
    return hip_thunk_decode(code, room < THUNK_BYTES ? room : THUNK_BYTES, thunk);
}

static bool is_in_library(uintptr_t address, void* library) {
    Dl_info of_address, of_library;
    void* symbol = dlsym(library, hip_slot_name(HIP_SLOT_MODULE_LAUNCH_KERNEL));
    return dladdr((void*)address, &of_address) != 0 && dladdr(symbol, &of_library) != 0 &&
           of_address.dli_fbase == of_library.dli_fbase;
}

// GetHipDispatchTable() of ROCm fills the table at its first call and returns it.
static void* call_getter(uintptr_t getter, void* library) {
    struct mapping mapping;
    if (!is_in_library(getter, library) || !mapping_find(getter, &mapping) ||
        !mapping.is_executable) {
        return NULL;
    }
    return ((void* (*)(void))getter)();
}

// The table a thunk leads to, or NULL where its way there is not inside the library.
static void* follow_thunk(const struct hip_thunk* thunk, void* library) {
    struct mapping mapping;
    if (!is_in_library(thunk->address, library) || !mapping_find(thunk->address, &mapping) ||
        !mapping.is_readable) {
        return NULL;
    }
    switch (thunk->kind) {
        case HIP_THUNK_GETTER:
            return call_getter(thunk->address, library);
        case HIP_THUNK_GETTER_POINTER:
            return call_getter(*(uintptr_t*)thunk->address, library);
        case HIP_THUNK_POINTER:
            return *(void**)thunk->address;
        case HIP_THUNK_TABLE:
            return (void*)thunk->address;
    }
    return NULL;
}

static int check_table(struct hip_table* table, uint8_t* base, char* error, size_t error_bytes) {
    struct mapping mapping;
    if (base == NULL || ((uintptr_t)base & 7) != 0 || !mapping_find((uintptr_t)base, &mapping) ||
        !mapping.is_readable || !mapping.is_writable) {
        return fail(error, error_bytes, "the HIP dispatch table of %s is not writable",
                    table->path);
    }
    size_t size;
    memcpy(&size, base, sizeof size);
    table->count = size < 8 ? 0 : (size - 8) / 8;
    if (size % 8 != 0 || table->count <= HIP_SLOT_HCC_MODULE_LAUNCH_KERNEL ||
        table->count > MAX_SLOTS || size > mapping.end - (uintptr_t)base) {
        return fail(error, error_bytes, "the HIP dispatch table of %s has an unknown size (%zu)",
                    table->path, size);
    }
    table->slots = (void**)(base + 8);
    return 0;
}

int hip_table_find(struct hip_table* table, void* library, char* error, size_t error_bytes) {
    memset(table, 0, sizeof *table);
    table->library = library;
    struct link_map* map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == NULL) {
        return fail(error, error_bytes, "libamdhip64 cannot be inspected");
    }
    snprintf(table->path, sizeof table->path, "%s", map->l_name);
    for (size_t i = 0; i < sizeof kWitnesses / sizeof kWitnesses[0]; ++i) {
        const enum hip_slot slot = kWitnesses[i];
        struct hip_thunk thunk;
        if (decode_export(library, slot, &thunk) != 0) {
            return fail(error, error_bytes, "%s of %s is not a thunk over a dispatch table",
                        hip_slot_name(slot), table->path);
        }
        if (thunk.displacement != 8 + 8 * (int32_t)slot) {
            return fail(error, error_bytes,
                        "%s of %s reads table offset %#x, not the documented %#x",
                        hip_slot_name(slot), table->path, thunk.displacement, 8 + 8 * slot);
        }
        if (i == 0) {
            table->thunk = thunk;
        } else if (thunk.kind != table->thunk.kind || thunk.address != table->thunk.address) {
            return fail(error, error_bytes, "the functions of %s use different tables",
                        table->path);
        }
    }
    return check_table(table, follow_thunk(&table->thunk, library), error, error_bytes);
}

bool hip_table_has(const struct hip_table* table, enum hip_slot slot) {
    struct hip_thunk thunk;
    return slot < table->count && decode_export(table->library, slot, &thunk) == 0 &&
           thunk.kind == table->thunk.kind && thunk.address == table->thunk.address &&
           thunk.displacement == 8 + 8 * (int32_t)slot && table->slots[slot] != NULL;
}

void* hip_slot_get(const struct hip_table* table, enum hip_slot slot) {
    return __atomic_load_n(&table->slots[slot], __ATOMIC_ACQUIRE);
}

void hip_slot_swap(const struct hip_table* table, enum hip_slot slot, void* hook, void** original) {
    void* found = hip_slot_get(table, slot);
    do {
        __atomic_store_n(original, found, __ATOMIC_RELEASE);
    } while (!__atomic_compare_exchange_n(&table->slots[slot], &found, hook, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
}

int hip_slot_restore(const struct hip_table* table, enum hip_slot slot, void* hook,
                     void* original) {
    void* expected = hook;
    return __atomic_compare_exchange_n(&table->slots[slot], &expected, original, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
               ? 0
               : -1;
}
