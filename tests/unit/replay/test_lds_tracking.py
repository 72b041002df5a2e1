"""LDS accesses that other waves, or the wave itself, may meet before they are done."""

from __future__ import annotations

import pytest
from emulator_kernel import Outcome, run_kernel

# Two waves: s10 = 0 in the first. v0 = byte offset of the lane in its wave, v1 = the same, v2 data.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_readfirstlane_b32 s10, v0
  v_and_b32_e32 v0, 63, v0
  v_lshlrev_b32_e32 v0, 2, v0
  v_mov_b32_e32 v2, 7
  s_waitcnt lgkmcnt(0)
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lsecond
"""


def run_waves(first: str, second: str, **options: str) -> Outcome:
    body = f"{START}{first}\n  s_endpgm\n.Lsecond:\n{second}\n  s_endpgm"
    return run_kernel(body, block=(128, 1, 1), lds=1024, options=options)


WRITE, READ = "  ds_write_b32 v0, v2\n", "  ds_read_b32 v3, v0\n"
BARRIER, WAIT = "  s_barrier\n", "  s_waitcnt lgkmcnt(0)\n"
WRITE_ELSEWHERE = "  ds_write_b32 v0, v2 offset:512\n"
LOAD = "  s_mov_b32 m0, 0\n  s_nop 0\n  global_load_lds_dword v[4:5], off\n"
ADDRESS = "  v_mov_b32_e32 v4, s6\n  v_mov_b32_e32 v5, s7\n"

ORDERED = {
    "write, wait, barrier, read": (WRITE + WAIT + BARRIER, BARRIER + READ + WAIT),
    "write elsewhere outstanding": (WRITE_ELSEWHERE + BARRIER, BARRIER + READ + WAIT),
    "waited for before a second barrier": (
        WRITE + BARRIER + WAIT + BARRIER,
        BARRIER + BARRIER + READ + WAIT,
    ),
    "reads on both sides": (READ + BARRIER + WAIT, BARRIER + READ + WAIT),
    "load to LDS, waited for": (
        ADDRESS + LOAD + "  s_waitcnt vmcnt(0)\n" + BARRIER,
        BARRIER + READ + WAIT,
    ),
    "atomics on both sides": (
        "  ds_add_u32 v0, v2\n" + BARRIER + WAIT,
        BARRIER + "  ds_add_u32 v0, v2\n" + WAIT,
    ),
}

UNORDERED = {
    "write outstanding, read": (
        WRITE + BARRIER,
        BARRIER + READ,
        "reads LDS byte 0 while ds_write_b32 v0, v2",
    ),
    "write outstanding, waited for too late": (
        WRITE + BARRIER + WAIT,
        BARRIER + READ + WAIT,
        "of wave 0 is outstanding: that wave passed s_barrier",
    ),
    "read outstanding, write": (
        READ + BARRIER + WAIT,
        BARRIER + WRITE,
        "writes LDS byte 0 while ds_read_b32 v3, v0",
    ),
    "write2 outstanding, read of its second half": (
        "  ds_write2st64_b32 v0, v2, v2 offset1:2\n" + BARRIER,
        BARRIER + "  ds_read_b32 v3, v0 offset:512\n",
        "reads LDS byte 512 while ds_write2st64_b32",
    ),
    "load to LDS outstanding": (
        ADDRESS + LOAD + BARRIER,
        BARRIER + READ,
        "without an s_waitcnt vmcnt that covers it",
    ),
    "own load to LDS outstanding": (
        ADDRESS + LOAD + READ,
        "",
        "is still loading it (no s_waitcnt vmcnt covers it)",
    ),
}


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("reverse", ["0", "1"])
def test_lds_accesses_in_order_run(name: str, reverse: str) -> None:
    first, second = ORDERED[name]

    outcome = run_waves(first, second, reverse_waves=reverse)

    assert outcome.ok, outcome.report


@pytest.mark.parametrize("name", UNORDERED)
def test_lds_access_that_meets_an_outstanding_one_faults(name: str) -> None:
    first, second, expected = UNORDERED[name]

    outcome = run_waves(first, second)

    assert outcome.status == 719
    assert expected in outcome.report


def test_wave_order_shows_a_missing_barrier() -> None:
    # The second wave reads what the first writes, with no barrier between.
    store = "  s_waitcnt lgkmcnt(0)\n  global_store_dword v0, v3, s[4:5]\n"

    results = [
        run_waves(WRITE + WAIT, READ + store, reverse_waves=reverse).output
        for reverse in ("0", "1")
    ]

    assert results[0] != results[1]
