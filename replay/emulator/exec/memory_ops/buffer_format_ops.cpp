// buffer_load/store_format_* and tbuffer_load/store_format_* (CDNA3 ISA chapter 9). MUBUF takes the
// format from the descriptor, MTBUF from the instruction. An element is in range or out of range as
// a whole.
#include <algorithm>

#include "exec/memory_ops/buffer_address.h"
#include "exec/memory_ops/buffer_format.h"
#include "exec/memory_ops/buffer_rows.h"
#include "exec/memory_ops/half.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {
namespace {

enum class Width : uint8_t { kFull, kD16, kD16High };

BufferFormat format_of(const Inst& inst, const BufferDescriptor& descriptor) {
    if (inst.info->encoding == Encoding::kMtbuf) {
        return buffer_format(inst.dfmt, inst.nfmt);
    }
    return buffer_format(descriptor.data_format, descriptor.num_format);
}

uint32_t one_of(const BufferFormat& format) {
    return is_integer(format) ? 1u : std::bit_cast<uint32_t>(1.0f);
}

/// The four components an in-range element holds; what the format lacks reads as 0, 0, 0, 1.
void decode_element(const BufferFormat& format, const uint8_t* source, uint32_t components[4]) {
    decode_components(format, source, components);
    for (unsigned i = format.components; i < 4; ++i) {
        components[i] = i == 3 ? one_of(format) : 0;
    }
}

/// DST_SEL: 0 gives zero, 1 gives one, 4 to 7 a component.
uint32_t select_component(uint8_t select, const uint32_t components[4], uint32_t one) {
    if (select == 1) {
        return one;
    }
    return select >= 4 ? components[select - 4] : 0;
}

uint32_t to_half_bits(const BufferFormat& format, uint32_t value) {
    return is_integer(format) ? value & 0xffff : float_to_half(std::bit_cast<float>(value));
}

uint32_t from_half_bits(const BufferFormat& format, uint32_t half) {
    if (!is_integer(format)) {
        return std::bit_cast<uint32_t>(half_to_float(half));
    }
    constexpr uint8_t kSint = 5;
    return format.num_format == kSint
               ? static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(half)))
               : half;
}

template <unsigned N, Width W>
void write_components(Wave& wave, uint16_t index, int lane, const BufferFormat& format,
                      const uint32_t value[4]) {
    if constexpr (W == Width::kFull) {
        for (unsigned i = 0; i < N; ++i) {
            wave.lanes(static_cast<uint16_t>(index + i))[lane] = value[i];
        }
    } else if constexpr (W == Width::kD16High) {
        uint32_t& target = wave.lanes(index)[lane];
        target = (target & 0xffff) | to_half_bits(format, value[0]) << 16;
    } else {
        for (unsigned i = 0; i < N; i += 2) {
            uint32_t& target = wave.lanes(static_cast<uint16_t>(index + i / 2))[lane];
            const uint32_t high =
                i + 1 < N ? to_half_bits(format, value[i + 1]) << 16 : target & 0xffff0000u;
            target = high | to_half_bits(format, value[i]);
        }
    }
}

template <unsigned N, Width W>
uint32_t read_component(const Wave& wave, uint16_t index, int lane, const BufferFormat& format,
                        unsigned i) {
    if constexpr (W == Width::kFull) {
        return wave.lanes(static_cast<uint16_t>(index + i))[lane];
    }
    const uint32_t pair = wave.lanes(static_cast<uint16_t>(index + i / 2))[lane];
    const bool high = W == Width::kD16High || i % 2 == 1;
    return from_half_bits(format, high ? pair >> 16 : pair & 0xffff);
}

