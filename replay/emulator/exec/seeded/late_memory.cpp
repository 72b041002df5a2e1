#include "exec/seeded/late_memory.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace asmevo::emulator {
namespace {

constexpr unsigned kMostVm = 63, kMostLgkm = 15;  // what the counters hold (CDNA3 ISA 4.4)
constexpr uint64_t kNever = ~uint64_t{0};
constexpr unsigned kIdleTurns = 2;

bool is_late(const Inst& inst) {
    switch (inst.wait_class) {
        case WaitClass::kVm: case WaitClass::kLds: case WaitClass::kSmem: case WaitClass::kFlat: return true;
        default: return false;
    }
}

/// Whether `second` completes after `first`, which was issued before it.
bool keeps_order(WaitClass first, WaitClass second) {
    if (first == WaitClass::kSmem || second == WaitClass::kSmem) {
        return false;
    }
    return first == second || first == WaitClass::kFlat || second == WaitClass::kFlat;
}

/// Copies between registers and a flat list; `kOut` out of the wave.
template <bool kOut>
void copy_span(Wave& wave, const RegSpan& span, uint32_t*& list) {
    auto copy = [&](uint32_t* registers, size_t dwords) {
        std::memcpy(kOut ? list : registers, kOut ? registers : list, 4 * dwords);
        list += dwords;
    };
    if (span.file == RegSpan::kScalar) {
        copy(&wave.sgpr[span.first], span.count);
        return;
    }
    for (unsigned i = 0; i < span.count; ++i) {
        copy(wave.lanes(static_cast<uint16_t>(span.first + i)), kLanes);
    }
}

template <bool kOut>
void copy_spans(Wave& wave, const RegSpan* spans, unsigned count, std::vector<uint32_t>& list) {
    if constexpr (kOut) {
        size_t dwords = 0;
        for (unsigned i = 0; i < count; ++i) {
            dwords += spans[i].count * (spans[i].file == RegSpan::kScalar ? 1u : kLanes);
        }
        list.resize(dwords);
    }
    uint32_t* at = list.data();
    for (unsigned i = 0; i < count; ++i) {
        copy_span<kOut>(wave, spans[i], at);
    }
}

/// Bits of a result dword that the operation writes.
uint32_t written_bits(const Inst& inst) {
    const std::string_view name = inst.info->name;
    if (name.find("d16_hi") != name.npos) {
        return 0xffff0000;
    }
    return name.find("_d16") != name.npos && inst.dst[0].dwords == 1 ? 0x0000ffff : ~0u;
}

/// Puts results into the active lanes of their registers.
void write_results(Wave& wave, const Inst& inst, uint64_t exec, const std::vector<uint32_t>& results) {
    const uint32_t bits = written_bits(inst);
    const uint32_t* from = results.data();
    for (unsigned i = 0; i < inst.write_count; ++i) {
        const RegSpan& span = inst.writes[i];
        if (span.file == RegSpan::kScalar) {
            std::memcpy(&wave.sgpr[span.first], from, 4u * span.count);
            from += span.count;
            continue;
        }
        for (unsigned dword = 0; dword < span.count; ++dword, from += kLanes) {
            uint32_t* lanes = wave.lanes(static_cast<uint16_t>(span.first + dword));
            for (int lane = 0; lane < kLanes; ++lane) {
                const uint32_t mask = exec >> lane & 1 ? bits : 0;
                lanes[lane] = (lanes[lane] & ~mask) | (from[lane] & mask);
            }
        }
    }
}

}  // namespace

void LateMemory::restart(uint64_t workgroup, size_t waves) {
    queues_.resize(waves);
    for (size_t wave = 0; wave < waves; ++wave) {
        queues_[wave].operations.clear();
        queues_[wave].random = Random(seed_, workgroup * 64 + wave + 1);
        queues_[wave].idle_turns = 0;
    }
}

void LateMemory::complete_before(Wave& wave, const Inst& inst, uint64_t& pc) {
    Queue& queue = queues_[wave.wave_id];
    if (queue.operations.empty()) {
        return;
    }
    complete_due(wave, queue, pc);
    if (inst.info->category == Category::kWait) {
        wait(wave, queue, static_cast<uint32_t>(inst.simm), pc);
    } else if (inst.info->category == Category::kEnd) {
        complete_all(wave, queue, pc);
    }
}

void LateMemory::run(Wave& wave, const Inst& inst, uint64_t& pc) {
    if (is_late(inst)) {
        issue(wave, queues_[wave.wave_id], inst, pc);
    } else {
        inst.run(wave, inst);
    }
}

void LateMemory::take_late_data(Wave& wave, const Inst& store, const RegSpan& data) {
    std::vector<Operation>& operations = queues_[wave.wave_id].operations;
    const auto found = std::find_if(operations.rbegin(), operations.rend(),
                                    [&](const Operation& operation) { return operation.inst == &store; });
    if (found == operations.rend()) {
        return;
    }
    uint32_t* at = found->operands.data();
    for (unsigned i = 0; i < store.read_count; ++i) {
        const RegSpan& span = store.reads[i];
        const bool is_data = span.file == data.file && span.first == data.first && span.count == data.count;
        if (is_data) {
            copy_span<true>(wave, span, at);
        } else {
            at += span.count * (span.file == RegSpan::kScalar ? 1u : kLanes);
        }
    }
}

