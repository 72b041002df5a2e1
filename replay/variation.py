"""Other inputs than the captured ones, made from a bundle: other sizes, odd ones, special values.

A candidate may be right only for the shape that it was found with: a size turned into a constant, a
tail that the captured shape does not have, a mask dropped because it was always true. The launch of
a bundle is varied where its metadata shows how: integer arguments that look like sizes or strides
become smaller and odd, so that every access stays within the captured memory; float arguments and
regions of a known float type get other values. Whether a variation makes sense is for K0 to say:
where it faults or does not repeat itself, there is nothing to compare with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asmevo.capture.bundle import Bundle, Moment, RegionContent, open_bundle, write_bundle
from asmevo.capture.manifest import Region, RegionKind
from asmevo.codeobject.code_object import CodeObject, KernelArgument
from asmevo.errors import CodeObjectError, ReplayError
from asmevo.replay.comparison import RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.numeric import FLOATS, Bytes
from asmevo.replay.region_types import TypeHints, describe_regions, find_store_facts
from asmevo.replay.restore_chunks import read_chunks

__all__ = ["Variant", "write_variants"]

_MAX_SIZE = 1 << 30
_FLOAT_RANGE = (1e-12, 1e12)
_SEED = 0x0A5E

# Zeros, infinities, NaN, the largest and smallest numbers, and ordinary ones in between.
_SPECIAL = {
    ElementType.F64: (
        "<u8",
        (0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 1, 0x7FEF << 48, 0x10 << 48),
    ),
    ElementType.F32: (
        "<u4",
        (0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x7F7FFFFF, 0x00800000),
    ),
    ElementType.F16: ("<u2", (0, 1 << 15, 0x7C00, 0xFC00, 0x7E00, 1, 0x7BFF, 0x0400)),
    ElementType.BF16: ("<u2", (0, 1 << 15, 0x7F80, 0xFF80, 0x7FC0, 1, 0x7F7F, 0x0080)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A bundle that was made from another, and what is different in it."""

    path: Path
    changes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """New bytes in the kernarg segment, or special values in regions."""

    text: str
    kernarg: tuple[tuple[int, bytes], ...] = ()
    special: Mapping[int, ElementType] = field(default_factory=dict)
    """Regions that get special values, with the type of their elements."""


def write_variants(
    bundle_path: Path, folder: Path, *, limit: int, hints: TypeHints | None = None
) -> tuple[Variant, ...]:
    """Write at most `limit` varied bundles into a folder, the most telling ones first.

    Raises:
        BundleError: The bundle is damaged.
        ReplayError: Its code object does not fit its dispatch.
    """
    variants = []
    with open_bundle(bundle_path) as bundle:
        changes = list(_find_changes(bundle, hints or TypeHints()))
        for number, change in enumerate(changes[:limit]):
            path = folder / f"{bundle_path.stem}-variant-{number}.aeb"
            _write(bundle, path, change)
            variants.append(Variant(path=path, changes=change.text))
    return tuple(variants)


def _find_changes(bundle: Bundle, hints: TypeHints) -> Iterator[_Change]:
    """Every size on its own, first much smaller, then by one; then values."""
    dispatch = bundle.manifest.dispatch
    try:
        k0 = CodeObject.read(bundle.code_object())
        kernel = k0.kernel(dispatch.kernel)
    except CodeObjectError as error:
        raise ReplayError(f"{bundle.path}: its code object cannot be used: {error}") from error
    facts = describe_regions(bundle, k0, kernel, find_store_facts(k0, kernel), hints)
    scalars = list(_find_scalars(bundle, kernel.arguments))
    sizes = [(one, value) for one, value in scalars if isinstance(value, int)]
    for shrink in (_shrink_much, _shrink_by_one):
        for argument, value in sizes:
            if (smaller := shrink(value)) != value:
                yield _scalar_change(argument, value, smaller)
    yield from _float_changes(scalars)
    special = dict(_find_special(bundle.manifest.regions, facts))
    if special:
        numbers = ", ".join(map(str, special))
        yield _Change(text=f"special values in regions {numbers}", special=special)


