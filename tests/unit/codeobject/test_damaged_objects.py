"""Damaged and hostile files give one line, in bounded memory and time, and no foreign directive."""

from __future__ import annotations

import random
import resource
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
import zstandard
from damaged_objects import check_survival, damage
from test_containers import GFX942, HOST, compress_bundle, make_bundle, make_host_library

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import find_code_objects
from asmevo.codeobject.metadata import parse_metadata
from asmevo.codeobject.recover import recover
from asmevo.errors import CodeObjectError


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    """Address space of a gigabyte more than now: what takes more ends in a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def find_section(data: bytes, name: str) -> int:
    """Offset of the header of a section."""
    index = next(one.index for one in CodeObject.read(data).sections if one.name == name)
    return int.from_bytes(data[40:48], "little") + 64 * index


def put(data: bytes, offset: int, value: int, size: int = 8) -> bytes:
    return data[:offset] + value.to_bytes(size, "little") + data[offset + size :]


@pytest.mark.usefixtures("bounded_memory")
def test_damaged_files_of_all_kinds_give_one_line_or_a_result(build_object: Any) -> None:
    scale, two = build_object("scale"), build_object("two_kernels")
    bundle = make_bundle([(HOST, b""), (GFX942, two)])
    bases = (
        *(scale, two, build_object("preload"), bundle),
        *(compress_bundle(bundle, 2, "zstd"), compress_bundle(bundle, 3, "zlib")),
        make_host_library(bundle),
    )
    chance = random.Random(11)

    reached = Counter(
        check_survival(damage(chance.choice(bases), chance), whole=number % 100 == 0)
        for number in range(600)
    )

    assert reached["refused"] > 50
    assert reached["emitted"] > 50


@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (32, 1 << 62, "outside the file"),
        (24, 1 << 63, "outside the file"),
        (48, 1 << 40, "alignment"),
        (48, 3, "alignment"),
        (16, (1 << 64) - 8, "bytes at"),
        (0, 0xFFFFFF, "name"),
    ],
)
def test_section_with_an_absurd_field_is_refused(
    build_object: Any, field: int, value: int, message: str
) -> None:
    data = build_object("two_kernels")
    size = 4 if field == 0 else 8

    with pytest.raises(CodeObjectError, match=message):
        CodeObject.read(put(data, find_section(data, ".rodata") + field, value, size))


@pytest.mark.usefixtures("bounded_memory")
def test_sections_that_share_bytes_are_refused(build_object: Any) -> None:
    data = bytearray(build_object("scale")) + bytes(1 << 20)
    size = len(data)
    table = int.from_bytes(data[40:48], "little")
    header = struct.pack("<IIQQQQIIQQ", 0, 1, 2, 0, 0, size, 0, 0, 1, 0)
    data += data[table : table + 64] + header * 4000
    data[40:48] = size.to_bytes(8, "little")
    data[60:64] = struct.pack("<HH", 4001, 0)

    # Four gigabytes, if each section were read.
    with pytest.raises(CodeObjectError, match="overlap"):
        CodeObject.read(bytes(data))


@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize(
    "note",
    [
        b"\x91" * (1 << 20),
        b"\x81\xa0" * (1 << 19),
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\xa0",
        b"\x90" * (4 << 20),
        b"\xdd" + (8 << 20).to_bytes(4, "big") + b"\x80" * (8 << 20),
        b"\xdb\xff\xff\xff\xff",
        b"\x81\x81\xa0\xa0\xa0",
        b"\x81\xa1a\xc7\x05\xff",
        b"\x81\xa1\xff\xa0",
        b"\x93\x01\x02\x03",
        bytes(17 << 20),
    ],
)
def test_metadata_bombs_are_refused_at_once(note: bytes) -> None:
    start = time.process_time()

    with pytest.raises(CodeObjectError) as caught:
        parse_metadata(note)

    assert "\n" not in str(caught.value)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "name",
    ['x"\n.incbin "f', "a\nb", 'say "hi"', "back\\slash", "tab\t", "\u2028", "nul\0", "\U0001f642"],
)
def test_metadata_texts_cannot_become_directives(build_object: Any, name: str) -> None:
    """Argument names are free text: they come back as they are, or the note stays bytes."""
    data = build_object("scale")

    def set_type(tree: Any) -> None:
        # In the order that LLVM gives to keys: as another one, the note would stay bytes.
        arguments = tree["amdhsa.kernels"][0][".args"]
        arguments[0] = dict(sorted({**arguments[0], ".type_name": name}.items()))

    listing = recover(replace_note(data, set_type))

    assert not listing.has_raw_metadata
    assert listing.base.metadata["amdhsa.kernels"][0][".args"][0][".type_name"] == name
    assert all(not line.startswith("\t.incbin") for line in listing.to_assembly().splitlines())


def replace_note(data: bytes, change: Any) -> bytes:
    """`data` with a changed metadata tree behind what was there, as a section of its own."""
    code_object = CodeObject.read(data)
    tree = msgpack.unpackb(code_object.metadata_note)
    change(tree)
    note = msgpack.packb(tree)
    whole = struct.pack("<III", 7, len(note), 32) + b"AMDGPU\0\0" + note + bytes(-len(note) % 4)
    table = int.from_bytes(data[40:48], "little")
    header = find_section(data, ".note")
    moved = bytearray(data[:table] + whole + data[table:])
    start = header + len(whole)
    moved[40:48] = (table + len(whole)).to_bytes(8, "little")
    moved[start + 24 : start + 40] = struct.pack("<QQ", table, len(whole))
    return bytes(moved)


@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_decompression_bomb_is_refused_within_its_claim(tmp_path: Path, method: str) -> None:
    path = tmp_path / "bomb"
    bomb = bytearray(compress_bundle(bytes(256 << 20), 2, method))
    assert len(bomb) < 1 << 20
    # It claims the size of a small bundle and holds a quarter of a gigabyte.
    bomb[12:16] = (1 << 16).to_bytes(4, "little")
    path.write_bytes(bomb)

    with pytest.raises(CodeObjectError, match="does not end at 65536 bytes"):
        list(find_code_objects(path))


@pytest.mark.usefixtures("bounded_memory")
def test_compressed_bundle_with_an_absurd_claim_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claim"
    packed = zstandard.compress(bytes(100))
    head = b"CCOB" + struct.pack("<HHQQQ", 3, 1, 32 + len(packed), 1 << 50, 0)
    path.write_bytes(head + packed)

    with pytest.raises(CodeObjectError, match="above"):
        list(find_code_objects(path))
