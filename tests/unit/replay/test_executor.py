"""The executor: start state of a wave, barriers, and everything that ends a launch."""

from __future__ import annotations

import pytest
from emulator_kernel import run_kernel

STORE_S8 = """
  s_store_dword s8, s[4:5], 0x0
  s_endpgm
"""
POINTERS = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
"""
UNINITIALISED = 0x7FC0DEAD


def test_unknown_instruction_reached_faults_with_its_place() -> None:
    outcome = run_kernel("  s_nop 0\n  .long 0xffffffff\n  s_endpgm")

    assert outcome.status == 719
    assert "illegal instruction 0xffffffff" in outcome.report
    assert "at +0x4" in outcome.report


def test_program_without_end_runs_out_of_its_code() -> None:
    outcome = run_kernel("  s_nop 0")

    assert "illegal" in outcome.report


@pytest.mark.parametrize(
    ("target", "reason"), [("0", "outside the code object's text"), ("2", "not a multiple of 4")]
)
def test_jump_to_an_illegal_address_faults(target: str, reason: str) -> None:
    outcome = run_kernel(f"  s_mov_b64 s[2:3], {target}\n  s_setpc_b64 s[2:3]\n  s_endpgm")

    assert "illegal pc" in outcome.report
    assert reason in outcome.report


def test_endless_loop_is_ended_by_the_watchdog() -> None:
    body = ".Lloop:\n  s_add_u32 s10, s10, 1\n  s_branch .Lloop"

    outcome = run_kernel(body, options={"max_wave_instructions": "100000"})

    assert outcome.status == 719
    assert "did not end within 100000 wave instructions" in outcome.report


def test_register_beyond_the_allocation_faults() -> None:
    outcome = run_kernel("  v_mov_b32_e32 v200, 0\n  s_endpgm", vgprs=8)

    assert "uses v200, but the kernel's waves have only 8 vector registers" in outcome.report


_HIGH_VGPR = """\
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32 v1, 2, v0
  {before}
  v_add_u32 v60, 7, v0
  v_mov_b32 v2, v60
  {after}
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v2, s[4:5]
  s_endpgm"""


def test_vgprs_behind_the_accum_offset_are_registers_of_a_kernel_without_agprs() -> None:
    outcome = run_kernel(_HIGH_VGPR.format(before="", after=""), vgprs=32, agprs=32)

    assert outcome.ok, outcome.report
    assert outcome.words()[:64] == [7 + lane for lane in range(64)]


@pytest.mark.parametrize(
    ("before", "after"),
    [("v_accvgpr_write_b32 a1, v0", ""), ("", "v_accvgpr_read_b32 v3, a1")],
)
def test_vgprs_that_overlap_named_agprs_fault(before: str, after: str) -> None:
    outcome = run_kernel(_HIGH_VGPR.format(before=before, after=after), vgprs=32, agprs=32)

    assert "uses v60, but the kernel's waves have only 32 vector registers" in outcome.report


def test_report_shows_the_code_around_the_fault() -> None:
    outcome = run_kernel(
        "  s_nop 1\n  s_nop 2\n  s_nop 3\n  s_nop 4\n  s_trap 2\n  s_nop 5\n  s_endpgm",
        grid=(1, 1, 1),
        block=(128, 1, 1),
    )

    lines = [line.strip() for line in outcome.report.splitlines()]
    assert "kernel k: the program stopped itself with s_trap 2" in lines[0]
    assert "workgroup (0, 0, 0), wave 0" in lines[1]
    assert lines[2:] == [
        "+0x4  s_nop 2",
        "+0x8  s_nop 3",
        "+0xc  s_nop 4",
        "> +0x10  s_trap 2",
        "+0x14  s_nop 5",
        "+0x18  s_endpgm",
    ]


def test_fault_of_several_workgroups_reports_the_first() -> None:
    body = "  s_trap 1\n  s_endpgm"
    directives = ".amdhsa_system_sgpr_workgroup_id_x 1"

    reports = {
        run_kernel(
            body, grid=(64, 1, 1), directives=directives, options={"threads": threads}
        ).report
        for threads in ("1", "4")
    }

    assert len(reports) == 1
    assert "workgroup (0, 0, 0)" in reports.pop()


def test_barrier_joins_waves_of_a_workgroup() -> None:
    # Wave 0 writes LDS late; wave 1 reads it after the barrier.
    body = (
        POINTERS
        + """
  v_readfirstlane_b32 s10, v0
  v_mov_b32_e32 v1, 0
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lread
  s_movk_i32 s11, 0x3000
.Llater:
  s_addk_i32 s11, -1
  s_cmp_lg_u32 s11, 0
  s_cbranch_scc1 .Llater
  v_mov_b32_e32 v2, 0x77
  ds_write_b32 v1, v2
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_endpgm
.Lread:
  s_barrier
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s8, v2
"""
        + STORE_S8
    )

    outcome = run_kernel(body, block=(128, 1, 1), lds=64)

    assert outcome.ok, outcome.report
    assert outcome.words()[0] == 0x77


def test_barrier_with_an_ended_wave_releases_the_others() -> None:
    body = """
  v_readfirstlane_b32 s10, v0
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lend_early
  s_barrier
