"""Keeps captured addresses free until the replay maps them: the first thing in a worker's life.

Libraries, the HIP runtime's own heap among them, take whatever addresses the kernel gives. The C
library `hold/hold.c`, preloaded into the worker, reserves what a bundle needs before Python starts.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from asmevo import native
from asmevo.errors import MissingToolError
from asmevo.replay.layout import Mapping as MemoryMapping
from asmevo.replay.layout import Memory

__all__ = [
    "AddressTakenError",
    "check_held",
    "find_holder",
    "hold_environment",
    "map_at",
    "unmap",
    "write_ranges",
]

_VARIABLE = "ASMEVO_REPLAY_HOLD"
_ATTEMPTS = 32
"""Layouts that a worker tries; each costs the start of the program without Python's."""

_PROT_NONE, _PROT_READ, _PROT_WRITE = 0, 1, 2
_MAP_PRIVATE, _MAP_ANONYMOUS = 0x02, 0x20
_MAP_NORESERVE = 0x4000
_MAP_FIXED_NOREPLACE = 0x100000  # Linux 4.17

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class AddressTakenError(Exception):
    """Captured memory cannot be where it was: something of this process is there."""

    def __init__(self, address: int, size_bytes: int, *, why: str = "") -> None:
        """Look up what is there; `why` is the system's reason."""
        holder = find_holder(address, size_bytes)
        reason = f", {why}" if why else ""
        super().__init__(f"0x{address:x} ({size_bytes} bytes) is taken by {holder}{reason}")


def find_holder(address: int, size_bytes: int) -> str:
    """The first mapping of this process that overlaps the range, as /proc/self/maps names it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, _, rest = line.partition(" ")
        low, high = (int(bound, 16) for bound in bounds.split("-"))
        if low < address + size_bytes and address < high:
            name = rest.split(maxsplit=4)[4:]
            return f"{bounds} {name[0] if name else '[anonymous]'}"
    return "no mapping of this process"


def write_ranges(mappings: Iterable[MemoryMapping]) -> int:
    """A file descriptor with what a worker is to reserve; the caller closes it."""
    lines = (
        f"{one.address:x} {one.size_bytes:x} {int(one.memory is not Memory.DEVICE)}\n"
        for one in mappings
    )
    descriptor = os.memfd_create("asmevo-ranges", 0)
    os.write(descriptor, "".join(lines).encode())
    return descriptor


def hold_environment(environment: Mapping[str, str], ranges: int, results: int) -> dict[str, str]:
    """The environment of a program that reserves the ranges before its own code runs.

    Args:
        environment: of the program without that.
        ranges: from `write_ranges`; inherited.
        results: where a message goes when an address stays taken; inherited.
    """
    libraries = [str(native.hold_library()), *filter(None, [environment.get("LD_PRELOAD")])]
    return {
        **environment,
        "LD_PRELOAD": ":".join(libraries),
        _VARIABLE: f"{ranges} {results} {_ATTEMPTS - 1}",
    }


def map_at(address: int, size_bytes: int, *, accessible: bool) -> None:
    """Map anonymous memory at exactly this page-aligned range of this process.

    Raises:
        AddressTakenError: Something is mapped there, or nothing can be.
    """
    protection = _PROT_READ | _PROT_WRITE if accessible else _PROT_NONE
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_FIXED_NOREPLACE | _MAP_NORESERVE
    got = _libc.mmap(address, size_bytes, protection, flags, -1, 0)
    if got == address:
        return
    code = ctypes.get_errno()
    if got != ctypes.c_void_p(-1).value:
        unmap(got, size_bytes)  # a kernel without MAP_FIXED_NOREPLACE takes the address as a hint
        raise AddressTakenError(address, size_bytes)
    raise AddressTakenError(address, size_bytes, why=os.strerror(code))


def check_held() -> None:
    """In a worker: make sure that the hold has run.

    Raises:
        MissingToolError: The dynamic linker did not load it: a path with a blank or a colon, or
            another machine's library.
    """
    if _VARIABLE in os.environ:  # the library takes it away
        raise MissingToolError(
            "the library that keeps captured addresses free was not loaded",
            hint=f"the path {native.hold_library()} must hold neither blanks nor colons",
        )


def unmap(address: int, size_bytes: int) -> None:
    """Remove a mapping."""
    if _libc.munmap(address, size_bytes) != 0:
        raise OSError(ctypes.get_errno(), f"munmap of 0x{address:x}")
