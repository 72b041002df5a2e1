#include "runtime.h"

#include <string.h>

// hipPointerAttribute_t.
struct pointer_attributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

enum {
    COPY_DEFAULT = 4,
    CAPTURE_RELAXED = 2,
    HIP_ERROR_NOT_READY = 600,
    HOST_REGISTER_PORTABLE = 1,
    RANGE_ATTRIBUTE_COHERENCY_MODE = 100,
};

#define CALL(slot, type, ...) ((type)hip_slot_get(table, slot))(__VA_ARGS__)

// Slots that every table has are called straight; of others the caller asks first.
static bool has(const struct hip_table* table, enum hip_slot slot) {
    return slot < table->count && hip_slot_get(table, slot) != NULL;
}

const char* runtime_kernel_name(const struct hip_table* table, void* function) {
    if (!has(table, HIP_SLOT_KERNEL_NAME_REF)) {
        return NULL;
    }
    return CALL(HIP_SLOT_KERNEL_NAME_REF, const char* (*)(void*), function);
}

const char* runtime_symbol_name(const struct hip_table* table, void* symbol, void* stream) {
    void* function = runtime_symbol_function(table, symbol);
    if (function != NULL) {
        return runtime_kernel_name(table, function);
    }
    if (!has(table, HIP_SLOT_KERNEL_NAME_REF_BY_PTR)) {
        return NULL;
    }
    return CALL(HIP_SLOT_KERNEL_NAME_REF_BY_PTR, const char* (*)(const void*, void*), symbol,
                stream);
}

void* runtime_symbol_function(const struct hip_table* table, void* symbol) {
    void* function = NULL;
    if (!has(table, HIP_SLOT_GET_FUNC_BY_SYMBOL) ||
        CALL(HIP_SLOT_GET_FUNC_BY_SYMBOL, int (*)(void**, const void*), &function, symbol) !=
            HIP_SUCCESS) {
        return NULL;
    }
    return function;
}

int runtime_function_attribute(const struct hip_table* table, void* function, int attribute) {
    int value = -1;
    if (!has(table, HIP_SLOT_FUNC_GET_ATTRIBUTE) ||
        CALL(HIP_SLOT_FUNC_GET_ATTRIBUTE, int (*)(int*, int, void*), &value, attribute, function) !=
            HIP_SUCCESS) {
        return -1;
    }
    return value;
}

int runtime_device(const struct hip_table* table) {
    int device = -1;
    return has(table, HIP_SLOT_GET_DEVICE) &&
                   CALL(HIP_SLOT_GET_DEVICE, int (*)(int*), &device) == HIP_SUCCESS
               ? device
               : -1;
}

bool runtime_is_stream_capturing(const struct hip_table* table, void* stream) {
    int status = 0;
    return has(table, HIP_SLOT_STREAM_IS_CAPTURING) &&
           CALL(HIP_SLOT_STREAM_IS_CAPTURING, int (*)(void*, int*), stream, &status) ==
               HIP_SUCCESS &&
           status != 0;
}

int runtime_synchronize(const struct hip_table* table, void* stream) {
    return CALL(HIP_SLOT_STREAM_SYNCHRONIZE, int (*)(void*), stream);
}

int runtime_copy(const struct hip_table* table, void* to, uint64_t from, size_t size,
                 void* stream) {
    if (has(table, HIP_SLOT_MEMCPY_ASYNC)) {
        return CALL(HIP_SLOT_MEMCPY_ASYNC, int (*)(void*, const void*, size_t, int, void*), to,
                    (const void*)from, size, COPY_DEFAULT, stream);
    }
    return CALL(HIP_SLOT_MEMCPY, int (*)(void*, const void*, size_t, int), to, (const void*)from,
                size, COPY_DEFAULT);
}

bool runtime_is_virtual(const struct hip_table* table, uint64_t pointer) {
    void* handle = NULL;
    if (!has(table, HIP_SLOT_MEM_RETAIN_ALLOCATION_HANDLE) || !has(table, HIP_SLOT_MEM_RELEASE) ||
        CALL(HIP_SLOT_MEM_RETAIN_ALLOCATION_HANDLE, int (*)(void**, void*), &handle,
             (void*)pointer) != HIP_SUCCESS) {
        return false;
    }
    CALL(HIP_SLOT_MEM_RELEASE, int (*)(void*), handle);
    return true;
}

void runtime_pin(const struct hip_table* table, void* memory, size_t size, bool is_pinned) {
    const unsigned flags = HOST_REGISTER_PORTABLE;
    if (is_pinned && has(table, HIP_SLOT_HOST_REGISTER)) {
        CALL(HIP_SLOT_HOST_REGISTER, int (*)(void*, size_t, unsigned), memory, size, flags);
    } else if (!is_pinned && has(table, HIP_SLOT_HOST_UNREGISTER)) {
        CALL(HIP_SLOT_HOST_UNREGISTER, int (*)(void*), memory);
    }
}

