"""What two code objects differ in, as far as a kernel or the runtime can see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.data_section import data_sections, place_of
from asmevo.codeobject.elf import Section, Symbol

__all__ = ["Difference", "compare"]

_ENTRY_BYTES = slice(16, 24)


class _Missing:
    """Equal to no value that metadata can hold."""

    def __str__(self) -> str:
        return "nothing"


_MISSING = _Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference; `str()` gives one line."""

    part: str
    """`header`, `.text`, `descriptor`, `metadata`, `symbol`, `pointer` or `section`."""
    name: str
    """Kernel, symbol, section or path in the metadata."""
    detail: str
    is_move: bool = False
    """True for a code symbol, or a pointer into code, that differs only in its place or size."""

    def __str__(self) -> str:
        """`part name: detail`."""
        return (
            f"{self.part} {self.name}: {self.detail}"
            if self.name
            else f"{self.part}: {self.detail}"
        )


def compare(first: CodeObject, second: CodeObject) -> tuple[Difference, ...]:
    """Compare target, code, descriptors, metadata, symbols and data; first what weighs most."""
    return tuple(
        difference
        for part in (_headers, _texts, _descriptors, _notes, _symbols, _relocations, _sections)
        for difference in part(first, second)
    )


def _headers(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    for name in ("target_id", "xnack", "sramecc", "version"):
        one, other = getattr(first, name), getattr(second, name)
        if one != other:
            yield Difference(part="header", name=name, detail=f"{one} and {other}")


def _texts(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    yield from _bytes(".text", "", first.text.data, second.text.data)


def _descriptors(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    others = {one.symbol: one for one in second.kernels}
    for kernel in first.kernels:
        other = others.pop(kernel.symbol, None)
        if other is None:
            yield Difference(part="descriptor", name=kernel.name, detail="only in the first object")
            continue
        if kernel.entry_offset != other.entry_offset:
            detail = f"entry at .text+{kernel.entry_offset:#x} and .text+{other.entry_offset:#x}"
            yield Difference(part="descriptor", name=kernel.name, detail=detail)
        yield from _bytes(
            "descriptor",
            kernel.name,
            _without_entry(kernel.descriptor),
            _without_entry(other.descriptor),
        )
    for kernel in others.values():
        yield Difference(part="descriptor", name=kernel.name, detail="only in the second object")


def _without_entry(descriptor: bytes) -> bytes:
    # The distance to the code changes with the layout of the file; the entry itself is compared.
    return descriptor[: _ENTRY_BYTES.start] + bytes(8) + descriptor[_ENTRY_BYTES.stop :]


def _notes(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    if first.metadata_note == second.metadata_note:
        return
    differences = list(_trees("", first.metadata, second.metadata))
    yield from differences or [
        Difference(part="metadata", name="", detail="same meaning in another msgpack encoding")
    ]


def _trees(path: str, first: object, second: object) -> Iterator[Difference]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys((*first, *second)):
            yield from _trees(f"{path}/{key}", first.get(key, _MISSING), second.get(key, _MISSING))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from _trees(f"{path}/{number}", one, other)
    elif type(first) is not type(second) or first != second:
        yield Difference(
            part="metadata", name=path, detail=f"{str(first)[:60]} and {str(second)[:60]}"
        )


def _symbols(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    ours, theirs = _placed_symbols(first), _placed_symbols(second)
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if one == other:
            continue
        is_move = bool(one and other and one[0] == other[0] == ".text" and one[3:] == other[3:])
        detail = f"{one} and {other}"
        yield Difference(part="symbol", name=name, detail=detail, is_move=is_move)


def _placed_symbols(code_object: CodeObject) -> dict[str, tuple[object, ...]]:
    return {one.name: _placed(one, code_object) for one in code_object.dynamic_symbols}


def _placed(symbol: Symbol, code_object: CodeObject) -> tuple[object, ...]:
    # Offsets in named sections: addresses depend on the layout of the file.
    facts = (symbol.size, symbol.type, symbol.binding, symbol.visibility)
    if symbol.section is None or symbol.section >= len(code_object.sections):
        return ("absolute" if symbol.is_absolute else "undefined", symbol.value, *facts)
    section = code_object.sections[symbol.section]
    return (section.name, symbol.value - section.address, *facts)


def _relocations(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    ours, theirs = _pointers(first), _pointers(second)
    for place in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(place), theirs.get(place)
        if one != other:
            is_move = bool(one and other and one[:2] == other[:2] and one[1] == ".text")
            name = f"{place[0]}+{place[1]:#x}"
            detail = f"{one} and {other}"
            yield Difference(part="pointer", name=name, detail=detail, is_move=is_move)


def _pointers(code_object: CodeObject) -> dict[tuple[str, int], tuple[object, ...]]:
    """Relocated places, and by what: relocation type, section or symbol, offset."""
    pointers: dict[tuple[str, int], tuple[object, ...]] = {}
    for one in code_object.relocations:
        place = place_of(code_object, one.address)
        goal = (one.symbol, one.addend) if one.symbol else place_of(code_object, one.addend)
        pointers[place] = (one.type, *goal)
    return pointers


def _sections(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    ours, theirs = (
        {one.name: one for one in (*data_sections(each), *_offset_table(each))}
        for each in (first, second)
    )
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None:
            where = "second" if one is None else "first"
            yield Difference(part="section", name=name, detail=f"only in the {where} object")
        elif one.size != other.size:
            detail = f"{one.size} and {other.size} bytes"
            yield Difference(part="section", name=name, detail=detail)
        else:
            yield from _bytes("section", name, _frozen(first, one), _frozen(second, other))


def _offset_table(code_object: CodeObject) -> tuple[Section, ...]:
    """The linker makes it, but what is not relocated in it is all that code reads there."""
    got = code_object.section(".got")
    return (got,) if got is not None and got.is_allocated else ()


def _frozen(code_object: CodeObject, section: Section) -> bytes:
    """Contents without the descriptors, which are compared by themselves, and without relocated
    pointers."""
    data = bytearray(section.data)
    spans = [(one.descriptor_address, 64) for one in code_object.kernels]
    spans += [(one.address, 8) for one in code_object.relocations]
    for address, size in spans:
        if data and section.holds(address, size):
            start = address - section.address
            data[start : start + size] = bytes(size)
    return bytes(data)


def _bytes(part: str, name: str, first: bytes, second: bytes) -> Iterator[Difference]:
    if first == second:
        return
    if len(first) != len(second):
        yield Difference(part=part, name=name, detail=f"{len(first)} and {len(second)} bytes")
        return
    at = next(place for place, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    one, other = first[at : at + 4].hex(), second[at : at + 4].hex()
    yield Difference(part=part, name=name, detail=f"first at +{at:#x}: {one} and {other}")
