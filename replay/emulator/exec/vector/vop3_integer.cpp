// VOP3-only integer operations: bit fields, three-source arithmetic and logic, multiplies.
#include <bit>
#include <string>

#include "exec/vector/integer.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"
#include "isa/bitop3.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources,
                     Handler run, TargetMask targets = kAllTargets) {
    return vector_row(name, Encoding::kVop3, opcode, dst, sources, run, kNoFlags, targets);
}

constexpr OpInfo row3(const char* name, uint16_t opcode, Handler run) {
    return row(name, opcode, kB32, {kB32, kB32, kB32}, run);
}

constexpr uint32_t field_mask(uint32_t width) { return (1u << (width & 31)) - 1; }

constexpr int32_t extract_signed(uint32_t value, uint32_t offset, uint32_t width) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(value) >> (offset & 31));
    if ((width & 31) == 0) {
        return 0;
    }
    const uint32_t unused = 32 - (width & 31);
    return static_cast<int32_t>(bits << unused) >> unused;
}

constexpr uint32_t align_right(uint32_t high, uint32_t low, uint32_t bits) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> bits);
}

// One byte of V_PERM_B32: a byte of {S0, S1}, a replicated sign bit, or a constant.
constexpr uint32_t permuted_byte(uint64_t data, uint32_t select) {
    if (select >= 13) {
        return 0xff;
    }
    if (select == 12) {
        return 0;
    }
    if (select >= 8) {
        return (data >> (16 * (select - 8) + 15) & 1) != 0 ? 0xff : 0;
    }
    return static_cast<uint32_t>(data >> (8 * select)) & 0xff;
}

constexpr uint32_t permute_bytes(uint32_t high, uint32_t low, uint32_t select) {
    const uint64_t data = uint64_t{high} << 32 | low;
    uint32_t result = 0;
    for (int byte = 0; byte < 4; ++byte) {
        result |= permuted_byte(data, select >> (8 * byte) & 0xff) << (8 * byte);
    }
    return result;
}

// V_PERM_B32 with byte shuffles where every selector names a byte of the sources, as they mostly do.
void permute(Wave& wave, const Inst& inst) {
    Scratch scratch[3];
    const Source high = fetch<kNoFlush>(wave, inst, 0, scratch[0]);
    const Source low = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    const Source select = fetch<kNoFlush>(wave, inst, 2, scratch[2]);
    alignas(64) uint32_t result[kLanes];
    uint32_t special = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        special |= select.low[lane] & 0xf8f8f8f8u;
    }
    for (int lane = 0; lane < kLanes && special != 0; ++lane) {
        result[lane] = permute_bytes(high.low[lane], low.low[lane], select.low[lane]);
    }
    const auto load = [](const uint32_t* lanes) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes));
    };
    const __m128i second = _mm_set_epi32(0x08080808, 0x08080808, 0, 0);  // the pair's upper 8 bytes
    for (int lane = 0; lane < kLanes && special == 0; lane += 4) {
        const __m128i h = load(high.low + lane), l = load(low.low + lane), s = load(select.low + lane);
        const __m128i first_pair = _mm_shuffle_epi8(
            _mm_unpacklo_epi32(l, h), _mm_or_si128(_mm_unpacklo_epi32(s, s), second));
        const __m128i second_pair = _mm_shuffle_epi8(
            _mm_unpackhi_epi32(l, h), _mm_or_si128(_mm_unpackhi_epi32(s, s), second));
        const __m128 packed = _mm_shuffle_ps(_mm_castsi128_ps(first_pair),
                                             _mm_castsi128_ps(second_pair), _MM_SHUFFLE(2, 0, 2, 0));
        _mm_store_si128(reinterpret_cast<__m128i*>(result + lane), _mm_castps_si128(packed));
    }
    store_dword(wave, inst, result);
}

constexpr uint32_t average_bytes(uint32_t a, uint32_t b, uint32_t round) {
    uint32_t result = 0;
    for (int shift = 0; shift < 32; shift += 8) {
        const uint32_t sum = (a >> shift & 0xff) + (b >> shift & 0xff) + (round >> shift & 1);
        result |= (sum >> 1) << shift;
    }
    return result;
}

template <typename T>
constexpr T median(T a, T b, T c) {
    const T low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : high < c ? high : c;
}

template <typename T>
constexpr T max_of(T a, T b) {
    return a < b ? b : a;
}

template <typename T>
constexpr T min_of(T a, T b) {
    return a < b ? a : b;
}

