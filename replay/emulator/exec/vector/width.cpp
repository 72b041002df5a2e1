#include "exec/vector/width.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "exec/vector/tables.h"
#include "isa/tables.h"

namespace asmevo::emulator {

// What exec/vector/tables.h declares in files that are compiled for 512 bits.
namespace v512 {
std::span<const OpInfo> vop1_rows();
std::span<const OpInfo> vop2_rows();
std::span<const OpInfo> vopc_rows();
std::span<const OpInfo> vop3_rows();
std::span<const OpInfo> vop3p_rows();
}  // namespace v512

namespace {

// x86-64-v4, for which the wide handlers are compiled.
bool cpu_has_wide_vectors() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

unsigned choose_width() {
    const unsigned widest = cpu_has_wide_vectors() ? 512 : 256;
    const char* wanted = std::getenv("ASMEVO_EMULATOR_VECTOR_WIDTH");
    if (!wanted || !*wanted) {
        return widest;
    }
    const std::string_view text = wanted;
    if (text == "256" || (text == "512" && widest == 512)) {
        return text == "256" ? 256 : 512;
    }
    std::fprintf(stderr, "asmevo: ASMEVO_EMULATOR_VECTOR_WIDTH=%.20s: %s; using %u\n", wanted,
                 text == "512" ? "this CPU has no AVX-512 (F, BW, CD, DQ, VL)" : "256 and 512 are possible", widest);
    return widest;
}

bool is_wide() { return vector_width() == 512; }

}  // namespace

unsigned vector_width() {
    static const unsigned width = choose_width();
    return width;
}

std::span<const OpInfo> vop1_ops() { return is_wide() ? v512::vop1_rows() : v256::vop1_rows(); }
std::span<const OpInfo> vop2_ops() { return is_wide() ? v512::vop2_rows() : v256::vop2_rows(); }
std::span<const OpInfo> vopc_ops() { return is_wide() ? v512::vopc_rows() : v256::vopc_rows(); }
std::span<const OpInfo> vop3_ops() { return is_wide() ? v512::vop3_rows() : v256::vop3_rows(); }
std::span<const OpInfo> vop3p_ops() { return is_wide() ? v512::vop3p_rows() : v256::vop3p_rows(); }

}  // namespace asmevo::emulator

extern "C" __attribute__((visibility("default"))) unsigned asmevo_emulator_vector_width() {
    return asmevo::emulator::vector_width();
}
