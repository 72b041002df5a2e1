#include "exec/seeded/late_results.h"

#include <algorithm>
#include <cstring>

#include "exec/seeded/late_memory.h"

namespace asmevo::emulator {
namespace {

RegSpan overlap(const RegSpan& a, const RegSpan& b) {
    const unsigned first = std::max(a.first, b.first);
    const unsigned end = std::min(a.first + a.count, b.first + b.count);
    if (a.file != b.file || first >= end) {
        return {};
    }
    return {a.file, static_cast<uint16_t>(first), static_cast<uint8_t>(end - first)};
}

unsigned width(const RegSpan& span) { return span.file == RegSpan::kScalar ? 1 : kLanes; }

uint32_t* registers(Wave& wave, const RegSpan& span) {
    return span.file == RegSpan::kScalar ? &wave.sgpr[span.first] : wave.lanes(span.first);
}

/// A part of a copy of `whole`.
const uint32_t* part(const std::vector<uint32_t>& values, const RegSpan& whole, const RegSpan& wanted) {
    return &values[(wanted.first - whole.first) * width(whole)];
}

std::vector<uint32_t> read(Wave& wave, const RegSpan& span) {
    std::vector<uint32_t> values(span.count * width(span));
    std::memcpy(values.data(), registers(wave, span), 4 * values.size());
    return values;
}

void write(Wave& wave, const RegSpan& span, const uint32_t* values) {
    std::memcpy(registers(wave, span), values, 4ull * span.count * width(span));
}

bool writes(const Inst& inst, const RegSpan& span) {
    return std::any_of(inst.writes, inst.writes + inst.write_count,
                       [&](const RegSpan& own) { return overlap(own, span).count > 0; });
}

bool same_hwreg(const Inst& a, const Inst& b) { return ((a.simm ^ b.simm) & 0x3f) == 0; }

}  // namespace

void LateResults::restart(uint64_t workgroup, size_t waves) {
    waves_.clear();
    waves_.resize(waves);
    for (size_t wave = 0; wave < waves; ++wave) {
        waves_[wave].random = Random(~seed_, workgroup * 64 + wave + 1);
    }
}

const PipeTraits& LateResults::traits_of(const Inst& inst) {
    const auto known = traits_.find(&inst);
    return known != traits_.end() ? known->second : traits_.emplace(&inst, PipeTraits(inst)).first->second;
}

void LateResults::before(Wave& wave, const Inst& inst) {
    State& state = waves_[wave.wave_id];
    const PipeTraits& traits = traits_of(inst);
    while (!state.results.empty() && !is_early(state, state.results.front(), kLongestDelay)) {
        state.results.pop_front();
    }
    if (wave.gpr_idx_on) {
        state.results.clear();
        return;
    }
    Result result{&traits, 0, {}, {}, wave.exec(), wave.m0(), wave.mode, wave.trap_status};
    const bool has_results = traits.unit != Unit::kOther;
    for (unsigned i = 0; has_results && i < inst.write_count; ++i) {
        result.before.push_back({inst.writes[i], read(wave, inst.writes[i])});
    }
    for (unsigned i = 0; sum_delay(traits) > 0 && i < inst.read_count; ++i) {
        result.operands.push_back({inst.reads[i], read(wave, inst.reads[i])});
    }
    hold_overwritten(wave, state, traits);
    replace_registers(wave, state, traits);
    replace_state(wave, state, traits);
    state.results.push_back(std::move(result));
}

/// What the instruction reads too early, from the newest result to the oldest.
void LateResults::replace_registers(Wave& wave, State& state, const PipeTraits& consumer) {
    for (unsigned i = 0; i < consumer.read_count; ++i) {
        const PortRead& wanted = consumer.reads[i];
        if (wanted.port == Port::kScalar && is_lenient_) {
            continue;
        }
        for (auto result = state.results.rbegin(); result != state.results.rend(); ++result) {
            if (!is_early(state, *result, read_delay(*result->traits, consumer, wanted))) {
                continue;
            }
            for (const Copy& old : result->before) {
                const RegSpan both = overlap(old.span, wanted.span);
                if (both.count > 0 && happens(state)) {
                    state.replaced.push_back({both, read(wave, both)});
                    write(wave, both, part(old.values, old.span, both));
                }
            }
        }
    }
}

/// EXEC, M0 and hardware registers.
void LateResults::replace_state(Wave& wave, State& state, const PipeTraits& consumer) {
    for (auto result = state.results.rbegin(); result != state.results.rend(); ++result) {
        const PipeTraits& producer = *result->traits;
        if (producer.writes_exec && is_early(state, *result, consumer.exec_delay) && happens(state)) {
            state.exec = state.is_exec_replaced ? state.exec : wave.exec();
            state.is_exec_replaced = true;
            wave.set_exec(result->exec);
        }
        const bool takes_m0 = producer.writes_m0 && consumer.reads_late_m0 && !is_lenient_;
        if (takes_m0 && is_early(state, *result, 1) && happens(state)) {
            state.m0 = wave.m0();
            state.is_m0_replaced = true;
            wave.sgpr[kM0Code] = result->m0;
        }
        if (producer.sets_hwreg && (consumer.sets_hwreg || consumer.gets_hwreg) && is_early(state, *result, 2) &&
            same_hwreg(*producer.inst, *consumer.inst) && happens(state)) {
            // Of two writes the second starts from what was there before the first.
            wave.mode = result->mode;
            wave.trap_status = result->trap_status;
        }
    }
}

/// Registers whose older result will arrive behind the one that the instruction is about to write.
void LateResults::hold_overwritten(Wave& wave, State& state, const PipeTraits& consumer) {
    const Inst& inst = *consumer.inst;
    for (const Result& result : state.results) {
        if (!is_early(state, result, overwrite_delay(*result.traits, consumer))) {
            continue;
        }
        for (const Copy& old : result.before) {
            for (unsigned i = 0; i < inst.write_count; ++i) {
                const RegSpan both = overlap(old.span, inst.writes[i]);
                if (both.count > 0 && both.file == RegSpan::kVector && happens(state)) {
                    state.held.push_back({both, read(wave, both)});
                }
            }
        }
    }
}

void LateResults::after(Wave& wave, const Inst& inst) {
    State& state = waves_[wave.wave_id];
    const PipeTraits& traits = traits_of(inst);
    put_back(wave, state, inst);
    for (const Copy& held : state.held) {
        write(wave, held.span, held.values.data());
    }
    state.held.clear();
    if (!state.results.empty() && traits.unit == Unit::kVector) {
        overwrite_operands(wave, state, traits);
    }
    state.clock += traits.states;
    if (!state.results.empty() && state.results.back().traits == &traits) {
        const bool is_late = traits.unit != Unit::kOther || traits.writes_m0 || traits.sets_hwreg || traits.data_delay > 0;
        state.results.back().clock = state.clock;
        if (!is_late) {
            state.results.pop_back();
        }
    }
}

/// A register that the instruction wrote keeps what it wrote: of a VGPR the active lanes.
void LateResults::put_back(Wave& wave, State& state, const Inst& inst) {
    const uint64_t exec = (inst.info->flags & kIgnoresExec) ? ~uint64_t{0} : wave.exec();
    // In reverse: the first copy of a register is the right one.
    for (auto copy = state.replaced.rbegin(); copy != state.replaced.rend(); ++copy) {
        for (unsigned i = 0; i < copy->span.count; ++i) {
            const RegSpan one{copy->span.file, static_cast<uint16_t>(copy->span.first + i), 1};
            const bool is_written = writes(inst, one);
            const uint32_t* values = &copy->values[i * width(one)];
            uint32_t* now = registers(wave, one);
            for (unsigned lane = 0; lane < width(one); ++lane) {
                const bool keeps = is_written && (one.file == RegSpan::kScalar || (exec >> lane & 1));
                now[lane] = keeps ? now[lane] : values[lane];
            }
        }
    }
    state.replaced.clear();
    if (state.is_exec_replaced && !writes(inst, {RegSpan::kScalar, kExecCode, 2})) {
        wave.set_exec(state.exec);
    }
    if (state.is_m0_replaced && !writes(inst, {RegSpan::kScalar, kM0Code, 1})) {
        wave.sgpr[kM0Code] = state.m0;
    }
    state.is_exec_replaced = state.is_m0_replaced = false;
}

/// A vector operation wrote registers that an earlier instruction was yet to read: a sum, or a wide store's data.
void LateResults::overwrite_operands(Wave& wave, State& state, const PipeTraits& consumer) {
    const Inst& inst = *consumer.inst;
    for (const Result& result : state.results) {
        const PipeTraits& producer = *result.traits;
        if (result.traits == &consumer) {
            break;
        }
        if (producer.data_delay > 0 && is_early(state, result, producer.data_delay) && writes(inst, producer.data) &&
            happens(state)) {
            memory_.take_late_data(wave, *producer.inst, producer.data);
        }
        if (!is_early(state, result, sum_delay(producer))) {
            continue;
        }
        for (unsigned i = 0; i < producer.read_count; ++i) {
            const PortRead& sum = producer.reads[i];
            if (sum.port == Port::kMatrixSum && writes(inst, sum.span) && happens(state)) {
                run_again(wave, result, sum.span);
            }
        }
    }
}

/// The matrix operation once more, with the sum as it is now.
void LateResults::run_again(Wave& wave, const Result& result, const RegSpan& sum) {
    const Inst& inst = *result.traits->inst;
    std::vector<Copy> present;
    for (const Copy& operand : result.operands) {
        present.push_back({operand.span, read(wave, operand.span)});
        if (overlap(operand.span, sum).count == 0) {
            write(wave, operand.span, operand.values.data());
        }
    }
    inst.run(wave, inst);
    for (const Copy& copy : present) {
        if (!writes(inst, copy.span)) {
            write(wave, copy.span, copy.values.data());
        }
    }
}

}  // namespace asmevo::emulator
