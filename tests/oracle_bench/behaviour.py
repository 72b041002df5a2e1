"""How a code object behaves, found out without the oracle: `python behaviour.py LIBRARY`.

Reads requests from stdin (pickled, one after the other) and writes what each launch left. It talks
to the device's HIP functions by itself, puts buffers wherever hipMalloc likes, with red zones of
its own around them, and makes no run-time checks: what it sees is what the program would see.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from typing import Any

_TO_DEVICE, _FROM_DEVICE = 1, 2
_RED_ZONE = 8192
_RED = 0x3D
_POINTER, _SIZE, _END = 1, 2, 3


class Failure(Exception):
    """A HIP call failed."""


class Device:
    """The emulated device in this process."""

    def __init__(self, path: str) -> None:
        """Load it; no checks, and launches end soon when they hang."""
        self._library = ctypes.CDLL(path)
        self.option("checks", "none")
        self.option("threads", "1")
        self.option("max_wave_instructions", "2000000")

    def option(self, name: str, value: str) -> None:
        """Set one of the device's own options."""
        if self._library.asmevo_emulator_set_option(name.encode(), value.encode()) != 0:
            raise RuntimeError(f"the device knows no option {name}={value}")

    def call(self, name: str, *arguments: Any) -> None:
        """A HIP function that returns a status."""
        if (status := getattr(self._library, name)(*arguments)) != 0:
            raise Failure(f"{name} returned {status}")

    def run(self, request: dict[str, Any]) -> list[bytes]:
        """Contents of the buffers, red zones included, after one launch."""
        for name, value in request["options"].items():
            self.option(name, value)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), request["code_object"])
        name = request["kernel"].encode()
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name)
        places = [self._place(data) for data in request["buffers"]]
        kernarg = bytearray(request["kernarg"])
        for offset, index, into in request["pointers"]:
            address = (places[index].value or 0) + _RED_ZONE + into
            kernarg[offset : offset + 8] = address.to_bytes(8, "little")
        self._launch(function, request, bytes(kernarg))
        results = []
        for place, data in zip(places, request["buffers"], strict=True):
            out = ctypes.create_string_buffer(len(data) + 2 * _RED_ZONE)
            self.call("hipMemcpy", out, place, ctypes.c_size_t(len(out)), _FROM_DEVICE)
            self.call("hipFree", place)
            results.append(out.raw)
        self.call("hipModuleUnload", module)
        return results

    def _place(self, data: bytes) -> ctypes.c_void_p:
        place = ctypes.c_void_p()
        whole = bytes([_RED]) * _RED_ZONE + data + bytes([_RED]) * _RED_ZONE
        self.call("hipMalloc", ctypes.byref(place), ctypes.c_size_t(len(whole)))
        self.call("hipMemcpy", place, whole, ctypes.c_size_t(len(whole)), _TO_DEVICE)
        return place

    def _launch(self, function: ctypes.c_void_p, request: dict[str, Any], kernarg: bytes) -> None:
        segment = ctypes.create_string_buffer(kernarg, len(kernarg))
        size = ctypes.c_size_t(len(kernarg))
        extra = (ctypes.c_void_p * 5)(
            _POINTER, ctypes.addressof(segment), _SIZE, ctypes.addressof(size), _END
        )
        numbers = (*request["grid"], *request["block"], request["dynamic_lds"])
        geometry = [ctypes.c_uint(number) for number in numbers]
        self.call("hipModuleLaunchKernel", function, *geometry, None, None, extra)
        self.call("hipDeviceSynchronize")


def main() -> None:
    """Serve until stdin ends; a failed launch ends the process, the device is lost with it."""
    device = Device(sys.argv[1])
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: tuple[str, Any] = ("ok", device.run(request))
        except Failure as failure:
            answer = ("failed", str(failure))
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        if answer[0] == "failed":
            return


if __name__ == "__main__":
    main()
