"""Turns a captured record and the snapshots beside it into a bundle file."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import asmevo
from asmevo.capture.bundle import SUFFIX, Content, RegionContent, write_bundle
from asmevo.capture.control_block import MAX_KERNARG_BYTES, MAX_REGIONS, Record
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.manifest import CaptureFacts, DispatchRecord, PointerReference, RegionKind
from asmevo.capture.target_process import TargetProcess
from asmevo.errors import CaptureError, UsageError

__all__ = ["BundleWriter"]

_CHUNK_BYTES = 1 << 20
_KINDS = (
    RegionKind.DEVICE,
    RegionKind.PINNED_HOST,
    RegionKind.MANAGED,
    RegionKind.PAGEABLE_HOST,
)
# Slots of the dispatch table that are hooked (hip_table.h).
_FUNCTIONS = {
    306: "hipModuleLaunchCooperativeKernel",
    308: "hipModuleLaunchKernel",
    388: "hipExtModuleLaunchKernel",
    389: "hipHccModuleLaunchKernel",
    475: "hipDrvLaunchKernelEx",
}


class BundleWriter:
    """Writes the bundles of one capture into a folder."""

    def __init__(self, folder: Path, process: TargetProcess) -> None:
        """Nothing is written yet; the folder must exist."""
        self._folder = folder
        self._process = process
        self._streams: dict[int, int] = {0: 0}

    def write(self, record: Record, data: mmap.mmap, loaded: LoadedKernel, ordinal: int) -> Path:
        """Write one bundle under a free name; the path.

        Raises:
            CaptureError: The record points outside the snapshots.
            BundleError: What it says is not a dispatch.
            UsageError: The file cannot be written.
        """
        kernarg_bytes = int(record.kernarg_bytes)
        if kernarg_bytes > MAX_KERNARG_BYTES or record.region_count > MAX_REGIONS:
            raise CaptureError("the target's control block is damaged")
        kernarg = bytes(record.kernarg[:kernarg_bytes])
        regions = _regions(record, data, kernarg)
        try:
            with _alone_in(self._folder):
                path = self._free_path(loaded.kernel.name)
                write_bundle(
                    path,
                    dispatch=self._dispatch(record, loaded),
                    capture=self._facts(record, ordinal),
                    code_object=loaded.code_object.data,
                    kernarg=kernarg,
                    regions=regions,
                )
        except OSError as error:
            raise UsageError(f"{self._folder} cannot be written: {error.strerror}") from error
        return path

    def _dispatch(self, record: Record, loaded: LoadedKernel) -> DispatchRecord:
        stream = self._streams.setdefault(int(record.stream), len(self._streams))
        return DispatchRecord(
            kernel=loaded.kernel.name,
            arch=loaded.code_object.target_id,
            launch_function=_FUNCTIONS.get(record.launch_slot, "unknown"),
            grid=(record.grid[0], record.grid[1], record.grid[2]),
            block=(record.block[0], record.block[1], record.block[2]),
            dynamic_lds_bytes=int(record.dynamic_lds_bytes),
            kernarg_bytes=int(record.kernarg_bytes),
            stream=stream,
        )

    def _facts(self, record: Record, ordinal: int) -> CaptureFacts:
        now = datetime.datetime.now(datetime.UTC)
        return CaptureFacts(
            tool_version=asmevo.__version__,
            pid=self._process.pid,
            command=self._process.command,
            time_utc=now.isoformat(timespec="milliseconds"),
            ordinal=ordinal,
            pause_ms=record.pause_ns / 1e6,
        )

    def _free_path(self, kernel: str) -> Path:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", kernel)[:80].lstrip(".") or "kernel"
        for number in range(1 << 20):
            path = self._folder / f"{stem}-{number:03d}{SUFFIX}"
            if not path.exists():
                return path
        raise CaptureError(f"{self._folder} is full of bundles of {stem}")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other captures from taking the same free name: workers of a server share a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _regions(record: Record, data: mmap.mmap, kernarg: bytes) -> list[RegionContent]:
    words = struct.unpack(f"={len(kernarg) // 8}Q", kernarg[: len(kernarg) // 8 * 8])
    regions = []
    for index, region in enumerate(record.regions[: record.region_count]):
        pointers = tuple(
            PointerReference(kernarg_offset=8 * word, region_offset=value - region.address)
            for word, value in enumerate(words)
            if record.word_regions[word] == index
        )
        if region.kind >= len(_KINDS):
            raise CaptureError("the target's control block is damaged")
        regions.append(
            RegionContent(
                address=region.address,
                size_bytes=region.size,
                kind=_KINDS[region.kind],
                pointers=pointers,
                before=_content(data, region.before, region.size),
                after=_content(data, region.after, region.size),
            )
        )
    return regions


def _content(data: mmap.mmap, start: int, size: int) -> Content:
    if start + size > len(data):
        raise CaptureError("the target's control block is damaged")

    def read() -> Iterator[bytes]:
        for at in range(start, start + size, _CHUNK_BYTES):
            yield data[at : min(at + _CHUNK_BYTES, start + size)]

    return read
