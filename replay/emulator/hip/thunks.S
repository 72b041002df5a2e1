// The dispatch tables and the exported functions, in ROCm's shape: an exported function fetches its table
// (`call`) and jumps through its slot (`jmp [rax + 8 + 8 * index]`). A tool that swaps a slot from outside sees
// every call, whether the caller linked, used dlsym or hipGetProcAddress. The tables are writable data and each
// slot is an aligned quadword, so that one atomic store swaps it.
//
// A slot's implementation is the hidden function slot_NAME. Every slot has a weak one here that reports itself as
// unsupported; a definition in C++ overrides it.

    .intel_syntax noprefix
    .text

    .type get_hip_dispatch_table, @function
get_hip_dispatch_table:
    lea rax, [rip + asmevo_hip_dispatch_table]
    ret
    .size get_hip_dispatch_table, . - get_hip_dispatch_table

    .type get_hip_compiler_dispatch_table, @function
get_hip_compiler_dispatch_table:
    lea rax, [rip + asmevo_hip_compiler_dispatch_table]
    ret
    .size get_hip_compiler_dispatch_table, . - get_hip_compiler_dispatch_table

// Arguments stay where the caller put them, in registers and on the stack.
.macro thunk index, name, table
    .globl \name
    .type \name, @function
    .p2align 4
\name:
thunk_\name:
    push rdi
    push rsi
    push rdx
    push rcx
    push r8
    push r9
    sub rsp, 8
    call \table
    add rsp, 8
    pop r9
    pop r8
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    jmp qword ptr [rax + 8 + 8 * \index]
    .size \name, . - \name
.endm

.macro unsupported index, name, report
    .weak slot_\name
    .hidden slot_\name
    .type slot_\name, @function
slot_\name:
    mov edi, \index
    jmp \report
    .size slot_\name, . - slot_\name
.endm

#define SLOT(index, name) thunk index, name, get_hip_dispatch_table
#include "runtime_slots.inc"
#undef SLOT
#define SLOT(index, name) thunk index, name, get_hip_compiler_dispatch_table
#include "compiler_slots.inc"
#undef SLOT
#define SLOT(index, name) unsupported index, name, asmevo_hip_unsupported_slot
#include "runtime_slots.inc"
#undef SLOT
#define SLOT(index, name) unsupported index, name, asmevo_hip_unsupported_compiler_slot
#include "compiler_slots.inc"
#undef SLOT

// hipChooseDevice's exported name since ROCm 6 carries the version of hipDeviceProp_t.
    .globl hipChooseDeviceR0600
    .type hipChooseDeviceR0600, @function
    .set hipChooseDeviceR0600, thunk_hipChooseDevice

.macro slot_pointer name
    .quad slot_\name
.endm
.macro thunk_pointer name
    .quad thunk_\name
.endm

    .data
    .p2align 6
    .globl asmevo_hip_dispatch_table
    .hidden asmevo_hip_dispatch_table
    .type asmevo_hip_dispatch_table, @object
asmevo_hip_dispatch_table:
    .quad asmevo_hip_dispatch_table_end - asmevo_hip_dispatch_table
#define SLOT(index, name) slot_pointer name
#include "runtime_slots.inc"
#undef SLOT
asmevo_hip_dispatch_table_end:
    .size asmevo_hip_dispatch_table, . - asmevo_hip_dispatch_table

    .p2align 6
    .type asmevo_hip_compiler_dispatch_table, @object
asmevo_hip_compiler_dispatch_table:
    .quad asmevo_hip_compiler_dispatch_table_end - asmevo_hip_compiler_dispatch_table
#define SLOT(index, name) slot_pointer name
#include "compiler_slots.inc"
#undef SLOT
asmevo_hip_compiler_dispatch_table_end:
    .size asmevo_hip_compiler_dispatch_table, . - asmevo_hip_compiler_dispatch_table

// Addresses of our own exports for hipGetProcAddress, whatever a preloaded library may define.
    .section .data.rel.ro, "aw", @progbits
    .p2align 3
    .globl asmevo_hip_thunks
    .hidden asmevo_hip_thunks
    .type asmevo_hip_thunks, @object
asmevo_hip_thunks:
#define SLOT(index, name) thunk_pointer name
#include "runtime_slots.inc"
#undef SLOT
    .size asmevo_hip_thunks, . - asmevo_hip_thunks

    .section .note.GNU-stack, "", @progbits
