// A bounded view of an AMDGPU ELF image. The image is hostile: nothing is read before it was
// checked.
#pragma once

#include <elf.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace asmevo::emulator {

struct ElfSymbol {
    std::string_view name;
    uint64_t value = 0, size = 0;
    uint8_t type = 0;  // STT_*
    bool is_defined = false;
};

/// Headers, symbols, relocations and notes of a code object. Views into `data` given to the
/// constructor.
class ElfImage {
  public:
    /// Bytes of the image that starts at `data`, from its section header table (the HIP API passes
    /// no size). Throws LoadError when the headers lie outside `data`.
    static uint64_t measure(std::span<const uint8_t> data);
    static bool is_elf(std::span<const uint8_t> data);

    /// Reads all tables; throws LoadError.
    explicit ElfImage(std::span<const uint8_t> data);

    const Elf64_Ehdr& header() const { return header_; }
    const std::vector<Elf64_Phdr>& segments() const { return segments_; }
    /// Of .dynsym.
    const std::vector<ElfSymbol>& symbols() const { return symbols_; }
    /// Those the loader must apply.
    const std::vector<Elf64_Rela>& relocations() const { return relocations_; }
    /// Description of the NT_AMDGPU_METADATA note; empty if there is none.
    std::span<const uint8_t> metadata() const { return metadata_; }
    std::span<const uint8_t> bytes(uint64_t offset, uint64_t size) const;

  private:
    void read_symbols(const Elf64_Shdr& section, std::span<const Elf64_Shdr> sections);
    void find_metadata(const Elf64_Phdr& segment);

    std::span<const uint8_t> data_;
    Elf64_Ehdr header_{};
    std::vector<Elf64_Phdr> segments_;
    std::vector<ElfSymbol> symbols_;
    std::vector<Elf64_Rela> relocations_;
    std::span<const uint8_t> metadata_;
};

}  // namespace asmevo::emulator
