"""Vector operations that no other test computes, against values worked out from the ISA's text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from float_reference import (
    F16,
    F32,
    F64,
    Format,
    add,
    fma,
    high,
    low,
    multiply,
    negate,
    operands,
    ordered,
    same_float,
)
from lane_runner import run_elementwise

EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF, 0x7FFFFFFF, 0x80000000,
         0xFFFF0000, 0xFFFFFFFF, 0x80018000, 0x7FFF8001]  # fmt: skip
COUNT = 512
IntegerOp = Callable[[int, int, int], int]
FloatOp = Callable[..., int]


def signed(bits: int, width: int = 16) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def words(count: int, seed: int) -> list[int]:
    """Edge values and random words, so that unused upper halves hold garbage."""
    generator = np.random.default_rng(seed)
    some = generator.integers(0, 1 << 32, count, dtype=np.uint64).tolist()
    places = generator.integers(0, 2 * len(EDGES), count).tolist()
    return [EDGES[at] if at < len(EDGES) else one for at, one in zip(places, some, strict=True)]


def clamp(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


def truth_table(table: int, a: int, b: int, c: int) -> int:
    return sum(
        (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(16)
    )


def halves(op: Callable[[int, int], int]) -> IntegerOp:
    return lambda a, b, c: op(a & 0xFFFF, b & 0xFFFF) & 0xFFFF | (op(a >> 16, b >> 16) << 16)


def shifted_pair(least: int, most: int) -> IntegerOp:
    def op(a: int, b: int, c: int) -> int:
        first, second = (clamp(signed(x, 32) >> (c & 31), least, most) & 0xFF for x in (a, b))
        return first | second << 8

    return op


def of_three(choose: Callable[[Sequence[int]], int], *, is_signed: bool) -> IntegerOp:
    def op(a: int, b: int, c: int) -> int:
        return choose([signed(x) if is_signed else x & 0xFFFF for x in (a, b, c)])

    return op


def middle(values: Sequence[int]) -> int:
    return sorted(values)[1]


# Sources in v10, v11, v12; the 16-bit results are compared in their half.
INTEGER: dict[str, tuple[int, IntegerOp]] = {
    "v_add_i16 v30, v10, v11": (16, lambda a, b, c: a + b),
    "v_add_i16 v30, v10, v11 clamp": (
        16, lambda a, b, c: clamp(signed(a) + signed(b), -0x8000, 0x7FFF)),
    "v_sub_i16 v30, v10, v11": (16, lambda a, b, c: a - b),
    "v_sub_i16 v30, v10, v11 clamp": (
        16, lambda a, b, c: clamp(signed(a) - signed(b), -0x8000, 0x7FFF)),
    "v_ashr_pk_i8_i32 v30, v10, v11, v12": (16, shifted_pair(-128, 127)),
    "v_ashr_pk_u8_i32 v30, v10, v11, v12": (16, shifted_pair(0, 255)),
    "v_bitop3_b16 v30, v10, v11, v12 bitop3:0x6d": (
        16, lambda a, b, c: truth_table(0x6D, a, b, c)),
    "v_bitop3_b16 v30, v10, v11, v12 bitop3:0xca": (
        16, lambda a, b, c: truth_table(0xCA, a, b, c)),
    "v_mad_i16 v30, v10, v11, v12": (16, lambda a, b, c: a * b + c),
    "v_mad_legacy_i16 v30, v10, v11, v12": (16, lambda a, b, c: a * b + c),
    "v_mad_legacy_u16 v30, v10, v11, v12": (16, lambda a, b, c: a * b + c),
    "v_max3_i16 v30, v10, v11, v12": (16, of_three(max, is_signed=True)),
    "v_max3_u16 v30, v10, v11, v12": (16, of_three(max, is_signed=False)),
    "v_min3_i16 v30, v10, v11, v12": (16, of_three(min, is_signed=True)),
    "v_min3_u16 v30, v10, v11, v12": (16, of_three(min, is_signed=False)),
    "v_med3_i16 v30, v10, v11, v12": (16, of_three(middle, is_signed=True)),
    "v_med3_u16 v30, v10, v11, v12": (16, of_three(middle, is_signed=False)),
    "v_pk_max_u16 v30, v10, v11": (32, halves(max)),
    "v_pk_min_i16 v30, v10, v11": (32, halves(lambda a, b: min(signed(a), signed(b)))),
    "v_pk_sub_u16 v30, v10, v11": (32, halves(lambda a, b: a - b)),
    "v_pk_sub_u16 v30, v10, v11 clamp": (32, halves(lambda a, b: max(a - b, 0))),
    "v_cvt_f16_i16 v30, v10": (16, lambda a, b, c: F16.round(Fraction(signed(a)))),
    "v_cvt_f16_u16 v30, v10": (16, lambda a, b, c: F16.round(Fraction(a & 0xFFFF))),
    "v_mov_b32 v30, v10\nv_nop": (32, lambda a, b, c: a),
}  # fmt: skip


@pytest.mark.parametrize("code", INTEGER)
def test_integer_operation_of_edge_and_random_words(code: str) -> None:
    width, op = INTEGER[code]
    columns = [words(COUNT, seed) for seed in (1, 2, 3)]
    arch = "gfx950" if code.startswith(("v_ashr_pk", "v_bitop3")) else "gfx942"

    (got,) = run_elementwise(code, [low(one) for one in columns], [30], arch=arch)

    mask = (1 << width) - 1
    for a, b, c, actual in zip(*columns, got.tolist(), strict=True):
        expected = op(a, b, c) & mask
        assert actual & mask == expected, f"{a:#x} {b:#x} {c:#x}: {actual:#x}, {expected:#x}"


def test_mqsad_of_32_bits_skips_zero_bytes_of_the_reference_and_accumulates() -> None:
    columns = [words(COUNT, seed) for seed in range(11, 18)]
    columns[2] = [one & (0xFFFFFFFF, 0xFF00FF00, 0xFF)[i % 3] for i, one in enumerate(columns[2])]
    code = "v_mqsad_u32_u8 v[30:33], v[10:11], v12, v[20:23]"
    moves = "\n".join(f"v_mov_b32 v{20 + i}, v{13 + i}" for i in range(4))

    got = run_elementwise(f"{moves}\n{code}", [low(one) for one in columns], [30, 31, 32, 33])

    for row in range(COUNT):
        first, second, reference, *sums = (one[row] for one in columns)
        pixels = (first | second << 32).to_bytes(8, "little")
        for i in range(4):
            total = sums[i] + sum(
                abs(pixels[i + j] - byte)
                for j, byte in enumerate(reference.to_bytes(4, "little"))
                if byte
            )
            assert int(got[i][row]) == total & 0xFFFFFFFF, row


def run(code: str, form: Format, columns: list[list[int]], arch: str) -> list[int]:
    """As in the other float tests: v10, v11, … or pairs; result in v30 (and v31)."""
    if form.width == 64:
        inputs = [part(one) for one in columns for part in (low, high)]
        first, second = run_elementwise(code, inputs, [30, 31], arch=arch)
        return [int(a) | int(b) << 32 for a, b in zip(first, second, strict=True)]
    (result,) = run_elementwise(code, [low(one) for one in columns], [30], arch=arch)
    return [int(one) & ((1 << form.width) - 1) for one in result]


def nan(form: Format) -> int:
    return form.infinity | 1 << form.mantissa_bits - 1


def frexp(form: Format, bits: int) -> tuple[int, int]:
    """Mantissa from 0.5 to 1, and exponent; what is not finite keeps its value and has none."""
    if form.is_nan(bits) or form.is_infinite(bits):
        return bits, 0
    value = form.value(bits)
    if value == 0:
        return bits, 0
    exponent = 0
    while abs(value) >= 1:
        value, exponent = value / 2, exponent + 1
    while abs(value) < Fraction(1, 2):
        value, exponent = value * 2, exponent - 1
    return form.round(value), exponent


def fract(form: Format, bits: int) -> int:
    if form.is_nan(bits) or form.is_infinite(bits):
        return nan(form)
    value = form.value(bits)
    below_one = (form.bias << form.mantissa_bits) - 1
    return min(form.round(value - math.floor(value)), below_one)


def ldexp(form: Format, bits: int, exponent: int) -> int:
    if form.is_nan(bits) or form.is_infinite(bits):
        return bits
    limited = clamp(exponent, -4 * form.exponent_max, 4 * form.exponent_max)
    return form.round(form.value(bits) * Fraction(2) ** limited, bool(bits & form.sign))


def div_fixup(form: Format, quotient: int, denominator: int, numerator: int) -> int:
    sign = (denominator ^ numerator) & form.sign
    if form.is_nan(denominator) or form.is_nan(numerator):
        return nan(form)
    kinds = [(x & (form.sign - 1) == 0, form.is_infinite(x)) for x in (denominator, numerator)]
    (zero_below, infinite_below), (zero_above, infinite_above) = kinds
    if (zero_below and zero_above) or (infinite_below and infinite_above):
        return nan(form)
    if zero_below or infinite_above:
        return sign | form.infinity
    if infinite_below or zero_above:
        return sign
    return sign | quotient & (form.sign - 1)


def extreme(choose: Callable[..., int]) -> FloatOp:
    """IEEE 754-2019 maximum or minimum: a NaN wins, -0 is below +0."""

    def op(form: Format, *values: int) -> int:
        if any(form.is_nan(x) for x in values):
            return nan(form)
        return choose(values, key=lambda x: (ordered(form, x), not x & form.sign))

    return op


def flush(bits: int) -> int:
    return bits & 0x80000000 if not bits & 0x7F800000 else bits


def mad_legacy(form: Format, a: int, b: int, c: int) -> int:
    a, b, c = flush(a), flush(b), flush(c)
    if not a & 0x7FFFFFFF or not b & 0x7FFFFFFF:
        return add(form, 0, c)
    return flush(add(form, flush(multiply(form, a, b)), c))


def subrev(form: Format, a: int, b: int) -> int:
    return add(form, b, a if form.is_nan(a) else negate(form, a))


# In the upper halves, with the result brought down.
UPPER = """v_lshlrev_b32 v10, 16, v10
v_lshlrev_b32 v11, 16, v11
v_lshlrev_b32 v12, 16, v12
{} v30, v10, v11, v12
v_lshrrev_b32 v30, 16, v30"""
FLOAT: dict[str, tuple[Format, int, FloatOp]] = {
    "v_frexp_mant_f16 v30, v10": (F16, 1, lambda form, a: frexp(form, a)[0]),
    "v_frexp_mant_f64 v[30:31], v[10:11]": (F64, 1, lambda form, a: frexp(form, a)[0]),
    "v_fract_f16 v30, v10": (F16, 1, fract),
    "v_fract_f64 v[30:31], v[10:11]": (F64, 1, fract),
    "v_ldexp_f16 v30, v10, v11": (F16, 2, lambda form, a, b: ldexp(form, a, signed(b))),
    "v_ldexp_f64 v[30:31], v[10:11], v12": (
        F64, 2, lambda form, a, b: ldexp(form, a, signed(b, 32))),
    "v_div_fixup_f16 v30, v10, v11, v12": (F16, 3, div_fixup),
    "v_div_fixup_legacy_f16 v30, v10, v11, v12": (F16, 3, div_fixup),
    "v_subrev_f16 v30, v10, v11": (F16, 2, subrev),
    "v_subrev_f32 v30, v10, v11": (F32, 2, subrev),
    "v_maximum3_f32 v30, v10, v11, v12": (F32, 3, extreme(max)),
    "v_minimum3_f32 v30, v10, v11, v12": (F32, 3, extreme(min)),
    "v_pk_maximum3_f16 v30, v10, v11, v12": (F16, 3, extreme(max)),
    "v_pk_minimum3_f16 v30, v10, v11, v12": (F16, 3, extreme(min)),
    UPPER.format("v_pk_maximum3_f16"): (F16, 3, extreme(max)),
    UPPER.format("v_pk_minimum3_f16"): (F16, 3, extreme(min)),
    "v_mad_legacy_f32 v30, v10, v11, v12": (F32, 3, mad_legacy),
    "v_mov_b32 v30, v14\nv_mov_b32 v31, v15\nv_fmac_f64 v[30:31], v[10:11], v[12:13]": (
        F64, 3, fma),
}  # fmt: skip


@pytest.mark.parametrize("code", FLOAT)
def test_float_operation_of_specials_and_random_values(code: str) -> None:
    form, arity, op = FLOAT[code]
    values = operands(form, 30)
    generator = np.random.default_rng(7)
    columns = [[values[i] for i in generator.integers(0, len(values), COUNT)] for _ in range(arity)]
    if arity == 1:
        columns[0][: len(values)] = values
    if "ldexp" in code:
        steps = [*range(-30, 30), 0x7FFF, -0x8000, 2000, -2000]
        columns[1] = [steps[i] & (1 << form.width) - 1 for i in generator.integers(0, 64, COUNT)]
    arch = "gfx950" if "imum3" in code else "gfx90a" if "mad_legacy" in code else "gfx942"

    got = run(code, form, columns, arch)

    same = same_float(form)
    for row, actual in zip(zip(*columns, strict=True), got, strict=True):
        expected = op(form, *row)
        assert same(actual, expected), f"{[hex(x) for x in row]}: {actual:#x}, {expected:#x}"


@pytest.mark.parametrize("form", [F16, F64], ids=["f16", "f64"])
def test_exponent_of_frexp_is_zero_for_what_has_none(form: Format) -> None:
    values = operands(form, 100)
    kind = "i16_f16 v30, v10" if form is F16 else "i32_f64 v30, v[10:11]"
    inputs = [low(values)] if form is F16 else [low(values), high(values)]

    (got,) = run_elementwise(f"v_frexp_exp_{kind}", inputs, [30])

    width = 16 if form is F16 else 32
    for bits, actual in zip(values, got.tolist(), strict=True):
        assert signed(actual, width) == frexp(form, bits)[1], hex(bits)
