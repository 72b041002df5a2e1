// From a function of one lane to a handler of a whole instruction. A table row names the lane function:
//     lanes<[](float a, float b) { return a + b; }>
// Its argument and result types say how registers are read and written: 32-bit and 64-bit scalars, int16_t and
// uint16_t (low or op_sel half), F16 (computed as float, rounded once), bool (a lane mask). A LaneEnv first
// argument gives it MODE.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "exec/vector/half.h"
#include "exec/vector/lane_function.h"
#include "exec/vector/operand.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace detail {

// MODE.FP16_OVFL: a finite value beyond f16's range becomes its largest number; infinities stay.
inline void limit_f16(uint32_t* lanes) {
    constexpr uint32_t kLargest = 0x477fe000u, kInfinity = 0x7f800000u;  // 65504
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t magnitude = lanes[lane] & 0x7fffffffu;
        const bool overflows = magnitude > kLargest && magnitude < kInfinity;
        lanes[lane] = overflows ? kLargest | (lanes[lane] & 0x80000000u) : lanes[lane];
    }
}

struct Result {
    alignas(64) uint32_t low[kLanes];
    alignas(64) uint32_t high[kLanes];
};

// The lane loop. Sources of F16 arguments are widened first, an F16 result is narrowed last.
template <auto F, int... I>
inline void compute(const Source* sources, uint32_t* low, uint32_t* high, LaneEnv env,
                    std::integer_sequence<int, I...>) {
    using S = Signature<decltype(F)>;
    using R = typename S::Result;
    constexpr int kStorage = S::kArity > 0 ? S::kArity : 1;
    LaneArray widened[kStorage];
    Source in[kStorage];
    (
        [&] {
            if constexpr (std::is_same_v<typename S::template Arg<I>, F16>) {
                widen_f16(sources[I].low, widened[I].lane);
                in[I] = {widened[I].lane, nullptr};
            } else {
                in[I] = sources[I];
            }
        }(),
        ...);
// Lanes are independent: a result may stand where a source does, but only of the same lane.
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (int lane = 0; lane < kLanes; ++lane) {
        if constexpr (S::kHasEnv) {
            put_lane<R>(low, high, lane,
                        F(env, load_lane<typename S::template Arg<I>>(in[I], lane)...));
        } else {
            put_lane<R>(low, high, lane,
                        F(load_lane<typename S::template Arg<I>>(in[I], lane)...));
        }
    }
    if constexpr (std::is_same_v<R, F16>) {
        if (env.fp16_overflow()) [[unlikely]] {
            limit_f16(low);
        }
        narrow_f16(low);
    }
}

template <auto F>
inline void compute(const Source* sources, uint32_t* low, uint32_t* high, LaneEnv env) {
    compute<F>(sources, low, high, env,
               std::make_integer_sequence<int, Signature<decltype(F)>::kArity>{});
}

template <auto F>
inline void compute(const Source* sources, Result& result, LaneEnv env) {
    compute<F>(sources, result.low, result.high, env);
}

template <auto F, unsigned Options>
inline void fetch_all(const Wave& wave, const Inst& inst, Source* sources, Scratch* scratch) {
    constexpr int kArity = Signature<decltype(F)>::kArity;
    constexpr int kFetched = (Options & kAccumulates) != 0 ? kArity - 1 : kArity;
    for (int i = 0; i < kFetched; ++i) {
        sources[i] = fetch<Options>(wave, inst, i, scratch[i]);
    }
    if constexpr ((Options & kAccumulates) != 0) {
        sources[kArity - 1] = fetch_accumulator(wave, inst, Options, scratch[kArity - 1]);
    }
}

template <typename R, unsigned Options>
inline void store(Wave& wave, const Inst& inst, Result& result) {
    if ((Options & kIntClamp) == 0 && needs_finish(wave, inst)) [[unlikely]] {
        finish_result(wave, inst, result.low, result.high);
    }
    if constexpr (sizeof(R) == 8) {
        store_qword(wave, inst, result.low, result.high);
    } else if constexpr (sizeof(R) == 2 || std::is_same_v<R, F16>) {
        store_half(wave, inst, result.low, (Options & kKeepsHigh) != 0);
    } else {
        store_dword(wave, inst, result.low);
    }
}

template <auto F, unsigned Options>
[[gnu::noinline]] void run_lanes(Wave& wave, const Inst& inst) {
    using S = Signature<decltype(F)>;
    constexpr int kStorage = S::kArity > 0 ? S::kArity : 1;
    Scratch scratch[kStorage];
    Source sources[kStorage];
    fetch_all<F, Options>(wave, inst, sources, scratch);
    if constexpr (sizeof(typename S::Result) >= 4 && !std::is_same_v<typename S::Result, F16>) {
        if (writes_register_as_is(wave, inst, (Options & kIntClamp) != 0)) [[likely]] {
            uint32_t* to = wave.lanes(inst.dst[0].index);
            compute<F>(sources, to, to + kLanes, LaneEnv{wave.mode});
            return;
        }
    }
    Result result;
    compute<F>(sources, result, LaneEnv{wave.mode});
    if constexpr (std::is_same_v<typename S::Result, bool>) {
        write_lane_mask(wave, inst.dst[0], collect_mask(result.low) & write_mask(wave, inst));
    } else {
        store<typename S::Result, Options>(wave, inst, result);
    }
}

