// VOPC and its VOP3 forms: comparisons and class tests into a lane mask; v_cmpx also writes EXEC.
#include <array>
#include <deque>
#include <string>

#include "exec/vector/float_bits.h"
#include "exec/vector/tables.h"
#include "isa/tables.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr uint16_t kCmpxOffset = 0x10;  // opcode of v_cmpx_* after v_cmp_*
constexpr uint16_t kFirstUnsigned = 8;  // opcode of the first unsigned condition after the signed ones

enum FloatCondition {
    kF, kLt, kEq, kLe, kGt, kLg, kGe, kO, kU, kNge, kNlg, kNgt, kNle, kNeq, kNlt, kTru,
    kFloatConditions,
};
constexpr const char* kFloatNames[] = {"f", "lt",  "eq",  "le",  "gt",  "lg",  "ge",  "o",
                                       "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"};

enum IntegerCondition { kIntF, kIntLt, kIntEq, kIntLe, kIntGt, kIntNe, kIntGe, kIntT, kIntegerConditions };
constexpr const char* kIntegerNames[] = {"f", "lt", "eq", "le", "gt", "ne", "ge", "t"};

template <int Condition>
constexpr auto compare_float = [](auto a, auto b) -> bool {
    switch (Condition) {
        case kLt: return a < b;
        case kEq: return a == b;
        case kLe: return a <= b;
        case kGt: return a > b;
        case kLg: return a < b || a > b;
        case kGe: return a >= b;
        case kO: return a == a && b == b;
        case kU: return a != a || b != b;
        case kNge: return !(a >= b);
        case kNlg: return !(a < b || a > b);
        case kNgt: return !(a > b);
        case kNle: return !(a <= b);
        case kNeq: return !(a == b);
        case kNlt: return !(a < b);
        default: return Condition == kTru;
    }
};

template <int Condition>
constexpr auto compare_integer = [](auto a, auto b) -> bool {
    switch (Condition) {
        case kIntLt: return a < b;
        case kIntEq: return a == b;
        case kIntLe: return a <= b;
        case kIntGt: return a > b;
        case kIntNe: return a != b;
        case kIntGe: return a >= b;
        default: return Condition == kIntT;
    }
};

template <auto F, unsigned Options, bool WritesExec>
void compare(Wave& wave, const Inst& inst) {
    Scratch scratch[2];
    Source sources[2];
    detail::fetch_all<F, Options>(wave, inst, sources, scratch);
    detail::Result result;
    detail::compute<F>(sources, result, LaneEnv{wave.mode});
    const uint64_t mask = collect_mask(result.low) & wave.exec();
    write_lane_mask(wave, inst.dst[0], mask);
    if constexpr (WritesExec) {
        wave.set_exec(mask);
    }
}

// Table rows whose names are put together; the strings live as long as the program.
struct Builder {
    std::deque<std::string> names;
    std::vector<OpInfo> rows;

    void add(const std::string& suffix, uint16_t opcode, Type left, Type right, Handler cmp,
             Handler cmpx, uint16_t cmpx_opcode) {
        names.push_back("v_cmp_" + suffix);
        rows.push_back(vector_row(names.back().c_str(), Encoding::kVopc, opcode, kMask, {left, right},
                                  cmp));
        names.push_back("v_cmpx_" + suffix);
        rows.push_back(vector_row(names.back().c_str(), Encoding::kVopc, cmpx_opcode, kMask,
                                  {left, right}, cmpx, kWritesExec));
    }

    template <typename T, int... C>
    void add_float(const char* type_name, Type type, uint16_t first,
                   std::integer_sequence<int, C...>) {
        (add(std::string(kFloatNames[C]) + "_" + type_name, static_cast<uint16_t>(first + C), type, type,
             compare<[](T a, T b) { return compare_float<C>(a, b); }, kPlain, false>,
             compare<[](T a, T b) { return compare_float<C>(a, b); }, kPlain, true>,
             static_cast<uint16_t>(first + C + kCmpxOffset)),
         ...);
    }

    template <typename T, int... C>
    void add_integer(const char* type_name, Type type, int first, std::integer_sequence<int, C...>) {
        (add(std::string(kIntegerNames[C]) + "_" + type_name, static_cast<uint16_t>(first + C), type,
             type, compare<[](T a, T b) { return compare_integer<C>(a, b); }, kPlain, false>,
             compare<[](T a, T b) { return compare_integer<C>(a, b); }, kPlain, true>,
             static_cast<uint16_t>(first + C + kCmpxOffset)),
         ...);
    }

    template <typename U>
    void add_class(const char* type_name, Type type, uint16_t opcode) {
        constexpr auto test = [](U a, uint32_t wanted) { return in_class(a, wanted); };
        add(std::string("class_") + type_name, opcode, type, kB32, compare<test, kNoFlush, false>,
            compare<test, kNoFlush, true>, static_cast<uint16_t>(opcode + 1));
    }
};

Builder build_table() {
    Builder builder;
    constexpr std::make_integer_sequence<int, kFloatConditions> float_conditions;
    constexpr std::make_integer_sequence<int, kIntegerConditions> integer_conditions;
    builder.add_class<uint32_t>("f32", kF32, 0x10);
    builder.add_class<uint64_t>("f64", kF64, 0x12);
    builder.add_class<uint16_t>("f16", kF16, 0x14);
    builder.add_float<F16>("f16", kF16, 0x20, float_conditions);
    builder.add_float<float>("f32", kF32, 0x40, float_conditions);
    builder.add_float<double>("f64", kF64, 0x60, float_conditions);
    builder.add_integer<int16_t>("i16", kI16, 0xa0, integer_conditions);
    builder.add_integer<uint16_t>("u16", kI16, 0xa0 + kFirstUnsigned, integer_conditions);
    builder.add_integer<int32_t>("i32", kB32, 0xc0, integer_conditions);
    builder.add_integer<uint32_t>("u32", kB32, 0xc0 + kFirstUnsigned, integer_conditions);
    builder.add_integer<int64_t>("i64", kB64, 0xe0, integer_conditions);
    builder.add_integer<uint64_t>("u64", kB64, 0xe0 + kFirstUnsigned, integer_conditions);
    return builder;
}

}  // namespace

std::span<const OpInfo> vopc_rows() {
    static const Builder builder = build_table();
    return builder.rows;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
