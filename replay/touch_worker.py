"""Executes bundles on the emulated device and notes the pages that they touch.

`python -m asmevo.replay.touch_worker`: reads an order a line from stdin and answers with a line on
stdout. Each bundle is executed in a fork of this process, which has all modules loaded and no
device opened: its addresses are free, and what goes wrong in it is not the next one's business.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asmevo.capture.bundle import Bundle, Moment, open_bundle
from asmevo.capture.manifest import Region, RegionKind
from asmevo.errors import AsmevoError
from asmevo.native import page_watch_library
from asmevo.replay.address_hold import AddressTakenError, map_at, unmap
from asmevo.replay.hip_runtime import EmulatorReport, HipFailure, HipRuntime, Kernel
from asmevo.replay.layout import PAGE_BYTES, Mapping, Memory, plan_mappings
from asmevo.replay.restore_chunks import read_chunks

__all__ = ["main"]


class _PageWatch:
    """The native part; see `touch/page_watch.c`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(page_watch_library()))
        self._marks: list[tuple[int, np.ndarray[Any, np.dtype[np.uint8]]]] = []

    def add(self, address: int, size: int) -> None:
        marks = np.zeros(size // PAGE_BYTES, dtype=np.uint8)
        self._marks.append((address, marks))
        pointer = ctypes.c_void_p(marks.ctypes.data)
        if self._library.page_watch_add(ctypes.c_size_t(address), ctypes.c_size_t(size), pointer):
            raise AsmevoError("the bundle has too many regions")

    def start(self) -> None:
        if self._library.page_watch_start() != 0:
            raise AsmevoError("memory cannot be protected")

    def stop(self) -> None:
        self._library.page_watch_stop()

    def pages(self) -> Iterator[tuple[int, int]]:
        """Address and size of each run of touched pages."""
        for address, marks in self._marks:
            touched = np.flatnonzero(marks)
            if touched.size:
                for run in np.split(touched, np.flatnonzero(np.diff(touched) != 1) + 1):
                    yield address + int(run[0]) * PAGE_BYTES, run.size * PAGE_BYTES


def _plan(bundle: Bundle, absent: Sequence[tuple[int, int]]) -> tuple[Mapping, ...]:
    regions = [r for r in bundle.manifest.regions if r.kind is not RegionKind.MODULE_GLOBAL]
    pretended = [_absent_region(bundle, address, size) for address, size in absent]
    inside = [r for r in regions if not any(_holds(one, r) for one in pretended)]
    return plan_mappings([*inside, *pretended], device_granularity=PAGE_BYTES)


def _absent_region(bundle: Bundle, address: int, size: int) -> Region:
    return Region(
        index=len(bundle.manifest.regions),
        address=address,
        size_bytes=size,
        kind=RegionKind.DEVICE,
        pointers=(),
        before=bundle.manifest.kernarg,  # never read
        after=None,
    )


def _holds(outer: Region, inner: Region) -> bool:
    return (
        outer.address <= inner.address
        and inner.address + inner.size_bytes <= outer.address + outer.size_bytes
    )


def _place(mappings: Sequence[Mapping], runtime: HipRuntime) -> None:
    for mapping in mappings:
        if mapping.memory is Memory.DEVICE:
            unmap(mapping.address, mapping.size_bytes)
            if not runtime.reserve_at(mapping.address, mapping.size_bytes):
                raise AddressTakenError(mapping.address, mapping.size_bytes)
            memory = runtime.create_memory(mapping.size_bytes)
            runtime.map_memory(mapping.address, memory)
        elif mapping.memory is Memory.PINNED:
            runtime.register_host(mapping.address, mapping.size_bytes)


def _write(bundle: Bundle, runtime: HipRuntime, kernel: Kernel) -> None:
    for region in bundle.manifest.regions:
        address = region.address
        if region.kind is RegionKind.MODULE_GLOBAL:
            address = kernel.find_global(region.symbol or "")[0]
        for offset, chunk in read_chunks(bundle.region_chunks(region, Moment.BEFORE)):
            runtime.write(address + offset, chunk)


def _is_golden(bundle: Bundle, runtime: HipRuntime, kernel: Kernel) -> bool | None:
    recorded = [region for region in bundle.manifest.regions if region.after is not None]
    for region in recorded:
        address = region.address
        if region.kind is RegionKind.MODULE_GLOBAL:
            address = kernel.find_global(region.symbol or "")[0]
        for offset, chunk in read_chunks(bundle.region_chunks(region, Moment.AFTER)):
            actual = np.empty(chunk.size, dtype=np.uint8)
            runtime.read(address + offset, actual)
            if not np.array_equal(actual, chunk):
                return False
    return True if recorded else None


def _execute(order: dict[str, Any]) -> dict[str, Any]:
    absent = [(int(address), int(size)) for address, size in order["absent"]]
    with open_bundle(Path(order["bundle"])) as bundle:
        mappings = _plan(bundle, absent)
        for mapping in mappings:
            accessible = mapping.memory is not Memory.DEVICE
            map_at(mapping.address, mapping.size_bytes, accessible=accessible)
        runtime = HipRuntime()
        _place(mappings, runtime)
        kernel = Kernel(bundle.code_object(), bundle.manifest.dispatch.kernel)
        _write(bundle, runtime, kernel)
        watch = _PageWatch()
        for mapping in mappings:
            if mapping.memory is not Memory.PAGEABLE:
                watch.add(mapping.address, mapping.size_bytes)
        problem = _launch(bundle, runtime, kernel, watch)
        is_beyond = problem != "" and _is_beyond_memory()
        is_golden = None if problem else _is_golden(bundle, runtime, kernel)
        return {
            "pages": list(watch.pages()),
            "problem": problem,
            "is_beyond_memory": is_beyond,
            "is_golden": is_golden,
        }


def _is_beyond_memory() -> bool:
    """Whether the last launch ended at an access to memory that is not there."""
    return any(finding.rule == "out-of-bounds" for finding in EmulatorReport().findings())


def _launch(bundle: Bundle, runtime: HipRuntime, kernel: Kernel, watch: _PageWatch) -> str:
    dispatch = bundle.manifest.dispatch
    kernarg = bundle.kernarg()
    watch.start()
    try:
        kernel.launch(
            grid=dispatch.grid,
            block=dispatch.block,
            dynamic_lds_bytes=dispatch.dynamic_lds_bytes,
            kernarg=kernarg,
        )
        runtime.synchronize()
    except HipFailure as error:
        lines = list(EmulatorReport().failure_lines(1))
        return lines[0] if lines else str(error)
    finally:
        watch.stop()
    return ""


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    try:
        return _execute(order)
    except AddressTakenError as error:
        return {"address_taken": str(error)}
    except AsmevoError as error:
        return {"problem": str(error)}


def _serve_in_fork(order: dict[str, Any]) -> str:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as stream:
            stream.write(json.dumps(_answer(order)))
        os._exit(0)
    os.close(writer)
    pieces = []
    is_late = False
    while True:
        if not select.select([reader], [], [], float(order["timeout_s"]))[0]:
            os.kill(pid, signal.SIGKILL)
            is_late = True
            break
        piece = os.read(reader, 1 << 20)
        if not piece:
            break
        pieces.append(piece)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    text = b"".join(pieces).decode()
    if is_late:
        return json.dumps({"problem": f"its execution took over {order['timeout_s']} s"})
    return text or json.dumps({"problem": f"its execution ended with status {status}"})


def main() -> int:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that a library prints is an answer
    for line in sys.stdin:
        answers.write(_serve_in_fork(json.loads(line)) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
