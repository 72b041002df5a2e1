// What every implementation of a HIP function shares: its name, its guard and the error state.
#pragma once

#include <new>
#include <system_error>

#include "hip/types.h"

/// Defines the implementation of the exported function `name`: its slot's first value (see
/// thunks.S).
#define HIP_SLOT(name) \
    extern "C" __attribute__((visibility("hidden"))) ::asmevo::emulator::hip::Error slot_##name
#define HIP_SLOT_RETURNING(type, name) \
    extern "C" __attribute__((visibility("hidden"))) type slot_##name

namespace asmevo::emulator::hip {

/// The calling thread's last error; success never overwrites it (as ROCm 7).
Error record(Error error);
/// The error of an earlier failed launch: it stays until the device is reset.
Error sticky_error();
void set_sticky_error(Error error);

/// Runs an API body whatever happened before. No exception crosses the C ABI.
template <typename Body>
Error api_always(Body&& body) {
    try {
        return record(body());
    } catch (const std::bad_alloc&) {
        return record(kOutOfMemory);
    } catch (const std::system_error&) {
        return record(kUnknown);
    }
}

/// Runs an API body, unless a launch of this process failed before: then returns that error.
template <typename Body>
Error api(Body&& body) {
    if (Error sticky = sticky_error(); sticky != kSuccess) {
        return record(sticky);
    }
    return api_always(static_cast<Body&&>(body));
}

}  // namespace asmevo::emulator::hip
