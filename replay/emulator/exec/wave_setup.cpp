#include "exec/wave_setup.h"

#include <algorithm>
#include <cstring>

#include "exec/fault.h"

namespace asmevo::emulator {
namespace {

// kernel_code_properties bits.
enum : uint16_t {
    kPrivateSegmentBuffer = 1 << 0, kDispatchPtr = 1 << 1, kQueuePtr = 1 << 2, kKernargPtr = 1 << 3,
    kDispatchId = 1 << 4, kFlatScratchInit = 1 << 5, kPrivateSegmentSize = 1 << 6,
    kDynamicStack = 1 << 11,
};
constexpr uint32_t kDynamicStackBytes = 16384;
constexpr unsigned kMaxUserSgprs = 32;

constexpr uint32_t field(uint32_t word, unsigned first, unsigned width) {
    return (word >> first) & ((1u << width) - 1);
}

/// MODE at start, from rsrc1: FLOAT_MODE, DX10_CLAMP, IEEE_MODE, FP16_OVFL.
uint32_t start_mode(uint32_t rsrc1) {
    return field(rsrc1, 12, 8) | field(rsrc1, 21, 1) << 8 | field(rsrc1, 23, 1) << 9 |
           field(rsrc1, 26, 1) << 23;
}

/// SGPRs are handed out in the order of LLVM AMDGPUUsage, "SGPR Register Set Up Order".
class SgprWriter {
  public:
    explicit SgprWriter(Wave& wave) : wave_(wave) {}
    void put32(uint32_t value) {
        if (next_ < 102) {
            wave_.sgpr[next_++] = value;
        }
    }
    void put64(uint64_t value) {
        put32(static_cast<uint32_t>(value));
        put32(static_cast<uint32_t>(value >> 32));
    }
    void move_to(unsigned index) { next_ = index; }
    unsigned next() const { return next_; }

