"""GLOBAL, FLAT and SCRATCH instructions of the emulated device against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_runner import Array, KernelFault, KernelOptions, run_kernel

ARCHES = ("gfx90a", "gfx942", "gfx950")
LANES = 64


def random_bytes(count: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


def store_registers(count: int, first: int = 8, buffer: str = "s[6:7]") -> str:
    """Store v[first …] of each lane to the buffer, 4 * count bytes a lane."""
    lines = [f"v_mul_u32_u24_e32 v1, {4 * count}, v0"]
    lines += [
        f"global_store_dword v1, v{first + index}, {buffer} offset:{4 * index}"
        for index in range(count)
    ]
    return "\n".join([*lines, "s_waitcnt vmcnt(0)"])


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("mnemonic", "dtype"),
    [
        ("ubyte", np.uint8),
        ("sbyte", np.int8),
        ("ushort", np.uint16),
        ("sshort", np.int16),
        ("dword", np.uint32),
    ],
)
def test_global_load_narrow_widens_to_dword(arch: str, mnemonic: str, dtype: type) -> None:
    data: Array = random_bytes(LANES * np.dtype(dtype).itemsize).view(dtype)
    body = f"""
      v_mul_u32_u24_e32 v2, {data.itemsize}, v0
      global_load_{mnemonic} v8, v2, s[4:5]
      s_waitcnt vmcnt(0)
      {store_registers(1)}
    """

    _, out = run_kernel(arch, body, [data, np.zeros(LANES, np.int32)])

    assert np.array_equal(out, data.astype(np.int32))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_global_load_wide_reads_consecutive_dwords(count: int) -> None:
    data = random_bytes(LANES * 4 * count).view(np.uint32).reshape(LANES, count)
    body = f"""
      v_mul_u32_u24_e32 v2, {4 * count}, v0
      v_mov_b32_e32 v3, 0
      v_lshl_add_u64 v[2:3], v[2:3], 0, s[4:5]
      global_load_dwordx{count} v[8:{7 + count}], v[2:3], off
      s_waitcnt vmcnt(0)
      {store_registers(count)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros_like(data)])

    assert np.array_equal(out, data)


@pytest.mark.parametrize(
    ("mnemonic", "expected"),
    [
        ("ubyte_d16", 0xAAAA0080),
        ("ubyte_d16_hi", 0x0080AAAA),
        ("sbyte_d16", 0xAAAAFF80),
        ("sbyte_d16_hi", 0xFF80AAAA),
        ("short_d16", 0xAAAA7F80),
        ("short_d16_hi", 0x7F80AAAA),
    ],
)
def test_global_load_d16_keeps_the_other_half(mnemonic: str, expected: int) -> None:
    data = np.full(2, 0x7F80, np.uint16)
    body = f"""
      v_mov_b32_e32 v8, 0xaaaaaaaa
      v_mov_b32_e32 v2, 0
      global_load_{mnemonic} v8, v2, s[4:5]
      s_waitcnt vmcnt(0)
      {store_registers(1)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros(LANES, np.uint32)])

    assert np.array_equal(out, np.full(LANES, expected, np.uint32))


@pytest.mark.parametrize(
    ("mnemonic", "dtype", "expected"),
    [
        ("byte", np.uint8, 0x44),
        ("byte_d16_hi", np.uint8, 0x22),
        ("short", np.uint16, 0x3344),
        ("short_d16_hi", np.uint16, 0x1122),
    ],
)
def test_global_store_narrow_takes_the_right_half(
    mnemonic: str, dtype: type, expected: int
) -> None:
    body = f"""
      v_mov_b32_e32 v8, 0x11223344
      v_mul_u32_u24_e32 v2, {np.dtype(dtype).itemsize}, v0
      global_store_{mnemonic} v2, v8, s[4:5]
      s_waitcnt vmcnt(0)
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, dtype)])

    assert np.array_equal(out, np.full(LANES, expected, dtype))


