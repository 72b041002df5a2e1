"""Round trip of code objects: recover, write as text, assemble, link, and compare with the
original."""

from __future__ import annotations

import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

from asmevo.codeobject.code_object import CodeObject, content_hash
from asmevo.codeobject.compare import Difference, compare
from asmevo.codeobject.containers import FoundObject
from asmevo.codeobject.data_section import data_sections
from asmevo.codeobject.elf import Symbol
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.symbol_name import writable_symbols
from asmevo.codeobject.target import MACHINES
from asmevo.codeobject.time_limit import OutOfTime, time_limit
from asmevo.errors import AsmevoError, MissingToolError

__all__ = ["CHECKED_TARGETS", "MASKED", "RoundTrip", "check", "limit_process", "target_of"]

CHECKED_TARGETS: Final = ("gfx90a", "gfx942", "gfx950")

MASKED: Final[tuple[tuple[str, str], ...]] = (
    (
        "addresses and file offsets of sections",
        "the linker lays the file out; symbols and pointers are compared by section and offset",
    ),
    (
        "kernel_code_entry_byte_offset of descriptors",
        "the distance from .rodata to .text is layout; the place in .text is compared",
    ),
    (
        "the 8 bytes of a relocated pointer",
        "the loader overwrites them; relocation type, symbol and target are compared",
    ),
    (
        ".dynsym, .dynstr, .hash, .gnu.hash, .dynamic, .rela.dyn, .relro_padding",
        "the linker makes them from symbols and relocations, which are compared one by one; of "
        ".got, too, what is not relocated is compared",
    ),
    (
        "ELF header beyond ABI and flags, program headers, section table",
        "they hold the layout; each loaded section is compared by name, size and contents",
    ),
    (
        "section flags beyond write, alloc, execute and TLS",
        "SHF_MERGE, SHF_STRINGS and others tell linkers what they may do; loaders ignore them",
    ),
    (
        "local .symtab symbols that share a name or begin with .L, _DYNAMIC",
        "the loader does not read .symtab; the assembler cannot define a name twice, and the "
        "linker adds _DYNAMIC",
    ),
    (
        ".comment, .debug_*, .AMDGPU.*",
        "not loaded: they name the tools and describe the source",
    ),
)
"""What a round trip does not compare, since the linker determines it or nothing loads it, and
why. Where `RoundTrip.has_same_image` holds, the sections that are loaded are the same in spite of
it, and only what is not loaded may differ."""

