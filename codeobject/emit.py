"""Writes a listing as assembly text, remembering which line holds which instruction."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from asmevo.codeobject.branch import END_LABEL, label_of
from asmevo.codeobject.data_section import emit_data_sections
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.listing import Listing, TextSymbol
from asmevo.codeobject.metadata_text import emit_metadata
from asmevo.codeobject.pc_relative import undefined_symbols
from asmevo.codeobject.resource_fields import expect_object
from asmevo.codeobject.symbol_name import quote_symbol

__all__ = ["Emitted", "emit", "emit_code"]

_PRIVATE: Final = ".L"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """Assembly text and the line numbers, from 1, of its instructions."""

    text: str
    lines: dict[int, int]
    """Line number to instruction id."""


def emit(listing: Listing, *, measured: bool = False) -> Emitted:
    """Write the whole object.

    With `measured`, a section `.asmevo.sizes` holds the offset of every instruction as 32-bit
    words, to find those that the assembler encodes in another size.
    """
    source = expect_object(listing)
    if source is not listing.source:
        listing = dataclasses.replace(listing, source=source)
    lines: list[str] = []
    numbers: dict[int, int] = {}
    lines += _header(listing)
    starts, ends = _place_symbols(listing)
    shown = _written_visibilities(listing)
    targets = {one.target for one in listing.instructions}
    for one in listing.instructions:
        for symbol in starts[one.id]:
            lines += _symbol_start(symbol, shown)
        if one.id in targets:
            lines.append(f"{label_of(one.id)}:")
        if measured:
            lines.append(f".Lm{one.id}:")
        lines.append("\t" + _instruction_line(one))
        numbers[len(lines)] = one.id
        lines += [_symbol_end(symbol) for symbol in ends[one.id]]
    for symbol in starts[None]:
        lines += _symbol_start(symbol, shown)
    lines.append(f"{END_LABEL}:")
    lines += emit_data_sections(listing)
    lines += emit_metadata(source, raw=listing.has_raw_metadata)
    if measured:
        lines.append('\t.section .asmevo.sizes,"",@progbits')
        lines += [f"\t.long .Lm{one.id}-.Ltext" for one in listing.instructions]
    return Emitted(text="\n".join(lines) + "\n", lines=numbers)


def emit_code(listing: Listing) -> str:
    """The instructions alone, with their offsets, of an object that no text gives back."""
    targets = {one.target for one in listing.instructions}
    entries = {one.first_id: ascii(one.name) for one in listing.kernels}
    lines = ["; cannot be rebuilt from this text: edits of this object are patched in place"]
    for one in listing.instructions:
        if one.id in entries:
            lines.append(f"; kernel {entries[one.id]}")
        if one.id in entries or one.id in targets:
            lines.append(f"; .text+{one.offset:#x}" if one.offset >= 0 else "; added")
        if one.id in targets:
            lines.append(f"{label_of(one.id)}:")
        lines.append("\t" + _instruction_line(one))
    return "\n".join(lines) + "\n"


def _header(listing: Listing) -> Iterator[str]:
    source = listing.source
    yield f'\t.amdgcn_target "amdgcn-amd-amdhsa--{listing.arch}"'
    yield f"\t.amdhsa_code_object_version {source.version}"
    # The first mention fixes the order of the symbol table, and with it the hash tables.
    for symbol in source.symbols or source.dynamic_symbols:
        if symbol.binding in ("STB_GLOBAL", "STB_WEAK") and symbol.section:
            word = ".globl" if symbol.binding == "STB_GLOBAL" else ".weak"
            yield f"\t{word} {quote_symbol(symbol.name)}"
    for symbol in source.symbols:
        if symbol.is_absolute and symbol.binding == "STB_GLOBAL":
            yield f"\t.globl {quote_symbol(symbol.name)}"
            yield f"\t.set {quote_symbol(symbol.name)}, {symbol.value:#x}"
    for name in undefined_symbols(source).values():
        yield f"\t.weak {quote_symbol(name)}"
        yield f"\t.hidden {quote_symbol(name)}"
    yield "\t.text"
    yield f"\t.p2align {(source.text.alignment or 1).bit_length() - 1}"
    yield ".Ltext:"


def _place_symbols(
    listing: Listing,
) -> tuple[dict[int | None, list[TextSymbol]], dict[int | None, list[TextSymbol]]]:
    starts: dict[int | None, list[TextSymbol]] = defaultdict(list)
    ends: dict[int | None, list[TextSymbol]] = defaultdict(list)
    for symbol in listing.symbols:
        starts[symbol.first_id].append(symbol)
        if symbol.last_id is not None:
            ends[symbol.last_id].append(symbol)
    return starts, ends


def _written_visibilities(listing: Listing) -> dict[str, str]:
    """Visibility of each text symbol, as far as a directive has to say it.

    LLVM makes a kernel's code symbol protected by itself, but gives its descriptor the visibility
    that the code symbol had before (AMDGPUTargetStreamer): so only what the descriptor has may be
    written.
    """
    source = listing.source
    every = {one.name: one.visibility for one in (*source.symbols, *source.dynamic_symbols)}
    raw = {one.symbol for one in listing.kernels if one.name in listing.raw_descriptors}
    visibilities = {}
    for symbol in listing.symbols:
        descriptor = f"{symbol.name}.kd"
        own = descriptor in raw or descriptor not in every
        visibilities[symbol.name] = symbol.visibility if own else every[descriptor]
    return visibilities


def _symbol_start(symbol: TextSymbol, shown: dict[str, str]) -> Iterator[str]:
    name = quote_symbol(symbol.name)
    if symbol.alignment > 4:
        yield f"\t.p2align {symbol.alignment.bit_length() - 1}"
    if not symbol.name.startswith(_PRIVATE):
        if symbol.type in ("STT_FUNC", "STT_OBJECT"):
            yield f"\t.type {name},@{symbol.type[4:].lower().replace('func', 'function')}"
        visibility = shown[symbol.name]
        if visibility in ("STV_PROTECTED", "STV_HIDDEN"):
            yield f"\t.{visibility[4:].lower()} {name}"
    yield f"{name}:"


def _symbol_end(symbol: TextSymbol) -> str:
    name = quote_symbol(symbol.name)
    return f"\t.size {name}, .-{name}"


def _instruction_line(one: Instruction) -> str:
    if not one.needs_bytes:
        return one.text
    words = (one.data[at : at + 4] for at in range(0, len(one.data), 4))
    shown = ", ".join(f"{int.from_bytes(word, 'little'):#010x}" for word in words)
    return f".long {shown} ; {re.sub(r'[^ -~]', '?', one.text)}"
