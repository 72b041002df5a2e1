#include "loader/debug_list.h"

#include <link.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

// ROCm's runtime calls the function behind r_brk after each change of r_state: a debugger puts its
// breakpoint there.
extern "C" __attribute__((visibility("default"), noinline)) void _loader_debug_state() {
    asm volatile("");
}

extern "C" {
__attribute__((visibility("default"))) r_debug _amdgpu_r_debug = {
    10, nullptr, reinterpret_cast<ElfW(Addr)>(&_loader_debug_state), r_debug::RT_CONSISTENT, 0};
}

namespace asmevo::emulator {
namespace {

struct Entry {
    link_map map{};
    char name[96];
};

struct State {
    std::mutex mutex;
    std::map<const void*, std::unique_ptr<Entry>> entries;
    link_map* last = nullptr;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

/// Marks the list as changing for as long as it lives.
class Change {
  public:
    explicit Change(decltype(r_debug::r_state) kind) { set(kind); }
    ~Change() { set(r_debug::RT_CONSISTENT); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

  private:
    static void set(decltype(r_debug::r_state) value) {
        _amdgpu_r_debug.r_state = value;
        _loader_debug_state();
    }
};

}  // namespace

void publish_code_object(const void* owner, uint64_t bias, const uint8_t* image, size_t size) {
    auto entry = std::make_unique<Entry>();
    std::snprintf(entry->name, sizeof entry->name, "memory://%d#offset=0x%" PRIxPTR "&size=%zu",
                  getpid(), reinterpret_cast<uintptr_t>(image), size);
    entry->map.l_addr = bias;
    entry->map.l_name = entry->name;
    entry->map.l_ld = nullptr;
    State& s = state();
    std::lock_guard lock(s.mutex);
    Change change(r_debug::RT_ADD);
    entry->map.l_prev = s.last;
    (s.last ? s.last->l_next : _amdgpu_r_debug.r_map) = &entry->map;
    s.last = &entry->map;
    s.entries[owner] = std::move(entry);
}

void withdraw_code_object(const void* owner) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto found = s.entries.find(owner);
    if (found == s.entries.end()) {
        return;
    }
    Change change(r_debug::RT_DELETE);
    link_map& map = found->second->map;
    (map.l_prev ? map.l_prev->l_next : _amdgpu_r_debug.r_map) = map.l_next;
    (map.l_next ? map.l_next->l_prev : s.last) = map.l_prev;
    s.entries.erase(found);
}

}  // namespace asmevo::emulator