bool runtime_address_range(const struct hip_table* table, uint64_t pointer, uint64_t* base,
                           uint64_t* size) {
    void* found = NULL;
    size_t bytes = 0;
    if (CALL(HIP_SLOT_MEM_GET_ADDRESS_RANGE, int (*)(void**, size_t*, void*), &found, &bytes,
             (void*)pointer) != HIP_SUCCESS) {
        return false;
    }
    *base = (uint64_t)found;
    *size = bytes;
    return bytes != 0 && pointer - *base < bytes && *base + bytes > *base;
}

struct runtime_memory runtime_memory_of(const struct hip_table* table, uint64_t pointer) {
    struct pointer_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    if (!has(table, HIP_SLOT_POINTER_GET_ATTRIBUTES) ||
        CALL(HIP_SLOT_POINTER_GET_ATTRIBUTES, int (*)(struct pointer_attributes*, const void*),
             &attributes, (const void*)pointer) != HIP_SUCCESS) {
        return (struct runtime_memory){MEMORY_UNREGISTERED, 0};
    }
    const int type = attributes.is_managed ? MEMORY_MANAGED : attributes.type;
    return (struct runtime_memory){type, attributes.flags};
}

int runtime_coherency_mode(const struct hip_table* table, uint64_t pointer, size_t size) {
    int mode = -1;
    return has(table, HIP_SLOT_MEM_RANGE_GET_ATTRIBUTE) &&
                   CALL(HIP_SLOT_MEM_RANGE_GET_ATTRIBUTE,
                        int (*)(void*, size_t, int, const void*, size_t), &mode, sizeof mode,
                        RANGE_ATTRIBUTE_COHERENCY_MODE, (const void*)pointer,
                        size) == HIP_SUCCESS
               ? mode
               : -1;
}

bool runtime_event_create(const struct hip_table* table, void** event) {
    return has(table, HIP_SLOT_EVENT_CREATE) &&
           CALL(HIP_SLOT_EVENT_CREATE, int (*)(void**), event) == HIP_SUCCESS;
}

bool runtime_event_record(const struct hip_table* table, void* event, void* stream) {
    return has(table, HIP_SLOT_EVENT_RECORD) &&
           CALL(HIP_SLOT_EVENT_RECORD, int (*)(void*, void*), event, stream) == HIP_SUCCESS;
}

bool runtime_event_is_done(const struct hip_table* table, void* event) {
    return has(table, HIP_SLOT_EVENT_QUERY) &&
           CALL(HIP_SLOT_EVENT_QUERY, int (*)(void*), event) == HIP_SUCCESS;
}

bool runtime_event_elapsed(const struct hip_table* table, float* ms, void* start, void* stop) {
    return has(table, HIP_SLOT_EVENT_ELAPSED_TIME) &&
           CALL(HIP_SLOT_EVENT_ELAPSED_TIME, int (*)(float*, void*, void*), ms, start, stop) ==
               HIP_SUCCESS;
}

static int peek_error(const struct hip_table* table) {
    return has(table, HIP_SLOT_PEEK_AT_LAST_ERROR)
               ? CALL(HIP_SLOT_PEEK_AT_LAST_ERROR, int (*)(void))
               : 0;
}

static void exchange_capture_mode(const struct hip_table* table, int* mode) {
    if (has(table, HIP_SLOT_THREAD_EXCHANGE_STREAM_CAPTURE_MODE)) {
        CALL(HIP_SLOT_THREAD_EXCHANGE_STREAM_CAPTURE_MODE, int (*)(int*), mode);
    }
}

static void clear_error(const struct hip_table* table) {
    if (has(table, HIP_SLOT_GET_LAST_ERROR)) {
        CALL(HIP_SLOT_GET_LAST_ERROR, int (*)(void));
    }
}

bool runtime_enter(const struct hip_table* table, struct runtime_scope* scope) {
    const int pending = peek_error(table);
    if (pending == HIP_ERROR_NOT_READY) {
        // An event or a stream was asked whether it is done; the answer was given then.
        clear_error(table);
    } else if (pending != HIP_SUCCESS) {
        return false;
    }
    scope->capture_mode = CAPTURE_RELAXED;
    exchange_capture_mode(table, &scope->capture_mode);
    return true;
}

void runtime_leave(const struct hip_table* table, struct runtime_scope* scope) {
    exchange_capture_mode(table, &scope->capture_mode);
    if (peek_error(table) != HIP_SUCCESS) {
        clear_error(table);
    }
}