def test_global_load_partial_exec_leaves_other_lanes() -> None:
    data = random_bytes(LANES * 4).view(np.uint32)
    mask = 0x0F0F00FF0000FFF0
    body = f"""
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v8, 7
      s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}
      s_mov_b32 exec_hi, {mask >> 32:#x}
      global_load_dword v8, v2, s[4:5]
      s_waitcnt vmcnt(0)
      s_mov_b64 exec, -1
      {store_registers(1)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros_like(data)])

    active = np.array([mask >> lane & 1 for lane in range(LANES)], bool)
    assert np.array_equal(out, np.where(active, data, 7))


@pytest.mark.parametrize(
    "access", ["global_load_dword v8, v2, s[4:5]", "global_store_dword v2, v8, s[4:5]"]
)
def test_global_access_beyond_allocation_names_lane_and_address(access: str) -> None:
    body = f"""
      v_lshlrev_b32_e32 v2, 2, v0
      {access}
      s_waitcnt vmcnt(0)
    """

    with pytest.raises(KernelFault, match=r"(?s)0x[0-9a-f]+.*lane 40"):
        run_kernel("gfx942", body, [np.zeros(40, np.uint32)])


def test_global_load_negative_offset_reaches_back() -> None:
    data = np.arange(LANES + 4, dtype=np.uint32)
    body = f"""
      v_lshlrev_b32_e32 v2, 2, v0
      global_load_dword v8, v2, s[4:5] offset:16
      v_add_u32_e32 v2, 16, v2
      global_load_dword v9, v2, s[4:5] offset:-16
      s_waitcnt vmcnt(0)
      {store_registers(2)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros((LANES, 2), np.uint32)])

    assert np.array_equal(out, np.stack([data[4:], data[:LANES]], 1))


ATOMICS_32: dict[str, Callable[[Array, Array], Array]] = {
    "swap": lambda old, new: new,
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "smin": lambda old, new: np.minimum(old.view(np.int32), new.view(np.int32)).view(np.uint32),
    "smax": lambda old, new: np.maximum(old.view(np.int32), new.view(np.int32)).view(np.uint32),
    "umin": np.minimum,
    "umax": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1).astype(np.uint32),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1).astype(np.uint32),
}


@pytest.mark.parametrize("name", ATOMICS_32)
def test_global_atomic_returns_old_value_and_updates(name: str) -> None:
    old, new = random_bytes(256, 2).view(np.uint32), random_bytes(256, 3).view(np.uint32)
    body = f"""
      v_lshlrev_b32_e32 v2, 2, v0
      global_load_dword v9, v2, s[8:9]
      s_waitcnt vmcnt(0)
      global_atomic_{name} v8, v2, v9, s[4:5] sc0
      s_waitcnt vmcnt(0)
      {store_registers(1)}
    """

    memory, returned, _ = run_kernel("gfx942", body, [old, np.zeros_like(old), new])

    assert np.array_equal(returned, old)
    assert np.array_equal(memory, ATOMICS_32[name](old, new))


def test_global_atomic_add_all_lanes_on_one_address_sums() -> None:
    body = """
      v_mov_b32_e32 v2, 0
      global_atomic_add v2, v0, s[4:5]
      s_waitcnt vmcnt(0)
    """
    options = KernelOptions(grid=(16, 1, 1), block=(256, 1, 1))

    (out,) = run_kernel("gfx942", body, [np.zeros(1, np.uint32)], options)

    assert out[0] == 16 * sum(range(256))


def test_global_atomic_cmpswap_exchanges_where_equal() -> None:
    memory = np.arange(LANES, dtype=np.uint64) << np.uint64(33)
    body = f"""
      v_lshlrev_b32_e32 v2, 3, v0
      v_mov_b32_e32 v12, 0x55
      v_mov_b32_e32 v13, 0x66
      v_mov_b32_e32 v14, 0
      v_lshlrev_b32_e32 v15, 1, v0
      v_and_b32_e32 v15, 0x3f, v15
      global_atomic_cmpswap_x2 v[8:9], v2, v[12:15], s[4:5] sc0
      s_waitcnt vmcnt(0)
      {store_registers(2)}
    """

    out, returned = run_kernel("gfx942", body, [memory, np.zeros(LANES, np.uint64)])

    assert np.array_equal(returned, memory)
    equal = np.arange(LANES) < LANES // 2
    assert np.array_equal(out, np.where(equal, np.uint64(0x6600000055), memory))


@pytest.mark.parametrize(
    ("mnemonic", "dtype"), [("add_f32", np.float32), ("pk_add_f16", np.float16)]
)
def test_global_atomic_float_add_rounds_to_nearest(mnemonic: str, dtype: type) -> None:
    rng = np.random.default_rng(4)
    count = 256 // np.dtype(dtype).itemsize
    old: Array = rng.normal(size=count).astype(dtype)
    new: Array = rng.normal(size=count).astype(dtype)
    body = f"""
      v_lshlrev_b32_e32 v2, 2, v0
      global_load_dword v9, v2, s[6:7]
      s_waitcnt vmcnt(0)
      global_atomic_{mnemonic} v2, v9, s[4:5]
      s_waitcnt vmcnt(0)
    """

    out, _ = run_kernel("gfx942", body, [old, new])

    assert np.array_equal(out, old + new)


