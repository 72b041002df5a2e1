"""The main job, end to end, on the emulated device, through the command line that users have.

A server answers HTTP requests with Triton kernels. Its kernels are captured while it serves,
replayed, recovered, optimized and swapped back in; every step is verified, and the first that is
not ends the demo with exit code 1.

    python scripts/demo.py [-o DIR] [--json]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(_ROOT / "tests" / "e2e" / "server"))

from client import Answer, DemoServer  # noqa: E402

from asmevo.replay.device import Device  # noqa: E402

DISPATCHES = 2
# Answer name -> kernel symbol.
KERNELS: Mapping[str, str] = {
    "softmax": "softmax_kernel",
    "rms_norm": "add_rms_norm_kernel",
    "matmul": "matmul_kernel",
    "merge_attn_states": "merge_attn_states_kernel",
}
Answers = dict[str, dict[str, str]]
"""By kernel: SHA-256 of each output."""
_SEED = 1
_ASMEVO = (sys.executable, "-m", "asmevo")
_console = Console(stderr=True, highlight=False)


class NotVerifiedError(Exception):
    """A step did not do what it must."""


@dataclass(slots=True, kw_only=True)
class Row:
    """What the demo says of one kernel in the end."""

    kernel: str
    bundles: list[Path] = field(default_factory=list)
    bundle_bytes: int = 0
    tried: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    modelled_cycles_before: int = 0
    modelled_cycles_after: int = 0
    answers_compared: int = 0


def run(*arguments: str | Path, expect: int = 0, timeout_s: float = 900) -> dict[str, Any]:
    """Run an asmevo command with `--json`; its object, or NotVerifiedError."""
    command = [*_ASMEVO, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    shown = "asmevo " + " ".join(map(str, arguments))
    if done.returncode != expect:
        raise NotVerifiedError(f"`{shown}` ended with {done.returncode}: {done.stderr[-1500:]}")
    return json.loads(done.stdout) if "--json" in arguments else {}


def require(condition: bool, message: str) -> None:
    """Raise NotVerifiedError with `message` unless `condition` holds."""
    if not condition:
        raise NotVerifiedError(message)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Show a step while it runs and how long it took."""
    started = time.monotonic()
    with _console.status(title):
        yield
    _console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - started:.1f} s[/]")


def hashes(answer: Answer) -> dict[str, str]:
    """SHA-256 of every output of an answer."""
    return {name: output["sha256"] for name, output in answer["outputs"].items()}


def ask_all(server: DemoServer) -> Answers:
    """One answer of every kernel, each checked against torch."""
    return {name: hashes(server.run_checked(name, seed=_SEED)) for name in KERNELS}


def capture(server: DemoServer, folder: Path, expected: Answers) -> tuple[list[Path], Counter[str]]:
    """Capture dispatches of all kernels from the serving process.

    Every answer meanwhile is compared with the expected one. Gives the bundles, and how many
    answers of each kernel were compared.
    """
    stop = threading.Event()
    asked: Counter[str] = Counter()
    wrong: Counter[str] = Counter()

    def keep_asking() -> None:
        for name in itertools.cycle(KERNELS):
            if stop.is_set():
                return
            try:
                answer = hashes(server.run(name, seed=_SEED))
            except (OSError, RuntimeError):
                answer = {}
            asked[name] += 1
            wrong[name] += answer != expected[name]

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        globs = [part for symbol in KERNELS.values() for part in ("--kernel", symbol)]
        done = run(
            "capture", "attach", str(server.pid), *globs, "--count", str(DISPATCHES),
            "-o", folder, "--json",
        )  # fmt: skip
    finally:
        stop.set()
        asking.join()
    require(not wrong.total(), f"wrong answers while capturing: {dict(wrong)}")
    return [Path(bundle["path"]) for bundle in done["bundles"]], asked


