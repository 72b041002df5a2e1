"""The emulated device's decoder and operation tables, through the library's C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

from asmevo.native import emulator_library
from asmevo.replay.operation_table import TARGETS, Operation, decode_words, read_operations

__all__ = ["TARGETS", "Row", "decode", "decode_registers", "read_rows"]

READS_SCC, WRITES_SCC = 1 << 0, 1 << 1
READS_MODE, WRITES_MODE = 1 << 8, 1 << 9
DST_SCALAR = 1 << 11
LITERAL_K = 1 << 13
RELATIVE = 1 << 14
NO_VOP3 = 1 << 17

Row = Operation


@lru_cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(emulator_library()))
    library.asmevo_emulator_decode_registers.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    return library


def read_rows() -> list[Row]:
    """Every row of the tables."""
    return list(read_operations())


def decode(target: str, words: Sequence[int]) -> tuple[int, str]:
    """Size in dwords and text of the first instruction; -1 and the reason when there is none."""
    return decode_words(target, b"".join(word.to_bytes(4, "little") for word in words))


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
