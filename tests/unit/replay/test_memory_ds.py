"""DS instructions of the emulated device against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_runner import Array, KernelFault, KernelOptions, run_kernel

LANES = 64

# v2 = 4 * lane, v3 = 8 * lane, v4 = 16 * lane
ADDRESSES = """
  v_lshlrev_b32_e32 v2, 2, v0
  v_lshlrev_b32_e32 v3, 3, v0
  v_lshlrev_b32_e32 v4, 4, v0
"""


def store_registers(count: int, first: int = 8, buffer: str = "s[6:7]") -> str:
    lines = ["s_mov_b64 exec, -1", f"v_mul_u32_u24_e32 v1, {4 * count}, v0"]
    lines += [
        f"global_store_dword v1, v{first + index}, {buffer} offset:{4 * index}"
        for index in range(count)
    ]
    return "\n".join([*lines, "s_waitcnt vmcnt(0)"])


def fill_lds(dwords: int) -> str:
    """Copy buffer 0 to LDS, each lane `dwords` consecutive dwords."""
    loads = [f"v_mul_u32_u24_e32 v1, {4 * dwords}, v0"]
    for index in range(dwords):
        loads.append(f"global_load_dword v7, v1, s[4:5] offset:{4 * index}")
        loads.append("s_waitcnt vmcnt(0)")
        loads.append(f"ds_write_b32 v1, v7 offset:{4 * index}")
    return "\n".join([*loads, "s_waitcnt lgkmcnt(0)"])


def random_dwords(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32)


def run_reads(
    read: str, count: int, *, arch: str = "gfx942", dwords: int = 4
) -> tuple[Array, Array]:
    """Fill LDS with random dwords and run `read` into v8 …: LDS contents, registers by lane."""
    data = random_dwords(LANES * dwords)
    body = f"""
      {ADDRESSES}
      {fill_lds(dwords)}
      {read}
      s_waitcnt lgkmcnt(0)
      {store_registers(count)}
    """
    options = KernelOptions(lds=LANES * 4 * dwords)
    _, out = run_kernel(arch, body, [data, np.zeros((LANES, count), np.uint32)], options)
    return data, out


@pytest.mark.parametrize(
    ("mnemonic", "dtype"),
    [("u8", np.uint8), ("i8", np.int8), ("u16", np.uint16), ("i16", np.int16)],
)
def test_ds_read_narrow_widens(mnemonic: str, dtype: type) -> None:
    data, out = run_reads(f"ds_read_{mnemonic} v8, v2 offset:2", 1)

    shifted: Array = np.roll(data.view(np.uint8), -2).view(dtype)[:: 4 // np.dtype(dtype).itemsize]
    assert np.array_equal(out[:, 0].view(np.int32), shifted[:LANES].astype(np.int32))


@pytest.mark.parametrize(("width", "scale", "count"), [(64, "v3", 2), (128, "v4", 4)])
def test_ds_read_wide_reads_consecutive_dwords(width: int, scale: str, count: int) -> None:
    data, out = run_reads(f"ds_read_b{width} v[8:{7 + count}], {scale}", count)

    assert np.array_equal(out, data[: LANES * count].reshape(LANES, count))


def test_ds_read_b96_reads_three_dwords() -> None:
    data, out = run_reads("ds_read_b96 v[8:10], v4 offset:4", 3)

    assert np.array_equal(out, data.reshape(LANES, 4)[:, 1:])


def test_ds_read2_offsets_count_elements() -> None:
    data, out = run_reads("ds_read2_b32 v[8:9], v2 offset0:1 offset1:190", 2)

    lane = np.arange(LANES)
    assert np.array_equal(out, np.stack([data[lane + 1], data[lane + 190]], 1))


def test_ds_read2st64_offsets_count_64_elements() -> None:
    data, out = run_reads("ds_read2st64_b64 v[8:11], v3 offset0:0 offset1:1", 4)

    pairs = data.reshape(-1, 2)
    assert np.array_equal(out, np.concatenate([pairs[:LANES], pairs[LANES:]], 1))


@pytest.mark.parametrize(
    ("mnemonic", "expected"),
    [
        ("u8_d16", 0xAAAA0080),
        ("u8_d16_hi", 0x0080AAAA),
        ("i8_d16", 0xAAAAFF80),
        ("i8_d16_hi", 0xFF80AAAA),
        ("u16_d16", 0xAAAA7F80),
        ("u16_d16_hi", 0x7F80AAAA),
    ],
)
def test_ds_read_d16_keeps_the_other_half(mnemonic: str, expected: int) -> None:
    body = f"""
      {ADDRESSES}
      v_mov_b32_e32 v7, 0x7f80
      ds_write_b32 v2, v7
      v_mov_b32_e32 v8, 0xaaaaaaaa
      ds_read_{mnemonic} v8, v2
      s_waitcnt lgkmcnt(0)
      {store_registers(1, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, np.uint32)], KernelOptions(lds=256))

    assert np.array_equal(out, np.full(LANES, expected, np.uint32))


