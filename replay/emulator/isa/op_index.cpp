// Look-up of operation rows by encoding and opcode.
#include <array>
#include <vector>

#include "isa/tables.h"

namespace asmevo::emulator {
namespace {

constexpr size_t kEncodings = static_cast<size_t>(Encoding::kMimg) + 1;
constexpr size_t kTargets = 3;
constexpr size_t kMaxOpcode = 1024;  // VOP3 has the widest field: 10 bits

class OpIndex {
  public:
    OpIndex() {
        for (auto table : {sop_ops(), smem_ops(), vop1_ops(), vop2_ops(), vopc_ops(), vop3_ops(),
                           vop3p_ops(), mfma_ops(), ds_ops(), mubuf_ops(), flat_ops(), image_ops()}) {
            for (const OpInfo& row : table) {
                add(row);
            }
        }
    }

    const OpInfo* find(Target target, Encoding encoding, uint16_t opcode) const {
        const auto& rows = rows_[static_cast<size_t>(target)][static_cast<size_t>(encoding)];
        return opcode < rows.size() ? rows[opcode] : nullptr;
    }

  private:
    void add(const OpInfo& row) {
        for (size_t target = 0; target < kTargets; ++target) {
            if (!(row.targets & (1u << target)) || row.opcode >= kMaxOpcode) {
                continue;
            }
            auto& rows = rows_[target][static_cast<size_t>(row.encoding)];
            if (rows.size() <= row.opcode) {
                rows.resize(row.opcode + 1, nullptr);
            }
            rows[row.opcode] = &row;
        }
    }

    std::array<std::array<std::vector<const OpInfo*>, kEncodings>, kTargets> rows_;
};

}  // namespace

const OpInfo* find_op(Target target, Encoding encoding, uint16_t opcode) {
    static const OpIndex index;
    return index.find(target, encoding, opcode);
}

}  // namespace asmevo::emulator