constexpr int64_t product24(uint32_t a, uint32_t b) { return int64_t{sext24(a)} * sext24(b); }
constexpr uint64_t unsigned_product24(uint32_t a, uint32_t b) { return uint64_t{low24(a)} * low24(b); }

// v_mad_u64_u32 and v_mad_i64_i32: 64-bit sum, its carry or sign overflow in dst[1].
template <bool Signed>
void multiply_add_64(Wave& wave, const Inst& inst) {
    if (inst.clamp) {
        throw Fault(std::string("clamp of ") + inst.info->name + " is not implemented");
    }
    Scratch scratch[3];
    const Source a = fetch<kNoFlush>(wave, inst, 0, scratch[0]);
    const Source b = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    const Source c = fetch<kNoFlush>(wave, inst, 2, scratch[2]);
    detail::Result result;
    alignas(64) uint32_t carry[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint64_t addend = uint64_t{c.high[lane]} << 32 | c.low[lane];
        const uint64_t product =
            Signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(a.low[lane])} *
                                           static_cast<int32_t>(b.low[lane]))
                   : uint64_t{a.low[lane]} * b.low[lane];
        const uint64_t sum = product + addend;
        // Bit 64 of the 65-bit sum; the signed form extends both terms by their sign.
        const uint64_t wrapped = sum < product ? 1 : 0;
        const uint64_t top = Signed ? wrapped + (product >> 63) + (addend >> 63) : wrapped;
        carry[lane] = (top & 1) != 0 ? ~0u : 0u;
        result.low[lane] = static_cast<uint32_t>(sum);
        result.high[lane] = static_cast<uint32_t>(sum >> 32);
    }
    const uint64_t mask = wave.exec();
    store_qword(wave, inst, result.low, result.high);
    write_lane_mask(wave, inst.dst[1], collect_mask(carry) & mask);
}

constexpr OpInfo mad64(const char* name, uint16_t opcode, Handler run) {
    OpInfo info = row(name, opcode, kB64, {kB32, kB32, kB64}, run);
    info.dst[1] = kMask;
    return info;
}

constexpr uint32_t combine_bits(uint32_t table, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
        const uint32_t hit = ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) &
                             ((row & 1) != 0 ? c : ~c);
        result |= (table >> row & 1) != 0 ? hit : 0;
    }
    return result;
}

template <bool Half>
void bit_operation(Wave& wave, const Inst& inst) {
    Scratch scratch[3];
    Source source[3];
    for (int i = 0; i < 3; ++i) {
        source[i] = fetch<kNoFlush>(wave, inst, i, scratch[i]);
    }
    const uint32_t table = truth_table(inst.words);
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        result[lane] = combine_bits(table, source[0].low[lane], source[1].low[lane],
                                    source[2].low[lane]) & (Half ? 0xffffu : ~0u);
    }
    if constexpr (Half) {
        store_half(wave, inst, result, true);
    } else {
        store_dword(wave, inst, result);
    }
}

