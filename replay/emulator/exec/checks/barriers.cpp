#include "exec/checks/barriers.h"

#include "exec/fault_report.h"

namespace asmevo::emulator {
namespace {

constexpr uint64_t kBarrierBytes = 4;

/// The hardware lets waves that have ended out of account and does not tell barriers apart (CDNA3 ISA, s_barrier), so
/// either works; both are what a lost or a doubled barrier looks like.
void report(const Wave& at, const Wave& other, Reporter& reporter) {
    const bool has_ended = other.state == WaveState::kDone;
    const uint64_t pc = at.pc - kBarrierBytes, other_pc = has_ended ? 0 : other.pc - kBarrierBytes;
    const FindingKey key{has_ended ? "barrier-without-wave" : "barrier-elsewhere", pc, other_pc};
    reporter.report(at, key, FindingClass::kCaution, [&](Finding& finding) {
        finding.other_wave = static_cast<int>(other.wave_id);
        finding.message = "wave " + std::to_string(other.wave_id) +
                          (has_ended ? " has ended and does not reach this barrier"
                                     : " meets it at another s_barrier, " + place_text(other, other_pc));
    });
}

}  // namespace

void check_barrier(const Workgroup& group, Reporter& reporter) {
    const Wave* first = nullptr;
    const Wave* ended = nullptr;
    for (const auto& wave : group.waves) {
        if (wave->state == WaveState::kDone) {
            ended = ended ? ended : wave.get();
        } else if (!first) {
            first = wave.get();
        } else if (wave->pc != first->pc) {
            report(*wave, *first, reporter);
        }
    }
    if (first && ended) {
        report(*first, *ended, reporter);
    }
}

}  // namespace asmevo::emulator
