// Running one kernel dispatch: the interface between the HIP API (hip/, loader/) and the executor (exec/).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/checks/check_set.h"
#include "exec/checks/finding.h"
#include "exec/wave.h"
#include "isa/inst.h"

namespace asmevo::emulator {

/// The executable bytes of a loaded code object, decoded on first execution of each instruction. Thread-safe.
class CodeSegment {
  public:
    CodeSegment(Target target, uint64_t address, uint64_t size_bytes);
    ~CodeSegment();
    CodeSegment(const CodeSegment&) = delete;
    CodeSegment& operator=(const CodeSegment&) = delete;

    /// Decoded instruction at `pc`; throws Fault when pc is outside or misaligned, or nothing decodes there.
    const Inst& at(uint64_t pc) {
        const Inst* inst = find(pc);
        return inst ? *inst : decode_at(pc);
    }
    /// The instruction at `pc` where it has been decoded before; otherwise null.
    const Inst* find(uint64_t pc) const {
        uint64_t offset = pc - address_;
        return offset < size_ && (offset & 3) == 0 ? slots_[offset >> 2].load(std::memory_order_acquire) : nullptr;
    }
    bool decodes_at(uint64_t pc);
    /// The highest order of the code reachable from `entry`; indirect jumps count as reaching anything.
    Ordering highest_ordering(uint64_t entry);
    Target target() const { return target_; }
    uint64_t address() const { return address_; }
    uint64_t size() const { return size_; }

  private:
    const Inst& decode_at(uint64_t pc);

    Target target_;
    uint64_t address_, size_;
    std::unique_ptr<std::atomic<const Inst*>[]> slots_;
    std::map<uint64_t, Ordering> orderings_;  // by entry
    std::mutex mutex_;
};

/// What a kernel descriptor and its metadata say, already decoded by the loader.
struct KernelImage {
    std::string name;
    Target target = Target::kGfx942;
    CodeSegment* code = nullptr;
    uint64_t entry = 0;                 // address of the first instruction
    uint64_t descriptor_address = 0;
    uint32_t group_segment_size = 0;    // static LDS, bytes
    uint32_t private_segment_size = 0;  // scratch a lane, bytes
    uint32_t kernarg_size = 0;
    uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
    uint16_t kernel_code_properties = 0;
    uint16_t kernarg_preload = 0;       // length in dwords (7 bits), offset in dwords (9 bits)
    uint32_t max_flat_workgroup_size = 1024;
    uint32_t sgpr_count = 0, vgpr_count = 0, agpr_count = 0;  // from metadata, for attributes
};

/// What the host does for waves that wait for it in a loop: called after each of their slices, by the threads that run
/// them.
class HostService {
  public:
    virtual ~HostService() = default;
    virtual void serve() = 0;
};

struct DispatchRequest {
    const KernelImage* kernel = nullptr;
    Dim3 grid;                          // in workgroups
    Dim3 block;                         // in work-items
    Dim3 remainder{0, 0, 0};            // work-items of the last workgroup in a dimension; 0: a whole one
    uint32_t dynamic_lds = 0;           // bytes on top of group_segment_size
    uint64_t kernarg_address = 0;       // device-visible, kernarg_size bytes, hidden arguments filled
    uint64_t dispatch_packet_address = 0;  // a 64-byte AQL packet
    uint32_t compute_units = 0;         // of the chip; 0: of the target's usual one
    HostService* host_service = nullptr;   // null: the kernel asks for none
};

/// Execution count and modelled stall of one instruction, summed over waves.
struct PcProfile {
    uint64_t offset = 0;                // bytes from the kernel's entry
    uint64_t executions = 0;
    uint64_t modelled_stall_cycles = 0;
};

struct DispatchResult {
    bool ok = false;
    bool fast_matrix = false;           // the option under which it ran
    std::string report;                 // why it failed: kernel, pc, instruction text, workgroup, wave, lane
    uint64_t waves = 0;
    uint64_t wave_instructions = 0;
    uint64_t modelled_cycles = 0;       // timing model (exec/timing.h); never a measured time
    std::vector<PcProfile> profile;     // filled when asked for
    std::vector<Finding> findings;      // what the checks found, and what ended the launch
};

/// What registers, LDS and scratch hold before a program writes them, unless a launch asks for another word: a NaN in f32
/// and f64, no usable address or index, and never zero, so that a program that reads it cannot pass by luck.
constexpr uint32_t kUninitialised = 0x7fc0dead;

struct DispatchOptions {
    bool model_timing = true;
    bool collect_profile = false;
    unsigned threads = 0;               // 0: all cores
    bool reverse_waves = false;         // waves of a workgroup take turns from the last to the first
    uint64_t max_wave_instructions = 0; // of a workgroup; 0: the default watchdog
    uint32_t max_idle_ms = 10'000;      // while all resident workgroups wait for one another
    CheckSet checks = kNoChecks;
    OnFinding on_finding = OnFinding::kEnd;
    bool fast_matrix = false;           // approximate: matrix operations as plain multiply-adds
    uint32_t fill = kUninitialised;
    uint64_t seed = 0;                  // permutes turns of waves and, without checks, delays memory; 0: neither
};

class UndefinedMemory;

/// Shared by all workgroups of a running dispatch.
struct DispatchContext {
    const DispatchRequest* request = nullptr;
    const DispatchOptions* options = nullptr;
    uint64_t entry = 0;                      // first pc: past the compatibility prologue when kernargs are preloaded
    uint64_t max_wave_instructions = 0;      // of a workgroup
    std::atomic<uint64_t> wave_instructions{0};
    std::shared_ptr<UndefinedMemory> undefined_memory;  // with kCheckUndefined
};

/// Runs the whole grid and returns. Never throws.
DispatchResult run_dispatch(const DispatchRequest& request, const DispatchOptions& options);

}  // namespace asmevo::emulator
