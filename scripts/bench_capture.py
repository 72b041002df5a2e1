"""What a capture costs its target, each figure beside that of the unhooked process in one run.

On the stub library of the tests, whose device memory is host memory: what remains is the cost of
the hooks and of the copies. Sizes of bundles are those of a program on the emulated device.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from hot_path_target import Target, arm, arm_for_capture, u64

from asmevo.capture.attach import attach
from asmevo.capture.bundle import open_bundle
from asmevo.capture.control_block import ControlBlock, RecordStatus, State
from asmevo.replay.device import Device

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
LAUNCHES, ROUNDS = 200_000, 7
THREADS = 8

# A process that launches on threads of the stub, or only has it loaded.
SERVER = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
hip.stub_stop_load.restype = ctypes.c_uint64
function = ctypes.c_void_p()
hip.hipModuleGetFunction(ctypes.byref(function), None, b"add_one")
threads = int(sys.argv[2])
if threads:
    hip.stub_start_load(function, threads)
print("ready", flush=True)
sys.stdin.read()
print(hip.stub_stop_load() if threads else 1)
"""


def build_stub(folder: Path) -> Path:
    """The stub library, as the tests build it."""
    library = folder / "libamdhip64.so"
    flags = ["-O2", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden"]
    flags.append("-Wl,-soname,libamdhip64.so")
    subprocess.run(["cc", *flags, str(FIXTURES / "stub_hip.c"), "-o", str(library)], check=True)
    return library


def ns_per_tick() -> float:
    """The processor's clock against the system's."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("cpu MHz"):
            return 1000.0 / float(line.split(":")[1])
    return 1.0


def time_launches(target: Target, function: Any) -> tuple[float, float, float]:
    """Median, 99th percentile and mean of one launch, in ticks and ns."""
    ticks = np.zeros(LAUNCHES, dtype=np.uint32)
    pointer = ctypes.c_void_p(ticks.ctypes.data)
    start = time.perf_counter_ns()
    target.hip.stub_time_launches(function, LAUNCHES, pointer)
    mean_ns = (time.perf_counter_ns() - start) / LAUNCHES
    median, p99 = np.percentile(ticks, [50, 99])
    return float(median), float(p99), mean_ns


def bench_launches(target: Target) -> dict[str, Any]:
    """Per uncaptured launch: unhooked and hooked rounds by turns."""
    tick = ns_per_tick()
    other = ctypes.c_void_p()
    target.hip.hipModuleGetFunction(ctypes.byref(other), None, b"softmax")
    rounds: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(ROUNDS):
        rounds.setdefault("before", []).append(time_launches(target, other))
        block = target.open("add_one")
        arm(block)
        rounds.setdefault("waiting for another kernel", []).append(time_launches(target, other))
        block.set_state(State.READY)
        rounds.setdefault("while a bundle is written", []).append(time_launches(target, other))
        block.set_state(State.COUNTING)
        rounds.setdefault("while launches are counted", []).append(time_launches(target, other))
        target.agent.asmevo_capture_close()
        rounds.setdefault("after", []).append(time_launches(target, other))
    base = [statistics.median(column) for column in zip(*rounds["before"], strict=True)]
    found: dict[str, Any] = {"base_ns": round(base[2], 2)}
    for name, values in rounds.items():
        median, p99, mean = (statistics.median(column) for column in zip(*values, strict=True))
        found[name] = {
            "added_median_ns": round((median - base[0]) * tick, 1),
            "added_p99_ns": round((p99 - base[1]) * tick, 1),
            "added_mean_ns": round(mean - base[2], 2),
        }
    return found


def bench_pause(target: Target, size: int, *, golden: bool) -> float:
    """Pause of the launching thread for one dispatch with so much memory, in ms; best of three."""
    block = target.open("add_one", data_bytes=(2 if golden else 1) * (size + 8192))
    block.fields.max_bytes = 1 << 40
    block.fields.takes_after = golden
    memory = target.allocate(bytes(size))
    arm_for_capture(target, block)
    pauses = []
    for _ in range(3):
        arm(block)
        target.launch(u64(memory), u64(memory), ctypes.c_uint32(0))
        record = block.fields.record
        assert record.status == RecordStatus.CAPTURED, record.reason
        pauses.append(record.pause_ns / 1e6)
    del record
    target.hip.hipFree(ctypes.c_void_p(memory))
    target.agent.asmevo_capture_close()
    return float(round(min(pauses), 3))


def bench_cycles(target: Target, cycles: int) -> dict[str, Any]:
    """In and out under launching threads; every launch must come through and be right."""
    target.hip.stub_stop_load.restype = ctypes.c_uint64
    start_launches = target.hip.stub_launches()
    target.hip.stub_start_load(target.function, THREADS)
    start = time.perf_counter()
    block: ControlBlock
    for _ in range(cycles):
        block = target.open("add_one", data_bytes=4 * 4096)
        arm(block)
        target.agent.asmevo_capture_close()
        block.close()
    seconds = time.perf_counter() - start
    launches = int(target.hip.stub_stop_load())
    done = int(target.hip.stub_launches()) - start_launches
    return {
        "cycles": cycles,
        "threads": THREADS,
        "launches": launches,
        "lost_launches": done - launches,
        "wrong_results": int(launches == 0),
        "ms_a_cycle": round(1000 * seconds / cycles, 2),
    }


def bench_attach(library: Path, threads: int) -> dict[str, float]:
    """From the command's first step until the hooks are live, and until they are out again."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(library), str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    live, off = [], []
    for _ in range(3):
        start = time.perf_counter()
        with attach(process.pid) as target:
            target.hook()
            live.append(time.perf_counter() - start)
            start = time.perf_counter()
            target.close()
            off.append(time.perf_counter() - start)
    output, _ = process.communicate("")
    assert int(output) > 0, "the target lost a launch"
    return {
        "live_s": round(statistics.median(live), 3),
        "off_ms": round(1000 * statistics.median(off), 2),
    }


def bench_sizes(folder: Path) -> dict[str, Any]:
    """Bundles of one dispatch out of a 96 MiB pool, by policy."""
    image = folder / "pool.hsaco"
    command = ["clang-22", "-x", "hip", "--offload-arch=gfx942", "-nogpuinc", "-nogpulib", "-O3"]
    command += ["--cuda-device-only", "--no-gpu-bundle-output"]
    subprocess.run([*command, str(FIXTURES / "pool_kernels.hip"), "-o", str(image)], check=True)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "e2e" / "capture_pool_target.py"), str(image)],
        env=Device.emulated(threads=1).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    found: dict[str, Any] = {}
    for policy in ("allocation", "window", "touched"):
        output = folder / policy
        arguments = ["--kernel", "gather_pages", "--policy", policy, "-o", str(output), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "asmevo", "capture", "attach", str(process.pid), *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        (item,) = json.loads(done.stdout)["bundles"]
        with open_bundle(Path(item["path"])) as bundle:
            memory = sum(region.size_bytes for region in bundle.manifest.regions)
        files = sum(path.stat().st_size for path in output.rglob("*.*") if path.is_file())
        found[policy] = {
            "memory_bytes": memory,
            "file_bytes": files,
            "pause_ms": round(item["pause_ms"], 2),
        }
    _, wrong = process.communicate("")[0].split()
    assert wrong == "0"
    whole, touched = found["allocation"]["memory_bytes"], found["touched"]["memory_bytes"]
    found["memory_ratio"] = round(whole / touched)
    return found


def main() -> None:
    """Measure everything and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=5000, help="times in and out under load")
    parser.add_argument("--largest-mib", type=int, default=1024, help="of the pauses")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build_stub(folder)
        target = Target(library)
        figures = {
            "cores": os.cpu_count(),
            "launch": bench_launches(target),
            "pause_ms": {
                f"{mib} MiB": {
                    "golden": bench_pause(target, mib << 20, golden=True),
                    "no_golden": bench_pause(target, mib << 20, golden=False),
                }
                for mib in (1, 64, 1024)
                if mib <= options.largest_mib
            },
            "on_off": bench_cycles(target, options.cycles),
            "attach_idle": bench_attach(library, 0),
            "attach_under_load": bench_attach(library, 4),
            "bundle": bench_sizes(folder),
        }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
