// The decoder and the operation tables as C functions, for tests that compare them with LLVM.
#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

#include "isa/inst.h"
#include "isa/tables.h"

namespace asmevo::emulator {
namespace {

bool parse_target(std::string_view name, Target& target) {
    if (name == "gfx90a") {
        target = Target::kGfx90a;
    } else if (name == "gfx942") {
        target = Target::kGfx942;
    } else if (name == "gfx950") {
        target = Target::kGfx950;
    } else {
        return false;
    }
    return true;
}

void copy_text(std::string_view text, char* out, size_t capacity) {
    if (capacity == 0) {
        return;
    }
    size_t size = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), size);
    out[size] = '\0';
}

const OpInfo* row_at(size_t index) {
    for (auto table : {sop_ops(), smem_ops(), vop1_ops(), vop2_ops(), vopc_ops(), vop3_ops(),
                       vop3p_ops(), mfma_ops(), ds_ops(), mubuf_ops(), flat_ops(), image_ops()}) {
        if (index < table.size()) {
            return &table[index];
        }
        index -= table.size();
    }
    return nullptr;
}

}  // namespace
}  // namespace asmevo::emulator

/// Decodes one instruction; returns its size in dwords with its assembly text, or -1 with the reason.
extern "C" __attribute__((visibility("default"))) int asmevo_emulator_decode(
    const char* target_name, const uint32_t* words, size_t count, char* text, size_t capacity) {
    using namespace asmevo::emulator;
    try {
        Target target;
        if (!parse_target(target_name, target)) {
            copy_text("unknown target", text, capacity);
            return -1;
        }
        Inst inst;
        std::string error;
        if (!decode(target, words, count, inst, error)) {
            copy_text(error, text, capacity);
            return -1;
        }
        copy_text(format(inst), text, capacity);
        return inst.size_dwords;
    } catch (const std::exception& error) {
        copy_text(error.what(), text, capacity);
        return -1;
    }
}

/// Sizes in dwords of the instructions that follow one another in `words`, into `sizes` of at least `count` bytes. A
/// word that does not decode counts as one, with bit 7 set. Returns how many there are.
extern "C" __attribute__((visibility("default"))) size_t asmevo_emulator_split(
    const char* target_name, const uint32_t* words, size_t count, uint8_t* sizes) {
    using namespace asmevo::emulator;
    constexpr uint8_t kUndecoded = 0x81;
    size_t found = 0;
    try {
        Target target;
        if (!parse_target(target_name, target)) {
            return 0;
        }
        Inst inst;
        std::string error;
        for (size_t at = 0; at < count; ++found) {
            const bool is_known = decode(target, words + at, count - at, inst, error);
            sizes[found] = is_known ? inst.size_dwords : kUndecoded;
            at += is_known ? inst.size_dwords : 1;
        }
    } catch (const std::exception&) {
        return found;
    }
    return found;
}

/// Row `index` of the operation tables as text: name, encoding, opcode, targets, flags, the types of dst[2] and src[4],
/// exactness, the targets where that holds; on a second line why it is not exact. Numbers are those of the enumerations.
/// Returns -1 past the last row.
extern "C" __attribute__((visibility("default"))) int asmevo_emulator_op(size_t index, char* text,
                                                                         size_t capacity) {
    using namespace asmevo::emulator;
    try {
        const OpInfo* row = row_at(index);
        if (!row) {
            return -1;
        }
        std::string line = row->name;
        auto add = [&](unsigned value) { line += " " + std::to_string(value); };
        add(static_cast<unsigned>(row->encoding));
        add(row->opcode);
        add(row->targets);
        add(row->flags);
        for (Type type : {row->dst[0], row->dst[1], row->src[0], row->src[1], row->src[2], row->src[3]}) {
            add(static_cast<unsigned>(type));
        }
        add(static_cast<unsigned>(row->exactness));
        add(row->inexact_targets);
        line += std::string("\n") + row->note;
        copy_text(line, text, capacity);
        return 0;
    } catch (const std::exception&) {
        return -1;
    }
}

/// The registers that one instruction reads and writes, for tests that compare them with the optimizer's analyses:
/// `r` or `w`, `s` or `v`, first register, count; one span a line, implicit ones among them. Numbers are those of
/// Operand::index. The flags of the operation, which hold SCC and MODE, come first. Returns the size in dwords or -1.
extern "C" __attribute__((visibility("default"))) int asmevo_emulator_decode_registers(
    const char* target_name, const uint32_t* words, size_t count, char* text, size_t capacity) {
    using namespace asmevo::emulator;
    try {
        Target target;
        Inst inst;
        std::string error = "unknown target";
        if (!parse_target(target_name, target) || !decode(target, words, count, inst, error)) {
            copy_text(error, text, capacity);
            return -1;
        }
        std::string found = std::to_string(inst.info->flags) + "\n";
        auto add = [&](char direction, const RegSpan& span) {
            found += {direction, ' ', span.file == RegSpan::kScalar ? 's' : 'v', ' '};
            found += std::to_string(span.first) + " " + std::to_string(span.count) + "\n";
        };
        std::for_each_n(inst.reads, inst.read_count, [&](const RegSpan& span) { add('r', span); });
        std::for_each_n(inst.writes, inst.write_count, [&](const RegSpan& span) { add('w', span); });
        copy_text(found, text, capacity);
        return inst.size_dwords;
    } catch (const std::exception& error) {
        copy_text(error.what(), text, capacity);
        return -1;
    }
}
