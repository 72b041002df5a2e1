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
# Why no table may hold these: what they do depends on values, or is not this kernel's code.
_REFUSED = {
    "s_setpc_b64": "it jumps to an address in registers",
    "s_swappc_b64": "it calls an address in registers",
    "s_call_b64": "it calls a function",
    "s_rfe_b64": "it returns from a trap",
    "s_cbranch_g_fork": "it runs both sides of a branch by a stack of masks",
    "s_cbranch_i_fork": "it runs both sides of a branch by a stack of masks",
    "s_cbranch_join": "it goes where a stack of masks says",
    "s_trap": "it enters the trap handler",
    "s_setvskip": "it may switch vector instructions off",
    "s_set_gpr_idx_on": "VGPRs are picked by an index at run time",
    "s_set_gpr_idx_off": "VGPRs are picked by an index at run time",
    "s_set_gpr_idx_idx": "VGPRs are picked by an index at run time",
    "s_set_gpr_idx_mode": "VGPRs are picked by an index at run time",
    "s_movrels_b32": "SGPRs are picked by an index at run time",
    "s_movrels_b64": "SGPRs are picked by an index at run time",
    "s_movreld_b32": "SGPRs are picked by an index at run time",
    "s_movreld_b64": "SGPRs are picked by an index at run time",
}
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
        if "null" in operands.values:
            # LLVM's disassembler borrows the name from gfx10; these chips have no such register.
            return _unknown(mnemonic, "it names a reserved scalar register")
        effect = _describe(base, encoding, operands)
    except (ValueError, IndexError) as error:
        return _unknown(mnemonic, str(error))
    if effect is None:
        reason = _REFUSED.get(base, f"{mnemonic} is not in the tables of effects")
        return _unknown(mnemonic, reason)
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
