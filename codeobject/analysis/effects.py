"""From an instruction to its `Effect`: one entry point over the opcode tables of the families."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.memory_opcodes import describe_memory
from asmevo.codeobject.analysis.operand import Operands, parse_operands, split_mnemonic
from asmevo.codeobject.analysis.scalar_opcodes import describe_scalar
from asmevo.codeobject.analysis.vector_opcodes import describe_vector
from asmevo.codeobject.instruction import Instruction

__all__ = ["effect_of"]

_MEMORY_PREFIXES = ("buffer_", "global_", "flat_", "scratch_", "ds_")
_NO_OPERANDS = Operands(values=(), modifiers={})


def effect_of(instruction: Instruction) -> Effect:
    """What the instruction does; `unknown` says why when that cannot be told."""
    if instruction.needs_bytes:
        return _unknown(instruction.mnemonic, "the assembler does not give its bytes back")
    return _effect_of_text(instruction.mnemonic, instruction.operands)


@lru_cache(maxsize=65536)
def _effect_of_text(mnemonic: str, operand_text: str) -> Effect:
    base, encoding = split_mnemonic(mnemonic)
    try:
        operands = parse_operands(operand_text)
        effect = _describe(base, encoding, operands)
    except (ValueError, IndexError) as error:
        return _unknown(mnemonic, str(error))
    if effect is None:
        return _unknown(mnemonic, f"{mnemonic} is not in the tables of effects")
    return replace(effect, encoding=encoding) if encoding else effect


def _describe(base: str, encoding: str, operands: Operands) -> Effect | None:
    if base.startswith("s_"):
        return describe_scalar(base, operands)
    if base.startswith("v_"):
        return describe_vector(base, encoding, operands)
    if base.startswith(_MEMORY_PREFIXES):
        return describe_memory(base, operands)
    return None


def _unknown(mnemonic: str, reason: str) -> Effect:
    return Effect(
        base=mnemonic,
        encoding="",
        operands=_NO_OPERANDS,
        unit=Unit.UNKNOWN,
        is_pinned=True,
        unknown=reason,
    )
