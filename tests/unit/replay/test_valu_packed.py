"""VOP3P: packed halves, packed f32 and mixed precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from float_reference import (
    F16,
    F32,
    add,
    fma,
    low,
    maximum,
    minimum,
    multiply,
    operands,
    same_float,
)
from lane_runner import run_elementwise

Halves = Callable[[int, int, int], int]


def columns(count: int, seed: int, size: int = 1500) -> list[list[int]]:
    """Columns of dwords whose halves are interesting f16 numbers."""
    values = operands(F16, 10)
    generator = np.random.default_rng(seed)
    picks = generator.integers(0, len(values), (count, 2, size))
    return [
        [values[a] | values[b] << 16 for a, b in zip(low_half, high_half, strict=True)]
        for low_half, high_half in picks
    ]


def signed(value: int) -> int:
    return value - 65536 if value & 0x8000 else value


def saturated(value: int) -> int:
    return max(-32768, min(32767, value))


FLOAT: dict[str, Halves] = {
    "v_pk_add_f16 v30, v10, v11": lambda a, b, c: add(F16, a, b),
    "v_pk_mul_f16 v30, v10, v11": lambda a, b, c: multiply(F16, a, b),
    "v_pk_min_f16 v30, v10, v11": lambda a, b, c: minimum(F16, a, b),
    "v_pk_max_f16 v30, v10, v11": lambda a, b, c: maximum(F16, a, b),
    "v_pk_fma_f16 v30, v10, v11, v12": lambda a, b, c: fma(F16, a, b, c),
    "v_mov_b32 v30, v12\nv_pk_fmac_f16 v30, v10, v11": lambda a, b, c: fma(F16, a, b, c),
}
INTEGER: dict[str, Halves] = {
    "v_pk_add_u16 v30, v10, v11": lambda a, b, c: a + b,
    "v_pk_sub_i16 v30, v10, v11": lambda a, b, c: a - b,
    "v_pk_mul_lo_u16 v30, v10, v11": lambda a, b, c: a * b,
    "v_pk_mad_u16 v30, v10, v11, v12": lambda a, b, c: a * b + c,
    "v_pk_mad_i16 v30, v10, v11, v12": lambda a, b, c: a * b + c,
    "v_pk_lshlrev_b16 v30, v10, v11": lambda a, b, c: b << (a & 15),
    "v_pk_lshrrev_b16 v30, v10, v11": lambda a, b, c: b >> (a & 15),
    "v_pk_ashrrev_i16 v30, v10, v11": lambda a, b, c: signed(b) >> (a & 15),
    "v_pk_max_i16 v30, v10, v11": lambda a, b, c: max(signed(a), signed(b)),
    "v_pk_min_u16 v30, v10, v11": lambda a, b, c: min(a, b),
    "v_pk_add_i16 v30, v10, v11 clamp": lambda a, b, c: saturated(signed(a) + signed(b)),
    "v_pk_add_u16 v30, v10, v11 clamp": lambda a, b, c: min(a + b, 65535),
}


@pytest.mark.parametrize("code", [*FLOAT, *INTEGER])
def test_packed_operation_computes_both_halves_apart(code: str) -> None:
    reference = FLOAT.get(code) or INTEGER[code]
    inputs = columns(3, seed=2)

    (result,) = run_elementwise(code, [low(one) for one in inputs], [30])

    same = same_float(F16) if code in FLOAT else (lambda a, b: a == b)
    for row, got in zip(zip(*inputs, strict=True), result, strict=True):
        for shift in (0, 16):
            expected = reference(*(x >> shift & 0xFFFF for x in row)) & 0xFFFF
            assert same(int(got) >> shift & 0xFFFF, expected), f"{code} {[hex(x) for x in row]}"


def test_packed_op_sel_and_neg_choose_and_negate_halves() -> None:
    inputs = columns(2, seed=3)
    code = "v_pk_add_f16 v30, v10, v11 op_sel:[1,0] op_sel_hi:[0,0] neg_lo:[1,0] neg_hi:[0,1]"

    (result,) = run_elementwise(code, [low(one) for one in inputs], [30])

    same = same_float(F16)
    for a, b, got in zip(*inputs, result, strict=True):
        assert same(int(got) & 0xFFFF, add(F16, a >> 16 ^ 0x8000, b & 0xFFFF))
        assert same(int(got) >> 16, add(F16, a & 0xFFFF, b & 0xFFFF ^ 0x8000))


def test_packed_f32_takes_the_registers_that_op_sel_names() -> None:
    values = operands(F32, 40)
    generator = np.random.default_rng(4)
    inputs = [[values[i] for i in generator.integers(0, len(values), 1000)] for _ in range(6)]
    a, a_hi, b, b_hi, c, c_hi = inputs
    code = "v_pk_fma_f32 v[30:31], v[10:11], v[12:13], v[14:15]\n"
    code += "v_pk_mul_f32 v[32:33], v[10:11], v[12:13] op_sel:[1,0] op_sel_hi:[1,0]\n"
    code += "v_pk_add_f32 v[34:35], v[10:11], v[12:13] op_sel:[0,1] op_sel_hi:[0,0] neg_lo:[0,1]"

    out = run_elementwise(code, [low(one) for one in inputs], list(range(30, 36)))

    same = same_float(F32)
    for i in range(len(a)):
        expected = [
            fma(F32, a[i], b[i], c[i]),
            fma(F32, a_hi[i], b_hi[i], c_hi[i]),
            multiply(F32, a_hi[i], b[i]),
            multiply(F32, a_hi[i], b[i]),
            add(F32, a[i], b_hi[i] ^ 0x80000000),
            add(F32, a[i], b[i]),
        ]
        for column, value in zip(out, expected, strict=True):
            assert same(int(column[i]), value)


def test_mixed_fma_widens_the_halves_that_op_sel_hi_marks() -> None:
    halves = columns(1, seed=5)[0]
    values = operands(F32, 40)
    generator = np.random.default_rng(6)
    singles = [values[i] for i in generator.integers(0, len(values), len(halves))]
    code = "v_fma_mix_f32 v30, v10, v11, -|v10| op_sel:[1,0,0] op_sel_hi:[1,0,1]\n"
    code += (
        "v_mov_b32 v31, -1\nv_fma_mixlo_f16 v31, v10, v10, v11 op_sel:[0,1,0] op_sel_hi:[1,1,0]\n"
    )
    code += "v_mov_b32 v32, -1\nv_fma_mixhi_f16 v32, v11, v11, v11"

    full, low_half, high_half = run_elementwise(code, [low(halves), low(singles)], [30, 31, 32])

    def wide(half: int) -> int:
        if F16.is_nan(half):
            return 0x7FC00000
        if F16.is_infinite(half):
            return (half & 0x8000) << 16 | 0x7F800000
        return F32.round(F16.value(half), bool(half & 0x8000))

    def narrow(single: int) -> int:
        if F32.is_nan(single):
            return 0x7E00
        if F32.is_infinite(single):
            return single >> 16 & 0x8000 | 0x7C00
        return single >> 16 & 0x8000 | F16.round(abs(F32.value(single)))

    for i, (pair, single) in enumerate(zip(halves, singles, strict=True)):
        a, b = wide(pair & 0xFFFF), wide(pair >> 16)
        expected = fma(F32, b, single, a | 0x80000000)
        assert same_float(F32)(int(full[i]), expected)
        assert same_float(F16)(int(low_half[i]) & 0xFFFF, narrow(fma(F32, a, b, single)))
        assert int(low_half[i]) >> 16 == 0xFFFF
        assert same_float(F16)(int(high_half[i]) >> 16, narrow(fma(F32, single, single, single)))
        assert int(high_half[i]) & 0xFFFF == 0xFFFF


def test_dot_product_of_halves_adds_in_the_documented_order() -> None:
    inputs = columns(2, seed=7)
    values = operands(F32, 20)
    generator = np.random.default_rng(8)
    c = [values[i] for i in generator.integers(0, len(values), len(inputs[0]))]
    code = "v_dot2_f32_f16 v30, v10, v11, v12\nv_mov_b32 v31, v12\nv_dot2c_f32_f16 v31, v10, v11"

    plain, accumulated = run_elementwise(code, [low(one) for one in (*inputs, c)], [30, 31])

    def wide(half: int) -> float:
        return float(np.array(half, np.uint16).view(np.float16))

    for i, (a, b, start) in enumerate(zip(*inputs, c, strict=True)):
        with np.errstate(all="ignore"):
            total = np.float32(np.array(start, np.uint32).view(np.float32))
            for shift in (0, 16):
                product = np.float32(wide(a >> shift & 0xFFFF) * wide(b >> shift & 0xFFFF))
                total = np.float32(total + product)
        expected = int(np.float32(total).view(np.uint32))
        assert same_float(F32)(int(plain[i]), expected)
        assert int(accumulated[i]) == int(plain[i])
