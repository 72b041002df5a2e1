"""Scalar operations against a model in Python: results and SCC, many values in one launch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from emulator_kernel import run_kernel
from scalar_cases import (
    MASK32,
    MASK64,
    START,
    WIDE,
    WORDS,
    Result,
    assert_cases,
    case,
    load,
    register,
    signed,
    values,
)


def carry(total: int) -> Result:
    return total & MASK32, int(total >> 32 != 0)


def overflow(total: int) -> Result:
    return total & MASK32, int(not -(1 << 31) <= total < 1 << 31)


def nonzero(value: int, mask: int = MASK32) -> Result:
    return value & mask, int(value & mask != 0)


def smaller(a: int, b: int) -> Result:
    return min(a, b, key=signed), int(signed(a) < signed(b))


def ones(count: int, at: int) -> int:
    return ((1 << count) - 1) << at


def bit_field(value: int, control: int, bits: int, *, is_signed: bool) -> Result:
    offset, width = control & (bits - 1), control >> 16 & 127
    width = min(width, bits - offset)
    field = value >> offset & (1 << width) - 1
    if is_signed and width:
        field = signed(field, width)
    return nonzero(field, (1 << bits) - 1)


def first_bit(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else MASK32


def leading(value: int, bits: int) -> int:
    return bits - value.bit_length() if value else MASK32


def leading_signs(value: int, bits: int) -> int:
    return leading(value ^ ((1 << bits) - 1) if value >> (bits - 1) else value, bits)


def quads(value: int, bits: int) -> list[int]:
    return [int(value >> at & 15 != 0) for at in range(0, bits, 4)]


def wqm(value: int, bits: int) -> int:
    return sum(15 << 4 * at for at, used in enumerate(quads(value, bits)) if used)


def quadmask(value: int, bits: int) -> int:
    return sum(used << at for at, used in enumerate(quads(value, bits)))


# name: (result bits, source bits, model of the sources and SCC)
Two = Callable[[int, int, int], Result]
TWO_SOURCES: dict[str, tuple[int, tuple[int, int], Two]] = {
    "s_add_u32": (32, (32, 32), lambda a, b, c: carry(a + b)),
    "s_sub_u32": (32, (32, 32), lambda a, b, c: ((a - b) & MASK32, int(b > a))),
    "s_add_i32": (32, (32, 32), lambda a, b, c: overflow(signed(a) + signed(b))),
    "s_sub_i32": (32, (32, 32), lambda a, b, c: overflow(signed(a) - signed(b))),
    "s_addc_u32": (32, (32, 32), lambda a, b, c: carry(a + b + c)),
    "s_subb_u32": (32, (32, 32), lambda a, b, c: ((a - b - c) & MASK32, int(b + c > a))),
    "s_min_i32": (
        32,
        (32, 32),
        lambda a, b, c: (min(a, b, key=signed), int(signed(a) < signed(b))),
    ),
    "s_min_u32": (32, (32, 32), lambda a, b, c: (min(a, b), int(a < b))),
    "s_max_u32": (32, (32, 32), lambda a, b, c: (max(a, b), int(a >= b))),
    "s_max_i32": (
        32,
        (32, 32),
        lambda a, b, c: (max(a, b, key=signed), int(signed(a) >= signed(b))),
    ),
    "s_and_b64": (64, (64, 64), lambda a, b, c: nonzero(a & b, MASK64)),
    "s_or_b32": (32, (32, 32), lambda a, b, c: nonzero(a | b)),
    "s_xor_b32": (32, (32, 32), lambda a, b, c: nonzero(a ^ b)),
    "s_andn2_b32": (32, (32, 32), lambda a, b, c: nonzero(a & ~b)),
    "s_orn2_b64": (64, (64, 64), lambda a, b, c: nonzero(a | ~b, MASK64)),
    "s_nand_b32": (32, (32, 32), lambda a, b, c: nonzero(~(a & b))),
    "s_nor_b64": (64, (64, 64), lambda a, b, c: nonzero(~(a | b), MASK64)),
    "s_xnor_b64": (64, (64, 64), lambda a, b, c: nonzero(~(a ^ b), MASK64)),
    "s_lshr_b32": (32, (32, 32), lambda a, b, c: nonzero(a >> (b & 31))),
    "s_absdiff_i32": (
        32,
        (32, 32),
        # The difference wraps before its sign counts (CDNA3 ISA, S_ABSDIFF_I32).
        lambda a, b, c: nonzero(abs(signed(a - b & MASK32))),
    ),
    "s_lshl1_add_u32": (32, (32, 32), lambda a, b, c: carry((a << 1) + b)),
    "s_lshl3_add_u32": (32, (32, 32), lambda a, b, c: carry((a << 3) + b)),
    "s_lshl4_add_u32": (32, (32, 32), lambda a, b, c: carry((a << 4) + b)),
    "s_cselect_b32": (32, (32, 32), lambda a, b, c: (a if c else b, None)),
    "s_cselect_b64": (64, (64, 64), lambda a, b, c: (a if c else b, None)),
    "s_and_b32": (32, (32, 32), lambda a, b, c: nonzero(a & b)),
    "s_or_b64": (64, (64, 64), lambda a, b, c: nonzero(a | b, MASK64)),
    "s_xor_b64": (64, (64, 64), lambda a, b, c: nonzero(a ^ b, MASK64)),
    "s_andn2_b64": (64, (64, 64), lambda a, b, c: nonzero(a & ~b, MASK64)),
    "s_orn2_b32": (32, (32, 32), lambda a, b, c: nonzero(a | ~b)),
    "s_nand_b64": (64, (64, 64), lambda a, b, c: nonzero(~(a & b), MASK64)),
    "s_nor_b32": (32, (32, 32), lambda a, b, c: nonzero(~(a | b))),
    "s_xnor_b32": (32, (32, 32), lambda a, b, c: nonzero(~(a ^ b))),
    "s_lshl_b32": (32, (32, 32), lambda a, b, c: nonzero(a << (b & 31))),
    "s_lshl_b64": (64, (64, 32), lambda a, b, c: nonzero(a << (b & 63), MASK64)),
    "s_lshr_b64": (64, (64, 32), lambda a, b, c: nonzero(a >> (b & 63), MASK64)),
    "s_ashr_i32": (32, (32, 32), lambda a, b, c: nonzero(signed(a) >> (b & 31))),
    "s_ashr_i64": (64, (64, 32), lambda a, b, c: nonzero(signed(a, 64) >> (b & 63), MASK64)),
    "s_bfm_b32": (
        32,
        (32, 32),
        lambda a, b, c: (ones(a & 31, b & 31) & MASK32, None),
    ),
    "s_bfm_b64": (
        64,
        (32, 32),
        lambda a, b, c: (ones(a & 63, b & 63) & MASK64, None),
    ),
    "s_mul_i32": (32, (32, 32), lambda a, b, c: (a * b & MASK32, None)),
    "s_mul_hi_u32": (32, (32, 32), lambda a, b, c: (a * b >> 32, None)),
    "s_mul_hi_i32": (32, (32, 32), lambda a, b, c: (signed(a) * signed(b) >> 32 & MASK32, None)),
    "s_bfe_u32": (32, (32, 32), lambda a, b, c: bit_field(a, b, 32, is_signed=False)),
    "s_bfe_i32": (32, (32, 32), lambda a, b, c: bit_field(a, b, 32, is_signed=True)),
    "s_bfe_u64": (64, (64, 32), lambda a, b, c: bit_field(a, b, 64, is_signed=False)),
    "s_bfe_i64": (64, (64, 32), lambda a, b, c: bit_field(a, b, 64, is_signed=True)),
    "s_lshl2_add_u32": (32, (32, 32), lambda a, b, c: carry((a << 2) + b)),
    "s_pack_ll_b32_b16": (32, (32, 32), lambda a, b, c: ((a & 0xFFFF) | (b << 16 & MASK32), None)),
    "s_pack_lh_b32_b16": (32, (32, 32), lambda a, b, c: ((a & 0xFFFF) | (b & 0xFFFF0000), None)),
    "s_pack_hh_b32_b16": (32, (32, 32), lambda a, b, c: (a >> 16 | (b & 0xFFFF0000), None)),
}
One = Callable[[int], Result]
ONE_SOURCE: dict[str, tuple[int, int, One]] = {
    "s_not_b32": (32, 32, lambda a: nonzero(~a)),
    "s_not_b64": (64, 64, lambda a: nonzero(~a, MASK64)),
    "s_brev_b32": (32, 32, lambda a: (int(f"{a:032b}"[::-1], 2), None)),
    "s_brev_b64": (64, 64, lambda a: (int(f"{a:064b}"[::-1], 2), None)),
    "s_bcnt0_i32_b32": (32, 32, lambda a: nonzero(32 - a.bit_count())),
    "s_bcnt1_i32_b64": (32, 64, lambda a: nonzero(a.bit_count())),
    "s_ff0_i32_b32": (32, 32, lambda a: (first_bit(~a & MASK32), None)),
    "s_ff1_i32_b64": (32, 64, lambda a: (first_bit(a), None)),
    "s_flbit_i32_b32": (32, 32, lambda a: (leading(a, 32), None)),
    "s_flbit_i32_b64": (32, 64, lambda a: (leading(a, 64), None)),
    "s_flbit_i32": (32, 32, lambda a: (leading_signs(a, 32), None)),
    "s_flbit_i32_i64": (32, 64, lambda a: (leading_signs(a, 64), None)),
    "s_sext_i32_i8": (32, 32, lambda a: (signed(a & 0xFF, 8) & MASK32, None)),
    "s_sext_i32_i16": (32, 32, lambda a: (signed(a & 0xFFFF, 16) & MASK32, None)),
    "s_abs_i32": (32, 32, lambda a: nonzero(abs(signed(a)))),
    "s_bcnt0_i32_b64": (32, 64, lambda a: nonzero(64 - a.bit_count())),
    "s_bcnt1_i32_b32": (32, 32, lambda a: nonzero(a.bit_count())),
    "s_ff0_i32_b64": (32, 64, lambda a: (first_bit(~a & MASK64), None)),
    "s_ff1_i32_b32": (32, 32, lambda a: (first_bit(a), None)),
    "s_wqm_b32": (32, 32, lambda a: nonzero(wqm(a, 32))),
    "s_wqm_b64": (64, 64, lambda a: nonzero(wqm(a, 64), MASK64)),
    "s_quadmask_b32": (32, 32, lambda a: nonzero(quadmask(a, 32))),
    "s_quadmask_b64": (64, 64, lambda a: nonzero(quadmask(a, 64), MASK64)),
    "s_bitreplicate_b64_b32": (
        64,
        32,
        lambda a: (sum(3 << 2 * at for at in range(32) if a >> at & 1), None),
    ),
}


def test_two_source_operations_agree_with_the_model() -> None:
    bodies: list[str] = []
    expected: list[tuple[int, int]] = []
    names: list[str] = []
    for name, (bits, (bits0, bits1), model) in TWO_SOURCES.items():
        seconds = (*WORDS[:4], 0x00080004, 0x00400010) if bits1 == 32 else WIDE[:5]
        for a in values(bits0):
            for scc, b in enumerate(seconds):
                text = f"  {name} {register(20, bits)}, {register(8, bits0)}, {register(12, bits1)}"
                bodies.append(case(text, [(8, bits0, a), (12, bits1, b)], scc & 1, len(bodies)))
                value, after = model(a, b, scc & 1)
                expected.append((value, scc & 1 if after is None else after))
                names.append(f"{name} {a:#x} {b:#x}")

    assert_cases(names, bodies, expected)


def test_one_source_operations_agree_with_the_model() -> None:
    bodies: list[str] = []
    expected: list[tuple[int, int]] = []
    names: list[str] = []
    for name, (bits, source_bits, model) in ONE_SOURCE.items():
        for a in values(source_bits):
            scc = a & 1
            text = f"  {name} {register(20, bits)}, {register(8, source_bits)}"
            bodies.append(case(text, [(8, source_bits, a)], scc, len(bodies)))
            value, after = model(a)
            expected.append((value, scc if after is None else after))
            names.append(f"{name} {a:#x}")

    assert_cases(names, bodies, expected)


SAVE_EXEC: dict[str, Callable[[int, int], int]] = {
    "s_and_saveexec_b64": lambda s, e: s & e,
    "s_or_saveexec_b64": lambda s, e: s | e,
    "s_xor_saveexec_b64": lambda s, e: s ^ e,
    "s_andn2_saveexec_b64": lambda s, e: s & ~e,
    "s_orn2_saveexec_b64": lambda s, e: s | ~e,
    "s_andn1_saveexec_b64": lambda s, e: ~s & e,
    "s_orn1_saveexec_b64": lambda s, e: ~s | e,
    "s_nor_saveexec_b64": lambda s, e: ~(s | e),
    "s_nand_saveexec_b64": lambda s, e: ~(s & e),
    "s_xnor_saveexec_b64": lambda s, e: ~(s ^ e),
}


@pytest.mark.parametrize("name", SAVE_EXEC)
def test_saveexec_operations_give_the_old_and_set_the_new_mask(name: str) -> None:
    source, before = 0x00FF00FF12345678, 0x0F0F0F0F0F0F0F0F
    body = "\n".join(
        [
            *load(8, 64, source),
            *load(10, 64, before),
            "  s_mov_b64 exec, s[10:11]",
            f"  {name} s[20:21], s[8:9]",
            "  s_mov_b64 s[22:23], exec",
            "  s_cselect_b32 s24, 1, 0",
            *[f"  s_store_dword s{20 + at}, s[4:5], {at * 4:#x}" for at in range(5)],
            "  s_endpgm",
        ]
    )

    words = run_kernel(START + body).words()

    after = SAVE_EXEC[name](source, before) & MASK64
    assert words[0] | words[1] << 32 == before
    assert words[2] | words[3] << 32 == after
    assert words[4] == int(after != 0)


def test_scalar_buffer_load_beyond_the_buffer_reads_zero() -> None:
    data = b"".join(n.to_bytes(4, "little") for n in range(1, 17))
    body = """
  s_load_dwordx2 s[8:9], s[0:1], 0x8
  s_waitcnt lgkmcnt(0)
  s_and_b32 s9, s9, 0xffff
  s_mov_b32 s10, 12
  s_mov_b32 s11, 0x27000
  s_buffer_load_dwordx4 s[12:15], s[8:11], 0x4
  s_waitcnt lgkmcnt(0)
