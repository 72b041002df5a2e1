"""Speed and memory of a replay on the emulated device; figures are of this machine.

Candidates judged: K0 of a small softmax as its own candidate, again and again, with all checks on,
in every order and both states; processor time of engine and worker together. Restoring: one process
that holds a bundle of the size given, as a worker does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests" / "oracle_bench"), str(_ROOT / "tests")]

from asmevo.capture.bundle import open_bundle  # noqa: E402
from asmevo.codeobject import toolchain  # noqa: E402
from asmevo.replay.device import Device  # noqa: E402
from asmevo.replay.engine import ReplaySession  # noqa: E402

_ADDRESS = 0x7D0000000000
_PIECE = 16 << 20


def measure_candidates(folder: Path, count: int) -> dict[str, Any]:
    """Candidates judged in a second of processor time."""
    from bench_bundles import BENCH_KERNELS, write_bundles

    (softmax,) = (kernel for kernel in BENCH_KERNELS if kernel.name == "softmax")
    bundle = write_bundles(softmax, folder).captured
    candidate = folder / "softmax.hsaco"
    with open_bundle(bundle) as opened:
        candidate.write_bytes(opened.code_object())
        size = sum(region.size_bytes for region in opened.manifest.regions)
    with ReplaySession(bundle, device=Device.emulated(arch="gfx942", threads=1)) as session:
        first = session.run(candidate)  # modules are loaded, caches are warm
        assert first.verdict.has_passed, first.verdict.reasons
        (worker,) = _workers()
        before, start = time.process_time() + _cpu_seconds(worker), time.monotonic()
        for _ in range(count):
            session.run(candidate)
        used = time.process_time() + _cpu_seconds(worker) - before
        elapsed = time.monotonic() - start
    return {
        "bundle_bytes": size,
        "launches_per_candidate": len(first.comparisons),
        "candidates_per_cpu_second": count / used,
        "candidates_per_second": count / elapsed,
    }


def _workers() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"asmevo.replay.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield int(child)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_memory(folder: Path, megabytes: int) -> dict[str, Any]:
    """A process that restores a large bundle: rates in GB of contents a second of its own time."""
    bundle = _write_large(folder, megabytes << 20)
    done = subprocess.run(
        [sys.executable, __file__, "--restore", str(bundle)],
        env=Device.emulated(arch="gfx942", discrete=True).environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return {"file_bytes": bundle.stat().st_size, **result}


def _write_large(folder: Path, size: int) -> Path:
    """A bundle with one large input, half of it random, and one small output."""
    from small_bundle import Buffer, write_small_bundle

    random = np.random.default_rng(1)
    half = random.integers(0, 256, size // 2, dtype=np.uint8).tobytes()
    source = (_ROOT / "tests" / "fixtures" / "scale.s").read_text()
    return write_small_bundle(
        folder / "large.aeb",
        kernel="scale",
        code_object=toolchain.link(toolchain.assemble(source, "gfx942")),
        buffers=[
            Buffer(address=_ADDRESS, before=bytes(1 << 20)),
            Buffer(address=_ADDRESS + (1 << 32), before=half + bytes(size - size // 2)),
        ],
        scalars=np.float32(3).tobytes(),
    )


def restore(path: Path) -> dict[str, Any]:
    """What a worker does with a bundle, timed; in a process of its own."""
    from asmevo.replay.comparison import RegionFacts
    from asmevo.replay.hip_runtime import HipRuntime
    from asmevo.replay.restore import RestoredMemory

    with open_bundle(path) as bundle:
        runtime = HipRuntime(is_emulated=True)
        regions = bundle.manifest.regions
        facts = {region.index: RegionFacts(index=region.index, address=0) for region in regions}
        size = sum(region.size_bytes for region in regions)
        base = _resident_bytes()
        used = []
        start = time.process_time()
        memory = RestoredMemory(bundle, runtime, ())
        loaded = time.process_time()
        used.append(_resident_bytes())
        memory.restore()
        first = time.process_time()
        for _ in range(3):
            memory.restore(second_state=True)
        restored = time.process_time()
        image = memory.snapshot()
        comparison = memory.compare(image.chunks, facts, against="itself")
        compared = time.process_time()
        used.append(_resident_bytes())
        assert comparison.has_passed
    return {
        "bundle_bytes": size,
        "load_gb_per_s": size / (loaded - start) / 1e9,
        "first_restore_gb_per_s": size / (first - loaded) / 1e9,
        "restore_gb_per_s": 3 * size / (restored - first) / 1e9,
        "compare_gb_per_s": 2 * size / (compared - restored) / 1e9,
        "memory_over_bundle_size": (max(used) - base) / size,
    }


def _resident_bytes() -> int:
    """Memory of its own, copies of pages among it, and the device's, mapped or not."""
    return _status_bytes("RssAnon") + _device_bytes()


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0


def _device_bytes() -> int:
    """Memory files of the emulated device."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if "memfd:asmevo-device-memory" in str(entry.readlink()):
                total += os.stat(entry).st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=256, help="of the large bundle")
    parser.add_argument("--restore", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.restore is not None:
        print(json.dumps(restore(arguments.restore)))
        return
    with tempfile.TemporaryDirectory() as folder:
        small = measure_candidates(Path(folder), arguments.candidates)
        large = measure_memory(Path(folder), arguments.megabytes)
    for title, figures in (("small softmax", small), ("large bundle", large)):
        print(title)
        for name, value in figures.items():
            print(
                f"  {name:28} {value:,.2f}"
                if isinstance(value, float)
                else f"  {name:28} {value:,}"
            )


if __name__ == "__main__":
    main()