  private:
    Wave& wave_;
    unsigned next_ = 0;
};

/// The scratch buffer descriptor of gfx90a. Hardware interleaves the lanes by dwords; here a lane's memory is one piece,
/// as scratch and flat accesses see it: index = lane (ADD_TID), stride = bytes a lane. With ADD_TID the data format
/// field holds the stride's upper bits.
void put_scratch_descriptor(SgprWriter& sgprs, const Wave& wave) {
    constexpr uint32_t kAddTid = 1u << 23;
    uint32_t stride = wave.scratch_stride;
    sgprs.put32(static_cast<uint32_t>(wave.scratch_base));
    sgprs.put32(static_cast<uint32_t>(wave.scratch_base >> 32) | (stride & 0x3fff) << 16);
    sgprs.put32(kLanes);
    sgprs.put32(kAddTid | (stride >> 14 & 15) << 15);
}

void put_preloaded_kernargs(SgprWriter& sgprs, const DispatchRequest& request, Wave& wave) {
    uint32_t length = request.kernel->kernarg_preload & 0x7f;
    uint32_t offset = request.kernel->kernarg_preload >> 7;
    if (length == 0) {
        return;
    }
    uint64_t address = request.kernarg_address + 4ull * offset;
    for (uint32_t i = 0; i < length; ++i) {
        uint32_t value;
        std::memcpy(&value, wave.memory.access(address + 4ull * i, 4, false, -1), 4);
        sgprs.put32(value);
    }
}

void set_up_sgprs(const DispatchRequest& request, Dim3 id, uint32_t fill, Wave& wave) {
    const KernelImage& kernel = *request.kernel;
    std::fill(std::begin(wave.sgpr), std::end(wave.sgpr), fill);
    SgprWriter sgprs(wave);
    uint16_t properties = kernel.kernel_code_properties;
    if (properties & kPrivateSegmentBuffer) {
        put_scratch_descriptor(sgprs, wave);
    }
    if (properties & kDispatchPtr) {
        sgprs.put64(request.dispatch_packet_address);
    }
    if (properties & kQueuePtr) {
        sgprs.put64(0);  // no queue structure exists: a kernel that follows the pointer faults
    }
    if (properties & kKernargPtr) {
        sgprs.put64(request.kernarg_address);
    }
    if (properties & kDispatchId) {
        sgprs.put64(0);
    }
    if (properties & kFlatScratchInit) {
        sgprs.put64(wave.scratch_base);
    }
    if (properties & kPrivateSegmentSize) {
        sgprs.put32(wave.scratch_stride);
    }
    put_preloaded_kernargs(sgprs, request, wave);
    sgprs.move_to(std::max(sgprs.next(), std::min(field(kernel.rsrc2, 1, 5), kMaxUserSgprs)));
    if (field(kernel.rsrc2, 7, 1)) {
        sgprs.put32(id.x);
    }
    if (field(kernel.rsrc2, 8, 1)) {
        sgprs.put32(id.y);
    }
    if (field(kernel.rsrc2, 9, 1)) {
        sgprs.put32(id.z);
    }
    if (field(kernel.rsrc2, 10, 1)) {
        sgprs.put32(0);
    }
    // The wave's offset into the scratch memory: every wave has a base of its own here. gfx940 keeps the base in
    // FLAT_SCRATCH (architected flat scratch) and has no such SGPR.
    if (kernel.target == Target::kGfx90a && field(kernel.rsrc2, 0, 1)) {
        sgprs.put32(0);
    }
    wave.write64(kFlatScratchCode, wave.scratch_base);
}

/// Work-items of a workgroup: fewer than asked for where the grid ends with a partial one.
Dim3 size_of(const DispatchRequest& request, Dim3 id) {
    auto extent = [](uint32_t at, uint32_t groups, uint32_t block, uint32_t remainder) {
        return remainder != 0 && at + 1 == groups ? remainder : block;
    };
    const Dim3 &grid = request.grid, &block = request.block, &remainder = request.remainder;
    return {extent(id.x, grid.x, block.x, remainder.x), extent(id.y, grid.y, block.y, remainder.y),
            extent(id.z, grid.z, block.z, remainder.z)};
}

void fill_vgprs(Wave& wave, uint32_t first, uint32_t count, uint32_t fill) {
    for (uint32_t i = first; i < first + count; ++i) {
        std::fill(std::begin(wave.vgpr[i].lane), std::end(wave.vgpr[i].lane), fill);
    }
}

void set_up_vgprs(const KernelImage& kernel, Dim3 block, uint32_t fill, Wave& wave) {
    fill_vgprs(wave, 0, wave.arch_vgpr_count, fill);
    fill_vgprs(wave, kAgprBase, wave.acc_vgpr_count, fill);
    // gfx90a and later pack the work-item id into v0: x, y << 10, z << 20, as far as rsrc2 asks for them.
    uint32_t components = field(kernel.rsrc2, 11, 2);
    uint64_t row = block.x, plane = row * block.y;
    uint64_t size = plane * block.z;
    uint64_t exec = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        uint64_t item = static_cast<uint64_t>(wave.wave_id) * kLanes + lane;
        if (item >= size) {
            break;
        }
        exec |= uint64_t{1} << lane;
        uint32_t y = components >= 1 ? static_cast<uint32_t>(item % plane / row) : 0;
        uint32_t z = components >= 2 ? static_cast<uint32_t>(item / plane) : 0;
        wave.vgpr[0].lane[lane] = static_cast<uint32_t>(item % row) | y << 10 | z << 20;
    }
    wave.set_exec(exec);
}

void fill_bytes(std::vector<uint8_t>& bytes, uint32_t fill) {
    const uint32_t piece[8] = {fill, fill, fill, fill, fill, fill, fill, fill};
    for (size_t at = 0; at < bytes.size(); at += sizeof piece) {
        std::memcpy(&bytes[at], piece, std::min(sizeof piece, bytes.size() - at));
    }
}

void reset_wave(Wave& wave) {
    wave.scc = false;
    wave.trap_status = 0;
    wave.priority = 0;
    wave.state = WaveState::kRunning;
    wave.pending.clear();
    wave.has_pending_results = false;
    std::fill(std::begin(wave.pending_sgpr), std::end(wave.pending_sgpr), 0);
    std::fill(std::begin(wave.pending_vgpr), std::end(wave.pending_vgpr), 0);
    wave.instructions = 0;
    wave.gpr_idx_on = false;
}

}  // namespace

ScratchMemory::~ScratchMemory() {
    if (is_visible_) {
        AddressSpace::get().remove(reinterpret_cast<uint64_t>(words_.data()));
    }
}

