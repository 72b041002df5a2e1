#include "exec/lds_tracking.h"

#include <algorithm>

#include "exec/fault_report.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {
namespace {

/// First byte that lane `lane` touches in piece `piece`.
uint32_t first_byte(const Inst& inst, const std::array<uint32_t, kLanes>& address, int lane, int piece) {
    const LdsShape& shape = inst.lds_shape;
    if (shape.from_memory) {
        return address[static_cast<size_t>(lane)];
    }
    auto offset = static_cast<uint32_t>(inst.offset);
    if (shape.pieces == 2) {
        offset = (piece == 0 ? offset & 255 : offset >> 8 & 255) * shape.scale;
    }
    return address[static_cast<size_t>(lane)] + offset;
}

/// Calls `body(lane, first byte)` for every piece of every active lane until it returns true.
template <typename Access, typename Body>
bool any_piece(const Access& access, Body body) {
    for (int lane = 0; lane < kLanes; ++lane) {
        if (!(access.exec >> lane & 1)) {
            continue;
        }
        for (int piece = 0; piece < access.inst->lds_shape.pieces; ++piece) {
            if (body(lane, first_byte(*access.inst, access.address, lane, piece))) {
                return true;
            }
        }
    }
    return false;
}

bool conflicts(const Inst& a, const Inst& b) {
    const LdsShape &first = a.lds_shape, &second = b.lds_shape;
    return (first.is_write || second.is_write) && !(first.is_atomic && second.is_atomic);
}

/// The lane of `now` that touches a byte of `before`, or -1; `byte` is that piece's first one.
template <typename Access>
int overlap(const Access& now, const Access& before, uint32_t& byte) {
    int found = -1;
    uint64_t size_now = now.inst->lds_shape.bytes, size_before = before.inst->lds_shape.bytes;
    any_piece(now, [&](int lane, uint64_t first) {
        bool hit = any_piece(before, [&](int, uint64_t other) {
            return first < other + size_before && other < first + size_now;
        });
        if (hit) {
            found = lane;
            byte = static_cast<uint32_t>(first);
        }
        return hit;
    });
    return found;
}

unsigned count_outstanding(const Wave& wave, bool from_memory) {
    unsigned count = 0;
    for (const PendingOp& op : wave.pending) {
        bool is_kind = from_memory ? op.counts_vm && op.inst->lds_shape.from_memory
                                   : op.counts_lgkm && op.inst->lds_shape.pieces > 0 &&
                                         !op.inst->lds_shape.from_memory;
        count += is_kind;
    }
    return count;
}

template <typename Access>
std::string touches(const Access& access, uint32_t byte) {
    return (access.inst->lds_shape.is_write ? "writes" : "reads") + std::string(" LDS byte ") +
           std::to_string(byte);
}

}  // namespace

void LdsTracker::reset(size_t waves, size_t lds_bytes) {
    if (waves_.size() != waves) {
        waves_ = std::vector<WaveAccesses>(waves);
    }
    for (WaveAccesses& wave : waves_) {
        wave.lds.count = 0;
        wave.from_memory.reset();
        wave.carried.clear();
    }
    size_t words = lds_bytes / 256 + 1;
    carried_reads_.assign(words, 0);
    carried_writes_.assign(words, 0);
    has_carried_ = has_loads_ = false;
}

bool LdsTracker::may_meet_carried(const Access& access) const {
    bool is_write = access.inst->lds_shape.is_write;
    uint32_t bytes = access.inst->lds_shape.bytes;
    return any_piece(access, [&](int, uint32_t first) {
        for (uint64_t dword = first / 4; dword <= (uint64_t{first} + bytes - 1) / 4; ++dword) {
            if (dword / 64 >= carried_writes_.size()) {
                return false;  // beyond the allocation: the access itself faults
            }
            uint64_t touched = carried_writes_[dword / 64] | (is_write ? carried_reads_[dword / 64] : 0);
            if (touched >> (dword % 64) & 1) {
                return true;
            }
        }
        return false;
    });
}