@pytest.mark.parametrize(
    ("mnemonic", "function"),
    [("add", np.add), ("min", np.minimum), ("max", np.maximum)],
)
def test_global_atomic_f64(mnemonic: str, function: np.ufunc) -> None:
    rng = np.random.default_rng(5)
    old, new = rng.normal(size=LANES), rng.normal(size=LANES)
    body = f"""
      v_lshlrev_b32_e32 v2, 3, v0
      global_load_dwordx2 v[10:11], v2, s[6:7]
      s_waitcnt vmcnt(0)
      global_atomic_{mnemonic}_f64 v2, v[10:11], s[4:5]
      s_waitcnt vmcnt(0)
    """

    out, _ = run_kernel("gfx90a", body, [old, new])

    assert np.array_equal(out, function(old, new))


def test_global_atomic_misaligned_is_a_fault() -> None:
    body = """
      v_mov_b32_e32 v2, 2
      global_atomic_add v2, v0, s[4:5]
      s_waitcnt vmcnt(0)
    """

    with pytest.raises(KernelFault, match="not aligned"):
        run_kernel("gfx942", body, [np.zeros(4, np.uint32)])


def test_flat_shared_aperture_reaches_lds() -> None:
    body = f"""
      s_mov_b64 s[8:9], src_shared_base
      v_lshlrev_b32_e32 v2, 2, v0
      v_mov_b32_e32 v3, s9
      v_add_u32_e32 v4, 100, v0
      flat_store_dword v[2:3], v4
      s_waitcnt vmcnt(0) lgkmcnt(0)
      ds_read_b32 v8, v2
      s_waitcnt lgkmcnt(0)
      {store_registers(1, buffer="s[4:5]")}
    """

    (out,) = run_kernel("gfx942", body, [np.zeros(LANES, np.uint32)], KernelOptions(lds=256))

    assert np.array_equal(out, np.arange(100, 100 + LANES))


def test_scratch_lanes_have_memory_of_their_own() -> None:
    body = f"""
      s_movk_i32 s8, 8
      scratch_store_dword off, v0, off offset:16
      v_add_u32_e32 v2, 1, v0
      v_mov_b32_e32 v3, 4
      scratch_store_dword v3, v2, s8 offset:8
      s_waitcnt vmcnt(0)
      scratch_load_dwordx2 v[8:9], off, s8 offset:8
      s_waitcnt vmcnt(0)
      {store_registers(2, buffer="s[4:5]")}
    """
    options = KernelOptions(scratch=64)

    (out,) = run_kernel("gfx942", body, [np.zeros((LANES, 2), np.uint32)], options)

    lane = np.arange(LANES)
    assert np.array_equal(out, np.stack([lane, lane + 1], 1))


def test_scratch_beyond_private_segment_is_a_fault() -> None:
    body = """
      scratch_store_dword off, v0, off offset:64
      s_waitcnt vmcnt(0)
    """

    with pytest.raises(KernelFault, match=r"(?s)scratch access.*lane 0"):
        run_kernel("gfx942", body, [np.zeros(1, np.uint32)], KernelOptions(scratch=64))


@pytest.mark.parametrize(("mnemonic", "width"), [("dword", 4), ("dwordx4", 16)])
def test_global_load_lds_writes_lanes_one_after_another(mnemonic: str, width: int) -> None:
    data = random_bytes(LANES * width).view(np.uint32)
    count = width // 4
    reads = "\n".join(f"ds_read_b32 v{8 + i}, v3 offset:{64 + 4 * i}" for i in range(count))
    body = f"""
      s_mov_b32 m0, 60
      v_mul_u32_u24_e32 v2, {width}, v0
      global_load_lds_{mnemonic} v2, s[4:5]
      s_waitcnt vmcnt(0)
      v_add_u32_e32 v3, -4, v2
      {reads}
      s_waitcnt lgkmcnt(0)
      {store_registers(count)}
    """
    options = KernelOptions(lds=60 + LANES * width)

    _, out = run_kernel("gfx950", body, [data, np.zeros_like(data)], options)

    assert np.array_equal(out, data)
