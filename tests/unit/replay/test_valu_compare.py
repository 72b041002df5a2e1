"""Vector comparisons and class tests of every type and condition."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from float_reference import F16, F32, F64, Format, all_pairs, high, low, operands
from lane_runner import LANES, run_elementwise

Number = int | float | Fraction
Condition = Callable[[Number, Number], bool]


def is_unordered(a: Number, b: Number) -> bool:
    return any(isinstance(x, float) and math.isnan(x) for x in (a, b))


def negated(condition: Condition) -> Condition:
    return lambda a, b: not condition(a, b)


def less_or_greater(a: Number, b: Number) -> bool:
    return a < b or a > b


FLOAT: dict[str, Condition] = {
    "f": lambda a, b: False,
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "lg": less_or_greater,
    "ge": operator.ge,
    "o": negated(is_unordered),
    "u": is_unordered,
    "nge": negated(operator.ge),
    "nlg": negated(less_or_greater),
    "ngt": negated(operator.gt),
    "nle": negated(operator.le),
    "neq": operator.ne,
    "nlt": negated(operator.lt),
    "tru": lambda a, b: True,
}
INTEGER: dict[str, Condition] = {
    "f": lambda a, b: False,
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "ne": operator.ne,
    "ge": operator.ge,
    "t": lambda a, b: True,
}


def number(form: Format, bits: int) -> Number:
    if form.is_nan(bits):
        return math.nan
    if form.is_infinite(bits):
        return -math.inf if bits & form.sign else math.inf
    return form.value(bits)


def integer(kind: str, bits: int) -> int:
    width = int(kind[1:])
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "i" and bits >> (width - 1) else bits


def compare(names: list[str], kind: str, columns: list[list[int]]) -> list[np.ndarray]:
    wide = kind.endswith("64")
    sources = "v[10:11], v[12:13]" if wide else "v10, v11"
    code = "\n".join(
        f"v_cmp_{name}_{kind} vcc, {sources}\nv_cndmask_b32 v{30 + i}, 0, 1, vcc"
        for i, name in enumerate(names)
    )
    parts = (low, high) if wide else (low,)
    inputs = [part(column) for column in columns for part in parts]
    results: list[np.ndarray] = []
    for first in range(0, len(names), 8):
        outputs = [30 + first + i for i in range(len(names[first : first + 8]))]
        results += run_elementwise(code, inputs, outputs)
    return results


@pytest.mark.parametrize("form", [F16, F32, F64], ids=["f16", "f32", "f64"])
def test_float_comparison_of_any_values_follows_its_condition(form: Format) -> None:
    columns = list(all_pairs(operands(form, 4)))

    results = compare(list(FLOAT), f"f{form.width}", columns)

    for name, result in zip(FLOAT, results, strict=True):
        for a, b, got in zip(*columns, result, strict=True):
            expected = FLOAT[name](number(form, a), number(form, b))
            assert bool(got) == expected, f"{name} {a:#x} {b:#x}"


@pytest.mark.parametrize("kind", ["i16", "u16", "i32", "u32", "i64", "u64"])
def test_integer_comparison_of_any_values_follows_its_condition(kind: str) -> None:
    top = 1 << int(kind[1:])
    values = [0, 1, 2, top // 2 - 1, top // 2, top // 2 + 1, top - 2, top - 1, 0xA5A5 % top]
    columns = list(all_pairs(values))

    results = compare(list(INTEGER), kind, columns)

    for name, result in zip(INTEGER, results, strict=True):
        for a, b, got in zip(*columns, result, strict=True):
            expected = INTEGER[name](integer(kind, a), integer(kind, b))
            assert bool(got) == expected, f"{name}_{kind} {a:#x} {b:#x}"


def class_bit(form: Format, bits: int) -> int:
    negative = bool(bits & form.sign)
    if form.is_nan(bits):
        return 1 if bits >> (form.mantissa_bits - 1) & 1 else 0
    if form.is_infinite(bits):
        return 2 if negative else 9
    magnitude = bits & (form.sign - 1)
    if magnitude >> form.mantissa_bits:
        return 3 if negative else 8
    if magnitude:
        return 4 if negative else 7
    return 5 if negative else 6


@pytest.mark.parametrize("form", [F16, F32, F64], ids=["f16", "f32", "f64"])
def test_class_test_of_any_value_reads_its_one_bit(form: Format) -> None:
    values, masks = all_pairs(operands(form, 4))
    masks = [1 << (i * 7 % 10) for i in range(len(values))]
    wide = form.width == 64
    source, mask = ("v[10:11]", "v12") if wide else ("v10", "v11")
    code = f"v_cmp_class_f{form.width} vcc, {source}, {mask}\nv_cndmask_b32 v30, 0, 1, vcc"
    inputs = [low(values), high(values), low(masks)] if wide else [low(values), low(masks)]

    (result,) = run_elementwise(code, inputs, [30])

    for bits, wanted, got in zip(values, masks, result, strict=True):
        assert bool(got) == bool(wanted >> class_bit(form, bits) & 1), f"{bits:#x} {wanted:#x}"


def test_compare_under_exec_clears_the_bits_of_inactive_lanes() -> None:
    lanes = np.arange(LANES, dtype=np.uint32)
    code = """
    s_mov_b32 exec_lo, 0xff
    s_mov_b32 exec_hi, 0
    v_cmp_le_u32_e64 s[40:41], 4, v10
    s_mov_b64 exec, -1
    v_mov_b32 v30, s40
    v_mov_b32 v31, s41
    """

    low_half, high_half = run_elementwise(code, [lanes], [30, 31])

    assert low_half[0] == 0xF0
    assert high_half[0] == 0


def test_cmpx_writes_exec_and_its_destination() -> None:
    lanes = np.arange(LANES, dtype=np.uint32)
    code = """
    v_mov_b32 v30, 7
    v_cmpx_gt_u32_e64 s[40:41], 3, v10
    v_mov_b32 v30, 9
    s_mov_b64 exec, -1
    v_mov_b32 v31, s40
    """

    written, mask = run_elementwise(code, [lanes], [30, 31])

    assert (written == np.where(lanes < 3, 9, 7)).all()
    assert mask[0] == 0b111
