"""Edits that keep what a kernel does: the optimizer's proven rewrites, and harmless additions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wrong_edits import Mutant

from asmevo.capture.bundle import Bundle
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.errors import AsmevoError
from asmevo.optimizer.kernel_view import view_kernel
from asmevo.optimizer.mutators import MUTATORS
from asmevo.optimizer.proposal import apply_edits

__all__ = ["find_equals"]

_COMMUTES = re.compile(r"v_(add|mul)_f32_e32|v_(add|or|and|xor|mul)_[ui]?\w*32_e32")


def find_equals(bundle: Bundle, limit: int) -> Iterator[Mutant]:
    """At most `limit` of each kind."""
    data = bundle.code_object()
    listing, name = recover(data), bundle.manifest.dispatch.kernel
    edits = {
        "commuted operands": list(_commuted(listing, name)),
        "a wait for everything": list(_waited(listing, name)),
        "wait states": list(_padded(listing, name)),
        "proven rewrite": list(_proven(listing, name)),
    }
    for mutation, found in edits.items():
        count = 0
        for text, edited in found[:: max(1, len(found) // limit)]:
            try:
                code_object = rebuild_listing(edited)
            except AsmevoError:
                continue
            if code_object != data and count < limit:
                count += 1
                yield Mutant(mutation=mutation, text=text, offset=-1, code_object=code_object)


Found = Iterator[tuple[str, Listing]]


def _commuted(listing: Listing, name: str) -> Found:
    for one in listing.kernel_instructions(name):
        match = re.fullmatch(r"(v\d+), (v\d+), (v\d+)", one.operands)
        if match and _COMMUTES.fullmatch(one.mnemonic) and match[2] != match[3]:
            text = f"{one.mnemonic} {match[1]}, {match[3]}, {match[2]}"
            yield one.text, listing.replace(one.id, (text,))


def _waited(listing: Listing, name: str) -> Found:
    for one in listing.kernel_instructions(name):
        if one.mnemonic.startswith(("buffer_load", "global_load", "ds_read")):
            yield one.text, listing.insert_after(one.id, ("s_waitcnt vmcnt(0) lgkmcnt(0)",))


def _padded(listing: Listing, name: str) -> Found:
    for one in listing.kernel_instructions(name)[::5]:
        if one.mnemonic.startswith("v_"):
            yield one.text, listing.insert_after(one.id, ("s_nop 3",))


def _proven(listing: Listing, name: str) -> Found:
    view = view_kernel(listing, name)
    for mutator in MUTATORS:
        for proposal in mutator.propose(view):
            yield f"{mutator.id}: {proposal.hypothesis}", apply_edits(listing, proposal.edits)
