"""MUBUF and MTBUF instructions of the emulated device: addressing, range checks, formats."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from kernel_runner import Array, KernelFault, KernelOptions, run_kernel

LANES = 64
RAW = 0x00027000  # Triton's word 3: data format 32, number format float
IDENTITY_SELECT = 0xFAC  # dst_sel x, y, z, w
UNORM_8_8_8_8 = "BUF_DATA_FORMAT_8_8_8_8, BUF_NUM_FORMAT_UNORM"


def descriptor(
    num_records: int, *, stride: int = 0, swizzle: bool = False, word3: int = RAW
) -> str:
    """Build s[12:15] from the base in s[4:5]."""
    high = stride << 16 | int(swizzle) << 31
    return f"""
      s_mov_b32 s12, s4
      s_or_b32 s13, s5, {high:#x}
      s_mov_b32 s14, {num_records:#x}
      s_mov_b32 s15, {word3:#x}
    """


def store_registers(count: int, first: int = 8, buffer: str = "s[6:7]") -> str:
    lines = [f"v_mul_u32_u24_e32 v1, {4 * count}, v0"]
    lines += [
        f"global_store_dword v1, v{first + index}, {buffer} offset:{4 * index}"
        for index in range(count)
    ]
    return "\n".join([*lines, "s_waitcnt vmcnt(0)"])


def run_load(setup: str, load: str, count: int, data: Array) -> Array:
    registers = "\n".join(f"v_mov_b32_e32 v{8 + index}, 0x77" for index in range(count))
    body = f"""
      {setup}
      v_lshlrev_b32_e32 v2, 2, v0
      {registers}
      {load}
      s_waitcnt vmcnt(0)
      {store_registers(count)}
    """
    _, out = run_kernel("gfx942", body, [data, np.zeros((LANES, count), np.uint32)])
    return out


def test_buffer_load_offset_is_base_plus_voffset_soffset_and_immediate() -> None:
    data = np.arange(LANES + 8, dtype=np.uint32)
    setup = descriptor(data.nbytes) + "s_movk_i32 s9, 16"

    out = run_load(setup, "buffer_load_dword v8, v2, s[12:15], s9 offen offset:12", 1, data)

    assert np.array_equal(out[:, 0], data[7 : 7 + LANES])


def test_buffer_load_masked_lane_as_triton_masks_reads_zero() -> None:
    data = np.arange(1, LANES + 1, dtype=np.uint32)
    setup = (
        descriptor(0x7FFFFFFE)
        + """
      v_mov_b32_e32 v3, 0x80000000
      v_cmp_gt_u32_e32 vcc, 10, v0
      v_lshlrev_b32_e32 v4, 2, v0
      s_nop 4
      v_cndmask_b32_e32 v4, v3, v4, vcc
    """
    )

    out = run_load(setup, "buffer_load_dword v8, v4, s[12:15], 0 offen", 1, data)

    assert np.array_equal(out[:, 0], np.where(np.arange(LANES) < 10, data, 0))


def test_buffer_load_wide_checks_each_dword() -> None:
    data = np.arange(1, 4 * LANES + 1, dtype=np.uint32)
    limit = 4 * LANES * 4 - 8
    setup = descriptor(limit) + "v_lshlrev_b32_e32 v4, 4, v0"

    out = run_load(setup, "buffer_load_dwordx4 v[8:11], v4, s[12:15], 0 offen", 4, data)

    expected = data.copy()
    expected[limit // 4 :] = 0
    assert np.array_equal(out, expected.reshape(LANES, 4))


def test_buffer_raw_range_check_counts_soffset() -> None:
    data = np.arange(1, LANES + 1, dtype=np.uint32)
    setup = descriptor(data.nbytes) + "s_movk_i32 s9, 128"

    out = run_load(setup, "buffer_load_dword v8, v2, s[12:15], s9 offen", 1, data)

    expected = np.concatenate([data[32:], np.zeros(32, np.uint32)])
    assert np.array_equal(out[:, 0], expected)


def test_buffer_load_in_range_but_unallocated_is_a_fault() -> None:
    data = np.arange(40, dtype=np.uint32)

    with pytest.raises(KernelFault, match=r"(?s)0x[0-9a-f]+.*lane 40"):
        run_load(descriptor(0x7FFFFFFE), "buffer_load_dword v8, v2, s[12:15], 0 offen", 1, data)


def test_buffer_load_d16_keeps_other_half() -> None:
    data = np.arange(0x100, 0x100 + LANES, dtype=np.uint16)
    setup = descriptor(data.nbytes) + "v_lshlrev_b32_e32 v4, 1, v0"

    out = run_load(setup, "buffer_load_short_d16_hi v8, v4, s[12:15], 0 offen", 1, data)

    assert np.array_equal(out[:, 0], data.astype(np.uint32) << 16 | 0x77)


def test_buffer_store_out_of_range_is_dropped() -> None:
    body = f"""
      {descriptor(40)}
      v_lshlrev_b32_e32 v2, 2, v0
      buffer_store_dword v0, v2, s[12:15], 0 offen
      s_waitcnt vmcnt(0)
    """

    (out,) = run_kernel("gfx942", body, [np.full(12, 7, np.uint32)])

    assert out.tolist() == [*range(10), 7, 7]


def test_buffer_structured_checks_the_index() -> None:
    data = np.arange(1, 2 * LANES + 1, dtype=np.uint32)
    setup = descriptor(20, stride=8)

    out = run_load(setup, "buffer_load_dword v8, v0, s[12:15], 0 idxen offset:4", 1, data)

    lane = np.arange(LANES)
    assert np.array_equal(out[:, 0], np.where(lane < 20, data[2 * lane + 1], 0))


def test_buffer_structured_offset_beyond_stride_reads_zero() -> None:
    data = np.arange(1, 2 * LANES + 1, dtype=np.uint32)

    out = run_load(
        descriptor(64, stride=8),
        "buffer_load_dwordx2 v[8:9], v0, s[12:15], 0 idxen offset:4",
        2,
        data,
    )

    assert np.array_equal(out[:, 0], data[1::2])
    assert not out[:, 1].any()


def test_buffer_index_and_offset_registers_are_consecutive() -> None:
    data = np.arange(1, 2 * LANES + 1, dtype=np.uint32)
    setup = descriptor(64, stride=8) + "v_mov_b32_e32 v4, v0\nv_mov_b32_e32 v5, 4"

    out = run_load(setup, "buffer_load_dword v8, v[4:5], s[12:15], 0 idxen offen", 1, data)

    assert np.array_equal(out[:, 0], data[1::2])


def test_buffer_swizzled_interleaves_records() -> None:
    data = np.arange(4 * LANES, dtype=np.uint32)
    stride, index_stride = 16, 8
    setup = descriptor(64, stride=stride, swizzle=True)

    out = run_load(setup, "buffer_load_dword v8, v0, s[12:15], 0 idxen offset:8", 1, data)

    lane = np.arange(LANES)
    byte = (lane // index_stride * stride + 8) * index_stride + lane % index_stride * 4
    assert np.array_equal(out[:, 0], data[byte // 4])


def test_buffer_add_tid_adds_the_lane_to_the_index() -> None:
    data = np.arange(2 * LANES, dtype=np.uint32)
    word3 = 1 << 23  # the data format field now holds the stride's top bits
    setup = descriptor(64, stride=8, word3=word3)

    out = run_load(setup, "buffer_load_dword v8, off, s[12:15], 0 offset:4", 1, data)

    assert np.array_equal(out[:, 0], data[1::2])


def test_buffer_atomic_add_out_of_range_does_nothing_and_returns_zero() -> None:
    body = f"""
      {descriptor(40)}
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v8, 5
      buffer_atomic_add v8, v2, s[12:15], 0 offen sc0
      s_waitcnt vmcnt(0)
      {store_registers(1)}
    """
    memory = np.arange(100, 112, dtype=np.uint32)

    out, returned = run_kernel("gfx942", body, [memory, np.zeros(LANES, np.uint32)])

    assert np.array_equal(out, memory + np.where(np.arange(12) < 10, 5, 0))
    assert np.array_equal(returned, np.concatenate([memory[:10], np.zeros(54, np.uint32)]))


def test_buffer_load_lds_writes_zero_for_lanes_out_of_range() -> None:
    data = np.arange(1, LANES + 1, dtype=np.uint32)
    body = f"""
      {descriptor(40)}
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v3, -1
      ds_write_b32 v2, v3
      s_mov_b32 m0, 0
      s_waitcnt lgkmcnt(0)
      buffer_load_dword v2, s[12:15], 0 offen lds
      s_waitcnt vmcnt(0)
      ds_read_b32 v8, v2
      s_waitcnt lgkmcnt(0)
      {store_registers(1)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros(LANES, np.uint32)], KernelOptions(lds=256))

    assert np.array_equal(out, np.where(np.arange(LANES) < 10, data, 0))


def test_buffer_load_lds_dwordx4_writes_16_bytes_a_lane() -> None:
    data = np.arange(4 * LANES, dtype=np.uint32)
    body = f"""
      {descriptor(data.nbytes)}
      v_lshlrev_b32_e32 v2, 4, v0
      s_mov_b32 m0, 32
      s_nop 0
      buffer_load_dwordx4 v2, s[12:15], 0 offen lds
      s_waitcnt vmcnt(0)
      ds_read_b128 v[8:11], v2 offset:32
      s_waitcnt lgkmcnt(0)
      {store_registers(4)}
    """
    options = KernelOptions(lds=32 + data.nbytes)

    _, out = run_kernel("gfx950", body, [data, np.zeros_like(data)], options)

    assert np.array_equal(out, data)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_buffer_load_lds_m0_beyond_the_chips_lds_writes_nothing(arch: str) -> None:
    # So does Triton hold waves back that would load what another wave loads.
    data = np.arange(1, LANES + 1, dtype=np.uint32)
    body = f"""
      {descriptor(data.nbytes)}
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v3, 7
      ds_write_b32 v2, v3
      s_brev_b32 s2, -2
      s_mov_b32 m0, s2
      s_waitcnt lgkmcnt(0)
      buffer_load_dword v2, s[12:15], 0 offen lds
      s_waitcnt vmcnt(0)
      ds_read_b32 v8, v2
      s_waitcnt lgkmcnt(0)
      {store_registers(1)}
    """

    _, out = run_kernel(arch, body, [data, np.zeros(LANES, np.uint32)], KernelOptions(lds=256))

    assert np.array_equal(out, np.full(LANES, 7))


FORMATS = [
    # data format, number format, bytes of one element, expected registers
    (1, 0, struct.pack("B", 51), [51 / 255, 0.0, 0.0, 1.0]),
    (3, 1, struct.pack("bb", -128, 127), [-1.0, 1.0, 0.0, 1.0]),
    (5, 7, np.array([1.5, -2], np.float16).tobytes(), [1.5, -2.0, 0.0, 1.0]),
    (10, 2, bytes([1, 2, 3, 255]), [1.0, 2.0, 3.0, 255.0]),
    # Packed, from the lowest bit on: 11, 11 and 10 bits of unsigned floats; 10, 10, 10 and 2.
    (
        6,
        7,
        ((15 << 6 | 32) | (16 << 6) << 11 | (14 << 5) << 22).to_bytes(4, "little"),
        [1.5, 2.0, 0.5, 1.0],
    ),
    (
        7,
        7,
        ((15 << 5 | 8) | (15 << 6) << 10 | (17 << 6) << 21).to_bytes(4, "little"),
        [1.25, 1.0, 4.0, 1.0],
    ),
    (9, 0, (1023 | 341 << 10 | 0 << 20 | 1 << 30).to_bytes(4, "little"), [1, 1 / 3, 0, 1 / 3]),
    (9, 1, (512 | 511 << 10 | 1023 << 20 | 2 << 30).to_bytes(4, "little"), [-1, 1, -1 / 511, -1]),
    (8, 2, (3 | 1 << 2 | 1000 << 12 | 5 << 22).to_bytes(4, "little"), [3, 1, 1000, 5]),
    (12, 3, struct.pack("hhhh", -3, 4, -5, 6), [-3.0, 4.0, -5.0, 6.0]),
    (14, 7, struct.pack("ffff", 0.5, 1, 2, 3), [0.5, 1.0, 2.0, 3.0]),
]


@pytest.mark.parametrize(("data_format", "number_format", "element", "expected"), FORMATS)
def test_buffer_load_format_converts(
    data_format: int, number_format: int, element: bytes, expected: list[float]
) -> None:
    word3 = IDENTITY_SELECT | number_format << 12 | data_format << 15
    setup = descriptor(len(element), word3=word3)

    out = run_load(
        setup,
        "buffer_load_format_xyzw v[8:11], off, s[12:15], 0",
        4,
        np.frombuffer(element, np.uint8),
    )

    assert np.array_equal(out.view(np.float32)[0], np.array(expected, np.float32))


def test_tbuffer_store_format_converts_by_the_instruction() -> None:
    body = f"""
      {descriptor(256, word3=IDENTITY_SELECT)}
      v_lshlrev_b32_e32 v2, 2, v0
      v_cvt_f32_u32_e32 v8, v0
      v_mul_f32_e32 v8, 0x3c820821, v8
      v_mov_b32_e32 v9, 2.0
      v_mov_b32_e32 v10, -1.0
      v_mov_b32_e32 v11, 0.5
      tbuffer_store_format_xyzw v[8:11], v2, s[12:15], 0 format:[{UNORM_8_8_8_8}] offen
      s_waitcnt vmcnt(0)
    """

    (out,) = run_kernel("gfx942", body, [np.zeros((LANES, 4), np.uint8)])

    scale = np.float32(np.uint32(0x3C820821).view(np.float32))
    ramp = np.arange(LANES, dtype=np.float32) * scale * np.float32(255)
    assert np.array_equal(out[:, 0], np.rint(np.minimum(ramp, 255)).astype(np.uint8))
    assert np.array_equal(out[:, 1:], np.tile(np.array([255, 0, 128], np.uint8), (LANES, 1)))


def test_buffer_load_format_unknown_is_a_fault() -> None:
    word3 = IDENTITY_SELECT | 7 << 12 | 9 << 15

    with pytest.raises(KernelFault, match="buffer format 9/7"):
        run_load(
            descriptor(64, word3=word3),
            "buffer_load_format_x v8, off, s[12:15], 0",
            1,
            np.zeros(16, np.uint32),
        )


@pytest.mark.parametrize(
    ("arch", "operation"),
    [
        ("gfx942", "buffer_wbl2 sc1\nbuffer_inv sc0 sc1"),
        ("gfx90a", "buffer_wbl2\nbuffer_invl2\nbuffer_wbinvl1\nbuffer_wbinvl1_vol"),
    ],
)
def test_cache_control_changes_nothing(arch: str, operation: str) -> None:
    data = np.arange(4, dtype=np.uint32)

    (out,) = run_kernel(arch, f"{operation}\ns_waitcnt vmcnt(0)", [data])

    assert np.array_equal(out, data)


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("2_10_10_10, BUF_NUM_FORMAT_UNORM", [1.0, 0.5, -1.0, 0.4], 1023 | 512 << 10 | 1 << 30),
        ("2_10_10_10, BUF_NUM_FORMAT_SNORM", [-1.0, 1.0, 2.0, -1.0],
         513 | 511 << 10 | 511 << 20 | 3 << 30),
        ("10_11_11, BUF_NUM_FORMAT_FLOAT", [1.5, 0.25, 2.0, 0.0],
         (15 << 6 | 32) | (13 << 6) << 11 | (16 << 5) << 22),
        ("10_11_11, BUF_NUM_FORMAT_FLOAT", [-2.0, 1e9, 1.0078125, 0.0],
         (31 << 6) << 11 | (15 << 5) << 22),
    ],
)  # fmt: skip
def test_tbuffer_store_of_packed_formats_places_each_component(
    form: str, values: list[float], expected: int
) -> None:
    moves = "\n".join(
        f"v_mov_b32_e32 v{8 + i}, {np.float32(value).view(np.uint32):#x}"
        for i, value in enumerate(values)
    )
    body = f"""
      {descriptor(4, word3=IDENTITY_SELECT)}
      {moves}
      tbuffer_store_format_xyzw v[8:11], off, s[12:15], 0 format:[BUF_DATA_FORMAT_{form}]
      s_waitcnt vmcnt(0)
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(1, np.uint32)])

    assert int(out[0]) == expected


def test_buffer_load_format_to_lds_writes_the_first_component_of_each_lane() -> None:
    data = np.arange(LANES * 2, dtype=np.uint8)
    word3 = IDENTITY_SELECT | 4 << 12 | 3 << 15  # 8_8 UINT
    body = f"""
      {descriptor(data.nbytes, word3=word3)}
      v_lshlrev_b32_e32 v2, 1, v0
      s_mov_b32 m0, 8
      s_nop 0
      buffer_load_format_x v2, s[12:15], 0 offen lds
      s_waitcnt vmcnt(0)
      v_lshlrev_b32_e32 v3, 2, v0
      ds_read_b32 v8, v3 offset:8
      s_waitcnt lgkmcnt(0)
      {store_registers(1)}
    """
    out = np.zeros(LANES, np.uint32)

    _, out = run_kernel("gfx942", body, [data, out], KernelOptions(lds=8 + 4 * LANES))

    assert np.array_equal(out, data[::2])
