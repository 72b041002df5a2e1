"""Dominators, loops, liveness and def-use against plain searches over paths of random programs."""

from __future__ import annotations

import random

import pytest
from instruction_lines import program_of
from random_programs import follow_paths, followers, random_program

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.def_use import ENTRY, analyse_def_use
from asmevo.codeobject.analysis.exec_state import analyse_exec_state, find_full_writes
from asmevo.codeobject.analysis.liveness import analyse_liveness
from asmevo.codeobject.analysis.register import iterate_registers, parse_registers

SEEDS = range(0, 180, 30)


def on_some_path(program: Program, first: int, last: int) -> bool:
    """True when a path of at least one edge leads from one block to the other."""
    return any(last in follow_paths(program, one) for one in program.blocks[first].successors)


@pytest.mark.parametrize("first_seed", SEEDS)
def test_dominators_of_random_programs_are_what_no_path_avoids(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 30):
        program = random_program(seed)
        (entry,) = program.entries

        for first in program.order:
            avoiding = follow_paths(program, entry, avoid=[first])
            for second in program.order:
                expected = second not in avoiding
                assert program.dominators.dominates(first, second) is expected, (first, second)


@pytest.mark.parametrize("first_seed", SEEDS)
def test_post_dominators_of_random_programs_are_what_no_path_to_an_end_avoids(
    first_seed: int,
) -> None:
    for seed in range(first_seed, first_seed + 30):
        program = random_program(seed)
        ends = {index for index in program.order if not program.blocks[index].successors}

        for second in program.order:
            reaches_end = bool(ends & follow_paths(program, second))
            assert (second in program.post_dominators.parents) is reaches_end
            for first in program.order:
                expected = reaches_end and not ends & follow_paths(program, second, avoid=[first])
                assert program.post_dominators.dominates(first, second) is expected, (first, second)


@pytest.mark.parametrize("first_seed", SEEDS)
def test_loops_of_random_programs_hold_every_cycle_or_it_is_irreducible(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 30):
        program = random_program(seed)
        forest = program.loops

        cyclic = {one for one in program.order if on_some_path(program, one, one)}
        assert forest.blocks == cyclic
        for loop in forest.loops:
            assert all(program.dominators.dominates(loop.head, one) for one in loop.body)
            assert all(loop.head in program.blocks[one].successors for one in loop.latches)
            inner = {
                one
                for one in program.order
                if set(loop.latches) & follow_paths(program, one, avoid=[loop.head])
            }
            assert loop.body == inner | {loop.head}
            assert {end for _, end in loop.exits}.isdisjoint(loop.body)
            if loop.parent is not None:
                assert loop.body < forest.loops[loop.parent].body
                assert loop.depth == forest.loops[loop.parent].depth + 1
        assert forest.is_reducible is is_reducible_by_collapse(program)


def is_reducible_by_collapse(program: Program) -> bool:
    """Hecht and Ullman's definition: T1 and T2 collapse the graph to one node."""
    edges = {one: set(program.blocks[one].successors) for one in program.order}
    while True:
        for one, following in edges.items():
            following.discard(one)
        merged = None
        for one in edges:
            before = [other for other, following in edges.items() if one in following]
            if len(before) == 1 and one not in program.entries:
                merged = (before[0], one)
        if merged is None:
            return len(edges) == 1
        keeper, gone = merged
        edges[keeper] |= edges.pop(gone)
        edges[keeper].discard(gone)


def test_loops_inside_each_other_have_depths_and_exits() -> None:
    program = program_of("a:\ns_nop 0\nb:\ns_nop 0\ns_cbranch_scc1 b\ns_cbranch_scc1 a\ns_endpgm")

    outer, inner = program.loops.loops

    assert (outer.depth, outer.parent, inner.depth, inner.parent) == (1, None, 2, 0)
    assert outer.exits == ((2, 3),)
    assert inner.body == {1} and inner.latches == (1,)
    assert [program.loops.depth(block) for block in range(4)] == [1, 2, 1, 0]


def test_cycle_with_two_entrances_is_irreducible() -> None:
    program = program_of("s_cbranch_scc1 b\na:\ns_nop 0\nb:\ns_cbranch_scc0 a\ns_endpgm")

    assert not program.loops.loops
    assert program.loops.irreducible == (frozenset({1, 2}),)


@pytest.mark.parametrize("first_seed", SEEDS)
def test_liveness_of_random_programs_is_what_some_path_reads(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 30):
        program = random_program(seed)
        exec_state = analyse_exec_state(program)
        full_writes = find_full_writes(program, exec_state)
        after = analyse_liveness(program, exec_state).after

        for block in program.order:
            for position in range(program.blocks[block].start, program.blocks[block].end):
                expected = 0
                for register in iterate_registers(
                    parse_registers("v[1:3] s[4:9] vcc exec") | 1 << 768
                ):
                    pending, seen = list(followers(program, position)), set()
                    while pending:
                        at = pending.pop()
                        if at in seen:
                            continue
                        seen.add(at)
                        if program.effects[at].reads >> register & 1:
                            expected |= 1 << register
                            break
                        if not full_writes[at] >> register & 1:
                            pending += followers(program, at)
                assert after[position] & ~parse_registers("mode") == expected, position


@pytest.mark.parametrize("first_seed", SEEDS)
def test_definitions_that_random_walks_meet_are_among_the_static_ones(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 30):
        program = random_program(seed)
        exec_state = analyse_exec_state(program)
        full_writes = find_full_writes(program, exec_state)
        chains = analyse_def_use(program, exec_state)
        source = random.Random(seed)
        met: dict[tuple[int, int], set[int]] = {}

        for _ in range(60):
            position = program.blocks[program.entries[0]].start
            holding: dict[int, set[int]] = {}
            for _ in range(80):
                for register in iterate_registers(program.effects[position].reads):
                    met.setdefault((position, register), set()).update(
                        holding.get(register, {ENTRY})
                    )
                for register in iterate_registers(program.effects[position].writes):
                    kept = (
                        set()
                        if full_writes[position] >> register & 1
                        else holding.get(register, {ENTRY})
                    )
                    holding[register] = kept | {position}
                following = list(followers(program, position))
                if not following:
                    break
                position = source.choice(following)

        for (position, register), definitions in met.items():
            static = chains.reaching(position, register)
            assert definitions <= static, (position, register)
            for definition in definitions:
                assert position in chains.uses(definition, register)


def test_every_static_definition_of_a_small_program_is_met_on_some_path() -> None:
    for seed in range(40):
        check_definitions_are_met(random_program(seed, blocks=4))


def check_definitions_are_met(program: Program) -> None:
    exec_state = analyse_exec_state(program)
    chains = analyse_def_use(program, exec_state)

    for (position, register), definitions in chains.chains.items():
        for definition in definitions:
            starts = (
                [program.blocks[program.entries[0]].start]
                if definition == ENTRY
                else list(followers(program, definition))
            )
            pending, seen = starts, set()
            while pending:
                at = pending.pop()
                if at in seen:
                    continue
                seen.add(at)
                if at != position and not chains.full_writes[at] >> register & 1:
                    pending += followers(program, at)
            assert position in seen, (definition, position, register)
