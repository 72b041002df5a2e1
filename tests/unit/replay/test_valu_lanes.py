"""Vector operations that move data between lanes or between lanes and scalars."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import KernelFault
from lane_runner import LANES, run_elementwise

LANE = np.arange(LANES, dtype=np.uint32)
A = LANE * 3 + 1000
B = LANE * 7 + 500000


def run(code: str, outputs: list[int], arch: str = "gfx942") -> list[np.ndarray]:
    return run_elementwise(code, [A, B], outputs, arch=arch)


@pytest.mark.parametrize("lane", [0, 17, 63])
def test_readlane_of_a_lane_broadcasts_it(lane: int) -> None:
    code = f"s_mov_b32 s41, {lane}\nv_readlane_b32 s40, v10, s41\nv_mov_b32 v30, s40"

    (result,) = run(code, [30])

    assert (result == A[lane]).all()


@pytest.mark.parametrize(("mask", "lane"), [(0xFF00, 8), (1 << 63, 63), (0, 0)])
def test_readfirstlane_under_exec_reads_the_lowest_active_lane(mask: int, lane: int) -> None:
    code = f"""
    s_mov_b32 s40, {mask & 0xFFFFFFFF:#x}
    s_mov_b32 s41, {mask >> 32:#x}
    s_mov_b64 exec, s[40:41]
    v_readfirstlane_b32 s42, v10
    s_mov_b64 exec, -1
    v_mov_b32 v30, s42
    """

    (result,) = run(code, [30])

    assert (result == A[lane]).all()


def test_writelane_of_an_inactive_lane_changes_that_lane_only() -> None:
    code = "v_mov_b32 v30, v10\ns_mov_b64 exec, 0\nv_writelane_b32 v30, 42, 5\ns_mov_b64 exec, -1"

    (result,) = run(code, [30])

    assert (result == np.where(LANE == 5, 42, A)).all()


def test_mbcnt_of_a_mask_counts_lower_lanes() -> None:
    code = "v_mbcnt_lo_u32_b32 v30, -1, 0\nv_mbcnt_hi_u32_b32 v30, -1, v30\n"
    code += "s_mov_b32 s40, 0xf0f0\nv_mbcnt_lo_u32_b32 v31, s40, v10"

    ids, count = run(code, [30, 31])

    assert (ids == LANE).all()
    expected = [int(A[i]) + (0xF0F0 & (1 << i) - 1).bit_count() for i in range(LANES)]
    assert count.tolist() == expected


def test_swap_under_exec_exchanges_active_lanes() -> None:
    code = "s_mov_b32 exec_lo, 0xff\ns_mov_b32 exec_hi, 0\nv_swap_b32 v10, v11\ns_mov_b64 exec, -1"

    first, second = run(code, [10, 11])

    assert (first == np.where(LANE < 8, B, A)).all()
    assert (second == np.where(LANE < 8, A, B)).all()


@pytest.mark.parametrize("width", [16, 32])
def test_permlane_swap_exchanges_odd_groups_with_even_ones(width: int) -> None:
    destination, source = run(f"v_permlane{width}_swap_b32 v10, v11", [10, 11], arch="gfx950")

    is_odd = (LANE // width) % 2 == 1
    assert (destination == np.where(is_odd, B[LANE ^ width], A)).all()
    assert (source == np.where(is_odd, B, A[LANE ^ width])).all()


def test_permlane_swap_with_inactive_lanes_is_refused() -> None:
    with pytest.raises(KernelFault, match="inactive lanes"):
        run("s_mov_b64 exec, 1\nv_permlane32_swap_b32 v10, v11", [10], arch="gfx950")


def test_prng_steps_its_shift_register() -> None:
    (result,) = run("v_prng_b32 v30, v11", [30], arch="gfx950")

    expected = [(int(x) << 1 ^ (197 if int(x) >> 31 else 0)) & 0xFFFFFFFF for x in B]
    assert result.tolist() == expected
