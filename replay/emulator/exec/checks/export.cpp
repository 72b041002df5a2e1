// The hazard rules as a C function, for tests that compare them with LLVM's hazard recognizer.
#include <algorithm>
#include <cstring>
#include <exception>

#include "exec/checks/hazard_rules.h"

namespace asmevo::emulator {
namespace {

bool parse_target(std::string_view name, Target& target) {
    constexpr std::string_view names[] = {"gfx90a", "gfx942", "gfx950"};
    const auto* found = std::find(std::begin(names), std::end(names), name);
    target = static_cast<Target>(found - std::begin(names));
    return found != std::end(names);
}

}  // namespace
}  // namespace asmevo::emulator

/// The rules between the first instruction of `first` and that of `second`, one a line: rule, wait states, `error` or
/// `caution`; before them the producer's reach. Returns 0, or -1 when one of them does not decode.
extern "C" __attribute__((visibility("default"))) int asmevo_emulator_hazards(
    const char* target_name, const uint32_t* first, size_t first_count, const uint32_t* second,
    size_t second_count, char* text, size_t capacity) {
    using namespace asmevo::emulator;
    try {
        Target target;
        Inst insts[2];
        std::string error;
        if (!parse_target(target_name, target) || !decode(target, first, first_count, insts[0], error) ||
            !decode(target, second, second_count, insts[1], error)) {
            return -1;
        }
        const HazardTraits producer = hazard_traits(insts[0]), consumer = hazard_traits(insts[1]);
        std::string found = std::to_string(producer.reach) + "\n";
        if (producer.interests & consumer.uses) {
            for (const Requirement& one : Requirements(producer, consumer)) {
                found += std::string(one.rule) + " " + std::to_string(one.states) +
                         (one.severity == FindingClass::kError ? " error\n" : " caution\n");
            }
        }
        if (found.size() >= capacity) {
            return -1;
        }
        std::memcpy(text, found.c_str(), found.size() + 1);
        return 0;
    } catch (const std::exception&) {
        return -1;
    }
}
