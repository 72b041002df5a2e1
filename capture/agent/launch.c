#define _GNU_SOURCE
#include "launch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "counting.h"
#include "function_table.h"
#include "runtime.h"
#include "shape.h"
#include "snapshot.h"

// The first launch of a wanted kernel waits for the controller to say its layout, so that it can be
// captured: at most so long, and only while the controller shows signs of life.
enum { ANSWER_PATIENCE_MS = 50, BEAT_PATIENCE_MS = 1500 };

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

static void release_record(struct capture_control* control) {
    __atomic_store_n(&control->state, STATE_ARMED, __ATOMIC_RELEASE);
}

static void publish(struct capture_control* control, enum record_status status) {
    control->record.status = status;
    __atomic_store_n(&control->state, STATE_READY, __ATOMIC_RELEASE);
}

static const char* name_of(const struct launch* launch) {
    return launch->is_host_symbol
               ? runtime_symbol_name(launch->table, launch->function, launch->stream)
               : runtime_kernel_name(launch->table, launch->function);
}

// The runtime is entered: what does not know the function leaves an error behind.
static void fill_name_and_handle(struct capture_record* record, const struct launch* launch) {
    const char* name = name_of(launch);
    record->name_bytes = name == NULL ? 0 : (uint32_t)strnlen(name, MAX_NAME_BYTES - 1);
    memcpy(record->name, name == NULL ? "" : name, record->name_bytes);
    record->handle = launch->is_host_symbol
                         ? (uint64_t)runtime_symbol_function(launch->table, launch->function)
                         : (uint64_t)launch->function;
}

// The name as it was when the function was first seen, or its beginning.
static void fill_known_name(const struct capture_control* control, struct capture_record* record) {
    const uint64_t at = control->functions[record->function_index].statistics % MAX_NAMES;
    const struct capture_statistics* known = &control->statistics[at];
    record->name_bytes = known->name_bytes < MAX_STATISTICS_NAME ? known->name_bytes
                                                                 : MAX_STATISTICS_NAME;
    memcpy(record->name, known->name, record->name_bytes);
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
    record->is_cooperative = launch->is_cooperative;
    record->graph_node = launch->graph_node - 1;
    record->device = -1;
}

static void ask(struct capture_record* record, const struct launch* launch) {
    for (size_t i = 0; i < sizeof kAttributes / sizeof kAttributes[0]; ++i) {
        record->attributes[i] =
            record->handle == 0 ? -1
                                : runtime_function_attribute(launch->table, (void*)record->handle,
                                                             kAttributes[i]);
    }
}

static enum record_status snapshot(struct capture_control* control, const struct launch* launch,
                                   bool* is_passed) {
    struct capture_record* record = &control->record;
    const uint64_t index = control->functions[record->function_index].layout;
    if (index >= MAX_LAYOUTS) {
        snapshot_refuse(record, "its layout is inconsistent");
        return RECORD_REFUSED;
    }
    // Before anything that a captured stream would not survive.
    if (runtime_is_stream_capturing(launch->table, launch->stream)) {
        snapshot_refuse(record,
                        "its stream is being captured into a graph: nothing runs at that moment");
        return RECORD_REFUSED;
    }
    const struct capture_layout* layout = &control->layouts[index];
    if (snapshot_arguments(record, layout, launch) != 0) {
        return RECORD_REFUSED;
    }
    if (control->takes_shapes && shape_is_taken(control, shape_of(record, layout, index))) {
        *is_passed = true;
        return RECORD_REFUSED;
    }
    record->device = runtime_device(launch->table);
    return snapshot_before(control, layout, launch);
}

static uint64_t generation_of(const struct capture_control* control) {
    return __atomic_load_n(&control->generation, __ATOMIC_ACQUIRE);
}

// With the record claimed: true if the launch is now between its two snapshots.
static bool begin_claimed(struct capture_control* control, const struct launch* launch, int index,
                          uint64_t call) {
    struct capture_record* record = &control->record;
    const uint64_t start = now_ns(), generation = generation_of(control);
    // Again: a module may have been unloaded since, and the entry given to another function.
    const enum verdict verdict =
        function_verdict(control, index, (uint64_t)launch->function, generation);
    if (verdict != VERDICT_WANTED && verdict != VERDICT_UNKNOWN) {
        release_record(control);
        return false;
    }
    struct runtime_scope scope;
    fill_header(record, launch, index, generation);
    record->call = call;
    if (!runtime_enter(launch->table, &scope)) {
        fill_known_name(control, record);
        snapshot_refuse(record, "its thread has a HIP error pending");
        publish(control, RECORD_REFUSED);
        return false;
    }
    fill_name_and_handle(record, launch);
    enum record_status status = RECORD_QUESTION;
    bool is_passed = false;
    if (verdict == VERDICT_WANTED) {
        status = snapshot(control, launch, &is_passed);
    } else {
        ask(record, launch);
    }
    runtime_leave(launch->table, &scope);
    record->pause_ns = now_ns() - start;
    if (is_passed) {
        release_record(control);
    } else if (status != RECORD_CAPTURED) {
        publish(control, status);
    }
    return status == RECORD_CAPTURED;
}

