"""The dword that an allocation ends in: compilers make atomics of 8 and 16 bits of all of it.

LLVM's AtomicExpand loads the dword and compares and swaps it; Triton adds a packed pair of halves.
"""

from __future__ import annotations

import pytest
from emulator_kernel import run_kernel

OUTPUT_BYTES = 6
START = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_mov_b32_e32 v0, 4
  v_mov_b32_e32 v1, 5
  v_mov_b32_e32 v6, 5
  v_mov_b32_e32 v7, 0
  v_mov_b32_e32 v2, 0
  v_mov_b32_e32 v3, 0
  s_mov_b32 s6, -1
  s_mov_b32 s7, 0x00027000
  s_mov_b64 exec, 1
  s_waitcnt lgkmcnt(0)
"""
END = """
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_endpgm
"""


@pytest.mark.parametrize(
    "access",
    [
        "s_load_dword s8, s[4:5], 0x4",
        "global_load_dword v4, v0, s[4:5]",
        "buffer_load_dword v4, v0, s[4:7], 0 offen",
        "global_atomic_cmpswap v4, v0, v[6:7], s[4:5] sc0",
        "buffer_atomic_cmpswap v[6:7], v0, s[4:7], 0 offen",
        "global_atomic_pk_add_f16 v0, v2, s[4:5]",
        "s_atomic_add s6, s[4:5], 0x4",
    ],
)
def test_last_dword_is_loaded_and_changed_by_atomics_whole(access: str) -> None:
    outcome = run_kernel(f"{START}  {access}{END}", output_bytes=OUTPUT_BYTES)

    assert outcome.ok, outcome.report


def test_swap_of_the_last_dword_changes_what_is_allocated_of_it() -> None:
    body = f"{START}  global_atomic_cmpswap v0, v[6:7], s[4:5]{END}"

    outcome = run_kernel(body, output_bytes=OUTPUT_BYTES)

    assert outcome.output == bytes([0, 0, 0, 0, 5, 0])


@pytest.mark.parametrize(
    "access",
    [
        "global_store_dword v0, v1, s[4:5]",
        "s_store_dword s8, s[4:5], 0x4",
        "s_load_dwordx2 s[8:9], s[4:5], 0x0",
        "global_load_dwordx2 v[4:5], v2, s[4:5]",
        "global_load_dword v4, v2, s[4:5] offset:3",
        "global_load_dword v4, v0, s[4:5] offset:4",
        "global_load_ushort v4, v0, s[4:5] offset:2",
        "global_atomic_add_x2 v2, v[2:3], s[4:5]",
    ],
)
def test_other_accesses_end_where_the_allocation_ends(access: str) -> None:
    outcome = run_kernel(f"{START}  {access}{END}", output_bytes=OUTPUT_BYTES)

    assert not outcome.ok
    assert "illegal" in outcome.report
