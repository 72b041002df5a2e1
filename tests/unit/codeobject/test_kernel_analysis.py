"""The one entry to the analyses, on an assembled code object."""

from __future__ import annotations

from typing import Any

import pytest

from asmevo.codeobject import analysis as package
from asmevo.codeobject.analysis import (
    ENTRY,
    AnalysisRefusal,
    Counter,
    KernelAnalysis,
    analyse_kernel,
)
from asmevo.codeobject.analysis.register import parse_registers
from asmevo.codeobject.recover import recover
from asmevo.errors import UsageError

KERNEL = "kernarg_dump"
SCALAR_LOAD, MASK, SHIFT, LOAD, WAIT, STORE, END = range(7)
V0, V1, S4 = 256, 257, 4


@pytest.fixture(scope="module")
def analysis(build_object: Any) -> KernelAnalysis:
    return analyse_kernel(recover(build_object(KERNEL)), KERNEL)


def test_package_offers_exactly_what_it_names() -> None:
    names = {name for name in vars(package) if name[0].isupper() or name == "analyse_kernel"}

    assert names == set(package.__all__)


def test_positions_are_those_of_the_listing(analysis: KernelAnalysis) -> None:
    ids = [one.id for one in analysis.listing.kernel_instructions(KERNEL)]

    assert [analysis.program.position_of[one] for one in ids] == list(range(len(ids)))


def test_definitions_and_liveness_of_the_kernel(analysis: KernelAnalysis) -> None:
    assert analysis.def_use.reaching(MASK, V0) == {ENTRY}
    assert analysis.def_use.reaching(STORE, V0) == {SHIFT}
    assert analysis.def_use.uses(SHIFT, V0) == {LOAD, STORE}
    assert analysis.def_use.uses(SCALAR_LOAD, S4) == {STORE}
    assert analysis.liveness.after[LOAD] & parse_registers("v[0:7]") == parse_registers("v[0:1]")
    assert not analysis.liveness.after[STORE]


def test_wait_covers_both_loads_of_the_kernel(analysis: KernelAnalysis) -> None:
    before = analysis.waits.before(WAIT)

    assert before.out_of_order[Counter.LGKM] and not before.out_of_order[Counter.VM]
    assert analysis.waits.retired(WAIT) == {(SCALAR_LOAD, 0), (LOAD, 0)}
    assert analysis.waits.pending_registers(WAIT) == parse_registers("s[4:5] v1")
    assert not analysis.wait_violations
    assert not analysis.hazards


def test_edit_that_drops_the_wait_is_a_violation(analysis: KernelAnalysis) -> None:
    wait = analysis.program.instructions[WAIT]

    edited = analyse_kernel(analysis.listing.delete([wait.id]), KERNEL)

    registers = {one.registers for one in edited.wait_violations}
    assert registers == {parse_registers("v1"), parse_registers("s[4:5]")}


def test_indirect_jump_is_refused_with_its_reason(analysis: KernelAnalysis) -> None:
    shift = analysis.program.instructions[SHIFT]
    listing = analysis.listing.insert_after(shift.id, ["s_setpc_b64 s[4:5]"])

    with pytest.raises(AnalysisRefusal, match="jumps to an address in registers"):
        analyse_kernel(listing, KERNEL)


def test_kernel_that_the_listing_lacks_is_a_usage_error(analysis: KernelAnalysis) -> None:
    with pytest.raises(UsageError, match="no kernel nothing"):
        analyse_kernel(analysis.listing, "nothing")
