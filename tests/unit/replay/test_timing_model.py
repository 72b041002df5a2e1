"""The timing model ranks: what helps a GPU lowers modelled cycles, dead code costs nothing."""

from __future__ import annotations

from emulator_kernel import Outcome, run_kernel

START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
"""
WORK = "\n".join(["  v_add_u32_e32 v4, v4, v4"] * 40)


def run(body: str, **options: object) -> Outcome:
    outcome = run_kernel(START + body + "\n  s_endpgm", **options)  # type: ignore[arg-type]
    assert outcome.ok, outcome.report
    return outcome


def test_load_hoisted_above_work_is_faster() -> None:
    load, use = "  global_load_dword v1, v0, s[6:7]\n", "  s_waitcnt vmcnt(0)\n  v_mov_b32 v2, v1"

    late = run(f"{WORK}\n{load}{use}")
    early = run(f"{load}{WORK}\n{use}")

    assert early.modelled_cycles <= late.modelled_cycles - 4 * 40


def test_wait_relaxed_to_the_needed_count_is_faster() -> None:
    loads = "  global_load_dword v1, v0, s[6:7]\n  global_load_dword v2, v0, s[6:7] offset:256\n"

    def kernel(count: int) -> str:
        return (
            f"{loads}  s_waitcnt vmcnt({count})\n  v_mov_b32 v3, v1\n{WORK}\n"
            "  s_waitcnt vmcnt(0)\n  v_mov_b32 v3, v2"
        )

    assert run(kernel(1)).modelled_cycles < run(kernel(0)).modelled_cycles


def test_executed_nop_deleted_saves_its_turns() -> None:
    with_nop = run("  s_nop 4")
    without = run("")

    assert with_nop.modelled_cycles - without.modelled_cycles == 5 * 4


def test_dead_instruction_deleted_is_faster() -> None:
    assert run("").modelled_cycles < run("  v_mov_b32 v9, 0").modelled_cycles


def test_code_after_the_end_costs_nothing() -> None:
    assert run("").modelled_cycles == run("  s_endpgm\n" + WORK).modelled_cycles


def test_barrier_waits_for_the_slowest_wave() -> None:
    def kernel(spins: int) -> str:
        return f"""
  v_readfirstlane_b32 s10, v0
  s_cmp_lg_u32 s10, 0
  s_cbranch_scc1 .Lwait
  s_movk_i32 s11, {spins}
.Lspin:
  s_addk_i32 s11, -1
  s_cmp_lg_u32 s11, 0
  s_cbranch_scc1 .Lspin
.Lwait:
  s_barrier"""

    short, long = (run(kernel(n), block=(128, 1, 1)) for n in (10, 110))

    assert long.modelled_cycles - short.modelled_cycles >= 100 * 3 * 4


def test_fewer_resident_waves_cost_time_when_latency_bound() -> None:
    body = "  global_load_dword v1, v0, s[6:7]\n  s_waitcnt vmcnt(0)\n  v_mov_b32 v2, v1"

    full = run(body, grid=(20000, 1, 1), vgprs=64, options={"threads": "1"})
    starved = run(body, grid=(20000, 1, 1), vgprs=256, options={"threads": "1"})

    assert starved.modelled_cycles > full.modelled_cycles


def test_matrix_result_read_too_early_stalls() -> None:
    mfma = "  v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], 0\n"
    fill = "\n".join(f"  v_mov_b32 v{n}, 0" for n in range(16, 20)) + "\n"

    dependent = run(fill + mfma + "  v_mov_b32 v20, v0")
    independent = run(fill + mfma + "  v_mov_b32 v20, v24")

    assert dependent.modelled_cycles - independent.modelled_cycles >= 24


def test_modelled_cycles_do_not_depend_on_threads() -> None:
    body = "  global_load_dword v1, v0, s[6:7]\n  s_waitcnt vmcnt(0)\n  v_mov_b32 v2, v1"

    counts = {
        run(body, grid=(500, 1, 1), options={"threads": threads}).modelled_cycles
        for threads in ("1", "2", "7")
    }

    assert len(counts) == 1


def test_profile_counts_executions_and_blames_the_wait() -> None:
    body = "  global_load_dword v1, v0, s[6:7]\n  s_waitcnt vmcnt(0)\n  v_mov_b32 v2, v1"

    profile = run(body, grid=(10, 1, 1), block=(256, 1, 1), options={"profile": "1"}).profile

    assert all(executions == 40 for _, executions, _ in profile)
    stalls = {offset: stall for offset, _, stall in profile}
    assert max(stalls, key=lambda offset: stalls[offset]) == 24
    assert sum(stall > 0 for stall in stalls.values()) == 2
