#include "memory/host_mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "memory/arena.h"

namespace asmevo::emulator {
namespace {

std::mutex g_mutex;
std::vector<HostMapping>& mappings() {
    static auto& instance = *new std::vector<HostMapping>;
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
            if (!out.empty() && out.back().end == mapping.begin && out.back().writable == mapping.writable) {
                out.back().end = stop;
            } else {
                out.push_back({mapping.begin, stop, mapping.writable});
            }
        }
        mapping.begin = next;
    }
}

void reread(std::vector<HostMapping>& out) {
    out.clear();
    const std::string text = read_maps();
    for (size_t at = 0; at < text.size();) {
        size_t end = text.find('\n', at);
        end = end == std::string::npos ? text.size() : end;
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        uint64_t from, to;
        char rights[5];
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3 || rights[0] != 'r' ||
            line.find("[v") != std::string::npos) {  // [vvar], [vdso], [vsyscall]
            continue;
        }
        add_foreign(out, {from, to, rights[1] == 'w'});
    }
}

bool find_in(const std::vector<HostMapping>& list, uint64_t address, uint64_t size, HostMapping& out) {
    auto after = std::upper_bound(list.begin(), list.end(), address,
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

/// The cached copy may be older than a munmap: ask the kernel about the pages themselves.
bool is_mapped(uint64_t address, uint64_t size) {
    const uint64_t begin = address / kPageSize * kPageSize;
    for (uint64_t page = begin; page < address + size; page += kPageSize) {
        unsigned char resident;
        if (mincore(reinterpret_cast<void*>(page), kPageSize, &resident) != 0) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool find_host_mapping(uint64_t address, uint64_t size, HostMapping& out) {
    size = std::max<uint64_t>(size, 1);
    std::lock_guard lock(g_mutex);
    std::vector<HostMapping>& list = mappings();
    if (find_in(list, address, size, out) && is_mapped(address, size)) {
        return true;
    }
    reread(list);
    return find_in(list, address, size, out);
}

void forget_host_mappings() {
    std::lock_guard lock(g_mutex);
    mappings().clear();
}

}  // namespace asmevo::emulator
