#define _GNU_SOURCE
#include "launch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "function_table.h"
#include "reach.h"
#include "runtime.h"

// HIP_LAUNCH_PARAM_* of the `extra` array.
#define LAUNCH_PARAM_BUFFER_POINTER ((void*)1)
#define LAUNCH_PARAM_BUFFER_SIZE ((void*)2)
#define LAUNCH_PARAM_END ((void*)3)

enum { REGION_ALIGNMENT = 4096 };

// A capture's own runtime calls, and the launch it holds, may launch kernels: they are not looked
// at.
static _Thread_local bool t_is_inside;

// hipFuncGetAttribute numbers whose values tell apart functions of one name.
static const int kAttributes[] = {0, 1, 3, 4};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool claim_record(struct capture_control* control) {
    uint32_t armed = STATE_ARMED;
    return __atomic_compare_exchange_n(&control->state, &armed, STATE_BUSY, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void publish(struct capture_control* control, enum record_status status) {
    control->record.status = status;
    __atomic_store_n(&control->state, STATE_READY, __ATOMIC_RELEASE);
}

static int refuse(struct capture_record* record, const char* reason) {
    snprintf(record->reason, sizeof record->reason, "%s", reason);
    return -1;
}

static void fill_header(struct capture_record* record, const struct launch* launch, int index,
                        uint64_t generation) {
    memset(record, 0, offsetof(struct capture_record, name));
    record->launch_slot = launch->slot;
    record->function = (uint64_t)launch->function;
    record->function_index = (uint64_t)index;
    record->generation = generation;
    record->stream = (uint64_t)launch->stream;
    memcpy(record->grid, launch->grid, sizeof record->grid);
    memcpy(record->block, launch->block, sizeof record->block);
    record->dynamic_lds_bytes = launch->dynamic_lds_bytes;
    const char* name = runtime_kernel_name(launch->function);
    record->name_bytes = name == NULL ? 0 : (uint32_t)strnlen(name, MAX_NAME_BYTES - 1);
    memcpy(record->name, name == NULL ? "" : name, record->name_bytes);
}

static int count_workgroups(struct capture_record* record) {
    for (int i = 0; i < 3; ++i) {
        if (record->block[i] == 0 || record->grid[i] % record->block[i] != 0) {
            return refuse(record, "its work-items are no multiple of the workgroup");
        }
        record->grid[i] /= record->block[i];
    }
    return 0;
}

static int gather_params(struct capture_record* record, const struct capture_layout* layout,
                         void** params) {
    for (uint32_t i = 0; i < layout->argument_count && i < MAX_ARGUMENTS; ++i) {
        const uint32_t offset = layout->arguments[i].offset, size = layout->arguments[i].size;
        if (size > record->kernarg_bytes || offset > record->kernarg_bytes - size) {
            return refuse(record, "its layout is inconsistent");
        }
        if (params[i] == NULL) {
            return refuse(record, "it was launched with fewer parameters than the kernel has");
        }
        memcpy(record->kernarg + offset, params[i], size);
    }
    return 0;
}

static int gather_extra(struct capture_record* record, void** extra) {
    const void* buffer = NULL;
    size_t bytes = 0;
    for (int i = 0; i < 8 && extra[i] != LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[i + 1];
        } else if (extra[i] == LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != NULL) {
            bytes = *(const size_t*)extra[i + 1];
        } else {
            return refuse(record, "its `extra` list is not understood");
        }
    }
    if (buffer == NULL || bytes < record->kernarg_bytes) {
        return refuse(record,
                      "its argument buffer is shorter than the kernel's explicit arguments");
    }
    memcpy(record->kernarg, buffer, record->kernarg_bytes);
    return 0;
}

static int gather_kernarg(struct capture_record* record, const struct capture_layout* layout,
                          const struct launch* launch) {
    record->kernarg_bytes = layout->kernarg_bytes;
    if (record->kernarg_bytes > MAX_KERNARG_BYTES) {
        return refuse(record, "its kernarg segment is too large");
    }
    memset(record->kernarg, 0, sizeof record->kernarg);
    if (layout->argument_count == 0) {
        return 0;
    }
    if (launch->params != NULL) {
        return gather_params(record, layout, launch->params);
    }
    if (launch->extra != NULL) {
        return gather_extra(record, launch->extra);
    }
    return refuse(record, "it was launched without arguments");
}

// Lays the contents out in the data memory: true if they fit.
static bool place_contents(struct capture_record* record) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < record->region_count; ++i) {
        struct capture_region* region = &record->regions[i];
        const uint64_t step =
            (region->size + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT;
        region->before = at;
        region->after = at + step;
        at += 2 * step;
    }
    record->need_bytes = at;
    return at <= g_data_bytes;
}