def test_ds_write2_and_narrow_writes_land_where_named() -> None:
    body = f"""
      {ADDRESSES}
      v_mov_b32_e32 v5, 0x11223344
      v_mov_b32_e32 v6, 0x55667788
      ds_write2_b32 v3, v5, v6 offset0:0 offset1:1
      ds_write_b8 v3, v6 offset:1
      ds_write_b16_d16_hi v3, v5 offset:6
      ds_read_b64 v[8:9], v3
      s_waitcnt lgkmcnt(0)
      {store_registers(2, buffer="s[4:5]")}
    """
    options = KernelOptions(lds=LANES * 8)

    (out,) = run_kernel("gfx942", body, [np.zeros((LANES, 2), np.uint32)], options)

    assert np.array_equal(out, np.tile(np.array([0x11228844, 0x11227788], np.uint32), (LANES, 1)))


@pytest.mark.parametrize(
    "access", ["ds_read_b32 v8, v2", "ds_write_b32 v2, v0", "ds_add_u32 v2, v0"]
)
def test_ds_access_beyond_allocation_names_lane_and_address(access: str) -> None:
    body = f"{ADDRESSES}\n{access}\ns_waitcnt lgkmcnt(0)"

    with pytest.raises(KernelFault, match=r"(?s)4 bytes at 0x80 .*lane 32"):
        run_kernel("gfx942", body, [np.zeros(1, np.uint32)], KernelOptions(lds=128))


def test_ds_read_unaligned_wide_is_allowed() -> None:
    data, out = run_reads("ds_read_b64 v[8:9], v2 offset:1", 2)

    raw = data.tobytes()
    expected = [np.frombuffer(raw[4 * lane + 1 :][:8], np.uint32) for lane in range(LANES)]
    assert np.array_equal(out, np.stack(expected))


def test_ds_atomic_misaligned_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="not aligned"):
        run_kernel(
            "gfx942",
            f"{ADDRESSES}\nds_add_u32 v2, v0 offset:2\ns_waitcnt lgkmcnt(0)",
            [np.zeros(1, np.uint32)],
            KernelOptions(lds=512),
        )


ATOMICS: dict[str, Callable[[Array, Array], Array]] = {
    "add_rtn_u32": lambda old, new: old + new,
    "sub_rtn_u32": lambda old, new: old - new,
    "rsub_rtn_u32": lambda old, new: new - old,
    "min_rtn_u32": np.minimum,
    "max_rtn_i32": lambda old, new: np.maximum(old.view(np.int32), new.view(np.int32)).view(
        np.uint32
    ),
    "xor_rtn_b32": np.bitwise_xor,
    "wrxchg_rtn_b32": lambda old, new: new,
    "inc_rtn_u32": lambda old, new: np.where(old >= new, 0, old + 1).astype(np.uint32),
}


@pytest.mark.parametrize("name", ATOMICS)
def test_ds_atomic_returns_old_value_and_updates(name: str) -> None:
    new = random_dwords(LANES, 9)
    old = random_dwords(LANES, 1)
    body = f"""
      {ADDRESSES}
      {fill_lds(1)}
      global_load_dword v7, v2, s[8:9]
      s_waitcnt vmcnt(0)
      ds_{name} v8, v2, v7
      ds_read_b32 v9, v2
      s_waitcnt lgkmcnt(0)
      {store_registers(2)}
    """
    options = KernelOptions(lds=256)

    _, out, _ = run_kernel("gfx942", body, [old, np.zeros((LANES, 2), np.uint32), new], options)

    assert np.array_equal(out[:, 0], old)
    assert np.array_equal(out[:, 1], ATOMICS[name](old, new))


