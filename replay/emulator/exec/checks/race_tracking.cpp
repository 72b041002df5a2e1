#include "exec/checks/race_tracking.h"

#include <immintrin.h>

#include <algorithm>
#include <string_view>

#include "exec/dispatch.h"
#include "exec/fault_report.h"

namespace asmevo::emulator {
namespace {

constexpr size_t kWidest = 16;  // bytes of a lane's access

/// Bit per byte of the first `bytes` that are `value`.
unsigned equal_bytes(const uint8_t* at, size_t bytes, uint8_t value) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const auto equal = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(value)))));
    return equal & ((1u << bytes) - 1);
}

/// Whether each byte is 0 or `who`.
bool are_free_or(const uint8_t* at, size_t bytes, uint8_t who) {
    return (equal_bytes(at, bytes, 0) | equal_bytes(at, bytes, who)) == (1u << bytes) - 1;
}

/// Whether a plain DS store writes what its bytes hold already.
bool writes_same(const Wave& wave, const Inst& inst, const AccessShape& shape, const Access& access) {
    if (shape.kind != AccessShape::Kind::kLds || shape.is_read) {
        return false;
    }
    const Operand& data = inst.src[1 + access.piece];
    const bool is_high = std::string_view(inst.info->name).find("d16_hi") != std::string_view::npos;
    for (unsigned at = 0; at < access.bytes; ++at) {
        const uint32_t dword = wave.lanes(static_cast<uint16_t>(data.index + at / 4))[access.lane];
        const unsigned shift = 8 * (at % 4) + (is_high ? 16 : 0);
        if (static_cast<uint8_t>(dword >> shift) != wave.group->lds[access.address + at]) {
            return false;
        }
    }
    return true;
}

}  // namespace

void RaceTracker::reset(size_t lds_bytes) {
    pass_barrier();
    if (lds_bytes_ != lds_bytes) {
        lds_bytes_ = lds_bytes;
        writers_.assign(lds_bytes + kWidest, 0);
        readers_.assign(lds_bytes + kWidest, 0);
        const size_t dwords = lds_bytes / 4 + 1;
        last_writer_.assign(dwords, {});
        first_reader_.assign(dwords, {});
        other_reader_.assign(dwords, {});
    }
    low_ = lds_bytes;
}

void RaceTracker::pass_barrier() {
    if (high_ > low_) {
        std::fill_n(writers_.data() + low_, high_ - low_, Who{0});
        std::fill_n(readers_.data() + low_, high_ - low_, Who{0});
    }
    low_ = lds_bytes_;
    high_ = 0;
}

void RaceTracker::note(const Wave& wave, const Inst& inst, const AccessShape& shape, uint64_t pc) {
    if (wave.group->waves.size() < 2) {
        return;
    }
    Accesses accesses;
    shape.loads_to_lds ? resolve_lds_dma(wave, inst, shape, accesses)
                       : resolve_accesses(wave, inst, shape, accesses);
    const uint64_t code = wave.group->dispatch->request->kernel->code->address();
    const Toucher mine{static_cast<uint32_t>(pc - code), static_cast<Who>(wave.wave_id + 1)};
    const bool is_write = shape.is_write || shape.loads_to_lds;
    for (const Access& access : accesses) {
        if (access.space != Space::kLds || access.address >= lds_bytes_ ||
            lds_bytes_ - access.address < access.bytes) {
            continue;  // beyond LDS the access itself faults
        }
        low_ = std::min<size_t>(low_, access.address);
        high_ = std::max<size_t>(high_, access.address + access.bytes);
        Current current{wave, inst, shape, access, code, mine, shape.is_atomic()};
        is_write ? write(current, access.address, access.bytes)
                 : read(current, access.address, access.bytes);
    }
}

void RaceTracker::read(Current& current, size_t first, size_t bytes) {
    const Who me = current.mine.who;
    if (are_free_or(&writers_[first], bytes, me)) [[likely]] {
        const unsigned every = (1u << bytes) - 1;
        if (equal_bytes(&readers_[first], bytes, me) == every) {
            return;
        }
        if (equal_bytes(&readers_[first], bytes, 0) == every) {
            std::fill_n(&readers_[first], bytes, me);
            std::fill(&first_reader_[first / 4], &first_reader_[(first + bytes - 1) / 4] + 1, current.mine);
            return;
        }
    }
    for (size_t byte = first; byte < first + bytes; ++byte) {
        read_byte(current, byte);
    }
}

void RaceTracker::read_byte(Current& current, size_t byte) {
    const Who me = current.mine.who, writer = writers_[byte], known = readers_[byte];
    if (writer != 0 && (writer & ~kAtomic) != me) {
        report(current, byte, last_writer_[byte / 4], true);
    }
    if (known == me) {
        return;
    }
    readers_[byte] = known == 0 ? me : kMany;
    if (known == 0) {
        first_reader_[byte / 4] = current.mine;
    } else if (first_reader_[byte / 4].who != me) {
        other_reader_[byte / 4] = current.mine;
    }
}

void RaceTracker::write(Current& current, size_t first, size_t bytes) {
    const Who me = current.mine.who;
    if (!current.is_atomic && are_free_or(&writers_[first], bytes, me) &&
        are_free_or(&readers_[first], bytes, me)) [[likely]] {
        std::fill_n(&writers_[first], bytes, me);
    } else {
        for (size_t byte = first; byte < first + bytes; ++byte) {
            write_byte(current, byte);
        }
    }
    std::fill(&last_writer_[first / 4], &last_writer_[(first + bytes - 1) / 4] + 1, current.mine);
}

void RaceTracker::write_byte(Current& current, size_t byte) {
    const Who me = current.mine.who, writer = writers_[byte], reader = readers_[byte];
    const bool is_others = writer != 0 && (writer & ~kAtomic) != me;
    const bool both_atomic = current.is_atomic && (writer & kAtomic);
    if (is_others && !both_atomic) {
        report(current, byte, last_writer_[byte / 4], true);
    }
    if (reader != 0 && reader != me) {
        const Toucher& one = first_reader_[byte / 4];
        report(current, byte, one.who != me ? one : other_reader_[byte / 4], false);
    }
    const bool shares = is_others && both_atomic;
    writers_[byte] = static_cast<Who>((shares ? kMany : me) | (current.is_atomic ? kAtomic : 0));
}

void RaceTracker::report(Current& current, size_t byte, const Toucher& other, bool other_wrote) {
    if (current.has_conflict) {
        return;
    }
    current.has_conflict = true;
    const bool is_write = current.shape.is_write || current.shape.loads_to_lds;
    const bool is_same = is_write && writes_same(current.wave, current.inst, current.shape, current.access);
    const uint64_t pc = current.code + current.mine.offset, other_pc = current.code + other.offset;
    const FindingKey key{is_same ? "lds-race-same-value" : "lds-race", pc, other_pc};
    const FindingClass severity = is_same ? FindingClass::kCaution : FindingClass::kError;
    reporter_.report(current.wave, key, severity, [&](Finding& finding) {
        finding.where = "LDS byte " + std::to_string(byte);
        finding.lane = current.access.lane;
        finding.other_wave = other.who - 1;
        finding.message = std::string(is_write ? "writes " : "reads ") + finding.where + " that " +
                          finding.other_instruction + " at " + place_text(current.wave, other_pc) +
                          " of wave " + std::to_string(finding.other_wave) +
                          (other_wrote ? " writes" : " reads") + " with no s_barrier between the two" +
                          (is_same ? " (it writes the value that is there)" : "");
    });
}

}  // namespace asmevo::emulator
