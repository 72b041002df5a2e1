// A code object loaded into the device's memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/dispatch.h"
#include "loader/elf_image.h"
#include "loader/metadata.h"

namespace asmevo::emulator {

/// A kernel that can be launched: hipFunction_t points to one.
struct LoadedKernel {
    KernelImage image;
    KernelMetadata metadata;
};

/// A variable of a code object, in device memory.
struct LoadedVariable {
    uint64_t address = 0, size = 0;
};

/// Owns the memory, the decoded code and the kernels of one loaded code object. Immutable once
/// loaded.
class LoadedCodeObject {
  public:
    /// Loads the code object that starts at `data` (an ELF image, or an offload bundle, compressed
    /// or not, that holds one for the device); bytes behind its end are ignored. Throws LoadError.
    static std::shared_ptr<LoadedCodeObject> load(std::span<const uint8_t> data, Target device);
    ~LoadedCodeObject();
    LoadedCodeObject(const LoadedCodeObject&) = delete;
    LoadedCodeObject& operator=(const LoadedCodeObject&) = delete;

    /// By name or by descriptor symbol; null if there is none.
    const LoadedKernel* find_kernel(std::string_view name) const;
    const std::vector<std::unique_ptr<LoadedKernel>>& kernels() const { return kernels_; }
    const LoadedVariable* find_variable(std::string_view name) const;
    /// The formats of its printf calls, as the metadata has them ("0:0:HASH,FORMAT").
    const std::vector<std::string>& printf_formats() const { return printf_formats_; }

  private:
    LoadedCodeObject() = default;
    void load_segments(const ElfImage& elf);
    void relocate(const ElfImage& elf);
    void find_symbols(const ElfImage& elf);
    void make_kernel(const KernelMetadata& metadata);
    /// The loaded bytes at an ELF address; throws LoadError outside of what was loaded.
    uint8_t* loaded(uint64_t elf_address, uint64_t size) const;

    Target target_ = Target::kGfx942;
    std::vector<uint8_t> image_;    // the ELF image: what the debugger's list names
    uint64_t base_ = 0, size_ = 0;  // of the mapping
    uint64_t bias_ = 0;             // loaded address minus ELF address
    uint64_t first_ = 0;            // lowest ELF address, rounded down to a page
    std::vector<uint64_t> ranges_;  // registered with the address space
    std::vector<std::unique_ptr<CodeSegment>> code_;
    std::map<std::string, LoadedVariable, std::less<>> objects_;
    std::vector<std::unique_ptr<LoadedKernel>> kernels_;
    std::vector<std::string> printf_formats_;
};

}  // namespace asmevo::emulator
