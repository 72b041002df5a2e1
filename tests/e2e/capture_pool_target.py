"""A HIP program to capture from whose memory lies in one large pool, as torch's allocator has it.

Usage: capture_pool_target.py HSACO   (tests/fixtures/pool_kernels.hip)

Prints `ready`, then launches and checks until stdin ends; prints `launches wrong`.
"""

from __future__ import annotations

import array
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hip import hip as _hip_module

hip: Any = _hip_module

POOL_BYTES = 96 << 20
PAGE_BYTES = 4096
BLOCKS = 4
SCALE = 3.0
TABLES = ([100, 7, 20000, 8], [100, 7, 20001, 9], [5, 7, 20000, 8])


def check(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else values or None


class Program:
    def __init__(self, image: bytes) -> None:
        self.module = check(hip.hipModuleLoadData(image))
        self.gather = check(hip.hipModuleGetFunction(self.module, b"gather_pages"))
        self.add = check(hip.hipModuleGetFunction(self.module, b"add_to_each"))
        self.pool = check(hip.hipMalloc(POOL_BYTES))
        self.out = check(hip.hipMalloc(BLOCKS * PAGE_BYTES))
        self.table = check(hip.hipMalloc(4 * BLOCKS))
        self.arrays = [check(hip.hipMalloc(PAGE_BYTES)) for _ in range(2)]
        self.pointers = check(hip.hipMalloc(16))
        address, _ = check(hip.hipModuleGetGlobal(self.module, b"scale_of_all"))
        self.copy_in(address, array.array("f", [SCALE]))
        self.copy_in(self.pointers, array.array("Q", [int(one) for one in self.arrays]))
        for one in self.arrays:
            self.copy_in(one, array.array("f", bytes(PAGE_BYTES)))
        for page in {page for table in TABLES for page in table}:
            self.copy_in(int(self.pool) + PAGE_BYTES * page, array.array("f", [page] * 1024))

    def copy_in(self, address: Any, values: array.array[Any]) -> None:
        size = len(values) * values.itemsize
        check(hip.hipMemcpy(address, values, size, hip.hipMemcpyKind.hipMemcpyHostToDevice))

    def copy_out(self, address: Any, count: int) -> array.array[float]:
        values = array.array("f", bytes(4 * count))
        check(hip.hipMemcpy(values, address, 4 * count, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
        return values

    def launch(self, function: Any, blocks: int, *arguments: Any) -> None:
        geometry = (blocks, 1, 1, 64, 1, 1)
        check(
            hip.hipModuleLaunchKernel(
                function,
                *geometry,
                sharedMemBytes=0,
                stream=None,
                kernelParams=None,
                extra=arguments,
            )
        )

    def gather_is_right(self, table: list[int]) -> bool:
        self.copy_in(self.table, array.array("I", table))
        self.launch(self.gather, BLOCKS, self.out, self.pool, self.table)
        found = self.copy_out(self.out, BLOCKS * 1024)
        return found == array.array("f", [SCALE * page for page in table for _ in range(1024)])

    def add_is_right(self, count: int) -> bool:
        self.launch(self.add, len(self.arrays), self.pointers)
        return all(self.copy_out(one, 64) == array.array("f", [count] * 64) for one in self.arrays)


def main() -> None:
    program = Program(Path(sys.argv[1]).read_bytes())
    is_over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print("ready", flush=True)
    launches = wrong = 0
    while not is_over.is_set():
        wrong += not program.gather_is_right(TABLES[launches % len(TABLES)])
        launches += 1
        wrong += not program.add_is_right(launches)
        time.sleep(0.002)
    print(launches, wrong, flush=True)


if __name__ == "__main__":
    main()
