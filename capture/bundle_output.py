"""Writes a bundle: one file, whole or not at all; large contents perhaps into a chunk store."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from asmevo.capture.chunk_store import ChunkStore
from asmevo.capture.entry_stream import compress_entry, is_same_content
from asmevo.capture.manifest import (
    AddressRange,
    CaptureFacts,
    Coherence,
    DispatchRecord,
    Entry,
    Manifest,
    MemoryPointer,
    PointerReference,
    Region,
    RegionKind,
)
from asmevo.errors import BundleError
from asmevo.files import open_whole

__all__ = ["MANIFEST_NAME", "MAX_MANIFEST_BYTES", "Content", "RegionContent", "write_bundle"]

MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20

# Smaller contents stay in the bundle: a file of its own would cost more than it saves.
_LEAST_CHUNKED_BYTES = 256 << 10

# Yields the content from its start, in pieces; called again when it must be read again.
Content = Callable[[], Iterable[bytes | memoryview]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionContent:
    """A region to be written: where it is and where its contents come from."""

    address: int
    size_bytes: int
    kind: RegionKind
    pointers: tuple[PointerReference, ...]
    before: Content
    after: Content | None
    coherence: Coherence = Coherence.UNKNOWN
    symbol: str | None = None
    allocation: AddressRange | None = None
    memory_pointers: tuple[MemoryPointer, ...] = ()


def write_bundle(
    path: Path,
    *,
    dispatch: DispatchRecord,
    capture: CaptureFacts,
    code_object: bytes,
    kernarg: bytes,
    regions: Iterable[RegionContent],
    store: ChunkStore | None = None,
) -> Manifest:
    """Write one bundle, whole or not at all.

    Args:
        path: The file.
        dispatch: What was launched.
        capture: Where it was captured.
        code_object: The code object the kernel comes from.
        kernarg: The explicit part of the kernarg segment.
        regions: The memory.
        store: Takes the large contents; it must be one that `find_stores(path)` names.

    Returns:
        The manifest as written.

    Raises:
        BundleError: The records contradict each other or a content is not as long as its region.
    """
    with (
        open_whole(path, mode=0o600) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
    ):
        output = _Output(archive, store)
        manifest = Manifest(
            dispatch=dispatch,
            capture=capture,
            code_object=output.write_entry("code_object.zst", lambda: [code_object]),
            kernarg=output.write_entry("kernarg.zst", lambda: [kernarg]),
            regions=tuple(
                output.write_region(index, region) for index, region in enumerate(regions)
            ),
        )
        text = json.dumps(manifest.to_json(), indent=1, allow_nan=False).encode()
        if len(text) > MAX_MANIFEST_BYTES:
            raise BundleError(f"{path}: the manifest would have {len(text)} bytes")
        Manifest.parse(text)  # what no reader would accept is not written
        archive.writestr(MANIFEST_NAME, text)
        if store is not None:
            store.sync()
    return manifest


class _Output:
    """Entries of one bundle under way."""

    def __init__(self, archive: zipfile.ZipFile, store: ChunkStore | None) -> None:
        self._archive = archive
        self._store = store

    def write_region(self, index: int, region: RegionContent) -> Region:
        name = f"region-{index:04d}"
        before = self._write_content(f"{name}.before.zst", region, region.before)
        after = None
        if region.after is not None:
            if is_same_content(region.before(), region.after()):
                after = before
            else:
                after = self._write_content(f"{name}.after.zst", region, region.after)
        return Region(
            index=index,
            address=region.address,
            size_bytes=region.size_bytes,
            kind=region.kind,
            pointers=region.pointers,
            before=before,
            after=after,
            coherence=region.coherence,
            symbol=region.symbol,
            allocation=region.allocation,
            memory_pointers=region.memory_pointers,
        )

    def write_entry(self, name: str, content: Content) -> Entry:
        with self._archive.open(name, "w", force_zip64=True) as file:
            size, sha256 = compress_entry(content(), file)
        return Entry(name=name, size_bytes=size, sha256=sha256)

    def _write_content(self, name: str, region: RegionContent, content: Content) -> Entry:
        if self._store is None or region.size_bytes < _LEAST_CHUNKED_BYTES:
            return self.write_entry(name, content)
        with self._archive.open(name, "w", force_zip64=True) as file:
            return self._store.write(name, region.address, content(), file)
