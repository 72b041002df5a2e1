"""Assembly edited by hand: checked line by line, resources and interface held to the original."""

from __future__ import annotations

from typing import Any

import pytest
from edited_object import build_kernel, write_kernel

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.rebuild import rebuild, rebuild_checked
from asmevo.codeobject.recover import recover
from asmevo.codeobject.text_check import check_text
from asmevo.errors import AssemblerError

CODE = [
    "s_mov_b32 s7, 8",
    ".Lloop:",
    "v_add_u32_e32 v1, 1, v1",
    "s_sub_u32 s7, s7, 1",
    "s_cbranch_scc1 .Lloop",
    "s_endpgm",
]


def rebuild_code(*code: str, **values: object) -> bytes:
    return rebuild_checked(write_kernel(code, **values), "gfx942")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["scale", "two_kernels", "preload"])
def test_recovered_text_passes(build_object: Any, name: str) -> None:
    data = build_object(name)
    k0 = CodeObject.read(data)

    rebuild_checked(recover(data).to_assembly(), "gfx942", k0=k0)


@pytest.mark.triton
def test_recovered_text_of_compiled_kernels_passes(triton_objects: dict[str, bytes]) -> None:
    for data in triton_objects.values():
        listing = recover(data)
        rebuild_checked(listing.to_assembly(), listing.arch, k0=listing.source)


def test_text_as_people_write_it_passes() -> None:
    rebuild_code(
        "; a comment",
        "s_mov_b32 s7, 0x8 // eight",
        "count = 3",
        '.Lloop: "odd;name": v_add_u32 v1, 1, v1 /* once */',
        "  s_sub_u32 s7,s7,1",
        "s_cbranch_scc1 .Lloop",
        "s_waitcnt vmcnt(0) & lgkmcnt(0)",
        "s_branch 0",
        "s_endpgm",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s_nop 300", r"line 9: s_nop immediate 300 is outside 0 to 15"),
        ("buffer_load_dword v1, v2, s[4:7], 0 offen offset:4100", "outside 0 to 4095"),
        ("v_mov_b32 v1, 0x3f800000", "`v_mov_b32 v1, 0x3f800000` was assembled as"),
        ("s_mov_b32 s0, count", "was assembled as"),
        (".long 0x7e0002ff\ns_nop 1", "line 10: no instruction came of `s_nop`"),
        ("s_setprio 9", "outside 0 to 3"),
        ("s_nop " + "1" * 5000, "line 9: "),
        ("s_mov_b32 s1, 0x" + "0" * 5000 + "7", "line 9: a number that is too long"),
    ],
)
def test_line_that_llvm_reads_otherwise_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AssemblerError, match=reason):
        rebuild_code(".set count, 3", text, "s_endpgm")


def test_code_that_is_not_the_text_is_found() -> None:
    text = write_kernel(CODE)
    data = rebuild(text, "gfx942")
    at = CodeObject.read(data).text.offset
    for offset, change in ((4, 0x02), (12, 0x01)):
        place = at + offset
        wrong = data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
        with pytest.raises(AssemblerError, match="was assembled as"):
            check_text(text, "gfx942", CodeObject.read(wrong))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("v_mov_b32_e32 v8, 0", r"uses v8, the descriptor gives 8 VGPRs.*next_free_vgpr 12"),
        (
            "v_accvgpr_mov_b32 a0, a1\nv_mov_b32_e32 v4, 0",
            r"uses v4, the descriptor gives 4 VGPRs.*accum_offset 8",
        ),
        ("v_accvgpr_write_b32 a4, v0", r"uses a4, .* gives 4 AGPRs.*next_free_vgpr 9"),
        ("s_mov_b32 s10, 0", r"uses 17 SGPRs, .* gives 16"),
        ("scratch_store_dword off, v0, off offset:8", r"uses 12 bytes of scratch.* gives 0"),
    ],
)
def test_more_than_the_descriptor_gives_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AssemblerError, match=reason):
        rebuild_code(text, "s_endpgm")


def test_other_interface_than_the_original_is_refused() -> None:
    k0 = CodeObject.read(build_kernel(CODE))
    text = write_kernel(CODE).replace(".kernarg_segment_size: 8", ".kernarg_segment_size: 16")

    with pytest.raises(AssemblerError, match="would differ from the original's: metadata"):
        rebuild_checked(text, "gfx942", k0=k0)


def test_metadata_that_an_edit_left_behind_is_refused() -> None:
    k0 = CodeObject.read(build_kernel(CODE))
    edited = write_kernel(["v_mov_b32_e32 v20, 0", *CODE], total=24, accum=24)

    rebuild_checked(edited, "gfx942", k0=k0)
    with pytest.raises(AssemblerError, match=r"uses 21, the metadata has \.vgpr_count 8"):
        rebuild_checked(edited.replace(".vgpr_count: 24", ".vgpr_count: 8"), "gfx942", k0=k0)


def test_metadata_that_the_original_has_wrong_may_stay() -> None:
    text = write_kernel(CODE).replace(".sgpr_count: 14", ".sgpr_count: 12")
    k0 = CodeObject.read(rebuild(text, "gfx942"))

    rebuild_checked(text, "gfx942", k0=k0)
    with pytest.raises(AssemblerError, match=r"metadata has \.sgpr_count 11"):
        rebuild_checked(text.replace(".sgpr_count: 12", ".sgpr_count: 11"), "gfx942", k0=k0)
