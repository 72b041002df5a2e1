from __future__ import annotations

import pytest

from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.register import EXEC, M0, MODE, SCC, VCC, parse_registers
from asmevo.codeobject.instruction import Instruction


def effect(text: str) -> Effect:
    mnemonic, _, operands = text.partition(" ")
    return effect_of(Instruction(id=0, offset=0, data=b"", mnemonic=mnemonic, operands=operands))


def registers(text: str) -> int:
    return parse_registers(text) | (SCC if "scc" in text else 0)


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("s_add_u32 s8, s4, s12", "s4 s12", "s8 scc"),
        ("s_addc_u32 s9, s5, s13", "s5 s13 scc", "s9 scc"),
        ("s_mul_i32 s0, s7, s12", "s7 s12", "s0"),
        ("s_cselect_b64 s[0:1], -1, s[2:3]", "s[2:3] scc", "s[0:1]"),
        ("s_cmp_lt_i32 s12, s8", "s12 s8", "scc"),
        ("s_addk_i32 s12, 0x400", "s12", "s12 scc"),
        ("s_and_saveexec_b64 s[10:11], vcc", "vcc exec", "s[10:11] exec scc"),
        ("s_or_b64 exec, exec, s[10:11]", "exec s[10:11]", "exec scc"),
        ("s_cbranch_vccz .L3", "vcc", ""),
        ("s_mov_b32 m0, s4", "s4", "m0"),
        ("v_mov_b32_e32 v1, s4", "s4 exec mode", "v1"),
        ("v_cmp_gt_i32_e32 vcc, s6, v2", "s6 v2 exec mode", "vcc"),
        ("v_cmp_gt_f32_e64 s[0:1], s6, v2", "s6 v2 exec mode", "s[0:1]"),
        ("v_cmpx_eq_u32_e32 vcc, v1, v2", "v1 v2 exec mode", "vcc exec"),
        ("v_cndmask_b32_e32 v4, 0, v8, vcc", "v8 vcc exec mode", "v4"),
        ("v_div_fmas_f32 v5, v5, v13, v17", "v5 v13 v17 vcc exec mode", "v5"),
        ("v_div_scale_f32 v7, vcc, v0, v4, v0", "v0 v4 exec mode", "v7 vcc"),
        ("v_add_co_u32_e32 v1, vcc, v2, v3", "v2 v3 exec mode", "v1 vcc"),
        ("v_fmac_f32_e32 v13, v17, v18", "v13 v17 v18 exec mode", "v13"),
        ("v_readlane_b32 s1, v4, s2", "v4 s2 exec mode", "s1"),
        ("v_writelane_b32 v4, s2, 3", "v4 s2 exec mode", "v4"),
        ("v_swap_b32 v1, v2", "v1 v2 exec mode", "v1 v2"),
        (
            "v_mfma_f32_32x32x8_bf16 v[2:17], v[50:51], v[48:49], v[2:17]",
            "v[2:17] v[48:51] exec mode",
            "v[2:17]",
        ),
        ("v_accvgpr_write_b32 a3, v1", "v1 exec mode", "a3"),
        ("s_load_dwordx4 s[4:7], s[0:1], 0x10", "s[0:1]", "s[4:7]"),
        ("global_load_dwordx2 v[8:9], v1, s[2:3] offset:16", "v1 s[2:3] exec", "v[8:9]"),
        ("global_store_dwordx2 v[2:3], v[8:9], off", "v[2:3] v[8:9] exec", ""),
        ("global_atomic_add v0, v1, s[2:3]", "v0 v1 s[2:3] exec", ""),
        ("global_atomic_add v5, v0, v1, s[2:3] sc0", "v0 v1 s[2:3] exec", "v5"),
        ("buffer_load_dwordx4 v[2:5], v6, s[8:11], 0 offen", "v6 s[8:11] exec", "v[2:5]"),
        ("buffer_load_dword v6, s[8:11], s3 offen lds", "v6 s[8:11] s3 exec m0", ""),
        ("buffer_store_dword v1, v6, s[8:11], 0 offen", "v1 v6 s[8:11] exec", ""),
        ("ds_read2_b32 v[0:1], v2 offset0:1 offset1:2", "v2 exec", "v[0:1]"),
        ("ds_write_b128 v27, v[34:37] offset:4096", "v27 v[34:37] exec", ""),
        ("ds_bpermute_b32 v1, v2, v3", "v2 v3 exec", "v1"),
        ("ds_add_rtn_u32 v1, v2, v3", "v2 v3 exec", "v1"),
        ("ds_add_f32 v1, v2", "v1 v2 exec mode", ""),
        ("buffer_atomic_cmpswap_x2 v[4:7], v1, s[0:3], 0 sc0", "v[4:7] v1 s[0:3] exec", "v[4:5]"),
        ("v_cvt_pkaccum_u8_f32 v1, v2, v3", "v1 v2 v3 exec mode", "v1"),
        ("v_cvt_scalef32_pk_fp8_f32 v1, v2, v3, v4", "v[1:4] exec mode", "v1"),
    ],
)
def test_effect_of_instruction_names_all_registers(text: str, reads: str, writes: str) -> None:
    found = effect(text)

    assert found.unknown is None
    assert found.reads == registers(reads)
    assert found.writes == registers(writes)