void ScratchMemory::prepare(size_t bytes, uint32_t fill, bool is_visible) {
    words_.resize(bytes / 4);
    std::fill(words_.begin(), words_.end(), fill);
    if (is_visible && !is_visible_ && bytes > 0) {
        AddressSpace::get().add({reinterpret_cast<uint64_t>(words_.data()), bytes, MemoryKind::kDevice, true});
        is_visible_ = true;
    }
}

VgprAllocation vgpr_allocation(const KernelImage& kernel) {
    uint32_t total = (field(kernel.rsrc1, 0, 6) + 1) * 8;
    uint32_t arch = std::min((field(kernel.rsrc3, 0, 6) + 1) * 4, std::min(total, 256u));
    return {arch, std::min(total - arch, 256u)};
}

namespace {

/// True when an instruction that has been decoded names an accumulation register.
bool names_agprs(const CodeSegment& code) {
    for (uint64_t offset = 0; offset < code.size(); offset += 4) {
        const Inst* inst = code.find(code.address() + offset);
        if (inst && inst->acc_vgprs > 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool take_agprs_as_vgprs(Wave& wave, const Inst& inst, const CodeSegment& code) {
    uint32_t all = std::min(wave.arch_vgpr_count + wave.acc_vgpr_count, 256u);
    if (inst.acc_vgprs > 0 || inst.arch_vgprs > all || names_agprs(code)) {
        return false;
    }
    fill_vgprs(wave, wave.arch_vgpr_count, all - wave.arch_vgpr_count, wave.group->dispatch->options->fill);
    wave.arch_vgpr_count = all;
    wave.acc_vgpr_count = 0;
    return true;
}

uint64_t start_address(const KernelImage& kernel) {
    return kernel.entry + ((kernel.kernarg_preload & 0x7f) ? 256 : 0);
}

uint32_t scratch_bytes_per_lane(const KernelImage& kernel) {
    uint32_t bytes = kernel.private_segment_size;
    if (kernel.kernel_code_properties & kDynamicStack) {
        bytes = std::max(bytes, kDynamicStackBytes);
    }
    return (bytes + 3) & ~3u;
}

void set_up_workgroup(DispatchContext& dispatch, Dim3 id, WorkgroupStorage& storage) {
    const DispatchRequest& request = *dispatch.request;
    const KernelImage& kernel = *request.kernel;
    Workgroup& group = storage.group;
    auto waves_of = [](Dim3 size) {
        return (static_cast<size_t>(size.x) * size.y * size.z + kLanes - 1) / kLanes;
    };
    const Dim3 block = size_of(request, id);
    size_t wave_count = waves_of(block);
    VgprAllocation registers = vgpr_allocation(kernel);
    uint32_t stride = scratch_bytes_per_lane(kernel);
    const uint32_t fill = dispatch.options->fill;

    group.id = id;
    group.dispatch = &dispatch;
    group.lds.resize(kernel.group_segment_size + request.dynamic_lds);
    fill_bytes(group.lds, fill);
    storage.scratch.prepare(waves_of(request.block) * kLanes * stride, fill,
                            kernel.kernel_code_properties & kPrivateSegmentBuffer);
    if (group.waves.size() > wave_count) {
        group.waves.resize(wave_count);
    }
    while (group.waves.size() < wave_count) {
        group.waves.push_back(std::make_unique<Wave>());
    }
    for (size_t i = 0; i < wave_count; ++i) {
        Wave& wave = *group.waves[i];
        reset_wave(wave);
        wave.group = &group;
        wave.wave_id = static_cast<uint32_t>(i);
        wave.pc = dispatch.entry;
        wave.mode = start_mode(kernel.rsrc1);
        wave.arch_vgpr_count = registers.arch;
        wave.acc_vgpr_count = registers.acc;
        wave.vgpr.resize(registers.acc ? kAgprBase + registers.acc : registers.arch);
        wave.scratch_stride = stride;
        wave.scratch_base =
            stride ? reinterpret_cast<uint64_t>(storage.scratch.data()) + i * kLanes * stride : 0;
        set_up_sgprs(request, id, fill, wave);
        set_up_vgprs(kernel, block, fill, wave);
    }
}

}  // namespace asmevo::emulator
