// What the hot path inside the target shares with the capturing process: one block of shared
// memory.
//
// `state` says who owns the record: the target while BUSY, the controller while READY. What is not
// ARMED is launched without a capture. The one launch that waits for the controller, and not for
// long, is the first one of a wanted kernel (launch.c). The Python side is
// capture/control_block.py; the offsets asserted below are tested there.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Raise with every change of a structure below or of an exported function.
enum { CONTROL_VERSION = 4 };

enum {
    MAX_GLOBS = 64,
    MAX_GLOB_BYTES = 1024,
    MAX_FUNCTIONS = 4096,  // a power of two
    MAX_NAMES = 2048,      // a power of two
    MAX_LAYOUTS = 512,
    MAX_ARGUMENTS = 256,
    MAX_KERNARG_BYTES = 8192,
    MAX_KERNARG_WORDS = MAX_KERNARG_BYTES / 8,
    MAX_VARIABLES = 64,
    MAX_REGIONS = 4096,
    MAX_ABSENT = 64,
    MAX_WANTED_RANGES = 4096,
    MAX_MEMORY_POINTERS = 2048,
    MAX_SHAPES = 8,
    MAX_TAKEN_SHAPES = 8192,  // a power of two
    MAX_STATISTICS_NAME = 512,
    MAX_NAME_BYTES = 8192,
    MAX_REASON_BYTES = 256,
};

