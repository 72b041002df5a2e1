#include "loader/code_object.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "loader/compressed_bundle.h"
#include "loader/debug_list.h"
#include "loader/load_error.h"
#include "loader/offload_bundle.h"
#include "memory/address_space.h"
#include "memory/arena.h"

namespace asmevo::emulator {
namespace {

constexpr uint64_t kMaxLoadedSize = 1ull << 32;
constexpr uint64_t kDescriptorSize = 64;

// Relocation types, LLVM AMDGPUUsage "Relocation Records".
enum : uint32_t {
    kAbs32Lo = 1,
    kAbs32Hi = 2,
    kAbs64 = 3,
    kRel32 = 4,
    kRel64 = 5,
    kAbs32 = 6,
    kRelative64 = 13
};

/// The target that e_flags names (EF_AMDGPU_MACH_*); throws when the device cannot run it.
Target check_target(uint32_t flags, Target device) {
    const auto refuse = [](const std::string& why) {
        throw LoadError(LoadError::Kind::kNoBinaryForGpu, why);
    };
    Target target = device;
    switch (flags & 0xff) {
        case 0x3f:
            target = Target::kGfx90a;
            break;
        case 0x4c:
            target = Target::kGfx942;
            break;
        case 0x4f:
            target = Target::kGfx950;
            break;
        case 0x5f:  // gfx9-4-generic: gfx942 and gfx950
            if (device == Target::kGfx90a) {
                refuse("the code object is for gfx9-4-generic");
            }
            return Target::kGfx942;
        default:
            refuse("the code object is for another processor (e_flags " + std::to_string(flags) +
                   ")");
    }
    if (target != device) {
        refuse("the code object is for another processor than the device");
    }
    constexpr uint32_t kXnackMask = 0x300, kXnackOn = 0x300, kSrameccMask = 0xc00,
                       kSrameccOff = 0x800;
    if ((flags & kXnackMask) == kXnackOn || (flags & kSrameccMask) == kSrameccOff) {
        refuse(
            "the code object wants xnack on or sramecc off; the device has xnack off and sramecc "
            "on");
    }
    return target;
}

template <typename Value>
Value read_at(const uint8_t* bytes, size_t offset) {
    Value value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
}

}  // namespace

std::shared_ptr<LoadedCodeObject> LoadedCodeObject::load(std::span<const uint8_t> data,
                                                         Target device) {
    std::vector<uint8_t> decompressed;
    if (is_compressed_bundle(data)) {
        decompressed = decompress_bundle(data);
        data = decompressed;
    }
    if (is_offload_bundle(data)) {
        data = find_bundled(data, device);
    }
    data = data.first(ElfImage::measure(data));
    std::shared_ptr<LoadedCodeObject> object(new LoadedCodeObject);
    object->image_.assign(data.begin(), data.end());
    const ElfImage elf(object->image_);
    object->target_ = check_target(elf.header().e_flags, device);
    if (elf.metadata().empty()) {
        throw_invalid("the image has no AMDGPU metadata note");
    }
    Metadata metadata = parse_metadata(elf.metadata());
    object->printf_formats_ = std::move(metadata.printf_formats);
    object->load_segments(elf);
    object->relocate(elf);
    object->find_symbols(elf);
    for (const KernelMetadata& kernel : metadata.kernels) {
        object->make_kernel(kernel);
    }
    publish_code_object(object.get(), object->bias_, object->image_.data(), object->image_.size());
    return object;
}

LoadedCodeObject::~LoadedCodeObject() {
    withdraw_code_object(this);
    for (uint64_t range : ranges_) {
        AddressSpace::get().remove(range);
    }
    if (base_ != 0) {
        Arena::get().unmap(base_);
    }
}

void LoadedCodeObject::load_segments(const ElfImage& elf) {
    uint64_t first = UINT64_MAX, last = 0;
    for (const Elf64_Phdr& segment : elf.segments()) {
        if (segment.p_type != PT_LOAD || segment.p_memsz == 0) {
            continue;
        }
        if (segment.p_filesz > segment.p_memsz || segment.p_vaddr > kMaxLoadedSize ||
            segment.p_memsz > kMaxLoadedSize) {
            throw_invalid("a segment of the image has an impossible size");
        }
        first = std::min(first, segment.p_vaddr / kPageSize * kPageSize);
        last = std::max(last, segment.p_vaddr + segment.p_memsz);
    }
    if (first >= last || last - first > kMaxLoadedSize) {
        throw_invalid("the image has nothing to load");
    }
    first_ = first;
    size_ = last - first;
    base_ = Arena::get().map(Area::kRuntime, size_);
    if (base_ == 0) {
        throw std::bad_alloc();
    }
    bias_ = base_ - first;
    for (const Elf64_Phdr& segment : elf.segments()) {
        if (segment.p_type != PT_LOAD || segment.p_memsz == 0) {
            continue;
        }
        const auto bytes = elf.bytes(segment.p_offset, segment.p_filesz);
        std::memcpy(loaded(segment.p_vaddr, segment.p_memsz), bytes.data(), bytes.size());
        const uint64_t address = bias_ + segment.p_vaddr;
        AddressSpace::get().add(
            {address, segment.p_memsz, MemoryKind::kModule, (segment.p_flags & PF_W) != 0});
        ranges_.push_back(address);
        if ((segment.p_flags & PF_X) && segment.p_filesz != 0) {
            if (address % 4 != 0) {
                throw_invalid("the image's code is not aligned");
            }
            code_.push_back(std::make_unique<CodeSegment>(target_, address, segment.p_filesz));
        }
    }
}

uint8_t* LoadedCodeObject::loaded(uint64_t elf_address, uint64_t size) const {
    if (elf_address < first_ || elf_address - first_ > size_ ||
        size_ - (elf_address - first_) < size) {
        throw_invalid("an address of the image lies outside its segments");
    }
    return reinterpret_cast<uint8_t*>(bias_ + elf_address);
}

void LoadedCodeObject::relocate(const ElfImage& elf) {
    for (const Elf64_Rela& relocation : elf.relocations()) {
        const uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info));
        const uint64_t symbol_index = ELF64_R_SYM(relocation.r_info);
        uint64_t value = static_cast<uint64_t>(relocation.r_addend) + bias_;
        if (type != kRelative64) {
            if (symbol_index >= elf.symbols().size() || !elf.symbols()[symbol_index].is_defined) {
                throw_invalid("a relocation names an undefined symbol");
            }
            value += elf.symbols()[symbol_index].value;
        }
        const uint64_t place = bias_ + relocation.r_offset;
        const uint64_t size = type == kRelative64 || type == kAbs64 || type == kRel64 ? 8 : 4;
        switch (type) {
            case kRelative64:
            case kAbs64:
            case kAbs32Lo:
            case kAbs32:
                break;
            case kAbs32Hi:
                value >>= 32;
                break;
            case kRel32:
            case kRel64:
                value -= place;
                break;
            default:
                throw_invalid("relocation type " + std::to_string(type) + " is not known");
        }
        std::memcpy(loaded(relocation.r_offset, size), &value, size);
    }
}

