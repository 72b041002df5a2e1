"""The AMDGPU metadata note: msgpack to records, bounded and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from asmevo.errors import CodeObjectError

__all__ = [
    "NOTE_OWNER",
    "NOTE_TYPE",
    "KernelArgument",
    "KernelMetadata",
    "parse_metadata",
    "read_kernels",
]

NOTE_OWNER: Final = "AMDGPU"
NOTE_TYPE: Final = 32
_MAX_NOTE_BYTES: Final = 16 << 20
# A map or list of one byte takes sixty in memory; in text these bytes do not occur.
_MAX_COLLECTIONS: Final = 1 << 21
_COLLECTION_BYTES: Final = bytes((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
_MAX_KERNELS: Final = 1 << 14
_MAX_ARGUMENTS: Final = 4096
_MAX_NAME: Final = 1 << 16
_MAX_SIZE: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelArgument:
    """One kernel argument as the metadata describes it."""

    name: str
    offset: int
    size: int
    value_kind: str
    """`global_buffer`, `by_value`, `dynamic_shared_pointer`, `hidden_…`."""
    address_space: str
    access: str

    @property
    def is_hidden(self) -> bool:
        """True for arguments that the runtime fills, not the caller."""
        return self.value_kind.startswith("hidden_")

    @property
    def is_pointer(self) -> bool:
        """True when the metadata says that it points to global memory."""
        return self.value_kind == "global_buffer"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMetadata:
    """One entry of `amdhsa.kernels`."""

    name: str
    symbol: str
    arguments: tuple[KernelArgument, ...]
    kernarg_segment_size: int
    kernarg_segment_align: int
    group_segment_size: int
    private_segment_size: int
    sgpr_count: int
    vgpr_count: int
    agpr_count: int
    max_workgroup_size: int
    wavefront_size: int


def parse_metadata(note: bytes) -> dict[str, Any]:
    """Decode the note's msgpack map."""
    if len(note) > _MAX_NOTE_BYTES:
        raise CodeObjectError(f"metadata note of {len(note)} bytes is above {_MAX_NOTE_BYTES}")
    if len(note) - len(note.translate(None, _COLLECTION_BYTES)) > _MAX_COLLECTIONS:
        raise CodeObjectError(f"metadata of more than {_MAX_COLLECTIONS} maps and lists")
    try:
        tree = msgpack.unpackb(note, raw=False, strict_map_key=False)
    except Exception as error:
        # msgpack raises ValueError, its own classes and UnicodeDecodeError, by the kind of damage.
        raise CodeObjectError(f"damaged metadata note: {type(error).__name__}") from error
    if not isinstance(tree, dict):
        raise CodeObjectError("metadata note is not a map")
    return tree


def read_kernels(tree: Mapping[str, Any]) -> tuple[KernelMetadata, ...]:
    """Records of all kernels in the metadata's order."""
    kernels = tree.get("amdhsa.kernels", [])
    if not isinstance(kernels, list) or len(kernels) > _MAX_KERNELS:
        raise CodeObjectError("metadata: amdhsa.kernels is not a usable list")
    return tuple(_read_kernel(one) for one in kernels)


def _read_kernel(entry: object) -> KernelMetadata:
    if not isinstance(entry, dict):
        raise CodeObjectError("metadata: a kernel is not a map")
    symbol = _text(entry, ".symbol")
    arguments = entry.get(".args", [])
    if not isinstance(arguments, list) or len(arguments) > _MAX_ARGUMENTS:
        raise CodeObjectError(f"metadata: arguments of {symbol} are not a usable list")
    if not symbol.endswith(".kd"):
        raise CodeObjectError("metadata: a kernel without a .symbol that ends in .kd")
    return KernelMetadata(
        name=_text(entry, ".name") or symbol.removesuffix(".kd"),
        symbol=symbol,
        arguments=tuple(_read_argument(one) for one in arguments),
        kernarg_segment_size=_number(entry, ".kernarg_segment_size"),
        kernarg_segment_align=_number(entry, ".kernarg_segment_align"),
        group_segment_size=_number(entry, ".group_segment_fixed_size"),
        private_segment_size=_number(entry, ".private_segment_fixed_size"),
        sgpr_count=_number(entry, ".sgpr_count"),
        vgpr_count=_number(entry, ".vgpr_count"),
        agpr_count=_number(entry, ".agpr_count"),
        max_workgroup_size=_number(entry, ".max_flat_workgroup_size"),
        wavefront_size=_number(entry, ".wavefront_size") or 64,
    )


def _read_argument(entry: object) -> KernelArgument:
    if not isinstance(entry, dict):
        raise CodeObjectError("metadata: an argument is not a map")
    return KernelArgument(
        name=_text(entry, ".name"),
        offset=_number(entry, ".offset"),
        size=_number(entry, ".size"),
        value_kind=_text(entry, ".value_kind"),
        address_space=_text(entry, ".address_space"),
        access=_text(entry, ".access"),
    )


def _number(entry: Mapping[str, object], key: str) -> int:
    value = entry.get(key, 0)
    # Some hand-written objects hold numbers as floats or booleans; only exact non-negative integers
    # mean something.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_SIZE:
        raise CodeObjectError(f"metadata: {key} is not a usable number")
    return value


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or len(value) > _MAX_NAME or not value.isprintable():
        raise CodeObjectError(f"metadata: {key} is not usable text")
    return value
