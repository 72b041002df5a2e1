"""Vector operations that compilers hardly emit: f16 mads, constants in mads, dots, cube maps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from float_reference import F16, F32, Format, add, fma, low, multiply, operands, same_float
from lane_runner import run_elementwise

ARCHES = ("gfx90a", "gfx942", "gfx950")


def columns(form: Format, count: int, seed: int) -> list[list[int]]:
    values = operands(form, 40)
    generator = np.random.default_rng(seed)
    return [[values[i] for i in generator.integers(0, len(values), count)] for _ in range(3)]


def flush(form: Format, bits: int) -> int:
    return bits & form.sign if not bits & form.infinity else bits


def mad(form: Format, a: int, b: int, c: int) -> int:
    """Product and sum each rounded, denormals flushed at every step."""
    product = flush(form, multiply(form, flush(form, a), flush(form, b)))
    return flush(form, add(form, product, flush(form, c)))


def test_f16_mads_round_product_and_sum_and_flush() -> None:
    a, b, c = columns(F16, 1200, 3)
    constant = 0x3555
    code = f"""
    v_mov_b32 v30, -1
    v_mad_f16 v30, v10, v11, v12
    v_mad_legacy_f16 v31, v10, v11, v12
    v_mov_b32 v32, v12
    v_mac_f16 v32, v10, v11
    v_madmk_f16 v33, v10, {constant:#x}, v12
    v_madak_f16 v34, v10, v11, {constant:#x}
    """

    out = run_elementwise(code, [low(one) for one in (a, b, c)], list(range(30, 35)))

    same = same_float(F16)
    for x, y, z, *results in zip(a, b, c, *out, strict=True):
        plain, with_factor, with_term = (
            mad(F16, *one) for one in ((x, y, z), (x, constant, z), (x, y, constant))
        )
        assert results[0] >> 16 == 0xFFFF  # GFX9's v_mad_f16 keeps the upper half
        assert same(int(results[0]) & 0xFFFF, plain), f"{x:#x} {y:#x} {z:#x}"
        assert same(int(results[1]), plain) and same(int(results[2]), plain)
        assert same(int(results[3]), with_factor)
        assert same(int(results[4]), with_term)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_f32_mads_with_a_constant_take_it_in_its_place(arch: str) -> None:
    a, b, c = columns(F32, 600, 4)
    constant = 0x40490FDB
    name, model = ("mad", mad) if arch == "gfx90a" else ("fma", fma)
    code = (
        f"v_{name}mk_f32 v30, v10, {constant:#x}, v12\nv_{name}ak_f32 v31, v10, v11, {constant:#x}"
    )

    with_factor, with_term = run_elementwise(code, [low(x) for x in (a, b, c)], [30, 31], arch=arch)

    same = same_float(F32)
    for x, y, z, first, second in zip(a, b, c, with_factor, with_term, strict=True):
        assert same(int(first), model(F32, x, constant, z))
        assert same(int(second), model(F32, x, y, constant))


def test_legacy_multiplication_of_zero_by_anything_is_zero() -> None:
    values = [0, 0x80000000, 0x7F800000, 0x7FC00000, 0x3F800000, 0xC0490FDB]
    pairs = [(a, b) for a in values for b in values]
    inputs = [low([a for a, _ in pairs]), low([b for _, b in pairs])]

    (product,) = run_elementwise("v_mul_legacy_f32 v30, v10, v11", inputs, [30])

    for (a, b), got in zip(pairs, product, strict=True):
        is_zero = 0 in (a & 0x7FFFFFFF, b & 0x7FFFFFFF)
        expected = 0 if is_zero else multiply(F32, a, b)
        assert same_float(F32)(int(got), expected), f"{a:#x} {b:#x}: {int(got):#x}"


def nearest_up(bits: int, offset: Fraction) -> int:
    """floor(x + offset), the sum rounded to f32, saturated; NaN gives zero."""
    if F32.is_nan(bits):
        return 0
    if F32.is_infinite(bits):
        return -(1 << 31) if bits & F32.sign else (1 << 31) - 1
    total = F32.value(F32.round(F32.value(bits) + offset))
    return max(-(1 << 31), min((1 << 31) - 1, math.floor(total)))


def test_conversion_to_integer_by_floor_and_by_rounding_up_halves() -> None:
    values = operands(F32, 400)
    values += [F32.round(Fraction(n, 2)) for n in range(-9, 10)]

    rounded, floored = run_elementwise(
        "v_cvt_rpi_i32_f32 v30, v10\nv_cvt_flr_i32_f32 v31, v10", [low(values)], [30, 31]
    )

    for bits, up, down in zip(values, rounded.view(np.int32), floored.view(np.int32), strict=True):
        assert int(up) == nearest_up(bits, Fraction(1, 2)), f"{bits:#x}"
        assert int(down) == nearest_up(bits, Fraction(0)), f"{bits:#x}"


@pytest.mark.parametrize("arch", ARCHES)
def test_legacy_exponential_and_logarithm_are_the_ordinary_ones(arch: str) -> None:
    values = [bits for bits in operands(F32, 200) if not F32.is_nan(bits)]
    code = "\n".join(
        f"v_{name}_f32 v{at}, v10"
        for at, name in enumerate(("exp", "exp_legacy", "log", "log_legacy"), start=30)
    )

    exp, exp_legacy, log, log_legacy = run_elementwise(
        code, [low(values)], list(range(30, 34)), arch=arch
    )

    assert np.array_equal(exp, exp_legacy)
    assert np.array_equal(log, log_legacy)


def parts(word: int, bits: int) -> list[int]:
    """Signed elements, the lowest first."""
    fields = (word >> at & (1 << bits) - 1 for at in range(0, 32, bits))
    return [field - (1 << bits) if field >> bits - 1 else field for field in fields]


@pytest.mark.parametrize(
    ("name", "bits"), [("dot2c_i32_i16", 16), ("dot4c_i32_i8", 8), ("dot8c_i32_i4", 4)]
)
def test_accumulating_integer_dot_products_add_to_the_destination(name: str, bits: int) -> None:
    generator = np.random.default_rng(6)
    a, b, c = (generator.integers(0, 1 << 32, 300, dtype=np.uint32) for _ in range(3))

    (result,) = run_elementwise(f"v_mov_b32 v30, v12\nv_{name} v30, v10, v11", [a, b, c], [30])

    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), result.tolist(), strict=True):
        products = (p * q for p, q in zip(parts(x, bits), parts(y, bits), strict=True))
        assert got == (sum(products) + z) & 0xFFFFFFFF


# Axis by axis: face, then s, t and the doubled major axis, as texture coordinates are defined for
# cube maps (OpenGL 4.6, table 8.19), with the signs of the ISA's pseudocode.
CUBE = [
    ((5, 1, 2), (0, -2, -1, 10)),
    ((-5, 1, 2), (1, 2, -1, -10)),
    ((1, 5, 2), (2, 1, 2, 10)),
    ((1, -5, 2), (3, 1, -2, -10)),
    ((1, 2, 5), (4, 1, -2, 10)),
    ((1, 2, -5), (5, -1, -2, -10)),
    ((3, 3, 1), (2, 3, 1, 6)),
    ((3, 1, 3), (4, 3, -1, 6)),
]


def test_cube_map_operations_choose_the_face_of_the_largest_axis() -> None:
    inputs = [np.array([xyz[i] for xyz, _ in CUBE], np.float32).view(np.uint32) for i in range(3)]
    names = ("cubeid", "cubesc", "cubetc", "cubema")
    code = "\n".join(
        f"v_{name}_f32 v{at}, v10, v11, v12" for at, name in enumerate(names, start=30)
    )

    out = run_elementwise(code, inputs, list(range(30, 34)))

    for i, (xyz, expected) in enumerate(CUBE):
        assert tuple(float(column.view(np.float32)[i]) for column in out) == expected, xyz
