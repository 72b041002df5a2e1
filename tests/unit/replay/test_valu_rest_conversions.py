"""Conversions, transcendentals and dot products that no other test computes, against exact ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from float_reference import F16, F32, F64, Format, high, low, negate, operands, same_float
from lane_runner import run_elementwise

BF16 = Format(width=16, mantissa_bits=7, bias=127)


def nan(form: Format) -> int:
    return form.infinity | 1 << form.mantissa_bits - 1


def norm_code(bits: int, form: Format, least: int, most: int) -> set[int]:
    """The nearest code; both where two are equally near (the ISA does not say)."""
    if form.is_nan(bits):
        return {0}
    if form.is_infinite(bits):
        return {(least if bits & form.sign else most) & 0xFFFF}
    exact = max(Fraction(least), min(Fraction(most), form.value(bits) * most))
    return {code & 0xFFFF for code in (math.floor(exact), math.ceil(exact))
            if abs(code - exact) <= Fraction(1, 2)}  # fmt: skip


def test_conversions_of_f16_to_normalised_integers_are_nearest() -> None:
    values = operands(F16, 250)
    code = "v_cvt_norm_i16_f16 v30, v10\nv_cvt_norm_u16_f16 v31, v10\n"
    code += "v_cvt_pknorm_i16_f16 v32, v10, -v10\nv_cvt_pknorm_u16_f16 v33, v10, -v10"

    i16, u16, pk_i16, pk_u16 = run_elementwise(code, [low(values)], [30, 31, 32, 33])

    for row, bits in enumerate(values):
        other = negate(F16, bits)
        assert int(i16[row]) & 0xFFFF in norm_code(bits, F16, -32767, 32767), hex(bits)
        assert int(u16[row]) & 0xFFFF in norm_code(bits, F16, 0, 65535), hex(bits)
        assert int(pk_i16[row]) & 0xFFFF in norm_code(bits, F16, -32767, 32767), hex(bits)
        assert int(pk_i16[row]) >> 16 in norm_code(other, F16, -32767, 32767), hex(bits)
        assert int(pk_u16[row]) & 0xFFFF in norm_code(bits, F16, 0, 65535), hex(bits)
        assert int(pk_u16[row]) >> 16 in norm_code(other, F16, 0, 65535), hex(bits)


def narrow(bits: int) -> int:
    if F32.is_nan(bits):
        return nan(F16)
    if F32.is_infinite(bits):
        return F16.infinity | bits >> 16 & 0x8000
    return F16.round(F32.value(bits), bool(bits >> 31))


def test_packed_conversion_to_f16_rounds_to_nearest_even() -> None:
    values = [*operands(F32, 100), 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x3F801000]
    code = "v_cvt_pk_f16_f32 v30, v10, v11"

    (got,) = run_elementwise(code, [low(values), low(values[::-1])], [30], arch="gfx950")

    for a, b, actual in zip(values, values[::-1], got.tolist(), strict=True):
        assert same_float(F16)(actual & 0xFFFF, narrow(a)), hex(a)
        assert same_float(F16)(actual >> 16, narrow(b)), hex(b)


def test_accumulating_conversion_to_u8_replaces_one_byte_of_the_destination() -> None:
    cases = {0.0: 0, -5e-324: 0, 1.0: 1, 254.0: 254, 255.0: 255, 256.0: 255, 1e30: 255, -1.0: 0,
             math.inf: 255, -math.inf: 0, math.nan: 0, 1e-40: 0, 77.25: 77, 76.75: 77}  # fmt: skip
    values = np.array([*cases] * 4, np.float32).view(np.uint32)
    places = np.repeat(np.arange(4, dtype=np.uint32), len(cases))
    code = "v_mov_b32 v30, 0x12345678\nv_cvt_pkaccum_u8_f32 v30, v10, v11"

    (got,) = run_elementwise(code, [values, places], [30])

    for byte, place, actual in zip([*cases.values()] * 4, places.tolist(), got, strict=True):
        expected = 0x12345678 & ~(0xFF << 8 * place) | byte << 8 * place
        assert int(actual) == expected, f"{byte} in {place}: {int(actual):#x}"


def small_value(name: str, code: int) -> Fraction | float:
    """OCP E4M3, E5M2 and E2M1."""
    mantissa_bits, exponent_bits, bias = {"fp8": (3, 4, 7), "bf8": (2, 5, 15), "fp4": (1, 2, 1)}[
        name
    ]
    magnitude = code & (1 << mantissa_bits + exponent_bits) - 1
    if (name == "fp8" and magnitude == 0x7F) or (name == "bf8" and magnitude > 0x7C):
        return math.nan
    sign = -1 if code >> mantissa_bits + exponent_bits else 1
    if name == "bf8" and magnitude == 0x7C:
        return sign * math.inf
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & (1 << mantissa_bits) - 1
    mantissa |= (exponent > 0) << mantissa_bits
    return sign * mantissa * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)


def widened(name: str, code: int, form: Format, scale: int) -> int:
    value = small_value(name, code)
    sign = form.sign if code >> (3 if name == "fp4" else 7) else 0
    if isinstance(value, float):
        return nan(form) if math.isnan(value) else sign | form.infinity
    return form.round(value * Fraction(2) ** ((scale >> 23) - 127), bool(sign))


WIDE = {"f32": F32, "f16": F16, "bf16": BF16}


@pytest.mark.parametrize(
    "kind",
    ["f16_fp8", "f32_bf8", "pk_bf16_bf8", "pk_bf16_fp4", "pk_f16_bf8", "pk_f16_fp4", "pk_f16_fp8",
     "pk_f32_bf8", "pk_f32_fp8"],
)  # fmt: skip
def test_scaled_conversion_from_a_small_format_multiplies_by_the_power_of_two(kind: str) -> None:
    *packed, wide, name = kind.split("_")
    form, width = WIDE[wide], 4 if name == "fp4" else 8
    step = 8 if not packed or name == "fp4" else 16
    places = range(32 // step)
    sources = [one * 0x01010101 ^ (one * 0x2B9C0D00 & 0xFF00FF00) for one in range(256)]
    sources += sources[::-1]
    scales = [(0x3F800000, 0x3E923456, 0x4B000000, 0x32000000, 0x7E800000, 0x00800000)[i % 6]
              for i in range(512)]  # fmt: skip
    lines = []
    for place in places:
        first = 30 + 2 * place
        target = f"v[{first}:{first + 1}]" if packed and wide == "f32" else f"v{first}"
        op_sel = f"op_sel:[{place & 1},{place >> 1},0]" if place else ""
        lines.append(f"v_mov_b32 v{first}, 0")
        lines.append(f"v_cvt_scalef32_{kind} {target}, v10, v11 {op_sel}")

    got = run_elementwise(
        "\n".join(lines),
        [low(sources), low(scales)],
        list(range(30, 30 + 2 * len(places))),
        arch="gfx950",
    )

    for row, (word, scale) in enumerate(zip(sources, scales, strict=True)):
        for place in places:
            part = int(got[2 * place][row]) | int(got[2 * place + 1][row]) << 32
            for i in range(2 if packed else 1):
                source = word >> place * step + i * width & (1 << width) - 1
                actual = part >> i * form.width & (1 << form.width) - 1
                expected = widened(name, source, form, scale)
                assert same_float(form)(actual, expected), (
                    f"{source:#x} times {scale:#x}: {actual:#x}, {expected:#x}"
                )


def bounded(form: Format, bits: int, exact: float, slack: float) -> bool:
    """Whether bits is the exact value rounded, after an error of some hundredths of an ulp."""
    if math.isnan(exact) or math.isinf(exact):
        expected = nan(form) if math.isnan(exact) else form.infinity | form.sign * (exact < 0)
        return same_float(form)(bits, expected)
    if exact == 0:
        return bits & (form.sign - 1) == 0
    exponent = max(math.frexp(exact)[1] - 1, 1 - form.bias)
    step = Fraction(2) ** (exponent - form.mantissa_bits) * Fraction(slack)
    key = {0: 0, form.sign: 0}
    lowest, highest = (form.round(Fraction(exact) + d) for d in (-step, step))
    places = [key.get(x, form.sign - x if x & form.sign else x) for x in (lowest, bits, highest)]
    return places[0] <= places[1] <= places[2]


def turns(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: (
        math.nan if math.isinf(x) else round(function(2 * math.pi * (x - math.floor(x))), 14)
    )


def inverse_root(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.nan if x < 0 else 1 / math.sqrt(x)


def root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


APPROXIMATE: dict[str, Callable[[float], float]] = {
    "exp_f16": lambda x: math.inf if x > 100 else 2.0**x,
    "log_f16": lambda x: -math.inf if x == 0 else math.nan if x < 0 else math.log2(x),
    "rcp_f16": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x,
    "rsq_f16": inverse_root,
    "sqrt_f16": root,
    "sin_f16": turns(math.sin),
    "cos_f16": turns(math.cos),
    "rsq_f64": inverse_root,
    "sqrt_f64": root,
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_transcendental_is_as_near_as_the_table_of_instructions_says(name: str) -> None:
    wide = name.endswith("f64")
    form, dtype = (F64, np.float64) if wide else (F16, np.float16)
    values = operands(form, 200)
    code = f"v_{name} " + ("v[30:31], v[10:11]" if wide else "v30, v10")

    if wide:
        parts = run_elementwise(code, [low(values), high(values)], [30, 31])
        got = [int(a) | int(b) << 32 for a, b in zip(*parts, strict=True)]
    else:
        (words,) = run_elementwise(code, [low(values)], [30])
        got = [int(word) & 0xFFFF for word in words]

    for bits, actual in zip(values, got, strict=True):
        x = float(np.array(bits, f"u{form.width // 8}").view(dtype))
        if name[:3] in ("sin", "cos") and 256 < abs(x) < math.inf:
            continue  # outside of the domain
        exact = math.nan if math.isnan(x) else APPROXIMATE[name](x)
        assert bounded(form, actual, exact, 0.55 if wide else 0.01), (
            f"{x} ({bits:#x}): {actual:#x}, {exact}"
        )


def test_bf16_dot_products_add_two_products_to_a_third_term() -> None:
    generator = np.random.default_rng(9)
    count = 512
    parts = generator.integers(-64, 65, (5, count)).tolist()
    parts[4] = [one / 4 for one in parts[4]]
    b16 = [[BF16.round(Fraction(x)) for x in part] for part in parts[:4]]
    a, b = (low([x | y << 16 for x, y in zip(*pair, strict=True)]) for pair in (b16[:2], b16[2:]))
    special = {0: 0x7F80, 1: 0x7FC0, 2: 0xFF80}
    for row, bits in special.items():
        a[row], b[row] = bits, 0x3F803F80
    c = np.array(parts[4], np.float32)
    code = "v_dot2_f32_bf16 v30, v10, v11, v12\nv_mov_b32 v31, v12\nv_dot2c_f32_bf16 v31, v10, v11"

    results = run_elementwise(code, [a, b, c.view(np.uint32)], [30, 31], arch="gfx950")

    for got in results:
        assert got[:3].view(np.float32).tolist()[::2] == [math.inf, -math.inf]
        assert F32.is_nan(int(got[1]))
        for row in range(3, count):
            exact = sum(parts[i][row] * parts[i + 2][row] for i in (0, 1)) + parts[4][row]
            assert float(got.view(np.float32)[row]) == exact, row
