"""A HIP program to capture from: threads that launch `scale` in a loop and check every result.

Usage: capture_target.py THREADS HSACO…   (thread N uses object N modulo their number)

Prints `ready`, works until stdin ends, then prints `launches wrong`.
"""

from __future__ import annotations

import array
import ctypes
import sys
import threading
import time
from pathlib import Path
from typing import Any

from hip import hip as _hip_module

hip: Any = _hip_module

ELEMENTS = 256
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, -1


def check(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if values else None


class Worker(threading.Thread):
    def __init__(self, number: int, image: bytes, stop: threading.Event) -> None:
        super().__init__()
        self.factor = float(number + 2)
        self.stop = stop
        self.launches = self.wrong = 0
        self.function = check(
            hip.hipModuleGetFunction(check(hip.hipModuleLoadData(image)), b"scale")
        )
        self.source = array.array("f", (float(i) for i in range(ELEMENTS)))
        self.result = array.array("f", bytes(4 * ELEMENTS))
        self.size = 4 * ELEMENTS
        self.x = check(hip.hipMalloc(self.size))
        self.out = check(hip.hipMalloc(self.size))
        check(
            hip.hipMemcpy(self.x, self.source, self.size, hip.hipMemcpyKind.hipMemcpyHostToDevice)
        )

    def launch(self) -> None:
        check(
            hip.hipModuleLaunchKernel(
                self.function,
                *(ELEMENTS // 64, 1, 1),
                *(64, 1, 1),
                sharedMemBytes=0,
                stream=None,
                kernelParams=None,
                extra=(self.out, self.x, ctypes.c_float(self.factor)),
            )
        )

    def run(self) -> None:
        expected = array.array("f", (value * self.factor for value in self.source))
        zeros = array.array("f", bytes(self.size))
        to_device = hip.hipMemcpyKind.hipMemcpyHostToDevice
        to_host = hip.hipMemcpyKind.hipMemcpyDeviceToHost
        while not self.stop.is_set():
            check(hip.hipMemcpy(self.out, zeros, self.size, to_device))
            self.launch()
            check(hip.hipMemcpy(self.result, self.out, self.size, to_host))
            self.launches += 1
            self.wrong += self.result != expected
            time.sleep(0.001)


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PR_SET_PTRACER_ANY), 0, 0, 0)
    stop = threading.Event()
    images = [Path(path).read_bytes() for path in sys.argv[2:]]
    workers = [Worker(n, images[n % len(images)], stop) for n in range(int(sys.argv[1]))]
    for worker in workers:
        worker.start()
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()
    for worker in workers:
        worker.join()
    print(sum(w.launches for w in workers), sum(w.wrong for w in workers), flush=True)


if __name__ == "__main__":
    main()
