#include "exec/checks/check_set.h"

namespace asmevo::emulator {
namespace {

struct Name {
    std::string_view text;
    CheckSet checks;
};
constexpr Name kNames[] = {
    {"all", kAllChecks},         {"none", kNoChecks},           {"waits", kCheckWaits},
    {"hazards", kCheckHazards},  {"races", kCheckRaces},        {"undefined", kCheckUndefined},
    {"barriers", kCheckBarriers}, {"alignment", kCheckAlignment},
};

}  // namespace

bool parse_checks(std::string_view text, CheckSet& out) {
    CheckSet checks = kNoChecks;
    while (true) {
        const size_t comma = text.find(',');
        const std::string_view word = text.substr(0, comma);
        bool is_known = false;
        for (const Name& name : kNames) {
            if (name.text == word) {
                checks |= name.checks;
                is_known = true;
            }
        }
        if (!is_known) {
            return false;
        }
        if (comma == std::string_view::npos) {
            out = checks;
            return true;
        }
        text.remove_prefix(comma + 1);
    }
}

}  // namespace asmevo::emulator
