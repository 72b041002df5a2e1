from __future__ import annotations

import pytest
from instruction_lines import program_of

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal
from asmevo.codeobject.analysis.register import parse_registers
from asmevo.codeobject.analysis.wait_state import Instance, analyse_waits, find_wait_violations

LOADS = "global_load_dword v1, v[8:9], off\nglobal_load_dword v2, v[8:9], off\n"


def violations(text: str) -> list[tuple[int, int]]:
    program = program_of(text + "\ns_endpgm")
    found = find_wait_violations(analyse_waits(program))
    return [(one.producer, one.consumer) for one in found]


def test_read_without_a_wait_is_found() -> None:
    assert violations(LOADS + "v_add_u32_e32 v3, v1, v1") == [(0, 2)]


def test_read_behind_an_exact_count_is_covered() -> None:
    assert not violations(LOADS + "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v3, v1")


def test_read_of_the_younger_load_behind_the_older_ones_count_is_found() -> None:
    assert violations(LOADS + "s_waitcnt vmcnt(1)\nv_mov_b32_e32 v3, v2") == [(1, 3)]


def test_overwrite_of_a_loading_register_is_found() -> None:
    assert violations(LOADS + "v_mov_b32_e32 v1, 0") == [(0, 2)]


def test_load_over_a_load_of_the_same_queue_needs_no_wait() -> None:
    assert not violations(LOADS + "global_load_dword v1, v[8:9], off")


def test_load_over_a_load_of_another_queue_is_found() -> None:
    assert violations(LOADS + "ds_read_b32 v1, v9") == [(0, 2)]


def test_stores_count_in_the_same_queue_as_loads() -> None:
    text = LOADS + "global_store_dword v[8:9], v7, off\ns_waitcnt vmcnt(2)\nv_mov_b32_e32 v3, v1"

    assert not violations(text)


def test_scalar_loads_need_a_count_of_zero() -> None:
    loads = "s_load_dword s4, s[0:1], 0x0\ns_load_dword s5, s[0:1], 0x4\n"

    assert violations(loads + "s_waitcnt lgkmcnt(1)\ns_mov_b32 s6, s4") == [(0, 3)]
    assert not violations(loads + "s_waitcnt lgkmcnt(0)\ns_mov_b32 s6, s4")


def test_scalar_load_breaks_the_order_of_lds() -> None:
    text = (
        "ds_read_b32 v1, v9\ns_load_dword s4, s[0:1], 0x0\n"
        "s_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v3, v1"
    )

    assert violations(text) == [(0, 3)]


def test_flat_load_needs_both_counters() -> None:
    load = "flat_load_dword v1, v[8:9]\n"

    assert violations(load + "s_waitcnt vmcnt(0)\nv_mov_b32_e32 v3, v1")
    assert not violations(load + "s_waitcnt vmcnt(0) lgkmcnt(0)\nv_mov_b32_e32 v3, v1")


def test_wait_on_one_path_only_does_not_cover_the_join() -> None:
    text = LOADS + "s_cbranch_scc0 join\ns_waitcnt vmcnt(0)\njoin:\nv_mov_b32_e32 v3, v1"

    assert violations(text) == [(0, 4)]


def test_load_of_the_previous_iteration_is_pending_over_the_back_edge() -> None:
    text = "head:\nv_mov_b32_e32 v3, v1\n" + LOADS + "s_cbranch_scc1 head"

    assert violations(text) == [(1, 0)]


def test_wait_of_another_form_is_refused() -> None:
    with pytest.raises(AnalysisRefusal, match="frobcnt"):
        violations("s_waitcnt frobcnt(0)")


def instances_at(text: str, position: int) -> frozenset[Instance]:
    return analyse_waits(program_of(text + "\ns_endpgm")).before(position).instances()


def test_waits_of_one_and_of_two_iterations_differ() -> None:
    loop = "head:\nglobal_load_lds_dword v[2:3], off\ns_waitcnt vmcnt({})\ns_barrier\n"
    loop += "s_cbranch_scc1 head"

    assert instances_at(loop.format(1), 2) == {(0, 0)}
    assert instances_at(loop.format(2), 2) == {(0, 0), (0, 1)}


def test_instances_of_a_loop_without_waits_end_at_the_counters_limit() -> None:
    loop = "head:\nglobal_store_dword v[2:3], v1, off\ns_cbranch_scc1 head"

    assert len(instances_at(loop, 1)) == 63


def test_cache_control_is_waited_for_but_counts_for_nothing_older() -> None:
    text = LOADS + "buffer_inv sc1\ns_waitcnt vmcnt({})\nv_mov_b32_e32 v3, v2"

    assert violations(text.format(1)) == [(1, 4)]
    assert (2, 0) in instances_at(text.format(1), 3)
    assert not instances_at(text.format(0), 4)


def test_wait_retires_exactly_what_it_covers() -> None:
    text = (
        LOADS + "s_waitcnt vmcnt(1)\nflat_load_dword v5, v[8:9]\n"
        "s_waitcnt vmcnt(0)\ns_waitcnt lgkmcnt(0)\ns_endpgm"
    )
    waits = analyse_waits(program_of(text))

    assert waits.retired(2) == {(0, 0)}
    assert waits.pending_registers(2) == parse_registers("v[1:2]")
    assert waits.retired(4) == {(1, 0)}
    assert waits.retired(5) == {(3, 0)}
    assert not waits.pending_registers(6)


@pytest.mark.parametrize(("others", "expected"), [(61, [(0, 62)]), (62, [(0, 63)]), (63, [])])
def test_load_with_a_full_counter_of_younger_ones_is_over(
    others: int, expected: list[tuple[int, int]]
) -> None:
    """vmcnt has six bits: at most 63 operations are on their way, the youngest among them."""
    text = "global_load_dword v1, v[8:9], off\n" + "global_load_dword v2, v[8:9], off\n" * others

    assert violations(text + "v_mov_b32_e32 v3, v1") == expected
