// Why a code object cannot be loaded.
#pragma once

#include <stdexcept>
#include <string>

namespace asmevo::emulator {

/// Thrown by the loader; the HIP API turns it into hipErrorInvalidImage or hipErrorNoBinaryForGpu.
struct LoadError : std::runtime_error {
    enum class Kind { kInvalidImage, kNoBinaryForGpu };

    LoadError(Kind error_kind, const std::string& what)
        : std::runtime_error(what), kind(error_kind) {}
    Kind kind;
};

[[noreturn]] inline void throw_invalid(const std::string& what) {
    throw LoadError(LoadError::Kind::kInvalidImage, what);
}

}  // namespace asmevo::emulator
