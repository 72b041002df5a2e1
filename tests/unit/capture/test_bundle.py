from __future__ import annotations

import json
import random
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from asmevo.capture.bundle import Moment, RegionContent, open_bundle, write_bundle
from asmevo.capture.manifest import (
    AddressRange,
    CaptureFacts,
    Coherence,
    DispatchRecord,
    Manifest,
    MemoryPointer,
    PointerReference,
    RegionKind,
)
from asmevo.errors import BundleError

FIXTURES = Path(__file__).parents[2] / "fixtures"
CODE_OBJECT = b"\x7fELF" + bytes(range(256)) * 4
KERNARG = bytes(range(32))
BEFORE = b"\x11" * 5000
AFTER = b"\x22" * 5000

DISPATCH = DispatchRecord(
    kernel="softmax_kernel",
    arch="gfx942",
    launch_function="hipModuleLaunchKernel",
    grid=(4, 1, 1),
    block=(256, 1, 1),
    dynamic_lds_bytes=1024,
    kernarg_bytes=len(KERNARG),
    stream=0,
)
FACTS = CaptureFacts(
    tool_version="0.1.0",
    pid=1234,
    command=("python", "server.py"),
    time_utc="2026-11-29T17:00:00Z",
    ordinal=0,
    pause_ms=0.25,
)


def region(address: int, kernarg_offset: int, before: bytes, after: bytes | None) -> RegionContent:
    return RegionContent(
        address=address,
        size_bytes=len(before),
        kind=RegionKind.DEVICE,
        pointers=(PointerReference(kernarg_offset=kernarg_offset, region_offset=16),),
        before=lambda: [before[:4096], memoryview(before)[4096:]],
        after=None if after is None else lambda: [after[:4096], memoryview(after)[4096:]],
    )


def write(path: Path, **changes: Any) -> Manifest:
    arguments: dict[str, Any] = {
        "dispatch": DISPATCH,
        "capture": FACTS,
        "code_object": CODE_OBJECT,
        "kernarg": KERNARG,
        "regions": [
            region(0x7F0000000000, 0, BEFORE, AFTER),
            region(0x7F0000010000, 8, BEFORE, BEFORE),
        ],
    } | changes
    return write_bundle(path, **arguments)


