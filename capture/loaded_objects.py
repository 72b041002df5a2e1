"""The code objects a HIP process has loaded, also before anyone looked.

The runtime keeps a list of them for debuggers: the exported variable `_amdgpu_r_debug`, a
`struct r_debug` (glibc's link.h) whose entries name each object by a URI,
`memory://PID#offset=…&size=…` or `file://PATH#offset=…&size=…` (LLVM's AMDGPU usage, "Loaded code
object path URI").
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asmevo.capture.memory_objects import find_images
from asmevo.capture.target_process import ProcessMemory
from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.errors import CodeObjectError, TargetError

__all__ = ["LoadedKernel", "LoadedObjects"]

_log = logging.getLogger(__name__)

_MAX_OBJECTS = 1 << 16
_MAX_OBJECT_BYTES = 1 << 30
_MAX_URI_BYTES = 4096
_CONSISTENT = 0  # r_state: no change is under way
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedKernel:
    """A kernel of a loaded code object, and where the object was loaded."""

    code_object: CodeObject
    kernel: Kernel
    load_bias: int  # loaded address minus ELF address
    is_placed: bool = True  # False: nobody says where it was loaded; `load_bias` is 0

    @property
    def descriptor_address(self) -> int:
        """Device address of the kernel descriptor: what a dispatch packet names."""
        return self.load_bias + self.kernel.descriptor_address


class LoadedObjects:
    """Reads the list and the objects; objects seen before are not read or parsed twice."""

    def __init__(self, memory: ProcessMemory, debug_addresses: Sequence[int]) -> None:
        """`debug_addresses` are those of `_amdgpu_r_debug` in each copy of the runtime."""
        self._memory = memory
        self._debug_addresses = tuple(debug_addresses)
        self._parsed: dict[str, CodeObject | None] = {}
        self._known: dict[tuple[int, str], CodeObject | None] = {}

    def read_ahead(self, limit_s: float) -> None:
        """Read what is loaded now, for so long at most: questions come while a launch waits."""
        deadline = time.monotonic() + limit_s
        try:
            for bias, uri in self._read_lists():
                if time.monotonic() > deadline:
                    return
                self._get(bias, uri)
        except TargetError as error:
            _log.info("%s", error)

    def forget(self) -> None:
        """Objects were unloaded: others may stand where they stood."""
        self._known.clear()

    def find_kernels(self, name: str) -> tuple[LoadedKernel, ...]:
        """All kernels of this name that are loaded now.

        Raises:
            TargetError: The list cannot be read.
        """
        found: list[LoadedKernel] = []
        for bias, uri in self._read_lists():
            if code_object := self._get(bias, uri):
                found.extend(_kernels_of(code_object, name, bias))
        # Where there is a list, what it does not name is not loaded, whatever memory still holds.
        return tuple(found) if self._debug_addresses else self._find_in_memory(name)

    def _get(self, bias: int, uri: str) -> CodeObject | None:
        if (bias, uri) not in self._known:
            data = self._read_object(uri)
            self._known[bias, uri] = None if data is None else self._parse(data)
        return self._known[bias, uri]

    def _find_in_memory(self, name: str) -> tuple[LoadedKernel, ...]:
        """The last resort: slow, and does not tell where an object was loaded."""
        _log.info("no list has a code object with %s: searching the memory", name[:80])
        found = {}
        for image in find_images(self._memory):
            code_object = self._parse(image) if name.encode() in image else None
            for one in _kernels_of(code_object, name, None) if code_object else ():
                found[one.code_object.sha256] = one
        return tuple(found.values())

    def _read_lists(self) -> Iterator[tuple[int, str]]:
        for address in self._debug_addresses:
            yield from self._read_list(address)

    def _read_list(self, debug_address: int) -> tuple[tuple[int, str], ...]:
        """Load bias and URI of each object; read again while the runtime changes the list."""
        for _ in range(_ATTEMPTS):
            try:
                if self._read_state(debug_address) == _CONSISTENT:
                    entries = tuple(self._walk(debug_address))
                    if self._read_state(debug_address) == _CONSISTENT:
                        return entries
            except TargetError:
                pass
            time.sleep(0.01)
        raise TargetError("the list of loaded code objects cannot be read")

    def _read_state(self, debug_address: int) -> int:
        return int(struct.unpack("=I", self._memory.read(debug_address + 24, 4))[0])

    def _walk(self, debug_address: int) -> Iterator[tuple[int, str]]:
        (at,) = struct.unpack("=Q", self._memory.read(debug_address + 8, 8))
        visited: set[int] = set()
        while at != 0:
            if at in visited or len(visited) == _MAX_OBJECTS:
                raise TargetError("the list of loaded code objects has no end")
            visited.add(at)
            bias, name, _, following = struct.unpack("=QQQQ", self._memory.read(at, 32))
            yield bias, self._memory.read_string(name, _MAX_URI_BYTES)
            at = following

    def _read_object(self, uri: str) -> bytes | None:
        location = urllib.parse.urlsplit(uri)
        options = dict(urllib.parse.parse_qsl(location.fragment or location.query))
        try:
            offset = int(options.get("offset", "0"), 0)
            size = int(options.get("size", "0"), 0)
            if not 0 <= size <= _MAX_OBJECT_BYTES:
                raise ValueError
            if location.scheme == "memory":
                return self._memory.read(offset, size)
            if location.scheme == "file":
                return self._read_file(urllib.parse.unquote(location.path), offset, size)
        except (OSError, ValueError, TargetError) as error:
            _log.info("code object %s cannot be read: %s", uri[:200], error)
        return None

    def _read_file(self, path: str, offset: int, size: int) -> bytes:
        """The path is the target's: its root may be another one."""
        with open(f"/proc/{self._memory.pid}/root/{path}", "rb") as file:
            file.seek(offset)
            length = size or min(os.fstat(file.fileno()).st_size - offset, _MAX_OBJECT_BYTES)
            return file.read(length)

    def _parse(self, data: bytes) -> CodeObject | None:
        key = hashlib.sha256(data).hexdigest()
        if key not in self._parsed:
            try:
                self._parsed[key] = CodeObject.read(data)
            except CodeObjectError as error:
                _log.info("a loaded code object is not understood: %s", error)
                self._parsed[key] = None
        return self._parsed[key]


def _kernels_of(code_object: CodeObject, name: str, bias: int | None) -> Iterator[LoadedKernel]:
    for kernel in code_object.kernels:
        if kernel.name == name:
            yield LoadedKernel(
                code_object=code_object,
                kernel=kernel,
                load_bias=bias or 0,
                is_placed=bias is not None,
            )
