#include "exec/checks/undefined/flow.h"

#include <algorithm>
#include <string_view>

namespace asmevo::emulator {
namespace {

constexpr uint16_t kExec = 126;

struct Named {
    std::string_view name;
    Flow flow;
    uint8_t real_sources = 0;
};

// What is not here, and no memory, matrix or scalar operation, is kAny.
constexpr Named kNamed[] = {
    {"v_mov_b32", Flow::kShadow},
    {"v_mov_b64", Flow::kShadow},
    {"v_pk_mov_b32", Flow::kShadow},
    {"v_accvgpr_mov_b32", Flow::kShadow},
    {"v_accvgpr_read_b32", Flow::kShadow},
    {"v_accvgpr_write_b32", Flow::kShadow},
    {"v_readfirstlane_b32", Flow::kShadow},
    {"v_readlane_b32", Flow::kShadow, 2},
    {"v_writelane_b32", Flow::kShadow, 2},
    {"v_swap_b32", Flow::kShadow},
    {"v_permlane16_swap_b32", Flow::kShadow},
    {"v_permlane32_swap_b32", Flow::kShadow},
    {"v_bfrev_b32", Flow::kShadow},
    {"v_lshlrev_b16", Flow::kShadow, 1},
    {"v_lshrrev_b16", Flow::kShadow, 1},
    {"v_ashrrev_i16", Flow::kShadow, 1},
    {"v_lshlrev_b32", Flow::kShadow, 1},
    {"v_lshrrev_b32", Flow::kShadow, 1},
    {"v_ashrrev_i32", Flow::kShadow, 1},
    {"v_lshlrev_b64", Flow::kShadow, 1},
    {"v_lshrrev_b64", Flow::kShadow, 1},
    {"v_ashrrev_i64", Flow::kShadow, 1},
    {"v_pk_lshlrev_b16", Flow::kShadow, 1},
    {"v_pk_lshrrev_b16", Flow::kShadow, 1},
    {"v_pk_ashrrev_i16", Flow::kShadow, 1},
    {"v_lshl_or_b32", Flow::kShadow, 2},
    {"v_alignbit_b32", Flow::kShadow, 4},
    {"v_alignbyte_b32", Flow::kShadow, 4},
    {"v_bfe_u32", Flow::kShadow, 6},
    {"v_bfe_i32", Flow::kShadow, 6},
    {"v_bfi_b32", Flow::kShadow, 1},
    {"v_cndmask_b32", Flow::kShadow, 4},
    {"v_perm_b32", Flow::kPermute},
    {"v_and_b32", Flow::kAnd},
    {"v_or_b32", Flow::kOr},
    {"v_or3_b32", Flow::kXor},
    {"v_xor_b32", Flow::kXor},
    {"v_xnor_b32", Flow::kXor},
    {"v_not_b32", Flow::kXor},
    {"v_add_u32", Flow::kSum},
    {"v_sub_u32", Flow::kSum},
    {"v_subrev_u32", Flow::kSum},
    {"v_add3_u32", Flow::kSum},
    {"v_mul_lo_u32", Flow::kSum},
    {"v_mul_u32_u24", Flow::kSum},
    {"v_mad_u64_u32", Flow::kSum},
    {"v_mad_i64_i32", Flow::kSum},
    {"v_lshl_add_u64", Flow::kSum},
    {"ds_swizzle_b32", Flow::kShadow},
    {"ds_permute_b32", Flow::kShadow, 1},
    {"ds_bpermute_b32", Flow::kShadow, 1},
};

bool is_packed(Type type) {
    return type == Type::kPkF16 || type == Type::kPkI16 || type == Type::kPkBf16 || type == Type::kPkF32;
}

uint8_t vector_addresses(const Inst& inst) {
    // MUBUF: vaddr, srsrc, soffset; FLAT and scratch: vaddr, saddr; DS: addr.
    switch (inst.info->encoding) {
        case Encoding::kDs: return 1;
        case Encoding::kMubuf: case Encoding::kMtbuf: return 1 | 4 | 8;
        case Encoding::kFlat: case Encoding::kGlobal: case Encoding::kScratch: return 1 | 4;
        default: return 0;
    }
}

void plan_memory(const Inst& inst, FlowPlan& plan) {
    const bool is_lds = inst.info->encoding == Encoding::kDs;
    const bool is_private = inst.info->encoding == Encoding::kScratch;
    plan.address_sources = vector_addresses(inst);
    const Category category = inst.info->category;
    const bool is_atomic = category == Category::kVmemAtomic || category == Category::kFlatAtomic;
    if (is_lds) {
        plan.flow = inst.lds_shape.is_atomic ? Flow::kLaneAtomic : Flow::kShadow;
        plan.real_sources = 1;
    } else if (is_private && !inst.lds_shape.from_memory) {
        plan.flow = Flow::kShadow;
        plan.real_sources = 1 | 4;
    } else {
        const bool is_store = category == Category::kVmemStore || category == Category::kFlatStore || is_atomic;
        plan.flow = is_store ? Flow::kStore : Flow::kLoad;
    }
}

Flow vector_flow(const Inst& inst, FlowPlan& plan) {
    const std::string_view name = inst.info->name;
    const auto* named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                     [&](const Named& one) { return one.name == name; });
    if (named != std::end(kNamed)) {
        plan.real_sources = named->real_sources;
        return named->flow;
    }
    const bool is_pair = inst.info->encoding == Encoding::kVop3p && is_packed(inst.info->dst[0]);
    return is_pair ? Flow::kAnyHalves : Flow::kAny;
}

void make_shadow(Inst& inst) {
    inst.clamp = false;
    inst.omod = 0;
    for (Operand& operand : inst.src) {
        operand.neg = operand.abs = operand.neg_hi = false;
        const bool is_exec = operand.is_sgpr() && operand.index >= kExec;  // never undefined
        if (operand.kind == OperandKind::kConst || operand.kind == OperandKind::kSpecial || is_exec) {
            operand.kind = OperandKind::kConst;
            operand.constant = 0;
        }
    }
}

}  // namespace