def sort_bundles(paths: list[Path]) -> dict[str, Row]:
    """Verify all bundles and put them to their kernels."""
    rows = {symbol: Row(kernel=symbol) for symbol in KERNELS.values()}
    run("bundle", "verify", *paths, "--json")
    for shown in run("bundle", "show", *paths, "--json")["bundles"]:
        row = rows[shown["dispatch"]["kernel"]]
        row.bundles.append(Path(shown["path"]))
        row.bundle_bytes += Path(shown["path"]).stat().st_size
    for row in rows.values():
        require(len(row.bundles) >= DISPATCHES, f"{row.kernel}: {len(row.bundles)} dispatches")
    return rows


def replay(row: Row) -> None:
    """K0 gives the golden output again from every bundle."""
    for bundle in row.bundles:
        result = run("replay", bundle, "--json")
        status = result["verdict"]["status"]
        require(status == "passed", f"{bundle.name}: {result['verdict']}")


def recover(row: Row, folder: Path) -> Path:
    """The recovered assembly of K0 gives K0 back."""
    from asmevo.capture.bundle import open_bundle
    from asmevo.codeobject.code_object import CodeObject
    from asmevo.codeobject.compare import compare

    original, text, rebuilt = (
        folder / f"{row.kernel}{end}" for end in (".hsaco", ".s", ".re.hsaco")
    )
    with open_bundle(row.bundles[0]) as bundle:
        original.write_bytes(bundle.code_object())
    run("recover", original, "-o", text)
    run("rebuild", text, "-o", rebuilt)
    differences = compare(*(CodeObject.read(path.read_bytes()) for path in (original, rebuilt)))
    require(not differences, f"{row.kernel}: rebuilt differs: {differences[:1]}")
    return text


def show_divergence(row: Row, text: Path) -> str:
    """A candidate with one instruction changed is found out."""
    lines = text.read_text().splitlines()
    where = next(n for n, line in enumerate(lines) if line.split()[:1] == ["v_mul_f32_e32"])
    lines[where] = lines[where].replace("v_mul_f32_e32", "v_add_f32_e32")
    changed, candidate = text.with_suffix(".wrong.s"), text.with_suffix(".wrong.hsaco")
    changed.write_text("\n".join(lines) + "\n")
    run("rebuild", changed, "-o", candidate)
    result = run("replay", row.bundles[0], "--hsaco", candidate, "--json", expect=1)
    (judged,) = result["candidates"]
    require(judged["verdict"]["status"] == "divergent", f"not divergent: {judged['verdict']}")
    return str(judged["verdict"]["reasons"][0])


def optimize(row: Row, folder: Path, candidates: int) -> None:
    """Search; at least one candidate must have passed every gate."""
    run("optimize", *row.bundles, "-o", folder, "--max-candidates", str(candidates), "--json")
    summary = json.loads((folder / "summary.json").read_text())
    row.tried = summary["attempts"]
    row.rejected = {name: n for name, n in summary["verdicts"].items() if name != "passed"}
    row.modelled_cycles_before = sum(bundle["k0"] for bundle in summary["bundles"])
    row.modelled_cycles_after = sum(bundle["best"] for bundle in summary["bundles"])
    require(row.modelled_cycles_after < row.modelled_cycles_before, f"{row.kernel}: no gain")
    best, original = ((folder / name).read_bytes() for name in ("best.hsaco", "k0.hsaco"))
    require(best != original, f"{row.kernel}: the committed object is K0")
    for bundle in row.bundles:
        run("replay", bundle, "--hsaco", folder / "best.hsaco", "--json")


def serve_swapped(folder: Path, environment: Mapping[str, str]) -> tuple[Answers, Counter[str]]:
    """Answers of a server started through the shim, and how many objects it swapped and kept."""
    prefix = (*_ASMEVO, "swap", "run", str(folder), "--")
    with DemoServer(environment=environment, prefix=prefix) as server:
        answers = ask_all(server)
    events = run("swap", "status", folder, "--json")["events"]
    return answers, Counter(event["kind"] for event in events if event["k0_sha256"])


