"""Turns a captured record and the snapshots beside it into a bundle file."""

from __future__ import annotations

import bisect
import contextlib
import datetime
import fcntl
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import asmevo
from asmevo.capture.bundle import SUFFIX, Content, RegionContent, write_bundle
from asmevo.capture.chunk_store import ChunkStore
from asmevo.capture.control_block import (
    MAX_KERNARG_BYTES,
    MAX_MEMORY_POINTERS,
    MAX_REGIONS,
    Record,
)
from asmevo.capture.kernel_layout import find_variables
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.manifest import (
    AddressRange,
    CaptureFacts,
    Coherence,
    DispatchRecord,
    MemoryPointer,
    PointerReference,
    Policy,
    RegionKind,
)
from asmevo.capture.outcome import CaptureOptions
from asmevo.capture.target_process import TargetProcess
from asmevo.capture.touched import BundleRedactor, Touched, keep_touched
from asmevo.errors import CaptureError, UsageError

__all__ = ["BundleWriter"]

_CHUNK_BYTES = 1 << 20
# In the order of enum region_kind and enum coherence of capture_control.h.
_KINDS = (
    RegionKind.DEVICE,
    RegionKind.PINNED_HOST,
    RegionKind.MANAGED,
    RegionKind.PAGEABLE_HOST,
    RegionKind.MODULE_GLOBAL,
)
_COHERENCE = (Coherence.UNKNOWN, Coherence.COARSE, Coherence.FINE)
# Slots of the dispatch table that are hooked (hip_table.h).
_FUNCTIONS = {
    84: "hipExtLaunchKernel",
    166: "hipGraphLaunch",
    210: "hipLaunchByPtr",
    211: "hipLaunchCooperativeKernel",
    214: "hipLaunchKernel",
    306: "hipModuleLaunchCooperativeKernel",
    308: "hipModuleLaunchKernel",
    388: "hipExtModuleLaunchKernel",
    389: "hipHccModuleLaunchKernel",
    418: "hipLaunchCooperativeKernel_spt",
    419: "hipLaunchKernel_spt",
    474: "hipLaunchKernelExC",
    475: "hipDrvLaunchKernelEx",
}


class BundleWriter:
    """Writes the bundles of one capture into a folder."""

    def __init__(
        self,
        process: TargetProcess,
        options: CaptureOptions,
        redactor: BundleRedactor | None = None,
    ) -> None:
        """Nothing is written yet; the folder of `options` must exist."""
        self._options = options
        self._redactor = redactor
        self._process = process
        self._store = ChunkStore(options.output)
        self._streams: dict[int, int] = {0: 0}

    def write(
        self,
        record: Record,
        data: mmap.mmap,
        loaded: LoadedKernel,
        ordinal: int,
        *,
        policy: Policy | None = None,
        is_probe: bool = False,
    ) -> Path:
        """Write one bundle under a free name; the path.

        Args:
            record: The launch.
            data: The snapshots.
            loaded: Its kernel.
            ordinal: Which dispatch of this kernel it is.
            policy: What is kept of its memory, where it is not what was asked for.
            is_probe: It is to be looked at and written again: under a hidden name, all in one file.

        Raises:
            CaptureError: The record points outside the snapshots.
            BundleError: What it says is not a dispatch.
            UsageError: The file cannot be written.
        """
        kernarg_bytes = int(record.kernarg_bytes)
        if kernarg_bytes > MAX_KERNARG_BYTES or record.region_count > MAX_REGIONS:
            raise CaptureError("the target's control block is damaged")
        kernarg = bytes(record.kernarg[:kernarg_bytes])
        regions = _regions(record, data, kernarg, loaded)

        def write(path: Path, store: ChunkStore | None) -> None:
            write_bundle(
                path,
                dispatch=self._dispatch(record, loaded),
                capture=replace(
                    self._facts(record, ordinal), policy=policy or self._options.policy
                ),
                code_object=loaded.code_object.data,
                kernarg=kernarg,
                regions=regions,
                store=store,
            )

        return self._place(self._folder_of(record), loaded.kernel.name, write, is_probe=is_probe)

    def write_touched(self, probe: Path, touched: Touched, kernel: str) -> Path:
        """Write what a dispatch touches of a probe, under a free name; the path.

        Raises:
            UsageError: The file cannot be written.
            CaptureError: It cannot be redacted.
        """

        def write(path: Path, store: ChunkStore | None) -> None:
            keep_touched(probe, path, touched, store=store)

        return self._place(probe.parent, kernel, write)

    def _place(
        self,
        folder: Path,
        kernel: str,
        write: Callable[[Path, ChunkStore | None], None],
        *,
        is_probe: bool = False,
    ) -> Path:
        try:
            folder.mkdir(exist_ok=True)
            with _alone_in(folder):
                path = _free_path(folder, kernel)
                if is_probe:
                    path = path.with_name(f".{path.stem}.{self._process.pid}.probe")
                    write(path, None)
                elif self._redactor is None:
                    write(path, self._store)
                else:
                    self._write_redacted(path, write)
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
        return path

    def _write_redacted(self, path: Path, write: Callable[[Path, ChunkStore | None], None]) -> None:
        assert self._redactor is not None
        draft = path.with_name(f".{path.stem}.{self._process.pid}.draft")
        try:
            write(draft, None)
            self._redactor.redact(draft, path, self._store)
        finally:
            draft.unlink(missing_ok=True)

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
            is_cooperative=record.is_cooperative != 0,
            graph_node=None if record.graph_node < 0 else int(record.graph_node),
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
            device=min(max(int(record.device), 0), 1 << 16),
        )

    def _folder_of(self, record: Record) -> Path:
        output = self._options.output
        if not self._options.by_process:
            return output
        return output / f"{self._process.pid}-device{max(int(record.device), 0)}"


