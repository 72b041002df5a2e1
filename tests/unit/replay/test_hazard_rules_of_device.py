"""The emulated device's wait-state rules against LLVM's hazard recognizer and the static analysis.

An error never asks for more than LLVM, so that compiled kernels give none; errors and cautions
together never ask for less.
"""

from __future__ import annotations

import ctypes

import pytest
from hazard_pairs import LLC, recognize

from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.hazard_rules import SUPPORTED_ARCHS, Traits, find_requirements
from asmevo.codeobject.analysis.memory_clause import breaks_clause
from asmevo.codeobject.instruction import Instruction
from asmevo.native import emulator_library

# Cautions beyond LLVM: what the ISA guides alone ask for, and SDWA that keeps part of its
# destination, which LLVM does not count as a read.
BEYOND_LLVM = {
    "mfma-chain-other-opcode",
    "mfma-matrix-overwrite",
    "transcendental",
    "mfma-valu-read",
}


def words(data: bytes) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * (len(data) // 4 + 2)).from_buffer_copy(data + bytes(8))


def ask(arch: str, first: bytes, second: bytes) -> tuple[int, list[tuple[str, int, str]]]:
    """The producer's reach, and rule, wait states and class of each requirement."""
    library = ctypes.CDLL(str(emulator_library()))
    text = ctypes.create_string_buffer(2048)
    one, other = words(first), words(second)
    size = ctypes.c_size_t
    status = library.asmevo_emulator_hazards(
        arch.encode(), one, size(len(one)), other, size(len(other)), text, size(len(text))
    )
    assert status == 0, (first.hex(), second.hex())
    reach, *lines = text.value.decode().splitlines()
    found = [line.split() for line in lines]
    return int(reach), [(rule, int(states), severity) for rule, states, severity in found]


def effect(line: str) -> Traits:
    mnemonic, _, operands = line.partition(" ")
    instruction = Instruction(id=0, offset=0, data=b"", mnemonic=mnemonic, operands=operands)
    return Traits(effect=effect_of(instruction))


def is_exempt(first: Traits, second: Traits, arch: str) -> bool:
    """What LLVM asks for although no hardware does."""
    memory = second.effect.memory
    # It takes LDS-DMA for vector arithmetic, and an unused old value of DPP for a source.
    is_lds_dma = memory is not None and memory.writes_lds
    is_old_value = second.is_dpp and first.effect.base.startswith("v_mfma_f64") and arch == "gfx950"
    return is_lds_dma or is_old_value or breaks_clause([first.effect], second.effect)


@pytest.mark.skipif(LLC is None, reason="llc-22 is not installed")
@pytest.mark.parametrize("arch", SUPPORTED_ARCHS)
def test_errors_ask_for_no_more_than_llvm_and_all_rules_for_no_less(arch: str) -> None:
    judged, wrong = 0, []
    for lines in recognize(arch):
        (first, first_bytes), *nops, (last, last_bytes) = lines
        wanted = sum(int(nop.removeprefix("s_nop ")) + 1 for nop, _ in nops)
        producer, consumer = effect(first), effect(last)
        reach, found = ask(arch, first_bytes, last_bytes)
        error = max((states for _, states, kind in found if kind == "error"), default=0)
        compiler = (n for rule, n, kind in found if kind == "error" or rule not in BEYOND_LLVM)
        caution = max(compiler, default=0)
        static = max((one.states for one in find_requirements(producer, consumer, arch)), default=0)
        is_short = caution < wanted and not is_exempt(producer, consumer, arch)
        if error > wanted or caution > max(wanted, error) or is_short or error > static:
            wrong.append((first, last, wanted, static, found))
        assert max((states for _, states, _ in found), default=0) <= reach, (first, last)
        judged += 1

    assert judged > 3000
    assert not wrong
