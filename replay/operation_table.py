"""The emulated device's operations and its decoder, as its library tells them.

The tables stand in C++ beside the functions that execute the operations; this module reads them for
the page that lists them (`docs/instructions.md`), for the proof of the decoder and for tests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from asmevo.native import emulator_library

__all__ = [
    "TARGETS",
    "Exactness",
    "Operation",
    "decode_words",
    "read_operations",
    "split_words",
]

TARGETS: Final = ("gfx90a", "gfx942", "gfx950")

# In the order of the enumerations in replay/emulator/isa/op_info.h.
_ENCODINGS: Final = (
    *("sop2", "sopk", "sop1", "sopc", "sopp", "smem", "vop1", "vop2", "vopc", "vop3", "vop3p"),
    *("ds", "mubuf", "mtbuf", "flat", "global", "scratch", "mimg"),
)
_TYPES: Final = (
    *("none", "b32", "f32", "i16", "f16", "pk_f16", "pk_i16", "bf16", "pk_bf16", "b64", "f64"),
    *("pk_f32", "b96", "b128", "b160", "b192", "b256", "b512", "b1024", "mask"),
)
_TEXT_BYTES: Final = 2048


class Exactness(StrEnum):
    """How an operation's result compares with a GPU's."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of the device's tables.

    A name has several rows where targets differ in what executes it or in its opcode.
    """

    name: str
    """Without encoding suffix: `v_add_f32`."""
    encoding: str
    opcode: int
    targets: tuple[str, ...]
    flags: int
    """`OpFlags` of replay/emulator/isa/op_info.h."""
    dst: tuple[str, str]
    src: tuple[str, str, str, str]
    exactness: Exactness
    inexact_targets: tuple[str, ...]
    """Where `exactness` holds; elsewhere the operation is exact."""
    note: str
    """Why it is not exact."""

    def exactness_on(self, target: str) -> Exactness:
        """How it compares on one of its targets."""
        return self.exactness if target in self.inexact_targets else Exactness.EXACT


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(emulator_library()))
    text, size = ctypes.c_char_p, ctypes.c_size_t
    library.asmevo_emulator_decode.argtypes = [text, ctypes.c_void_p, size, text, size]
    library.asmevo_emulator_split.argtypes = [text, ctypes.c_void_p, size, ctypes.c_void_p]
    library.asmevo_emulator_op.argtypes = [size, text, size]
    return library


def read_operations() -> Iterator[Operation]:
    """Every row of the tables, in their order."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    index = 0
    while _library().asmevo_emulator_op(index, text, len(text)) == 0:
        yield _parse(text.value.decode())
        index += 1


def _parse(text: str) -> Operation:
    line, note = text.split("\n")
    name, *fields = line.split()
    encoding, opcode, targets, flags, *types, exactness, inexact = map(int, fields)
    named = [_TYPES[number] for number in types]
    return Operation(
        name=name,
        encoding=_ENCODINGS[encoding],
        opcode=opcode,
        targets=_named_targets(targets),
        flags=flags,
        dst=(named[0], named[1]),
        src=(named[2], named[3], named[4], named[5]),
        exactness=tuple(Exactness)[exactness],
        inexact_targets=_named_targets(inexact),
        note=note,
    )


def _named_targets(mask: int) -> tuple[str, ...]:
    return tuple(target for i, target in enumerate(TARGETS) if mask >> i & 1)


def decode_words(target: str, data: bytes) -> tuple[int, str]:
    """Size in words and text of the first instruction; -1 and the reason when there is none."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    size = _library().asmevo_emulator_decode(target.encode(), data, len(data) // 4, text, len(text))
    return size, text.value.decode()


def split_words(target: str, data: bytes) -> bytes:
    """Sizes in words of the instructions of `data`, one after another.

    A word that does not decode counts as one word, with the top bit set.
    """
    sizes = ctypes.create_string_buffer(len(data) // 4 or 1)
    count = _library().asmevo_emulator_split(target.encode(), data, len(data) // 4, sizes)
    return sizes.raw[:count]
