// What Python calls, through ctypes: there is no Python API in the backend.
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>

#include "allocator.h"
#include "generator.h"
#include "graph_capture.h"
#include "hip_runtime.h"
#include "hooks.h"
#include "profiler.h"
#include "stream.h"
#include "tensors.h"

namespace asmevo::torch_device {
namespace {

/// What the Python layer calls as torch.ops.asmevo_device.*: torch wraps generators for Python and
/// turns exceptions into Python's.
void register_operators() {
    static auto& library = *new torch::Library(torch::Library::DEF, "asmevo_device", std::nullopt,
                                               __FILE__, __LINE__);
    library.def("default_generator() -> Generator?", [] { return default_generator(); });
    library.def("begin_capture() -> ()", &begin_capture);
    library.def("end_capture() -> int", &end_capture);
    library.def("release_capture(int id) -> ()", &release_capture);
    library.def("take_replay_error() -> str", &take_replay_error);
}

}  // namespace
}  // namespace asmevo::torch_device

#define ASMEVO_EXPORT extern "C" __attribute__((visibility("default")))

/// Registers the device in torch. Returns null, or what went wrong. Valid until the next call.
ASMEVO_EXPORT const char* asmevo_torch_install(const char* hip_library) {
    using namespace asmevo::torch_device;
    static std::string error;
    try {
        set_hip_library(hip_library);
        register_kernels();
        register_operators();
        register_allocator();
        register_guard();
        register_hooks();
        register_profiler();
        return nullptr;
    } catch (const c10::Error& caught) {
        error = caught.what_without_backtrace();
    } catch (const std::exception& caught) {
        error = caught.what();
    }
    return error.c_str();
}

/// The hipStream_t that is current in the calling thread.
ASMEVO_EXPORT void* asmevo_torch_current_stream() {
    return asmevo::torch_device::handle_of(asmevo::torch_device::current_stream());
}
