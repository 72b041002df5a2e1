"""Code objects are found in all that ships them, and damage gives one line."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from asmevo.codeobject.containers import FoundObject, find_code_objects, find_files
from asmevo.errors import CodeObjectError, UsageError

HOST = "host-x86_64-unknown-linux-gnu-"
GFX942 = "hipv4-amdgcn-amd-amdhsa--gfx942"
GFX90A = "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"


def make_bundle(entries: Sequence[tuple[str, bytes]]) -> bytes:
    """An uncompressed offload bundle, laid out as clang-offload-bundler does."""
    names = [name.encode() for name, _ in entries]
    at = 32 + sum(24 + len(name) for name in names)
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    body = b""
    for name, (_, data) in zip(names, entries, strict=True):
        head += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name
        body += data
    return head + body


def compress_bundle(bundle: bytes, version: int, method: str) -> bytes:
    """A compressed offload bundle (`CCOB`)."""
    if method == "zstd":
        packed, number = zstandard.ZstdCompressor().compress(bundle), 1
    else:
        packed, number = zlib.compress(bundle), 0
    sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
    header = 8 + struct.calcsize(sizes) + 8
    values = (len(bundle),) if version == 1 else (header + len(packed), len(bundle))
    return (
        b"CCOB"
        + struct.pack("<HH", version, number)
        + struct.pack(sizes, *values)
        + bytes(8)
        + packed
    )


def make_host_library(fat: bytes, *, section: bytes = b".hip_fatbin") -> bytes:
    """The least of an x86-64 ELF file: one section and the section names."""
    names = b"\0" + section + b"\0.shstrtab\0"
    names_at = 64 + len(fat)
    table = names_at + len(names)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 2, 0, 64, len(fat), 0, 0, 4096, 0)
    name = names.index(b".shstrtab")
    sections += struct.pack("<IIQQQQIIQQ", name, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    return header + fat + names + sections


def find(folder: Path, data: bytes) -> list[FoundObject]:
    path = folder / "file"
    path.write_bytes(data)
    return list(find_code_objects(path))


@pytest.fixture
def scale(build_object: Any) -> bytes:
    return bytes(build_object("scale"))


def test_code_object_as_a_file_is_itself(tmp_path: Path, scale: bytes) -> None:
    found = find(tmp_path, scale)

    assert [(one.place, one.data) for one in found] == [("", scale)]
    assert found[0].path == tmp_path / "file"


def test_bundle_gives_its_device_entries(tmp_path: Path, scale: bytes) -> None:
    other = scale + b"tail"
    found = find(tmp_path, make_bundle([(HOST, b""), (GFX90A, scale), (GFX942, other)]))

    assert [one.data for one in found] == [scale, other]
    assert [one.place.partition(", ")[2] for one in found] == [GFX90A, GFX942]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_compressed_bundles_in_a_row_are_all_found(
    tmp_path: Path, scale: bytes, version: int, method: str
) -> None:
    one = compress_bundle(make_bundle([(HOST, b""), (GFX942, scale)]), version, method)
    aligned = one.ljust(-(-len(one) // 4096) * 4096, b"\0")

    found = find(tmp_path, aligned + one + bytes(100))

    assert [one.data for one in found] == [scale, scale]
    assert found[1].place.startswith(f"bundle at {len(aligned):#x}")


def test_host_library_gives_the_bundles_of_its_section(tmp_path: Path, scale: bytes) -> None:
    bundle = make_bundle([(HOST, b""), (GFX942, scale)])
    packed = compress_bundle(make_bundle([(GFX90A, scale)]), 3, "zstd")

    found = find(tmp_path, make_host_library(bundle + bytes(4096) + packed))

    assert [one.place.rpartition("--")[2] for one in found] == ["gfx942", "gfx90a:xnack-"]
    assert all(one.data == scale for one in found)


@pytest.mark.skipif(not shutil.which("clang-offload-bundler-22"), reason="needs LLVM's bundler")
@pytest.mark.parametrize("options", [(), ("-compress",)])
def test_bundle_of_llvm_is_read(tmp_path: Path, scale: bytes, options: tuple[str, ...]) -> None:
    kernel, empty, output = (tmp_path / name for name in ("kernel", "empty", "bundle"))
    kernel.write_bytes(scale)
    empty.touch()
    command = ("clang-offload-bundler-22", "-type=o", f"-targets={HOST},{GFX942}", *options)
    files = (f"-input={empty}", f"-input={kernel}", f"-output={output}")
    subprocess.run((*command, *files), check=True, timeout=60)

    assert [one.data for one in find_code_objects(output)] == [scale]


def test_folder_is_searched_by_contents(tmp_path: Path, scale: bytes) -> None:
    cache = tmp_path / "cache" / "ABCDEF"
    cache.mkdir(parents=True)
    library = make_host_library(make_bundle([(GFX942, scale)]))
    files = {
        "kernel.hsaco": scale,
        "damaged.co": b"?",
        "lib.so": library,
        "launcher.so": make_host_library(b"", section=b".text"),
        "kernel.json": b"{}",
        "unnamed": scale,
    }
    for name, data in files.items():
        (cache / name).write_bytes(data)
    os.mkfifo(cache / "pipe")

    found = find_files([tmp_path, cache / "kernel.hsaco"])

    assert [one.name for one in found] == ["damaged.co", "kernel.hsaco", "lib.so", "unnamed"]


def test_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        find_files([tmp_path / "none"])


def test_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="regular file"):
        list(find_code_objects(tmp_path / "pipe"))


def _bundle_header(count: int, *numbers: int) -> bytes:
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack(f"<{1 + len(numbers)}Q", count, *numbers)


_BOMB = zstandard.ZstdCompressor().compress(bytes(64 << 20))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither"),
        (b"text", "neither"),
        (make_host_library(b"", section=b".data"), "without a .hip_fatbin"),
        (make_host_library(b"\0\0junk"), "no offload bundle at 0x2"),
        (make_host_library(b"")[:-32], "cut"),
        (_bundle_header(1 << 60), "1152921504606846976 entries"),
        (_bundle_header(1, 0, 1 << 63, 0), "cut"),
        (_bundle_header(1, 0, 0, 1 << 40), "target id of"),
        (_bundle_header(3, *(0, 60, 0) * 3), "overlap"),
        (b"CCOB" + struct.pack("<HH", 9, 1) + bytes(24), "version 9"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 7, 40, 8, 0) + bytes(8), "unknown method 7"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 1, 1 << 60, 8, 0), "claims"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 1, 40, 1 << 60, 0) + bytes(8), "bundle of"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 1, 40, 8, 0) + b"damaged!", "damaged"),
        (b"CCOB" + struct.pack("<HHQQQ", 3, 0, 40, 8, 0) + b"damaged!", "damaged"),
        (b"CCOB" + struct.pack("<HHII", 1, 1, 99, 0) + bytes(4) + _BOMB, "99 bytes"),
        (compress_bundle(bytes(99), 3, "zstd"), "something else"),
        (compress_bundle(make_bundle([(GFX942, b"x")]), 2, "zstd")[:-4], "claims"),
    ],
)
def test_damaged_container_gives_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message) as caught:
        find(tmp_path, data)

    assert "\n" not in str(caught.value)


def test_objects_before_the_damage_are_given(tmp_path: Path, scale: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(make_bundle([(GFX942, scale)]) + b"junk")
    found = find_code_objects(path)

    assert next(found).data == scale
    with pytest.raises(CodeObjectError, match="no offload bundle"):
        next(found)
