"""The memory regions of a bundle's manifest, and the entries that hold contents.

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
    "MAX_NAME_BYTES",
    "AddressRange",
    "Coherence",
    "Entry",
    "MemoryPointer",
    "PointerReference",
    "Region",
    "RegionKind",
    "Storage",
]

MAX_KERNARG_BYTES = 1 << 16
MAX_REGION_BYTES = 1 << 40  # above any accelerator's memory
MAX_NAME_BYTES = 1 << 14  # mangled template names run to several KiB
MAX_MEMORY_POINTERS = 1 << 12  # of one region
ADDRESS_END = 1 << 64

_ENTRY_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}\.zst")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class RegionKind(StrEnum):
    """Where a region's memory lives."""

    DEVICE = "device"
    PINNED_HOST = "pinned_host"
    MANAGED = "managed"
    MODULE_GLOBAL = "module_global"
    PAGEABLE_HOST = "pageable_host"


class Coherence(StrEnum):
    """Whether writes are visible to others before the kernel ends (the allocation's flags)."""

    COARSE = "coarse"
    FINE = "fine"
    UNKNOWN = "unknown"


class Storage(StrEnum):
    """Where the content of an entry is."""

    INLINE = "inline"  # in the ZIP entry itself
    CHUNKS = "chunks"  # in the chunk store beside the bundle; the ZIP entry holds their hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One `*.zst` entry of the ZIP file; size and hash are those of the uncompressed content."""

    name: str
    size_bytes: int
    sha256: str
    storage: Storage = Storage.INLINE

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "name": self.name,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "storage": str(self.storage),
        }

    @classmethod
    def from_json(cls, data: object, *, where: str, limit_bytes: int) -> Entry:
        """Read and check; the content may have at most `limit_bytes`."""
        fields = Fields(data, where, tuple(cls.__dataclass_fields__))
        return cls(
            name=fields.text("name", pattern=_ENTRY_NAME),
            size_bytes=fields.integer("size_bytes", 0, limit_bytes),
            sha256=fields.text("sha256", pattern=_SHA256),
            storage=Storage(fields.choice("storage", tuple(Storage))),
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
class MemoryPointer:
    """A pointer that stands in memory: in which region, where there, and where it points."""

    region: int  # index of the region that holds the pointer
    offset: int
    region_offset: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "region": self.region,
            "offset": self.offset,
            "region_offset": self.region_offset,
        }

    @classmethod
    def from_json(cls, data: object, *, where: str, region_bytes: int) -> MemoryPointer:
        """Read and check; `Manifest` checks the region that it names."""
        fields = Fields(data, where, tuple(cls.__dataclass_fields__))
        return cls(
            region=fields.integer("region", 0, 1 << 16),
            offset=fields.integer("offset", 0, MAX_REGION_BYTES - 8),
            region_offset=fields.integer("region_offset", 0, region_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRange:
    """The allocation that a region is cut out of."""

    address: int
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"address": self.address, "size_bytes": self.size_bytes}

    @classmethod
    def from_json(cls, data: object, *, where: str) -> AddressRange:
        """Read and check."""
        fields = Fields(data, where, tuple(cls.__dataclass_fields__))
        size = fields.integer("size_bytes", 1, MAX_REGION_BYTES)
        return cls(address=fields.integer("address", 1, ADDRESS_END - size), size_bytes=size)


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
    coherence: Coherence = Coherence.UNKNOWN
    symbol: str | None = None  # of a module global: its name in the code object
    allocation: AddressRange | None = None  # that it is cut out of; None: not known
    memory_pointers: tuple[MemoryPointer, ...] = ()

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
            "coherence": str(self.coherence),
            "symbol": self.symbol,
            "allocation": self.allocation.to_json() if self.allocation else None,
            "memory_pointers": [pointer.to_json() for pointer in self.memory_pointers],
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
        allocation = None
        if fields.value("allocation") is not None:
            allocation = AddressRange.from_json(fields.value("allocation"), where=where)
        symbol = None
        if fields.value("symbol") is not None:
            symbol = fields.text("symbol", limit_bytes=MAX_NAME_BYTES)
        region = cls(
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
            coherence=Coherence(fields.choice("coherence", tuple(Coherence))),
            symbol=symbol,
            allocation=allocation,
            memory_pointers=tuple(
                MemoryPointer.from_json(item, where=where, region_bytes=size)
                for item in fields.items("memory_pointers", MAX_MEMORY_POINTERS)
            ),
        )
        region.check(where)
        return region

    def check(self, where: str) -> None:
        """Check the fields against each other.

        Raises:
            BundleError: It sticks out of its allocation, or a symbol names memory of another kind.
        """
        around = self.allocation
        if around is not None and not (
            around.address <= self.address
            and self.address + self.size_bytes <= around.address + around.size_bytes
        ):
            raise BundleError(f"manifest: {where}: it is not inside its allocation")
        if self.symbol is not None and self.kind is not RegionKind.MODULE_GLOBAL:
            raise BundleError(f"manifest: {where}: only a module global has a symbol")
