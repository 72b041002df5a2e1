"""Integer vector operations against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from lane_runner import run_elementwise

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
EDGES = [0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000]
EDGES += [0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x01020304]


def columns(count: int, seed: int) -> list[list[int]]:
    """`count` operand columns: every pair of edges in the first two, then random ones."""
    generator = np.random.default_rng(seed)
    pairs = [(a, b) for a in EDGES for b in EDGES]
    size = len(pairs) + 135
    result = [[int(x) for x in generator.integers(0, 1 << 32, size)] for _ in range(count)]
    for i, (a, b) in enumerate(pairs):
        result[0][i] = a
        if count > 1:
            result[1][i] = b
    return result


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def high_product(a: int, b: int) -> int:
    return a * b >> 32


def perm(high: int, low: int, select: int) -> int:
    data = (high << 32 | low).to_bytes(8, "little")
    result = 0
    for i in range(4):
        choice = select >> 8 * i & 0xFF
        if choice >= 13:
            byte = 0xFF
        elif choice == 12:
            byte = 0
        elif choice >= 8:
            byte = 0xFF if data[2 * (choice - 8) + 1] & 0x80 else 0
        else:
            byte = data[choice]
        result |= byte << 8 * i
    return result


def sad_u8(a: int, b: int, c: int) -> int:
    return c + sum(abs((a >> s & 0xFF) - (b >> s & 0xFF)) for s in (0, 8, 16, 24))


def msad_u8(a: int, b: int, c: int) -> int:
    shifts = [s for s in (0, 8, 16, 24) if b >> s & 0xFF]
    return c + sum(abs((a >> s & 0xFF) - (b >> s & 0xFF)) for s in shifts)


def lerp(a: int, b: int, c: int) -> int:
    return sum(((a >> s & 0xFF) + (b >> s & 0xFF) + (c >> s & 1) >> 1) << s for s in (0, 8, 16, 24))


def bfe_i32(a: int, offset: int, width: int) -> int:
    width &= 31
    return signed(signed(a) >> (offset & 31), width) if width else 0


def dot(a: int, b: int, c: int, bits: int, is_signed: bool) -> int:
    def elements(packed: int) -> list[int]:
        raw = [packed >> s & (1 << bits) - 1 for s in range(0, 32, bits)]
        return [signed(x, bits) for x in raw] if is_signed else raw

    return c + sum(x * y for x, y in zip(elements(a), elements(b), strict=True))


Reference = Callable[..., int]
ONE: dict[str, Reference] = {
    "v_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_ffbh_u32": lambda a: 32 - a.bit_length() if a else -1,
    "v_ffbl_b32": lambda a: (a & -a).bit_length() - 1 if a else -1,
    "v_ffbh_i32": lambda a: (
        -1 if a in (0, M32) else 32 - (a if a < 1 << 31 else ~a & M32).bit_length()
    ),
    "v_sat_pk_u8_i16": lambda a: (
        clamp(signed(a, 16), 0, 255) | clamp(signed(a >> 16, 16), 0, 255) << 8
    ),
}
TWO: dict[str, Reference] = {
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_min_i32": lambda a, b: min(signed(a), signed(b)),
    "v_max_i32": lambda a, b: max(signed(a), signed(b)),
    "v_min_u32": min,
    "v_max_u32": max,
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_mul_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24),
    "v_mul_hi_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24) >> 32,
    "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_hi_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32,
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": high_product,
    "v_mul_hi_i32": lambda a, b: signed(a) * signed(b) >> 32,
    "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
    "v_add_i32": lambda a, b: a + b,
    "v_sub_i32": lambda a, b: a - b,
    "v_add_u16": lambda a, b: a + b & 0xFFFF,
    "v_sub_u16": lambda a, b: a - b & 0xFFFF,
    "v_subrev_u16": lambda a, b: b - a & 0xFFFF,
    "v_mul_lo_u16": lambda a, b: a * b & 0xFFFF,
    "v_lshlrev_b16": lambda a, b: b << (a & 15) & 0xFFFF,
    "v_lshrrev_b16": lambda a, b: (b & 0xFFFF) >> (a & 15),
    "v_ashrrev_i16": lambda a, b: signed(b, 16) >> (a & 15) & 0xFFFF,
    "v_max_u16": lambda a, b: max(a & 0xFFFF, b & 0xFFFF),
    "v_min_u16": lambda a, b: min(a & 0xFFFF, b & 0xFFFF),
    "v_max_i16": lambda a, b: max(signed(a, 16), signed(b, 16)) & 0xFFFF,
    "v_min_i16": lambda a, b: min(signed(a, 16), signed(b, 16)) & 0xFFFF,
    "v_cvt_pk_u16_u32": lambda a, b: min(a, 0xFFFF) | min(b, 0xFFFF) << 16,
    "v_cvt_pk_i16_i32": lambda a, b: (
        clamp(signed(a), -32768, 32767) & 0xFFFF | (clamp(signed(b), -32768, 32767) & 0xFFFF) << 16
    ),
    "v_pack_b32_f16": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16,
}
THREE: dict[str, Reference] = {
    "v_mad_i32_i24": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
    "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_bfe_u32": lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1,
    "v_bfe_i32": bfe_i32,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_perm_b32": perm,
    "v_lerp_u8": lerp,
    "v_sad_u8": sad_u8,
    "v_msad_u8": msad_u8,
    "v_sad_hi_u8": lambda a, b, c: (sad_u8(a, b, 0) << 16) + c,
    "v_sad_u16": lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c,
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: a + b << (c & 31),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_min3_i32": lambda a, b, c: min(signed(a), signed(b), signed(c)),
    "v_max3_i32": lambda a, b, c: max(signed(a), signed(b), signed(c)),
    "v_med3_i32": lambda a, b, c: sorted((signed(a), signed(b), signed(c)))[1],
    "v_min3_u32": min,
    "v_max3_u32": max,
    "v_med3_u32": lambda a, b, c: sorted((a, b, c))[1],
    "v_mad_u32_u16": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c,
    "v_mad_i32_i16": lambda a, b, c: signed(a, 16) * signed(b, 16) + c,
    "v_dot2_i32_i16": lambda a, b, c: dot(a, b, c, 16, True),
    "v_dot2_u32_u16": lambda a, b, c: dot(a, b, c, 16, False),
    "v_dot4_i32_i8": lambda a, b, c: dot(a, b, c, 8, True),
    "v_dot4_u32_u8": lambda a, b, c: dot(a, b, c, 8, False),
    "v_dot8_i32_i4": lambda a, b, c: dot(a, b, c, 4, True),
    "v_dot8_u32_u4": lambda a, b, c: dot(a, b, c, 4, False),
}


def check_all(table: dict[str, Reference], count: int, arch: str) -> None:
    """One kernel for a whole table: operation i writes v(30 + i)."""
    inputs = columns(count, seed=count)
    sources = ", ".join(f"v{10 + i}" for i in range(count))
    names = list(table)
    code = "\n".join(f"{name} v{30 + i}, {sources}" for i, name in enumerate(names))
    results: list[np.ndarray] = []
    for first in range(0, len(names), 10):
        part = names[first : first + 10]
        results += run_elementwise(
            code,
            [np.array(one, np.uint32) for one in inputs],
            [30 + first + i for i in range(len(part))],
            arch=arch,
        )
    for name, result in zip(names, results, strict=True):
        for row, got in zip(zip(*inputs, strict=True), result, strict=True):
            expected = table[name](*row) & M32
            assert int(got) == expected, f"{name} {[hex(x) for x in row]}: {got:#x}, {expected:#x}"


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_integer_operations_of_one_source_match_python(arch: str) -> None:
    check_all(ONE, 1, arch)


def test_integer_operations_of_two_sources_match_python() -> None:
    check_all(TWO, 2, "gfx942")


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_integer_operations_of_three_sources_match_python(arch: str) -> None:
    check_all(THREE, 3, arch)


WIDE: dict[str, Reference] = {
    "v_lshlrev_b64 v[30:31], v14, v[10:11]": lambda a, b, c: a << (c & 63),
    "v_lshrrev_b64 v[30:31], v14, v[10:11]": lambda a, b, c: a >> (c & 63),
    "v_ashrrev_i64 v[30:31], v14, v[10:11]": lambda a, b, c: signed(a, 64) >> (c & 63),
    "v_lshl_add_u64 v[30:31], v[10:11], v14, v[12:13]": lambda a, b, c: (a << (c & 7)) + b,
    "v_mad_u64_u32 v[30:31], vcc, v10, v14, v[12:13]": lambda a, b, c: (a & M32) * c + b,
    "v_mad_i64_i32 v[30:31], vcc, v10, v14, v[12:13]": lambda a, b, c: signed(a) * signed(c) + b,
    "v_mov_b64 v[30:31], v[10:11]": lambda a, b, c: a,
    "v_pk_mov_b32 v[30:31], v[10:11], v[12:13] op_sel:[1,0]": lambda a, b, c: a >> 32 | b << 32,
    "v_qsad_pk_u16_u8 v[30:31], v[10:11], v14, v[12:13]": lambda a, b, c: sum(
        (sad_u8(a >> 8 * i & M32, c, b >> 16 * i & 0xFFFF) & 0xFFFF) << 16 * i for i in range(4)
    ),
    "v_mqsad_pk_u16_u8 v[30:31], v[10:11], v14, v[12:13]": lambda a, b, c: sum(
        (msad_u8(a >> 8 * i & M32, c, b >> 16 * i & 0xFFFF) & 0xFFFF) << 16 * i for i in range(4)
    ),
}


@pytest.mark.parametrize("code", WIDE)
def test_integer_operations_of_64_bits_match_python(code: str) -> None:
    inputs = columns(5, seed=9)
    for i, shift in enumerate((0, 1, 31, 32, 33, 63)):
        inputs[4][i] = shift

    low, high = run_elementwise(code, [np.array(one, np.uint32) for one in inputs], [30, 31])

    for i, (a, a_high, b, b_high, c) in enumerate(zip(*inputs, strict=True)):
        expected = WIDE[code](a | a_high << 32, b | b_high << 32, c) & M64
        assert int(low[i]) | int(high[i]) << 32 == expected, f"{code} row {i}"


CARRY = """
v_cmp_lt_u32 vcc, v12, v13
s_mov_b64 s[40:41], vcc
v_add_co_u32 v30, vcc, v10, v11
v_addc_co_u32 v31, vcc, v12, v13, vcc
v_cndmask_b32 v32, 0, 1, vcc
v_sub_co_u32 v33, s[50:51], v10, v11
v_subb_co_u32 v34, s[50:51], v12, v13, s[50:51]
v_cndmask_b32 v35, 0, 1, s[50:51]
v_subrev_co_u32 v36, vcc, v10, v11
v_subbrev_co_u32 v37, vcc, v12, v13, vcc
v_cndmask_b32 v38, 0, 1, vcc
"""


def test_carry_chains_of_two_dwords_match_64_bit_arithmetic() -> None:
    inputs = columns(4, seed=4)
    names = [30, 31, 32, 33, 34, 35, 36, 37, 38]

    out = run_elementwise(CARRY, [np.array(one, np.uint32) for one in inputs], names)

    for i, (a, b, a_high, b_high) in enumerate(zip(*inputs, strict=True)):
        x, y = a | a_high << 32, b | b_high << 32
        expected = [x + y, x - y, y - x]
        for part, value in enumerate(expected):
            low, high, carry = (int(out[3 * part + j][i]) for j in range(3))
            assert low | high << 32 == value & M64
            assert carry == (value >> 64 & 1)


CLAMPED: dict[str, Reference] = {
    "v_add_u32_e64 v30, v10, v11 clamp": lambda a, b, c: min(a + b, M32),
    "v_sub_u32_e64 v30, v10, v11 clamp": lambda a, b, c: max(a - b, 0),
    "v_add_i32 v30, v10, v11 clamp": lambda a, b, c: clamp(
        signed(a) + signed(b), -(1 << 31), (1 << 31) - 1
    ),
    "v_sub_i32 v30, v10, v11 clamp": lambda a, b, c: clamp(
        signed(a) - signed(b), -(1 << 31), (1 << 31) - 1
    ),
    "v_add_u16_e64 v30, v10, v11 clamp": lambda a, b, c: min((a & 0xFFFF) + (b & 0xFFFF), 0xFFFF),
    "v_dot4_i32_i8 v30, v10, v11, v12 clamp": lambda a, b, c: clamp(
        dot(a, b, signed(c), 8, True), -(1 << 31), (1 << 31) - 1
    ),
    "v_mad_u32_u24 v30, v10, v11, v12 clamp": lambda a, b, c: min(
        (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, M32
    ),
}


@pytest.mark.parametrize("code", CLAMPED)
def test_integer_clamp_beyond_the_range_saturates(code: str) -> None:
    inputs = columns(3, seed=5)

    (result,) = run_elementwise(code, [np.array(one, np.uint32) for one in inputs], [30])

    for row, got in zip(zip(*inputs, strict=True), result, strict=True):
        assert int(got) == CLAMPED[code](*row) & M32, f"{code} {[hex(x) for x in row]}"


def test_bitop3_of_every_truth_table_row_matches_its_definition() -> None:
    inputs = columns(3, seed=6)
    for table in (0x80, 0xE8, 0x96, 0xCA, 0x1B, 0x01):
        code = f"v_bitop3_b32 v30, v10, v11, v12 bitop3:{table:#x}"

        (result,) = run_elementwise(
            code, [np.array(one, np.uint32) for one in inputs], [30], arch="gfx950"
        )

        for (a, b, c), got in zip(zip(*inputs, strict=True), result, strict=True):
            expected = 0
            for row in range(8):
                if table >> row & 1:
                    expected |= (
                        (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                    )
            assert int(got) == expected & M32