/// What one lane's access gives, after DST_SEL.
void fetch_element(Wave& wave, const BufferAccess& access, const BufferFormat& format, int lane,
                   uint32_t selected[4]) {
    const BufferOffset offset = access.at(lane);
    uint32_t components[4] = {};
    if (access.in_range(offset, 0)) {
        decode_element(format,
                       wave.memory.access(access.address(offset), element_bytes(format), false, lane),
                       components);
    }
    for (unsigned i = 0; i < 4; ++i) {
        selected[i] = select_component(access.descriptor().dst_sel[i], components, one_of(format));
    }
}

/// The first component of each lane to LDS at M0 + immediate + lane * 4.
void load_format_to_lds(Wave& wave, const Inst& inst) {
    const BufferAccess access(wave, inst);
    const BufferFormat format = format_of(inst, access.descriptor());
    const uint64_t base = lds_base_from_m0(wave, inst) + static_cast<uint64_t>(inst.offset);
    for_each_lane(wave.exec(), [&](int lane) {
        uint32_t selected[4];
        fetch_element(wave, access, format, lane, selected);
        std::memcpy(lds_access(wave, base + 4 * static_cast<uint64_t>(lane), 4, lane), selected, 4);
    });
}

template <unsigned N, Width W>
void load_format(Wave& wave, const Inst& inst) {
    if (inst.lds) {
        if (N != 1 || W != Width::kFull || inst.info->encoding != Encoding::kMubuf) {
            throw Fault("only buffer_load_format_x has a form that loads to LDS");
        }
        load_format_to_lds(wave, inst);
        return;
    }
    const BufferAccess access(wave, inst);
    const BufferFormat format = format_of(inst, access.descriptor());
    for_each_lane(wave.exec(), [&](int lane) {
        uint32_t selected[4];
        fetch_element(wave, access, format, lane, selected);
        write_components<N, W>(wave, inst.dst[0].index, lane, format, selected);
    });
}

template <unsigned N, Width W>
void store_format(Wave& wave, const Inst& inst) {
    const BufferAccess access(wave, inst);
    const BufferFormat format = format_of(inst, access.descriptor());
    for_each_lane(wave.exec(), [&](int lane) {
        const BufferOffset offset = access.at(lane);
        if (!access.in_range(offset, 0)) {
            return;
        }
        uint8_t* target =
            wave.memory.access(access.address(offset), element_bytes(format), true, lane);
        uint32_t values[4] = {};  // what the instruction does not provide is stored as zero
        for (unsigned i = 0; i < std::min<unsigned>(N, format.components); ++i) {
            values[i] = read_component<N, W>(wave, inst.src[1].index, lane, format, i);
        }
        encode_components(format, values, target);
    });
}

template <unsigned N, Width W>
constexpr Type register_type() {
    constexpr unsigned registers = W == Width::kFull ? N : (N + 1) / 2;
    constexpr Type types[] = {Type::kNone, Type::kB32, Type::kB64, Type::kB96, Type::kB128};
    return types[registers];
}

template <unsigned N, Width W>
constexpr OpInfo load_row(Encoding encoding, const char* name, uint16_t opcode) {
    // An odd D16 count fills half of its last register and keeps the other half.
    constexpr bool keeps_half = W != Width::kFull && N % 2 == 1;
    return buffer_row(encoding, name, opcode, kAllTargets, Category::kVmemLoad,
                      register_type<N, W>(), Type::kNone, keeps_half ? kDstIsRead : kNoFlags,
                      load_format<N, W>);
}

template <unsigned N, Width W>
constexpr OpInfo store_row(Encoding encoding, const char* name, uint16_t opcode) {
    return buffer_row(encoding, name, opcode, kAllTargets, Category::kVmemStore, Type::kNone,
                      register_type<N, W>(), kNoFlags, store_format<N, W>);
}

