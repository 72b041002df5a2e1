"""The HIP calls of a replay, through hip-python, with errors as exceptions.

Only a worker process imports this: the first call opens the libamdhip64.so that it finds.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hip import hip as _hip_module

from asmevo.errors import DeviceError, MissingToolError, ReplayError
from asmevo.replay.findings import Finding
from asmevo.replay.numeric import Bytes

__all__ = ["EmulatorReport", "EventTimer", "HipFailure", "HipRuntime", "Kernel", "PhysicalMemory"]

hip: Any = _hip_module  # hip-python's own annotations are incomplete

# Values of hip_runtime_api.h: markers in the `extra` array of a launch.
_LAUNCH_PARAM_BUFFER_POINTER = 1
_LAUNCH_PARAM_BUFFER_SIZE = 2
_LAUNCH_PARAM_END = 3

Dimensions = tuple[int, int, int]


class HipFailure(DeviceError):
    """A HIP call returned an error."""


def _call_all(name: str, *arguments: Any) -> list[Any]:
    """Call a HIP function; everything that it returns besides the status."""
    status, *values = getattr(hip, name)(*arguments)
    if int(status) != 0:
        raise HipFailure(f"{name} returned {status.name} ({int(status)})")
    return list(values)


def _call(name: str, *arguments: Any) -> Any:
    """Call a HIP function; the first thing that it returns besides the status, or None."""
    values = _call_all(name, *arguments)
    return values[0] if values else None


def _device_properties() -> Any:
    properties = hip.hipMemAllocationProp()
    properties.type = hip.hipMemAllocationType.hipMemAllocationTypePinned
    properties.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    properties.location.id = 0
    return properties


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalMemory:
    """Device memory that has an address only while it is mapped."""

    handle: Any
    size_bytes: int


class Kernel:
    """A kernel of a loaded code object. Close it to unload the object."""

    def __init__(self, code_object: bytes, name: str) -> None:
        """Load the object and look the kernel up."""
        self._image = ctypes.create_string_buffer(code_object, len(code_object))
        self._module = _call("hipModuleLoadData", self._image)
        try:
            self._function = _call("hipModuleGetFunction", self._module, name.encode())
        except HipFailure:
            self.close()
            raise

    def launch(
        self, *, grid: Dimensions, block: Dimensions, dynamic_lds_bytes: int, kernarg: bytes
    ) -> None:
        """Queue a launch on the null stream with the kernarg segment given byte for byte."""
        segment = ctypes.create_string_buffer(kernarg, max(len(kernarg), 1))
        size = ctypes.c_size_t(len(kernarg))
        extra = (ctypes.c_void_p * 5)(
            _LAUNCH_PARAM_BUFFER_POINTER,
            ctypes.addressof(segment),
            _LAUNCH_PARAM_BUFFER_SIZE,
            ctypes.addressof(size),
            _LAUNCH_PARAM_END,
        )
        geometry = (*grid, *block, dynamic_lds_bytes)
        extra_address = ctypes.addressof(extra)
        _call("hipModuleLaunchKernel", self._function, *geometry, None, None, extra_address)

    def launch_cooperative(
        self,
        *,
        grid: Dimensions,
        block: Dimensions,
        dynamic_lds_bytes: int,
        kernarg: bytes,
        offsets: Sequence[int],
    ) -> None:
        """As `launch`, with all workgroups resident at one time.

        HIP takes no kernarg segment here, but the arguments one by one, whose places in the segment
        are `offsets`.
        """
        segment = ctypes.create_string_buffer(kernarg, max(len(kernarg), 1))
        base = ctypes.addressof(segment)
        params = (ctypes.c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets))
        geometry = (*grid, *block, dynamic_lds_bytes)
        address = ctypes.addressof(params)
        _call("hipModuleLaunchCooperativeKernel", self._function, *geometry, None, address)

    def find_global(self, name: str) -> tuple[int, int]:
        """Where a variable of the code object is, and its size in bytes."""
        address, size = _call_all("hipModuleGetGlobal", self._module, name.encode())
        return int(address) & (1 << 64) - 1, int(size)

    def close(self) -> None:
        """Unload the code object."""
        _call("hipModuleUnload", self._module)


class HipRuntime:
    """Device 0 of the runtime that the environment selects."""

    def __init__(self, *, is_emulated: bool = False) -> None:
        """Open the runtime.

        Args:
            is_emulated: It is the emulated device, whose exports beyond HIP may be used.

        Raises:
            MissingToolError: There is no libamdhip64.so.
            DeviceError: It has no device.
        """
        try:
            _call("hipInit", 0)
        except RuntimeError as error:  # hip-python's, when it cannot open the library
            raise MissingToolError(
                f"no HIP runtime: {error}", hint="asmevo doctor says what is missing"
            ) from error
        _call("hipSetDevice", 0)
        self._emulator = _find_emulator() if is_emulated else None

    @property
    def has_copy_on_write(self) -> bool:
        """Whether `map_copy_on_write` can be used."""
        return self._emulator is not None

    def map_copy_on_write(self, address: int, memory: PhysicalMemory) -> None:
        """Map memory so that stores do not reach it; once more takes back what was stored."""
        assert self._emulator is not None
        status = self._emulator.asmevo_emulator_map_copy_on_write(
            ctypes.c_void_p(address),
            ctypes.c_size_t(memory.size_bytes),
            ctypes.c_void_p(int(memory.handle)),
        )
        if status != 0:
            raise HipFailure(f"mapping 0x{address:x} copy-on-write returned {status}")

    def granularity_bytes(self) -> int:
        """The unit of sizes and addresses of device mappings."""
        option = hip.hipMemAllocationGranularity_flags.hipMemAllocationGranularityMinimum
        return int(_call("hipMemGetAllocationGranularity", _device_properties(), option))

    def reserve_at(self, address: int, size_bytes: int) -> bool:
        """Reserve addresses; False when the runtime has only others to give."""
        try:
            got = int(_call("hipMemAddressReserve", size_bytes, 0, address, 0))
        except HipFailure:
            return False
        # The address is a hint to ROCm: another one comes without an error.
        return got == address

    def reserve(self, size_bytes: int) -> int:
        """Reserve addresses wherever there is room."""
        return int(_call("hipMemAddressReserve", size_bytes, 0, 0, 0))

    def create_memory(self, size_bytes: int) -> PhysicalMemory:
        """Device memory without an address."""
        handle = _call("hipMemCreate", size_bytes, _device_properties(), 0)
        return PhysicalMemory(handle=handle, size_bytes=size_bytes)

    def map_memory(self, address: int, memory: PhysicalMemory) -> None:
        """Put device memory behind reserved addresses."""
        _call("hipMemMap", address, memory.size_bytes, 0, memory.handle, 0)
        access = hip.hipMemAccessDesc()
        access.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
        access.location.id = 0
        access.flags = hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite
        _call("hipMemSetAccess", address, memory.size_bytes, access, 1)

    def unmap_memory(self, address: int, memory: PhysicalMemory) -> None:
        """Take it away again; its contents stay."""
        _call("hipMemUnmap", address, memory.size_bytes)

    def release(self, address: int, memory: PhysicalMemory) -> None:
        """Give unmapped memory and its reservation back."""
        _call("hipMemRelease", memory.handle)
        _call("hipMemAddressFree", address, memory.size_bytes)

    def register_host(self, address: int, size_bytes: int) -> None:
        """Pin host memory for the device.

        Raises:
            ReplayError: The device sees it at another address.
        """
        _call("hipHostRegister", address, size_bytes, 0)
        seen = int(_call("hipHostGetDevicePointer", address, 0))
        if seen != address:
            raise ReplayError(f"pinned memory of 0x{address:x} is at 0x{seen:x} for the device")

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Copy on the device."""
        kind = hip.hipMemcpyKind.hipMemcpyDefault
        _call("hipMemcpy", target, source, size_bytes, kind)

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Set every byte."""
        _call("hipMemset", address, byte, size_bytes)

    def write(self, address: int, data: Bytes) -> None:
        """Copy to a device address; the array must be contiguous."""
        kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
        _call("hipMemcpy", address, data.ctypes.data, data.nbytes, kind)

    def read(self, address: int, into: Bytes) -> None:
        """Copy from a device address; the array must be contiguous."""
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        _call("hipMemcpy", into.ctypes.data, address, into.nbytes, kind)

    def look_at(self, address: int, size_bytes: int) -> Bytes:
        """The content of device memory, to be used before it changes or is unmapped.

        The emulated device's memory is this process's: nothing is copied there.
        """
        if self._emulator is not None:
            place = (ctypes.c_uint8 * size_bytes).from_address(address)
            return np.ctypeslib.as_array(place)
        content = np.empty(size_bytes, dtype=np.uint8)
        self.read(address, content)
        return content

    def synchronize(self) -> None:
        """Wait for all launches; raises what they failed with."""
        _call("hipDeviceSynchronize")


class EventTimer:
    """Times one launch by events on the null stream."""

    def __init__(self) -> None:
        """Make the two events."""
        self._start = _call("hipEventCreate")
        self._stop = _call("hipEventCreate")

    def start(self) -> None:
        """Record the start."""
        _call("hipEventRecord", self._start, None)

    def stop_ms(self) -> float:
        """Record the stop, wait for it and give the time between."""
        _call("hipEventRecord", self._stop, None)
        _call("hipEventSynchronize", self._stop)
        return float(_call("hipEventElapsedTime", self._start, self._stop))


def _find_emulator() -> ctypes.CDLL | None:
    """The emulated device's library, for its exports beyond HIP; None on a real runtime."""
    maps = Path("/proc/self/maps").read_text()
    paths = {line[line.index("/") :] for line in maps.splitlines() if "/libamdhip64.so" in line}
    # Opening a mapped library again gives the same one.
    for library in (ctypes.CDLL(path) for path in sorted(paths)):
        if hasattr(library, "asmevo_emulator_last_report"):
            library.asmevo_emulator_last_report.restype = ctypes.c_char_p
            return library
    return None


