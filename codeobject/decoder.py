"""Raw bytes to instruction text, through LLVM's library or llvm-objdump, surviving a decoder that
crashes."""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from asmevo.codeobject.llvm import Tool
from asmevo.codeobject.llvm_service import (
    LibraryCrash,
    LibraryError,
    LlvmService,
    find_service,
)
from asmevo.codeobject.process import Finished, run_tool
from asmevo.codeobject.target import ELF_MACHINE_AMDGPU, elf_flags
from asmevo.errors import AssemblerError

__all__ = ["Decoded", "decode", "parse_lines"]

_MAX_CRASHES: Final = 16
_OBJDUMP_LINE = re.compile(
    r"\t(.*?)\s*// ([0-9A-F]+): ([0-9A-F]{8}(?: [0-9A-F]{8})*)(?: <.*>)?( ; .*)?$"
)
_DATA = (".long", ".short", ".byte")
# LLVM prints text for registers that an instruction cannot name, and says so in a comment: the text
# means other bits.
_DOUBTFUL = ("/*Invalid register", "Warning:")


class Decoded(NamedTuple):
    """One instruction; `text` is empty where LLVM cannot decode."""

    offset: int
    size: int
    text: str


class _DecoderCrash(Exception):
    """The decoder died; says nothing about where."""


def decode(tool: Tool, data: bytes, processor: str) -> list[Decoded]:
    """Decode `data` (whole words) from its first to its last byte, without gaps.

    llvm-objdump 22 and LLVM-C crash on some words (SDWA with reserved bits, `7E50ACF9 000706D0` on
    gfx950). Such a word is found by bisection and handed back as undecodable.
    """
    if tool.library and (tool.kind == "library" or find_service(tool.library).is_usable):
        try:
            return _decode_in_service(find_service(tool.library), data, processor)
        except LibraryError as error:
            raise AssemblerError(f"{tool.library}: {error}") from error
    return _decode_with_objdump(tool, data, processor)


def _decode_in_service(service: LlvmService, data: bytes, processor: str) -> list[Decoded]:
    try:
        return parse_lines(service.request(b"d", processor, data), 0)
    except LibraryCrash:
        pass
    decoded: list[Decoded] = []
    start = 0
    for _ in range(_MAX_CRASHES + 1):
        try:
            return decoded + parse_lines(service.request(b"c", processor, data[start:]), start)
        except LibraryCrash as crash:
            decoded += parse_lines(crash.partial, start)
            start = decoded[-1].offset + decoded[-1].size if decoded else 0
            decoded.append(Decoded(offset=start, size=4, text=""))
            start += 4
    raise AssemblerError(f"LLVM's decoder crashes on more than {_MAX_CRASHES} words of this code")


def parse_lines(answer: bytes, offset: int) -> list[Decoded]:
    """Read the worker's lines for code that begins at `offset`."""
    decoded = []
    for line in answer.decode("ascii", "replace").splitlines():
        size, _, text = line.partition("\t")
        one = _decoded(offset, int(size), text)
        decoded.append(one)
        offset += one.size
    return decoded


def _decode_with_objdump(tool: Tool, data: bytes, processor: str) -> list[Decoded]:
    decoded: list[Decoded] = []
    start = 0
    for _ in range(_MAX_CRASHES + 1):
        rest = data[start:]
        try:
            decoded += _shift(_run_objdump(tool, rest, processor), start)
            return decoded
        except _DecoderCrash:
            good = _longest_good_prefix(rest, lambda part: _run_objdump(tool, part, processor))
            decoded += _shift(_run_objdump(tool, rest[:good], processor), start) if good else []
            start = decoded[-1].offset + decoded[-1].size if decoded else 0
            decoded.append(Decoded(offset=start, size=4, text=""))
            start += 4
    raise AssemblerError(f"LLVM's decoder crashes on more than {_MAX_CRASHES} words of this code")


def _shift(part: list[Decoded], start: int) -> list[Decoded]:
    return [Decoded(offset=one.offset + start, size=one.size, text=one.text) for one in part]


def _longest_good_prefix(data: bytes, run: Callable[[bytes], object]) -> int:
    good, bad = 0, len(data) // 4
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            run(data[: middle * 4])
            good = middle
        except _DecoderCrash:
            bad = middle
    # The word before the crashing one may be the first half of a two-word instruction: decoding the
    # prefix then gives it back as undecodable, which keeps the bytes.
    return good * 4


def _check(done: Finished, tool: Tool) -> None:
    if done.has_crashed:
        raise _DecoderCrash
    if done.code != 0:
        lines = done.errors.strip().splitlines()
        raise AssemblerError(f"{tool.path}: {lines[0] if lines else 'failed without a message'}")


def _decoded(offset: int, size: int, text: str) -> Decoded:
    if ";" in text or "/*" in text:
        is_doubtful = any(sign in text for sign in _DOUBTFUL)
        text = "" if is_doubtful else text.partition(" ; ")[0]
    return Decoded(offset, size, " ".join(text.split()))


def _run_objdump(tool: Tool, data: bytes, processor: str) -> list[Decoded]:
    with tempfile.NamedTemporaryFile(prefix="asmevo-", suffix=".o") as file:
        Path(file.name).write_bytes(_wrap(data, processor))
        options = ("-d", "--disassemble-zeroes", f"--mcpu={processor}", file.name)
        done = run_tool((*tool.command, *options))
    _check(done, tool)
    decoded: list[Decoded] = []
    position = 0
    for line in done.output.decode("ascii", "replace").splitlines():
        match = _OBJDUMP_LINE.match(line)
        if match is None:
            continue
        offset, size = int(match[2], 16), 4 * len(match[3].split())
        if offset != position or offset + size > len(data):
            raise AssemblerError(f"{tool.path}: unexpected listing at offset {position:#x}")
        is_data = match[1].startswith(_DATA)
        decoded.append(_decoded(offset, size, "" if is_data else match[1] + (match[4] or "")))
        position += size
    if position != len(data):
        raise AssemblerError(f"{tool.path}: listing ends at offset {position:#x} of {len(data):#x}")
    return decoded


def _wrap(data: bytes, processor: str) -> bytes:
    """Smallest ELF object that llvm-objdump takes: `.text` without symbols, so that operands stay
    numbers."""
    names = b"\0.text\0.shstrtab\0"
    header_size, text_at = 64, 64
    names_at = text_at + len(data)
    table_at = -(-(names_at + len(names)) // 8) * 8
    identity = b"\x7fELF\x02\x01\x01\x40\x03" + bytes(7)
    header = identity + struct.pack(
        "<HHIQQQIHHHHHH",
        1,
        ELF_MACHINE_AMDGPU,
        1,
        0,
        0,
        table_at,
        elf_flags(processor),
        header_size,
        0,
        0,
        64,
        3,
        2,
    )
    sections = (
        bytes(64)
        + struct.pack("<IIQQQQIIQQ", 1, 1, 6, 0, text_at, len(data), 0, 0, 4, 0)
        + struct.pack("<IIQQQQIIQQ", 7, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    )
    return (header + data + names).ljust(table_at, b"\0") + sections