constexpr OpInfo kRows[] = {
    load_row<1, Width::kFull>(Encoding::kMubuf, "buffer_load_format_x", 0x0),
    load_row<2, Width::kFull>(Encoding::kMubuf, "buffer_load_format_xy", 0x1),
    load_row<3, Width::kFull>(Encoding::kMubuf, "buffer_load_format_xyz", 0x2),
    load_row<4, Width::kFull>(Encoding::kMubuf, "buffer_load_format_xyzw", 0x3),
    store_row<1, Width::kFull>(Encoding::kMubuf, "buffer_store_format_x", 0x4),
    store_row<2, Width::kFull>(Encoding::kMubuf, "buffer_store_format_xy", 0x5),
    store_row<3, Width::kFull>(Encoding::kMubuf, "buffer_store_format_xyz", 0x6),
    store_row<4, Width::kFull>(Encoding::kMubuf, "buffer_store_format_xyzw", 0x7),
    load_row<1, Width::kD16>(Encoding::kMubuf, "buffer_load_format_d16_x", 0x8),
    load_row<2, Width::kD16>(Encoding::kMubuf, "buffer_load_format_d16_xy", 0x9),
    load_row<3, Width::kD16>(Encoding::kMubuf, "buffer_load_format_d16_xyz", 0xa),
    load_row<4, Width::kD16>(Encoding::kMubuf, "buffer_load_format_d16_xyzw", 0xb),
    store_row<1, Width::kD16>(Encoding::kMubuf, "buffer_store_format_d16_x", 0xc),
    store_row<2, Width::kD16>(Encoding::kMubuf, "buffer_store_format_d16_xy", 0xd),
    store_row<3, Width::kD16>(Encoding::kMubuf, "buffer_store_format_d16_xyz", 0xe),
    store_row<4, Width::kD16>(Encoding::kMubuf, "buffer_store_format_d16_xyzw", 0xf),
    load_row<1, Width::kD16High>(Encoding::kMubuf, "buffer_load_format_d16_hi_x", 0x26),
    store_row<1, Width::kD16High>(Encoding::kMubuf, "buffer_store_format_d16_hi_x", 0x27),
    load_row<1, Width::kFull>(Encoding::kMtbuf, "tbuffer_load_format_x", 0x0),
    load_row<2, Width::kFull>(Encoding::kMtbuf, "tbuffer_load_format_xy", 0x1),
    load_row<3, Width::kFull>(Encoding::kMtbuf, "tbuffer_load_format_xyz", 0x2),
    load_row<4, Width::kFull>(Encoding::kMtbuf, "tbuffer_load_format_xyzw", 0x3),
    store_row<1, Width::kFull>(Encoding::kMtbuf, "tbuffer_store_format_x", 0x4),
    store_row<2, Width::kFull>(Encoding::kMtbuf, "tbuffer_store_format_xy", 0x5),
    store_row<3, Width::kFull>(Encoding::kMtbuf, "tbuffer_store_format_xyz", 0x6),
    store_row<4, Width::kFull>(Encoding::kMtbuf, "tbuffer_store_format_xyzw", 0x7),
    load_row<1, Width::kD16>(Encoding::kMtbuf, "tbuffer_load_format_d16_x", 0x8),
    load_row<2, Width::kD16>(Encoding::kMtbuf, "tbuffer_load_format_d16_xy", 0x9),
    load_row<3, Width::kD16>(Encoding::kMtbuf, "tbuffer_load_format_d16_xyz", 0xa),
    load_row<4, Width::kD16>(Encoding::kMtbuf, "tbuffer_load_format_d16_xyzw", 0xb),
    store_row<1, Width::kD16>(Encoding::kMtbuf, "tbuffer_store_format_d16_x", 0xc),
    store_row<2, Width::kD16>(Encoding::kMtbuf, "tbuffer_store_format_d16_xy", 0xd),
    store_row<3, Width::kD16>(Encoding::kMtbuf, "tbuffer_store_format_d16_xyz", 0xe),
    store_row<4, Width::kD16>(Encoding::kMtbuf, "tbuffer_store_format_d16_xyzw", 0xf),
};

}  // namespace

std::span<const OpInfo> buffer_format_rows() {
    return kRows;
}

}  // namespace asmevo::emulator
