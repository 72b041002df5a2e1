"""Matrix instructions with floating-point operands, bit by bit against MMA-Sim and numpy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from matrix_kernel import run_matrix
from matrix_layout import ELEMENT_BITS, Array, Matrix, pack_operand, pack_result, unpack_result

torch = pytest.importorskip("torch")
fdpa = pytest.importorskip("mmasim.arithmetic.fdpa")
ftz_mul_add = pytest.importorskip("mmasim.arithmetic.ftz_mul_add")

CDNA3 = [
    ("v_mfma_f32_16x16x8_xf32", 1),
    ("v_mfma_f32_32x32x4_xf32", 1),
    ("v_mfma_f32_32x32x4_2b_f16", 2),
    ("v_mfma_f32_16x16x4_4b_f16", 4),
    ("v_mfma_f32_4x4x4_16b_f16", 16),
    ("v_mfma_f32_32x32x8_f16", 1),
    ("v_mfma_f32_16x16x16_f16", 1),
    ("v_mfma_f32_32x32x4_2b_bf16", 2),
    ("v_mfma_f32_16x16x4_4b_bf16", 4),
    ("v_mfma_f32_4x4x4_16b_bf16", 16),
    ("v_mfma_f32_32x32x8_bf16", 1),
    ("v_mfma_f32_16x16x16_bf16", 1),
    ("v_mfma_f32_16x16x32_bf8_bf8", 1),
    ("v_mfma_f32_16x16x32_bf8_fp8", 1),
    ("v_mfma_f32_16x16x32_fp8_bf8", 1),
    ("v_mfma_f32_16x16x32_fp8_fp8", 1),
    ("v_mfma_f32_32x32x16_bf8_bf8", 1),
    ("v_mfma_f32_32x32x16_bf8_fp8", 1),
    ("v_mfma_f32_32x32x16_fp8_bf8", 1),
    ("v_mfma_f32_32x32x16_fp8_fp8", 1),
]
CDNA2 = [
    ("v_mfma_f32_32x32x4f16", 2),
    ("v_mfma_f32_16x16x4f16", 4),
    ("v_mfma_f32_4x4x4f16", 16),
    ("v_mfma_f32_32x32x8f16", 1),
    ("v_mfma_f32_16x16x16f16", 1),
    ("v_mfma_f32_32x32x4bf16_1k", 2),
    ("v_mfma_f32_16x16x4bf16_1k", 4),
    ("v_mfma_f32_4x4x4bf16_1k", 16),
    ("v_mfma_f32_32x32x8bf16_1k", 1),
    ("v_mfma_f32_16x16x16bf16_1k", 1),
    ("v_mfma_f32_32x32x2bf16", 2),
    ("v_mfma_f32_16x16x2bf16", 4),
    ("v_mfma_f32_4x4x2bf16", 16),
    ("v_mfma_f32_32x32x4bf16", 1),
    ("v_mfma_f32_16x16x8bf16", 1),
]
FMA = [
    ("gfx942", "v_mfma_f32_32x32x1_2b_f32", 2),
    ("gfx942", "v_mfma_f32_16x16x1_4b_f32", 4),
    ("gfx942", "v_mfma_f32_4x4x1_16b_f32", 16),
    ("gfx942", "v_mfma_f32_32x32x2_f32", 1),
    ("gfx942", "v_mfma_f32_16x16x4_f32", 1),
    ("gfx90a", "v_mfma_f32_32x32x1f32", 2),
    ("gfx90a", "v_mfma_f32_16x16x1f32", 4),
    ("gfx90a", "v_mfma_f32_4x4x1f32", 16),
    ("gfx90a", "v_mfma_f32_32x32x2f32", 1),
    ("gfx90a", "v_mfma_f32_16x16x4f32", 1),
    ("gfx942", "v_mfma_f64_16x16x4_f64", 1),
    ("gfx942", "v_mfma_f64_4x4x4_4b_f64", 4),
    ("gfx90a", "v_mfma_f64_16x16x4f64", 1),
    ("gfx90a", "v_mfma_f64_4x4x4f64", 4),
    ("gfx950", "v_mfma_f32_32x32x2_f32", 1),
    ("gfx950", "v_mfma_f64_16x16x4_f64", 1),
]

TORCH_TYPES = {
    "f32": torch.float32,
    "xf32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fnuz,
    "bf8": torch.float8_e5m2fnuz,
}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
TORCH_SIGNED = {8: torch.uint8, 16: torch.int16, 32: torch.int32}


def to_torch(bits: Array, kind: str) -> Any:
    width = ELEMENT_BITS[kind]
    raw = np.ascontiguousarray(bits.astype(UNSIGNED[width]))
    signed = raw if width == 8 else raw.view(f"int{width}")
    return torch.from_numpy(signed).view(TORCH_TYPES[kind])


def make_values(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Bits of finite values, by outer index: ordinary, of very unequal size, any pattern."""
    width = ELEMENT_BITS[kind]
    outer = np.arange(shape[-1]) % 3
    reach = 130 if kind in ("f32", "xf32", "bf16") else 14
    exponent = rng.integers(-reach, 12, shape)
    normal = rng.normal(size=shape)
    real = np.where(outer == 1, normal * np.exp2(exponent) * (rng.random(shape) > 0.2), normal)
    tensor = torch.from_numpy(real).to(TORCH_TYPES[kind])
    bits: Array = tensor.view(TORCH_SIGNED[width]).numpy().view(UNSIGNED[width]).astype(np.uint64)
    pattern = rng.integers(0, 1 << width, shape, dtype=np.uint64)
    bits = np.where(outer == 2, pattern, bits)
    finite = np.isfinite(to_torch(bits, kind).float().numpy())
    return np.where(finite, bits, 0)


