"""Whether a decoded instruction is the one that was meant."""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.codeobject.branch import END_LABEL, is_direct_branch
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.instruction_text import has_encoding_suffix, normalize_text
from asmevo.errors import AssemblerError

__all__ = ["check_instruction", "check_text"]


def check_instruction(
    meant: Instruction,
    found: Instruction,
    decoded: Sequence[Instruction],
    places: dict[int, int],
) -> None:
    """Raise AssemblerError unless `found`, one of `decoded`, is what was meant.

    `places` holds the place in `decoded` of every instruction of the listing.
    """
    if is_direct_branch(meant.mnemonic) and ".L" in meant.operands:
        _check_branch(meant, found, decoded, places)
    elif meant.needs_bytes or "@" in meant.operands:
        return
    elif meant.data:
        if found.data != meant.data:
            raise AssemblerError(
                f"instruction {meant.id} `{meant.text}` came back as `{found.text}`"
            )
    else:
        check_text(meant, found.mnemonic, found.operands)


def check_text(meant: Instruction, mnemonic: str, operands: str) -> None:
    """Raise AssemblerError unless LLVM's text says what was meant; a branch may go elsewhere."""
    drop = not has_encoding_suffix(meant.mnemonic)
    mine, theirs = meant.operands, operands
    if is_direct_branch(meant.mnemonic):
        mine, theirs = mine.rpartition(", ")[0], theirs.rpartition(", ")[0]
    wanted = normalize_text(meant.mnemonic, mine, drop_suffix=drop)
    if wanted != normalize_text(mnemonic, theirs, drop_suffix=drop):
        raise AssemblerError(f"`{meant.text}` was assembled as `{mnemonic} {operands}`")


def _check_branch(
    meant: Instruction,
    found: Instruction,
    decoded: Sequence[Instruction],
    places: dict[int, int],
) -> None:
    head = meant.operands.rpartition(", ")[0]
    same_head = found.operands.rpartition(", ")[0] == head
    if meant.target is not None:
        goes_right = found.target == decoded[places[meant.target]].id
    else:
        goes_right = meant.operands.endswith(END_LABEL) and found.operands.endswith(END_LABEL)
    if found.mnemonic != meant.mnemonic or not same_head or not goes_right:
        raise AssemblerError(f"branch {meant.id} `{meant.text}` came back as `{found.text}`")
