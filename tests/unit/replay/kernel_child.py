"""Runs kernels on the emulated device for kernel_runner: one request a line of pickles on stdin."""

from __future__ import annotations

import ctypes
import json
import pickle
import sys
from typing import Any, BinaryIO

_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2


class _Failure(Exception):
    """A HIP call failed; the text is the device's report where there is one."""


class _Runtime:
    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.library.asmevo_emulator_last_report.restype = ctypes.c_char_p
        self.library.asmevo_emulator_set_option(b"checks", b"waits")

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            report = json.loads(self.library.asmevo_emulator_last_report() or b"{}")
            raise _Failure(str(report.get("report") or f"{name} returned {status}"))

    def allocate(self, data: bytes) -> int:
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(len(data)))
        self.call("hipMemcpy", pointer, data, ctypes.c_size_t(len(data)), _HOST_TO_DEVICE)
        return int(pointer.value or 0)

    def read(self, address: int, size: int) -> bytes:
        out = ctypes.create_string_buffer(size)
        source = ctypes.c_void_p(address)
        self.call("hipMemcpy", out, source, ctypes.c_size_t(size), _DEVICE_TO_HOST)
        return out.raw


def _run(runtime: _Runtime, request: dict[str, Any]) -> list[bytes]:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    runtime.call("hipModuleLoadData", ctypes.byref(module), request["code_object"])
    runtime.call("hipModuleGetFunction", ctypes.byref(function), module, b"kernel")
    buffers = [runtime.allocate(data) for data in request["buffers"]]
    pointers = [ctypes.c_void_p(address) for address in buffers]
    params = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(item) for item in pointers))
    geometry = [ctypes.c_uint(item) for item in (*request["grid"], *request["block"])]
    runtime.call("hipModuleLaunchKernel", function, *geometry, ctypes.c_uint(0), None, params, None)
    runtime.call("hipDeviceSynchronize")
    sizes = [len(data) for data in request["buffers"]]
    results = [runtime.read(address, size) for address, size in zip(buffers, sizes, strict=True)]
    for pointer in pointers:
        runtime.call("hipFree", pointer)
    runtime.call("hipModuleUnload", module)
    return results


def _serve(runtime: _Runtime, source: BinaryIO, sink: BinaryIO) -> None:
    while True:
        try:
            request = pickle.load(source)
        except EOFError:
            return
        try:
            answer: tuple[str, Any] = ("ok", _run(runtime, request))
        except _Failure as failure:
            answer = ("failed", str(failure))
        pickle.dump(answer, sink)
        sink.flush()


if __name__ == "__main__":
    _serve(_Runtime(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