constexpr OpInfo kThreeSources[] = {
    row3("v_mad_i32_i24", 0x1c2, clampable<[](uint32_t a, uint32_t b, uint32_t c) {
             return static_cast<uint32_t>(product24(a, b)) + c;
         }, [](uint32_t a, uint32_t b, int32_t c) { return saturate<int32_t>(product24(a, b) + c); }>),
    row3("v_mad_u32_u24", 0x1c3, clampable<[](uint32_t a, uint32_t b, uint32_t c) {
             return static_cast<uint32_t>(unsigned_product24(a, b)) + c;
         }, [](uint32_t a, uint32_t b, uint32_t c) {
             return saturate<uint32_t>(static_cast<int64_t>(unsigned_product24(a, b) + c));
         }>),
    row3("v_bfe_u32", 0x1c8, lanes<[](uint32_t a, uint32_t offset, uint32_t width) {
             return (a >> (offset & 31)) & field_mask(width);
         }>),
    row3("v_bfe_i32", 0x1c9, lanes<[](uint32_t a, uint32_t offset, uint32_t width) {
             return extract_signed(a, offset, width);
         }>),
    row3("v_bfi_b32", 0x1ca, lanes<[](uint32_t mask, uint32_t a, uint32_t b) {
             return (mask & a) | (~mask & b);
         }>),
    row3("v_lerp_u8", 0x1cd,
         lanes<[](uint32_t a, uint32_t b, uint32_t c) { return average_bytes(a, b, c); }>),
    row3("v_alignbit_b32", 0x1ce, lanes<[](uint32_t high, uint32_t low, uint32_t shift) {
             return align_right(high, low, shift & 31);
         }>),
    row3("v_alignbyte_b32", 0x1cf, lanes<[](uint32_t high, uint32_t low, uint32_t shift) {
             return align_right(high, low, 8 * (shift & 3));
         }>),
    row3("v_min3_i32", 0x1d1,
         lanes<[](int32_t a, int32_t b, int32_t c) { return min_of(min_of(a, b), c); }>),
    row3("v_min3_u32", 0x1d2,
         lanes<[](uint32_t a, uint32_t b, uint32_t c) { return min_of(min_of(a, b), c); }>),
    row3("v_max3_i32", 0x1d4,
         lanes<[](int32_t a, int32_t b, int32_t c) { return max_of(max_of(a, b), c); }>),
    row3("v_max3_u32", 0x1d5,
         lanes<[](uint32_t a, uint32_t b, uint32_t c) { return max_of(max_of(a, b), c); }>),
    row3("v_med3_i32", 0x1d7, lanes<[](int32_t a, int32_t b, int32_t c) { return median(a, b, c); }>),
    row3("v_med3_u32", 0x1d8,
         lanes<[](uint32_t a, uint32_t b, uint32_t c) { return median(a, b, c); }>),
    row3("v_perm_b32", 0x1ed, permute),
    row3("v_xad_u32", 0x1f3, lanes<[](uint32_t a, uint32_t b, uint32_t c) { return (a ^ b) + c; }>),
    row3("v_lshl_add_u32", 0x1fd,
         lanes<[](uint32_t a, uint32_t shift, uint32_t b) { return (a << (shift & 31)) + b; }>),
    row3("v_add_lshl_u32", 0x1fe,
         lanes<[](uint32_t a, uint32_t b, uint32_t shift) { return (a + b) << (shift & 31); }>),
    row3("v_add3_u32", 0x1ff, lanes<[](uint32_t a, uint32_t b, uint32_t c) { return a + b + c; }>),
    row3("v_lshl_or_b32", 0x200,
         lanes<[](uint32_t a, uint32_t shift, uint32_t b) { return a << (shift & 31) | b; }>),
    row3("v_and_or_b32", 0x201,
         lanes<[](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | c; }>),
    row3("v_or3_b32", 0x202, lanes<[](uint32_t a, uint32_t b, uint32_t c) { return a | b | c; }>),
};

constexpr OpInfo kHalf[] = {
    row("v_mad_legacy_u16", 0x1eb, kI16, {kI16, kI16, kI16},
        clampable<[](uint16_t a, uint16_t b, uint16_t c) { return wrap16(uint32_t{a} * b + c); },
                  [](uint16_t a, uint16_t b, uint16_t c) {
                      return saturate<uint16_t>(int64_t{a} * b + c);
                  }>),
    row("v_mad_legacy_i16", 0x1ec, kI16, {kI16, kI16, kI16},
        clampable<[](int16_t a, int16_t b, int16_t c) { return static_cast<int16_t>(a * b + c); },
                  [](int16_t a, int16_t b, int16_t c) { return saturate<int16_t>(a * b + c); }>),
    row("v_mad_u16", 0x204, kI16, {kI16, kI16, kI16},
        clampable<[](uint16_t a, uint16_t b, uint16_t c) { return wrap16(uint32_t{a} * b + c); },
                  [](uint16_t a, uint16_t b, uint16_t c) {
                      return saturate<uint16_t>(int64_t{a} * b + c);
                  }, kKeepsHigh>),
    row("v_mad_i16", 0x205, kI16, {kI16, kI16, kI16},
        clampable<[](int16_t a, int16_t b, int16_t c) { return static_cast<int16_t>(a * b + c); },
                  [](int16_t a, int16_t b, int16_t c) { return saturate<int16_t>(a * b + c); },
                  kKeepsHigh>),
    row("v_mad_u32_u16", 0x1f1, kB32, {kI16, kI16, kB32},
        clampable<[](uint16_t a, uint16_t b, uint32_t c) { return uint32_t{a} * b + c; },
                  [](uint16_t a, uint16_t b, uint32_t c) {
                      return saturate<uint32_t>(int64_t{a} * b + c);
                  }>),
    row("v_mad_i32_i16", 0x1f2, kB32, {kI16, kI16, kB32},
        clampable<[](int16_t a, int16_t b, uint32_t c) { return static_cast<uint32_t>(a * b) + c; },
                  [](int16_t a, int16_t b, int32_t c) {
                      return saturate<int32_t>(int64_t{a} * b + c);
                  }>),
    row("v_min3_i16", 0x1f5, kI16, {kI16, kI16, kI16}, lanes<[](int16_t a, int16_t b, int16_t c) {
            return min_of(min_of(a, b), c);
        }, kKeepsHigh>),
    row("v_min3_u16", 0x1f6, kI16, {kI16, kI16, kI16}, lanes<[](uint16_t a, uint16_t b, uint16_t c) {
            return min_of(min_of(a, b), c);
        }, kKeepsHigh>),
    row("v_max3_i16", 0x1f8, kI16, {kI16, kI16, kI16}, lanes<[](int16_t a, int16_t b, int16_t c) {
            return max_of(max_of(a, b), c);
        }, kKeepsHigh>),
    row("v_max3_u16", 0x1f9, kI16, {kI16, kI16, kI16}, lanes<[](uint16_t a, uint16_t b, uint16_t c) {
            return max_of(max_of(a, b), c);
        }, kKeepsHigh>),
    row("v_med3_i16", 0x1fb, kI16, {kI16, kI16, kI16},
        lanes<[](int16_t a, int16_t b, int16_t c) { return median(a, b, c); }, kKeepsHigh>),
    row("v_med3_u16", 0x1fc, kI16, {kI16, kI16, kI16},
        lanes<[](uint16_t a, uint16_t b, uint16_t c) { return median(a, b, c); }, kKeepsHigh>),
    row("v_add_i16", 0x29e, kI16, {kI16, kI16},
        clampable<[](int16_t a, int16_t b) { return static_cast<int16_t>(a + b); }, add_sat<int16_t>,
                  kKeepsHigh>),
    row("v_sub_i16", 0x29f, kI16, {kI16, kI16},
        clampable<[](int16_t a, int16_t b) { return static_cast<int16_t>(a - b); }, sub_sat<int16_t>,
                  kKeepsHigh>),
    row("v_bitop3_b16", 0x233, kI16, {kI16, kI16, kI16}, bit_operation<true>, kGfx950Bit),
};

