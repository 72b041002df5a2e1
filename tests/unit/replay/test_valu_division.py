"""The division sequence LLVM emits gives the correctly rounded quotient."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from float_reference import F32, F64, Format, all_pairs, high, low, operands, same_float
from lane_runner import run_elementwise

# Numerator v10, denominator v11 (LLVM's lowering of an IEEE fdiv).
SINGLE = """
v_div_scale_f32 v40, s[40:41], v11, v11, v10
v_div_scale_f32 v41, vcc, v10, v11, v10
v_rcp_f32 v42, v40
s_nop 1
v_fma_f32 v43, -v40, v42, 1.0
v_fma_f32 v42, v43, v42, v42
v_mul_f32 v43, v41, v42
v_fma_f32 v44, -v40, v43, v41
v_fma_f32 v43, v44, v42, v43
v_fma_f32 v40, -v40, v43, v41
s_nop 4
v_div_fmas_f32 v40, v40, v42, v43
v_div_fixup_f32 v30, v40, v11, v10
"""
# Numerator v[10:11], denominator v[12:13].
DOUBLE = """
v_div_scale_f64 v[40:41], s[40:41], v[12:13], v[12:13], v[10:11]
v_rcp_f64 v[42:43], v[40:41]
s_nop 1
v_fma_f64 v[44:45], -v[40:41], v[42:43], 1.0
v_fma_f64 v[42:43], v[42:43], v[44:45], v[42:43]
v_fma_f64 v[44:45], -v[40:41], v[42:43], 1.0
v_fma_f64 v[42:43], v[42:43], v[44:45], v[42:43]
v_div_scale_f64 v[46:47], vcc, v[10:11], v[12:13], v[10:11]
v_mul_f64 v[44:45], v[46:47], v[42:43]
v_fma_f64 v[40:41], -v[40:41], v[44:45], v[46:47]
s_nop 4
v_div_fmas_f64 v[40:41], v[40:41], v[42:43], v[44:45]
v_div_fixup_f64 v[30:31], v[40:41], v[12:13], v[10:11]
"""


def divide(form: Format, a: int, b: int) -> int:
    sign = (a ^ b) & form.sign
    nan = form.infinity | 1 << (form.mantissa_bits - 1)
    if form.is_nan(a) or form.is_nan(b):
        return nan
    if form.is_infinite(a):
        return nan if form.is_infinite(b) else sign | form.infinity
    if form.is_infinite(b):
        return sign
    if form.value(b) == 0:
        return nan if form.value(a) == 0 else sign | form.infinity
    return sign | form.round(abs(form.value(a) / form.value(b)))


def spread(form: Format, count: int) -> tuple[list[int], list[int]]:
    """Random numbers of all exponents, and pairs whose quotient lies about the denormal range."""
    generator = np.random.default_rng(11)
    pairs = all_pairs(operands(form, 6))
    numerators, denominators = list(pairs[0]), list(pairs[1])
    for _ in range(count):
        exponent = int(generator.integers(1, form.exponent_max))
        quotient = int(generator.integers(-form.mantissa_bits - 3, 4))
        for target, power in (
            (denominators, exponent),
            (numerators, exponent - form.bias + quotient),
        ):
            mantissa = int(generator.integers(0, 1 << form.mantissa_bits))
            target.append(max(power, 0) << form.mantissa_bits | mantissa)
    return numerators, denominators


def test_f32_division_sequence_of_any_operands_is_correctly_rounded() -> None:
    numerators, denominators = spread(F32, 3000)

    (result,) = run_elementwise(SINGLE, [low(numerators), low(denominators)], [30])

    same = same_float(F32)
    for a, b, got in zip(numerators, denominators, result, strict=True):
        expected = divide(F32, a, b)
        assert same(int(got), expected), f"{a:#x} / {b:#x} = {int(got):#x}, expected {expected:#x}"


def test_f64_division_sequence_of_any_operands_is_correctly_rounded() -> None:
    numerators, denominators = spread(F64, 1500)
    inputs = [low(numerators), high(numerators), low(denominators), high(denominators)]

    first, second = run_elementwise(DOUBLE, inputs, [30, 31])

    same = same_float(F64)
    for a, b, x, y in zip(numerators, denominators, first, second, strict=True):
        got, expected = int(x) | int(y) << 32, divide(F64, a, b)
        assert same(got, expected), f"{a:#x} / {b:#x} = {got:#x}, expected {expected:#x}"


@pytest.mark.parametrize("segment", [0, 1, 5])
def test_trig_preop_gives_the_segments_of_two_over_pi(segment: int) -> None:
    two_over_pi = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0
    bits = 320
    code = f"v_mov_b32 v60, {segment}\nv_trig_preop_f64 v[30:31], v[10:11], v60"

    first, second = run_elementwise(
        code, [low([F64.round(Fraction(1))]), high([F64.round(Fraction(1))])], [30, 31]
    )

    expected = two_over_pi >> (bits - 53 * (segment + 1)) & (1 << 53) - 1
    value = F64.value(int(first[0]) | int(second[0]) << 32)
    assert value * 2 ** (53 * (segment + 1)) == expected