enum control_state {
    STATE_CLOSED,    // no hook is in place
    STATE_IDLE,      // hooks are in place and let everything pass
    STATE_ARMED,     // the next wanted launch takes the record
    STATE_BUSY,      // a launching thread fills the record
    STATE_READY,     // the controller reads the record
    STATE_COUNTING,  // launches are counted, some of them timed, none is captured
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

enum region_kind {
    KIND_DEVICE,
    KIND_PINNED_HOST,
    KIND_MANAGED,
    KIND_PAGEABLE_HOST,
    KIND_MODULE_GLOBAL,
};

enum coherence { COHERENCE_UNKNOWN, COHERENCE_COARSE, COHERENCE_FINE };

// A function that was launched: a hipFunction_t, or the host symbol that stands for one. Verdicts
// of an older generation do not count: a module was unloaded since, and handles may have been given
// to other functions.
struct capture_function {
    uint64_t function;  // 0: free
    uint64_t verdict;   // generation << 32 | enum verdict, written as one
    uint64_t layout;    // index, when wanted
    uint64_t calls;     // launches since it is wanted
    uint64_t due;       // the first of them to be captured next
    uint64_t statistics;  // index of its name's
};

enum argument_role {
    ARGUMENT_VALUE,    // part of what tells shapes apart
    ARGUMENT_POINTER,
    ARGUMENT_VARYING,  // a value that is another one at each launch
};

// Where the explicit arguments go in the kernarg segment, in the order of the launch's parameters,
// and the variables of its code object.
struct capture_layout {
    uint32_t argument_count;
    uint32_t kernarg_bytes;
    uint32_t variable_count;
    uint32_t reserved;
    struct {
        uint32_t offset;
        uint16_t size, role;
    } arguments[MAX_ARGUMENTS];
    uint8_t pointers[MAX_KERNARG_WORDS];  // 1: the metadata says that this word is a pointer
    struct {
        uint64_t address, size;
    } variables[MAX_VARIABLES];
};

// What was counted of all functions of one name.
struct capture_statistics {
    uint64_t name_hash;  // 0: free
    uint64_t launches, graph_launches;
    uint64_t samples, sampled_ns;
    uint32_t shape_count;  // MAX_SHAPES + 1: there were more
    uint32_t name_bytes;
    struct {
        uint64_t launches;
        uint32_t grid[3], block[3];
        uint32_t dynamic_lds_bytes, reserved;
    } shapes[MAX_SHAPES];
    char name[MAX_STATISTICS_NAME];  // its beginning, where it is longer
};

struct capture_region {
    uint64_t address, size;
    uint64_t before, after;  // offsets in the data memory
    uint64_t kind, coherence;
    uint64_t allocation, allocation_size;  // 0: not known
    uint64_t variable;                     // index in the layout, of a module global
};

// A pointer that was found in memory: where it stands and where it points.
struct capture_memory_pointer {
    uint64_t at, value;
};

// Memory that is captured although its allocation is too large to be: pages that an execution of an
// earlier launch has touched.
struct capture_wanted_range {
    uint64_t address, size;
    uint64_t layout;  // of functions with this layout only
};

struct capture_record {
    uint32_t status;
    uint32_t launch_slot;  // enum hip_slot
    uint64_t function;
    uint64_t handle;  // hipFunction_t; 0: only the host symbol is known
    uint64_t function_index;
    uint64_t generation;
    uint64_t stream;
    uint32_t grid[3], block[3];
    uint64_t dynamic_lds_bytes;
    uint64_t need_bytes;
    uint64_t pause_ns;
    uint64_t call;          // number of this launch among those of the function
    int32_t attributes[8];  // hipFuncGetAttribute 0, 1, 3, 4; -1: unknown
    uint32_t kernarg_bytes;
    uint32_t region_count;
    uint32_t name_bytes;
    uint32_t is_cooperative;
    uint32_t has_after;
    int32_t device;      // ordinal; -1: unknown
    int32_t graph_node;  // -1: no graph
    uint32_t memory_pointer_count;
    uint32_t absent_count;
    int32_t shape;  // 1 + its place among the taken ones; 0: none
    char reason[MAX_REASON_BYTES];
    char name[MAX_NAME_BYTES];
    uint8_t kernarg[MAX_KERNARG_BYTES];
    // For each 4 bytes of the kernarg: the region that the 8 bytes from there on point into, or -1.
    int16_t pointer_regions[MAX_KERNARG_BYTES / 4];
    struct capture_region regions[MAX_REGIONS];
    struct capture_memory_pointer memory_pointers[MAX_MEMORY_POINTERS];
    // Allocations that are too large to be captured whole.
    struct capture_region absent[MAX_ABSENT];
};

struct capture_control {
    uint32_t version;
    uint32_t state;        // enum control_state
    uint64_t bytes;        // of this structure
    uint64_t deadline_ns;  // CLOCK_MONOTONIC; past it the hooks take themselves out
    uint64_t beat_ns;      // CLOCK_MONOTONIC: when the controller last gave a sign of life
    uint64_t max_bytes;    // of the regions of one dispatch
    uint64_t generation;
    uint64_t first_call, every;  // capture this launch of a function, then each so many
    uint64_t window_bytes;       // on both sides of where a pointer points; 0: the allocation
    uint64_t whole_bytes;        // larger allocations only by wanted ranges; 0: none is too large
    uint64_t scan_bytes;         // of memory behind each pointer that is searched for pointers
    uint64_t graph_launches, unknown_graph_launches, stream_captures;
    uint32_t glob_count;
    uint32_t takes_shapes;  // one dispatch for each distinct shape
    uint32_t takes_after;
    uint32_t takes_graphs;
    uint32_t wanted_range_count, reserved;
    char globs[MAX_GLOBS][MAX_GLOB_BYTES];
    struct capture_function functions[MAX_FUNCTIONS];
    struct capture_statistics statistics[MAX_NAMES];
    uint64_t taken_shapes[MAX_TAKEN_SHAPES];
    struct capture_layout layouts[MAX_LAYOUTS];
    struct capture_wanted_range wanted_ranges[MAX_WANTED_RANGES];
    struct capture_record record;
};

_Static_assert(offsetof(struct capture_control, globs) == 136, "control block");
_Static_assert(offsetof(struct capture_control, functions) == 65672, "control block");
_Static_assert(offsetof(struct capture_control, statistics) == 262280, "control block");
_Static_assert(offsetof(struct capture_control, taken_shapes) == 2064520, "control block");
_Static_assert(offsetof(struct capture_control, layouts) == 2130056, "control block");
_Static_assert(offsetof(struct capture_control, wanted_ranges) == 4235400, "control block");
_Static_assert(offsetof(struct capture_control, record) == 4333704, "control block");
_Static_assert(sizeof(struct capture_control) == 4686904, "control block");
