// hipLibrary* and hipKernel*: a library is a module, a kernel is a function.
#include <algorithm>

#include "hip/api.h"
#include "hip/module.h"

namespace asmevo::emulator::hip {

HIP_SLOT(hipModuleLoadData)(Module** module, const void* image);
HIP_SLOT(hipModuleLoad)(Module** module, const char* path);
HIP_SLOT(hipModuleUnload)(Module* module);
HIP_SLOT(hipModuleGetFunction)(const Function** function, Module* module, const char* name);
HIP_SLOT(hipModuleGetFunctionCount)(unsigned* count, Module* module);
HIP_SLOT(hipFuncGetAttribute)(int* value, int attribute, const Function* function);

HIP_SLOT(hipLibraryLoadData)(Module** library, const void* image, int*, void**, unsigned, int*,
                             void**, unsigned) {
    return slot_hipModuleLoadData(library, image);
}
HIP_SLOT(hipLibraryLoadFromFile)(Module** library, const char* path, int*, void**, unsigned, int*,
                                 void**, unsigned) {
    return slot_hipModuleLoad(library, path);
}
HIP_SLOT(hipLibraryUnload)(Module* library) {
    return slot_hipModuleUnload(library);
}
HIP_SLOT(hipLibraryGetKernel)(const Function** kernel, Module* library, const char* name) {
    return slot_hipModuleGetFunction(kernel, library, name);
}
HIP_SLOT(hipLibraryGetKernelCount)(unsigned* count, Module* library) {
    return slot_hipModuleGetFunctionCount(count, library);
}

HIP_SLOT(hipLibraryEnumerateKernels)(const Function** kernels, unsigned count, Module* library) {
    return api([&] {
        const auto loaded = find_module(library);
        if (!kernels || !loaded) {
            return kernels ? kInvalidHandle : kInvalidValue;
        }
        for (unsigned i = 0; i < std::min<size_t>(count, loaded->kernels().size()); ++i) {
            kernels[i] = get_function(loaded, loaded->kernels()[i]->metadata.name.c_str());
        }
        return kSuccess;
    });
}

HIP_SLOT(hipKernelGetFunction)(const Function** function, const Function* kernel) {
    return api([&] {
        return function && find_function(kernel) ? (*function = kernel, kSuccess) : kInvalidHandle;
    });
}
HIP_SLOT(hipKernelGetLibrary)(Module** library, const Function* kernel) {
    return api([&] {
        const auto loaded = find_function(kernel);
        return library && loaded ? (*library = loaded.get(), kSuccess) : kInvalidHandle;
    });
}
HIP_SLOT(hipKernelGetName)(const char** name, const Function* kernel) {
    return api([&] {
        return name && find_function(kernel) ? (*name = kernel->metadata.name.c_str(), kSuccess)
                                             : kInvalidHandle;
    });
}
HIP_SLOT(hipKernelGetAttribute)(int* value, int attribute, const Function* kernel, int) {
    return slot_hipFuncGetAttribute(value, attribute, kernel);
}

HIP_SLOT(hipKernelGetParamInfo)(const Function* kernel, size_t index, size_t* offset,
                                size_t* size) {
    return api([&] {
        const auto loaded = find_function(kernel);
        if (!loaded || !offset) {
            return loaded ? kInvalidValue : kInvalidHandle;
        }
        for (const KernelArgument& argument : kernel->metadata.arguments) {
            if (!is_hidden(argument.kind) && index-- == 0) {
                *offset = argument.offset;
                if (size) {
                    *size = argument.size;
                }
                return kSuccess;
            }
        }
        return kInvalidValue;
    });
}

}  // namespace asmevo::emulator::hip
