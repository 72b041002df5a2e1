"""Software wait states at run time: each rule with too few wait states, and with enough."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from emulator_kernel import Outcome, run_kernel

# v0 = byte offset of the lane, s[4:5] = output; v8, v9 hold its address.
START = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  v_mov_b32_e32 v8, s4
  v_mov_b32_e32 v9, 0
  s_mov_b32 m0, 0
  s_mov_b32 s10, 0
"""
APART = "\n  s_nop 15\n  s_nop 15\n  s_waitcnt vmcnt(0) lgkmcnt(0)\n"
EVERY = ("gfx90a", "gfx942", "gfx950")
NEW = ("gfx942", "gfx950")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A producer, a consumer, and the wait states between them."""

    rule: str
    states: int
    first: str
    second: str
    archs: tuple[str, ...] = EVERY
    severity: str = "error"

    def text(self, between: int) -> str:
        nops = [f"s_nop {min(between - at, 16) - 1}" for at in range(0, between, 16)]
        return "\n  ".join(["", self.first, *nops, self.second]) + APART


def operands(text: str) -> str:
    """Mnemonics have several spellings."""
    return text.splitlines()[0].partition(" ")[2]


PAIRS = (
    Pair(
        rule="valu-sgpr-vmem",
        states=5,
        first="v_readfirstlane_b32 s4, v8",
        second="global_load_dword v20, v0, s[4:5]",
    ),
    Pair(
        rule="valu-sgpr-valu",
        states=2,
        first="v_cmp_eq_u32_e32 vcc, v0, v9",
        second="v_cndmask_b32_e32 v20, v8, v9, vcc",
        archs=NEW,
    ),
    Pair(
        rule="valu-sgpr-lane-select",
        states=4,
        first="v_readfirstlane_b32 s11, v9",
        second="v_readlane_b32 s12, v8, s11",
    ),
    Pair(
        rule="valu-vcc-div-fmas",
        states=4,
        first="v_div_scale_f32 v20, vcc, v8, v9, v8",
        second="v_div_fmas_f32 v21, v8, v9, v8",
    ),
    Pair(
        rule="valu-readlane",
        states=1,
        first="v_mov_b32_e32 v20, v8",
        second="v_readlane_b32 s12, v20, s10",
        archs=NEW,
    ),
    Pair(
        rule="valu-exec-lane",
        states=4,
        first="v_cmpx_eq_u32_e32 vcc, v0, v0",
        second="v_readfirstlane_b32 s12, v8",
        archs=NEW,
    ),
    Pair(
        rule="valu-exec-dpp",
        states=5,
        first="v_cmpx_eq_u32_e32 vcc, v0, v0",
        second="v_mov_b32_dpp v20, v8 row_shr:1 row_mask:0xf bank_mask:0xf",
    ),
    Pair(
        rule="valu-exec-vmem",
        states=5,
        first="v_cmpx_eq_u32_e32 vcc, v0, v0",
        second="global_load_dword v20, v0, s[4:5]",
        severity="caution",
    ),
    Pair(
        rule="valu-dpp",
        states=2,
        first="v_mov_b32_e32 v20, v8",
        second="v_mov_b32_dpp v21, v20 row_shr:1 row_mask:0xf bank_mask:0xf",
    ),
    Pair(
        rule="valu-dpp-operand",
        states=2,
        first="v_mov_b32_e32 v20, v8",
        second="v_add_u32_dpp v21, v8, v20 row_shr:1 row_mask:0xf bank_mask:0xf",
        severity="caution",
    ),
    Pair(
        rule="valu-permlane",
        states=2,
        first="v_mov_b32_e32 v20, v8",
        second="v_permlane32_swap_b32 v20, v21",
        archs=("gfx950",),
    ),
    Pair(
        rule="transcendental",
        states=1,
        first="v_rcp_f32_e32 v20, v8",
        second="v_add_f32_e32 v21, v20, v8",
        archs=NEW,
    ),
    Pair(
        rule="destination-shift",
        states=1,
        first="v_add_f32_sdwa v20, v8, v9 dst_sel:WORD_1 dst_unused:UNUSED_PAD "
        "src0_sel:DWORD src1_sel:DWORD",
        second="v_mov_b32_e32 v21, v20",
        archs=NEW,
    ),
    Pair(
        rule="converted-halves",
        states=1,
        first="v_cvt_pk_fp8_f32 v20, v9, v9",
        second="v_cvt_pk_fp8_f32 v20, v9, v9 op_sel:[0,0,1]",
        archs=NEW,
        severity="caution",
    ),
    Pair(
        rule="packed-result",
        states=1,
        first="v_pk_add_f16 v20, v8, v9",
        second="v_mov_b32_e32 v21, v20",
        archs=NEW,
        severity="caution",
    ),
    Pair(
        rule="wide-store-data",
        states=2,
        first="global_store_dwordx4 v0, v[20:23], s[4:5]",
        second="v_mov_b32_e32 v22, v8",
        archs=NEW,
    ),
    Pair(
        rule="wide-store-data",
        states=1,
        first="global_store_dwordx4 v0, v[20:23], s[4:5]",
        second="v_mov_b32_e32 v22, v8",
        archs=("gfx90a",),
    ),
    Pair(
        rule="salu-m0",
        states=1,
        first="s_mov_b32 m0, 0",
        second="ds_read_addtid_b32 v20",
    ),
    Pair(
        rule="setreg",
        states=2,
        first="s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0",
        second="s_getreg_b32 s12, hwreg(HW_REG_MODE)",
    ),
    Pair(
        rule="dot",
        states=3,
        first="v_dot2_f32_f16 v20, v8, v9, v9",
        second="v_mov_b32_e32 v21, v20",
    ),
    Pair(
        rule="valu-mfma",
        states=2,
        first="v_mov_b32_e32 v20, v8",
        second="v_mfma_f32_4x4x1f32 v[24:27], v20, v9, v[28:31]",
    ),
    Pair(
        rule="mfma-valu-read",
        states=7,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mov_b32_e32 v30, v21",
        archs=("gfx942",),
    ),
    Pair(
        rule="mfma-valu-read",
        states=8,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mov_b32_e32 v30, v21",
        archs=("gfx950",),
    ),
    Pair(
        rule="mfma-valu-read",
        states=11,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mov_b32_e32 v30, v21",
        archs=("gfx90a",),
    ),
    Pair(
        rule="mfma-memory-read",
        states=5,
        first="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="global_store_dword v0, v21, s[4:5]",
    ),
    Pair(
        rule="mfma-overwrite",
        states=5,
        first="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mov_b32_e32 v21, v8",
    ),
    Pair(
        rule="mfma-accumulator-overwrite",
        states=3,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mov_b32_e32 v25, v8",
        archs=NEW,
    ),
    Pair(
        rule="mfma-factor",
        states=5,
        first="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mfma_f32_4x4x4f16 v[28:31], v[20:21], v[8:9], v[24:27]",
    ),
    Pair(
        rule="mfma-chain",
        states=2,
        first="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], v[20:23]",
        archs=NEW,
    ),
    Pair(
        rule="mfma-chain-other-opcode",
        states=5,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], v[20:23]",
        archs=("gfx942",),
        severity="caution",
    ),
    Pair(
        rule="mfma-overlap",
        states=5,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mfma_f32_4x4x4f16 v[28:31], v[8:9], v[8:9], v[22:25]",
        archs=("gfx942",),
    ),
    Pair(
        rule="mfma-matrix-overwrite",
        states=5,
        first="v_mfma_f32_16x16x16f16 v[20:23], v[8:9], v[8:9], v[24:27]",
        second="v_mfma_f32_4x4x4f16 v[20:23], v[8:9], v[8:9], 0",
        archs=("gfx942",),
        severity="caution",
    ),
    Pair(
        rule="dgemm-fma",
        states=2,
        first="v_mfma_f64_4x4x4f64 v[20:21], v[8:9], v[8:9], v[24:25]",
        second="v_fma_f64 v[28:29], v[8:9], v[8:9], v[8:9]",
    ),
    Pair(
        rule="dgemm-memory",
        states=2,
        first="v_mov_b32_e32 v20, v8\n  v_mfma_f64_4x4x4f64 v[24:25], v[8:9], v[8:9], v[28:29]",
        second="global_store_dword v0, v20, s[4:5]",
        archs=("gfx90a",),
    ),
)


def run(target: str, body: str) -> Outcome:
    options = {"checks": "hazards", "on_finding": "collect"}
    return run_kernel(
        START + APART + body + "\n  s_endpgm", target=target, lds=1024, options=options
    )


@pytest.mark.parametrize("arch", EVERY)
def test_pair_with_too_few_wait_states_is_found_with_both_instructions(arch: str) -> None:
    pairs = [pair for pair in PAIRS if arch in pair.archs]
    # The DGEMM between the two is a wait state.
    body = "".join(
        pair.text(0 if pair.rule == "dgemm-memory" else pair.states - 1) for pair in pairs
    )

    outcome = run(arch, body)

    assert outcome.ok, outcome.report
    found = [(item["rule"], item["class"]) for item in outcome.findings]
    assert found == [(pair.rule, pair.severity) for pair in pairs]
    for pair, item in zip(pairs, outcome.findings, strict=True):
        assert operands(item["instruction"]) == operands(pair.second)
        assert operands(item["other_instruction"]) == operands(pair.first)
        assert f"{pair.states - 1} of {pair.states} wait states" in item["message"]


@pytest.mark.parametrize("arch", EVERY)
def test_pair_with_enough_wait_states_gives_no_finding(arch: str) -> None:
    pairs = [pair for pair in PAIRS if arch in pair.archs]

    outcome = run(arch, "".join(pair.text(pair.states) for pair in pairs))

    assert outcome.ok, outcome.report
    assert outcome.findings == []


def test_hazard_over_a_loop_back_edge_is_found() -> None:
    body = """
  s_mov_b32 s12, 2
.Lloop:
  v_readlane_b32 s13, v8, s11
  s_add_u32 s12, s12, -1
  s_cmp_lg_u32 s12, 0
  v_readfirstlane_b32 s11, v9
  s_cbranch_scc1 .Lloop"""

    outcome = run("gfx942", body)

    assert [item["rule"] for item in outcome.findings] == ["valu-sgpr-lane-select"]
    assert outcome.findings[0]["message"].startswith("1 of 4 wait states")


def test_hazard_ends_the_launch_when_findings_end_it() -> None:
    body = "\n  v_readfirstlane_b32 s4, v8\n  global_load_dword v20, v0, s[4:5]\n  s_endpgm"

    outcome = run_kernel(START + body, options={"checks": "hazards"})

    assert outcome.status == 719
    assert "0 of 5 wait states between v_readfirstlane_b32 s4, v8" in outcome.report
