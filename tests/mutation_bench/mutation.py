"""Deletions of one instruction that orders others: s_waitcnt, s_barrier, s_nop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.errors import AsmevoError

__all__ = ["MNEMONICS", "Mutation", "find_mutations"]

MNEMONICS = ("s_waitcnt", "s_barrier", "s_nop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One deletion, and the code object without the instruction."""

    mnemonic: str
    text: str
    offset: int
    """Of the deleted instruction, from the start of `.text`."""
    code_object: bytes


def find_mutations(code_object: bytes, kernel: str, sample: int = 0) -> Iterator[Mutation]:
    """Every deletion in one kernel that gives a code object; or `sample` of them, always the same.

    Raises:
        AsmevoError: The object cannot be recovered.
    """
    listing = recover(code_object)
    chosen = [
        one
        for one in listing.kernel_instructions(kernel)
        if one.mnemonic in MNEMONICS and one.id not in listing.pinned
    ]
    if 0 < sample < len(chosen):
        chosen = random.Random(kernel).sample(chosen, sample)
    for one in chosen:
        data = _delete(listing, one.id)
        if data is not None:
            yield Mutation(
                mnemonic=one.mnemonic, text=one.text, offset=one.offset, code_object=data
            )


def _delete(listing: Listing, instruction: int) -> bytes | None:
    try:
        return rebuild_listing(listing.delete((instruction,)))
    except AsmevoError:
        return None
