"""Captures one dispatch of each kernel of a case, as a bundle that outlives the case."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from asmevo.capture.attach import attach
from asmevo.capture.collector import collect
from asmevo.capture.outcome import Captured, CaptureOptions
from asmevo.errors import AsmevoError
from asmevo.files import write_whole

__all__ = ["BundleSource", "record"]

_HERE = Path(__file__).resolve().parent
_TIMEOUT_S = 300.0
_MAX_BYTES = 256 << 20
# A file beside the bundles says that the case ran to its end.
_DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSource:
    """A case of tests/kernels on one architecture."""

    case: str
    arch: str
    kernels: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where its bundles are kept."""
        root = os.environ.get("ASMEVO_CACHE")
        cache = Path(root) if root else Path.home() / ".cache" / "asmevo"
        return cache / "mutation_bench" / self.arch / self.case


class _Silent:
    def attached(self, pid: int) -> None:
        """Nothing is shown."""

    def captured(self, captured: Captured) -> None:
        """Nothing is shown."""

    def refused(self, kernel: str, reason: str) -> None:
        """Said on stderr: the kernel will be missing from the bench."""
        print(f"not captured: {kernel}: {reason}", file=sys.stderr)


def record(source: BundleSource) -> tuple[Path, ...]:
    """Bundles of the case, captured unless they are there already.

    Raises:
        AsmevoError: The case cannot be run or captured.
    """
    folder = source.folder
    if not (folder / _DONE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        _capture(source, folder)
        write_whole(folder / _DONE, b"")
    return tuple(sorted(folder.glob("*.aeb")))


def _capture(source: BundleSource, folder: Path) -> None:
    command = [sys.executable, "-m", "asmevo", "emulate", "--arch", source.arch, "--threads", "1"]
    command += ["--", sys.executable, str(_HERE / "record_case.py"), source.case, source.arch]
    kernels = _HERE.parent / "kernels"
    environment = os.environ | {
        "PYTHONPATH": f"{kernels}:{os.environ.get('PYTHONPATH', '')}",
        "OMP_NUM_THREADS": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            _wait_for(child, "ready")
            options = CaptureOptions(
                globs=source.kernels,
                count=1,
                timeout_s=_TIMEOUT_S,
                max_bytes=_MAX_BYTES,
                output=folder,
            )
            with attach(child.pid) as target:
                go = threading.Timer(1.0, _start, (child,))
                go.start()
                collect(target, options, _Silent())
        finally:
            child.kill()


def _start(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def _wait_for(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == word:
            return
    raise AsmevoError(f"the case ended before it was {word}")
