#include "loader/metadata.h"

#include <string_view>

#include "loader/load_error.h"
#include "loader/msgpack.h"

namespace asmevo::emulator {
namespace {

constexpr uint32_t kMaxKernargSize =
    1 << 16;  // far above what HIP accepts (4 KiB and the hidden arguments)

struct KindName {
    std::string_view name;
    ValueKind kind;
};

constexpr KindName kKindNames[] = {
    {"by_value", ValueKind::kByValue},
    {"global_buffer", ValueKind::kGlobalBuffer},
    {"dynamic_shared_pointer", ValueKind::kDynamicSharedPointer},
    {"hidden_none", ValueKind::kHiddenNone},
    {"hidden_global_offset_x", ValueKind::kHiddenGlobalOffsetX},
    {"hidden_global_offset_y", ValueKind::kHiddenGlobalOffsetY},
    {"hidden_global_offset_z", ValueKind::kHiddenGlobalOffsetZ},
    {"hidden_block_count_x", ValueKind::kHiddenBlockCountX},
    {"hidden_block_count_y", ValueKind::kHiddenBlockCountY},
    {"hidden_block_count_z", ValueKind::kHiddenBlockCountZ},
    {"hidden_group_size_x", ValueKind::kHiddenGroupSizeX},
    {"hidden_group_size_y", ValueKind::kHiddenGroupSizeY},
    {"hidden_group_size_z", ValueKind::kHiddenGroupSizeZ},
    {"hidden_remainder_x", ValueKind::kHiddenRemainderX},
    {"hidden_remainder_y", ValueKind::kHiddenRemainderY},
    {"hidden_remainder_z", ValueKind::kHiddenRemainderZ},
    {"hidden_grid_dims", ValueKind::kHiddenGridDims},
    {"hidden_printf_buffer", ValueKind::kHiddenPrintfBuffer},
    {"hidden_hostcall_buffer", ValueKind::kHiddenHostcallBuffer},
    {"hidden_heap_v1", ValueKind::kHiddenHeap},
    {"hidden_dynamic_lds_size", ValueKind::kHiddenDynamicLdsSize},
    {"hidden_private_base", ValueKind::kHiddenPrivateBase},
    {"hidden_shared_base", ValueKind::kHiddenSharedBase},
    {"hidden_queue_ptr", ValueKind::kHiddenQueuePtr},
    {"hidden_multigrid_sync_arg", ValueKind::kHiddenMultigridSync},
    {"hidden_default_queue", ValueKind::kHiddenDefaultQueue},
    {"hidden_completion_action", ValueKind::kHiddenCompletionAction},
};

ValueKind parse_kind(std::string_view name) {
    for (const KindName& known : kKindNames) {
        if (known.name == name) {
            return known.kind;
        }
    }
    return name.starts_with("hidden_") ? ValueKind::kHiddenNone : ValueKind::kOther;
}

uint32_t read_u32(MsgpackReader& reader) {
    const uint64_t value = reader.read_unsigned();
    if (value > UINT32_MAX) {
        throw_invalid("a number of the metadata note is out of range");
    }
    return static_cast<uint32_t>(value);
}

KernelArgument read_argument(MsgpackReader& reader) {
    KernelArgument argument;
    for (uint32_t left = reader.read_map(); left > 0; --left) {
        const std::string_view key = reader.read_string();
        if (key == ".offset") {
            argument.offset = read_u32(reader);
        } else if (key == ".size") {
            argument.size = read_u32(reader);
        } else if (key == ".value_kind") {
            argument.kind = parse_kind(reader.read_string());
        } else {
            reader.skip();
        }
    }
    return argument;
}

void read_workgroup_size(MsgpackReader& reader, std::array<uint32_t, 3>& out) {
    if (reader.read_array() != 3) {
        throw_invalid(".reqd_workgroup_size has not three numbers");
    }
    for (uint32_t& extent : out) {
        extent = read_u32(reader);
    }
}

void read_entry(MsgpackReader& reader, std::string_view key, KernelMetadata& kernel) {
    if (key == ".name") {
        kernel.name = reader.read_string();
    } else if (key == ".symbol") {
        kernel.symbol = reader.read_string();
    } else if (key == ".args") {
        for (uint32_t left = reader.read_array(); left > 0; --left) {
            kernel.arguments.push_back(read_argument(reader));
        }
    } else if (key == ".kernarg_segment_size") {
        kernel.kernarg_size = read_u32(reader);
    } else if (key == ".kernarg_segment_align") {
        kernel.kernarg_align = read_u32(reader);
    } else if (key == ".group_segment_fixed_size") {
        kernel.group_segment_size = read_u32(reader);
    } else if (key == ".private_segment_fixed_size") {
        kernel.private_segment_size = read_u32(reader);
    } else if (key == ".max_flat_workgroup_size") {
        kernel.max_flat_workgroup_size = read_u32(reader);
    } else if (key == ".reqd_workgroup_size") {
        read_workgroup_size(reader, kernel.required_workgroup_size);
    } else if (key == ".uniform_work_group_size") {
        kernel.has_uniform_workgroups = read_u32(reader) != 0;
    } else if (key == ".wavefront_size") {
        kernel.wavefront_size = read_u32(reader);
    } else if (key == ".sgpr_count") {
        kernel.sgpr_count = read_u32(reader);
    } else if (key == ".vgpr_count") {
        kernel.vgpr_count = read_u32(reader);
    } else if (key == ".agpr_count") {
        kernel.agpr_count = read_u32(reader);
    } else {
        reader.skip();
    }
}

void check(const KernelMetadata& kernel) {
    if (kernel.name.empty() || kernel.symbol.empty()) {
        throw_invalid("a kernel of the metadata note has no name or no symbol");
    }
    if (kernel.kernarg_size > kMaxKernargSize) {
        throw_invalid("kernel " + kernel.name + " declares a kernarg segment that is too large");
    }
    for (const KernelArgument& argument : kernel.arguments) {
        if (argument.offset > kernel.kernarg_size ||
            argument.size > kernel.kernarg_size - argument.offset) {
            throw_invalid("an argument of kernel " + kernel.name +
                          " lies outside its kernarg segment");
        }
    }
}

KernelMetadata read_kernel(MsgpackReader& reader) {
    KernelMetadata kernel;
    for (uint32_t entries = reader.read_map(); entries > 0; --entries) {
        const std::string_view key = reader.read_string();
        read_entry(reader, key, kernel);
    }
    check(kernel);
    return kernel;
}

}  // namespace

Metadata parse_metadata(std::span<const uint8_t> note) {
    MsgpackReader reader(note);
    Metadata metadata;
    for (uint32_t left = reader.read_map(); left > 0; --left) {
        const std::string_view key = reader.read_string();
        if (key == "amdhsa.kernels") {
            for (uint32_t count = reader.read_array(); count > 0; --count) {
                metadata.kernels.push_back(read_kernel(reader));
            }
        } else if (key == "amdhsa.printf") {
            for (uint32_t count = reader.read_array(); count > 0; --count) {
                metadata.printf_formats.emplace_back(reader.read_string());
            }
        } else {
            reader.skip();
        }
    }
    return metadata;
}

}  // namespace asmevo::emulator