def _find_scalars(
    bundle: Bundle, arguments: Sequence[KernelArgument]
) -> Iterator[tuple[KernelArgument, int | float]]:
    """Explicit arguments of four bytes that hold a size or a float; no part of a pointer."""
    kernarg = bundle.kernarg()
    taken = {
        pointer.kernarg_offset + dword
        for region in bundle.manifest.regions
        for pointer in region.pointers
        for dword in (0, 4)
    }
    for argument in arguments:
        is_plain = not argument.is_hidden and argument.value_kind == "by_value"
        if not is_plain or argument.size != 4 or argument.offset in taken:
            continue
        data = kernarg[argument.offset : argument.offset + 4]
        if len(data) == 4 and (value := _read_scalar(data)) is not None:
            yield argument, value


def _read_scalar(data: bytes) -> int | float | None:
    """By what the bits look like: metadata does not say. Flags (0, 1) and others are left alone."""
    integer, number = struct.unpack("<i", data)[0], struct.unpack("<f", data)[0]
    if 2 <= integer <= _MAX_SIZE and abs(number) < _FLOAT_RANGE[0]:
        return int(integer)
    return float(number) if _FLOAT_RANGE[0] < abs(number) < _FLOAT_RANGE[1] else None


def _shrink_much(value: int) -> int:
    return min(value, (value * 2 // 3) | 1)


def _shrink_by_one(value: int) -> int:
    return value - 1


def _scalar_change(argument: KernelArgument, value: int, smaller: int) -> _Change:
    name = argument.name or f"argument +{argument.offset}"
    data = struct.pack("<i", smaller)
    return _Change(text=f"{name} {smaller} instead of {value}", kernarg=((argument.offset, data),))


def _float_changes(
    scalars: Sequence[tuple[KernelArgument, int | float]],
) -> Iterator[_Change]:
    floats = [(one, value) for one, value in scalars if isinstance(value, float)]
    for argument, value in floats:
        other = float(np.float32(value * 0.75))
        name = argument.name or f"argument +{argument.offset}"
        yield _Change(
            text=f"{name} {other:g} instead of {value:g}",
            kernarg=((argument.offset, struct.pack("<f", other)),),
        )


def _find_special(
    regions: Sequence[Region], facts: Sequence[RegionFacts]
) -> Iterator[tuple[int, ElementType]]:
    """Regions that are declared to hold floats: what is only stored as such may hold anything."""
    for region, known in zip(regions, facts, strict=True):
        is_declared = known.type_source not in ("", "stores")
        is_plain = region.kind is not RegionKind.MODULE_GLOBAL and not region.memory_pointers
        if is_declared and is_plain and known.element_type in FLOATS:
            yield region.index, known.element_type


def _write(bundle: Bundle, path: Path, change: _Change) -> None:
    manifest = bundle.manifest
    kernarg = bytearray(bundle.kernarg())
    for offset, data in change.kernarg:
        kernarg[offset : offset + len(data)] = data
    write_bundle(
        path,
        dispatch=manifest.dispatch,
        capture=manifest.capture,
        code_object=bundle.code_object(),
        kernarg=bytes(kernarg),
        regions=[
            RegionContent(
                address=region.address,
                size_bytes=region.size_bytes,
                kind=region.kind,
                pointers=region.pointers,
                before=_content(bundle, region, change.special.get(region.index)),
                after=None,
                coherence=region.coherence,
                symbol=region.symbol,
                allocation=region.allocation,
                memory_pointers=region.memory_pointers,
            )
            for region in manifest.regions
        ],
    )


def _content(
    bundle: Bundle, region: Region, special: ElementType | None
) -> Callable[[], Iterable[bytes]]:
    def stream() -> Iterator[bytes]:
        random = np.random.default_rng(_SEED + region.index)
        for _, chunk in read_chunks(bundle.region_chunks(region, Moment.BEFORE)):
            yield (chunk if special is None else _mix_in(chunk, special, random)).tobytes()

    return stream


def _mix_in(content: Bytes, element_type: ElementType, random: np.random.Generator) -> Bytes:
    """A special value in one element of eight; the others stay."""
    word, values = _SPECIAL[element_type]
    whole = content.size // element_type.size_bytes * element_type.size_bytes
    mixed = content.copy()
    words = mixed[:whole].view(word)
    places = random.random(words.size) < 1 / 8
    words[places] = random.choice(np.array(values, dtype=word), int(places.sum()))
    return mixed
