// All scalar operations in one table.
#include <vector>

#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {

std::span<const OpInfo> sop_ops() {
    static const std::vector<OpInfo> rows = [] {
        std::vector<OpInfo> all;
        for (auto part : {sop1_ops(), sop2_ops(), sopc_ops(), sopk_ops(), sopp_ops()}) {
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }();
    return rows;
}

}  // namespace asmevo::emulator
