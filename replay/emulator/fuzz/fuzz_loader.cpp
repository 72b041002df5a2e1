// Feeds the loader damaged code objects, offload bundles and compressed bundles, in a build with sanitizers:
// scripts/fuzz_loader.
//
//     fuzz_loader SEED COUNT FILE...
//
// Every case has a seed of its own, printed when a sanitizer or the watchdog ends the program:
// `fuzz_loader SEED+N 1 FILE...` runs it again.
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "exec/dispatch.h"
#include "loader/code_object.h"
#include "loader/load_error.h"
#include "memory/address_space.h"

namespace asmevo::emulator {

// The loader only makes segments; what decodes in them is another program's matter (fuzz_instructions).
CodeSegment::CodeSegment(Target target, uint64_t address, uint64_t size_bytes)
    : target_(target), address_(address), size_(size_bytes) {}
CodeSegment::~CodeSegment() = default;

}  // namespace asmevo::emulator

namespace {

using namespace asmevo::emulator;

constexpr unsigned kWatchdogSeconds = 20;
constexpr Target kTargets[] = {Target::kGfx90a, Target::kGfx942, Target::kGfx950};

unsigned long long g_case = 0;

void tell_case() { std::fprintf(stderr, "case %llu\n", g_case); }

void on_alarm(int) {
    tell_case();
    std::fprintf(stderr, "no end after %u seconds\n", kWatchdogSeconds);
    std::_Exit(3);
}

using Bytes = std::vector<uint8_t>;

class Damage {
  public:
    explicit Damage(uint64_t seed) : random_(seed) {}

    /// One to eight changes, most of them small: what is wrong everywhere is refused at the first look.
    void apply(Bytes& data) {
        for (uint64_t left = 1 + below(8); left > 0 && !data.empty(); --left) {
            change(data);
        }
    }
    uint64_t below(uint64_t limit) { return random_() % limit; }

  private:
    /// Headers and tables stand at both ends of a code object.
    size_t place(const Bytes& data) {
        const size_t near = std::min<size_t>(data.size(), 4096);
        switch (below(3)) {
            case 0: return below(near);
            case 1: return data.size() - 1 - below(near);
            default: return below(data.size());
        }
    }

    void change(Bytes& data) {
        static constexpr uint64_t kNumbers[] = {0, 1, 7, 8, 63, 64, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                                0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
        const size_t at = place(data);
        const size_t room = data.size() - at;
        switch (below(6)) {
            case 0: data[at] ^= static_cast<uint8_t>(1u << below(8)); return;
            case 1: data[at] = static_cast<uint8_t>(random_()); return;
            case 2: {  // a number of a header or a table
                const uint64_t value = below(2) ? kNumbers[below(std::size(kNumbers))] : random_() >> below(64);
                std::memcpy(&data[at], &value, std::min<size_t>(room, size_t{1} << below(4)));
                return;
            }
            case 3: data.resize(at + (below(4) ? room : 0)); return;
            case 4: {  // a piece in another's place
                const size_t from = place(data);
                const size_t size = std::min({room, data.size() - from, static_cast<size_t>(1 + below(64))});
                std::memmove(&data[at], &data[from], size);
                return;
            }
            default: data.insert(data.begin() + static_cast<std::ptrdiff_t>(at), below(16), static_cast<uint8_t>(random_()));
        }
    }

    std::mt19937_64 random_;
};

/// What the API may ask of a loaded object.
void use(const LoadedCodeObject& object) {
    uint64_t sum = 0;
    for (const auto& kernel : object.kernels()) {
        sum += object.find_kernel(kernel->metadata.name)->image.entry;
        for (const KernelArgument& argument : kernel->metadata.arguments) {
            if (argument.offset + argument.size > kernel->image.kernarg_size) {
                std::abort();
            }
        }
    }
    if (const LoadedVariable* variable = object.find_variable("value")) {
        sum += *reinterpret_cast<const volatile uint8_t*>(variable->address);
    }
    MemoryRange range;
    AddressSpace::get().find(sum, 1, range);
}

bool load(Bytes data, Target target) {
    // Exactly as large as it says, so that the address sanitizer sees a read beyond.
    data.shrink_to_fit();
    try {
        use(*LoadedCodeObject::load(data, target));
        return true;
    } catch (const LoadError&) {
    } catch (const std::bad_alloc&) {
    }
    return false;
}

Bytes read_file(const char* name) {
    std::ifstream file(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: fuzz_loader SEED COUNT FILE...\n");
        return 2;
    }
    __sanitizer_set_death_callback(tell_case);
    std::signal(SIGALRM, on_alarm);
    const unsigned long long first = std::strtoull(argv[1], nullptr, 0), count = std::strtoull(argv[2], nullptr, 0);
    std::vector<Bytes> files;
    for (int i = 3; i < argc; ++i) {
        files.push_back(read_file(argv[i]));
    }
    unsigned long long loaded = 0;
    for (g_case = first; g_case < first + count; ++g_case) {
        alarm(kWatchdogSeconds);
        Damage damage(g_case);
        Bytes data = files[damage.below(files.size())];
        damage.apply(data);
        loaded += load(std::move(data), kTargets[damage.below(std::size(kTargets))]);
    }
    std::printf("%llu cases, %llu loaded\n", count, loaded);
    return 0;
}
