// Operands of vector instructions: sources as arrays of 64 lanes with their modifiers applied, results
// merged into registers under EXEC. The common case (a VGPR without modifiers) costs no copy.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "exec/fault.h"
#include "exec/vector/width.h"
#include "exec/wave.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

// MODE register fields (CDNA3 ISA, section "MODE register").
constexpr uint32_t kModeDenormIn32 = 1u << 4, kModeDenormOut32 = 1u << 5;
constexpr uint32_t kModeDenormIn16And64 = 1u << 6, kModeDenormOut16And64 = 1u << 7;
constexpr uint32_t kModeDenormAll = 0xf0;
constexpr uint32_t kModeDx10Clamp = 1u << 8, kModeIeee = 1u << 9, kModeFp16Overflow = 1u << 23;

/// How a handler treats its operands where that does not follow from their types.
enum LaneOptions : unsigned {
    kPlain = 0,
    kNoFlush = 1u << 0,      // moves and classifies bits: MODE's denormal control does not apply
    kRoundsItself = 1u << 1, // MODE's rounding control does not apply
    kAccumulates = 1u << 2,  // the last argument of the lane function is the old destination
    kIntClamp = 1u << 3,     // the handler itself saturates
    kKeepsHigh = 1u << 4,    // a 16-bit result leaves the other half of the register as it was
    kPacked = 1u << 5,       // VOP3P: op_sel_hi and neg_hi apply
};

/// 64 lanes of a source; `high` is the second dword of a 64-bit one.
struct Source {
    const uint32_t* low;
    const uint32_t* high;
};

struct Scratch {
    LaneArray dword[2];
};

/// Lanes that the instruction may write: EXEC, less what DPP masks or leaves without a source.
uint64_t write_mask(const Wave& wave, const Inst& inst);

/// Register number of a vector operand; `slot` 0..2 is a source, 3 the destination (VGPR indexing mode).
uint16_t vgpr_number(const Wave& wave, const Operand& operand, int slot);

/// Applies everything an operand can carry: scalars, DPP, SDWA, op_sel, sign and absolute modifiers, flush.
Source fetch_modified(const Wave& wave, const Inst& inst, int index, unsigned options,
                      Scratch& scratch);

template <unsigned Options>
inline bool is_plain_vgpr(const Operand& operand) {
    if (operand.kind != OperandKind::kVgpr || operand.neg || operand.op_sel) {
        return false;
    }
    if constexpr ((Options & kPacked) != 0) {
        return operand.op_sel_hi && !operand.neg_hi;
    }
    return !operand.abs && !operand.sext && operand.sdwa_sel == kDword;
}

inline void broadcast(uint32_t value, uint32_t* lanes) {
    const __m256i all = _mm256_set1_epi32(static_cast<int>(value));
    for (int i = 0; i < kLanes; i += 8) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(lanes + i), all);
    }
}

/// Whether the operand is a one-dword constant or SGPR without modifiers.
inline bool is_plain_scalar(const Operand& operand) {
    const bool is_simple = operand.kind == OperandKind::kConst || operand.kind == OperandKind::kSgpr;
    return is_simple && operand.dwords == 1 && !operand.neg && !operand.abs && !operand.op_sel &&
           operand.sdwa_sel == kDword;
}

/// Source `index` of an instruction as lanes.
template <unsigned Options>
inline Source fetch(const Wave& wave, const Inst& inst, int index, Scratch& scratch) {
    const Operand& operand = inst.src[index];
    const bool flushes = (Options & kNoFlush) == 0 && (wave.mode & kModeDenormAll) != kModeDenormAll;
    const bool swizzled = index == 0 && inst.dpp.enabled;
    if (is_plain_vgpr<Options>(operand) && !flushes && !swizzled && !wave.gpr_idx_on) [[likely]] {
        const uint32_t* lanes = wave.lanes(operand.index);
        return {lanes, lanes + kLanes};
    }
    if (is_plain_scalar(operand) && !flushes && (Options & kPacked) == 0) {
        const bool is_constant = operand.kind == OperandKind::kConst;
        broadcast(is_constant ? static_cast<uint32_t>(operand.constant) : wave.sgpr[operand.index],
                  scratch.dword[0].lane);
        return {scratch.dword[0].lane, nullptr};
    }
    return fetch_modified(wave, inst, index, Options, scratch);
}

/// The destination's old value, where an operation accumulates into it.
Source fetch_accumulator(const Wave& wave, const Inst& inst, unsigned options, Scratch& scratch);

