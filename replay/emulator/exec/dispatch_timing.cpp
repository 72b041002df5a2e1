// From the clocks of waves to the time of a dispatch.
#include <cmath>

#include "exec/dispatch.h"
#include "exec/timing.h"
#include "exec/wave_setup.h"

namespace asmevo::emulator {
namespace {

/// One chip of each target: MI210, MI300X, MI355X (AMD "GPU hardware specifications").
struct Chip {
    double compute_units;
    uint32_t lds_bytes, lds_granule;
    double memory_bytes_per_cycle;  // HBM of the whole device
};

Chip chip(Target target) {
    switch (target) {
        case Target::kGfx90a: return {104, 65536, 512, 1.6e12 / 1.7e9};
        case Target::kGfx942: return {304, 65536, 512, 5.3e12 / 2.1e9};
        case Target::kGfx950: return {256, 163840, 1280, 8e12 / 2.4e9};
    }
    return {304, 65536, 512, 5.3e12 / 2.1e9};
}

constexpr unsigned kSimds = 4, kMaxWavesPerSimd = 8, kVgprsPerSimd = 512;

uint64_t round_up(uint64_t value, uint64_t granule) { return (value + granule - 1) / granule * granule; }

/// Workgroups that a CU holds at once: limited by wave slots, vector registers and LDS.
uint64_t resident_workgroups(const DispatchRequest& request, const Chip& chip) {
    const KernelImage& kernel = *request.kernel;
    uint64_t items = uint64_t{request.block.x} * request.block.y * request.block.z;
    uint64_t waves = std::max<uint64_t>(1, (items + kLanes - 1) / kLanes);
    VgprAllocation registers = vgpr_allocation(kernel);
    uint64_t total = round_up(std::max(1u, registers.arch + registers.acc), 8);
    uint64_t per_simd = std::clamp<uint64_t>(kVgprsPerSimd / total, 1, kMaxWavesPerSimd);
    uint64_t by_registers = kSimds * per_simd / waves;
    uint64_t lds = round_up(uint64_t{kernel.group_segment_size} + request.dynamic_lds, chip.lds_granule);
    uint64_t by_lds = lds ? chip.lds_bytes / lds : by_registers;
    return std::max<uint64_t>(1, std::min(by_registers, by_lds));
}

/// Cycles for which the busiest unit of a CU works: SIMDs work in parallel.
double busiest(const UnitUse& use) {
    auto simd = static_cast<double>(std::max({use.valu, use.mfma, use.salu})) / kSimds;
    return std::max(simd, static_cast<double>(std::max(use.lds, use.vmem)));
}

}  // namespace

void DispatchTiming::add(const std::vector<WaveTimer>& waves) {
    UnitUse total;
    uint64_t slowest = 0;
    for (const WaveTimer& wave : waves) {
        total.add(wave.use());
        slowest = std::max(slowest, wave.clock());
    }
    // A wave's own use is part of its clock: what the others take from a shared unit comes on top.
    uint64_t count = std::max<uint64_t>(1, waves.size()), simds = std::min<uint64_t>(count, kSimds);
    auto others = [&](uint64_t cycles, uint64_t servers) { return cycles / servers - cycles / count; };
    uint64_t contention = std::max({others(total.valu, simds), others(total.mfma, simds),
                                    others(total.lds, 1), others(total.vmem, 1)});
    ++workgroups;
    sum_cycles += slowest + contention;
    max_cycles = std::max(max_cycles, slowest + contention);
    use.add(total);
}

void DispatchTiming::add(const DispatchTiming& other) {
    workgroups += other.workgroups;
    sum_cycles += other.sum_cycles;
    max_cycles = std::max(max_cycles, other.max_cycles);
    use.add(other.use);
}

uint64_t modelled_cycles(const DispatchRequest& request, const DispatchTiming& timing) {
    if (timing.workgroups == 0) {
        return 0;
    }
    Chip device = chip(request.kernel->target);
    auto workgroups = static_cast<double>(timing.workgroups);
    double mean = static_cast<double>(timing.sum_cycles) / workgroups;
    double resident = static_cast<double>(resident_workgroups(request, device));
    double further = std::max(0.0, workgroups / device.compute_units - 1.0);
    double each = std::max(mean / resident, busiest(timing.use) / workgroups);
    double memory = static_cast<double>(timing.use.bytes) / device.memory_bytes_per_cycle;
    double cycles = static_cast<double>(timing.max_cycles) + std::max(further * each, memory);
    return static_cast<uint64_t>(std::ceil(cycles));
}

}  // namespace asmevo::emulator
