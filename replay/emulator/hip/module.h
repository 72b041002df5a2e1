// Loaded modules and their functions, shared by the module API and by code registered at program
// start.
#pragma once

#include <memory>
#include <span>

#include "hip/types.h"
#include "loader/code_object.h"

namespace asmevo::emulator::hip {

/// hipModule_t and hipFunction_t are addresses of these.
using Module = LoadedCodeObject;
using Function = LoadedKernel;

/// Loads what starts at `image`; the size is found from its headers, within the mapping that holds
/// it. Reports on stderr why it fails.
Error load_code_object(const void* image, std::shared_ptr<Module>& out);

/// The module of a handle; null when it is none, or was unloaded.
std::shared_ptr<Module> find_module(const Module* module);

/// The function of `module` called `name`, known to find_function from now on; null if there is
/// none.
const Function* get_function(const std::shared_ptr<Module>& module, const char* name);

/// The module that keeps `function` alive; null when it is not a function, or its module was
/// unloaded.
std::shared_ptr<Module> find_function(const Function* function);

/// The function behind the host address of a `__global__` function (or a function handle itself).
Error resolve_symbol(const void* symbol, const Function*& out);

/// Workgroups of `threads` work-items that one compute unit holds at a time.
uint32_t max_active_blocks(const Function& function, uint32_t threads, uint64_t dynamic_lds);

}  // namespace asmevo::emulator::hip