def _free_path(folder: Path, kernel: str) -> Path:
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", kernel)[:80].lstrip(".") or "kernel"
    for number in range(1 << 20):
        path = folder / f"{stem}-{number:03d}{SUFFIX}"
        if not path.exists():
            return path
    raise CaptureError(f"{folder} is full of bundles of {stem}")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other captures from taking the same free name: workers of a server share a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _regions(
    record: Record, data: mmap.mmap, kernarg: bytes, loaded: LoadedKernel
) -> list[RegionContent]:
    variables = find_variables(loaded.code_object)
    memory_pointers = _memory_pointers(record)
    regions = []
    for index, region in enumerate(record.regions[: record.region_count]):
        if region.kind >= len(_KINDS) or region.coherence >= len(_COHERENCE):
            raise CaptureError("the target's control block is damaged")
        kind, symbol = _KINDS[region.kind], None
        if kind is RegionKind.MODULE_GLOBAL:
            if region.variable >= len(variables):
                raise CaptureError("the target's control block is damaged")
            symbol = variables[region.variable].name
        allocation = None
        if region.allocation:
            allocation = AddressRange(address=region.allocation, size_bytes=region.allocation_size)
        regions.append(
            RegionContent(
                address=region.address,
                size_bytes=region.size,
                kind=kind,
                pointers=_kernarg_pointers(record, kernarg, index),
                before=_content(data, region.before, region.size),
                after=_content(data, region.after, region.size) if record.has_after else None,
                coherence=_COHERENCE[region.coherence],
                symbol=symbol,
                allocation=allocation,
                memory_pointers=memory_pointers.get(index, ()),
            )
        )
    return regions


def _kernarg_pointers(record: Record, kernarg: bytes, region: int) -> tuple[PointerReference, ...]:
    start = record.regions[region].address
    return tuple(
        PointerReference(
            kernarg_offset=offset,
            region_offset=struct.unpack_from("=Q", kernarg, offset)[0] - start,
        )
        for offset in range(0, len(kernarg) - 7, 4)
        if record.pointer_regions[offset // 4] == region
    )


def _memory_pointers(record: Record) -> dict[int, tuple[MemoryPointer, ...]]:
    """Pointers in memory, by the region that they lead to."""
    regions = sorted(
        (region.address, region.size, index)
        for index, region in enumerate(record.regions[: record.region_count])
    )
    starts = [start for start, _, _ in regions]

    def find(address: int) -> tuple[int, int] | None:
        start, size, index = regions[bisect.bisect_right(starts, address) - 1]
        return (index, address - start) if 0 <= address - start < size else None

    found: dict[int, list[MemoryPointer]] = {}
    count = min(record.memory_pointer_count, MAX_MEMORY_POINTERS) if regions else 0
    for pointer in record.memory_pointers[:count]:
        holder, target = find(pointer.at), find(pointer.value)
        if holder is not None and target is not None:
            found.setdefault(target[0], []).append(
                MemoryPointer(region=holder[0], offset=holder[1], region_offset=target[1])
            )
    return {index: tuple(pointers) for index, pointers in found.items()}


def _content(data: mmap.mmap, start: int, size: int) -> Content:
    if start + size > len(data):
        raise CaptureError("the target's control block is damaged")

    def read() -> Iterator[bytes]:
        for at in range(start, start + size, _CHUNK_BYTES):
            yield data[at : min(at + _CHUNK_BYTES, start + size)]

    return read