void LoadedCodeObject::find_symbols(const ElfImage& elf) {
    for (const ElfSymbol& symbol : elf.symbols()) {
        if (symbol.is_defined && symbol.type == STT_OBJECT) {
            loaded(symbol.value, symbol.size);
            objects_[std::string(symbol.name)] = {bias_ + symbol.value, symbol.size};
        }
    }
}

void LoadedCodeObject::make_kernel(const KernelMetadata& metadata) {
    const auto descriptor = objects_.find(metadata.symbol);
    if (descriptor == objects_.end() || descriptor->second.size < kDescriptorSize) {
        throw_invalid("kernel " + metadata.name + " has no descriptor");
    }
    if (metadata.wavefront_size != 64) {
        throw_invalid("kernel " + metadata.name + " is not of wave size 64");
    }
    const uint64_t address = descriptor->second.address;
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(address);
    auto kernel = std::make_unique<LoadedKernel>();
    kernel->metadata = metadata;
    KernelImage& image = kernel->image;
    image.name = metadata.name;
    image.target = target_;
    image.descriptor_address = address;
    image.group_segment_size = read_at<uint32_t>(bytes, 0);
    image.private_segment_size = read_at<uint32_t>(bytes, 4);
    image.kernarg_size = std::max(read_at<uint32_t>(bytes, 8), metadata.kernarg_size);
    image.entry = address + read_at<uint64_t>(bytes, 16);
    image.rsrc3 = read_at<uint32_t>(bytes, 44);
    image.rsrc1 = read_at<uint32_t>(bytes, 48);
    image.rsrc2 = read_at<uint32_t>(bytes, 52);
    image.kernel_code_properties = read_at<uint16_t>(bytes, 56);
    image.kernarg_preload = read_at<uint16_t>(bytes, 58);
    image.max_flat_workgroup_size = metadata.max_flat_workgroup_size;
    image.sgpr_count = metadata.sgpr_count;
    image.vgpr_count = metadata.vgpr_count;
    image.agpr_count = metadata.agpr_count;
    const auto code = std::find_if(code_.begin(), code_.end(), [&](const auto& segment) {
        return image.entry >= segment->address() &&
               image.entry - segment->address() < segment->size();
    });
    if (code == code_.end() || image.entry % 4 != 0 || image.kernarg_size > (1u << 16)) {
        throw_invalid("the descriptor of kernel " + metadata.name + " is damaged");
    }
    image.code = code->get();
    kernels_.push_back(std::move(kernel));
}

const LoadedKernel* LoadedCodeObject::find_kernel(std::string_view name) const {
    for (const auto& kernel : kernels_) {
        if (kernel->metadata.name == name || kernel->metadata.symbol == name) {
            return kernel.get();
        }
    }
    return nullptr;
}

const LoadedVariable* LoadedCodeObject::find_variable(std::string_view name) const {
    if (name.ends_with(".kd")) {
        return nullptr;
    }
    const auto found = objects_.find(name);
    return found == objects_.end() ? nullptr : &found->second;
}

}  // namespace asmevo::emulator
