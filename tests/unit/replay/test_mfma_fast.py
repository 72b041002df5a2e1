"""The approximate mode of matrix instructions: near the exact products, and named where it ran."""

from __future__ import annotations

from collections.abc import Iterator

import kernel_runner
import numpy as np
import pytest
from emulator_kernel import run_kernel
from matrix_kernel import run_matrix
from matrix_layout import ELEMENT_BITS, Array, Matrix, pack_operand, pack_result, unpack_result

torch = pytest.importorskip("torch")

SHAPES = [
    ("gfx942", "v_mfma_f32_32x32x8_f16", 1),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", 1),
    ("gfx942", "v_mfma_f32_16x16x4_4b_f16", 4),
    ("gfx942", "v_mfma_f32_32x32x4_2b_bf16", 2),
    ("gfx942", "v_mfma_f32_4x4x4_16b_f16", 16),
    ("gfx942", "v_mfma_f32_16x16x8_xf32", 1),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_bf8", 1),
    ("gfx942", "v_mfma_f32_32x32x16_bf8_fp8", 1),
    ("gfx90a", "v_mfma_f32_32x32x8f16", 1),
    ("gfx950", "v_mfma_f32_16x16x32_f16", 1),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 1),
]
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fnuz,
         "bf8": torch.float8_e5m2fnuz, "xf32": torch.float32, "f32": torch.float32}  # fmt: skip
INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32}
LAUNCH = "  v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], 0\n  s_endpgm"


@pytest.fixture
def fast_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels run in children of their own, which have the mode on."""
    monkeypatch.setattr(kernel_runner, "_children", {})
    monkeypatch.setenv("ASMEVO_EMULATOR_MFMA", "fast")
    yield
    kernel_runner._close_children()


def make(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Values that the type holds exactly, in double and as bits."""
    tensor = torch.from_numpy(rng.normal(size=shape).astype(np.float32)).to(TYPES[kind])
    width = ELEMENT_BITS[kind]
    bits: Array = tensor.view(INTEGERS[width]).numpy().astype(np.int64) & ((1 << width) - 1)
    if kind == "xf32":
        bits &= ~0x1FFF
        return bits.astype(np.uint32).view(np.float32).astype(float), bits
    return tensor.float().numpy().astype(float), bits


@pytest.mark.usefixtures("fast_device")
@pytest.mark.parametrize(("arch", "mnemonic", "blocks"), SHAPES)
def test_fast_matrix_products_are_near_the_exact_ones(
    arch: str, mnemonic: str, blocks: int
) -> None:
    matrix = Matrix.parse(mnemonic, blocks)
    rng = np.random.default_rng(1)
    a, a_bits = make(rng, matrix.a, (blocks, matrix.k, matrix.m))
    b, b_bits = make(rng, matrix.b, (blocks, matrix.k, matrix.n))
    c: Array = rng.normal(size=(blocks, matrix.m, matrix.n)).astype(np.float32)
    registers = (
        pack_operand(a_bits, ELEMENT_BITS[matrix.a]),
        pack_operand(b_bits, ELEMENT_BITS[matrix.b]),
        pack_result(matrix, c.view(np.uint32)),
    )

    result = unpack_result(matrix, run_matrix(arch, mnemonic, registers)).view(np.float32)

    expected = np.einsum("zkm,zkn->zmn", a, b) + c
    scale = np.einsum("zkm,zkn->zmn", abs(a), abs(b)) + abs(c)
    assert np.all(abs(result - expected) <= scale * matrix.k * 2.0**-24)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_mode_of_matrix_instructions_is_named_in_the_report(mode: str) -> None:
    outcome = run_kernel(LAUNCH, options={"mfma": mode})

    assert outcome.ok
    assert outcome.mfma == mode


def test_fault_in_the_fast_mode_names_it() -> None:
    report = run_kernel("  s_trap 2", options={"mfma": "fast"}).report

    assert report.endswith("matrix operations ran in the approximate mode (mfma=fast)")
