"""Matrix instructions whose sums are exact: layouts, modifiers, sparsity, gfx950's shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_runner import KernelFault, run_kernel
from matrix_kernel import run_matrix
from matrix_layout import LANES, Array, Matrix, pack_operand, pack_result, unpack_result

Encode = Callable[[Array], Array]


def encode_f16(values: Array) -> Array:
    return values.astype(np.float16).view(np.uint16)


def encode_bf16(values: Array) -> Array:
    return values.astype(np.float32).view(np.uint32) >> 16


def encode_i8(values: Array) -> Array:
    return values.astype(np.int8).view(np.uint8)


def encode_fp8(values: Array) -> Array:
    """e4m3 FNUZ of -3 to 3."""
    codes = np.array([0x00, 0x40, 0x48, 0x4C], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x80, 0).astype(np.uint8)


def encode_bf8(values: Array) -> Array:
    """e5m2 FNUZ of -3 to 3."""
    codes = np.array([0x00, 0x40, 0x44, 0x46], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x80, 0).astype(np.uint8)


def encode_ocp_fp8(values: Array) -> Array:
    """e4m3 OCP of -3 to 3."""
    codes = np.array([0x00, 0x38, 0x40, 0x44], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x80, 0).astype(np.uint8)


def encode_ocp_bf8(values: Array) -> Array:
    """e5m2 OCP of -3 to 3."""
    codes = np.array([0x00, 0x3C, 0x40, 0x42], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x80, 0).astype(np.uint8)


def encode_bf6(values: Array) -> Array:
    """e3m2 of -3 to 3."""
    codes = np.array([0x00, 0x0C, 0x10, 0x12], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x20, 0).astype(np.uint8)


def encode_fp6(values: Array) -> Array:
    """e2m3 of -3 to 3."""
    codes = np.array([0x00, 0x08, 0x10, 0x14], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x20, 0).astype(np.uint8)


def encode_fp4(values: Array) -> Array:
    """e2m1 of -3 to 3."""
    codes = np.array([0x0, 0x2, 0x4, 0x5], np.uint8)
    return codes[np.abs(values)] | np.where(values < 0, 0x8, 0).astype(np.uint8)


ENCODERS: dict[str, tuple[Encode, int]] = {
    "f16": (encode_f16, 16),
    "bf16": (encode_bf16, 16),
    "i8": (encode_i8, 8),
    "fp8": (encode_fp8, 8),
    "bf8": (encode_bf8, 8),
    "ocp_fp8": (encode_ocp_fp8, 8),
    "ocp_bf8": (encode_ocp_bf8, 8),
    "fp6": (encode_fp6, 6),
    "bf6": (encode_bf6, 6),
    "fp4": (encode_fp4, 4),
}


def small_integers(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape)


def pack(values: Array, kind: str) -> Array:
    encode, bits = ENCODERS[kind]
    return pack_bits(encode(values), bits) if bits == 6 else pack_operand(encode(values), bits)


def pack_bits(elements: Array, bits: int) -> Array:
    """pack_operand for elements that cross registers: one block, consecutive k."""
    _, k_count, outer = elements.shape
    per_lane = k_count * outer // LANES
    registers = np.zeros((LANES, per_lane * bits // 32), np.uint32)
    for lane in range(LANES):
        first = lane // outer * per_lane
        number = sum(int(elements[0, first + i, lane % outer]) << bits * i for i in range(per_lane))
        for register in range(registers.shape[1]):
            registers[lane, register] = number >> 32 * register & 0xFFFFFFFF
    return registers


def result_dtype(matrix: Matrix) -> type:
    return np.int32 if matrix.result == "i32" else np.float32


def encode_result(matrix: Matrix, values: Array) -> Array:
    return values.astype(result_dtype(matrix)).view(np.uint32)


DENSE = [
    ("gfx90a", "v_mfma_i32_32x32x4i8", 2, "i8"),
    ("gfx90a", "v_mfma_i32_16x16x4i8", 4, "i8"),
    ("gfx90a", "v_mfma_i32_4x4x4i8", 16, "i8"),
    ("gfx90a", "v_mfma_i32_32x32x8i8", 1, "i8"),
    ("gfx90a", "v_mfma_i32_16x16x16i8", 1, "i8"),
    ("gfx942", "v_mfma_i32_32x32x4_2b_i8", 2, "i8"),
    ("gfx942", "v_mfma_i32_16x16x4_4b_i8", 4, "i8"),
    ("gfx942", "v_mfma_i32_4x4x4_16b_i8", 16, "i8"),
    ("gfx942", "v_mfma_i32_32x32x16_i8", 1, "i8"),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 1, "i8"),
    ("gfx950", "v_mfma_i32_16x16x64_i8", 1, "i8"),
    ("gfx950", "v_mfma_i32_32x32x32_i8", 1, "i8"),
    ("gfx950", "v_mfma_f32_16x16x32_f16", 1, "f16"),
    ("gfx950", "v_mfma_f32_32x32x16_f16", 1, "f16"),
    ("gfx950", "v_mfma_f32_16x16x32_bf16", 1, "bf16"),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 1, "bf16"),
    ("gfx950", "v_mfma_f32_16x16x32_fp8_fp8", 1, "ocp_fp8"),
    ("gfx950", "v_mfma_f32_32x32x16_bf8_bf8", 1, "ocp_bf8"),
    ("gfx950", "v_mfma_f32_32x32x4_2b_f16", 2, "f16"),
    ("gfx950", "v_mfma_f32_4x4x4_16b_bf16", 16, "bf16"),
]


@pytest.mark.parametrize(("arch", "mnemonic", "blocks", "kind"), DENSE)
def test_mfma_small_integers_give_the_exact_product(
    arch: str, mnemonic: str, blocks: int, kind: str
) -> None:
    matrix = Matrix.parse(mnemonic, blocks)
    a = small_integers((blocks, matrix.k, matrix.m), 1)
    b = small_integers((blocks, matrix.k, matrix.n), 2)
    c = small_integers((blocks, matrix.m, matrix.n), 3)

    registers = (pack(a, kind), pack(b, kind), pack_result(matrix, encode_result(matrix, c)))
    result = unpack_result(matrix, run_matrix(arch, mnemonic, registers))

    expected = c + np.einsum("bki,bkj->bij", a, b)
    assert np.array_equal(result.view(result_dtype(matrix)), expected)


def test_mfma_i8_wraps_at_32_bits() -> None:
    matrix = Matrix.parse("v_mfma_i32_16x16x32_i8")
    a = np.full((1, 32, 16), -128)
    c = np.full((1, 16, 16), 2**31 - 1)

    registers = (pack(a, "i8"), pack(a, "i8"), pack_result(matrix, encode_result(matrix, c)))
    result = unpack_result(matrix, run_matrix("gfx942", matrix.mnemonic, registers))

    assert np.all(result == (2**31 - 1 + 32 * 128 * 128) % 2**32)


# By cbsz or blgp.
F8F6F4 = ("ocp_fp8", "ocp_bf8", "fp6", "bf6", "fp4")


@pytest.mark.parametrize("b_kind", F8F6F4)
@pytest.mark.parametrize("a_kind", F8F6F4)
@pytest.mark.parametrize("shape", ["16x16x128", "32x32x64"])
def test_mfma_f8f6f4_takes_each_operand_in_its_format(shape: str, a_kind: str, b_kind: str) -> None:
    mnemonic = f"v_mfma_f32_{shape}_f8f6f4"
    matrix = Matrix.parse(mnemonic)
    a, b = small_integers((1, matrix.k, matrix.m), 1), small_integers((1, matrix.k, matrix.n), 2)
    c = small_integers((1, matrix.m, matrix.n), 3)

    registers = (pack(a, a_kind), pack(b, b_kind), pack_result(matrix, encode_result(matrix, c)))
    modifiers = f"cbsz:{F8F6F4.index(a_kind)} blgp:{F8F6F4.index(b_kind)}"
    result = unpack_result(matrix, run_matrix("gfx950", mnemonic, registers, modifiers=modifiers))

    assert np.array_equal(result.view(np.float32), c + np.einsum("bki,bkj->bij", a, b))


def test_mfma_scale_multiplies_blocks_of_32_by_powers_of_two() -> None:
    matrix = Matrix.parse("v_mfma_f32_16x16x128_f8f6f4")
    a, b = small_integers((1, 128, 16), 1), small_integers((1, 128, 16), 2)
    c = small_integers((1, 16, 16), 3)
    scales = np.random.default_rng(4).integers(125, 130, (LANES, 4), dtype=np.uint8)
    registers = (pack(a, "fp4"), pack(b, "fp4"), pack_result(matrix, encode_result(matrix, c)))

    # Byte 1 of the register for A, byte 2 for B.
    modifiers = ", v130, v130 op_sel:[1,0,0] op_sel_hi:[0,1,0] cbsz:4 blgp:4"
    result = unpack_result(
        matrix,
        run_matrix(
            "gfx950",
            "v_mfma_scale_f32_16x16x128_f8f6f4",
            registers,
            modifiers=modifiers,
            scale=scales.view(np.uint32),
        ),
    )

    power = np.exp2(scales.astype(np.int64) - 127)
    a_power, b_power = (power[:, byte].reshape(4, 16).repeat(32, axis=0) for byte in (1, 2))
    expected = c[0] + (a[0] * a_power).T @ (b[0] * b_power)
    assert np.array_equal(result[0].view(np.float32), expected)


SMALL_PAIRS = ("bf8_bf8", "bf8_fp8", "fp8_bf8", "fp8_fp8")
SPARSE = [
    *(("gfx942", f"v_smfmac_f32_{shape}_{kind}")
      for shape in ("16x16x32", "32x32x16") for kind in ("f16", "bf16")),
    *(("gfx942", f"v_smfmac_f32_{shape}_{pair}")
      for shape in ("16x16x64", "32x32x32") for pair in SMALL_PAIRS),
    ("gfx942", "v_smfmac_i32_16x16x64_i8"),
    ("gfx942", "v_smfmac_i32_32x32x32_i8"),
    *(("gfx950", f"v_smfmac_f32_{shape}_{kind}")
      for shape in ("16x16x64", "32x32x32") for kind in ("f16", "bf16")),
    *(("gfx950", f"v_smfmac_f32_{shape}_{pair}")
      for shape in ("16x16x128", "32x32x64") for pair in SMALL_PAIRS),
    ("gfx950", "v_smfmac_f32_16x16x64_bf8_fp8"),
    ("gfx950", "v_smfmac_i32_16x16x128_i8"),
    ("gfx950", "v_smfmac_i32_32x32x64_i8"),
]  # fmt: skip


def kind_on(arch: str, name: str) -> str:
    """FP8 and BF8 are OCP's on gfx950."""
    return f"ocp_{name}" if arch == "gfx950" and name in ("fp8", "bf8") else name


