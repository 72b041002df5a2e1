"""The records of a bundle's manifest: dispatch, memory regions, entries, where it was captured.

Every record refuses unknown and missing keys, wrong types and values out of bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from asmevo.capture.record_fields import Fields
from asmevo.errors import BundleError

__all__ = [
    "MAX_KERNARG_BYTES",
    "CaptureFacts",
    "DispatchRecord",
    "Entry",
    "PointerReference",
    "Region",
    "RegionKind",
]

MAX_KERNARG_BYTES = 1 << 16
MAX_REGION_BYTES = 1 << 40  # above any accelerator's memory
MAX_NAME_BYTES = 1 << 14  # mangled template names run to several KiB
ADDRESS_END = 1 << 64

_ENTRY_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}\.zst")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARCH = re.compile(r"gfx[0-9a-f]{3,5}(?::[a-z0-9]+[+-])*")


class RegionKind(StrEnum):
    """Where a region's memory lives."""

    DEVICE = "device"
    PINNED_HOST = "pinned_host"
    MANAGED = "managed"
    MODULE_GLOBAL = "module_global"
    PAGEABLE_HOST = "pageable_host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One `*.zst` entry of the ZIP file; size and hash are those of the uncompressed content."""

    name: str
    size_bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"name": self.name, "size_bytes": self.size_bytes, "sha256": self.sha256}

    @classmethod
    def from_json(cls, data: object, *, where: str, limit_bytes: int) -> Entry:
        """Read and check; the content may have at most `limit_bytes`."""
        fields = Fields(data, where, ("name", "size_bytes", "sha256"))
        return cls(
            name=fields.text("name", pattern=_ENTRY_NAME),
            size_bytes=fields.integer("size_bytes", 0, limit_bytes),
            sha256=fields.text("sha256", pattern=_SHA256),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRecord:
    """One kernel launch as the program asked for it."""

    kernel: str
    arch: str
    launch_function: str
    grid: tuple[int, int, int]  # in workgroups
    block: tuple[int, int, int]
    dynamic_lds_bytes: int
    kernarg_bytes: int  # explicit arguments only; the runtime rebuilds the hidden ones
    stream: int  # ordinal among the streams seen by this capture; 0 is the null stream

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "kernel": self.kernel,
            "arch": self.arch,
            "launch_function": self.launch_function,
            "grid": list(self.grid),
            "block": list(self.block),
            "dynamic_lds_bytes": self.dynamic_lds_bytes,
            "kernarg_bytes": self.kernarg_bytes,
            "stream": self.stream,
        }

    @classmethod
    def from_json(cls, data: object) -> DispatchRecord:
        """Read and check."""
        fields = Fields(data, "dispatch", tuple(cls.__dataclass_fields__))
        grid = fields.integers("grid", 1, (1 << 32) - 1)
        block = fields.integers("block", 1, 1 << 16)
        if len(grid) != 3 or len(block) != 3:
            raise BundleError("manifest: dispatch: grid and block need three numbers each")
        return cls(
            kernel=fields.text("kernel", limit_bytes=MAX_NAME_BYTES),
            arch=fields.text("arch", pattern=_ARCH),
            launch_function=fields.text("launch_function", limit_bytes=128),
            grid=(grid[0], grid[1], grid[2]),
            block=(block[0], block[1], block[2]),
            dynamic_lds_bytes=fields.integer("dynamic_lds_bytes", 0, 1 << 20),
            kernarg_bytes=fields.integer("kernarg_bytes", 0, MAX_KERNARG_BYTES),
            stream=fields.integer("stream", 0, 1 << 32),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerReference:
    """A pointer in the kernarg segment: where it stands and where in its region it points."""

    kernarg_offset: int
    region_offset: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"kernarg_offset": self.kernarg_offset, "region_offset": self.region_offset}

    @classmethod
    def from_json(cls, data: object, *, where: str, region_bytes: int) -> PointerReference:
        """Read and check; a pointer may stand at the end of its region, not beyond."""
        fields = Fields(data, where, ("kernarg_offset", "region_offset"))
        return cls(
            kernarg_offset=fields.integer("kernarg_offset", 0, MAX_KERNARG_BYTES - 8),
            region_offset=fields.integer("region_offset", 0, region_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A piece of memory the dispatch can reach, with its content before and, if recorded, after it.

    `after` names the same entry as `before` where the dispatch left the region as it was.
    """

    index: int
    address: int
    size_bytes: int
    kind: RegionKind
    pointers: tuple[PointerReference, ...]
    before: Entry
    after: Entry | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "index": self.index,
            "address": self.address,
            "size_bytes": self.size_bytes,
            "kind": str(self.kind),
            "pointers": [pointer.to_json() for pointer in self.pointers],
            "before": self.before.to_json(),
            "after": self.after.to_json() if self.after else None,
        }

    @classmethod
    def from_json(cls, data: object, *, index: int) -> Region:
        """Read and check one region on its own; `Manifest` checks them against each other."""
        where = f"region {index}"
        fields = Fields(data, where, tuple(cls.__dataclass_fields__))
        size = fields.integer("size_bytes", 1, MAX_REGION_BYTES)
        before = Entry.from_json(fields.value("before"), where=where, limit_bytes=size)
        after = None
        if fields.value("after") is not None:
            after = Entry.from_json(fields.value("after"), where=where, limit_bytes=size)
        for entry in (before, after):
            if entry is not None and entry.size_bytes != size:
                raise BundleError(
                    f"manifest: {where}: entry {entry.name} is not as long as its region"
                )
        return cls(
            index=fields.integer("index", index, index),
            address=fields.integer("address", 1, ADDRESS_END - size),
            size_bytes=size,
            kind=RegionKind(fields.choice("kind", tuple(RegionKind))),
            pointers=tuple(
                PointerReference.from_json(item, where=where, region_bytes=size)
                for item in fields.items("pointers", MAX_KERNARG_BYTES // 8)
            ),
            before=before,
            after=after,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFacts:
    """Where a bundle comes from."""

    tool_version: str
    pid: int
    command: tuple[str, ...]
    time_utc: str
    ordinal: int  # which dispatch of this kernel the capture took, from 0
    pause_ms: float  # how long the launching thread was held for the copies

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "tool_version": self.tool_version,
            "pid": self.pid,
            "command": list(self.command),
            "time_utc": self.time_utc,
            "ordinal": self.ordinal,
            "pause_ms": self.pause_ms,
        }

    @classmethod
    def from_json(cls, data: object) -> CaptureFacts:
        """Read and check."""
        fields = Fields(data, "capture", tuple(cls.__dataclass_fields__))
        return cls(
            tool_version=fields.text("tool_version", limit_bytes=64),
            pid=fields.integer("pid", 1, 1 << 31),
            command=fields.texts("command", count=1 << 12, limit_bytes=1 << 17),
            time_utc=fields.text("time_utc", limit_bytes=64),
            ordinal=fields.integer("ordinal", 0, 1 << 32),
            pause_ms=fields.number("pause_ms"),
        )
