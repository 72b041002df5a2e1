"""Assembly text or an edited listing back to a code object, with proof that it is what was
meant."""

from __future__ import annotations

import re

from asmevo.codeobject.abi import check_abi
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.edit_check import check_edit
from asmevo.codeobject.emit import emit
from asmevo.codeobject.in_place import patch_listing
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.placement import Placement, place_instructions
from asmevo.codeobject.recover import take_apart
from asmevo.codeobject.relink import relink
from asmevo.codeobject.resource_check import find_resource_faults
from asmevo.codeobject.resource_fields import expect_object
from asmevo.codeobject.text_check import check_text
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import AssemblerError

__all__ = ["find_arch", "rebuild", "rebuild_checked", "rebuild_listing"]

_TARGET = re.compile(r"^\s*\.amdgcn_target\s+\"([^\"\n]{1,200})\"", re.MULTILINE)
_PROCESSOR = re.compile(r"gfx[0-9a-f]+(?::(?:xnack|sramecc)[+-])*$")
# They would copy other files of this machine into the object, or hide directives that do.
_FORBIDDEN = re.compile(r"\.(?:incbin|include|macro|irpc?|rept?)\b", re.IGNORECASE)


def find_arch(text: str) -> str:
    """Target id by the text's `.amdgcn_target` line."""
    line = _TARGET.search(text)
    target = _PROCESSOR.search(line[1]) if line else None
    if target is None:
        raise AssemblerError(
            "assembly text without a usable .amdgcn_target line",
            hint='it should hold .amdgcn_target "amdgcn-amd-amdhsa--gfx942" or such',
        )
    return target[0]


def rebuild(text: str, arch: str) -> bytes:
    """Assemble and link `text` for target id `arch`; the result is a readable code object.

    Text from elsewhere is not trusted: directives that read files and macros are refused.
    """
    if forbidden := _FORBIDDEN.search(text):
        line = text.count("\n", 0, forbidden.start()) + 1
        raise AssemblerError(f"line {line}: {forbidden[0]} is not allowed in text to rebuild")
    data = link(assemble(text, arch))
    CodeObject.read(data)
    return data


def rebuild_checked(text: str, arch: str, *, k0: CodeObject | None = None) -> bytes:
    """Like `rebuild`, for text that was edited by hand: nothing of it is left to trust.

    Every instruction must be what its line says and every immediate fit, and the descriptors must
    give the code the registers and the scratch that it uses. With `k0`, what a launch sees must be
    as it is there.

    Raises:
        AssemblerError: the first of these that does not hold.
    """
    data = rebuild(text, arch)
    rebuilt = CodeObject.read(data)
    check_text(text, arch, rebuilt)
    if rebuilt.kernels and (faults := find_resource_faults(take_apart(rebuilt), k0)):
        raise AssemblerError(str(faults[0]), hint=faults[0].hint)
    if k0 is not None and (differences := check_abi(k0, rebuilt)):
        raise AssemblerError(f"a launch would differ from the original's: {differences[0]}")
    return data


def rebuild_listing(listing: Listing) -> bytes:
    """Rebuild a listing, edited or not.

    In memory where `relink` knows the object's layout, else by assembler and linker: the bytes are
    the same. They are read back: kept instructions must be there with their bytes, added ones must
    decode to their text, branches and addresses must lead where the listing's do, and descriptors,
    metadata, symbols and data must be those of `expect_object` bit for bit.

    Raises:
        AssemblerError: LLVM refused the text, or made something else of it than was meant.
    """
    if not listing.is_edited:
        return listing.base.data
    if listing.is_in_place:
        return patch_listing(listing)
    # What no hardware has is refused before LLVM looks at it.
    expect_object(listing)
    placement = place_instructions(listing)
    _refuse_far_branches(placement)
    data = relink(listing, placement)
    if data is None:
        data = link(assemble(emit(listing).text, listing.arch))
    check_edit(listing, CodeObject.read(data), placement)
    return data


def _refuse_far_branches(placement: Placement) -> None:
    for one in placement.branches:
        if placement.branch_bytes(one) is None:
            words = (placement.offsets[one.target] - placement.offsets[one.id]) // 4 - 1
            raise AssemblerError(
                f"branch {one.id} `{one.text}` would have to go {words} words: 16 bits cannot",
                hint="lead it over an s_branch between the two",
            )
