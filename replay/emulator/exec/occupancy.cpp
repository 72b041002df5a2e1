#include "exec/occupancy.h"

#include <algorithm>

#include "exec/wave_setup.h"

namespace asmevo::emulator {
namespace {

uint64_t round_up(uint64_t value, uint64_t granule) { return (value + granule - 1) / granule * granule; }

uint64_t lds_granule(Target target) { return target == Target::kGfx950 ? 1280 : 512; }

}  // namespace

uint32_t lds_bytes_per_unit(Target target) { return target == Target::kGfx950 ? 163840 : 65536; }

uint32_t usual_compute_units(Target target) {
    switch (target) {
        case Target::kGfx90a: return 104;
        case Target::kGfx942: return 304;
        case Target::kGfx950: return 256;
    }
    return 304;
}

uint32_t workgroups_per_unit(const KernelImage& kernel, uint64_t work_items, uint64_t dynamic_lds) {
    uint64_t waves = std::max<uint64_t>(1, (work_items + kLanes - 1) / kLanes);
    VgprAllocation registers = vgpr_allocation(kernel);
    uint64_t total = round_up(std::max(1u, registers.arch + registers.acc), 8);
    uint64_t per_simd = std::min<uint64_t>(kVgprsPerSimd / std::min<uint64_t>(total, kVgprsPerSimd), kMaxWavesPerSimd);
    uint64_t sgprs = round_up(((kernel.rsrc1 >> 6 & 15) + 1) * 8, 16);
    per_simd = std::min<uint64_t>(per_simd, kSgprsPerSimd / sgprs);
    uint64_t count = kSimds * per_simd / waves;
    if (waves > 1) {
        count = std::min<uint64_t>(count, kMaxBarriersPerUnit);
    }
    uint64_t lds = round_up(kernel.group_segment_size + dynamic_lds, lds_granule(kernel.target));
    if (lds > 0) {
        count = std::min(count, lds_bytes_per_unit(kernel.target) / lds);
    }
    return static_cast<uint32_t>(count);
}

uint64_t resident_workgroups(const DispatchRequest& request) {
    uint64_t items = uint64_t{request.block.x} * request.block.y * request.block.z;
    uint64_t units = request.compute_units ? request.compute_units : usual_compute_units(request.kernel->target);
    return units * workgroups_per_unit(*request.kernel, items, request.dynamic_lds);
}

}  // namespace asmevo::emulator
