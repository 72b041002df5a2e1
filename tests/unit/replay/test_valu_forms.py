"""Forms of any vector operation: partial EXEC, SDWA, DPP, VOP3 modifiers, scalar sources."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_runner import KernelFault
from lane_runner import LANES, run_elementwise

LANE = np.arange(LANES, dtype=np.uint32)
DATA = (LANE * 0x01234567 + 0x89ABCDEF).astype(np.uint32)
OLD = (LANE * 0x3141592 ^ 0xDEADBEEF).astype(np.uint32)


def one_wave(code: str, *, arch: str = "gfx942", out: int = 30) -> np.ndarray:
    """DATA in v10 and OLD in v11 and in v30; returns v30 of one wave."""
    (result,) = run_elementwise(
        f"v_mov_b32 v30, v11\ns_nop 4\n{code}", [DATA, OLD], [out], arch=arch
    )
    return result


@pytest.mark.parametrize("mask", [0, 1, 0x8000000000000000, 0xF0F0A5A5_12345678, 2**64 - 1])
def test_inactive_lanes_of_a_move_keep_their_value(mask: int) -> None:
    code = f"""
    s_mov_b32 s40, {mask & 0xFFFFFFFF:#x}
    s_mov_b32 s41, {mask >> 32:#x}
    s_mov_b64 exec, s[40:41]
    v_mov_b32 v30, v10
    s_mov_b64 exec, -1
    """

    result = one_wave(code)

    active = np.array([mask >> i & 1 for i in range(LANES)], bool)
    assert (result == np.where(active, DATA, OLD)).all()


def row_bcast(lane: int, last: int) -> int:
    if last == 15:
        return (lane & ~15) - 1
    return 31 if lane >= 32 else -1


DPP: dict[str, Callable[[int], int]] = {
    "quad_perm:[3,1,0,2]": lambda i: (i & ~3) + (3, 1, 0, 2)[i & 3],
    "row_shl:3": lambda i: i + 3 if (i & 15) + 3 < 16 else -1,
    "row_shr:5": lambda i: i - 5 if (i & 15) >= 5 else -1,
    "row_ror:4": lambda i: (i & ~15) + ((i - 4) & 15),
    "wave_shl:1": lambda i: i + 1 if i < 63 else -1,
    "wave_rol:1": lambda i: (i + 1) % 64,
    "wave_shr:1": lambda i: i - 1,
    "wave_ror:1": lambda i: (i - 1) % 64,
    "row_mirror": lambda i: i ^ 15,
    "row_half_mirror": lambda i: i ^ 7,
    "row_bcast:15": lambda i: row_bcast(i, 15),
    "row_bcast:31": lambda i: row_bcast(i, 31),
    "row_newbcast:9": lambda i: (i & ~15) + 9,
}


@pytest.mark.parametrize("control", DPP)
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("exec_low", [0xFFFFFFFF, 0xFFF7F7FE])
def test_dpp_control_with_missing_sources_keeps_or_zeroes_lanes(
    control: str, bound: bool, exec_low: int
) -> None:
    code = f"""
    s_mov_b32 exec_lo, {exec_low:#x}
    s_nop 4
    v_mov_b32_dpp v30, v10 {control} row_mask:0xf bank_mask:0xf{" bound_ctrl:0" if bound else ""}
    s_mov_b64 exec, -1
    """

    result = one_wave(code)

    active = [bool((exec_low | 0xFFFFFFFF << 32) >> i & 1) for i in range(LANES)]
    for lane in range(LANES):
        source = DPP[control](lane)
        has_source = source >= 0 and active[source]
        if not active[lane] or (not has_source and not bound):
            assert result[lane] == OLD[lane], f"lane {lane} was written"
        else:
            expected = DATA[source] if has_source else 0
            assert result[lane] == expected, f"lane {lane}"


def test_dpp_row_and_bank_masks_leave_masked_lanes_unwritten() -> None:
    result = one_wave("v_mov_b32_dpp v30, v10 quad_perm:[0,1,2,3] row_mask:0xa bank_mask:0x6")

    written = [(lane // 16) in (1, 3) and (lane % 16 // 4) in (1, 2) for lane in range(LANES)]
    assert (result == np.where(written, DATA, OLD)).all()


def test_dpp_add_takes_the_second_source_unswizzled() -> None:
    result = one_wave("v_add_u32_dpp v30, v10, v11 row_mirror row_mask:0xf bank_mask:0xf")

    assert (result == DATA[LANE ^ 15] + OLD).all()


SELECT = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def extract(value: int, select: str, is_signed: bool) -> int:
    shift, width = SELECT[select]
    field = value >> shift & (1 << width) - 1
    return field - (1 << width) if is_signed and field >> (width - 1) else field


@pytest.mark.parametrize("select", SELECT)
@pytest.mark.parametrize("is_signed", [False, True])
def test_sdwa_source_select_takes_a_field_of_each_source(select: str, is_signed: bool) -> None:
    first = "sext(v10)" if is_signed else "v10"
    result = one_wave(
        f"v_add_u32_sdwa v30, {first}, v11 dst_sel:DWORD dst_unused:UNUSED_PAD "
        f"src0_sel:{select} src1_sel:WORD_1"
    )

    for lane in range(LANES):
        expected = extract(int(DATA[lane]), select, is_signed) + (int(OLD[lane]) >> 16)
        assert int(result[lane]) == expected & 0xFFFFFFFF


@pytest.mark.parametrize("select", [s for s in SELECT if s != "DWORD"])
@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
def test_sdwa_destination_select_places_the_result(select: str, unused: str) -> None:
    result = one_wave(
        f"v_xor_b32_sdwa v30, v10, v11 dst_sel:{select} dst_unused:{unused} "
        "src0_sel:DWORD src1_sel:DWORD"
    )

    shift, width = SELECT[select]
    field = ((1 << width) - 1) << shift
    for lane in range(LANES):
        value = (int(DATA[lane]) ^ int(OLD[lane])) << shift & field
        if unused == "UNUSED_PRESERVE":
            value |= int(OLD[lane]) & ~field
        elif unused == "UNUSED_SEXT" and value >> (shift + width - 1) & 1:
            value |= -1 << (shift + width)
        assert int(result[lane]) == value & 0xFFFFFFFF


def test_sdwa_compare_writes_the_named_scalar_pair() -> None:
    code = "v_cmp_gt_u32_sdwa s[40:41], v10, v11 src0_sel:BYTE_0 src1_sel:BYTE_3\n"
    result = one_wave(code + "v_cndmask_b32 v30, 0, 1, s[40:41]")

    assert (result == ((DATA & 0xFF) > (OLD >> 24))).all()


def test_sdwa_float_modifiers_act_on_the_selected_half() -> None:
    code = "v_add_f16_sdwa v30, -v10, |v11| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE "
    result = one_wave(code + "src0_sel:WORD_1 src1_sel:WORD_0")

    with np.errstate(all="ignore"):
        first = -(DATA >> 16).astype(np.uint16).view(np.float16)
        second = np.abs((OLD & 0xFFFF).astype(np.uint16).view(np.float16))
        expected = first + second
    got = (result >> 16).astype(np.uint16).view(np.float16)
    assert np.array_equal(got, expected, equal_nan=True)
    assert (result & 0xFFFF == OLD & 0xFFFF).all()


def test_16_bit_result_without_selection_zeroes_the_upper_half() -> None:
    result = one_wave("v_add_u16 v30, v10, v11")

    assert (result == ((DATA + OLD) & 0xFFFF)).all()


def test_vop3_op_sel_takes_and_writes_halves() -> None:
    result = one_wave("v_mad_u16 v30, v10, v11, v11 op_sel:[1,0,1,1]")

    high = ((DATA >> 16) * (OLD & 0xFFFF) + (OLD >> 16)) & 0xFFFF
    assert (result == (high << 16 | OLD & 0xFFFF)).all()


def test_vop3_float_modifiers_and_scalar_sources_apply() -> None:
    code = "s_mov_b32 s40, 0x40490fdb\nv_mul_f32_e64 v30, -|v10|, s40"
    result = one_wave(code)

    with np.errstate(all="ignore"):
        expected = -np.abs(DATA.view(np.float32)) * np.float32(np.pi)
    assert np.array_equal(result.view(np.float32), expected, equal_nan=True)


def test_float_clamp_limits_to_zero_and_one_and_nan_to_zero() -> None:
    values = np.array([-1, -0.0, 0.25, 1, 7, np.inf, -np.inf, np.nan], np.float32)

    (result,) = run_elementwise("v_add_f32_e64 v30, v10, 0 clamp", [values.view(np.uint32)], [30])

    assert result.view(np.float32).tolist() == [0, 0, 0.25, 1, 1, 1, 0, 0]


def test_output_modifier_applies_only_with_ieee_mode_and_denormals_off() -> None:
    values = np.array([1, -3.5, 0.125], np.float32).view(np.uint32)
    code = "v_add_f32_e64 v30, v10, 0 mul:4"

    (ignored,) = run_elementwise(code, [values], [30])
    modes = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
    modes += "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), 0\n"
    (applied,) = run_elementwise(modes + code, [values], [30])

    assert ignored.view(np.float32).tolist() == [1, -3.5, 0.125]
    assert applied.view(np.float32).tolist() == [4, -14, 0.5]


def test_wide_dpp_other_than_row_newbcast_is_refused() -> None:
    code = ".long 0x7e3c70fa, 0xff01110a"  # v_mov_b64_dpp v[30:31], v[10:11] row_shr:1

    with pytest.raises(KernelFault, match="row_newbcast"):
        one_wave(code)


def test_vgpr_indexing_mode_offsets_the_enabled_operands() -> None:
    code = """
    v_mov_b32 v52, v10
    s_mov_b32 s40, 2
    s_set_gpr_idx_on s40, gpr_idx(SRC0)
    v_mov_b32 v30, v50
    s_set_gpr_idx_off
    """

    assert (one_wave(code) == DATA).all()


CONSTANTS = {
    "v_mov_b32 v30, -16": 0xFFFFFFF0,
    "v_mov_b32 v30, 0x12345678": 0x12345678,
    "v_mov_b32 v30, 0.15915494": 0x3E22F983,
    "v_add_f16 v30, 0.5, v12": 0x3800,
    "v_mul_f16 v30, 0x4200, v13": 0x4200,
    "v_add_u16 v30, -1, v12": 0xFFFF,
    "v_pk_add_f16 v30, v12, 1.0 op_sel_hi:[1,0]": 0x3C003C00,
    "v_pk_add_u16 v30, v12, -3 op_sel_hi:[1,0]": 0xFFFDFFFD,
    "v_pk_mul_f32 v[30:31], v[14:15], 2.0 op_sel_hi:[1,0]": 0x40000000,
    "v_pk_mul_f32 v[32:33], v[14:15], 2.0 op_sel_hi:[1,0]\nv_mov_b32 v30, v33": 0x40400000,
    "v_pk_mul_f32 v[32:33], v[14:15], s[50:51] op_sel_hi:[0,1]\nv_mov_b32 v30, v33": 0x40800000,
    "v_add_f64 v[32:33], v[16:17], 4.0\nv_mov_b32 v30, v33": 0x40140000,
    "v_add_f64 v[32:33], v[16:17], s[52:53]\nv_mov_b32 v30, v33": 0x40080000,
    "v_lshl_add_u64 v[30:31], s[50:51], 1, -1": 0x7FFFFFFF,
    "v_lshlrev_b64 v[32:33], 4, -2\nv_mov_b32 v30, v33": 0xFFFFFFFF,
    "v_fma_mix_f32 v30, 1.0, v12, v14": 0x3F800000,
    "v_cmp_eq_u64 vcc, -1, v[18:19]\nv_cndmask_b32 v30, 5, 6, vcc": 6,
    "s_mov_b64 vcc, 0\nv_cndmask_b32_e64 v30, -|v14|, v12, vcc": 0xBF800000,
}


@pytest.mark.parametrize("code", CONSTANTS)
def test_constant_or_scalar_source_expands_to_the_operand_type(code: str) -> None:
    setup = """
    s_mov_b32 s50, 0x40000000
    s_mov_b32 s51, 0x40800000
    s_mov_b32 s52, 0
    s_mov_b32 s53, 0x40000000
    v_mov_b32 v12, 0
    v_mov_b32 v13, 0x3c00
    v_mov_b32 v14, 1.0
    v_mov_b32 v15, 0x3fc00000
    v_mov_b32 v16, 0
    v_mov_b32 v17, 0x3ff00000
    v_mov_b32 v18, -1
    v_mov_b32 v19, -1
    """

    result = one_wave(setup + code)

    assert [hex(x) for x in set(result.tolist())] == [hex(CONSTANTS[code])]
