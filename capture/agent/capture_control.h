// What the hot path inside the target shares with the capturing process: one block of shared
// memory.
//
// `state` says who owns the record: the target while BUSY, the controller while READY. No launch
// ever waits for the controller: what is not ARMED is launched without a capture. The Python side
// is capture/control_block.py; the offsets asserted below are tested there.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Raise with every change of a structure below or of an exported function.
enum { CONTROL_VERSION = 1 };

enum {
    MAX_GLOBS = 32,
    MAX_GLOB_BYTES = 512,
    MAX_FUNCTIONS = 4096,  // a power of two
    MAX_LAYOUTS = 512,
    MAX_ARGUMENTS = 256,
    MAX_KERNARG_BYTES = 8192,
    MAX_KERNARG_WORDS = MAX_KERNARG_BYTES / 8,
    MAX_REGIONS = 512,
    MAX_SEEN = 256,
    MAX_SEEN_BYTES = 248,
    MAX_NAME_BYTES = 8192,
    MAX_REASON_BYTES = 256,
};

enum control_state {
    STATE_CLOSED,  // no hook is in place
    STATE_IDLE,    // hooks are in place and let everything pass
    STATE_ARMED,   // the next wanted launch takes the record
    STATE_BUSY,    // a launching thread fills the record
    STATE_READY,   // the controller reads the record
};

enum record_status {
    RECORD_CAPTURED,
    RECORD_QUESTION,    // the function matches a glob; the controller must say its layout
    RECORD_NEED_SPACE,  // `need_bytes` do not fit into the data memory
    RECORD_REFUSED,     // `reason` says why this launch could not be captured
};

enum verdict {
    VERDICT_UNWANTED = 1,  // no glob matches, enough dispatches are captured, or it was given up
    VERDICT_UNKNOWN,       // a glob matches; the controller has not answered yet
    VERDICT_WANTED,
};

enum region_kind { KIND_DEVICE, KIND_PINNED_HOST, KIND_MANAGED, KIND_PAGEABLE_HOST };

// A hipFunction_t that was launched. Verdicts of an older generation do not count: a module was
// unloaded since, and handles may have been given to other functions.
struct capture_function {
    uint64_t function;  // 0: free
    uint64_t verdict;   // generation << 32 | enum verdict, written as one
    uint64_t layout;    // index, when wanted
};

// Where the explicit arguments go in the kernarg segment, in the order of the launch's parameters.
struct capture_layout {
    uint32_t argument_count;
    uint32_t kernarg_bytes;
    struct {
        uint32_t offset, size;
    } arguments[MAX_ARGUMENTS];
    uint8_t pointers[MAX_KERNARG_WORDS];  // 1: the metadata says that this word is a pointer
};

struct capture_seen {
    uint64_t length;
    char name[MAX_SEEN_BYTES];
};

struct capture_region {
    uint64_t address, size;
    uint64_t before, after;  // offsets in the data memory
    uint64_t kind;
};

struct capture_record {
    uint32_t status;
    uint32_t launch_slot;  // enum hip_slot
    uint64_t function;
    uint64_t function_index;
    uint64_t generation;
    uint64_t stream;
    uint32_t grid[3], block[3];
    uint64_t dynamic_lds_bytes;
    uint64_t need_bytes;
    uint64_t pause_ns;
    int32_t attributes[8];  // hipFuncGetAttribute 0, 1, 3, 4; -1: unknown
    uint32_t kernarg_bytes;
    uint32_t region_count;
    uint32_t name_bytes;
    uint32_t reserved;
    char reason[MAX_REASON_BYTES];
    char name[MAX_NAME_BYTES];
    uint8_t kernarg[MAX_KERNARG_BYTES];
    int16_t word_regions[MAX_KERNARG_WORDS];  // region a kernarg word points into, or -1
    struct capture_region regions[MAX_REGIONS];
};

struct capture_control {
    uint32_t version;
    uint32_t state;        // enum control_state
    uint64_t bytes;        // of this structure
    uint64_t deadline_ns;  // CLOCK_MONOTONIC; past it the hooks take themselves out
    uint64_t max_bytes;    // of the regions of one dispatch
    uint64_t generation;
    uint32_t glob_count;
    uint32_t seen_count;
    char globs[MAX_GLOBS][MAX_GLOB_BYTES];
    struct capture_seen seen[MAX_SEEN];
    struct capture_function functions[MAX_FUNCTIONS];
    struct capture_layout layouts[MAX_LAYOUTS];
    struct capture_record record;
};

_Static_assert(offsetof(struct capture_control, globs) == 48, "control block");
_Static_assert(offsetof(struct capture_control, seen) == 16432, "control block");
_Static_assert(offsetof(struct capture_control, functions) == 81968, "control block");
_Static_assert(offsetof(struct capture_control, layouts) == 180272, "control block");
_Static_assert(offsetof(struct capture_control, record) == 1757232, "control block");
_Static_assert(sizeof(struct capture_control) == 1796536, "control block");
