// Undefined bits through vector arithmetic.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "exec/checks/undefined/undefined_tracking.h"

namespace asmevo::emulator {
namespace {

bool is_half(Type type) { return type == Type::kF16 || type == Type::kI16 || type == Type::kBf16; }

/// Source `index` of the shadow or of the real instruction, through DPP, SDWA and op_sel, without float modifiers.
Source fetch_bits(const Wave& wave, const Inst& inst, int index, Scratch& scratch) {
    const bool is_packed = inst.info->encoding == Encoding::kVop3p;
    return fetch_modified(wave, inst, index, kNoFlush | (is_packed ? kPacked : kPlain), scratch);
}

uint32_t all_if(bool condition) { return condition ? ~0u : 0; }

/// Bits of a source dword that the operation looks at.
uint32_t used_bits(const Inst& inst, int source) {
    const std::string_view name = inst.info->name;
    if (name.starts_with("v_cvt_f32_ubyte")) {
        return 0xffu << (8 * (name.back() - '0'));
    }
    return is_half(inst.src[source].type) ? 0xffff : ~0u;
}

/// v_fma_mix: each operand is an f32, or the half that op_sel names.
uint32_t mix_bits(const Operand& operand) {
    return !operand.op_sel_hi ? ~0u : operand.op_sel ? 0xffff0000 : 0x0000ffff;
}

bool is_mix(const Inst& inst) { return std::string_view(inst.info->name).find("_mix") != std::string_view::npos; }

}  // namespace

/// Any undefined bit of a lane, of its mask operands too.
void UndefinedTracker::flow_any(Step& step, LaneArray& low, LaneArray& high, uint64_t& lanes) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.plan.shadow;
    const bool is_apart = step.plan.flow == Flow::kAnyHalves;
    std::memset(&low, 0, sizeof low);
    std::memset(&high, 0, sizeof high);
    for (int source = 0; source < 4; ++source) {
        const Operand& operand = inst.src[source];
        if (!operand) {
            continue;
        }
        if (operand.type == Type::kMask) {
            const uint64_t mask = operand.is_sgpr() ? shadow.read64(operand.index) : 0;
            for (int lane = 0; lane < kLanes; ++lane) {
                low.lane[lane] |= all_if(mask >> lane & 1);
            }
            continue;
        }
        Scratch scratch;
        const bool mixes = is_mix(inst);
        Source bits{};
        if (mixes && operand.is_vgpr()) {
            bits = {shadow.lanes(operand.index), nullptr};
        } else {
            bits = fetch_bits(shadow, inst, source, scratch);
        }
        const uint32_t used = mixes ? mix_bits(operand) : used_bits(inst, source);
        const bool is_wide = operand.dwords == 2;
        for (int lane = 0; lane < kLanes; ++lane) {
            low.lane[lane] |= bits.low[lane] & used;
            high.lane[lane] |= is_wide ? bits.high[lane] : 0;
        }
    }
    if (inst.info->flags & kDstIsRead) {
        for (unsigned dword = 0; dword < inst.dst[0].dwords && dword < 2; ++dword) {
            const uint32_t* old = shadow.lanes(static_cast<uint16_t>(inst.dst[0].index + dword));
            for (int lane = 0; lane < kLanes; ++lane) {
                (dword ? high : low).lane[lane] |= old[lane];
            }
        }
    }
    const bool by_halves = is_apart && inst.dst[0].dwords == 1;
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t first = low.lane[lane], second = high.lane[lane];
        lanes |= uint64_t{(first | second) != 0} << lane;
        if (by_halves) {
            low.lane[lane] = (first & 0xffff ? 0xffff : 0) | (first >> 16 ? 0xffff0000 : 0);
        } else if (is_apart) {
            low.lane[lane] = all_if(first != 0);
            high.lane[lane] = all_if(second != 0);
        } else {
            low.lane[lane] = high.lane[lane] = all_if((first | second) != 0);
        }
    }
}

