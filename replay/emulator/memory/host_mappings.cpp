#include "memory/host_mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/arena.h"

namespace asmevo::emulator {
namespace {

constexpr uint64_t kWindow = 4 << 20;         // mincore takes about 2 µs for so much
constexpr uint64_t kMaxWindow = 2 * kWindow;  // an access may touch two

std::mutex g_mutex;

struct State {
    std::vector<HostMapping> mappings;                // by address; rights as of the last reading
    std::unordered_map<uint64_t, uint64_t> verified;  // start to end of windows known to be mapped
};

State& state() {
    static State& instance = *new State;
    return instance;
}

std::string read_maps() {
    std::string text;
    int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return text;
    }
    char buffer[65536];
    for (ssize_t count; (count = read(descriptor, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<size_t>(count));
    }
    close(descriptor);
    return text;
}

/// Adds [begin, end) without the parts that belong to the arena; joins neighbours of equal rights.
void add_foreign(std::vector<HostMapping>& out, HostMapping mapping) {
    while (mapping.begin < mapping.end) {
        uint64_t own_begin, own_end;
        uint64_t stop = mapping.end, next = mapping.end;
        if (Arena::get().next(mapping.begin, own_begin, own_end) && own_begin < mapping.end) {
            stop = std::max(own_begin, mapping.begin);
            next = std::min(own_end, mapping.end);
        }
        if (stop > mapping.begin) {
            if (!out.empty() && out.back().end == mapping.begin &&
                out.back().writable == mapping.writable) {
                out.back().end = stop;
            } else {
                out.push_back({mapping.begin, stop, mapping.writable});
            }
        }
        mapping.begin = next;
    }
}

void reread(State& s) {
    std::vector<HostMapping>& out = s.mappings;
    out.clear();
    s.verified.clear();
    const std::string text = read_maps();
    for (size_t at = 0; at < text.size();) {
        size_t end = text.find('\n', at);
        end = end == std::string::npos ? text.size() : end;
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        uint64_t from, to;
        char rights[5];
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3 ||
            rights[0] != 'r' ||
            line.find("[v") != std::string::npos) {  // [vvar], [vdso], [vsyscall]
            continue;
        }
        add_foreign(out, {from, to, rights[1] == 'w'});
    }
}

bool find_in(const std::vector<HostMapping>& list, uint64_t address, uint64_t size,
             HostMapping& out) {
    auto after =
        std::upper_bound(list.begin(), list.end(), address,
                         [](uint64_t value, const HostMapping& m) { return value < m.begin; });
    if (after == list.begin()) {
        return false;
    }
    const HostMapping& mapping = *std::prev(after);
    if (address >= mapping.end || mapping.end - address < size) {
        return false;
    }
    out = mapping;
    return true;
}

/// The remembered copy may be older than a munmap: ask the kernel about the pages themselves.
bool is_mapped(const HostMapping& window) {
    unsigned char resident[kMaxWindow / kPageSize];
    return window.end - window.begin <= kMaxWindow &&
           mincore(reinterpret_cast<void*>(window.begin), window.end - window.begin, resident) == 0;
}

/// The part of `mapping` in the windows that [address, address + size) touches.
HostMapping clip(const HostMapping& mapping, uint64_t address, uint64_t size) {
    const uint64_t begin = address / kWindow * kWindow;
    const uint64_t end = (address + size + kWindow - 1) / kWindow * kWindow;
    return {std::max(mapping.begin, begin), std::min(mapping.end, end), mapping.writable};
}

}  // namespace

bool find_host_mapping(uint64_t address, uint64_t size, HostMapping& out) {
    std::lock_guard lock(g_mutex);
    State& s = state();
    reread(s);
    return find_in(s.mappings, address, std::max<uint64_t>(size, 1), out);
}

bool find_host_window(uint64_t address, uint64_t size, HostMapping& out) {
    size = std::max<uint64_t>(size, 1);
    std::lock_guard lock(g_mutex);
    State& s = state();
    HostMapping mapping;
    if (find_in(s.mappings, address, size, mapping)) {
        out = clip(mapping, address, size);
        uint64_t& verified = s.verified[out.begin];
        if (verified >= out.end) {
            return true;
        }
        if (is_mapped(out)) {
            verified = out.end;
            return true;
        }
    }
    reread(s);
    if (!find_in(s.mappings, address, size, mapping)) {
        return false;
    }
    out = clip(mapping, address, size);
    return true;
}

void distrust_host_mappings() {
    std::lock_guard lock(g_mutex);
    state().verified.clear();
}

void forget_host_mappings() {
    std::lock_guard lock(g_mutex);
    state().mappings.clear();
    state().verified.clear();
}

}  // namespace asmevo::emulator
