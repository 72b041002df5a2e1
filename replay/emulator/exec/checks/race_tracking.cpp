#include "exec/checks/race_tracking.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "exec/dispatch.h"
#include "exec/fault_report.h"
#include "exec/memory_ops/data.h"

namespace asmevo::emulator {
namespace {

constexpr size_t kStep = 32;  // bytes looked at together; as many stand behind the end
constexpr uint32_t kNearBytes = 2048;

/// Zero where the byte is one of the two.
__m256i unlike(__m256i bytes, __m256i one, __m256i other) {
    return _mm256_min_epu8(_mm256_xor_si256(bytes, one), _mm256_xor_si256(bytes, other));
}

__m256i all_bytes(uint8_t value) { return _mm256_set1_epi8(static_cast<char>(value)); }

/// The first `count` bytes, at most 32.
__m256i first_bytes(size_t count) {
    alignas(32) static constexpr std::array<uint8_t, 2 * kStep> kMask = [] {
        std::array<uint8_t, 2 * kStep> mask{};
        std::fill_n(mask.begin(), kStep, uint8_t{0xff});
        return mask;
    }();
    const size_t from = count < kStep ? kStep - count : 0;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask.data() + from));
}

/// Whether each byte is one of the two.
bool are_either(const uint8_t* at, size_t count, uint8_t one, uint8_t other) {
    const __m256i first = all_bytes(one), second = all_bytes(other);
    __m256i all = _mm256_setzero_si256();
    size_t done = 0;
    for (; done + kStep <= count; done += kStep) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + done));
        all = _mm256_or_si256(all, unlike(bytes, first, second));
    }
    if (done < count) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + done));
        all = _mm256_or_si256(all, _mm256_and_si256(unlike(bytes, first, second), first_bytes(count - done)));
    }
    return _mm256_testz_si256(all, all) != 0;
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
        last_writer_.assign(dwords, 0);
        first_reader_.assign(dwords, 0);
        other_reader_.assign(dwords, 0);
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

