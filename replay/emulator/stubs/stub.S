// The functions of one ROCm library that is not here: each says its name and gives the library's status for what is
// not supported. NAMES is the list to include.

    .intel_syntax noprefix

.macro stub name, handler
    .text
    .globl \name
    .type \name, @function
    .p2align 3
\name:
    lea rdi, [rip + name_\name]
    lea rsi, [rip + told_\name]
    jmp \handler
    .size \name, . - \name

    .section .rodata.names, "a", @progbits
name_\name:
    .asciz "\name"

    .bss
told_\name:
    .skip 1
.endm

#define STUB(name) stub name, asmevo_refuse
#define TEXT(name) stub name, asmevo_refuse_text
#include NAMES

    .section .note.GNU-stack, "", @progbits