constexpr OpInfo kTwoSources[] = {
    row("v_bitop3_b32", 0x234, kB32, {kB32, kB32, kB32}, bit_operation<false>, kGfx950Bit),
    row("v_mul_lo_u32", 0x285, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) { return a * b; }>),
    row("v_mul_hi_u32", 0x286, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) {
            return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
        }>),
    row("v_mul_hi_i32", 0x287, kB32, {kB32, kB32}, lanes<[](int32_t a, int32_t b) {
            return static_cast<int32_t>((int64_t{a} * b) >> 32);
        }>),
    row("v_bcnt_u32_b32", 0x28b, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) {
            return b + static_cast<uint32_t>(std::popcount(a));
        }>),
    row("v_bfm_b32", 0x293, kB32, {kB32, kB32},
        lanes<[](uint32_t width, uint32_t offset) { return field_mask(width) << (offset & 31); }>),
    row("v_add_i32", 0x29c, kB32, {kB32, kB32},
        clampable<[](uint32_t a, uint32_t b) { return a + b; }, add_sat<int32_t>>),
    row("v_sub_i32", 0x29d, kB32, {kB32, kB32},
        clampable<[](uint32_t a, uint32_t b) { return a - b; }, sub_sat<int32_t>>),
    row("v_pack_b32_f16", 0x2a0, kB32, {kF16, kF16},
        lanes<[](uint16_t a, uint16_t b) { return a | static_cast<uint32_t>(b) << 16; }>),
};

constexpr OpInfo kWide[] = {
    mad64("v_mad_u64_u32", 0x1e8, multiply_add_64<false>),
    mad64("v_mad_i64_i32", 0x1e9, multiply_add_64<true>),
    row("v_lshl_add_u64", 0x208, kB64, {kB64, kB32, kB64},
        lanes<[](uint64_t a, uint32_t shift, uint64_t b) { return (a << (shift & 7)) + b; }>,
        kGfx940Plus),
    row("v_lshlrev_b64", 0x28f, kB64, {kB32, kB64},
        lanes<[](uint32_t shift, uint64_t a) { return a << (shift & 63); }>),
    row("v_lshrrev_b64", 0x290, kB64, {kB32, kB64},
        lanes<[](uint32_t shift, uint64_t a) { return (a >> (shift & 63)); }>),
    row("v_ashrrev_i64", 0x291, kB64, {kB32, kB64},
        lanes<[](uint32_t shift, int64_t a) { return (a >> (shift & 63)); }>),
};

}  // namespace

std::span<const OpInfo> vop3_integer_ops() {
    static const std::vector<OpInfo> table = join_tables({kThreeSources, kHalf, kTwoSources, kWide});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
