// HIP's C types as our own declarations: values and layouts are the ABI of ROCm 6 and 7. Only what
// the emulated device reads or writes is declared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asmevo::emulator::hip {

/// hipError_t.
enum Error : int {
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kInvalidConfiguration = 9,
    kInvalidSymbol = 13,
    kInvalidMemcpyDirection = 21,
    kInvalidDeviceFunction = 98,
    kInvalidDevice = 101,
    kInvalidImage = 200,
    kInvalidContext = 201,
    kMapFailed = 205,
    kNoBinaryForGpu = 209,
    kUnsupportedLimit = 215,
    kFileNotFound = 301,
    kOperatingSystem = 304,
    kInvalidHandle = 400,
    kIllegalState = 401,
    kNotFound = 500,
    kNotReady = 600,
    kLaunchOutOfResources = 701,
    kPeerAccessAlreadyEnabled = 704,
    kAssert = 710,
    kHostMemoryAlreadyRegistered = 712,
    kHostMemoryNotRegistered = 713,
    kLaunchFailure = 719,
    kCooperativeLaunchTooLarge = 720,
    kNotSupported = 801,
    kStreamCaptureUnsupported = 900,
    kStreamCaptureInvalidated = 901,
    kStreamCaptureMerge = 902,
    kStreamCaptureUnmatched = 903,
    kStreamCaptureUnjoined = 904,
    kStreamCaptureIsolation = 905,
    kStreamCaptureImplicit = 906,
    kCapturedEvent = 907,
    kStreamCaptureWrongThread = 908,
    kGraphExecUpdateFailure = 910,
    kUnknown = 999,
};

/// dim3, passed by value.
struct Dim {
    uint32_t x, y, z;
};
static_assert(sizeof(Dim) == 12);

/// hipPointerAttribute_t and hipMemoryType.
enum MemoryType : int { kUnregistered = 0, kHost = 1, kDeviceMemory = 2, kManagedMemory = 3 };

struct PointerAttributes {
    int type;
    int device;
    void* device_pointer;
    void* host_pointer;
    int is_managed;
    unsigned allocation_flags;
};
static_assert(sizeof(PointerAttributes) == 32);

/// hipPointer_attribute.
enum PointerAttribute : int {
    kAttributeContext = 1,
    kAttributeMemoryType = 2,
    kAttributeDevicePointer = 3,
    kAttributeHostPointer = 4,
    kAttributeSyncMemops = 6,
    kAttributeBufferId = 7,
    kAttributeIsManaged = 8,
    kAttributeDeviceOrdinal = 9,
    kAttributeRangeStart = 11,
    kAttributeRangeSize = 12,
    kAttributeMapped = 13,
};

/// hipMemcpyKind.
enum CopyKind : int {
    kHostToHost,
    kHostToDevice,
    kDeviceToHost,
    kDeviceToDevice,
    kDefaultCopy,
    kNoCuCopy = 1024
};

/// hipMemLocation, hipMemAccessDesc and hipMemAllocationProp of the virtual memory API.
struct MemLocation {
    int type;  // 1: device
    int id;
};
enum AccessFlags : int { kAccessNone = 0, kAccessRead = 1, kAccessReadWrite = 3 };
struct MemAccess {
    MemLocation location;
    int flags;
};
static_assert(sizeof(MemAccess) == 12);
struct MemAllocationProperties {
    int type;  // 1: pinned
    int requested_handle_types;
    MemLocation location;
    void* win32_metadata;
    uint8_t compression_type;
    uint8_t gpu_direct_rdma_capable;
    uint16_t usage;
};
static_assert(sizeof(MemAllocationProperties) == 32);

/// hipFuncAttributes.
struct FunctionAttributes {
    int binary_version;
    int cache_mode_ca;
    size_t const_size_bytes;
    size_t local_size_bytes;
    int max_dynamic_shared_size_bytes;
    int max_threads_per_block;
    int num_regs;
    int preferred_shmem_carveout;
    int ptx_version;
    size_t shared_size_bytes;
};
static_assert(sizeof(FunctionAttributes) == 56);

/// hipLaunchAttribute, hipLaunchConfig_t and HIP_LAUNCH_CONFIG.
struct LaunchAttribute {
    int id;
    uint32_t padding;
    union {
        char bytes[64];
        int cooperative;
    } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
constexpr int kLaunchAttributeCooperative = 2;

struct LaunchConfig {
    Dim grid, block;
    size_t dynamic_lds_bytes;
    struct Stream* stream;
    const LaunchAttribute* attributes;
    unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

struct DriverLaunchConfig {
    uint32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
    uint32_t dynamic_lds_bytes;
    struct Stream* stream;
    const LaunchAttribute* attributes;
    unsigned attribute_count;
};
static_assert(sizeof(DriverLaunchConfig) == 56);

/// Keys of the `extra` array of a launch.
constexpr uintptr_t kLaunchParamBufferPointer = 1, kLaunchParamBufferSize = 2, kLaunchParamEnd = 3;

}  // namespace asmevo::emulator::hip