void UndefinedTracker::store_result(Step& step, LaneArray& low, LaneArray& high) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.plan.shadow;
    const Operand& dst = inst.dst[0];
    if (dst.dwords == 2) {
        store_qword(shadow, inst, low.lane, high.lane);
    } else if (is_half(dst.type) && (inst.op_sel & 8)) {
        store_half(shadow, inst, low.lane, false);
    } else {
        store_dword(shadow, inst, low.lane);
        const uint64_t mask = write_mask(shadow, inst);
        for (unsigned dword = 1; dword < dst.dwords; ++dword) {
            merge_lanes(shadow.lanes(static_cast<uint16_t>(dst.index + dword)), low.lane, mask);
        }
    }
}

void UndefinedTracker::flow_vector(Step& step) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.plan.shadow;
    LaneArray low, high;
    uint64_t lanes = 0;
    Scratch scratch[3], values[2];
    const int count = 1 + static_cast<bool>(inst.src[1]) + static_cast<bool>(inst.src[2]);
    auto fetch_all = [&](Source* out) {
        for (int i = 0; i < count; ++i) {
            out[i] = fetch_bits(shadow, inst, i, scratch[i]);
        }
    };
    Source bits[3] = {};
    switch (step.plan.flow) {
        case Flow::kAnd: case Flow::kOr: {
            fetch_all(bits);
            const Source a = fetch_bits(step.wave, step.inst, 0, values[0]);
            const Source b = fetch_bits(step.wave, step.inst, 1, values[1]);
            // A defined 0 decides AND, a defined 1 decides OR.
            const uint32_t flip = step.plan.flow == Flow::kOr ? ~0u : 0;
            for (int lane = 0; lane < kLanes; ++lane) {
                const uint32_t ua = bits[0].low[lane], ub = bits[1].low[lane];
                low.lane[lane] = (ua & ub) | (ua & (b.low[lane] ^ flip)) | (ub & (a.low[lane] ^ flip));
            }
            break;
        }
        case Flow::kXor: case Flow::kSum:
            fetch_all(bits);
            for (int lane = 0; lane < kLanes; ++lane) {
                uint64_t all = 0;
                for (int i = 0; i < count; ++i) {
                    const bool is_wide = inst.src[i].dwords == 2;
                    all |= bits[i].low[lane] | (is_wide ? uint64_t{bits[i].high[lane]} << 32 : 0);
                }
                // From the lowest undefined bit upwards: the negative of a bit has all above it.
                all |= step.plan.flow == Flow::kSum ? 0 - all : 0;
                low.lane[lane] = static_cast<uint32_t>(all);
                high.lane[lane] = static_cast<uint32_t>(all >> 32);
                lanes |= uint64_t{all != 0} << lane;
            }
            break;
        case Flow::kPermute: {
            fetch_all(bits);
            const Source select = fetch_bits(step.wave, step.inst, 2, values[0]);
            for (int lane = 0; lane < kLanes; ++lane) {
                const uint64_t both = uint64_t{bits[0].low[lane]} << 32 | bits[1].low[lane];
                uint32_t result = 0;
                for (int byte = 0; byte < 4; ++byte) {
                    const uint32_t which = select.low[lane] >> (8 * byte) & 0xff;
                    uint32_t moved = 0;
                    if (which < 8) {
                        moved = static_cast<uint32_t>(both >> (8 * which)) & 0xff;
                    } else if (which < 12) {  // the sign of a word
                        moved = both >> (16 * (which - 8) + 15) & 1 ? 0xff : 0;
                    }
                    result |= moved << (8 * byte);
                }
                low.lane[lane] = result | all_if(bits[2].low[lane] != 0);
            }
            break;
        }
        default: flow_any(step, low, high, lanes); break;
    }
    const Operand& dst = inst.dst[0];
    const uint64_t mask = lanes & step.wave.exec();
    if (dst.is_vgpr()) {
        store_result(step, low, high);
    } else if (dst.is_sgpr() && dst.index < kExecCode) {
        shadow.write64(dst.index, mask);
    }
    if (inst.info->flags & kWritesExec) {
        check_exec(step, mask);
    }
    if (inst.dst[1].is_sgpr()) {
        shadow.write64(inst.dst[1].index, mask);
    }
}

