// The kernels' metadata: LLVM's AMDGPUUsage, "Code Object V3 and Above Metadata".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace asmevo::emulator {

/// `.value_kind` of an argument: what the runtime puts at its place in the kernarg segment.
enum class ValueKind : uint8_t {
    kByValue,
    kGlobalBuffer,
    kDynamicSharedPointer,
    kOther,  // from the caller
    kHiddenNone,
    kHiddenGlobalOffsetX,
    kHiddenGlobalOffsetY,
    kHiddenGlobalOffsetZ,
    kHiddenBlockCountX,
    kHiddenBlockCountY,
    kHiddenBlockCountZ,
    kHiddenGroupSizeX,
    kHiddenGroupSizeY,
    kHiddenGroupSizeZ,
    kHiddenRemainderX,
    kHiddenRemainderY,
    kHiddenRemainderZ,
    kHiddenGridDims,
    kHiddenPrintfBuffer,
    kHiddenHostcallBuffer,
    kHiddenHeap,
    kHiddenDynamicLdsSize,
    kHiddenPrivateBase,
    kHiddenSharedBase,
    kHiddenQueuePtr,
    kHiddenMultigridSync,
    kHiddenDefaultQueue,
    kHiddenCompletionAction,
};

constexpr bool is_hidden(ValueKind kind) {
    return kind >= ValueKind::kHiddenNone;
}

struct KernelArgument {
    uint32_t offset = 0, size = 0;  // bytes, in the kernarg segment
    ValueKind kind = ValueKind::kOther;
};

struct KernelMetadata {
    std::string name;    // as hipModuleGetFunction takes it
    std::string symbol;  // of the descriptor: NAME.kd
    std::vector<KernelArgument> arguments;
    uint32_t kernarg_size = 0, kernarg_align = 8;
    uint32_t group_segment_size = 0, private_segment_size = 0;
    uint32_t max_flat_workgroup_size = 1024;
    std::array<uint32_t, 3> required_workgroup_size{};  // zeros: any
    bool has_uniform_workgroups = false;  // compiled for grids of whole workgroups only
    uint32_t wavefront_size = 64;
    uint32_t sgpr_count = 0, vgpr_count = 0, agpr_count = 0;
};

struct Metadata {
    std::vector<KernelMetadata> kernels;
    std::vector<std::string> printf_formats;  // entries of amdhsa.printf
};

/// Reads the description of an NT_AMDGPU_METADATA note. Throws LoadError.
Metadata parse_metadata(std::span<const uint8_t> note);

}  // namespace asmevo::emulator