""" + "\n".join(f"  s_store_dword s{12 + at}, s[4:5], {at * 4:#x}" for at in range(4))

    words = run_kernel(START + body + "\n  s_endpgm", data=data).words()

    assert words[:4] == [2, 3, 0, 0]


def test_scalar_load_outside_every_allocation_faults() -> None:
    body = "  s_mov_b64 s[8:9], 0x1000\n  s_load_dword s10, s[8:9], 0x0\n  s_endpgm"

    outcome = run_kernel(body)

    assert outcome.status == 719
    assert "0x1000" in outcome.report


def test_call_returns_behind_itself() -> None:
    body = """
  s_call_b64 s[30:31], .Lfunction
  s_store_dword s8, s[4:5], 0x0
  s_endpgm
.Lfunction:
  s_mov_b32 s8, 0x55
  s_setpc_b64 s[30:31]
"""

    assert run_kernel(START + body).words()[0] == 0x55


def test_setreg_changes_only_its_field() -> None:
    body = """
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0xf
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 0xfd
  s_getreg_b32 s8, hwreg(HW_REG_MODE, 0, 8)
  s_store_dword s8, s[4:5], 0x0
  s_endpgm
"""

    outcome = run_kernel(START + body, directives=".amdhsa_float_denorm_mode_16_64 0")

    assert outcome.words()[0] == 0xF4


def test_status_shows_the_priority_that_setprio_gave() -> None:
    body = """
  s_cmp_eq_u32 0, 0
  s_getreg_b32 s8, hwreg(HW_REG_STATUS)
  s_setprio 3
  s_getreg_b32 s9, hwreg(HW_REG_STATUS)
  s_setprio 1
  s_getreg_b32 s10, hwreg(HW_REG_STATUS, 3, 2)
  s_store_dwordx2 s[8:9], s[4:5], 0x0
  s_store_dword s10, s[4:5], 0x8
  s_endpgm
