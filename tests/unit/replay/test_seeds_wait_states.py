"""Wait states under a seed: without them some seed gives another result, with them none does."""

from __future__ import annotations

import struct

import pytest
from emulator_kernel import run_kernel, run_with_seeds

SEEDS = range(1, 7)
# v0 = lane's byte offset, s[4:5] = output, s[6:7] = input; registers hold small numbers.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  v_mov_b32_e32 v1, 7
  v_mov_b32_e32 v2, 1.0
  v_mov_b32_e32 v3, 2.0
  v_mov_b32_e32 v4, 3
  v_mov_b32_e32 v5, 5
  s_mov_b32 s8, 3
  s_mov_b32 s9, 0
  s_mov_b32 s10, 1
  s_mov_b64 vcc, 0
  s_waitcnt lgkmcnt(0)
  s_nop 7
"""
STORE = """
  s_nop 15
  s_nop 15
  s_waitcnt vmcnt(0)
  global_store_dword v0, {}, s[4:5]
  s_endpgm"""
DATA = struct.pack("<256I", *range(1000, 1256))
MATRIX = """
  v_mov_b32_e32 v8, 0x3c003c00
  v_mov_b32_e32 v9, 0x3c003c00
""" + "".join(f"  v_mov_b32_e32 v{n}, {n}\n" for n in range(12, 24))
MFMA = "  v_mfma_f32_16x16x16_f16 v[12:15], v[8:9], v[8:9], 0\n"

# Each holds a nop of just the length that is needed.
PROGRAMS = {
    "SGPR for a memory address": (
        """
  s_mov_b64 s[12:13], s[6:7]
  v_mov_b32_e32 v6, s6
  v_add_u32_e32 v6, 64, v6
  s_nop 0
  v_readfirstlane_b32 s12, v6
  {s_nop 4}
  global_load_dword v7, v0, s[12:13]""",
        "v7",
    ),
    "SGPR as a constant": (
        "  v_readfirstlane_b32 s8, v5\n  {s_nop 1}\n  v_mov_b32_e32 v7, s8",
        "v7",
    ),
    "VCC as a mask": (
        "  v_cmp_eq_u32_e32 vcc, v1, v1\n  {s_nop 1}\n  v_cndmask_b32_e32 v7, v4, v5, vcc",
        "v7",
    ),
    "SGPR as a lane": (
        "  v_readfirstlane_b32 s8, v5\n  {s_nop 3}\n  v_readlane_b32 s11, v0, s8\n"
        "  s_nop 7\n  v_mov_b32_e32 v7, s11",
        "v7",
    ),
    "VCC of a division": (
        "  v_mov_b32_e32 v6, 0x3f000000\n  v_cmp_eq_u32_e32 vcc, v1, v1\n  {s_nop 3}\n"
        "  v_div_fmas_f32 v7, v2, v3, v6",
        "v7",
    ),
    "VGPR read by a lane read": (
        "  v_mov_b32_e32 v4, 9\n  {s_nop 0}\n  v_readfirstlane_b32 s11, v4\n"
        "  s_nop 7\n  v_mov_b32_e32 v7, s11",
        "v7",
    ),
    "EXEC before DPP": (
        "  v_mov_b32_e32 v7, 1\n  v_mov_b32_e32 v6, 4\n  s_nop 4\n"
        "  v_cmpx_lt_u32_e64 s[12:13], v0, v6\n  {s_nop 4}\n"
        "  v_mov_b32_dpp v7, v5 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf\n"
        "  s_nop 7\n  s_mov_b64 exec, -1",
        "v7",
    ),
    "EXEC before a lane read": (
        "  v_mov_b32_e32 v6, 16\n  s_nop 4\n  v_cmpx_gt_u32_e64 s[12:13], v0, v6\n  {s_nop 3}\n"
        "  v_readfirstlane_b32 s11, v0\n  s_nop 7\n  s_mov_b64 exec, -1\n"
        "  v_mov_b32_e32 v7, s11",
        "v7",
    ),
    "VGPR swizzled by DPP": (
        "  v_mov_b32_e32 v4, 9\n  {s_nop 1}\n"
        "  v_mov_b32_dpp v7, v4 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
        "v7",
    ),
    "transcendental": ("  v_exp_f32_e32 v6, v3\n  {s_nop 0}\n  v_add_f32_e32 v7, v6, v6", "v7"),
    "destination half": (
        "  v_add_u32_sdwa v4, v1, v5 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD "
        "src1_sel:DWORD\n  {s_nop 0}\n  v_mov_b32_e32 v7, v4",
        "v7",
    ),
    "dot product": (
        "  v_dot2_f32_f16 v4, v2, v3, v2\n  {s_nop 2}\n  v_add_f32_e32 v7, v4, v4",
        "v7",
    ),
    "data of a wide store": (
        MATRIX
        + """
  v_lshlrev_b32_e32 v6, 2, v0
  global_store_dwordx4 v6, v[12:15], s[4:5]
  {s_nop 1}
  v_mov_b32_e32 v13, 99
  s_waitcnt vmcnt(0)
  s_endpgm""",
        "v4",
    ),
    "M0 of a load to LDS": (
        "  s_mov_b32 m0, 0\n  s_nop 3\n  s_movk_i32 m0, 0x100\n  {s_nop 0}\n"
        "  global_load_lds_dword v0, s[6:7]\n  s_waitcnt vmcnt(0)\n"
        "  ds_read_b32 v7, v0 offset:256\n  s_waitcnt lgkmcnt(0)",
        "v7",
    ),
    "hardware register": (
        "  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5\n  {s_nop 1}\n"
        "  s_getreg_b32 s11, hwreg(HW_REG_MODE, 0, 4)\n  v_mov_b32_e32 v7, s11",
        "v7",
    ),
    "factor of a matrix": (
        MATRIX + "  v_mov_b32_e32 v8, 0\n  {s_nop 1}\n" + MFMA,
        "v12",
    ),
    "matrix result read": (MATRIX + MFMA + "  {s_nop 6}\n  v_mov_b32_e32 v7, v12", "v7"),
    "matrix result stored": (
        MATRIX + MFMA + "  {s_nop 6}\n  ds_write_b32 v0, v12\n  s_waitcnt lgkmcnt(0)\n"
        "  ds_read_b32 v7, v0\n  s_waitcnt lgkmcnt(0)",
        "v7",
    ),
    "matrix result overwritten": (MATRIX + MFMA + "  {s_nop 6}\n  v_mov_b32_e32 v12, 1", "v12"),
    "matrix result as a factor": (
        MATRIX + MFMA + "  {s_nop 6}\n  v_mfma_f32_16x16x16_f16 v[16:19], v[12:13], v[8:9], 0",
        "v16",
    ),
    "matrix sum overlaps": (
        MATRIX + MFMA + "  {s_nop 4}\n  v_mfma_f32_16x16x16_f16 v[16:19], v[8:9], v[8:9], v[14:17]",
        "v16",
    ),
    "matrix sum overwritten": (
        MATRIX
        + "  s_nop 1\n  v_mfma_f32_16x16x16_f16 v[12:15], v[8:9], v[8:9], v[16:19]\n"
        + "  {s_nop 2}\n  v_mov_b32_e32 v16, 1.0",
        "v12",
    ),
}


def text_of(name: str, *, is_short: bool) -> str:
    body, result = PROGRAMS[name]
    before, _, rest = body.partition("{")
    needed, _, after = rest.partition("}")
    states = int(needed.split()[1])
    short = f"s_nop {states - 1}" if states else ""
    return START + before + (short if is_short else needed) + after + STORE.format(result)


def run(name: str, *, is_short: bool) -> list[bytes]:
    text = text_of(name, is_short=is_short)
    outcomes = run_with_seeds(text, (0, *SEEDS), lds=1024, data=DATA)
    assert all(outcome.ok for outcome in outcomes)
    return [outcome.output for outcome in outcomes]


def errors(name: str, *, is_short: bool) -> list[str]:
    outcome = run_kernel(
        text_of(name, is_short=is_short),
        lds=1024,
        data=DATA,
        options={"checks": "hazards", "on_finding": "collect"},
    )
    assert outcome.ok, outcome.report
    return [item["rule"] for item in outcome.findings if item["class"] == "error"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_wait_state_that_lacks_shows_under_a_seed_and_is_reported(name: str) -> None:
    right, *seeded = run(name, is_short=False)
    assert set(seeded) == {right}
    assert errors(name, is_short=False) == []

    plain, *seeded = run(name, is_short=True)

    assert plain == right  # without a seed nothing shows
    assert any(output != right for output in seeded)
    assert errors(name, is_short=True) != []