static int copy_contents(struct capture_record* record, bool is_after) {
    for (uint32_t i = 0; i < record->region_count; ++i) {
        const struct capture_region* region = &record->regions[i];
        const int error = reach_copy(region, g_data + (is_after ? region->after : region->before));
        if (error != HIP_SUCCESS) {
            snprintf(record->reason, sizeof record->reason,
                     "%llu bytes at %#llx cannot be copied (error %d)",
                     (unsigned long long)region->size, (unsigned long long)region->address, error);
            return -1;
        }
    }
    return 0;
}

static enum record_status snapshot(struct capture_control* control, const struct launch* launch) {
    struct capture_record* record = &control->record;
    const uint64_t layout = control->functions[record->function_index].layout;
    if (layout >= MAX_LAYOUTS) {
        refuse(record, "its layout is inconsistent");
        return RECORD_REFUSED;
    }
    if (runtime_is_stream_capturing(launch->stream)) {
        refuse(record, "its stream is being captured into a graph: nothing runs at that moment");
        return RECORD_REFUSED;
    }
    if ((launch->counts_work_items && count_workgroups(record) != 0) ||
        gather_kernarg(record, &control->layouts[layout], launch) != 0 ||
        reach_regions(record, &control->layouts[layout], control->max_bytes) != 0) {
        return RECORD_REFUSED;
    }
    if (!place_contents(record)) {
        return RECORD_NEED_SPACE;
    }
    if (runtime_synchronize(launch->stream) != HIP_SUCCESS) {
        refuse(record, "its stream cannot be synchronized");
        return RECORD_REFUSED;
    }
    return copy_contents(record, false) == 0 ? RECORD_CAPTURED : RECORD_REFUSED;
}

static void ask(struct capture_record* record, void* function) {
    for (size_t i = 0; i < sizeof kAttributes / sizeof kAttributes[0]; ++i) {
        record->attributes[i] = runtime_function_attribute(function, kAttributes[i]);
    }
}

static uint64_t generation_of(const struct capture_control* control) {
    return __atomic_load_n(&control->generation, __ATOMIC_ACQUIRE);
}

// With the record claimed: true if the launch is now between its two snapshots.
static bool begin_claimed(struct capture_control* control, const struct launch* launch, int index) {
    struct capture_record* record = &control->record;
    const uint64_t start = now_ns(), generation = generation_of(control);
    // Again: a module may have been unloaded since, and the entry given to another function.
    const enum verdict verdict =
        function_verdict(control, index, (uint64_t)launch->function, generation);
    if (verdict != VERDICT_WANTED && verdict != VERDICT_UNKNOWN) {
        __atomic_store_n(&control->state, STATE_ARMED, __ATOMIC_RELEASE);
        return false;
    }
    struct runtime_scope scope;
    fill_header(record, launch, index, generation);
    if (!runtime_enter(&scope)) {
        refuse(record, "its thread has a HIP error pending");
        publish(control, RECORD_REFUSED);
        return false;
    }
    enum record_status status = RECORD_QUESTION;
    if (verdict == VERDICT_WANTED) {
        status = snapshot(control, launch);
    } else {
        ask(record, launch->function);
    }
    runtime_leave(&scope);
    record->pause_ns = now_ns() - start;
    if (status != RECORD_CAPTURED) {
        publish(control, status);
        return false;
    }
    return true;
}

bool launch_begin(struct capture_control* control, const struct launch* launch) {
    const uint64_t function = (uint64_t)launch->function, generation = generation_of(control);
    const int index = function_find(control, function);
    if (index < 0) {
        return false;
    }
    enum verdict verdict = function_verdict(control, index, function, generation);
    if (verdict == 0) {
        const char* name = runtime_kernel_name(launch->function);
        verdict = function_classify(control, index, generation, name);
    }
    if (verdict == VERDICT_UNWANTED || t_is_inside || !claim_record(control)) {
        return false;
    }
    t_is_inside = true;
    const bool is_held = begin_claimed(control, launch, index);
    t_is_inside = is_held;
    return is_held;
}

void launch_captured(const struct launch* launch, int result) {
    struct capture_control* control = atomic_load(&g_control);
    struct capture_record* record = &control->record;
    const uint64_t start = now_ns();
    enum record_status status = RECORD_REFUSED;
    struct runtime_scope scope;
    if (result != HIP_SUCCESS) {
        snprintf(record->reason, sizeof record->reason, "the launch failed with error %d", result);
    } else if (!runtime_enter(&scope)) {
        refuse(record, "the launch left a HIP error behind");
    } else {
        if (runtime_synchronize(launch->stream) != HIP_SUCCESS) {
            refuse(record, "the kernel failed");
        } else if (copy_contents(record, true) == 0) {
            status = RECORD_CAPTURED;
        }
        runtime_leave(&scope);
    }
    record->pause_ns += now_ns() - start;
    publish(control, status);
    t_is_inside = false;
}

void launch_forget_functions(void) {
    struct capture_control* control = atomic_load(&g_control);
    if (control != NULL) {
        function_forget_all(control);
    }
}
