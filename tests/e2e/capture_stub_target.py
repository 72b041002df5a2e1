"""A program on the stub library, which offers ROCm's documented calls and nothing else.

Usage: capture_stub_target.py HSACO STUB…   (one thread on each copy of the stub)

Its function is called `scale`, as the kernel of the code object, whose image is only in its memory.
Prints `ready`, launches until stdin ends, then prints `launches wrong`.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from pathlib import Path
from typing import Any

BYTES = 256


class Worker(threading.Thread):
    def __init__(self, path: str, image: bytes, is_over: threading.Event) -> None:
        super().__init__()
        self.hip: Any = ctypes.CDLL(path)
        self.is_over = is_over
        self.launches = self.wrong = 0
        self.image = ctypes.create_string_buffer(image, len(image))
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.hip.hipModuleLoadData(ctypes.byref(module), self.image)
        self.hip.hipModuleGetFunction(ctypes.byref(self.function), module, b"scale")
        self.source, self.out = ctypes.c_void_p(), ctypes.c_void_p()
        for pointer in (self.source, self.out):
            self.hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(BYTES))

    def run(self) -> None:
        assert self.source.value
        assert self.out.value
        count = ctypes.c_uint32(BYTES)
        values = (self.out, self.source, count)
        params = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        geometry = (1, 1, 1, 64, 1, 1, 0)
        while not self.is_over.is_set():
            ctypes.memset(self.source.value, self.launches % 100, BYTES)
            self.hip.hipModuleLaunchKernel(self.function, *geometry, None, params, None)
            expected = bytes([self.launches % 100 + 1]) * BYTES
            self.wrong += ctypes.string_at(self.out.value, BYTES) != expected
            self.launches += 1
            time.sleep(0.001)


def main() -> None:
    is_over = threading.Event()
    image = Path(sys.argv[1]).read_bytes()
    workers = [Worker(path, image, is_over) for path in sys.argv[2:]]
    for worker in workers:
        worker.start()
    print("ready", flush=True)
    sys.stdin.read()
    is_over.set()
    for worker in workers:
        worker.join()
    print(sum(w.launches for w in workers), sum(w.wrong for w in workers), flush=True)


if __name__ == "__main__":
    main()
