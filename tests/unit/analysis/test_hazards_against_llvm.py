"""The hazard rules against LLVM's hazard recognizer: they must never ask for less.

Pairs of instructions go through llc's post-RA-hazard-rec as machine IR; what it prints is read back
and judged by our rules.
"""

from __future__ import annotations

import pytest
from hazard_pairs import LLC, recognize

from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.hazard_rules import SUPPORTED_ARCHS, Traits, find_requirements
from asmevo.codeobject.analysis.memory_clause import breaks_clause
from asmevo.codeobject.instruction import Instruction


def traits_of(line: str) -> Traits:
    mnemonic, _, operands = line.partition(" ")
    instruction = Instruction(id=0, offset=0, data=b"", mnemonic=mnemonic, operands=operands)
    return Traits(effect=effect_of(instruction))


@pytest.mark.skipif(LLC is None, reason="llc-22 is not installed")
@pytest.mark.parametrize("arch", SUPPORTED_ARCHS)
def test_rules_ask_for_no_less_than_llvm(arch: str) -> None:
    judged, too_little = 0, []
    for lines in recognize(arch):
        first, *nops, last = (text for text, _ in lines)
        wanted = sum(int(nop.removeprefix("s_nop ")) + 1 for nop in nops)
        producer, consumer = traits_of(first), traits_of(last)
        assert producer.effect.unknown is None, first
        assert consumer.effect.unknown is None, last
        asked = [one.states for one in find_requirements(producer, consumer, arch)]
        asked.append(int(breaks_clause([producer.effect], consumer.effect)))
        judged += 1
        if max(asked) < wanted:
            too_little.append((first, last, wanted, max(asked)))
        assert max(asked[:-1], default=0) <= max(producer.reach, 0), (first, last)
        assert not any(asked[:-1]) or producer.triggers & consumer.touches, (first, last)

    assert judged > 3000
    assert not too_little