"""

    before, high, low = run_kernel(START + body, output_bytes=12).words()

    assert before & ~0x400 == 0x10001  # VALID and SCC; VCC is not set
    assert high == before | 3 << 3
    assert low == 1


@pytest.mark.parametrize(
    ("operation", "old", "data", "new"),
    [
        ("add", 5, [7], 12),
        ("sub", 5, [7], MASK32 - 1),
        ("smin", MASK32, [3], MASK32),
        ("umax", 5, [7], 7),
        ("inc", 7, [7], 0),
        ("dec", 0, [7], 7),
        ("swap", 5, [7], 7),
        ("cmpswap", 5, [9, 5], 9),
        ("cmpswap", 5, [9, 6], 5),
    ],
)
def test_scalar_atomic_gives_the_old_and_stores_the_new_value(
    operation: str, old: int, data: list[int], new: int
) -> None:
    registers = "s8" if len(data) == 1 else "s[8:9]"
    body = f"""
  s_mov_b32 s12, {old:#x}
  s_store_dword s12, s[4:5], 0x0
  s_mov_b32 s8, {data[0]}
  s_mov_b32 s9, {data[-1]}
  s_atomic_{operation} {registers}, s[4:5], 0x0 glc
  s_waitcnt lgkmcnt(0)
  s_store_dword s8, s[4:5], 0x4
  s_endpgm
"""

    outcome = run_kernel(START + body)

    assert outcome.ok, outcome.report
    assert outcome.words()[:2] == [new, old]


def test_vector_instructions_under_vskip_are_passed_over() -> None:
    body = """
  v_mov_b32_e32 v1, 1
  s_mov_b32 s8, 4
  s_setvskip s8, 2
  s_nop 0
  v_mov_b32_e32 v1, 2
  global_load_dword v1, v1, s[8:9]
  s_setvskip 0, 0
  s_nop 0
  v_readfirstlane_b32 s9, v1
  s_store_dword s9, s[4:5], 0x0
  s_endpgm
"""

    outcome = run_kernel(START + body)

    assert outcome.ok, outcome.report
    assert outcome.words()[0] == 1


FORK = """
  v_cmp_gt_u32_e32 vcc, 20, v0
  s_getpc_b64 s[8:9]
.Lhere:
  s_add_u32 s8, s8, .Lfew-.Lhere
  s_addc_u32 s9, s9, 0
  v_mov_b32_e32 v1, 0
  s_mov_b64 s[18:19], exec
  {fork}
  v_mov_b32_e32 v1, 7
  s_bcnt1_i32_b64 s20, exec
  s_branch .Ljoin
.Lfew:
  v_mov_b32_e32 v1, 5
  s_bcnt1_i32_b64 s21, exec
.Ljoin:
  s_cbranch_join s16
  s_mov_b64 exec, s[18:19]
  s_getreg_b32 s22, hwreg(HW_REG_MODE, 29, 3)
  v_lshlrev_b32_e32 v2, 2, v0
  global_store_dword v2, v1, s[4:5]
  v_mov_b32_e32 v3, 0
  v_mov_b32_e32 v4, s20
  v_mov_b32_e32 v5, s21
  v_mov_b32_e32 v6, s22
  global_store_dwordx3 v3, v[4:6], s[4:5] offset:256
  s_endpgm
"""


@pytest.mark.parametrize(
    "fork", ["s_cbranch_g_fork vcc, s[8:9]", "s_cbranch_i_fork vcc, .Lfew"], ids=["g", "i"]
)
def test_fork_runs_both_sides_and_joins_them(fork: str) -> None:
    # MODE.CSP starts at 0, so the stack of forks lies in s[0:3].
    body = "  s_mov_b32 s16, 0\n" + FORK.format(fork=fork)

    words = run_kernel(START + body, output_bytes=268).words()

    assert words[:64] == [5] * 20 + [7] * 44
    assert words[64:] == [44, 20, 0]


@pytest.mark.parametrize("lanes", [0, 64])
def test_fork_of_one_mind_pushes_nothing(lanes: int) -> None:
    body = "  s_mov_b32 s16, 0\n" + FORK.format(fork="s_cbranch_i_fork vcc, .Lfew")
    body = body.replace("20, v0", f"{lanes}, v0").replace(
        "s_bcnt1_i32_b64 s20", "s_mov_b64 s[20:21]"
    )

    words = run_kernel(START + body, output_bytes=268).words()

    assert words[:64] == [5 if lanes else 7] * 64


def test_scalar_scratch_offset_register_counts_64_bytes() -> None:
    body = """
  s_load_dwordx2 s[8:9], s[0:1], 0x8
  s_mov_b32 s10, 2
  s_waitcnt lgkmcnt(0)
  s_scratch_load_dword s12, s[8:9], s10
  s_scratch_load_dwordx2 s[14:15], s[8:9], 0x8
  s_waitcnt lgkmcnt(0)
  s_mov_b32 s11, 1
  s_scratch_store_dword s12, s[4:5], s11
  s_scratch_store_dwordx2 s[14:15], s[4:5], 0x4
  s_endpgm
"""
    data = b"".join(n.to_bytes(4, "little") for n in range(100, 164))

    words = run_kernel(START + body, output_bytes=128, data=data).words()

    assert (words[16], words[1], words[2]) == (132, 102, 103)


def test_operations_without_effect_here_do_nothing() -> None:
    body = """
  s_load_dwordx2 s[8:9], s[0:1], 0x8
  s_waitcnt lgkmcnt(0)
  s_atc_probe 1, s[8:9], 0x0
  s_dcache_discard s[8:9], 0x0
  s_dcache_discard_x2 s[8:9], 0x0
  s_setkill 0
  v_clrexcp
  ds_nop
  s_mov_b32 s8, 9
  s_store_dword s8, s[4:5], 0x0
  s_endpgm_ordered_ps_done
"""

    assert run_kernel(START + body).words()[0] == 9


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("s_setkill 1", "killed itself"),
        ("s_rfe_b64 s[8:9]", "s_rfe_b64 is not implemented: only a trap handler"),
        ("s_rfe_restore_b64 s[8:9], s10", "only a trap handler"),
        ("v_screen_partition_4se_b32 v1, v2", "table of screen partitions"),
        ("ds_gws_barrier v2 gds", "global wave sync"),
    ],
)
def test_missing_operation_is_refused_with_its_reason(instruction: str, reason: str) -> None:
    outcome = run_kernel(START + f"  {instruction}\n  s_endpgm")

    assert not outcome.ok
    assert reason in outcome.report
