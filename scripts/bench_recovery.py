"""Speed of recovery, and what the peer codiss makes of the same files in the same run.

Three parts: the round trip of a sample of production code objects on all cores; the time from an
edited window to a checked code object in memory, for a kernel of about 4,000 instructions; and
codiss 0.1.1 (PyPI feifei-hsa-elf-diss, fetched by hash and only run) beside our recovery, file by
file. Times are wall-clock and, as another load on the machine hardly shows in them, CPU times.

    scripts/bench_recovery [--objects N] [--edits N] [--seed N] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fetch_inputs import KERNEL_INPUTS, Input, download, get_cache

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare
from asmevo.codeobject.containers import find_code_objects
from asmevo.codeobject.emit import emit
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.llvm import Role, find_tool
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.roundtrip import CHECKED_TARGETS, RoundTrip, target_of
from asmevo.codeobject.roundtrip_run import run, usable_cores
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import AsmevoError

__all__ = ["main"]

PEER = Input(
    name="feifei_hsa_elf_diss",
    version="0.1.1",
    sha256="d1d14a6677e4117f6685316cb3efe59caba867f4dcd4c84868b11f193f447492",
    members=("codiss/",),
)
_WANTED_INSTRUCTIONS = 4000
_TICKS = os.sysconf("SC_CLK_TCK")
_PEER_TIMEOUT_S = 120


@dataclass(slots=True, kw_only=True)
class Share:
    """What one tool made of the files of one kind."""

    files: int = 0
    assembled: int = 0
    """Its text assembles and links."""
    code_exact: int = 0
    """`.text`, descriptors and metadata are the original's."""
    all_exact: int = 0
    """Flags, symbols and data as well."""
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def add(self, source: CodeObject, rebuilt: CodeObject | None) -> None:
        """Count one file."""
        self.files += 1
        if rebuilt is None:
            return
        parts = {one.part for one in compare(source, rebuilt)}
        self.assembled += 1
        self.code_exact += not parts & {".text", "descriptor", "metadata"}
        self.all_exact += not parts

    def to_json(self) -> dict[str, Any]:
        """Counts, and means of the times."""
        counts = {name: getattr(self, name) for name in self.__slots__[:4]}
        return counts | {
            name: round(statistics.fmean(getattr(self, name)), 1)
            for name in ("wall_ms", "cpu_ms")
            if getattr(self, name)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One file of the sample."""

    path: Path
    kind: str
    """Where it is from and for which processor."""


def unpack_sample(folder: Path, count: int, chance: random.Random) -> list[Sample]:
    """AITER's `.co` of both processors and bitsandbytes' objects, `count` of the former in all."""
    wheels = get_cache() / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    inputs = {one.name: one for one in KERNEL_INPUTS}
    samples = []
    with zipfile.ZipFile(download(inputs["amd_aiter"], wheels)) as archive:
        for target in ("gfx942", "gfx950"):
            names = sorted(
                name
                for name in archive.namelist()
                if f"/{target}/" in name and name.endswith(".co")
            )
            for name in chance.sample(names, min(len(names), count // 2)):
                path = folder / name.replace("/", "-")
                path.write_bytes(archive.read(name))
                samples.append(Sample(path=path, kind=f"AITER {target}"))
    with zipfile.ZipFile(download(inputs["bitsandbytes"], wheels)) as archive:
        library = folder / "library.so"
        library.write_bytes(archive.read("bitsandbytes/libbitsandbytes_rocm72.so"))
    for number, found in enumerate(find_code_objects(library)):
        if (target := target_of(found.data)) in CHECKED_TARGETS:
            path = folder / f"bitsandbytes-{number}-{target}.co"
            path.write_bytes(found.data)
            samples.append(Sample(path=path, kind="bitsandbytes"))
    library.unlink()
    return samples


@contextlib.contextmanager
def measure(share: Share) -> Iterator[None]:
    """Add the time that the block takes to `share`."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    yield
    share.wall_ms.append(1e3 * (time.perf_counter() - wall))
    share.cpu_ms.append(1e3 * (cpu_seconds() - cpu))


def cpu_seconds() -> float:
    """CPU time of this process and of its children, those that still run included."""
    times = os.times()
    total = times.user + times.system + times.children_user + times.children_system
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getpid():
                    total += (int(fields[11]) + int(fields[12])) / _TICKS
    return total


class Quiet:
    """Observes a run without a word."""

    def done(self, result: RoundTrip) -> None:
        """One object."""

    def file_read(self, count: int) -> None:
        """One file."""


def bench_round_trip(samples: Sequence[Sample]) -> dict[str, Any]:
    """All files on all cores."""
    start, cpu = time.perf_counter(), cpu_seconds()
    totals = run([one.path for one in samples], Quiet(), jobs=usable_cores())
    wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    return {
        "objects": totals.objects,
        "exact": totals.exact,
        "instructions": totals.instructions,
        "kept_as_bytes": totals.kept_as_bytes,
        "processes": usable_cores(),
        "objects_per_s": round(totals.objects / wall, 2),
        "cpu_ms_per_object": round(1e3 * cpu / totals.objects, 1),
    }


def bench_edits(samples: Sequence[Sample], count: int, chance: random.Random) -> dict[str, Any]:
    """Single-window edits of the kernel whose length is nearest to the wanted one."""
    listing = _kernel_of_length(samples)
    kernel = listing.kernels[0]
    kept = [one for one in listing.instructions if one.id not in listing.glued | listing.pinned]
    kept = kept[:-1]
    vgprs = listing.source.kernels[0].fields.accum_offset
    walls, cpus, parts, equal = [], [], [], 0
    for number in range(count + 5):
        place = chance.choice(kept).id
        registers = [chance.randrange(vgprs) for _ in range(3)]
        first, second, third = registers
        literal = chance.randrange(1 << 8, 1 << 31)
        window = [
            f"s_nop {chance.randrange(8)}",
            f"v_add_f32_e32 v{first}, v{second}, v{third}",
            f"v_xor_b32_e32 v{first}, {literal:#x}, v{second}",
        ]
        start, cpu = time.perf_counter(), time.process_time()
        edited = listing.insert_after(place, window)
        between = time.perf_counter()
        data = rebuild_listing(edited)
        end = time.perf_counter()
        if number >= 5:
            walls.append(1e3 * (end - start))
            cpus.append(1e3 * (time.process_time() - cpu))
            parts.append(1e3 * (between - start))
        if number < 5:
            equal += data == link(assemble(emit(edited).text, edited.arch))
    start = time.perf_counter()
    link(assemble(emit(edited).text, edited.arch))
    tools = 1e3 * (time.perf_counter() - start)
    ordered = sorted(walls)
    return {
        "kernel": kernel.name,
        "instructions": len(listing.instructions),
        "edits": count,
        "wall_ms_median": round(statistics.median(walls), 2),
        "wall_ms_p90": round(ordered[int(0.9 * len(ordered))], 2),
        "wall_ms_least": round(ordered[0], 2),
        "cpu_ms_median": round(statistics.median(cpus), 2),
        "of_which_edit_ms": round(statistics.median(parts), 2),
        "same_bytes_as_assembler_and_linker": f"{equal} of 5",
        "assembler_and_linker_alone_ms": round(tools, 1),
    }


def _kernel_of_length(samples: Sequence[Sample]) -> Listing:
    def miss(sample: Sample) -> int:
        # Eight bytes an instruction or so, until it is decoded.
        return abs(sample.path.stat().st_size - 7 * _WANTED_INSTRUCTIONS)

    nearest = sorted((one for one in samples if one.kind.startswith("AITER")), key=miss)[:6]
    listings = [recover(one.path.read_bytes()) for one in nearest]
    usable = [one for one in listings if not one.edit_blockers and len(one.kernels) == 1]
    if not usable:
        sys.exit("no kernel of the sample can be edited; take more --objects")
    return min(usable, key=lambda one: abs(len(one.instructions) - _WANTED_INSTRUCTIONS))


def bench_peer(samples: Sequence[Sample], folder: Path) -> dict[str, dict[str, Any]]:
    """Both tools, one file after the other."""
    with zipfile.ZipFile(download(PEER, get_cache() / "wheels")) as archive:
        archive.extractall(folder / "peer")
    ours: dict[str, Share] = {}
    theirs: dict[str, Share] = {}
    for sample in samples:
        data = sample.path.read_bytes()
        source = CodeObject.read(data)
        share = ours.setdefault(sample.kind, Share())
        with measure(share):
            rebuilt = _recover(data)
        share.add(source, rebuilt)
        share = theirs.setdefault(sample.kind, Share())
        with measure(share):
            rebuilt = _run_peer(sample.path, folder, source)
        share.add(source, rebuilt)
    return {
        kind: {"asmevo": ours[kind].to_json(), "codiss": theirs[kind].to_json()} for kind in ours
    }


def _recover(data: bytes) -> CodeObject | None:
    """Text, assembled, linked and compared: recovery proves itself."""
    try:
        return recover(data).base
    except AsmevoError:
        return None


def _run_peer(path: Path, folder: Path, source: CodeObject) -> CodeObject | None:
    """Its text, assembled and linked by the same LLVM; it proves nothing itself."""
    output = folder / "peer.s"
    output.unlink(missing_ok=True)
    command = [sys.executable, str(folder / "peer" / "codiss" / "tools" / "codiss.py")]
    objdump = find_tool(Role.DISASSEMBLER).path
    command += ["-i", str(path), "-o", str(output), "--objdump", objdump]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PEER_TIMEOUT_S, check=False)
        text = output.read_text() if done.returncode == 0 else ""
        return CodeObject.read(link(assemble(text, source.target))) if text else None
    except (AsmevoError, OSError, ValueError, subprocess.TimeoutExpired):
        return None


def main() -> None:
    """Run all parts and print what they measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=60, help="AITER files in the sample (60)")
    parser.add_argument("--edits", type=int, default=200, help="edits to time (200)")
    parser.add_argument("--seed", type=int, default=1, help="which files and edits (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="asmevo-bench-") as name:
        folder = Path(name)
        samples = unpack_sample(folder, arguments.objects, chance)
        results: dict[str, Any] = {
            "load": os.getloadavg()[0],
            "edit": bench_edits(samples, arguments.edits, chance),
            "round_trip": bench_round_trip(samples),
            "peer": bench_peer(samples, folder),
        }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for part in ("edit", "round_trip"):
        print(part.replace("_", " "))
        for key, value in results[part].items():
            print(f"  {key.replace('_', ' ')}: {value}")
    for kind, tools in results["peer"].items():
        print(kind)
        for tool, counts in tools.items():
            print(
                f"  {tool}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in counts.items())
            )


if __name__ == "__main__":
    main()
