"""Finding LLVM; assembling, linking and disassembling."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from asmevo.codeobject import decoder, llvm, llvm_service
from asmevo.codeobject.process import run_tool
from asmevo.codeobject.toolchain import assemble, describe, disassemble, link
from asmevo.errors import AssemblerError, CodeObjectError, MissingToolError, UsageError

NOP = bytes.fromhex("000080bf")


@pytest.fixture
def forget_tools() -> Iterator[None]:
    llvm._find_tools.cache_clear()
    yield
    llvm._find_tools.cache_clear()


def write_tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_describe_here_names_a_tool_for_every_role() -> None:
    reports = describe()

    assert [one.role for one in reports] == ["assembler", "linker", "disassembler"]
    assert all(one.path and int(one.version.split(".")[0]) >= 19 for one in reports)


def test_assemble_good_text_gives_an_elf_object() -> None:
    assert assemble("s_nop 0\n", "gfx942").startswith(b"\x7fELF")


def test_assemble_bad_line_names_line_and_message() -> None:
    with pytest.raises(AssemblerError, match=r"line 2: invalid instruction.*`v_nonsense v1`"):
        assemble("s_nop 0\nv_nonsense v1\n", "gfx942")


def test_assemble_unknown_processor_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown architecture 'sm_90'"):
        assemble("s_nop 0\n", "sm_90")


def test_assemble_target_features_reach_the_object() -> None:
    flags = assemble("s_nop 0\n", "gfx942:sramecc+:xnack-")[48:52]

    assert int.from_bytes(flags, "little") & 0xF00 == 0xE00


def test_link_garbage_is_an_assembler_error() -> None:
    with pytest.raises(AssemblerError, match="linker: "):
        link(b"not an object")


def test_disassemble_gives_offsets_bytes_and_text() -> None:
    code = NOP + bytes.fromhex("800006c0") + bytes(4)

    first, second = disassemble(code, "gfx942")

    assert (first.text, first.offset, first.data) == ("s_nop 0", 0, NOP)
    assert (second.text, second.offset) == ("s_load_dwordx2 s[2:3], s[0:1], 0x0", 4)
    assert second.data == code[4:]


def test_disassemble_branches_name_their_targets() -> None:
    back = bytes.fromhex("feff82bf")
    to_end = bytes.fromhex("000082bf")
    outside = bytes.fromhex("100082bf")

    decoded = disassemble(NOP + back + outside + to_end, "gfx942")

    assert [one.text for one in decoded[1:]] == ["s_branch .L0", "s_branch 16", "s_branch .Lend"]
    assert [one.target for one in decoded] == [None, 0, None, None]


def test_disassemble_undecodable_word_becomes_data() -> None:
    (word,) = disassemble(bytes.fromhex("ffffffff"), "gfx942")

    assert word.text == ".long 0xffffffff"


@pytest.mark.parametrize("code", ["0e8a8386", "070191be", "0bff8090 06000200"])
def test_disassemble_misaligned_registers_become_data(code: str) -> None:
    data = bytes.fromhex(code.replace(" ", ""))

    # LLVM prints s[2:3] for s3 and warns in a comment, which would assemble to other bits.
    decoded = disassemble(NOP + data + NOP, "gfx942")

    assert [one.mnemonic for one in decoded] == ["s_nop", ".long", "s_nop"]
    assert decoded[1].data == data


@pytest.mark.skipif(not llvm.find_tools(20), reason="needs LLVM 20 for gfx950")
def test_disassemble_word_that_crashes_llvm_becomes_data() -> None:
    # SDWA with reserved bits: llvm-objdump 22 and LLVM-C die of it.
    crasher = bytes.fromhex("f9ac507ed0060700")

    decoded = disassemble(NOP * 3 + crasher + NOP * 2, "gfx950")

    assert b"".join(one.data for one in decoded) == NOP * 3 + crasher + NOP * 2
    assert [one.text for one in decoded[:3] + decoded[-2:]] == ["s_nop 0"] * 5


def test_disassemble_part_of_a_word_is_refused() -> None:
    with pytest.raises(CodeObjectError, match="whole words"):
        disassemble(b"\0" * 6, "gfx942")


@pytest.mark.usefixtures("forget_tools")
def test_find_tools_in_a_named_folder_prefers_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASMEVO_LLVM", str(tmp_path))

    with pytest.raises(MissingToolError, match=f"ASMEVO_LLVM={tmp_path}.*asmevo\\[toolchain\\]"):
        assemble("s_nop 0\n", "gfx942")


@pytest.mark.usefixtures("forget_tools")
def test_assemble_with_old_llvm_says_which_version_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("llvm-mc", "ld.lld", "llvm-objdump"):
        write_tool(tmp_path, name, 'echo "LLVM version 18.1.3"; echo "LLD 18.1.3"; echo " amdgcn"')
    monkeypatch.setenv("ASMEVO_LLVM", str(tmp_path))

    with pytest.raises(MissingToolError, match=r"LLVM 19 or later .* is LLVM 18\.1\.3"):
        assemble("s_nop 0\n", "gfx942")


@pytest.mark.usefixtures("forget_tools")
def test_find_tools_without_amdgpu_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tool(tmp_path, "llvm-mc", 'echo "LLVM version 22.1.8"; echo " x86-64"')
    monkeypatch.setenv("ASMEVO_LLVM", str(tmp_path))

    assert describe()[0].problem.startswith("missing: ")


@pytest.mark.usefixtures("forget_tools")
def test_choice_that_is_no_folder_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASMEVO_LLVM", "/does/not/exist")

    with pytest.raises(UsageError, match="is not a folder"):
        assemble("s_nop 0\n", "gfx942")


def test_disassemble_with_the_library_and_with_llvm_objdump_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = llvm.find_tool(llvm.Role.DISASSEMBLER)
    if tool.kind != "llvm-objdump" or not tool.library:
        pytest.skip("only one of them here")
    assert llvm_service.find_service(tool.library).is_usable
    code = random.Random(5).randbytes(4000) + NOP + bytes.fromhex("0e8a8386 070191be f9ac507e")

    by_library = decoder.decode(tool, code, "gfx942")
    by_tool = decoder.decode(dataclasses.replace(tool, library=""), code, "gfx942")

    assert by_library == by_tool
    assert sum(bool(one.text) for one in by_library) > 100


def test_service_survives_a_worker_that_was_killed() -> None:
    service = service_here()
    assert service.request(b"d", "gfx942", NOP) == b"4\ts_nop 0"

    assert service._process
    service._process.kill()
    service._process.wait()

    assert service.request(b"d", "gfx942", NOP) == b"4\ts_nop 0"


def test_service_of_a_word_that_crashes_llvm_says_what_came_before() -> None:
    crasher = bytes.fromhex("f9ac507ed0060700")

    with pytest.raises(llvm_service.LibraryCrash) as caught:
        service_here().request(b"c", "gfx950", NOP * 2 + crasher)

    assert caught.value.partial.split() == [b"4", b"s_nop", b"0"] * 2


def test_service_of_a_library_that_cannot_be_loaded_is_not_usable(tmp_path: Path) -> None:
    (tmp_path / "libLLVM.so").write_bytes(b"not a library")

    assert not llvm_service.LlvmService(str(tmp_path / "libLLVM.so")).is_usable


def service_here() -> llvm_service.LlvmService:
    library = llvm.find_tool(llvm.Role.DISASSEMBLER).library
    if not library:
        pytest.skip("LLVM without a shared library")
    return llvm_service.find_service(library)


def test_tool_that_spins_is_ended_by_its_cpu_time() -> None:
    with pytest.raises(AssemblerError, match=r"took longer than 1 s of CPU time"):
        run_tool(("/bin/sh", "-c", "while :; do :; done"), timeout_s=1)


def test_tool_that_sleeps_is_ended_by_the_clock() -> None:
    with pytest.raises(AssemblerError, match=r"took longer than 0.5 s$"):
        run_tool(("/bin/sleep", "30"), timeout_s=0.05)