FlowPlan flow_plan(const Inst& inst) {
    FlowPlan plan;
    const Category category = inst.info->category;
    const std::string_view name = inst.info->name;
    switch (category) {
        case Category::kValu: case Category::kTrans:
            plan.flow = vector_flow(inst, plan);
            break;
        case Category::kMfma:
            plan.flow = inst.dst[0] ? Flow::kMatrix : Flow::kNone;
            break;
        case Category::kLds: case Category::kLdsNoReturn:
            if (inst.info->flags & kLds) {
                plan_memory(inst, plan);
            } else {
                plan.flow = vector_flow(inst, plan);
                plan.address_sources = name == "ds_swizzle_b32" ? 0 : 1;
            }
            break;
        case Category::kVmemLoad: case Category::kVmemStore: case Category::kVmemAtomic:
        case Category::kFlatLoad: case Category::kFlatStore: case Category::kFlatAtomic:
            plan_memory(inst, plan);
            break;
        case Category::kSmem:
            plan.flow = Flow::kLoad;
            plan.address_sources = 1 | 2;
            break;
        case Category::kSalu:
            plan.flow = Flow::kScalar;
            plan.scalar = scalar_plan(inst);
            break;
        case Category::kBranch: plan.flow = Flow::kBranch; break;
        default: break;
    }
    plan.reaches_memory = plan.flow == Flow::kLoad || plan.flow == Flow::kStore || plan.flow == Flow::kLaneAtomic ||
                          (inst.info->flags & kLds) || inst.info->encoding == Encoding::kScratch;
    plan.uses_scc = (inst.info->flags & (kReadsScc | kWritesScc)) != 0;
    plan.shadow = inst;
    make_shadow(plan.shadow);
    return plan;
}

}  // namespace asmevo::emulator