/// Copies the lanes of `mask`; the others keep what they had.
inline void merge_lanes(uint32_t* to, const uint32_t* from, uint64_t mask) {
    if (mask == ~0ull) [[likely]] {
        std::memcpy(to, from, sizeof(LaneArray));
        return;
    }
#ifdef __AVX512F__
    for (int i = 0; i < kLanes; i += 16, mask >>= 16) {
        _mm512_mask_storeu_epi32(to + i, static_cast<__mmask16>(mask), _mm512_loadu_si512(from + i));
    }
#else
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < kLanes; i += 8, mask >>= 8) {
        const __m256i group = _mm256_set1_epi32(static_cast<int>(mask & 0xff));
        const __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(group, bit), bit);
        const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
        _mm256_maskstore_epi32(reinterpret_cast<int*>(to + i), on, value);
    }
#endif
}

/// Output modifiers of a float result (omod, denormal flush, clamp), in place. Integer results: only checks
/// that no clamp is asked for. `high` is used by 64-bit types.
void finish_result(const Wave& wave, const Inst& inst, uint32_t* low, uint32_t* high);

inline bool needs_finish(const Wave& wave, const Inst& inst) {
    return inst.clamp || inst.omod != 0 || (wave.mode & kModeDenormAll) != kModeDenormAll;
}

/// Whether a dword a lane goes to dst[0] unchanged and in all lanes, so that it may be computed in place: sources are
/// read in the same lanes only.
inline bool writes_register_as_is(const Wave& wave, const Inst& inst, bool is_clamped) {
    return wave.exec() == ~0ull && !inst.dpp.enabled && !inst.sdwa.enabled && !wave.gpr_idx_on &&
           (is_clamped || !needs_finish(wave, inst));
}

/// Merges one dword a lane into dst[0], through SDWA's destination selection where the instruction has one.
void store_dword(Wave& wave, const Inst& inst, uint32_t* result);

/// Merges a 16-bit result: zero above it, or VOP3's op_sel half with the other half kept.
void store_half(Wave& wave, const Inst& inst, uint32_t* result, bool keeps_high);

void store_qword(Wave& wave, const Inst& inst, const uint32_t* low, const uint32_t* high);

/// One bit a lane from lanes that are all ones or zero.
inline uint64_t collect_mask(const uint32_t* lanes) {
    uint64_t mask = 0;
#ifdef __AVX512F__
    for (int i = 0; i < kLanes; i += 16) {
        mask |= uint64_t{_mm512_movepi32_mask(_mm512_loadu_si512(lanes + i))} << i;
    }
#else
    for (int i = 0; i < kLanes; i += 8) {
        const __m256 group = _mm256_loadu_ps(reinterpret_cast<const float*>(lanes + i));
        mask |= static_cast<uint64_t>(static_cast<unsigned>(_mm256_movemask_ps(group))) << i;
    }
#endif
    return mask;
}

/// All ones in each lane whose bit is set.
inline void spread_mask(uint64_t mask, uint32_t* lanes) {
#ifdef __AVX512F__
    for (int i = 0; i < kLanes; i += 16, mask >>= 16) {
        _mm512_storeu_si512(lanes + i, _mm512_movm_epi32(static_cast<__mmask16>(mask)));
    }
#else
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < kLanes; i += 8, mask >>= 8) {
        const __m256i group = _mm256_set1_epi32(static_cast<int>(mask & 0xff));
        const __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(group, bit), bit);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes + i), on);
    }
#endif
}

/// `on` in the lanes of `mask`, `off` in the others.
inline void select_lanes(uint64_t mask, const uint32_t* on, const uint32_t* off, uint32_t* to) {
#ifdef __AVX512F__
    for (int i = 0; i < kLanes; i += 16, mask >>= 16) {
        const __m512i others = _mm512_loadu_si512(off + i);
        _mm512_storeu_si512(to + i, _mm512_mask_loadu_epi32(others, static_cast<__mmask16>(mask), on + i));
    }
#else
    alignas(64) uint32_t chosen[kLanes];
    spread_mask(mask, chosen);
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) {
        to[lane] = (on[lane] & chosen[lane]) | (off[lane] & ~chosen[lane]);
    }
#endif
}

/// A lane mask operand (VCC or an SGPR pair).
inline uint64_t read_mask(const Wave& wave, const Operand& operand) {
    return operand.is_sgpr() ? wave.read64(operand.index) : read_scalar64(wave, operand);
}

inline void write_lane_mask(Wave& wave, const Operand& operand, uint64_t mask) {
    write_scalar64(wave, operand, mask);
}

/// Host rounding mode for the lifetime of the object; `field` is MODE's two-bit encoding.
class RoundingScope {
  public:
    explicit RoundingScope(unsigned field) : saved_(_mm_getcsr()) {
        // MODE: nearest even, +inf, -inf, zero. MXCSR: nearest even, -inf, +inf, zero.
        constexpr unsigned kHost[4] = {0, 2, 1, 3};
        _mm_setcsr((saved_ & ~0x6000u) | (kHost[field & 3] << 13));
    }
    ~RoundingScope() { _mm_setcsr(saved_); }
    RoundingScope(const RoundingScope&) = delete;
    RoundingScope& operator=(const RoundingScope&) = delete;

  private:
    unsigned saved_;
};

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
