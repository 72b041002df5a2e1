"""One instruction of a code object, as every stage sees it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Instruction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """A decoded instruction, or a run of data bytes in `.text`.

    `id` is stable: assigned once per listing in address order and never reused; an edited listing
    keeps the ids of what it kept and gives new ones to what it added. `text` reassembles to `data`,
    except that a branch names its target by label.
    """

    id: int
    offset: int
    """Bytes from the start of `.text` in the object that this was read from; -1 for an added
    instruction."""
    data: bytes
    """Encoded bytes; empty for an added instruction that was not assembled yet."""
    mnemonic: str
    """With encoding suffix as LLVM prints it (`v_add_f32_e32`); `.long` for bytes that LLVM cannot
    decode."""
    operands: str
    """Operand text as LLVM prints it, for branches the label of the target."""
    target: int | None = None
    """Id of the instruction that a direct branch goes to."""
    needs_bytes: bool = False
    """True when the assembler would not give `data` back: emitted as bytes with the text in a
    comment."""

    @property
    def text(self) -> str:
        """Mnemonic and operands, one blank between."""
        return f"{self.mnemonic} {self.operands}".rstrip()