def add_specials(rng: np.random.Generator, kind: str, bits: Array) -> Array:
    """Infinities and NaN in a few places."""
    patterns = {
        "f16": [0x7C00, 0xFC00, 0x7E00],
        "bf16": [0x7F80, 0xFF80, 0x7FC0],
        "xf32": [0x7F800000, 0xFF800000, 0x7FC00000],
        "f32": [0x7F800000, 0xFF800000, 0x7FC00000],
        "fp8": [0x80],
        "bf8": [0x80],
    }[kind]
    out: Array = bits.copy()
    for pattern in patterns:
        out[rng.integers(0, 1000, out.shape) < 8] = pattern
    return out


def model_of(matrix: Matrix, arch: str) -> Any:
    if arch == "gfx90a":
        is_pairwise = matrix.a == "bf16" and not matrix.mnemonic.endswith("_1k")
        return ftz_mul_add.MMA_FTZ_MUL_ADD(2 if is_pairwise else 4)
    if matrix.a in ("fp8", "bf8"):
        return fdpa.MMA_GTR_FDPA(F=24, F2=31, rho="RNE-FP32", L_max=16)
    group = 4 if matrix.a == "xf32" else 8
    return fdpa.MMA_TR_FDPA(F=24, F2=31, rho="RNE-FP32", L_max=group)


def run_dense(arch: str, matrix: Matrix, a: Array, b: Array, c: Array) -> Array:
    registers = (
        pack_operand(a, ELEMENT_BITS[matrix.a]),
        pack_operand(b, ELEMENT_BITS[matrix.b]),
        pack_result(matrix, c),
    )
    return unpack_result(matrix, run_matrix(arch, matrix.mnemonic, registers))


def assert_equals_model(matrix: Matrix, arch: str, operands: tuple[Array, Array, Array]) -> None:
    a, b, c = operands
    result = run_dense(arch, matrix, a, b, c).view(np.float32)
    model = model_of(matrix, arch)
    for block in range(matrix.blocks):
        expected = model(
            to_torch(a[block].T, matrix.a),
            to_torch(b[block], matrix.b),
            to_torch(c[block], "f32"),
        ).numpy()
        both_nan = np.isnan(expected) & np.isnan(result[block])
        equal = expected.view(np.uint32) == result[block].view(np.uint32)
        assert np.all(equal | both_nan), (block, np.argwhere(~(equal | both_nan))[:4])


