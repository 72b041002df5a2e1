from __future__ import annotations

import pytest
from instruction_lines import program_of, read_lines

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal, read_program
from asmevo.codeobject.analysis.exec_state import analyse_exec_state
from asmevo.codeobject.analysis.liveness import analyse_liveness
from asmevo.codeobject.analysis.register import VECTOR_MASK, parse_registers
from asmevo.codeobject.analysis.uniformity import analyse_uniformity

LOOP = """
s_mov_b32 s0, 0
head:
s_add_i32 s0, s0, 1
s_cmp_lt_i32 s0, s1
s_cbranch_scc1 head
s_endpgm
"""

MASKED = """
v_mov_b32_e32 v1, 0
s_and_saveexec_b64 s[2:3], vcc
s_cbranch_execz join
v_mov_b32_e32 v1, 1
join:
s_or_b64 exec, exec, s[2:3]
v_add_u32_e32 v2, v1, v1
s_endpgm
"""


def test_program_of_a_loop_has_its_blocks_and_back_edge() -> None:
    program = program_of(LOOP)

    assert [(block.start, block.end) for block in program.blocks] == [(0, 1), (1, 4), (4, 5)]
    assert program.blocks[1].successors == (1, 2)
    assert [loop.body for loop in program.loops.loops] == [frozenset({1})]
    assert program.dominators.ancestors(2) == (2, 1, 0)


def test_program_with_an_unknown_instruction_is_refused() -> None:
    with pytest.raises(AnalysisRefusal, match="s_setpc_b64"):
        program_of("s_setpc_b64 s[0:1]\ns_endpgm")


def test_program_with_unknown_code_after_its_end_is_accepted() -> None:
    program = program_of("s_endpgm\n.long 0x12345678")

    assert program.reachable == frozenset({0})


def test_program_that_runs_off_its_end_is_refused() -> None:
    with pytest.raises(AnalysisRefusal, match="off the end"):
        program_of("v_nop\nv_nop")


def test_program_with_two_entries_starts_in_two_blocks() -> None:
    lines = read_lines("s_branch body\ns_nop 0\nbody:\ns_endpgm")

    program = read_program(lines, [0, 2])

    assert program.entries == (0, 2)


@pytest.mark.parametrize(
    "text",
    [
        "s_and_saveexec_b64 s[0:1], vcc\ns_xor_b64 s[2:3], exec, s[0:1]\n"
        "s_andn2_saveexec_b64 s[2:3], s[2:3]\ns_or_b64 exec, exec, s[0:1]",
        "v_cmp_gt_i32_e64 s[2:3], s4, v0\ns_mov_b64 s[0:1], exec\ns_mov_b64 exec, s[2:3]\n"
        "s_mov_b64 exec, s[0:1]",
        "s_mov_b64 s[0:1], exec\nv_cmpx_gt_i32_e32 vcc, s4, v0\ns_or_b64 exec, exec, s[0:1]",
        "s_mov_b64 s[0:1], exec\ns_andn2_b64 exec, exec, s[6:7]\ns_or_b64 exec, exec, s[0:1]",
    ],
)
def test_exec_state_is_known_again_behind_what_compilers_do(text: str) -> None:
    flags = analyse_exec_state(program_of(text + "\ns_endpgm")).is_entry_mask

    assert flags[0] and flags[-1]
    assert not all(flags)


def test_exec_state_after_restore_is_the_entry_mask() -> None:
    flags = analyse_exec_state(program_of(MASKED)).is_entry_mask

    assert flags == (True, True, False, False, False, True, True)


@pytest.mark.parametrize(
    "text",
    [
        "s_or_saveexec_b64 s[0:1], -1\nv_nop\ns_mov_b64 exec, s[0:1]",
        "s_mov_b64 s[2:3], -1\nv_nop\ns_mov_b64 exec, s[2:3]",
        "s_mov_b64 s[0:1], exec\ns_not_b64 exec, exec\nv_nop\ns_or_b64 exec, exec, s[0:1]",
        "s_and_saveexec_b64 s[0:1], vcc\ns_xor_b64 exec, exec, s[4:5]\nv_nop",
        "s_mov_b32 exec_lo, s2\nv_nop",
        "s_load_dwordx2 exec, s[0:1], 0x0\nv_nop",
    ],
)
def test_exec_state_of_whole_wave_code_claims_nothing(text: str) -> None:
    program = program_of(text + "\ns_endpgm")

    assert not any(analyse_exec_state(program).is_entry_mask)


def test_liveness_of_a_masked_write_keeps_the_old_value_alive() -> None:
    program = program_of(MASKED)

    after = analyse_liveness(program, analyse_exec_state(program)).after

    assert after[0] & parse_registers("v1")


def test_liveness_of_an_unmasked_write_ends_the_old_value() -> None:
    program = program_of("v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v1, 1\nv_mov_b32_e32 v2, v1\ns_endpgm")

    after = analyse_liveness(program, analyse_exec_state(program)).after

    assert not after[0] & VECTOR_MASK


@pytest.mark.parametrize(
    ("branch", "flags"),
    [
        ("s_cbranch_execz join", (True, True, False, True, True)),
        ("s_cbranch_scc0 join", (True, True, False, False, True)),
        ("s_cbranch_execnz join", (True, True, False, False, True)),
    ],
)
def test_exec_is_nonempty_behind_the_branch_that_tested_it(
    branch: str, flags: tuple[bool, ...]
) -> None:
    text = (
        f"v_nop\ns_and_saveexec_b64 s[2:3], vcc\n{branch}\nv_nop\n"
        "join:\ns_or_b64 exec, exec, s[2:3]\nv_nop\ns_endpgm"
    )

    found = analyse_exec_state(program_of(text)).is_nonempty

    assert (*found[:4], found[5]) == flags


UNIFORM = """
v_mov_b32_e32 v1, s0
v_add_u32_e32 v2, v1, v1
v_add_u32_e32 v3, v0, v1
v_cndmask_b32_e32 v4, v1, v2, vcc
v_mov_b32_dpp v5, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
v_mbcnt_lo_u32_b32 v6, -1, v1
global_load_dword v7, v[1:2], off
s_and_saveexec_b64 s[2:3], vcc
v_mov_b32_e32 v8, s0
v_mov_b32_e32 v2, s0
s_endpgm
"""


def test_uniform_registers_come_from_scalars_under_the_entry_mask() -> None:
    program = program_of(UNIFORM)

    before = analyse_uniformity(program, analyse_exec_state(program)).before

    assert before[7] == parse_registers("v[1:2]")
    assert before[10] == parse_registers("v1")


def test_register_is_uniform_at_a_join_only_when_it_is_on_every_path() -> None:
    text = "s_cbranch_scc0 other\nv_mov_b32_e32 v1, s0\nv_mov_b32_e32 v2, s0\ns_branch join\n"
    program = program_of(f"{text}other:\nv_mov_b32_e32 v1, 0\njoin:\ns_endpgm")

    before = analyse_uniformity(program, analyse_exec_state(program)).before

    assert before[-1] == parse_registers("v1")