def rewrite(
    source: Path, target: Path, edit: Callable[[str, bytes], bytes | None], **extra: bytes
) -> None:
    """Copy a bundle with its entries passed through `edit` (None drops one), adding `extra`."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = edit(info.filename, old.read(info))
            if data is not None:
                new.writestr(info.filename, data)
        for name, data in extra.items():
            new.writestr(name, data)


def with_manifest(source: Path, target: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    def edit_entry(name: str, data: bytes) -> bytes:
        if name != "manifest.json":
            return data
        manifest = json.loads(data)
        edit(manifest)
        return json.dumps(manifest).encode()

    rewrite(source, target, edit_entry)


def test_bundle_written_and_read_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.aeb"

    written = write(path)

    with open_bundle(path) as bundle:
        bundle.verify()
        assert bundle.manifest == written
        assert bundle.manifest.dispatch == DISPATCH
        assert bundle.manifest.capture == FACTS
        assert bundle.code_object() == CODE_OBJECT
        assert bundle.kernarg() == KERNARG
        first, second = bundle.manifest.regions
        assert bundle.region_bytes(first, Moment.BEFORE) == BEFORE
        assert bundle.region_bytes(first, Moment.AFTER) == AFTER
        assert bundle.region_bytes(second, Moment.AFTER) == BEFORE
        assert second.after == second.before  # stored once
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["a.aeb"]


def test_region_keeps_symbol_allocation_and_pointers_in_memory(tmp_path: Path) -> None:
    first = region(0x10000, 0, BEFORE, None)
    whole = replace(
        region(0x20000, 8, BEFORE, None),
        kind=RegionKind.MODULE_GLOBAL,
        symbol="table",
        coherence=Coherence.FINE,
        allocation=AddressRange(address=0x1F000, size_bytes=1 << 20),
        memory_pointers=(MemoryPointer(region=0, offset=8, region_offset=5000),),
    )
    write(tmp_path / "a.aeb", regions=[first, whole])

    with open_bundle(tmp_path / "a.aeb") as bundle:
        read = bundle.manifest.regions[1]

    for name in ("kind", "symbol", "coherence", "allocation", "memory_pointers"):
        assert getattr(read, name) == getattr(whole, name)


def test_bundle_of_version_1_is_read_as_before() -> None:
    with open_bundle(FIXTURES / "version_1.aeb") as bundle:
        bundle.verify()
        assert bundle.manifest.dispatch == DISPATCH
        assert bundle.manifest.capture == FACTS
        first, second = bundle.manifest.regions
        assert bundle.region_bytes(first, Moment.AFTER) == AFTER
        assert second.after == second.before
        assert (first.coherence, first.symbol, first.allocation) == (Coherence.UNKNOWN, None, None)


def test_bundle_is_a_plain_zip_of_zstd_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.aeb"
    write(path)

    with zipfile.ZipFile(path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        data = archive.read("code_object.zst")

    assert zstandard.ZstdDecompressor().decompressobj().decompress(data) == CODE_OBJECT


def test_region_without_after_reads_before_only(tmp_path: Path) -> None:
    path = tmp_path / "a.aeb"
    write(path, regions=[region(0x10000, 0, BEFORE, None)])

    with open_bundle(path) as bundle:
        only = bundle.manifest.regions[0]
        assert bundle.region_bytes(only, Moment.BEFORE) == BEFORE
        with pytest.raises(BundleError, match="no content after"):
            bundle.region_bytes(only, Moment.AFTER)


@pytest.mark.parametrize(
    "changes",
    [
        {"regions": [region(0x1000, 0, BEFORE, None), region(0x2000, 8, BEFORE, None)]},
        {"regions": [region(0x1000, 0, BEFORE, None), region(0x9000, 0, BEFORE, None)]},
        {"regions": [region(0x1000, 28, BEFORE, None)]},
        {"regions": [replace(region(0x1000, 0, BEFORE, None), size_bytes=5001)]},
        {"kernarg": KERNARG[:-1]},
        {"dispatch": replace(DISPATCH, grid=(0, 1, 1))},
    ],
    ids=["overlap", "one pointer twice", "pointer beyond", "wrong size", "kernarg", "grid"],
)
def test_write_of_contradicting_records_leaves_no_file(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(BundleError):
        write(tmp_path / "a.aeb", **changes)

    assert list(tmp_path.iterdir()) == []


def test_truncated_bundle_is_refused_at_every_length(tmp_path: Path) -> None:
    whole = tmp_path / "a.aeb"
    write(whole)
    data = whole.read_bytes()
    cut = tmp_path / "cut.aeb"

    for length in [*range(0, len(data), 37), len(data) - 1]:
        cut.write_bytes(data[:length])
        with pytest.raises(BundleError):
            open_bundle(cut)


def test_flipped_bytes_are_found_by_verify_or_change_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "a.aeb"
    manifest = write(whole)
    data = whole.read_bytes()
    damaged = tmp_path / "damaged.aeb"
    rng = random.Random(7)
    refused = 0

    for _ in range(400):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        damaged.write_bytes(changed)
        try:
            with open_bundle(damaged) as bundle:
                bundle.verify()
                assert bundle.manifest == manifest  # a date or an attribute of a ZIP entry
        except BundleError:
            refused += 1

    assert refused > 300


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\x7fELF" * 99, b"PK\x05\x06" + b"\0" * 18, b"PK\x03\x04" + b"\0" * 99]
)
def test_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.aeb"
    path.write_bytes(content)

    with pytest.raises(BundleError, match=r"foreign\.aeb: "):
        open_bundle(path)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.aeb", tmp_path):
        with pytest.raises(BundleError):
            open_bundle(path)


def test_zip_directory_with_too_many_entries_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "many.aeb"
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(9000):
            archive.writestr(str(index), b"")

    with pytest.raises(BundleError, match="directory is too large"):
        open_bundle(path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m.update(extra=1),
        lambda m: m.pop("kernarg"),
        lambda m: m.update(schema_version=3),
        lambda m: m.update(schema_version=True),
        lambda m: m.update(schema_version=1),  # with keys that version 1 does not have
        lambda m: m["regions"][0].update(symbol="table"),
        lambda m: m["regions"][0].update(allocation={"address": 0x1000, "size_bytes": 4096}),
        lambda m: m["regions"][0].update(
            memory_pointers=[{"region": 2, "offset": 0, "region_offset": 0}]
        ),
        lambda m: m["regions"][0]["before"].update(storage="elsewhere"),
        lambda m: m["dispatch"].update(is_cooperative=1),
        lambda m: m["capture"].update(pause_ms=float("nan")),
        lambda m: m["capture"].update(pause_ms=10**400),
        lambda m: m["dispatch"].update(grid=[1, 1]),
        lambda m: m["dispatch"].update(grid=[1, 1, True]),
        lambda m: m["dispatch"].update(kernel="\ud800"),
        lambda m: m["dispatch"].update(arch="gfx942; rm"),
        lambda m: m["dispatch"].update(kernarg_bytes=1 << 40),
        lambda m: m["regions"][1].update(address=m["regions"][0]["address"] + 1),
        lambda m: m["regions"][0].update(address=(1 << 64) - 1),
        lambda m: m["regions"][0].update(kind="gold"),
        lambda m: m["regions"][0]["before"].update(name="../../etc/passwd"),
        lambda m: m["regions"][0].update(before=m["code_object"]),
        lambda m: m["regions"].append(m["regions"][0]),
        lambda m: m["regions"].clear(),
    ],
)
def test_manifest_with_a_bad_value_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object]
) -> None:
    write(tmp_path / "a.aeb")
    with_manifest(tmp_path / "a.aeb", tmp_path / "b.aeb", edit)

    with pytest.raises(BundleError):
        open_bundle(tmp_path / "b.aeb")


@pytest.mark.parametrize("text", [b"[" * 100000, b'{"a": 1, "a": 2}', b"\xff", b"1" * 9999, b"[]"])
def test_manifest_that_is_odd_json_is_refused(text: bytes) -> None:
    with pytest.raises(BundleError):
        Manifest.parse(text)


def test_entry_that_expands_beyond_its_size_is_refused_early(tmp_path: Path) -> None:
    write(tmp_path / "a.aeb")
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    rewrite(
        tmp_path / "a.aeb",
        tmp_path / "b.aeb",
        lambda name, data: bomb if name == "region-0000.before.zst" else data,
    )

    with (
        open_bundle(tmp_path / "b.aeb") as bundle,
        pytest.raises(BundleError, match="more than its recorded size"),
    ):
        bundle.verify()


def test_foreign_and_missing_entries_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.aeb")
    rewrite(tmp_path / "a.aeb", tmp_path / "b.aeb", lambda _, data: data, extra=b"")
    rewrite(
        tmp_path / "a.aeb",
        tmp_path / "c.aeb",
        lambda name, data: None if name == "kernarg.zst" else data,
    )

    with pytest.raises(BundleError, match="foreign entry: 'extra'"):
        open_bundle(tmp_path / "b.aeb")
    with pytest.raises(BundleError, match=r"entry kernarg\.zst is missing"):
        open_bundle(tmp_path / "c.aeb")


def test_content_swapped_for_another_is_found_by_its_hash(tmp_path: Path) -> None:
    write(tmp_path / "a.aeb")
    other = zstandard.ZstdCompressor().compress(AFTER)
    rewrite(
        tmp_path / "a.aeb",
        tmp_path / "b.aeb",
        lambda name, data: other if name == "region-0000.before.zst" else data,
    )

    with open_bundle(tmp_path / "b.aeb") as bundle, pytest.raises(BundleError, match="SHA-256"):
        bundle.verify()
