"""Speed of the emulated device, in wave instructions and multiply-adds per CPU second and core.

Every workload is an assembled gfx942 kernel whose loop holds one kind of work; the matmul is
Triton's. CPU seconds are those of the process, so another load on the machine shows less than in
wall time; the best of several launches counts.

    scripts/bench_emulator [--only NAME] [--repeat N] [--library FILE] [--json]

ASMEVO_EMULATOR_VECTOR_WIDTH=256 or 512 chooses the handlers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench_emulator_workloads import (
    ARCH,
    Workload,
    instruction_workloads,
    matrix_workloads,
    source,
)

from asmevo import native
from asmevo.codeobject.toolchain import assemble, link

__all__ = ["main"]

_BUFFER_BYTES = 1 << 22
_MATMUL_SIZE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch: what it took, and what the device says of it."""

    cpu_seconds: float
    wall_seconds: float
    report: dict[str, Any]


class Device:
    """The emulated device's library, in this process."""

    def __init__(self, library: str) -> None:
        self.hip = ctypes.CDLL(library or str(native.emulator_library()))
        self.hip.asmevo_emulator_last_report.restype = ctypes.c_char_p
        self.vector_width = int(self.hip.asmevo_emulator_vector_width())

    def option(self, name: str, value: str) -> None:
        if self.hip.asmevo_emulator_set_option(name.encode(), value.encode()) != 0:
            raise SystemExit(f"the device has no option {name}={value}")

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.hip, name)(*arguments)
        if status != 0:
            raise SystemExit(f"{name}: error {status}")

    def function(self, image: bytes, name: str) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), image)
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def buffer(self, data: bytes) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(len(data)))
        self.call("hipMemcpy", pointer, data, ctypes.c_size_t(len(data)), 1)
        return pointer

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: tuple[int, int],
        arguments: list[Any],
        *,
        dynamic_lds: int = 0,
    ) -> Launch:
        """Launch workgroups of 256 work-items and wait."""
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        shape = [ctypes.c_uint(value) for value in (*grid, 1, 256, 1, 1, dynamic_lds)]
        cpu, wall = time.process_time(), time.perf_counter()
        self.call("hipModuleLaunchKernel", function, *shape, None, pointers, None)
        self.call("hipDeviceSynchronize")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        report = json.loads(self.hip.asmevo_emulator_last_report())
        return Launch(cpu_seconds=cpu, wall_seconds=wall, report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement."""

    workload: str
    mode: str
    value: float
    unit: str


def _set(device: Device, *, checks: str = "none", timing: str = "0", mfma: str = "exact") -> None:
    device.option("checks", checks)
    device.option("timing", timing)
    device.option("mfma", mfma)
    device.option("on_finding", "collect")


class Bench:
    """Measures and prints, a part after another."""

    def __init__(self, device: Device, *, only: str, repeat: int, quiet: bool) -> None:
        self.device = device
        self.only = only
        self.repeat = repeat
        self.quiet = quiet
        self.figures: list[Figure] = []

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)

    def note(self, workload: str, mode: str, value: float, unit: str) -> float:
        self.figures.append(Figure(workload=workload, mode=mode, value=value, unit=unit))
        return value

    def rates(self, work: Workload, modes: Sequence[Mapping[str, str]]) -> list[float]:
        """Millions of wave instructions, or billions of multiply-adds, a CPU second in each mode.

        The modes take turns, so that what else the machine does meets all of them alike.
        """
        function = self.device.function(link(assemble(source(work), ARCH)), "k")
        arguments = [self.device.buffer(bytes(_BUFFER_BYTES)) for _ in range(2)]
        best = [0.0] * len(modes)
        for _ in range(self.repeat):
            for place, mode in enumerate(modes):
                _set(self.device, **mode)
                done = self.device.launch(function, (4, 1), arguments)
                if done.report["findings"]:
                    raise SystemExit(f"{work.name}: {done.report['findings'][0]['message']}")
                macs = work.macs * work.rounds * done.report["waves"]
                amount = macs / 1e9 if work.macs else done.report["wave_instructions"] / 1e6
                best[place] = max(best[place], amount / done.cpu_seconds)
        return best

    def instructions(self) -> None:
        """Every workload with checks off and on, and with timing modelled."""
        self.say("million wave instructions a CPU second, one thread")
        self.say(f"{'':22} {'checks off':>10} {'on':>8} {'costs':>8} {'timing, off':>12} {'on':>8}")
        for work in self.chosen(instruction_workloads()):
            modes = [
                {"checks": checks, "timing": timing}
                for timing in ("0", "1")
                for checks in ("none", "all")
            ]
            row = self.rates(work, modes)
            for mode, value in zip(modes, row, strict=True):
                self.note(work.name, ", ".join(f"{k} {v}" for k, v in mode.items()), value, "M/s")
            off, on, timed_off, timed_on = row
            cost = f"{off / on:.2f}x"
            self.say(
                f"{work.name:22} {off:10.1f} {on:8.1f} {cost:>8} {timed_off:12.1f} {timed_on:8.1f}"
            )

    def matrices(self) -> None:
        """Matrix operations, exact and fast."""
        self.say("billion multiply-adds a CPU second, one thread, checks off")
        self.say(f"{'':32} {'exact':>8} {'fast':>8}")
        for work in self.chosen(matrix_workloads()):
            row = self.rates(work, [{"mfma": "exact"}, {"mfma": "fast"}])
            for mode, value in zip(("exact", "fast"), row, strict=True):
                self.note(work.name, mode, value, "GMAC/s")
            self.say(f"{work.name:32} {row[0]:8.2f} {row[1]:8.2f}")

    def threads(self) -> None:
        """Independent workgroups on one and on two host threads, in turn."""
        work = next(work for work in instruction_workloads() if work.name == "elementwise mix")
        if self.only not in "threads":
            return
        _set(self.device)
        function = self.device.function(link(assemble(source(work), ARCH)), "k")
        arguments = [self.device.buffer(bytes(_BUFFER_BYTES)) for _ in range(2)]
        best: dict[str, Launch] = {}
        for _ in range(self.repeat):
            for count in ("1", "2"):
                self.device.option("threads", count)
                done = self.device.launch(function, (32, 1), arguments)
                if count not in best or done.wall_seconds < best[count].wall_seconds:
                    best[count] = done
        self.device.option("threads", "1")
        one, two = best["1"], best["2"]
        gain = self.note("elementwise mix", "2 threads", one.wall_seconds / two.wall_seconds, "x")
        busy = two.cpu_seconds / two.wall_seconds
        self.say(
            f"elementwise mix, 32 workgroups: {one.wall_seconds:.3f} s on one thread, "
            f"{two.wall_seconds:.3f} s on two: {gain:.2f}x, {busy:.2f} cores busy"
        )

    def matmul(self) -> None:
        """Triton's matmul, exact, fast and with all checks."""
        compiled = _compile_matmul() if self.only in "matmul" else None
        if compiled is None:
            return
        size = _MATMUL_SIZE
        function = self.device.function(compiled[0], "matmul_kernel")
        data = bytes(bytearray(b"\x00\x3c\x00\x38" * (size * size // 2)))
        a, b, c = (self.device.buffer(data) for _ in range(3))
        scratch = ctypes.c_void_p(0)  # Triton's two hidden pointers
        arguments = [a, b, c, ctypes.c_int(size), scratch, scratch]
        grid = (size // 128, size // 128)
        row = []
        for mode, settings in {
            "exact": {},
            "fast": {"mfma": "fast"},
            "exact, all checks": {"checks": "all"},
        }.items():
            _set(self.device, **settings)
            seconds = min(
                self.device.launch(function, grid, arguments, dynamic_lds=compiled[1]).cpu_seconds
                for _ in range(2)
            )
            self.note(f"matmul {size} fp16", mode, seconds, "core-seconds")
            row.append(f"{seconds:.2f} {mode}")
        self.say(f"matmul of {size} cubed in fp16, core-seconds: {', '.join(row)}")

    def chosen(self, works: Iterator[Workload]) -> Iterator[Workload]:
        return (work for work in works if self.only in work.name)


def _compile_matmul() -> tuple[bytes, int] | None:
    """Code object and bytes of dynamic LDS; None without Triton."""
    try:
        import triton
        from bench_emulator_matmul import matmul_kernel
        from triton.backends.compiler import GPUTarget
    except ImportError:
        print("matmul: needs triton", file=sys.stderr)
        return None
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "size": "i32"}
    blocks = {"rows": 128, "columns": 128, "depth": 64}
    text = triton.compiler.ASTSource(
        fn=matmul_kernel,
        signature=signature | dict.fromkeys(blocks, "constexpr"),
        constexprs={(4 + place,): value for place, value in enumerate(blocks.values())},
        attrs={(n,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for n in range(3)}
        | {(3,): [["tt.divisibility", 16]]},
    )
    compiled = triton.compile(text, target=GPUTarget("hip", ARCH, 64))
    return bytes(compiled.asm["hsaco"]), int(compiled.metadata.shared)


def _cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, "unknown CPU")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", default="", help="workloads whose name holds this text; threads; matmul"
    )
    parser.add_argument("--repeat", type=int, default=6, help="launches of which the best counts")
    parser.add_argument("--library", default="", help="another build's libamdhip64.so")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = Device(options.library)
    device.option("threads", "1")
    bench = Bench(device, only=options.only, repeat=max(1, options.repeat), quiet=options.json)
    bench.say(
        f"{time.strftime('%Y-%m-%d')}, {_cpu_name()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}, vectors of {device.vector_width} bits"
    )
    bench.instructions()
    bench.matrices()
    bench.threads()
    bench.matmul()
    if options.json:
        json.dump([asdict(figure) for figure in bench.figures], sys.stdout, indent=1)


if __name__ == "__main__":
    main()