void RaceTracker::note(const Wave& wave, const Inst& inst, const AccessShape& shape, const LdsFootprint& footprint,
                       uint64_t pc) {
    if (wave.group->waves.size() < 2) {
        return;
    }
    const uint64_t code = wave.group->dispatch->request->kernel->code->address();
    const Toucher mine{static_cast<uint32_t>(pc - code), static_cast<Who>(wave.wave_id + 1)};
    Current current{wave, inst, shape, code, mine, shape.is_write || shape.loads_to_lds, shape.is_atomic()};
    if (footprint.is_known) {
        for (unsigned piece = 0; piece < shape.pieces; ++piece) {
            touch_piece(current, footprint, piece);
        }
        return;
    }
    uint32_t first[Accesses::kMost];
    unsigned count = 0;
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

void RaceTracker::touch_piece(Current& current, const LdsFootprint& footprint, unsigned piece) {
    if (footprint.is_contiguous) {
        touch(current, footprint.first[piece], footprint.end[piece]);
        return;
    }
    // Where the lanes keep together, the bytes between them are mostly read by the same wave too.
    const uint32_t low = footprint.first[piece], size = footprint.end[piece] - low;
    const Who me = current.mine.who();
    if (!current.is_write && size <= kNearBytes && are_either(&readers_[low], size, me, me) &&
        are_either(&writers_[low], size, 0, me)) {
        return;
    }
    const uint32_t* address = current.wave.lanes(current.inst.src[0].index);
    uint32_t first[kLanes];
    unsigned count = 0;
    for_each_lane(current.wave.exec(), [&](int lane) { first[count++] = address[lane] + footprint.offset[piece]; });
    const unsigned bytes = current.shape.bytes;
    const bool is_settled_read =
        !current.is_write && (bytes == 16  ? is_settled<unsigned __int128>(current, first, count)
                              : bytes == 8 ? is_settled<uint64_t>(current, first, count)
                              : bytes == 4 ? is_settled<uint32_t>(current, first, count)
                                           : false);
    if (!is_settled_read) {
        touch_lanes(current, first, count, bytes);
    }
}

/// Whether this wave has read all the bytes since the last barrier, and no other has written one: nothing changes then.
template <typename Word>
bool RaceTracker::is_settled(const Current& current, const uint32_t* first, unsigned count) const {
    Word mine;
    std::memset(&mine, current.mine.who(), sizeof mine);
    Word unlike = 0;
    for (unsigned lane = 0; lane < count; ++lane) {
        Word writer, reader;
        std::memcpy(&writer, &writers_[first[lane]], sizeof writer);
        std::memcpy(&reader, &readers_[first[lane]], sizeof reader);
        unlike |= (reader ^ mine) | (writer == 0 ? writer : writer ^ mine);
    }
    return unlike == 0;
}

/// Neighbouring lanes mostly touch neighbouring bytes: they are taken together.
void RaceTracker::touch_lanes(Current& current, const uint32_t* first, unsigned count, unsigned bytes) {
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
    const Who me = current.mine.who();
    const size_t bytes = end - first;
    if (are_either(&writers_[first], bytes, 0, me)) [[likely]] {
        if (are_either(&readers_[first], bytes, me, kMany)) {
            return;
        }
        if (are_either(&readers_[first], bytes, 0, 0)) {
            std::fill_n(&readers_[first], bytes, me);
            std::fill(&first_reader_[first / 4], &first_reader_[(end - 1) / 4] + 1, current.mine.bits());
            return;
        }
    }
    for (size_t byte = first; byte < end; ++byte) {
        read_byte(current, byte);
    }
}

void RaceTracker::read_byte(Current& current, size_t byte) {
    const Who me = current.mine.who(), writer = writers_[byte], known = readers_[byte];
    if (writer != 0 && (writer & ~kAtomic) != me) {
        report(current, byte, Toucher(last_writer_[byte / 4]), true);
    }
    if (known == me) {
        return;
    }
    readers_[byte] = known == 0 ? me : kMany;
    if (known == 0) {
        first_reader_[byte / 4] = current.mine.bits();
    } else if (Toucher(first_reader_[byte / 4]).who() != me) {
        other_reader_[byte / 4] = current.mine.bits();
    }
}

void RaceTracker::write(Current& current, size_t first, size_t end) {
    const Who me = current.mine.who();
    const size_t bytes = end - first;
    if (!current.is_atomic && are_either(&writers_[first], bytes, 0, me) &&
        are_either(&readers_[first], bytes, 0, me)) [[likely]] {
        std::fill_n(&writers_[first], bytes, me);
    } else {
        for (size_t byte = first; byte < end; ++byte) {
            write_byte(current, byte);
        }
    }
    std::fill(&last_writer_[first / 4], &last_writer_[(end - 1) / 4] + 1, current.mine.bits());
}

void RaceTracker::write_byte(Current& current, size_t byte) {
    const Who me = current.mine.who(), writer = writers_[byte], reader = readers_[byte];
    const bool is_others = writer != 0 && (writer & ~kAtomic) != me;
    const bool both_atomic = current.is_atomic && (writer & kAtomic);
    if (is_others && !both_atomic) {
        report(current, byte, Toucher(last_writer_[byte / 4]), true);
    }
    if (reader != 0 && reader != me) {
        const Toucher one(first_reader_[byte / 4]);
        report(current, byte, one.who() != me ? one : Toucher(other_reader_[byte / 4]), false);
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
    const uint64_t pc = current.code + current.mine.offset(), other_pc = current.code + other.offset();
    const FindingKey key{is_same ? "lds-race-same-value" : "lds-race", pc, other_pc};
    const FindingClass severity = is_same ? FindingClass::kCaution : FindingClass::kError;
    reporter_.report(current.wave, key, severity, [&](Finding& finding) {
        finding.where = "LDS byte " + std::to_string(byte);
        finding.lane = access->lane;
        finding.other_wave = other.who() - 1;
        finding.message = std::string(is_write ? "writes " : "reads ") + finding.where + " that " +
                          finding.other_instruction + " at " + place_text(current.wave, other_pc) +
                          " of wave " + std::to_string(finding.other_wave) +
                          (other_wrote ? " writes" : " reads") + " with no s_barrier between the two" +
                          (is_same ? " (it writes the value that is there)" : "");
    });
}

}  // namespace asmevo::emulator
