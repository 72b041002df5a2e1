"""A HIP program to capture from that launches its kernel in graphs only.

Usage: capture_graph_target.py HSACO

`scale` three times in a row, x → y → z → w, captured from a stream; the graph is made anew now and
then and destroyed once it is instantiated, as torch does. Prints `ready`, works until stdin ends,
then prints `launches wrong`.
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
BYTES = 4 * ELEMENTS


def check(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if values else None


class Program:
    def __init__(self, image: bytes) -> None:
        self.function = check(
            hip.hipModuleGetFunction(check(hip.hipModuleLoadData(image)), b"scale")
        )
        self.memory = [check(hip.hipMalloc(BYTES)) for _ in range(4)]
        self.source = array.array("f", (float(i) for i in range(ELEMENTS)))
        self.zeros = array.array("f", bytes(BYTES))
        self.result = array.array("f", bytes(BYTES))
        kinds = hip.hipMemcpyKind
        self.to_device, self.to_host = kinds.hipMemcpyHostToDevice, kinds.hipMemcpyDeviceToHost
        check(hip.hipMemcpy(self.memory[0], self.source, BYTES, self.to_device))
        self.stream = check(hip.hipStreamCreate())

    def make_graph(self) -> Any:
        mode = hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
        check(hip.hipStreamBeginCapture(self.stream, mode))
        for i in range(3):
            check(
                hip.hipModuleLaunchKernel(
                    self.function,
                    *(ELEMENTS // 64, 1, 1),
                    *(64, 1, 1),
                    sharedMemBytes=0,
                    stream=self.stream,
                    kernelParams=None,
                    extra=(self.memory[i + 1], self.memory[i], ctypes.c_float(2.0)),
                )
            )
        graph = check(hip.hipStreamEndCapture(self.stream))
        executable = check(hip.hipGraphInstantiateWithFlags(graph, 0))
        check(hip.hipGraphDestroy(graph))
        return executable

    def launch(self, executable: Any) -> bool:
        """Whether the result is right."""
        for memory in self.memory[1:]:
            check(hip.hipMemcpy(memory, self.zeros, BYTES, self.to_device))
        check(hip.hipGraphLaunch(executable, self.stream))
        check(hip.hipStreamSynchronize(self.stream))
        check(hip.hipMemcpy(self.result, self.memory[3], BYTES, self.to_host))
        return self.result == array.array("f", (8.0 * value for value in self.source))


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
        executable = program.make_graph()
        for _ in range(20):
            wrong += not program.launch(executable)
            launches += 1
            time.sleep(0.002)
        check(hip.hipGraphExecDestroy(executable))
    print(launches, wrong, flush=True)


if __name__ == "__main__":
    main()
