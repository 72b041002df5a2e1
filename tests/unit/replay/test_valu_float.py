"""Float vector operations against exact arithmetic on bits."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import kernel_runner
import numpy as np
import pytest
from float_reference import (
    F16,
    F32,
    F64,
    Format,
    add,
    all_pairs,
    fma,
    high,
    low,
    maximum,
    minimum,
    multiply,
    negate,
    operands,
    ordered,
    same_float,
)
from lane_runner import run_elementwise

from asmevo.native import emulator_library

Op = Callable[..., int]


TWO: dict[str, Callable[[Format, int, int], int]] = {
    "add": add,
    "sub": lambda form, a, b: add(form, a, b if form.is_nan(b) else negate(form, b)),
    "mul": multiply,
    "min": minimum,
    "max": maximum,
}


def run(code: str, form: Format, columns: list[list[int]], arch: str = "gfx942") -> list[int]:
    """Operands in v10, v11, … (64-bit ones in pairs), result in v30 (and v31)."""
    if form.width == 64:
        inputs = [part(one) for one in columns for part in (low, high)]
        first, second = run_elementwise(code, inputs, [30, 31], arch=arch)
        return [int(a) | int(b) << 32 for a, b in zip(first, second, strict=True)]
    (result,) = run_elementwise(code, [low(one) for one in columns], [30], arch=arch)
    return [int(one) for one in result]


def check(name: str, form: Format, columns: list[list[int]], got: list[int], op: Op) -> None:
    same = same_float(form)
    for row, actual in zip(zip(*columns, strict=True), got, strict=True):
        expected = op(form, *row)
        assert same(actual, expected), (
            f"{name}({', '.join(hex(x) for x in row)}) = {actual:#x}, expected {expected:#x}"
        )


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("form", [F16, F32], ids=["f16", "f32"])
def test_float_operation_of_two_sources_is_correctly_rounded(name: str, form: Format) -> None:
    columns = list(all_pairs(operands(form, 12)))

    got = run(f"v_{name}_f{form.width} v30, v10, v11", form, columns)

    check(name, form, columns, got, TWO[name])


@pytest.mark.parametrize("name", ["add", "mul", "min", "max"])
def test_float_operation_of_two_f64_sources_is_correctly_rounded(name: str) -> None:
    columns = list(all_pairs(operands(F64, 8)))

    got = run(f"v_{name}_f64 v[30:31], v[10:11], v[12:13]", F64, columns)

    check(name, F64, columns, got, TWO[name])


FMA = {
    "v_fma_f32 v30, v10, v11, v12": F32,
    "v_fma_f64 v[30:31], v[10:11], v[12:13], v[14:15]": F64,
    "v_mov_b32 v30, 0\nv_fma_f16 v30, v10, v11, v12": F16,
    "v_fma_legacy_f16 v30, v10, v11, v12": F16,
    "v_mov_b32 v30, v12\nv_fmac_f32 v30, v10, v11": F32,
}


@pytest.mark.parametrize("code", FMA)
def test_fused_multiply_add_of_any_sources_rounds_once(code: str) -> None:
    form = FMA[code]
    values = operands(form, 10)
    generator = np.random.default_rng(3)
    columns = [[values[i] for i in generator.integers(0, len(values), 2500)] for _ in range(3)]
    # Sums that cancel almost wholly, where two roundings would show.
    product = [multiply(form, a, b) for a, b in zip(columns[0], columns[1], strict=True)]
    columns[2][:800] = [negate(form, p) for p in product[:800]]

    got = run(code, form, columns)

    check(code, form, columns, got, fma)


def median(form: Format, a: int, b: int, c: int) -> int:
    if any(form.is_nan(x) for x in (a, b, c)):
        return minimum(form, minimum(form, a, b), c)
    largest = maximum(form, maximum(form, a, b), c)
    if ordered(form, largest) == ordered(form, a):
        return maximum(form, b, c)
    if ordered(form, largest) == ordered(form, b):
        return maximum(form, a, c)
    return maximum(form, a, b)


THREE: dict[str, Op] = {
    "min3": lambda form, a, b, c: minimum(form, minimum(form, a, b), c),
    "max3": lambda form, a, b, c: maximum(form, maximum(form, a, b), c),
    "med3": median,
}


@pytest.mark.parametrize("name", THREE)
@pytest.mark.parametrize("form", [F16, F32], ids=["f16", "f32"])
def test_three_source_minimum_and_maximum_follow_amd_nan_rules(name: str, form: Format) -> None:
    values = operands(form, 4)
    generator = np.random.default_rng(5)
    columns = [[values[i] for i in generator.integers(0, len(values), 2000)] for _ in range(3)]

    got = run(f"v_mov_b32 v30, 0\nv_{name}_f{form.width} v30, v10, v11, v12", form, columns)

    check(name, form, columns, got, THREE[name])


def test_denormals_under_flush_mode_become_zeros_of_their_sign() -> None:
    values = [0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000]
    columns = list(all_pairs(values))
    code = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_add_f32 v30, v10, v11\n"
    code += "v_mul_f32 v31, 0.5, v10\nv_max_f32 v32, v10, v10\nv_mov_b32 v33, v10"

    out = run_elementwise(code, [low(one) for one in columns], [30, 31, 32, 33])

    def flush(bits: int) -> int:
        return bits & 0x80000000 if not bits & 0x7F800000 else bits

    for i, (a, b) in enumerate(zip(*columns, strict=True)):
        assert int(out[0][i]) == flush(add(F32, flush(a), flush(b)))
        assert int(out[1][i]) == flush(multiply(F32, 0x3F000000, flush(a)))
        assert int(out[2][i]) == flush(a)
        assert int(out[3][i]) == a


def directed(form: Format, exact: Fraction, field: int) -> int:
    """Rounded to +infinity (1), to -infinity (2) or to zero (3)."""
    nearest = form.round(abs(exact))
    magnitude = form.value(nearest) if not form.is_infinite(nearest) else abs(exact) * 2
    away = (field == 1 and exact > 0) or (field == 2 and exact < 0)
    if away and magnitude < abs(exact):
        nearest += 1
    elif not away and magnitude > abs(exact):
        nearest -= 1
    return nearest | (form.sign if exact < 0 else 0)


ROUNDED: dict[str, tuple[Format, Callable[..., Fraction]]] = {
    "v_add_f32 v30, v10, v11": (F32, lambda a, b, c: a + b),
    "v_fma_f32 v30, v10, v11, v12": (F32, lambda a, b, c: a * b + c),
    "v_add_f16 v30, v10, v11": (F16, lambda a, b, c: a + b),
    "v_mul_f16 v30, v10, v11": (F16, lambda a, b, c: a * b),
    "v_fma_legacy_f16 v30, v10, v11, v12": (F16, lambda a, b, c: a * b + c),
    "v_mul_f64 v[30:31], v[10:11], v[12:13]": (F64, lambda a, b, c: a * b),
    "v_fma_f64 v[30:31], v[10:11], v[12:13], v[14:15]": (F64, lambda a, b, c: a * b + c),
}


@pytest.mark.parametrize("field", [1, 2, 3])
@pytest.mark.parametrize("code", ROUNDED)
def test_rounding_field_of_mode_register_directs_arithmetic(code: str, field: int) -> None:
    form, reference = ROUNDED[code]
    values = [v for v in operands(form, 25) if not form.is_nan(v) and not form.is_infinite(v)]
    generator = np.random.default_rng(13)
    columns = [[values[i] for i in generator.integers(0, len(values), 900)] for _ in range(3)]
    mode = f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, {0 if form is F32 else 2}, 2), {field}\n"

    got = run(mode + code, form, columns)

    for row, actual in zip(zip(*columns, strict=True), got, strict=True):
        exact = reference(*(form.value(one) for one in row))
        if exact != 0:
            expected = directed(form, exact, field)
            assert actual == expected, f"{[hex(x) for x in row]}: {actual:#x}, {expected:#x}"


UNARY: dict[str, Callable[[float], float]] = {
    "v_exp_f32": lambda x: math.inf if x > 200 else 2.0**x if x > -200 else 0.0,
    "v_log_f32": lambda x: -math.inf if x == 0 else math.nan if x < 0 else math.log2(x),
    "v_rcp_f32": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / x,
    "v_sqrt_f32": lambda x: math.nan if x < 0 else math.sqrt(x),
    "v_rsq_f32": lambda x: (
        math.copysign(math.inf, x) if x == 0 else math.nan if x < 0 else 1 / math.sqrt(x)
    ),
}


def ulps(a: int, b: int) -> int:
    def key(bits: int) -> int:
        return -(bits & 0x7FFFFFFF) if bits & 0x80000000 else bits

    return abs(key(a) - key(b))


@pytest.mark.parametrize("name", UNARY)
def test_transcendental_of_any_f32_is_within_an_ulp_and_flushes_denormals(name: str) -> None:
    values = operands(F32, 1500)

    got = run(f"{name} v30, v10", F32, [values])

    for bits, actual in zip(values, got, strict=True):
        flushed = bits & 0x80000000 if not bits & 0x7F800000 else bits
        x = float(np.array(flushed, np.uint32).view(np.float32))
        with np.errstate(all="ignore"):
            expected = int(
                np.float32(math.nan if math.isnan(x) else UNARY[name](x)).view(np.uint32)
            )
        if not expected & 0x7F800000:
            expected &= 0x80000000
        if F32.is_nan(expected):
            assert F32.is_nan(actual), f"{name}({x}) = {actual:#x}"
        else:
            assert ulps(actual, expected) <= 1, f"{name}({x}) = {actual:#x}, {expected:#x}"


def test_sine_and_cosine_of_quarter_turns_are_exact() -> None:
    turns = np.array([0, 0.25, 0.5, 0.75, 1, -0.25, -0.5, 1e30, -1e30, 0.125], np.float32)
    code = "v_sin_f32 v30, v10\nv_cos_f32 v31, v10"

    sine, cosine = run_elementwise(code, [turns.view(np.uint32)], [30, 31])

    root = np.float32(math.sqrt(0.5))
    assert sine.view(np.float32).tolist() == [0, 1, 0, -1, 0, -1, 0, 0, 0, root]
    assert cosine.view(np.float32).tolist() == [1, 0, -1, 0, 1, 0, -1, 1, 1, root]


ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "rndne": round,
}


@pytest.mark.parametrize("name", ROUNDING)
@pytest.mark.parametrize("form", [F16, F32, F64], ids=["f16", "f32", "f64"])
def test_rounding_to_integer_of_any_value_is_exact(name: str, form: Format) -> None:
    values = [one for one in operands(form, 200) if not form.is_nan(one)]
    wide = form.width == 64
    code = f"v_{name}_f{form.width} " + ("v[30:31], v[10:11]" if wide else "v30, v10")

    got = run(code, form, [values])

    for bits, actual in zip(values, got, strict=True):
        if form.is_infinite(bits):
            assert actual == bits
        else:
            whole = ROUNDING[name](form.value(bits))
            expected = form.round(Fraction(whole), bool(bits & form.sign))
            assert actual == expected, f"{name}({bits:#x}) = {actual:#x}, expected {expected:#x}"


def test_frexp_and_ldexp_of_any_f32_take_apart_and_rebuild_it() -> None:
    values = [v for v in operands(F32, 400) if not F32.is_nan(v) and not F32.is_infinite(v)]
    code = "v_frexp_exp_i32_f32 v30, v10\nv_frexp_mant_f32 v31, v10\nv_ldexp_f32 v32, v31, v30\n"
    code += "v_fract_f32 v33, v10\nv_mov_b32 v60, -3\nv_ldexp_f32 v34, v10, v60"

    exponent, mantissa, rebuilt, fraction, scaled = run_elementwise(
        code, [low(values)], [30, 31, 32, 33, 34]
    )

    for i, bits in enumerate(values):
        value = F32.value(bits)
        m, e = math.frexp(float(value))
        assert int(exponent[i]) == e & 0xFFFFFFFF
        assert F32.value(int(mantissa[i])) == Fraction(m)
        assert int(rebuilt[i]) == bits
        below_one = min(F32.round(value - math.floor(value)), 0x3F7FFFFF)
        assert int(fraction[i]) == below_one
        assert int(scaled[i]) == F32.round(value / 8, bool(bits & F32.sign))


# Runs in a process whose thread flushes denormals (MXCSR bits 15 and 6).
FLUSHING_HOST = """
import ctypes, sys
import kernel_child, kernel_runner
library = ctypes.CDLL(None)
environment = (ctypes.c_uint32 * 8)()
library.fegetenv(environment)
environment[7] |= 0x8040
library.fesetenv(environment)
code = kernel_runner._build(sys.stdin.read(), "gfx942")
runtime = kernel_child._Runtime(sys.argv[1])
request = {"code_object": code, "buffers": [bytes(256)], "grid": (1, 1, 1), "block": (64, 1, 1)}
print(kernel_child._run(runtime, request)[0].hex())
"""


def test_host_thread_that_flushes_denormals_does_not_change_results() -> None:
    body = "v_mov_b32 v1, 0x00400000\nv_add_f32 v2, v1, v1\nv_mul_f32 v2, 0.5, v2\n"
    body += "v_lshlrev_b32 v0, 2, v0\nglobal_store_dword v0, v2, s[4:5]"
    source = kernel_runner._source("gfx942", body, 1, kernel_runner.KernelOptions())
    folder = Path(__file__).parent

    done = subprocess.run(
        [sys.executable, "-c", FLUSHING_HOST, str(emulator_library())],
        input=source,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{folder}:{folder.parents[2]}"},
    )

    assert np.frombuffer(bytes.fromhex(done.stdout), np.uint32).tolist() == [0x00400000] * 64


def test_unfused_mad_of_gfx90a_flushes_and_rounds_twice() -> None:
    values = operands(F32, 30)
    generator = np.random.default_rng(12)
    columns = [[values[i] for i in generator.integers(0, len(values), 1500)] for _ in range(3)]
    code = "v_mad_f32 v30, v10, v11, v12\nv_mov_b32 v31, v12\nv_mac_f32 v31, v10, v11"

    mad, mac = run_elementwise(code, [low(one) for one in columns], [30, 31], arch="gfx90a")

    def flush(bits: int) -> int:
        return bits & 0x80000000 if not bits & 0x7F800000 else bits

    same = same_float(F32)
    for a, b, c, x, y in zip(*columns, mad, mac, strict=True):
        product = flush(multiply(F32, flush(a), flush(b)))
        assert same(int(x), flush(add(F32, product, flush(c))))
        assert same(int(y), int(x))