// Runs `Body` under MODE's rounding where the operation rounds. The host's rounding mode is nearest even
// otherwise; Body is not inlined, so no floating-point operation moves out of the scope.
template <auto F, unsigned Options, void (*Body)(Wave&, const Inst&)>
inline void run_rounded(Wave& wave, const Inst& inst) {
    using S = Signature<decltype(F)>;
    if constexpr (S::kUsesFloat && (Options & kRoundsItself) == 0) {
        if (const unsigned field = rounding_field<S>(wave.mode); field != 0) [[unlikely]] {
            RoundingScope scope(field);
            Body(wave, inst);
            return;
        }
    }
    Body(wave, inst);
}

// Two halves of a packed source as two arrays of low halves.
struct Halves {
    LaneArray low, high;
};

inline void split_halves(const uint32_t* lanes, Halves& halves) {
    for (int lane = 0; lane < kLanes; ++lane) {
        halves.low.lane[lane] = lanes[lane] & 0xffffu;
        halves.high.lane[lane] = lanes[lane] >> 16;
    }
}

template <auto F, unsigned Options>
[[gnu::noinline]] void run_packed(Wave& wave, const Inst& inst) {
    constexpr int kArity = Signature<decltype(F)>::kArity;
    Scratch scratch[kArity];
    Source sources[kArity], low[kArity], high[kArity];
    Halves halves[kArity];
    fetch_all<F, Options>(wave, inst, sources, scratch);
    for (int i = 0; i < kArity; ++i) {
        split_halves(sources[i].low, halves[i]);
        low[i] = {halves[i].low.lane, nullptr};
        high[i] = {halves[i].high.lane, nullptr};
    }
    Result first, second;
    compute<F>(low, first, LaneEnv{wave.mode});
    compute<F>(high, second, LaneEnv{wave.mode});
    for (int lane = 0; lane < kLanes; ++lane) {
        first.low[lane] |= second.low[lane] << 16;
    }
    store<uint32_t, Options>(wave, inst, first);
}

// Whether no source's high dword stands where the result's low one goes.
inline bool has_aligned_pairs(const Inst& inst) {
    bool is_aligned = true;
    for (const Operand& source : inst.src) {
        is_aligned = is_aligned && !(source.is_vgpr() && (source.index ^ inst.dst[0].index) & 1);
    }
    return is_aligned;
}

template <auto F, unsigned Options>
[[gnu::noinline]] void run_pair(Wave& wave, const Inst& inst) {
    constexpr int kArity = Signature<decltype(F)>::kArity;
    Scratch scratch[kArity];
    Source sources[kArity], high[kArity];
    fetch_all<F, Options>(wave, inst, sources, scratch);
    for (int i = 0; i < kArity; ++i) {
        high[i] = {sources[i].high, nullptr};
    }
    if (writes_register_as_is(wave, inst, false) && has_aligned_pairs(inst)) [[likely]] {
        uint32_t* to = wave.lanes(inst.dst[0].index);
        compute<F>(sources, to, nullptr, LaneEnv{wave.mode});
        compute<F>(high, to + kLanes, nullptr, LaneEnv{wave.mode});
        return;
    }
    Result first, second;
    compute<F>(sources, first, LaneEnv{wave.mode});
    compute<F>(high, second, LaneEnv{wave.mode});
    std::memcpy(first.high, second.low, sizeof(LaneArray));
    store<uint64_t, Options>(wave, inst, first);
}

}  // namespace detail

/// Handler that applies F to every lane.
template <auto F, unsigned Options = kPlain>
void lanes(Wave& wave, const Inst& inst) {
    detail::run_rounded<F, Options, &detail::run_lanes<F, Options>>(wave, inst);
}

/// Handler of an integer operation with a saturating form for the clamp bit.
template <auto F, auto Saturating, unsigned Options = kPlain>
void clampable(Wave& wave, const Inst& inst) {
    if (inst.clamp) {
        detail::run_lanes<Saturating, Options | kIntClamp>(wave, inst);
    } else {
        detail::run_lanes<F, Options>(wave, inst);
    }
}

/// Handler that applies F to both halves of packed 16-bit sources.
template <auto F, unsigned Options = kPacked>
void packed(Wave& wave, const Inst& inst) {
    detail::run_rounded<F, Options, &detail::run_packed<F, Options>>(wave, inst);
}

template <auto F, auto Saturating>
void packed_clampable(Wave& wave, const Inst& inst) {
    if (inst.clamp) {
        detail::run_packed<Saturating, kPacked | kIntClamp>(wave, inst);
    } else {
        detail::run_packed<F, kPacked>(wave, inst);
    }
}

/// Handler that applies F to both dwords of 64-bit sources (v_pk_*_f32).
template <auto F>
void paired(Wave& wave, const Inst& inst) {
    detail::run_rounded<F, kPacked, &detail::run_pair<F, kPacked>>(wave, inst);
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
