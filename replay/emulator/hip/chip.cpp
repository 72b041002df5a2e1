#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "hip/device.h"
#include "hip/log.h"

namespace asmevo::emulator::hip {
namespace {

constexpr uint64_t kGibi = 1ull << 30;

// Compute units, clocks and memory: ROCm's "GPU hardware specifications" and AMD's data sheets.
// MI210 and MI250X are given per GCD, which is a device of its own to HIP.
constexpr Chip kChips[] = {
    {"mi210", "AMD Instinct MI210", Target::kGfx90a, 104, 1, 65536, 1700000, 1600000, 4096,
     64 * kGibi, 8 << 20, 0x740f},
    {"mi250x", "AMD Instinct MI250X", Target::kGfx90a, 110, 1, 65536, 1700000, 1600000, 4096,
     64 * kGibi, 8 << 20, 0x7408},
    {"mi300x", "AMD Instinct MI300X", Target::kGfx942, 304, 8, 65536, 2100000, 1300000, 8192,
     192 * kGibi, 4 << 20, 0x74a1},
    {"mi300a", "AMD Instinct MI300A", Target::kGfx942, 228, 6, 65536, 2100000, 1300000, 8192,
     128 * kGibi, 4 << 20, 0x74a0},
    {"mi308x", "AMD Instinct MI308X", Target::kGfx942, 80, 4, 65536, 1420000, 1300000, 8192,
     192 * kGibi, 4 << 20, 0x74a2},
    {"mi325x", "AMD Instinct MI325X", Target::kGfx942, 304, 8, 65536, 2100000, 1500000, 8192,
     256 * kGibi, 4 << 20, 0x74a5},
    {"mi355x", "AMD Instinct MI355X", Target::kGfx950, 256, 8, 163840, 2400000, 2000000, 8192,
     288 * kGibi, 4 << 20, 0x75a3},
};

const Chip* find_chip(const char* id) {
    for (const Chip& candidate : kChips) {
        if (std::strcmp(candidate.id, id) == 0) {
            return &candidate;
        }
    }
    return nullptr;
}

/// The chip that stands for an architecture when none is named.
const Chip& default_chip(const char* arch) {
    if (arch && std::strcmp(arch, "gfx90a") == 0) {
        return *find_chip("mi210");
    }
    if (arch && std::strcmp(arch, "gfx950") == 0) {
        return *find_chip("mi355x");
    }
    if (arch && *arch && std::strcmp(arch, "gfx942") != 0) {
        log_error("ASMEVO_EMULATOR_ARCH=%s is not one of gfx90a, gfx942, gfx950; using gfx942",
                  arch);
    }
    return *find_chip("mi300x");
}

const Chip& choose_chip() {
    const char* arch = std::getenv("ASMEVO_EMULATOR_ARCH");
    const char* id = std::getenv("ASMEVO_EMULATOR_CHIP");
    if (!id || !*id) {
        return default_chip(arch);
    }
    const Chip* named = find_chip(id);
    if (!named) {
        log_error("ASMEVO_EMULATOR_CHIP=%s is not a known chip", id);
        return default_chip(arch);
    }
    if (arch && *arch && std::strcmp(arch, target_name(named->target)) != 0) {
        log_error(
            "ASMEVO_EMULATOR_CHIP=%s is a %s, not the %s of ASMEVO_EMULATOR_ARCH; using the chip",
            id, target_name(named->target), arch);
    }
    return *named;
}

std::mutex g_options_mutex;

bool parse_mfma(std::string_view value, DispatchOptions& options) {
    options.fast_matrix = value == "fast";
    return options.fast_matrix || value == "exact";
}

DispatchOptions& options() {
    static DispatchOptions instance = [] {
        DispatchOptions initial;
        if (const char* threads = std::getenv("ASMEVO_EMULATOR_THREADS")) {
            initial.threads = static_cast<unsigned>(std::clamp(std::atoi(threads), 0, 1024));
        }
        if (const char* mfma = std::getenv("ASMEVO_EMULATOR_MFMA"); mfma && !parse_mfma(mfma, initial)) {
            log_error("ASMEVO_EMULATOR_MFMA=%s is neither exact nor fast; it stays exact", mfma);
        }
        if (const char* seed = std::getenv("ASMEVO_EMULATOR_SEED")) {
            initial.seed = std::strtoull(seed, nullptr, 10);
        }
        if (const char* checks = std::getenv("ASMEVO_EMULATOR_CHECKS")) {
            if (parse_checks(checks, initial.checks)) {
                initial.on_finding = OnFinding::kCollect;
            } else {
                log_error("ASMEVO_EMULATOR_CHECKS=%s: unknown check; none is made", checks);
            }
        }
        return initial;
    }();
    return instance;
}

}  // namespace

const Chip& chip() {
    static const Chip& instance = choose_chip();
    return instance;
}

const char* target_name(Target target) {
    switch (target) {
        case Target::kGfx90a:
            return "gfx90a";
        case Target::kGfx942:
            return "gfx942";
        case Target::kGfx950:
            return "gfx950";
    }
    return "unknown";
}

const char* gcn_arch_name() {
    static const std::string name = std::string(target_name(chip().target)) + ":sramecc+:xnack-";
    return name.c_str();
}

uint64_t device_memory_bytes() {
    static const uint64_t bytes =
        std::min(chip().memory_bytes, static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                          static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    return bytes;
}

bool is_unified() {
    static const bool unified = [] {
        const char* value = std::getenv("ASMEVO_EMULATOR_DISCRETE");
        return !value || std::strcmp(value, "1") != 0;
    }();
    return unified;
}

Context* primary_context() {
    static Context instance;
    return &instance;
}

DispatchOptions dispatch_options() {
    std::lock_guard lock(g_options_mutex);
    return options();
}

namespace {

/// Options whose values are words; false when the name is none of theirs or the value is not known.
bool set_word_option(DispatchOptions& current, std::string_view key, std::string_view value) {
    if (key == "checks") {
        return parse_checks(value, current.checks);
    }
    if (key == "mfma" && (value == "fast" || value == "exact")) {
        return parse_mfma(value, current);
    }
    if (key == "on_finding" && (value == "end" || value == "collect")) {
        current.on_finding = value == "end" ? OnFinding::kEnd : OnFinding::kCollect;
        return true;
    }
    return false;
}

}  // namespace

bool set_dispatch_option(const char* name, const char* value) {
    {
        std::lock_guard lock(g_options_mutex);
        if (set_word_option(options(), name, value)) {
            return true;
        }
    }
    char* end = nullptr;
    const unsigned long long number = std::strtoull(value, &end, 10);
    if (end == value || *end != '\0') {
        return false;
    }
    std::lock_guard lock(g_options_mutex);
    DispatchOptions& current = options();
    const std::string_view key = name;
    if (key == "threads" && number <= 1024) {
        current.threads = static_cast<unsigned>(number);
    } else if (key == "profile" && number <= 1) {
        current.collect_profile = number == 1;
    } else if (key == "timing" && number <= 1) {
        current.model_timing = number == 1;
    } else if (key == "reverse_waves" && number <= 1) {
        current.reverse_waves = number == 1;
    } else if (key == "seed") {
        current.seed = number;
    } else if (key == "fill" && number <= UINT32_MAX) {
        current.fill = number != 0 ? static_cast<uint32_t>(number) : kUninitialised;
    } else if (key == "max_wave_instructions") {
        current.max_wave_instructions = number;
    } else if (key == "max_idle_ms" && number <= UINT32_MAX) {
        current.max_idle_ms = static_cast<uint32_t>(number);
    } else {
        return false;
    }
    return true;
}

}  // namespace asmevo::emulator::hip
