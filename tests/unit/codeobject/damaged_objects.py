"""Seeded damage of code objects and of what ships them, for fuzz test and scripts/fuzz_recovery."""

from __future__ import annotations

import random
import re
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgpack  # type: ignore[import-untyped]

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import find_code_objects
from asmevo.codeobject.emit import emit
from asmevo.codeobject.recover import recover, take_apart
from asmevo.errors import AsmevoError

__all__ = ["check_survival", "damage"]

_EDGES = (0, 1, 2, 3, 4, 7, 8, 63, 64, 255, 256, 4095, 4096, 0xFFF1, 0xFFFF, 1 << 24, 1 << 31)
_WIDE_EDGES = (*_EDGES, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_NAMES = (
    b'a"b',
    b"a\nb",
    b'x"\n\t.incbin "/etc/passwd"\n',
    b"\\x22\\n",
    b"\\",
    b"a;b",
    b"/*",
    b"#x",
    b"\x1b[2J",
    b"\xff\xfe",
    b".L0",
    b".La100",
    b".",
    b"$",
    b"s0",
    b"exec",
    b"\0",
    "\u2028é".encode(),
)
# Everything that recovered text may begin a line with, beside labels and instructions.
_DIRECTIVE = re.compile(
    r"\.(?:amdgcn_target|amdhsa_\w+|end_amdhsa_kernel|amdgpu_metadata|end_amdgpu_metadata|globl|weak|"
    r"hidden|protected|set|text|section|p2align|type|size|byte|zero|long|quad)(?:\s|$)"
)
_LABEL = re.compile(r'(?:"[^"\\\n]*"|[A-Za-z_.$][\w.$]*):$')
_INSTRUCTION = re.compile(r"[a-z][a-z0-9_]*(?:\s[^\n\"]*)?$")
_METADATA = re.compile(
    r"\t\.amdgpu_metadata\n---\n.*?\n\.\.\.\n\t\.end_amdgpu_metadata\n", re.DOTALL
)


def damage(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to four kinds of damage."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(_KINDS)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 2, 8, 64))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.choice((1, 4, 64))) + data[at:]


def _put_number(data: bytes, chance: random.Random) -> bytes:
    """An edge value somewhere, at any natural place."""
    size = chance.choice((2, 4, 8))
    if len(data) < size:
        return data
    at = chance.randrange(len(data) - size + 1) // size * size
    value = chance.choice(_WIDE_EDGES) & ((1 << 8 * size) - 1)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _change_section(data: bytes, chance: random.Random) -> bytes:
    """A field of the section table."""
    if len(data) < 64:
        return data
    table, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")
    at = table + 64 * chance.randrange(max(1, count)) + chance.choice((0, 4, 8, 16, 24, 32, 40, 48))
    if at + 8 > len(data):
        return data
    value = chance.choice((*_WIDE_EDGES, chance.randrange(len(data))))
    return data[:at] + value.to_bytes(8, "little") + data[at + 8 :]


def _change_header(data: bytes, chance: random.Random) -> bytes:
    """A field of the ELF header."""
    at, size = chance.choice(
        ((8, 1), (18, 2), (40, 8), (48, 4), (54, 2), (56, 2), (60, 2), (62, 2))
    )
    if len(data) < 64:
        return data
    value = chance.choice(_WIDE_EDGES) & ((1 << 8 * size) - 1)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def _rename(data: bytes, chance: random.Random) -> bytes:
    """A hostile name in the place of a word that occurs in the file."""
    words = re.findall(rb"[A-Za-z_.][A-Za-z0-9_.]{2,40}", data)
    if not words:
        return data
    word = chance.choice(words)
    name = chance.choice(_NAMES)[: len(word)]
    return data.replace(word, name.ljust(len(word), chance.choice((b"x", b"\n", b'"', b"\\"))))


def _change_metadata(data: bytes, chance: random.Random) -> bytes:
    """A note of the same size with other contents: nested, huge counts, extension types."""
    at = data.find(b"AMDGPU\0\0")
    if at < 12:
        return data
    _, size, _ = struct.unpack_from("<III", data, at - 12)
    start = at + 8
    if not 0 < size <= len(data) - start:
        return data
    note = bytearray(data[start : start + size])
    kind = chance.randrange(5)
    if kind == 0:
        note[:] = bytes([chance.choice((0x91, 0x81, 0xDC, 0xDD, 0xDF, 0xC9))]) * size
    elif kind == 1:
        place = chance.randrange(size)
        note[place : place + 5] = b"\xdd\xff\xff\xff\xff"
    elif kind == 2:
        place = chance.randrange(size)
        made = msgpack.packb(
            chance.choice((1.5, None, b"\0", [[]], {1: 2}, msgpack.ExtType(5, b"")))
        )
        note[place : place + len(made)] = made
    elif kind == 3:
        note[chance.randrange(size)] = chance.randrange(256)
    else:
        return _rename(data, chance)
    return data[:start] + bytes(note[:size]) + data[start + size :]


_KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _insert,
    _put_number,
    _change_section,
    _change_section,
    _change_header,
    _rename,
    _rename,
    _change_metadata,
    _change_metadata,
)


def check_survival(data: bytes, *, whole: bool) -> str:
    """How far damaged bytes get: `refused`, `read`, `taken apart`, `emitted`, `recovered`.

    Anything but a one-line error of ours is an AssertionError or comes out as it is. With `whole`,
    what can be emitted is recovered as well, which takes LLVM's tools.
    """
    reached = "refused"
    try:
        objects = _find(data)
        for one in objects[:2]:
            source = CodeObject.read(one)
            reached = "read"
            if not source.kernels:
                continue
            listing = take_apart(source)
            reached = "taken apart"
            _check_text(emit(listing).text)
            reached = "emitted"
            if whole:
                recover(one)
                reached = "recovered"
    except AsmevoError as error:
        message = str(error)
        assert message and "\n" not in message and len(message) < 1000, repr(message)[:2000]
    return reached


def _find(data: bytes) -> list[bytes]:
    with tempfile.NamedTemporaryFile(prefix="asmevo-fuzz-") as file:
        Path(file.name).write_bytes(data)
        return [one.data for one in find_code_objects(Path(file.name))]


def _check_text(text: str) -> None:
    """Nothing in the text but what recovery writes: no name has become a directive."""
    without = _METADATA.sub("", text)
    for line in without.splitlines():
        if line.startswith("\t"):
            rest = line.strip("\t")
            is_known = _DIRECTIVE.match(rest) or _INSTRUCTION.match(rest)
        else:
            is_known = _LABEL.match(line)
        assert is_known, f"a line that recovery does not write: {line!r}"
    assert without.isascii()
