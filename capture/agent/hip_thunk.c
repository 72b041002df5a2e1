// What compilers make of `return GetHipDispatchTable()->hipX_fn(arguments…);` on x86-64:
//
//     save arguments · call getter · restore arguments · jmp/call [rax + disp]
//                                                     or mov reg, [rax + disp] … jmp/call reg
//
// seen with gcc 12 and clang 22 at -O0 to -O3, with and without CET and stack protectors. The
// decoder walks the first straight-line instructions. It knows the length of the instructions that
// occur there and refuses everything else, so that a guess is never taken for a fact.
#include "hip_thunk.h"

#include <stdbool.h>
#include <string.h>

enum { REG_RAX = 0, REG_RSP = 4, REG_RIP_BASE = 5 };

struct instruction {
    size_t length;
    uint8_t rex;
    bool is_two_byte;  // opcode map 0F
    uint8_t opcode;
    bool has_modrm;
    uint8_t mod, reg, rm;  // reg and rm with their REX bits
    bool has_index;        // the address has a scaled index
    bool is_rip_relative;
    int32_t displacement;
    int32_t immediate;  // of branches: relative target
};

struct cursor {
    const uint8_t* code;
    size_t limit;
    size_t at;
};

static bool take(struct cursor* cursor, size_t bytes, int64_t* value) {
    if (cursor->limit - cursor->at < bytes) {
        return false;
    }
    uint64_t raw = 0;
    memcpy(&raw, cursor->code + cursor->at, bytes);
    cursor->at += bytes;
    const unsigned shift = (unsigned)(64 - 8 * bytes);
    *value = bytes == 0 ? 0 : (int64_t)(raw << shift) >> shift;
    return true;
}

static bool take_byte(struct cursor* cursor, uint8_t* value) {
    int64_t wide;
    if (!take(cursor, 1, &wide)) {
        return false;
    }
    *value = (uint8_t)wide;
    return true;
}

static bool decode_modrm(struct cursor* cursor, struct instruction* in) {
    uint8_t modrm;
    if (!take_byte(cursor, &modrm)) {
        return false;
    }
    in->has_modrm = true;
    in->mod = modrm >> 6;
    in->reg = ((modrm >> 3) & 7) | ((in->rex & 4) << 1);
    in->rm = modrm & 7;
    if (in->mod == 3) {
        in->rm |= (in->rex & 1) << 3;
        return true;
    }
    size_t displacement_bytes = in->mod == 1 ? 1 : in->mod == 2 ? 4 : 0;
    if (in->rm == REG_RSP) {
        uint8_t sib;
        if (!take_byte(cursor, &sib)) {
            return false;
        }
        in->has_index = (((sib >> 3) & 7) | ((in->rex & 2) << 2)) != REG_RSP;
        in->rm = sib & 7;
        if (in->mod == 0 && in->rm == REG_RIP_BASE) {
            in->has_index = true;  // no base register at all: nothing this file looks for
            displacement_bytes = 4;
        }
    } else if (in->mod == 0 && in->rm == REG_RIP_BASE) {
        in->is_rip_relative = true;
        displacement_bytes = 4;
    }
    in->rm |= (in->rex & 1) << 3;
    int64_t displacement;
    if (!take(cursor, displacement_bytes, &displacement)) {
        return false;
    }
    in->displacement = (int32_t)displacement;
    return true;
}

// Immediate bytes of a one-byte opcode, or -1 where the opcode is not known here.
static int immediate_bytes(const struct instruction* in, bool has_16_bit_prefix) {
    const uint8_t op = in->opcode;
    const int word = has_16_bit_prefix ? 2 : 4;
    if (op < 0x40) {
        return (op & 7) <= 3 ? 0 : (op & 7) == 4 ? 1 : (op & 7) == 5 ? word : -1;
    }
    if ((op >= 0x50 && op <= 0x5f) || op == 0x63 || (op >= 0x84 && op <= 0x8d && op != 0x8c)) {
        return 0;
    }
    if ((op >= 0x70 && op <= 0x7f) || op == 0xeb || op == 0x6a || op == 0x6b || op == 0x80 ||
        op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xa8) {
        return 1;
    }
    if (op == 0x68 || op == 0x69 || op == 0x81 || op == 0xc7 || op == 0xa9) {
        return word;
    }
    if (op == 0xe8 || op == 0xe9) {
        return 4;
    }
    if (op >= 0xb8 && op <= 0xbf) {
        return in->rex & 8 ? 8 : word;
    }
    if (op == 0x90 || op == 0x98 || op == 0x99 || op == 0xc3 || op == 0xc9 || op == 0xff ||
        (op >= 0xd0 && op <= 0xd3)) {
        return 0;
    }
    return -1;
}

static bool has_modrm_byte(uint8_t op) {
    return (op < 0x40 && (op & 7) <= 3) || op == 0x63 || op == 0x69 || op == 0x6b || op == 0x80 ||
           op == 0x81 || op == 0x83 || (op >= 0x84 && op <= 0x8d) || op == 0xc0 || op == 0xc1 ||
           op == 0xc6 || op == 0xc7 || op == 0xff || (op >= 0xd0 && op <= 0xd3);
}

