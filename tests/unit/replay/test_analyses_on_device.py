"""What the analyses prove, tried on the emulated device with random kernels.

A register that is dead may be overwritten; the last write before each read is among the static
definitions; code in which no wait is missing makes the device find none.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from kernel_runner import KernelFault, KernelOptions, build_kernel, run_code_object
from random_kernels import RandomKernel

from asmevo.codeobject.analysis import ENTRY, KernelAnalysis, analyse_kernel
from asmevo.codeobject.analysis.register import (
    SCC,
    VCC,
    RegisterSet,
    iterate_registers,
    parse_registers,
)
from asmevo.codeobject.analysis.wait_state import COUNTER_LIMITS, format_wait, parse_wait
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover

ARCHS = ("gfx942", "gfx950", "gfx90a")
LANES = 116
OPTIONS = KernelOptions(lds=2048, block=(LANES, 1, 1))
ROW_WORDS = 128
ROWS = 8
REPORT_ROW = 5
VECTORS, SCALARS = parse_registers("v[10:17] a[0:3]"), parse_registers("s[20:27] s[50:61]")
SETTLE = ("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_nop 15")


def build_random(seed: int) -> bytes:
    arch = ARCHS[seed % len(ARCHS)]
    return build_kernel(arch, RandomKernel(seed, arch).body, 2, OPTIONS)


def analyse(seed: int) -> KernelAnalysis:
    return analyse_kernel(recover(build_random(seed)), "kernel")


def outputs(listing: Listing) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    values = np.random.default_rng(5).integers(0, 2**32, ROWS * ROW_WORDS, dtype=np.uint32)
    buffers = [np.zeros(ROWS * ROW_WORDS, np.uint32), values]
    arch = listing.source.target
    return run_code_object(arch, rebuild_listing(listing), buffers, OPTIONS)[0]


def editable_positions(analysis: KernelAnalysis) -> list[int]:
    program, listing = analysis.program, analysis.listing
    return [
        at
        for block in program.order
        for at in range(program.blocks[block].start, program.blocks[block].end)
        if not program.effects[at].is_terminator
        and program.instructions[at].id not in listing.glued
    ]


def overwrite(registers: RegisterSet, value: int) -> list[str]:
    lines = []
    for number in iterate_registers(registers & VECTORS):
        name = f"v{number - 256}" if number < 512 else f"a{number - 512}"
        move = "v_mov_b32_e32" if number < 512 else "v_accvgpr_write_b32"
        lines.append(f"{move} {name}, {value % 60}")
    return lines


def overwrite_dead(live: RegisterSet, source: random.Random) -> list[str]:
    """Instructions that overwrite what is not live, in lanes that are off too."""
    lines = [*SETTLE, *overwrite(VECTORS & ~live, source.randrange(60))]
    if not live & SCC:
        lines += ["s_not_b64 exec, exec", *overwrite(VECTORS & ~live, source.randrange(60))]
        lines += ["s_not_b64 exec, exec"]
    for number in iterate_registers(SCALARS & ~live):
        lines.append(f"s_movk_i32 s{number}, {source.randrange(30000)}")
    if not live & VCC:
        lines.append(f"s_mov_b64 vcc, {source.randrange(30000):#x}")
    if not live & SCC:
        lines.append(f"s_cmp_eq_u32 0, {source.randrange(2)}")
    return lines


@pytest.mark.parametrize("seed", range(8))
def test_overwriting_dead_registers_changes_no_output(seed: int) -> None:
    analysis = analyse(seed)
    source = random.Random(seed)
    expected = outputs(analysis.listing)
    positions = source.sample(editable_positions(analysis), 40)

    listing = analysis.listing
    for at in positions:
        lines = overwrite_dead(analysis.liveness.after[at], source)
        listing = listing.insert_after(analysis.program.instructions[at].id, lines)

    assert np.array_equal(outputs(listing), expected)


def test_overwriting_live_registers_changes_outputs() -> None:
    """The test above can fail: what is called live mostly matters."""
    changed, tried = 0, 12
    for seed in range(tried):
        analysis = analyse(seed)
        at = random.Random(seed).choice(editable_positions(analysis))
        live = analysis.liveness.after[at] & VECTORS & parse_registers("v[0:255]")
        lines = [*SETTLE, *overwrite(live, 1)]
        listing = analysis.listing.insert_after(analysis.program.instructions[at].id, lines)
        changed += not np.array_equal(outputs(listing), outputs(analysis.listing))
    assert changed > tried // 2


def trace_definitions(
    analysis: KernelAnalysis, register: int, *, forgotten: int | None = None
) -> Listing:
    """Let the kernel itself compare the last write of a register before each read with the chains.

    A shadow register (v40 in each lane, s70) holds the number of the last write; reads that find
    another one than `reaching` names are collected in s[80:81] and stored at the end.
    """
    program, chains = analysis.program, analysis.def_use
    is_vector = bool(VECTORS >> register & 1)
    numbers = {at: number for number, at in enumerate((ENTRY, *chains.positions[register]))}
    listing = analysis.listing
    for block in program.order:
        for at in range(program.blocks[block].start, program.blocks[block].end):
            effect, one = program.effects[at], program.instructions[at]
            before: list[str] = []
            if effect.reads >> register & 1:
                known = [numbers[d] for d in chains.reaching(at, register) if d != forgotten]
                before = compare_shadow(known, is_vector=is_vector)
            after = []
            if effect.writes >> register & 1:
                after = [f"s_movk_i32 s70, {numbers[at]}"]
                after += ["v_mov_b32_e32 v40, s70"] if is_vector else []
            if at == program.blocks[program.entries[0]].start:
                before = ["s_mov_b64 s[80:81], 0", "s_movk_i32 s70, 0", "v_mov_b32_e32 v40, 0"]
            if one.mnemonic == "s_endpgm":
                before = [*before, *report()]
            if before or after:
                text = listing.instruction(one.id).text
                listing = listing.replace(one.id, [*before, text, *after])
    return listing


def compare_shadow(numbers: list[int], *, is_vector: bool) -> list[str]:
    """Adds to s[80:81] where the shadow is none of the numbers; SCC is as it was."""
    lines = ["s_cselect_b32 s71, 1, 0", "s_mov_b64 s[72:73], exec"]
    if not is_vector:
        lines[1] = "s_mov_b64 s[72:73], -1"
    for number in numbers:
        if is_vector:
            lines += [f"s_movk_i32 s76, {number}", "v_cmp_ne_u32_e64 s[74:75], s76, v40"]
        else:
            lines += [f"s_cmpk_lg_u32 s70, {number}", "s_cselect_b64 s[74:75], -1, 0"]
        lines.append("s_and_b64 s[72:73], s[72:73], s[74:75]")
    lines += ["s_or_b64 s[80:81], s[80:81], s[72:73]", "s_cmp_lg_u32 s71, 0"]
    return lines


def report() -> list[str]:
    lines = []
    for number, row in ((80, REPORT_ROW), (81, REPORT_ROW + 1)):
        lines.append(f"v_mov_b32_e32 v41, s{number}")
        lines.append(f"global_store_dword v[4:5], v41, off offset:{4 * ROW_WORDS * row}")
    return lines


def reported(listing: Listing) -> bool:
    return bool(outputs(listing)[ROW_WORDS * REPORT_ROW :].any())


TRACED = parse_registers("v[10:17] a[0:3] s[20:27] vcc_lo s[50:55] s[60:61]") | SCC


@pytest.mark.parametrize("seed", range(4))
def test_last_write_before_each_read_is_among_the_static_definitions(seed: int) -> None:
    analysis = analyse(seed)
    source = random.Random(seed)
    known = [one for one in iterate_registers(TRACED) if one in analysis.def_use.positions]

    for register in source.sample(known, 6):
        assert not reported(trace_definitions(analysis, register)), register


def test_definition_that_the_chains_forget_is_reported() -> None:
    """The test above can fail."""
    found, tried = 0, 8
    for seed in range(tried):
        analysis = analyse(seed)
        register = 256 + 10 + seed % 8
        chains = analysis.def_use
        used = [at for at in chains.positions[register] if chains.uses(at, register)]
        forgotten = random.Random(seed).choice(used)
        found += reported(trace_definitions(analysis, register, forgotten=forgotten))
    assert found >= tried // 2


def weaken_wait(analysis: KernelAnalysis, source: random.Random) -> Listing:
    """The kernel with one or two waits that wait for less."""
    listing = analysis.listing
    waits = [one for one in analysis.program.instructions if one.mnemonic == "s_waitcnt"]
    for one in source.sample(waits, source.randint(1, 2)):
        counts = parse_wait(one)
        for counter in list(counts):
            counts[counter] = source.choice((0, 1, 1, 2, 3, COUNTER_LIMITS[counter] - 1))
        listing = listing.replace(one.id, [format_wait(counts)])
    return listing


def is_as_covered(original: KernelAnalysis, weakened: KernelAnalysis) -> bool:
    """True when no register may be loading, and nothing more is outstanding where it matters."""
    before = original.outstanding_at_sync
    return not weakened.wait_violations and all(
        outstanding <= before[identifier]
        for identifier, outstanding in weakened.outstanding_at_sync.items()
    )


def test_device_finds_no_missing_wait_where_the_analysis_finds_none() -> None:
    covered, missing = 0, 0
    for seed in range(24):
        original = analyse(seed % 12)
        listing = weaken_wait(original, random.Random(seed))
        is_covered = is_as_covered(original, analyse_kernel(listing, "kernel"))
        try:
            outputs(listing)
            is_missing = False
        except KernelFault as fault:
            assert "s_waitcnt" in str(fault)
            is_missing = True
        assert not (is_missing and is_covered), seed
        covered += is_covered
        missing += is_missing
    assert covered > 2
    assert missing > 3