void LdsTracker::check_carried(const Wave& wave, const Access& access) const {
    for (size_t i = 0; i < waves_.size(); ++i) {
        if (i == wave.wave_id) {
            continue;
        }
        for (const Access& before : waves_[i].carried) {
            uint32_t byte = 0;
            int lane = conflicts(*access.inst, *before.inst) ? overlap(access, before, byte) : -1;
            if (lane < 0) {
                continue;
            }
            const FindingKey key{"barrier-without-wait", access.pc, before.pc};
            reporter_.report(wave, key, FindingClass::kError, [&](Finding& finding) {
                const char* counter = before.inst->lds_shape.from_memory ? "vmcnt" : "lgkmcnt";
                finding.where = "LDS byte " + std::to_string(byte);
                finding.lane = lane;
                finding.other_wave = static_cast<int>(i);
                finding.message = touches(access, byte) + " while " + finding.other_instruction + " at " +
                                  place_text(wave, before.pc) + " of wave " + std::to_string(i) +
                                  " is outstanding: that wave passed s_barrier without an s_waitcnt " +
                                  counter + " that covers it";
            });
        }
    }
}

void LdsTracker::check_own_loads(const Wave& wave, const Access& access) const {
    const WaveAccesses& mine = waves_[wave.wave_id];
    if (!mine.from_memory) {
        return;
    }
    unsigned outstanding = std::min(count_outstanding(wave, true), mine.from_memory->size());
    for (unsigned n = 0; n < outstanding; ++n) {
        const Access& before = mine.from_memory->last(n);
        uint32_t byte = 0;
        int lane = overlap(access, before, byte);
        if (lane >= 0) {
            const FindingKey key{"missing-wait", access.pc, before.pc};
            reporter_.report(wave, key, FindingClass::kError, [&](Finding& finding) {
                finding.where = "LDS byte " + std::to_string(byte);
                finding.lane = lane;
                finding.message = touches(access, byte) + " while " + finding.other_instruction + " at " +
                                  place_text(wave, before.pc) +
                                  " is still loading it (no s_waitcnt vmcnt covers it)";
            });
        }
    }
}

void LdsTracker::note(const Wave& wave, const Inst& inst, uint64_t pc) {
    WaveAccesses& mine = waves_[wave.wave_id];
    bool from_memory = inst.lds_shape.from_memory;
    if (from_memory && !mine.from_memory) {
        mine.from_memory = std::make_unique<Ring<64>>();
    }
    Access& access = from_memory ? mine.from_memory->next() : mine.lds.next();
    access.inst = &inst;
    access.pc = pc;
    access.exec = wave.exec();
    if (from_memory) {
        uint32_t base = lds_base_from_m0(wave, inst) + static_cast<uint32_t>(inst.offset);
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
            access.address[lane] = base + lane * inst.lds_shape.bytes;
        }
    } else {
        const uint32_t* address = wave.lanes(inst.src[0].index);
        std::copy(address, address + kLanes, access.address.begin());
    }
    if (has_loads_ && !from_memory) {
        check_own_loads(wave, access);
    }
    if (has_carried_ && may_meet_carried(access)) {
        check_carried(wave, access);
    }
    has_loads_ = has_loads_ || from_memory;
}

template <size_t kSize>
void LdsTracker::carry(WaveAccesses& wave, const Ring<kSize>& ring, unsigned outstanding) {
    for (unsigned n = 0; n < std::min(outstanding, ring.size()); ++n) {
        const Access& access = ring.last(n);
        auto& map = access.inst->lds_shape.is_write ? carried_writes_ : carried_reads_;
        any_piece(access, [&](int, uint32_t first) {
            uint64_t last = (uint64_t{first} + access.inst->lds_shape.bytes - 1) / 4;
            for (uint64_t dword = first / 4; dword <= last && dword / 64 < map.size(); ++dword) {
                map[dword / 64] |= uint64_t{1} << (dword % 64);
            }
            return false;
        });
        wave.carried.push_back(access);
        has_carried_ = true;
    }
}

void LdsTracker::pass_barrier(const Workgroup& group) {
    if (has_carried_) {
        std::fill(carried_reads_.begin(), carried_reads_.end(), 0);
        std::fill(carried_writes_.begin(), carried_writes_.end(), 0);
        for (WaveAccesses& wave : waves_) {
            wave.carried.clear();
        }
        has_carried_ = false;
    }
    for (size_t i = 0; i < waves_.size(); ++i) {
        const Wave& wave = *group.waves[i];
        if (wave.pending.empty()) {
            continue;
        }
        carry(waves_[i], waves_[i].lds, count_outstanding(wave, false));
        if (waves_[i].from_memory) {
            carry(waves_[i], *waves_[i].from_memory, count_outstanding(wave, true));
        }
    }
}

}  // namespace asmevo::emulator