// Two-byte opcodes that occur: nops and endbr64, SSE moves, cmov, setcc, imul, movzx/movsx.
static bool is_known_two_byte(uint8_t op) {
    return op == 0x10 || op == 0x11 || (op >= 0x18 && op <= 0x1f) || op == 0x28 || op == 0x29 ||
           (op >= 0x40 && op <= 0x4f) || op == 0x57 || op == 0x6c || op == 0x6e || op == 0x6f ||
           op == 0x7e || op == 0x7f || (op >= 0x90 && op <= 0x9f) || op == 0xaf || op == 0xb6 ||
           op == 0xb7 || op == 0xbe || op == 0xbf || op == 0xd6 || op == 0xef;
}

static bool decode_instruction(const uint8_t* code, size_t limit, struct instruction* in) {
    struct cursor cursor = {code, limit, 0};
    memset(in, 0, sizeof *in);
    bool has_16_bit_prefix = false;
    uint8_t byte;
    do {
        if (!take_byte(&cursor, &byte)) {
            return false;
        }
        has_16_bit_prefix |= byte == 0x66;
    } while (byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x64 || byte == 0x2e ||
             byte == 0x3e);
    if ((byte & 0xf0) == 0x40) {
        in->rex = byte;
        if (!take_byte(&cursor, &byte)) {
            return false;
        }
    }
    int immediate = 0;
    in->is_two_byte = byte == 0x0f;
    if (in->is_two_byte) {
        if (!take_byte(&cursor, &in->opcode)) {
            return false;
        }
        if (in->opcode >= 0x80 && in->opcode <= 0x8f) {  // jcc rel32
            immediate = 4;
        } else if (!is_known_two_byte(in->opcode) || !decode_modrm(&cursor, in)) {
            return false;
        }
    } else {
        in->opcode = byte;
        immediate = immediate_bytes(in, has_16_bit_prefix);
        if (immediate < 0 || (has_modrm_byte(byte) && !decode_modrm(&cursor, in))) {
            return false;
        }
    }
    int64_t value;
    if (!take(&cursor, (size_t)immediate, &value)) {
        return false;
    }
    in->immediate = (int32_t)value;
    in->length = cursor.at;
    return true;
}

static bool is_memory_through(const struct instruction* in, uint16_t registers) {
    return in->has_modrm && (in->mod == 1 || in->mod == 2) && !in->has_index &&
           (registers >> in->rm & 1);
}

// Loads, jumps or calls through memory: the instructions that read a slot.
static bool reads_quadword(const struct instruction* in) {
    if (in->is_two_byte) {
        return false;
    }
    const bool is_mov = in->opcode == 0x8b && (in->rex & 8);
    const bool is_call_or_jump = in->opcode == 0xff && ((in->reg & 7) == 2 || (in->reg & 7) == 4);
    return is_mov || is_call_or_jump;
}

// Follows registers that hold the table (bits of `holders`) until an instruction reads a slot.
int hip_thunk_decode(const uint8_t* code, size_t limit, struct hip_thunk* thunk) {
    uint16_t holders = 0;
    size_t at = 0;
    for (int count = 0; count < 96 && at < limit; ++count) {
        struct instruction in;
        if (!decode_instruction(code + at, limit - at, &in)) {
            return -1;
        }
        at += in.length;
        const uintptr_t next = (uintptr_t)(code + at);
        const bool is_one_byte = !in.is_two_byte;
        if (holders != 0 && reads_quadword(&in) && is_memory_through(&in, holders)) {
            thunk->displacement = in.displacement;
            return 0;
        }
        if (is_one_byte && in.opcode == 0xe8) {
            if (holders != 0) {
                return -1;  // a second call: not a plain thunk
            }
            *thunk =
                (struct hip_thunk){HIP_THUNK_GETTER, next + (uintptr_t)(intptr_t)in.immediate, 0};
            holders = 1 << REG_RAX;
        } else if (is_one_byte && in.is_rip_relative && in.opcode == 0xff && (in.reg & 7) == 2 &&
                   holders == 0) {
            thunk->kind = HIP_THUNK_GETTER_POINTER;
            thunk->address = next + (uintptr_t)(intptr_t)in.displacement;
            holders = 1 << REG_RAX;
        } else if (is_one_byte && in.is_rip_relative && (in.rex & 8) &&
                   (in.opcode == 0x8b || in.opcode == 0x8d)) {
            thunk->kind = in.opcode == 0x8b ? HIP_THUNK_POINTER : HIP_THUNK_TABLE;
            thunk->address = next + (uintptr_t)(intptr_t)in.displacement;
            holders = (uint16_t)(1 << in.reg);
        } else if (is_one_byte && in.mod == 3 && (in.rex & 8) && in.opcode == 0x89 &&
                   (holders >> in.reg & 1)) {
            holders |= (uint16_t)(1 << in.rm);
        } else if (is_one_byte && in.mod == 3 && (in.rex & 8) && in.opcode == 0x8b &&
                   (holders >> in.rm & 1)) {
            holders |= (uint16_t)(1 << in.reg);
        } else if (is_one_byte && (in.opcode == 0xc3 || in.opcode == 0xe9 || in.opcode == 0xeb ||
                                   (in.opcode == 0xff && (in.reg & 7) >= 2 && (in.reg & 7) <= 5))) {
            return -1;  // the straight line ends without a slot
        } else if (is_one_byte && in.has_modrm && (in.opcode == 0x8b || in.opcode == 0x8d)) {
            holders &= (uint16_t)~(1 << in.reg);  // overwritten by something else
        }
    }
    return -1;
}