/// A quarter of the seeds makes everything as late as it can be; the others choose short, middle or long delays.
uint64_t LateMemory::due_after(const Wave& wave, Queue& queue, const Inst& inst) {
    constexpr uint64_t kLongest[] = {0, 8, 64, 1024};
    const uint64_t longest = kLongest[seed_ % 4];
    uint64_t due = longest == 0 ? kNever : wave.instructions + queue.random.below(longest + 1);
    for (const Operation& earlier : queue.operations) {
        if (keeps_order(earlier.inst->wait_class, inst.wait_class)) {
            due = std::max(due, earlier.due);
        }
    }
    return due;
}

void LateMemory::issue(Wave& wave, Queue& queue, const Inst& inst, uint64_t& pc) {
    const WaitClass kind = inst.wait_class;
    Operation operation{};
    operation.inst = &inst;
    operation.pc = pc;
    operation.counts_vm = kind == WaitClass::kVm || kind == WaitClass::kFlat;
    operation.counts_lgkm = kind != WaitClass::kVm;
    operation.due = due_after(wave, queue, inst);
    operation.exec = wave.exec();
    operation.m0 = wave.m0();
    copy_spans<true>(wave, inst.reads, inst.read_count, operation.operands);
    if (operation.counts_vm) {
        limit(wave, queue, &Operation::counts_vm, kMostVm - 1, pc);
    }
    if (operation.counts_lgkm) {
        limit(wave, queue, &Operation::counts_lgkm, kMostLgkm - 1, pc);
    }
    queue.operations.push_back(std::move(operation));
}

void LateMemory::wait(Wave& wave, Queue& queue, uint32_t simm, uint64_t& pc) {
    // vmcnt is split: bits 3:0 and 15:14; lgkmcnt is bits 11:8.
    limit(wave, queue, &Operation::counts_vm, (simm & 15) | (simm >> 14 & 3) << 4, pc);
    limit(wave, queue, &Operation::counts_lgkm, simm >> 8 & 15, pc);
}

/// Completes operations until the counter is at most `keep`. Which of those that return in any order, the seed says.
void LateMemory::limit(Wave& wave, Queue& queue, bool Operation::*counter, unsigned keep, uint64_t& pc) {
    while (true) {
        std::vector<size_t> candidates;
        size_t counted = 0;
        for (size_t i = 0; i < queue.operations.size(); ++i) {
            const Operation& operation = queue.operations[i];
            if (!(operation.*counter)) {
                continue;
            }
            ++counted;
            const bool is_next = std::none_of(queue.operations.begin(), queue.operations.begin() + static_cast<ptrdiff_t>(i),
                                              [&](const Operation& earlier) {
                                                  return earlier.*counter && keeps_order(earlier.inst->wait_class,
                                                                     operation.inst->wait_class);
                                              });
            if (is_next) {
                candidates.push_back(i);
            }
        }
        if (counted <= keep) {
            return;
        }
        complete(wave, queue, candidates[queue.random.below(candidates.size())], pc);
    }
}

void LateMemory::complete_due(Wave& wave, Queue& queue, uint64_t& pc) {
    for (size_t i = 0; i < queue.operations.size();) {
        if (queue.operations[i].due <= wave.instructions) {
            complete(wave, queue, i, pc);
        } else {
            ++i;
        }
    }
}

void LateMemory::complete_all(Wave& wave, Queue& queue, uint64_t& pc) {
    while (!queue.operations.empty()) {
        complete(wave, queue, 0, pc);
    }
}

void LateMemory::complete(Wave& wave, Queue& queue, size_t index, uint64_t& pc) {
    // FLAT counts on two counters, so one that waits for its turn on the other may stand before this one.
    for (size_t i = 0; i < index;) {
        if (keeps_order(queue.operations[i].inst->wait_class, queue.operations[index].inst->wait_class)) {
            const size_t outstanding = queue.operations.size();
            complete(wave, queue, i, pc);
            index -= outstanding - queue.operations.size();
            i = 0;
        } else {
            ++i;
        }
    }
    Operation operation = std::move(queue.operations[index]);
    queue.operations.erase(queue.operations.begin() + static_cast<ptrdiff_t>(index));
    const Inst& inst = *operation.inst;
    std::vector<uint32_t> present, results;
    const uint64_t present_exec = wave.exec(), present_pc = pc;
    const uint32_t present_m0 = wave.m0();
    copy_spans<true>(wave, inst.reads, inst.read_count, present);
    copy_spans<false>(wave, inst.reads, inst.read_count, operation.operands);
    wave.set_exec(operation.exec);
    wave.sgpr[kM0Code] = operation.m0;
    pc = operation.pc;
    inst.run(wave, inst);
    pc = present_pc;
    copy_spans<true>(wave, inst.writes, inst.write_count, results);
    copy_spans<false>(wave, inst.reads, inst.read_count, present);
    wave.set_exec(present_exec);
    wave.sgpr[kM0Code] = present_m0;
    write_results(wave, inst, operation.exec, results);
}

void LateMemory::pass_barrier(Workgroup& group) {
    for (auto& wave : group.waves) {
        Queue& queue = queues_[wave->wave_id];
        if (queue.random.below(2) == 0) {
            uint64_t pc = wave->pc;
            complete_all(*wave, queue, pc);
        }
    }
}

void LateMemory::end_turns(Workgroup& group) {
    for (auto& wave : group.waves) {
        Queue& queue = queues_[wave->wave_id];
        queue.idle_turns = wave->state == WaveState::kRunning ? 0 : queue.idle_turns + 1;
        if (queue.idle_turns > kIdleTurns) {
            uint64_t pc = wave->pc;
            complete_all(*wave, queue, pc);
        }
    }
}

}  // namespace asmevo::emulator