def test_ds_cmpst_takes_comparand_first() -> None:
    body = f"""
      {ADDRESSES}
      ds_write_b32 v2, v0
      v_mov_b32_e32 v5, 5
      v_mov_b32_e32 v6, 99
      ds_cmpst_rtn_b32 v8, v2, v5, v6
      ds_read_b32 v9, v2
      s_waitcnt lgkmcnt(0)
      {store_registers(2, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros((LANES, 2), np.uint32)], KernelOptions(lds=256))

    lane = np.arange(LANES)
    assert np.array_equal(out, np.stack([lane, np.where(lane == 5, 99, lane)], 1))


def test_ds_add_f32_all_lanes_on_one_address_adds_in_lane_order() -> None:
    values = np.random.default_rng(3).normal(size=LANES).astype(np.float32)
    body = f"""
      {ADDRESSES}
      v_mov_b32_e32 v5, 0
      ds_write_b32 v5, v5
      global_load_dword v6, v2, s[4:5]
      s_waitcnt vmcnt(0)
      ds_add_f32 v5, v6
      ds_read_b32 v8, v5
      s_waitcnt lgkmcnt(0)
      {store_registers(1)}
    """

    _, out = run_kernel("gfx942", body, [values, np.zeros(LANES, np.float32)], KernelOptions(lds=4))

    expected = np.float32(0)
    for value in values:
        expected = np.float32(expected + value)
    assert np.array_equal(out, np.full(LANES, expected))


def test_ds_bpermute_reads_other_lanes_and_zero_from_inactive_ones() -> None:
    body = f"""
      {ADDRESSES}
      v_mov_b32_e32 v8, 7
      v_xor_b32_e32 v5, 0x1fc, v2
      v_add_u32_e32 v6, 1000, v0
      s_mov_b32 exec_hi, 0
      s_mov_b32 exec_lo, 0x0000ffff
      ds_bpermute_b32 v8, v5, v6 offset:4
      s_waitcnt lgkmcnt(0)
      {store_registers(1, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, np.uint32)])

    lane = np.arange(LANES)
    source = (((lane * 4) ^ 0x1FC) + 4) // 4 % LANES
    expected = np.where(lane < 16, np.where(source < 16, 1000 + source, 0), 7)
    assert np.array_equal(out, expected)


def test_ds_permute_last_writer_wins() -> None:
    body = f"""
      v_and_b32_e32 v5, 0x1c, v0
      v_add_u32_e32 v6, 1, v0
      ds_permute_b32 v8, v5, v6
      s_waitcnt lgkmcnt(0)
      {store_registers(1, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, np.uint32)])

    expected = np.zeros(LANES, np.uint32)
    for lane in range(LANES):
        expected[(lane & 0x1C) // 4] = lane + 1
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    ("pattern", "source"),
    [
        ("swizzle(QUAD_PERM,3,2,1,0)", lambda lane: lane ^ 3),
        ('swizzle(BITMASK_PERM,"01pip")', lambda lane: lane & 0x20 | 8 | (lane & 7) ^ 2),
        ("swizzle(SWAP,16)", lambda lane: lane ^ 16),
        ("swizzle(REVERSE,8)", lambda lane: lane ^ 7),
    ],
)
def test_ds_swizzle_moves_within_32_lanes(pattern: str, source: Callable[[int], int]) -> None:
    body = f"""
      ds_swizzle_b32 v8, v0 offset:{pattern}
      s_waitcnt lgkmcnt(0)
      {store_registers(1, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, np.uint32)])

    assert out.tolist() == [source(lane) for lane in range(LANES)]


@pytest.mark.parametrize(
    ("mnemonic", "bits", "elements"),
    [("b64_tr_b16", 16, 4), ("b64_tr_b8", 8, 8), ("b64_tr_b4", 4, 16)],
)
def test_ds_read_transposed_exchanges_rows_and_lanes(
    mnemonic: str, bits: int, elements: int
) -> None:
    data, out = run_reads(f"ds_read_{mnemonic} v[8:9], v3", 2, arch="gfx950", dwords=2)

    per_lane = np.array(
        [
            [int(value) >> bits * e & (1 << bits) - 1 for e in range(elements)]
            for value in data.view(np.uint64)
        ]
    )
    result = np.array(
        [
            [int(value) >> bits * e & (1 << bits) - 1 for e in range(elements)]
            for value in np.ascontiguousarray(out).view(np.uint64)[:, 0]
        ]
    )
    lanes_per_row = 16 // elements
    for lane in range(LANES):
        group, within = lane // 16 * 16, lane % 16
        for j in range(elements):
            source = group + j * lanes_per_row + within // elements
            assert result[lane, j] == per_lane[source, within % elements]


def test_ds_read_transposed_6_bit_elements() -> None:
    data, out = run_reads("ds_read_b96_tr_b6 v[8:10], v4", 3, arch="gfx950")

    def elements(dwords: Array) -> list[int]:
        number = sum(int(value) << 32 * index for index, value in enumerate(dwords))
        return [number >> 6 * index & 63 for index in range(16)]

    stored = [elements(row[:3]) for row in data.reshape(LANES, 4)]
    for lane in range(LANES):
        group, within = lane // 16 * 16, lane % 16
        assert elements(out[lane]) == [stored[group + j][within] for j in range(16)]


def test_ds_append_and_consume_count_active_lanes() -> None:
    body = f"""
      {ADDRESSES}
      v_mov_b32_e32 v5, 0
      v_mov_b32_e32 v6, 100
      ds_write_b32 v5, v6 offset:8
      s_waitcnt lgkmcnt(0)
      s_mov_b32 m0, 4
      s_mov_b64 exec, 0x3f
      s_nop 4
      ds_append v8 offset:4
      ds_consume v9 offset:4
      s_waitcnt lgkmcnt(0)
      {store_registers(2, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros((LANES, 2), np.uint32)], KernelOptions(lds=12))

    assert np.array_equal(out[:6], np.tile([100, 106], (6, 1)))