class EmulatorReport:
    """Reads the emulated device's report of this thread's last dispatch."""

    def __init__(self, *, is_emulated: bool = True) -> None:
        """Look for the export in the loaded library, if the device is an emulated one."""
        self._library = _find_emulator() if is_emulated else None

    @property
    def is_available(self) -> bool:
        """True on the emulated device."""
        return self._library is not None

    def collect_findings(self, checks: str) -> None:
        """Make run-time checks, which are noted in the report; a launch goes on after them."""
        if self._library is not None:
            self._library.asmevo_emulator_set_option(b"checks", checks.encode())
            self._library.asmevo_emulator_set_option(b"on_finding", b"collect")

    def findings(self) -> tuple[Finding, ...]:
        """What the checks found in this thread's last dispatch."""
        return tuple(Finding.from_json(item) for item in self.read().get("findings", ()))

    @contextlib.contextmanager
    def options(self, values: Mapping[str, int], *, fill: int) -> Iterator[None]:
        """Within it options of the emulated device have these values; 0 outside.

        Args:
            values: by the option's name.
            fill: what nobody wrote holds; 0 for the usual content.
        """
        assert self._library is not None
        wanted = {**values, "fill": fill}
        for name, value in wanted.items():
            self._set_option(name, value)
        try:
            yield
        finally:
            for name in wanted:
                self._set_option(name, 0)

    def _set_option(self, name: str, value: int) -> None:
        assert self._library is not None
        if self._library.asmevo_emulator_set_option(name.encode(), str(value).encode()) != 0:
            raise DeviceError(
                f"the emulated device knows no option {name}", hint="scripts/build rebuilds it"
            )

    def read(self) -> dict[str, Any]:
        """The report; empty where there is none."""
        if self._library is None:
            return {}
        text = self._library.asmevo_emulator_last_report()
        report = json.loads(text) if text else {}
        return report if isinstance(report, dict) else {}

    def failure_lines(self, limit: int) -> Iterable[str]:
        """The first lines of what it says about a failed dispatch."""
        report = self.read()
        if report.get("ok", True):
            return []
        return str(report.get("report", "")).splitlines()[:limit]
