"""Registers that a memory operation still fills: which s_waitcnt makes them readable."""

from __future__ import annotations

import pytest
from emulator_kernel import run_kernel

# v0 = byte offset of the lane, s[4:5] = output, s[6:7] = input.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
"""
END = "\n  s_endpgm"

COVERED = {
    "load waited for": """
  global_load_dword v1, v0, s[6:7]
  s_waitcnt vmcnt(0)
  global_store_dword v0, v1, s[4:5]""",
    "first of two loads": """
  global_load_dword v1, v0, s[6:7]
  global_load_dword v2, v0, s[6:7]
  s_waitcnt vmcnt(1)
  global_store_dword v0, v1, s[4:5]""",
    "load before a store in the same queue": """
  global_load_dword v1, v0, s[6:7]
  global_store_dword v0, v0, s[4:5]
  s_waitcnt vmcnt(1)
  global_store_dword v0, v1, s[4:5]""",
    "load that overwrites an older load": """
  global_load_dword v1, v0, s[6:7]
  global_load_dword v1, v0, s[6:7]
  s_waitcnt vmcnt(0)
  global_store_dword v0, v1, s[4:5]""",
    "first of two LDS reads": """
  ds_read_b32 v1, v0
  ds_read_b32 v2, v0
  s_waitcnt lgkmcnt(1)
  v_mov_b32_e32 v3, v1""",
    "scalar load beside an LDS read, all waited for": """
  s_load_dword s8, s[6:7], 0x0
  ds_read_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  v_add_u32_e32 v3, s8, v1""",
    "FLAT load, both counters": """
  v_mov_b32_e32 v4, s6
  v_mov_b32_e32 v5, s7
  flat_load_dword v1, v[4:5]
  s_waitcnt vmcnt(0)
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v3, v1""",
    "oldest LDS read of a full counter": "\n".join(
        [f"  ds_read_b32 v{n}, v0" for n in range(1, 17)] + ["  v_mov_b32_e32 v20, v1"]
    ),
    "data of a store overwritten at once": """
  global_store_dword v0, v0, s[4:5]
  v_mov_b32_e32 v0, 0""",
    "store address after an unrelated load": """
  global_load_dword v1, v0, s[6:7]
  v_add_u32_e32 v2, v0, v0""",
}

UNCOVERED = {
    "load read at once": (
        """
  global_load_dword v1, v0, s[6:7]
  global_store_dword v0, v1, s[4:5]""",
        "reads v1 while global_load_dword v1, v0, s[6:7] at +0x10",
    ),
    "load read after a wait for the other counter": (
        """
  global_load_dword v1, v0, s[6:7]
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v2, v1""",
        "(no s_waitcnt vmcnt covers it)",
    ),
    "second of two loads": (
        """
  global_load_dword v1, v0, s[6:7]
  global_load_dword v2, v0, s[6:7]
  s_waitcnt vmcnt(1)
  v_mov_b32_e32 v3, v2""",
        "reads v2 while",
    ),
    "load overwritten by an ALU operation": (
        """
  global_load_dword v1, v0, s[6:7]
  v_mov_b32_e32 v1, 0""",
        "overwrites v1 while",
    ),
    "one register of a wide load": (
        """
  global_load_dwordx4 v[4:7], v0, s[6:7]
  v_mov_b32_e32 v1, v6""",
        "reads v6 while global_load_dwordx4 v[4:7]",
    ),
    "returning atomic": (
        """
  global_atomic_add v1, v0, v0, s[4:5] sc0
  v_mov_b32_e32 v2, v1""",
        "reads v1 while global_atomic_add",
    ),
    "second of two LDS reads": (
        """
  ds_read_b32 v1, v0
  ds_read_b32 v2, v0
  s_waitcnt lgkmcnt(1)
  v_mov_b32_e32 v3, v2""",
        "(no s_waitcnt lgkmcnt covers it)",
    ),
    "LDS read counted past a scalar load": (
        """
  ds_read_b32 v1, v0
  s_load_dword s8, s[6:7], 0x0
  s_waitcnt lgkmcnt(1)
  v_mov_b32_e32 v3, v1""",
        "reads v1 while ds_read_b32",
    ),
    "first of two scalar loads": (
        """
  s_load_dword s8, s[6:7], 0x0
  s_load_dword s9, s[6:7], 0x4
  s_waitcnt lgkmcnt(1)
  s_add_u32 s10, s8, 1""",
        "reads s8 while s_load_dword",
    ),
    "scalar load overwritten by another": (
        """
  s_load_dword s8, s[6:7], 0x0
  s_load_dword s8, s[6:7], 0x4
  s_waitcnt lgkmcnt(0)""",
        "overwrites s8 while",
    ),
    "FLAT load without lgkmcnt": (
        """
  v_mov_b32_e32 v4, s6
  v_mov_b32_e32 v5, s7
  flat_load_dword v1, v[4:5]
  s_waitcnt vmcnt(0)
  v_mov_b32_e32 v3, v1""",
        "reads v1 while flat_load_dword",
    ),
    "global load counted past a FLAT load": (
        """
  v_mov_b32_e32 v4, s6
  v_mov_b32_e32 v5, s7
  global_load_dword v1, v0, s[6:7]
  flat_load_dword v2, v[4:5]
  s_waitcnt vmcnt(1)
  v_mov_b32_e32 v3, v1""",
        "reads v1 while global_load_dword",
    ),
    "register reached by VGPR indexing": (
        """
  s_mov_b32 s8, 4
  global_load_dword v5, v0, s[6:7]
  s_set_gpr_idx_on s8, gpr_idx(SRC0)
  v_mov_b32_e32 v2, v1
  s_set_gpr_idx_off""",
        "reads v5 while global_load_dword",
    ),
    "VCC loaded and used by a branch": (
        """
  s_load_dwordx2 vcc, s[6:7], 0x0
  s_cbranch_vccz .Lnext
.Lnext:""",
        "reads vcc while s_load_dwordx2",
    ),
}


@pytest.mark.parametrize("name", COVERED)
def test_pending_register_with_covering_wait_runs(name: str) -> None:
    outcome = run_kernel(START + COVERED[name] + END, lds=1024)

    assert outcome.ok, outcome.report


@pytest.mark.parametrize("name", UNCOVERED)
def test_pending_register_without_covering_wait_faults(name: str) -> None:
    body, expected = UNCOVERED[name]

    outcome = run_kernel(START + body + END, lds=1024)

    assert outcome.status == 719
    assert expected in outcome.report


def test_waited_load_stored_gives_the_loaded_data() -> None:
    data = b"".join(n.to_bytes(4, "little") for n in range(1000, 1064))

    outcome = run_kernel(START + COVERED["load waited for"] + END, data=data, output_bytes=256)

    assert outcome.output == data
