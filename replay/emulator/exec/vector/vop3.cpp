// The table of operations that exist only in VOP3; its families stand in vop3_*.cpp, division, fp8, lane_ops, sad.
#include "exec/vector/tables.h"
#include "isa/tables.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

std::span<const OpInfo> vop3_rows() {
    static const std::vector<OpInfo> table =
        join_tables({vop3_integer_ops(), vop3_float_ops(), vop3_division_ops(), vop3_convert_ops(),
                     vop3_fp8_ops(), vop3_scaled_ops(), vop3_scaled32_ops(), vop3_lane_ops(), vop3_sad_ops()});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
