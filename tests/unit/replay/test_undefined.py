"""Undefined data: reported where it reaches an address, a branch, EXEC or memory, only there."""

from __future__ import annotations

import pytest
from emulator_kernel import Outcome, run_kernel

# v0 = byte offset of the lane, s[4:5] = output, s[6:7] = input; v5, v6, s20, s21 and LDS are never
# written.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  v_mov_b32_e32 v1, 0
  s_waitcnt lgkmcnt(0)
"""
WAIT = "\n  s_waitcnt vmcnt(0) lgkmcnt(0)\n"
STORE = WAIT + "  global_store_dword v0, v5, s[4:5]\n"
FOUR_LANES = "\n  s_mov_b64 exec, 0xf\n"
DPP = " row_mask:0xf bank_mask:0xf bound_ctrl:1"
LOAD_LOW = "  global_load_short_d16 v5, v0, s[6:7]"
ALL_LANES = "\n  s_mov_b64 exec, -1\n"


def run(body: str) -> Outcome:
    outcome = run_kernel(
        START + body + WAIT + "  s_endpgm",
        lds=1024,
        options={"checks": "undefined", "on_finding": "collect"},
    )
    assert outcome.ok, outcome.report
    return outcome


# Register 2 behind the one that the instruction names.
INDEXED = "  s_mov_b32 s8, 2\n  s_set_gpr_idx_on s8, gpr_idx({})\n  {}\n  s_set_gpr_idx_off\n"

REPORTED = {
    "register chosen by an index": (
        INDEXED.format("SRC0", "v_mov_b32_e32 v5, v3") + STORE,
        "undefined-store",
    ),
    "sum with a register chosen by an index": (
        INDEXED.format("SRC0", "v_add_u32_e32 v5, v3, v1") + STORE,
        "undefined-store",
    ),
    "store": (STORE, "undefined-store"),
    "high half of a wide sum": (
        "  v_mov_b32_e32 v6, 1\n  v_mad_u64_u32 v[6:7], s[20:21], v0, 3, v[6:7]\n"
        "  v_mov_b32_e32 v5, v7" + STORE,
        "undefined-store",
    ),
    "sum that is stored": ("  v_add_u32_e32 v5, v5, v1" + STORE, "undefined-store"),
    "lanes that were inactive": (
        FOUR_LANES + "  v_mov_b32_e32 v5, 0" + ALL_LANES + STORE,
        "undefined-store",
    ),
    "other half of a D16 load": (
        LOAD_LOW + STORE,
        "undefined-store",
    ),
    "LDS that nobody wrote": ("  ds_read_b32 v5, v0" + STORE, "undefined-store"),
    "through LDS": (
        "  ds_write_b32 v0, v5" + WAIT + "  ds_read_b32 v5, v0" + STORE,
        "undefined-store",
    ),
    "through memory": (
        "  global_store_dword v0, v6, s[4:5]" + WAIT + "  global_load_dword v5, v0, s[4:5]" + STORE,
        "undefined-store",
    ),
    "other lane by DPP": (
        FOUR_LANES
        + "  v_mov_b32_e32 v6, 0"
        + ALL_LANES
        + "  s_nop 4\n  v_mov_b32_dpp v5, v6 row_shl:4"
        + DPP
        + STORE,
        "undefined-store",
    ),
    "factor of a matrix": (
        "  v_mov_b32_e32 v8, 0\n  v_mov_b32_e32 v9, 0\n  s_nop 1\n"
        "  v_mfma_f32_16x16x16_f16 v[12:15], v[8:9], v[6:7], 0\n  s_nop 7\n"
        "  v_mov_b32_e32 v5, v12" + STORE,
        "undefined-store",
    ),
    "vector address": (
        "  v_and_b32_e32 v5, 0x7c, v5\n  global_load_dword v6, v5, s[6:7]",
        "undefined-address",
    ),
    "LDS address": ("  v_and_b32_e32 v5, 0x7c, v5\n  ds_read_b32 v6, v5", "undefined-address"),
    "scalar address": (
        "  s_and_b32 s20, s20, 0x7c\n  s_load_dword s22, s[6:7], s20",
        "undefined-address",
    ),
    "scalar address out of a lane": (
        "  v_readfirstlane_b32 s20, v5\n  s_and_b32 s20, s20, 0x7c\n"
        "  s_load_dword s22, s[6:7], s20",
        "undefined-address",
    ),
    "branch on SCC": (
        "  s_cmp_eq_u32 s20, 0\n  s_cbranch_scc1 .Lnext\n.Lnext:",
        "undefined-branch",
    ),
    "branch on VCC": (
        "  v_cmp_eq_u32_e32 vcc, v1, v5\n  s_nop 4\n  s_cbranch_vccnz .Lnext\n.Lnext:",
        "undefined-branch",
    ),
    "EXEC": (
        "  v_cmp_gt_u32_e32 vcc, v5, v1\n  s_nop 4\n  s_and_saveexec_b64 s[8:9], vcc",
        "undefined-exec",
    ),
    "EXEC by v_cmpx": ("  v_cmpx_gt_u32_e32 vcc, v5, v1", "undefined-exec"),
}


@pytest.mark.parametrize("name", REPORTED)
def test_undefined_data_is_reported_where_it_counts(name: str) -> None:
    body, rule = REPORTED[name]

    outcome = run(body)

    assert [(item["rule"], item["class"]) for item in outcome.findings] == [(rule, "error")]


CLEAN = {
    "register written by an index": INDEXED.format("DST", "v_mov_b32_e32 v3, v1") + STORE,
    "sum written by an index": INDEXED.format("DST", "v_add_u32_e32 v3, v1, v1") + STORE,
    "lanes written by an index": INDEXED.format("DST", "v_mov_b32_e32 v3, v1")
    + INDEXED.format("DST", "v_writelane_b32 v3, s4, 3")
    + STORE,
    "input": "  global_load_dword v5, v0, s[6:7]" + STORE,
    "never used": "  v_add_u32_e32 v6, v5, v5\n  v_mul_f32_e32 v6, v6, v6",
    "masked out": "  v_and_b32_e32 v5, 0, v5" + STORE,
    "forced to ones": "  v_or_b32_e32 v5, -1, v5" + STORE,
    "shifted out": LOAD_LOW + WAIT + "  v_lshlrev_b32_e32 v5, 16, v5" + STORE,
    "both halves": "  global_load_short_d16 v5, v0, s[6:7]\n"
    "  global_load_short_d16_hi v5, v0, s[6:7] offset:2" + STORE,
    "stored half": LOAD_LOW + WAIT + "  global_store_short v0, v5, s[4:5]",
    "bytes that a permute takes": LOAD_LOW
    + "\n  s_mov_b32 s22, 0x01000100\n"
    + WAIT
    + "  v_perm_b32 v5, v5, v5, s22"
    + STORE,
    "lanes that stay inactive": FOUR_LANES + "  v_mov_b32_e32 v5, 0" + STORE + ALL_LANES,
    "lanes that a select drops": FOUR_LANES
    + "  v_mov_b32_e32 v5, 0"
    + ALL_LANES
    + "  s_mov_b64 vcc, 0xf\n  v_cndmask_b32_e32 v5, v1, v5, vcc"
    + STORE,
    "mask of active lanes": FOUR_LANES
    + "  v_mov_b32_e32 v5, 0\n  v_cmp_eq_u32_e32 vcc, v1, v5\n  s_nop 4\n"
    + "  s_cbranch_vccz .Lnext\n.Lnext:"
    + ALL_LANES,
    "lane written and read": "  v_writelane_b32 v5, s4, 3\n  s_nop 1\n  v_readlane_b32 s20, v5, 3\n"
    "  v_mov_b32_e32 v5, s20" + STORE,
    "DPP without a source": "  v_mov_b32_dpp v5, v1 row_shr:1" + DPP + STORE,
    "LDS that was written": "  ds_write_b32 v0, v1" + WAIT + "  ds_read_b32 v5, v0" + STORE,
    "SDWA word of a defined half": "  global_load_short_d16 v6, v0, s[6:7]"
    + WAIT
    + "  v_add_u32_sdwa v5, v1, v6 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD "
    "src1_sel:WORD_0" + STORE,
    "packed halves apart": "  global_load_short_d16 v6, v0, s[6:7]"
    + WAIT
    + "  v_pk_add_u16 v5, v6, v6 op_sel:[0,0] op_sel_hi:[0,0]"
    + STORE,
    "overwritten before the end": "  global_store_dword v0, v5, s[4:5]"
    + WAIT
    + "  global_store_dword v0, v1, s[4:5]",
    "low half of a wide product and sum": "  v_mov_b32_e32 v6, 1\n"
    "  v_mad_u64_u32 v[6:7], s[20:21], v0, 3, v[6:7]\n  v_mov_b32_e32 v5, v6" + STORE,
    "defined matrix": "  v_mov_b32_e32 v8, 0\n  v_mov_b32_e32 v9, 0\n  s_nop 1\n"
    "  v_mfma_f32_16x16x16_f16 v[12:15], v[8:9], v[8:9], 0\n  s_nop 7\n  v_mov_b32_e32 v5, v12"
    + STORE,
    "scalar bits that are masked": "  s_and_b32 s20, s20, 0\n  s_cmp_eq_u32 s20, 0\n"
    "  s_cbranch_scc1 .Lnext\n.Lnext:",
    "mask with a defined one": "  s_mov_b64 vcc, 0\n  s_or_b64 vcc, vcc, 1\n"
    "  s_cbranch_vccnz .Lnext\n.Lnext:",
}


@pytest.mark.parametrize("name", CLEAN)
def test_data_that_is_defined_where_it_counts_gives_no_finding(name: str) -> None:
    assert run(CLEAN[name]).findings == []


def test_finding_of_a_store_names_instruction_and_lane() -> None:
    body = FOUR_LANES + "  v_mov_b32_e32 v5, 0" + ALL_LANES + STORE

    finding = run(body).findings[0]

    assert finding["instruction"] == "global_store_dword v0, v5, s[4:5]"
    assert finding["lane"] == 4
    assert finding["count"] == 60


def test_undefined_store_ends_the_launch_where_findings_do() -> None:
    outcome = run_kernel(START + STORE + WAIT + "  s_endpgm", options={"checks": "undefined"})

    assert outcome.status == 719
    assert "stores undefined data that stays in memory at 0x" in outcome.report
    assert (
        "global_store_dword v0, v5, s[4:5], workgroup (0, 0, 0), wave 0, lane 0" in outcome.report
    )
    assert [item["rule"] for item in outcome.findings] == ["undefined-store"]


# Lane 5 of v6 alone is undefined: row or column 5 of a matrix of 16, 1 of one of 4 (block 1).
_ONE_LANE = (
    "  s_mov_b32 exec_lo, ~(1 << 5)\n  v_mov_b32_e32 v6, 0\n  v_mov_b32_e32 v7, 0\n"
    "  s_mov_b64 exec, -1\n"
    + "".join(f"  v_mov_b32_e32 v{n}, 0\n" for n in (8, 9, 10, 11, *range(12, 28)))
    + "  s_nop 1\n"
)


def _undefined_lanes(operation: str, register: str) -> int:
    body = _ONE_LANE + f"  {operation}\n  s_nop 15\n  s_nop 7\n  v_mov_b32_e32 v5, {register}"
    (finding,) = run(body + STORE).findings
    return int(finding["count"])


@pytest.mark.parametrize(
    ("operation", "register", "lanes"),
    [
        # Row 5 is register 1 of lanes 16 to 31; column 5 is lanes 5, 21, 37, 53 of every register.
        ("v_mfma_f32_16x16x16_f16 v[12:15], v[6:7], v[8:9], 0", "v13", 16),
        ("v_mfma_f32_16x16x16_f16 v[12:15], v[8:9], v[6:7], 0", "v12", 4),
        ("v_smfmac_f32_16x16x32_f16 v[12:15], v[6:7], v[8:11], v16", "v13", 16),
        ("v_mfma_f32_16x16x1_4b_f32 v[12:27], v6, v8, 0", "v13", 16),
        # f64: row 5 is lanes 16 to 31 of the second pair.
        ("v_mfma_f64_16x16x4_f64 v[12:19], v[6:7], v[8:9], 0", "v14", 16),
        ("v_mfma_f64_16x16x4_f64 v[12:19], v[8:9], v[6:7], 0", "v19", 4),
        # Block 1, row 1: lanes 20 to 23; of the f32 form register 1 of lanes 4 to 7.
        ("v_mfma_f64_4x4x4_4b_f64 v[12:13], v[6:7], v[8:9], 0", "v12", 4),
        ("v_mfma_f32_4x4x4_16b_f16 v[12:15], v[6:7], v[8:9], 0", "v13", 4),
        ("v_mfma_f32_4x4x4_16b_f16 v[12:15], v[8:9], v[6:7], 0", "v14", 1),
    ],
)
def test_matrix_operation_spreads_an_undefined_lane_over_its_line(
    operation: str, register: str, lanes: int
) -> None:
    assert _undefined_lanes(operation, register) == lanes
