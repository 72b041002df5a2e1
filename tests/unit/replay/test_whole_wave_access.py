"""Accesses and results of whole waves: vectors of lanes give what one lane after another gives."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import Array, KernelOptions, run_kernel

LANES = 64
ARCH = "gfx942"
WIDTHS = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}


def numbers(count: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint32)


def order_of(pattern: str) -> Array:
    """The element of each lane."""
    lanes = np.arange(LANES, dtype=np.uint32)
    return {
        "contiguous": lanes,
        "reversed": lanes[::-1].copy(),
        "shuffled": np.random.default_rng(5).permutation(lanes),
        "one": np.full(LANES, 9, np.uint32),
        "rows": lanes // 8 * 8 + lanes % 8 * 1 + (lanes // 8 % 2) * 64,
    }[pattern]


@pytest.mark.parametrize("pattern", ["contiguous", "reversed", "shuffled", "one", "rows"])
@pytest.mark.parametrize("width", sorted(WIDTHS))
@pytest.mark.parametrize("kind", ["global", "flat", "buffer"])
def test_load_of_a_whole_wave_matches_each_lane(kind: str, width: str, pattern: str) -> None:
    count = WIDTHS[width]
    data, order = numbers(128 * count), order_of(pattern)
    load = {
        "global": f"global_load_{width} v[8:{7 + count}], v2, s[4:5]",
        "flat": f"flat_load_{width} v[8:{7 + count}], v[4:5]",
        "buffer": f"buffer_load_{width} v[8:{7 + count}], v2, s[12:15], 0 offen",
    }[kind].replace("v[8:8]", "v8")
    stores = "\n".join(
        f"global_store_dword v3, v{8 + i}, s[8:9] offset:{256 * i}" for i in range(count)
    )
    # Twice: the first access of a wave to an allocation looks it up lane by lane.
    body = f"""
      v_lshlrev_b32_e32 v3, 2, v0
      global_load_dword v2, v3, s[6:7]
      s_mov_b64 s[12:13], s[4:5]
      s_movk_i32 s14, {data.nbytes}
      s_mov_b32 s15, 0x27000
      s_waitcnt vmcnt(0)
      v_mov_b32_e32 v4, v2
      v_mov_b32_e32 v5, 0
      v_lshl_add_u64 v[4:5], v[4:5], 0, s[4:5]
      {load}
      s_waitcnt vmcnt(0) lgkmcnt(0)
      {load}
      s_waitcnt vmcnt(0) lgkmcnt(0)
      {stores}
    """

    offsets = (order * 4 * count).astype(np.uint32)
    *_, out = run_kernel(ARCH, body, [data, offsets, np.zeros(LANES * count, np.uint32)])

    assert np.array_equal(out.reshape(count, LANES), data.reshape(-1, count)[order].T)


@pytest.mark.parametrize("pattern", ["contiguous", "reversed", "shuffled", "one"])
@pytest.mark.parametrize("width", sorted(WIDTHS))
@pytest.mark.parametrize("kind", ["global", "buffer"])
def test_store_of_a_whole_wave_leaves_the_last_lane_of_each_place(
    kind: str, width: str, pattern: str
) -> None:
    count = WIDTHS[width]
    values, order = numbers(LANES * count), order_of(pattern)
    store = {
        "global": f"global_store_{width} v2, v[8:{7 + count}], s[8:9]",
        "buffer": f"buffer_store_{width} v[8:{7 + count}], v2, s[12:15], 0 offen",
    }[kind].replace("v[8:8]", "v8")
    loads = "\n".join(
        f"global_load_dword v{8 + i}, v3, s[4:5] offset:{256 * i}" for i in range(count)
    )
    body = f"""
      v_lshlrev_b32_e32 v3, 2, v0
      global_load_dword v2, v3, s[6:7]
      {loads}
      s_mov_b64 s[12:13], s[8:9]
      s_movk_i32 s14, {4 * 128 * count}
      s_mov_b32 s15, 0x27000
      s_waitcnt vmcnt(0)
      {store}
      {store}
    """

    offsets = (order * 4 * count).astype(np.uint32)
    *_, out = run_kernel(ARCH, body, [values, offsets, np.zeros(128 * count, np.uint32)])

    expected = np.zeros((128, count), np.uint32)
    for lane in range(LANES):
        expected[order[lane]] = values.reshape(count, LANES)[:, lane]
    assert np.array_equal(out.reshape(128, count), expected)


@pytest.mark.parametrize("pattern", ["contiguous", "reversed", "shuffled", "one"])
@pytest.mark.parametrize("width", ["b32", "b64", "b96", "b128"])
def test_lds_of_a_whole_wave_is_written_and_read_in_lane_order(width: str, pattern: str) -> None:
    count = int(width[1:]) // 32
    values, order = numbers(LANES * count), order_of(pattern)
    loads = "\n".join(
        f"global_load_dword v{8 + i}, v3, s[4:5] offset:{256 * i}" for i in range(count)
    )
    stores = "\n".join(
        f"global_store_dword v3, v{16 + i}, s[8:9] offset:{256 * i}" for i in range(count)
    )
    body = f"""
      v_lshlrev_b32_e32 v3, 2, v0
      global_load_dword v2, v3, s[6:7]
      {loads}
      s_waitcnt vmcnt(0)
      ds_write_{width} v2, v[8:{7 + count}] offset:16
      s_waitcnt lgkmcnt(0)
      ds_read_{width} v[16:{15 + count}], v2 offset:16
      s_waitcnt lgkmcnt(0)
      {stores}
    """.replace("v[8:8]", "v8").replace("v[16:16]", "v16")

    offsets = (order * 4 * count).astype(np.uint32)
    buffers = [values, offsets, np.zeros(LANES * count, np.uint32)]
    *_, out = run_kernel(ARCH, body, buffers, KernelOptions(lds=4096))

    held = {int(order[lane]): values.reshape(count, LANES)[:, lane] for lane in range(LANES)}
    expected = np.stack([held[int(place)] for place in order]).T
    assert np.array_equal(out.reshape(count, LANES), expected)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("add", "v_add_u32_e32 v8, v8, v8"),
        ("select", "v_cndmask_b32_e64 v8, v8, v9, s[12:13]"),
        ("fma", "v_fma_f32 v8, v8, v8, v8"),
        ("convert", "v_cvt_f32_f64_e32 v9, v[8:9]"),
    ],
)
@pytest.mark.parametrize("mask", ["-1", "0x0f0f0f0f"])
def test_result_over_its_own_source_is_computed_from_the_old_value(
    name: str, lines: str, mask: str
) -> None:
    first = numbers(LANES, 11) >> np.uint32(2)
    second = numbers(LANES, 12) & np.uint32(0x000FFFFF) | np.uint32(0x3FF00000)
    body = f"""
      v_lshlrev_b32_e32 v3, 2, v0
      global_load_dword v8, v3, s[4:5]
      global_load_dword v9, v3, s[6:7]
      s_mov_b32 s12, 0x33333333
      s_mov_b32 s13, 0x33333333
      s_waitcnt vmcnt(0)
      s_mov_b32 exec_lo, {mask}
      s_mov_b32 exec_hi, {mask}
      {lines}
      s_mov_b64 exec, -1
      s_nop 1
      global_store_dword v3, v8, s[8:9]
      global_store_dword v3, v9, s[8:9] offset:256
    """

    *_, out = run_kernel(ARCH, body, [first, second, np.zeros(2 * LANES, np.uint32)])

    lanes = np.arange(LANES)
    active = (int(mask, 0) & 0xFFFFFFFF) >> (lanes % 32) & 1 == 1
    new = [first, second]
    if name == "add":
        new[0] = first * np.uint32(2)
    elif name == "select":
        new[0] = np.where(lanes % 4 < 2, second, first)
    elif name == "fma":
        value = first.view(np.float32).astype(np.float64)
        new[0] = (value * value + value).astype(np.float32).view(np.uint32)
    else:
        wide = (second.astype(np.uint64) << np.uint64(32)) | first
        with np.errstate(over="ignore", under="ignore"):
            new[1] = wide.view(np.float64).astype(np.float32).view(np.uint32)
    assert np.array_equal(out[:LANES], np.where(active, new[0], first))
    assert np.array_equal(out[LANES:], np.where(active, new[1], second))
