#include "loader/elf_image.h"

#include <algorithm>
#include <cstring>

#include "loader/load_error.h"

namespace asmevo::emulator {
namespace {

constexpr uint16_t kMachineAmdgpu = 224;   // EM_AMDGPU
constexpr uint8_t kOsAbiHsa = 64;          // ELFOSABI_AMDGPU_HSA
constexpr uint8_t kAbiV4 = 2, kAbiV6 = 4;  // ELFABIVERSION_AMDGPU_HSA_V4 to _V6
constexpr uint32_t kNoteMetadata = 32;     // NT_AMDGPU_METADATA
constexpr uint64_t kMaxImageSize = 1ull << 32;

template <typename Record>
Record read_record(std::span<const uint8_t> data, uint64_t offset) {
    if (offset > data.size() || data.size() - offset < sizeof(Record)) {
        throw_invalid("the image is cut");
    }
    Record record;
    std::memcpy(&record, data.data() + offset, sizeof record);
    return record;
}

template <typename Record>
std::vector<Record> read_table(std::span<const uint8_t> data, uint64_t offset, uint64_t count) {
    if (offset > data.size() || count > (data.size() - offset) / sizeof(Record)) {
        throw_invalid("a table of the image lies outside it");
    }
    std::vector<Record> table(count);
    if (count == 0) {
        return table;  // memcpy takes no null pointer, not even for nothing
    }
    std::memcpy(table.data(), data.data() + offset, count * sizeof(Record));
    return table;
}

std::string_view read_name(std::span<const uint8_t> strings, uint32_t offset) {
    if (offset >= strings.size()) {
        throw_invalid("a symbol's name lies outside the string table");
    }
    const auto tail = strings.subspan(offset);
    const auto end = std::find(tail.begin(), tail.end(), 0);
    if (end == tail.end()) {
        throw_invalid("a symbol's name is not terminated");
    }
    return {reinterpret_cast<const char*>(tail.data()), static_cast<size_t>(end - tail.begin())};
}

void check_header(const Elf64_Ehdr& header) {
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != kMachineAmdgpu || header.e_type != ET_DYN ||
        header.e_ident[EI_OSABI] != kOsAbiHsa) {
        throw_invalid("the image is not a loadable AMDGPU HSA code object");
    }
    const unsigned abi = header.e_ident[EI_ABIVERSION];
    if (abi < kAbiV4 || abi > kAbiV6) {
        throw_invalid("code object version " + std::to_string(abi + 2) + " is not one of 4, 5, 6");
    }
    if (header.e_phentsize != sizeof(Elf64_Phdr) ||
        (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))) {
        throw_invalid("the image's header entries have a wrong size");
    }
}

}  // namespace

bool ElfImage::is_elf(std::span<const uint8_t> data) {
    return data.size() >= SELFMAG && std::memcmp(data.data(), ELFMAG, SELFMAG) == 0;
}

uint64_t ElfImage::measure(std::span<const uint8_t> data) {
    const auto header = read_record<Elf64_Ehdr>(data, 0);
    const uint64_t tables = static_cast<uint64_t>(header.e_shnum) * header.e_shentsize;
    if (!is_elf(data) || header.e_shoff > kMaxImageSize || header.e_shoff + tables > data.size() ||
        header.e_shoff + tables < sizeof header) {
        throw_invalid("the image is cut or not an ELF file");
    }
    return header.e_shoff + tables;
}

std::span<const uint8_t> ElfImage::bytes(uint64_t offset, uint64_t size) const {
    if (offset > data_.size() || data_.size() - offset < size) {
        throw_invalid("a part of the image lies outside it");
    }
    return data_.subspan(offset, size);
}

ElfImage::ElfImage(std::span<const uint8_t> data)
    : data_(data), header_(read_record<Elf64_Ehdr>(data, 0)) {
    check_header(header_);
    segments_ = read_table<Elf64_Phdr>(data_, header_.e_phoff, header_.e_phnum);
    const auto sections = read_table<Elf64_Shdr>(data_, header_.e_shoff, header_.e_shnum);
    for (const Elf64_Phdr& segment : segments_) {
        if (segment.p_type == PT_NOTE) {
            find_metadata(segment);
        }
    }
    for (const Elf64_Shdr& section : sections) {
        if (section.sh_type == SHT_DYNSYM) {
            read_symbols(section, sections);
        } else if (section.sh_type == SHT_RELA && (section.sh_flags & SHF_ALLOC)) {
            const auto table = read_table<Elf64_Rela>(data_, section.sh_offset,
                                                      section.sh_size / sizeof(Elf64_Rela));
            relocations_.insert(relocations_.end(), table.begin(), table.end());
        }
    }
}

void ElfImage::read_symbols(const Elf64_Shdr& section, std::span<const Elf64_Shdr> sections) {
    if (section.sh_link >= sections.size() || !symbols_.empty()) {
        throw_invalid("the image's symbol table is damaged");
    }
    const Elf64_Shdr& string_section = sections[section.sh_link];
    const auto strings = bytes(string_section.sh_offset, string_section.sh_size);
    for (const auto& symbol :
         read_table<Elf64_Sym>(data_, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
        symbols_.push_back({read_name(strings, symbol.st_name), symbol.st_value, symbol.st_size,
                            static_cast<uint8_t>(ELF64_ST_TYPE(symbol.st_info)),
                            symbol.st_shndx != SHN_UNDEF});
    }
}

void ElfImage::find_metadata(const Elf64_Phdr& segment) {
    auto notes = bytes(segment.p_offset, segment.p_filesz);
    while (notes.size() >= sizeof(Elf64_Nhdr)) {
        const auto note = read_record<Elf64_Nhdr>(notes, 0);
        const uint64_t name_size = (static_cast<uint64_t>(note.n_namesz) + 3) / 4 * 4;
        const uint64_t description_at = sizeof note + name_size;
        if (description_at > notes.size() || notes.size() - description_at < note.n_descsz) {
            throw_invalid("a note of the image is cut");
        }
        const bool is_amdgpu =
            note.n_namesz == 7 && std::memcmp(notes.data() + sizeof note, "AMDGPU", 7) == 0;
        if (is_amdgpu && note.n_type == kNoteMetadata) {
            metadata_ = notes.subspan(description_at, note.n_descsz);
            return;
        }
        const uint64_t next = description_at + (static_cast<uint64_t>(note.n_descsz) + 3) / 4 * 4;
        notes = notes.subspan(std::min<uint64_t>(next, notes.size()));
    }
}

}  // namespace asmevo::emulator
