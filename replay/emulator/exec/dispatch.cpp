#include "exec/dispatch.h"

namespace asmevo::emulator {

DispatchResult run_dispatch(const DispatchRequest&, const DispatchOptions&) {
    DispatchResult result;
    result.report = "the executor is not built yet";
    return result;
}

}  // namespace asmevo::emulator
