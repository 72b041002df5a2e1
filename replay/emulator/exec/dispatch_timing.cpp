// From the clocks of waves to the time of a dispatch.
#include <cmath>

#include "exec/dispatch.h"
#include "exec/occupancy.h"
#include "exec/timing.h"

namespace asmevo::emulator {
namespace {

/// HBM bandwidth of one chip of each target: MI210, MI300X, MI355X (AMD "GPU hardware specifications").
double memory_bytes_per_cycle(Target target) {
    switch (target) {
        case Target::kGfx90a: return 1.6e12 / 1.7e9;
        case Target::kGfx942: return 5.3e12 / 2.1e9;
        case Target::kGfx950: return 8e12 / 2.4e9;
    }
    return 5.3e12 / 2.1e9;
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
    const Target target = request.kernel->target;
    double compute_units = request.compute_units ? request.compute_units : usual_compute_units(target);
    auto workgroups = static_cast<double>(timing.workgroups);
    double mean = static_cast<double>(timing.sum_cycles) / workgroups;
    double resident = static_cast<double>(resident_workgroups(request)) / compute_units;
    double further = std::max(0.0, workgroups / compute_units - 1.0);
    double each = std::max(mean / resident, busiest(timing.use) / workgroups);
    double memory = static_cast<double>(timing.use.bytes) / memory_bytes_per_cycle(target);
    double cycles = static_cast<double>(timing.max_cycles) + std::max(further * each, memory);
    return static_cast<uint64_t>(std::ceil(cycles));
}

}  // namespace asmevo::emulator
