#include "exec/vector/tables.h"

namespace asmevo::emulator {

std::vector<OpInfo> join_tables(std::initializer_list<std::span<const OpInfo>> tables) {
    std::vector<OpInfo> joined;
    for (const std::span<const OpInfo> table : tables) {
        joined.insert(joined.end(), table.begin(), table.end());
    }
    return joined;
}

}  // namespace asmevo::emulator
