"""Relinking in memory gives the bytes of assembler and linker, or nothing."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from asmevo.codeobject import encoder, relink
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.elf_layout import Layout
from asmevo.codeobject.emit import emit
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.llvm_service import LlvmService
from asmevo.codeobject.placement import place_instructions
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import AssemblerError

ADDED = (
    ["s_nop 3"],
    ["v_add_f32_e32 v1, v2, v3", "s_mov_b32 s0, 0x12345678"],
    # More registers: descriptor and metadata change, the note may grow.
    ["v_mov_b32_e32 v200, 0"],
    ["v_accvgpr_write_b32 a100, 0"],
)
ENDS = ("s_endpgm", "s_branch", "s_setpc_b64")


def edit_at_random(listing: Listing, seed: int, count: int) -> Listing:
    chance = random.Random(seed)
    for _ in range(count):
        kept = [
            one
            for one in listing.instructions
            # A kernel that runs off its end has resources that nobody knows.
            if one.id not in listing.pinned | listing.glued and one.mnemonic not in ENDS
        ]
        one = chance.choice(kept)
        if chance.random() < 0.3 and len(kept) > 4 and not one.mnemonic.startswith("s_"):
            listing = listing.delete((one.id,))
        else:
            listing = listing.insert_after(one.id, chance.choice(ADDED))
    return listing


def assemble_and_link(listing: Listing) -> bytes:
    return link(assemble(emit(listing).text, listing.arch))


@pytest.mark.parametrize("count", [1, 12, 60])
@pytest.mark.parametrize("name", ["scale", "two_kernels", "preload"])
def test_relink_of_random_edits_gives_the_linkers_bytes(
    build_object: Any, name: str, count: int
) -> None:
    listing = recover(build_object(name))
    edited = edit_at_random(listing, count, count)
    assert edited.is_edited

    data = relink.relink(edited, place_instructions(edited))

    assert data == assemble_and_link(edited)


def test_relink_of_real_kernels_gives_the_linkers_bytes(triton_objects: dict[str, bytes]) -> None:
    for name in ("product-gfx90a", "product-gfx942", "product-gfx950"):
        edited = edit_at_random(recover(triton_objects[name]), 7, 8)

        assert relink.relink(edited, place_instructions(edited)) == assemble_and_link(edited)


def test_relink_of_a_layout_that_is_not_lds_is_left_to_the_linker(build_object: Any) -> None:
    listing = recover(build_object("scale"))
    edited = listing.insert_after(listing.kernels[0].first_id, ["s_nop 0"])
    data = bytearray(listing.base.data)
    # 64 bytes before the section table, as another linker might leave them.
    table = int.from_bytes(data[40:48], "little")
    data[40:48] = (table + 64).to_bytes(8, "little")
    moved = bytes(data[:table]) + bytes(64) + bytes(data[table:])
    strange = dataclasses.replace(edited, base=CodeObject.read(moved))

    assert Layout.read(listing.base) is not None
    assert relink.relink(strange, place_instructions(strange)) is None
    assert rebuild_listing(strange) == assemble_and_link(edited)


def test_relink_of_a_branch_that_is_too_long_is_left_to_the_linker(build_object: Any) -> None:
    listing = recover(build_object("two_kernels"))
    branch = next(one for one in listing.instructions if (one.target or 0) > one.id)
    edited = listing.insert_after(branch.id, ["s_nop 0"] * 0x8001)
    placement = place_instructions(edited)

    assert placement.branch_bytes(branch) is None
    assert relink.relink(edited, placement) is None


def test_encode_gives_bytes_and_what_llvm_reads_in_them(build_object: Any) -> None:
    listing = recover(build_object("scale"))
    edited = listing.insert_after(listing.kernels[0].first_id, ["v_add_f32 v1, 1.0, v2"])
    added = [one for one in edited.instructions if not one.data]

    (encoding,) = encoder.encode(added, "gfx942").values()

    assert encoding.data == bytes.fromhex("f2040202")
    assert (encoding.mnemonic, encoding.operands) == ("v_add_f32_e32", "v1, 1.0, v2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v_nonsense v1", "invalid instruction: `v_nonsense v1`"),
        ("s_mov_b32 s0, unknown", "names a symbol"),
        ("v_add_f32 v1, s2, s3", "constant bus"),
    ],
)
def test_encode_of_what_cannot_stand_alone_is_refused(
    build_object: Any, text: str, message: str
) -> None:
    listing = recover(build_object("scale"))
    edited = listing.insert_after(listing.kernels[0].first_id, ["s_nop 0", text, "s_nop 1"])

    with pytest.raises(AssemblerError, match=message):
        rebuild_listing(edited)


def test_rebuild_without_the_library_gives_the_same(
    build_object: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = recover(build_object("two_kernels"))
    edited = edit_at_random(listing, 3, 12)
    expected = rebuild_listing(edited)

    monkeypatch.setattr(encoder, "_cache", type(encoder._cache)())
    monkeypatch.setattr(LlvmService, "can_assemble", False)

    assert rebuild_listing(edited) == expected


def test_rebuild_of_an_edit_takes_no_process(
    build_object: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = recover(build_object("two_kernels"))
    place = next(one.id for one in listing.instructions if one.id not in listing.glued)
    rebuild_listing(listing.insert_after(place, ["s_nop 1"]))
    monkeypatch.setattr("asmevo.codeobject.process.subprocess.Popen", None)

    rebuild_listing(listing.insert_after(place, ["s_nop 2"]))


@pytest.mark.parametrize("text", ['0\n.incbin "/etc/passwd"', "0\r.text", "0\t1"])
def test_encode_of_more_than_a_line_is_refused(build_object: Any, text: str) -> None:
    listing = recover(build_object("scale"))
    one = dataclasses.replace(listing.instructions[0], mnemonic="s_nop", operands=text, data=b"")

    with pytest.raises(AssemblerError, match="not one instruction"):
        encoder.encode([one], "gfx942")
