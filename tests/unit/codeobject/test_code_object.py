"""Reading code objects, whole and damaged."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asmevo.codeobject.code_object import CodeObject, content_hash, image_size, require_arch
from asmevo.errors import CodeObjectError


def test_read_kernel_gives_what_metadata_and_descriptor_say(build_object: Any) -> None:
    kernel = CodeObject.read(build_object("scale")).kernel("scale")

    assert [(one.name, one.offset, one.size) for one in kernel.arguments] == [
        ("out", 0, 8),
        ("x", 8, 8),
        ("factor", 16, 4),
    ]
    assert [one.is_pointer for one in kernel.arguments] == [True, True, False]
    assert kernel.kernarg_segment_size == kernel.fields.kernarg_size == 20
    assert (kernel.entry_offset, kernel.preload_length) == (0, 0)
    assert len(kernel.descriptor) == 64
    assert kernel.metadata.max_workgroup_size == 64


def test_read_several_kernels_gives_entries_and_sizes(build_object: Any) -> None:
    code_object = CodeObject.read(build_object("two_kernels"))

    first, second = code_object.kernels
    assert (first.entry_offset, second.entry_offset) == (0, 256)
    assert code_object.text.data[first.code_size - 4 : first.code_size].hex() == "000081bf"
    assert second.fields.group_segment_size == 512
    assert (code_object.target, code_object.version, code_object.xnack) == ("gfx942", 5, "any")


def test_read_preload_gives_its_length(build_object: Any) -> None:
    assert CodeObject.read(build_object("preload")).kernel("preload.kd").preload_length == 2


def test_read_image_with_a_tail_drops_the_tail(build_object: Any) -> None:
    data = build_object("scale")

    code_object = CodeObject.read(data + bytes(100))

    assert image_size(data + bytes(100)) == len(data)
    assert code_object.data == data
    assert code_object.sha256 == content_hash(data)


def test_kernel_of_unknown_name_names_those_there_are(build_object: Any) -> None:
    with pytest.raises(CodeObjectError, match=r"no kernel nothing.*it has scale"):
        CodeObject.read(build_object("scale")).kernel("nothing")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short"),
        (b"\x7fELF" + bytes(100), "not a 64-bit"),
        (b"#!/bin/sh\n" * 20, "not an ELF file"),
        (b"CCOB" + bytes(100), "compressed offload bundle"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(100), "offload bundle, unbundle"),
    ],
)
def test_read_foreign_data_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        CodeObject.read(data)


def test_read_elf_for_the_host_is_refused() -> None:
    with pytest.raises(CodeObjectError, match="not for AMDGPU"), open("/bin/true", "rb") as file:
        CodeObject.read(file.read())


def test_read_cut_file_is_refused_at_every_length(build_object: Any) -> None:
    data = build_object("scale")

    for length in range(0, len(data), 7):
        with pytest.raises(CodeObjectError):
            CodeObject.read(data[:length])


def test_read_damaged_bytes_never_gives_another_error(build_object: Any) -> None:
    data = build_object("two_kernels")
    chance = random.Random(20261129)
    refused = 0

    for _ in range(600):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            place = chance.choice((chance.randrange(64), chance.randrange(len(data))))
            damaged[place] = chance.choice((0, 255, chance.randrange(256)))
        try:
            CodeObject.read(bytes(damaged))
        except CodeObjectError as error:
            refused += 1
            assert "\n" not in str(error)

    assert refused > 100


@pytest.mark.parametrize(
    ("arch", "fits"),
    [("gfx942", True), ("gfx942:sramecc+:xnack-", True), ("gfx950", False), ("gfx90a", False)],
)
def test_require_arch_takes_only_devices_that_run_it(
    build_object: Any, arch: str, fits: bool
) -> None:
    code_object = CodeObject.read(build_object("scale"))

    if fits:
        require_arch(code_object, arch)
    else:
        with pytest.raises(CodeObjectError, match=f"is for gfx942, not for {arch}"):
            require_arch(code_object, arch)
