// One capture of this process: the shared control block, the data memory, the hooks in the table's
// slots.
//
// The library stays loaded for ever; a session ends by `asmevo_capture_close` or when the
// controller has not moved the deadline in time (a watchdog thread looks). A forked child inherits
// no session.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "capture_control.h"
#include "function_table.h"
#include "hip_table.h"

// The control block, or NULL where no session was ever opened. Never unmapped: a hook may be
// reading it.
extern _Atomic(struct capture_control*) g_control;

// The tables of the mapped copies of the library; only added to.
enum { MAX_COPIES = 4 };
extern struct hip_table g_tables[MAX_COPIES];
extern int g_table_count;

// The data memory; valid for the thread that holds the record (STATE_BUSY).
extern uint8_t* g_data;
extern size_t g_data_bytes;

static inline enum control_state control_state_of(const struct capture_control* control) {
    return __atomic_load_n(&control->state, __ATOMIC_ACQUIRE);
}

// The control block if a launch of `function` may have to be captured, else NULL: what every launch
// pays for.
static inline struct capture_control* control_for(const void* function) {
    struct capture_control* control = atomic_load_explicit(&g_control, memory_order_relaxed);
    if (control == NULL) {
        return NULL;
    }
    const enum control_state state = control_state_of(control);
    if (state == STATE_ARMED) {
        return function_is_unwanted(control, (uint64_t)function) ? NULL : control;
    }
    return state == STATE_COUNTING ? control : NULL;
}
