"""Workgroups and waves that wait for one another make progress; results never depend on threads."""

from __future__ import annotations

import struct

import pytest
from emulator_kernel import Outcome, run_kernel

ID_X = ".amdhsa_system_sgpr_workgroup_id_x 1"
# s2 = workgroup, s[4:5] = output, s[6:7] = input; one lane; v1 = 0, v2 = 1.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_mov_b64 s[20:21], exec
  s_mov_b64 exec, 1
  v_mov_b32_e32 v1, 0
  v_mov_b32_e32 v2, 1
  s_waitcnt lgkmcnt(0)
"""
# Output word [workgroup] = v3.
STORE_V3 = """
  s_lshl_b32 s12, s2, 2
  v_mov_b32_e32 v4, s12
  global_store_dword v4, v3, s[4:5]
"""


def run(body: str, groups: int, **options: object) -> Outcome:
    settings: dict[str, object] = {
        "grid": (groups, 1, 1),
        "directives": ID_X,
        "output_bytes": 4 * groups,
        "data": bytes(64),
    }
    return run_kernel(START + body + "  s_endpgm\n", **{**settings, **options})  # type: ignore[arg-type]


def threads(count: int, **more: str) -> dict[str, str]:
    return {"threads": str(count), **more}


def grid_barrier(groups: int, arrive: str = "global_atomic_add v1, v2, s[6:7]") -> str:
    """Every workgroup arrives and waits until all have; then takes the count."""
    return f"""
  {arrive}
.Lwait:
  global_load_dword v3, v1, s[6:7] sc1
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s10, v3
  s_cmp_lt_u32 s10, {groups}
  s_cbranch_scc1 .Lwait
{STORE_V3}"""


@pytest.mark.parametrize("count", [1, 4])
def test_grid_barrier_of_a_full_chip_completes(count: int) -> None:
    groups = 304 * 4  # 128 registers: one wave on each of 4 x 4 slots

    outcome = run(grid_barrier(groups), groups, vgprs=128, options=threads(count))

    assert outcome.ok, outcome.report
    assert outcome.words() == [groups] * groups


def test_barrier_of_more_workgroups_than_the_chip_holds_is_reported() -> None:
    resident = 304 * 4  # 512 registers: one wave on each SIMD

    outcome = run(
        grid_barrier(resident + 1),
        resident + 1,
        vgprs=256,
        agprs=256,
        options=threads(2, max_idle_ms="200"),
    )

    assert outcome.status == 719
    assert f"all {resident} resident workgroups spin" in outcome.report
    assert f"the 1 that have not started find no room (the chip holds {resident})" in outcome.report
    assert "loops between +" in outcome.report
    assert "global_load_dword v3, v1, s[6:7] sc1" in outcome.report


@pytest.mark.parametrize("sleep", ["", "  s_sleep 1\n"])
@pytest.mark.parametrize("count", [1, 3])
def test_spin_lock_guards_a_plain_counter(sleep: str, count: int) -> None:
    # Input word 0 is the lock, word 1 the counter, read and written without atomics.
    body = f"""
  v_mov_b32_e32 v6, 1
  v_mov_b32_e32 v7, 0