def damage(folder: Path, target: Path) -> Path:
    """A copy of a swap folder: one object with a flipped byte, one missing."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("log"))
    flipped, missing, *_ = sorted(target.glob("*.hsaco"))
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    missing.unlink()
    return target


def show_table(rows: Mapping[str, Row]) -> None:
    """The result, a row a kernel."""
    table = Table(title="asmevo on the emulated device (all times modelled, none measured)")
    for title in ("kernel", "dispatches", "bundles", "candidates", "rejected", "modelled cycles",
                  "answers equal"):  # fmt: skip
        table.add_column(title, justify="left" if title in ("kernel", "rejected") else "right")
    for row in rows.values():
        before, after = row.modelled_cycles_before, row.modelled_cycles_after
        table.add_row(
            row.kernel,
            str(len(row.bundles)),
            f"{row.bundle_bytes / 1024:.0f} KiB",
            str(row.tried),
            ", ".join(f"{count} {name}" for name, count in sorted(row.rejected.items())) or "none",
            f"{before:,.0f} → {after:,.0f} ({before / after:.3f}x)",
            f"{row.answers_compared} of {row.answers_compared}",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def main_job(folder: Path, candidates: int) -> dict[str, Row]:
    """All steps; NotVerifiedError at the first that is not verified."""
    environment = Device.parse("emulated:mi300x").environment(os.environ)
    with step("server answers four kernels as torch does"):
        context = DemoServer(environment=environment)
        server = context.__enter__()
    try:
        with step("every answer checked against torch"):
            expected = ask_all(server)
        with step(f"capture {DISPATCHES} dispatches a kernel from the live process"):
            paths, asked = capture(server, folder / "bundles", expected)
        with step("the server goes on with the same answers"):
            require(server.is_alive and ask_all(server) == expected, "answers changed")
    finally:
        context.__exit__(None, None, None)
    rows = sort_bundles(paths)
    with step("replay: K0 gives the golden output from every bundle"):
        for row in rows.values():
            replay(row)
    (folder / "recovered").mkdir()
    with step("recover and rebuild: text, descriptors, metadata identical"):
        texts = {symbol: recover(row, folder / "recovered") for symbol, row in rows.items()}
    with step("a candidate with one instruction changed is divergent"):
        reason = show_divergence(rows["softmax_kernel"], texts["softmax_kernel"])
    _console.print(f"  [dim]{escape(reason)}[/]")
    for row in rows.values():
        with step(f"optimize {row.kernel}"):
            optimize(row, folder / "runs" / row.kernel, candidates)
    swap = folder / "swap"
    run("swap", "pack", *(folder / "runs" / symbol for symbol in rows), "-o", swap)
    with step("a server through the shim runs the optimized objects, answers equal"):
        answers, events = serve_swapped(swap, environment)
        require(events == {"swapped": len(rows)}, f"the log says {dict(events)}")
        require(answers == expected, "answers changed")
    with step("a damaged and a missing object: K0 runs, and the log says so"):
        answers, events = serve_swapped(damage(swap, folder / "damaged"), environment)
        require(events == {"swapped": len(rows) - 2, "kept": 2}, f"the log says {dict(events)}")
        require(answers == expected, "answers changed")
    for name, symbol in KERNELS.items():
        # While capturing, after it, swapped, and with damaged objects: every one was equal.
        rows[symbol].answers_compared = asked[name] + 3
    return rows


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description="asmevo's main job on the emulated device")
    parser.add_argument("-o", "--output", type=Path, help="keep everything in this new folder")
    parser.add_argument("--candidates", type=int, default=40, help="most to judge for a kernel")
    parser.add_argument("--json", action="store_true", help="print the table as one JSON object")
    arguments = parser.parse_args()
    folder = arguments.output or Path(tempfile.mkdtemp(prefix="asmevo-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        rows = main_job(folder, arguments.candidates)
    except (NotVerifiedError, AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
        _console.print("[red]not verified:[/]", escape(str(error)))
        return 1
    if arguments.json:
        print(json.dumps({symbol: asdict(row) for symbol, row in rows.items()}, default=str))
    else:
        show_table(rows)
    _console.print(f"[dim]{time.monotonic() - started:.0f} s, everything kept in {folder}[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
