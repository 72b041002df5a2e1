// Modules: load, look up functions and variables, unload.
#include "hip/module.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "hip/api.h"
#include "hip/device.h"
#include "hip/log.h"
#include "loader/load_error.h"
#include "memory/address_space.h"
#include "memory/host_mappings.h"

namespace asmevo::emulator::hip {
namespace {

struct State {
    std::shared_mutex mutex;
    std::map<const Module*, std::shared_ptr<Module>> modules;  // loaded through the module API
    std::map<const Function*, std::weak_ptr<Module>> functions;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

/// From `image` to the end of the memory that holds it: what may be read of an image of unknown
/// size.
std::span<const uint8_t> readable_from(const void* image) {
    const uint64_t address = reinterpret_cast<uint64_t>(image);
    MemoryRange range;
    HostMapping mapping;
    if (find_host_mapping(address, 1, mapping)) {
        return {static_cast<const uint8_t*>(image), mapping.end - address};
    }
    if (AddressSpace::get().find(address, 1, range)) {
        return {static_cast<const uint8_t*>(image), range.base + range.size - address};
    }
    return {};
}

Error load_bytes(std::span<const uint8_t> data, std::shared_ptr<Module>& out) {
    try {
        out = Module::load(data, chip().target);
        return kSuccess;
    } catch (const LoadError& error) {
        log_error("cannot load the code object: %s", error.what());
        return error.kind == LoadError::Kind::kInvalidImage ? kInvalidImage : kNoBinaryForGpu;
    }
}

Error keep_module(std::shared_ptr<Module> module, Module** out) {
    State& s = state();
    std::unique_lock lock(s.mutex);
    *out = module.get();
    s.modules[module.get()] = std::move(module);
    return kSuccess;
}

Error load_module(Module** out, const void* image) {
    if (!out || !image) {
        return kInvalidValue;
    }
    std::shared_ptr<Module> module;
    const Error error = load_code_object(image, module);
    return error == kSuccess ? keep_module(std::move(module), out) : error;
}

Error load_file(Module** out, const char* path) {
    if (!out || !path) {
        return kInvalidValue;
    }
    std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "rbe"), &std::fclose);
    if (!file) {
        return kFileNotFound;
    }
    std::vector<uint8_t> bytes;
    uint8_t buffer[65536];
    constexpr size_t kMaxFileSize = 1ull << 32;
    for (size_t count; (count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
        bytes.insert(bytes.end(), buffer, buffer + count);
        if (bytes.size() > kMaxFileSize) {
            return kInvalidImage;
        }
    }
    std::shared_ptr<Module> module;
    const Error error = load_bytes(bytes, module);
    return error == kSuccess ? keep_module(std::move(module), out) : error;
}

Error unload(const Module* module) {
    State& s = state();
    std::shared_ptr<Module> last;  // freed outside the lock
    std::unique_lock lock(s.mutex);
    const auto found = s.modules.find(module);
    if (found == s.modules.end()) {
        return kInvalidHandle;
    }
    last = std::move(found->second);
    s.modules.erase(found);
    for (const auto& kernel : last->kernels()) {
        s.functions.erase(kernel.get());
    }
    lock.unlock();
    return kSuccess;
}

}  // namespace

Error load_code_object(const void* image, std::shared_ptr<Module>& out) {
    return load_bytes(readable_from(image), out);
}

std::shared_ptr<Module> find_module(const Module* module) {
    State& s = state();
    std::shared_lock lock(s.mutex);
    const auto found = s.modules.find(module);
    return found == s.modules.end() ? nullptr : found->second;
}

const Function* get_function(const std::shared_ptr<Module>& module, const char* name) {
    const Function* function = module->find_kernel(name);
    if (function) {
        State& s = state();
        std::unique_lock lock(s.mutex);
        s.functions[function] = module;
    }
    return function;
}

std::shared_ptr<Module> find_function(const Function* function) {
    State& s = state();
    std::shared_lock lock(s.mutex);
    const auto found = s.functions.find(function);
    return found == s.functions.end() ? nullptr : found->second.lock();
}

HIP_SLOT(hipModuleLoadData)(Module** module, const void* image) {
    return api([&] { return load_module(module, image); });
}
HIP_SLOT(hipModuleLoadDataEx)(Module** module, const void* image, unsigned, int*, void**) {
    return api([&] { return load_module(module, image); });
}
HIP_SLOT(hipModuleLoadFatBinary)(Module** module, const void* image) {
    return api([&] { return load_module(module, image); });
}
HIP_SLOT(hipModuleLoad)(Module** module, const char* path) {
    return api([&] { return load_file(module, path); });
}
HIP_SLOT(hipModuleUnload)(Module* module) {
    return api_always([&] { return unload(module); });
}

HIP_SLOT(hipModuleGetFunction)(const Function** function, Module* module, const char* name) {
    return api([&] {
        if (!function || !name) {
            return kInvalidValue;
        }
        const auto loaded = find_module(module);
        if (!loaded) {
            return kInvalidHandle;
        }
        *function = get_function(loaded, name);
        return *function ? kSuccess : kNotFound;
    });
}

HIP_SLOT(hipModuleGetFunctionCount)(unsigned* count, Module* module) {
    return api([&] {
        const auto loaded = find_module(module);
        if (!count || !loaded) {
            return count ? kInvalidHandle : kInvalidValue;
        }
        *count = static_cast<unsigned>(loaded->kernels().size());
        return kSuccess;
    });
}

HIP_SLOT(hipModuleGetGlobal)(void** address, size_t* size, Module* module, const char* name) {
    return api([&] {
        if (!name || (!address && !size)) {
            return kInvalidValue;
        }
        const auto loaded = find_module(module);
        if (!loaded) {
            return kInvalidHandle;
        }
        const LoadedVariable* variable = loaded->find_variable(name);
        if (!variable) {
            return kNotFound;
        }
        if (address) {
            *address = reinterpret_cast<void*>(variable->address);
        }
        if (size) {
            *size = variable->size;
        }
        return kSuccess;
    });
}

HIP_SLOT_RETURNING(const char*, hipKernelNameRef)(const Function* function) {
    return find_function(function) ? function->metadata.name.c_str() : "";
}

}  // namespace asmevo::emulator::hip