@pytest.mark.parametrize(("arch", "mnemonic"), SPARSE)
def test_smfmac_places_two_of_four_by_the_index(arch: str, mnemonic: str) -> None:
    matrix = Matrix.parse(mnemonic)
    a_kind, b_kind = kind_on(arch, matrix.a), kind_on(arch, matrix.b)
    rng = np.random.default_rng(6)
    stored = small_integers((1, matrix.k // 2, matrix.m), 1)
    b = small_integers((1, matrix.k, matrix.n), 2)
    c = small_integers((1, matrix.m, matrix.n), 3)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    choice = pairs[rng.integers(0, 6, (matrix.k // 4, matrix.m))]
    dense = np.zeros((matrix.k, matrix.m), np.int64)
    per_lane = matrix.k // 2 * matrix.m // LANES
    index = np.zeros((LANES, 1), np.uint32)
    for lane in range(LANES):
        row, first = lane % matrix.m, lane // matrix.m * per_lane
        for element in range(per_lane):
            group, which = divmod(first + element, 2)
            position = int(choice[group, row, which])
            index[lane, 0] |= np.uint32(position << 2 * element)
            dense[4 * group + position, row] = stored[0, first + element, row]
    abid = 0
    if 2 * per_lane < 32:
        abid = 1  # the second set of indices
        index <<= np.uint32(2 * per_lane)

    registers = (
        pack(stored, a_kind),
        pack(b, b_kind),
        pack_result(matrix, encode_result(matrix, c)),
    )
    modifiers = f"abid:{abid}" if abid else ""
    result = run_matrix(arch, mnemonic, registers, modifiers=modifiers, index=index)

    expected = c[0] + dense.T @ b[0]
    assert np.array_equal(unpack_result(matrix, result)[0].view(result_dtype(matrix)), expected)


def run_f32(modifiers: str) -> tuple[Array, Array, Array]:
    matrix = Matrix.parse("v_mfma_f32_16x16x1_4b_f32", 4)
    a = small_integers((4, 1, 16), 1).astype(np.float32)
    b = small_integers((4, 1, 16), 2).astype(np.float32)
    c = np.zeros((4, 16, 16), np.uint32)
    registers = (
        pack_operand(a.view(np.uint32), 32),
        pack_operand(b.view(np.uint32), 32),
        pack_result(matrix, c),
    )
    result = run_matrix("gfx942", matrix.mnemonic, registers, modifiers=modifiers)
    return a, b, unpack_result(matrix, result).view(np.float32)


def test_mfma_cbsz_abid_broadcast_a_block_of_a() -> None:
    a, b, result = run_f32("cbsz:1 abid:1")

    expected = np.stack([np.outer(a[block | 1, 0], b[block, 0]) for block in range(4)])
    assert np.array_equal(result, expected)


def test_mfma_blgp_rotates_the_lanes_of_b() -> None:
    a, b, result = run_f32("blgp:3")

    expected = np.stack([np.outer(a[block, 0], b[(block + 1) % 4, 0]) for block in range(4)])
    assert np.array_equal(result, expected)


def test_mfma_modifier_it_does_not_have_is_a_fault() -> None:
    zeros = np.zeros((LANES, 2), np.uint32)

    with pytest.raises(KernelFault, match="blgp"):
        run_matrix(
            "gfx942",
            "v_mfma_f32_16x16x16_f16",
            (zeros, zeros, np.zeros((LANES, 4), np.uint32)),
            modifiers="blgp:1",
        )


def test_mfma_ignores_exec() -> None:
    body = """
      v_mov_b32_e32 v8, 1.0
      v_mov_b32_e32 v9, 1.0
      s_mov_b64 exec, 0
      s_nop 4
      v_mfma_f32_32x32x2_f32 v[16:31], v8, v9, 0
      s_nop 15
      s_nop 15
      s_mov_b64 exec, -1
      v_lshlrev_b32_e32 v1, 2, v0
      global_store_dword v1, v31, s[4:5]
      s_waitcnt vmcnt(0)
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, np.float32)])

    assert np.array_equal(out, np.full(LANES, 2, np.float32))


def test_accvgpr_moves_obey_exec() -> None:
    body = """
      v_mov_b32_e32 v2, 7
      v_accvgpr_write_b32 a3, v2
      s_mov_b64 exec, 0xf0
      s_nop 4
      v_accvgpr_write_b32 a3, v0
      v_accvgpr_mov_b32 a4, a3
      s_mov_b64 exec, -1
      v_accvgpr_read_b32 v3, a3
      v_lshlrev_b32_e32 v1, 2, v0
      global_store_dword v1, v3, s[4:5]
      global_store_dword v1, a3, s[6:7]
      s_waitcnt vmcnt(0)
    """

    zeros = np.zeros(LANES, np.uint32)
    read, stored = run_kernel("gfx942", body, [zeros, zeros])

    lane = np.arange(LANES)
    expected = np.where((lane >= 4) & (lane < 8), lane, 7)
    assert np.array_equal(read, expected)
    assert np.array_equal(stored, expected)
