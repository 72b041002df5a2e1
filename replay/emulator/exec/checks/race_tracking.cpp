#include "exec/checks/race_tracking.h"

#include <immintrin.h>

#include <algorithm>
#include <string_view>

#include "exec/dispatch.h"
#include "exec/fault_report.h"

namespace asmevo::emulator {
namespace {

constexpr size_t kStep = 32;  // bytes looked at together

/// Calls `body(bytes, mask)` for pieces of [at, at + count), with a bit for each byte that counts.
template <typename Body>
bool all_pieces(const uint8_t* at, size_t count, Body body) {
    for (size_t done = 0; done < count; done += kStep) {
        const size_t left = count - done;
        const uint32_t mask = left >= kStep ? ~0u : (1u << left) - 1;
        if (!body(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + done)), mask)) {
            return false;
        }
    }
    return true;
}

uint32_t equal_bytes(__m256i all, uint8_t value) {
    return static_cast<uint32_t>(
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(all, _mm256_set1_epi8(static_cast<char>(value)))));
}

/// Whether each byte is one of the two.
bool are_either(const uint8_t* at, size_t count, uint8_t one, uint8_t other) {
    return all_pieces(at, count, [one, other](__m256i all, uint32_t mask) {
        return ((equal_bytes(all, one) | equal_bytes(all, other)) & mask) == mask;
    });
}

bool are_contiguous(const uint32_t* first, unsigned bytes) {
    uint32_t difference = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        difference |= first[lane] ^ (first[0] + lane * bytes);
    }
    return difference == 0;
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
        writers_.assign(lds_bytes + kStep, 0);
        readers_.assign(lds_bytes + kStep, 0);
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
    const uint64_t code = wave.group->dispatch->request->kernel->code->address();
    const Toucher mine{static_cast<uint32_t>(pc - code), static_cast<Who>(wave.wave_id + 1)};
    Current current{wave, inst, shape, code, mine, shape.is_write || shape.loads_to_lds, shape.is_atomic()};
    uint32_t first[Accesses::kMost];
    unsigned count = 0;
    if (shape.kind == AccessShape::Kind::kLds && shape.pieces == 1 && wave.exec() == ~uint64_t{0}) {
        const uint32_t* address = wave.lanes(inst.src[0].index);
        for (; count < kLanes; ++count) {
            first[count] = address[count] + static_cast<uint32_t>(inst.offset);
        }
        touch_lanes(current, first, count, shape.bytes);
        return;
    }
    Accesses accesses;
    shape.loads_to_lds ? resolve_lds_dma(wave, inst, shape, accesses)
                       : resolve_accesses(wave, inst, shape, accesses);
    for (const Access& access : accesses) {
        if (access.space == Space::kLds) {
            first[count++] = static_cast<uint32_t>(access.address);
        }
    }
    touch_lanes(current, first, count, shape.loads_to_lds ? shape.lds_stride : shape.bytes);
}

/// Neighbouring lanes mostly touch neighbouring bytes: they are taken together.
void RaceTracker::touch_lanes(Current& current, const uint32_t* first, unsigned count, unsigned bytes) {
    if (count == kLanes && are_contiguous(first, bytes)) {
        touch(current, first[0], size_t{first[0]} + kLanes * bytes);
        return;
    }
    for (unsigned lane = 0; lane < count;) {
        const size_t start = first[lane];
        size_t end = start + bytes;
        for (++lane; lane < count && (first[lane] == end || first[lane] == end - bytes); ++lane) {
            end = size_t{first[lane]} + bytes;
        }
        touch(current, start, end);
    }
}

void RaceTracker::touch(Current& current, size_t first, size_t end) {
    if (end > lds_bytes_) {
        return;  // the access itself faults
    }
    low_ = std::min(low_, first);
    high_ = std::max(high_, end);
    current.is_write ? write(current, first, end) : read(current, first, end);
}

void RaceTracker::read(Current& current, size_t first, size_t end) {
    const Who me = current.mine.who;
    const size_t bytes = end - first;
    if (are_either(&writers_[first], bytes, 0, me)) [[likely]] {
        if (are_either(&readers_[first], bytes, me, kMany)) {
            return;
        }
        if (are_either(&readers_[first], bytes, 0, 0)) {
            std::fill_n(&readers_[first], bytes, me);
            std::fill(&first_reader_[first / 4], &first_reader_[(end - 1) / 4] + 1, current.mine);
            return;
        }
    }
    for (size_t byte = first; byte < end; ++byte) {
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

void RaceTracker::write(Current& current, size_t first, size_t end) {
    const Who me = current.mine.who;
    const size_t bytes = end - first;
    if (!current.is_atomic && are_either(&writers_[first], bytes, 0, me) &&
        are_either(&readers_[first], bytes, 0, me)) [[likely]] {
        std::fill_n(&writers_[first], bytes, me);
    } else {
        for (size_t byte = first; byte < end; ++byte) {
            write_byte(current, byte);
        }
    }
    std::fill(&last_writer_[first / 4], &last_writer_[(end - 1) / 4] + 1, current.mine);
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
    Accesses accesses;
    current.shape.loads_to_lds ? resolve_lds_dma(current.wave, current.inst, current.shape, accesses)
                               : resolve_accesses(current.wave, current.inst, current.shape, accesses);
    const Access* access = std::find_if(accesses.begin(), accesses.end(), [&](const Access& one) {
        return one.space == Space::kLds && one.address <= byte && byte - one.address < one.bytes;
    });
    if (access == accesses.end()) {
        return;
    }
    const bool is_write = current.is_write;
    const bool is_same = is_write && writes_same(current.wave, current.inst, current.shape, *access);
    const uint64_t pc = current.code + current.mine.offset, other_pc = current.code + other.offset;
    const FindingKey key{is_same ? "lds-race-same-value" : "lds-race", pc, other_pc};
    const FindingClass severity = is_same ? FindingClass::kCaution : FindingClass::kError;
    reporter_.report(current.wave, key, severity, [&](Finding& finding) {
        finding.where = "LDS byte " + std::to_string(byte);
        finding.lane = access->lane;
        finding.other_wave = other.who - 1;
        finding.message = std::string(is_write ? "writes " : "reads ") + finding.where + " that " +
                          finding.other_instruction + " at " + place_text(current.wave, other_pc) +
                          " of wave " + std::to_string(finding.other_wave) +
                          (other_wrote ? " writes" : " reads") + " with no s_barrier between the two" +
                          (is_same ? " (it writes the value that is there)" : "");
    });
}

}  // namespace asmevo::emulator
