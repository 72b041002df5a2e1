"""Conversions between number formats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from float_reference import F16, F32, F64, Format, high, low, operands, same_float
from lane_runner import run_elementwise

BF16 = Format(width=16, mantissa_bits=7, bias=127)
OVERFLOW_ON = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n"


def to_integer(form: Format, bits: int, smallest: int, largest: int) -> int:
    if form.is_nan(bits):
        return 0
    if form.is_infinite(bits):
        return smallest if bits & form.sign else largest
    return max(smallest, min(largest, math.trunc(form.value(bits))))


def change(source: Format, target: Format, bits: int) -> int:
    sign = target.sign if bits & source.sign else 0
    if source.is_nan(bits):
        return target.infinity | 1 << (target.mantissa_bits - 1)
    if source.is_infinite(bits):
        return sign | target.infinity
    return sign | target.round(abs(source.value(bits)))


def toward_zero(bits: int) -> int:
    """f32 to f16."""
    nearest = change(F32, F16, bits)
    if F32.is_nan(bits) or F32.is_infinite(bits):
        return nearest
    exact = abs(F32.value(bits))
    magnitude = nearest & 0x7FFF
    if F16.is_infinite(magnitude) or F16.value(magnitude) > exact:
        magnitude -= 1
    return nearest & 0x8000 | magnitude


FLOAT_TO_32: dict[str, tuple[Format, Callable[[int], int]]] = {
    "v_cvt_i32_f32": (F32, lambda b: to_integer(F32, b, -(1 << 31), (1 << 31) - 1)),
    "v_cvt_u32_f32": (F32, lambda b: to_integer(F32, b, 0, (1 << 32) - 1)),
    "v_cvt_i32_f64": (F64, lambda b: to_integer(F64, b, -(1 << 31), (1 << 31) - 1)),
    "v_cvt_u32_f64": (F64, lambda b: to_integer(F64, b, 0, (1 << 32) - 1)),
    "v_cvt_i16_f16": (F16, lambda b: to_integer(F16, b, -(1 << 15), (1 << 15) - 1) & 0xFFFF),
    "v_cvt_u16_f16": (F16, lambda b: to_integer(F16, b, 0, (1 << 16) - 1)),
    "v_cvt_f16_f32": (F32, lambda b: change(F32, F16, b)),
    "v_cvt_f32_f16": (F16, lambda b: change(F16, F32, b)),
    "v_cvt_f32_f64": (F64, lambda b: change(F64, F32, b)),
}
FORMATS = {"f16": F16, "f32": F32}


@pytest.mark.parametrize("name", FLOAT_TO_32)
def test_conversion_from_float_of_any_value_saturates_or_rounds(name: str) -> None:
    form, reference = FLOAT_TO_32[name]
    values = operands(form, 600)
    if form.width == 64:
        inputs, source = [low(values), high(values)], "v[10:11]"
    else:
        inputs, source = [low(values)], "v10"

    (result,) = run_elementwise(f"{name} v30, {source}", inputs, [30])

    target = FORMATS.get(name.split("_")[2])
    for bits, got in zip(values, result, strict=True):
        expected = reference(bits) & 0xFFFFFFFF
        same = same_float(target)(int(got), expected) if target else int(got) == expected
        assert same, f"{name}({bits:#x}) = {int(got):#x}, expected {expected:#x}"


def test_conversion_to_f64_of_f32_and_integers_is_exact() -> None:
    values = operands(F32, 300)
    code = "v_cvt_f64_f32 v[30:31], v10\nv_cvt_f64_i32 v[32:33], v10\nv_cvt_f64_u32 v[34:35], v10"

    out = run_elementwise(code, [low(values)], list(range(30, 36)))

    for i, bits in enumerate(values):
        single, signed, unsigned = (int(out[j][i]) | int(out[j + 1][i]) << 32 for j in (0, 2, 4))
        assert same_float(F64)(single, change(F32, F64, bits))
        assert F64.value(signed) == (bits - (1 << 32) if bits >> 31 else bits)
        assert F64.value(unsigned) == bits


def test_conversion_to_f32_of_integers_and_bytes_rounds_to_nearest() -> None:
    values = [*operands(F32, 300), 16777217, 16777219, 4294967167, 4294967168]
    code = "v_cvt_f32_i32 v30, v10\nv_cvt_f32_u32 v31, v10\n"
    code += "\n".join(f"v_cvt_f32_ubyte{i} v{32 + i}, v10" for i in range(4))
    code += "\nv_cvt_off_f32_i4 v36, v10"

    out = run_elementwise(code, [low(values)], list(range(30, 37)))

    for i, bits in enumerate(values):
        nibble = (bits & 15) - 16 if bits & 8 else bits & 15
        exact = [bits - (1 << 32) if bits >> 31 else bits, bits]
        exact += [bits >> 8 * byte & 0xFF for byte in range(4)]
        expected = [F32.round(Fraction(x)) for x in exact] + [F32.round(Fraction(nibble, 16))]
        assert [int(column[i]) for column in out] == expected


def nearest_part(value: Fraction, smallest: Fraction, scale: int) -> int:
    return round(max(smallest, min(Fraction(1), value)) * scale)


def test_packed_conversions_of_f32_round_as_named() -> None:
    values = operands(F32, 300)
    code = "v_cvt_pkrtz_f16_f32 v30, v10, 1.0\nv_cvt_pknorm_i16_f32 v31, v10, -1.0\n"
    code += "v_cvt_pknorm_u16_f32 v32, 0.5, v10\nv_mov_b32 v33, -1\n"
    code += "v_mov_b32 v60, 2\nv_cvt_pk_u8_f32 v33, v10, v60, v33"

    rtz, snorm, unorm, byte = run_elementwise(code, [low(values)], [30, 31, 32, 33])

    for i, bits in enumerate(values):
        assert same_float(F16)(int(rtz[i]) & 0xFFFF, toward_zero(bits)), f"{bits:#x}"
        assert int(rtz[i]) >> 16 == 0x3C00
        if F32.is_nan(bits):
            value = Fraction(0)
        elif F32.is_infinite(bits):
            value = Fraction(-(10**6) if bits >> 31 else 10**6)
        else:
            value = F32.value(bits)
        assert int(snorm[i]) == nearest_part(value, Fraction(-1), 32767) & 0xFFFF | 0x80010000
        assert int(unorm[i]) == nearest_part(value, Fraction(0), 65535) << 16 | 32768
        assert int(byte[i]) == 0xFF00FFFF | nearest_part(value / 255, Fraction(0), 255) << 16


def test_half_conversion_under_fp16_overflow_limits_finite_values() -> None:
    values = [0x47800000, 0xC7C35000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x477FF000]

    (result,) = run_elementwise(OVERFLOW_ON + "v_cvt_f16_f32 v30, v10", [low(values)], [30])

    assert [int(x) for x in result] == [0x7BFF, 0xFBFF, 0x7BFF, 0x7C00, 0xFC00, 0x7BFF]


def test_bf16_conversions_round_to_nearest_even() -> None:
    values = operands(F32, 300)
    code = "v_cvt_pk_bf16_f32 v30, v10, v10\nv_cvt_f32_bf16 v31, v10"

    packed, wide = run_elementwise(code, [low(values)], [30, 31], arch="gfx950")

    for i, bits in enumerate(values):
        expected = change(F32, BF16, bits)
        assert same_float(BF16)(int(packed[i]) & 0xFFFF, expected), f"{bits:#x}"
        assert int(packed[i]) >> 16 == int(packed[i]) & 0xFFFF
        assert int(wide[i]) == (bits & 0xFFFF) << 16


SMALL = {
    # exponent bits, mantissa bits, bias, largest finite code, FNUZ
    ("gfx942", "fp8"): (4, 3, 8, 0x7F, True),
    ("gfx942", "bf8"): (5, 2, 16, 0x7F, True),
    ("gfx950", "fp8"): (4, 3, 7, 0x7E, False),
    ("gfx950", "bf8"): (5, 2, 15, 0x7B, False),
}


def small_value(kind: tuple[str, str], code: int) -> Fraction | float:
    _, mantissa_bits, bias, largest, fnuz = SMALL[kind]
    magnitude, negative = code & 0x7F, code >> 7
    if (fnuz and code == 0x80) or magnitude > largest + (kind[1] == "bf8" and not fnuz):
        return math.nan
    if magnitude > largest:
        return -math.inf if negative else math.inf
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & (1 << mantissa_bits) - 1
    if exponent:
        mantissa |= 1 << mantissa_bits
    value = mantissa * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
    return -value if negative else value


def float_bits(value: Fraction | float, negative: bool) -> int:
    if isinstance(value, float):
        return int(np.float32(value).view(np.uint32)) if not math.isnan(value) else 0x7FC00000
    return F32.round(value, negative)


@pytest.mark.parametrize("kind", SMALL, ids="-".join)
def test_small_float_of_every_code_converts_exactly(kind: tuple[str, str]) -> None:
    codes = np.arange(256, dtype=np.uint32)
    words = (codes | (255 - codes) << 8 | codes << 16).astype(np.uint32)
    code = f"v_cvt_f32_{kind[1]} v30, v10\nv_cvt_f32_{kind[1]}_sdwa v31, v10 src0_sel:BYTE_1\n"
    code += f"v_cvt_pk_f32_{kind[1]} v[32:33], v10"

    first, second, low_half, high_half = run_elementwise(
        code, [words], [30, 31, 32, 33], arch=kind[0]
    )

    same = same_float(F32)
    for i in range(256):
        expected = float_bits(small_value(kind, i), i >= 128)
        assert same(int(first[i]), expected), f"{i:#x}: {int(first[i]):#x}, {expected:#x}"
        assert same(int(second[255 - i]), expected)
        assert low_half[i] == first[i]
        assert high_half[i] == second[i]


@pytest.mark.parametrize("kind", SMALL, ids="-".join)
@pytest.mark.parametrize("saturates", [False, True])
def test_small_float_from_f32_takes_the_nearest_even_code(
    kind: tuple[str, str], saturates: bool
) -> None:
    finite = [c for c in range(128) if c <= SMALL[kind][3]]
    numbers = [small_value(kind, c) for c in finite]
    values = [float(n) for n in numbers]
    values += [float(a + b) / 2 for a, b in itertools.pairwise(numbers)]
    generator = np.random.default_rng(8)
    values += [float(x) for x in generator.normal(0, 1, 300) * 10 ** generator.uniform(-7, 5, 300)]
    inputs = np.array(values + [-v for v in values], np.float32)
    code = f"v_mov_b32 v30, -1\nv_cvt_pk_{kind[1]}_f32 v30, v10, 1.0 op_sel:[0,0,1]"

    (result,) = run_elementwise(
        (OVERFLOW_ON if saturates else "") + code, [inputs.view(np.uint32)], [30], arch=kind[0]
    )

    step = numbers[-1] - numbers[-2]
    for value, word in zip(inputs, result, strict=True):
        got = int(word) >> 16 & 0xFF
        assert int(word) & 0xFFFF == 0xFFFF
        exact = abs(Fraction(float(value)))
        overflows = exact > numbers[-1] + step / 2 or (
            exact == numbers[-1] + step / 2 and finite[-1] & 1
        )
        if overflows and not saturates:
            decoded = small_value(kind, got)
            assert isinstance(decoded, float), f"{value}: {got:#x}"
            continue
        nearest = min(finite, key=lambda c: (abs(numbers[c] - exact), c & 1))
        sign = 0x80 if np.signbit(value) and not (SMALL[kind][4] and nearest == 0) else 0
        assert got == nearest | sign, f"{value}: {got:#x}, expected {nearest | sign:#x}"


@pytest.mark.parametrize("kind", SMALL, ids="-".join)
def test_small_float_from_infinity_under_fp16_overflow_is_the_largest(
    kind: tuple[str, str],
) -> None:
    code = f"v_mov_b32 v30, 0\nv_cvt_pk_{kind[1]}_f32 v30, v10, -v10"

    (result,) = run_elementwise(OVERFLOW_ON + code, [low([0x7F800000])], [30], arch=kind[0])

    largest = SMALL[kind][3]
    assert int(result[0]) == largest | (largest | 0x80) << 8


FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_fp4_with_a_scale_converts_both_ways() -> None:
    values = np.array([0, 0.2, 0.25, 0.3, 0.75, 1.7, 2.5, 3.4, 5, 5.1, 100, -1, -2.5], np.float32)
    scale = 0x40000000  # 2.0
    code = f"v_mov_b32 v60, {scale:#x}\nv_mov_b32 v30, -1\nv_mul_f32 v61, 2.0, v10\n"
    code += "v_cvt_scalef32_pk_fp4_f32 v30, v61, v61, v60 op_sel:[0,0,1,0]\n"
    code += "v_cvt_scalef32_pk_f32_fp4 v[32:33], v30, v60 op_sel:[1,0,0]"

    packed, first, second = run_elementwise(
        code, [values.view(np.uint32)], [30, 32, 33], arch="gfx950"
    )

    for i, value in enumerate(values):
        code_of = min(range(8), key=lambda c: (abs(FP4[c] - abs(float(value))), c & 1))
        nibble = code_of | (8 if value < 0 else 0)
        assert int(packed[i]) == 0xFFFF00FF | (nibble * 0x11) << 8
        expected = np.float32(math.copysign(FP4[code_of] * 2, value))
        assert first.view(np.float32)[i] == expected
        assert second.view(np.float32)[i] == expected


def test_scaled_small_float_of_the_selected_byte_is_multiplied() -> None:
    codes = np.arange(256, dtype=np.uint32)
    words = codes << 8 | (255 - codes) << 16
    code = """
    v_mov_b32 v60, 0x3e912345
    v_mov_b32 v31, -1
    v_cvt_scalef32_f32_fp8 v30, v10, v60 op_sel:[1,0,0]
    v_cvt_scalef32_f16_bf8 v31, v10, v60 op_sel:[0,1,1]
    v_cvt_scalef32_pk_bf16_fp8 v32, v10, v60
    """

    single, half, pair = run_elementwise(
        code, [words.astype(np.uint32)], [30, 31, 32], arch="gfx950"
    )

    quarter = Fraction(1, 4)  # the scale's exponent alone counts
    for i in range(256):
        value = small_value(("gfx950", "fp8"), i)
        expected = float_bits(value if isinstance(value, float) else value * quarter, i >= 128)
        assert same_float(F32)(int(single[i]), expected)
        assert same_float(BF16)(int(pair[i]) >> 16, expected >> 16)
        value = small_value(("gfx950", "bf8"), 255 - i)
        wide = float_bits(value if isinstance(value, float) else value * quarter, 255 - i >= 128)
        assert same_float(F16)(int(half[i]) >> 16, change(F32, F16, wide))
        assert int(half[i]) & 0xFFFF == 0xFFFF