int launch_find_function(struct capture_control* control, const struct launch* launch,
                         enum verdict* verdict) {
    const uint64_t function = (uint64_t)launch->function, generation = generation_of(control);
    const int index = function_find(control, function);
    if (index >= 0) {
        *verdict = function_verdict(control, index, function, generation);
        struct runtime_scope scope;
        if (*verdict == 0 && !runtime_enter(launch->table, &scope)) {
            return -1;  // its thread has an error pending: the next launch will do
        }
        if (*verdict == 0) {
            *verdict = function_classify(control, index, generation, name_of(launch));
            runtime_leave(launch->table, &scope);
        }
    }
    return index;
}

// Until the controller has said what becomes of the function; false if it does not in time.
static bool wait_for_answer(const struct capture_control* control, const struct launch* launch,
                            int index, uint64_t deadline_ns) {
    const uint64_t beat = __atomic_load_n(&control->beat_ns, __ATOMIC_RELAXED);
    if (now_ns() > beat + BEAT_PATIENCE_MS * 1000000ull) {
        return false;
    }
    while (now_ns() < deadline_ns) {
        const uint64_t generation = generation_of(control);
        const enum verdict verdict =
            function_verdict(control, index, (uint64_t)launch->function, generation);
        if (verdict != VERDICT_UNKNOWN) {
            return verdict == VERDICT_WANTED;
        }
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    return false;
}

// Whether this launch of a wanted function is one to be captured.
static bool is_due(struct capture_control* control, int index, uint64_t* call) {
    struct capture_function* entry = &control->functions[index];
    *call = __atomic_fetch_add(&entry->calls, 1, __ATOMIC_RELAXED);
    return *call >= control->first_call && *call >= __atomic_load_n(&entry->due, __ATOMIC_RELAXED);
}

static bool begin_wanted(struct capture_control* control, struct launch* launch, int index,
                         enum verdict verdict) {
    uint64_t call = 0;
    if (verdict == VERDICT_UNKNOWN) {
        const uint64_t deadline = now_ns() + ANSWER_PATIENCE_MS * 1000000ull;
        if (claim_record(control)) {
            begin_claimed(control, launch, index, 0);
        }
        if (!wait_for_answer(control, launch, index, deadline) ||
            !is_due(control, index, &call)) {
            return false;
        }
        while (!claim_record(control)) {
            if (now_ns() > deadline || control_state_of(control) == STATE_CLOSED) {
                return false;
            }
            nanosleep(&(struct timespec){0, 50000}, NULL);
        }
    } else if (!is_due(control, index, &call) || !claim_record(control)) {
        return false;
    }
    return begin_claimed(control, launch, index, call);
}

bool launch_begin(struct capture_control* control, struct launch* launch) {
    if (t_is_inside) {
        return false;
    }
    enum verdict verdict;
    const int index = launch_find_function(control, launch, &verdict);
    if (index < 0) {
        return false;
    }
    if (control_state_of(control) == STATE_COUNTING) {
        t_is_inside = true;
        counting_begin(control, launch, index);
        t_is_inside = launch->sample != 0;
        return launch->sample != 0;
    }
    if (verdict == VERDICT_UNWANTED) {
        return false;
    }
    t_is_inside = true;
    const bool is_held = begin_wanted(control, launch, index, verdict);
    t_is_inside = is_held;
    return is_held;
}

static void note_taken(struct capture_control* control) {
    struct capture_record* record = &control->record;
    struct capture_function* entry = &control->functions[record->function_index];
    __atomic_store_n(&entry->due, record->call + (control->every ? control->every : 1),
                     __ATOMIC_RELAXED);
    if (control->takes_shapes) {
        const struct capture_layout* layout = &control->layouts[entry->layout % MAX_LAYOUTS];
        record->shape = 1 + shape_take(control, shape_of(record, layout, entry->layout));
    }
}

void launch_end(const struct launch* launch, int result) {
    struct capture_control* control = atomic_load(&g_control);
    if (launch->sample != 0) {
        counting_end(launch);
        t_is_inside = false;
        return;
    }
    struct capture_record* record = &control->record;
    const uint64_t start = now_ns();
    enum record_status status = RECORD_REFUSED;
    struct runtime_scope scope;
    if (result != HIP_SUCCESS) {
        snprintf(record->reason, sizeof record->reason, "the launch failed with error %d", result);
    } else if (!runtime_enter(launch->table, &scope)) {
        snapshot_refuse(record, "the launch left a HIP error behind");
    } else {
        if (snapshot_after(record, launch) == 0) {
            status = RECORD_CAPTURED;
            note_taken(control);
        }
        runtime_leave(launch->table, &scope);
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