namespace {

/// Where a matrix operation's operands and results are (AMD's matrix instruction calculator).
struct MatrixShape {
    unsigned size, blocks;
    bool is_double;

    explicit MatrixShape(const Inst& inst) {
        const std::string_view name = inst.info->name;
        size = name.find("32x32") != name.npos ? 32 : name.find("16x16") != name.npos ? 16 : 4;
        is_double = name.ends_with("f64");
        blocks = inst.dst[0].dwords / (is_double ? 2u : 1u) * kLanes / (size * size);
    }
    /// Rows of A, or columns of B, that the lanes hold, by block. With `is_spread` any block may take them.
    void add(uint64_t lanes, bool is_spread, uint32_t* lines) const {
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            if (lanes >> lane & 1) {
                const unsigned own = lane / size % blocks;
                for (unsigned block = is_spread ? 0 : own; block < (is_spread ? blocks : own + 1); ++block) {
                    lines[block] |= 1u << lane % size;
                }
            }
        }
    }
    struct Place {
        unsigned row, column, block;
    };
    Place place(unsigned reg, unsigned lane) const {
        if (size == 4) {
            return is_double ? Place{lane / 16, lane % 4, lane / 4 % 4} : Place{reg, lane % 4, lane / 4};
        }
        if (is_double) {
            return {lane / 16 + 4 * (reg / 2), lane % 16, 0};
        }
        return size == 32 ? Place{8 * (reg / 4 % 4) + 4 * (lane / 32) + reg % 4, lane % 32, reg / 16}
                          : Place{4 * (lane / 16) + reg % 4, lane % 16, reg / 4};
    }
};

}  // namespace

/// Undefined rows of A and columns of B make rows and columns of D undefined; of sparse operations the index is A's.
void UndefinedTracker::flow_matrix(Step& step) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.inst;
    auto undefined_by_lane = [&](const Operand& operand) {
        uint64_t lanes = 0;
        for (unsigned i = 0; operand.is_vgpr() && i < operand.dwords; ++i) {
            const uint32_t* bits = shadow.lanes(static_cast<uint16_t>(operand.index + i));
            for (int lane = 0; lane < kLanes; ++lane) {
                lanes |= uint64_t{bits[lane] != 0} << lane;
            }
        }
        return lanes;
    };
    const MatrixShape shape(inst);
    const bool is_sparse = (inst.info->flags & kDstIsRead) != 0;
    uint32_t rows[16] = {}, columns[16] = {};
    // CBSZ and ABID hand a block of A to others, BLGP moves lanes of B; in dense f64 BLGP negates.
    shape.add(undefined_by_lane(inst.src[0]), inst.cbsz != 0, rows);
    shape.add(is_sparse ? undefined_by_lane(inst.src[2]) : 0, false, rows);
    const uint64_t b = undefined_by_lane(inst.src[1]);
    shape.add(inst.blgp != 0 && !shape.is_double && shape.blocks > 1 && b != 0 ? ~uint64_t{0} : b, false, columns);
    const Operand& sum = is_sparse ? inst.dst[0] : inst.src[2];
    std::vector<LaneArray> result(inst.dst[0].dwords);
    for (unsigned reg = 0; reg < inst.dst[0].dwords; ++reg) {
        const auto first = static_cast<uint16_t>(sum.index + (shape.is_double ? reg & ~1u : reg));
        for (unsigned lane = 0; lane < kLanes; ++lane) {
            const MatrixShape::Place at = shape.place(reg, lane);
            bool is_reached = (rows[at.block] >> at.row & 1) || (columns[at.block] >> at.column & 1);
            for (uint16_t i = 0; sum.is_vgpr() && i < (shape.is_double ? 2 : 1); ++i) {
                is_reached = is_reached || shadow.lanes(static_cast<uint16_t>(first + i))[lane] != 0;
            }
            result[reg].lane[lane] = all_if(is_reached);
        }
    }
    for (unsigned reg = 0; reg < inst.dst[0].dwords; ++reg) {
        shadow.vgpr[inst.dst[0].index + reg] = result[reg];
    }
}

}  // namespace asmevo::emulator
