#include "runtime.h"

#include <string.h>

#include "session.h"

// hipPointerAttribute_t.
struct pointer_attributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

enum { COPY_DEFAULT = 4, CAPTURE_RELAXED = 2, HIP_ERROR_NOT_READY = 600 };

#define CALL(slot, type, ...) ((type)hip_slot_get(&g_table, slot))(__VA_ARGS__)

// Slots that every table has are called straight; of others the caller asks first.
static bool has(enum hip_slot slot) {
    return slot < g_table.count && hip_slot_get(&g_table, slot) != NULL;
}

const char* runtime_kernel_name(void* function) {
    if (!has(HIP_SLOT_KERNEL_NAME_REF)) {
        return NULL;
    }
    return CALL(HIP_SLOT_KERNEL_NAME_REF, const char* (*)(void*), function);
}

int runtime_function_attribute(void* function, int attribute) {
    int value = -1;
    if (!has(HIP_SLOT_FUNC_GET_ATTRIBUTE) ||
        CALL(HIP_SLOT_FUNC_GET_ATTRIBUTE, int (*)(int*, int, void*), &value, attribute, function) !=
            HIP_SUCCESS) {
        return -1;
    }
    return value;
}

bool runtime_is_stream_capturing(void* stream) {
    int status = 0;
    return has(HIP_SLOT_STREAM_IS_CAPTURING) &&
           CALL(HIP_SLOT_STREAM_IS_CAPTURING, int (*)(void*, int*), stream, &status) ==
               HIP_SUCCESS &&
           status != 0;
}

int runtime_synchronize(void* stream) {
    return CALL(HIP_SLOT_STREAM_SYNCHRONIZE, int (*)(void*), stream);
}

int runtime_copy(void* to, uint64_t from, size_t size) {
    return CALL(HIP_SLOT_MEMCPY, int (*)(void*, const void*, size_t, int), to, (const void*)from,
                size, COPY_DEFAULT);
}

bool runtime_address_range(uint64_t pointer, uint64_t* base, uint64_t* size) {
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

int runtime_memory_type(uint64_t pointer) {
    struct pointer_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    if (!has(HIP_SLOT_POINTER_GET_ATTRIBUTES) ||
        CALL(HIP_SLOT_POINTER_GET_ATTRIBUTES, int (*)(struct pointer_attributes*, const void*),
             &attributes, (const void*)pointer) != HIP_SUCCESS) {
        return MEMORY_UNREGISTERED;
    }
    return attributes.is_managed ? MEMORY_MANAGED : attributes.type;
}

static int peek_error(void) {
    return has(HIP_SLOT_PEEK_AT_LAST_ERROR) ? CALL(HIP_SLOT_PEEK_AT_LAST_ERROR, int (*)(void)) : 0;
}

static void exchange_capture_mode(int* mode) {
    if (has(HIP_SLOT_THREAD_EXCHANGE_STREAM_CAPTURE_MODE)) {
        CALL(HIP_SLOT_THREAD_EXCHANGE_STREAM_CAPTURE_MODE, int (*)(int*), mode);
    }
}

static void clear_error(void) {
    if (has(HIP_SLOT_GET_LAST_ERROR)) {
        CALL(HIP_SLOT_GET_LAST_ERROR, int (*)(void));
    }
}

bool runtime_enter(struct runtime_scope* scope) {
    const int pending = peek_error();
    if (pending == HIP_ERROR_NOT_READY) {
        // An event or a stream was asked whether it is done; the answer was given then.
        clear_error();
    } else if (pending != HIP_SUCCESS) {
        return false;
    }
    scope->capture_mode = CAPTURE_RELAXED;
    exchange_capture_mode(&scope->capture_mode);
    return true;
}

void runtime_leave(struct runtime_scope* scope) {
    exchange_capture_mode(&scope->capture_mode);
    if (peek_error() != HIP_SUCCESS) {
        clear_error();
    }
}
