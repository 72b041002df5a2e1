"""The emulated device's decoder and operation tables, through the library's C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from asmevo.native import emulator_library

ENCODINGS = [
    "sop2",
    "sopk",
    "sop1",
    "sopc",
    "sopp",
    "smem",
    "vop1",
    "vop2",
    "vopc",
    "vop3",
    "vop3p",
    "ds",
    "mubuf",
    "mtbuf",
    "flat",
    "global",
    "scratch",
]
TYPES = [
    "none",
    "b32",
    "f32",
    "i16",
    "f16",
    "pk_f16",
    "pk_i16",
    "bf16",
    "pk_bf16",
    "b64",
    "f64",
    "pk_f32",
    "b96",
    "b128",
    "b160",
    "b192",
    "b256",
    "b512",
    "b1024",
    "mask",
]
TARGETS = ("gfx90a", "gfx942", "gfx950")

READS_SCC, WRITES_SCC = 1 << 0, 1 << 1
READS_MODE, WRITES_MODE = 1 << 8, 1 << 9
DST_SCALAR = 1 << 11
LITERAL_K = 1 << 13
RELATIVE = 1 << 14
NO_VOP3 = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the operation tables."""

    name: str
    encoding: str
    opcode: int
    targets: tuple[str, ...]
    flags: int
    dst: tuple[str, str]
    src: tuple[str, str, str, str]


@lru_cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(emulator_library()))
    library.asmevo_emulator_decode.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    library.asmevo_emulator_decode_registers.argtypes = library.asmevo_emulator_decode.argtypes
    library.asmevo_emulator_op.argtypes = [ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return library


def read_rows() -> list[Row]:
    """Every row of the tables."""
    rows: list[Row] = []
    text = ctypes.create_string_buffer(256)
    while _library().asmevo_emulator_op(len(rows), text, len(text)) == 0:
        name, *fields = text.value.decode().split()
        encoding, opcode, targets, flags, *types = map(int, fields)
        named = [TYPES[number] for number in types]
        rows.append(
            Row(
                name=name,
                encoding=ENCODINGS[encoding],
                opcode=opcode,
                targets=tuple(t for i, t in enumerate(TARGETS) if targets >> i & 1),
                flags=flags,
                dst=(named[0], named[1]),
                src=(named[2], named[3], named[4], named[5]),
            )
        )
    return rows


def decode(target: str, words: Sequence[int]) -> tuple[int, str]:
    """Size in dwords and text of the first instruction; -1 and the reason when there is none."""
    array = (ctypes.c_uint32 * len(words))(*words)
    text = ctypes.create_string_buffer(512)
    size = _library().asmevo_emulator_decode(target.encode(), array, len(words), text, len(text))
    return size, text.value.decode()


def decode_registers(target: str, data: bytes) -> tuple[int, list[tuple[str, str, int, int]]]:
    """Flags of the first instruction's operation, and its spans of registers.

    A span is the direction (`r`, `w`), the file (`s`, `v`), the first register and their number;
    the accumulation registers are v256 and up.
    """
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    array = (ctypes.c_uint32 * (len(words) + 2))(*words, 0, 0)
    text = ctypes.create_string_buffer(1024)
    size = _library().asmevo_emulator_decode_registers(
        target.encode(), array, len(array), text, len(text)
    )
    if size < 0:
        raise ValueError(text.value.decode())
    flags, *lines = text.value.decode().splitlines()
    spans = [line.split() for line in lines]
    return int(flags), [(way, file, int(first), int(count)) for way, file, first, count in spans]