_MEMORY_BYTES: Final = 8 << 30
_MAX_DIFFERENCES: Final = 16
_LINE: Final = 400
# SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS.
_LOADED_FLAGS: Final = 0x407
_E_FLAGS: Final = slice(48, 52)
_IDENTITY: Final = slice(4, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """What came of one code object."""

    path: str
    place: str
    target: str
    trouble: str = ""
    """Empty when exact. `container`, `unreadable`, `not recovered` or `failed`;
    else the part that differs first: `header`, `.text`, `descriptor`, `metadata`, `symbol`, …"""
    details: tuple[str, ...] = ()
    """The differences, at most 16, or the one message."""
    kernels: int = 0
    instructions: int = 0
    kept_as_bytes: int = 0
    """Instructions and data words that stand as `.long` in the text."""
    zero_words: int = 0
    """How many of these are zeros, which fill the space between functions."""
    raw_descriptors: int = 0
    has_raw_metadata: bool = False
    has_same_image: bool = False
    """Every allocated section has the same address, offset and bytes."""
    seconds: float = 0.0
    sha256: str = ""
    """Of the object's bytes."""

    @property
    def is_exact(self) -> bool:
        """True when the rebuilt object differs in nothing but `MASKED`."""
        return not self.trouble

    @property
    def line(self) -> str:
        """One line that says what is wrong."""
        name = f"{self.path} [{self.place}]" if self.place else self.path
        more = f" (and {len(self.details) - 1} more)" if len(self.details) > 1 else ""
        detail = self.details[0] if self.details else ""
        # A difference begins with the part that it is of.
        shown = detail if detail.startswith(self.trouble) else f"{self.trouble}: {detail}"
        return f"{name}: {shown}{more}"

    def to_json(self) -> dict[str, Any]:
        """As `--json` and the results file show it."""
        return asdict(self) | {"is_exact": self.is_exact, "seconds": round(self.seconds, 3)}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> RoundTrip:
        """The result that `to_json` gave; TypeError or KeyError for anything else."""
        fields = {name: facts[name] for name in cls.__slots__}
        if len(fields) + 1 != len(facts) or not all(
            isinstance(fields[name], str) for name in ("path", "place", "trouble", "sha256")
        ):
            raise TypeError("not a result of a round trip")
        return cls(**fields | {"details": tuple(fields["details"])})


def target_of(data: bytes) -> str:
    """Processor by the ELF flags; `unknown` for one that has no name here."""
    return MACHINES.get(data[48], "unknown") if len(data) > 48 else "unknown"


def limit_process() -> None:
    """Prepare a process for objects that nobody vouches for: bounded memory, quiet ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > _MEMORY_BYTES:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    # Ctrl-C reaches the whole group; only the parent acts on it, and ends us with SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)


def check(found: FoundObject) -> RoundTrip:
    """Take one object through the round trip. Whatever it holds, the answer is a value.

    Raises:
        MissingToolError: There is no LLVM that serves it.
    """
    start = time.monotonic()
    steps: dict[str, Any] = {"trouble": "unreadable"}
    try:
        with time_limit():
            _take(found.data, steps)
    except MissingToolError:
        raise
    except AsmevoError as error:
        steps["details"] = (str(error)[:_LINE],)
    except (Exception, OutOfTime) as error:
        # MemoryError, RecursionError, or what no check of ours foresaw: this object's fault, and
        # the others are still to be checked.
        steps["trouble"] = "failed"
        steps["details"] = (" ".join(f"{type(error).__name__}: {error}".split())[:_LINE],)
    seconds = time.monotonic() - start
    return RoundTrip(
        path=str(found.path),
        place=found.place,
        target=target_of(found.data),
        seconds=seconds,
        sha256=content_hash(found.data),
        **steps,
    )


def _take(data: bytes, steps: dict[str, Any]) -> None:
    source = CodeObject.read(data)
    steps |= {"trouble": "not recovered", "kernels": len(source.kernels)}
    listing = recover(data)
    steps |= _count(listing)
    # Recovery ends with this: the listing's text, assembled and linked.
    rebuilt = listing.base
    differences = (*_headers(source, rebuilt), *compare(source, rebuilt))
    differences += (*_kinds(source, rebuilt), *_notes(source, rebuilt))
    differences += tuple(_static_symbols(source, rebuilt))
    steps["details"] = tuple(str(one)[:_LINE] for one in differences[:_MAX_DIFFERENCES])
    steps["trouble"] = differences[0].part if differences else ""
    steps["has_same_image"] = _image(source) == _image(rebuilt)


def _count(listing: Listing) -> dict[str, Any]:
    kept = [one for one in listing.instructions if one.needs_bytes or one.mnemonic == ".long"]
    return {
        "instructions": len(listing.instructions),
        "kept_as_bytes": len(kept),
        "zero_words": sum(not any(one.data) for one in kept),
        "raw_descriptors": len(listing.raw_descriptors),
        "has_raw_metadata": listing.has_raw_metadata,
    }


def _headers(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    for name, where in (("e_ident", _IDENTITY), ("e_flags", _E_FLAGS)):
        one, other = first.data[where], second.data[where]
        if one != other:
            detail = f"{one.hex()} and {other.hex()}"
            yield Difference(part="header", name=name, detail=detail)


def _kinds(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    """Whether a section is writable, code or zeroed, which `compare` leaves out."""
    ours, theirs = (
        [
            (one.name, one.type, one.flags & _LOADED_FLAGS)
            for one in (each.text, *data_sections(each))
        ]
        for each in (first, second)
    )
    for name, kind, flags in sorted({*ours} ^ {*theirs}):
        yield Difference(part="section", name=name, detail=f"{kind} with flags {flags:#x} in one")
    for name, count in Counter(name for name, *_ in ours).items():
        if count > 1:
            # `compare` goes by names and would see only one of them.
            yield Difference(part="section", name=name, detail=f"{count} sections of this name")


def _notes(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    """Notes beside the metadata (a build id) would be lost; `compare` sees only the metadata."""
    one, other = (
        b"".join(part.data for part in each.sections if part.type == "SHT_NOTE")
        for each in (first, second)
    )
    if one != other and first.metadata_note == second.metadata_note:
        detail = f"{len(one)} and {len(other)} bytes of notes"
        yield Difference(part="section", name=".note", detail=detail)


def _static_symbols(first: CodeObject, second: CodeObject) -> Iterator[Difference]:
    """Differences of `.symtab` in the symbols that text can define."""
    if not first.symbols:
        return
    others = {one.name: one for one in writable_symbols(second)}
    for symbol in writable_symbols(first):
        other = others.get(symbol.name)
        one_place = _place(symbol, first)
        other_place = _place(other, second) if other else None
        if one_place != other_place:
            detail = f"{one_place} and {other_place} in .symtab"
            yield Difference(part="symbol", name=symbol.name, detail=detail)


def _place(symbol: Symbol, code_object: CodeObject) -> tuple[object, ...]:
    facts = (symbol.size, symbol.type, symbol.binding, symbol.visibility)
    if symbol.section is None or symbol.section >= len(code_object.sections):
        return (None, symbol.value, *facts)
    section = code_object.sections[symbol.section]
    return (section.name, symbol.value - section.address, *facts)


def _image(code_object: CodeObject) -> list[tuple[object, ...]]:
    return [
        (
            *(one.name, one.type, one.flags & _LOADED_FLAGS),
            *(one.address, one.offset, one.size, one.data),
        )
        for one in code_object.sections
        # Newer linkers name the rest of the last relocated page; it has no bytes in the file.
        if one.is_allocated and one.name != ".relro_padding"
    ]


def _leave(number: int, frame: object) -> NoReturn:
    # An exception ends a running tool and removes its files.
    raise SystemExit(128 + number)
