"""Recovery and what it gives back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.llvm import find_tools
from asmevo.codeobject.rebuild import find_arch, rebuild, rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.target import minimum_llvm
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import AssemblerError, CodeObjectError


def patched_text(data: bytes, offset: int, code: bytes) -> bytes:
    """`data` with other bytes in its `.text`."""
    start = CodeObject.read(data).text.offset + offset
    return data[:start] + code + data[start + len(code) :]


def loaded_image(data: bytes) -> dict[str, tuple[int, int, bytes]]:
    sections = CodeObject.read(data).sections
    return {one.name: (one.address, one.offset, one.data) for one in sections if one.is_allocated}


def round_trip(data: bytes) -> Listing:
    """Recover, rebuild from the text, and require an identical loaded image."""
    listing = recover(data)
    text = listing.to_assembly()
    rebuilt = rebuild(text, find_arch(text))
    assert compare(CodeObject.read(data), CodeObject.read(rebuilt)) == ()
    assert loaded_image(rebuilt) == loaded_image(data)
    return listing


@pytest.mark.parametrize("name", ["scale", "two_kernels", "preload"])
def test_recover_fixture_gives_the_same_image(build_object: Any, name: str) -> None:
    listing = round_trip(build_object(name))

    assert not any(one.needs_bytes for one in listing.instructions)
    assert not listing.raw_descriptors
    assert not listing.has_raw_metadata
    assert listing.edit_blockers == ()


@pytest.mark.triton
def test_recover_triton_kernels_gives_the_same_image(triton_objects: dict[str, bytes]) -> None:
    for name, data in triton_objects.items():
        if not find_tools(minimum_llvm(name.partition("-")[2])):
            continue
        listing = round_trip(data)

        assert not any(one.needs_bytes for one in listing.instructions), name
        assert not listing.raw_descriptors, name
        assert listing.kernels[0].body_id != listing.kernels[0].first_id, name


def test_recover_names_kernels_by_their_instructions(build_object: Any) -> None:
    listing = recover(build_object("two_kernels"))

    first, second = listing.kernels
    assert listing.instruction(first.first_id).mnemonic == "s_getpc_b64"
    assert listing.instruction(first.last_id).mnemonic == "s_endpgm"
    assert [one.mnemonic for one in listing.kernel_instructions("second")] == [
        "s_cbranch_execz",
        "v_mul_f32_e32",
        "v_mfma_f32_16x16x16_bf16",
        "s_endpgm",
    ]
    assert second.body_id == second.first_id


def test_recover_symbolizes_pc_relative_code(build_object: Any) -> None:
    listing = recover(build_object("two_kernels"))

    addends = [one.operands for one in listing.instructions if one.mnemonic == "s_add_u32"]
    assert re.fullmatch(r"s4, s4, \.La[0-9a-f]+@rel32@lo\+4", addends[0])
    assert addends[1].startswith("s8, s8, .Lt")


def test_recover_pc_relative_code_not_understood_blocks_edits(build_object: Any) -> None:
    data = build_object("scale")
    getpc = bytes.fromhex("001c84be")
    with_getpc = patched_text(data, 16, getpc)

    listing = round_trip(with_getpc)

    assert "s_getpc_b64 at .text+0x10" in listing.edit_blockers[0]


def test_recover_branch_out_of_the_code_blocks_edits(build_object: Any) -> None:
    data = build_object("scale")

    listing = round_trip(patched_text(data, 16, bytes.fromhex("008082bf")))

    assert "branch at .text+0x10" in listing.edit_blockers[0]


@pytest.mark.parametrize("word", ["00000000", "ffffffff", "f9ac507e"])
def test_recover_words_that_do_not_reassemble_are_kept_as_bytes(
    build_object: Any, word: str
) -> None:
    listing = round_trip(patched_text(build_object("scale"), 16, bytes.fromhex(word)))

    kept = [one for one in listing.instructions if one.needs_bytes or one.mnemonic == ".long"]
    assert 1 <= len(kept) <= 2
    assert kept[0].data[:4].hex() == word


def test_recover_bits_that_the_decoder_drops_are_kept(build_object: Any) -> None:
    # VOP3 with an unused third source that is not zero: decodes, but assembles with zero there.
    unused_source = bytes.fromhex("096a 0fd7 0209 0002".replace(" ", ""))
    data = patched_text(build_object("scale"), 24, unused_source)

    round_trip(data)


def test_recover_descriptor_bits_without_directive_stay_raw(build_object: Any) -> None:
    data = build_object("scale")
    descriptor = CodeObject.read(data).kernels[0].descriptor
    reserved = data.index(descriptor) + 28

    listing = round_trip(data[:reserved] + b"\x5a" + data[reserved + 1 :])

    assert listing.raw_descriptors == {"scale"}
    assert ".amdhsa_kernel" not in listing.to_assembly()


def test_recover_metadata_in_another_encoding_stays_raw(build_object: Any) -> None:
    data = build_object("scale")
    # The array [1, 2] of small integers with one of them as an 8-bit integer would change the size;
    # a key out of order keeps it: swap two entries of equal length.
    note = CodeObject.read(data).metadata_note
    first, second = b"\xab.agpr_count\x00", b"\xab.vgpr_count\x08"
    assert first in note
    assert second in note
    swapped = note.replace(first, b"?" * 13).replace(second, first).replace(b"?" * 13, second)

    listing = round_trip(data.replace(note, swapped))

    assert listing.has_raw_metadata


def test_recover_unwind_records_follow_their_code(build_object: Any) -> None:
    text = (Path(__file__).parents[2] / "fixtures" / "scale.s").read_text()
    text = text.replace("scale:\n", "scale:\n.cfi_startproc\n").replace(
        ".Lend:\n", ".Lend:\n.cfi_endproc\n"
    )
    data = link(assemble(text, "gfx942"))
    frames = CodeObject.read(data).section(".eh_frame")
    assert frames is not None
    assert frames.size > 24

    listing = round_trip(data)

    rebuild_listing(listing.insert_after(listing.kernels[0].first_id, ["s_nop 0"]))


def test_recover_object_without_kernels_is_refused() -> None:
    text = ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels: []\n...\n"
    data = link(assemble(f"s_endpgm\n{text}.end_amdgpu_metadata\n", "gfx942"))

    with pytest.raises(CodeObjectError, match="without kernels"):
        recover(data)


def test_recover_hostile_symbol_name_cannot_inject_text(build_object: Any) -> None:
    data = build_object("two_kernels")

    with pytest.raises(CodeObjectError, match="cannot be written in assembly"):
        recover(data.replace(b"\0variable\0", b"\0var\n.b 1\0"))


def test_rebuild_listing_unedited_gives_the_object(build_object: Any) -> None:
    data = build_object("preload")

    assert loaded_image(rebuild_listing(recover(data))) == loaded_image(data)


@pytest.mark.parametrize(
    "directive", ['.incbin "/etc/passwd"', '.INCLUDE "x"', ".rept 9", ".rep 9"]
)
def test_rebuild_text_that_reads_files_is_refused(directive: str) -> None:
    with pytest.raises(AssemblerError, match=r"line 2: .* is not allowed"):
        rebuild(f"s_nop 0\n{directive}\n", "gfx942")


def test_find_arch_of_foreign_text_is_refused() -> None:
    with pytest.raises(AssemblerError, match=r"without a usable \.amdgcn_target"):
        find_arch("mov eax, 1\n")


def test_find_arch_reads_both_spellings() -> None:
    assert find_arch('.amdgcn_target "amdgcn-amd-amdhsa--gfx942:xnack-"') == "gfx942:xnack-"
    assert find_arch('\t.amdgcn_target "amdgpu9.42-amd-amdhsa-unknown-gfx950"') == "gfx950"
