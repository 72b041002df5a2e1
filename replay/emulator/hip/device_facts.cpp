// What the device says of itself: hipDeviceProp_tR0600 and hipDeviceAttribute_t, from one list of
// facts.
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "hip/api.h"
#include "hip/device.h"

namespace asmevo::emulator::hip {
namespace {

constexpr size_t kPropertiesSize = 1472;  // hipDeviceProp_tR0600
constexpr size_t kNameOffset = 0, kUuidOffset = 256, kArchNameOffset = 1160, kTextSize = 256;
constexpr int kNone = -1;

/// One number: its hipDeviceAttribute_t, its place in the properties struct, its value.
struct Fact {
    int attribute;
    int offset;
    int width;  // bytes in the struct
    int64_t value;
};

std::vector<Fact> make_facts() {
    const Chip& c = chip();
    const bool unified = is_unified();
    const int64_t lds = c.lds_bytes, memory = static_cast<int64_t>(device_memory_bytes());
    const int64_t registers = 65536;  // ROCm has one number for a block and for a compute unit
    const int minor = c.target == Target::kGfx90a ? 0 : c.target == Target::kGfx942 ? 4 : 5;
    return {
        {84, 288, 8, memory},     // totalGlobalMem
        {74, 296, 8, lds},        // sharedMemPerBlock
        {75, 696, 8, lds},        // sharedMemPerBlockOptin
        {76, 640, 8, lds},        // sharedMemPerMultiprocessor
        {10002, 1416, 8, lds},    // maxSharedMemoryPerMultiProcessor
        {71, 304, 4, registers},  // regsPerBlock
        {72, 648, 4, registers},  // regsPerMultiprocessor
        {87, 308, 4, 64},         // warpSize
        {58, 312, 8, INT_MAX},    // memPitch
        {56, 320, 4, 1024},       // maxThreadsPerBlock
        {55, kNone, 4, 1024},     // maxThreadsDim
        {26, 324, 4, 1024},       // maxThreadsDim[3]
        {27, 328, 4, 1024},
        {28, 332, 4, 1024},
        {29, 336, 4, INT_MAX},  // maxGridSize[3]
        {30, 340, 4, 65536},
        {31, 344, 4, 65536},
        {5, 348, 4, c.clock_khz},                        // clockRate
        {83, 352, 8, INT_MAX},                           // totalConstMem
        {23, 360, 4, 9},                                 // major
        {61, 364, 4, minor},                             // minor
        {81, 368, 8, 256},                               // textureAlignment
        {82, 376, 8, 256},                               // texturePitchAlignment
        {79, 568, 8, 256},                               // surfaceAlignment
        {12, 384, 4, 1},                                 // deviceOverlap
        {63, 388, 4, c.compute_units},                   // multiProcessorCount
        {10015, kNone, 4, c.compute_units},              // physicalMultiProcessorCount
        {18, 392, 4, 0},                                 // kernelExecTimeoutEnabled
        {16, 396, 4, std::strcmp(c.id, "mi300a") == 0},  // integrated
        {3, 400, 4, 1},                                  // canMapHostMemory
        {6, 404, 4, 0},                                  // computeMode
        {8, 576, 4, 1},                                  // concurrentKernels
        {0, 580, 4, 1},                                  // ECCEnabled
        {67, 584, 4, 1},                                 // pciBusID
        {68, 588, 4, 0},                                 // pciDeviceID
        {69, 592, 4, 0},                                 // pciDomainID
        {10020, kNone, 4, c.pci_device_id},              // pciChipId
        {2, 600, 4, 2},                                  // asyncEngineCount
        {85, 604, 4, 1},                                 // unifiedAddressing
        {60, 608, 4, c.memory_clock_khz},                // memoryClockRate
        {59, 612, 4, c.memory_bus_bits},                 // memoryBusWidth
        {19, 616, 4, c.l2_bytes},                        // l2CacheSize
        {57, 624, 4, 2048},         // maxThreadsPerMultiProcessor: 32 waves of 64
        {78, 628, 4, 1},            // streamPrioritiesSupported
        {24, 652, 4, 1},            // managedMemory
        {15, 664, 4, unified},      // hostNativeAtomicSupported
        {65, 672, 4, unified},      // pageableMemoryAccess
        {66, 704, 4, unified},      // pageableMemoryAccessUsesHostPageTables
        {9, 676, 4, 1},             // concurrentManagedAccess
        {7, 680, 4, 0},             // computePreemptionSupported
        {4, 684, 4, 1},             // canUseHostPointerForRegisteredMem
        {10, 688, 4, 1},            // cooperativeLaunch
        {11, 692, 4, 1},            // cooperativeMultiDeviceLaunch: with the one device
        {13, 708, 4, unified},      // directManagedMemAccessFromHost
        {25, 712, 4, 2},            // maxBlocksPerMultiProcessor: of 1024 work-items
        {89, kNone, 4, 1},          // virtualMemoryManagementSupported
        {90, 728, 4, 1},            // hostRegisterSupported
        {88, 744, 4, 1},            // memoryPoolsSupported
        {kNone, 768, 4, 1},         // ipcEventSupported
        {70, 620, 4, c.l2_bytes},   // persistingL2CacheMaxSize
        {14, 632, 4, 1},            // globalL1CacheSupported
        {20, 636, 4, 1},            // localL1CacheSupported
        {10000, 1424, 4, 1000000},  // clockInstructionRate: of the time stamps, as ROCm says
        {10007, 1448, 4, 1},        // cooperativeMultiDeviceUnmatchedFunc and its like
        {10008, 1452, 4, 1},
        {10009, 1456, 4, 1},
        {10010, 1460, 4, 1},
        {10017, kNone, 4, 100000},  // wallClockRate: the constant clock, 100 MHz
        {10011, 1464, 4, 1},        // isLargeBar
        {10012, 1468, 4, 1},        // asicRevision
        {10013, kNone, 4, 0},       // canUseStreamWaitValue
        {10014, kNone, 4, 0},       // imageSupport
        {10016, kNone, 4, 1},       // fineGrainSupport
        {10018, kNone, 4, c.xcds},  // numberOfXccs
        {10019, kNone, 4, 512},     // maxAvailableVgprsPerThread
    };
}

const std::vector<Fact>& facts() {
    static const std::vector<Fact>& instance = *new std::vector<Fact>(make_facts());
    return instance;
}

}  // namespace

HIP_SLOT(hipGetDevicePropertiesR0600)(void* out, int device) {
    return api([&] {
        if (!out) {
            return kInvalidValue;
        }
        if (device != 0) {
            return kInvalidDevice;
        }
        std::array<char, kPropertiesSize> properties{};
        std::snprintf(&properties[kNameOffset], kTextSize, "%s", chip().name);
        std::snprintf(&properties[kArchNameOffset], kTextSize, "%s", gcn_arch_name());
        std::memcpy(&properties[kUuidOffset], "asmevo-emulated0", 16);
        const uint32_t arch_features =
            0x1ffff;  // hipDeviceArch_t: all but dynamic parallelism and surfaces
        const uint32_t has_surfaces = 1u << 14, has_dynamic_parallelism = 1u << 16;
        const uint32_t features = arch_features & ~(has_surfaces | has_dynamic_parallelism);
        std::memcpy(&properties[1428], &features, sizeof features);
        for (const Fact& fact : facts()) {
            if (fact.offset != kNone) {
                std::memcpy(&properties[static_cast<size_t>(fact.offset)], &fact.value,
                            static_cast<size_t>(fact.width));
            }
        }
        std::memcpy(out, properties.data(), properties.size());
        return kSuccess;
    });
}

HIP_SLOT(hipDeviceGetAttribute)(int* value, int attribute, int device) {
    return api([&] {
        if (!value) {
            return kInvalidValue;
        }
        if (device != 0) {
            return kInvalidDevice;
        }
        for (const Fact& fact : facts()) {
            if (fact.attribute == attribute) {
                *value = static_cast<int>(fact.value > INT_MAX ? INT_MAX : fact.value);
                return kSuccess;
            }
        }
        // Known to HIP but meaningless here (textures, surfaces, CUDA only): zero, as ROCm answers
        // for most.
        const bool is_known =
            (attribute >= 0 && attribute <= 91) || (attribute >= 10000 && attribute <= 10020);
        *value = 0;
        return is_known ? kSuccess : kInvalidValue;
    });
}

}  // namespace asmevo::emulator::hip
