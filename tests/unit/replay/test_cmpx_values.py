"""Comparisons that write EXEC besides their destination, with some lanes switched off before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from float_reference import F16, F32, F64, Format, all_pairs, high, low, operands
from lane_runner import LANES, run_elementwise
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

# A condition is the set of relations that fulfil it.
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
FLOAT = {
    "f": 0,
    "lt": LESS,
    "eq": EQUAL,
    "le": LESS | EQUAL,
    "gt": GREATER,
    "lg": LESS | GREATER,
    "ge": GREATER | EQUAL,
    "o": LESS | EQUAL | GREATER,
    "u": UNORDERED,
    "nge": UNORDERED | LESS,
    "nlg": UNORDERED | EQUAL,
    "ngt": UNORDERED | LESS | EQUAL,
    "nle": UNORDERED | GREATER,
    "neq": UNORDERED | LESS | GREATER,
    "nlt": UNORDERED | GREATER | EQUAL,
    "tru": UNORDERED | LESS | EQUAL | GREATER,
}
INTEGER = {
    "f": 0,
    "lt": LESS,
    "eq": EQUAL,
    "le": LESS | EQUAL,
    "gt": GREATER,
    "ne": LESS | GREATER,
    "ge": GREATER | EQUAL,
    "t": LESS | EQUAL | GREATER,
}
FORMATS = {"f16": F16, "f32": F32, "f64": F64}
INTEGER_KINDS = ["i16", "u16", "i32", "u32", "i64", "u64"]

PATTERN = 0x9669C3A5F00F5A3C
ALL = (1 << LANES) - 1
EXEC_MASKS = [PATTERN, ALL ^ PATTERN, 0, 1 << 63]
UPPER_GARBAGE = (0xA5A50000, 0x5A5A0000)  # above 16-bit operands


@dataclass(frozen=True, slots=True)
class Case:
    """One instruction and, for each lane, whether the comparison holds."""

    text: str
    destination: str
    holds: list[bool]


def flushing(text: str) -> str:
    """The instruction with MODE flushing all denormals, and the mode of the kernel after it."""
    mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4)"
    return f"{mode}, 0\n{text}\n{mode}, 15"


def lanes_of(mask: int, count: int) -> Flags:
    return np.array([mask >> (i % LANES) & 1 for i in range(count)], np.bool_)


def check(cases: list[Case], inputs: list[NDArray[np.uint32]]) -> None:
    """Runs each case under each EXEC mask; looks at the destination, EXEC and what EXEC does."""
    runs = [(case, mask) for case in cases for mask in EXEC_MASKS]
    assert len(runs) <= 32
    code = [f"v_mov_b32 v{number}, 0" for number in (30, 31, 32)]
    for bit, (case, mask) in enumerate(runs):
        code.append(
            f"""
            v_mov_b32 v33, {1 << bit:#x}
            s_mov_b64 {case.destination}, {-(bit % 2)}
            s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}
            s_mov_b32 exec_hi, {mask >> 32:#x}
            s_nop 7
            {case.text}
            v_or_b32 v32, v33, v32
            s_nop 7
            s_mov_b64 s[50:51], exec
            s_mov_b64 exec, -1
            s_nop 7
            v_cndmask_b32_e64 v34, 0, v33, {case.destination}
            v_or_b32 v30, v34, v30
            v_cndmask_b32_e64 v34, 0, v33, s[50:51]
            v_or_b32 v31, v34, v31
            """
        )

    results = run_elementwise("\n".join(code), inputs, [30, 31, 32])

    for bit, (case, mask) in enumerate(runs):
        expected = np.array(case.holds, np.bool_) & lanes_of(mask, len(case.holds))
        for what, result in zip(("destination", "EXEC", "active lanes"), results, strict=True):
            got = (result >> np.uint32(bit) & 1).astype(np.bool_)
            wrong = np.flatnonzero(got != expected)
            where = [[hex(int(one[i])) for one in inputs] for i in wrong[:3]]
            assert not len(wrong), f"{case.text}: {what} under {mask:#x} for {where}"


def registers(columns: list[list[int]], width: int) -> list[NDArray[np.uint32]]:
    if width == 64:
        return [half(column) for column in columns for half in (low, high)]
    if width == 16:
        return [low(one) | np.uint32(top) for one, top in zip(columns, UPPER_GARBAGE, strict=True)]
    return [low(column) for column in columns]


def relation(a: int, b: int) -> int:
    return LESS if a < b else EQUAL if a == b else GREATER


def float_order(form: Format, bits: int) -> int:
    """A number that orders as the values do, with both zeros alike."""
    magnitude = bits & (form.sign - 1)
    return -magnitude if bits & form.sign else magnitude


def float_relation(form: Format, a: int, b: int) -> int:
    if form.is_nan(a) or form.is_nan(b):
        return UNORDERED
    return relation(float_order(form, a), float_order(form, b))


def flush(form: Format, bits: int) -> int:
    return bits if bits >> form.mantissa_bits & form.exponent_max else bits & form.sign


def integer(kind: str, bits: int) -> int:
    top = 1 << int(kind[1:])
    return bits - top if kind[0] == "i" and 2 * bits >= top else bits


@pytest.mark.parametrize("condition", FLOAT)
@pytest.mark.parametrize("kind", FORMATS)
def test_float_cmpx_leaves_on_the_lanes_where_its_condition_holds(
    kind: str, condition: str
) -> None:
    form, wanted, name = FORMATS[kind], FLOAT[condition], f"v_cmpx_{condition}_{kind}"
    a, b = all_pairs(operands(form, 0))
    one, magnitude = form.bias << form.mantissa_bits, form.sign - 1
    x, y = ("v[10:11]", "v[12:13]") if form.width == 64 else ("v10", "v11")

    def holds(first: list[int], second: list[int]) -> list[bool]:
        return [
            bool(wanted & float_relation(form, p, q)) for p, q in zip(first, second, strict=True)
        ]

    plain = holds(a, b)
    modified = holds([p ^ form.sign for p in a], [q & magnitude for q in b])
    flushed = holds([flush(form, p) for p in a], [flush(form, q) for q in b])
    cases = [
        Case(f"{name}_e32 vcc, {x}, {y}", "vcc", plain),
        Case(f"{name}_e32 vcc, 1.0, {y}", "vcc", holds([one] * len(b), b)),
        Case(f"{name}_e64 s[40:41], {x}, {y}", "s[40:41]", plain),
        Case(f"{name}_e64 s[42:43], {x}, 1.0", "s[42:43]", holds(a, [one] * len(a))),
        Case(f"{name}_e64 s[44:45], -{x}, |{y}|", "s[44:45]", modified),
        Case(flushing(f"{name}_e32 vcc, {x}, {y}"), "vcc", flushed),
        Case(flushing(f"{name}_e64 s[46:47], {x}, {y}"), "s[46:47]", flushed),
    ]

    check(cases, registers([a, b], form.width))


@pytest.mark.parametrize("condition", INTEGER)
@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_integer_cmpx_leaves_on_the_lanes_where_its_condition_holds(
    kind: str, condition: str
) -> None:
    width, wanted, name = int(kind[1:]), INTEGER[condition], f"v_cmpx_{condition}_{kind}"
    top = 1 << width
    half = 1 << width // 2
    values = [0, 1, 2, half - 1, half, half + 1, top - half - 1, top - half, top - 2, top - 1]
    values += [top // 2 - 1, top // 2, top // 2 + 1]
    values += [0xA5A5A5A5A5A5A5A5 % top, 0x5A5A5A5A5A5A5A5A % top]
    a, b = all_pairs(values)
    x, y = ("v[10:11]", "v[12:13]") if width == 64 else ("v10", "v11")

    def holds(first: list[int], second: list[int]) -> list[bool]:
        return [
            bool(wanted & relation(integer(kind, p), integer(kind, q)))
            for p, q in zip(first, second, strict=True)
        ]

    ones = [top - 1] * len(a)
    cases = [
        Case(f"{name}_e32 vcc, {x}, {y}", "vcc", holds(a, b)),
        Case(f"{name}_e32 vcc, -1, {y}", "vcc", holds(ones, b)),
        Case(f"{name}_e64 s[40:41], {x}, {y}", "s[40:41]", holds(a, b)),
        Case(f"{name}_e64 s[42:43], {x}, -1", "s[42:43]", holds(a, ones)),
        Case(f"{name}_e64 vcc, {y}, {x}", "vcc", holds(b, a)),
    ]

    check(cases, registers([a, b], width))


def float_class(form: Format, bits: int) -> int:
    """Number of the mask's bit that asks for this value."""
    magnitude = bits & (form.sign - 1)
    if magnitude > form.infinity:
        return 1 if magnitude >> form.mantissa_bits - 1 & 1 else 0
    if magnitude == form.infinity:
        away = 3
    elif magnitude >> form.mantissa_bits:
        away = 2
    else:
        away = 1 if magnitude else 0
    return 5 - away if bits & form.sign else 6 + away


@pytest.mark.parametrize("kind", FORMATS)
def test_class_cmpx_leaves_on_the_lanes_whose_class_the_mask_names(kind: str) -> None:
    form, name = FORMATS[kind], f"v_cmpx_class_{kind}"
    choices = [1 << bit for bit in range(10)]
    choices += [0, 0x3FF, 0x155, 0x2AA, 0x3FC, 0x003, 0xFC00, 0xFE9A, 0xFFFF]
    values = operands(form, 2)
    a = [bits for bits in values for _ in choices]
    masks = choices * len(values)
    one = form.bias << form.mantissa_bits
    x, y = ("v[10:11]", "v12") if form.width == 64 else ("v10", "v11")

    def holds(numbers: list[int]) -> list[bool]:
        return [
            bool(mask >> float_class(form, bits) & 1)
            for bits, mask in zip(numbers, masks, strict=True)
        ]

    cases = [
        Case(f"{name}_e32 vcc, {x}, {y}", "vcc", holds(a)),
        Case(f"{name}_e32 vcc, 1.0, {y}", "vcc", holds([one] * len(a))),
        Case(f"{name}_e64 s[40:41], {x}, {y}", "s[40:41]", holds(a)),
        Case(f"{name}_e64 s[42:43], -{x}, {y}", "s[42:43]", holds([v ^ form.sign for v in a])),
        Case(f"{name}_e64 vcc, -|{x}|, {y}", "vcc", holds([v | form.sign for v in a])),
        Case(flushing(f"{name}_e32 vcc, {x}, {y}"), "vcc", holds(a)),
    ]
    inputs = registers([a, masks], form.width)

    check(cases, inputs[:3] if form.width == 64 else inputs)


def test_cmpx_with_a_destination_of_its_own_keeps_vcc_and_scc() -> None:
    code = """
    s_mov_b32 vcc_lo, 0x12345678
    s_mov_b32 vcc_hi, 0x9abcdef0
    s_cmp_eq_u32 0, 0
    v_cmpx_gt_u32_e64 s[40:41], 3, v10
    s_cselect_b32 s42, 5, 6
    s_mov_b64 exec, -1
    v_mov_b32 v30, vcc_lo
    v_mov_b32 v31, vcc_hi
    v_mov_b32 v32, s42
    """

    results = run_elementwise(code, [np.arange(LANES, dtype=np.uint32)], [30, 31, 32])

    assert [int(one[0]) for one in results] == [0x12345678, 0x9ABCDEF0, 5]