@pytest.mark.parametrize(
    "text",
    [
        "v_mov_b32_dpp v5, v4 row_shr:8 row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v5, v4 row_shr:8 row_mask:0xa bank_mask:0xf bound_ctrl:1",
        "v_and_b32_sdwa v5, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
        "v_fma_f16 v5, v1, v2, v3 op_sel:[0,0,0,1]",
        "v_cvt_pk_fp8_f32 v5, v1, v2",
        "global_load_short_d16_hi v5, v[0:1], off",
        "ds_read_u16_d16 v5, v1",
        "v_fma_f16 v5, v1, v2, v3",
        "v_max3_f16 v5, v1, v2, v3",
        "v_mov_b32_dpp v5, v4 row_bcast:31 row_mask:0xf bank_mask:0xf bound_ctrl:1",
    ],
)
def test_effect_of_part_of_a_register_merges_the_old_value(text: str) -> None:
    found = effect(text)

    assert found.merges
    assert found.reads & registers("v5")


def test_effect_of_whole_dpp_move_does_not_merge() -> None:
    found = effect("v_mov_b32_dpp v5, v4 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1")

    assert not found.merges
    assert not found.reads & registers("v5")


@pytest.mark.parametrize(
    "text",
    [
        "s_setpc_b64 s[0:1]",
        "s_swappc_b64 s[0:1], s[2:3]",
        "s_set_gpr_idx_on s0, gpr_idx(SRC0)",
        "v_movrels_b32_e32 v1, v2",
        "v_cmp_frob_f32_e32 vcc, v1, v2",
        ".long 0x12345678",
        "ds_read_b32 v1, v2 gds",
        "v_add_f32_e32 v256, v1, v2",
    ],
)
def test_effect_of_what_is_not_understood_is_unknown(text: str) -> None:
    assert effect(text).unknown is not None


def test_effect_of_raw_bytes_is_unknown() -> None:
    instruction = Instruction(
        id=0, offset=0, data=b"", mnemonic="v_nop", operands="", needs_bytes=True
    )

    assert effect_of(instruction).unit is Unit.UNKNOWN


def test_effect_of_barrier_is_pinned_and_not_removable() -> None:
    found = effect("s_barrier")

    assert found.is_pinned
    assert not found.is_removable


def test_effect_of_setreg_writes_mode_and_m0_is_read_by_messages() -> None:
    assert effect("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1").writes == MODE
    assert effect("s_sendmsg sendmsg(MSG_INTERRUPT)").reads == M0
    assert effect("v_div_fmas_f64 v[0:1], v[2:3], v[4:5], v[6:7]").reads & VCC
    assert effect("s_barrier").reads & EXEC == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s_setpc_b64 s[0:1]", "jumps to an address in registers"),
        ("s_swappc_b64 s[0:1], s[2:3]", "calls an address in registers"),
        ("s_set_gpr_idx_on s0, gpr_idx(SRC0)", "VGPRs are picked by an index"),
        ("s_movrels_b32 s0, s1", "SGPRs are picked by an index"),
        ("s_setreg_b32 hwreg(HW_REG_MODE), s0", "may switch VGPR indexing on"),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 20, 8), 0", "may switch VGPR indexing on"),
        ("s_setvskip s0, 0", "may switch vector instructions off"),
        ("global_load_dword v0, v1, null", "reserved scalar register"),
        ("s_frobnicate_b32 s0, s1", "not in the tables of effects"),
    ],
)
def test_effect_that_cannot_be_known_says_why(text: str, reason: str) -> None:
    assert reason in (effect(text).unknown or "")


@pytest.mark.parametrize("field", ["HW_REG_MODE, 0, 8", "HW_REG_MODE, 23, 4", "HW_REG_TRAPSTS"])
def test_setreg_that_cannot_switch_indexing_on_is_understood(field: str) -> None:
    assert effect(f"s_setreg_imm32_b32 hwreg({field}), 0x3").unknown is None