def make_operands(matrix: Matrix, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    a = make_values(rng, matrix.a, (matrix.blocks, matrix.k, matrix.m))
    b = make_values(rng, matrix.b, (matrix.blocks, matrix.k, matrix.n))
    c = make_values(rng, "f32", (matrix.blocks, matrix.m, matrix.n))
    return a, b, c


@pytest.mark.parametrize(("mnemonic", "blocks"), CDNA3)
def test_mfma_cdna3_finite_operands_equal_model(mnemonic: str, blocks: int) -> None:
    matrix = Matrix.parse(mnemonic, blocks)

    assert_equals_model(matrix, "gfx942", make_operands(matrix, 1))


@pytest.mark.parametrize(("mnemonic", "blocks"), CDNA2)
def test_mfma_cdna2_finite_operands_equal_model(mnemonic: str, blocks: int) -> None:
    matrix = Matrix.parse(mnemonic, blocks)

    assert_equals_model(matrix, "gfx90a", make_operands(matrix, 2))


@pytest.mark.parametrize(
    "mnemonic", ["v_mfma_f32_16x16x8_xf32", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_32x32x8_bf16"]
)
def test_mfma_specials_equal_model(mnemonic: str) -> None:
    matrix = Matrix.parse(mnemonic)
    rng = np.random.default_rng(3)
    a, b, c = make_operands(matrix, 3)
    operands = (
        add_specials(rng, matrix.a, a),
        add_specials(rng, matrix.b, b),
        add_specials(rng, "f32", c),
    )

    assert_equals_model(matrix, "gfx942", operands)


def test_mfma_fp8_nan_reaches_its_row_and_no_other() -> None:
    # No model here: MMA-Sim loses a NaN accumulator beside large products.
    matrix = Matrix.parse("v_mfma_f32_16x16x32_fp8_fp8")
    a, b, c = make_operands(matrix, 4)
    a[0, 3, 5] = 0x80

    result = run_dense("gfx942", matrix, a, b, c).view(np.float32)[0]

    assert np.array_equal(np.isnan(result), np.repeat(np.arange(16) == 5, 16).reshape(16, 16))


@pytest.mark.parametrize(("arch", "mnemonic", "blocks"), FMA)
def test_mfma_f32_f64_is_a_chain_of_fused_multiply_adds(
    arch: str, mnemonic: str, blocks: int
) -> None:
    matrix = Matrix.parse(mnemonic, blocks)
    kind = np.float64 if matrix.a == "f64" else np.float32
    bits = np.uint64 if matrix.a == "f64" else np.uint32
    rng = np.random.default_rng(5)
    a: Array = rng.normal(size=(blocks, matrix.k, matrix.m)).astype(kind)
    b: Array = rng.normal(size=(blocks, matrix.k, matrix.n)).astype(kind)
    c: Array = rng.normal(size=(blocks, matrix.m, matrix.n)).astype(kind)

    result = run_dense(arch, matrix, a.view(bits), b.view(bits), c.view(bits)).view(kind)

    expected = c.copy()
    for k in range(matrix.k):
        for block, row, column in np.ndindex(expected.shape):
            product = Fraction(float(a[block, k, row])) * Fraction(float(b[block, k, column]))
            exact = product + Fraction(float(expected[block, row, column]))
            # Exact until it becomes f64; rounding on to f32 changes none of these values again.
            expected[block, row, column] = kind(float(exact))
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("denormals", [0, 3], ids=["flushed", "kept"])
def test_mfma_f32_operands_flush_denormals_as_mode_says(denormals: int) -> None:
    matrix = Matrix.parse("v_mfma_f32_16x16x4_f32")
    a = np.full((1, 4, 16), 0x00400000, np.uint32)  # 2^-127
    b = np.full((1, 4, 16), 0x7F000000, np.uint32)  # 2^127
    c = np.zeros((1, 16, 16), np.uint32)
    mode = f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {denormals}\nv_mfma_f32_16x16x4_f32"
    registers = (pack_operand(a, 32), pack_operand(b, 32), pack_result(matrix, c))

    result = unpack_result(matrix, run_matrix("gfx942", mode, registers)).view(np.float32)

    assert np.all(result == (4.0 if denormals else 0.0))
