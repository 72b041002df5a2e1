"""Every immediate of an edit is held to its encoding; LLVM is not trusted with it."""

from __future__ import annotations

import pytest

from asmevo.codeobject.immediate_range import check_immediates
from asmevo.errors import UsageError


def check(text: str) -> None:
    mnemonic, _, operands = text.partition(" ")
    check_immediates(mnemonic, operands)


@pytest.mark.parametrize(
    ("form", "lowest", "highest"),
    [
        ("s_nop {}", 0, 15),
        ("s_setprio {}", 0, 3),
        ("s_sleep {}", 0, 127),
        ("s_trap {}", 0, 255),
        ("s_set_gpr_idx_mode {}", 0, 15),
        ("s_movk_i32 s0, {}", -32768, 65535),
        ("s_addk_i32 s0, {}", -32768, 65535),
        ("s_cmpk_lt_i32 s0, {}", -32768, 65535),
        ("s_cmpk_lt_u32 s0, {}", 0, 65535),
        ("s_mov_b32 s0, {}", -(1 << 31), (1 << 32) - 1),
        ("v_add_u32_e32 v0, {}, v1", -(1 << 31), (1 << 32) - 1),
        ("s_waitcnt vmcnt({})", 0, 63),
        ("s_waitcnt vmcnt(0) expcnt({})", 0, 7),
        ("s_waitcnt vmcnt(0) & lgkmcnt({})", 0, 15),
        ("buffer_load_dword v0, off, s[0:3], 0 offset:{}", 0, 4095),
        ("buffer_store_dwordx4 v[0:3], v4, s[0:3], s5 offen offset:{} sc0 nt", 0, 4095),
        ("tbuffer_load_format_x v0, off, s[0:3], format:1, 0 offset:{}", 0, 4095),
        ("tbuffer_load_format_x v0, off, s[0:3], 0 format:{}", 0, 127),
        ("global_load_dword v0, v[2:3], off offset:{}", -4096, 4095),
        ("global_load_lds_dword v[2:3], off offset:{}", -4096, 4095),
        ("scratch_store_dword off, v0, s32 offset:{}", -4096, 4095),
        ("flat_load_dword v0, v[2:3] offset:{}", 0, 4095),
        ("flat_atomic_add v[2:3], v0 offset:{}", 0, 4095),
        ("ds_read_b32 v0, v1 offset:{}", 0, 65535),
        ("ds_add_u32 v0, v1 offset:{} gds", 0, 65535),
        ("ds_read2_b32 v[0:1], v2 offset0:{} offset1:3", 0, 255),
        ("ds_write2st64_b64 v0, v[2:3], v[4:5] offset1:{}", 0, 255),
        ("ds_swizzle_b32 v0, v1 offset:{}", 0, 65535),
        ("ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,0,1,2,{})", 0, 3),
        ("s_load_dwordx2 s[0:1], s[2:3], {}", -(1 << 20), (1 << 20) - 1),
        ("s_load_dword s0, s[2:3], s4 offset:{}", -(1 << 20), (1 << 20) - 1),
        ("s_buffer_load_dword s0, s[4:7], {}", 0, (1 << 20) - 1),
        ("v_readlane_b32 s0, v0, {}", 0, 63),
        ("v_writelane_b32 v0, s0, {}", 0, 63),
        ("v_mov_b32_dpp v0, v1 quad_perm:[0,1,2,{}] row_mask:0xf bank_mask:0xf", 0, 3),
        ("v_mov_b32_dpp v0, v1 row_shr:{} row_mask:0xf bank_mask:0xf", 1, 15),
        ("v_mov_b32_dpp v0, v1 row_newbcast:{} row_mask:0xf bank_mask:0xf", 0, 15),
        ("v_mov_b32_dpp v0, v1 wave_shl:{} row_mask:0xf bank_mask:0xf", 1, 1),
        ("v_mov_b32_dpp v0, v1 row_shr:1 row_mask:{} bank_mask:0xf", 0, 15),
        ("v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:{}", 0, 15),
        ("v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3] cbsz:{}", 0, 7),
        ("v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3] abid:{}", 0, 15),
        ("v_mfma_f32_4x4x4_16b_f16 a[0:3], v[0:1], v[2:3], a[0:3] blgp:{}", 0, 7),
        ("v_pk_fma_f16 v0, v1, v2, v3 op_sel:[0,{},0] op_sel_hi:[1,1,1]", 0, 1),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] neg_lo:[{},0,0]", 0, 1),
        ("v_bitop3_b32 v0, v1, v2, v3 bitop3:{}", 0, 255),
        ("s_getreg_b32 s0, hwreg(HW_REG_MODE, {}, 1)", 0, 31),
        ("s_setreg_b32 hwreg(HW_REG_MODE, 0, {}), s0", 1, 32),
    ],
)
def test_immediate_at_and_beyond_its_range(form: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        check(form.format(value))
        check(form.format(hex(value)))
    for value in (lowest - 1, highest + 1, 1 << 40):
        with pytest.raises(UsageError, match="is outside"):
            check(form.format(value))


@pytest.mark.parametrize(
    "text",
    [
        "v_add_f32_e64 v0, -v1, |v2| clamp mul:2",
        "v_add_f32_e32 v0, 0.5, v1",
        "v_add_f32_e32 v0, 0x3f800001, v1",
        "v_mov_b32_sdwa v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3",
        "v_mov_b32_dpp v0, v1 row_bcast:31 row_mask:0xa bank_mask:0xf bound_ctrl:1",
        "v_mov_b32_dpp v0, v1 row_half_mirror row_mask:0xf bank_mask:0xf",
        "s_waitcnt 0xc07f",
        "s_sendmsg sendmsg(MSG_INTERRUPT)",
        "s_set_gpr_idx_on s0, gpr_idx(SRC0,DST)",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0xf",
        "s_endpgm ",
        "s_barrier ",
    ],
)
def test_text_without_a_fault_passes(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s_nop x", "outside"),
        ("s_nop 07", "outside"),
        ("s_waitcnt 0x1080", "wanted vmcnt"),
        ("s_waitcnt vmcnt(0) 3", "wanted vmcnt"),
        ("v_mov_b32_dpp v0, v1 row_bcast:16", "none of"),
        ("v_mov_b32_dpp v0, v1 quad_perm:[0,1,2]", "not a list"),
        ("v_mov_b32_dpp v0, v1 quad_perm:3", "not a list"),
        ("v_mov_b32_sdwa v0, v1 dst_sel:WORD_2", "none of"),
        ("v_add_f32_e64 v0, v1, v2 mul:3", "none of"),
        ("global_load_dword v0, v[2:3], off turbo", "not known"),
        ("global_load_dword v0, v[2:3], off nt:1", "not known"),
        ("ds_read_b32 v0, v1 offset:swizzle(SWAP,1)", "outside"),
        ("ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,17)", "outside"),
        ("s_getreg_b32 s0, hwreg(HW_REG_MODE, 16, 17)", "beyond the register"),
    ],
)
def test_text_with_a_fault_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check(text)


@pytest.mark.triton
def test_compiled_kernels_hold_no_immediate_that_is_refused(
    triton_objects: dict[str, bytes],
) -> None:
    from asmevo.codeobject.branch import is_direct_branch
    from asmevo.codeobject.code_object import CodeObject
    from asmevo.codeobject.toolchain import disassemble

    for data in triton_objects.values():
        code_object = CodeObject.read(data)
        for one in disassemble(code_object.text.data, code_object.target):
            if not is_direct_branch(one.mnemonic):
                check_immediates(one.mnemonic, one.operands)