.Lend_early:
  s_endpgm"""

    outcome = run_kernel(body, block=(128, 1, 1))

    assert outcome.ok, outcome.report


def test_wave_at_a_barrier_that_another_never_reaches_is_named() -> None:
    body = """
  v_readfirstlane_b32 s10, v0
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lspin
  s_barrier
  s_endpgm
.Lspin:
  s_branch .Lspin"""

    outcome = run_kernel(body, block=(128, 1, 1), options={"max_wave_instructions": "50000"})

    assert "wave 0 at a barrier" in outcome.report
    assert "wave 1 running" in outcome.report


def test_unwritten_registers_hold_the_fill_pattern() -> None:
    body = POINTERS + "  v_readfirstlane_b32 s8, v7\n" + STORE_S8

    outcome = run_kernel(body)

    assert outcome.words()[0] == UNINITIALISED


def test_partial_wave_has_only_its_lanes_in_exec() -> None:
    body = (
        POINTERS
        + """
  v_readfirstlane_b32 s10, v0
  s_cmp_lg_u32 s10, 64
  s_cbranch_scc1 .Lend_early
  s_bcnt1_i32_b64 s8, exec
"""
        + STORE_S8
        + ".Lend_early:\n  s_endpgm"
    )

    outcome = run_kernel(body, block=(70, 1, 1))

    assert outcome.words()[0] == 6


def test_work_item_ids_are_packed_into_v0() -> None:
    body = (
        POINTERS
        + """
  v_readlane_b32 s8, v0, 63
"""
        + STORE_S8
    )

    outcome = run_kernel(body, block=(4, 4, 4), directives=".amdhsa_system_vgpr_workitem_id 2")

    assert outcome.words()[0] == 3 | 3 << 10 | 3 << 20


def test_workgroup_ids_follow_the_user_sgprs() -> None:
    # One dword a workgroup: index = x + 2*y + 6*z.
    body = """
  s_mov_b32 s12, s2
  s_mov_b32 s13, s3
  s_mov_b32 s14, s4
  s_load_dwordx2 s[6:7], s[0:1], 0x0
  s_mul_i32 s13, s13, 2
  s_mul_i32 s14, s14, 6
  s_add_u32 s12, s12, s13
  s_add_u32 s12, s12, s14
  s_lshl_b32 s15, s12, 2
  s_waitcnt lgkmcnt(0)
  s_store_dword s12, s[6:7], s15
  s_endpgm"""
    directives = "\n".join(f"  .amdhsa_system_sgpr_workgroup_id_{axis} 1" for axis in "xyz")

    outcome = run_kernel(body, grid=(2, 3, 2), directives=directives, output_bytes=48)

    assert outcome.words() == list(range(12))


def test_preloaded_kernargs_enter_past_the_prologue() -> None:
    # The first 256 bytes are the compatibility prologue; the preloaded pointer is in s[2:3].
    body = """
  s_trap 3
  .fill 63, 4, 0xbf800000
  s_mov_b32 s8, 0x1234
  s_store_dword s8, s[2:3], 0x0
  s_endpgm"""

    outcome = run_kernel(
        body,
        directives=(
            ".amdhsa_user_sgpr_kernarg_preload_length 2\n"
            "  .amdhsa_user_sgpr_kernarg_preload_offset 0"
        ),
    )

    assert outcome.ok, outcome.report
    assert outcome.words()[0] == 0x1234


def test_mode_starts_as_the_descriptor_says() -> None:
    body = POINTERS + "  s_getreg_b32 s8, hwreg(HW_REG_MODE)\n" + STORE_S8
    directives = """
  .amdhsa_float_round_mode_32 2
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_float_denorm_mode_16_64 3
  .amdhsa_dx10_clamp 1
  .amdhsa_ieee_mode 0"""

    outcome = run_kernel(body, directives=directives)

    assert outcome.words()[0] == 0b01_1111_0010


def test_global_atomics_run_in_workgroup_order() -> None:
    # Every workgroup takes a ticket; with one thread in order the ticket is its number.
    body = """
  s_mov_b32 s12, s2
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  s_mov_b64 exec, 1
  v_mov_b32_e32 v1, 0
  v_mov_b32_e32 v2, 1
  global_atomic_add v3, v1, v2, s[6:7] sc0
  s_waitcnt vmcnt(0)
  v_lshlrev_b32_e64 v4, 2, s12
  global_store_dword v4, v3, s[4:5]
  s_endpgm"""

    outcome = run_kernel(
        body,
        grid=(64, 1, 1),
        directives=".amdhsa_system_sgpr_workgroup_id_x 1",
        data=bytes(64),
        output_bytes=256,
        options={"threads": "8"},
    )

    assert outcome.words() == list(range(64))
