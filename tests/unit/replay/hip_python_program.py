"""A hip-python program: loads a module, launches a kernel, times it, prints one line of JSON.

Run by test_hip_python.py in a process of its own, as hip-python opens one libamdhip64.so for good.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from hip import hip as _hip

hip: Any = _hip  # hip-python's own annotations are incomplete


def check(answer: Any) -> Any:
    """The values behind a status that must be success."""
    status, *values = answer
    if status != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else values


def map_at(address: int, size: int) -> int:
    """Device memory at a fixed address."""
    properties = hip.hipMemAllocationProp()
    properties.type = hip.hipMemAllocationType.hipMemAllocationTypePinned
    properties.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    base = int(check(hip.hipMemAddressReserve(size, 0, address, 0)))
    handle = check(hip.hipMemCreate(size, properties, 0))
    check(hip.hipMemMap(base, size, 0, handle, 0))
    access = hip.hipMemAccessDesc()
    access.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    access.flags = hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite
    check(hip.hipMemSetAccess(base, size, access, 1))
    return base


def main() -> None:
    """Launch kernarg_dump and collect what it saw."""
    image, address = Path(sys.argv[1]).read_bytes(), int(sys.argv[2], 0)
    module = check(hip.hipModuleLoadData(image))
    kernel = check(hip.hipModuleGetFunction(module, b"kernarg_dump"))
    stream = check(hip.hipStreamCreate())
    start, stop = check(hip.hipEventCreate()), check(hip.hipEventCreate())
    out = map_at(address, 4096)
    seen = []
    check(hip.hipEventRecord(start, stream))
    for tag in (11, 22, 33):
        arguments = (ctypes.c_void_p(out), ctypes.c_uint32(tag), ctypes.c_uint16(5))
        check(
            hip.hipModuleLaunchKernel(
                kernel,
                *(1, 1, 1, 64, 1, 1),
                sharedMemBytes=0,
                stream=stream,
                kernelParams=None,
                extra=arguments,
            )
        )
        check(hip.hipStreamSynchronize(stream))
        back = (ctypes.c_uint32 * 64)()
        kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        check(hip.hipMemcpy(back, out, 256, kind))
        seen.append(back[2])
    check(hip.hipEventRecord(stop, stream))
    check(hip.hipEventSynchronize(stop))
    elapsed_ms = check(hip.hipEventElapsedTime(start, stop))
    check(hip.hipModuleUnload(module))
    print(json.dumps({"out": out, "seen": seen, "elapsed_ms": elapsed_ms}))


if __name__ == "__main__":
    main()