.Lacquire:
{sleep}  global_atomic_cmpswap v3, v1, v[6:7], s[6:7] sc0
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s10, v3
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lacquire
  global_load_dword v3, v1, s[6:7] offset:4 sc1
  s_waitcnt vmcnt(0)
  v_add_u32_e32 v5, 1, v3
  global_store_dword v1, v5, s[6:7] offset:4 sc1
  s_waitcnt vmcnt(0)
  global_atomic_swap v1, v1, s[6:7]
{STORE_V3}"""

    outcome = run(body, 96, options=threads(count))

    assert outcome.ok, outcome.report
    assert sorted(outcome.words()) == list(range(96))


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("count", [1, 4])
def test_chain_of_plain_flags_completes_in_either_direction(step: int, count: int) -> None:
    # Workgroup i waits until its neighbour has stored a value, then stores that plus one.
    groups = 64
    first = 0 if step == 1 else groups - 1
    body = f"""
  v_mov_b32_e32 v3, 1
  s_cmp_eq_u32 s2, {first}
  s_cbranch_scc1 .Lstore
  s_sub_u32 s13, s2, {step & 0xFFFFFFFF:#x}
  s_lshl_b32 s13, s13, 2
  v_mov_b32_e32 v5, s13
.Lwait:
  global_load_dword v3, v5, s[4:5] sc0 sc1
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s10, v3
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lwait
  v_add_u32_e32 v3, 1, v3
.Lstore:
{STORE_V3.replace("s[4:5]", "s[4:5] sc0 sc1")}"""

    outcome = run(body, groups, options=threads(count))

    assert outcome.ok, outcome.report
    assert outcome.words() == list(range(1, groups + 1))[::step]


def test_loads_without_cache_bypass_make_progress_too() -> None:
    # The last workgroup raises the flag; all others wait for it with ordinary loads.
    groups = 40
    body = f"""
  v_mov_b32_e32 v3, 7
  s_cmp_eq_u32 s2, {groups - 1}
  s_cbranch_scc1 .Lraise
.Lwait:
  global_load_dword v3, v1, s[6:7]
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s10, v3
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lwait
  s_branch .Lout
.Lraise:
  global_store_dword v1, v3, s[6:7]
.Lout:
{STORE_V3}"""

    outcome = run(body, groups, options=threads(2))

    assert outcome.ok, outcome.report
    assert outcome.words() == [7] * groups


@pytest.mark.parametrize("count", [1, 2, 5])
def test_look_back_scan_takes_the_same_path_with_any_number_of_threads(count: int) -> None:
    # Status word [i] of the output: 0x100 + value = aggregate, 0x10000 + value = inclusive prefix.
    groups = 48
    body = f"""
  v_mov_b32_e32 v3, 0x101
{STORE_V3.replace("s[4:5]", "s[4:5] sc1")}
  s_mov_b32 s14, 1
  s_mov_b32 s15, 0
  s_mov_b32 s13, s2
.Lback:
  s_cmp_eq_u32 s13, 0
  s_cbranch_scc1 .Ldone
  s_add_u32 s13, s13, -1
  s_lshl_b32 s16, s13, 2
  v_mov_b32_e32 v5, s16
.Lwait:
  global_load_dword v6, v5, s[4:5] sc1
  s_waitcnt vmcnt(0)
  v_readfirstlane_b32 s10, v6
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lwait
  s_and_b32 s11, s10, 0xff
  s_add_u32 s14, s14, s11
  s_cmp_lt_u32 s10, 0x10000
  s_cbranch_scc1 .Lback
.Ldone:
  s_add_u32 s14, s14, 0x10000
  v_mov_b32_e32 v3, s14
{STORE_V3.replace("s[4:5]", "s[4:5] sc1")}"""

    outcome = run(body, groups, options=threads(count))

    assert outcome.ok, outcome.report
    assert outcome.words() == [0x10000 + i + 1 for i in range(groups)]
    one_thread = run(body, groups, options=threads(1))
    assert outcome.wave_instructions == one_thread.wave_instructions
    assert outcome.modelled_cycles == one_thread.modelled_cycles


def float_sum(count: int, prefix: str = "") -> bytes:
    """Output word 0: the sum of 1/(workgroup + 1), added by atomics."""
    body = f"""{prefix}
  v_cvt_f32_u32_e32 v3, s2
  v_add_f32_e32 v3, 1.0, v3
  v_rcp_f32_e32 v3, v3
  s_nop 1
  global_atomic_add_f32 v1, v3, s[4:5]
"""
    outcome = run(body, 200, options=threads(count))
    assert outcome.ok, outcome.report
    return outcome.output[:4]


def test_float_atomics_are_added_in_workgroup_order_with_any_number_of_threads() -> None:
    # Odd workgroups are long, so that on several threads they arrive late.
    delay = """
  s_and_b32 s10, s2, 1
  s_mul_i32 s10, s10, 3000
.Ldelay:
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lready
  s_add_u32 s10, s10, -1
  s_branch .Ldelay
.Lready:"""
    total = 0.0
    for index in range(200):
        addend = struct.unpack("f", struct.pack("f", 1 / (index + 1)))[0]
        total = struct.unpack("f", struct.pack("f", total + addend))[0]

    sums = {float_sum(count, delay) for count in (1, 2, 4)}

    assert sums == {struct.pack("f", total)}


def test_integer_atomics_that_return_nothing_lose_no_update_on_several_threads() -> None:
    body = """
  s_movk_i32 s10, 500
.Lagain:
  global_atomic_add v1, v2, s[4:5]
  s_add_u32 s10, s10, -1
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lagain
"""
    outcome = run(body, 64, options=threads(4))

    assert outcome.ok, outcome.report
    assert outcome.words()[0] == 64 * 500


@pytest.mark.parametrize("count", [1, 3])
def test_waves_that_spin_on_lds_see_each_other(count: int) -> None:
    # Wave 1 waits for a flag in LDS that wave 0 raises late; wave 2 stands at the barrier.
    body = (
        """
  v_readfirstlane_b32 s10, v0
  s_lshr_b32 s10, s10, 6
  s_cmp_eq_u32 s10, 2
  s_cbranch_scc1 .Lmeet
  s_cmp_eq_u32 s10, 1
  s_cbranch_scc1 .Lwait
  ds_write_b32 v1, v1
  s_waitcnt lgkmcnt(0)
  s_movk_i32 s11, 0x5000
.Ldelay:
  s_add_u32 s11, s11, -1
  s_cmp_lg_u32 s11, 0
  s_cbranch_scc1 .Ldelay
  v_mov_b32_e32 v3, 5
  ds_write_b32 v1, v3
  s_waitcnt lgkmcnt(0)
  s_branch .Lmeet
.Lwait:
  ds_read_b32 v3, v1
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s10, v3
  s_cmp_lg_u32 s10, 5
  s_cbranch_scc1 .Lwait
.Lmeet:
  s_barrier
  ds_read_b32 v3, v1
  s_waitcnt lgkmcnt(0)
"""
        + STORE_V3
    )
    outcome = run(body, 4, block=(192, 1, 1), lds=64, options=threads(count))

    assert outcome.ok, outcome.report
    assert outcome.words() == [5] * 4


@pytest.mark.parametrize("count", [1, 4])
def test_first_failing_workgroup_is_reported_with_any_number_of_threads(count: int) -> None:
    # Even workgroups from 20 on fail, the later ones sooner.
    body = """
  s_sub_u32 s10, 64, s2
  s_mul_i32 s10, s10, 100
.Ldelay:
  s_add_u32 s10, s10, -1
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Ldelay
  s_cmp_lt_u32 s2, 20
  s_cbranch_scc1 .Lout
  s_trap 2
.Lout:
"""
    outcome = run(body, 60, options=threads(count))

    assert "workgroup (20, 0, 0)" in outcome.report


def test_loop_that_nothing_can_change_is_reported_at_once_with_its_range() -> None:
    outcome = run(".Lloop:\n  s_nop 0\n  s_branch .Lloop\n", 1)

    assert "endless loop: wave 0 reads nothing in it that could change" in outcome.report
    assert "loops between +0x1c and +0x20" in outcome.report


def test_loop_that_counts_is_ended_by_the_watchdog_with_its_range() -> None:
    outcome = run(
        ".Lloop:\n  s_add_u32 s10, s10, 1\n  s_branch .Lloop\n",
        1,
        options={"max_wave_instructions": "100000"},
    )

    assert "did not end within 100000 wave instructions" in outcome.report
    assert "loops between +0x1c and +0x20" in outcome.report
    assert "s_add_u32 s10, s10, 1" in outcome.report


def test_workgroup_too_large_for_a_compute_unit_is_refused() -> None:
    outcome = run("", 1, block=(1024, 1, 1), vgprs=256)

    assert outcome.status != 0
