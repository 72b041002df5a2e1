// hipGetProcAddress and the versions. The address returned is the exported thunk, as from ROCm,
// whose implementation is a dlsym on its own library: callers that resolve through it go through
// the table too.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "hip/api.h"

namespace asmevo::emulator::hip {
namespace {

constexpr int kVersion = 70125424;  // 7.1: major * 10^7 + minor * 10^5 + patch

struct Export {
    std::string_view name;
    uint32_t index;
};

constexpr auto kExports = [] {
    std::array exports{
#define SLOT(index, name) Export{#name, index},
#include "hip/runtime_slots.inc"
#undef SLOT
    };
    std::sort(exports.begin(), exports.end(),
              [](const Export& a, const Export& b) { return a.name < b.name; });
    return exports;
}();

extern "C" __attribute__((visibility("hidden"))) void* const asmevo_hip_thunks[kExports.size()];

/// Names whose current struct version is exported under another name.
std::string_view versioned_name(std::string_view name) {
    return name == "hipGetDeviceProperties" ? "hipGetDevicePropertiesR0600"
           : name == "hipChooseDeviceR0600" ? "hipChooseDevice"
                                            : name;
}

void* find_thunk(const char* symbol) {
    std::string_view name = versioned_name(symbol);
    auto found = std::lower_bound(kExports.begin(), kExports.end(), name,
                                  [](const Export& e, std::string_view n) { return e.name < n; });
    return found != kExports.end() && found->name == name ? asmevo_hip_thunks[found->index]
                                                          : nullptr;
}

}  // namespace

HIP_SLOT(hipGetProcAddress)(const char* symbol, void** out, int version, uint64_t, int* status) {
    return api_always([&] {
        if (!symbol || !out || version < 0) {
            return kInvalidValue;
        }
        *out = find_thunk(symbol);
        if (status) {
            *status = *out ? 0 : 1;  // HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
        }
        return *out ? kSuccess : kInvalidValue;
    });
}

HIP_SLOT(hipGetProcAddress_spt)(const char* symbol, void** out, int version, uint64_t flags,
                                int* status) {
    return slot_hipGetProcAddress(symbol, out, version, flags, status);
}

HIP_SLOT(hipGetDriverEntryPoint)(const char* symbol, void** out, uint64_t flags, int* status) {
    return slot_hipGetProcAddress(symbol, out, kVersion, flags, status);
}

HIP_SLOT(hipDriverGetVersion)(int* version) {
    return api_always([&] { return version ? (*version = kVersion, kSuccess) : kInvalidValue; });
}

HIP_SLOT(hipRuntimeGetVersion)(int* version) {
    return api_always([&] { return version ? (*version = kVersion, kSuccess) : kInvalidValue; });
}

}  // namespace asmevo::emulator::hip
