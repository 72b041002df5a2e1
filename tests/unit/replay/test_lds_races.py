"""LDS races between waves, misaligned addresses and barriers that not all waves reach."""

from __future__ import annotations

import pytest
from emulator_kernel import Outcome, run_kernel

# v0 = lane's byte offset within the workgroup, v2 = the same reversed (another wave's), v3 = lane
# number, s[4:5] = output, s[6:7] = input.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_mov_b32_e32 v3, v0
  v_lshlrev_b32_e32 v0, 2, v0
  v_sub_u32_e32 v2, 508, v0
  v_mov_b32_e32 v1, 0
  s_waitcnt lgkmcnt(0)
"""
WAIT = "\n  s_waitcnt lgkmcnt(0) vmcnt(0)\n"
BARRIER = WAIT + "  s_barrier\n"


def run(body: str, checks: str, waves: int = 2) -> Outcome:
    return run_kernel(
        START + body + WAIT + "  s_endpgm",
        lds=1024,
        block=(64 * waves, 1, 1),
        options={"checks": checks, "on_finding": "collect"},
    )


def rules(outcome: Outcome) -> list[tuple[str, str]]:
    assert outcome.ok, outcome.report
    return [(item["rule"], item["class"]) for item in outcome.findings]


RACES = {
    "read of what another wave writes": (
        "  ds_write_b32 v0, v3\n{}  ds_read_b32 v4, v2",
        "lds-race",
    ),
    "write of what another wave read": (
        "  ds_read_b32 v4, v0\n{}  ds_write_b32 v2, v3",
        "lds-race",
    ),
    "two writes of different values": (
        "  ds_write_b32 v0, v3\n{}  ds_write_b32 v2, v3",
        "lds-race",
    ),
    "wide write over narrow reads": (
        "  ds_read_b32 v4, v0\n{}  ds_write2_b32 v2, v3, v3 offset1:1",
        "lds-race",
    ),
    "one byte": (
        "  ds_write_b8 v3, v3\n{}  v_sub_u32_e32 v5, 127, v3\n  ds_read_u8 v4, v5",
        "lds-race",
    ),
    "atomic and plain read": (
        "  ds_add_u32 v1, v3\n{}  ds_read_b32 v4, v1",
        "lds-race",
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_race_without_a_barrier_is_found_with_both_instructions(name: str) -> None:
    body, rule = RACES[name]

    outcome = run(body.format(WAIT), "races")

    assert (rule, "error") in rules(outcome)
    finding = outcome.findings[0]
    assert finding["other_instruction"].startswith("ds_")
    assert finding["instruction"].startswith("ds_")
    assert {finding["wave"], finding["other_wave"]} == {0, 1}
    assert finding["lane"] is not None and finding["where"].startswith("LDS byte")


@pytest.mark.parametrize("name", RACES)
def test_race_with_a_barrier_between_is_none(name: str) -> None:
    # Behind the barrier one wave alone goes on: what is raced here is before and behind it.
    body, _ = RACES[name]
    one_wave = "  v_readfirstlane_b32 s8, v3\n  s_cmp_lg_u32 s8, 0\n  s_cbranch_scc1 .Lrest\n"

    outcome = run(body.format(BARRIER + one_wave) + "\n.Lrest:", "races")

    assert rules(outcome) == []


CLEAN = {
    "each wave in its own part": "  ds_write_b32 v0, v3\n  ds_read_b32 v4, v0",
    "all waves read": "  ds_read_b32 v4, v1\n  ds_read_b32 v5, v2",
    "atomics on one word": "  ds_add_u32 v1, v3\n  ds_add_rtn_u32 v4, v1, v3\n  ds_or_b32 v1, v3",
    "neighbouring bytes of one dword": "  ds_write_b8 v3, v3\n  ds_read_u8 v4, v3",
    "permutes": "  ds_bpermute_b32 v4, v1, v3\n  ds_swizzle_b32 v5, v3",
}


@pytest.mark.parametrize("name", CLEAN)
def test_ordered_accesses_give_no_race(name: str) -> None:
    assert rules(run(CLEAN[name], "races")) == []


def test_two_waves_writing_the_same_value_is_a_caution() -> None:
    outcome = run("  ds_write_b32 v1, v1", "races")

    assert rules(outcome) == [("lds-race-same-value", "caution")]


def test_race_through_flat_addresses_is_found() -> None:
    body = (
        """
  s_mov_b64 s[8:9], src_shared_base
  v_mov_b32_e32 v5, s9
  v_mov_b32_e32 v4, v0
  flat_store_dword v[4:5], v3
"""
        + WAIT
        + "  ds_read_b32 v6, v2"
    )

    outcome = run(body, "races")

    assert ("lds-race", "error") in rules(outcome)
    assert outcome.findings[0]["other_instruction"].startswith(("flat_store", "ds_read"))


def test_race_with_lds_dma_is_found() -> None:
    body = """
  s_mov_b32 m0, 0
  global_load_lds_dword v1, s[6:7]
"""

    outcome = run(body, "races")

    assert rules(outcome) == [("lds-race", "error")]


MISALIGNED = {
    "scalar load": ("  s_add_u32 s6, s6, 2\n  s_load_dword s8, s[6:7], 0x0", "misaligned", "error"),
    "dword load": (
        "  v_mov_b32_e32 v4, 2\n  global_load_dword v5, v4, s[6:7]",
        "unaligned",
        "caution",
    ),
    "LDS read": ("  v_mov_b32_e32 v4, 6\n  ds_read_b32 v5, v4", "unaligned", "caution"),
    "LDS-DMA": (
        "  s_mov_b32 m0, 2\n  s_nop 0\n  global_load_lds_dword v1, s[6:7]",
        "misaligned",
        "error",
    ),
}


@pytest.mark.parametrize("name", MISALIGNED)
def test_misaligned_access_is_found(name: str) -> None:
    body, rule, severity = MISALIGNED[name]

    outcome = run(body, "alignment", waves=1)

    assert rules(outcome) == [(rule, severity)]


def test_aligned_accesses_give_no_finding() -> None:
    body = """
  s_load_dword s8, s[6:7], 0x4
  global_load_dwordx4 v[4:7], v0, s[6:7]
  global_load_ubyte v8, v3, s[6:7]
  ds_read_b64 v[10:11], v0
  ds_read_u16 v12, v1
"""

    assert rules(run(body, "alignment", waves=1)) == []


SPLIT = "  v_readfirstlane_b32 s8, v3\n  s_cmp_lg_u32 s8, 0\n  s_cbranch_scc1 .Lother\n"


def test_barrier_that_an_ended_wave_does_not_reach_is_found() -> None:
    outcome = run(SPLIT + "  s_barrier\n.Lother:", "barriers")

    assert rules(outcome) == [("barrier-without-wave", "caution")]
    assert outcome.findings[0]["other_wave"] == 1


def test_waves_that_meet_at_different_barriers_are_found() -> None:
    body = SPLIT + "  s_barrier\n  s_branch .Lrest\n.Lother:\n  s_barrier\n.Lrest:"

    outcome = run(body, "barriers")

    assert rules(outcome) == [("barrier-elsewhere", "caution")]
    assert outcome.findings[0]["other_instruction"] == "s_barrier"


def test_barrier_that_all_waves_reach_gives_no_finding() -> None:
    assert rules(run("  s_barrier\n  s_barrier", "barriers")) == []
