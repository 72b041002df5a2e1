#include "hip/kernarg.h"

#include <algorithm>
#include <cstring>

#include "hip/log.h"

namespace asmevo::emulator::hip {
namespace {

/// Value of a hidden argument: LLVM AMDGPUUsage, "Code Object V5 Metadata". Kernels cannot launch
/// others: the pointers for that are null.
uint64_t hidden_value(ValueKind kind, const LaunchShape& shape, const HiddenPointers& hidden) {
    switch (kind) {
        case ValueKind::kHiddenBlockCountX:  // whole ones
            return shape.grid.x - (shape.remainder.x != 0);
        case ValueKind::kHiddenBlockCountY:  // whole ones
            return shape.grid.y - (shape.remainder.y != 0);
        case ValueKind::kHiddenBlockCountZ:  // whole ones
            return shape.grid.z - (shape.remainder.z != 0);
        case ValueKind::kHiddenGroupSizeX:
            return shape.block.x;
        case ValueKind::kHiddenGroupSizeY:
            return shape.block.y;
        case ValueKind::kHiddenGroupSizeZ:
            return shape.block.z;
        case ValueKind::kHiddenRemainderX:
            return shape.remainder.x;
        case ValueKind::kHiddenRemainderY:
            return shape.remainder.y;
        case ValueKind::kHiddenRemainderZ:
            return shape.remainder.z;
        case ValueKind::kHiddenGridDims:
            return 3;
        case ValueKind::kHiddenDynamicLdsSize:
            return shape.dynamic_lds;
        case ValueKind::kHiddenPrivateBase:
            return kPrivateApertureBase >> 32;
        case ValueKind::kHiddenSharedBase:
            return kSharedApertureBase >> 32;
        case ValueKind::kHiddenQueuePtr:
            return hidden.queue;
        case ValueKind::kHiddenPrintfBuffer:
            return hidden.printf_buffer;
        case ValueKind::kHiddenHostcallBuffer:
            return hidden.hostcall_buffer;
        case ValueKind::kHiddenHeap:
            return hidden.heap;
        case ValueKind::kHiddenMultigridSync:
            return hidden.grid_sync;
        default:
            return 0;
    }
}

struct Buffer {
    const uint8_t* data = nullptr;
    uint64_t size = 0;
};

/// Reads the key-value list of a launch's `extra`.
bool parse_extra(void* const* extra, Buffer& out) {
    constexpr int kMaxEntries = 8;
    for (int i = 0; i < kMaxEntries; ++i) {
        const auto key = reinterpret_cast<uintptr_t>(*extra++);
        if (key == kLaunchParamEnd) {
            return out.data || out.size == 0;
        }
        if (key == kLaunchParamBufferPointer) {
            out.data = static_cast<const uint8_t*>(*extra++);
        } else if (key == kLaunchParamBufferSize) {
            const void* size = *extra++;
            if (!size) {
                return false;
            }
            std::memcpy(&out.size, size, sizeof out.size);
        } else {
            return false;
        }
    }
    return false;
}

/// End of the last argument that the caller supplies.
uint64_t explicit_size(const LoadedKernel& kernel) {
    uint64_t end = 0;
    for (const KernelArgument& argument : kernel.metadata.arguments) {
        if (!is_hidden(argument.kind)) {
            end = std::max<uint64_t>(end, static_cast<uint64_t>(argument.offset) + argument.size);
        }
    }
    return end;
}

Error copy_params(const LoadedKernel& kernel, void* const* params, uint8_t* segment) {
    size_t index = 0;
    for (const KernelArgument& argument : kernel.metadata.arguments) {
        if (is_hidden(argument.kind)) {
            continue;
        }
        if (!params || !params[index]) {
            log_error("launch of %s: argument %zu is missing", kernel.metadata.name.c_str(), index);
            return kInvalidValue;
        }
        std::memcpy(segment + argument.offset, params[index++], argument.size);
    }
    return kSuccess;
}

Error copy_buffer(const LoadedKernel& kernel, void* const* extra, uint8_t* segment) {
    Buffer buffer;
    if (!parse_extra(extra, buffer)) {
        return kInvalidValue;
    }
    if (buffer.size < explicit_size(kernel)) {
        log_error(
            "launch of %s: the argument buffer has %lu bytes, the kernel's arguments take %lu",
            kernel.metadata.name.c_str(), static_cast<unsigned long>(buffer.size),
            static_cast<unsigned long>(explicit_size(kernel)));
        return kInvalidValue;
    }
    if (buffer.size != 0) {
        std::memcpy(segment, buffer.data,
                    std::min<uint64_t>(buffer.size, kernel.image.kernarg_size));
    }
    return kSuccess;
}

}  // namespace

Error build_kernarg(const LoadedKernel& kernel, const LaunchShape& shape, void* const* params,
                    void* const* extra, const HiddenPointers& hidden, uint8_t* segment) {
    if (params && extra) {
        return kInvalidValue;
    }
    std::memset(segment, 0, kernel.image.kernarg_size);
    const Error error =
        extra ? copy_buffer(kernel, extra, segment) : copy_params(kernel, params, segment);
    if (error != kSuccess) {
        return error;
    }
    for (const KernelArgument& argument : kernel.metadata.arguments) {
        if (is_hidden(argument.kind)) {
            const uint64_t value = hidden_value(argument.kind, shape, hidden);
            std::memset(segment + argument.offset, 0, argument.size);
            std::memcpy(segment + argument.offset, &value,
                        std::min<size_t>(argument.size, sizeof value));
        }
    }
    return kSuccess;
}

bool has_argument(const LoadedKernel& kernel, ValueKind kind) {
    return std::any_of(kernel.metadata.arguments.begin(), kernel.metadata.arguments.end(),
                       [&](const KernelArgument& argument) { return argument.kind == kind; });
}

}  // namespace asmevo::emulator::hip
