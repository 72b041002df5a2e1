"""What a bundle says about itself: `manifest.json`.

The records check themselves; the manifest refuses records that contradict each other. Whether the
contents are right is the hashes' business.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from asmevo.capture.manifest_records import CaptureFacts, DispatchRecord, Policy
from asmevo.capture.manifest_regions import (
    MAX_KERNARG_BYTES,
    AddressRange,
    Coherence,
    Entry,
    MemoryPointer,
    PointerReference,
    Region,
    RegionKind,
    Storage,
)
from asmevo.capture.manifest_version_1 import upgrade
from asmevo.capture.record_fields import Fields
from asmevo.errors import BundleError

__all__ = [
    "SCHEMA_VERSION",
    "AddressRange",
    "CaptureFacts",
    "Coherence",
    "DispatchRecord",
    "Entry",
    "Manifest",
    "MemoryPointer",
    "PointerReference",
    "Policy",
    "Region",
    "RegionKind",
    "Storage",
]

# Raise when a reader of the old version would misunderstand a new file: a key added, removed or
# renamed, or a meaning changed.
SCHEMA_VERSION = 2

MAX_REGIONS = 4096
MAX_TOTAL_BYTES = 1 << 42
MAX_CODE_OBJECT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything a bundle says about its dispatch; the contents stand in the entries it names."""

    dispatch: DispatchRecord
    capture: CaptureFacts
    code_object: Entry
    kernarg: Entry
    regions: tuple[Region, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, each once, in file order."""
        found = {self.code_object.name: self.code_object, self.kernarg.name: self.kernarg}
        for region in self.regions:
            found.setdefault(region.before.name, region.before)
            if region.after is not None:
                found.setdefault(region.after.name, region.after)
        return tuple(found.values())

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "dispatch": self.dispatch.to_json(),
            "capture": self.capture.to_json(),
            "code_object": self.code_object.to_json(),
            "kernarg": self.kernarg.to_json(),
            "regions": [region.to_json() for region in self.regions],
        }

    @classmethod
    def from_json(cls, data: object) -> Manifest:
        """Read and check all of it."""
        version = data.get("schema_version") if isinstance(data, dict) else None
        if isinstance(data, dict) and type(version) is int and version == 1:
            data = upgrade(data)
        elif isinstance(data, dict) and (type(version) is not int or version != SCHEMA_VERSION):
            raise BundleError(
                f"manifest: schema_version is {version!r}, this asmevo reads 1 to {SCHEMA_VERSION}"
            )
        fields = Fields(data, "manifest", ("schema_version", *cls.__dataclass_fields__))
        manifest = cls(
            dispatch=DispatchRecord.from_json(fields.value("dispatch")),
            capture=CaptureFacts.from_json(fields.value("capture")),
            code_object=Entry.from_json(
                fields.value("code_object"), where="code_object", limit_bytes=MAX_CODE_OBJECT_BYTES
            ),
            kernarg=Entry.from_json(
                fields.value("kernarg"), where="kernarg", limit_bytes=MAX_KERNARG_BYTES
            ),
            regions=tuple(
                Region.from_json(item, index=index)
                for index, item in enumerate(fields.items("regions", MAX_REGIONS))
            ),
        )
        manifest.check()
        return manifest

    @classmethod
    def parse(cls, text: bytes) -> Manifest:
        """Parse the bytes of a `manifest.json`."""
        try:
            data = json.loads(
                text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
            )
        except (ValueError, RecursionError) as error:
            raise BundleError(f"manifest is not valid JSON: {error}") from error
        return cls.from_json(data)

    def check(self) -> None:
        """Check the records against each other.

        Raises:
            BundleError: Regions overlap, an entry name stands for two contents, sizes disagree.
        """
        if self.kernarg.size_bytes != self.dispatch.kernarg_bytes:
            raise BundleError(
                "manifest: the kernarg entry's size is not the dispatch's kernarg size"
            )
        if sum(region.size_bytes for region in self.regions) > MAX_TOTAL_BYTES:
            raise BundleError(f"manifest: the regions hold more than {MAX_TOTAL_BYTES} bytes")
        self._check_names()
        ordered = sorted(self.regions, key=lambda region: region.address)
        for low, high in pairwise(ordered):
            if low.address + low.size_bytes > high.address:
                raise BundleError(f"manifest: regions {low.index} and {high.index} overlap")
        self._check_memory_pointers()
        seen: set[int] = set()
        for region in self.regions:
            for pointer in region.pointers:
                if pointer.kernarg_offset + 8 > self.dispatch.kernarg_bytes:
                    raise BundleError(f"manifest: region {region.index}: pointer beyond kernarg")
                if pointer.kernarg_offset in seen:
                    raise BundleError(
                        f"manifest: kernarg offset {pointer.kernarg_offset} points into two regions"
                    )
                seen.add(pointer.kernarg_offset)

    def _check_memory_pointers(self) -> None:
        for region in self.regions:
            for pointer in region.memory_pointers:
                if pointer.region >= len(self.regions) or (
                    pointer.offset + 8 > self.regions[pointer.region].size_bytes
                ):
                    raise BundleError(
                        f"manifest: region {region.index}: a pointer to it stands in no region"
                    )

    def _check_names(self) -> None:
        used = [self.code_object, self.kernarg]
        for region in self.regions:
            used.append(region.before)
            if region.after is not None and region.after != region.before:
                used.append(region.after)
        names = [entry.name for entry in used]
        if len(set(names)) != len(names):
            raise BundleError("manifest: one entry name stands for two contents")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object has one key twice")
    return result
